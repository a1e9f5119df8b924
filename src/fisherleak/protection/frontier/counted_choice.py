r"""A choice among candidates that is counted: drawn with probabilities that no row moves far.

Mathematics: 7.4, ``docs/mathematics/noise.md``.

Also here: the score by which a protected model is chosen: a held-out loss whose derivatives have a public bound.

A loss that grows without end gives one row as much say as it likes. So the slope of the squared loss is cut at
:math:`\rho`, an eighth of the label's range,

.. math:: \psi(z, y) = \tfrac12 e^2 \text{ for } |e| \le \rho, \quad \rho |e| - \tfrac12 \rho^2 \text{ beyond},
          \qquad e = z - y ,

and of other losses the linear predictor is, at :math:`\pm Z`: :math:`\psi(z, y) = \ell(\min(\max(z, -Z), Z), y)`. Both change
nothing for most rows, and rank models as the loss does.

Also here: how far one row moves the scores of candidates: exactly for the rows present, at most for any that could be
there.

Mathematics: 7.5, ``docs/mathematics/noise.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing as rows_of

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Json, Sums, Vector
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.block_maps import BlockMap, places_of
from fisherleak.engine.jacobian.perturbation import Attribute, local_directions
from fisherleak.engine.losses import Loss
from fisherleak.engine.noise.add_noise_and_round import generator
from fisherleak.engine.noise.calibration_record import ANY_RECORD
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.measurement import measurement
from fisherleak.models import as_table
from fisherleak.models.preprocessed import prepare
from fisherleak.models.steps.scalers import neutral
from fisherleak.protection.calibrate.limit_terms import inverse_root
from fisherleak.protection.certificates.bound_for_any_record import Bound, bound, drift_of, known_traits
from fisherleak.protection.certificates.bound_quantities import quantities_of
from fisherleak.protection.certificates.declared_bounds import AllowedRecords, allowed_in, with_gaps_filled
from fisherleak.protection.certificates.exchange import Exchange, points_of
from fisherleak.protection.certificates.published_scale import STEP, drawn_offset, up_to_grid

if TYPE_CHECKING:
    from fisherleak.protection.frontier.frontier_candidates import Candidate, FrontierPoint, Scorer, Task

PART = 8.0
"""Of the label's range: where the slope of the squared loss is cut."""
FARTHEST = 3.0
"""Linear predictors beyond are as good: log-odds of 3 are 95 %."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


@dataclass(frozen=True)
class BoundedScore:
    """Psi and its derivatives, all (z, y) -> array."""

    loss: Loss
    steepest: float
    """Where the slope of a quadratic loss is cut; that of others ends where it ends."""
    farthest: float
    """Where the linear predictor of other losses is cut."""

    def value(self, z: Vector, y: Vector) -> Vector:
        if not self.loss.quadratic:
            return np.asarray(self.loss.value(self._cut(z), y))
        e = np.abs(z - y)
        if math.isinf(self.steepest):
            return np.asarray(0.5 * e**2)
        return np.where(e <= self.steepest, 0.5 * e**2, self.steepest * (e - 0.5 * self.steepest))

    def slope(self, z: Vector, y: Vector) -> Vector:
        """Its derivative by z."""
        if self.loss.quadratic:
            return np.clip(z - y, -self.steepest, self.steepest)
        return np.where(np.abs(z) < self.farthest, np.asarray(self.loss.r(self._cut(z), y)), 0.0)

    def by_label(self, z: Vector, y: Vector) -> Vector:
        """Its derivative by the label, but for a term that is the same for all models: the integral of c from 0 to z."""
        if self.loss.quadratic:
            return -self.slope(z, y)
        half = 0.5 * self._cut(z)
        parts = [
            weight * np.asarray(self.loss.c(half * (1.0 + node), y))
            for node, weight in zip(NODES, WEIGHTS, strict=True)
        ]
        return np.asarray(half * sum(parts))

    def _cut(self, z: Vector) -> Vector:
        return np.clip(z, -self.farthest, self.farthest)


def score_for(over: str, loss: Loss, labels: Vector | None) -> BoundedScore:
    """The score of a loss. ``labels`` are the ends of the label's range where it is public: for records within the bounds."""
    if loss.quadratic:
        cut = math.inf if labels is None else float(np.ptp(labels)) / PART
        return BoundedScore(loss, cut, math.inf)
    if loss.labels.binary:
        return BoundedScore(loss, math.inf, FARTHEST)
    if over == ANY_RECORD:
        raise InvalidInputError(
            "What choosing a candidate reveals of any record within the bounds is known for squared and logistic loss only; "
            f"the loss is {loss.name}. Name a candidate beforehand, release(choice=…), or use counted=False, which warns."
        )
    return BoundedScore(loss, math.inf, math.inf)


