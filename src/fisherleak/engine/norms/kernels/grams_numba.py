"""The small matrices J_i^T J_i of a block, compiled for the CPU: no Jacobian is kept, only columns that move are multiplied.

Loaded only where numba is installed and the work is large; the tests compare it with Jacobians that are written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.namespaces import Vector
from fisherleak.engine.jacobian.block_maps import BlockMap
from fisherleak.engine.norms.kernels.compiled import compiled

Index = NDArray[np.int64]
GRAM_VALUES = 2**18
"""Values of what moves at a time: a part of a core's own cache."""


@dataclass(frozen=True)
class ReleaseArrays:
    """What one release brings to the matrices of a block."""

    B: Vector
    """(p, p)"""
    theta: Vector
    """(p,)"""
    x: Vector
    """(b, p) features."""
    derivatives: tuple[Vector, Vector, Vector]
    """r, a, c, of shape (b,) each."""
    E: BlockMap
    """Its scale, if any, is that of the direct effect alone."""


def grams(releases: Sequence[ReleaseArrays], label: bool) -> Vector:
    """J_i^T J_i of the stack of all releases: (b, m + label, m + label)."""
    edges = np.cumsum([0, *(part.B.shape[0] for part in releases)])
    count, width = releases[0].x.shape[0], sum(place.size for place in releases[0].E.places)
    u = np.empty((count, edges[-1]))
    for part, first, last in zip(releases, edges, edges[1:], strict=False):
        np.matmul(part.x, part.B.T, out=u[:, first:last])
    derivatives = np.stack([np.stack(part.derivatives) for part in releases])
    G = np.empty((count, width + int(label), width + int(label)))
    _fill_all(G, u, derivatives, releases, edges, bool(label))
    return G


def _fill_all(
    G: Vector, u: Vector, derivatives: Vector, releases: Sequence[ReleaseArrays], edges: Index, label: bool
) -> None:
    """A few rows at a time, so that what moves stays in the cache."""
    width, size = G.shape[1] - int(label), int(edges[-1]) + len(releases)
    shared = not any(part.E.given or part.E.scale is not None for part in releases)
    step = max(G.shape[0], 1) if shared else max(16, GRAM_VALUES // (size * max(width, 1)))
    A = np.empty((width, 1 if shared else step, size))
    for first in range(0, G.shape[0], step):
        last = min(first + step, G.shape[0])
        for k, part in enumerate(releases):
            _move(A[:, : last - first, edges[k] + k : edges[k + 1] + k + 1], part, slice(first, last))
        _kernel(first, last, G, u, derivatives, A, edges, label)


def _move(A: Vector, release: ReleaseArrays, rows: slice) -> None:
    """B E_i, with theta E_i as a last column, by direction into (m, b or 1, p + 1): one product of BLAS for each."""
    E, both = release.E, np.concatenate([release.B, release.theta[None, :]]).T
    local = iter(E.given)
    start = 0
    for place in E.places:
        columns = list(place.columns)
        own = both[columns]
        if place.local:
            D = place.in_rows(np.asarray(next(local))[rows])
        else:
            D = (np.eye(len(columns)) if place.directions is None else place.directions)[None, :, :]
        scaled = D if E.scale is None else D * E.scale[rows, columns, None]
        for k in range(place.size):
            if scaled.shape[0] == A.shape[1]:
                np.matmul(np.ascontiguousarray(scaled[:, :, k]), own, out=A[start])
            else:
                A[start] = scaled[:, :, k] @ own
            if E.scale is not None:
                A[start, :, -1] = D[:, :, k] @ own[:, -1]
            start += 1


def _fill(
    start: int, stop: int, G: Vector, u: Vector, derivatives: Vector, A: Vector, edges: Index, label: bool
) -> None:
    m, p = A.shape[0], u.shape[1]
    J = np.empty((m + 1, p))
    few = A.shape[1]
    for i in range(start, stop):
        for release in range(edges.size - 1):
            first, last = edges[release], edges[release + 1]
            r, a, c = derivatives[release, 0, i], derivatives[release, 1, i], derivatives[release, 2, i]
            # loops over slices, from zero, vectorise
            row = u[i, first:last]
            for k in range(m):
                moved = A[k, (i - start) % few, first + release : last + release + 1]
                line, along = J[k, first:last], a * moved[last - first]
                for j in range(last - first):
                    line[j] = along * row[j] + r * moved[j]
            if label:
                line = J[m, first:last]
                for j in range(last - first):
                    line[j] = c * row[j]
        for k in range(m + label):
            one = J[k]
            for q in range(k + 1):
                two = J[q]
                total = 0.0
                for j in range(p):
                    total += one[j] * two[j]
                G[i, k, q] = total
                G[i, q, k] = total


_kernel = compiled(_fill, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "reassoc"})
