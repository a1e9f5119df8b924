r"""What a bound on the worst record within the bounds is made of: norms, leverages and the records themselves, as numbers.

In the metric of the Hessian, with :math:`B = H^{-1}`, L the noise's view of the parameters and E the values that count, every
point x that could be there brings :math:`\sqrt{h} = |B^{1/2} x|`, :math:`|L B x|` and :math:`|E^T B x|`; every row that is
there brings its leverage and its push :math:`\omega |r| \sqrt{h}` on the parameters. All are lengths, so that what one replaced
row does to them is bounded by how it changes B and the parameters: see ``worst_record.spread_of``. Several rows at once,
those of a person, bring sums.

Mathematics: 6.11, ``docs/mathematics/any-record.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Vector
from fisherleak.engine.magnitudes import spectral_norm
from fisherleak.protection.calibrate.limit_terms import inverse_root
from fisherleak.protection.certificates.declared_bounds import check_deviations
from fisherleak.protection.certificates.exchange import Exchange, heaviest, weighted_rows


@dataclass(frozen=True)
class Present:
    """Each row that is there and has a weight, (n,)."""

    omega: Vector
    y: Vector
    z: Vector
    r: Vector
    """|r|, not weighted."""
    a: Vector
    h: Vector
    """x.B.x"""
    lb: Vector
    """|L B x|"""
    eb: Vector
    """|E^T B x|"""

    def of_copies(self, copies: int, kept: int) -> Present:
        """With every row so many times, of which some are enough where the largest few decide."""
        scaled = replace(self, h=self.h / copies, lb=self.lb / copies, eb=self.eb / copies)
        return Present(*(np.repeat(getattr(scaled, name), kept) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Quantities:
    """All that the bound is made of; it grows with each of them."""

    omega: float
    """The largest weight of a row."""
    leverage: float
    push: float
    far: float
    """The largest x.B.x of a present row."""
    c1: float
    c2: float
    c3: float
    lift: float
    lift_e: float
    whole: float
    """||L B^1/2||"""
    whole_e: float
    """||E^T B^1/2||"""
    direct: float
    """||L B E||"""
    columns: float
    """||L B|| over the columns whose scales are folded in."""
    u: float
    """|E^T w|"""
    along: float
    """|L B E E^T w|"""
    root: Vector
    """(V,) square roots of h."""
    p: Vector
    e: Vector
    up: Vector
    """Positive part of (L B x).(L B E E^T w), and of its negative."""
    down: Vector
    z_low: Vector
    z_high: Vector
    lowest: float
    highest: float
    stretch: float = 0.0
    """Relative change of a folded scale's penalty, as a logarithm."""
    pull: float = 0.0
    """The gradient that a changed penalty leaves, in the metric of B."""
    pull_by_move: float = 0.0
    columns_root: float = 0.0
    m: Vector | float = 0.0
    """(V,) what a change of a feature does to the penalty."""
    m_by_move: float = 0.0
    m_by_mean: float = 0.0
    scale_push: float = 0.0
    """How fast the penalty's curvature moves with a feature of a row, through its folded scale."""
    loosened: float = 0.0
    """The part of the Hessian that a changed penalty takes away, at most."""
    others: int = 0
    """How many more rows than one are exchanged at once: those of a person, less one (section 6.11)."""


@dataclass(frozen=True)
class _Base:
    """Matrices at the fit."""

    LB: Vector
    root: Vector
    """B^1/2: |root @ x|^2 = x.B.x"""
    H: Vector
    E: Vector
    theta: Vector

    @property
    def inverse(self) -> Vector:
        return self.root.T @ self.root

    def of_copies(self, copies: int) -> _Base:
        """With every row so many times: H is as many times as large."""
        return _Base(self.LB / copies, self.root / math.sqrt(copies), self.H * copies, self.E, self.theta)


