"""Noise that a gate computed from the rows it is to protect, units of labels, and numbers of which no share is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import GammaRegressor, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

import fisherleak as fl
from attacks_on_us.under_policy import judged, write_table_and_policy
from fisherleak._support.grids import rounded_up
from fisherleak.auditing import Settings, audit
from fisherleak.auditing.policy.advice import FROM_ROWS, advice_on
from fisherleak.auditing.policy.policy import Policy, policy_of
from fisherleak.cli import main
from fisherleak.report.summarise import summary_of_audit
from fisherleak.report.verdict import verdict_text
from fisherleak.tables import from_frame
from fisherleak.tables.design.repeated_rows import near_copies_note

pytestmark = pytest.mark.usefixtures("quick_audits")

RNG = np.random.default_rng(5)
X = pandas.DataFrame(RNG.uniform(-3, 3, (80, 2)).round(3), columns=["a", "b"])
Y = pandas.Series((X.a - X.b + RNG.uniform(-1, 1, 80)).round(3), name="cost")
MODEL = Ridge(alpha=5.0).fit(X, Y)
PUBLIC: dict[str, Any] = {"require": {"public": "preprocessing"}}
BOUNDS = [word for name, end in (("a", 4), ("b", 4), ("cost", 12)) for word in ("--bounds", f"{name}=-{end}:{end}")]
FAST = ("--no-attacks", "--draws", "2", "--target", "cost")


@pytest.mark.parametrize("rule", ["[membership]\nmax_right = 0.9", '[columns."*"]\nmax_revealed = 0.9'])
def test_a_scale_that_the_gate_computes_from_the_rows_is_refused(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of its digits would be on the model card, and without a row they are others."""
    monkeypatch.chdir(tmp_path)
    write_table_and_policy(X.assign(cost=Y), f'{rule}\n[require]\nmodel = "linear"\n')
    options = (*FAST, "--held-out", "0", "--model", "linear", *BOUNDS)
    status, err, _ = judged(capsys, "--eta", "1", *options)
    assert (status, "the noise scale was computed from the rows" in err) == (2, True), err
    assert "give it with --noise" in err
    assert judged(capsys, "--noise", "2", *options)[0] == 0


def calibrated(**options: Any) -> Any:
    return fl.calibrate(fl.measure(MODEL.set_params(alpha=400.0).fit(X, Y), X, Y), 0.5, **options)


ENDS = {"a": (-4, 4), "b": (-4, 4), "label": (-12, 12)}
MEMBERS: dict[str, Any] = {"membership": {"max_right": 0.99}} | PUBLIC
COLUMNS: dict[str, Any] = {"columns": {"*": {"max_revealed": 0.99}}} | PUBLIC


@pytest.mark.parametrize("bounds", [None, {"b": (-4, 4)}])
@pytest.mark.parametrize("policy", [MEMBERS, COLUMNS, {"rows": {"max_eta": 99.0}} | PUBLIC])
def test_noise_whose_record_tells_a_range_passes_no_rule_of_a_fitted_model(
    policy: dict[str, Any], bounds: dict[str, Any] | None
) -> None:
    """The range alone tells the row at its end, whatever the noise."""
    noise = calibrated(over="any-record", bounds=bounds)
    with pytest.raises(fl.InvalidInputError, match="the record of the noise states ranges of 'a'"):
        fl.audit(MODEL, X, Y, noise, policy=policy, attacks=False)


def test_membership_at_a_scale_that_a_row_may_change_is_not_held_fixed() -> None:
    """An attacker with the record of the noise alone was right 90 % of the time where 50.4 % was said."""
    noise = calibrated(over="any-record", bounds=ENDS)
    with pytest.raises(fl.InvalidInputError, match="How likely one row changes it is not computed"):
        fl.audit(MODEL, X, Y, noise, policy=MEMBERS, attacks=False)
    assert fl.audit(MODEL, X, Y, noise, policy=COLUMNS, attacks=False).passed is not None
    assert fl.audit(MODEL, X, Y, noise.rescaled(3.0), policy=MEMBERS, attacks=False).passed is not None


@pytest.mark.parametrize("kind", [fl.Gaussian, fl.Laplace, fl.Bounded])
def test_the_same_scale_keeps_how_it_was_found(kind: Any) -> None:
    leak = fl.measure(MODEL.set_params(alpha=400.0).fit(X, Y), X, Y, kind(1.0))
    noise: Any = fl.calibrate(leak, 0.5, over="max")
    again = noise.rescaled(noise.limit if kind is fl.Bounded else noise.scale)
    with pytest.raises(fl.InvalidInputError, match="the noise scale was computed from the rows"):
        fl.audit(MODEL, X, Y, again, policy=COLUMNS, attacks=False)
    with pytest.warns(fl.UncountedScaleWarning):
        fl.release(MODEL, again, public="preprocessing")


