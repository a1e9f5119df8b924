"""What releases told of rows that cannot be composed with the others: etas of whole rows, whose squares add up.

Mathematics: 7.6, ``docs/mathematics/noise.md``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.grids import rounded_up
from fisherleak._support.namespaces import Json, Vector
from fisherleak.errors import InvalidInputError
from fisherleak.protection.ledger.known_rows import KnownRows, Rows, names_before, recorded_target, used_by
from fisherleak.protection.ledger.ledger_entries import DIGITS, label_slope

CARRIED = (
    *("at", "what", "about", "mark", "labels", "rows", "values", "features", "written", "cells", "eta", "spent"),
    "other_ids",
)
"""Fields of an entry that stay when it is carried over."""
OF_COLUMNS = ("name", "kind", "sources")


REST = "rest"
"""Where an entry that was carried over has the digest of all that it had before."""


def carried_from(entry: Mapping[str, Any]) -> Json:
    """What stays of a release when a ledger is carried over: etas of rows, the digests that rows are known by, and one of
    all that was there.
    """
    return _kept(entry) | {REST: _rest(entry)}


def check_carried(records: Sequence[Json]) -> None:
    """Raise what ``entries_of`` refuses where releases do not hold the totals of their rows."""
    for entry in records:
        n, told = len(entry["rows"]), [entry["eta"], entry["spent"]["eta"] if "spent" in entry else entry["eta"]]
        label_slope(entry), used_by(entry), recorded_target(entry["about"]), largest_units([entry], {"": 1.0}, None)
        if any(len(etas) != n or not all(type(eta) in (int, float) for eta in etas) for etas in told):
            raise ValueError
        if not all(type(name) is str for name in entry["rows"]):
            raise ValueError


def _kept(entry: Mapping[str, Any]) -> Json:
    kept = {name: entry[name] for name in CARRIED if name in entry}
    return kept | {"columns": [{name: column[name] for name in OF_COLUMNS} for column in entry["columns"]]}


def _rest(entry: Mapping[str, Any]) -> str:
    """Of an entry that was carried over already, what it says."""
    return str(entry[REST]) if REST in entry else _digest_of(entry)


def _digest_of(entry: Mapping[str, Any]) -> str:
    own = {name: value for name, value in entry.items() if name != "mark"}
    return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()


def entry_digest(entry: Mapping[str, Any]) -> str:
    """What tells that an entry is as it was recorded; the same before and after it was carried over."""
    return hashlib.sha256(f"{_digest_of(_kept(entry))}, {_rest(entry)}".encode()).hexdigest()


def spent_record(etas: Vector, units: Mapping[str, float]) -> Json:
    """Etas of the rows of a release, never rounded down, and the units that they are in."""
    return {"eta": [rounded_up(eta, DIGITS) for eta in etas.tolist()], "units": dict(units)}


def squares_beside(
    carried: Sequence[Json],
    entries: Sequence[Json],
    rows: Rows,
    known: KnownRows,
    units: Mapping[str, float],
    about: Json | None,
) -> Vector:
    """(n,) sums of squares of the etas that are not part of the composition of ``ledger_entries``."""
    found = np.zeros(rows.n)
    names = [(own, *others) for own, others in zip(rows.ids, known.other_ids or [()] * rows.n, strict=True)]
    # section 7.6: the sum of eta_k^2 that is added to lambda_max(M)
    found += squares_by_names(carried, names, units, about)
    for entry, places in zip(entries, known.places, strict=True):
        found += _squares_in(entry, names, np.flatnonzero(places < 0), units, about)
    return found


def squares_by_names(
    records: Sequence[Json], names: Sequence[Collection[str]], units: Mapping[str, float], about: Json | None
) -> Vector:
    """(n,) sums of squares of the etas that releases had of rows, each known under some ids."""
    every = np.arange(len(names))
    return sum((_squares_in(entry, names, every, units, about) for entry in records), np.zeros(len(names)))


def largest_units(records: Sequence[Json], units: Mapping[str, float], about: Json | None) -> Mapping[str, float]:
    """Units of columns and of the label, none smaller than any release had it: no release makes a total smaller.

    Where totals are asked for per unit of every column, they stay so.
    """
    found = dict(units)
    for entry in records if units else ():
        same = recorded_target(entry["about"]) == recorded_target(about)
        for name, unit in entry.get("spent", {}).get("units", {}).items():
            if name or same:  # labels of two targets have no unit in common
                found[name] = max(float(unit), found.get(name, 0.0))
    return found


def _squares_in(
    entry: Json,
    names: Sequence[Collection[str]],
    some: NDArray[np.int64],
    units: Mapping[str, float],
    about: Json | None,
) -> Vector:
    """(n,) squares of the etas that some rows had in a release: the largest over their ids."""
    there = {digest: k for k, digest in enumerate(entry["rows"])}
    found, eta = np.zeros(len(names)), _spent_by(entry, units, about)
    for row in some.tolist():
        own = [there[name] for name in names[row] if name in there]
        if own:
            found[row] = float(np.max(eta[own])) ** 2
    return found


def _spent_by(entry: Json, units: Mapping[str, float], about: Json | None) -> Vector:
    """The etas of a release about its rows, at most, per so many units of columns and of the label (under an empty name)."""
    if "spent" in entry:
        eta, own = np.asarray(entry["spent"]["eta"], dtype=np.float64), entry["spent"]["units"]
    else:  # from before ledgers kept them: per unit of columns, and of the label as the release had it
        eta, own = max(1.0, abs(label_slope(entry))) * np.asarray(entry["eta"], dtype=np.float64), {}
    # the label of another target has no unit in common with that of this one
    names = used_by(entry) | ({""} if recorded_target(entry["about"]) == recorded_target(about) else set())
    # section 7.6: per other units an eta is at most the largest of their ratios times larger, one for what has no unit
    ratios = [units.get(name, 1.0) / own.get(name, 1.0) for name in names]
    return np.asarray(max([1.0, *ratios]) * eta)


def check_composed(beside: Vector, ids: Sequence[Any]) -> None:
    """Refuse to tell a leakage by columns where something is known of whole rows only."""
    if np.any(beside > 0):
        raise InvalidInputError(
            f"Row {ids[int(np.argmax(beside > 0))]!r} has totals that were carried over from another ledger or another id. "
            "They are not known by column: ask for etas of rows, Ledger.etas(X, y), or for what is left, "
            "Ledger.remaining(eta, X, y)."
        )


# Without a table: by the ids that rows were recorded under


def total_squares(records: Sequence[Json]) -> dict[str, float]:
    """Sums of squares of the etas of all rows ever recorded, by digest, in the units that they were added in."""
    found: dict[str, float] = {}
    for entry in records:
        for row, eta in zip(entry["rows"], entry["eta"], strict=True):
            found[row] = found.get(row, 0.0) + float(eta) ** 2
    renamed = {name for entry in records for name in entry.get("other_ids", ())}
    return found | {name: sum((eta or 0.0) ** 2 for eta in etas_under(records, name)) for name in renamed}


def etas_under(records: Sequence[Json], name: str) -> list[float | None]:
    """What each release had as the eta of one id, else of the ids that it was known by when it was added; None where none."""
    others = names_before(records, name)
    etas: list[float | None] = []
    for entry in records:
        there = dict(zip(entry["rows"], entry["eta"], strict=True))
        own = [there[name]] if name in there else [there[other] for other in others if other in there]
        etas.append(max(map(float, own)) if own else None)
    return etas


def eta_of_choice(choice: Any) -> float:
    """What a choice tells of anybody, at most; zero where there is none."""
    if choice is None:
        return 0.0
    told: float | None = getattr(choice, "eta_choice", None)
    if told is None:
        raise InvalidInputError(
            f"choice must be a counted one, from Frontier.choose; got {type(choice).__name__}. Leave it out only where the "
            "candidate was named beforehand, on other grounds than these rows."
        )
    return told


def disclosed_by_choices(
    entries: Sequence[Json],
    known: KnownRows,
    n: int,
    notes: Sequence[str],
    units: Mapping[str, float],
    first: int = 1,
) -> NDArray[np.float64]:
    """(n,) sums of squares of the etas of recorded choices about every row, in the units of the ledger or in given ones.

    ``first`` is the number of the first release on its ledger.
    ``notes`` are those of the composition: a category that releases encode differently is refused, as its unit is another.
    """
    found = np.zeros(n)
    for number, (entry, places) in enumerate(zip(entries, known.places, strict=True), first):
        if not entry.get("choice"):
            continue
        if notes:
            raise InvalidInputError(
                f"Release {number} of the ledger was chosen among candidates, and what that reveals is known only for "
                f"the encoding of that release ({notes[0]}): encode categories alike in all releases."
            )
        unit = max(1.0, abs(label_slope(entry))) * max([1.0, *units.values()])
        # section 7.6: lambda_max(M + eta_choice^2 I) = lambda_max(M) + eta_choice^2
        found[places >= 0] += (unit * float(entry["choice"])) ** 2
    return found


def check_no_choices(entries: Sequence[Json], first: int = 1) -> None:
    """Refuse to tell a leakage by columns where a choice told more that no column holds."""
    chosen = [number for number, entry in enumerate(entries, first) if entry.get("choice")]
    if chosen:
        raise InvalidInputError(
            f"Release {chosen[0]} of the ledger was chosen among candidates, and what the choice reveals is known for whole "
            "rows only: ask for etas of rows, Ledger.etas(X, y), or for what is left, Ledger.remaining(eta, X, y)."
        )
