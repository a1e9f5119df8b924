"""Trimming: what it does to those who stay."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import linear_model as lm
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl

X, Y = load_diabetes(return_X_y=True)


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


def test_trim_drops_whole_groups() -> None:
    who = np.arange(len(Y)) // 4
    leak = fl.measure(lm.Ridge().fit(X, Y), X, Y)
    of_person = leak.by_person(who)
    assert all(of_person[k] >= leak.of(who == k) * (1 - 1e-9) for k in of_person)
    etas = np.array([of_person[k] for k in who])
    limit = float(np.quantile(etas, 0.8))
    result = fl.trim(lm.Ridge(), X, Y, limit, groups=who.astype(str))
    np.testing.assert_allclose(result.before, etas)
    np.testing.assert_array_equal(result.kept, etas <= limit)
    left = fl.measure(result.estimator, X[result.kept], Y[result.kept]).by_person(who[result.kept])
    np.testing.assert_allclose(result.after, [left[k] for k in who[result.kept]])
    with pytest.raises(fl.InvalidInputError, match="attributes and groups cannot both"):
        fl.trim(lm.Ridge(), X, Y, limit, attributes=[0], groups=who)


def test_estimators_without_weights_are_refused() -> None:
    with pytest.raises(fl.UnsupportedModelError, match="takes no sample_weight"):
        fl.trim(lm.OrthogonalMatchingPursuit(), X, Y, 1.0, sample_weight=np.ones(len(Y)))


def test_what_cannot_be_fitted_again_is_refused() -> None:
    with pytest.raises(fl.InvalidInputError, match="fitted again on the rows that stay; got Fit"):
        fl.trim(fl.minimise(X, Y), X, Y, 1.0)
