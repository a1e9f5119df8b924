r"""A log of queries compared with a table: who is exposed by what an interface has answered.

The model is the one that an audit of the table fits; queries become its features as a released model would take them. Answers
with noise hold :math:`\sum_q g_q^2 x_q x_q^T` about the parameters (``engine.mechanisms.served``). Answers of a model that was
released with normal noise of covariance S and that answers exactly hold, with X the distinct queries,

.. math:: X^T (X S X^T)^{+} X ,

which is the release's own information :math:`S^{-1}` along what the queries look at, and never more, however often they are
asked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fisherleak._support.arrays import host
from fisherleak._support.level_types import as_number
from fisherleak._support.namespaces import Json, Vector
from fisherleak._support.numbers import number
from fisherleak.auditing.exposure.revealed import LARGEST, prior_spreads, spreads_in_units
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.mechanisms.interface_answers import Answers, Disclosed, SampledLabels, has_law, told_by
from fisherleak.engine.noise import Gaussian, Noise
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.leakage.shares import rms_etas, share_of, share_unknown
from fisherleak.protection.certificates.data_dependent_covariance import ShapeTerm, knows_shape, shape_term
from fisherleak.tables import Design, Feature, RawTable
from fisherleak.tables.read.arrow_columns import as_numbers
from fisherleak.training.noise_words import as_noise
from fisherleak.training.trained_model import Settings, Trained

ANSWERED = ("score", "probability", "label")
SCHEMA = "fisherleak.answers/1"
ROUNDING = 2.0**-52
"""Times the larger side of a matrix: directions that queries look along by less than this part of the most are not told. A
direction that is looked along by little is told whole, since answers are exact."""
MOST_LISTED = 20


@dataclass(frozen=True)
class Answered:
    """What answers to queries reveal about the rows of a table, in standard units.

    Attributes
    ----------
    trained : Trained
        The model behind the interface.
    queries, distinct : int
        How many were asked, and how many different ones.
    of : str
        What was answered.
    how : str
        In words: the noise on each answer, or the release that answers.
    repeats : bool
        Whether asking again tells more.
    leak : Leakage
        Of all answers together, the shape of noise held fixed.
    shape : ShapeTerm or None
        What a shape that is the rows' own tells by itself, which answers tell no more of than the model does.
    """

    trained: Trained = field(repr=False)
    queries: int
    distinct: int
    of: str
    how: str
    repeats: bool
    leak: Leakage = field(repr=False)
    shape: ShapeTerm | None = field(default=None, repr=False)

    @cached_property
    def eta(self) -> Vector:
        """(n,) of each training row, with what a data-dependent covariance reveals."""
        eta, (X, _, weights) = np.asarray(host(self.leak.per_example())), self.trained.arrays
        return eta if self.shape is None else np.hypot(eta, self.shape.rows(X, weights))

    @cached_property
    def cells(self) -> Vector:
        """(n, columns); zero for a cell that was filled."""
        cells, (X, _, weights) = np.asarray(host(self.leak.per_cell())), self.trained.arrays
        told = cells if self.shape is None else np.hypot(cells, self.shape.cells(X, weights))
        return np.asarray(np.nan_to_num(told))

    @cached_property
    def exposures(self) -> Vector | None:
        """Root mean squares of eta over what is believed of each value, times its spread, (n, columns): zero for categories.

        None where they are not known: where what answers tell depends on the model itself.
        """
        known = measurement(self.leak)
        if self.shape is not None or share_unknown(known.information, known.noise) is not None:
            return None
        spreads = spreads_in_units(self.trained, prior_spreads(self.trained, {}))[:-1]
        if not np.isfinite(spreads).any():
            return np.zeros((len(self.eta), spreads.size))
        rms = np.minimum(np.asarray(host(rms_etas(self.leak, spreads))), LARGEST)[:, :-1]
        return np.asarray(np.nan_to_num(rms * spreads))


def query_features(design: Design, queries: RawTable, released: bool = False) -> Vector:
    """Queries as features of the model, (m, p), read as the table's columns were: numbers, and levels by their texts.

    A level that is not named counts as the first where a released model answers, which does so itself.
    """
    if not queries.rows:
        raise InvalidInputError(f"{queries.source} has no rows: a log has one row for each query.")
    names = list(dict.fromkeys(feature.of or feature.name for feature in design.features))
    lacking = [name for name in names if name not in queries.names]
    if lacking:
        raise InvalidInputError(
            f"{queries.source} has no column '{lacking[0]}': queries must have the columns that the model uses."
        )
    blocks = []
    for part in queries.parts:
        table = part.read(names)
        X = np.zeros((part.rows, int(design.X.shape[1])))
        for feature in design.features:
            _fill(X, feature, table.column(feature.of or feature.name), design.fills, queries.source, released)
        blocks.append(X)
    return np.concatenate(blocks)


def _fill(X: Vector, feature: Feature, values: Any, fills: bool, source: str, released: bool) -> None:
    if feature.of is not None:
        X[:, feature.columns[0]] = np.isnan(as_numbers(values))
        return
    if feature.kind == "number":
        numbers = as_numbers(values)
        if fills:  # as the model itself fills them: with the public centre
            numbers = np.where(np.isnan(numbers), feature.centre, numbers)
        wrong = np.flatnonzero(~np.isfinite(numbers))
        if wrong.size:
            raise InvalidInputError(
                f"Column '{feature.name}' of {source} has no number in row {int(wrong[0]) + 1}: a query without it has no "
                "answer. Leave such rows out."
            )
        X[:, feature.columns[0]] = (numbers - feature.centre) / feature.scale
        return
    known = {str(as_number(level)): k for k, level in enumerate(feature.levels)}
    texts = [str(as_number(value)) for value in values.to_pylist()]  # integers as text are the same level
    if not (released or feature.open or known.keys() >= set(texts)):
        raise InvalidInputError(
            f"Column '{feature.name}' of {source} has a category that the table lacks: a query with it has no answer. "
            "Leave such "
            "rows out."
        )
    X[:, list(feature.columns)] = np.eye(len(feature.levels))[[known.get(text, 0) for text in texts], 1:]


def answers_with_noise(trained: Trained, queries: RawTable, noise: float | Noise | None, of: str) -> Answered:
    """Answers that each have noise of their own, in the unit of what is answered; labels are drawn, without noise."""
    _check_rows(trained)
    if of not in ANSWERED:
        raise InvalidInputError(f"`of` must be one of {', '.join(ANSWERED)}; got {of!r}.")
    if (noise is None) != (of == "label"):
        raise InvalidInputError(
            f"`of` is {of!r}. A score or a probability needs `noise`, because an answer without noise reveals without limit. A "
            "label is drawn from the model's own probability: leave `noise` out."
        )
    if of != "score" and not (trained.design.target.classes or (of == "label" and has_law(trained.fit.loss))):
        raise InvalidInputError(
            f"`of={of!r}` is for models of classes, and this one is {trained.kind.words}: its answers are scores."
        )
    features = query_features(trained.design, queries)
    if noise is None:
        how = "a label drawn from the model's own probability"
        return _answered(trained, features, "label", how, SampledLabels(features))
    given = as_noise(noise)
    unit = trained.unit if of == "score" else 1.0
    by = Answers(features, given.rescaled(given.scale / unit), of)
    return _answered(trained, features, of, f"noise of scale {number(given.scale)} on each {of}", by)


def _answered(trained: Trained, features: Vector, of: str, how: str, by: Answers | SampledLabels) -> Answered:
    told = told_by(by, features, trained.fit)
    return Answered(trained, len(features), _distinct(features), of, how, True, trained.leak._told(by, told))


def answers_of_release(trained: Trained, queries: RawTable, noise: Noise) -> Answered:
    """Exact answers of a model that was released with noise on its own coefficients: the release, as far as queries look."""
    _check_rows(trained)
    features = query_features(trained.design, queries, released=True)
    root = _projected(trained, features, noise.rescaled(noise.scale / trained.unit))
    by = Answers(features, Gaussian(1.0))  # which closed forms hold: those of normal noise
    how = f"a model released with noise of scale {number(noise.scale)}, which answers exactly"
    leak = trained.leak._told(by, Disclosed(by, root))
    shape = shape_term(measurement(trained.leak).information.jacobians[0], noise) if knows_shape(noise) else None
    return Answered(trained, len(features), _distinct(features), "score", how, False, leak, shape)


def _projected(trained: Trained, features: Vector, noise: Noise) -> Vector:
    """W, (p, p), with W^T W the information about the parameters for centred rows."""
    fit = trained.fit
    if fit.coef.ndim != 1:
        raise InvalidInputError("`released` cannot be given for a model of several outputs: give `noise` in its place.")
    X = with_constant(np.unique(features, axis=0), fit.intercept is not None, None)
    p = X.shape[1]
    root = noise.unit_information_root(p)
    inverse = np.eye(p) if root is None else np.asarray(root)  # S^-1 = inverse^T inverse at scale 1
    looked = X @ np.linalg.inv(inverse)
    _, sizes, V = np.linalg.svd(looked, full_matrices=False)
    rank = int(np.sum(sizes > ROUNDING * max(X.shape) * sizes[0]))
    if rank < p and not noise.normal:
        raise InvalidInputError(
            f"The queries show {rank} of {p} directions of the parameters. For noise that is not normal, what that reveals "
            "has no closed form: audit the release itself, whose eta is an upper bound."
        )
    told = V[:rank] @ inverse / noise.scale
    turn = np.eye(p)
    if fit.centre is not None:
        turn[-1, : p - 1] = -np.asarray(host(fit.centre))
    return np.concatenate([told @ turn, np.zeros((p - rank, p))])


def _check_rows(trained: Trained) -> None:
    if trained.design.lazy:
        raise InvalidInputError(
            "Answers are checked against rows in memory: take fewer rows, or a machine with more memory."
        )
    if trained.design.people is not None:
        raise InvalidInputError("`person` cannot be given here: answers are checked against single rows. Leave it out.")


def _distinct(features: Vector) -> int:
    return len(np.unique(features, axis=0))


def answers_document(found: Answered, settings: Settings, limit: float | None) -> Json:
    """What a machine reads: JSON types only. Derived from the data, and as confidential."""
    design, eta = found.trained.design, found.eta
    order = np.argsort(-eta, kind="stable")
    past = [] if limit is None else [int(row) for row in order if eta[row] > limit]
    return {
        "schema": SCHEMA,
        "queries": found.queries,
        "distinct": found.distinct,
        "of": found.of,
        "how": found.how,
        "model": {"kind": found.trained.kind.name, "target": design.target.name, "l2": found.trained.l2},
        "public": settings.public,
        "rows": int(eta.size),
        "eta": {"mean": float(eta.mean()), "median": float(np.median(eta)), "max": float(eta.max())},
        "columns": _columns(found),
        "above_half": None if found.exposures is None else int(np.sum((found.exposures > 1.0).any(axis=1))),
        "most_exposed": [{"id": _name(found, int(k)), "eta": float(eta[k])} for k in order[:MOST_LISTED]],
        "limit": limit,
        "past_limit": [_name(found, row) for row in past],
        "times": _times(found, float(eta.max()), limit),
    }


def _columns(found: Answered) -> list[Json]:
    """The worst value of every column: how well it is known in its unit, and of numbers the share revealed, worst first."""
    design, exposures = found.trained.design, found.exposures
    listed = []
    for j, feature in enumerate(design.features):
        own = found.cells[:, j]
        row = int(np.argmax(own))
        share = None if exposures is None or not feature.has_share else share_of(float(np.max(exposures[:, j])))
        worst = {"name": feature.name, "kind": feature.kind, "eta": float(own[row]) / feature.scale, "share": share}
        listed.append(worst | {"row": int(design.rows[row]), "id": _name(found, row)})
    return sorted(listed, key=lambda item: 1.0 if item["share"] is None else -float(item["share"]))


def _times(found: Answered, largest: float, limit: float | None) -> int | None:
    """How often such a log could be answered before someone passes the limit; None where it is not asked, or never."""
    if limit is None or not found.repeats or largest == 0:
        return None
    return math.floor((limit / (largest * (1.0 + measurement(found.leak).information.error))) ** 2)


def _name(found: Answered, row: int) -> str:
    ids = found.trained.design.ids
    return f"row {int(found.trained.design.rows[row])}" if ids is None else str(ids[row])
