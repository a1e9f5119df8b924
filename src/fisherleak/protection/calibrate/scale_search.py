r"""The least scale of a mechanism whose noise the data shape: eta falls with it, but not in proportion, and not to zero.

:math:`\eta^2(s)` is the largest eigenvalue of :math:`F_1 / s^2 + F_2`: decreasing, with the eta of :math:`F_2` alone, the
price of a shape that the data decide, as its floor. So the scale is found by a bisection, from above: what is given back keeps
the limit. Where an eta is an average over draws, which are solved for at every scale, a line through the last two points, in
logarithms, tells the next scale instead: some four are tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fisherleak._support.numbers import number
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement

__all__ = ["searched"]

CLOSE = 1e-9
"""Relative distance from the least scale at which the search ends."""
CLOSE_AVERAGED = 5e-3
"""Relative distance below the target that an averaged eta may have."""
FURTHEST = 1e4
"""Factor by which such a scale is raised at most."""
FURTHER = math.log(8.0)
"""Logarithm of the factor by which one step changes a scale at most."""
FLATTEST = -0.05
"""Slope of log eta over log scale that is taken at least: near its floor an eta hardly falls."""
NOTHING = "eta is zero without any noise: the model does not depend on these values."
WIDEST = 1e100
"""A scale at which the first term is gone."""


def searched(leakage: Leakage, target: float, current: Callable[[Leakage], float]) -> Any:
    """The mechanism with the least scale at which an eta is at or below a target."""
    mechanism = leakage.noise

    def eta(scale: float) -> float:
        return current(leakage.with_noise(mechanism.rescaled(scale)))

    if measurement(leakage).information.averaged is not None:
        return mechanism.rescaled(_by_lines(eta, float(mechanism.scale), target, type(mechanism).__name__))
    high = float(mechanism.scale)
    floor = eta(WIDEST)
    if floor > target:
        raise InvalidInputError(
            f"eta cannot be below {number(floor, 4)} with {type(mechanism).__name__}, however much noise there is: that is "
            "what its shape, which depends on the data, tells by itself. Use fisherleak.Gaussian, or a larger limit."
        )
    while eta(high) > target:
        high *= 4.0
    low = high / 4.0
    while eta(low) <= target:
        low, high = low / 4.0, low
        if low < 1.0 / WIDEST:
            raise InvalidInputError(NOTHING)
    while high > low * (1.0 + CLOSE):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if eta(middle) > target else (low, middle)
    return mechanism.rescaled(high)


def _by_lines(eta: Callable[[float], float], start: float, target: float, name: str) -> float:
    """A scale at which an eta is at or hardly below a target, by lines through points of log eta over log scale.

    A scale below which no eta was above the target is taken in halves of what is between, as bisections do.
    """
    low, high, last, tried = -math.inf, math.inf, None, start
    scale, slope, aim = math.log(start), -1.0, math.log(target * (1.0 - 0.5 * CLOSE_AVERAGED))
    while True:
        value = eta(tried)
        if value == 0:
            raise InvalidInputError(NOTHING)
        if target * (1.0 - CLOSE_AVERAGED) <= value <= target or (value <= target and scale - low < CLOSE):
            return tried
        if value > target and scale > math.log(FURTHEST * start):
            raise InvalidInputError(
                f"eta stays above {target:g} with {name} up to a scale of {number(tried)}: use fisherleak.Gaussian, or "
                "a larger limit."
            )
        low, high = (scale, high) if value > target else (low, scale)
        if last is not None and scale != last[0]:
            slope = min((math.log(value) - last[1]) / (scale - last[0]), FLATTEST)
        last = (scale, math.log(value))
        step = max(-FURTHER, min((aim - last[1]) / slope, FURTHER))
        scale = scale + step if low < scale + step < high else 0.5 * (low + high)
        tried = math.exp(scale)
