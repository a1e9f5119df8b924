"""Largest eigenvalue of "fixed diagonal plus rank two", for many rows at once.

Mathematics: 2.2, ``docs/mathematics/norms.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

from fisherleak._support.arrays import Array, device, namespace, row_dots, row_squares
from fisherleak._support.namespaces import Namespace
from fisherleak.engine.norms.kernels import is_compiled

FLOOR = 1e-18
"""Distance to the top pole under which it cannot change mu (>= 1/3) in float64."""
NEAR = 0.01
"""Newton's method is in its last, quadratic phase when it moves delta by less than this part."""
DONE = 1e-16
"""In that phase a step t leaves an error of at most about t^2 / delta: the row is done when that is below."""
MOST_PASSES = 200
KINK_AFTER = 5
LIMITS = (FLOOR, NEAR, DONE, KINK_AFTER, MOST_PASSES)
COMPILED_FROM = 2**16
"""Values in U from which loading (or compiling) the compiled kernel pays, by ``benchmarks/engine.py``."""


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
    if is_compiled(U, COMPILED_FROM):
        from fisherleak.engine.norms.kernels.secular_numba import top_eigenvalues_compiled

        return top_eigenvalues_compiled(s, v, U, r, h, c, LIMITS)
    return top_eigenvalues_portable(s, v, U, r, h, c)


def top_eigenvalues_portable(s: Array, v: Array, U: Array, r: Array, h: Array, c: Array | None) -> Array:
    """The same in array API functions alone: a few passes over arrays of the size of U for each step."""
    xp = namespace(U)
    if U.shape[0] == 0:
        return xp.zeros_like(r)
    top = xp.max(s)
    if c is None:
        K = h[:, None] * U
        K += r[:, None] * v[None, :]
        second = None
        trace = r * r * top + row_squares(K, xp)
    else:
        root = xp.hypot(h, c)
        safe = xp.where(root > 0, root, 1.0)
        # k = kappa u + beta v, and gamma v beside it (section 2.2): kappa is `root`, gamma is `second`
        K = root[:, None] * U
        K += (h / safe * r)[:, None] * v[None, :]
        second = xp.where(root > 0, c / safe, 1.0) * r
        trace = r * r * top + row_squares(K, xp) + second * second * xp.sum(v * v)
    # all in units of the trace bound r^2 s_max + |k|^2 + gamma^2 |v|^2
    unit = xp.where(trace > 0, 1.0 / xp.sqrt(xp.where(trace > 0, trace, 1.0)), 0.0)
    K *= unit[:, None]
    second = None if second is None else second * unit
    rows = _SecularRows(K, second, (r * unit) ** 2)
    poles = xp.stack([xp.ones_like(s), top - s])
    delta, upper = _start(rows, v, poles[1, :], xp)
    delta = _climb(rows, v, poles, delta, upper, xp)
    # mu is r^2 s_max and the distance delta to that pole
    return trace * (rows.squared_r * top + delta)


@dataclass(frozen=True)
class _SecularRows:
    """Rows in units of their trace bound: the vectors k (n, k), the factors gamma (n,) of v, if any, and r^2 (n,)."""

    K: Array
    second: Array | None
    squared_r: Array

    def take(self, rows: Array, xp: Namespace) -> _SecularRows:
        second = None if self.second is None else xp.take(self.second, rows)
        return _SecularRows(xp.take(self.K, rows, axis=0), second, xp.take(self.squared_r, rows))


def _start(rows: _SecularRows, v: Array, gaps: Array, xp: Namespace) -> tuple[Array, Array]:
    """A point below the root (a Rayleigh quotient, or the top diagonal entry) and one above it."""
    K = rows.K
    g11 = row_squares(K, xp)
    first = xp.reshape(xp.argmin(gaps), (1,))
    top_entry = xp.take(K, first, axis=1)[:, 0] ** 2
    below = (K * K) @ gaps
    upper = g11
    if rows.second is not None:
        gamma = rows.second
        on_v = K @ xp.stack([v, v * gaps], axis=1)
        upper, _, cos, sin = _top_of_two(g11, gamma * on_v[:, 0], gamma**2 * xp.sum(v * v), xp)
        sin = sin * gamma
        below = cos * cos * below + 2.0 * cos * sin * on_v[:, 1] + sin * sin * xp.sum(v * v * gaps)
        top_entry = top_entry + (gamma * xp.take(v, first)) ** 2
    # the top eigenvector of the rank-two part is (cos k + sin gamma v) / sqrt(upper)
    lower = xp.maximum(upper - rows.squared_r * below / xp.where(upper > 0, upper, 1.0), top_entry)
    return xp.clip(lower, FLOOR, None), xp.clip(upper, FLOOR, None)


