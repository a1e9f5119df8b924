r"""A step of Lanczos' method for several releases, compiled for the CPU: one product of BLAS, and one pass over the rows.

With :math:`M_i v = \sum_k a\,t\, w + r\,b\, g + r^2 S v`, where :math:`b = a\,(w \cdot v) + c\, v_{label}` and
:math:`t = |u|^2 b + r\,(g \cdot v)` of every release k. The first S is diagonal in the basis that is
chosen, so that the others alone take products.
Loaded only where numba is installed and the work is large; the tests hold it against Jacobians that are written out.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fisherleak.engine.norms.compiled import compiled, in_threads
from fisherleak.engine.norms.lanczos import State, Step

__all__ = ["step_of"]

Vector = NDArray[np.float64]


def step_of(first: Vector, others: Vector, w: Vector, label: bool) -> Step:
    """Steps for states (values of shape (b, releases, 4): r, a, c, :math:`|u|^2`; g of shape (b, releases, m)).

    Parameters
    ----------
    first : array of shape (m,)
        The diagonal of the first release's S.
    others : array of shape (m, (releases - 1) m)
        The S of the others, side by side.
    w : array of shape (releases, m)
    label : bool
    """
    size = first.shape[0]

    def step(state: State, V: Vector, before: Vector, off: Vector) -> tuple[Vector, Vector, Vector]:
        values, g = state
        along, following = np.empty(V.shape[0]), np.empty(V.shape[0])
        moved = V[:, :size] @ others
        in_threads(_kernel, V.shape[0], (V, before, off, moved, values, g, w, first, along, following, bool(label)))
        return before, along, following

    return step


def _step(
    start: int,
    stop: int,
    V: Vector,
    before: Vector,
    off: Vector,
    moved: Vector,
    values: Vector,
    g: Vector,
    w: Vector,
    first: Vector,
    along: Vector,
    following: Vector,
    label: bool,
) -> None:
    count, m = w.shape
    W = np.zeros(m + 1)
    top = W[:m]
    for i in range(start, stop):
        v, last = V[i, :m], V[i, m] if label else 0.0
        W[m] = 0.0
        for k in range(count):
            r, a, c, squared = values[i, k, 0], values[i, k, 1], values[i, k, 2], values[i, k, 3]
            wk, gk = w[k], g[i, k]
            indirect, direct = 0.0, 0.0
            for j in range(m):
                indirect += wk[j] * v[j]
                direct += gk[j] * v[j]
            both = a * indirect + c * last
            t = squared * both + r * direct
            one, two, three = a * t, r * both, r * r
            if k == 0:
                for j in range(m):
                    top[j] = one * wk[j] + two * gk[j] + three * first[j] * v[j]
            else:
                image = moved[i, (k - 1) * m : k * m]
                for j in range(m):
                    top[j] += one * wk[j] + two * gk[j] + three * image[j]
            W[m] += c * t
        dot = W[m] * last
        for j in range(m):
            dot += top[j] * v[j]
        along[i] = dot
        old, beside = before[i, :m], off[i]
        total = 0.0
        for j in range(m):
            x = top[j] - dot * v[j] - beside * old[j]
            old[j] = x
            total += x * x
        if label:
            before[i, m] = W[m] - dot * last - beside * before[i, m]
            total += before[i, m] ** 2
        length = math.sqrt(total)
        following[i] = length
        if length > 0.0:
            unit = 1.0 / length
            whole = before[i]
            for j in range(whole.shape[0]):
                whole[j] *= unit


_kernel = compiled(_step, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "reassoc"})
