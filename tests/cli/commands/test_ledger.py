"""Releases on a ledger: counted together, refused past a limit by name, and read against a table that has grown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import fisherleak as fl
from often import often

Command = Callable[..., Any]


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return tmp_path / "people.ledger.json"


def release(fisherleak: Command, table: Path, book: Path, number: int, *options: object) -> Any:
    out = table.parent / f"m{number}.skops"
    named = ("--target", "sick", "--id", "person", "--eta", "0.4", "--out", out, "--ledger", book)
    return fisherleak("release", table, *named, *options)


def etas(fisherleak: Command, table: Path, *options: object) -> dict[str, float]:
    done = fisherleak("ledger", *options, table, "--json")
    assert done.status == 0, done.err
    document = json.loads(done.out)
    return {row["id"]: row["eta"] for row in document["most_exposed"]} | {"releases": len(document["releases"])}


@pytest.mark.parametrize(
    ("target", "public"), often([("sick", "nothing"), ("income", "nothing"), ("income", "preprocessing")])
)
def test_one_release_has_the_etas_of_its_audit_and_k_the_root_of_k_times_these(
    fisherleak: Command, people: Path, book: Path, tmp_path: Path, target: str, public: str
) -> None:
    out = tmp_path / "model.skops"
    options = (
        "--target",
        target,
        "--id",
        "person",
        "--eta",
        "0.4",
        "--public",
        public,
        "--ledger",
        book,
        "--overwrite",
    )
    largest = 0.0
    for times in (1, 2, 3):
        done = fisherleak("release", people, "--out", out, *options)
        assert (done.status, done.err) == (0, "")
        if times == 1:
            audit = fisherleak("audit", people, "--released", out, "--json", "--draws", "4", "--no-attacks")
            largest = json.loads(audit.out)["eta"]["examples"]["max"]
        found = etas(fisherleak, people, book)
        assert found.pop("releases") == times
        assert max(found.values()) == pytest.approx(np.sqrt(times) * largest, rel=1e-6)


def test_a_release_past_the_limit_is_refused_by_id_and_nothing_is_written(
    fisherleak: Command, people: Path, book: Path
) -> None:
    assert release(fisherleak, people, book, 1, "--limit", "0.5").status == 0
    before = book.read_bytes()
    (worst, *_) = etas(fisherleak, people, book)
    done = release(fisherleak, people, book, 2, "--limit", "0.5")
    assert done.status == 1
    assert f"{worst} (by 0." in done.err
    assert "past the limit of 0.5" in done.err
    assert book.read_bytes() == before
    assert not (people.parent / "m2.skops").exists()
    assert not (people.parent / "m2.skops.json").exists()


@pytest.mark.long
def test_a_table_that_has_grown_is_matched_by_id(fisherleak: Command, people: Path, book: Path, frame: Any) -> None:
    first = people.parent / "first.csv"
    frame.iloc[:100].to_csv(first, index=False)
    levels = ("--levels", "city=Bonn,Genua,<b>Łódź</b>", "--levels", "vip=False,True")
    assert release(fisherleak, first, book, 1, *levels).status == 0
    early = etas(fisherleak, first, book)
    grown = etas(fisherleak, people, book)
    assert grown.keys() == early.keys()
    assert not set(frame.iloc[100:]["person"]) & set(grown)
    shuffled = people.parent / "shuffled.csv"
    frame.sample(frac=1.0, random_state=0).to_csv(shuffled, index=False)
    assert etas(fisherleak, shuffled, book) == pytest.approx(grown, rel=1e-6)
    assert release(fisherleak, people, book, 2, *levels).status == 0
    both = etas(fisherleak, people, book)
    assert max(both.values()) > 0
    assert both["releases"] == 2


def test_ids_that_become_text_are_who_they_were_and_other_ids_are_refused(
    fisherleak: Command, people: Path, book: Path, frame: Any
) -> None:
    """Numbers with zeros in front are numbers as long as all of the column are."""
    first, second = people.parent / "first.csv", people.parent / "second.csv"
    numbered = pandas.DataFrame(frame).assign(person=[f"{k:04d}" for k in range(1, 121)])
    numbered.iloc[:110].to_csv(first, index=False)
    numbered.assign(person=[*numbered["person"][:119], "new"]).to_csv(second, index=False)
    levels = ("--levels", "city=Bonn,Genua,<b>Łódź</b>", "--levels", "vip=False,True")
    assert release(fisherleak, first, book, 1, *levels).status == 0
    assert release(fisherleak, second, book, 2, *levels).status == 0
    assert None not in fl.Ledger(book).recorded("0007")
    assert fl.Ledger(book).recorded("new")[0] is None
    unnamed = ("--target", "sick", "--eta", "0.4", "--out", people.parent / "m3.skops", "--ledger", book)
    mixed = pandas.DataFrame(frame).assign(person=[f"x{k}" for k in range(120)])
    mixed.to_csv(second, index=False)
    done = fisherleak("release", second, *unnamed, "--id", "person", *levels)
    assert done.status == 2
    assert "ledger of another table" in done.err
    assert not (people.parent / "m3.skops").exists()


def test_those_who_left_are_said(fisherleak: Command, people: Path, book: Path, frame: Any) -> None:
    assert release(fisherleak, people, book, 1).status == 0
    assert "left the table" not in fisherleak("ledger", book, people).out
    pandas.DataFrame(frame).iloc[7:].to_csv(people, index=False)
    assert "7 more left the table" in fisherleak("ledger", book, people).out
    assert json.loads(fisherleak("ledger", book, people, "--json").out)["left"] == 7


def test_python_reads_the_same_ledger(fisherleak: Command, people: Path, book: Path) -> None:
    release(fisherleak, people, book, 1)
    (entry,) = fl.Ledger(book).entries
    assert entry["rows"] == 120
    assert "Gaussian" in entry["what"]
    assert fl.Ledger(book).recorded("p003")[0] is not None
    assert fl.Ledger(book).recorded("nobody") == [None]


def test_people_read_it(fisherleak: Command, people: Path, book: Path) -> None:
    release(fisherleak, people, book, 1)
    done = fisherleak("ledger", book, people, "--limit", "0.1")
    assert done.status == 1
    assert "above the limit of 0.1" in done.out
    assert "###" in done.out
    assert "Most exposed" in done.out
    assert "confidential" in done.out
    assert fisherleak("ledger", book, people, "--limit", "9", "--quiet").out == ""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text[:-9], "is damaged"),
        (lambda text: text.replace("fisherleak.ledger/", "other/"), "is no ledger"),
    ],
)
def test_damaged_and_foreign_ledgers_are_refused(
    fisherleak: Command, people: Path, book: Path, change: Callable[[str], str], reason: str
) -> None:
    release(fisherleak, people, book, 1)
    book.write_text(change(book.read_text(encoding="utf-8")), encoding="utf-8")
    for done in (fisherleak("ledger", book, people), release(fisherleak, people, book, 2)):
        assert done.status == 2
        assert reason in done.err
    assert not (people.parent / "m2.skops").exists()


def test_what_does_not_fit_is_refused(fisherleak: Command, people: Path, book: Path, frame: Any) -> None:
    named = ("--target", "sick", "--eta", "0.4", "--out", people.parent / "m.skops")
    alone = fisherleak("release", people, *named, "--limit", "1")
    assert alone.status == 2
    assert "--ledger" in alone.err
    same = fisherleak("release", people, *named, "--ledger", people.parent / "m.skops")
    assert same.status == 2
    assert "--ledger and --out would both write" in same.err
    missing = fisherleak("ledger", book, people)
    assert missing.status == 2
    assert "does not exist" in missing.err
    release(fisherleak, people, book, 1)
    changed = people.parent / "changed.csv"
    pandas.DataFrame(frame).assign(age=frame["age"] + (frame["person"] == "p004")).to_csv(changed, index=False)
    done = fisherleak("ledger", book, changed)
    assert done.status == 2
    assert "other values" in done.err


def test_a_release_that_could_not_be_read_back_is_refused(
    fisherleak: Command, people: Path, book: Path, frame: Any
) -> None:
    """Without a limit too: the ledger is as it was, and is read."""
    release(fisherleak, people, book, 1)
    named = ("--eta", "0.4", "--id", "person", "--ledger", book, "--out", people.parent / "m.skops")
    fewer = fisherleak("release", people, "--target", "sick", "--drop", "age", *named)
    assert fewer.status == 2
    assert "used column 'age'" in fewer.err
    other = people.parent / "other.csv"
    pandas.DataFrame(frame).assign(sick=frame["sick"].iloc[::-1].to_numpy()).to_csv(other, index=False)
    assert fisherleak("release", other, "--target", "sick", *named).status == 2
    assert not (people.parent / "m.skops").exists()
    told = fisherleak("ledger", book, people, "--json")
    assert told.status == 0
    assert len(json.loads(told.out)["releases"]) == 1
