r"""A ledger of what has been spent: every release about a table, in one file, composed exactly when it is asked.

Fisher information adds up (paper, section 3.1), so what all releases and answers so far tell about a row is
:math:`\sum_k J_k^T J_k`. The file keeps each release's share of that sum without any row (``ledger_entries``); a table, whose
rows are matched by id, completes it. Rows that came later are in no earlier release; those that left keep the etas they had.
Of releases that were carried over from another ledger only etas of whole rows are known, whose squares add up
(``carried_totals``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.checks import check_positive
from fisherleak._support.level_types import in_own_unit
from fisherleak._support.namespaces import Json, TableLike, VectorLike
from fisherleak._support.numbers import number
from fisherleak.engine.information import Release
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.norms import information_together
from fisherleak.errors import DataError, InvalidInputError
from fisherleak.leakage.compositions.coordinates import in_label_unit
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.models import Table, as_table
from fisherleak.protection.calibrate.calibration import publishable
from fisherleak.protection.frontier.counted_choice import CountedChoice
from fisherleak.protection.ledger.carried_totals import (
    carried_from,
    check_composed,
    check_no_choices,
    entry_digest,
    eta_of_choice,
    etas_under,
    spent_record,
    squares_beside,
    told_by_choices,
    total_squares,
)
from fisherleak.protection.ledger.known_rows import KnownRows, Rows, id_digests, id_text, known_in, numbers_of, used_by
from fisherleak.protection.ledger.ledger_entries import (
    aligned_attributes,
    check_one_target,
    entry_of,
    recordable,
    release_from,
)
from fisherleak.protection.ledger.ledger_file import (
    check_open,
    count_of,
    key_of,
    mark_with,
    new_content,
    now,
    read_content,
    write_content,
)
from fisherleak.protection.ledger.locked_file import held

__all__ = ["Ledger", "OverspentError", "held_against", "in_units", "mark_release", "record_release"]

MOST_NAMED = 5


class OverspentError(InvalidInputError):
    """A release would take someone past the limit; nothing was recorded."""


class Ledger:
    """What has been released about one table, in one confidential file.

    Parameters
    ----------
    path : str or Path
        The file; made, readable by its owner alone, when the first release is recorded.

    Notes
    -----
    **What it holds.** Of each release: the parameters before noise, the information about them, the encoding of columns,
    weights, and for each row keyed digests of its id and values and its eta. No row of the table, but it is confidential: mode
    0600.

    **What holds, and when.** ``leakage`` is exact, as :func:`fisherleak.compose` is: the releases' noise is independent, and
    each one's own assumptions hold. Rows are matched by id: the index of a pandas table, the positions of other rows, or
    ``ids``; 7, "007" and 7.0 are one id, and rows of which none has a recorded id are refused. A row that has the values of a
    recorded row whose id is not in the table is that row, and carries its total; a table of which more than half is so is
    refused. A row whose values changed under its id is refused (``carry_to`` goes on from totals); one that changed its id
    and a value is not noticed. Several processes may add at once, and what ``add`` came back from is on the disk. An older copy
    that is put back is not noticed here: ``fisherleak verify MODEL --ledger FILE`` does, by the card of a later release.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import fisherleak as fl
    >>> X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([1.0, 3.0, -1.0])
    >>> leak = fl.measure(fl.minimise(X, y), X, y, noise=fl.Gaussian(10.0))
    >>> ledger = fl.Ledger(pathlib.Path(tempfile.mkdtemp()) / "table.ledger.json")
    >>> ledger.add(leak), ledger.add(leak)
    (1, 2)
    >>> (ledger.leakage(X, y).per_example() / leak.per_example()).round(4)
    array([1.4142, 1.4142, 1.4142])
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise InvalidInputError(f"The folder '{self.path.parent}' of the ledger does not exist: make it first.")

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, confidential)"

    def add(
        self, leakage: Leakage, ids: VectorLike = None, limit: float | None = None, choice: CountedChoice | None = None
    ) -> int:
        """Record a release, or answers that were given; give back its number.

        Parameters
        ----------
        leakage : Leakage
            Of one release, from :func:`fisherleak.measure`. One that is added twice counts twice: it was drawn twice.
        ids : array of shape (n,), optional
            The id of every row; the table's index if not given.
        limit : float, optional
            Refuse the release (:class:`InvalidInputError` names the rows) if it would take any row's eta past this, all earlier
            releases counted.
        choice : CountedChoice, optional
            From :meth:`fisherleak.Frontier.choose`, where the release is of the candidate that it drew: what the choice tells
            is recorded too.

        Examples
        --------
        >>> ledger.add(leak, limit=0.1)  # a third release
        3

        Notes
        -----
        Noise whose shape the rows decided is refused, since the shape tells too. A scale that was calibrated to the rows
        present tells about the row that decides it, which no sum counts: ``UncountedScaleWarning`` says so.
        """
        noise: Any = getattr(leakage, "_noise", None)
        publishable(noise)
        return record_release(self.path, leakage, ids, None, limit, None, choice=eta_of_choice(choice))

    def leakage(self, X: TableLike, y: VectorLike, ids: VectorLike = None) -> Leakage:
        """What all recorded releases together reveal about the rows of a table.

        Parameters
        ----------
        X : table of shape (n, columns)
            With all columns that any release used; rows may have come and gone since.
        y : array of shape (n,)
        ids : array of shape (n,), optional
            As in :meth:`add`.

        Returns
        -------
        Leakage
            Of the rows in X. Etas of numbers are per unit of their column; of labels per unit of y, or from one class to the
            other.

        Examples
        --------
        >>> round(float(ledger.leakage(X, y).per_example().max()), 3)
        0.072
        """
        asked = held_against(self.path, X, y, ids)
        check_no_choices(asked.content["entries"], len(asked.content["carried"]) + 1)
        check_composed(asked.beside({}, None), _ids(asked.rows.table, ids))
        return asked.composed()

    def etas(self, X: TableLike, y: VectorLike, ids: VectorLike = None) -> NDArray[np.float64]:
        """(n,) what all recorded releases together reveal about each row, with the choices that they were released by.

        As ``leakage(X, y, ids).per_example()`` where there are no choices and nothing was carried over. Where there are, the
        root of its square and of the squares of the etas of choices and of what was carried over: never less than the truth.

        Examples
        --------
        >>> ledger.etas(X, y).round(3)
        array([0.046, 0.072, 0.046])
        """
        return held_against(self.path, X, y, ids).etas({}, None)

    def remaining(self, eta: float, X: TableLike = None, y: VectorLike = None, ids: VectorLike = None) -> float:
        """An eta that one more release may have for every row without taking anyone past a limit; zero where none is left.

        The root of what is left of the square, on the safe side: releases that look along different directions leave more.
        With a table it counts its rows, composed exactly; without, all rows ever recorded, by the root of the sum of squares of
        their etas, in the units that they were added in.

        Examples
        --------
        >>> round(ledger.remaining(0.1), 3)
        0.069
        """
        limit = check_positive(eta, "eta")
        if X is not None:
            spent = float(np.max(self.etas(X, y, ids), initial=0.0))
        else:
            spent = math.sqrt(max(total_squares(_records(read_content(self.path))).values(), default=0.0))
        return math.sqrt(max(limit**2 - spent**2, 0.0))

    def recorded(self, name: Any) -> list[float | None]:
        """The eta that one id had in each release, also if its row has left the table; None where it was not part of it.

        In releases before an id was first recorded it is that of the id under which its row's values were known then.

        Examples
        --------
        >>> [round(eta, 4) for eta in ledger.recorded(0)]
        [0.0324, 0.0324]
        """
        content = read_content(self.path)
        (digest,) = id_digests(key_of(content), [name])
        return etas_under(_records(content), digest)

    @property
    def entries(self) -> list[Json]:
        """Of each release its number, time, words, what was said about it, number of rows and largest eta."""
        return [
            {
                "number": number,
                "at": entry["at"],
                "what": entry["what"],
                "about": entry["about"],
                "rows": len(entry["rows"]),
                "largest": max(entry["eta"], default=0.0),
            }
            for number, entry in enumerate(_records(read_content(self.path)), start=1)
        ]

    def carry_to(self, path: str | Path) -> Ledger:
        """Start a new ledger from the totals of this one, for rows that were corrected, other ids or another target.

        The new ledger counts what each id has had here, as squares of etas, on the safe side: ``etas`` and ``remaining`` tell
        it, ``leakage`` is refused for such rows. It compares no values with those of releases before, but for rows with new
        ids: one that has the values of a recorded row carries its total. Releases are numbered on. This ledger can be read
        from then on, and takes no more releases.

        Parameters
        ----------
        path : str or Path
            The new file; one that is there is never overwritten.

        Examples
        --------
        >>> corrected = ledger.carry_to(ledger.path.with_name("corrected.ledger.json"))
        >>> corrected.etas(X + 0.1, y).round(3)
        array([0.046, 0.072, 0.046])
        """
        fresh = Ledger(path)
        with held(self.path):
            content = read_content(self.path)
            check_open(self.path, content)
            with held(fresh.path):
                if fresh.path.exists():
                    raise InvalidInputError(f"'{fresh.path}' is there already: name a file that is not.")
                write_content(fresh.path, new_content(content["key"], list(map(carried_from, _records(content)))))
            write_content(self.path, {**content, "carried_to": str(fresh.path)})
        return fresh


