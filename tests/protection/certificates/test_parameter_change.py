"""Moves and curvature by all rows: what exchanged rows do is never more, and few rows far out do not spoil the bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fisherleak as fl
from cases import Case
from fisherleak.protection.certificates import certificate
from fisherleak.protection.certificates.any_record import LOOSEST, certified, worst_admissible
from fisherleak.protection.certificates.parameter_change import LENGTHS, Drift, drift_of

Vector = NDArray[np.float64]
D, BOX, LABELS = 9, (-3.0, 3.0), {"logistic": (0.0, 1.0), "poisson": (0.0, 4.0)}
BOUNDS: Any = {f"x{j}": BOX for j in range(D)}


def heavy(loss: str, n: int, l2: float) -> tuple[Case, Any]:
    """Ordinary rows and a few that are far out in all columns at once, and bounds."""
    rng = np.random.default_rng(0)
    X = np.clip(rng.normal(size=(n, D)), *BOX)
    X[:4] = rng.choice(BOX, (4, D))
    z = X @ np.linspace(0.3, -0.3, D) * 0.7
    counts = np.minimum(rng.poisson(np.exp(z)), 4)
    y = np.asarray(rng.random(n) < 1 / (1 + np.exp(-z)) if loss == "logistic" else counts, dtype=np.float64)
    return Case(X, y, loss, l2, None, True), BOUNDS if loss == "logistic" else BOUNDS | {"label": LABELS[loss]}


def exchanged(case: Case, row: int, x: Vector, y: float) -> Case:
    X, labels = case.X.copy(), case.y.copy()
    X[row], labels[row] = x, y
    return Case(X, labels, case.loss, case.l2, None, case.intercept)


def rows(case: Case, loss: str) -> list[tuple[int, Vector, float]]:
    """Rows far out and others, replaced by corners of the box."""
    rng = np.random.default_rng(1)
    return [(row, rng.choice(BOX, D), y) for row in (0, 1, 5, 11) for _ in range(3) for y in LABELS[loss]]


CASES = [("logistic", 600, 0.05), ("poisson", 3000, 0.05)]


@pytest.mark.parametrize(("loss", "n", "l2"), CASES)
def test_the_bound_by_rows_holds_for_refits_and_is_far_below_the_other(loss: str, n: int, l2: float) -> None:
    case, bounds = heavy(loss, n, l2)
    upper = certified(case.leak(), bounds, by_rows=True).upper
    assert upper < 0.7 * certified(case.leak(), bounds).upper
    for row, x, y in rows(case, loss):
        assert float(exchanged(case, row, x, y).leak().per_example()[row]) <= upper


@pytest.mark.parametrize(("loss", "n", "l2"), CASES)
def test_parameters_and_curvature_move_no_farther_than_said(loss: str, n: int, l2: float) -> None:
    case, bounds = heavy(loss, n, l2)
    leak = case.leak()
    found = certified(leak, bounds, by_rows=True)
    assert found.quantities is not None
    drift = drift_of(leak._information.jacobians[0], found.quantities)
    fit = case.fit()
    for row, x, y in rows(case, loss):
        then = exchanged(case, row, x, y).fit()
        others = np.delete(np.arange(n), row)
        X1 = np.column_stack([case.X, np.ones(n)])[others]
        penalty = np.diag([n * l2] * D + [0.0])
        A, A2 = (
            (X1 * np.asarray(f.loss.a(X1 @ f.theta, case.y[others]))[:, None]).T @ X1 + penalty for f in (fit, then)
        )
        move = np.asarray(then.theta) - np.asarray(fit.theta)
        z2 = float(np.append(x, 1.0) @ then.theta)
        left = np.append(case.X[row], 1.0) * float(
            fit.loss.r(np.array([np.append(case.X[row], 1.0) @ fit.theta]), case.y[row : row + 1])[0]
        )
        came = np.append(x, 1.0) * float(fit.loss.r(np.array([z2]), np.array([y]))[0])
        gradient = float(np.sqrt((left - came) @ np.linalg.solve(A, left - came)))
        length = float(np.sqrt(move @ A @ move))
        assert length <= drift.moved(gradient) * (1 + 1e-9)
        factors = np.linalg.eigvals(np.linalg.solve(A, A2)).real
        assert np.max(np.abs(np.log(factors))) <= drift.log_factor(length) + 1e-9


def test_a_table_that_the_farthest_row_alone_would_refuse_is_calibrated() -> None:
    case, bounds = heavy("logistic", 500, 0.03)
    worst = worst_admissible(case.leak(), bounds)
    assert certified(case.leak(), bounds).upper > LOOSEST * worst.lower
    assert worst.upper <= 6.0 * worst.lower
    noise: Any = fl.calibrate(case.leak(), 0.5, "admissible", bounds=bounds)
    assert noise.calibrated.probability == 1.0
    for row, x, y in rows(case, "logistic"):
        assert float(exchanged(case, row, x, y).leak(noise).per_example()[row]) <= 0.5


def test_tables_are_read_on_the_safe_side() -> None:
    size = len(LENGTHS)
    drift = Drift(np.linspace(0.0, 0.9, size), np.linspace(0.0, 3.0, size))
    assert drift.moved(0.0) == 0.0
    assert drift.moved(1.0) > 1.0
    assert drift.moved(1e3) == np.inf
    assert drift.log_factor(1e3) == np.inf
    assert drift.log_factor(0.5) <= drift.log_factor(0.51)
    flat = Drift(np.full(size, 1.0), np.full(size, 1.0))
    assert flat.moved(1e-6) == flat.log_factor(1e-6) == np.inf


def test_the_rows_own_shape_is_calibrated_by_all_rows() -> None:
    case, bounds = heavy("logistic", 600, 0.05)
    noise: Any = fl.calibrate(case.leak(), 0.5, "admissible", bounds=bounds, shape="hessian", random_state=0)
    leak = case.leak(noise.rescaled(1.0))
    farthest, by_rows = (certified(leak, bounds, by_rows=way).upper for way in (False, True))
    assert by_rows <= noise.calibrated.confidential.upper < 0.8 * farthest


def test_rows_of_an_interval_of_scores_are_means_of_corners_with_scores_there(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    X = np.clip(rng.normal(size=(2000, D)), *BOX)
    X[:, 0] = np.clip(rng.exponential(size=2000), 0.0, 12.0)
    y = np.asarray(rng.random(2000) < 1 / (1 + np.exp(1.0 - 1.5 * X[:, 0])), dtype=np.float64)
    case, bounds = Case(X, y, "logistic", 0.01, None, True), BOUNDS | {"x0": (0.0, 12.0)}
    found = certified(case.leak(), bounds, by_rows=True)
    for row, x, label in rows(case, "logistic"):
        there = np.append(4.0 * (x[0] > 0), x[1:])
        assert float(exchanged(case, row, there, label).leak().per_example()[row]) <= found.upper
    monkeypatch.setattr(certificate, "most_within", lambda values, *_: float(values.max()))
    assert found.upper < 0.95 * certified(case.leak(), bounds, by_rows=True).upper
