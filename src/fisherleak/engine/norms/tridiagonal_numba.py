"""The largest eigenvalue of tridiagonal matrices compiled for the CPU: the same steps as ``tridiagonal.py``, row by row.

Loaded only where numba is installed; the tests hold it against the portable one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fisherleak.engine.norms.compiled import compiled, in_threads

__all__ = ["largest_root", "top_of_tridiagonals_compiled"]

Vector = NDArray[np.float64]


def top_of_tridiagonals_compiled(diagonal: Vector, beside: Vector) -> tuple[Vector, Vector, Vector]:
    """As :func:`fisherleak.engine.norms.tridiagonal.top_of_tridiagonals`, of arrays (j, b) and (j - 1, b)."""
    size, rows = diagonal.shape
    out = np.empty((3, rows))
    alpha, beta = np.ascontiguousarray(diagonal.T), np.zeros((rows, size))
    beta[:, : size - 1] = beside.T
    in_threads(_kernel, rows, (alpha, beta, out))
    return out[0], out[1], out[2]


def _solve(start: int, stop: int, alpha: Vector, beta: Vector, out: Vector) -> None:
    m = alpha.shape[1]
    for i in range(start, stop):
        a, b = alpha[i], beta[i]
        unit = a[0] + b[0]
        for k in range(1, m):
            unit = max(unit, a[k] + b[k - 1] + b[k])
        unit *= 1.0 + 1e-14
        if not unit > 0.0:
            unit = 1.0
        for k in range(m):
            a[k] /= unit
            b[k] /= unit
        x = largest_root(a, b, 1.0)
        out[0, i] = unit * x
        component, total = 1.0, 1.0
        slope, bend, others = 1.0, 0.0, 0.0
        pivot = max(x - a[m - 1], 1e-18)
        for k in range(m - 2, -1, -1):
            # the ratios of the eigenvector's components, from its end: their products are summed the other way round
            ratio = b[k] / pivot
            others += slope / pivot
            share = ratio * ratio
            bend = max(share * (bend - 2.0 * slope * slope / pivot), -1e150)
            slope = min(1.0 + share * slope, 1e60)
            pivot = max(x - a[k] - share * pivot, 1e-18) if k > 0 else 1.0
            b[k] = ratio
        for k in range(m - 1):
            component = min(component * b[k], 1e60)
            total += component * component
        out[1, i] = component / math.sqrt(total)
        out[2, i] = unit * 2.0 / max(bend / slope + 2.0 * others, 2.0)


def _largest_root(alpha: Vector, beta: Vector, x: float) -> float:
    r"""Laguerre's method from a bound above; bisection would take ten times as long.

    The bound is sharpened by that of Laguerre and Samuelson, :math:`s_1 / m + \sqrt{(m - 1)(s_2 / m - s_1^2 / m^2)}`
    with the sums of the eigenvalues and of their squares, and a little for rounding. Steps shrink by the cube of their
    ratio in the end, so that the last one need not be made.
    """
    m = alpha.shape[0]
    mean, square = alpha[m - 1], alpha[m - 1] * alpha[m - 1]
    for a in range(m - 1):
        mean += alpha[a]
        square += alpha[a] * alpha[a] + 2.0 * beta[a] * beta[a]
    mean /= m
    square /= m
    x = min(x, mean + math.sqrt((m - 1.0) * (max(square - mean * mean, 0.0) + 1e-14 * square)))
    before = 0.0
    for _ in range(100):
        pivot = x - alpha[m - 1]
        if pivot <= 0.0:
            break
        slope, bend = 1.0, 0.0
        first = 1.0 / pivot
        second = first * first
        inside = True
        for a in range(m - 2, -1, -1):
            share = (beta[a] / pivot) ** 2
            bend = share * (bend - 2.0 * slope * slope / pivot)
            slope = 1.0 + share * slope
            pivot = x - alpha[a] - share * pivot
            if pivot <= 0.0:
                inside = False
                break
            part = slope / pivot
            first += part
            second += part * part - bend / pivot
        if not inside:
            break
        step = m / (first + math.sqrt(max((m - 1.0) * (m * second - first * first), 0.0)))
        x -= step
        ratio = step / before
        if not step * ratio * ratio * ratio > 1e-17 * x:
            break
        before = step
    return x


largest_root = compiled(_largest_root, nogil=True, error_model="numpy")
_kernel = compiled(_solve, nogil=True, error_model="numpy")
