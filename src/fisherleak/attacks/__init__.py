"""What real attackers get out of a released model: may import ``protection`` and the folders above it; reads no files.

All attackers on an attribute take ``(model, X, y, attribute)`` and have ``infer``, ``accuracy`` and ``against``, so that
one can replace another. Adding one is adding a file with a subclass of ``Attacker``. ``Membership`` attacks no attribute:
it guesses whether a row was in the data at all.
"""

from typing import Any

from fisherleak._support.checks import warn_renamed
from fisherleak.attacks.base import Attacker, Outcome
from fisherleak.attacks.black_box import BlackBox
from fisherleak.attacks.informed_and_served import Informed, Served
from fisherleak.attacks.membership import Membership, MembershipOutcome
from fisherleak.attacks.population_attacker import Ideal, Prior
from fisherleak.attacks.white_box import WhiteBox

__all__ = [
    "Attacker",
    "BlackBox",
    "Ideal",
    "Informed",
    "Membership",
    "MembershipOutcome",
    "Outcome",
    "Prior",
    "Served",
    "WhiteBox",
]


def __getattr__(name: str) -> Any:
    if name == "Presence":
        warn_renamed("`fisherleak.attacks.Presence`", "`fisherleak.attacks.MembershipOutcome`")
        return MembershipOutcome
    raise AttributeError(f"module 'fisherleak.attacks' has no attribute '{name}'")
