"""Who and what is exposed: eta of groups of rows, and of columns in their own units."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fisherleak._progress import track
from fisherleak._rows import rows_by_group
from fisherleak.errors import NotConvergedError
from fisherleak.tables import Feature
from fisherleak.training import Trained, some_rows

__all__ = ["ColumnFigures", "GroupFigures", "column_figures", "finite", "grouped", "own_units"]

Vector = NDArray[np.float64]
MEDIAN_ROWS = 100_000
"""Rows from which the median of each column's eta is taken at most."""


@dataclass(frozen=True)
class ColumnFigures:
    """Eta of one column, in its own unit: over all rows jointly, and of each row's value."""

    feature: Feature
    joint: float
    largest: float
    mean: float
    median: float
    worst: int


@dataclass(frozen=True)
class GroupFigures:
    name: str
    count: int
    joint: float
    etas: Vector = field(repr=False)


def grouped(trained: Trained, plain: Vector, scale: float) -> tuple[str | None, tuple[GroupFigures, ...]]:
    """By the column that was asked for, by class, or not at all."""
    design = trained.design
    labels, by = design.groups, "group"
    if labels is None and design.target.classes:
        names = np.array([str(name) for name in design.target.classes], dtype=object)
        labels, by = names[design.y.astype(np.int64)], "class"
    if labels is None:
        return None, ()
    members = rows_by_group(labels, design.n)
    figures = [
        GroupFigures(str(name), rows.size, trained.leak.of(rows) / scale, plain[rows] / scale)
        for name, rows in track(members.items(), len(members), "Measuring groups")
    ]
    return by, tuple(figures)


def column_figures(trained: Trained, scale: float, seed: int) -> tuple[ColumnFigures, ...]:
    """Figures of every column, from one pass over its cells."""
    design = trained.design
    width, n = len(design.features), design.n
    joint = np.asarray(trained.leak.per_attribute()) / scale
    largest, total, worst = np.full(width, -1.0), np.zeros(width), np.zeros(width, dtype=np.int64)
    chosen = some_rows(n, MEDIAN_ROWS, seed)
    sample = np.empty((chosen.size, width), dtype=np.float32 if n > MEDIAN_ROWS else np.float64)
    for part, cells in trained.cells("Measuring columns"):
        top = cells.argmax(axis=0)
        high = cells[top, np.arange(width)]
        worst = np.where(high > largest, top + part.start, worst)
        largest = np.maximum(largest, high)
        total += cells.sum(axis=0)
        inside = (chosen >= part.start) & (chosen < part.stop)
        sample[inside] = cells[chosen[inside] - part.start]
    middle = np.median(sample, axis=0)
    return tuple(
        ColumnFigures(
            feature=feature,
            joint=float(joint[j] / feature.scale),
            largest=float(largest[j] / scale),
            mean=float(total[j] / n / scale),
            median=float(middle[j] / scale),
            worst=int(worst[j]),
        )
        for j, feature in enumerate(design.features)
    )


def own_units(trained: Trained, cells: Vector) -> Vector:
    """Cells in standard units, turned into those of their columns."""
    return np.asarray(cells / np.array([feature.scale for feature in trained.design.features]))


def finite(eta: Vector) -> Vector:
    """The same, or a refusal where numbers overflow."""
    if not np.isfinite(eta).all():
        raise NotConvergedError("The figures overflow: bring the columns to ordinary units, or use a larger --l2.")
    return eta
