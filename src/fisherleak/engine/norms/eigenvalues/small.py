"""Largest eigenvalue of many small symmetric positive semidefinite matrices that are written out."""

from __future__ import annotations

from fisherleak._support.arrays import Array, namespace, on_accelerator
from fisherleak.engine.norms.eigenvalues.lanczos import WANTED, top_by_products
from fisherleak.engine.norms.kernels.worth_loading import is_compiled

__all__ = ["top_of_matrices"]

COMPILED_FROM = 2**15
"""Values in all matrices from which loading the compiled kernel pays."""
COMPILED_TO = 64
"""Size past which LAPACK's blocked reduction is faster than the compiled kernel's."""


def top_of_matrices(G: Array, compiled: bool = True) -> Array:
    """Largest eigenvalue of each of b matrices (b, m, m), to rounding: (b,).

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
        from fisherleak.engine.norms.kernels.small_numba import top_of_matrices_compiled

        return top_of_matrices_compiled(G)
    if not on_accelerator(G):
        return xp.linalg.eigvalsh(G)[:, -1]
    return _by_steps(G)


def _by_steps(G: Array) -> Array:
    """On GPUs, whose batched eigensolvers are slow: Lanczos on the matrices; the few it does not settle by LAPACK's way."""
    xp = namespace(G)
    values, errors = top_by_products(lambda state, V: (state[0] @ V[:, :, None])[:, :, 0], (G,), G.shape[-1])
    left = xp.nonzero(errors > WANTED)[0]
    if left.shape[0] == 0:
        return values
    again = xp.linalg.eigvalsh(xp.take(G, left, axis=0))[:, -1]
    order = xp.searchsorted(left, xp.arange(values.shape[0], device=left.device))
    order = xp.clip(order, 0, left.shape[0] - 1)
    return xp.where(errors > WANTED, xp.take(again, order), values)
