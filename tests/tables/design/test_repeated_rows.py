"""Copies of rows are said, unless chance makes as many."""

from __future__ import annotations

from typing import Any

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


def copied(**columns: Any) -> list[str]:
    notes = design_of(from_frame(pandas.DataFrame(columns)), Choices("y"), held_out=0.0).notes
    return [note for note in notes if "the target 'y': the model says again" in note]


def test_a_column_that_copies_the_target_is_said() -> None:
    x, z = MEASURED["x"].to_numpy(), MEASURED["y"].to_numpy()
    (note,) = copied(x=x, z=z, y=3.0 - 2.0 * x)
    assert note.startswith("'x' copies the target 'y'")
    assert "`drop=['x']`" in note
    assert not copied(x=x, z=z, y=3.0 - 2.0 * x + 1e-4 * z)
    gaps = np.where(np.arange(200) % 7 == 0, np.nan, x)
    assert copied(x=gaps, z=z, y=x)


def test_a_column_of_classes_that_copies_the_target_is_said() -> None:
    kind = RNG.integers(0, 3, 200)
    words = np.array(["low", "middle", "high"])[kind]
    z = MEASURED["y"].to_numpy()
    assert copied(grade=words, z=z, y=np.array(["a", "b", "c"])[kind])[0].startswith("'grade' copies")
    assert copied(flag=(kind > 0) * 5, z=z, y=np.where(kind > 0, "yes", "no"))[0].startswith("'flag' copies")
    assert not copied(grade=words, z=z, y=np.where(kind > 0, "yes", "no"))  # it tells more
