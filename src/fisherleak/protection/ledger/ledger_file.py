"""The file of a ledger: what it must hold to be read, and how it is sealed.

Schema 2 adds to schema 1 the releases that were carried over from another ledger, digests of single values and of rows as they
are written in the table, marks of releases and where a ledger was carried to. Files of schema 1 are read, and become schema 2
when a release is added.

Also here: a confidential file that several processes may change at once: locked, replaced whole, for its owner's eyes
only.

Whoever changes it holds a lock on a file beside it, which the system gives back even if the process is killed. The new content
is written to another file, brought to the disk, and renamed over the old one: at every moment the file is one version or the
next, and a change is there for good once it was made. A symbolic link is the file that it points to; a file with a second name
(a hard link) is refused, since that name would keep the old version.

Also here: the fields of a ledger's file, in every version that was ever written, and what each may hold: the table
fits into none.

A record has its fields in one order, a digest is a digest, and a number is a number. What is left to choose are names of
columns and settings, which are the table's, and the digits of numbers.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import hmac
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fisherleak._support.atomic import NO_LEDGER, resolved
from fisherleak._support.json import nested_deeper
from fisherleak._support.namespaces import Json
from fisherleak.errors import DataError, FisherleakError, InvalidInputError

OWNER = 0o600


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """The lock of a file, waited for; nothing is left of it where the file was not made."""
    file = resolved(path)
    lock = file.with_name(f".{file.name}.lock")
    try:
        descriptor = _locked(lock, path)
    except OSError as error:
        raise _refusal(path, error) from None
    try:
        yield
    finally:
        if not file.exists():
            lock.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(lock: Path, path: Path) -> int:
    """The descriptor of a lock that is held, and that no one has taken away since it was opened."""
    try:
        import fcntl
    except ImportError:
        raise DataError(f"'{path}' cannot be locked on this system: a ledger needs POSIX locks.") from None
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, OWNER)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), lock.stat()):
                return descriptor
        os.close(descriptor)


def read_private(path: Path) -> str | None:
    """The text of a file that nobody but its owner may read; None where there is none yet."""
    try:
        if path.is_dir():
            raise DataError(f"'{path}' is a folder: name a file in it.")
        found = path.stat()
        mode = stat.S_IMODE(found.st_mode)
        if not stat.S_ISREG(found.st_mode):
            raise DataError(f"'{path}' is no regular file (a pipe or a device): name a file.")
        if mode & ~OWNER:
            raise DataError(
                f"'{path}' is confidential, and others than its owner may read or change it (mode {mode:o}): chmod 600 it."
            )
        if found.st_nlink > 1:
            raise DataError(
                f"'{path}' is one file under {found.st_nlink} names (hard links), and a change would reach this one alone: "
                "remove the others."
            )
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise DataError(f"'{path}' is damaged: it is no text. Restore it from a copy.") from None
    except DataError:
        raise
    except OSError as error:
        raise _refusal(path, error) from None


def replace_whole(path: Path, text: str) -> None:
    """Replace a file whose lock is held, or make it."""
    file = resolved(path)
    fresh = file.with_name(f".{file.name}.new")
    try:
        with contextlib.suppress(FileNotFoundError):  # of a process that was killed
            fresh.unlink()
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER)
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        fresh.replace(file)
        _settle(file.parent)
    except OSError as error:
        raise _refusal(path, error) from None


def _settle(folder: Path) -> None:
    """Bring a renaming to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refusal(path: Path, error: Any) -> DataError:
    return DataError(f"'{path}' cannot be read or written: {error.strerror}. Choose another place.")


Holds = Callable[[Any], bool]
LONGEST = 1_000
"""Characters of a name, a level or a setting."""
LONGEST_PATH = 4_096


def _text(form: str) -> Holds:
    pattern = re.compile(form)
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _each(holds: Holds) -> Holds:
    """A value that holds, or lists of them."""
    return lambda value: all(map(_each(holds), value)) if isinstance(value, list) else holds(value)


def _listed(holds: Holds) -> Holds:
    return lambda value: isinstance(value, list) and all(map(holds, value))


