"""Etas and membership of a leakage, of its rows or of people who have several: all rows of a person are one set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak.engine.changes.removal import CLOSE
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.leakage.membership_distance import certain
from fisherleak.rows.selection import rows_by_group
from fisherleak.tables.design.whose_rows import People
from fisherleak.training.people import column_etas_of, joint_etas_of, one_row_each, people_by_group, rows_by_person

__all__ = ["MeasuredEtas"]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class MeasuredEtas:
    """Etas of every row, or of every person where rows belong to people: a place below is a row's, or a person's.

    Attributes
    ----------
    people : People, optional
    eta, label : arrays of shape (m,)
    cells : array of shape (m, number of attributes)
        NaN where a value is missing.
    """

    leak: Leakage = field(repr=False)
    people: People | None = field(repr=False)
    eta: Vector = field(repr=False)
    label: Vector = field(repr=False)
    cells: Vector = field(repr=False)

    @classmethod
    def of(cls, leak: Leakage, people: People | None = None) -> MeasuredEtas:
        """All rows of a person are one set, as :meth:`Leakage.by_person` has it."""
        if people is None:
            found = (leak.per_example(), leak.per_label(), leak.per_cell())
            eta, label, cells = (np.asarray(host(each), dtype=np.float64) for each in found)
            return cls(leak, None, eta, label, cells)
        joint = leak.by_person(people.of_row)
        every = column_etas_of(leak, rows_by_person(people), measurement(leak).absent)
        eta = np.array([joint[k] for k in range(people.count)])
        return cls(leak, people, eta, every[:, -1], every[:, :-1])

    @property
    def whose(self) -> str:
        return "row" if self.people is None else "person"

    @property
    def several(self) -> bool:
        """Whether somebody has several rows."""
        return self.people is not None and self.people.count < self.leak.n

    def row(self, place: int) -> int:
        """The number of a row, or of the first row of a person."""
        return place if self.people is None else int(one_row_each(self.people)[place])

    def name(self, place: int) -> str | None:
        """What a row is called in the table's index, or a person in the column that names people."""
        if self.people is not None:
            return str(self.people.names[place])
        index = measurement(self.leak).table.index
        return None if index is None or str(index[place]) == str(place) else str(index[place])

    def id(self, place: int) -> str | None:
        return self.name(place) if self.people is None else None

    def person(self, place: int) -> str | None:
        return None if self.people is None else self.name(place)

    def size(self, place: int) -> int | None:
        """How many rows a person has; none of rows."""
        return None if self.people is None else int(self.people.sizes[place])

    def by_place(self, values: Vector) -> Vector:
        """What rows have, by place: NaN for people who have several rows."""
        if self.people is None:
            return values
        if self.several:
            return np.full((self.people.count, *values.shape[1:]), np.nan)
        return np.asarray(values[np.concatenate(rows_by_person(self.people))])

    def groups(self, labels: Any) -> dict[str, NDArray[np.int64]]:
        """Places of the members of each group; refused where two groups would have one name."""
        given = np.asarray(host(labels) if hasattr(labels, "detach") else labels, dtype=object)
        if given.ndim != 1:
            raise InvalidInputError(
                f"group must have one value for each row; got shape {given.shape}. Pass one column."
            )
        found = rows_by_group(given, self.leak.n)
        if len({str(name) for name in found}) < len(found):
            raise InvalidInputError(
                "Two groups have names that are written alike, as 1 and '1' are: give all names one type."
            )
        if self.people is None:
            return {str(name): np.asarray(host(places)) for name, places in found.items()}
        names, codes = np.unique(np.asarray(labels).astype(str), return_inverse=True)
        who, own, _ = people_by_group(self.people, codes.reshape(-1))
        return {str(name): who[own == k] for k, name in enumerate(names)}

    def jointly(self, labels: Any) -> dict[str, float]:
        """Eta of each group, all of it together."""
        if self.people is None:
            return {str(name): eta for name, eta in self.leak.by_group(labels).items()}
        names, codes = np.unique(np.asarray(labels).astype(str), return_inverse=True)
        found = joint_etas_of(self.leak, self.people, codes.reshape(-1), len(names))[0]
        return dict(zip(names.tolist(), found.tolist(), strict=True))

    def dataset(self) -> tuple[float, Vector]:
        """Eta of everything together, and of each column over all rows."""
        leak = self.leak
        if not self.several:
            return leak.dataset(), np.array([leak.of(attributes=[j]) for j in range(self.cells.shape[1])])
        found, columns = joint_etas_of(leak, self.people, np.zeros(leak.n, dtype=np.int64), 1)
        return float(found[0]), columns

    def membership(self, tolerance: float = CLOSE) -> tuple[Vector, int]:
        """Mu of leaving each out, (m,), and how many are recognised whatever the noise."""
        frames = measurement(self.leak).shown_frames
        if self.people is None:
            mu = np.asarray(host(self.leak.membership(tolerance)), dtype=np.float64)
            return mu, int(np.count_nonzero(host(certain(np.zeros(mu.size), frames))))
        found = self.leak.membership_by_group(self.people.of_row, tolerance)
        known = certain(np.zeros(self.people.count), frames, rows_by_person(self.people))
        return np.array([found[k] for k in range(self.people.count)]), int(np.count_nonzero(host(known)))
