"""Headers below titles, comments and ``sep=;``, above rows of types; rows that end in a delimiter; no column is shifted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

from fisherleak.errors import InvalidInputError
from fisherleak.tables import RawTable, read_table
from fisherleak.tables.read.header import header_of

ROWS = [[str(20 + 7 * k % 60), "rome" if k % 3 else "oslo", f"{k * k % 17}.5"] for k in range(30)]
NAMES = ["age", "town", "y"]


def text(rows: list[list[str]], mark: str = ",") -> str:
    return "".join(mark.join(row) + "\n" for row in rows)


PLAIN = text([NAMES, *ROWS])


def read(tmp_path: Path, content: str, **given: Any) -> RawTable:
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode(str(given.get("encoding", "utf-8"))))
    return read_table(path, **given)


def cells(raw: RawTable) -> dict[str, list[object]]:
    return {name: raw.parts[0].read([name]).column(0).to_pylist() for name in raw.names}


FORMS = {
    "a trailing delimiter": (text([NAMES, *([*row, ""] for row in ROWS)]), "end in a delimiter"),
    "tabs at the end": (text([NAMES, *([*row, ""] for row in ROWS)], "\t"), "end in a delimiter"),
    "sep=": ("sep=;\n" + PLAIN.replace(",", ";"), "names the delimiter"),
    "sep= in quotes": ('\ufeff"sep=|"\r\n' + PLAIN.replace(",", "|"), "names the delimiter"),
    "comments": ("# of the clinic, 2020\n# by hand\n\n" + PLAIN, "2 lines above the header"),
    "a commented header": ("# of the clinic\n#" + PLAIN, "1 line above the header"),
    "a title": ("Table 1: visits\n\n" + PLAIN, "1 line above the header of t.csv is taken as a title"),
    "titles": (
        "Visits, all\nExported 2020-01-01\n" + PLAIN.replace(",", ";"),
        "2 lines above the header of t.csv are taken",
    ),
    "titles with delimiters": ("Visits,,\n,,\n" + PLAIN, "1 line above the header"),
    "types and flags": (
        text([NAMES, ["continuous", "discrete", "c"], ["", "", "class"], *ROWS]),
        "types, units or flags",
    ),
    "types in letters": (text([NAMES, ["c", "d", "c"], *ROWS], "\t"), "types, units or flags"),
    "units": (text([NAMES, ["years", "", "mmol/l"], *ROWS]), "types, units or flags"),
    "a survey tool": (
        text(
            [NAMES, ["How old?", "Where?", "How much?"], *([[f'"{{""ImportId"":""Q{k}""}}"' for k in range(3)]]), *ROWS]
        ),
        "types, units or flags",
    ),
    "tabs in the header above blanks": (PLAIN.replace(",", " ").replace("age town y", "age\ttown\ty"), "by blanks"),
    "a tab in the header above blanks": (PLAIN.replace(",", " ").replace("age town y", "age\ttown y"), "by blanks"),
    "blanks and tabs in the header": (
        PLAIN.replace(",", "\t").replace("age\ttown\ty", "age town\ty"),
        "blanks and tabs",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_no_row_decides_where_a_usual_header_is(form: str, tmp_path: Path) -> None:
    assert not read(tmp_path, FORMS[form][0]).header_by_one_row


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("large", [False, True])
def test_the_same_table_is_read_and_what_is_left_out_is_said(form: str, large: bool, tmp_path: Path) -> None:
    content, said = FORMS[form]
    raw = read(tmp_path, content, memory=10 if large else None)
    plain = read(tmp_path, PLAIN)
    assert raw.names == plain.names == tuple(NAMES)
    assert cells(raw) == cells(plain)
    assert any(said in note for note in raw.notes)
    (tmp_path / "t.csv").write_text(content, encoding="utf-8")
    if "blanks" not in form or form.startswith("tabs"):
        assert header_of(str(tmp_path / "t.csv")) == tuple(NAMES)


def test_other_encodings_below_a_title(tmp_path: Path) -> None:
    for encoding in ("utf-16", "latin-1"):
        raw = read(tmp_path, "Zürich\n" + PLAIN.replace("oslo", "Örebro"), encoding=encoding)
        assert "Örebro" in cells(raw)["town"]


def test_a_header_that_is_said_to_be_the_first_line_is(tmp_path: Path) -> None:
    raw = read(tmp_path, text([NAMES, ["c", "d", "c"], *ROWS]), header=True)
    assert (raw.rows, raw.notes) == (31, ())
    with pytest.raises(InvalidInputError, match="has 2 names where its rows have 1 field,"):
        read(tmp_path, "One title, two\n" + PLAIN.replace(",", ";"), header=True)


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        text([NAMES, ["", "oslo", ""], *ROWS]),  # someone who lacks two numbers
        text([NAMES, ["refused", "oslo", "1.5"], *ROWS]),
        text([NAMES, ["c", "d", "c"], *([row[1], row[1], row[1]] for row in ROWS), ["c", "d", "c"]]),  # grades
        text([["grade", "set", "y"], ["c", "d", "pass"], *([row[1], row[1], row[1]] for row in ROWS)]),
        text([["", "", "y"], *ROWS]),
    ],
)
def test_people_stay(content: str, tmp_path: Path) -> None:
    raw = read(tmp_path, content)
    assert raw.rows == content.count("\n") - 1
    assert not any("left out" in note for note in raw.notes)


def test_a_number_of_fields_that_nothing_explains_is_refused(tmp_path: Path) -> None:
    some = [[*row, "" if k % 2 else "x"] for k, row in enumerate(ROWS)]
    with pytest.raises(
        InvalidInputError, match=r"has 3 names where its rows have 4 fields.*`columns` and `header=True`"
    ):
        read(tmp_path, text([NAMES, *some]))
    named = read(tmp_path, text([NAMES, *some]), columns=["a", "b", "c", "d"], header=True)
    assert (named.names, named.rows) == (("a", "b", "c", "d"), 30)
    with pytest.raises(InvalidInputError, match="has 3 names where its rows have 5 fields"):
        read(tmp_path, text([NAMES, *([*row, "", ""] for row in ROWS)]))
    unsure = text([["shoe size", "age"], *([str(k), *row[1:]] for k, row in enumerate(ROWS))], "\t")
    with pytest.raises(InvalidInputError, match="may be separated by blanks"):
        read(tmp_path, unsure)


@pytest.mark.parametrize("large", [False, True])
def test_a_field_behind_the_last_delimiter_that_is_filled_late_is_refused(large: bool, tmp_path: Path) -> None:
    rows = [[*row, ""] for row in ROWS] * 3_000 + [["30", "oslo", "1.5", "someone"]]
    with pytest.raises(InvalidInputError, match="one field more than its header has names") as refusal:
        read(tmp_path, text([NAMES, *rows]), memory=10 if large else None)
    assert "someone" not in str(refusal.value)


def test_other_tools_files_are_called_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="is an ARFF file"):
        read(tmp_path, "% of Weka\n@relation iris\n@attribute a real\n@data\n1,2\n")


def test_comments_with_a_percent_sign_are_no_arff_file(tmp_path: Path) -> None:
    raw = read(tmp_path, "% of the clinic\n" + PLAIN)
    assert (raw.names, raw.rows) == (tuple(NAMES), 30)
    with pytest.raises(InvalidInputError, match="is an ARFF file"):
        read(tmp_path, "% of Weka\n%\n% by hand\n@relation iris\n@attribute a real\n@data\n1,2\n")


def test_lines_are_counted_from_the_top_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="in line 34 where"):
        read(tmp_path, "# one\n# two\n" + PLAIN + "1,oslo\n")


def test_digits_that_begin_with_zeros_stay_text(tmp_path: Path) -> None:
    rows = [[f"{k * 37:05d}", f"{k + 1:02d}" if k < 12 else "NA", f"{k}.5", str(k)] for k in range(40)]
    raw = read(tmp_path, text([["code", "month", "x", "y"], *rows]))
    found = cells(raw)
    assert found["code"][1] == "00037"
    assert found["month"][:2] == ["01", "02"]
    assert found["x"][1] == 1.5
    assert found["y"][1] == 1
