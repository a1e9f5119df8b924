"""The noise that an audit is made at, and what to do next: the noise to release with, and why.

Where limits are kept it is the noise that was audited; where they are not, one at which all of them were checked and pass
(``passing_noise``); where none were set, the least at which no number of anyone present is revealed by more than a tenth.
Scales are rounded up. Without a policy a release by a limit is advised in place of a noise that follows from the rows, where
there is one that is better than the baseline.

Also here: a noise at which every rule of a policy passes, found by checking the rules at it with the functions that
check an audit.

It is never below the noise that failed. What limits on etas ask for follows from one measurement; from there scales go up on a
grid, since what attackers get has no such formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from fisherleak._support.checks import LARGEST_LIMIT
from fisherleak._support.grids import rounded_up
from fisherleak._support.numbers import except_for, measured, number
from fisherleak.auditing.exposure.columns import column_figures, largest_of_columns
from fisherleak.auditing.exposure.exposure import RowFigures, gate_of, group_figures, row_figures
from fisherleak.auditing.exposure.membership_of_rows import MembershipFigures, membership_figures
from fisherleak.auditing.exposure.revealed import (
    exposure_at,
    largest_exposure,
    prior_spreads,
    rms_of_values,
    shares_unknown,
    spreads_in_units,
)
from fisherleak.auditing.policy.applied_rules import AppliedRules, yardsticks_at
from fisherleak.auditing.policy.judged import judged_table
from fisherleak.auditing.policy.policy import Advice, Choice, Rule
from fisherleak.auditing.policy.rules import GUESSED, judge, without_release
from fisherleak.auditing.records import Attacked, Audit, NoiseChoice, Plan, Price
from fisherleak.engine.changes.removal import EXACT
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.calibration_record import ANY_RECORD
from fisherleak.training.noise_words import as_noise
from fisherleak.training.trained_model import Trained, calibrated_scale
from fisherleak.training.utility import tradeoff

FROM_ROWS = (
    "It was computed from your data, so publishing it reveals a little about one record. "
    "A release with `eta` avoids that."
)
SHARES = (0.9, 0.5, 0.25, 0.1, 0.05, 0.01)
"""Shares of a value between which people choose."""
TENTH = 0.1
"""The share of a value that is revealed at most where no limit was set."""
NOT_ASKED = (
    "No noise was given, so the scale is the least at which at most 10 % of any numeric value{} of {} in the table is "
    "revealed. The choices say what other scales reveal and cost."
)
EVEN = "A column of two values counts there as 0 and 1, with a standard deviation of 1/2."


def choose_noise(trained: Trained, plan: Plan, rows: RowFigures, rms: Any) -> NoiseChoice:
    """The noise that was given, or the least that keeps a limit.

    Where neither was, the least at which no number of anyone present is revealed by more than a tenth; where there are no
    numbers, that at which the most exposed row has an eta of 1. ``rows`` and ``rms`` (``revealed.rms_of_values``) are at noise
    of scale 1.
    """
    if plan.noise is not None:
        return NoiseChoice(as_noise(plan.noise), "given", plan.noise_note)
    limit, whose = plan.eta if plan.eta is not None else plan.max_eta, _whose(trained)
    target = 1.0 if limit is None else limit
    if limit is None and shares_unknown(trained) is None:
        spreads = spreads_in_units(trained, prior_spreads(trained, plan.spread))
        largest = largest_of_columns(trained, rows.sample, rms)
        worst = largest_exposure(trained.design.features, spreads, *largest)
        if worst is not None:
            scale = rounded_up(worst / exposure_at(TENTH) * trained.unit)
            names = [*(f.name for f in trained.design.features), trained.design.target.name]
            # eta at a value is positive, and its mean over a belief is not known
            places = np.flatnonzero(np.isfinite(spreads) & (largest[0] == 0.0) & (largest[1] > 0.0))
            unknown, yes_no = [names[j] for j in places.tolist()], any(f.yes_no for f in trained.design.features)
            note = NOT_ASKED.format(except_for(unknown), trained.design.anyone)
            return NoiseChoice(trained.leak.noise.rescaled(scale), "default", f"{note} {EVEN}" if yes_no else note)
    noise = trained.leak.noise.rescaled(calibrated_scale(trained, target, top=rows.digest.top[:1]))
    if limit is not None:
        note = f"The least scale at which no {whose}'s eta is above {target:g}."
        if plan.eta is None:
            note += " The gate is met by construction; give the noise you plan to use with `noise` to test it."
        return NoiseChoice(noise, "calibrated", note, limit)
    note = (
        f"No noise was given, so the scale is that at which the most exposed {whose} has an eta of 1. That is not a "
        f"recommendation."
    )
    return NoiseChoice(noise, "default", note)


def _whose(trained: Trained) -> str:
    """What an eta is of."""
    return "row" if trained.design.people is None else "person"


def choices_on(audit: Audit) -> tuple[Choice, ...]:
    """What may be chosen, the least noise first; none without numbers."""
    return choices_at(audit.noise.scale, audit.exposure())


def choices_at(scale: float, worst: float | None) -> tuple[Choice, ...]:
    """The same from the largest exposure of a number at a scale of the noise; None where there is none."""
    if worst is None:
        return ()
    return tuple(Choice(share, rounded_up(scale * worst / exposure_at(share))) for share in SHARES)


@dataclass(frozen=True)
class Findings:
    """What advice follows from.

    Attributes
    ----------
    scale : float
        Of the noise that was audited.
    asked, given : bool
        Whether somebody chose it, by a limit or as it is.
    worst : float or None
        The largest exposure of a number at that scale; None where there is none, or where it is not known.
    enough : callable
        The least scale at which nobody's eta is above a limit; None where no scale is enough.
    limited : bool
        Whether there is a limit.
    broken : float or None
        The limit on etas that somebody is above.
    whose, anyone : str
        What an eta is of, and whose numbers are revealed.
    """

    scale: float
    asked: bool
    worst: float | None
    enough: Callable[[float], float | None]
    limited: bool
    broken: float | None
    whose: str = "row"
    anyone: str = "anyone"
    given: bool = True
    unknown: tuple[str, ...] = ()
    """Numbers of which no share is known."""


def advice_on(audit: Audit) -> Advice:
    """From the limits that were set, and what was found."""
    if audit.passing is not None:
        return audit.passing
    gate = audit.gate
    advice = advice_from(
        Findings(
            scale=audit.noise.scale,
            asked=audit.noise.chosen != "default",
            given=audit.noise.chosen == "given",
            unknown=audit.without_share,
            worst=audit.exposure(),
            enough=lambda limit: _enough(audit, limit),
            limited=bool(gate) or audit.policy is not None,
            broken=gate.max_eta if gate and gate.count else None,
            whose="row" if audit.design.people is None else "person",
            anyone=audit.design.anyone,
        )
    )
    if audit.policy is not None or (gate and not gate.count):
        return advice  # a noise at which limits were checked
    return _by_limit(audit, advice)


def _by_limit(audit: Audit, advice: Advice) -> Advice:
    """A release by a limit in place of a noise, where one is better than the baseline; the noise stays beside it."""
    cost, prices = audit.tradeoff, audit.prices
    best = None if prices is None else prices.best(prices.asked, cost.metric.higher_is_better)
    if prices is None or best is None:
        return advice
    if not cost.is_useful(best.utility.utility):
        return advice
    told = audit.membership
    bare = bool(audit.design.unbounded) and prices.over == ANY_RECORD
    recognised = bare and told is not None and told.recognised > 0
    who = "rows" if audit.design.people is None else "people"
    more = f", and declare `bounds`: without them, {who} can still be recognised" if recognised else ""
    words = [
        f"Release with `eta={best.eta:g}`{more}.",
        f"For {_promised(audit, prices.over)}, an unbiased attacker's error is then at least {number(1.0 / best.eta)} "
        f"standard deviation{'s' * (best.eta != 1)}.",
        f"{'With bounds from these rows, that' if bare else 'That'} release has {_written(audit, best)}.",
    ]
    if not best.by_rule:
        words.append("`shape='isotropic'` was chosen by looking at your data.")
    return replace(advice, note=" ".join(words), eta=best.eta)


def _promised(audit: Audit, over: str) -> str:
    """Whose eta a limit is on."""
    people = audit.design.people is not None
    if over != ANY_RECORD:
        return "everyone present" if people else "every row present"
    return f"{'any person with records' if people else 'any record'} within the bounds"


def _written(audit: Audit, price: Price) -> str:
    metric = audit.tradeoff.metric.name
    return "accuracy " * (metric == "accuracy") + measured(metric, price.utility.utility)


def advice_from(found: Findings) -> Advice:
    """The noise to release with, and why."""
    if found.broken is not None:
        enough = found.enough(found.broken)
        if enough is None:
            return _none_is_enough(found.broken)
        return Advice(enough, f"Noise of scale {number(enough)} keeps every limit on what is revealed. {FROM_ROWS}")
    if found.limited:
        kept = "Every limit holds: release the model with this noise."
        return Advice(found.scale, kept) if found.given else Advice(rounded_up(found.scale), f"{kept} {FROM_ROWS}")
    if found.worst is None:
        enough = found.enough(1.0)
        if enough is None:
            return _none_is_enough(1.0)
        return Advice(
            enough, f"Noise of scale {number(enough)} keeps the eta of every {found.whose} at 1 or below. {FROM_ROWS}"
        )
    noise = rounded_up(found.scale * found.worst / exposure_at(TENTH)) if found.asked else found.scale
    value = f"any numeric value{except_for(found.unknown)}"
    told_of = f"A noise scale of {number(noise)} is the least that reveals at most 10 % of {value}."
    return Advice(noise, f"{told_of} {FROM_ROWS}")


def _enough(audit: Audit, limit: float) -> float | None:
    """A scale at which nobody's eta is above a limit; None where what the noise's covariance tells alone is."""
    own = (
        audit.trained.most_by_shape() or 0.0
    )  # the same at every scale: eta squared is first / scale^2 + own^2 at most
    if own >= limit:
        return None
    return rounded_up(audit.noise.scale * audit.rows.digest.high / audit.unit_scale / math.sqrt(limit**2 - own**2))


def _none_is_enough(limit: float) -> Advice:
    return Advice(
        None,
        f"No scale of this noise keeps every eta at {limit:g}: its data-dependent covariance alone reveals more. Use "
        "shape='isotropic'.",
    )


STEP, STEPS = 10.0 ** (1 / 8), 24
"""Ratio of neighbours on the grid, as on that of utility, and how many there are: three decades."""
UTILITY = (
    "The limits on what is revealed hold, and the limit on utility fails: use less noise, more rows or other limits."
)
Attack = Callable[[Trained, Noise, Sequence[float]], Attacked]
Found = Literal["less", "passes", "more"]
"""At a scale: too little noise, enough, or so much that only utility fails."""


@dataclass(frozen=True)
class Again:
    """An audit that may be made again with its noise at another scale, as far as rules need it."""

    audit: Audit
    applied: AppliedRules
    plan: Plan
    attack: Attack
    squares: tuple[Any, ...] | None = field(repr=False)
    """Of ``revealed.squares_of_values``, which serve every scale."""
    key: int
    """What noisy copies behind utility are drawn with."""

    def at(self, scale: float) -> tuple[tuple[Rule, ...], bool]:
        """Every rule at that scale, and whether the limit on rows is kept there."""
        audit, policy, seed = self.audit, self.applied.policy, self.audit.settings.seed
        choice = NoiseChoice(audit.noise.noise.rescaled(scale), "given", "")
        trained = audit.trained.with_noise(choice.noise)
        unit_scale = scale / trained.unit
        # figures are those at noise of scale 1, unless the rows decide the covariance
        rows = audit.rows if trained.shaped_at is None else row_figures(trained, seed)
        sticks = yardsticks_at(trained, scale, self.plan, self.applied)
        columns, label, people = audit.columns, audit.label, audit.people
        if any((*self.applied.columns.values(), self.applied.label)):
            columns, label, people = column_figures(trained, rows.sample, sticks, rms_of_values(trained, self.squares))
        tried = replace(
            audit,
            trained=trained,
            noise=choice,
            rows=rows,
            columns=columns,
            label=label,
            people=people,
            yardsticks=sticks,
            groups=group_figures(trained, rows.eta, audit.edges) if policy.section("groups") else audit.groups,
            membership=self._membership(trained, unit_scale),
            scale_changes=None,  # that scale is given
            tradeoff=tradeoff(trained, [scale], audit.draws, self.key) if policy.section("utility") else audit.tradeoff,
            attacked=self.attack(trained, choice.noise, ()) if self.applied.attacked else audit.attacked,
        )
        kept = audit.gate is None or gate_of(rows, unit_scale, audit.gate.max_eta).count == 0
        return judge(self.applied, judged_table(tried)), kept

    def _membership(self, trained: Trained, scale: float) -> MembershipFigures:
        """Where a rule is on it: decided at the finest setting, as that of the audit was."""
        found = self.audit.membership
        ruled = bool(self.applied.policy.section("membership"))
        return membership_figures(trained, scale, EXACT, found.mu) if ruled else found

    @property
    def needed(self) -> float:
        """The scale at which every limit on etas is kept, and no less than that of the audit."""
        audit, gate = self.audit, self.audit.gate
        known = [rule.noise for rule in audit.rules if not rule.passed and rule.noise is not None]
        if gate is not None and gate.count:
            known.append(audit.noise.scale * audit.rows.digest.high / audit.unit_scale / gate.max_eta)
        return max(audit.noise.scale, *known) if known else audit.noise.scale

    @property
    def guessed_less(self) -> float:
        """The largest scale of the audit's own grid at which an attacker on it is above a limit; zero where none is."""
        tried = zip(self.audit.tradeoff.points, self.audit.attacked.curves, strict=True)
        limits = {
            name: self._most_guessed(name) for name in {each["attribute"] for each in self.audit.attacked.curves[0]}
        }
        above = (
            point.scale for point, curve in tried for each in curve if each["accuracy"] > limits[each["attribute"]]
        )
        return max(above, default=0.0)

    def _most_guessed(self, name: str) -> float:
        """How often a column may be guessed correctly, by the strictest rule on it."""
        label = name == self.audit.design.target.name
        own = self.applied.label if label else self.applied.columns[name]
        every = {} if label else self.applied.policy.section("attacks")
        limits = [each.limit for each in own if each.key == "max_attack"]
        limits += [every["max_accuracy"]] if "max_accuracy" in every else []
        limits += [every["max_gain"] + without_release(self.audit.attacked, name)] if "max_gain" in every else []
        return min(limits, default=1.0)


