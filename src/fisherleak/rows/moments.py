"""Mean and spread of columns, from those of their parts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fisherleak.errors import InvalidInputError

__all__ = ["Moments", "check_within"]

EXTREME = 1e100
"""Numbers beyond this, or all below its inverse, overflow or vanish when they are squared and multiplied."""
SAME = 1e-11
"""A spread below this part of the size of a column is rounding."""


@dataclass(frozen=True)
class Moments:
    """Count, mean, sum of squares about it, and range of some values; those of parts merge."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Moments:
        if not values.size:
            return cls()
        with np.errstate(over="ignore", invalid="ignore"):  # ``checked`` refuses such sizes
            moved = values - values[0]  # columns of years keep their digits
            mean = float(moved.mean())
            squares = float(np.sum((moved - mean) ** 2))
        return cls(values.size, float(values[0]) + mean, squares, float(values.min()), float(values.max()))

    def __add__(self, other: Moments) -> Moments:
        if not (self.count and other.count):
            return self if self.count else other
        count = self.count + other.count
        apart, part = other.mean - self.mean, other.count / count
        return Moments(
            count,
            self.mean + part * apart,
            self.squares + other.squares + part * self.count * apart * apart,
            min(self.low, other.low),
            max(self.high, other.high),
        )

    def checked(self, what: str) -> tuple[float, float]:
        """Mean and standard deviation; a deviation of zero where there is none beyond rounding."""
        if self.low == self.high:
            return self.low, 0.0
        largest = max(abs(self.low), abs(self.high))
        if largest > EXTREME:
            raise InvalidInputError(f"{what} has values beyond {EXTREME:g}: use a larger unit.")
        if largest < 1 / EXTREME:
            raise InvalidInputError(f"{what} has no values beyond {1 / EXTREME:g}: use a smaller unit.")
        spread = math.sqrt(self.squares / self.count)
        return (self.mean, 0.0) if spread <= SAME * abs(self.mean) else (self.mean, spread)


def check_within(what: str, known: Moments, bounds: tuple[float, float]) -> None:
    """Refuse values outside declared bounds."""
    low, high = bounds
    if known.count and (known.low < low or known.high > high):
        raise InvalidInputError(
            f"{what} has values outside the bounds ({low:g}, {high:g}): declare wider ones, or clip the column before."
        )
