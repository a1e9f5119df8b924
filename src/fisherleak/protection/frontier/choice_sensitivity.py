"""How far one row moves the scores of candidates: exactly for the rows present, at most for any that could be there.

Mathematics: 7.5, ``docs/mathematics/noise.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.block_maps import BlockMap, places_of
from fisherleak.engine.jacobian.perturbation import Attribute, local_directions
from fisherleak.protection.certificates.bound_quantities import Points, feature_map, points_of, quantities_of
from fisherleak.protection.certificates.certificate import Bound, bound
from fisherleak.protection.certificates.declared_bounds import Admissible
from fisherleak.protection.certificates.known_losses import known_traits
from fisherleak.protection.certificates.parameter_change import drift_of
from fisherleak.protection.frontier.bounded_score import BoundedScore

__all__ = ["Gradients", "View", "gradients_of", "reach_of_admissible", "reach_of_present"]

Vector = NDArray[np.float64]


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


def reach_of_admissible(views: Sequence[View], score: BoundedScore, admissible: Admissible) -> float:
    """The same at most, for any admissible row in place of any present one, where no row is held out and trained on."""
    points = points_of(views[0].jacobian, admissible)
    held = _any_held_out_row(views, score, points, admissible.labels)
    single = sorted(_any_training_row(view, score, points, admissible.labels) for view in views)
    # half of |g_k^T J - g_j^T J'|, at most half the sum of the two largest
    trained = 0.5 * sum(single[-2:])
    return max(held, trained)


def _any_held_out_row(views: Sequence[View], score: BoundedScore, points: Points, labels: Vector) -> float:
    """Half the largest difference over pairs of models, and of each beside a score that nothing moves."""
    u = [feature_map(v.jacobian, v.attributes, len(v.theta)).T @ v.theta for v in views]
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


def _any_training_row(view: View, score: BoundedScore, points: Points, labels: Vector) -> float:
    """|g.J| at most, in the model refitted with the row."""
    fit = view.jacobian.fit
    scale, core = np.asarray(host(fit.factor.scale)), np.asarray(host(fit.factor.core))
    root = np.linalg.cholesky(core).T * scale[None, :]  # B^1/2
    along = view.seen_along(view.direction(score)[None, :])
    q, _, omega = quantities_of(along, points, view.attributes)
    drift = None if fit.loss.quadratic else drift_of(along, q)

    def most(seen: Jacobian) -> Bound:
        return bound(quantities_of(seen, points, view.attributes)[0], fit.loss, labels, omega, view.label, drift)

    first = bound(q, fit.loss, labels, omega, view.label, drift)
    move = first.extent.move
    if not (math.isfinite(first.value) and math.isfinite(move)):
        return math.inf
    # section 7.5, "Any training row": |g_k^T J|, then |A^1/2 delta| ||A^1/2 J|| for the move of g_k, then rows that
    # cross the cut, their slopes times ||H^1/2 J||; ``bent`` is A^1/2
    bent, crossed = _turned(view, score, view.x @ root.T, move)
    turned = _farthest(view, bent, root, points, labels, move) * most(view.seen_along(bent)).value
    found = first.value + turned
    if crossed > 0:
        found += crossed * most(replace(view.jacobian, B=root)).value  # H^1/2 theta
    return found if math.isfinite(found) else math.inf


def _farthest(view: View, L: Vector, root: Vector, points: Points, labels: Vector, move: float) -> float:
    r"""|L (w' - w)| at most, for moves of at most ``move`` in the metric of H.

    For the squared loss without folded scales the move is exactly that by the row that leaves, B x_i r_i / (1 - h_i), and that
    by the new one, of at most |L B- x| |r-| with B- and r- those without the row that left.
    """
    # |L delta| <= ||L B^1/2|| |H^1/2 delta|
    whole = float(np.linalg.norm(L @ root.T, 2)) * move
    q, present, omega = quantities_of(view.seen_along(L), points, view.attributes)
    if not view.jacobian.fit.loss.quadratic or q.stretch > 0 or not q.leverage < 1:
        return whole
    left = 1.0 - present.omega * present.a * present.h
    push = present.omega * present.r / left
    leaving, far = float(np.max(push * present.lb)), float(np.max(push * np.sqrt(present.h)))
    size = np.max([np.abs(ends - y) for ends in (q.z_low, q.z_high) for y in labels], axis=0) + q.root * far
    long = q.p + q.c1 * q.root
    # a product of two lengths is at most half the sum of their squares, t and 1/t of each, which is convex in the row
    if not (float(long.max()) > 0 and float(size.max()) > 0):
        return min(whole, leaving)
    t = float(size.max()) / float(long.max())
    return min(whole, leaving + 0.5 * omega * float(np.max(t * long**2 + size**2 / t)))


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
