r"""Features of a linear model: numbers with a centre and a scale, categories with their levels, from the training rows.

A raw number is :math:`\mathrm{centre} + \mathrm{scale} \cdot z`, with centre and scale on a public grid; the exact mean and
standard deviation stand beside them. A category has an indicator for each level but the first. Levels that are neither declared
nor frequent are pooled into one, which is then the first. ``tables.design.gaps`` has what stands for missing values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.grids import public_units, units_within
from fisherleak._support.level_types import plain_level
from fisherleak.errors import InvalidInputError
from fisherleak.rows.summary import Moments, check_within
from fisherleak.tables.decide.cell_text import OTHER
from fisherleak.tables.decide.choices import Choices
from fisherleak.tables.decide.column_kinds import Column
from fisherleak.tables.decide.profile import FEW_VALUES, Profile
from fisherleak.tables.design.gaps import FEWEST, MISSING, NO_GAPS, Gaps, gap_name, has_feature
from fisherleak.tables.design.rare_levels import (
    ValueCounter,
    ValuesOf,
    Who,
    at_edge_of,
    declared_levels,
    levels_of_one_less,
    pooled_levels,
)
from fisherleak.tables.design.split import Complete, Split, gaps_in
from fisherleak.tables.read.arrow_columns import as_codes, as_numbers, places
from fisherleak.tables.read.parts import Part, RawTable, over_parts

__all__ = ["CONSTANT", "NOTHING", "OTHER", "Facts", "Feature", "facts_of", "features_of"]

NOTHING, CONSTANT = "has no values at all in the training rows", "has one value only in the training rows"
"""Why a column cannot be used that one row more does not bring back."""
NO_VALUES = Moments()
FAR_FILL = 3.0
"""Spreads from the mean of a column at most within which what stands for its missing cells lies."""
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
    mean: float = 0.0
    spread: float = 1.0
    """Exact, of the training rows with gaps filled: both are kept internal."""
    pooled: int = 0
    """Levels that the first one, ``OTHER``, stands for."""
    strays: int = 0
    """Levels that count as the first: too rare to be named, and of too few rows together for a level of their own."""
    gaps: Gaps = NO_GAPS
    """How many lack it."""
    prior: float = 1.0
    """The spread of the numbers that are there."""
    of: str | None = None
    """The column of numbers of which this feature tells who lacks it."""
    yes_no: bool = False
    """Whether it is a number that is one of two, and measured like a category."""
    low: float = 0.0
    step: float = 1.0
    """The smaller of the two numbers of a yes or no, and how far they are apart."""
    bounds: tuple[float, float] | None = None
    """Declared ones, from which centre and scale then follow; where there are none, they follow from the rows."""
    known: Moments = NO_VALUES
    """Of the numbers that are there."""
    nearly_all: tuple[float, ...] = ()
    """Numbers that nearly all have: without one row, or person, with another a release may leave the column out."""
    at_edge: bool = False
    """Whether one row's other value changes which levels a release names."""
    leaving: tuple[int, ...] = ()
    """Places of the levels of which one row, or person, less changes which levels a release names."""

    @property
    def has_share(self) -> bool:
        """Whether a share of it can be revealed: categories, and yes or no, are guessed or not."""
        return self.kind == "number" and not self.yes_no

    @property
    def open(self) -> bool:
        """Whether the first level stands for all values that are not named, and for missing ones."""
        return bool(self.pooled) or self.levels[:1] == (MISSING,)

    @property
    def told_levels(self) -> tuple[Any, ...]:
        """The levels as values of one type: all of them texts where missing values are one."""
        return tuple(str(level) for level in self.levels) if self.levels[:1] == (MISSING,) else self.levels

    @property
    def filled_far(self) -> bool:
        """Whether what stands for missing numbers is unlike those that are there."""
        known, centre = self.known, self.centre
        among = known.low <= centre <= known.high and abs(centre - known.mean) <= FAR_FILL * self.prior
        return self.kind == "number" and self.filled and not among

    @property
    def filled(self) -> bool:
        """Whether cells of it are filled, and have no eta."""
        return self.gaps.rows > 0 and self.of is None and not self.open

    def places(self, values: Any) -> NDArray[np.int32]:
        """The place of every row's value among the levels; what is no level has the first where that stands for it, or -1."""
        if not self.open:
            found = places(values, self.levels)
            return np.maximum(found, 0) if self.strays else found
        return places(values, self.levels[1:]) + 1


