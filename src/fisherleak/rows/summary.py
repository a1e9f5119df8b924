"""Many rows in a few numbers: mean, spread, extremes and the largest, in one pass wherever the rows are.

Also here: mean and spread of columns, from those of their parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, Namespace, as_real, host, namespace
from fisherleak._support.namespaces import Sums
from fisherleak.errors import InvalidInputError
from fisherleak.rows import positions, sum_rows

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
            raise InvalidInputError(f"{what} has only values below {1 / EXTREME:g} in size: use a smaller unit.")
        spread = math.sqrt(self.squares / self.count)
        return (self.mean, 0.0) if spread <= SAME * abs(self.mean) else (self.mean, spread)


def check_within(what: str, known: Moments, bounds: tuple[float, float]) -> None:
    """Refuse values outside declared bounds."""
    low, high = bounds
    if known.count and (known.low < low or known.high > high):
        raise InvalidInputError(
            f"{what} has values outside the bounds ({low:g}, {high:g}): declare wider ones, or clip the column before."
        )


@dataclass(frozen=True)
class Digest:
    """Of one value per row.

    Attributes
    ----------
    mean, low, high : float
    sd : float or None
        With n - 1; None for a single row.
    top : list of (row, value)
        The largest, the largest first.
    """

    mean: float
    sd: float | None
    low: float
    high: float
    top: list[tuple[int, float]]


def digest(values: Array, most: int = 5) -> Digest:
    """Of values (n,), with the ``most`` largest."""
    xp = namespace(values)

    def block(values: Array, rows: Array) -> Sums:
        mean = xp.mean(values)
        order = xp.argsort(values, descending=True, stable=True)[:most]
        moments = [xp.ones_like(mean) * values.shape[0], mean, xp.sum((values - mean) ** 2)]
        tops = xp.stack([xp.astype(xp.take(rows, order), xp.float64), xp.take(values, order)])
        return xp.stack(moments), xp.min(values), xp.max(values), tops

    def join(a: Sums, b: Sums) -> Sums:
        tops = xp.concat([a[3], b[3]], axis=1)
        if tops.shape[1] > 2 * most:
            tops = xp.take(tops, xp.argsort(tops[1, :], descending=True, stable=True)[:most], axis=1)
        return _pooled(a[0], b[0], xp), xp.minimum(a[1], b[1]), xp.maximum(a[2], b[2]), tops

    moments, low, high, tops = sum_rows(block, values, positions(values), join=join)
    count, mean, squares = (float(x) for x in host(moments))
    rows, largest = host(tops)
    top = sorted(zip(rows.astype(int).tolist(), largest.tolist(), strict=True), key=lambda pair: (-pair[1], pair[0]))
    sd = math.sqrt(squares / (count - 1)) if count > 1 else None
    return Digest(mean, sd, float(low), float(high), top[:most])


def column_spreads(X: Array) -> list[float]:
    """Standard deviation of every column, (d,)."""
    xp = namespace(X)

    def block(X: Array) -> Sums:
        X = as_real(X, xp)
        mean = xp.mean(X, axis=0)
        return (xp.stack([xp.ones_like(mean) * X.shape[0], mean, xp.sum((X - mean[None, :]) ** 2, axis=0)]),)

    (moments,) = sum_rows(block, X, join=lambda a, b: (_pooled(a[0], b[0], xp),))
    count, _, squares = host(moments)
    return [math.sqrt(x / n) for x, n in zip(squares.tolist(), count.tolist(), strict=True)]


def zero_one_columns(X: Array) -> list[bool]:
    """Whether each column, (d,), holds 0 and 1 only, where it is not NaN."""
    xp = namespace(X)

    def block(X: Array) -> Sums:
        X = as_real(X, xp)
        return (xp.sum(xp.astype((X != 0.0) & (X != 1.0) & (X == X), xp.int64), axis=0),)  # NaN is not itself

    (others,) = sum_rows(block, X)
    return [count == 0 for count in host(others).tolist()]


def _pooled(a: Array, b: Array, xp: Namespace) -> Array:
    """Count, mean and sum of squares about the mean of two parts together."""
    count = a[0, ...] + b[0, ...]
    apart = b[1, ...] - a[1, ...]
    part = b[0, ...] / count
    return xp.stack([count, a[1, ...] + part * apart, a[2, ...] + b[2, ...] + part * a[0, ...] * apart**2])
