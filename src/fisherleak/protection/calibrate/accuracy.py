"""From a limit on how often an attacker is right to the noise that keeps it: a bisection, on the safe side.

How often someone is right falls with the scale of the noise, where there is a closed form; attackers say it themselves, so
that this room need not know them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host
from fisherleak._support.checks import check_positive
from fisherleak._support.numbers import number
from fisherleak.engine.noise import Gaussian, Noise
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import is_leakage

__all__ = ["Attack", "least_noise_against"]

Vector = NDArray[np.float64]

FARTHEST = 1e30
"""Scales, and their inverses, past which no noise is looked for."""


class Attack(Protocol):
    """What is asked of an attacker that noise can be calibrated against."""

    def certain_accuracy(self, noise: Noise) -> Array:
        """How often each attacked row is guessed right, (m,), never less and never growing with the noise's scale.

        Refuses what has no closed form.
        """


def least_noise_against(attack: Any, accuracy: Any, over: Any, shape: Any) -> Gaussian:
    """The least noise at which an attack is right no more often than asked.

    Parameters
    ----------
    attack : Attack
    accuracy : float
        Below one.
    over : {"max", "mean"} or int
        The row that is guessed best, the mean, or the best but for a number of rows.
    shape : matrix, "isotropic" or None
    """
    if isinstance(attack, type) or not hasattr(attack, "certain_accuracy"):
        name = f"the class {attack.__name__}" if isinstance(attack, type) else type(attack).__name__
        raise InvalidInputError(f"accuracy is for attacks such as fisherleak.attacks.WhiteBox(…); got {name}.")
    target = check_positive(accuracy, "accuracy")
    if not target < 1:
        raise InvalidInputError(f"accuracy must be below 1, which any noise keeps; got {accuracy}.")
    if is_leakage(shape) or (isinstance(shape, str) and shape != "isotropic"):
        raise InvalidInputError("shape must be a matrix or 'isotropic' for an attack: pass that of a calibrated noise.")
    unit = Gaussian(1.0, None if isinstance(shape, str) else shape)

    def right(scale: float) -> float:
        return _told(np.asarray(host(attack.certain_accuracy(unit.rescaled(scale)))), over)

    least = right(FARTHEST)
    if target <= least:
        raise InvalidInputError(
            f"accuracy must be more than {number(least)}, which the attacker reaches whatever the noise; got {accuracy}."
        )
    return unit.rescaled(_bisected(right, target))


def _bisected(right: Callable[[float], float], target: float) -> float:
    """The least scale, to 1e-9 and never below it, at which a falling function is at or below the target."""
    high = 1.0
    while right(high) > target:
        high *= 4.0
    low = high / 4.0
    while low > 1.0 / FARTHEST and right(low) <= target:
        low, high = low / 4.0, low
    while high / low > 1.0 + 1e-9:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if right(middle) > target else (low, middle)
    return high


def _told(rows: Vector, over: Any) -> float:
    """The accuracy that is limited."""
    if over == "mean":
        return float(rows.mean())
    spared = 0 if over == "max" else over
    if isinstance(spared, bool) or not isinstance(spared, (int, np.integer)) or not 0 <= spared < rows.shape[0]:
        raise InvalidInputError(
            f"over must be 'max', 'mean' or a number of rows from 0 to {rows.shape[0] - 1} that need not keep the limit; "
            f"got {over!r}."
        )
    return float(np.sort(rows)[rows.shape[0] - 1 - int(spared)])
