"""Categories that are declared by the thousand, or are whole numbers that floats cannot tell apart; a setting that is free."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest

from fisherleak.auditing.confirmed_rules import _given_settings
from fisherleak.cli import main
from fisherleak.errors import InvalidInputError
from fisherleak.releasing.files.released_files import load_model, save_model
from fisherleak.tables import design_of, from_frame, read_table
from fisherleak.tables.decide.choices import MOST_DECLARED, Choices
from fisherleak.training.trained_model import Settings

BOUNDS = (("a", (-10.0, 10.0)), ("y", (-10.0, 10.0)))


def table(first: int) -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    a = rng.normal(size=120).round(3)
    c = [first + k for k in rng.integers(0, 4, 120).tolist()]
    return pandas.DataFrame({"a": a, "c": c, "y": (a + rng.normal(size=120)).round(3)})


@pytest.mark.parametrize("first", [2**62, 2**63 - 8])
def test_categories_that_are_one_as_floats_are_released(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table(first).to_csv("t.csv", index=False)
    bounds = [option for name, _ in BOUNDS for option in ("--bounds", f"{name}=-10:10")]
    given = ["t.csv", "--target", "y", "--category", "c", "--noise", "1", *bounds, "--out", "m.skops"]
    assert main(["release", *given]) == 0, capsys.readouterr().err
    levels = [column.get("levels") for column in load_model(Path("m.skops")).card["columns"]]
    assert [first + k for k in range(4)] in levels
    assert main(["verify", "m.skops"]) == 0
    assert main(["predict", "m.skops", "t.csv", "--out", "p.csv"]) == 0, capsys.readouterr().err


def test_too_many_declared_categories_are_refused_before_anything_is_computed() -> None:
    levels = tuple(f"level {k}" for k in range(MOST_DECLARED // 2))
    rest = (*levels, "one more")
    frame = table(0).assign(c=levels[:4] * 30, d=levels[:3] * 40)
    with pytest.raises(InvalidInputError, match="lists 2001 categories, and at most 2000"):
        design_of(from_frame(frame), Choices("y", levels=(("c", levels), ("d", rest))))
    assert design_of(from_frame(frame), Choices("y", levels=(("c", levels[:9]),)), held_out=0.0).n == 120


@pytest.mark.parametrize("missing", ["impute", "drop"])
def test_an_audit_names_what_becomes_of_missing_cells_among_what_was_given(missing: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    table(0).drop(columns="c").to_csv(path, index=False)
    out = tmp_path / "m.skops"
    save_model(read_table(path), Settings("y", missing=missing, bounds=BOUNDS), out, noise=1.0, random_state=0)
    assert ("missing" in _given_settings(load_model(out))) is (missing == "drop")
