"""Copies that make every limit easy to pass: rows that stand several times in a table, and columns that do.

What is revealed about a value is measured with all other data known. Of k copies of a row, or of a column, each has about 1/k
of the eta that one alone has, so under a policy copies are refused: those of rows to a thousandth of a standard deviation,
those of columns as far as they are exact. Rows that somebody made up are a table like any other: no check can tell them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.grids import GAP
from fisherleak.errors import InvalidInputError
from fisherleak.rows import gather
from fisherleak.rows.selection import some_rows
from fisherleak.tables import Design
from fisherleak.tables.repeated_rows import copies_note, near_copies_note

__all__ = ["refuse_copies"]

DIGITS = 9
"""Decimals to which columns in units of their standard deviation are alike."""
Vector = NDArray[np.float64]
MOST_ROWS, MOST_VALUES = 100_000, 2**24
"""Rows, and values in them, that are looked at, drawn at random."""


def refuse_copies(design: Design, source: str, of_columns: bool) -> None:
    """Refuse copies of rows, but for those of one person, and of columns; of many rows some are looked at."""
    X, y, whose = _looked_at(design)
    rows = (X, y, [feature.columns for feature in design.features], whose)
    note = copies_note(*rows) or near_copies_note(*rows)
    if note:
        raise InvalidInputError(f"{note} Under the policy '{source}' they are refused.")
    same = _copied_columns(design, X, y) if of_columns else None
    if same is not None:
        raise InvalidInputError(
            f"'{same[1]}' is a copy of '{same[0]}' in all rows, in another unit or under other names: each seems less exposed "
            f"than it is, and the policy '{source}' would pass too easily. Leave it out with `drop={[same[1]]!r}`."
        )


def _looked_at(design: Design) -> tuple[Vector, Vector, NDArray[np.int64] | None]:
    most = min(MOST_ROWS, max(1, MOST_VALUES // int(design.X.shape[1])))
    rows = some_rows(design.n, most, 0)
    X, y = gather([design.X, design.y], rows)
    return np.asarray(X), np.asarray(y), None if design.people is None else design.people.of_row[rows]


def _copied_columns(design: Design, X: Vector, y: Vector) -> tuple[str, str] | None:
    """Two columns of which one is a linear function of the other, or whose categories are the same under other names."""
    columns = np.column_stack([y, X])
    there = columns != GAP
    means = np.where(there, columns, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    centred = np.where(there, columns - means, 0.0)
    spread = np.sqrt(np.mean(centred**2, axis=0))
    weights = np.random.default_rng(0).normal(size=X.shape[0]) / np.sqrt(X.shape[0])
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
