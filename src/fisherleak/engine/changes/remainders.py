r"""How much of the gradient an expansion of the risk leaves out, at most.

Over a move D of the parameters the score of row i moves by :math:`v_i = x_i \cdot D`, and
:math:`v_i^2 \le \ell_i |D|_H^2` with :math:`\ell_i = x_i^T H^{-1} x_i`. A vector :math:`\sum_i \omega_i c_i x_i` has a norm by
:math:`H^{-1}` of at most the root of :math:`\sum_i \omega_i c_i^2 / a_i`. With :math:`\hat a_i` the largest curvature of row i
over all moves of length d by H, and L how fast the logarithm of a changes at most, :math:`\hat a_i = a_i e^{L d
\sqrt{\ell_i}}` or the largest curvature that the loss has. So what is left out has, for moves no longer than d, the bounds

.. math:: |N| \le \tfrac12 |D|_H (D^T G_1 D)^{1/2}, \qquad
          |N - \tfrac12 T[D, D]| \le \tfrac{w}{6} |D|_H^2 (D^T G_2 D)^{1/2}, \qquad
          |N - \ldots - \tfrac1{24} \sum_i \omega_i a'''_i v_i^4 x_i| \le \tfrac{9 L^4}{120} |D|_H^4 (D^T G_4 D)^{1/2}

with :math:`N = \sum_i \omega_i (r(z_i + v_i) - r_i - a_i v_i) x_i`, and a Hessian changes by no more than
:math:`(D^T G_1 D)^{1/2}`, where

.. math:: G_1 = \sum_i \omega_i \ell_i \frac{\hat a_i'^2}{a_i} x_i x_i^T, \qquad
          G_k = \sum_i \omega_i \ell_i^k \frac{\hat a_i^2}{a_i} x_i x_i^T .

Of the logistic, Poisson and gamma losses no derivative of a up to the fourth is above a: L = w = 1, and 1 stands in place of
:math:`9 L^4`. Of all losses of the package :math:`|a'| \le L a`, :math:`|a''| \le w a` with :math:`w = 4 L^2 / 3`, and the
fourth derivative is at most :math:`9 L^4 a`: the pseudo-Huber loss reaches these. Of other losses L is twice what is seen at
the rows: an estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fisherleak._support.arrays import Array, namespace, row_dots
from fisherleak.engine.fit.risk import Risk, largest_of
from fisherleak.engine.jacobian import Model
from fisherleak.engine.losses import Loss
from fisherleak.rows import sum_rows

__all__ = ["BEND", "FOURTH", "Remainders", "remainders", "slopes", "steepness"]

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

    def without_third(self, moves: Array, length: Array) -> Array:
        """Of N."""
        return 0.5 * length * self._form(moves, length, "first")

    def rate(self, moves: Array, length: Array, radius: Array) -> Array:
        """How much a Hessian may change, relative to H, up to any point that is no further than ``radius`` from these."""
        form = self._form(moves, length + radius, "first")
        return form + self._number(length + radius, "steepest") * radius

    def beyond_third(self, moves: Array, length: Array) -> Array:
        """Of N less T."""
        return self.bend / 6.0 * length**2 * self._form(moves, length, "second")

    def change_beyond_third(self, change: Array, length: Array) -> Array:
        """How much N less T may change between two moves, none longer than ``length``."""
        return self.bend / 2.0 * length**2 * self._form(change, length, "second")

    def beyond_fifth(self, moves: Array, length: Array) -> Array:
        """Of N less its terms up to the fourth degree, where those after T are sums in single precision."""
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
                square = row_dots(moves, moves @ getattr(level, name), xp)
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

    def block(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
        x = model.rows(X, y, weights).x
        z = x @ model.theta
        a, slope = xp.clip(model.loss.a(z, y), FLAT, None), xp.abs(slopes(model.loss, z, y, step))
        tall = xp.clip(row_dots(x, x @ B, xp), 0.0, None)
        omega = xp.ones_like(z) if weights is None else weights
        grams = []
        for reach in reaches:
            change = log_slope * reach * xp.sqrt(tall)
            most = xp.clip(xp.where(change < FAR, a * xp.exp(xp.clip(change, 0.0, FAR)), HUGE), None, largest)
            # |a'| over the move: by its own value and w, or by L alone
            bent = slope + bend * reach * xp.sqrt(tall) * most
            bent = xp.minimum(bent, log_slope * most)
            for size in (bent * xp.sqrt(tall), most * tall, most * tall**2):
                counted = xp.clip(xp.where(omega > 0, size, 0.0) / xp.sqrt(a), None, HUGE)
                scaled = (xp.sqrt(omega) * counted)[:, None] * x
                grams.append(scaled.T @ scaled)
        return tuple(grams)

    def tallest(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
        x = model.rows(X, y, weights).x
        tall = row_dots(x, x @ B, xp)
        return (xp.max(tall if weights is None else xp.where(weights > 0, tall, 0.0))[None],)

    grams = sum_rows(block, risk.X, risk.y, risk.weights)
    (tall,) = sum_rows(tallest, risk.X, risk.y, risk.weights, join=largest_of)
    levels = []
    for k, reach in enumerate(reaches):
        first, second, last = grams[3 * k : 3 * k + 3]
        traces = [max(float(xp.sum(each * B)), 0.0) ** 0.5 for each in (first, second)]
        levels.append(_Level(reach, first, second, last, *traces))
    return Remainders(tuple(levels), log_slope, max(float(tall[0]), 0.0) ** 0.5, bend, fourth)