@dataclass(frozen=True)
class View:
    """A model that was fitted on some rows, and the held-out rows that it is scored on."""

    jacobian: Jacobian
    attributes: tuple[Attribute, ...]
    """The values that count, of the rows it was fitted on."""
    label: bool
    x: Vector
    """(m, p): held-out rows in the coordinates of the fit."""
    y: Vector
    features: Vector
    """(m, d): the same as the attributes of held-out rows move them."""
    held_attributes: tuple[Attribute, ...]

    @property
    def theta(self) -> Vector:
        return np.asarray(host(self.jacobian.fit.centred_theta))

    @property
    def z(self) -> Vector:
        return np.asarray(self.x @ self.theta)

    def direction(self, score: BoundedScore) -> Vector:
        """g, (p,): the derivative of the score by the parameters."""
        return np.asarray(self.x.T @ score.slope(self.z, self.y) / len(self.y))

    def seen_along(self, L: Vector) -> Jacobian:
        """The Jacobian of L theta for a matrix L of shape (k, p)."""
        return replace(self.jacobian, B=L @ np.asarray(host(self.jacobian.fit.factor.inverse())))

    def exchange(self, allowed: AllowedRecords) -> Exchange:
        """Any record within the bounds in place of a row that the model was fitted on."""
        points = points_of(self.jacobian, allowed)
        return Exchange(self.jacobian, self.attributes, self.label, allowed, points)


@dataclass(frozen=True)
class Gradients:
    """The derivatives of one model's score by the values of every row, (m, q) and (n, q)."""

    held: Vector
    trained: Vector


def gradients_of(view: View, score: BoundedScore) -> Gradients:
    """Exact, at the rows present."""
    theta, y = view.theta, view.y
    local = list(local_directions(view.held_attributes, view.features, theta))
    E = BlockMap(places_of(view.held_attributes), len(theta), local, theta)
    # section 7.5: psi' E^T w_k and d psi / dy, over m, for held-out rows; g_k^T J_{k,i} for the others
    held = score.slope(view.z, y)[:, None] * np.asarray(E.pull(theta[None, :]))
    along = view.seen_along(view.direction(score)[None, :])
    trained = np.asarray(along.dense(view.attributes, view.label)(*along.arrays_for(view.attributes)))[:, 0, :]
    if view.label:
        held = np.column_stack([held, score.by_label(view.z, y)])
    return Gradients(held / len(y), trained)


def reach_of_present(gradients: Sequence[Vector], groups: NDArray[np.int64] | None) -> float:
    """Half the largest difference of two scores' derivatives by the values of a row, or of a group; (n, q) each.

    A score that nothing moves is always among those compared, so that the reach of one model is not zero.
    """
    everyone = [*gradients, np.zeros_like(gradients[0])]
    largest = 0.0
    for one, other in combinations(everyone, 2):
        squares = np.sum((one - other) ** 2, axis=1)
        together = squares if groups is None else np.bincount(groups, weights=squares)
        largest = max(largest, float(together.max()))
    return 0.5 * math.sqrt(largest)


def reach_of_any_record(views: Sequence[View], score: BoundedScore, allowed: AllowedRecords) -> float:
    """The same at most, for any record within the bounds in place of a row, where no row is held out and trained on."""
    held = _any_held_out_row(views, score, allowed)
    single = sorted(_any_training_row(view, score, view.exchange(allowed)) for view in views)
    # half of |g_k^T J - g_j^T J'|, at most half the sum of the two largest
    trained = 0.5 * sum(single[-2:])
    return max(held, trained)


