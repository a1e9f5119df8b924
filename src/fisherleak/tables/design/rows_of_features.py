"""Rows of features: from parts of a table into memory, or as lazy arrays with a block for each part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.grids import GAP
from fisherleak._support.namespaces import TableLike
from fisherleak.rows import persisted, rows_of
from fisherleak.tables.design.features import Facts, Feature
from fisherleak.tables.design.split import Complete, Groups, Split, gaps_in
from fisherleak.tables.read.arrow_columns import as_numbers, as_text
from fisherleak.tables.read.parts import Part, RawTable, Room, each_part, over_parts

__all__ = ["FeatureMaker", "FilledRows", "lazy_rows", "rows_in_memory"]

ROOM_THERE = 2.5
"""Times the features' size that the memory of a cluster must have for them to stay there."""
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class FeatureMaker:
    """From a part of the table to its rows of features. Small, so that it can travel to where the parts are."""

    complete: Complete
    split: Split
    features: tuple[Feature, ...]
    id: str | None
    groups: Groups | None

    @property
    def width(self) -> int:
        return self.features[-1].columns[-1] + 1

    def training(self, part: Part, table: TableLike, X: Vector) -> tuple[Any, ...]:
        """y, row numbers from 1, identifiers and groups of a part's training rows; their features go into X."""
        labels, whole, held = self._rows(part, table)
        train = whole[~held]
        ids = None if self.id is None else as_text(table.column(self.id).take(train))
        groups = None if self.groups is None else self.groups.of(table.column(self.groups.name))[train]
        self._fill(table, train, X)
        return self._standard(labels[train]), part.start + train + 1, ids, groups

    def tested(self, part: Part, table: TableLike, chosen: NDArray[np.int64]) -> tuple[Vector, Vector, int]:
        """Features and labels of some of a part's held-out rows, and how many of all have a category that is new."""
        labels, whole, held = self._rows(part, table)
        test = whole[held]
        unseen = np.zeros(test.size, dtype=bool)
        for feature in self.features:
            if feature.kind == "category" and feature.of is None:
                values = table.column(feature.name)
                unseen |= (feature.places(values) < 0)[test] & ~gaps_in("category", values)[test]
        test = test[chosen[~unseen[chosen]]]
        X = np.empty((test.size, self.width))
        self._fill(table, test, X)
        return X, self._standard(labels[test]), int(unseen.sum())

    def _rows(self, part: Part, table: TableLike) -> tuple[Vector, NDArray[np.int64], NDArray[np.bool_]]:
        labels, whole, _ = self.complete.rows(table)
        return labels, whole, self.split.held(part.start + whole)

    def _standard(self, labels: Vector) -> Vector:
        target = self.complete.target
        return (labels - target.centre) / target.scale

    def _fill(self, table: TableLike, rows: NDArray[np.int64], X: Vector) -> None:
        for feature in self.features:
            values = table.column(feature.name if feature.of is None else feature.of)
            if feature.of is not None:
                X[:, feature.columns[0]] = gaps_in("number", values)[rows]
                continue
            if feature.kind == "number":
                z = (as_numbers(values)[rows] - feature.centre) / feature.scale
                X[:, feature.columns[0]] = np.where(np.isnan(z), GAP, np.where(z == GAP, 0.0, z))
                continue
            place = feature.places(values)[rows]
            missing = gaps_in("category", values)[rows] & (not feature.open)
            for k, j in enumerate(feature.columns, start=1):
                X[:, j] = np.where(missing, GAP, place == k)


@dataclass(frozen=True)
class FilledRows:
    """Training rows, here or lazy, and held-out rows."""

    X: Any
    y: Any
    rows: Any
    ids: Any
    groups: Any
    X_test: Vector
    y_test: Vector
    unseen: int


def _chosen(facts: Facts, sample: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The places of the sampled held-out rows among those of each part."""
    edges = np.cumsum([0, *facts.tested])
    cuts = np.searchsorted(sample, edges)
    return [sample[cuts[k] : cuts[k + 1]] - edges[k] for k in range(len(facts.tested))]


def rows_in_memory(raw: RawTable, maker: FeatureMaker, facts: Facts, sample: NDArray[np.int64]) -> FilledRows:
    """All rows in memory, part by part."""
    n = facts.label.count
    X, y, rows = np.empty((n, maker.width)), np.empty(n), np.empty(n, dtype=np.int64)
    ids = None if maker.id is None else np.empty(n, dtype=object)
    groups = None if maker.groups is None else np.empty(n, dtype=np.int32)
    test: list[tuple[Vector, Vector, int]] = []
    at = 0
    plan = list(zip(facts.sizes, _chosen(facts, sample), strict=True))
    for part, (size, chosen) in zip(each_part(raw, "Making features"), plan, strict=True):
        table = maker.complete.read(part)
        here = slice(at, at + size)
        blocks = maker.training(part, table, X[here])
        for whole, block in zip((y, rows, ids, groups), blocks, strict=True):
            if whole is not None:
                whole[here] = block
        test.append(maker.tested(part, table, chosen))
        at = here.stop
    return FilledRows(X, y, rows, ids, groups, *_joined(test))


def _joined(test: Sequence[tuple[Vector, Vector, int]]) -> tuple[Vector, Vector, int]:
    return (
        np.concatenate([X for X, _, _ in test]),
        np.concatenate([y for _, y, _ in test]),
        sum(unseen for _, _, unseen in test),
    )


def lazy_rows(
    raw: RawTable, maker: FeatureMaker, facts: Facts, sample: NDArray[np.int64], room: Room | None
) -> FilledRows:
    """Training rows as lazy arrays with a block for each part; the sample of held-out rows in memory."""
    pairs = list(zip(raw.parts, _chosen(facts, sample), strict=True))
    read = maker.complete.read
    test = over_parts(lambda pair: [maker.tested(pair[0], read(pair[0]), pair[1])], pairs, lambda a, b: a + b, True)
    some = [(part, size) for part, size in zip(raw.parts, facts.sizes, strict=True) if size]
    kinds = [np.empty((0, maker.width)), np.empty(0), np.empty(0, dtype=np.int64)]
    with_id, with_groups = maker.id is not None, maker.groups is not None
    kinds += [np.empty(0, dtype=object)] * with_id + [np.empty(0, dtype=np.int32)] * with_groups

    def make(pair: tuple[Part, int]) -> tuple[Any, ...]:
        part, size = pair
        X = np.empty((size, maker.width))
        return tuple(block for block in (X, *maker.training(part, read(part), X)) if block is not None)

    arrays = rows_of(make, some, [size for _, size in some], kinds)
    if room is not None and room.cluster and ROOM_THERE * 8 * facts.label.count * maker.width < room.there:
        arrays = persisted(*arrays)
    X, y, rows, *others = arrays
    ids = others[0] if with_id else None
    groups = others[-1] if with_groups else None
    return FilledRows(X, y, rows, ids, groups, *_joined(test))
