"""New ids and another reading of the same cells: nobody starts again on a ledger by an option, a file format or somebody else's
cell, and no ledger holds more than ledgers do.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import fisherleak as fl
from fisherleak._support.level_types import cell_text
from fisherleak.cli import main
from fisherleak.protection.ledger.known_rows import id_digests
from fisherleak.protection.ledger.ledger_file import SETTINGS, key_of, read_content, write_content
from fisherleak.training.trained_model import Settings
from often import often

pytest.importorskip("pyarrow")
N = 60
VIP = 7
Later = Callable[[Any], Any]


def people() -> Any:
    """Everything is text, as in a CSV file."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"pid": [f"p{k}" for k in range(N)]})
    frame["x"] = [f"{value:.2f}" for value in rng.uniform(0, 90, N)]
    frame["kids"] = rng.integers(0, 4, N).astype(str)
    frame["city"] = rng.choice(["bonn", "ulm", "lyon"], N)
    frame.loc[50:, "city"] = [f"hamlet {k % 4}" for k in range(10)]  # too few of each to be named
    frame.loc[VIP, "city"] = "Ulm"
    frame["size"] = [f"{a},{b:03d}" for a, b in zip(rng.integers(1, 9, N), rng.integers(0, 999, N), strict=True)]
    frame["flag"] = rng.choice(["true", "false"], N)
    frame["town"] = rng.choice(["Köln", "Bonn"], N)
    wage = np.round(frame["x"].astype(float) + rng.normal(0, 20, N)).astype(int)
    frame["wage"], frame["wage2"] = wage.astype(str), (wage[::-1] + 3).astype(str)
    frame.loc[0, ["x", "kids", "wage2"]] = ["2.00", "2", frame["wage"][0]]
    return frame


def as_new(frame: Any, some: Any) -> Any:
    return frame.assign(pid=[f"new{k}" if k in some else f"p{k}" for k in range(len(frame))])


