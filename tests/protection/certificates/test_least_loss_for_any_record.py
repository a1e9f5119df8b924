"""Noise of least loss for whoever could be there: its shape by dense matrices, both terms by refits, its bounds attacked.

The bound in the metric of the own Hessian holds for every exchange of a row, by refits, and is close to the largest found.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import sqrtm
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from cases import Case, make
from copies import copies
from fisherleak.engine.noise.calibration_record import FOR_ANYONE
from fisherleak.protection.calibrate.limit_terms import raw_map
from fisherleak.protection.certificates import least_loss_for_any_record as own_metric
from fisherleak.protection.certificates.bound_quantities import quantities_of
from fisherleak.protection.certificates.data_dependent_covariance import own_shape
from fisherleak.protection.certificates.exchange import exchange_in
from fisherleak.protection.certificates.least_loss_for_any_record import bound_in_own_metric
from often import often
from protection.boxed import BOUNDS, BOX, LABELS, folded, problem

Vector = NDArray[np.float64]
Measure = Callable[[Vector, Vector], fl.Leakage]
Shape = Callable[[fl.Leakage, Vector], Vector]


def moment(corners: tuple[tuple[float, float], ...], labels: tuple[float, float], intercept: bool) -> Vector:
    """N by the mean over all corners, one by one."""
    x = np.array([*product(*corners)])
    x = np.column_stack([x, np.ones(len(x))]) if intercept else x
    free = np.diag([1.0] * len(corners) + [0.0] * intercept)
    return np.asarray(x.T @ x / len(x) + (0.5 * (labels[1] - labels[0])) ** 2 * free)


def mean_of(G: Vector, N: Vector) -> Vector:
    """G # N from its definition."""
    root = np.real(sqrtm(G))
    back = np.linalg.inv(root)
    return np.asarray(root @ np.real(sqrtm(back @ N @ back)) @ root)


def shape_of(G: Vector, N: Vector) -> Vector:
    B = np.linalg.inv(G)
    return np.asarray(B @ mean_of(G, N) @ B)


def gram(leak: fl.Leakage, X: Vector) -> Vector:
    """G over the released parameters, from the rows and the penalties of a fit."""
    fit = leak.fits[0]
    x = np.column_stack([X, np.ones(len(X))]) if fit.intercept is not None else X
    omega = np.ones(len(X)) if fit.sample_weight is None else np.asarray(fit.sample_weight)
    scales = np.ones(X.shape[1]) if fit.scales is None else np.asarray(fit.scales)
    penalty = len(X) * fit.l2 / (0.25 if fit.loss.name == "logistic" else 1.0) * scales**2
    return np.asarray((x * omega[:, None]).T @ x + np.diag([*penalty, *[0.0] * (fit.intercept is not None)]))


def terms(measure: Measure, N: Vector, X: Vector, y: Vector, row: int, scale: float) -> tuple[float, float]:
    """Eta of a row by mean and covariance together, and by the covariance alone: from differences of refits."""
    step, label = 1e-4, measure(X, y).fits[0].loss.name == "squared"

    def law(move: Vector) -> tuple[Vector, Vector]:
        moved, labels = X.copy(), y.copy()
        moved[row] += move[:-1]
        labels[row] += move[-1]
        leak = measure(moved, labels)
        return np.asarray(leak.fits[0].theta), shape_of(gram(leak, moved), N)

    _, S = law(np.zeros(X.shape[1] + 1))
    dw, dS = [], []
    for unit in np.eye(X.shape[1] + 1)[: X.shape[1] + label]:
        (w1, S1), (w0, S0) = law(step * unit), law(-step * unit)
        dw.append((w1 - w0) / (2 * step))
        dS.append(np.linalg.solve(S, (S1 - S0) / (2 * step)))
    W, D = np.stack(dw), np.stack(dS)
    second = 0.5 * np.einsum("aij,bji->ab", D, D)
    both = W @ np.linalg.solve(scale**2 * S, W.T) + second
    return float(np.sqrt(np.linalg.eigvalsh(both)[-1])), float(np.sqrt(np.linalg.eigvalsh(second)[-1]))


def plainly(case: Case) -> Measure:
    return lambda X, y: replace(case, X=X, y=y).leak()


CASES: dict[str, tuple[Case, bool, float]] = {
    "plain": (problem(), False, 2.0),
    "with an intercept and weights": (problem(2, intercept=True, weighted=True, n=300), False, 2.0),
    "few rows": (problem(3, n=25, l2=2.0), False, 3.0),
    "scalers folded in": (problem(4, intercept=True, n=400), True, 2.0),
}


