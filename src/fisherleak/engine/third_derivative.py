r"""The third derivative of the risk, and how far a move that rests on it may be off.

Over a move D of the parameters the gradient of the risk changes by :math:`H D + T[D, D] / 2` and terms of third order, with

.. math:: T[D, D] = \sum_i \omega_i a'_i (x_i \cdot D)^2 x_i, \qquad a' = \partial a / \partial z .

T is kept as one matrix over pairs of parameters, so that T[D, D] of many moves is one matrix product. The terms that are
left out, :math:`\sum_i \omega_i b_i (x_i \cdot D)^3 x_i` with :math:`b = a'' / 6` to leading order, move the minimum, in the
norm of H, by at most the root of :math:`\sum_i \omega_i (b_i^2 / a_i) (x_i \cdot D)^6`. Since
:math:`(x_i \cdot D)^2 \le \ell_i |D|_H^2`, :math:`\ell_i = x_i^T H^{-1} x_i`, that is no more than

.. math:: |D|_H^2 (D^T Q D)^{1/2}, \qquad Q = \sum_i \omega_i \ell_i^2 (b_i^2 / a_i)\, x_i x_i^T .
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, like, namespace, row_dots
from fisherleak.engine.jacobian import Model
from fisherleak.engine.risk import Risk
from fisherleak.rows import block_elements, sum_rows

__all__ = ["ThirdDerivative", "pays", "slopes", "third_derivative"]

MOST_PARAMETERS = 200
"""Parameters past which T, (p + 1) p^2 / 2 numbers, is not kept: 32 MB."""
ROWS_PER_PAIR = 4
"""T pays where there are more rows than this for each pair of parameters: a pass over all rows for each costs more."""


@dataclass(frozen=True)
class ThirdDerivative:
    """T over pairs of parameters, and Q."""

    pairs: Array
    """(q, p): sums over rows of a' x_j x_k x_l, j no larger than k, twice where they differ."""
    rest: Array
    """Q, (p, p)."""
    step: float
    """Of the differences of a."""

    def twice(self, moves: Array) -> Array:
        """T[D, D] of each move (m, p): (m, p)."""
        most, count = _at_once(moves), moves.shape[0]
        blocks = (moves[start : min(start + most, count), :] for start in range(0, count, most))
        parts = [_pairs(some) @ self.pairs for some in blocks]
        return parts[0] if len(parts) == 1 else namespace(moves).concat(parts, axis=0)

    def beyond(self, moves: Array) -> Array:
        """(D^T Q D)^(1/2) of each move, (m,)."""
        xp = namespace(moves)
        return xp.sqrt(xp.clip(row_dots(moves, moves @ self.rest, xp), 0.0, None))


def pays(n: int, p: int) -> bool:
    """Whether T costs less than it saves."""
    return p <= MOST_PARAMETERS and ROWS_PER_PAIR * p * (p + 1) // 2 <= n


def third_derivative(risk: Risk, model: Model, B: Array, step: float) -> ThirdDerivative:
    """T and Q at a fit, B its H^-1; a' and a'' are differences of a over ``step``, about as large as the moves of z."""
    xp = namespace(risk.X)

    def block(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
        x = model.rows(X, y, weights).x
        slope, bend = slopes(model, x @ model.theta, y, step)
        # a row without weight, or with a curvature that rounding hides, must not make Q infinite by 0 / 0
        rest = row_dots(x, x @ B, xp) * bend
        if weights is not None:
            slope, rest = weights * slope, xp.sqrt(weights) * xp.where(weights > 0, rest, 0.0)
        scaled = rest[:, None] * x
        return _pairs(x).T @ (slope[:, None] * x), scaled.T @ scaled

    total, rest = sum_rows(block, risk.X, risk.y, risk.weights, most=_at_once(risk.X))
    first, second = np.triu_indices(risk.size)
    twice = like(np.where(first == second, 1.0, 2.0), risk.X, xp)
    return ThirdDerivative(twice[:, None] * total, rest, step)


def slopes(model: Model, z: Array, y: Array, step: float) -> tuple[Array, Array]:
    """Of rows, a' and |a''| / 6 a^(1/2) by central differences; infinite where a vanishes and its neighbours do not."""
    xp = namespace(z)
    at = model.loss.a
    low, middle, high = at(z - step, y), at(z, y), at(z + step, y)
    bend = xp.abs(high - 2.0 * middle + low) / (6.0 * step**2)
    sure = xp.sqrt(xp.where(middle > 0, middle, 1.0))
    relative = xp.where((middle > 0) | (bend == 0), bend / sure, xp.inf)
    return (high - low) / (2.0 * step), relative


def _pairs(x: Array) -> Array:
    """x_j x_k of rows for all j no larger than k, (m, q)."""
    return namespace(x).concat([x[:, j : j + 1] * x[:, j:] for j in range(x.shape[1])], axis=1)


def _at_once(x: Array) -> int:
    """Rows whose pairs are held at a time."""
    p = int(x.shape[1])
    return max(512, block_elements(x) // (p * (p + 1) // 2))
