"""Which magnitudes are measured: those whose products and squares stay inside the range of floats.

Mathematics: 1.5, ``docs/mathematics/fits.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, host, namespace
from fisherleak._support.grids import GAP
from fisherleak._support.namespaces import Vector
from fisherleak.errors import InvalidInputError

LEAST, MOST = 1e-30, 1e30
"""Between these must lie the largest value of a column, the largest label and the largest weight."""
LIGHTEST = 1e-140
"""Least weight above zero, as a part of the largest, where features and labels are ordinary."""
LARGEST_PENALTY = 1e90
NARROWEST = 2.0**-30
"""Range of the labels beside an intercept, as a part of their size, below which residuals lose too many digits."""


def extremes(X: Array, y: Array, weights: Array | None) -> Array:
    """Largest size of each column, largest and least label, largest and least weight, of a block: (d + 4,), joined by maxima.

    Least values have their sign turned, so that all of them are maxima. Rows without weight do not count.
    """
    xp = namespace(X)
    x = X if xp.isdtype(X.dtype, "real floating") else xp.astype(X, xp.float64)
    columns = xp.astype(xp.maximum(xp.max(x, axis=0), -xp.min(x, axis=0)), xp.float64)
    labels = weighed = (y, -y)
    if weights is None:
        weighed = (xp.ones_like(y), -xp.ones_like(y))
    else:
        none = xp.full_like(y, -np.inf)
        labels = (xp.where(weights > 0, y, none), xp.where(weights > 0, -y, none))
        weighed = (xp.where(weights > 0, weights, none), xp.where(weights > 0, -weights, none))
    return xp.concat([columns, xp.stack([xp.max(value) for value in (*labels, *weighed)])])


def check_extremes(found: Array, binary: bool, intercept: bool, names: Sequence[str] | None) -> None:
    """Refuse rows whose ``extremes`` are beyond what can be squared."""
    *columns, high, low, heavy, light = host(found).tolist()
    for j, size in enumerate(columns):
        if size not in (0.0, GAP) and not LEAST <= size <= MOST:  # some lack a category that nobody has
            raise InvalidInputError(_refusal(f"Column {j if names is None else repr(str(names[j]))}", size, "it"))
    size = 1.0 if binary else max(abs(high), abs(low)) or 1.0
    if not LEAST <= size <= MOST:
        raise InvalidInputError(_refusal("y", size, "y"))
    if intercept and not binary and 0 < high + low < NARROWEST * size:
        raise InvalidInputError(
            f"y lies between {-low:.10g} and {high:.10g}: its range of {high + low:.3g} is less than 2^-30 of its size, so "
            "residuals have too few digits. Subtract a constant from y, which the intercept takes up."
        )
    # the etas of a light row are smaller than others by its weight: a row of 1e-200 among ordinary ones would have zero
    _check_weights(heavy, -light, LIGHTEST * heavy * max(1.0, *columns) ** 2 / min(1.0, size))


def _check_weights(heaviest: float, lightest: float, least: float) -> None:
    for weight, within in ((heaviest, LEAST <= heaviest <= MOST), (lightest, lightest >= least)):
        if not within:
            raise InvalidInputError(
                f"sample_weight has a value of {weight:.3g}; the largest must lie between {LEAST:g} and {MOST:g}, and all "
                f"others above zero must be at least {least:.0e}. Multiply all of them, and l2, by the same number; a weight "
                "of zero leaves a row out."
            )


def check_penalty(l2: float) -> None:
    """Refuse a penalty beside which nothing is left of the data."""
    if l2 > LARGEST_PENALTY:
        raise InvalidInputError(
            f"l2 is {l2:.3g}, and its largest value is {LARGEST_PENALTY:g}: use a smaller penalty, or other units."
        )


def check_directions(attributes: Sequence[Any]) -> None:
    """Refuse raw columns that preprocessing multiplies by numbers beyond what can be squared."""
    for attribute in attributes:
        if attribute.directions is None:
            continue
        size = float(np.max(np.abs(attribute.directions), initial=0.0))
        if size and not LEAST <= size <= MOST:
            raise InvalidInputError(
                _refusal(f"Column '{attribute.name}'", 1.0 / size, "it", "moves the features by one per")
            )


def _refusal(what: str, size: float, it: str, how: str = "has a largest value of") -> str:
    return (
        f"{what} {how} {size:.3g}, and such sizes must lie between {LEAST:g} and {MOST:g} (squares of them are summed). "
        f"Bring {it} to ordinary units first."
    )


def spectral_norm(matrix: Vector) -> float:
    """||matrix||, zero where it has no entries."""
    return float(np.linalg.norm(matrix, 2)) if matrix.size else 0.0
