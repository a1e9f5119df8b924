"""The noise of a release for any record within the bounds: bounds in the columns' own units, and what a card says of them.

Limits on rows are in standard units, bounds in the columns' own. So the model is calibrated on a table of numbers in public
units and of levels, and its record is brought back: a column from low to high, declared or taken from rows.

Also here: whether replacing one row leaves all that a card tells beside the noise as it is: what the scale of the
noise rests on.

Kinds of columns are taken as they are; the kind of model, levels, columns that are left out, centres and scales are looked at.
All of it errs on one side: what may change counts as changed.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.checks import nearest
from fisherleak._support.grids import public_units
from fisherleak._support.namespaces import Json, Seed
from fisherleak._support.numbers import two_digits
from fisherleak.engine.changes.remade_covariance import linear_part, public_curvature
from fisherleak.engine.jacobian.perturbation import Attribute, Encoding
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.calibration_record import calibration_of, remembering
from fisherleak.engine.norms import information_of, one_release
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.models import as_table
from fisherleak.protection.calibrate.calibration import calibrate_for_any_record
from fisherleak.protection.certificates.data_dependent_covariance import check_grid
from fisherleak.protection.certificates.declared_bounds import LABEL, NORM, allowed_in
from fisherleak.protection.certificates.least_loss_for_any_record import evenly_weighted, shape_for_anyone
from fisherleak.protection.certificates.published_scale import seven_digits
from fisherleak.protection.certificates.worst_record import NoUsefulBoundError, copies_enough
from fisherleak.protection.release.penalty_and_shape import (
    DEVIATIONS_IN_A_UNIT,
    PENALTIES,
    PublicNumbers,
    taken_to_vary,
)
from fisherleak.releasing.least_deviation import least_deviation
from fisherleak.rows.summary import Moments
from fisherleak.tables import Design, Feature
from fisherleak.tables.decide.target import FEWEST_CODED, MOST_ASSUMED
from fisherleak.tables.design.gaps import Gaps, has_feature, has_level
from fisherleak.training.trained_model import Settings, Trained, trained_on

DIGITS = 9
"""Decimals of labels that came back from standard units."""


def is_settled(design: Design, settings: Settings, bounds: Json) -> bool:
    """Whether one row more, less or exchanged within its bounds, or one person's, leaves all of it as it is."""
    return (
        kind_settled(design)
        and not design.thin
        and all(_feature_settled(design, settings, feature) for feature in design.features)
        and _units_settled(design, bounds)
    )


def kind_settled(design: Design) -> bool:
    """Whether the kind of model stays: it was given, or the labels are far from those that ask for another one."""
    target, most = design.target, most_rows(design)
    if not target.assumed:
        return True
    labels = np.asarray(design.labels())
    if labels.dtype.kind not in "fiu":
        return True  # classes of text, of which there are always enough rows
    values, counts = np.unique(np.round(labels, DIGITS), return_counts=True)
    if target.classes:
        return bool(counts.min() - most >= (FEWEST_CODED if len(values) > 2 else 1))
    left = len(values) - min(most, int(np.sum(counts <= most)))
    if left <= 2:
        return False
    whole = values % 1 == 0
    if counts[~whole].sum() > most or left > MOST_ASSUMED:
        return True
    # codes of classes are a run from 0 or 1: no row makes one of numbers that lack several rows of another
    stays = values[counts > most]
    between = np.count_nonzero(whole & (values >= 1) & (values <= stays.max(initial=0)))
    if most < FEWEST_CODED and (stays.min(initial=0) < 0 or between < stays.max(initial=0)):
        return True
    # codes of classes come about where every number that too few have goes, or gets enough
    short = counts[whole & (counts < FEWEST_CODED)]
    return bool(np.sum(np.minimum(short, FEWEST_CODED - short)) > 2 * most)


def most_rows(design: Design) -> int:
    """Rows of one person at most."""
    return 1 if design.people is None else int(design.people.sizes.max())


