"""What the page shows of a summary: clipped, capped and put in order, and the numbers its charts draw.

However large the audit, the page stays small: lists are cut at the lengths below and the page says so where it cuts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from fisherleak._support.namespaces import Json
from fisherleak._support.numbers import number
from fisherleak.auditing.plain_records import as_json
from fisherleak.auditing.report_summary import (
    AttackResult,
    CurvePoint,
    Equalised,
    ExposedRow,
    Group,
    HistogramGroup,
    ModelColumn,
    PriceAtLimit,
    Summary,
    attacked_whole,
)
from fisherleak.report.sentences import columns_used, difference_sentence, lines_of
from fisherleak.report.verdict import prices_in_words
from fisherleak.training.defaults import EVEN_ODDS

LONGEST_TEXT = 400
MOST = {
    "rows": 50,
    "attributes": 200,
    "groups": 200,
    "columns": 200,
    "gate": 100,
    "attacks": 100,
    "values": 30,
    "points": 200,
}
"""Entries of each table; a list in any other place is cut at the largest of these."""
CHARTED = {
    "panels": 8,
    "heat_rows": 40,
    "heat_columns": 40,
    "heat_table": 10,
    "attributes": 30,
    "groups": 30,
    "attacks": 30,
    "slider": 12,
    "paper_rows": 12,
}
DIGITS = 6
"""Significant digits of the numbers that the charts get."""


@dataclass(frozen=True)
class Who:
    """What the etas are of, in words and in number: rows, or people who have several."""

    one: str
    many: str
    count: int
    people: bool


@dataclass(frozen=True)
class Closest:
    """The column of which the largest share is revealed in a row, or else with the least error."""

    name: str
    error: float
    share: float | None


@dataclass(frozen=True)
class Targets:
    """What can be asked of the noise in words: the largest share revealed of any number, and least errors by column.

    A column of two values counts as numeric, with a standard deviation of 1/2, as where a noise is chosen: the choices and
    the slider say the same. Shares
    of noise whose covariance the rows decide do not follow the slider: a part of them is the same at every scale.
    """

    shares: float | None
    errors: dict[str, float]
    even: bool


@dataclass(frozen=True)
class Page:
    """A summary with every text clipped, every list capped and columns in order, and what the page derives from it."""

    shown: Summary
    who: Who
    counts: dict[str, int]
    """Entries before lists were cut."""
    heat_columns: tuple[int, ...]
    """Places in the model of the columns that the map shows, which are the first of those shown."""
    closest: tuple[Closest | None, ...]
    panels: tuple[HistogramGroup, ...]
    value_columns: tuple[str, ...]
    tightest: tuple[ModelColumn, ...]
    targets: Targets
    also_at_noise: tuple[float | None, ...]
    """By each of the other measures."""
    short: str
    """The measure of utility in a few words."""
    stops: tuple[PriceAtLimit, ...]
    """The best release at each limit that has a price."""

    @property
    def home(self) -> int:
        """The place of the limit that is advised, or of the middle one."""
        etas = [each.eta for each in self.stops]
        return etas.index(self.shown.next.eta) if self.shown.next.eta in etas else len(etas) // 2

    @property
    def context(self) -> dict[str, Any]:
        """What the template reads by name."""
        shown, mean = self.shown, self.shown.eta.examples.mean
        return {
            **vars(shown),
            **vars(self),
            "whose": shown.whose,
            "home": self.home,
            "apart": [group.eta_mean / mean - 1.0 if mean > 0 else None for group in shown.groups],
            "difference": difference_sentence(shown.groups),
            "lines": lines_of(shown, self.who.one),
            "none_revealed": dict.fromkeys(("spread", "max", "q95", "median", "count")),
            "chances": self.chances,
            "attackers": {attack.attacker: f"{attack.method}. {attack.note}" for attack in shown.attacks},
            "attacked_whole": attacked_whole(shown.attacks),
        }

    @property
    def chances(self) -> dict[str, float]:
        """How often guessing without the release is correct, for each column that is attacked."""
        return {attack.attribute: attack.baseline for attack in self.shown.attacks}


def page(summary: Summary) -> Page:
    """The summary as the template reads it."""
    order = _most_exposed(summary.attributes)[: MOST["attributes"]]
    shown = _cut(summary, order)
    tightest = tuple(a for a in shown.attributes if a.error_least is not None)[: CHARTED["slider"]]
    return Page(
        shown=shown,
        who=_who(summary),
        counts={
            **{name: len(getattr(summary, name)) for name in ("attributes", "groups", "attacks", "rows")},
            "columns": len(summary.data.columns),
            "panels": len(summary.eta.histogram.groups),
            "used": columns_used(summary),
        },
        heat_columns=tuple(order[: CHARTED["heat_columns"]]),
        closest=tuple(_closest(row, summary.attributes) for row in summary.rows[: MOST["rows"]]),
        panels=_panels(shown.eta.histogram.groups),
        value_columns=tuple((shown.rows[0].values or {}) if shown.rows else {})[: MOST["values"]],
        tightest=tightest,
        targets=_targets(shown, tightest),
        also_at_noise=tuple(_nearest_utility(each.points, summary.noise.scale) for each in summary.tradeoff.also),
        short=shown.tradeoff.label.partition(",")[0],
        stops=_stops(summary),
    )


def _stops(summary: Summary) -> tuple[PriceAtLimit, ...]:
    """At each limit with a release by the rule, the best one; commands are whole."""
    limits = () if summary.prices is None else summary.prices.limits
    best = {each.eta: each for each in limits if each.best}
    return tuple(best.get(each.eta, each) for each in limits if each.by_rule)


def _cut(summary: Summary, order: Sequence[int]) -> Summary:
    """The part that is shown, with the columns of this order; rows keep all their cells."""
    shown: Summary = _clipped(summary)
    gate = shown.gate
    return replace(
        shown,
        attributes=tuple(_clipped(summary.attributes[j]) for j in order),
        rows=tuple(
            replace(row, cells=full.cells) for row, full in zip(shown.rows[: MOST["rows"]], summary.rows, strict=False)
        ),
        groups=shown.groups[: MOST["groups"]],
        attacks=shown.attacks[: MOST["attacks"]],
        data=replace(shown.data, columns=shown.data.columns[: MOST["columns"]]),
        gate=None if gate is None else replace(gate, rows=gate.rows[: MOST["gate"]]),
    )


def _targets(shown: Summary, tightest: Sequence[ModelColumn]) -> Targets:
    unknown = any(a.kind == "number" and not a.revealed for a in shown.attributes)
    unknown |= shown.noise.by_shape is not None
    shares = [value.revealed.max for value in shown.values if value.revealed]
    even = [(EVEN_ODDS * a.step * a.eta_max) ** 2 for a in shown.attributes if a.yes_no]
    shares += [square / (1.0 + square) for square in even]
    errors = {a.name: a.error_least for a in tightest if a.kind == "number" and a.error_least is not None}
    return Targets(None if unknown else max(shares, default=None), errors, bool(even))


def _nearest_utility(points: Sequence[CurvePoint], scale: float) -> float | None:
    """That at the scale nearest to the noise."""
    near = min(points, key=lambda point: abs(point.scale - scale), default=None)
    return None if near is None else near.utility


def _who(summary: Summary) -> Who:
    people = summary.data.people is not None
    return Who(*(("person", "people") if people else ("row", "rows")), summary.number_measured, people)


def charts(made: Page) -> Json:
    """What the page's script needs, and nothing more: shapes of histograms, cells, curves, and η at the chosen noise."""
    shown, noise, eta = made.shown, made.shown.noise.scale, made.shown.eta
    drawn: dict[str, Any] = {
        "eta": {"edges": eta.histogram.edges, "groups": made.panels},
        "heat": _heat(made),
        "attributes": _attribute_ranges(shown.attributes),
        "groups": [_group_range(group) for group in shown.groups[: CHARTED["groups"]]],
        "attacks": [
            _attack_range(*each)
            for each in zip(shown.attacks[: CHARTED["attacks"]], attacked_whole(shown.attacks), strict=False)
        ],
        "tradeoff": as_json(replace(shown.tradeoff, also=())) | {"short": made.short, "chances": _chances(made)},
        "chosen": {
            "scale": noise,
            "eta": {"max": eta.examples.max, "mean": eta.examples.mean, "dataset": eta.dataset},
            "errors": [{"name": a.name, "least": a.error_least, "spread": a.spread} for a in made.tightest],
            "share": made.targets.shares,
        },
        "balance": _balance(shown.balance),
        "who": {"one": made.who.one, "many": made.who.many},
    }
    rounded: dict[str, Any] = _rounded(as_json(drawn))
    rounded["chosen"]["scale"] = noise
    # with prices, the command follows the limit
    rounded["command"] = None if made.stops else shown.next.command_for
    rounded["limits"] = [
        {"words": words, "command": stop.command}
        for words, stop in zip(prices_in_words(shown), made.stops, strict=True)
    ]
    return rounded


