"""The first second: what commands load before they work, what a shell completes, interrupts, and tracebacks on request."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest

from fisherleak.cli import COMMANDS, app, main
from fisherleak.cli._common import M_MMAP_MAX, M_TRIM_THRESHOLD, keep_memory
from fisherleak.cli._complete import METRICS, MODELS
from fisherleak.reproduce import ITEMS, NAMES
from fisherleak.tables.read.header import header_of
from fisherleak.training.model_kinds import KINDS

Command = Callable[..., Any]
NAMES_OF_COMMANDS = [command.__name__ for command in COMMANDS]
HEAVY = {
    *(
        "numpy",
        "scipy",
        "sklearn",
        "pandas",
        "dask",
        "pyarrow",
        "matplotlib",
        "rich",
        "jinja2",
        "pooch",
        "skops",
        "numba",
    ),
}
TOLD = "import json, sys\nfrom fisherleak.cli import main\ntry: main(sys.argv[1:])\nexcept SystemExit: pass\n"
LOADED = "print('\\n' + json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")


def run(*arguments: str, refused: str = "", **variables: str) -> tuple[str, set[str]]:
    """What a command prints in a process of its own, and the packages it loads; what it refuses, if it does."""
    command = [sys.executable, "-c", TOLD + LOADED, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **variables})
    assert refused in done.stderr if refused else not done.stderr
    out, _, packages = done.stdout.rstrip("\n").rpartition("\n")
    return out.rstrip("\n"), set(json.loads(packages))


@pytest.fixture(scope="session")
def of_parser() -> set[str]:
    """What the parser loads by itself: older ones load rich."""
    code = "import json, sys, typer.main\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


# what is loaded


@pytest.mark.parametrize("line", [["--version"], ["--help"], *([name, "--help"] for name in NAMES_OF_COMMANDS)])
def test_help_and_version_load_no_library(line: list[str], of_parser: set[str]) -> None:
    out, packages = run(*line)
    assert out.startswith(("fisherleak ", "Usage: "))
    assert not packages & (HEAVY - of_parser)


MISSING = [
    "audit no.csv --target y",
    "attack no.csv --target y --attribute a",
    "verify no.skops",
    "ledger no.json no.csv",
    "ledger no.json --carry-to new.json",
    "release no.csv --target y --eta 1 --out m.skops",
    "predict no.skops {there}",
    "answers {there} no.csv --target y --noise 1",
    "audit {there} --target y --noise 1 --policy no.toml",
    "audit {there} --target y --released no.skops",
    "release {there} --target y --eta 1 --out m.skops --sign no.pem",
    "release {there} --target y --eta 1 --out m.skops --shape-from no.csv",
    "verify {there} --key no.pem",
    "verify {there} --ledger no.json",
]


@pytest.mark.parametrize("line", MISSING)
def test_a_missing_file_is_said_before_any_library_is_loaded(line: str, of_parser: set[str]) -> None:
    words = line.format(there=__file__).split()
    assert not run(*words, refused="does not exist")[1] & (HEAVY - of_parser)


def test_the_entry_point_loads_not_even_the_parser() -> None:
    code = "import json, sys\nfrom fisherleak.cli import main\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(json.loads(done.stdout)) & {*HEAVY, "typer"}
    assert [command.__name__ for command in COMMANDS] == [command.name for command in app.registered_commands]


def test_lists_that_are_shown_are_those_that_are_used() -> None:
    assert ("auto", *(kind.name for kind in KINDS)) == MODELS
    assert {metric.name.replace("_", "-") for kind in KINDS for metric in kind.metrics} == set(METRICS)
    assert {name: item.name for name, item in ITEMS.items()} == {name: name for name in NAMES}


# completion


def bash(*words: str) -> dict[str, str]:
    """What bash's script says when the last word is completed."""
    return {
        "COMP_WORDS": "\n".join(("fisherleak", *words)),
        "COMP_CWORD": str(len(words)),
        "_FISHERLEAK_COMPLETE": "complete_bash",
    }


def zsh(*words: str) -> dict[str, str]:
    return {"_TYPER_COMPLETE_ARGS": " ".join(("fisherleak", *words)), "_FISHERLEAK_COMPLETE": "complete_zsh"}