def _any_held_out_row(views: Sequence[View], score: BoundedScore, allowed: AllowedRecords) -> float:
    """Half the largest difference over pairs of models, and of each beside a score that nothing moves."""
    points, labels = points_of(views[0].jacobian, allowed), allowed.labels
    u = [view.exchange(allowed).directions.T @ view.theta for view in views]
    counted, largest = float(views[0].label), 0.0
    for labels_at in [labels] if score.loss.quadratic else [np.array([y]) for y in labels]:
        low, high, by_label, by_both = _slopes(score, labels_at)
        steepest = max(abs(low), abs(high))
        largest = max(largest, *(math.hypot(steepest * float(np.linalg.norm(one)), counted * by_label) for one in u))
        for k, j in combinations(range(len(views)), 2):
            apart = views[k].theta - views[j].theta
            far = float(np.abs(points.x @ apart).max()) + points.reach(apart[None, :])
            # section 7.5, "Any held-out row": at one row, slopes of two models differ by at most the curvature times
            # |(w_k - w_j).x|
            closest = min(known_traits(score.loss).largest * far, high - low)
            first = max(float(np.linalg.norm(r * u[k] - s * u[j])) for r, s in _corners(low, high, closest))
            largest = max(largest, math.hypot(first, counted * min(2.0 * by_label, by_both * far)))
    return 0.5 * largest / len(views[0].y)


def _slopes(score: BoundedScore, labels: Vector) -> tuple[float, float, float, float]:
    """The least and the largest slope, the largest derivative by the label, and how fast that moves with z."""
    if score.loss.quadratic:
        return -score.steepest, score.steepest, score.steepest, 1.0
    ends = np.array([-score.farthest, score.farthest])
    at = np.repeat(labels, 2)
    r = np.asarray(score.loss.r(np.tile(ends, len(labels)), at))
    c = np.abs(np.asarray(score.loss.c(np.zeros_like(labels), labels)))
    by_label = np.abs(score.by_label(np.tile(ends, len(labels)), at))
    return min(float(r.min()), 0.0), max(float(r.max()), 0.0), float(by_label.max()), float(c.max())


def _corners(low: float, high: float, closest: float) -> list[tuple[float, float]]:
    """Of all pairs of slopes that are so close to one another, and of those of which one is cut to zero."""
    found = [(end, min(max(end + side * closest, low), high)) for end in (low, high) for side in (-1.0, 0.0, 1.0)]
    found += [(low, 0.0), (high, 0.0)]
    return found + [(s, r) for r, s in found]


def _any_training_row(view: View, score: BoundedScore, exchange: Exchange) -> float:
    """|g.J| at most, in the model refitted with the row."""
    root = inverse_root(view.jacobian.fit)  # B^1/2
    along = replace(exchange, jacobian=view.seen_along(view.direction(score)[None, :]))
    q, _ = quantities_of(along)
    drift = None if view.jacobian.fit.loss.quadratic else drift_of(along.jacobian, q)

    def most(seen: Jacobian) -> Bound:
        other = replace(exchange, jacobian=seen)
        return bound(other, quantities_of(other)[0], drift)

    first = bound(along, q, drift)
    move = first.extent.move
    if not (math.isfinite(first.value) and math.isfinite(move)):
        return math.inf
    # section 7.5, "Any training row": |g_k^T J|, then |A^1/2 delta| ||A^1/2 J|| for the move of g_k, then rows that
    # cross the cut, their slopes times ||H^1/2 J||; ``bent`` is A^1/2
    bent, crossed = _turned(view, score, view.x @ root.T, move)
    turned = _farthest(view, bent, root, exchange, move) * most(view.seen_along(bent)).value
    found = first.value + turned
    if crossed > 0:
        found += crossed * most(replace(view.jacobian, B=root)).value  # H^1/2 theta
    return found if math.isfinite(found) else math.inf


