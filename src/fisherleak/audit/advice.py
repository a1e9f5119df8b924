"""What to do next: the noise to release with, and why.

Where limits are kept it is the noise that was audited; where they are not, the least that keeps them; where none were set, the
least at which no number of anyone present is revealed by more than a tenth. Scales are rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fisherleak._support.numbers import number
from fisherleak.audit.records import Audit
from fisherleak.audit.revealed import exposure_at
from fisherleak.audit.rules import noise_that_keeps

__all__ = ["TENTH", "Advice", "Choice", "advice_on", "choices_on", "rounded_up"]

ABOUT_ELSE = ("utility.", "require.")
"""Sections of a policy that are not about what is revealed."""
ELSE_UTILITY = (
    "The limits on what is revealed are kept and utility is not: it takes less noise, more rows or other limits."
)
ELSE_REQUIRED = "The limits on what is revealed are kept: run the audit as the policy requires."
FROM_ROWS = "That scale follows from the rows: a card with it tells about the row that decides it; a limit counts that."
SHARES = (0.9, 0.5, 0.25, 0.1, 0.05, 0.01)
"""Shares of a value between which people choose."""
TENTH = 0.1
"""The share of a value that is revealed at most where no limit was set."""


@dataclass(frozen=True)
class Advice:
    """A scale of noise, none where more of it does not help, and why in a sentence."""

    noise: float | None
    note: str


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
    failed = [rule for rule in audit.rules if not rule.passed]
    needed = [scale * audit.rows.digest.high / audit.unit_scale / gate.max_eta] if gate and gate.count else []
    told = [rule for rule in failed if not rule.name.startswith(ABOUT_ELSE)]
    if failed and not told and not needed:
        return Advice(None, ELSE_UTILITY if any(rule.name.startswith("utility.") for rule in failed) else ELSE_REQUIRED)
    if told:
        enough = noise_that_keeps(audit.rules)
        if enough is None:
            return Advice(None, "More noise alone does not keep every rule: the policy's rules say what each needs.")
        needed.append(enough)
    if needed:
        noise = rounded_up(max(needed))
        return Advice(noise, f"Noise of scale {number(noise)} keeps every limit on what is revealed. {FROM_ROWS}")
    if gate or audit.policy is not None:
        return Advice(scale, "Every limit is kept: release the model with this noise.")
    worst = audit.exposure()
    if worst is None:
        return Advice(None, "Set a limit, and audit the noise that you plan to use.")
    noise = rounded_up(scale * worst / exposure_at(TENTH)) if audit.noise.chosen != "default" else scale
    told_of = f"Noise of scale {number(noise)} reveals at most 10 % of any number of anyone in the table."
    return Advice(noise, f"{told_of} {FROM_ROWS}")


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
