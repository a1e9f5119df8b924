"""Fitted transformers of scikit-learn, each read as a step of a :class:`~fisherleak.models.steps.flow.Flow`.

Adding a transformer is adding one function to ``READERS``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn import compose, decomposition, feature_selection, impute, pipeline, preprocessing
from sklearn.base import clone

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Estimator
from fisherleak.engine.jacobian.perturbation import Encoding
from fisherleak.engine.losses.multi_output import tangent_basis
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.models.frames import Table
from fisherleak.models.steps.flow import (
    Block,
    Blocks,
    Flow,
    joined,
    kept,
    linear,
    output,
    plain_levels,
    scaled,
    steps_within,
    together,
    unfed,
)
from fisherleak.models.steps.imputers import CentreImputer, absent_cells
from fisherleak.models.steps.scalers import clips, pools


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


def _max_abs_scaler(transformer: Estimator, flow: Flow) -> Flow:
    """Affine, but for ``clip``, which scikit-learn has since 1.8."""
    after = _scaler(transformer, flow)
    return _clipped(flow, after, -transformer.max_abs_, transformer.max_abs_) if clips(transformer) else after


def _min_max_scaler(transformer: Estimator, flow: Flow) -> Flow:
    """Affine, but for ``clip``."""
    after = scaled(flow, output(transformer, flow), transformer.scale_)
    return _clipped(flow, after, transformer.data_min_, transformer.data_max_) if clips(transformer) else after


def _clipped(flow: Flow, after: Flow, low: Any, high: Any) -> Flow:
    """Values beyond a range move nothing, and at its ends the side within counts: not affine where all rows are within too."""
    X = np.column_stack([flow.table.numbers(j) for j in range(len(flow.table.names))])
    within = (host(low) <= X) & (host(high) >= X)
    blocks = {
        key: replace(block, directions=block.local(X.shape[0]) * within[:, list(block.columns), None], affine=False)
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
    if filled and not given.holds_numbers(j):
        raise InvalidInputError(
            f"{type(transformer).__name__} filled {len(filled)} missing value{'s' if len(filled) > 1 else ''} of column "
            f"'{name}' (first in row {filled[0]}), which holds text: a filled category is nobody's. Leave its imputer out, "
            "since OneHotEncoder takes missing values as a category, or fill them before."
        )
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


def one_hot(transformer: Estimator, flow: Flow) -> Flow:
    """An indicator for each level, those of rare levels shared."""
    table = output(transformer, flow)
    infrequent = getattr(transformer, "infrequent_categories_", None)
    matrices = []
    for j, levels in enumerate(transformer.categories_):
        rare = [] if infrequent is None or infrequent[j] is None else _places(infrequent[j], levels)
        gone = None if transformer.drop_idx_ is None else transformer.drop_idx_[j]
        matrices.append(_indicators(len(levels), rare, gone))
    return _levels(transformer, flow, table, matrices)


def _indicators(count: int, rare: list[int], gone: int | None) -> Any:
    """Indicators by level, (m, count): the rare ones share the last; the one that holds the level ``gone`` is dropped."""
    groups = [[k] for k in range(count) if k not in rare] + [rare] * bool(rare)
    return np.array([np.isin(range(count), group) for group in groups if gone not in group], dtype=float).reshape(
        -1, count
    )


def _places(chosen: Any, levels: Any) -> list[int]:
    known = plain_levels(levels)
    return [known.index(level) for level in plain_levels(chosen)]


def ordinal(transformer: Estimator, flow: Flow) -> Flow:
    """A code for each level."""
    table = output(transformer, flow)
    infrequent = getattr(transformer, "infrequent_categories_", [None] * len(table.names))
    codes = []
    for levels, rare in zip(transformer.categories_, infrequent, strict=True):
        groups = _indicators(len(levels), [] if rare is None else _places(rare, levels), None)
        codes.append(np.arange(len(groups), dtype=float)[None, :] @ groups)
        codes[-1][0, [level is math.nan for level in plain_levels(levels)]] = transformer.encoded_missing_value
    coded = _levels(transformer, flow, table, codes)
    return replace(flow, table=table, blocks=coded.blocks)


def _levels(transformer: Estimator, flow: Flow, table: Table, matrices: Sequence[Any]) -> Flow:
    """The flow behind an encoder, by the matrix of each column.

    Where every level has an indicator these always sum to one, and only changes that keep the sum count.
    """
    widths = [len(matrix) for matrix in matrices]
    if sum(widths) != len(table.names):
        raise UnsupportedModelError(
            f"{type(transformer).__name__} gives {len(table.names)} columns where its categories account for {sum(widths)}, "
            "so they cannot be attributed to raw columns."
        )
    blocks: Blocks = {}
    place, declared = 0, not (isinstance(transformer.categories, str) or pools(transformer))
    for name, levels, matrix in zip(flow.raw, transformer.categories_, matrices, strict=True):
        if name is None:
            raise UnsupportedModelError(
                f"{type(transformer).__name__} behind a transformer that mixes or rescales columns is not supported: encode "
                "the raw column itself."
            )
        width = len(matrix)
        full = width > 1 and bool((matrix.sum(axis=0) == 1).all())
        directions = tangent_basis(width) if full else np.eye(width)
        encoding = Encoding(tuple(plain_levels(levels)), directions.T @ matrix, declared)
        block = Block(
            tuple(range(place, place + width)), directions, _decoded(encoding, flow.blocks.get((name, "levels")))
        )
        known = blocks.get((name, "levels"))
        blocks[name, "levels"] = block if known is None else together(known, block, flow.table.n, same_change=False)
        place += width
    return replace(flow, table=table, raw=[None] * len(table.names), blocks=blocks)


def _decoded(encoding: Encoding, before: Block | None) -> Encoding | None:
    """An encoding of codes as one of the levels that were coded before; None where it is not known."""
    if before is None:
        return encoding if np.isfinite(encoding.matrix).all() else None
    if before.encoding is None or before.encoding.matrix.shape[0] != 1:
        return None
    codes = before.encoding.matrix[0].tolist()
    if len(set(codes)) < len(codes) or not set(encoding.levels) <= set(codes):
        return None
    named = tuple(before.encoding.levels[codes.index(code)] for code in encoding.levels)
    return Encoding(named, encoding.matrix, before.encoding.declared and encoding.declared)


def polynomial(transformer: Estimator, flow: Flow) -> Flow:
    """Monomials: the derivative of each by each of its variables, row by row."""
    table = output(transformer, flow)
    powers = np.asarray(transformer.powers_)
    X = np.column_stack([flow.table.numbers(j) for j in range(len(flow.table.names))])
    blocks: Blocks = {}
    for key, block in flow.blocks.items():
        used = np.flatnonzero((powers[:, list(block.columns)] > 0).any(axis=1))
        local = np.zeros((X.shape[0], used.size, len(block.columns)))
        for k, feature in enumerate(used):
            for q, variable in enumerate(block.columns):
                power = powers[feature].copy()
                if power[variable] > 0:
                    lead = power[variable]
                    power[variable] -= 1
                    local[:, k, q] = lead * np.prod(X**power, axis=1)
        affine = block.affine and int(powers.sum(axis=1).max()) <= 1
        blocks[key] = Block(tuple(int(k) for k in used), local @ block.directions, block.encoding, affine)
    return replace(flow, table=table, raw=[None] * len(table.names), blocks=blocks)


def splines(transformer: Estimator, flow: Flow) -> Flow:
    """B-splines of single columns: their derivative, row by row, from the side within at the ends of the knots."""
    if transformer.degree == 0:
        raise UnsupportedModelError(
            "SplineTransformer(degree=0) is not supported: its features are steps, which have no derivative. Use a degree of "
            "1 or more, or cut the column before and encode the categories."
        )
    table = output(transformer, flow)
    count = len(transformer.bsplines_)
    each = len(table.names) // max(count, 1)
    X = np.column_stack([flow.table.numbers(j) for j in range(count)])
    slopes = np.zeros((count, X.shape[0], each))
    bent = False
    for j, spline in enumerate(transformer.bsplines_):
        values = np.column_stack([table.column(j * each + k) for k in range(each)])
        accuracy = 1e-5 if values.dtype == np.float32 else 1e-9
        if not np.allclose(spline(X[:, j])[:, :each], values, rtol=accuracy, atol=accuracy):
            raise UnsupportedModelError(
                f"Column '{flow.table.names[j]}' has values outside the knots of SplineTransformer, which is not supported: "
                "use knots that cover it."
            )
        slopes[j], kinked = _slopes(spline, X[:, j], flow.side, each)
        bent |= kinked
    blocks: Blocks = {}
    for key, block in flow.blocks.items():
        columns = tuple(j * each + k for j in block.columns for k in range(each))
        given = block.local(X.shape[0])
        local = np.concatenate(
            [slopes[j][:, :, None] * given[:, q : q + 1, :] for q, j in enumerate(block.columns)]
            or [np.zeros((X.shape[0], 0, 1))],
            axis=1,
        )
        blocks[key] = Block(columns, local, block.encoding, affine=False)
    return replace(flow, table=table, raw=[None] * len(table.names), blocks=blocks, bent=flow.bent or bent)


def _slopes(spline: Any, x: Any, side: int, width: int) -> tuple[Any, bool]:
    """Derivatives of a column's splines towards one side, (n, width), and whether a value is on a knot where they jump."""
    first, last = spline.t[spline.k], spline.t[-spline.k - 1]
    # within a hair of a knot is on it: scaling before may have rounded
    hair = 1e-12 * max(abs(first), abs(last), last - first)
    slope = spline.derivative()
    inner = (x > first + hair) & (x < last - hair)
    towards = {s: slope(np.where(inner, x + s * hair, x))[:, :width] for s in (1, -1)}
    jumps = np.abs(towards[1] - towards[-1]).max(initial=0.0) > 1e-6 * np.abs(towards[1]).max(initial=0.0)
    return towards[side], bool(jumps)


READERS: dict[type, Callable[[Any, Flow], Flow]] = {
    preprocessing.StandardScaler: _scaler,
    preprocessing.RobustScaler: _scaler,
    preprocessing.MinMaxScaler: _min_max_scaler,
    preprocessing.MaxAbsScaler: _max_abs_scaler,
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
