"""Audits of tables that are not in memory: the same figures from parts that are read for every pass, here or on a cluster."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("dask.dataframe")

import pandas
import pyarrow as pa
import pyarrow.parquet as pq

from fisherleak._support.arrays import is_lazy
from fisherleak.audit.run import Settings, audit
from fisherleak.errors import DataError, InvalidInputError
from fisherleak.report.outputs import write_outputs
from fisherleak.report.summarise import summarise
from fisherleak.tables import Choices, RawTable, Room, csvfile, design_of, from_frame, parquet, parts, read_table
from fisherleak.tables.choices import sort_of
from fisherleak.tables.profile import profiles_of
from report.test_summarise import check_summary

Command = Callable[..., Any]
LITTLE = Room(1)
"""No table fits."""


def people(n: int = 4_000) -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(
        {
            "person": [f"p{i:06d}" for i in range(n)],
            "age": rng.normal(50, 12, n).round(1),
            "dose": rng.lognormal(0, 1, n),
            "city": rng.choice(["Bern", "Basel", "Chur"], n),
            "code": rng.integers(0, 4, n),
            "vip": rng.choice([True, False], n),
        }
    )
    table.loc[rng.choice(n, n // 50, replace=False), "dose"] = np.nan
    table.loc[rng.choice(n, n // 60, replace=False), "city"] = None
    table["cost"] = 10 * table.age + 50 * table.vip + rng.normal(0, 90, n)
    table["ill"] = np.where(table.age + rng.normal(0, 12, n) > 55, "yes", "no")
    return table


def write(table: pandas.DataFrame, folder: Path, files: int = 11) -> Path:
    folder.mkdir()
    for k, rows in enumerate(np.array_split(np.arange(len(table)), files)):
        part = pa.Table.from_pandas(table.iloc[rows], preserve_index=False)
        pq.write_table(part, folder / f"part-{k}.parquet", row_group_size=100)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(people(), tmp_path_factory.mktemp("scale") / "visits")


def without_times(summary: dict[str, Any]) -> dict[str, Any]:
    kept = json.loads(json.dumps(summary))
    for key in ("created", "assumptions", "command", "attacks", "versions"):
        kept.pop(key)
    kept["data"].pop("in_memory")
    kept["diagnostics"].pop("seconds")
    kept["diagnostics"].pop("finite_difference")
    for point in kept["tradeoff"]["points"]:
        point.pop("attacks")
    return kept


def assert_same(one: Any, other: Any, where: str = "") -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            assert_same(one[key], other[key], f"{where}/{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for k, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same(a, b, f"{where}/{k}")
    elif isinstance(one, float) and not where.startswith("/diagnostics"):
        assert other == pytest.approx(one, rel=1e-9, abs=1e-12), where
    elif not where.startswith("/diagnostics"):
        assert one == other, where


@pytest.mark.parametrize(
    "settings", [Settings("ill", id="person", group="city"), Settings("cost", categories=("code",))]
)
def test_figures_are_the_same_wherever_the_rows_are(folder: Path, tmp_path: Path, settings: Settings) -> None:
    here = audit(folder, settings, noise=2.0, max_eta=0.05, draws=4, attacks=False)
    away = audit(str(folder / "*.parquet"), settings, LITTLE, noise=2.0, max_eta=0.05, draws=4, attacks=False)
    assert is_lazy(away.design.X)
    assert not is_lazy(here.design.X)
    one, other = (summarise(each, show_values=True) for each in (here, away))
    check_summary(other)
    one["data"]["source"] = other["data"]["source"]
    one["title"] = other["title"]
    assert_same(without_times(one), without_times(other))
    assert any("never in one memory" in sentence for sentence in other["assumptions"])
    for name, result, summary in (("here", here, one), ("away", away, other)):
        write_outputs(result, summary, tmp_path / name)
    frames = [pandas.read_parquet(tmp_path / name / "leakage.parquet") for name in ("here", "away")]
    assert set(frames[1].columns) == {"row", "eta", "eta_label"} | ({"id"} if settings.id else set())
    for name in frames[1].columns:
        if name == "id":
            assert frames[0]["id"].tolist() == frames[1]["id"].tolist()
        else:
            np.testing.assert_allclose(frames[1][name], frames[0][name], rtol=1e-9)


def test_a_table_in_one_file_is_read_in_parts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "PART_BYTES", 60_000)
    table = people(3_000)
    table.to_parquet(tmp_path / "t.parquet", row_group_size=500)
    table.to_csv(tmp_path / "t.csv", index=False)
    settings = Settings("ill", id="person")
    results = [audit(tmp_path / "t.csv", settings, draws=4, attacks=False)]
    results += [audit(tmp_path / name, settings, LITTLE, draws=4, attacks=False) for name in ("t.parquet", "t.csv")]
    for result in results[1:]:
        assert result.design.X.numblocks[0] > 1 or result.design.source == "t.csv"
        np.testing.assert_allclose(result.eta.compute(), results[0].eta, rtol=1e-9)


def test_a_large_csv_file_becomes_a_temporary_parquet_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Types that the first block suggests are widened when later rows ask for it."""
    monkeypatch.setattr(csvfile, "BLOCK", 20_000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    table = people(2_000)
    late = np.arange(2_000) > 1_500
    table["score"] = np.where(late, "0.5", "1")
    table["level"] = np.where(late, "high", "2")
    table["empty"] = np.where(late, "7", "")
    table["when"] = np.where(late, "later", "2020-01-01")
    table["flag"] = np.where(late, "maybe", "true")
    table.to_csv(tmp_path / "t.csv", index=True)
    here, away = read_table(tmp_path / "t.csv"), read_table(tmp_path / "t.csv", memory=1_000)
    assert away.names == here.names
    found = {name: str(away.kind(name)) for name in ("score", "level", "empty", "when", "flag", "age")}
    assert found == {"score": "double", "level": "string", "empty": "int64"} | {
        "when": "string",
        "flag": "string",
        "age": "double",
    }
    assert away.notes == here.notes
    assert away.sha256 == here.sha256
    assert isinstance(away.parts[0], parts.FilePart)
    settings = Settings("ill", id="person", drop=("empty",))
    one, two = audit(here, settings, draws=4, attacks=False), audit(away, settings, LITTLE, draws=4, attacks=False)
    np.testing.assert_allclose(two.eta.compute(), one.eta, rtol=1e-9)
    assert list((tmp_path / "temporary").iterdir())
    del away, two
    gc.collect()
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("", "2020-01-{:02d}"),
        ("2020-01-01", "2020-01-{:02d} 10:00:00"),
        ("{:d}", "true"),
        ("", "true"),
        ("", "{:d}"),
        ("{:d}", "{:d}.5"),
        ("2020-01-01", "never"),
        ("12:00:00", "soon"),
        ("true", "2"),
    ],
)
def test_types_are_those_that_the_whole_file_has(
    first: str, then: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csvfile, "BLOCK", 2**14)
    fields = [
        (first if k < 2_000 else then).format(k % 2 if "d}" in first and k < 2_000 else k % 28 + 1)
        for k in range(3_000)
    ]
    lines = "".join(f"{k % 97}.5,{field},{k % 89}\n" for k, field in enumerate(fields))
    (tmp_path / "t.csv").write_text(f"x,t,y\n{lines}")
    away = read_table(tmp_path / "t.csv", memory=1_000)
    assert isinstance(away.parts[0], parts.FilePart)
    assert [sort_of(kind) for kind in away.kinds] == [sort_of(kind) for kind in read_table(tmp_path / "t.csv").kinds]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,t,y\n" + "1,ab,2\n" * 900_000 + "1,\xff,2\n" * 900_000, "is not encoded in utf-8 in column 't'"),
        ("x,x,y\n" + "1,2,3\n" * 99, "'x' more than once"),
        ("x,y\n" + "1,2\n" * 50 + "1,2,3\n", "has 3 fields in line 52"),
        ("x,y\n", "no rows"),
        ("x,y\n" + "1,\xff\n" * 50, "is not encoded in utf-8"),
    ],
)
def test_bad_large_csv_files(text: str, message: str, tmp_path: Path, fisherleak: Command) -> None:
    (tmp_path / "t.csv").write_bytes(text.encode("latin-1"))
    done = fisherleak("audit", tmp_path / "t.csv", "--target", "y", "--memory", "1B")
    assert (done.status, done.out) == (2, "")
    assert message in done.err