def _top_of_two(g11: Array, g12: Array, g22: Array, xp: Namespace) -> tuple[Array, Array, Array, Array]:
    """Top eigenvalue, the other, and the top's unit eigenvector (cos, sin) of symmetric 2 x 2 matrices."""
    half = 0.5 * (g11 - g22)
    radius = xp.hypot(half, g12)
    safe = xp.where(radius > 0, radius, 1.0)
    tilt = xp.clip(xp.where(radius > 0, half / safe, 1.0), -1.0, 1.0)
    cos = xp.sqrt(0.5 * (1.0 + tilt))
    other = xp.sqrt(0.5 * (1.0 - tilt))
    middle = 0.5 * (g11 + g22)
    return middle + radius, middle - radius, cos, xp.where(g12 < 0, -other, other)


def _secular(rows: _SecularRows, v: Array, poles: Array, delta: Array, xp: Namespace) -> tuple[Array, Array, Array]:
    """The function g, the second eigenvalue, and minus the derivative of g, at delta."""
    # delta + r^2 gaps as one product of inner size two
    distances = xp.stack([delta, rows.squared_r], axis=1) @ poles
    if rows.second is None:
        T1 = rows.K / distances
        g = row_dots(T1, rows.K, xp)
        return g, xp.zeros_like(g), row_squares(T1, xp)
    T = 1.0 / distances
    T1 = T * rows.K
    gamma, squares = rows.second, v * v
    # the 2 x 2 matrix of g(mu) in section 2.2, its top eigenvalue and minus the derivative of that
    g12, g22 = gamma * (T1 @ v), gamma**2 * (T @ squares)
    g, second, cos, sin = _top_of_two(row_dots(T1, rows.K, xp), g12, g22, xp)
    sin = sin * gamma
    slope = cos * cos * row_squares(T1, xp)
    T1 *= T
    T *= T
    return g, second, slope + 2.0 * cos * sin * (T1 @ v) + sin * sin * (T @ squares)


def _climb(rows: _SecularRows, v: Array, poles: Array, delta: Array, upper: Array, xp: Namespace) -> Array:
    """Newton's method on 1/g, kept inside a bracket; rows leave when half of them are done."""
    lower = delta
    index = xp.arange(delta.shape[0], device=device(delta))
    done = xp.zeros_like(index, dtype=xp.bool)
    finished: list[tuple[Array, Array]] = []
    for count in range(MOST_PASSES):
        g, second, slope = _secular(rows, v, poles, delta, xp)
        lower = xp.where(g >= 1, delta, lower)
        upper = xp.where(g <= 1, delta, upper)
        # Newton's method on 1/g = 1: (1 - 1/g) / (slope / g^2), slope = -g'
        step = g * (g - 1.0) / xp.where(slope > 0, slope, 1.0)
        proposal = delta + step
        # both eigenvalues fall with delta: only where the second is above 1 too can it have the larger root
        settled = (g >= 1) & (second < 1) & (step * step <= DONE * delta) | (xp.abs(step) <= DONE)
        over = settled & (xp.abs(step) <= NEAR * delta) | (upper - lower <= DONE)
        inside = (proposal > lower) & (proposal < upper)
        # a row that still moves by factors after a few passes climbs a kink: halve the logarithm instead
        inside = inside & (step <= delta) if count >= KINK_AFTER else inside
        proposal = xp.where(inside | over, xp.clip(proposal, lower, upper), xp.sqrt(lower * upper))
        delta = xp.where(done, delta, proposal)
        done = done | over
        left = done.shape[0] - int(xp.sum(xp.astype(done, xp.int64)))
        if left == 0:
            break
        if 2 * left <= done.shape[0]:
            gone, active = xp.nonzero(done)[0], xp.nonzero(~done)[0]
            finished.append((xp.take(index, gone), xp.take(delta, gone)))
            rows = rows.take(active, xp)
            index, delta, lower, upper, done = (xp.take(x, active) for x in (index, delta, lower, upper, done))
    finished.append((index, delta))
    if len(finished) == 1:
        return delta
    order = xp.argsort(xp.concat([places for places, _ in finished]))
    return xp.take(xp.concat([values for _, values in finished]), order)
