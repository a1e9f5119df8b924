r"""Copies that make every limit easy to pass: rows that stand several times in a table, and columns that do.

What is revealed about a value is measured with all other data known. Of k copies of a row, or of a column, each has about 1/k
of the eta that one alone has. A column that another one nearly tells is guessed without the release too, so that a limit on the
gain says nothing. Under a policy such rows and columns are refused, as far as they can be noticed: rows that are alike in all
but two columns, one row that stands in a table more than a few times, numbers that correlate by ``CORRELATED``, categories
that one other column tells. Rows that somebody made up, and columns that several others tell together, are a table like any
other: no check can tell them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from fisherleak._support.grids import GAP
from fisherleak.auditing.policy.sampled_rows import SampledRows, all_rows
from fisherleak.errors import InvalidInputError
from fisherleak.rows.selection import some_rows
from fisherleak.tables import Design, Feature
from fisherleak.tables.design.repeated_rows import copies_note, many_copies_note, near_copies_note

__all__ = ["refuse_copies"]

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
Vector = NDArray[np.float64]
Codes = NDArray[np.int64]


def refuse_copies(design: Design, source: str, rows: SampledRows, of_columns: bool, gains: bool) -> None:
    """Refuse copies of rows, but for those of one person, and of columns; with ``gains``, columns that another one tells.

    Of all rows where they are in memory, else of ``rows``.
    """
    every = all_rows(design) or rows
    own = (every.X, every.y, [feature.columns for feature in design.features], every.whose)
    note = copies_note(*own) or near_copies_note(*own) or many_copies_note(*own)
    if note:
        raise InvalidInputError(f"{note} Under the policy '{source}' they are refused.")
    same = (_copied_columns(design, rows) or _correlated(design, rows)) if of_columns else None
    if same is not None:
        raise InvalidInputError(
            f"'{same[1]}' is a copy of '{same[0]}', or nearly, in another unit or under other names: each seems less exposed "
            f"than it is, and the policy '{source}' would pass too easily. Leave it out with `drop={[same[1]]!r}`."
        )
    told = _told_columns(design, rows) if gains else None
    if told is not None:
        raise InvalidInputError(
            f"'{told[1]}' nearly tells '{told[0]}', so that it is guessed without the release too, and max_gain of the policy "
            f"'{source}' would pass too easily. Leave one of them out with `drop={[told[1]]!r}`."
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
        key = tuple(sorted(float(keys[1 + k]) for k in feature.columns))
        if 0.0 in key:
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
