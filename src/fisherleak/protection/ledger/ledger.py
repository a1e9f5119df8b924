r"""A ledger of what has been spent: every release about a table, in one file, composed exactly when it is asked.

Fisher information adds up (paper, section 3.1), so what all releases and answers so far tell about a row is
:math:`\sum_k J_k^T J_k`. The file keeps each release's share of that sum without any row (``ledger_entries``); a table, whose
rows are matched by id, completes it. Rows that came later are in no earlier release; those that left keep the etas they had.
Of releases that were carried over from another ledger only etas of whole rows are known, whose squares add up
(``carried_totals``).

Also here: releases that are recorded in a ledger, in one go with the check of a limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.atomic import resolved
from fisherleak._support.checks import check_positive
from fisherleak._support.level_types import in_own_unit
from fisherleak._support.namespaces import Json, TableLike, VectorLike
from fisherleak._support.notebook import Shown
from fisherleak._support.numbers import number
from fisherleak.engine.noise.calibration_record import publishable
from fisherleak.errors import DataError, FisherleakError, InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.models import as_table
from fisherleak.protection.frontier.counted_choice import CountedChoice
from fisherleak.protection.ledger.carried_totals import (
    carried_from,
    check_carried,
    check_composed,
    check_no_choices,
    entry_digest,
    eta_of_choice,
    etas_under,
    spent_record,
    total_squares,
)
from fisherleak.protection.ledger.known_rows import KnownRows, Rows, id_digests, recorded_target
from fisherleak.protection.ledger.ledger_entries import check_one_target, entry_of, recordable
from fisherleak.protection.ledger.ledger_file import (
    check_open,
    entries_of,
    held,
    key_of,
    mark_with,
    new_content,
    now,
    read_content,
    records_of,
    write_content,
)
from fisherleak.protection.ledger.spent_on_rows import (
    NONE,
    SpentOnRows,
    UnreadRows,
    Whose,
    check_people,
    held_against,
    ids_of_rows,
    known_to_releases,
    largest_people,
    names_of_unread,
    person_columns,
    whose_in,
)

MOST_NAMED = 5


class OverspentError(InvalidInputError):
    """A release would take someone past the limit; nothing was recorded."""


def record_release(
    path: Path,
    leakage: Leakage,
    ids: Any,
    label: tuple[float, float] | None,
    limit: float | None,
    units: Mapping[str, float] | None,
    about: Json | None = None,
    choice: float = 0.0,
    cells: Mapping[str, Sequence[Any]] | None = None,
    unread: UnreadRows = NONE,
    whose: Whose | None = None,
) -> int:
    """Record a release in one go with the check of a limit, in given units; ``cells`` as in :class:`Rows`.

    Rows of the table that are ``unread`` are compared with the limit as well. Once a release was by people, limits are on them,
    by what ``whose`` says, or the columns of the leakage's table.
    """
    limit = None if limit is None else check_positive(limit, "limit")
    recordable(leakage)
    whose = whose or whose_in(measurement(leakage).table)
    with held(path):
        content = read_content(path, fresh=True)
        check_open(path, content)
        rows = replace(_rows_of(leakage, ids, label, key_of(content)), cells=cells, target=recorded_target(about))
        whole = about is not None or limit is not None
        known = known_to_releases(path, content, rows, whole)
        if whole:
            check_people(path, [*records_of(content), {"about": about}], whose)
        entry = {"at": now(), "about": about, **entry_of(leakage, rows, key_of(content), label, choice)}
        check_one_target([*content["entries"], entry], len(content["carried"]) + 1)
        alone = SpentOnRows({**content, "carried": [], "entries": [entry]}, rows, KnownRows(()).and_these(rows.n))
        spent = _finite_etas(alone, units or {}, about)
        every = SpentOnRows({**content, "entries": [*content["entries"], entry]}, rows, known.and_these(rows.n))
        every.composed()  # what cannot be composed is refused before it is recorded
        before = SpentOnRows(content, rows, known, names_of_unread(unread, content, rows))
        if limit is not None and person_columns(records_of(every.content)):
            totals = largest_people(replace(every, unread=before.unread).by_people(whose, units or {}, about))
            _check_limit(np.array([*totals.values()]), limit, [*totals], "people")
        elif limit is not None:
            _check_limit(every.etas(units or {}, about), limit, ids_of_rows(measurement(leakage).table, ids), "rows")
            _check_unread(before.etas_unread(units or {}, about), limit, unread.ids)
        entry["spent"] = spent_record(spent, units or {})
        entry["other_ids"] = {own: sorted(names) for own, names in zip(rows.ids, known.other_ids, strict=True) if names}
        content["entries"].append(entry)
        write_content(path, content)
    return len(records_of(content))


def mark_release(path: Path, number: int, file_digest: str) -> Json:
    """Tie the file of a recorded release to its number and its entry; what its card says of that."""
    with held(path):
        content = read_content(path)
        place = number - len(content["carried"]) - 1
        if not 0 <= place < len(content["entries"]) or "mark" in content["entries"][place]:
            raise DataError(f"'{path}' was replaced while release {number} was written: release again.")
        entry = content["entries"][place]
        mark = entry["mark"] = mark_with(content, number, file_digest, entry_digest(entry))
        write_content(path, content)
    return {"release": number, "mark": mark}


def _rows_of(leakage: Leakage, ids: Any, label: tuple[float, float] | None, key: bytes) -> Rows:
    """The rows of a leakage, with labels in the table's own units."""
    centre, unit = (0.0, 1.0) if label is None else label
    y = np.asarray(host(measurement(leakage).information.rows[1]), dtype=np.float64)
    return Rows(
        measurement(leakage).table,
        in_own_unit(centre, unit, y),
        id_digests(key, ids_of_rows(measurement(leakage).table, ids)),
    )


