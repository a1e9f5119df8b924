"""Summaries on a terminal: a few lines and tables; no colours in a pipe."""

from __future__ import annotations

import io
import shutil
import sys
import textwrap
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from fisherleak.cli._common import emit, printable

if TYPE_CHECKING:
    from fisherleak.audit.utility import Tradeoff

__all__ = [
    "show_answers",
    "show_attacks",
    "show_audit",
    "show_confirmation",
    "show_gate",
    "show_ledger",
    "show_policy",
    "show_release",
]

MOST_SHOWN = 5
COUNTED = {
    "nothing": "end to end: what scaling learned is counted, levels are public (--public preprocessing counts the model alone)",
    "preprocessing": "the model alone: what preprocessing learned is taken as public",
}
MOST_LISTED = 20


def show_audit(summary: dict[str, Any]) -> None:
    """The digest of an audit."""
    data, eta, cost = summary["data"], summary["eta"], summary["tradeoff"]
    examples, people = eta["examples"], data["people"]
    test = f", {data['test_rows']} held out" if data["test_rows"] else ""
    dropped = data["rows_read"] - data["rows_used"]
    emit(f"{printable(summary['title'])}\n")
    _show_verdict(summary)
    _pairs(
        [
            ("rows", f"{data['train_rows']} training{test}" + (f", {dropped} dropped" if dropped else "")),
            *([] if people is None else [("people", f"{people} in the training rows, by {data['person_column']}")]),
            *_kinds(data["columns"], {a["name"] for a in summary["attributes"] if a.get("yes_no")}),
            ("model", f"{summary['model']['description']}; {summary['model']['parameters']} parameters"),
            ("noise", f"{_number(summary['noise']['scale'])} on every coefficient ({summary['noise']['chosen']})"),
            ("counted", COUNTED[summary["model"]["public"]]),
            (
                f"eta of a {'row' if people is None else 'person'}",
                f"{_number(examples['mean'])} on average, {_number(examples['max'])} at most",
            ),
            ("eta of all data", _number(eta["dataset"])),
            *_presence(summary["membership"]),
            ("utility", f"{_utility(cost, summary['noise']['scale'])}: {cost['label']}"),
            *([(cost["also"]["label"], _utility(cost["also"], summary["noise"]["scale"]))] if "also" in cost else []),
        ]
    )
    _show_figures(summary)
    if summary["attacks"]:
        emit("")
        show_attacks(summary["attacks"])
    balance = summary["balance"]
    if balance:
        emit(
            f"\nReweighted by IRFIL: eta {_number(balance['before']['mean'])} ± {_number(balance['before']['sd'])} before, "
            f"{_number(balance['after']['mean'])} ± {_number(balance['after']['sd'])} after; utility "
            f"{_number(balance['utility_before'])} and {_number(balance['utility_after'])}."
        )
    _sentences("\nUnder these assumptions:", summary["assumptions"])
    if summary["diagnostics"]["warnings"]:
        _sentences("\nBeware:", summary["diagnostics"]["warnings"])


def show_ledger(document: dict[str, Any], etas: Sequence[float]) -> None:
    """What has been spent on whom, with a picture of how it is spread."""
    releases, eta = document["releases"], document["eta"]
    _pairs(
        [
            ("releases", f"{len(releases)}, the last {releases[-1]['at']}: {releases[-1]['what']}"),
            ("rows", str(document["rows"])),
            (
                "eta of a row",
                f"{_number(eta['mean'])} on average, {_number(eta['max'])} at most, all releases together",
            ),
        ]
    )
    emit("")
    _histogram(etas)
    rows = [(item["id"], _number(item["eta"]), _inverse(item["eta"])) for item in document["most_exposed"][:MOST_SHOWN]]
    _table("\nMost exposed", ("id", "eta", "least error"), rows)
    if document["limit"] is not None:
        past = document["past_limit"]
        said = f"{len(past)} past the limit of {_number(document['limit'])}"
        emit("\n" + said + (f": {printable(', '.join(past[:MOST_LISTED]))}" if past else ": nobody is."))
    emit("\nDerived from the data: as confidential as the table.")


