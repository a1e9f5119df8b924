"""The one line that stands for a part of the report until it is opened, and what a group's figures say beside the others'."""

from __future__ import annotations

from collections.abc import Sequence

from fisherleak._support.numbers import number, percent, share, signed_percent
from fisherleak.auditing.report_summary import AttackResult, Diagnostics, Group, Summary

__all__ = ["difference_sentence", "lines_of"]

SERVED = "white-box, served answer"
"""An attacker who sees more than the release."""


def lines_of(shown: Summary, one: str) -> dict[str, str]:
    """For each part, by name."""
    return {
        "people": f"the {number(len(shown.rows))} most exposed of {number(shown.number_measured)}",
        "columns": _columns(shown, one),
        "groups": difference_sentence(shown.groups).rstrip("."),
        "attacks": _attacks(shown.attacks),
        "noise": "how much noise, and what it costs",
        "measured": f"{number(len(shown.data.columns))} columns of {shown.data.source}",
        "trust": _trust(shown.diagnostics),
    }


def _columns(shown: Summary, one: str) -> str:
    found = [(value.revealed, value.name) for value in shown.values if value.revealed]
    if not found:
        return "in their own units"
    most, name = max(found, key=lambda pair: pair[0].max)
    return f"most revealed: {name}, {share(most.max)} at worst, {share(most.median)} for the {one} in the middle"


def _attacks(attacks: Sequence[AttackResult]) -> str:
    """The attacker who gains most by the release: over guessing, and over what other columns tell without any model."""
    seeing = [a for a in attacks if a.worst is not None] or attacks
    from_release = [a for a in seeing if a.attacker != SERVED] or seeing
    if not from_release:
        return "who is in the table"

    blind = [a for a in attacks if a not in seeing]

    def without(attack: AttackResult) -> float:
        return max([attack.baseline, *(a.accuracy for a in blind if a.attribute == attack.attribute)])

    best = max(from_release, key=lambda a: a.accuracy - without(a))
    right, other = percent(best.accuracy), percent(without(best))
    return f"the best: {best.attacker} on {best.attribute}, {right} right against {other} without the release"


def _trust(diagnostics: Diagnostics) -> str:
    warned, check = len(diagnostics.warnings), diagnostics.finite_difference
    said = f"{number(warned)} warning{'s' * (warned > 1)}" if warned else "no warnings"
    return said if check is None else f"refits agree to {number(check.largest_relative_error)}; {said}"


def difference_sentence(groups: Sequence[Group]) -> str:
    """The two groups that are furthest apart, in words."""
    if len(groups) < 2:
        return ""
    most, least = (pick(groups, key=lambda group: group.eta_mean) for pick in (max, min))
    if most.eta_mean == least.eta_mean or not least.eta_mean > 0:
        return ""
    return (
        f"On average {most.name} is leaned on most and {least.name} least: "
        f"{signed_percent(most.eta_mean / least.eta_mean - 1.0)}."
    )
