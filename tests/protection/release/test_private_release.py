"""PrivateRelease: its limit holds and its secret stays."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn import linear_model as lm
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fisherleak as fl
from attacks_on_us.walker import leaves
from fisherleak.models.several import all_parameters as parameters
from protection.kept import numbers_in
from releasable import CATEGORIES, CITIES, NUMBERS, POOLED, RARE, labels, people

X, Y = load_diabetes(return_X_y=True)
CANCER = load_breast_cancer()


def test_private_release_keeps_its_limit_and_its_secret() -> None:
    model = fl.PrivateRelease(lm.Ridge(), eta=2.0, over="max").fit(X, Y)
    leak = fl.measure(lm.Ridge().fit(X, Y), X, Y, model.noise_)
    assert isinstance(model.leakage_, fl.ReleaseReport)
    np.testing.assert_allclose(model.leakage_.eta, leak.per_example(), rtol=1e-12)
    assert model.leakage_.eta.max() <= 2.0
    assert model.leakage_.dataset == pytest.approx(leak.dataset())
    secret = {float(value) for value in lm.Ridge().fit(X, Y).coef_}
    assert not any(piece.hex() in str(pickle.dumps(model)) for piece in secret)
    assert not secret & numbers_in(vars(model.estimator_))
    kept = fl.PrivateRelease(lm.Ridge(), eta=2.0, keep_unperturbed=True, over="max").fit(X, Y)
    np.testing.assert_array_equal(kept.unperturbed_.coef_, lm.Ridge().fit(X, Y).coef_)
    assert isinstance(kept.leakage_, fl.Leakage)


def test_private_release_does_not_carry_a_fitted_estimator_along() -> None:
    fitted = lm.Ridge().fit(X, Y)
    released = fl.PrivateRelease(fitted, eta=2.0, over="max").fit(X, Y)
    assert not hasattr(pickle.loads(pickle.dumps(released)).estimator, "coef_")  # noqa: S301 - our own
    kept = fl.PrivateRelease(lm.Ridge(), eta=2.0, keep_unperturbed=True, over="max").fit(X, Y)
    kept.set_params(keep_unperturbed=False).fit(X, Y)
    assert not hasattr(kept, "unperturbed_")
    assert "at most 2" in kept.leakage_.summary()


def test_models_stopped_far_from_their_minimum_are_polished_where_the_data_are_known() -> None:
    data, target = CANCER.data, CANCER.target
    loose = lm.LogisticRegression(max_iter=20)
    with pytest.warns(ConvergenceWarning):
        released = fl.PrivateRelease(
            loose, eta=100.0, polish=True, keep_unperturbed=True, random_state=0, over="max"
        ).fit(data, target)
    assert released.unperturbed_.score(data, target) > 0.9
    theta = parameters(released.unperturbed_)
    assert isinstance(released.leakage_, fl.Leakage)
    np.testing.assert_allclose(theta, released.leakage_.fits[0].theta, rtol=1e-12)
    with pytest.warns(ConvergenceWarning), pytest.raises(fl.NotAtMinimumError, match="stopped at max_iter=20"):
        fl.PrivateRelease(loose, eta=100.0, over="max").fit(data, target)


def test_private_release_over_other_things() -> None:
    whole = fl.PrivateRelease(lm.Ridge(), eta=2.0, over="dataset").fit(X, Y)
    assert isinstance(whole.leakage_, fl.ReleaseReport)
    assert whole.leakage_.dataset <= 2.0
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=load_diabetes().feature_names)
    one = fl.PrivateRelease(make_pipeline(StandardScaler(), lm.Ridge()), eta=2.0, attributes=["bmi"], over="max").fit(
        frame, Y
    )
    assert isinstance(one.leakage_, fl.ReleaseReport)
    assert one.leakage_.eta.max() <= 2.0
    assert (
        one.noise_.scale
        < fl.PrivateRelease(make_pipeline(StandardScaler(), lm.Ridge()), eta=2.0, over="max").fit(frame, Y).noise_.scale
    )
    weights = np.arange(len(Y)) % 3 + 1.0
    weighted = fl.PrivateRelease(lm.Ridge(), eta=2.0, over="max").fit(X, Y, sample_weight=weights)
    expected = fl.measure(lm.Ridge().fit(X, Y, weights), X, Y, weighted.noise_, weights).per_example()
    assert isinstance(weighted.leakage_, fl.ReleaseReport)
    np.testing.assert_allclose(weighted.leakage_.eta, expected, rtol=1e-12)


@pytest.mark.parametrize("polish", [False, True])
def test_the_limit_is_on_what_leaves_end_to_end(polish: bool) -> None:
    table, target = CANCER.data[:, :5], CANCER.target
    made = make_pipeline(StandardScaler(), lm.LogisticRegression(solver="newton-cholesky", tol=1e-10))
    private = fl.PrivateRelease(made, eta=0.7, polish=polish, keep_unperturbed=True, random_state=0, over="max").fit(
        table, target
    )
    leak = fl.measure(private.unperturbed_, table, target, private.noise_, public="nothing")
    assert isinstance(private.leakage_, fl.Leakage)
    np.testing.assert_allclose(private.leakage_.per_example(), leak.per_example(), rtol=1e-6)
    assert leak.per_example().max() == pytest.approx(0.7)
    again = fl.release(private.unperturbed_, private.noise_, random_state=0)
    np.testing.assert_array_equal(private.estimator_[-1].coef_, again[-1].coef_)
    assert not any(isinstance(step, StandardScaler) for _, step in private.estimator_.steps)
    paper = fl.PrivateRelease(made, eta=0.7, public="preprocessing", random_state=0, over="max").fit(table, target)
    plain = fl.measure(private.unperturbed_, table, target, paper.noise_)
    assert plain.per_example().max() == pytest.approx(0.7)
    assert isinstance(paper.estimator_[0], StandardScaler)


def test_levels_that_few_rows_have_are_declared_or_pooled() -> None:
    table, y = people(), labels("real", people())
    rare = ColumnTransformer([("n", StandardScaler(), NUMBERS), ("c", OneHotEncoder(), CATEGORIES)])
    made = make_pipeline(rare, lm.Ridge())
    with pytest.raises(
        fl.UnsupportedModelError,
        match=r"Column 'city' has a category that only 3 of the rows.*min_frequency=27.*public='levels'",
    ):
        fl.PrivateRelease(made, over="max").fit(table, y)
    assert (
        RARE
        in fl.PrivateRelease(made, public="levels", over="max")
        .fit(table, y)
        .estimator_[0]
        .transformers_[1][1]
        .categories_[1]
    )
    common = fl.PrivateRelease(made, over="max").fit(table[table["city"] != RARE], y[table["city"] != RARE])
    assert common.estimator_[0].transformers_[1][1].categories_[1].tolist() == CITIES
    pooled = ColumnTransformer([("c", make_pipeline(OneHotEncoder(**POOLED)), CATEGORIES)], remainder=StandardScaler())
    made = make_pipeline(pooled, lm.Ridge())
    with pytest.raises(
        fl.UnsupportedModelError, match="Column 'city' has rare categories that only 3 of the rows have"
    ):
        fl.PrivateRelease(made, over="max").fit(table, y)
    table.loc[5:7, "city"] = "Zell"
    released = fl.PrivateRelease(made, over="max").fit(table, y).estimator_
    assert not any(value == RARE for _, value in leaves(released))
    assert np.isfinite(released.predict(table)).all()


def test_classes_that_few_rows_have_are_declared() -> None:
    y = np.where(np.arange(len(X)) < 4, "ill", "well")
    made = lm.LogisticRegression(C=0.1)
    with pytest.raises(fl.UnsupportedModelError, match=r"y has a class that only 4 of the rows have.*public='levels'"):
        fl.PrivateRelease(made, over="max").fit(X, y)
    with pytest.raises(fl.UnsupportedModelError, match="y has a class that only 4"):
        fl.Protected(made, over="max").fit(X, y)
    released = fl.PrivateRelease(made, over="max", public="levels").fit(X, y)
    assert released.estimator_.classes_.tolist() == ["ill", "well"]


def test_by_default_the_limit_is_on_whoever_could_be_there() -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(size=(2000, 3))
    target = data @ [1.0, 2.0, 0.0] + rng.normal(size=2000)
    made = make_pipeline(StandardScaler(), lm.Ridge(20.0))
    bounds = {"x0": (-6, 6), "x1": (-6, 6), "x2": (-6, 6), "label": (-20, 20)}
    private: Any = fl.PrivateRelease(made, eta=1.0, bounds=bounds, random_state=0, penalty="own").fit(data, target)
    assert private.noise_.calibrated.counted
    assert private.noise_.calibrated.confidential is None
    with pytest.warns(fl.UncountedScaleWarning, match=r"computed from the rows present \(over='max'\)"):
        present = fl.PrivateRelease(made, eta=1.0, over="max", random_state=0).fit(data, target)
    assert private.noise_.scale > present.noise_.scale
    assert private.leakage_.eta.max() < 1.0
    data[4], target[4] = [6.0, -6.0, 6.0], 20.0
    leak = fl.measure(made.fit(data, target), data, target, fl.Gaussian(private.noise_.scale), public="nothing")
    assert float(leak.per_example()[4]) <= 1.0
    with pytest.raises(fl.InvalidInputError, match="bounds are for over='any-record' only"):
        fl.PrivateRelease(made, over="max", bounds=bounds).fit(data, target)
