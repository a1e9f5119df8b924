"""Encoders, imputers and models that would pass a policy in Python, and a limit that a solver's last step would break."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import fisherleak as fl
from fisherleak.leakage.measurement import measurement

REQUIRED = {"public": "preprocessing"}


@pytest.fixture(scope="module")
def doses() -> tuple[pandas.DataFrame, Any]:
    """Doses of forty sizes, in grams."""
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"dose": rng.integers(1, 41, 240) * 0.001, "age": rng.normal(50, 10, 240)})
    return X, X["dose"] * 800 + 0.1 * X["age"] + rng.normal(size=240)


def coded(X: Any, y: Any, *before: Any) -> Any:
    steps = make_column_transformer((make_pipeline(*before, OrdinalEncoder()), ["dose"]), remainder="passthrough")
    return make_pipeline(steps, Ridge(1.0)).fit(X, y)


@pytest.mark.parametrize("before", [(), (SimpleImputer(strategy="most_frequent"),)])
def test_a_number_behind_codes_has_no_share_in_its_own_unit(doses: Any, before: Any) -> None:
    X, y = doses
    leak = fl.measure(coded(X, y, *before), X, y, fl.Gaussian(0.5))
    assert np.isnan(leak.revealed("dose")).all()
    assert np.isfinite(leak.revealed("age")).all()
    with pytest.raises(fl.InvalidInputError, match="'dose', which is encoded by codes and has no spread"):
        leak.revealed("dose", spread={"dose": 0.01})


def test_no_rule_about_numbers_passes_for_codes(doses: Any) -> None:
    X, y = doses
    policy = {"columns": {"dose": {"min_error": 0.0001}}, "require": REQUIRED}
    try:
        passed = fl.audit(coded(X, y), X, y, 0.5, policy=policy, attacks=False).passed
    except fl.InvalidInputError:
        return  # refused by name
    assert not passed


@pytest.mark.parametrize(
    "encoder",
    [
        {"min_frequency": 40, "handle_unknown": "infrequent_if_exist"},
        {"min_frequency": 40 / 240, "handle_unknown": "infrequent_if_exist"},
        {"max_categories": 3, "handle_unknown": "infrequent_if_exist"},
    ],
)
def test_the_edge_of_an_encoder_that_one_row_decides(encoder: Any) -> None:
    rng = np.random.default_rng(1)
    town = np.repeat(["a", "b", "c", "d"], [120, 40, 39, 41])
    X = pandas.DataFrame({"town": town, "age": rng.normal(size=240)})
    y = (X["age"] + rng.normal(size=240)).rename("y")
    steps = make_column_transformer((OneHotEncoder(**encoder), ["town"]), remainder="passthrough")
    policy = {"membership": {"max_right": 0.6}, "columns": {"age": {"max_revealed": 0.9}}, "require": REQUIRED}
    with pytest.raises(fl.UnsupportedModelError, match="one row or person decides whether a category is rare"):
        fl.audit(make_pipeline(steps, Ridge(1.0)).fit(X, y), X, y, 2.0, policy=policy, attacks=False)
    far = make_column_transformer((OneHotEncoder(min_frequency=20), ["town"]), remainder="passthrough")
    assert fl.audit(make_pipeline(far, Ridge(1.0)).fit(X, y), X, y, 50.0, policy=policy, attacks=False).passed


def test_one_model_for_each_class_away_from_its_minimum() -> None:
    rng = np.random.default_rng(2)
    X = pandas.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "c"])
    y = np.where(X["a"] + rng.normal(size=200) > 0, "yes", "no")
    model = OneVsRestClassifier(LogisticRegression(tol=1e-3)).fit(X, y)
    policy = {"columns": {"a": {"max_revealed": 0.9}}, "require": REQUIRED}
    assert fl.audit(model, X, y, 1.0, policy=policy, attacks=False).passed
    with pytest.raises(fl.InvalidInputError, match="noise deviations from its minimum"):
        fl.audit(model, X, y, 1e-4, policy=policy, attacks=False)


def test_gaps_filled_with_a_mean_of_other_rows() -> None:
    rng = np.random.default_rng(3)
    X = pandas.DataFrame({"income": rng.normal(30, 5, 200), "age": rng.normal(size=200)})
    X.loc[:11, "income"] = np.nan
    y = (X["age"] + rng.normal(size=200)).rename("y")
    model = make_pipeline(SimpleImputer(), Ridge(1.0)).fit(X, y)
    policy = {"columns": {"age": {"max_revealed": 0.9}}, "require": REQUIRED}
    fl.audit(model, X, y, 2.0, policy=policy, attacks=False)
    other = SimpleImputer().fit(X.assign(income=-1000.0))
    moved = make_pipeline(other, Ridge(1.0))
    moved.steps[-1][1].fit(other.transform(X), y)
    with pytest.raises(fl.InvalidInputError, match="SimpleImputer that was fitted on other rows"):
        fl.audit(moved, X, y, 2.0, policy=policy, attacks=False)


def test_refusals_show_no_cell() -> None:
    rng = np.random.default_rng(4)
    X = pandas.DataFrame({"town": np.repeat(["a", "b"], 50), "age": rng.normal(size=100)})
    y = np.repeat(["yes", "no"], 50)
    steps = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    model = make_pipeline(steps, LogisticRegression()).fit(X, y)
    with pytest.raises(fl.InvalidInputError, match="holds values that this step does not take") as refused:
        fl.measure(model, X.assign(town=X["town"].where(X["age"] > -2, "Secretville")), y)
    assert "Secretville" not in str(refused.value)
    with pytest.raises(fl.InvalidInputError, match="row 5 that is none of the model's classes") as refused:
        fl.measure(model, X, np.where(np.arange(100) == 5, "secret", y))
    assert "secret" not in str(refused.value)


def test_a_limit_for_any_record_is_kept_at_the_minimum() -> None:
    """A solver that stops early leaves parameters that follow single values in jumps; the release is at the minimum."""
    rng = np.random.default_rng(5)
    X = pandas.DataFrame({"age": rng.uniform(size=400)})
    y = (X["age"] + rng.normal(size=400) > 0.5).astype(int)
    early, exact = (
        fl.PrivateRelease(LogisticRegression(tol=tol), eta=2.0, bounds={"age": (0, 1)}, penalty="own", random_state=0)
        for tol in (0.1, 1e-12)
    )
    with pytest.warns(fl.SeededReleaseWarning):
        found = [release.fit(X, y).estimator_ for release in (early, exact)]
    np.testing.assert_array_equal(found[0].coef_, found[1].coef_)


@pytest.mark.parametrize("public", ["preprocessing", "nothing"])
@pytest.mark.parametrize("shape", [None, "hessian"])
def test_noise_for_any_record_needs_a_model_at_its_minimum(public: str, shape: Any) -> None:
    """``fl.release`` adds noise to parameters as given: what a solver left is refused where the noise does not hide it."""
    rng = np.random.default_rng(6)
    X = pandas.DataFrame({"age": rng.uniform(0, 100, size=600)})
    y = (X["age"] / 100 + rng.normal(size=600) > 0.5).astype(int)
    bounds = {"age": (0, 100)}
    options: Any = {"over": "any-record", "bounds": bounds, "shape": shape, "random_state": 0}
    early, exact = (
        make_pipeline(StandardScaler(), LogisticRegression(tol=tol, solver="lbfgs")).fit(X, y) for tol in (1e-3, 1e-10)
    )
    leak = fl.measure(early, X, y, public=public)
    fl.calibrate(fl.measure(exact, X, y, public=public), 1e4, **options)
    with pytest.raises(fl.InvalidInputError, match="noise deviations away") as refused:
        fl.calibrate(leak, 1e4, **options)
    assert "fit with a smaller tol, 1e-10 say" in str(refused.value)
    noise = fl.calibrate(leak, 0.05, **options)  # hidden by more noise
    away = measurement(leak.with_noise(noise)).moved
    assert 0.0 < away <= 0.05
    if public == "preprocessing" and shape is None:
        given, least = (np.append(model[-1].coef_, model[-1].intercept_) for model in (early, exact))
        assert away == pytest.approx(np.linalg.norm(given - least) / noise.scale, rel=1e-3)
