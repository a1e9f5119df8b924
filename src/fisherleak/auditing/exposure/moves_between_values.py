"""How far a release moves when a category, a class or one of two numbers is another: exact moves of the parameters.

Eta is a derivative, and between two values that are far apart the parameters move by more or by less than it times the step.
Of people with several rows all rows that have the same value take another at once, or one of them alone.

Also here: how well values of yes and no, categories and classes are told apart: from exact moves of the parameters,
no derivative.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import by_entries
from fisherleak._support.grids import GAP
from fisherleak._support.namespaces import Vector
from fisherleak.bounds import best_test, hammersley_chapman_robbins
from fisherleak.engine.changes.moves_of_changed_rows import replacement_moves
from fisherleak.engine.changes.starting_fit import StartingFit
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.noise import Noise
from fisherleak.engine.norms import one_release
from fisherleak.errors import FisherleakError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.rows.selection import some_rows
from fisherleak.tables import Design, Feature
from fisherleak.training.people import rows_by_person
from fisherleak.training.trained_model import Trained

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
    seen = by_entries(np.eye(1) if root is None else np.asarray(root))
    lengths = [np.linalg.norm(each if root is None else seen(each.T).T, axis=1) for each in moves]
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
    classes = _classes_of(fit, y)
    shared = StartingFit(fit, X, y, sum(SOME_ROWS * len(values) for _, values in columns) + SOME_ROWS * len(classes))
    try:
        return list(_told(leak, shared, cells, columns, label, classes, called))
    except FisherleakError:  # one that is left out might be the most exposed one
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


def _classes_of(fit: Any, y: Any) -> Vector:
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


Rows = NDArray[np.int64]
ROUGH, FINE = 0.01, 1e-7
"""Relative errors of moves: of all of them, whose error is added, and of those that may be the largest."""
PARTS = "its rows are read part by part, and it takes refits: give it more memory, or take fewer rows"


@dataclass(frozen=True)
class ValueSteps:
    """Of one column, or of the target, how far the release moves with another value of each row, or person: the farthest.

    At noise of scale 1 in standard units, and never below the truth; NaN where the value is missing.
    """

    moves: Vector = field(repr=False)
    unknown: str = ""
    """Why nothing is known of them; nothing where it is."""
    apart: float = 1.0
    """How far two of its values are apart at most, as derivatives count it."""

    @property
    def worst(self) -> tuple[int, ...]:
        """The row, or person, with the longest; none where nothing is known."""
        return () if self.unknown else (int(np.nanargmax(self.moves)),)


@dataclass(frozen=True)
class _Values:
    """What a column, or the target, may be as the model sees it, and where each row's value is among that."""

    name: str
    columns: tuple[int, ...]
    """Features; none of the target."""
    seen: Vector
    """(values, features), or (values,) of the target."""
    places: Rows
    """Below zero where the value is missing."""
    apart: float


@dataclass(frozen=True)
class _Changes:
    """Sets of rows that take one value, one set at a time, and whose they are: rows or people."""

    value: int
    sets: list[Rows]
    whose: Rows


def value_steps(trained: Trained, names: Collection[str]) -> dict[str, ValueSteps]:
    """Of the categories and columns of two values among some names, and of the target where it has classes."""
    design = trained.design
    own: list[Feature | None] = [each for each in design.features if each.name in names and not each.has_share]
    own += [None] if design.target.classes and design.target.name in names else []
    return {design.target.name if each is None else each.name: _steps(trained, each) for each in own}


def _steps(trained: Trained, feature: Feature | None) -> ValueSteps:
    """Of a column, or of the target."""
    design = trained.design
    if design.lazy:
        return ValueSteps(np.empty(0), PARTS)
    values = _classes(trained) if feature is None else _of_column(np.asarray(design.X), feature)
    changes = list(_changes(design, values))
    try:
        found = _lengths(trained, values, changes)
    except FisherleakError as error:
        return ValueSteps(np.empty(0), str(error).rstrip("."))
    moves = np.full(design.n if design.people is None else design.people.count, -np.inf)
    for each, lengths in zip(changes, found, strict=True):
        np.maximum.at(moves, each.whose, lengths)
    return ValueSteps(np.where(np.isneginf(moves), np.nan, moves), apart=values.apart)


