"""Each bound holds for estimators it covers, and is reached or beaten where it should be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad

import fisherleak as fl
from fisherleak import bounds

SIGMA = 0.5
ETA = 1 / SIGMA  # a value released with Gaussian noise of scale sigma


def error(estimate: Callable[[Any], Any], value: float, count: int = 400_000) -> float:
    """Mean squared error of an estimator of a value from value + noise."""
    release = value + SIGMA * np.random.default_rng(0).standard_normal(count)
    return float(np.mean((estimate(release) - value) ** 2))


def test_cramer_rao_is_reached_by_the_release_itself() -> None:
    assert bounds.cramer_rao(ETA) == pytest.approx(SIGMA**2)
    assert error(lambda x: x, 1.3) == pytest.approx(bounds.cramer_rao(ETA), rel=0.01)


def test_shrinkage_beats_it_in_one_dimension_but_not_its_biased_form() -> None:
    value, shrink = 0.1, 0.5
    attained = error(lambda x: shrink * x, value)
    assert attained < 0.5 * bounds.cramer_rao(ETA)
    bound = bounds.biased_cramer_rao(ETA, bias=(shrink - 1) * value, bias_slope=shrink - 1)
    assert attained == pytest.approx(bound, rel=0.01)


def test_van_trees_is_the_bayes_risk_for_a_gaussian() -> None:
    tau = 0.8
    rng = np.random.default_rng(1)
    values = tau * rng.standard_normal(400_000)
    release = values + SIGMA * rng.standard_normal(400_000)
    posterior_mean = release * tau**2 / (tau**2 + SIGMA**2)
    assert np.mean((posterior_mean - values) ** 2) == pytest.approx(bounds.van_trees(ETA, tau), rel=0.01)


@pytest.mark.parametrize("a", [0.0, 0.1, 1.0, 3.0, 5.0])
def test_two_points_cannot_be_told_better_than_the_best_rule_tells_them(a: float) -> None:
    """The posterior mean at even odds has the same error at both values, and no rule is better at the worse of them."""

    def lost(z: float) -> float:
        return float((1 - math.tanh(a * a + a * z) ** 2) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi))

    exact = quad(lost, -a - 12, -a + 12, points=[-a], epsabs=1e-15, epsrel=1e-12, limit=200)[0]
    found = bounds.two_point(2 * a, 6.0)
    assert found == pytest.approx(9.0 * exact, rel=1e-9, abs=1e-13)
    np.testing.assert_allclose(bounds.two_point(np.array([2 * a, 0.7]), np.array([6.0, 1.0]))[0], found, rtol=1e-12)
    rng = np.random.default_rng(1)
    release = a + rng.standard_normal(400_000)
    if a <= 1.0:  # beyond, errors are too rare to be drawn
        assert np.mean((3 * np.tanh(a * release) - 3) ** 2) == pytest.approx(found, rel=0.02)


def test_two_points_bound_clipping_and_beat_the_interval() -> None:
    half = 1.0
    worst = max(error(lambda x: np.clip(x, -half, half), value) for value in np.linspace(-half, half, 9))
    pairs = [bounds.two_point(width * ETA, width) for width in np.linspace(0.05, 2 * half, 40)]
    assert bounds.interval_minimax(ETA, half) < max(pairs) <= worst
    assert bounds.two_point(0.0, 2.0) == pytest.approx(1.0, abs=1e-13)
    assert bounds.two_point(1e6, 2.0) == 0.0
    with pytest.raises(fl.InvalidInputError):
        bounds.two_point(-1.0, 2.0)


def test_interval_minimax_bounds_clipping_at_its_worst_value() -> None:
    half = 0.6
    worst = max(error(lambda x: np.clip(x, -half, half), value) for value in np.linspace(-half, half, 13))
    assert bounds.interval_minimax(ETA, half) <= worst
    assert bounds.interval_minimax(ETA, half) < bounds.cramer_rao(ETA)


def test_limits() -> None:
    assert bounds.cramer_rao(0.0) == math.inf
    assert bounds.van_trees(0.0, 2.0) == 4.0
    assert bounds.interval_minimax(0.0, math.pi) == pytest.approx(1.0)
    assert bounds.van_trees(ETA, 1e9) == pytest.approx(bounds.cramer_rao(ETA))
    assert bounds.biased_cramer_rao(ETA, 0.3, -1.0) == pytest.approx(0.09)
    assert bounds.biased_cramer_rao(0.0, 0.3, -1.0) == pytest.approx(0.09)
    assert bounds.biased_cramer_rao(ETA, 0.0, 0.0) == bounds.cramer_rao(ETA)


def test_extreme_arguments_have_their_limits() -> None:
    assert bounds.cramer_rao(1e200) == 0.0
    assert bounds.van_trees(0.0, 1e200) == math.inf
    assert bounds.van_trees(0.0, 1e-200) == 0.0
    assert bounds.interval_minimax(0.0, 1e200) == math.inf
    np.testing.assert_allclose(bounds.cramer_rao([1.0, 2.0]), [1.0, 0.25])


def test_arrays_go_through() -> None:
    eta = np.array([0.0, 1.0, 2.0])
    np.testing.assert_allclose(bounds.cramer_rao(eta), [np.inf, 1.0, 0.25])
    np.testing.assert_allclose(bounds.van_trees(eta, 1.0), [1.0, 0.5, 0.2])


def test_refusals() -> None:
    with pytest.raises(fl.InvalidInputError, match="eta must be a finite number, zero or more; got -1"):
        bounds.cramer_rao(-1.0)
    with pytest.raises(fl.InvalidInputError, match="finite and zero or more everywhere"):
        bounds.cramer_rao(np.array([1.0, np.nan]))
    with pytest.raises(fl.InvalidInputError, match="prior_sd must be a finite number, greater than zero"):
        bounds.van_trees(1.0, 0.0)
    with pytest.raises(fl.InvalidInputError, match="half_width must be"):
        bounds.interval_minimax(1.0, -1.0)
    with pytest.raises(fl.InvalidInputError, match="bias_slope must be finite"):
        bounds.biased_cramer_rao(1.0, 0.0, math.nan)


@pytest.mark.parametrize("move", [0.3, 0.7])
def test_hammersley_chapman_robbins_is_reached_between_two_values(move: float) -> None:
    """The estimator that is unbiased at both and has the least variance at one of them: the likelihood ratio's own."""
    rng = np.random.default_rng(2)
    draws = rng.standard_normal(400_000)
    divergence = math.expm1(move**2)
    ratio = np.exp(move * draws - 0.5 * move**2)  # of the density under the other value
    estimate = (ratio - 1.0) / divergence
    assert estimate.mean() == pytest.approx(0.0, abs=5e-3 / move)
    assert estimate.var() == pytest.approx(bounds.hammersley_chapman_robbins(move), rel=0.02)


