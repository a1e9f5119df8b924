"""Passes over row blocks: the only file that decides how rows are walked.

``map_rows`` gives one value (or row of values) per example, ``sum_rows`` adds up small arrays. Both
call their function on slices of at most ``rows_per_block`` rows, so that memory beyond the input and
the output is O(block x d).

Rows may be lazy (Dask arrays). ``map_rows`` then gives a lazy array with one task per block, and nothing is computed;
``sum_rows`` computes one graph: a task per block and a tree of sums. The functions are the same, called on the
blocks. They travel as one node of the graph, so they must hold small arrays only, never rows.
"""

from __future__ import annotations

import contextvars
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fisherleak._array import Array, device, host, is_lazy, is_lazy_frame, like, namespace, on_accelerator
from fisherleak.errors import ClusterError, FisherleakError, InvalidInputError

__all__ = [
    "add",
    "aligned",
    "block_elements",
    "first_rows",
    "gather",
    "in_task",
    "lazy_frame",
    "map_partitions",
    "map_rows",
    "positions",
    "rows_per_block",
    "sum_groups",
    "sum_rows",
    "table_of_parts",
    "with_known_rows",
]

BLOCK_ELEMENTS = 2**19
"""Values in a block: 4 MiB of float64, which stays in a core's cache for elementwise passes."""
ACCELERATOR_ELEMENTS = 2**26
"""The same on a GPU: 512 MiB, so that starting kernels costs little; a pass holds about eight such blocks at once."""
SMALLEST_BLOCK = 1024
"""Fewer rows than this starve the matrix products of wide data."""
FAN_IN = 16
"""Partial sums that a task of the tree adds up."""

Join = Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]]
_IN_TASK: contextvars.ContextVar[bool] = contextvars.ContextVar("in_task", default=False)


def block_elements(reference: Array) -> int:
    """Values in a block that is kept where ``reference`` is."""
    return ACCELERATOR_ELEMENTS if on_accelerator(reference) else BLOCK_ELEMENTS


