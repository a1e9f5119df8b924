r"""Rows that are copies of others, exactly or to a thousandth of a standard deviation, where more are than chance would make.

A row of n whose features are independent has about :math:`(n - 1) \prod_j s_j` copies among the others, with :math:`s_j` the
share of pairs of rows that are alike in feature j: many in a table of a few categories, none where two numbers are measured.
Where features depend on each other, common rows make more. Then many rows are alike in all but one feature, such as the age,
and few of these in that one too; copies are alike in whichever it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.grids import GAP

__all__ = ["copies_note", "near_copies_note"]

Vector = NDArray[np.float64]
Places = Sequence[tuple[int, ...]]
Whose = NDArray[np.int64] | None
Codes = NDArray[np.uint64]
SHARE, NEAR_SHARE = 0.02, 0.05
"""Part of the rows that must be copies before it is said, and that must be nearly so."""
TIMES = 10
"""Times as many as chance would make."""
ALIKE = 0.5
"""Part of the pairs of rows that are alike in all but one feature that must be alike in that one too, whichever it is."""
STEPS = 1000
"""Parts of a standard deviation to which numbers of near copies agree."""
FEWEST_FINE, MANY_VALUES = 3, 20
"""Numbers, the label among them, that must have many values to that part before near copies are looked for, and how many."""


def copies_note(X: Vector, y: Vector, places: Places, whose: Whose = None) -> str:
    """A sentence where rows, (n, p) and labels (n,), are copies of others; ``places`` are the columns of each feature.

    With ``whose``, (n,), the person of each row, copies among one person's rows do not count.
    """
    features = [y, *(_value(X, columns) for columns in places)]
    codes, person = _coded(features, whose)
    copies = _copies(_together(codes), codes, person, SHARE)
    if not copies:
        return ""
    others, remedy = (
        ("others", "remove the copies, or name whose rows they are with `person`")
        if whose is None
        else ("other people's", "remove the copies, or have `person` name the same person")
    )
    return (
        f"{copies:,} of the {y.size:,} training rows are exact copies of {others} in all that the model uses. If they are the "
        f"same people, each counts as several and less noise seems enough: {remedy}."
    )


def near_copies_note(X: Vector, y: Vector, places: Places, whose: Whose = None) -> str:
    """A sentence where rows are alike but for one feature, numbers to a thousandth of their standard deviation."""
    numbers = np.array([True, *(len(columns) == 1 for columns in places)])
    features = [_rounded(_value(X, columns)) if len(columns) == 1 else _value(X, columns) for columns in places]
    codes, person = _coded([_rounded(y), *features], whose)
    fine = numbers & np.array([np.unique(each).size > MANY_VALUES for each in codes])
    every = _together(codes)
    for j in range(len(codes)):  # none is left out first, and never the label
        if np.count_nonzero(fine) - (j > 0 and fine[j]) < FEWEST_FINE:
            continue
        kept = [code for k, code in enumerate(codes) if j == 0 or k != j]
        if copies := _copies(every - codes[j] if j else every, kept, person, NEAR_SHARE):
            return (
                f"{copies:,} of the {y.size:,} training rows are nearly copies of others: all that the model uses, but for one "
                "column at most, is the same, numbers to a thousandth of their standard deviation. If they are the same "
                "people, each counts as several and less noise seems enough: remove the copies."
            )
    return ""


def _value(X: Vector, columns: tuple[int, ...]) -> Vector:
    """A number for each value of a feature: equal to the last digit for equal values, which products of matrices are not."""
    weights = np.random.default_rng(0).normal(size=len(columns)) if len(columns) > 1 else np.ones(1)
    key = np.zeros(X.shape[0])
    for weight, j in zip(weights.tolist(), columns, strict=True):
        key += weight * X[:, j]
    return key


def _rounded(values: Vector) -> Vector:
    """Numbers of many values in thousandths of their standard deviation; others, and cells that are missing, as they are."""
    there = values != GAP
    spread = float(values[there].std()) if np.unique(values).size > MANY_VALUES else 0.0
    return np.where(there, np.round(values * (STEPS / spread)), np.nan) if spread > 0 else values


def _coded(features: Sequence[NDArray[Any]], whose: Whose) -> tuple[list[Codes], Codes | None]:
    """A random number of 64 bits for each value of a feature, and for each person.

    Sums of those of several features tell rows apart, and are exact: one that is taken away again leaves the others.
    """
    rng = np.random.default_rng(0)

    def coded(values: NDArray[Any]) -> Codes:
        found, places = np.unique(values, return_inverse=True)
        return np.asarray(rng.integers(2**64, size=found.size, dtype=np.uint64)[places.reshape(-1)])

    return [coded(values) for values in features], None if whose is None else coded(whose)


def _together(codes: Sequence[Codes]) -> Codes:
    """A number for each row."""
    every = codes[0].copy()
    for code in codes[1:]:
        every += code
    return every


def _copies(every: Codes, codes: Sequence[Codes], person: Codes | None, share: float) -> int:
    """Rows beyond the first of each kind; zero where they are few, or where others explain them: chance, or common values."""
    n = every.size
    kept = every if person is None else np.unique(np.column_stack([every, person]), axis=0)[:, 0]
    copies = kept.size - int(np.unique(kept).size)
    if copies < max(2, share * n) or copies < TIMES * _by_chance(codes):
        return 0
    pairs = _pairs(every, person)
    common = any(pairs < ALIKE * _pairs(every - code, person) for code in codes)
    return 0 if common else copies


def _pairs(codes: Codes, person: Codes | None) -> float:
    """Pairs of rows that are alike, and not of the same person."""
    alike = _alike(codes)
    return alike if person is None else alike - _alike(codes + person)


def _alike(codes: Codes) -> float:
    counts = np.unique(codes, return_counts=True)[1].astype(np.float64)
    return float(counts @ (counts - 1)) / 2


def _by_chance(features: Sequence[Codes]) -> float:
    """How many rows would have a copy if features were independent; at most all."""
    n = features[0].size
    alike = float(n)
    for codes in features:
        alike *= 2 * _alike(codes) / (n * (n - 1))
        if n * alike < 1e-3:
            break
    return min(float(n), n * alike)
