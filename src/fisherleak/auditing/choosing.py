"""The noise that an audit is made at: what was given, the least that keeps a limit, or the least that reveals little."""

from __future__ import annotations

from typing import Any

from fisherleak.auditing.exposure.columns import largest_of_columns
from fisherleak.auditing.exposure.exposure import RowFigures
from fisherleak.auditing.exposure.revealed import (
    exposure_at,
    largest_exposure,
    prior_spreads,
    shares_unknown,
    spreads_in_units,
)
from fisherleak.auditing.policy.advice import TENTH, rounded_up
from fisherleak.auditing.records import NoiseChoice, Plan
from fisherleak.training.noise_words import as_noise
from fisherleak.training.trained_model import Trained, calibrated_scale

__all__ = ["choose_noise"]

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
