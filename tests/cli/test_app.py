"""Options that take one value are given once; help in groups, on one screen, and everything where it is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fisherleak.cli._app import ALL, COMMANDS, GROUPS, IN_A_LINE, NEEDED, parser

pytest.importorskip("pyarrow")


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


NAMES = [command.__name__ for command in COMMANDS]


def options_of(name: str) -> list[set[str]]:
    found = parser().commands[name].params
    return [set(each.opts) for each in found if each.param_type_name == "option"]


def listed(text: str) -> set[str]:
    """The options of which a help has a line."""
    return {option for line in re.findall(r"(?m)^  (-.*)$", text) for option in re.findall(r"--[a-z0-9-]+", line[:28])}


@pytest.mark.parametrize("name", NAMES)
def test_every_option_has_a_group_and_is_shown_where_all_are_asked_for(fisherleak: Command, name: str) -> None:
    grouped = {option for group in GROUPS.values() for option in group}
    assert grouped >= NEEDED
    whole, short = fisherleak(name, ALL), fisherleak(name, "--help")
    assert (whole.status, short.status) == (0, 0)
    options = options_of(name)
    for names in options:
        assert names & grouped, names
        assert names & listed(whole.out)
        assert bool(names & NEEDED) == bool(names & listed(short.out)), names
    assert ALL in listed(short.out)
    lines = short.out.rstrip("\n").split("\n")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_every_command_is_listed_whole(fisherleak: Command) -> None:
    done = fisherleak("--help")
    lines = done.out.rstrip("\n").split("\n")
    assert set(IN_A_LINE) == set(NAMES)
    assert all(
        any(line.startswith(f"  {name} ") and line.endswith(IN_A_LINE[name]) for line in lines) for name in NAMES
    )


def test_options_of_groups_are_those_of_commands() -> None:
    known = {option for name in NAMES for names in options_of(name) for option in names} | {"--help"}
    assert {option for group in GROUPS.values() for option in group} - known <= {"--board", "--rows-per-person"}
