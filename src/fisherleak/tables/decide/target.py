"""The target of a model: which kind of model it asks for, and its labels.

Kinds of model are the caller's: each comes by its name with a rule that says which labels it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.grids import public_units, units_within
from fisherleak._support.level_types import plain_level
from fisherleak.errors import InvalidInputError
from fisherleak.rows.summary import Moments, check_within
from fisherleak.tables.decide.choices import sort_of
from fisherleak.tables.decide.profile import Numbers, Profile
from fisherleak.tables.read.arrow_columns import as_numbers, places
from fisherleak.tables.read.cell_formats import amounts_as_text

__all__ = [
    "AUTO",
    "FEWEST_CODED",
    "MOST_ASSUMED",
    "RULES",
    "LabelRule",
    "Target",
    "check_finite",
    "check_model",
    "labels_of",
    "standardised",
    "target_of",
]

AUTO = "auto"
"""The kind of model follows from the labels."""
MOST_LISTED = 10
"""Values of a target that are listed."""
FEWEST_CODED = 5
"""Rows of each whole number where they are taken for codes of classes: counts have a tail of few."""
SURE = 4
"""Times as many rows that a class has which is no slip."""
MOST_ASSUMED = 20
"""More classes than this are predicted only where a model of classes is asked for."""
NO_LABELS = Moments()
Vector = NDArray[np.float64]


def _nothing(numbers: Numbers) -> str:
    return ""


@dataclass(frozen=True)
class LabelRule:
    """Which labels a kind of model takes, and how.

    Parameters
    ----------
    classes : bool
        Whether it takes values of any sort as classes, coded from 0; else it takes numbers, and true and false as 1 and 0.
    fewest, most : int
        How many classes it takes.
    standardised : bool
        Whether the model is fitted on numbers less their mean, in standard deviations (both on a public grid).
    assumed : bool
        Whether it is taken where no kind is named: the first such rule for so many classes, or for numbers.
    refuses : callable
        Numbers -> why they are refused, as the rest of a sentence ("has values below zero: …"), or nothing.
    suits : callable
        Numbers -> what they are where another kind is assumed and this one may be meant ("whole numbers"), or nothing.
    meant_for : str
        What it is for, in the hint that ``suits`` leads to: "counts".
    """

    classes: bool = False
    fewest: int = 2
    most: int = 2
    standardised: bool = False
    assumed: bool = False
    refuses: Callable[[Numbers], str] = _nothing
    suits: Callable[[Numbers], str] = _nothing
    meant_for: str = ""


RULES: Mapping[str, LabelRule] = {
    "linear": LabelRule(standardised=True, assumed=True),
    "logistic": LabelRule(classes=True, assumed=True),
    "softmax": LabelRule(classes=True, assumed=True, fewest=3, most=100),
}
"""Those of the kinds that every table of numbers or classes has one of."""


@dataclass(frozen=True)
class Target:
    """What is predicted. The model is fitted on (value - centre) / scale, or on codes from 0 for classes."""

    name: str
    kind: str
    assumed: bool
    note: str
    classes: tuple[Any, ...] = ()
    standardised: bool = False
    centre: float = 0.0
    scale: float = 1.0
    counted: float = 1.0
    """How much of what the model is fitted on is one standard unit: of a number that is not standardised, its own scale."""
    unlike_data: bool = False
    """Whether a model was named that takes classes where the values alone would have given numbers, or the other way."""
    bounds: tuple[float, float] | None = None
    """Declared ones, from which centre and scale then follow."""
    known: Moments = NO_LABELS
    """Of the labels, codes of classes too."""
    few: bool = False
    """Whether it is a number of few different values."""

    @property
    def unit(self) -> float:
        """What one standard unit of it is, in its own: that in which etas of rows count it, one step of a class."""
        return self.scale * self.counted


def check_model(model: str, rules: Mapping[str, LabelRule]) -> None:
    """A kind of model by its name."""
    if model != AUTO and model not in rules:
        raise InvalidInputError(f"model must be one of {', '.join((AUTO, *rules))}; got {model!r}.")


def target_of(name: str, dtype: Any, profile: Profile, model: str, rules: Mapping[str, LabelRule] = RULES) -> Target:
    """The target's kind, by what the model and its values ask for."""
    sort = sort_of(dtype)
    if sort not in ("number", "text", "bool"):
        raise InvalidInputError(f"The target '{name}' holds {dtype}: it must be numbers, or text with a few values.")
    if sort == "number":
        assert profile.numbers is not None
        check_finite(profile.numbers, name)
    count = _count(sort, profile)
    if count is not None and count < 2:
        raise InvalidInputError(f"The target '{name}' has one value only: there is nothing to predict.")
    kind = _assumed(sort, profile, rules) if model == AUTO else model
    make = _class_target if rules[kind].classes else _number_target
    target = make(name, sort, profile, kind, model == AUTO, rules)
    return replace(target, unlike_data=rules[kind].classes != rules[_assumed(sort, profile, rules)].classes)


