r"""Features of a linear model: numbers with a centre and a scale, categories with their levels, from the training rows.

A raw number is :math:`\mathrm{centre} + \mathrm{scale} \cdot z`; a category has an indicator for each level but the first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fisherleak.errors import InvalidInputError
from fisherleak.rows.moments import Moments
from fisherleak.tables.arrow_columns import as_codes, as_numbers
from fisherleak.tables.column_kinds import Column
from fisherleak.tables.parts import Part, RawTable, over_parts
from fisherleak.tables.profile import FEW_VALUES, Profile
from fisherleak.tables.split import Complete, Split
from fisherleak.tables.written import OTHER

__all__ = ["Facts", "Feature", "facts_of", "features_of"]

MOST_FEATURES = 5000
"""A Hessian of more would not fit in ordinary memory."""


@dataclass(frozen=True)
class Feature:
    """A raw column that the model uses, and where it lies among the features."""

    name: str
    kind: Literal["number", "category"]
    columns: tuple[int, ...]
    centre: float = 0.0
    scale: float = 1.0
    levels: tuple[Any, ...] = ()
    few: bool = False
    """Whether it has few different values."""

    @property
    def pooled(self) -> bool:
        """Whether rare levels are one, the first."""
        return self.levels[:1] == (OTHER,)


@dataclass(frozen=True)
class Facts:
    """What features are made of: moments of numbers and levels of categories over the training rows."""

    label: Moments
    columns: tuple[Moments | frozenset[Any], ...]
    held_out: int
    sizes: tuple[int, ...]
    """Training rows of each part."""
    tested: tuple[int, ...]
    """Held-out rows of each part."""


def facts_of(raw: RawTable, complete: Complete, split: Split, lazily: bool) -> Facts:
    """One pass over the training rows."""

    def of_part(part: Part) -> Facts:
        table = complete.read(part)
        labels, whole, _ = complete.rows(table)
        held = split.held(part.start + whole)
        train = whole[~held]
        columns = tuple(_fact(column, table.column(column.name), train) for column in complete.used)
        return Facts(Moments.of(labels[train]), columns, int(held.sum()), (train.size,), (int(held.sum()),))

    def merge(a: Facts, b: Facts) -> Facts:
        columns = tuple(_both(x, y) for x, y in zip(a.columns, b.columns, strict=True))
        return Facts(a.label + b.label, columns, a.held_out + b.held_out, a.sizes + b.sizes, a.tested + b.tested)

    return over_parts(of_part, raw.parts, merge, lazily)


def _both(a: Any, b: Any) -> Any:
    return a | b if isinstance(a, frozenset) else a + b


def _fact(column: Column, values: Any, train: NDArray[np.int64]) -> Moments | frozenset[Any]:
    if column.kind == "number":
        return Moments.of(as_numbers(values)[train])
    coded = as_codes(values)
    return frozenset(coded.levels[k] for k in np.unique(coded.codes[train]))


def _feature(column: Column, fact: Moments | frozenset[Any], profile: Profile) -> Feature | str:
    """A column's centre and scale or levels over the training rows, or why it cannot be used."""
    if isinstance(fact, Moments):
        centre, scale = fact.checked(f"Column '{column.name}'")
        if scale == 0:
            return "has one value only in the training rows"
        few = profile.numbers is not None and profile.numbers.few is not None
        return Feature(column.name, "number", (), *_coarse(centre, scale), few=few)
    if len(fact) < 2:
        return "has one value only in the training rows"
    # what is pooled comes first: the reference, which a model can take for any level that it does not know
    levels = tuple(sorted(fact, key=lambda level: (level != OTHER, level)))
    return Feature(column.name, "category", (), levels=levels, few=len(fact) <= FEW_VALUES)


def features_of(
    used: Sequence[Column], facts: Facts, profiles: Mapping[str, Profile], target: str
) -> tuple[tuple[Feature, ...], dict[str, str]]:
    """The features in their places, and why other columns cannot be used."""
    found = {c.name: _feature(c, facts.columns[k], profiles[c.name]) for k, c in enumerate(used)}
    features = [feature for feature in found.values() if isinstance(feature, Feature)]
    return _placed(features, target), {name: why for name, why in found.items() if isinstance(why, str)}


def _coarse(centre: float, scale: float) -> tuple[float, float]:
    """Centre and scale, rounded: exact ones, published with a model, would give the last unknown value of a column away."""
    # twelve digits first: the last ones depend on the order of sums, and must not decide a tie
    rounded = float(f"{float(f'{scale:.11e}'):.1e}")
    step = 10.0 ** math.floor(math.log10(rounded))
    return float(f"{round(float(f'{centre / step:.12g}')) * step:.12g}"), rounded


def _placed(features: list[Feature], target: str) -> tuple[Feature, ...]:
    """Numbers first, then categories, those with pooled levels last, each with its place among the features."""
    features = sorted(features, key=lambda f: (f.kind != "number", f.pooled))
    if not features:
        raise InvalidInputError(
            f"No column is left to predict '{target}' from: `numbers` and `categories` keep columns."
        )
    placed, at = [], 0
    for feature in features:
        width = 1 if feature.kind == "number" else len(feature.levels) - 1
        placed.append(replace(feature, columns=tuple(range(at, at + width))))
        at += width
    if at > MOST_FEATURES:
        raise InvalidInputError(f"The table has {at} features: at most {MOST_FEATURES} are possible. Use `drop`.")
    return tuple(placed)
