"""The secular equation compiled for the CPU, row by row: the same steps as ``secular.py``, and those of posterior sampling.

Loaded only where numba is installed and the work is large; the tests compare it with the portable one and dense matrices.

Mathematics: 3.3, ``docs/mathematics/mechanisms.md``.
"""

from __future__ import annotations

import math

import numpy as np

from fisherleak._support.namespaces import Vector
from fisherleak.engine.norms.kernels import compiled, in_threads


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


FLOOR, NEAR, DONE, KINK_AFTER, MOST_PASSES = 1e-18, 0.01, 1e-16, 5, 200
"""As in ``secular``."""
CLEAR = 1e-6
"""Distance to the top pole, in units of the trace, from which a root with a negative part is known to ten digits."""
APART = 1e-3
"""Distance between the first two poles, in the same units, from which the top eigenvalue is known beside the pole too."""
LEAST, SURELY, AT_POLE = 1e-12, 0.9, 1e-13
"""Where there is none above this one, the top eigenvalue is the pole if there are two such poles, or nothing pulls it down."""


def top_of_draws(sigma: Vector, w: Vector, beside: float, Y: Vector, r: Vector, omega: Vector, T: float) -> Vector:
    """The largest eigenvalue of every row, (n,); NaN where it is not clearly above the top pole.

    ``sigma`` and ``w`` are (m,), ``beside`` the length of w in the coordinate beside them, ``Y`` is (n, p) with m <= p.
    """
    mu = np.empty(Y.shape[0])
    in_threads(_draws_kernel, Y.shape[0], (sigma, w, beside, np.ascontiguousarray(Y), r, omega, T, mu))
    return mu


def _solve_draws(
    start: int,
    stop: int,
    sigma: Vector,
    w: Vector,
    beside: float,
    Y: Vector,
    r: Vector,
    omega: Vector,
    T: float,
    mu: Vector,
) -> None:
    """One loop, as long as it is: see ``secular_numba``."""
    m = sigma.shape[0]
    first = 0
    for j in range(m):
        if sigma[j] > sigma[first]:
            first = j
    top = sigma[first] ** 2
    gaps, second_gap = np.empty(m), math.inf
    for j in range(m):
        gaps[j] = top - sigma[j] ** 2
        if j != first:
            second_gap = min(second_gap, gaps[j])
    for i in range(start, stop):
        h = 0.0
        for j in range(Y.shape[1]):
            h += Y[i, j] * Y[i, j]
        ri, oi = r[i], omega[i]
        # alpha, p = by_g g + by_w w, kappa and q of section 3.3; `beside` is the coordinate with a pole at zero
        alpha = ri * ri / T + oi * oi * h
        if not (h > 0.0 and oi > 0.0):
            mu[i] = alpha * top
            continue
        by_g, by_w = ri / math.sqrt(h * T), oi * math.sqrt(h / T)
        kappa = oi * oi - ri * ri / (h * T)
        negative = kappa < 0.0
        root = math.sqrt(abs(kappa))
        g11 = g12 = g22 = 0.0
        for j in range(m):
            g = sigma[j] * Y[i, j]
            p, q = by_g * g + by_w * w[j], root * g
            g11 += p * p
            g12 += p * q
            g22 += q * q
        last = by_w * beside
        g11 += last * last
        # a bound of F: the top pole, |p|^2 and, where it is added, |q|^2
        trace = alpha * top + g11 + (0.0 if negative else g22)
        if not trace > 0.0:
            mu[i] = trace
            continue
        unit = 1.0 / math.sqrt(trace)
        by_g, by_w, root, last = by_g * unit, by_w * unit, root * unit, last * unit
        rr = alpha / trace
        g11, g12, g22 = g11 / trace, g12 / trace, g22 / trace
        upper, _, cos, sin = top_of_two(g11, g12, g22)
        if negative:
            upper, cos, sin = g11, 1.0, 0.0
        below = (cos * last) ** 2 * top
        for j in range(m):
            g = sigma[j] * Y[i, j]
            lifted = cos * (by_g * g + by_w * w[j]) + sin * root * g
            below += lifted * lifted * gaps[j]
        g = sigma[first] * Y[i, first]
        p, q = by_g * g + by_w * w[first], root * g
        floor = CLEAR if negative else FLOOR
        attained = rr * second_gap <= AT_POLE or p * p - q * q >= -AT_POLE
        lower = max(p * p - q * q if negative else p * p + q * q, floor)
        if upper > 0.0:
            # the Rayleigh quotient of F along p (or along the top of both parts), less the pole
            lost = rr * below + (g12 * g12 if negative else 0.0)
            lower = max(lower, upper - lost / upper)
        upper = max(upper, floor)
        delta = lower
        found = False
        for count in range(MOST_PASSES):
            t = 1.0 / (delta + rr * top)
            g11, d11 = t * last * last, (t * last) ** 2
            g12 = g22 = d12 = d22 = 0.0
            for j in range(m):
                t = 1.0 / (delta + rr * gaps[j])
                g = sigma[j] * Y[i, j]
                p, q = by_g * g + by_w * w[j], root * g
                t1, t2 = t * p, t * q
                g11 += t1 * p
                g12 += t1 * q
                g22 += t2 * q
                d11 += t1 * t1
                d12 += t1 * t2
                d22 += t2 * t2
            if negative:
                # m_pp - m_pq^2 / (1 + m_qq) of section 3.3, and minus its derivative, the squared length of
                # (mu - alpha diag(sigma^2) + q q^T)^-1 p
                sin = -g12 / (1.0 + g22)
                value, second = g11 + sin * g12, 0.0
                slope = d11 + 2.0 * sin * d12 + sin * sin * d22
            else:
                value, second, cos, sin = top_of_two(g11, g12, g22)
                slope = cos * cos * d11 + 2.0 * cos * sin * d12 + sin * sin * d22
            if delta == LEAST and floor == LEAST:
                # nothing above the pole, and something at it
                found = value <= SURELY
                delta = 0.0
                break
            if value >= 1.0:
                lower = delta
                found = True
            if value <= 1.0:
                upper = delta
            if negative and not found and delta <= floor * (1.0 + 1e-12):
                if rr * second_gap > APART:
                    delta, found = _near_pole(sigma, w, Y[i], gaps, first, rr, top, by_g, by_w, root, last)
                    break
                if not attained:
                    break
                delta = floor = LEAST
                continue
            # Newton's method on the inverse of the left side, as in section 2.2
            step = value * (value - 1.0) / slope if slope > 0.0 else 0.0
            proposal = delta + step
            settled = (value >= 1.0 and second < 1.0 and step * step <= DONE * delta) or abs(step) <= DONE
            if (settled and abs(step) <= NEAR * delta) or upper - lower <= DONE:
                delta = min(max(proposal, lower), upper)
                found = True
                break
            if proposal <= lower or proposal >= upper or (count >= KINK_AFTER and step > delta):
                proposal = math.sqrt(lower * upper)
            delta = proposal
        else:
            found = False
        mu[i] = trace * (rr * top + delta) if found else math.nan


