"""Rare levels are pooled: what would rest on a few people alone where a model is released, of levels, types and columns.

Counts are of people where rows belong to people, of training rows else. A release names a level that ``rare`` of them share;
what fewer have must not show in its parts either: in a level for the rest, in the type of the levels that stay, or in a column
that is there for their sake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.level_types import as_number, numeric_levels, plain_level
from fisherleak.errors import InvalidInputError
from fisherleak.tables.decide.cell_text import OTHER
from fisherleak.tables.decide.choices import Choices
from fisherleak.tables.decide.column_kinds import Column, kept_leaving, use_leaving
from fisherleak.tables.decide.profile import FEW_VALUES, Profile
from fisherleak.tables.design.gaps import FEWEST, MISSING, Gaps, has_level
from fisherleak.tables.read.cell_formats import are_codes, is_plain_number

Who = Mapping[Any, frozenset[int]]
"""People by the level that they have."""
ValuesOf = Mapping[float, tuple[int, frozenset[int]]]
"""By each value of a number how many rows have it, and some of those who do."""
EXACT = 2.0**53
"""Beyond it not every whole number is one of this type."""
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
    named, pool = _named_and_pooled(counts, declared, fewest)
    edge = (fewest - 1, fewest)
    together = OTHER not in declared and sharing(pool, counts, who) in edge
    return not together and not any(counts[level] in edge for level in {*named, *pool} - {OTHER})


def levels_leaving(counts: Counter[Any], declared: Collection[Any], who: Who | None, fewest: int) -> set[Any]:
    """Levels of which one row, or person, less changes which levels ``fewest`` share, or whether others together do."""
    named, pool = _named_and_pooled(counts, declared, fewest)
    together = OTHER not in declared and sharing(pool, counts, who) == fewest
    return {level for level in named if counts[level] == fewest} | (pool if together else set())


def _named_and_pooled(counts: Counter[Any], declared: Collection[Any], fewest: int) -> tuple[set[Any], set[Any]]:
    """Of levels that are not declared, those that ``fewest`` share and the others, with those that the table calls so."""
    own = counts.keys() - declared
    pool = {level for level in own if counts[level] < fewest or level == OTHER}
    return own - pool, pool


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

    @property
    def fewest(self) -> int:
        """Rows, or people, that are enough in a release."""
        return max(self.rare, FEWEST)

    @cached_property
    def most(self) -> int:
        """Values beyond which nothing is counted: a column has neither few of them, nor may one less leave it out."""
        if self.of_row is None or not self.of_row.size:
            return max(FEW_VALUES, 1 + self.fewest)
        # all rows of so many people, each with a value of its own, and one that all others have
        return max(FEW_VALUES, 1 + self.fewest * int(np.unique(self.of_row, return_counts=True)[1].max()))

    def of(self, values: NDArray[np.float64], rows: NDArray[np.int64]) -> ValuesOf | None:
        """For each value the number of rows, and some of those who have it, one more than are enough; None where many are."""
        there = np.isfinite(values)
        values, rows, most = values[there], rows[there], self.most
        if any(np.unique(part).size > most for part in (values[:SOME], values)):
            return None
        order = np.argsort(values, kind="stable")
        found, starts, counts = np.unique(values[order], return_index=True, return_counts=True)
        known: dict[float, tuple[int, frozenset[int]]] = {}
        for value, start, count in zip(found.tolist(), starts.tolist(), counts.tolist(), strict=True):
            own = rows[order[start : start + count]]
            people = own if self.of_row is None else np.unique(self.of_row[own])
            known[value] = (count, frozenset(people[: self.fewest + 1].tolist()))
        return known

    def both(self, a: ValuesOf | None, b: ValuesOf | None) -> ValuesOf | None:
        """Of two parts of a table."""
        if a is None or b is None or len(a.keys() | b.keys()) > self.most:
            return None
        nothing: tuple[int, frozenset[int]] = (0, frozenset())
        joined = {}
        for value in a.keys() | b.keys():
            (m, one), (n, other) = a.get(value, nothing), b.get(value, nothing)
            joined[value] = (m + n, frozenset(sorted(one | other)[: self.fewest + 1]))
        return joined

    def nearly_all(self, counts: ValuesOf | None) -> tuple[float, ...]:
        """Values that nearly all have: without one row, or person, with another a release may leave the number out.

        It does where fewer than ``fewest`` have another value than the most common one, which may be another then.
        """
        if counts is None or len(counts) < 2:
            return ()
        common, most = _most_common(counts), self.fewest
        if len(frozenset[int]().union(*(people for _, people in counts.values()))) <= most:
            return ()  # of so few nothing is released
        others = _others(counts).items()
        return tuple(value for value, few in others if few == most or (few < most and value != common))

    def thin(self, counts: ValuesOf | None) -> str | None:
        """Why a number is left out that fewer than ``rare`` rows, or people, have another value of than all others."""
        if not self.rare or counts is None or len(counts) < 2:
            return None
        who = "training rows" if self.of_row is None else "people"
        few = _others(counts)[_most_common(counts)] < self.rare
        return f"has one value in all but fewer than {self.rare} {who}" if few else None


def _most_common(counts: ValuesOf) -> float:
    return max(counts, key=lambda value: (counts[value][0], value))


def _others(counts: ValuesOf) -> dict[float, int]:
    """For each value how many rows, or people, have another one; of those with many, at least one more than are enough."""
    values_of = Counter(person for _, people in counts.values() for person in people)
    return {
        value: len(values_of) - sum(values_of[person] == 1 for person in people)
        for value, (_, people) in counts.items()
    }


TRUTHS: dict[str, int] = {"true": True, "false": False, "1": 1, "0": 0}
"""What declared levels of true and false may be: the column has their type."""


def pooled_levels(
    column: Column, counts: Counter[Any], who: Who | None, gaps: Gaps, choices: Choices
) -> tuple[tuple[Any, ...], int, int]:
    """Levels in their order; how many are pooled into the first of them, at least; and how many count as the first."""
    declared = declared_levels(column.name, counts, choices)
    kept = declared | {level for level, count in counts.items() if count >= choices.rare}
    # what the table itself calls so, or an earlier step, is of the pool whether others are in it or not
    before = {OTHER} & (counts.keys() | declared)
    others = counts.keys() - kept - before
    pooled = len(others) + len(before)
    own = (MISSING,) * (has_level(gaps) or MISSING in kept)
    kept -= {MISSING, OTHER} if pooled else {MISSING}
    if choices.rare:
        check_types(column.name, kept, counts)
    _check_digits(column.name, counts)
    if pooled and OTHER not in declared and sharing(others | before, counts, who) < choices.rare:
        return (*own, *whole_levels(kept)), 0, pooled
    if pooled:
        return (OTHER, *whole_levels(kept)), pooled, 0
    return (*own, *whole_levels(kept)), 0, 0


def _check_digits(name: str, counts: Counter[Any]) -> None:
    """Refuse whole numbers that their column's type rounds: one cell with a fraction makes it that type."""
    if any(isinstance(level, float) and abs(level) >= EXACT for level in counts):
        raise InvalidInputError(
            f"Column '{name}' holds whole numbers of 16 digits or more, and its other cells make it read with 15 digits. "
            "As categories some would have another name: write them as text, or leave the column out with "
            f"`drop={[name]!r}`."
        )


