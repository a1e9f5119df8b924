"""The page on how tables are read says what is done: each of its decisions on a small table, with its sentence and its option."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("openpyxl")

import pandas

from fisherleak.errors import FisherleakError
from fisherleak.tables import Choices, RawTable, design_of, from_frame, read_table

PAGE = Path(__file__).parents[2] / "docs" / "how-tables-are-read.md"
K = np.arange(60)
RNG = np.random.default_rng(0)
Z, Y = RNG.normal(size=60).round(3), RNG.normal(size=60).round(3)
PAIRS = RNG.permutation(np.repeat(np.arange(30), 2))
AGES = 20 + K * 7 % 13
Given = dict[str, Any]


def rows_of_the_page() -> dict[str, tuple[str, str]]:
    """What is said of each decision, and how it is changed."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    table = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    titles = ["decision", "rule", "printed", "to change it"]
    assert table.count(titles) == 5
    assert all(len(row) == 4 for row in table)
    return {row[0]: (row[2], row[3]) for row in table if row not in (titles, ["---"] * 4)}


@dataclass(frozen=True)
class Case:
    """A table, and what changes what is decided; None where nothing does, or the table has to be another."""

    table: Any
    changed: Given | None = None
    given: Given = field(default_factory=dict)
    name: str = "t.csv"


def x(values: Any, name: str = "x", **others: Any) -> pandas.DataFrame:
    return pandas.DataFrame({name: values, "z": Z, "y": Y} | others)


def csv(frame: pandas.DataFrame, **given: Any) -> str:
    return str(frame.to_csv(index=False, **given))


def target(values: Any) -> pandas.DataFrame:
    return pandas.DataFrame({"z": Z, "y": values})


def workbook(*sheets: tuple[str, list[list[Any]]], merge: tuple[str, ...] = ()) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with pandas.ExcelWriter(path) as book:
            for name, rows in sheets:
                pandas.DataFrame(rows).to_excel(book, sheet_name=name, index=False, header=False)
                for cells in merge:
                    book.sheets[name].merge_cells(cells)

    return write


def labelled(path: Path) -> None:
    x(K % 2 + 1, "sex").to_stata(path, write_index=False, value_labels={"sex": {1: "m", 2: "f"}})


def gaps(values: Any, every: int) -> Any:
    return [None if k % every == 0 else value for k, value in enumerate(values)]


