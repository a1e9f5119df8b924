"""The verdict: what a summary says about people and limits, what the noise costs and what to do, in sentences."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fisherleak._support.numbers import in_hundred, number, percent, share
from fisherleak.auditing.report_summary import MeasuredUtility, Summary, ToldApart

__all__ = ["Verdict", "choices_in_words", "verdict_of"]

MOST_RULES = 3
LEARNS = "someone who knows everything else learns more than half of what is unknown about a value of theirs"
GONE = "no better than a constant"
NOBODY = (
    "about none of them does someone who knows everything else learn more than half of what is unknown about a value"
)


@dataclass(frozen=True)
class Verdict:
    """A headline, sentences about people and limits, the cost, and what to do with the command for it."""

    headline: str
    kept: bool | None
    """None where no limit was set."""
    lines: tuple[str, ...]
    cost: str
    advice: str
    command: str | None
    command_for: tuple[str, str] | None = None
    """What stands before and after the noise in the command for any noise."""


def verdict_of(summary: Summary) -> Verdict | None:
    """From a summary; none from those of earlier versions, which do not count people."""
    if summary.people is None:
        return None
    headline, kept = _headline(summary)
    lines = (
        *_unasked(summary),
        *_people(summary),
        *_guessed(summary),
        *_target(summary),
        *_presence(summary),
        *_broken(summary),
    )
    advised = summary.next
    around = (advised.command_for[0], advised.command_for[1]) if advised.command_for else None
    return Verdict(headline, kept, lines, _cost(summary), advised.note + _then(summary), advised.command, around)


def _headline(summary: Summary) -> tuple[str, bool | None]:
    policy, gate = summary.policy, summary.gate
    if policy and not policy.passed:
        failed = policy.count - policy.kept
        said = f"{number(failed)} of {number(policy.count)} rules of {policy.source}"
        return f"Not yet: {said} {'is' if failed == 1 else 'are'} not kept.", False
    if gate and gate.exceeded:
        above, rows = number(gate.count), number(summary.number_measured)
        return f"Not yet: {above} of {rows} people are above the limit of η = {number(gate.max_eta)}.", False
    if policy:
        return f"Yes: every rule of {policy.source} is kept.", True
    if gate:
        return f"Yes: nobody is above the limit of η = {number(gate.max_eta)}.", True
    return "No limit was set: choose one.", None


def _unasked(summary: Summary) -> list[str]:
    """Which noise all of it is said for, where nobody chose one."""
    if summary.noise.chosen != "default":
        return []
    share_only = any(value.revealed for value in summary.values)
    even = any(attribute.yes_no for attribute in summary.attributes)
    why = (
        "the least that reveals at most 10 % of any number of anyone in the table"
        + ", a yes or no counted as a number of spread 1/2" * even
        if share_only or (even and summary.choices)
        else "at which the most exposed has an η of 1"
    )
    return [f"No noise was given: all of this is for σ = {number(summary.noise.scale)}, {why}."]


def choices_in_words(summary: Summary) -> list[tuple[str, str, str]]:
    """Each noise that may be chosen: the noise, what it reveals at most, and what it leaves of utility."""
    cost, found = summary.tradeoff, []
    for choice in summary.choices:
        at = choice.utility
        left = "not measured" if at is None else _utility(cost, at)
        if at is not None and not cost.is_useful(at):
            left += f": {GONE}"
        elif choice.kept is not None:
            left += f": {share(choice.kept)} of what the model does better than a constant"
        found.append((number(choice.noise), share(choice.share), left))
    return found


def _people(summary: Summary) -> list[str]:
    people, rows = summary.people, number(summary.number_measured)
    if people is None or not people.measured:
        return []
    found, worst = max(
        ((value.revealed, value) for value in summary.values if value.revealed), key=lambda pair: pair[0].max
    )
    who = f"{number(people.count)} of {rows} people: {LEARNS}" if people.count else f"{rows} people: {NOBODY}"
    whose = f"row {worst.worst_row if found.row is None else found.row}"
    if summary.data.people is not None:
        person = worst.worst_person if found.person is None else found.person
        whose = f"the person of {whose}" if person is None else f"person {person}"
    return [f"{who}. The most: {worst.name} of {whose}, {share(found.max)}."]


def _target(summary: Summary) -> list[str]:
    label = summary.label
    if label is None:
        return []
    if not label.revealed:
        return _class_told(summary, label.name)
    found = label.revealed
    return [
        f"Of the target, {label.name}, at most {share(found.max)} of anyone's is revealed, and more than half of "
        f"{_whose(found.count)}."
    ]


def _guessed(summary: Summary) -> list[str]:
    """The category, or yes and no, that can be told best from exact moves; nothing where none was tried."""
    categories = {attribute.name for attribute in summary.attributes if attribute.kind == "category"}
    found = [apart for apart in summary.told_apart if apart.attribute in categories]
    if not found:
        return []
    most = max(found, key=lambda apart: apart.worst)
    all_tried = categories == {apart.attribute for apart in found}
    which = "Of categories" if all_tried else f"Of the categories that were tried ({number(len(found))})"
    return [
        f"{which}, {most.attribute} is told best: {_told_rightly(most)}, from the value most unlike it; 50 is guessing."
    ]


def _class_told(summary: Summary, name: str) -> list[str]:
    """How well anyone's class can be told, from exact moves; nothing where it was not attacked."""
    return [
        f"The target, {name}, is told {_told_rightly(apart)}, from the class most unlike it; 50 is guessing."
        for apart in summary.told_apart
        if apart.attribute == name
    ]


