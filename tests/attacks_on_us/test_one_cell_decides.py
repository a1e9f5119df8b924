"""One cell decides what a reader takes a row or a column for; none may decide what a card or a model says."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openpyxl")

import openpyxl

from fisherleak.errors import InvalidInputError
from fisherleak.releasing.files.released_files import save_model
from fisherleak.tables import read_table
from fisherleak.training.trained_model import Settings

N = 60


def book(path: Path, rows: list[list[Any]], merge: tuple[str, ...] = ()) -> Path:
    made = openpyxl.Workbook()
    for row in rows:
        made.active.append(row)
    for cells in merge:
        made.active.merge_cells(cells)
    made.save(path)
    return path


def patients(first: list[Any]) -> list[list[Any]]:
    """A header that lacks a name, somebody's row, and others'."""
    named = ["sex", "smoker", None, "age", "pressure"]
    cells = [["male", "female"], ["yes", "no"], ["often", "never"]]
    return [
        named,
        first,
        *([*(c[k * (j + 3) // 2 % 2] for j, c in enumerate(cells)), 20 + k, 90 + k] for k in range(N)),
    ]


@pytest.mark.parametrize("merge", [(), ("B1:C1",)], ids=["no cells merged", "cells merged beside"])
@pytest.mark.parametrize("first", [["male", "yes", "often", "refused", None], ["m", "y", "now", "refused", None]])
def test_a_row_of_words_never_becomes_names(first: list[Any], merge: tuple[str, ...], tmp_path: Path) -> None:
    path = book(tmp_path / "t.xlsx", patients(first), merge)
    try:
        names = read_table(path).names
    except InvalidInputError as refusal:
        said = str(refusal)
        assert "`header=True`" in said
    else:
        said = " ".join(names)
        assert names[:2] == ("sex", "smoker")
    assert not re.search("male|often|refused|now", said)


def rows_of(cell: Any, column: int) -> list[list[Any]]:
    """Age, a grade, a flag and a dose of some people, the eighth of whom has another cell."""
    rng = np.random.default_rng(3)
    rows: list[list[Any]] = [
        [
            round(float(rng.normal(50, 10)), 1),
            int(1 + rng.integers(3)),
            int(rng.integers(2)),
            round(float(rng.normal()), 3),
        ]
        for _ in range(N)
    ]
    rows[7][column] = cell
    return [["age", "grade", "flag", "dose"], *rows]


def written(path: Path, rows: list[list[Any]]) -> Path:
    if path.suffix == ".xlsx":
        return book(path, rows)
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    return path


def said_of(path: Path, settings: Settings) -> str:
    """What a card says of levels and classes."""
    card, _ = save_model(
        read_table(path), settings, path.with_suffix(".skops"), noise=1.0, random_state=0, overwrite=True
    )
    return json.dumps([[column.get("levels") for column in card["columns"]], card["target"]["classes"]])


AGES = ("age", (0.0, 120.0))
DOSES = ("dose", (-10.0, 10.0))
GRADES, FLAGS = ("grade", ("1", "2", "3")), ("flag", ("0", "1"))
TAKEN: dict[str, tuple[Settings, int]] = {
    "levels declared": (
        Settings("dose", categories=("grade", "flag"), levels=(GRADES, FLAGS), bounds=(AGES, DOSES)),
        1,
    ),
    "other levels declared": (
        Settings("dose", categories=("grade", "flag"), levels=(GRADES, FLAGS), bounds=(AGES, DOSES)),
        2,
    ),
    "levels not declared": (Settings("dose", categories=("grade", "flag"), bounds=(AGES, DOSES)), 2),
    "classes": (
        Settings("flag", model="logistic", numbers=("age", "dose"), categories=("grade",), bounds=(AGES, DOSES)),
        2,
    ),
}
CELLS: dict[str, tuple[str, Any]] = {
    "a no-break space": (".csv", "1\u00a0"),
    "a digit of full width": (".csv", "\uff11"),
    "an Arabic digit": (".csv", "\u0661"),
    "true": (".csv", "TRUE"),
    "a number stored as text": (".xlsx", "1"),
    "another stored as text": (".xlsx", "1.0"),
    "with a zero": (".xlsx", "01"),
    "a true cell": (".xlsx", True),
    "a word": (".csv", "one"),
}


@functools.cache
def said_of_numbers(taken: str, suffix: str) -> str:
    """What is said of the same table without an odd cell."""
    settings, column = TAKEN[taken]
    with TemporaryDirectory() as folder:
        return said_of(written(Path(folder) / f"own{suffix}", rows_of(1, column)), settings)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("taken", TAKEN)
def test_types_of_levels_and_classes_are_those_of_all_other_cells(taken: str, cell: str, tmp_path: Path) -> None:
    (settings, column), (suffix, value) = TAKEN[taken], CELLS[cell]
    own = said_of_numbers(taken, suffix)
    other = written(tmp_path / f"other{suffix}", rows_of(value, column))
    try:
        found = said_of(other, settings)
    except InvalidInputError as refusal:
        found = str(refusal)
    assert found == own or ("holds numbers, and text in too few" in found and str(value) not in found)


@pytest.mark.parametrize("levels", [("0", "1"), ("0",), ("false", "true")])
def test_levels_of_true_and_false_have_the_type_that_was_declared(levels: tuple[str, ...], tmp_path: Path) -> None:
    rows = rows_of(1, 2)
    words = [rows[0], *([*row[:2], str(bool(row[2])).upper(), row[3]] for row in rows[1:])]
    settings = Settings("dose", levels=(("flag", levels),), rare=5)
    found = json.loads(said_of(written(tmp_path / "t.csv", words), settings))[0]
    assert found[-1] == ([False, True] if "true" in levels else [0, 1])
    assert {type(level) for level in found[-1]} == {bool if "true" in levels else int}


def test_true_and_false_that_are_text_for_a_cell_are_refused_or_themselves(tmp_path: Path) -> None:
    rows = rows_of(1, 2)
    words = [rows[0], *([*row[:2], str(bool(row[2])).upper(), row[3]] for row in rows[1:])]
    settings = Settings("flag", model="logistic", numbers=("age", "dose"), bounds=(AGES, DOSES))
    classes = json.loads(said_of(written(tmp_path / "t.csv", words), settings))[1]
    words[8][2] = "?"
    assert json.loads(said_of(written(tmp_path / "t.csv", words), settings))[1] == classes == [False, True]
    words[8][2] = "yes"
    with pytest.raises(InvalidInputError, match="too few rows"):
        said_of(written(tmp_path / "t.csv", words), Settings("dose", categories=("flag",)))


@pytest.mark.parametrize(
    ("digits", "cell", "levels"), [("0", "3", ("01", "02", "03")), ("1", "03", ("11", "12", "13"))]
)
def test_a_cell_that_makes_numbers_of_codes_or_codes_of_numbers_is_refused(
    digits: str, cell: str, levels: tuple[str, ...], tmp_path: Path
) -> None:
    """Levels are declared: with all cells alike they are codes, or numbers."""
    rows = rows_of(1, 1)
    rows = [rows[0], *([row[0], f"{digits}{row[1]}", *row[2:]] for row in rows[1:])]
    settings = Settings("dose", categories=("grade",), levels=(("grade", levels),), bounds=(AGES, DOSES))
    own = json.loads(said_of(written(tmp_path / "t.csv", rows), settings))[0]
    assert [*levels] == [str(level) for found in own if found and len(found) == 3 for level in found]
    rows[8][1] = cell
    with pytest.raises(InvalidInputError, match=r"name numbers|holds numbers, and text in too few"):
        said_of(written(tmp_path / "t.csv", rows), settings)
