r"""Whether released parameters fit the `l2` of their card, or lie where a fit with another one puts them.

Whoever writes a card chooses its `l2`. A model without noise that was fitted with another `l2` lies away from the card's fit,
as if by noise; and etas at a larger `l2` are smaller. So the released parameters are compared with all fits along a grid of
penalties, joined by straight lines. Noise b around the card's fit is at least as far from any line as from one through that
fit, where :math:`|b|^2` loses one degree of freedom: of m lines none is nearer than the quantile :math:`p / m` with a
probability of at least 1 - p.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from fisherleak._support.numbers import number
from fisherleak.engine.noise import Noise
from fisherleak.errors import FisherleakError
from fisherleak.training.moved_parameters import moved_from_fit
from fisherleak.training.noise_words import NOTICED, UNALIKE, UNLIKELY, Distance, log_ratio, near_lines
from fisherleak.training.trained_model import Trained, with_penalty

__all__ = ["GRID", "OtherFits", "other_fits", "penalty_confirmed"]

GRID = tuple(10.0**power for power in range(-6, 5))
"""Penalties that fits are compared at: below and above these, fits move little."""
TOO_LARGE = 1.2
"""Times the largest eta: a likelier penalty with which it is this much larger refutes a card's."""
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class OtherFits:
    """How far released parameters are from fits with other penalties."""

    penalties: tuple[float, ...]
    away: tuple[Vector, ...]
    """From the fit with each of them, in the parameters that rows decide."""
    own: Vector
    """From the fit with the card's."""
    noise: Noise

    @cached_property
    def ratios(self) -> list[float]:
        """Logarithms of how many times as likely the parameters are from each of them as from the card's."""
        return [log_ratio(self.noise, self.own, self.noise, each) for each in self.away]

    @property
    def ratio(self) -> float:
        """The logarithm of their mean: as that of one of them it is above t with a probability of at most exp(-t)."""
        return float(np.logaddexp.reduce(self.ratios)) - math.log(len(self.ratios)) if self.ratios else -math.inf

    @property
    def likeliest(self) -> float:
        return self.penalties[int(np.argmax(self.ratios))]


def other_fits(trained: Trained, model: Pipeline, noise: Noise) -> OtherFits:
    """Fit the same rows with every penalty of the grid; those without a minimum are left out."""
    away, held = {}, bool(trained.fit.intercept_l2)
    for l2 in GRID:
        try:
            fit = with_penalty(trained, l2, l2 * held)
        except FisherleakError:
            continue
        away[l2] = moved_from_fit(fit, model, noise)[0]
    own, noise = moved_from_fit(trained, model, noise)
    return OtherFits(tuple(away), tuple(away.values()), own, noise)


def penalty_confirmed(
    name: str, l2: float, fits: OtherFits, eta: float, largest: Callable[[float], float | None]
) -> tuple[str, bool | None]:
    """Whether the `l2` of a card is that of its model, as far as the noise lets anyone tell.

    ``eta`` is the largest at the card's penalty; ``largest`` gives that at another one.
    """
    known = near_lines(fits.noise, fits.away)
    if known is not None and known.found < known.low:
        return (
            f"'{name}' lies {known.found:.2g} times as far from fits with `l2` of about {fits.likeliest:g} as noise of the "
            f"card's scale goes, and at least {known.low:.2g} times would be its work: it holds less noise than its card "
            f"claims, and was not fitted with `l2={l2:g}`. Do not pass it on.",
            False,
        )
    if fits.ratio > -math.log(UNALIKE):
        there = largest(fits.likeliest)
        if fits.ratio > -math.log(UNLIKELY) or (there is not None and there > TOO_LARGE * eta):
            return (
                f"The card of '{name}' says that `l2` is {l2:g}: with {fits.likeliest:g} its parameters are more than "
                f"{1 / (UNLIKELY if fits.ratio > -math.log(UNLIKELY) else UNALIKE):,.0f} times as likely, and its largest eta "
                f"is {'not known' if there is None else number(there)} in place of {number(eta)}. The card was changed.",
                False,
            )
    return _as_far_as_told(l2, fits, known, largest)


def _as_far_as_told(
    l2: float, fits: OtherFits, known: Distance | None, largest: Callable[[float], float | None]
) -> tuple[str, bool | None]:
    """Which other penalties the noise rules out, and which noise would have been noticed around any of them."""
    power = (
        "Whether noise was left out of a fit with another `l2` was not tested."
        if known is None
        else f"Noise below {known.notices_below:.2g} times the card's scale around a fit with any `l2` would be noticed, "
        f"{100 * NOTICED:g} % of the time."
    )
    left = [one for one, ratio in zip(fits.penalties, fits.ratios, strict=True) if not ratio < math.log(UNALIKE)]
    if not left:
        return f"The model was fitted with `l2={l2:g}`: others are less than {UNALIKE:g} times as likely. {power}", True
    there = largest(min(left)) if min(left) < l2 else None
    more = "" if there is None else f" Fitted with `l2={min(left):g}`, its largest eta would be {number(there)}."
    between = f"from {min(left):g} to {max(left):g}" if len(left) > 1 else f"of {left[0]:g}"
    return (
        f"That the model was fitted with `l2={l2:g}`, as the card says and as etas here take it: the noise hides the "
        f"difference from fits with `l2` {between}.{more} {power}",
        None,
    )
