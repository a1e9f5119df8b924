"""An attacker who replaces a row to move the published scale: it changes no more often than was said, over the grid's offsets."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from cases import Case, make
from fisherleak.protection.certificates.exchange import exchange_in
from fisherleak.protection.certificates.published_scale import STEP, on_public_grid, pivot_probability
from fisherleak.protection.certificates.worst_record import certified
from often import often

BOX = (-2.0, 2.0)
LABELS: Any = {"squared": (-3.0, 3.0), "logistic": (0.0, 1.0), "poisson": (0.0, 3.0)}


def problem(loss: str, n: int, l2: float, **options: Any) -> tuple[Case, dict[str, Any]]:
    case = make(loss, 2, n=n, d=2, l2=l2, **options)
    bounds: dict[str, Any] = {"x0": BOX, "x1": BOX} | ({} if loss == "logistic" else {"label": LABELS[loss]})
    return replace(case, X=np.clip(case.X, *BOX), y=np.clip(case.y, *LABELS[loss])), bounds


def pivots(case: Case, loss: str) -> list[Case]:
    """Rows of all kinds replaced by rows of all kinds: the most and least exposed ones by every corner."""
    eta = np.asarray(case.leak().per_example())
    found = []
    for row in (int(np.argmax(eta)), 5):
        for *x, y in product(BOX, BOX, LABELS[loss]):
            X, labels = case.X.copy(), case.y.copy()
            X[row], labels[row] = x, y
            found.append(replace(case, X=X, y=labels))
    return found


CASES: list[Any] = [
    ("squared", 6_000, 0.1, {}),
    ("squared", 1_500, 0.1, {"intercept": True, "weighted": True}),
    ("logistic", 6_000, 0.1, {}),
    ("poisson", 6_000, 0.1, {}),
]


@pytest.mark.parametrize(("loss", "n", "l2", "options"), often(CASES, 4))
def test_the_pivot_attacker_changes_the_scale_no_more_often_than_said(
    loss: str, n: int, l2: float, options: Any
) -> None:
    case, bounds = problem(loss, n, l2, **options)
    worst = certified(exchange_in(case.leak(), bounds))
    said = pivot_probability(worst.spread)
    seeds = np.random.default_rng(0).integers(2**31, size=300).tolist()
    published = [on_public_grid(worst.upper, seed).scale for seed in seeds]
    most = 0.0
    for other in pivots(case, loss):
        upper = certified(exchange_in(other.leak(), bounds)).upper
        assert abs(math.log(upper / worst.upper)) <= worst.spread
        changed = [on_public_grid(upper, seed).scale != scale for seed, scale in zip(seeds, published, strict=True)]
        most = max(most, float(np.mean(changed)))
    assert most <= said
    if options == {}:
        assert said < 1.0


@pytest.mark.parametrize("l2", [1e-3, 1e-1])
def test_small_tables_move_as_far_as_the_interval_says(l2: float) -> None:
    case, bounds = problem("squared", 150, l2)
    worst = certified(exchange_in(case.leak(), bounds))
    for other in pivots(case, "squared"):
        assert abs(math.log(certified(exchange_in(other.leak(), bounds)).upper / worst.upper)) <= worst.spread


def test_the_probability_is_told() -> None:
    case, bounds = problem("squared", 6_000, 0.1)
    noise: Any = fl.calibrate(case.leak(), 1.0, over="any-record", bounds=bounds)
    told = noise.calibrated
    assert told.probability == pivot_probability(told.confidential.spread)
    assert told.step == STEP
    assert noise.scale == pytest.approx(2.0 ** ((round(4 * math.log2(noise.scale) - told.offset) + told.offset) / 4))
