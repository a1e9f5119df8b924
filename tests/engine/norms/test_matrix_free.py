"""Several releases, and preprocessing that is not affine, against Jacobians that are written out and decomposed.

Columns behind folded scalers: one pass gives what the written-out Jacobians give.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn import linear_model as lm
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

import fisherleak as fl
from cases import dense_jacobian, flat, make, norms
from fisherleak.engine.norms import largest_eigenvalues as largest
from fisherleak.engine.norms import matrix_free
from fisherleak.engine.norms.matrix_free import MatrixFree
from fisherleak.engine.norms.shared_basis import SharedBasis
from often import often

Vector = NDArray[np.float64]
CLOSE = 1e-10


def local_attributes(case: Any, seed: int, width: int) -> list[fl.Attribute]:
    """Every attribute reaches some columns, in directions of its own for every row; one is shared by all rows."""
    rng = np.random.default_rng(seed)
    n, d = case.X.shape
    some = [rng.choice(d, size=min(3, d), replace=False).tolist() for _ in range(width - 1)]
    local = [fl.Attribute(f"a{k}", c, rng.normal(size=(n, len(c), 1 + k % 2))) for k, c in enumerate(some)]
    return [*local[:2], fl.Attribute("fixed", [0, d - 1], rng.normal(size=(2, 2))), *local[2:]]


def dense_local(case: Any, fit: fl.Fit, attributes: list[fl.Attribute]) -> Vector:
    """(n, p, m + 1) with E_i written out row by row."""
    n, d = case.X.shape
    p = d + int(case.intercept)
    rows = []
    whole = dense_jacobian(case, fit)
    for i in range(n):
        columns = []
        for attribute in attributes:
            D = attribute.directions if attribute.directions is not None else np.eye(len(attribute.columns))
            E = np.zeros((d, attribute.size))
            E[list(attribute.columns)] = D[i] if D.ndim == 3 else D
            columns.append(E)
        rows.append(np.column_stack([whole[i][:, :d] @ np.concatenate(columns, axis=1), whole[i][:, d:]]))
    assert rows[0].shape[0] == p
    return np.stack(rows)


@pytest.fixture(params=["by products", "written out"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["portable", "compiled"], autouse=True)
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Both ways, portable and compiled, whatever the size; compiled blocks are cut."""
    monkeypatch.setattr(matrix_free, "WRITTEN_OUT", 0 if way == "by products" else 10_000)
    if request.param == "compiled":
        kernels = pytest.importorskip("fisherleak.engine.norms.kernels.releases_numba")
        monkeypatch.setattr(kernels, "GRAM_VALUES", 1)
        monkeypatch.setattr(matrix_free, "COMPILED_FROM", 0)
        monkeypatch.setattr(largest, "COMPILED_FROM", 0)


@pytest.mark.parametrize("loss", often(["squared", "logistic", "gamma"], 2))
@pytest.mark.parametrize("intercept", often([True, False]))
@pytest.mark.parametrize("width", [3, 9])
def test_maps_that_differ_from_row_to_row(loss: str, intercept: bool, width: int) -> None:
    case = make(loss, 1, 30, 5, weighted=True, intercept=intercept)
    fit = case.fit()
    attributes = local_attributes(case, 2, width)
    leak = case.leak(attributes=attributes)
    assert isinstance(leak._information, MatrixFree)
    every = list(leak._information.attributes)
    J = dense_local(case, fit, every)
    np.testing.assert_allclose(leak.per_example(), norms(J), rtol=CLOSE, atol=1e-300)
    np.testing.assert_allclose(leak.per_example(label=False), norms(J[:, :, :-1]), rtol=CLOSE, atol=1e-300)
    assert leak.dataset() == pytest.approx(np.linalg.norm(flat(J), 2), rel=CLOSE)
    assert leak.of([3, 7]) == pytest.approx(np.linalg.norm(flat(J[[3, 7]]), 2), rel=CLOSE)
    edges = np.cumsum([0, *leak.sizes]).tolist()
    for k, (a, b) in enumerate(pairwise(edges)):
        np.testing.assert_allclose(leak.per_cell()[:, k], norms(J[:, :, a:b]), rtol=CLOSE, atol=1e-300)
        assert leak.per_attribute()[k] == pytest.approx(np.linalg.norm(flat(J[:, :, a:b]), 2), rel=CLOSE)
    F = flat(J[[2, 4]])
    np.testing.assert_allclose(leak.fim([2, 4]), F.T @ F, rtol=1e-9, atol=1e-12 * float(np.linalg.norm(F, 2)) ** 2)