def _finite_etas(alone: SpentOnRows, units: Mapping[str, float], about: Json | None) -> NDArray[np.float64]:
    """The etas of one release; refused where they are past the range of numbers."""
    try:
        etas = alone.etas(units, about)
    except FisherleakError:
        raise
    except (ValueError, ArithmeticError):  # of a decomposition
        etas = np.full(1, np.nan)
    if not np.isfinite(etas).all():
        raise InvalidInputError(
            "The etas of this release are past the range of numbers: no ledger records it. Use more noise."
        )
    return etas


def _check_limit(etas: NDArray[np.float64], limit: float, ids: Sequence[Any], what: str) -> None:
    if np.any(etas > limit):
        raise OverspentError(
            f"This release would take {np.sum(etas > limit)} of {len(ids)} {what} past the limit of {limit:g}, all releases in "
            f"the ledger counted: {_past(etas, limit, ids)}. Use more noise."
        )


def _check_unread(etas: NDArray[np.float64], limit: float, ids: Sequence[Any]) -> None:
    """Refuse a release that leaves out whoever is past the limit already."""
    if np.any(etas > limit):
        raise OverspentError(
            f"Rows that this release leaves out are above the limit of {limit:g} because of earlier "
            f"releases: {_past(etas, limit, ids)}. Raise `limit`, or take them out of the table."
        )


def _past(etas: NDArray[np.float64], limit: float, ids: Sequence[Any]) -> str:
    """Who is past a limit, the farthest first."""
    above = np.flatnonzero(etas > limit)
    order = above[np.argsort(-etas[above], kind="stable")]
    named = ", ".join(f"{ids[row]} (by {number(float(etas[row] - limit))})" for row in order[:MOST_NAMED])
    return named + (f" and {above.size - MOST_NAMED} more" if above.size > MOST_NAMED else "")


