"""One row decides which line names the columns, or which columns there are: the gate refuses, or no row decides it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks_on_us.under_policy import judged
from fisherleak.errors import InvalidInputError
from fisherleak.tables import RawTable, read_table
from fisherleak.tables.read import csvfile
from fisherleak.tables.read.first_line import reads_as_row, row_evidence

pytestmark = pytest.mark.usefixtures("quick_audits")

RNG = np.random.default_rng(1)
MEMBERS = "[membership]\nmax_right = 0.999\n"
OPTIONS = ("--noise", "50", "--held-out", "0", "--no-attacks", "--draws", "2", "--l2", "1")
REFUSED = "decide how the header of"
Rows = list[list[str]]
Gate = Callable[..., tuple[int, str]]


@pytest.fixture
def gated(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Audits rows below names under a policy: the exit status, and what was said on standard error."""
    monkeypatch.chdir(tmp_path)

    def gate(text: str, *options: str, target: str = "y", ending: str = "csv") -> tuple[int, str]:
        Path(f"t.{ending}").write_text(text, encoding="utf-8")
        Path("policy.toml").write_text(MEMBERS, encoding="utf-8")
        status, err, _ = judged(capsys, "--target", target, *OPTIONS, *options, table=f"t.{ending}")
        return status, " ".join(err.split())

    return gate


def csv_of(names: Sequence[str], rows: Rows) -> str:
    return "".join(",".join(row) + "\n" for row in [names, *rows])


def bounds(*names: str) -> list[str]:
    return [word for name in names for word in ("--bounds", f"{name}=-5:5")]


def number() -> str:
    return f"{np.clip(RNG.normal(), -4, 4):.3f}"


def read(tmp_path: Path, text: str, **given: Any) -> RawTable:
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    return read_table(tmp_path / "t.csv", **given)


ENDED: Rows = [[f"p{k}", number(), number(), number(), ""] for k in range(40)]
STRAY = [[*row[:4], "x" if k == 7 else ""] for k, row in enumerate(ENDED)]


def test_a_cell_behind_the_last_delimiter_renames_all_columns(tmp_path: Path, gated: Gate) -> None:
    names = ["k", "a", "c", "y"]
    assert read(tmp_path, csv_of(names, STRAY)).names[0] == "rownames"
    assert read(tmp_path, csv_of(names, ENDED)).names == tuple(names)
    status, err = gated(csv_of(names, STRAY), *bounds("a", "c"), target="c")
    assert status == 2
    assert REFUSED in err
    assert gated(csv_of(["id", "k", "a", "c", "y"], STRAY), *bounds("k", "a", "c"), "--header", target="c")[0] == 0
    assert gated(csv_of(names, ENDED), *bounds("a", "c", "y"))[0] == 0


def test_names_that_are_given_are_decided_by_that_cell_too(tmp_path: Path) -> None:
    own = ["id", "k", "a", "c", "y"]
    assert read(tmp_path, csv_of(own[1:], STRAY), header=True, columns=own).header_by_one_row
    with pytest.raises(InvalidInputError, match="gives 5 names"):
        read(tmp_path, csv_of(own[1:], ENDED), header=True, columns=own)


UNITS: Rows = [[number(), number(), "ny"[k % 2]] for k in range(46)]


def test_words_in_the_second_row_are_units_without_the_first(tmp_path: Path, gated: Gate) -> None:
    names, rows = ["a", "b", "y"], [["refused", "refused", row[2]] if k == 1 else row for k, row in enumerate(UNITS)]
    assert read(tmp_path, csv_of(names, rows)).rows == 46
    assert read(tmp_path, csv_of(names, rows[1:])).rows == 44
    model = ("--model", "logistic", *bounds("a", "b"))
    status, err = gated(csv_of(names, rows), *model)
    assert status == 2
    assert REFUSED in err
    assert gated(csv_of(names, rows), *model, "--header")[0] == 0
    again = [*rows[:9], ["refused", "refused", "n"], *rows[9:]]  # no unit is there twice
    assert gated(csv_of(names, again), *model)[0] == 0
    assert gated(csv_of(names, UNITS), *model)[0] == 0


