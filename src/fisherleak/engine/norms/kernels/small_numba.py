"""The largest eigenvalue of small matrices compiled for the CPU: Householder's reduction, then Laguerre's method.

Loaded only where numba is installed and the work is large; the tests compare it with LAPACK.
"""

from __future__ import annotations

import math

import numpy as np

from fisherleak._support.namespaces import Vector
from fisherleak.engine.norms.kernels.compiled import compiled, in_threads
from fisherleak.engine.norms.kernels.tridiagonal_numba import room_for, solve_abreast

ABREAST = 64
"""Matrices whose last step is made together."""


def top_of_matrices_compiled(G: Vector) -> Vector:
    """As :func:`fisherleak.engine.norms.largest_eigenvalues.top_of_matrices`, for size 3 or more."""
    out = np.empty(G.shape[0])
    in_threads(_kernel, G.shape[0], (np.ascontiguousarray(G), out))
    return out


def _solve(start: int, stop: int, G: Vector, out: Vector) -> None:
    m = G.shape[1]
    M, v, p, alpha, beta = np.empty((m, m)), np.empty(m), np.empty(m), np.empty(m), np.zeros(m)
    diagonal, beside = np.empty((m, ABREAST)), np.empty((m, ABREAST))
    unit, solved, work = np.empty(ABREAST), np.empty((2, ABREAST)), room_for(m, ABREAST)
    for first in range(start, stop, ABREAST):
        count = min(ABREAST, stop - first)
        for i in range(count):
            top = 0.0
            M[:] = G[first + i]
            for a in range(m):
                top = max(top, M[a, a])
            unit[i] = top
            if top > 0.0 and math.isfinite(top):
                M *= 1.0 / top
                _reduce(M, v, p, alpha, beta)
                diagonal[:, i], beside[:, i] = alpha, beta
            else:
                diagonal[:, i], beside[:, i] = 1.0, 0.0
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
_kernel = compiled(_solve, nogil=True, error_model="numpy")
