"""Noise of least loss for any record within the bounds, shaped by the rows through their Gram matrix alone, and counted.

Mathematics: 6.9, ``docs/mathematics/any-record.md``.

Also here: noise shaped like the rows' own inverse Hessian, squared loss: a bound on its first term in that Hessian's
metric.

Mathematics: 6.8, ``docs/mathematics/any-record.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fisherleak._support.arrays import host, like, namespace
from fisherleak._support.namespaces import Vector
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.magnitudes import spectral_norm
from fisherleak.engine.noise import Gaussian
from fisherleak.protection.calibrate.limit_terms import inverse_root
from fisherleak.protection.certificates.bound_for_any_record import two_ranks
from fisherleak.protection.certificates.bound_quantities import Quantities
from fisherleak.protection.certificates.declared_bounds import AllowedRecords
from fisherleak.protection.certificates.exchange import Exchange, Points, value_map, weighted_rows

MOST_EXACT, BLOCK = 1024, 64
"""Corners whose norm is computed as it is, so many at a time; the others' is bounded in closed form."""
LEAST_DAMPED = 0.28
"""Above (2v - 1) sqrt(1 - v) for all v: what is left along b where it changes sign."""


def bound_in_own_metric(exchange: Exchange, q: Quantities) -> float:
    """The largest root of the first term at noise of scale 1; infinite where nothing can be certified.

    ``exchange`` is in the squared loss under noise of the own shape at scale 1, and ``q`` are its quantities.
    """
    grown = left_over(q)
    if not math.isfinite(grown):
        return math.inf
    omega, leaving, farthest = q.omega, moved_before(exchange, q), float(q.root.max())
    # section 6.8: ||b [u^T, -1] + r F|| at the present parameters; u and r move with the row that leaves, each by at
    # most ``leaving`` times a length, and A^-1 <= ``grown`` B
    direct = largest_direct(exchange, q, 2.0 * leaving * q.whole_e * q.root)
    damped = omega * math.sqrt(grown) * direct
    t = omega * grown * farthest**2
    v = t / (1.0 + t)
    # omega times the second formula of section 6.8: 1 - v, or 0.28, of the norm, and 2 v^3/2 |[u, 1]| / sqrt(omega);
    # convex in v, so that v = 0 and the largest v decide
    beside = 2.0 * v**1.5 * math.sqrt(omega) * math.hypot(q.u + leaving * q.whole_e, float(exchange.label))
    largest = max(damped, max(1.0 - v, LEAST_DAMPED) * damped + beside)
    folded, _ = folded_part(exchange, q)
    return float(largest + math.sqrt(grown) * folded * q.columns_root)


def left_over(q: Quantities) -> float:
    """How much larger B can be without the row that leaves and with the scales that it moves, or infinite."""
    # A >= (1 - l - delta) G, l the largest leverage and delta what changed scales take
    left = 1.0 - q.leverage - q.loosened
    return 1.0 / left if left > 0 else math.inf


def moved_before(exchange: Exchange, q: Quantities) -> float:
    """How far the parameters move, in the metric of B, before a row comes: with the rows that leave and others that come."""
    grown = left_over(q)
    leaving = grown * (q.push + q.pull)
    # section 6.11: others of the same person come with gradients omega r x at the minimum without those that leave
    return leaving + grown * q.others * q.omega * _farthest_r(q, exchange.labels, leaving) * float(q.root.max())


def _farthest_r(q: Quantities, labels: Vector, moved: float) -> float:
    """The largest |r| of a new row, squared loss, with parameters moved so far."""
    at_present = max(float(np.max(np.abs(ends - y))) for ends in (q.z_low, q.z_high) for y in labels)
    return at_present + moved * float(q.root.max())


def folded_part(exchange: Exchange, q: Quantities) -> tuple[float, float]:
    """||diag(m) E|| at most, and how far the parameters move, in the metric of B, when a row takes another's place."""
    leaving = moved_before(exchange, q)
    # the move by omega r A^-1 x, r the largest of a new row, on top of that by the row that leaves
    moved = leaving + left_over(q) * q.omega * _farthest_r(q, exchange.labels, leaving) * float(q.root.max())
    return (float(np.max(q.m)) + q.m_by_move * moved) * spectral_norm(exchange.directions), moved


