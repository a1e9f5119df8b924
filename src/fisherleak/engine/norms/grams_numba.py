"""The small matrices J_i^T J_i of a block, compiled for the CPU: no Jacobian is kept, only columns that move are multiplied.

Loaded only where numba is installed and the work is large; the tests hold it against Jacobians that are written out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fisherleak.engine.block_maps import BlockMap
from fisherleak.engine.norms.compiled import compiled, in_threads

__all__ = ["add_grams"]

Vector = NDArray[np.float64]


def add_grams(
    G: Vector,
    B: Vector,
    u: Vector,
    w: Vector,
    derivatives: tuple[Vector, Vector, Vector],
    E: BlockMap,
    label: bool,
    alone: bool,
) -> None:
    """Add J_i^T J_i of one release to G (b, m + label, m + label).

    Parameters
    ----------
    G : array
    B : array of shape (p, p)
    u : array of shape (b, p)
        B x of every row.
    w : array of shape (b or 1, m)
        E^T theta.
    derivatives : r, a, c, of shape (b,) each
    E : BlockMap
    label : bool
    alone : bool
        Start no threads.
    """
    A = _moved(B, E)
    r, a, c = (np.ascontiguousarray(x) for x in derivatives)
    w = np.broadcast_to(w, (u.shape[0], w.shape[1]))
    in_threads(_kernel, u.shape[0], (G, np.ascontiguousarray(u), w, r, a, c, A, bool(label)), alone)


def _moved(B: Vector, E: BlockMap) -> Vector:
    """B E_i by direction: (m, b, p), or (m, 1, p) where all rows share the map. Products of BLAS, one for each direction."""
    local = iter(E.given)
    scale = E.scale
    rows = max((D.shape[0] for D in E.given), default=1) if scale is None else scale.shape[0]
    A = np.empty((sum(place.size for place in E.places), rows, B.shape[0]))
    start = 0
    for place in E.places:
        columns = list(place.columns)
        fixed = np.eye(len(columns)) if place.directions is None else place.directions
        D = np.asarray(next(local)) if place.local else fixed[None, :, :]
        if scale is not None:
            D = D * scale[:, columns, None]
        own = np.ascontiguousarray(B[:, columns].T)
        for k in range(place.size):
            if D.shape[0] == rows:
                np.matmul(np.ascontiguousarray(D[:, :, k]), own, out=A[start])
            else:
                A[start] = D[:, :, k] @ own
            start += 1
    return A


def _add(
    start: int,
    stop: int,
    G: Vector,
    u: Vector,
    w: Vector,
    r: Vector,
    a: Vector,
    c: Vector,
    A: Vector,
    label: bool,
) -> None:
    m, p = A.shape[0], A.shape[2]
    J = np.empty((m + 1, p))
    shared = A.shape[1] == 1
    for i in range(start, stop):
        row = u[i]
        ri = r[i]
        for k in range(m):
            line = J[k]
            moved = A[k, 0 if shared else i]
            along = a[i] * w[i, k]
            for j in range(p):
                line[j] = along * row[j] + ri * moved[j]
        if label:
            line = J[m]
            for j in range(p):
                line[j] = c[i] * row[j]
        for k in range(m + label):
            one = J[k]
            for q in range(k + 1):
                two = J[q]
                total = 0.0
                for j in range(p):
                    total += one[j] * two[j]
                G[i, k, q] += total
                if q < k:
                    G[i, q, k] += total


_kernel = compiled(_add, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "reassoc"})
