"""What the gradient of one output does beyond its Hessian when rows leave: the third derivative, terms after it, and bounds.

Mathematics: 4.9, ``docs/mathematics/changes.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, is_lazy, like, namespace, row_dots
from fisherleak.engine.changes.gradient_beyond_hessian import (
    MOST_PARAMETERS,
    block_by_block,
    pairs_at_once,
    pairs_of_columns,
)
from fisherleak.engine.fit.risk import Risk, largest_of
from fisherleak.engine.jacobian import Model
from fisherleak.engine.losses import Loss
from fisherleak.rows import sum_rows

ROWS_PER_PAIR = 4
"""T pays where there are more rows than this for each pair of parameters: a pass over all rows for each costs more."""
MOVES = 256
"""Moves whose terms are held at a time."""
ROWS = 512
"""Whose terms are summed in single precision."""
NEAR = 1e-3
"""Step of the differences of a', in units of how fast log a changes."""
BEND, FOURTH = 4.0 / 3.0, 9.0
"""The second derivative of a is at most the first times L^2 a, the fourth at most the second times L^4 a."""
REACHES = (2.0, 8.0, 32.0, 128.0)
"""The lengths d, in usual moves."""
ROUGH = 2.0**-18
"""Relative error of sums over blocks of rows that are made in single precision."""
FLAT = 1e-300
"""Stands for a curvature that is zero by rounding."""
FAR = 150.0
"""Change of log a past which a curvature counts as ``HUGE``."""
HUGE = 1e60
"""A number that no bound survives."""
GUESS = 2.0
"""Times what is seen of a loss of which nothing is proved."""


@dataclass(frozen=True)
class _Level:
    """The bounds' matrices for moves no longer than ``reach``."""

    reach: float
    first: Array
    second: Array
    fourth: Array
    steepest: float
    """What G_1 makes of a move of length one by H, at most."""
    trace: float
    """Root of the trace of G_2 H^-1."""


@dataclass(frozen=True)
class Remainders:
    """Bounds by the norm of H^-1, each (m,) for moves (m, p) of length (m,) by H; infinite past the last reach."""

    levels: tuple[_Level, ...]
    log_slope: float
    """L."""
    tallest: float
    """Root of the largest leverage."""
    bend: float
    """w."""
    fourth: float
    """What the fourth derivative of a is of a at most."""
    rows: Array | None = None
    """Where rows are fewer than parameters, (n, p): then a level has the rows' weights, (n,), in place of its matrices."""

    def without_third(self, moves: Array, length: Array) -> Array:
        """Of N."""
        # |N| <= |D|_H (D^T G_1 D)^(1/2) / 2 (section 4.9)
        return 0.5 * length * self._form(moves, length, "first")

    def rate(self, moves: Array, length: Array, radius: Array) -> Array:
        """How much a Hessian may change, relative to H, up to any point that is no further than ``radius`` from these."""
        # (D^T G_1 D)^(1/2) of section 4.9, and at most the root of tr(G_1 H^-1) times what is added to D
        form = self._form(moves, length + radius, "first")
        return form + self._number(length + radius, "steepest") * radius

    def beyond_third(self, moves: Array, length: Array) -> Array:
        """Of N less T."""
        # |N - T[D, D] / 2| <= (w / 6) |D|_H^2 (D^T G_2 D)^(1/2)
        return self.bend / 6.0 * length**2 * self._form(moves, length, "second")

    def change_beyond_third(self, change: Array, length: Array) -> Array:
        """How much N less T may change between two moves, none longer than ``length``."""
        # of each row it has a slope of at most w a-hat v^2 / 2 by v: (w / 2) |D|_H^2 (E^T G_2 E)^(1/2) for a difference
        # E (section 4.9)
        return self.bend / 2.0 * length**2 * self._form(change, length, "second")

    def beyond_fifth(self, moves: Array, length: Array) -> Array:
        """Of N less its terms up to the fourth degree, where those after T are sums in single precision."""
        # (9 L^4 / 120) |D|_H^4 (D^T G_4 D)^(1/2), and the rounding of sums that are (w / 6) |D|_H^3 tr(G_2 H^-1)^(1/2)
        # at most
        cut = self.fourth / 120.0 * length**4 * self._form(moves, length, "fourth")
        rounding = ROUGH * self.bend / 6.0 * length**3 * self._number(length, "trace")
        return cut + rounding

    def _form(self, moves: Array, length: Array, name: str) -> Array:
        xp = namespace(moves)
        found, before = xp.full_like(length, xp.inf), -xp.inf
        for level in self.levels:
            here = (length > before) & (length <= level.reach)
            before = level.reach
            if bool(xp.any(here)):
                own, rows = getattr(level, name), self.rows
                square = row_dots(moves, moves @ own, xp) if rows is None else (moves @ rows.T) ** 2 @ own
                found = xp.where(here, xp.sqrt(xp.clip(square, 0.0, None)), found)
        return found

    def _number(self, length: Array, name: str) -> Array:
        xp = namespace(length)
        found = xp.full_like(length, xp.inf)
        for level in reversed(self.levels):
            found = xp.where(length <= level.reach, getattr(level, name), found)
        return found


