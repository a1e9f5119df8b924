"""The rows that are used: those with a value in every column, split into training and held-out rows.

Whether a row is held out depends on its number in the table and on the seed alone, so that a table is split in the same
way wherever its rows are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.level_types import check_ids_exact, id_text
from fisherleak._support.namespaces import TableLike
from fisherleak.errors import InvalidInputError
from fisherleak.rows.selection import mixed_bits
from fisherleak.tables.decide.choices import is_plain
from fisherleak.tables.decide.column_kinds import MOST_GROUPS, Column
from fisherleak.tables.decide.profile import Profile
from fisherleak.tables.decide.target import Target, check_finite, labels_of
from fisherleak.tables.read.arrow_columns import as_numbers, as_text, missing_in, places
from fisherleak.tables.read.parts import Part, RawTable, over_parts

__all__ = [
    "Complete",
    "Counted",
    "Groups",
    "Split",
    "check_ids",
    "check_used",
    "count_rows",
    "dropped_of",
    "gaps_in",
    "groups_of",
    "split_rows",
]

FEWEST_ROWS = 5
SMALL = 40
"""Rows below which none are held out."""
EXACT = 100_000
"""Rows of a table up to which the share of held-out rows is exact, and the same in all classes."""
MOST_IDS = 20_000_000
"""Rows up to which identifiers of all parts are compared."""
NO_ROWS: NDArray[np.int64] = np.empty(0, dtype=np.int64)

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Groups:
    """A column that forms groups: its levels and what they are called; the last name is that of missing values."""

    name: str
    levels: tuple[Any, ...]
    names: tuple[str, ...]

    def of(self, values: Any) -> NDArray[np.int32]:
        """The place of every row's group among the names."""
        found = places(values, self.levels)
        return np.where(found < 0, len(self.levels), found).astype(np.int32)


@dataclass(frozen=True)
class Complete:
    """Reads a part and finds its rows with a label, and with a value in every column that is used unless gaps are filled."""

    target: Target
    used: tuple[Column, ...]
    others: tuple[str, ...] = ()
    filling: bool = False
    """Whether rows that lack a column are used all the same."""

    def read(self, part: Part) -> Any:
        names = dict.fromkeys([self.target.name, *(column.name for column in self.used), *self.others])
        return part.read(tuple(names))

    def rows(self, table: TableLike) -> tuple[Vector, NDArray[np.int64], NDArray[np.int64]]:
        """All labels, the places of the rows to use, and in how many rows each column lacks a value (the target's first)."""
        labels = labels_of(self.target, table.column(self.target.name))
        lost = np.zeros(1 + len(self.used), dtype=np.int64)
        whole = np.flatnonzero(~np.isnan(labels))
        lost[0] = labels.size - whole.size
        for k, column in enumerate(self.used, start=1):
            values = table.column(column.name)
            missing = gaps_in(column.kind, values)
            lost[k] = missing.sum()
            whole = whole[~missing[whole]] if lost[k] and not self.filling else whole
        return labels, whole, lost


def gaps_in(kind: str, values: Any) -> NDArray[np.bool_]:
    """Where a column of numbers, or a category, has no value."""
    return np.isnan(as_numbers(values)) if kind == "number" else missing_in(values)


@dataclass(frozen=True)
class Counted:
    """How many rows are complete and why others are not; for a small table also which, and their labels."""

    complete: int
    lost: NDArray[np.int64]
    groups: frozenset[int]
    rows: NDArray[np.int64] = field(repr=False)
    labels: Vector = field(repr=False)


