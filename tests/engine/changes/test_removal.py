"""Moves of the parameters when a row is left out, against fits without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cases
import fisherleak as fl
from fisherleak._support.arrays import host
from fisherleak.engine.changes import removal, removal_expansion, removal_steps
from fisherleak.engine.changes.removal import removal_moves, removal_norms
from fisherleak.engine.jacobian import Jacobian
from often import often

SETTINGS = [(False, False), (True, False), (False, True), (True, True)]


def without(case: cases.Case, row: int) -> cases.Vector:
    """Parameters of a fit on the other rows, with the same n l2."""
    n = case.X.shape[0]
    weights = None if case.weights is None else np.delete(case.weights, row)
    others = replace(case, X=np.delete(case.X, row, axis=0), y=np.delete(case.y, row), weights=weights)
    return cases.parameters(replace(others, l2=case.l2 * n / (n - 1)).fit())


def jacobian(case: cases.Case, noise: fl.Noise | None = None) -> Jacobian:
    return case.leak(noise)._information.jacobians[0]


def moves(case: cases.Case, rows: Any = None) -> cases.Vector:
    theta = cases.parameters(case.fit())
    return np.stack([without(case, i) - theta for i in (range(case.X.shape[0]) if rows is None else rows)])


@pytest.mark.parametrize("n", [25, 150])
@pytest.mark.parametrize(("weighted", "intercept"), often(SETTINGS, 3))
@pytest.mark.parametrize("loss", list(fl.LOSSES))
def test_norms_are_those_of_refitted_models(loss: str, weighted: bool, intercept: bool, n: int) -> None:
    """With few rows for each pair of parameters by chords alone, with many by the third derivative first."""
    case = cases.make(loss, seed=3, n=n, d=4, weighted=weighted, intercept=intercept)
    assert removal_expansion.pays(n, 4) == (n == 150)
    some = np.unique([1, 7, n // 2, *range(0, n, 1 + n // 12)])
    expected = moves(case, some)
    found = removal_norms(jacobian(case))
    np.testing.assert_allclose(found[some], np.linalg.norm(expected, axis=1), rtol=1e-8, atol=1e-11)
    few = np.array([1, n // 2, 7])
    true = expected[np.searchsorted(some, few)]
    np.testing.assert_allclose(removal_moves(jacobian(case), few), true, rtol=1e-7, atol=1e-10)
    if weighted:
        assert found[n // 2] == 0


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_the_noise_says_what_far_is(loss: str) -> None:
    case = cases.make(loss, seed=1, n=120, d=3, intercept=True)
    shape = np.diag([1.0, 4.0, 0.25, 9.0]) + 0.1
    found = removal_norms(jacobian(case, fl.Gaussian(0.3, shape)))
    expected = moves(case)
    expected = np.sqrt(np.sum(expected * np.linalg.solve(shape, expected.T).T, axis=1))
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize("loss", [loss for loss in fl.LOSSES if loss != "squared"])
@pytest.mark.parametrize("tolerance", [1e-1, 1e-2, 1e-3, 1e-5])
def test_a_tolerance_is_kept_without_a_pass_for_each_row(
    loss: str, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound of what the third derivative leaves out holds, and spares many rows their chords."""
    case = cases.make(loss, seed=5, n=400, d=3, intercept=True)
    exact = removal_norms(jacobian(case))
    improved = [0]

    def counted(task: Any, part: Any, *rest: Any) -> Any:
        improved[0] += part.rows.shape[0]
        return chords(task, part, *rest)

    chords = removal_steps.by_chords
    monkeypatch.setattr(removal, "by_chords", counted)
    found = removal_norms(jacobian(case), tolerance)
    assert (np.abs(found - exact) <= tolerance * exact).all()
    assert improved[0] < (20 if tolerance >= 1e-2 else 400)