@pytest.mark.parametrize("name", often(CASES, 3))
def test_both_terms_of_whoever_could_be_there_stay_below_the_limit(name: str) -> None:
    case, folds, limit = CASES[name]
    measure = folded if folds else plainly(case)
    leak = measure(case.X, case.y)
    noise: Any = fl.calibrate(leak, limit, "any-record", shape="least-loss", bounds=BOUNDS)
    N = moment((BOX,) * 3, LABELS, leak.fits[0].intercept is not None)
    np.testing.assert_allclose(noise.shape, shape_of(gram(leak, case.X), N), rtol=1e-6, atol=1e-9)
    eta, second = np.asarray(leak.per_example()), noise.calibrated.confidential.second
    rng = np.random.default_rng(0)
    largest = alone = 0.0
    for k in range(9):
        row = [int(np.argmax(eta)), int(np.argmin(eta)), k][k % 3]
        X, y = case.X.copy(), case.y.copy()
        X[row], y[row] = rng.choice(BOX, 3) if k % 4 else rng.uniform(*BOX, 3), rng.choice(LABELS)
        both, own = terms(measure, N, X, y, row, noise.scale)
        largest, alone = max(largest, both), max(alone, own)
    assert 0.2 * limit < largest <= limit
    assert 0.2 * second < alone <= second


def logistic(X: Vector, y: Vector) -> fl.Leakage:
    return fl.measure(fl.minimise(X, y, "logistic", 0.05, intercept=True), X, y)


def scaled_logistic(X: Vector, y: Vector) -> fl.Leakage:
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.02, tol=1e-10, max_iter=1000)).fit(X, y)
    return fl.measure(model, X, y, public="nothing", polish=True)


@pytest.mark.parametrize("measure", [logistic, scaled_logistic])
def test_both_terms_of_the_logistic_loss_stay_below_the_limit(measure: Measure) -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(-1.5, 1.5, (700, 2)) * [1.0, 0.2]
    y = (rng.random(700) < 1.0 / (1.0 + np.exp(-X @ [2.0, -3.0]))).astype(float)
    ends = ((-1.5, 1.5), (-0.3, 0.3))
    leak = measure(X, y)
    noise: Any = fl.calibrate(leak, 1.0, "any-record", shape="least-loss", bounds={"x0": ends[0], "x1": ends[1]})
    N, second = moment(ends, (0.0, 1.0), True), noise.calibrated.confidential.second
    np.testing.assert_allclose(noise.shape, shape_of(gram(leak, X), N), rtol=1e-6, atol=1e-9)
    largest = alone = 0.0
    for k in range(4):
        changed, labels = X.copy(), y.copy()
        changed[k], labels[k] = [rng.choice(pair) for pair in ends], k % 2
        both, own = terms(measure, N, changed, labels, k, noise.scale)
        largest, alone = max(largest, both), max(alone, own)
    assert 0.1 < largest <= 1.0
    assert 0.2 * second < alone <= second


@pytest.mark.long
def test_it_costs_less_than_other_counted_shapes_where_rows_are_many() -> None:
    rng = np.random.default_rng(0)
    X = np.clip(rng.normal(size=(5000, 5)), -3, 3)
    X[:, 1] = np.clip(X[:, 0] + 0.1 * X[:, 1], -3, 3)
    y = np.clip(X @ [1.0, -1.0, 0.5, 0.0, 0.3] + rng.normal(size=5000), -5, 5)
    bounds: Any = {f"x{j}": (-3.0, 3.0) for j in range(5)} | {"label": (-5.0, 5.0)}
    leak = fl.measure(fl.minimise(X, y, l2=1e-2), X, y)
    G, costs = X.T @ X + 50.0 * np.eye(5), {}
    for shape in ("isotropic", "hessian", "least-loss"):
        noise: Any = fl.calibrate(leak, 1.0, "any-record", shape=shape, bounds=bounds, random_state=0)
        costs[shape] = noise.scale**2 * np.trace(G @ (np.eye(5) if noise.shape is None else noise.shape))
    assert costs["least-loss"] < 0.7 * costs["hessian"]
    assert costs["least-loss"] < 0.2 * costs["isotropic"]


