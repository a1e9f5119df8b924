"""A choice among candidates that is counted: drawn with probabilities that no row moves far.

Mathematics: 7.4, ``docs/mathematics/noise.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.namespaces import Json, Sums
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.noise.add_noise_and_round import generator
from fisherleak.engine.noise.calibrated import ADMISSIBLE
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.measurement import measurement
from fisherleak.models import as_table
from fisherleak.models.read import prepare
from fisherleak.models.steps.scalers import neutral
from fisherleak.protection.certificates.declared_bounds import Admissible, admissible_rows
from fisherleak.protection.frontier.bounded_score import BoundedScore, score_for
from fisherleak.protection.frontier.choice_sensitivity import (
    Gradients,
    View,
    gradients_of,
    reach_of_admissible,
    reach_of_present,
)
from fisherleak.protection.frontier.frontier_candidates import Candidate, FrontierPoint, Scorer, Task, rows_of
from fisherleak.protection.noise_scale_grid import STEP, drawn_offset, up_to_grid

__all__ = ["SHARE", "Ballot", "CountedChoice", "drawn_choice"]

Vector = NDArray[np.float64]
Rows = NDArray[np.int64]
SHARE = 0.3
"""Of the limit that a choice may tell: the noise grows by 5 %."""
CHEAPEST = 2.0**-20
"""Prices below are no prices: the loss of few noisy copies may be below that without noise."""


@dataclass(frozen=True)
class Ballot:
    """What a choice was drawn from: numbers of the data, for whoever holds the table.

    Attributes
    ----------
    points : tuple of FrontierPoint
    scores : array of shape (K,)
        Held-out loss and price of the noise, each candidate's.
    smoothing : float
        b.
    reach : float
        D: how far one row moves the scores apart, at most.
    probabilities : array of shape (K,)
    """

    points: tuple[FrontierPoint, ...]
    scores: Vector
    smoothing: float
    reach: float
    probabilities: Vector
    _gradients: tuple[Vector, ...] = field(repr=False)
    """Of each candidate, (n, q), in the order of the table's rows."""

    def draw(self, rng: np.random.Generator) -> int:
        """The place of one candidate, drawn."""
        return int(np.searchsorted(np.cumsum(self.probabilities)[:-1], float(rng.random()), side="right"))

    def per_example(self) -> Vector:
        """(n,) the eta of the choice about each row present: the root of the largest eigenvalue of F."""
        p = self.probabilities
        if self.smoothing == 0:
            return np.zeros(len(self._gradients[0]))
        # F = Cov(grad U_k) / b^2, the second formula of section 7.4: the sum of a_k a_k^T with
        # a_k = sqrt(p_k) (grad U_k - mean) has the largest eigenvalue of the Gram matrix of the a_k, b is ``smoothing``
        mean = sum(weight * each for weight, each in zip(p, self._gradients, strict=True))
        apart = [math.sqrt(weight) * (each - mean) for weight, each in zip(p, self._gradients, strict=True)]
        gram = np.array([[np.sum(one * other, axis=1) for other in apart] for one in apart])
        largest = np.linalg.eigvalsh(np.moveaxis(gram, -1, 0))[:, -1]
        return np.asarray(np.sqrt(np.maximum(largest, 0.0)) / self.smoothing)


