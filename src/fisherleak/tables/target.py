"""The target of a model: which kind of model it asks for, and its labels."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fisherleak.errors import InvalidInputError
from fisherleak.rows.moments import Moments
from fisherleak.tables.arrow_columns import as_numbers, places
from fisherleak.tables.choices import sort_of
from fisherleak.tables.profile import Numbers, Profile

__all__ = ["MODELS", "ModelKind", "Target", "check_finite", "labels_of", "scaled", "target_of"]

ModelKind = Literal["linear", "logistic", "poisson"]
MODELS = ("auto", "linear", "logistic", "poisson")
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


def target_of(name: str, dtype: Any, profile: Profile, model: str) -> Target:
    """The target's kind, by what the model and its values ask for."""
    sort = sort_of(dtype)
    if sort not in ("number", "text", "bool"):
        raise InvalidInputError(f"The target '{name}' holds {dtype}: it must be numbers, or text with two values.")
    numbers, levels = profile.numbers, profile.levels
    if sort == "number" and model in ("linear", "poisson", "auto"):
        assert numbers is not None
        check_finite(numbers, name)
        if numbers.few is not None and len(numbers.few) == 1:
            raise InvalidInputError(f"The target '{name}' has one value only: there is nothing to predict.")
        if model != "auto" or numbers.few is None or len(numbers.few) > 2:
            return _number_target(name, numbers, model)
    if model in ("linear", "poisson") and sort == "text":
        raise InvalidInputError(f"The target '{name}' holds text: --model {model} needs numbers. Use --model logistic.")
    if levels is not None and len(levels) < 2:
        raise InvalidInputError(f"The target '{name}' has one value only: there is nothing to predict.")
    if model in ("linear", "poisson"):  # true and false
        return Target(name, "linear" if model == "linear" else "poisson", False, "")
    if levels is None or len(levels) > 2:
        count = f"more than {profile.most}" if levels is None else str(len(levels))
        raise InvalidInputError(
            f"The target '{name}' has {count} different values{' of text' if sort == 'text' else ''}: a logistic "
            f"model needs two. {_remedy(sort, levels or {})}"
        )
    note = f"'{name}' has two values, so the model is logistic." if model == "auto" else ""
    return Target(name, "logistic", model == "auto", note, tuple(sorted(levels)))


def labels_of(target: Target, values: Any) -> Vector:
    """The labels of a column's rows: 0 and 1 for classes, in the target's own unit else; NaN where missing."""
    if not target.classes:
        return as_numbers(values)
    codes = places(values, target.classes)
    return np.where(codes < 0, np.nan, codes.astype(np.float64))


def check_finite(numbers: Numbers, name: str) -> None:
    """Refuse infinity by row number."""
    if numbers.infinite:
        raise InvalidInputError(
            f"Column '{name}' is infinite, or too large for a number, in {numbers.where} "
            f"({numbers.infinite} such row{'s' * (numbers.infinite > 1)}): mend the value, or leave the column out with "
            f"--drop '{name}'."
        )


def _remedy(sort: str, levels: Collection[Any]) -> str:
    if sort == "number":
        return "Make it one against the rest, or use --model linear."
    if levels and all(DECIMAL_COMMA.fullmatch(str(level)) for level in levels):
        return "They look like numbers with a decimal comma: write them with a point."
    return "Make it one against the rest."


def _number_target(name: str, numbers: Numbers, model: str) -> Target:
    if model == "poisson":
        if numbers.low < 0:
            raise InvalidInputError(f"The target '{name}' has values below zero: --model poisson needs counts.")
        if numbers.high > 1e9:
            raise InvalidInputError(
                f"The target '{name}' has counts above 1e9: a Poisson model would overflow. Rescale it."
            )
        return Target(name, "poisson", False, "")
    note = f"'{name}' holds numbers, so the model is linear."
    if numbers.whole and numbers.low >= 0:
        note = f"'{name}' holds whole numbers, and the model is linear all the same; --model poisson is for counts."
    return Target(name, "linear", model == "auto", note if model == "auto" else "")


def scaled(target: Target, moments: Moments) -> Target:
    """A linear model's labels are taken in standard deviations; classes and counts as they are."""
    if moments.low == moments.high:
        raise InvalidInputError(
            f"The target '{target.name}' has one value only in the {moments.count} training rows that are complete: there is "
            "nothing to predict."
        )
    if target.kind != "linear":
        return target
    centre, scale = moments.checked(f"The target '{target.name}'")
    if scale == 0:
        raise InvalidInputError(
            f"The target '{target.name}' has one value only in the training rows: nothing to predict."
        )
    return replace(target, centre=centre, scale=scale)