def slopes(loss: Loss, z: Array, y: Array, step: float) -> Array:
    """Of rows, a' as it is known, or by a central difference."""
    if loss.traits is not None:
        return loss.traits.slope(z, y)
    return (loss.a(z + step, y) - loss.a(z - step, y)) / (2.0 * step)


def steepness(risk: Risk, model: Model, step: float) -> float:
    """L: proved, or twice the largest change of log a over ``step`` at the rows."""
    if model.loss.traits is not None:
        return model.loss.traits.log_slope
    xp = namespace(risk.X)

    def block(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
        z = model.rows(X, y, weights).x @ model.theta
        low, middle, high = (xp.clip(model.loss.a(z + by, y), FLAT, None) for by in (-step, 0.0, step))
        change = xp.maximum(xp.abs(xp.log(high / middle)), xp.abs(xp.log(low / middle))) / step
        bend = xp.sqrt(xp.abs(high - 2.0 * middle + low) / (BEND * middle)) / step
        return (xp.max(xp.maximum(change, bend))[None],)

    (most,) = sum_rows(block, risk.X, risk.y, risk.weights, join=largest_of)
    return GUESS * float(most[0])


def remainders(risk: Risk, model: Model, B: Array, usual: float, log_slope: float, step: float) -> Remainders:
    """The bounds at a fit, B its H^-1; ``usual`` is the length of a usual move by H."""
    xp = namespace(risk.X)
    largest = float("inf") if model.loss.traits is None else model.loss.traits.largest
    known = model.loss.traits is not None and model.loss.traits.width == 1
    bend, fourth = (1.0, 1.0) if known else (BEND * log_slope**2, FOURTH * log_slope**4)
    reaches = tuple(usual * times for times in REACHES)

    def weighted(X: Array, y: Array, weights: Array | None) -> tuple[Array, list[Array]]:
        x = model.rows(X, y, weights).x
        z = x @ model.theta
        a, slope = xp.clip(model.loss.a(z, y), FLAT, None), xp.abs(slopes(model.loss, z, y, step))
        tall = xp.clip(row_dots(x, x @ B, xp), 0.0, None)
        omega = xp.ones_like(z) if weights is None else weights
        found = []
        for reach in reaches:
            change = log_slope * reach * xp.sqrt(tall)
            # a-hat of section 4.9, a e^(L d sqrt(l)) or the largest curvature of the loss
            most = xp.clip(xp.where(change < FAR, a * xp.exp(xp.clip(change, 0.0, FAR)), HUGE), None, largest)
            # |a'| over the move: by its own value and w, or by L alone
            bent = slope + bend * reach * xp.sqrt(tall) * most
            bent = xp.minimum(bent, log_slope * most)
            # G_1, G_2 and G_4: roots of l a-hat'^2, l^2 a-hat^2 and l^4 a-hat^2, over a below
            for size in (bent * xp.sqrt(tall), most * tall, most * tall**2):
                counted = xp.clip(xp.where(omega > 0, size, 0.0) / xp.sqrt(a), None, HUGE)
                found.append(xp.sqrt(omega) * counted)
        return x, found

    def block(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
        x, found = weighted(X, y, weights)
        scaled = (root[:, None] * x for root in found)
        return tuple(each.T @ each for each in scaled)

    def tallest(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
        x = model.rows(X, y, weights).x
        tall = row_dots(x, x @ B, xp)
        return (xp.max(tall if weights is None else xp.where(weights > 0, tall, 0.0))[None],)

    few: Array | None = None
    if int(risk.X.shape[0]) < risk.width and not is_lazy(risk.X):
        few, roots = weighted(risk.X, risk.y, risk.weights)
        grams, held = tuple(root**2 for root in roots), row_dots(few, few @ B, xp)
    else:
        grams, held = sum_rows(block, risk.X, risk.y, risk.weights), B
    (tall,) = sum_rows(tallest, risk.X, risk.y, risk.weights, join=largest_of)
    levels = []
    for k, reach in enumerate(reaches):
        first, second, last = grams[3 * k : 3 * k + 3]
        traces = [max(float(xp.sum(each * held)), 0.0) ** 0.5 for each in (first, second)]
        levels.append(_Level(reach, first, second, last, *traces))
    return Remainders(tuple(levels), log_slope, max(float(tall[0]), 0.0) ** 0.5, bend, fourth, few)


@dataclass(frozen=True)
class ThirdDerivative:
    """T over pairs of parameters."""

    pairs: Array
    """(q, p): sums over rows of a' x_j x_k x_l, j no larger than k, twice where they differ."""

    def twice(self, moves: Array) -> Array:
        """T[D, D] of each move (m, p): (m, p)."""
        return block_by_block(lambda some: pairs_of_columns(some) @ self.pairs, moves, int(moves.shape[1]))


def pays(n: int, p: int) -> bool:
    """Whether T costs less than it saves."""
    return p <= MOST_PARAMETERS and ROWS_PER_PAIR * p * (p + 1) // 2 <= n


def third_derivative(risk: Risk, model: Model, step: float) -> ThirdDerivative:
    """T at a fit; a' is a difference of a over ``step`` where the loss does not know it."""

    def block(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
        x = model.rows(X, y, weights).x
        slope = slopes(model.loss, x @ model.theta, y, step)
        return (pairs_of_columns(x).T @ ((slope if weights is None else weights * slope)[:, None] * x),)

    (total,) = sum_rows(block, risk.X, risk.y, risk.weights, most=pairs_at_once(risk.X, int(risk.X.shape[1])))
    first, second = np.triu_indices(risk.size)
    twice = like(np.where(first == second, 1.0, 2.0), risk.X, namespace(risk.X))
    return ThirdDerivative(twice[:, None] * total)


def higher_terms(risk: Risk, model: Model, root: Array, moves: Array, log_slope: float, step: float) -> Array:
    """The terms of third and fourth order after T, times root^T, for moves as H measures them, root^-1 D: (m, p)."""
    xp = namespace(moves)
    V, near = xp.astype(moves.T, xp.float32), NEAR / log_slope
    starts = range(0, moves.shape[0], MOVES)

    def block(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
        x = model.rows(X, y, weights).x
        z = x @ model.theta
        low, middle, high = (slopes(model.loss, z + by, y, step) for by in (-near, 0.0, near))
        # a'' / 6 and a''' / 24, by differences of a'
        third, fourth = (high - low) / (12.0 * near), (high - 2.0 * middle + low) / (24.0 * near**2)
        if weights is not None:
            third, fourth = weights * third, weights * fourth
        third, fourth, rows = (xp.astype(each, xp.float32) for each in (third, fourth, x @ root))
        parts = []
        for start in starts:
            v = rows @ V[:, start : min(start + MOVES, moves.shape[0])]
            terms = fourth[:, None] * v
            # in place, as memory is what this waits for
            terms += third[:, None]
            terms *= v
            v *= v
            terms *= v
            parts.append(terms.T @ rows)
        return (xp.astype(xp.concat(parts, axis=0), xp.float64),)

    (total,) = sum_rows(block, risk.X, risk.y, risk.weights, most=ROWS)
    return total