def rows_per_block(width: int, reference: Array) -> int:
    """Rows in a block of rows of that width."""
    return max(SMALLEST_BLOCK, block_elements(reference) // max(width, 1))


def in_task() -> bool:
    """Whether this runs in a task of Dask, which has a worker's thread and should start no others."""
    return _IN_TASK.get()


def add(total: tuple[Any, ...], part: tuple[Any, ...]) -> tuple[Any, ...]:
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


def map_rows(
    function: Callable[..., Array], *arrays: Array | None, most: int | None = None, width: int | None = None
) -> Array:
    """``function(block of each array) -> (rows in the block, ...)``, concatenated over all blocks.

    ``most`` is the number of rows in a block where the function needs more room per row than usual; ``width`` the number
    of columns of the result where it has columns.
    """
    if any(is_lazy(x) for x in arrays):
        return _map_lazily(function, arrays, most, width)
    results = [function(*block) for block in _slices(arrays, None, most)]
    return results[0] if len(results) == 1 else namespace(results[0]).concat(results, axis=0)


def sum_rows(
    function: Callable[..., tuple[Any, ...]],
    *arrays: Array | None,
    rows: Array | None = None,
    most: int | None = None,
    join: Join = add,
) -> tuple[Any, ...]:
    """``function(block of each array) -> tuple of small arrays``, added up (or joined otherwise) over all blocks.

    ``rows`` (integer positions, or for lazy rows also a lazy mask) restricts the sum to a subset, gathered block by block.
    """
    if any(is_lazy(x) for x in arrays):
        return _sum_lazily(function, arrays, rows, most, join)
    total: tuple[Any, ...] | None = None
    for block in _slices(arrays, rows, most):
        part = function(*block)
        total = part if total is None else join(total, part)
    assert total is not None
    return total


def sum_groups(
    function: Callable[..., tuple[Any, ...]],
    *arrays: Array | None,
    labels: Array,
    groups: Sequence[Any],
    missing: Callable[[Any], Any],
) -> list[tuple[Any, ...]]:
    """The sums of several groups of lazy rows in one pass: those whose label is each of ``groups``.

    The group None has the labels for which ``missing`` is true.
    """

    def block(*rows: Array | None) -> tuple[Any, ...]:
        *values, labels = rows
        names = labels if isinstance(labels, np.ndarray) else host(labels)
        sums: list[Any] = []
        for group in groups:
            chosen = np.nonzero(missing(names) if group is None else names == group)[0]
            part = [None if x is None else namespace(x).take(x, like(chosen, x, namespace(x)), axis=0) for x in values]
            sums.append(function(*part) if chosen.size else None)
        return (sums,)

    def joined(total: tuple[Any, ...], part: tuple[Any, ...]) -> tuple[Any, ...]:
        pairs = zip(total[0], part[0], strict=True)
        return ([b if a is None else a if b is None else add(a, b) for a, b in pairs],)

    (sums,) = sum_rows(block, *arrays, labels, join=joined)
    return list(sums)


# Rows, by number


def positions(x: Array) -> Array:
    """Row numbers beside x, lazy where x is."""
    xp = namespace(x)
    if not is_lazy(x):
        return xp.arange(x.shape[0], device=device(x))
    import dask.array as da

    return da.arange(x.shape[0], chunks=(x.chunks[0],), like=x._meta)


def gather(arrays: Sequence[Array | None], rows: Array | None) -> list[Array | None]:
    """A few rows of each array, in memory."""
    if not any(is_lazy(x) for x in arrays):
        return [x if x is None or rows is None else namespace(x).take(x, rows, axis=0) for x in arrays]
    import dask

    if rows is not None and is_lazy(rows):
        (rows,) = _computed(rows)
        rows = np.nonzero(rows)[0]
    chosen = [x if x is None or rows is None else x[rows] for x in arrays]
    return list(_computed(*[dask.delayed(None) if x is None else x for x in chosen]))


# Lazy rows


@dataclass(frozen=True)
class _Mapped:
    """A function of blocks, as it travels to the workers."""

    function: Callable[..., Array]
    most: int | None

    def __call__(self, *blocks: Array | None) -> Array:
        held = _IN_TASK.set(True)
        try:
            return map_rows(self.function, *blocks, most=self.most)
        finally:
            _IN_TASK.reset(held)


@dataclass(frozen=True)
class _Summed:
    """The same for sums."""

    function: Callable[..., tuple[Any, ...]]
    most: int | None
    join: Join
    masked: bool

    def __call__(self, *blocks: Array | None) -> _Part:
        held = _IN_TASK.set(True)
        try:
            if self.masked:
                *rest, mask = blocks
                blocks = tuple(None if x is None else x[mask] for x in rest)
            return _Part(sum_rows(self.function, *blocks, most=self.most, join=self.join))
        finally:
            _IN_TASK.reset(held)


@dataclass(frozen=True)
class _Part:
    """What a block brings to a sum: not an array, so that Dask hands it on as it is."""

    values: tuple[Any, ...]


def _apply(function: Callable[..., Any], *blocks: Any) -> Any:
    return function(*blocks)


def _added(join: Join, parts: list[_Part]) -> _Part:
    total = parts[0].values
    for part in parts[1:]:
        total = join(total, part.values)
    return _Part(total)


def _map_lazily(
    function: Callable[..., Array], arrays: Sequence[Array | None], most: int | None, width: int | None
) -> Array:
    import dask.array as da

    task, pairs, reference = _blockwise(_Mapped(function, most), arrays)
    xp = namespace(reference)
    shape = (0,) if width is None else (0, width)
    return da.blockwise(
        _apply,
        (0,) if width is None else (0, 1),
        task,
        None,
        *pairs,
        new_axes={} if width is None else {1: width},
        concatenate=True,
        dtype=np.float64,
        meta=xp.empty(shape, dtype=xp.float64, device=device(reference)),
    )


def _sum_lazily(
    function: Callable[..., tuple[Any, ...]],
    arrays: Sequence[Array | None],
    rows: Array | None,
    most: int | None,
    join: Join,
) -> tuple[Any, ...]:
    """One task per block and a tree of sums, in a fixed order: the same digits wherever and however often tasks run."""
    import dask.array as da
    from dask.highlevelgraph import HighLevelGraph

    masked = rows is not None and is_lazy(rows)
    if masked:
        arrays = (*arrays, rows)
    elif rows is not None:
        order = np.sort(np.asarray(rows))
        arrays = [None if x is None else x[order] for x in arrays]
    task, pairs, _ = _blockwise(_Summed(function, most, join, masked), arrays)
    meta = np.empty(0, dtype=object)
    parts = da.blockwise(
        _apply, (0,), task, None, *pairs, adjust_chunks={0: 1}, concatenate=True, dtype=object, meta=meta
    )
    name = f"fisherleak-sum-{uuid.uuid4().hex}"
    keys: list[Any] = [(parts.name, i) for i in range(parts.numblocks[0])]
    layer: dict[Any, Any] = {}
    level = 0
    while len(keys) > FAN_IN:
        groups = [keys[k : k + FAN_IN] for k in range(0, len(keys), FAN_IN)]
        keys = [(name, level, k) for k in range(len(groups))]
        layer |= {key: (_added, join, group) for key, group in zip(keys, groups, strict=True)}
        level += 1
    layer[(name,)] = (_added, join, keys)
    graph = HighLevelGraph.from_collections(name, layer, dependencies=[parts])
    (total,) = _computed(da.Array(graph, name, chunks=(), meta=np.empty((), dtype=object)))
    return tuple(total.values)


def _blockwise(function: Callable[..., Any], arrays: Sequence[Array | None]) -> tuple[Any, list[Any], Array]:
    """A function as one node of the graph, and (array, indices) pairs for ``blockwise``: rows are index 0."""
    import dask

    arrays = aligned(arrays)
    pairs: list[Any] = []
    count = 10  # past the indices of the result
    for x in arrays:
        if x is None:
            pairs += [None, None]
        else:
            pairs += [x, (0, *range(count, count + x.ndim - 1))]
            count += x.ndim - 1
    node = dask.delayed(function, name=f"fisherleak-{uuid.uuid4().hex}", traverse=False)
    return node, pairs, next(x for x in arrays if x is not None)


def aligned(arrays: Sequence[Array | None]) -> list[Array | None]:
    """Arrays of equally many rows with the same blocks, those of the first lazy one, and each row whole."""
    lead = next((x for x in arrays if is_lazy(x)), None)
    if lead is None:
        return list(arrays)
    import dask.array as da

    chunks = lead.chunks[0]
    found: list[Array | None] = []
    for x in arrays:
        if x is None:
            found.append(None)
            continue
        whole = (chunks, *((size,) for size in x.shape[1:]))
        if not is_lazy(x):
            found.append(da.from_array(x, chunks=whole, name=False))
        else:
            found.append(x if x.chunks == whole or _unknown(x) else x.rechunk(whole))
    return found


def _unknown(x: Array) -> bool:
    return any(size != size for size in x.chunks[0])


def with_known_rows(*rows: Any) -> list[Any]:
    """Lazy rows with known numbers of rows, without empty blocks; Dask tables become arrays. One pass counts what is not known.

    Of a table only the first column is read for that. Anything else is given back as it is.
    """
    counts = {k: _counts(x) for k, x in enumerate(rows) if is_lazy_frame(x) or (is_lazy(x) and _unknown(x))}
    sizes = dict(zip(counts, _computed(*counts.values()), strict=True)) if counts else {}
    known = []
    for k, x in enumerate(rows):
        if k in sizes:
            x = _sized(x, tuple(int(size) for size in np.asarray(sizes[k])))
        known.append(_without_empty(x) if is_lazy(x) else x)
    return known


def _counts(x: Any) -> Any:
    """Rows in each block, lazily."""
    import dask.array as da

    if is_lazy_frame(x):
        column = x[x.columns[0]] if x.ndim == 2 else x
        return column.map_partitions(len, meta=("rows", "int64"), enforce_metadata=False)
    meta = np.empty(0, dtype=np.int64)
    return da.blockwise(
        _count, (0,), x, tuple(range(x.ndim)), adjust_chunks={0: 1}, concatenate=True, dtype=np.int64, meta=meta
    )


def _sized(x: Any, sizes: tuple[int, ...]) -> Array:
    """An array with blocks of these numbers of rows."""
    import dask.array as da

    if not sum(sizes):
        raise InvalidInputError("X must have at least one row; every partition is empty.")
    if is_lazy_frame(x):
        text = x.ndim == 1 and getattr(x.dtype, "kind", "O") not in "fiub"
        x = (x.astype(object) if text else x).to_dask_array()
    return da.Array(x.dask, x.name, (sizes, *x.chunks[1:]), meta=x._meta)


def _count(block: Array) -> np.ndarray:
    return np.array([block.shape[0]])


def _without_empty(x: Array) -> Array:
    """Without the blocks that have no rows: a filter may leave some."""
    import dask.array as da

    if 0 not in x.chunks[0] or not any(x.chunks[0]):
        return x
    return da.concatenate([x.blocks[i] for i, size in enumerate(x.chunks[0]) if size], axis=0)


def first_rows(rows: Any, count: int = 16) -> Any:
    """A few rows of a lazy table or array, in memory."""
    if is_lazy_frame(rows):
        return rows.head(count, npartitions=-1)
    (few,) = _computed(rows[:count])
    return few


def map_partitions(function: Callable[[Any], Array], rows: Any, width: int) -> Array:
    """``function(block of a lazy table or array) -> (rows in the block, width)``, as a lazy array."""
    if not is_lazy_frame(rows):
        return map_rows(function, rows, width=width)
    import pandas

    names = [f"feature{j}" for j in range(width)]

    def framed(part: Any) -> Any:
        values = np.empty((0, width)) if len(part) == 0 else function(part)
        return pandas.DataFrame(values, columns=names)

    meta = pandas.DataFrame(np.empty((0, width)), columns=names)
    made = rows.map_partitions(framed, meta=meta).to_dask_array()
    (sizes,) = _computed(_counts(rows))
    return _without_empty(_sized(made, tuple(int(size) for size in np.asarray(sizes))))


def table_of_parts(read: Callable[..., Any], parts: Sequence[Any], empty: Any) -> Any:
    """A Dask table whose partitions are ``read(part)``; ``empty`` has its columns."""
    import dask.dataframe as dd

    return dd.from_map(read, list(parts), meta=empty, enforce_metadata=False)


def lazy_frame(columns: dict[str, Array]) -> Any:
    """A Dask table of lazy columns."""
    import dask.dataframe as dd

    frames = [dd.from_dask_array(x, columns=name).to_frame() for name, x in columns.items()]
    return dd.concat(frames, axis=1, interleave_partitions=False)


LOST = {
    "CancelledError": "the connection to its scheduler was lost",
    "FutureCancelledError": "the connection to its scheduler was lost",
    "FuturesCancelledError": "the connection to its scheduler was lost",
    "CommClosedError": "the connection to its scheduler was lost",
    "ClosedClientError": "its client is closed",
    "KilledWorker": "several workers in turn died at the same block, most often for lack of memory (use smaller blocks)",
    "NoValidWorkerError": "no worker is left",
}


def _computed(*lazy: Any) -> tuple[Any, ...]:
    """Compute lazy values in one graph; a cluster that is gone is said so in one sentence."""
    import dask

    try:
        return tuple(dask.compute(*lazy))
    except FisherleakError:
        raise
    except BaseException as error:  # a lost scheduler cancels, which is no Exception in every version
        kind = type(error)
        reasons = [LOST[base.__name__] for base in kind.__mro__ if base.__name__ in LOST]
        gone = kind.__module__.partition(".")[0] == "distributed" or isinstance(error, (OSError, TimeoutError))
        if not reasons and not (gone and _has_client()):
            raise
        reason = reasons[0] if reasons else f"{kind.__name__}: {' '.join(str(error).split())[:200]}"
        raise ClusterError(
            f"The cluster could not finish: {reason}. Nothing was kept: start it again and repeat the call."
        ) from None


def _has_client() -> bool:
    """Whether Dask would send work to a cluster."""
    try:
        from distributed import get_client

        get_client()
    except (ImportError, ValueError):
        return False
    return True
