r"""Rows that are exact copies of others, where more are than chance would make.

A row of n whose features are independent has about :math:`(n - 1) \prod_j s_j` copies among the others, with :math:`s_j` the
share of pairs of rows that are alike in feature j: many in a table of a few categories, none where two numbers are measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["copies_note"]

Vector = NDArray[np.float64]
SHARE = 0.02
"""Part of the rows that must be copies before it is said."""
TIMES = 10
"""Times as many as chance would make."""


def copies_note(X: Vector, y: Vector, places: Sequence[tuple[int, ...]]) -> str:
    """A sentence where rows, (n, p) and labels (n,), are copies of others; ``places`` are the columns of each feature."""
    weights = np.random.default_rng(0).normal(size=X.shape[1] + 1)
    keys = weights[-1] * y + _key(X, range(X.shape[1]), weights)
    different = np.unique(keys).size
    copies = keys.size - different
    if copies < max(2, SHARE * keys.size) or copies < TIMES * _by_chance(_each(X, y, places, weights), keys.size):
        return ""
    return (
        f"{copies:,} of the {keys.size:,} training rows are exact copies of others in all that the model uses. If they are the "
        "same people, each counts as several and less noise seems enough: remove the copies, or name whose rows they are with "
        "`person`."
    )


def _key(X: Vector, columns: Iterable[int], weights: Vector) -> Vector:
    """A number for each row: equal to the last digit for equal rows, which products of matrices are not; others differ."""
    key = np.zeros(X.shape[0])
    for j in columns:
        key += weights[j] * X[:, j]
    return key


def _each(X: Vector, y: Vector, places: Sequence[tuple[int, ...]], weights: Vector) -> Iterator[Vector]:
    """The label and the features, a number for each value."""
    yield y
    for columns in places:
        yield _key(X, columns, weights)


def _by_chance(features: Iterator[Vector], n: int) -> float:
    """How many rows would have a copy if features were independent; at most n."""
    alike = float(n)
    for values in features:
        counts = np.unique(values, return_counts=True)[1].astype(np.float64)
        alike *= float(counts @ (counts - 1)) / (n * (n - 1))
        if n * alike < 1e-3:
            break
    return min(float(n), n * alike)