def _feature_settled(design: Design, settings: Settings, feature: Feature) -> bool:
    """Whether a column stays, with its levels: those that are not declared have rows to spare."""
    if feature.of is not None:
        return True
    if not _gaps_settled(feature):
        return False
    X, most = np.asarray(design.X), most_rows(design)
    if feature.kind == "number":
        if not feature.few:
            return True
        _, counts = np.unique(X[~design.lacking(feature), feature.columns[0]], return_counts=True)
        return bool(counts.sum() - counts.max() - most >= settings.rare)
    if feature.name in dict(settings.levels):
        return True
    counts = X[:, list(feature.columns)].sum(axis=0)
    fewest = min([X.shape[0] - counts.sum(), *counts])
    return not (feature.pooled or feature.strays or fewest <= settings.rare)


def _units_settled(design: Design, bounds: Json) -> bool:
    """Whether replacing one row by another within its bounds leaves all public centres and scales as they are."""
    moved = design.unbounded
    known = {
        f.name: ((f.centre, f.scale), design.raw(f)[~design.lacking(f)]) for f in design.features if f.name in moved
    }
    target = design.target
    if target.bounds is None and not target.classes:
        own = target.centre + target.scale * np.asarray(design.y, dtype=np.float64)
        centre, scale = float(own.mean()), float(own.std())
        # a label that is not standardised is counted in such a unit too
        known[target.name] = (
            (target.centre, target.scale) if target.standardised else public_units(centre, scale),
            own,
        )
    return all(
        unit_settled(units, Moments.of(values), float(bounds[name]["low"]), float(bounds[name]["high"]))
        for name, (units, values) in known.items()
    )


def unit_settled(units: tuple[float, float], known: Moments, low: float, high: float, rows: int = 1) -> bool:
    """Whether k values more, less or exchanged between two ends move neither centre nor scale across an edge of its grid."""
    return {public_units(*each) for each in moved_moments(known, low, high, rows)} == {units}


def moved_moments(known: Moments, low: float, high: float, rows: int = 1) -> list[tuple[float, float]]:
    r"""Means and standard deviations between which those with k values more, less or exchanged lie; none where one may be zero.

    With m the mean, R the farthest end from it and r = n - k, the mean moves by at most k (high - low) / r and the variance by
    at most :math:`k R^2 / r + (k (high - low) / r)^2`.
    """
    mean, variance, left = known.mean, known.squares / known.count, known.count - rows
    if left <= 0:
        return []
    shifted, reach = rows * (high - low) / left, max(high - mean, mean - low)
    moved = rows * reach**2 / left + shifted**2
    if variance <= moved:
        return []
    shifts, changes = (-shifted, shifted), (-moved, moved)
    return [(mean + shift, math.sqrt(variance + change)) for shift in shifts for change in changes]


def _gaps_settled(feature: Feature) -> bool:
    """Whether one more or one less who lacks a column changes neither a level nor a feature for that."""
    gaps, rule = feature.gaps, has_feature if feature.kind == "number" else has_level
    if feature.kind == "category" and feature.pooled:
        return True
    near = [Gaps(gaps.rows, gaps.lacking + k, gaps.having - k) for k in (-1, 0, 1)]
    return len({rule(each) for each in near}) == 1


Bounds = Mapping[str, tuple[float, float]]
Shape = NDArray[np.float64] | str | None
MOST_TRIED, MOST_TRIED_HELD = 300, 1000
"""Parameters of a model for which they are tried; the second where all have a penalty, which takes seconds."""
FAR = 6.0
"""Columns whose bounds reach farther than this from their centre, in standard units, are named where no bound holds."""
NOT_ENOUGH = f"No `l2` up to {PENALTIES[-1]:g} is enough with these bounds."
MOST_NAMED = 3
"""At a time: without them the refusal, if it is still one, names others."""