def at_edge_of(column: Column, counts: Counter[Any], who: Who | None, gaps: Gaps, choices: Choices) -> bool:
    """Whether one more, or one less, with any value changes which levels a release names; columns of many errs on that side."""
    declared = declared_levels(column.name, counts, choices)
    chosen = column.kept is not None and bool(counts.keys() - declared - {OTHER})  # by how frequent they are
    near = range(gaps.lacking - 1, gaps.lacking + 2)
    lacking = len({has_level(Gaps(gaps.rows, count, gaps.having)) for count in near}) > 1 and MISSING not in declared
    return chosen or lacking or not levels_stay(counts, declared, who, max(choices.rare, FEWEST))


def levels_of_one_less(
    column: Column, counts: Counter[Any], who: Who | None, profile: Profile, choices: Choices, most_rows: int
) -> set[Any]:
    """Levels of which one less changes which levels a release names; more of them where people have up to ``most_rows``."""
    declared = declared_levels(column.name, counts, choices)
    found = levels_leaving(counts, declared, who, max(choices.rare, FEWEST))
    if column.name in choices.declared and sum(counts.values()) <= most_rows:
        return {*counts}  # the only cells of a column that is used if it has any
    if column.assumed and who is None and profile.levels is not None:
        found |= use_leaving(profile.levels, profile.rows - profile.nulls)
    if column.kept is not None and counts.keys() - declared - {OTHER}:
        if profile.levels is None:
            return {*counts}
        found |= kept_leaving(profile.levels, column.kept, profile.rows - profile.nulls, most_rows)
    return found


def declared_levels(name: str, counts: Counter[Any], choices: Choices) -> set[Any]:
    return {_as_level(name, text, counts) for text in dict(choices.levels).get(name, ())}


def _as_level(name: str, text: str, counts: Counter[Any]) -> Any:
    """A declared level as the column's values are: text, number, or true and false."""
    for level in counts:
        if str(level) == text:
            return level
    if text == MISSING:
        return text
    some = next(iter(counts))
    if isinstance(some, bool):
        if text.casefold() not in TRUTHS:
            raise InvalidInputError(f"`levels` has {text!r} for column '{name}', whose values are true and false.")
        return TRUTHS[text.casefold()]
    if isinstance(some, str):
        return text
    with suppress(ValueError):
        if not are_codes([text]):  # 01 is no number, and one cell that is no code makes numbers of all
            return type(some)(text)
    raise InvalidInputError(f"`levels` has {text!r} for column '{name}', whose values are numbers: name numbers.")
