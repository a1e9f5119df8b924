"""Shells around estimators behave as scikit-learn asks of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn import linear_model as lm
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import fisherleak as fl

X, Y = load_diabetes(return_X_y=True)
FEW: Any = {"penalties": (1.0, 10.0), "weightings": ("none",), "shapes": ("isotropic",)}
EXACT = {"solver": "newton-cholesky", "tol": 1e-10, "max_iter": 1000}


@pytest.mark.parametrize("wrap", [fl.IRFIL, partial(fl.PrivateRelease, over="max")], ids=["IRFIL", "PrivateRelease"])
def test_inside_searches_and_pipelines(wrap: Any) -> None:
    search = GridSearchCV(wrap(lm.Ridge()), {"estimator__alpha": [0.1, 1.0]}, cv=3).fit(X, Y)
    assert search.predict(X).shape == Y.shape
    outer = make_pipeline(StandardScaler(), wrap(lm.LogisticRegression(**EXACT))).fit(X, Y > 150)
    assert outer.predict_proba(X).shape == (len(Y), 2)
    assert not hasattr(wrap(lm.Ridge()), "predict_proba")
    weights = np.arange(len(Y)) % 2 + 0.5
    wrap(lm.Ridge()).fit(X, Y, sample_weight=weights)
    clone(wrap(lm.Ridge(alpha=3.0)))


own_checks: Callable[..., pytest.MarkDecorator] = parametrize_with_checks
WEIGHTED = ["check_sample_weight_equivalence_on_dense_data"]
if sklearn.__version__.startswith("1.6."):
    WEIGHTED.append("check_sample_weight_equivalence_on_sparse_data")  # runs on dense data too there
WEIGHTS_ARE_NOT_COPIES = dict.fromkeys(WEIGHTED, "a row of weight two is one row to protect, two rows are two")


LOGISTIC = lm.LogisticRegression(**EXACT)
OFTEN = [
    fl.IRFIL(lm.Ridge(), n_iter=2),
    fl.PrivateRelease(LOGISTIC, eta=100.0, over="max", public="levels"),
    fl.Protected(lm.Ridge(), eta=100.0, over="max", **FEW),
]
"""Every shell, with a regressor or a classifier; with the other one in the long tests."""
OTHERS = [
    fl.IRFIL(LOGISTIC, n_iter=2),
    fl.PrivateRelease(lm.Ridge(), eta=100.0, over="max"),
    fl.Protected(LOGISTIC, eta=100.0, over="max", public="levels", **FEW),
]
QUIET = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
    pytest.mark.filterwarnings("ignore::fisherleak.NearSingularWarning"),
    pytest.mark.filterwarnings("ignore::fisherleak.UncountedChoiceWarning"),
    pytest.mark.filterwarnings("ignore::fisherleak.UncountedScaleWarning"),
    pytest.mark.filterwarnings("ignore:No rows are held out:UserWarning"),
]


def quietly(test: Any) -> Any:
    """With the warnings that checks provoke left out."""
    for mark in QUIET:
        test = mark(test)
    return test


@own_checks(OFTEN, expected_failed_checks=lambda estimator: WEIGHTS_ARE_NOT_COPIES)
@quietly
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.long
@own_checks(OTHERS, expected_failed_checks=lambda estimator: WEIGHTS_ARE_NOT_COPIES)
@quietly
def test_scikit_learns_own_checks_of_the_others(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("dtype", [str, object])
def test_text_is_no_target_of_a_regressor(dtype: Any) -> None:
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.resize(["no", "yes"], 30).astype(dtype)
    for made in (fl.IRFIL(lm.Ridge()), fl.PrivateRelease(lm.Ridge(), eta=1.0), fl.Protected(lm.Ridge(), eta=1.0)):
        with pytest.raises(fl.InvalidInputError, match="y holds text, and Ridge predicts numbers"):
            made.fit(X, y)
    with pytest.raises(fl.InvalidInputError, match="Ridge predicts numbers"):
        fl.protect(lm.Ridge(), X, y, eta=1.0)
