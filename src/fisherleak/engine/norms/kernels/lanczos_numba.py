r"""Lanczos' method for several releases, compiled for the CPU: all steps of a group of rows while it lies in a core's cache.

With :math:`M_i v = \sum_k a\,t\, w + r\,b\, g + r^2 S v`, where :math:`b = a\,(w \cdot v) + c\, v_{label}` and
:math:`t = |u|^2 b + r\,(g \cdot v)` of every release k. The first S is diagonal in the basis that is chosen, so that the others
alone take products: one of BLAS for the group a step, and none for the first step, which all rows begin alike. The tridiagonal
matrices of a group are solved abreast (``tridiagonal_numba``), and rows that are done leave.
Loaded only where numba is installed and the work is large; the tests compare it with Jacobians that are written out.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.namespaces import Vector
from fisherleak.engine.norms.kernels.compiled import compiled
from fisherleak.engine.norms.kernels.tridiagonal_numba import room_for, solve_abreast
from fisherleak.engine.norms.largest_eigenvalues import start_of

Index = NDArray[np.int64]
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
            V[i], before[i], moved[i] = begin[:m], 0.0, ahead
            last[0, i], last[1, i] = (begin[m] if label else 0.0), 0.0
        steps = 0
        for check in checks:
            while steps < check:
                if steps:
                    np.dot(V[:count], others, moved[:count])
                    tridiagonal[1, steps - 1, :count] = off[:count]
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
                    V[i], before[i] = V[count], before[count]
                    last[:, i] = last[:, count]
                    tridiagonal[:, :steps, i] = tridiagonal[:, :steps, count]
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
