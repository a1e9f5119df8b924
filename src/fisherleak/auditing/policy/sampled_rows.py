"""The rows of a table that checks under a policy look at: all of them, or of many some."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fisherleak.rows import gather
from fisherleak.rows.selection import some_rows
from fisherleak.tables import Design

__all__ = ["SampledRows", "all_rows", "sampled_rows"]

MOST_ROWS, MOST_VALUES = 100_000, 2**24
"""Rows, and values in them, that are looked at, drawn by the operating system's randomness."""
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class SampledRows:
    """Features and labels of some training rows, and whose they are where rows belong to people."""

    X: Vector = field(repr=False)
    y: Vector = field(repr=False)
    whose: NDArray[np.int64] | None = field(repr=False)


def all_rows(design: Design) -> SampledRows | None:
    """Every row, where all are in memory."""
    if design.lazy:
        return None
    return SampledRows(design.X, design.y, None if design.people is None else design.people.of_row)


def sampled_rows(design: Design) -> SampledRows:
    most = min(MOST_ROWS, max(1, MOST_VALUES // int(design.X.shape[1])))
    rows = some_rows(design.n, most, None)  # who orders the rows must not know which
    X, y = gather([design.X, design.y], rows)
    return SampledRows(np.asarray(X), np.asarray(y), None if design.people is None else design.people.of_row[rows])
