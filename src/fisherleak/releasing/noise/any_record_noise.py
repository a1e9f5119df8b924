"""The noise of a release for whoever could be in the table: bounds in the columns' own units, and what a card says of them.

Limits on rows are in standard units, bounds in the columns' own. So the model is calibrated on a table of numbers in public
units and of levels, and its record is brought back: a column from low to high, declared or taken from rows.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.checks import nearest
from fisherleak._support.namespaces import Json, Seed
from fisherleak.engine.encodings import Encoding
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.calibrated import ADMISSIBLE, calibration_of
from fisherleak.engine.norms import information_of, one_release
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.models import as_table
from fisherleak.protection.calibrate.calibration import calibrate, remembering
from fisherleak.protection.certificates.any_record import NoUsefulBoundError
from fisherleak.protection.certificates.declared_bounds import LABEL, admissible_rows
from fisherleak.protection.data_dependent.hessian_shape import linear_part, public_curvature
from fisherleak.protection.data_dependent.least_loss_for_any_record import evenly_weighted, shape_for_anyone
from fisherleak.protection.release.penalty_and_shape import PENALTIES, PublicPenalty, PublicShape
from fisherleak.releasing.noise.stable_under_replacement import is_settled
from fisherleak.tables import Design, Feature
from fisherleak.training.trained_model import Settings, Trained, trained_on

__all__ = [
    "admitted_noise",
    "declared_ends",
    "declared_on",
    "least_admitted",
    "public_penalty",
    "public_shape",
    "shape_of_card",
]

Bounds = Mapping[str, tuple[float, float]]
Shape = NDArray[np.float64] | str | None
MOST_TRIED, MOST_TRIED_HELD = 300, 1000
"""Parameters of a model for which they are tried; the second where all have a penalty, which takes seconds."""
FAR = 6.0
"""Columns whose bounds reach farther than this from their centre, in standard units, are named where no bound holds."""
MOST_NAMED = 3
"""At a time: without them the refusal, if it is still one, names others."""


def public_penalty(
    trained: Trained, rows: int, limit: float, bounds: Bounds | None = None, columns: Sequence[str] | None = None
) -> PublicPenalty:
    """The penalty for a limit on every row, from the size of a model, the rounded number of rows and who could be there.

    A limit on ``columns`` is in their own units; it is taken in standard ones, the least of them.
    """
    own, classes = _in_one_unit(trained, limit, columns), trained.outputs if trained.kind.several else None
    return PublicPenalty(trained.parameters, rows, own, _reach(trained, bounds)[0], classes)


def _in_one_unit(trained: Trained, limit: float, columns: Sequence[str] | None) -> float:
    """A limit in standard units: on columns it is in their own, and the least of these is taken."""
    unit = {feature.name: feature.scale for feature in trained.design.features}
    return limit * min((unit.get(name, 1.0) for name in columns or ()), default=1.0)


def _times(design: Design) -> dict[str, float]:
    r"""How many standard deviations make a unit of each number, and of the target, as far as public numbers tell.

    About one where the unit comes from the rows. Declared bounds tell no deviation: their unit is their width over
    :math:`\sqrt{12}`, and a column is taken to vary by a twelfth of the width, so that both ends are six deviations away.
    """
    known = {feature.name: feature.bounds for feature in design.features if feature.kind == "number"}
    known |= {design.target.name: design.target.bounds} if design.target.standardised else {}
    return {name: 1.0 if bounds is None else math.sqrt(12.0) for name, bounds in known.items()}


def public_shape(
    trained: Trained, rows: int, limit: float, columns: Sequence[str] | None = None, bounds: Bounds | None = None
) -> PublicShape:
    """The shape for a limit, from the same numbers and the penalty; none of the rows' own is counted for several outputs."""
    size, loss = trained.parameters, trained.fit.loss
    # what a shape tells is about standard deviations, and so is the limit that it is held against
    own = _in_one_unit(trained, limit, columns) / max(_times(trained.design).values(), default=1.0)
    if trained.kind.several or loss.traits is None:
        return PublicShape(size, rows, own, 0.0, 0.0, trained.l2, possible=False)
    longest, widest = _reach(trained, bounds)
    penalty = trained.l2 / public_curvature(loss)
    return PublicShape(size, rows, own, longest, widest, penalty, squared=loss.unit_curvature)


def _reach(trained: Trained, bounds: Bounds | None) -> tuple[float, float]:
    """The longest admissible row with its constant, and how far apart values of a number are whose column's scale they move.

    Both in standard deviations of columns, as ``_times`` takes them.
    """
    leak, times = _with_levels(trained), _times(trained.design)
    jacobian, declared = one_release(measurement(leak).information), _in_standard_units(trained.design, bounds or {})
    admissible = admissible_rows(jacobian, measurement(leak).table, declared)
    names = [attribute.name for attribute in jacobian.attributes]
    own = zip(names, admissible.parts, strict=True)
    farthest = [times.get(name, 1.0) ** 2 * float(np.max(np.sum(part**2, axis=1))) for name, part in own]
    moved = () if trained.folding is None else admissible.bounds.items()
    widths = [times[name] * (each["high"] - each["low"]) for name, each in moved if name != LABEL and "low" in each]
    return math.sqrt(1.0 + sum(farthest)), max(widths, default=0.0)


