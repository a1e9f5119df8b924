"""One row, or one value, changes how a file is read: the gate refuses by name, or the reading does not follow it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

pytest.importorskip("openpyxl")

import openpyxl

import fisherleak as fl
from attacks_on_us.under_policy import judged
from fisherleak.tables import Choices, design_of, read_table
from fisherleak.tables.decide.numbers_in_text import Survey, form_of
from fisherleak.tables.read.foreign import _labelled
from fisherleak.tables.read.workbook import FEW_DECIDE

pytestmark = pytest.mark.usefixtures("quick_audits")

N = 120
RNG = np.random.default_rng(0)
X = RNG.integers(30, 42, N)
Y = (X + RNG.normal(size=N)).round(2)
SPREAD = "spread = 12\n"
POLICIES = {
    "a column": f"[columns.x]\nmax_revealed = 0.9\n{SPREAD}",
    "every column": f'[columns."*"]\nmax_revealed = 0.9\nmax_attack = 0.9\n[columns.x]\n{SPREAD}[columns.y]\n{SPREAD}',
    "rows": "[rows]\nmax_eta = 9\n",
    "the label": f"[label]\nmax_revealed = 0.9\n{SPREAD}",
    "membership": "[membership]\nmax_right = 0.999\n",
}
OPTIONS = ("--target", "y", "--noise", "50", "--held-out", "0", "--no-attacks", "--draws", "2", "--l2", "1")
BOUNDS = ("--bounds", "x=0:100", "--bounds", "y=-500:500")
OTHERWISE = "Without one row the column 'z' might be taken for something else"


def frame(cells: list[Any], odd: Any = None) -> pandas.DataFrame:
    """A column beside the one that a policy is about: it tells the same, so that both seem hardly exposed."""
    return pandas.DataFrame(
        {"x": X, "z": pandas.Series([*cells[:7], odd or cells[7], *cells[8:]], dtype=object), "y": Y}
    )


Gate = Callable[..., tuple[int, str]]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def gated(capsys: pytest.CaptureFixture[str]) -> Gate:
    """Audits a table under a policy: the exit status, and what was said on standard error."""

    def gate(table: str, policy: str, *options: str, bounds: tuple[str, ...] = BOUNDS) -> tuple[int, str]:
        Path("policy.toml").write_text(policy, encoding="utf-8")
        status, err, _ = judged(capsys, *OPTIONS, *bounds, *options, table=table)
        return status, " ".join(err.split())

    return gate


MONTHS = [f"2020-{value - 29:02d}-01" for value in X]
DAYS = [datetime.datetime.fromisoformat(month) for month in MONTHS]
ODD_DATES = ["2020-02-30", "2020-01-01T00:00:00Z", "2020-01-01 24:00:00", " ", "later", "10:30"]
SHEETS: dict[str, tuple[list[Any], Any]] = {
    "a date stored as text": (DAYS, "2020-02-01"),
    "a time among dates": (DAYS, datetime.time(3, 4)),
    "a word among dates": (DAYS, "later"),
    "a time stored as text": ([datetime.time(int(value) - 29, 30) for value in X], "03:30:00"),
    "a duration stored as text": ([datetime.timedelta(minutes=int(value)) for value in X], "30 minutes"),
}


@pytest.mark.parametrize("rules", POLICIES)
def test_a_kind_that_one_value_decides_is_refused_under_every_rule(rules: str, gated: Gate) -> None:
    """Dollars are numbers, a copy of x, and refused; with one cell in euros they are categories."""
    dollars = [f"${value}.00" for value in X]
    frame(dollars, "€36.00").to_csv("t.csv", index=False)
    status, err = gated("t.csv", POLICIES[rules])
    assert status == 2
    assert OTHERWISE in err or (rules == "every column" and "differ in their digits only" in err)
    assert gated("t.csv", POLICIES[rules], "--drop", "z")[0] == 0
    frame(dollars).to_csv("t.csv", index=False)
    assert OTHERWISE not in gated("t.csv", POLICIES[rules])[1]


def test_rules_that_limit_nothing_that_is_revealed_take_any_kind(gated: Gate) -> None:
    frame([f"${value}.00" for value in X], "€36.00").to_csv("t.csv", index=False)
    assert gated("t.csv", "[utility]\nmax_loss = 1000\n")[0] == 0


def test_the_kind_that_a_policy_states_is_settled(gated: Gate) -> None:
    frame([f"${value}.00" for value in X], "€36.00").to_csv("t.csv", index=False)
    stated = '[columns.z]\nkind = "category"\n'
    assert gated("t.csv", POLICIES["a column"] + stated)[0] == 0
    assert (
        OTHERWISE in gated("t.csv", POLICIES["membership"] + stated)[1]
    )  # a release shows another kind without the row
    status, err = gated("t.csv", POLICIES["a column"] + stated.replace("category", "number"))
    assert status == 2
    assert "takes 'z' for a number, and here it is a category" in err


@pytest.mark.parametrize("rules", ["a column", "membership"])
@pytest.mark.parametrize("odd", ODD_DATES)
def test_a_cell_that_is_no_date_among_dates_is_refused(odd: str, rules: str, gated: Gate) -> None:
    frame(MONTHS, odd).to_csv("t.csv", index=False)
    status, err = gated("t.csv", POLICIES[rules])
    assert status == 2
    assert OTHERWISE in err


@pytest.mark.parametrize("sheet", SHEETS)
def test_a_cell_of_another_type_in_a_sheet_is_refused(sheet: str, gated: Gate) -> None:
    cells, odd = SHEETS[sheet]
    book([["x", "z", "y"], *frame(cells, odd).to_numpy(dtype=object).tolist()])
    status, err = gated("t.xlsx", POLICIES["a column"])
    assert status == 2
    assert OTHERWISE in err
    assert gated("t.xlsx", POLICIES["a column"], "--drop", "z")[0] == 0
    book([["x", "z", "y"], *frame(cells).to_numpy(dtype=object).tolist()])
    assert gated("t.xlsx", POLICIES["a column"])[0] == 0


def test_dates_of_everyone_are_unused_with_an_impossible_one_too(gated: Gate) -> None:
    """Each row has its own: as texts they are names, and so no row changes what is used."""
    dates = [str(day.date()) for day in pandas.date_range("1950-01-01", periods=N)]
    frame(dates, "1951-02-30").to_csv("t.csv", index=False)
    assert gated("t.csv", POLICIES["a column"])[0] == 0
    assert gated("t.csv", POLICIES["membership"])[0] == 0


BASES = {
    "dates": ["2020-01-01", "2020-02-03"],
    "moments": ["2020-01-01 10:00", "2020-02-03 11:30:05"],
    "parts of seconds": ["2020-01-01 10:00:00.5", "2020-02-03T10:00:00.123456789"],
    "zones": ["2020-01-01T10:00:00Z", "2020-02-03 10:00:00+01:00"],
    "times": ["10:30", "11:31:05"],
    "0x": ["0x1F", "0X2a"],
}
CELLS = [
    *ODD_DATES,
    "0000-01-01",
    "1600-01-01",
    "2020-1-1",
    "20200101",
    "2020-01-01 10",
    "2020-01-01Z",
    " 2020-01-01",
    "24:00",
]
CELLS += [
    "2020-13-01",
    "2020-00-10",
    "2021-02-29",
    "2000-02-29",
    "1900-02-29",
    "10:60",
    "1:30",
    "10:30:15.5",
    "-0x1",
    "0x1g",
    "7",
]
CELLS += ["2020-01-01 10:00:60", "2020-01-01 10:00:00.1234567890", "2020-01-01 10:00:00.", "2020-01-01T10:00:00-0530"]


@pytest.mark.parametrize("base", BASES)
def test_no_cells_are_more_than_text_to_the_reader_alone(base: str, tmp_path: Path) -> None:
    """What is decided again without a row follows how cells are written: where the reader takes them as dates, so does it."""
    for cell in CELLS:
        cells = [*BASES[base], cell]
        (tmp_path / "t.csv").write_text("z,y\n" + "".join(f'"{each}",1\n' for each in cells), encoding="utf-8")
        forms = [form_of(each) for each in cells]
        typed = Survey({form: forms.count(form) for form in forms}).typed
        assert typed or str(read_table(tmp_path / "t.csv").kind("z")) == "string", cell


def stata(odd: int | None, labels: dict[int, str]) -> pandas.DataFrame:
    table = pandas.DataFrame({"x": X.astype(float), "z": RNG.integers(1, 4, N), "y": Y})
    if odd is not None:
        table.loc[7, "z"] = odd
    own: Any = {"z": labels}
    table.to_stata("t.dta", write_index=False, value_labels=own)
    return table


def test_one_value_without_a_label_is_refused(gated: Gate) -> None:
    labels = {1: "low", 2: "middle", 3: "high"}
    stata(None, labels)
    assert str(read_table("t.dta").kind("z")) == "string"
    assert gated("t.dta", POLICIES["a column"])[0] == 0
    stata(9, labels)
    assert str(read_table("t.dta").kind("z")) != "string"
    status, err = gated("t.dta", POLICIES["a column"])
    assert status == 2
    assert OTHERWISE in err
    stated = POLICIES["membership"] + '[columns.z]\nkind = "number"\n'
    assert gated("t.dta", stated, "--number", "z", "--bounds", "z=0:20")[0] == 0


def test_how_labels_are_written_follows_no_row() -> None:
    """Two values with one label: their labels name them, whether a row has the second of them or not."""
    labels = {1: "low", 2: "middle", 3: "high", 9: "high"}
    levels = [{*levels_of(stata(odd, labels))} for odd in (None, 9)]
    assert levels[0] == {"low (1)", "middle (2)", "high (3)"}
    assert levels[1] - levels[0] == {"high (9)"}


def levels_of(_: Any) -> list[Any]:
    (part,) = read_table("t.dta").parts
    return part.read(["z"]).column(0).unique().to_pylist()  # type: ignore[no-any-return]


def test_labels_of_text_and_of_some_values() -> None:
    """As SPSS has them: of texts too, and for codes of missing values alone."""
    table = pandas.DataFrame({"sex": ["m", "f", "m"], "age": [41.0, 999.0, 52.0], "all": [1.0, 2.0, np.nan]})
    labels: Any = {
        "sex": {"m": "man", "f": "woman", "w": "woman"},
        "age": {999.0: "refused"},
        "all": {1.0: "a", 2.0: "b"},
    }
    made, notes = _labelled(table, labels, "t.sav")
    assert made["sex"].tolist() == ["man (m)", "woman (f)", "man (m)"]
    assert made["age"].tolist() == [41.0, 999.0, 52.0]
    assert made["all"].tolist()[:2] == ["a", "b"]
    assert made.attrs[FEW_DECIDE] == {"age": (2, "text")}
    assert "'sex', 'all'" in notes[0]


@pytest.mark.parametrize("form", ["array", "lines", "wrapped"])
def test_no_object_of_json_decides_the_order_of_columns(form: str) -> None:
    rows = [{"y": float(b), "x": int(a), "z": "uvw"[k % 3]} for k, (a, b) in enumerate(zip(X, Y, strict=True))]
    names = set()
    for first in (["x", "y", "z"], ["z", "y", "x"]):
        some = [{name: rows[0][name] for name in first}, *rows[1:]]
        whole = {
            "array": json.dumps(some),
            "lines": "\n".join(map(json.dumps, some)),
            "wrapped": json.dumps({"rows": some}),
        }
        Path("t.json").write_text(whole[form], encoding="utf-8")
        names.add(read_table("t.json").names)
    assert names == {("x", "y", "z")}


def test_no_file_of_several_decides_the_order_of_columns() -> None:
    table, names = frame(MONTHS), set()
    for first in (["x", "y", "z"], ["z", "y", "x"]):
        folder = Path(first[0])
        folder.mkdir()
        table[:1][first].to_parquet(folder / "1.parquet")
        table[1:].to_parquet(folder / "2.parquet")
        names.add(read_table(folder).names)
    assert names == {("x", "y", "z")}


def book(rows: list[list[Any]], *merged: str) -> None:
    made = openpyxl.Workbook()
    for row in rows:
        made.active.append(row)
    for cells in merged:
        made.active.merge_cells(cells)
    made.save("t.xlsx")


NUMBERS = [[int(a), float(b), float(c)] for a, b, c in zip(X, RNG.normal(size=N).round(2), Y, strict=True)]


@pytest.mark.parametrize("header", [False, None])
def test_one_filled_cell_renames_no_column_of_a_sheet(header: bool | None) -> None:
    names = []
    for odd in (None, "n"):
        rows: list[list[Any]] = [[a, None, b, c] for a, b, c in NUMBERS]
        rows[7][1] = odd
        book(rows if header is False else [["x", None, None, "y"], *rows])
        names.append(read_table("t.xlsx", header=header).names)
    without, own = names
    assert without == (("column 1", "column 3", "column 4") if header is False else ("x", "column 3", "y"))
    assert [name for name in own if name != "column 2"] == [*without]


HEADERS: dict[str, Callable[[Any], list[list[Any]]]] = {
    "units, of which one is a value": lambda odd: [["x", "a", "y"], ["years", "mg", "kg"], *odd(["years", 1, 2])],
    "units of two rows": lambda odd: [["x", "a", "y"], ["years", "mg", "kg"], *odd(["years", "mg", "kg"])],
}


@pytest.mark.parametrize("form", HEADERS)
@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_a_header_that_one_row_places_is_refused(form: str, ending: str, gated: Gate) -> None:
    for odd in (False, True):
        rows = [*HEADERS[form](lambda row, odd=odd: [row] if odd else []), *NUMBERS]
        if ending == "csv":
            Path("t.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
        else:
            book(rows)
        status, err = gated(f"t.{ending}", POLICIES["rows"], "--bounds", "a=-9:9")
        assert (status == 2) is odd, err
        assert ("decide how the header of" in err) is odd
    assert "decide how the header of" not in gated(f"t.{ending}", POLICIES["rows"], "--bounds", "a=-9:9", "--header")[1]


@pytest.mark.parametrize("cells", [("sys", "dia"), ("refused", "refused")])
def test_a_merged_header_that_one_row_places_is_refused(cells: tuple[str, str], gated: Gate) -> None:
    rows: list[list[Any]] = [["pressure", None, "y"], ["sys", "dia", None], *map(list, NUMBERS)]
    book(rows, "A1:B1")
    raw = read_table("t.xlsx")
    assert (raw.names, raw.header_by_one_row) == (("pressure sys", "pressure dia", "y"), False)
    rows[9][:2] = cells
    book(rows, "A1:B1")
    assert read_table("t.xlsx").header_by_one_row
    said = design_of(read_table("t.xlsx"), Choices("y"), held_out=0.0).decided
    assert any("decide how the header is read" in each for each in said)
    status, err = gated("t.xlsx", POLICIES["rows"], bounds=())
    assert status == 2
    assert "decide how the header of" in err


def test_columns_that_a_function_selects_are_refused() -> None:
    table = pandas.DataFrame({"x": X.astype(float), "z": RNG.normal(size=N)})
    policy = {"columns": {"x": {"max_revealed": 0.9, "spread": 12.0}}, "require": {"public": "preprocessing"}}

    def audited(columns: Any) -> Any:
        step = make_column_transformer((StandardScaler(), columns), (OneHotEncoder(), []), remainder="passthrough")
        return fl.audit(make_pipeline(step, Ridge(1.0)).fit(table, Y), table, Y, 50.0, policy=policy, attacks=False)

    for chosen in (make_column_selector(dtype_include="number"), make_column_selector("x", dtype_exclude=object), list):
        with pytest.raises(fl.InvalidInputError, match="that selects columns by a function"):
            audited(chosen)
    assert audited(make_column_selector(pattern="x")).passed
    assert audited(["x", "z"]).passed


def test_the_kind_of_model_that_one_label_decides_is_refused_under_rules_on_columns(gated: Gate) -> None:
    """Yes and no, and one label between: a linear model, which says another share of x."""
    y = (X + RNG.normal(size=N) > 35.5).astype(float)
    y[7] = 0.5
    pandas.DataFrame({"x": X, "y": y}).to_csv("t.csv", index=False)
    status, err = gated("t.csv", POLICIES["a column"], bounds=BOUNDS[:2])
    assert status == 2
    assert "can decide that the model is linear" in err
    stated = POLICIES["a column"] + '[require]\nmodel = "linear"\n'
    assert "can decide that the model" not in gated("t.csv", stated, bounds=BOUNDS[:2])[1]
