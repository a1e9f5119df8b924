"""Imputers that learn a mean or median, replaced by public centres: for limits on any record within the bounds.

What an imputer learned moves with every row, and no bound for any record is known for it. So gaps are filled as in a table's
model (``tables.design.gaps``): with the centre of the declared bounds, which no row moves, and an indicator for columns that
many rows lack, whose coefficient takes up what is between the centre and a plausible value, with noise as any other has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

from fisherleak._support.checks import nearest
from fisherleak._support.grids import units_within
from fisherleak._support.namespaces import Estimator, TableLike
from fisherleak.errors import InvalidInputError
from fisherleak.models import Table, as_table
from fisherleak.models.steps.imputers import CentreImputer
from fisherleak.models.steps.transformers import positions_in
from fisherleak.protection.certificates.declared_bounds import LABEL, NORM

LEARNED = ("mean", "median")


def with_public_fills(estimator: Estimator, X: TableLike, bounds: Mapping[str, Any] | None) -> Any:
    """An unfitted copy with public centres in place of what imputers learn; itself where none learns anything."""
    table = as_table(X)
    if not isinstance(estimator, Pipeline) or not any(_learns(step) for _, step in estimator.steps[:-1]):
        return estimator
    if bounds is None:
        return estimator  # refused by name where the bound is taken
    made = clone(estimator)
    made.steps = [*_first(made.steps[:-1], table, X, bounds), made.steps[-1]]
    return made


def public_fills(step: Any) -> dict[str, float]:
    """What gaps are filled with, by column, in a fitted model with public centres."""
    if isinstance(step, CentreImputer):
        names = getattr(step, "feature_names_in_", [f"x{k}" for k in range(step.n_features_in_)])
        return dict(zip((str(name) for name in names), step.statistics_.tolist(), strict=True))
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
    known = getattr(model, "feature_names_in_", None)
    count = getattr(model, "n_features_in_", 0)
    names = [str(name) for name in known] if known is not None else names or [f"x{k}" for k in range(count)]
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


def check_clipped(model: Any, bounds: Mapping[str, Any]) -> None:
    """Refuse bounds of what is no column of a model, and not its label either, before anything is drawn."""
    known = getattr(model, "feature_names_in_", None)
    count = int(getattr(model, "n_features_in_", 0))
    names = [str(name) for name in known] if known is not None else [f"x{k}" for k in range(count)]
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
