"""Numbers written in many ways, marks of what is missing, slips, totals and spellings: read, and said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas

from fisherleak.errors import InvalidInputError
from fisherleak.tables import Choices, Design, Room, design_of, from_frame, read_table

RNG = np.random.default_rng(0)
X = RNG.normal(1500, 700, 120).round(1)
Y = RNG.normal(size=120).round(3)


def design(cells: Any, **choices: Any) -> Design:
    frame = pandas.DataFrame({"x": np.asarray(cells, dtype=object), "z": np.arange(120.0) ** 2, "y": Y})
    return design_of(from_frame(frame), Choices("y", **choices), held_out=0.0)


def sentence(found: Design, column: str = "x") -> str:
    return next(note for note in found.notes if note.startswith(f"'{column}' is text"))


def values(found: Design, column: str = "x") -> np.ndarray[Any, Any]:
    return found.raw(next(feature for feature in found.features if feature.name == column))


STYLES = {
    "with decimal commas": lambda v: f"{v:.1f}".replace(".", ","),
    "with marks between thousands": lambda v: f"{v:,.1f}",
    "with decimal commas and with marks between thousands": lambda v: f"{v:,.1f}".translate(str.maketrans(",.", ".,")),
    "with currency signs": lambda v: f"${v:.1f}" if v >= 0 else f"-${-v:.1f}",
    "with names of currencies": lambda v: f"CHF {v:.1f}",
    "with k for thousands": lambda v: f"{v / 1000:.4f}k",
    "in percent": lambda v: f"{v:.1f}%",
    "with brackets for minus": lambda v: f"{v:.1f}" if v >= 0 else f"({-v:.1f})",
}


@pytest.mark.parametrize("style", STYLES)
def test_numbers_in_every_notation_are_those_numbers(style: str) -> None:
    found = design([STYLES[style](v) for v in X])
    np.testing.assert_allclose(values(found), X)
    assert f"written {style}" in sentence(found)
    assert "`categories=['x']`" in sentence(found)


AMOUNTS = {
    "CHF 1,234.00": lambda v: f"CHF {v:,.2f}",
    "12.5k": lambda v: f"{v / 1000:.4f}k",
    "900 EUR": lambda v: f"{v:.1f} EUR",
    "1.234,5 €": lambda v: f"{v:,.1f} €".translate(str.maketrans(",.", ".,")),
}


@pytest.mark.parametrize("style", AMOUNTS)
def test_a_target_is_read_as_columns_are(style: str) -> None:
    frame = pandas.DataFrame({"x": Y, "y": [AMOUNTS[style](v) for v in X]})
    found = design_of(from_frame(frame), Choices("y"), held_out=0.0)
    np.testing.assert_allclose(found.labels(), X)
    assert found.target.kind == "linear"
    assert sentence(found, "y")


def test_amounts_without_a_common_unit_are_no_numbers() -> None:
    cells = [f"{v:.1f} {'EUR' if k % 2 else 'USD'}" for k, v in enumerate(X)]
    assert [feature.name for feature in design(cells).features] == ["z"]
    for odd in (cells, [f"{v:.1f} kg" for v in X]):
        with pytest.raises(InvalidInputError, match="numbers with units or other signs beside them"):
            design_of(from_frame(pandas.DataFrame({"x": Y, "y": odd})), Choices("y"))


def test_digits_that_begin_with_zeros_are_codes_unless_numbers_are_asked_for() -> None:
    codes = [f"{k % 40:05d}" for k in range(120)]
    found = design(codes)
    assert next(f for f in found.features if f.name == "x").kind == "category"
    assert any("`numbers=['x']`" in note for note in found.notes if "begin with zeros" in note)
    assert values(design(codes, numbers=("x",))).max() == 39


@pytest.mark.parametrize("mark", [".", "?", "-", "*", "Unknown", " ", "n.a.", "#DIV/0!"])
def test_marks_of_missing_values_are_missing_and_counted(mark: str) -> None:
    cells = [str(v) for v in X]
    cells[3] = cells[70] = mark
    found = design(cells)
    assert [(item.column, item.count) for item in found.filled] == [("x", 2)]
    assert f"2 cells count as missing ({'blank' if mark == ' ' else repr(mark)} 2)" in sentence(found)


@pytest.mark.parametrize("mark", [".", "?", "-", "*", "Unknown", " "])
@pytest.mark.parametrize("codes", ["01", "0123", "1234567"])
def test_marks_among_few_numbers_are_missing_too(mark: str, codes: str) -> None:
    cells = [codes[k % len(codes)] for k in range(120)]
    cells[3:90:4] = [mark] * 22
    found = design(cells)
    assert next(feature for feature in found.features if feature.name == "x").kind == "number"
    assert [(item.column, item.count) for item in found.filled] == [("x", 22)]
    assert "22 cells count as missing" in sentence(found)


@pytest.mark.parametrize(
    ("classes", "mark"), [(("0", "1"), "?"), (("no", "yes"), "Unknown"), (("f", "t"), "?"), (("+", "-"), ".")]
)
def test_marks_in_a_target_are_no_class_unless_that_is_asked(classes: tuple[str, str], mark: str) -> None:
    y = np.where(np.arange(120) % 2, *classes).astype(object)
    y[:6] = mark
    raw = from_frame(pandas.DataFrame({"x": X, "y": y}))
    found = design_of(raw, Choices("y"), held_out=0.0)
    assert tuple(map(str, found.target.classes)) == tuple(sorted(classes))
    assert found.n == 114
    assert found.dropped == (("the target 'y' is missing", 6),)
    assert any(f"6 cells count as missing ({mark!r} 6)" in note for note in found.notes)
    assert mark in design_of(raw, Choices("y", categories=("y",)), held_out=0.0).target.classes


def test_words_that_may_be_classes_stay_classes() -> None:
    y = np.array(["none", "mild", "nil"] * 40, dtype=object)
    assert len(design_of(from_frame(pandas.DataFrame({"x": X, "y": y})), Choices("y")).target.classes) == 3
    signs = pandas.DataFrame({"x": X, "y": ["-", "?"] * 60})
    assert design_of(from_frame(signs), Choices("y")).target.classes == ("-", "?")
    with pytest.raises(InvalidInputError, match="`categories` names the target 'x'"):
        design_of(from_frame(signs), Choices("x", categories=("x",)))


def test_a_slip_in_a_target_is_hinted_at_without_its_text() -> None:
    y = np.where(np.arange(120) % 2, "yes", "no").astype(object)
    y[17] = "yse"
    note = design_of(from_frame(pandas.DataFrame({"x": X, "y": y})), Choices("y"), held_out=0.0).target.note
    assert "('no', 'yes' and 1 in one row each)" in note
    assert "One of them has fewer than 5 rows" in note
    assert "yse" not in note
    even = pandas.DataFrame({"x": X, "y": ["a", "b", "c"] * 40})
    assert "fewer than" not in design_of(from_frame(even), Choices("y")).target.note


def test_one_cell_counts() -> None:
    assert "1 cell counts as missing ('?' 1)." in sentence(design(["?", *(str(v) for v in X[1:])]))


def test_a_slip_is_said_by_its_row_and_kind_and_never_by_its_value() -> None:
    cells = [str(v) for v in X]
    cells[16] = "17oo.secret"
    found = design(cells)
    assert found.n == 120
    assert [(item.column, item.count) for item in found.filled] == [("x", 1)]
    assert "1 cell is no number and counts as missing (row 17: digits and letters)" in sentence(found)
    assert "secret" not in " ".join(found.notes) + repr(found)
    assert [(cell.row, cell.text) for cell in found.unread] == [(17, "17oo.secret")]


def test_codes_and_levels_stay_categories() -> None:
    """Text on purpose, few numbers with a text that recurs, and what the user says."""
    for cells in (["1", "2"] * 60, (["0", "1", "2", "3"] * 29 + ["4+"] * 4)):
        assert next(f for f in design(cells).features if f.name == "x").kind == "category"
    told = design(["1,5", "2,5"] * 60, categories=("x",))
    assert next(f for f in told.features if f.name == "x").levels == ("1,5", "2,5")


def test_the_other_columns_and_the_user_decide_what_a_comma_is() -> None:
    cells = [f"{k % 9 + 1},{100 + k}" for k in range(120)]
    thousands = values(design(cells))
    assert thousands.min() > 1000
    np.testing.assert_allclose(values(design(cells, decimal=",")), thousands / 1000)
    assert "decimal=','" in sentence(design(cells))
    frame = pandas.DataFrame({"x": cells, "z": [f"{v:.2f}".replace(".", ",") for v in X], "y": Y})
    np.testing.assert_allclose(values(design_of(from_frame(frame), Choices("y"), held_out=0.0)), thousands / 1000)
    with pytest.raises(InvalidInputError, match="decimal must be"):
        design(cells, decimal="x")


def test_what_the_user_takes_as_missing_is_missing_in_every_column() -> None:
    cells: list[Any] = [str(v) for v in X]
    cells[0] = "refused"
    frame = pandas.DataFrame({"x": cells, "z": np.where(np.arange(120) == 5, -9.0, np.arange(120.0) ** 2), "y": Y})
    found = design_of(from_frame(frame), Choices("y", na=("refused", "-9")), held_out=0.0)
    assert [(item.column, item.count) for item in found.filled] == [("x", 1), ("z", 1)]


def test_a_total_in_the_last_row_is_left_out_unless_it_is_kept(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"place": [f"p{k}" for k in range(40)], "n": np.arange(40) + 7, "y": np.arange(40.0) ** 2})
    total = pandas.DataFrame({"place": ["Total"], "n": [frame.n.sum()], "y": [frame.y.sum()]})
    pandas.concat([frame, total]).to_csv(tmp_path / "t.csv", index=False)
    found = design_of(read_table(tmp_path / "t.csv"), Choices("y"), held_out=0.0)
    assert found.n == found.rows_read == 40
    assert any("last row (41) looks like a total" in note for note in found.notes)
    assert design_of(read_table(tmp_path / "t.csv"), Choices("y", keep_total=True), held_out=0.0).n == 41
    pandas.concat([frame, total.assign(n=3, y=1.0)]).to_csv(tmp_path / "t.csv", index=False)
    assert design_of(read_table(tmp_path / "t.csv"), Choices("y"), held_out=0.0).n == 41


def test_spellings_of_a_target_are_listed_and_united_on_request() -> None:
    y = np.where(np.arange(120) % 2, "Yes", "No").astype(object)
    y[[3, 5, 7]] = "yes", "Yes ", "YES"
    frame = pandas.DataFrame({"x": X, "y": y})
    with pytest.raises(InvalidInputError, match=r"'No', 'Yes' and 3 in one row each.*`unite=\['y'\]`"):
        design_of(from_frame(frame), Choices("y"))
    assert design_of(from_frame(frame), Choices("y", unite=("y",))).target.classes == ("no", "yes")
    feature = pandas.DataFrame({"x": y, "y": Y})
    assert any("`unite=['x']`" in note for note in design_of(from_frame(feature), Choices("y")).notes)


def test_parts_are_read_alike(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"x": [f"{v:.1f}".replace(".", ",") for v in X], "z": np.arange(120.0) ** 2, "y": Y})
    frame.loc[[2, 110], "x"] = "?", "slip"
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=30)
    here = design_of(from_frame(frame), Choices("y"), held_out=0.0)
    there = design_of(read_table(tmp_path / "t.parquet"), Choices("y"), held_out=0.0)
    away = design_of(read_table(tmp_path / "t.parquet"), Choices("y"), held_out=0.0, room=Room(100))
    np.testing.assert_allclose(there.X, here.X)
    np.testing.assert_allclose(away.X.compute(), here.X)
    assert here.notes == there.notes
