"""Steps towards changed minima: bounds that hold, and what is done where there is none.

Moves of the parameters against true fits of every neighbouring data set.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cases
import fisherleak as fl
from fisherleak.engine.changes import moves_of_changed_rows
from fisherleak.engine.changes.moves_of_changed_rows import Moves, converged, replacement_moves
from fisherleak.engine.changes.starting_fit import StartingFit
from fisherleak.engine.losses.multi_output import SEVERAL_NUMBERS


def problem() -> tuple[StartingFit, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1500, 3))
    X[:20] *= 5.0
    y = (rng.random(1500) < 1 / (1 + np.exp(-X[:, 0]))) * 1.0
    fit = fl.minimise(X, y, "logistic", 1e-4, intercept=True)
    return StartingFit(fit, X, y, 1500), np.arange(0, 1500, 3)


def test_looser_and_tighter_tolerances_end_at_the_same_minima(monkeypatch: pytest.MonkeyPatch) -> None:
    shared, rows = problem()
    changes = shared.replaced(rows, None, 1.0 - shared.y[rows])
    hessian = shared.changed_hessian(changes)
    values, error, lost = converged(shared, changes, hessian)
    tight = StartingFit(shared.fit, shared.X, shared.y, 1500, tolerance=1e-10)
    exact, *_ = converged(tight, changes, hessian)
    size = shared.length(exact)
    assert not lost.any()
    assert (error <= 1e-4 * shared.length(values)).all()
    assert (shared.length(values - exact) <= error + 1e-9 * size).all()
    monkeypatch.setattr(moves_of_changed_rows, "ROUNDS", 1)
    fewer, off, _ = converged(shared, changes, hessian)
    assert (shared.length(fewer - exact) <= off + 1e-9 * size).all()


def test_moves_that_do_not_settle_are_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    shared, rows = problem()
    monkeypatch.setattr(moves_of_changed_rows, "MOST_CHORDS", 1)
    few = StartingFit(shared.fit, shared.X, shared.y, 0)
    assert few.expansion is None
    changes = few.replaced(rows, few.X[rows] * 3.0, None)
    hessian = few.changed_hessian(changes)
    assert converged(few, changes, hessian)[2].any()


Rows = NDArray[np.int64]
SETTINGS = [(False, False), (True, False), (False, True), (True, True)]


def moves(fit: fl.Fit, X: Any, y: Any, rows: Any, changed: Any = None, labels: Any = None) -> Moves:
    return replacement_moves(StartingFit(fit, X, y, len(rows)), rows, changed, labels)


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
    monkeypatch.setattr(moves_of_changed_rows, "MOST_CHORDS", 1)
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


def test_the_last_label_of_its_kind_is_told_by_output() -> None:
    """Of two labels only the second has one row alone on a side: that row is named, and without it the attack is on all others."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 2)), (rng.random((40, 2)) < 0.5) * 1.0
    Y[:, 1] = np.arange(40) == 7
    fit = fl.minimise(X, Y, cases.yes_or_no(2), 1e-2, None, True)
    with pytest.raises(fl.SeparableClassesError, match=r"in row 7 there is .* no other row has a label on that side"):
        fl.attacks.WhiteBox(fit, X, Y, attribute=("label", 1)).against(fl.Gaussian(1.0))
    others = np.flatnonzero(np.arange(40) != 7)
    assert fl.attacks.WhiteBox(fit, X, Y, attribute=("label", 1), rows=others).against(fl.Gaussian(1.0)).accuracy > 0.5
    changed = Y[others[:5]].copy()
    changed[:, 1] = 1.0
    found = moves(fit, X, Y, others[:5], labels=changed)
    for k, row in enumerate(others[:5].tolist()):
        other = Y.copy()
        other[row, 1] = 1.0
        refit = fl.minimise(X, other, cases.yes_or_no(2), 1e-2, None, True)
        np.testing.assert_allclose(found.values[k], refit.theta - fit.theta, rtol=1e-6, atol=1e-9)


def classes(
    K: int, n: int, d: int, seed: int = 0, weighted: bool = False
) -> tuple[cases.Vector, NDArray[np.int64], cases.Vector | None]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.argmax(X @ rng.normal(size=(d, K)) + 1.5 * rng.gumbel(size=(n, K)), axis=1)
    y[:K] = np.arange(K)
    weights = rng.gamma(2.0, 0.5, size=n) if weighted else None
    return X, y, weights


