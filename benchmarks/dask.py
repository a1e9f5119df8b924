"""Rows past one machine's memory: throughput of local workers, and cost against the number of rows.

``python benchmarks/dask.py`` makes 20,000,000 x 50 rows (8 GB) block by block, fits them and takes all etas on one and on
two single-threaded workers with 2 GB each; no rows are ever gathered. ``--rows 1000000`` is a smoke test.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import importlib.metadata
import json
import platform
import resource
import sys
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

# this file's own name must not hide the package
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]

import numpy as np  # noqa: E402

import fisherleak as fl  # noqa: E402
from fisherleak.rows import local_cluster  # noqa: E402

dask: Any = importlib.import_module("dask")
da: Any = importlib.import_module("dask.array")
distributed: Any = importlib.import_module("distributed")

COLUMNS = 50
BLOCK = 250_000
"""Rows in a block: 100 MB of float64, of which a worker holds two or three at once."""


@dataclass(frozen=True)
class Run:
    """One fit with all its etas on some workers."""

    rows: int
    workers: int
    fit: float
    etas: float
    whole: float
    passes: int
    largest: float
    dataset: float
    peak: int
    spilled: int

    @property
    def seconds(self) -> float:
        return self.fit + self.etas + self.whole


def block(block_info: Any = None) -> Any:
    """Rows and, as the last column, labels of one block, from its number."""
    place = block_info[None]
    rng = np.random.default_rng(place["chunk-location"][0])
    values = rng.standard_normal(place["chunk-shape"])
    weights = np.random.default_rng(0).standard_normal(COLUMNS) / COLUMNS**0.5
    values[:, -1] = values[:, :-1] @ weights + 0.5 * values[:, -1]
    return values


def rows(n: int, size: int = BLOCK) -> tuple[Any, Any]:
    chunks = (tuple(min(size, n - start) for start in range(0, n, size)), (COLUMNS + 1,))
    made = da.map_blocks(block, chunks=chunks, dtype=np.float64, meta=np.empty((0, 0)))
    return made[:, :-1], made[:, -1]


def peak() -> int:
    """Most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def timed(n: int, workers: int, memory: str) -> Run:
    X, y = rows(n)
    counted = {"passes": 0}
    compute = dask.compute

    def counting(*arguments: Any, **options: Any) -> Any:
        counted["passes"] += 1
        return compute(*arguments, **options)

    with local_cluster(workers, memory) as cluster, distributed.Client(cluster) as client:
        client.run(importlib.import_module, "fisherleak")
        fl.measure(fl.minimise(*rows(20_000, 5_000)), *rows(20_000, 5_000)).per_example().max().compute()  # warm
        dask.compute = counting
        try:
            times = [time.perf_counter()]
            fit = fl.minimise(X, y, l2=1e-3)
            times.append(time.perf_counter())
            leak = fl.measure(fit, X, y)
            largest = float(leak.per_example().max().compute())
            times.append(time.perf_counter())
            dataset = leak.dataset()
            times.append(time.perf_counter())
        finally:
            dask.compute = compute
        metrics = [worker["metrics"] for worker in client.scheduler_info(n_workers=-1)["workers"].values()]
        spilled = sum(int(each.get("spilled_bytes", {}).get("disk", 0)) for each in metrics)
        highest = max(client.run(peak).values())
    fitting, etas, whole = (later - sooner for sooner, later in pairwise(times))
    return Run(n, workers, fitting, etas, whole, counted["passes"] + 1, largest, dataset, highest, spilled)


def agreement(n: int) -> float:
    """Greatest relative difference between the etas of a slice by Dask and by NumPy."""
    X, y = (x[:n] for x in rows(max(n, BLOCK)))
    X, y = X.rechunk((9_999, -1)), y.rechunk(9_999)
    lazy = fl.measure(fl.minimise(X, y, l2=1e-3), X, y).per_example().compute()
    here = X.compute(), y.compute()
    return float(np.max(np.abs(lazy / fl.measure(fl.minimise(*here, l2=1e-3), *here).per_example() - 1.0)))


def told(run: Run) -> str:
    return (
        f"{run.rows:>12,}{run.workers:>9}{run.seconds:>10.1f} s{run.fit:>9.1f}{run.etas:>9.1f}{run.whole:>9.1f}"
        f"{run.rows / run.seconds:>14,.0f}{run.peak / 1e9:>9.2f} GB{run.spilled / 1e6:>9.1f} MB"
    )


def line_of(runs: list[Run]) -> tuple[float, float, float]:
    """Seconds per million rows, seconds at zero rows, and the greatest relative distance from that line."""
    n, took = np.array([run.rows for run in runs]) / 1e6, np.array([run.seconds for run in runs])
    slope, start = np.polyfit(n, took, 1, w=1.0 / took)
    return float(slope), float(start), float(np.max(np.abs((slope * n + start) / took - 1.0)))


def plot(runs: list[Run], path: Path) -> None:
    figure: Any = importlib.import_module("matplotlib.figure").Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    slope, start, _ = line_of(runs)
    n = np.array([run.rows for run in runs]) / 1e6
    axes.plot(n, slope * n + start, color="0.7")
    axes.plot(n, [run.seconds for run in runs], "o")
    axes.set_xlabel(f"million rows of {COLUMNS} columns")
    axes.set_ylabel("seconds: fit, all per-example etas, whole-data eta")
    axes.set_xlim(0)
    axes.set_ylim(0)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--memory", default="2GB", help="of each worker")
    parser.add_argument("--growth", type=int, default=4, help="smaller sizes, each half of the one before")
    parser.add_argument("--plot", type=Path, help="draw cost against rows")
    parser.add_argument("--out", type=Path, help="write the runs as JSON")
    options = parser.parse_args()
    names = ("dask", "distributed", "numpy", "fisherleak")
    known = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    print(f"{platform.machine()}, Python {platform.python_version()}, {known}; {datetime.date.today().isoformat()}")
    print(f"Same etas as NumPy on 100,000 rows: to {agreement(min(100_000, options.rows)):.1e}\n")
    print(
        f"{'rows':>12}{'workers':>9}{'in all':>12}{'fit':>9}{'etas':>9}{'whole':>9}{'rows/s':>14}{'peak':>12}{'spilled':>12}"
    )
    runs = []
    for workers in (1, 2):
        runs.append(timed(options.rows, workers, options.memory))
        print(told(runs[-1]), flush=True)
    one, two = runs
    assert abs(one.largest / two.largest - 1) < 1e-12
    assert abs(one.dataset / two.dataset - 1) < 1e-12
    print(f"\nTwo workers do {one.seconds / two.seconds:.2f} x the work of one; {two.passes} passes over the rows")
    growth = [timed(options.rows >> k, 2, options.memory) for k in range(options.growth, 0, -1)] + [two]
    for run in growth:
        print(told(run), flush=True)
    slope, start, apart = line_of(growth)
    print(f"\nA line: {slope:.2f} s per million rows + {start:.1f} s, to {apart:.1%}")
    print(f"Worker-seconds per million rows and pass: {slope * 2 / two.passes:.3f}")
    if options.plot is not None:
        plot(growth, options.plot)
    if options.out is not None:
        options.out.write_text(json.dumps([asdict(run) for run in [one, *growth]], indent=1))


if __name__ == "__main__":
    main()
