r"""From the rows of a table to a fitted linear model and its leakage.

Mathematics: 1.4, ``docs/mathematics/fits.md``.

Also here: what a balanced model reveals with its weights: they follow from the data, and eta counts that.

Weights of IRFIL are found in ``ROUNDS`` reweightings, each from the etas of a fit. A value of a row moves all of these fits
and, through them, every weight; ``protection.irfil.whole_procedure`` has the exact derivative of the last parameters,

.. math:: J_i = \frac{d\,\theta(\omega(D), D)}{d\,(x_i, y_i)} ,

with the scales of columns in the penalty counted where preprocessing is. Eta with the weights held fixed can be far smaller, or
larger: a limit is on :math:`\|J_i\|`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from fisherleak._support.checks import check_positive, column_names
from fisherleak._support.namespaces import TableLike, Vector, VectorLike
from fisherleak.engine.fit.minimise import Fit, minimised_on
from fisherleak.engine.fit.training_data import training_data
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.folding import Folding
from fisherleak.engine.jacobian.perturbation import Attribute, absent_in
from fisherleak.engine.losses import get_loss
from fisherleak.engine.noise import Noise
from fisherleak.engine.norms import information_of, one_release
from fisherleak.errors import FisherleakError, InvalidInputError, NotConvergedError, UnsupportedModelError
from fisherleak.leakage.compositions import with_label_unit
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.leakage.membership_distance import FrameColumn, RowsFrame
from fisherleak.models import Reading, as_table
from fisherleak.protection.calibrate.calibration import calibrate, enough
from fisherleak.protection.certificates.data_dependent_covariance import ShapeTerm, knows_shape, shape_term
from fisherleak.protection.irfil.whole_procedure import Procedure
from fisherleak.rows import gather, map_rows
from fisherleak.rows.summary import digest
from fisherleak.tables import Choices, Design, RawTable, Room, design_of
from fisherleak.training.defaults import DEFAULT_L2, PUBLIC
from fisherleak.training.model_kinds import Kind, kind_of, label_rules
from fisherleak.training.noise_words import PLAIN

ROUNDS = 15
"""Reweightings of a balanced model."""
SAME = 1e-6
"""Relative difference up to which weights found twice are the same."""
ERROR = 1e-5
"""Of these etas, relative: differences stand in for the loss's third derivatives."""


@dataclass(frozen=True)
class Weighting:
    """How the weights of a balanced model came about, in standard units."""

    procedure: Procedure = field(repr=False)
    weights: Vector = field(repr=False)
    """Of each row, in the last fit."""

    @cached_property
    def _derivative(self) -> Vector:
        rounds = self.procedure.run()
        if not np.allclose(rounds[-1].weights, self.weights, rtol=SAME, atol=0.0):
            raise NotConvergedError(
                "The weights of IRFIL differ from one computation to the next, and no eta that counts them is certain: use a "
                "larger `l2`, or leave `balance` out."
            )
        return self.procedure.derivative(rounds)

    def check(self) -> None:
        """Refuse weights that cannot be counted."""
        _ = self._derivative

    def etas(self, noise: Noise, column: str | None = None) -> Vector:
        """Of each row, or of each person, with the weights counted; of one column alone, or of everything."""
        J, names = self._derivative, [attribute.name for attribute in self.procedure.attributes]
        place = None if column is None else names.index(column)
        if place is not None:
            sizes = [attribute.size for attribute in self.procedure.attributes]
            J = J[:, :, sum(sizes[:place]) : sum(sizes[: place + 1])]
        eta, owners = self.procedure.norms(J, noise, place)[0], self.procedure.owners
        return eta if owners is None else eta[np.unique(owners, return_index=True)[1]]

    def largest(self, noise: Noise, column: str | None = None) -> float:
        """One that no eta is above, rounding and differences included."""
        return float(np.max(self.etas(noise, column))) * (1.0 + ERROR)


LARGEST_LIMIT = 1e60
"""Limits beyond this, or below its inverse, lead to scales that overflow."""
BLOCK_VALUES = 2_000_000
"""Cells whose eta is held in memory at a time."""