def largest_direct(exchange: Exchange, q: Quantities, beside: Vector) -> float:
    """The largest ||L B [x u^T + r E, x]|| plus what is given beside it of every point, (V,).

    Closed forms first, then norms where these are largest. For noise of the shape G^-1, L B is a root of B.
    """
    jacobian, points, labels, E = exchange.jacobian, exchange.points, exchange.labels, exchange.directions
    root, theta = np.asarray(host(jacobian.B)), np.asarray(host(jacobian.fit.centred_theta))
    free = root @ E
    along, beta = free @ (E.T @ theta), float(q.u**2 + float(exchange.label))
    # what is not enumerated: x moves the first term, and z the second through r
    slack = points.reach(root) * math.sqrt(beta) + points.reach(theta[None, :]) * q.direct
    r_high, r_low = (np.concatenate([ends - y for y in labels]) for ends in (q.z_high, q.z_low))
    every = [np.tile(x, len(labels)) for x in (q.p, q.up, q.down)]
    across = np.maximum(np.abs(r_high), np.abs(r_low))
    aligned = np.maximum(np.maximum(r_high, 0.0) * every[1], np.maximum(-r_low, 0.0) * every[2])
    # the closed form of section 6.1: beta a a^T + r (a b^T + b a^T) + r^2 (L B E)(L B E)^T with a = L B x, b = L B E u
    # (``along``) and beta = |u|^2 + 1, one for the label
    above = np.sqrt((across * q.direct) ** 2 + two_ranks(aligned, across * q.along, beta, every[0]))
    extra = np.tile(beside, len(labels))
    above, extra = above + extra, extra + slack

    def exactly(some: Any) -> Vector:
        x, y = points.x[some % len(points.x)], np.repeat(labels, len(points.x))[some]
        a, r = x @ root.T, (x @ theta - y)[:, None, None]
        # the same matrix written out
        two = beta * a[:, :, None] * a[:, None, :] + r * (a[:, :, None] * along + along[:, None] * a[:, None, :])
        norms = np.sqrt(np.maximum(np.linalg.eigvalsh(two + r**2 * (free @ free.T))[:, -1], 0.0))
        return np.asarray(norms + extra[some])

    return _largest_of(above, exactly)


def _largest_of(above: Vector, exactly: Callable[[Any], Vector]) -> float:
    """The largest of some numbers, by bounds of all and, where these are largest, by the numbers themselves."""
    order, best = np.argsort(-above, kind="stable"), 0.0
    for start in range(0, min(len(order), MOST_EXACT), BLOCK):
        some = order[start : start + BLOCK]
        if above[some[0]] <= best:
            return best
        best = max(best, float(np.max(np.minimum(exactly(some), above[some]))))
    rest = order[MOST_EXACT:]
    return max(best, float(above[rest[0]])) if rest.size else best


FLOOR = 1e-9
"""Of the mean of N's diagonal: no direction is without a row that could lie there."""


def evenly_weighted(jacobian: Jacobian, allowed: AllowedRecords) -> Vector:
    """N, (p, p), over the released parameters: of all rows that could be there, each choice of a column as often as another."""
    p = len(jacobian.fit.theta)
    # section 6.9: the mean of x x^T is that of the means of all columns and, as columns are chosen independently, the
    # sum of their covariances
    middle, moment = allowed.base.copy(), np.zeros((len(allowed.base),) * 2)
    for part in allowed.parts:
        mean = part.mean(axis=0)
        middle, moment = middle + mean, moment + (part - mean).T @ (part - mean) / len(part)
    if allowed.radius is not None:
        # of a ball: directions evenly on its surface
        moment = moment + allowed.radius**2 / len(middle) * np.eye(len(middle))
    x = np.append(middle, 1.0) if p > len(middle) else middle
    N = np.outer(x, x)
    N[: len(middle), : len(middle)] += moment
    E = value_map(jacobian, jacobian.attributes, p)
    half = 0.5 * float(np.ptp(allowed.labels)) or 1.0
    # rho^2 E E^T, rho half the label's range
    N = N + half**2 * (E @ E.T)
    return np.asarray(N + FLOOR * float(np.trace(N)) / p * np.eye(p))


