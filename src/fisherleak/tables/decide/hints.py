"""What a table suggests that nobody asked for: spellings that may be one, classes that are coded as numbers, times and events,
numbers that are none: of rows, people and postal districts, or in place of missing ones.

Nothing is decided here: each hint is a sentence with the argument that would follow it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from fisherleak.tables.decide.column_kinds import Column
from fisherleak.tables.decide.identifier_names import is_generic
from fisherleak.tables.decide.profile import SKETCHED, Numbers, Profile
from fisherleak.tables.decide.target import Target
from fisherleak.tables.read.cell_formats import are_codes

__all__ = ["codes_in", "hints_of"]

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
KINDS = re.compile(
    r"\b(?:(?:race|ethnic\w*|\w*type|district|region|county|state|province|country|nation\w*|citizenship|language|"
    r"religion|sector|industry|occupation|occup|job|profession|marital|civil|department|dept|ward|site|cent(?:er|re)|clinic|"
    r"hospital|species|strain|cell|color|colour|category|kind|brand|make|origin|party|zone|canton|borough|municipality|"
    r"diag|diagnosis|disease|treatment|arm|rx|drug|diet|blood(?: group)?|surgeon|doctor|"
    r"rasse|bezirk|kanton|bundesland|beruf|branche|konfession|familienstand|herkunft|abteilung|zivilstand|diagnose|sprache|"
    r"behandlung|blutgruppe|gemeinde|departement|profession|metier|couleur|origine|secteur|diagnostic|langue|traitement|"
    r"commune|raza|etnia|distrito|provincia|profesion|tipo|color|sexo|origen|diagnostico|tratamiento|idioma|municipio|"
    r"regione|provincia|professione|colore|diagnosi|trattamento|lingua|comune|regiao|cor|raca|estado|profissao|tratamento)"
    r"(?: (?:code|no|nr|num|number))?|^group)$",
    re.IGNORECASE,
)
"""Last words of names of what has no order, whose numbers are codes."""
FEWEST_IN_RUN = 20
"""Values of a run that is no chance."""
FEWEST_STAND_INS = 3
"""Rows that hold a number that may stand for a missing one: fewer are said to nobody, as values of people."""


def hints_of(columns: Sequence[Column], profiles: Mapping[str, Profile], target: Target) -> tuple[str, ...]:
    """Sentences about the columns that are used, and the target."""
    used = [column for column in columns if column.kind in ("number", "category")]
    found = [*_spellings(used, profiles), *_codes(target, profiles), *_survival(used, profiles, target)]
    found += [*_counters(used, profiles), *_people(used, profiles), *_postal(used, profiles)]
    found += [*_zeros(used, profiles), *_kinds(used, profiles), *_single(target, profiles)]
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
    """Numbers that count rows, or blocks of rows, from 0 or 1: in order, or each once in any order; others that name blocks."""
    for name, numbers in _whole(used, profiles):
        order, drop = profiles[name].order, f"`drop={[name]!r}` leaves it out"
        if order is None:
            continue
        if numbers.low not in (0, 1):
            # in a table that is sorted by a number its equal values stand together too
            about = 1.0 if len(profiles[name].sketch) < SKETCHED else 1.1
            together = order.runs <= about * profiles[name].different
            if together and not order.ascending and _has_blocks(numbers, order.runs):
                yield (
                    f"'{name}' has another value in every block of rows and is used as a number: if each is one person's, "
                    f"`person={name!r}` says so, and {drop}."
                )
            continue
        if order.breaks == 0 and numbers.count > 1:
            yield (
                f"'{name}' counts on by one from row to row and is used as a number: if it only numbers the rows, {drop}."
            )
        elif numbers.is_run and numbers.count >= FEWEST_IN_RUN:
            yield (
                f"'{name}' has each whole number of a run once and is used as a number: if it only numbers the rows, {drop}."
            )
        elif order.ascending and order.runs == numbers.high - numbers.low + 1 and _has_blocks(numbers, order.runs):
            yield (
                f"'{name}' counts blocks of rows that stand together and is used as a number: if each is one person's, "
                f"`person={name!r}` says so, and {drop}."
            )


def _has_blocks(numbers: Numbers, runs: int) -> bool:
    return runs >= FEWEST_IN_RUN and 2 * runs <= numbers.count


def _whole(used: Sequence[Column], profiles: Mapping[str, Profile]) -> Iterator[tuple[str, Numbers]]:
    """Columns of whole numbers that nobody asked to be such."""
    for column in used:
        numbers = profiles[column.name].numbers if column.assumed and column.kind == "number" else None
        if numbers is not None and numbers.whole:
            yield column.name, numbers


def _people(used: Sequence[Column], profiles: Mapping[str, Profile]) -> Iterator[str]:
    for name, numbers in _whole(used, profiles):
        if numbers.few is None and profiles[name].called and not is_generic(name):
            yield (
                f"'{name}' is called an identifier and is used as a number: if it says whose rows these are, "
                f"`person={name!r}` takes it so, and `drop={[name]!r}` leaves it out."
            )


def _postal(used: Sequence[Column], profiles: Mapping[str, Profile]) -> Iterator[str]:
    for name, numbers in _whole(used, profiles):
        if _is_called(name, (), POSTAL) and numbers.low >= 0 and 10_000 <= numbers.high < 100_000:
            yield (
                f"'{name}' looks like a postal code and is used as a number, as if districts lay on a line: "
                f"`categories={[name]!r}` takes each as its own, `drop={[name]!r}` leaves them out."
            )


def _zeros(used: Sequence[Column], profiles: Mapping[str, Profile]) -> Iterator[str]:
    for column in used:
        levels = profiles[column.name].levels if column.kind == "category" and column.assumed else None
        if levels and are_codes([str(level) for level in levels if level is not None]):
            yield (
                f"'{column.name}' holds digits that begin with zeros and is taken as a category: `numbers={[column.name]!r}` "
                "takes them as numbers."
            )


def codes_in(columns: Sequence[Column], profiles: Mapping[str, Profile]) -> tuple[str, ...]:
    """Columns used as numbers that may be codes: few whole numbers under a name of what has no order; the first of them."""
    names = [
        name
        for name, numbers in _whole(columns, profiles)
        if numbers.few is not None and len(numbers.few) > 2 and KINDS.search(_words(name))
    ]
    return tuple(names[:MOST_CODES])


def _kinds(used: Sequence[Column], profiles: Mapping[str, Profile]) -> Iterator[str]:
    """Those that may be codes, all in one sentence."""
    if some := [*codes_in(used, profiles)]:
        hold, are = ("holds", "is") if len(some) == 1 else ("hold", "are")
        yield (
            f"{', '.join(map(repr, some))} {hold} a few whole numbers and {are} used as a number, with order and distances: if "
            f"they stand for kinds, `categories={some!r}` takes each as its own."
        )


def _words(name: str) -> str:
    """The words of a name, without accents and with a blank between them: cellType and cell_type are the same."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    return re.sub(r"[\W_\d]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", plain)).strip().lower()


def _single(target: Target, profiles: Mapping[str, Profile]) -> Iterator[str]:
    levels = profiles[target.name].levels or {}
    alone = sum(count == 1 for count in levels.values()) if target.classes else 0
    if alone:
        which = "One class" if alone == 1 else f"{alone} classes"
        yield (
            f"{which} of the target '{target.name}' {'has' if alone == 1 else 'have'} one row only: what the model says of "
            f"{'it' if alone == 1 else 'each'} is learned from that row alone. Unite {'it' if alone == 1 else 'them'} with "
            "another class in the table, or leave such rows out."
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
