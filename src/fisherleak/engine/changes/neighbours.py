r"""Risks of neighbouring data sets: their gradients at many parameters, and true fits that start from a known one."""

from __future__ import annotations

from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, host, namespace
from fisherleak.engine.fit.minimise import Fit, fit_at
from fisherleak.engine.fit.risk import Risk, with_constant
from fisherleak.rows import block_elements, rows_per_block, sum_rows

__all__ = ["gradients_at", "refitted"]

UNSURE = 1e-6
"""det H' / det H below which the update has lost digits: such examples are fitted again, one by one."""
EPSILON = float(np.finfo(np.float64).eps)
ROUNDING = 1e-14
"""A step of at most this part of the parameters themselves is rounding."""
AT_ONCE = 512
"""Neighbours whose gradients are summed in one pass over the rows."""


def gradients_at(risk: Risk, theta: Array) -> Array:
    """Gradient of the risk of all rows at each of several parameters (m, L p), for rows as they are centred: (m, L p)."""
    xp = namespace(theta)
    loss, intercept, centre = risk.reduced_loss, risk.intercept, risk.centre
    count, L = theta.shape[0], loss.outputs
    V = xp.reshape(theta, (count * L, risk.width))
    most = max(64, rows_per_block(count, theta))
    if loss.loss.several:
        most = max(1, block_elements(risk.X) // (count * loss.scores))

    def block(X: Array, y: Array, weights: Array | None) -> tuple[Any]:
        x = with_constant(X, intercept, centre)
        b, z = x.shape[0], x @ V.T
        if loss.frame is None:
            r = loss.loss.r(z, xp.broadcast_to(y[:, None], z.shape))
            return ((r if weights is None else weights[:, None] * r).T @ x,)
        labels = xp.reshape(xp.broadcast_to(y[:, None, ...], (b, count, *y.shape[1:])), (b * count, *y.shape[1:]))
        r = xp.reshape(loss.gradient(xp.reshape(z, (b * count, L)), labels), (b, count * L))
        r = r if weights is None else r * weights[:, None]
        return (r.T @ x,)

    (total,) = sum_rows(block, risk.X, risk.y, risk.weights, most=most)
    return xp.reshape(total, theta.shape) + risk.penalty[None, :] * theta


def refitted(fit: Fit, other: Risk) -> tuple[Array, float]:
    """The move from a fit to the minimum of another risk, for rows as they are centred, and how far it may be off."""
    xp = namespace(other.X)
    fresh = fit_at(other, fit.theta, polish=True)
    theta = fresh.centred_theta
    left, least = other.at(theta, curvature=False).gradient, min(float(x) for x in host(other.penalty))
    rounding = EPSILON * fresh.condition * float(xp.sqrt(xp.sum(theta * theta)))
    if least > 0:
        rounding += float(xp.sqrt(xp.sum(left * left))) / least
    return theta - fit.centred_theta, rounding
