"""An attacker who reads the last bits of released parameters gets no more than the closed form says.

A float is 53 bits after its first one, so that w + b reaches only some floats, and which ones depends on w. Where |b| is larger
than the sum, the sum keeps bits that b does not have: they are those of w. A candidate w_k is impossible once one released
parameter r is no ``w_k + z`` of any float z, that is, where ``(r - w_k) + w_k != r``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest, norm
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from fisherleak.engine.noise import grid_of, released
from fisherleak.engine.noise.add_noise_and_round import on_grid
from fisherleak.models.several import all_parameters as parameters
from often import often

Vector = NDArray[np.float64]
ROWS, COLUMNS, SIGMA, TRIALS = 200, 50, 1.0, 400


def candidates() -> tuple[Any, Any]:
    """Two fitted models whose tables differ in one cell."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, COLUMNS))
    y = X @ rng.normal(size=COLUMNS) + rng.normal(size=ROWS)
    other = X.copy()
    other[3, 7] += 0.5
    return Ridge(alpha=1.0).fit(X, y), Ridge(alpha=1.0).fit(other, y)


MODELS = candidates()
THETAS = np.stack([parameters(model) for model in MODELS])
CLOSED_FORM = float(norm.cdf(np.linalg.norm(THETAS[0] - THETAS[1]) / (2 * SIGMA)))


def impossible(released: Vector, theta: Vector) -> int:
    """Parameters that no float leads to from this candidate."""
    return int(np.sum((released - theta) + theta != released))


def guess(released: Vector, noise: Any) -> int:
    """The candidate with fewer impossible parameters; the likelier one where that does not decide."""
    counts = [impossible(released, theta) for theta in THETAS]
    if counts[0] != counts[1]:
        return int(np.argmin(counts))
    return int(np.argmax(noise.log_density(released - THETAS)))


def right(release: Callable[[Any], Vector], noise: Any) -> int:
    """Right guesses where either candidate is the truth in every other trial."""
    return sum(guess(release(MODELS[k % 2]), noise) == k % 2 for k in range(TRIALS))


def test_the_attacker_beats_noise_that_is_added_without_care() -> None:
    assert 0.5 < CLOSED_FORM < 0.51
    rng = np.random.default_rng(1)
    noise = fl.Gaussian(SIGMA)
    assert right(lambda model: parameters(model) + SIGMA * rng.standard_normal(COLUMNS + 1), noise) > 0.8 * TRIALS
    # numbers of the operating system alone do not help: it is the sum that tells
    assert right(lambda model: parameters(model) + noise.draw(COLUMNS + 1), noise) > 0.8 * TRIALS


NOISES = [fl.Gaussian(SIGMA), fl.Gaussian(0.7, np.diag(np.linspace(1.0, 3.0, COLUMNS + 1))), fl.Laplace(SIGMA)]
NOISES += [fl.Bounded(3.0 * SIGMA)]


@pytest.mark.parametrize("noise", often(NOISES, 3), ids=["Gaussian", "shaped", "Laplace", "Bounded"])
def test_the_attacker_gets_no_more_from_a_release_than_the_closed_form(noise: Any) -> None:
    count = right(lambda model: parameters(fl.release(model, noise)), noise)
    # a total variation of at most that of the Gaussian with as much information, by the difference of the candidates
    most = max(CLOSED_FORM, float(norm.cdf(np.linalg.norm(THETAS[0] - THETAS[1]) / (2 * 0.7))))
    assert binomtest(count, TRIALS, most, alternative="greater").pvalue > 1e-4


def test_a_seed_of_ones_own_is_on_the_grid_too() -> None:
    noise, seeds = fl.Gaussian(SIGMA), iter(range(TRIALS))
    count = right(lambda model: parameters(fl.release(model, noise, random_state=next(seeds))), noise)
    assert binomtest(count, TRIALS, CLOSED_FORM, alternative="greater").pvalue > 1e-4


def test_released_parameters_do_not_have_the_last_bits_of_any_candidate() -> None:
    """Each candidate explains as many of them as the other: those whose last bits happen to fit."""
    counts = np.array(
        [
            [impossible(parameters(fl.release(MODELS[k % 2], fl.Gaussian(SIGMA))), theta) for theta in THETAS]
            for k in range(100)
        ]
    )
    own, other = (np.array([counts[k, (k + side) % 2] for k in range(100)]) for side in (0, 1))
    assert own.mean() > 1  # the true one is as impossible as the other
    assert abs(own.mean() - other.mean()) < 4 * np.sqrt((own.var() + other.var()) / 100)


# Parameters whose noises are far apart, and parameters that floats hardly hold

UNITS = np.array([1e13] * 25 + [1.0] * 26)
APART = fl.Gaussian(SIGMA, np.diag(UNITS**2))


def right_apart(release: Callable[[Vector], Vector]) -> int:
    """The same attacker where the first half of the parameters, and their noise, are in a unit 1e13 times smaller."""
    found = 0
    for k in range(TRIALS):
        noisy = release(THETAS[k % 2] * UNITS)
        counts = [impossible(noisy, theta * UNITS) for theta in THETAS]
        likely = int(np.argmax(APART.log_density(noisy - THETAS * UNITS)))
        found += (likely if counts[0] == counts[1] else int(np.argmin(counts))) == k % 2
    return found


