"""Largest eigenvalues of the information of objective perturbation, row by row, compiled for the CPU.

Mathematics: 3.4, ``docs/mathematics/mechanisms.md``.
"""

from __future__ import annotations

import math

import numpy as np

from fisherleak._support.namespaces import Vector
from fisherleak.engine.norms.kernels import compiled, in_threads

NEAR, DONE, SQUARE, MOST_PASSES = 0.01, 1e-15, 1e-18, 100
CLEAR = 1e-3
"""Part of the largest distance to the top pole below which the pole decides where to start."""
PAST = 0.05
"""How far a step goes beyond the root of a part of F, at least: the one that is wanted is above it."""
LEAST, AT_POLE = 1e-12, 1e-13
"""Distance to the top pole, in units of the largest that F can be, from which a root is looked for."""


def top_of_perturbed(
    S: Vector, b: Vector, corner: float, w: Vector, Y: Vector, r: Vector, omega: Vector, scale: float
) -> Vector:
    """The largest eigenvalue of every row, (n,); NaN where it is not above the top pole, and for rows without features.

    Parameters
    ----------
    S, b : array of shape (m,)
        In the eigenbasis of S; b is zero where there is no intercept.
    corner : float
        The intercept's own value of H^-1, negative where there is none.
    w : array of shape (m + 1,)
        There, and for the label: zero where it does not move.
    Y : array of shape (n, m)
        The rows there.
    r, omega : array of shape (n,)
        Weighted residuals, and weights.
    scale : float
        sigma.
    """
    mu = np.empty(Y.shape[0])
    in_threads(_kernel, Y.shape[0], (S, b, corner, w, np.ascontiguousarray(Y), r, omega, scale, mu))
    return mu


def _solve_rows(
    start: int,
    stop: int,
    S: Vector,
    b: Vector,
    corner: float,
    w: Vector,
    Y: Vector,
    r: Vector,
    omega: Vector,
    scale: float,
    mu: Vector,
) -> None:
    m = S.shape[0]
    U, gaps, t = np.empty((5, m)), np.empty(m), np.empty(m)
    N, L, y, of_label = np.empty((5, 5)), np.empty((5, 5)), np.empty(5), np.empty(5)
    first = int(np.argmax(S))
    for i in range(start, stop):
        if omega[i] == 0.0:
            mu[i] = 0.0
            continue
        unit, top, upper, eta, size = _vectors_of_row(S, b, corner, w, Y[i], r[i], omega[i], scale, U, gaps, of_label)
        lower, found = LEAST, not unit > 0.0
        delta = upper if found else _along_the_last(top, eta, U, gaps, of_label)
        if not delta > CLEAR * upper:
            delta, found = _beside_the_pole(first, top, eta, size, U, gaps, of_label)
        if not (found or lower < delta < upper):
            delta = max(0.3 * upper, lower)
        for _ in range(MOST_PASSES):
            if found:
                break
            _less_the_sums(delta, top, eta, U, gaps, of_label, t, N)
            at = _pivots(N, L, y)
            value, slope = N[at, at], _slope(U, t, y, of_label, 1.0 / (delta + top))
            lower, upper = (delta, upper) if value <= 0.0 else (lower, delta)
            # Newton's method on the pivot itself, or on 1 / (1 - pivot) where the pivot is one less a secular function
            step = -value / slope if at == 1 else -(1.0 - value) * value / slope
            if at < 4:
                step = max(2.0 * step, PAST * delta)
            elif abs(value) <= 0.5:  # far above the root one minus it is rounded to nothing, and so is a step
                found = abs(step) <= DONE or (value <= 0.0 and step**2 <= SQUARE * delta and abs(step) <= NEAR * delta)
            proposal = delta + step
            if upper - lower <= DONE:
                found = lower > LEAST
                if not found:
                    # nothing above the pole: it is the one where there are two such poles, as one part alone is negative
                    found, delta = _second_gap(gaps) <= AT_POLE, 0.0
                    break
            if found:
                delta = min(max(proposal, lower), upper)
            elif lower < proposal < upper:
                delta = proposal
            else:
                delta = LEAST if lower == LEAST and upper < 1e4 * LEAST else math.sqrt(lower * upper)
        mu[i] = unit * (top + delta) if found and unit > 0.0 else math.nan