def shape_for_anyone(linear: Jacobian, N: Vector) -> Gaussian:
    """Noise of covariance S over the released parameters; ``linear`` has G for its Hessian."""
    fit = linear.fit
    found = shape_metrics(linear, N)
    R = np.asarray(host(fit.uncentred(like(found.by_s.T, fit.coef, namespace(fit.coef)))))
    return Gaussian(1.0, R @ R.T)


@dataclass(frozen=True)
class ShapeMetrics:
    """Roots of three metrics, (p, p) each, for rows as they are centred: |root @ x| is a length."""

    by_b: Vector
    by_s: Vector
    by_m: Vector
    """That of M^-1."""

    def second(self, exchange: Exchange, q: Quantities) -> float:
        """The second term of any record within the bounds in place of a row, as an eta."""
        swapped, points = self._exchanged(exchange, q), exchange.points
        E, d = exchange.directions, len(points.spans)
        kappa, nu = swapped.kappa, swapped.nu
        if not math.isfinite(nu):
            return math.inf
        # section 6.9: products of S' and M'^-1 grow by at most nu kappa^1/2, those of B' with itself by kappa^2
        whole = swapped.omega * math.sqrt(max(math.sqrt(kappa) * nu, kappa**2) * self._largest(points, q, swapped, E))
        learned = _learned(exchange.jacobian, d)
        s, m = (spectral_norm(root[:, :d][:, learned]) for root in (self.by_s, self.by_m))
        # (||M'^-1|| ||S'|| + ||B'||^2 / 8)^1/2 over the columns whose scales are folded in; max |delta| is
        # ``scale_push`` ||E||
        scales = math.hypot(kappa**0.25 * m * math.sqrt(nu) * s, kappa * q.columns_root**2 / math.sqrt(8.0))
        return whole + q.scale_push * spectral_norm(E) * scales

    def shrinking(self, exchange: Exchange, q: Quantities) -> float:
        """How much larger etas under the exchanged rows' shape can be than under this one."""
        swapped = self._exchanged(exchange, q)
        # kappa^1/4 (1 + tau_+ + tau_-), the last formula of section 6.9
        return float(swapped.kappa**0.25 * (1.0 + swapped.coming + swapped.leaving))

    def _largest(self, points: Points, q: Quantities, swapped: _Exchanged, E: Vector) -> float:
        """The second term over the squared weight, for rows that change nothing else: closed forms first."""
        s, m, b = (root @ E for root in (self.by_s, self.by_m, self.by_b))
        # the fourth formula of section 6.9 at its most: 2 (e^T S x)(e^T M^-1 x) is no more than its first two terms,
        # (e^T B x)^2 no more than |x|_B^2 |e|_B^2
        above = (
            2.0 * ((spectral_norm(s) * swapped.x_m) ** 2 + (spectral_norm(m) * swapped.x_s) ** 2)
            + 0.5 * (q.root * spectral_norm(b)) ** 2
        )
        if points.rest or points.radius or not E.size:
            return float(above.max())
        S, M, B = s.T @ s, m.T @ m, b.T @ b

        def exactly(some: Any) -> Vector:
            by_s, by_m, by_b = (points.x[some] @ root.T for root in (self.by_s, self.by_m, self.by_b))
            alone = [np.sum(each**2, axis=1)[:, None, None] for each in (by_s, by_m, by_b)]
            along = [(each @ root)[:, :, None] for each, root in ((by_s, s), (by_m, m), (by_b, b))]
            crossed = along[0] * along[1].transpose(0, 2, 1)
            # the same formula as a quadratic form in e, exactly
            F = alone[1] * S + alone[0] * M + crossed + crossed.transpose(0, 2, 1)
            F = F + 0.25 * (alone[2] * B + along[2] * along[2].transpose(0, 2, 1))
            return np.asarray(np.linalg.eigvalsh(F)[:, -1])

        return _largest_of(above, exactly)

    def _exchanged(self, exchange: Exchange, q: Quantities) -> _Exchanged:
        linear, points = exchange.jacobian, exchange.points
        x, _, omega = weighted_rows(linear)
        s, m = (np.linalg.norm(x @ root.T, axis=1) for root in (self.by_s, self.by_m))
        fit, d = linear.fit, len(points.spans)
        # no scale's square moves by more than this part of itself
        part = -math.expm1(-q.stretch)
        moved = np.zeros(d) if fit.scales is None else np.sqrt(fit.n * fit.l2 * part) * np.asarray(host(fit.scales))
        moved = np.where(_learned(linear, d), moved, 0.0)
        kappa = min(left_over(q), math.exp(q.stretch) / (1.0 - q.leverage) if q.leverage < 1 else math.inf)
        # G' <= mu G, as in section 6.7, with all rows that come
        mu = math.exp(q.stretch) + (1 + q.others) * float(omega.max()) * float(q.root.max()) ** 2
        x_s, x_m = (np.linalg.norm(points.x @ root.T, axis=1) + points.reach(root) for root in (self.by_s, self.by_m))
        # tau of omega x x^T is omega |M^-1/2 x| |M^1/2 B x| = omega |x|_(M^-1) |x|_S, as S = B M B; of changed
        # penalties alike
        scales = math.prod(spectral_norm(root[:, :d] * moved) for root in (self.by_s, self.by_m))
        coming, leaving = float(omega.max()) * float(np.max(x_s * x_m)), float(np.max(omega * s * m)) + scales
        if q.others:
            # section 6.11: ||U|| ||V|| of all rows that come, and the sum over those that leave
            coming = (1 + q.others) * float(omega.max()) * float(np.max(x_s)) * float(np.max(x_m))
            leaving = float(np.sum(np.sort(omega * s * m)[-1 - q.others :])) + scales
        return _Exchanged(kappa, mu, float(omega.max()), x_s, x_m, coming, leaving)


