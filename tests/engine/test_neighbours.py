"""Moves of the parameters against true fits of every neighbouring data set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cases
import fisherleak as fl
from fisherleak.engine import neighbours
from fisherleak.engine.neighbours import moves

SETTINGS = [(False, False), (True, False), (False, True), (True, True)]


def refitted(case: cases.Case, row: int, features: cases.Vector) -> cases.Vector:
    X = case.X.copy()
    X[row] = features
    return cases.parameters(replace(case, X=X).fit())


def errors(case: cases.Case, changed: cases.Vector, rows: Any) -> tuple[cases.Vector, cases.Vector, cases.Vector]:
    """Largest error of each move, its bound, and the move's size."""
    fit = case.fit()
    found = moves(fit, case.X, case.y, rows, changed)
    true = np.stack([refitted(case, i, x) for i, x in zip(rows, changed, strict=True)]) - cases.parameters(fit)
    return np.linalg.norm(found.values - true, axis=1), found.error, np.linalg.norm(true, axis=1)


@pytest.mark.parametrize(("weighted", "intercept"), SETTINGS)
@pytest.mark.parametrize("loss", list(fl.LOSSES))
def test_moves_are_those_of_refitted_models(loss: str, weighted: bool, intercept: bool) -> None:
    case = cases.make(loss, seed=3, n=60, d=4, weighted=weighted, intercept=intercept)
    rng = np.random.default_rng(0)
    changed = case.X.copy()
    changed[:, 1] = rng.normal(size=60)
    changed[::2, 2] += 1.0
    rows = np.arange(0, 60, 3)
    error, bound, size = errors(case, changed[rows], rows)
    counted = size > 0
    assert (error[counted] <= 1e-7 * size[counted]).all()
    if loss == "squared":
        assert (error[counted] <= 1e-10 * size[counted]).all()
    elif not intercept:
        assert (error[counted] <= bound[counted] + 1e-9 * size[counted]).all()
    if weighted:
        assert size[10] == 0  # row 30
        assert error[10] == 0


def test_what_does_not_change_does_not_move() -> None:
    for loss in fl.LOSSES:
        case = cases.make(loss, intercept=True)
        found = moves(case.fit(), case.X, case.y, np.arange(40), case.X)
        assert np.abs(found.values).max() <= (0.0 if loss == "squared" else 1e-9)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_units_do_not_matter(scale: float) -> None:
    case = cases.make("squared", n=30, scale=scale, intercept=True)
    changed = case.X + scale
    error, _, size = errors(case, changed, np.arange(30))
    assert (error <= 1e-9 * size).all()


def test_columns_far_from_zero_keep_their_digits() -> None:
    case = cases.make("squared", n=50, intercept=True, l2=0.0)
    far = replace(case, X=case.X + 1e6)
    step = np.zeros(3)
    step[0] = 1.0
    near, far_off = (moves(c.fit(), c.X, c.y, np.arange(50), c.X + step).values[:, :3] for c in (case, far))
    np.testing.assert_allclose(near, far_off, rtol=1e-6)


def test_a_violent_change_is_fitted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "MOST_CHORDS", 1)
    case = cases.make("logistic", n=25, d=2, l2=1e-2)
    changed = case.X + 10.0
    fit = case.fit()
    found = moves(fit, case.X, case.y, np.arange(25), changed)
    assert found.refitted > 0
    true = np.stack([refitted(case, i, changed[i]) for i in range(25)]) - cases.parameters(fit)
    np.testing.assert_allclose(found.values, true, rtol=1e-6, atol=1e-9)


def test_a_change_that_leaves_the_model_undetermined_is_refused() -> None:
    X = np.column_stack([np.arange(6.0), np.eye(6)[:, 2]])
    fit = fl.minimise(X, np.arange(6.0) ** 2)
    changed = X.copy()
    changed[2, 1] = 0.0
    with pytest.raises(fl.SingularHessianError, match="With the change in row 2 there is no model to compare with"):
        moves(fit, X, np.arange(6.0) ** 2, np.array([2]), changed[[2]])


@pytest.mark.parametrize("loss", list(fl.LOSSES))
def test_what_does_not_change_is_not_fitted_again(loss: str) -> None:
    case = cases.make(loss, n=60, weighted=True)
    changed = case.X.copy()
    changed[::2, 0] += 0.5
    found = moves(case.fit(), case.X, case.y, np.arange(60), changed)
    assert found.refitted == 0
    assert (found.values[1::2] == 0).all()
    assert (found.values[30] == 0).all()  # no weight
    assert (np.abs(found.values[0:30:2]).max(axis=1) > 0).all()


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_row_that_outweighs_all_others_is_fitted_again(loss: str) -> None:
    case = cases.make(loss, n=60, l2=1e-2)
    X = case.X.copy()
    X[7, 0] = 1e6
    case = replace(case, X=X)
    changed = X[[7]].copy()
    changed[0, 0] = 1.0
    fit = case.fit()
    found = moves(fit, X, case.y, np.array([7]), changed)
    assert found.refitted == int(loss == "squared")
    true = refitted(case, 7, changed[0]) - cases.parameters(fit)
    np.testing.assert_allclose(found.values[0], true, rtol=1e-8)
    assert np.linalg.norm(found.values[0] - true) <= found.error[0] + 1e-12


def test_the_error_of_the_squared_loss_counts_collinear_columns() -> None:
    """Against refits in extended precision."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    X[:, 2] = X[:, 0] + 1e-4 * X[:, 2]
    y = rng.normal(size=40)
    fit = fl.minimise(X, y, l2=1e-12)
    changed = X.copy()
    changed[:, 1] += 1.0
    found = moves(fit, X, y, np.arange(40), changed)

    def exact(rows: cases.Vector) -> NDArray[np.longdouble]:
        wide = rows.astype(np.longdouble)
        H, b = wide.T @ wide + np.longdouble(40e-12) * np.eye(3), wide.T @ y.astype(np.longdouble)
        theta = np.zeros(3, dtype=np.longdouble)
        for _ in range(6):
            theta += np.linalg.solve(H.astype(float), (b - H @ theta).astype(float))
        return theta

    base = exact(X)
    for i in range(0, 40, 5):
        other = X.copy()
        other[i] = changed[i]
        error = float(np.linalg.norm((found.values[i] - (exact(other) - base)).astype(float)))
        assert error <= 20 * found.error[i]
