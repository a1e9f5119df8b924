"""Bad input: exit status 2, one sentence, no traceback, no partial file."""

from __future__ import annotations

import errno
import gzip
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pandas")

import pandas
import pyarrow as pa
import pyarrow.parquet as pq

from fisherleak.errors import DataError

Command = Callable[..., Any]
GOOD = "age,city,y\n" + "".join(f"{20 + 7 * i % 31},{'ab'[i % 2]},{3 * i % 17}\n" for i in range(60))
AUDIT = ["audit", "t.csv", "--target", "y", "--out", "out"]


def csv(text: str | bytes) -> Callable[[Path], None]:
    data = text if isinstance(text, bytes) else text.encode()

    def make(folder: Path) -> None:
        (folder / "t.csv").write_bytes(data)

    return make


def good(*more: Callable[[Path], Any]) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        csv(GOOD)(folder)
        for step in more:
            step(folder)

    return make


def rows(header: str, *cells: str, count: int = 50) -> str:
    return (
        header
        + "\n"
        + "".join(",".join(cell.format(i=i, odd=i % 2, z=(7 * i) % 23) for cell in cells) + "\n" for i in range(count))
    )


def frame(**columns: Any) -> Callable[[Path], None]:
    return lambda folder: pandas.DataFrame(columns).to_parquet(folder / "t.csv")


def arrow(**columns: Any) -> Callable[[Path], None]:
    return lambda folder: pq.write_table(pa.table(columns), folder / "t.csv")


