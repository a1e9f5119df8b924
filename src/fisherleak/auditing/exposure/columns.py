"""What is exposed of columns and of the label, in their own units: figures of every cell, over rows or over people.

Everything here is at noise of scale 1 in standard units, but for figures, which are in the column's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.namespaces import Sums, TableLike, Vector, VectorLike
from fisherleak.auditing.exposure.revealed import Yardsticks
from fisherleak.leakage.measurement import measurement
from fisherleak.rows import gather, map_rows, positions, sum_rows
from fisherleak.tables import Design, Feature
from fisherleak.training.people import column_etas, joint_etas, rows_by_person
from fisherleak.training.trained_model import BLOCK_VALUES, MeasuredRows, Trained


@dataclass(frozen=True)
class Sample:
    """Some rows in memory: all of them where they are few."""

    rows: NDArray[np.int64] = field(repr=False)
    block: MeasuredRows = field(repr=False)
    known: Vector | None = field(default=None, repr=False)
    """Their etas, where these have been computed."""

    @cached_property
    def eta(self) -> Vector:
        return self.block.etas() if self.known is None else self.known

    @cached_property
    def cells(self) -> Vector:
        """Eta of every column of every row, and of its label behind them, (rows, p + 1); NaN where it is missing."""
        some = self.block
        most = max(1, BLOCK_VALUES // int(some.X.shape[1]))

        def of_rows(X: TableLike, y: VectorLike, weights: VectorLike) -> Any:
            return _with_label(replace(some, X=X, y=y, weights=weights))

        return np.asarray(map_rows(of_rows, some.X, some.y, some.weights, most=most))

    def is_all(self, design: Design) -> bool:
        """Whether it has all training rows, so that nothing needs another pass."""
        return not design.lazy and self.rows.size == design.n


@dataclass(frozen=True)
class RmsFigures:
    """Largest, 95 % quantile and median of a column's root mean squares of eta, in its own unit, and the row of the largest.

    NaN where there are none: of categories.
    """

    largest: float = np.nan
    high: float = np.nan
    median: float = np.nan
    worst: int = 0


@dataclass(frozen=True)
class ColumnFigures:
    """Eta of one column, in its own unit: over all rows jointly, and of each row's value."""

    feature: Feature
    joint: float
    largest: float
    mean: float
    median: float
    worst: int
    high: float
    """The quantile 0.95 of a sample of rows."""
    counts: tuple[int, ...]
    """Rows above each limit of the yardsticks."""
    rms: RmsFigures
    """Of the root mean square of eta over what is believed of each value, which shares revealed follow from."""


@dataclass(frozen=True)
class LabelFigures:
    """Eta of each row's label alone, in its own unit, as in :class:`ColumnFigures`."""

    feature: ClassVar[None] = None
    largest: float
    mean: float
    median: float
    worst: int
    high: float
    counts: tuple[int, ...]
    rms: RmsFigures


def column_figures(
    trained: Trained, sample: Sample, sticks: Yardsticks, rms: Any
) -> tuple[tuple[ColumnFigures, ...], LabelFigures, int]:
    """Figures of every column and of the label, and rows of which more than half of a number is revealed.

    One pass over the cells of all rows, and two for all rows jointly. ``rms`` is that of ``revealed.rms_of_values``.
    """
    design, known = trained.design, trained.known_of_rows
    units = np.array([*(feature.scale for feature in design.features), design.target.unit])
    joint = np.asarray(trained.leak.per_attribute()) / units[:-1]

    def block(X: TableLike, y: VectorLike, weights: VectorLike, rows: Any, rms: Any) -> Sums:
        return of_cells(_with_label(known(X, y, weights)), rows, rms)

    def of_cells(cells: Vector, rows: Any, rms: Any) -> Sums:
        missing = np.isnan(cells)
        total, count = np.where(missing, 0.0, cells).sum(axis=0), (~missing).sum(axis=0)
        own = np.full_like(cells, np.nan) if rms is None else np.asarray(rms)
        return *_tops(cells, rows), *_tops(own, rows), total, count, *sticks.count(cells, own)

    def join(a: Sums, b: Sums) -> Sums:
        sums = (x + y for x, y in zip(a[4:], b[4:], strict=True))
        return *_later(a[:2], b[:2]), *_later(a[2:4], b[2:4]), *sums

    if design.people is not None:
        joint = joint_etas(trained, np.zeros(design.n, dtype=np.int64), 1)[1] / units[:-1]
        return _figures_of_people(trained, joint, units, sticks, rms)
    sums = (
        of_cells(sample.cells, np.arange(design.n), rms)
        if sample.is_all(design)
        else sum_rows(block, *trained.arrays, positions(design.X), rms, most=trained.block, join=join)
    )
    largest, worst, top, whose, total, count, above, people = sums
    middle, high = quantiles_there(sample.cells) / units
    means = _rms_figures(top, whose, gather([rms], None if sample.is_all(design) else sample.rows)[0], units)
    figures = [
        LabelFigures(
            largest=float(largest[j] / units[j]),
            mean=float(total[j] / count[j] / units[j]),
            median=float(middle[j]),
            worst=int(worst[j]),
            high=float(high[j]),
            counts=tuple(int(count) for count in above[:, j]),
            rms=means[j],
        )
        for j in range(units.size)
    ]
    columns = (ColumnFigures(f, float(joint[j]), **vars(figures[j])) for j, f in enumerate(design.features))
    return tuple(columns), figures[-1], int(people)


