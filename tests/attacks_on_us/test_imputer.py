"""An imputer of nearest neighbours holds the table it was fitted on; it never leaves."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

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


def test_a_mean_that_fills_gaps_is_not_released_undeclared() -> None:
    model = make_pipeline(SimpleImputer(), Ridge()).fit(X, Y)
    assert np.isin(X.mean(axis=0), numbers(copied_with_noise(model, NOISE))).all()
    with pytest.raises(fl.UnsupportedModelError, match="SimpleImputer learned from the data"):
        fl.release(model, NOISE)


def test_a_value_that_was_declared_fills_gaps() -> None:
    """The remedy: nothing of the table is in it."""
    model = make_pipeline(SimpleImputer(strategy="constant", fill_value=0.0), Ridge()).fit(X, Y)
    released = fl.release(model, NOISE)
    assert not np.isin(X, numbers(released)).any()
    assert np.isfinite(released.predict([[np.nan, 1.0, 1.0]])).all()
