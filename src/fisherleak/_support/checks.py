"""Checks at the public edge: each refusal carries the name, the value, the rule and the remedy."""

from __future__ import annotations

import difflib
import math
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from fisherleak._support.namespaces import TableLike
from fisherleak.errors import InvalidInputError

SMALLEST_LIMIT, LARGEST_LIMIT = 1e-100, 1e100
"""Limits on eta whose squares neither vanish nor overflow, beside etas of any usual size."""


def column_names(X: TableLike) -> list[str] | None:
    """The names of a table's columns, or None for a bare array."""
    columns = getattr(X, "columns", None)
    return None if columns is None else [str(name) for name in columns]


def default_names(count: int) -> list[str]:
    return [f"x{j}" for j in range(count)]


def check_positive(value: Any, name: str, *, zero: bool = False) -> float:
    """A finite number greater than zero (or zero), as a float."""
    rule = "zero or more" if zero else "greater than zero"
    if isinstance(value, (bool, str)) or not isinstance(value, (int, float, np.number)):
        raise InvalidInputError(f"{name} must be a number, {rule}; got {value!r}.")
    if not (math.isfinite(value) and (value > 0 or (zero and value == 0))):
        raise InvalidInputError(f"{name} must be a finite number, {rule}; got {value}.")
    return float(value)


def check_limit(eta: Any) -> float:
    """A limit on eta, as a float: one whose square, and whose noise, floats can hold."""
    limit = check_positive(eta, "eta")
    if not SMALLEST_LIMIT <= limit <= LARGEST_LIMIT:
        raise InvalidInputError(
            f"eta must be from {SMALLEST_LIMIT:g} to {LARGEST_LIMIT:g}, so that some noise of a finite scale meets the limit; "
            f"got {limit:g}. Rescale labels and columns so that typical values are about 1."
        )
    return limit


def check_range(value: Any, name: str) -> float:
    """A positive number whose square floats can hold."""
    size = check_positive(value, name)
    if not SMALLEST_LIMIT <= size <= LARGEST_LIMIT:
        raise InvalidInputError(f"{name} must be between {SMALLEST_LIMIT:g} and {LARGEST_LIMIT:g}; got {value!r}.")
    return size


def check_part(value: Any, name: str, most: float, what: str = "", *, ends: bool = True) -> float:
    """A number from zero to another, with these two or without, as a float."""
    known = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not (known and (0 <= value <= most if ends else 0 < value < most)):
        raise InvalidInputError(f"{name} must be between 0 and {most:g}{what}; got {value!r}.")
    return float(value)


def check_flag(value: Any, name: str) -> bool:
    """True or false itself, and nothing that would pass for it."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInputError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


def nearest(name: str, names: Sequence[str]) -> str:
    """' Did you mean ...?' where a name is close, else the names there are."""
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"Did you mean '{close[0]}'?"
    shown = ", ".join(f"'{other}'" for other in names[:8])
    return f"There are: {shown}{', …' if len(names) > 8 else ''}."


def warn_renamed(old: str, new: str) -> None:
    """Say where users wrote it that a public name of version 0.2 has another one now."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "fisherleak":
        level, frame = level + 1, frame.f_back
    warnings.warn(
        f"{old} is called {new} now: write that. The old name works until version 0.4.",
        FutureWarning,
        stacklevel=level,
    )
