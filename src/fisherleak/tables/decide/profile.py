"""What one pass over a table tells of its columns: counts, levels, ranges. Profiles of parts merge into that of the table."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak.tables.decide.choices import MOST_FORCED, Choices, is_plain, sort_of
from fisherleak.tables.decide.identifier_names import called_ids
from fisherleak.tables.read.arrow_columns import as_numbers, as_text, level_counts
from fisherleak.tables.read.parts import Part, RawTable, over_parts

__all__ = ["FEW_VALUES", "LONG", "SKETCHED", "Numbers", "Profile", "profiles_of"]

MOST_COUNTED = 10_000
"""Different texts past which they are not counted."""
SKETCHED = 4096
"""Values of a column that may be an identifier that are looked at."""
FOLLOWED = SKETCHED + 64
"""Those that are followed through all parts."""
FEW_VALUES = 10
"""A column with at most so many different numbers has few."""
LONG = 9
"""Digits of whole numbers that are all as long, from which on they are hardly ever measured."""
LARGEST_SUMMED = 2.0**62
MOST_ENDS = 8
POWERS = 10.0 ** np.arange(20)
STAND_INS = (-9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0)
"""Numbers that are often written where one is missing."""


@dataclass(frozen=True)
class Numbers:
    """Of the finite values of a column of numbers.

    Attributes
    ----------
    count : int
    low, high : float
    fractions : int
        How many are not whole.
    few : frozenset or None
        The different values, None where there are more than ``FEW_VALUES``.
    infinite : int
        How many are infinite, and where the first of them is.
    stand_ins : dict
        How often each of ``STAND_INS`` occurs.
    least, most : float
        Of the values that are none of these.
    lengths : dict
        How many whole ones have how many digits before the point; 0 for those below 1, and past what sums hold.
    ends : pair of tuples
        The least and the largest values, each as often as it occurs, of columns that are called identifiers.
    total, squares : int
        Sums of all values without their fractions, and of the squares of these, modulo 2^64: the same however a table is cut.
    """

    count: int = 0
    low: float = float("inf")
    high: float = float("-inf")
    fractions: int = 0
    few: frozenset[float] | None = frozenset()
    infinite: int = 0
    where: str = ""
    stand_ins: Mapping[float, int] = field(default_factory=dict)
    least: float = float("inf")
    most: float = float("-inf")
    lengths: Mapping[int, int] = field(default_factory=dict)
    ends: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    total: int = 0
    squares: int = 0

    @property
    def digits(self) -> int:
        """How many digits all of them have, where these are whole numbers of as many; 0 else."""
        return next(iter(self.lengths)) if self.whole and len(self.lengths) == 1 else 0

    @property
    def is_run(self) -> bool:
        """Whether they are each whole number of a run once, as far as sums tell: of n numbers from a, and of their squares."""
        if not self.whole or self.count < 2 or self.high - self.low + 1 != self.count or self.high >= LARGEST_SUMMED:
            return False
        n, a = self.count, int(self.low)
        squares = n * a * a + a * n * (n - 1) + (n - 1) * n * (2 * n - 1) // 6
        return self.total == (n * a + n * (n - 1) // 2) % 2**64 and self.squares == squares % 2**64

    @property
    def whole(self) -> bool:
        """Whether all are whole."""
        return self.fractions == 0

    @property
    def nearly_whole(self) -> bool:
        """Whether all are whole but a few slips: one, or one in fifty, of at least twenty."""
        return self.whole or (self.count >= 20 and self.fractions <= max(1, self.count // 50))


@dataclass(frozen=True)
class Order:
    """How numbers follow each other: ``breaks`` counts steps other than one, ``runs`` rows with another value than before."""

    first: float
    last: float
    ascending: bool
    breaks: int
    runs: int

    def __add__(self, other: Order) -> Order:
        return Order(
            self.first,
            other.last,
            self.ascending and other.ascending and self.last <= other.first,
            self.breaks + other.breaks + (other.first != self.last + 1),
            self.runs + other.runs - (self.last == other.first),
        )


@dataclass(frozen=True)
class Profile:
    """Of one column.

    Attributes
    ----------
    rows, nulls : int
    counted : dict or None
        How often each value occurs; None where that was not asked for, or where there are more than ``most`` and ``spare``: so
        it is known without the rows of one person too.
    most : int
    numbers : Numbers or None
    followed : dict
        How often the values with the least hashes occur, for columns that may be identifiers: some more than ``sketch`` has,
        so that it is known without some rows too.
    order : Order or None
        Of numbers that are whole, or called an identifier: those that are there.
    called : bool
        Whether its name is one of those that identifiers have.
    """

    rows: int
    nulls: int
    counted: dict[Any, int] | None = None
    most: int = 0
    numbers: Numbers | None = None
    followed: dict[int, int] = field(default_factory=dict)
    order: Order | None = None
    called: bool = False
    spare: int = 0
    """Values past ``most`` that are counted too."""

    @property
    def levels(self) -> dict[Any, int] | None:
        """How often each value occurs, where there are at most ``most``."""
        return None if self.counted is None or len(self.counted) > self.most else self.counted

    @cached_property
    def sketch(self) -> dict[int, int]:
        """How often the ``SKETCHED`` values with the least hashes occur."""
        return dict(itertools.islice(self.followed.items(), SKETCHED))

    @property
    def missing(self) -> int:
        """Values that are missing, or not a number."""
        return self.nulls if self.numbers is None else self.rows - self.numbers.count - self.numbers.infinite

    @property
    def distinct(self) -> bool:
        """Whether no value that was looked at occurs twice: all of them where there are few."""
        return all(count == 1 for count in self.sketch.values())

    @property
    def different(self) -> float:
        """How many different values there are; past ``SKETCHED`` from how dense the least of their hashes lie.

        With k of them below h, of 2^64, there are about (k - 1) 2^64 / h.
        """
        count = len(self.sketch)
        return float(count) if count < SKETCHED else (count - 1) * 2.0**64 / max(self.sketch)

    @property
    def nearly_distinct(self) -> bool:
        """Whether hardly any value that was looked at occurs twice."""
        repeated = sum(count > 1 for count in self.sketch.values())
        return bool(self.sketch) and repeated <= max(1, len(self.sketch) // 50)


def profiles_of(raw: RawTable, choices: Choices, lazily: bool, one: int = 1) -> dict[str, Profile]:
    """The profile of every column that is not left out, in one pass; ``one`` person has so many rows."""
    names = tuple(name for name in raw.names if name not in choices.drop or name == choices.group)
    kinds, called = {name: raw.kind(name) for name in names}, called_ids(raw.names)

    def of_part(part: Part) -> dict[str, Profile]:
        table = part.read(names)
        return {
            name: _profile(part, name, table.column(j), kinds[name], name in called, choices, one)
            for j, name in enumerate(names)
        }

    def merge(a: dict[str, Profile], b: dict[str, Profile]) -> dict[str, Profile]:
        return {name: _merged(a[name], b[name]) for name in names}

    return over_parts(of_part, raw.parts, merge, lazily)


def _profile(part: Part, name: str, values: Any, kind: Any, called: bool, choices: Choices, one: int) -> Profile:
    sort = sort_of(kind)
    rows, nulls = len(values), int(values.null_count)
    target = name == choices.target
    counted, most = None, 0
    if is_plain(kind) and (sort in ("text", "bool") or target or name in (*choices.categories, choices.group)):
        most = MOST_FORCED if target or sort == "number" else MOST_COUNTED
        counted = level_counts(values, most + one)
    numbers = None
    if sort == "number" or (name in choices.numbers and sort in ("text", "bool")) or (target and sort == "bool"):
        numbers = _numbers(part, as_numbers(values), called)
    # of numbers as long as telephone numbers too: where almost all are, those parts that have none are not missed
    long = numbers is not None and any(length >= LONG for length in numbers.lengths)
    order = _order(as_numbers(values)) if numbers is not None and (numbers.whole or called) else None
    # and of whole numbers in blocks of rows, which may be those of one person each
    blocks = numbers is not None and order is not None and numbers.few is None and 2 * order.runs <= numbers.count
    sketch = _sketch(values) if is_plain(kind) and (name == choices.id or called or long or blocks) else {}
    return Profile(rows, nulls, counted, most, numbers, sketch, order, called, one)


def _order(values: NDArray[np.float64]) -> Order | None:
    values = values[np.isfinite(values)]
    if not values.size:
        return None
    steps = np.diff(values)
    ends = float(values[0]), float(values[-1])
    return Order(*ends, bool(np.all(steps >= 0)), int((steps != 1).sum()), int(1 + np.count_nonzero(steps)))


def _numbers(part: Part, values: NDArray[np.float64], called: bool) -> Numbers:
    infinite = np.isinf(values)
    found = int(infinite.sum())
    where = part.where(int(np.argmax(infinite))) if found else ""
    present = values[np.isfinite(values)]
    if not present.size:
        return Numbers(infinite=found, where=where)
    few = np.unique(present[:1000])
    few = np.unique(present) if few.size <= FEW_VALUES else few
    steps = np.clip(present, -LARGEST_SUMMED, LARGEST_SUMMED).astype(np.int64).astype(np.uint64)  # sums wrap around
    usual = present[~np.isin(present, STAND_INS)]
    found_ins = {} if usual.size == present.size else {v: int(np.count_nonzero(present == v)) for v in STAND_INS}
    return Numbers(
        count=present.size,
        low=float(present.min()),
        high=float(present.max()),
        fractions=int(np.count_nonzero(present != np.floor(present))),
        few=frozenset(few.tolist()) if few.size <= FEW_VALUES else None,
        infinite=found,
        where=where,
        stand_ins={value: count for value, count in found_ins.items() if count},
        least=float(usual.min(initial=np.inf)),
        most=float(usual.max(initial=-np.inf)),
        lengths=_lengths(present),
        ends=_ends(present) if called else ((), ()),
        total=int(steps.sum(dtype=np.uint64)),
        squares=int((steps * steps).sum(dtype=np.uint64)),
    )


def _ends(present: NDArray[np.float64]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    ordered = np.sort(present)
    return tuple(ordered[:MOST_ENDS].tolist()), tuple(ordered[-MOST_ENDS:].tolist())


def _lengths(present: NDArray[np.float64]) -> dict[int, int]:
    whole = present[present == np.floor(present)]
    digits = np.searchsorted(POWERS, whole, side="right")
    digits[whole >= LARGEST_SUMMED] = 0  # past it every float is whole
    counts = np.bincount(digits)
    return {length: int(counts[length]) for length in np.flatnonzero(counts).tolist()}


def _sketch(values: Any) -> dict[int, int]:
    """The values with the least hashes, and how often each occurs: the same however a table is cut."""
    import pandas
    import pyarrow.types

    if pyarrow.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    values = values.drop_null()
    if pyarrow.types.is_floating(values.type):
        floats = values.to_numpy()
        floats = floats[np.isfinite(floats)]
        whole = (floats == np.floor(floats)) & (abs(floats) < 2**53)
        arrays = [floats[whole].astype(np.int64), floats[~whole].astype(np.float64)]  # 17.0 is 17 beside 17.5 too
    else:
        arrays = [values.to_numpy() if pyarrow.types.is_integer(values.type) else as_text(values)]
    each = np.concatenate([pandas.util.hash_array(array) for array in arrays])
    hashes, counts = np.unique(each, return_counts=True)
    return dict(zip(hashes[:FOLLOWED].tolist(), counts[:FOLLOWED].tolist(), strict=True))


def _merged(a: Profile, b: Profile) -> Profile:
    counted = None
    if a.counted is not None and b.counted is not None:
        counted = dict(a.counted)
        for value, count in b.counted.items():
            counted[value] = counted.get(value, 0) + count
        counted = counted if len(counted) <= a.most + a.spare else None
    numbers = a.numbers
    if a.numbers is not None and b.numbers is not None:
        numbers = _merged_numbers(a.numbers, b.numbers)
    followed = _merged_sketch(a.followed, b.followed)
    order = None if a.order is None or b.order is None else a.order + b.order
    return Profile(a.rows + b.rows, a.nulls + b.nulls, counted, a.most, numbers, followed, order, a.called, a.spare)


def _merged_sketch(a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
    both = {key: a.get(key, 0) + b.get(key, 0) for key in a.keys() | b.keys()}
    return {key: both[key] for key in sorted(both)[:FOLLOWED]}


def _merged_numbers(a: Numbers, b: Numbers) -> Numbers:
    few = None if a.few is None or b.few is None else a.few | b.few
    return Numbers(
        count=a.count + b.count,
        low=min(a.low, b.low),
        high=max(a.high, b.high),
        fractions=a.fractions + b.fractions,
        few=few if few is not None and len(few) <= FEW_VALUES else None,
        infinite=a.infinite + b.infinite,
        where=a.where or b.where,
        stand_ins=dict(Counter(a.stand_ins) + Counter(b.stand_ins)),
        least=min(a.least, b.least),
        most=max(a.most, b.most),
        lengths=dict(Counter(a.lengths) + Counter(b.lengths)),
        ends=(tuple(sorted(a.ends[0] + b.ends[0])[:MOST_ENDS]), tuple(sorted(a.ends[1] + b.ends[1])[-MOST_ENDS:])),
        total=(a.total + b.total) % 2**64,
        squares=(a.squares + b.squares) % 2**64,
    )