@dataclass(frozen=True)
class Facts:
    """What features are made of: moments of numbers and counts of categories' levels over the training rows."""

    label: Moments
    columns: tuple[Moments | Counter[Any], ...]
    held_out: int
    sizes: tuple[int, ...]
    """Training rows of each part."""
    tested: tuple[int, ...]
    """Held-out rows of each part."""
    gaps: tuple[Gaps, ...] = ()
    """Of each column."""
    who: tuple[Mapping[Any, frozenset[int]] | None, ...] = ()
    """Where categories are counted by people: for each column, whom the rare levels belong to."""
    most_rows: int = 1
    """Of a person."""
    values: tuple[ValuesOf | None, ...] = ()
    """Of each column of numbers with few different ones in the training rows, who has which."""


def facts_of(raw: RawTable, complete: Complete, split: Split, counter: ValueCounter, lazily: bool) -> Facts:
    """One pass over the training rows."""

    def of_part(part: Part) -> Facts:
        table = complete.read(part)
        labels, whole, _ = complete.rows(table)
        held = split.held(part.start + whole)
        train = whole[~held]
        found = [_fact(column, table.column(column.name), train) for column in complete.used]
        columns, gaps = (tuple(each) for each in zip(*found, strict=True)) if found else ((), ())
        values = tuple(
            counter.of(as_numbers(table.column(column.name))[train], part.start + train)
            if column.kind == "number"
            else None
            for column in complete.used
        )
        own = Facts(Moments.of(labels[train]), columns, int(held.sum()), (train.size,), (int(held.sum()),), gaps)
        return replace(own, values=values)

    def merge(a: Facts, b: Facts) -> Facts:
        columns = tuple(_both(x, y) for x, y in zip(a.columns, b.columns, strict=True))
        gaps = tuple(x + y for x, y in zip(a.gaps, b.gaps, strict=True))
        own = Facts(a.label + b.label, columns, a.held_out + b.held_out, a.sizes + b.sizes, a.tested + b.tested, gaps)
        return replace(own, values=tuple(counter.both(x, y) for x, y in zip(a.values, b.values, strict=True)))

    return over_parts(of_part, raw.parts, merge, lazily)


def _both(a: Any, b: Any) -> Any:
    return a + b  # moments, or counts, of two parts


def _fact(column: Column, values: Any, train: NDArray[np.int64]) -> tuple[Moments | Counter[Any], Gaps]:
    missing = gaps_in(column.kind, values)[train]
    there = train[~missing]
    if column.kind == "number":
        return Moments.of(as_numbers(values)[there]), Gaps.of(missing)
    coded = as_codes(values)
    found, counts = np.unique(coded.codes[there], return_counts=True)
    return Counter({coded.levels[k]: int(count) for k, count in zip(found, counts, strict=True)}), Gaps.of(missing)


