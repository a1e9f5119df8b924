"""Columns that would be used, or would not, without one row, or the rows of one person: each is decided again with fewer.

Profiles are sums over rows, so those that may be left follow from the profile of all. Some that no row leaves are tried too:
what is named here might be decided otherwise, and what is not named would not be.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from fisherleak.tables.decide.cell_text import OTHER_NUMBERS
from fisherleak.tables.decide.choices import Choices, sort_of
from fisherleak.tables.decide.column_kinds import FEWEST_KEPT, Column, looks_like_id, use_of_texts
from fisherleak.tables.decide.profile import LONG, Numbers, Order, Profile
from fisherleak.tables.read.parts import RawTable

__all__ = ["Unsettled", "all_unsettled", "hardly_varying", "use_unsettled"]

Unsettled = Literal["reading", "use", "levels", "cells"]
"""What one row might decide of a column: what it is read as, whether it is used, how its categories are written, its cells."""
UNUSED = frozenset({"text", "date", "time", "timedelta"})
"""What a column of names may be read as and stays unused; which texts are used is decided with fewer rows apart from it."""

FRACTIONS = (0.25, 0.5, 0.75, 1.0)
"""Parts of one person's rows that are tried, beside one row."""


def all_unsettled(
    raw: RawTable,
    columns: Sequence[Column],
    profiles: Mapping[str, Profile],
    choices: Choices,
    readings: Mapping[str, frozenset[str]],
    one: int,
) -> dict[str, Unsettled]:
    """What so many rows might decide, by column; ``readings`` are those that columns might have without them."""
    unused = {
        column.name for column in columns if column.kind == "ignored" and sort_of(raw.kind(column.name)) == "text"
    }
    read = {name for name, others in readings.items() if not (name in unused and others <= UNUSED)}
    found: dict[str, Unsettled] = dict.fromkeys(use_unsettled(raw, columns, profiles, choices, one), "use")
    found |= dict.fromkeys(read, "reading")
    truths = {name for name, others in readings.items() if others == {"truth"}}  # a category all the same
    named = {*choices.categories, *choices.unite, *choices.declared, *truths}
    found |= dict.fromkeys(readings.keys() & named, "levels")
    others = {name for name, others in readings.items() if OTHER_NUMBERS in others}
    found |= dict.fromkeys(others | (readings.keys() & {*choices.numbers}), "cells")
    told: dict[str, Unsettled] = dict.fromkeys((*choices.categories, *choices.unite, choices.group), "levels")
    told |= dict.fromkeys(choices.numbers, "cells")  # of those that are named a release needs some cells
    hardly = {name for name, each in profiles.items() if each.rows - each.missing <= one}
    return found | {name: what for name, what in told.items() if name in hardly}


def use_unsettled(
    raw: RawTable, columns: Sequence[Column], profiles: Mapping[str, Profile], choices: Choices, one: int
) -> frozenset[str]:
    """The columns whose use nobody asked for, and might be another without so many rows.

    What has one value only is not counted: whether others are enough to be named is decided where features are made
    (``hardly_varying`` has those of which it decides which rows are left out).
    """
    found = set()
    for column in columns:
        sort, profile = sort_of(raw.kind(column.name)), profiles.get(column.name)
        if profile is None or not column.assumed or profile.missing == profile.rows:
            continue
        if sort == "number" and profile.numbers is not None:
            unsettled = _number_unsettled(column.name, profile, one)
        elif sort in ("text", "bool") and profile.counted is not None:
            if column.name in choices.declared:  # used whichever of them occur, if any does
                found |= {column.name} if profile.rows - profile.missing <= one else set()
                continue
            pooling = column.name != choices.group
            uses = {use_of_texts(each, pooling) for each in (profile, *_fewer_texts(profile, one))} - {"one value"}
            unsettled = len({use in ("pooled", "category") for use in uses}) > 1
        else:
            continue
        found |= {column.name} if unsettled else set()
    return frozenset(found)