def _chances(made: Page) -> list[float | None]:
    """Of the attacks on the curve, in its order."""
    points = made.shown.tradeoff.points
    return [made.chances.get(attack.attribute) for attack in (points[0].attacks if points else ())]


def _clipped(value: Any) -> Any:
    """The same with texts of bounded length that are valid Unicode, and lists of bounded length."""
    if isinstance(value, str):
        return clipped(value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: _clipped(getattr(value, each.name)) for each in fields(value)})
    if isinstance(value, Mapping):
        return {clipped(key): _clipped(entry) for key, entry in list(value.items())[: MOST["columns"]]}
    if isinstance(value, Sequence):
        return tuple(_clipped(entry) for entry in value[: MOST["columns"]])
    return value


def clipped(text: Any, longest: int = LONGEST_TEXT) -> str:
    """A text that is valid Unicode, and not too long for the page."""
    sound = str(text).encode("utf-8", "replace").decode("utf-8")
    return sound if len(sound) <= longest else f"{sound[: longest - 1]}…"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    return [_rounded(entry) for entry in value] if isinstance(value, list) else value


def _most_exposed(attributes: Sequence[ModelColumn]) -> list[int]:
    """Positions of the attributes, the most exposed for its spread first; numbers before categories."""
    return sorted(
        range(len(attributes)),
        key=lambda j: (attributes[j].kind != "number", -attributes[j].exposure(attributes[j].eta_max)),
    )