# How entries are made and put together


def record_release(
    path: Path,
    leakage: Leakage,
    ids: Any,
    label: tuple[float, float] | None,
    limit: float | None,
    units: Mapping[str, float] | None,
    about: Json | None = None,
    choice: float = 0.0,
) -> int:
    """Record a release in one go with the check of a limit, in given units."""
    limit = None if limit is None else check_positive(limit, "limit")
    recordable(leakage)
    with held(path):
        content = read_content(path, fresh=True)
        check_open(path, content)
        rows = _rows_of(leakage, ids, label, key_of(content))
        whole = about is not None or limit is not None
        known = _known(path, content, rows, whole)
        entry = {"at": now(), "about": about, **entry_of(leakage, rows, key_of(content), label, choice)}
        check_one_target([*content["entries"], entry], len(content["carried"]) + 1)
        every = _Asked({**content, "entries": [*content["entries"], entry]}, rows, known.and_these(rows.n))
        every.composed()  # what cannot be composed is refused before it is recorded
        if limit is not None:
            _check_limit(every.etas(units or {}, about), limit, _ids(measurement(leakage).table, ids))
        alone = _Asked({**content, "carried": [], "entries": [entry]}, rows, KnownRows(()).and_these(rows.n))
        entry["spent"] = spent_record(alone.etas(units or {}, about), units or {})
        entry["other_ids"] = {own: sorted(names) for own, names in zip(rows.ids, known.other_ids, strict=True) if names}
        content["entries"].append(entry)
        write_content(path, content)
    return count_of(content)


