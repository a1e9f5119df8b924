"""Largest eigenvalue of many small symmetric tridiagonal matrices at once, with the end of its eigenvector.

Mathematics: 2.3, ``docs/mathematics/norms.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, host, like, namespace, on_accelerator
from fisherleak._support.namespaces import Namespace, Sums
from fisherleak.engine.norms.kernels import is_compiled

__all__ = ["top_of_tridiagonals", "top_of_tridiagonals_portable"]

MOST_PASSES = 60
SETTLED = 2e-16
"""A step below this, in units of Gershgorin's bound, is rounding."""
SMALLEST, LARGEST = 1e-18, 1e150


def top_of_tridiagonals(
    diagonal: Sequence[Array], beside: Sequence[Array], compiled: bool = True
) -> tuple[Array, Array]:
    """The largest eigenvalue, and the last component of its unit eigenvector (its size).

    ``compiled`` is whether the compiled kernel may be loaded, which pays where many are to come.
    """
    xp = namespace(diagonal[0])
    if on_accelerator(diagonal[0]):
        # a few numbers for each row: starting hundreds of kernels for them costs more than bringing them here
        here = top_of_tridiagonals(*_on_host(diagonal, beside, xp), compiled)
        value, last = (like(x, diagonal[0], xp) for x in here)
        return value, last
    if compiled and is_compiled(diagonal[0], 1):
        from fisherleak.engine.norms.kernels.tridiagonal_numba import top_of_tridiagonals_compiled

        off = np.stack(beside) if beside else np.empty((0, diagonal[0].shape[0]))
        return top_of_tridiagonals_compiled(np.stack(diagonal), off)
    return top_of_tridiagonals_portable(diagonal, beside, xp)


def _on_host(diagonal: Sequence[Array], beside: Sequence[Array], xp: Namespace) -> tuple[list[Any], list[Any]]:
    """Brought over in one go."""
    both = host(xp.stack([*diagonal, *beside]))
    return list(both[: len(diagonal)]), list(both[len(diagonal) :])


def top_of_tridiagonals_portable(
    diagonal: Sequence[Array], beside: Sequence[Array], xp: Namespace
) -> tuple[Array, Array]:
    """The same in array API functions alone."""
    unit = _above(diagonal, beside, xp)
    unit = xp.where(unit > 0, unit, 1.0)
    diagonal, beside = [a / unit for a in diagonal], [b / unit for b in beside]
    squares = [b * b for b in beside]
    x = xp.ones_like(unit)
    degree = float(len(diagonal))
    for _ in range(MOST_PASSES):
        inside, first, second = _derivatives(x, diagonal, squares, xp)
        # Laguerre's step for the characteristic polynomial p, the product of the pivots (section 2.3)
        root = xp.sqrt(xp.clip((degree - 1.0) * (degree * second - first * first), 0.0, None))
        step = xp.where(inside, degree / xp.where(inside, first + root, 1.0), 0.0)
        x = x - step
        if bool(xp.all(step <= SETTLED)):
            break
    return unit * x, _last(x, diagonal, beside, squares, xp)


def _above(diagonal: Sequence[Array], beside: Sequence[Array], xp: Namespace) -> Array:
    """Gershgorin's upper bound, a little above it."""
    zero = xp.zeros_like(diagonal[0])
    left, right = [zero, *beside], [*beside, zero]
    bounds = [a + b + c for a, b, c in zip(diagonal, left, right, strict=True)]
    largest = bounds[0]
    for bound in bounds[1:]:
        largest = xp.maximum(largest, bound)
    return largest + 1e-14 * xp.abs(largest)


def _positive(pivot: Array, xp: Namespace) -> tuple[Array, Array]:
    """Whether a pivot is positive, and one that can be divided by: values here are at most 2, so SMALLEST is rounding."""
    positive = pivot > 0
    return positive, xp.where(positive, xp.where(pivot > SMALLEST, pivot, SMALLEST), 1.0)


def _derivatives(x: Array, diagonal: Sequence[Array], squares: Sequence[Array], xp: Namespace) -> Sums:
    """Whether x is above all eigenvalues, p'/p and (p'/p)^2 - p''/p, from the pivots."""
    inside, pivot = _positive(x - diagonal[-1], xp)
    slope, bend = xp.ones_like(x), xp.zeros_like(x)
    first, second = slope / pivot, (slope / pivot) ** 2
    for i in range(len(diagonal) - 2, -1, -1):
        # d_i = x - alpha_i - beta_i^2 / d_(i+1) and its first two derivatives by x, `slope` and `bend`
        share = squares[i] / (pivot * pivot)
        bend = share * (bend - 2.0 * slope * slope / pivot)
        bend = xp.where(bend > -LARGEST, bend, -LARGEST)
        slope = 1.0 + share * slope
        slope = xp.where(slope < LARGEST**0.4, slope, LARGEST**0.4)
        positive, pivot = _positive(x - diagonal[i] - share * pivot, xp)
        inside = inside & positive
        part = slope / pivot
        # sums over the pivots of d' / d, and of (d' / d)^2 - d'' / d
        first, second = first + part, second + part * part - bend / pivot
    return inside, first, second


def _last(
    x: Array, diagonal: Sequence[Array], beside: Sequence[Array], squares: Sequence[Array], xp: Namespace
) -> Array:
    pivot = x - diagonal[-1]
    ratios = []
    for i in range(len(diagonal) - 2, -1, -1):
        pivot = _positive(pivot, xp)[1]
        # s_(i+1) / s_i = beta_i / d_(i+1) (section 2.3)
        ratios.append(beside[i] / pivot)
        pivot = x - diagonal[i] - squares[i] / pivot
    component, total = xp.ones_like(x), xp.ones_like(x)
    for ratio in reversed(ratios):
        component = xp.clip(component * ratio, None, LARGEST**0.4)
        total = total + component * component
    return component / xp.sqrt(total)
