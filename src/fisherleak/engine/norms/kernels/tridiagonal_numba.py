"""The largest eigenvalue of tridiagonal and of small matrices compiled for the CPU: ``largest_eigenvalues``, many abreast.

One matrix alone is a chain of divisions that wait for one another; side by side they do not. Small matrices are reduced to
tridiagonal ones by Householder's reflections. Loaded only where numba is installed; the tests compare it with the portable one
and with LAPACK.
"""

from __future__ import annotations

import math

import numpy as np

from fisherleak._support.namespaces import Vector
from fisherleak.engine.norms.kernels import compiled, in_threads

ABREAST = 128
ROWS = 10
"""Numbers that each matrix keeps while it is solved, besides itself."""


def top_of_tridiagonals_compiled(diagonal: Vector, beside: Vector) -> tuple[Vector, Vector]:
    """As :func:`fisherleak.engine.norms.largest_eigenvalues.top_of_tridiagonals`, of arrays (j, b) and (j - 1, b)."""
    out = np.empty((2, diagonal.shape[1]))
    in_threads(_kernel, diagonal.shape[1], (np.ascontiguousarray(diagonal), np.ascontiguousarray(beside), out))
    return out[0], out[1]


def _all_groups(start: int, stop: int, diagonal: Vector, beside: Vector, out: Vector) -> None:
    size = diagonal.shape[0]
    alpha, beta, solved = np.empty((size, ABREAST)), np.zeros((size, ABREAST)), np.empty((2, ABREAST))
    work = room_for(size, ABREAST)
    for first in range(start, stop, ABREAST):
        count = min(ABREAST, stop - first)
        # number by number: of slices that are assigned, numba takes twice as long to compile the kernel
        for k in range(size):
            for i in range(count):
                alpha[k, i] = diagonal[k, first + i]
        for k in range(size - 1):
            for i in range(count):
                beta[k, i] = beside[k, first + i]
        solve_abreast(alpha, beta, size, count, solved, work)
        for i in range(count):
            out[0, first + i], out[1, first + i] = solved[0, i], solved[1, i]


def _room_for(size: int, abreast: int) -> Vector:
    """Room to solve so many matrices of that size."""
    return np.empty((ROWS + 2 * size, abreast))


def _solve_abreast(alpha: Vector, beta: Vector, size: int, count: int, out: Vector, work: Vector) -> None:
    """Largest eigenvalue, and the size of the last component of its eigenvector: into ``out``.

    Of the first ``count`` columns of ``alpha`` (diagonals) and ``beta`` (beside them), ``size`` values each.
    """
    half = (work.shape[0] - ROWS) // 2
    a, b = work[ROWS : ROWS + half], work[ROWS + half :]
    _scaled(alpha, beta, size, count, a, b, work)
    for _ in range(100):
        _derivatives(a, b, size, count, work)
        if _laguerre(size, count, work) == 0:
            break
    _at_the_root(a, b, size, count, out, work)


def _scaled_to_one(alpha: Vector, beta: Vector, size: int, count: int, a: Vector, b: Vector, work: Vector) -> None:
    r"""The matrices in units of Gershgorin's bound, with squares beside the diagonal, and a bound above to start from.

    That is sharpened by the one of Laguerre and Samuelson, :math:`s_1 / m + \sqrt{(m - 1)(s_2 / m - s_1^2 / m^2)}`
    with the sums of the eigenvalues and of their squares, and a little for rounding.
    """
    unit, x, moved, live, mean, square = work[0], work[1], work[2], work[3], work[4], work[5]
    for i in range(count):
        unit[i] = alpha[0, i]
        mean[i] = 0.0
        square[i] = 0.0
    if size > 1:
        for i in range(count):
            unit[i] = max(alpha[0, i] + beta[0, i], alpha[size - 1, i] + beta[size - 2, i])
    for k in range(1, size - 1):
        for i in range(count):
            unit[i] = max(unit[i], alpha[k, i] + beta[k - 1, i] + beta[k, i])
    for i in range(count):
        unit[i] = unit[i] * (1.0 + 1e-14) if unit[i] > 0.0 else 1.0
        moved[i] = 1.0 / unit[i]
    for k in range(size):
        for i in range(count):
            a[k, i] = alpha[k, i] * moved[i]
            mean[i] += a[k, i]
            square[i] += a[k, i] * a[k, i]
    for k in range(size - 1):
        for i in range(count):
            beside = beta[k, i] * moved[i]
            b[k, i] = beside * beside
            square[i] += 2.0 * b[k, i]
    for i in range(count):
        middle, squares = mean[i] / size, square[i] / size
        spread = (size - 1.0) * (max(squares - middle * middle, 0.0) + 1e-14 * squares)
        x[i] = min(1.0, middle + math.sqrt(spread))
        moved[i], live[i] = 0.0, 1.0


