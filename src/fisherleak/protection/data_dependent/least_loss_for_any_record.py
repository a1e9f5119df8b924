"""Noise of least loss for whoever could be among the rows, shaped by the rows through their Gram matrix alone, and counted.

Mathematics: 6.9, ``docs/mathematics/any-record.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host, like, namespace
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.noise import Gaussian
from fisherleak.engine.noise.calibrated import FOR_ANYONE
from fisherleak.protection.certificates.bound_quantities import Points, Quantities, feature_map, value_map
from fisherleak.protection.certificates.declared_bounds import Admissible
from fisherleak.protection.data_dependent.hessian_metric import folded_part, largest_direct, left_over

__all__ = ["FOR_ANYONE", "Between", "between", "evenly_weighted", "first_of_squared", "shape_for_anyone"]

Vector = NDArray[np.float64]
MOST_EXACT, BLOCK = 1024, 64
"""Corners whose second term is computed as it is, so many at a time; the others' is bounded in closed form."""
FLOOR = 1e-9
"""Of the mean of N's diagonal: no direction is without a row that could lie there."""


def evenly_weighted(jacobian: Jacobian, admissible: Admissible) -> Vector:
    """N, (p, p), over the released parameters: of all rows that could be there, each choice of a column as often as another."""
    p = len(jacobian.fit.theta)
    # section 6.9: the mean of x x^T is that of the means of all columns and, as columns are chosen independently, the
    # sum of their covariances
    middle, moment = admissible.base.copy(), np.zeros((len(admissible.base),) * 2)
    for part in admissible.parts:
        mean = part.mean(axis=0)
        middle, moment = middle + mean, moment + (part - mean).T @ (part - mean) / len(part)
    if admissible.radius is not None:
        # of a ball: directions evenly on its surface
        moment = moment + admissible.radius**2 / len(middle) * np.eye(len(middle))
    x = np.append(middle, 1.0) if p > len(middle) else middle
    N = np.outer(x, x)
    N[: len(middle), : len(middle)] += moment
    E = value_map(jacobian, jacobian.attributes, p)
    half = 0.5 * float(np.ptp(admissible.labels)) or 1.0
    # rho^2 E E^T, rho half the label's range
    N = N + half**2 * (E @ E.T)
    return np.asarray(N + FLOOR * float(np.trace(N)) / p * np.eye(p))


def shape_for_anyone(linear: Jacobian, N: Vector) -> Gaussian:
    """Noise of covariance S over the released parameters; ``linear`` has G for its Hessian."""
    fit = linear.fit
    found = between(linear, N)
    R = np.asarray(host(fit.uncentred(like(found.by_s.T, fit.coef, namespace(fit.coef)))))
    return Gaussian(1.0, R @ R.T)


@dataclass(frozen=True)
class Between:
    """Roots of three metrics, (p, p) each, for rows as they are centred: |root @ x| is a length."""

    by_b: Vector
    by_s: Vector
    by_m: Vector
    """That of M^-1."""

    def second(self, q: Quantities, points: Points, linear: Jacobian, attributes: Sequence[Attribute]) -> float:
        """The second term of any admissible row in place of any present one, as an eta."""
        swapped = self._exchanged(q, points, linear)
        E, d = feature_map(linear, attributes, len(self.by_b)), len(points.spans)
        kappa, nu = swapped.kappa, swapped.nu
        if not math.isfinite(nu):
            return math.inf
        # section 6.9: products of S' and M'^-1 grow by at most nu kappa^1/2, those of B' with itself by kappa^2
        whole = swapped.omega * math.sqrt(max(math.sqrt(kappa) * nu, kappa**2) * self._largest(points, q, swapped, E))
        learned = _learned(linear, d)
        s, m = (_norm(root[:, :d][:, learned]) for root in (self.by_s, self.by_m))
        # (||M'^-1|| ||S'|| + ||B'||^2 / 8)^1/2 over the columns whose scales are folded in; max |delta| is
        # ``scale_push`` ||E||
        scales = math.hypot(kappa**0.25 * m * math.sqrt(nu) * s, kappa * q.columns_root**2 / math.sqrt(8.0))
        return whole + q.scale_push * _norm(E) * scales

    def shrinking(self, q: Quantities, points: Points, linear: Jacobian) -> float:
        """How much larger etas under the exchanged rows' shape can be than under this one."""
        swapped = self._exchanged(q, points, linear)
        # kappa^1/4 (1 + tau_+ + tau_-), the last formula of section 6.9
        return float(swapped.kappa**0.25 * (1.0 + swapped.coming + swapped.leaving))

    def _largest(self, points: Points, q: Quantities, swapped: _Exchanged, E: Vector) -> float:
        """The second term over the squared weight, for rows that change nothing else: closed forms first."""
        s, m, b = (root @ E for root in (self.by_s, self.by_m, self.by_b))
        # the fourth formula of section 6.9 at its most: 2 (e^T S x)(e^T M^-1 x) is no more than its first two terms,
        # (e^T B x)^2 no more than |x|_B^2 |e|_B^2
        above = 2.0 * ((_norm(s) * swapped.x_m) ** 2 + (_norm(m) * swapped.x_s) ** 2) + 0.5 * (q.root * _norm(b)) ** 2
        if points.rest or points.radius or not E.size:
            return float(above.max())
        order, best = np.argsort(-above, kind="stable"), 0.0
        S, M, B = s.T @ s, m.T @ m, b.T @ b
        for start in range(0, min(len(order), MOST_EXACT), BLOCK):
            some = order[start : start + BLOCK]
            if above[some[0]] <= best:
                return best
            by_s, by_m, by_b = (points.x[some] @ root.T for root in (self.by_s, self.by_m, self.by_b))
            alone = [np.sum(each**2, axis=1)[:, None, None] for each in (by_s, by_m, by_b)]
            along = [(each @ root)[:, :, None] for each, root in ((by_s, s), (by_m, m), (by_b, b))]
            crossed = along[0] * along[1].transpose(0, 2, 1)
            # the same formula as a quadratic form in e, exactly
            F = alone[1] * S + alone[0] * M + crossed + crossed.transpose(0, 2, 1)
            F = F + 0.25 * (alone[2] * B + along[2] * along[2].transpose(0, 2, 1))
            best = max(best, float(np.max(np.minimum(np.linalg.eigvalsh(F)[:, -1], above[some]))))
        rest = order[MOST_EXACT:]
        return max(best, float(above[rest[0]])) if rest.size else best

    def _exchanged(self, q: Quantities, points: Points, linear: Jacobian) -> _Exchanged:
        x, omega = _rows(linear)
        s, m = (np.linalg.norm(x @ root.T, axis=1) for root in (self.by_s, self.by_m))
        fit, d = linear.fit, len(points.spans)
        # no scale's square moves by more than this part of itself
        part = -math.expm1(-q.stretch)
        moved = np.zeros(d) if fit.scales is None else np.sqrt(fit.n * fit.l2 * part) * np.asarray(host(fit.scales))
        moved = np.where(_learned(linear, d), moved, 0.0)
        kappa = min(left_over(q), math.exp(q.stretch) / (1.0 - q.leverage) if q.leverage < 1 else math.inf)
        # G' <= mu G, as in section 6.7
        mu = math.exp(q.stretch) + float(omega.max()) * float(q.root.max()) ** 2
        x_s, x_m = (np.linalg.norm(points.x @ root.T, axis=1) + points.reach(root) for root in (self.by_s, self.by_m))
        # tau of omega x x^T is omega |M^-1/2 x| |M^1/2 B x| = omega |x|_(M^-1) |x|_S, as S = B M B; of changed
        # penalties alike
        scales = math.prod(_norm(root[:, :d] * moved) for root in (self.by_s, self.by_m))
        coming, leaving = float(omega.max()) * float(np.max(x_s * x_m)), float(np.max(omega * s * m)) + scales
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


