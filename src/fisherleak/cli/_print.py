"""What several commands print: a few lines and tables; no colours in a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fisherleak._support.numbers import (
    number,
    number_at_most,
    percent,
)
from fisherleak.cli import _layout as layout
from fisherleak.cli._common import emit, say
from fisherleak.cli._wording import in_options

if TYPE_CHECKING:
    from fisherleak.auditing import report_summary as record

MOST_SHOWN = 5
MOST_LISTED = 20
FEW = 3
"""Rows that are named on one screen."""
CONFIDENTIAL = "Derived from the data: as confidential as the table."
READ = "How the table was read:"


def first_sentence(text: str) -> str:
    """What stands before the first full stop that another sentence follows."""
    before, stop, _ = text.partition(". ")
    return before + "." * bool(stop)


def eta_words(eta: dict[str, float], over: str) -> str:
    return f"{number(eta['mean'])} on average, at most {number_at_most(eta['max'])}, all {over} together"


def exposed_rows(listed: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Who has the largest etas: a line each, under its head."""
    rows = [(item["id"], number(item["eta"]), layout.inverse(item["eta"])) for item in listed]
    return [[line] for line in layout.table_lines(("id", "eta", "least error"), rows)]


def gate_lines(document: dict[str, Any], many: str, verbose: bool) -> list[str]:
    """Whether anyone is past a limit, where there is one."""
    if document["limit"] is None:
        return []
    past, limit = document["past_limit"], number(document["limit"])
    if not past:
        return [*layout.lines("", f"Passed: none of the {many} is above the limit of {limit}."), ""]
    shown = past[: MOST_LISTED if verbose else MOST_SHOWN]
    others = f" and {number(len(past) - len(shown))} more" * (len(past) > len(shown))
    which = f"{number(len(past))} of {number(document[many])} {many}"
    said = (
        f"Failed: {which} {'is' if len(past) == 1 else 'are'} above the limit of {limit}: {', '.join(shown)}{others}."
    )
    return [*layout.lines("", said), ""]


def screen_or_all(
    first: Sequence[str],
    blocks: Sequence[list[str]],
    verbose: bool,
    last: Sequence[str] = (),
    more: Sequence[str] = ("-v prints all of it.",),
) -> None:
    """All blocks, or those that fit a screen, with lines that say where the others are."""
    if verbose:
        emit("\n".join([*first, *(line for block in blocks for line in block), *last]))
    else:
        layout.screen(first, blocks, [*last, *more])


def attack_table(attacks: Sequence[record.AttackResult], people: bool) -> list[str]:
    from fisherleak.auditing.report_summary import attacked_whole

    head = ("about", "attacker", "correct", "95 % interval", "baseline", "worst person" if people else "worst row")
    rows = []
    for a, whose in zip(attacks, attacked_whole(attacks), strict=True):
        low, high = (percent(each, a.baseline) for each in (a.low, a.high))
        worst = "–" if a.worst is None else percent(a.worst, a.baseline)
        got = (percent(a.accuracy, a.baseline), f"{low[:-2]} to {high}", percent(a.baseline), worst)
        rows.append((f"{a.attribute}, {whose}" if whose else a.attribute, a.attacker, *got))
    return layout.table_lines(head, rows)


def attackers_in_words(attacks: Sequence[record.AttackResult]) -> list[str]:
    return list(dict.fromkeys(f"{a.attacker}: {a.note}" for a in attacks))


def show_attacks(attacks: Sequence[record.AttackResult], people: bool = False) -> None:
    """What each attacker gets, beside the baseline without the model."""
    emit("\n".join(["Attacks: how often each attacker is correct", *attack_table(attacks, people)]))
    layout.sentences("", attackers_in_words(attacks))


def how_it_was_read(sentences: Sequence[str]) -> list[list[str]]:
    """What was decided about a table, where that stands in no document."""
    found = [layout.lines("  - ", in_options(sentence)) for sentence in sentences]
    return [["", READ, *found[0]], *found[1:]] if found else []


def say_reading(sentences: Sequence[str], quiet: bool) -> None:
    """The same on standard error, beside a document on standard output that others read."""
    for sentence in () if quiet else sentences:
        say(in_options(sentence), status=0)


def even(utility: float | None, metric: str) -> str:
    """A utility without what rounding leaves of zero; accuracy in hundredths, as everywhere; none of too few rows."""
    if utility is None:
        return "unknown"
    return percent(utility) if metric == "accuracy" else number(round(utility, 12) + 0.0)