def _of_the_polynomial(a: Vector, b: Vector, size: int, count: int, work: Vector) -> None:
    """p'/p and (p'/p)^2 - p''/p at x, and the least pivot, which is not positive where x is not above all eigenvalues."""
    x, low, inverse, slope, bend, one, two = work[1], work[4], work[5], work[6], work[7], work[8], work[9]
    for i in range(count):
        low[i] = x[i] - a[size - 1, i]
        inverse[i] = 1.0 / low[i]
        slope[i], bend[i] = 1.0, 0.0
        one[i], two[i] = inverse[i], inverse[i] * inverse[i]
    for k in range(size - 2, -1, -1):
        own, beside = a[k], b[k]
        for i in range(count):
            before, steep = inverse[i], slope[i]
            share = beside[i] * before * before
            bent = share * (bend[i] - 2.0 * steep * steep * before)
            steep = 1.0 + share * steep
            pivot = x[i] - own[i] - beside[i] * before
            low[i] = min(low[i], pivot)
            after = 1.0 / pivot
            part = steep * after
            one[i] += part
            two[i] += part * part - bent * after
            inverse[i], slope[i], bend[i] = after, steep, bent


def _one_pass(size: int, count: int, work: Vector) -> int:
    """A step of Laguerre's method, and how many have more to make.

    Steps shrink by the cube of their ratio in the end, so that the last one need not be made.
    """
    x, moved, live, low, one, two = work[1], work[2], work[3], work[4], work[8], work[9]
    left = 0
    for i in range(count):
        if live[i] == 0.0:
            continue
        live[i] = 0.0
        if low[i] > 0.0:
            step = size / (one[i] + math.sqrt(max((size - 1.0) * (size * two[i] - one[i] * one[i]), 0.0)))
            x[i] -= step
            ratio = step / moved[i]
            if step * ratio * ratio * ratio > 1e-17 * x[i]:
                moved[i], live[i] = step, 1.0
                left += 1
    return left


def _ends(a: Vector, b: Vector, size: int, count: int, out: Vector, work: Vector) -> None:
    """What is asked for, at the root; the squared ratios of the eigenvector's components take the place of b."""
    unit, x, inverse, total, component = work[0], work[1], work[5], work[2], work[3]
    for i in range(count):
        inverse[i] = 1.0 / max(x[i] - a[size - 1, i], 1e-18)
        total[i], component[i] = 1.0, 1.0
    for k in range(size - 2, -1, -1):
        for i in range(count):
            before = inverse[i]
            share = b[k, i] * before * before
            inverse[i] = 1.0 / max(x[i] - a[k, i] - b[k, i] * before, 1e-18)
            b[k, i] = share
    for k in range(size - 1):
        for i in range(count):
            component[i] = min(component[i] * b[k, i], 1e120)
            total[i] += component[i]
    for i in range(count):
        out[0, i] = unit[i] * x[i]
        out[1, i] = math.sqrt(component[i] / total[i])


