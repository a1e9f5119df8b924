from __future__ import annotations

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.nn.sgd.subsampling import CLIPS, LONGEST, subsampled_information, subsampling_table
from often import often

RATES = [0.001, 0.01, 0.1, 0.5, 0.9]


@pytest.mark.parametrize("q", RATES)
@pytest.mark.parametrize("rho", often([1.0, 0.3, 3.0]))
def test_both_eigenvalues_are_the_covariance_of_the_score(q: float, rho: float) -> None:
    """Monte Carlo in three dimensions, half of the draws from each part of the mixture."""
    rng, n = np.random.default_rng(0), 400_000
    g = np.array([rho, 0.0, 0.0])
    total = np.zeros((3, 3))
    errors = np.zeros((3, 3))
    for share, mean in ((1 - q, 0.0 * g), (q, g)):
        u = mean + rng.standard_normal((n, 3))
        odds = (1 - q) / q * np.exp(-u[:, 0] * rho + 0.5 * rho**2)
        score = (u - g) / (1.0 + odds)[:, None]
        products = score[:, :, None] * score[:, None, :]
        total += share * products.mean(axis=0)
        errors += (share * products.std(axis=0)) ** 2 / n
    across, along = subsampled_information(q, np.array([rho]))
    expected = np.diag([along[0], across[0], across[0]])
    assert (np.abs(total - expected) <= 5.0 * np.sqrt(errors)).all()


@pytest.mark.parametrize("q", RATES)
def test_information_lies_between_its_limit_at_zero_and_the_published_bound(q: float) -> None:
    rho = np.geomspace(1e-3, 60.0, 200)
    for values in subsampled_information(q, rho):
        assert (values <= q * (1 + 1e-12)).all()
        np.testing.assert_allclose(values[0], q * q, rtol=1e-5)
        np.testing.assert_allclose(values[-1], q, rtol=1e-9)
    across, _ = subsampled_information(q, rho)
    assert (np.diff(across) > -1e-15).all()


def test_the_gain_over_the_published_bound() -> None:
    for rho, gain in ((0.1, 9.9), (1.0, 4.6)):
        worst = max(values[0] for values in subsampled_information(0.01, np.array([rho])))
        assert round(float(np.sqrt(0.01 / worst)), 1) == gain


def test_who_is_always_in_is_told_as_by_plain_noise() -> None:
    for values in subsampled_information(1.0, np.array([0.0, 1.0, 9.0])):
        np.testing.assert_array_equal(values, 1.0)


@pytest.mark.parametrize("q", [1e-6, *RATES])
@pytest.mark.parametrize("largest", often([5.0, 0.2, 10.0, 39.0, 200.0], 4))
def test_tables_err_on_the_safe_side_and_little(q: float, largest: float) -> None:
    """Etas are within 1e-4 of the truth, and never below: what the documentation says of noisy SGD."""
    rho = np.random.default_rng(0).uniform(0.0, largest, 100)
    table = subsampling_table(q, largest)
    for safe, exact in zip(table.at(rho), subsampled_information(q, rho), strict=True):
        assert (safe >= exact * (1 - 1e-12)).all()
        assert (np.sqrt(safe) <= np.sqrt(exact) * (1 + 1e-4)).all()
        assert (safe <= q).all()
        assert table.worst >= safe.max()


def test_batches_of_fixed_size_have_the_published_bound() -> None:
    for values in subsampling_table(0.1, 3.0, "fixed").at(np.array([0.0, 2.0])):
        np.testing.assert_array_equal(values, 0.1)


def test_lengths_past_the_table_are_refused() -> None:
    with pytest.raises(fl.InvalidInputError, match="rho is at most 1"):
        subsampling_table(0.1, 1.0).at(np.array([1.1]))


@pytest.mark.parametrize("name", CLIPS)
def test_both_factors_are_the_derivative_of_the_clipped_vector(name: str) -> None:
    clip, most, h = CLIPS[name], 2.5, 1e-6

    def clipped(v: np.ndarray) -> np.ndarray:
        alpha, _, after = clip(np.array([np.linalg.norm(v)]), most)
        np.testing.assert_allclose(after[0], alpha[0] * np.linalg.norm(v))
        return np.asarray(alpha[0] * v)

    for length in (0.2, 1.0, 2.4, 2.7, 9.0):
        g = np.array([length, 0.0])
        D = np.stack([(clipped(g + h * e) - clipped(g - h * e)) / (2 * h) for e in np.eye(2)], axis=1)
        alpha, beta, _ = clip(np.array([length]), most)
        np.testing.assert_allclose(D, np.diag([beta[0], alpha[0]]), atol=1e-8)


def test_at_the_kink_the_larger_side_counts() -> None:
    alpha, beta, after = CLIPS["hard"](np.array([2.5]), 2.5)
    assert (alpha[0], beta[0], after[0]) == (1.0, 1.0, 2.5)


@pytest.mark.parametrize("name", CLIPS)
def test_no_vector_is_longer_than_promised(name: str) -> None:
    _, _, after = CLIPS[name](np.geomspace(1e-3, 1e6, 200_000), 1.0)
    assert after.max() <= LONGEST[name]
    assert after.max() > LONGEST[name] - 2e-4
