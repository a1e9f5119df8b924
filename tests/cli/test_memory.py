"""Memory beyond the features is a few blocks."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")

import pyarrow as pa
import pyarrow.parquet as pq

from fisherleak.auditing.run import audit
from fisherleak.report.outputs import write_outputs
from fisherleak.report.summarise import summarise
from fisherleak.training.trained_model import Settings

BLOCKS = 64e6
"""Room for the blocks in which rows are walked, whatever the size of the table."""
KEPT = 12
"""Times the numbers of a table, at most: themselves, and what is known of each of them."""


def write_table(path: Path, n: int, d: int) -> int:
    """A Parquet table of d numbers and a class, block by block; gives back the bytes of its numbers."""
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(d)]
    schema = pa.schema([*((name, pa.float64()) for name in names), ("sick", pa.string())])
    with pq.ParquetWriter(path, schema, compression="none") as writer:
        for start in range(0, n, 50_000):
            X = rng.normal(size=(min(50_000, n - start), d))
            sick = np.where(X[:, 0] + rng.normal(size=len(X)) > 0, "yes", "no")
            writer.write_table(pa.table({**{name: X[:, j] for j, name in enumerate(names)}, "sick": sick}))
    return 8 * n * d


PAGES = """
import resource, sys
import fisherleak.cli._common as common
if sys.argv[1]:
    common.keep_memory(sys.argv[1])
def once():
    return bytearray(b"x") * 50_000_000
once()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    once()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="an option of the GNU C library")
def test_memory_of_large_arrays_is_kept_for_the_next_where_the_table_is_small(tmp_path: Path) -> None:
    small, large = tmp_path / "small.csv", tmp_path / "large.csv"
    small.write_text("a,b\n1,2\n")
    with large.open("wb") as file:
        file.truncate(2**26 + 1)
    found = []
    for path in ("", str(small), str(large), "-"):
        done = subprocess.run([sys.executable, "-c", PAGES, path], capture_output=True, text=True, check=True)
        found.append(int(done.stdout))
    plain, kept, by_size, of_input = found
    if plain < 1000:
        pytest.skip("memory is kept here in any case")
    assert kept < plain / 5
    assert min(by_size, of_input) > plain / 2


@pytest.mark.long
def test_a_larger_table_needs_room_for_its_numbers_and_a_few_blocks(tmp_path: Path) -> None:
    size = write_table(tmp_path / "t.parquet", 40_000, 40)
    tracemalloc.start()
    try:
        with threadpool_limits(1):
            result = audit(tmp_path / "t.parquet", Settings("sick"), draws=5, attacks=False)
            summary = summarise(result)
            write_outputs(result, summary, tmp_path / "out")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < KEPT * size + BLOCKS
    assert summary["data"]["train_rows"] == 30_000
    assert pq.ParquetFile(tmp_path / "out" / "leakage.parquet").metadata.num_rows == 30_000


SCRIPT = """
import resource, sys
from pathlib import Path
from fisherleak.cli import main
options = ["--target", "sick", "--out", sys.argv[2], "--quiet"]
status = main(["audit", sys.argv[1], *options, *sys.argv[3:]])
unit = 1 if sys.platform == "darwin" else 1024
told = Path("/proc/self/status")  # its own peak; that of getrusage begins with the size of the process that started it
peak = told.read_text().split("VmHWM:")[1].split()[0] if told.exists() else None
print(status, (int(peak) if peak else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit)
"""


def peaks_of(tmp_path: Path, rows: tuple[int, ...], columns: int, *options: str) -> tuple[list[int], list[int]]:
    """Bytes of the numbers of tables, and of the memory that audits of them took."""
    sizes, peaks = [], []
    for count in rows:
        sizes.append(write_table(tmp_path / "t.parquet", count, columns))
        out = tmp_path / str(count)
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "t.parquet"), str(out), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        status, peak = done.stdout.split()
        assert (status, done.stderr) == ("0", "")
        peaks.append(int(peak))
        assert pq.ParquetFile(out / "leakage.parquet").metadata.num_rows == pytest.approx(0.75 * count, rel=1e-2)
    return sizes, peaks


@pytest.mark.long
def test_memory_grows_with_the_numbers_of_a_table_and_hardly_more(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    sizes, peaks = peaks_of(tmp_path, (25_000, 75_000), 99)
    assert peaks[0] < sizes[0] + 1e9  # Python, its libraries, compiled kernels, and the blocks of two threads
    # peaks of two runs differ by what threads hold at a time
    assert peaks[1] - peaks[0] < KEPT * (sizes[1] - sizes[0]) + BLOCKS


@pytest.mark.long
def test_memory_does_not_grow_with_a_table_that_is_read_part_by_part(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    pytest.importorskip("dask.array")
    # far apart: peaks of two runs of one table differ by 75 MB, and in memory this table takes 1.3 times its numbers
    sizes, peaks = peaks_of(tmp_path, (100_000, 1_000_000), 60, "--memory", "40MB")
    assert peaks[1] - peaks[0] < 0.6 * (sizes[1] - sizes[0])
