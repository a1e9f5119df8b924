"""Levels that encoders learned from a table, and how many rows have each: a rare one gives its rows away.

Its name tells of them, and so does a feature that rare levels are pooled in: without these rows it would not be there, and the
model would have a coefficient less.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from sklearn import compose, pipeline
from sklearn.base import is_classifier

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Estimator
from fisherleak.errors import UnsupportedModelError
from fisherleak.models.frames import Table
from fisherleak.models.steps.category_steps import plain_levels
from fisherleak.models.steps.flow import Flow, kept, start
from fisherleak.models.steps.scalers import LEVELS
from fisherleak.models.steps.transformers import chosen_columns, through

__all__ = ["check_common_classes", "check_common_levels", "learned_levels"]


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
