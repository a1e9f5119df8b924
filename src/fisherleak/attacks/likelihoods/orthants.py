r"""Probability that one or two correlated standard normal variables stay below their margins, wherever the margins are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, as_array, namespace, normal_cdf
from fisherleak._support.namespaces import Namespace

__all__ = ["below_both", "owens_t"]

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
