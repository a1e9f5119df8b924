"""Levels that a released encoder names: rare ones forgotten, and types that follow from those that stay."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.level_types import typed_levels
from fisherleak._support.namespaces import Estimator

__all__ = ["forget_rare", "with_own_types"]


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
