"""Rows that are recognised by what a release names: without one of them it would have other categories, columns or classes.

A release names categories and classes that ``FEWEST_ROWS`` rows share, and has a column, or a feature that tells who lacks one,
where enough rows are behind it. Noise hides none of that. So who is one of just enough is told for certain. Kinds of columns
and the number of rows are taken as public.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.grids import GAP
from fisherleak._support.namespaces import TableLike
from fisherleak.releasing.cards.enough_people import FEWEST_IN_ALL, FEWEST_ROWS, sharing_classes
from fisherleak.rows import map_rows, sum_rows
from fisherleak.tables import Design, Feature
from fisherleak.tables.design.gaps import Gaps, has_feature

__all__ = ["off_common", "told_by_names"]

MOST_SAID = 3
"""Columns that sentences are about."""
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Naming:
    """Something that a release has only as long as all of some rows are there."""

    rows: Callable[[Any, Any], Mask]
    """Which of a block of features and labels these are."""
    without: str
    """What is so without one of them, and the remedy."""


def told_by_names(design: Design) -> tuple[Any, str]:
    """Infinite for every row, or person, without whom a release would name other things, zero for others; and sentences.

    None and nothing where there are no such rows.
    """
    found, people = [*_namings(design)], design.people
    if not found:
        return None, ""
    total, who = (design.n, "rows") if people is None else (people.count, "people")

    def block(X: TableLike, y: TableLike) -> NDArray[np.float64]:
        masks = [naming.rows(np.asarray(X), np.asarray(y)) for naming in found]
        return np.where(np.any(masks, axis=0), np.inf, 0.0)

    said = [
        f"{_count(design, naming):,} of {total:,} {who} can be recognised with certainty: {naming.without}"
        for naming in found[:MOST_SAID]
    ]
    more = len(found) - MOST_SAID
    said += [f"The same holds for {more} more column{'s' * (more > 1)}."] if more > 0 else []
    told = map_rows(block, design.X, design.y)
    if people is not None:
        told = np.where(np.bincount(people.of_row, np.isinf(told), people.count) > 0, np.inf, 0.0)
    return told, " ".join(said)


def _count(design: Design, naming: Naming) -> int:
    if design.people is not None:
        own = naming.rows(np.asarray(design.X), np.asarray(design.y))
        return int(np.unique(design.people.of_row[own]).size)
    (count,) = sum_rows(lambda X, y: (naming.rows(np.asarray(X), np.asarray(y)).sum(),), design.X, design.y)
    return int(count)


def _namings(design: Design) -> Iterator[Naming]:
    numbers = [feature for feature in design.features if feature.kind == "number"]
    yield from (_levels(feature) for feature in design.features if feature.leaving)
    for feature in numbers:
        yield from _gaps(design, feature)
    few = [feature for feature in numbers if feature.few]
    for feature, (common, count) in zip(few, off_common(design, few), strict=True):
        if count == FEWEST_ROWS:
            yield _thin(feature, common)
    rare = [k for k, count in enumerate(sharing_classes(design)) if count == FEWEST_ROWS]
    if rare:
        without = (
            f"without one of them a class of the target '{design.target.name}' has too few for a release. Unite it with "
            "another class in the table, or leave its rows out."
        )
        yield Naming(lambda _, y: np.isin(y, rare), without)


def _levels(feature: Feature) -> Naming:
    columns, leaving = list(feature.columns), feature.leaving

    def rows(X: Any, _: Any) -> Mask:
        block = X[:, columns]
        place = np.where(block.max(axis=1) == 1.0, block.argmax(axis=1) + 1, 0)
        return np.asarray(np.isin(place, leaving) & (block[:, 0] != GAP))

    return Naming(
        rows,
        f"without one of them a release would name other categories of '{feature.name}'. Declare all of them with `levels`, "
        "'(missing)' too where some are missing.",
    )


def _gaps(design: Design, feature: Feature) -> Iterator[Naming]:
    """Of a number: who lacks it, or has it, where one less adds or removes the feature that tells so, or the release."""
    gaps, (place,) = feature.gaps, feature.columns

    def changes(lacking: int, having: int) -> bool:
        left = Gaps(gaps.rows, gaps.lacking - lacking, gaps.having - having)
        few = left.having < FEWEST_IN_ALL <= gaps.having
        return has_feature(left) != has_feature(gaps) or (few and left.lacking > 0)

    both = design.people is not None and changes(1, 1)  # someone with rows of either sort
    lacks, has = changes(1, 0) or both, changes(0, 1) or both
    if gaps.rows and (lacks or has):
        yield Naming(
            lambda X, _: np.where(X[:, place] == GAP, lacks, has),
            f"without one of them a release would have another set of features for '{feature.name}', whose values some lack. "
            f"Leave such rows out with `missing='drop'`, or the column with `drop={[feature.name]!r}`.",
        )


def _thin(feature: Feature, common: float) -> Naming:
    (place,) = feature.columns
    return Naming(
        lambda X, _: (X[:, place] != common) & (X[:, place] != GAP),
        f"without one of them a release would leave '{feature.name}' out. Leave it out with `drop={[feature.name]!r}`.",
    )


def off_common(design: Design, features: Sequence[Feature]) -> list[tuple[float, int]]:
    """Of numbers of few values, in one pass: the most common, as it is in X, and how many rows, or people, have another."""
    if not features:
        return []

    def block(X: TableLike) -> tuple[Any, ...]:
        found = (np.unique(np.asarray(X)[:, feature.columns[0]], return_counts=True) for feature in features)
        return tuple(Counter(dict(zip(*map(np.ndarray.tolist, each), strict=True))) for each in found)

    every = sum_rows(block, design.X, join=lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True)))
    return [_others(design, feature, counts) for feature, counts in zip(features, every, strict=True)]


def _others(design: Design, feature: Feature, counts: Counter[float]) -> tuple[float, int]:
    counts.pop(GAP, None)
    common, most = max(counts.items(), key=lambda each: (each[1], each[0]))
    if design.people is None:
        return common, sum(counts.values()) - most
    values = np.asarray(design.X)[:, feature.columns[0]]
    return common, int(np.unique(design.people.of_row[(values != common) & (values != GAP)]).size)
