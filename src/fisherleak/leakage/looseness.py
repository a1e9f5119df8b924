"""What a model's distance from its minimum does to eta: found by measuring at both places, never guessed from the distance.

Etas are those of the minimum, unless asked for as given: the derivative of the minimiser is what the theory speaks of, and
at parameters that are not a minimum the formula is the derivative of nothing.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

from fisherleak._support.arrays import Array, host, namespace
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.mechanisms.served import Disclosed
from fisherleak.engine.noise import Noise
from fisherleak.errors import LooseFitWarning
from fisherleak.models import Reading
from fisherleak.rows import sum_rows

__all__ = ["Looseness", "looseness_of"]

WRONG = 1.01
"""Factor on an eta that is reported as given past which it is called wrong."""
APART = 1.5
"""Factor between an eta at the minimum and as given past which a warning says so, though the one reported is right."""
COUNTED = 1e-6
"""Rows whose eta is below this part of the largest are not compared: their digits are rounding."""


@dataclass(frozen=True)
class Looseness:
    """Etas at the parameters as given held against those at the minimum.

    Parameters
    ----------
    distance : float
        How far the model stopped from its minimum.
    factor : float
        Largest ratio, either way, between the two etas of one row; 1 or more.
    given, exact : float
        Largest eta of a row as given and at the minimum.
    polished : bool
        Whether the etas that are reported are those at the minimum.
    """

    distance: float
    factor: float
    given: float
    exact: float
    polished: bool

    def note(self) -> str:
        """One line for a digest."""
        differ = f"etas as given differ by up to {_words(self.factor)}"
        return f"moved to its minimum; {differ}" if self.polished else f"as given; {differ} from those at its minimum"

    def warn(self, stacklevel: int) -> None:
        """Warn where it matters."""
        if self.factor <= (APART if self.polished else WRONG):
            return
        stopped = f"The model stopped at a distance of {self.distance:.1e} from its minimum"
        if self.polished:
            text = (
                f"{stopped} and was moved there: single etas change by up to {_words(self.factor)}, the largest from "
                f"{self.exact:.3g} at the minimum to {self.given:.3g} as given. Releasing it releases the parameters as given: "
                "fit with a smaller tol, so that they are those measured."
            )
        else:
            text = (
                f"{stopped}, and these etas are off by up to {_words(self.factor)}: the largest is {self.given:.3g} as given "
                f"and {self.exact:.3g} at the minimum. Leave polish=False out, or fit with a smaller tol."
            )
        warnings.warn(text, LooseFitWarning, stacklevel=stacklevel + 1)


def looseness_of(reading: Reading, other_fit: Fit, noise: Noise | Disclosed, scale: float) -> Looseness:
    """The etas of a reading beside those of another fit of it."""
    own, other = (_etas(replace(reading, fit=fit), noise) for fit in (reading.fit, other_fit))
    largest = tuple(float(x) for x in host(_join_max(_largest, own, other)))
    least = COUNTED * max(largest)
    (factor,) = (float(x) for x in host(_join_max(_Ratio(least), own, other)))
    exact, given = largest if reading.polished else largest[::-1]
    return Looseness(reading.fit.distance, factor, given / scale, exact / scale, reading.polished)


def _etas(reading: Reading, noise: Noise | Disclosed) -> Array:
    return reading.information(noise).example_norms(reading.attributes, True)


def _join_max(function: Any, *arrays: Array) -> Array:
    (found,) = sum_rows(function, *arrays, join=lambda a, b: (namespace(a[0]).maximum(a[0], b[0]),))
    return found


def _largest(own: Array, other: Array) -> tuple[Array]:
    xp = namespace(own)
    return (xp.stack([xp.max(own), xp.max(other)]),)


@dataclass(frozen=True)
class _Ratio:
    least: float

    def __call__(self, own: Array, other: Array) -> tuple[Array]:
        xp = namespace(own)
        high, low = xp.maximum(own, other), xp.minimum(own, other)
        ratios = xp.where(high > self.least, high / xp.where(low > 0, low, high), 1.0)
        return (xp.reshape(xp.max(ratios), (1,)),)


def _words(factor: float) -> str:
    return f"{100 * (factor - 1):.2g} %" if factor < 1.5 else f"a factor of {factor:.2g}"
