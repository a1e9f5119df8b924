r"""Norms of people with several rows: what stands in several of them as one value is one quantity, and moves in all of them.

Of S, the rows of a person, the norm is the larger of :math:`\|J_S\|_2`, in which every cell moves by itself, and
:math:`\|J_S T\|_2`. T ties cells: it has a column for each different value that S has in an attribute (or as a label), and for
each direction of it, with a one at every cell of that value. Rows that are written several times are one row by it.

Mathematics: 2.7, ``docs/mathematics/norms.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fisherleak._support.arrays import host, like, namespace
from fisherleak._support.namespaces import Vector
from fisherleak.engine.information import Information, norms_of_sets
from fisherleak.engine.jacobian.perturbation import Attribute

Rows = NDArray[np.int64]
CLOSE = 1e-3
"""Of a column's spread: values of a person that are nearer to each other are also tied, as copies with other digits are."""
BLOCK_VALUES = 2**22
"""Values of Jacobians that are written out at a time."""
MOST_WORK = 2**33
"""Products for a matrix of many people's rows together, past which a bound stands for the norm."""
MOST_HELD = 2**26
"""Values of all such matrices at most."""


@dataclass(frozen=True)
class PeopleCells:
    """The Jacobian of rows by their cells, with the values that these hold.

    Parameters
    ----------
    write : function
        Of attributes, whether the label counts, and rows: J_i of each of these rows, (b, p, m).
    X, y : arrays
        Features and labels of all rows.
    attributes : tuple of Attribute
    label : bool
        Whether labels are among the cells, behind all attributes.
    size : int
        p.
    """

    write: Callable[[Sequence[Attribute], bool, Rows], Vector] = field(repr=False)
    X: Vector = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    attributes: tuple[Attribute, ...]
    label: bool
    size: int

    @property
    def count(self) -> int:
        """How many attributes there are, and the label."""
        return len(self.attributes) + int(self.label)

    @cached_property
    def width(self) -> int:
        """Directions of a row, one for a label whatever it is."""
        return sum(attribute.size for attribute in self.attributes) + int(self.label)

    @cached_property
    def values(self) -> tuple[Vector, ...]:
        """What the rows hold in each attribute, and last as labels, (n, columns) each."""
        width = self.X.shape[1]  # places behind are what imputers fill in, which no cell holds
        places = [[j for j in a.columns if j < width] for a in self.attributes]
        own = [np.asarray(self.X[:, some], dtype=np.float64) for some in places]
        return (*own, *([np.asarray(self.y, dtype=np.float64).reshape(len(self.y), -1)] if self.label else ()))

    @cached_property
    def near(self) -> tuple[Vector, ...]:
        """Differences up to which such values are near, (columns,) each."""
        return tuple(nearness(own) for own in self.values)

    def ties(self, place: int, rows: Rows) -> tuple[Rows | None, Rows | None]:
        """T for one attribute and some sets of rows (b, k), as of :func:`ties`."""
        b, k = rows.shape
        return ties(self.values[place][rows.reshape(-1)], self.near[place], np.repeat(np.arange(b), k))


def ties(values: Vector, near: Vector, whose: Rows) -> tuple[Rows | None, Rows | None]:
    """T for the values (r, columns) of some rows and whose they are, (r,): the row, among all, that each is added to.

    First by values that are the same, then by those that are at most ``near`` each other; None where all of a person differ.
    One and the same array where both are. This is the one place in which cells are tied.
    """
    order = np.lexsort((*values.T[::-1], whose))
    apart, other = np.abs(np.diff(values[order], axis=0)), np.diff(whose[order]) > 0
    same, close = (np.append(True, other | np.any(apart > far, axis=1)) for far in (0.0, near))
    exactly = _onto(order, same)
    return exactly, exactly if np.array_equal(same, close) else _onto(order, close)


def nearness(values: Vector) -> Vector:
    """Differences up to which values of all rows, (n, columns), are near, (columns,)."""
    return np.asarray(CLOSE * np.std(values, axis=0))


def _onto(order: Rows, first: NDArray[np.bool_]) -> Rows | None:
    """For rows in an order in which those of one value follow each other, where the first of each is marked."""
    if first.all():
        return None
    found = np.empty(order.size, dtype=np.int64)
    found[order] = order[first][np.cumsum(first) - 1]
    return found


