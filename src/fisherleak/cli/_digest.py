"""What an audit prints by default: at most a screen of 24 lines, the verdict first; ``-v`` prints all tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fisherleak._support.numbers import number, plus_minus
from fisherleak.cli import _layout as layout
from fisherleak.cli._audit_tables import called, show_all, show_confirmation, show_gate, show_policy
from fisherleak.cli._common import emit, printable
from fisherleak.cli._wording import in_options

if TYPE_CHECKING:
    from fisherleak.auditing import report_summary as record
    from fisherleak.report.wording.verdict import Verdict

MOST = 3
"""Rows, columns and choices of noise that are named."""
MORE = "-v prints every table"


def show_audit(
    summary: record.Summary,
    decided: Sequence[str] = (),
    *,
    verbose: bool,
    released: Path | None = None,
    out: Path | None = None,
) -> None:
    """The digest of an audit, or all of it; ``decided`` is what was decided about the table, in sentences."""
    from fisherleak.report.wording.verdict import verdict_of

    verdict = verdict_of(summary)
    ends = [] if out is None else [f"open {printable(out / 'report.html')}"]
    if verbose or verdict is None:
        show_all(summary, verdict)
        if summary.gate:
            show_gate(summary.gate, people=summary.data.people is not None)
        if summary.policy:
            show_policy(summary.policy, planned=released is None)
        if summary.released:
            show_confirmation(summary.released, str(released))
    else:
        ends = [f"{end}  # {MORE}" for end in ends] or [MORE]
        _show_digest(summary, verdict, [in_options(each) for each in decided])
    emit("\n".join(["", *ends]))


def _show_digest(summary: record.Summary, verdict: Verdict, decided: Sequence[str]) -> None:
    """The verdict, the most exposed, what noise costs and what to do next; two lines are left for what follows."""
    first = [printable(summary.title), "", *layout.lines("", verdict.headline)]
    last = [*layout.lines("", f"Next: {verdict.advice}" if verdict.advice else "")]
    last += [f"    {printable(verdict.command)}"] if verdict.command else []
    said = [*verdict.lines, verdict.cost, *summary.diagnostics.warnings, *_found(summary)]
    middle = [layout.lines("  - ", sentence) for sentence in said if sentence]
    plain = [_costs(summary), _made_of(summary), *decided]
    exposed = [*layout.lines("", _exposed_rows(summary)), *layout.lines("", _exposed_columns(summary))]
    room = layout.SCREEN - len(first) - len(exposed) - len(last) - bool(last) - 2
    for lines in layout.that_fit([*middle, *(layout.lines("", line) for line in plain if line)], room):
        first += lines
    emit("\n".join([*first, *exposed, *([""] if last else []), *last]))


def _found(summary: record.Summary) -> list[str]:
    """How much of a released file's model card the audit confirms, in a line."""
    found = summary.released
    if found is None:
        return []
    confirmed, others = number(len(found.confirmed)), number(len(found.unconfirmed))
    return [f"Of the model card, {confirmed} statements were confirmed; {others} cannot be checked by any audit (-v)."]


def _exposed_rows(summary: record.Summary) -> str:
    rows = ", ".join(f"{called(row)} (eta {number(row.eta)})" for row in summary.rows[:MOST])
    return f"Most exposed {'rows' if summary.data.people is None else 'people'}: {rows}" if rows else ""


def _exposed_columns(summary: record.Summary) -> str:
    """The numbers that are revealed most, with the least error of an unbiased attacker."""
    order = sorted(
        (each for each in summary.attributes if each.kind == "number"), key=lambda each: -each.exposure(each.eta_max)
    )
    named = ", ".join(f"{each.name} {plus_minus(each.error_least)}" for each in order[:MOST])
    return f"Most exposed columns (least error): {named}" if named else ""


def _costs(summary: record.Summary) -> str:
    """A few of the limits, or of the choices of noise: the least, the most, and one between them."""
    from fisherleak.report.wording.verdict import choices_in_words, prices_in_words, promise_in_words

    prices = prices_in_words(summary)
    if prices:
        some = prices if len(prices) <= MOST else prices[1:-1]
        return f"Limits on the eta of {promise_in_words(summary)}: " + "; ".join(
            f"{limit} leaves {left.partition(' (')[0]}" for limit, _, left, *_ in some
        )
    choices = [words for words in choices_in_words(summary) if words[2] != "not measured"]
    if not choices or summary.noise.chosen != "default":
        return ""
    shown = choices if len(choices) <= MOST else [choices[1], choices[len(choices) // 2], choices[-1]]
    return "Noise scales: " + "; ".join(
        f"{noise} reveals at most {most} and leaves {left.partition(' (')[0]}" for noise, most, left in shown
    )


def _made_of(summary: record.Summary) -> str:
    """What was read, and how."""
    data = summary.data
    kinds = [column.kind for column in data.columns]
    counts = [
        f"{number(kinds.count(kind))} {word} column{'s' * (kinds.count(kind) != 1)}"
        for kind, word in (("number", "numeric"), ("category", "categorical"))
        if kind in kinds
    ]
    left = [
        f"{number(count)} {what}{'s' * (count != 1)} left out"
        for count, what in ((data.rows_read - data.rows_used, "row"), (kinds.count("ignored"), "column"))
        if count
    ]
    held = [f"{number(data.test_rows)} held out"] if data.test_rows else []
    return f"Read: {', '.join([f'{number(data.train_rows)} training rows', *held, *counts, *left])}."
