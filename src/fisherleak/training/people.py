r"""Etas of people who have several rows: all rows of a person are one set S, and

.. math:: \eta(S) = \max(\|J_S\|_2, \|J_S T\|_2) / \sigma, \qquad J_S = [J_i]_{i \in S},

over all columns and labels of these rows, over one column of them, or over their labels alone. T ties the cells of a column
that hold one value, which is one quantity however many rows have it (``engine.norms.tied_cells``). An attacker is then taken to
know everything but this person's rows. Sets of the same size are measured together, so that any number of people takes one
pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.namespaces import Vector
from fisherleak.engine.jacobian.perturbation import absent_in
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.leakage.rows_of_people import jointly_of_people, norms_of_columns
from fisherleak.tables import Design
from fisherleak.tables.design.whose_rows import People

if TYPE_CHECKING:
    from fisherleak.training.trained_model import Trained

Rows = NDArray[np.int64]


def varying(design: Design, names: Sequence[str]) -> list[str]:
    """Those columns (or the target) in which rows of one person differ, or have a value and lack it."""
    return [name for name in names if who_differs(design, name).any()]


def who_differs(design: Design, name: str) -> NDArray[np.bool_]:
    """People whose rows differ in a column (or the target), or have a value and lack it: (people,); none without people."""
    people = design.people
    if people is None:
        return np.zeros(0, dtype=bool)
    if name == design.target.name:
        own = np.asarray(design.y).reshape(design.n, -1)
    else:
        feature = next(feature for feature in design.features if feature.name == name)
        own = np.asarray(design.X)[:, list(feature.columns)]
    return of_people(people, np.any(own != own[one_row_each(people)[people.of_row]], axis=1))


def of_people(people: People, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """People of whom any row is one of these: (people,)."""
    return np.bincount(people.of_row[rows], minlength=people.count) > 0


def several_rows(design: Design) -> bool:
    """Whether rows belong to people of whom some have several."""
    return design.people is not None and design.people.count < design.n


def one_row_each(people: People) -> Rows:
    """The first row of each person, (people,)."""
    return np.asarray(np.unique(people.of_row, return_index=True)[1], dtype=np.int64)


def rows_by_person(people: People) -> list[Rows]:
    """The training rows of each person, in order."""
    order = np.argsort(people.of_row, kind="stable")
    return np.split(order, np.cumsum(people.sizes)[:-1])


def person_names(people: People, numbers: Any, chosen: Sequence[int]) -> dict[int, tuple[int, str | None]]:
    """The first row of some people, by its number in the table, and what they are called."""
    first = one_row_each(people)
    return {int(k): (int(numbers[first[k]]), str(people.names[k])) for k in chosen}


def people_by_group(people: People, labels: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], list[Rows]]:
    """Each person with each of their groups, numbers from 0: (pairs,) both, and the rows of that person in that group.

    Who has rows in several groups counts in each.
    """
    own = np.asarray(labels, dtype=np.int64)
    pairs, place = np.unique(np.stack([people.of_row, own]), axis=1, return_inverse=True)
    place = place.reshape(-1)
    sets = np.split(np.argsort(place, kind="stable"), np.cumsum(np.bincount(place))[:-1])
    return pairs[0], pairs[1], sets


def column_etas(trained: Trained, sets: Sequence[Rows]) -> Vector:
    """Eta of each column, and last of the label, over each set of rows, in standard units: (sets, columns + 1).

    NaN where a column is missing in all rows of a set.
    """
    attributes = measurement(trained.leak).information.attributes
    return column_etas_of(trained.leak, sets, absent_in(attributes, np.asarray(trained.design.X)))


def column_etas_of(leak: Leakage, sets: Sequence[Rows], absent: Any = None) -> Vector:
    """The same of any leakage, in its units; ``absent`` are cells that are missing."""
    return norms_of_columns(leak, sets, absent) / measurement(leak).scale


def joint_etas(trained: Trained, groups: Any, count: int) -> tuple[Vector, Vector]:
    """Eta of all rows of each group of rows together, (count,), and of each column over all rows, in standard units.

    ``groups`` are numbers from 0. What is one value of a person moves together in all their rows of a group, as in
    :meth:`Leakage.by_person`.
    """
    return joint_etas_of(trained.leak, trained.design.people, groups, count)


def joint_etas_of(leak: Leakage, people: People | None, groups: Any, count: int) -> tuple[Vector, Vector]:
    """The same of any leakage, in its units."""
    alone, columns = leak.by_group(groups), np.asarray(leak.per_attribute())
    found = np.array([alone.get(k, 0.0) for k in range(count)])
    if people is None or people.count == people.of_row.size:
        return found, columns
    _, own, sets = people_by_group(people, groups)
    tied = jointly_of_people(leak, found, columns, sets, own)
    return tied[:count], tied[count:]


def dataset_eta(trained: Trained) -> float:
    """Eta of all rows together, in standard units."""
    if not several_rows(trained.design):
        return trained.leak.dataset()
    return float(joint_etas(trained, np.zeros(trained.design.n, dtype=np.int64), 1)[0][0])
