"""An option that takes one value is given once: of two, nobody could tell which one counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from fisherleak.cli._app import parser

Command = Callable[..., Any]
SINGLE = [
    (name, option.opts[0])
    for name, command in parser().commands.items()
    for option in command.params
    if option.param_type_name == "option" and not (option.multiple or option.is_flag or option.count)
]
REPEATABLE = {
    ("audit", "--attribute"),
    ("release", "--attribute"),
    ("attack", "--attribute"),
    ("audit", "--spread"),
    ("audit", "--bounds"),
    ("release", "--bounds"),
    ("audit", "--levels"),
    ("release", "--levels"),
    *(
        (name, option)
        for name in ("answers", "audit", "release", "attack")
        for option in ("--number", "--category", "--drop", "--na", "--unite")
    ),
}


@pytest.mark.parametrize(("command", "option"), SINGLE)
@pytest.mark.parametrize("joined", [False, True])
def test_repeats_are_refused_by_name(fisherleak: Command, command: str, option: str, joined: bool) -> None:
    once = [f"{option}=3"] if joined else [option, "3"]
    done = fisherleak(command, "t.csv", *once, "--quiet", *once)
    assert (done.status, done.out) == (2, "")
    assert done.err == f"fisherleak: {option} is given 2 times, and takes one value: give it once.\n"


def test_lists_are_those_that_say_so(fisherleak: Command) -> None:
    lists = {
        (name, option.opts[0])
        for name, command in parser().commands.items()
        for option in command.params
        if option.param_type_name == "option" and option.multiple
    }
    assert lists == REPEATABLE
    for name, command in parser().commands.items():
        for option in command.params:
            if (name, option.opts[0]) in REPEATABLE:
                assert "Repeatable" in option.help


def test_lists_and_flags_may_be_repeated(fisherleak: Command, people: Path) -> None:
    options = ("--target", "income", "--drop", "age", "--drop", "weight", "--no-attacks", "--draws", 4)
    assert fisherleak("audit", people, *options, "--quiet", "--quiet").status == 0