WAVES = ["340", "405", "450", "505", "550", "620"]


def spectra(ascending: int) -> Rows:
    """Of 41 rows so many ascend; in a tenth of all they would speak for a row."""
    rows = []
    for k in range(41):
        cells = np.sort(RNG.choice(np.arange(-400, 400), 6, replace=False)) / 100
        rows.append([*map(str, cells if k < ascending else [*cells[3:], *cells[:3]]), number()])
    return rows


def test_a_header_of_ascending_numbers_that_one_row_makes_a_row(tmp_path: Path, gated: Gate) -> None:
    names, ends = [*WAVES, "y"], bounds(*WAVES, "y")
    rows = spectra(4)
    with pytest.raises(InvalidInputError, match="seems to have no header"):
        read(tmp_path, csv_of(names, rows[:-1]))
    status, err = gated(csv_of(names, rows), *ends)
    assert status == 2
    assert REFUSED in err
    assert gated(csv_of(names, rows), *ends, "--header")[0] == 0
    assert gated(csv_of(names, spectra(2)), *ends)[0] == 0


def test_the_same_of_a_workbook(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    found = []
    for ascending in (2, 4):
        book = openpyxl.Workbook()
        for row in [[*WAVES, "y"], *([*map(float, row)] for row in spectra(ascending))]:
            book.active.append(row)
        book.save(tmp_path / "t.xlsx")
        found.append((read_table(tmp_path / "t.xlsx").names, read_table(tmp_path / "t.xlsx").header_by_one_row))
    assert found == [((*WAVES, "y"), False), ((*WAVES, "y"), True)]


def test_row_names_that_are_no_run_without_one_of_them(tmp_path: Path, gated: Gate) -> None:
    places = [1, 44, *RNG.permutation(np.arange(2, 44))[:38]]
    rows = [[str(place), number(), number(), number()] for place in RNG.permutation(places)]
    names, ends = ["a", "c", "y"], bounds("a", "c", "y")
    inner = next(k for k, row in enumerate(rows) if row[0] not in ("1", "44"))
    with pytest.raises(InvalidInputError, match="nothing says to which fields"):
        read(tmp_path, csv_of(names, [*rows[:inner], *rows[inner + 1 :]]))
    status, err = gated(csv_of(names, rows), *ends)
    assert status == 2
    assert REFUSED in err
    assert gated(csv_of(["id", *names], rows), *ends, "--header", "--id", "id")[0] == 0
    in_order = [[str(k + 1), *row[1:]] for k, row in enumerate(rows)]
    whole = [in_order[k] for k in RNG.permutation(len(rows))]
    for usual in (in_order, whole, [[f"r{row[0]}", *row[1:]] for row in rows]):
        assert not read(tmp_path, csv_of(names, usual)).header_by_one_row


def text_of(cells: Sequence[str]) -> str:
    return csv_of(["z", "k", "y"], [[cell, f"p{k}", number()] for k, cell in enumerate(cells)])


@pytest.mark.parametrize("memory", [None, 1])
@pytest.mark.parametrize("window", [300, 2**19])
def test_codes_are_known_by_all_cells_of_a_column(
    memory: int | None, window: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cell among the first, where others are missing, makes a category of what would be numbers."""
    monkeypatch.setattr(csvfile, "HEAD", window)
    codes = [["00017", "00018", "01234"][k % 3] for k in range(300)]
    for first in ([""] * 300, ["", "", "", "00017", *[""] * 296]):
        assert str(read(tmp_path, text_of([*first, *codes]), memory=memory).kind("z")) == "string"
    for first in (["7", *[""] * 299], ["00017", "7", *[""] * 298]):
        raw = read(tmp_path, text_of([*first, *codes]), memory=memory)
        assert (str(raw.kind("z")), raw.few_decide) == ("int64", {"z": (1, "text")})
    dates = [f"2020-01-{k % 20 + 10}" for k in range(300)]
    assert str(read(tmp_path, text_of([*[""] * 300, *dates]), memory=memory).kind("z")) == "date32[day]"
    assert str(read(tmp_path, text_of([""] * 300), memory=memory).kind("z")) == "null"


def test_one_number_beside_few_codes_is_refused(tmp_path: Path, gated: Gate) -> None:
    """Without it the eight others are a category."""
    cells = ["7", *["00017"] * 8, *[""] * 40]
    rows = [[cell, number(), number()] for cell in cells]
    assert [str(read(tmp_path, csv_of(["z", "a", "y"], some)).kind("z")) for some in (rows, rows[1:])] == [
        "int64",
        "string",
    ]
    status, err = gated(csv_of(["z", "a", "y"], rows), *bounds("a", "y"))
    assert status == 2
    assert "Without one row the column 'z' might be taken for something else" in err


@pytest.mark.parametrize("first", ["1", "TRUE", "?", ""])
def test_no_cell_decides_whether_a_column_of_text_is_looked_at(first: str, tmp_path: Path) -> None:
    """The first 500 cells are missing but for one; each of the others counts, whatever that one is."""
    kinds = set()
    for odd in (first, ""):
        cells = ["", odd, *[""] * 600, *["0", "1", "1", "2", "2\u00a0"] * 20]
        kinds.add(str(read(tmp_path, text_of(cells)).kind("z")))
    assert kinds == (
        {"string", "int64"} if first in ("TRUE", "?") else {"int64"}
    )  # these are no numbers, wherever they are


def test_a_name_that_one_object_alone_has(gated: Gate) -> None:
    rows: list[dict[str, Any]] = [{"a": float(number()), "y": float(number())} for _ in range(46)]
    options = (*bounds("a", "y"), "--drop", "note")
    rows[5]["note"] = "moved away"
    status, err = gated(json.dumps(rows), *options, ending="json")
    assert status == 2
    assert "Without one row t.json has no column 'note'" in err
    assert gated(json.dumps(rows), *bounds("a", "y"), ending="json")[0] == 0
    nulls = [{"note": None, **row} for row in rows]
    assert gated(json.dumps(nulls), *options, ending="json")[0] == 0
    several = [row | ({"note": "moved"} if k < 9 else {}) for k, row in enumerate(rows)]
    assert gated(json.dumps(several), *options, ending="json")[0] == 0


def test_no_first_object_decides_that_lines_are_a_table(tmp_path: Path) -> None:
    rows = [{"y": k / 7, "data": [k % 5, k % 3][k % 2], "schema": "uv"[k % 2]} for k in range(20)]
    rows[0].pop("schema")
    for some in (rows, rows[1:]):
        (tmp_path / "t.json").write_text("\n".join(map(json.dumps, some)) + "\n", encoding="utf-8")
        raw = read_table(tmp_path / "t.json")
        assert (raw.names, raw.rows) == (("data", "schema", "y"), len(some))


KINDS: list[Callable[[], str]] = [
    lambda: str(RNG.integers(0, 10)),
    lambda: str(RNG.integers(1980, 2000)),
    lambda: str(RNG.choice(["a", "b", "c"])),
    lambda: str(RNG.choice(["61 kg", "2 kg"])),
    lambda: str(RNG.choice(["", "NA", "x"])),
    number,
]


def test_whatever_a_first_line_may_read_like_without_one_row_is_known() -> None:
    """Against reading the rest again, for all rows of random tables; where nothing changes, that is known mostly."""
    changing = needless = 0
    for _ in range(400):
        width, count = int(RNG.integers(1, 7)), int(RNG.integers(2, 24))
        own = [int(RNG.integers(0, len(KINDS))) for _ in range(width)]
        rows = [[KINDS[int(RNG.integers(0, 6)) if RNG.random() < 0.1 else k]() for k in own] for _ in range(count)]
        run = [str(1980 + 2 * k) for k in range(width)]
        names = run if RNG.random() < 0.3 else [KINDS[int(RNG.integers(0, 6))]() for _ in range(width)]
        left = {reads_as_row(names, [*rows[:k], *rows[k + 1 :]]) for k in range(count)}
        evidence = row_evidence(names, rows, False)
        assert evidence.now == reads_as_row(names, rows)
        assert left <= evidence.left, (names, rows)
        changing += left != {evidence.now}
        needless += left == {evidence.now} != evidence.left
    assert changing > 15
    assert needless < 10