@dataclass(frozen=True)
class AnyRecordLimit:
    """A limit on the eta of any record within the bounds of a table, and the covariance of the noise that is to keep it.

    Attributes
    ----------
    limit : float
        On whole rows, in standard units, or on every value of each of ``columns``, in its own unit.
    columns : sequence of str or None
    bounds : mapping
        Declared ends of columns and of the target, in their own units.
    shape : matrix, str or None
        A public matrix, or "hessian" or "least-loss" for that of the rows, which is counted.
    rows_per_person : int or None
        Where it is given, the limit is on all rows of a person.
    """

    limit: float
    columns: Sequence[str] | None = None
    bounds: Bounds = field(default_factory=dict, repr=False)
    shape: Shape = field(default=None, repr=False)
    rows_per_person: int | None = None

    def of_one_row(self, units: Mapping[str, float]) -> float:
        """The part of it that one row has, in standard units; of several columns the least."""
        least = min((units.get(name, 1.0) for name in self.columns or ()), default=1.0)
        return self.limit / (self.rows_per_person or 1) * least


def public_numbers(trained: Trained, asked: AnyRecordLimit, reach: tuple[float, float] | None = None) -> PublicNumbers:
    """What the rule for penalty and covariance knows of a trained model; ``reach`` is of ``reach_of``, where it is known."""
    loss, target, times = trained.fit.loss, trained.design.target, _times(trained.design)
    own, (longest, widest) = asked.of_one_row(_units(trained.design)), reach or reach_of(trained, asked.bounds)
    widest = 0.0 if trained.folding is None else widest  # no column's scale moves
    return PublicNumbers(
        *(
            trained.parameters,
            two_digits(trained.design.n),
            own,
            own / max(times.values(), default=1.0),
            longest,
            widest,
        ),
        typical=1.0 + sum(times.get(f.name, 1.0) ** -2 for f in trained.design.features),
        varies=taken_to_vary(loss.unit_curvature, target.bounds is not None) * trained.unit**2,
        curvature=1.0 if loss.traits is None else public_curvature(loss),
        squared=loss.unit_curvature,
        classes=trained.outputs if trained.kind.several else None,
        shaped=not (trained.kind.several or loss.traits is None),
    )


def _units(design: Design) -> dict[str, float]:
    """The standard unit of each column, in its own."""
    return {feature.name: feature.scale for feature in design.features}


def _times(design: Design) -> dict[str, float]:
    r"""How many standard deviations make a unit of each number, and of the target, as far as public numbers tell.

    About one where the unit comes from the rows. Declared bounds tell no deviation: their unit is their width over
    :math:`\sqrt{12}`, and a column is taken to vary by a twelfth of the width, so that both ends are six deviations away.
    """
    known = {feature.name: feature.bounds for feature in design.features if feature.kind == "number"}
    known |= {design.target.name: design.target.bounds} if design.target.standardised else {}
    return {name: 1.0 if bounds is None else DEVIATIONS_IN_A_UNIT for name, bounds in known.items()}


def reach_of(trained: Trained, bounds: Bounds) -> tuple[float, float]:
    """The longest record within the bounds with its constant, and how far apart values of a number are, at every penalty.

    Both in standard deviations of columns, as ``_times`` takes them.
    """
    times, (leak, ends) = _times(trained.design), _in_levels(trained, bounds)
    allowed = allowed_in(leak, ends)
    names = [attribute.name for attribute in measurement(leak).information.attributes]
    own = zip(names, allowed.parts, strict=True)
    farthest = [times.get(name, 1.0) ** 2 * float(np.max(np.sum(part**2, axis=1))) for name, part in own]
    numbers = {name: each for name, each in allowed.bounds.items() if name != LABEL and "low" in each}
    widths = [times[name] * (each["high"] - each["low"]) for name, each in numbers.items()]
    return math.sqrt(1.0 + sum(farthest)), max(widths, default=0.0)


