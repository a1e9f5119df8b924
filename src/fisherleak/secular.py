r"""Largest eigenvalue of "fixed diagonal plus rank two", for many rows at once.

For row i, with one diagonal ``s`` (k,) and one vector ``v`` (k,) for all rows and a vector ``u_i`` (k,)
of its own,

.. math::

    M_i = r_i^2 \,\mathrm{diag}(s) + j_1 j_1^T + j_2 j_2^T, \qquad
    j_1 = r_i v + h_i u_i, \quad j_2 = c_i u_i .

Every term is positive semidefinite, so the largest eigenvalue mu is never below the top pole
:math:`r_i^2 s_{max}`. Above it, mu solves :math:`g(\mu) = 1` with

.. math:: g(\mu) = \lambda_{max}\left(\sum_k \frac{(j_{1k}, j_{2k})^T (j_{1k}, j_{2k})}{\mu - r_i^2 s_k}\right).

1/g is increasing and concave (it is the least eigenvalue of the inverse of a matrix Stieltjes
function), so Newton's method on 1/g from the left climbs to the root without passing it; a bracket
and a geometric bisection guard the rows where it would climb slowly. Unknown is the distance to the
top pole, ``delta``, in units of the trace bound, where it lies in [FLOOR, 1] and mu in [1/3, 1]:
nothing overflows, nothing cancels, and no case is special (r = 0, h = 0, c = 0, u = 0, k = 1,
repeated poles).
"""

from __future__ import annotations

import importlib.util
from typing import Any

from fisherleak._array import Array, device, is_numpy, namespace

__all__ = ["top_eigenvalues", "top_eigenvalues_portable"]

FLOOR = 1e-18
"""Distance to the top pole under which it cannot change mu (>= 1/3) in float64."""
NEAR = 0.01
"""Newton's method is in its last, quadratic phase when it moves delta by less than this part."""
DONE = 1e-16
"""In that phase a step t leaves an error of at most about t^2 / delta: the row is done when that is below."""
MOST_PASSES = 200
KINK_AFTER = 5
LIMITS = (FLOOR, NEAR, DONE, KINK_AFTER, MOST_PASSES)
COMPILED_FROM = 2**17
"""Values in U from which loading (or compiling) the compiled kernel pays, by ``benchmarks/engine.py``."""

_HAS_NUMBA = importlib.util.find_spec("numba") is not None


def top_eigenvalues(s: Array, v: Array, U: Array, r: Array, h: Array, c: Array | None) -> Array:
    """Largest eigenvalue of M_i for every row i.

    Parameters
    ----------
    s : array of shape (k,)
        Diagonal, zero or more.
    v : array of shape (k,)
        The vector shared by all rows.
    U : array of shape (n, k)
        One vector u_i per row.
    r, h : array of shape (n,)
    c : array of shape (n,) or None
        None where there is no second rank-one term.

    Returns
    -------
    array of shape (n,)
        Relative error of a few units of rounding, whatever the conditioning of M_i.
    """
    if _HAS_NUMBA and is_numpy(U) and U.shape[0] * U.shape[1] >= COMPILED_FROM:
        from fisherleak._compiled import top_eigenvalues_compiled

        return top_eigenvalues_compiled(s, v, U, r, h, c, LIMITS)
    return top_eigenvalues_portable(s, v, U, r, h, c)


def top_eigenvalues_portable(s: Array, v: Array, U: Array, r: Array, h: Array, c: Array | None) -> Array:
    """The same in array API functions alone."""
    xp = namespace(U)
    top = xp.max(s)
    J1 = r[:, None] * v[None, :] + h[:, None] * U
    J2 = None if c is None else c[:, None] * U
    trace = r * r * top + xp.vecdot(J1, J1)
    if J2 is not None:
        trace = trace + xp.vecdot(J2, J2)
    unit = xp.where(trace > 0, 1.0 / xp.sqrt(xp.where(trace > 0, trace, 1.0)), 0.0)
    squared_r = (r * unit) ** 2
    J1 = J1 * unit[:, None]
    J2 = None if J2 is None else J2 * unit[:, None]
    gaps = top - s
    delta, upper = _start(J1, J2, squared_r, gaps, xp)
    delta = _climb(J1, J2, squared_r, gaps, delta, upper, xp)
    return trace * (squared_r * top + delta)


