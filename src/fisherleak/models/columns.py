r"""From the columns of a raw table to the features of a model: who feeds which feature, and with what derivative.

A :class:`Flow` is walked through the fitted transformers. For every raw column it keeps a :class:`Block`: the features it
feeds and the derivative of these by the column, (k, m), or (n, k, m) where it differs from row to row. A number has m = 1 and
the derivative in its raw unit; a category has one direction for each indicator that encodes it. Adding a transformer is adding
one function to ``READERS``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn import compose, decomposition, feature_selection, impute, pipeline, preprocessing

from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.models.tables import Table, as_table
from fisherleak.perturbation import Attribute, tangent_basis

__all__ = ["READERS", "Flow", "attributes_of", "check_steps", "start", "through"]

Matrix = NDArray[np.float64]
Kind = Literal["number", "levels"]


@dataclass(frozen=True)
class Block:
    """Features that one raw column feeds, and their derivative by it."""

    columns: tuple[int, ...]
    directions: Matrix

    def local(self, n: int) -> Matrix:
        """Directions for every row, (n, k, m)."""
        if self.directions.ndim == 3:
            return self.directions
        return np.broadcast_to(self.directions, (n, *self.directions.shape))


Blocks = dict[tuple[str, Kind], Block]


@dataclass(frozen=True)
class Flow:
    """A table on its way through the transformers.

    Parameters
    ----------
    table : Table
        What the next transformer is given.
    raw : list of str or None
        For each column, the raw column whose value it still is, possibly as a code; None for a mixture.
    blocks : dict
        (raw column, kind) -> Block.
    """

    table: Table
    raw: list[str | None]
    blocks: Blocks


def start(table: Table) -> Flow:
    """The raw table: each numeric column feeds itself."""
    numeric = [j for j in range(len(table.names)) if table.is_numeric(j)]
    blocks: Blocks = {(table.names[j], "number"): Block((j,), np.ones((1, 1))) for j in numeric}
    return Flow(table, list(table.names), blocks)


def through(transformer: Any, flow: Flow) -> Flow:
    """The flow after a fitted transformer, or a refusal by class name."""
    if transformer is None or _is(transformer, "passthrough"):
        return flow
    if type(transformer) in READERS:
        return READERS[type(transformer)](transformer, flow)
    raise UnsupportedModelError(_refusal(transformer))


def check_steps(model: Any) -> None:
    """Refuse a pipeline with steps that cannot be attributed: they may hold models fitted on the labels."""
    if isinstance(model, pipeline.Pipeline):
        for _, step in model.steps[:-1]:
            _check_step(step)


def _check_step(step: Any) -> None:
    if step is None or isinstance(step, str):
        return
    if type(step) not in READERS:
        raise UnsupportedModelError(_refusal(step))
    for name in ("transformers_", "transformer_list", "steps"):
        for child in getattr(step, name, ()):
            _check_step(child[1])


def _refusal(transformer: Any) -> str:
    return (
        f"{type(transformer).__name__} is not supported: its features cannot be attributed to raw columns. Apply it before, "
        "and measure the model behind it on its features."
    )


def attributes_of(flow: Flow, names: Sequence[str]) -> tuple[Attribute, ...]:
    """One attribute for each raw column, in order; a column that feeds no feature has a direction of length zero."""
    n = flow.table.n
    attributes = []
    for name in names:
        parts = [flow.blocks[name, kind] for kind in ("number", "levels") if (name, kind) in flow.blocks]
        parts = [part for part in parts if part.columns]
        if not parts:
            attributes.append(Attribute(name, [0], np.zeros((1, 1))))
            continue
        block = parts[0] if len(parts) == 1 else _together(parts[0], parts[1], n, same_change=False)
        plain = np.array_equal(block.directions, np.eye(len(block.columns)))
        attributes.append(Attribute(name, block.columns, None if plain else block.directions))
    return tuple(attributes)


# Operations on flows


def _output(transformer: Any, flow: Flow) -> Table:
    """What the transformer makes of the table, dense."""
    try:
        values = transformer.transform(flow.table.values)
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InvalidInputError(
            f"{type(transformer).__name__} cannot transform X: {reason}. Pass the table the model was fitted on."
        ) from None
    if hasattr(values, "toarray"):
        values = values.toarray()
    return as_table(values)


def _linear(flow: Flow, table: Table, matrix: Matrix) -> Flow:
    """Features out = matrix @ features in (and a constant)."""
    blocks: Blocks = {}
    for key, block in flow.blocks.items():
        moved = matrix[:, list(block.columns)] @ block.directions
        blocks[key] = _without_zeros(Block(tuple(range(matrix.shape[0])), moved))
    return Flow(table, [None] * matrix.shape[0], blocks)


def _scaled(flow: Flow, table: Table, factors: Matrix) -> Flow:
    """Each column multiplied by a factor (and shifted)."""
    blocks = {
        key: Block(block.columns, factors[list(block.columns)][:, None] * block.directions)
        for key, block in flow.blocks.items()
    }
    return Flow(table, [None] * len(table.names), blocks)


def _kept(flow: Flow, table: Table, positions: Sequence[int]) -> Flow:
    """Some columns, in the order of ``positions``."""
    blocks: Blocks = {}
    for key, block in flow.blocks.items():
        at = {old: k for k, old in enumerate(block.columns)}
        columns = tuple(new for new, old in enumerate(positions) if old in at)
        blocks[key] = Block(columns, block.directions[..., [at[positions[new]] for new in columns], :])
    return Flow(table, [flow.raw[j] for j in positions], blocks)


def _without_zeros(block: Block) -> Block:
    """Without the features that it does not move."""
    others = (*range(block.directions.ndim - 2), -1)
    used = np.flatnonzero(np.any(block.directions != 0, axis=others))
    return Block(tuple(block.columns[k] for k in used), block.directions[..., used, :])


def _together(first: Block, second: Block, n: int, same_change: bool) -> Block:
    """Two blocks of one raw column, moved by the same change or by changes of their own."""
    if first.directions.ndim != second.directions.ndim:
        first, second = (Block(block.columns, block.local(n)) for block in (first, second))
    columns = tuple(dict.fromkeys(first.columns + second.columns))
    m, w = first.directions.shape[-1], second.directions.shape[-1]
    joined = np.zeros((*first.directions.shape[:-2], len(columns), m if same_change else m + w))
    joined[..., [columns.index(j) for j in first.columns], :m] = first.directions
    joined[..., [columns.index(j) for j in second.columns], (0 if same_change else m) :] += second.directions
    return Block(columns, joined)


def _joined(transformer: Any, flow: Flow, flows: Sequence[Flow]) -> Flow:
    """Flows side by side: the outputs of a ColumnTransformer or FeatureUnion."""
    n = flow.table.n
    blocks: Blocks = {}
    raw: list[str | None] = []
    offset = 0
    for part in flows:
        for key, block in part.blocks.items():
            moved = Block(tuple(j + offset for j in block.columns), block.directions)
            known = blocks.get(key)
            blocks[key] = moved if known is None else _together(known, moved, n, same_change=key[1] == "number")
        raw += part.raw
        offset += len(part.table.names)
    table = _output(transformer, flow)
    if len(table.names) != offset:
        raise UnsupportedModelError(
            f"{type(transformer).__name__} gives {len(table.names)} columns where its parts give {offset}, so they cannot be "
            "attributed to raw columns."
        )
    return Flow(table, raw, blocks)


# One function for each transformer


def _standard_scaler(transformer: Any, flow: Flow) -> Flow:
    table = _output(transformer, flow)
    scale = transformer.scale_ if transformer.with_std else None
    return _scaled(flow, table, np.ones(len(table.names)) if scale is None else 1.0 / scale)


def _robust_scaler(transformer: Any, flow: Flow) -> Flow:
    table = _output(transformer, flow)
    return _scaled(flow, table, 1.0 / transformer.scale_ if transformer.with_scaling else np.ones(len(table.names)))


def _min_max_scaler(transformer: Any, flow: Flow) -> Flow:
    return _scaled(flow, _output(transformer, flow), np.asarray(transformer.scale_))


def _max_abs_scaler(transformer: Any, flow: Flow) -> Flow:
    return _scaled(flow, _output(transformer, flow), 1.0 / transformer.scale_)


def _components(transformer: Any, flow: Flow) -> Flow:
    """PCA and its relatives: an affine map."""
    matrix = np.asarray(transformer.components_, dtype=np.float64)
    if getattr(transformer, "whiten", False):
        matrix = matrix / np.sqrt(transformer.explained_variance_)[:, None]
    return _linear(flow, _output(transformer, flow), matrix)


def _selector(transformer: Any, flow: Flow) -> Flow:
    return _kept(flow, _output(transformer, flow), transformer.get_support(indices=True).tolist())


def _imputer(transformer: Any, flow: Flow) -> Flow:
    """An imputer that had nothing to do passes everything on."""
    table = _output(transformer, flow)
    for j, name in enumerate(flow.table.names):
        before = flow.table.column(j).tolist()
        after = table.column(j).tolist() if j < len(table.names) else [None] * len(before)
        filled = [row for row, pair in enumerate(zip(before, after, strict=True)) if not _same(*pair)]
        if filled:
            raise InvalidInputError(
                f"{type(transformer).__name__} filled {len(filled)} missing value{'s' if len(filled) > 1 else ''} of column "
                f"'{name}' (first in row {filled[0]}): a filled value belongs to no row. Drop these rows, or fill them before "
                "and fit without an imputer."
            )
    if len(table.names) != len(flow.table.names):
        raise UnsupportedModelError(
            f"{type(transformer).__name__} adds columns here, which is not supported: use add_indicator=False."
        )
    return Flow(table, flow.raw, flow.blocks)


def _same(before: Any, after: Any) -> bool:
    """Equal, where neither is missing: comparisons with pandas.NA are neither true nor false."""
    equal = before == after
    return isinstance(equal, (bool, np.bool_)) and bool(equal)


def _one_hot(transformer: Any, flow: Flow) -> Flow:
    table = _output(transformer, flow)
    infrequent = getattr(transformer, "infrequent_categories_", None)
    dropped = transformer.drop_idx_
    widths, full = [], []
    for j, levels in enumerate(transformer.categories_):
        rare = 0 if infrequent is None or infrequent[j] is None else len(infrequent[j]) - 1
        gone = 0 if dropped is None or dropped[j] is None else 1
        widths.append(len(levels) - rare - gone)
        full.append(gone == 0)
    return _levels(transformer, flow, table, widths, full)


def _ordinal(transformer: Any, flow: Flow) -> Flow:
    table = _output(transformer, flow)
    coded = _levels(transformer, flow, table, [1] * len(table.names))
    return Flow(table, flow.raw, coded.blocks)


def _levels(
    transformer: Any, flow: Flow, table: Table, widths: Sequence[int], full: Sequence[bool] | None = None
) -> Flow:
    """Encoders of categories: each input column feeds a block of its own.

    Where the indicators of a column are ``full`` (none was dropped) they always sum to one, and only changes that keep
    the sum count.
    """
    if sum(widths) != len(table.names):
        raise UnsupportedModelError(
            f"{type(transformer).__name__} gives {len(table.names)} columns where its categories account for {sum(widths)}, "
            "so they cannot be attributed to raw columns."
        )
    blocks: Blocks = {}
    place = 0
    for place_of, (name, width) in enumerate(zip(flow.raw, widths, strict=True)):
        if name is None:
            raise UnsupportedModelError(
                f"{type(transformer).__name__} behind a transformer that mixes or rescales columns is not supported: encode "
                "the raw column itself."
            )
        whole = full[place_of] if full is not None else False
        directions = np.eye(width) if not whole or width < 2 else tangent_basis(width)
        block = Block(tuple(range(place, place + width)), directions)
        known = blocks.get((name, "levels"))
        blocks[name, "levels"] = block if known is None else _together(known, block, flow.table.n, same_change=False)
        place += width
    return Flow(table, [None] * len(table.names), blocks)


def _polynomial(transformer: Any, flow: Flow) -> Flow:
    """Monomials: the derivative of each by each of its variables, row by row."""
    table = _output(transformer, flow)
    powers = np.asarray(transformer.powers_)
    X = np.column_stack([flow.table.column(j) for j in range(len(flow.table.names))]).astype(np.float64)
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
        blocks[key] = Block(tuple(int(k) for k in used), local @ block.directions)
    return Flow(table, [None] * len(table.names), blocks)


def _splines(transformer: Any, flow: Flow) -> Flow:
    """B-splines of single columns: their derivative, row by row."""
    table = _output(transformer, flow)
    count = len(transformer.bsplines_)
    each = len(table.names) // max(count, 1)
    X = np.column_stack([flow.table.column(j) for j in range(count)]).astype(np.float64)
    slopes = np.zeros((count, X.shape[0], each))
    for j, spline in enumerate(transformer.bsplines_):
        values = np.column_stack([table.column(j * each + k) for k in range(each)])
        accuracy = 1e-5 if values.dtype == np.float32 else 1e-9
        if not np.allclose(spline(X[:, j])[:, :each], values, rtol=accuracy, atol=accuracy):
            raise UnsupportedModelError(
                f"Column '{flow.table.names[j]}' has values outside the knots of SplineTransformer, which is not supported: "
                "use knots that cover it."
            )
        if spline.k > 0:
            slopes[j] = spline.derivative()(X[:, j])[:, :each]
    blocks: Blocks = {}
    for key, block in flow.blocks.items():
        columns = tuple(j * each + k for j in block.columns for k in range(each))
        given = block.local(X.shape[0])
        local = np.concatenate(
            [slopes[j][:, :, None] * given[:, q : q + 1, :] for q, j in enumerate(block.columns)]
            or [np.zeros((X.shape[0], 0, 1))],
            axis=1,
        )
        blocks[key] = Block(columns, local)
    return Flow(table, [None] * len(table.names), blocks)


def _function(transformer: Any, flow: Flow) -> Flow:
    if transformer.func is not None:
        raise UnsupportedModelError(
            "FunctionTransformer with a function of its own is not supported: its derivative is unknown. Apply the function "
            "to the table before."
        )
    return flow


def _pipeline(transformer: Any, flow: Flow) -> Flow:
    for _, step in transformer.steps:
        flow = through(step, flow)
    return flow


def _union(transformer: Any, flow: Flow) -> Flow:
    if transformer.transformer_weights:
        raise UnsupportedModelError(
            "FeatureUnion with transformer_weights is not supported: scale the features instead."
        )
    parts = [through(step, flow) for _, step in transformer.transformer_list if not _is(step, "drop")]
    return _joined(transformer, flow, parts)


def _column_transformer(transformer: Any, flow: Flow) -> Flow:
    if transformer.transformer_weights:
        raise UnsupportedModelError("ColumnTransformer with transformer_weights is not supported: scale them instead.")
    parts = []
    with warnings.catch_warnings():
        # scikit-learn 1.6 announces another form of the remainder's columns; both are read
        warnings.simplefilter("ignore", FutureWarning)
        chosen = [(step, _positions(columns, flow.table)) for _, step, columns in transformer.transformers_]
    for step, positions in chosen:
        if positions and not _is(step, "drop"):
            parts.append(through(step, _kept(flow, flow.table.select(positions), positions)))
    return _joined(transformer, flow, parts)


def _is(step: Any, word: str) -> bool:
    return isinstance(step, str) and step == word


def _positions(columns: Any, table: Table) -> list[int]:
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
    preprocessing.StandardScaler: _standard_scaler,
    preprocessing.RobustScaler: _robust_scaler,
    preprocessing.MinMaxScaler: _min_max_scaler,
    preprocessing.MaxAbsScaler: _max_abs_scaler,
    preprocessing.OneHotEncoder: _one_hot,
    preprocessing.OrdinalEncoder: _ordinal,
    preprocessing.PolynomialFeatures: _polynomial,
    preprocessing.SplineTransformer: _splines,
    preprocessing.FunctionTransformer: _function,
    decomposition.PCA: _components,
    decomposition.IncrementalPCA: _components,
    decomposition.TruncatedSVD: _components,
    feature_selection.VarianceThreshold: _selector,
    feature_selection.SelectKBest: _selector,
    feature_selection.SelectPercentile: _selector,
    impute.SimpleImputer: _imputer,
    impute.KNNImputer: _imputer,
    compose.ColumnTransformer: _column_transformer,
    pipeline.Pipeline: _pipeline,
    pipeline.FeatureUnion: _union,
}
"""Every transformer that can be attributed to raw columns, by its class."""
