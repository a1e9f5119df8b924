"""Rules checked before a release are checked on the model that it trains: the same figures, or a refusal, as of the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas
import pytest

from attacks_on_us.under_policy import judged, write_table_and_policy
from fisherleak.cli import main

Change = Callable[[pandas.DataFrame], pandas.DataFrame]
RULES = """
[rows]
max_eta = 1000
[columns.a]
max_revealed = 1.0
max_eta = 1000
[columns.b]
max_revealed = 1.0
[label]
max_eta = 1000
"""
BOUNDS = [word for name in ("a", "b", "dose") for word in ("--bounds", f"{name}=-9:9")]


def table(n: int = 240) -> pandas.DataFrame:
    rng = np.random.default_rng(11)
    made = pandas.DataFrame(rng.normal(size=(n, 2)).clip(-5, 5).round(3), columns=["a", "b"])
    made["city"] = rng.choice(["Bonn", "Genua", "Turin"], n)
    return made.assign(dose=(made.a - made.b + rng.normal(size=n)).clip(-8, 8).round(3))


def with_gaps(frame: pandas.DataFrame) -> pandas.DataFrame:
    """A third of a column is missing, which a release fills and ``--missing drop`` leaves out."""
    return frame.assign(c=np.where(np.arange(len(frame)) % 3 == 0, np.nan, np.round(frame.a * frame.b, 3)))


def with_gaps_in_one_of_few(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Those who have one value of a column but for a few, so that it is not used, and lack it in every third row."""
    few = np.where(np.arange(len(frame)) % 3 > 0, "yes", "").astype(object)
    few[few == ""] = None
    few[1] = "no"
    return frame.assign(few=few)


def with_rare(frame: pandas.DataFrame) -> pandas.DataFrame:
    frame = frame.copy()
    frame.loc[:2, "city"], frame.loc[3:5, "city"] = "Ulm", "Weil"
    return frame


def with_many_groups(frame: pandas.DataFrame) -> pandas.DataFrame:
    """A few large groups, and many of one row that are left out for a gap: a release pools these, and keeps the others."""
    small = frame.index >= len(frame) - 50
    ward = np.where(small, [f"z{k}" for k in frame.index], [f"w{k % 4}" for k in frame.index])
    return frame.assign(ward=ward, b=frame.b.where(~small))


def with_codes(frame: pandas.DataFrame) -> pandas.DataFrame:
    return frame.assign(code=[f"{k % 4:02d}" for k in range(len(frame))], stage=[k % 3 for k in range(len(frame))])


def plain(frame: pandas.DataFrame) -> pandas.DataFrame:
    return frame


@pytest.mark.parametrize(
    ("change", "options", "more"),
    [
        (plain, [], ""),
        (with_gaps, ["--missing", "drop"], ""),
        (with_gaps, ["--bounds", "c=-30:30"], ""),
        (with_gaps_in_one_of_few, ["--missing", "drop"], ""),
        (with_rare, [], ""),
        (with_rare, ["--levels", "city=Bonn,Genua,Turin,Ulm"], ""),
        (with_codes, ["--category", "stage"], '[columns.stage]\nkind = "category"'),
        (with_codes, ["--number", "code"], '[columns.code]\nkind = "number"'),
        (plain, ["--held-out", "0.2"], ""),
        (plain, ["--l2", "0.3"], ""),
        (plain, ["--public", "preprocessing"], '[require]\npublic = "preprocessing"'),
    ],
)
def test_a_plan_is_judged_as_the_file_that_is_released(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: Change,
    options: list[str],
    more: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table_and_policy(change(table()), RULES + more)
    options = ["--target", "dose", *BOUNDS, *options]
    status, said, planned = judged(capsys, *options, "--noise", "2", "--no-attacks")
    assert main(["release", "t.csv", *options, "--noise", "2", "--out", "m.skops", "--quiet"]) == 0
    again, told, checked = judged(capsys, "--released", "m.skops", "--no-attacks")
    assert status == again, (said, told)
    assert {name: rule["value"] for name, rule in planned.items()} == {
        name: pytest.approx(rule["value"], rel=1e-9) for name, rule in checked.items()
    }
    assert planned or said


def test_what_a_release_keeps_is_not_left_out_of_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A release drops a column that is not used, and then keeps the rows that lack it: they have rules too."""
    monkeypatch.chdir(tmp_path)
    frame = with_gaps_in_one_of_few(table())
    frame.loc[0, "a"] = 8.5  # far out, and in a row that lacks the column
    write_table_and_policy(frame, "[columns.a]\nmax_revealed = 0.9")
    _, _, planned = judged(capsys, "--target", "dose", *BOUNDS, "--missing", "drop", "--noise", "0.05", "--no-attacks")
    write_table_and_policy(frame.drop(columns="few"), "[columns.a]\nmax_revealed = 0.9")
    _, _, whole = judged(capsys, "--target", "dose", *BOUNDS, "--missing", "drop", "--noise", "0.05", "--no-attacks")
    assert planned["columns.a.max_revealed"]["value"] == pytest.approx(whole["columns.a.max_revealed"]["value"])


def test_rules_on_membership_refuse_held_out_rows_before_a_release_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table_and_policy(table(), "[membership]\nmax_right = 0.99")
    options = ["--target", "dose", *BOUNDS, "--noise", "20", "--no-attacks"]
    status, said, _ = judged(capsys, *options, "--held-out", "0.25")
    assert status == 2
    assert "--held-out 0" in said
    assert judged(capsys, *options)[0] == 0  # all rows, as a release trains on
    assert judged(capsys, *options, "--held-out", "0")[0] == 0


def test_groups_that_change_what_is_trained_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--target", "dose", *BOUNDS, "--noise", "20", "--no-attacks", "--group", "ward", "--missing", "drop"]
    write_table_and_policy(with_many_groups(table(600)), '[groups]\nmax_eta_joint = 1000\n[require]\ngroup = "ward"')
    status, said, _ = judged(capsys, *options)
    assert (status, "or keep all categories of the column with --category ward" in said) == (2, True)
    assert judged(capsys, *options, "--category", "ward")[0] == 0


def test_a_kind_of_model_that_an_option_gives_is_stated_by_the_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model card does not say that it was given, and the file would be refused."""
    monkeypatch.chdir(tmp_path)
    frame = table(40).assign(count=[*[0, 1] * 19, 2, 3])
    options = ["--target", "count", *BOUNDS[:4], "--drop", "dose", "--noise", "20", "--no-attacks", "--model", "linear"]
    options += ["--bounds", "count=0:9"]
    write_table_and_policy(frame, "[label]\nmax_eta = 1000")
    status, said, _ = judged(capsys, *options)
    assert status == 2
    assert 'model = "linear"' in said
    write_table_and_policy(frame, '[label]\nmax_eta = 1000\n[require]\nmodel = "linear"')
    assert judged(capsys, *options)[0] == 0