def _vectors_of_row(
    S: Vector,
    b: Vector,
    corner: float,
    w: Vector,
    row: Vector,
    r: float,
    omega: float,
    scale: float,
    U: Vector,
    gaps: Vector,
    of_label: Vector,
) -> tuple[float, float, float, float, float]:
    """U, its values for the label and the gaps below the top pole; a bound of F, the pole, a bound above it, eta, |F - D|.

    All in units of the first, which is zero where there are no features to speak of.
    """
    m, one = S.shape[0], 1.0 if corner >= 0.0 else 0.0
    x, k, u, beside, p = U[0], U[1], U[2], U[3], U[4]
    highest, xx, bx, bb = 0.0, 0.0, 0.0, 0.0
    for j in range(m):
        highest = max(highest, S[j])
        xx += row[j] * row[j]
        bx += b[j] * row[j]
        bb += b[j] * b[j]
    u0, length = one * (bx + corner), math.sqrt(xx + one)
    uu, ux, kk, kx, pp = 0.0, 0.0, 0.0, 0.0, 0.0
    if not xx > 0.0:
        return 0.0, 0.0, 0.0, 0.0, 0.0
    by_w, by_x = omega * length / scale, r / (scale * length)
    for j in range(m):
        # u, k and p of section 3.4; u0 is the intercept's coordinate of u, eta is by_x
        u[j] = S[j] * row[j] + one * b[j]
        k[j] = S[j] * u[j] + u0 * b[j]
        p[j] = by_w * w[j] + by_x * row[j]
        uu += u[j] * u[j]
        ux += u[j] * row[j]
        kk += k[j] * k[j]
        kx += k[j] * row[j]
        pp += p[j] * p[j]
    last = float(by_w * w[m])
    pp += last * last
    if not kk > 0.0:
        return 0.0, 0.0, 0.0, 0.0, 0.0
    s, h, square = omega * omega, ux + one * u0, xx + one
    # D of section 3.4 at the largest S, and bounds of F - D from above and from below
    top = r * r / scale**2 + s * ((2.0 * h + square * highest) * highest + uu + u0 * u0)
    crossed = math.sqrt(xx * kk)
    above, below = pp + s * (2.0 * uu + kx + crossed + square * bb), by_x * by_x * xx + s * (crossed - kx)
    unit = top + above
    shrink, balance = 1.0 / math.sqrt(unit), math.sqrt(math.sqrt(kk / xx))
    by = shrink * omega
    # the longest of u, b and p comes last
    place = 4
    if pp < max(2.0 * uu, square * bb) * s:
        place = 2 if 2.0 * uu >= square * bb else 3
    of_label[:] = 0.0
    of_label[place] = last * shrink
    for j in range(m):
        # U = [x, k, u, b, p] so that F = D + U C U^T with ones and eta in C; x and k are made equally long
        x[j] = by * balance * row[j]
        k[j] *= by / balance
        beside[j] = by * length * b[j]
        u[j] *= by * math.sqrt(2.0)
        p[j] *= shrink
        gaps[j] = s * (2.0 * h + square * (highest + S[j])) * (highest - S[j]) / unit
    if place < 4:
        for j in range(m):
            U[place, j], p[j] = p[j], U[place, j]
    return unit, top / unit, above / unit, by_x / (omega * balance), max(above, below) / unit


def _along_the_last(top: float, eta: float, U: Vector, gaps: Vector, of_label: Vector) -> float:
    """What two steps of Lanczos' method along the last of U leave above the top pole, others of U counted in the first."""
    by_x = by_k = by_u = by_b = 0.0
    label = of_label[4] ** 2
    square, once, twice, thrice = label, label * top, label * top**2, label * top**3
    for j in range(gaps.shape[0]):
        v, gap = U[4, j], gaps[j]
        by_x += v * U[0, j]
        by_k += v * U[1, j]
        by_u += v * U[2, j]
        by_b += v * U[3, j]
        part = v * v
        square += part
        part *= gap
        once += part
        part *= gap
        twice += part
        thrice += part * gap
    if not square > 0.0:
        return 0.0
    mean, second, third = once / square, twice / square, thrice / square
    # the Rayleigh quotient of F less the top pole along the last of U
    own = square + (2.0 * by_x * by_k - (eta * by_x) ** 2 + by_u**2 + by_b**2) / square - mean
    beside = second - mean * mean
    if not beside > 1e-12 * second:
        return float(own)
    other = -(third - 2.0 * mean * second + mean**3) / beside
    return float(0.5 * (own + other) + math.hypot(0.5 * (own - other), math.sqrt(beside)))


def _beside_the_pole(
    first: int, top: float, eta: float, size: float, U: Vector, gaps: Vector, of_label: Vector
) -> tuple[float, bool]:
    """The distance of the top eigenvalue to the top pole by second order, and whether that is all there is."""
    x, k, u, b, p = U[0, first], U[1, first], U[2, first], U[3, first], U[4, first]
    kept, gaps[first] = gaps[first], math.inf
    second = top
    for j in range(gaps.shape[0]):
        second = min(second, gaps[j])
    if not second > 0.0:
        gaps[first] = kept
        return 0.0, False
    label = of_label[2] * u + of_label[3] * b + of_label[4] * p
    bent = label * label / top
    for j in range(gaps.shape[0]):
        f = (k - eta * eta * x) * U[0, j] + x * U[1, j] + u * U[2, j] + b * U[3, j] + p * U[4, j]
        bent += f * f / gaps[j]
    gaps[first] = kept
    # f_1 + sum f_j^2 / gamma_j of section 3.4, and whether what that leaves out is nothing
    delta = (2.0 * k - eta * eta * x) * x + u * u + b * b + p * p + bent
    moved = size + abs(delta)
    return delta, second > 2.0 * moved and bent * moved <= DONE * (second - moved)


