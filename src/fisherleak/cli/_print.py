"""What commands print but audits: a few lines and tables; no colours in a pipe."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fisherleak._support.numbers import (
    number,
    number_at_least,
    number_at_most,
    percent,
    percent_at_most,
    share,
)
from fisherleak.cli import _layout as layout
from fisherleak.cli._common import emit, printable, say
from fisherleak.cli._wording import in_options

if TYPE_CHECKING:
    from fisherleak.auditing import report_summary as record
    from fisherleak.training.utility import Tradeoff

MOST_SHOWN = 5
COUNTED = {
    "nothing": "end to end: what scaling learned is counted, categories are public",
    "preprocessing": "the model alone: what preprocessing learned is taken as public",
}
MOST_LISTED = 20
FEW = 3
"""Rows that are named on one screen."""
CONFIDENTIAL = "Derived from the data: as confidential as the table."
READ = "How the table was read:"
ANY_RECORD = "admissible"
"""On a model card: the limit is for any record within the bounds."""
UNIT = "A unit is about the column's standard deviation or, with declared bounds, their width divided by the square root of 12."
"""In which a limit on rows counts numbers (section 1.4)."""


def show_verification(confirmed: Sequence[str], failed: str | None, unchecked: Sequence[str], *, verbose: bool) -> None:
    """Whether a released model verifies, then what was checked and what was not; the first sentence of each, or all of it."""
    if failed is not None:
        return layout.sentences("Checked before that:", confirmed) if verbose and confirmed else None
    said = [[each if verbose else first_sentence(each) for each in part] for part in (confirmed, unchecked)]
    blocks = [layout.lines("  - ", each) for each in said[0]]
    blocks += [["Not checked:"], *(layout.lines("  - ", each) for each in said[1])]
    return _screen_or_all(["Verified."], blocks, verbose, more=["-v says more of each."])


def first_sentence(text: str) -> str:
    """What stands before the first full stop that another sentence follows."""
    before, stop, _ = text.partition(". ")
    return before + "." * bool(stop)


def show_ledger(document: dict[str, Any], etas: Sequence[float], *, verbose: bool) -> None:
    """What has been spent on each row, with a picture of how it is spread."""
    releases, eta, left, renamed = (document[name] for name in ("releases", "eta", "left", "renamed"))
    one, many = ("person", "people") if "people" in document else ("row", "rows")
    more = f"; {number(left)} more {'rows ' if one == 'person' else ''}left the table, and keep their record"
    other = f"; {number(renamed)} carry the total of another id that had their values"
    about = layout.pair_lines(
        [
            ("releases", f"{number(len(releases))}, the last {releases[-1]['at']}: {_short(releases[-1]['what'])}"),
            (many, number(document[many]) + more * bool(left) + other * bool(renamed)),
            (f"eta of a {one}", _etas(eta, "releases")),
        ]
    )
    spread = ["", *layout.histogram(etas, bins=12 if verbose else 6), ""]
    shown = MOST_LISTED if verbose else FEW
    blocks = [spread, ["Most exposed"], *_exposed(document["most_exposed"][:shown])]
    first = [*_gate(document, many, verbose), *about]
    _screen_or_all(first, blocks, verbose, ["", *layout.lines("", CONFIDENTIAL)])


def _short(what: str) -> str:
    """What was released, its numbers to three digits."""
    return re.sub(r"\d+\.\d{3,}", lambda found: number(float(found[0])), what)


def _etas(eta: dict[str, float], over: str) -> str:
    return f"{number(eta['mean'])} on average, at most {number_at_most(eta['max'])}, all {over} together"


def _exposed(listed: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Who has the largest etas: a line each, under its head."""
    rows = [(item["id"], number(item["eta"]), layout.inverse(item["eta"])) for item in listed]
    return [[line] for line in layout.table_lines(("id", "eta", "least error"), rows)]


def _gate(document: dict[str, Any], many: str, verbose: bool) -> list[str]:
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


