r"""Largest eigenvalues of the information of posterior sampling, row by row, compiled for the CPU.

With :math:`R^T R = H^{-1}`, :math:`R E = P\, \mathrm{diag}(\sigma) V^T` and :math:`y = P^T R x`, a row has in the basis V

.. math:: F = \alpha\, \mathrm{diag}(\sigma^2) + p p^T + \kappa\, g g^T, \qquad g = \sigma y, \quad h = |y|^2,

.. math:: \alpha = r^2 / T + \omega^2 h, \qquad p = \frac{r}{\sqrt{h T}}\, g + \omega \sqrt{h / T}\, V^T w, \qquad
          \kappa = \omega^2 - r^2 / (h T),

the label (and what of w no value moves) being one more coordinate with a pole at zero, where g is zero. A fixed diagonal plus
rank two, as in ``secular``, but the second part may be negative. Then, with :math:`m_{uv} = \sum u v / (\mu - \alpha \sigma^2)`
and :math:`q = |\kappa|^{1/2} g`, the top eigenvalue above the top pole solves :math:`m_{pp} - m_{pq}^2 / (1 + m_{qq}) = 1`: its
left side is :math:`p^T (\mu - \alpha\, \mathrm{diag}(\sigma^2) + q q^T)^{-1} p`, so that Newton's method on its inverse climbs
to the root as it does there. Rows whose root is not clearly above the pole are left to others: NaN.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fisherleak.engine.norms.compiled import compiled, in_threads
from fisherleak.engine.norms.secular_numba import top_of_two

__all__ = ["top_of_draws"]

Vector = NDArray[np.float64]
FLOOR, NEAR, DONE, KINK_AFTER, MOST_PASSES = 1e-18, 0.01, 1e-16, 5, 200
"""As in ``secular``."""
CLEAR = 1e-5
"""Distance to the top pole, in units of the trace, from which a root with a negative part is known to ten digits."""


def top_of_draws(sigma: Vector, w: Vector, beside: float, Y: Vector, r: Vector, omega: Vector, T: float) -> Vector:
    """The largest eigenvalue of every row, (n,); NaN where it is not clearly above the top pole.

    ``sigma`` and ``w`` are (m,), ``beside`` the length of w in the coordinate beside them, ``Y`` is (n, p) with m <= p.
    """
    mu = np.empty(Y.shape[0])
    in_threads(_kernel, Y.shape[0], (sigma, w, beside, np.ascontiguousarray(Y), r, omega, T, mu))
    return mu


def _solve_rows(
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
    gaps = np.empty(m)
    for j in range(m):
        gaps[j] = top - sigma[j] ** 2
    for i in range(start, stop):
        h = 0.0
        for j in range(Y.shape[1]):
            h += Y[i, j] * Y[i, j]
        ri, oi = r[i], omega[i]
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
        lower = max(p * p - q * q if negative else p * p + q * q, floor)
        if upper > 0.0:
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
                sin = -g12 / (1.0 + g22)
                value, second = g11 + sin * g12, 0.0
                slope = d11 + 2.0 * sin * d12 + sin * sin * d22
            else:
                value, second, cos, sin = top_of_two(g11, g12, g22)
                slope = cos * cos * d11 + 2.0 * cos * sin * d12 + sin * sin * d22
            if value >= 1.0:
                lower = delta
                found = True
            if value <= 1.0:
                upper = delta
            if negative and not found and delta <= floor * (1.0 + 1e-12):
                break
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


# Sums may be reordered and no division is checked, so that the inner loops vectorise.
_kernel = compiled(_solve_rows, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy", nogil=True)
