r"""Rules for means over a normal belief about a value: nodes and weights, for every cell its own.

The mean of eta squared over :math:`v \sim N(m, s^2)` is a mean over a path of refits, which may have a narrow peak: for the
squared loss it has poles at :math:`v^* \pm i \delta`. From :math:`\delta \ge 4 s` nine Gauss-Hermite nodes are enough. Below,
with :math:`v = v^* + \delta \sinh u`, the trapezoid rule in u has its nodes where the peak is, however narrow.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["FAR", "WIDE", "even_nodes", "gauss_nodes", "peaked_nodes"]

Vector = NDArray[np.float64]
FAR = 8.5
"""Spreads from the centre past which a normal belief is below rounding."""
WIDE = 4.0
"""Distance of the poles, in spreads, from which nine nodes err by less than 1e-4 in the share."""
FEWEST = 128
"""Nodes over the whole range, so that a spread has four or more where there is no peak."""
STEP = 0.12
"""Of u: the next singularity is at pi / 4 from the real line, and the rule errs by exp(-2 pi (pi / 4) / step)."""


def gauss_nodes(count: int = 9) -> tuple[Vector, Vector]:
    """Places in spreads from the centre, and weights that sum to one."""
    places, weights = np.polynomial.hermite_e.hermegauss(count)
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
