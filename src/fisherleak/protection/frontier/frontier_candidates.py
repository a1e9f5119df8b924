"""Candidates for a protected model: fitted with a penalty and weights, calibrated with a shape, looked at on held-out rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing as rows_of

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Estimator, Seed, Vector
from fisherleak._support.numbers import two_digits
from fisherleak.engine.losses import Loss
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.add_noise_and_round import generator
from fisherleak.engine.noise.calibration_record import ANY_RECORD, calibration_of
from fisherleak.errors import FisherleakError, InvalidInputError
from fisherleak.leakage.measurement import measurement
from fisherleak.models import as_table, final_estimator
from fisherleak.models.estimators import has_penalty
from fisherleak.models.rebuilt import FEW
from fisherleak.models.steps.levels import check_common_levels, check_settled_levels
from fisherleak.models.wrapper import fit_weighted
from fisherleak.protection.calibrate.shapes import SHAPES
from fisherleak.protection.certificates.declared_bounds import LABEL, allowed_in, with_gaps_filled
from fisherleak.protection.certificates.published_scale import STEP
from fisherleak.protection.irfil.irfil import IRFIL
from fisherleak.protection.release.procedure import (
    HELD_OUT_LOSS,
    MadeRelease,
    ReleaseRequest,
    draw_parameters,
    make_release,
    released_by_rule,
    with_l2,
)
from fisherleak.protection.release.release import FittedModel, check_releasable, measured_model

Rows = NDArray[np.int64]
WEIGHTINGS = {"none": 0.0, "half": 0.5, "full": 1.0}
"""Powers of IRFIL's weights."""
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Etas that are looked at, in units of the limit."""
REWEIGHTINGS, DRAWS = 15, 16
"""Of IRFIL; noisy copies of each candidate."""
MIDDLE = math.sqrt(STEP)
"""What a release rounds a scale for any record up by, in the middle: candidates are looked at with no grid of their own."""
LOOKED_AT_GAP, RELEASED_GAP = 0.05, 0.01
"""Of least-loss noise, while candidates are looked at and in the end."""


@dataclass(frozen=True)
class FrontierPoint:
    """One candidate at one eta.

    Attributes
    ----------
    penalty : float
        Factor of the estimator's own penalty; where public numbers decide it, the l2 of each row.
    weighting : str
        "none", "half" or "full": the power of IRFIL's weights.
    shape : str
        Of the noise.
    eta, scale : float
        The limit, and the scale of the noise that keeps it.
    loss : float
        Mean loss of noisy copies on held-out rows.
    score : float or None
        Their mean accuracy, or R² for the squared loss; None for other losses.
    """

    counted: ClassVar[Literal[False]] = False
    """Whether its choice is counted."""
    penalty: float
    weighting: str
    shape: str
    eta: float
    scale: float
    loss: float
    score: float | None


@dataclass(frozen=True)
class Task:
    """What is protected, and what may be chosen: all that is public but for the rows."""

    estimator: Any
    X: Any = field(repr=False)
    y: Any = field(repr=False)
    eta: float
    over: str
    groups: Any = field(repr=False)
    penalties: tuple[float, ...]
    weightings: tuple[str, ...]
    shapes: tuple[str, ...]
    bounds: Mapping[str, Any] | None
    public: str
    random_state: Seed = None
    ranges: frozenset[str] = frozenset()
    """Columns whose bounds were taken from rows: they give no scale or centre."""
    rows_per_person: int | None = None
    """With groups, the people: the limit for any record is on so many rows together."""
    target: str | None = None
    """The name that y has, where it has one."""
    given: Any = None
    """The estimator as it was given, where public numbers decide the penalty: ``estimator`` then has an l2 of one."""

    @property
    def count(self) -> int:
        return len(self.penalties) * len(self.weightings) * len(self.shapes)

    @property
    def by_rule(self) -> bool:
        """Whether public numbers decide penalty and covariance of a release; of shapes that were listed one is drawn."""
        return self.given is not None and (len(self.shapes) == 1 or {*self.shapes} == {*SHAPES})

    @property
    def as_given(self) -> Task:
        """The same with the estimator as it was given."""
        return self if self.given is None else replace(self, estimator=self.given)

    @property
    def declared(self) -> str:
        # rows in memory have been seen to share their levels
        return "levels" if self.public == "nothing" else self.public

    def request(self, eta: float, random_state: Seed, shape: str, gap: float = RELEASED_GAP) -> ReleaseRequest:
        """A limit on the same people, for noise of a named covariance."""
        exact = self.over != ANY_RECORD
        return ReleaseRequest(
            eta,
            over="person" if exact and self.groups is not None else self.over,
            bounds=None if exact else self.bounds,
            groups=self.groups if exact else None,
            gap=gap if exact and shape == "least-loss" else None,
            shape=shape,
            strategy=HELD_OUT_LOSS.name,
            random_state=random_state,
            person=None if exact else self.groups,
            rows_per_person=self.rows_per_person,
        )

    def by_public_numbers(self, eta: float, random_state: Seed) -> ReleaseRequest:
        """A limit on any record within the bounds, whose penalty and covariance public numbers decide."""
        asked = self.shapes[0] if len(self.shapes) == 1 else None
        own = {"person": self.groups, "rows_per_person": self.rows_per_person} if self.rows_per_person else {}
        return ReleaseRequest(eta, bounds=self.bounds, shape=asked, random_state=random_state, **own)

    def rng(self) -> np.random.Generator:
        return generator(0 if self.random_state is None else self.random_state)

    def part(self, rows: Rows) -> Task:
        """The same with some of the rows."""
        groups = None if self.groups is None else np.asarray(self.groups)[rows]
        return replace(self, X=rows_of(self.X, rows), y=np.asarray(self.y)[rows], groups=groups)


def _with_penalty(estimator: Estimator, factor: float) -> Any:
    """An unfitted copy with its penalty multiplied."""
    model = clone(estimator)
    if factor == 1.0:
        return model
    last = final_estimator(model)
    own = last.get_params(deep=False)
    if "alpha" in own:
        last.set_params(alpha=own["alpha"] * factor)
    elif "C" in own:
        last.set_params(C=own["C"] / factor)
    else:
        raise InvalidInputError(
            f"penalties are factors of alpha or C, and {type(last).__name__} has neither: use penalties=[1.0]."
        )
    return model


def _weights(task: Task, penalty: float) -> Vector:
    """IRFIL's weights, of mean one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said of the candidates themselves
        found = IRFIL(_with_penalty(task.estimator, penalty), n_iter=REWEIGHTINGS).fit(task.X, task.y).weights_
    return np.asarray(host(found))


