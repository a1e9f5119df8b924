"""Columns and categories that a release has for the sake of a few rows, or people: without one of them it would not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from attacks_on_us.under_policy import judged, write_table_and_policy
from fisherleak.cli import main
from fisherleak.releasing.files.released_files import save_model
from fisherleak.tables import from_frame
from fisherleak.training.trained_model import Settings

pytestmark = pytest.mark.usefixtures("quick_audits")

OPTIONS = ("--target", "y", "--bounds", "x=-100:300", "--bounds", "y=-100:300")
QUICK = ("--no-attacks", "--draws", "2", "--held-out", "0")


def table(who: Any = None, **columns: Any) -> pandas.DataFrame:
    rng = np.random.default_rng(5)
    n = len(next(iter(columns.values())))
    x = rng.normal(50, 10, n).round(2)
    own = {} if who is None else {"who": who}
    return pandas.DataFrame(own | columns | {"x": x, "y": (x / 10 + rng.normal(0, 1, n)).round(2)})


def named(frame: pandas.DataFrame, *options: str) -> Any:
    """The columns and parameters of a release's model card; None where none is made."""
    frame.to_csv("r.csv", index=False)
    call = ["release", "r.csv", *OPTIONS, *options, "--noise", "30", "--out", "r.skops", "--overwrite", "--quiet"]
    if main(call):
        return None
    card = json.loads(Path("r.skops.json").read_text(encoding="utf-8"))
    return card["columns"], card["settings"]["levels"]


def turned() -> tuple[pandas.DataFrame, Any]:
    """Of the person with fifty rows the most common value is 0, without them 1; three more people have 0."""
    who = np.r_[np.zeros(50, int), np.arange(1, 41), np.arange(41, 44)]
    return table(who, flag=np.r_[np.zeros(50, int), np.ones(40, int), np.zeros(3, int)]), who == 0


def many_values() -> tuple[pandas.DataFrame, Any]:
    """Five people have ten values each, all others 0."""
    who = np.r_[np.repeat(np.arange(5), 10), np.arange(5, 65)]
    dose = np.r_[np.arange(1, 51) / 10.0, np.zeros(60)]
    return table(who, dose=dose), who == 2


def both() -> tuple[pandas.DataFrame, Any]:
    """Five people with 22 rows each have 1, fifty with two rows each 0."""
    who = np.r_[np.repeat(np.arange(5), 22), np.repeat(np.arange(5, 55), 2)]
    return table(who, dose=(who < 5).astype(float)), who == 3


@pytest.mark.parametrize(("made", "name", "high"), [(turned, "flag", 1), (many_values, "dose", 6), (both, "dose", 1)])
def test_a_person_without_whom_a_number_is_left_out(
    made: Any, name: str, high: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Membership of 53 to 58 % was said, and rules on the column passed: the card tells that person with certainty."""
    monkeypatch.chdir(tmp_path)
    frame, gone = made()
    options = ("--person", "who", "--bounds", f"{name}=0:{high}")
    assert named(frame, *options) is not None
    assert named(frame[~gone], *options) is None
    stated = '[require]\nperson = "who"\n'
    write_table_and_policy(frame, "[membership]\nmax_right = 0.6\n" + stated)
    status, _, rules = judged(capsys, *OPTIONS, *options, *QUICK, "--noise", "30")
    assert (status, rules["membership.max_right"]["value"]) == (1, 1.0)
    write_table_and_policy(frame, f"[columns.{name}]\nmax_eta = 1e9\n{stated}")
    status, said, _ = judged(capsys, *OPTIONS, *options, *QUICK, "--noise", "30")
    assert status == 2
    assert "A release without one person would leave the column out" in said


def test_rows_that_are_just_enough_for_more_than_five(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file may say that categories, and numbers, need fifty rows: one of fifty was compared with five."""
    monkeypatch.chdir(tmp_path)
    frame = table(smoker=np.r_[np.ones(50, int), np.zeros(250, int)])
    bounds = {"x": (-100.0, 300.0), "y": (-100.0, 300.0)}
    save_model(
        from_frame(frame, "t.csv"), Settings("y", rare=50, held_out=0.0), Path("m.skops"), noise=30.0, bounds=bounds
    )
    write_table_and_policy(frame, "[membership]\nmax_right = 0.65\n")
    assert judged(capsys, "--released", "m.skops", "--no-attacks", "--draws", "2")[0] == 1
    write_table_and_policy(frame, "[columns.smoker]\nmax_eta = 1e9\n")
    assert "would leave the column out" in judged(capsys, "--released", "m.skops", "--no-attacks", "--draws", "2")[1]


CITIES = np.array(["a", "b", "(other)"] * 100, dtype=object)
TWO = np.array(["a"] * 120, dtype=object)


@pytest.mark.parametrize(
    ("cells", "odd", "levels"),
    [
        (CITIES, "x", ()),
        (CITIES, "x", ("--levels", "city=a,b,(other)")),
        (np.array(["u"] * 110 + ["(other)"] * 7 + ["r"] * 3, dtype=object), "(other)", ()),
        (TWO, "x", ("--levels", "city=a,x")),
    ],
)
def test_a_cell_that_is_alone_changes_no_name(
    cells: Any, odd: str, levels: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the table itself calls (other), and declared categories of which all but one row have the same."""
    monkeypatch.chdir(tmp_path)
    frame = table(city=np.where(np.arange(len(cells)) == 11, odd, cells))
    with_it, without, changed = (
        named(each, *levels)
        for each in (frame, frame.drop(11), frame.assign(city=np.where(np.arange(len(cells)) == 11, "a", frame.city)))
    )
    assert with_it is not None
    assert with_it == without == changed


def test_the_only_cell_of_declared_categories_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = table(city=["a" if row == 11 else None for row in range(120)])
    write_table_and_policy(frame, "[membership]\nmax_right = 0.9\n")
    status, said, _ = judged(capsys, *OPTIONS, *QUICK, "--noise", "30", "--levels", "city=a,b,(missing)")
    assert status != 0, said


def test_codes_that_a_fraction_rounds_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One cell of 0.5 had all names on the card rounded to 15 digits."""
    monkeypatch.chdir(tmp_path)
    codes = np.array(["900000000000207008", "900000000000403000", "999000041000000102"] * 40, dtype=object)
    columns, _ = named(table(c=codes), "--category", "c")
    assert columns[-1]["levels"] == sorted(map(int, {*codes.tolist()}))
    assert named(table(c=np.where(np.arange(120) == 6, "0.5", codes)), "--category", "c") is None
    assert "holds whole numbers of 16 digits or more" in capsys.readouterr().err


def test_thirty_people_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of one less nothing would be released."""
    monkeypatch.chdir(tmp_path)
    who = np.repeat(np.arange(30), 4)
    frame = table(who, z=np.arange(120) % 7)
    write_table_and_policy(frame, '[membership]\nmax_right = 0.999\n[require]\nperson = "who"\n')
    options = (*OPTIONS, "--bounds", "z=0:9", "--person", "who", *QUICK, "--noise", "30")
    assert judged(capsys, *options)[0] == 1
    assert named(frame[who != 3], "--bounds", "z=0:9", "--person", "who") is None
