"""What a card says of a penalty and of a covariance that were not given: written again from its other fields.

Both follow from numbers of the card alone (``any_record_noise`` has them from the table): parameters, rounded rows, the limit,
and how far rows within the bounds reach.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from fisherleak._support.namespaces import Json
from fisherleak.engine.losses import LOSSES
from fisherleak.engine.noise.calibrated import ADMISSIBLE
from fisherleak.protection.data_dependent.hessian_shape import public_curvature
from fisherleak.protection.release.penalty_and_shape import PublicPenalty, PublicShape
from fisherleak.training.model_kinds import kind_of

__all__ = ["chosen_words"]

ROUNDED = (0.0, -1e-9, 1e-9)
"""Parts by which sums round: a third digit is written by any of them."""


def chosen_words(card: Json) -> tuple[set[str], set[str]]:
    """The sentences that a card may have on its penalty, and on the covariance of its noise; none where it can have none."""
    told = card["noise"].get("calibrated")
    if told is None or told["over"] != ADMISSIBLE or not _all_bounded(card):
        return set(), set()
    parts = itertools.product(ROUNDED, ROUNDED)
    found = [(penalty, shape) for part in parts for penalty, shape in [_chosen(card, *part)]]
    several = kind_of(card["model"]["kind"]).several
    penalties = {
        each.words()
        for each, _ in found
        if each.l2 == card["settings"]["l2"] and (several or card["eta"]["limit_columns"] is None)
    }
    named, source = card["shape"]["name"], card["shape"]["from"]
    return penalties, {each.words() for _, each in found if each.shape == named and source is None}


def _chosen(card: Json, longer: float, wider: float) -> tuple[PublicPenalty, PublicShape]:
    """Both, with the longest row and the widest column rounded otherwise."""
    kind, settings = kind_of(card["model"]["kind"]), card["settings"]
    size, rows, l2 = card["model"]["parameters"], card["data"]["rows"], settings["l2"]
    times = dict(_times(card))
    longest, widest = _reach(card, times)
    longest, widest = longest * (1.0 + longer), widest * (1.0 + wider)
    limit = _in_one_unit(card)
    penalty = PublicPenalty(size, rows, limit, longest, len(card["target"]["classes"]) if kind.several else None)
    own = limit / max(times.values(), default=1.0)
    loss = LOSSES.get(kind.loss) if isinstance(kind.loss, str) else kind.loss
    if kind.several or loss is None or loss.traits is None:
        return penalty, PublicShape(size, rows, own, 0.0, 0.0, l2, possible=False)
    curvature = public_curvature(loss)
    return penalty, PublicShape(size, rows, own, longest, widest, l2 / curvature, squared=loss.unit_curvature)


def _all_bounded(card: Json) -> bool:
    """Whether every number of the model has two ends."""
    bounds = card["noise"]["calibrated"]["bounds"]
    return all("low" in bounds.get(column["name"], ()) for column in card["columns"] if column["kind"] == "number")


def _in_one_unit(card: Json) -> float:
    """The limit in standard units: on columns it is in their own, and the least of these is taken."""
    units = {column["name"]: column["scale"] for column in card["columns"] if column["kind"] == "number"}
    limited = card["eta"]["limit_columns"] or ()
    return float(card["eta"]["limit"] * min((units.get(name, 1.0) for name in limited), default=1.0))


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
