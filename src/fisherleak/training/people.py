r"""Etas of people who have several rows: all rows of a person are one set S, and

.. math:: \eta(S) = \|J_S\|_2 / \sigma, \qquad J_S = [J_i]_{i \in S},

over all columns and labels of these rows, over one column of them, or over their labels alone. An attacker is then taken to
know everything but this person's rows. Sets of the same size are measured together, so that any number of people takes
one pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak.engine.jacobian.perturbation import Attribute, absent_in
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.measurement import measurement
from fisherleak.tables import Design
from fisherleak.tables.design.whose_rows import People
from fisherleak.training.trained_model import Trained

__all__ = [
    "column_etas",
    "groups_of_people",
    "one_row_each",
    "person_names",
    "refuse_varying",
    "rows_by_person",
    "several_rows",
    "varying",
]

Vector = NDArray[np.float64]
Rows = NDArray[np.int64]
BLOCK_VALUES = 2**22
"""Values of Jacobians that are written out at a time."""


def refuse_varying(names: Sequence[str]) -> None:
    """Refuse to attack columns that are asked for and in which rows of one person differ."""
    if names:
        raise InvalidInputError(
            f"`attributes` names '{names[0]}', in which rows of one person differ: with `person` attackers guess a value that "
            "all rows of a person have. Name other columns, or leave `person` out, and its column with `drop`, to see what "
            "they get row by row."
        )


def varying(design: Design, names: Sequence[str]) -> list[str]:
    """Those columns (or the target) in which rows of one person differ, or have a value and lack it."""
    people = design.people
    if people is None:
        return []
    first = one_row_each(people)[people.of_row]
    found = []
    for name in names:
        if name == design.target.name:
            own = np.asarray(design.y).reshape(design.n, -1)
        else:
            feature = next(feature for feature in design.features if feature.name == name)
            own = np.asarray(design.X)[:, list(feature.columns)]
        if bool(np.any(own != own[first])):
            found.append(name)
    return found


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


def groups_of_people(people: People, labels: Any) -> NDArray[Any]:
    """The group of each person, (people,); someone in two groups is refused."""
    first = one_row_each(people)
    own = np.asarray(labels)[first]
    several = np.flatnonzero(np.asarray(labels) != own[people.of_row])
    if several.size:
        count = np.unique(people.of_row[several]).size
        raise InvalidInputError(
            f"{count} of {people.count} people have rows in several groups: with `person` everyone must be in one; leave "
            "`group` out."
        )
    return own


def column_etas(trained: Trained, sets: Sequence[Rows]) -> Vector:
    """Eta of each column, and last of the label, over each set of rows, in standard units: (sets, columns + 1).

    NaN where a column is missing in all rows of a set.
    """
    attributes = measurement(trained.leak).information.attributes
    found = np.empty((len(sets), len(attributes) + 1))
    sizes = np.array([rows.size for rows in sets])
    for size in np.unique(sizes):
        (places,) = np.nonzero(sizes == size)
        rows = np.stack([sets[k] for k in places.tolist()])
        for first, some in _batches(trained, attributes, int(size)):
            label = first + len(some) == len(attributes)
            width = sum(attribute.size for attribute in some) + label
            step = max(1, BLOCK_VALUES // (int(size) * _parameters(trained) * width))
            for start in range(0, places.size, step):
                own = rows[start : start + step]
                norms = _norms(trained, some, label, own)
                absent = absent_in(some, np.asarray(trained.design.X)[own.reshape(-1)])
                if absent is not None:  # a column that is missing in all of a person's rows has no eta
                    nothing = absent.reshape(*own.shape, -1).all(axis=1)
                    norms[:, : nothing.shape[1]][nothing] = np.nan
                here = places[start : start + step]
                found[here, first : first + norms.shape[1]] = norms
    return found / float(trained.leak.noise.scale)


def _parameters(trained: Trained) -> int:
    return int(trained.design.X.shape[1]) + 1


def _batches(
    trained: Trained, attributes: Sequence[Attribute], size: int
) -> Iterator[tuple[int, tuple[Attribute, ...]]]:
    """Attributes whose Jacobians of one set fit a block, with the place of the first."""
    most, first = max(1, BLOCK_VALUES // (size * _parameters(trained))), 0
    while first < len(attributes):
        last, width = first + 1, attributes[first].size
        while last < len(attributes) and width + attributes[last].size < most:
            width += attributes[last].size
            last += 1
        yield first, tuple(attributes[first:last])
        first = last


def _norms(trained: Trained, attributes: Sequence[Attribute], label: bool, rows: Rows) -> Vector:
    """||J_S|| of each attribute (and the labels) for sets of k rows, given as (sets, k): (sets, attributes + label)."""
    count, size = rows.shape
    J = np.asarray(measurement(trained.leak).information.written_out(attributes, label, rows.reshape(-1)))
    J = J.reshape(count, size, *J.shape[1:])
    columns, at = [], 0
    for width in [*(attribute.size for attribute in attributes), *(1,) * label]:
        part = J[..., at : at + width]
        flat = np.swapaxes(part, 2, 3).reshape(count, size * width, -1)
        turned = np.swapaxes(flat, 1, 2)
        small = flat @ turned if flat.shape[1] <= flat.shape[2] else turned @ flat
        columns.append(np.sqrt(np.clip(np.linalg.eigvalsh(small)[:, -1], 0.0, None)))
        at += width
    return np.stack(columns, axis=1)
