"""Profiles of columns, merged from parts."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("dask.dataframe")


from fisherleak.tables import Choices, read_table
from fisherleak.tables.profile import profiles_of
from visits import people, write


def test_profiles_merge_to_that_of_the_whole(tmp_path: Path) -> None:
    table = people(2_000)
    table.to_parquet(tmp_path / "one.parquet")
    many = read_table(write(table, tmp_path / "many"))
    one, choices = read_table(tmp_path / "one.parquet"), Choices("cost", group="city", categories=("code",))
    assert len(many.parts) == 11
    assert profiles_of(many, choices, True) == profiles_of(many, choices, False) == profiles_of(one, choices, False)