def test_parts_are_cut_so_that_their_features_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = people(3_000)
    table.to_parquet(tmp_path / "t.parquet", row_group_size=1_000)
    whole = audit(tmp_path / "t.parquet", Settings("ill"), draws=4, attacks=False)
    monkeypatch.setattr(parts, "BLOCK_BYTES", 8 * 300 * 6)
    result = audit(tmp_path / "t.parquet", Settings("ill"), LITTLE, draws=4, attacks=False)
    assert max(result.design.X.chunks[0]) <= 300
    np.testing.assert_allclose(result.eta.compute(), whole.eta, rtol=1e-9)
    np.testing.assert_array_equal(result.design.rows.compute(), whole.design.rows)


def test_large_tables_are_split_by_row_number(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    from fisherleak.tables import split

    monkeypatch.setattr(split, "EXACT", 1_000)
    here = design_of(read_table(folder), Choices("ill"), seed=3)
    away = design_of(read_table(folder), Choices("ill"), seed=3, room=LITTLE)
    other = design_of(read_table(folder), Choices("ill"), seed=4)
    np.testing.assert_array_equal(away.rows.compute(), here.rows)
    np.testing.assert_array_equal(away.X_test, here.X_test)
    assert here.held_out == pytest.approx(0.25 * (here.held_out + here.n), abs=4 * np.sqrt(0.25 * 0.75 * 4_000))
    assert not np.array_equal(other.rows[:500], here.rows[:500])
    shares = [np.mean(np.isin(np.arange(k, 4_000, 7) + 1, here.rows)) for k in range(7)]
    np.testing.assert_allclose(shares, np.mean(shares), atol=0.08)


def test_profiles_merge_to_that_of_the_whole(tmp_path: Path) -> None:
    table = people(2_000)
    table.to_parquet(tmp_path / "one.parquet")
    many = read_table(write(table, tmp_path / "many"))
    one, choices = read_table(tmp_path / "one.parquet"), Choices("cost", group="city", categories=("code",))
    assert len(many.parts) == 11
    assert profiles_of(many, choices, True) == profiles_of(many, choices, False) == profiles_of(one, choices, False)


def test_files_may_differ_in_types_that_hold_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 300
    k, x, c = rng.integers(0, 4, n), rng.normal(size=n).round(1), rng.choice(["a", "b"], n)
    y = (x + k + rng.normal(size=n) > 1.5).astype(int)
    plain = pa.table({"k": k, "x": x, "c": c, "e": np.where(x > 0, "p", "q"), "y": y})
    kinds: list[list[Any]] = [
        [pa.int64(), pa.float64(), pa.string(), pa.string(), pa.int64()],
        [pa.float64(), pa.float32(), pa.dictionary(pa.int32(), pa.string()), pa.large_string(), pa.decimal128(6, 2)],
        [pa.decimal128(6, 2), pa.float64(), pa.string(), pa.string(), pa.decimal128(6, 1)],
    ]
    (tmp_path / "many").mkdir()
    for j, types in enumerate(kinds):
        part = plain.slice(100 * j, 100)
        columns = []
        for column, kind in zip(part.columns, types, strict=True):
            if pa.types.is_decimal(kind):
                columns.append(pa.array([Decimal(value) for value in column.to_pylist()], kind))
            else:
                columns.append(column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind))
        pq.write_table(pa.table(columns, names=plain.column_names), tmp_path / "many" / f"{j}.parquet")
    missing = plain.slice(0, 3).set_column(3, "e", pa.nulls(3))
    pq.write_table(missing, tmp_path / "many" / "3.parquet")
    settings = Settings("y", categories=("k",), group="k")
    results = [audit(tmp_path / "many", settings, room, draws=4, attacks=False) for room in (None, LITTLE)]
    for result in results:
        assert result.design.target.classes == (0.0, 1.0)
        assert [group.name for group in result.groups] == ["0", "1", "2", "3"]
        assert result.design.dropped == (("'e' is missing", 3),)
    np.testing.assert_allclose(results[1].eta.compute(), results[0].eta, rtol=1e-9)


