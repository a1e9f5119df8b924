"""A table on its way through fitted transformers: who feeds which feature, and with what derivative.

For every raw column a :class:`Flow` keeps a :class:`Block`: the features it feeds and the derivative of these by the column,
(k, m), or (n, k, m) where it differs from row to row. A number has m = 1 and the derivative in its raw unit; a category has
one direction for each indicator that encodes it.
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
    affine: bool = True
    """Whether they follow it by one affine map, wherever values lie, apart from rows that lack it."""

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
        attributes.append(Attribute(name, block.columns, directions, block.encoding, coded=coded, affine=block.affine))
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
        blocks[key] = _without_zeros(replace(block, columns=tuple(range(matrix.shape[0])), directions=moved))
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
        blocks[key] = replace(block, columns=columns, directions=directions)
    return replace(flow, table=table, raw=[flow.raw[j] for j in positions], blocks=blocks)


def _without_zeros(block: Block) -> Block:
    """Without the features that it does not move."""
    others = (*range(block.directions.ndim - 2), -1)
    used = np.flatnonzero(np.any(block.directions != 0, axis=others))
    columns = tuple(block.columns[k] for k in used)
    return replace(block, columns=columns, directions=block.directions[..., used, :])


def together(first: Block, second: Block, n: int, same_change: bool) -> Block:
    """Two blocks of one raw column, moved by the same change or by changes of their own."""
    if first.directions.ndim != second.directions.ndim:
        first, second = (replace(block, directions=block.local(n)) for block in (first, second))
    columns = tuple(dict.fromkeys(first.columns + second.columns))
    m, w = first.directions.shape[-1], second.directions.shape[-1]
    joined = np.zeros((*first.directions.shape[:-2], len(columns), m if same_change else m + w))
    joined[..., [columns.index(j) for j in first.columns], :m] = first.directions
    joined[..., [columns.index(j) for j in second.columns], (0 if same_change else m) :] += second.directions
    affine = first.affine and second.affine
    if first.encoding is None or second.encoding is None:
        return Block(columns, joined, affine=affine)
    return Block(columns, joined, first.encoding.beside(second.encoding), affine)


def joined(transformer: Estimator, flow: Flow, flows: Sequence[Flow]) -> Flow:
    """Flows side by side: the outputs of a ColumnTransformer or FeatureUnion."""
    n = flow.table.n
    blocks: Blocks = {}
    raw: list[str | None] = []
    offset = 0
    for part in flows:
        for key, block in part.blocks.items():
            if not block.columns:  # another part has the column
                continue
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


def plain_levels(levels: Any) -> list[Any]:
    """Levels as values of Python; what is not a number is one object, so that it equals itself."""
    values = levels.tolist() if hasattr(levels, "tolist") else list(levels)
    return [math.nan if isinstance(value, float) and math.isnan(value) else value for value in values]


# Steps that are not affine
