"""The command that comes after an audit: a release of the same model with the noise that was advised."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fisherleak.cli._common import printable
from fisherleak.cli._options import OPTIONS

if TYPE_CHECKING:
    from fisherleak.training.trained_model import Settings

__all__ = ["command_around"]

SAME = (
    "model",
    "l2",
    "numbers",
    "categories",
    "drop",
    "decimal",
    "na",
    "unite",
    "keep_total",
    "missing",
    "id",
    "person",
    "public",
    "bounds",
    "levels",
)
"""Settings that a release takes as the audit does."""
FORM = ("delimiter", "encoding", "columns")


def command_around(table: str | None, settings: Settings, form: Mapping[str, Any]) -> tuple[str, str] | None:
    """The command for any noise: what stands before its scale and what behind; none where no table could be read again.

    The data that come with the command have no file to release from: they are audited again.
    """
    if table == "-":
        return None
    words = ["fisherleak", "audit"] if table is None else ["fisherleak", "release", table, "--target", settings.target]
    plain = type(settings)(settings.target)
    given = {name: getattr(settings, name) for name in SAME if getattr(settings, name) != getattr(plain, name)}
    for name, value in {**given, **{key: form[key] for key in FORM if form.get(key) is not None}}.items():
        words += _option(OPTIONS[name], _written(name, value))
    if form.get("header") is not None:
        words.append("--header" if form["header"] else "--no-header")
    out = "" if table is None else " --out model.skops"
    return printable(shlex.join([*words, "--noise"])) + " ", out


def _written(name: str, value: Any) -> Any:
    """A setting as its option takes it."""
    return _ranges(value) if name == "bounds" else _named(value) if name == "levels" else value


def _ranges(bounds: tuple[tuple[str, tuple[float, float]], ...]) -> tuple[str, ...]:
    return tuple(f"{name}={low:.15g}:{high:.15g}" for name, (low, high) in bounds)


def _named(levels: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[str, ...]:
    return tuple(f"{name}={','.join(own)}" for name, own in levels)


def _option(option: str, value: Any) -> list[str]:
    if value is True:
        return [option]
    return [word for item in (value if isinstance(value, tuple) else (value,)) for word in (option, str(item))]
