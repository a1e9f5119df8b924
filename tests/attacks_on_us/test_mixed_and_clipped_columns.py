"""Shares behind steps that mix columns, values past a clip, scalers of other rows, and guesses without the release.

A rotation of all columns reveals what centring them does. Everything else is held against refits of the last step, with what
the steps before it learned held fixed, for every value of a grid.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

import fisherleak as fl
from rows.lazy import da

Vector = NDArray[np.float64]
STATED = {"require": {"public": "preprocessing"}}
GRID = np.arange(-6.0, 6.01, 0.5)


def patients(n: int = 80) -> tuple[pd.DataFrame, Vector]:
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    return X[["age", "bmi", "bp", "s5"]].astype(float).iloc[:n].reset_index(drop=True), np.asarray(y, float)[:n]


def parameters(model: Any) -> Vector:
    return np.append(np.ravel(model.coef_), model.intercept_)


def true_share(model: Any, X: pd.DataFrame, y: Vector, cell: tuple[int, str], sigma: float) -> float:
    """By refits of the last step at every value of a grid, as steep as two neighbours say."""
    row, name = cell
    centre, spread = X[name].mean(), X[name].std(ddof=0)

    def refit(value: float) -> Vector:
        moved = X.copy()
        moved.loc[row, name] = value
        return parameters(clone(model[-1]).fit(model[:-1].transform(moved), y))

    step = 1e-3 * spread
    slopes = [(refit(v + step) - refit(v - step)) / (2 * step) for v in centre + spread * GRID]
    weights = np.exp(-0.5 * GRID**2)
    mean = float(weights @ [slope @ slope for slope in slopes] / weights.sum()) * (spread / sigma) ** 2
    return mean / (1.0 + mean)


def shares(model: Any, X: pd.DataFrame, y: Vector, sigma: float) -> pd.DataFrame:
    leak = fl.measure(model, X, y, noise=fl.Gaussian(sigma))
    return pd.DataFrame(np.asarray(leak.revealed()), columns=leak.attributes)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_rotation_of_all_columns_reveals_what_centring_does(loss: str) -> None:
    X, y = patients()
    last: Any = Ridge()
    if loss == "logistic":
        y, last = (y > np.median(y)).astype(float), LogisticRegression(solver="newton-cholesky", tol=1e-12)
    plain = make_pipeline(StandardScaler(with_std=False), last).fit(X, y)
    turned = make_pipeline(PCA(4), clone(last)).fit(X, y)
    np.testing.assert_allclose(shares(turned, X, y, 0.5), shares(plain, X, y, 0.5), rtol=1e-5)
    if loss == "squared":
        moving = [fl.measure(model, X, y, noise=fl.Posterior(1.0)).revealed() for model in (plain, turned)]
        np.testing.assert_allclose(moving[1], moving[0], rtol=1e-5)
        limits = {"max_revealed": 0.1, "min_error": 0.5, "max_eta": 10.0}
        rules = {"columns": dict.fromkeys(X.columns, limits), **STATED}
        found = [fl.audit(model, X, y, 0.5, policy=rules, attacks=False).rules for model in (plain, turned)]
        assert list(found[1].passed) == list(found[0].passed)
        assert not found[1].passed["columns.s5.max_revealed"]
        values = [each.value[each.index != "require.public"].astype(float) for each in found]
        np.testing.assert_allclose(values[1], values[0], rtol=1e-5)
        scales = [fl.audit(model, X, y, attacks=False).summary.noise.scale for model in (plain, turned)]
        assert scales[0] == pytest.approx(scales[1])


@pytest.mark.parametrize(
    "steps",
    [
        [PCA(2)],
        [PCA(2, whiten=True)],
        [IncrementalPCA(3)],
        [TruncatedSVD(2, algorithm="arpack")],
        [StandardScaler(), PCA(3)],
        [make_union(PCA(3), StandardScaler())],
        [make_column_transformer((PCA(1), ["bp", "s5"]), (StandardScaler(), ["age", "bmi"]))],
        [
            make_column_transformer(
                (StandardScaler(), ["age", "bmi"]), ("passthrough", ["age"]), (PCA(1), ["bmi", "bp"])
            )
        ],
        [make_column_transformer((OneHotEncoder(sparse_output=False), ["sex"]), ("passthrough", ["bp", "s5"])), PCA(3)],
    ],
    ids=str,
)
def test_shares_behind_steps_that_mix_columns_are_those_of_refits(steps: list[Any]) -> None:
    X, y = patients(60)
    if "sex" in str(steps):
        X = X.assign(sex=np.where(np.arange(60) % 3, "f", "m"))
    model = make_pipeline(*steps, Ridge()).fit(X, y)
    stated = shares(model, X, y, 20.0)
    for name in [name for name in ("bmi", "bp", "s5") if np.nanmax(stated[name]) > 0]:
        row = int(stated[name].argmax())
        for each in (row, 5):
            assert stated.loc[each, name] == pytest.approx(
                true_share(model, X, y, (each, name), 20.0), rel=1e-3, abs=1e-9
            )


def test_filled_gaps_before_a_rotation() -> None:
    X, y = patients(60)
    X.loc[[3, 8, 20], "bmi"] = np.nan
    model = make_pipeline(SimpleImputer(add_indicator=True), PCA(4), Ridge()).fit(X, y)
    stated = shares(model, X, y, 20.0)
    assert stated.loc[[3, 8, 20], "bmi"].isna().all()
    for cell in ((3, "s5"), (5, "bmi"), (5, "s5")):
        assert stated.loc[cell] == pytest.approx(true_share(model, X, y, cell, 20.0), rel=1e-3)


def test_on_rows_of_dask_a_rotation_hides_the_share() -> None:
    X, y = patients(60)
    for step, known in ((PCA(4), False), (StandardScaler(), True)):
        model = make_pipeline(step, Ridge()).fit(X.to_numpy(), y)
        leak = fl.measure(model, da.from_array(X.to_numpy(), chunks=(20, 4)), da.from_array(y, chunks=20))
        assert np.isfinite(np.asarray(leak.revealed().compute())).all() == known


def test_compositions_and_gradients_behind_a_rotation() -> None:
    X, y = patients(60)
    plain, turned = (make_pipeline(step, Ridge()).fit(X, y) for step in (StandardScaler(with_std=False), PCA(4)))
    leaks = [fl.measure(model, X, y, noise=fl.Gaussian(5.0)) for model in (plain, turned)]
    both = [fl.compose(leak, leak).revealed() for leak in leaks]
    np.testing.assert_allclose(both[1], both[0], rtol=1e-6)
    told = [fl.gradients(model, X, y, fl.Gaussian(5.0)).revealed() for model in (plain, turned)]
    assert np.nanmax(np.abs(np.asarray(told[1]) / np.asarray(told[0]) - 1.0)) < 1e-6


def test_features_that_several_attributes_of_a_fit_feed_show_no_value() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 40))
    X, y = np.column_stack([a + b, a]), np.arange(40.0)
    fit = fl.minimise(X, y, l2=0.1)
    both = [fl.Attribute("a", [0, 1], [[1.0], [1.0]]), fl.Attribute("b", [0])]
    found = np.asarray(fl.measure(fit, X, y, fl.Gaussian(1.0), attributes=both).revealed(spread={"a": 1.0, "b": 1.0}))
    alone = np.asarray(fl.measure(fit, X, y, fl.Gaussian(1.0), attributes=both[:1]).revealed(spread={"a": 1.0}))
    assert np.isnan(found[:, 1]).all()
    assert np.isnan(alone).all()  # its two features show different values
    assert np.isfinite(found[:, 0]).all()  # its second feature is its own
    same = np.column_stack([a, 2 * a + 1.0, b])
    leak = fl.measure(fl.minimise(same, y, l2=0.1), same, y, attributes=[fl.Attribute("a", [0, 1], [[1.0], [2.0]])])
    assert np.isfinite(np.asarray(leak.revealed(spread={"a": 1.0}))[:, 0]).all()


# Values past a clip


def drawn(n: int = 60) -> tuple[pd.DataFrame, Vector]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n, 2)).clip(-2.5, 2.5).round(2), columns=["a", "b"])
    return X, (X.a - 0.5 * X.b + rng.normal(size=n)).clip(-8, 8).round(2).to_numpy()


def beside(step: Any) -> Any:
    return make_column_transformer((step, ["a"]), ("passthrough", ["a", "b"]))


CLIPS = [MinMaxScaler(clip=True), SplineTransformer(degree=1, n_knots=2, include_bias=False)]
if "clip" in inspect.signature(MaxAbsScaler).parameters:
    CLIPS.append(MaxAbsScaler(clip=True))


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("step", CLIPS, ids=str)
def test_a_step_that_clips_is_not_affine_though_no_row_is_clipped(step: Any, gaps: bool) -> None:
    X, y = drawn()
    if gaps:
        X.loc[[2, 7], "a"] = np.nan
    before = [SimpleImputer(strategy="constant", fill_value=0.0).set_output(transform="pandas")] if gaps else []
    model = make_pipeline(*before, beside(step), Ridge(50.0)).fit(X, y)
    leak = fl.measure(model, X, y, noise=fl.Gaussian(1.0))
    stated = np.asarray(leak.revealed())
    assert np.isnan(stated[:, 0]).all()
    assert np.isfinite(stated[:, 1]).all()
    bounds = {"a": (-8.0, 8.0), "b": (-3.0, 3.0), "label": (-9.0, 9.0)}
    with pytest.raises(fl.FisherleakError, match=r"not affine.*clip=False"):
        fl.calibrate(leak, eta=1.0, over="any-record", bounds=bounds)
    with pytest.raises(fl.FisherleakError, match="not affine"):
        fl.PrivateRelease(clone(model), eta=1.0, bounds=bounds, public="preprocessing").fit(X, y)
    if gaps:
        return
    for limit in ({"max_eta": 10.0}, {"min_error": 0.1}):
        with pytest.raises(fl.FisherleakError, match="not affine"):
            fl.audit(model, X, y, 1.0, policy={"columns": {"a": limit}, **STATED}, attacks=False)
    found = fl.audit(model, X, y, 1.0, policy={"columns": {"a": {"max_revealed": 0.9}}, **STATED}, attacks=False)
    assert not found.passed
    assert "not affine" in found.rules.note.iloc[0]


def test_without_clip_the_same_limit_holds() -> None:
    X, y = drawn()
    model = make_pipeline(beside(MinMaxScaler((-3, 3))), Ridge(50.0)).fit(X, y)
    leak = fl.measure(model, X, y)
    noise = fl.calibrate(
        leak, 1.0, over="any-record", bounds={"a": (-8.0, 8.0), "b": (-3.0, 3.0), "label": (-9.0, 9.0)}
    )
    assert np.isfinite(np.asarray(leak.with_noise(noise).revealed())).all()


def test_a_polynomial_of_degree_one_is_affine() -> None:
    X, y = drawn()
    model = make_pipeline(PolynomialFeatures(1, include_bias=False), Ridge()).fit(X, y)
    rules = {"columns": {"a": {"max_eta": 100.0}}, **STATED}
    assert fl.audit(model, X, y, 1.0, policy=rules, attacks=False).passed


@pytest.mark.skipif(len(CLIPS) < 3, reason="MaxAbsScaler clips since scikit-learn 1.8")
def test_values_that_are_clipped_by_their_size_move_nothing() -> None:
    X, y = drawn()
    step = MaxAbsScaler(clip=True).fit(X / 2)
    model = make_pipeline(step, Ridge().fit(step.transform(X), y))
    cells = np.asarray(fl.measure(model, X, y, noise=fl.Gaussian(1.0)).per_cell())
    clipped = np.abs(X.to_numpy()) > np.abs(X.to_numpy() / 2).max(axis=0)
    assert clipped.any()
    assert (cells[clipped] == 0).all()
    assert (cells[~clipped] > 0).all()
    with pytest.raises(fl.FisherleakError, match=r"MaxAbsScaler\(clip=True\) cannot be folded"):
        fl.measure(model, X, y, public="nothing")


# Scalers of other rows


def test_a_scaler_by_size_that_was_fitted_on_other_rows_is_refused() -> None:
    X, y = drawn()
    own, other = MaxAbsScaler().fit(X), MaxAbsScaler().fit(X.iloc[:5])
    models = [Pipeline([("s", step), ("m", Ridge(50.0).fit(step.transform(X), y))]) for step in (own, other)]
    assert fl.measure(models[0], X, y, public="nothing").per_example().max() > 0
    with pytest.raises(fl.FisherleakError, match="MaxAbsScaler was not fitted on these rows"):
        fl.measure(models[1], X, y, public="nothing")
    with pytest.raises(fl.FisherleakError, match="MaxAbsScaler was not fitted on these rows"):
        fl.audit(models[1], X, y, 0.5, policy={"rows": {"max_eta": 100.0}}, public="nothing", attacks=False)


# Guesses without the release


@pytest.mark.parametrize("rules", [{"columns": {"g": {"max_attack": 0.495}}}, {"attacks": {"max_accuracy": 0.495}}])
def test_attacks_count_as_guesses_without_the_release_where_these_are_correct_more_often(rules: Any) -> None:
    rng = np.random.default_rng(0)
    n = 120
    X = pd.DataFrame((rng.normal(size=(n, 3)) * [1, 3, 0.5] + [0, 5, 1]).round(3), columns=list("abc"))
    X["g"] = rng.choice(["u", "v", "w"], n, p=[0.5, 0.3, 0.2])
    y = (X.a + 0.3 * X.b - 2 * X.c + (X.g == "w") * 2 + (X.g == "v") * X.a + rng.normal(size=n)).round(3)
    steps = make_column_transformer((StandardScaler(), list("abc")), (OrdinalEncoder(), ["g"]))
    model = make_pipeline(steps, Ridge()).fit(X, y)
    found = fl.audit(model, X, y.to_numpy(), 0.5, policy={**rules, **STATED})
    rule = found.rules.iloc[0]
    assert not found.passed
    assert rule.value > 0.5
    assert "No noise makes this rule pass" in rule.note
    assert "max_gain" in rule.note


def test_noise_past_the_range_of_numbers_is_refused() -> None:
    X, y = drawn()
    model = make_pipeline(StandardScaler(), Ridge()).fit(X, y)
    with pytest.raises(fl.InvalidInputError, match="noise must be between 1e-100 and 1e\\+100"):
        fl.audit(model, X, y, 1e160, attacks=False)
    assert np.asarray(fl.measure(model, X, y, noise=fl.Gaussian(1e160)).revealed()).max() < 1e-100
