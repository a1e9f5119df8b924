"""The noise that an audit is made at, and what to do next: the noise to release with, and why.

Where limits are kept it is the noise that was audited; where they are not, one at which all of them were checked and pass
(``passing_noise``); where none were set, the least at which no number of anyone present is revealed by more than a tenth.
Scales are rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fisherleak._support.numbers import number
from fisherleak.auditing.exposure.columns import largest_of_columns
from fisherleak.auditing.exposure.exposure import RowFigures
from fisherleak.auditing.exposure.revealed import (
    exposure_at,
    largest_exposure,
    prior_spreads,
    shares_unknown,
    spreads_in_units,
)
from fisherleak.auditing.policy.rule import Advice
from fisherleak.auditing.records import Audit, NoiseChoice, Plan
from fisherleak.training.noise_words import as_noise
from fisherleak.training.trained_model import Trained, calibrated_scale

__all__ = ["FROM_ROWS", "TENTH", "Choice", "advice_on", "choices_on", "choose_noise", "rounded_up"]

FROM_ROWS = "That scale follows from the rows: a card with it tells about the row that decides it; a limit counts that."
SHARES = (0.9, 0.5, 0.25, 0.1, 0.05, 0.01)
"""Shares of a value between which people choose."""
TENTH = 0.1
"""The share of a value that is revealed at most where no limit was set."""
NOT_ASKED = (
    "No noise was given, so the scale is the least at which no number of anyone in the table is revealed by more than 10 %; "
    "the choices say what others reveal and cost."
)
EVEN = "A yes or no, taken as 0 or 1, counts there as a number of spread 1/2."


def choose_noise(trained: Trained, plan: Plan, rows: RowFigures, rms: Any) -> NoiseChoice:
    """The noise that was given, or the least that keeps a limit.

    Where neither was, the least at which no number of anyone present is revealed by more than a tenth; where there are no
    numbers, that at which the most exposed row has an eta of 1. ``rows`` and ``rms`` (``revealed.rms_of_values``) are at noise
    of scale 1.
    """
    if plan.noise is not None:
        return NoiseChoice(as_noise(plan.noise), "given", plan.noise_note)
    limit, whose = plan.eta if plan.eta is not None else plan.max_eta, _whose(trained)
    target = 1.0 if limit is None else limit
    if limit is None and shares_unknown(trained) is None:
        spreads = spreads_in_units(trained, prior_spreads(trained, plan.spread))
        largest = largest_of_columns(trained, rows.sample, rms)
        worst = largest_exposure(trained.design.features, spreads, *largest)
        if worst is not None:
            scale = rounded_up(worst / exposure_at(TENTH) * trained.unit)
            note = f"{NOT_ASKED} {EVEN}" if any(f.yes_no for f in trained.design.features) else NOT_ASKED
            return NoiseChoice(trained.leak.noise.rescaled(scale), "default", note)
    noise = trained.leak.noise.rescaled(calibrated_scale(trained, target, top=rows.digest.top[:1]))
    if limit is not None:
        note = f"The least scale at which no {whose}'s eta is above {target:g}."
        if plan.eta is None:
            note += " The gate is met by construction; give the noise you plan to use with `noise` to test it."
        return NoiseChoice(noise, "calibrated", note)
    note = (
        f"No noise was given, so the scale is that at which the most exposed {whose} has an eta of 1. It is no advice."
    )
    return NoiseChoice(noise, "default", note)


def _whose(trained: Trained) -> str:
    """What an eta is of."""
    return "row" if trained.design.people is None else "person"


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