@pytest.mark.parametrize("intercepts", [(False, False), (True, False), (True, True)])
def test_compositions_stack_their_jacobians(intercepts: tuple[bool, bool]) -> None:
    one = make("squared", 3, 40, 6, weighted=True, intercept=intercepts[0])
    two = make("pseudo_huber", 3, 40, 6, intercept=intercepts[1])
    two = type(two)(one.X, one.y, two.loss, 0.3, two.weights, two.intercept)
    noise = fl.Gaussian(0.3), fl.Gaussian(2.0)
    both = fl.compose(one.leak(noise[0]), two.leak(noise[1]))
    J = np.concatenate([dense_jacobian(one, one.fit()) / 0.3, dense_jacobian(two, two.fit()) / 2.0], axis=1)
    np.testing.assert_allclose(both.per_example(), norms(J), rtol=CLOSE)
    np.testing.assert_allclose(both.per_example([1, 4], label=True), norms(J[:, :, [1, 4, 6]]), rtol=CLOSE)
    np.testing.assert_allclose(both.per_label(), norms(J[:, :, 6:]), rtol=CLOSE)
    assert both.dataset() == pytest.approx(np.linalg.norm(flat(J), 2), rel=CLOSE)
    assert both.by_group(np.arange(40) % 3)[1] == pytest.approx(np.linalg.norm(flat(J[1::3]), 2), rel=CLOSE)
    np.testing.assert_allclose(both.per_cell()[:, 2], norms(J[:, :, [2]]), rtol=CLOSE)


@pytest.mark.parametrize(
    "step", [PolynomialFeatures(2, include_bias=False), SplineTransformer(n_knots=4)], ids=["polynomial", "spline"]
)
def test_pipelines_composed_with_other_pipelines(step: Any) -> None:
    rng = np.random.default_rng(0)
    X, n = rng.normal(size=(60, 4)), 60
    y = X[:, 0] + rng.normal(size=n)
    curved = fl.measure(make_pipeline(step, lm.Ridge()).fit(X, y), X, y)
    plain = fl.measure(make_pipeline(StandardScaler(), lm.Ridge()).fit(X, y), X, y, fl.Gaussian(0.5))
    both = fl.compose(curved, plain)
    J = np.concatenate(
        [
            leak._information.written_out(leak._information.attributes, True, None) / leak.noise.scale
            for leak in (curved, plain)
        ],
        axis=1,
    )
    np.testing.assert_allclose(both.per_example(), norms(J), rtol=CLOSE)
    assert both.dataset() == pytest.approx(np.linalg.norm(flat(J), 2), rel=CLOSE)


def test_hostile_rows() -> None:
    """Perfect fits (r = 0), rows of zeros, rows without weight, repeated rows, and columns far from one."""
    case = make("squared", 5, 50, 7, weighted=True)
    case.X[3] = 0.0
    case.X[4] = case.X[5]
    case.X[:, 6] *= 1e6
    fit = case.fit()
    case.y[8] = float(case.X[8] @ fit.coef)
    case.y[4] = case.y[5]
    leak = case.leak()
    both = fl.compose(leak, case.leak(fl.Gaussian(3.0)))
    J = dense_jacobian(case, case.fit())
    stacked = np.concatenate([J, J / 3.0], axis=1)
    np.testing.assert_allclose(both.per_example(), norms(stacked), rtol=1e-9, atol=1e-300)
    assert float(both.per_example()[25]) == 0.0


def test_terms_that_cancel_are_written_out() -> None:
    """One row whose direct effect undoes the indirect one along the only strong direction: squares would lose its digits."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 4)) * np.array([1e-5, 1.0, 1.0, 1.0])
    y = X @ np.array([1e4, 0.0, 0.0, 0.0]) + 0.1 * rng.normal(size=30)
    leaks = [fl.measure(fl.minimise(X, y, l2=l2), X, y) for l2 in (1e-14, 2e-14)]
    both = fl.compose(*leaks)
    J = np.concatenate([leak._information.written_out(leak._information.attributes, True, None) for leak in leaks], 1)
    np.testing.assert_allclose(both.per_example(), norms(J), rtol=1e-9)


def test_one_release_alone_keeps_the_shared_basis_where_it_has_one() -> None:
    case = make("squared", 1, 30, 5)
    leak = case.leak(attributes=local_attributes(case, 2, 3))
    assert isinstance(case.leak()._information, SharedBasis)
    J = dense_local(case, case.fit(), list(leak._information.attributes))
    edges = np.cumsum([0, *leak.sizes])
    k = leak.attributes.index("fixed")
    np.testing.assert_allclose(
        leak.per_example(["fixed"]), norms(J[:, :, edges[k] : edges[k + 1]]), rtol=1e-12, atol=1e-300
    )


def test_calibration_counts_the_error_of_iterations() -> None:
    case = make("squared", 1, 30, 5)
    leak = case.leak(attributes=local_attributes(case, 2, 9))
    noise = fl.calibrate(leak, 0.5)
    J = dense_local(case, case.fit(), list(leak._information.attributes))
    assert norms(J).max() / noise.scale <= 0.5
    assert norms(J).max() / noise.scale > 0.5 * (1 - 1e-9)


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
