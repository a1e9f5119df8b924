r"""Largest eigenvalues of many symmetric matrices: written out, by factors, or known by products :math:`J_i^T J_i v` alone.

Lanczos' method runs on a block of rows at once, one product :math:`v \mapsto M_i v` for all of them a step. The vectors need
no reorthogonalisation: what is lost returns as copies of values that have converged, and only the largest one is wanted.
A Ritz value :math:`\theta` is never above the truth (to rounding), and an eigenvalue lies within its residual: a row is done
when that is below ``WANTED``. The gap to the next Ritz value would promise an error of the square of the residual, but two
eigenvalues that are nearly one have one Ritz value for long, and no gap tells.

Also here: largest eigenvalue of many small symmetric tridiagonal matrices at once, with the end of its eigenvector.

Mathematics: 2.3, ``docs/mathematics/norms.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, device, host, is_numpy, like, namespace, on_accelerator
from fisherleak._support.namespaces import Namespace, Sums
from fisherleak.engine.norms.kernels import is_compiled

MOST_PASSES = 60
SETTLED = 2e-16
"""A step below this, in units of Gershgorin's bound, is rounding."""
SMALLEST, LARGEST = 1e-18, 1e150


def top_of_tridiagonals(
    diagonal: Sequence[Array], beside: Sequence[Array], compiled: bool = True
) -> tuple[Array, Array]:
    """The largest eigenvalue, and the last component of its unit eigenvector (its size).

    ``compiled`` is whether the compiled kernel may be loaded, which pays where many are to come.
    """
    xp = namespace(diagonal[0])
    if on_accelerator(diagonal[0]):
        # a few numbers for each row: starting hundreds of kernels for them costs more than bringing them here
        here = top_of_tridiagonals(*_on_host(diagonal, beside, xp), compiled)
        value, last = (like(x, diagonal[0], xp) for x in here)
        return value, last
    if compiled and is_compiled(diagonal[0], 1):
        from fisherleak.engine.norms.kernels.tridiagonal_numba import top_of_tridiagonals_compiled

        off = np.stack(beside) if beside else np.empty((0, diagonal[0].shape[0]))
        return top_of_tridiagonals_compiled(np.stack(diagonal), off)
    return top_of_tridiagonals_portable(diagonal, beside, xp)


def _on_host(diagonal: Sequence[Array], beside: Sequence[Array], xp: Namespace) -> tuple[list[Any], list[Any]]:
    """Brought over in one go."""
    both = host(xp.stack([*diagonal, *beside]))
    return list(both[: len(diagonal)]), list(both[len(diagonal) :])


def top_of_tridiagonals_portable(
    diagonal: Sequence[Array], beside: Sequence[Array], xp: Namespace
) -> tuple[Array, Array]:
    """The same in array API functions alone."""
    unit = _above(diagonal, beside, xp)
    unit = xp.where(unit > 0, unit, 1.0)
    diagonal, beside = [a / unit for a in diagonal], [b / unit for b in beside]
    squares = [b * b for b in beside]
    x = xp.ones_like(unit)
    degree = float(len(diagonal))
    for _ in range(MOST_PASSES):
        inside, first, second = _derivatives(x, diagonal, squares, xp)
        # Laguerre's step for the characteristic polynomial p, the product of the pivots (section 2.3)
        root = xp.sqrt(xp.clip((degree - 1.0) * (degree * second - first * first), 0.0, None))
        step = xp.where(inside, degree / xp.where(inside, first + root, 1.0), 0.0)
        x = x - step
        if bool(xp.all(step <= SETTLED)):
            break
    return unit * x, _last(x, diagonal, beside, squares, xp)


def _above(diagonal: Sequence[Array], beside: Sequence[Array], xp: Namespace) -> Array:
    """Gershgorin's upper bound, a little above it."""
    zero = xp.zeros_like(diagonal[0])
    left, right = [zero, *beside], [*beside, zero]
    bounds = [a + b + c for a, b, c in zip(diagonal, left, right, strict=True)]
    largest = bounds[0]
    for bound in bounds[1:]:
        largest = xp.maximum(largest, bound)
    return largest + 1e-14 * xp.abs(largest)


def _positive(pivot: Array, xp: Namespace) -> tuple[Array, Array]:
    """Whether a pivot is positive, and one that can be divided by: values here are at most 2, so SMALLEST is rounding."""
    positive = pivot > 0
    return positive, xp.where(positive, xp.where(pivot > SMALLEST, pivot, SMALLEST), 1.0)


def _derivatives(x: Array, diagonal: Sequence[Array], squares: Sequence[Array], xp: Namespace) -> Sums:
    """Whether x is above all eigenvalues, p'/p and (p'/p)^2 - p''/p, from the pivots."""
    inside, pivot = _positive(x - diagonal[-1], xp)
    slope, bend = xp.ones_like(x), xp.zeros_like(x)
    first, second = slope / pivot, (slope / pivot) ** 2
    for i in range(len(diagonal) - 2, -1, -1):
        # d_i = x - alpha_i - beta_i^2 / d_(i+1) and its first two derivatives by x, `slope` and `bend`
        share = squares[i] / (pivot * pivot)
        bend = share * (bend - 2.0 * slope * slope / pivot)
        bend = xp.where(bend > -LARGEST, bend, -LARGEST)
        slope = 1.0 + share * slope
        slope = xp.where(slope < LARGEST**0.4, slope, LARGEST**0.4)
        positive, pivot = _positive(x - diagonal[i] - share * pivot, xp)
        inside = inside & positive
        part = slope / pivot
        # sums over the pivots of d' / d, and of (d' / d)^2 - d'' / d
        first, second = first + part, second + part * part - bend / pivot
    return inside, first, second


