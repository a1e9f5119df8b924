"""What would rest on a few people alone where a model is released: levels, types of levels, columns that only they vary in.

Counts are of people where rows belong to people, of training rows else. A release names a level that ``rare`` of them share;
what fewer have must not show in its parts either: in a level for the rest, in the type of the levels that stay, or in a column
that is there for their sake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.level_types import as_number, numeric_levels, plain_level
from fisherleak.errors import InvalidInputError
from fisherleak.tables.decide.profile import FEW_VALUES
from fisherleak.tables.read.cell_formats import is_plain_number

__all__ = ["ValueCounter", "ValuesOf", "Who", "check_types", "levels_leaving", "levels_stay", "sharing", "whole_levels"]

Who = Mapping[Any, frozenset[int]]
"""People by the level that they have."""
ValuesOf = Mapping[float, tuple[int, frozenset[int]]]
"""By each value of a number how many rows have it, and some of those who do."""
SOME = 1_000
"""Values of a column among which many different ones are noticed at once."""


def whole_levels(levels: Collection[Any]) -> tuple[Any, ...]:
    """Levels that stay, sorted, whole numbers as such however their column stored them; texts of numbers in their order.

    True and false are 1 and 0 where one of them was declared so.
    """
    order = plain_level if numeric_levels(levels) is None else as_number
    plain = sorted((plain_level(level) for level in levels), key=order)
    truths = all(isinstance(level, bool) for level in plain)
    return tuple(level if truths or not isinstance(level, bool) else int(level) for level in plain)


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
    """Refuse a category that is text for the sake of cells that are too rare to be named: all others are numbers or truths."""
    if not all(isinstance(level, str) for level in kept):
        return
    kinds: tuple[Callable[[str], bool], ...] = (
        lambda level: level.isascii() and is_plain_number(level),
        lambda level: not isinstance(as_number(level), str),  # 05 among 10, 20, … makes codes of them
        lambda level: level.casefold() in ("true", "false"),
    )
    if not any(all(map(of, kept)) and not all(of(str(level)) for level in counts) for of in kinds if kept):
        return
    raise InvalidInputError(
        f"Column '{name}' holds numbers, and text in too few rows. A release would show that the column holds text, which "
        "reveals these rows: mend these cells, or name what stands for a missing value with `na`."
    )


@dataclass(frozen=True)
class ValueCounter:
    """Counts who has each value of a number, as long as it has few different ones in the training rows.

    Rows that are held out, or that no model is trained on, decide nothing here: neither whether a column has few values, nor
    whether so few vary in it that a release leaves it out.

    Parameters
    ----------
    rare : int
        How many rows, or people, are enough.
    of_row : array, optional
        Whose every row of the table is, where rows belong to people.
    """

    rare: int
    of_row: NDArray[np.int64] | None = None

    @cached_property
    def most(self) -> int:
        """Values beyond which nothing is counted: a column has neither few of them, nor do too few people vary in it."""
        if self.of_row is None or not self.of_row.size:
            return max(FEW_VALUES, self.rare)
        # all rows of rare - 1 people, each with a value of its own, and one that all others have
        return max(FEW_VALUES, 1 + (self.rare - 1) * int(np.unique(self.of_row, return_counts=True)[1].max()))

    def of(self, values: NDArray[np.float64], rows: NDArray[np.int64]) -> ValuesOf | None:
        """For each value the number of rows, and some of those who have it: ``rare`` of them; None where there are many."""
        there = np.isfinite(values)
        values, rows, most = values[there], rows[there], self.most
        if any(np.unique(part).size > most for part in (values[:SOME], values)):
            return None
        found = {}
        for value in np.unique(values).tolist():
            own = rows[values == value]
            people = own if self.of_row is None else np.unique(self.of_row[own])
            found[value] = (int(own.size), frozenset(people[: self.rare].tolist()))
        return found

    def both(self, a: ValuesOf | None, b: ValuesOf | None) -> ValuesOf | None:
        """Of two parts of a table."""
        if a is None or b is None or len(a.keys() | b.keys()) > self.most:
            return None
        nothing: tuple[int, frozenset[int]] = (0, frozenset())
        joined = {}
        for value in a.keys() | b.keys():
            (m, one), (n, other) = a.get(value, nothing), b.get(value, nothing)
            joined[value] = (m + n, frozenset(sorted(one | other)[: self.rare]))
        return joined

    def thin(self, counts: ValuesOf | None) -> str | None:
        """Why a number is left out that fewer than ``rare`` rows, or people, have another value of than all others."""
        if not self.rare or counts is None or len(counts) < 2:
            return None
        common = max(counts, key=lambda value: (counts[value][0], value))
        others = {person for value, (_, people) in counts.items() if value != common for person in people}
        who = "training rows" if self.of_row is None else "people"
        return f"has one value in all but fewer than {self.rare} {who}" if len(others) < self.rare else None
