"""The bound in the metric of the own Hessian holds for every exchange of a row, by refits, and is close to the largest found."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fisherleak as fl
from cases import Case, make
from fisherleak.protection.certificates.bound_quantities import points_of, quantities_of
from fisherleak.protection.certificates.declared_bounds import admissible_rows
from fisherleak.protection.data_dependent import hessian_metric as own_metric
from fisherleak.protection.data_dependent.hessian_metric import bound_in_own_metric
from fisherleak.protection.data_dependent.hessian_shape import own_shape
from protection.boxed import BOUNDS, BOX, LABELS, folded, problem

Vector = NDArray[np.float64]
CASES = {
    "plain": problem(),
    "with an intercept": problem(2, intercept=True),
    "with weights": problem(5, n=60, weighted=True),
    "few rows": problem(3, n=12, l2=0.2),
    "one row decides": problem(6, n=5, l2=0.02),
}
CLOSE = {"plain": problem(n=1500), "with an intercept": problem(2, n=1500, intercept=True)}


def bound_of(leak: fl.Leakage, attributes: Any = None, label: bool | None = None) -> float:
    shaped = leak.with_noise(own_shape(leak._information.jacobians[0]))
    jacobian: Any = shaped._information.jacobians[0]
    chosen, counted = shaped._chosen(attributes, label)
    admissible = admissible_rows(jacobian, shaped._table, BOUNDS)
    points = points_of(jacobian, admissible)
    q, _, omega = quantities_of(jacobian, points, chosen)
    return bound_in_own_metric(jacobian, q, points, chosen, admissible.labels, omega, counted)


def first_term(case: Case, row: int, x: Vector, y: float, label: bool) -> float:
    """Of a new row in place of another, from normal equations: sqrt(lambda_max J^T G J), G the new Hessian."""
    X, labels = case.X.copy(), case.y.copy()
    X[row], labels[row] = x, y
    weights, d = np.ones(len(X)) if case.weights is None else case.weights, X.shape[1]
    Z = np.column_stack([X, np.ones(len(X))]) if case.intercept else X
    G = (Z * weights[:, None]).T @ Z + len(X) * case.l2 * np.diag([1.0] * d + [0.0] * (Z.shape[1] - d))
    w = np.linalg.solve(G, Z.T @ (weights * labels))
    M = np.outer(Z[row], w[:d]) + (Z[row] @ w - y) * np.eye(len(w))[:, :d]
    M = np.column_stack([M, -Z[row]]) if label else M
    return float(weights[row] * np.linalg.norm(np.linalg.solve(np.linalg.cholesky(G), M), 2))


def largest_found(case: Case, label: bool) -> float:
    """Over rows that lean out most and some others, corners, middles of edges, and steps uphill from the best."""
    rng = np.random.default_rng(0)
    low, high = np.array([BOX[0]] * 3 + [LABELS[0]]), np.array([BOX[1]] * 3 + [LABELS[1]])
    heavy = np.abs(case.y) * (1.0 if case.weights is None else case.weights)
    found = 0.0
    for row in {*np.argsort(-heavy)[:2].tolist(), 1}:
        starts = [np.array(v) for v in product(*[(BOX[0], 0.0, BOX[1])] * 3, LABELS)]
        values = [first_term(case, row, v[:3], v[3], label) for v in starts]
        at, best, step = starts[int(np.argmax(values))], max(values), (high - low) / 4
        for _ in range(40):
            there = np.clip(at + rng.normal(size=4) * step, low, high)
            value = first_term(case, row, there[:3], there[3], label)
            at, best, step = (there, value, step) if value > best else (at, best, 0.95 * step)
        found = max(found, best)
    return found


@pytest.mark.parametrize("label", [True, False])
@pytest.mark.parametrize("name", list(CASES))
def test_no_exchange_of_a_row_is_above_the_bound(name: str, label: bool) -> None:
    case = CASES[name]
    found, bound = largest_found(case, label), bound_of(case.leak(), None if label else ["x0", "x1", "x2"], label)
    assert 0.05 * bound < found <= bound


@pytest.mark.parametrize("name", list(CLOSE))
def test_it_is_close_where_no_row_moves_the_model_far(name: str) -> None:
    found, bound = largest_found(CLOSE[name], True), bound_of(CLOSE[name].leak())
    assert found <= bound < 1.15 * found


def test_folded_scales_are_covered() -> None:
    case = problem(4, intercept=True)
    bound = bound_of(folded(case.X, case.y))
    found = 0.0
    for row, corner in enumerate(product(*[BOX] * 3, LABELS)):
        X, y = case.X.copy(), case.y.copy()
        X[row], y[row] = corner[:3], corner[3]
        leak = folded(X, y)
        found = max(found, leak.with_noise(own_shape(leak._information.jacobians[0])).per_example()[row])
    assert found <= bound < 2.0 * found


def test_calibrated_noise_follows_it() -> None:
    case = problem()
    noise: Any = fl.calibrate(case.leak(), 2.0, "admissible", shape="hessian", bounds=BOUNDS)
    assert noise.calibrated.confidential.upper == pytest.approx(bound_of(case.leak()), rel=1e-9)


def test_corners_that_are_not_looked_at_are_bounded_in_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    leak = CASES["plain"].leak()
    exactly = bound_of(leak)
    monkeypatch.setattr(own_metric, "MOST_EXACT", 0)
    assert exactly < bound_of(leak) < 1.3 * exactly


def test_nothing_is_certified_where_one_row_holds_a_direction_alone() -> None:
    case = make("squared", 1, n=40, l2=0.0)
    case = replace(case, X=np.column_stack([case.X[:, :2], np.eye(40)[0]]))
    assert bound_of(replace(case, X=np.clip(case.X, *BOX), y=np.clip(case.y, *LABELS)).leak()) == np.inf
