"""What is proved of a loss beside its derivatives: what bounds, certificates and averages over draws rest on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from fisherleak._support.arrays import Array, namespace

__all__ = ["Derivative", "Traits", "no_slope"]

Derivative = Callable[[Array, Array], Array]


def no_slope(z: Array, y: Array) -> Array:
    """Of a second derivative that does not depend on a variable: zero, of the shape that z and y have together."""
    return namespace(z).zeros_like(z + y)


@dataclass(frozen=True)
class Traits:
    """How the derivatives of one loss behave, for every z and every label that it accepts.

    A loss from outside has none, and what needs one is refused by name.

    Parameters
    ----------
    of : tuple of callables
        value, r, a and c: the functions that all of this is true of.
    log_slope : float
        The logarithm of a changes with z by no more than this.
    peak : float
        The z at which a is largest; of a loss of z - y, that difference.
    at_zero : float
        a at no parameters, for a mean of one where it depends on the label: a public number.
    slope, slope_by_label : callable
        (z, y) -> array: the derivatives of a by z and by y.
    width : float, optional
        w of ``replacement.reduced_loss``: the first and second derivatives of a by z are at most sqrt(w) a and w a.
    largest : float
        a is never above it.
    steepest : float
        r is never further from zero.
    of_nothing : float
        The value of no model at all, z = 0, at most.
    by_difference : bool
        Whether all derivatives depend on z - y alone.
    by_label : bool
        Whether a depends on the label as r does: both are affine in it, and their product may be largest between its ends.
    drawn : bool
        Whether the value is minus the logarithm of a law of labels, without a further parameter, whose mean has the slope a:
        labels can be drawn from it, and tell a about z.
    """

    of: tuple[Derivative, Derivative, Derivative, Derivative]
    log_slope: float
    peak: float
    at_zero: float
    slope: Derivative
    slope_by_label: Derivative = no_slope
    width: float | None = None
    largest: float = math.inf
    steepest: float = math.inf
    of_nothing: float = math.inf
    by_difference: bool = False
    by_label: bool = False
    drawn: bool = False

    @property
    def unit(self) -> bool:
        """Whether a is one everywhere."""
        return self.log_slope == 0 and self.at_zero == 1
