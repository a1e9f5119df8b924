"""The certified bound: for every label, not for the ends of their range alone; and over rows whose score is in an interval.

Moves and curvature by all rows: what exchanged rows do is never more, and few rows far out do not spoil the bound.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fisherleak as fl
from cases import Case
from fisherleak.protection.certificates import bound_for_any_record
from fisherleak.protection.certificates.bound_for_any_record import LENGTHS, Drift, bound, drift_of, most_within
from fisherleak.protection.certificates.bound_quantities import quantities_of
from fisherleak.protection.certificates.exchange import exchange_in, feature_map, value_map
from fisherleak.protection.certificates.worst_record import LOOSEST, certified, worst_record


def bounds_of(loss: str, labels: tuple[float, float]) -> tuple[float, float]:
    """Over all labels at once, and the largest of those for single labels between."""
    X = 0.3 + 0.1 * np.linspace(-1.0, 1.0, 6)[:, None].round(3)
    y = np.linspace(0.5, 1.0, 6)
    leak = fl.measure(fl.minimise(X, y, loss, l2=0.05), X, y)
    ends = {"x0": (float(X.min() - 0.01), float(X.max() + 0.01)), "label": labels}
    exchange = exchange_in(leak, ends, label=False)
    q, _ = quantities_of(exchange)

    def with_labels(values: np.ndarray) -> float:
        return bound(replace(exchange, allowed=replace(exchange.allowed, labels=values)), q).value

    return with_labels(exchange.labels), max(with_labels(np.array([y])) for y in np.linspace(*labels, 65))


@pytest.mark.parametrize("loss", ["gamma", "poisson"])
def test_no_label_between_the_ends_has_a_larger_bound(loss: str) -> None:
    together, single = bounds_of(loss, (0.001, 1.05))
    assert single <= together * (1 + 1e-12) < 1.3 * single


def test_labels_between_the_ends_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the Gamma loss: curvature grows with the label where the gradient falls."""
    monkeypatch.setattr(bound_for_any_record, "_label_cells", lambda kind, labels: [np.array([y]) for y in labels])
    together, single = bounds_of("gamma", (0.001, 1.05))
    assert single > together * 1.001


# the largest value of a convex function over rows whose score lies in an interval

RNG_POINTS = 40


