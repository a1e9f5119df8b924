"""How numbers are written: decimal points and commas, thousands, currencies, percent, and marks for what is missing.

A cell is read in one of two ways, with a point or with a comma as the decimal mark; which of them is meant is for its whole
column to say (``survey``). ``61.5%`` is 61.5, ``$5.00`` is 5 and ``(5.00)`` is -5.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping

__all__ = [
    "ALSO_CLASSES",
    "DECIMALS",
    "MARKS",
    "amounts_as_text",
    "are_codes",
    "cells_to_codes",
    "class_marks",
    "is_missing",
    "is_plain_number",
    "kind_of_cell",
    "may_be_plain",
    "money_of",
    "plain_values",
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
CODES = (
    "AED|ARS|AUD|BGN|BRL|CAD|CHF|CLP|CNY|COP|CZK|DKK|EUR|GBP|HKD|HUF|IDR|ILS|INR|ISK|JPY|KRW|MXN|MYR|NOK|NZD|PEN|PHP|PLN|RON|"
    "RUB|SAR|SEK|SGD|THB|TRY|TWD|UAH|USD|VND|ZAR|Fr\\.|SFr\\."
)
"""Currencies by their codes, and francs."""
MONEY = rf"(?:[{CURRENCY}]|(?:{CODES})(?![A-Za-z]))"
SIGNED = re.compile(
    rf"(?P<sign>[+-]?)(?:{MONEY})?\s*(?P<second>[+-]?)(?P<rest>[^A-Za-z]*?(?:[eE][+-]?\d+)?)(?P<thousand>[kK]?)\s*(?:{MONEY})?\s*"
    r"(?P<percent>%?)"
)
CODE = re.compile(r"[0-9]{2,}")
"""A cell of digits alone, in which a zero may come first."""
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
FEWEST_ALIKE = 5
"""Cells written in another way from which on they are no slips; with fewer none of them is named in a release."""
TRUTHS = {"true": True, "false": False}
WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
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


def plain_values(counts: Mapping[str, int]) -> dict[str, int | float | bool | None] | None:
    """What the cells of a column are where all are numbers, or all true or false, however some are written; None for texts.

    One cell must not make a column text, nor true and false: 1 with a no-break space, or in digits of another script, is 1,
    and so is TRUE among 0 and 1 where fewer than ``FEWEST_ALIKE`` rows have such words, as 1 is true among these.
    """
    bare = {text: _in_ascii_digits(text) for text in counts}
    truths = {text: TRUTHS[cell.casefold()] for text, cell in bare.items() if cell.casefold() in TRUTHS}
    rest = {text: cell for text, cell in bare.items() if text not in truths}
    words = sum(counts[text] for text in truths)
    if truths and all(cell.casefold() in MARKS - ALSO_CLASSES for cell in rest.values()):
        return {text: truths.get(text) for text in counts}
    if are_codes(rest.values()) or not all(cell.isascii() and PLAIN.fullmatch(cell) for cell in rest.values()):
        return None
    whole = all(WHOLE.fullmatch(cell) and -(2**63) <= int(cell) < 2**63 for cell in rest.values())
    numbers = {text: int(cell) if whole else float(cell) for text, cell in rest.items()}
    if not truths:
        return {**numbers}
    if not set(numbers.values()) <= {0, 1}:
        return None
    if words < FEWEST_ALIKE:
        return {text: int(truths.get(text, numbers.get(text, 0))) for text in counts}
    if sum(counts[text] for text in rest) < FEWEST_ALIKE:
        return {text: bool(truths.get(text, numbers.get(text, 0))) for text in counts}
    return None


def may_be_plain(text: str) -> bool:
    """Whether a cell may be one of those that ``plain_values`` takes; of a column that it takes all are."""
    bare = _in_ascii_digits(text)
    word = bare.casefold()
    return word in TRUTHS or word in MARKS - ALSO_CLASSES or (bare.isascii() and PLAIN.fullmatch(bare) is not None)


def _in_ascii_digits(text: str) -> str:
    return "".join(str(unicodedata.decimal(c, c)) for c in text.translate(SPACES).strip())


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
    size = float(digits) * (1000.0 if found["thousand"] else 1.0)
    return -size if negative or "-" in (found["sign"], found["second"]) else size


def money_of(text: str) -> str:
    """The sign or the name of the currency in a cell, nothing where it has none."""
    found = re.search(MONEY, text)
    return found[0] if found else ""


def are_codes(cells: Collection[str]) -> bool:
    """Whether all cells are digits alone, as many in each, of which some begin with a zero: 00017 is not 17."""
    bare = [cell.strip() for cell in cells]
    alike = len({len(cell) for cell in bare}) == 1
    return alike and any(cell.startswith("0") for cell in bare) and all(map(CODE.fullmatch, bare))


def cells_to_codes(counts: Mapping[str, int]) -> int | None:
    """Cells without which, at least, numbers would be codes; None where those left would be none."""
    bare = [(text.strip(), count) for text, count in counts.items()]
    alike = Counter[int]()
    for text, count in bare:
        if CODE.fullmatch(text):
            alike[len(text)] += count
    lengths = {len(text) for text, _ in bare if CODE.fullmatch(text) and text.startswith("0")}
    total = sum(counts.values())
    return min((total - alike[length] for length in lengths), default=None)


def style_of(text: str, decimal: str) -> tuple[str, ...]:
    """How a number differs from a plain one, in words."""
    text = text.translate(SPACES).strip()
    styles = []
    if decimal == "," and "," in text:
        styles.append("with decimal commas")
    if re.search(r"\d[. '’]\d{3}" if decimal == "," else r"\d[, '’]\d{3}", text):
        styles.append("with marks between thousands")
    money = money_of(text)
    if money:
        styles.append("with currency signs" if money in CURRENCY else "with names of currencies")
    if re.search(r"\d[kK](?![A-Za-z])", text):
        styles.append("with k for thousands")
    if text.endswith("%"):
        styles.append("in percent")
    if text.startswith("("):
        styles.append("with brackets for minus")
    return tuple(styles)


def amounts_as_text(texts: Collection[str]) -> str:
    """What most of many texts are where they are dates or amounts, and what makes numbers of them; nothing for other texts."""
    kinds = Counter(
        ("amount" if money_of(text) else "number")
        if read_number(text) is not None
        else ("amount" if AMOUNT.fullmatch(text) else kind_of_cell(text))
        for text in texts
    )
    amounts, most = kinds["number"] + kinds["amount"] + kinds["open-ended number"], ALMOST * len(texts)
    if texts and kinds["date"] >= most:
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
