"""Moves of the parameters when all rows of a set leave together, against fits without them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

import cases
import fisherleak as fl
from fisherleak._support.arrays import host
from fisherleak.engine.changes import removal_steps
from fisherleak.engine.changes.removal import removal_moves, removal_norms
from fisherleak.engine.jacobian import Jacobian

Rows = NDArray[np.int64]


def people(n: int, seed: int = 0) -> list[Rows]:
    """Sets of one row, of a few, and of more than there are parameters."""
    order = np.random.default_rng(seed).permutation(n)
    sizes = [1, 2, 3, 5, 8, 1, 13]
    return np.split(order, np.cumsum(sizes))[: len(sizes)]


def jacobian(case: cases.Case) -> Jacobian:
    return case.leak()._information.jacobians[0]


def without(case: cases.Case, rows: Rows) -> cases.Vector:
    """Parameters of a fit on the other rows, with the same n l2."""
    n = case.X.shape[0]
    weights = None if case.weights is None else np.delete(case.weights, rows)
    others = replace(case, X=np.delete(case.X, rows, axis=0), y=np.delete(case.y, rows), weights=weights)
    return cases.parameters(replace(others, l2=case.l2 * n / (n - rows.size)).fit())


def test_moves_of_a_loss_from_outside_are_those_of_models_without_the_set() -> None:
    """Its slopes are not known, and differences of its curvature are too coarse for the digits that are promised."""
    outside = fl.Loss(
        name="from outside",
        value=lambda z, y: np.logaddexp(z - y, y - z) - np.log(2.0),
        r=lambda z, y: np.tanh(z - y),
        a=lambda z, y: 1.0 - np.tanh(z - y) ** 2,
        c=lambda z, y: np.tanh(z - y) ** 2 - 1.0,
        labels=fl.LOSSES["squared"].labels,
    )
    case = replace(cases.make("pseudo_huber", seed=3, n=150, d=4, weighted=True), loss=outside)
    sets, theta = people(150), cases.parameters(case.fit())
    lengths = [float(np.linalg.norm(without(case, rows) - theta)) for rows in sets]
    np.testing.assert_allclose(removal_norms(jacobian(case), sets=sets), lengths, rtol=1e-8)


@pytest.mark.parametrize("n", [45, 150])
@pytest.mark.parametrize(("weighted", "intercept"), [(False, True), (True, False)])
@pytest.mark.parametrize("loss", list(fl.LOSSES))
def test_moves_are_those_of_models_without_the_set(loss: str, weighted: bool, intercept: bool, n: int) -> None:
    case = cases.make(loss, seed=3, n=n, d=4, weighted=weighted, intercept=intercept)
    sets, theta = people(n), cases.parameters(case.fit())
    expected = np.stack([without(case, rows) - theta for rows in sets])
    lengths = np.linalg.norm(expected, axis=1)
    np.testing.assert_allclose(removal_norms(jacobian(case), sets=sets), lengths, rtol=1e-8)
    np.testing.assert_allclose(removal_moves(jacobian(case), sets), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("loss", [loss for loss in fl.LOSSES if loss != "squared"])
@pytest.mark.parametrize("tolerance", [1e-1, 1e-3])
def test_a_tolerance_is_kept(loss: str, tolerance: float) -> None:
    """By one Newton step, by the third derivative or by chords: whichever a set was settled by."""
    case = cases.make(loss, seed=5, n=1200, d=3, intercept=True)
    sets = np.split(np.random.default_rng(1).permutation(1200), 240)
    exact, found = (removal_norms(jacobian(case), each, sets=sets) for each in (1e-9, tolerance))
    assert (np.abs(found - exact) <= tolerance * exact).all()
    assert (found != exact).any()


def test_sets_whose_steps_do_not_settle_are_fitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    case = cases.make("logistic", n=60, d=3, l2=1e-3, weighted=True)
    expected = removal_norms(jacobian(case), sets=people(60))
    monkeypatch.setattr(removal_steps, "MOST_CHORDS", 1)
    np.testing.assert_allclose(removal_norms(jacobian(case), sets=people(60)), expected, rtol=1e-8)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_set_of_one_row_is_the_row(loss: str) -> None:
    case = cases.make(loss, n=70, d=3, intercept=True)
    alone = [np.array([row]) for row in range(70)]
    np.testing.assert_array_equal(removal_norms(jacobian(case), sets=alone), removal_norms(jacobian(case)))


def test_nobody_has_a_level_or_a_class_without_them() -> None:
    """Neither row is the last of its kind, both are: infinite without a penalty."""
    case = cases.make("logistic", seed=2, n=60, d=3, intercept=True)
    y = np.zeros(60)
    y[[4, 9]] = 1.0
    sets = [np.array([4, 9]), np.array([4, 5]), np.array([1, 2, 3])]
    found = removal_norms(jacobian(replace(case, y=y)), sets=sets)
    assert np.isinf(found).tolist() == [True, False, False]
    level = case.X.copy()
    level[:, 2] = np.isin(np.arange(60), [4, 9])
    squared = cases.Case(level, case.X[:, 0] + np.sin(np.arange(60)), "squared", 0.0, None, True)
    assert np.isinf(removal_norms(jacobian(squared), sets=sets)).tolist() == [True, False, False]


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_other_libraries_give_the_same(loss: str, library: str) -> None:
    xp = pytest.importorskip(library)
    case = cases.make(loss, 1, 60, 3, weighted=True, intercept=True)
    X, y, weights = (xp.asarray(part) for part in (case.X, case.y, case.weights))
    leak = fl.measure(fl.minimise(X, y, case.loss, case.l2, weights, intercept=True), X, y)
    found = removal_norms(leak._information.jacobians[0], sets=people(60))
    np.testing.assert_allclose(host(found), removal_norms(jacobian(case), sets=people(60)), rtol=1e-8)


# several outputs


def several(
    n: int, weighted: bool, intercept: bool, l2: float = 3e-2, loss: str = "softmax", d: int = 3
) -> tuple[cases.Vector, cases.Vector, cases.Vector | None, Jacobian]:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=(d, 3)) + rng.gumbel(size=(n, 3))
    y = np.argmax(scores, axis=1).astype(float) if loss == "softmax" else scores
    weights = rng.uniform(0.2, 2.0, n) if weighted else None
    fit = fl.minimise(X, y, loss, l2, weights, intercept)
    return X, y, weights, fl.measure(fit, X, y)._information.releases[0].jacobian


@pytest.mark.parametrize("loss", ["softmax", "squared"])
@pytest.mark.parametrize(("weighted", "intercept", "n"), [(False, True, 60), (True, False, 60), (True, True, 400)])
def test_several_outputs_move_as_fits_without_the_set(loss: str, weighted: bool, intercept: bool, n: int) -> None:
    X, y, weights, own = several(n, weighted, intercept, loss=loss)
    sets = people(n)
    theta, expected = np.ravel(own.fit.theta), []
    for rows in sets:
        omega = None if weights is None else np.delete(weights, rows)
        others = np.delete(X, rows, axis=0), np.delete(y, rows, axis=0)
        other = fl.minimise(*others, loss, own.fit.l2 * n / (n - rows.size), omega, intercept)
        expected.append(np.ravel(other.theta) - theta)
    moves = removal_moves(own, sets, 1e-8)
    np.testing.assert_allclose(moves, np.stack(expected), rtol=1e-5, atol=1e-8)
    found = removal_norms(own, 1e-8, sets=sets)
    np.testing.assert_allclose(found, np.linalg.norm(np.stack(expected), axis=1), rtol=1e-7)


def test_all_rows_of_a_class_leave_no_minimum() -> None:
    X, y, _, _ = several(60, False, True)
    y = np.where(y == 2, 0.0, y)
    y[[7, 8]] = 2.0
    own = fl.measure(fl.minimise(X, y, "softmax", 1e-2, None, True), X, y)._information.releases[0].jacobian
    sets = [np.array([7, 8, 9]), np.array([7, 9]), np.array([1, 2])]
    assert np.isinf(removal_norms(own, 1e-6, sets=sets)).tolist() == [True, False, False]
