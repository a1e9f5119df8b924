"""Profiles of columns, merged from parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("dask.dataframe")


from fisherleak.tables import Choices, read_table
from fisherleak.tables.decide.profile import profiles_of
from visits import people, write


def test_profiles_merge_to_that_of_the_whole(tmp_path: Path) -> None:
    table = people(2_000)
    table.to_parquet(tmp_path / "one.parquet")
    many = read_table(write(table, tmp_path / "many"))
    one, choices = read_table(tmp_path / "one.parquet"), Choices("cost", group="city", categories=("code",))
    assert len(many.parts) == 11
    assert profiles_of(many, choices, True) == profiles_of(many, choices, False) == profiles_of(one, choices, False)


def test_a_slip_in_one_part_of_an_identifier(tmp_path: Path) -> None:
    table = people(2_000)
    table["visit_id"] = np.where(
        np.arange(2_000) == 700, 17.5, np.arange(2_000.0) // 2
    )  # each value twice, in two parts
    table.to_parquet(tmp_path / "one.parquet")
    halves = [*range(0, 2_000, 2), *range(1, 2_000, 2)]
    many = read_table(write(table.take(halves).reset_index(drop=True), tmp_path / "many"))
    one, choices = read_table(tmp_path / "one.parquet"), Choices("cost")
    whole, parts = (profiles_of(each, choices, False)["visit_id"] for each in (one, many))
    assert whole.sketch == parts.sketch
    assert not parts.distinct
    assert whole.numbers == parts.numbers
    assert parts.numbers is not None
    assert (parts.numbers.fractions, parts.numbers.whole, parts.numbers.nearly_whole) == (1, False, True)
