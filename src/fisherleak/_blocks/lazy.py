"""Lazy rows: graphs of Dask, one task per block, and clusters that fail.

Functions travel as one node of a graph, so they must hold small arrays only, never rows.
"""

from __future__ import annotations

import contextvars
import importlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fisherleak._array import Array, device, is_lazy, namespace
from fisherleak._blocks.memory import Join, map_in_memory, sum_in_memory
from fisherleak.errors import ClusterError, FisherleakError

__all__ = ["aligned", "computed", "in_task", "map_lazily", "module", "sum_lazily", "unknown"]

FAN_IN = 16
"""Partial sums that a task of the tree adds up."""

_IN_TASK: contextvars.ContextVar[bool] = contextvars.ContextVar("in_task", default=False)


def module(name: str) -> Any:
    """Dask is loaded only where rows are lazy."""
    return importlib.import_module(name)


def in_task() -> bool:
    """Whether this runs in a task of Dask, which has a worker's thread and should start no others."""
    return _IN_TASK.get()


@dataclass(frozen=True)
class _Mapped:
    """A function of blocks, as it travels to the workers."""

    function: Callable[..., Array]
    most: int | None

    def __call__(self, *blocks: Array | None) -> Array:
        held = _IN_TASK.set(True)
        try:
            return map_in_memory(self.function, blocks, self.most)
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
            return _Part(sum_in_memory(self.function, blocks, None, self.most, self.join))
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


def map_lazily(
    function: Callable[..., Array], arrays: Sequence[Array | None], most: int | None, width: int | None
) -> Array:
    da = module("dask.array")

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


def sum_lazily(
    function: Callable[..., tuple[Any, ...]],
    arrays: Sequence[Array | None],
    rows: Array | None,
    most: int | None,
    join: Join,
) -> tuple[Any, ...]:
    """One task per block and a tree of sums, in a fixed order: the same digits wherever and however often tasks run."""
    da = module("dask.array")
    graphs = module("dask.highlevelgraph")

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
    graph = graphs.HighLevelGraph.from_collections(name, layer, dependencies=[parts])
    (total,) = computed(da.Array(graph, name, chunks=(), meta=np.empty((), dtype=object)))
    return tuple(total.values)


def _blockwise(function: Callable[..., Any], arrays: Sequence[Array | None]) -> tuple[Any, list[Any], Array]:
    """A function as one node of the graph, and (array, indices) pairs for ``blockwise``: rows are index 0."""
    dask = module("dask")

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
    da = module("dask.array")

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
            found.append(x if x.chunks == whole or unknown(x) else x.rechunk(whole))
    return found


def unknown(x: Array) -> bool:
    return any(size != size for size in x.chunks[0])


LOST = {
    "CancelledError": "the connection to its scheduler was lost",
    "FutureCancelledError": "the connection to its scheduler was lost",
    "FuturesCancelledError": "the connection to its scheduler was lost",
    "CommClosedError": "the connection to its scheduler was lost",
    "ClosedClientError": "its client is closed",
    "KilledWorker": "several workers in turn died at the same block, most often for lack of memory (use smaller blocks)",
    "NoValidWorkerError": "no worker is left",
}


def computed(*lazy: Any) -> tuple[Any, ...]:
    """Compute lazy values in one graph; a cluster that is gone is said so in one sentence."""
    dask = module("dask")

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
