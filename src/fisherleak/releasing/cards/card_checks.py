"""Whether the fields of a model card agree: what follows from other fields is computed again and compared, its sentences too.

No table is needed for this. What follows from the table alone (columns, bounds that were taken from rows) is compared with a
new card by an audit (``confirmations``).

Also here: what a card says of a penalty and of a covariance that were not given: written again from its other fields.

Both follow from numbers of the card alone (``any_record_noise`` has them from the table): parameters, rounded rows, the limit,
and how far rows within the bounds reach.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np

from fisherleak._support.grids import GRID, units_within
from fisherleak._support.json import versions
from fisherleak._support.namespaces import Json
from fisherleak._support.numbers import two_digits
from fisherleak.engine.changes.remade_covariance import public_curvature
from fisherleak.engine.losses import LOSSES
from fisherleak.engine.noise import grid_of
from fisherleak.engine.noise.calibration_record import FOR_ANYONE, IN_FILES
from fisherleak.errors import DataError, FisherleakError
from fisherleak.protection.calibrate.shapes import ISOTROPIC
from fisherleak.protection.certificates.published_scale import nearest_on_grid, seven_digits
from fisherleak.protection.release.penalty_and_shape import PublicPenalty, PublicShape
from fisherleak.releasing.cards.card_fields import CARD, FROM_BOUNDS, FROM_ROWS, check_fields
from fisherleak.releasing.cards.cards import (
    TRUSTED,
    frame_from_rows,
    limit_of_one_row,
    limited_words,
    model_of,
    one_where_alike,
    rows_per_person_on,
    sentences_of,
)
from fisherleak.releasing.cards.enough_people import FEWEST_ROWS
from fisherleak.releasing.cards.names_on_cards import wrong_setting
from fisherleak.releasing.files.earlier_files import in_first_words, said_before
from fisherleak.releasing.least_deviation import least_deviation
from fisherleak.tables.design.features import MOST_FEATURES
from fisherleak.training.defaults import COUNTED
from fisherleak.training.model_kinds import kind_of
from fisherleak.training.noise_words import from_card

ROUNDINGS = (0.0, -1e-9, 1e-9)
"""Parts by which sums round: a third digit is written by any of them."""


def chosen_words(card: Json) -> tuple[set[str], set[str]]:
    """The sentences that a card may have on its penalty, and on the covariance of its noise; none where it can have none."""
    told = card["noise"].get("calibrated")
    if told is None or told["over"] != IN_FILES or not _all_bounded(card):
        return set(), set()
    parts = itertools.product(ROUNDINGS, ROUNDINGS)
    found = [(penalty, shape) for part in parts for penalty, shape in [_chosen(card, *part)]]
    several = kind_of(card["model"]["kind"]).several
    penalties = {
        taken.words()
        for each, _ in found
        if (taken := each.reaching(card["settings"]["l2"])) and (several or card["eta"]["limit_columns"] is None)
    }
    named, source = card["shape"]["name"], card["shape"]["from"]
    shapes = [shape for _, each in found for shape in each.possible_ones()]
    return penalties, {shape.words() for shape in shapes if shape.shape == named and source is None}


def _chosen(card: Json, longer: float, wider: float) -> tuple[PublicPenalty, PublicShape]:
    """Both, with the longest row and the widest column rounded otherwise."""
    kind, settings = kind_of(card["model"]["kind"]), card["settings"]
    size, rows, l2 = card["model"]["parameters"], card["data"]["rows"], settings["l2"]
    times = dict(_times(card))
    longest, widest = _reach(card, times)
    longest, widest = longest * (1.0 + longer), widest * (1.0 + wider)
    limit = _in_one_unit(card)
    classes, earlier = len(card["target"]["classes"]) if kind.several else None, card["schema"] != CARD
    alone = card["shape"]["from"] is not None
    penalty = PublicPenalty(size, rows, limit, longest, classes, alone=alone, earlier=earlier)
    own = limit / max(times.values(), default=1.0)
    loss = LOSSES.get(kind.loss) if isinstance(kind.loss, str) else kind.loss
    if kind.several or loss is None or loss.traits is None:
        return penalty, PublicShape(size, rows, own, 0.0, 0.0, l2, possible=False)
    curvature = public_curvature(loss)
    return penalty, PublicShape(
        *(size, rows, own, longest, widest, l2 / curvature), squared=loss.unit_curvature, earlier=earlier
    )


def _all_bounded(card: Json) -> bool:
    """Whether every number of the model has two ends."""
    bounds = card["noise"]["calibrated"]["bounds"]
    return all("low" in bounds.get(column["name"], ()) for column in card["columns"] if column["kind"] == "number")


def _in_one_unit(card: Json) -> float:
    """The limit in standard units: on columns it is in their own, and the least of these is taken."""
    units = {column["name"]: column["scale"] for column in card["columns"] if column["kind"] == "number"}
    limited = card["eta"]["limit_columns"] or ()
    return float(limit_of_one_row(card) * min((units.get(name, 1.0) for name in limited), default=1.0))


def _times(card: Json) -> Iterator[tuple[str, float]]:
    """How many standard deviations are taken to make a unit of each number, and of the target where it is standardised."""
    declared = {name for name, _ in card["settings"].get("bounds", ())}
    names = [column["name"] for column in card["columns"] if column["kind"] == "number"]
    names += [card["target"]["name"]] * kind_of(card["model"]["kind"]).labels.standardised
    return ((name, math.sqrt(12.0) if name in declared else 1.0) for name in names)


def _reach(card: Json, times: dict[str, float]) -> tuple[float, float]:
    """The longest row with its constant, and the widest column whose scale rows move, in standard deviations."""
    bounds, settings = card["noise"]["calibrated"]["bounds"], card["settings"]
    square, widest = 1.0, 0.0
    for column in card["columns"]:
        if column["kind"] != "number":
            square += 1.0
            continue
        own, unit = bounds[column["name"]], times[column["name"]] / column["scale"]
        far = max(abs(own["low"] - column["centre"]), abs(own["high"] - column["centre"]))
        square += (unit * far) ** 2
        widest = max(widest, unit * (own["high"] - own["low"]))
    return math.sqrt(square), widest if settings["public"] == "nothing" and settings["l2"] > 0 else 0.0


ROUNDED = 1e-15
"""The part of a scale that a power and a product round; version 0.1.0 computed both in the same way."""


def check_card(card: Json, where: str) -> None:
    """Refuse a model card of which a field is not known, or does not agree with the others."""
    check_fields(card, where)
    try:
        wrong = _disagreeing(card)
    except (FisherleakError, ValueError, TypeError, KeyError, ArithmeticError):
        wrong = "noise"
    if wrong is not None:
        raise DataError(
            f"The model card {where} says under '{wrong}' what does not agree with its other fields: it was changed. "
            "Do not pass it "
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
            f"Sentences under 'assumptions' of the model card {where} do not follow from its fields: they may carry other "
            f"data.{by}"
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
        **({} if not now else _frames_that_follow(card)),
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
        "eta.limit_on": card["eta"]["limit_on"] == limited_words(limited, settings["person"], rows_per_person_on(card)),
    }
    wrong = next((name for name, holds in checks.items() if not holds), None)
    return wrong or wrong_setting(card, now) or _noise(card, model.parameters)


def _frames_that_follow(card: Json) -> dict[str, bool]:
    """Whether scales and centres are those of declared bounds, or on the public grid; by the field."""
    declared = dict(card["settings"]["bounds"])
    found = {"settings.bounds": all(low < high for low, high in declared.values())}
    for k, column in enumerate(card["columns"]):
        if column["kind"] == "number":
            centre, scale = column["centre"], column["scale"]
            known = units_within(*declared[column["name"]]) if column["name"] in declared else None
            found[f"columns[{k}].scale"] = _scale_on_grid(scale) if known is None else scale == known[1]
            found[f"columns[{k}].centre"] = centre == (scale * round(centre / scale) if known is None else known[0])
    target = card["target"]
    of_classes = target["classes"] is not None
    found["target.unit"] = target["unit"] == 1.0 if of_classes else unit_before(card) or _unit_follows(card)
    return found


def _scale_on_grid(scale: float) -> bool:
    """Whether it is a power of 2^(1/4), as any platform rounds it."""
    nearest = 2.0 ** (round(GRID * math.log2(scale)) / GRID)
    return bool(abs(scale / nearest - 1.0) <= ROUNDED)


def _unit_follows(card: Json) -> bool:
    """Whether the unit of a target of numbers is that of its declared bounds, or on the public grid."""
    target, declared = card["target"], dict(card["settings"].get("bounds", ()))
    if target["name"] in declared:
        return bool(target["unit"] == units_within(*declared[target["name"]])[1])
    return _scale_on_grid(target["unit"])


def unit_before(card: Json) -> bool:
    """Whether a target of numbers that the model takes as they are has the unit that earlier versions wrote for all of them."""
    target, declared = card["target"], dict(card["settings"].get("bounds", ()))
    if target["classes"] is not None or kind_of(card["model"]["kind"]).labels.standardised or target["unit"] != 1.0:
        return False
    if target["name"] in declared:
        return not _unit_follows(card)
    return FROM_ROWS not in card["assumptions"] or frame_from_rows(card)


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
    if source is not None and told is None and card["schema"] == CARD:
        return "shape.from"  # public rows go with a limit
    if named and shape.removesuffix(FOR_ANYONE.removeprefix("least-loss")) != card["shape"]["name"]:
        return "shape.name"
    if named and (told is None or told.get("shape") != shape):
        return "noise.calibrated.shape"
    if (None if told is None else told["eta"]) != card["eta"]["limit"]:
        return "noise.calibrated.eta"
    if told is not None and "rows_per_person" in told and card["settings"]["person"] is None:
        return "noise.calibrated.rows_per_person"
    if told is not None and not _bounds_are_of(card, told.get("bounds")):
        return "noise.calibrated.bounds"
    if told is not None and (told.get("shape") is not None) != named:
        return "noise.calibrated.shape"
    # parameters of labels that are standardised are in the target's unit, others in that of the link
    unit = card["target"]["unit"] if kind_of(card["model"]["kind"]).labels.standardised else 1.0
    if told is not None and "offset" in told and not _on_grid(card, told["offset"], unit):
        return "noise.calibrated.offset"
    if told is not None and card["schema"] == CARD and told.get("probability") not in (None, 1):
        return "noise.calibrated.probability"
    if told is not None and told["over"] != IN_FILES and not _on_grid(card):
        return "noise.scale"
    if shape is not None and not named and not _is_covariance(card, size):
        return "noise.shape"
    steps = card["grid"] if isinstance(card["grid"], list) else [card["grid"]]
    whole = card["schema"] == CARD and not all(type(step) is float for step in steps)
    if whole or any(math.frexp(step)[0] != 0.5 for step in steps) or len(steps) not in (1, size):
        return "grid"
    if named and told is not None and told.get("least") is None:
        return None  # an earlier card, whose grid follows from the covariance: an audit computes it
    if named and told is not None and told["over"] != IN_FILES and not least_follows(card):
        return "noise.calibrated.least"
    # of a shape that is named the grid follows from a bound on it, whatever it is
    known = from_card(noise, np.eye(1) if named else None)
    return None if card["grid"] == one_where_alike(grid_of(known, size).tolist()) else "grid"


def least_follows(card: Json) -> bool:
    """Whether the least deviation of noise that the rows shape is the one that the card's other fields give."""
    told, kind = card["noise"]["calibrated"], kind_of(card["model"]["kind"])
    own = (told["shape"], kind, model_of(card).features, card["data"]["rows"], card["settings"]["l2"])
    return bool(told.get("least") == least_deviation(*own, told.get("bounds")))


