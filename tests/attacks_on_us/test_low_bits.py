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

import fisherleak as fl
from fisherleak.models.estimators import parameters

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


@pytest.mark.parametrize("noise", NOISES, ids=["Gaussian", "shaped", "Laplace", "Bounded"])
def test_the_attacker_gets_no_more_from_a_release_than_the_closed_form(noise: Any) -> None:
    count = right(lambda model: parameters(fl.release(model, noise)), noise)
    # a total variation of at most that of the Gaussian with as much information, by the difference of the candidates
    most = max(CLOSED_FORM, float(norm.cdf(np.linalg.norm(THETAS[0] - THETAS[1]) / (2 * 0.7))))
    assert binomtest(count, TRIALS, most).pvalue > 1e-4


def test_a_seed_of_ones_own_is_on_the_grid_too() -> None:
    noise, seeds = fl.Gaussian(SIGMA), iter(range(TRIALS))
    count = right(lambda model: parameters(fl.release(model, noise, random_state=next(seeds))), noise)
    assert binomtest(count, TRIALS, CLOSED_FORM).pvalue > 1e-4


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
