"""Membership: what a leakage says of rows that may or may not be in the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import fisherleak as fl
from cases import make
from fisherleak._support.arrays import host
from fisherleak._support.grids import public_units
from fisherleak._support.numbers import percent, percent_at_most
from often import often
from refits import minimise_scaled

NOISE = fl.Gaussian(0.3)


@pytest.mark.parametrize("last", [Ridge(alpha=2.0), LogisticRegression(C=0.5, tol=1e-12, solver="newton-cholesky")])
def test_a_pipeline_is_that_of_its_features(last: Any) -> None:
    """Preprocessing is held fixed: a refit of the last step on the others, as they were transformed."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3)) * [1.0, 10.0, 0.1]
    z = X @ [1.0, 0.1, -10.0] + rng.normal(size=90)
    y = z if isinstance(last, Ridge) else (z > 0).astype(int)
    model = make_pipeline(StandardScaler(), last).fit(X, y)
    found = fl.measure(model, X, y, NOISE).membership(1e-8)
    features = model[0].transform(X)
    for row in (0, 44, 89):
        rest = np.arange(90) != row
        other = type(last)(**last.get_params()).fit(features[rest], y[rest])
        move = np.append(np.ravel(other.coef_ - model[1].coef_), other.intercept_ - model[1].intercept_)
        assert found[row] == pytest.approx(np.linalg.norm(move) / 0.3, rel=1e-6)


LASTS = [
    (Ridge(alpha=9.0), "squared"),
    (LogisticRegression(C=0.2, tol=1e-12, solver="newton-cholesky"), "logistic"),
    (PoissonRegressor(alpha=0.1, tol=1e-12, solver="newton-cholesky"), "poisson"),
]


@pytest.mark.parametrize("weighted", often([True, False]))
@pytest.mark.parametrize("n", [30, 160])
@pytest.mark.parametrize(("last", "loss"), LASTS, ids=[loss for _, loss in LASTS])
def test_end_to_end_the_row_leaves_the_scaler_too(last: Any, loss: str, n: int, weighted: bool) -> None:
    """Against fits of scaler and model without the row, alpha or C as it was; one value of a column is far out.

    A row that moves a scale or a centre on its public grid is told for certain.
    """
    rng = np.random.default_rng(1)
    X = rng.gamma(1.0, 1.0, (n, 3)) * [1.0, 10.0, 0.1] + [1990.0, 0.0, 5.0]
    X[3, 1] += 2000.0
    z = (X - X.mean(axis=0)) / X.std(axis=0) @ [0.5, -0.3, 0.4]
    y = {"squared": z + rng.normal(size=n), "logistic": z + rng.logistic(size=n) > 0, "poisson": rng.poisson(np.exp(z))}
    labels = y[loss].astype(float)
    weights = rng.uniform(0.3, 2.0, n) if weighted else None
    model = make_pipeline(StandardScaler(), clone(last))
    steps = ["standardscaler", model.steps[-1][0]]
    model.fit(X, labels, **({f"{step}__sample_weight": weights for step in steps} if weighted else {}))
    leak = fl.measure(model, X, labels, NOISE, weights, public="nothing", polish=True)
    (jacobian,) = leak._information.jacobians
    fit, folding = jacobian.fit, jacobian.folding
    assert folding is not None
    found, expected = leak.membership(1e-8), []
    for row in range(0, n, 3):
        rest = np.arange(n) != row
        omega = np.ones(n - 1) if weights is None else weights[rest]
        mean = omega @ X[rest] / omega.sum()
        scales = np.sqrt(omega @ (X[rest] - mean) ** 2 / omega.sum())
        own = None if weights is None else omega
        kept = 1.0  # of n l2, which is alpha times the sum of weights for Poisson
        if loss == "poisson":
            kept = 1 - 1 / n if weights is None else omega.sum() / weights.sum()
        other = minimise_scaled(X[rest], labels[rest], loss, kept * n * fit.l2 / (n - 1), own, True, scales)
        units = [public_units(*pair) for pair in zip(mean, scales, strict=True)]
        told = np.array([scale for _, scale in units]) != np.diag(folding.frame)[:3]
        told |= np.array([centre for centre, _ in units]) != folding.frame[3, :3]
        moved = float(np.linalg.norm(folding.frame @ (other.theta - fit.theta))) / 0.3
        expected.append(np.inf if told.any() else moved)
    np.testing.assert_allclose(found[::3], expected, rtol=2e-8)
    shaped = leak.with_noise(fl.Gaussian(0.3, folding.frame.T @ folding.frame + np.eye(4)))
    assert np.isfinite(shaped.membership(1e-8)).all()
    assert "membership    an attacker is correct" in leak.summary()


def test_scales_that_are_order_statistics_are_refused_by_name() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    model = make_pipeline(MinMaxScaler(), Ridge()).fit(X, X @ [1.0, 2.0])
    leak = fl.measure(model, X, X @ [1.0, 2.0], public="nothing")
    with pytest.raises(fl.InvalidInputError, match="known for standard deviations only: use StandardScaler"):
        leak.membership(1e-8)
    assert "not measured end to end" in leak.summary()
    assert "membership" not in leak.to_frame()


