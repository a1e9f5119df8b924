"""Encoders of categories: each input column feeds a block of its own, which follows its levels by a matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fisherleak._support.namespaces import Estimator
from fisherleak.engine.encodings import Encoding, tangent_basis
from fisherleak.errors import UnsupportedModelError
from fisherleak.models.frames import Table
from fisherleak.models.steps.flow import Block, Blocks, Flow, output, together

__all__ = ["one_hot", "ordinal", "plain_levels"]


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
