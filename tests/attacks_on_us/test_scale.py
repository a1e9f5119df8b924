"""An attacker who reads a cell off the scale of the noise: exact on a scale that the present rows decide, lost on the public grid.

The attacker knows every value but one, that of the most exposed row, computes the scale that each candidate would have led to,
and looks for the one that was published.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

import fisherleak as fl
from cases import Case, make
from often import often

TRUTH = make("squared", 3, n=60, l2=1e-2)
ROW = int(np.argmax(TRUTH.leak().per_example()))
CELL = (ROW, 0)
BOUNDS: Any = dict.fromkeys(("x0", "x1", "x2", "label"), (-8.0, 8.0))


def with_cell(value: float) -> Case:
    X = TRUTH.X.copy()
    X[CELL] = value
    return replace(TRUTH, X=X)


def scale(case: Case, **how: Any) -> float:
    return fl.calibrate(case.leak(), eta=1.0, **how).scale


def test_the_attacker_reads_the_cell_off_a_scale_that_rows_decide() -> None:
    published = scale(TRUTH)
    truth = float(TRUTH.X[CELL])
    found = brentq(lambda value: scale(with_cell(value)) - published, truth - 0.11, truth + 0.1, xtol=1e-14)
    assert abs(found - truth) < 1e-9


@pytest.mark.parametrize("seed", often(range(2)))
def test_the_attacker_learns_nothing_from_a_scale_on_the_public_grid(seed: int) -> None:
    how = {"over": "any-record", "bounds": BOUNDS, "random_state": seed}
    published = scale(TRUTH, **how)
    truth = float(TRUTH.X[CELL])
    same = [scale(with_cell(value), **how) == published for value in truth + np.linspace(-0.1, 0.1, 5)]
    assert np.mean(same) >= 0.5  # an interval that 1 / eta is small beside, where the exact scale gave ten digits
    assert same[2]