def passing_noise(again: Again) -> Advice:
    """A scale at which every rule passes, or why there is none."""
    failed = [rule for rule in again.audit.rules if not rule.passed]
    lasting = [rule.name for rule in failed if rule.value is None or rule.name.startswith("require.")]
    if lasting:
        return Advice(
            None,
            f"No noise makes every rule pass: {_listed(lasting)} needs something else. Run the audit as the policy requires.",
        )
    guessed = [rule.name for rule in failed if GUESSED in rule.words]
    if guessed:
        return Advice(
            None,
            "No noise makes every rule pass, since guesses without the release are correct more often than they allow: "
            f"{_listed(guessed)}. Limit max_gain under [attacks] instead.",
        )
    membership, ruled = again.audit.membership, any(rule.name.startswith("membership.") for rule in failed)
    if ruled and membership.recognised:
        return Advice(
            None,
            f"No noise makes every rule pass, since no noise hides these rows: {membership.recognised_note}",
        )
    gate = again.audit.gate
    if all(rule.name.startswith("utility.") for rule in failed) and not (gate and gate.count):
        return Advice(None, UTILITY)
    start, least = again.needed, again.guessed_less
    if not start < LARGEST_LIMIT / STEP ** (STEPS + 1):  # no number, or past the range of noises
        names = _listed([rule.name for rule in failed])
        return Advice(None, f"No noise up to scale {LARGEST_LIMIT:g} is known to make every rule pass: {names} failed.")
    grid = [rounded_up(start * STEP**k) for k in range(STEPS + 1)]
    grid = [scale for scale in grid if scale > again.audit.noise.scale]
    first = next((k for k, scale in enumerate(grid) if scale > least), len(grid) - 1)
    return _searched(again, grid, first)