def people_cells(information: Information, attributes: Sequence[Attribute], label: bool) -> PeopleCells:
    """The cells of rows in memory."""
    X, y = information.rows
    xp = namespace(X)

    def write(some: Sequence[Attribute], label: bool, rows: Rows) -> Vector:
        return np.asarray(host(information.written_out(some, label, like(rows, X, xp))))

    # what imputers fill in is released beside the parameters
    folded = [] if information.several else [release.jacobian.folding for release in information.releases]
    fillings = [folding.filling for folding in folded if folding is not None]
    size = sum(int(fit.theta.shape[0]) for fit in information.fits)
    size += sum(filling.size for filling in fillings if filling is not None)
    return PeopleCells(write, np.asarray(host(X)), np.asarray(host(y)), tuple(attributes), label, size)


def norms_of_people(
    information: Information, sets: Sequence[Any], attributes: Sequence[Attribute] | None = None, label: bool = True
) -> list[float]:
    """The norm of each person, given as the rows of each, over some attributes (all if not given) and the label."""
    chosen = information.attributes if attributes is None else tuple(attributes)
    alone = norms_of_sets(information, chosen, label, sets)  # arrays where the rows are
    own = [np.asarray(host(rows), dtype=np.int64) for rows in sets]
    if all(rows.size < 2 for rows in own):
        return alone
    cells = people_cells(information, chosen, label)
    # where the matrix of a set is none of its rows' matrices
    if information.data_dependent or information.two_sided(chosen):
        return [a * float(b) for a, b in zip(alone, _longest(cells, own), strict=True)]
    tied = _tied_largest(cells, own)
    return [max(a, float(b)) for a, b in zip(alone, tied, strict=True)]


def _tied_largest(cells: PeopleCells, sets: Sequence[Rows]) -> Vector:
    """||J_S T|| of each set, (sets,); zero where nothing is tied."""
    found = np.zeros(len(sets))
    for places, rows in _by_size(cells, sets, cells.width):
        every = [cells.ties(place, rows) for place in range(cells.count)]
        few = rows.shape[1] * cells.width <= cells.size
        for k in (0, 1):
            if all(each[k] is None for each in every) or (k and all(each[0] is each[1] for each in every)):
                continue
            parts = (_flat(_tied(part, every[place][k])) for place, part in _parts(cells, rows))
            found[places] = np.maximum(found[places], _largest(parts, few))
    return found


def _longest(cells: PeopleCells, sets: Sequence[Rows]) -> Vector:
    """|T| of each set, the root of the largest number of cells that are tied: ||J_S T|| is at most that times ||J_S||."""
    found = np.ones(len(sets))
    for places, rows in _by_size(cells, sets, 1):
        for place in range(cells.count):
            for onto in cells.ties(place, rows):
                if onto is not None:
                    most = np.bincount(onto, minlength=onto.size).reshape(rows.shape).max(axis=1)
                    found[places] = np.maximum(found[places], np.sqrt(most))
    return found


def tied_squares(cells: PeopleCells, sets: Sequence[Rows]) -> Vector:
    """J_S T (J_S T)^T of each set of several rows, by values that are the same and by those that are near: (sets, p, p)."""
    found = []
    for _, rows in _by_size(cells, sets, 1):
        squares = np.zeros((2, len(rows), cells.size, cells.size))
        for place, part in _parts(cells, rows):
            for k, onto in enumerate(cells.ties(place, rows)):
                flat = _flat(_tied(part, onto))
                squares[k] += flat @ np.swapaxes(flat, 1, 2)
        found.append(squares.reshape(-1, cells.size, cells.size))
    return np.concatenate([np.zeros((0, cells.size, cells.size)), *found])


def column_norms_of_people(cells: PeopleCells, sets: Sequence[Rows]) -> Vector:
    """The norm of each attribute, and last of the label, over each set of rows: (sets, attributes + label)."""
    found = np.zeros((len(sets), cells.count))
    for places, rows in _by_size(cells, sets, 1, single=True):
        for place, part in _parts(cells, rows):
            exactly, nearly = cells.ties(place, rows)
            own = [part, *(_tied(part, onto) for onto in (exactly, nearly) if onto is not None)]
            few = part.shape[1] * part.shape[3] <= part.shape[2]
            found[places, place] = np.max([_largest(iter([_flat(each)]), few) for each in own], axis=0)
    return found


