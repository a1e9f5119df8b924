"""Workbooks with blank cells, slips, dates, merged headers and several sheets: read as CSV files are, or refused by name."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openpyxl")
pytest.importorskip("pyarrow")

import openpyxl

from fisherleak.cli import main
from fisherleak.cli.commands.audit import command_around
from fisherleak.errors import InvalidInputError
from fisherleak.tables import Choices, Design, design_of, read_table
from fisherleak.training.trained_model import Settings

ROWS: list[list[Any]] = [[20 + 7 * k % 50, "Rome" if k % 3 else "Oslo", k % 11 + 0.5] for k in range(40)]
NAMES = ["age", "town", "y"]


def write(path: Path, *sheets: list[list[Any]], merge: tuple[str, ...] = ()) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for k, rows in enumerate(sheets):
        sheet = book.create_sheet(f"sheet {k + 1}")
        for row in rows:
            sheet.append(row)
        for cells in merge:
            sheet.merge_cells(cells)
    book.save(path)
    return path


def read(path: Path, **given: Any) -> Design:
    return design_of(read_table(path, **given), Choices("y"), held_out=0.0)


def test_a_plain_workbook(tmp_path: Path) -> None:
    raw = read_table(write(tmp_path / "t.xlsx", [NAMES, *ROWS]))
    assert (raw.names, raw.rows, raw.notes) == (tuple(NAMES), 40, ())
    assert [str(kind) for kind in raw.kinds][0::2] == ["int64", "double"]
    np.testing.assert_allclose(read(tmp_path / "t.xlsx").labels(), [row[2] for row in ROWS])


def test_blank_cells_are_missing_and_blank_rows_and_columns_are_none(tmp_path: Path) -> None:
    rows: list[list[Any]] = [[*row[:2], None, row[2]] for row in ROWS]
    rows[3][0] = rows[7][0] = rows[5][1] = None
    found = read(write(tmp_path / "t.xlsx", [[*NAMES[:2], None, "y"], *rows[:20], [None] * 4, *rows[20:]]))
    assert found.rows_read == 40
    assert [(item.column, item.count) for item in found.filled] == [("age", 2), ("town", 1)]


def test_one_text_among_numbers_is_read_as_in_a_csv_file_and_never_shown(tmp_path: Path) -> None:
    rows = [list(row) for row in ROWS]
    rows[16][0] = "secret"
    found = read(write(tmp_path / "t.xlsx", [NAMES, *rows]))
    assert found.features[0].kind == "number"
    assert any("1 cell is no number and counts as missing (row 17: text)" in note for note in found.notes)
    assert "secret" not in " ".join(found.notes)


def test_dates_are_dates_and_true_is_true(tmp_path: Path) -> None:
    start = datetime.datetime(2020, 1, 1)
    rows = [[start + datetime.timedelta(k), bool(k % 2), *row] for k, row in enumerate(ROWS)]
    rows[2][0] = None
    found = {
        column.name: column for column in read(write(tmp_path / "t.xlsx", [["day", "ill", *NAMES], *rows])).columns
    }
    assert "timestamp" in found["day"].note
    assert found["ill"].kind == "category"


def test_titles_and_rows_of_units_are_nobodys(tmp_path: Path) -> None:
    rows: list[list[Any]] = [["Visits of 2020"], [], NAMES, ["years", None, "mmol"], *ROWS]
    raw = read_table(write(tmp_path / "t.xlsx", rows))
    assert (raw.names, raw.rows) == (tuple(NAMES), 40)
    assert any("taken as a title" in note for note in raw.notes)
    assert any("types, units or flags" in note for note in raw.notes)


def test_merged_headers_give_names_of_both_rows(tmp_path: Path) -> None:
    rows = [
        ["age", "blood", None, "y"],
        [None, "low", "high", None],
        *([*row[:1], k % 7, k % 5, row[2]] for k, row in enumerate(ROWS)),
    ]
    raw = read_table(write(tmp_path / "t.xlsx", rows, merge=("A1:A2", "B1:C1", "D1:D2")))
    assert (raw.names, raw.rows) == (("age", "blood low", "blood high", "y"), 40)
    assert any("has two rows" in note for note in raw.notes)


COVERS: dict[str, list[list[Any]]] = {
    "a cover": [["Study of visits"], ["by hand"]],
    "an empty sheet": [],
    "another table": [["who", "what"], ["Anna", "editor"], ["Ben", "author"], ["Cem", "author"]],
}


@pytest.mark.parametrize("cover", COVERS)
def test_a_refusal_lists_the_other_sheets_and_one_can_be_named(cover: str, tmp_path: Path) -> None:
    path = write(tmp_path / "t.xlsx", COVERS[cover], [NAMES, *ROWS], [["code"], [1]])
    with pytest.raises(InvalidInputError, match=r"`sheet` names another.*: 'sheet 2', 'sheet 3'\.") as refusal:
        read(path)
    assert "Anna" not in str(refusal.value)
    assert "by hand" not in str(refusal.value)
    for given in ("sheet 2", "2"):
        assert read(path, sheet=given).rows_read == 40
    with pytest.raises(
        InvalidInputError, match=r"`sheet` is 'sheet 9', and t.xlsx has the sheets 'sheet 1', 'sheet 2'"
    ):
        read_table(path, sheet="sheet 9")
    with pytest.raises(InvalidInputError, match="holds no table"):
        read_table(path, sheet="3")


def test_the_first_of_several_sheets_is_said(tmp_path: Path) -> None:
    raw = read_table(write(tmp_path / "t.xlsx", [NAMES, *ROWS], [["x"], [1]]))
    assert raw.notes == ("Of the 2 sheets of t.xlsx the first, 'sheet 1', is read. `sheet` names another: 'sheet 2'.",)


def test_the_same_name_twice_is_refused_and_not_renamed(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="has the column 'age' more than once"):
        read_table(write(tmp_path / "t.xlsx", [["age", "age", "y"], *ROWS]))


def test_a_sheet_of_what_has_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,2\n2,3\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"`sheet` is '2', and t.csv is neither a workbook nor a file of R"):
        read_table(tmp_path / "t.csv", sheet="2")


def test_the_command_line_names_a_sheet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "t.xlsx", COVERS["a cover"], [NAMES, *ROWS])
    command = ["audit", str(path), "--target", "y", "--no-attacks", "--draws", "2"]
    assert main(command) == 2
    assert "--sheet names another sheet: 'sheet 2'" in capsys.readouterr().err
    assert main([*command, "--sheet", "sheet 2"]) == 0
    around = command_around(str(path), Settings("y"), {"sheet": "sheet 2"})
    assert around is not None
    assert "--sheet 'sheet 2' --noise" in around[0]