def quantities_of(exchange: Exchange, copies: int = 1) -> tuple[Quantities, Present]:
    """The quantities at a fit, and its rows.

    With ``copies``, of the same rows so many times, whose model is the same.
    """
    points, count = exchange.points, exchange.count
    base, present = _at(exchange)
    if copies > 1:
        base, present = base.of_copies(copies), present.of_copies(copies, min(count, copies))
    u = base.E.T @ base.theta
    Q = base.LB @ base.E
    q = Q @ u
    x = points.x
    back = base.E.T @ base.inverse
    root = np.linalg.norm(x @ base.root.T, axis=1) + points.reach(base.root)
    both, slack = x @ (base.LB.T @ q), points.reach((base.LB.T @ q)[None, :])
    z, beyond = x @ base.theta, points.reach(base.theta[None, :])
    free = base.root @ base.E
    numbers: dict[str, Any] = {
        "whole": spectral_norm(base.LB @ base.H @ base.root.T),
        "whole_e": spectral_norm(free),
        "direct": spectral_norm(Q),
        "columns": 0.0,
        "u": float(np.linalg.norm(u)),
        "along": float(np.linalg.norm(q)),
        "root": root,
        "p": np.linalg.norm(x @ base.LB.T, axis=1) + points.reach(base.LB),
        "e": np.linalg.norm(x @ back.T, axis=1) + (points.reach(back) if back.size else 0.0),
        "up": np.maximum(both + slack, 0.0),
        "down": np.maximum(slack - both, 0.0),
        "z_low": z - beyond,
        "z_high": z + beyond,
        "lowest": float(np.min(z - beyond)),
        "highest": float(np.max(z + beyond)),
    }
    numbers |= _folded(exchange, base, copies)
    numbers |= maxima(present) if count == 1 else maxima_together(present, count)
    return Quantities(**numbers, omega=float(present.omega.max()), others=count - 1), present


@dataclass(frozen=True)
class Strong:
    """The same norms by the penalty alone, in place of B; and the longest E^T w: nothing here depends on values of rows."""

    whole: float
    whole_e: float
    root: float
    u: float


def strong_of(exchange: Exchange) -> Strong | None:
    """None where a parameter has no penalty, or derivatives of the loss have no bound."""
    fit, points = exchange.jacobian.fit, exchange.points
    free = fit.intercept is not None and fit.intercept_l2 == 0
    traits = fit.loss.traits
    if fit.l2 == 0 or free or exchange.jacobian.folding is not None or traits is None:
        return None
    if not math.isfinite(traits.steepest):
        return None
    base, _ = _at(exchange)
    penalty = np.full(len(base.theta), fit.n * fit.l2)
    if fit.intercept is not None:
        penalty[-1] = fit.n * fit.intercept_l2
    root = np.diag(penalty**-0.5)
    whole_e = spectral_norm(root @ base.E)
    far = float(np.linalg.norm(points.x @ root, axis=1).max()) + points.reach(root)
    # |w| in the metric of the penalty is at most |sum of all r x| / penalty, with the longest r
    # and the penalty's part of the risk is at most the risk of no model at all
    weights = float(fit.n if fit.sample_weight is None else np.sum(host(fit.sample_weight)))
    # so |E^T w| <= ||E^T P^-1/2|| |P^1/2 w|, P the penalty, with the less of both bounds of |P^1/2 w|
    return Strong(
        spectral_norm(base.LB @ base.H @ root),
        whole_e,
        far,
        whole_e * min(weights * traits.steepest * far, math.sqrt(2.0 * traits.of_nothing * weights)),
    )


def _at(exchange: Exchange) -> tuple[_Base, Present]:
    jacobian = exchange.jacobian
    fit, (x, y, omega) = jacobian.fit, weighted_rows(jacobian)
    theta, root = np.asarray(host(fit.centred_theta)), inverse_root(fit)
    z = x @ theta
    a, r = np.asarray(fit.loss.a(z, y)), np.abs(np.asarray(fit.loss.r(z, y)))
    # the factor is scaled to unit diagonal, and so is its root
    scale = np.asarray(host(fit.factor.scale))
    H = np.linalg.inv(np.asarray(host(fit.factor.core))) / scale[:, None] / scale[None, :]
    LB = np.asarray(host(jacobian.B))
    base = _Base(LB, root, H, exchange.directions, theta)
    h = np.sum((x @ root.T) ** 2, axis=1)
    lb, eb = np.linalg.norm(x @ LB.T, axis=1), np.linalg.norm(x @ (base.E.T @ base.inverse).T, axis=1)
    return base, Present(omega, y, z, r, a, h, lb, eb)


def maxima(present: Present, *, without_the_largest: bool = False) -> dict[str, float]:
    """What removing one row does at most, each number over all rows, or over all rows but any one."""
    # section 6.1, "The row that leaves": A = H - s x x^T has A^-1 = B + s (B x)(B x)^T / (1 - s h). So c1, c2, c3 are
    # s / (1 - s h) times |L B x| |B^1/2 x|, |L B x| |E^T B x| and |E^T B x| |B^1/2 x|; lifts are what ||L A^-1/2||^2
    # and ||E^T A^-1/2||^2 gain
    leverage = present.omega * present.a * present.h
    if not leverage.max() < 1.0 - 1e-9:
        return dict.fromkeys(("push", "far", "c1", "c2", "c3", "lift", "lift_e"), math.inf) | {"leverage": 1.0}
    s, left = present.omega * present.a, 1.0 - leverage
    root = np.sqrt(present.h)
    each = {
        "leverage": leverage,
        # omega |r| |A^-1/2 x|, the gradient that the row leaves behind
        "push": present.omega * present.r * root / np.sqrt(left),
        "far": present.h,
        "c1": s * present.lb * root / left,
        "c2": s * present.lb * present.eb / left,
        "c3": s * present.eb * root / left,
        "lift": s * present.lb**2 / left,
        "lift_e": s * present.eb**2 / left,
    }
    if not without_the_largest:
        return {name: float(values.max()) for name, values in each.items()}
    return {name: float(np.sort(values)[-2]) if len(values) > 1 else 0.0 for name, values in each.items()}


