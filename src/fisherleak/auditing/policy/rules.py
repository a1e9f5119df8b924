"""An audit checked against a policy, rule by rule: what was measured, and whether it is within its limit.

A rule about something that was not measured has failed. Etas are proportional to 1 / sigma for noise of a fixed covariance, so
the noise at which a limit on them passes follows from one measurement; ``passing_noise`` finds one at which all rules pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from fisherleak._support.numbers import number
from fisherleak.attacks import Outcome
from fisherleak.auditing.attackers import INFORMED, WITH_PRIOR
from fisherleak.auditing.exposure.columns import ColumnFigures, LabelFigures
from fisherleak.auditing.exposure.exposure import gate_of
from fisherleak.auditing.exposure.revealed import exposure_at, label_spread, share_of, shares_unknown
from fisherleak.auditing.policy.applied_rules import AppliedRules, ColumnLimit
from fisherleak.auditing.policy.policy import SECTIONS, Policy
from fisherleak.auditing.policy.rule import Rule
from fisherleak.auditing.records import Audit
from fisherleak.errors import InvalidInputError
from fisherleak.rows import sum_rows
from fisherleak.training.people import varying

__all__ = ["judge", "without_release"]

CLOSE = 1e-9
"""Rounding of a ratio to a limit, next to counts that are exact."""

BLIND = ("no model, other columns", "prior")
"""Attackers who see no model."""
SERVED = "white-box, served answer"
"""Who also sees an answer for the record itself: a rule on the release is not about that."""


UNCONFIRMED_REMEDY = (
    "Gaussian noise can be confirmed on 18 parameters or more that rows decide. A smaller model must be released by someone "
    "who answers for the data, under a policy without this rule."
)
OF_VALUES = ("columns", "label")
"""Sections whose rules are about several columns each."""
NOT_KNOWN = "is not known for noise that has the shape of the table's own rows: release with `shape='isotropic'`."


def judge(applied: AppliedRules, audit: Audit) -> tuple[Rule, ...]:
    """Every rule of the policy. One that no function below judges is refused: read past, it would seem to have passed."""
    policy = applied.policy
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
    asked = (f"{name}.{key}" for name in SECTIONS if name not in OF_VALUES for key in policy.section(name))
    for rule in asked:
        if rule not in judged:
            raise InvalidInputError(f"The rule {rule} of the policy '{policy.source}' cannot be checked. Leave it out.")
    return found


def _known(policy: Policy, section: str, *keys: str) -> list[tuple[str, Any]]:
    """What a section of the policy has under keys that its function judges."""
    return [(key, limit) for key, limit in policy.section(section).items() if key in keys]


def _rows(policy: Policy, audit: Audit) -> Iterator[Rule]:
    for key, limit in _known(policy, "rows", "max_eta"):
        (row, top), *_ = audit.rows.digest.top
        value = top / audit.unit_scale
        count = gate_of(audit.rows, audit.unit_scale, limit).count
        whose = "row" if audit.design.people is None else "person"
        words = f"The eta of a {whose} is at most {number(value)}; limit {limit:g}"
        passed = count == 0 and value <= limit * (1.0 + CLOSE)  # a comparison with NaN fails
        yield Rule(f"rows.{key}", limit, value, passed, _with(words, count), count, row, _more(audit, value, limit))


def _values(applied: AppliedRules, audit: Audit) -> Iterator[Rule]:
    units = [*(figure.feature.scale for figure in audit.columns), audit.design.target.scale]
    spreads = audit.yardsticks.spreads * np.array(units)
    used = {figure.feature.name: (figure, spreads[j]) for j, figure in enumerate(audit.columns)}
    for column in (column.name for column in audit.design.columns if column.name in used):
        figure, spread = used[column]
        yield from _value(audit, column, applied.columns[column], figure, float(spread), applied.stated.get(column))
    target = audit.design.target.name
    yield from _value(audit, target, applied.label, audit.label, float(spreads[-1]), applied.stated.get(target))


def _value(
    audit: Audit,
    name: str,
    limits: Sequence[ColumnLimit],
    figure: ColumnFigures | LabelFigures,
    spread: float,
    stated: float | None,
) -> Iterator[Rule]:
    """Rules on one column or on the target; ``stated`` is its spread in the policy, where that has one."""
    for each in limits:
        if each.key == "max_attack":
            yield _attack(audit, each.rule, each.limit, name)
            continue
        share = each.key == "max_revealed"
        eta = each.step * (figure.rms.largest if share else figure.largest) / audit.unit_scale
        if share and not np.isfinite(eta * spread):
            yield Rule(each.rule, each.limit, None, False, _without_share(audit, name))
            continue
        count = figure.counts[audit.yardsticks.levels.index(each.key)]
        value, words, ratio = _measured(each.key, name, eta, spread, each.limit)
        if share:
            words = f"{words}; spread {number(spread, 3)}, {_whence(spread, stated)}"
        words += _varying(audit, each.key, figure)
        passed = count == 0 and ratio <= 1.0 + CLOSE  # a comparison with NaN fails
        worst = figure.rms.worst if share else figure.worst
        yield Rule(each.rule, each.limit, value, passed, _with(words, count), count, worst, _more(audit, ratio, 1.0))


def _varying(audit: Audit, key: str, figure: ColumnFigures | LabelFigures) -> str:
    """How much values vary, so that a reader notices another unit than that of the limit."""
    feature = figure.feature
    counted = feature is None or feature.kind == "number"
    if key == "max_revealed" or not counted or (feature is None and audit.design.target.classes):
        return ""
    if feature is not None and feature.yes_no:
        return ", per step from one value to the other"
    own = label_spread(audit.design) if feature is None else feature.prior
    return f", where the values vary by {number(own, 2)}"


def _whence(spread: float, stated: float | None) -> str:
    """Where a spread comes from."""
    if stated is None:
        return "that of the rows"
    larger = spread > stated * (1.0 + CLOSE)
    return f"that of the rows, which is above the {stated:g} of the policy" if larger else "stated in the policy"


def _without_share(audit: Audit, name: str) -> str:
    """Why the share of a number that is revealed is not known; categories were refused before anything was measured."""
    why = shares_unknown(audit.trained)
    why = why or f"a normal belief about '{name}' has values that the model cannot be fitted with"
    return f"The share of '{name}' that is revealed is not known: {why}."


def _measured(key: str, name: str, eta: float, spread: float, limit: float) -> tuple[float | None, str, float]:
    """The value of a rule on one column, in words, and how many times too large eta is for it."""
    if key == "max_revealed":
        value = share_of(eta * spread)
        words = f"At most {number(100 * value)} % of anyone's '{name}' is revealed, on average; limit {100 * limit:g} %"
        return value, words, eta * spread / exposure_at(limit)
    if key == "min_error":
        least = 1.0 / eta if eta > 0 else None
        told = "nothing is known" if least is None else f"the least error is ± {number(least)}"
        return least, f"Of anyone's '{name}' {told}; limit ± {limit:g}", eta * limit
    return eta, f"The eta of anyone's '{name}' is at most {number(eta)}; limit {limit:g}", eta / limit


def _groups(policy: Policy, audit: Audit) -> Iterator[Rule]:
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
    scale = audit.unit_scale
    means = [(group.name, group.spread.mean / scale) for group in audit.groups]
    joint = [(group.name, group.joint / scale) for group in audit.groups]
    for key, limit in given.items():
        if key == "max_ratio":
            least, (worst, most) = min(eta for _, eta in means), max(means, key=itemgetter(1))
            value = most / least if least > 0 else None
            passed = value is not None and value <= limit
            told = "nobody in one group" if value is None else f"{number(value)} times as much"
            yield Rule(f"groups.{key}", limit, value, passed, f"The model leans on '{worst}' {told}; limit {limit:g}.")
            continue
        if key == "max_eta_joint" and audit.trained.shaped_at is not None:
            yield Rule(f"groups.{key}", limit, None, False, f"The eta of a group jointly {NOT_KNOWN}")
            continue
        etas, what = (joint, "jointly") if key == "max_eta_joint" else (means, "on average")
        worst, value = max(etas, key=itemgetter(1))
        words = f"The eta of '{worst}' {what} is {number(value)}; limit {limit:g}."
        passed = all(eta <= limit for _, eta in etas)
        yield Rule(f"groups.{key}", limit, value, passed, words, noise=_more(audit, value, limit))


def _membership(policy: Policy, audit: Audit) -> Iterator[Rule]:
    for key, limit in _known(policy, "membership", "max_right"):
        presence = audit.presence
        if not presence.measured:
            yield Rule(f"membership.{key}", limit, None, False, presence.note)
            continue
        count = _told_better(audit, limit)
        worst = presence.top[0]
        in_proportion = np.isfinite(worst.mu) and presence.kind == "mu"
        noise = _more(audit, worst.mu, 2.0 * float(ndtri(limit))) if in_proportion else None
        words = f"Presence is told right {number(100 * worst.right)} of 100 times at most; limit {100 * limit:g}"
        words = " ".join(filter(None, (_with(words, count), presence.recognised_note)))
        name, passed = f"membership.{key}", count == 0 and worst.right <= limit * (1.0 + CLOSE)
        yield Rule(name, limit, worst.right, passed, words, count, worst.row, noise)


def _told_better(audit: Audit, limit: float) -> int:
    """Rows about whose presence the best attacker is right more often than this."""
    scale = audit.unit_scale
    (count,) = sum_rows(lambda mu: (np.count_nonzero(~(ndtr(0.5 * mu / scale) <= limit)),), audit.presence.mu)
    return int(count)


def _attacks(applied: AppliedRules, audit: Audit) -> Iterator[Rule]:
    label = audit.design.target.name  # predicted by design, and limited in a section of its own
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
            worst = max(gains, key=lambda column: gains[column])
            value = gains[worst]
            words = (
                f"Of '{worst}' attackers with the release guess {number(100 * value)} of 100 more than those without"
                f"{_sampled(audit, worst)}; limit {100 * limit:g}.{_cannot_fail(audit, columns, limit)}"
            )
            yield Rule(name, limit, value, all(gain <= limit for gain in gains.values()), words)


def _of(audit: Audit, column: str, blind: bool) -> list[Outcome]:
    found = [o for o, _ in audit.attacked.outcomes if o.attribute == column and o.attacker != SERVED]
    return [o for o in found if (o.attacker in BLIND) == blind]


def _not_attacked(audit: Audit, column: str) -> str:
    """Why attacks on a column say too little: nothing where the strongest attackers were run."""
    ran = {o.attacker for o in _of(audit, column, False)}
    if {WITH_PRIOR, INFORMED} <= ran:
        return ""
    if ran:
        return f"The strongest attacks on '{column}' were not run: the assumptions say why."
    if audit.design.lazy:
        return f"'{column}' was not attacked: attacks need all rows in memory, and these are read part by part."
    if varying(audit.design, [column]):
        return f"'{column}' was not attacked: rows of one person differ in it."
    noted = any(f"'{column}'" in note for note in audit.attacked.notes)
    return f"'{column}' was not attacked: {'the assumptions say why' if noted else 'run the attacks'}."


def _sampled(audit: Audit, column: str) -> str:
    """In which rows, where not all of them were attacked."""
    design, people = audit.design, audit.design.people
    feature = next((each for each in design.features if each.name == column and each.filled), None)
    rows = design.n - (0 if feature is None else int(design.lacking(feature).sum()))
    every = rows if people is None else people.count
    attacked = max(o.n for o in _of(audit, column, False))
    who = "rows" if people is None else "people"
    if attacked >= every:
        return ""
    return f" (the upper end of the 95 % interval from {attacked:,} of {every:,} {who})"


def _rate(audit: Audit, outcome: Outcome) -> float:
    """How often an attacker is right; the upper end of its interval where only some rows were attacked."""
    return float(outcome.high if _sampled(audit, outcome.attribute) else outcome.accuracy)


def _gain(audit: Audit, column: str) -> float:
    """How much more often the best attacker with the release is right than the best one without."""
    return max(_rate(audit, o) for o in _of(audit, column, False)) - without_release(audit, column)


def _cannot_fail(audit: Audit, columns: Sequence[str], limit: float) -> str:
    """Columns that are guessed so often without the release that no gain is above a limit."""
    named = [f"'{column}'" for column in columns if 1.0 - without_release(audit, column) <= limit]
    if not named:
        return ""
    return (
        f" No gain on {', '.join(named)} can be above it, so often is that guessed without the release: limit max_attack or "
        "max_accuracy."
    )


def without_release(audit: Audit, column: str) -> float:
    """How often the best attacker on a column is right who sees no release."""
    seeing, blind = _of(audit, column, False), _of(audit, column, True)
    return float(max((0.0, *(o.accuracy for o in blind), *(o.baseline for o in (*blind, *seeing)))))


def _attack(audit: Audit, rule: str, limit: float, column: str) -> Rule:
    why = _not_attacked(audit, column)
    if why:
        return Rule(rule, limit, None, False, why)
    seeing = _of(audit, column, False)
    best = max(seeing, key=lambda o: _rate(audit, o))
    value = _rate(audit, best)
    words = (
        f"The best attacker guesses '{column}' right {number(100 * value)} of 100 times{_sampled(audit, column)}, "
        f"{number(100 * float(best.baseline))} without the release; limit {100 * limit:g}."
    )
    return Rule(rule, limit, value, all(_rate(audit, o) <= limit for o in seeing), words)


def _utility(policy: Policy, audit: Audit) -> Iterator[Rule]:
    cost = audit.tradeoff
    better = cost.metric.higher_is_better
    point = min(cost.points, key=lambda p: abs(p.scale - audit.noise.scale))
    sign = 1.0 if better else -1.0
    least = point.utility - sign * point.unsure  # a mean of so many copies, at its worse end
    end = "lower" if better else "upper"
    told = f"the {end} end of the 95 % interval of the mean of {cost.draws} noisy copies"
    for key, limit in _known(policy, "utility", "min", "max", "max_loss"):
        name = f"utility.{key}"
        if key == "max_loss":
            value = sign * (cost.without_noise - least)
            words = f"The noise costs {number(value)} of {cost.metric.label} ({told}); limit {limit:g}."
            yield Rule(name, limit, value, value <= limit, words)
        elif (key == "min") != better:
            other = "min" if better else "max"
            words = f"More of {cost.metric.label} is {'better' if better else 'worse'}: limit it by {other}."
            yield Rule(name, limit, least, False, words)
        else:
            words = f"{cost.metric.label} with the noise is {number(least)} ({told}); limit {limit:g}."
            yield Rule(name, limit, least, sign * (least - limit) >= 0, words)


def _require(policy: Policy, audit: Audit) -> Iterator[Rule]:
    settings, attacked = audit.settings, sorted({o.attribute for o, _ in audit.attacked.outcomes})
    found: dict[str, tuple[Any, Callable[[Any], bool]]] = {
        "target": (audit.design.target.name, lambda limit: audit.design.target.name == limit),
        "public": (settings.public, lambda limit: settings.public == limit),
        "model": (audit.trained.kind.name, lambda limit: audit.trained.kind.name == limit),
        "group": (settings.group, lambda limit: settings.group == limit),
        "person": (settings.person, lambda limit: settings.person == limit),
        "held_out": (held_out := _held_out(audit), lambda limit: held_out >= limit),
        "released": (audit.released, lambda limit: audit.released and not audit.unconfirmed),
        "na": (list(settings.na), lambda limit: set(settings.na) <= set(limit)),
        "decimal": (marks := sorted({*audit.design.marks.values()}), lambda limit: {*marks} <= {limit}),
        "bounds": (not audit.design.unbounded, lambda limit: not audit.design.unbounded),
        "attacks": (bool(attacked), lambda limit: bool(attacked)),
        "attributes": (attacked, lambda limit: set(limit) <= set(attacked)),
    }
    for key, limit in _known(policy, "require", *found):
        value, holds = found[key]
        name = {"attacks": "The attacks", "released": "The check of a released file"}.get(key, f"`{key}`")
        if key == "bounds":
            lacking = "".join(f" '{each}' has none." for each in audit.design.unbounded[:1])
            yield Rule(
                "require.bounds", limit, value, holds(limit), f"Every number must have declared bounds.{lacking}"
            )
            continue
        words = f"{name} must be {_said(limit)}{' or more' if key == 'held_out' else ''}, and is {_said(value)}."
        if key == "released" and audit.unconfirmed:
            words = f"A released file was checked, and this is not confirmed: {audit.unconfirmed} {UNCONFIRMED_REMEDY}"
        yield Rule(f"require.{key}", limit, value, holds(limit), words)


def _held_out(audit: Audit) -> float:
    """The part of the rows that was asked to be held out, where about as many are: none of a small table is."""
    asked, held = audit.settings.held_out, audit.design.held_out
    share = held / (audit.design.n + held)
    return asked if share >= asked / 2 else round(share, 3)


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "run" if value else "not run"
    return "nothing" if value in (None, []) else ", ".join(value) if isinstance(value, list) else str(value)


def _with(words: str, count: int) -> str:
    return f"{words}; {count:,} {'person is' if count == 1 else 'people are'} above." if count else f"{words}."


def _more(audit: Audit, value: float, limit: float) -> float | None:
    """The scale at which an eta is at its limit; none where the rows decide the covariance too, for eta then stays above."""
    return audit.noise.scale * value / limit if audit.trained.shaped_at is None else None
