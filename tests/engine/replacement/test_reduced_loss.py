"""How fast curvatures change, against differences of them."""

from __future__ import annotations

import numpy as np
import pytest

from fisherleak.engine.losses import LOSSES, pseudo_huber
from fisherleak.engine.outputs.vector_losses import ONE_AGAINST_REST, SEVERAL_NUMBERS, SOFTMAX
from fisherleak.engine.replacement.reduced_loss import ReducedLoss

KINDS = [("logistic", 1), ("poisson", 1), ("gamma", 1), (SOFTMAX, 2), (SOFTMAX, 3), (SOFTMAX, 6), (ONE_AGAINST_REST, 4)]


@pytest.mark.parametrize(("kind", "K"), KINDS)
def test_third_and_fourth_derivatives_are_within_what_w_says(kind: object, K: int) -> None:
    rng = np.random.default_rng(K)
    one = isinstance(kind, str)
    Q = None if one else kind.frame(K)  # type: ignore[attr-defined]
    L = 1 if Q is None else Q.shape[1]
    loss = ReducedLoss(LOSSES[kind] if isinstance(kind, str) else kind, Q, L, K)
    assert loss.width is not None
    count = 4000
    z, v, u = (scale * rng.normal(size=(count, L)) for scale in (2.0, 1.0, 1.0))
    y = rng.integers(0, K, count) * 1.0 if not one else rng.integers(0, 2, count) * 1.0 + (kind == "gamma")
    h = 1e-3

    def form(at: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(np.einsum("nk,nkl,nl->n", a, loss.curvature(at, y), b))

    low, middle, high = (form(z + step * v, v, u) for step in (-h, 0.0, h))
    mine, theirs = np.sqrt(form(z, v, v)), np.sqrt(form(z, u, u))
    length = np.linalg.norm(v, axis=1)
    assert (np.abs(high - low) / (2 * h) <= loss.width**0.5 * length * mine * theirs * (1 + 1e-4) + 1e-7).all()
    fourth = np.abs(high - 2 * middle + low) / h**2
    assert (fourth <= loss.width * length**2 * mine * theirs * (1 + 1e-3) + 1e-6).all()


def test_nothing_is_claimed_of_other_losses() -> None:
    assert ReducedLoss(pseudo_huber(0.5), None, 1, 1).width is None
    assert ReducedLoss(SEVERAL_NUMBERS, np.eye(2), 2, 2).width is None