def maxima_together(present: Present, count: int) -> dict[str, float]:
    """What removing any ``count`` rows at once does at most."""

    def most(values: Vector) -> float:
        return float(np.sum(np.sort(values)[-count:]))

    s = present.omega * present.a
    # section 6.11: sums over the rows that leave stand for the numbers of one row
    leverage, lb, eb = most(s * present.h), most(s * present.lb**2), most(s * present.eb**2)
    if not leverage < 1.0 - 1e-9:
        return dict.fromkeys(("push", "far", "c1", "c2", "c3", "lift", "lift_e"), math.inf) | {"leverage": 1.0}
    left = 1.0 - leverage
    return {
        "leverage": leverage,
        "push": most(present.omega * present.r * np.sqrt(present.h)) / math.sqrt(left),
        "far": float(present.h.max()),
        "c1": math.sqrt(lb * leverage) / left,
        "c2": math.sqrt(lb * eb) / left,
        "c3": math.sqrt(eb * leverage) / left,
        "lift": lb / left,
        "lift_e": eb / left,
    }


def _folded(exchange: Exchange, base: _Base, copies: int) -> dict[str, Any]:
    """What exchanged rows do to scales that are folded into the penalty, and what the penalty does to J."""
    folding, fit, points = exchange.jacobian.folding, exchange.jacobian.fit, exchange.points
    if folding is None or fit.l2 == 0:
        return {}
    check_deviations(folding)
    slopes, means = np.abs(np.asarray(host(folding.slopes))), np.asarray(host(folding.means))
    d = len(slopes)
    scales, w = np.asarray(host(fit.scales)), np.abs(base.theta[:d])
    omega = heaviest(fit) if folding.weighted else 1.0
    total = fit.n if not folding.weighted or fit.sample_weight is None else float(np.sum(host(fit.sample_weight)))
    share, learned, n = omega / (copies * total), (slopes > 0) | (scales != 1.0), copies * fit.n
    together = exchange.count * share
    spans = np.where(learned, points.spans, 0.0)
    # section 6.3 with rho the ``share``: |v' - v| <= rho (1 - rho) span^2, as neither |x - m_i| nor |x_i - m_i| is
    # above the span; of several rows, at most the sum of their parts times span^2 (section 6.11)
    change = spans**2 * (together + together**2)
    worst = float(np.max(change[learned] / scales[learned] ** 2, initial=0.0))
    spread = np.sqrt(np.sum(base.root**2, axis=0))[:d]
    # m_k = 2 n l2 rho w_k (x_k - m'_k), with |w_k| moving by at most |B^1/2 e_k| (``spread``) times the move
    push = 2.0 * n * fit.l2 * share * learned
    centred = means if fit.centre is None else means - np.asarray(host(fit.centre))
    far = np.abs(points.x[:, :d] - centred) + spans * (together + (0.5 if points.rest or points.radius else 0.0))
    return {
        "stretch": -math.log1p(-worst) if worst < 1 else math.inf,
        # B^1/2 times the gradient n l2 (v' - v) w of the changed penalty, column by column
        "pull": float(np.sum(n * fit.l2 * change * w * spread)),
        "columns": spectral_norm(base.LB[:, :d][:, learned]),
        "m": np.max(omega * slopes * far, axis=1, initial=0.0),
        "pull_by_move": float(np.sum(n * fit.l2 * change * spread**2)),
        "columns_root": spectral_norm(base.root[:, :d][:, learned]),
        "m_by_move": float(np.max(push * spread * spans * (1.0 + 2.0 * together), initial=0.0)),
        "scale_push": float(np.max(push * spans * (1.0 + 2.0 * together), initial=0.0)),
        # ||B^1/2 diag(n l2 |v' - v|) B^1/2||
        "loosened": spectral_norm(base.root[:, :d] * np.sqrt(n * fit.l2 * change)) ** 2,
        "m_by_mean": float(np.max(omega * slopes * spans * together, initial=0.0)),
    }