@dataclass(frozen=True, repr=False)
class CountedChoice:
    """A candidate that was drawn, and what a release of it promises.

    Attributes
    ----------
    point : FrontierPoint
        The candidate. Its loss is a number of the data.
    eta : float
        The limit that choice and model keep together.
    eta_choice, eta_noise : float
        What the choice may tell, and what is left for the model: the squares add up to that of ``eta``.
    over : str
        Whose etas are limited.
    among : int
        Candidates of the public grid.
    offset : float or None
        Of the grid that prices and smoothing are on, as a part of a step: drawn for this choice, and public. None where there
        was one candidate only.
    probability : float
        That exchanging one row for another admissible one changes prices, smoothing or which candidates keep the limit, at
        most: 0 where nothing was chosen, else 1, as no bound is known.
    ballot : Ballot or None
        What it was drawn from; confidential, None where there was one candidate only.

    No copy, pickle or ``repr`` of it holds what is confidential: the ballot, and the candidate's loss and score.
    """

    point: FrontierPoint
    eta: float
    eta_choice: float
    eta_noise: float
    over: str
    among: int
    offset: float | None = None
    probability: float = 0.0
    ballot: Ballot | None = field(default=None, repr=False, compare=False)

    def __reduce__(self) -> Sums:
        point = replace(self.point, loss=math.nan, score=None)
        known = (self.eta, self.eta_choice, self.eta_noise, self.over, self.among, self.offset, self.probability)
        return type(self), (point, *known)

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in self.record().items())
        return f"{type(self).__name__}({told})"

    def check_among(self, task: Task, points: Sequence[FrontierPoint]) -> None:
        """Refuse a choice for a frontier with other candidates, or with a limit on others."""
        among, own = len(task.penalties) * len(task.shapes), _name(self.point)
        if (self.over, self.among) != (task.over, among) or own not in map(_name, points):
            raise InvalidInputError(
                f"choice is one of {self.among} candidates with over={self.over!r}, and this frontier has {among} with "
                f"over={task.over!r}: release it from the frontier that it was drawn from."
            )

    def record(self) -> Json:
        """What may be passed on with the model, in JSON types."""
        told = {name: getattr(self.point, name) for name in ("penalty", "weighting", "shape")}
        etas = {
            name: getattr(self, name) for name in ("eta", "eta_choice", "eta_noise", "over", "among", "probability")
        }
        return told | etas | ({} if self.offset is None else {"step": STEP, "offset": self.offset})


def _name(point: FrontierPoint) -> tuple[float, str, str]:
    return point.penalty, point.weighting, point.shape


def drawn_choice(
    candidates: Sequence[Candidate],
    points: Sequence[FrontierPoint],
    margins: Sequence[float],
    scorer: Scorer,
    rows: tuple[Rows, Rows],
    eta: float,
    share: float,
    rng: np.random.Generator | None,
) -> CountedChoice:
    """One of some points, all at one eta and without weights, drawn so that the choice tells at most share times eta.

    Parameters
    ----------
    candidates : sequence of Candidate
        The models of the points, one for each penalty, fitted on the first of ``rows``.
    margins : sequence of float
        How far, as a logarithm, the bound behind each point's noise is from one that would be refused.
    scorer : Scorer
        Of the second of ``rows``, the held-out ones, and of the whole task.
    rng : Generator, optional
        The operating system's randomness if not given.
    """
    task = scorer.task
    among = len(task.penalties) * len(task.shapes)
    if among == 1:
        return CountedChoice(points[0], eta, 0.0, eta, task.over, 1)
    told, offset = share * eta, drawn_offset(rng)
    points = _admitted(points, margins, offset)
    candidates = [each for each in candidates if any(point.penalty == each.penalty for point in points)]
    by_penalty = {each.penalty: k for k, each in enumerate(candidates)}
    admissible, views = _public_rows(task, candidates, scorer)
    loss = scorer.loss
    score = score_for(task.over, loss, None if admissible is None else admissible.labels)
    gradients = [gradients_of(view, score) for view in views]
    reach = _reach(task, views, gradients, score, admissible, rows)
    # b = D / eta_choice of section 7.4, rounded up
    smoothing = up_to_grid(reach / told, offset) if reach > 0 else 0.0
    plain = [float(np.mean(score.value(view.z, view.y))) for view in views]
    bare = [scorer.of(view.z[:, None])[0] for view in views]
    # U_k + c_k of the first formula of section 7.4
    scores = np.array(
        [
            plain[k] + up_to_grid(max(point.loss - bare[k], CHEAPEST), offset)
            for point, k in ((point, by_penalty[point.penalty]) for point in points)
        ]
    )
    own = tuple(_in_order(gradients[by_penalty[point.penalty]], rows) for point in points)
    ballot = Ballot(tuple(points), scores, smoothing, reach, _probabilities(scores, smoothing), own)
    chosen = points[ballot.draw(generator(rng))]
    # eta_noise, so that F + sum p_k F_k stays at or below eta^2
    left = math.sqrt(eta**2 - told**2)
    return CountedChoice(chosen, eta, told, left, task.over, among, offset, 1.0, ballot)


