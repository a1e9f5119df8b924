"""Copies of rows are said, unless chance makes as many."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas

from fisherleak.tables import Choices, design_of, from_frame

RNG = np.random.default_rng(0)
MEASURED = pandas.DataFrame({"id": np.arange(200) + 1, "x": RNG.normal(size=200), "y": RNG.normal(size=200)})


def copies(frame: pandas.DataFrame, **choices: str) -> list[str]:
    notes = design_of(from_frame(frame), Choices("y", **choices), held_out=0.0).notes  # type: ignore[arg-type]
    return [note for note in notes if "exact copies" in note]


def test_every_row_twice_is_said() -> None:
    (note,) = copies(pandas.concat([MEASURED, MEASURED]).drop(columns="id"))
    assert note.startswith("200 of the 400 training rows")
    twice = pandas.concat([MEASURED, MEASURED.iloc[:10]]).drop(columns="id")
    assert copies(twice)[0].startswith("10 of the 210 training rows")
    assert not copies(pandas.concat([MEASURED, MEASURED]), person="id")


def test_rows_that_are_alike_by_chance_are_not() -> None:
    coded = pandas.DataFrame(
        {"x": RNG.integers(0, 4, 400), "z": RNG.choice(["a", "b"], 400), "y": RNG.integers(0, 2, 400)}
    )
    assert not copies(coded)
    assert not copies(MEASURED)