def mark_release(path: Path, number: int, file_digest: str) -> Json:
    """Tie the file of a release to its number and its entry, here and in what goes on its card."""
    with held(path):
        content = read_content(path)
        place = number - len(content["carried"]) - 1
        if not 0 <= place < len(content["entries"]) or "mark" in content["entries"][place]:
            raise DataError(f"'{path}' was replaced while release {number} was written: release again.")
        entry = content["entries"][place]
        mark = entry["mark"] = mark_with(content, number, file_digest, entry_digest(entry))
        write_content(path, content)
    return {"release": number, "mark": mark}


def held_against(path: Path, X: TableLike, y: VectorLike, ids: VectorLike) -> _Asked:
    """The ledger held against the rows of a table."""
    content = read_content(path)
    if not count_of(content):
        raise InvalidInputError(f"'{path}' records no release yet: nothing has been spent.")
    table = as_table(X)
    if table.lazy:
        raise InvalidInputError("X must be in memory for a ledger; it is a Dask array. Pass X.compute().")
    numbers, _ = numbers_of(y, table.n)
    rows = Rows(table, numbers, id_digests(key_of(content), _ids(table, ids)))
    missing = _missing(content["entries"], rows)
    if missing:
        raise InvalidInputError(f"X lacks column '{missing[0][1]}', which a recorded release used.")
    return _Asked(content, rows, _known(path, content, rows, whole=True))


