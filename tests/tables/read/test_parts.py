"""Parts of tables: how they are cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("dask.dataframe")


from fisherleak.auditing.run import audit
from fisherleak.tables.read import parts
from fisherleak.tables.read.opening import read_table
from fisherleak.training.trained_model import Settings
from visits import LITTLE, people


@pytest.mark.long
def test_parts_are_cut_so_that_their_features_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = people(1_500)
    table.to_parquet(tmp_path / "t.parquet", row_group_size=500)
    whole = audit(tmp_path / "t.parquet", Settings("ill"), noise=0.5, draws=4, attacks=False)
    monkeypatch.setattr(parts, "BLOCK_BYTES", 8 * 300 * 6)
    result = audit(tmp_path / "t.parquet", Settings("ill"), LITTLE, noise=0.5, draws=4, attacks=False)
    assert max(result.design.X.chunks[0]) <= 300
    np.testing.assert_allclose(result.eta.compute(), whole.eta, rtol=1e-9)
    np.testing.assert_array_equal(result.design.rows.compute(), whole.design.rows)


@pytest.mark.parametrize("most", [3, 100])
def test_what_was_left_out_at_the_end_stays_out_when_a_part_is_cut(tmp_path: Path, most: int) -> None:
    import pandas

    table = pandas.DataFrame({"age": np.arange(23.0)})
    table.to_parquet(tmp_path / "t.parquet", row_group_size=10)
    (part,) = read_table(tmp_path / "t.parquet").parts
    for short in (part.shorter(1), part.shorter(5), next(iter(part.finer(100))).shorter(2)):
        pieces = list(short.finer(most))
        assert max(piece.rows for piece in pieces) <= most
        found = [value for piece in pieces for value in piece.read(["age"]).column("age").to_pylist()]
        assert found == short.read(["age"]).column("age").to_pylist() == list(range(short.rows))
        assert [piece.start for piece in pieces] == [
            int(piece.read(["age"]).column("age")[0].as_py()) for piece in pieces
        ]
