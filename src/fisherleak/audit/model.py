r"""From the rows of a table to a fitted linear model and its leakage.

A model is fitted on standardised features (``tables.design``). Leakage of several columns at once is measured in *standard
units*: every number, and the label of a linear model, in standard deviations of its column, so that it does not depend on
kilograms or years. With J the Jacobian in standard units and :math:`s_y` the standard deviation of the label,

.. math:: \eta = \|J\| / (\sigma / s_y), \qquad \eta_{raw}(\mathrm{column}) = \eta(\mathrm{column}) / s_{column} .
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fisherleak._support.checks import check_positive
from fisherleak._support.namespaces import TableLike, VectorLike
from fisherleak.audit.defaults import DEFAULT_L2
from fisherleak.audit.kinds import Kind, kind_of, label_rules
from fisherleak.audit.noises import PLAIN
from fisherleak.engine.erm import Fit, minimise
from fisherleak.engine.information import rounding_of
from fisherleak.engine.jacobian import Jacobian, jacobian_of
from fisherleak.engine.noise import Noise
from fisherleak.engine.norms import information_of
from fisherleak.engine.perturbation import Attribute
from fisherleak.errors import FisherleakError, InvalidInputError, NotConvergedError, UnsupportedModelError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measure import measure
from fisherleak.models import as_table
from fisherleak.models.wrapper import fit_weighted
from fisherleak.protection.calibration import calibrate, enough
from fisherleak.protection.irfil import IRFIL
from fisherleak.protection.release import set_parameters
from fisherleak.rows import gather
from fisherleak.tables import Choices, Design, Feature, RawTable, Room, design_of

__all__ = [
    "DEFAULT_L2",
    "MeasuredRows",
    "Settings",
    "Trained",
    "calibrated_scale",
    "estimator_for",
    "own_parameters",
    "pipeline_of",
    "reweighted",
    "train",
]

LARGEST_LIMIT = 1e60
"""Limits beyond this, or below its inverse, lead to scales that overflow."""
BLOCK_VALUES = 2_000_000
"""Cells whose eta is held in memory at a time."""
Vector = NDArray[np.float64]


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
    decimal: str | None = None
    na: tuple[str, ...] = ()
    unite: tuple[str, ...] = ()
    keep_total: bool = False

    @property
    def choices(self) -> Choices:
        return Choices(**{item.name: getattr(self, item.name) for item in fields(Choices)})


@dataclass(frozen=True)
class Trained:
    """A fitted model and what it reveals, with noise of scale 1 in standard units."""

    kind: Kind
    design: Design
    l2: float
    fit: Fit = field(repr=False)
    leak: Leakage = field(repr=False)

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
        return MeasuredRows(self.model, self.leak.noise, X, y, weights)

    def with_noise(self, noise: Noise) -> Trained:
        """The same model, measured with another noise at scale 1."""
        unit = noise.rescaled(1.0)
        return self if unit == self.leak.noise else replace(self, leak=self.leak.with_noise(unit))

    @property
    def model(self) -> Jacobian:
        """The Jacobian without rows: what a block of them has to know, and small enough to travel there."""
        fit = replace(self.fit, sample_weight=None)
        nothing = np.empty((0, int(self.design.X.shape[1])))
        return jacobian_of(fit, nothing, nothing[:, 0], self.leak.noise, tuple(_attributes(self.design)))


@dataclass(frozen=True)
class MeasuredRows:
    """Some training rows in memory, and what the model reveals about them with noise of scale 1, in standard units."""

    model: Jacobian = field(repr=False)
    noise: Noise
    X: Vector
    y: Vector
    weights: Vector | None = None

    @property
    def leak(self) -> Leakage:
        fit = replace(self.model.fit, sample_weight=self.weights)
        jacobian = replace(self.model, fit=fit, X=self.X, y=self.y)
        return Leakage(information_of(jacobian), self.noise, as_table(self.X))

    def cells(self) -> Vector:
        """Eta of every column of every row."""
        return np.asarray(self.leak.per_cell())


def train(raw: RawTable, settings: Settings, room: Room | None = None) -> Trained:
    """Read off the rows and features, fit, and measure with noise of scale 1; in memory where ``room`` is not given."""
    l2 = check_positive(settings.l2, "l2", zero=True)
    if isinstance(settings.seed, bool) or not isinstance(settings.seed, int) or settings.seed < 0:
        raise InvalidInputError(f"seed must be a whole number, zero or more; got {settings.seed!r}.")
    rules = label_rules()
    design = design_of(raw, settings.choices, settings.model, settings.held_out, settings.seed, room, rules)
    return _trained(kind_of(design.target.kind), design, l2, None)


def _trained(kind: Kind, design: Design, l2: float, weights: Vector | None) -> Trained:
    try:
        fit = minimise(design.X, design.y, kind.loss, l2, sample_weight=weights, intercept=True)
    except FisherleakError as error:
        raise type(error)(_in_columns(str(error), design)) from None
    leak = measure(fit, design.X, design.y, PLAIN, attributes=_attributes(design))
    if not np.isfinite(np.asarray(fit.theta)).all():
        raise NotConvergedError("The fit overflows: use a larger `l2`, or bring the columns to ordinary units.")
    return Trained(kind, design, l2, fit, leak)


def _in_columns(sentence: str, design: Design) -> str:
    """A sentence about features, x0 and so on, in the names of the table's columns."""
    names = {j: feature.name for feature in design.features for j in feature.columns}
    levels = {j: f.levels[k] for f in design.features if f.levels for k, j in enumerate(f.columns, start=1)}

    def name(found: re.Match[str]) -> str:
        j = int(found[1])
        return found[0] if j not in names else f"'{names[j]}'" + (f" ({levels[j]})" if j in levels else "")

    return re.sub(r"'x(\d+)'", name, sentence)


