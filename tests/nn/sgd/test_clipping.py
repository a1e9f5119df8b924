from __future__ import annotations

import numpy as np
import pytest

from fisherleak.nn.sgd.clipping import CLIPS, LONGEST


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