class Ledger(Shown):
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
    ``ids``; 7, "007" and 7.0 are one id, and rows of which none has a recorded id are refused. A row with the values
    of a recorded row whose id is not in the table counts as that row and carries its total, also where cells have another
    type (3, "3" and 3.0 are one). A table of which more than half are such rows is refused. A row whose values changed under
    its id is refused (``carry_to`` goes on from totals). A row whose id and a value both changed is not noticed. Several
    processes may add at once, and when ``add`` returns, the release is on the disk. An older copy that is put back is not
    noticed here:
    ``fisherleak verify MODEL --ledger FILE`` does, by the model card of a later release.

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

    def _shown(self) -> tuple[str, list[tuple[str, object]], str]:
        entries = self.entries if self.path.exists() else []
        pairs: list[tuple[str, object]] = [
            (
                f"{each['number']}",
                f"{each['about'] or each['what']}, {each['rows']:,} rows, largest eta {number(each['largest'])}",
            )
            for each in entries
        ]
        return f"Ledger of {len(entries)} releases", pairs, f"In {self.path}, confidential."

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
            releases counted. Where a release of ``fisherleak release --person`` is in the ledger, it is on people: the sum of
            the etas of their rows.
        choice : CountedChoice, optional
            From :meth:`fisherleak.Frontier.choose`, where the release is of the candidate that it drew: what the choice reveals
            is recorded too.

        Examples
        --------
        >>> ledger.add(leak, limit=0.1)  # a third release
        3

        Notes
        -----
        Noise whose covariance the rows decided is refused, since it reveals something too. A scale that was calibrated to the
        rows present reveals something about the row that decides it, which no sum counts: ``UncountedScaleWarning`` says so.
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
        check_composed(asked.beside({}, None), ids_of_rows(asked.rows.table, ids))
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
        their etas, in the units that they were added in. Where a release of ``fisherleak release --person`` is in the ledger,
        it is what one more release may have for every person, the sum of the etas of their rows, and needs a table with that
        column.

        Examples
        --------
        >>> round(ledger.remaining(0.1), 3)
        0.069
        """
        limit = check_positive(eta, "eta")
        records = records_of(read_content(self.path))
        if person_columns(records):
            whose = whose_in(None if X is None else as_table(X))
            check_people(self.path, records, whose)
            people = largest_people(held_against(self.path, X, y, ids).by_people(whose, {}, None))
            # sum of sqrt(o^2 + n^2) over the rows of a person <= sum of o + sum of n
            return max(limit - max(people.values()), 0.0)
        if X is not None:
            spent = float(np.max(self.etas(X, y, ids), initial=0.0))
        else:
            spent = math.sqrt(max(total_squares(records).values(), default=0.0))
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
        return etas_under(records_of(content), digest)

    @property
    def entries(self) -> list[Json]:
        """Of each release its number, time, words, what was said about it, number of rows and largest eta."""
        with entries_of(self.path):
            return _described(records_of(read_content(self.path)))

    def carry_to(self, path: str | Path) -> Ledger:
        """Start a new ledger from the totals of this one, for rows that were corrected, other ids or another target.

        The new ledger counts what each id has had here, as squares of etas, on the safe side: ``etas`` and ``remaining`` show
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
        # before its lock is taken: that of this ledger would be waited for without end
        if fresh.path.exists() or resolved(fresh.path) == resolved(self.path):
            raise InvalidInputError(f"'{fresh.path}' is there already: name a file that is not.")
        with held(self.path):
            content = read_content(self.path)
            if content.get("carried_to") != str(fresh.path):  # else this was begun before, and not ended
                check_open(self.path, content)
            with entries_of(self.path):  # before anything is written or closed
                carried = list(map(carried_from, records_of(content)))
                check_carried(carried)
                _described(carried)
            with held(fresh.path):
                if fresh.path.exists():
                    raise InvalidInputError(f"'{fresh.path}' is there already: name a file that is not.")
                # this one is closed first: whatever ends us in between, never are both open
                write_content(self.path, {**content, "carried_to": str(fresh.path)})
                write_content(fresh.path, new_content(content["key"], carried))
        return fresh


def _described(records: Sequence[Json]) -> list[Json]:
    """Of each release what ``Ledger.entries`` tells."""
    return [
        {
            "number": number,
            "at": entry["at"],
            "what": entry["what"],
            "about": entry["about"],
            "rows": len(entry["rows"]),
            "largest": max(entry["eta"], default=0.0),
        }
        for number, entry in enumerate(records, start=1)
    ]
