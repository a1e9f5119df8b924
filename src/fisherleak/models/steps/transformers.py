"""Fitted transformers of scikit-learn, each read as a step of a :class:`~fisherleak.models.steps.flow.Flow`.

Adding a transformer is adding one function to ``READERS``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn import compose, decomposition, feature_selection, impute, pipeline, preprocessing
from sklearn.base import clone

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Estimator
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.models.frames import Table
from fisherleak.models.steps.flow import (
    Block,
    Flow,
    joined,
    kept,
    linear,
    one_hot,
    ordinal,
    output,
    polynomial,
    scaled,
    splines,
    steps_within,
    unfed,
)
from fisherleak.models.steps.imputers import CentreImputer, absent_cells


def through(transformer: Estimator, flow: Flow) -> Flow:
    """The flow after a fitted transformer, or a refusal by class name."""
    if transformer is None or transformer == "passthrough":
        return flow
    if type(transformer) in READERS:
        if type(transformer) in ARITHMETIC:
            _check_numbers(transformer, flow)
        return READERS[type(transformer)](transformer, flow)
    raise UnsupportedModelError(_refusal(transformer))


def _check_numbers(transformer: Estimator, flow: Flow) -> None:
    """Refuse columns that a transformer computes with and that cannot be read as numbers: their derivative is unknown."""
    text = unfed(flow)
    if text:
        raise InvalidInputError(
            f"Column '{text[0]}' goes into {type(transformer).__name__} but cannot be read as numbers. Turn it into numbers "
            "before, or encode it."
        )


def check_steps(model: Estimator) -> None:
    """Refuse a pipeline with steps that cannot be attributed: they may hold models fitted on the labels."""
    for step in every_step(model):
        if type(step) not in READERS:
            raise UnsupportedModelError(_refusal(step))


def every_step(model: Estimator) -> Iterator[Estimator]:
    """The steps before a pipeline's model, and the steps within them."""
    if isinstance(model, pipeline.Pipeline):
        for _, step in model.steps[:-1]:
            yield from steps_within(step)


def filled_by_other_rows(model: Estimator, table: Table, y: Any) -> Estimator | None:
    """The imputer of a fitted pipeline that learned what it fills in from other rows than these; None where there is none."""
    known = [step for step in every_step(model) if hasattr(step, "statistics_")]
    if not known:
        return None
    again = clone(model)
    labels = np.asarray(host(y) if hasattr(y, "detach") else y)
    again[:-1].fit(table.values, labels)
    fitted = [step for step in every_step(again) if hasattr(step, "statistics_")]
    pairs = zip(known, fitted, strict=True)
    return next((own for own, other in pairs if not _alike(own.statistics_, other.statistics_)), None)


def _alike(own: Any, other: Any) -> bool:
    """Whether what two imputers fill in is the same, to rounding; texts are the same or not."""
    try:
        return bool(np.allclose(own.astype(float), other.astype(float), rtol=1e-6, atol=1e-12, equal_nan=True))
    except (TypeError, ValueError):
        return [str(value) for value in own.tolist()] == [str(value) for value in other.tolist()]


def _refusal(transformer: Estimator) -> str:
    return (
        f"{type(transformer).__name__} is not supported: its features cannot be attributed to raw columns. Apply it before, "
        "and measure the model behind it on its features."
    )


# One function for each transformer


def _scaler(transformer: Estimator, flow: Flow) -> Flow:
    """Each column over its scale, where there is one."""
    table, scale = output(transformer, flow), transformer.scale_
    return scaled(flow, table, np.ones(len(table.names)) if scale is None else 1.0 / scale)


def _min_max_scaler(transformer: Estimator, flow: Flow) -> Flow:
    """Affine; with ``clip``, values beyond the range move nothing, and at its ends the side within counts."""
    after = scaled(flow, output(transformer, flow), transformer.scale_)
    if not transformer.clip or not flow.table.n:
        return after
    X = np.column_stack([flow.table.numbers(j) for j in range(len(flow.table.names))])
    low, high = host(transformer.data_min_), host(transformer.data_max_)
    within = (low <= X) & (high >= X)
    if within.all():
        return after
    blocks = {
        key: Block(block.columns, block.local(X.shape[0]) * within[:, list(block.columns), None])
        for key, block in after.blocks.items()
    }
    return replace(after, blocks=blocks)