LEAST_BEFORE = (
    "The least deviation under 'noise.calibrated.least' and the grid: an earlier version computed both from the rows. They can "
    "carry other data. Release the model again."
)
UNIT_BEFORE = (
    "The unit of the target: an earlier version wrote 1 for every target of this model. The limit can be in another unit, "
    "which the model card lacks."
)
GRID_BEFORE = (
    "The grid: an earlier version computed it from the covariance of the rows, and it shows that coarsely. It can carry other "
    "data. Release the model again."
)


WORDS_BEFORE = (
    "The wording of the model card's sentences: it is that of the first files of 0.2.0, and anyone can choose it."
)


def computed_before(card: Json) -> list[str]:
    """What an earlier version computed from the rows, or wrote in other words, and nothing on the card gives."""
    told, found = card["noise"].get("calibrated") or {}, [UNIT_BEFORE] * unit_before(card)
    found += [WORDS_BEFORE] * has_first_words(card)
    if told.get("shape") is None:
        return found
    if told.get("least") is None:
        return [*found, GRID_BEFORE]
    return found if least_follows(card) else [*found, LEAST_BEFORE]


def _is_covariance(card: Json, size: int) -> bool:
    """Whether a matrix covers the parameters and has each number once on either side; version 0.1.0 may have rounded."""
    shape = card["noise"]["shape"]
    if [len(row) for row in shape] != [size] * size:
        return False
    return card["schema"] != CARD or all(shape[i][j] == shape[j][i] for i in range(size) for j in range(i))