@pytest.mark.long
def test_levels_of_categories_and_single_columns_are_limited_too() -> None:
    pandas = pytest.importorskip("pandas")
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import Ridge
    from sklearn.preprocessing import OneHotEncoder

    rng = np.random.default_rng(1)
    frame = pandas.DataFrame({"age": rng.uniform(-1, 1, 500), "height": rng.uniform(-1, 1, 500)})
    frame["town"] = rng.choice(["a", "b", "c"], 500)
    y = np.clip(frame.age + (frame.town == "b") + rng.uniform(-1, 1, 500), -3, 3).to_numpy()
    model = make_pipeline(make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough"), Ridge(20.0))
    leak = fl.measure(model.fit(frame, y), frame, y)
    given: Any = {
        "shape": "least-loss",
        "bounds": {"age": (-1, 1), "height": (-1, 1), "label": (-3, 3)},
        "random_state": 0,
    }
    whole: Any = fl.calibrate(leak, 1.0, "any-record", **given)
    single: Any = fl.calibrate(leak, 1.0, "any-record", attributes=["age"], **given)
    assert np.all(whole.shape == single.shape)
    assert single.scale < whole.scale
    assert leak.with_noise(whole).per_example().max() <= 1.0


def test_nothing_of_the_shape_leaves_and_a_limit_below_its_own_term_is_refused() -> None:
    case = problem()
    noise: Any = fl.calibrate(case.leak(), 1.0, "any-record", shape="least-loss", bounds=BOUNDS)
    record = json.loads(json.dumps(noise.record()))
    assert record["shape"] == record["calibrated"]["shape"] == FOR_ANYONE
    assert all(other.calibrated.confidential is None for other in copies(noise))
    assert noise.gap is None
    second = noise.calibrated.confidential.second
    with pytest.raises(fl.InvalidInputError, match="`shape='least-loss'`: the covariance itself may reveal"):
        fl.calibrate(case.leak(), 0.9 * second, "any-record", shape="least-loss", bounds=BOUNDS)


def test_the_grid_follows_public_numbers_alone() -> None:
    case = problem()
    other = replace(case, y=np.roll(case.y, 7), X=case.X[::-1].copy())
    noises: list[Any] = [
        fl.calibrate(each.leak(), 1.0, "any-record", shape="least-loss", bounds=BOUNDS) for each in (case, other)
    ]
    assert noises[0].calibrated.least == noises[1].calibrated.least
    for noise in noises:
        assert noise.calibrated.least <= np.sqrt(np.linalg.eigvalsh(noise.shape)[0])


def test_the_mean_of_two_matrices_is_what_least_loss_asks_for() -> None:
    """Of all M with tr(M^-1 N) <= p, G # N has the least tr(M G^-1), up to its scale: neighbours cost more."""
    rng, case = np.random.default_rng(0), problem()
    leak = case.leak()
    N, G = moment((BOX,) * 3, LABELS, False), gram(leak, case.X)
    noise: Any = fl.calibrate(leak, 2.0, "any-record", shape="least-loss", bounds=BOUNDS)
    M, B = G @ noise.shape @ G, np.linalg.inv(G)
    np.testing.assert_allclose(M @ B @ M, N, rtol=1e-6, atol=1e-9)
    least = np.trace(M @ B) * np.trace(np.linalg.solve(M, N))
    for _ in range(50):
        turn = np.eye(3) + 0.3 * rng.normal(size=(3, 3))
        other = turn @ M @ turn.T
        assert np.trace(other @ B) * np.trace(np.linalg.solve(other, N)) >= least * (1 - 1e-12)
    U = raw_map(leak.fits[0])
    np.testing.assert_allclose(U @ U.T, B, rtol=1e-8)


CASES_HESSIAN_METRIC = {
    "plain": problem(),
    "with an intercept": problem(2, intercept=True),
    "with weights": problem(5, n=60, weighted=True),
    "few rows": problem(3, n=12, l2=0.2),
    "one row decides": problem(6, n=5, l2=0.02),
}
CLOSE = {"plain": problem(n=1500), "with an intercept": problem(2, n=1500, intercept=True)}


def bound_of(leak: fl.Leakage, attributes: Any = None, label: bool | None = None) -> float:
    shaped = leak.with_noise(own_shape(leak._information.jacobians[0]))
    exchange = exchange_in(shaped, BOUNDS, attributes, label)
    return bound_in_own_metric(exchange, quantities_of(exchange)[0])


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
@pytest.mark.parametrize("name", list(CASES_HESSIAN_METRIC))
def test_no_exchange_of_a_row_is_above_the_bound(name: str, label: bool) -> None:
    case = CASES_HESSIAN_METRIC[name]
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
    noise: Any = fl.calibrate(case.leak(), 2.0, "any-record", shape="hessian", bounds=BOUNDS)
    assert noise.calibrated.confidential.upper == pytest.approx(bound_of(case.leak()), rel=1e-9)


def test_corners_that_are_not_looked_at_are_bounded_in_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    leak = CASES_HESSIAN_METRIC["plain"].leak()
    exactly = bound_of(leak)
    monkeypatch.setattr(own_metric, "MOST_EXACT", 0)
    assert exactly < bound_of(leak) < 1.3 * exactly


def test_nothing_is_certified_where_one_row_holds_a_direction_alone() -> None:
    case = make("squared", 1, n=40, l2=0.0)
    case = replace(case, X=np.column_stack([case.X[:, :2], np.eye(40)[0]]))
    assert bound_of(replace(case, X=np.clip(case.X, *BOX), y=np.clip(case.y, *LABELS)).leak()) == np.inf
