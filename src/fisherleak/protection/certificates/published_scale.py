"""A scale that may be published: on a public grid, where small changes of the data rarely show.

With an offset :math:`2^{u/4}`, u uniform and independent of the data, the scale is rounded up to the next
:math:`2^{(k + u)/4}`. A row that can move the logarithm of the scale by D changes the published value with a probability of
at most D / log step, whatever the data.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass

import numpy as np

from fisherleak._support.grids import rounded_up
from fisherleak._support.namespaces import Seed
from fisherleak.errors import InvalidInputError

STEPS = 4
STEP = 2.0 ** (1.0 / STEPS)
BITS = 53
SAID = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
"""Probabilities that are told: a finer number would be one of the data itself."""


@dataclass(frozen=True)
class OnGrid:
    """A scale on the grid, and the grid's offset as a part of a step."""

    scale: float
    offset: float


def on_public_grid(scale: float, random_state: Seed = None) -> OnGrid:
    """The least scale of a grid with a new offset that is not below the one given."""
    offset = drawn_offset(random_state)
    return OnGrid(up_to_grid(scale, offset), offset)


def drawn_offset(random_state: Seed = None) -> float:
    """Uniform between 0 and 1, by the operating system's randomness; to be told with whatever follows from it.

    An offset that is drawn and not told would spread the grid's edges, and what follows would move smoothly with the numbers.
    """
    try:
        if random_state is None:
            return secrets.randbits(BITS) / 2.0**BITS
        return float(np.random.default_rng(random_state).random())
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"random_state must be None, a whole number, zero or more, or a numpy Generator; got {random_state!r}."
        ) from None


def up_to_grid(scale: float, offset: float) -> float:
    """The least number of the grid with an offset that is not below one."""
    place = math.ceil(STEPS * math.log2(scale) - offset)
    while _at(place, offset) < scale:
        place += 1
    return _at(place, offset)


def nearest_on_grid(scale: float, offset: float) -> float:
    """The number of the grid with an offset that is nearest to one."""
    return _at(round(STEPS * math.log2(scale) - offset), offset)


def seven_digits(scale: float) -> float:
    """A scale as files have it: seven digits, never below, so that the last bits of a power and a product carry nothing."""
    return rounded_up(scale, 7)


def _at(place: int, offset: float) -> float:
    return math.ldexp(2.0 ** ((place % STEPS + offset) / STEPS), place // STEPS)


def pivot_probability(spread: float) -> float:
    """That a replaced row changes the value on the grid, at most, if it moves the logarithm by ``spread``: in coarse steps."""
    exact = spread / math.log(STEP)
    return next((said for said in SAID if exact <= said), 1.0)
