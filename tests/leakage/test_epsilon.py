"""Epsilon, delta and the trade-off curve of rows and people: exact, never too small, and refused where there is no mu."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import norm
from sklearn.linear_model import Ridge

import fisherleak as fl


def by_integration(mu: float, epsilon: float) -> float:
    """delta as what it means: the integral of the part of N(mu, 1) that is above e^epsilon times N(0, 1)."""
    start = epsilon / mu + mu / 2
    x = np.linspace(start, max(start, mu) + 40.0, 400_001)
    return float(trapezoid(norm.pdf(x - mu) - math.exp(epsilon) * norm.pdf(x), x))


@pytest.mark.parametrize("mu", [0.05, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 4.0])
def test_delta_is_the_integral(mu: float, epsilon: float) -> None:
    assert fl.bounds.delta(mu, epsilon) == pytest.approx(by_integration(mu, epsilon), rel=1e-6, abs=1e-15)


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.1, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-5, 1e-2])
def test_epsilon_and_mu_are_inverses_on_the_safe_side(mu: float, delta: float) -> None:
    epsilon = fl.bounds.epsilon(mu, delta)
    assert fl.bounds.delta(mu, epsilon) <= delta * (1 + 1e-8)
    if epsilon > 0:
        assert fl.bounds.delta(mu, epsilon * (1 - 1e-6)) > delta
        assert fl.bounds.mu_of_epsilon(epsilon, delta) == pytest.approx(mu, rel=1e-7)


def test_ends() -> None:
    assert fl.bounds.epsilon(0.0, 1e-5) == 0.0
    assert fl.bounds.epsilon(math.inf, 1e-5) == math.inf
    assert fl.bounds.delta(math.inf, 3.0) == 1.0
    assert fl.bounds.mu_of_epsilon(math.inf, 1e-5) == math.inf
    assert fl.bounds.misses(math.inf, 0.05) == 0.0
    assert fl.bounds.reconstruction(math.inf, 0.25) == 1.0
    assert fl.bounds.reconstruction(0.0, 0.25) == pytest.approx(0.25)
    np.testing.assert_array_equal(fl.bounds.epsilon(np.array([[0.0], [math.inf]]), 1e-5), [[0.0], [math.inf]])


def test_the_curve_and_epsilon_say_the_same() -> None:
    """(epsilon, delta) is the tangent of the trade-off curve: 1 - delta = min of misses + e^epsilon false alarms."""
    mu, epsilon = 0.8, 1.2
    alpha = np.linspace(1e-6, 0.5, 20_001)
    misses = np.array([fl.bounds.misses(mu, float(a)) for a in alpha[::20]])
    least = float(np.min(misses + math.exp(epsilon) * alpha[::20]))
    assert 1 - least == pytest.approx(fl.bounds.delta(mu, epsilon), abs=1e-5)


def test_reconstruction_bounds_the_best_guess() -> None:
    """Four values whose refits lie 0, 0.05, 3 and -3 from the model without the row: Bayes is right 69 times in 100."""
    refits = np.array([0.0, 0.05, 3.0, -3.0])
    x = np.linspace(-15.0, 15.0, 200_001)
    best = 0.25 * float(trapezoid(norm.pdf(x[None] - refits[:, None]).max(axis=0), x))
    assert best == pytest.approx(0.69, abs=0.01)
    assert fl.bounds.reconstruction(3.0, 0.25) >= best
    assert fl.bounds.reconstruction(0.05, 0.25) < best  # the true row's own move is no bound


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda: fl.bounds.epsilon(1.0, 0.0), "delta must be above 0 and below 1; got 0.0"),
        (lambda: fl.bounds.epsilon(-1.0, 1e-5), "mu must be zero or more; got -1.0"),
        (lambda: fl.bounds.epsilon(np.array([math.nan]), 1e-5), "mu must be zero or more everywhere"),
        (lambda: fl.bounds.delta(1.0, -1.0), "epsilon must be"),
        (lambda: fl.bounds.misses(1.0, 1.0), "alpha must be above 0 and below 1"),
        (lambda: fl.bounds.reconstruction(1.0, 0.0), "chance must be above 0 and below 1"),
        (lambda: fl.bounds.mu_of_epsilon(-1.0, 1e-5), "epsilon must be zero or more"),
    ],
)
def test_refusals(asked: Any, said: str) -> None:
    with pytest.raises(fl.InvalidInputError, match=said):
        asked()


@pytest.fixture(scope="module")
def table() -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    return X, X @ np.array([1.0, 2.0, 0.0]) + rng.normal(size=60)


def test_rows_people_and_compositions(table: Any) -> None:
    X, y = table
    model, person = Ridge(1.0).fit(X, y), np.arange(60) // 3
    rows = fl.measure(model, X, y, fl.Gaussian(0.3))
    people = fl.measure(model, X, y, fl.Gaussian(0.3), person=person)
    for leak in (rows, people, fl.compose(people, people)):
        mu = leak.membership(1e-8)
        np.testing.assert_allclose(leak.epsilon(1e-5), fl.bounds.epsilon(mu, 1e-5), rtol=1e-12)
        np.testing.assert_allclose(leak.tradeoff(0.1), fl.bounds.misses(mu, 0.1), rtol=1e-12)
    assert people.epsilon().shape == (20,)
    assert np.all(fl.compose(people, people).epsilon() > people.epsilon())


def test_a_test_by_likelihood_does_no_better(table: Any) -> None:
    """100,000 releases with the most exposed row and as many without: misses at the stated rate of false alarms, to 2 %."""
    X, y = table
    leak = fl.measure(Ridge(1.0).fit(X, y), X, y, fl.Gaussian(0.3))
    row = int(np.argmax(leak.membership()))
    fits = [Ridge(1.0).fit(*own) for own in ((X, y), (np.delete(X, row, axis=0), np.delete(y, row)))]
    there, gone = (np.append(fit.coef_, fit.intercept_) for fit in fits)
    rng = np.random.default_rng(0)
    along = (there - gone) / np.linalg.norm(there - gone)
    seen, unseen = (own @ along + 0.3 * rng.normal(size=100_000) for own in (there, gone))
    threshold = np.quantile(unseen, 0.9)
    assert np.mean(seen <= threshold) == pytest.approx(leak.tradeoff(0.1)[row], rel=0.02)


def test_refused_where_rows_decide_the_covariance(table: Any) -> None:
    X, y = table
    leak = fl.measure(fl.minimise(X, y, l2=0.1), X, y, fl.Posterior(0.1))
    with pytest.raises(
        fl.InvalidInputError, match="epsilon is computed from mu, which is not known for a data-dependent"
    ):
        leak.epsilon()
    with pytest.raises(
        fl.InvalidInputError, match="tradeoff is computed from mu, which is not known for a data-dependent"
    ):
        leak.tradeoff(0.1)
