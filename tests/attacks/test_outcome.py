"""Outcomes: intervals hold what they claim to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import fisherleak as fl
from attacks.clinic import people, pipeline
from cases import Vector
from fisherleak.attacks.outcome import outcome_of
from often import often


@pytest.mark.parametrize("releases", often([20, None, 1]))
def test_intervals_cover(releases: int | None) -> None:
    """Attack samples of a population of rows: about 95 of 100 intervals hold the accuracy over all rows and noise."""
    table, y = people(1500)
    # numbers alone: a hundred attacks that read no categories
    table = table.assign(age=(table.age - 50) / 12, gene=table.gene == "TT", smoker=table.smoker == "yes").astype(float)
    model = Ridge(alpha=0.5).fit(table, y)
    noise = fl.Gaussian(1e-3)
    everyone = fl.attacks.WhiteBox(model, table, y, "smoker")
    fixed = fl.release(model, noise, 0, public="preprocessing")
    true = everyone.against(noise if releases != 1 else fixed).accuracy
    rng = np.random.default_rng(0)
    held, widths = [], []
    for seed in range(100):
        rows = rng.choice(1500, size=150, replace=False)
        attack = fl.attacks.WhiteBox(model, table, y, "smoker", rows=rows)
        released: Any = noise
        if releases == 1:
            released = fixed
        elif releases is not None:
            released = attack._drawn(noise, releases, seed)
        outcome = attack.against(released)
        held.append(outcome.low <= true <= outcome.high)
        widths.append(outcome.high - outcome.low)
    assert 94 <= sum(held) <= 100
    assert np.mean(widths) < 0.2


def guesses(kind: str, attribute: str, scale: float, prior: bool) -> tuple[Any, Vector]:
    """Where each of 1,000 releases is guessed right for each of 2,000 people, and each one's expected accuracy."""
    table, y = people(2000)
    last: Any = Ridge(alpha=0.5)
    if kind == "logistic":
        last, y = LogisticRegression(C=2.0, tol=1e-12, solver="newton-cholesky"), (np.median(y) < y).astype(int)
    attack = fl.attacks.WhiteBox(pipeline(last).fit(table, y), table, y, attribute, use_prior=prior)
    noise = fl.Gaussian(scale)
    return np.asarray(attack._simulated(noise, 1000, 0)), np.asarray(attack.accuracy(noise))


def coverage(right: Any, expected: Vector, rows: int, releases: int | None, experiments: int) -> tuple[float, float]:
    """Part of the experiments whose interval holds the accuracy over everyone and all noise, and the mean width."""
    rng = np.random.default_rng(1)
    held, width = 0, 0.0
    for _ in range(experiments):
        chosen = rng.choice(right.shape[1], rows, replace=False)
        by_row, by_trial = expected[chosen], None
        if releases is not None:
            part = right[np.ix_(rng.choice(right.shape[0], releases, replace=False), chosen)]
            by_row, by_trial = part.mean(axis=0), part.mean(axis=1)
        found = outcome_of("white-box", "x", by_row, by_trial, 0.5, exact=releases is None)
        assert 0 <= found.low <= found.accuracy <= found.high <= 1
        held += found.low <= expected.mean() <= found.high
        width += found.high - found.low
    return held / experiments, width / experiments


WIDEST = {2: 0.9, 5: 0.7, 20: 0.2, 100: 0.15, None: 0.45}
"""Intervals that hold everything would be easy."""
SETTINGS = [(150, 2), (150, 5), (150, 20), (150, 100), (20, None)]


@pytest.mark.parametrize(
    ("kind", "attribute", "scale", "prior"),
    often([("linear", "smoker", 1e-3, False), ("linear", "gene", 3e-4, True), ("logistic", "smoker", 1e-4, False)]),
)
def test_few_releases_or_rows_are_covered_too(kind: str, attribute: str, scale: float, prior: bool) -> None:
    """Accuracies of 76 %, 98 % and 99.8 %, spread over releases or over few rows: 94 of 100 intervals hold the truth."""
    right, expected = guesses(kind, attribute, scale, prior)
    for rows, releases in SETTINGS:
        held, width = coverage(right, expected, rows, releases, 400)
        assert held >= 0.94, (rows, releases)
        assert width <= WIDEST[releases], (rows, releases)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["linear", "logistic"])
@pytest.mark.parametrize(("attribute", "prior"), [("smoker", False), ("gene", True)])
@pytest.mark.parametrize("scale", [1e-4, 3e-4, 1e-3, 3e-3])
def test_intervals_cover_from_certainty_to_guessing(kind: str, attribute: str, prior: bool, scale: float) -> None:
    right, expected = guesses(kind, attribute, scale, prior)
    for rows, releases in [*SETTINGS, (20, 2), (20, 20), (500, 2), (500, 100), (150, None)]:
        held, width = coverage(right, expected, rows, releases, 600)
        assert held >= 0.94, (rows, releases)
        assert width <= WIDEST[releases] + 0.3 * (rows == 20), (rows, releases)


def test_what_never_fails_is_not_certain() -> None:
    for releases in (None, 2, 100):
        by_trial = None if releases is None else np.ones(releases)
        found = outcome_of("white-box", "x", np.ones(50), by_trial, 0.5)
        assert found.high == 1
        assert (0.3 if releases == 2 else 0.5) < found.low < 1
        other = outcome_of("white-box", "x", np.zeros(50), None if releases is None else np.zeros(releases), 0.5)
        assert other.low == 0
        assert other.high == pytest.approx(1 - found.low)


@pytest.mark.parametrize("releases", [2, 5, 20, 100])
def test_rows_that_are_guessed_together_are_allowed_for(releases: int) -> None:
    """Of a column that decides everything, all rows with one value are right or all others are: a release is one toss."""
    rng, parts, covered = np.random.default_rng(0), np.array([0.85, 0.15]), []
    for _ in range(1000):
        tosses = rng.integers(0, 2, releases)
        by_row = np.where(np.arange(100) < 85, np.mean(tosses == 0), np.mean(tosses == 1))
        made = outcome_of("white-box", "b", by_row, parts[tosses], 0.85)
        covered.append(made.low <= 0.5 <= made.high)
    assert np.mean(covered) >= 0.94