def _maybe(holds: Holds) -> Holds:
    return lambda value: value is None or holds(value)


def _one_of(*texts: str) -> Holds:
    return lambda value: isinstance(value, str) and value in texts


NUMBERS = _each(lambda value: value is None or isinstance(value, int | float))
WORDS = _each(lambda value: value is None or isinstance(value, int | float) or len(value) <= LONGEST)
"""Names, levels and settings: texts and numbers."""
DIGESTS, SEAL = _listed(_text("[0-9a-f]{16}")), _text("[0-9a-f]{64}")
TIME = _text(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
NOISE = _text(r"[A-Z]\w*\([^\n\r]{0,300}\)")
"""How a noise shows itself: its kind with the values of its parameters."""
SETTINGS = (
    *("target", "model", "l2", "held_out", "seed", "numbers", "categories", "drop", "id", "group", "person", "public"),
    *("levels", "rare", "decimal", "na", "unite", "keep_total", "intercept_l2", "missing", "bounds"),
)
"""All that a release of a table was ever decided by."""
ABOUT: Json = {"settings": dict.fromkeys(SETTINGS, WORDS)}
LABELS = dict.fromkeys(("classes", "centre", "unit", "several"), NUMBERS)
WRITTEN = dict.fromkeys(("values", "features", "loose_values", "loose_features"), DIGESTS)
CELLS, OTHER_IDS, UNITS = {"": _text("[0-9a-f]*")}, {"": DIGESTS}, {"": NUMBERS}
"""Of names of columns, or of digests of ids: an empty name stands for all of them."""
SPENT: Json = {"eta": _listed(NUMBERS), "units": UNITS}
CALIBRATION = dict.fromkeys(
    ("over", "eta", "bounds", "step", "offset", "probability", "shape", "least", "frame"), WORDS
)
MECHANISM: Json = {
    "kind": _one_of("Posterior", "ObjectivePerturbation"),
    **dict.fromkeys(("scale", "temperature", "shape"), NUMBERS),
    "calibrated": CALIBRATION,
}
KIND = _one_of("features", "number", "levels", "none")
COLUMN: Json = {
    **{"name": WORDS, "features": NUMBERS, "directions": NUMBERS, "sources": WORDS},
    **{"kind": KIND, "levels": WORDS, "matrix": NUMBERS},
}
KNOWN: Json = {"values": DIGESTS, "features": DIGESTS, "written": WRITTEN, "cells": CELLS, "eta": _listed(NUMBERS)}
"""What rows are known by, and what a release told of each."""
ENTRY: Json = {
    **{"at": TIME, "about": ABOUT, "what": NOISE},
    "loss": {"name": _text("[a-z_ -]{1,40}"), "delta": NUMBERS},
    "labels": LABELS,
    **dict.fromkeys(("theta", "intercept", "centre", "B"), NUMBERS),
    "mechanism": MECHANISM,
    **dict.fromkeys(("l2", "condition", "distance"), NUMBERS),
    "folding": dict.fromkeys(("slopes", "means", "weighted"), NUMBERS),
    **{"columns": [COLUMN], "offset": NUMBERS, "rows": DIGESTS, "weights": NUMBERS},
    **KNOWN,
    **{"choice": NUMBERS, "spent": SPENT, "other_ids": OTHER_IDS, "mark": SEAL},
}
CARRIED: Json = {
    **{"at": TIME, "what": NOISE, "about": ABOUT, "mark": SEAL, "labels": LABELS, "rows": DIGESTS},
    **KNOWN,
    **{"spent": SPENT, "other_ids": OTHER_IDS},
    **{"columns": [{"name": WORDS, "kind": KIND, "sources": WORDS}], "rest": SEAL},
}
CONTENT: Json = {
    **{"schema": WORDS, "confidential": WORDS, "key": SEAL, "carried": [CARRIED], "entries": [ENTRY]},
    **{"carried_to": _maybe(lambda value: isinstance(value, str) and len(value) <= LONGEST_PATH), "digest": SEAL},
}


def odd_field(content: Mapping[str, Any]) -> tuple[str, bool] | None:
    """A field that none has, or (True) that does not hold or stand where others do, by its name; None where there is none."""
    # 0.2.0 put the first of these before all others, and the second behind, where it added them to a file
    moved = {name: content[name] for name in ("carried", "carried_to") if name in content}
    rest = {name: value for name, value in content.items() if name not in moved}
    found = _odd(rest, CONTENT) or _odd(moved, CONTENT)
    every = (each for name in ("carried", "entries") for each in content.get(name, ()))
    return found or next(filter(None, map(_disordered, every)), None)


def _odd(found: Any, known: Any, name: str = "") -> tuple[str, bool] | None:
    """Of a record its fields, of a list its records, else whether it holds what it may; a record that is not there is fine."""
    if isinstance(known, list):
        inside = (_odd(each, known[0], name) for each in found) if isinstance(found, list) else iter([(name, True)])
        return next(filter(None, inside), None)
    if not isinstance(known, Mapping):
        return _unknown_in(found) or (None if _safely(known, found) else (name, True))
    if found is None and name != "":
        return None
    if not isinstance(found, Mapping):
        return name, True
    if "" in known:
        return next(filter(None, (_odd(value, known[""], own) for own, value in found.items())), None)
    strange = next((own for own in found if own not in known), None)
    if strange is not None:
        return str(strange), False
    if [*found] != [own for own in known if own in found]:
        return next(a for a, b in zip(found, (own for own in known if own in found), strict=True) if a != b), True
    return next(filter(None, (_odd(value, known[own], own) for own, value in found.items())), None)


def _safely(holds: Holds, value: Any) -> bool:
    try:
        return holds(value)
    except TypeError:  # the length of what has none
        return False


def _unknown_in(value: Any) -> tuple[str, bool] | None:
    """The first name of a record where there is none in any ledger."""
    if isinstance(value, Mapping):
        return next(iter(value), ""), False
    return next(filter(None, map(_unknown_in, value)), None) if isinstance(value, list) else None


def _disordered(entry: Mapping[str, Any]) -> tuple[str, bool] | None:
    """A field of an entry whose names or numbers are not one for each row, or column, in their order."""
    rows = entry.get("rows", [])
    columns = [column.get("name") for column in entry.get("columns", [])]
    ordered: tuple[tuple[str, Sequence[Any], Sequence[Any]], ...] = (
        ("cells", [*(entry.get("cells") or {})], sorted(entry.get("cells") or {}, key=lambda name: (name == "", name))),
        (
            "units",
            [*(units := (entry.get("spent") or {}).get("units") or {})],
            [*(c for c in [*columns, ""] if c in units)],
        ),
        ("other_ids", [*(others := entry.get("other_ids") or {})], [row for row in rows if row in others]),
    )
    wrong = next((name for name, found, order in ordered if list(found) != list(order)), None)
    wrong = wrong or next((name for name, count in _counts(entry) if count != len(rows)), None)
    return None if wrong is None else (wrong, True)


def _counts(entry: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """How many rows each field of an entry is about."""
    of_rows = {name: entry.get(name) for name in KNOWN}
    for own in (of_rows, entry.get("written") or {}, {"spent": (entry.get("spent") or {}).get("eta")}):
        for name, values in own.items():
            if isinstance(values, list):
                yield name, len(values)


SCHEMA = "fisherleak.ledger/2"
EARLIER = ("fisherleak.ledger/1",)
MOST_DEPTH = 60
MOST_SHOWN = 80
"""Characters of a field's name that are shown."""
CONFIDENTIAL = (
    "Confidential: this file holds parameters without noise and etas of single rows. It is for whoever holds the table, and no "
    "one else."
)


def new_content(key: str | None = None, carried: list[Json] | None = None) -> Json:
    """What a ledger holds before its first release."""
    return {
        "schema": SCHEMA,
        "confidential": CONFIDENTIAL,
        "key": secrets.token_hex(32) if key is None else key,
        "carried": carried or [],
        "entries": [],
    }


def read_content(path: Path, fresh: bool = False) -> Json:
    """What a ledger holds; refuses a damaged or foreign file, and one that is not there unless it may be ``fresh``."""
    text = read_private(path)
    if text is None:
        if not fresh:
            raise DataError(NO_LEDGER.format(path))
        return new_content()
    if nested_deeper(text, MOST_DEPTH):
        raise DataError(f"'{path}' is damaged: it has more than {MOST_DEPTH} levels. Restore it from a copy.")
    try:
        content = json.loads(text)
        digest = _digest(content) if isinstance(content, dict) else None
    except (ValueError, RecursionError):  # NaN
        raise DataError(f"'{path}' is damaged: it is not whole. Restore it from a copy.") from None
    if not isinstance(content, dict) or content.get("schema") not in (SCHEMA, *EARLIER):
        raise DataError(f"'{path}' is no ledger of this version of fisherleak: name another file.")
    if content.get("digest") != digest or not _is_ledger({"carried": [], **content}):
        raise DataError(f"'{path}' is damaged: its content is not what was recorded. Restore it from a copy.")
    if text != json.dumps(content):
        raise DataError(
            f"'{path}' is not laid out as ledgers are written, each key once and no other blanks: it may hold other data. "
            "Restore it from a copy."
        )
    odd = odd_field(content)
    if odd is not None:
        field, known = odd
        field = field[:MOST_SHOWN]
        told = (
            f"is damaged: its field '{field}' is not as ledgers are written, and may hold other data. Restore it from a copy."
            if known
            else f"has the field '{field}', which no ledger has: it may hold other data. Restore it from a copy, or use the "
            "version of fisherleak that wrote it."
        )
        raise DataError(f"'{path}' {told}")
    return {"carried": [], **content, "schema": SCHEMA}


@contextlib.contextmanager
def entries_of(path: Path) -> Iterator[None]:
    """Refuse a ledger of which an entry does not hold what entries do: its digest is right, and someone wrote into it."""
    try:
        yield
    except FisherleakError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise DataError(
            f"'{path}' is damaged: an entry does not hold what entries do. Restore it from a copy."
        ) from None


def _is_ledger(content: Json) -> bool:
    """Whether a file has a key, and lists of records."""
    key, lists = content.get("key"), (content["carried"], content.get("entries"))
    return (
        isinstance(key, str)
        and re.fullmatch("[0-9a-f]{64}", key) is not None
        and content.get("confidential") == CONFIDENTIAL
        and all(isinstance(each, list) and all(isinstance(record, dict) for record in each) for each in lists)
    )


def write_content(path: Path, content: Json) -> None:
    """Replace the file, whose lock is held."""
    replace_whole(path, json.dumps({**content, "digest": _digest(content)}, allow_nan=False))


def check_open(path: Path, content: Mapping[str, Any]) -> None:
    """Refuse to go on in a ledger whose totals another one started from: neither would count the other's releases."""
    if content.get("carried_to") is not None:
        raise InvalidInputError(
            f"'{path}' was carried to '{content['carried_to']}': record releases there. This file can be read, and no more."
        )


def records_of(content: Mapping[str, Any]) -> list[Json]:
    """All releases, in order: those that were carried over, and those of this ledger."""
    return [*content["carried"], *content["entries"]]


def key_of(content: Mapping[str, Any]) -> bytes:
    """What digests of this ledger are keyed with."""
    return bytes.fromhex(content["key"])


def mark_of(content: Mapping[str, Any], number: int, file_digest: str) -> str:
    """What ties a released file to its number on a ledger; without the ledger's key nobody can make one, or tell two apart."""
    return hmac.new(key_of(content), f"release {number}: {file_digest}".encode(), hashlib.sha256).hexdigest()


HALF = 32
"""Hexadecimal digits of a mark that are of number, file and card; the others are of what the ledger recorded too."""


def mark_with(content: Mapping[str, Any], number: int, marked: str, entry: str) -> str:
    """A mark that ties a file and its model card to their number, and to what the ledger recorded of them, by its digest.

    The first half tells whose release it is also where the ledger lacks the entry.
    """
    return mark_of(content, number, marked)[:HALF] + mark_of(content, number, f"{marked}, entry {entry}")[HALF:]


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _digest(content: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in content.items() if name != "digest"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, allow_nan=False).encode()).hexdigest()
