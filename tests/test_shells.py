"""Release, PrivateRelease, IRFIL and trim."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn import linear_model as lm
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import fisherleak as fl
from fisherleak.models.estimators import parameters
from realdata import image_features

X, Y = load_diabetes(return_X_y=True)
CANCER = load_breast_cancer()
EXACT = {"solver": "newton-cholesky", "tol": 1e-10, "max_iter": 1000}


# Release


@pytest.mark.parametrize(
    "model",
    [
        lm.Ridge().fit(X, Y),
        lm.LinearRegression(fit_intercept=False).fit(X, Y),
        lm.RidgeClassifier().fit(X, Y > 150),
        lm.LogisticRegression().fit(X, Y > 150),
        lm.PoissonRegressor().fit(X, Y),
        make_pipeline(StandardScaler(), lm.LogisticRegression()).fit(X, Y > 150),
    ],
)
def test_release_adds_this_noise_and_touches_nothing(model: Any) -> None:
    before = copy.deepcopy(model)
    noise = fl.Gaussian(0.3)
    released = fl.release(model, noise, random_state=5)
    inner = [m[-1] if hasattr(m, "steps") else m for m in (model, released, before)]
    theta, noisy, untouched = (parameters(m) for m in inner)
    np.testing.assert_allclose(noisy - theta, noise.draw(theta.size, 5), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(theta, untouched)
    assert inner[1].coef_.shape == inner[0].coef_.shape
    assert np.shape(inner[1].intercept_) == np.shape(inner[0].intercept_)
    assert released.predict(X).shape == model.predict(X).shape
    assert vars(inner[0]).keys() == vars(inner[2]).keys()


def test_seeds_repeat_and_the_operating_system_does_not() -> None:
    model = lm.Ridge().fit(X, Y)
    one, two = (fl.release(model, fl.Gaussian(1.0)).coef_ for _ in range(2))
    assert (one != two).all()
    one, two = (fl.release(model, fl.Gaussian(1.0), random_state=1).coef_ for _ in range(2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_released_model_keeps_nothing_of_the_original() -> None:
    for model in (
        lm.LinearRegression().fit(X, Y),
        lm.LogisticRegressionCV(Cs=3, cv=3).fit(X, Y > 150),
        lm.RidgeCV().fit(X, Y),
    ):
        released = fl.release(model, fl.Gaussian(0.1))
        fitted = {name for name in vars(released) if name.endswith("_")}
        assert fitted <= {"coef_", "intercept_", "classes_", "n_features_in_", "feature_names_in_"}
        pieces = {float(value) for value in np.ravel(model.coef_)}
        assert not pieces & _numbers(vars(released))
    search = GridSearchCV(lm.Ridge(), {"alpha": [1.0, 2.0]}).fit(X, Y)
    assert isinstance(fl.release(search, fl.Gaussian(0.1)), lm.Ridge)


def _numbers(values: dict[str, Any]) -> set[float]:
    found: set[float] = set()
    for value in values.values():
        if isinstance(value, dict):
            found |= _numbers(value)
        elif isinstance(value, (float, np.ndarray)) and np.asarray(value).dtype.kind == "f":
            found |= {float(x) for x in np.ravel(value)}
    return found


def test_a_fit_is_released_as_its_parameters_alone() -> None:
    fit = fl.minimise(X, Y, l2=1e-3, intercept=True)
    released = fl.release(fit, fl.Gaussian(2.0), random_state=3)
    assert isinstance(released, fl.Released)
    np.testing.assert_allclose(released.coef - fit.coef, fl.Gaussian(2.0).draw(11, 3)[:10], rtol=1e-9)
    assert released.intercept != fit.intercept
    assert fl.release(fl.minimise(X, Y), fl.Gaussian(2.0)).intercept is None


def test_what_cannot_be_released() -> None:
    with pytest.raises(fl.InvalidInputError, match="Ridge is not fitted yet: call fit first"):
        fl.release(lm.Ridge(), fl.Gaussian(1.0))
    with pytest.raises(fl.InvalidInputError, match="noise must be a noise"):
        fl.release(lm.Ridge().fit(X, Y), 0.1)  # type: ignore[arg-type]
    with pytest.raises(fl.UnsupportedModelError, match="got dict"):
        fl.release({}, fl.Gaussian(1.0))


# PrivateRelease


def test_private_release_keeps_its_limit_and_its_secret() -> None:
    model = fl.PrivateRelease(lm.Ridge(), eta=2.0).fit(X, Y)
    leak = fl.measure(lm.Ridge().fit(X, Y), X, Y, model.noise_)
    np.testing.assert_allclose(model.leakage_.eta, leak.per_example(), rtol=1e-12)
    assert model.leakage_.eta.max() <= 2.0
    assert model.leakage_.dataset == pytest.approx(leak.dataset())
    secret = {float(value) for value in lm.Ridge().fit(X, Y).coef_}
    assert not any(piece.hex() in str(pickle.dumps(model)) for piece in secret)
    assert not secret & _numbers(vars(model.estimator_))
    kept = fl.PrivateRelease(lm.Ridge(), eta=2.0, keep_unperturbed=True).fit(X, Y)
    np.testing.assert_array_equal(kept.unperturbed_.coef_, lm.Ridge().fit(X, Y).coef_)
    assert isinstance(kept.leakage_, fl.Leakage)


def test_private_release_does_not_carry_a_fitted_estimator_along() -> None:
    fitted = lm.Ridge().fit(X, Y)
    released = fl.PrivateRelease(fitted, eta=2.0).fit(X, Y)
    assert not hasattr(pickle.loads(pickle.dumps(released)).estimator, "coef_")  # noqa: S301 - our own
    kept = fl.PrivateRelease(lm.Ridge(), eta=2.0, keep_unperturbed=True).fit(X, Y)
    kept.set_params(keep_unperturbed=False).fit(X, Y)
    assert not hasattr(kept, "unperturbed_")
    assert "at most 2" in kept.leakage_.summary()


def test_steps_that_may_hold_another_model_are_not_released() -> None:
    model = make_pipeline(SelectFromModel(lm.LogisticRegression(), threshold=-1), lm.LogisticRegression()).fit(
        X, Y > 150
    )
    with pytest.raises(fl.UnsupportedModelError, match="SelectFromModel is not supported"):
        fl.release(model, fl.Gaussian(1.0))
    search = GridSearchCV(lm.LogisticRegression(), {"C": [1.0]})
    with pytest.raises(fl.UnsupportedModelError, match="GridSearchCV is not supported"):
        fl.release(make_pipeline(StandardScaler(), search).fit(X, Y > 150), fl.Gaussian(1.0))


def test_models_stopped_far_from_their_minimum_are_polished_where_the_data_are_known() -> None:
    data, target = CANCER.data, CANCER.target
    loose = lm.LogisticRegression(max_iter=20)
    with pytest.warns(ConvergenceWarning):
        released = fl.PrivateRelease(loose, eta=100.0, polish=True, keep_unperturbed=True, random_state=0).fit(
            data, target
        )
    assert released.unperturbed_.score(data, target) > 0.9
    theta = parameters(released.unperturbed_)
    np.testing.assert_allclose(theta, released.leakage_.fits[0].theta, rtol=1e-12)
    with pytest.warns(ConvergenceWarning), pytest.raises(fl.NotAtMinimumError, match="stopped at max_iter=20"):
        fl.PrivateRelease(loose, eta=100.0).fit(data, target)


def test_private_release_over_other_things() -> None:
    whole = fl.PrivateRelease(lm.Ridge(), eta=2.0, over="dataset").fit(X, Y)
    assert whole.leakage_.dataset <= 2.0
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=load_diabetes().feature_names)
    one = fl.PrivateRelease(make_pipeline(StandardScaler(), lm.Ridge()), eta=2.0, attributes=["bmi"]).fit(frame, Y)
    assert one.leakage_.eta.max() <= 2.0
    assert (
        one.noise_.scale
        < fl.PrivateRelease(make_pipeline(StandardScaler(), lm.Ridge()), eta=2.0).fit(frame, Y).noise_.scale
    )
    weights = np.arange(len(Y)) % 3 + 1.0
    weighted = fl.PrivateRelease(lm.Ridge(), eta=2.0).fit(X, Y, sample_weight=weights)
    expected = fl.measure(lm.Ridge().fit(X, Y, weights), X, Y, weighted.noise_, weights).per_example()
    np.testing.assert_allclose(weighted.leakage_.eta, expected, rtol=1e-12)


# IRFIL


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


def test_estimators_without_weights_are_refused() -> None:
    with pytest.raises(fl.UnsupportedModelError, match="takes no sample_weight"):
        fl.trim(lm.OrthogonalMatchingPursuit(), X, Y, 1.0, sample_weight=np.ones(len(Y)))


@pytest.mark.parametrize("wrap", [fl.IRFIL, fl.PrivateRelease])
def test_inside_searches_and_pipelines(wrap: Any) -> None:
    search = GridSearchCV(wrap(lm.Ridge()), {"estimator__alpha": [0.1, 1.0]}, cv=3).fit(X, Y)
    assert search.predict(X).shape == Y.shape
    outer = make_pipeline(StandardScaler(), wrap(lm.LogisticRegression(**EXACT))).fit(X, Y > 150)
    assert outer.predict_proba(X).shape == (len(Y), 2)
    assert not hasattr(wrap(lm.Ridge()), "predict_proba")
    weights = np.arange(len(Y)) % 2 + 0.5
    wrap(lm.Ridge()).fit(X, Y, sample_weight=weights)
    clone(wrap(lm.Ridge(alpha=3.0)))


def test_progress_is_shown_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fl.IRFIL(lm.Ridge(), n_iter=2).fit(X, Y)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    fl.IRFIL(lm.Ridge(), n_iter=2).fit(X, Y)
    assert "Reweighting" in capsys.readouterr().err


WEIGHTED = ["check_sample_weight_equivalence_on_dense_data"]
if sklearn.__version__.startswith("1.6."):
    WEIGHTED.append("check_sample_weight_equivalence_on_sparse_data")  # runs on dense data too there
WEIGHTS_ARE_NOT_COPIES = dict.fromkeys(WEIGHTED, "a row of weight two is one row to protect, two rows are two")


@parametrize_with_checks(
    [
        fl.IRFIL(lm.Ridge(), n_iter=2),
        fl.IRFIL(lm.LogisticRegression(**EXACT), n_iter=2),
        fl.PrivateRelease(lm.Ridge(), eta=100.0),
        fl.PrivateRelease(lm.LogisticRegression(**EXACT), eta=100.0),
    ],
    expected_failed_checks=lambda estimator: WEIGHTS_ARE_NOT_COPIES,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::fisherleak.NearSingularWarning")
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# Trimming


def test_trim_says_what_it_did_to_the_others() -> None:
    eta = fl.measure(lm.Ridge().fit(X, Y), X, Y).per_example()
    limit = float(np.quantile(eta, 0.9))
    result = fl.trim(lm.Ridge(), X, Y, max_eta=limit)
    np.testing.assert_array_equal(result.kept, eta <= limit)
    after = fl.measure(lm.Ridge().fit(X[result.kept], Y[result.kept]), X[result.kept], Y[result.kept]).per_example()
    np.testing.assert_allclose(result.after, after)
    text = result.summary()
    assert f"Dropped {(eta > limit).sum()} of {len(Y)} rows" in text
    assert f"{(after > eta[result.kept]).sum()} are more exposed than before" in text
    assert result.above == (after > limit).sum()
    with pytest.raises(fl.InvalidInputError, match="none would stay"):
        fl.trim(lm.Ridge(), X, Y, max_eta=1e-9)


def test_trim_keeps_tables_tables() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=load_diabetes().feature_names)
    weights = np.ones(len(Y))
    model = make_pipeline(StandardScaler(), lm.Ridge())
    limit = float(np.quantile(fl.measure(clone(model).fit(frame, Y), frame, Y).per_example(), 0.8))
    result = fl.trim(model, frame, Y, limit, sample_weight=weights)
    assert list(result.estimator.feature_names_in_) == list(frame.columns)


# The paper's Table 1 after reweighting


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


def test_acceleration_on_mnist(data_folder: Path) -> None:
    features, y, _, _ = image_features("mnist", data_folder)
    model = fl.IRFIL(lm.LinearRegression(fit_intercept=False), n_iter=12, accelerate=True)
    model.fit(features, 2 * y - 1)
    assert (model.history_["sd"] / model.history_["mean"])[12] < 1e-7
