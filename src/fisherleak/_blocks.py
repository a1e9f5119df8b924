"""Passes over row blocks: the only file that decides how rows are walked.

``map_rows`` gives one value (or row of values) per example, ``sum_rows`` adds up small arrays. Both
call their function on slices of at most ``rows_per_block`` rows, so that memory beyond the input and
the output is O(block x d).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fisherleak._array import Array, namespace

__all__ = ["map_rows", "rows_per_block", "sum_rows"]

BLOCK_ELEMENTS = 2**19
"""Values in a block: 4 MiB of float64, which stays in a core's cache for elementwise passes."""
SMALLEST_BLOCK = 1024
"""Fewer rows than this starve the matrix products of wide data."""


def rows_per_block(width: int) -> int:
    return max(SMALLEST_BLOCK, BLOCK_ELEMENTS // max(width, 1))


def _slices(
    arrays: tuple[Array | None, ...], rows: Array | None, most: int | None = None
) -> Iterator[tuple[Array | None, ...]]:
    first = arrays[0]
    assert first is not None
    xp = namespace(first)
    count = first.shape[0] if rows is None else rows.shape[0]
    step = rows_per_block(first.shape[1]) if most is None else most
    for start in range(0, count, step):
        part = slice(start, min(start + step, count))
        if rows is None:
            yield tuple(None if x is None else x[part, ...] for x in arrays)
        else:
            chosen = rows[part]
            yield tuple(None if x is None else xp.take(x, chosen, axis=0) for x in arrays)


def map_rows(function: Callable[..., Array], *arrays: Array | None, most: int | None = None) -> Array:
    """``function(block of each array) -> (rows in the block, ...)``, concatenated over all blocks.

    ``most`` is the number of rows in a block where the function needs more room per row than usual.
    """
    results = [function(*block) for block in _slices(arrays, None, most)]
    return results[0] if len(results) == 1 else namespace(results[0]).concat(results, axis=0)


def sum_rows(
    function: Callable[..., tuple[Any, ...]],
    *arrays: Array | None,
    rows: Array | None = None,
    most: int | None = None,
) -> tuple[Any, ...]:
    """``function(block of each array) -> tuple of small arrays``, added up over all blocks.

    ``rows`` (integer positions) restricts the sum to a subset, gathered block by block.
    """
    total: tuple[Any, ...] | None = None
    for block in _slices(arrays, rows, most):
        part = function(*block)
        total = part if total is None else tuple(a + b for a, b in zip(total, part, strict=True))
    assert total is not None
    return total
