r"""A ledger of what has been spent: every release about a table, in one file, composed exactly when it is asked.

Fisher information adds up (paper, section 3.1), so what all releases and answers so far tell about a row is
:math:`\sum_k J_k^T J_k`. The file keeps each release's share of that sum without any row (``entries``); a table, whose rows are
matched by id, completes it. Rows that came later are in no earlier release; those that left keep the etas they had.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.checks import check_positive
from fisherleak._support.locked import held, read_private, replace_whole
from fisherleak._support.namespaces import Json, TableLike, VectorLike
from fisherleak._support.numbers import number
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.norms.data_shaped import DataShaped
from fisherleak.engine.norms.shaped_releases import ShapedReleases
from fisherleak.engine.perturbation import Attribute
from fisherleak.errors import DataError, InvalidInputError
from fisherleak.leakage.compose import information_together
from fisherleak.leakage.coordinates import in_label_unit
from fisherleak.leakage.leakage import Leakage
from fisherleak.models import Table, as_table
from fisherleak.protection.calibration import publishable
from fisherleak.protection.counted_choice import CountedChoice
from fisherleak.protection.entries import aligned_attributes, entry_of, recordable, release_from
from fisherleak.protection.known_rows import Rows, found_in, id_digests, id_text, numbers_of, used_by
from fisherleak.protection.recorded_choices import check_no_choices, eta_of_choice, told_by_choices

__all__ = ["Ledger", "OverspentError", "in_units"]

SCHEMA = "fisherleak.ledger/1"
CONFIDENTIAL = (
    "Confidential: this file holds parameters without noise and etas of single rows. It is for whoever holds the table, and no "
    "one else."
)
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
    ``ids``; 7, "007" and 7.0 are one id, and rows of which none has a recorded id are refused. A row whose values changed under
    its id is refused. Several processes may add at once, and what ``add`` came back from is on the disk.

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
        return self._record(leakage, ids, None, limit, None, choice=eta_of_choice(choice))

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
        content = self._content()
        check_no_choices(content["entries"])
        rows = self._rows(X, y, ids, content)
        return self._composed(content["entries"], rows, bytes.fromhex(content["key"]))

    def etas(self, X: TableLike, y: VectorLike, ids: VectorLike = None) -> NDArray[np.float64]:
        """(n,) what all recorded releases together reveal about each row, with the choices that they were released by.

        As ``leakage(X, y, ids).per_example()`` where there are no choices, and at most what it says where there are: the root
        of its square and of the squares of the choices' etas.

        Examples
        --------
        >>> ledger.etas(X, y).round(3)
        array([0.046, 0.072, 0.046])
        """
        content = self._content()
        rows, key = self._rows(X, y, ids, content), bytes.fromhex(content["key"])
        return _with_choices(self._composed(content["entries"], rows, key), content["entries"], rows, key, {})

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
            spent = math.sqrt(max(self._squares().values(), default=0.0))
        return math.sqrt(max(limit**2 - spent**2, 0.0))

    def recorded(self, name: Any) -> list[float | None]:
        """The eta that one id had in each release, also if its row has left the table; None where it was not part of it.

        Examples
        --------
        >>> [round(eta, 4) for eta in ledger.recorded(0)]
        [0.0324, 0.0324]
        """
        content = self._content()
        (digest,) = id_digests(bytes.fromhex(content["key"]), [name])
        places = [(entry, {row: k for k, row in enumerate(entry["rows"])}.get(digest)) for entry in content["entries"]]
        return [None if place is None else float(entry["eta"][place]) for entry, place in places]

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
            for number, entry in enumerate(self._content()["entries"], start=1)
        ]

    # how entries are made and put together

    def _record(
        self,
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
        with held(self.path):
            content = self._content(fresh=True)
            key = bytes.fromhex(content["key"])
            rows = _rows_of(leakage, ids, label, key)
            self._check_same_table(content["entries"], rows.ids)
            entry = {"at": _now(), "about": about, **entry_of(leakage, rows, key, label, choice)}
            every = [*content["entries"], entry]
            aligned_attributes(every)
            _check_readable(content["entries"], rows, key, whole=about is not None or limit is not None)
            if limit is not None or any(each.get("mechanism") for each in every):
                # noise that the data shape is not composed with everything: refused before it is recorded
                total = self._composed(every, rows, key)
            if limit is not None:
                etas = _with_choices(total, every, rows, key, units or {}) * (1.0 + total._information.error)
                _check_limit(etas, limit, _ids(leakage._table, ids))
            content["entries"].append(entry)
            replace_whole(self.path, _sealed(content))
        return len(content["entries"])

    def _rows(self, X: TableLike, y: VectorLike, ids: VectorLike, content: Json) -> Rows:
        table = as_table(X)
        if table.lazy:
            raise InvalidInputError("X must be in memory for a ledger; it is a Dask array. Pass X.compute().")
        numbers, _ = numbers_of(y, table.n)
        own = id_digests(bytes.fromhex(content["key"]), _ids(table, ids))
        self._check_same_table(content["entries"], own)
        for entry in content["entries"]:
            missing = sorted(used_by(entry) - set(table.names))
            if missing:
                raise InvalidInputError(f"X lacks column '{missing[0]}', which a recorded release used.")
        return Rows(table, numbers, own)

    def _check_same_table(self, entries: Sequence[Json], own: Sequence[str]) -> None:
        """Refuse rows of which no release knows any: under other ids everyone would start again from nothing."""
        if entries and not any(set(own) & set(entry["rows"]) for entry in entries):
            raise InvalidInputError(
                f"'{self.path}' is the ledger of another table: no row has an id that any release in it had. Use the ids of "
                "these releases, or another ledger."
            )

    def _composed(self, entries: Sequence[Json], rows: Rows, key: bytes) -> Leakage:
        if not entries:
            raise InvalidInputError(f"'{self.path}' records no release yet: nothing has been spent.")
        attributes, notes = aligned_attributes(entries)
        numbered = enumerate(zip(entries, attributes, strict=True), start=1)
        releases = [release_from(entry, rows, key, number, own) for number, (entry, own) in numbered]
        return Leakage(information_together(releases), None, rows.table, notes)

    def _left(self, ids: Sequence[Any]) -> int:
        """How many rows of any release are not among some ids: they have left, and their record stays."""
        content = self._content()
        known = {row for entry in content["entries"] for row in entry["rows"]}
        return len(known - set(id_digests(bytes.fromhex(content["key"]), ids)))

    def _squares(self) -> dict[str, float]:
        """Sums of squares of the etas of all rows ever recorded, by digest."""
        found: dict[str, float] = {}
        for entry in self._content()["entries"]:
            for row, eta in zip(entry["rows"], entry["eta"], strict=True):
                found[row] = found.get(row, 0.0) + float(eta) ** 2
        return found

    def _content(self, fresh: bool = False) -> Json:
        text = read_private(self.path)
        if text is None:
            if not fresh:
                raise DataError(f"'{self.path}' does not exist: record a release in it first.")
            return {"schema": SCHEMA, "confidential": CONFIDENTIAL, "key": secrets.token_hex(32), "entries": []}
        try:
            content = json.loads(text)
        except ValueError:
            raise DataError(f"'{self.path}' is damaged: it is not whole. Restore it from a copy.") from None
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            raise DataError(f"'{self.path}' is no ledger of this version of fisherleak: name another file.")
        if content.get("digest") != _digest(content):
            raise DataError(f"'{self.path}' is damaged: its content is not what was recorded. Restore it from a copy.")
        return content


def in_units(leakage: Leakage, units: Mapping[str, float]) -> Leakage:
    """The same leakage with etas of some numbers per so many of their units; that of the label under an empty name."""
    information = leakage._information
    own = information.releases if isinstance(information, ShapedReleases) else information.jacobians
    return replace(leakage, _information=information_together([_rescaled(each, units) for each in own]))


def _rescaled(release: Jacobian | DataShaped, units: Mapping[str, float]) -> Jacobian | DataShaped:
    if isinstance(release, DataShaped):
        return replace(release, jacobian=_in_units(release.jacobian, units))
    return _in_units(release, units)


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


def _check_readable(entries: Sequence[Json], rows: Rows, key: bytes, whole: bool) -> None:
    """Refuse rows that have changed since earlier releases: no table could be held against both, ever again.

    Where the ``whole`` ledger is read with these rows, they need all columns that it used.
    """
    for place, entry in enumerate(entries, start=1):
        missing = sorted(used_by(entry) - set(rows.table.names))
        if not missing:
            found_in(entry, rows, key, place)
        elif whole:
            raise InvalidInputError(
                f"Release {place} of the ledger used column '{missing[0]}', which this one leaves out: the ledger has to be "
                "held against both. Keep the column, or keep another ledger."
            )


def _rows_of(leakage: Leakage, ids: Any, label: tuple[float, float] | None, key: bytes) -> Rows:
    """The rows of a leakage, with labels in the table's own units."""
    centre, unit = (0.0, 1.0) if label is None else label
    y = np.asarray(host(leakage._information.rows[1]), dtype=np.float64)
    return Rows(leakage._table, centre + unit * y, id_digests(key, _ids(leakage._table, ids)))


def _with_choices(
    total: Leakage, entries: Sequence[Json], rows: Rows, key: bytes, units: Mapping[str, float]
) -> NDArray[np.float64]:
    """The etas of a composition of all entries, in given units, with what recorded choices told."""
    told = told_by_choices(entries, rows, key, total._notes, units)
    return np.sqrt(np.asarray(host(in_units(total, units).per_example())) ** 2 + told)


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


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _digest(content: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in content.items() if name != "digest"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _sealed(content: Json) -> str:
    return json.dumps({**content, "digest": _digest(content)}, allow_nan=False)
