"""What an audit of a released model confirms of its card, and what no audit can.

A card claims a noise and a limit, and describes the model. The description is held against one of a new fit, the noise against
the distance from that fit, the limit against a new measurement, end to end, at that noise. Since the noise was the least that
keeps the limit, rounded up to a power of 2^(1/4), the largest eta lies between the limit and a sixth below it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fisherleak._support.json import versions
from fisherleak._support.namespaces import Json
from fisherleak._support.numbers import number
from fisherleak.audit.admitted import declared_on, least_admitted, public_penalty, public_shape
from fisherleak.audit.cards import card_of, limited_words, two_digits
from fisherleak.audit.noises import distance_of
from fisherleak.audit.penalties import NOT_GIVEN
from fisherleak.audit.pipelines import framed, own_parameters
from fisherleak.audit.records import Audit
from fisherleak.audit.released_files import SavedModel
from fisherleak.audit.shaping import ISOTROPIC, LEAST_LOSS
from fisherleak.audit.signatures import digest_of
from fisherleak.audit.unasked_shape import NO_SHAPE
from fisherleak.errors import FisherleakError
from fisherleak.protection.grid import STEP
from fisherleak.protection.least_loss_for_anyone import FOR_ANYONE

__all__ = ["UNCONFIRMED", "Confirmation", "confirm"]

CLOSE = 1e-6
"""Relative difference of scales that is rounding."""
ROUNDED_UP = 1.2
"""Noise that is rounded up to a power of 2^(1/4) is at most this much more than is needed, with room for other sums."""
HOW = {"nothing": "end to end", "preprocessing": "with preprocessing taken as public"}
DESCRIBED = ("counted", "balanced", "columns", "target", "grid")
"""Fields of a card that follow from its table, its settings and its noise."""
UNCONFIRMED = (
    "That the noise was drawn afresh and forgotten: whoever drew it can have kept it, and noise that is known hides nothing.",
    "That nobody else has the model without noise, or another release of the same data: what each reveals adds up.",
    "That every value of the table is as it was: a table that differs by less than the noise hides passes too.",
)
PROBABILITY = "The probability that replacing one person's row changes the noise's scale: its grid has a random offset."
WORDS = "The card's sentences: it was written by another version ({}), which may say things in other words."


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
    checks: tuple[Callable[[SavedModel, Audit], tuple[str, bool]], ...] = (
        _unchanged,
        _noise,
        _figures,
        _limit,
        _described,
    )
    confirmed: list[str] = []
    for check in checks:
        try:
            sentence, holds = check(saved, audit)
        except (KeyError, TypeError, ValueError, OverflowError):
            sentence, holds = f"The card of '{saved.path.name}' lacks its limit: release again.", False
        if not holds:
            return Confirmation(tuple(confirmed), failed=sentence)
        confirmed.append(sentence)
    return Confirmation(tuple(confirmed), (*UNCONFIRMED, *_left_open(saved, audit)))


def _left_open(saved: SavedModel, audit: Audit) -> list[str]:
    """What else is on this card that is not held against anything."""
    told = getattr(audit.noise.noise, "calibrated", None)
    found = [PROBABILITY] if getattr(told, "counted", False) else []
    return found if _same_version(saved) else [*found, WORDS.format(_version_of(saved))]


def _version_of(saved: SavedModel) -> str:
    written = saved.card.get("versions")
    return str(written.get("fisherleak", "unknown") if isinstance(written, Mapping) else "unknown")


def _same_version(saved: SavedModel) -> bool:
    return _version_of(saved) == versions()["fisherleak"]


def _unchanged(saved: SavedModel, audit: Audit) -> tuple[str, bool]:
    digest = saved.card.get("digest")
    if not isinstance(digest, Mapping) or digest.get("value") != digest_of(saved.card):
        return (
            f"The card of '{saved.path.name}' was changed after it was written: its digest is of other content.",
            False,
        )
    return "The model's file matches its card by its checksum, and the card its own digest.", True


def _described(saved: SavedModel, audit: Audit) -> tuple[str, bool]:
    """The fields and sentences that describe the model, held against those of a new card."""
    card, claims, shaped = saved.card, saved.card["eta"], saved.card["shape"]
    columns = None if claims["limit_columns"] is None else tuple(claims["limit_columns"])
    limit = None if claims["limit"] is None else float(claims["limit"])
    own = (audit.trained, saved.settings, audit.noise.noise, limit, columns, "", (shaped["name"], shaped["from"]))
    again = card_of(*own, _chosen_told(saved, audit, limit, columns))
    checked = (*DESCRIBED, *(["assumptions"] if _same_version(saved) else []))
    wrong = [name for name in checked if card[name] != again[name]]
    if (card["noise"].get("shape") is None) != (shaped["name"] == ISOTROPIC):
        wrong.append("shape")
    if wrong:
        return (
            f"The card of '{saved.path.name}' says other things under {' and '.join(wrong)} than a new release of this table "
            "with its settings and noise would: it was changed, or the table was.",
            False,
        )
    return "Columns, units, grid and what is counted are as a new release of this table would have them.", True


def _chosen_told(
    saved: SavedModel, audit: Audit, limit: float | None, columns: tuple[str, ...] | None
) -> tuple[str, ...]:
    """What a card says of a penalty and of a shape that were not given, where it says something."""
    said = [str(each) for each in saved.card["assumptions"]]
    found: list[str] = []
    if limit is not None and any(each.startswith(NOT_GIVEN) for each in said):
        declared = declared_on(saved.card)
        penalty = public_penalty(audit.trained, two_digits(audit.design.n), limit, declared, columns)
        found += [penalty.words()] * (penalty.l2 == saved.settings.l2)
    if limit is not None and any(each.startswith(NO_SHAPE) for each in said):
        own = (audit.trained, two_digits(audit.design.n), limit, columns, declared_on(saved.card))
        shape = public_shape(*own)
        found += [shape.words()] * (shape.name == saved.card["shape"]["name"])
    return tuple(found)


def _noise(saved: SavedModel, audit: Audit) -> tuple[str, bool]:
    found, low, high = distance_of(audit.noise.noise, framed(audit.design, saved.model) - own_parameters(audit.trained))
    sentence = (
        f"The released parameters lie {found:.2f} times as far from a new fit as noise of the card's scale goes; {low:.2f} to "
        f"{high:.2f} times can be its work."
    )
    return sentence, low <= found <= high


def _figures(saved: SavedModel, audit: Audit) -> tuple[str, bool]:
    rows, scale = audit.rows.digest, audit.unit_scale
    whose = "row" if audit.design.people is None else "person"
    return (
        f"Measured anew at the card's noise, {HOW[audit.trained.public]}, the mean eta of a {whose} is "
        f"{number(rows.mean / scale)} and the largest {number(rows.high / scale)}.",
        True,
    )


def _limit(saved: SavedModel, audit: Audit) -> tuple[str, bool]:
    claims = saved.card["eta"]
    if claims["limit"] is None:
        return "The card claims no limit.", True
    limit, columns = float(claims["limit"]), claims["limit_columns"]
    words = limited_words(columns, saved.settings.person)
    largest = _largest(audit, columns)
    if claims["limit_on"] != words:
        return f"The card of '{saved.path.name}' says in two ways what its limit is on, which do not agree.", False
    if not largest * (1 - 1e-9) <= limit:
        return (
            f"The card of '{saved.path.name}' claims a limit of {limit:g} on {words}, and a new measurement gives "
            f"{number(largest)}: the limit is not kept.",
            False,
        )
    if getattr(getattr(audit.noise.noise, "calibrated", None), "counted", False):
        return _admitted(saved, audit, limit, columns, words)
    if limit > ROUNDED_UP * largest:
        return (
            f"The card of '{saved.path.name}' claims a limit of {limit:g} on {words}, and its noise is that for a limit of "
            f"{largest:.2g}: one of them was changed.",
            False,
        )
    return f"The limit of {limit:g} on {words} follows: the largest eta there is {number(largest)}.", True


def _admitted(saved: SavedModel, audit: Audit, limit: float, columns: list[str] | None, words: str) -> tuple[str, bool]:
    """A limit on whoever could be in the table: certified anew within the card's bounds."""
    try:
        needed = least_admitted(audit.trained, limit, columns, declared_on(saved.card), _shape(saved))
    except FisherleakError as error:
        return f"The card of '{saved.path.name}' claims a limit that cannot be certified anew: {error}", False
    if not needed * (1 - CLOSE) <= saved.scale <= needed * STEP * (1 + CLOSE):
        return (
            f"The card of '{saved.path.name}' claims a limit of {limit:g} on {words}, for whoever could be in the table, and "
            f"its noise is not that for it: a scale of {number(needed)} is needed, and it has {number(saved.scale)}.",
            False,
        )
    return (
        f"The limit of {limit:g} on {words} follows for whoever could be in the table, within the card's bounds.",
        True,
    )


def _shape(saved: SavedModel) -> Any:
    """What the card says of the noise's shape: a matrix, the name that asks for it, or nothing."""
    shape = saved.card["noise"].get("shape")
    if isinstance(shape, str):
        return LEAST_LOSS if shape == FOR_ANYONE else shape
    return shape if shape is None else np.asarray(shape)


def _largest(audit: Audit, columns: list[str] | None) -> float:
    """The largest eta of what a limit is on."""
    if columns is None:
        return audit.rows.digest.high / audit.unit_scale
    if audit.trained.weighting is not None:
        unit = {feature.name: feature.scale for feature in audit.design.features}
        noise, own = audit.trained.leak.noise, audit.trained.weighting
        return max(own.largest(noise, name) / unit.get(name, 1.0) for name in columns) / audit.unit_scale
    found = {figures.feature.name: figures.largest / audit.unit_scale for figures in audit.columns}
    return max(found[name] for name in columns)