def _count(sort: str, profile: Profile) -> int | None:
    """How many different values there are, None for many."""
    if sort == "number":
        return None if profile.numbers is None or profile.numbers.few is None else len(profile.numbers.few)
    return None if profile.levels is None else len(profile.levels)


def _assumed(sort: str, profile: Profile, rules: Mapping[str, LabelRule]) -> str:
    """Classes for text, for two values, and for a few whole numbers that count on from 0 or 1; numbers else."""
    count = _count(sort, profile)
    if sort == "number" and count != 2 and not _coded(profile):
        return _first(rules)
    return _first(rules, 2 if count is None else count)


def _coded(profile: Profile) -> bool:
    """Whether numbers look like codes of three to twenty classes: 0, 1, 2, … or 1, 2, 3, …, each of them in some rows."""
    numbers, levels = profile.numbers, profile.levels
    if numbers is None or not numbers.whole or levels is None or not 3 <= len(levels) <= MOST_ASSUMED:
        return False
    run = numbers.low in (0, 1) and numbers.high - numbers.low + 1 == len(levels)
    return run and min(levels.values()) >= FEWEST_CODED


def _first(rules: Mapping[str, LabelRule], classes: int = 0) -> str:
    """The kind that is taken for so many classes, or for numbers, where none is named."""
    if classes == 0:
        return next(name for name, rule in rules.items() if rule.assumed and not rule.classes)
    known = {name: rule for name, rule in rules.items() if rule.assumed and rule.classes}
    within = (name for name, rule in known.items() if rule.fewest <= classes <= min(rule.most, MOST_ASSUMED))
    return next(within, next(iter(known)))


def _class_target(
    name: str, sort: str, profile: Profile, kind: str, assumed: bool, rules: Mapping[str, LabelRule]
) -> Target:
    levels, rule = profile.levels, rules[kind]
    if levels is None or not rule.fewest <= len(levels) <= rule.most:
        count = f"more than {profile.most}" if levels is None else str(len(levels))
        needs = "two" if rule.most == 2 else f"{rule.fewest} to {rule.most}"
        amounts = amounts_as_text([level for level in levels or () if isinstance(level, str)]) if levels else ""
        if amounts:
            raise InvalidInputError(f"The target '{name}' has {count} different texts, which {amounts}.")
        raise InvalidInputError(
            f"The target '{name}' has {count} different values{' of text' if sort == 'text' else ''}{_listed(levels)}: a "
            f"{kind} model needs {needs}. {_remedy(name, sort, levels or {}, kind, rules)}"
        )
    if assumed and len(levels) > 2 and _spelt_apart(sort, levels):
        raise InvalidInputError(
            f"The target '{name}' has {len(levels)} different values of text{_listed(levels)}, some of which differ in case or "
            f"blanks only. {_remedy(name, sort, levels, kind, rules)} `model='{kind}'` keeps them apart."
        )
    classes = tuple(sorted(plain_level(level) for level in levels))
    return Target(name, kind, assumed, _class_note(name, sort, profile, kind, rules) if assumed else "", classes)


def _class_note(name: str, sort: str, profile: Profile, kind: str, rules: Mapping[str, LabelRule]) -> str:
    """Why classes are predicted, and what changes it."""
    count = len(profile.levels or ())
    if count == 2:
        return f"'{name}' has two values, so the model is {kind}."
    if sort != "number" or profile.numbers is None:
        return (
            f"'{name}' has {count} values{_listed(profile.levels)}, so the model is {kind}: coefficients for each class."
            f"{_slips(profile.levels or {})}"
        )
    numbers = profile.numbers
    others = [f"`model='{_first(rules)}'` for amounts"]
    others += [f"`model='{other}'` for {rule.meant_for}" for other, rule in rules.items() if rule.suits(numbers)]
    return (
        f"'{name}' holds the whole numbers {numbers.low:g} to {numbers.high:g}, taken as codes of {count} classes, so the "
        f"model is {kind}. If they are none, use {', or '.join(others)}."
    )


