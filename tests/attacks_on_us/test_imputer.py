"""Imputers: nearest neighbours are the table itself and never leave; means and medians leave with noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import fisherleak as fl
from attacks_on_us.walker import copied_with_noise, numbers

NOISE = fl.Gaussian(1.0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = X @ [1.0, 0.5, 0.0] + RNG.normal(size=80)


def test_neighbours_are_the_table() -> None:
    for model in (
        make_pipeline(KNNImputer(), Ridge()),
        make_pipeline(ColumnTransformer([("all", make_pipeline(KNNImputer()), [0, 1, 2])]), Ridge()),
    ):
        model.fit(X, Y)
        assert np.isin(X, numbers(copied_with_noise(model, NOISE))).all()
        for public in ("nothing", "levels", "preprocessing"):
            with pytest.raises(fl.UnsupportedModelError, match="KNNImputer cannot be released: it holds the rows"):
                fl.release(model, NOISE, public=public)
            with pytest.raises(fl.UnsupportedModelError, match="KNNImputer cannot be released"):
                fl.PrivateRelease(model, public=public).fit(X, Y)


@pytest.mark.parametrize("steps", [(), (StandardScaler(),), (MinMaxScaler(),)], ids=["alone", "standard", "range"])
@pytest.mark.parametrize("strategy", ["mean", "median"])
def test_what_fills_gaps_leaves_with_noise_of_its_own(strategy: str, steps: tuple[Any, ...]) -> None:
    table = X.copy()
    table[::7, 1], table[3, 0] = np.nan, np.nan
    model = make_pipeline(SimpleImputer(strategy=strategy), *steps, Ridge()).fit(table, Y)
    exact = model[0].statistics_
    assert np.isin(exact, numbers(copied_with_noise(model, NOISE))).all()
    found = [fl.release(model, NOISE) for _ in range(30)]
    assert not np.isin(exact, [value for released in found for value in numbers(released)]).any()
    # the score of a missing value is off by the noise on it, not only by that of the coefficient
    scores = np.array([released[-1].coef_ * released[0].statistics_ for released in found])
    assert np.all(scores.std(axis=0) > 0.5)
    np.testing.assert_allclose(fl.release(model, fl.Gaussian(1e-8), 0).predict(table), model.predict(table), atol=1e-6)


def test_filled_values_inside_a_column_transformer_go_to_their_columns() -> None:
    table = X.copy()
    table[::7, 1], table[3, 2] = np.nan, np.nan
    inner = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    columns = ColumnTransformer([("b", inner, [1]), ("a", SimpleImputer(), [2, 0])])
    model = make_pipeline(columns, Ridge()).fit(table, Y)
    np.testing.assert_allclose(fl.release(model, fl.Gaussian(1e-8), 0).predict(table), model.predict(table), atol=1e-6)


def test_a_value_that_was_declared_fills_gaps() -> None:
    """The remedy: nothing of the table is in it."""
    model = make_pipeline(SimpleImputer(strategy="constant", fill_value=0.0), Ridge()).fit(X, Y)
    released = fl.release(model, NOISE)
    assert not np.isin(X, numbers(released)).any()
    assert np.isfinite(released.predict([[np.nan, 1.0, 1.0]])).all()
