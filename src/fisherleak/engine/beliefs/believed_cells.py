"""From rows to the numbers of their cells that paths of one value need: for beliefs about values, block by block.

Also here: eta along the path of refits while one value moves, without refits: exact for the squared loss, else a
bound from above.

Mathematics: 5.2, ``docs/mathematics/shares.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, by_entries, host, is_lazy, like, namespace
from fisherleak._support.namespaces import Sums, Vector
from fisherleak.engine.beliefs.moving_noise import KINKS, Cells, MovingNoise, Solved
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.folding import Folding
from fisherleak.engine.jacobian.perturbation import Attribute, map_of
from fisherleak.engine.losses import Loss
from fisherleak.engine.norms.largest_eigenvalues import top_of_factors
from fisherleak.rows import sum_rows

RADII = (1.05, 1.3, 2.0, 4.0)
"""Times the first estimate of a radius, the least that holds is taken."""
ROUNDS = 6
"""Newton steps for a score, at most; what they leave is counted."""
SETTLED = 1e-13
"""Where all scores moved by less, by the slope of the curvature, no further step is taken."""
FURTHEST = 2.0
"""How far such a step goes, by the slope of the curvature."""


@dataclass(frozen=True)
class Shared:
    """What all cells share: the loss and, where it is not quadratic, how fast the Hessian of all rows changes."""

    loss: Loss
    slope: float = 0.0
    """kappa."""
    steepness: float = 0.0
    """The largest eigenvalue of P by the norm of H, its root."""
    tallest: float = 0.0
    """The largest leverage."""
    seen: float = 0.0
    """tau."""


Moving = tuple[MovingNoise, Cells]
"""Noise whose covariance follows the rows, and what it needs of the same cells."""


def at_offsets(
    shared: Shared, cells: Cells, t: Vector, y: Vector | None = None, moving: Moving | None = None
) -> Vector:
    """Eta squared where the value has moved by t, or the label to y: exact for quadratic losses, else a bound from above.

    Of noise whose covariance moves with the value, the first term alone.
    """
    own = cells.y if y is None else y
    path = _quadratic if shared.loss.quadratic else _bounded
    return path(shared, cells, t, own, y is not None, moving)


def _quadratic(shared: Shared, cells: Cells, t: Vector, y: Vector, label: bool, moving: Moving | None) -> Vector:
    """Where a Newton step ends at the minimum."""
    loss, omega = shared.loss, cells.omega
    z0 = cells.z + t * cells.w
    r, a = (omega * each(cells.z, cells.y + 0.0 * cells.z) for each in (loss.r, loss.a))
    r0, a0 = (omega * each(z0, y + 0.0 * z0) for each in (loss.r, loss.a))
    f, slope = cells.linear * t + cells.square * t**2, cells.linear + 2.0 * cells.square * t
    # K and c of the first formula of section 5.2; `moved` is M S^-1 c = -U^T D_1, so that z and w below are those at
    # theta + D_1
    solved = Solved.of(cells, a0 - a, a0 * t, a0 * t**2 + f)
    moved = solved.through(solved.solve(r0 - r, r0 * t + f * cells.w))
    step = _Step(solved, t, slope, z0 - moved[0] - t * moved[1], cells.w - moved[1], y, label)
    g = step.pushed(shared)[0]
    # eta^2 = q^T G q with q = S^-1 g (section 5.2); noise that moves with the value has g^T A(t) g in its place
    # (section 5.3)
    return solved.released(solved.solve(*g)) if moving is None else moving[0].first(moving[1], t, g)


def _bounded(shared: Shared, cells: Cells, t: Vector, y: Vector, label: bool, moving: Moving | None) -> Vector:
    """Where it ends near the minimum."""
    loss, omega = shared.loss, cells.omega
    r, a = (omega * each(cells.z, cells.y + 0.0 * cells.z) for each in (loss.r, loss.a))
    f, slope = cells.linear * t + cells.square * t**2, cells.linear + 2.0 * cells.square * t
    # H' = H - a x x^T + f e e^T: the other rows as they curve at the old parameters (section 5.2)
    apart = Solved.of(cells, -a, 0.0, f)
    step, near = _nearly(shared, apart, t, r, f, slope, y, label)
    a1 = omega * loss.a(step.z, y + 0.0 * step.z)
    # H_s of section 5.2: H' with the curvature a1 of the moved row, taken at its score z
    later = Solved.of(cells, a1 - a, a1 * t, a1 * t**2 + f)
    found = _bound(shared, replace(step, solved=later), near, a1) ** 2
    return found if moving is None else found * moving[0].growth(moving[1], t)


def _nearly(
    shared: Shared, apart: Solved, t: Vector, r: Vector, f: Vector, slope: Vector, y: Vector, label: bool
) -> tuple[_Step, _Near]:
    """The minimum with the other rows' curvatures as they were, and how far the true one is from it."""
    cells, loss = apart.cells, shared.loss
    without = apart.through(apart.solve(-r, f * cells.w))  # what the row's absence and the scale move
    # l = |x + t e|^2 by H'^-1, and alpha, the score without the row's own loss (section 5.2)
    own = apart.norm(1.0, t) ** 2
    alpha = cells.z + t * cells.w - without[0] - t * without[1]
    z, most = alpha + 0.0 * own, FURTHEST / shared.slope
    # Newton's method for z = alpha - l r(z) (section 5.2); r has the weight in it
    for _ in range(ROUNDS):
        labels = y + 0.0 * z
        gap = z - alpha + own * cells.omega * loss.r(z, labels)
        move = np.clip(gap / (1.0 + own * cells.omega * loss.a(z, labels)), -most, most)
        z = z - move
        if np.all(np.abs(move) <= SETTLED * most):
            break
    # the r that the last z stands for, (alpha - z) / l: the move D_1 is made with it, and `left` is how far the
    # gradient at D_1 is from zero by the norm of H'^-1, which the radius has to cover too
    pull = np.where(own > 0, (alpha - z) / np.where(own > 0, own, 1.0), 0.0)
    left = np.abs(cells.omega * loss.r(z, y + 0.0 * z) - pull) * np.sqrt(own)
    c = (pull - r, pull * t + f * cells.w)
    p = apart.solve(*c)
    moved = apart.through(p)
    size = np.sqrt(np.maximum(c[0] * moved[0] + c[1] * moved[1], 0.0))
    step = _Step(apart, t, slope, z, cells.w - moved[1], y, label)
    return step, _Near.of(shared, apart, t, size, p, left)


