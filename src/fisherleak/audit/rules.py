"""An audit held against a policy, rule by rule: what was measured, whether it is within its limit, and which noise would do.

A rule about something that was not measured is not kept. Etas are proportional to 1 / sigma, so the noise that keeps a limit on
them follows from one measurement; for attackers it is the least of the scales that were tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from fisherleak._support.numbers import number
from fisherleak.attacks import Outcome
from fisherleak.audit.columns import ColumnFigures, LabelFigures
from fisherleak.audit.exposure import gate_of
from fisherleak.audit.policy import Policy
from fisherleak.audit.records import Audit
from fisherleak.audit.revealed import exposure_at, share_of, shares_unknown
from fisherleak.audit.ruling import Rule
from fisherleak.rows import sum_rows

__all__ = ["judge", "noise_that_keeps"]

BLIND = ("no model, other columns", "prior")
"""Attackers who see no model."""
SERVED = "white-box, served answer"
"""Who also sees an answer for the record itself: a rule on the release is not about that."""


NOT_KNOWN = "is not known for noise that has the shape of the table's own rows: release with `shape='isotropic'`."


def judge(policy: Policy, audit: Audit) -> tuple[Rule, ...]:
    """Every rule of the policy."""
    policy.check_columns([column.name for column in audit.design.columns])
    return tuple(
        rule
        for part in (_rows, _values, _groups, _membership, _attacks, _utility, _require)
        for rule in part(policy, audit)
    )


def noise_that_keeps(rules: tuple[Rule, ...]) -> float | None:
    """The least scale that keeps every rule on what is revealed; None where one of them is broken at any noise known."""
    asked = [rule for rule in rules if not rule.name.startswith(("utility.", "require."))]
    scales = [rule.noise for rule in asked if not rule.passed]
    known = [scale for scale in scales if scale is not None]
    return max(known, default=None) if len(known) == len(scales) else None


def _rows(policy: Policy, audit: Audit) -> Iterator[Rule]:
    for key, limit in policy.section("rows").items():
        (row, top), *_ = audit.rows.digest.top
        value = top / audit.unit_scale
        count = gate_of(audit.rows, audit.unit_scale, limit).count
        whose = "row" if audit.design.people is None else "person"
        words = f"The eta of a {whose} is at most {number(value)}; limit {limit:g}"
        yield Rule(f"rows.{key}", limit, value, count == 0, _with(words, count), count, row, _more(audit, value, limit))


def _values(policy: Policy, audit: Audit) -> Iterator[Rule]:
    units = [*(figure.feature.scale for figure in audit.columns), audit.design.target.scale]
    spreads = audit.yardsticks.spreads * np.array(units)
    used = {figure.feature.name: (figure, spreads[j]) for j, figure in enumerate(audit.columns)}
    named = {*used, *policy.section("columns")} - {"*"}
    for column in (column.name for column in audit.design.columns if column.name in named):
        if column not in used:
            for key, limit in policy.section("columns")[column].items():
                yield Rule(f"columns.{column}.{key}", limit, None, True, f"'{column}' is not used by the model.")
            continue
        figure, spread = used[column]
        given = policy.of_column(column, not figure.feature.has_share)
        yield from _value(audit, f"columns.{column}", column, given, figure, float(spread))
    yield from _value(
        audit, "label", audit.design.target.name, policy.section("label"), audit.label, float(spreads[-1])
    )


def _value(
    audit: Audit, place: str, name: str, given: Mapping[str, Any], figure: ColumnFigures | LabelFigures, spread: float
) -> Iterator[Rule]:
    for key, limit in given.items():
        rule = f"{place}.{key}"
        share = key == "max_revealed"
        eta = (figure.rms.largest if share else figure.largest) / audit.unit_scale
        if key == "max_attack":
            yield _attack(audit, rule, limit, name)
        elif share and not np.isfinite(eta * spread):
            words = _without_share(audit, name, figure)
            yield Rule(rule, limit, None, False, words)
        else:
            count = figure.counts[audit.yardsticks.levels.index(key)]
            value, words, ratio = _measured(key, name, eta, spread, limit)
            scale = audit.noise.scale * ratio
            worst = figure.rms.worst if share else figure.worst
            yield Rule(rule, limit, value, count == 0, _with(words, count), count, worst, scale)


def _without_share(audit: Audit, name: str, figure: ColumnFigures | LabelFigures) -> str:
    """Why a column has no share that is revealed."""
    number_ = figure.feature.has_share if isinstance(figure, ColumnFigures) else not audit.design.target.classes
    if number_:
        why = (
            shares_unknown(audit.trained)
            or f"a normal belief about '{name}' has values that the model cannot be fitted with"
        )
        return f"The share of '{name}' that is revealed is not known: {why}."
    if isinstance(figure, ColumnFigures) and figure.feature.yes_no:
        return (
            f"'{name}' is 0 or 1, which has no share that is revealed: limit it by max_attack or max_eta, or name it "
            "with `numbers`."
        )
    return f"'{name}' is a category, which has no share that is revealed: limit it by max_attack or max_eta."


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
    given = policy.section("groups")
    if given and not audit.groups:
        for key, limit in given.items():
            yield Rule(f"groups.{key}", limit, None, False, "Rows were not grouped: name a column with `group`.")
        return
    scale = audit.unit_scale
    means = {group.name: group.spread.mean / scale for group in audit.groups}
    joint = {group.name: group.joint / scale for group in audit.groups}
    for key, limit in given.items():
        if key == "max_ratio":
            least, most = min(means.values()), max(means.values())
            value = most / least if least > 0 else None
            worst = max(means, key=lambda name: means[name])
            passed = value is not None and value <= limit
            told = "nobody in one group" if value is None else f"{number(value)} times as much"
            yield Rule(f"groups.{key}", limit, value, passed, f"The model leans on '{worst}' {told}; limit {limit:g}.")
            continue
        if key == "max_eta_joint" and audit.trained.shaped_at is not None:
            yield Rule(f"groups.{key}", limit, None, False, f"The eta of a group jointly {NOT_KNOWN}")
            continue
        etas, what = (joint, "jointly") if key == "max_eta_joint" else (means, "on average")
        worst = max(etas, key=lambda name: etas[name])
        words = f"The eta of '{worst}' {what} is {number(etas[worst])}; limit {limit:g}."
        value = etas[worst]
        yield Rule(f"groups.{key}", limit, value, value <= limit, words, noise=_more(audit, value, limit))


def _membership(policy: Policy, audit: Audit) -> Iterator[Rule]:
    for key, limit in policy.section("membership").items():
        presence = audit.presence
        if audit.trained.shaped_at is not None:
            yield Rule(f"membership.{key}", limit, None, False, f"Presence {NOT_KNOWN}")
            continue
        if not presence.measured:
            yield Rule(f"membership.{key}", limit, None, False, presence.note)
            continue
        count = _told_better(audit, limit)
        worst = presence.top[0]
        noise = _more(audit, worst.mu, 2.0 * float(ndtri(limit))) if np.isfinite(worst.mu) else None
        words = f"Presence is told right {number(100 * worst.right)} of 100 times at most; limit {100 * limit:g}"
        name = f"membership.{key}"
        yield Rule(name, limit, worst.right, count == 0, _with(words, count), count, worst.row, noise)


def _told_better(audit: Audit, limit: float) -> int:
    """Rows about whose presence the best attacker is right more often than this."""
    scale = audit.unit_scale
    (count,) = sum_rows(lambda mu: (np.count_nonzero(ndtr(0.5 * mu / scale) > limit),), audit.presence.mu)
    return int(count)


def _attacks(policy: Policy, audit: Audit) -> Iterator[Rule]:
    for key, limit in policy.section("attacks").items():
        name = f"attacks.{key}"
        label = audit.design.target.name  # predicted by design, and limited in a section of its own
        columns = dict.fromkeys(o.attribute for o, _ in audit.attacked.outcomes if o.attribute != label)
        if not columns:
            yield Rule(name, limit, None, False, "No attack was run.")
        elif key == "max_accuracy":
            found = [_attack(audit, name, limit, column) for column in columns]
            yield max(found, key=lambda rule: rule.value or 0.0)
        else:
            gains = {column: _gain(audit, column) for column in columns}
            worst = max(gains, key=lambda column: gains[column])
            value = gains[worst]
            words = (
                f"Of '{worst}' attackers with the release guess {number(100 * value)} of 100 more than those without; limit "
                f"{100 * limit:g}."
            )
            yield Rule(name, limit, value, value <= limit, words)


def _of(audit: Audit, column: str, blind: bool) -> list[Outcome]:
    found = [o for o, _ in audit.attacked.outcomes if o.attribute == column and o.attacker != SERVED]
    return [o for o in found if (o.attacker in BLIND) == blind]


def _gain(audit: Audit, column: str) -> float:
    """How much more often the best attacker with the release is right than the best one without."""
    seeing, blind = _of(audit, column, False), _of(audit, column, True)
    without = max((*(o.accuracy for o in blind), *(o.baseline for o in (*blind, *seeing))), default=0.0)
    return float(max((o.accuracy for o in seeing), default=1.0) - without)


def _attack(audit: Audit, rule: str, limit: float, column: str) -> Rule:
    seeing = _of(audit, column, False)
    if not seeing:
        words = f"'{column}' was not attacked: name it with `attributes`."
        return Rule(rule, limit, None, False, words)
    best = max(seeing, key=lambda o: o.accuracy)
    value = float(best.accuracy)
    words = (
        f"The best attacker guesses '{column}' right {number(100 * value)} of 100 times, "
        f"{number(100 * float(best.baseline))} without the release; limit {100 * limit:g}."
    )
    tried = zip(audit.tradeoff.points, audit.attacked.curves, strict=True)
    kept = [p.scale for p, curve in tried if any(c["attribute"] == column and c["accuracy"] <= limit for c in curve)]
    return Rule(rule, limit, value, value <= limit, words, noise=min(kept, default=None))


def _utility(policy: Policy, audit: Audit) -> Iterator[Rule]:
    cost = audit.tradeoff
    better = cost.metric.higher_is_better
    point = min(cost.points, key=lambda p: abs(p.scale - audit.noise.scale))
    sign = 1.0 if better else -1.0
    for key, limit in policy.section("utility").items():
        name = f"utility.{key}"
        if key == "max_loss":
            value = sign * (cost.without_noise - point.utility)
            words = f"The noise costs {number(value)} of {cost.metric.label}; limit {limit:g}."
            yield Rule(name, limit, value, value <= limit, words)
        elif (key == "min") != better:
            other = "min" if better else "max"
            words = f"More of {cost.metric.label} is {'better' if better else 'worse'}: limit it by {other}."
            yield Rule(name, limit, point.utility, False, words)
        else:
            words = f"{cost.metric.label} with the noise is {number(point.utility)}; limit {limit:g}."
            passed = sign * (point.utility - limit) >= 0
            yield Rule(name, limit, point.utility, passed, words)


def _require(policy: Policy, audit: Audit) -> Iterator[Rule]:
    settings, attacked = audit.settings, sorted({o.attribute for o, _ in audit.attacked.outcomes})
    found: dict[str, tuple[Any, Callable[[Any], bool]]] = {
        "public": (settings.public, lambda limit: settings.public == limit),
        "model": (audit.trained.kind.name, lambda limit: audit.trained.kind.name == limit),
        "group": (settings.group, lambda limit: settings.group == limit),
        "held_out": (settings.held_out, lambda limit: settings.held_out >= limit),
        "attacks": (bool(attacked), lambda limit: bool(attacked)),
        "attributes": (attacked, lambda limit: set(limit) <= set(attacked)),
    }
    for key, limit in policy.section("require").items():
        value, holds = found[key]
        name = "The attacks" if key == "attacks" else f"`{key}`"
        words = f"{name} must be {_said(limit)}{' or more' if key == 'held_out' else ''}, and is {_said(value)}."
        yield Rule(f"require.{key}", limit, value, holds(limit), words)


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "run" if value else "not run"
    return "nothing" if value in (None, []) else ", ".join(value) if isinstance(value, list) else str(value)


def _with(words: str, count: int) -> str:
    return f"{words}; {count:,} {'person is' if count == 1 else 'people are'} above." if count else f"{words}."


def _more(audit: Audit, value: float, limit: float) -> float:
    """The scale at which an eta is at its limit."""
    return audit.noise.scale * value / limit
