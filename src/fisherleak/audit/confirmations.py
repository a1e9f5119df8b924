"""What an audit of a released model confirms of its card, and what no audit can.

A card claims a noise, two etas (the mean and the largest of a row, to two digits) and a limit. The noise is held against the
distance from a new fit, the etas and the limit against the new measurement at that noise. Since the noise was the least that
keeps the limit, rounded up to two digits, the largest eta lies between the limit and a tenth below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fisherleak._support.namespaces import Json
from fisherleak.audit.model import own_parameters
from fisherleak.audit.noises import distance_of
from fisherleak.audit.released_files import SavedModel, limited_words
from fisherleak.audit.run import Audit
from fisherleak.audit.signatures import digest_of
from fisherleak.models.estimators import parameters

__all__ = ["UNCONFIRMED", "Confirmation", "confirm"]

ROUNDED_UP = 1.11
"""Noise that is rounded up to two digits is at most this much more than is needed, with room for another machine's sums."""
HALF_A_DIGIT = 0.06
"""Of a figure with two digits, in units of the first, with such room."""
UNCONFIRMED = (
    "That the noise was drawn afresh and forgotten: whoever drew it can have kept it, and noise that is known hides nothing.",
    "That nobody else has the model without noise, or another release of the same data: what each reveals adds up.",
    "That every value of the table is as it was: a table that differs by less than the noise hides passes too.",
)


@dataclass(frozen=True)
class Confirmation:
    """In sentences: what holds of a release, what cannot be known, and the first claim that does not follow."""

    confirmed: tuple[str, ...]
    unconfirmed: tuple[str, ...] = UNCONFIRMED
    failed: str | None = None

    def record(self) -> Json:
        """As JSON types."""
        return {"confirmed": list(self.confirmed), "unconfirmed": list(self.unconfirmed), "failed": self.failed}


def confirm(saved: SavedModel, audit: Audit) -> Confirmation:
    """Hold a card against the audit of its model, which was fitted again from its table and measured at the card's noise."""
    checks: tuple[Callable[[SavedModel, Audit], tuple[str, bool]], ...] = (_unchanged, _noise, _figures, _limit)
    confirmed: list[str] = []
    for check in checks:
        try:
            sentence, holds = check(saved, audit)
        except (KeyError, TypeError, ValueError, OverflowError):
            sentence, holds = f"The card of '{saved.path.name}' lacks its etas or its limit: release again.", False
        if not holds:
            return Confirmation(tuple(confirmed), failed=sentence)
        confirmed.append(sentence)
    return Confirmation(tuple(confirmed))


def _unchanged(saved: SavedModel, audit: Audit) -> tuple[str, bool]:
    digest = saved.card.get("digest")
    if not isinstance(digest, Mapping) or digest.get("value") != digest_of(saved.card):
        return (
            f"The card of '{saved.path.name}' was changed after it was written: its digest is of other content.",
            False,
        )
    return "The model's file matches its card by its checksum, and the card its own digest.", True


def _noise(saved: SavedModel, audit: Audit) -> tuple[str, bool]:
    found, low, high = distance_of(saved.noise, parameters(saved.model[-1]) - own_parameters(audit.trained))
    sentence = (
        f"The released parameters lie {found:.2f} times as far from a new fit as noise of the card's scale goes; {low:.2f} to "
        f"{high:.2f} times can be its work."
    )
    return sentence, low <= found <= high


def _figures(saved: SavedModel, audit: Audit) -> tuple[str, bool]:
    rows, scale = audit.rows.digest, audit.unit_scale
    measured = {"mean": rows.mean / scale, "max": rows.high / scale}
    claimed = {name: float(saved.card["eta"]["after"][name]) for name in measured}
    for name, words in (("max", "a largest eta"), ("mean", "a mean eta")):
        if not _rounds_to(measured[name], claimed[name]):
            return (
                f"The card of '{saved.path.name}' claims {words} of {claimed[name]:g}, and a new measurement gives "
                f"{measured[name]:.3g}: its figures do not follow from the table.",
                False,
            )
    return (
        f"Measured anew at the card's noise, the mean eta of a row is {measured['mean']:.3g} and the largest "
        f"{measured['max']:.3g}, as the card says.",
        True,
    )


def _rounds_to(value: float, figure: float) -> bool:
    if value == 0:
        return figure == 0
    return abs(value - figure) <= HALF_A_DIGIT * 10.0 ** math.floor(math.log10(value))


def _limit(saved: SavedModel, audit: Audit) -> tuple[str, bool]:
    claims = saved.card["eta"]
    if claims["limit"] is None:
        return "The card claims no limit.", True
    limit, columns = float(claims["limit"]), claims["limit_columns"]
    words = limited_words(columns)
    largest = _largest(audit, columns)
    if claims["limit_on"] != words:
        return f"The card of '{saved.path.name}' says in two ways what its limit is on, which do not agree.", False
    if not largest * (1 - 1e-9) <= limit:
        return (
            f"The card of '{saved.path.name}' claims a limit of {limit:g} on {words}, and a new measurement gives "
            f"{largest:.3g}: the limit is not kept.",
            False,
        )
    if limit > ROUNDED_UP * largest:
        return (
            f"The card of '{saved.path.name}' claims a limit of {limit:g} on {words}, and its noise is that for a limit of "
            f"{largest:.2g}: one of them was changed.",
            False,
        )
    return f"The limit of {limit:g} on {words} follows: the largest eta there is {largest:.3g}.", True


def _largest(audit: Audit, columns: list[str] | None) -> float:
    """The largest eta of what a limit is on."""
    if columns is None:
        return audit.rows.digest.high / audit.unit_scale
    found = {figures.feature.name: figures.largest / audit.unit_scale for figures in audit.columns}
    return max(found[name] for name in columns)
