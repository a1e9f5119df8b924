"""Clusters of dask.distributed: one that is running already, or workers on this machine."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import logging
import os
import re
import signal
import threading
from collections.abc import Iterator
from typing import Any

from fisherleak.errors import ClusterError, FisherleakError, InvalidInputError

TO_CONNECT, TO_WORK = 10, 60
"""Seconds to wait for a scheduler, and for its first worker."""
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": str(2**28), "MALLOC_MMAP_THRESHOLD_": str(2**25)}
"""Dask's own setting gives every freed block back to the system, which doubles the time of passes over rows."""
LOCAL = re.compile(r"local(?::(\d+))?")


@contextlib.contextmanager
def connected(address: str, memory: int | None = None) -> Iterator[Any]:
    """A client of a cluster, to which all lazy rows go inside the block.

    Parameters
    ----------
    address : str
        Of a scheduler, such as ``tcp://10.0.0.1:8786``; ``local`` or ``local:N`` starts a worker for each processor, or N, on
        this machine and ends them afterwards.
    memory : int, optional
        Bytes for the workers of a local cluster together.
    """
    distributed = _distributed()
    asked = LOCAL.fullmatch(address)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_silent())
        if asked:
            workers = int(asked[1]) if asked[1] else os.cpu_count() or 1
            if workers < 1:
                raise InvalidInputError(
                    f"`address='local:N'` needs at least one worker, such as local:2; got {address!r}."
                )
            place: Any = stack.enter_context(local_cluster(workers, None if memory is None else memory // workers))
        elif "://" in address:
            place = address
        else:
            raise InvalidInputError(
                f"`address` must be the address of a scheduler, such as tcp://10.0.0.1:8786, local or local:4; got {address!r}."
            )
        try:
            client = stack.enter_context(distributed.Client(place, timeout=TO_CONNECT, set_as_default=True))
        except (OSError, TimeoutError, ValueError) as error:
            raise ClusterError(
                f"No scheduler answers at '{address}' within {TO_CONNECT} s ({_short(error)}): start it first, or use "
                "`address='local'`."
            ) from None
        try:
            client.wait_for_workers(1, timeout=TO_WORK)
        except (OSError, TimeoutError) as error:
            raise ClusterError(
                f"The scheduler at '{address}' has no worker within {TO_WORK} s ({_short(error)}): start some first."
            ) from None
        _check_workers(client)
        yield client


@contextlib.contextmanager
def local_cluster(workers: int, memory: int | str | None = None) -> Iterator[Any]:
    """Workers on this machine with one thread each, ``memory`` bytes for each, an equal part of all by default."""
    distributed = _distributed()
    dask = importlib.import_module("dask")
    with (
        _uninterrupted(),
        dask.config.set({f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in ALLOCATOR.items()}),
    ):
        started = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit="auto" if memory is None else memory,
            dashboard_address=":0",
            silence_logs=50,
        )
    with started as cluster:
        yield cluster


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes that are started inside ignore Ctrl-C, which a terminal sends to all: they end when this one says so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """No logs of the cluster's libraries: what goes wrong is said once, in a sentence."""
    names = [name for name in logging.root.manager.loggerDict if name.startswith(("distributed", "tornado", "asyncio"))]
    loggers = [logging.getLogger(name) for name in (*names, "asyncio")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def memory_of(client: Any) -> int:
    """Bytes that the workers may use together."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return sum(int(worker["memory_limit"]) for worker in workers)


def _distributed() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise FisherleakError("A cluster needs dask.distributed: pip install 'fisherleak[cluster]'.") from None


def _check_workers(client: Any) -> None:
    """Every worker must have this version, or its numbers may be others."""
    own = importlib.metadata.version("fisherleak")
    try:
        found = set(client.run(importlib.metadata.version, "fisherleak").values())
    except importlib.metadata.PackageNotFoundError:
        raise ClusterError(f"A worker of the cluster lacks fisherleak: install version {own} there.") from None
    if found - {own}:
        other = sorted(found - {own})[0]
        raise ClusterError(f"A worker of the cluster has fisherleak {other}, and this is {own}: install the same.")


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
