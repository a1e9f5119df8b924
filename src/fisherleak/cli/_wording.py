"""Sentences of the library in the terms of the command line.

The library names arguments of Python in backticks; here, and only here, they become options:
``leave it out with `drop=['age']` `` is ``leave it out with --drop age`` on a terminal.
"""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import fields, is_dataclass, replace
from typing import Any

SAME = (
    *(
        "target",
        "model",
        "l2",
        "held_out",
        "seed",
        "drop",
        "id",
        "group",
        "noise",
        "eta",
        "max_eta",
        "balance",
        "draws",
    ),
    *(
        "delimiter",
        "encoding",
        "header",
        "columns",
        "sheet",
        "decimal",
        "na",
        "unite",
        "keep_total",
        "missing",
        "person",
    ),
    *("out", "overwrite", "attribute", "sign", "key", "public", "levels", "over", "bounds", "ledger", "limit", "shape"),
    *("shape_from", "rows_per_person", "spread", "policy", "of", "released", "metric", "board", "quick"),
)
"""Arguments whose option has their name."""
OPTIONS = {
    **{name: f"--{name.replace('_', '-')}" for name in SAME},
    "attacks": "--no-attacks",
    "numbers": "--number",
    "categories": "--category",
    "attributes": "--attribute",
    "room": "--memory",
    "address": "--cluster",
    "data_home": "--data-dir",
}
"""From arguments to options."""
SENTENCES, OWN = {"assumptions", "note", "notes", "warnings"}, {"values"}
"""Keys of summaries and cards under which sentences lie, and raw values of rows."""
VALUE = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^`'"])*"""
ARGUMENT = re.compile(rf"`(\w+)(?:=({VALUE}))?`|\b(data_home)(?:=(\w+))?")


RANGE = "(low, high)"
"""Stands for bounds of a column that are to be filled in."""


def in_options(sentence: str) -> str:
    """The sentence with options in place of arguments.

    Examples
    --------
    >>> in_options("leave it out with `drop=['shoe size']`, or use a larger `max_eta`")
    "leave it out with --drop 'shoe size', or use a larger --max-eta"
    """
    return ARGUMENT.sub(_option, sentence)


def told(value: Any) -> Any:
    """A summary or model card with all its sentences in these terms; names and values are the user's own and stay."""
    if isinstance(value, dict):
        return {key: _told_under(key, item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{each.name: _told_under(each.name, getattr(value, each.name)) for each in fields(value)}
        )
    return type(value)(map(told, value)) if isinstance(value, (list, tuple)) else value


def _told_under(key: str, value: Any) -> Any:
    return value if key in OWN else _worded(value) if key in SENTENCES else told(value)


def _worded(value: Any) -> Any:
    if isinstance(value, str):
        return in_options(value)
    return type(value)(map(_worded, value)) if isinstance(value, (list, tuple)) else told(value)


def _option(found: re.Match[str]) -> str:
    name, value = found[1] or found[3], found[2] or found[4]
    if name not in OPTIONS:
        return found[0]
    return OPTIONS[name] if value is None else " ".join(_given(OPTIONS[name], value))


def _given(option: str, value: str) -> list[str]:
    """An option with its value, once for each item of a list."""
    ranged = RANGE in value
    try:
        known = ast.literal_eval(value.replace(RANGE, "0"))
    except (ValueError, SyntaxError):
        return [option, value]  # a word that stands for a value
    if isinstance(known, bool):
        off = option if option.startswith("--no-") else f"--no-{option.removeprefix('--')}"
        return [option if known else off]
    if ranged:
        return [word for name in known for word in (option, f"{_quoted(str(name))}=LOW:HIGH")]
    items = known if isinstance(known, (list, tuple)) else [known]
    return [word for item in items for word in (option, _quoted(str(item)))]


def _quoted(text: str) -> str:
    """As a shell takes it; with escapes where it cannot be printed."""
    return shlex.quote(text) if text.isprintable() else repr(text)
