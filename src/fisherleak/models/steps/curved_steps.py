"""Steps that are not affine: their derivatives differ from row to row.

Also here: encoders of categories: each input column feeds a block of its own, which follows its levels by a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fisherleak._support.namespaces import Estimator
from fisherleak.engine.jacobian.perturbation import Encoding
from fisherleak.engine.losses.multi_output import tangent_basis
from fisherleak.errors import UnsupportedModelError
from fisherleak.models.frames import Table
from fisherleak.models.steps.flow import Block, Blocks, Flow, output, together


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
    """Encoders of categories: each input column feeds a block of its own, which follows its levels by a matrix.

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
