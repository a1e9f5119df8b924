"""First lines: names of columns, or somebody's row."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

from fisherleak.cli import main
from fisherleak.errors import InvalidInputError
from fisherleak.tables import read_table
from fisherleak.tables.headings import given_names, reads_as_row

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


def test_each_cell_counts_however_often_its_text_stands_there() -> None:
    """Nine cells of ten are numbers, of two texts one."""
    assert reads_as_row(["7"], [["1"]] * 9 + [["x"]]) == 1
    assert reads_as_row(["sex"], [["m"], ["f"]] * 10) == -1
    assert reads_as_row(["name"], [[f"n{i}"] for i in range(20)]) == 0
