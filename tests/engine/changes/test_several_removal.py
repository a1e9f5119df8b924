"""Presence of rows in models of several outputs: the moves of refits without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from fisherleak._support.arrays import host


def people(n: int, d: int, K: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) + rng.normal(size=d)
    y = np.argmax(X @ rng.normal(size=(d, K)) + 2.0 * rng.gumbel(size=(n, K)), axis=1)
    y[: 2 * K] = np.tile(np.arange(K), 2)
    return X, y


def refits(X: Any, y: Any, weights: Any, scale: float, **given: Any) -> Any:
    """mu of every row, by fitting without it; n l2 is kept."""
    n = len(X)
    base = fl.minimise(X, y, l2=1e-2, sample_weight=weights, **given).theta
    found = []
    for i in range(n):
        kept = np.arange(n) != i
        own = None if weights is None else weights[kept]
        fit = fl.minimise(X[kept], y[kept], l2=1e-2 * n / (n - 1), sample_weight=own, **given)
        found.append(np.linalg.norm(fit.theta - base) / scale)
    return np.array(found)


@pytest.mark.parametrize(
    ("K", "intercept", "weighted"), [(2, True, True), (3, False, False), (3, True, True), (10, True, False)]
)
def test_membership_is_the_move_of_refits(K: int, intercept: bool, weighted: bool) -> None:
    X, y = people(60, 3, K)
    weights = np.random.default_rng(1).random(60) + 0.2 if weighted else None
    for loss, labels in (("softmax", y), ("squared", np.eye(K)[y] + 0.1)):
        given: Any = {"loss": loss, "intercept": intercept}
        fit = fl.minimise(X, labels, l2=1e-2, sample_weight=weights, **given)
        mu = fl.measure(fit, X, labels, fl.Gaussian(0.5)).membership(1e-8)
        np.testing.assert_allclose(mu, refits(X, labels, weights, 0.5, **given), rtol=2e-8)


def test_the_same_in_every_library(to_backend: Callable[[Any], Any]) -> None:
    X, y = people(20, 3, 3)
    here = fl.measure(fl.minimise(X, y, loss="softmax", l2=1e-2, intercept=True), X, y)
    x, labels = to_backend(X), to_backend(y)
    there = fl.measure(fl.minimise(x, labels, loss="softmax", l2=1e-2, intercept=True), x, labels)
    np.testing.assert_allclose(host(there.membership(1e-8)), here.membership(1e-8), rtol=1e-10)
    np.testing.assert_allclose(host(there.revealed()), here.revealed(), rtol=1e-10)
    np.testing.assert_allclose(there.to_frame().to_numpy(), here.to_frame().to_numpy(), rtol=1e-10)


def test_two_classes_are_the_logistic_loss_at_half_the_penalty() -> None:
    X, y = people(60, 3, 2)
    two = fl.measure(fl.minimise(X, y, loss="softmax", l2=2e-2, intercept=True), X, y)
    one = fl.measure(fl.minimise(X, y, loss="logistic", l2=1e-2, intercept=True), X, y)
    np.testing.assert_allclose(two.membership(1e-8), one.membership(1e-8) / np.sqrt(2.0), rtol=1e-7)


def test_the_only_row_of_a_class_tells_for_certain_beside_an_intercept() -> None:
    X, y = people(60, 2, 2)
    y[7] = 2
    free = fl.measure(fl.minimise(X, y, loss="softmax", l2=1e-2, intercept=True), X, y).membership(1e-8)
    assert np.flatnonzero(np.isinf(free)).tolist() == [7]
    held = fl.measure(fl.minimise(X, y, loss="softmax", l2=1e-2), X, y).membership(1e-8)
    assert np.isfinite(held).all()


def test_a_row_without_weight_was_never_there() -> None:
    X, y = people(60, 2, 3)
    weights = np.ones(60)
    weights[9] = 0.0
    leak = fl.measure(fl.minimise(X, y, loss="softmax", l2=1e-2, sample_weight=weights), X, y)
    assert leak.membership(1e-8)[9] == 0.0


def test_shaped_noise_sees_moves_as_it_does() -> None:
    X, y = people(60, 2, 3)
    fit = fl.minimise(X, y, loss="softmax", l2=1e-2)
    isotropic = fl.measure(fit, X, y, fl.Gaussian(2.0)).membership(1e-8)
    shaped = fl.measure(fit, X, y, fl.Gaussian(1.0, 4.0 * np.eye(6))).membership(1e-8)
    np.testing.assert_allclose(shaped, isotropic, rtol=1e-10)
    with pytest.raises(fl.InvalidInputError, match="must be normal"):
        fl.measure(fit, X, y, fl.Laplace(1.0)).membership(1e-8)


def test_rows_that_do_not_settle_are_fitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = people(40, 2, 3)
    leak = fl.measure(fl.minimise(X, y, loss="softmax", l2=1e-2), X, y)
    settled = leak.membership(1e-8)
    monkeypatch.setattr("fisherleak.engine.changes.solver.PATIENCE", 0)
    np.testing.assert_allclose(leak.membership(1e-8), settled, rtol=2e-8)


def test_lazy_rows_have_a_closed_form_only() -> None:
    array = pytest.importorskip("dask.array")
    X, y = people(60, 2, 3)
    rows, labels = array.from_array(X, chunks=(17, 2)), array.from_array(np.eye(3)[y], chunks=(17, 3))
    leak = fl.measure(fl.minimise(rows, labels, l2=1e-2), rows, labels)
    here = fl.measure(fl.minimise(X, np.eye(3)[y], l2=1e-2), X, np.eye(3)[y])
    np.testing.assert_allclose(leak.membership(1e-8).compute(), here.membership(1e-8), rtol=1e-10)
    codes = array.from_array(y, chunks=17)
    with pytest.raises(fl.InvalidInputError, match="Dask rows"):
        fl.measure(fl.minimise(rows, codes, loss="softmax", l2=1e-2), rows, codes).membership(1e-8)


@pytest.mark.parametrize("folded", [False, True])
def test_many_rows_need_no_pass_over_all_others_each(folded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = people(1200, 3, 3)
    n, l2 = 1200, 0.05
    model: Any = fl.minimise(X, y, loss="softmax", l2=l2, intercept=True)
    leak = fl.measure(model, X, y)
    if folded:
        sklearn = pytest.importorskip("sklearn.pipeline")
        scaler = pytest.importorskip("sklearn.preprocessing").StandardScaler()
        logistic = pytest.importorskip("sklearn.linear_model").LogisticRegression(
            C=1 / (n * l2), tol=1e-12, max_iter=9999
        )
        leak = fl.measure(sklearn.make_pipeline(scaler, logistic).fit(X, y), X, y, public="nothing")
    exact = leak.membership(1e-8)
    passes: list[int] = []

    def not_known(shared: Any, changes: Any, hessian: Any, values: Any) -> Any:
        passes.append(changes.rows.size)
        return values * np.nan, 0.0 * values[:, 0], np.zeros(len(values), dtype=bool)

    monkeypatch.setattr("fisherleak.engine.changes.solver._chords", not_known)
    close = leak.membership(1e-3)
    assert sum(passes) < 0.01 * n
    known = np.isfinite(close)
    np.testing.assert_allclose(close[known], exact[known], rtol=1e-3)
    if not folded:
        for row in np.argsort(exact)[[-1, -2, n // 2, 0]]:
            kept = np.arange(n) != row
            other = fl.minimise(X[kept], y[kept], loss="softmax", l2=l2 * n / (n - 1), intercept=True)
            assert exact[row] == pytest.approx(np.linalg.norm(other.theta - model.theta), rel=2e-8)
            assert close[row] == pytest.approx(exact[row], rel=1e-3)
