"""Columns behind folded scalers: one pass gives what the written-out Jacobians give."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model as lm
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler

import fisherleak as fl

RNG = np.random.default_rng(0)
N = 300
NUMBERS = {"a": RNG.normal(3.0, 5.0, N), "b": RNG.normal(0.0, 1.0, N), "d": RNG.normal(9.0, 0.1, N)}
TABLE = pd.DataFrame({**NUMBERS, "c": RNG.choice(list("xyz"), N)})
TARGET = TABLE.a + RNG.normal(size=N) + 3.0 * (TABLE.c == "x")
MODELS = [(lm.Ridge(3.0), TARGET), (lm.LogisticRegression(tol=1e-10, solver="newton-cholesky"), TARGET > 3.0)]


@pytest.mark.parametrize("drop", [None, "first"])
@pytest.mark.parametrize(("model", "y"), MODELS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler(), RobustScaler()])
def test_all_columns_at_once_are_those_of_the_dense_jacobian(scaler: Any, model: Any, y: Any, drop: Any) -> None:
    steps = [("numbers", scaler, list(NUMBERS)), ("levels", OneHotEncoder(drop=drop), ["c"])]
    pipeline = make_pipeline(ColumnTransformer(steps), model).fit(TABLE, y)
    leak = fl.measure(pipeline, TABLE, y, public="nothing")
    information = leak._information
    dense = np.asarray(information.written_out(information.attributes, False, None))
    edges = np.cumsum([0, *(attribute.size for attribute in information.attributes)])
    expected = [np.linalg.norm(np.concatenate(dense[:, :, start:end], axis=1), 2) for start, end in pairwise(edges)]
    found = information.attribute_norms(information.attributes)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
