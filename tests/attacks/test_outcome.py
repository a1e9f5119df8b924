"""Outcomes: intervals hold what they claim to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import fisherleak as fl
from attacks.clinic import people, pipeline


@pytest.mark.parametrize("releases", [None, 1, 20])
def test_intervals_cover(releases: int | None) -> None:
    """Attack samples of a population of rows: about 95 of 100 intervals hold the accuracy over all rows and noise."""
    table, y = people(3000)
    model = pipeline(Ridge(alpha=0.5)).fit(table, y)
    noise = fl.Gaussian(1e-3)
    everyone = fl.attacks.WhiteBox(model, table, y, "smoker")
    fixed = fl.release(model, noise, 0)
    true = everyone.against(noise if releases != 1 else fixed).accuracy
    rng = np.random.default_rng(0)
    held, widths = [], []
    for seed in range(100):
        rows = rng.choice(3000, size=150, replace=False)
        attack = fl.attacks.WhiteBox(model, table, y, "smoker", rows=rows)
        released: Any = noise
        if releases == 1:
            released = fixed
        elif releases is not None:
            released = attack._drawn(noise, releases, seed)
        outcome = attack.against(released)
        held.append(outcome.low <= true <= outcome.high)
        widths.append(outcome.high - outcome.low)
    assert 88 <= sum(held) <= 100
    assert np.mean(widths) < 0.2
