"""Means and scales of columns give away the one value that an attacker does not know; no release holds any."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

import fisherleak as fl
from attacks_on_us.walker import copied_with_noise, numbers

NOISE = fl.Gaussian(1.0)
RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(52.0, 11.0, size=300), RNG.normal(170.0, 9.0, size=300)])
Y = 0.05 * X[:, 0] + RNG.normal(size=300)
VICTIM = 41
OTHERS = np.delete(X[:, 0], VICTIM)


def ages_from(released: Any) -> Any:
    """What the victim's age would be if some number of the released object were the mean of all."""
    return len(X) * numbers(released) - OTHERS.sum()


def test_an_exact_mean_is_the_one_unknown_age() -> None:
    model = make_pipeline(StandardScaler(), Ridge()).fit(X, Y)
    assert np.min(np.abs(ages_from(copied_with_noise(model, NOISE)) - X[VICTIM, 0])) < 1e-9
    for released in (
        fl.release(model, NOISE),
        fl.release(model, NOISE, public="levels"),
        fl.PrivateRelease(model, over="max", eta=1.0).fit(X, Y).estimator_,
    ):
        assert np.min(np.abs(ages_from(released) - X[VICTIM, 0])) > 1.0


@pytest.mark.parametrize("scaler", [MinMaxScaler, MaxAbsScaler])
def test_an_exact_range_is_the_age_of_the_eldest(scaler: type) -> None:
    model = make_pipeline(scaler(), Ridge()).fit(X, Y)
    eldest = X[:, 0].max()
    assert np.min(np.abs(numbers(copied_with_noise(model, NOISE)) - eldest)) < 1e-12
    assert np.min(np.abs(numbers(fl.release(model, NOISE, random_state=0)) - eldest)) > 1e-3


def test_raw_parameters_are_made_of_the_grid_alone() -> None:
    """Divided by the public scales, and with the level at the public centres, they are multiples of one power of two."""
    model = make_pipeline(StandardScaler(), Ridge()).fit(X, Y)
    last = fl.release(model, NOISE)[-1]
    scales = 2.0 ** (np.round(4 * np.log2(X.std(axis=0))) / 4)
    centres = scales * np.round(X.mean(axis=0) / scales)
    in_frame = np.append(last.coef_ * scales, last.intercept_ + centres @ last.coef_)
    steps = in_frame * 1024
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-8)