def _feature(
    column: Column,
    fact: Moments | Counter[Any],
    who: Who | None,
    gaps: Gaps,
    values: ValuesOf | None,
    profile: Profile,
    choices: Choices,
    most_rows: int,
) -> Feature | str:
    """A column's centre and scale or levels over the training rows, or why it cannot be used."""
    if not isinstance(fact, Counter):
        if not fact.count:
            return NOTHING
        numbers = profile.numbers
        few = values is not None and len(values) <= FEW_VALUES
        made = _number(column.name, fact, gaps, few, choices.within(column.name))
        if isinstance(made, str) or not column.yes_no or numbers is None:
            return made
        return replace(made, yes_no=True, low=numbers.low, step=numbers.high - numbers.low)
    if not fact:
        return NOTHING
    levels, pooled, strays = pooled_levels(column, fact, who, gaps, choices)
    own_levels = [level for level in levels if level != MISSING or fact.get(MISSING, 0) >= max(choices.rare, 1)]
    # who lacks it makes no column of one category, and neither do strays; one that is declared stays
    if len(levels if column.name in choices.declared else own_levels) < 2:
        rare = f": all {pooled + strays} others are too rare to be named" if pooled + strays else ""
        return CONSTANT + rare
    few = len(levels) <= FEW_VALUES
    own: dict[str, Any] = {"pooled": pooled, "strays": strays, "gaps": gaps}
    edge = at_edge_of(column, fact, who, gaps, choices)
    places = {level: k for k, level in enumerate(levels)}  # those that are pooled have the first
    leaving = {
        places.get(plain_level(level), 0)
        for level in levels_of_one_less(column, fact, who, profile, choices, most_rows)
    }
    if (
        places.get(MISSING) == 0
        and gaps.lacking == FEWEST
        and MISSING not in declared_levels(column.name, fact, choices)
    ):
        leaving |= {0}
    own["leaving"] = tuple(sorted(leaving))
    return Feature(column.name, "category", (), levels=levels, few=few, at_edge=edge, **own)


def _number(name: str, known: Moments, gaps: Gaps, few: bool, bounds: tuple[float, float] | None) -> Feature | str:
    """Centre and scale are those of declared bounds, or of the values that are there.

    Mean and spread are those with the others at the centre.
    """
    mean, spread = known.checked(f"Column '{name}'")
    if spread == 0:
        return CONSTANT
    centre, scale = public_units(mean, spread) if bounds is None else units_within(*bounds)
    if bounds is not None:
        check_within(f"Column '{name}'", known, bounds)
    prior = spread
    if gaps.rows:
        mean, spread = (known + Moments(gaps.rows, centre, 0.0, centre, centre)).checked(f"Column '{name}'")
    own: dict[str, Any] = {"mean": mean, "spread": spread, "gaps": gaps, "prior": prior, "bounds": bounds}
    return Feature(name, "number", (), centre, scale, few=few, known=known, **own)


def features_of(
    used: Sequence[Column],
    facts: Facts,
    profiles: Mapping[str, Profile],
    choices: Choices,
    counter: ValueCounter,
    names: Sequence[str],
) -> tuple[tuple[Feature, ...], dict[str, str]]:
    """The features in their places, and why other columns cannot be used; ``names`` are all columns of the table."""
    who = facts.who or (None,) * len(used)
    found = {
        c.name: counter.thin(facts.values[k])
        or _feature(
            c, facts.columns[k], who[k], facts.gaps[k], facts.values[k], profiles[c.name], choices, facts.most_rows
        )
        for k, c in enumerate(used)
    }
    near = {c.name: counter.nearly_all(facts.values[k]) for k, c in enumerate(used)}
    features = [replace(each, nearly_all=near[each.name]) for each in found.values() if not isinstance(each, str)]
    taken = [*names, *profiles]
    features += [_telling(f, taken) for f in features if f.kind == "number" and has_feature(f.gaps)]
    return _placed(features, choices.target), {name: why for name, why in found.items() if isinstance(why, str)}


def _telling(feature: Feature, taken: Sequence[str]) -> Feature:
    """Whether a number is missing, as a category."""
    return Feature(gap_name(feature.name, taken), "category", (), levels=("no", "yes"), of=feature.name)


def _placed(features: list[Feature], target: str) -> tuple[Feature, ...]:
    """Numbers first, then categories, each with its place among the features."""
    features = sorted(features, key=lambda f: f.kind != "number")
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
