"""Membership as it is shown by default is at no row below what a fit without the row says, on tables that make that hard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from often import often

Vector = NDArray[Any]
TOLERANCES = [None, 1e-2, 1e-5, 1e-8]
ROUNDING = 1e-10


def solved(H: Vector, g: Vector) -> Vector:
    """H^-1 g by elimination, in whatever precision these have."""
    M = np.concatenate([H, g[:, None]], axis=1)
    for k in range(len(g)):
        M[k] = M[k] / M[k, k]
        others = np.arange(len(g)) != k
        M[others] -= M[others, k, None] * M[None, k]
    return np.asarray(M[:, -1])


def minimum(x: Vector, y: Vector, weights: Vector, loss: fl.Loss, penalty: Vector, start: Vector) -> Vector:
    """By Newton steps in extended precision."""
    x, y, weights, penalty, theta = (np.asarray(each, dtype=np.longdouble) for each in (x, y, weights, penalty, start))
    for _ in range(200):
        z = x @ theta
        g = x.T @ (weights * loss.r(z, y)) + penalty * theta
        step = solved((x * (weights * loss.a(z, y))[:, None]).T @ x + np.diag(penalty), g)
        theta = theta - step / max(1.0, float(np.abs(x @ step).max()))
        if np.abs(step).max() <= 1e-17 * np.abs(theta).max():
            break
    assert np.abs(step).max() <= 1e-13 * np.abs(theta).max()
    return theta


def separable(rng: np.random.Generator) -> tuple[Vector, Vector, Vector]:
    """One row in fifty on the wrong side, a few rows far out, hardly any penalty."""
    X = rng.normal(size=(150, 3))
    X[:5] *= 30.0
    y = (X @ [2.0, -1.0, 0.5] > 0) * 1.0
    y[10:13] = 1.0 - y[10:13]
    return X, y, np.ones(150)


def large_count(rng: np.random.Generator) -> tuple[Vector, Vector, Vector]:
    X = rng.normal(size=(120, 3))
    y = rng.poisson(np.exp(X @ [0.5, 0.3, -0.4])).astype(float)
    y[7] = 900.0
    return X, y, np.ones(120)


def unequal(rng: np.random.Generator) -> tuple[Vector, Vector, Vector]:
    X = rng.normal(size=(150, 3)) * [1.0, 10.0, 0.1]
    y = (X @ [1.0, 0.1, -5.0] + rng.logistic(size=150) > 0) * 1.0
    return X, y, 10.0 ** rng.uniform(-4.0, 1.0, 150)


def plain(rng: np.random.Generator) -> tuple[Vector, Vector, Vector]:
    X = rng.normal(size=(300, 4))
    return X, (X @ [1.0, -1.0, 0.5, 0.0] + rng.logistic(size=300) > 0) * 1.0, np.ones(300)


def long_tails(rng: np.random.Generator) -> tuple[Vector, Vector, Vector]:
    X = rng.normal(size=(140, 3))
    return X, X @ [1.0, 2.0, 3.0] + rng.standard_t(1.5, 140), np.ones(140)


def waiting_times(rng: np.random.Generator) -> tuple[Vector, Vector, Vector]:
    X = rng.normal(size=(140, 3))
    return X, rng.gamma(0.5, np.exp(X @ [0.5, 0.3, -0.4])) + 1e-6, np.ones(140)


Table = Callable[[np.random.Generator], tuple[Vector, Vector, Vector]]
TABLES: list[tuple[Table, Any, float]] = [
    (separable, "logistic", 1e-6),
    (large_count, "poisson", 1e-4),
    (unequal, "logistic", 1e-6),
    (plain, "logistic", 1e-4),
    (long_tails, fl.pseudo_huber(0.2), 1e-4),
    (waiting_times, "gamma", 1e-3),
]


def mu(leak: fl.Leakage, tolerance: float | None) -> Vector:
    return np.asarray(leak.membership() if tolerance is None else leak.membership(tolerance))


def refitted(leak: fl.Leakage, one_in: int) -> Vector:
    """The rows to fit without: one in so many, and those that are most exposed, where a bound would be low first."""
    order = np.argsort(-mu(leak, None), kind="stable")
    return np.unique(np.concatenate([order[:20], np.arange(0, len(order), one_in)]))


def never_low(leak: fl.Leakage, exact: Vector, least: float, rows: Any = slice(None)) -> None:
    """From below by rounding alone, ``least`` being what the refits themselves are off; from above by the tolerance."""
    for tolerance in TOLERANCES:
        found = mu(leak, tolerance)[rows]
        known = np.isfinite(found)  # a row that moves a public scale is told for certain, whatever its refit
        assert known.mean() > 0.5
        found, true = found[known], np.asarray(exact)[known]
        assert (found >= true * (1.0 - ROUNDING) - least).all(), tolerance
        assert (found <= true * (1.0 + (1e-3 if tolerance is None else tolerance) + ROUNDING) + least).all(), tolerance


@pytest.mark.parametrize("seed", often(range(3)))
@pytest.mark.parametrize(("table", "name", "l2"), TABLES, ids=lambda each: getattr(each, "__name__", str(each)))
def test_no_row_is_below_its_refit(table: Table, name: Any, l2: float, seed: int) -> None:
    X, y, weights = table(np.random.default_rng(seed))
    n = len(y)
    fit = fl.minimise(X, y, name, l2, weights, intercept=True)
    leak = fl.measure(fit, X, y, fl.Gaussian(1.0))
    x, penalty = np.column_stack([X, np.ones(n)]), np.append(np.full(X.shape[1], n * l2), 0.0)
    theta = minimum(x, y, weights, fit.loss, penalty, np.asarray(fit.theta))
    rows = refitted(leak, 4)
    others = [minimum(x, y, np.where(np.arange(n) == i, 0.0, weights), fit.loss, penalty, theta) for i in rows]
    exact = np.array([np.linalg.norm((other - theta).astype(float)) for other in others])
    never_low(leak, exact, 1e-17 * float(np.linalg.norm(theta)), rows)


def minimum_of_classes(x: Vector, y: Vector, weights: Vector, penalty: Vector, start: Vector) -> Vector:
    """Scores of three classes that add up to zero, by two parameters for each column: (2, p)."""
    x, weights, penalty, V = (np.asarray(each, dtype=np.longdouble) for each in (x, weights, penalty, start))
    Q = np.array([[1.0, 1.0], [-1.0, 1.0], [0.0, -2.0]], dtype=np.longdouble)
    Q = Q / np.sqrt((Q**2).sum(axis=0))
    for _ in range(100):
        z = x @ V.T @ Q.T
        P = np.exp(z - z.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        g = ((weights[:, None] * (P - np.eye(3)[y])) @ Q).T @ x + penalty * V
        A = (weights[:, None, None] * (P[:, :, None] * np.eye(3) - P[:, :, None] * P[:, None, :])).transpose(1, 2, 0)
        A = np.tensordot(Q.T, np.tensordot(A, Q, (1, 0)), (1, 0)).transpose(0, 2, 1)
        H = np.concatenate([np.concatenate([(x * A[a, b][:, None]).T @ x for b in range(2)], 1) for a in range(2)], 0)
        step = solved(H + np.diag(np.tile(penalty, 2)), g.ravel()).reshape(V.shape)
        V = V - step
        if np.abs(step).max() <= 1e-17 * np.abs(V).max():
            break
    assert np.abs(step).max() <= 1e-14 * np.abs(V).max()
    return V


@pytest.mark.parametrize(
    ("n", "l2", "every"), [(90, 1e-4, 2), (700, 1e-3, 14), pytest.param(700, 1e-3, 1, marks=pytest.mark.long)]
)
def test_no_row_of_three_classes_is_below_its_refit(n: int, l2: float, every: int) -> None:
    """By chord steps, and with more rows by the third derivative."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 3))
    y = np.argmax(X @ rng.normal(size=(3, 3)) * 2.0 + rng.gumbel(size=(n, 3)), axis=1)
    leak = fl.measure(fl.minimise(X, y, "softmax", l2, intercept=True), X, y, fl.Gaussian(1.0))
    x, penalty = np.column_stack([X, np.ones(n)]), np.append(np.full(3, n * l2), 0.0)
    V = minimum_of_classes(x, y, np.ones(n), penalty, np.zeros((2, 4)))
    rows = np.arange(0, n, every)
    others = [minimum_of_classes(x, y, np.where(np.arange(n) == i, 0.0, 1.0), penalty, V) for i in rows]
    exact = np.array([np.linalg.norm((other - V).astype(float)) for other in others])
    never_low(leak, exact, 1e-12 * float(np.linalg.norm(V.astype(float))), rows)


