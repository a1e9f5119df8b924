"""A table on its way through fitted transformers: who feeds which feature, and with what derivative.

For every raw column a :class:`Flow` keeps a :class:`Block`: the features it feeds and the derivative of these by the column,
(k, m), or (n, k, m) where it differs from row to row. A number has m = 1 and the derivative in its raw unit; a category has
one direction for each indicator that encodes it.

Also here: encoders of categories, and steps that are not affine, whose derivatives differ from row to row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Estimator
from fisherleak.engine.jacobian.perturbation import Attribute, Encoding
from fisherleak.engine.losses.multi_output import tangent_basis
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.models.frames import Table, as_table

Matrix = NDArray[np.float64]
Kind = Literal["number", "levels"]


@dataclass(frozen=True)
class Block:
    """Features that one raw column feeds, and their derivative by it; for levels also what the directions mean."""

    columns: tuple[int, ...]
    directions: Matrix
    encoding: Encoding | None = None

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
    side : int
        The side of which derivatives are taken where they jump: 1 for values a little larger, -1 for smaller ones.
    bent : bool
        Whether some value lies where a derivative jumps, so that the other side has another.
    absent : dict
        Raw column -> the rows where it was missing and an imputer filled it, (n,).
    """

    table: Table
    raw: list[str | None]
    blocks: Blocks
    side: int = 1
    bent: bool = False
    absent: dict[str, NDArray[np.bool_]] = field(default_factory=dict)


def steps_within(step: Estimator) -> Iterator[Estimator]:
    """A step, and all steps inside it, however deep."""
    if step is not None and not isinstance(step, str):
        yield step
        for name in ("transformers_", "transformer_list", "steps"):
            for child in getattr(step, name, ()):
                yield from steps_within(child[1])


def start(table: Table, side: int = 1) -> Flow:
    """The raw table: each column that holds numbers feeds itself."""
    numeric = [j for j in range(len(table.names)) if table.holds_numbers(j)]
    blocks: Blocks = {(table.names[j], "number"): Block((j,), np.ones((1, 1))) for j in numeric}
    return Flow(table, list(table.names), blocks, side)


def unfed(flow: Flow) -> list[str]:
    """Raw columns that are in the table as they were, and of which no derivative is known: they are no numbers."""
    fed = {j for block in flow.blocks.values() for j in block.columns}
    return [name for j, name in enumerate(flow.raw) if name is not None and j not in fed]


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
        block = parts[0] if len(parts) == 1 else together(parts[0], parts[1], n, same_change=False)
        plain = np.array_equal(block.directions, np.eye(len(block.columns)))
        directions, coded = None if plain else block.directions, (name, "levels") in flow.blocks
        attributes.append(Attribute(name, block.columns, directions, block.encoding, coded=coded))
    return tuple(attributes)


def output(transformer: Estimator, flow: Flow) -> Table:
    """What the transformer makes of the table, dense."""
    in_place = not flow.table.is_frame and not isinstance(flow.table.values, np.ndarray)
    try:
        with config_context(array_api_dispatch=True) if in_place else nullcontext():
            values = transformer.transform(flow.table.values)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{type(transformer).__name__} cannot transform X: {_why_not(str(error))}. Pass the table the model was fitted on."
        ) from None
    if hasattr(values, "toarray"):
        values = values.toarray()
    return as_table(values)


def _why_not(error: str) -> str:
    """What scikit-learn says of columns; what it says of cells may hold one."""
    said = " ".join(error.split())
    about_columns = re.match(r"X has \d+ features, but \w+ is expecting \d+ features", said)
    return about_columns[0] if about_columns else "a column of it holds values that this step does not take"


def linear(flow: Flow, table: Table, matrix: Any) -> Flow:
    """Features out = matrix @ features in (and a constant)."""
    matrix = host(matrix)
    blocks: Blocks = {}
    for key, block in flow.blocks.items():
        moved = matrix[:, list(block.columns)] @ block.directions
        blocks[key] = _without_zeros(Block(tuple(range(matrix.shape[0])), moved, block.encoding))
    return replace(flow, table=table, raw=[None] * matrix.shape[0], blocks=blocks)


