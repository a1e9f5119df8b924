"""Noise shaped like the rows' own inverse Hessian, squared loss: a bound on its first term in that Hessian's metric.

Mathematics: 6.8, ``docs/mathematics/any-record.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.protection.certificates.bound_quantities import Points, Quantities, feature_map
from fisherleak.protection.certificates.certificate import two_ranks

__all__ = ["bound_in_own_metric", "folded_part", "largest_direct", "left_over"]

Vector = NDArray[np.float64]
MOST_EXACT, BLOCK = 1024, 64
"""Corners whose norm is computed as it is, so many at a time; the others' is bounded in closed form."""
LEAST_DAMPED = 0.28
"""Above (2v - 1) sqrt(1 - v) for all v: what is left along b where it changes sign."""


def bound_in_own_metric(
    jacobian: Jacobian,
    q: Quantities,
    points: Points,
    attributes: Sequence[Attribute],
    labels: Vector,
    omega: float,
    label: bool,
) -> float:
    """The largest root of the first term at noise of scale 1; infinite where nothing can be certified.

    Parameters
    ----------
    jacobian : Jacobian
        Of the squared loss, under noise of the own shape at scale 1.
    q, points, attributes, omega
        What ``quantities_of`` tells of it, with the largest weight.
    labels : array
        The ends of the label's range.
    label : bool
        Whether the label counts.
    """
    grown = left_over(q)
    if not math.isfinite(grown):
        return math.inf
    leaving = grown * (q.push + q.pull)
    farthest = float(q.root.max())
    # section 6.8: ||b [u^T, -1] + r F|| at the present parameters; u and r move with the row that leaves, each by at
    # most ``leaving`` times a length, and A^-1 <= ``grown`` B
    direct = largest_direct(jacobian, q, points, attributes, labels, label, 2.0 * leaving * q.whole_e * q.root)
    damped = omega * math.sqrt(grown) * direct
    t = omega * grown * farthest**2
    v = t / (1.0 + t)
    # omega times the second formula of section 6.8: 1 - v, or 0.28, of the norm, and 2 v^3/2 |[u, 1]| / sqrt(omega);
    # convex in v, so that v = 0 and the largest v decide
    beside = 2.0 * v**1.5 * math.sqrt(omega) * math.hypot(q.u + leaving * q.whole_e, float(label))
    largest = max(damped, max(1.0 - v, LEAST_DAMPED) * damped + beside)
    folded, _ = folded_part(jacobian, q, attributes, labels, omega)
    return float(largest + math.sqrt(grown) * folded * q.columns_root)


def left_over(q: Quantities) -> float:
    """How much larger B can be without the row that leaves and with the scales that it moves, or infinite."""
    # A >= (1 - l - delta) G, l the largest leverage and delta what changed scales take
    left = 1.0 - q.leverage - q.loosened
    return 1.0 / left if left > 0 else math.inf


def folded_part(
    jacobian: Jacobian, q: Quantities, attributes: Sequence[Attribute], labels: Vector, omega: float
) -> tuple[float, float]:
    """||diag(m) E|| at most, and how far the parameters move, in the metric of B, when a row takes another's place."""
    grown, farthest = left_over(q), float(q.root.max())
    leaving = grown * (q.push + q.pull)
    # the largest |r| of a new row, then the move by omega r A^-1 x on top of that by the row that leaves
    size = max(float(np.max(np.abs(ends - y))) for ends in (q.z_low, q.z_high) for y in labels) + leaving * farthest
    moved = leaving + grown * omega * size * farthest
    E = feature_map(jacobian, attributes, len(jacobian.fit.theta))
    return (float(np.max(q.m)) + q.m_by_move * moved) * (float(np.linalg.norm(E, 2)) if E.size else 0.0), moved


def largest_direct(
    jacobian: Jacobian,
    q: Quantities,
    points: Points,
    attributes: Sequence[Attribute],
    labels: Vector,
    label: bool,
    beside: Vector,
) -> float:
    """The largest ||L B [x u^T + r E, x]|| plus what is given beside it of every point, (V,).

    Closed forms first, then norms where these are largest. For noise of the shape G^-1, L B is a root of B.
    """
    root, theta = np.asarray(host(jacobian.B)), np.asarray(host(jacobian.fit.centred_theta))
    E = feature_map(jacobian, attributes, len(theta))
    free = root @ E
    along, beta = free @ (E.T @ theta), float(q.u**2 + float(label))
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
    order, best = np.argsort(-above, kind="stable"), 0.0
    for start in range(0, min(len(order), MOST_EXACT), BLOCK):
        some = order[start : start + BLOCK]
        if above[some[0]] <= best:
            return best
        x, y = points.x[some % len(points.x)], np.repeat(labels, len(points.x))[some]
        a, r = x @ root.T, (x @ theta - y)[:, None, None]
        # the same matrix written out
        two = beta * a[:, :, None] * a[:, None, :] + r * (a[:, :, None] * along + along[:, None] * a[:, None, :])
        norms = np.sqrt(np.maximum(np.linalg.eigvalsh(two + r**2 * (free @ free.T))[:, -1], 0.0))
        best = max(best, float(np.max(np.minimum(norms + extra[some], above[some]))))
    rest = order[MOST_EXACT:]
    return max(best, float(above[rest[0]])) if rest.size else best