@pytest.mark.parametrize("n", [60, 400])
def test_no_row_is_below_its_refit_where_it_moves_the_scales_too(n: int) -> None:
    """A pipeline measured end to end, with a value that decides its column's scale."""
    rng = np.random.default_rng(n)
    X = rng.gamma(1.0, 1.0, (n, 3)) * [1.0, 10.0, 0.1] + [1990.0, 0.0, 5.0]
    X[3, 1] += 2000.0
    y = ((X - X.mean(axis=0)) / X.std(axis=0) @ [0.5, -0.3, 0.4] + rng.logistic(size=n) > 0).astype(int)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=5.0, tol=1e-12, solver="newton-cholesky")).fit(X, y)
    leak = fl.measure(model, X, y, fl.Gaussian(1.0), public="nothing", polish=True)
    (jacobian,) = leak._information.jacobians
    assert jacobian.folding is not None
    fit, frame = jacobian.fit, jacobian.folding.frame
    x = np.column_stack([X - X.mean(axis=0), np.ones(n)])
    loss, l2, rows = fit.loss, n * fit.l2, refitted(leak, n // 40)
    back = np.eye(4)
    back[3, :3] = -X.mean(axis=0)

    def fitted(weights: Vector, start: Vector) -> Vector:
        own = weights > 0
        return minimum(x, y, weights, loss, np.append(l2 * X[own].std(axis=0) ** 2, 0.0), start)

    theta = fitted(np.ones(n), np.asarray(fit.centred_theta))
    others = [fitted(np.where(np.arange(n) == i, 0.0, 1.0), theta) for i in rows]
    exact = np.array([np.linalg.norm(frame @ back @ (other - theta)) for other in others])
    never_low(leak, exact, 1e-14, rows)


def test_no_group_is_below_its_refit() -> None:
    X, y, weights = separable(np.random.default_rng(0))
    fit = fl.minimise(X, y, "logistic", 1e-4, weights, intercept=True)
    leak = fl.measure(fit, X, y, fl.Gaussian(1.0))
    labels, x = np.arange(150) % 40, np.column_stack([X, np.ones(150)])
    penalty = np.append(np.full(3, 150 * 1e-4), 0.0)
    theta = minimum(x, y, weights, fit.loss, penalty, np.asarray(fit.theta))
    for group, found in leak.membership_by_group(labels).items():
        other = minimum(x, y, np.where(labels == group, 0.0, weights), fit.loss, penalty, theta)
        exact = float(np.linalg.norm((other - theta).astype(float)))
        assert exact * (1.0 - ROUNDING) <= found <= exact * (1.0 + 1e-3)


def test_several_releases_are_added_up_at_the_finest_setting() -> None:
    X, y, _ = plain(np.random.default_rng(0))
    leak = fl.measure(fl.minimise(X, y, "logistic", 1e-4, intercept=True), X, y, fl.Gaussian(1.0))
    np.testing.assert_array_equal(fl.compose(leak, leak).membership(), np.sqrt(2.0 * leak.membership(1e-8) ** 2))
