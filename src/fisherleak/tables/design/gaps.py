"""Cells that are missing: what stands for them in the model, and how that is said.

A number that is missing is filled with its column's public centre, which is zero in the features, and marked there
(``GAP``): it has no eta and adds nothing to that of its row. Where many people lack it, a feature of its own tells who
(``<column> (missing)``). A category that is missing is a level of its own, ``MISSING``, where it has no pooled level to go to;
it is the first, so that a released model takes what it cannot read for it. Who lacks a value is someone's data too: a level or
a feature for it rests on at least ``FEWEST`` people. Those of fewer count as the first category, without an eta.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "FEWEST",
    "MISSING",
    "NO_GAPS",
    "SHARE",
    "Filled",
    "Gaps",
    "gap_name",
    "gap_notes",
    "has_feature",
    "has_level",
]

MISSING = "(missing)"
"""The level of a category that stands for missing values, and what is said of them."""
FEWEST = 5
"""People on whom a level or a feature for missing values rests at least."""
SHARE = 0.05
"""Share of a number's values that must be missing for a feature that tells so."""
LISTED = 20
"""Columns that a sentence names at most."""


@dataclass(frozen=True)
class Gaps:
    """How many training rows lack a column, and how many people lack it or have it: every row is a person unless told so."""

    rows: int
    lacking: int
    having: int

    @classmethod
    def of(cls, missing: Any) -> Gaps:
        count = int(missing.sum())
        return cls(count, count, int(missing.size) - count)

    def __add__(self, other: Gaps) -> Gaps:
        return Gaps(self.rows + other.rows, self.lacking + other.lacking, self.having + other.having)


NO_GAPS = Gaps(0, 0, 0)


@dataclass(frozen=True)
class Filled:
    """A column with missing cells: how many rows of the table lack it, and what stands for them."""

    column: str
    count: int
    by: str
    """A number, a level, or a level that is not theirs."""
    kind: str


def has_level(gaps: Gaps) -> bool:
    """Whether missing values of a category are a category of their own."""
    return gaps.lacking >= FEWEST


def has_feature(gaps: Gaps) -> bool:
    """Whether a feature tells who lacks a number."""
    enough = min(gaps.lacking, gaps.having) >= FEWEST
    return enough and gaps.lacking >= SHARE * (gaps.lacking + gaps.having)


def gap_name(column: str, taken: Sequence[str]) -> str:
    """What the feature is called that tells who lacks a column."""
    name = f"{column} {MISSING}"
    while name in taken:
        name += "'"
    return name


def gap_notes(filled: Sequence[Filled], told: Sequence[str]) -> list[str]:
    """Sentences on what stands for missing cells; ``told`` are the features that tell who lacks a number."""
    by: Mapping[str, list[Filled]] = {
        kind: [item for item in filled if item.kind == kind] for kind in ("number", "level", "pooled", "few")
    }
    sentences = []
    if by["number"]:
        sentences.append(
            f"Missing numbers are filled with a public centre of their column inside the model, and have no eta: "
            f"{_listed(by['number'])}. `missing='drop'` leaves such rows out."
        )
    if told:
        names = ", ".join(f"'{name}'" for name in told[:LISTED]) + _more(len(told))
        sentences.append(
            f"If at least {SHARE:.0%} of a numeric column's values, of at least {FEWEST} people, are missing, an extra feature "
            f"shows where: {names}."
        )
    if by["level"]:
        sentences.append(
            f"Missing values of categories are a category of their own, '{MISSING}': {_listed(by['level'])}. `missing='drop'` "
            "leaves such rows out."
        )
    if by["pooled"]:
        sentences.append(f"Missing values count with the pooled category: {_listed(by['pooled'])}.")
    if by["few"]:
        sentences.append(
            f"Fewer than {FEWEST} people lack these categories, which is too few for a category of their own: they "
            "count as the "
            f"first category, without an eta: {_listed(by['few'])}. `missing='drop'` leaves such rows out."
        )
    return sentences


def _listed(items: Sequence[Filled]) -> str:
    texts = [f"'{item.column}' ({item.count} row{'s' * (item.count != 1)})" for item in items[:LISTED]]
    return ", ".join(texts) + _more(len(items))


def _more(count: int) -> str:
    return f" and {count - LISTED} more" if count > LISTED else ""
