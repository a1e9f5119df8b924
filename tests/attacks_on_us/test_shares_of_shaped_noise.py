"""Shares where the rows decide the noise's covariance: attackers who use it too take no more than is stated.

Models and covariances are made anew, in plain NumPy, for every value of a fine grid. Eta squared is held against finite
differences of both; the attacker computes the posterior mean under normal laws whose covariances differ from value to value.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import sqrtm
from scipy.special import expit
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from fisherleak.engine.changes.remade_covariance import linear_part
from fisherleak.engine.noise.calibration_record import FOR_ANYONE, HESSIAN, Calibration
from fisherleak.leakage.shares import rms_etas
from fisherleak.protection.certificates.data_dependent_covariance import own_shape
from fisherleak.protection.certificates.least_loss_for_any_record import shape_for_anyone

Vector = NDArray[np.float64]
Rule = Callable[[Vector], Vector]
"""From G to the covariance."""
PLACES = np.arange(-7.0, 7.0 + 1e-9, 0.2)
PRIOR = np.exp(-0.5 * PLACES**2) / np.exp(-0.5 * PLACES**2).sum()
EXACT = ("posterior", "objective", "hessian")
NAMES = (*EXACT, "least-loss")
L2 = 0.1


def table(n: int, hostile: bool = False) -> tuple[Vector, Vector]:
    rng = np.random.default_rng(3)
    X = np.clip(rng.normal(size=(n, 3)), -3.0, 3.0)
    y = np.clip(X @ np.array([0.8, -0.5, 0.2]) + 0.6 * rng.normal(size=n), -3.0, 3.0)
    if hostile:
        X[0] = [3.0, -3.0, 3.0]
    return X, y


def diabetes() -> tuple[Vector, Vector]:
    X, y = load_diabetes(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def gram(X: Vector, penalty: Any) -> Vector:
    """Of rows with a constant column, whose parameter has no penalty."""
    x = np.column_stack([X, np.ones(len(X))])
    return np.asarray(x.T @ x + np.diag(np.append(penalty * np.ones(X.shape[1]), 0.0)))


def mean_of(G: Vector, N: Vector) -> Vector:
    """G # N."""
    root = np.real(sqrtm(G))
    back = np.linalg.inv(root)
    return np.asarray(root @ np.real(sqrtm(back @ N @ back)) @ root)


def shaped(leak: fl.Leakage, name: str, scale: float) -> tuple[Any, Rule]:
    """A noise of that name and scale, and the rule that its covariance follows."""
    if name == "posterior":
        return fl.Posterior(scale**2), lambda G: scale**2 * np.linalg.inv(G)
    if name == "objective":
        return fl.ObjectivePerturbation(scale), lambda G: scale**2 * np.linalg.inv(G @ G)
    jacobian = leak._information.jacobians[0]
    told = Calibration("nothing", None, shape=HESSIAN if name == "hessian" else FOR_ANYONE)
    if name == "hessian":
        noise = replace(own_shape(jacobian).rescaled(scale), calibrated=told)
        return noise, lambda G: scale**2 * np.linalg.inv(G)
    root = np.random.default_rng(5).normal(size=(len(leak.attributes) + 1,) * 2)
    N = root @ root.T + np.eye(len(root))
    noise = replace(shape_for_anyone(linear_part(jacobian), N).rescaled(scale), calibrated=told)

    def rule(G: Vector) -> Vector:
        B = np.linalg.inv(G)
        return np.asarray(scale**2 * B @ mean_of(G, N) @ B)

    return noise, rule


def squared(X: Vector, y: Vector, penalty: Any) -> Vector:
    x = np.column_stack([X, np.ones(len(X))])
    return np.asarray(np.linalg.solve(gram(X, penalty), x.T @ y))


def logistic(X: Vector, y: Vector, penalty: Any) -> Vector:
    x = np.column_stack([X, np.ones(len(X))])
    own = np.append(penalty * np.ones(X.shape[1]), 0.0)
    w = np.zeros(x.shape[1])
    for _ in range(12):
        p = expit(x @ w)
        w = w - np.linalg.solve((x.T * (p * (1 - p))) @ x + np.diag(own), x.T @ (p - y) + own * w)
    return w