@dataclass(frozen=True)
class _Step:
    """Where a Newton step ends, and what the value does to the gradient there."""

    solved: Solved
    t: Vector
    slope: Vector
    z: Vector
    w: Vector
    y: Vector
    label: bool

    def pushed(self, shared: Shared) -> tuple[tuple[Vector, Vector], Vector, Vector]:
        """g, and the sizes of a w and of r (or of c) that a change of the score is a part of."""
        omega, y = self.solved.cells.omega, self.y + 0.0 * self.z
        if self.label:
            c = omega * shared.loss.c(self.z, y)
            # a label moves the gradient by c x: g = (c, 0)
            return (c, 0.0 * c), np.abs(c), 0.0 * c
        a = omega * shared.loss.a(self.z, y)
        along = a * self.w
        # g = (a w, r + t a w + f' w) of section 5.2, w = e . (theta + D)
        return (along, omega * shared.loss.r(self.z, y) + self.t * along + self.slope * self.w), np.abs(along), a


@dataclass(frozen=True)
class _Near:
    """How far the minimum is from a Newton step, by the norm of H_s (infinite where no radius holds), and what follows."""

    radius: Vector
    curving: Vector
    """kappa e^(kappa s) (D^T P D)^(1/2)."""
    score: Vector
    """How far the score of the moved row is off."""
    slope: Vector
    """How far w is off."""

    @classmethod
    def of(
        cls, shared: Shared, apart: Solved, t: Vector, size: Vector, p: tuple[Vector, Vector], left: Vector
    ) -> _Near:
        some, kappa, least = apart.cells, shared.slope, apart.least
        known = least > 0
        safe = np.where(known, least, 1.0)
        # D^T P D with D = -H^-1 U p; P11, P12 and P22 are U^T H^-1 P H^-1 U (section 5.2)
        bent = some.P11 * p[0] ** 2 + 2.0 * some.P12 * p[0] * p[1] + some.P22 * p[1] ** 2
        bent, tall = np.sqrt(np.maximum(bent, 0.0)), np.sqrt(shared.tallest / safe)

        # scores move by no more than |D| times the root of a leverage, nor than by the two parts of H^-1 U p
        parts = np.sqrt(some.M11 * shared.tallest) * np.abs(p[0]) + some.furthest * np.abs(p[1])
        moved = np.minimum(tall * size, np.where(np.isnan(parts), np.inf, parts))

        # rho sqrt(sigma) over the ball of radius e around D_1, sigma is `least`: by H a move of length e is e /
        # sqrt(sigma) at most
        def curving(e: Vector) -> Vector:
            reach = np.minimum(kappa * (moved + tall * e), 50.0)
            return np.asarray(kappa * np.exp(reach) * (bent + shared.steepness * e / np.sqrt(safe)))

        # the right side of the condition on epsilon in section 5.2, rho (|D_1| + e) / 2, and what Newton's method left
        # of z
        def needed(e: Vector) -> Vector:
            return np.asarray(0.5 * curving(e) / np.sqrt(safe) * (size + e) + left)

        first = needed(0.0 * size)
        radius = np.full_like(first, np.inf)
        for factor in RADII[::-1]:
            radius = np.where(needed(factor * first) <= factor * first, factor * first, radius)
        radius = np.where(known, radius, np.inf)
        held = np.where(np.isfinite(radius), radius, 0.0)
        return cls(radius, curving(held), apart.norm(1.0, t) * held, apart.norm(0.0, 1.0) * held)


