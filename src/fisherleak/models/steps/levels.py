"""Levels that encoders learned from a table, how many rows have each, and which a release names: rare ones give rows away.

The name of a rare level tells of its rows, and so does a feature that rare levels are pooled in: without these rows it would
not be there, and the model would have a coefficient less.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import compose, pipeline
from sklearn.base import is_classifier

from fisherleak._support.arrays import host
from fisherleak._support.level_types import typed_levels
from fisherleak._support.namespaces import Estimator
from fisherleak.errors import UnsupportedModelError
from fisherleak.models.frames import Table
from fisherleak.models.steps.category_steps import plain_levels
from fisherleak.models.steps.flow import Flow, kept, start
from fisherleak.models.steps.scalers import LEVELS
from fisherleak.models.steps.transformers import chosen_columns, through

__all__ = ["check_common_classes", "check_common_levels", "forget_rare", "learned_levels", "with_own_types"]


def check_common_levels(model: Estimator, table: Table, few: int) -> None:
    """Refuse levels that an encoder learned by itself, keeps by name, and that fewer than ``few`` rows have."""
    if isinstance(model, pipeline.Pipeline) and not table.lazy:
        _check_steps(model.steps[:-1], start(table), few)


def check_common_classes(model: Estimator, y: Any, few: int) -> None:
    """Refuse classes that fewer than ``few`` rows have: their names leave with a classifier."""
    if not is_classifier(model):
        return
    _, counts = np.unique(np.asarray(host(y)), return_counts=True)
    if counts.min() < few:
        raise UnsupportedModelError(
            f"y has a class that only {counts.min()} of the rows have, and a released classifier would name it: leave these "
            "rows out, or pass public='levels'."
        )


def _check_steps(steps: Any, flow: Flow, few: int) -> None:
    for place, (_, step) in enumerate(steps):
        _check_levels(step, flow, few)
        if any(_encoders(later) for _, later in steps[place + 1 :]):
            flow = through(step, flow)


def learned_levels(step: Estimator) -> bool:
    """Whether an encoder in it learned its levels by itself."""
    return any(isinstance(encoder.categories, str) for encoder in _encoders(step))


def _encoders(step: Estimator) -> list[Estimator]:
    parts = ("transformers_", "transformer_list", "steps") if hasattr(step, "get_params") else ()
    children = [child for name in parts for child in getattr(step, name, ())]
    return [step] if isinstance(step, LEVELS) else [found for child in children for found in _encoders(child[1])]


def _check_levels(step: Estimator, flow: Flow, few: int) -> None:
    if isinstance(step, LEVELS):
        _check_encoder(step, flow, few)
    elif isinstance(step, pipeline.Pipeline):
        _check_steps(step.steps, flow, few)
    elif isinstance(step, pipeline.FeatureUnion):
        for _, part in step.transformer_list:
            _check_levels(part, flow, few)
    elif isinstance(step, compose.ColumnTransformer):
        for part, positions in chosen_columns(step, flow.table):
            _check_levels(part, kept(flow, flow.table.select(positions), positions), few)


def _check_encoder(encoder: Estimator, flow: Flow, few: int) -> None:
    if not isinstance(encoder.categories, str):
        return
    pooled = getattr(encoder, "infrequent_categories_", [None] * len(encoder.categories_))
    hidden = getattr(encoder, "handle_unknown", "error") == "infrequent_if_exist"
    for j, levels in enumerate(encoder.categories_):
        counts = Counter(plain_levels(flow.table.column(j)))
        nameless = plain_levels(pooled[j]) if hidden and pooled[j] is not None else []
        rare = [level for level in plain_levels(levels) if counts[level] < few and level not in nameless]
        if rare:
            raise UnsupportedModelError(
                f"Column '{flow.table.names[j]}' has a level that only {counts[rare[0]]} of the rows have, and "
                f"{type(encoder).__name__} would release its name: declare the levels with categories=…, pool rare ones with "
                f"min_frequency={few} and handle_unknown='infrequent_if_exist', or pass public='levels'."
            )
        pooling = sum(counts[level] for level in nameless)
        if 0 < pooling < few:
            raise UnsupportedModelError(
                f"Column '{flow.table.names[j]}' has rare levels that only {pooling} of the rows have, and the feature that "
                f"{type(encoder).__name__} pools them in tells that there are any: declare the levels with categories=…, "
                "unite them with another level, leave these rows out, or pass public='levels'."
            )


# Levels that a released encoder names: rare ones forgotten, and types that follow from those that stay.


def with_own_types(made: Any) -> Any:
    """An encoder whose levels have the types of those that are named, not of all cells that their columns had."""
    made.categories_ = [typed_levels(levels) for levels in made.categories_]
    return made


def forget_rare(made: Any, step: Estimator) -> None:
    """Leave the names of pooled levels out of an encoder: one that no row has stands for all of them.

    Values that it does not know, the rare ones now among them, go where the rare ones went. It drops the level that it dropped
    without ``drop`` among its parameters: with it scikit-learn warns of each such value.
    """
    made.drop = None
    for j, rare in enumerate(step._infrequent_indices):
        if rare is None:
            continue
        levels = step.categories_[j]
        frequent = np.setdiff1d(np.arange(len(levels)), rare)
        kept, place = _with_stand_in(typed_levels(levels[frequent]))
        made.categories_[j] = kept
        made._infrequent_indices[j] = np.array([place])
        mapping = np.arange(len(kept))
        mapping[place:] -= 1
        mapping[place] = len(frequent)
        made._default_to_infrequent_mappings[j] = mapping
        if made.drop_idx_ is not None and made.drop_idx_[j] is not None:
            made.drop_idx_[j] = int(np.flatnonzero(mapping == made._drop_idx_after_grouping[j])[0])


def _with_stand_in(levels: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """Levels and one more, in the order that their type needs, and its place."""
    count = len(levels)
    if levels.dtype.kind == "f":
        number = count - int(np.isnan(levels).sum())  # what is not a number comes last
        return np.insert(levels, number, math.inf), number
    if levels.dtype.kind in "ib":
        return np.append(levels.astype(np.int64), np.iinfo(np.int64).max), count
    kept = np.empty(count + 1, dtype=object)
    kept[:count], kept[count] = levels, "infrequent_sklearn"
    return kept, count
