"""The score of a choice: it is the loss for most rows, its derivatives are its own, and they are bounded."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.protection.frontier.bounded_score import FARTHEST, BoundedScore, score_for

LABELS = {"squared": np.array([-4.0, 4.0]), "logistic": np.array([0.0, 1.0])}
STEP = 1e-6


def scores() -> list[tuple[BoundedScore, np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    found = []
    for name in ("squared", "logistic", "poisson", "gamma"):
        over = "admissible" if name in LABELS else "max"
        y = {"squared": rng.normal(size=300), "logistic": rng.integers(0, 2, 300) * 1.0}.get(
            name, rng.gamma(2.0, size=300)
        )
        found.append((score_for(over, fl.LOSSES[name], LABELS.get(name)), 2.5 * rng.normal(size=300), y))
    return found


@pytest.mark.parametrize(
    ("score", "z", "y"), scores(), ids=lambda value: getattr(value, "loss", value.__class__.__name__)
)
def test_derivatives_are_those_of_the_value(score: BoundedScore, z: np.ndarray, y: np.ndarray) -> None:
    smooth = np.abs(np.abs(z) - score.farthest) > 1e-3
    slope = (score.value(z + STEP, y) - score.value(z - STEP, y)) / (2 * STEP)
    np.testing.assert_allclose(score.slope(z, y)[smooth], slope[smooth], atol=1e-7 * (1 + np.abs(slope).max()))
    # by the label: up to a term that all models share, so that two of them are compared
    other = np.zeros_like(z)
    moved = [score.value(at, y + STEP) - score.value(at, y - STEP) for at in (z, other)]
    ours = score.by_label(z, y) - score.by_label(other, y)
    np.testing.assert_allclose(ours, (moved[0] - moved[1]) / (2 * STEP), atol=1e-7 * (1 + np.abs(ours).max()))


def test_it_is_the_loss_for_most_rows_and_bounded_for_the_rest() -> None:
    squared, z, y = scores()[0]
    assert squared.steepest == 1.0
    near = np.abs(z - y) <= 1.0
    np.testing.assert_allclose(squared.value(z, y)[near], 0.5 * (z - y)[near] ** 2)
    assert np.abs(squared.slope(100 * z, y)).max() == 1.0
    logistic, z, y = scores()[1]
    near = np.abs(z) < FARTHEST
    np.testing.assert_allclose(logistic.value(z, y)[near], fl.LOSSES["logistic"].value(z, y)[near])
    assert np.abs(logistic.by_label(100 * z, y)).max() == pytest.approx(FARTHEST)
    assert logistic.value(100 * z, y).max() < FARTHEST + 0.1


def test_losses_without_a_bound_are_refused_for_admissible_rows_by_name() -> None:
    with pytest.raises(fl.InvalidInputError, match="the loss is poisson: name a candidate beforehand"):
        score_for("admissible", fl.LOSSES["poisson"], np.array([0.0, 9.0]))
    assert math.isinf(score_for("max", fl.LOSSES["squared"], None).steepest)
