"""What one row can change beside the noise: the kind of model, levels, and columns that are left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fisherleak.releasing.noise.stable_under_replacement import _feature_settled, kind_settled
from fisherleak.tables import Design, from_frame
from fisherleak.training.trained_model import Settings, train

pandas = pytest.importorskip("pandas")
ROWS = 300


def design(settings: Settings, **columns: Any) -> Design:
    z = np.random.default_rng(0).uniform(-1, 1, size=ROWS)
    frame = pandas.DataFrame({"a": z.round(3), **columns})
    return train(from_frame(frame), settings).design


def labels(*counts: int, first: float = 1.0, odd: tuple[float, ...] = ()) -> Any:
    """Whole numbers from the first, each in so many rows, the rest in the last; some rows with other values."""
    values = [first + k for k, count in enumerate(counts) for _ in range(count)]
    return np.array([*odd, *values, *[first + len(counts)] * ROWS])[:ROWS]


@pytest.mark.parametrize(
    ("y", "settled"),
    [
        (labels(60, 60, 60, 60), True),  # codes of five classes
        (labels(60, 60, 60, 5), False),  # one row less of the fourth, and they are numbers
        (labels(60, 60, 60, 60, odd=(2.5,)), False),  # one row less, and they are codes
        (labels(60, 60, 60, 60, odd=(2.5, 2.5)), True),
        (labels(60, 60, 60, 4), False),  # one row more of the fourth
        (labels(60, 2, 60, 2), True),
        (labels(150, first=0.0), True),  # yes or no
        (labels(150, first=0.0, odd=(7.0,)), False),
        (labels(60, 60, 60, odd=(20.0,)), False),  # one row less
        (np.resize([0.0, 2.0, 4.0], ROWS), True),  # no row makes a run of them
        (np.resize([-1.0, 0.0, 1.0], ROWS), True),
        (np.linspace(0.0, 5.0, ROWS), True),
        (np.resize(["yes", "no"], ROWS), True),
    ],
)
def test_the_kind_of_model(y: Any, settled: bool) -> None:
    assert kind_settled(design(Settings("y", held_out=0.0), y=y)) == settled


def test_a_kind_that_was_given_stays() -> None:
    y = labels(60, 60, 60, 60, odd=(2.5,))
    assert kind_settled(design(Settings("y", model="linear", held_out=0.0), y=y))


@pytest.mark.parametrize(("few", "settled"), [(0, True), (3, False), (4, False), (5, False), (6, True)])
def test_levels_and_columns_that_few_rows_decide(few: int, settled: bool) -> None:
    level = np.array(["A"] * few + ["B", "C"] * ROWS)[:ROWS]
    flag = np.array([1] * few + [0] * ROWS)[:ROWS]
    y = np.random.default_rng(1).normal(size=ROWS)
    settings = Settings("y", held_out=0.0, rare=5)
    for column in ({"t": level}, {"f": flag}):
        made = design(settings, **column, y=y)
        assert (
            not made.thin and all(_feature_settled(made, settings, feature) for feature in made.features)
        ) == settled