def _screen_or_all(
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


def show_answers(
    document: dict[str, Any], etas: Sequence[float], read: Sequence[str], *, verbose: bool, out: Path | None
) -> None:
    """Who is exposed by a log of queries: a sentence first, then whom and what about them."""
    asked = f"{number(document['queries'])} of {number(document['distinct'])}"
    about = [
        ("answers", f"{asked} different queries: {document['how']}"),
        ("rows", number(document["rows"])),
        ("eta of a row", _etas(document["eta"], "answers")),
        *([("counted", COUNTED[document["public"]])] if verbose else []),
    ]
    first = [
        *_gate(document, "rows", verbose),
        *layout.lines("", _revealed(document)),
        "",
        *layout.pair_lines(about),
        "",
    ]
    if document["times"]:
        times = f"Such a log could be answered {number(document['times'])} times before a row passes the limit."
        first[-1:] = [*layout.lines("", times), ""]
    columns = [
        (c["name"], layout.inverse(c["eta"]), "" if c["share"] is None else _at_most(c["share"]), c["id"])
        for c in document["columns"][: MOST_LISTED if verbose else MOST_SHOWN]
    ]
    worst = layout.table_lines(("column", "least error", "revealed", "id"), columns)
    rows = ", ".join(f"{item['id']} (eta {number(item['eta'])})" for item in document["most_exposed"][:FEW])
    blocks = [["Worst value of a column", *worst], ["", *layout.lines("", f"Most exposed rows: {rows}")]]
    if verbose:
        blocks += [["", *layout.histogram(etas)], ["", "Most exposed"], *_exposed(document["most_exposed"])]
    blocks += _read(read)
    ends = [] if out is None else [f"open {printable(out / 'report.html')}"]
    _screen_or_all(first, blocks, verbose, ["", *layout.lines("", CONFIDENTIAL), *ends])


def _at_most(part: float) -> str:
    """A share that is an upper bound, never all of it."""
    return percent_at_most(part) if part < 0.99 else share(part)


def _revealed(document: dict[str, Any]) -> str:
    """What share of a number these answers reveal, in a sentence."""
    half, shares = document["above_half"], [c["share"] for c in document["columns"] if c["share"] is not None]
    if half is None or not shares:
        return "What share of a value these answers reveal is not known; least errors are below."
    if half:
        rows = f"{number(half)} of {number(document['rows'])} rows"
        return f"In {rows}, more than half of a numeric value is revealed to an attacker who knows everything else."
    most = _at_most(max(shares))
    return f"At most {most} of any numeric value is revealed, on average, to an attacker who knows everything else."


def show_attack(
    attacks: Sequence[record.AttackResult],
    notes: Sequence[str],
    read: Sequence[str],
    *,
    people: bool,
    verbose: bool,
) -> None:
    """How often attackers are correct: the best of each column first."""
    first = [line for sentence in _best(attacks) for line in layout.lines("", sentence)]
    blocks = [layout.lines("", in_options(note)) for note in notes]
    blocks += [["", *_attack_table(attacks, people)[:1]], *([line] for line in _attack_table(attacks, people)[1:])]
    if verbose:
        blocks += [layout.lines("  - ", each) for each in _attackers(attacks)]
    _screen_or_all(first, [*blocks, *_read(read)], verbose)


def _best(attacks: Sequence[record.AttackResult]) -> list[str]:
    """Of each column, the attacker who gains most from the release; those without a model have no worst row."""
    found = []
    for name in dict.fromkeys(a.attribute for a in attacks):
        own = [a for a in attacks if a.attribute == name and a.worst is not None]
        if not own:
            continue
        best = max(own, key=lambda a: a.accuracy - a.baseline)
        right, without = percent(best.accuracy, best.baseline), percent(best.baseline)
        found.append(
            f"{name}: an attacker is correct {right} of the time ({best.attacker}); without the release {without}."
        )
    return found


def _attack_table(attacks: Sequence[record.AttackResult], people: bool) -> list[str]:
    from fisherleak.auditing.report_summary import attacked_whole

    head = ("about", "attacker", "correct", "95 % interval", "baseline", "worst person" if people else "worst row")
    rows = []
    for a, whose in zip(attacks, attacked_whole(attacks), strict=True):
        low, high = (percent(each, a.baseline) for each in (a.low, a.high))
        worst = "–" if a.worst is None else percent(a.worst, a.baseline)
        got = (percent(a.accuracy, a.baseline), f"{low[:-2]} to {high}", percent(a.baseline), worst)
        rows.append((f"{a.attribute}, {whose}" if whose else a.attribute, a.attacker, *got))
    return layout.table_lines(head, rows)


def _attackers(attacks: Sequence[record.AttackResult]) -> list[str]:
    return list(dict.fromkeys(f"{a.attacker}: {a.note}" for a in attacks))


def show_attacks(attacks: Sequence[record.AttackResult], people: bool = False) -> None:
    """What each attacker gets, beside the baseline without the model."""
    emit("\n".join(["Attacks: how often each attacker is correct", *_attack_table(attacks, people)]))
    layout.sentences("", _attackers(attacks))


def _read(sentences: Sequence[str]) -> list[list[str]]:
    """What was decided about a table, where that stands in no document."""
    found = [layout.lines("  - ", in_options(sentence)) for sentence in sentences]
    return [["", READ, *found[0]], *found[1:]] if found else []


def say_reading(sentences: Sequence[str], quiet: bool) -> None:
    """The same on standard error, beside a document on standard output that others read."""
    for sentence in () if quiet else sentences:
        say(in_options(sentence), status=0)


def show_release(card: dict[str, Any], cost: Tradeoff, model: str, read: Sequence[str], *, verbose: bool) -> None:
    """What was released, what it promises, and what it costs; every assumption where all is asked for."""
    size, rows = number(card["model"]["parameters"]), number(card["data"]["rows"])
    where = "held-out rows" if cost.held_out else "training rows"
    first = [f"Released {printable(model)} with its model card {printable(model)}.json", ""]
    first += layout.pair_lines(
        [
            ("promise", _promise(card)),
            ("noise", _noise_of(card)),
            ("utility", f"{_label(cost)} {_paid(cost)} ({where})"),
            *((_label(each), _paid(each)) for each in cost.also),
            ("model", f"{card['model']['kind']}, {size} parameters, about {rows} rows"),
        ]
    )
    said = ["\nUnder these assumptions:", *card["assumptions"]] if verbose else ["", *_short_assumptions(card)]
    signed = f"Signed: 'fisherleak verify {printable(model)} --key PUB' checks it, with your public key as PUB."
    blocks = [layout.lines("", each) for each in _beware(card, cost)]
    blocks += [layout.lines("", signed)] if "signature" in card else []
    blocks += [said[0].split("\n"), *(layout.lines("  - ", each) for each in said[1:]), *_read(read)]
    count = number(len(card["assumptions"]))
    more = ["", f"-v prints all {count} assumptions; they are on the model card too."]
    _screen_or_all(first, blocks, verbose, more=more)


def _promise(card: dict[str, Any]) -> str:
    """The limit in words: whose eta it bounds, and what that means for an estimate."""
    limit, on = card["eta"]["limit"], card["eta"]["limit_on"].removesuffix(", in standard units")
    if limit is None:
        return "none: the noise was given"
    told = card["noise"].get("calibrated") or {}
    whose = "any record within the bounds" if told.get("over") == ANY_RECORD else "the rows that are in the table"
    size, single = number_at_least(1 / limit), bool(card["eta"]["limit_columns"])
    least = f"No unbiased estimate of a {'' if single else 'numeric '}value has an error below {size} unit{'s' * (size != '1')}"
    least += " of its column." if single else f". {UNIT}"
    return f"eta of at most {number_at_most(limit)} for {on}, for {whose}. {least}"


def _short_assumptions(card: dict[str, Any]) -> list[str]:
    """What a reader must know of a release, in short sentences; the model card has all of it."""
    from fisherleak.releasing.cards.cards import unbounded

    told = card["noise"].get("calibrated") or {}
    found = []
    if card["settings"]["public"] == "preprocessing":
        found.append("What standardising learned from your rows is taken as public, and the promise does not count it.")
    if unbounded(card):
        found.append(
            "Bounds were not declared for every numeric column, so some come from your rows; --bounds avoids that."
        )
    if told and told.get("over") != ANY_RECORD:
        found.append(
            "This noise scale was computed from your data, so publishing it reveals a little about one record. "
            "Leave out --over to avoid that."
        )
        if isinstance(card["noise"].get("shape"), str):
            found.append("What the covariance of the noise reveals by itself is not counted in the promise.")
    found.append("This is not differential privacy and not anonymity. An audit measures membership.")
    if "ledger" not in card:
        found.append("Every further release of the same data reveals more; --ledger adds them up.")
    return found


def _beware(card: dict[str, Any], cost: Tradeoff) -> list[str]:
    """What to do where the noise leaves nothing of the model."""
    noisy = cost.points[0].utility
    if noisy > cost.constant if cost.metric.higher_is_better else noisy < cost.constant:
        return []
    return [
        "",
        "Beware: with this noise the model is no better than the baseline.",
        "Allow a larger --eta, declare narrower --bounds, or get more rows.",
    ]


def _noise_of(card: dict[str, Any]) -> str:
    size, shape = number(card["noise"]["scale"]), card["shape"]
    if shape["name"] == "isotropic":
        return f"scale {size} on every coefficient"
    return f"scale {size}, covariance: {shape['name']}" + (f" of {printable(shape['from'])}" if shape["from"] else "")


def _label(cost: Tradeoff) -> str:
    return cost.metric.label.partition(" (")[0]


def _paid(cost: Tradeoff) -> str:
    """What one noise costs."""
    noisy, without, constant = (
        _utility(each, cost) for each in (cost.points[0].utility, cost.without_noise, cost.constant)
    )
    return f"{noisy} on average with such noise, {without} without, {constant} for the baseline"


def _utility(value: float | None, cost: Tradeoff) -> str:
    if value is None or cost.metric.name != "accuracy":
        return even(value, cost.metric.name)
    return percent(value, cost.constant)


def even(utility: float | None, metric: str) -> str:
    """A utility without what rounding leaves of zero; accuracy in hundredths, as everywhere; none of too few rows."""
    if utility is None:
        return "unknown"
    return percent(utility) if metric == "accuracy" else number(round(utility, 12) + 0.0)
