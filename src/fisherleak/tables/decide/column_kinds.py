"""What each column is: a number, a category, the target, an identifier, or nothing that a linear model can use.

A guess is said in a sentence (``note``) and can be overridden; what the user says is never overridden.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from fisherleak.errors import InvalidInputError
from fisherleak.tables.decide.choices import MOST_FORCED, Choices, is_plain, sort_of
from fisherleak.tables.decide.identifier_names import INDEX_LEVEL, is_generic, names_somebody
from fisherleak.tables.decide.profile import LONG, SKETCHED, Numbers, Profile
from fisherleak.tables.read.cell_formats import amounts_as_text
from fisherleak.tables.read.parts import RawTable

__all__ = [
    "FEWEST_KEPT",
    "MOST_GROUPS",
    "MOST_LEVELS",
    "Column",
    "ColumnKind",
    "decide",
    "kept_leaving",
    "looks_like_id",
    "use_leaving",
    "use_of_texts",
]

ColumnKind = Literal["number", "category", "target", "id", "person", "group", "ignored"]
MOST_LEVELS = 50
"""A text column with more different values is not taken as a category unless the user says so."""
MOST_GROUPS = 50
MOST_POOLED = 0.5
"""Share of the rows whose levels may be pooled."""
FEWEST_KEPT = 5
"""Rows of a level that is kept where others are pooled."""
MOST_REPEATED = 20
"""Different values up to which a column that is called an id, with several rows for each, stays a number."""
FEWEST_IN_RUN = 10
FULL_RUN = 0.9
"""Part of the whole numbers from the least to the largest that a column has that numbers rows in any order."""
TIMES = re.compile(r"time|date|epoch|stamp|datum|zeit|fecha|data\b|^ts$", re.IGNORECASE)
"""Names of times, whose seconds or days have as many digits."""

YES_NO = frozenset({0.0, 1.0})
"""Numbers that often stand for no and yes; any other two are measured so too."""
YES_NO_NOTE = "only: a number in the model, measured as a column of two values; `numbers` measures it as a number"


@dataclass(frozen=True)
class Column:
    """One column of the table and what it is taken for."""

    name: str
    kind: ColumnKind
    assumed: bool
    note: str
    levels: int | None = None
    kept: tuple[str, ...] | None = None
    """The levels of a category that are kept where others are pooled."""
    yes_no: bool = False
    """Whether it is a number in the model, one of two, and measured as a category: how often attackers guess it."""


def decide(raw: RawTable, profiles: Mapping[str, Profile], choices: Choices) -> list[Column]:
    """The kind of every column, in the table's order."""
    return [_decided(name, raw.kind(name), profiles.get(name), choices) for name in raw.names]


def _decided(name: str, dtype: Any, profile: Profile | None, choices: Choices) -> Column:
    if profile is None or name in choices.drop:
        kind: ColumnKind = "group" if name == choices.group else "ignored"
        return Column(name, kind, False, "left out as asked" if kind == "ignored" else "forms the groups; no feature")
    if name in (choices.id, choices.person):
        return _identifier(name, dtype, profile, "id" if name == choices.id else "person")
    if profile.missing == profile.rows:
        return _empty(name, choices)
    if name == choices.target:
        return Column(name, "target", False, "what the model predicts")
    column = _told(name, dtype, profile, choices) or _guessed(name, dtype, profile, choices)
    if name == choices.group:
        also = "forms the groups"
        if column.kind == "ignored":
            return replace(column, kind="group", note=f"{also}; no feature: {column.note}")
        return replace(column, note=f"{column.note}; {also} too" if column.note else f"{also} too")
    return column


def _empty(name: str, choices: Choices) -> Column:
    """A column without values is left out like one with a single value, unless it was asked for."""
    if name == choices.target:
        raise InvalidInputError(f"Column '{name}' has no values at all, and it is the target.")
    if name in choices.numbers:
        raise InvalidInputError(
            f"Column '{name}' has no numbers: leave it out with `drop={[name]!r}`, or use `categories`."
        )
    if name in choices.categories:
        raise InvalidInputError(f"Column '{name}' has no values at all: leave it out with `drop={[name]!r}`.")
    return Column(name, "group" if name == choices.group else "ignored", True, "has no values at all")


def _identifier(name: str, dtype: Any, profile: Profile, role: Literal["id", "person"]) -> Column:
    if profile.missing:
        raise InvalidInputError(
            f"The {role} column '{name}' has {profile.missing} missing values: every row needs one."
        )
    if not is_plain(dtype):
        raise InvalidInputError(f"The {role} column '{name}' holds {dtype}, not text or numbers.")
    note = "names the rows" if role == "id" else "says whose rows they are; all rows of a person count as one set"
    return Column(name, role, False, note)


