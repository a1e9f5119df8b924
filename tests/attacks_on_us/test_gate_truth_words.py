"""No single cell decides whether a column is one of true and false, or whether a column that is named has any values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks_on_us.under_policy import judged, write_table_and_policy
from fisherleak.errors import InvalidInputError
from fisherleak.releasing.table_model import read_for_release
from fisherleak.tables import read_table
from fisherleak.training.trained_model import Settings

pytestmark = pytest.mark.usefixtures("quick_audits", "own_folder")

POLICY = '[membership]\nmax_right = 0.9\n[require]\nmodel = "linear"\n'
OPTIONS = ("--target", "y", "--noise", "50", "--no-attacks", "--draws", "2", "--l2", "1")
BOUNDS = ("--bounds", "a=-10:10", "--bounds", "y=-10:10")
RNG = np.random.default_rng(8)
N, ODD = 46, 5
A, Y = (RNG.normal(size=N).round(3).tolist() for _ in range(2))
TRUTHS = RNG.choice(["true", "false"], N).tolist()
SPELT = "Without one row the categories of the column 'c' might be spelt differently, or not be text"
NONE = "Without one row the column 'c' might be read as other numbers, or as none"


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(cells: list[Any], kind: str, gone: int | None = None) -> str:
    """The table with a column c, without a row where one is gone; its file."""
    rows = [row for k, row in enumerate(zip(A, cells, Y, strict=True)) if k != gone]
    if kind == "csv":
        write_table_and_policy("a,c,y\n" + "".join(f"{a},{cell},{y}\n" for a, cell, y in rows), POLICY)
        return "t.csv"
    write_table_and_policy("", POLICY)
    if kind == "json":
        told = [{"a": a, "c": cell or None, "y": y} for a, cell, y in rows]
        Path("t.json").write_text(json.dumps(told), encoding="utf-8")
        return "t.json"
    made = pytest.importorskip("openpyxl").Workbook()
    made.active.append(["a", "c", "y"])
    for a, cell, y in rows:
        made.active.append([a, {"true": True, "false": False}.get(cell, cell), y])
    made.save("t.xlsx")
    return "t.xlsx"


def marked(odd: str, marks: int = 6) -> list[str]:
    cells = [*TRUTHS[:20], *["?"] * marks, *TRUTHS[20 + marks :]]
    cells[ODD] = odd
    return cells


def levels_with_and_without(cells: list[str], kind: str, **said: Any) -> list[Any]:
    settings = Settings(target="y", model="linear", held_out=0.0, **said)
    found = []
    for gone in (None, ODD):
        design = read_for_release(read_table(written(cells, kind, gone)), settings).trained.design
        found.append(next((feature.levels for feature in design.features if feature.name == "c"), None))
    return found


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
@pytest.mark.parametrize("odd", ["maybe", "1.5"])
def test_a_word_that_makes_text_of_truths_and_marks_is_refused(
    odd: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    full, less = levels_with_and_without(marked(odd), kind)
    assert full[0] == "?"
    assert less == ("(missing)", False, True)
    path = written(marked(odd), kind)
    for options in ((), ("--category", "c")):
        status, err, _ = judged(capsys, *OPTIONS, *BOUNDS, *options, table=path)
        assert status == 2
        assert SPELT in err
    assert judged(capsys, *OPTIONS, *BOUNDS, "--drop", "c", table=path)[0] == 0


def test_a_word_in_a_row_without_a_label_is_refused_too(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Path(written(marked("maybe"), "csv")).read_text(encoding="utf-8").splitlines()
    lines[1 + ODD] = f"{A[ODD]},maybe,"
    write_table_and_policy("\n".join(lines) + "\n", POLICY)
    status, err, _ = judged(capsys, *OPTIONS, *BOUNDS)
    assert status == 2
    assert SPELT in err


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
@pytest.mark.parametrize("cells", [marked("?"), marked("true"), [*marked("none")[:20], *["none"] * 6, *TRUTHS[26:]]])
def test_truths_that_no_row_decides_are_not_refused(
    cells: list[str], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    full, less = levels_with_and_without(cells, kind)
    assert full == less
    assert judged(capsys, *OPTIONS, *BOUNDS, table=written(cells, kind))[0] == 0


def test_a_declared_level_that_is_a_mark_and_makes_text_of_truths_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cells = [*TRUTHS[:ODD], "none", *TRUTHS[ODD + 1 :]]
    with pytest.raises(InvalidInputError, match="whose values are true and false"):
        levels_with_and_without(cells, "csv", levels=(("c", ("true", "false", "none")),))
    path = written(cells, "csv")
    status, err, _ = judged(capsys, *OPTIONS, *BOUNDS, "--levels", "c=true,false,none", table=path)
    assert status == 2
    assert SPELT in err


@pytest.mark.parametrize("kind", ["csv", "json"])
@pytest.mark.parametrize("option", ["numbers", "categories", "unite"])
def test_the_only_cell_of_a_column_that_is_named_is_refused(
    option: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {"numbers": "--number", "categories": "--category", "unite": "--unite"}
    filled, odd = (("yes", "no"), "3.0") if option == "numbers" else (("", ""), "ill")
    cells = [filled[k % 2] for k in range(N)]
    cells[ODD] = odd
    if option != "unite" or kind == "csv":
        with pytest.raises(InvalidInputError):
            levels_with_and_without(cells, kind, **{option: ("c",)})
    path = written(cells, kind)
    status, err, _ = judged(capsys, *OPTIONS, *BOUNDS, words[option], "c", table=path)
    assert status == 2
    assert (NONE if option == "numbers" else SPELT) in err
    assert judged(capsys, *OPTIONS, *BOUNDS, "--drop", "c", table=path)[0] == 0
    more = [odd if k in (ODD, ODD + 1) else cell for k, cell in enumerate(cells)]
    assert judged(capsys, *OPTIONS, *BOUNDS, words[option], "c", table=written(more, kind))[0] == 0