def _closest(row: ExposedRow, attributes: Sequence[ModelColumn]) -> Closest | None:
    shares = row.revealed or (None,) * len(row.cells)
    known = {j: eta for j, eta in enumerate(row.cells) if eta is not None and eta > 0 and attributes[j].spread}
    best = max(known, key=lambda j: (shares[j] or 0.0, attributes[j].exposure(known[j])), default=None)
    return None if best is None else Closest(clipped(attributes[best].name), 1.0 / known[best], shares[best])


def _panels(groups: tuple[HistogramGroup, ...]) -> tuple[HistogramGroup, ...]:
    """The groups to draw: all of a few, or the largest of many, in the order given."""
    if len(groups) <= CHARTED["panels"]:
        return groups
    largest = sorted(range(len(groups)), key=lambda k: -groups[k].count)[: CHARTED["panels"]]
    return tuple(groups[k] for k in sorted(largest))


def _heat(made: Page) -> Json:
    rows, ranked = made.shown.rows[: CHARTED["heat_rows"]], made.shown.attributes[: len(made.heat_columns)]
    etas = [[row.cells[j] for j in made.heat_columns] for row in rows]
    return {
        "rows": [row.label for row in rows],
        "columns": [attribute.name for attribute in ranked],
        "categories": [attribute.kind == "category" for attribute in ranked],
        "eta": etas,
        "exposure": [
            [None if eta is None else a.exposure(eta) for eta, a in zip(line, ranked, strict=True)] for line in etas
        ],
    }


def _attribute_ranges(attributes: Sequence[ModelColumn]) -> list[Json]:
    """Least and typical error of numbers, in spreads of their columns."""
    made = []
    for attribute in attributes:
        spread, least = attribute.spread, attribute.error_least
        if spread and least is not None:
            typical = least if attribute.error_typical is None else attribute.error_typical
            low, high = least / spread, typical / spread
            note = f"least ± {number(least)}, typical ± {number(typical)}, spread {number(spread)}"
            made.append({"name": attribute.name, "low": low, "high": high, "value": low, "mark": None, "note": note})
    return made[: CHARTED["attributes"]]


def _group_range(group: Group) -> Json:
    mean, sd = group.eta_mean, group.eta_sd or 0.0
    note = f"mean {number(mean)}, spread {number(sd)}, largest {number(group.eta_max)}"
    low = max(0.0, mean - sd)
    return {"name": group.name, "low": low, "high": mean + sd, "value": mean, "mark": group.eta_max, "note": note}


def _attack_range(attack: AttackResult, whose: str) -> Json:
    name = f"{attack.attacker}\n{attack.attribute}{f', {whose}' if whose else ''}"
    known = {"low": attack.low, "high": attack.high, "name": name, "value": attack.accuracy}
    return known | {"mark": attack.baseline, "note": ""}


def _balance(balance: Equalised | None) -> Json | None:
    if balance is None:
        return None
    histogram = balance.histogram
    groups = [
        {"name": name, "count": sum(counts), "mean": moments.mean, "counts": counts}
        for name, moments, counts in (
            ("before", balance.before, histogram.before),
            ("after", balance.after, histogram.after),
        )
    ]
    return {"edges": histogram.edges, "groups": groups, "own_heights": True}
