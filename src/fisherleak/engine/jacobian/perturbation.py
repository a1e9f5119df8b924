r"""Perturbation maps: which changes of the data count, as values.

A change :math:`\delta \in R^m` of an example's attributes moves its features by
:math:`\delta x = E\,\delta`, with E of shape (p, m) over the p parameters (the constant of an
intercept never moves: it is not data). An :class:`Attribute` is one named set of columns of E; a
:class:`PerturbationMap` is E for a list of attributes. Plain columns are kept as positions, so E is
never formed where it is the identity or a part of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, device, like, namespace
from fisherleak._support.checks import check_flag, default_names, nearest
from fisherleak._support.grids import GAP
from fisherleak.engine.losses.loss import Matrix
from fisherleak.engine.losses.multi_output import tangent_basis
from fisherleak.errors import InvalidInputError
from fisherleak.rows import map_rows

# Categories and the numbers that encode them: what a change of one encoding is in another.
#
# The one-hot vector h of a category with K levels moves in the tangent space of the vectors that sum to one:
# :math:`\delta h = T t` with an orthonormal basis T, (K, K - 1). A linear encoding follows it, :math:`\delta v = M\,\delta h`:
# M picks the kept indicators where a level was dropped, adds up levels that share an indicator, and is a row of codes for an
# ordinal encoding. Two encodings have the same unit where :math:`T^T M^T M T` is the same.

SAME = 1e-12
"""Difference of matrices of ones and zeros (and codes), relative to their size, that is rounding."""


@dataclass(frozen=True)
class Encoding:
    """How the coordinates of a category follow the one-hot vector of its categories.

    Parameters
    ----------
    levels : tuple
        Values of the raw column, each once.
    matrix : array of shape (m, len(levels))
        The m coordinates move by ``matrix @ change`` of the one-hot vector.
    declared : bool
        Whether no row decided which levels there are.
    """

    levels: tuple[Any, ...]
    matrix: Matrix = field(compare=False, repr=False)
    declared: bool = field(default=False, compare=False, repr=False)

    def over(self, levels: Sequence[Any]) -> Matrix:
        """The matrix with its columns in another order of the levels."""
        place = {level: k for k, level in enumerate(self.levels)}
        return self.matrix[:, [place[level] for level in levels]]

    def beside(self, other: Encoding) -> Encoding | None:
        """Two encodings of one column side by side, where they know the same levels."""
        if set(self.levels) != set(other.levels):
            return None
        matrix = np.concatenate([self.matrix, other.over(self.levels)])
        return Encoding(self.levels, matrix, self.declared and other.declared)


def common_coordinates(encodings: Sequence[Encoding]) -> tuple[list[Matrix | None], Encoding]:
    """Coordinates that encodings of the same levels share, and how each one's own follow them.

    The first one's own where all have its unit, else those of the tangent space of the one-hot vector. A matrix (own,
    common) for each encoding, None for the identity.
    """
    first = encodings[0]
    matrices = [encoding.over(first.levels) for encoding in encodings]
    if all(_equal(matrix, matrices[0]) for matrix in matrices):
        return [None] * len(matrices), first
    T = tangent_basis(len(first.levels))
    tangents = [matrix @ T for matrix in matrices]
    lead = tangents[0]
    independent = np.linalg.matrix_rank(lead) == lead.shape[0]
    if independent and all(_equal(tangent.T @ tangent, lead.T @ lead) for tangent in tangents):
        back = np.linalg.pinv(lead)
        return [None, *(tangent @ back for tangent in tangents[1:])], first
    return list(tangents), replace(first, matrix=T.T)


def _equal(one: Matrix, two: Matrix) -> bool:
    return one.shape == two.shape and bool(np.abs(one - two).max(initial=0.0) <= SAME * np.abs(two).max(initial=1.0))


@dataclass(frozen=True)
class Attribute:
    """One attribute of the data: a name and the directions in which it moves the features.

    Parameters
    ----------
    name : str
    columns : sequence of int
        Columns of X that it feeds: one for a number, several for a one-hot encoded category.
    directions : array of shape (len(columns), m) or (n, len(columns), m), optional
        How a change of the attribute moves these columns, for preprocessing: features move by ``directions @ change``.
        Three dimensions for preprocessing that is not affine: a derivative of its own for every row. The identity if
        not given.
    encoding : Encoding, optional
        What the changes of a category mean, so that releases that encode it differently can be composed; set by the readers of
        encoders.
    gaps : bool
        Whether some rows lack it: the first of its columns is ``GAP`` there, and no part of such a row moves with it.
    coded : bool
        Whether its directions are those of codes or indicators of categories, so that no eta is in the column's own unit, be
        it of numbers or not; what has an encoding is.
    affine : bool
        Whether features are affine in it, apart from rows that lack it: not behind polynomials, splines and clips, wherever
        the rows lie. Whether its directions are the same in all rows, if not given.

    Examples
    --------
    A number that was standardised with a standard deviation of 12 years, so that eta is per year:

    >>> import fisherleak as fl
    >>> fl.Attribute("age", [0], [[1 / 12]]).size
    1
    """

    name: str
    columns: tuple[int, ...]
    directions: NDArray[np.float64] | None = field(default=None, compare=False, repr=False)
    encoding: Encoding | None = field(default=None, compare=False, repr=False)
    gaps: bool = field(default=False, repr=False)
    coded: bool = field(default=False, compare=False, repr=False)
    affine: bool = field(default=True, compare=False, repr=False)

    def __init__(
        self,
        name: str,
        columns: Sequence[int],
        directions: Any = None,
        encoding: Encoding | None = None,
        gaps: bool = False,
        coded: bool = False,
        affine: bool | None = None,
    ) -> None:
        items = [columns] if isinstance(columns, str) else list(columns)
        plain = all(type(j) is int for j in items)
        if not plain and not all(isinstance(j, (int, np.integer)) and not isinstance(j, bool) for j in items):
            raise InvalidInputError(f"columns of attribute '{name}' must be whole numbers; got {columns!r}.")
        chosen = tuple(int(j) for j in items)
        if not chosen or len(set(chosen)) != len(chosen):
            raise InvalidInputError(
                f"attribute '{name}' must have at least one column and each only once; got {list(chosen)}."
            )
        if directions is not None:
            directions = np.array(directions, dtype=np.float64)
            possible = directions.ndim in ((2,) if gaps else (2, 3))
            if not possible or directions.shape[-2] != len(chosen) or directions.shape[-1] == 0:
                raise InvalidInputError(
                    f"directions of attribute '{name}' must have one row for each of its {len(chosen)} columns; "
                    f"got shape {directions.shape}."
                )
            if not np.isfinite(directions).all():
                raise InvalidInputError(f"directions of attribute '{name}' must be finite.")
            directions.flags.writeable = False
        object.__setattr__(self, "name", str(name))
        object.__setattr__(self, "columns", chosen)
        object.__setattr__(self, "directions", directions)
        object.__setattr__(self, "encoding", encoding)
        object.__setattr__(self, "gaps", gaps)
        object.__setattr__(self, "coded", coded or encoding is not None)
        object.__setattr__(self, "affine", not self.curved if affine is None else affine)

    @classmethod
    def one_hot(cls, name: str, columns: Sequence[int]) -> Attribute:
        """A fully one-hot encoded category whose values always sum to one.

        Only changes that keep the sum count: the tangent space, of dimension ``len(columns) - 1``,
        with the Euclidean length of the columns. Use the plain block ``Attribute(name, columns)`` where
        a level was dropped in the encoding.
        """
        if len(tuple(columns)) < 2:
            raise InvalidInputError(f"attribute '{name}' must have two columns or more for a one-hot tangent space.")
        return cls(name, columns, tangent_basis(len(tuple(columns))))

    @property
    def size(self) -> int:
        """Dimension of the changes that count."""
        return len(self.columns) if self.directions is None else int(self.directions.shape[-1])

    @property
    def curved(self) -> bool:
        """Whether preprocessing has a derivative of its own for every row."""
        return self.directions is not None and self.directions.ndim == 3

    @property
    def local(self) -> bool:
        """Whether the directions differ from row to row."""
        return self.gaps or self.curved


@dataclass(frozen=True)
class PerturbationMap:
    """E for a list of attributes, either as columns of the identity or as a dense matrix.

    Parameters
    ----------
    size : int
        p, the number of parameters.
    columns : array of shape (m,) or None
        Positions, where E is made of columns of the identity.
    matrix : array of shape (p, m) or None
        E itself otherwise.
    """

    size: int
    columns: Array | None
    matrix: Array | None

    @property
    def width(self) -> int:
        """M."""
        if self.columns is not None:
            return int(self.columns.shape[0])
        assert self.matrix is not None
        return int(self.matrix.shape[1])

    def after(self, B: Array) -> Array:
        """B E, of shape (rows of B, m)."""
        return namespace(B).take(B, self.columns, axis=1) if self.columns is not None else B @ self.matrix

    def pull(self, theta: Array) -> Array:
        """E^T theta, of shape (m,)."""
        if self.columns is not None:
            return namespace(theta).take(theta, self.columns)
        assert self.matrix is not None
        return self.matrix.T @ theta

    def push(self, change: Array) -> Array:
        """E change, of shape (p,)."""
        if self.columns is None:
            return self.matrix @ change
        xp = namespace(change)
        hits = xp.astype(xp.arange(self.size, device=device(change))[:, None] == self.columns[None, :], xp.float64)
        return hits @ change


def local_directions(attributes: Sequence[Attribute], X: Array, reference: Array) -> Iterator[Array]:
    """What differs from row to row in the maps of attributes, beside the rows: directions (n, columns, m).

    Of those with gaps, where a value is there: one, or zero, (n,).
    """
    xp = namespace(reference)
    for attribute in attributes:
        if attribute.gaps:
            yield map_rows(partial(_there, attribute.columns[0]), X)
        elif attribute.local:
            yield like(attribute.directions, reference, xp)


def _there(column: int, X: Array) -> Array:
    xp = namespace(X)
    return xp.astype(X[:, column] != GAP, xp.float64)


def gaps_of(attributes: Sequence[Attribute], reference: Array) -> Callable[[Array], Array] | None:
    """A function from rows to where each change acts, (b, m): 0 where its value is missing, else 1. None without gaps."""
    if not any(attribute.gaps for attribute in attributes):
        return None
    xp = namespace(reference)
    own = [attribute.columns[0] if attribute.gaps else -1 for attribute in attributes for _ in range(attribute.size)]
    columns = like(np.maximum(own, 0), reference, xp)
    whole = like(np.where(np.array(own) < 0, 1.0, 0.0), reference, xp)
    return lambda X: xp.maximum(xp.astype(xp.take(X, columns, axis=1) != GAP, xp.float64), whole[None, :])


def absent_in(attributes: Sequence[Attribute], X: NDArray[np.float64]) -> NDArray[np.bool_] | None:
    """Which cells of some rows are missing, (n, attributes); None where no attribute has gaps."""
    if not any(attribute.gaps for attribute in attributes):
        return None
    return np.column_stack([X[:, a.columns[0]] == GAP if a.gaps else np.zeros(X.shape[0], bool) for a in attributes])


def map_of(attributes: Sequence[Attribute], size: int, reference: Array) -> PerturbationMap:
    """E for these attributes over ``size`` parameters, in the array library of ``reference``."""
    xp = namespace(reference)
    columns = np.array([j for attribute in attributes for j in attribute.columns], dtype=np.int64)
    plain = all(attribute.directions is None for attribute in attributes)
    if plain and np.unique(columns).size == columns.size:
        return PerturbationMap(size, like(columns, reference, xp), None)
    E = np.zeros((size, sum(attribute.size for attribute in attributes)))
    start = 0
    for attribute in attributes:
        block = np.eye(len(attribute.columns)) if attribute.directions is None else attribute.directions
        E[list(attribute.columns), start : start + attribute.size] = block
        start += attribute.size
    return PerturbationMap(size, None, like(E, reference, xp))


def as_attributes(given: Any, shape: tuple[int, int], names: Sequence[str] | None) -> tuple[Attribute, ...]:
    """What users may pass as ``attributes=``, as records in order.

    None (one attribute per column), a list of names or records, or a mapping from names to columns; columns
    that a mapping or the records leave out remain attributes of their own, after the others.
    """
    n, d = shape
    names = list(names) if names is not None else default_names(d)
    if given is None:
        records = [Attribute(name, [j]) for j, name in enumerate(names)]
    elif isinstance(given, Mapping):
        pairs = [(str(key), value) for key, value in given.items()]
        records = [
            Attribute(key, value.columns, value.directions, value.encoding)
            if _are_attributes([value])
            else Attribute(key, _positions(value, names, key))
            for key, value in pairs
        ]
    else:
        items = list(given) if isinstance(given, (list, tuple)) or hasattr(given, "tolist") else [given, None]
        if items and all(isinstance(item, str) for item in items):
            if len(items) != d:
                raise InvalidInputError(f"attributes must name each of the {d} columns of X; got {len(items)} names.")
            records = [Attribute(name, [j]) for j, name in enumerate(items)]
        elif items and _are_attributes(items):
            records = items
        else:
            raise InvalidInputError(
                "attributes must be a list of names (one per column), a list of fisherleak.Attribute, or a mapping "
                f"from names to columns; got {given!r}."
            )
    for record in records:
        if record.directions is not None and record.local and record.directions.shape[0] != n:
            raise InvalidInputError(
                f"directions of attribute '{record.name}' cover {record.directions.shape[0]} rows, X has {n}."
            )
    taken = {j for record in records for j in record.columns}
    outside = sorted(j for j in taken if not 0 <= j < d)
    if outside:
        raise InvalidInputError(f"attributes name column {outside[0]}, but X has columns 0 to {d - 1}.")
    records += [Attribute(names[j], [j]) for j in range(d) if j not in taken]
    repeated = sorted(name for name, count in Counter(record.name for record in records).items() if count > 1)
    if repeated:
        raise InvalidInputError(
            f"attribute names must differ; '{repeated[0]}' appears more than once. Rename a column."
        )
    return tuple(records)


def _are_attributes(items: Sequence[Any]) -> bool:
    return all(isinstance(item, Attribute) for item in items)


def _positions(value: Any, names: Sequence[str], attribute: str) -> list[int]:
    if isinstance(value, slice):
        value = range(len(names))[value]
    items = list(value) if isinstance(value, (list, tuple, range, np.ndarray)) else [value]
    positions = []
    for item in items:
        if isinstance(item, str):
            if item not in names:
                raise InvalidInputError(f"attribute '{attribute}' names column '{item}', which X does not have.")
            positions.append(list(names).index(item))
        else:
            positions.append(item)
    return positions


# Which attributes a question is about: by name or number, all of them where none is named.


def chosen_attributes(
    everything: tuple[Attribute, ...], attributes: Sequence[str | int] | str | int | None, label: bool | None
) -> tuple[tuple[Attribute, ...], bool]:
    """The attributes asked for, in that order, and whether the label counts: by default only where none is named."""
    label = None if label is None else check_flag(label, "label")
    if attributes is None:
        return everything, True if label is None else label
    items = list(attributes) if isinstance(attributes, (list, tuple, set, np.ndarray)) else [attributes]
    names = [attribute.name for attribute in everything]
    positions = []
    for item in items:
        if isinstance(item, str):
            if item not in names:
                raise InvalidInputError(f"There is no attribute '{item}'. {nearest(item, names)}")
            positions.append(names.index(item))
        elif isinstance(item, (int, np.integer)) and not isinstance(item, bool) and -len(names) <= item < len(names):
            positions.append(int(item) % len(names))
        else:
            raise InvalidInputError(f"attributes must be names or numbers from 0 to {len(names) - 1}; got {item!r}.")
    if not positions and not label:
        raise InvalidInputError("attributes is empty and the label does not count: name at least one attribute.")
    if len(set(positions)) != len(positions):
        raise InvalidInputError(f"attributes must not repeat; got {items}.")
    return tuple(everything[j] for j in positions), bool(label)
