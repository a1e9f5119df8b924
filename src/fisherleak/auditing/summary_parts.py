"""Parts of a summary that audits of tables and of fitted models share: what noise costs, choices, attacks and rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fisherleak.auditing import report_summary as record
from fisherleak.auditing.policy.policy import Choice, Policy, Rule
from fisherleak.auditing.records import Attacked, Price, Prices
from fisherleak.training.utility import Tradeoff, UtilityPoint, gain_in_words, rise_in_words


def utility_curve(cost: Tradeoff, attacked: Attacked) -> record.UtilityCurve:
    """Utility, and the strongest attacker's accuracy, over scales of the noise."""
    where = f"{cost.rows:,} held-out rows" if cost.held_out else "the training rows"
    return record.UtilityCurve(
        metric=cost.metric.name,
        label=f"{cost.metric.label}, on {where}",
        higher_is_better=cost.metric.higher_is_better,
        without_noise=cost.without_noise,
        baseline=cost.constant,
        held_out=cost.held_out,
        draws=cost.draws,
        interval="low and high hold 90 % of the noisy copies",
        points=tuple(
            record.AttackedPoint(**_of_copies(point), attacks=tuple(record.ExpectedAttack(**each) for each in curve))
            for point, curve in zip(cost.points, attacked.curves, strict=True)
        ),
        also=tuple(_also(each) for each in cost.also),
        note=" ".join((*gain_in_words(cost), *rise_in_words(cost))),
    )


def _of_copies(point: UtilityPoint) -> dict[str, float]:
    return {name: getattr(point, name) for name in ("scale", "utility", "low", "high")}


def _also(cost: Tradeoff) -> record.SecondCurve:
    """The same by another measure."""
    return record.SecondCurve(
        metric=cost.metric.name,
        label=cost.metric.label,
        higher_is_better=cost.metric.higher_is_better,
        without_noise=cost.without_noise,
        baseline=cost.constant,
        points=tuple(record.CurvePoint(**_of_copies(point)) for point in cost.points),
    )


def choices_with_cost(
    choices: Sequence[Choice], cost: record.UtilityCurve, gain: float | None
) -> tuple[record.OfferedNoise, ...]:
    """What noise may be chosen, with what it leaves of utility; ``gain`` is None where it is within its own error."""
    found = []
    for choice in choices:
        at = cost.at(choice.noise)
        found.append(record.OfferedNoise(choice.share, choice.noise, at, _kept(at, cost, gain)))
    return tuple(found)


def _kept(at: float | None, cost: record.UtilityCurve, gain: float | None) -> float | None:
    """The part of the gain over the baseline that a utility is; None where either is not known."""
    if at is None or gain is None or cost.baseline is None:
        return None
    return max(0.0, min(1.0, (at - cost.baseline) / gain))


def prices_with_cost(
    prices: Prices | None, cost: record.UtilityCurve, gain: float | None
) -> record.ReleasePrices | None:
    """What releases by a limit keep; ``gain`` is as above."""
    if prices is None:
        return None

    def told(price: Price) -> record.PriceAtLimit:
        point = price.utility
        return record.PriceAtLimit(
            eta=price.eta,
            covariance=price.covariance,
            by_rule=price.by_rule,
            l2=price.l2,
            noise=price.scale,
            utility=point.utility,
            low=point.low,
            high=point.high,
            kept=_kept(point.utility, cost, gain),
            eta_present=price.largest,
            membership=price.membership,
            membership_median=price.median,
            best=price is prices.best(price.eta, cost.higher_is_better),
        )

    return record.ReleasePrices(
        over=prices.over,
        limits=tuple(map(told, prices.limits)),
        present=tuple(map(told, prices.present)),
        note=prices.note,
    )


def checked_policy(
    policy: Policy, rules: Sequence[Rule], noise: float | None, note: str, row: Callable[[int], int]
) -> record.CheckedPolicy:
    """Every rule with its limit and what was found, those that failed first; ``row`` numbers a place among the rows."""
    return record.CheckedPolicy(
        source=policy.source,
        sha256=policy.sha256,
        passed=all(rule.passed for rule in rules),
        count=len(rules),
        passed_count=sum(rule.passed for rule in rules),
        noise=noise,
        note=note,
        rules=tuple(
            record.CheckedRule(
                rule=rule.name,
                passed=rule.passed,
                limit=rule.limit,
                value=rule.value,
                count=rule.count,
                row=None if rule.row is None else row(rule.row),
                noise=rule.noise,
                note=rule.words,
            )
            for rule in sorted(rules, key=lambda rule: rule.passed)
        ),
    )


def outcomes_of(attacked: Attacked) -> tuple[record.AttackResult, ...]:
    """Each outcome as the summary and the command ``attack`` have it."""
    found = []
    for outcome, note in attacked.outcomes:
        how = "expected over the noise"
        if outcome.trials is not None:
            how = f"{outcome.trials} release{'s' * (outcome.trials > 1)}"
        found.append(
            record.AttackResult(
                attacker=outcome.attacker,
                attribute=outcome.attribute,
                accuracy=float(outcome.accuracy),
                low=float(outcome.low),
                high=float(outcome.high),
                baseline=float(outcome.baseline),
                worst=outcome.worst,
                q95=outcome.q95,
                median=outcome.median,
                found=outcome.found,
                method=f"{outcome.n} {attacked.who(outcome)}, {how}",
                note=f"{note[0].upper()}{note[1:]}.",
            )
        )
    return tuple(found)
