"""Noise shaped like the rows' own inverse Hessian: both terms of whoever could be there stay below the limit, by refits."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from cases import Case, make
from copies import copies
from fisherleak.engine.noise import grid_of, noise_from_record
from fisherleak.engine.noise.calibration_record import FOR_ANYONE
from fisherleak.protection.calibrate.limit_terms import raw_map
from fisherleak.protection.certificates.data_dependent_covariance import own_shape
from often import often
from protection.boxed import BOUNDS, BOX, LABELS, folded, problem

pytestmark = pytest.mark.usefixtures("quick_audits")
Vector = NDArray[np.float64]
Measure = Callable[[Vector, Vector], fl.Leakage]


def plainly(case: Case) -> Measure:
    return lambda X, y: replace(case, X=X, y=y).leak()


def both_terms(measure: Measure, X: Vector, y: Vector, row: int, scale: float, step: float = 1e-4) -> float:
    """Eta of a row by the mean and by the covariance, from differences of refits alone."""

    def fitted(move: Vector) -> tuple[Vector, Vector]:
        moved, labels = X.copy(), y.copy()
        moved[row] += move[:-1]
        labels[row] += move[-1]
        fit = measure(moved, labels).fits[0]
        U = raw_map(fit)
        return np.asarray(fit.theta), np.asarray(np.linalg.inv(U @ U.T))

    _, H = fitted(np.zeros(X.shape[1] + 1))
    dw, dH = [], []
    for unit in np.eye(X.shape[1] + 1):
        (w1, H1), (w0, H0) = fitted(step * unit), fitted(-step * unit)
        dw.append((w1 - w0) / (2 * step))
        dH.append(np.linalg.solve(H, (H1 - H0) / (2 * step)))
    W, D = np.stack(dw), np.stack(dH)
    F = W @ H @ W.T / scale**2 + 0.5 * np.einsum("aij,bji->ab", D, D)
    return float(np.sqrt(np.linalg.eigvalsh(F)[-1]))


def refitted(X: Vector, y: Vector, l2: float) -> tuple[Vector, Vector]:
    """Newton's minimum of the logistic risk, for labels anywhere between 0 and 1, and its Hessian: nothing of the package."""
    w = np.zeros(X.shape[1])
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-X @ w))
        H = (X * (p * (1.0 - p))[:, None]).T @ X + len(y) * l2 * np.eye(len(w))
        step = np.linalg.solve(H, X.T @ (p - y) + len(y) * l2 * w)
        w = w - step
        if np.abs(step).max() < 1e-14:
            break
    return w, H


def gram(X: Vector, l2: float) -> Vector:
    return np.asarray(X.T @ X + 4.0 * len(X) * l2 * np.eye(X.shape[1]))


def logistic_terms(X: Vector, y: Vector, row: int, l2: float, scale: float, step: float = 1e-4) -> tuple[float, float]:
    """Eta of a row by the mean and the covariance together, and by the covariance alone."""
    H = gram(X, l2)
    dw, dH = [], []
    for unit in np.eye(X.shape[1] + 1):
        found = []
        for sign in (1.0, -1.0):
            moved, labels = X.copy(), y.copy()
            moved[row] += sign * step * unit[:-1]
            labels[row] += sign * step * unit[-1]
            found.append((refitted(moved, labels, l2)[0], gram(moved, l2)))
        dw.append((found[0][0] - found[1][0]) / (2 * step))
        dH.append(np.linalg.solve(H, (found[0][1] - found[1][1]) / (2 * step)))
    W, D = np.stack(dw), np.stack(dH)
    second = 0.5 * np.einsum("aij,bji->ab", D, D)
    first = W @ H @ W.T / scale**2
    return float(np.sqrt(np.linalg.eigvalsh(first + second)[-1])), float(np.sqrt(np.linalg.eigvalsh(second)[-1]))


CASES: dict[str, tuple[Case, bool]] = {
    "plain": (problem(), False),
    "with an intercept and weights": (problem(2, intercept=True, weighted=True, n=300), False),
    "few rows": (problem(3, n=25, l2=0.5), False),
    "scalers folded in": (problem(4, intercept=True), True),
}


