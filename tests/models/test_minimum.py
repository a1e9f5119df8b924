"""A model is measured at its minimum, by whichever solver it was fitted, and only on data that can be its own."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import linear_model as lm
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fisherleak as fl
from fisherleak.models.minimum import promised_gradient

SOLVERS = ["lbfgs", "newton-cg", "newton-cholesky", "liblinear", "sag", "saga"]
EXACT = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 10_000}


def rare_group(n: int = 2000, size: int = 4) -> tuple[Any, Any]:
    """Two columns that matter, and a column that marks a few rows whose labels are all equal."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(n, 2)), np.arange(n) < size])
    y = (rng.random(n) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    y[:size] = 1
    return X, y


def test_a_rare_group_of_a_loose_fit_has_the_eta_of_the_exact_one() -> None:
    X, y = rare_group()
    loose = lm.LogisticRegression(C=1e6).fit(X, y)
    exact = fl.minimise(X, y, "logistic", 1e-6 / len(y), intercept=True)
    expected = fl.measure(exact, X, y).per_example()
    assert expected.max() > 70_000
    with pytest.warns(fl.LooseFitWarning, match=r"from 7\.39e\+04 at the minimum to 1\.09e\+03 as given"):
        leak = fl.measure(loose, X, y)
    np.testing.assert_allclose(leak.per_example(), expected, rtol=1e-6)
    assert "moved to its minimum" in leak.summary()
    with pytest.warns(fl.LooseFitWarning, match=r"these etas are off by up to a factor of \d\d"):
        given = fl.measure(loose, X, y, polish=False)
    assert given.per_example().max() < 2_000


def test_the_effect_on_eta_is_told_where_the_distance_says_nothing() -> None:
    """The same distance from the minimum, with and without an effect on eta: only the one with an effect warns."""
    X, y = rare_group()
    for C, warned in ((1e6, True), (1e2, False)):
        model = lm.LogisticRegression(C=C).fit(X, y)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fl.measure(model, X, y)
        assert [w.category for w in caught] == [fl.LooseFitWarning] * warned


def test_calibration_counts_what_is_left_and_not_what_was_bridged() -> None:
    X, y = rare_group()
    leak = fl.measure(lm.LogisticRegression(C=1e2).fit(X, y), X, y)
    fit = leak.fits[0]
    assert fit.left is not None
    assert fit.left < 1e-9 < 1e-6 < fit.distance
    exact = fl.measure(fl.minimise(X, y, "logistic", 1e-2 / len(y), intercept=True), X, y)
    assert fl.calibrate(leak, 1.0).scale == pytest.approx(fl.calibrate(exact, 1.0).scale, rel=1e-7)


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cg", "newton-cholesky", "sag", "saga"])
@pytest.mark.parametrize("polish", [None, True, False])
def test_a_group_with_one_label_is_refused_by_name_for_every_solver(solver: str, polish: bool | None) -> None:
    pandas = pytest.importorskip("pandas")
    X, y = rare_group(600, 20)
    frame = pandas.DataFrame(X, columns=["age", "dose", "ward"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = lm.LogisticRegression(C=np.inf, solver=solver, random_state=0).fit(frame, y)
    with pytest.raises(fl.NotConvergedError, match="'ward'"):
        fl.measure(model, frame, y, polish=polish)


def test_liblinear_penalises_always_and_so_has_a_minimum_however_far() -> None:
    X, y = rare_group(600, 20)
    model = lm.LogisticRegression(C=1e8, solver="liblinear").fit(X, y)
    with pytest.warns(fl.LooseFitWarning, match="as given"):
        leak = fl.measure(model, X, y)
    assert leak.fits[0].gradient <= 1e-10
    assert leak.per_example().max() > 1e6


def test_a_group_that_ran_off_so_far_that_nothing_is_left_of_it_is_refused_by_name_too() -> None:
    X, y = rare_group(600, 20)
    model = lm.LogisticRegression(C=np.inf, **EXACT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    model.coef_[0, 2] = 800.0
    with pytest.raises(fl.NotConvergedError, match="'x2'"):
        fl.measure(model, X, y)


def test_the_level_that_an_encoder_dropped_is_found() -> None:
    """The labels of the level that has no column of its own are all equal: every other level's column says so."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"age": rng.normal(size=300), "city": rng.choice(["Aix", "Bonn", "Cork"], 300)})
    y = np.where(frame["city"] == "Aix", 1, rng.integers(0, 2, 300))
    encode = make_column_transformer((OneHotEncoder(drop="first"), ["city"]), remainder="passthrough")
    model = make_pipeline(encode, lm.LogisticRegression(C=np.inf)).fit(frame, y)
    with pytest.raises(fl.SeparableClassesError, match=r"\(city\)"):
        fl.measure(model, frame, y)


def problem(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=(n, 3)), rng.random((n, 8)) < np.linspace(0.002, 0.2, 8)])
    return X, (rng.random(n) < 1 / (1 + np.exp(-X @ np.linspace(-1, 1, 11)))).astype(int)


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cg", "newton-cholesky"])
@pytest.mark.parametrize("kind", [lm.LogisticRegression, lm.PoissonRegressor, lm.GammaRegressor, lm.TweedieRegressor])
def test_solvers_keep_their_promise_on_their_own_data_alone(kind: Any, solver: str) -> None:
    """What a solver promises at its end holds on its own data, and is what other data break first."""
    X, y = problem(4000)
    if kind is not lm.LogisticRegression:
        if solver == "newton-cg":
            solver = "lbfgs"
        y = y + np.random.default_rng(2).gamma(2.0, 1.0, len(y))
    model = kind(solver=solver, max_iter=1000).fit(X, y)
    assert promised_gradient(model) == 1e-4
    fl.measure(model, X, y)
    weights = np.random.default_rng(3).choice([0.5, 1.5], len(y))
    for rows, labels, given in ((X[:-40], y[:-40], None), (X, y[::-1], None), (X, y, weights)):
        with pytest.raises(fl.NotAtMinimumError, match=r"mean gradient .* tol=0\.0001"):
            fl.measure(model, rows, labels, sample_weight=given)


def test_weights_of_classes_and_examples_count_in_the_promise() -> None:
    X, y = problem(1500)
    weights = np.random.default_rng(0).gamma(2.0, 30.0, len(y))
    model = lm.LogisticRegression(class_weight={0: 9.0, 1: 0.5}).fit(X, y, sample_weight=weights)
    with pytest.warns(fl.LooseFitWarning, match="moved there"):
        fl.measure(model, X, y, sample_weight=weights)
    with pytest.raises(fl.NotAtMinimumError):
        fl.measure(model, X, y)


def test_a_promise_that_any_data_keep_proves_nothing() -> None:
    """With a tolerance as wide as the chance of the draw, another sample would pass: the distance decides."""
    X, y = problem(2000)
    model = lm.LogisticRegression(tol=0.05).fit(X, y)
    with pytest.raises(fl.NotAtMinimumError, match="fit with a smaller tol"):
        fl.measure(model, X, y)


def test_polish_says_what_is_measured() -> None:
    X, y = problem(3000)
    model = lm.LogisticRegression(solver="newton-cg").fit(X, y)
    exact = fl.measure(lm.LogisticRegression(**EXACT).fit(X, y), X, y).per_example()
    for polish in (None, True):
        leak = fl.measure(model, X, y, polish=polish)
        np.testing.assert_allclose(leak.per_example(), exact, rtol=1e-8)
        np.testing.assert_array_equal(fl.measure(model, X, y, polish=polish).fits[0].coef, leak.fits[0].coef)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fl.LooseFitWarning)
        given = fl.measure(model, X, y, polish=False)
    np.testing.assert_array_equal(given.fits[0].coef, model.coef_[0])
    direct = lm.Ridge().fit(X, y)
    np.testing.assert_array_equal(fl.measure(direct, X, y).fits[0].coef, direct.coef_)


def test_a_released_model_keeps_its_own_parameters() -> None:
    X, y = problem(3000)
    model = lm.LogisticRegression().fit(X, y)
    before = model.coef_.copy()
    leak = fl.measure(model, X, y)
    np.testing.assert_array_equal(model.coef_, before)
    assert not np.array_equal(leak.fits[0].coef, before[0])


def test_private_releases_count_the_etas_of_the_minimum() -> None:
    X, y = rare_group()
    loose = lm.LogisticRegression(C=1e6)
    expected = fl.measure(fl.minimise(X, y, "logistic", 1e-6 / len(y), intercept=True), X, y).per_example().max()
    with pytest.warns(fl.LooseFitWarning):
        released = fl.PrivateRelease(loose, over="max", eta=1.0, random_state=0).fit(X, y)
    assert released.noise_.scale == pytest.approx(expected, rel=1e-2)


@pytest.mark.long
def test_ordinary_models_of_adult_are_measured_and_others_data_refused(data_folder: Path) -> None:
    adult = fl.datasets.load_adult(data_home=data_folder)
    X, y = adult.X, np.asarray(adult.y)
    numbers = [name for name in X.columns if X[name].dtype.kind == "i"]
    rest = [name for name in X.columns if name not in numbers]
    encode = make_column_transformer(
        (StandardScaler(), numbers), (OneHotEncoder(drop="first", sparse_output=False), rest)
    )
    plain = make_pipeline(encode, lm.LogisticRegression())
    model = clone(plain).fit(X, y)
    exact = make_pipeline(encode, lm.LogisticRegression(**EXACT)).fit(X, y)
    leak = fl.measure(model, X, y)
    assert "moved to its minimum; etas as given differ by up to" in leak.summary()
    np.testing.assert_allclose(leak.per_example(), fl.measure(exact, X, y).per_example(), rtol=1e-6)
    for rows in (slice(300, None), np.random.default_rng(0).choice(len(y), len(y))):
        with pytest.raises(fl.NotAtMinimumError, match="mean gradient"):
            fl.measure(model, X.iloc[rows].reset_index(drop=True), y[rows])


@pytest.mark.long
def test_ordinary_models_of_two_classes_of_doses_are_measured(data_folder: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(data_folder / "iwpc" / "iwpc-scaled.csv")
    dose = frame.pop("dose").to_numpy()
    y = (dose > np.median(dose)).astype(int)
    numbers = ["age", "height", "weight"]
    rest = [name for name in frame.columns if name not in numbers]
    encode = make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(drop="first"), rest))
    exact = fl.measure(make_pipeline(encode, lm.LogisticRegression(**EXACT)).fit(frame, y), frame, y).per_example()
    for solver in SOLVERS[:3]:
        model = make_pipeline(encode, lm.LogisticRegression(solver=solver)).fit(frame, y)
        np.testing.assert_allclose(fl.measure(model, frame, y).per_example(), exact, rtol=1e-6)
        wrong = y.copy()
        wrong[:10] = 1 - wrong[:10]
        with pytest.raises(fl.NotAtMinimumError):
            fl.measure(model, frame, wrong)


@pytest.mark.parametrize("kind", ["minimised", "ridge", "several numbers", "behind a scaler", "poisson"])
@pytest.mark.parametrize("level", [1.7, 1e9 / 3])
def test_labels_that_are_all_the_same_are_fitted_to_rounding(kind: str, level: float) -> None:
    """The rounding of one common level is no distance from the minimum, and one label that differs is."""
    X = 4.0 + np.random.default_rng(0).normal(size=(500, 2))
    y: Any = np.full(500, level)
    if kind == "several numbers":
        y = np.column_stack([y, y + 1.3])
    makers: dict[str, Any] = {
        "minimised": lambda: fl.minimise(X, y, "squared", 1.0, intercept=True),
        "poisson": lambda: fl.minimise(X, y, "poisson", 1.0, intercept=True),
        "behind a scaler": lambda: make_pipeline(StandardScaler(), lm.Ridge(1.0)).fit(X, y),
    }
    model = makers.get(kind, lambda: lm.Ridge(1.0).fit(X, y))()
    assert fl.measure(model, X, y).fits[0].distance <= 1e-6
    y[7] *= 1.001
    with pytest.raises(fl.InvalidInputError, match=r"not at a|not at the minimum"):
        fl.measure(model, X, y)