def show_answers(document: dict[str, Any], etas: Sequence[float]) -> None:
    """Who is exposed by a log of queries: a sentence first, then whom and what about them."""
    eta, half = document["eta"], document["above_half"]
    learns = "someone who knows everything else learns more than half of what is unknown about a number of theirs."
    nobody = (
        "Even someone who knows everything else learns less than half of what is unknown about any number of anyone."
    )
    emit((f"{half} of {document['rows']} people: {learns}" if half else nobody) + "\n")
    _pairs(
        [
            ("answers", f"{document['queries']} of {document['distinct']} different queries: {document['how']}"),
            ("rows", str(document["rows"])),
            (
                "eta of a row",
                f"{_number(eta['mean'])} on average, {_number(eta['max'])} at most, all answers together",
            ),
            ("counted", COUNTED[document["public"]]),
        ]
    )
    emit("")
    _histogram(etas)
    rows = [(item["id"], _number(item["eta"]), _inverse(item["eta"])) for item in document["most_exposed"][:MOST_SHOWN]]
    _table("\nMost exposed", ("id", "eta", "least error"), rows)
    columns = [
        (c["name"], _inverse(c["eta"]), "" if c["share"] is None else _percent(c["share"]), str(c["row"]))
        for c in document["columns"][:MOST_SHOWN]
    ]
    _table("\nWorst value of a column", ("column", "least error", "revealed", "row"), columns)
    if document["limit"] is not None:
        past = document["past_limit"]
        said = f"{len(past)} past the limit of {_number(document['limit'])}"
        emit("\n" + said + (f": {printable(', '.join(past[:MOST_LISTED]))}" if past else ": nobody is."))
    if document["times"]:
        emit(f"Such a log could be answered {document['times']} times before someone passes it.")
    emit("\nDerived from the data: as confidential as the table.")


def _histogram(values: Sequence[float], bins: int = 12, width: int = 48) -> None:
    """Bars of text, one for each part of the range."""
    top = max(values) or 1.0
    counts = [0] * bins
    for value in values:
        counts[min(int(bins * value / top), bins - 1)] += 1
    for k, count in enumerate(counts):
        bar = "#" * (max(1, round(width * count / max(counts))) if count else 0)
        emit(f"  {_number(top * k / bins):>9} to {_number(top * (k + 1) / bins):<9} {bar} {count}")


def _show_verdict(summary: dict[str, Any]) -> None:
    """People, limits, cost, and what to do."""
    from fisherleak.report.verdict import choices_in_words, verdict_of

    verdict = verdict_of(summary)
    if verdict is None:
        return
    emit(printable(verdict.headline))
    _sentences("", (*verdict.lines, verdict.cost, *([verdict.advice] if verdict.advice else [])))
    if summary["noise"]["chosen"] == "default" and summary["choices"]:
        head = ("noise", "revealed of any number of anyone, at most", "utility")
        _table("\nChoices of noise (--noise)", head, choices_in_words(summary))
    emit(f"\n    {printable(verdict.command)}\n" if verdict.command else "")


def _presence(found: dict[str, Any] | None) -> list[tuple[str, str]]:
    """How often the best attacker is right about whether a record was in the table."""
    if found is None:
        return []
    worst = found["rows"][0]
    return [
        (
            "presence",
            "whether a record was in the table: the best attacker is right "
            f"{_in_hundred(worst['right'])} of 100 times about {_name(worst)}, {_in_hundred(found['right_mean'])} on average; "
            "50 is guessing",
        )
    ]


def _in_hundred(part: float) -> str:
    return f"{100 * part:.0f}" if part < 0.995 else "more than 99"


def _kinds(columns: Sequence[dict[str, Any]], yes_no: Collection[str]) -> list[tuple[str, str]]:
    """What the columns are taken for, in a line each; the options that decide otherwise."""
    lines = []
    titles = {"number": ("numbers", "--category"), "category": ("categories", "--number")}
    for kind, (title, option) in {**titles, "yes_no": ("yes or no (0, 1)", "--number")}.items():
        told = [(column["name"], "yes_no" if column["name"] in yes_no else column["kind"]) for column in columns]
        names = [name for name, taken in told if taken == kind]
        more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
        if names:
            lines.append((title, f"{', '.join(names[:MOST_LISTED])}{more} ({option} COLUMN decides otherwise)"))
    return lines