def test_the_noise_of_a_limit_on_rows_is_advised_in_three_digits() -> None:
    policy = policy_of({"rows": {"max_eta": 2.0}})
    found = audit(from_frame(X.assign(cost=Y)), Settings("cost"), eta=1.0, policy=policy, attacks=False, draws=2)
    advice = advice_on(found)
    assert advice.noise == rounded_up(found.noise.scale) >= found.noise.scale
    assert FROM_ROWS in advice.note


def test_so_is_noise_that_was_calibrated_for_the_rows_present() -> None:
    noise = fl.calibrate(fl.measure(MODEL, X, Y), eta=1.0)
    policy = PUBLIC | {"membership": {"max_right": 0.99}}
    with pytest.raises(fl.InvalidInputError, match="computed from the rows, a release shows it"):
        fl.audit(MODEL, X, Y, noise, policy=policy, attacks=False)
    assert fl.audit(MODEL, X, Y, fl.Gaussian(5.0), policy=policy, attacks=False).passed
    assert fl.audit(MODEL, X, Y, noise, policy=PUBLIC | {"rows": {"max_eta": 9.0}}, attacks=False).passed


def test_a_covariance_in_numbers_is_one_that_a_policy_asks_about() -> None:
    wide = np.column_stack([X, np.ones(len(X))])
    noise = fl.Gaussian(0.5, np.linalg.inv(wide.T @ wide))
    for stated, passed in (("public.csv", False), ("given", True)):
        policy = {"rows": {"max_eta": 1e6}, "require": {"public": "preprocessing", "covariance": [stated]}}
        assert fl.audit(MODEL, X, Y, noise, policy=policy, attacks=False).passed is passed


@pytest.mark.parametrize(
    ("estimator", "labels"),
    [(GammaRegressor, np.exp(6.0 + RNG.uniform(-0.09, 0.09, 80))), (PoissonRegressor, RNG.poisson(400, 80) + 0.0)],
)
def test_rows_of_a_model_with_a_logarithm_count_labels_in_standard_deviations(estimator: Any, labels: Any) -> None:
    y = pandas.Series(labels, name="cost")

    def fitted(y: pandas.Series) -> Any:
        return estimator(alpha=0.001, tol=1e-12, max_iter=9999, solver="newton-cholesky").fit(X, y)

    def parameters(y: pandas.Series) -> Any:
        model = fitted(y)
        return np.append(model.coef_, model.intercept_)

    scale, step, most = 0.01, 1e-3 * float(y.std()), 0.0
    for row in range(0, 80, 8):
        move = step * (np.arange(80) == row)
        moved = np.linalg.norm(parameters(y + move) - parameters(y - move)) / (2 * step)
        most = max(most, float(moved * y.std() / scale))
    policy = PUBLIC | {"rows": {"max_eta": 1e9}}
    rules = fl.audit(fitted(y), X, y, fl.Gaussian(scale), policy=policy, attacks=False).rules
    assert rules.value["rows.max_eta"] >= 0.9 * most  # a scale on the grid is within 9 % of the standard deviation


def test_a_number_without_a_share_is_named_where_any_number_would_be() -> None:
    y = np.exp(RNG.uniform(-0.09, 0.09, 80)).round(5)
    table = X[["b"]].assign(cost=y)
    found = audit(from_frame(table), Settings("cost", model="gamma"), attacks=False, draws=2)
    words = verdict_text(summary_of_audit(found))
    said = f"{words} {found.noise.note}"
    assert found.without_share == ("cost",)
    assert "of any numeric value except cost is revealed" in said
    assert "No share is known of cost." in said
    assert "any numeric value except cost of anyone" in said


def test_so_it_is_of_fitted_models() -> None:
    steps = ColumnTransformer([("s", SplineTransformer(), ["a"])])
    found = fl.audit(make_pipeline(steps, Ridge()).fit(X, Y), X, Y, attacks=False)
    assert found.summary.without_share == ("a",)
    assert "No share is known of a." in str(found.verdict)
    model = GammaRegressor(alpha=0.01, tol=1e-10, max_iter=9999).fit(X, np.exp(Y / 3))
    summary = fl.audit(model, X, np.exp(Y / 3), attacks=False).summary
    assert summary.label is not None
    assert (summary.label.kind, summary.without_share) == ("number", ("cost",))