@pytest.mark.long
def test_units_far_apart_hide_the_last_bits_of_each() -> None:
    """One grid for all, that of the least noise, is finer than the floats that the large ones are."""
    rng, finest = np.random.default_rng(2), np.full(51, 2.0**-10)
    assert right_apart(lambda theta: on_grid(theta + APART.draw(51, rng), finest)) > 0.62 * TRIALS
    count = right_apart(lambda theta: released(theta, APART, rng))
    assert binomtest(count, TRIALS, CLOSED_FORM, alternative="greater").pvalue > 1e-4
    grid = grid_of(APART, 51)
    assert np.all((grid > UNITS / 2048) & (grid <= UNITS / 1024))


def turned(rows: int, thin: float) -> Any:
    """A shape with thin directions that lie across all parameters."""
    q, _ = np.linalg.qr(np.random.default_rng(rows).normal(size=(rows, rows)))
    return (q * np.geomspace(thin, 1.0, rows)) @ q.T


@pytest.mark.parametrize("thin", [1e-4, 1e-12])
def test_thin_directions_are_rounded_no_more_than_they_must(thin: float) -> None:
    noise = fl.Gaussian(1.0, np.diag([1e6, 1.0, 1e-6]) @ turned(3, thin) @ np.diag([1e6, 1.0, 1e-6]))
    grid = grid_of(noise, 3)
    W = np.asarray(noise.unit_information_root(3))
    # in white coordinates rounding adds less than a ten-millionth of a variance for each parameter
    added = W @ np.diag(grid**2 / 12.0) @ W.T
    assert np.linalg.norm(added, 2) < 3e-7
    assert np.all(grid > 2.0**-32 * np.sqrt(np.diag(np.asarray(noise.shape))))


def test_a_parameter_whose_last_bit_is_above_its_grid_is_refused() -> None:
    """It is a multiple of that bit before the noise: the least change of a cell moves it by a whole one, or by nothing."""
    X = np.column_stack([np.linspace(0.0, 1.0, 40), np.ones(40)])
    fit = fl.minimise(X[:, :1], 1e9 + X[:, 0], l2=1e-3, intercept=True)
    assert np.spacing(1e9) < 1e-6
    with pytest.raises(
        fl.InvalidInputError,
        match=r"noise of scale 1e-06 is too small beside a parameter of 1e\+09.*other units or centred",
    ):
        fl.release(fit, fl.Gaussian(1e-6), 0)
    fl.release(fit, fl.Gaussian(1e-3), 0)
    # and so is one that is small itself but computed from one that is not
    far = make_pipeline(StandardScaler(), Ridge()).fit(1e14 + 64.0 * X[:, :1].round(1), 1e-6 * X[:, 0])
    with pytest.raises(fl.InvalidInputError, match="is too small beside a parameter"):
        fl.release(far, fl.Gaussian(1e-11), 0)


# Draws of mechanisms

MECHANISMS = [fl.Posterior(1e-3), fl.ObjectivePerturbation(0.3)]


def neighbours(mechanism: Any) -> list[Any]:
    """Two fits, of tables that differ little in one row, on the two sides of a power of two of their least deviation."""
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(300, 3)), rng.normal(size=300)
    step, low, high = 0.05, 0.0, 40.0

    def fit(size: float) -> Any:
        moved = X.copy()
        moved[5, 0] = size
        return fl.minimise(moved, y, l2=0.1)

    def power(size: float) -> int:
        return int(np.floor(np.log2(mechanism.least_deviation(fit(size)))))

    while high - low > step:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if power(middle) == power(0.0) else (low, middle)
    assert power(high) != power(low)
    return [fit(low), fit(high)]


def finest(released: Any) -> float:
    """The power of two that all parameters are multiples of."""
    values = np.asarray(released.coef)
    return min(float(np.abs(value)) / odd_part(float(np.abs(value))) for value in values)


def odd_part(value: float) -> float:
    part = float(np.frexp(value)[0] * 2.0**53)
    while part % 2 == 0:
        part /= 2
    return part


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=["Posterior", "ObjectivePerturbation"])
def test_the_last_digits_of_a_draw_do_not_tell_how_much_noise_there_is(mechanism: Any) -> None:
    fits = neighbours(mechanism)
    grids = np.array(
        [
            [finest(fl.release(fit, mechanism, seed)) for seed in range(40 * k, 40 * k + 40)]
            for k, fit in enumerate(fits)
        ]
    )
    # the best threshold on the finest digit, chosen with the answers known
    best = max(np.mean([grids[0] > t, grids[1] <= t]) for t in np.unique(grids))
    best = max(best, 1.0 - min(np.mean([grids[0] > t, grids[1] <= t]) for t in np.unique(grids)))
    assert best < 0.7
    powers = [2.0 ** np.floor(np.log2(mechanism.least_deviation(fit))) / 1024 for fit in fits]
    assert powers[0] == 2.0 * powers[1]  # what a grid made of it would tell, each time


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=["Posterior", "ObjectivePerturbation"])
def test_draws_of_a_mechanism_do_not_have_the_last_bits_of_any_candidate(mechanism: Any) -> None:
    fits = neighbours(mechanism)
    thetas = [np.asarray(fit.theta) for fit in fits]
    counts = np.array(
        [
            [impossible(np.asarray(fl.release(fits[k % 2], mechanism, k).coef), theta) for theta in thetas]
            for k in range(200)
        ]
    )
    own, other = (np.array([counts[k, (k + side) % 2] for k in range(200)]) for side in (0, 1))
    # the true one is explained no better than the other
    assert other.mean() - own.mean() < 4 * np.sqrt((own.var() + other.var()) / 200) + 1e-9
    for k in range(20):
        values = np.asarray(fl.release(fits[0], mechanism, k).coef)
        part, _ = np.frexp(values)
        np.testing.assert_array_equal(part * 2.0**30, np.rint(part * 2.0**30))