def reweighted(trained: Trained, n_iter: int = 15) -> Trained:
    """The same model with the weights of IRFIL, which reveals as much about every row."""
    design, estimator = trained.design, estimator_for(trained)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the model is fitted to its minimum below
        balanced = IRFIL(estimator, n_iter=n_iter).fit(design.X, design.y)
    return _trained(trained.kind, design, trained.l2, np.asarray(balanced.weights_)).with_noise(trained.leak.noise)


def calibrated_scale(
    trained: Trained, limit: float, attribute: str | None = None, largest: float | None = None
) -> float:
    """The least scale on the model's own coefficients with which no eta is above a limit.

    The limit is on every row, in standard units, or on every value of one column, in the column's own unit. ``largest`` is
    the largest eta of a row at noise of scale 1 where it is known.
    """
    limit = check_positive(limit, "eta")
    if not 1 / LARGEST_LIMIT <= limit <= LARGEST_LIMIT:
        raise InvalidInputError(f"eta must be between {1 / LARGEST_LIMIT:g} and {LARGEST_LIMIT:g}; got {limit:g}.")
    if largest is not None and attribute is None:
        return float(enough(trained.leak.noise, largest * (1.0 + rounding_of(trained.fit)), limit).scale) * trained.unit
    if attribute is None:
        return float(calibrate(trained.leak, limit).scale) * trained.unit
    unit = {feature.name: feature.scale for feature in trained.design.features}
    noise = calibrate(trained.leak, limit * unit.get(attribute, 1.0), attributes=[attribute])
    return float(noise.scale) * trained.unit


def _attributes(design: Design) -> list[Attribute]:
    return [Attribute(feature.name, feature.columns) for feature in design.features]


def estimator_for(trained: Trained) -> Any:
    """The scikit-learn model whose minimum is that of ``minimise`` with this l2."""
    kind = trained.kind
    if kind.estimator is None:
        raise UnsupportedModelError(
            f"No model of scikit-learn has the minimum of a {kind.words}: attacks, balancing and releases need one."
        )
    return kind.estimator(trained.design.n, trained.l2)


def pipeline_of(trained: Trained) -> tuple[Pipeline, Any, NDArray[Any]]:
    """The same model as a scikit-learn pipeline over the raw columns, with the frame and labels it was fitted on."""
    design = trained.design
    frame, labels = design.frame(), design.labels()
    model = Pipeline([("columns", _preprocessing(design)), ("model", estimator_for(trained))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its parameters are replaced by those of the exact minimum
        fit_weighted(model, frame, labels, trained.weights)
    numbers = [feature for feature in design.features if feature.kind == "number"]
    if numbers:
        scaler = model[0].named_transformers_["numbers"]
        scaler.mean_ = np.array([feature.centre for feature in numbers])
        scaler.scale_ = np.array([feature.scale for feature in numbers])
        scaler.var_ = scaler.scale_**2
    for step, categories in _encoded(design).items():
        # levels of the type that a file's columns are read in: objects are not compared with whole numbers
        model[0].named_transformers_[step].categories_ = [_typed(feature.levels) for feature in categories]
    set_parameters(model[-1], own_parameters(trained))
    return model, frame, labels


def _preprocessing(design: Design) -> ColumnTransformer:
    numbers = [feature.name for feature in design.features if feature.kind == "number"]
    steps: list[tuple[str, Any, list[str]]] = []
    if numbers:
        steps.append(("numbers", StandardScaler(), numbers))
    for step, categories in _encoded(design).items():
        levels = [_as_objects(feature.levels) for feature in categories]
        # the first of pooled levels stands for all that are not named
        unknown = "ignore" if step == "pooled" else "error"
        encoder = OneHotEncoder(drop="first", categories=levels, sparse_output=False, handle_unknown=unknown)
        steps.append((step, encoder, [feature.name for feature in categories]))
    return ColumnTransformer(steps)


def _encoded(design: Design) -> dict[str, list[Feature]]:
    """Categories by the step of the pipeline that encodes them, in the order of the features."""
    categories = [feature for feature in design.features if feature.kind == "category"]
    steps = {"categories": [f for f in categories if not f.pooled], "pooled": [f for f in categories if f.pooled]}
    return {step: some for step, some in steps.items() if some}


def own_parameters(trained: Trained) -> Vector:
    """Coefficients and intercept in the units of the target, (p + 1,)."""
    target = trained.design.target
    theta = target.scale * np.asarray(trained.fit.theta)
    theta[-1] += target.centre
    return theta


def _typed(levels: tuple[Any, ...]) -> NDArray[Any]:
    """Numbers and truth values as such, text as objects."""
    return _as_objects(levels) if any(isinstance(level, (str, bytes)) for level in levels) else np.array(levels)


def _as_objects(levels: tuple[Any, ...]) -> NDArray[Any]:
    array = np.empty(len(levels), dtype=object)
    array[:] = levels
    return array