def offered(text: str) -> list[str]:
    """The words of an answer, for either shell."""
    found = re.search(r"\(\((.*)\)\)", text, re.DOTALL)
    return [line.strip('"') for line in found[1].splitlines()] if found else text.split("\n") if text else []


@pytest.fixture
def completed(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Completes a line in this process; nothing may go to standard error."""

    def complete(variables: dict[str, str]) -> list[str]:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as leaving:
            main([])
        assert not leaving.value.code
        captured = capfd.readouterr()
        assert captured.err == ""
        return [] if captured.out.strip() == "_files" else offered(captured.out.rstrip("\n"))

    return complete


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "t.csv"
    path.write_text("age,body mass,$x;y,sick\n1,2,3,4\n")
    return path


@pytest.mark.parametrize("shell", [bash, zsh])
def test_completion_loads_no_library(shell: Command, table: Path, of_parser: set[str]) -> None:
    out, packages = run(**shell("audit", table.name, "--target", "a"))
    assert offered(out) == ["age"]
    assert not packages & (HEAVY - of_parser)
    out, packages = run(**shell("audit", "--model", "lo"))
    assert offered(out) == ["logistic"]
    assert not packages & (HEAVY - of_parser)
    out, packages = run(**shell("release", "--no-such", "--tar"))
    assert "--target" in out
    assert not packages & (HEAVY - of_parser - {"rich"})  # zsh is shown the help, which the parser renders


@pytest.mark.parametrize("shell", [bash, zsh])
def test_choices(shell: Command, completed: Command) -> None:
    assert completed(shell("audit", "t.csv", "--model", "")) == list(MODELS)
    assert completed(shell("audit", "t.csv", "--decimal", "")) == [".", ","]
    assert completed(shell("audit", "t.csv", "--metric", "a")) == ["auc", "accuracy"]
    assert completed(shell("reproduce", "figure1", "figure")) == [f"figure{k}" for k in range(2, 8)]
    assert "all" in completed(shell("reproduce", ""))
    assert {word.partition('"')[0] for word in completed(shell(""))} == set(NAMES_OF_COMMANDS)
    assert "--debug" in str(completed(shell("audit", "--d")))
    assert completed(shell("--version", "aud"))[0].startswith("audit")


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *((command, option) for command in ("audit", "release", "attack") for option in ("--target", "--attribute")),
        *(("audit", option) for option in ("--drop", "--number", "--category", "--id", "--group")),
    ],
)
def test_columns_of_the_table_on_the_line(command: str, option: str, table: Path, completed: Command) -> None:
    names = ["age", "body mass", r"\$x;y", "sick"]
    assert completed(zsh(command, table.name, option, "")) == names
    assert completed(zsh(command, "--seed", "3", table.name, "--drop", "age", option, "")) == names
    assert completed(zsh(command, table.name, f"{option}=s")) == ["sick"]
    assert completed(bash(command, "./t.csv", option, "")) == ["age", r"body\ mass", r"\$x\;y", "sick"]


def test_columns_are_those_of_the_table_behind_the_model(table: Path, completed: Command) -> None:
    (table.parent / "m.skops").write_text("no,table\n1,2\n")
    assert completed(zsh("predict", "m.skops", table.name, "--id", "")) == ["age", "body mass", r"\$x;y", "sick"]
    assert completed(zsh("predict", "--key", "k.pem", "m.skops", table.name, "--id=s")) == ["sick"]
    assert completed(zsh("predict", "m.skops", "--id", "")) == []


@pytest.mark.parametrize(
    ("command", "option"), [("release", "--bounds"), ("release", "--levels"), ("audit", "--spread")]
)
def test_columns_that_something_is_said_of(command: str, option: str, table: Path, completed: Command) -> None:
    assert completed(zsh(command, table.name, option, "")) == ["age=", "body mass=", r"\$x;y=", "sick="]
    assert completed(bash(command, "./t.csv", option, "b")) == [r"body\ mass="]


def test_blanks_survive(table: Path, completed: Command) -> None:
    assert completed(bash("audit", "t.csv", "--target", r"body\ m")) == [r"body\ mass"]
    assert completed(bash("audit", "t.csv", "--target", '"body m')) == ["body mass"]
    assert completed(bash("audit", "t.csv", "--target", "'$")) == []  # only a backslash makes it harmless
    assert completed(zsh("audit", "t.csv", "--target", r"body\ m")) == ["body mass"]
    table.rename(table.with_name("my table.csv"))
    assert completed(bash("audit", r"my\ table.csv", "--id", "body\\ mass", "--target", "s")) == ["sick"]
    assert completed(zsh("audit", "'my table.csv'", "--target", "s")) == ["sick"]


def test_every_kind_of_table(table: Path, completed: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(*words: str) -> list[str]:
        names: list[str] = completed(zsh("audit", *words, "--target", ""))
        return names

    frame = pandas.DataFrame({"body mass": [1.0], "größe": [2.0]})
    Path("latin").write_bytes("größe~a\n1~2\n".encode("latin-1"))
    assert found("latin", "--delimiter", "'~'", "--encoding", "latin-1") == ["größe", "a"]
    assert found("latin", "--delimiter", "'~'") == ["a"]
    Path("semicolons").write_text('\ufeff\n"a;b";c,d;\x1b[31m;\n1;2;3;4\n', encoding="utf-8")
    assert found("semicolons") == ["a;b", "c,d"]
    Path("t.csv.gz").write_bytes(gzip.compress(table.read_bytes()))
    assert found("t.csv.gz") == found("t.csv")
    frame.to_parquet("t.parquet")
    Path("folder").mkdir()
    frame.to_parquet("folder/a.parquet")
    for name in ("t.parquet", "folder", "'fold*/*.parquet'"):
        assert found(name) == ["body mass", "größe"]
    monkeypatch.setenv("HOME", str(table.parent))
    assert found("~/t.csv") == found("$HOME/t.csv") == found("t.csv") != []


@pytest.mark.parametrize(
    "make",
    [
        lambda: Path("bad").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00"),
        lambda: Path("bad").write_bytes(b""),
        lambda: Path("bad").write_bytes(b"\n\n"),
        lambda: Path("bad").write_bytes(b"PAR1 but no more"),
        lambda: Path("bad").write_bytes(gzip.compress(b"a,b\n1,2\n")[:9]),
        lambda: Path("bad").write_bytes(gzip.compress(b"PAR1 in gzip")),
        lambda: Path("bad").mkdir(),
        lambda: Path("bad").symlink_to("bad"),
        lambda: os.mkfifo("bad"),
        lambda: None,
    ],
)
def test_an_unreadable_table_completes_nothing(make: Command, table: Path, completed: Command) -> None:
    make()
    for shell in (bash, zsh):
        assert completed(shell("audit", "bad", "--target", "")) == []


def test_no_table_completes_nothing(table: Path, completed: Command) -> None:
    for name in ("-", "s3://people/t.csv", "'t[.csv'", "x" * 5000, "--"):
        assert completed(zsh("audit", name, "--target", "")) == []
    assert completed(zsh("audit", "--target", "")) == []
    assert completed(zsh("audit", "t.csv", "--encoding", "no-such", "--target", "")) == []
    assert completed(zsh("audit", "t.csv", "--delimiter", "'~'", "--target", "")) == []


def test_names_cannot_run_anything(table: Path, completed: Command) -> None:
    """What zsh evaluates holds no name with a backslash, which would free what the parser has quoted."""
    table.write_text("a\\$(touch pwned),b`touch pwned`,$(touch pwned)\n1,2,3\n")
    assert completed(zsh("audit", "t.csv", "--target", "")) == [r"b\`touch pwned\`", r"\$(touch pwned)"]
    assert completed(bash("audit", "t.csv", "--target", "$")) == [r"\$\(touch\ pwned\)"]


def test_bash_gets_one_word(table: Path, tmp_path: Path) -> None:
    """The script that the parser writes, run by bash itself."""
    command = tmp_path / "bin" / "fisherleak"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nimport sys\nfrom fisherleak.cli import main\nsys.exit(main())\n")
    command.chmod(0o755)
    script = """
    eval "$(_FISHERLEAK_COMPLETE=source_bash fisherleak)"
    COMP_WORDS=(fisherleak audit t.csv --target "$1"); COMP_CWORD=4
    _fisherleak_completion fisherleak
    eval "set -- ${COMPREPLY[0]}"
    echo "${#COMPREPLY[@]} $# $1"
    """
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    for typed, name in (("bo", "body mass"), (r"\$", "$x;y")):
        done = subprocess.run(
            ["bash", "--norc", "-c", script, "bash", typed],  # noqa: S607
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PATH": path},
        )
        assert (done.stdout, done.stderr) == (f"1 1 {name}\n", "")


def test_a_header_is_what_the_table_has(people: Path, frame: pandas.DataFrame) -> None:
    assert header_of(str(people)) == tuple(frame.columns)


# tracebacks


@pytest.mark.parametrize(
    "line",
    [
        ["audit", "none.csv", "--target", "y"],
        ["audit", "t.csv"],
        ["audit", "t.csv", "--no-such-option"],
        ["attack", "t.csv", "--target", "age", "--attribute", "nose", "--noise", "-1"],
        ["reproduce", "figure99"],
        ["release", "t.csv"],
    ],
)
def test_the_traceback_beside_the_sentence(line: list[str], fisherleak: Command, table: Path) -> None:
    plain = fisherleak(*line)
    assert plain.status == 2
    assert plain.err.count("\n") == 1
    for switched in (["--debug", *line], [*line, "--debug"]):
        done = fisherleak(*switched)
        assert done.status == plain.status
        assert done.err.startswith("Traceback (most recent call last):\n")
        assert done.err.endswith(plain.err)
        assert done.out == plain.out


def test_what_should_not_happen_shows_where(fisherleak: Command, people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("\x1b[31m")

    monkeypatch.setattr("fisherleak.tables.read_table", broken)
    assert "Traceback" not in fisherleak("audit", people, "--target", "sick").err
    done = fisherleak("audit", people, "--target", "sick", "--debug")
    assert done.status == 2
    assert "in broken" in done.err
    assert "\x1b" not in done.err


@pytest.mark.long
def test_the_switch_changes_nothing_else(fisherleak: Command, people: Path) -> None:
    line = ["audit", people, "--target", "sick", "--no-attacks", "--draws", "2"]
    plain, debug = fisherleak(*line), fisherleak("--debug", *line)
    assert (debug.status, debug.err) == (0, "")
    assert plain.out == debug.out
    assert fisherleak("--debug", "--version").err == ""


# interrupts

HOOK = """
import os, signal, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)
        if name == "fisherleak.cli._common":
            os.write(1, b".")