def _components(transformer: Estimator, flow: Flow) -> Flow:
    """PCA and its relatives: an affine map."""
    matrix = host(transformer.components_).astype(np.float64)
    if getattr(transformer, "whiten", False):
        matrix = matrix / np.sqrt(host(transformer.explained_variance_))[:, None]
    return linear(flow, output(transformer, flow), matrix)


def _selector(transformer: Estimator, flow: Flow) -> Flow:
    return kept(flow, output(transformer, flow), transformer.get_support(indices=True).tolist())


def _imputer(transformer: Estimator, flow: Flow) -> Flow:
    """Columns as they are, but for cells that were filled: these belong to no row, and no change moves them."""
    table = output(transformer, flow)
    absent = absent_cells(transformer, flow.table)
    indicator = getattr(transformer, "indicator_", None)
    count = len(flow.table.names) + (0 if indicator is None else len(indicator.features_))
    if len(table.names) != count:
        raise UnsupportedModelError(
            f"{type(transformer).__name__} gives {len(table.names)} columns where {count} were to be expected, so they cannot "
            "be attributed to raw columns: drop columns without any value before."
        )
    for j, name in enumerate(flow.table.names):
        if j not in absent:
            _refuse_filled(transformer, flow.table, table, j, name)
    raw = [*flow.raw, *[None] * (count - len(flow.raw))]
    if not absent:
        return replace(flow, table=table, raw=raw)
    there = np.ones((table.n, len(flow.table.names)))
    known = dict(flow.absent)
    for j, mask in absent.items():
        there[mask, j] = 0.0
        known |= {name: mask for (name, _), block in flow.blocks.items() if j in block.columns}
    blocks = {
        key: replace(block, directions=block.local(table.n) * there[:, list(block.columns), None])
        if any(j in absent for j in block.columns)
        else block
        for key, block in flow.blocks.items()
    }
    return replace(flow, table=table, raw=raw, blocks=blocks, absent=known)


def _refuse_filled(transformer: Estimator, given: Table, table: Table, j: int, name: str) -> None:
    """Refuse a column of which an imputer filled cells in a way that cannot be followed."""
    after = table.column(j).tolist() if j < len(table.names) else [None] * given.n
    as_numbers = j < len(table.names) and table.is_numeric(j) and given.holds_numbers(j)
    before = (given.numbers(j) if as_numbers else given.column(j)).tolist()
    filled = [row for row, pair in enumerate(zip(before, after, strict=True)) if not _same(*pair)]
    if filled:
        raise InvalidInputError(
            f"{type(transformer).__name__} filled {len(filled)} missing value{'s' if len(filled) > 1 else ''} of column "
            f"'{name}' (first in row {filled[0]}): a filled value belongs to no row. Fill numbers by SimpleImputer with "
            "strategy 'mean', 'median' or 'constant', drop these rows, or fill them before and fit without an imputer."
        )


def _same(before: Any, after: Any) -> bool:
    """Equal, where neither is missing: comparisons with pandas.NA are neither true nor false."""
    equal = before == after
    return isinstance(equal, (bool, np.bool_)) and bool(equal)


def _function(transformer: Estimator, flow: Flow) -> Flow:
    if transformer.func is not None:
        raise UnsupportedModelError(
            "FunctionTransformer with a function of its own is not supported: its derivative is unknown. Apply the function "
            "to the table before."
        )
    return flow


def _pipeline(transformer: Estimator, flow: Flow) -> Flow:
    for _, step in transformer.steps:
        flow = through(step, flow)
    return flow


