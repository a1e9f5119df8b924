"""Copies that make every limit easy to pass: rows that stand several times in a table, and columns that do.

What is revealed about a value is measured with all other data known. Of k copies of a row, or of a column, each has about 1/k
of the eta that one alone has. A column that another one nearly tells is guessed without the release too, so that a limit on the
gain says nothing. Under a policy such rows and columns are refused, as far as they can be noticed: rows that are alike in all
but two columns, one row that stands in a table more than a few times, numbers that correlate by ``CORRELATED``, categories
that one other column tells. Rows that somebody made up, and columns that several others tell together, are a table like any
other: no check can tell them.

Also here: the rows of a table that checks under a policy look at: all of them, or of many some.

Also here: columns that are written so that a policy measures them as something else, or with a spread that is none of
theirs: refused.

A yes or no, or one of a few values, in which cells are 0.999999 would be measured as a number, an amount that is written as
text as a category, and a value that most rows share makes the spread of the others small. Each is refused by name, unless the
policy states what the column is. Who writes a table in codes of his own is not noticed: a policy that names its columns and
states their kinds is what holds there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from fisherleak._support.grids import GAP
from fisherleak._support.namespaces import Vector
from fisherleak.auditing.policy.policy import EVERY, Policy
from fisherleak.errors import InvalidInputError
from fisherleak.releasing.cards.enough_people import FEWEST_ROWS
from fisherleak.rows import gather
from fisherleak.rows.selection import some_rows
from fisherleak.tables import Design, Feature
from fisherleak.tables.decide.cell_text import OTHER
from fisherleak.tables.decide.profile import FEW_VALUES
from fisherleak.tables.design.gaps import MISSING
from fisherleak.tables.design.repeated_rows import copies_note, many_copies_note, near_copies_note

MOST_ROWS, MOST_VALUES = 100_000, 2**24
"""Rows, and values in them, that are looked at, drawn by the operating system's randomness."""


@dataclass(frozen=True)
class SampledRows:
    """Features and labels of some training rows, and whose they are where rows belong to people."""

    X: Vector = field(repr=False)
    y: Vector = field(repr=False)
    whose: NDArray[np.int64] | None = field(repr=False)


def all_rows(design: Design) -> SampledRows | None:
    """Every row, where all are in memory."""
    if design.lazy:
        return None
    return SampledRows(design.X, design.y, None if design.people is None else design.people.of_row)


