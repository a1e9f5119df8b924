"""Total variation of two normal distributions: against closed forms and draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from fisherleak.engine.changes.remade_covariance import bounded_mu, equivalent_mu, mu_along_a_row


def test_of_one_covariance_it_is_the_distance() -> None:
    lengths = np.array([1e-5, 1e-2, 0.5, 3.0, 12.0, 30.0])
    moves = lengths[:, None] * np.array([0.6, 0.0, 0.8])
    np.testing.assert_allclose(equivalent_mu(np.ones((6, 3)), moves), lengths, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_a_million_draws_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    v, m = np.exp(0.4 * rng.normal(size=5)), 0.5 * rng.normal(size=5)
    v[0] = 1.0

    def ratio(z: np.ndarray) -> np.ndarray:
        return 0.5 * np.asarray(np.sum((z - m) ** 2 / v - z**2 + np.log(v), axis=1))

    z = rng.standard_normal((2, 1_000_000, 5))
    right = 0.5 * (np.mean(ratio(z[0]) > 0) + np.mean(ratio(m + np.sqrt(v) * z[1]) < 0))
    assert ndtr(0.5 * equivalent_mu(v[None], m[None])[0]) == pytest.approx(right, abs=0.002)


def test_along_a_row_it_is_the_closed_form() -> None:
    """Leverages, residuals and temperatures of all sizes; one direction with no normal term is the slowest to settle."""
    rng = np.random.default_rng(0)
    h, r, T = 10 ** rng.uniform(-6, -0.05, 200), rng.normal(size=200), 10 ** rng.uniform(-3, 2, 200)
    moves = r * h / (1 - h) / np.sqrt(T * h)
    by_integral = equivalent_mu(1 / (1 - h)[:, None], moves[:, None])
    np.testing.assert_allclose(ndtr(by_integral / 2), ndtr(mu_along_a_row(1 - h, r, T) / 2), atol=1e-5)
    np.testing.assert_array_equal(mu_along_a_row(np.array([1.0, 0.0]), np.ones(2), np.ones(2)), [0.0, np.inf])


def test_what_is_not_finite_tells_for_certain() -> None:
    found = equivalent_mu(
        np.array([[1.0, np.nan], [1.0, 1.0], [0.0, 1.0]]), np.array([[0.0, 0.0], [np.inf, 0.0], [0.0, 0.0]])
    )
    np.testing.assert_array_equal(found, np.inf)


def test_bounds_by_divergence_are_not_below() -> None:
    rng = np.random.default_rng(1)
    v, m = (
        np.exp(rng.uniform(0.01, 1.0, (300, 1)) * rng.normal(size=(300, 4))),
        rng.uniform(0, 2, (300, 1)) * rng.normal(size=(300, 4)),
    )
    one = 0.5 * np.sum(1 / v - 1 + np.log(v) + m**2 / v, axis=1)
    other = 0.5 * np.sum(v - 1 - np.log(v) + m**2, axis=1)
    exact = equivalent_mu(v, m)
    for divergence in (one, other):
        assert np.all(bounded_mu(divergence) >= exact - 1e-9)
    assert bounded_mu(np.zeros(1))[0] == 0.0