@pytest.mark.parametrize("name", often(CASES, 3))
def test_both_terms_of_whoever_could_be_there_stay_below_the_limit(name: str) -> None:
    case, folds = CASES[name]
    measure = folded if folds else plainly(case)
    noise: Any = fl.calibrate(measure(case.X, case.y), 2.0, "any-record", shape="hessian", bounds=BOUNDS)
    eta = np.asarray(measure(case.X, case.y).per_example())
    rng = np.random.default_rng(0)
    largest = 0.0
    for k in range(12):
        row = [int(np.argmax(eta)), int(np.argmin(eta)), k][k % 3]
        X, y = case.X.copy(), case.y.copy()
        X[row], y[row] = rng.choice(BOX, 3) if k % 4 else rng.uniform(*BOX, 3), rng.choice(LABELS)
        largest = max(largest, both_terms(measure, X, y, row, noise.scale))
    assert 0.2 < largest <= 2.0


def test_the_second_term_is_bounded_and_does_not_fall_with_the_limit() -> None:
    case = problem()
    found: list[Any] = [fl.calibrate(case.leak(), e, "any-record", shape="hessian", bounds=BOUNDS) for e in (1.0, 10.0)]
    seconds = [noise.calibrated.confidential.second for noise in found]
    assert seconds[0] == seconds[1]
    rng = np.random.default_rng(1)
    for row in range(6):
        X, y = case.X.copy(), case.y.copy()
        X[row], y[row] = rng.choice(BOX, 3), rng.choice(LABELS)
        assert both_terms(plainly(case), X, y, row, 1e9) <= seconds[0]
    with pytest.raises(fl.InvalidInputError, match="the covariance itself may reveal"):
        fl.calibrate(case.leak(), 0.5 * seconds[0], "any-record", shape="hessian", bounds=BOUNDS)


def test_the_shape_is_in_no_record() -> None:
    case = problem()
    noise: Any = fl.calibrate(case.leak(), 1.0, "any-record", shape="hessian", bounds=BOUNDS)
    record = json.loads(json.dumps(noise.record()))
    assert record["shape"] == record["calibrated"]["shape"] == "hessian"
    assert all(other.calibrated.confidential is None for other in copies(noise))
    with pytest.raises(fl.InvalidInputError, match="the record does not contain it"):
        noise_from_record(record)
    with pytest.raises(fl.InvalidInputError, match="covariance that was computed from the rows"):
        fl.release(case.fit(), noise)


def test_the_grid_follows_public_numbers_alone_and_is_fine_enough() -> None:
    case = problem()
    other = replace(case, y=np.roll(case.y, 7), X=case.X[::-1].copy())
    noises: list[Any] = [
        fl.calibrate(each.leak(), 1.0, "any-record", shape="hessian", bounds=BOUNDS) for each in (case, other)
    ]
    assert noises[0].calibrated.least == noises[1].calibrated.least
    for noise in noises:
        assert np.all(grid_of(noise, 3) <= grid_of(fl.Gaussian(noise.scale, noise.shape), 3))


def test_models_of_scikit_learn_are_released_with_it() -> None:
    case = problem(2)
    model = Ridge(12.0).fit(case.X, case.y)
    noise: Any = fl.calibrate(fl.measure(model, case.X, case.y), 1.0, "any-record", shape="hessian", bounds=BOUNDS)
    released = fl.release(model, noise, random_state=0, public="preprocessing")
    away = np.append(released.coef_, released.intercept_) - np.append(model.coef_, model.intercept_)
    white = np.linalg.solve(np.linalg.cholesky(noise.shape), away) / noise.scale
    assert 0.1 < np.linalg.norm(white) < 5.0
    grid = grid_of(noise, 4)
    assert np.all(np.append(released.coef_, released.intercept_) / grid % 1.0 == 0.0)


