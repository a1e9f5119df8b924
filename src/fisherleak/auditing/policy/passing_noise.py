"""A noise at which every rule of a policy passes, found by checking the rules at it with the functions that check an audit.

It is never below the noise that failed. What limits on etas ask for follows from one measurement; from there scales go up on a
grid, since what attackers get has no such formula.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from fisherleak._support.checks import LARGEST_LIMIT
from fisherleak._support.numbers import number
from fisherleak.auditing.attackers import Attacked
from fisherleak.auditing.exposure.columns import column_figures
from fisherleak.auditing.exposure.exposure import gate_of, group_figures, row_figures
from fisherleak.auditing.exposure.membership_of_rows import PresenceFigures, presence_of
from fisherleak.auditing.exposure.revealed import rms_of_values
from fisherleak.auditing.policy.advice import FROM_ROWS, rounded_up
from fisherleak.auditing.policy.applied_rules import AppliedRules, yardsticks_at
from fisherleak.auditing.policy.rule import Advice, Rule
from fisherleak.auditing.policy.rules import judge, without_release
from fisherleak.auditing.records import Audit, NoiseChoice, Plan
from fisherleak.engine.changes.removal import EXACT
from fisherleak.engine.noise import Noise
from fisherleak.training.trained_model import Trained
from fisherleak.training.utility import tradeoff

__all__ = ["Again", "passing_noise"]

STEP, STEPS = 10.0 ** (1 / 8), 24
"""Ratio of neighbours on the grid, as on that of utility, and how many there are: three decades."""
UTILITY = "The limits on what is revealed are kept and utility is not: it takes less noise, more rows or other limits."
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
            presence=self._presence(trained, unit_scale),
            tradeoff=tradeoff(trained, [scale], audit.draws, self.key) if policy.section("utility") else audit.tradeoff,
            attacked=self.attack(trained, choice.noise, ()) if self.applied.attacked else audit.attacked,
        )
        kept = audit.gate is None or gate_of(rows, unit_scale, audit.gate.max_eta).count == 0
        return judge(self.applied, tried), kept

    def _presence(self, trained: Trained, scale: float) -> PresenceFigures:
        """Where a rule is on it: decided at the finest setting, as that of the audit was."""
        found = self.audit.presence
        ruled = bool(self.applied.policy.section("membership"))
        return presence_of(trained, scale, EXACT, found.mu) if ruled else found

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
        """How often a column may be guessed right, by the strictest rule on it."""
        label = name == self.audit.design.target.name
        own = self.applied.label if label else self.applied.columns[name]
        every = {} if label else self.applied.policy.section("attacks")
        limits = [each.limit for each in own if each.key == "max_attack"]
        limits += [every["max_accuracy"]] if "max_accuracy" in every else []
        limits += [every["max_gain"] + without_release(self.audit, name)] if "max_gain" in every else []
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
    presence, ruled = again.audit.presence, any(rule.name.startswith("membership.") for rule in failed)
    if ruled and presence.recognised:
        return Advice(
            None,
            f"No noise makes every rule pass, for no noise hides who is recognised without it: {presence.recognised_note}",
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
            None, f"No noise up to scale {number(grid[-1])} makes every rule pass: {_listed(failed)} fails there."
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
            None, f"No noise makes every rule pass: where those on what is revealed do, {_listed(failed)} fails."
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
