"""Ids of rows and people in one form, however a file wrote them."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import numpy as np

__all__ = ["id_text"]

PLAIN_NUMBER = re.compile(r"([+-]?)0*(\d+)(?:\.(\d*?)0*)?", re.ASCII)


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