@pytest.mark.parametrize(
    ("n", "l2", "units"), [(600, 0.05, (1.0, 1.0, 1.0)), (1500, 1e-2, (1.0, 0.2, 0.05)), (300, 0.5, (1.0, 1.0, 0.01))]
)
def test_both_terms_of_the_logistic_loss_stay_below_the_limit(n: int, l2: float, units: tuple[float, ...]) -> None:
    rng, span = np.random.default_rng(n), 1.5 * np.array(units)
    X = rng.uniform(-span, span, (n, 3))
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-X @ (np.array([2.0, -1.0, 1.0]) / units)))).astype(float)
    bounds: Any = {f"x{j}": (-float(span[j]), float(span[j])) for j in range(3)}
    leak = fl.measure(fl.minimise(X, y, loss="logistic", l2=l2), X, y)
    noise: Any = fl.calibrate(leak, 2.0, "any-record", shape="hessian", bounds=bounds, random_state=0)
    eta, bound = np.asarray(leak.per_example()), noise.calibrated.confidential.second
    largest = alone = 0.0
    for k in range(12):
        row = [int(np.argmax(eta)), int(np.argmin(eta)), k][k % 3]
        changed, labels = X.copy(), y.copy()
        changed[row] = rng.choice([-1.0, 1.0], 3) * span if k % 4 else rng.uniform(-span, span)
        labels[row] = k % 2
        together, second = logistic_terms(changed, labels, row, l2, noise.scale)
        largest, alone = max(largest, together), max(alone, second)
    assert 0.4 < largest <= 2.0
    assert 0.05 * bound < alone <= bound


def scaled_logistic(X: Vector, y: Vector) -> fl.Leakage:
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.02, tol=1e-10, max_iter=1000)).fit(X, y)
    return fl.measure(model, X, y, public="nothing")


def poisson(X: Vector, y: Vector) -> fl.Leakage:
    return fl.measure(fl.minimise(X, y, "poisson", 1.0, intercept=True), X, y)


@pytest.mark.parametrize("name", ["logistic, scalers folded in", "poisson"])
def test_each_term_of_other_losses_by_the_refitted_model(name: str) -> None:
    """The first by the engine at the refitted model and its own shape, the second by differences of that shape."""
    rng, n, measure = np.random.default_rng(3), 800, poisson if name == "poisson" else scaled_logistic
    X, labels = np.clip(rng.normal(size=(n, 3)), -2, 2), [0.0, 4.0] if name == "poisson" else [0.0, 1.0]
    z = X @ np.array([0.5, -0.3, 0.2])
    y = (
        np.minimum(rng.poisson(np.exp(z)), 4.0)
        if name == "poisson"
        else (rng.random(n) < 1 / (1 + np.exp(-2 * z))) * 1.0
    )
    bounds: Any = {f"x{j}": (-2.0, 2.0) for j in range(3)} | ({"label": (0.0, 4.0)} if name == "poisson" else {})
    noise: Any = fl.calibrate(measure(X, y), 1.0, "any-record", shape="hessian", bounds=bounds, random_state=0)
    second = noise.calibrated.confidential.second
    for k in range(6):
        changed, classes = X.copy(), y.copy()
        changed[k], classes[k] = rng.choice([-2.0, 2.0], 3), labels[k % 2]
        shape: Any = own_shape(measure(changed, classes)._information.jacobians[0])
        first = np.asarray(measure(changed, classes).with_noise(shape.rescaled(noise.scale)).per_example())[k]
        moved = []
        for unit in np.eye(3):
            ends = []
            for sign in (1.0, -1.0):
                other = changed.copy()
                other[k] += sign * 1e-4 * unit
                there: Any = own_shape(measure(other, classes)._information.jacobians[0])
                ends.append(np.linalg.inv(there.shape))
            moved.append(shape.shape @ (ends[0] - ends[1]) / 2e-4)
        D = np.stack(moved)
        alone = np.sqrt(np.linalg.eigvalsh(0.5 * np.einsum("aij,bji->ab", D, D))[-1])
        assert 0.01 * second < alone <= second
        assert first**2 + second**2 <= 1.0


