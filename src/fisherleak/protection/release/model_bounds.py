r"""What declared bounds give a model of scikit-learn: numbers that decide penalty and covariance, and centres that fill gaps.

A limit in Python is per unit of the columns as they are given, and the rule counts in units of the bounds. A change of length
one in raw units is at most :math:`1 / \min_k u_k` in units :math:`u_k = (high_k - low_k) / \sqrt{12}`, so that a limit of eta
is taken as :math:`\eta \min_k u_k`: over the columns that it is on, and the label where that is a number.

The penalty of an estimator acts on the features that it sees. Behind a scaler these have a unit that is known beforehand, and
elsewhere that of their bounds: the l2 of the rule is multiplied by the geometric mean of these units squared.

What an imputer learned moves with every row, and no bound for any record is known for it. So gaps are filled as in a table's
model (``tables.design.gaps``): with the centre of the declared bounds, which no row moves, and an indicator for columns that
many rows lack, whose coefficient takes up what is between the centre and a plausible value, with noise as any other has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

from fisherleak._support.checks import nearest
from fisherleak._support.grids import units_within
from fisherleak._support.namespaces import Estimator, TableLike
from fisherleak._support.numbers import two_digits
from fisherleak.engine.changes.remade_covariance import public_curvature
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.models import Table, as_table
from fisherleak.models.steps.imputers import CentreImputer, has_public_centres
from fisherleak.models.steps.scalers import Scale
from fisherleak.models.steps.transformers import positions_in
from fisherleak.protection.certificates.declared_bounds import (
    LABEL,
    NORM,
    AllowedRecords,
    allowed_in,
    with_gaps_filled,
)
from fisherleak.protection.release.penalty_and_shape import (
    DEVIATIONS_IN_A_UNIT,
    PublicNumbers,
    taken_to_vary,
)

Vector = NDArray[np.float64]
BY_DEVIATION = ("StandardScaler", "RobustScaler")
"""Scalers behind which a column varies by about one; behind others it is about one wide."""
HALF_WIDTH = 6.0
"""Of bounds, in deviations: they are twelve apart."""


def model_numbers(
    leak: Leakage, scales: Sequence[Scale] | None, bounds: Mapping[str, Any] | None, eta: float, attributes: Any
) -> PublicNumbers:
    """Public numbers of a measured model; ``scales`` are those of scalers that are folded in."""
    whole, loss = with_gaps_filled(leak, bounds), leak.fits[0].loss
    allowed = allowed_in(whole, bounds)
    known, units = measurement(whole), _units(allowed)
    jacobian, (chosen, label) = known.jacobian, known.chosen(attributes, None)
    limited = [units[name] for name in units if (label if name == LABEL else _is_of(name, chosen))]
    limit = eta * min(limited, default=1.0)
    count = len(jacobian.X[0]) if allowed.radius is not None else len(units.keys() - {LABEL})
    rest = sum(float(np.max(np.sum(part**2, axis=1))) for part in _categories(allowed))
    scaled = scales is not None and any(scale.scaled for scale in scales)
    unit_of_label = units.get(LABEL, 1.0) if loss.unit_curvature else 1.0
    return PublicNumbers(
        *(int(jacobian.fit.theta.shape[0]), two_digits(jacobian.fit.n), limit, limit / DEVIATIONS_IN_A_UNIT),
        longest=math.sqrt(1.0 + count * HALF_WIDTH**2 + rest),
        widest=2.0 * HALF_WIDTH if scaled else 0.0,
        typical=_typical(allowed, scales, bounds),
        varies=taken_to_vary(loss.unit_curvature, LABEL in units) * unit_of_label**2,
        curvature=1.0 if loss.traits is None else public_curvature(loss),
        squared=loss.unit_curvature,
        shaped=not loss.several and loss.traits is not None,
    )


def _units(allowed: AllowedRecords) -> dict[str, float]:
    """Of columns and of the label, where they are numbers that vary; of a ball that of each of its columns."""
    wide = {name: each["high"] - each["low"] for name, each in allowed.bounds.items() if "low" in each}
    if allowed.radius is not None:
        wide[NORM] = 2.0 * allowed.radius / math.sqrt(len(allowed.base))
    return {name: width / math.sqrt(12.0) for name, width in wide.items() if width > 0}


def _is_of(name: str, attributes: Sequence[Attribute]) -> bool:
    """Whether bounds of this name are of one of some attributes: its own, those of a feature of a block, or of all."""
    return name == NORM or any(name == each.name or name.startswith(f"{each.name}[") for each in attributes)


def _categories(allowed: AllowedRecords) -> list[Vector]:
    """Choices of the attributes that are no numbers."""
    records = [record for name, record in allowed.bounds.items() if name not in (LABEL, NORM)]
    return [part for record, part in zip(records, allowed.parts, strict=True) if "levels" in record]


def _widths(allowed: AllowedRecords) -> tuple[Vector, Vector]:
    """Of every feature: the width that its bounds give it, and the middle."""
    if allowed.radius is not None:
        wide = np.full(len(allowed.base), 2.0 * allowed.radius / math.sqrt(len(allowed.base)))
        return wide, np.zeros_like(wide)
    low, high = allowed.base.copy(), allowed.base.copy()
    for part in allowed.parts:
        low, high = low + part.min(axis=0), high + part.max(axis=0)
    return high - low, 0.5 * (low + high)


def _typical(allowed: AllowedRecords, scales: Sequence[Scale] | None, bounds: Mapping[str, Any] | None) -> float:
    """The squared length of a typical row where noise that is the same on all acts: in the frame, or on raw features."""
    wide, middle = _widths(allowed)
    if scales is None:
        return 1.0 + float(np.sum((wide / (2.0 * HALF_WIDTH)) ** 2 + middle**2))
    # Bounds are taken to be six deviations apart here, as those of a target are, and a learned scale is one. Noise that is the
    # same on all is compared where one column's unit is far below the others', and a twelfth takes it for too cheap: of
    # diabetes in its own units, eta 1, R² is 0.09 with a twelfth and 0.31 with a sixth.
    return 1.0 + len(wide) * (12.0 / 36.0 if bounds else 1.0)


def unit_of_penalty(leak: Leakage, scales: Sequence[Scale] | None, bounds: Mapping[str, Any] | None) -> float:
    """The geometric mean of the squared units of the features that an estimator sees."""
    allowed = allowed_in(with_gaps_filled(leak, bounds), bounds)
    units = _widths(allowed)[0] / math.sqrt(12.0)
    for part in _categories(allowed):
        units[np.ptp(part, axis=0) > 0] = 1.0  # an indicator, as a table's model has it
    for k, scale in enumerate(scales or ()):
        if scale.scaled:
            units[k] = 1.0 if scale.name in BY_DEVIATION else 1.0 / math.sqrt(12.0)
    seen = units[units > 0]
    return float(f"{math.exp(2.0 * float(np.mean(np.log(seen)))):.1e}") if seen.size else 1.0


# Imputers

LEARNED = ("mean", "median")


def with_public_fills(estimator: Estimator, X: TableLike, bounds: Mapping[str, Any] | None) -> Any:
    """An unfitted copy with public centres in place of what imputers learn; itself where none learns anything."""
    table = as_table(X)
    if not isinstance(estimator, Pipeline) or not any(_learns(step) for _, step in estimator.steps[:-1]):
        return estimator
    made = clone(estimator)
    made.steps = [*_first(made.steps[:-1], table, X, bounds or {}), made.steps[-1]]
    return made


def public_fills(step: Any) -> dict[str, float]:
    """What gaps are filled with, by column, in a fitted model with public centres."""
    if has_public_centres(step):
        return dict(zip(_names_of(step), step.statistics_.tolist(), strict=True))
    children = [child for name in ("transformers_", "steps") for child in getattr(step, name, ())]
    return {name: value for child in children for name, value in public_fills(child[1]).items()}


def _learns(step: Any) -> bool:
    if type(step) is SimpleImputer:
        return step.strategy in LEARNED
    parts = [part for name in ("transformers", "steps") for part in getattr(step, name, ())]
    return any(_learns(part[1]) for part in parts)


def _first(steps: Sequence[tuple[str, Any]], table: Table, X: Any, bounds: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Steps of a pipeline, the first that does something replaced: behind it columns are no longer those of the table."""
    place = next((k for k, (_, step) in enumerate(steps) if step is not None and not isinstance(step, str)), None)
    return [(name, _replaced(step, table, X, bounds) if k == place else step) for k, (name, step) in enumerate(steps)]


