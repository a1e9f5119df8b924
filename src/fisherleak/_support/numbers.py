"""How numbers are written, on a terminal, in notebooks and in the report, whose ``assets/numbers.js`` writes them alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

NOTHING = "–"
MINUS = "−"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SMALLEST, LARGEST = 1e-3, 1e6
MOST_NAMED = 3
"""Columns that a sentence lists."""
CALLED = {"accuracy": "accuracy", "r2": "R²", "auc": "AUC", "log_loss": "log loss", "deviance": "deviance"}
"""What measures of utility are called in a sentence; others by their own names."""


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


def number_at_most(value: float) -> str:
    """The same rounded up, for a number that is an upper bound.

    Examples
    --------
    >>> number_at_most(0.28121), number_at_most(0.5), number_at_most(0.0)
    ('0.282', '0.5', '0')
    """
    return _towards(math.ceil, value, -1e-9)


def number_at_least(value: float) -> str:
    """The same rounded down, for a number that is a lower bound.

    Examples
    --------
    >>> number_at_least(1 / 0.3), number_at_least(2.0)
    ('3.33', '2')
    """
    return _towards(math.floor, value, 1e-9)


def _towards(rounded: Callable[[float], int], value: float, slack: float) -> str:
    """To three significant digits in one direction, but not by what rounding adds."""
    if not math.isfinite(value) or value <= 0:
        return number(value)
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return number(rounded(value / step + slack * value / step) * step)


def percent(part: float | None, chance: float | None = None) -> str:
    """A share in whole hundredths; with a decimal below 10 % and within five points of chance.

    Examples
    --------
    >>> percent(0.634, 0.5), percent(0.5312, 0.5), percent(0.0678), percent(None)
    ('63 %', '53.1 %', '6.8 %', '–')
    """
    if part is None or not math.isfinite(part):
        return NOTHING
    return f"{100 * part:.{_decimals(part, chance)}f} %".replace("-", MINUS)


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
    >>> share(0.1234), share(0.0678), share(0.99999), share(0.00001)
    ('12 %', '6.8 %', 'more than 99 %', 'below 0.1 %')
    """
    if part >= 0.995:
        return "more than 99 %"
    return percent(part) if part >= 0.0005 or part == 0 else "below 0.1 %"


def percent_at_most(part: float, chance: float | None = None) -> str:
    """The same rounded up, for a number that is an upper bound.

    Examples
    --------
    >>> percent_at_most(0.634, 0.5), percent_at_most(0.5312, 0.5), percent_at_most(0.0672), percent_at_most(0.1)
    ('64 %', '53.2 %', '6.8 %', '10 %')
    """
    decimals = _decimals(part, chance, below=0.099)
    steps = 100.0 * part * 10**decimals
    return f"{math.ceil(steps - 1e-9 * max(1.0, steps)) / 10**decimals:.{decimals}f} %"  # not by what rounding adds


def _decimals(part: float, chance: float | None, below: float = 0.0995) -> int:
    return 1 if abs(part) < below or (chance is not None and abs(part - chance) < 0.05) else 0


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


def two_digits(rows: int) -> int:
    """To two digits: the exact number tells whether someone is among them whose others are known.

    Examples
    --------
    >>> two_digits(442), two_digits(30162), two_digits(99)
    (440, 30000, 99)
    """
    return int(float(f"{rows:.1e}"))


def most_of_two_digits(rows: int) -> int:
    """The most rows of which this is the number to two digits.

    Examples
    --------
    >>> most_of_two_digits(440), most_of_two_digits(1000), most_of_two_digits(99)
    (445, 1050, 99)
    """
    return rows if rows < 100 else rows + 10 ** (len(str(rows)) - 2) // 2


def except_for(names: Sequence[str]) -> str:
    """What stands behind "number" where no share of some is known.

    Examples
    --------
    >>> except_for(["cost"]), except_for([])
    (' except cost', '')
    """
    if not names:
        return ""
    *first, last = names if len(names) <= MOST_NAMED else (*names[:MOST_NAMED], f"{len(names) - MOST_NAMED} more")
    return f" except {', '.join(first)} and {last}" if first else f" except {last}"


def measured(metric: str, value: float) -> str:
    """A utility with what it is called; accuracy is known by its unit.

    Examples
    --------
    >>> measured("auc", 0.8123), measured("accuracy", 0.83)
    ('AUC 0.812', '83 %')
    """
    return written(metric, value) if metric == "accuracy" else f"{CALLED.get(metric, metric)} {written(metric, value)}"


def written(metric: str, value: float) -> str:
    """The same without what it is called, beside one that says it."""
    return percent(value) if metric == "accuracy" else number(value)
