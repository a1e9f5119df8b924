"""Fits of many changed tables at once, against fits one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cases
import fisherleak as fl
from fisherleak.engine.replacement import fits_at_once
from fisherleak.engine.replacement.fits_at_once import fitted_at_once
from fisherleak.engine.replacement.replaced_rows import _refit
from fisherleak.engine.replacement.settling import Replacements


def far_apart(K: int, weighted: bool) -> tuple[Any, Any, Any]:
    """Classes that lie apart, so that another label moves the model far."""
    rng = np.random.default_rng(K)
    y = np.arange(60) % K
    weights = rng.gamma(2.0, 0.5, size=60) if weighted else None
    return rng.normal(size=(60, 3)) + 4.0 * np.eye(K, 3)[y], y.astype(float), weights


@pytest.mark.parametrize(
    ("K", "weighted", "intercept"), [(2, False, True), (2, True, False), (3, True, True), (4, False, True)]
)
def test_moves_are_those_of_fits_one_by_one(K: int, weighted: bool, intercept: bool) -> None:
    X, y, weights = far_apart(K, weighted)
    fit = fl.minimise(X, y, "logistic" if K == 2 else "softmax", 1e-3, weights, intercept)
    shared, rows = Replacements(fit, X, y, 60), np.arange(0, 60, 3)
    changed = X[rows] + np.random.default_rng(0).normal(size=(20, 3))
    for new, labels in ((changed, None), (None, (y[rows] + 1) % K), (changed, (y[rows] + 1) % K)):
        changes = shared.changes(rows, new, labels)
        moves, error, lost = fitted_at_once(shared, changes)
        assert not lost.any()
        for k in range(rows.size):
            true, off = _refit(shared, changes, k, "")
            size = np.linalg.norm(true)
            assert np.linalg.norm(moves[k] - true) <= error[k] + off + 1e-12 * size
            assert error[k] <= 1e-6 * size


@pytest.mark.parametrize(("K", "weighted", "intercept"), [(2, True, False), (2, False, True), (3, True, True)])
def test_other_labels_of_few_rows_and_many_columns(K: int, weighted: bool, intercept: bool) -> None:
    """In the space of the rows: as far as fits one by one, and within the error that is told."""
    rng = np.random.default_rng(K)
    y = np.arange(18) % K
    X, weights = rng.normal(size=(18, 40)) + 2.0 * np.eye(K, 40)[y] + 5.0, None
    if weighted:
        weights = rng.gamma(2.0, 0.5, size=18)
    fit = fl.minimise(X, y.astype(float), "logistic" if K == 2 else "softmax", 1e-3, weights, intercept)
    shared, rows = Replacements(fit, X, y.astype(float), 18), np.arange(0, 18, 3)
    changes = shared.changes(rows, None, (y[rows] + 1.0) % K)
    assert fits_at_once._changing(shared, changes)[0].basis is not None
    assert fits_at_once._changing(shared, shared.changes(rows, X[rows] + 1.0, None))[0].basis is None
    moves, error, lost = fitted_at_once(shared, changes)
    assert not lost.any()
    for k in range(rows.size):
        true, off = _refit(shared, changes, k, "")
        assert np.linalg.norm(moves[k] - true) <= error[k] + off + 1e-12 * np.linalg.norm(true)
        assert error[k] <= 1e-6 * np.linalg.norm(true)


@pytest.mark.parametrize("loss", [loss for loss in fl.LOSSES if loss != "gamma"])
def test_other_losses(loss: str) -> None:
    case = cases.make(loss, seed=1, n=50, d=3, weighted=True, intercept=True)
    shared, rows = Replacements(case.fit(), case.X, case.y, 10), np.arange(0, 50, 5)
    changes = shared.changes(rows, case.X[rows] + 1.0, None)
    moves, _, lost = fitted_at_once(shared, changes)
    assert not lost.any()
    true = np.stack([_refit(shared, changes, k, "")[0] for k in range(rows.size)])
    np.testing.assert_allclose(moves, true, rtol=1e-7, atol=1e-10)


def test_what_has_no_minimum_is_left_to_fits_that_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only row that keeps two classes from being told apart, without a penalty: parameters run away without it."""
    X = np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0])[:, None]
    y = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 0.0])
    shared = Replacements(fl.minimise(X, y, "logistic", 0.0, intercept=True), X, y, 2)
    _, _, lost = fitted_at_once(shared, shared.changes(np.array([5, 0]), None, np.array([1.0, 1.0])))
    assert lost.tolist() == [True, False]
    monkeypatch.setattr(fits_at_once, "SMALL", 5)
    assert fitted_at_once(shared, shared.changes(np.array([0]), None, np.array([1.0])))[2].all()
