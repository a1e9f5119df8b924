"""What could be chosen in the spelling of a model card, in the packages that it names, and in the values of a ledger's file."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.linear_model import Ridge

pytest.importorskip("pyarrow")
pytest.importorskip("skops")

import fisherleak as fl
from attacks_on_us.test_cards_and_ledgers import card_of, rewritten
from copies import copied_release
from fisherleak.errors import DataError
from fisherleak.protection.ledger.ledger_file import read_content, write_content
from fisherleak.releasing.cards.card_fields import PACKAGES, wrong_place
from fisherleak.releasing.files.released_files import save_model
from fisherleak.releasing.files.verification import verify
from fisherleak.tables import RawTable, from_frame
from fisherleak.training.trained_model import Settings

Json = dict[str, Any]
ROWS = 600
ENDS = (("x0", (0.0, 100.0)), ("x1", (0.0, 100.0)), ("y", (-200.0, 200.0)))


@pytest.fixture(scope="module")
def raw() -> RawTable:
    rng = np.random.default_rng(2)
    frame: Json = {f"x{j}": rng.normal(50, 10, ROWS).round(1) for j in range(2)}
    frame["part"] = rng.choice(["1", "2", "3"], ROWS)
    frame["y"] = (frame["x0"] - frame["x1"] + rng.normal(0, 5, ROWS)).round(1)
    return from_frame(pandas.DataFrame(frame))


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory, raw: RawTable) -> dict[str, Path]:
    """Releases of a noise and of a limit, both given as whole numbers."""
    folder = tmp_path_factory.mktemp("made")
    settings = Settings("y", held_out=0.0, l2=1, bounds=ENDS)
    save_model(raw, settings, folder / "noise.skops", noise=2, random_state=0)
    save_model(raw, settings, folder / "limit.skops", eta=2, random_state=0)
    return {way: folder / f"{way}.skops" for way in ("noise", "limit")}


@pytest.fixture(params=["noise", "limit"])
def made(request: pytest.FixtureRequest, tmp_path: Path, made_once: dict[str, Path]) -> Path:
    return copied_release(made_once[request.param], tmp_path)


def is_refused(path: Path) -> bool:
    try:
        return verify(path).failed is not None
    except DataError:
        return True


Way = tuple[str | int, ...]


def numbers_in(value: Any, way: Way = ()) -> Iterator[tuple[Way, Any]]:
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers_in(each, (*way, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield way, value


def put(card: Json, way: Way, value: Any) -> None:
    *before, last = way
    place: Any = card
    for key in before:
        place = place[key]
    place[last] = value


def other_spellings(value: Any) -> list[Any]:
    """The same number, written otherwise."""
    if isinstance(value, int):
        return [float(value)]
    return [int(value)] * value.is_integer() + [-0.0] * (value == 0.0)


def test_every_number_of_a_card_is_written_in_one_way(made: Path) -> None:
    card = card_of(made)
    tried: set[str | int] = set()
    assert verify(made).failed is None
    for way, value in numbers_in(card):
        for other in other_spellings(value):
            assert other == value
            changed = json.loads(json.dumps(card))
            put(changed, way, other)
            assert wrong_place(changed) is not None, way
            tried.add(way[-1] if isinstance(way[-1], str) else way[0])
    assert {
        "centre",
        "parameters",
        "rows",
        *(("limit", "eta") if "calibrated" in card["noise"] else ("scale",)),
    } <= tried


def test_a_number_of_a_card_that_is_written_otherwise_is_refused_by_verify(
    made_once: dict[str, Path], tmp_path: Path
) -> None:
    made = copied_release(made_once["limit"], tmp_path)
    rewritten(made, lambda card: card["eta"].update(limit=2))
    assert is_refused(made)
    rewritten(made, lambda card: card["eta"].update(limit=2.0))
    assert not is_refused(made)


def test_a_card_names_the_same_packages_whatever_is_loaded(
    raw: RawTable, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (*card_of(made)["versions"],) == PACKAGES
    for name in ("dask", "distributed"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    save_model(raw, Settings("y", held_out=0.0, bounds=ENDS), tmp_path / "again.skops", noise=2.0)
    assert (*card_of(tmp_path / "again.skops")["versions"],) == PACKAGES


VERSIONS: dict[str, Callable[[Json], Any]] = {
    "one that is left out": lambda own: own.pop("pyarrow"),
    "one more": lambda own: own.update(dask="2026.1.1"),
    "another order": lambda own: own.update(numpy=own.pop("numpy")),
}


@pytest.mark.parametrize("change", VERSIONS)
def test_no_other_packages_fit_on_a_card(made_once: dict[str, Path], tmp_path: Path, change: str) -> None:
    made = copied_release(made_once["noise"], tmp_path)
    rewritten(made, lambda card: VERSIONS[change](card["versions"]))
    assert is_refused(made)


# A ledger: its digest is made anew, so that only what stands in it can tell


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Two releases, the second of rows of which one has another id."""
    rng = np.random.default_rng(1)
    table = pandas.DataFrame(rng.normal(size=(30, 2)).round(3), columns=["age", "dose"])
    y = table["age"] + rng.normal(size=30)
    book = fl.Ledger(tmp_path / "l.ledger")
    for noise, ids in ((0.5, np.arange(30)), (0.7, [*range(29), 99])):
        book.add(fl.measure(Ridge(1.0).fit(table, y), table, y, noise=fl.Gaussian(noise)), ids=np.array(ids))
    return book.path


