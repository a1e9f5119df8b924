"""The small matrices J_i^T J_i of a block, compiled for the CPU: no Jacobian is kept, and only columns that move are touched.

Loaded only where numba is installed and the work is large; the tests hold it against Jacobians that are written out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fisherleak.engine.block_maps import Place
from fisherleak.engine.norms.compiled import compiled, in_threads

__all__ = ["add_grams"]

Vector = NDArray[np.float64]


def add_grams(
    G: Vector,
    B: Vector,
    u: Vector,
    w: Vector,
    derivatives: tuple[Vector, Vector, Vector],
    places: Sequence[Place],
    given: Sequence[Vector],
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
    places, given
        The map, as a :class:`fisherleak.engine.block_maps.BlockMap` has it.
    label : bool
    alone : bool
        Start no threads.
    """
    columns, edges, coefficients = _packed(places, given, u.shape[0])
    r, a, c = (np.ascontiguousarray(x) for x in derivatives)
    w = np.broadcast_to(w, (u.shape[0], w.shape[1]))
    fixed = (np.ascontiguousarray(B.T), columns, edges, bool(label))
    in_threads(_kernel, u.shape[0], (G, np.ascontiguousarray(u), w, r, a, c, coefficients, *fixed), alone)


def _packed(places: Sequence[Place], given: Sequence[Vector], rows: int) -> tuple[NDArray[np.int64], ...]:
    """For every direction the columns it moves and by how much: columns (L,), edges (m + 1,), coefficients (b or 1, L)."""
    local = iter(given)
    columns, counts, parts = [], [], []
    for place in places:
        size = len(place.columns)
        fixed = np.eye(size) if place.directions is None else place.directions
        D = next(local) if place.local else fixed[None, :, :]
        parts.append(np.swapaxes(D, 1, 2).reshape(D.shape[0], -1))
        columns += list(place.columns) * place.size
        counts += [size] * place.size
    most = max((part.shape[0] for part in parts), default=1)
    whole = np.concatenate([np.broadcast_to(part, (most, part.shape[1])) for part in parts], axis=1)
    edges = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return np.asarray(columns, dtype=np.int64), edges, np.ascontiguousarray(whole)


def _add(
    start: int,
    stop: int,
    G: Vector,
    u: Vector,
    w: Vector,
    r: Vector,
    a: Vector,
    c: Vector,
    coefficients: Vector,
    columns: Vector,
    columns_of: NDArray[np.int64],
    edges: NDArray[np.int64],
    label: bool,
) -> None:
    m = edges.shape[0] - 1
    p = u.shape[1]
    J = np.empty((m + 1, p))
    shared = coefficients.shape[0] == 1
    for i in range(start, stop):
        own = coefficients[0 if shared else i]
        row = u[i]
        for k in range(m):
            line = J[k]
            along = a[i] * w[i, k]
            for j in range(p):
                line[j] = along * row[j]
            for e in range(edges[k], edges[k + 1]):
                by = r[i] * own[e]
                if by != 0.0:
                    column = columns[columns_of[e]]
                    for j in range(p):
                        line[j] += by * column[j]
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