def _told_rightly(apart: ToldApart) -> str:
    """How often the best test is right, at most and in the middle."""
    return f"rightly {in_hundred(apart.worst)} of 100 times at most, {in_hundred(apart.median)} in the middle"


def _whose(count: int) -> str:
    return "nobody's" if not count else "one person's" if count == 1 else f"{number(count)} people's"


def _presence(summary: Summary) -> list[str]:
    found = summary.membership
    if found is None:
        return []
    return [
        f"Whether someone is in the table can be told rightly {in_hundred(found.right_max)} of 100 times at most, "
        f"{in_hundred(found.right_mean)} on average; 50 is guessing.",
        *([found.note] if found.note else []),
    ]


def _broken(summary: Summary) -> list[str]:
    policy = summary.policy
    if policy is None:
        return []
    failed = [rule for rule in policy.rules if not rule.passed][:MOST_RULES]
    left = policy.count - policy.kept - len(failed)
    more = [f"{number(left)} more {'rule is' if left == 1 else 'rules are'} not kept."] if left > 0 else []
    return [f"Not kept, {rule.rule}: {rule.note}" for rule in failed] + more


def _cost(summary: Summary) -> str:
    cost = summary.tradeoff
    if cost.without_noise is None:
        return ""
    at = cost.at(summary.noise.scale)
    with_noise = "unknown" if at is None else _utility(cost, at)
    gone = "" if at is None or cost.is_useful(at) else f" That is {_gone(cost)}."
    without, where = _utility(cost, cost.without_noise), cost.label.partition(", ")[2]
    what = "accuracy " * (cost.metric == "accuracy")
    return f"What it costs: {what}{with_noise} with this noise, {without} without{where and f', {where}'}.{gone}"


def _gone(cost: MeasuredUtility) -> str:
    """That nothing is left, and what helps: less noise only where it is the noise that takes it."""
    own = cost.without_noise
    if own is not None and not cost.is_useful(own):
        return f"{GONE}, and so is the model without noise: collect more rows, or other columns"
    return f"{GONE}: collect more rows, or allow more to be revealed"


def _then(summary: Summary) -> str:
    """What the noise that is advised costs, where it is another one."""
    cost, noise = summary.tradeoff, summary.next.noise
    if noise is None or math.isclose(noise, summary.noise.scale, rel_tol=1e-9):
        return ""
    at = cost.at(noise)
    if at is None:
        return " What that costs was not measured."
    beware = "" if cost.is_useful(at) else f", {_gone(cost)}"
    return f" That noise leaves {_utility(cost, at)}{beware}."


def _utility(cost: MeasuredUtility, value: float) -> str:
    return {"accuracy": percent(value), "r2": f"R² {number(value)}"}.get(cost.metric, f"deviance {number(value)}")
