"""The Fisher information matrix is the covariance of the score of what is really released."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import fisherleak as fl
from cases import make

DRAWS = 200_000


def distance(noise: fl.Gaussian, claimed: fl.Gaussian) -> float:
    """How far the score's covariance is from the claimed matrix, in standard errors of its trace."""
    case = make("logistic", 3, 20, 2, intercept=True)
    leak = case.leak(claimed)
    rows = [2, 9]
    J = leak._information.jacobians[0].dense(leak._information.jacobians[0].attributes, True)(
        case.X[rows], case.y[rows], None
    )
    flat = np.moveaxis(np.asarray(J), 0, 1).reshape(3, -1)
    rng = np.random.default_rng(0)
    theta = np.asarray(leak.fits[0].theta)
    released = theta + np.stack([noise.draw(3, rng) for _ in range(DRAWS)])
    # score of a Gaussian release by the data, under the claimed sigma
    score: NDArray[np.float64] = (released - theta) @ flat / claimed.scale**2
    squares = (score**2).sum(axis=1)
    fim = np.asarray(leak.fim(rows))
    np.testing.assert_allclose(score.mean(axis=0), 0.0, atol=6 * score.std() / np.sqrt(DRAWS))
    if noise.scale == claimed.scale:
        np.testing.assert_allclose(np.cov(score.T), fim, atol=0.02 * np.trace(fim))
    return float((squares.mean() - np.trace(fim)) / (squares.std() / np.sqrt(DRAWS)))


def test_the_right_sigma_is_accepted() -> None:
    assert abs(distance(fl.Gaussian(0.2), fl.Gaussian(0.2))) < 5


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_a_sigma_five_percent_off_is_rejected(factor: float) -> None:
    assert abs(distance(fl.Gaussian(0.2 * factor), fl.Gaussian(0.2))) > 20


def test_seeds_repeat_and_no_seed_does_not() -> None:
    noise = fl.Gaussian(1.0)
    np.testing.assert_array_equal(noise.draw(5, 3), noise.draw(5, 3))
    assert (noise.draw(5) != noise.draw(5)).all()
