"""Fits of changed tables, one by one and many at once.

Moves that are followed by the replaced row's own curvature, against fits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cases
import fisherleak as fl
from fisherleak._support.arrays import Array
from fisherleak.engine.changes import changed_fits, moves_of_changed_rows
from fisherleak.engine.changes.changed_fits import changed_risk, fitted_at_once, followed_to_minimum, refitted
from fisherleak.engine.changes.moves_of_changed_rows import converged, replacement_moves
from fisherleak.engine.changes.starting_fit import StartingFit
from fisherleak.engine.fit.minimise import risk_of_fit
from often import often


def far_apart(K: int, weighted: bool) -> tuple[Any, Any, Any]:
    """Classes that lie apart, so that another label moves the model far."""
    rng = np.random.default_rng(K)
    y = np.arange(60) % K
    weights = rng.gamma(2.0, 0.5, size=60) if weighted else None
    return rng.normal(size=(60, 3)) + 4.0 * np.eye(K, 3)[y], y.astype(float), weights


@pytest.mark.parametrize(
    ("K", "weighted", "intercept"), often([(3, True, True), (2, False, True), (2, True, False), (4, False, True)])
)
def test_moves_are_those_of_fits_one_by_one(K: int, weighted: bool, intercept: bool) -> None:
    X, y, weights = far_apart(K, weighted)
    fit = fl.minimise(X, y, "logistic" if K == 2 else "softmax", 1e-3, weights, intercept)
    shared, rows = StartingFit(fit, X, y, 60), np.arange(0, 60, 3)
    changed = X[rows] + np.random.default_rng(0).normal(size=(20, 3))
    for new, labels in ((changed, None), (None, (y[rows] + 1) % K), (changed, (y[rows] + 1) % K)):
        changes = shared.replaced(rows, new, labels)
        moves, error, lost = fitted_at_once(shared, changes)
        assert not lost.any()
        for k in range(rows.size):
            true, off = refitted(shared.fit, changed_risk(shared, changes, k))
            size = np.linalg.norm(true)
            assert np.linalg.norm(moves[k] - true) <= error[k] + off + 1e-12 * size
            assert error[k] <= 1e-6 * size


@pytest.mark.parametrize(("K", "weighted", "intercept"), [(2, True, False), (2, False, True), (3, True, True)])
def test_other_labels_of_few_rows_and_many_columns(
    K: int, weighted: bool, intercept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the space of the rows, however many the columns: as far as fits one by one, and within the error that is told."""
    monkeypatch.setattr(changed_fits, "SMALL", 18 * 18 * K)
    rng = np.random.default_rng(K)
    y = np.arange(18) % K
    X, weights = rng.normal(size=(18, 40)) + 2.0 * np.eye(K, 40)[y] + 5.0, None
    if weighted:
        weights = rng.gamma(2.0, 0.5, size=18)
    fit = fl.minimise(X, y.astype(float), "logistic" if K == 2 else "softmax", 1e-3, weights, intercept)
    shared, rows = StartingFit(fit, X, y.astype(float), 18), np.arange(0, 18, 3)
    changes = shared.replaced(rows, None, (y[rows] + 1.0) % K)
    assert changed_fits._changing(shared, changes)[0].basis is not None
    assert changed_fits._changing(shared, shared.replaced(rows, X[rows] + 1.0, None))[0].basis is None
    moves, error, lost = fitted_at_once(shared, changes)
    assert not lost.any()
    for k in range(rows.size):
        true, off = refitted(shared.fit, changed_risk(shared, changes, k))
        assert np.linalg.norm(moves[k] - true) <= error[k] + off + 1e-12 * np.linalg.norm(true)
        assert error[k] <= 1e-6 * np.linalg.norm(true)


@pytest.mark.parametrize("loss", [loss for loss in fl.LOSSES if loss != "gamma"])
def test_other_losses(loss: str) -> None:
    case = cases.make(loss, seed=1, n=50, d=3, weighted=True, intercept=True)
    shared, rows = StartingFit(case.fit(), case.X, case.y, 10), np.arange(0, 50, 5)
    changes = shared.replaced(rows, case.X[rows] + 1.0, None)
    moves, _, lost = fitted_at_once(shared, changes)
    assert not lost.any()
    true = np.stack([refitted(shared.fit, changed_risk(shared, changes, k))[0] for k in range(rows.size)])
    np.testing.assert_allclose(moves, true, rtol=1e-7, atol=1e-10)


