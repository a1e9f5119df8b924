"""Tables that nobody would write: every one gets an answer or one sentence."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas

from fisherleak.auditing.exposure.membership_of_rows import MembershipFigures
from fisherleak.cli import main
from report.test_summarise import check_summary

FOLDER = tempfile.TemporaryDirectory()
HTML = ["<script>alert(1)</script>", '"><img src=x onerror=1>', "&amp;", "{{ 7*7 }}", "</pre>", "'; DROP TABLE people"]
ODD = [
    "",
    " ",
    "NA",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "1e-400",
    "-0",
    "0x10",
    "1_000",
    "１２",
    "TRUE",
    "2020-01-01",
    "10:00",
    "\x1b[31m",
    "=1+1",
]

words = st.one_of(
    st.sampled_from(["a", "b", "c", "yes", "no", "Łódź", "名前", "🙂", *HTML]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=6),
)
names = st.one_of(st.sampled_from(["id", "age", "x", "y z", "eta", "row", *HTML]), words)
numbers = st.one_of(
    st.integers(-9, 9),
    st.floats(-100, 100, width=16),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, 1, 1e99, -1e101, 1e-99, 1e-120, 2**53 + 1, 10**25]),
)


QUICKLY = ["--no-attacks", "--quick"]
"""What a table needs beside its answer: one refit, no attack."""
SANE = ["numbers", "numbers", "small", "levels", "flags"]
STRANGE = [*SANE, "text", "constant", "mixed", "empty", "counter"]


@st.composite
def columns(draw: st.DrawFn, rows: int, sane: bool) -> list[Any]:
    """A column of one sort; of a strange table, some cells missing or odd."""
    sort = draw(st.sampled_from(SANE if sane else STRANGE))
    if sort == "numbers":
        values: list[Any] = draw(st.lists(st.floats(-1e3, 1e3, width=32), min_size=rows, max_size=rows))
    elif sort == "small":
        values = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    elif sort == "levels":
        levels = draw(st.lists(words, min_size=2, max_size=4))
        values = draw(st.lists(st.sampled_from(levels), min_size=rows, max_size=rows))
    elif sort == "flags":
        values = draw(st.lists(st.sampled_from(["true", "false"]), min_size=rows, max_size=rows))
    elif sort == "constant":
        values = [draw(st.one_of(numbers, words))] * rows
    elif sort == "counter":
        values = list(range(rows))
    elif sort == "empty":
        values = [""] * rows
    else:
        cells = words if sort == "text" else st.one_of(numbers, words, st.sampled_from(ODD))
        values = draw(st.lists(cells, min_size=rows, max_size=rows))
    if draw(st.integers(0, 9 if sane else 2)) == 0 and rows:
        for row in draw(st.lists(st.integers(0, rows - 1), max_size=2)):
            values[row] = draw(st.sampled_from(["", "NA"] if sane else ODD))
    return values


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[Any]]]:
    """Two thirds of the tables are such that a model may exist; the target comes last."""
    sane = draw(st.integers(0, 2)) > 0
    rows = draw(st.integers(7, 14) if sane else st.sampled_from([0, 1, 4, 5, 9]))
    repeat = draw(st.sampled_from([1, 1, 5]))  # long enough to hold rows out
    count = draw(st.integers(2 if sane else 1, 4))
    header = draw(st.lists(names, min_size=count, max_size=count, unique=sane or draw(st.booleans())))
    cells = [draw(columns(rows, sane)) * repeat for _ in header]
    if sane:
        whole = st.lists(st.integers(0, 9), min_size=rows, max_size=rows)
        halves = st.lists(st.sampled_from(["yes", "no"]), min_size=rows, max_size=rows)
        thirds = st.lists(st.sampled_from(["red", "green", "blue"]), min_size=rows, max_size=rows)
        coded = st.lists(st.integers(1, 4), min_size=rows, max_size=rows)
        cells[-1] = draw(st.one_of(whole, halves, thirds, coded)) * repeat
    if draw(st.integers(0, 9)) == 0 and count > 2:
        cells[1] = list(cells[0])
    return header, cells


@st.composite
def command_lines(draw: st.DrawFn) -> tuple[list[str], list[list[Any]], list[str]]:
    header, cells = draw(tables())
    options = ["--target", header[-1] if draw(st.integers(0, 4)) else draw(st.sampled_from(header))]
    if draw(st.integers(0, 3)) == 0:
        option = draw(st.sampled_from(["--id", "--group", "--drop", "--number", "--category", "--attribute"]))
        options += [option, draw(st.sampled_from(header))]
    if draw(st.integers(0, 2)) == 0:
        options += draw(
            st.sampled_from(
                [
                    ["--model", "linear"],
                    ["--model", "logistic"],
                    ["--model", "poisson"],
                    ["--model", "softmax"],
                    ["--l2", "0"],
                    ["--l2", "100"],
                    ["--noise", "0.1", "--max-eta", "0.5"],
                    ["--max-eta", "1e-9"],
                    ["--eta", "3"],
                    ["--balance"],
                    ["--show-values"],
                    ["--held-out", "0.9"],
                    ["--delimiter", ";"],
                ]
            )
        )
    return header, cells, options


def alike(values: list[Any]) -> list[Any]:
    """Values of one type, which Parquet needs."""
    return values if len({type(value) for value in values}) <= 1 else [str(value) for value in values]


def check_answer(
    case: tuple[list[str], list[list[Any]], list[str]], *, as_parquet: bool = False, attacks: bool = False
) -> int:
    header, cells, options = case
    path = Path(FOLDER.name) / "table"
    rows = list(zip(*cells, strict=True))
    if as_parquet:
        pandas.DataFrame(
            {name: [str(v) for v in values] for name, values in zip(header, cells, strict=True)}
        ).to_parquet(path)
    else:
        text = io.StringIO()
        csv.writer(text).writerows([header, *rows])
        path.write_text(text.getvalue(), encoding="utf-8", newline="")
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["audit", str(path), "--json", "--draws", "2", *options, *([] if attacks else QUICKLY)])
    if status == 2:
        assert out.getvalue() == ""
        assert err.getvalue().count("\n") == 1, err.getvalue()
        assert "should not happen" not in err.getvalue(), err.getvalue()
        assert "Traceback" not in err.getvalue()
    else:
        assert err.getvalue() == ""
        summary = json.loads(out.getvalue())
        check_summary(summary)
        assert status == int(bool(summary["gate"] and summary["gate"]["exceeded"]))
    return status


@given(command_lines())
@settings(max_examples=12)
def test_any_table_gets_an_answer_or_a_sentence(case: Any) -> None:
    with threadpool_limits(1):
        check_answer(case)


@pytest.mark.long
@given(command_lines())
@settings(max_examples=3)
def test_attacks_on_any_table_too(case: Any) -> None:
    with threadpool_limits(1):
        check_answer(case, attacks=True)


@pytest.mark.long
@given(command_lines())
@settings(max_examples=40)
def test_attacks_on_more_tables(case: Any) -> None:
    with threadpool_limits(1):
        check_answer(case, attacks=True)


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_five_thousand_tables(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An eighth of them whole, the others without most of what takes longest and reads nothing of the table: refits."""
    statuses: list[int] = []
    if part > 0:
        monkeypatch.setattr("fisherleak.engine.beliefs.mean_squares.WORK", 2**12)
        monkeypatch.setattr(
            "fisherleak.auditing.run.membership_figures", lambda *_: MembershipFigures(note="Not measured.")
        )

    @seed(part)
    @given(command_lines(), st.booleans())
    @settings(max_examples=625, database=None)
    def run(case: Any, as_parquet: bool) -> None:
        statuses.append(check_answer(case, as_parquet=as_parquet and len(set(case[0])) == len(case[0])))

    with threadpool_limits(1):
        run()
    assert len(statuses) >= 550  # fewer only where hypothesis has no more
    assert statuses.count(0) > 0.25 * len(statuses)  # the tables are not all refused
    assert statuses.count(2) > 0.05 * len(statuses)


@given(st.binary(max_size=400), st.sampled_from([b"", b"PAR1", b"\x1f\x8b", b"a,y\n1,2\n", b"PK\x03\x04"]))
@settings(max_examples=200)
def test_any_bytes_get_a_sentence(data: bytes, start: bytes) -> None:
    path = Path(FOLDER.name) / "bytes"
    path.write_bytes(start + data)
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err), threadpool_limits(1):
        status = main(["audit", str(path), "--target", "y", "--draws", "2", "--no-attacks"])
    assert status in (0, 2)
    if status == 2:
        assert err.getvalue().count("\n") == 1
        assert "should not happen" not in err.getvalue(), err.getvalue()