def _searched(again: Again, grid: Sequence[float], first: int) -> Advice:
    """Up from the first scale in steps that double, then between the last that was too little and the first that was not."""
    below, k, step = -1, first, 1
    found, failed = _found(again, grid[k])
    while found == "less" and k < len(grid) - 1:
        below, k, step = k, min(k + step, len(grid) - 1), 2 * step
        found, failed = _found(again, grid[k])
    if found == "less":
        return Advice(
            None,
            f"No noise up to scale {number(grid[-1])} makes every rule pass. At that scale these fail: {_listed(failed)}.",
        )
    best, above = (k if found == "passes" else None), k
    while above - below > 1 and not (below == -1 and best is not None):
        middle = (above + below) // 2
        found, least = _found(again, grid[middle])
        best = middle if found == "passes" else best
        below, above = (middle, above) if found == "less" else (below, middle)
        failed = least if found == "more" else failed
    if best is None:
        return Advice(
            None,
            f"No noise makes every rule pass. Where the rules on what is revealed pass, these fail: {_listed(failed)}.",
        )
    noise = grid[best]
    return Advice(noise, f"With noise of scale {number(noise)} every rule passes. {FROM_ROWS}")


def _found(again: Again, scale: float) -> tuple[Found, list[str]]:
    """What the rules say at a scale, and which of them fail."""
    rules, kept = again.at(scale)
    failed = [*(rule.name for rule in rules if not rule.passed), *(() if kept else ("max_eta",))]
    if not failed:
        return "passes", failed
    return "more" if all(name.startswith("utility.") for name in failed) else "less", failed


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
