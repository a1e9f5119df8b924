"""Columns of one category and gaps, declared categories that nobody has beside gaps, and ids that would be one number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.linear_model import LinearRegression

import fisherleak as fl
from attacks_on_us.under_policy import judged, write_table_and_policy
from fisherleak.auditing.run import as_raw
from fisherleak.cli import main
from fisherleak.training.trained_model import Settings, train

pytestmark = pytest.mark.usefixtures("quick_audits")

N = 120
OPTIONS = (
    "--target",
    "y",
    "--noise",
    "1",
    "--model",
    "linear",
    "--l2",
    "1",
    "--bounds",
    "z=-1:1",
    "--bounds",
    "y=-5:5",
)
QUICK = ("--no-attacks", "--draws", "2")
POLICY = '[membership]\nmax_right = 0.6\n[require]\nbounds = true\nmodel = "linear"\n'


def table(**columns: Any) -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    n = len(next(iter(columns.values())))
    z, y = rng.uniform(-1, 1, n).round(3), np.clip(rng.normal(size=n), -4, 4).round(3)
    return pandas.DataFrame(columns | {"z": z, "y": y})


def released(frame: pandas.DataFrame, *options: str) -> Any:
    """The names and categories of the columns on a release's model card; None where none is made."""
    frame.to_csv("r.csv", index=False)
    if main(["release", "r.csv", *OPTIONS, *options, "--out", "r.skops", "--overwrite", "--quiet"]):
        return None
    card = json.loads(Path("r.skops.json").read_text(encoding="utf-8"))
    return {column["name"]: column.get("levels") for column in card["columns"]}


def one_category(**odd: int) -> Any:
    """Cells of one category and of gaps, in a random order, and some others."""
    others = [text for text, count in odd.items() for _ in range(count)]
    cells = np.array(["yes"] * (N - 19 - len(others)) + [""] * 19 + others, dtype=object)
    return np.random.default_rng(1).permutation(cells)


