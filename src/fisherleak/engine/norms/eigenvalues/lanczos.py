r"""Largest eigenvalues of many symmetric matrices :math:`M_i = J_i^T J_i` that are known by their products alone.

Lanczos' method runs on a block of rows at once, one product :math:`v \mapsto M_i v` for all of them a step. The vectors need
no reorthogonalisation: what is lost returns as copies of values that have converged, and only the largest one is wanted.
A Ritz value :math:`\theta` is never above the truth (to rounding), and an eigenvalue lies within its residual: a row is done
when that is below ``WANTED``. The gap to the next Ritz value would promise an error of the square of the residual, but two
eigenvalues that are nearly one have one Ritz value for long, and no gap tells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, device, host, like, namespace
from fisherleak._support.namespaces import Namespace
from fisherleak.engine.norms.eigenvalues.tridiagonal import top_of_tridiagonals

__all__ = ["WANTED", "start_of", "top_by_products"]

State = tuple[Array, ...]
WANTED = 4e-11
"""Relative error of an eigenvalue at which a row is done."""
CHECKS = (6, 9, 12, 14, 16, 18, 20, 23, 26, 30, 35, 40, 47, 55, 64, 76, 90, 105, 120)
"""Steps after which the rows are looked at."""
FEW = 0.75
"""Rows that are done are left out of further products once no more than this part is left."""


def top_by_products(
    product: Callable[[State, Array], Array],
    state: State,
    size: int,
    wanted: float = WANTED,
    compiled: bool = True,
) -> tuple[Array, Array]:
    """Largest eigenvalue of every row, and its relative error: (b,) each.

    Parameters
    ----------
    product : callable
        (state, V of shape (b, size)) -> M V, row by row.
    state : tuple of arrays with b rows each
        What the product has to know of the rows; rows that are done are taken out of it.
    size : int
    wanted : float
        Relative error at which a row is done.
    compiled : bool
        Whether rows are enough to load compiled kernels for.

    Returns
    -------
    values, errors
        Rows that are not done after the last step have an error above ``wanted``.
    """
    xp = namespace(state[0])
    count = state[0].shape[0]
    V = xp.tile(like(start_of(size), state[0], xp)[None, :], (count, 1))
    before, off = xp.zeros_like(V), xp.zeros(count, dtype=V.dtype, device=device(V))
    rows, found = xp.arange(count, device=device(V)), _Converging(np.zeros(count), np.full(count, np.inf), wanted)
    diagonal: list[Array] = []
    beside: list[Array] = []
    steps = 0
    for check in [*(k for k in CHECKS if k < size), size]:
        for _ in range(check - steps):
            if steps:
                beside.append(off)
            W = product(state, V)
            along = xp.vecdot(W, V)
            W = W - along[:, None] * V - off[:, None] * before
            off = xp.linalg.vector_norm(W, axis=1)
            diagonal.append(along)
            before, V = V, W / xp.where(off > 0, off, 1.0)[:, None]
            steps += 1
        left = found.look(rows, *_ritz(diagonal, beside, off, compiled, xp))
        if left.size == 0 or check == CHECKS[-1]:
            break
        if left.size <= FEW * V.shape[0]:
            keep = like(left, V, xp)
            rows, V, before, off = (xp.take(x, keep, axis=0) for x in (rows, V, before, off))
            state = tuple(xp.take(x, keep, axis=0) for x in state)
            diagonal, beside = [xp.take(x, keep) for x in diagonal], [xp.take(x, keep) for x in beside]
    return like(found.values, V, xp), like(found.errors, V, xp)


def start_of(size: int) -> Any:
    """One direction for all rows, the same in every run; any that is not orthogonal to the eigenvector will do."""
    start = np.random.default_rng(0).standard_normal(size)
    return start / np.linalg.norm(start)


def _ritz(diagonal: list[Array], beside: list[Array], off: Array, compiled: bool, xp: Namespace) -> tuple[Array, Array]:
    """The largest Ritz value and its relative error by the residual."""
    theta, last = top_of_tridiagonals(diagonal, beside, compiled)
    return theta, xp.where(theta > 0, off * last / xp.where(theta > 0, theta, 1.0), 0.0)


class _Converging:
    """Values and errors of all rows, on the host; a row that is done is not looked at again."""

    def __init__(self, values: Any, errors: Any, wanted: float) -> None:
        self.values, self.errors, self.wanted = values, errors, wanted

    def look(self, rows: Array, values: Array, errors: Array) -> Any:
        """Take in what is better than before; give back the places among ``rows`` of those that are not done."""
        places, value, error = host(rows), host(values), host(errors)
        better = error < self.errors[places]
        self.values[places[better]] = value[better]
        self.errors[places[better]] = error[better]
        return np.flatnonzero(self.errors[places] > self.wanted)