def _slips(levels: Mapping[Any, int]) -> str:
    """A hint where one or two of the classes have few rows and others many, as slips of the pen have."""
    rare = sum(count < FEWEST_CODED for count in levels.values())
    often = sum(count >= SURE * FEWEST_CODED for count in levels.values())
    if not 0 < rare <= often:
        return ""
    which = "One of them has" if rare == 1 else f"{rare} of them have"
    return (
        f" {which} fewer than {FEWEST_CODED} rows: mend {'it if it is a slip' if rare == 1 else 'them if they are slips'}, or "
        "`na` takes such a text as missing."
    )


def _listed(levels: Mapping[Any, int] | None) -> str:
    """Levels that several rows have, which tell of nobody; nothing where there are many."""
    shared = sorted(level for level, count in (levels or {}).items() if count > 1)
    if not shared or len(levels or ()) > MOST_LISTED:
        return ""
    alone = len(levels or ()) - len(shared)
    more = f" and {alone} in one row each" if alone else ""
    return f" ({', '.join(repr(level)[:40] for level in shared)}{more})"


def _spellings(levels: Collection[Any]) -> set[str]:
    """Levels without case and blanks."""
    return {" ".join(str(level).casefold().split()) for level in levels}


def _spelt_apart(sort: str, levels: Collection[Any]) -> bool:
    """Whether some texts differ in case or blanks only."""
    return sort != "number" and len(_spellings(levels)) < len(levels)


def _remedy(name: str, sort: str, levels: Collection[Any], kind: str, rules: Mapping[str, LabelRule]) -> str:
    count, kinds = len(levels), _spellings(levels)
    if _spelt_apart(sort, levels):
        rest = "" if len(kinds) == 2 else f", which leaves {len(kinds)}"
        return f"`unite={[name]!r}` takes values as one that differ in case or blanks only{rest}."
    others = [
        other for other, rule in rules.items() if rule.classes and other != kind and rule.fewest <= count <= rule.most
    ]
    found = ["Make it one against the rest"] if not count or count > 2 else []
    found += [f"{'or use' if found else 'Use'} `model='{other}'`" for other in others]
    if sort == "number" and not others:
        found.append(f"or use `model='{_first(rules)}'`")
    return ", ".join(found) + "."


def _number_target(
    name: str, sort: str, profile: Profile, kind: str, assumed: bool, rules: Mapping[str, LabelRule]
) -> Target:
    if sort == "text":
        raise InvalidInputError(
            f"The target '{name}' holds text: `model='{kind}'` needs numbers. Use "
            f"`model='{_first(rules, _count(sort, profile) or 2)}'`."
        )
    assert profile.numbers is not None
    wrong = rules[kind].refuses(profile.numbers)
    if wrong:
        raise InvalidInputError(f"The target '{name}' {wrong}")
    note = f"'{name}' holds numbers, so the model is {kind}."
    for other, rule in rules.items():
        what = "" if other == kind else rule.suits(profile.numbers)
        if what:
            note = f"'{name}' holds {what}, and the model is {kind}; `model='{other}'` is for {rule.meant_for}."
            break
    few = profile.numbers.few is not None
    return Target(name, kind, assumed, note if assumed else "", standardised=rules[kind].standardised, few=few)


def labels_of(target: Target, values: Any) -> Vector:
    """The labels of a column's rows: codes from 0 for classes, in the target's own unit else; NaN where missing."""
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
            f"`drop={[name]!r}`."
        )


def standardised(target: Target, moments: Moments, bounds: tuple[float, float] | None = None) -> Target:
    """The target with the centre and scale of its bounds, or of its labels; of a number that its kind of model takes as it
    is, with that scale to count it in.
    """
    if moments.low == moments.high:
        raise InvalidInputError(
            f"The target '{target.name}' has one value only in the {moments.count} training rows that are complete: there is "
            "nothing to predict."
        )
    if bounds is not None:
        check_within(f"The target '{target.name}'", moments, bounds)
    target = replace(target, bounds=bounds, known=moments)
    if target.classes:
        return target
    centre, scale = moments.checked(f"The target '{target.name}'")
    if scale == 0:
        raise InvalidInputError(
            f"The target '{target.name}' has one value only in the training rows: nothing to predict."
        )
    centre, scale = public_units(centre, scale) if bounds is None else units_within(*bounds)
    if not target.standardised:
        return replace(target, counted=scale)
    return replace(target, centre=centre, scale=scale)