def case(seed: int, reach: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Points, a matrix whose norm is the function, scores and values there."""
    rng = np.random.default_rng(seed)
    x, w, M = rng.normal(size=(RNG_POINTS, 3)), rng.normal(size=3), rng.normal(size=(4, 3))
    return x, M, x @ w, np.linalg.norm(x @ M.T, axis=1) + reach, w


@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_concave_envelope_of_the_points_and_never_below_it(seed: int) -> None:
    _, _, z, values, _ = case(seed)
    for low, high in ((z.min(), z.min() + 0.3), (-0.2, 0.1), (0.5, 0.6), (z.max() - 0.2, z.max() + 1.0)):
        # the largest mean of values over weights of points whose mean score lies in the interval
        exact = linprog(
            -values, A_ub=np.stack([z, -z]), b_ub=[high, -low], A_eq=np.ones((1, len(z))), b_eq=[1.0], bounds=(0, 1)
        )
        assert exact.status == 0
        found = most_within(values, z, z, low, high)
        assert -exact.fun * (1 - 1e-9) <= found <= -exact.fun * 1.05


def test_no_row_of_the_hull_is_above_it() -> None:
    x, M, z, values, w = case(7)
    rng = np.random.default_rng(8)
    rows = rng.dirichlet(np.full(len(x), 0.05), size=20_000) @ x
    there, of_rows = rows @ w, np.linalg.norm(rows @ M.T, axis=1)
    gained = 0
    for low in np.arange(-3.0, 3.0, 0.25):
        inside = (there >= low) & (there <= low + 0.25)
        found = most_within(values, z, z, low, low + 0.25)
        assert of_rows[inside].max(initial=0.0) <= found <= values.max()
        gained += found < 0.9 * values.max()
    assert gained > 5


def test_scores_between_two_ends_are_taken_at_the_worse_one() -> None:
    _, _, z, values, _ = case(9)
    exact = most_within(values, z, z, 0.0, 0.1)
    assert exact <= most_within(values, z - 0.3, z + 0.3, 0.0, 0.1)
    # what a shift of all scores within these ends gives is never above
    for shift in (-0.3, 0.3):
        assert most_within(values, z + shift, z + shift, 0.0, 0.1) <= most_within(values, z - 0.3, z + 0.3, 0.0, 0.1)


def test_an_interval_that_holds_the_largest_gains_nothing_and_one_without_rows_is_empty() -> None:
    _, _, z, values, _ = case(10)
    top = z[np.argmax(values)]
    assert most_within(values, z, z, top - 0.1, top + 0.1) == values.max()
    assert most_within(values, z, z, z.max() + 1.0, z.max() + 2.0) == 0.0


def test_scales_that_move_with_categories_are_bounded_column_by_column() -> None:
    """|diag(m) E| by the metric of the Hessian is at most max |m| times |E| for the map that bounds take, whatever m is."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"city": rng.choice(list("abcd"), 80), "age": rng.normal(size=80)})
    y = rng.normal(size=80)
    columns = ColumnTransformer([("city", OneHotEncoder(sparse_output=False), ["city"])], remainder="passthrough")
    model = make_pipeline(columns, StandardScaler(), Ridge(alpha=1.0)).fit(frame, y)
    jacobian = fl.measure(model, frame, y, public="nothing")._information.jacobians[0]
    size = int(jacobian.theta.shape[0])
    exact, taken = (make(jacobian, jacobian.attributes, size) for make in (value_map, feature_map))
    root = np.linalg.cholesky(np.asarray(jacobian.fit.factor.inverse())).T
    ratios = []
    for _ in range(200):
        m = np.abs(rng.normal(size=size)) ** 3
        moved = np.linalg.norm(root @ (m[:, None] * exact), 2) / m.max()
        assert moved <= np.linalg.norm(root @ taken, 2) * (1 + 1e-12)
        ratios.append(moved / np.linalg.norm(root @ exact, 2))
    assert max(ratios) > 1.5  # for the values themselves it does not hold
    np.testing.assert_allclose(taken @ taken.T @ exact, exact, atol=1e-12)


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
    upper = certified(exchange_in(case.leak(), bounds), by_rows=True).upper
    assert upper < 0.7 * certified(exchange_in(case.leak(), bounds)).upper
    for row, x, y in rows(case, loss):
        assert float(exchanged(case, row, x, y).leak().per_example()[row]) <= upper


@pytest.mark.parametrize(("loss", "n", "l2"), CASES)
def test_parameters_and_curvature_move_no_farther_than_said(loss: str, n: int, l2: float) -> None:
    case, bounds = heavy(loss, n, l2)
    leak = case.leak()
    q, _ = quantities_of(exchange_in(leak, bounds))
    drift = drift_of(leak._information.jacobians[0], q)
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


@pytest.mark.long
def test_a_table_that_the_farthest_row_alone_would_refuse_is_calibrated() -> None:
    case, bounds = heavy("logistic", 500, 0.03)
    worst = worst_record(exchange_in(case.leak(), bounds))
    assert certified(exchange_in(case.leak(), bounds)).upper > LOOSEST * worst.lower
    assert worst.upper <= 6.0 * worst.lower
    noise: Any = fl.calibrate(case.leak(), 0.5, "any-record", bounds=bounds)
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
    noise: Any = fl.calibrate(case.leak(), 0.5, "any-record", bounds=bounds, shape="hessian", random_state=0)
    leak = case.leak(noise.rescaled(1.0))
    farthest, by_rows = (certified(exchange_in(leak, bounds), by_rows=way).upper for way in (False, True))
    assert by_rows <= noise.calibrated.confidential.upper < 0.8 * farthest


def test_rows_of_an_interval_of_scores_are_means_of_corners_with_scores_there(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    X = np.clip(rng.normal(size=(2000, D)), *BOX)
    X[:, 0] = np.clip(rng.exponential(size=2000), 0.0, 12.0)
    y = np.asarray(rng.random(2000) < 1 / (1 + np.exp(1.0 - 1.5 * X[:, 0])), dtype=np.float64)
    case, bounds = Case(X, y, "logistic", 0.01, None, True), BOUNDS | {"x0": (0.0, 12.0)}
    found = certified(exchange_in(case.leak(), bounds), by_rows=True)
    for row, x, label in rows(case, "logistic"):
        there = np.append(4.0 * (x[0] > 0), x[1:])
        assert float(exchanged(case, row, there, label).leak().per_example()[row]) <= found.upper
    monkeypatch.setattr(bound_for_any_record, "most_within", lambda values, *_: float(values.max()))
    assert found.upper < 0.95 * certified(exchange_in(case.leak(), bounds), by_rows=True).upper
