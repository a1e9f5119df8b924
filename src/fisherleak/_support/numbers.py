"""How numbers are written, on a terminal, in notebooks and in the report, whose ``assets/numbers.js`` writes them alike."""

from __future__ import annotations

import math

__all__ = ["NOTHING", "in_hundred", "number", "percent", "plus_minus", "points", "share", "signed_percent"]

NOTHING = "–"
MINUS = "−"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SMALLEST, LARGEST = 1e-3, 1e6


def number(value: float | None, digits: int = 3) -> str:
    """A number to some significant digits, with a true minus sign; counts are written whole.

    Examples
    --------
    >>> number(0.0512345), number(48213.7), number(12345), number(2.5e-9), number(-3.5), number(None)
    ('0.0512', '48,200', '12,345', '2.5 × 10⁻⁹', '−3.5', '–')
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    if isinstance(value, int):
        return f"{value:,}".replace("-", MINUS)
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    rounded = float(f"{mantissa}e{exponent}")
    if SMALLEST <= abs(rounded) < LARGEST:
        return _stripped(f"{rounded:,.{max(0, digits - 1 - int(exponent))}f}").replace("-", MINUS)
    return f"{_stripped(mantissa).replace('-', MINUS)} × 10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def percent(value: float | None) -> str:
    """A share as a percentage with one decimal.

    Examples
    --------
    >>> percent(0.7387)
    '73.9 %'
    """
    return NOTHING if value is None or not math.isfinite(value) else f"{100 * value:.1f} %".replace("-", MINUS)


def signed_percent(value: float | None) -> str:
    """A difference in hundredths of what it is compared with.

    Examples
    --------
    >>> signed_percent(0.123), signed_percent(-0.04), signed_percent(0.0001)
    ('+12 %', '−4 %', '0 %')
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    whole = round(100 * value)
    return "0 %" if whole == 0 else f"{whole:+,} %".replace("-", MINUS)


def share(part: float) -> str:
    """A share revealed in hundredths; never all of it.

    Examples
    --------
    >>> share(0.1234), share(0.99999), share(0.00001)
    ('12.3 %', 'more than 99.9 %', 'below 0.1 %')
    """
    if part >= 0.9995:
        return "more than 99.9 %"
    return f"{100 * part:.1f} %" if part >= 0.0005 or part == 0 else "below 0.1 %"


def in_hundred(part: float) -> str:
    """A share as a count of hundred; never 100 where it is not certain.

    Examples
    --------
    >>> in_hundred(0.634), in_hundred(0.9997)
    ('63', 'more than 99')
    """
    return f"{100 * part:.0f}" if part < 0.995 else "more than 99"


def points(value: float) -> str:
    """A difference of two shares in hundredths.

    Examples
    --------
    >>> points(0.026), points(-0.004)
    ('+2.6 points', '−0.4 points')
    """
    return f"{100 * value:+.1f} points".replace("-", MINUS)


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
