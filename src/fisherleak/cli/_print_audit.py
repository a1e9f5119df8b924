"""What an audit prints: at most a screen of 24 lines, the verdict first, or with ``-v`` all that it found, in tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fisherleak._support.numbers import number, percent, percent_at_most, plus_minus, share
from fisherleak.cli import _layout as layout
from fisherleak.cli._common import emit, printable
from fisherleak.cli._print import MOST_LISTED, MOST_SHOWN, even, show_attacks
from fisherleak.cli._wording import in_options
from fisherleak.cli.commands.answers import COUNTED

if TYPE_CHECKING:
    from fisherleak.auditing import report_summary as record
    from fisherleak.report.verdict import Verdict


MOST_COLUMNS = 100
"""Columns of a table of them, the most exposed ones: the terminal is no place for thousands of lines."""
PLANNED = "No released file was checked. A release trains on all rows by default: check its file with --released MODEL."


def show_all(summary: record.Summary, verdict: Verdict | None) -> None:
    """The verdict, what the audit was made of, every table, and the assumptions."""
    data, noise, cost, people = summary.data, summary.noise, summary.tradeoff, summary.data.people
    examples = summary.eta.examples
    test = f", {data.test_rows:,} held out" if data.test_rows else ""
    dropped = data.rows_read - data.rows_used
    emit(f"{printable(summary.title)}\n")
    _show_verdict(summary, verdict)
    about = layout.pair_lines(
        [
            ("rows", f"{data.train_rows:,} training{test}" + (f", {dropped:,} dropped" if dropped else "")),
            *([] if people is None else [("people", f"{people:,} in the training rows, by {data.person_column}")]),
            *_kinds(data.columns, {a.name for a in summary.attributes if a.yes_no}),
            ("model", f"{summary.model.description}; {number(summary.model.parameters)} parameters"),
            ("noise", f"{number(noise.scale)} on every coefficient ({noise.chosen})"),
            ("counted", COUNTED[summary.model.public]),
            (
                f"eta of a {'row' if people is None else 'person'}",
                f"{number(examples.mean)} on average, {number(examples.max)} at most",
            ),
            ("eta of all data", number(summary.eta.dataset)),
            *_membership(summary),
            ("utility", f"{_utility(cost, noise.scale)}: {cost.label}"),
            *((each.label.partition(" (")[0], _utility(each, noise.scale)) for each in cost.also),
        ]
    )
    emit("\n".join(about))
    if cost.note:
        layout.paragraph(f"\n{printable(cost.note)}")
    _show_figures(summary)
    if summary.attacks:
        emit("")
        show_attacks(summary.attacks, people is not None)
    balance = summary.balance
    if balance:
        before, after = (
            f"{number(side.mean)} ± {number(side.sd)} {when}"
            for side, when in ((balance.before, "before"), (balance.after, "after"))
        )
        utility = " and ".join(even(each, cost.metric) for each in (balance.utility_before, balance.utility_after))
        layout.paragraph(f"\nReweighted by IRFIL: eta {before}, {after}; utility {utility}.")
    layout.sentences("\nUnder these assumptions:", summary.assumptions)
    if summary.diagnostics.warnings:
        layout.sentences("\nBeware:", summary.diagnostics.warnings)


def _show_verdict(summary: record.Summary, verdict: Verdict | None) -> None:
    """People, limits, cost, and what to do."""
    from fisherleak.report.verdict import (
        PRICED,
        PRICED_PRESENT,
        choices_in_words,
        present_in_words,
        prices_in_words,
        promise_in_words,
    )

    if verdict is None:
        return
    emit(printable(verdict.headline))
    layout.sentences("", verdict.sentences)
    if verdict.command:
        emit(f"\n    {printable(verdict.command)}")
    if summary.prices is not None:
        if summary.prices.limits:
            title = f"\nReleases by a limit (--eta) on the eta of {promise_in_words(summary)}"
            layout.table(title, [head.lower() for head in PRICED], prices_in_words(summary))
        if summary.prices.present:
            limit = number(summary.prices.present[0].eta)
            title = f"\nFor comparison: --over max, eta {limit}, for the rows present only"
            layout.table(title, [head.lower() for head in PRICED_PRESENT], present_in_words(summary))
        if summary.prices.note:
            layout.paragraph(printable(f"\n{summary.prices.note}"))
    if summary.noise.chosen == "default" and summary.choices:
        head = ("noise", "revealed of any numeric value, at most", "utility")
        layout.table("\nChoices of noise (--noise)", head, choices_in_words(summary))
    emit("")


def _membership(summary: record.Summary) -> list[tuple[str, str]]:
    """How often the best attacker is correct about whether a record, or a person, was in the data."""
    found = summary.membership
    if found is None:
        return []
    what = "a record" if summary.data.people is None else "someone, with all rows,"
    worst = found.rows[0]
    return [
        (
            "membership",
            f"whether {what} was in the data: the best attacker is correct at most {percent_at_most(worst.accuracy, 0.5)} "
            f"of the time ({called(worst)}), {percent(found.accuracy_mean, 0.5)} on average; chance is 50 %",
        )
    ]


def _kinds(columns: Sequence[record.TableColumn], yes_no: Collection[str]) -> list[tuple[str, str]]:
    """What the columns are taken for, in a line each; the options that decide otherwise."""
    lines = []
    titles = {"number": ("numeric", "--category"), "category": ("categorical", "--number")}
    for kind, (title, option) in {**titles, "yes_no": ("two values", "--number")}.items():
        told = [(column.name, "yes_no" if column.name in yes_no else column.kind) for column in columns]
        names = [name for name, taken in told if taken == kind]
        more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
        if names:
            lines.append((title, f"{', '.join(names[:MOST_LISTED])}{more} ({option} COLUMN decides otherwise)"))
    return lines


def _show_figures(summary: record.Summary) -> None:
    """Rows, columns and groups."""
    one, many = ("row", "rows") if summary.data.people is None else ("person", "people")
    layout.table(
        f"\nMost exposed {many} ({min(MOST_SHOWN, len(summary.rows))} of {summary.number_measured:,})",
        (one, "eta", "least error in units of the columns"),
        [(called(row), number(row.eta), layout.inverse(row.eta)) for row in summary.rows[:MOST_SHOWN]],
    )
    order = sorted(summary.attributes, key=lambda item: -item.exposure(item.eta_max))
    layout.table(
        "\nLeast error of an unbiased attacker, in the unit of each column",
        ("column", f"worst {one}", f"typical {one}", "standard deviation"),
        [
            (a.name, plus_minus(a.error_least), plus_minus(a.error_typical), number(a.spread))
            for a in order[:MOST_COLUMNS]
        ],
    )
    _show_rest(order)
    _show_shares(summary, one)
    if summary.groups:
        layout.table(
            "\nGroups",
            ("group", many, "eta jointly", "mean eta", "largest eta"),
            [
                (g.name, number(g.count), *(number(eta) for eta in (g.eta_joint, g.eta_mean, g.eta_max)))
                for g in summary.groups
            ],
        )


def _show_shares(summary: record.Summary, one: str) -> None:
    """How much of each number is revealed, the label's too."""
    shown = [(value.revealed, value.name) for value in summary.values if value.revealed is not None]
    if not shown:
        return
    shown.sort(key=lambda pair: -pair[0].max)
    layout.table(
        "\nShare of a value revealed to someone who knows everything else",
        ("column", f"worst {one}", "95 %", "median", f"{summary.whose} above half", "spread"),
        [
            (name, *(share(part) for part in (r.max, r.q95, r.median)), number(r.count), number(r.spread))
            for r, name in shown[:MOST_COLUMNS]
        ],
    )
    _show_rest(shown)