def _classes(trained: Trained) -> _Values:
    y = np.asarray(one_release(measurement(trained.leak).information).y)
    seen, places = np.unique(y, return_inverse=True)
    # between two of several classes two parts of the label move
    return _Values(trained.design.target.name, (), seen, places, 1.0 if seen.size == 2 else 2.0**0.5)


def _of_column(X: Vector, feature: Feature) -> _Values:
    cells = X[:, list(feature.columns)]
    there = cells[:, 0] != GAP
    if feature.yes_no:
        seen = np.unique(cells[there], axis=0)
        places, apart = np.searchsorted(seen[:, 0], cells[:, 0]), feature.step
    else:
        count = len(feature.columns) + 1
        seen = np.eye(count)[:, 1:]  # the first has no indicator
        places, apart = (cells != 0) @ np.arange(1, count), min(count - 1, 2) ** 0.5
    return _Values(feature.name, feature.columns, seen, np.where(there, places, -1), apart)


def _changes(design: Design, values: _Values) -> Iterator[_Changes]:
    """To each value: of every row that has another, and of all rows of somebody that have the same other."""
    places, people = values.places, design.people
    sets, whose = [np.array([row]) for row in np.flatnonzero(places >= 0)], np.flatnonzero(places >= 0)
    if people is not None:
        whose = people.of_row[whose]
        for k, own in enumerate(rows_by_person(people)):
            same = [own[places[own] == place] for place in np.unique(places[own]) if place >= 0]
            together = [rows for rows in same if rows.size > 1]
            sets, whose = [*sets, *together], np.append(whose, np.full(len(together), k))
    old = np.array([places[rows[0]] for rows in sets])
    for value in range(len(values.seen)):
        others = np.flatnonzero(old != value)
        yield _Changes(value, [sets[k] for k in others], whose[others])


def _lengths(trained: Trained, values: _Values, changes: list[_Changes]) -> list[Vector]:
    """What the noise sees of each move, with its error; those that may be the largest are solved for to more digits."""
    jacobian, count = one_release(measurement(trained.leak).information), sum(len(each.sets) for each in changes)
    rough, fine = (
        StartingFit(
            jacobian.fit,
            np.asarray(jacobian.X),
            jacobian.y,
            count,
            tolerance,
            called=lambda row: f"row {int(trained.design.rows[row])}",
            metric=jacobian.metric,
            strict=True,
        )
        for tolerance in (ROUGH, FINE)
    )
    found = [_moved(trained, rough, values, each.value, each.sets) for each in changes]
    least = max(float((length - off).max(initial=0.0)) for length, off in found)
    upper = [length + off for length, off in found]
    for each, own in zip(changes, upper, strict=True):
        top = np.flatnonzero(own >= least)
        length, off = _moved(trained, fine, values, each.value, [each.sets[k] for k in top])
        own[top] = length + off
    return upper


def _moved(
    trained: Trained, shared: StartingFit, values: _Values, value: int, sets: list[Rows]
) -> tuple[Vector, Vector]:
    """Lengths of moves with one value in each set of rows, as the noise sees them, and how far they may be off."""
    if not sets:
        return np.empty(0), np.empty(0)
    rows, noise = np.concatenate(sets), trained.leak.noise
    changed: Any = None
    labels: Any = None
    if values.columns:
        changed = shared.X[rows].astype(np.float64)
        changed[:, list(values.columns)] = values.seen[value]
    else:
        labels = np.full(rows.size, values.seen[value], dtype=np.float64)
    folding = trained.folding  # scales of numbers are in the penalty, and labels move none
    scaled = [] if folding is None or folding.totals is None else [j for j in values.columns if folding.totals[j]]
    moves = replacement_moves(shared, sets, changed, labels, f"another '{values.name}'", scaled)
    root = noise.unit_information_root(moves.values.shape[1])
    seen = np.asarray(moves.values) if root is None else np.asarray(moves.values) @ np.asarray(root).T
    return np.linalg.norm(seen, axis=1) / float(noise.scale), np.asarray(moves.error)
