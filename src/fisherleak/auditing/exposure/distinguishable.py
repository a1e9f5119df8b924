"""How well values of yes and no, categories and classes are told apart: from exact moves of the parameters, no derivative."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak.bounds import best_test, hammersley_chapman_robbins
from fisherleak.engine.changes.replacement import replacement_moves
from fisherleak.engine.changes.starting_fit import StartingFit
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.noise import Noise
from fisherleak.errors import FisherleakError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.rows.selection import some_rows

__all__ = ["FEW_ROWS", "MOST_MOVES", "MOST_TOLD", "SOME_ROWS", "Apart", "apart_by", "in_noise", "told_of_leakage"]

Vector = NDArray[np.float64]
MOST_TOLD = 8
"""Columns of yes and no, and categories, whose values are told apart, the most exposed first."""
MOST_MOVES = 1_000
"""Values, over rows, that are told apart in a column that is not attacked."""
SOME_ROWS, FEW_ROWS = 100, 20
"""Rows in which that is done at most, and for a column of many values."""
MOST_LEVELS = 50
"""Values of a category at most: more are no levels."""
AT_MINIMUM = 1e-6
"""Distance from the minimum past which moves to other minima say little of a fit."""


@dataclass(frozen=True)
class Apart:
    """How well the best test tells a row's value from the one most unlike it, at equal odds, from exact moves.

    ``error_least`` is the least standard deviation of an unbiased estimate of which of the two it is, as 0 or 1, for the most
    exposed row (Hammersley, Chapman and Robbins); none where nothing moves.
    """

    attribute: str
    rows: int
    worst: float
    q95: float
    median: float
    error_least: float | None


def apart_by(name: str, mu: Vector) -> Apart:
    """From the largest move of each row, in standard deviations of the noise: (m,)."""
    right = np.asarray(best_test(mu))
    least = float(hammersley_chapman_robbins(float(mu.max())))
    q95, median = (float(part) for part in np.quantile(right, [0.95, 0.5]))
    return Apart(name, mu.size, float(right.max()), q95, median, math.sqrt(least) if math.isfinite(least) else None)


def in_noise(moves: Sequence[Vector], noise: Noise) -> Vector:
    """The largest of several moves of each row, each (m, p), in standard deviations of normal noise: (m,)."""
    root = noise.unit_information_root(moves[0].shape[1])
    lengths = [np.linalg.norm(each if root is None else each @ root.T, axis=1) for each in moves]
    return np.asarray(np.max(lengths, axis=0) / noise.scale)


def told_of_leakage(leak: Leakage, cells: Vector, label: Vector, yes_no: Collection[str], called: str) -> list[Apart]:
    """Of the columns of yes and no, the categories and the classes of a leakage that was measured from Python.

    The values of a category are read off the rows that have them, as the model sees them. Preprocessing is taken as known, as
    white-box attackers take it. Nothing where preprocessing is counted with the model, where the noise is not normal, where the
    fit is not at its minimum, and where moves are refused.

    Parameters
    ----------
    leak : Leakage
    cells, label : arrays of shapes (n, number of attributes) and (n,)
        Etas, of which the largest names the row that is tried beside some drawn ones.
    yes_no : names
        Of attributes that are 0 or 1.
    called : str
        The label's name.
    """
    noise, fit, information = leak.noise, leak.fits[0], measurement(leak).information
    X, y = information.rows
    normal = getattr(noise, "normal", False) and hasattr(noise, "unit_information_root")
    away = fit.distance if fit.left is None else fit.left
    if not normal or information.folded is not False or away > AT_MINIMUM or not isinstance(X, np.ndarray):
        return []
    columns = [
        (j, values)
        for j, attribute in enumerate(information.attributes)
        if attribute.size > 1 or attribute.name in yes_no
        if (values := _values(X, attribute, information.attributes)) is not None
    ]
    columns = sorted(columns, key=lambda item: -float(cells[:, item[0]].max()))[:MOST_TOLD]
    classes = _classes(fit, y)
    shared = StartingFit(fit, X, y, sum(SOME_ROWS * len(values) for _, values in columns) + SOME_ROWS * len(classes))
    try:
        return list(_told(leak, shared, cells, columns, label, classes, called))
    except FisherleakError:  # one that is left out might be the one that is told best
        return []


def _told(
    leak: Leakage,
    shared: StartingFit,
    cells: Vector,
    columns: Sequence[tuple[int, Vector]],
    label: Vector,
    classes: Vector,
    called: str,
) -> Iterator[Apart]:
    """Of each column, and of the label where it has classes."""
    for j, values in columns:
        rows, attribute = _tried(leak.n, len(values), cells[:, j]), measurement(leak).information.attributes[j]
        changed = _changed(shared.X, rows, attribute, values)
        moves = [replacement_moves(shared, rows, each, None, attribute.name).values for each in changed]
        yield apart_by(attribute.name, in_noise(moves, leak.noise))
    if len(classes):
        rows = _tried(leak.n, len(classes), label)
        labels = [np.full(rows.size, value, dtype=np.float64) for value in classes]
        moves = [replacement_moves(shared, rows, None, each, called).values for each in labels]
        yield apart_by(called, in_noise(moves, leak.noise))


def _values(X: Vector, attribute: Attribute, everyone: Sequence[Attribute]) -> Vector | None:
    """What a category can be, as the model sees it, (k, its features); none where it shares a feature or has too many."""
    mine = set(attribute.columns)
    if attribute.gaps or any(mine & set(other.columns) for other in everyone if other is not attribute):
        return None
    values = np.unique(X[:, list(attribute.columns)], axis=0)
    return values if 1 < len(values) <= MOST_LEVELS else None


def _classes(fit: Any, y: Any) -> Vector:
    """Labels of classes, as the loss takes them; none where the label is a number or several."""
    of_classes = y.ndim == 1 and fit.loss.of_classes
    return np.unique(y) if of_classes else np.empty(0)


def _tried(n: int, values: int, etas: Vector) -> NDArray[np.int64]:
    """Some rows, and the one that is most exposed."""
    most = min(SOME_ROWS, max(FEW_ROWS, MOST_MOVES // values))
    return np.union1d(some_rows(n, most, 0), [int(etas.argmax())])


def _changed(X: Vector, rows: NDArray[np.int64], attribute: Attribute, values: Vector) -> Iterator[Vector]:
    """Features of the rows with each value."""
    for value in values:
        changed = X[rows].astype(np.float64)
        changed[:, list(attribute.columns)] = value
        yield changed