def sampled_rows(design: Design) -> SampledRows:
    most = min(MOST_ROWS, max(1, MOST_VALUES // int(design.X.shape[1])))
    rows = some_rows(design.n, most, None)  # who orders the rows must not know which
    X, y = gather([design.X, design.y], rows)
    return SampledRows(np.asarray(X), np.asarray(y), None if design.people is None else design.people.of_row[rows])


DIGITS = 9
"""Decimals to which columns in units of their standard deviation are alike."""
CORRELATED = 0.999
"""Correlation from which two columns of numbers are nearly copies: what one has of its own is below 4.5 % of its deviation."""
TOLD = 0.8
"""Part of the rows without the most common value that another column tells of a column which is nearly determined by it."""
BINS = 20
"""Classes of equally many rows in place of a number that tells about a column."""
MOST_PRODUCTS = 2e10
"""Products of numbers that are summed for correlations."""
FEWEST_SHARED = 30
"""Rows in which two columns must both be there for a correlation to mean something."""
Codes = NDArray[np.int64]


def refuse_copies(design: Design, source: str, rows: SampledRows, of_columns: bool, gains: bool) -> None:
    """Refuse copies of rows, but for those of one person, and of columns; with ``gains``, columns that another one tells.

    Of all rows where they are in memory, else of ``rows``.
    """
    every = all_rows(design) or rows
    own = (every.X, every.y, [feature.columns for feature in design.features], every.whose)
    note = copies_note(*own) or near_copies_note(*own) or many_copies_note(*own)
    if note:
        raise InvalidInputError(f"{note} The policy '{source}' allows no such copies.")
    same = (_copied_columns(design, rows) or _correlated(design, rows)) if of_columns else None
    if same is not None:
        raise InvalidInputError(
            f"'{same[1]}' is a copy of '{same[0]}', or nearly, in another unit or under other names: each seems less exposed "
            f"than it is, and the policy '{source}' would pass too easily. Leave it out with `drop={[same[1]]!r}`."
        )
    told = _told_columns(design, rows) if gains else None
    if told is not None:
        raise InvalidInputError(
            f"'{told[1]}' nearly reveals '{told[0]}'. An attacker then guesses '{told[0]}' without the release, and max_gain "
            f"of the policy '{source}' would pass too easily. Leave one of them out with `drop={[told[1]]!r}`."
        )


def _copied_columns(design: Design, rows: SampledRows) -> tuple[str, str] | None:
    """Two columns of which one is a linear function of the other, or whose categories are the same under other names."""
    columns = np.column_stack([rows.y, rows.X])
    there = columns != GAP
    means = np.where(there, columns, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    centred = np.where(there, columns - means, 0.0)
    spread = np.sqrt(np.mean(centred**2, axis=0))
    weights = np.random.default_rng(0).normal(size=len(columns)) / np.sqrt(len(columns))
    # |z . w| is the same for z and -z, and two columns that differ have other products but for a chance of about 10^-DIGITS
    keys = np.round(np.abs(weights @ centred) / np.where(spread > 0, spread, 1.0), DIGITS)
    seen: dict[tuple[float, ...], str] = {(float(keys[0]),): design.target.name}
    for feature in (feature for feature in design.features if feature.of is None):
        # of levels that rows have: one that is declared, and nobody's, is an indicator of zeros
        key = tuple(sorted(float(keys[1 + k]) for k in feature.columns if keys[1 + k] != 0.0))
        if not key:
            continue  # these rows have one value of it
        if seen.setdefault(key, feature.name) != feature.name:
            return seen[key], feature.name
    return None


def _correlated(design: Design, rows: SampledRows) -> tuple[str, str] | None:
    """Two columns of numbers, or one and the target, that nearly tell each other: in a straight line, or by their order."""
    numbers = [feature for feature in design.features if feature.kind == "number"]
    names = [design.target.name, *(feature.name for feature in numbers)]
    most = max(100, int(MOST_PRODUCTS / len(names) ** 2))
    some = some_rows(rows.y.size, most, None)
    z = np.column_stack([rows.y[some], *(rows.X[some, feature.columns[0]] for feature in numbers)])
    there = z != GAP
    ranks = rankdata(np.where(there, z, np.nan), axis=0, nan_policy="omit")
    for values in (z, np.where(there, ranks, 0.0)):
        first, second = np.nonzero(np.triu(_correlations(values, there.astype(np.float64)), 1) >= CORRELATED)
        if first.size:
            return names[first[0]], names[second[0]]
    return None


def _correlations(z: Vector, there: Vector) -> Vector:
    """Of columns, without their signs, over the rows where both are there."""
    z = there * (z - (there * z).sum(axis=0) / np.maximum(there.sum(axis=0), 1.0))
    # over the rows where both are there: counts, sums of one, sums of its squares
    shared, sums, squares = there.T @ there, z.T @ there, (z**2).T @ there
    count = np.maximum(shared, 1.0)
    variance = squares - sums**2 / count
    apart = (shared >= FEWEST_SHARED) & (variance > 0) & (variance.T > 0)
    return np.asarray(np.abs(z.T @ z - sums * sums.T / count) / np.sqrt(np.where(apart, variance * variance.T, np.inf)))


def _told_columns(design: Design, rows: SampledRows) -> tuple[str, str] | None:
    """A column that attackers guess, and another that nearly tells it by itself."""
    features = [feature for feature in design.features if feature.of is None]
    coded = {feature.name: _coded(feature, rows.X) for feature in features}
    for one in (feature for feature in features if feature.few or not feature.has_share):
        own = coded[one.name]
        _, counts = np.unique(own, return_counts=True)
        left = own.size - int(counts.max())
        for other in features:
            if other is not one and left and _right(own, coded[other.name]) - counts.max() >= TOLD * left:
                return one.name, other.name
    return None


def _coded(feature: Feature, X: Vector) -> Codes:
    """The place of every row's value among those of a column; numbers of many values in classes of equally many rows."""
    if feature.kind == "category":
        block = X[:, list(feature.columns)]
        return np.where(block.max(axis=1) == 1.0, block.argmax(axis=1) + 1, 0).astype(np.int64)
    values = X[:, feature.columns[0]]
    if feature.few or feature.yes_no:
        return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)
    edges = np.quantile(values, np.linspace(0.0, 1.0, BINS + 1)[1:-1])
    return np.searchsorted(edges, values).astype(np.int64)


def _right(own: Codes, other: Codes) -> int:
    """Rows in which the most common value beside each value of another column is the right one."""
    wide = int(other.max()) + 1
    counts = np.bincount(own * wide + other, minlength=(int(own.max()) + 1) * wide).reshape(-1, wide)
    return int(counts.max(axis=0).sum())


CLOSE = 0.01
"""Part of the distance of two values within which another is taken for one of them."""
NARROW = 0.1
"""Standard deviations between which more than half of the values lie where these decide the deviation."""
ALIKE = 0.9
"""Part of the texts of a column that differ in their digits only, where these are amounts."""
NUMBERS = re.compile(r"\d+(?:[.,]\d+)*")


def refuse_disguised(design: Design, policy: Policy, rows: SampledRows) -> None:
    """Refuse numbers of nearly a few values, and amounts that are text, that a policy has rules on and no kind for."""
    for feature in _unstated(design, policy):
        count = nearly_values(_there(rows.X[:, feature.columns[0]])) if feature.has_share else 0
        if count == 2 or (count and not feature.few):
            raise InvalidInputError(
                f"All but fewer than {FEWEST_ROWS} rows have one of {count} values of '{feature.name}', exactly or nearly. The "
                "column would be measured as a number, without attacks: write exactly these values, or write "
                f'kind = "number" under [columns."{feature.name}"] in the policy \'{policy.source}\'.'
            )
        if feature.kind == "category" and _are_amounts(feature, rows.X):
            raise InvalidInputError(
                f"The categories of '{feature.name}' differ in their digits only. A guess that is nearly the right number "
                "would count as wrong: write the numbers alone, so that it is measured as a number, or write "
                f'kind = "category" under [columns."{feature.name}"] in the policy \'{policy.source}\'.'
            )
    target, columns = design.target, policy.section("columns")
    ruled = policy.section("label") or target.name in columns or EVERY in columns
    count = nearly_values(rows.y) if ruled and not target.classes and "model" not in policy.section("require") else 0
    if count == 2 or (count and not target.few):
        raise InvalidInputError(
            f"All but fewer than {FEWEST_ROWS} rows have one of {count} values of the target '{target.name}', exactly or "
            f'nearly. The model takes it as a number: write exactly these values, or write model = "{target.kind}" '
            f"under [require] in the policy '{policy.source}'."
        )


def refuse_narrow(design: Design, source: str, names: Collection[str], rows: SampledRows) -> None:
    """Refuse columns, and the target, most of whose values are nearly the same, where nothing but the rows states a spread."""
    columns = {feature.name: rows.X[:, feature.columns[0]] for feature in design.features if feature.name in names}
    columns |= {design.target.name: rows.y} if design.target.name in names else {}
    for name, values in columns.items():
        if _shortest_half(_there(values)) < NARROW:
            where = "[label]" if name == design.target.name else f'[columns."{name}"]'
            raise InvalidInputError(
                f"More than half of the values of '{name}' are the same, or nearly: the spread of the rows does not say "
                "how uncertain an outsider is. Write an outsider's spread, in the column's unit, as "
                f"spread under {where} in the policy '{source}'."
            )


def _shortest_half(values: Vector) -> float:
    """The length of the shortest interval that holds more than half of some values, in their standard deviations: 1.35 of a
    normal column.
    """
    ordered, half, spread = np.sort(values), values.size // 2, float(values.std())
    return float((ordered[half:] - ordered[: ordered.size - half]).min()) / spread if spread > 0 else 0.0


def nearly_values(values: Vector) -> int:
    """At how many values, two to ten, all but a few rows lie, fewer than are ever named, to a hundredth of their distance.

    Zero where they lie at more. Groups of rows are parted at the largest gaps: ten groups and four rows far from these have
    thirteen gaps between them.
    """
    ordered, most = np.sort(values), FEWEST_ROWS - 1
    gaps = np.diff(ordered)
    least = FEW_VALUES + 1
    for cuts in range(1, min(FEW_VALUES + most, int(np.count_nonzero(gaps)) + 1)):
        starts = np.sort(np.argpartition(gaps, gaps.size - cuts)[gaps.size - cuts :]) + 1
        low, high = ordered[np.append(0, starts)], ordered[np.append(starts, ordered.size) - 1]
        sizes = np.diff([0, *starts.tolist(), ordered.size])
        found = [
            kept.size for kept in _kept(low, high, sizes, most) if kept.size > 1 and _is_close(low[kept], high[kept])
        ]
        least = min([least, *found])
    # of so few rows any are at ten values, but for four
    enough = least == 2 or ordered.size > FEW_VALUES + most
    return least if least <= FEW_VALUES and enough else 0


def _kept(low: Vector, high: Vector, sizes: NDArray[np.int64], most: int) -> Iterator[NDArray[np.int64]]:
    """Places of at most ten groups, without some that have ``most`` rows together at most."""
    large, small = np.flatnonzero(sizes > most), np.flatnonzero(sizes <= most)
    width = np.max(high[large] - low[large], initial=0.0)
    apart = np.maximum.outer(high[small], high[large]) - np.minimum.outer(low[small], low[large])
    # whatever is near a group that stays, beside the width of these, is left out
    near = (CLOSE * apart < width).any(axis=1)
    left, others = sizes[small[near]].sum(), small[~near].tolist()
    fewest = max(0, sizes.size - int(near.sum()) - FEW_VALUES)
    if left > most or large.size > FEW_VALUES:
        return
    for count in range(fewest, min(most - int(left), len(others)) + 1):
        for some in combinations(others, count):
            if left + sizes[list(some)].sum() <= most:
                yield np.delete(np.arange(sizes.size), [*small[near].tolist(), *some])


def _is_close(low: Vector, high: Vector) -> bool:
    """Whether groups are so narrow beside the distance of neighbours that each is one value."""
    return bool(np.max(high - low) <= CLOSE * np.min(high[1:] - low[:-1]))


def _unstated(design: Design, policy: Policy) -> Iterator[Feature]:
    """Columns that rules are about, and whose kind the policy does not state."""
    columns = policy.section("columns")
    every = EVERY in columns or "attacks" in policy.sections
    for feature in design.features:
        own = columns.get(feature.name)
        if feature.of is None and (every or own is not None) and "kind" not in (own or {}):
            yield feature


def _there(values: Vector) -> Vector:
    return np.asarray(values[values != GAP])


def _are_amounts(feature: Feature, X: Vector) -> bool:
    """Whether a column has many levels, of those that rows have, and nearly all are the same text but for digits."""
    block = X[:, list(feature.columns)]
    there = [bool((block.max(axis=1) != 1.0).any()), *(block == 1.0).any(axis=0).tolist()]
    levels = [level for level, own in zip(feature.levels, there, strict=True) if own]
    texts = [str(level) for level in levels if level not in (MISSING, OTHER)]
    if len(levels) <= FEW_VALUES or not texts:
        return False
    (form, count), *_ = Counter(NUMBERS.sub("0", text) for text in texts).most_common(1)
    return "0" in form and count >= ALIKE * len(texts)
