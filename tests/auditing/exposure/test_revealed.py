"""Shares of values revealed: against van Trees' bound, counted row by row, the same at every spread that leaves eta s as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import fisherleak as fl
from fisherleak import InvalidInputError
from fisherleak.auditing import Settings, audit
from fisherleak.auditing.exposure import revealed
from fisherleak.auditing.exposure.revealed import (
    exposure_at,
    prior_spreads,
    rms_of_values,
    spreads_in_units,
    squares_of_values,
)
from fisherleak.auditing.policy.policy import policy_of
from fisherleak.auditing.records import Plan
from fisherleak.auditing.report_summary import read_summary
from fisherleak.auditing.run import audit_trained
from fisherleak.bounds import van_trees
from fisherleak.engine.noise.calibration_record import HESSIAN, Calibration
from fisherleak.leakage.shares import rms_etas, share_of
from fisherleak.protection.certificates.data_dependent_covariance import own_shape
from fisherleak.releasing.files.released_files import load_model, retrain, save_model
from fisherleak.report.summarise import summarise
from fisherleak.report.view import page
from fisherleak.tables import from_frame
from fisherleak.training.pipelines import pipeline_of, standard_noise
from report.records import verdict_of

pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")


def test_a_share_is_what_van_trees_takes_from_the_variance() -> None:
    for eta, spread in ((0.1, 3.0), (2.0, 0.5), (0.0, 1.0), (40.0, 7.0)):
        assert share_of(eta * spread) == pytest.approx(1 - van_trees(eta, spread) / spread**2)
    for share in (0.01, 0.5, 0.99):
        assert share_of(exposure_at(share)) == pytest.approx(share)


@pytest.mark.parametrize("kind", ["linear", "logistic", "poisson", "gamma"])
def test_figures_are_those_of_all_rows(kind: str, table_for: Any, target_for: Any) -> None:
    table = table_for(kind)
    result = audit(
        table, Settings(target_for(kind), kind), noise={"linear": 100.0}.get(kind, 0.01), draws=4, attacks=False
    )
    summary = summarise(result)
    (rows,) = result.leakage_rows()
    squares = squares_of_values(result.trained, prior_spreads(result.trained, {}))
    rms = rms_of_values(result.trained, squares) / result.unit_scale
    above = np.zeros(len(rows.eta), dtype=bool)
    units = [feature.scale for feature in result.design.features]
    of = {
        a["name"]: (a["revealed"], rms[:, j] / units[j], table[a["name"]]) for j, a in enumerate(summary["attributes"])
    }
    of["label"] = (summary["label"]["revealed"], rms[:, -1] / result.design.target.unit, table[target_for(kind)])
    without = {name for name, (found, _, _) in of.items() if found is None}
    # a gamma model cannot be fitted with the labels below zero that a normal belief allows
    assert without == ({"city", "label"} if kind in ("logistic", "gamma") else {"city"})
    for found, etas, values in of.values():
        if found is None:
            continue
        used = values.to_numpy()[rows.numbers - 1]
        assert found["spread"] == pytest.approx(used.std())
        shares = (etas * used.std()) ** 2 / (1 + (etas * used.std()) ** 2)
        assert found["max"] == pytest.approx(shares.max())
        assert found["median"] == pytest.approx(share_of(float(np.median(etas)) * used.std()))
        assert found["q95"] == pytest.approx(share_of(float(np.quantile(etas, 0.95)) * used.std()))
        assert found["count"] == np.sum(shares > 0.5)
        above |= shares > 0.5
    assert summary["people"] == {"count": int(above.sum()), "share": 0.5, "measured": True}
    assert above.any()


def rare(rows: int = 200) -> Any:
    """Ages, and a yes of four people."""
    rng = np.random.default_rng(3)
    vip = np.zeros(rows, dtype=int)
    vip[[5, 50, 100, 150]] = 1
    age = rng.normal(50, 12, rows)
    return pandas.DataFrame({"age": age, "vip": vip, "dose": 0.1 * age + vip + rng.normal(size=rows)})


def test_yes_and_no_are_told_and_not_shared() -> None:
    table = rare()
    options: dict[str, Any] = {"draws": 4, "quick": True, "noise": 0.05}
    found = audit(table, Settings("dose", held_out=0.0), **options)
    plain = audit(table, Settings("dose", held_out=0.0, numbers=("vip",)), **options)
    np.testing.assert_array_equal(found.trained.fit.theta, plain.trained.fit.theta)  # the model is the same
    np.testing.assert_allclose(found.eta, plain.eta)
    shown, before = ({a["name"]: a for a in summarise(each)["attributes"]} for each in (found, plain))
    assert (shown["vip"]["kind"], shown["vip"]["revealed"], shown["vip"]["spread"]) == ("category", None, None)
    assert shown["vip"]["yes_no"]
    assert (before["vip"]["kind"], "yes_no" in before["vip"]) == ("number", False)
    assert before["vip"]["revealed"]["max"] > 0
    assert shown["age"] == before["age"]
    told = {apart.attribute: apart for apart in found.attacked.distinguishable}
    assert set(told) == {"vip"}
    # the four whose yes is rare are told better than anyone's age is revealed
    eta = shown["vip"]["eta_max"]
    assert told["vip"].worst == pytest.approx(norm.cdf(eta / 2), rel=0.1)
    verdict = verdict_of(summarise(found))
    assert verdict is not None
    assert any("category is vip" in line for line in verdict.lines)
    assert not any("vip of row" in line for line in verdict.lines)


def test_a_yes_that_is_not_attacked_is_told_in_the_row_that_is_most_exposed() -> None:
    table = rare(300).assign(a=np.arange(300) % 2, b=np.arange(300) % 3 // 2)
    result = audit(table, Settings("dose", held_out=0.0), draws=4, noise=0.05, quick=True)
    told = {apart.attribute: apart for apart in result.attacked.distinguishable}
    assert set(told) == {"vip", "a", "b"}
    figures = {each.feature.name: each for each in result.columns}
    model, frame, labels = pipeline_of(result.trained)
    noise = standard_noise(result.trained, fl.Gaussian(0.05))
    attack = fl.attacks.WhiteBox(model, frame, labels, "b", rows=[figures["b"].worst])
    attack._refits_scale = True  # as the release does
    root = noise.unit_information_root(attack.target.given.size)
    assert root is not None
    mu = max(np.linalg.norm(each.values @ root.T) for each in attack.moves) / noise.scale
    assert "b" not in result.attributes
    assert told["b"].worst >= norm.cdf(mu / 2) * (1 - 1e-12)


@pytest.mark.parametrize("asked", [["sort"], ["sex"]])
def test_the_category_that_is_told_best_is_named_whether_or_not_it_was_attacked(asked: list[str]) -> None:
    """A level of two people among 300, of which no 100 rows drawn at random need hold one."""
    table = rare(300).drop(columns="vip").assign(sex=np.array(["f", "m"])[np.arange(300) % 2])
    table["sort"] = np.array(["a", "b", "c"])[np.where(np.isin(np.arange(300), [7, 200]), 2, np.arange(300) % 2)]
    result = audit(table, Settings("dose", held_out=0.0), draws=4, noise=0.4, quick=True, attributes=asked)
    told = {apart.attribute: apart for apart in result.attacked.distinguishable}
    assert set(told) == {"sort", "sex"}
    model, frame, labels = pipeline_of(result.trained)
    noise = standard_noise(result.trained, fl.Gaussian(0.4))
    attack = fl.attacks.WhiteBox(model, frame, labels, "sort")
    root = noise.unit_information_root(attack.target.given.size)
    assert root is not None
    mu = np.max([np.linalg.norm(each.values @ root.T, axis=1) for each in attack.moves], axis=0) / noise.scale
    assert told["sort"].worst == pytest.approx(norm.cdf(mu.max() / 2), rel=1e-6)
    drawn = np.setdiff1d(np.arange(300), np.argsort(mu)[-5:])
    assert told["sort"].worst > norm.cdf(mu[drawn].max() / 2) + 0.01
    verdict = verdict_of(summarise(result))
    assert verdict is not None
    assert any("category is sort" in line for line in verdict.lines)


def test_the_noise_that_is_chosen_guards_yes_and_no() -> None:
    known = {"age": 1e-3, "dose": 1e-3}  # so well that only the rare yes is left to decide
    result = audit(rare(), Settings("dose", held_out=0.0), draws=4, attacks=False, spread=known)
    (rows,) = result.leakage_rows()
    assert rows.cells is not None
    vip = [figure.feature.name for figure in result.columns].index("vip")
    assert 0.98 < rows.cells[:, vip].max() * 0.5 / exposure_at(0.1) <= 1
    assert "a standard deviation of 1/2" in result.noise.note
    verdict = verdict_of(summarise(result))
    assert verdict is not None
    assert "A column of two values counts as numeric, with a standard deviation of 1/2" in verdict.lines[-1]
    assert summarise(result)["choices"][3]["noise"] == result.noise.scale


def test_a_spread_that_is_given_counts(people: Any) -> None:
    table = people[["age", "city", "income"]]
    options: dict[str, Any] = {"noise": 100.0, "draws": 4, "attacks": False}
    plain = summarise(audit(table, Settings("income"), **options))
    wide = summarise(audit(table, Settings("income"), spread={"age": 40.0}, **options))
    before, after = plain["attributes"][0], wide["attributes"][0]
    assert after["revealed"]["spread"] == 40.0
    assert after["revealed"]["max"] > before["revealed"]["max"]
    assert before["eta_max"] == after["eta_max"]
    assert before["spread"] == after["spread"]
    assert plain["label"]["revealed"] == wide["label"]["revealed"]
    with pytest.raises(InvalidInputError, match="no numeric column of this model"):
        audit(table, Settings("income"), spread={"city": 1.0}, **options)
    with pytest.raises(InvalidInputError, match="greater than zero"):
        audit(table, Settings("income"), spread={"age": -1.0}, **options)


def test_noise_that_the_rows_shape_has_shares_and_passes_rules_on_them() -> None:
    rng = np.random.default_rng(4)
    age, weight = np.clip(rng.normal(50, 12, 150), 20, 90), np.clip(rng.normal(70, 9, 150), 40, 110)
    table = pandas.DataFrame({"age": age, "weight": weight, "dose": 0.1 * age + 0.05 * weight + rng.normal(size=150)})
    settings = Settings("dose", held_out=0.0, bounds=(("age", (20.0, 90.0)),))
    options: dict[str, Any] = {"draws": 4, "attacks": False}
    trained = audit(table, settings, noise=1.0, **options).trained
    unit = own_shape(trained.leak._information.jacobians[0])
    noise = replace(unit, calibrated=Calibration("nothing", None, shape=HESSIAN))

    def found(scale: float, limit: float) -> Any:
        policy = policy_of({"columns": {"age": {"max_revealed": limit}}})
        return audit(table, settings, noise=noise.rescaled(scale), policy=policy, **options)

    results = {scale: found(scale, 0.5) for scale in (1.0, 2.0, 4.0)}
    etas = {}
    for scale, result in results.items():
        (rule,) = result.rules
        assert rule.passed
        leak = trained.leak.with_noise(noise.rescaled(scale / trained.unit))
        spreads = spreads_in_units(trained, prior_spreads(trained, {}))
        etas[scale] = (np.asarray(rms_etas(leak, spreads[:-1]))[:, 0] * spreads[0]).max()
        assert rule.value == pytest.approx(share_of(float(etas[scale])), rel=1e-6)
        assert page(read_summary(summarise(result))).targets.shares is None  # the slider would let all of it fall
    # a part of it is the same at every scale, so that it falls less than the noise grows
    assert etas[4.0] > etas[2.0] / 2.0 > etas[1.0] / 4.0
    strict = found(1.0, 0.5 * results[1.0].rules[0].value)
    assert not strict.rules[0].passed
    assert strict.passing.noise is not None
    assert found(strict.passing.noise, strict.rules[0].limit).rules[0].passed


@pytest.mark.parametrize("shape", ["hessian", "least-loss"])
def test_a_release_for_any_record_within_the_bounds_can_pass_a_rule_on_shares(shape: str, tmp_path: Path) -> None:
    pytest.importorskip("skops")
    rng = np.random.default_rng(4)
    age, weight = np.clip(rng.normal(50, 12, 400), 20, 90), np.clip(rng.normal(70, 9, 400), 40, 110)
    dose = np.clip(0.1 * age + 0.05 * weight + rng.normal(size=400), 0, 20)
    raw = from_frame(pandas.DataFrame({"age": age, "weight": weight, "dose": dose}))
    bounds, path = {"age": (20.0, 90.0), "weight": (40.0, 110.0), "dose": (0.0, 20.0)}, tmp_path / "m.skops"
    save_model(raw, Settings("dose", held_out=0.0, l2=0.1), path, eta=2.0, shape=shape, bounds=bounds)
    saved = load_model(path)
    trained = retrain(saved, raw)
    for limit, passes in ((0.5, True), (1e-4, False)):
        policy = policy_of({"columns": {"*": {"max_revealed": limit}}})
        plan = Plan(noise=saved.noise_on(trained), attacks=False, draws=3, quick=True, policy=policy, released=True)
        rules = audit_trained(trained, saved.settings, plan).rules
        assert [rule.name for rule in rules] == [f"columns.{name}.max_revealed" for name in ("age", "weight", "dose")]
        assert [rule.passed for rule in rules] == [passes] * 3
        assert all(rule.value is not None and 1e-4 < rule.value < 0.5 for rule in rules)


def test_of_very_large_tables_no_share_is_stated(people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revealed, "MOST_VALUES", 25)
    result = audit(people[["age", "weight", "income"]], Settings("income"), noise=300.0, draws=2, attacks=False)
    assert "too large for a mean over a belief" in str(revealed.shares_unknown(result.trained))
    assert all(each["revealed"] is None for each in summarise(result)["attributes"])
