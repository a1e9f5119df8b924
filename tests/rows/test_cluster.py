"""Clusters that keep rows, lose workers and lose their scheduler."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from cases import make
from rows.lazy import lazy

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")


def slow(block: Any) -> Any:
    time.sleep(0.02)
    return block


def slow_rows(case: Any) -> tuple[Any, Any]:
    X, y = lazy(case, 50)
    return X.map_blocks(slow, meta=np.empty((0, case.X.shape[1]))), y


@pytest.fixture
def distributed() -> Iterator[Any]:
    """Dask's clusters, with short timeouts and room for the warnings of those that are being killed."""
    module = pytest.importorskip("distributed")
    with dask.config.set({"distributed.comm.timeouts.connect": "2s", "distributed.admin.log-format": "%(message)s"}):
        yield module


@pytest.mark.long
def test_rows_that_a_cluster_keeps_beside_others_that_it_makes(distributed: Any) -> None:
    case = make("squared", 3, 1_000, 4)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster),
    ):
        X = da.from_array(case.X, chunks=(100, -1)).persist()
        blocks = [dask.delayed(np.array)(case.y[k : k + 100]) for k in range(0, 1_000, 100)]
        y = da.concatenate([da.from_delayed(block, (100,), float) for block in blocks]) + 0 * X[:, 0]
        leak = fl.measure(fl.minimise(X, y, l2=case.l2), X, y)
        assert leak.dataset() == pytest.approx(case.leak().dataset(), rel=1e-12)
        assert leak.of([5, 250]) == pytest.approx(case.leak().of([5, 250]), rel=1e-12)
        groups = da.from_array(np.arange(1_000) % 3, chunks=100)
        assert leak.by_group(groups) == pytest.approx(case.leak().by_group(np.arange(1_000) % 3), rel=1e-12)


@pytest.mark.long
def test_a_killed_worker_changes_nothing(distributed: Any) -> None:
    case = make("squared", 3, 1_000, 4)
    X, y = slow_rows(case)

    def run() -> tuple[Any, Any]:
        fit = fl.minimise(X, y, "squared", case.l2)
        leak = fl.measure(fit, X, y)
        return leak.dataset(), leak.per_example().compute()

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        whole, rows = run()
        before = client.run(os.getpid)
        victim = next(iter(before.values()))
        timer = threading.Timer(0.4, os.kill, (victim, signal.SIGKILL))
        timer.start()
        again, rows_again = run()
        timer.join()
        assert victim not in client.run(os.getpid).values()
    assert again == whole
    np.testing.assert_array_equal(rows_again, rows)
    np.testing.assert_allclose(rows, case.leak().per_example(), rtol=1e-12)


SERVER = """
import asyncio, sys
from distributed import Scheduler, Worker

async def main():
    async with Scheduler(host="127.0.0.1", port=0, dashboard_address=":0") as scheduler:
        async with Worker(scheduler.address, nthreads=1, dashboard_address=":0"):
            print(scheduler.address, flush=True)
            await scheduler.finished()

asyncio.run(main())
"""


@pytest.mark.filterwarnings("ignore")
def test_a_lost_scheduler_is_said_in_one_sentence(distributed: Any) -> None:
    case = make("squared", 3, 2_000, 3)
    X, y = slow_rows(case)
    # its process finds this module too: what it is sent may arrive before it is killed
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=found
    )
    assert server.stdout is not None
    client = None
    try:
        client = distributed.Client(server.stdout.readline().strip(), timeout=30)
        threading.Timer(0.4, server.kill).start()
        with pytest.raises(fl.ClusterError, match="the connection to its scheduler was lost") as caught:
            fl.minimise(X, y)
        assert "\n" not in str(caught.value)
    finally:
        if client is not None:
            client.close(timeout=1)
        server.kill()
        server.wait()
        server.stdout.close()
    np.testing.assert_allclose(fl.minimise(X, y).coef, fl.minimise(case.X, case.y).coef, rtol=1e-12)
