"""First lines: names of columns, or somebody's row."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

from fisherleak.cli import main
from fisherleak.errors import InvalidInputError
from fisherleak.tables import read_table
from fisherleak.tables.read.first_line import given_names, reads_as_row

ROWS = [[str(20 + 7 * i % 31), ["State-gov", "Private"][i % 2], f"{i * 0.37:.2f}", "yn"[i % 3 == 0]] for i in range(40)]
NAMES = ["age", "work", "score", "sick"]


def text(names: list[str] | None, mark: str = ", ") -> str:
    return "".join(mark.join(row) + "\n" for row in ([] if names is None else [names]) + ROWS)


@pytest.mark.parametrize(
    ("names", "row"),
    [
        (NAMES, False),
        (ROWS[3], True),
        ([" 41", " State-gov", "0.11", "y"], True),
        (["0", "1", "2", "3"], False),
        (["1", "Private", "", "n"], True),
        (["yes", "no", "maybe", "y"], False),
    ],
)
def test_the_majority_of_names_decides(names: list[str], row: bool) -> None:
    assert (reads_as_row(names, ROWS) > 0) == row


def test_years_and_places_as_names_tell_nothing() -> None:
    wide = [[f"land {i}", str(i), str(2 * i), str(3 * i)] for i in range(30)]
    assert reads_as_row(["land", "1990", "1995", "2001"], wide) <= 0
    assert reads_as_row(["land", "0.5", "17.25", "3"], wide) > 0


def test_an_empty_first_field_above_row_names_is_a_header() -> None:
    counts = [[f"r{i}", str(i), str(2 * i)] for i in range(30)]
    assert reads_as_row(["", "142.24", "144.78"], counts) < 0
    assert reads_as_row(["", "142.24", "144.78"], [["", *row[1:]] for row in counts]) > 0


def test_a_file_without_a_header_is_refused_without_a_word_of_its_first_row(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text(None))
    with pytest.raises(InvalidInputError, match="seems to have no header") as refusal:
        read_table(tmp_path / "t.csv")
    assert not any(value in str(refusal.value).split() for value in ROWS[0])
    assert read_table(tmp_path / "t.csv", header=False).names == tuple(f"column {j}" for j in range(1, 5))
    named = read_table(tmp_path / "t.csv", columns=NAMES)
    assert (named.names, named.rows) == (tuple(NAMES), 40)
    assert read_table(tmp_path / "t.csv", header=True).rows == 39
    assert read_table(tmp_path / "t.csv", memory=100, columns=NAMES).rows == 40


def test_names_take_the_place_of_a_header_only_if_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\n\n" + text(NAMES))
    new = ["a", "b", "c", "d"]
    with pytest.raises(InvalidInputError, match="looks like a header"):
        read_table(tmp_path / "t.csv", columns=new)
    renamed = read_table(tmp_path / "t.csv", columns=new, header=True)
    assert (renamed.names, renamed.rows) == (tuple(new), 40)
    with pytest.raises(InvalidInputError, match="gives 2 names"):
        read_table(tmp_path / "t.csv", columns=["a", "b"])


@pytest.mark.long
def test_names_are_given_on_the_line_or_in_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert given_names("a, b c ,d") == given_names("a\nb c\nd\n") == ("a", "b c", "d")
    (tmp_path / "t.csv").write_text(text(None))
    (tmp_path / "names").write_text("\n".join(NAMES))
    command = ["audit", str(tmp_path / "t.csv"), "--target", "sick", "--no-attacks", "--draws", "2", "--quiet"]
    assert main([*command, "--columns", str(tmp_path / "names")]) == 0
    assert main([*command, "--columns", ",".join(NAMES)]) == 0
    assert (
        main(["audit", str(tmp_path / "t.csv"), "--target", "column 4", "--no-header", "--quiet", "--draws", "2"]) == 0
    )
    capfd.readouterr()
    assert main(command) == 2
    assert "--columns, or read it with --no-header; --header" in capfd.readouterr().err


STAFF = [
    [
        ["Anna", "Ben", "Cid", "Dora"][i % 4],
        ["nurse", "cook", "clerk"][i % 3],
        str(20 + 7 * i % 60),
        ["yes", "no"][i % 2],
    ]
    for i in range(60)
]
NEW = [[f"Na{i}", f"Street {i * 7}", str(20 + 7 * i % 60), str(i % 2)] for i in range(60)]
LIKERT = [[str(1 + i % 5), str(1 + i % 4), str(1 + i % 3)] for i in range(60)]
KILOS = [[f"{50 + i % 37}.5 kg", f"{1 + i % 27}.4.20{10 + i % 9}", f"na{i}"] for i in range(60)]


@pytest.mark.parametrize(
    ("first", "below"),
    [
        (["Zacharias", "astronaut", "77", "yes"], STAFF),
        (["Zacharias", "astronaut", "", "yes"], STAFF),
        (["Zacharias", "astronaut", "Unknown", "yes"], STAFF),
        (["Zacharias", "astronaut", "77", "maybe"], STAFF),
        (["Zacharias", "astronaut", "NA", "yes"], STAFF),
        (["Zacharias", "astronaut", "yes"], [[row[0], row[1], row[3]] for row in STAFF]),
        (["Braund", "Mill Road", "28", "0"], NEW),
        (["Braund", "Mill Road", "0", "1"], NEW),
        (["1", "2", "3"], LIKERT),
        (["61.5 kg", "3.4.2010", "Zacharias"], KILOS),
        (["Anna", "1984", "2003"], [[f"n{i}", str(1950 + i), str(1970 + i)] for i in range(40)]),
    ],
)
def test_an_unusual_first_person_is_no_header(first: list[str], below: list[list[str]]) -> None:
    assert reads_as_row(first, below) > 0


def test_numbers_that_count_on_are_names() -> None:
    wide = [[f"land {i}", str(i % 9), str(9 * i % 17), str(5 * i % 13), str(i % 2)] for i in range(40)]
    for years in (["1990", "1991", "1992", "1993"], ["1990", "1995", "2001", "2020"], ["0", "1", "2", "3"]):
        assert reads_as_row(["land", *years], wide) <= 0
    assert reads_as_row(["land", "2019", "2020"], [row[:3] for row in wide]) <= 0
    assert reads_as_row(["id", "2020"], [row[1:3] for row in wide]) < 0
    assert reads_as_row(["age", "0", "1"], [[str(20 + i), str(i % 2), str(1 - i % 2)] for i in range(40)]) < 0
    waves = [[str(17 * i % 23), *(str((7 * k * k + i * (k + 2)) % 11) for k in range(8))] for i in range(40)]
    assert reads_as_row(["y", *(str(400.5 + k**1.1)[:6] for k in range(8))], waves) < 0


def test_rows_that_ascend_are_no_names() -> None:
    sums = [[str(i + k * (i % 3 + 1.5)) for k in range(8)] for i in range(40)]
    assert reads_as_row([str(7.5 + k**1.1)[:6] for k in range(8)], sums) > 0


def test_a_workbook_without_names_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    import pandas

    rows = [["Zacharias", "astronaut", "77", "yes"], *STAFF]
    pandas.DataFrame(rows).to_excel(tmp_path / "t.xlsx", index=False, header=False)
    with pytest.raises(InvalidInputError, match="seems to have no header") as refusal:
        read_table(tmp_path / "t.xlsx")
    assert "Zacharias" not in str(refusal.value)
    assert read_table(tmp_path / "t.xlsx", header=True).rows == 60
    named = read_table(tmp_path / "t.xlsx", header=False)
    assert (named.names[0], named.rows) == ("column 1", 61)


def test_each_cell_counts_however_often_its_text_stands_there() -> None:
    """Nine cells of ten are numbers, of two texts one."""
    assert reads_as_row(["7"], [["1"]] * 9 + [["x"]]) == 1
    assert reads_as_row(["sex"], [["m"], ["f"]] * 10) == -1
    assert reads_as_row(["name"], [[f"n{i}"] for i in range(20)]) == 0