@pytest.mark.parametrize(("K", "intercept", "weighted"), [(2, True, False), (3, True, True), (4, False, False)])
def test_softmax_moves_are_those_of_refitted_models(K: int, intercept: bool, weighted: bool) -> None:
    X, y, weights = classes(K, 80, 3, seed=K, weighted=weighted)
    fit = fl.minimise(X, y, "softmax", 1e-2, weights, intercept)
    rows, codes = np.arange(0, 80, 21), y.astype(float)
    changed, labels = X[rows].copy(), (codes[rows] + 1) % K
    changed[:, 1] = 0.5 - changed[:, 1]
    for new, other in ((changed, None), (None, labels), (changed, labels)):
        found = moves(fit, X, codes, rows, new, other)
        for k, i in enumerate(rows):
            X2, y2 = X.copy(), y.copy()
            X2[i] = X[i] if new is None else new[k]
            y2[i] = y[i] if other is None else int(other[k])
            true = fl.minimise(X2, y2, "softmax", 1e-2, weights, intercept).theta - fit.theta
            np.testing.assert_allclose(found.values[k], true, atol=1e-7 * np.abs(true).max())


def test_moves_of_several_numbers_and_their_labels_are_exact() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 3))
    Y = X @ rng.normal(size=(3, 2)) + rng.normal(size=(50, 2))
    fit = fl.minimise(X, Y, "squared", 1e-3, intercept=True)
    rows = np.arange(0, 50, 7)
    labels, changed = Y[rows] + np.array([0.0, 2.0]), X[rows] + np.array([1.0, 0.0, 0.0])
    found = moves(fit, X, Y, rows, changed, labels)
    for k, i in enumerate(rows):
        X2, Y2 = X.copy(), Y.copy()
        X2[i], Y2[i] = changed[k], labels[k]
        true = fl.minimise(X2, Y2, "squared", 1e-3, intercept=True).theta - fit.theta
        np.testing.assert_allclose(found.values[k], true, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(("weighted", "intercept"), SETTINGS)
@pytest.mark.parametrize("loss", list(fl.LOSSES))
def test_moves_by_another_label_are_those_of_refitted_models(loss: str, weighted: bool, intercept: bool) -> None:
    case = cases.make(loss, seed=5, n=60, d=4, weighted=weighted, intercept=intercept)
    rows = np.arange(0, 60, 6)
    labels = 1.0 - case.y[rows] if loss == "logistic" else case.y[rows] + 1.0
    fit = case.fit()
    found = moves(fit, case.X, case.y, rows, None, labels)
    for k, i in enumerate(rows):
        y = case.y.copy()
        y[i] = labels[k]
        true = cases.parameters(replace(case, y=y).fit()) - cases.parameters(fit)
        np.testing.assert_allclose(found.values[k], true, atol=1e-7 * np.abs(true).max() + 1e-12)


@pytest.mark.parametrize("by_label", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "poisson", "gamma", "softmax"])
def test_many_rows_move_by_the_third_derivative_within_the_bound_that_is_stated(loss: str, by_label: bool) -> None:
    weights: cases.Vector | None
    if loss == "softmax":
        X, whole, weights = classes(3, 1500, 4, weighted=True)
        y = whole.astype(float)
    else:
        case = cases.make(loss, seed=2, n=1500, d=4, weighted=True)
        X, y, weights = case.X, case.y, case.weights
    l2, intercept = 1e-3, True
    fit = fl.minimise(X, y, loss, l2, weights, intercept)
    shared = StartingFit(fit, X, y, 1500)
    assert shared.expansion is not None
    changed, labels = X.copy(), None
    if by_label:
        labels = (y + 1) % 3 if loss == "softmax" else 1 - y if loss == "logistic" else y + 1
    else:
        changed[:, 1] = -changed[:, 1]
    found = replacement_moves(shared, np.arange(1500), None if by_label else changed, labels)
    size = np.linalg.norm(found.values, axis=1)
    counted = size > 0
    assert (found.error[counted] <= 1.0001e-4 * size[counted]).all()
    assert found.refitted <= 3
    worst = np.argsort(-(found.error[counted] / size[counted]))[:2]
    for i in [*np.flatnonzero(counted)[worst].tolist(), 17]:
        X2, y2 = X.copy(), y.copy()
        if labels is None:
            X2[i] = changed[i]
        else:
            y2[i] = labels[i]
        true = fl.minimise(X2, y2, loss, l2, weights, intercept).theta - fit.theta
        assert np.linalg.norm(found.values[i] - true) <= found.error[i] + 1e-9 * size[i]


