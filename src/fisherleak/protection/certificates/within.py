r"""The largest value of a convex function over the rows of a box whose score lies in an interval.

A row of the hull of points v is a mean :math:`x = \sum_v \lambda_v v`. A convex f has :math:`f(x) \le \sum_v \lambda_v f(v)`,
and z = w.x is the same mean of the :math:`z_v`. So with z(x) at most ``high``, for every slope k >= 0

.. math:: f(x) \le \sum_v \lambda_v \big( f(v) - k (z_v - \mathrm{high}) \big)
          \le \max_v \big( f(v) - k (z_v - \mathrm{high}) \big) ,

and likewise from below. Any slope gives a bound; the best one gives the concave envelope of the points over the interval.
Slopes are on a public grid, so that the bound grows with f(v), with ``high`` and as z_v falls, exactly.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["most_within"]

Vector = NDArray[np.float64]
SLOPES = np.concatenate([[0.0], 2.0 ** np.arange(-40.0, 40.01, 0.125)])


def most_within(values: Vector, z_low: Vector, z_high: Vector, low: float, high: float) -> float:
    """The largest value over rows with z from low to high, at most.

    ``values`` (V,) are those of a convex function at points whose hull holds all rows, and z_low, z_high (V,) the ends of z
    around each. Never above the largest of the values, never below zero; zero where the interval holds no row.
    """
    top = float(values.max())
    beyond = values >= top  # where the largest is in the interval nothing is gained
    found = top
    if np.min(z_low[beyond]) > high:
        found = min(found, _least(lambda k: float(np.max(values - k * (z_low - high)))))
    if np.max(z_high[beyond]) < low:
        found = min(found, _least(lambda k: float(np.max(values + k * (z_high - low)))))
    return max(found, 0.0)


def _least(above: Callable[[float], float]) -> float:
    """The least of a convex function over the slopes of the grid."""
    first, last = 0, len(SLOPES) - 1
    while first < last:
        middle = (first + last) // 2
        if above(float(SLOPES[middle])) <= above(float(SLOPES[middle + 1])):
            last = middle
        else:
            first = middle + 1
    return above(float(SLOPES[first]))