def scaled(flow: Flow, table: Table, factors: Any) -> Flow:
    """Each column multiplied by a factor (and shifted)."""
    factors = host(factors)
    blocks = {
        key: replace(block, directions=factors[list(block.columns)][:, None] * block.directions)
        for key, block in flow.blocks.items()
    }
    return replace(flow, table=table, raw=[None] * len(table.names), blocks=blocks)


def kept(flow: Flow, table: Table, positions: Sequence[int]) -> Flow:
    """Some columns, in the order of ``positions``."""
    blocks: Blocks = {}
    for key, block in flow.blocks.items():
        at = {old: k for k, old in enumerate(block.columns)}
        columns = tuple(new for new, old in enumerate(positions) if old in at)
        directions = block.directions[..., [at[positions[new]] for new in columns], :]
        blocks[key] = Block(columns, directions, block.encoding)
    return replace(flow, table=table, raw=[flow.raw[j] for j in positions], blocks=blocks)


def _without_zeros(block: Block) -> Block:
    """Without the features that it does not move."""
    others = (*range(block.directions.ndim - 2), -1)
    used = np.flatnonzero(np.any(block.directions != 0, axis=others))
    return Block(tuple(block.columns[k] for k in used), block.directions[..., used, :], block.encoding)


def together(first: Block, second: Block, n: int, same_change: bool) -> Block:
    """Two blocks of one raw column, moved by the same change or by changes of their own."""
    if first.directions.ndim != second.directions.ndim:
        first, second = (replace(block, directions=block.local(n)) for block in (first, second))
    columns = tuple(dict.fromkeys(first.columns + second.columns))
    m, w = first.directions.shape[-1], second.directions.shape[-1]
    joined = np.zeros((*first.directions.shape[:-2], len(columns), m if same_change else m + w))
    joined[..., [columns.index(j) for j in first.columns], :m] = first.directions
    joined[..., [columns.index(j) for j in second.columns], (0 if same_change else m) :] += second.directions
    if first.encoding is None or second.encoding is None:
        return Block(columns, joined)
    return Block(columns, joined, first.encoding.beside(second.encoding))


def joined(transformer: Estimator, flow: Flow, flows: Sequence[Flow]) -> Flow:
    """Flows side by side: the outputs of a ColumnTransformer or FeatureUnion."""
    n = flow.table.n
    blocks: Blocks = {}
    raw: list[str | None] = []
    offset = 0
    for part in flows:
        for key, block in part.blocks.items():
            moved = replace(block, columns=tuple(j + offset for j in block.columns))
            known = blocks.get(key)
            blocks[key] = moved if known is None else together(known, moved, n, same_change=key[1] == "number")
        raw += part.raw
        offset += len(part.table.names)
    table = output(transformer, flow)
    if len(table.names) != offset:
        raise UnsupportedModelError(
            f"{type(transformer).__name__} gives {len(table.names)} columns where its parts give {offset}, so they cannot be "
            "attributed to raw columns."
        )
    absent = {name: mask for part in (flow, *flows) for name, mask in part.absent.items()}
    return Flow(table, raw, blocks, flow.side, flow.bent or any(part.bent for part in flows), absent)


# Encoders of categories: each input column feeds a block of its own, which follows its levels by a matrix


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


def plain_levels(levels: Any) -> list[Any]:
    """Levels as values of Python; what is not a number is one object, so that it equals itself."""
    values = levels.tolist() if hasattr(levels, "tolist") else list(levels)
    return [math.nan if isinstance(value, float) and math.isnan(value) else value for value in values]


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
    place = 0
    for name, levels, matrix in zip(flow.raw, transformer.categories_, matrices, strict=True):
        if name is None:
            raise UnsupportedModelError(
                f"{type(transformer).__name__} behind a transformer that mixes or rescales columns is not supported: encode "
                "the raw column itself."
            )
        width = len(matrix)
        full = width > 1 and bool((matrix.sum(axis=0) == 1).all())
        directions = tangent_basis(width) if full else np.eye(width)
        encoding = Encoding(tuple(plain_levels(levels)), directions.T @ matrix)
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
    return Encoding(tuple(before.encoding.levels[codes.index(code)] for code in encoding.levels), encoding.matrix)


# Steps that are not affine


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
        blocks[key] = Block(tuple(int(k) for k in used), local @ block.directions, block.encoding)
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
        blocks[key] = Block(columns, local, block.encoding)
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
