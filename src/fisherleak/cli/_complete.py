"""What a shell offers after TAB: values of choices, and the columns of the table that is named on the line.

The parser keeps to what begins with the word so far; each shell's script asks and inserts the answers in its own way.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import SupportsIndex

import typer

from fisherleak.reproduce import NAMES

MODELS = ("auto", "linear", "logistic", "softmax", "poisson", "gamma")
"""Those of ``audit.kinds``, which loads scikit-learn."""
PUBLIC = ("nothing", "preprocessing")
"""Those of ``audit.model``, which loads scikit-learn."""
METRICS = ("auc", "log-loss", "accuracy", "r2", "deviance")
"""Those of ``training.model_kinds``, which loads scikit-learn."""
OVER = ("any-record", "max")
"""Those of ``audit.released_files``, which loads scikit-learn."""
SHAPES = ("isotropic", "hessian", "least-loss")
"""Those of ``protection.calibrate.shapes``, which loads scikit-learn."""
WAYS = ("impute", "drop")
"""Those of ``tables.decide.choices``."""
MARKS = (".", ",")
"""Decimal marks."""
ANSWERED = ("score", "probability", "label")
"""Those of ``audit.query_log``, which loads scikit-learn."""
ASKED = "_FISHERLEAK_COMPLETE"
"""The variable in which a shell's script says which shell it is."""
SPECIAL = re.compile(r"[^\w@%+=:,./-]")
NOT_QUOTED = frozenset("*?[\"'\\$`!")
"""What a shell reads inside quotes too, or bash in the answers: names with it are offered without quotes only."""


class Typed(str):
    """A name as it must stand on the command line; it begins as the name does."""

    name: str

    def __new__(cls, name: str, text: str) -> Typed:
        typed = super().__new__(cls, text)
        typed.name = name
        return typed

    def __add__(self, sign: str) -> Typed:
        return Typed(self.name + sign, str(self) + sign)

    def startswith(self, prefix: str | tuple[str, ...], *span: SupportsIndex | None) -> bool:
        """Whether the name begins so: the parser compares with what was typed, without its quotes."""
        return self.name.startswith(prefix, *span)


def offered(words: Sequence[str]) -> Callable[[], list[str]]:
    """What is offered for an option that takes one of these."""
    return lambda: list(words)


metrics = offered(METRICS)


def items(ctx: typer.Context) -> list[str]:
    """Items of the reproduction that the line does not have yet."""
    given = ctx.params.get("items") or ()
    return [name for name in ("all", *NAMES) if name not in given]


def columns(ctx: typer.Context) -> list[str]:
    """Columns of the table on the line; none where it cannot be read, whatever the reason."""
    try:
        from fisherleak.tables.read.header import header_of

        table = _table(ctx)
        if table is None or table == "-":
            return []
        path = os.path.expandvars(os.path.expanduser(table))  # noqa: PTH111 - the shell has not seen to it
        given = (ctx.params.get(name) for name in ("delimiter", "encoding"))
        return list(_insertable(header_of(path, *given)))
    except Exception:  # a word would appear in the middle of what is typed
        return []


def columns_to_set(ctx: typer.Context) -> list[str]:
    """The same for options that take COLUMN=…: the column and the sign behind it."""
    return [name + "=" for name in columns(ctx)]


def _table(ctx: typer.Context) -> str | None:
    """The TABLE of a line whose last option still lacks its value, so that the parser has not got to it."""
    table = ctx.params.get("table")
    if table is not None:
        return str(table)
    # before it may stand other arguments: MODEL of predict
    arguments = [each.name for each in ctx.command.params if each.param_type_name == "argument"]
    rest = [word for word in ctx.args if word == "-" or not word.startswith("-")]
    place = arguments.index("table") - sum(ctx.params.get(name) is not None for name in arguments)
    return rest[place] if place < len(rest) else None


def _insertable(names: Iterable[str]) -> Iterable[str]:
    shell = os.environ.get(ASKED, "").rpartition("_")[2]
    if shell == "bash":
        return _for_bash(names)
    # the parser's words for zsh are evaluated, and a backslash would undo their quotes
    return (name for name in names if shell != "zsh" or "\\" not in name)


def _for_bash(names: Iterable[str]) -> Iterable[str]:
    """Bash inserts answers as they are, behind a quote if one was opened."""
    words = os.environ.get("COMP_WORDS", "").split("\n")
    place = int(os.environ.get("COMP_CWORD", "0"))
    quote = words[place][:1] if place < len(words) else ""
    for name in names:
        if quote not in ("'", '"'):
            yield Typed(name, re.sub(SPECIAL, r"\\\g<0>", name))
        elif not NOT_QUOTED & set(name):
            yield name