def admitted_noise(
    trained: Trained,
    settings: Settings,
    limit: float,
    columns: Sequence[str] | None = None,
    bounds: Bounds | None = None,
    random_state: Seed = None,
    shape: Shape = None,
) -> Noise:
    """The least noise on a public grid with which nobody who could be in the table has an eta above a limit.

    The limit is on whole rows, in standard units, or on every value of each of ``columns``, in its own unit. ``shape`` is
    a public matrix, or "hessian" or "least-loss" for the rows' own, which is counted.
    """
    try:
        found = _calibrated_all(trained, limit, columns, bounds, random_state, shape)
    except NoUsefulBoundError as error:
        remedies = (_far_columns(trained, bounds), _enough(trained, limit, columns, bounds, shape))
        raise NoUsefulBoundError(" ".join([str(error), *filter(None, remedies)])) from None
    largest = max(found, key=lambda noise: noise.scale)
    told = calibration_of(largest)
    noise = largest.rescaled(largest.scale * trained.unit)
    if told is None:
        return noise
    own = _in_own_units(trained.design, settings, told.bounds or {})
    chance = _chance(trained, settings, found, own)
    return remembering(noise, replace(told, eta=limit, bounds=own, probability=chance, confidential=None))


def _chance(trained: Trained, settings: Settings, found: Sequence[Noise], bounds: Json) -> float:
    """That replacing one row changes the scale, at most: all limits together, in hundredths; 1 where it can change more."""
    records = [calibration_of(noise) for noise in found]
    chances = [1.0 if record is None or record.probability is None else record.probability for record in records]
    settled = is_settled(trained.design, settings, bounds)
    return round(min(1.0, sum(chances)), 2) if settled else 1.0


def _far_columns(trained: Trained, bounds: Bounds | None) -> str:
    """Which columns move a model farthest: where few people are far from all others, one more of them could be there."""
    leak = _with_levels(trained)
    declared = _in_standard_units(trained.design, bounds or {})
    known = admissible_rows(one_release(measurement(leak).information), measurement(leak).table, declared).bounds
    reach = {name: max(-each["low"], each["high"]) for name, each in known.items() if name != LABEL and "low" in each}
    far = sorted((name for name in reach if reach[name] > FAR), key=lambda name: -reach[name])[:MOST_NAMED]
    if not far:
        return ""
    *others, last = (f"'{name}'" for name in far)
    named = f"Columns {', '.join(others)} and {last} reach" if others else f"Column {last} reaches"
    return f"{named} farthest: leave {'these' if others else 'it'} out with `drop`."


def _enough(trained: Trained, limit: float, columns: Sequence[str] | None, bounds: Bounds | None, shape: Shape) -> str:
    """Which penalty of a public grid a refused release needs, by halving; which model is released stays the user's choice."""
    if trained.weights is not None:
        return "Weights of rows decide too which `l2` is enough."
    larger = [l2 for l2 in PENALTIES if l2 > trained.l2]
    most = MOST_TRIED_HELD if trained.fit.intercept_l2 else MOST_TRIED
    if larger and trained.parameters > most:
        return (
            f"No larger `l2` is tried beyond {most} parameters, as it takes minutes; with `over='max'` keep "
            f"`l2={trained.l2:g}`."
        )

    def refused(l2: float) -> bool:
        other = trained_on(trained.kind, trained.design, l2, None, trained.public, l2 * bool(trained.fit.intercept_l2))
        try:
            _calibrated_all(other, limit, columns, bounds, 0, shape)
        except NoUsefulBoundError:
            return True
        return False

    place = bisect_left(larger, True, key=lambda l2: not refused(l2))
    if place == len(larger):
        return f"No `l2` up to {PENALTIES[-1]:g} is enough with these bounds."
    grid = ", ".join(f"{l2:g}" for l2 in PENALTIES[:4])
    return f"With these bounds `l2={larger[place]:g}` is the least of {grid}, … {PENALTIES[-1]:g} that is enough."


def least_admitted(
    trained: Trained,
    settings: Settings,
    limit: float,
    columns: Sequence[str] | None = None,
    bounds: Bounds | None = None,
    shape: Shape = None,
) -> tuple[float, Json]:
    """The least scale that keeps such a limit, before it is put on a grid, and what a card would say of how it was found.

    The scale is a number of the data, which stays in the house.
    """
    noises = _calibrated_all(trained, limit, columns, bounds, 0, shape)
    records = [calibration_of(noise) for noise in noises]
    needed = [
        r.confidential.upper / math.sqrt(r.eta**2 - r.confidential.second**2)
        for r in records
        if r is not None and r.eta is not None and r.confidential is not None
    ]
    told = calibration_of(max(noises, key=lambda noise: noise.scale))
    known = {} if told is None else _in_own_units(trained.design, settings, told.bounds or {})
    chance = _chance(trained, settings, noises, known)
    own = {} if told is None else told.record() | {"bounds": known, "probability": chance}
    return max(needed, default=math.nan) * trained.unit, own