def admitted_noise(
    trained: Trained,
    settings: Settings,
    asked: AnyRecordLimit,
    random_state: Seed = None,
    remedy: bool = True,
    searched: bool = True,
) -> Noise:
    """The least noise on a public grid with which nobody who could be in the table has an eta above a limit.

    With ``remedy`` a refusal names the penalty that is enough, which takes several fits. ``searched`` is as in
    ``calibrate_for_any_record``.
    """
    _refuse_reserved(trained.design)
    try:
        found = _calibrated_all(trained, asked, random_state, searched)
    except NoUsefulBoundError as error:
        enough = _enough(trained, asked) if remedy else NOT_ENOUGH
        last = remedy or trained.l2 >= PENALTIES[-1]
        people = _people_enough(trained, asked) if last else ""
        remedies = (_far_columns(trained, asked.bounds), enough, people)
        raise NoUsefulBoundError(" ".join([str(error), *filter(None, remedies)])) from None
    largest = max(found, key=lambda noise: noise.scale)
    told = calibration_of(largest)
    noise = largest.rescaled(seven_digits(largest.scale * trained.unit))
    if told is None:
        return noise
    own = _in_own_units(trained.design, settings, told.bounds or {})
    named = told.shape
    if named is not None:
        told = replace(told, least=least_of(trained, named, own))
        check_grid(remembering(noise, told), named)
    # how likely a row changes the scale follows from all rows, and no noise is on it: a card claims nothing
    return remembering(noise, replace(told, eta=asked.limit, bounds=own, probability=1.0, confidential=None))


def least_of(trained: Trained, shape: str, bounds: Json | None = None) -> float:
    """The least deviation of noise with a data-dependent covariance, as the model card of a release has it."""
    design = trained.design
    return least_deviation(shape, trained.kind, design.features, two_digits(design.n), float(trained.l2), bounds)


def _refuse_reserved(design: Design) -> None:
    """Refuse columns with the names that stand for the target and for a row's length among bounds."""
    for feature in design.features:
        if feature.name in (LABEL, NORM):
            raise InvalidInputError(
                f"A column is called '{feature.name}', which means something else among the bounds of a limit for any record: "
                f"rename it in the table, or leave it out with `drop=[{feature.name!r}]`."
            )


def _chance(trained: Trained, settings: Settings, found: Sequence[Noise], bounds: Json) -> float:
    """That replacing one row changes the scale, at most: all limits together, in hundredths; 1 where it can change more."""
    records = [calibration_of(noise) for noise in found]
    chances = [1.0 if record is None or record.probability is None else record.probability for record in records]
    settled = is_settled(trained.design, settings, bounds)
    return round(min(1.0, sum(chances)), 2) if settled else 1.0


def _far_columns(trained: Trained, bounds: Bounds) -> str:
    """Which columns move a model farthest: where few people are far from all others, one more of them could be there."""
    known = allowed_in(*_in_levels(trained, bounds)).bounds
    reach = {name: max(-each["low"], each["high"]) for name, each in known.items() if name != LABEL and "low" in each}
    far = sorted((name for name in reach if reach[name] > FAR), key=lambda name: -reach[name])[:MOST_NAMED]
    if not far:
        return ""
    *others, last = (f"'{name}'" for name in far)
    named = f"Columns {', '.join(others)} and {last} reach" if others else f"Column {last} reaches"
    return f"{named} farthest: leave {'these' if others else 'it'} out with `drop`."


def _enough(trained: Trained, asked: AnyRecordLimit) -> str:
    """Which penalty of a public grid a refused release needs, by halving; which model is released stays the user's choice."""
    if trained.weights is not None:
        return "Row weights also decide which `l2` is enough."
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
            _calibrated_all(other, asked, 0)
        except NoUsefulBoundError:
            return True
        return False

    place = bisect_left(larger, True, key=lambda l2: not refused(l2))
    if place == len(larger):
        return NOT_ENOUGH
    grid = ", ".join(f"{l2:g}" for l2 in PENALTIES[:4])
    return (
        f"With these bounds `l2={larger[place]:g}` is the least of {grid}, … {PENALTIES[-1]:g} that is enough. Narrower "
        "`bounds` need less, and keep more of the model."
    )


