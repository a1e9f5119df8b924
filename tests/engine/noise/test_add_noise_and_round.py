"""Numbers that are made of the system's words follow their law, far into its tails, and are never the same twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest, laplace, norm

from fisherleak.engine.noise.add_noise_and_round import SystemGenerator, signs_and_uniforms

COUNT = 200_000


def test_uniform_numbers_and_signs() -> None:
    sign, u = signs_and_uniforms((COUNT,))
    assert ((u > 0) & (u <= 1)).all()
    assert set(sign) == {-1.0, 1.0}
    assert abs(sign.mean()) < 5 / np.sqrt(COUNT)
    assert kstest(u, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(sign, u)[0, 1]) < 5 / np.sqrt(COUNT)
    assert np.unique(u).size == COUNT


@pytest.mark.parametrize("law", [norm, laplace])
def test_numbers_follow_their_law(law: Any) -> None:
    rng = SystemGenerator()
    values = rng.standard_normal(COUNT) if law is norm else rng.laplace(scale=1.0, size=COUNT)
    assert kstest(values, law.cdf).pvalue > 1e-4
    # the uniform numbers behind the tails are uniform too
    far = values[np.abs(values) > law.isf(5e-4)]
    assert far.size == pytest.approx(COUNT * 1e-3, rel=0.4)
    assert kstest(law.sf(np.abs(far)) / 5e-4, "uniform").pvalue > 1e-4


@pytest.mark.parametrize(
    ("high", "low", "normal", "size"),
    [
        (0, 0, 13.1, 88.7),  # the smallest uniform number there is
        (0, 2**64 - 1, 9.15, 44.4),
        (2**64 - 1, 2**64 - 1, 0.0, 0.0),  # the largest, which rounds to one
        (2**63, 0, 0.674, 0.693),
    ],
)
def test_the_ends_are_finite(monkeypatch: pytest.MonkeyPatch, high: int, low: int, normal: float, size: float) -> None:
    data = np.array([high, low], dtype=np.uint64).tobytes()
    monkeypatch.setattr("fisherleak.engine.noise.add_noise_and_round.os.urandom", lambda count: data)
    rng = SystemGenerator()
    assert abs(rng.standard_normal()) == pytest.approx(normal, abs=0.05)
    assert abs(rng.laplace()) == pytest.approx(size, abs=0.1)


def test_it_is_a_generator_for_whatever_else_is_asked() -> None:
    one, two = SystemGenerator(), SystemGenerator()
    assert isinstance(one, np.random.Generator)
    assert (one.logistic(size=20) != two.logistic(size=20)).all()
    assert one.standard_normal((2, 3)).shape == (2, 3)
    assert one.standard_normal(4, dtype=np.float32).dtype == np.float32
    assert one.laplace(np.zeros(3), 2.0).shape == (3,)
    assert isinstance(float(one.standard_normal()), float)


def test_nothing_is_kept_between_numbers() -> None:
    """A copy of the whole state gives other numbers."""
    one = SystemGenerator()
    state = one.bit_generator.state
    first = one.standard_normal(50)
    one.bit_generator.state = state
    assert (one.standard_normal(50) != first).all()
