"""Utility in words: nothing is said of a curve that falls, and what rises, or gains nothing, is said with its error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fisherleak.training.model_kinds import KINDS
from fisherleak.training.utility import Tradeoff, UtilityPoint
from fisherleak.training.utility_words import gain_in_words, measured, rise_in_words

METRICS = {metric.name: metric for kind in KINDS for metric in kind.metrics}


def curve(name: str, utilities: Sequence[float], unsure: float = 0.01, unsure_gain: float = 0.1) -> Tradeoff:
    """Without noise, with more and more of it, and of the baseline."""
    without, *noisy, constant = utilities
    points = [UtilityPoint(2.0**k, each, each, each, unsure) for k, each in enumerate(noisy)]
    return Tradeoff(METRICS[name], without, constant, True, 750, 100, tuple(points), unsure_gain)


@pytest.mark.parametrize(
    ("name", "utilities"),
    [("auc", (0.8, 0.79, 0.7, 0.5)), ("log_loss", (0.3, 0.31, 0.4, 0.6)), ("accuracy", (0.8, 0.8, 0.65, 0.6))],
)
def test_a_curve_that_falls_needs_no_words(name: str, utilities: Sequence[float]) -> None:
    cost = curve(name, utilities)
    assert rise_in_words(cost) == gain_in_words(cost) == []


def test_what_is_not_written_does_not_rise() -> None:
    assert rise_in_words(curve("accuracy", (0.8, 0.80004, 0.7, 0.6))) == []
    assert rise_in_words(curve("auc", (0.8, 0.80004, 0.7, 0.6))) == []


def test_a_rise_within_the_error_of_the_draws_is_no_gain() -> None:
    cost = curve("accuracy", (0.8, 0.78, 0.782, 0.7, 0.6))
    assert rise_in_words(cost) == [
        "Somewhere here more noise shows a better utility: accuracy by 0.2 points (± 1.4 points). That is within the error of "
        "the 100 draws of noise: it is no gain."
    ]


@pytest.mark.parametrize(("name", "utilities"), [("auc", (0.8, 0.79, 0.84, 0.5)), ("log_loss", (0.34, 0.35, 0.3, 0.6))])
def test_a_rise_beyond_it_is_said_to_be_one(name: str, utilities: Sequence[float]) -> None:
    (said,) = rise_in_words(curve(name, utilities))
    assert f"{'AUC' if name == 'auc' else 'log loss'} by 0.05 (± 0.0141)." in said
    assert "more than the error of the 100 draws" in said
    assert "on these 750 rows that happens to help" in said


def test_other_measures_are_told_too() -> None:
    cost = replace(curve("auc", (0.8, 0.7, 0.5)), also=(curve("accuracy", (0.8, 0.805, 0.79)),))
    (said,) = rise_in_words(cost)
    assert "accuracy by 0.5 points" in said
    assert "AUC" not in said


def test_a_gain_within_its_own_error_has_no_shares() -> None:
    cost = curve("accuracy", (0.835, 0.831, 0.83), unsure_gain=0.02)
    assert cost.gain is None
    assert gain_in_words(cost) == [
        "The gain over the baseline in accuracy, 0.5 points, is within its own error (± 2.0 points, from 750 rows): no share "
        "of it is shown."
    ]
    assert curve("accuracy", (0.835, 0.831, 0.83), unsure_gain=0.004).gain == pytest.approx(0.005)
    assert curve("log_loss", (0.3, 0.31, 0.6), unsure_gain=0.1).gain == pytest.approx(-0.3)
    assert "unknown, of so few rows" in gain_in_words(curve("auc", (0.8, 0.7, 0.5), unsure_gain=float("nan")))[0]
    assert "no better than the baseline" in gain_in_words(curve("r2", (-0.1, -0.2, 0.0)))[0]


def test_every_measure_has_words() -> None:
    assert {name: measured(name, 0.5) for name in METRICS} == {
        "r2": "R² 0.5",
        "accuracy": "50 %",
        "auc": "AUC 0.5",
        "log_loss": "log loss 0.5",
        "deviance": "deviance 0.5",
    }