def _show_figures(summary: dict[str, Any]) -> None:
    """Rows, columns and groups."""
    data, people = summary["data"], summary["data"]["people"]
    one, many, count = ("row", "rows", data["train_rows"]) if people is None else ("person", "people", people)
    _table(
        f"\nMost exposed {many} ({min(MOST_SHOWN, len(summary['rows']))} of {count})",
        (one, "eta", "least error in standard units"),
        [(_name(row), _number(row["eta"]), _inverse(row["eta"])) for row in summary["rows"][:MOST_SHOWN]],
    )
    order = sorted(summary["attributes"], key=lambda item: -item["eta_max"] * (item["spread"] or 1.0))
    _table(
        "\nColumns, in their own units: no unbiased attacker does better than",
        ("column", f"worst {one}", f"typical {one}", "the column varies by"),
        [
            (a["name"], f"± {_number(a['error_least'])}", f"± {_number(a['error_typical'])}", _number(a["spread"]))
            for a in order
        ],
    )
    _show_shares(summary)
    if summary["groups"]:
        _table(
            "\nGroups",
            ("group", many, "eta jointly", "mean eta", "largest eta"),
            [
                (g["name"], str(g["count"]), *(_number(g[key]) for key in ("eta_joint", "eta_mean", "eta_max")))
                for g in summary["groups"]
            ],
        )


def _show_shares(summary: dict[str, Any]) -> None:
    """How much of each number is revealed, the label's too."""
    shown = [a for a in (*summary["attributes"], summary["label"]) if a["revealed"] is not None]
    if not shown:
        return
    _table(
        "\nShare of a value revealed to someone who knows everything else (normal guess of that spread; van Trees)",
        ("column", "worst row", "95 %", "median", "people above half", "spread"),
        [
            (a["name"], *(_percent(r[key]) for key in ("max", "q95", "median")), str(r["count"]), _number(r["spread"]))
            for a, r in ((a, a["revealed"]) for a in sorted(shown, key=lambda a: -a["revealed"]["max"]))
        ],
    )


def show_gate(gate: dict[str, Any], people: bool = False) -> None:
    """Whether the limit is kept, and the rows, or people, that exceed it."""
    one, many = ("person", "people") if people else ("row", "rows")
    if not gate["exceeded"]:
        emit(f"\nNo {one}'s eta is above {gate['max_eta']:g}.")
        return
    emit(
        f"\n{gate['count']} {many if gate['count'] > 1 else one} above the limit of {gate['max_eta']:g}, the most "
        "exposed first:"
    )
    for row in gate["rows"][:MOST_LISTED]:
        emit(f"  {_name(row)}: {_number(row['eta'])}")
    if gate["count"] > MOST_LISTED:
        emit(f"  and {gate['count'] - MOST_LISTED} more")


def show_policy(policy: dict[str, Any]) -> None:
    """Every rule of a policy, those that are not kept first."""
    emit(f"\nPolicy {printable(policy['source'])}: {policy['kept']} of {policy['count']} rules kept")
    for rule in policy["rules"]:
        emit(f"  {'kept    ' if rule['passed'] else 'NOT KEPT'}  {printable(rule['rule'])}: {printable(rule['note'])}")


def show_confirmation(found: dict[str, Any], model: str) -> None:
    """What the audit of a released model says about its card."""
    _sentences(f"\nConfirmed of {printable(model)}:", found["confirmed"])
    if found["failed"] is None:
        _sentences("What no audit can confirm:", found["unconfirmed"])


def show_attacks(outcomes: Sequence[dict[str, Any]]) -> None:
    """What each attacker gets, beside guessing without the model."""
    rows = []
    for o in outcomes:
        got = f"{o['accuracy']:.1%} ({o['low']:.1%} to {o['high']:.1%})"
        rows.append((o["attribute"], o["attacker"], got, f"{o['baseline']:.1%}"))
    _table("Attacks", ("column", "attacker", "right guesses (95 %)", "without the release"), rows)
    _sentences("", list(dict.fromkeys(f"{o['attacker']}: {o['note']}" for o in outcomes)))


