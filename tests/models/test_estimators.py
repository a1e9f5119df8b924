"""Every translation of a scikit-learn model, held against scikit-learn's own refits of perturbed data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import linear_model as lm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

import fisherleak as fl
from fisherleak.models.estimators import RECIPES
from fisherleak.models.several import all_parameters as parameters
from often import often

RNG = np.random.default_rng(0)
N, D = 40, 3
X = RNG.normal(size=(N, D)) + 0.5
Z = X @ [0.6, -0.4, 0.2]
WEIGHTS = RNG.gamma(2.0, 0.5, N)
TARGETS = {
    "real": Z + 0.5 * RNG.normal(size=N),
    "binary": np.where(RNG.random(N) < 1 / (1 + np.exp(-Z)), "yes", "no"),
    "count": RNG.poisson(np.exp(Z)) + 1.0,
    "positive": RNG.gamma(2.0, np.exp(Z) / 2) + 0.1,
}
TIGHT = {"tol": 1e-12, "max_iter": 100_000}
EXACT = {"solver": "newton-cholesky", **TIGHT}

MODELS: list[tuple[str, Any, str]] = [
    ("linear", lm.LinearRegression(), "real"),
    ("ridge", lm.Ridge(alpha=3.0), "real"),
    ("ridge sag", lm.Ridge(alpha=3.0, solver="sag", random_state=0, **TIGHT), "real"),
    ("ridge cv", lm.RidgeCV(alphas=[2.0]), "real"),
    ("ridge classifier", lm.RidgeClassifier(alpha=2.0), "binary"),
    ("ridge classifier balanced", lm.RidgeClassifier(alpha=2.0, class_weight="balanced"), "binary"),
    ("ridge classifier cv", lm.RidgeClassifierCV(alphas=[2.0]), "binary"),
    ("logistic", lm.LogisticRegression(C=0.7, **EXACT), "binary"),
    ("logistic no penalty", lm.LogisticRegression(C=np.inf, **EXACT), "binary"),
    ("logistic liblinear", lm.LogisticRegression(C=0.7, solver="liblinear", intercept_scaling=2.0, **TIGHT), "binary"),
    ("logistic newton-cg", lm.LogisticRegression(C=0.7, solver="newton-cg", **TIGHT), "binary"),
    ("logistic saga", lm.LogisticRegression(C=0.7, solver="saga", random_state=0, **TIGHT), "binary"),
    ("logistic weights", lm.LogisticRegression(C=0.7, class_weight={"yes": 2.0, "no": 0.5}, **EXACT), "binary"),
    ("logistic balanced", lm.LogisticRegression(C=0.7, class_weight="balanced", **EXACT), "binary"),
    (
        "logistic balanced liblinear",
        lm.LogisticRegression(C=0.7, class_weight="balanced", solver="liblinear", **TIGHT),
        "binary",
    ),
    ("logistic cv", lm.LogisticRegressionCV(Cs=[0.7], cv=3, **EXACT), "binary"),
    ("poisson", lm.PoissonRegressor(alpha=0.2, **EXACT), "count"),
    ("poisson no penalty", lm.PoissonRegressor(alpha=0.0, **EXACT), "count"),
    ("gamma", lm.GammaRegressor(alpha=0.2, **EXACT), "positive"),
    ("tweedie 0", lm.TweedieRegressor(power=0, alpha=0.2, **EXACT), "real"),
    ("tweedie 1", lm.TweedieRegressor(power=1, alpha=0.2, **EXACT), "count"),
    ("tweedie 2", lm.TweedieRegressor(power=2, alpha=0.2, **EXACT), "positive"),
]
# scikit-learn announces changes of defaults that do not concern these tests
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*penalty.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*LogisticRegressionCV.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*l1_ratios.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*scoring.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*liblinear.*:FutureWarning"),
]


def test_every_model_is_tested() -> None:
    """One binary model for each class is in test_each_class.py."""
    assert {type(model) for _, model, _ in MODELS} | {OneVsRestClassifier} == set(RECIPES)


def fitted(model: Any, rows: Any, y: Any, weighted: bool) -> Any:
    return clone(model).fit(rows, y, **({"sample_weight": WEIGHTS} if weighted else {}))


@pytest.mark.parametrize("weighted", often([True, False]), ids=["weighted", "plain"])
@pytest.mark.parametrize("intercept", [False, True], ids=["through zero", "intercept"])
@pytest.mark.parametrize(("model", "target"), [row[1:] for row in MODELS], ids=[row[0] for row in MODELS])
def test_the_jacobian_is_that_of_refits(model: Any, target: str, intercept: bool, weighted: bool) -> None:
    model = clone(model).set_params(fit_intercept=intercept)
    y = TARGETS[target]
    base = fitted(model, X, y, weighted)
    leak = fl.measure(base, X, y, sample_weight=WEIGHTS if weighted else None)
    # liblinear itself stops at about 1e-7: long steps and a formula of fourth order then
    rough = getattr(model, "solver", None) == "liblinear"
    assert leak.fits[0].distance < (1e-6 if rough else 1e-8)
    part = leak._information.jacobians[0]
    J = np.asarray(part.dense(part.attributes, True)(*part.arrays))
    step = 0.05 if rough else 2e-4
    for row in (0, 17):
        for column in (*range(D), None):
            if column is None and target == "binary":
                continue
            at = {}
            for k in (-2, -1, 1, 2) if rough else (-1, 1):
                rows, labels = X.copy(), y.copy()
                if column is None:
                    labels[row] += k * step
                else:
                    rows[row, column] += k * step
                at[k] = parameters(fitted(model, rows, labels, weighted))
            numeric = (at[1] - at[-1]) / (2 * step)
            if rough:
                numeric = (4 * numeric - (at[2] - at[-2]) / (4 * step)) / 3
            exact = J[row, :, D if column is None else column]
            assert np.linalg.norm(numeric - exact) <= (1e-4 if rough else 1e-5) * np.linalg.norm(J[row])


@pytest.mark.parametrize("solver", ["lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga"])
def test_every_solver_of_logistic_regression_is_read(solver: str) -> None:
    model = lm.LogisticRegression(solver=solver, max_iter=100_000, tol=1e-6, random_state=0)
    leak = fl.measure(model.fit(X, TARGETS["binary"]), X, TARGETS["binary"])
    assert leak.fits[0].distance < 1e-4
    assert leak.fits[0].intercept_l2 == (1 / N if solver == "liblinear" else 0.0)


def test_a_search_is_read_as_its_best_model() -> None:
    search = GridSearchCV(lm.Ridge(), {"alpha": [0.1, 10.0]}, cv=3).fit(X, TARGETS["real"])
    best = fl.measure(search.best_estimator_, X, TARGETS["real"]).per_example()
    np.testing.assert_array_equal(fl.measure(search, X, TARGETS["real"]).per_example(), best)
    inside = make_pipeline(lm.Ridge(alpha=search.best_params_["alpha"])).fit(X, TARGETS["real"])
    np.testing.assert_allclose(fl.measure(inside, X, TARGETS["real"]).per_example(), best, rtol=1e-12)


def test_labels_of_any_kind() -> None:
    words = TARGETS["binary"]
    reference = fl.measure(lm.LogisticRegression(**EXACT).fit(X, words), X, words).per_example()
    for yes, no in ((1, 0), (True, False), (7, 3)):
        y = np.where(words == "yes", yes, no)
        np.testing.assert_allclose(fl.measure(lm.LogisticRegression(**EXACT).fit(X, y), X, y).per_example(), reference)


def test_models_that_stopped_early_can_be_polished_and_say_what_that_does_to_eta() -> None:
    model = lm.LogisticRegression(tol=3e-3).fit(X, TARGETS["binary"])
    loose = fl.measure(model, X, TARGETS["binary"], polish=False)
    exact = fl.measure(lm.LogisticRegression(**EXACT).fit(X, TARGETS["binary"]), X, TARGETS["binary"])
    polished = fl.measure(model, X, TARGETS["binary"], polish=True)
    np.testing.assert_allclose(polished.per_example(), exact.per_example(), rtol=1e-9)
    assert polished.fits[0].distance == loose.fits[0].distance > 1e-4
    assert "as given; etas as given differ by up to 0." in loose.summary()


def test_a_model_far_from_its_minimum_is_refused() -> None:
    y = TARGETS["binary"]
    with pytest.warns(ConvergenceWarning):
        short = lm.LogisticRegression(solver="saga", max_iter=1, random_state=0).fit(X * 50, y)
    for polish in (False, True):
        with pytest.raises(
            fl.NotAtMinimumError, match=r"LogisticRegression is not at .* stopped at max_iter=1: allow more"
        ):
            fl.measure(short, X * 50, y, polish=polish)


@pytest.mark.parametrize("polish", [False, True])
def test_forgotten_weights_and_other_rows_are_noticed_by_direct_solvers(polish: bool) -> None:
    rng = np.random.default_rng(0)
    n = 20_000
    rows = rng.normal(size=(n, 3))
    y = rows @ np.ones(3) * 0.3 + rng.normal(size=n)
    weights = rng.choice([0.5, 1.5], n)
    model = lm.Ridge().fit(rows, y, sample_weight=weights)
    fl.measure(model, rows, y, sample_weight=weights, polish=polish)
    with pytest.raises(fl.NotAtMinimumError, match="rows, labels and weights it was fitted with"):
        fl.measure(model, rows, y, polish=polish)
    with pytest.raises(fl.NotAtMinimumError):
        fl.measure(lm.LinearRegression().fit(rows, y), rng.normal(size=(n, 3)), y, polish=polish)
    single = lm.Ridge().fit(rows.astype(np.float32), y.astype(np.float32))
    fl.measure(single, rows.astype(np.float32), y.astype(np.float32))


def test_refusals_use_the_names_of_raw_columns_and_words_of_scikit_learn() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": X[:, 0], "years": X[:, 0], "dose": X[:, 1]})
    with pytest.raises(
        fl.SingularHessianError, match=r"'(age|years)' and '(age|years)'\. Drop a column or add an l2 penalty"
    ):
        fl.measure(lm.LinearRegression().fit(frame, TARGETS["real"]), frame, TARGETS["real"])
    wide = np.random.default_rng(0).normal(size=(10, 30))
    with pytest.raises(fl.SingularHessianError, match=r"more parameters \(31\) than rows"):
        fl.measure(lm.LinearRegression().fit(wide, np.arange(10.0)), wide, np.arange(10.0))
    apart = np.where(X[:, 0] > 0.5, 1, 0)
    model = lm.LogisticRegression(C=np.inf, max_iter=10_000, tol=1e-3).fit(X, apart)
    with pytest.raises(fl.SeparableClassesError, match="linearly separable"):
        fl.measure(model, X, apart)


def test_a_model_that_stores_its_folds_is_no_search() -> None:
    model = lm.RidgeCV(alphas=[1.0, 2.0], store_cv_results=True).fit(X, TARGETS["real"])
    fl.measure(model, X, TARGETS["real"])
    with pytest.raises(fl.UnsupportedModelError, match=r"RidgeCV chose its penalty on the data.*fit Ridge\(alpha="):
        fl.release(model, fl.Gaussian(1.0))


REFUSED: list[tuple[Any, str, str]] = [
    (lm.Lasso(), "real", "Lasso is not supported: an l1 penalty"),
    (lm.ElasticNet(), "real", "ElasticNet is not supported: an l1 penalty"),
    (lm.HuberRegressor(), "real", "HuberRegressor is not supported.*pseudo_huber"),
    (lm.SGDRegressor(), "real", "SGDRegressor is not supported: it stops away from the minimum"),
    (lm.LinearRegression(positive=True), "real", r"LinearRegression\(positive=True\) is not supported"),
    (lm.Ridge(positive=True), "real", r"Ridge\(positive=True\) is not supported"),
    (lm.TweedieRegressor(power=1.5), "positive", r"power=1.5, link='log'\) is not supported"),
    (lm.TweedieRegressor(power=0, link="log"), "positive", r"power=0, link='log'\) is not supported"),
    (lm.BayesianRidge(), "real", "BayesianRidge is not supported: the models that are: LinearRegression, Ridge"),
]


@pytest.mark.parametrize(("model", "target", "message"), REFUSED)
def test_other_models_are_refused_by_name(model: Any, target: str, message: str) -> None:
    model.fit(X, TARGETS[target])
    with pytest.raises(fl.UnsupportedModelError, match=message):
        fl.measure(model, X, TARGETS[target])


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_l1_penalties_are_refused() -> None:
    y = TARGETS["binary"]
    for options in (
        {"penalty": "l1", "solver": "liblinear"},
        {"penalty": "elasticnet", "l1_ratio": 0.5, "solver": "saga"},
    ):
        model = lm.LogisticRegression(max_iter=10_000, **options).fit(X, y)
        with pytest.raises(fl.UnsupportedModelError, match="l1 penalty is not supported"):
            fl.measure(model, X, y)


def test_subclasses_and_what_is_no_minimiser_are_refused() -> None:
    class Mine(lm.Ridge):  # type: ignore[misc]
        pass

    with pytest.raises(fl.UnsupportedModelError, match="Mine is not supported: it is a subclass of Ridge"):
        fl.measure(Mine().fit(X, TARGETS["real"]), X, TARGETS["real"])
    model = lm.LogisticRegressionCV(Cs=[1.0], cv=3, refit=False, **EXACT).fit(X, TARGETS["binary"])
    with pytest.raises(fl.UnsupportedModelError, match="refit=False"):
        fl.measure(model, X, TARGETS["binary"])
