"""Whether the fields of a card agree: what follows from other fields is computed again and compared, its sentences too.

No table is needed for this. What follows from the table alone (columns, bounds that were taken from rows) is held against a new
card by an audit (``confirmations``).
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from fisherleak._support.json import versions
from fisherleak._support.namespaces import Json
from fisherleak.engine.noise import grid_of
from fisherleak.engine.noise.calibrated import ADMISSIBLE
from fisherleak.errors import DataError, FisherleakError
from fisherleak.protection.data_dependent.least_loss_for_any_record import FOR_ANYONE
from fisherleak.protection.noise_scale_grid import nearest_on_grid
from fisherleak.releasing.cards.canonical_settings import wrong_setting
from fisherleak.releasing.cards.card_fields import check_fields
from fisherleak.releasing.cards.cards import (
    TRUSTED,
    limited_words,
    model_of,
    one_where_alike,
    sentences_of,
    two_digits,
)
from fisherleak.releasing.cards.chosen_words import chosen_words
from fisherleak.releasing.cards.enough_people import FEWEST_ROWS
from fisherleak.releasing.cards.signatures import CARD
from fisherleak.releasing.files.earlier_files import said_before
from fisherleak.releasing.noise.shaping import ISOTROPIC
from fisherleak.tables.design.features import MOST_FEATURES
from fisherleak.training.model_kinds import kind_of
from fisherleak.training.noise_words import from_card
from fisherleak.training.trained_model import COUNTED

__all__ = ["check_card"]

ROUNDED, ROUNDED_EARLIER = 1e-15, 1e-10
"""Parts of a scale that a power and a product round."""


def check_card(card: Json, where: str) -> None:
    """Refuse a card of which a field is not known, or does not agree with the others."""
    check_fields(card, where)
    try:
        wrong = _disagreeing(card)
    except (FisherleakError, ValueError, TypeError, KeyError, ArithmeticError):
        wrong = "noise"
    if wrong is not None:
        raise DataError(
            f"The card {where} says under '{wrong}' what does not agree with its other fields: it was changed. Do not pass it "
            "on; release the model again."
        )
    try:
        said = _says_what_it_must(card)
    except (OverflowError, ZeroDivisionError):
        said = False
    if not said:
        written = card["versions"]["fisherleak"]
        by = (
            ""
            if written == versions()["fisherleak"]
            else f" It was written by fisherleak {written}: check it with that."
        )
        raise DataError(
            f"The card {where} says under 'assumptions' other sentences than its fields give: they may carry other data.{by}"
        )


def _disagreeing(card: Json) -> str | None:
    """The first field that does not follow from the others, or None."""
    settings, columns, target = card["settings"], card["columns"], card["target"]
    numbers = [column["name"] for column in columns if column["kind"] == "number"]
    names = [column["name"] for column in columns]
    kind = kind_of(card["model"]["kind"])
    model = model_of(card)
    levels = [column["levels"] for column in columns if column["kind"] == "category"]
    limited, now = card["eta"]["limit_columns"], card["schema"] == CARD
    among = {*(limited or ())}
    checks = {
        "columns": bool(columns)
        and len({*names, target["name"]}) == len(names) + 1
        and names[: len(numbers)] == numbers
        and len(numbers) + sum(len(each) - 1 for each in levels) <= MOST_FEATURES
        and all(len(each) > 1 and len({(type(x), x) for x in each}) == len(each) for each in levels)
        and all(column.get("of", None) in (None, *numbers) for column in columns),
        "target": (target["classes"] is not None) == kind.labels.classes and target["name"] == settings["target"],
        "target.classes": target["classes"] is None
        or kind.labels.fewest
        <= len({str(name) for name in target["classes"]})
        == len(target["classes"])
        <= kind.labels.most,
        "settings.model": settings["model"] == kind.name,
        "model.parameters": card["model"]["parameters"] == model.parameters,
        "model.trusted_types": card["model"]["trusted_types"] == sorted(TRUSTED.union(kind.holds)),
        "counted": card["counted"] == COUNTED[settings["public"]],
        "data.rows": card["data"]["rows"] == two_digits(card["data"]["rows"]),
        "eta.limit_columns": limited is None
        or (
            (bool(limited) and card["eta"]["limit"] is not None and settings["person"] is None)
            and len(among) == len(limited)
            and among <= {*names, target["name"]}
            and (not now or limited == [name for name in (*names, target["name"]) if name in among])
        ),
        "settings.rare": settings["rare"] >= FEWEST_ROWS,
        "settings.intercept_l2": settings["intercept_l2"] in (0, settings["l2"] if kind.several else 0),
        "eta.limit_on": card["eta"]["limit_on"] == limited_words(limited, settings["person"]),
    }
    wrong = next((name for name, holds in checks.items() if not holds), None)
    return wrong or wrong_setting(card, now) or _noise(card, model.parameters)


def _noise(card: Json, size: int) -> str | None:
    """Where noise, grid, limit and shape disagree."""
    noise, shape, told = card["noise"], card["noise"].get("shape"), card["noise"].get("calibrated")
    named = isinstance(shape, str)
    isotropic, source = card["shape"]["name"] == ISOTROPIC, card["shape"]["from"]
    # a covariance that was given with the noise, in Python, has no name
    given = shape is not None and not named and source is None and card["eta"]["limit"] is None
    if (shape is None or given) != isotropic or (shape is not None and noise["kind"] != "Gaussian"):
        return "shape"
    if told is not None and noise["kind"] != "Gaussian":
        return "noise.kind"
    if (source is None) != (shape is None or named or given):
        return "shape.from"
    if named and shape.removesuffix(FOR_ANYONE.removeprefix("least-loss")) != card["shape"]["name"]:
        return "shape.name"
    if named and (told is None or told.get("shape") != shape):
        return "noise.calibrated.shape"
    if (None if told is None else told["eta"]) != card["eta"]["limit"]:
        return "noise.calibrated.eta"
    if told is not None and not _bounds_are_of(card, told.get("bounds")):
        return "noise.calibrated.bounds"
    if told is not None and (told.get("shape") is not None) != named:
        return "noise.calibrated.shape"
    if told is not None and "offset" in told and not _is_offset_of(card, told["offset"]):
        return "noise.calibrated.offset"
    if told is not None and card["schema"] == CARD and not _in_hundredths(told.get("probability")):
        return "noise.calibrated.probability"
    if told is not None and told["over"] != ADMISSIBLE and not _on_grid(card, noise["scale"]):
        return "noise.scale"
    if shape is not None and not named and [len(row) for row in shape] != [size] * size:
        return "noise.shape"
    steps = card["grid"] if isinstance(card["grid"], list) else [card["grid"]]
    if any(math.frexp(step)[0] != 0.5 for step in steps) or len(steps) not in (1, size):
        return "grid"
    if named and told is not None and told.get("least") is None:
        return None  # of a shape that the rows decide, uncounted: an audit computes it
    # of a shape that is named the grid follows from a bound on it, whatever it is
    known = from_card(noise, np.eye(1) if named else None)
    return None if card["grid"] == one_where_alike(grid_of(known, size).tolist()) else "grid"


def _is_offset_of(card: Json, offset: float) -> bool:
    """Whether the scale, in the target's unit, is a power of the step with this offset."""
    return _on_grid(card, card["noise"]["scale"] / card["target"]["unit"], offset)


