"""How often an attack was right, with an interval and the baseline of a guesser who knows the prior alone.

Mathematics: 9.5, ``docs/mathematics/attacks.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from fisherleak._support.arrays import Array, namespace
from fisherleak.rows.summary import digest

__all__ = ["Outcome", "outcome_of"]

Vector = NDArray[np.float64]
LEVEL = 0.975
OFTEN = 0.9
"""Rows that are guessed right at least this often count as found."""
CORRELATED = 0.1
"""Between the guesses of a release at least: what simulated attacks have at most, but for a few."""
FEW_RELEASES = 5
"""Releases up to which all rows may have been guessed right or wrong together, for all that they say."""


@dataclass(frozen=True)
class Outcome:
    """Accuracy of an attack.

    Attributes
    ----------
    attacker, attribute : str
    accuracy : float
        Part of the rows guessed right: observed, or expected over the noise.
    low, high : float
        95 % interval for the accuracy over all training rows, of which the attacked ones are a sample, the model
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
    worst, q95, median : float or None
        Of the attacked rows, how often the one that is guessed right most often is, one in twenty and the one in the middle;
        over several releases only, and for attackers who see one.
    found : int or None
        Rows that are guessed right nine times in ten or more.
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
    worst: float | None = None
    q95: float | None = None
    median: float | None = None
    found: int | None = None

    def __str__(self) -> str:
        varies = "" if self.sd is None else f", ± {self.sd:.1%} from release to release"
        return (
            f"{self.attacker} on {self.attribute}: {self.accuracy:.1%} right "
            f"(95 % interval {self.low:.1%} to {self.high:.1%}{varies}); the prior alone: {self.baseline:.1%}"
        )


def outcome_of(
    attacker: str,
    attribute: str,
    by_row: Array,
    by_trial: Vector | None,
    baseline: float,
    exact: bool = False,
    sees_model: bool = True,
) -> Outcome:
    """An outcome from the mean accuracy of each row and, for several releases, of each release."""
    n = by_row.shape[0]
    rows = digest(by_row)
    several = by_trial is not None and by_trial.shape[0] > 1
    sd = float(by_trial.std(ddof=1)) if by_trial is not None and several else None
    drawn = None if by_trial is None or sd is None or exact else (sd, int(by_trial.shape[0]))
    low, high = _interval(rows.mean, rows.sd or 0.0, n, drawn)
    trials = None if exact else 1 if by_trial is None else int(by_trial.shape[0])
    people = _people(by_row) if sees_model and (exact or several) else (None, None, None, None)
    return Outcome(attacker, attribute, rows.mean, low, high, baseline, sd, n, trials, *people)


def _people(by_row: Array) -> tuple[float, float, float, int]:
    """The row that is guessed right most often, one in twenty, the one in the middle, and rows that are found out."""
    xp = namespace(by_row)
    right, last = xp.sort(by_row), int(by_row.shape[0]) - 1  # where the rows are: single numbers leave
    found = int(xp.sum(xp.astype(by_row >= OFTEN, xp.int64)))

    def quantile(part: float) -> float:
        low = math.floor(part * last)
        below, above = float(right[low]), float(right[min(low + 1, last)])
        return below + (part * last - low) * (above - below)

    return float(right[last]), quantile(0.95), quantile(0.5), found


def _interval(mean: float, sd: float, n: int, releases: tuple[float, int] | None) -> tuple[float, float]:
    """From the mean, its spread over n rows, and the spread over T releases where these were drawn."""
    # section 9.5: p~ and the sum of squares about it, of the rows and two more, one right and one wrong
    middle = (n * mean + 1.0) / (n + 2)
    squares = (n - 1) * sd**2 + n * (mean - middle) ** 2 + middle**2 + (1.0 - middle) ** 2
    # t_{n+1}^2 A
    width = _student(n + 1) ** 2 * squares / (n + 1) / (n + 2)
    binary = middle * (1.0 - middle)
    if releases is not None:
        spread, count = releases
        together = 1.0 if count <= FEW_RELEASES else CORRELATED
        # the larger of t_{T-1}^2 B and z^2 rho p~ (1 - p~) / T, T is ``count``
        least = float(ndtri(LEVEL)) ** 2 * together * binary
        width += max(_student(count - 1) ** 2 * spread**2, least) / count
    # h^2 over p~ (1 - p~), as Wilson's interval has z^2 / n
    return _wilson(mean, width / binary)


def _student(freedom: int) -> float:
    return float(stdtrit(freedom, LEVEL))


def _wilson(part: float, width: float) -> tuple[float, float]:
    """Wilson's interval, ``width`` in place of z^2 / n."""
    centre = (part + 0.5 * width) / (1.0 + width)
    half = math.sqrt(width * part * (1.0 - part) + 0.25 * width**2) / (1.0 + width)
    return max(0.0, min(centre - half, part)), min(1.0, max(centre + half, part))