def _admitted(points: Sequence[FrontierPoint], margins: Sequence[float], offset: float) -> list[FrontierPoint]:
    """Those of a finite loss whose bound is not near one that is refused: the offset says how near, less than a step."""
    both = zip(points, margins, strict=True)
    found = [each for each, margin in both if math.isfinite(each.loss) and margin >= offset * math.log(STEP)]
    if not found:
        raise InvalidInputError(
            "No candidate without weights has a finite loss and a useful bound: use a larger eta or larger penalties."
        )
    return found


def _probabilities(scores: Vector, smoothing: float) -> Vector:
    above = scores - scores.min()
    # p_k, the first formula of section 7.4
    weights = np.exp(-above / smoothing) if smoothing > 0 else (above == 0).astype(np.float64)
    return np.asarray(weights / weights.sum())


def _public_rows(task: Task, candidates: Sequence[Candidate], scorer: Scorer) -> tuple[Admissible | None, list[View]]:
    """The rows that could be there, by all that are, and every model beside the held-out rows."""
    views = [_view(each, scorer) for each in candidates]
    if task.over != ADMISSIBLE:
        return None, views
    inner = measurement(candidates[0].fitted.measured)
    return admissible_rows(inner.information.jacobians[0], inner.table, candidates[0].task.bounds), views


def _view(candidate: Candidate, scorer: Scorer) -> View:
    leak, model, task = candidate.fitted.measured, candidate.fitted.model, scorer.task
    jacobian = measurement(leak).information.jacobians[0]
    fit, folded = jacobian.fit, measurement(leak).information.folded
    if jacobian.folding is not None and jacobian.folding.filling is not None:
        raise InvalidInputError(
            "A choice is not counted where an imputer learned what it fills in: fill missing values with a declared one, "
            "SimpleImputer(strategy='constant', fill_value=…), or use counted=False, which warns."
        )
    prepared = prepare(neutral(model)[0] if folded else model, as_table(rows_of(task.X, scorer.rows)))
    features = np.asarray(prepared.features, dtype=np.float64)
    x = np.asarray(with_constant(features, fit.intercept is not None, fit.centre))
    attributes, label = measurement(leak).chosen(None, None)
    return View(jacobian, tuple(attributes), label, x, scorer.labels, features, prepared.attributes)


def _reach(
    task: Task,
    views: Sequence[View],
    gradients: Sequence[Gradients],
    score: BoundedScore,
    admissible: Admissible | None,
    rows: tuple[Rows, Rows],
) -> float:
    if admissible is None:
        groups = None if task.groups is None else np.unique(np.asarray(task.groups), return_inverse=True)[1]
        return reach_of_present([_in_order(each, rows) for each in gradients], groups)
    if np.intersect1d(*rows).size:
        raise InvalidInputError(
            "A choice among candidates that are looked at on the rows they are fitted on is not bounded for whoever could be "
            f"there, and of {len(task.y)} rows none were held out: use held_out=0.25 with 20 rows or more, over='max', or name "
            "a candidate beforehand, release(choice=…)."
        )
    found = reach_of_admissible(views, score, admissible)
    if not math.isfinite(found):
        raise InvalidInputError(
            "A choice cannot be counted here: one admissible row would move the model of a candidate too far (few rows, little "
            "l2, or wide bounds). Declare narrower bounds, use larger penalties or more rows, or name a candidate beforehand, "
            "release(choice=…)."
        )
    return found


def _in_order(gradients: Gradients, rows: tuple[Rows, Rows]) -> Vector:
    """In the order of the table; rows that are held out and trained on move scores in both ways."""
    found = np.zeros((max(int(each.max()) for each in rows) + 1, gradients.held.shape[1]))
    found[rows[0]] += gradients.trained
    found[rows[1]] += gradients.held
    return found