def _on_grid(card: Json, offset: float = 0.0, unit: float = 1.0) -> bool:
    """Whether the scale, in a unit, is a power of the step with an offset, as it is written; version 0.1.0 wrote all digits."""
    scale: float = card["noise"]["scale"]
    nearest = nearest_on_grid(scale / unit, offset) * unit
    return scale == seven_digits(nearest) or (card["schema"] != CARD and abs(scale / nearest - 1.0) <= ROUNDED)


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
        if not given[0] <= given[1]:
            return False
        # as texts, since Python takes 0 for -0.0
        return declared == (name in known) and json.dumps(given) == json.dumps(known.get(name, given))

    return all(follows(name, bound) for name, bound in bounds.items())


# Sentences


def _says_what_it_must(card: Json) -> bool:
    """The sentences that follow from the fields, and then those on what was chosen where nothing was given."""
    own, (penalties, shapes) = sentences_of(card), chosen_words(card)
    if card["schema"] != CARD:
        return _says(card, said_before(own), said_before([*penalties]), said_before([*shapes]))
    return any(
        _says(card, each, penalties, shapes)
        or _says(card, in_first_words(each), in_first_words(penalties), in_first_words(shapes))
        for each in (own, *([said_of_unit_before(card, own)] if unit_before(card) else []))
    )


def has_first_words(card: Json) -> bool:
    """Whether sentences of a card are in the words of the first files of version 0.2.0."""
    return bool(card["schema"] == CARD and in_first_words(card["assumptions"]) == card["assumptions"])


def said_of_unit_before(card: Json, sentences: Iterable[str]) -> list[str]:
    """Sentences of a card as earlier versions wrote them where all bounds but such a target's are declared."""
    words = FROM_ROWS if frame_from_rows(card) else FROM_BOUNDS
    return [words if sentence == FROM_ROWS else sentence for sentence in sentences]


def _says(card: Json, own: list[str], penalties: Collection[str], shapes: Collection[str]) -> bool:
    said = card["assumptions"]
    chosen = said[len(own) :]
    rest = chosen[1:] if chosen and chosen[0] in penalties else chosen
    return said[: len(own)] == own and (not rest or (len(rest) == 1 and rest[0] in shapes))