def _people_enough(trained: Trained, asked: AnyRecordLimit) -> str:
    """How many people like these would do."""
    people = trained.design.people
    if people is None or asked.rows_per_person is None:
        return ""
    times = copies_enough(*_in_levels(trained, asked.bounds), asked.rows_per_person)
    if times is None:
        return ""
    enough = times * people.count
    return f"{enough:,} people like these would not be refused at `l2={trained.l2:g}`; there are {people.count:,}."


def least_admitted(trained: Trained, settings: Settings, asked: AnyRecordLimit) -> tuple[float, Json]:
    """The least scale that keeps such a limit, before it is put on a grid, and what a model card would say of how it was found.

    The scale is a number of the data, which is kept internal.
    """
    noises = _calibrated_all(trained, asked, 0)
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
    """The covariance of noise of least loss for anyone at scale 1, for the bounds that a model card tells, computed again."""
    leak, bounds = _in_levels(trained, declared_on(card))
    jacobian = measurement(leak).information.jacobians[0]
    N = evenly_weighted(jacobian, allowed_in(leak, bounds))
    return np.asarray(shape_for_anyone(linear_part(jacobian), N).shape)


def declared_on(card: Json) -> dict[str, tuple[float, float]]:
    """Bounds that a model card says were declared."""
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


def _calibrated_all(trained: Trained, asked: AnyRecordLimit, random_state: Seed, searched: bool = True) -> list[Noise]:
    """Noise in standard units for whole rows, or for each of some columns; for all rows of a person where these are known."""
    people = trained.design.people if asked.rows_per_person is not None else None
    return [
        calibrate_for_any_record(
            leak,
            own,
            attributes,
            bounds=declared,
            random_state=random_state,
            shape=asked.shape,
            person=None if people is None else people.of_row,
            rows_per_person=asked.rows_per_person,
            searched=searched,
        )
        for leak, own, attributes, declared in leaks_of_limits(trained, asked)
    ]


def leaks_of_limits(
    trained: Trained, asked: AnyRecordLimit
) -> list[tuple[Leakage, float, list[str] | None, dict[str, Any]]]:
    """For whole rows, or for each of some columns: a leakage, the limit, what it is on and bounds, all in standard units."""
    (leak, declared), unit = _in_levels(trained, asked.bounds), _units(trained.design)
    if not asked.columns:
        return [(leak, asked.limit, None, declared)]
    return [(leak, asked.limit * unit.get(column, 1.0), [column], declared) for column in asked.columns]


def _in_levels(trained: Trained, bounds: Bounds) -> tuple[Leakage, dict[str, Any]]:
    """The leakage of the same model with categories known by their levels, not as indicators of their own, and its bounds."""
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
    leak = Leakage(information_of(named), trained.leak.noise, as_table(pandas.DataFrame(table)))
    return leak, _in_standard_units(trained.design, bounds)


def _names(feature: Feature) -> tuple[str, ...]:
    return tuple(str(level) for level in feature.levels)


def _in_standard_units(design: Design, bounds: Bounds) -> dict[str, Any]:
    """Bounds of numbers and of the label in standard units, and all categories, which are public already."""
    target = design.target
    found: dict[str, Any] = {feature.name: _names(feature) for feature in design.features if feature.kind == "category"}
    known = {f.name: (f.centre, f.scale) for f in design.features if f.kind == "number"}
    if not target.classes:
        known[target.name] = (target.centre, target.scale)
    for name, (low, high) in bounds.items():
        own = target.name if name == LABEL and name not in known else name
        if own not in known:
            raise InvalidInputError(
                f"`bounds` name '{name}', which is no numeric column that the model uses. {nearest(name, list(known))}"
            )
        centre, scale = known[own]
        found[LABEL if own == target.name else own] = ((low - centre) / scale, (high - centre) / scale)
    return found


def _in_own_units(design: Design, settings: Settings, bounds: Json) -> Json:
    """What a model card says: bounds in the columns' own units, and whether levels were declared or are those of the rows."""
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