def show_release(card: dict[str, Any], cost: Tradeoff, model: str) -> None:
    """What was released, under which limit, and what it costs."""
    eta, noisy = card["eta"], cost.points[0].utility
    where = "held-out rows" if cost.held_out else "the training rows"
    emit(f"Released {printable(model)} with its card {printable(model)}.json\n")
    _pairs(
        [
            (
                "model",
                f"{card['model']['kind']}, {card['model']['parameters']} parameters, about {card['data']['rows']} rows",
            ),
            ("noise", _noise_of(card)),
            (
                "limit",
                "none: the noise was given" if eta["limit"] is None else f"{eta['limit']:g} on {eta['limit_on']}",
            ),
            (
                "utility",
                f"{_paid(cost)}: {cost.metric.label}, on {where}",
            ),
            *([] if cost.also is None else [(cost.also.metric.label, _paid(cost.also))]),
        ]
    )
    if "signature" in card:
        emit(f"\nSigned: 'fisherleak verify {printable(model)} --key PUB' tells others, with your public key as PUB.")
    _sentences("\nUnder these assumptions:", card["assumptions"])
    better = noisy > cost.constant if cost.metric.higher_is_better else noisy < cost.constant
    if not better:
        shaped = "" if card["shape"]["name"] != "isotropic" else "try --shape hessian, "
        emit(
            "\nBeware: with this noise the model is no better than a constant. Make single rows matter less with a larger --l2 "
            f"({10 * card['settings']['l2']:g}, say), allow a larger --eta, declare --bounds, {shaped}or collect more rows."
        )


def _noise_of(card: dict[str, Any]) -> str:
    size, shape = _number(card["noise"]["scale"]), card["shape"]
    if shape["name"] == "isotropic":
        return f"{size} on every coefficient"
    return f"of scale {size}, shaped: {shape['name']}" + (f" of {printable(shape['from'])}" if shape["from"] else "")


def _paid(cost: Tradeoff) -> str:
    """What one noise costs."""
    return (
        f"{_number(cost.points[0].utility)} on average with such noise, {_number(cost.without_noise)} without, "
        f"{_number(cost.constant)} for a constant"
    )


def _utility(cost: dict[str, Any], scale: float) -> str:
    points = [p for p in cost["points"] if p["utility"] is not None]
    near = min(points, key=lambda p: abs(p["scale"] - scale), default=None)
    noisy = "unknown" if near is None else _number(near["utility"])
    return (
        f"{noisy} with the noise, {_number(cost['without_noise'])} without, {_number(cost['constant'])} for a constant"
    )


def _name(row: dict[str, Any]) -> str:
    if "rows" in row:
        return f"{printable(row['id'])} ({row['rows']} row{'s' * (row['rows'] > 1)})"
    return f"row {row['row']}" if row["id"] is None else f"{printable(row['id'])} (row {row['row']})"


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.4g}"


def _percent(share: float) -> str:
    """Never 100 % where something stays unknown."""
    return f"{100 * share:.1f} %" if share < 0.9995 else "> 99.9 %"


def _inverse(value: float) -> str:
    return f"± {1 / value:.4g}" if value > 0 else "any"


def _pairs(items: Sequence[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in items)
    for name, text in items:
        emit(_wrapped(f"  {name:<{width}}  ", printable(text)))


def _sentences(title: str, sentences: Sequence[str]) -> None:
    if title:
        emit(title)
    for sentence in sentences:
        emit(_wrapped("  - ", printable(sentence)))


def _wrapped(start: str, text: str) -> str:
    """A line that a terminal breaks between words, below its own beginning; whole in a pipe."""
    if not sys.stdout.isatty():
        return start + text
    width = max(shutil.get_terminal_size().columns, len(start) + 20)
    return textwrap.fill(
        text,
        width,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    emit(title)
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 2))
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    terminal = sys.stdout.isatty()
    buffer = io.StringIO()
    console = Console(file=buffer, force_terminal=terminal, width=None if terminal else 160, legacy_windows=False)
    console.print(table)
    emit(buffer.getvalue().rstrip("\n"))
