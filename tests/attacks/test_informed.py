"""The attacker with what the other columns suggest: better than his parts, exact where there is a closed form."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import fisherleak as fl
from attacks.clinic import DOSE, TABLE, pipeline

pytestmark = pytest.mark.usefixtures("quick_audits")


@pytest.fixture(scope="module")
def linked() -> tuple[object, pd.DataFrame, np.ndarray]:
    """A habit that age tells most of."""
    rng = np.random.default_rng(5)
    table = TABLE.copy()
    table["smoker"] = np.where(rng.random(len(table)) < 1 / (1 + np.exp((table["age"] - 50) / 3)), "yes", "no")
    return pipeline(Ridge(alpha=0.5)).fit(table, DOSE), table, DOSE


def test_knows_more_than_his_parts(linked: tuple[object, pd.DataFrame, np.ndarray]) -> None:
    model, table, y = linked
    informed = fl.attacks.Informed(model, table, y, "smoker")
    common = fl.attacks.WhiteBox(model, table, y, "smoker", use_prior=True)
    for scale in (0.1, 0.5):
        noise = fl.Gaussian(scale)
        outcome = informed.against(noise)
        assert outcome.accuracy > common.against(noise).accuracy + 0.02
        assert outcome.accuracy > outcome.baseline > 0.7
    assert informed.against(fl.Gaussian(1e6)).accuracy == pytest.approx(informed.against(fl.Gaussian(1e6)).baseline)
    assert informed.against(fl.Gaussian(1e-6)).accuracy == 1.0


def test_the_closed_form_is_the_simulation_s_mean(linked: tuple[object, pd.DataFrame, np.ndarray]) -> None:
    attack = fl.attacks.Informed(*linked, "smoker")
    draws = 4000
    exact, simulated = (
        attack.accuracy(fl.Gaussian(0.2)),
        np.mean(attack._simulated(fl.Gaussian(0.2), draws, 0), axis=0),
    )
    assert np.abs(exact - simulated).max() < 5 * np.sqrt(0.25 / draws)


def test_shares_the_moves_of_another(linked: tuple[object, pd.DataFrame, np.ndarray]) -> None:
    known = fl.attacks.WhiteBox(*linked, "smoker", use_prior=True)
    made = fl.attacks.Informed.like(known)
    assert made.moves is known.moves
    noise = fl.Gaussian(0.2)
    np.testing.assert_allclose(made.accuracy(noise), fl.attacks.Informed(*linked, "smoker").accuracy(noise))
    assert known.target.beliefs is None


def test_a_prior_of_one_s_own_is_refused(linked: tuple[object, pd.DataFrame, np.ndarray]) -> None:
    with pytest.raises(fl.InvalidInputError, match="learns its own prior"):
        fl.attacks.Informed(*linked, "smoker", prior=[0.5, 0.5])
    with pytest.raises(fl.InvalidInputError, match="no option 'use_prior'"):
        fl.attacks.Informed(*linked, "smoker", use_prior=True)
