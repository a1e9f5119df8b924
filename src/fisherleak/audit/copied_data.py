"""Copies that make every limit easy to pass: rows that stand several times in a table, and columns that do.

What is revealed about a value is measured with all other data known. Of k copies of a row, or of a column, each has about 1/k
of the eta that one alone has, so under a policy exact copies are refused.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fisherleak.errors import InvalidInputError
from fisherleak.tables import Design
from fisherleak.tables.repeated_rows import copies_note

__all__ = ["refuse_copies"]

DIGITS = 9
"""Decimals to which columns in units of their standard deviation are alike."""
Vector = NDArray[np.float64]
MOST_ROWS = 100_000
"""Rows that are looked at: columns that differ do so in the first ones."""


def refuse_copies(design: Design, source: str, of_columns: bool) -> None:
    """Refuse exact copies of rows that are nobody's by name, and of columns; rows that are not in memory are not looked at."""
    if design.lazy:
        return
    X, y = np.asarray(design.X), np.asarray(design.y)
    note = copies_note(X, y, [feature.columns for feature in design.features]) if design.people is None else ""
    if note:
        raise InvalidInputError(f"{note} Under the policy '{source}' they are refused.")
    same = _copied_columns(design, X[:MOST_ROWS], y[:MOST_ROWS]) if of_columns else None
    if same is not None:
        raise InvalidInputError(
            f"'{same[1]}' is a copy of '{same[0]}' in all rows, in another unit or under other names: each seems less exposed "
            f"than it is, and the policy '{source}' would pass too easily. Leave it out with `drop={[same[1]]!r}`."
        )


def _copied_columns(design: Design, X: Vector, y: Vector) -> tuple[str, str] | None:
    """Two columns of which one is a linear function of the other, or whose categories are the same under other names."""
    columns = np.column_stack([y, X])
    centred = columns - columns.mean(axis=0)
    spread = np.sqrt(np.mean(centred**2, axis=0))
    weights = np.random.default_rng(0).normal(size=X.shape[0]) / np.sqrt(X.shape[0])
    # |z . w| is the same for z and -z, and two columns that differ have other products but for a chance of about 10^-DIGITS
    keys = np.round(np.abs(weights @ centred) / np.where(spread > 0, spread, 1.0), DIGITS)
    seen = {(float(keys[0]),): design.target.name}
    for feature in (feature for feature in design.features if feature.of is None):
        key = tuple(sorted(float(keys[1 + k]) for k in feature.columns))
        if seen.setdefault(key, feature.name) != feature.name:
            return seen[key], feature.name
    return None