def _in_hundredths(chance: Any) -> bool:
    return chance is None or (type(chance) is float and 0 < chance == round(chance, 2))


def _on_grid(card: Json, scale: float, offset: float = 0.0) -> bool:
    """Whether a scale is a power of the step with an offset, but for the last two bits; version 0.1.0 is given more."""
    room = ROUNDED if card["schema"] == CARD else ROUNDED_EARLIER
    return abs(scale / nearest_on_grid(scale, offset) - 1.0) <= room


def _bounds_are_of(card: Json, bounds: Json | None) -> bool:
    """Whether bounds are those of the columns and the target, in their order, declared where settings declare them."""
    if bounds is None:
        return True
    levels: dict[str, Any] = {column["name"]: column.get("levels") for column in card["columns"]}
    of_classes = card["target"]["classes"] is not None

    def fits(name: str, bound: Json) -> bool:
        """Levels of a category, classes of a target that has some, and two ends of every number."""
        if levels.get(name) is not None:
            return bound.get("levels") == [str(level) for level in levels[name]]
        return ("classes" if name not in levels and of_classes else "low") in bound

    order = [*levels, card["target"]["name"]]
    in_order = [*bounds] == [name for name in order if name in bounds]
    return in_order and _declared_by(card, bounds) and all(fits(*each) for each in bounds.items())


def _declared_by(card: Json, bounds: Json) -> bool:
    """Whether just those bounds count as declared that settings declare, with the same ends in every digit.

    Settings of version 0.1.0 have no ends: there, any two in their order may be declared.
    """
    levels, ends = dict(card["settings"]["levels"]), card["settings"].get("bounds")
    known = None if ends is None else dict(ends)

    def follows(name: str, bound: Json) -> bool:
        declared: bool = bound["from"] == "declared"
        if "classes" in bound:
            return declared and bool(bound["classes"] == len(card["target"]["classes"] or ()))
        if "levels" in bound:
            return declared == (name in levels)
        given = [bound["low"], bound["high"]]
        if known is None:
            return not declared or bool(given[0] < given[1])
        # as texts, since Python takes 0 for -0.0
        return declared == (name in known) and json.dumps(given) == json.dumps(known.get(name, given))

    return all(follows(name, bound) for name, bound in bounds.items())


# Sentences


def _says_what_it_must(card: Json) -> bool:
    """The sentences that follow from the fields, and then those on what was chosen where nothing was given."""
    own, (penalties, shapes) = sentences_of(card), chosen_words(card)
    if card["schema"] != CARD:
        own, penalties, shapes = said_before(own), {*said_before([*penalties])}, {*said_before([*shapes])}
    said = card["assumptions"]
    chosen = said[len(own) :]
    rest = chosen[1:] if chosen and chosen[0] in penalties else chosen
    return said[: len(own)] == own and (not rest or (len(rest) == 1 and rest[0] in shapes))
