"""The file of a ledger: what it must hold to be read, and how it is sealed.

Schema 2 adds to schema 1 the releases that were carried over from another ledger, digests of single values, marks of releases
and where a ledger was carried to. Files of schema 1 are read, and become schema 2 when a release is added.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fisherleak._support.namespaces import Json
from fisherleak.errors import DataError, InvalidInputError
from fisherleak.protection.ledger.locked_file import read_private, replace_whole

__all__ = [
    "HALF",
    "check_open",
    "count_of",
    "key_of",
    "mark_of",
    "mark_with",
    "new_content",
    "now",
    "read_content",
    "write_content",
]

SCHEMA = "fisherleak.ledger/2"
EARLIER = ("fisherleak.ledger/1",)
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
            raise DataError(f"'{path}' does not exist: record a release in it first.")
        return new_content()
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"'{path}' is damaged: it is not whole. Restore it from a copy.") from None
    if not isinstance(content, dict) or content.get("schema") not in (SCHEMA, *EARLIER):
        raise DataError(f"'{path}' is no ledger of this version of fisherleak: name another file.")
    if content.get("digest") != _digest(content) or not _is_ledger({"carried": [], **content}):
        raise DataError(f"'{path}' is damaged: its content is not what was recorded. Restore it from a copy.")
    return {"carried": [], **content, "schema": SCHEMA}


def _is_ledger(content: Json) -> bool:
    """Whether a file has a key, and lists of records."""
    key, lists = content.get("key"), (content["carried"], content.get("entries"))
    return (
        isinstance(key, str)
        and re.fullmatch("[0-9a-f]{64}", key) is not None
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


def count_of(content: Mapping[str, Any]) -> int:
    """How many releases were recorded, those that were carried over among them."""
    return len(content["carried"]) + len(content["entries"])


def key_of(content: Mapping[str, Any]) -> bytes:
    """What digests of this ledger are keyed with."""
    return bytes.fromhex(content["key"])


def mark_of(content: Mapping[str, Any], number: int, file_digest: str) -> str:
    """What ties a released file to its number on a ledger; without the ledger's key nobody can make one, or tell two apart."""
    return hmac.new(key_of(content), f"release {number}: {file_digest}".encode(), hashlib.sha256).hexdigest()


HALF = 32
"""Hexadecimal digits of a mark that are of number, file and card; the others are of what the ledger recorded too."""


def mark_with(content: Mapping[str, Any], number: int, marked: str, entry: str) -> str:
    """A mark that ties a file and its card to their number, and to what the ledger recorded of them, by its digest.

    The first half tells whose release it is also where the ledger lacks the entry.
    """
    return mark_of(content, number, marked)[:HALF] + mark_of(content, number, f"{marked}, entry {entry}")[HALF:]


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _digest(content: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in content.items() if name != "digest"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, allow_nan=False).encode()).hexdigest()