def _farthest(view: View, L: Vector, root: Vector, exchange: Exchange, move: float) -> float:
    r"""|L (w' - w)| at most, for moves of at most ``move`` in the metric of H.

    For the squared loss without folded scales the move is exactly that by the row that leaves, B x_i r_i / (1 - h_i), and that
    by the new one, of at most |L B- x| |r-| with B- and r- those without the row that left.
    """
    # |L delta| <= ||L B^1/2|| |H^1/2 delta|
    whole = float(np.linalg.norm(L @ root.T, 2)) * move
    q, present = quantities_of(replace(exchange, jacobian=view.seen_along(L)))
    if not view.jacobian.fit.loss.quadratic or q.stretch > 0 or not q.leverage < 1:
        return whole
    left = 1.0 - present.omega * present.a * present.h
    push = present.omega * present.r / left
    leaving, far = float(np.max(push * present.lb)), float(np.max(push * np.sqrt(present.h)))
    size = np.max([np.abs(ends - y) for ends in (q.z_low, q.z_high) for y in exchange.labels], axis=0) + q.root * far
    long = q.p + q.c1 * q.root
    # a product of two lengths is at most half the sum of their squares, t and 1/t of each, which is convex in the row
    if not (float(long.max()) > 0 and float(size.max()) > 0):
        return min(whole, leaving)
    t = float(size.max()) / float(long.max())
    return min(whole, leaving + 0.5 * q.omega * float(np.max(t * long**2 + size**2 / t)))


def _turned(view: View, score: BoundedScore, x: Vector, move: float) -> tuple[Vector, float]:
    r"""How g moves when the parameters move so far in the metric of H: by A (w' - w), and by rows that cross a cut.

    Returns a root of the largest A, (p, p), and how far the latter take g in the metric of B; x (m, p) are rows there.
    Each row brings its largest curvature along the way, none where it stays beyond the cut.
    """
    m = len(view.y)
    lengths = np.linalg.norm(x, axis=1)
    shift = lengths * move
    if score.loss.quadratic:
        away, crossed = np.abs(view.z - view.y) - shift, 0.0
        curvature = np.where(away >= score.steepest, 0.0, 1.0)
    else:
        away, peak = np.abs(view.z) - shift, known_traits(score.loss).peak
        steepest = np.asarray(score.loss.a(np.clip(peak, view.z - shift, view.z + shift), view.y))
        curvature = np.where(away >= score.farthest, 0.0, steepest)
        crossed = _crossing(view, score, lengths, shift)
    values, vectors = np.linalg.eigh((view.x * curvature[:, None]).T @ view.x / m)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T, crossed


