"""What the releases in a ledger tell about the rows of a table, all together.

Also here: whose the rows of a table are: once a release on a ledger was by people, all are counted by people.

A release without ``--person`` says nothing of people, and reveals as much of them as one with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.level_types import check_ids_exact, id_text
from fisherleak._support.namespaces import Json, TableLike, VectorLike
from fisherleak.engine.information import Release
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.norms import information_together
from fisherleak.errors import DataError, InvalidInputError
from fisherleak.leakage.compositions import in_label_unit
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.models import Table, as_table
from fisherleak.protection.ledger.carried_totals import (
    disclosed_by_choices,
    largest_units,
    squares_beside,
    squares_by_names,
    total_squares,
)
from fisherleak.protection.ledger.known_rows import (
    KnownRows,
    Rows,
    found_by_cells,
    id_digests,
    known_in,
    names_before,
    numbers_of,
    used_by,
)
from fisherleak.protection.ledger.ledger_entries import aligned_attributes, release_from
from fisherleak.protection.ledger.ledger_file import key_of, read_content, records_of

Whose = Callable[[str], tuple[Sequence[Any], Sequence[Any]] | None]
"""Whose the rows of a table are, read ones and others, by a column of it; None where the table lacks the column."""


def person_columns(records: Sequence[Json]) -> list[str]:
    """The columns that any release had people by."""
    told = [entry["about"]["settings"].get("person") for entry in records if entry["about"]]
    return list(dict.fromkeys(column for column in told if column is not None))


def check_people(path: Path, records: Sequence[Json], whose: Whose) -> None:
    """Refuse a table that does not tell whose its rows are, where a release was counted by people."""
    lacking = [column for column in person_columns(records) if whose(column) is None]
    if lacking:
        raise InvalidInputError(
            f"'{path}' counts people by the column '{lacking[0]}', which this table lacks: pass the table with that column. "
            "`drop`, or in Python a step of the model, leaves it out of the model."
        )


def largest_people(totals: Sequence[dict[Any, float]]) -> dict[Any, float]:
    """Of the columns that people were counted by, the totals by that with the largest."""
    return max(totals, key=lambda found: max(found.values()))


def whose_in(table: Table | None) -> Whose:
    """Whose the rows of a table in memory are, by a column of it; 7, 007 and 7.0 are one."""

    def whose(column: str) -> tuple[Sequence[Any], Sequence[Any]] | None:
        if table is None or column not in table.names:
            return None
        cells = table.named(column).tolist()
        check_ids_exact(f"Column '{column}'", cells)
        return [id_text(value) for value in cells], ()

    return whose


@dataclass(frozen=True)
class UnreadRows:
    """Ids and cells of rows that stand in a table, and that a reading of it left out; ``cells`` as in :class:`Rows`.

    What was told of them counts as before: a cell that an option makes a gap leaves its row out, and nobody leaves a table by
    that.
    """

    ids: Sequence[Any] = ()
    cells: Mapping[str, Sequence[Any]] = field(default_factory=dict)


NONE = UnreadRows()


def held_against(
    path: Path,
    X: TableLike,
    y: VectorLike,
    ids: VectorLike,
    cells: Mapping[str, Sequence[Any]] | None = None,
    target: str | None = None,
    unread: UnreadRows = NONE,
) -> SpentOnRows:
    """The ledger compared with the rows of a table; ``cells`` and ``target`` as in :class:`Rows`."""
    content = read_content(path)
    if not records_of(content):
        raise InvalidInputError(f"'{path}' records no release yet: nothing has been spent.")
    table = as_table(X)
    if table.lazy:
        raise InvalidInputError("X must be in memory for a ledger; it is a Dask array. Pass X.compute().")
    rows = Rows(table, numbers_of(y, table.n), id_digests(key_of(content), ids_of_rows(table, ids)), cells, target)
    missing = _missing(content["entries"], rows)
    if missing:
        raise InvalidInputError(f"X lacks column '{missing[0][1]}', which a recorded release used.")
    return SpentOnRows(
        content, rows, known_to_releases(path, content, rows, whole=True), names_of_unread(unread, content, rows)
    )


def names_of_unread(unread: UnreadRows, content: Json, rows: Rows) -> tuple[frozenset[str], ...]:
    """Of each row that was left out, the digests of ids that releases had it under; empty where none had it.

    A row with the cells of a recorded one is that one, unless the table has its id, in ``rows`` or among these.
    """
    records, key = records_of(content), key_of(content)
    totals = total_squares(records)
    ids = id_digests(key, unread.ids)
    names = [{own, *names_before(records, own)} for own in ids]
    own_rows = replace(rows, ids=ids, cells=unread.cells)  # known by id and cells only: values were not read
    present = {*rows.ids, *ids}
    for entry in records if ids else ():
        for found in found_by_cells(entry, own_rows, key, totals):
            for row in (found >= 0).nonzero()[0].tolist():
                name = entry["rows"][found[row]]
                names[row] |= {name, *names_before(records, name)} - present
    return tuple(frozenset(each & totals.keys()) for each in names)


def known_to_releases(path: Path, content: Json, rows: Rows, whole: bool) -> KnownRows:
    """The rows as the releases had them; where the ``whole`` ledger is read with them, they need all columns it used."""
    missing = _missing(content["entries"], rows)
    if whole and missing:
        raise InvalidInputError(
            f"Release {missing[0][0] + len(content['carried'])} of the ledger used column '{missing[0][1]}', which the new "
            "release leaves out. The ledger needs all columns that any release used: keep the column, or keep another ledger."
        )
    records = records_of(content)
    recorded = {row for entry in records for row in entry["rows"]}
    foreign = bool(records) and not set(rows.ids) & recorded
    if foreign and not content["carried"]:
        raise InvalidInputError(_other_table(path))
    own = (content["carried"], content["entries"], rows, key_of(content))
    known = known_in(*own, total_squares(records), partly=not whole)
    if foreign and not known.renamed:
        raise InvalidInputError(_other_table(path))
    return known


def _other_table(path: Path) -> str:
    """Why rows are refused of which no release knows any: under other ids everyone would start again from nothing."""
    return (
        f"'{path}' is the ledger of another table: no row has an id that any release in it had. Use the ids of these "
        "releases, or, for another table, another ledger."
    )


@dataclass(frozen=True)
class SpentOnRows:
    """What a ledger holds, the rows of a table, where the releases had them, and ids of rows that were not read."""

    content: Json
    rows: Rows
    known: KnownRows
    unread: tuple[frozenset[str], ...] = ()

    def composed(self) -> Leakage:
        """What the releases that can be composed reveal together."""
        entries = self.content["entries"]
        attributes, notes = aligned_attributes(entries)
        parts = zip(entries, self.known.places, attributes, strict=True)
        releases = [release_from(entry, self.rows, places, own) for entry, places, own in parts]
        return Leakage(information_together(releases), None, self.rows.table, notes)

    def beside(self, units: Mapping[str, float], about: Json | None) -> NDArray[np.float64]:
        """(n,) squares of etas that are not part of the composition."""
        own = (self.content["carried"], self.content["entries"], self.rows, self.known)
        return squares_beside(*own, units, about)

    def etas(self, units: Mapping[str, float], about: Json | None) -> NDArray[np.float64]:
        """(n,) what all releases reveal about each row, never less, per so many units of columns and label, or more."""
        units = largest_units(records_of(self.content), units, about)
        entries, beside = self.content["entries"], self.beside(units, about)
        if not entries:
            return np.sqrt(beside)
        total = self.composed()
        told = disclosed_by_choices(
            entries, self.known, self.rows.n, measurement(total).notes, units, len(self.content["carried"]) + 1
        )
        own = np.asarray(host(in_units(total, units).per_example())) * (1.0 + measurement(total).information.error)
        etas = np.asarray(np.sqrt(own**2 + told + beside))
        if np.isnan(etas).any():
            raise DataError(
                f"Together, the releases of this ledger have an eta that is no number for {np.isnan(etas).sum()} rows: an "
                "entry was changed. Restore the ledger from a copy."
            )
        return etas

    def etas_unread(self, units: Mapping[str, float], about: Json | None) -> NDArray[np.float64]:
        """What all releases reveal about each row that was not read, at most: squares of its etas add up."""
        records = records_of(self.content)
        return np.sqrt(squares_by_names(records, self.unread, largest_units(records, units, about), about))

    def by_people(self, whose: Whose, units: Mapping[str, float], about: Json | None) -> list[dict[Any, float]]:
        """What all releases reveal about each person of the table, at most, by each column that any release had people by.

        Etas of rows add up (section 6.11). Rows that left the table count for everyone, as whose they were is not recorded.
        """
        records, gone = records_of(self.content), [frozenset([row]) for row in sorted(self._gone)]
        units_now = largest_units(records, units, about)
        left = float(np.sum(np.sqrt(squares_by_names(records, tuple(gone), units_now, about)))) if gone else 0.0
        etas = [*self.etas(units, about).tolist(), *self.etas_unread(units, about).tolist()]
        found = []
        for column in person_columns(records):
            read, unread = whose(column) or ((), ())
            totals: dict[Any, float] = dict.fromkeys([*read, *unread], left)
            for who, eta in zip([*read, *unread], etas, strict=True):
                totals[who] += eta
            found.append(totals)
        return found

    @property
    def _gone(self) -> set[str]:
        recorded = {row for entry in records_of(self.content) for row in entry["rows"]}
        return recorded.difference(self.rows.ids, *self.known.other_ids, *self.unread)

    @property
    def left(self) -> int:
        """How many recorded rows are not in the table, under their id or another: their record stays."""
        return len(self._gone)


def _missing(entries: Sequence[Json], rows: Rows) -> list[tuple[int, str]]:
    """Releases, by their place from one, that used a column which a table lacks, and the column."""
    lacking = ((place, sorted(used_by(entry) - set(rows.table.names))) for place, entry in enumerate(entries, start=1))
    return [(place, names[0]) for place, names in lacking if names]


def in_units(leakage: Leakage, units: Mapping[str, float]) -> Leakage:
    """The same leakage with etas of some numbers per so many of their units; that of the label under an empty name."""
    information = measurement(leakage).information
    releases = [Release(_in_units(each.jacobian, units), each.mechanism) for each in information.releases]
    return replace(leakage, _information=information_together(releases))


def _in_units(J: Jacobian, units: Mapping[str, float]) -> Jacobian:
    def one(attribute: Attribute) -> Attribute:
        unit = units.get(attribute.name, 1.0)
        if unit == 1.0:
            return attribute
        plain = np.eye(len(attribute.columns)) if attribute.directions is None else attribute.directions
        return Attribute(attribute.name, attribute.columns, unit * plain, attribute.encoding)

    return in_label_unit(replace(J, attributes=tuple(map(one, J.attributes))), units.get("", 1.0))


def ids_of_rows(table: Table, ids: Any) -> list[Any]:
    given = table.index if ids is None else ids
    found = list(range(table.n)) if given is None else np.asarray(given).tolist()
    if len(found) != table.n:
        raise InvalidInputError(f"ids must have one value for each of the {table.n} rows; got {len(found)}.")
    check_ids_exact("The array of ids", found)
    if len(set(map(id_text, found))) != len(found):
        raise InvalidInputError(
            "ids must differ, and 7, 007 and 7.0 are one: a ledger knows a row by its id. Give each row its own."
        )
    return found
