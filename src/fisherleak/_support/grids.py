r"""Centres and scales of columns, where the noise of a release acts: what may be said of them beside it.

Declared bounds give both, and no row moves them. Else they come from the rows, on a public grid: a scale is the nearest power
of :math:`2^{1/4}`, so that it is within 9 % of the standard deviation, and a centre the nearest multiple of that scale.
Small changes of a value move neither; exact ones would give the last unknown value of a column away.
A row that moves one of them by a step is recognised by that (``leakage.membership_distance``).
"""

from __future__ import annotations

import math

GRID = 4
"""Scales are powers of two to one over this."""
GAP = 2.0**-1000
"""Stands in a feature for a cell that is missing and filled with the column's public centre, which is zero in its public units:
as good as zero in every sum, and no value that a cell has."""


def public_units(centre: float, scale: float) -> tuple[float, float]:
    """Centre and scale, each on the grid.

    Examples
    --------
    >>> public_units(51.3, 12.1)
    (56.568542494923804, 11.313708498984761)
    """
    # twelve digits first: the last ones depend on the order of sums, and must not decide a tie
    public = 2.0 ** (round(float(f"{GRID * math.log2(scale):.12g}")) / GRID)
    return public * round(float(f"{centre / public:.12g}")), public


def units_within(low: float, high: float) -> tuple[float, float]:
    r"""Centre and scale of a column that declared bounds give: :math:`(l + u) / 2` and :math:`(u - l) / \sqrt{12}`.

    The scale is the standard deviation of a number that lies anywhere between the bounds.

    Examples
    --------
    >>> centre, scale = units_within(0.0, 120.0)
    >>> centre, round(scale, 4)
    (60.0, 34.641)
    """
    return 0.5 * low + 0.5 * high, (high - low) / math.sqrt(12.0)


def rounded_up(value: float, digits: int = 3) -> float:
    """To some significant digits, never down.

    Examples
    --------
    >>> rounded_up(0.012301), rounded_up(1230.0), rounded_up(12301.0)
    (0.0124, 1230.0, 12400.0)
    """
    nearest = float(f"{value:.{digits - 1}e}")
    if nearest >= value:
        return nearest
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return float(f"{nearest + step:.{digits - 1}e}")