def _powered(weights: Vector, weighting: str) -> Vector | None:
    power = WEIGHTINGS[weighting]
    if power == 0:
        return None
    raised = weights**power
    return np.asarray(raised / raised.mean())


def polished(task: Task, penalty: float, weights: Vector | None) -> FittedModel:
    """A model at its exact minimum, and its leakage."""
    X, y = task.X, task.y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a solver that stops early: the minimum is found from there
        try:
            model = fit_weighted(_with_penalty(task.estimator, penalty), X, y, weights)
        except ValueError as error:
            if "could not convert" not in str(error):
                raise
            # scikit-learn's own words hold a cell
            raise InvalidInputError(
                f"A column of X cannot be read as numbers, and a step of {type(task.estimator).__name__} takes numbers only: "
                "encode it with a OneHotEncoder before, or leave it out."
            ) from None
    check_releasable(model)
    if task.public == "nothing":
        check_common_levels(model, as_table(X), FEW, task.groups)
        check_settled_levels(model, as_table(X), task.groups)
    return measured_model(model, X, y, None, weights, True, task.declared)


def with_public_penalties(task: Task) -> Task:
    """A task without penalties with those that the rule for public numbers compares: each is an l2."""
    if task.penalties:
        return task
    if not has_penalty(final_estimator(task.estimator)):
        return replace(task, penalties=(1.0,))
    read, request = polished(task, 1.0, None), task.by_public_numbers(task.eta, None)
    first = read.public_penalty(request)
    assert first is not None  # the limit is on whole rows
    one = with_l2(task.estimator, read.unit_of_penalty(request), two_digits(read.measured.n))
    return replace(task, estimator=one, given=task.estimator, penalties=tuple(each.l2 for each in first.compared()))


