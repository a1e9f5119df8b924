"""Moves of the parameters when all rows of a set change together, against true fits of the changed data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

import cases
import fisherleak as fl
from fisherleak.engine.changes import solver
from fisherleak.engine.changes.replacement import replacement_moves
from fisherleak.engine.changes.starting_fit import StartingFit

Rows = NDArray[np.int64]


def people(n: int) -> list[Rows]:
    return np.split(np.random.default_rng(0).permutation(n), np.cumsum([1, 2, 3, 5, 8, 13]))[:6]


@pytest.mark.parametrize("n", [60, 900])
@pytest.mark.parametrize(("weighted", "intercept"), [(False, True), (True, False)])
@pytest.mark.parametrize("loss", list(fl.LOSSES))
def test_moves_are_those_of_refitted_models(loss: str, weighted: bool, intercept: bool, n: int) -> None:
    """Few rows by chords alone, many with the third derivative first: within the error that is told."""
    case = cases.make(loss, seed=3, n=n, d=4, weighted=weighted, intercept=intercept)
    sets, fit = people(n), case.fit()
    new = case.X.copy()
    new[:, 1] = 0.7
    shared = StartingFit(fit, case.X, case.y, 500)
    found = replacement_moves(shared, sets, new[np.concatenate(sets)])
    for k, rows in enumerate(sets):
        X = case.X.copy()
        X[rows] = new[rows]
        true = cases.parameters(replace(case, X=X).fit()) - cases.parameters(fit)
        off, size = np.linalg.norm(found.values[k] - true), np.linalg.norm(true)
        assert off <= found.error[k] + 1e-9 * size
        assert off <= (1e-10 if loss == "squared" else 1e-4) * size


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
def test_labels_change_together(loss: str) -> None:
    case = cases.make("squared" if loss == "softmax" else loss, seed=3, n=80, d=3)
    y = np.digitize(case.y, [-0.3, 0.5]).astype(float) if loss == "softmax" else case.y
    fit = fl.minimise(case.X, y, loss, 1e-2, None, True)
    sets, new = people(80), np.ones(80)
    found = replacement_moves(StartingFit(fit, case.X, y, 6), sets, None, new[np.concatenate(sets)])
    for k, rows in enumerate(sets):
        other = y.copy()
        other[rows] = 1.0
        true = np.ravel(fl.minimise(case.X, other, loss, 1e-2, None, True).theta) - np.ravel(fit.theta)
        assert np.linalg.norm(found.values[k] - true) <= 1e-4 * np.linalg.norm(true)


def test_a_softmax_model_moves_with_the_features_of_a_set() -> None:
    rng = np.random.default_rng(1)
    X, weights = rng.normal(size=(90, 3)), rng.uniform(0.3, 2.0, 90)
    y = np.argmax(X @ rng.normal(size=(3, 3)) + rng.gumbel(size=(90, 3)), axis=1).astype(float)
    fit, sets = fl.minimise(X, y, "softmax", 1e-2, weights, True), people(90)
    new = X.copy()
    new[:, 0] = 1.0
    found = replacement_moves(StartingFit(fit, X, y, 6), sets, new[np.concatenate(sets)])
    for k, rows in enumerate(sets):
        other = X.copy()
        other[rows] = new[rows]
        true = np.ravel(fl.minimise(other, y, "softmax", 1e-2, weights, True).theta) - np.ravel(fit.theta)
        assert np.linalg.norm(found.values[k] - true) <= 1e-4 * np.linalg.norm(true)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_set_of_one_row_is_the_row(loss: str) -> None:
    case = cases.make(loss, n=70, d=3, intercept=True)
    rows, new = np.arange(0, 70, 7), case.X + 0.5
    shared = StartingFit(case.fit(), case.X, case.y, 10)
    one = replacement_moves(shared, rows, new[rows])
    sets = replacement_moves(shared, [np.array([row]) for row in rows], new[rows])
    np.testing.assert_allclose(sets.values, one.values, rtol=1e-4, atol=1e-8)


def test_what_does_not_change_does_not_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """And where steps do not settle, fits give the same."""
    case = cases.make("logistic", n=70, d=3, intercept=True)
    shared, sets = StartingFit(case.fit(), case.X, case.y, 10), people(70)
    new = case.X.copy()
    new[sets[2], 0] += 1.0
    found = replacement_moves(shared, sets, new[np.concatenate(sets)])
    assert np.flatnonzero(np.any(found.values != 0, axis=1)).tolist() == [2]
    monkeypatch.setattr(solver, "PATIENCE", 1)
    again = replacement_moves(shared, sets, new[np.concatenate(sets)])
    assert again.refitted == 1
    np.testing.assert_allclose(again.values, found.values, rtol=1e-4, atol=1e-12)


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_a_class_that_nobody_else_has_is_refused_by_the_name_of_the_set(loss: str) -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.zeros(40)
    y[[3, 4]] = 1.0
    y[5:12] = 0.0 if loss == "logistic" else 2.0
    shared = StartingFit(fl.minimise(X, y, loss, 1e-2, None, True), X, y, 1, called=lambda row: f"the rows of p{row}")
    with pytest.raises(fl.SeparableClassesError, match="With the change in the rows of p3 there is no model"):
        replacement_moves(shared, [np.array([3, 4, 7])], None, np.zeros(3))
    assert np.any(replacement_moves(shared, [np.array([3, 7])], None, np.zeros(2)).values)