def _tops(cells: Vector, rows: Any) -> tuple[Vector, Any]:
    """The largest of each column, and its row; a cell that is missing has no eta, and is nobody's largest."""
    there = np.where(np.isnan(cells), -1.0, cells)
    top = there.argmax(axis=0)
    return there[top, np.arange(cells.shape[1])], rows[top]


def _later(a: Sums, b: Sums) -> Sums:
    later = b[0] > a[0]
    return np.where(later, b[0], a[0]), np.where(later, b[1], a[1])


def _rms_figures(top: Vector, worst: Any, some: Any, units: Vector) -> list[RmsFigures]:
    """Of each column, from its largest and from the rows of a sample; NaN where it has none."""
    if some is None:
        return [RmsFigures()] * units.size
    middle, high = quantiles_there(np.asarray(some)) / units
    return [
        RmsFigures(float(top[j] / units[j]), float(high[j]), float(middle[j]), int(worst[j]))
        if top[j] >= 0
        else RmsFigures()
        for j in range(units.size)
    ]


def largest_of_columns(trained: Trained, sample: Sample, rms: Any) -> tuple[Vector, Vector]:
    """The largest root mean square and the largest eta of each column and of the label, (p + 1,), at noise of scale 1.

    NaN, or zero, where there is none.
    """
    design, known = trained.design, trained.known_of_rows
    count = len(design.features) + 1

    def of_cells(cells: Vector, rms: Any) -> Sums:
        own = np.full_like(cells, np.nan) if rms is None else np.asarray(rms)
        return tuple(np.max(each, axis=0, initial=0.0, where=~np.isnan(each)) for each in (own, cells))

    def block(X: TableLike, y: VectorLike, weights: VectorLike, rms: Any) -> Sums:
        return of_cells(_with_label(known(X, y, weights)), rms)

    def join(a: Sums, b: Sums) -> Sums:
        return tuple(np.maximum(x, y) for x, y in zip(a, b, strict=True))

    if design.people is not None:
        found = of_cells(column_etas(trained, rows_by_person(design.people)), rms)
    elif sample.is_all(design):
        found = of_cells(sample.cells, rms)
    else:
        found = sum_rows(block, *trained.arrays, rms, most=trained.block, join=join)
    certain = 1.0 + measurement(trained.leak).information.error
    return np.asarray(found[0]).reshape(count) * certain, np.asarray(found[1]).reshape(count) * certain


def _figures_of_people(
    trained: Trained, joint: Vector, units: Vector, sticks: Yardsticks, rms: Any
) -> tuple[tuple[ColumnFigures, ...], LabelFigures, int]:
    """The same over the values that each person's rows have in a column, and over their labels, taken jointly."""
    design = trained.design
    assert design.people is not None
    cells = column_etas(trained, rows_by_person(design.people))
    own = np.full_like(cells, np.nan) if rms is None else np.asarray(rms)[np.concatenate(rows_by_person(design.people))]
    above, people = sticks.count(cells, own)
    middle, high = quantiles_there(cells) / units
    means = _rms_figures(*_tops(own, np.arange(len(own))), None if rms is None else own, units)
    figures = [
        LabelFigures(
            largest=float(np.nanmax(cells[:, j]) / units[j]),
            mean=float(np.nanmean(cells[:, j]) / units[j]),
            median=float(middle[j]),
            worst=int(np.nanargmax(cells[:, j])),
            high=float(high[j]),
            counts=tuple(int(count) for count in above[:, j]),
            rms=means[j],
        )
        for j in range(units.size)
    ]
    columns = (ColumnFigures(f, float(joint[j]), **vars(figures[j])) for j, f in enumerate(design.features))
    return tuple(columns), figures[-1], people


def _with_label(some: MeasuredRows) -> Vector:
    """Eta of every column of every row, and of its label behind them, (b, p + 1)."""
    leak = some.leak
    return np.column_stack([some.cells(), np.asarray(leak.per_label())])


def quantiles_there(cells: Vector) -> Vector:
    """Medians and 95 % quantiles of the cells of each column that are there, (2, columns); zero where none is."""
    found = np.zeros((2, cells.shape[1]))
    gaps = np.isnan(cells)
    whole = ~gaps.any(axis=0)
    found[:, whole] = np.quantile(cells[:, whole], [0.5, 0.95], axis=0)
    for j in np.flatnonzero(~whole & ~gaps.all(axis=0)):
        found[:, j] = np.quantile(cells[~gaps[:, j], j], [0.5, 0.95])
    return found
