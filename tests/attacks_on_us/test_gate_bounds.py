"""Declared bounds that are the rows' own least and largest values: a card shows them, and so the values of single rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from fisherleak.cli import main

POLICY = '[columns."*"]\nmax_revealed = 0.9\n[require]\nbounds = true\ntarget = "y"\n'


def written(where: Path, youngest: int = 1) -> Any:
    rng = np.random.default_rng(0)
    rows = pandas.DataFrame({"age": rng.integers(19, 90, 200), "dose": rng.normal(size=200).round(4)})
    rows.loc[: youngest - 1, "age"] = 18
    rows["y"] = (rows.dose + rng.normal(size=200)).round(4)
    rows.to_csv(where / "t.csv", index=False)
    (where / "p.toml").write_text(POLICY, encoding="utf-8")
    return rows


def ends(**bounds: str) -> list[str]:
    return [text for name, end in bounds.items() for text in ("--bounds", f"{name}={end}")]


def test_bounds_of_one_row_are_refused_under_a_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = written(tmp_path)
    own = ends(age="18:100", dose=f"{rows.dose.min()}:5", y="-6:6")
    audit = ["audit", "t.csv", "--noise", "3", "--held-out", "0", "--no-attacks", "--target", "y", "--policy", "p.toml"]
    assert main([*audit, *own]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "a declared bound of 'dose' is the least or largest value in the table, and fewer than 5 have it" in said
    assert main(["release", "t.csv", "--target", "y", "--noise", "3", *own, "--out", "m.skops"]) == 0
    said = " ".join("".join(capsys.readouterr()).split())
    assert "A declared bound of 'dose' is the least or largest value in the table." in said
    file = ["audit", "t.csv", "--released", "m.skops", "--no-attacks", "--policy", "p.toml"]
    assert main(file) == 2
    assert "release the model again" in " ".join(capsys.readouterr().err.split())
    assert main([*audit, *ends(age="18:100", dose="-5:5", y="-6:6")]) == 0


def test_bounds_that_five_have_are_no_single_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = written(tmp_path)
    audit = ["audit", "t.csv", "--noise", "3", "--held-out", "0", "--no-attacks", "--target", "y", "--policy", "p.toml"]
    line = [*audit, *ends(age="0:120", dose=f"-5:{rows.dose.max()}", y="-6:6"), "--quiet"]
    assert main(line) == 2
    rows.loc[:4, "dose"] = rows.dose.max()
    rows.to_csv("t.csv", index=False)
    assert main(line) == 0
    rows.assign(who=np.arange(200) // 10).to_csv("t.csv", index=False)
    assert main([*line, "--person", "who"]) == 2
