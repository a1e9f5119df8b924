r"""Several releases compiled for the CPU: the small matrices J_i^T J_i of a block, and Lanczos' method for many values.

No Jacobian is kept, and only columns that move are multiplied. Lanczos' method makes all steps of a group of rows while it lies
in a core's cache: with :math:`M_i v = \sum_k a\,t\, w + r\,b\, g + r^2 S v`, where :math:`b = a\,(w \cdot v) + c\, v_{label}`
and :math:`t = |u|^2 b + r\,(g \cdot v)` of every release k. The first S is diagonal in the basis that is chosen, so that the
others alone take products: one of BLAS for the group a step, and none for the first step, which all rows begin alike. The
tridiagonal matrices of a group are solved abreast (``tridiagonal_numba``), and rows that are done leave.
Loaded only where numba is installed and the work is large; the tests compare it with Jacobians that are written out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.namespaces import Vector
from fisherleak.engine.jacobian.block_maps import BlockMap
from fisherleak.engine.norms.kernels import compiled
from fisherleak.engine.norms.kernels.tridiagonal_numba import room_for, solve_abreast
from fisherleak.engine.norms.largest_eigenvalues import start_of

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
        _grams_kernel(first, last, G, u, derivatives, A, edges, label)


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


_grams_kernel = compiled(_fill, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "reassoc"})


GROUP = 128
"""Rows of a group: with 65 features its vectors, images and g take a third of a MiB."""
CHECKS = (6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 35, 40, 47, 55, 64, 76, 90, 105, 120)
"""Steps after which the rows are looked at: more often than elsewhere, since looking is cheap here."""


def top_of_releases(
    values: Vector, g: Vector, w: Vector, first: Vector, others: Vector, label: bool, wanted: float
) -> tuple[Vector, Vector]:
    """Largest eigenvalue of every row, and its relative error, as ``lanczos.top_by_products`` gives them.

    Parameters
    ----------
    values : array of shape (releases, b, 4)
        r, a, c, :math:`|u|^2`.
    g : array of shape (releases, b, m)
    w : array of shape (releases, m)
    first : array of shape (m,)
        The diagonal of the first release's S.
    others : array of shape (m, (releases - 1) m)
        The S of the others, side by side.
    label : bool
    wanted : float
        Relative error at which a row is done.
    """
    size = first.shape[0] + int(label)
    checks = np.array([*(k for k in CHECKS if k < size), *([size] if size <= CHECKS[-1] else [])])
    found, errors = np.zeros(values.shape[1]), np.full(values.shape[1], np.inf)
    begin = start_of(size)
    contiguous = [np.ascontiguousarray(x) for x in (values, g, w, first, others)]
    _kernel(*contiguous, begin, begin[: first.shape[0]] @ others, bool(label), wanted, checks, found, errors)
    return found, errors


def _all_groups(
    values: Vector,
    g: Vector,
    w: Vector,
    first: Vector,
    others: Vector,
    begin: Vector,
    ahead: Vector,
    label: bool,
    wanted: float,
    checks: Index,
    found: Vector,
    errors: Vector,
) -> None:
    m, most = first.shape[0], checks[-1]
    V, before = np.empty((GROUP, m)), np.empty((GROUP, m))
    last, moved = np.zeros((2, GROUP)), np.empty((GROUP, others.shape[1]))
    tridiagonal, off, who = np.empty((2, most, GROUP)), np.empty(GROUP), np.empty(GROUP, dtype=np.int64)
    factors = np.empty((w.shape[0], 3))
    solved, work = np.empty((2, GROUP)), room_for(most, GROUP)
    for start in range(0, found.shape[0], GROUP):
        count = min(GROUP, found.shape[0] - start)
        for i in range(count):
            who[i], off[i] = start + i, 0.0
            # number by number: of slices that are assigned, numba takes longer to compile the kernel
            for j in range(m):
                V[i, j], before[i, j] = begin[j], 0.0
            for j in range(ahead.size):
                moved[i, j] = ahead[j]
            last[0, i], last[1, i] = (begin[m] if label else 0.0), 0.0
        steps = 0
        for check in checks:
            while steps < check:
                if steps:
                    np.dot(V[:count], others, moved[:count])
                    for i in range(count):
                        tridiagonal[1, steps - 1, i] = off[i]
                along = tridiagonal[0, steps]
                _step(count, who, V, before, last, off, moved, values, g, w, first, label, factors, along)
                V, before = before, V
                for i in range(count):
                    last[0, i], last[1, i] = last[1, i], last[0, i]
                steps += 1
            solve_abreast(tridiagonal[0], tridiagonal[1], steps, count, solved, work)
            for i in range(count - 1, -1, -1):
                theta = solved[0, i]
                error = off[i] * solved[1, i] / theta if theta > 0.0 else 0.0
                if error < errors[who[i]]:
                    found[who[i]], errors[who[i]] = theta, error
                if errors[who[i]] <= wanted:
                    count -= 1
                    who[i], off[i] = who[count], off[count]
                    for j in range(m):
                        V[i, j], before[i, j] = V[count, j], before[count, j]
                    last[0, i], last[1, i] = last[0, count], last[1, count]
                    for k in range(steps):
                        tridiagonal[0, k, i], tridiagonal[1, k, i] = tridiagonal[0, k, count], tridiagonal[1, k, count]
            if count == 0:
                break


def _step_of_rows(
    count: int,
    who: Index,
    V: Vector,
    before: Vector,
    last: Vector,
    off: Vector,
    moved: Vector,
    values: Vector,
    g: Vector,
    w: Vector,
    first: Vector,
    label: bool,
    factors: Vector,
    diagonal: Vector,
) -> None:
    """The next vector of every row in place of the one before, the length beside the diagonal, and the diagonal."""
    releases, m = w.shape
    for i in range(count):
        row, v, old, own, beside = who[i], V[i], before[i], last[0, i], off[i]
        dot, bottom = 0.0, 0.0
        for k in range(releases):
            wk, gk, image = w[k], g[k, row], first if k == 0 else moved[i, (k - 1) * m : k * m]
            indirect, direct, squared = 0.0, 0.0, 0.0
            # loops over slices, from zero, vectorise
            if k == 0:
                for j in range(m):
                    indirect += wk[j] * v[j]
                    direct += gk[j] * v[j]
                    squared += image[j] * v[j] * v[j]
            else:
                for j in range(m):
                    indirect += wk[j] * v[j]
                    direct += gk[j] * v[j]
                    squared += image[j] * v[j]
            r, a, c = values[k, row, 0], values[k, row, 1], values[k, row, 2]
            both = a * indirect + c * own
            t = values[k, row, 3] * both + r * direct
            factors[k, 0], factors[k, 1], factors[k, 2] = a * t, r * both, r * r
            dot += t * both + factors[k, 1] * direct + factors[k, 2] * squared
            bottom += c * t
        for k in range(releases):
            wk, gk, one, two, three = w[k], g[k, row], factors[k, 0], factors[k, 1], factors[k, 2]
            if k == 0:
                for j in range(m):
                    old[j] = one * wk[j] + two * gk[j] + (three * first[j] - dot) * v[j] - beside * old[j]
            else:
                image = moved[i, (k - 1) * m : k * m]
                for j in range(m):
                    old[j] += one * wk[j] + two * gk[j] + three * image[j]
        total = 0.0
        for j in range(m):
            total += old[j] * old[j]
        if label:
            last[1, i] = bottom - dot * own - beside * last[1, i]
            total += last[1, i] * last[1, i]
        off[i], diagonal[i] = math.sqrt(total), dot
        if total > 0.0:
            unit = 1.0 / off[i]
            for j in range(m):
                old[j] *= unit
            last[1, i] *= unit


_step = compiled(_step_of_rows, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "reassoc"})
_kernel = compiled(_all_groups, nogil=True, error_model="numpy")
