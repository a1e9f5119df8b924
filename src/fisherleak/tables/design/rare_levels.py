"""What would rest on a few people alone where a model is released: levels, types of levels, columns that only they vary in.

Counts are of people where rows belong to people, of training rows else. A release names a level that ``rare`` of them share;
what fewer have must not show in its parts either: in a level for the rest, in the type of the levels that stay, or in a column
that is there for their sake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.level_types import as_number, numeric_levels, plain_level
from fisherleak.errors import InvalidInputError
from fisherleak.tables.decide.profile import Profile
from fisherleak.tables.design.split import Complete, Split
from fisherleak.tables.read.arrow_columns import as_numbers
from fisherleak.tables.read.cell_formats import is_plain_number
from fisherleak.tables.read.parts import Part, RawTable, over_parts

__all__ = ["Who", "check_types", "levels_leaving", "levels_stay", "sharing", "thin_columns", "whole_levels"]

Who = Mapping[Any, frozenset[int]]
"""People by the level that they have."""


def whole_levels(levels: Collection[Any]) -> tuple[Any, ...]:
    """Levels that stay, sorted, whole numbers as such however their column stored them; texts of numbers in their order."""
    order = plain_level if numeric_levels(levels) is None else as_number
    return tuple(sorted((plain_level(level) for level in levels), key=order))


def sharing(levels: Collection[Any], counts: Counter[Any], who: Who | None) -> int:
    """How many rows, or different people where these are known, have one of some levels."""
    if who is None:
        return sum(counts[level] for level in levels)
    return len({person for level in levels for person in who.get(level, ())})


def levels_stay(counts: Counter[Any], declared: Collection[Any], who: Who | None, fewest: int) -> bool:
    """Whether one more, or one less, with any value leaves it as it is which levels ``fewest`` share, and whether others do."""
    own = {level: count for level, count in counts.items() if level not in declared}
    rare = {level for level, count in own.items() if count < fewest}
    edge = (fewest - 1, fewest)
    return sharing(rare, counts, who) not in edge and not any(count in edge for count in own.values())


def levels_leaving(counts: Counter[Any], declared: Collection[Any], who: Who | None, fewest: int) -> set[Any]:
    """Levels of which one row, or person, less changes which levels ``fewest`` share, or whether others together do."""
    own = {level: count for level, count in counts.items() if level not in declared}
    rare = {level for level, count in own.items() if count < fewest}
    return {level for level, count in own.items() if count == fewest} | (
        rare if sharing(rare, counts, who) == fewest else set()
    )


def check_types(name: str, kept: Collection[Any], counts: Counter[Any]) -> None:
    """Refuse a category that is text for the sake of cells that are too rare to be named: all others are numbers."""
    if not kept or not all(isinstance(level, str) and is_plain_number(level) for level in kept):
        return
    if all(is_plain_number(str(level)) for level in counts):
        return
    raise InvalidInputError(
        f"Column '{name}' holds numbers but for texts that too few rows have to be named in a release, and that it is text at "
        "all tells of them: mend these cells, or name what stands for a missing value with `na`."
    )


def thin_columns(
    raw: RawTable,
    complete: Complete,
    split: Split,
    profiles: Mapping[str, Profile],
    rare: int,
    of_row: NDArray[np.int64] | None,
    lazily: bool,
) -> dict[str, str]:
    """Columns of numbers that fewer than ``rare`` training rows, or people, have another value of than all others; and why.

    ``of_row`` says whose every row of the table is, where rows belong to people.
    """
    names = [column.name for column in complete.used if _few_values(profiles[column.name]) and column.kind == "number"]
    if not names or not rare:
        return {}

    def of_part(part: Part) -> list[dict[float, tuple[int, frozenset[int]]]]:
        table = complete.read(part)
        _, whole, _ = complete.rows(table)
        train = whole[~split.held(part.start + whole)]
        return [_who_has(as_numbers(table.column(name))[train], part.start + train, rare, of_row) for name in names]

    def merge(a: Any, b: Any) -> Any:
        return [_both(one, other, rare) for one, other in zip(a, b, strict=True)]

    found = over_parts(of_part, raw.parts, merge, lazily)
    why = f"has one value in all but fewer than {rare} {'training rows' if of_row is None else 'people'}"
    return {name: why for name, counts in zip(names, found, strict=True) if _is_thin(counts, rare)}


def _few_values(profile: Profile) -> bool:
    return profile.numbers is not None and profile.numbers.few is not None


def _who_has(
    values: NDArray[np.float64], rows: NDArray[np.int64], rare: int, of_row: NDArray[np.int64] | None
) -> dict[float, tuple[int, frozenset[int]]]:
    """For each value the number of rows, and some of those who have it: ``rare`` of them are enough."""
    found = {}
    for value in np.unique(values[np.isfinite(values)]).tolist():
        own = rows[values == value]
        people = own if of_row is None else np.unique(of_row[own])
        found[value] = (int(own.size), frozenset(people[:rare].tolist()))
    return found


def _both(a: Any, b: Any, rare: int) -> dict[float, tuple[int, frozenset[int]]]:
    nothing: tuple[int, frozenset[int]] = (0, frozenset())
    joined = {}
    for value in a.keys() | b.keys():
        (m, one), (n, other) = a.get(value, nothing), b.get(value, nothing)
        joined[value] = (m + n, frozenset(sorted(one | other)[:rare]))
    return joined


def _is_thin(counts: Mapping[float, tuple[int, frozenset[int]]], rare: int) -> bool:
    common = max(counts, key=lambda value: (counts[value][0], value), default=None)
    others = {person for value, (_, people) in counts.items() if value != common for person in people}
    return len(counts) > 1 and len(others) < rare
