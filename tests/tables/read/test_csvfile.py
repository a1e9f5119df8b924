"""CSV files larger than memory: the types that the whole file has."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("dask.dataframe")


from fisherleak.auditing.run import audit
from fisherleak.errors import InvalidInputError
from fisherleak.tables import read_table
from fisherleak.tables.decide.choices import sort_of
from fisherleak.tables.read import csvfile, parts
from fisherleak.training.trained_model import Settings
from visits import LITTLE, people


@pytest.mark.parametrize("text", [",\n", '"",""\n', ";;\n"])
def test_names_that_are_all_empty_are_no_table(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError, match="has a header and no rows"):
        audit(tmp_path / "t.csv", Settings(""))


@pytest.mark.long
def test_a_large_csv_file_becomes_a_temporary_parquet_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Types that the first block suggests are widened when later rows ask for it."""
    monkeypatch.setattr(csvfile, "BLOCK", 20_000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    table = people(2_000)
    late = np.arange(2_000) > 1_500
    table["score"] = np.where(late, "0.5", "1")
    table["level"] = np.where(late, "high", "2")
    table["empty"] = np.where(late, "7", "")
    table["when"] = np.where(late, "later", "2020-01-01")
    table["flag"] = np.where(late, "maybe", "true")
    table.to_csv(tmp_path / "t.csv", index=True)
    here, away = read_table(tmp_path / "t.csv"), read_table(tmp_path / "t.csv", memory=1_000)
    assert away.names == here.names
    found = {name: str(away.kind(name)) for name in ("score", "level", "empty", "when", "flag", "age")}
    assert found == {"score": "double", "level": "string", "empty": "int64"} | {
        "when": "string",
        "flag": "string",
        "age": "double",
    }
    assert away.notes == here.notes
    assert away.sha256 == here.sha256
    assert isinstance(away.parts[0], parts.FilePart)
    settings = Settings("ill", id="person", drop=("empty",))
    one = audit(here, settings, noise=0.5, draws=4, attacks=False)
    two = audit(away, settings, LITTLE, noise=0.5, draws=4, attacks=False)
    np.testing.assert_allclose(two.eta.compute(), one.eta, rtol=1e-9)
    assert list((tmp_path / "temporary").iterdir())
    del away, two
    gc.collect()
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("", "2020-01-{:02d}"),
        ("2020-01-01", "2020-01-{:02d} 10:00:00"),
        ("{:d}", "true"),
        ("", "true"),
        ("", "{:d}"),
        ("{:d}", "{:d}.5"),
        ("2020-01-01", "never"),
        ("12:00:00", "soon"),
        ("true", "2"),
    ],
)
def test_types_are_those_that_the_whole_file_has(
    first: str, then: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csvfile, "BLOCK", 2**14)
    fields = [
        (first if k < 2_000 else then).format(k % 2 if "d}" in first and k < 2_000 else k % 28 + 1)
        for k in range(3_000)
    ]
    lines = "".join(f"{k % 97}.5,{field},{k % 89}\n" for k, field in enumerate(fields))
    (tmp_path / "t.csv").write_text(f"x,t,y\n{lines}")
    away = read_table(tmp_path / "t.csv", memory=1_000)
    assert isinstance(away.parts[0], parts.FilePart)
    assert [sort_of(kind) for kind in away.kinds] == [sort_of(kind) for kind in read_table(tmp_path / "t.csv").kinds]
