"""Moves that are followed by the replaced row's own curvature, against fits."""

from __future__ import annotations

import numpy as np
import pytest

import fisherleak as fl
from fisherleak._support.arrays import Array
from fisherleak.engine.changes import changed_fits, solver
from fisherleak.engine.changes.changed_fits import changed_risk, refitted
from fisherleak.engine.changes.quasi_newton import followed_to_minimum
from fisherleak.engine.changes.replacement import replacement_moves
from fisherleak.engine.changes.solver import converged
from fisherleak.engine.changes.starting_fit import StartingFit


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
    monkeypatch.setattr(solver, "refitted", lambda *_: pytest.fail("fitted again"))
    found = replacement_moves(shared, rows, far, labels)
    assert found.refitted == lost.sum()
    exact = shared.fit.uncentred(true.T).T
    np.testing.assert_array_less(np.linalg.norm(found.values - exact, axis=1), found.error + 1e-10)
    np.testing.assert_allclose(found.values[lost], exact[lost], rtol=1e-8, atol=1e-10)


def test_what_has_no_minimum_is_left_to_fits_that_say_so() -> None:
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