def test_squares_of_independent_releases_add_up() -> None:
    one, two = make("squared", 0, 60, 3), make("pseudo_huber", 0, 60, 3, intercept=True)
    first = one.leak(fl.Gaussian(0.5))
    second = fl.measure(fl.minimise(one.X, one.y, two.loss, 0.1, intercept=True), one.X, one.y, fl.Gaussian(2.0))
    both = fl.compose(first, second)
    np.testing.assert_allclose(
        both.membership(1e-8) ** 2, first.membership(1e-8) ** 2 + second.membership(1e-8) ** 2, rtol=1e-12
    )
    np.testing.assert_allclose(
        fl.compose(first, first).membership(1e-8), np.sqrt(2) * first.membership(1e-8), rtol=1e-12
    )
    assert "membership" in both.summary()


def test_noise_divides_it() -> None:
    leak = make("logistic", 0, 60, 3).leak(fl.Gaussian(0.5))
    np.testing.assert_allclose(
        leak.with_noise(fl.Gaussian(0.25)).membership(1e-8), 2 * leak.membership(1e-8), rtol=1e-12
    )


def test_noise_that_is_not_normal_is_refused() -> None:
    leak = make("squared", 0, 30, 3).leak(fl.Laplace(0.5))
    with pytest.raises(fl.InvalidInputError, match=r"noise must be normal for membership.*got Laplace"):
        leak.membership(1e-8)
    with pytest.raises(fl.InvalidInputError, match="got Laplace"):
        fl.compose(leak.with_noise(fl.Gaussian(1.0)), leak).membership(1e-8)
    assert "membership" not in leak.to_frame()
    assert "membership    not measured: the best test" in leak.summary()


def test_the_tolerance_is_a_number_above_zero() -> None:
    with pytest.raises(fl.InvalidInputError, match="tolerance must be"):
        make("squared").leak().membership(0.0)


def test_frames_and_digests_have_it() -> None:
    leak = make("squared", 0, 40, 3, intercept=True).leak(NOISE)
    mu = leak.membership()
    np.testing.assert_array_equal(leak.to_frame()["membership"], mu)
    normal = pytest.importorskip("scipy.stats").norm
    worst, middle = (normal.cdf(value / 2) for value in (mu.max(), np.median(mu)))
    worst, middle = percent_at_most(worst, 0.5), percent(middle, 0.5)
    expected = f"correct at most {worst} of the time (row {int(mu.argmax())}), {middle} for the median row; chance 50 %"
    assert expected in leak.summary()


def test_a_row_that_is_certain_to_be_told_does_not_break_the_digest() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), (np.arange(50) == 3) * 1.0
    leak = fl.measure(fl.minimise(X, y, "logistic", 1e-2, intercept=True), X, y)
    assert np.isinf(leak.membership(1e-8)[3])
    assert "correct at most 100 % of the time (row 3)" in leak.summary()


@pytest.mark.parametrize("loss", list(fl.LOSSES))
def test_other_libraries_give_the_same(loss: str) -> None:
    strict = pytest.importorskip("array_api_strict")
    case = make(loss, 1, 130, 3, weighted=True, intercept=True)
    expected = case.leak(NOISE).membership(1e-8)
    X, y, weights = (strict.asarray(part) for part in (case.X, case.y, case.weights))
    fit = fl.minimise(X, y, case.loss, case.l2, weights, intercept=True)
    np.testing.assert_allclose(host(fl.measure(fit, X, y, NOISE).membership(1e-8)), expected, rtol=1e-8)
    torch = pytest.importorskip("torch")
    X, y, weights = (torch.asarray(part) for part in (case.X, case.y, case.weights))
    fit = fl.minimise(X, y, case.loss, case.l2, weights, intercept=True)
    np.testing.assert_allclose(fl.measure(fit, X, y, NOISE).membership(1e-8).numpy(), expected, rtol=1e-8)


def test_lazy_rows_stay_lazy_for_the_squared_loss() -> None:
    da = pytest.importorskip("dask.array")
    case = make("squared", 1, 90, 3, weighted=True, intercept=True)
    X, y, weights = (da.from_array(part, chunks=30) for part in (case.X, case.y, case.weights))
    leak = fl.measure(fl.minimise(X, y, "squared", case.l2, weights, intercept=True), X, y, NOISE)
    found = leak.membership(1e-8)
    assert isinstance(found, da.Array)
    np.testing.assert_allclose(found.compute(), case.leak(NOISE).membership(1e-8), rtol=1e-10)
    np.testing.assert_allclose(leak.to_frame()["membership"].compute(), found.compute())
    twice = fl.compose(leak, leak).membership(1e-8)
    np.testing.assert_allclose(twice.compute(), np.sqrt(2) * found.compute(), rtol=1e-12)


def test_lazy_rows_of_other_losses_are_refused_by_name() -> None:
    da = pytest.importorskip("dask.array")
    case = make("logistic", 1, 90, 3)
    X, y = da.from_array(case.X, chunks=30), da.from_array(case.y, chunks=30)
    leak = fl.measure(fl.minimise(X, y, "logistic", case.l2), X, y, NOISE)
    with pytest.raises(fl.InvalidInputError, match="Dask rows with the squared loss only, and the loss is logistic"):
        leak.membership(1e-8)
    assert "membership" not in leak.to_frame()
    assert "membership    not measured here" in leak.summary()
