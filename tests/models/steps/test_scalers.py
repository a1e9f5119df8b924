"""End to end: etas against refits of the whole pipeline, scalers fitted again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model as lm
from sklearn import preprocessing as pre
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.pipeline import Pipeline, make_pipeline

import fisherleak as fl
from cases import flat, norms
from often import often
from refits import numeric_jacobian

RNG = np.random.default_rng(3)
N = 40
FRAME = pd.DataFrame(
    {
        "age": RNG.gamma(9.0, 5.0, N),
        "income": 1e4 * RNG.gamma(2.0, 1.0, N),
        "city": RNG.choice(["a", "b", "c"], N),
        "bmi": 20 + 3 * RNG.normal(size=N),
    }
)
Z = (FRAME.age - 45) / 15 - (FRAME.income - 2e4) / 2e4 + (FRAME.city == "b") * 0.7
Y = (Z + 0.5 * RNG.normal(size=N)).to_numpy()
WEIGHTS = RNG.gamma(3.0, 0.4, N)
NUMBERS = ["age", "income", "bmi"]
EXACT = {"solver": "newton-cholesky", "tol": 1e-11, "max_iter": 2000}
MODELS: dict[str, tuple[Any, Any]] = {
    "ridge": (lm.Ridge(alpha=6.0), Y),
    "logistic": (lm.LogisticRegression(C=0.5, **EXACT), (Y > 0) * 1),
    "poisson": (lm.PoissonRegressor(alpha=0.3, **EXACT), np.floor(np.exp(0.6 * Y + 1))),
}
SCALERS: dict[str, Any] = {
    "standard": pre.StandardScaler(),
    "min-max": pre.MinMaxScaler((-1.0, 2.0)),
    "max-abs": pre.MaxAbsScaler(),
    "robust": pre.RobustScaler(quantile_range=(20.0, 85.0)),
    "spread only": pre.StandardScaler(with_mean=False),
}


def piped(scaler: Any, model: Any) -> Pipeline:
    ways = [("numbers", scaler, NUMBERS), ("levels", pre.OneHotEncoder(drop="first", sparse_output=False), ["city"])]
    return Pipeline([("columns", ColumnTransformer(ways)), ("model", model)])


def fitted(pipe: Pipeline, frame: pd.DataFrame, y: Any, weights: Any, in_scaler: bool = False) -> Pipeline:
    given = {} if weights is None else {"model__sample_weight": weights}
    if in_scaler:
        given["scaler__sample_weight"] = weights
    return clone(pipe).fit(frame, y, **given)


def raw_parameters(model: Pipeline, frame: pd.DataFrame) -> Any:
    """Raw coefficients and intercept, from what the model predicts: nothing of the folding's own algebra."""
    at: Any = frame.iloc[[0] * 6].reset_index(drop=True)
    at[NUMBERS], at["city"] = 0.0, ["a", "a", "a", "a", "b", "c"]
    at.loc[[1, 2, 3], NUMBERS] = np.eye(3)
    estimator: Any = model[-1]
    scores = model[:-1].transform(at) @ np.ravel(estimator.coef_) + np.ravel(estimator.intercept_)[0]
    return np.append(scores[1:] - scores[0], scores[0])


CASES = [*((kind, "standard", weighted) for kind in MODELS for weighted in (False, True))]
CASES += [("ridge", scaler, True) for scaler in SCALERS if scaler != "standard"]
CASES += [("logistic", "min-max", False), ("poisson", "robust", False)]


