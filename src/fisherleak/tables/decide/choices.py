"""What the user says about columns, and what types of columns tell without a look at their values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fisherleak._support.checks import nearest
from fisherleak.errors import InvalidInputError

__all__ = [
    "MOST_FORCED",
    "Choices",
    "check_choices",
    "is_plain",
    "sort_of",
    "spelled",
]

LABEL = "label"
"""What bounds may call the target, where no column is called so."""
WAYS = ("impute", "drop")
"""What may become of rows that lack a column."""
MOST_FORCED = 1000
"""Levels past which even a category named by the user is refused: each would be a coefficient."""
MOST_DECLARED = 2000
"""Levels of all columns that may be declared: without a row each of them still takes part in every computation."""


@dataclass(frozen=True)
class Choices:
    """What the user says about the columns."""

    target: str
    numbers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    id: str | None = None
    group: str | None = None
    person: str | None = None
    """The column that tells which rows belong to one person."""
    levels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Levels of categories that are declared, by column: they are public, whether a row has them or not."""
    rare: int = 0
    """Levels that are not declared and have fewer training rows than this are pooled into one."""
    decimal: str | None = None
    """The decimal mark of numbers that are written as text; found from each column by default."""
    na: tuple[str, ...] = ()
    """What counts as missing beside the usual marks."""
    unite: tuple[str, ...] = ()
    """Columns whose texts are one where they differ in case or blanks only."""
    keep_total: bool = False
    """Whether a last row that holds totals is kept."""
    missing: str = "impute"
    """What becomes of rows that lack a column: "impute" fills it inside the model, "drop" leaves them out."""
    bounds: tuple[tuple[str, tuple[float, float]], ...] = ()
    """(low, high) of numbers and of the target that are declared, by column: centre and scale follow from them."""

    @property
    def declared(self) -> frozenset[str]:
        """Columns whose levels are declared."""
        return frozenset(name for name, _ in self.levels)

    @property
    def named(self) -> frozenset[str]:
        """All columns that are named, for whatever reason."""
        single = {self.target, self.id, self.group, self.person} - {None}
        several = (
            self.numbers,
            self.categories,
            self.drop,
            self.unite,
            [name for name, _ in (*self.levels, *self.bounds)],
        )
        return frozenset(str(name) for name in (*single, *itertools.chain(*several)))

    def within(self, name: str) -> tuple[float, float] | None:
        """The bounds that were declared for a column."""
        return dict(self.bounds).get(name)


def spelled(names: Sequence[str], choices: Choices) -> Choices:
    """The same choices with names as the table has them: blanks around a name need not be given."""
    bare: dict[str, list[str]] = {}
    for name in names:
        bare.setdefault(name.strip(), []).append(name)

    def own(name: str) -> str:
        found = bare.get(str(name).strip(), [])
        return found[0] if name not in names and len(found) == 1 else name

    lists: dict[str, Any] = {
        key: tuple(own(name) for name in getattr(choices, key)) for key in ("numbers", "categories", "drop", "unite")
    }
    single: dict[str, Any] = {
        key: None if getattr(choices, key) is None else own(getattr(choices, key)) for key in ("id", "group", "person")
    }
    target = own(choices.target)
    bounds = tuple(
        (target if name == LABEL and LABEL not in names else own(name), ends) for name, ends in choices.bounds
    )
    return replace(choices, target=target, bounds=bounds, **lists, **single)


def check_choices(names: Sequence[str], choices: Choices) -> None:
    """Columns that exist, and one role for each."""
    said: list[tuple[str, str | None]] = [("target", choices.target)]
    said += [("numbers", name) for name in choices.numbers] + [("categories", name) for name in choices.categories]
    said += [("drop", name) for name in choices.drop] + [("unite", name) for name in choices.unite]
    check_levels(names, choices)
    check_bounds(names, choices)
    if choices.missing not in WAYS:
        raise InvalidInputError(f"`missing` must be one of {', '.join(WAYS)}; got {choices.missing!r}.")
    single = {"id": choices.id, "person": choices.person, "group": choices.group}
    said += [(role, name) for role, name in single.items() if name is not None]
    for role, name in said:
        if name not in names:
            raise InvalidInputError(
                f"`{role}` names the column '{name}', which is not there. {nearest(str(name), names)}"
            )
    roles: dict[str, str] = {}
    for role, name in said:
        if role == "unite" or (role == "group" and name not in (choices.target, choices.id, choices.person)):
            continue  # groups may be formed by a column that has another role
        if name in roles and roles[name] != role and (roles[name], role) != ("target", "categories"):
            raise InvalidInputError(
                f"Column '{name}' is named by `{roles[name]}` and by `{role}`: it can have one role only."
            )
        roles[str(name)] = role


def check_levels(names: Sequence[str], choices: Choices) -> None:
    """Declared levels of columns that exist, each column once."""
    seen: set[str] = set()
    count = sum(len(levels) for _, levels in choices.levels)
    if count > MOST_DECLARED:
        raise InvalidInputError(
            f"`levels` lists {count} categories, and at most {MOST_DECLARED} can be declared: unite rare ones in the table, or "
            "leave columns of many categories out with `drop`."
        )
    for name, levels in choices.levels:
        if name not in names:
            raise InvalidInputError(f"`levels` names the column '{name}', which is not there. {nearest(name, names)}")
        if name in seen or not levels or len(set(levels)) != len(levels):
            raise InvalidInputError(f"`levels` must list the categories of column '{name}' once, each of them once.")
        seen.add(name)


def check_bounds(names: Sequence[str], choices: Choices) -> None:
    """Declared bounds of columns that exist, each column once: two finite numbers, the first the smaller."""
    seen: set[str] = set()
    for name, ends in choices.bounds:
        if name not in names:
            raise InvalidInputError(f"`bounds` name '{name}', which is no column. {nearest(name, names)}")
        if name in seen:
            raise InvalidInputError(f"`bounds` name '{name}' twice: give each column once.")
        if not _are_ends(ends):
            raise InvalidInputError(
                f"`bounds` of '{name}' must be two finite numbers, the first the smaller, with a finite difference; got "
                f"{ends!r}."
            )
        seen.add(name)


def _are_ends(ends: Sequence[Any]) -> bool:
    """Whether a range has two ends and a width that floats hold."""
    if len(ends) != 2 or not all(isinstance(end, (int, float)) for end in ends):
        return False
    try:
        return 0 < float(ends[1]) - float(ends[0]) < math.inf
    except OverflowError:
        return False


def is_plain(kind: Any) -> bool:
    """Whether an Arrow type has values that can be told apart and shown."""
    return sort_of(kind) in ("number", "text", "bool", "date")


def sort_of(kind: Any) -> str:
    """What an Arrow type holds: number, text, bool, date or other."""
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return sort_of(kind.value_type)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_boolean(kind):
        return "bool"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_temporal(kind):
        return "date"
    return "other"
