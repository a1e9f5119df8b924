"""What the page shows of a summary: clipped, capped and put in order, and the numbers its charts draw.

However large the audit, the page stays small: lists are cut at the lengths below and the page says so where it cuts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fisherleak._support.namespaces import Json
from fisherleak._support.numbers import number
from fisherleak.audit.defaults import EVEN_ODDS
from fisherleak.report.lines import apart, difference_sentence, lines_of
from fisherleak.report.sentences import columns_used

__all__ = ["charts", "exposure", "page"]

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


def page(summary: Mapping[str, Any]) -> Json:
    """The summary as the template reads it: every text clipped, every list capped, with what is derived from it."""
    shown: dict[str, Any] = _clipped(summary)
    whole = summary["attributes"]
    order = _most_exposed(whole)[: MOST["attributes"]]
    shown["attributes"] = [_clipped(whole[j]) for j in order]
    shown["heat_columns"] = order[: CHARTED["heat_columns"]]
    shown["names"] = [_text(attribute["name"]) for attribute in whole]
    shown.setdefault("membership", None)  # earlier summaries have none of these
    for name in ("right_q95", "right_median", "note"):
        (shown["membership"] or {}).setdefault(name, None)
    shown.setdefault("label", None)
    shown.setdefault("told_apart", [])
    for attack in shown["attacks"]:
        for name in ("worst", "q95", "median", "found"):
            attack.setdefault(name, None)
    shown["tradeoff"] = {"also": None, **shown["tradeoff"]}
    shown.setdefault("policy", None)
    shown.setdefault("people", None)
    for attribute in shown["attributes"]:
        attribute.setdefault("revealed", None)
        attribute.setdefault("yes_no", False)
    for rows in (shown["rows"], *((shown[name] or {}).get("rows", []) for name in ("gate", "membership"))):
        for row in rows:
            row["label"] = str(row["row"]) if row["id"] is None else row["id"]
    shown["rows"] = [_with_closest(row, full, whole) for row, full in zip(shown["rows"], summary["rows"], strict=False)]
    shown["rows"] = shown["rows"][: MOST["rows"]]
    for name in ("groups", "attacks"):
        shown[name] = shown[name][: MOST[name]]
    shown["data"]["columns"] = shown["data"]["columns"][: MOST["columns"]]
    shown["panels"] = _panels(shown["eta"]["histogram"]["groups"])
    if shown["gate"]:
        shown["gate"]["rows"] = shown["gate"]["rows"][: MOST["gate"]]
    shown["value_columns"] = list((shown["rows"][0]["values"] or {}) if shown["rows"] else {})[: MOST["values"]]
    shown["counts"] = {name: len(summary[name]) for name in ("attributes", "groups", "attacks", "rows")}
    shown["counts"] |= {
        "columns": len(summary["data"]["columns"]),
        "panels": len(summary["eta"]["histogram"]["groups"]),
        "used": columns_used(summary),
    }
    shown["who"] = who_is_measured(summary)
    shown["utility_at_noise"] = _nearest_utility(summary["tradeoff"]["points"], summary)
    shown["tightest"] = [a for a in shown["attributes"] if a["error_least"] is not None][: CHARTED["slider"]]
    shown["none_revealed"] = dict.fromkeys(("spread", "max", "q95", "median", "count"))
    shown["targets"] = _targets(shown)
    shown["attackers"] = {a["attacker"]: f"{a['method']}. {a['note']}" for a in shown["attacks"]}
    if shown["tradeoff"]["also"] is not None:
        shown["tradeoff"]["also"] |= {"at_noise": _nearest_utility(summary["tradeoff"]["also"]["points"], summary)}
    shown["tradeoff"]["short"] = shown["tradeoff"]["label"].partition(",")[0]
    mean = shown["eta"]["examples"]["mean"]
    for group, away in zip(shown["groups"], apart(shown["groups"], mean), strict=True):
        group["apart"] = away
    shown["difference"] = difference_sentence(shown["groups"], mean)
    shown["lines"] = lines_of(shown)
    return shown


def _targets(shown: Mapping[str, Any]) -> Json:
    """What can be asked of the noise in words: the largest share revealed of any number, and least errors by column.

    A yes or no counts as a number of spread 1/2, as where a noise is chosen: the choices and the slider say the same. Shares
    of noise whose covariance the rows decide do not follow the slider: a part of them is the same at every scale.
    """
    numbers = [*shown["attributes"], *([shown["label"]] if shown["label"] else [])]
    unknown = any(a["kind"] == "number" and not a["revealed"] for a in shown["attributes"])
    unknown |= shown["noise"].get("by_shape") is not None
    shares = [a["revealed"]["max"] for a in numbers if a["revealed"]]
    even = [(EVEN_ODDS * a.get("step", 1.0) * a["eta_max"]) ** 2 for a in shown["attributes"] if a["yes_no"]]
    shares += [square / (1.0 + square) for square in even]
    errors = {a["name"]: a["error_least"] for a in shown["tightest"] if a["kind"] == "number"}
    return {"shares": None if unknown else max(shares, default=None), "errors": errors, "even": bool(even)}


def _nearest_utility(points: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]) -> float | None:
    """That at the scale nearest to the noise."""
    near = min(points, key=lambda p: abs(p["scale"] - summary["noise"]["scale"]), default=None)
    return None if near is None else near["utility"]


def who_is_measured(summary: Mapping[str, Any]) -> Json:
    """What the etas are of, in words and in number: rows, or people who have several."""
    people = summary["data"].get("people")  # earlier summaries know no people
    if people is None:
        return {
            "people": False,
            "one": "row",
            "many": "rows",
            "One": "Row",
            "Many": "Rows",
            "count": summary["data"]["train_rows"],
        }
    return {"people": True, "one": "person", "many": "people", "One": "Person", "Many": "People", "count": people}


def charts(shown: Mapping[str, Any]) -> Json:
    """What the page's script needs, and nothing more: shapes of histograms, cells, curves, and η at the chosen noise."""
    examples, histogram = shown["eta"]["examples"], shown["eta"]["histogram"]
    drawn: dict[str, Any] = {
        "eta": {"edges": histogram["edges"], "groups": shown["panels"]},
        "heat": _heat(shown),
        "attributes": _attribute_ranges(shown["attributes"]),
        "groups": [_group_range(group) for group in shown["groups"][: CHARTED["groups"]]],
        "attacks": [_attack_range(attack) for attack in shown["attacks"][: CHARTED["attacks"]]],
        "tradeoff": {key: value for key, value in shown["tradeoff"].items() if key != "also"},
        "chosen": {
            "scale": shown["noise"]["scale"],
            "eta": {"max": examples["max"], "mean": examples["mean"], "dataset": shown["eta"]["dataset"]},
            "errors": [
                {"name": a["name"], "least": a["error_least"], "spread": a["spread"]} for a in shown["tightest"]
            ],
            "share": shown["targets"]["shares"],
        },
        "balance": _balance(shown["balance"]),
        "who": {"one": shown["who"]["one"], "many": shown["who"]["many"]},
    }
    rounded: dict[str, Any] = _rounded(drawn)
    rounded["chosen"]["scale"] = shown["noise"]["scale"]
    rounded["command"] = (shown.get("next") or {}).get("command_for")
    return rounded


