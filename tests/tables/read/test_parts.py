"""Parts of tables: how they are cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("dask.dataframe")


from fisherleak.auditing.run import Settings, audit
from fisherleak.tables.read import parts
from visits import LITTLE, people


def test_parts_are_cut_so_that_their_features_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = people(1_500)
    table.to_parquet(tmp_path / "t.parquet", row_group_size=500)
    whole = audit(tmp_path / "t.parquet", Settings("ill"), noise=0.5, draws=4, attacks=False)
    monkeypatch.setattr(parts, "BLOCK_BYTES", 8 * 300 * 6)
    result = audit(tmp_path / "t.parquet", Settings("ill"), LITTLE, noise=0.5, draws=4, attacks=False)
    assert max(result.design.X.chunks[0]) <= 300
    np.testing.assert_allclose(result.eta.compute(), whole.eta, rtol=1e-9)
    np.testing.assert_array_equal(result.design.rows.compute(), whole.design.rows)
