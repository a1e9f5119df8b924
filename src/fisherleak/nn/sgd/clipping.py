r"""Clipped gradients and their derivative: a scalar across the gradient and another along it.

Clipping multiplies g by a function of its length, so with P the projection on g its derivative by g is
:math:`\alpha (I - P) + \beta P`:

- hard, :math:`g \min(1, C / |g|)`: 1 and 1 up to C, :math:`C / |g|` and 0 beyond. At the kink the unclipped side is the larger
  one, and counts.
- smooth (Guo et al. 2022), :math:`g / (1 + \mathrm{gelu}(|g| / C - 1))`: never longer than 1.1153 C.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

__all__ = ["CLIPS", "LONGEST"]

Vector = NDArray[np.float64]


def _hard(length: Vector, most: float) -> tuple[Vector, Vector, Vector]:
    inside = length <= most
    shrunk = np.where(inside, 1.0, most / np.where(inside, most, length))
    return shrunk, np.where(inside, 1.0, 0.0), np.minimum(length, most)


def _smooth(length: Vector, most: float) -> tuple[Vector, Vector, Vector]:
    u = length / most - 1.0
    below = ndtr(u)
    shrunk = 1.0 / (1.0 + u * below)
    slope = below + u * np.exp(-0.5 * u * u) / np.sqrt(2.0 * np.pi)
    return shrunk, shrunk - shrunk**2 * slope * length / most, length * shrunk


CLIPS: dict[str, Callable[[Vector, float], tuple[Vector, Vector, Vector]]] = {"hard": _hard, "smooth": _smooth}
"""(lengths, C) -> alpha, beta and lengths after clipping."""
LONGEST = {"hard": 1.0, "smooth": 1.1154}
"""Largest length after clipping, in C, rounded up."""