def _bound(shared: Shared, step: _Step, near: _Near, a1: Vector) -> Vector:
    """Eta at most."""
    solved, kappa = step.solved, shared.slope
    least = solved.least
    known = (least > 0) & np.isfinite(near.radius)
    safe = np.where(known, least, 1.0)
    g, along, curved = step.pushed(shared)
    # a changes by a factor of e^(kappa |dz|) at most over the distance `near.score` of z, as |a'| <= kappa a
    grown = np.expm1(np.minimum(kappa * near.score, 50.0))
    t = step.t
    # what is open in the part along the row (a w, or c of a label), and in that along e (r, and w of a folded scale)
    if step.label:
        by_row, by_e = along * grown, 0.0 * along
    else:
        by_row = along * grown + a1 * (1.0 + grown) * near.slope
        # r changes by no more than the integral of a e^(kappa s) over s from 0 to |dz|
        by_e = curved * grown / kappa + np.abs(step.slope) * near.slope
    seen_row, seen_e = (np.sqrt(solved.released(solved.solve(*u))) for u in ((1.0, t), (0.0, 1.0)))
    own = solved.norm(1.0, t)
    # rho of the other rows, and what the curvature of the row itself may change from a1, both by the norm of H_s
    rate = near.curving / np.sqrt(safe) + a1 * grown * own**2
    known &= rate < 1.0
    rate = np.where(known, rate, 0.0)
    # |U g + delta| by H_s^-1, and the three terms of the last formula of section 5.2; tau is `shared.seen`
    size = solved.norm(*g) + by_row * own + by_e * solved.norm(0.0, 1.0)
    open_ = by_row * seen_row + by_e * seen_e + shared.seen / np.sqrt(safe) * rate / (1.0 - rate) * size
    return np.asarray(np.where(known, np.sqrt(solved.released(solved.solve(*g))) + KINKS * open_, np.inf))


