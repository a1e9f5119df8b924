"""Membership of every kind of estimator, against scikit-learn's own fits without each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    TweedieRegressor,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from fisherleak.models.estimators import RECIPES

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

N, SIGMA = 40, 0.3
EXACT = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 1000}
CLOSE = {"tol": 1e-12, "max_iter": 20_000}
COUNTS, POSITIVE, NUMBERS, YES_NO, CLASSES = "counts", "positive", "numbers", "yes or no", "classes"
CASES = {
    "LinearRegression": (LinearRegression(), NUMBERS),
    "Ridge": (Ridge(alpha=30.0), NUMBERS),
    "RidgeCV": (RidgeCV(alphas=[30.0]), NUMBERS),
    "RidgeClassifier": (RidgeClassifier(alpha=30.0), YES_NO),
    "RidgeClassifier of classes": (RidgeClassifier(alpha=30.0), CLASSES),
    "RidgeClassifierCV": (RidgeClassifierCV(alphas=[30.0]), YES_NO),
    "LogisticRegression": (LogisticRegression(C=0.05, **CLOSE), YES_NO),
    "LogisticRegression of classes": (LogisticRegression(C=0.05, **CLOSE), CLASSES),
    "LogisticRegressionCV": (LogisticRegressionCV(Cs=[0.05], cv=2, **CLOSE), YES_NO),
    "PoissonRegressor": (PoissonRegressor(alpha=3.0, **EXACT), COUNTS),
    "GammaRegressor": (GammaRegressor(alpha=3.0, **EXACT), POSITIVE),
    "TweedieRegressor": (TweedieRegressor(power=0, alpha=3.0, tol=1e-12, max_iter=10_000), NUMBERS),
    "TweedieRegressor of counts": (TweedieRegressor(power=1, alpha=3.0, **EXACT), COUNTS),
    "OneVsRestClassifier": (OneVsRestClassifier(LogisticRegression(C=0.05, **CLOSE)), CLASSES),
}
WEIGHTED = ["Ridge", "LogisticRegression", "PoissonRegressor", "GammaRegressor", "TweedieRegressor"]


def drawn(kind: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 2))
    z = X @ [0.8, -0.5]
    labels = {
        COUNTS: rng.poisson(np.exp(z)).astype(float),
        POSITIVE: rng.gamma(2.0, np.exp(z) / 2.0),
        NUMBERS: z + rng.normal(size=N),
        YES_NO: (z + rng.normal(size=N) > 0).astype(int),
        CLASSES: np.digitize(z + rng.normal(size=N), [-0.5, 0.5]),
    }
    return X, labels[kind]


def parameters(model: Any) -> Any:
    each = getattr(model, "estimators_", [model])
    return np.concatenate([np.append(one.coef_, one.intercept_) for one in each])


def fresh(model: Any, X: Any, y: Any, weights: Any = None) -> Any:
    return clone(model).fit(X, y, **({} if weights is None else {"sample_weight": weights}))


def refits(model: Any, X: Any, y: Any, weights: Any = None) -> Any:
    whole = parameters(fresh(model, X, y, weights))
    rest = [np.delete(np.arange(N), i) for i in range(N)]
    moved = [parameters(fresh(model, X[r], y[r], None if weights is None else weights[r])) - whole for r in rest]
    return np.linalg.norm(moved, axis=1) / SIGMA


def test_every_estimator_is_here() -> None:
    assert {type(model) for model, _ in CASES.values()} == set(RECIPES)


@pytest.mark.parametrize("name", CASES)
def test_membership_is_that_of_fits_without_each_row(name: str) -> None:
    model, kind = CASES[name]
    X, y = drawn(kind)
    leak = fl.measure(fresh(model, X, y), X, y, noise=fl.Gaussian(SIGMA), polish=True)
    np.testing.assert_allclose(leak.membership(1e-8), refits(model, X, y), rtol=1e-5)


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_row_takes_the_penalty_of_its_weight_with_it(name: str) -> None:
    model, kind = CASES[name]
    X, y = drawn(kind)
    weights = np.random.default_rng(5).uniform(0.2, 2.0, N)
    weights[4] = 0.0
    fitted = fresh(model, X, y, weights)
    leak = fl.measure(fitted, X, y, noise=fl.Gaussian(SIGMA), sample_weight=weights, polish=True)
    truth = refits(model, X, y, weights)
    np.testing.assert_allclose(leak.membership(1e-8), truth, rtol=1e-5, atol=1e-8)
    pairs = np.arange(N) // 2
    whole = parameters(fitted)
    left = [parameters(fresh(model, X[pairs != k], y[pairs != k], weights[pairs != k])) - whole for k in range(N // 2)]
    found = leak.membership_by_group(pairs, tolerance=1e-8)
    np.testing.assert_allclose(list(found.values()), np.linalg.norm(left, axis=1) / SIGMA, rtol=1e-5)


@pytest.mark.parametrize("name", ["PoissonRegressor", "TweedieRegressor"])
def test_so_it_does_behind_scalers_that_are_measured_too(name: str) -> None:
    model, kind = CASES[name]
    X, y = drawn(kind)
    both = make_pipeline(StandardScaler(), model).fit(X, y)
    leak = fl.measure(both, X, y, noise=fl.Gaussian(SIGMA, shape=np.eye(3)), public="nothing", polish=True)

    def raw(rows: Any) -> Any:
        found = make_pipeline(StandardScaler(), model).fit(X[rows], y[rows])
        w = found[-1].coef_ / found[0].scale_
        return np.append(w, found[-1].intercept_ - w @ found[0].mean_)

    every = np.arange(N)
    truth = [np.linalg.norm(raw(np.delete(every, i)) - raw(every)) / SIGMA for i in every]
    np.testing.assert_allclose(leak.membership(1e-8), truth, rtol=1e-5)
