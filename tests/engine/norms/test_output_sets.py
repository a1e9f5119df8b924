"""Sets and columns of several outputs, by products and by Gram matrices, against Jacobians that are written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, RobustScaler, StandardScaler

import fisherleak as fl
from fisherleak._support.arrays import host
from fisherleak.engine.norms import largest_eigenvalues as largest
from fisherleak.engine.norms import output_sets
from fisherleak.engine.norms.largest_eigenvalues import top_by_products
from fisherleak.engine.norms.several_outputs import SeveralOutputs

EXACT: dict[str, Any] = {"solver": "newton-cg", "tol": 1e-12, "max_iter": 1000}


def people(n: int = 60, K: int = 4) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(2)
    table = pd.DataFrame(rng.normal(size=(n, 3)) * [1.0, 20.0, 0.1] + 2.0, columns=["age", "weight", "dose"])
    table["gene"] = rng.choice(["AA", "AB", "BB"], n)
    y = np.argmax(table[["age", "dose"]].to_numpy() @ rng.normal(size=(2, K)) + 2.0 * rng.gumbel(size=(n, K)), axis=1)
    return table, y


def folded(scaler: Any, weighted: bool = False) -> Any:
    table, y = people()
    columns = ColumnTransformer([("n", scaler, ["age", "weight", "dose"]), ("c", OneHotEncoder(), ["gene"])])
    weights = np.random.default_rng(0).random(60) + 0.2 if weighted else None
    model = make_pipeline(columns, LogisticRegression(C=0.5, **EXACT))
    model.fit(table, y, logisticregression__sample_weight=weights)
    return fl.measure(model, table, y, sample_weight=weights, public="nothing"), y


def flat(J: Any) -> Any:
    return np.concatenate(list(J), axis=1)


@pytest.mark.parametrize(("scaler", "weighted"), [(StandardScaler(), True), (RobustScaler(), False)])
def test_sets_behind_scalers_are_those_of_the_jacobian_that_is_written_out(scaler: Any, weighted: bool) -> None:
    leak, y = folded(scaler, weighted)
    every = leak._information.attributes
    J = leak._information.written_out(every, True, None)
    assert leak.dataset() == pytest.approx(np.linalg.norm(flat(J), 2), rel=1e-11)
    for group, eta in leak.by_group(y).items():
        assert eta == pytest.approx(np.linalg.norm(flat(J[y == group]), 2), rel=1e-11)
    for k, attribute in enumerate(every):
        own = flat(leak._information.written_out([attribute], False, None))
        assert leak.per_attribute()[k] == pytest.approx(np.linalg.norm(own, 2), rel=1e-11)
    some = [every[0], every[3]]
    own = flat(leak._information.written_out(some, True, np.array([2, 5, 9])))
    assert leak.of([2, 5, 9], ["age", "gene"], label=True) == pytest.approx(np.linalg.norm(own, 2), rel=1e-11)


@pytest.mark.parametrize("scaled", [False, True])
def test_columns_by_products_are_those_of_gram_matrices(monkeypatch: pytest.MonkeyPatch, scaled: bool) -> None:
    if scaled:
        leak = folded(StandardScaler(), True)[0]
    else:
        table, y = people()
        X = table[["age", "weight", "dose"]].to_numpy()
        fit = fl.minimise(X, y, loss="softmax", l2=1e-2, intercept=True, sample_weight=np.linspace(0.5, 2.0, 60))
        leak = fl.measure(fit, X, y, fl.Gaussian(0.5))
    by_grams = leak.per_attribute()
    monkeypatch.setattr(output_sets, "MANY_PARAMETERS", 0)
    monkeypatch.setattr(output_sets._Columns, "by_grams", lambda self, places: [_none() for _ in places])
    np.testing.assert_allclose(leak.per_attribute(), by_grams, rtol=1e-11)


def _none() -> float:
    raise AssertionError("no column may need its Gram matrix here")


def test_columns_by_products_on_every_library(monkeypatch: pytest.MonkeyPatch, to_rows: Callable[[Any], Any]) -> None:
    """Lazy rows are read once, for Gram matrices."""
    table, y = people()
    X = table[["age", "weight", "dose"]].to_numpy()
    fit = fl.minimise(X, y, loss="softmax", l2=1e-2, intercept=True)
    wanted = fl.measure(fit, X, y).per_attribute()
    monkeypatch.setattr(output_sets, "MANY_PARAMETERS", 0)
    there, labels = to_rows(X), to_rows(y)
    found = fl.measure(fl.minimise(there, labels, loss="softmax", l2=1e-2, intercept=True), there, labels)
    np.testing.assert_allclose(host(found.per_attribute()), wanted, rtol=1e-9)


def test_columns_that_do_not_settle_get_their_gram_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    leak = folded(StandardScaler())[0]
    wanted = leak.per_attribute()
    monkeypatch.setattr(output_sets, "MANY_PARAMETERS", 0)
    monkeypatch.setattr(largest, "CHECKS", (1, 2))
    np.testing.assert_allclose(leak.per_attribute(), wanted, rtol=1e-12)


def test_two_values_that_are_almost_one_are_told_apart_by_residuals() -> None:
    """Whoever trusts the gap to the third one takes their mean, and states an error of 1e-11 for one of 5e-7."""
    values = np.append([1.0, 1.0 - 1e-6], np.linspace(0.5, 0.0, 200))
    product = lambda state, V: state[0] * V  # noqa: E731
    found, errors = top_by_products(product, (values[None, :],), values.size, 4e-11, compiled=False)
    assert errors[0] <= 4e-11
    assert abs(found[0] - 1.0) <= 4e-11


@pytest.mark.long
def test_columns_of_the_digits_are_those_of_gram_matrices() -> None:
    X, y = load_digits(return_X_y=True)
    X = X[:600] / 16.0
    leak = fl.measure(fl.minimise(X, y[:600], loss="softmax", l2=1e-3), X, y[:600])
    assert isinstance(leak._information, SeveralOutputs)
    J = leak._information.releases[0].jacobian
    assert J.B.shape[0] >= output_sets.MANY_PARAMETERS
    columns = output_sets._Columns(J, J.attributes)
    some = range(3, 64, 9)
    np.testing.assert_allclose(leak.per_attribute()[some], np.sqrt(columns.by_grams(some)), rtol=1e-11)