@dataclass(frozen=True)
class Beliefs:
    """What is believed of each attribute beforehand, a normal law each, and of the label.

    ``spreads`` are in the attributes' units; NaN where not asked. A value is in ``values`` at its place in ``places``. Where
    that is negative, it is what the one of ``features`` shows, which no other attribute feeds. ``centres`` are as the values.
    """

    attributes: tuple[Attribute, ...]
    spreads: Vector
    centres: Vector
    features: NDArray[np.int64]
    places: NDArray[np.int64]
    values: Vector | None = None
    """(n, values)."""
    label_spread: float = np.nan
    label_centre: float = np.nan

    def offsets(self, X: Vector, values: Vector | None, asked: NDArray[np.int64], along: Vector) -> Vector:
        """How far the centres of some attributes are from their values in some rows, (b, k), by what a feature moves by."""
        centres, places = self.centres[asked], self.places[asked]
        shown = (centres - X[:, self.features[asked]]) / np.where(along == 0, 1.0, along)
        return shown if values is None else np.where(places < 0, shown, centres - values[:, places])


def directions(jacobian: Jacobian, attributes: Sequence[Attribute]) -> Vector:
    """E of attributes of one direction, (p, k)."""
    p = jacobian.width
    if all(each.directions is None and each.size == 1 for each in attributes):
        found = np.zeros((p, len(attributes)))
        found[[each.columns[0] for each in attributes], np.arange(len(attributes))] = 1.0
        return found
    E = map_of(attributes, p, np.zeros(1))
    return np.asarray(E.after(np.eye(p)) if E.matrix is None else E.matrix)


def folded(
    folding: Folding | None, fit: Any, X: Vector, weights: Vector | None, columns: Any, along: Vector
) -> tuple[Vector, Vector]:
    r"""What moving a value adds to the penalty on its direction: linear and square coefficients of t, (b, k).

    :math:`n \lambda (s^2(t) - s^2)` with :math:`W (s^2(t) - s^2) = \omega (2 t (x - \bar x) + t^2 (1 - \omega / W))`.
    """
    shape = (X.shape[0], len(columns))
    if folding is None:
        return np.zeros(shape), np.zeros(shape)
    assert folding.totals is not None
    totals, means = (np.asarray(host(each))[columns] for each in (folding.totals, folding.means))
    moved = totals > 0
    totals = np.where(moved, totals, 1.0)
    omega = np.ones((X.shape[0], 1)) if weights is None or not folding.weighted else weights[:, None]
    rate = np.where(moved, float(fit.n) * float(fit.l2) / totals, 0.0) * omega
    return rate * 2.0 * (X[:, columns] - means) / along, rate * (1.0 - omega / totals)