def _near_pole(
    sigma: Vector,
    w: Vector,
    y: Vector,
    gaps: Vector,
    first: int,
    rr: float,
    top: float,
    by_g: float,
    by_w: float,
    root: float,
    last: float,
) -> tuple[float, bool]:
    """The distance of the top eigenvalue to a pole that is apart from the others, of either sign, and whether it was found.

    With v what p and q have at the pole, and sums over the others alone, it is :math:`v^T (K - M)^{-1} v`, K = diag(1, -1):
    hardly a function of the distance itself where that is small. Above the other eigenvalues where K - M has one negative one.
    """
    g = sigma[first] * y[first]
    v1, v2, delta = by_g * g + by_w * w[first], root * g, 0.0
    for _ in range(20):
        t = 1.0 / (delta + rr * top)
        g11, g12, g22 = t * last * last, 0.0, 0.0
        for j in range(sigma.shape[0]):
            t = 0.0 if j == first else 1.0 / (delta + rr * gaps[j])
            g = sigma[j] * y[j]
            p, q = by_g * g + by_w * w[j], root * g
            g11 += t * p * p
            g12 += t * p * q
            g22 += t * q * q
        schur = 1.0 - g11 + g12 * g12 / (1.0 + g22)
        if not schur > 1e-3:
            return 0.0, False
        new = ((v1 - v2 * g12 / (1.0 + g22)) ** 2) / schur - v2 * v2 / (1.0 + g22)
        step = abs(new - delta)
        delta = new
        if not abs(delta) < NEAR * APART:
            return 0.0, False
        if step <= DONE:
            return delta, True
    return 0.0, False


_near_pole = compiled(
    _near_pole, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy", nogil=True, inline="never"
)
# Sums may be reordered and no division is checked, so that the inner loops vectorise.
_draws_kernel = compiled(_solve_draws, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy", nogil=True)
