r"""The least scale of a mechanism whose noise the data shape: eta falls with it, but not in proportion, and not to zero.

:math:`\eta^2(s)` is the largest eigenvalue of :math:`F_1 / s^2 + F_2`: decreasing, with the eta of :math:`F_2` alone, the
price of a shape that the data decide, as its floor. So the scale is found by a bisection, from above: what is given back keeps
the limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage

__all__ = ["searched"]

CLOSE = 1e-9
"""Relative distance from the least scale at which the search ends."""
WIDEST = 1e100
"""A scale at which the first term is gone."""


def searched(leakage: Leakage, target: float, current: Callable[[Leakage], float]) -> Any:
    """The mechanism with the least scale at which an eta is at or below a target."""
    mechanism = leakage.noise

    def eta(scale: float) -> float:
        return current(leakage.with_noise(mechanism.rescaled(scale)))

    high = float(mechanism.scale)
    floor = eta(WIDEST)
    if floor > target:
        raise InvalidInputError(
            f"eta cannot be below {floor:.4g} with {type(mechanism).__name__}, however much noise there is: that is what its "
            "shape, which depends on the data, tells by itself. Use fisherleak.Gaussian, or a larger limit."
        )
    while eta(high) > target:
        high *= 4.0
    low = 0.25 * high
    while eta(low) <= target:
        low, high = 0.25 * low, low
        if low < 1.0 / WIDEST:
            raise InvalidInputError("eta is zero without any noise: the model does not depend on these values.")
    while high > low * (1.0 + CLOSE):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if eta(middle) > target else (low, middle)
    return mechanism.rescaled(high)