def test_hammersley_chapman_robbins_at_its_ends() -> None:
    assert bounds.hammersley_chapman_robbins(0.0) == math.inf
    assert bounds.hammersley_chapman_robbins(100.0) == 0.0
    small = 1e-4
    assert bounds.hammersley_chapman_robbins(small * ETA, difference=small) == pytest.approx(bounds.cramer_rao(ETA))
    np.testing.assert_allclose(
        bounds.hammersley_chapman_robbins(np.array([0.0, 1.0, 100.0])),
        [math.inf, bounds.hammersley_chapman_robbins(1.0), 0.0],
    )
    with pytest.raises(fl.InvalidInputError, match="difference"):
        bounds.hammersley_chapman_robbins(1.0, difference=0.0)


@pytest.mark.parametrize("prior", [0.5, 0.8, 0.05])
@pytest.mark.parametrize("move", [0.5, 2.0])
def test_the_best_test_is_that_of_likelihoods(move: float, prior: float) -> None:
    rng = np.random.default_rng(3)
    one = rng.random(400_000) < prior
    release = move * one + rng.standard_normal(one.size)
    said = move * release - 0.5 * move**2 + math.log(prior / (1 - prior)) > 0
    assert np.mean(said == one) == pytest.approx(bounds.best_test(move, prior), abs=3e-3)
    assert bounds.best_test(0.0, prior) == max(prior, 1 - prior)
    assert bounds.best_test(np.array([0.0, move]), prior)[1] == pytest.approx(bounds.best_test(move, prior))
    with pytest.raises(fl.InvalidInputError, match="prior must be between"):
        bounds.best_test(move, prior=1.0)
