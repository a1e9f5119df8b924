r"""Leakage about people: all rows of a person are one set S, and

.. math:: \eta(S) = \max(\|J_S\|_2, \|J_S T\|_2) / \sigma, \qquad J_S = [J_i]_{i \in S},

over all values of these rows, over one column of them, or over their labels. T ties the cells of a column that hold one value,
which is one quantity however many rows have it (``engine.norms.tied_cells``). The attacker is taken to know everything but this
person's rows. The functions are called by ``Leakage``, which they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host, like, namespace
from fisherleak._support.namespaces import Vector
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.norms.tied_cells import (
    column_norms_of_people,
    joint_norms_of_people,
    norms_of_people,
    people_cells,
)
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.measurement import measurement, refuse_lazy_groups
from fisherleak.rows.selection import rows_by_group

if TYPE_CHECKING:
    from fisherleak.models import Table

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class RowsOfPeople:
    """Whose rows are whose.

    Attributes
    ----------
    names : tuple
        What each person is called, in order.
    rows : tuple of arrays
        The positions of each person's rows.
    """

    names: tuple[Any, ...] = field(repr=False)
    rows: tuple[Rows, ...] = field(repr=False)

    @property
    def labels(self) -> NDArray[np.int64]:
        """The place of each row's person, (n,)."""
        found = np.empty(sum(own.size for own in self.rows), dtype=np.int64)
        for place, own in enumerate(self.rows):
            found[own] = place
        return found

    def same(self, other: RowsOfPeople | None) -> bool:
        """Whether the other has the same people with the same rows."""
        return other is not None and self.names == other.names and np.array_equal(self.labels, other.labels)


def rows_of_people(person: Any, table: Table) -> RowsOfPeople:
    """The rows of each person, from a column's name or one value for each row; gaps are refused."""
    if table.lazy:
        refuse_lazy_groups(table.values, "person")
    members = rows_by_group(table.labels(person) if isinstance(person, str) else person, table.n)
    if None in members:
        raise InvalidInputError("person is missing in some rows: name everyone, or leave these rows out and fit again.")
    return RowsOfPeople(tuple(members), tuple(np.asarray(host(rows), dtype=np.int64) for rows in members.values()))


def refuse_people(leakage: Any, who: str) -> None:
    """Refuse a leakage about people where rows are counted, by the name of what counts them."""
    if measurement(leakage).people is not None:
        raise InvalidInputError(f"{who} counts rows, and this leakage is about people: measure it without person=.")


def etas_of_people(leakage: Any, chosen: tuple[Attribute, ...], label: bool) -> Array:
    """Eta of each person over some attributes, and the label, (people,)."""
    known = measurement(leakage)
    found = np.array(norms_of_people(known.information, known.sets, chosen, label))
    return _where_rows_are(known, found / known.scale)


def columns_of_people(leakage: Any) -> Array:
    """Eta of each attribute, and last of the label, over each person's rows: (people, attributes + 1)."""
    known = measurement(leakage)
    return _where_rows_are(known, norms_of_columns(leakage, known.people.rows, known.absent) / known.scale)


def norms_of_columns(leakage: Any, sets: Sequence[Rows], absent: Any = None) -> Vector:
    """The same at noise of scale 1, for any sets of rows; NaN where all of a set's cells are ``absent``."""
    information = measurement(leakage).information
    every = information.attributes
    if information.two_sided(every):
        alone = [norms_of_people(information, sets, [attribute], False) for attribute in every]
        found = np.column_stack([*alone, norms_of_people(information, sets, (), True)])
    else:
        found = column_norms_of_people(people_cells(information, every, True), sets)
    if absent is not None:
        gone = np.pad(np.asarray(host(absent)), ((0, 0), (0, 1)))
        found[np.stack([gone[rows].all(axis=0) for rows in sets])] = np.nan
    return found


def jointly_of_people(leakage: Any, joint: Vector, columns: Vector, sets: Sequence[Rows], groups: Rows) -> Vector:
    """Etas of groups and of each attribute, all rows jointly, with cells tied within each of these sets.

    ``joint`` (groups) and ``columns`` (attributes) are those in which every cell moves by itself; ``groups`` has the group of
    each set.
    """
    known, found = measurement(leakage), np.concatenate([joint, columns])
    if all(rows.size < 2 for rows in sets):
        return found
    every = known.information.attributes
    alone = [not known.information.two_sided([attribute]) for attribute in every]
    cells = people_cells(known.information, [a for a, own in zip(every, alone, strict=True) if own], True)
    own = joint_norms_of_people(cells, sets, groups, joint.size)[:-1] / known.scale
    tied = np.full(found.size, np.inf)  # where values tie at what preprocessing learned, only a bound is known
    tied[joint.size :][alone] = own[joint.size :]
    if all(alone):
        tied[: joint.size] = own[: joint.size]
    # |T| is at most the root of the largest number of rows: what takes too long is bounded by it
    most = float(np.sqrt(max(rows.size for rows in sets)))
    return np.asarray(np.maximum(found, np.minimum(tied, most * found)))


def _where_rows_are(known: Any, found: Vector) -> Array:
    X = known.information.rows[0]
    return like(found, X, namespace(X))
