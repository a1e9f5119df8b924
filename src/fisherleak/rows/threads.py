"""Blocks of rows in threads of their own, one core each, while BLAS keeps to one thread.

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

__all__ = ["alone", "each_in_order", "in_task", "threads_for"]

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