def damaged_parquet(at: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        pandas.DataFrame({"x": np.arange(500.0), "y": np.arange(500.0) % 7}).to_parquet(folder / "t.csv")
        data = bytearray((folder / "t.csv").read_bytes())
        if at == "end":
            data = data[: len(data) // 2]
        else:
            data[40:400] = b"\xff" * 360
        (folder / "t.csv").write_bytes(bytes(data))

    return make


def file(name: str, data: bytes) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_bytes(data)


def folder_with_file(folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "mine").write_text("x")


CARD = {
    "schema": "fisherleak.card/3",
    "model": {"file_sha256": "0"},
    "settings": {"target": "y"},
    "balanced": False,
    "data": {"sha256": "0"},
    "noise": {"scale": 1.0},
}
card = file("m.skops.json", json.dumps(CARD, indent=2).encode())
RELEASED = ["audit", "t.csv", "--released", "m.skops", "--out", "out"]
ZIP = b"PK\x05\x06" + bytes(18)  # an empty archive

# name: (what lies in the folder, the command, what the sentence must say)
CASES: dict[str, tuple[Callable[[Path], Any], list[str], str]] = {
    "missing file": (lambda folder: None, AUDIT, "'t.csv' does not exist"),
    "folder for a file": (lambda folder: (folder / "t.csv").mkdir(), AUDIT, "No Parquet file matches"),
    "name with a null byte": (good(), ["audit", "a\0b", "--target", "y"], "no file name"),
    "name too long": (good(), ["audit", "a" * 5000, "--target", "y"], "cannot be read"),
    "empty file": (csv(""), AUDIT, "is empty"),
    "blank lines": (csv("\n\n  \n"), AUDIT, "blank lines only"),
    "header only": (csv("age,y\n"), AUDIT, "no rows"),
    "one column": (csv("y\n1\n2\n"), AUDIT, "one column only"),
    "unusual delimiter": (csv(GOOD.replace(",", ":")), AUDIT, "--delimiter"),
    "wrong delimiter": (csv(GOOD.replace(",", ";")), [*AUDIT, "--delimiter", ","], "use --delimiter ';'"),
    "bad delimiter": (good(), [*AUDIT, "--delimiter", "ab"], "one character"),
    "newline as delimiter": (good(), [*AUDIT, "--delimiter", "\n"], "one character"),
    "short row": (csv(GOOD + "1,a\n"), AUDIT, "2 fields in line 62 where its header has 3"),
    "long row": (csv(GOOD.replace("27,b,3\n", "27,b,3,4\n", 1)), AUDIT, "4 fields in line 3"),
    "bad encoding": (csv(GOOD.encode() + b"30,\xff\xfe,4\n"), AUDIT, "not encoded in utf-8 in column 'city'"),
    "bad encoding in the header": (csv(b"a\xffge,y\n1,2\n3,4\n"), AUDIT, "not encoded in utf-8"),
    "utf-16": (csv(GOOD.encode("utf-16")), AUDIT, "--encoding utf-16"),
    "unknown encoding": (good(), [*AUDIT, "--encoding", "klingon"], "one of text that Python knows"),
    "encoding that is no text": (good(), [*AUDIT, "--encoding", "base64"], "encoding must be one"),
    "encoding that takes no damage": (good(), [*AUDIT, "--encoding", "idna"], "one of text that Python knows"),
    "wrong encoding": (csv(GOOD + "30,ü,4\n"), [*AUDIT, "--encoding", "ascii"], "not encoded in ascii"),
    "binary data": (csv(bytes(range(256)) * 10), AUDIT, "binary data"),
    "quote left open": (csv('age,y\n1,2\n3,"4\n' + "5,6\n" * 30), AUDIT, "has 2 rows"),
    "duplicate columns": (csv(GOOD.replace("age,city", "age,age")), AUDIT, "'age' more than once"),
    "excel": (csv(b"PK\x03\x04" + bytes(50)), AUDIT, "Excel"),
    "pickle for a table": (csv(pickle.dumps([1, 2, 3], 4)), AUDIT, "pickle"),
    "damaged gzip": (csv(gzip.compress(GOOD.encode())[:-20]), AUDIT, "damaged gzip"),
    "rubbish as gzip": (csv(b"\x1f\x8b" + bytes(40)), AUDIT, "damaged gzip"),
    "cut-off parquet": (damaged_parquet("end"), AUDIT, "damaged Parquet"),
    "parquet with damaged pages": (damaged_parquet("pages"), AUDIT, "damaged Parquet"),
    "parquet without rows": (frame(x=np.empty(0), y=np.empty(0)), AUDIT, "no rows"),
    "parquet without columns": (lambda folder: pq.write_table(pa.table({}), folder / "t.csv"), AUDIT, "no columns"),
    "target missing": (good(), ["audit", "t.csv", "--target", "yy", "--out", "out"], "Did you mean 'y'?"),
    "no target": (good(), ["audit", "t.csv", "--out", "out"], "--target is missing"),
    "target constant": (csv(rows("x,y", "{i}", "5")), AUDIT, "one value only"),
    "target constant text": (csv(rows("x,y", "{i}", "yes")), AUDIT, "one value only"),
    "target empty": (csv(rows("x,y", "{i}", "")), AUDIT, "no values at all"),
    "target with 30 texts": (csv(rows("x,y", "{i}", "t{z}x{odd}")), AUDIT, "different values"),
    "target dates": (arrow(x=np.arange(9.0), y=pa.array(range(9), pa.date32())), AUDIT, "holds date32"),
    "target nested": (arrow(x=np.arange(9.0), y=[[1]] * 9), AUDIT, "holds list"),
    "target infinite": (
        csv(rows("x,y", "{i}", "{z}") + "1,inf\n"),
        AUDIT,
        "'y' is infinite, or too large for a number, in row 51",
    ),
    "target almost all missing": (csv(rows("x,y", "{i}", "") + "1,1\n2,2\n"), AUDIT, "At least 5"),
    "text target for a linear model": (csv(rows("x,y", "{i}", "t{odd}")), [*AUDIT, "--model", "linear"], "holds text"),
    "negative counts": (csv(rows("x,y", "{i}", "-{z}")), [*AUDIT, "--model", "poisson"], "below zero"),
    "huge counts": (csv(rows("x,y", "{i}", "{z}0000000000")), [*AUDIT, "--model", "poisson"], "above 1e9"),
    "numbers for a logistic model": (good(), [*AUDIT, "--model", "logistic"], "needs two"),
    "unknown model": (good(), [*AUDIT, "--model", "forest"], "model must be one of"),
    "all-missing column asked for": (
        csv(rows("x,e,y", "{i}", "", "{z}")),
        [*AUDIT, "--category", "e"],
        "'e' has no values at all",
    ),
    "infinity": (csv(rows("x,y", "{i}", "{z}") + "-inf,2\n"), AUDIT, "'x' is infinite"),
    "infinity as a category": (
        csv(rows("x,y", "{i}", "{z}") + "inf,2\n"),
        ["release", "t.csv", "--target", "y", "--noise", "9", "--category", "x", "--out", "m.skops"],
        "'x' is infinite, or too large for a number, in row 51",
    ),
    "a million digits": (csv(rows("x,y", "{i}", "{z}") + "9" * 1_000_000 + ",2\n"), AUDIT, "too large for a number"),
    "an enormous row": (csv("x,y\n" + "9" * 40_000_000 + ",2\n1,2\n"), AUDIT, "more than 16 MiB"),
    "values near the largest": (csv(rows("x,y", "{i}e300", "{z}")), AUDIT, "larger unit"),
    "values near the smallest": (csv(rows("x,y", "{i}e-300", "{z}")), AUDIT, "smaller unit"),
    "one row": (csv("x,y\n1,2\n"), AUDIT, "has 1 row: at least 5"),
    "four rows": (csv(rows("x,y", "{i}", "{z}", count=4)), AUDIT, "has 4 rows"),
    "no complete row": (
        csv(rows("x,z,y", "", "{i}", "{z}") + rows("x,z,y", "{i}", "", "{z}").split("\n", 1)[1]),
        [*AUDIT, "--missing", "drop"],
        "0 complete rows",
    ),
    "ids repeated": (good(), [*AUDIT, "--id", "city"], "repeats 58 of its 60 values"),
    "ids missing": (csv(rows("i,x,y", "{i}", "{i}", "{z}") + ",1,2\n"), [*AUDIT, "--id", "i"], "1 missing values"),
    "id not there": (good(), [*AUDIT, "--id", "ages"], "Did you mean 'age'?"),
    "id is the target": (good(), [*AUDIT, "--id", "y"], "one role only"),
    "group not there": (good(), [*AUDIT, "--group", "town"], "--group names the column 'town'"),
    "group is the target": (good(), [*AUDIT, "--group", "y"], "one role only"),
    "too many groups": (csv(rows("x,y", "{i}", "{z}", count=80)), [*AUDIT, "--group", "x"], "at most 50 groups"),
    "two roles": (good(), [*AUDIT, "--number", "age", "--category", "age"], "one role only"),
    "dropped target": (good(), [*AUDIT, "--drop", "y"], "one role only"),
    "dropped column not there": (good(), [*AUDIT, "--drop", "nobody"], "--drop names the column 'nobody'"),
    "text as number": (good(), [*AUDIT, "--number", "city"], "no numbers"),
    "dates as number": (
        csv(rows("x,d,y", "{i}", "2020-01-0{odd}", "{z}").replace("-00", "-05")),
        [*AUDIT, "--number", "d"],
        "make it a number",
    ),
    "too many levels": (csv(rows("x,y", "t{i}", "{z}", count=1100)), [*AUDIT, "--category", "x"], "at most 1000"),
    "nothing to learn from": (csv(rows("x,y", "5", "{z}")), AUDIT, "No column is left"),
    "only names": (csv(rows("x,y", "name{i}", "{z}")), AUDIT, "No column is left"),
    "attribute not used": (good(), [*AUDIT, "--attribute", "name"], "--attribute names 'name'"),
    "collinear columns": (csv(rows("a,b,y", "{i}", "{i}", "{z}")), [*AUDIT, "--l2", "0"], "singular"),
    "separable classes": (csv(rows("x,y", "{odd}", "t{odd}")), [*AUDIT, "--l2", "0"], "separable"),
    "l2 negative": (good(), [*AUDIT, "--l2", "-1"], "l2 must be"),
    "l2 not a number": (good(), [*AUDIT, "--l2", "nan"], "l2 must be"),
    "l2 text": (good(), [*AUDIT, "--l2", "lots"], "'--l2'"),
    "noise zero": (good(), [*AUDIT, "--noise", "0"], "noise must be"),
    "noise infinite": (good(), [*AUDIT, "--noise", "inf"], "noise must be"),
    "noise and eta": (good(), [*AUDIT, "--noise", "1", "--eta", "1"], "cannot both be given"),
    "limit negative": (good(), [*AUDIT, "--max-eta", "-2"], "max_eta must be"),
    "limit not a number": (good(), [*AUDIT, "--max-eta", "nan"], "max_eta must be"),
    "limit without noise": (good(), [*AUDIT, "--max-eta", "1"], "--max-eta needs a noise to test"),
    "spread of nothing": (good(), [*AUDIT, "--spread", "x"], "--spread must be COLUMN=X"),
    "spread of zero": (good(), [*AUDIT, "--spread", "x=0"], "--spread must be COLUMN=X"),
    "spread twice": (good(), [*AUDIT, "--spread", "x=1", "--spread", "x=2"], "--spread names 'x' twice"),
    "spread of nobody": (good(), [*AUDIT, "--spread", "nobody=1"], "--spread names 'nobody'"),
    "limit denormal": (good(), [*AUDIT, "--eta", "5e-324"], "eta must be between"),
    "held-out share": (good(), [*AUDIT, "--held-out", "1.5"], "between 0 and 0.9"),
    "held-out nan": (good(), [*AUDIT, "--held-out", "nan"], "between 0 and 0.9"),
    "seed negative": (good(), [*AUDIT, "--seed", "-3"], "seed must be"),
    "draws": (good(), [*AUDIT, "--draws", "0"], "draws must be"),
    "unknown option": (good(), [*AUDIT, "--colour", "red"], "--colour"),
    "unknown command": (good(), ["inspect", "t.csv"], "inspect"),
    "option without value": (good(), ["audit", "t.csv", "--target"], "--target"),
    "too many tables": (good(), ["audit", "t.csv", "t.csv", "--target", "y"], "t.csv"),
    "output exists": (good(folder_with_file), AUDIT, "not empty"),
    "output is a file": (good(file("out", b"x")), AUDIT, "is a file, not a folder"),
    "output in no folder of a file": (
        good(),
        ["audit", "t.csv", "--target", "y", "--out", "t.csv/no/out"],
        "'t.csv/no' does not exist",
    ),
    "output below a file": (good(), ["audit", "t.csv", "--target", "y", "--out", "t.csv/out"], "does not exist"),
    "output in /proc": (good(), ["audit", "t.csv", "--target", "y", "--out", "/proc/out"], "nothing was written"),
    "release: no limit": (good(), ["release", "t.csv", "--target", "y", "--out", "m.skops"], "--eta"),
    "release: no file": (good(), ["release", "t.csv", "--target", "y", "--eta", "1"], "--out"),
    "release: a folder": (good(), ["release", "t.csv", "--target", "y", "--eta", "1", "--out", "."], "name a file"),
    "release: limit too large": (
        good(),
        ["release", "t.csv", "--target", "y", "--eta", "1e300", "--out", "m.skops"],
        "eta must be",
    ),
    "release: limit zero": (
        good(),
        ["release", "t.csv", "--target", "y", "--eta", "0", "--out", "m.skops"],
        "eta must be",
    ),
    "release: no target": (good(), ["release", "t.csv", "--eta", "1", "--out", "m.skops"], "--target is missing"),
    "release: unknown attribute": (
        good(),
        ["release", "t.csv", "--target", "y", "--eta", "1", "--attribute", "agee", "--out", "m.skops"],
        "Did you mean 'age'?",
    ),
    "release: file exists": (
        good(file("m.skops", b"x")),
        ["release", "t.csv", "--target", "y", "--eta", "1", "--out", "m.skops"],
        "exists",
    ),
    "release: card exists": (
        good(file("m.skops.json", b"x")),
        ["release", "t.csv", "--target", "y", "--eta", "1", "--out", "m.skops"],
        "exists",
    ),
    "release: folder for a file": (
        good(lambda folder: (folder / "m.skops").mkdir()),
        ["release", "t.csv", "--target", "y", "--eta", "1", "--out", "m.skops"],
        "is a folder",
    ),
    "column called label": (
        csv(rows("label,norm,y", "{z}", "{odd}", "{i}")),
        ["release", "t.csv", "--target", "y", "--eta", "1", "--out", "m.skops", "--over", "any-record"],
        "A column is called 'label', which means something else among the bounds of a limit for any record",
    ),
    "released model missing": (good(), RELEASED, "'m.skops' does not exist"),
    "released model a folder": (good(lambda folder: (folder / "m.skops").mkdir()), RELEASED, "is a folder"),
    "released model empty": (good(file("m.skops", b"")), RELEASED, "damaged or no skops file"),
    "released model a pickle": (good(file("m.skops", pickle.dumps({"a": 1}))), RELEASED, "never pickles"),
    "released model text": (good(file("m.skops", b"hello")), RELEASED, "damaged or no skops file"),
    "no model card": (good(file("m.skops", ZIP)), RELEASED, "m.skops.json' is missing"),
    "damaged card": (good(file("m.skops", ZIP), file("m.skops.json", b"{")), RELEASED, "not JSON"),
    "deep card": (good(file("m.skops", ZIP), file("m.skops.json", b"[" * 100_000)), RELEASED, "not JSON"),
    "foreign card": (good(file("m.skops", ZIP), file("m.skops.json", b"{}")), RELEASED, "no model card of schema"),
    "poor card": (
        good(file("m.skops", ZIP), file("m.skops.json", b'{\n  "schema": "fisherleak.card/3"\n}')),
        RELEASED,
        "not the model that its model card describes",
    ),
    "another model": (good(file("m.skops", ZIP), card), RELEASED, "not the model that its model card describes"),
    "released without a table": (good(), ["audit", "--released", "t.csv"], "needs the TABLE"),
    "released with settings": (
        good(),
        ["audit", "t.csv", "--released", "t.csv", "--l2", "1"],
        "--l2 cannot be given with --released",
    ),
    "attack: no noise": (good(), ["attack", "t.csv", "--target", "y", "--attribute", "city"], "--noise is missing"),
    "attack: no attribute": (good(), ["attack", "t.csv", "--target", "y", "--noise", "1"], "--attribute"),
    "attack: noise negative": (
        good(),
        ["attack", "t.csv", "--target", "y", "--attribute", "city", "--noise", "-1"],
        "noise must be",
    ),
    "attack: unknown attribute": (
        good(),
        ["attack", "t.csv", "--target", "y", "--attribute", "town", "--noise", "1"],
        "--attribute names 'town'",
    ),
}


def everything(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): None if p.is_dir() else p.read_bytes() for p in sorted(folder.rglob("*"))}


def check_refusal(done: Any, says: str) -> None:
    assert done.status == 2, done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    assert done.err.count("\n") == 1, done.err
    assert done.err.startswith("fisherleak: ")
    assert says in done.err
    assert "this should not happen" not in done.err
    assert len(done.err) < 1100


@pytest.mark.parametrize("name", CASES)
def test_refused_in_one_sentence(
    name: str, fisherleak: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, arguments, says = CASES[name]
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = everything(tmp_path)
    check_refusal(fisherleak(*arguments), says)
    assert everything(tmp_path) == before


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 60


UNSAYABLE = {"name with a null byte"}
"""The system passes no such argument on."""
OFTEN = {"missing file"}
"""Cases that go through the installed command in every run; a part of the others does in the long one."""
SOME = {*OFTEN, "unknown option", "damaged card", *[name for name in CASES if name not in UNSAYABLE][::8]}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in OFTEN else pytest.mark.long) for name in CASES if name in SOME],
)
def test_the_installed_command_refuses_alike(name: str, tmp_path: Path) -> None:
    prepare, arguments, says = CASES[name]
    prepare(tmp_path)
    before = everything(tmp_path)
    command = [str(installed()), *map(str, arguments)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch(r"fisherleak: [^\n]+\n", done.stderr)
    assert says in done.stderr
    assert everything(tmp_path) == before


def installed() -> Path:
    path = Path(sys.executable).with_name("fisherleak")
    if not path.exists():
        pytest.skip("the command is not installed beside this Python")
    return path


@pytest.mark.parametrize("place", ["summary", "leakage", "report", "rename"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_full_disk_leaves_nothing(
    place: str, code: int, fisherleak: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    csv(GOOD)(tmp_path)
    monkeypatch.chdir(tmp_path)
    fail_at(monkeypatch, place, OSError(code, os.strerror(code)))
    before = everything(tmp_path)
    check_refusal(fisherleak(*AUDIT, "--draws", "2", "--no-attacks"), os.strerror(code).lower())
    assert everything(tmp_path) == before


@pytest.mark.parametrize("place", ["fit", "summary", "leakage", "report", "rename"])
@pytest.mark.parametrize("exists", [False, True])
def test_an_interrupt_half_way_leaves_everything_as_it_was(
    place: str, exists: bool, fisherleak: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    csv(GOOD)(tmp_path)
    if exists:
        (tmp_path / "out").mkdir()
        for name in ("report.html", "summary.json", "mine"):
            (tmp_path / "out" / name).write_text("old")
    monkeypatch.chdir(tmp_path)
    fail_at(monkeypatch, place, KeyboardInterrupt())
    before = everything(tmp_path)
    check_refusal(fisherleak(*AUDIT, "--overwrite", "--draws", "2", "--no-attacks"), "interrupted; nothing was written")
    assert everything(tmp_path) == before


def fail_at(monkeypatch: pytest.MonkeyPatch, place: str, error: BaseException) -> None:
    """Make one step of writing fail."""

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    if place == "fit":
        monkeypatch.setattr("fisherleak.training.trained_model.minimised_on", fail)
    elif place == "summary":
        monkeypatch.setattr(Path, "write_text", fail)
    elif place == "leakage":
        monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", fail)
    elif place == "report":
        monkeypatch.setattr("fisherleak.report.outputs.render", fail)
    else:
        true = Path.replace
        count = iter(range(100))
        monkeypatch.setattr(Path, "replace", lambda self, to: fail() if next(count) == 1 else true(self, to))


def test_no_memory(fisherleak: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    csv(GOOD)(tmp_path)
    monkeypatch.chdir(tmp_path)
    fail_at(monkeypatch, "fit", MemoryError())
    check_refusal(fisherleak(*AUDIT), "not enough memory")


def test_a_defect_is_one_sentence_too(fisherleak: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    csv(GOOD)(tmp_path)
    monkeypatch.chdir(tmp_path)
    fail_at(monkeypatch, "fit", ZeroDivisionError("two\nlines"))
    done = fisherleak(*AUDIT)
    assert done.status == 2
    assert done.err == (
        "fisherleak: this should not happen (ZeroDivisionError: two lines): please report it with the command and the "
        "version.\n"
    )


def test_pyarrow_missing(fisherleak: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    csv(GOOD)(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    check_refusal(fisherleak(*AUDIT), "pip install 'fisherleak[frames]'")


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "SIGINT") or sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.usefixtures("heeded_interrupts")
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_real_interrupt(kind: signal.Signals, tmp_path: Path) -> None:
    fifo = tmp_path / "t.csv"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [str(installed()), *AUDIT], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with fifo.open("w") as pipe:  # opens when the command does, which then waits for more
        pipe.write(GOOD)
        pipe.flush()
        time.sleep(0.5)
        process.send_signal(kind)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (2, "", "fisherleak: interrupted; nothing was written.\n")
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.long
def test_a_reader_who_leaves_early_is_no_error(tmp_path: Path) -> None:
    csv(GOOD)(tmp_path)
    command = f"{installed()} audit t.csv --target y --json --no-attacks --draws 2 | head -c 10"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S607
    assert done.stderr == ""


def test_errors_are_of_our_own_kinds(tmp_path: Path) -> None:
    """From Python the refusals are exceptions that say the same."""
    from fisherleak.auditing.run import audit
    from fisherleak.training.trained_model import Settings

    with pytest.raises(DataError, match="does not exist"):
        audit(tmp_path / "none.csv", Settings("y"))