def _show_rest(columns: Sequence[object]) -> None:
    """How many columns were not listed: the least exposed of many."""
    if len(columns) > MOST_COLUMNS:
        emit(f"  and {number(len(columns) - MOST_COLUMNS)} more, less exposed ones (--json and --out have all)")


def show_gate(gate: record.CheckedGate, people: bool = False) -> None:
    """Whether the limit is kept, and the rows, or people, that exceed it."""
    one, many = ("person", "people") if people else ("row", "rows")
    if not gate.exceeded:
        emit(f"\nNo {one}'s eta is above {number(gate.max_eta, 6)}.")
        return
    whose = f"{number(gate.count)} {many if gate.count > 1 else one}"
    layout.paragraph(f"\n{whose} above the limit of {number(gate.max_eta, 6)}, the most exposed first:")
    for row in gate.rows[:MOST_LISTED]:
        emit(f"  {called(row)}: {number(row.eta)}")
    if gate.count > MOST_LISTED:
        emit(f"  and {number(gate.count - MOST_LISTED)} more")


def show_policy(policy: record.CheckedPolicy, planned: bool) -> None:
    """Every rule of a policy, those that failed first, and what they were checked for."""
    emit(f"\nPolicy {printable(policy.source)}: {policy.passed_count} of {policy.count} rules passed")
    layout.paragraph(printable(policy.note), "  ")
    if planned:
        layout.paragraph(PLANNED, "  ")
    for rule in policy.rules:
        start = f"  {'passed' if rule.passed else 'FAILED'}  "
        layout.paragraph(f"{printable(rule.rule)}: {printable(rule.note)}", start)


