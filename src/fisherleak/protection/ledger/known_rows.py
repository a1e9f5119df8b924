"""Rows of a table as a ledger knows them: by keyed digests of their ids, of their values and of their cells.

Values are what a release read, which its options and other rows decide; cells are what stands in the table (``cell_text``). A
row under a new id is looked up by both.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.level_types import cell_text, id_text
from fisherleak._support.namespaces import Vector
from fisherleak.errors import InvalidInputError
from fisherleak.models import Table

LENGTH = 16
"""Hexadecimal digits of a digest: rows of one table are told apart."""
CELL = 8
"""Hexadecimal digits of the digest of one value, which is compared with one other."""
WRITTEN = {
    "values": (True, False),
    "features": (False, False),
    "loose_values": (True, True),
    "loose_features": (False, True),
}
"""Digests of a row's cells: whether with the label, and whether in any order and any encoding."""
TELLING = 0.9
"""Share of the rows that differ which loose digests must tell apart: yes and no in any order say little."""


@dataclass(frozen=True)
class Rows:
    """A table at hand: its columns, labels as numbers, and the digest of every row's id.

    Attributes
    ----------
    cells : mapping, optional
        Cells by column as they stood in the table before it was read, those of the target under an empty name; the columns and
        labels themselves where they were not read from a file or frame.
    target : str, optional
        The column of the labels, where it has a name.
    """

    table: Table
    y: Vector
    ids: tuple[str, ...]
    cells: Mapping[str, Sequence[Any]] | None = None
    target: str | None = None
    _written: dict[tuple[str, bool], list[str]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def n(self) -> int:
        return len(self.ids)

    def has(self, names: set[str]) -> bool:
        """Whether there are cells of all these columns."""
        return names <= set(self.table.names if self.cells is None else self.cells)

    def written(self, name: str, loosely: bool = False) -> list[str]:
        """The cells of a column, or of the label under an empty name, in one spelling."""
        if (name, loosely) not in self._written:
            known = self.cells
            cells = known[name] if known is not None else self.table.named(name) if name else self.y
            texts = {text: cell_text(text, loosely) for text in {cell for cell in cells if isinstance(cell, str)}}
            self._written[name, loosely] = [
                texts[cell] if isinstance(cell, str) else cell_text(cell, loosely) for cell in cells
            ]
        return self._written[name, loosely]


def numbers_of(y: Any, n: int) -> Vector:
    """Labels as numbers; text of two classes is 0 and 1 in its order."""
    values = np.asarray(host(y) if hasattr(y, "detach") else y)
    if values.shape != (n,):
        raise InvalidInputError(f"y must have one value for each of the {n} rows of X; got shape {values.shape}.")
    kinds = np.unique(values.astype(str) if values.dtype == object else values)
    if values.dtype.kind in "fiu":
        return values.astype(np.float64)
    if kinds.size != 2:
        raise InvalidInputError(
            f"y must be numbers or two classes; got {kinds.size} different values that are no numbers."
        )
    return np.asarray(values.astype(str) == kinds[1].astype(str), dtype=np.float64)


def id_digests(key: bytes, ids: Sequence[Any]) -> tuple[str, ...]:
    """Keyed digests of the ids of rows."""
    return _digests(key, map(id_text, ids))


def _digests(key: bytes, texts: Iterable[str]) -> tuple[str, ...]:
    """Keyed digests of texts, which may hold anything."""
    return tuple(hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256").hex()[:LENGTH] for text in texts)


def _text(value: Any) -> str:
    own = value.item() if isinstance(value, np.generic) else value
    if isinstance(own, bool | int | float):
        return f"{float(own):.9g}"  # a table that is read again may differ in the last bits
    return f"{type(own).__name__}:{own}"


# From a recorded release to the rows of a table


@dataclass(frozen=True)
class KnownRows:
    """The rows of a table as the releases of a ledger had them.

    Attributes
    ----------
    places : tuple of arrays of shape (n,)
        For every release that can be composed, where it had each row, by id or by values; -1 where it had not.
    other_ids : tuple of sets
        For every row the digests of ids under which a release had its values.
    """

    places: tuple[NDArray[np.int64], ...]
    other_ids: tuple[frozenset[str], ...] = ()

    def and_these(self, n: int) -> KnownRows:
        """With a release of these rows after the others."""
        return replace(self, places=(*self.places, np.arange(n)))

    @property
    def renamed(self) -> int:
        """How many rows are known by their values under another id."""
        return sum(bool(names) for names in self.other_ids)


def known_in(
    carried: Sequence[Mapping[str, Any]],
    entries: Sequence[Mapping[str, Any]],
    rows: Rows,
    key: bytes,
    totals: Mapping[str, float],
    partly: bool = False,
) -> KnownRows:
    """Look the rows of a table up in all releases; refuses rows that have changed since, and a table of renamed ones.

    ``totals`` are sums of squares of etas by id, of which the largest is taken among ids that had the same values. With
    ``partly`` the table may lack columns of earlier releases: the others must be as they were, and the places of rows in such
    a release are left out.
    """
    records = [*carried, *entries] if carried else []  # values can be others since rows were carried over
    other: list[set[str]] = [names_before(records, name) for name in rows.ids]
    renamed_now = np.zeros(rows.n, dtype=bool)
    places = []
    for number, entry in enumerate([*carried, *entries], start=1):
        if number <= len(carried):
            found = [*found_by_cells(entry, rows, key, totals), *_carried_rows(entry, rows, key, totals, number)]
        elif partly and used_by(entry) - set(rows.table.names):
            _check_cells(entry, rows, key, number, _found_by_id(entry, rows))
            places.append(np.full(rows.n, -1, dtype=np.int64))
            continue
        else:
            same, renamed = _looked_up(entry, rows, key, totals)
            _refuse_changed(np.flatnonzero((_found_by_id(entry, rows) >= 0) & (same < 0)), np.sum(same >= 0), number)
            places.append(np.where(same >= 0, same, renamed))
            # where nobody came, or nobody left, there is nobody to be known
            exchanged = bool(np.any(same < 0)) and np.sum(same >= 0) < len(entry["rows"])
            found = [renamed, *(found_by_cells(entry, rows, key, totals) if exchanged else [])]
            renamed_now |= (same < 0) & (np.max(found, axis=0) >= 0)
        for renamed in found:
            for row in np.flatnonzero(renamed >= 0).tolist():
                name = entry["rows"][renamed[row]]  # it may have had other ids before, with other values
                other[row] |= {name, *names_before(records, name)} - {rows.ids[row]}
    if np.sum(renamed_now) > rows.n / 2:
        raise InvalidInputError(
            f"{np.sum(renamed_now)} of {rows.n} rows have values that a recorded release had under other ids: use the ids "
            f"of the recorded releases. If these rows are of other people, or ids had to change, {CARRY}."
        )
    return KnownRows(tuple(places), tuple(map(frozenset, other)))


CARRY = "go on in a new ledger that starts from this one's totals, made with `carry_to`"
"""The remedy where rows, ids or the target are not as they were."""


def _found_by_id(entry: Mapping[str, Any], rows: Rows) -> NDArray[np.int64]:
    there = {digest: k for k, digest in enumerate(entry["rows"])}
    return np.array([there.get(digest, -1) for digest in rows.ids], dtype=np.int64)


def _looked_up(
    entry: Mapping[str, Any], rows: Rows, key: bytes, totals: Mapping[str, float]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where a release had the rows with their id and values, and where with their values only; -1 where it had not.

    A recorded row of which the table has the id with the same values is that row, and no one else's.
    """
    label = "features" not in entry or "theta" in entry
    now, values = row_digests(key, entry, rows, np.arange(rows.n), label), entry["values" if label else "features"]
    return _matched(entry, rows, now, values, totals)


def found_by_cells(
    entry: Mapping[str, Any], rows: Rows, key: bytes, totals: Mapping[str, float]
) -> list[NDArray[np.int64]]:
    """Where a release had the cells of rows under other ids, however it read them; -1 where it had not.

    Labels are compared where both have the same target. Loose digests are where they tell rows apart as the others do.
    """
    then = entry.get("written")
    if then is None or not rows.has(used_by(entry)):
        return []
    found, one_target = [], "theta" in entry and recorded_target(entry["about"]) == rows.target
    for name, (label, loosely) in WRITTEN.items():
        plain = then["values" if label else "features"]
        asked = label if one_target else loosely or not label  # other columns may have the target's name
        if asked and len(set(then[name])) >= TELLING * len(set(plain)):
            now = written_digests(key, entry, rows, label, loosely)
            found.append(_matched(entry, rows, now, then[name], totals)[1])
    return found


def _matched(
    entry: Mapping[str, Any], rows: Rows, now: Sequence[str], values: Sequence[str], totals: Mapping[str, float]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    by_id, renamed = _found_by_id(entry, rows), np.full(rows.n, -1, dtype=np.int64)
    same = np.array([k if k >= 0 and values[k] == now[row] else -1 for row, k in enumerate(by_id.tolist())], dtype=int)
    claimed = set(same.tolist())
    free: dict[str, int] = {}
    for k, (digest, name) in enumerate(zip(values, entry["rows"], strict=True)):
        if k not in claimed and (digest not in free or totals[name] > totals[entry["rows"][free[digest]]]):
            free[digest] = k
    for row in np.flatnonzero(same < 0).tolist() if free else ():
        renamed[row] = free.get(now[row], -1)
    return same, renamed


def _carried_rows(
    entry: Mapping[str, Any], rows: Rows, key: bytes, totals: Mapping[str, float], number: int
) -> list[NDArray[np.int64]]:
    """Where a release that was carried over had the values of rows under other ids, if they can be looked up.

    Where no values can be looked up, new ids are refused: totals would start again from nothing under them.
    """
    try:
        return [_looked_up(entry, rows, key, totals)[1]]
    except InvalidInputError:
        new = np.flatnonzero([digest not in totals for digest in rows.ids])
    if new.size:
        missing = sorted(used_by(entry) - set(rows.table.names))
        what = f"used column '{missing[0]}', which is not there" if missing else "had another target"
        raise InvalidInputError(
            f"{new.size} of {rows.n} rows have ids that no release of the ledger had, row {new[0]} of X first. They cannot be "
            f"looked up by their values: release {number} {what}. {'Keep the column' if missing else 'Keep the target'}, use "
            "the ids of the recorded releases, or leave these rows out."
        )
    return []


def names_before(records: Sequence[Mapping[str, Any]], name: str) -> set[str]:
    """Ids under which a row was known by its values when it was added under this one, and those before them."""
    others, new = set[str](), {name}
    while new:
        found = {other for entry in records for one in new for other in entry.get("other_ids", {}).get(one, ())}
        new = found - others - {name}
        others |= new
    return others


def _refuse_changed(changed: NDArray[np.int64], unchanged: Any, number: int) -> None:
    """Refuse rows whose values are not those that a release had under their ids."""
    if changed.size > 1 and not unchanged:
        raise InvalidInputError(
            f"All {changed.size} rows of release {number} have another label or other values now: a ledger is of "
            "one table and one target. Keep one for each target: a row's eta over several ledgers is at most the root of the "
            f"sum of squares. Or {CARRY}, which adds "
            "up squares in this way."
        )
    if changed.size:
        raise InvalidInputError(
            f"Row {changed[0]} of X has other values, or another label, than the row of that id had when release {number} was "
            f"recorded: pass the rows as they were. Where rows were corrected, {CARRY}."
        )


def _check_cells(entry: Mapping[str, Any], rows: Rows, key: bytes, number: int, places: NDArray[np.int64]) -> None:
    """Refuse values and labels that are not those of a release, of which the table lacks columns."""
    if "cells" not in entry:
        missing = sorted(used_by(entry) - set(rows.table.names))
        raise InvalidInputError(
            f"Release {number} of the ledger used column '{missing[0]}', which this table lacks, and was recorded without "
            "digests of single values: pass a table that has all columns."
        )
    own = np.flatnonzero(places >= 0)
    shared = sorted(used_by(entry) & set(rows.table.names))
    now = cell_digests(key, entry, rows, own, shared)
    differs = np.zeros(own.size, dtype=bool)
    for name, digests in now.items():
        then = _cut(entry["cells"][name])
        differs |= np.array([then[k] for k in places[own].tolist()]) != np.array(_cut(digests))
    _refuse_changed(own[differs], np.sum(~differs), number)


def _cut(digests: str) -> list[str]:
    return [digests[k : k + CELL] for k in range(0, len(digests), CELL)]


def used_by(entry: Mapping[str, Any]) -> set[str]:
    """The columns of the table that a release used."""
    return {source for column in entry["columns"] for source in column["sources"] if column["kind"] != "none"}


def recorded_target(about: Mapping[str, Any] | None) -> Any:
    """The target of a release, where something was said about it."""
    return None if not about else about["settings"].get("target")


def row_digests(
    key: bytes, entry: Mapping[str, Any], rows: Rows, own: NDArray[np.int64], label: bool = True
) -> tuple[str, ...]:
    """Digests of what a release used of rows: their columns, and their label too or not."""
    values = _values(entry, rows, own, sorted(used_by(entry)), label)
    return _digests(key, ("str:" + "\x1f".join(map(_text, row)) for row in zip(*values, strict=True)))


def written_digests(key: bytes, entry: Mapping[str, Any], rows: Rows, label: bool, loosely: bool) -> tuple[str, ...]:
    """Digests of the cells of the columns that a release used, and of the label's too or not, as they stand in the table.

    Loosely, the columns may exchange their names, and the table may be read in another encoding.
    """
    names = [*sorted(used_by(entry)), *([""] if label else [])]
    found = zip(*(["cells:"] * rows.n, *(rows.written(name, loosely) for name in names)), strict=True)
    # no text has the mark between cells: it is a blank
    return _digests(key, ("\x1f".join(sorted(row) if loosely else row) for row in found))


def cell_digests(
    key: bytes, entry: Mapping[str, Any], rows: Rows, own: NDArray[np.int64], names: Sequence[str]
) -> dict[str, str]:
    """Short digests of single values of some columns, and of the label under an empty name, each with its row's id."""
    ids = [rows.ids[row] for row in own.tolist()]
    return {
        name: "".join(
            hashlib.blake2b(
                f"{id_}:{_text(value)}".encode("utf-8", "surrogatepass"), key=key, digest_size=CELL // 2
            ).hexdigest()
            for id_, value in zip(ids, values, strict=True)
        )
        for name, values in zip([*names, ""], _values(entry, rows, own, names), strict=True)
    }


def _values(
    entry: Mapping[str, Any], rows: Rows, own: NDArray[np.int64], names: Sequence[str], label: bool = True
) -> list[list[Any]]:
    """Values of some columns, and labels as a release had them."""
    columns = [rows.table.named(name)[own].tolist() for name in names]
    if not label:
        return columns
    labels = rows.y if entry["labels"]["classes"] is None else recorded_labels(entry, rows)
    return [*columns, labels[own].tolist()]


def recorded_labels(entry: Mapping[str, Any], rows: Rows) -> Vector:
    """The table's labels as the release had them."""
    record = entry["labels"]
    if record["classes"] is None:
        return np.asarray((rows.y - record["centre"]) / record["unit"])
    low, high = record["classes"]
    kinds = np.unique(rows.y)
    if set(kinds.tolist()) <= {low, high}:
        return rows.y
    if kinds.size != 2:
        raise InvalidInputError(
            f"y must have the two classes of the recorded releases; got {kinds.size} different values."
        )
    return np.asarray(np.where(rows.y == kinds[1], high, low), dtype=np.float64)
