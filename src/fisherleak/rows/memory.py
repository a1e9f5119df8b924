"""Blocks of rows in memory: how large they are, and what is done to each, in threads where that pays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fisherleak._support.arrays import Array, free_on_device, is_numpy, namespace, on_accelerator
from fisherleak._support.namespaces import Sums
from fisherleak.rows.threads import each_in_order, threads_for

__all__ = ["Join", "add", "block_elements", "map_in_memory", "rows_per_block", "sum_in_memory"]

BLOCK_ELEMENTS = 2**18
"""Values in a block: 2 MiB of float64, which stays in a core's cache for elementwise passes; each thread has one."""
EVEN = 4
"""More blocks than one are a multiple of this, all of one size, so that threads end together."""
ACCELERATOR_ELEMENTS = 2**26
"""The same on a GPU that does not say how much memory is free: 512 MiB, so that starting kernels costs little."""
ACCELERATOR_MOST = 2**29
"""The same on a GPU with all the memory that can be of use."""
BYTES = 256
"""Free memory of a GPU for each value of a block: a pass holds about eight such blocks at once, some four times as many."""
SMALLEST_BLOCK = 1024
"""Fewer rows than this starve the matrix products of wide data."""

Join = Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]]


def block_elements(reference: Array) -> int:
    """Values in a block that is kept where ``reference`` is: on a GPU a power of two, by the memory that is free there."""
    if not on_accelerator(reference):
        return BLOCK_ELEMENTS
    free = free_on_device(reference)
    if free is None:
        return ACCELERATOR_ELEMENTS
    return int(min(ACCELERATOR_MOST, max(BLOCK_ELEMENTS, 2 ** max(free // BYTES, 1).bit_length() // 2)))


def rows_per_block(width: int, reference: Array) -> int:
    """Rows in a block of rows of that width."""
    return max(SMALLEST_BLOCK, block_elements(reference) // max(width, 1))


def add(total: Sums, part: Sums) -> Sums:
    """The usual way to join the sums of two blocks."""
    return tuple(a + b for a, b in zip(total, part, strict=True))


def _each(
    function: Callable[..., Any], arrays: tuple[Array | None, ...], rows: Array | None, most: int | None
) -> Iterator[Any]:
    """The function of every block, in order. Blocks are the same however many threads there are."""
    first = arrays[0]
    assert first is not None
    count = first.shape[0] if rows is None else rows.shape[0]
    width = 1 if first.ndim == 1 else first.shape[1]
    step = rows_per_block(width, first) if most is None else most
    blocks = -(-count // step)
    plain = all(_plain(x) for x in arrays)
    if plain and blocks > 1:
        step = -(-count // (-(-blocks // EVEN) * EVEN))
    parts = [slice(start, min(start + step, count)) for start in range(0, max(count, 1), step)]

    def of(part: slice) -> Any:
        if rows is None:
            return function(*(None if x is None else x[part, ...] for x in arrays))
        chosen = rows[part]
        return function(*(None if x is None else namespace(x).take(x, chosen, axis=0) for x in arrays))

    values = step * width if most is None else max(2 * block_elements(first), step * width)
    threads = threads_for(len(parts), values) if plain else 1
    return each_in_order(of, parts, threads)


def _plain(x: Array | None) -> bool:
    """Whether an array is one of NumPy's with numbers: threads are for these alone."""
    return x is None or (is_numpy(x) and x.dtype.kind in "fiub")


def map_in_memory(function: Callable[..., Array], arrays: tuple[Array | None, ...], most: int | None) -> Array:
    """``map_rows`` of rows in memory."""
    results = list(_each(function, arrays, None, most))
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
    for part in _each(function, arrays, rows, most):
        total = part if total is None else join(total, part)
    assert total is not None
    return total
