"""The target of a model: which kind of model it asks for, and its labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fisherleak.errors import InvalidInputError
from fisherleak.tables.columns import as_codes, as_numbers, check_finite
from fisherleak.tables.kinds import sort_of
from fisherleak.tables.reading import RawTable

__all__ = ["MODELS", "ModelKind", "Target", "label_rows", "moments", "scaled"]

ModelKind = Literal["linear", "logistic", "poisson"]
MODELS = ("auto", "linear", "logistic", "poisson")
EXTREME = 1e100
"""Numbers beyond this, or all below its inverse, overflow or vanish when they are squared and multiplied."""
SAME = 1e-11
"""A spread below this part of the size of a column is rounding."""
DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Target:
    """What is predicted. The model is fitted on (value - centre) / scale, or on 0 and 1 for the two classes."""

    name: str
    kind: ModelKind
    assumed: bool
    note: str
    classes: tuple[Any, ...] = ()
    centre: float = 0.0
    scale: float = 1.0


def label_rows(raw: RawTable, name: str, model: str) -> tuple[Target, Vector, NDArray[np.int64], list[tuple[str, int]]]:
    """The target's kind, its labels with NaN where missing, and the rows that have one."""
    values = raw.columns.get(name)
    sort = sort_of(values.type)
    if sort not in ("number", "text", "bool"):
        raise InvalidInputError(
            f"The target '{name}' holds {values.type}: it must be numbers, or text with two values."
        )
    if sort == "number" and model in ("linear", "poisson", "auto"):
        labels = as_numbers(values)
        check_finite(labels, name)
        present = labels[~np.isnan(labels)]
        if present.size and np.all(present == present[0]):
            raise InvalidInputError(f"The target '{name}' has one value only: there is nothing to predict.")
        if model != "auto" or np.unique(present[:10_000]).size > 2 or np.unique(present).size > 2:
            target = _number_target(name, present, model)
            return (target, labels, *_with_label(labels, name))
    if model in ("linear", "poisson") and sort == "text":
        raise InvalidInputError(f"The target '{name}' holds text: --model {model} needs numbers. Use --model logistic.")
    coded = as_codes(values)
    labels = np.where(coded.codes < 0, np.nan, coded.codes.astype(np.float64))
    if len(coded.levels) < 2:
        raise InvalidInputError(f"The target '{name}' has one value only: there is nothing to predict.")
    if model in ("linear", "poisson"):  # true and false
        kind: ModelKind = "linear" if model == "linear" else "poisson"
        return (Target(name, kind, False, ""), labels, *_with_label(labels, name))
    if len(coded.levels) > 2:
        raise InvalidInputError(
            f"The target '{name}' has {len(coded.levels)} different values{' of text' if sort == 'text' else ''}: a logistic "
            f"model needs two. {_remedy(sort, coded.levels)}"
        )
    note = f"'{name}' has two values, so the model is logistic." if model == "auto" else ""
    return (Target(name, "logistic", model == "auto", note, coded.levels), labels, *_with_label(labels, name))


def _remedy(sort: str, levels: Sequence[Any]) -> str:
    if sort == "number":
        return "Make it one against the rest, or use --model linear."
    if all(DECIMAL_COMMA.fullmatch(str(level)) for level in levels):
        return "They look like numbers with a decimal comma: write them with a point."
    return "Make it one against the rest."


def _number_target(name: str, present: Vector, model: str) -> Target:
    counts = bool(np.all(present >= 0) and np.all(present == np.floor(present)))
    if model == "poisson":
        if not np.all(present >= 0):
            raise InvalidInputError(f"The target '{name}' has values below zero: --model poisson needs counts.")
        if present.max(initial=0.0) > 1e9:
            raise InvalidInputError(
                f"The target '{name}' has counts above 1e9: a Poisson model would overflow. Rescale it."
            )
        return Target(name, "poisson", False, "")
    note = f"'{name}' holds numbers, so the model is linear."
    if counts:
        note = f"'{name}' holds whole numbers, and the model is linear all the same; --model poisson is for counts."
    return Target(name, "linear", model == "auto", note if model == "auto" else "")


def _with_label(labels: Vector, name: str) -> tuple[NDArray[np.int64], list[tuple[str, int]]]:
    kept = np.flatnonzero(~np.isnan(labels))
    missing = labels.size - kept.size
    return kept, [(f"the target '{name}' is missing", int(missing))] if missing else []


def scaled(target: Target, y: Vector, y_test: Vector) -> tuple[Target, Vector, Vector]:
    """A linear model's labels in standard deviations; classes and counts as they are."""
    if target.kind != "linear":
        return target, y, y_test
    centre, scale = moments(y, f"The target '{target.name}'")
    if scale == 0:
        raise InvalidInputError(
            f"The target '{target.name}' has one value only in the training rows: nothing to predict."
        )
    target = replace(target, centre=centre, scale=scale)
    return target, (y - centre) / scale, (y_test - centre) / scale


def moments(values: Vector, what: str) -> tuple[float, float]:
    """Mean and standard deviation; a deviation of zero where there is none beyond rounding."""
    largest = float(np.abs(values).max())
    if np.all(values == values[0]):
        return float(values[0]), 0.0
    if largest > EXTREME:
        raise InvalidInputError(f"{what} has values as large as {largest:.1e}: use a larger unit.")
    if largest < 1 / EXTREME:
        raise InvalidInputError(f"{what} has values no larger than {largest:.1e}: use a smaller unit.")
    moved = values - values[0]  # columns of years keep their digits
    mean = float(moved.mean())
    spread = float(np.sqrt(np.mean((moved - mean) ** 2)))
    centre = float(values[0]) + mean
    return (centre, 0.0) if spread <= SAME * abs(centre) else (centre, spread)
