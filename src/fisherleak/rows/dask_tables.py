"""Tables of Dask: partitions as blocks of rows, and rows whose number is not known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, is_lazy, is_lazy_frame, plain_table
from fisherleak.errors import InvalidInputError
from fisherleak.rows.dask_arrays import computed, map_lazily, module, unknown

__all__ = ["first_rows", "lazy_frame", "map_partitions", "table_of_parts", "with_known_rows"]


def with_known_rows(*rows: Any) -> list[Any]:
    """Lazy rows with known numbers of rows, without empty blocks; Dask tables become arrays. One pass counts what is not known.

    Of a table only the first column is read for that. Anything else is given back as it is.
    """
    counts = {k: _counts(x) for k, x in enumerate(rows) if is_lazy_frame(x) or (is_lazy(x) and unknown(x))}
    sizes = dict(zip(counts, computed(*counts.values()), strict=True)) if counts else {}
    known = []
    for k, x in enumerate(rows):
        if k in sizes:
            x = _sized(x, tuple(int(size) for size in np.asarray(sizes[k])))
        known.append(_without_empty(x) if is_lazy(x) else x)
    return known


def _counts(x: Any) -> Any:
    """Rows in each block, lazily."""
    da = module("dask.array")

    if is_lazy_frame(x):
        column = x[x.columns[0]] if x.ndim == 2 else x
        return column.map_partitions(len, meta=("rows", "int64"), enforce_metadata=False)
    meta = np.empty(0, dtype=np.int64)
    return da.blockwise(
        _count, (0,), x, tuple(range(x.ndim)), adjust_chunks={0: 1}, concatenate=True, dtype=np.int64, meta=meta
    )


def _sized(x: Any, sizes: tuple[int, ...]) -> Array:
    """An array with blocks of these numbers of rows."""
    da = module("dask.array")

    if not sum(sizes):
        raise InvalidInputError("X must have at least one row; every partition is empty.")
    if is_lazy_frame(x):
        text = x.ndim == 1 and getattr(x.dtype, "kind", "O") not in "fiub"
        x = (x.astype(object) if text else plain_table(x)).to_dask_array()
    return da.Array(x.dask, x.name, (sizes, *x.chunks[1:]), meta=x._meta)


def _count(block: Array) -> np.ndarray:
    return np.array([block.shape[0]])


def _without_empty(x: Array) -> Array:
    """Without the blocks that have no rows: a filter may leave some."""
    da = module("dask.array")

    if 0 not in x.chunks[0] or not any(x.chunks[0]):
        return x
    return da.concatenate([x.blocks[i] for i, size in enumerate(x.chunks[0]) if size], axis=0)


def first_rows(rows: Any, count: int = 16) -> Any:
    """A few rows of a lazy table or array, in memory."""
    if is_lazy_frame(rows):
        return rows.head(count, npartitions=-1)
    (few,) = computed(rows[:count])
    return few


def map_partitions(function: Callable[[Any], Array], rows: Any, width: int) -> Array:
    """``function(block of a lazy table or array) -> (rows in the block, width)``, as a lazy array."""
    if not is_lazy_frame(rows):
        return map_lazily(function, (rows,), None, width)
    import pandas

    names = [f"feature{j}" for j in range(width)]

    def framed(part: Any) -> Any:
        values = np.empty((0, width)) if len(part) == 0 else function(part)
        return pandas.DataFrame(values, columns=names)

    meta = pandas.DataFrame(np.empty((0, width)), columns=names)
    made = rows.map_partitions(framed, meta=meta).to_dask_array()
    (sizes,) = computed(_counts(rows))
    return _without_empty(_sized(made, tuple(int(size) for size in np.asarray(sizes))))


def table_of_parts(read: Callable[..., Any], parts: Sequence[Any], empty: Any) -> Any:
    """A Dask table whose partitions are ``read(part)``; ``empty`` has its columns."""
    dd = module("dask.dataframe")

    return dd.from_map(read, list(parts), meta=empty, enforce_metadata=False)


def lazy_frame(columns: dict[str, Array]) -> Any:
    """A Dask table of lazy columns."""
    dd = module("dask.dataframe")

    frames = [dd.from_dask_array(x, columns=name).to_frame() for name, x in columns.items()]
    return dd.concat(frames, axis=1, interleave_partitions=False)
