"""How numbers are written: decimal points and commas, thousands, currencies, percent, and marks for what is missing.

A cell is read in one of two ways, with a point or with a comma as the decimal mark; which of them is meant is for its whole
column to say (``survey``). ``61.5%`` is 61.5, ``$5.00`` is 5 and ``(5.00)`` is -5.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection

__all__ = [
    "DECIMALS",
    "amounts_as_text",
    "class_marks",
    "is_missing",
    "is_plain_number",
    "kind_of_cell",
    "read_number",
    "style_of",
]

DECIMALS = (".", ",")
MARKS = {
    *("", ".", "..", "...", "?", "??", "???", "-", "--", "---", "*", "**", "***", "–", "—", "…", "(missing)", "(null)"),
    *(
        "unknown",
        "unk",
        "missing",
        "n/a",
        "n.a.",
        "n.a",
        "na",
        "#n/a",
        "nan",
        "null",
        "none",
        "nil",
        "<na>",
        "n.d.",
        "nd",
    ),
    *("not available", "not known", "not reported", "no data", "no answer", "not applicable"),
    *("#value!", "#div/0!", "#ref!", "#num!", "#name?", "#null!"),
}
"""What stands for a missing value among numbers, in small letters."""
ALSO_CLASSES = {"none", "nil", "nd", "n.d.", "no answer", "not applicable"}
"""Those that are classes of their own where classes are words."""
CURRENCY = "$€£¥₹"
SIGNED = re.compile(rf"(?P<sign>[+-]?)[{CURRENCY}]?\s*(?P<second>[+-]?)(?P<rest>.*?)\s*[{CURRENCY}]?\s*(?P<percent>%?)")
PLAIN = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf(?:inity)?", re.IGNORECASE)
BODY = {
    ".": re.compile(
        r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[1-9]\d{0,2}(?:(?P<mark>[, '’])\d{3})(?:(?P=mark)\d{3})*(?:\.\d*)?"
    ),
    ",": re.compile(
        r"(?:\d+,?\d*|,\d+)(?:[eE][+-]?\d+)?|[1-9]\d{0,2}(?:(?P<mark>[. '’])\d{3})(?:(?P=mark)\d{3})*(?:,\d*)?"
    ),
}
AMOUNT = re.compile(r"\s*[<>≤≥~±]?=?\s*[+-]?\d[\d.,]*\s*[^\W\d_][^\d\s]{0,7}\s*")
"""A number with a unit."""
ALMOST = 0.9
"""Part of many cells that have to be alike, numbers say, for all of them to count as such."""
SPACES = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2212": "-"})


def is_missing(text: str) -> bool:
    """Whether a cell among numbers stands for a missing one."""
    return text.strip().casefold() in MARKS


def class_marks(levels: Collection[str]) -> frozenset[str]:
    """Which texts of a target stand for missing ones; none where fewer than two classes would be left, and no - beside a +."""
    signs = {"-", "–", "—"} if any(level.strip() == "+" for level in levels) else set()
    words = ((level, level.strip().casefold()) for level in levels)
    marks = frozenset(level for level, word in words if word in MARKS - ALSO_CLASSES and word not in signs)
    return marks if len(levels) - len(marks) > 1 else frozenset(mark for mark in marks if not mark.strip())


def is_plain_number(text: str) -> bool:
    """Whether a cell is a number as programs write them."""
    return PLAIN.fullmatch(text.strip()) is not None


def read_number(text: str, decimal: str = ".") -> float | None:
    """The number that a cell holds, None where it holds none."""
    text = text.translate(SPACES).strip()
    if PLAIN.fullmatch(text) and (decimal == "." or "." not in text):
        return float(text)
    negative = text.startswith("(") and text.endswith(")")
    found = SIGNED.fullmatch(text[1:-1].strip() if negative else text)
    if found is None or (found["sign"] and found["second"]) or not BODY[decimal].fullmatch(found["rest"]):
        return None
    other = "." if decimal == "," else ","
    digits = found["rest"].replace(other, "").replace(" ", "").replace("'", "").replace("’", "").replace(",", ".")
    size = float(digits)
    return -size if negative or "-" in (found["sign"], found["second"]) else size


def style_of(text: str, decimal: str) -> tuple[str, ...]:
    """How a number differs from a plain one, in words."""
    text = text.translate(SPACES).strip()
    styles = []
    if decimal == "," and "," in text:
        styles.append("with decimal commas")
    if re.search(r"\d[. '’]\d{3}" if decimal == "," else r"\d[, '’]\d{3}", text):
        styles.append("with marks between thousands")
    if any(mark in text for mark in CURRENCY):
        styles.append("with currency signs")
    if text.endswith("%"):
        styles.append("in percent")
    if text.startswith("("):
        styles.append("with brackets for minus")
    return tuple(styles)


def amounts_as_text(texts: Collection[str]) -> str:
    """What most of many texts are where they are dates or amounts, and what makes numbers of them; nothing for other texts."""
    kinds = Counter(
        "number" if read_number(text) is not None else "amount" if AMOUNT.fullmatch(text) else kind_of_cell(text)
        for text in texts
    )
    amounts, most = kinds["number"] + kinds["amount"] + kinds["open-ended number"], ALMOST * len(texts)
    if kinds["date"] >= most:
        return "are dates: make them numbers (days, or years) to use them"
    if amounts < most or amounts == kinds["number"]:
        return ""
    others = (
        "; `numbers` takes what is a number, and the others as missing" if 2 * kinds["number"] >= len(texts) else ""
    )
    return f"are numbers with units or other signs beside them: write the numbers alone to use them{others}"


def kind_of_cell(text: str) -> str:
    """What a cell that is no number looks like, without a word of it."""
    digits, letters = any(c.isdigit() for c in text), any(c.isalpha() for c in text)
    if re.fullmatch(r"\s*[<>≤≥]=?\s*[\d.,]+\s*|\s*[\d.,]+\s*\+\s*", text):
        return "open-ended number"
    if re.fullmatch(r"\s*\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*", text):
        return "date"
    if digits and letters:
        return "digits and letters"
    return "digits and signs" if digits else "text" if letters else "signs"