def bounded_as(whole: Task, part: Task) -> Task:
    """Some of the rows with the bounds that all rows give: what is looked at is noise for the same people as the release's."""
    if whole.over != ANY_RECORD:
        return part
    leak = with_gaps_filled(polished(whole.as_given, 1.0, None).measured, whole.bounds)
    jacobian = measurement(leak).information.jacobians[0]
    known = allowed_in(leak, whole.bounds).bounds
    named = [LABEL, *(attribute.name for attribute in jacobian.attributes)]
    ends = {name: (known[name]["low"], known[name]["high"]) for name in named if "low" in known.get(name, {})}
    ranges = {name: (low, high) for name, (low, high) in ends.items() if low < high}  # a column of one value has none
    declared = whole.bounds or {}
    return replace(part, bounds={**ranges, **declared}, ranges=frozenset(ranges) - set(declared))


@dataclass(frozen=True)
class Candidate:
    """A model for one penalty and weighting, and its leakage on the rows that it was fitted on."""

    task: Task
    penalty: float
    weighting: str
    fitted: FittedModel


def fitted_all(task: Task, penalty: float, refused: list[str]) -> list[Candidate]:
    """One model for each weighting that has one."""
    found, weights = [], None
    for weighting in task.weightings:
        try:
            if weights is None and WEIGHTINGS[weighting] > 0:
                weights = _weights(task, penalty)
            own = None if weights is None else _powered(weights, weighting)
            fitted = polished(task, penalty, own)
        except FisherleakError as error:
            if weighting == "none":
                raise
            refused.append(f"penalty x {penalty:g}, weights {weighting}: {error}")
            continue
        found.append(Candidate(task, penalty, weighting, fitted))
    return found


def looked_at(
    candidate: Candidate, shape: str, scorer: Scorer, refused: list[str]
) -> tuple[list[FrontierPoint], float]:
    """A candidate with one shape, at every eta at which it keeps the limit; and the margin of the bound behind its noise."""
    task = candidate.task
    name = f"penalty {'x' if task.given is None else 'l2'} {candidate.penalty:g}, weights {candidate.weighting}, {shape} noise"
    try:
        request = task.request(max(FACTORS) * task.eta, 0, shape, LOOKED_AT_GAP)
        leak = measurement(candidate.fitted.measured).not_framed(task.ranges)
        noise = replace(candidate.fitted, leak=leak).calibrated(request, shape)
        plain, moved = scorer.noisy(candidate.fitted, noise)
    except FisherleakError as error:
        refused.append(f"{name}: {error}")
        return [], 0.0
    told = calibration_of(noise)
    secret = None if told is None else told.confidential
    second = 0.0 if secret is None else secret.second
    points = []
    for factor in FACTORS:
        eta = factor * task.eta
        if eta <= second:
            refused.append(f"{name}: the covariance alone reveals more than an eta of {eta:g}.")
            continue
        most = noise.scale * max(FACTORS) * task.eta if secret is None else MIDDLE * secret.upper
        scale = most / math.sqrt(eta**2 - second**2)
        loss, score = scorer.of(plain[:, None] + scale * moved)
        points.append(FrontierPoint(candidate.penalty, candidate.weighting, shape, eta, scale, loss, score))
    return points, math.inf if secret is None else secret.margin


