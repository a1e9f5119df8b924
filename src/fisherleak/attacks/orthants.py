r"""Probability that one or two correlated standard normal variables stay below their margins."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, owens_t

__all__ = ["below_both"]

Vector = NDArray[np.float64]
STRAIGHT = 1e-14
"""1 - rho^2 below which the two variables count as one (or as opposites)."""


def below_both(h: Vector, k: Vector, rho: Vector) -> Vector:
    r"""P(A <= h, B <= k) for standard normals of correlation rho, elementwise; h and k may be infinite.

    By Owen's T function,
    :math:`\Phi_2 = \tfrac12 \Phi(h) + \tfrac12 \Phi(k) - T(h, a_h) - T(k, a_k) - \delta`, with
    :math:`a_h = (k / h - \rho) / \sqrt{1 - \rho^2}` and :math:`\delta = \tfrac12` where h and k have opposite signs.
    """
    h, k, rho = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (h, k, rho)))
    rest = (1.0 - rho) * (1.0 + rho)
    straight = ~(rest > STRAIGHT)
    root = np.sqrt(np.where(straight, 1.0, rest))
    finite_h, finite_k = np.clip(h, -40.0, 40.0), np.clip(k, -40.0, 40.0)
    signs = np.sign(finite_h) * np.sign(finite_k)
    apart = (signs < 0) | ((signs == 0) & (finite_h + finite_k < 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        slope_h = (finite_k - rho * finite_h) / (finite_h * root)
        slope_k = (finite_h - rho * finite_k) / (finite_k * root)
    both_zero = (finite_h == 0) & (finite_k == 0)
    slope_h = np.where(both_zero, (1.0 - rho) / root, slope_h)
    slope_k = np.where(both_zero, (1.0 - rho) / root, slope_k)
    inside = (
        0.5 * ndtr(finite_h)
        + 0.5 * ndtr(finite_k)
        - owens_t(finite_h, slope_h)
        - owens_t(finite_k, slope_k)
        - 0.5 * apart
    )
    same = ndtr(np.minimum(h, k))
    opposite = np.maximum(ndtr(h) + ndtr(k) - 1.0, 0.0)
    return np.asarray(np.clip(np.where(straight, np.where(rho > 0, same, opposite), inside), 0.0, 1.0))
