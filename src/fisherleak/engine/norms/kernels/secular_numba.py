"""The secular equation compiled for the CPU: the same steps as ``secular.py``, row by row.

Loaded only where numba is installed and the work is large; the tests compare it with the portable one.
"""

from __future__ import annotations

import math

import numpy as np

from fisherleak._support.namespaces import Vector
from fisherleak.engine.norms.kernels.compiled import compiled, in_threads


def top_eigenvalues_compiled(
    s: Vector,
    v: Vector,
    U: Vector,
    r: Vector,
    h: Vector,
    c: Vector | None,
    limits: tuple[float, float, float, int, int],
) -> Vector:
    """As :func:`fisherleak.engine.norms.secular.top_eigenvalues`; ``limits`` are its constants."""
    mu = np.empty(U.shape[0])
    c = np.zeros_like(r) if c is None else c
    first = int(s.argmax())
    arguments = (s[first], s[first] - s, first, v, np.ascontiguousarray(U), r, h, c, mu, *limits)
    in_threads(_kernel, U.shape[0], arguments)
    return mu


def top_of_two(g11: float, g12: float, g22: float) -> tuple[float, float, float, float]:
    """Top eigenvalue, the other, and the top's unit eigenvector (cos, sin) of a symmetric 2 x 2 matrix."""
    half = 0.5 * (g11 - g22)
    radius = math.hypot(half, g12)
    if radius == 0.0:
        return g11, g11, 1.0, 0.0
    tilt = min(max(half / radius, -1.0), 1.0)
    sin = math.copysign(math.sqrt(0.5 * (1.0 - tilt)), g12)
    middle = 0.5 * (g11 + g22)
    return middle + radius, middle - radius, math.sqrt(0.5 * (1.0 + tilt)), sin


def _solve_rows(
    start: int,
    stop: int,
    top: float,
    gaps: Vector,
    first: int,
    v: Vector,
    U: Vector,
    r: Vector,
    h: Vector,
    c: Vector,
    mu: Vector,
    floor: float,
    near: float,
    accuracy: float,
    kink_after: int,
    most_passes: int,
) -> None:
    """One loop, as long as it is: in pieces, each with seven numbers to hand over, it takes longer."""
    k = v.shape[0]
    for i in range(start, stop):
        ri, hi, ci = r[i], h[i], c[i]
        g11 = g12 = g22 = 0.0
        for j in range(k):
            j1 = ri * v[j] + hi * U[i, j]
            j2 = ci * U[i, j]
            g11 += j1 * j1
            g12 += j1 * j2
            g22 += j2 * j2
        trace = ri * ri * top + g11 + g22
        if not trace > 0.0:
            mu[i] = trace
            continue
        unit = 1.0 / math.sqrt(trace)
        ri, hi, ci = ri * unit, hi * unit, ci * unit
        rr = ri * ri
        upper, _, cos, sin = top_of_two(g11 / trace, g12 / trace, g22 / trace)
        rv, hu = cos * ri, cos * hi + sin * ci
        below = 0.0
        for j in range(k):
            lifted = rv * v[j] + hu * U[i, j]
            below += lifted * lifted * gaps[j]
        j1 = ri * v[first] + hi * U[i, first]
        j2 = ci * U[i, first]
        lower = max(j1 * j1 + j2 * j2, floor)
        if upper > 0.0:
            lower = max(lower, upper - rr * below / upper)
        upper = max(upper, floor)
        delta = lower
        for count in range(most_passes):
            g11 = g12 = g22 = d11 = d12 = d22 = 0.0
            for j in range(k):
                t = 1.0 / (delta + rr * gaps[j])
                j1 = ri * v[j] + hi * U[i, j]
                j2 = ci * U[i, j]
                t1 = t * j1
                t2 = t * j2
                g11 += t1 * j1
                g12 += t1 * j2
                g22 += t2 * j2
                d11 += t1 * t1
                d12 += t1 * t2
                d22 += t2 * t2
            g, second, cos, sin = top_of_two(g11, g12, g22)
            slope = cos * cos * d11 + 2.0 * cos * sin * d12 + sin * sin * d22
            if g >= 1.0:
                lower = delta
            if g <= 1.0:
                upper = delta
            step = g * (g - 1.0) / slope if slope > 0.0 else 0.0
            proposal = delta + step
            settled = (g >= 1.0 and second < 1.0 and step * step <= accuracy * delta) or abs(step) <= accuracy
            if (settled and abs(step) <= near * delta) or upper - lower <= accuracy:
                delta = min(max(proposal, lower), upper)
                break
            if proposal <= lower or proposal >= upper or (count >= kink_after and step > delta):
                proposal = math.sqrt(lower * upper)
            delta = proposal
        mu[i] = trace * (rr * top + delta)


top_of_two = compiled(top_of_two, inline="always")
# Sums may be reordered and no division is checked, so that the inner loops vectorise.
_kernel = compiled(_solve_rows, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy", nogil=True)
