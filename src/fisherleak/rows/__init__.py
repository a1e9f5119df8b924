"""How rows are walked, in memory or by Dask, whose only home this is: may import ``_support``; no losses, no scikit-learn.

``map_rows`` gives one value (or row of values) per example, ``sum_rows`` adds up small arrays. Both
call their function on slices of at most ``rows_per_block`` rows, so that memory beyond the input and
the output is O(block x d).

Rows may be lazy (Dask arrays). ``map_rows`` then gives a lazy array with one task per block, and nothing is computed;
``sum_rows`` computes one graph: a task per block and a tree of sums. The functions are the same, called on the
blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, device, host, is_lazy, like, namespace
from fisherleak._support.namespaces import Sums
from fisherleak.rows.cluster import connected, local_cluster, memory_of
from fisherleak.rows.dask_arrays import (
    aligned,
    at_most,
    computed,
    first_rows,
    lazy_frame,
    map_lazily,
    map_partitions,
    module,
    persisted,
    rows_of,
    sum_lazily,
    table_of_parts,
    task_items,
    with_known_rows,
)
from fisherleak.rows.memory import (
    Join,
    add,
    block_elements,
    each_in_order,
    map_in_memory,
    rows_per_block,
    sum_in_memory,
    threads_for,
)

__all__ = [
    "add",
    "aligned",
    "at_most",
    "block_elements",
    "blocks_of",
    "connected",
    "each_block",
    "each_in_order",
    "first_rows",
    "gather",
    "lazy_frame",
    "local_cluster",
    "map_partitions",
    "map_rows",
    "memory_of",
    "persisted",
    "positions",
    "rows_of",
    "rows_per_block",
    "sum_groups",
    "sum_rows",
    "table_of_parts",
    "task_items",
    "threads_for",
    "with_known_rows",
]

AT_A_TIME = 8
"""Lazy blocks that are computed together."""


def map_rows(
    function: Callable[..., Array], *arrays: Array | None, most: int | None = None, width: int | None = None
) -> Array:
    """``function(block of each array) -> (rows in the block, ...)``, concatenated over all blocks.

    ``most`` is the number of rows in a block where the function needs more room per row than usual; ``width`` the number
    of columns of the result where it has columns.
    """
    if any(is_lazy(x) for x in arrays):
        return map_lazily(function, arrays, most, width)
    return map_in_memory(function, arrays, most)


def sum_rows(
    function: Callable[..., Sums],
    *arrays: Array | None,
    rows: Array | None = None,
    most: int | None = None,
    join: Join = add,
) -> Sums:
    """``function(block of each array) -> tuple of small arrays``, added up (or joined otherwise) over all blocks.

    ``rows`` (integer positions, or for lazy rows also a lazy mask) restricts the sum to a subset, gathered block by block.
    """
    if any(is_lazy(x) for x in arrays):
        return sum_lazily(function, arrays, rows, most, join)
    return sum_in_memory(function, arrays, rows, most, join)


def sum_groups(
    function: Callable[..., Sums],
    *arrays: Array | None,
    labels: Array,
    groups: Sequence[Any],
    missing: Callable[[Any], Any],
) -> list[Sums]:
    """The sums of several groups of lazy rows in one pass: those whose label is each of ``groups``.

    The group None has the labels for which ``missing`` is true.
    """

    def block(*rows: Array | None) -> Sums:
        *values, labels = rows
        names = labels if isinstance(labels, np.ndarray) else host(labels)
        gone = missing(names)
        if names.dtype == object:
            names = names.copy()
            names[gone] = None  # comparisons with pandas.NA are neither true nor false
        sums: list[Any] = []
        for group in groups:
            chosen = np.nonzero(gone if group is None else names == group)[0]
            part = [None if x is None else namespace(x).take(x, like(chosen, x, namespace(x)), axis=0) for x in values]
            sums.append(function(*part) if chosen.size else None)
        return (sums,)

    def joined(total: Sums, part: Sums) -> Sums:
        pairs = zip(total[0], part[0], strict=True)
        return ([b if a is None else a if b is None else add(a, b) for a, b in pairs],)

    (sums,) = sum_rows(block, *arrays, labels, join=joined)
    return list(sums)


def positions(x: Array) -> Array:
    """Row numbers beside x, lazy where x is."""
    xp = namespace(x)
    if not is_lazy(x):
        return xp.arange(x.shape[0], device=device(x))
    da = module("dask.array")

    return da.arange(x.shape[0], chunks=(x.chunks[0],), like=x._meta)


def gather(arrays: Sequence[Array | None], rows: Array | None) -> list[Array | None]:
    """A few rows of each array, in memory."""
    if not any(is_lazy(x) for x in arrays):
        return [x if x is None or rows is None else namespace(x).take(x, rows, axis=0) for x in arrays]
    if rows is not None and is_lazy(rows):
        (rows,) = computed(rows)
        rows = np.nonzero(rows)[0]
    found = iter(computed(*(x if rows is None else x[rows] for x in arrays if x is not None)))
    return [None if x is None else next(found) for x in arrays]


def blocks_of(x: Array, most: int) -> int:
    """How many blocks ``each_block`` gives."""
    return int(x.numblocks[0]) if is_lazy(x) else -(-x.shape[0] // most)


def each_block(arrays: Sequence[Array | None], most: int) -> Iterator[tuple[slice, list[Any]]]:
    """Blocks of at most ``most`` rows of rows in memory; whole blocks of lazy rows, eight of them computed at a time."""
    lead = next(x for x in arrays if x is not None)
    if not is_lazy(lead):
        for start in range(0, lead.shape[0], most):
            part = slice(start, min(start + most, lead.shape[0]))
            yield part, [None if x is None else x[part] for x in arrays]
        return
    count, start = lead.numblocks[0], 0
    whole = aligned(arrays)
    for first in range(0, count, AT_A_TIME):
        some = range(first, min(first + AT_A_TIME, count))
        lazy = [x.blocks[i] for i in some for x in whole if x is not None]
        found = iter(computed(*lazy))
        for i in some:
            blocks = [None if x is None else next(found) for x in whole]
            size = lead.chunks[0][i]
            yield slice(start, start + size), blocks
            start += size