PLAIN = csv(x(AGES))
CELLS: list[list[Any]] = [["x", "z", "y"], *map(list, zip(AGES.tolist(), Z.tolist(), Y.tolist(), strict=True))]
TOWNS = np.array(["a", "b"])[K % 2]
POOLED = pandas.DataFrame({"x": [*(f"v{k}" for k in range(54)), *("abcd" * 40), *[None] * 6]}, dtype=object)
POOLED["z"], POOLED["y"] = RNG.normal(size=(2, len(POOLED)))
CASES = {
    "kind of file": Case("%PDF-1.4 of something\n"),
    "sheet": Case(workbook(("sheet 1", CELLS), ("sheet 2", CELLS)), {"sheet": "2"}, name="t.xlsx"),
    "labels of values": Case(labelled, name="t.dta"),
    "delimiter": Case(csv(x(AGES), sep=";"), {"delimiter": ";"}),
    "encoding": Case(PLAIN.replace("x,z", "ä,z").encode("latin-1"), {"encoding": "latin-1"}),
    "lines above the header": Case("A title\n" + PLAIN, {"columns": ["a", "b", "y"], "header": False}),
    "rows below the header": Case(PLAIN.replace("x,z,y\n", "x,z,y\nyears,m,m\n"), {"header": True, "numbers": ["y"]}),
    "merged headers": Case(
        workbook(("one", [["x", "z", None], [None, "z1", "y"], *CELLS[1:]]), merge=("B1:C1",)),
        {"header": False, "target": "column 3"},
        {"target": "z y"},
        "t.xlsx",
    ),
    "header": Case(PLAIN.removeprefix("x,z,y\n"), {"columns": ["x", "z", "y"]}),
    "a delimiter at the end of rows": Case(
        PLAIN.replace("\n", ",\n").replace("y,\n", "y\n"), {"columns": ["x", "z", "y"], "header": True}, name="t.csv"
    ),
    "a header with one name fewer than the rows have fields": Case(
        x(AGES).to_csv().lstrip(","), {"columns": ["n", "x", "z", "y"], "header": True}
    ),
    "columns without a name": Case(csv(x(AGES, "")), {"columns": ["x", "z", "y"], "header": True}),
    "blanks around names": Case(PLAIN.replace("x,z,y", "x, z , y")),
    "a last row of totals": Case(
        csv(
            pandas.concat(
                [x(AGES, town=TOWNS), x(AGES, town=TOWNS).sum(numeric_only=True).to_frame().T.assign(town="Total")]
            )
        ),
        {"keep_total": True},
    ),
    "missing": Case(csv(x(AGES)).replace("20,", ",")),
    "text that holds numbers": Case(x([f"{v:.2f} EUR" for v in 100 + Z]), {"categories": ["x"]}),
    "few numbers as text": Case(x(K.astype(str).astype("U1")), {"numbers": ["x"]}),
    "leading zeros": Case(csv(x([f"{k % 20:03d}" for k in K])), {"numbers": ["x"]}),
    "decimal mark": Case(x([f"{k % 9 + 1},{100 + k}" for k in K]), {"categories": ["x"]}),
    "missing among numbers": Case(x(np.where(K == 3, "?", Z.astype(str))), {"categories": ["x"]}),
    "missing in a target of text": Case(target(np.where(K < 6, "?", TOWNS)), {"categories": ["y"]}),
    "numbers in place of missing ones": Case(x(np.where(K % 9 == 0, 999, AGES)), {"na": ["999"]}),
    "cells that are no numbers": Case(x(np.where(K == 3, "oops", Z.astype(str))), {"categories": ["x"]}),
    "spellings": Case(x(np.where(K % 4 == 0, "A", TOWNS)), {"unite": ["x"]}),
    "infinite values": Case(x(np.where(K == 3, np.inf, Z)), {"drop": ["x"]}),
    "numbers": Case(x(Z + 1), {"drop": ["x"]}),
    "two values": Case(x(K % 2), {"numbers": ["x"]}),
    "identifiers by name": Case(x(7919 * RNG.permutation(60), "Kundennummer"), {"numbers": ["Kundennummer"]}),
    "identifiers by digits": Case(x(41_790_000_000 + 7919 * RNG.permutation(60)), {"numbers": ["x"]}),
    "an index of pandas": Case(x(Z, "__index_level_0__"), {"numbers": ["__index_level_0__"]}),
    "identifiers of several rows": Case(x(PAIRS, "school_id"), {"person": "school_id"}),
    "people that repeat": Case(x(PAIRS, "PatNr"), {"person": "PatNr"}),
    "other numbers under such a name": Case(x(3 * PAIRS, "no"), {"drop": ["no"]}),
    "numbers of rows": Case(x(RNG.permutation(60)), {"drop": ["x"]}),
    "numbers of blocks": Case(x(K // 2), {"person": "x"}),
    "postal codes": Case(x(501 + 1600 * PAIRS, "PLZ"), {"categories": ["PLZ"]}),
    "codes of kinds": Case(x(K % 4, "race"), {"categories": ["race"]}),
    "text": Case(x(TOWNS), {"drop": ["x"]}),
    "text of many values": Case(POOLED, {"categories": ["x"]}),
    "names": Case(x([f"name {k}" for k in K]), {"categories": ["x"]}),
    "amounts and dates as text": Case(x([f"{v:.3f} kg" for v in Z + 60]), {"categories": ["x"]}),
    "the column of `--person`": Case(x(PAIRS, "PatNr"), {"person": None}, {"person": "PatNr"}),
    "dates, times, lists": Case(x(pandas.date_range("2020-01-01", periods=60))),
    "one value only, or none": Case(x(["a"] * 60)),
    "a copy of the target": Case(x(1 - Y), {"drop": ["x"]}),
    "gaps in numbers": Case(x(np.where(K == 7, np.nan, Z)), {"missing": "drop"}),
    "many gaps in numbers": Case(x(np.where(K % 5 == 0, np.nan, Z)), {"missing": "drop"}),
    "gaps in categories": Case(x(gaps(TOWNS, 5)), {"missing": "drop"}),
    "gaps where categories are pooled": Case(POOLED, {"missing": "drop"}),
    "few gaps in categories": Case(x(gaps(TOWNS, 30)), {"missing": "drop"}),
    "kind of model": Case(target(TOWNS), {"model": "logistic"}),
    "few whole numbers": Case(target(3 * (K % 4)), {"model": "softmax"}),
    "rare classes": Case(target(np.where(K == 7, "yes", "no"))),
    "times and events": Case(x(np.abs(Z), "futime", status=K % 2), {"drop": ["futime"]}),
}


def opened(case: Case, tmp_path: Path, **given: Any) -> RawTable:
    if isinstance(case.table, pandas.DataFrame):
        return from_frame(case.table)
    path = tmp_path / case.name
    if callable(case.table):
        case.table(path)
    else:
        path.write_bytes(case.table if isinstance(case.table, bytes) else case.table.encode())
    return read_table(path, **given)


def said(case: Case, tmp_path: Path, given: Given) -> str:
    """All that is said of a table, and what its columns are listed as."""
    reading = {key: given[key] for key in ("sheet", "delimiter", "encoding", "header", "columns") if key in given}
    own: Any = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in given.items()
        if key not in (*reading, "model", "target")
    }
    try:
        raw = opened(case, tmp_path, **reading)
        choices = Choices(given.get("target", "y"), **own)
        design = design_of(raw, choices, given.get("model", "auto"), held_out=0.0)
    except FisherleakError as error:
        return f"refusal: {error}"
    kinds = [
        f"listed as {'two values' if c.yes_no else f'a {c.kind}'}" for c in design.columns if c.name in ("x", "PatNr")
    ]
    return "\n".join([*design.decided, *kinds])


def test_the_page_has_the_decisions_that_are_tested() -> None:
    assert list(rows_of_the_page()) == list(CASES)


@pytest.mark.parametrize("decision", CASES)
def test_a_decision_is_said_as_the_page_says_and_changed_by_its_option(decision: str, tmp_path: Path) -> None:
    case = CASES[decision]
    words, change = rows_of_the_page()[decision]
    phrases = re.findall(r'"([^"]*)"', words) or re.findall(r"listed as .*", words)
    assert phrases or words == "nothing is changed"
    before = said(case, tmp_path, case.given)
    assert before.startswith("refusal:") == words.startswith("refusal:")
    assert all(phrase in before for phrase in phrases), before
    if case.changed is not None:
        assert change
        assert phrases[0] not in said(case, tmp_path, {**case.given, **case.changed})
