"""Sentences: the library names arguments of Python, the command line options, and one table leads from one to the other."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import fisherleak as fl
from fisherleak.auditing.records import Plan
from fisherleak.cli._wording import OPTIONS, in_options, told
from fisherleak.training.model_kinds import KINDS
from fisherleak.training.trained_model import Settings
from where import parsed

Command = Callable[..., Any]
ROOT = Path(inspect.getfile(fl)).parent


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        ("leave it out with `drop=['age']`.", "leave it out with --drop age."),
        ("`drop=['a b', 'c']`", "--drop 'a b' --drop c"),
        ("""`drop=["it's"]`""", """--drop 'it'"'"'s'"""),
        ("`drop=['a`b']`", "--drop 'a`b'"),
        ("`noise` and `eta` cannot both be given", "--noise and --eta cannot both be given"),
        ("use `model='poisson'`", "use --model poisson"),
        ("a larger `max_eta`, a smaller `held_out`", "a larger --max-eta, a smaller --held-out"),
        ("`numbers` and `categories` keep columns", "--number and --category keep columns"),
        ("allow it with `overwrite=True`", "allow it with --overwrite"),
        ("use `delimiter=';'`", "use --delimiter ';'"),
        ("use `delimiter='\\t'`", "use --delimiter '\\t'"),
        ("`address='local:N'` needs a worker", "--cluster local:N needs a worker"),
        ("pass data_home=DIR or set FISHERLEAK_DATA=DIR", "pass --data-dir DIR or set FISHERLEAK_DATA=DIR"),
        ("or leave data_home out", "or leave --data-dir out"),
        ("`sample_weight` is no option, nor is `", "`sample_weight` is no option, nor is `"),
        ("noise must be a number; got '`'", "noise must be a number; got '`'"),
    ],
)
def test_arguments_become_options(sentence: str, told: str) -> None:
    assert in_options(sentence) == told


def test_the_help_names_every_kind_of_model(fisherleak: Command) -> None:
    assert f"auto (default), {', '.join(kind.name for kind in KINDS[:-1])} or {KINDS[-1].name}." in " ".join(
        fisherleak("audit", "--help-all").out.split()
    )


def test_only_sentences_are_reworded() -> None:
    """Names and values are the user's own, whatever they look like."""
    summary = {
        "assumptions": ["give `noise`"],
        "data": {"columns": [{"name": "`drop`", "note": "`categories` keeps it"}]},
        "rows": [{"id": "`id`", "values": {"note": "`l2`", "`l2`": "`l2`"}}],
        "diagnostics": {"warnings": ["a larger `l2`"], "seconds": {"fit": 1.0}},
    }
    assert told(summary) == {
        "assumptions": ["give --noise"],
        "data": {"columns": [{"name": "`drop`", "note": "--category keeps it"}]},
        "rows": [{"id": "`id`", "values": {"note": "`l2`", "`l2`": "`l2`"}}],
        "diagnostics": {"warnings": ["a larger --l2"], "seconds": {"fit": 1.0}},
    }


def test_every_option_is_one_of_a_command(fisherleak: Command) -> None:
    helped = " ".join(
        fisherleak(command, "--help-all").out
        for command in ("answers", "audit", "release", "verify", "attack", "reproduce")
    )
    assert set(OPTIONS.values()) <= set(re.findall(r"--[a-z0-9-]+", helped))
    arguments = {item.name for record in (Settings, Plan) for item in fields(record)}
    assert arguments - set(OPTIONS) == {
        "noise_note",
        "rare",
        "intercept_l2",
        "unconfirmed",
        "covariance",
        "scale_rule",
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--drop", "nobody"), "--drop names the column 'nobody'"),
        (("--number", "y"), "Column 'y' is named by --target and by --number"),
        (("--model", "poisson"), "--model poisson needs counts"),
        (("--noise", 1, "--eta", 1), "--noise and --eta cannot both be given"),
        (("--number", "c"), "leave it out with --drop c, or use --category"),
    ],
)
def test_the_command_line_says_options(fisherleak: Command, tmp_path: Path, arguments: Any, says: str) -> None:
    lines = "".join(f"{k},{'ab'[k % 2]},{k % 7 - 3}\n" for k in range(60))
    (tmp_path / "t.csv").write_text("x,c,y\n" + lines)
    done = fisherleak("audit", tmp_path / "t.csv", "--target", "y", *arguments)
    assert done.status == 2
    assert says in done.err
    assert "`" not in done.err


def test_summaries_and_reports_say_options(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    options = ("--target", "income", "--draws", 4, "--no-attacks")
    done = fisherleak("audit", people, *options, "--out", tmp_path / "out")
    assert "--model poisson is for counts" in done.out
    assert "--category keeps it" in done.out
    for text in (done.out, (tmp_path / "out" / "summary.json").read_text(encoding="utf-8")):
        assert "`" not in text
    assert "--model poisson is for counts" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_data_that_are_missing(fisherleak: Command, tmp_path: Path) -> None:
    done = fisherleak("reproduce", "table1", "--data-dir", tmp_path, "--out", tmp_path / "out")
    assert done.status == 2
    assert "or leave --data-dir out to download it" in done.err


def texts(tree: ast.AST) -> Iterator[ast.Constant]:
    """String literals that are no docstrings."""
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node


@pytest.mark.long
def test_the_library_does_not_speak_command_line() -> None:
    for path in sorted(ROOT.rglob("*.py")):
        if path.relative_to(ROOT).parts[0] in ("cli", "reproduce"):
            continue
        for node in texts(parsed(path)):
            assert not re.search(r"(?<![\w-])--[a-z]", str(node.value)), f"{path.relative_to(ROOT)}, line {node.lineno}"