def joint_norms_of_people(cells: PeopleCells, sets: Sequence[Rows], groups: Rows, count: int) -> Vector:
    """||J T|| of all people of each group together, and of each attribute over all people: (count + attributes + label,).

    T ties cells within each person. Infinite where that takes too long.
    """
    work, held = sum(rows.size for rows in sets) * cells.width * cells.size**2, (count + cells.count) * cells.size**2
    if work > MOST_WORK or held > MOST_HELD:
        return np.full(count + cells.count, np.inf)
    squares = np.zeros((2, count + cells.count, cells.size, cells.size))
    for places, rows in _by_size(cells, sets, 1, single=True):
        for place, part in _parts(cells, rows):
            for k, onto in enumerate(cells.ties(place, rows)):
                tied = _tied(part, onto)
                for group in np.unique(groups[places]).tolist():
                    J = np.moveaxis(tied[groups[places] == group], 2, 0).reshape(cells.size, -1)
                    square = J @ J.T
                    squares[k, group] += square
                    squares[k, count + place] += square
    tops = np.linalg.eigvalsh(squares)[:, :, -1].max(axis=0)
    return np.asarray(np.sqrt(np.clip(tops, 0.0, None)))


def _by_size(cells: PeopleCells, sets: Sequence[Rows], width: int, single: bool = False) -> Iterator[tuple[Rows, Rows]]:
    """Places of sets of one size, some at a time, and their rows, (b, k)."""
    sizes = np.array([rows.size for rows in sets])
    for size in np.unique(sizes).tolist():
        if size > 1 or single:
            (places,) = np.nonzero(sizes == size)
            step = max(1, BLOCK_VALUES // (size * cells.size * max(width, 1) + cells.size**2))
            for start in range(0, places.size, step):
                some = places[start : start + step]
                yield some, np.stack([sets[k] for k in some.tolist()])


def _parts(cells: PeopleCells, rows: Rows) -> Iterator[tuple[int, Vector]]:
    """The Jacobians (b, k, p, m) of sets of rows (b, k) by each attribute, and last by the label."""
    everyone = rows.reshape(-1)
    for first, some, label in _batches(cells, everyone.size):
        J, at = cells.write(some, label, everyone), 0
        for place, attribute in enumerate([*some, *([None] if label else [])], first):
            part = J[:, :, at:] if attribute is None else J[:, :, at : at + attribute.size]
            at += part.shape[2]
            yield place, part.reshape(*rows.shape, *part.shape[1:])


def _tied(part: Vector, onto: Rows | None) -> Vector:
    """J T from J, (b, k, p, m) both, with zeros where a row was added to another."""
    if onto is None:
        return part
    return added_onto(part.reshape(onto.size, -1), onto).reshape(part.shape)


def added_onto(rows: Vector, onto: Rows) -> Vector:
    """Each of some rows added to another, (r, m): zero where nothing is left."""
    T = csr_array((np.ones(onto.size), (onto, np.arange(onto.size))), shape=(onto.size, onto.size))
    return np.asarray(T @ rows)


def _batches(cells: PeopleCells, rows: int) -> Iterator[tuple[int, tuple[Attribute, ...], bool]]:
    """Attributes whose Jacobians fit a block, with the place of the first, and whether the label comes with them."""
    most, first, every = max(1, BLOCK_VALUES // (rows * cells.size)), 0, cells.attributes
    while first < len(every):
        last, width = first + 1, every[first].size
        while last < len(every) and width + every[last].size < most:
            width += every[last].size
            last += 1
        yield first, every[first:last], cells.label and last == len(every)
        first = last
    if not every:
        yield 0, (), cells.label


def _flat(part: Vector) -> Vector:
    """(b, k, p, m) as (b, p, k m)."""
    b, k, p, m = part.shape
    return np.asarray(np.swapaxes(part, 1, 2).reshape(b, p, k * m))


def _largest(parts: Iterator[Vector], few: bool) -> Vector:
    """The largest singular values of matrices given in parts, (b, p, m) each, side by side: of ``few`` columns by those."""
    if few:
        whole = np.concatenate(list(parts), axis=2)
        squares = np.swapaxes(whole, 1, 2) @ whole
    else:
        squares = sum(part @ np.swapaxes(part, 1, 2) for part in parts)
    return np.asarray(np.sqrt(np.clip(np.linalg.eigvalsh(squares)[:, -1], 0.0, None)))
