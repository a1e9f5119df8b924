"""Lazy rows: graphs of Dask, one task per block, and clusters that fail.

Functions travel as one node of a graph, so they must hold small arrays only, never rows.

Also here: tables of Dask: partitions as blocks of rows, and rows whose number is not known.
"""

from __future__ import annotations

import contextlib
import contextvars
import importlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, device, is_lazy, is_lazy_frame, namespace, plain_table
from fisherleak._support.namespaces import Sums
from fisherleak._support.progress import watched
from fisherleak.errors import ClusterError, FisherleakError, InvalidInputError
from fisherleak.rows.memory import Join, alone, map_in_memory, sum_in_memory

FEW_ROWS = 16
"""Rows that show how a lazy table is prepared."""
FAN_IN = 16
"""Partial sums that a task of the tree adds up."""

_THREADS: contextvars.ContextVar[int | None] = contextvars.ContextVar("threads", default=None)


def module(name: str) -> Any:
    """Dask is loaded only where rows are lazy."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise FisherleakError(
            "Rows that are not in memory need Dask: pip install 'fisherleak[cluster]', or keep them in memory (`room`)."
        ) from None


@contextlib.contextmanager
def at_most(threads: int) -> Iterator[None]:
    """Lazy rows inside are walked by so many threads, where no cluster does it."""
    token = _THREADS.set(threads)
    try:
        yield
    finally:
        _THREADS.reset(token)


@dataclass(frozen=True)
class _Mapped:
    """A function of blocks, as it travels to the workers."""

    function: Callable[..., Array]
    most: int | None

    def __call__(self, *blocks: Array | None) -> Array:
        with alone():
            return map_in_memory(self.function, blocks, self.most)


@dataclass(frozen=True)
class _Summed:
    """The same for sums."""

    function: Callable[..., tuple[Any, ...]]
    most: int | None
    join: Join
    masked: bool

    def __call__(self, *blocks: Array | None) -> _BlockSums:
        with alone():
            if self.masked:
                *rest, mask = blocks
                blocks = tuple(None if x is None else x[mask] for x in rest)
            return _BlockSums(sum_in_memory(self.function, blocks, None, self.most, self.join))


@dataclass(frozen=True)
class _BlockSums:
    """What a block brings to a sum: not an array, so that Dask hands it on as it is."""

    values: tuple[Any, ...]


def _apply(function: Callable[..., Any], *blocks: Any) -> Any:
    return function(*blocks)


def _added(join: Join, parts: list[_BlockSums]) -> _BlockSums:
    total = parts[0].values
    for part in parts[1:]:
        total = join(total, part.values)
    return _BlockSums(total)


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
    function: Callable[..., Sums],
    arrays: Sequence[Array | None],
    rows: Array | None,
    most: int | None,
    join: Join,
) -> Sums:
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
    layer, keys = _one_task_per_block(parts)
    level = 0
    while len(keys) > FAN_IN:
        groups = [keys[k : k + FAN_IN] for k in range(0, len(keys), FAN_IN)]
        keys = [(name, level, k) for k in range(len(groups))]
        layer |= {key: (_added, join, group) for key, group in zip(keys, groups, strict=True)}
        level += 1
    layer[(name,)] = (_added, join, keys)
    graph = graphs.HighLevelGraph.from_collections(name, layer)
    (total,) = computed(da.Array(graph, name, chunks=(), meta=np.empty((), dtype=object)))
    return tuple(total.values)


@dataclass(frozen=True)
class _Chain:
    """Tasks that lead to one block of a result, run as one. Opaque to Dask, which would look for keys in a dictionary."""

    graph: dict[Any, Any]
    out: Any
    given: tuple[Any, ...]

    def __call__(self, *values: Any) -> Any:
        known = dict(zip(self.given, values, strict=True))
        (value,) = module("dask.core").get(self.graph, [self.out], cache=known)
        return value


def _one_task_per_block(array: Array) -> tuple[dict[Any, Any], list[Any]]:
    """The graph of a one-dimensional lazy array with everything that only one block needs in the task of that block.

    So blocks are made where they are used, one at a time, in whatever order tasks run.
    """
    core = module("dask.core")
    (array,) = module("dask").optimize(array)
    graph = dict(array.__dask_graph__())
    keys = [(array.name, i) for i in range(array.numblocks[0])]
    needs = {key: set(core.get_dependencies(graph, key)) for key in graph}
    leads = {key: _ancestors(key, needs) for key in keys}
    uses: dict[Any, int] = {}
    for ancestors in leads.values():
        for key in ancestors:
            uses[key] = uses.get(key, 0) + 1
    alone = {key for key, node in graph.items() if not _can_join(node, graph)}
    apart = {key for key, count in uses.items() if count > 1 or key in alone}
    done = {key: graph[key] for one in apart for key in (one, *_ancestors(one, needs))}
    for out, ancestors in leads.items():
        if out in alone:
            done |= {key: graph[key] for key in (*ancestors, out)}
            continue
        own = {key: graph[key] for key in (*ancestors, out) if key not in done}
        given = tuple(sorted({key for each in own for key in needs[each] if key not in own}, key=str))
        done[out] = (_Chain(own, out, given), *given)
    return done, keys


def _ancestors(key: Any, needs: dict[Any, set[Any]]) -> set[Any]:
    found: set[Any] = set()
    todo = [key]
    while todo:
        new = needs[todo.pop()] - found
        found |= new
        todo += new
    return found


def _can_join(node: Any, graph: dict[Any, Any]) -> bool:
    """Whether a node is a task of this graph alone; data are not, nor tasks of what a cluster keeps already."""
    outside = set(getattr(node, "dependencies", ())) - graph.keys()
    return not outside and bool(module("dask.core").istask(node))


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


def task_items(values: Sequence[Any], lazily: bool) -> Array:
    """Anything as rows of an array of objects, lazy with one block each where asked for."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return module("dask.array").from_array(array, chunks=1, name=False) if lazily else array