def shape_of_card(card: Json, trained: Trained) -> NDArray[np.float64]:
    """The covariance of noise of least loss for anyone at scale 1, for the bounds that a card tells, computed again."""
    leak = _with_levels(trained)
    jacobian = measurement(leak).information.jacobians[0]
    declared = _in_standard_units(trained.design, declared_on(card))
    N = evenly_weighted(jacobian, admissible_rows(jacobian, measurement(leak).table, declared))
    return np.asarray(shape_for_anyone(linear_part(jacobian), N).shape)


def declared_on(card: Json) -> dict[str, tuple[float, float]]:
    """Bounds that a card says were declared."""
    told = card["noise"]["calibrated"]["bounds"]
    return {
        name: (float(record["low"]), float(record["high"]))
        for name, record in told.items()
        if record["from"] == "declared" and "low" in record
    }


def declared_ends(card: Json) -> int:
    """Of how many columns a card says that bounds were declared: in its settings or, as version 0.1.0 did, under noise."""
    told = card["noise"].get("calibrated", {}).get("bounds")
    return len({*dict(card["settings"].get("bounds", ())), *({} if told is None else declared_on(card))})


def _calibrated_all(
    trained: Trained,
    limit: float,
    columns: Sequence[str] | None,
    bounds: Bounds | None,
    random_state: Seed,
    shape: Shape,
) -> list[Noise]:
    """Noise in standard units for whole rows, or for each of some columns."""
    leak = _with_levels(trained)
    declared = _in_standard_units(trained.design, bounds or {})
    unit = {feature.name: feature.scale for feature in trained.design.features}
    return [
        calibrate(leak, limit, ADMISSIBLE, bounds=declared, random_state=random_state, shape=shape)
        if column is None
        else calibrate(
            *(leak, limit * unit.get(column, 1.0), ADMISSIBLE),
            attributes=[column],
            bounds=declared,
            random_state=random_state,
            shape=shape,
        )
        for column in (columns or (None,))
    ]


def _with_levels(trained: Trained) -> Leakage:
    """The leakage of the same model with categories known by their levels, not as indicators of their own."""
    import pandas

    jacobian = one_release(measurement(trained.leak).information)
    X, table, attributes = np.asarray(trained.design.X), {}, []
    for feature in trained.design.features:
        columns = list(feature.columns)
        if feature.kind == "number":
            table[feature.name] = X[:, columns[0]]
            attributes.append(Attribute(feature.name, columns))
            continue
        levels = _names(feature)
        codes = np.where(X[:, columns].max(axis=1) == 1.0, X[:, columns].argmax(axis=1) + 1, 0)
        table[feature.name] = np.array(levels, dtype=object)[codes]
        attributes.append(Attribute(feature.name, columns, None, Encoding(levels, np.eye(len(levels))[1:])))
    named = replace(jacobian, attributes=tuple(attributes))
    return Leakage(information_of(named), trained.leak.noise, as_table(pandas.DataFrame(table)))


def _names(feature: Feature) -> tuple[str, ...]:
    return tuple(str(level) for level in feature.levels)


def _in_standard_units(design: Design, bounds: Bounds) -> dict[str, Any]:
    """Bounds of numbers and of the label in standard units, and all levels of categories, which are public already."""
    target = design.target
    found: dict[str, Any] = {feature.name: _names(feature) for feature in design.features if feature.kind == "category"}
    known = {f.name: (f.centre, f.scale) for f in design.features if f.kind == "number"}
    if not target.classes:
        known[target.name] = (target.centre, target.scale)
    for name, (low, high) in bounds.items():
        own = target.name if name == LABEL and name not in known else name
        if own not in known:
            raise InvalidInputError(
                f"`bounds` name '{name}', which is no number that the model uses. {nearest(name, list(known))}"
            )
        centre, scale = known[own]
        found[LABEL if own == target.name else own] = ((low - centre) / scale, (high - centre) / scale)
    return found


def _in_own_units(design: Design, settings: Settings, bounds: Json) -> Json:
    """What a card says: bounds in the columns' own units, and whether levels were declared or are those of the rows."""
    units = {feature.name: (feature.centre, feature.scale) for feature in design.features}
    units[LABEL] = (design.target.centre, design.target.scale)
    declared = dict(settings.levels)
    found: Json = {}
    for name, record in bounds.items():
        centre, scale = units[name]
        own = dict(record)
        ends = design.declared.get(design.target.name if name == LABEL else name)
        if ends is not None:
            own |= {"low": ends[0], "high": ends[1]}
        elif "low" in own:
            own |= {"low": centre + scale * own["low"], "high": centre + scale * own["high"]}
        elif "levels" in own:
            own["from"] = "declared" if name in declared else "rows"
        found[design.target.name if name == LABEL else name] = own
    return found