def between(linear: Jacobian, N: Vector) -> Between:
    """The metrics for N over the released parameters."""
    root = _base_root(linear)
    to = np.eye(len(root))
    if linear.fit.centre is not None:
        to[:-1, -1] = -np.asarray(host(linear.fit.centre))
    # B^1/2 N B^1/2 = V diag(values) V^T: S = B^1/2 V diag(values)^1/2 V^T B^1/2 by the second formula of section 6.9,
    # and M^-1 with the inverse root
    values, V = np.linalg.eigh(root @ to @ N @ to.T @ root.T)
    values = np.maximum(values, np.finfo(np.float64).tiny)
    Q = V.T @ root
    return Between(Q, values[:, None] ** 0.25 * Q, values[:, None] ** -0.25 * Q)


def first_of_squared(
    jacobian: Jacobian,
    q: Quantities,
    points: Points,
    attributes: Sequence[Attribute],
    labels: Vector,
    omega: float,
    label: bool,
) -> float:
    """The largest root of the first term, squared loss, at noise of this shape and scale 1; infinite where none is certain."""
    grown = left_over(q)
    if not math.isfinite(grown):
        return math.inf
    leaving = grown * (q.push + q.pull)
    folded, moved = folded_part(jacobian, q, attributes, labels, omega)
    # r moves with the row that leaves, u with both rows; L B is M^-1/2 here
    beside = leaving * q.direct * q.root + moved * q.whole_e * q.p
    direct = largest_direct(jacobian, q, points, attributes, labels, label, beside)
    # a new row's own effect brings its r nearer to zero: the norm is convex in r, and largest at one end
    still = float(np.max(q.p)) * (math.hypot(q.u, float(label)) + moved * q.whole_e)
    # M'^-1 <= kappa^1/2 M^-1, in a norm its root
    return float(grown**0.25 * (omega * max(direct, still) + folded * q.columns))


def _rows(linear: Jacobian) -> tuple[Vector, Vector]:
    """Centred rows that count, (n, p), and their weights."""
    fit = linear.fit
    X = np.asarray(host(linear.X), dtype=np.float64)
    omega = np.ones(len(X)) if fit.sample_weight is None else np.asarray(host(fit.sample_weight), dtype=np.float64)
    centre = None if fit.centre is None else np.asarray(host(fit.centre))
    return np.asarray(with_constant(X[omega > 0], fit.intercept is not None, centre)), omega[omega > 0]


def _base_root(linear: Jacobian) -> Vector:
    """Q with Q^T Q = B for rows as they are centred."""
    scale, core = np.asarray(host(linear.fit.factor.scale)), np.asarray(host(linear.fit.factor.core))
    return np.asarray(np.linalg.cholesky(core).T * scale[None, :])


def _learned(linear: Jacobian, d: int) -> Any:
    folding = linear.folding
    if folding is None or linear.fit.l2 == 0:
        return np.zeros(d, dtype=bool)
    return (np.abs(np.asarray(host(folding.slopes))) > 0) | (np.asarray(host(linear.fit.scales)) != 1.0)


def _norm(matrix: Vector) -> float:
    return float(np.linalg.norm(matrix, 2)) if matrix.size else 0.0