def _crossing(view: View, score: BoundedScore, lengths: Vector, shift: Vector) -> float:
    """The whole slopes of rows that may cross the end where the linear predictor is cut, by their lengths."""
    m, curvature = len(view.y), known_traits(score.loss).largest
    crossing = np.abs(np.abs(view.z) - score.farthest) <= shift
    ends = [np.abs(np.asarray(score.loss.r(np.full(m, side * score.farthest), view.y))) for side in (-1.0, 1.0)]
    near = np.where(view.z < 0, *ends) + curvature * shift
    slope = np.minimum(near, np.maximum(*ends)) if float(shift.max()) < score.farthest else np.maximum(*ends)
    return float(np.sum((slope * lengths)[crossing])) / m


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
        That exchanging one row for another record within the bounds changes prices, smoothing or which candidates keep the
        limit, at most: 0 where nothing was chosen, else 1, as no bound is known.
    ballot : Ballot or None
        What it was drawn from; confidential, None where there was one candidate only.

    No copy, pickle or ``repr`` of it holds what is confidential: the ballot, and the candidate's loss and score.
    """

    counted: ClassVar[Literal[True]] = True
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
    if task.rows_per_person is not None and task.rows_per_person > 1:
        raise InvalidInputError(
            f"rows_per_person is {task.rows_per_person}, and what a choice among {among} candidates reveals is not counted "
            "for people: keep one candidate, penalties=[1.0] and shapes=['hessian'] say, or release one by name with choice=."
        )
    told, offset = share * eta, drawn_offset(rng)
    points = _admitted(points, margins, offset)
    candidates = [each for each in candidates if any(point.penalty == each.penalty for point in points)]
    by_penalty = {each.penalty: k for k, each in enumerate(candidates)}
    allowed, views = _public_rows(task, candidates, scorer)
    loss = scorer.loss
    score = score_for(task.over, loss, None if allowed is None else allowed.labels)
    gradients = [gradients_of(view, score) for view in views]
    reach = _reach(task, views, gradients, score, allowed, rows)
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
    finite = [(each, margin) for each, margin in zip(points, margins, strict=True) if math.isfinite(each.loss)]
    if not finite:
        raise InvalidInputError(
            "With this much noise no candidate without weights has a finite loss: use a larger eta."
        )
    found = [each for each, margin in finite if margin >= offset * math.log(STEP)]
    if not found:
        raise InvalidInputError(
            "The bound of every candidate without weights is nearly too loose to be used: declare narrower bounds, or use "
            "larger penalties."
        )
    return found


def _probabilities(scores: Vector, smoothing: float) -> Vector:
    above = scores - scores.min()
    # p_k, the first formula of section 7.4
    weights = np.exp(-above / smoothing) if smoothing > 0 else (above == 0).astype(np.float64)
    return np.asarray(weights / weights.sum())


def _public_rows(
    task: Task, candidates: Sequence[Candidate], scorer: Scorer
) -> tuple[AllowedRecords | None, list[View]]:
    """The rows that could be there, by all that are, and every model beside the held-out rows."""
    views = [_view(each, scorer) for each in candidates]
    if task.over != ANY_RECORD:
        return None, views
    bounds = candidates[0].task.bounds
    return allowed_in(with_gaps_filled(candidates[0].fitted.measured, bounds), bounds), views


def _view(candidate: Candidate, scorer: Scorer) -> View:
    measured, model, task = candidate.fitted.measured, candidate.fitted.model, scorer.task
    leak = with_gaps_filled(measured, task.bounds) if task.over == ANY_RECORD else measured
    jacobian = measurement(leak).information.jacobians[0]
    fit, folded = jacobian.fit, measurement(leak).information.folded
    if jacobian.folding is not None and jacobian.folding.filling is not None:
        raise InvalidInputError(
            "A choice is not counted where an imputer learned what it fills in: fill missing values with a declared one, "
            "SimpleImputer(strategy='constant', fill_value=…), or use counted=False, which warns."
        )
    if measurement(leak).information.two_sided(jacobian.attributes):
        raise InvalidInputError(
            "A choice is not counted where values tie at a range or a quantile that a scaler learned: use StandardScaler, or "
            "use counted=False, which warns."
        )
    prepared = prepare(neutral(model)[0] if folded else model, as_table(rows_of(task.X, scorer.rows)))
    features = np.asarray(prepared.features, dtype=np.float64)
    x = np.asarray(with_constant(features, fit.intercept is not None, fit.centre))
    attributes, label = measurement(leak).chosen(None, None)
    # without gaps rows move as any other does, held out or not
    held = prepared.attributes if leak is measured else jacobian.attributes
    return View(jacobian, tuple(attributes), label, x, scorer.labels, features, held)


def _reach(
    task: Task,
    views: Sequence[View],
    gradients: Sequence[Gradients],
    score: BoundedScore,
    allowed: AllowedRecords | None,
    rows: tuple[Rows, Rows],
) -> float:
    if allowed is None:
        groups = None if task.groups is None else np.unique(np.asarray(task.groups), return_inverse=True)[1]
        return reach_of_present([_in_order(each, rows) for each in gradients], groups)
    if np.intersect1d(*rows).size:
        raise InvalidInputError(
            "What choosing a candidate reveals of any record within the bounds is known only if held-out rows decide. Here "
            f"none of {len(task.y)} rows were held out: use held_out=0.25 with 20 rows or more, over='max', or name "
            "a candidate beforehand, release(choice=…)."
        )
    found = reach_of_any_record(views, score, allowed)
    if not math.isfinite(found):
        raise InvalidInputError(
            "A choice cannot be counted here: one record within the bounds would move the model of a candidate too far (few "
            "rows, little l2, or wide bounds). Declare narrower bounds, use larger penalties or more rows, or name a candidate "
            "beforehand, release(choice=…)."
        )
    return found


def _in_order(gradients: Gradients, rows: tuple[Rows, Rows]) -> Vector:
    """In the order of the table; rows that are held out and trained on move scores in both ways."""
    found = np.zeros((max(int(each.max()) for each in rows) + 1, gradients.held.shape[1]))
    found[rows[0]] += gradients.trained
    found[rows[1]] += gradients.held
    return found