def show_confirmation(found: record.ConfirmedRelease, model: str) -> None:
    """What the audit of a released model says about its card."""
    layout.sentences(f"\nConfirmed of {printable(model)}:", found.confirmed)
    if found.failed is None:
        layout.sentences("What no audit can confirm:", found.unconfirmed)


def _utility(cost: record.UtilityCurve | record.SecondCurve, scale: float) -> str:
    points = [point for point in cost.points if point.utility is not None]
    near = min(points, key=lambda point: abs(point.scale - scale), default=None)
    noisy = even(None if near is None else near.utility, cost.metric)
    without, constant = (even(value, cost.metric) for value in (cost.without_noise, cost.baseline))
    return f"{noisy} with the noise, {without} without, {constant} for the baseline"


def called(row: record.ExposedRow | record.GateRow | record.MemberRow) -> str:
    if row.rows is not None:
        return f"{printable(row.id)} ({row.rows} row{'s' * (row.rows > 1)})"
    return printable(row.called)


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
    from fisherleak.report.verdict import verdict_of

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
        ends = [f"{end}  # for internal use; {MORE}" for end in ends] or [MORE]
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
    """How much of a released file's model card the audit confirms, in a line, and what an earlier version's can hide."""
    found = summary.released
    if found is None:
        return []
    confirmed, others = number(len(found.confirmed)), number(len(found.unconfirmed))
    from fisherleak.releasing.files.earlier_files import OF_EARLIER

    free = [said for said in found.unconfirmed if said.startswith(OF_EARLIER)]
    return [
        *(f"Not checked: {said[0].lower()}{said[1:]}" for said in free),
        f"Of the model card, {confirmed} statements were confirmed; {others} cannot be checked by any audit (-v).",
    ]


def _exposed_rows(summary: record.Summary) -> str:
    rows = ", ".join(f"{called(row)} (eta {number(row.eta)})" for row in summary.rows[:MOST])
    who = "rows" if summary.data.people is None else "people"
    return f"Most exposed {who}, by their values: {rows}" if rows else ""


def _exposed_columns(summary: record.Summary) -> str:
    """The numbers that are revealed most, with the least error of an unbiased attacker."""
    order = sorted(
        (each for each in summary.attributes if each.kind == "number"), key=lambda each: -each.exposure(each.eta_max)
    )
    named = ", ".join(f"{each.name} {plus_minus(each.error_least)}" for each in order[:MOST])
    return f"Most exposed columns (an unbiased attacker's least error, in their units): {named}" if named else ""


def _costs(summary: record.Summary) -> str:
    """A few of the limits, or of the choices of noise: the least, the most, and one between them."""
    from fisherleak.report.verdict import choices_in_words, prices_in_words, promise_in_words

    prices = prices_in_words(summary)
    if prices:
        some = prices if len(prices) <= MOST else prices[1:-1]
        limits = "; ".join(f"{limit} leaves {left.partition(' (')[0]}" for limit, _, left, *_ in some)
        return f"Releases with --eta, for {promise_in_words(summary)}: {limits}. A lower limit reveals less."
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
