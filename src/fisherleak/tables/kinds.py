"""What each column is: a number, a category, the target, an identifier, or nothing that a linear model can use.

A guess is said in a sentence (``note``) and can be overridden; what the user says is never overridden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from fisherleak._check import nearest
from fisherleak.errors import InvalidInputError
from fisherleak.tables.reading import RawTable

__all__ = ["MOST_GROUPS", "MOST_LEVELS", "Choices", "Column", "Kind", "decide", "is_plain", "sort_of"]

Kind = Literal["number", "category", "target", "id", "group", "ignored"]
MOST_LEVELS = 50
"""A text column with more different values is not taken as a category unless the user says so."""
MOST_FORCED = 1000
"""Levels past which even a category named by the user is refused: each would be a coefficient."""
MOST_GROUPS = 50
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


@dataclass(frozen=True)
class Column:
    """One column of the table and what it is taken for."""

    name: str
    kind: Kind
    assumed: bool
    note: str
    levels: int | None = None


def decide(raw: RawTable, choices: Choices) -> list[Column]:
    """The kind of every column, in the table's order."""
    check_choices(raw.names, choices)
    return [_decided(raw, name, choices) for name in raw.names]


def check_choices(names: Sequence[str], choices: Choices) -> None:
    """Columns that exist, and one role for each."""
    said: list[tuple[str, str | None]] = [("--target", choices.target)]
    said += [("--number", name) for name in choices.numbers] + [("--category", name) for name in choices.categories]
    said += [("--drop", name) for name in choices.drop]
    said += [("--id", choices.id)] * (choices.id is not None) + [("--group", choices.group)] * (
        choices.group is not None
    )
    for option, name in said:
        if name not in names:
            raise InvalidInputError(
                f"{option} names the column '{name}', which is not there. {nearest(str(name), names)}"
            )
    roles: dict[str, str] = {}
    for option, name in said:
        if option == "--group" and name != choices.target and name != choices.id:
            continue  # groups may be formed by a column that has another role
        if name in roles and roles[name] != option:
            raise InvalidInputError(
                f"Column '{name}' is named by {roles[name]} and by {option}: it can have one role only."
            )
        roles[str(name)] = option


def _decided(raw: RawTable, name: str, choices: Choices) -> Column:
    if name in choices.drop:
        kind: Kind = "group" if name == choices.group else "ignored"
        return Column(name, kind, False, "left out as asked" if kind == "ignored" else "forms the groups; no feature")
    values = raw.columns.get(name)
    if name == choices.id:
        return _identifier(name, values)
    if values.null_count == len(values):
        raise InvalidInputError(f"Column '{name}' has no values at all: leave it out with --drop '{name}'.")
    if name == choices.target:
        return Column(name, "target", False, "what the model predicts")
    column = _told(name, values, choices) or _guessed(name, values)
    if name == choices.group:
        also = "forms the groups"
        if column.kind == "ignored":
            return replace(column, kind="group", note=f"{also}; no feature: {column.note}")
        return replace(column, note=f"{column.note}; {also} too" if column.note else f"{also} too")
    return column


def _identifier(name: str, values: Any) -> Column:
    if values.null_count:
        raise InvalidInputError(f"The id column '{name}' has {values.null_count} missing values: every row needs one.")
    import pyarrow.compute as pc

    if not is_plain(values.type):
        raise InvalidInputError(f"The id column '{name}' holds {values.type}, not text or numbers.")
    distinct = int(pc.count_distinct(values).as_py())
    if distinct < len(values):
        raise InvalidInputError(
            f"The id column '{name}' repeats {len(values) - distinct} of its {len(values)} values: they cannot tell rows apart."
        )
    return Column(name, "id", False, "names the rows")


def _told(name: str, values: Any, choices: Choices) -> Column | None:
    """The kind that the user gave."""
    if name in choices.numbers:
        if sort_of(values.type) not in ("number", "text", "bool"):
            raise InvalidInputError(f"--number names '{name}', which holds {values.type}: make it a number first.")
        return Column(name, "number", False, "")
    if name in choices.categories:
        if not is_plain(values.type):
            raise InvalidInputError(f"--category names '{name}', which holds {values.type}: make it text first.")
        count = _distinct(values)
        if count > MOST_FORCED:
            raise InvalidInputError(
                f"--category names '{name}', which has {count} different values: at most {MOST_FORCED} are possible."
            )
        return Column(name, "category", False, _rare(values), count)
    return None


def _guessed(name: str, values: Any) -> Column:
    sort = sort_of(values.type)
    if sort == "number":
        if _looks_like_id(name, values):
            return Column(name, "ignored", True, "looks like an identifier: every row has its own value")
        return Column(name, "number", True, "holds numbers")
    if sort == "date":
        return Column(name, "ignored", True, f"holds {values.type}; make it a number to use it")
    if sort == "other":
        return Column(name, "ignored", True, f"holds {values.type}, which a linear model cannot use")
    count, present = _distinct(values), len(values) - values.null_count
    if count == 1:
        return Column(name, "ignored", True, "has one value only", 1)
    if count > MOST_LEVELS or (count > 2 and 2 * count > present):
        note = f"has {count} different texts in {present} rows, as names and identifiers do; --category keeps it"
        return Column(name, "ignored", True, note, count)
    return Column(name, "category", True, _rare(values) or "holds text" * (sort == "text") or "is true or false", count)


def _rare(values: Any) -> str:
    import pyarrow.compute as pc

    counts = pc.value_counts(_plain(values).drop_null()).field("counts").to_numpy(zero_copy_only=False)
    rare = int(np.sum(counts < 5))
    if not rare or rare == len(counts):
        return ""
    return f"{rare} of its {len(counts)} values ha{'ve' if rare > 1 else 's'} fewer than 5 rows each"


def _looks_like_id(name: str, values: Any) -> bool:
    """A column of whole numbers, all different, that is called an id or counts the rows."""
    import pyarrow.types

    if not pyarrow.types.is_integer(values.type) or values.null_count or len(values) < 3:
        return False
    numbers = values.to_numpy()
    counts = bool(np.all(np.diff(numbers) == 1)) and numbers[0] in (0, 1)
    lowered = name.strip().lower()
    called = lowered in ID_NAMES or lowered.endswith(("_id", " id", ".id")) or lowered.startswith("column ")
    return (called or lowered.startswith("unnamed")) and (counts or np.unique(numbers).size == len(numbers))


def _plain(values: Any) -> Any:
    """A dictionary-encoded column as its values."""
    import pyarrow.types

    return values.cast(values.type.value_type) if pyarrow.types.is_dictionary(values.type) else values


def _distinct(values: Any) -> int:
    import pyarrow.compute as pc

    return int(pc.count_distinct(_plain(values), mode="only_valid").as_py())


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
