"""Rows of a table as a ledger knows them: by keyed digests of their ids and of their values."""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak.errors import InvalidInputError
from fisherleak.models import Table

__all__ = ["Rows", "found_in", "id_digests", "id_text", "numbers_of", "recorded_labels", "row_digests", "used_by"]

Vector = NDArray[np.float64]
LENGTH = 16
"""Hexadecimal digits of a digest: rows of one table are told apart."""
PLAIN_NUMBER = re.compile(r"([+-]?)0*(\d+)(?:\.(\d*?)0*)?", re.ASCII)


@dataclass(frozen=True)
class Rows:
    """A table at hand: its columns, labels as numbers, and the digest of every row's id."""

    table: Table
    y: Vector
    ids: tuple[str, ...]

    @property
    def n(self) -> int:
        return len(self.ids)


def numbers_of(y: Any, n: int) -> tuple[Vector, bool]:
    """Labels as numbers, and whether they are two classes; text is 0 and 1 in its order."""
    values = np.asarray(host(y) if hasattr(y, "detach") else y)
    if values.shape != (n,):
        raise InvalidInputError(f"y must have one value for each of the {n} rows of X; got shape {values.shape}.")
    kinds = np.unique(values.astype(str) if values.dtype == object else values)
    if values.dtype.kind in "fiu":
        return values.astype(np.float64), kinds.size == 2
    if kinds.size != 2:
        raise InvalidInputError(
            f"y must be numbers or two classes; got {kinds.size} different values that are no numbers."
        )
    return (values.astype(str) == kinds[1].astype(str)).astype(np.float64), True


def id_digests(key: bytes, ids: Sequence[Any]) -> tuple[str, ...]:
    """Keyed digests of the ids of rows."""
    return _digests(key, map(id_text, ids))


def id_text(value: Any) -> str:
    """An id as a ledger knows it, however a file wrote or a reader took it: 7, "007" and 7.0 are one id.

    One text among the numbers of a column makes them all text when it is read again; whoever was 7 is then "007".
    """
    own = value.item() if isinstance(value, np.generic) else value
    if isinstance(own, bool) or (isinstance(own, float) and own.is_integer()):
        own = int(own)
    text = unicodedata.normalize("NFC", str(own)).strip()
    number = PLAIN_NUMBER.fullmatch(text)
    if number is None:
        return f"{type(own).__name__}:{text}"
    sign, whole, part = number.groups()
    size = f"{whole}.{part}" if part else whole
    return f"-{size}" if sign == "-" and size != "0" else size


def _digests(key: bytes, texts: Iterable[str]) -> tuple[str, ...]:
    """Keyed digests of texts, which may hold anything."""
    return tuple(
        hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:LENGTH] for text in texts
    )


def _text(value: Any) -> str:
    own = value.item() if isinstance(value, np.generic) else value
    if isinstance(own, bool | int | float):
        return f"{float(own):.9g}"  # a table that is read again may differ in the last bits
    return f"{type(own).__name__}:{own}"


# From a release to its entry


def found_in(entry: Mapping[str, Any], rows: Rows, key: bytes, number: int) -> NDArray[np.int64]:
    """Where a recorded release had the rows of a table, -1 where it had not; rows that have changed since are refused."""
    there = {digest: k for k, digest in enumerate(entry["rows"])}
    places = np.array([there.get(digest, -1) for digest in rows.ids], dtype=np.int64)
    own = np.flatnonzero(places >= 0)
    now = row_digests(key, entry, rows, own)
    changed = [row for row, digest in zip(own.tolist(), now, strict=True) if digest != entry["values"][places[row]]]
    if len(changed) > 1 and len(changed) == own.size:
        raise InvalidInputError(
            f"All {own.size} rows that release {number} was about have another label or other values now: a ledger is of one "
            "table and one target. Keep one for each target; a row's eta over several is at most the root of the sum of "
            "squares."
        )
    if changed:
        raise InvalidInputError(
            f"Row {changed[0]} of X has other values than the row of that id had when release {number} was recorded: pass the "
            "rows as they were, or give changed rows an id of their own."
        )
    return places


def used_by(entry: Mapping[str, Any]) -> set[str]:
    """The columns of the table that a release used."""
    return {source for column in entry["columns"] for source in column["sources"] if column["kind"] != "none"}


def row_digests(key: bytes, entry: Mapping[str, Any], rows: Rows, own: NDArray[np.int64]) -> tuple[str, ...]:
    """Digests of what a release used of rows: their columns and their label."""
    values = [rows.table.named(source)[own].tolist() for source in sorted(used_by(entry))]
    labels = (rows.y if entry["labels"]["classes"] is None else recorded_labels(entry, rows))[own].tolist()
    return _digests(key, ("str:" + "\x1f".join(map(_text, row)) for row in zip(*values, labels, strict=True)))


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
