"""How often an attack was right, with an interval and the baseline of a guesser who knows the prior alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fisherleak._support.arrays import Array
from fisherleak.rows.summary import digest

__all__ = ["Outcome", "outcome_of"]

Vector = NDArray[np.float64]
Z = float(ndtri(0.975))


@dataclass(frozen=True)
class Outcome:
    """Accuracy of an attack.

    Attributes
    ----------
    attacker, attribute : str
    accuracy : float
        Part of the rows guessed right: observed, or expected over the noise.
    low, high : float
        95 % interval (Wilson's) for the accuracy over all training rows, of which the attacked ones are a sample, the model
        held fixed. Where several releases or a noise were attacked, it is the mean over draws of the noise that the interval
        is for. All rows share the draw of a release: a single one deviates from that mean by about ``sd``.
    baseline : float
        Accuracy on the same rows of always guessing the most probable value.
    sd : float or None
        Standard deviation of the accuracy from release to release; None where a single one was attacked.
    n : int
        Rows attacked.
    trials : int or None
        Released models that were attacked; None where the accuracy is an exact expectation (``sd`` is simulated).
    """

    attacker: str
    attribute: str
    accuracy: float
    low: float
    high: float
    baseline: float
    sd: float | None
    n: int
    trials: int | None

    def __str__(self) -> str:
        varies = "" if self.sd is None else f", ± {self.sd:.1%} from release to release"
        return (
            f"{self.attacker} on {self.attribute}: {self.accuracy:.1%} right "
            f"(95 % interval {self.low:.1%} to {self.high:.1%}{varies}); the prior alone: {self.baseline:.1%}"
        )


def outcome_of(
    attacker: str, attribute: str, by_row: Array, by_trial: Vector | None, baseline: float, exact: bool = False
) -> Outcome:
    """An outcome from the mean accuracy of each row and, for several releases, of each release.

    The variance of the mean is that over rows plus that over releases; Wilson's interval is taken for the number of
    independent guesses with the same variance.
    """
    n = by_row.shape[0]
    rows = digest(by_row)
    mean = rows.mean
    variance = 0.25 if rows.sd is None else rows.sd**2 / n
    sd = float(by_trial.std(ddof=1)) if by_trial is not None and by_trial.shape[0] > 1 else None
    if by_trial is not None and sd is not None and not exact:
        variance += sd**2 / by_trial.shape[0]
    guesses = mean * (1.0 - mean) / variance if variance > 0 and 0.0 < mean < 1.0 else float(n)
    low, high = _wilson(mean, guesses)
    trials = None if exact else 1 if by_trial is None else int(by_trial.shape[0])
    return Outcome(attacker, attribute, mean, low, high, baseline, sd, n, trials)


def _wilson(part: float, count: float) -> tuple[float, float]:
    centre = (part + Z**2 / (2 * count)) / (1 + Z**2 / count)
    half = Z / (1 + Z**2 / count) * math.sqrt(part * (1 - part) / count + Z**2 / (4 * count**2))
    return max(0.0, min(centre - half, part)), min(1.0, max(centre + half, part))
