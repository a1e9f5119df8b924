"""The one line that stands for a part of the report until it is opened, and what a group's figures say beside the others'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fisherleak._support.namespaces import Json
from fisherleak._support.numbers import number, percent, share, signed_percent

__all__ = ["apart", "difference_sentence", "lines_of"]

SERVED = "white-box, served answer"
"""An attacker who sees more than the release."""


def lines_of(shown: Mapping[str, Any]) -> dict[str, str]:
    """For each part, by name."""
    return {
        "people": f"the {number(len(shown['rows']))} most exposed of {number(shown['who']['count'])}",
        "columns": _columns(shown),
        "groups": difference_sentence(shown["groups"], shown["eta"]["examples"]["mean"]).rstrip("."),
        "attacks": _attacks(shown["attacks"]),
        "noise": "how much noise, and what it costs",
        "measured": f"{number(len(shown['data']['columns']))} columns of {shown['data']['source']}",
        "trust": _trust(shown["diagnostics"]),
    }


def _columns(shown: Mapping[str, Any]) -> str:
    found = [a for a in (*shown["attributes"], *([shown["label"]] if shown["label"] else [])) if a["revealed"]]
    if not found:
        return "in their own units"
    most = max(found, key=lambda a: float(a["revealed"]["max"]))
    worst, middle = share(most["revealed"]["max"]), share(most["revealed"]["median"])
    return f"most revealed: {most['name']}, {worst} at worst, {middle} for the {shown['who']['one']} in the middle"


def _attacks(attacks: Sequence[Mapping[str, Any]]) -> str:
    """The attacker who gains most by the release: over guessing, and over what other columns tell without any model."""
    seeing = [a for a in attacks if a["worst"] is not None] or attacks
    from_release = [a for a in seeing if a["attacker"] != SERVED] or seeing
    if not from_release:
        return "who is in the table"

    blind = [a for a in attacks if a not in seeing]

    def without(attack: Mapping[str, Any]) -> float:
        return float(
            max([attack["baseline"], *(a["accuracy"] for a in blind if a["attribute"] == attack["attribute"])])
        )

    best = max(from_release, key=lambda a: float(a["accuracy"]) - without(a))
    right, other = percent(best["accuracy"]), percent(without(best))
    return f"the best: {best['attacker']} on {best['attribute']}, {right} right against {other} without the release"


def _trust(diagnostics: Mapping[str, Any]) -> str:
    warned = len(diagnostics["warnings"])
    said = f"{number(warned)} warning{'s' * (warned > 1)}" if warned else "no warnings"
    check = diagnostics["finite_difference"]
    return said if check is None else f"refits agree to {number(check['largest_relative_error'])}; {said}"


def apart(groups: Sequence[Json], everyone: float) -> list[float | None]:
    """How far each group's mean is from everyone's, in parts of it; none where that is zero."""
    return [group["eta_mean"] / everyone - 1.0 if everyone > 0 else None for group in groups]


def difference_sentence(groups: Sequence[Json], everyone: float) -> str:
    """The two groups that are furthest apart, in words.

    Examples
    --------
    >>> difference_sentence([{"name": "a", "eta_mean": 1.0}, {"name": "b", "eta_mean": 1.5}], 1.2)
    'On average b is leaned on most and a least: +50 %.'
    """
    if len(groups) < 2:
        return ""
    most, least = (pick(groups, key=lambda g: float(g["eta_mean"])) for pick in (max, min))
    if most["eta_mean"] == least["eta_mean"] or not least["eta_mean"] > 0:
        return ""
    return (
        f"On average {most['name']} is leaned on most and {least['name']} least: "
        f"{signed_percent(most['eta_mean'] / least['eta_mean'] - 1.0)}."
    )
