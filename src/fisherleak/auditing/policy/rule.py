"""What became of one rule of a policy, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Advice", "Rule"]


@dataclass(frozen=True)
class Rule:
    """One line of a policy, and what became of it.

    Attributes
    ----------
    name : str
        As in the policy: "columns.age.max_revealed".
    limit, value
        What is allowed, and what was found; None where it was not measured.
    passed : bool
    words : str
        The same in a sentence.
    count : int or None
        People above the limit.
    row : int or None
        The row where it was found, among the training rows.
    noise : float or None
        The least scale of noise at which the rule passes, where that follows from one measurement: not for attacks.
    """

    name: str
    limit: Any
    value: Any
    passed: bool
    words: str
    count: int | None = None
    row: int | None = None
    noise: float | None = None


@dataclass(frozen=True)
class Advice:
    """A scale of noise, none where more of it does not help, and why in a sentence."""

    noise: float | None
    note: str
