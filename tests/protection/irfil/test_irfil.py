"""IRFIL and the reweighting behind it: equal rows, within limits, as in the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import linear_model as lm
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from realdata import image_features

X, Y = load_diabetes(return_X_y=True)
EXACT = {"solver": "newton-cholesky", "tol": 1e-10, "max_iter": 1000}


def plain_irfil(X: Any, y: Any, steps: int) -> list[Any]:
    """Algorithm 1 of the paper, written out with ``minimise`` and ``measure``."""
    n = len(y)
    weights, etas = np.ones(n), []
    for _ in range(steps + 1):
        fit = fl.minimise(X, y, "squared", 0.5 / n, weights, True)
        etas.append(np.asarray(fl.measure(fit, X, y).per_example()))
        weights = n * (weights / etas[-1]) / (weights / etas[-1]).sum()
    return etas


def test_it_is_algorithm_1() -> None:
    model = fl.IRFIL(lm.Ridge(alpha=0.5), n_iter=4).fit(X, Y)
    etas = plain_irfil(X, Y, 4)
    np.testing.assert_allclose(model.history_["mean"], [eta.mean() for eta in etas], rtol=1e-9)
    np.testing.assert_allclose(model.history_["sd"], [eta.std(ddof=1) for eta in etas], rtol=1e-7)
    assert model.weights_.sum() == pytest.approx(len(Y))
    reference = lm.Ridge(alpha=0.5).fit(X, Y, sample_weight=model.weights_)
    np.testing.assert_allclose(model.estimator_.coef_, reference.coef_)
    np.testing.assert_allclose(model.history_["score"][0], lm.Ridge(alpha=0.5).fit(X, Y).score(X, Y), rtol=1e-9)
    np.testing.assert_allclose(model.history_["score"][-1], model.score(X, Y), rtol=1e-6)
    last = fl.measure(model.estimator_, X, Y, sample_weight=model.weights_).per_example()
    np.testing.assert_allclose(
        [last.mean(), last.max()], [model.history_["mean"][-1], model.history_["max"][-1]], rtol=1e-6
    )


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize(
    ("estimator", "y"),
    [
        (lm.Ridge(alpha=0.1), Y),
        (lm.LogisticRegression(C=1.0, **EXACT), Y > 150),
        (lm.LogisticRegression(C=1.0, class_weight={False: 1.0, True: 3.0}, **EXACT), Y > 150),
        (lm.PoissonRegressor(alpha=1e-2, **EXACT), Y),
        (make_pipeline(StandardScaler(), lm.RidgeClassifier(alpha=5.0)), Y > 150),
    ],
)
def test_etas_become_equal(estimator: Any, y: Any, accelerate: bool) -> None:
    model = fl.IRFIL(estimator, n_iter=40, tol=1e-3, accelerate=accelerate).fit(X, y)
    spread = model.history_["sd"] / model.history_["mean"]
    assert spread[-1] <= 1e-3 < spread[0]
    assert len(spread) < 41  # it stopped early


def wide(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(10, 30))
    return rows, rows[:, :3].sum(axis=1) + rng.normal(size=10)


@pytest.mark.parametrize("seed", range(8))
def test_acceleration_is_never_worse_than_the_plain_iteration(seed: int) -> None:
    """Ten rows and thirty columns: mixed steps that lead away are not taken."""
    rows, y = wide(seed)
    plain = fl.IRFIL(lm.Ridge(alpha=0.1), n_iter=15).fit(rows, y).history_
    model = fl.IRFIL(lm.Ridge(alpha=0.1), n_iter=15, accelerate=True).fit(rows, y)
    assert np.isfinite(model.weights_).all()
    assert model.weights_.min() > 0
    assert model.weights_.mean() == pytest.approx(1.0)
    spread, reference = model.history_["sd"] / model.history_["mean"], plain["sd"] / plain["mean"]
    assert len(spread) == len(reference) == 16
    assert (spread <= reference * (1 + 1e-9)).all()
    assert spread[-1] < spread[0]


def test_groups_are_accelerated_by_their_own_spread() -> None:
    groups = np.where(X[:, 1] > 0, "a", "b")
    model = fl.IRFIL(lm.Ridge(alpha=0.1), n_iter=8, weighting="group", accelerate=True).fit(X, Y, groups=groups)
    eta = fl.measure(model.estimator_, X, Y, sample_weight=model.weights_).per_example()
    assert eta[groups == "a"].mean() == pytest.approx(eta[groups == "b"].mean(), rel=1e-6)


def test_a_spread_that_stays_above_tol_is_reported() -> None:
    with pytest.warns(ConvergenceWarning, match=r"spread of eta is .* after 2 reweightings, above tol=1e-06"):
        fl.IRFIL(lm.Ridge(alpha=0.1), n_iter=2, tol=1e-6).fit(X, Y)
    even = fl.IRFIL(lm.Ridge(alpha=0.1), n_iter=20).fit(X, Y).weights_
    limited = fl.IRFIL(lm.Ridge(alpha=0.1), n_iter=1, min_weight=0.99, max_weight=1.01)
    with pytest.warns(ConvergenceWarning, match=r"after 1 reweightings, not below the .* of the plain fit"):
        limited.fit(X, Y, sample_weight=even)


def test_attributes_and_starting_weights() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=load_diabetes().feature_names)
    model = fl.IRFIL(lm.Ridge(alpha=0.1), n_iter=30, attributes=["bmi"], accelerate=True).fit(frame, Y)
    leak = fl.measure(model.estimator_, frame, Y, sample_weight=model.weights_)
    eta = leak.per_example(["bmi"])
    assert eta.std() < 1e-3 * eta.mean()
    assert leak.per_example().std() > 1e-2 * leak.per_example().mean()
    start = np.where(np.arange(len(Y)) < 10, 0.0, 2.0)
    model = fl.IRFIL(lm.Ridge(alpha=0.1), n_iter=3).fit(X, Y, sample_weight=start)
    assert (model.weights_[:10] == 0).all()
    assert model.weights_[10:].mean() == pytest.approx(2.0)


@pytest.mark.long
def test_groups_and_hybrids() -> None:
    groups = np.where(X[:, 1] > 0, "a", "b")
    eta = {}
    for weighting in ("group", "hybrid", "example"):
        options = {} if weighting == "example" else {"groups": groups}
        model = fl.IRFIL(lm.Ridge(alpha=0.1), n_iter=60, weighting=weighting).fit(X, Y, **options)
        values = fl.measure(model.estimator_, X, Y, sample_weight=model.weights_).per_example()
        eta[weighting] = [values[groups == g] for g in "ab"]
    means = [part.mean() for part in eta["group"]]
    assert means[0] == pytest.approx(means[1], rel=1e-3)
    assert eta["group"][0].std() > 0.1 * means[0]
    assert np.concatenate(eta["hybrid"]).std() < 1e-2 * np.concatenate(eta["hybrid"]).mean()
    # classes are the groups of a classifier
    fl.IRFIL(lm.LogisticRegression(**EXACT), n_iter=2, weighting="group").fit(X, Y > 150)
    with pytest.raises(fl.InvalidInputError, match="weighting='group' needs groups"):
        fl.IRFIL(lm.Ridge(), weighting="group").fit(X, Y)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": X[:, 2], "side": groups == "a"}).astype(float)
    fl.IRFIL(lm.Ridge(), n_iter=1, weighting="group").fit(frame, Y, groups="side")


@pytest.mark.long
def test_models_that_tune_themselves_keep_their_choice() -> None:
    for model in (lm.RidgeCV([0.01, 1.0, 100.0]), GridSearchCV(lm.Ridge(), {"alpha": [0.01, 1.0, 100.0]}, cv=3)):
        balanced = fl.IRFIL(model, n_iter=20, accelerate=True).fit(X, Y)
        eta = fl.measure(balanced.estimator_, X, Y, sample_weight=balanced.weights_).per_example()
        np.testing.assert_allclose(
            [eta.mean(), eta.max()], [balanced.history_[k][-1] for k in ("mean", "max")], rtol=1e-6
        )


def test_a_row_that_reveals_nothing_keeps_its_weight() -> None:
    rows, y = X.copy(), Y.copy()
    rows[0], y[0] = 0.0, 0.0
    model = fl.IRFIL(lm.Ridge(alpha=0.1, fit_intercept=False), n_iter=15).fit(rows, y)
    assert model.weights_.min() > 1e-3
    assert model.score(rows, y) > lm.Ridge(alpha=0.1, fit_intercept=False).fit(rows, y).score(rows, y) - 1.0


def test_limits_are_in_units_of_the_rows_that_count() -> None:
    start = np.where(np.arange(len(Y)) % 2 == 0, 0.0, 1.0)
    model = fl.IRFIL(lm.Ridge(alpha=0.1), n_iter=5, max_weight=1.5).fit(X, Y, sample_weight=start)
    counted = model.weights_[start > 0]
    assert counted.mean() == pytest.approx(1.0)
    assert counted.max() <= 1.5 + 1e-9
    assert counted.std() > 0.05


def test_weights_stay_within_limits() -> None:
    model = fl.IRFIL(lm.Ridge(alpha=0.1), n_iter=10, min_weight=0.5, max_weight=1.5).fit(X, Y)
    assert model.weights_.min() >= 0.5 - 1e-12
    assert model.weights_.max() <= 1.5 + 1e-12
    assert model.weights_.mean() == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weighting": "class"}, "weighting must be one of example, group, hybrid; got 'class'"),
        ({"n_iter": -1}, "n_iter must be a whole number, zero or more; got -1"),
        ({"n_iter": 1.5}, "n_iter must be a whole number"),
        ({"tol": -1.0}, "tol must be a finite number, zero or more"),
        ({"min_weight": 2.0}, "must enclose 1; got 2 and inf"),
        ({"max_weight": 0.5}, "must enclose 1"),
        ({"attributes": ["nose"]}, "There is no attribute 'nose'"),
    ],
)
def test_irfil_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(fl.InvalidInputError, match=message):
        fl.IRFIL(lm.Ridge(), **options).fit(X, Y)


def test_loose_estimators_are_reported() -> None:
    with pytest.warns(fl.LooseFitWarning, match="estimator_ stopped at a distance"):
        fl.IRFIL(lm.LogisticRegression(tol=0.02), n_iter=2).fit(X * 20, Y > 150)


def test_balanced_classes_would_undo_the_weights() -> None:
    with pytest.raises(fl.UnsupportedModelError, match="Pass class_weight as a dict"):
        fl.IRFIL(lm.LogisticRegression(class_weight="balanced")).fit(X, Y > 150)


def test_progress_is_shown_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fl.IRFIL(lm.Ridge(), n_iter=2).fit(X, Y)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    fl.IRFIL(lm.Ridge(), n_iter=2).fit(X, Y)
    assert "Reweighting" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "loss", "l2", "eta"),
    [
        ("mnist", "linear", 0.0, 0.0470),
        ("mnist", "logistic", 8e-4, 0.0238),
        ("cifar10", "linear", 0.0, 0.2963),
        ("cifar10", "logistic", 8e-5, 0.2494),
    ],
)
def test_table_1_after_reweighting(data_folder: Path, name: str, loss: str, l2: float, eta: float) -> None:
    features, y, held_out, labels = image_features(name, data_folder)
    if loss == "linear":
        model: Any = fl.IRFIL(lm.LinearRegression(fit_intercept=False)).fit(features, 2 * y - 1)
        accuracy = np.mean((model.predict(held_out) > 0) == labels)
    else:
        inner = lm.LogisticRegression(C=1 / (len(y) * l2), fit_intercept=False, **EXACT)
        model = fl.IRFIL(inner).fit(features, y)
        accuracy = model.score(held_out, labels)
    published = {"mnist linear": 99.8, "mnist logistic": 99.7, "cifar10 linear": 80.6, "cifar10 logistic": 79.1}
    assert len(model.history_["mean"]) == 16
    assert round(model.history_["mean"][-1], 4) == eta
    assert model.history_["sd"][-1] < 1e-4
    assert 100 * accuracy == pytest.approx(published[f"{name} {loss}"], abs=0.0501)


@pytest.mark.long
def test_acceleration_on_mnist(data_folder: Path) -> None:
    features, y, _, _ = image_features("mnist", data_folder)
    model = fl.IRFIL(lm.LinearRegression(fit_intercept=False), n_iter=12, accelerate=True)
    model.fit(features, 2 * y - 1)
    assert (model.history_["sd"] / model.history_["mean"])[12] < 1e-7
