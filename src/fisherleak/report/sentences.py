"""What the report says in whole sentences: about a column, the model, membership, and what nothing here promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fisherleak._support.numbers import (
    NOTHING,
    number,
    number_at_most,
    percent,
    percent_at_most,
    share,
    signed_percent,
)
from fisherleak.auditing.report_summary import AttackResult, Diagnostics, Group, MembershipFound, Summary
from fisherleak.report.words import Word
from fisherleak.training.defaults import DELTA

NOT_PROMISED: tuple[Word, ...] = (
    Word(
        "It is not differential privacy.",
        "η is a property of this data set and this model, and not a worst case over all data sets.",
    ),
    Word(
        "η alone says nothing about membership.",
        "It is about the values of rows that are known to be in the data. Membership is measured beside it, if it has a closed "
        "form.",
    ),
    Word(
        "It is not anonymity.",
        "Nothing here makes a row look like others.",
    ),
    Word(
        "It bounds unbiased attackers.",
        "Attackers with prior knowledge can have a smaller error, above all where the bound is near a column's spread. For "
        "bounds on every attacker see fisherleak.bounds.",
    ),
    Word(
        "Some things are taken as public.",
        "Categories, weights and l2 are known to everyone and not counted.",
    ),
    Word(
        "It counts one release.",
        "Every further release about the same people adds to the leakage.",
    ),
    Word(
        "This page is itself derived from the data.",
        "Everything on it is without noise: figures, row numbers, ids, and a noise scale that was computed from the data. "
        "Share it as carefully as the data.",
    ),
)

PREPROCESSING = Word(
    "Preprocessing is taken as public.",
    "Means and spreads were learned from the data, but count as known to everyone.",
)


def not_promised(summary: Summary) -> tuple[Word, ...]:
    """What holds for every audit, and that preprocessing is public where it is."""
    counted = summary.model.public == "nothing"
    return NOT_PROMISED if counted else (*NOT_PROMISED[:-2], PREPROCESSING, *NOT_PROMISED[-2:])


def counted_sentence(summary: Summary) -> str:
    """What of the training is in the numbers."""
    if summary.model.public == "nothing":
        return (
            "Counted end to end: what the scaling of columns learned is counted with the model; categories are public."
        )
    return "The model alone: what preprocessing learned from the data is taken as public."


def membership_sentence(found: MembershipFound, one: str = "row") -> str:
    """How well an attacker can tell that a record, or a person with all rows, was in the data."""
    best, mean = percent_at_most(found.rows[0].accuracy, 0.5), percent(found.accuracy_mean, 0.5)
    what = "someone's record was" if one == "row" else "someone, with all rows, was"
    return (
        f"Whether {what} in the data: the best attacker is correct at most {best} of the time about the most exposed "
        f"{one}, and {'at most ' * found.recognised_at_most}{mean} on average. Chance is 50 %.{_epsilon(found, one)}"
    )


def _epsilon(found: MembershipFound, one: str) -> str:
    """The same for readers who know differential privacy, where there is a mu."""
    from fisherleak.bounds import epsilon  # it needs NumPy

    mu = found.rows[0].mu
    if found.kind != "mu" or mu is None:
        return ""
    value = number_at_most(epsilon(mu, DELTA))
    return f" For this table, with and without that {one}, epsilon is at most {value} at delta {DELTA:g}."


def any_value(value: Any) -> str:
    """A limit or a finding: a number, a text, a list, yes or no, or nothing.

    Examples
    --------
    >>> any_value(0.51234), any_value(True), any_value(["a", "b"]), any_value(None)
    ('0.512', 'yes', 'a, b', '–')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or NOTHING
    return value if isinstance(value, str) else number(value)


def chosen_how(chosen: str) -> str:
    """How the scale of the noise came about."""
    ways = {
        "given": "as given",
        "calibrated": "chosen so that a limit on η holds",
        "default": "the default, since none was given",
    }
    return ways.get(chosen, chosen)


def columns_used(summary: Summary) -> int:
    """Columns of the table that the model was fitted on; features that tell who lacks a value are no columns of it."""
    known = {column.name for column in summary.data.columns}
    found = sum(attribute.name in known for attribute in summary.attributes)
    return found or len(summary.attributes)


def measured_sentence(summary: Summary) -> str:
    """One sentence on what was fitted to what."""
    data, model, noise = summary.data, summary.model, summary.noise
    return (
        f"A {model.kind} model of “{data.target}” was fitted on {number(data.train_rows)} rows and "
        f"{number(columns_used(summary))} columns of {data.source}. Before it is released, {noise.kind} noise of scale "
        f"σ = {number(noise.scale)} is added to each of its {number(model.parameters)} parameters. This "
        "page says how much the released parameters then reveal about the rows it was fitted on."
    )


# The one line that stands for a part of the report until it is opened, and what a group's figures say beside the others'.

INFORMED, SERVED = "white-box, other columns", "white-box, served answer"
"""Attackers who use what the rest of a row suggests, or see more than the release."""


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
    return f"most revealed: {name}, at most {percent_at_most(most.max)}, {share(most.median)} for the median {one}"


def _attacks(attacks: Sequence[AttackResult]) -> str:
    """The attacker who gains most by the release: over the baseline, and over what other columns reveal without any model."""
    seeing = [a for a in attacks if a.worst is not None] or attacks
    from_release = [a for a in seeing if a.attacker != SERVED] or seeing
    if not from_release:
        return "who is in the table"

    blind = [a for a in attacks if a not in seeing]

    def without(attack: AttackResult) -> float:
        return max([attack.baseline, *(a.accuracy for a in blind if a.attribute == attack.attribute)])

    best = max(from_release, key=lambda a: a.accuracy - without(a))
    other = without(best)
    correct = percent(best.accuracy, other)
    return (
        f"the best attacker ({best.attacker}) guesses {best.attribute} correctly {correct} of the time, {percent(other)} "
        f"without the release"
    )


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
        f"On average {most.name} is most exposed and {least.name} least: "
        f"{signed_percent(most.eta_mean / least.eta_mean - 1.0)}."
    )
