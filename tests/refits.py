"""Derivatives of whole procedures by fitting again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from fisherleak.engine.fit.minimise import Fit, minimised_on
from fisherleak.engine.fit.training_data import training_data
from fisherleak.engine.losses import Loss, get_loss
from fisherleak.training.trained_model import Trained, spreads_in

__all__ = ["minimise_scaled", "moved_without", "numeric_jacobian"]


def minimise_scaled(
    X: Any, y: Any, loss: str | Loss, l2: float, weights: Any, intercept: bool, scales: Any, classes: Any = None
) -> Fit:
    """The minimum with l2 on each coefficient times its scale, as where scaling is folded in."""
    record = get_loss(loss)
    return minimised_on(training_data(X, y, weights, record, None, intercept, classes), record, l2, intercept, scales)


def numeric_jacobian(
    refit: Callable[[Any, Any], Any],
    frame: pd.DataFrame,
    y: Any,
    row: int,
    names: Sequence[str],
    label: bool,
    step: float = 1e-4,
) -> Any:
    """What ``refit(frame, y)`` does per unit of each value of a row that is there, then of its label, by central differences.

    Steps are parts of a column's standard deviation.
    """

    def slope(change: Callable[[float], Any], width: float) -> Any:
        return (change(width) - change(-width)) / (2.0 * width)

    def moved(name: str, by: float) -> Any:
        table: Any = frame.copy()
        table.loc[row, name] += by
        return refit(table, y)

    def relabelled(by: float) -> Any:
        other = y.astype(float).copy()
        other[row] += by
        return refit(frame, other)

    there = [name for name in names if not frame[name].isna()[row]]
    columns = [slope(partial(moved, name), step * frame[name].std()) for name in there]
    return np.column_stack([*columns, slope(relabelled, 1e-4)] if label else columns)


def moved_without(trained: Trained, rows: Any) -> float:
    """How far the parameters move where noise acts when some rows are left out: scaling and model fitted again."""
    design = trained.design
    rest = np.setdiff1d(np.arange(design.n), rows)
    _, scales = spreads_in(design)
    if trained.public == "nothing":
        numbers = [k for feature in design.features if feature.kind == "number" for k in feature.columns]
        scales[numbers] = design.X[rest][:, numbers].std(axis=0)
    own = (design.X[rest], design.y[rest])
    classes = design.target.classes if trained.kind.several else None
    # l2 is per row: the penalty of the rows that leave goes with them
    other = minimise_scaled(*own, trained.kind.loss, trained.l2, None, True, scales, classes)
    return float(np.linalg.norm(other.theta - trained.fit.theta))