def _told(name: str, dtype: Any, profile: Profile, choices: Choices) -> Column | None:
    """The kind that the user gave."""
    if name in choices.numbers:
        if sort_of(dtype) not in ("number", "text", "bool"):
            raise InvalidInputError(f"`numbers` names '{name}', which holds {dtype}: make it a number first.")
        return Column(name, "number", False, "")
    if name in choices.categories:
        if not is_plain(dtype):
            raise InvalidInputError(f"`categories` names '{name}', which holds {dtype}: make it text first.")
        _check_count(f"`categories` names '{name}'", profile)
        levels = profile.levels or {}
        return Column(name, "category", False, _rare(levels), len(levels))
    return None


def _check_count(asked: str, profile: Profile) -> None:
    if profile.levels is None or len(profile.levels) > MOST_FORCED:
        raise InvalidInputError(
            f"{asked}, which has {_count(profile)} different values: at most {MOST_FORCED} are possible."
        )


def _guessed(name: str, dtype: Any, profile: Profile, choices: Choices) -> Column:
    sort = sort_of(dtype)
    if INDEX_LEVEL.match(name):
        return Column(
            name,
            "ignored",
            True,
            "is the index of a pandas frame, which had no name; `numbers` or `categories` keeps it",
        )
    if sort == "number":
        why = looks_like_id(name, profile)
        if why:
            return Column(name, "ignored", True, f"{why}; `numbers` keeps it")
        few = None if profile.numbers is None else profile.numbers.few
        if few is not None and len(few) == 2:
            note = f"holds {'0 and 1' if few == YES_NO else 'two values'} {YES_NO_NOTE}"
            return Column(name, "number", True, note, yes_no=True)
        return Column(name, "number", True, "holds numbers")
    if sort == "date":
        return Column(name, "ignored", True, f"holds {dtype}; make it a number to use it")
    if sort == "other":
        return Column(name, "ignored", True, f"holds {dtype}, which a linear model cannot use")
    levels, present = profile.levels, profile.rows - profile.nulls
    count = None if levels is None else len(levels)
    if name in choices.declared:  # how often a category occurs decides nothing of those that are declared
        _check_count(f"`levels` names '{name}'", profile)
        return Column(name, "category", True, _rare(levels or {}), count)
    use = use_of_texts(profile, name != choices.group)
    if use == "one value":
        return Column(name, "ignored", True, "has one value only", 1)
    if levels is None or use == "names":
        texts = f"has {_count(profile)} different texts in {present} rows, as names and identifiers do"
        amounts = amounts_as_text([level for level in levels or () if isinstance(level, str)]) if levels else ""
        if amounts:
            texts = f"has {_count(profile)} different texts in {present} rows, which {amounts}"
        return Column(name, "ignored", True, f"{texts}; `categories` keeps it", count)
    if use == "identifier":
        note = f"is called an identifier and has {count} different texts; `categories` keeps it"
        return Column(name, "ignored", True, note, count)
    if use == "rare":
        note = f"has {count} different texts, of which the most frequent cover too few rows; `categories` keeps it"
        return Column(name, "ignored", True, note, count)
    if use == "category":
        note = _rare(levels) or "holds text" * (sort == "text") or "is true or false"
        return Column(name, "category", True, note, count)
    kept = _kept(levels)
    share = 1 - sum(levels[level] for level in kept) / present
    note = (
        f"has {count} different texts, of which {len(kept)} are kept and {len(levels) - len(kept)}, with {share:.1%} of "
        "the rows, are pooled into '(other)'; `categories` keeps all"
    )
    return Column(name, "category", True, note, len(kept) + 1, kept)


def use_of_texts(
    profile: Profile, pooling: bool
) -> Literal["one value", "names", "identifier", "rare", "pooled", "category"]:
    """What a column of texts is used as, by how often each of them occurs: the last two are, the others are not."""
    levels, present = profile.levels, profile.rows - profile.nulls
    if levels is not None and len(levels) == 1:
        return "one value"
    if levels is None or (len(levels) > 2 and 2 * len(levels) > present):
        return "names"
    if len(levels) > MOST_REPEATED and profile.called:
        return "identifier"
    if len(levels) <= MOST_LEVELS:
        return "category"
    kept = _kept(levels)
    many = present - sum(levels[level] for level in kept) > MOST_POOLED * present
    return "rare" if not pooling or len(kept) < 2 or many else "pooled"


