"""The verdict: what a summary says about people and limits, what the noise costs and what to do, in sentences.

What is exposed most stands first, whatever kind it is. To compare kinds, each is put on one scale from 0, nothing, to 1,
certainty: the share of a number revealed, and for a guess between two answers twice its accuracy less one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fisherleak._support.numbers import except_for, measured, number, percent, percent_at_most, share, written
from fisherleak.auditing.report_summary import (
    DistinguishableColumn,
    MeasuredUtility,
    MembershipFound,
    PriceAtLimit,
    RevealedShare,
    Summary,
    row_called,
)
from fisherleak.report.sentences import INFORMED

MOST_RULES = 3
EVEN = 0.5
"""The accuracy of a coin, for a guess between two answers."""
GONE = "no better than the baseline"
TENTH = 0.1
"""The share of any numeric value that the default noise reveals at most, where there are numbers."""
ALL = 0.995
"""A part that is written as all of it."""
ISOTROPIC = "isotropic"
MEMBERSHIP = "Membership (chance 50 %)"
PRICED = ("Limit on η", "Least error", "Utility", "With isotropic noise", "Covariance, penalty", MEMBERSHIP)
PRICED_PRESENT = ("Covariance", "Utility", "Largest η", MEMBERSHIP)
"""Heads of the tables of releases by a limit."""
NO_RULE = "Whether the model may be published is open until you set a rule: the limit on eta only chose the noise."
NO_LIMIT = "No limit was set. Choose one: until then it is open whether the model may be published."


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

    @property
    def sentences(self) -> tuple[str, ...]:
        """All below the headline."""
        return tuple(said for said in (*self.lines, self.cost, self.advice) if said)


@dataclass(frozen=True)
class Exposed:
    """What is exposed most of one kind: how much, from 0 to 1, and in words: a headline with the rest, or one line."""

    size: float
    headline: str
    rest: str
    line: str


def verdict_text(summary: Summary) -> str:
    """The verdict as lines of text, the command last."""
    verdict = verdict_of(summary)
    if verdict is None:
        return ""
    command = [f"\n    {verdict.command}"] if verdict.command else []
    return "\n".join([verdict.headline, *(f"  - {said}" for said in verdict.sentences), *command])


def verdict_of(summary: Summary) -> Verdict | None:
    """From a summary; none from those of earlier versions, which do not count people."""
    if summary.people is None:
        return None
    kinds = (_membership(summary), _number(summary), _category(summary), _target(summary))
    exposed = sorted((kind for kind in kinds if kind is not None), key=lambda kind: -kind.size)
    limits = _limits(summary)
    headline, kept = limits or (exposed[0].headline if exposed else NO_LIMIT, None)
    told = [kind.line for kind in exposed]
    if limits is None and exposed:
        told[0] = exposed[0].rest
    if summary.data.repeated is not None:
        headline = f"{summary.data.repeated.note} {headline}"
    open_ = _not_given(summary, limits is None and bool(exposed))
    lines = (*_failed(summary), *filter(None, told), *_without_shares(summary), *open_)
    advised = summary.next
    around = (advised.command_for[0], advised.command_for[1]) if advised.command_for else None
    helps = advised.noise is None or advised.eta is not None or _is_useful(summary, advised.noise)
    command = advised.command if helps else None
    note = advised.note if helps or not kept else f"Every limit holds, but with this noise the model is {GONE}."
    return Verdict(headline, kept, lines, _cost(summary), note + _then(summary), command, around)


def prices_in_words(summary: Summary) -> list[tuple[str, ...]]:
    """Each limit: the limit, the least error, utility by the rule and with isotropic noise, covariance, l2 and membership."""
    prices, cost = summary.prices, summary.tradeoff
    found: list[tuple[str, ...]] = []
    for each in () if prices is None else [price for price in prices.limits if price.by_rule]:
        alike = [price for price in prices.limits if price.eta == each.eta and not price.by_rule] if prices else []
        plain = _left(cost, alike[0]) if alike else "the same" if each.covariance == ISOTROPIC else "not tried"
        found.append(
            (
                number(each.eta),
                number(1.0 / each.eta),
                _left(cost, each),
                plain,
                f"{each.covariance}, l2 = {number(each.l2)}",
                _told(each),
            )
        )
    return found


def present_in_words(summary: Summary) -> list[tuple[str, ...]]:
    """Each covariance for the rows present at one limit: its name, utility, the largest eta of a row, and membership."""
    prices, cost = summary.prices, summary.tradeoff
    return [
        (
            each.covariance,
            _left(cost, each),
            "not counted" if each.eta_present is None else number(each.eta_present),
            _told(each),
        )
        for each in (() if prices is None else prices.present)
    ]


def promise_in_words(summary: Summary) -> str:
    """Whose eta a release by a limit keeps below it."""
    people = summary.data.people is not None
    if summary.prices is not None and summary.prices.over != "any-record":
        return "everyone present" if people else "every row present"
    return "any person with records within the bounds" if people else "any record within the bounds"


def _left(cost: MeasuredUtility, price: PriceAtLimit) -> str:
    """What a price leaves of utility."""
    if price.utility is None:
        return "not measured"
    left = measured(cost.metric, price.utility)
    if not cost.is_useful(price.utility):
        return f"{left}: {GONE}"
    return left if price.kept is None else f"{left} ({share(price.kept)} of the gain)"


def _told(price: PriceAtLimit) -> str:
    """Membership at most, from the parameters and the covariance."""
    if price.membership is None:
        return "not known"
    most, median = percent_at_most(price.membership, EVEN), price.membership_median
    return most if median is None else f"{most} (median {percent(median, EVEN)})"


def choices_in_words(summary: Summary) -> list[tuple[str, str, str]]:
    """Each noise that may be chosen: the noise, what it reveals at most, and what it leaves of utility."""
    cost, found = summary.tradeoff, []
    for choice in summary.choices:
        at = choice.utility
        left = "not measured" if at is None else measured(cost.metric, at)
        if at is not None and not cost.is_useful(at):
            left += f": {GONE}"
        elif choice.kept is not None:
            left += f" ({share(choice.kept)} of the gain over {_baseline(cost)})"
        found.append((number(choice.noise), share(choice.share), left))
    return found


def _limits(summary: Summary) -> tuple[str, bool] | None:
    """Whether the limits that were set are kept; None where there is none."""
    policy, gate = summary.policy, summary.gate
    if policy and not policy.passed:
        return (
            f"Failed: {number(policy.count - policy.passed_count)} of {_rules(policy.count)} of {policy.source}.",
            False,
        )
    if gate and gate.exceeded:
        above, all_ = number(gate.count), number(summary.number_measured)
        return (
            f"Failed: {above} of {all_} {summary.whose} are above the limit of {_eta_limit(summary, gate.max_eta)}.",
            False,
        )
    if policy:
        every = "the only rule" if policy.count == 1 else f"all {number(policy.count)} rules"
        return f"Passed: {every} of {policy.source}.", True
    if gate:
        return f"Passed: no {_one(summary)} is above the limit of {_eta_limit(summary, gate.max_eta)}.", True
    return None


def _eta_limit(summary: Summary, limit: float) -> str:
    return f"η = {number(limit)}{' in the units of the columns' * summary.raw_units}"


def _rules(count: int) -> str:
    return f"{number(count)} rule{'s' * (count != 1)}"


def _one(summary: Summary) -> str:
    return "person" if summary.whose == "people" else "row"


def _without_shares(summary: Summary) -> list[str]:
    """That no share is known, where there are numbers."""
    numbers = any(attribute.kind == "number" and not attribute.yes_no for attribute in summary.attributes)
    if not numbers or summary.people is None or summary.people.measured:
        return []
    return ["No share of a numeric value is known here. Eta bounds the error of unbiased attackers instead."]


def _not_given(summary: Summary, no_limit: bool) -> list[str]:
    """That no limit was set, and which noise all of it is said for, where nobody chose one."""
    if summary.noise.chosen != "default":
        said = NO_RULE if summary.noise.chosen == "calibrated" else NO_LIMIT
        return [said] * (no_limit and summary.released is None)
    given = "noise or limit" if no_limit else "noise"
    even = any(attribute.yes_no for attribute in summary.attributes) and summary.choices
    beside = " A column of two values counts as numeric, with a standard deviation of 1/2." if even else ""
    open_ = "Whether the model may be published is open until you set a limit. " if no_limit else ""
    shares = [value.revealed.max for value in summary.values if value.revealed]
    scale = number(summary.noise.scale)
    if shares and max(shares) <= TENTH:
        most = f"reveals at most 10 % of any numeric value{except_for(summary.without_share)}"
        return [f"{open_}No {given} was given: the noise scale is {scale}, which {most}.{beside}"]
    return [f"{open_}No {given} was given: these figures are for a noise scale of {scale}.{beside}"]


def _number(summary: Summary) -> Exposed | None:
    """The number of which the largest share is revealed."""
    people = summary.people
    if people is None or not people.measured:
        return None
    found, worst = max(
        ((value.revealed, value) for value in summary.values if value.revealed), key=lambda pair: pair[0].max
    )
    row, name = (worst.worst_row, worst.worst_id) if found.row is None else (found.row, found.id)
    whose = row_called(row, name)
    if summary.data.people is not None:
        person = worst.worst_person if found.person is None else found.person
        whose = f"the person of {whose}" if person is None else f"person {person}"
    return Exposed(
        found.max,
        f"Up to {percent_at_most(found.max)} of a numeric value is revealed: {worst.name} of {whose}.",
        _shares(found, people.count, summary),
        f"{_shares(found, people.count, summary)} Most exposed: {worst.name} of {whose}"
        f"{f', {percent_at_most(found.max)}' if people.count else ''}.",
    )


def _shares(found: RevealedShare, count: int, summary: Summary) -> str:
    unknown = summary.without_share
    beside = f" No share is known of {except_for(unknown).removeprefix(' except ')}." if unknown else ""
    if not count:
        return (
            f"At most {percent_at_most(found.max)} of any numeric value{except_for(unknown)} is revealed, on average, to an "
            f"attacker who knows everything else.{beside}"
        )
    who = f"{number(count)} of {number(summary.number_measured)} {summary.whose}"
    return f"For {who}, more than half of a numeric value is revealed to an attacker who knows everything else.{beside}"


def _named(target: str) -> str:
    """The target with its name, which may be just that."""
    return "target" if target == "target" else f"target, {target},"


def _target(summary: Summary) -> Exposed | None:
    """What is revealed of the target: the share of a number, or how well its class is guessed."""
    label = summary.label
    if label is None:
        return None
    if not label.revealed:
        told = [apart for apart in summary.distinguishable if apart.attribute == label.name]
        two, what = len(summary.data.classes or ()) == 2, f"the {_named(label.name)}"
        return None if not told else _between_two(told[0], what, f"The target is {label.name}", two, _one(summary))
    found = label.revealed
    if all(
        value.name == label.name or not value.revealed or value.revealed.max < found.max for value in summary.values
    ):
        return None  # the number that is revealed most, which has its line
    above = "" if not found.count else f" More than half is revealed about {number(found.count)} {summary.whose}."
    return Exposed(
        found.max,
        f"Up to {percent_at_most(found.max)} of the {_named(label.name)} is revealed.",
        above.strip(),
        f"At most {percent_at_most(found.max)} of any {_one(summary)}'s {_named(label.name)} is revealed.{above}",
    )


def _category(summary: Summary) -> Exposed | None:
    """The category, or yes and no, that is guessed best by exact moves; nothing where none was tried."""
    categories = {attribute.name for attribute in summary.attributes if attribute.kind == "category"}
    found = [apart for apart in summary.distinguishable if apart.attribute in categories]
    if not found:
        return None
    most = max(found, key=lambda apart: apart.worst)
    tried = "" if categories == {apart.attribute for apart in found} else f" of {number(len(found))} tried"
    two = any(column.name == most.attribute and column.categories == 2 for column in summary.data.columns)
    which = f"The most exposed category{tried} is {most.attribute}"
    exposed = _between_two(most, most.attribute, which, two, _one(summary))
    hints = _with_hints(summary, most.attribute)
    return replace(exposed, rest=exposed.rest + hints, line=exposed.line + hints)


def _with_hints(summary: Summary, attribute: str) -> str:
    """How often an attacker is correct who also uses what other columns suggest; nothing where that was not tried."""
    tried = (each for each in summary.attacks if (each.attacker, each.attribute) == (INFORMED, attribute))
    found = next(tried, None)
    if found is None:
        return ""
    with_release, without = percent(found.accuracy, EVEN), percent(found.baseline, EVEN)
    return f" Other columns alone give {without} on average, with the release {with_release}."


def _between_two(apart: DistinguishableColumn, what: str, which: str, two: bool, one: str) -> Exposed:
    """A test between a value and the one most unlike it; ``two`` where there are no others."""
    whole = f"guesses {what} correctly" if two else f"who chooses between two values of {what} is correct"
    guess = "guesses it correctly" if two else "who chooses between two values is correct"
    correct, median = _correct(apart.worst), percent(apart.median, EVEN)
    rest = "" if which.startswith("The target is") else f"{which}. "
    return Exposed(
        _above_chance(apart.worst),
        f"An attacker {whole} {correct} (chance 50 %).",
        f"{rest}For the median {one} the attacker is correct {median} of the time.",
        f"{which}{': an' if two and ' tried is ' not in which else '. An'} attacker {guess} {correct} "
        f"(median {median}, chance 50 %).",
    )


def _membership(summary: Summary) -> Exposed | None:
    """Whether someone is in the data."""
    found = summary.membership
    if found is None:
        return None
    correct, named = _correct(found.accuracy_max), _recognised(summary, found)
    average = f"{'at most ' * found.recognised_at_most}{percent(found.accuracy_mean, EVEN)}"
    return Exposed(
        _above_chance(found.accuracy_max),
        f"Membership: an attacker is correct {correct} (chance 50 %).",
        f"On average the attacker, who knows all other rows, is correct {average} of the time. {found.note}".rstrip()
        + named,
        f"Membership: an attacker is correct {correct} (average {average}, chance 50 %). {found.note}".rstrip() + named,
    )


def _recognised(summary: Summary, found: MembershipFound) -> str:
    """Whose membership is most exposed: the first by name, and how many more are recognised with certainty."""
    if not found.rows:
        return ""
    first = found.rows[0]
    name = first.called if summary.data.people is None else f"person {first.label}"
    more = (
        f" and {'up to ' * found.recognised_at_most}{number(found.recognised - 1)} more" if found.recognised > 1 else ""
    )
    return f" Most exposed: {name}{more}."


def _above_chance(accuracy: float) -> float:
    """From 0 for a coin to 1 for certainty."""
    return 2.0 * accuracy - 1.0


def _correct(accuracy: float) -> str:
    return f"{'at most' if accuracy < 0.995 else 'up to'} {percent_at_most(accuracy, EVEN)} of the time"


def _failed(summary: Summary) -> list[str]:
    policy = summary.policy
    if policy is None:
        return []
    failed = [rule for rule in policy.rules if not rule.passed][:MOST_RULES]
    left = policy.count - policy.passed_count - len(failed)
    more = [f"{number(left)} more rule{'s' * (left != 1)} failed."] if left > 0 else []
    return [f"Failed, {rule.rule}: {rule.note}" for rule in failed] + more


def _cost(summary: Summary) -> str:
    cost = summary.tradeoff
    if cost.without_noise is None:
        return ""
    at = cost.at(summary.noise.scale)
    with_noise = "unknown" if at is None else measured(cost.metric, at)
    gone = "" if at is None or cost.is_useful(at) else f" That is {_gone(cost)}."
    without, where = written(cost.metric, cost.without_noise), cost.label.partition(", on ")[2]
    what = "accuracy " * (cost.metric == "accuracy")
    left = "" if gone or cost.note or at is None else _gain_left(cost, at)
    return f"What it costs: {what}{with_noise} with this noise, {without} without{where and f' ({where})'}{left}.{gone}"


def _gain_left(cost: MeasuredUtility, at: float) -> str:
    """The part that is left of the gain over the baseline, where the model without noise gains and not all of it is left."""
    own, baseline = cost.without_noise, cost.baseline
    if own is None or baseline is None or not cost.is_useful(own):
        return ""
    part = (at - baseline) / (own - baseline)
    return f": {share(part)} of the gain is left" if part < ALL else ""


def _baseline(cost: MeasuredUtility) -> str:
    return "predicting the mean" if cost.metric == "r2" else "the baseline"


def _gone(cost: MeasuredUtility) -> str:
    """That nothing is left, and what helps: less noise only where it is the noise that takes it."""
    own = cost.without_noise
    if own is not None and not cost.is_useful(own):
        return f"{GONE}, and so is the model without noise: collect more rows, or other columns"
    return f"{GONE}: collect more rows, or allow more to be revealed"


def _is_useful(summary: Summary, noise: float) -> bool:
    """Whether a model with this noise is better than the baseline, or not known to be no better."""
    at = summary.tradeoff.at(noise)
    return at is None or summary.tradeoff.is_useful(at)


def _then(summary: Summary) -> str:
    """What the noise that is advised costs, where it is another one."""
    cost, noise = summary.tradeoff, summary.next.noise
    if noise is None or summary.next.eta is not None or math.isclose(noise, summary.noise.scale, rel_tol=1e-9):
        return ""
    at = cost.at(noise)
    if at is None:
        return " What that costs was not measured."
    beware = "" if cost.is_useful(at) else f", {_gone(cost)}"
    what = "accuracy " * (cost.metric == "accuracy")
    return f" With that noise: {what}{measured(cost.metric, at)}{beware}."