@dataclass(frozen=True)
class Settings:
    """All that decides the model, but for the table: the same settings on the same table give the same model."""

    target: str
    model: str = "auto"
    l2: float = DEFAULT_L2
    held_out: float = 0.25
    seed: int = 0
    numbers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    id: str | None = None
    group: str | None = None
    person: str | None = None
    """The column that tells which rows belong to one person: they count as one set."""
    public: str = "nothing"
    """"nothing": what scaling learned is counted, end to end; "preprocessing": it is taken as known, as in the paper."""
    levels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Levels of categories that are declared public, by column."""
    rare: int = 0
    """Levels that are not declared and have fewer training rows than this are pooled into one."""
    decimal: str | None = None
    na: tuple[str, ...] = ()
    unite: tuple[str, ...] = ()
    keep_total: bool = False
    intercept_l2: float = 0.0
    """The penalty of the intercepts of several classes, at the columns' public centres; zero where they are free."""
    missing: str = "impute"
    """"impute": missing cells are filled inside the model; "drop": rows that lack a column are left out."""
    bounds: tuple[tuple[str, tuple[float, float]], ...] = ()
    """(low, high) of numbers and of the target that are declared, by column: centre and scale follow from them alone."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """As cards and ledgers have them, in JSON types; earlier ones left out rows that lacked a cell, and did not say so."""
        known = {item.name for item in fields(cls)}
        given = {"missing": "drop"} | {name: value for name, value in record.items() if name in known}
        return cls(**{name: _tuples(value) for name, value in given.items()})

    @property
    def id_columns(self) -> frozenset[str]:
        """Columns whose cells stay text, whatever they hold: as numbers, 1.1 and 1.10 are one."""
        return frozenset(name.strip() for name in (self.id, self.person) if name is not None)

    @property
    def choices(self) -> Choices:
        return Choices(**{item.name: getattr(self, item.name) for item in fields(Choices)})


def _tuples(value: Any) -> Any:
    """Lists of JSON, inside one another, as settings have them."""
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Trained:
    """A fitted model and what it reveals, with noise of scale 1 in standard units."""

    kind: Kind
    design: Design
    l2: float
    fit: Fit = field(repr=False)
    leak: Leakage = field(repr=False)
    public: str = "nothing"
    shaped_at: float | None = None
    """The scale, in standard units, of noise shaped like these rows' own G^-1: what that tells at this scale is counted."""
    weighting: Weighting | None = field(default=None, repr=False)
    """How weights of a balanced model follow from the rows, where etas of rows, or of people, count that."""

    @cached_property
    def shape(self) -> ShapeTerm | None:
        """What such a shape tells by itself; None for other noise."""
        if self.shaped_at is None:
            return None
        return shape_term(measurement(self.leak).information.jacobians[0], self.leak.noise)

    @property
    def folding(self) -> Folding | None:
        """How the scales of columns move with the rows; None where they are public, or where nothing moves them."""
        return one_release(measurement(self.leak).information).folding

    @property
    def unit(self) -> float:
        """The scale of noise on the model's own coefficients that is 1 in standard units."""
        return self.design.target.scale

    @property
    def weights(self) -> Vector | None:
        return None if self.fit.sample_weight is None else np.asarray(self.fit.sample_weight)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Features, labels and weights of the training rows, lazy or not."""
        return self.design.X, self.design.y, self.fit.sample_weight

    @property
    def block(self) -> int:
        """Rows whose cells are held at a time."""
        return max(1, BLOCK_VALUES // int(self.design.X.shape[1]))

    def take(self, rows: Any) -> MeasuredRows:
        """Some rows, in memory."""
        found: list[Any] = gather(self.arrays, rows)
        return self.measured(*found)

    def measured(self, X: TableLike, y: VectorLike, weights: VectorLike = None) -> MeasuredRows:
        """Rows of features, labels and weights, with what the model reveals about them."""
        return self.known_of_rows(X, y, weights)

    @property
    def known_of_rows(self) -> Callable[..., MeasuredRows]:
        """The same as a function of blocks, without the rows: small enough to travel to them."""
        model, noise, shape, scale = self.model, self.leak.noise, self.shape, self.shaped_at or 0.0

        def block(X: TableLike, y: VectorLike, weights: VectorLike = None) -> MeasuredRows:
            return MeasuredRows(model, noise, X, y, weights, shape, scale)

        return block

    def each_eta(self) -> Any:
        """Eta of every row, (n,), lazy where the rows are; of every person, (people,), where rows belong to people."""
        people = self.design.people
        if self.weighting is not None:
            return self.weighting.etas(self.leak.noise)
        if people is not None:
            return np.array([*self.leak.by_person(people.of_row).values()])
        eta, shape, scale = self.leak.per_example(), self.shape, self.shaped_at
        if shape is None or scale is None:
            return eta
        X, _, weights = self.arrays
        return map_rows(lambda own, x, w: np.hypot(own, scale * shape.rows(x, w)), eta, X, weights)

    def most_by_shape(self) -> float | None:
        """The largest eta that a data-dependent covariance has by itself, at every scale; None for other noise."""
        shape = self.shape
        if shape is None:
            return None
        X, _, weights = self.arrays
        return digest(map_rows(lambda x, w: shape.rows(x, w), X, weights), 1).high

    def with_noise(self, noise: Noise) -> Trained:
        """The same model, measured with another noise at scale 1."""
        unit, own = noise.rescaled(1.0), noise.scale / self.unit if knows_shape(noise, self.outputs) else None
        leak = self.leak if unit == self.leak.noise else self.leak.with_noise(unit)
        return self if leak is self.leak and own == self.shaped_at else replace(self, leak=leak, shaped_at=own)

    @property
    def model(self) -> Jacobian:
        """The Jacobian without rows: what a block of them has to know, and small enough to travel there."""
        nothing: Any = np.empty((0, int(self.design.X.shape[1])))
        known = one_release(measurement(self.leak).information)
        fit: Any = replace(self.fit, sample_weight=None)
        return known.of_rows(fit, nothing, nothing[:, 0])

    @property
    def outputs(self) -> int:
        """Rows of parameters: one, or one for each of several classes."""
        return self.fit.outputs

    @property
    def parameters(self) -> int:
        """How many are released."""
        return int(self.fit.theta.shape[0])


@dataclass(frozen=True)
class MeasuredRows:
    """Some training rows in memory, and what the model reveals about them with noise of scale 1, in standard units."""

    model: Jacobian = field(repr=False)
    noise: Noise
    X: Vector
    y: Vector
    weights: Vector | None = None
    shape: ShapeTerm | None = field(default=None, repr=False)
    shaped_at: float = 0.0

    @property
    def leak(self) -> Leakage:
        fit: Any = replace(self.model.fit, sample_weight=self.weights)
        jacobian = self.model.of_rows(fit, self.X, self.y)
        absent = absent_in(self.model.attributes, np.asarray(self.X))
        return Leakage(information_of(jacobian), self.noise, as_table(self.X), _absent=absent)

    def cells(self) -> Vector:
        """Eta of every column of every row, with what a data-dependent covariance reveals; NaN where it is missing."""
        cells = np.asarray(self.leak.per_cell())
        return cells if self.shape is None else np.hypot(cells, self.shaped_at * self.shape.cells(self.X, self.weights))

    def etas(self) -> Vector:
        """Eta of every row, with what a data-dependent covariance reveals."""
        eta = np.asarray(self.leak.per_example())
        return eta if self.shape is None else np.hypot(eta, self.shaped_at * self.shape.rows(self.X, self.weights))


def train(raw: RawTable, settings: Settings, room: Room | None = None, known: Trained | None = None) -> Trained:
    """Read off the rows and features, fit, and measure with noise of scale 1; in memory where ``room`` is not given.

    ``known`` is a model of the same table, whose fit is taken where it is the same.
    """
    l2 = check_positive(settings.l2, "l2", zero=True)
    if isinstance(settings.seed, bool) or not isinstance(settings.seed, int) or settings.seed < 0:
        raise InvalidInputError(f"seed must be a whole number, zero or more; got {settings.seed!r}.")
    if settings.public not in PUBLIC:
        raise InvalidInputError(f"public must be one of {', '.join(PUBLIC)}; got {settings.public!r}.")
    rules = label_rules()
    design = design_of(raw, settings.choices, settings.model, settings.held_out, settings.seed, room, rules)
    own = check_positive(settings.intercept_l2, "intercept_l2", zero=True)
    return trained_on(kind_of(design.target.kind), design, l2, None, settings.public, own, known)


def trained_on(
    kind: Kind,
    design: Design,
    l2: float,
    weights: Vector | None,
    public: str,
    intercept_l2: float = 0.0,
    known: Trained | None = None,
) -> Trained:
    """Fit a design's rows, and measure with noise of scale 1; ``known`` may have been fitted on the same."""
    try:
        reading = _reading(kind, design, l2, weights, intercept_l2, known)
    except FisherleakError as error:
        raise type(error)(_in_columns(str(error), design)) from None
    fit = reading.fit
    if not np.isfinite(np.asarray(fit.theta)).all():
        raise NotConvergedError("The fit overflows: use a larger `l2`, or bring the columns to ordinary units.")
    reading = replace(reading, folding=_folding(design, fit) if public == "nothing" else None)
    frames = _frames(design) if public == "nothing" else ()
    leak = Leakage(reading.information(PLAIN), PLAIN, as_table(design.X), _frames=frames)
    return Trained(kind, design, l2, fit, leak, public)


