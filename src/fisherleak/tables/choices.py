"""What the user says about columns, and what names and types of columns tell without a look at their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fisherleak._support.checks import nearest
from fisherleak.errors import InvalidInputError

__all__ = ["MOST_FORCED", "Choices", "check_choices", "is_plain", "looks_called_id", "sort_of"]

MOST_FORCED = 1000
"""Levels past which even a category named by the user is refused: each would be a coefficient."""
ID_NAMES = {"id", "index", "row", "rownames", "row_id", "rowid", "record", "uuid", "key"}


@dataclass(frozen=True)
class Choices:
    """What the user says about the columns."""

    target: str
    numbers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    id: str | None = None
    group: str | None = None
    levels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Levels of categories that are declared, by column: they are public, whether a row has them or not."""
    rare: int = 0
    """Levels that are not declared and have fewer training rows than this are pooled into one."""


def check_choices(names: Sequence[str], choices: Choices) -> None:
    """Columns that exist, and one role for each."""
    said: list[tuple[str, str | None]] = [("target", choices.target)]
    said += [("numbers", name) for name in choices.numbers] + [("categories", name) for name in choices.categories]
    said += [("drop", name) for name in choices.drop]
    check_levels(names, choices)
    said += [("id", choices.id)] * (choices.id is not None) + [("group", choices.group)] * (choices.group is not None)
    for role, name in said:
        if name not in names:
            raise InvalidInputError(
                f"`{role}` names the column '{name}', which is not there. {nearest(str(name), names)}"
            )
    roles: dict[str, str] = {}
    for role, name in said:
        if role == "group" and name != choices.target and name != choices.id:
            continue  # groups may be formed by a column that has another role
        if name in roles and roles[name] != role:
            raise InvalidInputError(
                f"Column '{name}' is named by `{roles[name]}` and by `{role}`: it can have one role only."
            )
        roles[str(name)] = role


def check_levels(names: Sequence[str], choices: Choices) -> None:
    """Declared levels of columns that exist, each column once."""
    seen: set[str] = set()
    for name, levels in choices.levels:
        if name not in names:
            raise InvalidInputError(f"`levels` names the column '{name}', which is not there. {nearest(name, names)}")
        if name in seen or not levels or len(set(levels)) != len(levels):
            raise InvalidInputError(f"`levels` must list the levels of column '{name}' once, each of them once.")
        seen.add(name)


def looks_called_id(name: str) -> bool:
    """Whether a column's name is one of those that identifiers and row numbers have."""
    lowered = name.strip().lower()
    called = lowered in ID_NAMES or lowered.endswith(("_id", " id", ".id"))
    return called or lowered.startswith(("column ", "unnamed"))


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
