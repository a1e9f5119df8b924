"""Blocks of rows in memory: how large they are, and what is done to each in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fisherleak._support.arrays import Array, namespace, on_accelerator
from fisherleak._support.namespaces import Sums

__all__ = ["Join", "add", "block_elements", "map_in_memory", "rows_per_block", "sum_in_memory"]

BLOCK_ELEMENTS = 2**19
"""Values in a block: 4 MiB of float64, which stays in a core's cache for elementwise passes."""
ACCELERATOR_ELEMENTS = 2**26
"""The same on a GPU: 512 MiB, so that starting kernels costs little; a pass holds about eight such blocks at once."""
SMALLEST_BLOCK = 1024
"""Fewer rows than this starve the matrix products of wide data."""

Join = Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]]


def block_elements(reference: Array) -> int:
    """Values in a block that is kept where ``reference`` is."""
    return ACCELERATOR_ELEMENTS if on_accelerator(reference) else BLOCK_ELEMENTS


def rows_per_block(width: int, reference: Array) -> int:
    """Rows in a block of rows of that width."""
    return max(SMALLEST_BLOCK, block_elements(reference) // max(width, 1))


def add(total: Sums, part: Sums) -> Sums:
    """The usual way to join the sums of two blocks."""
    return tuple(a + b for a, b in zip(total, part, strict=True))


def _slices(
    arrays: tuple[Array | None, ...], rows: Array | None, most: int | None = None
) -> Iterator[tuple[Array | None, ...]]:
    first = arrays[0]
    assert first is not None
    xp = namespace(first)
    count = first.shape[0] if rows is None else rows.shape[0]
    step = rows_per_block(1 if first.ndim == 1 else first.shape[1], first) if most is None else most
    for start in range(0, max(count, 1), step):
        part = slice(start, min(start + step, count))
        if rows is None:
            yield tuple(None if x is None else x[part, ...] for x in arrays)
        else:
            chosen = rows[part]
            yield tuple(None if x is None else xp.take(x, chosen, axis=0) for x in arrays)


def map_in_memory(function: Callable[..., Array], arrays: tuple[Array | None, ...], most: int | None) -> Array:
    """``map_rows`` of rows in memory."""
    results = [function(*block) for block in _slices(arrays, None, most)]
    return results[0] if len(results) == 1 else namespace(results[0]).concat(results, axis=0)


def sum_in_memory(
    function: Callable[..., Sums],
    arrays: tuple[Array | None, ...],
    rows: Array | None,
    most: int | None,
    join: Join,
) -> Sums:
    """``sum_rows`` of rows in memory."""
    total: tuple[Any, ...] | None = None
    for block in _slices(arrays, rows, most):
        part = function(*block)
        total = part if total is None else join(total, part)
    assert total is not None
    return total