def _reading(
    kind: Kind,
    design: Design,
    l2: float,
    weights: Vector | None,
    intercept_l2: float,
    known: Trained | None = None,
) -> Reading:
    """The table's model as any other is read: a fit on its training data, with the columns as attributes."""
    scales = spreads_in(design)[1]
    if intercept_l2 and not kind.several:
        raise InvalidInputError(
            f"intercept_l2 is {intercept_l2:g}, and intercepts of one output are free: leave it out."
        )
    classes = design.target.classes if kind.several else None
    loss = get_loss(kind.loss)
    data = training_data(design.X, design.y, weights, loss, column_names(design.X), True, classes)
    if known is not None and weights is None and _same_fit(known, kind, design, (l2, intercept_l2)):
        return Reading(known.fit, data, tuple(_attributes(design)))
    # l2 is per row here: a table without some of its rows is trained with their part of the penalty less
    fit = replace(minimised_on(data, loss, l2, True, scales, intercept_l2), per_row=True)
    # rows count the label in its standard unit, whatever the unit that it is fitted in
    fit = replace(fit, loss=with_label_unit(fit.loss, design.target.counted))
    return Reading(fit, data, tuple(_attributes(design)))


def _same_fit(known: Trained, kind: Kind, design: Design, penalties: tuple[float, float]) -> bool:
    """Whether a model was fitted on the same rows and labels in memory, in the same units, with the same penalties."""
    own, target, other = known.design, design.target, known.design.target
    if design.lazy or own.lazy or penalties != (known.l2, known.fit.intercept_l2) or known.weights is not None:
        return False
    same = (kind, target.classes, target.counted) == (known.kind, other.classes, other.counted)
    pairs = zip((design.X, design.y, *spreads_in(design)), (own.X, own.y, *spreads_in(own)), strict=True)
    return same and known.fit.per_row is True and all(np.array_equal(one, two) for one, two in pairs)


