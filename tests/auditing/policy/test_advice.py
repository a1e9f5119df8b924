"""What to do next: the noise that is advised keeps what it is said to keep, and hardly less would."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from fisherleak._support.grids import rounded_up
from fisherleak.auditing import Settings, audit
from fisherleak.auditing.policy.advice import advice_on, choices_on
from fisherleak.auditing.policy.policy import policy_of
from fisherleak.engine.noise.calibration_record import HESSIAN, Calibration
from fisherleak.protection.certificates.data_dependent_covariance import own_shape

FAST: dict[str, Any] = {"draws": 4, "attacks": False}
FEW = 60
"""Rows of which every mean over a prior takes little time."""


def test_scales_are_never_rounded_down() -> None:
    for value in (1.0, 9.999, 0.0012345, 999.5, 1e-9 / 3):
        assert value <= rounded_up(value) <= value * 1.011


@pytest.mark.parametrize("target", ["income", "sick"])
def test_without_limits_a_tenth_is_revealed_at_most(people: Any, target: str) -> None:
    table, settings = people.loc[:FEW, ["age", "city", target]], Settings(target)
    first = audit(table, settings, **FAST)
    advice = advice_on(first)
    assert (first.noise.chosen, first.noise.scale) == ("default", advice.noise)
    again = audit(table, settings, noise=advice.noise, **FAST)
    worst = max(share.worst for share in again.revealed() if share is not None)
    assert 0.097 < worst <= 0.1


@pytest.mark.parametrize("target", ["income", "sick"])
def test_each_choice_reveals_what_it_says(people: Any, target: str) -> None:
    table, settings = people.loc[:FEW, ["age", "city", target]], Settings(target)
    choices = choices_on(audit(table, settings, noise=3.0, **FAST))
    assert [choice.share for choice in choices] == sorted((choice.share for choice in choices), reverse=True)
    for choice in choices[::2]:
        again = audit(table, settings, noise=choice.noise, **FAST)
        worst = max(share.worst for share in again.revealed() if share is not None)
        assert 0.97 * choice.share < worst <= choice.share


@pytest.mark.long
def test_limits_decide_where_there_are_some(people: Any) -> None:
    table = people.loc[:FEW, ["age", "city", "sick"]]
    settings = Settings("sick", held_out=0.0, bounds=(("age", (0.0, 120.0)),))
    kept = audit(table, settings, noise=5.0, max_eta=100.0, **FAST)
    assert advice_on(kept).noise == 5.0
    broken = audit(
        table, settings, noise=0.01, max_eta=0.5, policy=policy_of({"membership": {"max_right": 0.6}}), **FAST
    )
    noise = advice_on(broken).noise
    again = audit(table, settings, noise=noise, max_eta=0.5, policy=broken.policy, **FAST)
    assert again.gate is not None
    assert again.gate.count == 0
    assert all(rule.passed for rule in again.rules)
    useless = audit(table, settings, noise=5.0, policy=policy_of({"utility": {"min": 1.0}}), **FAST)
    assert "the limit on utility fails" in advice_on(useless).note
    other = audit(table, settings, noise=5.0, policy=policy_of({"require": {"model": "linear"}}), **FAST)
    assert "as the policy requires" in advice_on(other).note
    lost = audit(table, settings, noise=5.0, policy=policy_of({"attacks": {"max_gain": 0.1}}), **FAST)
    assert advice_on(lost).noise is None


@pytest.mark.long
def test_advice_on_attacks_is_checked_with_all_attackers(people: Any) -> None:
    """The curve of the strongest attacker is a first guess only: the rules are run at what is advised."""
    bounds = (("age", (0.0, 120.0)), ("income", (-100_000.0, 200_000.0)))
    table, settings = people[["age", "city", "income"]], Settings("income", held_out=0.0, bounds=bounds)
    policy = policy_of({"columns": {"city": {"max_attack": 0.615}}, "membership": {"max_right": 0.7}})
    failed = audit(table, settings, noise=500.0, policy=policy, draws=4)
    assert [rule.name for rule in failed.rules if not rule.passed][:1] == ["columns.city.max_attack"]
    noise = advice_on(failed).noise
    assert noise is not None
    assert noise > 500.0
    assert all(rule.passed for rule in audit(table, settings, noise=noise, policy=policy, draws=4).rules)


def test_no_noise_is_advised_where_guesses_without_the_release_are_above_a_limit(people: Any) -> None:
    table = people.loc[:FEW, ["age", "city", "income"]]
    policy = policy_of({"columns": {"city": {"max_attack": 0.01}}})
    found = advice_on(audit(table, Settings("income"), noise=3.0, policy=policy, draws=4))
    assert found.noise is None
    assert "guesses without the release" in found.note
    assert "max_gain" in found.note


def test_a_noise_that_costs_too_much_is_not_advised(people: Any) -> None:
    table, settings = people[["age", "weight", "city", "income"]], Settings("income")
    policy = policy_of({"rows": {"max_eta": 1e-3}, "utility": {"max_loss": 0.01}})
    advice = advice_on(audit(table, settings, noise=300.0, policy=policy, **FAST))
    assert advice.noise is None
    assert advice.note.endswith("Where the rules on what is revealed pass, these fail: utility.max_loss.")


def test_a_table_of_categories_has_no_share(people: Any) -> None:
    found = audit(people[["city", "sick"]], Settings("sick"), **FAST)
    assert found.revealed() == (None, None)
    assert choices_on(found) == ()
    assert found.rows.digest.high / found.unit_scale == pytest.approx(1.0)
    advised = advice_on(found)
    assert advised.noise == pytest.approx(found.noise.scale, rel=0.01)
    assert "keeps the eta of every row at 1 or below" in advised.note


def test_noise_that_the_rows_shape_is_advised_with_what_no_scale_hides(people: Any) -> None:
    table, settings = people[["age", "weight", "income"]], Settings("income", held_out=0.0)
    plain = audit(table, settings, noise=1.0, **FAST).trained
    told = Calibration("nothing", None, shape=HESSIAN)
    noise = replace(own_shape(plain.leak._information.jacobians[0]), calibrated=told)
    own = plain.with_noise(noise).most_by_shape()
    assert own is not None
    limit = 1.2 * own  # so low that most of what is left is the covariance's own
    advice = advice_on(audit(table, settings, noise=noise.rescaled(plain.unit), max_eta=limit, **FAST))
    assert advice.noise is not None
    again = audit(table, settings, noise=noise.rescaled(advice.noise), max_eta=limit, **FAST)
    assert again.gate is not None
    assert again.gate.count == 0
    none = advice_on(audit(table, settings, noise=noise.rescaled(plain.unit), max_eta=0.9 * own, **FAST))
    assert none.noise is None
    assert "No scale of this noise" in none.note