def _known(path: Path, content: Json, rows: Rows, whole: bool) -> KnownRows:
    """The rows as the releases had them; where the ``whole`` ledger is read with them, they need all columns it used."""
    missing = _missing(content["entries"], rows)
    if whole and missing:
        raise InvalidInputError(
            f"Release {missing[0][0] + len(content['carried'])} of the ledger used column '{missing[0][1]}', which this "
            "one leaves out: the ledger has to be held against both. Keep the column, or keep another ledger."
        )
    records = _records(content)
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
class _Asked:
    """What a ledger holds, the rows of a table, and where the releases had them."""

    content: Json
    rows: Rows
    known: KnownRows

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
        """(n,) what all releases reveal about each row, never less, per so many units of columns and label."""
        entries, beside = self.content["entries"], self.beside(units, about)
        if not entries:
            return np.sqrt(beside)
        total = self.composed()
        told = told_by_choices(
            entries, self.known, self.rows.n, measurement(total).notes, units, len(self.content["carried"]) + 1
        )
        own = np.asarray(host(in_units(total, units).per_example())) * (1.0 + measurement(total).information.error)
        return np.asarray(np.sqrt(own**2 + told + beside))

    @property
    def left(self) -> int:
        """How many recorded rows are not in the table, under their id or another: their record stays."""
        recorded = {row for entry in _records(self.content) for row in entry["rows"]}
        return len(recorded.difference(self.rows.ids, *self.known.other_ids))


def _records(content: Json) -> list[Json]:
    """All releases, in order: those that were carried over, and those of this ledger."""
    return [*content["carried"], *content["entries"]]


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


def _ids(table: Table, ids: Any) -> list[Any]:
    given = table.index if ids is None else ids
    found = list(range(table.n)) if given is None else np.asarray(given).tolist()
    if len(found) != table.n:
        raise InvalidInputError(f"ids must have one value for each of the {table.n} rows; got {len(found)}.")
    if len(set(map(id_text, found))) != len(found):
        raise InvalidInputError(
            "ids must differ, and 7, 007 and 7.0 are one: two rows with one id cannot be told apart in a ledger."
        )
    return found


def _rows_of(leakage: Leakage, ids: Any, label: tuple[float, float] | None, key: bytes) -> Rows:
    """The rows of a leakage, with labels in the table's own units."""
    centre, unit = (0.0, 1.0) if label is None else label
    y = np.asarray(host(measurement(leakage).information.rows[1]), dtype=np.float64)
    return Rows(
        measurement(leakage).table, in_own_unit(centre, unit, y), id_digests(key, _ids(measurement(leakage).table, ids))
    )


def _check_limit(etas: NDArray[np.float64], limit: float, ids: Sequence[Any]) -> None:
    above = np.flatnonzero(etas > limit)
    if not above.size:
        return
    order = above[np.argsort(-etas[above], kind="stable")]
    named = ", ".join(f"{ids[row]} (by {number(float(etas[row] - limit))})" for row in order[:MOST_NAMED])
    more = f" and {above.size - MOST_NAMED} more" if above.size > MOST_NAMED else ""
    raise OverspentError(
        f"This release would take {above.size} of {len(ids)} rows past the limit of {limit:g}, all releases in the ledger "
        f"counted: {named}{more}. Use more noise."
    )