def test_figures_do_not_depend_on_how_a_table_is_cut(tmp_path: Path) -> None:
    """A spread of exactly 1.25 is a tie in two digits; an identifier that restarts in every file is none."""
    rng = np.random.default_rng(8)
    k = np.repeat([0.0, 2.5], 800)
    rng.shuffle(k)
    x = rng.normal(size=1_600)
    table = pandas.DataFrame(
        {"x": x, "k": k, "patient_id": np.arange(1_600) % 400, "y": x + k + rng.normal(size=1_600)}
    )
    table.to_parquet(tmp_path / "one.parquet")
    whole = audit(tmp_path / "one.parquet", Settings("y", held_out=0.0), draws=4, attacks=False)
    assert [f.name for f in whole.design.features] == ["x", "k", "patient_id"]
    for files in (4, 37):
        write(table, tmp_path / str(files), files)
        for room in (None, LITTLE):
            result = audit(tmp_path / str(files), Settings("y", held_out=0.0), room, draws=4, attacks=False)
            assert [(f.name, f.scale) for f in result.design.features] == [
                (f.name, f.scale) for f in whole.design.features
            ]
            assert result.noise.scale == pytest.approx(whole.noise.scale, rel=1e-9)
    other = table.assign(patient_id=rng.permutation(1_600))
    write(other, tmp_path / "ids")
    for room in (None, LITTLE):
        result = audit(tmp_path / "ids", Settings("y"), room, draws=4, attacks=False)
        assert [f.name for f in result.design.features] == ["x", "k"]