@pytest.mark.parametrize("odd", [{"former": 1}, {"former": 2, "never": 2}, {"(missing)": 1}, {"(other)": 1}])
@pytest.mark.parametrize("options", [(), ("--missing", "drop"), ("--category", "smoker"), ("--na", "none")])
def test_strays_decide_no_column_beside_gaps(
    odd: dict[str, int], options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one row of a second category a release had the column, with one for gaps; without that row it did not."""
    monkeypatch.chdir(tmp_path)
    cells = one_category(**odd)
    frame, (gone, *_) = table(smoker=cells), np.flatnonzero(np.isin(cells, [*odd]))
    with_it, without = released(frame, *options), released(frame.drop(gone), *options)
    assert with_it is not None
    assert with_it == without
    assert "smoker" not in with_it


@pytest.mark.parametrize(
    ("odd", "levels", "told"),
    [
        ({"former": 4}, (), False),
        ({"former": 5}, (), True),
        ({"(missing)": 5}, (), True),
        ({"former": 3, "never": 2}, (), True),
        ({"former": 1}, ("--levels", "smoker=yes"), False),
        ({"former": 1}, ("--levels", "smoker=yes,(missing)"), False),
    ],
)
def test_who_decides_that_a_column_is_used_is_told(
    odd: dict[str, int],
    levels: tuple[str, ...],
    told: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = one_category(**odd)
    frame, (gone, *_) = table(smoker=cells), np.flatnonzero(np.isin(cells, [*odd]))
    assert (released(frame, *levels) != released(frame.drop(gone), *levels)) is told
    write_table_and_policy(frame, POLICY)
    status, said, rules = judged(capsys, *OPTIONS, *QUICK, *levels)
    assert status == int(told), said
    assert (rules["membership.max_right"]["value"] == 1.0) is told


def test_gaps_decide_a_declared_column_of_one_category(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five lack it: without one of them a release has no category for gaps, and no column."""
    monkeypatch.chdir(tmp_path)
    frame = table(smoker=["yes"] * 115 + [""] * 5)
    declared = ("--levels", "smoker=yes")
    assert released(frame, *declared) != released(frame.drop(117), *declared)
    write_table_and_policy(frame, POLICY)
    assert judged(capsys, *OPTIONS, *QUICK, *declared)[0] == 1
    assert judged(capsys, *OPTIONS, *QUICK, "--levels", "smoker=yes,(missing)")[0] == 0


@pytest.mark.parametrize("gaps", [1, 4])
@pytest.mark.parametrize("levels", ["A,B,C", "A,AA,B,C", "A,B,C,D"])
def test_declared_categories_that_nobody_has_stand_beside_gaps(
    gaps: int, levels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the only row of C every audit and release was refused, by a number as small as no cell is."""
    monkeypatch.chdir(tmp_path)
    city = np.array(["A"] * 60 + ["B"] * 59 + ["C"], dtype=object)
    city[:gaps] = ""
    frame, options = table(city=city), ("--levels", f"city={levels}")
    assert released(frame, *options) == released(frame[:-1], *options) == {"z": None, "city": levels.split(",")}
    for own in (frame, frame[:-1]):
        write_table_and_policy(own, POLICY)
        status, said, rules = judged(capsys, *OPTIONS, *QUICK, *options)
        assert status == 0, said
        assert 0.5 < rules["membership.max_right"]["value"] < 0.6


PEOPLE = POLICY + 'person = "nr"\n'


def of_people(ids: list[str], few: list[int]) -> pandas.DataFrame:
    """A row for each id, and a category that the people of some rows have."""
    job = np.array(["B" if row % 3 else "A" for row in range(len(ids))], dtype=object)
    job[few] = "X"
    return table(nr=ids, job=job)


LONG = [str(10**16 + row + 1) for row in range(N)]


@pytest.mark.parametrize("odd", ["0.5", "20000000000000000000", "pilot", "1e3"])
@pytest.mark.parametrize("role", ["--person", "--id"])
def test_long_ids_are_those_of_the_file(
    odd: str, role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One id with a fraction made floats of 17 digits, which united people, and with them decided which categories are named."""
    monkeypatch.chdir(tmp_path)
    frame = of_people([*LONG, odd], [2, 3, 4, 6, 7, 8])
    with_it, without = released(frame, role, "nr"), released(frame[:-1], role, "nr")
    assert with_it == without == {"z": None, "job": ["A", "B", "X"]}
    if role == "--person":
        write_table_and_policy(frame, PEOPLE)
        assert judged(capsys, *OPTIONS, *QUICK, role, "nr")[0] == 0


def test_long_ids_that_are_floats_are_refused(tmp_path: Path) -> None:
    frame = of_people([*LONG, "0.5"], [2, 3, 4, 6, 7, 8]).astype({"nr": float})
    path = tmp_path / "t.parquet"
    frame.to_parquet(path)
    for settings in (Settings("y", person="nr"), Settings("y", id="nr")):
        with pytest.raises(fl.InvalidInputError, match="column 'nr' holds numbers of 16 digits or more"):
            train(as_raw(path), settings)
    X, y, who = frame[["z"]].to_numpy(), frame["y"].to_numpy(), frame["nr"].to_numpy()
    model = LinearRegression().fit(X, y)
    with pytest.raises(fl.InvalidInputError, match="person holds numbers of 16 digits or more"):
        fl.audit(model, X, y, 1.0, person=who)
    with pytest.raises(fl.InvalidInputError, match="The array of ids holds numbers of 16 digits or more"):
        fl.Ledger(tmp_path / "l.json").add(fl.measure(model, X, y, fl.Gaussian(1.0)), ids=who)


SITES = [f"{site}.{person}" for site in range(1, 13) for person in range(1, 10)]


@pytest.mark.parametrize("other", ["pilot", "13.1"])
def test_ids_that_are_one_number_and_two_texts_are_refused(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """1.1 and 1.10 counted as one person, and nothing said so."""
    monkeypatch.chdir(tmp_path)
    assert released(of_people([*SITES, other], []), "--person", "nr") is not None
    assert released(of_people([*SITES, other, "1.10"], []), "--person", "nr") is None
    assert "The person column 'nr' holds ids that are different as text" in capsys.readouterr().err
    seven = [*(each.replace(".", "") for each in SITES), *[other.replace("13.1", "7"), "007", "7.0", "7"]]
    assert released(of_people(seven, []), "--person", "nr") is not None


@pytest.mark.parametrize("others", [["7", "007"], ["7", "7.0"], ["1.1", "1.10"]])
@pytest.mark.parametrize("more", ["8", "pilot"])
def test_ids_of_rows_that_are_one_number_repeat(
    others: list[str], more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With another id that is no number they were two, without it one, and the table was refused."""
    monkeypatch.chdir(tmp_path)
    ids = [str(100 + row) for row in range(N)]
    assert released(of_people([*ids, more, others[0]], []), "--id", "nr") is not None
    assert released(of_people([*ids, more, *others], []), "--id", "nr") is None
    assert "The id column 'nr' repeats 1 of its" in capsys.readouterr().err
