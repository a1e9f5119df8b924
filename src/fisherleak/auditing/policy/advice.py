"""What to do next: the noise to release with, and why.

Where limits are kept it is the noise that was audited; where they are not, one at which all of them were checked and pass
(``passing_noise``); where none were set, the least at which no number of anyone present is revealed by more than a tenth.
Scales are rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fisherleak._support.numbers import number
from fisherleak.auditing.exposure.revealed import exposure_at
from fisherleak.auditing.policy.ruling import Advice
from fisherleak.auditing.records import Audit

__all__ = ["FROM_ROWS", "TENTH", "Choice", "advice_on", "choices_on", "rounded_up"]

FROM_ROWS = "That scale follows from the rows: a card with it tells about the row that decides it; a limit counts that."
SHARES = (0.9, 0.5, 0.25, 0.1, 0.05, 0.01)
"""Shares of a value between which people choose."""
TENTH = 0.1
"""The share of a value that is revealed at most where no limit was set."""


@dataclass(frozen=True)
class Choice:
    """The least noise at which no more than a share of any number of anyone present is revealed."""

    share: float
    noise: float


def choices_on(audit: Audit) -> tuple[Choice, ...]:
    """What may be chosen, the least noise first; none without numbers."""
    worst = audit.exposure()
    if worst is None:
        return ()
    return tuple(Choice(share, rounded_up(audit.noise.scale * worst / exposure_at(share))) for share in SHARES)


def advice_on(audit: Audit) -> Advice:
    """From the limits that were set, and what was found."""
    scale, gate = audit.noise.scale, audit.gate
    if audit.passing is not None:
        return audit.passing
    if gate and gate.count:
        enough = _enough(audit, gate.max_eta)
        if enough is None:
            return _none_is_enough(gate.max_eta)
        return Advice(enough, f"Noise of scale {number(enough)} keeps every limit on what is revealed. {FROM_ROWS}")
    if gate or audit.policy is not None:
        return Advice(scale, "Every limit is kept: release the model with this noise.")
    worst = audit.exposure()
    if worst is None:
        whose, enough = "row" if audit.design.people is None else "person", _enough(audit, 1.0)
        if enough is None:
            return _none_is_enough(1.0)
        return Advice(
            enough, f"Noise of scale {number(enough)} keeps the eta of every {whose} at 1 or below. {FROM_ROWS}"
        )
    noise = rounded_up(scale * worst / exposure_at(TENTH)) if audit.noise.chosen != "default" else scale
    told_of = f"Noise of scale {number(noise)} reveals at most 10 % of any number of anyone in the table."
    return Advice(noise, f"{told_of} {FROM_ROWS}")


def _enough(audit: Audit, limit: float) -> float | None:
    """A scale at which nobody's eta is above a limit; None where what the noise's covariance tells alone is."""
    own = (
        audit.trained.most_by_shape() or 0.0
    )  # the same at every scale: eta squared is first / scale^2 + own^2 at most
    if own >= limit:
        return None
    return rounded_up(audit.noise.scale * audit.rows.digest.high / audit.unit_scale / math.sqrt(limit**2 - own**2))


def _none_is_enough(limit: float) -> Advice:
    return Advice(
        None,
        f"No scale of this noise keeps every eta at {limit:g}: what its data-dependent covariance tells alone is above. Use "
        "shape='isotropic'.",
    )


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