def test_several_numeric_labels_have_no_share() -> None:
    labels = np.column_stack([Y, -Y])
    found = fl.audit(Ridge(alpha=0.01).fit(X, labels), X, labels, attacks=False)
    assert found.summary.without_share == ("the label",)
    assert "No share is known of the label." in str(found.verdict)


def test_the_class_of_one_row_is_refused_for_a_fit_too() -> None:
    y = (np.arange(80) == 0) + 0.0
    fit = fl.minimise(X, y, loss="logistic", l2=0.05)
    with pytest.raises(fl.FisherleakError, match="a class that only 1 of the rows have"):
        fl.audit(fit, X, y, 1.0, policy=PUBLIC | {"membership": {"max_right": 0.9}}, attacks=False)


def test_declared_bounds_of_the_label_are_its_unit() -> None:
    bounds = {"a": (-4, 4), "b": (-4, 4), "label": (-100, 100)}
    leak = fl.measure(MODEL, X, Y)
    noise = fl.calibrate(leak, eta=5.0, over="any-record", bounds=bounds, label=True)
    policy = PUBLIC | {"rows": {"max_eta": 1e9}}
    rules = fl.audit(MODEL, X, Y, noise, policy={**policy, "require": {**policy["require"], "bounds": True}}).rules
    assert rules.value["require.bounds"]
    label = float(np.max(np.asarray(leak.with_noise(noise).per_label()))) * 200 / 12**0.5
    assert rules.value["rows.max_eta"] >= label


def test_a_policy_made_by_hand_is_checked_as_a_file_is() -> None:
    policy = Policy("p", "", {"rows": {"max_eta": True}, **PUBLIC})
    with pytest.raises(fl.InvalidInputError, match="max_eta"):
        fl.audit(MODEL, X, Y, 0.5, policy=policy, attacks=False)


def test_rules_are_checked_for_the_model_that_a_release_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One person's category has an indicator without a release, which takes up an unusual label; a release pools it."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=80).round(2)
    table = pandas.DataFrame({"x": x, "g": rng.choice(["a", "b"], 80), "y": (0.1 * x + rng.normal(size=80)).round(2)})
    unusual: Any = [0.2, "c", 14.0]
    table.loc[7] = unusual
    write_table_and_policy(table, "[columns.x]\nmax_revealed = 0.1\n[require]\nbounds = true\n")
    ends = ("--target", "y", "--bounds", "x=-5:5", "--bounds", "y=-20:20")
    plan = judged(capsys, *ends, "--noise", "0.75", "--held-out", "0", "--no-attacks", "--draws", "2")
    assert main(["release", "t.csv", *ends, "--noise", "0.75", "--out", "m.skops", "--quiet"]) == 0
    released = judged(capsys, "--released", "m.skops", "--no-attacks", "--draws", "2")
    assert plan[0] == released[0] == 1
    name = "columns.x.max_revealed"
    assert plan[2][name]["value"] == pytest.approx(released[2][name]["value"], rel=1e-6)


@pytest.mark.parametrize("differs", ["label", "column"])
def test_copies_that_differ_in_the_label_alone_are_noticed(differs: str) -> None:
    wide = RNG.normal(size=(60, 4))
    y = wide.sum(axis=1)
    copies, labels = np.concatenate([wide] * 3), np.concatenate([y] * 3)
    places = [(j,) for j in range(4)]
    moved = 0.3 * np.repeat([0.0, 1.0, 2.0], 60)
    note = near_copies_note(copies + (differs == "column") * moved[:, None] * np.eye(4)[0], labels, places)
    assert bool(note) or differs == "label"
    assert near_copies_note(copies, labels + moved, places)
    assert not near_copies_note(wide, y, places)


def test_many_pairs_of_columns_are_compared_one_sort_each(monkeypatch: pytest.MonkeyPatch) -> None:
    sorts, sort = [0], np.sort

    def counted(values: Any, *args: Any, **options: Any) -> Any:
        sorts[0] += 1
        return sort(values, *args, **options)

    monkeypatch.setattr(np, "sort", counted)
    wide = RNG.normal(size=(50, 30))
    assert not near_copies_note(wide, wide.sum(axis=1), [(j,) for j in range(30)])
    assert sorts[0] <= 31 + 31 * 30 // 2 + 31 + 10


def test_a_group_of_rows_without_a_number_is_one_group() -> None:
    ward = pandas.Series([1.0, 2.0, np.nan, np.nan] * 20, name="ward")
    policy = {"groups": {"max_ratio": 99.0}, "require": {"group": "ward", "public": "preprocessing"}}
    found = fl.audit(MODEL, X, Y, fl.Gaussian(2.0), group=ward, policy=policy, attacks=False)
    assert found.passed
    assert sorted(group.count for group in found.summary.groups) == [20, 20, 40]
