"""Shares of values revealed: what an attacker who knows everything else really takes, on average over a belief, is never more.

The attacker has the refits for every value of a fine grid and computes the posterior mean: no estimate has a smaller mean squared
error. Means over the belief are held against refits one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from fisherleak.engine.beliefs import path_refits
from often import often

Vector = NDArray[np.float64]
GRID = np.arange(-8.4, 8.4 + 1e-9, 0.2)
LOSSES = ("squared", "logistic", "poisson", "gamma")


def diabetes(n: int = 442) -> tuple[Vector, Vector]:
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:n], y[:n]
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def labels(loss: str, y: Vector) -> Vector:
    made = {"squared": y, "logistic": y > 0.2, "poisson": np.round(np.exp(0.5 * y)), "gamma": np.exp(0.5 * y)}
    return np.asarray(made[loss], dtype=np.float64)


def refits(X: Vector, y: Vector, loss: str, l2: float, cell: tuple[int, int], values: Vector) -> tuple[Vector, Vector]:
    """Parameters, and squared etas of the cell at noise of scale 1, of models refitted with each value."""
    found, etas = [], []
    for value in values:
        Z = X.copy()
        Z[cell] = value
        fit = fl.minimise(Z, y, loss, l2=l2, intercept=True)
        found.append(np.append(np.asarray(fit.coef), float(fit.intercept or 0.0)))
        etas.append(float(fl.measure(fit, Z, y, noise=fl.Gaussian(1.0)).per_cell()[cell]) ** 2)
    return np.array(found), np.array(etas)


def mean_over(squares: Vector, places: Vector = GRID) -> float:
    weights = np.exp(-0.5 * places**2)
    return float((weights * squares).sum() / weights.sum())


def taken(path: Vector, sigma: float, draws: int = 4000) -> float:
    """The share of the variance that the posterior mean takes, for a belief N(0, 1) on GRID and refits along it."""
    rng = np.random.default_rng(0)
    prior = np.exp(-0.5 * GRID**2)
    prior /= prior.sum()
    truth = rng.choice(GRID.size, draws, p=prior)
    release = path[truth] + sigma * rng.standard_normal((draws, path.shape[1]))
    apart = (release**2).sum(axis=1)[:, None] - 2 * release @ path.T + (path**2).sum(axis=1)[None, :]
    score = np.log(prior)[None, :] - 0.5 * apart / sigma**2
    posterior = np.exp(score - score.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    return float(1.0 - np.mean((posterior @ GRID - GRID[truth]) ** 2))


def share(mean: float) -> float:
    return mean / (1.0 + mean)


def test_the_share_of_a_value_whose_eta_is_small_by_chance() -> None:
    """Row 242, column 8: eta at the value says 0.027, Bayes takes 0.71."""
    X, y = diabetes()
    fit = fl.minimise(X, y, l2=0.01)
    leak = fl.measure(fit, X, y, noise=fl.Gaussian(0.02))
    own = leak.per_cell()[242, 8] ** 2
    assert share(own) == pytest.approx(0.027, abs=0.001)
    stated = leak.revealed(attributes=[8])[242, 0]
    assert stated == pytest.approx(0.815, abs=0.005)
    path = []
    for value in GRID:
        Z = X.copy()
        Z[242, 8] = value
        path.append(np.asarray(fl.minimise(Z, y, l2=0.01).coef))
    bayes = taken(np.array(path), 0.02)
    assert 0.66 < bayes < stated


def hostile(n: int) -> tuple[Vector, Vector]:
    """A row of high leverage."""
    X, y = diabetes(n)
    X = X[:, :4].copy()
    X[0] = [6.0, -5.0, 4.0, 8.0]
    return X, y


@pytest.mark.parametrize("loss", often(LOSSES, 2))
@pytest.mark.parametrize(
    ("n", "cell"),
    [
        *((12, (0, 3)), (30, (3, 1))),
        *(pytest.param(n, cell, marks=pytest.mark.long) for n in (30, 100) for cell in ((0, 3), (4, 1))),
    ],
)
def test_no_attacker_takes_more_than_is_stated(loss: str, n: int, cell: tuple[int, int]) -> None:
    X, y = hostile(n)
    y = labels(loss, y)
    leak = fl.measure(fl.minimise(X, y, loss, l2=0.05, intercept=True), X, y, noise=fl.Gaussian(1.0))
    spread = dict.fromkeys(leak.attributes, 1.0)
    stated = leak.revealed(spread=spread)
    path, squares = refits(X, y, loss, 0.05, cell, GRID + X[:, cell[1]].mean())
    mean = mean_over(squares)
    at_one = stated[cell] / (1.0 - stated[cell])
    assert at_one == pytest.approx(mean, rel=4e-4)  # in tables as small as these all cells are exact
    sigma = float(np.sqrt(mean))
    assert taken(path, sigma) < share(at_one / sigma**2) + 0.03


@pytest.mark.parametrize("loss", often(["logistic", "poisson"]))
@pytest.mark.parametrize("n", [200, pytest.param(442, marks=pytest.mark.long)])
def test_bounds_are_above_the_means_and_close_in_larger_tables(
    loss: str, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fisherleak.engine.beliefs import mean_squares

    X, y = diabetes(n)
    X, y = X[:, [0, 2, 8]] if n < 442 else X, labels(loss, y)
    leak = fl.measure(fl.minimise(X, y, loss, l2=0.05, intercept=True), X, y, noise=fl.Gaussian(1.0))
    exact = leak.revealed()
    monkeypatch.setattr(mean_squares, "WORK", 0)
    bound = leak.revealed()
    assert (bound >= exact * (1 - 1e-3)).all()
    assert np.median(bound / exact) < 1.3
    for row in (5, 190):
        spread, centre = X[:, 2].std(), X[:, 2].mean()
        _, squares = refits(X, y, loss, 0.05, (row, 2), centre + spread * GRID[::3])
        assert share(spread**2 * mean_over(squares, GRID[::3])) <= exact[row, 2] * (1 + 1e-4)


@pytest.mark.long
def test_a_narrow_peak_is_not_missed() -> None:
    """A belief ten spreads wide, and a row that decides the model where it is far out."""
    X, y = hostile(12)
    leak = fl.measure(fl.minimise(X, y, l2=1e-4, intercept=True), X, y, noise=fl.Gaussian(1.0))
    wide = 10.0
    stated = leak.revealed(attributes=[3], spread={leak.attributes[3]: wide})[0, 0]
    places = np.arange(-8.5, 8.5, 0.06)
    _, squares = refits(X, y, "squared", 1e-4, (0, 3), X[:, 3].mean() + wide * places)
    assert stated == pytest.approx(share(wide**2 * mean_over(squares, places)), abs=1e-4)


@pytest.mark.parametrize("public", ["preprocessing", "nothing"])
def test_scales_that_move_with_the_value_are_counted(public: str) -> None:
    X, y = load_diabetes(return_X_y=True, scaled=False)
    X, y = X[:60, :4], y[:60]
    model = make_pipeline(StandardScaler(), Ridge(2.0)).fit(X, y)
    leak = fl.measure(model, X, y, noise=fl.Gaussian(3.0), public=public)
    i, j, step = 7, 2, 0.05
    spread, centre = X[:, j].std(), X[:, j].mean()
    places = np.arange(-8.0, 8.0 + 1e-9, step)
    metric: Any = np.eye(5)
    found = []
    for place in places:
        Z = X.copy()
        Z[i, j] = centre + place * spread
        if public == "nothing":
            again = make_pipeline(StandardScaler(), Ridge(2.0)).fit(Z, y)
            scaler, ridge = again[0], again[1]
            raw = ridge.coef_ / scaler.scale_
            found.append(np.append(raw, ridge.intercept_ - raw @ scaler.mean_))
        else:
            ridge = Ridge(2.0).fit(model[0].transform(Z), y)
            found.append(np.append(ridge.coef_, ridge.intercept_))
    if public == "nothing":
        folding = leak._information.jacobians[0].folding
        assert folding is not None
        metric = np.asarray(folding.frame.todense() if hasattr(folding.frame, "todense") else folding.frame)
    path = np.array(found) @ metric.T / 3.0
    slopes = np.gradient(path, step, axis=0)
    assert leak.revealed()[i, j] == pytest.approx(share(mean_over((slopes**2).sum(axis=1), places)), rel=2e-3)


def test_several_releases_add_up_and_answers_that_bend_are_refused() -> None:
    X, y = diabetes(60)
    X = X[:, :3]
    leak = fl.measure(fl.minimise(X, y, l2=0.01), X, y, noise=fl.Gaussian(0.5))
    one, two = leak.revealed(), fl.compose(leak, leak).revealed()
    np.testing.assert_allclose(two / (1 - two), 2 * one / (1 - one), rtol=1e-9)
    own = (y > 0).astype(np.float64)
    drawn = fl.measure(fl.minimise(X, own, "logistic", l2=0.1), X, own, noise=fl.ObjectivePerturbation(1.0, draws=100))
    with pytest.raises(fl.FisherleakError, match="share of a value"):
        drawn.revealed()


def test_labels_of_the_squared_loss_have_the_share_of_their_eta() -> None:
    from fisherleak.leakage.shares import rms_etas

    X, y = diabetes(60)
    for loss in ("squared", "poisson"):
        own = labels(loss, y)
        leak = fl.measure(fl.minimise(X, own, loss, l2=0.05, intercept=True), X, own, noise=fl.Gaussian(1.0))
        found = rms_etas(leak, np.full(10, np.nan), (float(own.mean()), float(own.std())))[:, -1]
        if loss == "squared":
            np.testing.assert_allclose(found, leak.per_label(), rtol=1e-9)
            continue
        etas = []
        for place in GRID[::3]:
            z = own.copy()
            z[4] = own.mean() + place * own.std()
            fit = fl.minimise(X, np.maximum(z, 0.0), loss, l2=0.05, intercept=True)
            etas.append(float(fl.measure(fit, X, np.maximum(z, 0.0), noise=fl.Gaussian(1.0)).per_label()[4]) ** 2)
        assert found[4] == pytest.approx(np.sqrt(mean_over(np.array(etas), GRID[::3])), rel=0.05)


@pytest.mark.parametrize(("intercept", "weighted"), [(True, False), (False, False), (True, True)])
def test_fewer_rows_than_features_are_refitted_in_the_span_of_the_rows(
    intercept: bool, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same shares as with all parameters: with columns of zeros and copied ones too, and where scales move."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6, 14)) * rng.uniform(0.5, 3.0, 14)
    X[:, 3], X[:, 5] = 0.0, X[:, 4]
    y = np.arange(6) % 2.0
    own = {"sample_weight": rng.uniform(0.5, 2.0, 6)} if weighted else {}
    fit = fl.minimise(X, y, "logistic", l2=0.05, intercept=intercept, **own)
    leak = fl.measure(fit, X, y, noise=fl.Gaussian(0.1))
    stated = leak.revealed()
    monkeypatch.setattr(path_refits, "NARROW", np.inf)
    np.testing.assert_allclose(stated, leak.revealed(), rtol=1e-6)


def test_paths_have_a_parameter_for_each_row_where_features_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """And behind a scaler, whose scales the value moves."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(6, 14)) * rng.uniform(0.5, 3.0, 14)
    y = np.arange(6) % 2
    model = make_pipeline(StandardScaler(), LogisticRegression(C=2.0)).fit(X, y)
    leak = fl.measure(model, X, y, noise=fl.Gaussian(0.1))
    sizes: list[int] = []
    minima = path_refits._minima

    def seen(moved: Any) -> Any:
        sizes.append(moved.paths.theta.size)
        return minima(moved)

    monkeypatch.setattr(path_refits, "_minima", seen)
    stated = leak.revealed()
    assert set(sizes) == {6 + 1 + 1}
    monkeypatch.setattr(path_refits, "NARROW", np.inf)
    np.testing.assert_allclose(stated, leak.revealed(), rtol=1e-6)
    assert 14 + 1 in sizes
