r"""The least scale of a mechanism whose noise the data shape: eta falls with it, but not in proportion, and not to zero.

:math:`\eta^2(s)` is the largest eigenvalue of :math:`F_1 / s^2 + F_2`: decreasing, with the eta of :math:`F_2` alone, the
price of a shape that the data decide, as its floor. So the scale is found by a bisection, from above: what is given back keeps
the limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fisherleak.engine.norms.averaged import Averaged
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage

__all__ = ["searched"]

CLOSE = 1e-9
"""Relative distance from the least scale at which the search ends."""
CLOSE_AVERAGED = 1e-3
"""The same where an eta is an average over draws, which are solved for at every scale."""
FURTHEST = 1e4
"""Factor by which such a scale is raised at most."""
WIDEST = 1e100
"""A scale at which the first term is gone."""


def searched(leakage: Leakage, target: float, current: Callable[[Leakage], float]) -> Any:
    """The mechanism with the least scale at which an eta is at or below a target."""
    mechanism = leakage.noise

    def eta(scale: float) -> float:
        return current(leakage.with_noise(mechanism.rescaled(scale)))

    averaged = isinstance(leakage._information, Averaged)
    start = high = float(mechanism.scale)
    # where there is no closed form, the widest need have no minimum
    floor = 0.0 if averaged else eta(WIDEST)
    if floor > target:
        raise InvalidInputError(
            f"eta cannot be below {floor:.4g} with {type(mechanism).__name__}, however much noise there is: that is what its "
            "shape, which depends on the data, tells by itself. Use fisherleak.Gaussian, or a larger limit."
        )
    factor, close = (2.0, CLOSE_AVERAGED) if averaged else (4.0, CLOSE)
    while eta(high) > target:
        if averaged and high > FURTHEST * start:
            raise InvalidInputError(
                f"eta stays above {target:g} with {type(mechanism).__name__} up to a scale of {high:.3g}: use "
                "fisherleak.Gaussian, or a larger limit."
            )
        high *= factor
    low = high / factor
    while eta(low) <= target:
        low, high = low / factor, low
        if low < 1.0 / WIDEST:
            raise InvalidInputError("eta is zero without any noise: the model does not depend on these values.")
    while high > low * (1.0 + close):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if eta(middle) > target else (low, middle)
    return mechanism.rescaled(high)
