"""Models built anew predict as those they were built from, with nothing of them that prediction does not need."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model as lm
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, SelectPercentile
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)

import fisherleak as fl
from fisherleak.models.estimators import RECIPES
from fisherleak.models.rebuilt import REBUILDERS, REFUSED
from fisherleak.models.steps.transformers import READERS
from releasable import CATEGORIES, ESTIMATORS, NUMBERS, POOLED, RARE, STEPS, brief, labels, people, pipelines

QUIET = fl.Gaussian(1e-9)
TABLE = people()


def fitted(make: Callable[[], Any], columns: list[str], kind: str) -> Any:
    return make().fit(TABLE[columns], labels(kind, TABLE))


def answers(model: Any, table: Any) -> Any:
    asked = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    return asked(table)


def test_every_step_and_model_that_can_be_measured_can_be_released_or_is_refused_by_name() -> None:
    assert set(READERS) == set(REBUILDERS) | set(REFUSED)
    assert not set(REBUILDERS) & set(REFUSED)
    assert set(STEPS) == set(REBUILDERS), "a step has no example in tests/releasable.py"
    assert set(ESTIMATORS) == {kind for kind in RECIPES if not kind.__name__.endswith("CV")}


@pytest.mark.parametrize(("make", "columns", "kind", "public"), pipelines())
def test_a_release_with_hardly_any_noise_answers_as_the_model_does(
    make: Callable[[], Any], columns: list[str], kind: str, public: str
) -> None:
    model = fitted(make, columns, kind)
    released = fl.release(model, QUIET, random_state=0, public=public)
    assert type(released) is type(model)
    expected, found = answers(model, TABLE[columns]), answers(released, TABLE[columns])
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(found, expected)
    assert list(released.feature_names_in_) == columns
    assert released.n_features_in_ == len(columns)
    np.testing.assert_array_equal(getattr(released, "classes_", []), getattr(model, "classes_", []))


@pytest.mark.parametrize(("make", "columns", "kind", "public"), brief())
def test_a_release_can_be_cloned_and_stored_and_takes_arrays(
    make: Callable[[], Any], columns: list[str], kind: str, public: str
) -> None:
    io = pytest.importorskip("skops.io")
    model = fitted(make, columns, kind)
    released = fl.release(model, QUIET, 0, public=public)
    expected = released.predict(TABLE[columns])
    again = pickle.loads(pickle.dumps(released))  # noqa: S301 - our own
    np.testing.assert_array_equal(again.predict(TABLE[columns]), expected)
    dumped = io.dumps(released)
    stored = io.loads(dumped, trusted=io.get_untrusted_types(data=dumped))
    np.testing.assert_array_equal(stored.predict(TABLE[columns]), expected)
    refitted = clone(released).fit(TABLE[columns], labels(kind, TABLE))
    assert refitted.predict(TABLE[columns]).shape == expected.shape
    if not any("ColumnTransformer" in type(step).__name__ for step in getattr(model, "named_steps", {}).values()):
        bare = fl.release(make().fit(TABLE[columns].to_numpy(), labels(kind, TABLE)), QUIET, 0, public=public)
        assert not hasattr(bare, "feature_names_in_")
        np.testing.assert_allclose(bare.predict(TABLE[columns].to_numpy()), model.predict(TABLE[columns]), atol=1e-5)


@pytest.mark.parametrize("more", ["levels", "preprocessing"])
def test_more_may_be_public_than_need_be(more: str) -> None:
    cases: list[Any] = [case.values for case in brief()]
    for make, columns, kind, public in cases:
        if public == "nothing":
            model = fitted(make, columns, kind)
            released = fl.release(model, QUIET, 0, public=more)
            np.testing.assert_allclose(released.predict(TABLE[columns]), model.predict(TABLE[columns]), atol=1e-5)


def test_frames_as_output_and_sparse_features() -> None:
    y = labels("real", TABLE)
    for sparse in (True, False):
        encoder = OneHotEncoder(**{**POOLED, "sparse_output": sparse})
        columns = ColumnTransformer(
            [("n", StandardScaler(), NUMBERS), ("c", encoder, CATEGORIES)], sparse_threshold=0.9
        )
        model = make_pipeline(columns, lm.Ridge())
        if not sparse:
            model.set_output(transform="pandas")
        model.fit(TABLE, y)
        released = fl.release(model, QUIET, 0, public="levels")
        np.testing.assert_allclose(released.predict(TABLE), model.predict(TABLE), atol=1e-5)
        assert released[0].get_feature_names_out().tolist() == model[0].get_feature_names_out().tolist()
        assert released[0].transform(TABLE.head(3)).shape == (3, 10)
    alone = make_pipeline(StandardScaler(), lm.Ridge()).set_output(transform="pandas").fit(TABLE[NUMBERS], y)
    np.testing.assert_allclose(
        fl.release(alone, QUIET, 0).predict(TABLE[NUMBERS]), alone.predict(TABLE[NUMBERS]), atol=1e-5
    )


@pytest.mark.parametrize("column", ["words", "whole", "real", "missing"])
@pytest.mark.parametrize("drop", [None, "first"])
def test_names_of_pooled_levels_stay_in_the_house(column: str, drop: str | None) -> None:
    values = {
        "words": np.repeat(["ash", "elm", "oak", "yew"], [40, 2, 46, 2]).astype(object),
        "whole": np.repeat([3, 7, 11, 40], [40, 2, 46, 2]),
        "real": np.repeat([0.5, 7.25, 1.5, 40.0], [40, 2, 46, 2]),
        "missing": np.repeat([0.5, 7.25, np.nan, 40.0], [40, 2, 46, 2]),
    }[column]
    table = pd.DataFrame({"tree": values})
    model = make_pipeline(OneHotEncoder(**POOLED, drop=drop), lm.Ridge()).fit(table, labels("real", TABLE))
    released = fl.release(model, QUIET, 0, public="levels")
    np.testing.assert_allclose(released.predict(table), model.predict(table), atol=1e-6)  # and nothing warns
    kept = released[0].categories_[0].tolist()
    assert len(kept) == 3
    assert not {"elm", "yew", 7, 40, 7.25} & set(kept)
    assert released[0].get_feature_names_out().tolist() == model[0].get_feature_names_out().tolist()


LEARNED: list[tuple[Any, list[str], str]] = [
    (PCA(2), NUMBERS, "PCA learned from the data.*take preprocessing as public"),
    (SimpleImputer(strategy="most_frequent"), NUMBERS, "SimpleImputer.*learned from the data"),
    (SplineTransformer(3), NUMBERS, "SplineTransformer learned from the data"),
    (OneHotEncoder(), CATEGORIES, "OneHotEncoder learned its categories.*categories=.*public='levels'.*rows="),
    (OneHotEncoder(min_frequency=5), CATEGORIES, "OneHotEncoder learned its categories"),
    (
        OneHotEncoder(min_frequency=2, handle_unknown="infrequent_if_exist"),
        CATEGORIES,
        "OneHotEncoder learned its categories",
    ),
    (OneHotEncoder(**POOLED), CATEGORIES, "OneHotEncoder learned its categories.*named or pooled"),
    (OrdinalEncoder(), CATEGORIES, "OrdinalEncoder learned its categories.*Declare the categories with categories="),
    (
        make_pipeline(StandardScaler(), PolynomialFeatures(2)),
        NUMBERS,
        "StandardScaler stands before PolynomialFeatures",
    ),
    (MinMaxScaler(clip=True), NUMBERS, r"MinMaxScaler\(clip=True\) cannot be folded"),
]
NEVER: list[tuple[Any, list[str], str]] = [
    (KNNImputer(), NUMBERS, "KNNImputer cannot be released: it holds the rows.*SimpleImputer"),
    (SelectKBest(k=2), NUMBERS, "SelectKBest cannot be released: its scores reveal single labels"),
    (SelectPercentile(), NUMBERS, "SelectPercentile cannot be released"),
    (
        FunctionTransformer(lambda X: X - TABLE[NUMBERS].mean()),
        NUMBERS,
        "FunctionTransformer with a function of its own",
    ),
    (QuantileTransformer(n_quantiles=10), NUMBERS, "QuantileTransformer is not supported"),
    (PowerTransformer(), NUMBERS, "PowerTransformer is not supported"),
    (TargetEncoder(), CATEGORIES, "TargetEncoder is not supported"),
    (make_pipeline(StandardScaler(), SelectKBest(k=2)), NUMBERS, "SelectKBest cannot be released"),
]


@pytest.mark.parametrize(("step", "columns", "reason"), [*LEARNED, *NEVER])
def test_what_a_step_learned_is_folded_in_declared_or_refused(step: Any, columns: list[str], reason: str) -> None:
    y = labels("classes", TABLE)
    model = make_pipeline(step, lm.LogisticRegression(max_iter=5000)).fit(TABLE[columns], y)
    with pytest.raises(fl.UnsupportedModelError, match=reason):
        fl.release(model, fl.Gaussian(1.0))
    if (step, columns, reason) in NEVER:
        for public in ("levels", "preprocessing"):
            with pytest.raises(fl.UnsupportedModelError, match=reason.partition(" ")[0]):
                fl.release(model, fl.Gaussian(1.0), public=public)


def test_centres_need_a_free_intercept() -> None:
    for last in (lm.LogisticRegression(solver="liblinear"), lm.LogisticRegression(fit_intercept=False)):
        model = make_pipeline(StandardScaler(), last).fit(TABLE[NUMBERS], labels("classes", TABLE))
        with pytest.raises(fl.UnsupportedModelError, match="Centring cannot be folded"):
            fl.release(model, fl.Gaussian(1.0))
    scaled = make_pipeline(StandardScaler(with_mean=False), lm.Ridge(fit_intercept=False))
    scaled.fit(TABLE[NUMBERS], labels("real", TABLE))
    released = fl.release(scaled, QUIET, 0)
    assert released[-1].intercept_ == 0.0
    np.testing.assert_allclose(released.predict(TABLE[NUMBERS]), scaled.predict(TABLE[NUMBERS]), atol=1e-5)


def test_what_may_be_public_is_known() -> None:
    model = lm.Ridge().fit(TABLE[NUMBERS], labels("real", TABLE))
    with pytest.raises(fl.InvalidInputError, match="public must be one of nothing, levels, preprocessing; got 'all'"):
        fl.release(model, fl.Gaussian(1.0), public="all")
    with pytest.raises(fl.InvalidInputError, match="public must be one of"):
        fl.PrivateRelease(lm.Ridge(), public="all").fit(TABLE[NUMBERS], labels("real", TABLE))
    assert RARE in set(TABLE["city"])
