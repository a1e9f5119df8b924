r"""Rows that are copies of others, exactly or to a part of a standard deviation, where more are than chance would make; columns
that copy the target.

A row of n whose features are independent has about :math:`(n - 1) \prod_j s_j` copies among the others, with :math:`s_j` the
share of pairs of rows that are alike in feature j: many in a table of a few categories, none where two numbers are measured.
Where features depend on each other, common rows make more. Then many rows are alike in all but one feature, such as the age,
and few of these in that one too; copies are alike in whichever it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.grids import GAP
from fisherleak.rows.selection import mixed_bits, some_rows

__all__ = ["copied_target_note", "copies_note", "many_copies_note", "near_copies_note"]

Vector = NDArray[np.float64]
Places = Sequence[tuple[int, ...]]
Whose = NDArray[np.int64] | None
Codes = NDArray[np.uint64]
Flags = NDArray[np.bool_]
Counted = Callable[[Codes, Sequence[Codes], Codes | None, int, Flags], int]
SHARE, NEAR_SHARE = 0.02, 0.05
"""Part of the rows that must be copies before it is said, and that must be nearly so."""
TIMES = 10
"""Times as many as chance would make."""
MOST_OF_ONE = 4
"""Rows of one kind, whatever their part of all, before it is said: k copies of a row have about 1/k of its eta each."""
RARE = 0.1
"""Part of the rows at most that have a value which tells a row apart."""
ALIKE = 0.5
"""Part of the pairs of rows that are alike in all but one feature that must be alike in that one too, whichever it is."""
NEARLY = ((1000, 1, 3), (100, 2, 4))
"""Parts of a standard deviation to which numbers of near copies agree, features in which these may differ, and how many
numbers, the label among them, must be left with many values to that part."""
ALIKE_IN_ALL = (100, 0, 3)
"""The same, of one row that stands in a table many times: three numbers are enough where no feature differs."""
MANY_VALUES = 20
"""Different values past which a number has many."""
MOST_NAMED = 10
"""Columns that are listed."""
ROUNDED = 1e-12
FEWEST_ROWS, MOST_WORK = 2000, 40_000_000
"""Rows that are looked at for each set of features that may differ, and in all: drawn at random where these are too many."""


def copied_target_note(X: Vector, y: Vector, places: Mapping[str, tuple[int, ...]], target: str, classes: bool) -> str:
    """A sentence where columns, by name with their features, are the target again: a straight line of it, or one class each."""
    same = _pairs_with if classes else _follows
    found = [name for name, columns in places.items() if same(_value(X, columns), y)]
    if not found:
        return ""
    listed = ", ".join(f"'{name}'" for name in found[:MOST_NAMED])
    copy = "copies" if len(found) == 1 else "copy"
    return (
        f"{listed} {copy} the target '{target}': the model says again what the column says. `drop={found[:MOST_NAMED]!r}` "
        f"leaves {'it' if len(found) == 1 else 'them'} out."
    )


def _follows(values: Vector, y: Vector) -> bool:
    """Whether numbers are a straight line of others, 1 - r^2 below ``ROUNDED``, where they are there."""
    there = values != GAP
    if np.count_nonzero(there) < 3:
        return False
    x, z = values[there] - values[there].mean(), y[there] - y[there].mean()
    sizes = float(x @ x) * float(z @ z)
    return sizes > 0 and float(x @ z) ** 2 > (1.0 - ROUNDED) * sizes


def _pairs_with(values: Vector, y: Vector) -> bool:
    """Whether each value goes with one class, and each class with one value."""
    pairs = np.unique(np.stack([values, y]), axis=1).shape[1]
    return bool(pairs == np.unique(values).size == np.unique(y).size)


def copies_note(X: Vector, y: Vector, places: Places, whose: Whose = None) -> str:
    """A sentence where rows, (n, p) and labels (n,), are copies of others; ``places`` are the columns of each feature.

    With ``whose``, (n,), the person of each row, copies among one person's rows do not count.
    """
    codes, person = _coded(chain([y], (_value(X, columns) for columns in places)), whose)
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
    """A sentence where rows are alike but for a few features, numbers to a part of their standard deviation."""
    for steps, most, fewest in NEARLY:
        if copies := _near_copies(X, y, places, whose, steps, most, fewest, _share_copied):
            return (
                f"{copies:,} of the {y.size:,} training rows are nearly copies of others: all that the model uses, but for "
                f"{('one column', 'two columns')[most - 1]} at most, is the same, numbers to 1/{steps} of their standard "
                "deviation. If they are the same people, each counts as several and less noise seems enough: remove the copies."
            )
    return ""


def many_copies_note(X: Vector, y: Vector, places: Places, whose: Whose = None) -> str:
    """A sentence where one row stands in a table many times, or nearly so, however large the table is."""
    for steps, most, fewest in (*NEARLY, ALIKE_IN_ALL):
        if copies := _near_copies(X, y, places, whose, steps, most, fewest, _copies_of_one):
            return (
                f"One row stands {copies:,} times in the {y.size:,} training rows, exactly or nearly: all that the model uses"
                f"{('', ', but for one column at most,', ', but for two columns at most,')[most]} is the same, numbers to "
                f"1/{steps} of their standard deviation. If they are one person, each counts as another and less "
                "noise seems enough: remove the copies, or name whose rows they are with `person`."
            )
    return ""


def _near_copies(
    X: Vector, y: Vector, places: Places, whose: Whose, steps: int, most: int, fewest: int, counted: Counted
) -> int:
    """What is counted of rows that are alike with at most so many of the features and the label left out.

    Of all rows where no feature is left out; else of some where all would be too many, which nobody knows beforehand.
    """
    sets = [gone for count in range(1, most + 1) for gone in combinations(range(len(places) + 1), count)]
    numbers = np.array([True, *(len(columns) == 1 for columns in places)])
    features = (_rounded(_value(X, columns), steps) if len(columns) == 1 else _value(X, columns) for columns in places)
    codes, person = _coded(chain([_rounded(y, steps)], features), whose)
    fine = numbers & np.array([_has_many(each) for each in codes])
    there = [np.ones(y.size, dtype=bool), *(X[:, columns[0]] != GAP for columns in places)]
    measured = fine[:, None] & np.array(there)
    if np.count_nonzero(fine) >= fewest and (copies := counted(_together(codes), codes, person, fewest, measured)):
        return copies
    some = some_rows(y.size, max(FEWEST_ROWS, MOST_WORK // max(len(sets), 1)), None)
    if some.size < y.size:
        codes, measured = [code[some] for code in codes], measured[:, some]
        person = None if person is None else person[some]
    every, numbers_left = _together(codes), np.count_nonzero(fine)
    for gone in sets:
        if numbers_left - sum(fine[k] for k in gone) < fewest:
            continue
        alike = every - _together([codes[k] for k in gone])
        ordered = np.sort(alike)
        if np.count_nonzero(ordered[1:] == ordered[:-1]) < 2:
            continue  # as for nearly all of many pairs of columns
        left = [k for k in range(len(codes)) if k not in gone]
        if copies := counted(alike, [codes[k] for k in left], person, fewest, measured[left]):
            return copies
    return 0


def _share_copied(every: Codes, codes: Sequence[Codes], person: Codes | None, fewest: int, measured: Flags) -> int:
    return _copies(every, codes, person, NEAR_SHARE)


def _copies_of_one(every: Codes, codes: Sequence[Codes], person: Codes | None, fewest: int, measured: Flags) -> int:
    r"""The most rows of one kind, each of another person, that neither chance nor common values explain; zero where few are.

    What tells a row apart are values of numbers of many values, ``measured`` (features, n), that few rows have. Of independent
    features :math:`n \prod_j p_j` rows would be of its kind, with :math:`p_j` the part of the rows with its value of feature j.
    """
    ordered = np.sort(every)
    if not np.any(ordered[MOST_OF_ONE:] == ordered[: ordered.size - MOST_OF_ONE]):
        return 0
    own = _of_kind(every, person)
    rows = np.flatnonzero(own > MOST_OF_ONE)
    few = every[own <= MOST_OF_ONE]
    if few.size - np.unique(few).size >= NEAR_SHARE * every.size:
        return 0  # many rows have a twin, such as where one number follows from others: ``near_copies_note`` decides
    own, parts = own[rows], np.array([_of_kind(code, None)[rows] for code in codes]) / every.size
    telling = np.count_nonzero(measured[:, rows] & (parts <= RARE), axis=0)
    found = (telling >= fewest) & (own > TIMES * every.size * np.prod(parts, axis=0))
    for code in codes:
        if not found.any():
            return 0
        found &= own >= ALIKE * _of_kind(every - code, person)[rows]
    return int(own[found].max(initial=0))


def _of_kind(codes: Codes, person: Codes | None) -> NDArray[np.int64]:
    """For every row, how many are alike: of other people, where rows are theirs."""
    kinds, place, counts = np.unique(codes, return_inverse=True, return_counts=True)
    if person is None:
        return np.asarray(counts[place.reshape(-1)], dtype=np.int64)
    pairs = np.unique(np.column_stack([codes, person]), axis=0)[:, 0]
    return np.bincount(np.searchsorted(kinds, pairs), minlength=kinds.size)[place.reshape(-1)]


def _value(X: Vector, columns: tuple[int, ...]) -> Vector:
    """A number for each value of a feature: equal to the last digit for equal values, which products of matrices are not."""
    weights = np.random.default_rng(0).normal(size=len(columns)) if len(columns) > 1 else np.ones(1)
    key = np.zeros(X.shape[0])
    for weight, j in zip(weights.tolist(), columns, strict=True):
        key += weight * X[:, j]
    return key


def _rounded(values: Vector, steps: int) -> Vector:
    """Numbers of many values in parts of their standard deviation; others, and cells that are missing, as they are."""
    there = values != GAP
    spread = float(values[there].std()) if _has_many(values) else 0.0
    return np.where(there, np.round(values * (steps / spread)), np.nan) if spread > 0 else values


def _has_many(values: NDArray[Any]) -> bool:
    """Whether a number has many values; of the first rows, where these have as many."""
    return any(np.unique(some).size > MANY_VALUES for some in (values[:FEWEST_ROWS], values))


def _coded(features: Iterable[NDArray[Any]], whose: Whose) -> tuple[list[Codes], Codes | None]:
    """A number of 64 bits that looks random for each value of a feature, and for each person.

    Sums of those of several features tell rows apart, and are exact: one that is taken away again leaves the others.
    """
    rng = np.random.default_rng(0)

    def coded(values: NDArray[Any]) -> Codes:
        key = rng.integers(2**64, dtype=np.uint64)
        return mixed_bits((values.astype(np.float64) + 0.0).view(np.uint64) ^ key)  # one zero of two

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