def test_a_class_that_loses_its_only_row_is_refused_by_name() -> None:
    X, y, _ = classes(3, 30, 2)
    y = np.where(np.arange(30) == 4, 2, y % 2)
    fit = fl.minimise(X, y, "softmax", 1e-2, intercept=True)
    with pytest.raises(fl.FisherleakError, match="in row 4 there is no model to compare with"):
        moves(fit, X, y.astype(float), np.array([4]), None, np.array([0.0]))


@pytest.mark.parametrize("l2", [1e-2, 1.0])
@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_the_last_label_that_holds_the_intercept_is_not_taken_away(loss: str, l2: float) -> None:
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(60, 1)), np.where(np.arange(60) == 3, 1.0, 0.0)
    fit = fl.minimise(X, y, loss, l2, intercept=True)
    assert fl.measure(fit, X, y).membership()[3] == np.inf
    with pytest.raises(fl.SeparableClassesError, match="With the change in row 3 there is no model to compare with"):
        moves(fit, X, y, np.array([2, 3]), None, np.zeros(2))
    # with a penalty on all parameters there is one
    held = fl.minimise(X, y, loss, l2)
    expected = fl.minimise(X, y + (np.arange(60) == 2), loss, l2).theta - held.theta
    np.testing.assert_allclose(moves(held, X, y, np.array([2]), None, np.ones(1)).values[0], expected, rtol=1e-6)
    assert np.isfinite(moves(held, X, y, np.array([3]), None, np.array([0.0])).values).all()


# sets of rows that change together


def people(n: int) -> list[Rows]:
    return np.split(np.random.default_rng(0).permutation(n), np.cumsum([1, 2, 3, 5, 8, 13]))[:6]


@pytest.mark.parametrize("n", [60, 900])
@pytest.mark.parametrize(("weighted", "intercept"), [(False, True), (True, False)])
@pytest.mark.parametrize("loss", list(fl.LOSSES))
def test_moves_are_those_of_refitted_models_together(loss: str, weighted: bool, intercept: bool, n: int) -> None:
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
def test_labels_of_a_set_change_together(loss: str) -> None:
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


def test_what_does_not_change_does_not_move_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """And where steps do not settle, fits give the same."""
    case = cases.make("logistic", n=70, d=3, intercept=True)
    shared, sets = StartingFit(case.fit(), case.X, case.y, 10), people(70)
    new = case.X.copy()
    new[sets[2], 0] += 1.0
    found = replacement_moves(shared, sets, new[np.concatenate(sets)])
    assert np.flatnonzero(np.any(found.values != 0, axis=1)).tolist() == [2]
    monkeypatch.setattr(moves_of_changed_rows, "PATIENCE", 1)
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


def steep(several: bool) -> fl.Loss:
    """Twice the squared loss, as somebody else may write it: its curvature is two."""
    own = fl.LOSSES["squared"] if not several else SEVERAL_NUMBERS
    return replace(
        own,
        name="steep",
        value=lambda z, y: 2.0 * own.value(z, y),
        r=lambda z, y: 2.0 * own.r(z, y),
        a=lambda z, y: 2.0 * own.a(z, y),
        c=lambda z, y: 2.0 * own.c(z, y),
    )


@pytest.mark.parametrize("several", [False, True])
def test_a_quadratic_loss_of_another_curvature_moves_as_its_refits_do(several: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = X @ rng.normal(size=(3, 2)) + rng.normal(size=(40, 2))
    y, loss = (y, steep(True)) if several else (y[:, 0], steep(False))
    fit = fl.minimise(X, y, loss=loss, l2=0.1)
    # twice the loss is the squared loss with half the penalty
    plain = fl.minimise(X, y, l2=0.05)
    np.testing.assert_allclose(fit.coef, plain.coef, rtol=1e-9)
    changed = X[[7]] + np.array([[0.0, 1.5, 0.0]])
    found = moves(fit, X, y, np.array([7]), changed)
    other = X.copy()
    other[7] = changed[0]
    expected = fl.minimise(other, y, loss=loss, l2=0.1).theta - fit.theta
    np.testing.assert_allclose(np.ravel(found.values[0]), np.ravel(expected), rtol=1e-8, atol=1e-12)
    without = np.delete(np.arange(40), 7)
    gone = fl.minimise(X[without], y[without], loss=loss, l2=0.1 * 40 / 39).theta - fit.theta
    leak = fl.measure(fit, X, y, fl.Gaussian(1.0))
    assert leak.membership()[7] == pytest.approx(np.linalg.norm(gone), rel=1e-6)