@pytest.mark.parametrize(("kind", "scaler", "weighted"), often(CASES, 3))
def test_etas_are_those_of_refits_of_the_whole_pipeline(kind: str, scaler: str, weighted: bool) -> None:
    model, y = MODELS[kind]
    weights = WEIGHTS if weighted else None
    pipe = piped(SCALERS[scaler], model)
    noise = fl.Gaussian(0.5, np.eye(6))  # over raw coefficients and the raw intercept
    leak = fl.measure(fitted(pipe, FRAME, y, weights), FRAME, y, noise, sample_weight=weights, public="nothing")
    ordinary = FRAME["income"].rank().between(3, N - 2) & FRAME["age"].rank().between(3, N - 2)
    rows = [int(FRAME["income"].argmax()), int(FRAME["age"].argmin()), int(np.flatnonzero(ordinary)[0])]
    for row in rows:
        J = numeric_jacobian(
            lambda f, y: raw_parameters(fitted(pipe, f, y, weights), f), FRAME, y, row, NUMBERS, kind == "ridge"
        )
        numbers = leak.per_example(NUMBERS, label=kind == "ridge")[row]
        assert numbers == pytest.approx(np.linalg.norm(J, 2) / 0.5, rel=1e-5)
        for k, name in enumerate(NUMBERS):
            j = leak.attributes.index(name)
            assert leak.per_cell()[row, j] == pytest.approx(np.linalg.norm(J[:, k]) / 0.5, rel=1e-5)


def test_a_weighted_scaler_is_known_by_its_scale() -> None:
    X = FRAME[NUMBERS]
    pipe = Pipeline([("scaler", pre.StandardScaler()), ("model", lm.Ridge(alpha=6.0))])
    noise = fl.Gaussian(1.0, np.eye(4))
    for inside in (False, True):
        model = fitted(pipe, X, Y, WEIGHTS, inside)
        leak = fl.measure(model, X, Y, noise, sample_weight=WEIGHTS, public="nothing")

        def refit(frame: pd.DataFrame, y: Any, inside: bool = inside) -> Any:
            made = fitted(pipe, frame[NUMBERS], y, WEIGHTS, inside)
            coef = made[-1].coef_ / made[0].scale_
            return np.append(coef, made[-1].intercept_ - made[0].mean_ @ coef)

        J = numeric_jacobian(refit, FRAME, Y, 5, NUMBERS, True)
        assert leak.per_example()[5] == pytest.approx(np.linalg.norm(J, 2), rel=1e-5)


def test_sets_groups_and_the_matrix_are_those_of_written_out_jacobians() -> None:
    model = fitted(piped(pre.StandardScaler(), lm.Ridge(alpha=6.0)), FRAME, Y, WEIGHTS)
    leak = fl.measure(model, FRAME, Y, fl.Gaussian(0.3), sample_weight=WEIGHTS, public="nothing")
    J = leak._information.written_out(leak._information.attributes, True, None) / 0.3
    np.testing.assert_allclose(leak.per_example(), norms(J), rtol=1e-10)
    assert leak.dataset() == pytest.approx(np.linalg.norm(flat(J), 2), rel=1e-10)
    assert leak.by_group("city")["b"] == pytest.approx(
        np.linalg.norm(flat(J[(FRAME.city == "b").to_numpy()]), 2), rel=1e-10
    )
    first = leak.attributes.index("age")
    assert leak.per_attribute()[first] == pytest.approx(np.linalg.norm(flat(J[:, :, [0]]), 2), rel=1e-10)


def test_noise_without_a_shape_acts_in_the_frame_of_the_columns() -> None:
    """Years are not ruined: in units of a column's spread the answer does not depend on where its zero lies, or its unit."""
    X = FRAME[NUMBERS]
    other = X.assign(age=X.age * 1024.0 + 2**21, income=X.income / 4096.0)
    pipe = make_pipeline(pre.StandardScaler(), lm.Ridge(alpha=6.0))
    one, two = (fl.measure(clone(pipe).fit(x, Y), x, Y, public="nothing") for x in (X, other))
    cells = two.per_cell() * np.array([1024.0, 1 / 4096.0, 1.0])
    # the centre is on a grid of the scale, so only the level moves by a part of it
    np.testing.assert_allclose(one.per_cell()[:, 1:], cells[:, 1:], rtol=1e-7)
    np.testing.assert_allclose(one.per_cell()[:, 0], cells[:, 0], rtol=0.2)
    far = fl.measure(clone(pipe).fit(other, Y), other, Y, fl.Gaussian(1.0, np.eye(4)), public="nothing")
    assert far.per_cell().max() > 50 * cells.max()