def _union(transformer: Estimator, flow: Flow) -> Flow:
    if transformer.transformer_weights:
        raise UnsupportedModelError(
            "FeatureUnion with transformer_weights is not supported: scale the features instead."
        )
    parts = [through(step, flow) for _, step in transformer.transformer_list if step != "drop"]
    return joined(transformer, flow, parts)


def _column_transformer(transformer: Estimator, flow: Flow) -> Flow:
    if transformer.transformer_weights:
        raise UnsupportedModelError("ColumnTransformer with transformer_weights is not supported: scale them instead.")
    parts = [
        through(step, kept(flow, flow.table.select(positions), positions))
        for step, positions in chosen_columns(transformer, flow.table)
    ]
    return joined(transformer, flow, parts)


def chosen_columns(transformer: Estimator, table: Table) -> list[tuple[Any, list[int]]]:
    """The steps of a ColumnTransformer that do something, each with the positions of its columns."""
    with warnings.catch_warnings():
        # scikit-learn 1.6 announces another form of the remainder's columns; both are read
        warnings.simplefilter("ignore", FutureWarning)
        chosen = [(step, positions_in(columns, table)) for _, step, columns in transformer.transformers_]
    return [(step, positions) for step, positions in chosen if positions and step != "drop"]


def positions_in(columns: Any, table: Table) -> list[int]:
    """The columns of a ColumnTransformer entry, as positions."""
    named = [columns.start, columns.stop] if isinstance(columns, slice) else np.ravel(columns).tolist()
    unknown = [item for item in named if isinstance(item, str) and item not in table.names]
    if unknown:
        raise InvalidInputError(
            f"The model chooses the column '{unknown[0]}' by name, and X has no such column. Pass the table it was fitted on."
        )
    if isinstance(columns, slice):
        edges = [table.names.index(edge) if isinstance(edge, str) else edge for edge in (columns.start, columns.stop)]
        # slices of names include their end, slices of numbers do not
        stop = edges[1] + 1 if isinstance(columns.stop, str) else edges[1]
        return list(range(len(table.names)))[edges[0] : stop : columns.step]
    items = [columns] if isinstance(columns, (str, int, np.integer)) else list(columns)
    if items and all(isinstance(item, (bool, np.bool_)) for item in items):
        return [j for j, chosen in enumerate(items) if chosen]
    return [table.names.index(item) if isinstance(item, str) else int(item) % len(table.names) for item in items]


READERS: dict[type, Callable[[Any, Flow], Flow]] = {
    preprocessing.StandardScaler: _scaler,
    preprocessing.RobustScaler: _scaler,
    preprocessing.MinMaxScaler: _min_max_scaler,
    preprocessing.MaxAbsScaler: _scaler,
    preprocessing.OneHotEncoder: one_hot,
    preprocessing.OrdinalEncoder: ordinal,
    preprocessing.PolynomialFeatures: polynomial,
    preprocessing.SplineTransformer: splines,
    preprocessing.FunctionTransformer: _function,
    decomposition.PCA: _components,
    decomposition.IncrementalPCA: _components,
    decomposition.TruncatedSVD: _components,
    feature_selection.VarianceThreshold: _selector,
    feature_selection.SelectKBest: _selector,
    feature_selection.SelectPercentile: _selector,
    impute.SimpleImputer: _imputer,
    CentreImputer: _imputer,
    impute.KNNImputer: _imputer,
    compose.ColumnTransformer: _column_transformer,
    pipeline.Pipeline: _pipeline,
    pipeline.FeatureUnion: _union,
}
"""Every transformer that can be attributed to raw columns, by its class."""

ARITHMETIC = {
    preprocessing.StandardScaler,
    preprocessing.RobustScaler,
    preprocessing.MinMaxScaler,
    preprocessing.MaxAbsScaler,
    preprocessing.PolynomialFeatures,
    preprocessing.SplineTransformer,
    decomposition.PCA,
    decomposition.IncrementalPCA,
    decomposition.TruncatedSVD,
}
"""Those that compute with the values of their columns."""
