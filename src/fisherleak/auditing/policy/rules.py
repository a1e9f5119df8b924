"""An audit checked against a policy, rule by rule: what was measured, and whether it is within its limit.

A rule about something that was not measured has failed. Etas are proportional to 1 / sigma for noise of a fixed covariance, so
the noise at which a limit on them passes follows from one measurement; ``passing_noise`` finds one at which all rules pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from fisherleak._support.numbers import number, number_at_most
from fisherleak.attacks import Outcome
from fisherleak.auditing.exposure.revealed import exposure_at
from fisherleak.auditing.policy.applied_rules import AppliedRules, ColumnLimit
from fisherleak.auditing.policy.policy import MEASURED_BY, SECTIONS, Policy, Rule
from fisherleak.auditing.records import INFORMED, WITH_PRIOR, Attacked
from fisherleak.bounds import mu_of_epsilon
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.shares import share_of
from fisherleak.training.defaults import DELTA

if TYPE_CHECKING:
    from fisherleak.auditing.policy.judged import Judged, JudgedMembership, JudgedValue

CLOSE = 1e-9
"""Rounding of a ratio to a limit, next to counts that are exact."""

BLIND = ("no model, other columns", "prior")
"""Attackers who see no model."""
SERVED = "white-box, served answer"
"""Who also sees an answer for the record itself: a rule on the release is not about that."""


UNSTATED_COVARIANCE = (
    "A released file was checked, and its model card has the covariance of the noise in numbers ({0!r}): nothing "
    "shows where their "
    "digits come from. Release without a matrix, or write covariance = [{0!r}] under [require] in the policy."
)
OF_VALUES = ("columns", "label")
"""Sections whose rules are about several columns each."""
FARTHER = 2.0
"""Times a small change that the mean over all values believed possible tells: from there rules in units go by that mean."""
JUDGED_OF_VALUES = ("max_revealed", "min_error", "max_eta", "max_attack")
"""Their rules that a function here judges."""
NOT_JUDGED = "The rule {} of the policy '{}' cannot be checked. Leave it out."
GUESSED = (
    "No noise makes this rule pass, since guesses without the release are correct more often: max_gain under [attacks] limits "
    "what the release adds."
)
NOT_KNOWN = "is not known for noise whose covariance follows from the table's rows: release with `shape='isotropic'`."


def judge(applied: AppliedRules, audit: Judged) -> tuple[Rule, ...]:
    """Every rule of the policy. One that no function below judges is refused: read past, it would seem to have passed."""
    policy = applied.policy
    for each in (limit for limits in (*applied.columns.values(), applied.label) for limit in limits):
        if each.key not in JUDGED_OF_VALUES:
            raise InvalidInputError(NOT_JUDGED.format(each.rule, policy.source))
    found = (
        *_rows(policy, audit),
        *_values(applied, audit),
        *_groups(policy, audit),
        *_membership(policy, audit),
        *_attacks(applied, audit),
        *_utility(policy, audit),
        *_require(policy, audit),
    )
    judged = {rule.name for rule in found}
    sections = [name for name in SECTIONS if name not in OF_VALUES]
    asked = (f"{name}.{key}" for name in sections for key in policy.section(name) if key not in MEASURED_BY)
    for rule in asked:
        if rule not in judged:
            raise InvalidInputError(NOT_JUDGED.format(rule, policy.source))
    return found


def _known(policy: Policy, section: str, *keys: str) -> list[tuple[str, Any]]:
    """What a section of the policy has under keys that its function judges."""
    return [(key, limit) for key, limit in policy.section(section).items() if key in keys]


def _rows(policy: Policy, audit: Judged) -> Iterator[Rule]:
    for key, limit in _known(policy, "rows", "max_eta"):
        value, row, count = audit.eta, audit.row, audit.rows_above(limit)
        words = f"The eta of a {audit.whose} is at most {number_at_most(value)}; limit {limit:g}"
        passed = count == 0 and value <= limit * (1.0 + CLOSE)  # a comparison with NaN fails
        more = _more(audit, value, limit)
        yield Rule(f"rows.{key}", limit, value, passed, _with(words, count, audit), count, row, more)


def _values(applied: AppliedRules, audit: Judged) -> Iterator[Rule]:
    for each in audit.values:
        limits = applied.label if each.name == audit.target else applied.columns[each.name]
        found = _value(audit, each, limits, applied.stated.get(each.name))
        yield from (replace(rule, every=limit.every) for rule, limit in zip(found, limits, strict=True))


def _value(audit: Judged, value: JudgedValue, limits: Sequence[ColumnLimit], stated: float | None) -> Iterator[Rule]:
    """Rules on one column or on the target; ``stated`` is its spread in the policy, where that has one."""
    for each in limits:
        if each.key == "max_attack":
            yield _attack(audit, each.rule, each.limit, value.name)
            continue
        if each.key == "max_eta" and value.steps is not None:
            yield _step(audit, value, each)
            continue
        share = each.key == "max_revealed"
        eta, worst = (value.rms, value.worst_rms) if share else (value.eta, value.worst)
        if share and not np.isfinite(eta * value.spread):
            yield Rule(each.rule, each.limit, None, False, _without_share(audit, value.name))
            continue
        # where the mean is not known the derivative is all there is
        by_change = share or not FARTHER * eta < value.rms < np.inf
        count = value.above[each.key]
        eta, worst = (eta, worst) if by_change else (value.rms, value.worst_rms)
        found, words, ratio = _measured(each.key, value.name, eta, value.spread, each.limit, audit.anyone)
        if share:
            words = f"{words}; spread {number(value.spread, 3)}, {_whence(value.spread, stated)}{audit.fixed_scale}"
        elif value.varies is not None:  # so that a reader notices another unit than that of the limit
            words += f"; the standard deviation of the values is {number(value.varies, 2)}"
        if not by_change:
            words += ", at most, over all values that are believed possible: a small change is told less"
            count = max(count, int(not ratio <= 1.0 + CLOSE))
        passed = count == 0 and ratio <= 1.0 + CLOSE  # a comparison with NaN fails
        more = _more(audit, ratio, 1.0)
        yield Rule(each.rule, each.limit, found, passed, _with(words, count, audit), count, worst, more)


def _step(audit: Judged, value: JudgedValue, limit: ColumnLimit) -> Rule:
    """A limit on a category, a class or one of two values, by how far the release moves with another: no derivative."""
    found = value.steps
    assert found is not None
    if found.unknown:
        words = f"How far the release moves with another value of '{value.name}' is not known: {found.unknown}."
        return Rule(limit.rule, limit.limit, None, False, words)
    (worst,) = found.worst
    moved, count = float(found.moves[worst]), int(np.count_nonzero(found.moves > limit.limit))
    _, words, ratio = _measured("max_eta", value.name, moved, np.nan, limit.limit, audit.anyone)
    passed = count == 0 and ratio <= 1.0 + CLOSE  # a comparison with NaN fails
    words = _with(f"{words}, per step from one value to another{audit.fixed_scale}", count, audit)
    return Rule(limit.rule, limit.limit, moved, passed, words, count, worst, _more(audit, ratio, 1.0))


def _whence(spread: float, stated: float | None) -> str:
    """Where a spread comes from."""
    if stated is None:
        return "that of the rows"
    larger = spread > stated * (1.0 + CLOSE)
    return f"that of the rows, which is above the {stated:g} of the policy" if larger else "stated in the policy"


def _without_share(audit: Judged, name: str) -> str:
    """Why the share of a number that is revealed is not known; categories were refused before anything was measured."""
    why = audit.shares_unknown or (
        "it has none where a step of the model is not affine, or where the label cannot take every value: use affine steps, or "
        "limit max_eta or min_error of the label"
    )
    return f"The share of '{name}' that is revealed is not known: {why}."


def _measured(
    key: str, name: str, eta: float, spread: float, limit: float, anyone: str
) -> tuple[float | None, str, float]:
    """The value of a rule on one column, in words, and how many times too large eta is for it."""
    if key == "max_revealed":
        value = share_of(eta * spread)
        words = (
            f"At most {number(100 * value)} % of {anyone}'s '{name}' is revealed, on average; limit {100 * limit:g} %"
        )
        return value, words, eta * spread / exposure_at(limit)
    if key == "min_error":
        least = 1.0 / eta if eta > 0 else None
        told = "Nothing is revealed" if least is None else f"The least error is ± {number(least)}"
        return least, f"{told} about {anyone}'s '{name}'; limit ± {limit:g}", eta * limit
    return eta, f"The eta of {anyone}'s '{name}' is at most {number_at_most(eta)}; limit {limit:g}", eta / limit


def _groups(policy: Policy, audit: Judged) -> Iterator[Rule]:
    given = dict(_known(policy, "groups", "max_eta_joint", "max_eta_mean", "max_ratio"))
    if given and not audit.groups:
        for key, limit in given.items():
            yield Rule(f"groups.{key}", limit, None, False, "Rows were not grouped: name a column with `group`.")
        return
    if given and len(audit.groups) < 2:
        for key, limit in given.items():
            words = "The training rows are in one group: groups of them cannot be compared."
            yield Rule(f"groups.{key}", limit, None, False, words)
        return
    means = [(name, mean) for name, mean, _ in audit.groups]
    joint = [(name, eta) for name, _, eta in audit.groups]
    for key, limit in given.items():
        if key == "max_ratio":
            least, (worst, most) = min(eta for _, eta in means), max(means, key=itemgetter(1))
            value = most / least if least > 0 else None
            passed = value is not None and value <= limit
            told = (
                "One group has a mean eta of zero, so there is no ratio"
                if value is None
                else f"The mean eta of '{worst}' is {number(value)} times that of the least exposed group"
            )
            yield Rule(f"groups.{key}", limit, value, passed, f"{told}; limit {limit:g}.")
            continue
        if key == "max_eta_joint" and not audit.proportional:
            yield Rule(f"groups.{key}", limit, None, False, f"The eta of a group jointly {NOT_KNOWN}")
            continue
        etas, what = (joint, "jointly") if key == "max_eta_joint" else (means, "on average")
        worst, value = max(etas, key=itemgetter(1))
        words = f"The eta of '{worst}' {what} is {number(value)}; limit {limit:g}."
        passed = all(eta <= limit for _, eta in etas)
        yield Rule(f"groups.{key}", limit, value, passed, words, noise=_more(audit, value, limit))


def _membership(policy: Policy, audit: Judged) -> Iterator[Rule]:
    for key, limit in _known(policy, "membership", "max_right", "max_epsilon"):
        found = audit.membership
        if found.unknown:
            yield Rule(f"membership.{key}", limit, None, False, found.unknown)
            continue
        if key == "max_epsilon":
            yield _epsilon(found, policy.section("membership").get("delta", DELTA), limit, audit)
            continue
        count = found.above(limit)
        noise = None if found.mu is None else _more(audit, found.mu, 2.0 * float(ndtri(limit)))
        at_most = number_at_most(100 * found.right)
        words = f"Membership: an attacker is correct at most {at_most} % of the time; limit {100 * limit:g} %"
        words = " ".join(filter(None, (_with(words, count, audit), found.by_scale, found.note)))
        name, passed = f"membership.{key}", count == 0 and found.right <= limit * (1.0 + CLOSE)
        yield Rule(name, limit, found.right, passed, words, count, found.row, noise)


def _epsilon(found: JudgedMembership, delta: float, limit: float, audit: Judged) -> Rule:
    name = "membership.max_epsilon"
    if found.epsilons is None:
        words = "Epsilon is not known where the rows decide the noise's covariance: use isotropic noise, or limit max_right."
        return Rule(name, limit, None, False, words)
    value, row, count = found.epsilons(delta, limit)
    at_most = f"at most {number_at_most(value)}" if math.isfinite(value) else "not limited"
    words = f"Membership: for this table, epsilon is {at_most} at delta {delta:g}; limit {limit:g}"
    words = " ".join(filter(None, (_with(words, count, audit), found.by_scale, found.note)))
    noise = None if found.mu is None or math.isinf(value) else _more(audit, found.mu, mu_of_epsilon(limit, delta))
    passed = count == 0 and value <= limit * (1.0 + CLOSE)
    return Rule(name, limit, value if math.isfinite(value) else None, passed, words, count, row, noise)


def _attacks(applied: AppliedRules, audit: Judged) -> Iterator[Rule]:
    label = audit.target  # predicted by design, and limited in a section of its own
    others = [o.attribute for o, _ in audit.attacked.outcomes if o.attribute != label]
    columns = tuple(dict.fromkeys((*applied.guessable, *others)))
    for key, limit in _known(applied.policy, "attacks", "max_accuracy", "max_gain"):
        name = f"attacks.{key}"
        left_out = [why for column in columns if (why := _not_attacked(audit, column))]
        if left_out:
            yield Rule(name, limit, None, False, " ".join(left_out))
        elif key == "max_accuracy":
            found = [_attack(audit, name, limit, column) for column in columns]
            yield max(found, key=lambda rule: (not rule.passed, rule.value))
        else:
            gains = {column: _gain(audit, column) for column in columns}
            worst = max(gains, key=lambda column: gains[column][0])
            value, sampled = gains[worst]
            words = (
                f"With the release, attackers guess '{worst}' correctly {number(100 * value)} points more often (of 100) than "
                f"without{sampled}; limit {100 * limit:g}{audit.fixed_scale}."
                f"{_cannot_fail(audit, columns, limit)}"
            )
            yield Rule(name, limit, value, all(gain <= limit for gain, _ in gains.values()), words)


def _of(attacked: Attacked, column: str, blind: bool) -> list[Outcome]:
    return [o for part in attacked.parts(column) for o in _chosen(part, blind)]


def _chosen(outcomes: Sequence[Outcome], blind: bool) -> list[Outcome]:
    return [o for o in outcomes if o.attacker != SERVED and (o.attacker in BLIND) == blind]


def _not_attacked(audit: Judged, column: str) -> str:
    """Why attacks on a column say too little: nothing where the strongest attackers were run."""
    ran = [{o.attacker for o in _chosen(part, False)} for part in audit.attacked.parts(column)]
    if all({WITH_PRIOR, INFORMED} <= each for each in ran):
        return ""
    if any(ran):
        return f"The strongest attacks on '{column}' were not run: the assumptions say why."
    why = audit.unattacked(column)
    if why:
        return f"'{column}' was not attacked: {why}."
    noted = any(f"'{column}'" in note for note in audit.attacked.notes)
    return f"'{column}' was not attacked: {'the assumptions say why' if noted else 'run the attacks'}."


def _sampled(audit: Judged, outcome: Outcome) -> str:
    """In which rows, or people, where not all of them were attacked."""
    who = audit.attacked.who(outcome)
    every = audit.attackable(outcome.attribute, who)
    if outcome.n >= every:
        return ""
    return f" (the upper end of the 95 % interval from {outcome.n:,} of {every:,} {who})"


def _rate(audit: Judged, outcome: Outcome) -> float:
    """How often an attacker is correct; the upper end of its interval where only some rows were attacked."""
    return float(outcome.high if _sampled(audit, outcome) else outcome.accuracy)


def _gain(audit: Judged, column: str) -> tuple[float, str]:
    """How much more often the best attacker with the release is right than the best one without, and who was attacked."""
    parts = audit.attacked.parts(column)
    gains = [(_rate(audit, o) - _blind(part), _sampled(audit, o)) for part in parts for o in _chosen(part, False)]
    return max(gains, key=itemgetter(0))


def _cannot_fail(audit: Judged, columns: Sequence[str], limit: float) -> str:
    """Columns that are guessed so often without the release that no gain is above a limit."""
    named = [f"'{column}'" for column in columns if 1.0 - without_release(audit.attacked, column) <= limit]
    if not named:
        return ""
    return (
        f" No gain on {', '.join(named)} can be above the limit, since attackers without the release are correct so often: "
        "limit max_attack or max_accuracy."
    )


def without_release(attacked: Attacked, column: str) -> float:
    """How often the best attacker on a column is right who sees no release."""
    return min(_blind(part) for part in attacked.parts(column))


def _blind(part: Sequence[Outcome]) -> float:
    seeing, blind = _chosen(part, False), _chosen(part, True)
    return float(max((0.0, *(o.accuracy for o in blind), *(o.baseline for o in (*blind, *seeing)))))


def _attack(audit: Judged, rule: str, limit: float, column: str) -> Rule:
    why = _not_attacked(audit, column)
    if why:
        return Rule(rule, limit, None, False, why)
    best = max(_of(audit.attacked, column, False), key=lambda o: _rate(audit, o))
    seen, blind = _rate(audit, best), max(_blind(part) for part in audit.attacked.parts(column))
    words = (
        f"The best attacker on '{column}' is correct {number(100 * seen)} % of the time{_sampled(audit, best)}, "
        f"{number(100 * blind)} % without the release; limit {100 * limit:g} %{audit.fixed_scale}."
    )
    if blind > limit:
        words += f" {GUESSED}"
    value = max(seen, blind)  # who sees the release can ignore it
    return Rule(rule, limit, value, value <= limit, words)


def _utility(policy: Policy, audit: Judged) -> Iterator[Rule]:
    cost = audit.cost
    if cost is None:
        for key, limit in _known(policy, "utility", "min", "max", "max_loss"):
            yield Rule(f"utility.{key}", limit, None, False, "No measure of utility is known for this model.")
        return
    better = cost.metric.higher_is_better
    point = min(cost.points, key=lambda p: abs(p.scale - audit.scale))
    sign = 1.0 if better else -1.0
    least = point.utility - sign * point.unsure  # a mean of so many copies, at its worse end
    end = "lower" if better else "upper"
    told = f"the {end} end of the 95 % interval of the mean of {cost.draws} noisy copies"
    for key, limit in _known(policy, "utility", "min", "max", "max_loss"):
        name = f"utility.{key}"
        if key == "max_loss":
            value = sign * (cost.without_noise - least)
            words = f"The noise costs {number(value)} of {cost.metric.label}, at {told}; limit {limit:g}."
            yield Rule(name, limit, value, value <= limit, words)
        elif (key == "min") != better:
            other = "min" if better else "max"
            words = f"More of {cost.metric.label} is {'better' if better else 'worse'}: limit it by {other}."
            yield Rule(name, limit, least, False, words)
        else:
            words = f"{cost.metric.label} with the noise is {number(least)}, at {told}; limit {limit:g}."
            yield Rule(name, limit, least, sign * (least - limit) >= 0, words)


def _require(policy: Policy, audit: Judged) -> Iterator[Rule]:
    own, attacked = audit.required, sorted({o.attribute for o, _ in audit.attacked.outcomes})
    covariance = [] if own.covariance is None else [own.covariance]
    unstated = {*covariance} - {*policy.section("require").get("covariance", ())}
    found: dict[str, tuple[Any, Callable[[Any], bool]]] = {
        "target": (audit.target, lambda limit: audit.target == limit),
        "public": (own.public, lambda limit: own.public == limit),
        "model": (own.model, lambda limit: own.model == limit),
        "group": (own.group, lambda limit: own.group == limit),
        "person": (own.person, lambda limit: own.person == limit),
        "held_out": (own.held_out, lambda limit: own.held_out >= limit),
        "released": (own.released, lambda limit: own.released and not (own.unconfirmed or unstated)),
        "covariance": (covariance, lambda limit: not unstated),
        "na": (list(own.na), lambda limit: set(own.na) <= set(limit)),
        "decimal": (list(own.marks), lambda limit: {*own.marks} <= {limit}),
        "bounds": (not own.unbounded, lambda limit: not own.unbounded),
        "attacks": (bool(attacked), lambda limit: bool(attacked)),
        "attributes": (attacked, lambda limit: set(limit) <= set(attacked)),
    }
    for key, limit in _known(policy, "require", *found):
        value, holds = found[key]
        name = {"attacks": "The attacks", "released": "The check of a released file"}.get(key, f"`{key}`")
        if key == "bounds":
            lacking = "".join(f" '{each}' has none." for each in own.unbounded[:1])
            yield Rule(
                "require.bounds",
                limit,
                value,
                holds(limit),
                f"Every numeric column must have declared bounds.{lacking}",
            )
            continue
        words = f"{name} must be {_said(limit)}{' or more' if key == 'held_out' else ''}, and is {_said(value)}."
        if key == "released" and own.unconfirmed:
            words = f"A released file was checked, and this is not confirmed: {own.unconfirmed}"
        elif key == "released" and unstated:
            words = UNSTATED_COVARIANCE.format(own.covariance)
        yield Rule(f"require.{key}", limit, value, holds(limit), words)


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "run" if value else "not run"
    return "nothing" if value in (None, []) else ", ".join(value) if isinstance(value, list) else str(value)


def _with(words: str, count: int, audit: Judged) -> str:
    """With how many fail a rule: people, or rows where an identifier says that several are one's."""
    one, many = audit.called
    return f"{words}; the rule fails for {count:,} {one if count == 1 else many}." if count else f"{words}."


def _more(audit: Judged, value: float, limit: float) -> float | None:
    """The scale at which an eta is at its limit; none where the rows decide the covariance too, for eta then stays above."""
    return audit.scale * value / limit if audit.proportional else None
