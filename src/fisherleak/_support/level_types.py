"""Types of levels that leave: they follow from these levels alone, not from the column that they were found in.

A column takes the type that holds all of its cells: one fraction or gap among whole numbers makes them floats, one text makes
them text. Such a type, passed on, would tell of that cell even where its own level is not named.
"""

from __future__ import annotations

import math
import numbers
import re
import unicodedata
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak.errors import InvalidInputError

EXACT = 2**53
"""Whole numbers below it are exact as floats."""
PLAIN_NUMBER = re.compile(r"([+-]?)0*(\d+)(?:\.(\d*?)0*)?", re.ASCII)
CELL_NUMBER = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:e[+-]?\d+)?", re.ASCII)
TRUTHS = {"true": "1", "false": "0"}
NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def plain_level(level: Any) -> Any:
    """A level as Python has it; a whole number is an int, however it was stored.

    Examples
    --------
    >>> [plain_level(level) for level in (2.0, 2.5, True, "2")]
    [2, 2.5, True, '2']
    """
    level = level.item() if isinstance(level, np.generic) else level
    return int(level) if isinstance(level, float) and level.is_integer() else level


def typed_levels(levels: Iterable[Any]) -> NDArray[Any]:
    """Levels as an array: truth values, whole numbers or numbers where all are; objects else, of no common width.

    Examples
    --------
    >>> typed_levels(np.array([1.0, 2.0])).dtype.kind, typed_levels(np.array(["a", "b"], dtype="<U90")).dtype.kind
    ('i', 'O')
    """
    plain = [plain_level(level) for level in levels]
    if plain and all(isinstance(level, bool) for level in plain):
        return np.array(plain, dtype=bool)
    if plain and all(isinstance(level, numbers.Real) and not isinstance(level, bool) for level in plain):
        if all(isinstance(level, int) and -(2**63) <= level < 2**63 for level in plain):
            return np.array(plain, dtype=np.int64)
        if all(not isinstance(level, int) or int(float(level)) == level for level in plain):
            return np.array(plain, dtype=np.float64)  # others would be one as floats
    made = np.empty(len(plain), dtype=object)
    made[:] = plain
    return made


def as_number(level: Any) -> Any:
    """A level, and as a number where it is the text of one exactly as Python writes it: ``"2"`` is 2, ``"02"`` stays text.

    Examples
    --------
    >>> [as_number(level) for level in ("2", "2.5", "02", "2.0", "nan", "x")]
    [2, 2.5, '02', '2.0', 'nan', 'x']
    """
    level = plain_level(level)
    if not isinstance(level, str):
        return level
    try:
        number = int(level) if level.lstrip("-").isdigit() else float(level)
    except ValueError:
        return level
    return plain_level(number) if math.isfinite(number) and str(plain_level(number)) == level else level


def numeric_levels(levels: Iterable[Any]) -> NDArray[Any] | None:
    """Levels as numbers, where each is one that a float holds exactly, or its text; None for all others.

    Examples
    --------
    >>> numeric_levels(["2", "10"]), numeric_levels(["2", "x"])
    (array([ 2, 10]), None)
    """
    found = typed_levels(as_number(level) for level in levels)
    return found if found.dtype.kind in "bif" and bool((np.abs(found) < EXACT).all()) else None


def id_text(value: Any) -> str:
    """An id as a ledger and `person` know it, however a file wrote or a reader took it: 7, "007" and 7.0 are one id.

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


def check_ids_exact(what: str, ids: Iterable[Any]) -> None:
    """Refuse ids that their column's type rounds: one with a fraction, or beyond 64 bits, makes all of them floats."""
    if any(isinstance(each, float | np.floating) and EXACT <= abs(float(each)) < math.inf for each in ids):
        raise InvalidInputError(
            f"{what} holds numbers of 16 digits or more, and is read with 15 digits: as ids some would be one. Write them "
            "as text, with a letter before each."
        )


def check_ids_apart(what: str, texts: Iterable[str]) -> None:
    """Refuse ids that are two texts and one number: 1.1 and 1.10 may be two people."""
    known: dict[str, str] = {}
    for text in texts:
        own, number = text.strip(), id_text(text)
        if "." in number and not number.startswith("str:") and known.setdefault(number, own) != own:
            raise InvalidInputError(
                f"{what} holds ids that are different as text and the same as numbers, as 1.1 and 1.10 are. Write them as "
                "text, with a letter before each, or in one way for each person."
            )


def cell_text(value: Any, loosely: bool = False) -> str:
    """A cell of a table in one spelling, however its column was read: 3, "3", "03", 3.0 and " 3 " are one; empty if missing.

    Other cells of the column decide whether it is numbers, truth values or text. Numbers have nine digits, as a table that is
    read again may differ in the last bits; texts that differ in case or blanks only are one. Loosely, letters that are not
    ASCII, which another encoding makes others, are one mark.

    Examples
    --------
    >>> [cell_text(value) for value in (3, "3.0", "3,50", -0.0, True, "FALSE", " Ulm", None, float("nan"))]
    ['3', '3', '3.5', '0', '1', '0', '=ulm', '', '']
    """
    own = value if isinstance(value, np.floating) else value.item() if isinstance(value, np.generic) else value
    if own is None or (isinstance(own, float | np.floating) and own != own):
        return ""
    if isinstance(own, float) and math.isfinite(own):  # as below, and quickly
        return f"{own + 0.0:.9g}"
    if isinstance(own, bytes):
        own = own.decode("utf-8", "surrogateescape")
    if loosely and isinstance(own, str):
        own = NOT_ASCII.sub("?", own)
    text = str(int(own) if isinstance(own, bool) else own)
    text = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    text = TRUTHS.get(text, "" if text in ("nat", "<na>") and not isinstance(own, str) else text)
    if CELL_NUMBER.fullmatch(text):
        return f"{float(text.replace(',', '.')) + 0.0:.9g}"
    return f"={text}" if text else ""


def in_own_unit(centre: float, unit: float, y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centre + unit y as it was written: the number of fewest decimals that rounding allows, whatever the centre and unit are.

    Examples
    --------
    >>> in_own_unit(-24.5, 158.5, (np.array([0.0, 0.1]) + 24.5) / 158.5).tolist()
    [0.0, 0.1]
    """
    found = centre + unit * np.asarray(y, dtype=np.float64)
    # what a difference, a quotient, a product and a sum round by
    off = 8.0 * np.finfo(float).eps * (abs(centre) + np.abs(unit * y))
    shortest, open_ = found.copy(), np.isfinite(found)
    for decimals in range(-3, 13):
        rounded = np.round(found, decimals)
        near = open_ & (np.abs(rounded - found) <= off)
        shortest[near] = rounded[near] + 0.0  # no negative zero
        open_ &= ~near
    return shortest