def _less_the_sums(
    delta: float, top: float, eta: float, U: Vector, gaps: Vector, of_label: Vector, t: Vector, N: Vector
) -> None:
    """N at a distance above the top pole, its lower half."""
    n00 = n10 = n20 = n30 = n40 = n11 = n21 = n31 = n41 = n22 = n32 = n42 = n33 = n43 = n44 = 0.0
    for j in range(t.shape[0]):
        tj = 1.0 / (delta + gaps[j])
        t[j] = tj
        x, k, u, b, p = U[0, j], U[1, j], U[2, j], U[3, j], U[4, j]
        tx, tk, tu, tb = tj * x, tj * k, tj * u, tj * b
        n00 += tx * x
        n10 += tx * k
        n20 += tx * u
        n30 += tx * b
        n40 += tx * p
        n11 += tk * k
        n21 += tk * u
        n31 += tk * b
        n41 += tk * p
        n22 += tu * u
        n32 += tu * b
        n42 += tu * p
        n33 += tb * b
        n43 += tb * p
        n44 += tj * p * p
    last = 1.0 / (delta + top)
    # N = C^-1 - U^T (mu - D)^-1 U; C is ((-eta^2, 1), (1, 0)) for x and k, with the inverse ((0, 1), (1, eta^2))
    N[0, 0], N[1, 0], N[2, 0], N[3, 0], N[4, 0] = -n00, 1.0 - n10, -n20, -n30, -n40
    N[1, 1], N[2, 1], N[3, 1], N[4, 1] = eta * eta - n11, -n21, -n31, -n41
    N[2, 2], N[3, 2], N[4, 2] = 1.0 - n22 - last * of_label[2] ** 2, -n32, -n42
    N[3, 3], N[4, 3] = 1.0 - n33 - last * of_label[3] ** 2, -n43
    N[4, 4] = 1.0 - n44 - last * of_label[4] ** 2


def _pivots(N: Vector, L: Vector, y: Vector) -> int:
    """The place of the first pivot after the negative one that is not positive, or the last; y is where it comes from.

    Pivots are left on the diagonal of N. A pivot is :math:`y^T N y` with :math:`y` one at its place and zero behind it.
    """
    at = 4
    for a in range(5):
        for c in range(a):
            for e in range(c):
                N[a, c] -= L[a, e] * N[e, e] * L[c, e]
            L[a, c] = N[a, c] / N[c, c]
        for e in range(a):
            N[a, a] -= L[a, e] * L[a, e] * N[e, e]
        if a > 0 and not N[a, a] > 0.0:
            at = a
            break
    y[:] = 0.0
    y[at] = 1.0
    for a in range(at - 1, -1, -1):
        for e in range(a + 1, at + 1):
            y[a] -= L[e, a] * y[e]
    return at


def _second_gap(gaps: Vector) -> float:
    """The least but one."""
    least = second = math.inf
    for gap in gaps:
        if gap < least:
            least, second = gap, least
        elif gap < second:
            second = gap
    return second


def _slope(U: Vector, t: Vector, y: Vector, of_label: Vector, last: float) -> float:
    """Of the pivot by the distance."""
    slope: float = (last * (of_label[2] * y[2] + of_label[3] * y[3] + of_label[4] * y[4])) ** 2
    y0, y1, y2, y3, y4 = y[0], y[1], y[2], y[3], y[4]
    for j in range(t.shape[0]):
        along = t[j] * (y0 * U[0, j] + y1 * U[1, j] + y2 * U[2, j] + y3 * U[3, j] + y4 * U[4, j])
        slope += along * along
    return slope


# Sums may be reordered and no division is checked, so that the inner loops vectorise.
_OPTIONS = {"fastmath": {"reassoc", "contract", "arcp", "nsz"}, "error_model": "numpy", "nogil": True}
_vectors_of_row = compiled(_vectors_of_row, **_OPTIONS)
_along_the_last = compiled(_along_the_last, **_OPTIONS)
_beside_the_pole = compiled(_beside_the_pole, **_OPTIONS)
_less_the_sums = compiled(_less_the_sums, **_OPTIONS)
_pivots = compiled(_pivots, error_model="numpy", nogil=True)
_slope = compiled(_slope, **_OPTIONS)
_second_gap = compiled(_second_gap, error_model="numpy", nogil=True)
_kernel = compiled(_solve_rows, error_model="numpy", nogil=True)