def _last(
    x: Array, diagonal: Sequence[Array], beside: Sequence[Array], squares: Sequence[Array], xp: Namespace
) -> Array:
    pivot = x - diagonal[-1]
    ratios = []
    for i in range(len(diagonal) - 2, -1, -1):
        pivot = _positive(pivot, xp)[1]
        # s_(i+1) / s_i = beta_i / d_(i+1) (section 2.3)
        ratios.append(beside[i] / pivot)
        pivot = x - diagonal[i] - squares[i] / pivot
    component, total = xp.ones_like(x), xp.ones_like(x)
    for ratio in reversed(ratios):
        component = xp.clip(component * ratio, None, LARGEST**0.4)
        total = total + component * component
    return component / xp.sqrt(total)


State = tuple[Array, ...]
CANCELLED = 1e-4
"""An eigenvalue, or a squared cell, below this part of the terms that made it is computed again without squares."""
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


# Largest eigenvalue of many small symmetric positive semidefinite matrices that are written out.

COMPILED_FROM = 2**15
"""Values in all matrices from which loading the compiled kernel pays."""
STEPS_FROM = 200
"""Size from which on Lanczos' method is faster than decomposing the matrix, to ``WANTED``."""
COMPILED_TO = 64
"""Size past which LAPACK's blocked reduction is faster than the compiled kernel's."""


def top_of_matrices(G: Array, compiled: bool = True) -> Array:
    """Largest eigenvalue of each of b matrices (b, m, m): (b,), to rounding, and to ``WANTED`` where they are large.

    ``compiled`` is whether the table that they come from is large enough to load the compiled kernel for.
    """
    xp = namespace(G)
    size = G.shape[-1]
    if size == 1:
        return G[:, 0, 0]
    if size == 2:
        half = 0.5 * (G[:, 0, 0] - G[:, 1, 1])
        return 0.5 * (G[:, 0, 0] + G[:, 1, 1]) + xp.hypot(half, G[:, 0, 1])
    if compiled and is_compiled(G, COMPILED_FROM) and size <= COMPILED_TO:
        from fisherleak.engine.norms.kernels.tridiagonal_numba import top_of_matrices_compiled

        return top_of_matrices_compiled(G)
    if not on_accelerator(G) and (size < STEPS_FROM or not is_numpy(G)):
        return xp.linalg.eigvalsh(G)[:, -1]
    return _by_steps(G, compiled)


def top_of_grams(J: Array, compiled: bool = True) -> Array:
    """The largest eigenvalue of J_i^T J_i for Jacobians (b, p, m), by the smaller of the two Gram matrices: (b,)."""
    T = namespace(J).matrix_transpose(J)
    return top_of_matrices(T @ J if J.shape[2] <= J.shape[1] else J @ T, compiled)


def _by_steps(G: Array, compiled: bool = True) -> Array:
    """Lanczos on large matrices, and on GPUs, whose batched eigensolvers are slow; the few it leaves by LAPACK's way."""
    xp = namespace(G)

    def product(state: State, V: Array) -> Array:
        return (state[0] @ V[:, :, None])[:, :, 0]

    values, errors = top_by_products(product, (G,), G.shape[-1], compiled=compiled)
    left = xp.nonzero(errors > WANTED)[0]
    if left.shape[0] == 0:
        return values
    again = xp.linalg.eigvalsh(xp.take(G, left, axis=0))[:, -1]
    order = xp.searchsorted(left, xp.arange(values.shape[0], device=device(left)))
    order = xp.clip(order, 0, left.shape[0] - 1)
    return xp.where(errors > WANTED, xp.take(again, order), values)


# The largest eigenvalue of a large :math:`B T B^T`, the matrix of a set of rows, by products with its factors.
#
# To form the matrix and to decompose it takes O(p^3), which is most of an audit where columns are thousands. Lanczos' method
# takes a product with each factor a step, O(p^2), and says how far its value may be off; where that does not settle, as in a
# set without any large value, the matrix is formed after all.

LARGE = 500
"""Rows of the matrix from which on products are cheaper than decomposing it."""


def top_of_factors(root: Array, middle: Callable[[Sums], Array]) -> Callable[[tuple[Any, ...]], float | None] | None:
    """The largest eigenvalue of B T B^T from the sums that T is made of; None where the matrix is small, or not here.

    The function gives None where the value did not settle to the relative error of the norms of rows.
    """
    if not is_numpy(root) or min(root.shape) < LARGE:
        return None

    def top(sums: tuple[Any, ...]) -> float | None:
        xp, T = namespace(root), middle(sums)

        def product(_: tuple[Array, ...], V: Array) -> Array:
            return ((V @ root) @ T) @ root.T

        values, errors = top_by_products(product, (xp.zeros((1, 1)),), int(root.shape[0]), compiled=False)
        return float(host(values)[0]) if float(host(errors)[0]) <= WANTED else None

    return top
