"""Blocks of rows in memory: how large they are, and what is done to each, in threads where that pays.

Also here: blocks of rows in threads of their own, one core each, while BLAS keeps to one thread.

Two threads of BLAS within a product of a few thousand rows wait for one another more than they compute, and the passes between
the products have one core; a block for each core has neither problem. Results come in the order of the blocks and no block
depends on how many threads there are, so that no number does. Only arrays of NumPy are walked so: GPUs and Dask have ways of
their own.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

from fisherleak._support.arrays import Array, free_on_device, is_numpy, namespace, on_accelerator
from fisherleak._support.namespaces import Sums

IN_FLIGHT = 2**21
"""Values in the blocks of all threads at a time: 16 MiB of float64, and a few times that for what is made of them."""

_IN_TASK: contextvars.ContextVar[bool] = contextvars.ContextVar("in_task", default=False)


def in_task() -> bool:
    """Whether this runs in a thread for one block, ours or a worker's of Dask, and should start no others."""
    return _IN_TASK.get()


@contextmanager
def alone() -> Iterator[None]:
    """Start no threads in here."""
    token = _IN_TASK.set(True)
    try:
        yield
    finally:
        _IN_TASK.reset(token)


def threads_for(blocks: int, values: int) -> int:
    """How many of so many blocks, of so many values each, are worked on at a time.

    As many as there are cores that the process may use, but no more than BLAS may have threads (so that
    ``OPENBLAS_NUM_THREADS``, ``threadpool_limits`` and joblib's workers are obeyed), nor than keep to ``IN_FLIGHT``.
    """
    most = min(blocks, IN_FLIGHT // max(values, 1))
    return 1 if most < 2 or in_task() else min(most, _cores(), _BLAS.threads())


def each_in_order(function: Callable[[Any], Any], blocks: Iterable[Any], threads: int) -> Iterator[Any]:
    """``function(block)`` of every block, in order; at most ``threads`` at a time, and one waiting.

    An error in a block is raised here, after those before it, and the blocks behind it are not begun.
    """
    if threads < 2:
        yield from map(function, blocks)
        return
    waiting: deque[Future[Any]] = deque()
    with _BLAS.one_thread(), ThreadPoolExecutor(threads, thread_name_prefix="fisherleak") as pool:
        try:
            for block in blocks:
                # a context for each, since two threads may not be in one; np.errstate of the caller holds there too
                waiting.append(pool.submit(contextvars.copy_context().run, _in_task, function, block))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _in_task(function: Callable[[Any], Any], block: Any) -> Any:
    with alone():
        return function(block)


def _cores() -> int:
    """Cores that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # pragma: no cover (not Linux)
        return os.cpu_count() or 1


@cache
def _controller() -> Any:
    """The BLAS libraries of this process; looking for them takes milliseconds."""
    import scipy.linalg  # noqa: F401  (brings its own BLAS)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


class _Blas:
    """The number of threads of BLAS: everyone who comes limits it, and lifts that in the thread in which it was limited.

    Some builds have one number for the process, others one for each thread, and then nobody else can lift it. Where there is
    one number, whoever leaves first lifts it for those who stay: that costs them time, and changes no number of theirs.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.before: list[int] = []

    def threads(self) -> int:
        """How many BLAS may have, but for limits from here; no library that is known sets no limit."""
        with self.lock:
            return min(self.before if self.users else self._now(), default=_cores())

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        with self.lock:
            if self.users == 0:
                self.before = self._now()
            self.users += 1
            self._set([1] * len(self.before))
        try:
            yield
        finally:
            with self.lock:
                self.users -= 1
                self._set(self.before)

    def _now(self) -> list[int]:
        return [int(library.num_threads) for library in _controller().lib_controllers]

    def _set(self, counts: list[int]) -> None:
        for library, count in zip(_controller().lib_controllers, counts, strict=True):
            library.set_num_threads(count)


_BLAS = _Blas()
if hasattr(os, "register_at_fork"):  # a fork in the middle keeps the limit, but no lock that nobody will open
    os.register_at_fork(after_in_child=lambda: setattr(_BLAS, "lock", threading.Lock()))


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
