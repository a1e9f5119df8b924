"""What each column is: a number, a category, the target, an identifier, or nothing that a linear model can use.

A guess is said in a sentence (``note``) and can be overridden; what the user says is never overridden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from fisherleak._check import nearest
from fisherleak.errors import InvalidInputError
from fisherleak.tables.parts import RawTable

if TYPE_CHECKING:
    from fisherleak.tables.profile import Profile

__all__ = [
    "MOST_FORCED",
    "MOST_GROUPS",
    "MOST_LEVELS",
    "Choices",
    "Column",
    "Kind",
    "check_choices",
    "decide",
    "is_plain",
    "looks_called_id",
    "sort_of",
]

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


def decide(raw: RawTable, profiles: Mapping[str, Profile], choices: Choices) -> list[Column]:
    """The kind of every column, in the table's order."""
    return [_decided(name, raw.kind(name), profiles.get(name), choices) for name in raw.names]


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


def _decided(name: str, dtype: Any, profile: Profile | None, choices: Choices) -> Column:
    if profile is None or name in choices.drop:
        kind: Kind = "group" if name == choices.group else "ignored"
        return Column(name, kind, False, "left out as asked" if kind == "ignored" else "forms the groups; no feature")
    if name == choices.id:
        return _identifier(name, dtype, profile)
    if profile.nulls == profile.rows:
        raise InvalidInputError(f"Column '{name}' has no values at all: leave it out with --drop '{name}'.")
    if name == choices.target:
        return Column(name, "target", False, "what the model predicts")
    column = _told(name, dtype, profile, choices) or _guessed(name, dtype, profile)
    if name == choices.group:
        also = "forms the groups"
        if column.kind == "ignored":
            return replace(column, kind="group", note=f"{also}; no feature: {column.note}")
        return replace(column, note=f"{column.note}; {also} too" if column.note else f"{also} too")
    return column


def _identifier(name: str, dtype: Any, profile: Profile) -> Column:
    if profile.missing:
        raise InvalidInputError(f"The id column '{name}' has {profile.missing} missing values: every row needs one.")
    if not is_plain(dtype):
        raise InvalidInputError(f"The id column '{name}' holds {dtype}, not text or numbers.")
    return Column(name, "id", False, "names the rows")


def _told(name: str, dtype: Any, profile: Profile, choices: Choices) -> Column | None:
    """The kind that the user gave."""
    if name in choices.numbers:
        if sort_of(dtype) not in ("number", "text", "bool"):
            raise InvalidInputError(f"--number names '{name}', which holds {dtype}: make it a number first.")
        return Column(name, "number", False, "")
    if name in choices.categories:
        if not is_plain(dtype):
            raise InvalidInputError(f"--category names '{name}', which holds {dtype}: make it text first.")
        count = _count(profile)
        if profile.levels is None or len(profile.levels) > MOST_FORCED:
            raise InvalidInputError(
                f"--category names '{name}', which has {count} different values: at most {MOST_FORCED} are possible."
            )
        return Column(name, "category", False, _rare(profile.levels), len(profile.levels))
    return None


def _guessed(name: str, dtype: Any, profile: Profile) -> Column:
    sort = sort_of(dtype)
    if sort == "number":
        if _looks_like_id(name, dtype, profile):
            return Column(name, "ignored", True, "looks like an identifier: every row has its own value")
        return Column(name, "number", True, "holds numbers")
    if sort == "date":
        return Column(name, "ignored", True, f"holds {dtype}; make it a number to use it")
    if sort == "other":
        return Column(name, "ignored", True, f"holds {dtype}, which a linear model cannot use")
    levels, present = profile.levels, profile.rows - profile.nulls
    if levels is not None and len(levels) == 1:
        return Column(name, "ignored", True, "has one value only", 1)
    if levels is None or len(levels) > MOST_LEVELS or (len(levels) > 2 and 2 * len(levels) > present):
        note = (
            f"has {_count(profile)} different texts in {present} rows, as names and identifiers do; --category keeps it"
        )
        return Column(name, "ignored", True, note, None if levels is None else len(levels))
    note = _rare(levels) or "holds text" * (sort == "text") or "is true or false"
    return Column(name, "category", True, note, len(levels))


def _count(profile: Profile) -> str:
    return f"more than {profile.most}" if profile.levels is None else str(len(profile.levels))


def _rare(levels: Mapping[Any, int]) -> str:
    rare = sum(count < 5 for count in levels.values())
    if not rare or rare == len(levels):
        return ""
    return f"{rare} of its {len(levels)} values ha{'ve' if rare > 1 else 's'} fewer than 5 rows each"


def _looks_like_id(name: str, dtype: Any, profile: Profile) -> bool:
    """A column of whole numbers, all different, that is called an id."""
    import pyarrow.types

    whole = pyarrow.types.is_integer(dtype) and not profile.nulls and profile.rows >= 3
    return bool(whole and looks_called_id(name) and profile.distinct)


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
