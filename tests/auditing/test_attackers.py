"""Every attacker on an audited model: people and not averages alone, values told apart from exact moves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import fisherleak as fl
from fisherleak.attacks import candidates
from fisherleak.auditing import attackers
from fisherleak.auditing.attackers import ATTACKERS, attack_all
from fisherleak.auditing.exposure import moves_between_values as columns_apart
from fisherleak.auditing.fitted_models import under_attack
from fisherleak.auditing.fitted_models.under_attack import table_under_attack
from fisherleak.auditing.records import SERVED, Attacked
from fisherleak.training.pipelines import pipeline_of, standard_noise
from fisherleak.training.trained_model import Settings, Trained, train

pandas = pytest.importorskip("pandas")
pytestmark = pytest.mark.usefixtures("quick_audits")


@pytest.fixture(scope="module")
def trained() -> Trained:
    from fisherleak.tables import from_frame

    rng = np.random.default_rng(0)
    age = rng.normal(50, 12, 160).round()
    habit = np.where(rng.random(160) < 1 / (1 + np.exp((age - 50) / 4)), "yes", "no")
    table = pandas.DataFrame({"habit": habit, "age": age, "ill": np.where(rng.random(160) < 0.4, "a", "b")})
    return train(from_frame(table), Settings("ill", l2=0.1, held_out=0.0))


@pytest.fixture(scope="module")
def attacked(trained: Trained) -> Attacked:
    return attack_all(table_under_attack(trained), ["habit"], 0.05, grid=[0.05, 0.5])


def of(attacked: Attacked, name: str) -> Any:
    (found,) = [outcome for outcome, _ in attacked.outcomes if outcome.attacker == name]
    return found


def test_every_attacker_is_tried_and_known_by_what_it_sees(attacked: Attacked) -> None:
    assert [outcome.attacker for outcome, _ in attacked.outcomes] == list(ATTACKERS)
    assert attacked.notes == ()


def test_several_classes_have_every_attacker_that_two_have() -> None:
    from fisherleak.tables import from_frame

    rng = np.random.default_rng(0)
    columns = {name: rng.choice(["yes", "no"], 90) for name in ("habit", "other")}
    table = pandas.DataFrame(columns | {"age": rng.normal(size=90), "kind": rng.choice(["a", "b", "c"], 90)})
    several = train(from_frame(table), Settings("kind", l2=0.1, held_out=0.0))
    found = attack_all(table_under_attack(several), ["habit", "other"], 0.05, quick=True)
    assert found.notes == (attackers.QUICK,)
    assert {outcome.attacker for outcome, _ in found.outcomes} == set(ATTACKERS) - set(attackers.LEARNERS)
    assert attack_all(table_under_attack(several), ["kind"], 0.05, quick=True).notes == (attackers.QUICK,)


def test_levels_with_a_penalty_are_those_that_attackers_know() -> None:
    """Moves of a model whose intercepts were free would not name every value where there is next to no noise."""
    from fisherleak.tables import from_frame

    rng = np.random.default_rng(1)
    table = pandas.DataFrame({"habit": rng.choice(["yes", "no"], 60), "age": rng.normal(3.0, 1.0, 60)})
    table["kind"] = rng.choice(["a", "b", "c"], 60, p=[0.6, 0.25, 0.15])
    held = train(from_frame(table), Settings("kind", l2=0.5, held_out=0.0, intercept_l2=0.5))
    found = attack_all(table_under_attack(held), ["habit"], 1e-7, quick=True)
    assert of(found, "white-box").accuracy == pytest.approx(1.0, abs=1e-9)


def test_people_beside_averages(attacked: Attacked) -> None:
    found: list[Any] = [outcome for outcome, _ in attacked.outcomes]
    for outcome in found:
        if outcome.attacker in ("no model, other columns", "prior"):
            assert (outcome.worst, outcome.q95, outcome.median, outcome.found) == (None, None, None, None)
        else:
            assert outcome.median <= outcome.q95 <= outcome.worst <= 1
            assert outcome.worst >= outcome.accuracy
            assert 0 <= outcome.found <= outcome.n


def test_what_other_columns_suggest_adds_to_the_release(attacked: Attacked) -> None:
    informed, common = of(attacked, "white-box, other columns"), of(attacked, "white-box with prior")
    assert informed.accuracy > max(informed.baseline, common.accuracy)
    assert of(attacked, "white-box, served answer").accuracy >= common.accuracy - 0.02
    assert attacked.curves[0][0]["accuracy"] == pytest.approx(informed.accuracy)


def test_values_are_told_apart_by_exact_moves(trained: Trained, attacked: Attacked) -> None:
    model, frame, labels = pipeline_of(trained)
    noise = standard_noise(trained, fl.Gaussian(0.05))
    attack = fl.attacks.WhiteBox(model, frame, labels, "habit")
    root = noise.unit_information_root(attack.target.given.size)
    root = np.eye(attack.target.given.size) if root is None else root
    mu = np.max([np.linalg.norm(each.values @ root.T, axis=1) for each in attack.moves], axis=0) / noise.scale
    (apart,) = attacked.distinguishable
    assert (apart.attribute, apart.rows) == ("habit", 160)
    assert apart.worst == pytest.approx(norm.cdf(mu.max() / 2))
    assert apart.median == pytest.approx(np.median(norm.cdf(mu / 2)))
    assert apart.error_least == pytest.approx(1 / math.sqrt(math.expm1(mu.max() ** 2)))


def test_the_label_is_attacked_like_a_column(trained: Trained) -> None:
    found = attack_all(table_under_attack(trained), ["ill"], 0.05, grid=[0.05])
    model, frame, labels = pipeline_of(trained)
    noise = standard_noise(trained, fl.Gaussian(0.05))
    own = fl.attacks.WhiteBox(model, frame, labels, "label", use_prior=True)
    outcome = of(found, "white-box with prior")
    assert outcome.attribute == "ill"
    assert outcome.accuracy == pytest.approx(float(np.mean(own.accuracy(noise))))
    assert outcome.worst == pytest.approx(float(np.max(own.accuracy(noise))))
    assert [each.attacker for each, _ in found.outcomes] == [name for name in ATTACKERS if name != SERVED]
    (apart,) = found.distinguishable
    root = noise.unit_information_root(own.target.given.size)
    assert root is not None
    mu = np.max([np.linalg.norm(each.values @ root.T, axis=1) for each in own.moves], axis=0) / noise.scale
    assert apart.attribute == "ill"
    assert apart.worst == pytest.approx(norm.cdf(mu.max() / 2))
    assert found.curves[0][0]["attribute"] == "ill"


def test_a_number_that_is_predicted_is_guessed_among_typical_ones() -> None:
    from fisherleak.tables import from_frame

    rng = np.random.default_rng(1)
    # a column called "label" is no label
    table = pandas.DataFrame({"label": rng.integers(0, 2, 80), "age": rng.normal(50, 12, 80)})
    table["dose"] = np.exp(rng.normal(1, 0.3, 80))
    fitted = train(from_frame(table), Settings("dose", model="gamma", held_out=0.0))
    found = attack_all(table_under_attack(fitted), ["dose"], 1e-7, quick=True)
    assert "A guess of 'dose' is correct if it names the nearest of 5 typical values." in found.notes
    outcome = of(found, "white-box with prior")
    assert outcome.accuracy > 0.95 > 0.3 > outcome.baseline
    assert found.distinguishable == ()


def test_a_class_of_one_row_stops_no_audit() -> None:
    from fisherleak.tables import from_frame

    rng = np.random.default_rng(4)
    table = pandas.DataFrame({"age": rng.normal(50, 12, 60), "ill": np.where(np.arange(60) == 3, "yes", "no")})
    found = attack_all(
        table_under_attack(train(from_frame(table), Settings("ill", held_out=0.0))), ["ill"], 0.5, quick=True
    )
    # without that row's label there is no model: who needs it says so, and others go on
    assert [outcome.attacker for outcome, _ in found.outcomes] == ["black-box", "prior"]
    assert any("The white-box attack on 'ill' was not run" in note for note in found.notes)
    assert found.distinguishable == ()


def test_learners_learn_once(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    from fisherleak.attacks import informed_and_served, population_attacker

    learned = []

    def counted(target: Any) -> Any:
        learned.append(target.name)
        return population_attacker.learned_from(target)

    monkeypatch.setattr(informed_and_served, "learned_from", counted)
    found = attack_all(table_under_attack(trained), ["habit"], 0.05)
    assert learned == ["habit"]
    model, frame, labels = pipeline_of(trained)
    alone = fl.attacks.Ideal(model, frame, labels, "habit").against()
    assert of(found, "no model, other columns").accuracy == alone.accuracy


def test_other_noise_has_no_closed_form_for_it(trained: Trained) -> None:
    assert attack_all(table_under_attack(trained), ["habit"], fl.Laplace(0.05), quick=True).distinguishable == ()


def test_the_model_is_read_once_for_all_columns_and_attackers(
    trained: Trained, attacked: Attacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what attackers share is what each of them reads for itself."""
    read: list[Any] = []

    def counted(*given: Any) -> Any:
        read.append(given)
        return by_measuring(*given)

    by_measuring = candidates.jacobian_at_minimum
    monkeypatch.setattr(under_attack, "jacobian_at_minimum", counted)
    monkeypatch.setattr(candidates, "jacobian_at_minimum", counted)
    assert [*attack_all(table_under_attack(trained), ["habit", "age"], 0.05).outcomes[:7]] == [*attacked.outcomes]
    assert len(read) == 1
    model, frame, labels = pipeline_of(trained)
    noise = standard_noise(trained, fl.Gaussian(0.05))
    alone = fl.attacks.BlackBox(model, frame, labels, "habit").against(noise)
    assert of(attacked, "black-box").accuracy == pytest.approx(alone.accuracy)


def test_few_rows_of_large_models_of_several_classes_are_attacked(monkeypatch: pytest.MonkeyPatch) -> None:
    from fisherleak.tables import from_frame

    rng = np.random.default_rng(4)
    table = pandas.DataFrame({"age": rng.normal(size=120), "kind": rng.integers(0, 3, 120)})
    table["sick"] = np.array(["no", "mild", "severe"])[np.digitize(table.age + rng.normal(size=120), [-0.5, 0.5])]
    found = attack_all(
        table_under_attack(train(from_frame(table), Settings("sick", held_out=0.0))), ["kind"], 0.5, quick=True
    )
    assert {each.n for each, _ in found.outcomes} == {100}
    monkeypatch.setattr(attackers, "MANY_PARAMETERS", 5)
    found = attack_all(
        table_under_attack(train(from_frame(table), Settings("sick", held_out=0.0))), ["kind"], 0.5, quick=True
    )
    assert {each.n for each, _ in found.outcomes} == {columns_apart.FEW_ROWS}
