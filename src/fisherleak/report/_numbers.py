"""How the report writes numbers; ``assets/numbers.js`` writes them alike."""

from __future__ import annotations

import math

__all__ = ["NOTHING", "number", "percent", "plus_minus"]

NOTHING = "–"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SMALLEST, LARGEST = 1e-3, 1e6


def number(value: float | None, digits: int = 3) -> str:
    """A number to some significant digits; counts are written whole.

    Examples
    --------
    >>> number(0.0512345), number(48213.7), number(12345), number(2.5e-9), number(None)
    ('0.0512', '48,200', '12,345', '2.5 × 10⁻⁹', '–')
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    if isinstance(value, int):
        return f"{value:,}"
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    rounded = float(f"{mantissa}e{exponent}")
    if SMALLEST <= abs(rounded) < LARGEST:
        return _stripped(f"{rounded:,.{max(0, digits - 1 - int(exponent))}f}")
    return f"{_stripped(mantissa)} × 10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def percent(value: float | None) -> str:
    """A share as a percentage with one decimal.

    Examples
    --------
    >>> percent(0.7387)
    '73.9 %'
    """
    return NOTHING if value is None or not math.isfinite(value) else f"{100 * value:.1f} %"


def plus_minus(value: float | None) -> str:
    """An error bound; none where nothing is revealed.

    Examples
    --------
    >>> plus_minus(3.14159), plus_minus(None)
    ('± 3.14', 'no limit')
    """
    return "no limit" if value is None or not math.isfinite(value) else f"± {number(value)}"


def _stripped(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
