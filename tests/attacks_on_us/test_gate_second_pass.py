"""No single row decides which columns a release uses by way of rows that lack a column which is left out in the end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from attacks_on_us.under_policy import judged, write_table_and_policy
from fisherleak.releasing.table_model import read_for_release
from fisherleak.tables import read_table
from fisherleak.training.trained_model import Settings

pytestmark = pytest.mark.usefixtures("quick_audits", "own_folder")

POLICY = '[membership]\nmax_right = 0.9\n[require]\nmodel = "linear"\n'
OPTIONS = ("--target", "y", "--noise", "50", "--no-attacks", "--draws", "2", "--l2", "1", "--missing", "drop")
BOUNDS = ("--bounds", "a=-10:10", "--bounds", "y=-10:10")
RNG = np.random.default_rng(3)
N = 46
A, Y, FULL = (RNG.normal(size=N).round(3).astype(str).tolist() for _ in range(3))
Cells = list[str]
AFTER = [*["1.5"] * 36, *FULL[36:]]
"""A number that varies only in rows that lack another column."""


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def with_others(cells: Cells, others: int) -> Cells:
    return [*(f"{2 + k}.25" for k in range(others)), *cells[others:]]


def gapped(cells: Cells) -> Cells:
    return [*cells[:36], *[""] * (N - 36)]


def table(columns: Mapping[str, Cells], gone: int | None = None) -> str:
    rows = [",".join(row) for k, row in enumerate(zip(*columns.values(), strict=True)) if k != gone]
    return "\n".join([",".join(columns), *rows]) + "\n"


CASES: dict[str, tuple[Cells, Cells]] = {
    "one other category": (gapped([*["x"] * 4, "z", *["x"] * 41]), AFTER),
    "one other truth": (gapped([*["true"] * 4, "false", *["true"] * 41]), AFTER),
    "a constant, and five other numbers": (gapped(["7"] * N), with_others(AFTER, 5)),
    "a constant, and five in a category": (gapped(["7"] * N), [*["v"] * 5, *["u"] * 31, *["v", "u"] * 5]),
}
"""What is left out with rows that lack it, and what those rows decide."""


@pytest.mark.parametrize("case", CASES)
def test_columns_that_one_row_decides_among_rows_left_out_are_refused(
    case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    left_out, decided = CASES[case]
    columns = {"a": A, "b": decided, "c": left_out, "y": Y}
    settings = Settings(target="y", model="linear", held_out=0.0, missing="drop")
    used = []
    for gone in (None, 4):
        write_table_and_policy(table(columns, gone), POLICY)
        found = read_for_release(read_table("t.csv"), settings).trained.design
        used.append([feature.name for feature in found.features])
    assert "c" not in used[0] + used[1]
    assert used[0] != used[1]  # a release without the row has other columns
    write_table_and_policy(table(columns), POLICY)
    status, err, _ = judged(capsys, *OPTIONS, *BOUNDS)
    assert status == 2
    assert "Rows that lack 'c' were left out before it was known that the model does not use such a column." in err
    assert "Without one row the remaining rows might give 'b' another use" in err
    status, err, rules = judged(capsys, *OPTIONS, *BOUNDS, "--drop", "c")
    assert rules, err  # b has no bounds where it is a number
    assert status == ("in a category" not in case)


@pytest.mark.parametrize(
    ("left_out", "other"),
    [
        (gapped([*["x"] * 4, "z", *["x"] * 41]), FULL),  # without the row the same columns are used
        (gapped(["7"] * N), with_others(AFTER, 8)),
        ([*["x"] * 4, "z", *["x"] * 41], with_others(AFTER, 8)),  # no row lacks it
    ],
)
def test_rows_left_out_that_decide_nothing_are_not_refused(
    left_out: Cells, other: Cells, capsys: pytest.CaptureFixture[str]
) -> None:
    write_table_and_policy(table({"a": A, "b": other, "c": left_out, "y": Y}), POLICY)
    status, err, _ = judged(capsys, *OPTIONS, *BOUNDS, "--bounds", "b=-20:20")
    assert status == 0, err


def test_a_person_who_decides_it_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    who = [f"p{k // 2 if k < 20 else k}" for k in range(N + 14)]
    a, y, full = (RNG.normal(size=len(who)).round(3).astype(str).tolist() for _ in range(3))
    columns = {
        "who": who,
        "a": a,
        "b": [*["1.5"] * N, *full[N:]],
        "c": [*["x"] * 4, "z", "z", *["x"] * (N - 6), *[""] * 14],
        "y": y,
    }
    write_table_and_policy(table(columns), POLICY + 'person = "who"\n')
    status, err, _ = judged(capsys, *OPTIONS, *BOUNDS, "--person", "who")
    assert status == 2
    assert "Without the rows of one person the remaining rows might give 'b' another use" in err