class Path:
    """Laws of the release for every value of a cell."""

    def __init__(self, X: Vector, y: Vector, cell: tuple[int, int], fit: Any, rule: Rule, penalty: Any, a: float = 1.0):
        self.values = X[:, cell[1]].mean() + PLACES

        def at(value: float) -> tuple[Vector, Vector]:
            Z = X.copy()
            Z[cell] = value
            return fit(Z, y, penalty), rule(gram(Z, penalty / a))

        self.at = at
        both = [at(value) for value in self.values]
        self.means, self.covariances = (np.array(each) for each in zip(*both, strict=True))

    def squares(self, step: float = 1e-4) -> Vector:
        """Both terms of eta squared at every value, by finite differences."""
        found = []
        for value, S in zip(self.values, self.covariances, strict=True):
            (m0, S0), (m1, S1) = self.at(value - step), self.at(value + step)
            dm, Q = (m1 - m0) / (2 * step), np.linalg.solve(S, (S1 - S0) / (2 * step))
            found.append([dm @ np.linalg.solve(S, dm), 0.5 * np.trace(Q @ Q)])
        return np.array(found)

    def taken(self, draws: int = 6000) -> float:
        """The share of the variance that the posterior mean takes; no estimate takes more."""
        rng = np.random.default_rng(0)
        truth = rng.choice(PLACES.size, draws, p=PRIOR)
        L = np.linalg.cholesky(self.covariances)
        noise = rng.standard_normal((draws, self.means.shape[1], 1))
        release = self.means[truth] + (L[truth] @ noise)[:, :, 0]
        score = np.empty((draws, PLACES.size))
        for k, (mean, root) in enumerate(zip(self.means, L, strict=True)):
            apart = np.linalg.solve(root, (release - mean).T)
            score[:, k] = np.log(PRIOR[k]) - 0.5 * (apart**2).sum(axis=0) - np.log(np.diag(root)).sum()
        posterior = np.exp(score - score.max(axis=1, keepdims=True))
        posterior /= posterior.sum(axis=1, keepdims=True)
        return float(1.0 - np.mean((posterior @ PLACES - PLACES[truth]) ** 2))


def share(mean: float) -> float:
    return mean / (1.0 + mean)


def measured(X: Vector, y: Vector, loss: str = "squared", l2: float = L2) -> fl.Leakage:
    return fl.measure(fl.minimise(X, y, loss, l2=l2, intercept=True), X, y, noise=fl.Gaussian(1.0))


