"""Summaries on a terminal: a few lines and tables; no colours in a pipe."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from fisherleak._support.numbers import in_hundred, number, percent, plus_minus, share
from fisherleak.cli import _layout as layout
from fisherleak.cli._common import emit, printable, say
from fisherleak.cli._wording import in_options

if TYPE_CHECKING:
    from fisherleak.auditing import report_summary as record
    from fisherleak.training.utility import Tradeoff

__all__ = [
    "say_reading",
    "show_answers",
    "show_attacks",
    "show_audit",
    "show_confirmation",
    "show_gate",
    "show_ledger",
    "show_policy",
    "show_reading",
    "show_release",
]

MOST_SHOWN = 5
COUNTED = {
    "nothing": "end to end: what scaling learned is counted, levels are public (--public preprocessing counts the model alone)",
    "preprocessing": "the model alone: what preprocessing learned is taken as public",
}
PLANNED = "No released file was checked. A release trains on all rows by default: check its file with --released MODEL."
MOST_LISTED = 20
MOST_COLUMNS = 100
"""Columns of a table of them, the most exposed ones: the terminal is no place for thousands of lines."""


def show_audit(summary: record.Summary) -> None:
    """The digest of an audit."""
    data, noise, cost, people = summary.data, summary.noise, summary.tradeoff, summary.data.people
    examples = summary.eta.examples
    test = f", {data.test_rows:,} held out" if data.test_rows else ""
    dropped = data.rows_read - data.rows_used
    emit(f"{printable(summary.title)}\n")
    _show_verdict(summary)
    layout.pairs(
        [
            ("rows", f"{data.train_rows:,} training{test}" + (f", {dropped:,} dropped" if dropped else "")),
            *([] if people is None else [("people", f"{people:,} in the training rows, by {data.person_column}")]),
            *_kinds(data.columns, {a.name for a in summary.attributes if a.yes_no}),
            ("model", f"{summary.model.description}; {number(summary.model.parameters)} parameters"),
            ("noise", f"{layout.digits(noise.scale)} on every coefficient ({noise.chosen})"),
            ("counted", COUNTED[summary.model.public]),
            (
                f"eta of a {'row' if people is None else 'person'}",
                f"{layout.digits(examples.mean)} on average, {layout.digits(examples.max)} at most",
            ),
            ("eta of all data", layout.digits(summary.eta.dataset)),
            *_presence(summary),
            ("utility", f"{_utility(cost, noise.scale)}: {cost.label}"),
            *([] if cost.also is None else [(cost.also.label, _utility(cost.also, noise.scale))]),
        ]
    )
    _show_figures(summary)
    if summary.attacks:
        emit("")
        show_attacks(summary.attacks, people is not None)
    balance = summary.balance
    if balance:
        before, after = (
            f"{layout.digits(side.mean)} ± {layout.digits(side.sd)} {when}"
            for side, when in ((balance.before, "before"), (balance.after, "after"))
        )
        utility = " and ".join(_even(each, cost.metric) for each in (balance.utility_before, balance.utility_after))
        layout.paragraph(f"\nReweighted by IRFIL: eta {before}, {after}; utility {utility}.")
    layout.sentences("\nUnder these assumptions:", summary.assumptions)
    if summary.diagnostics.warnings:
        layout.sentences("\nBeware:", summary.diagnostics.warnings)


def show_ledger(document: dict[str, Any], etas: Sequence[float]) -> None:
    """What has been spent on whom, with a picture of how it is spread."""
    releases, eta, left, renamed = (document[name] for name in ("releases", "eta", "left", "renamed"))
    layout.pairs(
        [
            ("releases", f"{number(len(releases))}, the last {releases[-1]['at']}: {releases[-1]['what']}"),
            (
                "rows",
                number(document["rows"])
                + (f"; {number(left)} more left the table, and keep their record" if left else "")
                + (f"; {number(renamed)} carry the total of another id that had their values" if renamed else ""),
            ),
            (
                "eta of a row",
                f"{layout.digits(eta['mean'])} on average, {layout.digits(eta['max'])} at most, all releases together",
            ),
        ]
    )
    _show_spread(document, etas)
    _show_past(document)
    emit("\nDerived from the data: as confidential as the table.")


def _show_spread(document: dict[str, Any], etas: Sequence[float]) -> None:
    """How etas are spread, and who has the largest."""
    emit("")
    layout.histogram(etas)
    rows = [
        (item["id"], layout.digits(item["eta"]), layout.inverse(item["eta"]))
        for item in document["most_exposed"][:MOST_SHOWN]
    ]
    layout.table("\nMost exposed", ("id", "eta", "least error"), rows)


def _show_past(document: dict[str, Any]) -> None:
    """Who is past a limit, where there is one."""
    if document["limit"] is None:
        return
    past = document["past_limit"]
    said = f"{number(len(past))} past the limit of {layout.digits(document['limit'])}"
    layout.paragraph("\n" + said + (f": {printable(', '.join(past[:MOST_LISTED]))}" if past else ": nobody is."))


def show_answers(document: dict[str, Any], etas: Sequence[float]) -> None:
    """Who is exposed by a log of queries: a sentence first, then whom and what about them."""
    eta, half = document["eta"], document["above_half"]
    learns = "someone who knows everything else learns more than half of what is unknown about a number of theirs."
    nobody = (
        "Even someone who knows everything else learns less than half of what is unknown about any number of anyone."
    )
    asked = f"{number(document['queries'])} of {number(document['distinct'])}"
    said = f"{number(half)} of {number(document['rows'])} people: {learns}" if half else nobody
    unknown = "What share of a value these answers reveal is not known; least errors are below."
    layout.paragraph((unknown if half is None else said) + "\n")
    layout.pairs(
        [
            (
                "answers",
                f"{asked} different queries: {document['how']}",
            ),
            ("rows", number(document["rows"])),
            (
                "eta of a row",
                f"{layout.digits(eta['mean'])} on average, {layout.digits(eta['max'])} at most, all answers together",
            ),
            ("counted", COUNTED[document["public"]]),
        ]
    )
    _show_spread(document, etas)
    columns = [
        (
            c["name"],
            layout.inverse(c["eta"]),
            "" if c["share"] is None else share(c["share"]),
            c["id"],
        )
        for c in document["columns"][:MOST_SHOWN]
    ]
    layout.table("\nWorst value of a column", ("column", "least error", "revealed", "id"), columns)
    _show_past(document)
    if document["times"]:
        layout.paragraph(f"Such a log could be answered {number(document['times'])} times before someone passes it.")
    emit("\nDerived from the data: as confidential as the table.")


def _show_verdict(summary: record.Summary) -> None:
    """People, limits, cost, and what to do."""
    from fisherleak.report.wording.verdict import choices_in_words, verdict_of

    verdict = verdict_of(summary)
    if verdict is None:
        return
    emit(printable(verdict.headline))
    layout.sentences("", (*verdict.lines, verdict.cost, *([verdict.advice] if verdict.advice else [])))
    if summary.noise.chosen == "default" and summary.choices:
        head = ("noise", "revealed of any number of anyone, at most", "utility")
        layout.table("\nChoices of noise (--noise)", head, choices_in_words(summary))
    emit(f"\n    {printable(verdict.command)}\n" if verdict.command else "")


def _presence(summary: record.Summary) -> list[tuple[str, str]]:
    """How often the best attacker is right about whether a record, or a person, was in the table."""
    found = summary.membership
    if found is None:
        return []
    what = "a record" if summary.data.people is None else "someone, with all rows,"
    worst = found.rows[0]
    return [
        (
            "presence",
            f"whether {what} was in the table: the best attacker is right "
            f"{in_hundred(worst.right)} of 100 times about {_name(worst)}, {in_hundred(found.right_mean)} on average; "
            "50 is guessing",
        )
    ]


def _kinds(columns: Sequence[record.TableColumn], yes_no: Collection[str]) -> list[tuple[str, str]]:
    """What the columns are taken for, in a line each; the options that decide otherwise."""
    lines = []
    titles = {"number": ("numbers", "--category"), "category": ("categories", "--number")}
    for kind, (title, option) in {**titles, "yes_no": ("yes or no", "--number")}.items():
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
        (one, "eta", "least error in standard units"),
        [(_name(row), layout.digits(row.eta), layout.inverse(row.eta)) for row in summary.rows[:MOST_SHOWN]],
    )
    order = sorted(summary.attributes, key=lambda item: -item.exposure(item.eta_max))
    layout.table(
        "\nColumns, in their own units: no unbiased attacker does better than",
        ("column", f"worst {one}", f"typical {one}", "the column varies by"),
        [
            (a.name, plus_minus(a.error_least), plus_minus(a.error_typical), layout.digits(a.spread))
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
                (g.name, number(g.count), *(layout.digits(eta) for eta in (g.eta_joint, g.eta_mean, g.eta_max)))
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
        ("column", f"worst {one}", "95 %", "median", "people above half", "spread"),
        [
            (name, *(share(part) for part in (r.max, r.q95, r.median)), number(r.count), layout.digits(r.spread))
            for r, name in shown[:MOST_COLUMNS]
        ],
    )
    _show_rest(shown)


def _show_rest(columns: Sequence[object]) -> None:
    """How many columns were not listed: the least exposed of many."""
    if len(columns) > MOST_COLUMNS:
        emit(f"  and {number(len(columns) - MOST_COLUMNS)} more, less exposed ones (--json and --out tell all)")


def show_gate(gate: record.CheckedGate, people: bool = False) -> None:
    """Whether the limit is kept, and the rows, or people, that exceed it."""
    one, many = ("person", "people") if people else ("row", "rows")
    if not gate.exceeded:
        emit(f"\nNo {one}'s eta is above {number(gate.max_eta, 6)}.")
        return
    whose = f"{number(gate.count)} {many if gate.count > 1 else one}"
    layout.paragraph(f"\n{whose} above the limit of {number(gate.max_eta, 6)}, the most exposed first:")
    for row in gate.rows[:MOST_LISTED]:
        emit(f"  {_name(row)}: {layout.digits(row.eta)}")
    if gate.count > MOST_LISTED:
        emit(f"  and {number(gate.count - MOST_LISTED)} more")


def show_policy(policy: record.CheckedPolicy, planned: bool) -> None:
    """Every rule of a policy, those that are not kept first, and what they were checked for."""
    emit(f"\nPolicy {printable(policy.source)}: {policy.kept} of {policy.count} rules kept")
    layout.paragraph(printable(policy.note), "  ")
    if planned:
        layout.paragraph(PLANNED, "  ")
    for rule in policy.rules:
        start = f"  {'kept    ' if rule.passed else 'NOT KEPT'}  "
        layout.paragraph(f"{printable(rule.rule)}: {printable(rule.note)}", start)


def show_confirmation(found: record.ConfirmedRelease, model: str) -> None:
    """What the audit of a released model says about its card."""
    layout.sentences(f"\nConfirmed of {printable(model)}:", found.confirmed)
    if found.failed is None:
        layout.sentences("What no audit can confirm:", found.unconfirmed)


def show_attacks(attacks: Sequence[record.AttackResult], people: bool = False) -> None:
    """What each attacker gets, beside guessing without the model."""
    rows = []
    for a in attacks:
        interval = f"{100 * a.low:.1f} to {percent(a.high)}"
        got = (percent(a.accuracy), interval, percent(a.baseline), percent(a.worst))
        rows.append((a.attribute, a.attacker, *got))
    layout.table(
        "Attacks: right guesses, with their 95 % interval",
        ("about", "attacker", "right", "interval", "guessing", "worst person" if people else "worst row"),
        rows,
    )
    layout.sentences("", list(dict.fromkeys(f"{a.attacker}: {a.note}" for a in attacks)))


def show_reading(sentences: Sequence[str]) -> None:
    """What was decided about a table, where that stands in no document."""
    if sentences:
        layout.sentences("\nHow the table was read:", [in_options(sentence) for sentence in sentences])


def say_reading(sentences: Sequence[str], quiet: bool) -> None:
    """The same on standard error, beside a document on standard output that others read."""
    for sentence in () if quiet else sentences:
        say(in_options(sentence), status=0)


def show_release(card: dict[str, Any], cost: Tradeoff, model: str) -> None:
    """What was released, under which limit, and what it costs."""
    eta, noisy = card["eta"], cost.points[0].utility
    size, rows = number(card["model"]["parameters"]), number(card["data"]["rows"])
    where = "held-out rows" if cost.held_out else "the training rows"
    emit(f"Released {printable(model)} with its card {printable(model)}.json\n")
    layout.pairs(
        [
            (
                "model",
                f"{card['model']['kind']}, {size} parameters, about {rows} rows",
            ),
            ("noise", _noise_of(card)),
            (
                "limit",
                "none: the noise was given"
                if eta["limit"] is None
                else f"{number(eta['limit'], 6)} on {eta['limit_on']}",
            ),
            (
                "utility",
                f"{_paid(cost)}: {cost.metric.label}, on {where}",
            ),
            *([] if cost.also is None else [(cost.also.metric.label, _paid(cost.also))]),
        ]
    )
    if "signature" in card:
        layout.paragraph(
            f"\nSigned: 'fisherleak verify {printable(model)} --key PUB' tells others, with your public key as PUB."
        )
    layout.sentences("\nUnder these assumptions:", card["assumptions"])
    better = noisy > cost.constant if cost.metric.higher_is_better else noisy < cost.constant
    if not better:
        possible = card["shape"]["name"] == "isotropic" and len(card["target"]["classes"] or ()) < 3
        shaped = "try --shape hessian, " if possible else ""
        layout.paragraph(
            "\nBeware: with this noise the model is no better than a constant. Make single rows matter less with a larger --l2 "
            f"({10 * card['settings']['l2']:g}, say), allow a larger --eta, declare --bounds, {shaped}or collect more rows."
        )


def _noise_of(card: dict[str, Any]) -> str:
    size, shape = layout.digits(card["noise"]["scale"]), card["shape"]
    if shape["name"] == "isotropic":
        return f"{size} on every coefficient"
    return f"of scale {size}, shaped: {shape['name']}" + (f" of {printable(shape['from'])}" if shape["from"] else "")


def _paid(cost: Tradeoff) -> str:
    """What one noise costs."""
    return (
        f"{_even(cost.points[0].utility, cost.metric.name)} on average with such noise, "
        f"{_even(cost.without_noise, cost.metric.name)} without, {_even(cost.constant, cost.metric.name)} for a constant"
    )


def _even(utility: float | None, metric: str) -> str:
    """A utility without what rounding leaves of zero; accuracy in hundredths, as everywhere; none of too few rows."""
    if utility is None:
        return "unknown"
    return percent(utility) if metric == "accuracy" else layout.digits(round(utility, 12) + 0.0)


def _utility(cost: record.UtilityCurve | record.SecondCurve, scale: float) -> str:
    points = [point for point in cost.points if point.utility is not None]
    near = min(points, key=lambda point: abs(point.scale - scale), default=None)
    noisy = _even(None if near is None else near.utility, cost.metric)
    without, constant = (_even(value, cost.metric) for value in (cost.without_noise, cost.constant))
    return f"{noisy} with the noise, {without} without, {constant} for a constant"


def _name(row: record.ExposedRow | record.GateRow | record.MemberRow) -> str:
    if row.rows is not None:
        return f"{printable(row.id)} ({row.rows} row{'s' * (row.rows > 1)})"
    return f"row {row.row}" if row.id is None else f"{printable(row.id)} (row {row.row})"
