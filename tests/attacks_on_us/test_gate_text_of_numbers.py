"""A column of text that one row makes one of numbers, or no longer one: a release shows which, at any noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest

from attacks_on_us.under_policy import judged, write_table_and_policy

pytestmark = pytest.mark.usefixtures("quick_audits")

POLICY = "[membership]\nmax_right = 0.9\n[require]\nbounds = true\n"
KIND = '[columns.c]\nkind = "number"\n'
OPTIONS = ("--target", "y", "--noise", "5", "--held-out", "0", "--no-attacks", "--draws", "2")
BOUNDS = ("--bounds", "a=-10:10", "--bounds", "y=-10:10")


def table(texts: int, rows: int) -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    a = rng.normal(size=rows).round(3)
    c = [f"{each:.2f}" for each in rng.normal(50, 10, rows)]
    c[:texts] = [f"n/k {k}" for k in range(texts)]
    return pandas.DataFrame({"a": a, "c": c, "y": (a + rng.normal(size=rows)).round(3)})


@pytest.mark.parametrize(("texts", "rows", "refused"), [(6, 60, True), (5, 60, False), (7, 61, True), (9, 60, False)])
def test_nine_cells_in_ten_that_one_row_decides_are_refused(
    texts: int,
    rows: int,
    refused: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table_and_policy(table(texts, rows), POLICY)
    number = ("--bounds", "c=0:100") if texts <= 6 else ()
    status, err, _ = judged(capsys, *OPTIONS, *BOUNDS, *number)
    assert ("the column 'c' might be taken for something else" in err) is refused, err
    assert (status == 2) is refused
    if refused:
        assert judged(capsys, *OPTIONS, *BOUNDS, "--drop", "c")[0] == 0
        write_table_and_policy(table(texts, rows), POLICY + KIND)
        status, err, _ = judged(capsys, *OPTIONS, *BOUNDS, "--bounds", "c=0:100", "--number", "c")
        assert "something else" not in err, (status, err)
