"""Tables from files and frames: names, fields, checksums."""

from __future__ import annotations

import gzip
import hashlib
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas
import pyarrow as pa

from fisherleak.errors import DataError, InvalidInputError
from fisherleak.tables import example_table, from_frame, read_table
from fisherleak.tables.read.arrow_columns import as_codes
from tables.small import kinds


def test_unnamed_columns_get_a_name(tmp_path: Path) -> None:
    pandas.DataFrame({"x": np.arange(9.0), "y": np.arange(9.0)}).to_csv(tmp_path / "t.csv")
    raw = read_table(tmp_path / "t.csv")
    assert raw.names == ("column 1", "x", "y")
    assert raw.notes == ("Column 1 has no name and is called 'column 1'.",)
    assert kinds(raw)["column 1"] == "ignored"


def test_the_checksum_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,2\n3,4\n")
    assert read_table(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert example_table().sha256 == example_table().sha256
    assert from_frame(pa.table({"x": [1]})).sha256 != from_frame(pa.table({"x": [2]})).sha256


def test_frames_of_every_library() -> None:
    polars = pytest.importorskip("polars")
    table = {"x": [1.0, 2.0], "y": ["a", "b"]}
    for frame in (pandas.DataFrame(table), polars.DataFrame(table), pa.table(table)):
        assert from_frame(frame).names == ("x", "y")
    with pytest.raises(InvalidInputError, match="a table cannot be read: "):
        from_frame(3)


def test_fields_may_hold_delimiters_quotes_and_line_breaks(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"city, state": ['a "b"\nc', "d;e"] * 20, "y": np.arange(40.0)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    raw = read_table(tmp_path / "t.csv")
    assert raw.names == ("city, state", "y")
    assert as_codes(raw.parts[0].read(["city, state"]).column(0)).levels == ('a "b"\nc', "d;e")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device here")
def test_a_device_without_an_end_is_no_table() -> None:
    with pytest.raises(DataError, match="'/dev/zero' is a device"):
        read_table("/dev/zero")


@pytest.mark.parametrize("packed", [b"\0" * 2**22, b"a,b\n" * 2**20], ids=["zeros", "lines"])
def test_what_is_unpacked_is_a_table_that_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bytes) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2**24 if packed[:1] == b"\0" else 2**22))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(packed))
    with pytest.raises(DataError, match="begins with zeros only" if packed[:1] == b"\0" else "is too long"):
        read_table(tmp_path / "t.csv.gz")
