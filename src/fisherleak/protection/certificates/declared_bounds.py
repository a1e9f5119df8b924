"""Rows that could stand in the table: what the user declared, and for the rest what the rows show on a coarse grid.

A record within the bounds has, in every column, a number between two bounds or one of some categories; or all its features lie
in a ball.
Bounds that are not declared are taken from the observed range on a grid that no data decide (numbers of three binary digits,
then every power of two, every second, fourth, …, the even or the odd ones): the first on which the two values farthest out have
the same bound, so that none shows. One of them that is far from the others makes the grid coarser, which tells its rough size:
such ranges are better declared. Where three agree on the finest grid, no single row changes the bound.

Also here: missing values among the records that bounds admit: a leakage whose columns with gaps are read as any
other.

A cell that an imputer filled with a public value c lies where a value of c would: between the bounds, or it is refused. So a
record that lacks a value is one within the bounds. Its eta is not above that of the same record with c as its value, which
moves the model too. An indicator of missing values is a category of its own, as in a table's model. Records with any value
beside the indicator are admitted as well, which no imputer gives: bounds are a little larger than needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.checks import check_positive, nearest
from fisherleak._support.namespaces import Json
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.folding import Folding
from fisherleak.engine.jacobian.perturbation import Attribute, Encoding
from fisherleak.engine.norms import one_release
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.measurement import measurement
from fisherleak.models.frames import Table

if TYPE_CHECKING:
    from fisherleak.leakage.leakage import Leakage

Matrix = NDArray[np.float64]
LABEL, NORM = "label", "norm"
FEWEST = 5
"""Rows that a level must have where levels are not declared."""
FEWEST_IN_ALL = 30
"""Rows that must be there before bounds or levels are taken from them."""
GRIDS = ((0, 0), (1, 0), *((2**k, shift) for k in range(1, 9) for shift in (0, 2 ** (k - 1))))
"""Grids that are tried, from fine to coarse: three binary digits, then powers of two by width and shift of their exponents."""
MAPPING = "bounds must be a mapping from names of columns to (low, high) or categories"
AFFINE = 1e-7
"""Difference of a feature from what an affine map of the raw columns gives, relative to its size, that is rounding."""


@dataclass(frozen=True)
class AllowedRecords:
    """The rows that could be there, in the features of the model.

    Parameters
    ----------
    base : array of shape (d,)
        Features are this plus one choice from each part.
    parts : tuple of arrays of shape (k, d)
        The two ends of a number, or all levels of a category.
    labels : array
        The ends of the label, or both classes.
    radius : float or None
        All features lie in a ball around zero instead.
    bounds : dict
        The same for people and for a card: each column's bounds or levels, and whether they were declared or taken from rows.
    stable_under_replacement : bool
        Whether replacing any one row by another record within the bounds leaves all bounds as they are.
    """

    base: Matrix = field(repr=False)
    parts: tuple[Matrix, ...] = field(repr=False)
    labels: Matrix
    radius: float | None
    bounds: Json
    stable_under_replacement: bool


def checked_bounds(bounds: Any) -> dict[str, Any]:
    """What users may pass as ``bounds=``, by name: a mapping, or nothing."""
    if bounds is not None and not isinstance(bounds, Mapping):
        raise InvalidInputError(f"{MAPPING}; got {type(bounds).__name__}. Write bounds={{'age': (0, 120)}}, say.")
    given = dict(bounds or {})
    if not all(isinstance(name, str) for name in given):
        raise InvalidInputError(f"{MAPPING}; got a name that is no text. Arrays have the names x0, x1, …")
    return given


def allowed_records(jacobian: Jacobian, table: Table, bounds: Mapping[str, Any] | None) -> AllowedRecords:
    """What users may pass as ``bounds=``, compared with the rows that are present."""
    if not jacobian.several and jacobian.folding is not None and jacobian.folding.filling is not None:
        raise InvalidInputError(
            "over='any-record' has no bound for a mean or median that an imputer learned: fill missing values with a "
            "declared one, SimpleImputer(strategy='constant', fill_value=…), or call fl.protect with bounds, whose centres "
            "it fills in."
        )
    given = checked_bounds(bounds)
    names = [attribute.name for attribute in jacobian.attributes]
    unknown = [name for name in given if name not in {LABEL, NORM, *names}]
    if unknown:
        raise InvalidInputError(
            f"bounds name '{unknown[0]}', which is no column. {nearest(unknown[0], names)} Bounds of y are named '{LABEL}'."
        )
    labels, label_record, stable = _labels(jacobian, given.pop(LABEL, None))
    if NORM in given:
        return _ball(jacobian, given, labels, label_record, stable)
    X = np.asarray(host(jacobian.X), dtype=np.float64)
    record: Json = {}
    parts: list[Matrix] = []
    there = np.zeros_like(X)
    for attribute in jacobian.attributes:
        for read in _columns(attribute, table, X, given.get(attribute.name)):
            parts.append(read.choices)
            there += read.present
            record[read.name] = read.record
            stable &= read.stable
    base = X[0] - there[0]
    apart = np.abs(X - there - base)
    off = np.flatnonzero((apart > AFFINE * (1.0 + np.abs(X).max(axis=0))).any(axis=0))
    if off.size:
        raise InvalidInputError(
            f"Feature {off[0]} is no affine function of its columns, so no bound holds for records that are not in the "
            "table. Use `over='max'`, or apply the preprocessing before and declare bounds for its features."
        )
    return AllowedRecords(base, tuple(parts), labels, None, record | {LABEL: label_record}, stable)


def allowed_in(leakage: Leakage, bounds: Mapping[str, Any] | None) -> AllowedRecords:
    """The same for the one release of a leakage."""
    return allowed_records(one_release(measurement(leakage).information), measurement(leakage).table, bounds)


@dataclass(frozen=True)
class _Read:
    """One column: its choices and its present values as features, (k, d) and (n, d)."""

    name: str
    choices: Matrix
    present: Matrix
    record: Json
    stable: bool


def _columns(attribute: Attribute, table: Table, X: Matrix, given: Any) -> list[_Read]:
    """An attribute as columns of choices: one for a raw column, one for each feature of a block without one."""
    if attribute.directions is not None and attribute.local:
        raise InvalidInputError(
            f"Column '{attribute.name}' is preprocessed by a step that is not affine, so no bound holds for values that "
            "are not in the table. Use `over='max'`, clip=False for a scaler that clips, or apply the step before and measure "
            "the model on its features."
        )
    if attribute.directions is not None and not attribute.directions.any():
        return []
    columns = list(attribute.columns)
    spread = np.zeros((attribute.size, X.shape[1]))
    spread[:, columns] = np.eye(len(columns)) if attribute.directions is None else attribute.directions.T
    if attribute.encoding is not None:
        levels, known = attribute.encoding.levels, (attribute.encoding.matrix.T @ spread)
        given = levels if given is None and attribute.encoding.declared else given
        return [_levels(attribute.name, levels, known, table.named(attribute.name), given)]
    if attribute.size == 1 and attribute.name in table.names:
        values = table.numbers(table.names.index(attribute.name))
        return [_number(attribute.name, values, spread[0], given)]
    if attribute.directions is not None:
        raise InvalidInputError(
            f"attribute '{attribute.name}' has directions of its own, so that its values cannot be bounded. Use `over='max'`."
        )
    return [_number(f"{attribute.name}[{k}]", X[:, j], spread[k], given) for k, j in enumerate(columns)]


def _number(name: str, values: Matrix, direction: Matrix, given: Any) -> _Read:
    low, high, record, stable = _range(f"Column '{name}'", f"'{name}'", values, given)
    ends = np.array([low, high])[:, None] * direction[None, :]
    return _Read(name, ends, values[:, None] * direction[None, :], record, stable)


def _range(what: str, key: str, values: Matrix, given: Any) -> tuple[float, float, Json, bool]:
    """Ends of a range, declared or from rows; whether they stay when any one row is replaced."""
    if not np.isfinite(values).all():
        raise InvalidInputError(
            f"{what} has values that are missing or not finite, which no bounds admit. Drop these rows."
        )
    if given is None:
        _check_rows(what, values.size, f"bounds={{{key}: (low, high)}}")
        below, above = _outwards(-values), _outwards(values)
        if below is None or above is None:
            raise InvalidInputError(
                f"The least or largest value of {what} is so far from others that a rounded bound would reveal it: "
                f"declare the range with `bounds={{{key}: (low, high)}}`."
            )
        low, high = -below[0] + 0.0, above[0]
        return low, high, {"low": low, "high": high, "from": "rows"}, below[1] and above[1]
    try:
        low, high = (float(end) for end in given)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(f"bounds of {key} must be two numbers, (low, high); got {given!r}.") from None
    if not 0 < high - low < math.inf:
        raise InvalidInputError(
            f"bounds of {key} must be two finite numbers, the first the smaller, with a finite difference; got {given!r}."
        )
    outside = int(np.sum((values < low) | (values > high)))
    if outside:
        raise InvalidInputError(
            f"{what} has {outside} row{'s' if outside > 1 else ''} outside the declared bounds ({low:g}, {high:g}): declare "
            "wider ones, or clip the column before the model is fitted."
        )
    return low, high, {"low": low, "high": high, "from": "declared"}, True


def _check_rows(what: str, count: int, remedy: str) -> None:
    """Refuse ranges and levels that would be read off a few rows."""
    if count < FEWEST_IN_ALL:
        raise InvalidInputError(
            f"{what} has {count} row{'s' * (count != 1)}. Bounds and categories are computed from {FEWEST_IN_ALL} rows or "
            f"more: from fewer, they would reveal single rows. Declare them with `{remedy}`."
        )


def _outwards(values: Matrix) -> tuple[float, bool] | None:
    """The upper end on the finest grid on which the two largest values have the same; and whether a replaced row leaves it."""
    largest = np.sort(values)[::-1][:3]
    for grid in GRIDS:
        ends = [_above(float(value), *grid) for value in largest]
        if len(ends) > 1 and ends[0] == ends[1]:
            return ends[0], grid == GRIDS[0] and len(ends) > 2 and ends[2] == ends[0]
    return None


def _above(value: float, width: int, shift: int) -> float:
    """The least number of a public grid that is not below a value: of three binary digits, or a power of two on the grid."""
    if value == 0:
        return 0.0
    part, power = math.frexp(abs(value))
    turn = math.ceil if value > 0 else math.floor
    if width == 0:
        return math.copysign(math.ldexp(turn(8.0 * part) / 8.0, power), value)
    exponent = power if part > 0.5 and value > 0 else power - 1  # of the next power of two, towards larger values
    return math.copysign(2.0 ** min(shift + width * turn((exponent - shift) / width), 1000), value)


def _levels(name: str, levels: Sequence[Any], known: Matrix, column: Any, given: Any) -> _Read:
    """Levels of a category: those declared, else those with at least five rows. ``known`` are their features, (k, d)."""
    place = {_plain(level): k for k, level in enumerate(levels)}
    codes = np.array([place.get(_plain(value), -1) for value in np.asarray(column).tolist()])
    if (codes < 0).any():
        raise InvalidInputError(
            f"Column '{name}' has {int(np.sum(codes < 0))} rows with categories that its encoder does not know. Use "
            "`over='max'`."
        )
    present = known[codes]
    if given is not None:
        chosen = _declared_levels(name, place, given)
        outside = int(np.sum(~np.isin(codes, chosen)))
        if outside:
            raise InvalidInputError(
                f"Column '{name}' has {outside} row{'s' if outside > 1 else ''} with a category that is not among the declared "
                "ones: declare all of them, or pool them before the model is fitted."
            )
        return _Read(
            name, known[chosen], present, {"levels": [_shown(levels[k]) for k in chosen], "from": "declared"}, True
        )
    _check_rows(f"Column '{name}'", codes.size, f"bounds={{'{name}': [...]}}")
    same, group = np.unique(known, axis=0, return_inverse=True)
    counts = np.bincount(np.ravel(group)[codes], minlength=len(same))
    rare = int(np.sum((counts > 0) & (counts < FEWEST)))
    if rare:
        ordered = np.sort(
            counts[counts > 0]
        )  # with the next more frequent one, where the rare ones are too few for a pool
        pools = int(ordered[max(rare, int(np.searchsorted(np.cumsum(ordered), FEWEST)) + 1) - 1]) + 1
        raise InvalidInputError(
            f"Column '{name}' has {rare} categor{'ies' if rare > 1 else 'y'} with fewer than {FEWEST} rows, which show who has "
            f"them: declare all of them, OneHotEncoder(categories=[...]), or pool these, "
            f"min_frequency={max(pools, FEWEST)}."
        )
    chosen = [k for k in range(len(levels)) if counts[np.ravel(group)[k]] >= FEWEST]
    record = {"levels": [_shown(levels[k]) for k in chosen], "from": "rows"}
    return _Read(name, same[counts >= FEWEST], present, record, bool(counts[counts > 0].min() > FEWEST))


def _declared_levels(name: str, place: Mapping[Any, int], given: Any) -> list[int]:
    items = [given] if isinstance(given, str) else list(given)
    unknown = [item for item in items if _plain(item) not in place]
    if unknown or not items:
        raise InvalidInputError(
            f"bounds of '{name}' must be categories that its encoder knows; got {unknown[0] if unknown else given!r}. Fit the "
            "encoder with categories=."
        )
    return sorted({place[_plain(item)] for item in items})


def _plain(level: Any) -> Any:
    """A level as a key: what is missing equals itself, and numbers are numbers of Python."""
    level = level.item() if isinstance(level, np.generic) else level
    return "missing" if level is None or level != level else level


def _shown(level: Any) -> Any:
    level = level.item() if isinstance(level, np.generic) else level
    return level if isinstance(level, (str, int, float, bool)) else str(level)


def _labels(jacobian: Jacobian, given: Any) -> tuple[Matrix, Json, bool]:
    """The ends of the label, or both classes."""
    loss = jacobian.fit.loss
    y = np.asarray(host(jacobian.y), dtype=np.float64)
    if loss.labels.binary or getattr(loss, "classes", False):
        if given is not None:
            raise InvalidInputError(
                "bounds of 'label' cannot be given for a classifier, whose labels are its classes: leave them out."
            )
        count = 2 if loss.labels.binary else int(jacobian.fit.coef.shape[0])
        return np.arange(float(count)), {"classes": count, "from": "declared"}, True
    low, high, record, stable = _range("The label", "'label'", y, given)
    if not np.all(np.asarray(loss.labels.accepts(np.array([low, high])))):
        if given is not None:
            raise InvalidInputError(
                f"bounds of 'label' must be labels of the {loss.name} loss, {loss.labels.rule}; got {given!r}."
            )
        raise InvalidInputError(
            f"The label's range, rounded outwards, has values that the {loss.name} loss does not take ({loss.labels.rule}): "
            "declare it with `bounds={'label': (low, high)}`."
        )
    return np.array([low, high]), record, stable


def _ball(
    jacobian: Jacobian, given: dict[str, Any], labels: Matrix, label_record: Json, stable: bool
) -> AllowedRecords:
    """All features in a ball around zero."""
    radius = check_positive(given.pop(NORM), "bounds of 'norm'")
    if given:
        raise InvalidInputError(
            f"bounds hold a norm and '{next(iter(given))}': beside a norm, only the label may have bounds."
        )
    if any(attribute.directions is not None for attribute in jacobian.attributes):
        raise InvalidInputError(
            "bounds by a norm are for models on plain columns: measure the model behind the preprocessing on its features."
        )
    X = np.asarray(host(jacobian.X), dtype=np.float64)
    outside = int(np.sum(np.linalg.norm(X, axis=1) > radius))
    if outside:
        raise InvalidInputError(
            f"{outside} row{'s' if outside > 1 else ''} of X ha{'ve' if outside > 1 else 's'} a norm above the declared "
            f"{radius:g}: declare a larger one, or clip the rows before the model is fitted."
        )
    record: Json = {NORM: {"radius": radius, "from": "declared"}, LABEL: label_record}
    return AllowedRecords(np.zeros(X.shape[1]), (), labels, radius, record, stable)


Mask = NDArray[np.bool_]
MISSING = "(missing)"
INDICATOR = Encoding(("no", "yes"), np.array([[0.0, 1.0]]))
"""Whether a value is missing."""


def with_gaps_filled(leakage: Leakage, bounds: Mapping[str, Any] | None = None) -> Leakage:
    """The same leakage without gaps: filled cells are values, and indicators of missing ones categories of their own."""
    known = measurement(leakage)
    if known.absent is None or known.noise is None or len(known.information.fits) != 1:
        return leakage
    jacobian, absent = one_release(known.information), np.asarray(known.absent)
    if jacobian.folding is not None and jacobian.folding.filling is not None:
        return leakage  # refused by ``allowed_records``: what fills the gaps moves with the rows
    X = np.asarray(host(jacobian.X), dtype=np.float64)
    names, columns = list(known.table.names), [known.table.column(j) for j in range(len(known.table.names))]
    attributes: list[Attribute] = []
    for attribute, gone in zip(jacobian.attributes, absent.T, strict=True):
        whole = _whole(attribute, gone) if gone.any() and attribute.name in names else None
        attributes.append(attribute if whole is None else whole)
        if whole is not None:
            place = names.index(attribute.name)
            columns[place] = _filled(known.table.numbers(place), gone, X, whole)
            _check_within(attribute.name, float(columns[place][gone][0]), (bounds or {}).get(attribute.name))
    indicators = _indicators(X, attributes, absent, known.information.attributes)
    for attribute, told in indicators:
        attributes.append(attribute)
        names.append(attribute.name)
        columns.append(np.where(told, *reversed(INDICATOR.levels)).astype(object))
    table = Table(_beside(columns), names, False, known.table.index)
    return known.read_as(tuple(attributes), table, {each.columns[0]: each.name for each, _ in indicators})


def frame_of_indicators(leakage: Leakage) -> dict[str, tuple[float, float]]:
    """Bounds of the indicators of missing values: public, whatever the rows."""
    return {each.name: (0.0, 1.0) for each in measurement(leakage).jacobian.attributes if each.encoding is INDICATOR}


def _whole(attribute: Attribute, gone: Mask) -> Attribute | None:
    """An attribute whose directions differ at gaps only, with those of a value that is there; None for another."""
    directions = attribute.directions
    if directions is None or not attribute.affine or directions.ndim != 3 or directions.shape[-1] != 1 or gone.all():
        return None
    common = directions[np.flatnonzero(~gone)[0]]
    if directions[gone].any() or not np.all(directions[~gone] == common):
        return None
    plain = np.array_equal(common, np.eye(len(attribute.columns)))
    return Attribute(attribute.name, attribute.columns, None if plain else common)


def _filled(values: Matrix, gone: Mask, X: Matrix, attribute: Attribute) -> Matrix:
    """A column with what its gaps were filled with, read off the features."""
    there, direction = int(np.flatnonzero(~gone)[0]), np.ones(1)
    if attribute.directions is not None:
        direction = attribute.directions[:, 0]
    own = X[:, list(attribute.columns)]
    apart = own[gone] - own[there]
    filled = np.array(values)
    # features are base + direction times value, so that (x' - x).direction / |direction|^2 is the difference of values
    filled[gone] = values[there] + apart @ direction / float(direction @ direction)
    # the same in all gaps: rounding must not make values of it
    filled[gone] = filled[gone][0]
    return filled


def _check_within(name: str, value: float, ends: Any) -> None:
    """Refuse a filled value that is not within declared bounds."""
    try:
        low, high = (float(end) for end in ends)
    except (TypeError, ValueError):
        return  # none, or refused where bounds are read
    if not low <= value <= high:
        raise InvalidInputError(
            f"SimpleImputer fills gaps of column '{name}' with a value outside its declared bounds ({low:g}, {high:g}): fill "
            "them with a value within the bounds, or declare wider ones."
        )


def _indicators(X: Matrix, attributes: Any, absent: Mask, known: Any) -> list[tuple[Attribute, Mask]]:
    """Features that no column feeds and that tell where one is missing, each as a category, and the rows it tells of."""
    fed = {j for attribute in attributes for j in attribute.columns if not _feeds_nothing(attribute)}
    left = [k for k in range(len(known)) if absent[:, k].any()]
    found = []
    for j in (j for j in range(X.shape[1]) if j not in fed):
        values = np.unique(X[:, j])
        told = X[:, j] == values[-1]
        column = next((k for k in left if np.array_equal(absent[:, k], told)), None)
        if len(values) == 2 and column is not None:
            left.remove(column)
            step = [[float(values[1] - values[0])]]
            found.append((Attribute(f"{known[column].name} {MISSING}", [j], step, INDICATOR), told))
    return found


def _feeds_nothing(attribute: Attribute) -> bool:
    return attribute.directions is not None and not attribute.directions.any()


def _beside(columns: list[Any]) -> NDArray[Any]:
    table = np.empty((len(columns[0]), len(columns)), dtype=object)
    for j, column in enumerate(columns):
        table[:, j] = column
    return table


def check_deviations(folding: Folding, totals: bool = False) -> None:
    """Refuse folded scales that are no standard deviations; where their ``totals`` are needed, those that have none too."""
    if (totals and folding.totals is None) or np.any(np.asarray(host(folding.shares))):
        raise InvalidInputError(
            "over='any-record' supports scales that are standard deviations only: order statistics jump if a row is replaced. "
            "Use StandardScaler, or over='max'."
        )