room_for = compiled(_room_for, nogil=True)
_scaled = compiled(_scaled_to_one, nogil=True, error_model="numpy")
_derivatives = compiled(_of_the_polynomial, nogil=True, error_model="numpy", fastmath={"contract"})
_laguerre = compiled(_one_pass, nogil=True, error_model="numpy")
_at_the_root = compiled(_ends, nogil=True, error_model="numpy", fastmath={"contract"})
solve_abreast = compiled(_solve_abreast, nogil=True, error_model="numpy")
_kernel = compiled(_all_groups, nogil=True, error_model="numpy")


MATRICES_ABREAST = 64
"""Matrices whose last step is made together."""


def top_of_matrices_compiled(G: Vector) -> Vector:
    """As :func:`fisherleak.engine.norms.largest_eigenvalues.top_of_matrices`, for size 3 or more."""
    out = np.empty(G.shape[0])
    in_threads(_matrices_kernel, G.shape[0], (np.ascontiguousarray(G), out))
    return out


def _solve_matrices(start: int, stop: int, G: Vector, out: Vector) -> None:
    m = G.shape[1]
    M, v, p, alpha, beta = np.empty((m, m)), np.empty(m), np.empty(m), np.empty(m), np.zeros(m)
    diagonal, beside = np.empty((m, MATRICES_ABREAST)), np.empty((m, MATRICES_ABREAST))
    unit, solved, work = np.empty(MATRICES_ABREAST), np.empty((2, MATRICES_ABREAST)), room_for(m, MATRICES_ABREAST)
    for first in range(start, stop, MATRICES_ABREAST):
        count = min(MATRICES_ABREAST, stop - first)
        for i in range(count):
            top = 0.0
            for a in range(m):
                top = max(top, G[first + i, a, a])
            unit[i] = top
            if top > 0.0 and math.isfinite(top):
                share = 1.0 / top
                for a in range(m):
                    for b in range(m):
                        M[a, b] = G[first + i, a, b] * share
                _reduce(M, v, p, alpha, beta)
                for a in range(m):
                    diagonal[a, i], beside[a, i] = alpha[a], beta[a]
            else:
                for a in range(m):
                    diagonal[a, i], beside[a, i] = 1.0, 0.0
        solve_abreast(diagonal, beside, m, count, solved, work)
        for i in range(count):
            out[first + i] = solved[0, i] * unit[i] if unit[i] > 0.0 and math.isfinite(unit[i]) else unit[i]


def _reduce(M: Vector, v: Vector, p: Vector, alpha: Vector, beta: Vector) -> None:
    """Householder's reduction to a tridiagonal matrix; M is used up. Loops over slices, from zero, vectorise."""
    m = M.shape[0]
    for k in range(m - 2):
        size = m - k - 1
        rest = M[k + 1 :, k + 1 :]
        row = M[k, k + 1 :]
        alpha[k] = M[k, k]
        tail = 0.0
        for a in range(1, size):
            tail += row[a] * row[a]
        head = row[0]
        beta[k] = math.sqrt(head * head + tail)
        if tail <= 1e-300:
            continue
        for a in range(size):
            v[a] = row[a]
        v[0] = head + math.copysign(beta[k], head)
        scale = 2.0 / (v[0] * v[0] + tail)
        dot = 0.0
        for a in range(size):
            line = rest[a]
            total = 0.0
            for b in range(size):
                total += line[b] * v[b]
            p[a] = scale * total
            dot += p[a] * v[a]
        half = 0.5 * scale * dot
        for a in range(size):
            p[a] -= half * v[a]
        for a in range(size):
            line = rest[a]
            va, pa = v[a], p[a]
            for b in range(size):
                line[b] -= va * p[b] + pa * v[b]
    alpha[m - 2] = M[m - 2, m - 2]
    alpha[m - 1] = M[m - 1, m - 1]
    beta[m - 2] = abs(M[m - 1, m - 2])


_reduce = compiled(_reduce, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "reassoc"})
_matrices_kernel = compiled(_solve_matrices, nogil=True, error_model="numpy")