def with_penalty(trained: Trained, l2: float, intercept_l2: float) -> Trained:
    """The same rows and weights with another penalty; what it reveals is not measured."""
    reading = _reading(trained.kind, trained.design, l2, trained.fit.sample_weight, intercept_l2)
    return replace(trained, l2=l2, fit=reading.fit)


def spreads_in(design: Design) -> tuple[Vector, Vector]:
    """Exact means and standard deviations of the features in standard units, (d,) each; those of indicators are 0 and 1."""
    means, spreads = np.zeros(design.X.shape[1]), np.ones(design.X.shape[1])
    for feature in design.features:
        if feature.kind == "number":
            (k,) = feature.columns
            means[k] = (feature.mean - feature.centre) / feature.scale
            spreads[k] = feature.spread / feature.scale
    return means, spreads


def _folding(design: Design, fit: Fit) -> Folding | None:
    """How the standard deviations in the penalty move with the rows: they are those of all training rows alike, unweighted.

    None where nothing moves them: without a penalty, or without numbers.
    """
    means, _ = spreads_in(design)
    numbers = [k for feature in design.features if feature.kind == "number" for k in feature.columns]
    slopes = np.zeros(means.size)
    # the term of several outputs has each one's coefficient beside what is kept here
    slopes[numbers] = 2.0 * fit.l2 * (1.0 if fit.loss.several else np.asarray(fit.coef)[numbers])
    if not slopes.any():
        return None
    nothing, totals = np.empty((0, means.size)), np.zeros(means.size)
    totals[numbers] = design.n
    # features are in the public units already, so that the space of the noise is that of the parameters
    return Folding(slopes, means, False, nothing, nothing, np.eye(means.size + 1), totals)


