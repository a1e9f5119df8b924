"""No single row decides what a column is taken for without a word: each is left out, and the rest is read and decided again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
import pytest

from attacks_on_us.under_policy import judged, write_table_and_policy
from fisherleak.errors import InvalidInputError
from fisherleak.tables import from_frame, read_table
from fisherleak.tables.decide.cell_text import as_written
from fisherleak.tables.decide.choices import Choices
from fisherleak.tables.decide.column_kinds import decide
from fisherleak.tables.decide.fewer_rows import all_unsettled
from fisherleak.tables.decide.profile import profiles_of
from fisherleak.tables.design.whose_rows import people_in
from fisherleak.tables.read.arrow_columns import as_numbers
from often import often

pytestmark = pytest.mark.usefixtures("quick_audits")

POLICY = "[membership]\nmax_right = 0.9\n"
OPTIONS = ("--target", "y", "--noise", "50", "--held-out", "0", "--no-attacks", "--draws", "2", "--l2", "1")
BOUNDS = ("--bounds", "a=-10:10", "--bounds", "y=-10:10")


class Decided(NamedTuple):
    """What every column is taken for, the numbers that are read from it, and which columns are said to be settled by few."""

    kinds: Mapping[str, str]
    numbers: dict[str, Any]
    named: frozenset[str]
    marked: frozenset[str]
    rows: int
    summed: bool


def decided(path: Path, columns: Mapping[str, list[Any]], gone: int | None = None) -> Decided:
    rows = [row for k, row in enumerate(zip(*columns.values(), strict=True)) if k != gone]
    if path.suffix == ".xlsx":
        made = pytest.importorskip("openpyxl").Workbook()
        for row in [[*columns], *map(list, rows)]:
            made.active.append(row)
        made.save(path)
    else:
        lines = [",".join(columns), *(",".join(f'"{cell}"' if cell else "" for cell in row) for row in rows)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    written = as_written(read_table(path), Choices("y"), False)
    raw = written.raw
    profiles = profiles_of(raw, Choices("y"), False)
    found = decide(raw, profiles, Choices("y"))
    kinds = {column.name: column.kind for column in found}
    numbers = {
        name: np.concatenate([as_numbers(part.read([name]).column(0)) for part in raw.parts])
        for name, kind in kinds.items()
        if kind == "number"
    }
    named = all_unsettled(raw, found, profiles, Choices("y"), written.unsettled, 1)
    return Decided(kinds, numbers, frozenset(named), written.few_settle, raw.rows, written.summed)


def unnamed(path: Path, columns: Mapping[str, list[Any]], rows: range) -> tuple[list[str], int]:
    """Columns that one of some rows decides, and of which nothing says so; how many are decided by one of them."""
    now, found, turned = decided(path, columns), [], 0
    for gone in rows:
        then = decided(path, columns, gone)
        if now.rows != then.rows + 1:
            found += [] if now.summed else ["the last row"]
            continue
        for name, kind in now.kinds.items():
            if then.kinds[name] != kind:
                turned += 1
                found += [] if name in now.named else [f"{name}, {kind}, {then.kinds[name]}"]
            elif kind == "number" and not np.array_equal(
                np.delete(now.numbers[name], gone), then.numbers[name], equal_nan=True
            ):
                turned += 1
                found += [] if name in now.named | now.marked else [f"{name}, other numbers"]
    return found, turned


Cells = Callable[[np.random.Generator, int], list[str]]


def whole(low: int, high: int, form: str = "{}") -> Cells:
    return lambda rng, n: [form.format(value) for value in rng.integers(low, high, n)]


FORMS: dict[str, Cells] = {
    "two digits": whole(10, 100),
    "codes": whole(1, 100, "{:02d}"),
    "months": whole(1, 5, "{:02d}"),
    "few": whole(1, 4),
    "eleven": whole(1, 12, "${}"),
    "decimals": lambda rng, n: [f"{value:.2f}" for value in rng.normal(50, 9, n)],
    "commas": lambda rng, n: [f"{value:.2f}".replace(".", ",") for value in rng.normal(50, 9, n)],
    "thousands": lambda rng, n: [f"{value // 1000},{value % 1000:03d}" for value in rng.integers(10_000, 99_999, n)],
    "dollars": lambda rng, n: [f"${value:.2f}" for value in rng.normal(50, 9, n)],
    "dates": lambda rng, n: [f"2020-0{month}-01" for month in rng.integers(1, 5, n)],
    "moments": lambda rng, n: [f"2020-0{month}-01 10:00:00" for month in rng.integers(1, 5, n)],
    "zones": lambda rng, n: [f"2020-0{month}-01T10:00:00Z" for month in rng.integers(1, 5, n)],
    "times": lambda rng, n: [f"1{hour}:30" for hour in rng.integers(1, 5, n)],
    "truths": lambda rng, n: [("FALSE", "TRUE")[bit] for bit in rng.integers(0, 2, n)],
    "bits": whole(0, 2),
    "0x": whole(0x10, 0x18, "0x{:X}"),
    "words": lambda rng, n: ["abc"[k] for k in rng.integers(0, 3, n)],
    "half are names": lambda rng, n: [f"name {k // 2}" for k in range(n)],
    "long": whole(10**9, 10**10),
    "long, repeated": whole(10**9, 10**9 + 12),
    "pooled": lambda rng, n: [f"t{min(k // 2, 8) if k < n // 2 else k}" for k in range(n)],
}
ODD = (
    "05",
    "0x1F",
    "?",
    "word",
    "2020-01-01",
    " 2020-01-01",
    "2020-02-30",
    "2020-01-01 24:00:00",
    "2020-01-01T10:00:00Z",
    "2020-01-01 10:00:00.5",
    "1600-01-01",
    " ",
    "12:30",
    "24:00",
    "TRUE",
    "1,5",
    "1.5",
    "€5",
    "7",
    "12%",
    "1,234",
    "100000000000",
    "<5",
)


@pytest.mark.parametrize("form", FORMS)
def test_no_row_decides_a_column_unnamed(form: str, tmp_path: Path) -> None:
    rng, n = np.random.default_rng(0), 41
    columns = {"a": FORMS["decimals"](rng, n)}
    for j, odd in enumerate(ODD):
        for count in (0, 4):  # more unlike the rest: up to one in ten
            cells = FORMS[form](rng, n)
            cells[: 1 + count] = [odd, *(f"n/k {k}" for k in range(count))]
            columns[f"c{j} {count}"] = cells
    columns["y"] = FORMS["decimals"](rng, n)
    found, turned = unnamed(tmp_path / "t.csv", columns, range(2))  # the odd cell, and one of those beside it
    assert not found
    assert turned or form in ("half are names", "truths", "words", "pooled")


SHEETS: dict[str, list[Any]] = {
    "dates": [datetime(2020, 1 + k % 4, 1) for k in range(41)],
    "times": [time(k % 4, 30) for k in range(41)],
    "durations": [timedelta(minutes=1 + k % 4) for k in range(41)],
    "truths": [k % 3 == 0 for k in range(41)],
    "few": [k % 3 for k in range(41)],
    "codes": [f"{k % 7:02d}" for k in range(41)],
    "own dates": [datetime(1950, 1, 1) + timedelta(days=k) for k in range(41)],
    "long": [10**9 + 977 * k for k in range(41)],
}
ODD_CELLS: list[Any] = [
    *("x", "?", " ", "05", "2020-01-05", "10:30", "TRUE", "7", "€5"),
    5,
    5.5,
    True,
    None,
    12345678901,
]
ODD_CELLS += [datetime(2020, 1, 5), datetime(2020, 1, 5, 3, 4), time(3, 4), timedelta(hours=30)]


@pytest.mark.parametrize("form", SHEETS)
def test_no_row_of_a_sheet_decides_a_column_unnamed(form: str, tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=(2, 41)).round(3).tolist()
    odd = {f"c{j}": [cell, *SHEETS[form][1:]] for j, cell in enumerate(ODD_CELLS)}
    found, turned = unnamed(tmp_path / "t.xlsx", {"a": numbers[0], **odd, "y": numbers[1]}, range(2))
    assert not found
    assert turned or form in ("few", "truths", "own dates")


@pytest.mark.parametrize("step", often([3, 1]))
def test_no_row_decides_unnamed_whether_numbers_are_an_identifier(step: int, tmp_path: Path) -> None:
    rng, n = np.random.default_rng(1), 42
    ways: list[list[Any]] = [
        [*range(1, n + 1)],
        [*range(1, n), 1000],
        [k // 2 for k in range(n)],
        [*rng.permutation(n).tolist()],
        [k % 20 for k in range(n - 1)] + [20],
        [k % 21 for k in range(n)],
        [*range(n - 1), 3],
        [*range(n - 2), 3.5, 4.5],
        [*(10**9 + rng.integers(0, 30, n - 1)), 7],
        [*(10**9 + rng.integers(0, 21, n))],
    ]
    for cells in ways:
        columns = {name: [str(cell) for cell in cells] for name in ["id", "X", "x1", "patient_id", "phone"]}
        columns |= {name: FORMS["decimals"](rng, n) for name in ("a", "y")}
        for rows in (range(0, n - 6, step), range(n - 6, n)):
            found, _ = unnamed(tmp_path / "t.csv", columns, rows)
            assert not found, cells


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_no_row_of_random_tables_decides_a_column_unnamed(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(8):
        n = int(rng.choice([12, 20, 41, 60]))
        columns = {}
        for j in range(3):
            cells = FORMS[str(rng.choice([*FORMS]))](rng, n)
            for k in rng.integers(0, n, int(rng.choice([0, 1, 2, n // 10, n // 10 + 1]))).tolist():
                other = FORMS[str(rng.choice([*FORMS]))](rng, n)
                cells[k] = str(rng.choice([*ODD, other[k], f"n/k {k}"]))
            columns[f"c{j}"] = cells
        columns |= {"a": FORMS["decimals"](rng, n), "y": FORMS["decimals"](rng, n)}
        assert not unnamed(tmp_path / "t.csv", columns, range(n))[0], columns


def beside(form: str, odd: str) -> str:
    rng, n = np.random.default_rng(0), 60
    cells = FORMS[form](rng, n)
    cells[7] = odd
    a = rng.normal(size=n).round(3)
    y = (a + rng.normal(size=n)).round(3)
    return "\n".join(["a,c,y", *(f"{a[k]},{cells[k]},{y[k]}" for k in range(n))]) + "\n"


@pytest.mark.parametrize(
    ("form", "odd"), [("dollars", "€5.00"), ("two digits", "05"), ("0x", "x7"), ("dates", "later"), ("codes", "5")]
)
def test_a_column_that_one_cell_decides_is_refused(
    form: str, odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table_and_policy(beside(form, odd), POLICY)
    status, err, _ = judged(capsys, *OPTIONS, *BOUNDS)
    assert status == 2
    assert "Without one row the column 'c' might be taken for something else" in err
    assert judged(capsys, *OPTIONS, *BOUNDS, "--drop", "c")[0] == 0


def test_several_currencies_that_no_row_decides_are_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = beside("dollars", "€5.00").splitlines()
    lines[20:40] = [line.replace("$", "€") for line in lines[20:40]]
    write_table_and_policy("\n".join(lines) + "\n", POLICY)
    assert judged(capsys, *OPTIONS, *BOUNDS)[0] == 0


def write_json(path: Path, rows: list[dict[str, Any]], form: str) -> None:
    whole: Any = rows
    if form == "lines":
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        return
    if form == "columns":
        whole = {name: [row[name] for row in rows] for name in rows[0]}
    elif form == "split":
        whole = {"columns": [*rows[0]], "data": [[*row.values()] for row in rows]}
    path.write_text(json.dumps({"rows": rows} if form == "wrapped" else whole), encoding="utf-8")


def rows_with(name: str, cells: list[Any], odd: Any) -> list[dict[str, Any]]:
    numbers = np.random.default_rng(2).normal(size=(2, len(cells))).round(3).tolist()
    cells = [*cells[:7], odd, *cells[8:]]
    return [{"a": a, name: cell, "y": y} for a, cell, y in zip(numbers[0], cells, numbers[1], strict=True)]


@pytest.mark.parametrize("form", ["array", "lines", "wrapped", "columns", "split"])
@pytest.mark.parametrize(
    ("name", "cells", "odd", "kind"),
    [
        ("visit_time", [40_000_000 + 977 * k for k in range(60)], 30_000_000, "int64"),
        ("date", [40_000_000.5 + 977 * k for k in range(60)], 3, "double"),
        ("modified", [40_000_000 + 977 * k for k in range(60)], None, "int64"),
        ("smoker", [k % 3 == 0 for k in range(60)], None, "bool"),
        ("timestamp", ["2020-01-01", "2021-01-01"] * 30, "not yet known", "string"),
        ("grade", list("12345") * 12, "x", "string"),
    ],
)
def test_json_keeps_its_types_whatever_one_row_holds(
    name: str, cells: list[Any], odd: Any, kind: str, form: str, tmp_path: Path
) -> None:
    rows = rows_with(name, cells, odd)
    for some in (rows, rows[:7] + rows[8:]):
        write_json(tmp_path / "t.json", some, form)
        raw = read_table(tmp_path / "t.json")
        assert raw.names == ("a", name, "y")
        assert str(raw.kind(name)) == kind
        assert not raw.inferred
        (read,) = (part.read([name]).column(0).to_pylist() for part in raw.parts)
        assert read == [row[name] for row in some]


@pytest.mark.parametrize("name", ["timestamp", "modified", "bmi"])
@pytest.mark.parametrize("odd", ["2020-01-01", True])
def test_json_of_several_types_in_a_column_is_refused_by_name(name: str, odd: Any, tmp_path: Path) -> None:
    write_json(tmp_path / "t.json", rows_with(name, [k / 4 for k in range(60)], odd), "array")
    with pytest.raises(InvalidInputError, match=f"The column '{name}' of .* holds values of several types") as refusal:
        read_table(tmp_path / "t.json")
    assert "2020" not in str(refusal.value)


@pytest.mark.parametrize("ending", ["json", "feather", "dta"])
def test_digits_as_text_that_a_file_keeps_are_named_where_a_word_makes_them_numbers(
    ending: str, tmp_path: Path
) -> None:
    rows, path = rows_with("grade", list("12345") * 12, "x"), tmp_path / f"t.{ending}"
    kinds = []
    for some in (rows, rows[:7] + rows[8:]):
        frame = pandas.DataFrame(some)
        if ending == "json":
            write_json(path, some, "wrapped")
        elif ending == "feather":
            frame.to_feather(path)
        else:
            frame.to_stata(path, write_index=False)
        written = as_written(read_table(path), Choices("y"), False)
        kinds.append(str(written.raw.kind("grade")))
        assert ("grade" in written.unsettled) == (len(some) == len(rows))
    assert kinds[0] == "double"
    assert "string" in kinds[1]


@pytest.mark.parametrize(
    ("form", "odd", "option"),
    [
        ("dates", "not yet known", "--unite"),
        ("0x", "zz", "--unite"),
        ("0x", "zz", "--category"),
        ("months", "7", "--category"),
    ],
)
def test_categories_that_one_cell_writes_are_refused(
    form: str,
    odd: str,
    option: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table_and_policy(beside(form, odd), POLICY)
    said = (*OPTIONS, *BOUNDS, option, "c")
    status, err, _ = judged(capsys, *said)
    assert status == 2
    assert "Without one row the categories of the column 'c' might be spelt differently, or not be text" in err
    assert judged(capsys, *OPTIONS, *BOUNDS, "--drop", "c")[0] == 0
    lines = beside(form, odd).splitlines()
    write_table_and_policy("\n".join(lines[:8] + lines[9:]) + "\n", POLICY)
    assert "might be spelt" not in judged(capsys, *said)[1]


def ended(rng: np.random.Generator, n: int, people: bool) -> pandas.DataFrame:
    """Rows of which some of the last are called totals, in a column of text or of numbers, or are sums without a word."""
    table = pandas.DataFrame(rng.normal(50, 9, (n, 3)).round(3), columns=["a", "b", "y"])
    table["b"], table["place"] = table["b"].map(str), rng.choice(["north", "", "south"], n)
    if people:
        table["who"] = rng.permutation(np.arange(n) // 3) if rng.random() < 0.5 else np.arange(n) // 4
    for k in range(n - 6, n):
        form = rng.choice(["ordinary", "place", "place", "b", "sums", "a"], p=[0.3, 0.1, 0.15, 0.2, 0.15, 0.1])
        if form in ("place", "b"):
            table.at[k, str(form)] = rng.choice(["Total", "all"])
        if form in ("sums", "a"):
            above = table.loc[: k - 1]
            table.at[k, "a"] = round(float(above["a"].sum() if form == "sums" else above["a"].mean()), 3)
            table.at[k, "y"] = round(float(above["y"].sum()), 3) if form == "sums" else 50.5
            table.at[k, "place"] = "Mean" if form == "a" else ""
    return table


def kept_rows(table: pandas.DataFrame, path: Path, people: bool) -> tuple[list[float], bool]:
    """Which rows stay, by their numbers in one column, and whether it is said that one row or person decides it."""
    table.to_csv(path, index=False)
    raw = read_table(path)
    who = people_in(raw, "who", False) if people else None
    own = (1, None) if who is None else (int(who.sizes.max()), who.of_row)
    written = as_written(raw, Choices("y", person="who" if people else None), False, *own)
    read = pandas.concat([part.read(["a"]).to_pandas() for part in written.raw.parts])
    return read["a"].tolist(), written.summed or "b" in written.unsettled


@pytest.mark.parametrize("people", [False, True])
def test_no_row_decides_unnamed_which_last_rows_are_totals(people: bool, tmp_path: Path) -> None:
    rng, turned, settled = np.random.default_rng(4), 0, 0
    for _ in range(30):
        table = ended(rng, int(rng.choice([19, 40, 60])), people)
        kept, said = kept_rows(table, tmp_path / "t.csv", people)
        own = table["who"] if people else pandas.Series(table.index)
        for gone in own.iloc[-7:].unique():
            left = table[own != gone]
            then, _ = kept_rows(left, tmp_path / "t.csv", people)
            now = [value for value in left["a"].tolist() if value in set(kept)]
            turned += then != now
            assert said or then == now, table.tail(8)
        settled += not said
    assert turned > 20
    assert settled > 4


def test_rows_that_the_last_one_keeps_from_being_totals_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(9)
    table = pandas.DataFrame(rng.uniform(1, 9, (60, 3)).round(2), columns=["a", "dose", "y"]).astype({"dose": object})
    ordinary = table.copy()
    table.loc[56:58, "dose"] = "all"
    given = (*OPTIONS, *(f"--bounds={name}=-10:10" for name in table))
    write_table_and_policy(table, POLICY)
    status, err, _ = judged(capsys, *given)
    assert status == 2
    assert "Without one row other last rows might be taken for totals" in err
    assert judged(capsys, *given, "--keep-total")[0] == 0
    write_table_and_policy(ordinary, POLICY)
    assert judged(capsys, *given)[0] == 0


@pytest.mark.parametrize(
    ("texts", "one", "named"), [(9, 1, False), (10, 1, False), (11, 1, True), (12, 1, False), (12, 2, True)]
)
def test_texts_that_are_one_too_many_to_be_counted_are_named(
    texts: int, one: int, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fisherleak.tables.decide.profile.MOST_COUNTED", 10)
    monkeypatch.setattr("fisherleak.tables.decide.column_kinds.MOST_LEVELS", 5)
    monkeypatch.setattr("fisherleak.tables.read.parts.PART_VALUES", 80)
    cells = [*np.repeat(["w0", "w1", "w2"], 12), *(f"u{k}" for k in range(texts - 3))]
    raw = from_frame(pandas.DataFrame({"job": cells, "y": np.arange(len(cells)) / 7}))
    assert len(raw.parts) == 2
    profiles = profiles_of(raw, Choices("y"), False, one)
    columns = decide(raw, profiles, Choices("y"))
    assert columns[0].kind == ("category" if texts <= 10 else "ignored")
    assert ("job" in all_unsettled(raw, columns, profiles, Choices("y"), {}, one)) == named
    twice = from_frame(pandas.DataFrame({"job": cells * 2, "y": np.arange(2 * len(cells)) / 7}))
    profiles = profiles_of(twice, Choices("y"), False)
    assert "job" not in all_unsettled(twice, decide(twice, profiles, Choices("y")), profiles, Choices("y"), {}, 1)


def test_a_column_of_10001_texts_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for count, status in ((10_001, 2), (10_002, 0)):
        cells = [*np.repeat([f"w{k:02d}" for k in range(49)], 210), *(f"u{k}" for k in range(count - 49))]
        y = np.random.default_rng(7).normal(size=len(cells)).clip(-9, 9).round(3)
        write_table_and_policy(pandas.DataFrame({"job": cells, "a": y[::-1], "y": y}), POLICY)
        found, err, _ = judged(capsys, *OPTIONS, *BOUNDS)
        assert found == status
        assert ("Without one row the column 'job' might be taken for something else" in err) == bool(status)
    assert judged(capsys, *OPTIONS, *BOUNDS, "--drop", "job")[0] == 0