def _replaced(step: Any, table: Table, X: Any, bounds: Mapping[str, Any]) -> Any:
    if isinstance(step, Pipeline):
        step.steps = _first(step.steps, table, X, bounds)
    elif isinstance(step, ColumnTransformer):
        step.transformers = [
            (name, _replaced(part, table.select(_chosen(columns, table, X)), X, bounds), columns)
            for name, part, columns in step.transformers
        ]
    elif type(step) is SimpleImputer and step.strategy in LEARNED:
        return CentreImputer(
            [_centre(name, step.strategy, bounds) for name in table.names], missing_values=step.missing_values
        )
    return step


def _chosen(columns: Any, table: Table, X: Any) -> list[int]:
    """Positions of the columns of a part, which a function may choose."""
    return positions_in(columns(X) if callable(columns) else columns, table)


def _centre(name: str, strategy: str, bounds: Mapping[str, Any]) -> float:
    try:
        low, high = (float(end) for end in bounds[name])
    except KeyError:
        raise InvalidInputError(
            f"SimpleImputer(strategy='{strategy}') learns what it fills gaps of column '{name}' with, and no bound for any "
            f"record is known for that: declare bounds={{'{name}': (low, high), …}}, whose centre is filled in instead."
        ) from None
    except (TypeError, ValueError, OverflowError):
        return math.nan  # refused where bounds are read
    return units_within(low, high)[0]


