"""A public grid: scales are rounded up by less than a step, and rarely differ for data that hardly do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fisherleak as fl
from fisherleak.protection.certificates.published_scale import STEP, on_public_grid, pivot_probability


@given(scale=st.floats(1e-200, 1e200), seed=st.integers(0, 10**6))
def test_scales_are_rounded_up_by_less_than_a_step(scale: float, seed: int) -> None:
    found = on_public_grid(scale, seed)
    assert scale <= found.scale <= scale * STEP * (1 + 1e-12)
    assert 0.0 <= found.offset < 1.0
    place = 4 * math.log2(found.scale) - found.offset
    assert abs(place - round(place)) < 1e-8
    assert on_public_grid(found.scale * 0.999999, seed).scale in (found.scale, scale)


@pytest.mark.parametrize("spread", [0.002, 0.02, 0.1])
def test_a_small_move_changes_the_value_as_often_as_said(spread: float) -> None:
    offsets = np.random.default_rng(0)
    changed = 0
    for _ in range(4000):
        seed = int(offsets.integers(2**31))
        changed += on_public_grid(3.7, seed).scale != on_public_grid(3.7 * math.exp(spread), seed).scale
    assert changed / 4000 == pytest.approx(spread / math.log(STEP), abs=0.03)
    assert changed / 4000 <= pivot_probability(spread) + 0.02


def test_probabilities_are_said_in_coarse_steps_and_never_too_small() -> None:
    for spread in np.geomspace(1e-5, 10.0, 200):
        said = pivot_probability(float(spread))
        assert said >= min(spread / math.log(STEP), 1.0)
    assert pivot_probability(math.inf) == 1.0
    assert pivot_probability(0.0) == 0.01


def test_offsets_come_from_the_system() -> None:
    assert len({on_public_grid(1.0).offset for _ in range(20)}) == 20
    with pytest.raises(fl.InvalidInputError, match="random_state must be None"):
        on_public_grid(1.0, "seed")  # type: ignore[arg-type]