def test_bad_files_are_named(folder: Path, tmp_path: Path, fisherleak: Command) -> None:
    bad = write(people(1_000), tmp_path / "bad", files=3)
    path = bad / "part-1.parquet"
    good = path.read_bytes()
    command = ("audit", bad / "*.parquet", "--target", "ill", "--draws", 4, "--no-attacks", "--memory", "1B")
    part = pandas.read_parquet(path)
    cases = {
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


def test_streaming_from_the_command_line(folder: Path, fisherleak: Command, tmp_path: Path) -> None:
    base = ("audit", folder, "--target", "cost", "--draws", 4, "--no-attacks", "--noise", 3)
    here = json.loads(fisherleak(*base, "--json").out)
    away = json.loads(fisherleak(*base, "--json", "--memory", "1B").out)
    assert_same(without_times(here), without_times(away))
    done = fisherleak(*base, "--memory", "1B", "--out", tmp_path / "out")
    assert done.status == 0
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000


def test_files_at_an_address(folder: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    for path in folder.iterdir():
        store.pipe(f"/visits/{path.name}", path.read_bytes())
    here = audit(folder, Settings("ill"), draws=4, attacks=False)
    for pattern in ("memory://visits", "memory://visits/*.parquet"):
        for room in (None, LITTLE):
            away = audit(pattern, Settings("ill"), room, draws=4, attacks=False)
            assert away.design.sha256 == here.design.sha256
            assert away.rows.digest.high == pytest.approx(here.rows.digest.high, rel=1e-12)
    with pytest.raises(DataError, match="nothing cannot be opened"):
        read_table("memory://nothing")
    with pytest.raises(DataError, match="cannot be opened"):
        read_table("nosuchprotocol://x/*.parquet")


def test_the_checksum_of_a_folder_is_that_of_sha256sum(folder: Path) -> None:
    result = audit(folder, Settings("ill"), draws=4, attacks=False)
    files = [f"part-{k}.parquet" for k in range(11)]
    lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in files]
    once = hashlib.sha256("".join(lines).encode()).hexdigest()
    assert result.design.sha256 == once
    assert audit(folder, Settings("ill"), LITTLE, draws=4, attacks=False).design.sha256 == once


# Clusters


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


def test_an_audit_on_a_cluster(folder: Path, server: Server) -> None:
    base = ("audit", folder / "*.parquet", "--target", "ill", "--id", "person", "--draws", 4, "--no-attacks", "--json")
    here = json.loads(installed(*base).stdout)
    away = installed(*base, "--cluster", server.address)
    assert (away.returncode, away.stderr) == (0, "")
    assert_same(without_times(here), without_times(json.loads(away.stdout)))


def test_a_worker_killed_during_an_audit_changes_nothing(folder: Path, server: Server) -> None:
    base = ("audit", folder, "--target", "cost", "--draws", 4, "--no-attacks", "--json", "--cluster", server.address)
    calm = json.loads(installed(*base).stdout)
    server.kill("worker")
    done = installed(*base)
    assert server.answer() == "killed"
    assert done.returncode == 0
    assert without_times(calm) == without_times(json.loads(done.stdout))


def test_a_scheduler_that_is_lost_is_said_in_one_sentence(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    server = Server()
    server.kill("all")
    done = installed(
        *("audit", folder, "--target", "cost", "--no-attacks", "--out", tmp_path / "out", "--cluster", server.address)
    )
    server.close()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("fisherleak: The cluster could not finish: the connection to its scheduler was lost.")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


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


def test_a_cluster_that_is_not_there_is_said_in_one_sentence(folder: Path) -> None:
    done = installed("audit", folder, "--target", "ill", "--cluster", "tcp://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("fisherleak: No scheduler answers at 'tcp://127.0.0.1:9' within 10 s")
    assert done.stderr.count("\n") == 1


def test_a_table_that_is_read_here_is_not_sent_to_a_cluster(tmp_path: Path, server: Server) -> None:
    people(60).to_csv(tmp_path / "t.csv", index=False)
    done = installed("audit", tmp_path / "t.csv", "--target", "ill", "--cluster", server.address)
    assert done.returncode == 2
    assert "save it as Parquet" in done.stderr


def test_identifiers_that_repeat_are_refused(tmp_path: Path) -> None:
    table = people(400)
    write(table.assign(person=[f"p{k % 390}" for k in range(400)]), tmp_path / "across", files=4)
    with pytest.raises(InvalidInputError, match="repeats 10 of its 400 values"):
        audit(tmp_path / "across", Settings("ill", id="person"), draws=4, attacks=False)
    with pytest.raises(InvalidInputError, match="'person' repeats values"):
        audit(tmp_path / "across", Settings("ill", id="person"), LITTLE, draws=4, attacks=False)
    write(table.assign(person=[np.nan, *np.arange(399.0)]), tmp_path / "missing", files=4)
    for room in (None, LITTLE):
        with pytest.raises(InvalidInputError, match="'person' has 1 missing value"):
            audit(tmp_path / "missing", Settings("ill", id="person"), room, draws=4, attacks=False)
    write(table, tmp_path / "good", files=4)
    result = audit(tmp_path / "good", Settings("ill", id="person"), LITTLE, draws=4, attacks=False)
    assert any("a sample was looked at" in note for note in result.design.notes)


def test_a_folder_fits_in_memory_by_default(folder: Path) -> None:
    raw = read_table(folder)
    assert isinstance(raw, RawTable)
    assert not design_of(raw, Choices("ill"), room=Room.here()).lazy


def test_only_files_go_to_a_cluster() -> None:
    """Whichever way a table comes, by an audit or by a released model's."""
    with pytest.raises(InvalidInputError, match="save it as Parquet"):
        design_of(from_frame(people(60)), Choices("ill"), room=Room(0, cluster=True))
