r"""How often the right one of two or three candidates is the most probable, under normal noise, without simulation.

With :math:`\Delta_k` the move of the parameters when the value becomes candidate k and b the noise, k scores
:math:`2 \Delta_k \cdot b - |\Delta_k|^2`. Candidate t beats j where b is on its side of a hyperplane, so that the expected
accuracy is the probability of an orthant: :math:`\Phi(|\Delta| / 2\sigma)` for two values, a bivariate normal for three.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, as_array, like, namespace, normal_cdf
from fisherleak._support.namespaces import Namespace

__all__ = ["MOST", "NEVER", "below_both", "owens_t", "probability_ahead"]

Vector = NDArray[np.float64]

NEVER = -1e100
"""Log-probability of a candidate that cannot be."""
MOST = 3
"""Candidates for which there is a closed form."""


def probability_ahead(
    delta: Array, spread: Array, true: Array, log_prior: Vector, scale: float, short: Array | float = 0.0
) -> Array:
    """Probability that the true candidate beats the one or two others, (m,).

    Parameters
    ----------
    delta : array of shape (k, m, p)
        Moves of the parameters with each candidate, in the units in which they are compared.
    spread : array of shape (k, m, p)
        The same as the noise sees them: how far their difference is in units of ``scale``.
    true : integer array of shape (m,)
    log_prior : array of shape (k, 1) or (k, m)
        Zeros for an attacker who ignores it.
    scale : float
        Of the noise.
    short : array of shape (p,), optional
        What is in every release beside the noise.
    """
    xp = namespace(delta)
    k = delta.shape[0]
    found = [_margin(delta, spread, true, (true + shift) % k, log_prior, scale, short) for shift in range(1, k)]
    if k == 2:
        return normal_cdf(found[0][0])
    (first, along), (second, across) = found
    return below_both(first, second, xp.clip(xp.sum(along * across, axis=1), -1.0, 1.0))


def _margin(
    delta: Array, spread: Array, true: Array, other: Array, log_prior: Vector, scale: float, short: Array | float
) -> tuple[Array, Array]:
    """How many standard deviations the truth is ahead of another candidate, (m,), and the direction that decides, (m, p)."""
    xp = namespace(delta)
    mine, theirs = _picked(delta, true), _picked(delta, other)
    apart = _picked(spread, true) - _picked(spread, other)
    length = xp.sqrt(xp.sum(apart * apart, axis=1))
    ahead = xp.sum((theirs - mine) * (0.5 * (theirs + mine) - short), axis=1)
    # finite in place of minus infinity: two candidates that cannot be are alike, and no finite score makes up for it
    log_prior = np.broadcast_to(np.maximum(log_prior, NEVER), (log_prior.shape[0], delta.shape[1]))
    stack = like(log_prior[:, :, None], delta, xp)
    by_prior = (_picked(stack, true) - _picked(stack, other))[:, 0]
    ahead = ahead + scale**2 * by_prior
    # nothing to tell them apart but the prior, and then the order in which ties are broken
    decided = xp.where(ahead != 0, xp.sign(ahead), xp.where(true < other, xp.ones_like(ahead), -1.0))
    safe = xp.where(length > 0, length, 1.0)
    margin = xp.where(length > 0, ahead / (scale * safe), math.inf * decided)
    return margin, apart / safe[:, None]


def _picked(stack: Array, codes: Array) -> Array:
    """Row i of candidate codes[i] in a stack (k, m, p): (m, p)."""
    xp = namespace(stack)
    chosen = stack[0, ...]
    for k in range(1, stack.shape[0]):
        chosen = xp.where((codes == k)[:, None], stack[k, ...], chosen)
    return chosen


# Probability that one or two correlated standard normal variables stay below their margins, wherever the margins are.

STRAIGHT = 1e-14
"""1 - rho^2 below which the two variables count as one (or as opposites)."""
FAR = 40.0
"""Margins past which a normal variable never is, in float64."""
_NODES, _WEIGHTS = (x.tolist() for x in np.polynomial.legendre.leggauss(24))


def below_both(h: Any, k: Any, rho: Any) -> Array:
    r"""P(A <= h, B <= k) for standard normals of correlation rho, elementwise; h and k may be infinite.

    By Owen's T function,
    :math:`\Phi_2 = \tfrac12 \Phi(h) + \tfrac12 \Phi(k) - T(h, a_h) - T(k, a_k) - \delta`, with
    :math:`a_h = (k / h - \rho) / \sqrt{1 - \rho^2}` and :math:`\delta = \tfrac12` where h and k have opposite signs.
    """
    h, k, rho = (as_array(x, "margin") for x in (h, k, rho))
    xp = namespace(h, k, rho)
    h, k, rho = xp.broadcast_arrays(*(xp.astype(x, xp.float64) for x in (h, k, rho)))
    rest = (1.0 - rho) * (1.0 + rho)
    straight = ~(rest > STRAIGHT)
    root = xp.sqrt(xp.where(straight, 1.0, rest))
    near_h, near_k = xp.clip(h, -FAR, FAR), xp.clip(k, -FAR, FAR)
    signs = xp.sign(near_h) * xp.sign(near_k)
    apart = (signs < 0) | ((signs == 0) & (near_h + near_k < 0))
    both_zero = (near_h == 0) & (near_k == 0)
    level = (1.0 - rho) / root
    slope_h = xp.where(both_zero, level, _ratio(near_k - rho * near_h, near_h * root, xp))
    slope_k = xp.where(both_zero, level, _ratio(near_h - rho * near_k, near_k * root, xp))
    halves = 0.5 * (normal_cdf(near_h) + normal_cdf(near_k)) - 0.5 * xp.astype(apart, xp.float64)
    inside = halves - owens_t(near_h, slope_h) - owens_t(near_k, slope_k)
    same = normal_cdf(xp.minimum(h, k))
    opposite = xp.clip(normal_cdf(h) + normal_cdf(k) - 1.0, 0.0, None)
    return xp.clip(xp.where(straight, xp.where(rho > 0, same, opposite), inside), 0.0, 1.0)


def _ratio(above: Array, below: Array, xp: Namespace) -> Array:
    """A quotient that is infinite where the divisor is zero."""
    endless = xp.where(above < 0, -math.inf, xp.full_like(above, math.inf))
    return xp.where(below == 0, endless, above / xp.where(below == 0, 1.0, below))


def owens_t(h: Array, a: Array) -> Array:
    r"""Owen's :math:`T(h, a) = \frac1{2\pi}\int_0^a \frac{e^{-h^2(1 + x^2)/2}}{1 + x^2}\,dx`, to rounding; a may be infinite.

    The integrand is smooth on [0, 1], where 24 nodes of Gauss and Legendre are exact to rounding; a past 1 is turned over,
    :math:`T(h, a) = \tfrac12\Phi(h) + \tfrac12\Phi(ah) - \Phi(h)\Phi(ah) - T(ah, 1/a)` for h >= 0 and a > 0.
    """
    xp = namespace(h, a)
    height, size = xp.abs(h), xp.abs(a)
    long = size > 1
    short = xp.where(long, 1.0 / xp.where(long, size, 1.0), size)
    scaled = xp.clip(height * xp.where(height > 0, size, 0.0), None, FAR)
    at = xp.where(long, scaled, height)
    total = xp.zeros_like(height)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        square = 1.0 + (0.5 * (1.0 + node) * short) ** 2
        total = total + 0.5 * weight * xp.exp(-0.5 * at * at * square) / square
    inner = total * short / (2.0 * math.pi)
    first, second = normal_cdf(height), normal_cdf(scaled)
    turned = 0.5 * first + 0.5 * second - first * second - inner
    # at h = 0 the margins are equal and T is an angle
    value = xp.where(height > 0, xp.where(long, turned, inner), xp.atan(size) / (2.0 * math.pi))
    return xp.sign(a) * value
