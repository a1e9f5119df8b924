"""A prior of each row: alike rows give what a common prior gives, closed forms are simulations' means, hostile ones are refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import fisherleak as fl
from attacks.clinic import DOSE, TABLE, pipeline

MODEL = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)


def of_rows(k: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(k), size=len(TABLE))


@pytest.mark.parametrize(("attribute", "k"), [("gene", 3), ("smoker", 2)])
def test_rows_that_are_alike_are_a_common_prior(attribute: str, k: int) -> None:
    common = np.arange(1.0, k + 1.0) / np.arange(1.0, k + 1.0).sum()
    for attacker, options in (
        (fl.attacks.WhiteBox, {"use_prior": True}),
        (fl.attacks.BlackBox, {}),
        (fl.attacks.Prior, {}),
    ):
        one, many = (
            attacker(MODEL, TABLE, DOSE, attribute, prior=prior, **options)
            for prior in (common, np.tile(common, (len(TABLE), 1)))
        )
        noise = fl.Gaussian(0.05)
        np.testing.assert_allclose(one.accuracy(noise), many.accuracy(noise))
        assert one.against(noise).baseline == many.against(noise).baseline


@pytest.mark.parametrize("attribute", ["gene", "smoker"])
@pytest.mark.parametrize("over", ["rows", "prior"])
def test_the_closed_form_is_the_simulation_s_mean(attribute: str, over: str) -> None:
    k = TABLE[attribute].nunique()
    attack = fl.attacks.WhiteBox(MODEL, TABLE, DOSE, attribute, prior=of_rows(k), use_prior=True)
    for scale in (0.02, 0.1, 1.0):
        exact, draws = attack.accuracy(fl.Gaussian(scale), over=over), 4000
        if over == "prior":
            simulated = attack._simulated_over_prior(fl.Gaussian(scale), draws, 0)
        else:
            simulated = np.mean(attack._simulated(fl.Gaussian(scale), draws, 0), axis=0)
        assert np.abs(exact - simulated).max() < 5 * np.sqrt(0.25 / draws)


def test_noise_that_is_not_normal_takes_beliefs_too() -> None:
    beliefs = np.full((len(TABLE), 2), 1e-12)
    beliefs[:, 1] = 1.0
    attack = fl.attacks.WhiteBox(MODEL, TABLE, DOSE, "smoker", prior=beliefs, use_prior=True)
    found = attack.infer(MODEL, noise=fl.Laplace(1e3))
    assert set(found.tolist()) == {attack.values[1]}


def test_certain_beliefs_are_never_given_up() -> None:
    sure = np.zeros((len(TABLE), 2))
    sure[:, 0] = 1.0
    attack = fl.attacks.WhiteBox(MODEL, TABLE, DOSE, "smoker", prior=sure, use_prior=True)
    right = (TABLE["smoker"] == attack.values[0]).to_numpy().astype(float)
    np.testing.assert_array_equal(attack.accuracy(fl.Gaussian(1e-6)), right)
    assert attack.against(fl.Gaussian(1e-6)).baseline == right.mean()


def test_only_the_attacked_rows_count() -> None:
    beliefs = of_rows(2)
    few = fl.attacks.WhiteBox(MODEL, TABLE, DOSE, "smoker", prior=beliefs, use_prior=True, rows=[3, 7])
    every = fl.attacks.WhiteBox(MODEL, TABLE, DOSE, "smoker", prior=beliefs, use_prior=True)
    noise = fl.Gaussian(0.1)
    np.testing.assert_allclose(few.accuracy(noise), every.accuracy(noise)[[3, 7]])


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        (np.ones((3, 2)), r"shape \(120, 2\)"),
        (np.ones((120, 3)), r"shape \(120, 2\)"),
        (np.full((120, 2), -1.0), "zero or more"),
        (np.zeros((120, 2)), "not all zero"),
        (np.full((120, 2), np.nan), "finite"),
    ],
)
def test_other_beliefs_are_refused(prior: np.ndarray, words: str) -> None:
    with pytest.raises(fl.InvalidInputError, match=words):
        fl.attacks.WhiteBox(MODEL, TABLE, DOSE, "smoker", prior=prior)
