"""Audits of tables that are not in memory from the command line: read part by part, here or on a cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("dask.dataframe")

import pandas

from visits import assert_same, people, without_times, write

Command = Callable[..., Any]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,t,y\n" + "1,ab,2\n" * 900_000 + "1,\xff,2\n" * 900_000, "is not encoded in utf-8 in column 't'"),
        ("x,x,y\n" + "1,2,3\n" * 99, "'x' more than once"),
        ("x,y\n" + "1,2\n" * 50 + "1,2,3\n", "has 3 fields in line 52"),
        ("x,y\n", "no rows"),
        ("x,y\n" + "1,\xff\n" * 50, "is not encoded in utf-8"),
    ],
    ids=["bytes far down", "a name twice", "a field more", "no rows", "bytes"],
)
def test_bad_large_csv_files(text: str, message: str, tmp_path: Path, fisherleak: Command) -> None:
    (tmp_path / "t.csv").write_bytes(text.encode("latin-1"))
    done = fisherleak("audit", tmp_path / "t.csv", "--target", "y", "--memory", "1B")
    assert (done.status, done.out) == (2, "")
    assert message in done.err


def test_bad_files_are_named(folder: Path, tmp_path: Path, fisherleak: Command) -> None:
    bad = write(people(1_000), tmp_path / "bad", files=3)
    path = bad / "part-1.parquet"
    good = path.read_bytes()
    command = ("audit", bad / "*.parquet", "--target", "ill", "--draws", 4, "--no-attacks", "--memory", "1B")
    part = pandas.read_parquet(path)
    cases: dict[str, Callable[[], object]] = {
        "part-1.parquet is a damaged Parquet file": lambda: path.write_bytes(good[:-50]),
        "part-1.parquet lacks column 'dose'": lambda: part.drop(columns="dose").to_parquet(path),
        "part-1.parquet has column 'more'": lambda: part.assign(more=1).to_parquet(path),
        "part-1.parquet has type": lambda: part.assign(dose="much").to_parquet(path),
        "in row 8 of part-1.parquet": lambda: part.assign(
            dose=np.where(np.arange(len(part)) == 7, np.inf, part.dose)
        ).to_parquet(path),
    }
    for message, spoil in cases.items():
        spoil()
        for arguments in (command, (*command[:-2],)):
            done = fisherleak(*arguments)
            assert (done.status, done.out) == (2, "")
            assert message in done.err
            assert done.err.count("\n") == 1
    # a footer that is whole, over data that are not
    path.write_bytes(good[:4] + b"\xff" * 600 + good[604:])
    done = fisherleak(*command)
    assert done.status == 2
    assert "part-1.parquet is a damaged Parquet file" in done.err


@pytest.mark.long
def test_what_needs_all_rows_says_so(folder: Path, fisherleak: Command, tmp_path: Path) -> None:
    base = ("audit", folder, "--target", "ill", "--draws", 4)
    for option in (("--attribute", "city"), ("--balance",)):
        done = fisherleak(*base, "--memory", "1kB", *option)
        assert done.status == 2
        assert f"{option[0]} needs all rows in memory" in done.err
    done = fisherleak("audit", *sorted(folder.iterdir()), "--target", "ill")
    assert done.status == 2
    assert "Put a pattern of files in quotes, or name their folder." in done.err
    done = fisherleak(*base, "--cluster", "local:0")
    assert done.status == 2
    assert "--cluster local:N needs at least one worker" in done.err
    done = fisherleak(*base, "--memory", "lots")
    assert done.status == 2
    assert "--memory must be a size above zero with its unit" in done.err
    people(60).to_csv(tmp_path / "t.csv", index=False)
    done = fisherleak("audit", tmp_path / "t.csv", "--target", "ill", "--cluster", "here")
    assert done.status == 2
    assert "--cluster must be the address of a scheduler" in done.err


@pytest.mark.long
def test_streaming_from_the_command_line(folder: Path, fisherleak: Command, tmp_path: Path) -> None:
    base = ("audit", folder, "--target", "cost", "--draws", 4, "--no-attacks", "--noise", 3)
    here = json.loads(fisherleak(*base, "--json").out)
    away = json.loads(fisherleak(*base, "--json", "--memory", "1B").out)
    assert_same(without_times(here), without_times(away))
    done = fisherleak(*base, "--memory", "1B", "--out", tmp_path / "out")
    assert done.status == 0
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000


SERVER = """
import os, signal, sys, time
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster:
        print(cluster.scheduler_address, flush=True)
        for line in sys.stdin:
            first = cluster.scheduler.transition_counter
            while cluster.scheduler.transition_counter < first + 300:
                time.sleep(0.01)
            if line == "worker\\n":
                os.kill(cluster.workers[0].pid, signal.SIGKILL)
                print("killed", flush=True)
            else:
                os.killpg(0, signal.SIGKILL)