@dataclass(frozen=True)
class Scorer:
    """Loss and score of linear predictors on the rows that are looked at."""

    task: Task
    rows: Rows
    loss: Loss

    def predictor(self, model: Any) -> Vector:
        """The linear predictor, (m,)."""
        X = rows_of(self.task.X, self.rows)
        if is_classifier(self.task.estimator):
            return np.asarray(model.decision_function(X), dtype=np.float64)
        found = np.asarray(model.predict(X), dtype=np.float64)
        if self._is_linear:
            return found
        return np.log(np.maximum(found, np.finfo(np.float64).tiny))  # all other links are logarithms

    def noisy(self, fitted: FittedModel, noise: Noise) -> tuple[Vector, Vector]:
        """Predictors without noise, (m,), and their change by each draw at scale 1, (m, draws)."""
        plain, rng = self.predictor(fitted.model), self.task.rng()
        copies = (fitted.built(draw_parameters(fitted, noise, rng), noise) for _ in range(DRAWS))
        draws = [self.predictor(copy) for copy in copies]
        return plain, np.stack([(each - plain) / noise.scale for each in draws], axis=1)

    @property
    def labels(self) -> Vector:
        """As the model has them, (m,)."""
        y = np.asarray(self.task.y)
        if not is_classifier(self.task.estimator):
            return np.asarray(y[self.rows], dtype=np.float64)
        return np.where(y[self.rows] == np.unique(y)[-1], 1.0, -1.0 if self.loss.quadratic else 0.0)

    @property
    def baseline(self) -> float:
        """Mean loss of always predicting the mean, or how frequent the classes are."""
        z = float(np.mean(self.labels))
        if not self._is_linear:
            other = 1.0 - z if is_classifier(self.task.estimator) else 1.0
            z = math.log(z / other) if z > 0 and other > 0 else math.copysign(math.inf, z - 0.5)
        return self.of(np.full((self.labels.size, 1), z))[0]

    @property
    def _is_linear(self) -> bool:
        """Whether predictions are the linear predictor itself."""
        return float(np.asarray(self.loss.mean(np.zeros(1)))[0]) == 0

    def of(self, z: Vector) -> tuple[float, float | None]:
        """Mean loss and score over copies: z of shape (m, copies)."""
        loss, label = self.loss, self.labels
        if is_classifier(self.task.estimator):
            score: float | None = float(np.mean((z > 0) == (label > 0)[:, None]))
        else:
            rest = float(np.sum((label - label.mean()) ** 2))
            quadratic = loss.quadratic and rest > 0
            score = float(np.mean(1.0 - np.sum((z - label[:, None]) ** 2, axis=0) / rest)) if quadratic else None
        return float(np.mean(np.asarray(loss.value(z, label[:, None] * np.ones_like(z))))), score


def release_candidate(task: Task, chosen: FrontierPoint, eta: float, random_state: Seed) -> MadeRelease:
    """A candidate fitted on all rows, released with the noise that keeps a limit."""

    def fitted(candidate: FrontierPoint) -> FittedModel:
        weights = None
        if WEIGHTINGS[candidate.weighting] > 0:
            weights = _powered(_weights(task, candidate.penalty), candidate.weighting)
        return polished(task, candidate.penalty, weights)

    request = replace(task.request(eta, random_state, chosen.shape), candidate=chosen)
    return make_release(fitted, request, stacklevel=5)


def release_by_rule(task: Task, eta: float, random_state: Seed) -> MadeRelease:
    """All rows, released with the penalty and the covariance that public numbers decide."""

    def fitted(unfitted: Any) -> FittedModel:
        return polished(replace(task, estimator=unfitted), 1.0, None)

    request = task.by_public_numbers(eta, random_state)
    return released_by_rule(task.given, fitted, request, stacklevel=5)