def test_what_has_no_minimum_is_left_to_fits_that_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only row that keeps two classes from being told apart, without a penalty: parameters run away without it."""
    X = np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0])[:, None]
    y = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 0.0])
    shared = StartingFit(fl.minimise(X, y, "logistic", 0.0, intercept=True), X, y, 2)
    _, _, lost = fitted_at_once(shared, shared.replaced(np.array([5, 0]), None, np.array([1.0, 1.0])))
    assert lost.tolist() == [True, False]
    monkeypatch.setattr(changed_fits, "SMALL", 5)
    assert fitted_at_once(shared, shared.replaced(np.array([0]), None, np.array([1.0])))[2].all()


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_a_refit_starts_from_a_fit_and_ends_at_the_minimum(loss: str) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2 + (loss == "softmax"), 60) * 1.0
    fit = fl.minimise(X, y, loss, 1e-2)
    other = X.copy()
    other[3] += 1.0
    move, error = refitted(fit, replace(risk_of_fit(fit, X, y), X=other))
    true = fl.minimise(other, y, loss, 1e-2).centred_theta - fit.centred_theta
    assert np.linalg.norm(move - true) <= error + 1e-12


def apart(K: int, weighted: bool, n: int = 900) -> tuple[StartingFit, Array, Array]:
    """Classes that lie apart, so that a row with another label is at first surely wrong."""
    rng = np.random.default_rng(K)
    y = np.arange(n) % K
    X = rng.normal(size=(n, 4)) + 3.0 * np.eye(K, 4)[y]
    weights = rng.gamma(2.0, 0.5, size=n) if weighted else None
    fit = fl.minimise(X, y.astype(float), "logistic" if K == 2 else "softmax", 1e-3, weights, True)
    return StartingFit(fit, X, y.astype(float), n), X, y.astype(float)


@pytest.mark.parametrize(("K", "weighted"), [(2, True), (3, False), (4, True)])
def test_moves_are_those_of_fits(K: int, weighted: bool) -> None:
    shared, X, y = apart(K, weighted)
    rows = np.arange(0, 900, 60)
    changed = X[rows] + np.random.default_rng(0).normal(size=(15, 4))
    for new, labels in ((None, (y[rows] + 1) % K), (changed, (y[rows] + 1) % K), (changed, None)):
        changes = shared.replaced(rows, new, labels)
        hessian = shared.changed_hessian(changes)
        moves, error, lost = followed_to_minimum(shared, changes, hessian)
        assert not lost.any()
        for k in range(rows.size):
            true, off = refitted(shared.fit, changed_risk(shared, changes, k))
            size = np.linalg.norm(true)
            assert np.linalg.norm(moves[k] - true) <= min(error[k], 1e-9 * size) + off
            assert error[k] <= 1e-5 * size


def test_rows_that_steps_lose_are_followed_without_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    shared, X, y = apart(3, False)
    rows, far, labels = np.arange(0, 900, 90), 4.0 * X[::90], (y[::90] + 1) % 3  # one of these outweighs many
    changes = shared.replaced(rows, far, labels)
    hessian = shared.changed_hessian(changes)
    lost = converged(shared, changes, hessian)[2]
    assert lost.any()
    true = np.stack([refitted(shared.fit, changed_risk(shared, changes, k))[0] for k in range(rows.size)])
    monkeypatch.setattr(changed_fits, "SMALL", 5)
    monkeypatch.setattr(moves_of_changed_rows, "refitted", lambda *_: pytest.fail("fitted again"))
    found = replacement_moves(shared, rows, far, labels)
    assert found.refitted == lost.sum()
    exact = shared.fit.uncentred(true.T).T
    np.testing.assert_array_less(np.linalg.norm(found.values - exact, axis=1), found.error + 1e-10)
    np.testing.assert_allclose(found.values[lost], exact[lost], rtol=1e-8, atol=1e-10)


def test_what_has_no_minimum_is_left_to_fits_that_say_so_quasi_newton() -> None:
    """The only row that keeps two classes from being told apart, without a penalty: parameters run away without it."""
    X = np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0])[:, None]
    y = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 0.0])
    shared = StartingFit(fl.minimise(X, y, "logistic", 0.0, intercept=True), X, y, 2)
    changes = shared.replaced(np.array([5]), None, np.array([1.0]))
    hessian = shared.changed_hessian(changes)
    assert followed_to_minimum(shared, changes, hessian)[2].all()


def test_squared_loss_has_nothing_to_follow() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    shared = StartingFit(fl.minimise(X, y, "squared", 0.1), X, y, 1)
    changes = shared.replaced(np.array([3]), None, np.array([9.0]))
    hessian = shared.changed_hessian(changes)
    assert followed_to_minimum(shared, changes, hessian)[2].all()
