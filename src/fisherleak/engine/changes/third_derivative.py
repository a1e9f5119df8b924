r"""The third derivative of the risk, and the terms after it.

Over a move D of the parameters the gradient of the risk changes by :math:`H D + T[D, D] / 2` and terms of third order, with

.. math:: T[D, D] = \sum_i \omega_i a'_i (x_i \cdot D)^2 x_i, \qquad a' = \partial a / \partial z .

T is kept as one matrix over pairs of parameters, so that T[D, D] of many moves is one matrix product: it costs one pass in
O(n p^3). The terms after it, with :math:`v_i = x_i \cdot D`,

.. math:: \sum_i \omega_i \Big(\tfrac{a''_i}{6} v_i^3 + \tfrac{a'''_i}{24} v_i^4\Big) x_i ,

take a pass over all rows for each move. They are small, so that single precision is enough, for rows and moves as H measures
them: :math:`R^T x` and :math:`R^{-1} D` with :math:`R R^T = H^{-1}`. What either leaves out is bounded in ``remainders``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, like, namespace
from fisherleak.engine.changes.remainders import slopes
from fisherleak.engine.fit.risk import Risk
from fisherleak.engine.jacobian import Model
from fisherleak.rows import block_elements, sum_rows

__all__ = ["ThirdDerivative", "higher_terms", "pays", "third_derivative"]

MOST_PARAMETERS = 200
"""Parameters past which T, (p + 1) p^2 / 2 numbers, is not kept: 32 MB."""
ROWS_PER_PAIR = 4
"""T pays where there are more rows than this for each pair of parameters: a pass over all rows for each costs more."""
MOVES = 256
"""Moves whose terms are held at a time."""
ROWS = 512
"""Whose terms are summed in single precision."""
NEAR = 1e-3
"""Step of the differences of a', in units of how fast log a changes."""


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


def pays(n: int, p: int) -> bool:
    """Whether T costs less than it saves."""
    return p <= MOST_PARAMETERS and ROWS_PER_PAIR * p * (p + 1) // 2 <= n


def third_derivative(risk: Risk, model: Model, step: float) -> ThirdDerivative:
    """T at a fit; a' is a difference of a over ``step`` where the loss does not know it."""

    def block(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
        x = model.rows(X, y, weights).x
        slope = slopes(model.loss, x @ model.theta, y, step)
        return (_pairs(x).T @ ((slope if weights is None else weights * slope)[:, None] * x),)

    (total,) = sum_rows(block, risk.X, risk.y, risk.weights, most=_at_once(risk.X))
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


def _pairs(x: Array) -> Array:
    """x_j x_k of rows for all j no larger than k, (m, q)."""
    return namespace(x).concat([x[:, j : j + 1] * x[:, j:] for j in range(x.shape[1])], axis=1)


def _at_once(x: Array) -> int:
    """Rows whose pairs are held at a time."""
    p = int(x.shape[1])
    return max(512, block_elements(x) // (p * (p + 1) // 2))