def _kept(levels: Mapping[Any, int]) -> tuple[Any, ...]:
    """The levels that are kept where the others, those of few rows, are pooled."""
    return tuple(level for level in _often(levels)[: MOST_LEVELS - 1] if levels[level] >= FEWEST_KEPT)


def _often(levels: Mapping[Any, int]) -> list[Any]:
    return sorted(levels, key=lambda level: (-levels[level], level))


def use_leaving(levels: Mapping[Any, int], present: int) -> set[Any]:
    """Levels of which one row less leaves the column unused, as one of names: a text of one row takes its level along."""
    edge = len(levels) > 2 and 2 * len(levels) > present - 1
    return {level for level, count in levels.items() if edge and count > 1}


def kept_leaving(levels: Mapping[Any, int], kept: Collection[Any], present: int, most: int = 1) -> set[Any]:
    """Levels of which one row less changes which levels are kept, and whether any are pooled; ``kept`` are those now.

    With ``most``, one person less who has up to so many rows: those of a person without whom nothing changes may be among them.
    """
    if 2 * (present - sum(levels[level] for level in kept)) > (present - most):  # too many would be pooled
        return {*kept}
    next_one = _often(levels)[MOST_LEVELS - 1 :][:1]
    behind = {level for level in kept for other in next_one if (most - levels[level], level) > (-levels[other], other)}
    short = {level for level in kept if levels[level] < FEWEST_KEPT + most}
    last = {level for level in levels if levels[level] <= most and MOST_LEVELS < len(levels) <= MOST_LEVELS + most}
    return behind | short | last


def _count(profile: Profile) -> str:
    return f"more than {profile.most}" if profile.levels is None else str(len(profile.levels))


def _rare(levels: Mapping[Any, int]) -> str:
    rare = sum(count < 5 for count in levels.values())
    if not rare or rare == len(levels):
        return ""
    return f"{rare} of its {len(levels)} values ha{'ve' if rare > 1 else 's'} fewer than 5 rows each"


def looks_like_id(name: str, profile: Profile) -> str:
    """Why a column of whole numbers is an identifier: under such a name hardly any repeat, or many with their rows together.

    Under a name that is an identifier's and nothing else, many values make it one in any order of the rows; so do, under any
    name but one of times, numbers of as many digits as telephone and insurance numbers have. A few slips that are not whole,
    17.5 among 5,000 say, make no measurement of it.
    """
    numbers, order = profile.numbers, profile.order
    long = numbers is not None and is_long(numbers) and not TIMES.search(name)
    if numbers is None or numbers.count < 3 or not (profile.called or long):
        return ""
    nameless = name.startswith("column ")
    if not numbers.nearly_whole and not nameless:  # R numbers the rows of one person 1, 1.1, 1.2
        return ""
    own = profile.distinct or (len(profile.sketch) >= 10 and profile.nearly_distinct)
    if is_generic(name) and not long and not _numbers_rows(profile, own):
        return ""  # a name that may be anything: only the numbers of a run, but for slips, make it one
    digits = f" of {numbers.digits} digits" if long else ""
    if own:
        return (
            f"looks like an identifier: {'every' if profile.distinct else 'almost every'} row has its own value{digits}"
        )
    if profile.different <= MOST_REPEATED or not numbers.nearly_whole:
        return ""
    about = 1.02 if len(profile.sketch) < SKETCHED else 1.1  # past what is followed, their number is an estimate
    if order is not None and order.runs <= about * profile.different:
        why = "rows with the same value stand together"
    elif names_somebody(name):
        why = "its name says so, and its values repeat"
    elif long:
        why = f"it has many values{digits}, and they repeat"
    else:
        return ""
    person = f"`person={name!r}` takes rows with the same value as one person's"
    return f"looks like an identifier that several rows share ({why}); {person}"


def is_long(numbers: Numbers) -> bool:
    return numbers.digits >= LONG and numbers.count >= FEWEST_IN_RUN


def _numbers_rows(profile: Profile, own: bool) -> bool:
    """Whether whole numbers count the rows in their order, or are those of a run in any order: as in a shuffled table."""
    numbers, order = profile.numbers, profile.order
    if numbers is None or order is None:
        return False
    if order.breaks <= 2 * numbers.fractions:
        return True
    return own and numbers.count >= FEWEST_IN_RUN and numbers.count >= FULL_RUN * (numbers.high - numbers.low + 1)
