r"""The third derivative of the risk, and how far a move that rests on it may be off.

Over a move D of the parameters the gradient of the risk changes by :math:`H D + T[D, D] / 2` and terms of third order, with

.. math:: T[D, D] = \sum_i \omega_i a'_i (x_i \cdot D)^2 x_i, \qquad a' = \partial a / \partial z .

T is kept as one matrix over pairs of parameters, so that T[D, D] of many moves is one matrix product. The terms that are
left out, :math:`\sum_i \omega_i b_i (x_i \cdot D)^3 x_i` with :math:`b = a'' / 6` to leading order, move the minimum, in the
norm of H, by at most the root of :math:`\sum_i \omega_i (b_i^2 / a_i) (x_i \cdot D)^6`. Since
:math:`(x_i \cdot D)^2 \le \ell_i |D|_H^2`, :math:`\ell_i = x_i^T H^{-1} x_i`, that is no more than

.. math:: |D|_H^2 (D^T Q D)^{1/2}, \qquad Q = \sum_i \omega_i \ell_i^2 (b_i^2 / a_i)\, x_i x_i^T .

Where T itself is left out, what it would move is by the same argument no more than

.. math:: \tfrac12 |D|_H (D^T Q_1 D)^{1/2}, \qquad Q_1 = \sum_i \omega_i \ell_i (a_i'^2 / a_i)\, x_i x_i^T .

Both bounds cost one pass in O(n p^2), T one in O(n p^3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, like, namespace, row_dots
from fisherleak.engine.jacobian import Model
from fisherleak.engine.risk import Risk
from fisherleak.rows import block_elements, sum_rows

__all__ = ["Remainders", "ThirdDerivative", "pays", "remainders", "slopes", "third_derivative"]

MOST_PARAMETERS = 200
"""Parameters past which T, (p + 1) p^2 / 2 numbers, is not kept: 32 MB."""
ROWS_PER_PAIR = 4
"""T pays where there are more rows than this for each pair of parameters: a pass over all rows for each costs more."""


@dataclass(frozen=True)
class ThirdDerivative:
    """T over pairs of parameters."""

    pairs: Array
    """(q, p): sums over rows of a' x_j x_k x_l, j no larger than k, twice where they differ."""

    def twice(self, moves: Array) -> Array:
        """T[D, D] of each move (m, p): (m, p)."""
        most, count = _at_once(moves), moves.shape[0]
        blocks = (moves[start : min(start + most, count), :] for start in range(0, count, most))
        parts = [_pairs(some) @ self.pairs for some in blocks]
        return parts[0] if len(parts) == 1 else namespace(moves).concat(parts, axis=0)


@dataclass(frozen=True)
class Remainders:
    """Bounds of what is left out with and without T."""

    first: Array
    """Q_1, (p, p)."""
    second: Array
    """Q, (p, p)."""
    step: float
    """Of the differences of a."""

    def without_third(self, moves: Array, across: Array) -> Array:
        """What T moves each move by at most, in the norm of H; ``across`` is |D|_H^2: (m,)."""
        return 0.5 * namespace(moves).sqrt(across) * _length(moves, self.first)

    def beyond_third(self, moves: Array, across: Array) -> Array:
        """What the terms after T move each move by at most, in the norm of H: (m,)."""
        return across * _length(moves, self.second)


def _length(moves: Array, matrix: Array) -> Array:
    xp = namespace(moves)
    return xp.sqrt(xp.clip(row_dots(moves, moves @ matrix, xp), 0.0, None))


def pays(n: int, p: int) -> bool:
    """Whether T costs less than it saves."""
    return p <= MOST_PARAMETERS and ROWS_PER_PAIR * p * (p + 1) // 2 <= n


def remainders(risk: Risk, model: Model, B: Array, step: float) -> Remainders:
    """Q_1 and Q at a fit, B its H^-1; a' and a'' are differences of a over ``step``, about as large as the moves of z."""
    xp = namespace(risk.X)

    def block(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
        x = model.rows(X, y, weights).x
        z = x @ model.theta
        at = model.loss.a
        low, middle, high = at(z - step, y), at(z, y), at(z + step, y)
        leverage = xp.clip(row_dots(x, x @ B, xp), 0.0, None)
        first = xp.sqrt(leverage) * _per_root(xp.abs(high - low) / (2.0 * step), middle)
        second = leverage * _per_root(xp.abs(high - 2.0 * middle + low) / (6.0 * step**2), middle)
        grams = []
        for size in (first, second):
            # a row without weight, or with a curvature that rounding hides, must not make a sum infinite by 0 / 0
            counted = size if weights is None else xp.sqrt(weights) * xp.where(weights > 0, size, 0.0)
            scaled = counted[:, None] * x
            grams.append(scaled.T @ scaled)
        return tuple(grams)

    first, second = sum_rows(block, risk.X, risk.y, risk.weights)
    return Remainders(first, second, step)


def _per_root(derivative: Array, a: Array) -> Array:
    """A derivative of a over a^(1/2); infinite where a vanishes and its neighbours do not."""
    xp = namespace(a)
    return xp.where((a > 0) | (derivative == 0), derivative / xp.sqrt(xp.where(a > 0, a, 1.0)), xp.inf)


def third_derivative(risk: Risk, model: Model, step: float) -> ThirdDerivative:
    """T at a fit; a' is a difference of a over ``step``."""

    def block(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
        x = model.rows(X, y, weights).x
        slope = slopes(model, x @ model.theta, y, step)
        return (_pairs(x).T @ ((slope if weights is None else weights * slope)[:, None] * x),)

    (total,) = sum_rows(block, risk.X, risk.y, risk.weights, most=_at_once(risk.X))
    first, second = np.triu_indices(risk.size)
    twice = like(np.where(first == second, 1.0, 2.0), risk.X, namespace(risk.X))
    return ThirdDerivative(twice[:, None] * total)


def slopes(model: Model, z: Array, y: Array, step: float) -> Array:
    """Of rows, a' by a central difference."""
    return (model.loss.a(z + step, y) - model.loss.a(z - step, y)) / (2.0 * step)


def _pairs(x: Array) -> Array:
    """x_j x_k of rows for all j no larger than k, (m, q)."""
    return namespace(x).concat([x[:, j : j + 1] * x[:, j:] for j in range(x.shape[1])], axis=1)


def _at_once(x: Array) -> int:
    """Rows whose pairs are held at a time."""
    p = int(x.shape[1])
    return max(512, block_elements(x) // (p * (p + 1) // 2))