def test_it_differs_from_taking_the_scaler_as_public() -> None:
    model = make_pipeline(pre.StandardScaler(), lm.Ridge(alpha=20.0)).fit(FRAME[NUMBERS], Y)
    leaks = [fl.measure(model, FRAME[NUMBERS], Y, public=public) for public in ("preprocessing", "nothing")]
    ratio = leaks[1].per_example(label=False) / leaks[0].per_example(label=False)
    assert ratio.max() > 1.02
    assert "end to end" in leaks[1].summary()
    assert "preprocessing public" in leaks[0].summary()


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([pre.StandardScaler(), PCA(2)], "StandardScaler stands before PCA"),
        ([PCA(2)], "PCA learned from the data"),
        ([SelectKBest(f_regression, k=2), pre.StandardScaler()], "SelectKBest learned from the data"),
        ([pre.SplineTransformer(n_knots=4)], "SplineTransformer learned from the data"),
        ([pre.MinMaxScaler(clip=True)], "clip=True"),
    ],
)
def test_what_cannot_be_folded_is_refused_by_name(steps: list[Any], message: str) -> None:
    model = make_pipeline(*steps, lm.Ridge()).fit(FRAME[NUMBERS], Y)
    with pytest.raises(fl.UnsupportedModelError, match=message):
        fl.measure(model, FRAME[NUMBERS], Y, public="nothing")


def test_other_refusals() -> None:
    X = FRAME[NUMBERS]
    model = make_pipeline(pre.StandardScaler(), lm.Ridge(fit_intercept=False)).fit(X, Y)
    with pytest.raises(fl.UnsupportedModelError, match="without a free intercept"):
        fl.measure(model, X, Y, public="nothing")
    with pytest.raises(fl.InvalidInputError, match="public must be one of"):
        fl.measure(model, X, Y, public="all")
    flat_column = X.assign(bmi=1.0)
    model = make_pipeline(pre.StandardScaler(), lm.Ridge()).fit(flat_column, Y)
    with pytest.raises(fl.InvalidInputError, match="'bmi' is constant"):
        fl.measure(model, flat_column, Y, public="nothing")


def test_membership_end_to_end_is_measured() -> None:
    model = make_pipeline(pre.StandardScaler(), lm.Ridge()).fit(FRAME[NUMBERS], Y)
    leak = fl.measure(model, FRAME[NUMBERS], Y, public="nothing")
    assert 0 < np.isfinite(leak.membership()).sum() < len(Y)  # some move a scale or a centre, and are told by that
    assert "membership" in leak.to_frame()


def test_polynomials_before_a_scaler() -> None:
    X = FRAME[["age", "bmi"]] / 10
    pipe = make_pipeline(pre.PolynomialFeatures(2, include_bias=False), pre.StandardScaler(), lm.Ridge(alpha=4.0))
    leak = fl.measure(clone(pipe).fit(X, Y), X, Y, fl.Gaussian(1.0, np.eye(6)), public="nothing")

    def refit(frame: pd.DataFrame) -> Any:
        made = clone(pipe).fit(frame, Y)
        coef = made[-1].coef_ / made[1].scale_
        return np.append(coef, made[-1].intercept_ - made[1].mean_ @ coef)

    columns = []
    for name in X.columns:
        ends = []
        for sign in (1, -1):
            moved: Any = X.copy()
            moved.loc[7, name] += sign * 1e-5
            ends.append(refit(moved))
        columns.append((ends[0] - ends[1]) / 2e-5)
    assert leak.per_example(label=False)[7] == pytest.approx(np.linalg.norm(np.column_stack(columns), 2), rel=1e-5)