def test_a_ledger_as_it_was_written_is_read(ledger: Path, tmp_path: Path) -> None:
    content = read_content(ledger)
    assert len(content["entries"]) == 2
    assert content["entries"][1]["other_ids"]
    carried = fl.Ledger(ledger).carry_to(tmp_path / "next.ledger")
    assert len(read_content(carried.path)["carried"]) == 2
    assert read_content(ledger)["carried_to"] == str(carried.path)
    # where 0.2.0 put these two in a file that lacked them
    moved = {
        "carried": [],
        **{k: v for k, v in json.loads(ledger.read_text()).items() if k not in ("carried", "carried_to")},
    }
    ledger.write_text(json.dumps(moved | {"carried_to": "elsewhere"}))
    content = json.loads(ledger.read_text())
    write_content(ledger, content)
    assert read_content(ledger)["carried_to"] == "elsewhere"


def turned(record: Json) -> None:
    """The same fields in another order."""
    for name in reversed([*record]):
        record[name] = record.pop(name)


SECRET = "17,ill,4500;18,well,1200"  # noqa: S105 - a part of a table
EDITS: dict[str, Callable[[Json], Any]] = {
    "order of an entry": turned,
    "order of labels": lambda entry: turned(entry["labels"]),
    "order of cells": lambda entry: turned(entry["cells"]),
    "order of a column": lambda entry: turned(entry["columns"][0]),
    "when": lambda entry: entry.update(at=SECRET),
    "what": lambda entry: entry.update(what=f"Gaussian(scale=0.5)\n{SECRET}"),
    "a long noise": lambda entry: entry.update(what=f"Gaussian({SECRET * 40})"),
    "ids": lambda entry: entry["rows"].__setitem__(0, SECRET),
    "values": lambda entry: entry.update(values=SECRET),
    "more values": lambda entry: entry["values"].append("0" * 16),
    "cells": lambda entry: entry["cells"].update(age=SECRET),
    "written": lambda entry: entry["written"].update(values=[SECRET]),
    "parameters": lambda entry: entry["theta"].append(SECRET),
    "a covariance": lambda entry: entry.update(B=[[SECRET]]),
    "etas": lambda entry: entry["eta"].append(1.0),
    "a loss": lambda entry: entry["loss"].update(name=SECRET),
    "a kind": lambda entry: entry["columns"][0].update(kind=SECRET),
    "a source": lambda entry: entry["columns"][0].update(sources=[SECRET * 60]),
    "a record in a list": lambda entry: entry["theta"].append({SECRET: 1}),
    "units": lambda entry: entry["spent"].update(units={SECRET: 1.0}),
    "other ids": lambda entry: entry["other_ids"].update({SECRET: []}),
}


@pytest.mark.parametrize("edit", EDITS)
def test_nothing_fits_into_the_values_of_a_ledger(ledger: Path, edit: str) -> None:
    content = json.loads(ledger.read_text())
    EDITS[edit](content["entries"][1])
    write_content(ledger, content)
    with pytest.raises(DataError, match="may hold other data") as said:
        read_content(ledger)
    assert SECRET * 5 not in str(said.value)


def test_the_documentation_says_what_a_publisher_can_choose_with_his_own_key() -> None:
    text = (Path(__file__).parents[2] / "docs" / "promises.md").read_text(encoding="utf-8")
    assert "250 bits" in text
    assert "nonce" in text
    assert "randomness" in text