@dataclass(frozen=True)
class Split:
    """Which rows are held out: those named, or a share of all by a hash of their number."""

    held_out: float
    seed: int
    rows: NDArray[np.int64] | None = field(default=None, repr=False)

    def held(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each of these rows, by its number from 0, is held out."""
        if self.rows is None:
            return np.asarray(_uniform(rows, self.seed) < self.held_out)
        return np.isin(rows, self.rows, assume_unique=True)


def check_used(used: Sequence[Column], profiles: Mapping[str, Profile]) -> None:
    """Columns of numbers hold some, and none that is infinite, as categories neither."""
    for column in used:
        numbers = profiles[column.name].numbers
        if numbers is None:
            continue
        check_finite(numbers, column.name)
        if column.kind == "number" and not numbers.count:
            raise InvalidInputError(
                f"Column '{column.name}' has no numbers: leave it out with `drop={[column.name]!r}`, or use `categories`."
            )


def check_ids(raw: RawTable, name: str, profile: Profile, lazily: bool) -> str:
    """Refuse identifiers that repeat; gives back a sentence where not all could be compared."""
    if profile.numbers is not None and "int" not in str(raw.kind(name)):
        check_ids_exact(f"The id column '{name}'", (profile.numbers.low, profile.numbers.high))
    compared = not lazily and raw.rows <= MOST_IDS
    repeated = "values"
    if compared:
        import pandas

        texts = np.concatenate([as_text(part.read((name,)).column(0)) for part in raw.parts])
        if profile.numbers is None:  # 7 and 007 are one id
            texts = np.array([id_text(text) for text in texts], dtype=object)
        distinct = int(pandas.Series(texts).nunique())
        repeated = f"{raw.rows - distinct} of its {raw.rows} values" if distinct < raw.rows else ""
    elif profile.distinct:
        repeated = ""
    if repeated:
        raise InvalidInputError(f"The id column '{name}' repeats {repeated}: they cannot distinguish rows.")
    unsure = (
        f"Of the values of '{name}' a sample was looked at: some may repeat, and only row numbers distinguish rows."
    )
    return "" if compared else unsure


def groups_of(raw: RawTable, name: str, profile: Profile) -> Groups:
    """The groups that a column forms."""
    if not is_plain(raw.kind(name)):
        raise InvalidInputError(f"`group` names '{name}', which holds {raw.kind(name)}, not text or numbers.")
    if profile.levels is None:
        raise InvalidInputError(_too_many(name, f"more than {profile.most}"))
    levels = tuple(sorted(profile.levels))
    names = [_shown(level) for level in levels]
    missing = "(missing)"
    while missing in names:  # a level may be called so too
        missing = f"{missing}'"
    return Groups(name, levels, (*names, missing))


def _shown(level: Any) -> str:
    """A level in words: other ones for every other level."""
    if not isinstance(level, float):
        return str(level)
    short = f"{level:g}"
    return short if float(short) == level else repr(level).removesuffix(".0")


def _too_many(name: str, count: str) -> str:
    return (
        f"`group` names '{name}', which has {count} different values: at most {MOST_GROUPS} groups are possible. Make ranges "
        "of it first."
    )


def count_rows(raw: RawTable, complete: Complete, groups: Groups | None, lazily: bool) -> Counted:
    """Complete rows and lost ones, in one pass."""
    few = raw.rows <= EXACT

    def of_part(part: Part) -> Counted:
        table = complete.read(part)
        labels, whole, lost = complete.rows(table)
        found: frozenset[int] = frozenset()
        if groups is not None:
            found = frozenset(np.unique(groups.of(table.column(groups.name))[whole]).tolist())
        rows = part.start + whole if few else NO_ROWS
        return Counted(whole.size, lost, found, rows, labels[whole] if few else np.empty(0))

    def merge(a: Counted, b: Counted) -> Counted:
        rows, labels = np.concatenate([a.rows, b.rows]), np.concatenate([a.labels, b.labels])
        return Counted(a.complete + b.complete, a.lost + b.lost, a.groups | b.groups, rows, labels)

    counted = over_parts(of_part, raw.parts, merge, lazily)
    _check_enough(raw, counted, dropped_of(complete, counted))
    if groups is not None and len(counted.groups) > MOST_GROUPS:
        raise InvalidInputError(_too_many(groups.name, str(len(counted.groups))))
    return counted


def dropped_of(complete: Complete, counted: Counted) -> list[tuple[str, int]]:
    """Why rows are lost, and how many lack that column; a row may lack several."""
    own = () if complete.filling else complete.used
    reasons = [f"the target '{complete.target.name}' is missing", *(f"'{column.name}' is missing" for column in own)]
    return [(reason, int(count)) for reason, count in zip(reasons, counted.lost, strict=False) if count]


def _check_enough(raw: RawTable, counted: Counted, dropped: list[tuple[str, int]]) -> None:
    if counted.complete >= FEWEST_ROWS:
        return
    worst = max(dropped, key=lambda item: item[1], default=None)
    why = "" if worst is None else f": in {worst[1]} of {raw.rows} {worst[0]}"
    raise InvalidInputError(
        f"{raw.source} has {counted.complete} complete row{'s' * (counted.complete != 1)}{why}. At least {FEWEST_ROWS} "
        "are needed; `drop` leaves a column out."
    )


def split_rows(counted: Counted, target: Target, held_out: float, seed: int, rows: int) -> tuple[Split, str]:
    """Training and held-out rows, and a sentence where none are held out against the wish."""
    nothing = Split(0.0, seed, NO_ROWS)
    if held_out == 0:
        return nothing, ""
    if counted.complete < SMALL:
        note = f"There are only {counted.complete} rows, so none are held out and utility is that on the training rows."
        return nothing, note
    if rows > EXACT:
        return Split(held_out, seed), ""
    rng = np.random.default_rng(seed)
    parts = [np.arange(counted.complete)]
    if target.classes:  # split alike
        parts = [np.flatnonzero(counted.labels == k) for k in range(len(target.classes))]
    test = np.concatenate([rng.permutation(part)[: round(held_out * part.size)] for part in parts])
    return Split(held_out, seed, np.sort(counted.rows[test])), ""


def _uniform(rows: NDArray[np.int64], seed: int) -> Vector:
    """A number from 0 to 1 for each row: the splitmix64 hash of its number and the seed."""
    key = np.random.default_rng(seed).integers(0, 2**63, dtype=np.uint64)
    mixed = (rows.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + key
    return np.asarray((mixed_bits(mixed) >> np.uint64(11)) * 2.0**-53)
