"""What those who asked for an audit stated, apart from the data: which columns are named, and each line of a policy as written.

A rule of [columns."*"] is about every column that the model happens to use: by its line no row makes a name appear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fisherleak.auditing.policy.policy import EVERY, MEASURED_BY, Policy, Rule
from fisherleak.auditing.records import Plan
from fisherleak.auditing.report_summary import StatedRule
from fisherleak.training.defaults import DELTA
from fisherleak.training.trained_model import Settings


def columns_named(settings: Settings, plan: Plan) -> tuple[str, ...]:
    """Columns that options or the policy name, as they are written there; without those that are left out.

    Of a released file its settings tell every column that the model uses: only those are named that rules go by.
    """
    found = [settings.target, settings.person, settings.group]
    if not plan.released:
        found += [settings.id, *settings.numbers, *settings.categories, *settings.unite]
        found += [name for name, _ in (*settings.bounds, *settings.levels)]
    found += [*(plan.attributes or ()), *plan.spread, *named_by_policy(plan.policy)]
    return tuple(dict.fromkeys(name for name in found if name))


def named_by_policy(policy: Policy | None) -> list[str]:
    """Columns with a section of their own, and those that must be attacked."""
    if policy is None:
        return []
    own = [name for name in policy.section("columns") if name != EVERY]
    return [*own, *policy.section("require").get("attributes", ())]


def stated_rules(
    policy: Policy | None, rules: Sequence[Rule], target: str, gate: tuple[float, bool] | None = None
) -> tuple[StatedRule, ...]:
    """Each line of a policy, in its order, and whether all rules passed that it stands for.

    ``gate`` is a limit on the eta of rows beside the policy, and whether it passed.
    """
    found = [] if gate is None else [StatedRule("rows", None, "max_eta", *gate)]
    return (*found, *([] if policy is None else _lines(policy, rules, target)))


def _lines(policy: Policy, rules: Sequence[Rule], target: str) -> Iterator[StatedRule]:
    every = [(rule.name.rpartition(".")[2], rule.passed) for rule in rules if rule.every]
    own = {rule.name: rule.passed for rule in rules if not rule.every}
    for section, given in policy.sections.items():
        named: list[tuple[str | None, Mapping[str, Any]]] = [(None, given)]
        if section == "columns":
            named = [*given.items()]
        for column, lines in named:
            for key, limit in lines.items():
                if key in MEASURED_BY:
                    continue
                if column == EVERY:
                    # of columns that have no rule of their own; of none of them it holds
                    yield StatedRule(section, column, key, limit, all(passed for name, passed in every if name == key))
                    continue
                name = f"{section}.{key}" if column is None else f"{section}.{column}.{key}"
                if name not in own and (section == "label" or column == target):
                    continue  # the other line on the target is stricter, and was judged
                delta = given.get("delta", DELTA) if key == "max_epsilon" else None
                yield StatedRule(section, column, key, limit, own.get(name, False), delta)