def clip_fills(model: Any, bounds: Mapping[str, Any], names: Sequence[str] | None = None) -> None:
    """Bring what imputers of a released model fill in into declared bounds, after the draw."""
    if not names or hasattr(model, "feature_names_in_"):
        names = _names_of(model)
    if isinstance(model, SimpleImputer) and model.strategy in LEARNED:
        for k, name in enumerate(names):
            if name in bounds:
                model.statistics_[k] = np.clip(model.statistics_[k], *_ends(name, bounds[name]))
    elif isinstance(model, ColumnTransformer):
        for _, part, columns in model.transformers_:
            listed = np.ravel(columns).tolist() if not isinstance(columns, slice) else []
            clip_fills(part, bounds, [each if isinstance(each, str) else names[each] for each in listed])
    else:
        for _, step in getattr(model, "steps", ()):
            clip_fills(step, bounds, names)


def _names_of(model: Any) -> list[str]:
    """What a fitted model, or a step of one, calls its columns."""
    known = getattr(model, "feature_names_in_", None)
    if known is not None:
        return [str(name) for name in known]
    return [f"x{k}" for k in range(int(getattr(model, "n_features_in_", 0)))]


def check_clipped(model: Any, bounds: Mapping[str, Any]) -> None:
    """Refuse bounds of what is no column of a model, and not its label either, before anything is drawn."""
    names = _names_of(model)
    for name in bounds:
        if name not in (*names, LABEL, NORM):
            raise InvalidInputError(f"bounds name '{name}', which is no column. {nearest(name, names)}")


def _ends(name: str, given: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in given)
    except (TypeError, ValueError, OverflowError):
        low = high = math.nan
    if not low < high:
        raise InvalidInputError(
            f"bounds of '{name}' must be two numbers, (low, high), the first smaller; got {given!r}."
        )
    return low, high