def cell_maker(
    jacobian: Jacobian, beliefs: Beliefs, asked: NDArray[np.int64], noise: MovingNoise | None
) -> Callable[..., tuple[Cells, Vector, Cells, Moving | None]]:
    """A function from a block to the numbers of its cells (b, k), the offset of each centre, and the numbers of its labels.

    Last what noise whose covariance moves needs of the same cells; None for other noise.
    """
    fit, folding = jacobian.fit, jacobian.folding
    some = [beliefs.attributes[j] for j in asked]
    E = directions(jacobian, some) if some else np.zeros((int(jacobian.theta.shape[0]), 0))
    columns = beliefs.features[asked]
    along = E[columns, np.arange(len(some))]
    theta, B = (np.asarray(host(each)) for each in (jacobian.theta, jacobian.B))
    inverse = np.zeros_like(B) if jacobian.gradient else np.asarray(host(fit.factor.inverse()))
    # E has few entries, and the inverse is symmetric
    along_E = by_entries(E.T)
    turned, BE, w = along_E(inverse).T, along_E(B.T).T, E.T @ theta
    steep, _, furthest = _steepness(jacobian, inverse, turned)
    P22 = steep.form(turned.T)
    M22, G22 = (E * turned).sum(axis=0), (BE**2).sum(axis=0)
    intercept, centre = fit.intercept is not None, None if fit.centre is None else np.asarray(host(fit.centre))
    directed = None if noise is None else (noise, E)  # E is as large as the Hessian, and kept for this alone

    def block(
        X: Array, y: Array, weights: Array | None, values: Vector | None = None
    ) -> tuple[Cells, Vector, Cells, Moving | None]:
        X, y = np.asarray(host(X), dtype=np.float64), np.asarray(host(y), dtype=np.float64)
        omega = None if weights is None else np.asarray(host(weights))
        x = np.asarray(with_constant(X, intercept, centre))
        u, seen = x @ inverse, x @ B.T
        bent = steep.times(u)
        one = np.ones(len(y)) if omega is None else omega
        row: list[Any] = [each[:, None] for each in (x @ theta, y, one)]
        pairs: list[Any] = [((u * x).sum(axis=1), along_E(u.T).T, M22), ((seen**2).sum(axis=1), seen @ BE, G22)]
        pairs.append(((bent * u).sum(axis=1), bent @ turned, P22))
        numbers = [part for a, b, c in pairs for part in (a[:, None], b, c[None, :])]
        moved = folded(folding, fit, X, omega, columns, along)
        every: list[Any] = [*row, w[None, :], *numbers, furthest[None, :], *moved]
        alone = [part for a, _, _ in pairs for part in (a[:, None], np.zeros((1, 1)), np.zeros((1, 1)))]
        labels: list[Any] = [*row, np.zeros((1, 1)), *alone]
        moving = None if directed is None else (directed[0], directed[0].cells(x, directed[1], one, moved))
        return Cells(*every), beliefs.offsets(X, values, asked, along), Cells(*labels), moving

    return block


@dataclass(frozen=True)
class _Steepness:
    """P, (p, p), or Z (n, p) with P = Z^T Z where rows are fewer than parameters."""

    whole: Vector | None
    thin: Vector

    def times(self, vectors: Vector) -> Vector:
        """Vectors (b, p) times P."""
        return np.asarray((vectors @ self.thin.T) @ self.thin if self.whole is None else vectors @ self.whole)

    def form(self, vectors: Vector) -> Vector:
        """v^T P v of each, (b,)."""
        if self.whole is None:
            return np.asarray(((vectors @ self.thin.T) ** 2).sum(axis=1))
        return np.asarray(((vectors @ self.whole) * vectors).sum(axis=1))

    def steepest(self, inverse: Vector) -> float:
        """The largest eigenvalue of P by H."""
        if self.whole is None:
            return float(np.linalg.eigvalsh(self.thin @ inverse @ self.thin.T)[-1])
        root = np.linalg.cholesky(inverse)
        return float(np.linalg.eigvalsh(root.T @ self.whole @ root)[-1])


def _steepness(jacobian: Jacobian, known: Vector, directed: Vector) -> tuple[_Steepness, float, Vector]:
    """P, the largest leverage, and the largest move of a score along each H^-1 e (p, k); H^-1 is known.

    Zeros where nothing but the gradient is released, or where the Hessian does not change.
    """
    fit, model = jacobian.fit, jacobian.model
    p = int(jacobian.theta.shape[0])
    if fit.loss.quadratic or jacobian.gradient:
        return _Steepness(None, np.zeros((0, p))), 0.0, np.zeros(directed.shape[1])
    xp = namespace(jacobian.theta)
    inverse, turned = (like(each, jacobian.theta, xp) for each in (known, directed))

    def parts(X: Array, y: Array, weights: Array | None) -> tuple[Array, Array, Array, Array]:
        rows = model.rows(X, y, weights)
        moved = xp.max(xp.abs(rows.x @ turned), axis=0) if directed.shape[1] else turned[0, :]
        tall = xp.sum((rows.x @ inverse) * rows.x, axis=1)
        return rows.x, rows.a * tall, xp.max(xp.where(rows.a > 0, tall, 0.0)), moved

    if int(jacobian.X.shape[0]) < p and not is_lazy(jacobian.X):
        x, weight, tallest, moved = parts(*jacobian.arrays)
        if bool(xp.all(weight >= 0)):
            thin = np.asarray(host(xp.sqrt(weight)[:, None] * x))
            return _Steepness(None, thin), float(tallest), np.asarray(host(moved))

    def block(X: Array, y: Array, weights: Array | None) -> Sums:
        x, weight, tallest, moved = parts(X, y, weights)
        return x.T @ (weight[:, None] * x), tallest, moved

    def join(a: Sums, b: Sums) -> Sums:
        return a[0] + b[0], xp.maximum(a[1], b[1]), xp.maximum(a[2], b[2])

    P, tallest, moved = sum_rows(block, *jacobian.arrays, join=join)
    return _Steepness(np.asarray(host(P)), thin=np.zeros((0, p))), float(tallest), np.asarray(host(moved))