sys.meta_path.insert(0, Watch())
from fisherleak.cli import main
sys.exit(main(sys.argv[2:]))
"""
SENTENCE = b"fisherleak: interrupted; nothing was written.\n"


@pytest.mark.long
@POSIX
@pytest.mark.usefixtures("heeded_interrupts")
@pytest.mark.parametrize(
    "module",
    ["fisherleak.cli._common", "typer", "fisherleak.cli._app", "numpy", "sklearn", "fisherleak.tables.read.opening"],
)
def test_an_interrupt_during_imports(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", HOOK, module, "audit"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (2, SENTENCE)


@POSIX
@pytest.mark.usefixtures("heeded_interrupts")
@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.1, 0.2, 0.4, 0.8])
def test_an_interrupt_in_the_first_second(seconds: float) -> None:
    command = [sys.executable, "-c", HOOK, "", "audit"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"."  # it has begun
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err.lstrip()) == (2, SENTENCE)  # older parsers end the line first


@pytest.mark.skipif(sys.platform != "linux", reason="an option of the GNU C library")
def test_commands_run_with_a_c_library_that_keeps_no_memory_when_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[int] = []

    class Allocator:
        def mallopt(self, option: int, value: int) -> None:
            told.append(option)

    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    monkeypatch.setattr("ctypes.CDLL", lambda _: Allocator())
    keep_memory(str(tmp_path / "t.csv"))
    assert told == [M_MMAP_MAX, M_TRIM_THRESHOLD]
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    keep_memory(str(tmp_path / "t.csv"))
