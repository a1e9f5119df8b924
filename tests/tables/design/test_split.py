"""The split into training and held-out rows, in memory and by the number of the row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("dask.dataframe")


from fisherleak.tables import Choices, design_of, from_frame, read_table
from tables.small import many
from visits import LITTLE


@pytest.mark.long
def test_large_tables_are_split_by_row_number(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    from fisherleak.tables.design import split

    monkeypatch.setattr(split, "EXACT", 1_000)
    here = design_of(read_table(folder), Choices("ill"), seed=3)
    away = design_of(read_table(folder), Choices("ill"), seed=3, room=LITTLE)
    other = design_of(read_table(folder), Choices("ill"), seed=4)
    np.testing.assert_array_equal(away.rows.compute(), here.rows)
    np.testing.assert_array_equal(away.X_test, here.X_test)
    assert here.held_out == pytest.approx(0.25 * (here.held_out + here.n), abs=4 * np.sqrt(0.25 * 0.75 * 4_000))
    assert not np.array_equal(other.rows[:500], here.rows[:500])
    shares = [np.mean(np.isin(np.arange(k, 4_000, 7) + 1, here.rows)) for k in range(7)]
    np.testing.assert_allclose(shares, np.mean(shares), atol=0.08)


def test_the_split_is_repeatable_and_keeps_classes() -> None:
    table = many(x=np.arange(60.0) ** 2).set_column(1, "y", [["no", "no", "no", "yes"] * 15])
    one = design_of(from_frame(table), Choices("y"), seed=1)
    two = design_of(from_frame(table), Choices("y"), seed=1)
    other = design_of(from_frame(table), Choices("y"), seed=2)
    np.testing.assert_array_equal(one.rows, two.rows)
    assert not np.array_equal(one.rows, other.rows)
    assert one.y_test.sum() == round(0.25 * 15)
    assert one.target.classes == ("no", "yes")