def rows_of(
    make: Callable[[Any], Sums], values: Sequence[Any], sizes: Sequence[int], kinds: Sequence[Any]
) -> tuple[Array, ...]:
    """Lazy arrays made of blocks: ``make(value)`` gives the blocks of all of them, with ``sizes`` rows each.

    ``kinds`` are empty arrays of the blocks' types and widths. One task makes the blocks of a value for all arrays.
    """
    da = module("dask.array")
    graphs = module("dask.highlevelgraph")

    given = task_items(values, True)
    name = f"fisherleak-rows-{uuid.uuid4().hex}"
    node = module("dask").delayed(make, name=f"{name}-make", traverse=False)
    made = {(name, i): (_made, node.key, (given.name, i)) for i in range(len(values))}
    base = graphs.HighLevelGraph.from_collections(name, made, dependencies=[given, node])
    arrays = []
    for k, kind in enumerate(kinds):
        own = f"{name}-{k}"
        zeros = (0,) * (kind.ndim - 1)
        layer = {(own, i, *zeros): (_taken, (name, i), k) for i in range(len(values))}
        graph = graphs.HighLevelGraph({**base.layers, own: layer}, {**base.dependencies, own: {name}})
        chunks = (tuple(int(size) for size in sizes), *((width,) for width in kind.shape[1:]))
        arrays.append(da.Array(graph, own, chunks, meta=kind[:0]))
    return tuple(arrays)


def _made(make: Callable[[Any], Sums], value: Any) -> _BlockSums:
    return _BlockSums(make(value[0]))


def _taken(part: _BlockSums, k: int) -> Any:
    return part.values[k]


def persisted(*arrays: Array | None) -> Sums:
    """The same arrays with their blocks kept where they are computed: passes over them read nothing again."""
    return tuple(module("dask").persist(*arrays))


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


def computed(*lazy: Any) -> Sums:
    """Compute lazy values in one graph; a cluster that is gone is said so in one sentence."""
    try:
        with watched() as update, module("dask").config.set(num_workers=_THREADS.get()):
            return tuple(module("dask").compute(*lazy)) if update is None else _computed_in_view(lazy, update)
    except FisherleakError:
        raise
    except BaseException as error:  # a lost scheduler cancels, which is no Exception in every version
        kind = type(error)
        reasons = [LOST[base.__name__] for base in kind.__mro__ if base.__name__ in LOST]
        gone = kind.__module__.partition(".")[0] == "distributed" or isinstance(error, (OSError, TimeoutError))
        if not reasons and not (gone and _client() is not None):
            raise
        reason = reasons[0] if reasons else f"{kind.__name__}: {' '.join(str(error).split())[:200]}"
        raise ClusterError(
            f"The cluster could not finish: {reason}. Nothing was kept: start it again and repeat the call."
        ) from None


def _computed_in_view(lazy: Sequence[Any], update: Callable[[int, int], None]) -> Sums:
    """The same, telling how many tasks are done of how many."""
    client = _client()
    if client is not None:
        futures = client.compute(list(lazy))
        bar = module("distributed.diagnostics.progressbar").ProgressBar(futures, client.scheduler.address)
        bar._draw_bar = lambda **counts: update(counts["all"] - counts["remaining"], counts["all"])
        client.sync(bar.listen)
        return tuple(client.gather(futures))

    def moved(key: Any, result: Any, graph: Any, state: Any, worker: Any) -> None:
        update(len(state["finished"]), sum(len(state[name]) for name in ("finished", "ready", "waiting", "running")))

    with module("dask.callbacks").Callback(posttask=moved):
        return tuple(module("dask").compute(*lazy))


def _client() -> Any:
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None


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


def first_rows(rows: Any) -> Any:
    """A few rows of a lazy table or array, in memory."""
    if is_lazy_frame(rows):
        return rows.head(FEW_ROWS, npartitions=-1)
    (few,) = computed(rows[:FEW_ROWS])
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