def release(table: Path, ledger: Path, out: str, *options: str) -> int:
    own = ("--id", "pid", "--noise", "50", "--over", "max", "--ledger", ledger, "--out", ledger.parent / out, "-q")
    target = () if "--target" in options else ("--target", "wage", "--drop", "wage2")
    return main([str(each) for each in ("release", table, *own, *target, *options)])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ledger of one release, L, and one that starts from its totals, C."""
    folder = tmp_path_factory.mktemp("recorded")
    people().to_csv(folder / "a.csv", index=False)
    assert release(folder / "a.csv", folder / "L", "1.skops") == 0
    shutil.copy2(folder / "L", folder / "before")
    assert fl.Ledger(folder / "before").carry_to(folder / "C").entries
    return folder


@pytest.fixture
def here(recorded: Path, tmp_path: Path) -> Path:
    for name in "LC":
        shutil.copy2(recorded / name, tmp_path / name)
    return tmp_path


def unknown(ledger: Path, some: Any) -> list[int]:
    """Rows with new ids in the last release which are not known by the ids that they had before."""
    content = read_content(ledger)
    entry, key = content["entries"][-1], key_of(content)
    found = []
    for k in some:
        new, old = id_digests(key, [f"new{k}", f"p{k}"])
        if new in entry["rows"] and old not in entry["other_ids"].get(new, ()):
            found.append(k)
    return found


def joined(column: str, text: str) -> Later:
    """Five people come, whose text in a column makes its type another."""

    def later(frame: Any) -> Any:
        came = frame.iloc[20:25].assign(**{"pid": [f"z{k}" for k in range(5)], "x": "1.00", column: text})
        return pandas.concat([frame, came])

    return later


def narrow(frame: Any) -> Any:
    kinds = {"x": "float32", "kids": "int8", "wage": "float64", "wage2": "float64", "city": "category"}
    return frame.assign(flag=frame["flag"] == "true").astype(kinds)


EXCHANGED = "pid,kids,x,city,size,flag,town,wage,wage2"
READINGS: dict[str, tuple[tuple[str, ...], Later | None]] = {
    "as it was": ((), None),
    "a number is a category": (("--category", "kids"), None),
    "spellings are united": (("--unite", "city"), None),
    "levels are declared": (("--levels", "city=bonn,ulm,lyon,Ulm,hamlet 1"), None),
    "another decimal mark": (("--decimal", ","), None),
    "bounds": (("--bounds", "x=0:97", "--bounds", "kids=0:7", "--bounds", "wage=-291:250"), None),
    "rows are held out": (("--held-out", "0.2", "--seed", "3"), None),
    "rows are left out": (("--na", "3", "--missing", "drop"), None),
    "another model": (("--public", "preprocessing", "--l2", "0.3"), None),
    "another encoding": (("--encoding", "latin-1"), None),
    "columns exchange names": (("--header", "--columns", EXCHANGED), None),
    "another target": (("--target", "wage2", "--drop", "wage"), None),
    "numbers become text": ((), joined("kids", "unsure")),
    "truths become text": ((), joined("flag", "maybe")),
    "numbers are written otherwise": ((), lambda frame: frame.assign(x=[f"{float(x):.5e}" for x in frame["x"]])),
    "blanks and case": ((), lambda frame: frame.assign(city=[f" {city.title()}" for city in frame["city"]])),
}


@pytest.mark.parametrize("reading", often(READINGS, 5))
def test_nobody_starts_again_on_a_carried_ledger_by_another_reading(here: Path, reading: str) -> None:
    options, later = READINGS[reading]
    new = range(1, N)
    frame = as_new(people(), new)
    (frame if later is None else later(frame)).to_csv(here / "b.csv", index=False)
    assert release(here / "b.csv", here / "C", "2.skops", *options) == 0
    assert unknown(here / "C", new) == []


@pytest.mark.parametrize("ending", ["parquet", "xlsx", "feather"])
@pytest.mark.parametrize("options", [(), ("--category", "kids")])
def test_a_person_is_the_same_in_files_of_every_kind(here: Path, ending: str, options: tuple[str, ...]) -> None:
    new = range(1, N)
    table, frame = here / f"b.{ending}", as_new(people(), new)
    if ending == "xlsx":
        pytest.importorskip("openpyxl")
        narrow(frame).assign(x=frame["x"].astype(float)).to_excel(table, index=False)
    else:
        getattr(narrow(frame), f"to_{ending}")(table)
    assert release(table, here / "C", "2.skops", *options) == 0
    assert unknown(here / "C", new) == []


REFUSED = {
    "a column is left out": ("--drop", "x"),
    "a column has another name": ("--header", "--columns", EXCHANGED.replace("kids,x", "x9,kids")),
    "a column is too many categories": ("--category", "size"),
    "the ids are a column that was used": ("--id", "x"),
    "cells become missing": ("--na", "3"),
}


@pytest.mark.parametrize("ledger", "LC")
@pytest.mark.parametrize("reading", REFUSED)
def test_columns_that_are_not_there_are_no_way_out(here: Path, ledger: str, reading: str) -> None:
    options, before = REFUSED[reading], (here / ledger).read_bytes()
    table = here / "b.csv"
    as_new(people(), range(1, N) if ledger == "C" else [VIP]).to_csv(table, index=False)
    if "--id" in options:
        people().assign(pid=people()["x"]).to_csv(table, index=False)
        options = ("--drop", "x")
    assert release(table, here / ledger, "2.skops", *options) == 2
    assert (here / ledger).read_bytes() == before


ORDINARY = ["as it was", "a number is a category", "spellings are united", "bounds", "another model"]


@pytest.mark.parametrize("reading", often(ORDINARY, 5))
def test_nobody_starts_again_on_an_ordinary_ledger_by_another_reading(
    here: Path, reading: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = here / "b.csv"
    as_new(people(), [VIP]).to_csv(table, index=False)
    assert release(table, here / "L", "2.skops", *READINGS[reading][0]) == 0
    assert unknown(here / "L", [VIP]) == []
    capsys.readouterr()
    assert main(["ledger", str(here / "L"), str(table), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["renamed"], told["left"]) == (1, 0)


@pytest.mark.parametrize(
    "options", [("--target", "wage2", "--drop", "wage"), ("--header", "--columns", EXCHANGED)], ids=["target", "names"]
)
def test_one_row_that_stays_the_same_makes_no_newcomers_of_the_others(
    here: Path, options: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    """Of the first row both targets are the same, and both columns."""
    as_new(people(), range(1, N)).to_csv(here / "b.csv", index=False)
    assert release(here / "b.csv", here / "L", "2.skops", *options) == 2
    assert f"{N - 1} of {N} rows have values that a recorded release had" in capfd.readouterr().err.replace("\n", " ")


def test_ids_are_not_exchanged_behind_a_column_that_is_left_out(here: Path) -> None:
    exchanged = people()
    exchanged.loc[[3, 4], "pid"] = ["p4", "p3"]
    exchanged.to_csv(here / "b.csv", index=False)
    assert release(here / "b.csv", here / "C", "2.skops", "--drop", "x") == 0
    content = read_content(here / "C")
    three, four = id_digests(key_of(content), ["p3", "p4"])
    assert content["entries"][-1]["other_ids"] == {three: [four], four: [three]}


@pytest.mark.long
def test_a_cell_of_zero_is_zero_in_every_unit(here: Path) -> None:
    """Honest ids go on with other bounds: a zero that is scaled and back is no rounding error."""
    frame = people().assign(x=lambda table: np.where(np.arange(N) % 3 == 0, "0", table["x"]))
    frame.to_csv(here / "b.csv", index=False)
    for number, low in enumerate((-60, -33, -7, -1)):
        assert release(here / "b.csv", here / "new", f"{number}.skops", "--bounds", f"x={low}:97.3") == 0


# In Python


def measured(frame: Any, y: Any, *categories: str) -> fl.Leakage:
    encoded = ColumnTransformer([("c", OneHotEncoder(drop="first"), list(categories))], remainder="passthrough")
    return fl.measure(make_pipeline(encoded, Ridge(1.0)).fit(frame, y), frame, y, noise=fl.Gaussian(9.0))


def test_numbers_that_become_text_in_a_frame_hide_no_new_id(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = pandas.DataFrame({"x": rng.normal(size=N).round(3), "kids": rng.integers(0, 4, N)})
    frame.index = pandas.Index([f"p{k}" for k in range(N)])
    y = rng.normal(size=N)
    ledger = fl.Ledger(tmp_path / "L")
    ledger.add(measured(frame, y, "kids"))
    told = ledger.etas(frame, y)
    new = ledger.carry_to(tmp_path / "C")
    later = frame.assign(kids=frame["kids"].map(lambda kids: f"{kids}.0")).set_axis(
        ["p0", *(f"q{k}" for k in range(1, N))]
    )
    assert new.etas(later, y) == pytest.approx(told, rel=1e-5)
    assert new.add(measured(later, y, "kids")) == 2


def test_yes_and_no_in_another_order_is_another_person(tmp_path: Path) -> None:
    """Where cells in any order tell few rows apart, they tell nobody."""
    rows = np.array([[a, b, c, d] for a in (0.0, 1) for b in (0.0, 1) for c in (0.0, 1) for d in (0.0, 1)])
    y = rows @ [1.0, 2.0, 3.0, 4.0] + 0.5
    first, second = (np.delete(np.arange(16), k) for k in (1, 2))
    ledger = fl.Ledger(tmp_path / "L")
    leak = fl.measure(fl.minimise(rows[first], y[first], l2=0.1), rows[first], y[first], noise=fl.Gaussian(9.0))
    ledger.add(leak, ids=first)
    etas = ledger.etas(rows[second], y[second], ids=[100 if k == 1 else k for k in second])
    assert etas[1] == 0.0
    assert np.all(np.delete(etas, 1) > 0)


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ((3, 3.0, "3", "3.0", " 03 ", "+3", "3,0", np.float32(3), np.int8(3), "0.3e1"), "3"),
        ((0.1, "0.1", ".1", "0,10", np.float32(0.1), "1E-1"), "0.1"),
        ((0, 0.0, -0.0, "-0.0", False, "FALSE", np.bool_(False)), "0"),
        (("Ulm", " ulm ", "ULM", b"ulm"), "=ulm"),
        (("2020-01-02", pandas.Timestamp("2020-01-02").date()), "=2020-01-02"),
        ((None, "", "  ", float("nan"), np.nan, pandas.NaT, pandas.NA), ""),
    ],
)
def test_a_cell_has_one_spelling(cells: tuple[Any, ...], text: str) -> None:
    assert {cell_text(cell) for cell in cells} == {text}


# What else a ledger's file could hold


def with_note(content: Any, place: str) -> None:
    """Put the table where no field is."""
    note = people().to_csv()
    entry = [*content["entries"], *content["carried"]][0]
    if place == "file":
        content["note"] = note
    elif place == "entry":
        entry["note"] = note
    elif place == "value":
        entry["at"] = {"note": note}
    elif place == "list":
        entry["eta"].append({"note": note})
    elif place == "columns":
        entry["columns"][0]["note"] = note
    elif place == "settings":
        entry["about"]["settings"]["note"] = note
    else:
        entry[place]["note"] = note


@pytest.mark.parametrize("ledger", "LC")
@pytest.mark.parametrize(
    "place", ["file", "entry", "value", "list", "columns", "settings", "about", "labels", "spent", "written"]
)
def test_a_field_that_no_ledger_has_is_refused_by_its_name(
    here: Path, recorded: Path, ledger: str, place: str, capfd: pytest.CaptureFixture[str]
) -> None:
    book = here / ledger
    content = read_content(book)
    with_note(content, place)
    write_content(book, content)
    model, table = str(recorded / "1.skops"), str(recorded / "a.csv")
    for command in (
        ["verify", model, "--ledger", str(book)],
        ["ledger", str(book), table],
        ["ledger", str(book), "--carry-to", str(here / "new")],
        ["release", table, "--target", "wage", "--noise", "9", "--ledger", str(book), "--out", str(here / "m.skops")],
    ):
        assert main(command) == 2, command
        assert "has the field 'note', which no ledger has" in capfd.readouterr().err.replace("\n", " ")
    assert not (here / "new").exists()


def test_ledgers_know_all_settings() -> None:
    assert {item.name for item in fields(Settings)} <= set(SETTINGS)


# Nobody leaves a ledger, and no total falls, by how the last release read the table

OUTLIER = 7


@pytest.fixture(scope="module")
def spent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table in which one person stands out, and its ledgers of one release: by id, and by row numbers."""
    folder = tmp_path_factory.mktemp("spent")
    rng = np.random.default_rng(5)
    frame = pandas.DataFrame({"pid": [f"p{k}" for k in range(N)], "a": rng.normal(50, 10, N).round(2)})
    frame["b"] = rng.normal(5, 2, N).round(2)
    frame["y"] = (0.1 * frame.a + frame.b + rng.normal(0, 1, N)).round(2)
    frame.loc[OUTLIER, ["a", "y"]] = [93.17, 29.5]
    frame.to_csv(folder / "s.csv", index=False)
    frame.replace({"pid": {f"p{OUTLIER}": "new"}}).to_csv(folder / "renamed.csv", index=False)
    for ledger, own in (("L", ("--id", "pid")), ("R", ("--drop", "pid"))):
        assert told_again(folder, ledger, *own, noise="0.02") == 0
    return folder