def shared_of(jacobian: Jacobian) -> Shared:
    """What the bounds of all cells share."""
    loss = jacobian.fit.loss
    if loss.quadratic or jacobian.gradient:
        return Shared(loss, slope=1.0)
    inverse = np.asarray(host(jacobian.fit.factor.inverse()))
    steep, tallest, _ = _steepness(jacobian, inverse, np.zeros((len(inverse), 0)))
    metric = np.asarray(host(jacobian.metric))
    steepness = float(np.sqrt(max(steep.steepest(inverse), 0.0)))
    by_products = top_of_factors(metric, lambda sums: sums[0])
    top = None if by_products is None else by_products((inverse,))
    seen = float(np.linalg.norm(metric @ np.linalg.cholesky(inverse), ord=2) if top is None else np.sqrt(top))
    slope = np.inf if loss.traits is None else loss.traits.log_slope
    return Shared(loss, slope, steepness, tallest, seen)


# Rules for means over a normal belief about a value: nodes and weights, for every cell its own.
#
# The mean of eta squared over :math:`v \sim N(m, s^2)` is a mean over a path of refits, which may have a narrow peak: for the
# squared loss it has poles at :math:`v^* \pm i \delta`. From :math:`\delta \ge 4 s` nine Gauss-Hermite nodes are enough. Below,
# with :math:`v = v^* + \delta \sinh u`, the trapezoid rule in u has its nodes where the peak is, however narrow.

FAR = 8.5
"""Spreads from the centre past which a normal belief is below rounding."""
WIDE = 4.0
"""Distance of the poles, in spreads, from which nine nodes err by less than 1e-4 in the share."""
FEWEST = 128
"""Nodes over the whole range, so that a spread has four or more where there is no peak."""
STEP = 0.12
"""Of u: the next singularity is at pi / 4 from the real line, and the rule errs by exp(-2 pi (pi / 4) / step)."""


def gauss_nodes() -> tuple[Vector, Vector]:
    """Nine places in spreads from the centre, and weights that sum to one."""
    places, weights = np.polynomial.hermite_e.hermegauss(9)
    return np.asarray(places), np.asarray(weights / weights.sum())


def even_nodes(step: float, far: float = FAR) -> tuple[Vector, Vector]:
    """The trapezoid rule with a step in spreads: places, and weights that sum to one."""
    places = step * np.arange(-np.floor(far / step), np.floor(far / step) + 1.0)
    weights = np.exp(-0.5 * places**2)
    return places, np.asarray(weights / weights.sum())


def peaked_nodes(peak: Vector, width: Vector) -> tuple[Vector, Vector]:
    """For each of some cells with poles at peak ± i width, in spreads from the centre: places and weights, (cells, nodes)."""
    low, high = np.arcsinh((-FAR - peak) / width), np.arcsinh((FAR - peak) / width)
    count = max(FEWEST, int(np.ceil(np.max((high - low) / STEP, initial=0.0))))
    u = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, count)
    places = peak[:, None] + width[:, None] * np.sinh(u)
    weights = np.exp(-0.5 * places**2) * np.cosh(u)
    return places, np.asarray(weights / weights.sum(axis=1, keepdims=True))
