"""What a table suggests that nobody asked for: spellings that may be one, classes that are coded as numbers, times and events,
numbers that are none: of rows, people and postal districts, or in place of missing ones.

Nothing is decided here: each hint is a sentence with the argument that would follow it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from fisherleak.tables.decide.choices import names_somebody
from fisherleak.tables.decide.column_kinds import Column
from fisherleak.tables.decide.profile import Numbers, Profile
from fisherleak.tables.decide.target import Target

__all__ = ["hints_of"]

TIMES = {
    "time",
    "times",
    "stop",
    "futime",
    "survtime",
    "survival",
    "survival_time",
    "duration",
    "tenure",
    "t",
    "rfstime",
}
TIMES |= {"followup", "follow_up", "week", "weeks", "months", "durat", "time_to_event", "days_to_event", "survivaltime"}
EVENTS = {"event", "status", "death", "died", "dead", "cens", "censor", "censored", "delta", "e", "observed", "fustat"}
EVENTS |= {"uncensored", "arrest", "failure", "fail", "relapse", "churn", "cens1", "d"}
SPAN = re.compile(
    r"(?:duration|surv|survival|followup|follow_up|futime|fu|os|pfs|dfs|rfs|efs|time)_?"
    r"(?:time|in_)?_?(?:days?|weeks?|months?|mos?|years?|yrs?|time)?|(?:days|weeks|months|time|years)_(?:to|until|survived)\w*"
    r"|days|lenfol|lenfu"
)
"""Names of times that say of what, or in what unit."""
OUTCOME = re.compile(
    r"(?:os|pfs|dfs|rfs|efs|vital|surv|survival|death|event|censor|censoring)_?(?:status|event|flag|indicator|cens|censor)?"
    r"|is_(?:dead|censored|event)|fstat|deceased"
)
MOST_CODES = 10
POSTAL = re.compile(
    r"(?:\w+_)?(?:zip|zip_?code|zip_?5|zcta5?|post_?code|postal|postal_?code|plz|postleitzahl|code_?postal)(?:_\w+)?"
)
"""Names of postal codes."""
YEAR = re.compile(r"(?:^|_)(?:year|yr|jahr)", re.IGNORECASE)
"""Names of columns in which 99 is 1999."""
FEWEST_STAND_INS = 3
"""Rows that hold a number that may stand for a missing one: fewer are said to nobody, as values of people."""


def hints_of(columns: Sequence[Column], profiles: Mapping[str, Profile], target: Target) -> tuple[str, ...]:
    """Sentences about the columns that are used, and the target."""
    used = [column for column in columns if column.kind in ("number", "category")]
    found = [*_spellings(used, profiles), *_codes(target, profiles), *_survival(used, profiles, target)]
    found += [*_counters(used, profiles), *_people(used, profiles), *_postal(used, profiles)]
    numbers = [column.name for column in used if column.kind == "number"]
    return (*found, *_stand_ins(numbers if target.classes else [*numbers, target.name], profiles))


def _spellings(used: Sequence[Column], profiles: Mapping[str, Profile]) -> Iterator[str]:
    for column in used:
        levels = [level for level in profiles[column.name].levels or () if isinstance(level, str)]
        kinds = Counter(" ".join(level.casefold().split()) for level in levels)
        if column.kind == "category" and len(kinds) < len(levels):
            yield (
                f"'{column.name}' has {len(levels) - len(kinds)} values that differ from others in case or blanks only: "
                f"`unite={[column.name]!r}` takes them as one."
            )


def _codes(target: Target, profiles: Mapping[str, Profile]) -> Iterator[str]:
    numbers = profiles[target.name].numbers
    if target.classes or numbers is None or numbers.few is None or not numbers.whole:
        return
    if 3 <= len(numbers.few) <= MOST_CODES:
        yield (
            f"'{target.name}' has {len(numbers.few)} different whole numbers. If they stand for classes, a {target.kind} model "
            "takes their order and distances for real: `model='softmax'` takes them as classes."
        )


def _survival(used: Sequence[Column], profiles: Mapping[str, Profile], target: Target) -> Iterator[str]:
    names = [*(column.name for column in used), target.name]
    times = [name for name in names if _is_called(name, TIMES, SPAN) and _at_least_zero(profiles[name])]
    events = [
        name
        for name in names
        if _is_called(name, EVENTS, OUTCOME)
        and _two_values(profiles[name], name == target.name and bool(target.classes))
    ]
    pairs = [(time, event) for time in times for event in events if time != event]
    if not pairs:
        return
    time, event = pairs[0]
    others = [name for name in (time, event) if name != target.name]
    yield (
        f"'{time}' and '{event}' look like the time and the event of a survival table, which no model here takes together: "
        f"what is known only afterwards is no predictor, and `drop={others!r}` leaves it out."
    )


def _is_called(name: str, words: Collection[str], form: re.Pattern[str]) -> bool:
    called = re.sub(r"[\s.]+", "_", name.strip().lower())
    return called in words or form.fullmatch(called) is not None


def _at_least_zero(profile: Profile) -> bool:
    return profile.numbers is not None and profile.numbers.count > 0 and profile.numbers.low >= 0


def _two_values(profile: Profile, known: bool) -> bool:
    few: Any = profile.numbers.few if profile.numbers is not None else profile.levels
    return known or (few is not None and len(few) == 2)


def _counters(used: Sequence[Column], profiles: Mapping[str, Profile]) -> Iterator[str]:
    for column in used:
        order = profiles[column.name].order
        if column.assumed and column.kind == "number" and order is not None and order.counts_rows:
            yield (
                f"'{column.name}' counts on by one from row to row and is used as a number: if it only numbers the rows, "
                f"`drop={[column.name]!r}` leaves it out."
            )


def _whole(used: Sequence[Column], profiles: Mapping[str, Profile]) -> Iterator[tuple[str, Numbers]]:
    """Columns of whole numbers that nobody asked to be such."""
    for column in used:
        numbers = profiles[column.name].numbers
        if column.assumed and column.kind == "number" and numbers is not None and numbers.whole:
            yield column.name, numbers


def _people(used: Sequence[Column], profiles: Mapping[str, Profile]) -> Iterator[str]:
    for name, numbers in _whole(used, profiles):
        if numbers.few is None and names_somebody(name):
            yield (
                f"'{name}' is called an identifier and is used as a number: if it tells whose rows these are, "
                f"`person={name!r}` takes it so, and `drop={[name]!r}` leaves it out."
            )


def _postal(used: Sequence[Column], profiles: Mapping[str, Profile]) -> Iterator[str]:
    for name, numbers in _whole(used, profiles):
        if _is_called(name, (), POSTAL) and numbers.low >= 0 and 10_000 <= numbers.high < 100_000:
            yield (
                f"'{name}' looks like a postal code and is used as a number, as if districts lay on a line: "
                f"`categories={[name]!r}` takes each as its own, `drop={[name]!r}` leaves them out."
            )


def _stand_ins(names: Sequence[str], profiles: Mapping[str, Profile]) -> Iterator[str]:
    """Numbers such as 999 that lie at least as far from all others as these from each other."""
    for name in names:
        numbers = profiles[name].numbers
        if numbers is None or not numbers.least < numbers.most:
            continue
        for value, count in sorted(numbers.stand_ins.items()):
            if value == 99 and YEAR.search(name):
                continue
            away = max(value - numbers.most, numbers.least - value)
            if count >= FEWEST_STAND_INS and away >= numbers.most - numbers.least:
                yield (
                    f"'{name}' has {count} cells of {value:.0f}, far from all others: if that means missing, "
                    f"`na=['{value:.0f}']` says so, for every column."
                )