def _clipped(value: Any) -> Any:
    """The same with texts of bounded length that are valid Unicode, and lists of bounded length."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return {_text(str(key)): _clipped(entry) for key, entry in list(value.items())[: MOST["columns"]]}
    if isinstance(value, Sequence):
        return [_clipped(entry) for entry in value[: MOST["columns"]]]
    return value


def _text(text: str) -> str:
    sound = text.encode("utf-8", "replace").decode("utf-8")
    return sound if len(sound) <= LONGEST_TEXT else sound[: LONGEST_TEXT - 1] + "…"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    return [_rounded(entry) for entry in value] if isinstance(value, list) else value


def exposure(eta: float, attribute: Mapping[str, Any]) -> float:
    """η in units of the column's spread; η itself where there is none."""
    return eta * (attribute["spread"] or 1.0)


def _most_exposed(attributes: Sequence[Mapping[str, Any]]) -> list[int]:
    """Positions of the attributes, the most exposed for its spread first; numbers before categories."""
    return sorted(
        range(len(attributes)),
        key=lambda j: (attributes[j]["kind"] != "number", -exposure(attributes[j]["eta_max"], attributes[j])),
    )


def _with_closest(row: Json, full: Mapping[str, Any], attributes: Sequence[Mapping[str, Any]]) -> Json:
    """The row with all its cells, and the column of which the largest share is revealed, or else with the least error."""
    cells = full["cells"]
    shares = full.get("revealed") or [None] * len(cells)
    known = [j for j, attribute in enumerate(attributes) if attribute["spread"] and (cells[j] or 0.0) > 0]
    best = max(known, key=lambda j: (shares[j] or 0.0, exposure(cells[j], attributes[j])), default=None)
    closest = None
    if best is not None:
        closest = {
            "name": _text(attributes[best]["name"]),
            "error": 1.0 / cells[best],
            "share": shares[best],
            "exposure": exposure(cells[best], attributes[best]),
        }
    return row | {"cells": cells, "closest": closest}


