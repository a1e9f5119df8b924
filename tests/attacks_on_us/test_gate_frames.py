"""Centres and scales that one row moves, whatever stands before the scaler: the gate of fitted models refuses or counts them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

import fisherleak as fl
from fisherleak.engine.norms import one_release
from fisherleak.leakage.measurement import measurement

NOISE = fl.Gaussian(1.0)
ON_G, ON_A = {"columns": {"g": {"max_attack": 0.99}}}, {"columns": {"a": {"min_error": 0.01, "spread": 1.0}}}


def shown(model: Any, X: Any, y: Any) -> Any:
    leak = fl.measure(model.fit(X, y), X, y, noise=NOISE, public="nothing")
    folding = one_release(measurement(leak).information).folding
    assert folding is not None
    return np.asarray(folding.frame).round(9)


def gate(model: Any, X: Any, y: Any, policy: Any, noise: Any = NOISE) -> Any:
    return fl.audit(model.fit(X, y), X, y, noise=noise, policy=policy, public="nothing", attacks="columns" in policy)


def categories(count: int, n: int = 200) -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    g = np.array(["u"] * n, dtype=object)
    g[:count] = "v"
    X = pandas.DataFrame({"g": rng.permutation(g), "a": rng.normal(3, 2, n)})
    return X, pandas.Series(X.a / 2 + 0.8 * (X.g == "v") + rng.normal(size=n), name="y")


def encoded(encoder: Any) -> Any:
    return make_pipeline(ColumnTransformer([("o", encoder, ["g"])], remainder="passthrough"), StandardScaler(), Ridge())


@pytest.mark.parametrize("encoder", [OneHotEncoder(drop="first"), OneHotEncoder(), OrdinalEncoder()])
def test_a_category_before_a_scaler(encoder: Any) -> None:
    """61 of 200: the scale of the indicator is next to an edge, and one row's category takes it across; not so 80 of 200."""
    X, y = categories(61)
    one = X.copy()
    one.loc[np.flatnonzero(X.g == "v")[0], "g"] = "u"
    assert (shown(encoded(encoder), X, y) != shown(encoded(encoder), one, y)).any()
    with pytest.raises(fl.InvalidInputError, match="Leave 'g' out of scalers"):
        gate(encoded(encoder), X, y, ON_G)
    assert gate(encoded(encoder), *categories(80), ON_G).passed


def numbers(seed: int = 0, n: int = 400) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = pandas.DataFrame({"a": rng.normal(0, 1, n), "b": rng.normal(size=n)})
    return X, pandas.Series(X.a + X.b + rng.normal(size=n), name="y")


STEPS: dict[str, tuple[list[Any], int]] = {
    "smallest and largest": ([MinMaxScaler()], 0),
    "quartiles": ([RobustScaler()], 39),
    "squares": ([PolynomialFeatures(2, include_bias=False), StandardScaler()], 2),
    "filled": ([SimpleImputer(), StandardScaler()], 2),
}


@pytest.mark.parametrize("name", STEPS)
def test_every_centre_and_scale_that_another_value_moves(name: str) -> None:
    steps, seed = STEPS[name]
    X, y = numbers(seed)
    if name == "filled":
        X.loc[:3, "a"] = np.nan
        X["a"] *= 1.09  # next to an edge
    model = make_pipeline(*steps, Ridge())
    row, frames = int((X.a - X.a.mean()).abs().argmax()), []
    for value in (-4.0, 0.0, 4.0):
        X.loc[row, "a"] = value
        frames.append(shown(model, X, y))
    assert any((frame != frames[1]).any() for frame in frames)
    # of squares a limit in units is refused before
    says = "is not affine" if name == "squares" else "can change the public centre or scale"
    with pytest.raises(fl.InvalidInputError, match=says):
        gate(model, X, y, ON_A)


def test_declared_bounds_are_the_remedy_of_standard_deviations() -> None:
    X, y = numbers()
    X["a"] += 0.5 - X.a.mean()  # between two centres
    model = make_pipeline(StandardScaler(), Ridge(alpha=100.0)).fit(X, y)
    with pytest.raises(fl.InvalidInputError, match="over='any-record'"):
        gate(model, X, y, ON_A)
    leak = fl.measure(model, X, y, noise=NOISE, public="nothing")
    bounds = {"a": (-5.0, 5.0), "b": (-5.0, 5.0), "label": (-10.0, 10.0)}
    noise = fl.calibrate(leak, 3.0, over="any-record", bounds=bounds)
    assert gate(model, X, y, ON_A, noise).passed is not None
    with pytest.raises(fl.InvalidInputError, match="Leave 'a' out of scalers"):
        gate(make_pipeline(MinMaxScaler(), Ridge()), X, y, ON_A)
    beside = ColumnTransformer([("s", StandardScaler(), ["b"])], remainder="passthrough")
    assert gate(make_pipeline(beside, Ridge()), X, y, ON_A).passed is not None


def test_membership_of_a_median_counts_its_row_as_recognised() -> None:
    """Which centre is public without a row is not known for a median: 100 % is said."""
    X, y = numbers()
    model = make_pipeline(RobustScaler(with_scaling=False), Ridge())
    leak = fl.measure(model.fit(X, y), X, y, noise=NOISE, public="nothing")
    assert np.isinf(leak.membership()).all()


@pytest.mark.parametrize("encoder", [OneHotEncoder(drop="first"), OneHotEncoder()])
def test_membership_sees_indicators(encoder: Any) -> None:
    X, y = categories(60)
    model = encoded(encoder)
    leak, whole = fl.measure(model.fit(X, y), X, y, noise=NOISE, public="nothing"), shown(model, X, y)
    rows = [int(np.flatnonzero(X.g == level)[0]) for level in ("u", "v")]
    moved = [bool((shown(model, X.drop(index=row), y.drop(index=row)) != whole).any()) for row in rows]
    assert np.isinf(leak.membership())[rows].tolist() == moved
    assert any(moved)