def _frames(design: Design) -> tuple[RowsFrame, ...]:
    """The centres and scales that no declared bounds give: they come from the rows, and a model card has them."""
    moved, target = design.unbounded, design.target
    columns = [
        FrameColumn(f.columns[0], f.centre, f.scale, f.centre, f.scale) for f in design.features if f.name in moved
    ]
    if target.name in moved:
        own = (target.centre, target.unit, target.centre, target.scale)
        # of labels that are not standardised the unit alone is public
        columns.append(FrameColumn(None, *own, centred=target.standardised))
    return (RowsFrame(design.X, design.y, None, tuple(columns), published=True),) if columns else ()


def _in_columns(sentence: str, design: Design) -> str:
    """A sentence about features, x0 and so on, in the names of the table's columns."""
    names = {j: feature.name for feature in design.features for j in feature.columns}
    levels = {j: f.levels[k] for f in design.features if f.levels for k, j in enumerate(f.columns, start=1)}

    def name(found: re.Match[str]) -> str:
        j = int(found[1])
        return found[0] if j not in names else f"'{names[j]}'" + (f" ({levels[j]})" if j in levels else "")

    return re.sub(r"'x(\d+)'", name, sentence)


def calibrated_scale(
    trained: Trained, limit: float, attribute: str | None = None, top: Sequence[tuple[int, float]] | None = None
) -> float:
    """The least scale on the model's own coefficients with which no eta is above a limit.

    The limit is on every row (every person, where rows belong to people), in standard units, or on every value of one column,
    in the column's own unit. ``top`` are the most exposed with their etas at noise of scale 1 where they are known. Of a
    balanced model etas count the weights.
    This is the one place where a scale is chosen.
    """
    limit = check_positive(limit, "eta")
    if not 1 / LARGEST_LIMIT <= limit <= LARGEST_LIMIT:
        raise InvalidInputError(f"eta must be between {1 / LARGEST_LIMIT:g} and {LARGEST_LIMIT:g}; got {limit:g}.")
    unit = {feature.name: feature.scale for feature in trained.design.features}
    if trained.weighting is not None:
        # refuses a name that is none
        measurement(trained.leak).chosen(None if attribute is None else [attribute], None)
        own = 1.0 if attribute is None else unit.get(attribute, 1.0)
        largest = trained.weighting.largest(trained.leak.noise, attribute)
        return float(enough(trained.leak.noise, largest, limit * own).scale) * trained.unit
    if trained.design.people is not None and attribute is None:
        largest = float(np.max(trained.each_eta())) if top is None else max(eta for _, eta in top)
        largest *= 1.0 + measurement(trained.leak).information.error
        return float(enough(trained.leak.noise, largest, limit).scale) * trained.unit
    if top is not None and attribute is None:
        largest = measurement(trained.leak).certain(None, None, top)
        return float(enough(trained.leak.noise, largest, limit).scale) * trained.unit
    if attribute is None:
        return float(calibrate(trained.leak, limit).scale) * trained.unit
    noise = calibrate(trained.leak, limit * unit.get(attribute, 1.0), attributes=[attribute])
    return float(noise.scale) * trained.unit


def _attributes(design: Design) -> list[Attribute]:
    return [Attribute(feature.name, feature.columns, gaps=feature.filled) for feature in design.features]


def estimator_for(trained: Trained) -> Any:
    """The scikit-learn model whose minimum is that of ``minimise`` with this l2."""
    kind = trained.kind
    if kind.estimator is None:
        raise UnsupportedModelError(
            f"scikit-learn has no model with the minimum of a {kind.words}, and attacks, balancing and releases need one."
        )
    return kind.estimator(trained.design.n, trained.l2)