def hardly_varying(columns: Sequence[Column], profiles: Mapping[str, Profile], one: int) -> frozenset[str]:
    """Categories that some rows lack, and that have one value only without so many rows: rows that lack it stay then."""
    found = {}
    for column in columns:
        profile = profiles.get(column.name)
        if column.kind == "category" and profile is not None and profile.missing and profile.counted:
            found[column.name] = sum(profile.counted.values()) - max(profile.counted.values())
    return frozenset(name for name, others in found.items() if others <= one)


def _number_unsettled(name: str, profile: Profile, one: int) -> bool:
    numbers = profile.numbers
    assert numbers is not None
    if not profile.called and not any(length >= LONG for length in numbers.lengths):
        return False
    now = bool(looks_like_id(name, profile))
    return any(bool(looks_like_id(name, each)) is not now for each in _fewer_numbers(profile, one))


def _fewer_texts(profile: Profile, rows: int) -> Iterator[Profile]:
    """Profiles of texts that lose cells of the rarest, of the most frequent, or of those that are just kept."""
    levels = profile.counted or {}
    ordered = sorted(levels, key=lambda level: levels[level])
    short = [level for level in ordered if levels[level] >= FEWEST_KEPT]
    for count in _counts(profile, rows):
        for some, least in ((ordered, 0), (ordered[::-1], 0), (short, FEWEST_KEPT - 1)):
            yield replace(profile, rows=profile.rows - count, counted=_without(levels, some, least, count))


def _counts(profile: Profile, rows: int) -> list[int]:
    """How many cells are gone: some of a person's rows may have other ones."""
    return sorted({1, *(min(math.ceil(part * rows), profile.rows - 1) for part in FRACTIONS)})


def _without(levels: Mapping[Any, int], some: Collection[Any], least: int, count: int) -> dict[Any, int]:
    """Levels that lose so many cells, one after the other, each until so few are left."""
    left = dict(levels)
    for level in some:
        taken = min(count, left[level] - least)
        left[level] -= taken
        count -= taken
        if not count:
            break
    return {level: cells for level, cells in left.items() if cells}


def _fewer_numbers(profile: Profile, rows: int) -> Iterator[Profile]:
    assert profile.numbers is not None
    for count in _counts(profile, rows):
        sketches, orders = [*_sketches(profile.followed, count)], [*_orders(profile.order, count)]
        for numbers, followed, order in itertools.product(_numbers(profile.numbers, count), sketches, orders):
            yield replace(profile, rows=profile.rows - count, numbers=numbers, followed=followed, order=order)


def _numbers(numbers: Numbers, count: int) -> Iterator[Numbers]:
    """Without fractions, without whole numbers of each length, and without the least and the largest."""
    left = numbers.count - count
    yield numbers
    yield replace(numbers, count=left, fractions=max(0, numbers.fractions - count))
    for length, own in numbers.lengths.items():
        others = {each: cells for each, cells in numbers.lengths.items() if each != length}
        yield replace(numbers, count=left, lengths=others | ({length: own - count} if own > count else {}))
    lows, highs = numbers.ends
    for low in range(count + 1):
        if max(low, count - low) < len(lows):
            yield replace(numbers, count=left, low=lows[low], high=highs[low - count - 1])


def _sketches(followed: Mapping[int, int], count: int) -> Iterator[dict[int, int]]:
    """As they are, with others that no row has, without values of one row, and with fewer values that repeat."""
    yield dict(followed)
    yield {**followed, **dict.fromkeys(range(2**64, 2**64 + count), 1)}
    single = [key for key, own in followed.items() if own == 1]
    for some in (single[:count], single[-count:]):
        gone = {*some}
        yield {key: own for key, own in followed.items() if key not in gone}
    repeated, left = dict(followed), count
    for key in sorted((key for key, own in followed.items() if own > 1), key=lambda key: followed[key]):
        left -= followed[key] - 1
        if left < 0:
            break
        repeated[key] = 1
    yield repeated


def _orders(order: Order | None, count: int) -> Iterator[Order | None]:
    """Each row that is gone joins two others: at most two steps less, or one more that is none of one."""
    if order is None:
        yield None
        return
    for runs, breaks in itertools.product((0, -2 * count), (-2 * count, 0, count)):
        yield replace(order, runs=max(1, order.runs + runs), breaks=max(0, order.breaks + breaks))
