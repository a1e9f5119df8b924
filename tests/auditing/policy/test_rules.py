"""Audits held against policies: every rule agrees with the figures, and the noise that is said keeps what it is said to keep."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import fisherleak as fl
from fisherleak import InvalidInputError
from fisherleak.auditing import Settings, audit
from fisherleak.auditing.exposure.membership_of_rows import epsilons_of, told_at
from fisherleak.auditing.policy import policy as policy_module
from fisherleak.auditing.policy.applied_rules import apply_policy
from fisherleak.auditing.policy.judged import judged_table
from fisherleak.auditing.policy.policy import policy_of
from fisherleak.auditing.policy.rules import judge
from fisherleak.auditing.records import Plan
from fisherleak.report.summarise import summarise
from fisherleak.tables import Moments

FAST: dict[str, Any] = {"draws": 4, "attacks": False}
SETTINGS = Settings(
    "income",
    held_out=0.0,
    group="city",
    bounds=(("age", (0.0, 120.0)), ("weight", (0.0, 200.0)), ("income", (-100_000.0, 200_000.0))),
)
LIMITS: dict[str, Any] = {
    "rows": {"max_eta": 0.4},
    "columns": {"*": {"max_revealed": 0.1}, "age": {"min_error": 30.0, "max_eta": 0.02}, "city": {"max_eta": 1e3}},
    "label": {"max_revealed": 0.2},
    "groups": {"max_eta_joint": 3.0, "max_eta_mean": 0.2},
    "membership": {"max_right": 0.55, "max_epsilon": 0.25, "delta": 1e-6},
    "require": {"group": "city"},
}


def rules(table: Any, given: dict[str, Any], **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    summary = summarise(audit(table, SETTINGS, policy=policy_of(given), **{**FAST, **options}))
    return summary, {rule["rule"]: rule for rule in summary["policy"]["rules"]}


@pytest.fixture
def table(people: Any) -> Any:
    return people[["age", "weight", "city", "income"]]


def test_rules_are_what_the_audit_found(table: Any) -> None:
    summary, found = rules(table, LIMITS, noise=300.0)
    age, weight = summary["attributes"][:2]
    assert set(found) == {
        *("rows.max_eta", "columns.age.max_revealed", "columns.age.min_error", "columns.age.max_eta"),
        *("columns.weight.max_revealed", "label.max_revealed", "groups.max_eta_joint", "groups.max_eta_mean"),
        *("columns.city.max_eta", "membership.max_right", "membership.max_epsilon", "require.group"),
    }
    values = {
        "rows.max_eta": summary["eta"]["examples"]["max"],
        "columns.age.max_revealed": age["revealed"]["max"],
        "columns.age.min_error": age["error_least"],
        "columns.age.max_eta": age["eta_max"],
        "columns.weight.max_revealed": weight["revealed"]["max"],
        "label.max_revealed": summary["label"]["revealed"]["max"],
        "groups.max_eta_joint": max(group["eta_joint"] for group in summary["groups"]),
        "groups.max_eta_mean": max(group["eta_mean"] for group in summary["groups"]),
        "membership.max_right": summary["membership"]["accuracy_max"],
        "membership.max_epsilon": fl.bounds.epsilon(summary["membership"]["rows"][0]["mu"], 1e-6),
    }
    for name, value in values.items():
        rule = found[name]
        assert rule["value"] == pytest.approx(value), name
        over = rule["value"] < rule["limit"] if "min_" in name else rule["value"] > rule["limit"]
        assert rule["passed"] == (not over)
        assert (rule["count"] or 0) == 0 or not rule["passed"]
    assert not summary["policy"]["passed"]


def test_at_most_is_never_less_than_what_was_found(table: Any) -> None:
    said = {
        "rows.max_eta": 1.0,
        "columns.age.max_eta": 1.0,
        "membership.max_right": 100.0,
        "membership.max_epsilon": 1.0,
    }
    for noise in (300.0, 1234.5, 7e4):
        _, found = rules(table, LIMITS, noise=noise)
        for name, unit in said.items():
            written = re.search(r"at most ([\d.]+)[ ;]", found[name]["note"])
            assert written is not None, name
            assert float(written[1]) >= unit * found[name]["value"] * (1 - 1e-8), name


def test_a_limit_on_epsilon_is_one_on_mu(table: Any) -> None:
    """Every row counts that is above it; a covariance that rows decide has no epsilon."""
    _, found = rules(table, {"membership": {"max_epsilon": 0.4}}, noise=300.0)
    rule = found["membership.max_epsilon"]
    result = audit(table, SETTINGS, policy=policy_of({"membership": {"max_epsilon": 0.4}}), noise=300.0, **FAST)
    own = fl.bounds.epsilon(result.trained.leak.membership() / result.unit_scale, 1e-5)
    assert rule["value"] == pytest.approx(own.max(), rel=1e-6)
    assert (rule["count"], rule["passed"]) == (np.count_nonzero(own > 0.4), False)
    assert 0 < rule["count"] < len(own)
    for factor, passed in ((1 + 1e-6, True), (1 - 1e-6, False)):
        _, found = rules(table, {"membership": {"max_epsilon": float(own.max() * factor)}}, noise=300.0)
        assert found["membership.max_epsilon"]["passed"] == passed


def test_where_rows_decide_the_covariance_epsilon_is_refused(table: Any) -> None:
    result = audit(table, SETTINGS, policy=policy_of({"membership": {"max_epsilon": 9.0}}), noise=1e6, **FAST)
    applied = apply_policy(result.design, SETTINGS, Plan(policy=policy_of({"membership": {"max_epsilon": 9.0}})))
    assert applied is not None
    shaped = replace(result, membership=replace(result.membership, kind="equivalent"))
    for found, passed in ((result, True), (shaped, False)):
        (rule,) = judge(applied, judged_table(found))
        assert (rule.passed, "not known" in rule.words) == (passed, not passed)


@pytest.mark.parametrize(("changes", "certain"), [(0.0, 0.0), (2e-6, 2e-6), (2e-5, 2e-5)])
def test_epsilon_counts_what_the_scale_on_a_card_tells(changes: float, certain: float) -> None:
    """Two releases of which each has a scale that the other cannot have with that chance, and normal parameters else."""
    mu, delta = np.array([0.3, 0.8]), 1e-5
    value, row, above = epsilons_of(mu, (1, 0.8), np.array([0.0, changes]), delta, 1.0)
    if certain >= delta:
        assert (value, row, above) == (np.inf, 1, 1)
        return
    told = certain + (1 - certain) * fl.bounds.delta(0.8, value)
    assert told == pytest.approx(delta, rel=1e-6)
    assert (row, above) == (1, int(np.sum(fl.bounds.epsilon(mu, (delta - certain) / (1 - certain)) > 1.0)))


def test_the_noise_that_is_said_keeps_every_limit_and_no_less_does(table: Any) -> None:
    summary, _ = rules(table, LIMITS, noise=300.0)
    enough = summary["policy"]["noise"]
    assert enough > 300.0
    assert rules(table, LIMITS, noise=enough)[0]["policy"]["passed"]
    assert not rules(table, LIMITS, noise=enough * 0.98)[0]["policy"]["passed"]


def test_what_was_not_measured_is_not_kept(table: Any) -> None:
    given = {
        "columns": {"city": {"max_attack": 0.99}},
        "attacks": {"max_gain": 0.9},
        "utility": {"max": 0.1},
        "require": {"attacks": True, "public": "nothing", "group": "age", "attributes": ["city"], "held_out": 0.25},
    }
    summary, found = rules(table, given, noise=1e4)
    kept = {name for name, rule in found.items() if rule["passed"]}
    assert kept == {"require.public"}
    assert summary["policy"]["noise"] is None


def test_attackers_and_utility(table: Any) -> None:
    given = {
        "columns": {"city": {"max_attack": 0.99}},
        "attacks": {"max_gain": 0.5, "max_accuracy": 0.01},
        "utility": {"min": -1e9, "max_loss": 1e-12},
        "require": {"attacks": True, "attributes": ["city"]},
    }
    summary, found = rules(table, given, noise=1e5, attacks=True)
    tried = [a for a in summary["attacks"] if a["attacker"] != "white-box, served answer" and a["attribute"] == "city"]
    best = max(a[key] for a in tried for key in ("accuracy", "baseline"))  # guesses without the release count too
    assert found["columns.city.max_attack"]["value"] == found["attacks.max_accuracy"]["value"] == pytest.approx(best)
    failed = {name for name, rule in found.items() if not rule["passed"]}
    assert failed == {"attacks.max_accuracy", "utility.max_loss"}


def test_columns_that_the_table_does_not_have_are_refused(table: Any) -> None:
    with pytest.raises(InvalidInputError, match="'agee', which the table does not have"):
        rules(table, {"columns": {"agee": {"max_eta": 1.0}}}, noise=1.0)


def test_what_is_not_a_number_fails(table: Any) -> None:
    """Figures that overflow or are missing are above every limit, not below it."""
    policy, plan = policy_of(LIMITS | {"columns": {"age": {"max_eta": 1.0}}}), {"noise": 1e6, **FAST}
    found = audit(table, SETTINGS, policy=policy, **plan)
    assert all(rule.passed for rule in found.rules)
    applied = apply_policy(found.design, SETTINGS, Plan(policy=policy))
    assert applied is not None
    nan = float("nan")
    digest = replace(found.rows.digest, top=[(0, nan)])
    groups = tuple(
        replace(group, joint=nan, spread=replace(group.spread, moments=nan_moments())) for group in found.groups
    )
    membership = replace(found.membership, mu=np.full(3, nan), top=(told_at(0, nan, 1.0),))
    broken = replace(
        found,
        rows=replace(found.rows, digest=digest),
        columns=tuple(replace(figure, largest=nan) for figure in found.columns),
        label=replace(found.label, largest=nan, rms=replace(found.label.rms, largest=nan)),
        groups=groups,
        membership=membership,
    )
    assert {rule.name for rule in judge(applied, judged_table(broken)) if rule.passed} == {"require.group"}


def nan_moments() -> Moments:
    return Moments(2, float("nan"), float("nan"), float("nan"), float("nan"))


@pytest.mark.parametrize("section", ["rows", "groups", "membership", "attacks", "utility", "require"])
def test_a_rule_that_no_function_judges_is_refused(table: Any, monkeypatch: pytest.MonkeyPatch, section: str) -> None:
    """Whoever adds a key to a section and nothing else would have a gate that passes by it."""
    monkeypatch.setitem(policy_module.SECTIONS, section, {**policy_module.SECTIONS[section], "toy": policy_module.ANY})
    given = policy_of({**LIMITS, section: {**LIMITS.get(section, {}), "toy": 1.0}})
    with pytest.raises(InvalidInputError, match=f"The rule {section}.toy of the policy"):
        audit(table, SETTINGS, policy=given, noise=300.0, **FAST)