@pytest.mark.parametrize("loss", [loss for loss in fl.LOSSES if loss != "squared"])
def test_among_many_rows_one_newton_step_is_near_enough(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of what it leaves out holds, and spares all but a few rows the third derivative."""
    case = cases.make(loss, seed=2, n=6000, d=3, intercept=True)
    exact = removal_norms(jacobian(case))
    improved = [0]

    def counted(task: Any, part: Any) -> Any:
        improved[0] += part.rows.shape[0]
        return third(task, part)

    third = removal_steps.by_third
    monkeypatch.setattr(removal, "by_third", counted)
    found = removal_norms(jacobian(case), 1e-2)
    assert (np.abs(found - exact) <= 1e-2 * exact).all()
    assert improved[0] < 600


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("loss", ["squared", "pseudo_huber"])
def test_units_do_not_matter(loss: str, scale: float) -> None:
    plain, scaled = (cases.make(loss, n=80, scale=s, intercept=True) for s in (1.0, scale))
    one, other = (removal_moves(jacobian(case), np.arange(80)) for case in (plain, scaled))
    np.testing.assert_allclose(one[:, :-1], other[:, :-1], rtol=1e-7, atol=1e-12)


def test_columns_far_from_zero_keep_their_digits() -> None:
    case = cases.make("squared", n=100, intercept=True)
    near, far = (removal_moves(jacobian(c), np.arange(100)) for c in (case, replace(case, X=case.X + 1e6)))
    np.testing.assert_allclose(near[:, :-1], far[:, :-1], rtol=1e-6, atol=1e-9)


def test_rows_whose_steps_do_not_settle_are_fitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    case = cases.make("logistic", n=30, d=3, l2=1e-3)
    expected = np.linalg.norm(moves(case), axis=1)
    monkeypatch.setattr(removal_steps, "MOST_CHORDS", 1)
    np.testing.assert_allclose(removal_norms(jacobian(case)), expected, rtol=1e-8)


@pytest.mark.parametrize(("loss", "rows"), [("squared", [9]), ("logistic", [4, 9]), ("poisson", [9])])
def test_without_a_minimum_the_move_is_infinite(loss: str, rows: list[int]) -> None:
    """A level's only row, its only row of a class, its only count above zero: without a penalty; with one, it is finite."""
    case = cases.make(loss, seed=2, n=60, d=3, intercept=True, l2=0.0)
    case.X[:, 2] = np.arange(60) == 9
    if loss != "squared":
        case.X[4, 2] = 1.0
    case.y[[4, 9]] = [0.0, 1.0]
    assert np.flatnonzero(np.isinf(removal_norms(jacobian(case)))).tolist() == rows
    assert np.isinf(removal_moves(jacobian(case), np.array([9]))).all()
    assert np.isfinite(removal_norms(jacobian(replace(case, l2=1e-3)))).all()


def test_the_only_row_of_a_class() -> None:
    """An intercept runs away without it; without an intercept the penalty holds the model."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    y = (np.arange(50) == 3) * 1.0
    free = cases.Case(X, y, "logistic", 1e-2, None, True)
    assert np.flatnonzero(np.isinf(removal_norms(jacobian(free)))).tolist() == [3]
    held = cases.Case(X, y, "logistic", 1e-2, None, False)
    weights = np.ones(50)
    weights[3] = 1e-130  # the other class has to be there
    other = fl.minimise(X, y, "logistic", 1e-2, weights)
    expected = np.linalg.norm(np.asarray(other.theta) - cases.parameters(held.fit()))
    assert removal_norms(jacobian(held))[3] == pytest.approx(expected, rel=1e-8)


def test_a_row_that_outweighs_all_others() -> None:
    for loss in ("squared", "logistic"):
        case = cases.make(loss, n=60, l2=1e-2)
        X = case.X.copy()
        X[7, 0] = 1e5
        case = replace(case, X=X)
        expected = np.linalg.norm(without(case, 7) - cases.parameters(case.fit()))
        assert removal_norms(jacobian(case))[7] == pytest.approx(expected, rel=1e-7)


def test_a_perfect_fit_does_not_move() -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    fit = fl.minimise(X, X @ np.array([1.0, -2.0]))
    leak = fl.measure(fit, X, X @ np.array([1.0, -2.0]))
    assert removal_norms(leak._information.jacobians[0]).max() < 1e-12


# several outputs


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
    ("K", "intercept", "weighted"),
    often([(3, True, True), (2, True, True), (3, False, False), (10, True, False)]),
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
    X, y = people(12, 2, 3)
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


def test_the_only_row_of_a_class_of_several_tells_for_certain_beside_an_intercept() -> None:
    X, y = people(60, 2, 2)
    y[7] = 2
    free = fl.measure(fl.minimise(X, y, loss="softmax", l2=1e-2, intercept=True), X, y).membership(1e-8)
    assert np.flatnonzero(np.isinf(free)).tolist() == [7]
    held = fl.measure(fl.minimise(X, y, loss="softmax", l2=1e-2), X, y).membership(1e-8)
    assert np.isfinite(held).all()


def test_several_yes_or_no_labels_move_as_refits_do() -> None:
    X, _ = people(40, 2, 2)
    Y = (np.random.default_rng(1).random((40, 2)) < 0.4) * 1.0
    given: dict[str, Any] = {"loss": cases.yes_or_no(2), "intercept": True}
    found = fl.measure(fl.minimise(X, Y, l2=1e-2, **given), X, Y).membership(1e-8)
    np.testing.assert_allclose(found, refits(X, Y, None, 1.0, **given), rtol=1e-7)


def test_the_only_row_with_a_label_of_one_output_tells_for_certain_beside_an_intercept() -> None:
    X, _ = people(40, 2, 2)
    Y = (np.random.default_rng(1).random((40, 2)) < 0.4) * 1.0
    Y[:, 1] = 0.0
    Y[[7, 9], 1] = 1.0
    Y[:, 0] = np.where(np.arange(40) == 11, 0.0, 1.0)
    weights = np.where(np.arange(40) == 9, 0.0, 1.0)
    loss = cases.yes_or_no(2)
    leak = fl.measure(fl.minimise(X, Y, loss, 1e-2, weights, True), X, Y)
    assert np.flatnonzero(np.isinf(leak.membership(1e-8))).tolist() == [7, 11]
    sets = [np.array([7, 8, 9]), np.array([11, 3]), np.array([9, 3]), np.array([1, 2, 4])]
    lost = np.isinf(removal_norms(leak._information.releases[0].jacobian, 1e-6, sets=sets))
    assert lost.tolist() == [True, True, False, False]
    # without an intercept there is a model without either
    assert np.isfinite(fl.measure(fl.minimise(X, Y, loss, 1e-2, weights), X, Y).membership(1e-8)).all()


@pytest.mark.parametrize("positive", [False, True])
def test_without_an_intercept_and_a_penalty_the_only_row_of_a_class_tells_as_much_as_columns_do(positive: bool) -> None:
    """Scores of a class that nobody has fall for ever only where one move of its coefficients lowers them in every row."""
    X, y = people(60, 2, 2)
    y[7] = 2
    X = np.abs(X) + 0.1 if positive else X - X.mean(axis=0)
    found = fl.measure(fl.minimise(X, y, loss="softmax"), X, y).membership(1e-8)
    assert np.flatnonzero(np.isinf(found)).tolist() == [7] * positive


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
    monkeypatch.setattr("fisherleak.engine.changes.moves_of_changed_rows.PATIENCE", 0)
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

    monkeypatch.setattr("fisherleak.engine.changes.moves_of_changed_rows._chords", not_known)
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