def _start(J1: Array, J2: Array | None, squared_r: Array, gaps: Array, xp: Any) -> tuple[Array, Array]:
    """A point below the root (a Rayleigh quotient, or the top diagonal entry) and one above it."""
    g11 = xp.vecdot(J1, J1)
    first = int(xp.argmin(gaps))
    top_entry = J1[:, first] ** 2
    if J2 is None:
        upper = g11
        lifted = J1
    else:
        g12, g22 = xp.vecdot(J1, J2), xp.vecdot(J2, J2)
        upper, _, cos, sin = _top_of_two(g11, g12, g22, xp)
        lifted = cos[:, None] * J1 + sin[:, None] * J2
        top_entry = top_entry + J2[:, first] ** 2
    # the top eigenvector of the rank-two part is lifted / sqrt(upper)
    below = squared_r * ((lifted * lifted) @ gaps) / xp.where(upper > 0, upper, 1.0)
    lower = xp.maximum(upper - below, top_entry)
    return xp.clip(lower, FLOOR, None), xp.clip(upper, FLOOR, None)


def _top_of_two(g11: Array, g12: Array, g22: Array, xp: Any) -> tuple[Array, Array, Array, Array]:
    """Top eigenvalue, the other, and the top's unit eigenvector (cos, sin) of symmetric 2 x 2 matrices."""
    half = 0.5 * (g11 - g22)
    radius = xp.hypot(half, g12)
    safe = xp.where(radius > 0, radius, 1.0)
    tilt = xp.clip(xp.where(radius > 0, half / safe, 1.0), -1.0, 1.0)
    cos = xp.sqrt(0.5 * (1.0 + tilt))
    other = xp.sqrt(0.5 * (1.0 - tilt))
    middle = 0.5 * (g11 + g22)
    return middle + radius, middle - radius, cos, xp.where(g12 < 0, -other, other)


def _secular(
    J1: Array, J2: Array | None, squared_r: Array, gaps: Array, delta: Array, xp: Any
) -> tuple[Array, Array, Array]:
    """The function g, the second eigenvalue, and minus the derivative of g, at delta."""
    T = 1.0 / (delta[:, None] + squared_r[:, None] * gaps[None, :])
    T1 = T * J1
    if J2 is None:
        g = xp.vecdot(T1, J1)
        return g, xp.zeros_like(g), xp.vecdot(T1, T1)
    T2 = T * J2
    g, second, cos, sin = _top_of_two(xp.vecdot(T1, J1), xp.vecdot(T1, J2), xp.vecdot(T2, J2), xp)
    lifted = cos[:, None] * T1 + sin[:, None] * T2
    return g, second, xp.vecdot(lifted, lifted)


def _climb(J1: Array, J2: Array | None, squared_r: Array, gaps: Array, delta: Array, upper: Array, xp: Any) -> Array:
    """Newton's method on 1/g, kept inside a bracket; rows leave as they finish."""
    lower = delta
    index = xp.arange(delta.shape[0], device=device(delta))
    finished: list[tuple[Array, Array]] = []
    for count in range(MOST_PASSES):
        g, second, slope = _secular(J1, J2, squared_r, gaps, delta, xp)
        lower = xp.where(g >= 1, delta, lower)
        upper = xp.where(g <= 1, delta, upper)
        step = g * (g - 1.0) / xp.where(slope > 0, slope, 1.0)
        proposal = delta + step
        # both eigenvalues fall with delta: only where the second is above 1 too can it have the larger root
        settled = (g >= 1) & (second < 1) & (step * step <= DONE * delta) | (xp.abs(step) <= DONE)
        done = settled & (xp.abs(step) <= NEAR * delta) | (upper - lower <= DONE)
        inside = (proposal > lower) & (proposal < upper)
        # a row that still moves by factors after a few passes climbs a kink: halve the logarithm instead
        inside = inside & (step <= delta) if count >= KINK_AFTER else inside
        proposal = xp.where(inside | done, xp.clip(proposal, lower, upper), xp.sqrt(lower * upper))
        over = xp.nonzero(done)[0]
        if over.shape[0] > 0:
            finished.append((xp.take(index, over), xp.take(proposal, over)))
        active = xp.nonzero(~done)[0]
        if active.shape[0] == 0:
            break
        if over.shape[0] > 0:
            J1 = xp.take(J1, active, axis=0)
            J2 = None if J2 is None else xp.take(J2, active, axis=0)
            index, squared_r, proposal, lower, upper = (
                xp.take(x, active) for x in (index, squared_r, proposal, lower, upper)
            )
        delta = proposal
    else:  # pragma: no cover - the bracket halves in logarithm, so MOST_PASSES is never reached
        finished.append((index, upper))
    order = xp.argsort(xp.concat([rows for rows, _ in finished]))
    return xp.take(xp.concat([values for _, values in finished]), order)