def stated(leak: fl.Leakage, noise: Any) -> Vector:
    """Shares of all values, for beliefs of spread 1."""
    return np.asarray(leak.with_noise(noise).revealed(spread=dict.fromkeys(leak.attributes, 1.0)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [40, 80])
def test_shares_are_means_of_both_terms(name: str, n: int) -> None:
    X, y = table(n, hostile=n == 80)
    leak, penalty = measured(X, y), n * L2
    noise, rule = shaped(leak, name, 2.0)
    found = stated(leak, noise)
    for cell in ((0, 2), (3, 1)):
        path = Path(X, y, cell, squared, rule, penalty)
        mean = float(PRIOR @ path.squares().sum(axis=1))
        own = found[cell] / (1.0 - found[cell])
        if name in EXACT:
            assert own == pytest.approx(mean, rel=1e-5)
        else:  # an upper bound
            assert mean < own < 1.3 * mean


@pytest.mark.parametrize("name", NAMES)
def test_no_attacker_takes_more_than_is_stated(name: str) -> None:
    X, y = table(40, hostile=True)
    leak, penalty = measured(X, y), 40 * L2
    for scale, least in ((0.3, 0.2), (100.0, 0.001)):
        noise, rule = shaped(leak, name, scale)
        path = Path(X, y, (0, 2), squared, rule, penalty)
        assert least < path.taken() < stated(leak, noise)[0, 2] + 0.02


def test_what_the_covariance_alone_tells_is_counted() -> None:
    """So much noise that the parameters say nothing: their scatter still does, in a table of ten rows."""
    X, y = table(10)
    X[0] = [0.0, 0.0, 9.0]
    leak, penalty = measured(X, y), 10 * L2
    noise, rule = shaped(leak, "posterior", 1e3)
    path = Path(X, y, (0, 2), squared, rule, penalty)
    found = stated(leak, noise)[0, 2]
    assert float(PRIOR @ path.squares()[:, 0]) < 1e-4
    assert 0.005 < path.taken() < found + 0.005
    assert found == pytest.approx(share(float(PRIOR @ path.squares().sum(axis=1))), rel=1e-5)


@pytest.mark.parametrize("name", ["hessian", "least-loss"])
def test_the_diabetes_value_whose_eta_is_small_by_chance(name: str) -> None:
    X, y = diabetes()
    leak, penalty, cell = measured(X, y, l2=0.01), len(X) * 0.01, (242, 8)
    noise, rule = shaped(leak, name, 0.15)
    found = stated(leak, noise)[cell]
    path = Path(X, y, cell, squared, rule, penalty)
    mean = share(float(PRIOR @ path.squares().sum(axis=1)))
    assert mean * (1 - 1e-6) < found < 1.05 * mean
    assert 0.05 < path.taken() < found + 0.02


@pytest.mark.parametrize("name", ["hessian", "least-loss"])
def test_other_losses_have_bounds_and_by_refits_the_means(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from fisherleak.engine.beliefs import mean_squares

    X, y = table(60)
    y, l2 = (y > 0.2).astype(np.float64), 0.3
    leak, penalty = measured(X, y, "logistic", l2), 60 * l2
    noise, rule = shaped(leak, name, 0.3)
    path = Path(X, y, (3, 1), logistic, rule, penalty, 0.25)
    mean = float(PRIOR @ path.squares().sum(axis=1))
    exact = stated(leak, noise)
    monkeypatch.setattr(mean_squares, "WORK", 0)
    bound = stated(leak, noise)
    assert (bound >= exact * (1 - 1e-3)).all()
    assert np.median(bound / exact) < 1.3
    own = exact[3, 1] / (1.0 - exact[3, 1])
    assert mean * (1 - 4e-4) < own < (1.0004 if name == "hessian" else 1.05) * mean
    assert path.taken() < exact[3, 1] + 0.02


@pytest.mark.parametrize("name", ["hessian", "least-loss"])
def test_scales_that_move_with_the_value_shape_the_noise_too(name: str) -> None:
    X, y = table(60)
    X = X * np.array([2.0, 0.5, 1.0]) + np.array([1.0, 0.0, -2.0])
    alpha, cell, step = 12.0, (7, 1), 1e-4
    leak = fl.measure(make_pipeline(StandardScaler(), Ridge(alpha)).fit(X, y), X, y, public="nothing")
    noise, rule = shaped(leak, name, 2.0)

    def law(value: float) -> tuple[Vector, Vector]:
        Z = X.copy()
        Z[cell] = value
        penalty = alpha * Z.var(axis=0)
        return squared(Z, y, penalty), rule(gram(Z, penalty))

    spread, squares = X[:, 1].std(), []
    for place in PLACES:
        (m0, S0), (_, S), (m1, S1) = (law(X[:, 1].mean() + place * spread + d) for d in (-step, 0.0, step))
        dm, Q = (m1 - m0) / (2 * step), np.linalg.solve(S, (S1 - S0) / (2 * step))
        squares.append(dm @ np.linalg.solve(S, dm) + 0.5 * np.trace(Q @ Q))
    mean = share(spread**2 * float(PRIOR @ np.array(squares)))
    found = leak.with_noise(noise).revealed()[cell]
    assert mean * (1 - 1e-4) < found < (1.0001 if name == "hessian" else 1.2) * mean


@pytest.mark.parametrize("name", NAMES)
def test_labels_move_no_covariance(name: str) -> None:
    X, y = table(40)
    leak, G = measured(X, y), gram(X, 40 * L2)
    noise, rule = shaped(leak, name, 2.0)
    found = rms_etas(leak.with_noise(noise), np.full(3, np.nan), (float(y.mean()), float(y.std())))[:, -1]
    J = np.linalg.solve(G, np.column_stack([X, np.ones(40)]).T)
    np.testing.assert_allclose(found**2, (J * np.linalg.solve(rule(G), J)).sum(axis=0), rtol=1e-7)


def test_the_part_of_the_covariance_is_the_same_at_every_scale() -> None:
    X, y = table(40)
    leak = measured(X, y)
    noise = shaped(leak, "hessian", 1.0)[0]
    at = {scale: stated(leak, noise.rescaled(scale)) for scale in (1.0, 2.0, 4.0)}
    squares = {scale: each / (1.0 - each) for scale, each in at.items()}
    first = (squares[1.0] - squares[2.0]) / (1.0 - 0.25)
    np.testing.assert_allclose(squares[4.0] - first / 16.0, squares[1.0] - first, rtol=1e-6)
    assert (squares[1.0] - first > 0).all()


def test_calibrated_noise_of_least_loss_follows_the_gram_matrix_alone() -> None:
    """N is made of the declared bounds: the same for every table."""
    bounds: dict[str, Any] = {f"x{j}": (-4.5, 4.5) for j in range(3)} | {"label": (-4.0, 4.0)}
    found = []
    for hostile in (False, True):
        X, y = table(40, hostile)
        noise = fl.calibrate(measured(X, y), 30.0, over="any-record", shape="least-loss", bounds=bounds)
        assert isinstance(noise, fl.Gaussian)
        G = gram(X, 40 * L2)
        M = G @ np.asarray(noise.shape) @ G
        found.append(M @ np.linalg.solve(G, M))
        assert np.isfinite(measured(X, y).with_noise(noise).revealed()).all()
    np.testing.assert_allclose(found[0], found[1], rtol=1e-8, atol=1e-8 * float(np.abs(found[0]).max()))


@pytest.mark.parametrize("shape", ["hessian", "least-loss"])
def test_noise_that_follows_the_most_exposed_rows_is_refused_by_name(shape: str) -> None:
    X, y = table(40)
    leak = measured(X, y)
    noise = fl.calibrate(leak, 1.0, over="max", shape=shape)
    for each in (noise, noise.rescaled(2.0), copy.deepcopy(noise), copy.deepcopy(noise.rescaled(2.0))):
        with pytest.raises(fl.FisherleakError, match=r"share of a value.*over='any-record'"):
            leak.with_noise(each).revealed()