def test_the_logistic_shape_costs_less_where_parameters_are_known_with_different_precision() -> None:
    rng, units = np.random.default_rng(0), np.array([1.0, 1.0, 0.1, 0.02])
    X = rng.uniform(-units, units, (4000, 4))
    y = (rng.random(4000) < 1.0 / (1.0 + np.exp(-X @ np.array([1.0, -1.0, 3.0, 1.0])))).astype(float)
    bounds: Any = {f"x{j}": (-float(unit), float(unit)) for j, unit in enumerate(units)}
    leak = fl.measure(fl.minimise(X, y, loss="logistic", l2=1e-3), X, y)
    _, H = refitted(X, y, 1e-3)
    costs = []
    for shape in ("isotropic", "hessian"):
        noise: Any = fl.calibrate(leak, 1.0, "any-record", shape=shape, bounds=bounds, random_state=0)
        S = np.eye(4) if shape == "isotropic" else noise.shape
        costs.append(noise.scale**2 * np.trace(H @ S))
    assert costs[1] < 0.2 * costs[0]


def test_other_losses_are_refused_by_name() -> None:
    case = make("logistic", 1, n=500, l2=0.1)
    case = replace(case, loss=replace(fl.LOSSES["logistic"], name="own", traits=None))
    with pytest.raises(fl.InvalidInputError, match="own losses of one output, and the loss is own"):
        fl.calibrate(case.leak(), 1.0, "any-record", shape="hessian", bounds=dict.fromkeys(("x0", "x1", "x2"), (-9, 9)))


@pytest.mark.parametrize("public", ["matrix", "leakage"])
def test_a_public_shape_keeps_the_limit_for_whoever_could_be_there(public: str) -> None:
    case, others = problem(5), problem(6, n=400)
    shape: Any = others.leak() if public == "leakage" else np.linalg.inv(others.X.T @ others.X)
    noise: Any = fl.calibrate(case.leak(), 0.5, "any-record", shape=shape, bounds=BOUNDS)
    assert noise.calibrated.counted
    assert noise.calibrated.shape is None
    rng = np.random.default_rng(0)
    for row in range(12):
        X, y = case.X.copy(), case.y.copy()
        X[row], y[row] = rng.choice(BOX, 3), rng.choice(LABELS)
        assert replace(case, X=X, y=y).leak(noise).per_example()[row] <= 0.5


@pytest.mark.parametrize(
    ("over", "shape"),
    [
        ("any-record", "hessian"),
        ("any-record", "least-loss"),
        ("max", "hessian"),
        ("max", "least-loss"),
        ("dataset", "least-loss"),
    ],
)
def test_at_another_scale_the_shape_is_still_the_rows_own(over: str, shape: str) -> None:
    case = problem(1, n=200)
    given: Any = {"bounds": BOUNDS, "random_state": 0} if over == "any-record" else {}
    noise: Any = fl.calibrate(case.leak(), 5.0, over, shape=shape, **given)
    named = FOR_ANYONE if (over, shape) == ("any-record", "least-loss") else shape
    for other in (
        noise,
        noise.rescaled(2 * noise.scale),
        noise.rescaled(3.0).rescaled(0.1),
        *copies(noise.rescaled(2.0)),
    ):
        assert other.record()["shape"] == named  # by its name alone: no record holds the matrix
        assert "not in these etas" in case.leak(other).summary()
        with pytest.raises(fl.InvalidInputError, match="has a covariance that was computed from the rows"):
            fl.release(case.fit(), other)
        with pytest.raises(fl.InvalidInputError, match="follows from the rows themselves"):
            fl.compose(case.leak(other), case.leak())
    scaled = noise.rescaled(2.0).calibrated
    assert (scaled.over, scaled.eta, scaled.probability, scaled.confidential) == ("nothing", None, None, None)
    np.testing.assert_array_equal(grid_of(noise.rescaled(2 * noise.scale), 3), 2 * grid_of(noise, 3))