"""


class Server:
    """A scheduler and two workers, which restart when they are killed, in processes of their own."""

    def __init__(self) -> None:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([sys.executable, "-c", SERVER], text=True, start_new_session=True, **pipes)
        self.address = self.answer()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return str(self.process.stdout.readline()).strip()

    def kill(self, what: str) -> None:
        """Kill a worker, or all, once a few hundred steps of the next work are done."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    pytest.importorskip("distributed")
    serving = Server()
    yield serving
    serving.close()


def installed(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command as users run it."""
    command = [str(Path(sys.executable).parent / "fisherleak"), *(str(argument) for argument in arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.long
def test_an_audit_on_a_cluster(folder: Path, server: Server) -> None:
    table = ("audit", folder / "*.parquet", "--target", "ill", "--id", "person")
    base = (*table, "--noise", 0.03, "--draws", 4, "--no-attacks", "--json")
    here = json.loads(installed(*base).stdout)
    away = installed(*base, "--cluster", server.address)
    assert (away.returncode, away.stderr) == (0, "")
    assert_same(without_times(here), without_times(json.loads(away.stdout)))


@pytest.mark.long
def test_a_worker_killed_during_an_audit_changes_nothing(folder: Path, server: Server) -> None:
    base = ("audit", folder, "--target", "cost", "--draws", 4, "--no-attacks", "--json", "--cluster", server.address)
    calm = json.loads(installed(*base).stdout)
    server.kill("worker")
    done = installed(*base)
    assert server.answer() == "killed"
    assert done.returncode == 0
    assert without_times(calm) == without_times(json.loads(done.stdout))


@pytest.mark.long
def test_a_scheduler_that_is_lost_is_said_in_one_sentence(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    server = Server()
    server.kill("all")
    done = installed(
        *("audit", folder, "--target", "cost", "--no-attacks", "--out", tmp_path / "out", "--cluster", server.address)
    )
    server.close()
    assert (done.returncode, done.stdout) == (2, "")
    *stages, said = done.stderr.splitlines()
    assert said.startswith("fisherleak: The cluster could not finish: the connection to its scheduler was lost.")
    assert all(each.endswith("...") for each in stages)
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_a_local_cluster(folder: Path) -> None:
    done = installed(
        *(
            "audit",
            folder,
            "--target",
            "ill",
            "--draws",
            4,
            "--no-attacks",
            "--quiet",
            "--cluster",
            "local:2",
            "--memory",
            "2GB",
        )
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.long
def test_a_cluster_that_is_not_there_is_said_in_one_sentence(folder: Path) -> None:
    done = installed("audit", folder, "--target", "ill", "--cluster", "tcp://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("fisherleak: No scheduler answers at 'tcp://127.0.0.1:9' within 10 s")
    assert done.stderr.count("\n") == 1


@pytest.mark.long
def test_a_table_that_is_read_here_is_not_sent_to_a_cluster(tmp_path: Path, server: Server) -> None:
    people(60).to_csv(tmp_path / "t.csv", index=False)
    done = installed("audit", tmp_path / "t.csv", "--target", "ill", "--cluster", server.address)
    assert done.returncode == 2
    assert "save it as Parquet" in done.stderr