def _panels(groups: list[Json]) -> list[Json]:
    """The groups to draw: all of a few, or the largest of many, in the order given."""
    if len(groups) <= CHARTED["panels"]:
        return groups
    largest = sorted(range(len(groups)), key=lambda k: -groups[k]["count"])[: CHARTED["panels"]]
    return [groups[k] for k in sorted(largest)]


def _heat(shown: Mapping[str, Any]) -> Json:
    rows, columns = shown["rows"][: CHARTED["heat_rows"]], shown["heat_columns"]
    ranked = shown["attributes"][: len(columns)]
    etas = [[row["cells"][j] for j in columns] for row in rows]
    return {
        "rows": [row["label"] for row in rows],
        "columns": [attribute["name"] for attribute in ranked],
        "categories": [attribute["kind"] == "category" for attribute in ranked],
        "eta": etas,
        "exposure": [
            [None if eta is None else exposure(eta, a) for eta, a in zip(line, ranked, strict=True)] for line in etas
        ],
    }


def _attribute_ranges(attributes: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Least and typical error of numbers, in spreads of their columns."""
    made = []
    for attribute in attributes:
        spread, least, typical = attribute["spread"], attribute["error_least"], attribute["error_typical"]
        if spread and least is not None:
            typical = least if typical is None else typical
            low, high = least / spread, typical / spread
            note = f"least ± {number(least)}, typical ± {number(typical)}, spread {number(spread)}"
            made.append({"name": attribute["name"], "low": low, "high": high, "value": low, "mark": None, "note": note})
    return made[: CHARTED["attributes"]]


def _group_range(group: Mapping[str, Any]) -> Json:
    mean, sd = group["eta_mean"], group["eta_sd"] or 0.0
    note = f"mean {number(mean)}, spread {number(sd)}, largest {number(group['eta_max'])}"
    low = max(0.0, mean - sd)
    return {"name": group["name"], "low": low, "high": mean + sd, "value": mean, "mark": group["eta_max"], "note": note}


def _attack_range(attack: Mapping[str, Any]) -> Json:
    name = f"{attack['attacker']}\n{attack['attribute']}"
    made = {key: attack[key] for key in ("low", "high")}
    return made | {"name": name, "value": attack["accuracy"], "mark": attack["baseline"], "note": ""}


def _balance(balance: Mapping[str, Any] | None) -> Json | None:
    if balance is None:
        return None
    histogram = balance["histogram"]
    groups = [
        {"name": name, "count": sum(histogram[key]), "mean": balance[key]["mean"], "counts": histogram[key]}
        for name, key in (("before", "before"), ("after", "after"))
    ]
    return {"edges": histogram["edges"], "groups": groups, "own_heights": True}