def told_again(folder: Path, ledger: str, *options: str, noise: str = "50", table: str = "s.csv") -> int:
    own = ("--target", "y", "--noise", noise, "--over", "max", "--ledger", folder / ledger, "--overwrite", "-q")
    return main([str(each) for each in ("release", folder / table, *own, "--out", folder / "m.skops", *options)])


def told(folder: Path, ledger: str, capfd: pytest.CaptureFixture[str], table: str = "s.csv") -> tuple[Any, Any, int]:
    """The etas of all rows by id, what is printed, and the exit status."""
    capfd.readouterr()
    status = main(["ledger", str(folder / ledger), str(folder / table), "--json", "--limit", "11"])
    document = json.loads(capfd.readouterr().out)
    return {row["id"]: row["eta"] for row in document["most_exposed"]}, document, status


@pytest.fixture
def spending(spent: Path, tmp_path: Path) -> Path:
    for path in spent.iterdir():
        shutil.copy2(path, tmp_path)
    return tmp_path


LEFT_OUT = ("--na", "93.17", "--missing", "drop")


@pytest.mark.parametrize(
    ("ledger", "own", "who"), [("L", ("--id", "pid"), f"p{OUTLIER}"), ("R", ("--drop", "pid"), str(OUTLIER + 1))]
)
def test_whoever_the_last_release_left_out_is_told_of(
    spending: Path, ledger: str, own: tuple[str, ...], who: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before, document, status = told(spending, ledger, capfd)
    assert (status, document["past_limit"]) == (1, [who])
    assert told_again(spending, ledger, *own, *LEFT_OUT) == 0
    after, document, status = told(spending, ledger, capfd)
    assert (status, document["past_limit"], document["left"], document["rows"]) == (1, [who], 0, N)
    assert after[who] >= before[who] * (1 - 1e-9)


def test_whoever_is_left_out_is_held_against_the_limit(spending: Path, capfd: pytest.CaptureFixture[str]) -> None:
    book = (spending / "L").read_bytes()
    assert told_again(spending, "L", "--id", "pid", *LEFT_OUT, "--limit", "14") == 1
    said = " ".join(capfd.readouterr().err.split())
    assert (
        f"Rows that this release leaves out are above the limit of 14 because of earlier releases: p{OUTLIER}" in said
    )
    assert (spending / "L").read_bytes() == book
    assert told_again(spending, "L", "--id", "pid", *LEFT_OUT, "--limit", "15") == 0


def test_a_new_id_of_a_row_that_is_left_out_is_known_by_its_cells(
    spending: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert told_again(spending, "L", "--id", "pid", *LEFT_OUT, "--limit", "14", table="renamed.csv") == 1
    assert told_again(spending, "L", "--id", "pid", *LEFT_OUT, table="renamed.csv") == 0
    _, document, status = told(spending, "L", capfd, "renamed.csv")
    assert (status, document["past_limit"], document["left"]) == (1, ["new"], 0)


def test_nobody_is_told_of_who_is_not_there(spending: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pandas.read_csv(spending / "s.csv").drop(index=OUTLIER).to_csv(spending / "without.csv", index=False)
    _, document, status = told(spending, "L", capfd, "without.csv")
    assert (status, document["left"], document["rows"]) == (0, 1, N - 1)


@pytest.mark.parametrize("options", [LEFT_OUT, (), ("--bounds", "a=0:100", "--bounds", "y=0:30")])
def test_a_release_lowers_nobodys_total(
    spending: Path, options: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    before, _, _ = told(spending, "L", capfd)
    assert told_again(spending, "L", "--id", "pid", *options) == 0
    after, _, _ = told(spending, "L", capfd)
    assert len(before.keys() & after.keys()) > 10
    for who in before.keys() & after.keys():
        assert after[who] >= before[who] * (1 - 1e-9), who


def without_columns(entry: Any) -> None:
    del entry["columns"]


def without_about(entry: Any) -> None:
    del entry["about"]


def eta_of_text(entry: Any) -> None:
    entry["eta"][0] = "x"


def spent_of_text(entry: Any) -> None:
    entry["spent"]["eta"][0] = "x"


def unit_of_text(entry: Any) -> None:
    entry["spent"]["units"]["a"] = "x"


def deep(entry: Any) -> None:
    entry["theta"] = json.loads("[" * 700 + "]" * 700)


@pytest.mark.parametrize("wrong", [without_columns, without_about, eta_of_text, spent_of_text, unit_of_text, deep])
def test_a_damaged_entry_is_refused_before_anything_is_carried_over(
    spending: Path, wrong: Callable[[Any], None], capfd: pytest.CaptureFixture[str]
) -> None:
    book, new = spending / "L", spending / "new"
    content = read_content(book)
    wrong(content["entries"][0])
    write_content(book, content)
    before = book.read_bytes()
    assert main(["ledger", str(book), "--carry-to", str(new)]) == 2
    said = " ".join(capfd.readouterr().err.split())
    assert "is damaged: " in said
    assert said.endswith("Restore it from a copy.")
    assert book.read_bytes() == before
    assert not new.exists()
    main(["verify", str(spending / "m.skops"), "--ledger", str(book)])
    assert "should not happen" not in capfd.readouterr().err


def test_a_ledger_is_the_text_that_the_program_writes(spending: Path, capfd: pytest.CaptureFixture[str]) -> None:
    book, table = spending / "R", (spending / "s.csv").read_text(encoding="utf-8")
    model, text = str(spending / "m.skops"), book.read_text(encoding="utf-8")
    assert main(["verify", model, "--ledger", str(book)]) == 0
    for other in (
        json.dumps({"digest": table})[:-1] + ", " + text[1:],
        text + "\n",
        text.replace(", ", ",  ", 1),
        text.replace("schema", "\\u0073chema", 1),
    ):
        book.write_text(other, encoding="utf-8")
        capfd.readouterr()
        assert main(["verify", model, "--ledger", str(book)]) == 2
        assert "is not laid out as ledgers are written" in " ".join(capfd.readouterr().err.split())