@dataclass(frozen=True)
class _Exchanged:
    """What one row that leaves, another that comes, and scales that they move can change."""

    kappa: float
    mu: float
    omega: float
    x_s: Vector
    x_m: Vector
    coming: float
    leaving: float
    """||M^-1/2 D B M^1/2|| for the change D of G by either, moved scales with the latter."""

    @property
    def nu(self) -> float:
        """S' <= nu S."""
        if not self.leaving < 1:
            return math.inf
        # mu^1/2 (1 + tau_+ / (1 - tau_-))^2 (1 - tau_-)^-2
        return math.sqrt(self.mu) * ((1.0 + self.coming / (1.0 - self.leaving)) / (1.0 - self.leaving)) ** 2


def shape_metrics(linear: Jacobian, N: Vector) -> ShapeMetrics:
    """The metrics for N over the released parameters."""
    root = inverse_root(linear.fit)
    to = np.eye(len(root))
    if linear.fit.centre is not None:
        to[:-1, -1] = -np.asarray(host(linear.fit.centre))
    # B^1/2 N B^1/2 = V diag(values) V^T: S = B^1/2 V diag(values)^1/2 V^T B^1/2 by the second formula of section 6.9,
    # and M^-1 with the inverse root
    values, V = np.linalg.eigh(root @ to @ N @ to.T @ root.T)
    values = np.maximum(values, np.finfo(np.float64).tiny)
    Q = V.T @ root
    return ShapeMetrics(Q, values[:, None] ** 0.25 * Q, values[:, None] ** -0.25 * Q)


def first_of_squared(exchange: Exchange, q: Quantities) -> float:
    """The largest root of the first term, squared loss, at noise of this shape and scale 1; infinite where none is certain."""
    grown = left_over(q)
    if not math.isfinite(grown):
        return math.inf
    omega, leaving = q.omega, moved_before(exchange, q)
    folded, moved = folded_part(exchange, q)
    # r moves with the row that leaves, u with both rows; L B is M^-1/2 here
    beside = leaving * q.direct * q.root + moved * q.whole_e * q.p
    direct = largest_direct(exchange, q, beside)
    # a new row's own effect brings its r nearer to zero: the norm is convex in r, and largest at one end
    still = float(np.max(q.p)) * (math.hypot(q.u, float(exchange.label)) + moved * q.whole_e)
    # M'^-1 <= kappa^1/2 M^-1, in a norm its root
    return float(grown**0.25 * (omega * max(direct, still) + folded * q.columns))


def _learned(linear: Jacobian, d: int) -> Any:
    folding = linear.folding
    if folding is None or linear.fit.l2 == 0:
        return np.zeros(d, dtype=bool)
    return (np.abs(np.asarray(host(folding.slopes))) > 0) | (np.asarray(host(linear.fit.scales)) != 1.0)
