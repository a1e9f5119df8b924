"""Totals of people on a ledger, pages that one label changes, files that a command would write over, and full disks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("skops")

from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

import fisherleak as fl
from fisherleak.cli import main
from fisherleak.releasing.files.released_files import load_model
from fisherleak.tables import from_frame
from releasing import test_people_of_any_record as people_of_any_record

pytestmark = pytest.mark.usefixtures("quick_audits")
Json = dict[str, Any]
Run = Callable[..., tuple[int, str, str]]
ENDS = {"age": (0, 100), "weight": (20, 150), "y": (0, 150)}
BOUNDS = [word for name, (low, high) in ENDS.items() for word in ("--bounds", f"{name}={low}:{high}")]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command in an empty folder: its exit status, what it printed and what it said."""
    monkeypatch.chdir(tmp_path)

    def command(*line: object) -> tuple[int, str, str]:
        status = main([*map(str, line)])
        out, err = capsys.readouterr()
        return status, out, " ".join(err.split())

    return command


# A person's total goes on, whatever a later release says of people


def visits() -> pandas.DataFrame:
    rng = np.random.default_rng(3)
    who = np.repeat(np.arange(1, 41), 3)
    age = np.where(who == 1, 95, rng.uniform(30, 60, 40).round()[who - 1])
    weight = rng.normal(70, 12, who.size).round(1).clip(30, 130)
    y = (0.5 * age + 0.3 * weight + rng.normal(0, 8, who.size)).round(1).clip(0, 140)
    number = np.arange(1, who.size + 1)
    return pandas.DataFrame(
        {"rid": number, "person": who, "couple": np.where(who == 2, 1, who), "age": age, "weight": weight, "y": y}
    )


def totals(run: Run, ledger: str = "book", table: str = "v.csv") -> Json:
    status, out, err = run("ledger", ledger, table, "--json")
    assert status == 0, err
    found: Json = json.loads(out)
    return found


@pytest.fixture
def release(run: Run) -> Run:
    """Releases the visits on a ledger, by people or not."""
    visits().to_csv("v.csv", index=False)

    def released(*more: object, table: str = "v.csv", ledger: str = "book") -> tuple[int, str, str]:
        line = ("release", table, "--target", "y", "--id", "rid", "--noise", 12, *BOUNDS, "--ledger", ledger)
        return run(*line, "--out", "m.skops", "--overwrite", "--quiet", *more)

    return released


def test_a_release_without_people_is_counted_by_people_too(run: Run, release: Run) -> None:
    """Five releases without ``--person`` passed a limit that a second one with it broke."""
    assert release("--person", "person", "--drop", "couple")[0] == 0
    first = totals(run)
    assert first["people"] == 40
    limit = 1.2 * first["eta"]["max"]
    refused = [release("--limit", limit, option, "person", "--drop", "couple") for option in ("--person", "--drop")]
    assert [status for status, _, _ in refused] == [1, 1]
    assert "of 40 people past the limit" in refused[1][2]
    assert refused[0][2] == refused[1][2]
    assert release("--drop", "person", "--drop", "couple")[0] == 0  # without a limit
    found = totals(run)
    assert found["people"] == 40
    assert found["eta"]["max"] == pytest.approx(2**0.5 * first["eta"]["max"])
    assert run("ledger", "book", "v.csv", "--limit", limit)[0] == 1


def test_of_several_columns_of_people_the_largest_total_counts(run: Run, release: Run) -> None:
    assert release("--person", "couple", "--drop", "person")[0] == 0
    assert totals(run)["people"] == 39
    largest = totals(run)["eta"]["max"]
    assert release("--person", "person", "--drop", "couple", "--limit", 1.1 * largest)[0] == 1
    assert release("--person", "person", "--drop", "couple", "--limit", 1.5 * largest)[0] == 0
    found = totals(run)
    assert found["people"] == 39
    assert found["eta"]["max"] == pytest.approx(2**0.5 * largest)


def test_a_table_without_the_people_of_a_ledger_is_refused(run: Run, release: Run) -> None:
    """On a ledger that it was carried to as well."""
    assert release("--person", "person", "--drop", "couple")[0] == 0
    assert run("ledger", "book", "--carry-to", "later")[0] == 0
    visits().drop(columns="person").to_csv("w.csv", index=False)
    status, _, said = release("--drop", "couple", table="w.csv", ledger="later")
    assert status == 2
    assert "'later' counts people by the column 'person', which this table lacks" in said
    assert release("--drop", "person", "--drop", "couple", ledger="later")[0] == 0  # the remedy
    assert totals(run, "later")["people"] == 40


def test_limits_of_the_ledger_in_python_are_on_people_too(run: Run, release: Run) -> None:
    assert release("--person", "person", "--drop", "couple")[0] == 0
    largest = totals(run)["eta"]["max"]
    table, ledger = visits().set_index("rid"), fl.Ledger("book")
    X, y = table[["person", "age", "weight"]], table["y"]
    columns = make_column_transformer(("passthrough", ["age", "weight"]))
    model = make_pipeline(columns, Ridge(1.0)).fit(X, y)
    leak = fl.measure(model, X, y, fl.Gaussian(1e3))
    rows, people = max(ledger.etas(X, y)), ledger.remaining(10.0, X, y)
    assert 10.0 - people > 1.5 * rows
    with pytest.raises(fl.InvalidInputError, match="of 40 people past the limit"):
        ledger.add(leak, limit=(10.0 - people + rows) / 2)
    bare = X[["age", "weight"]]
    with pytest.raises(fl.InvalidInputError, match="which this table lacks"):
        ledger.add(fl.measure(Ridge(1.0).fit(bare, y), bare, y, fl.Gaussian(1e3)), limit=100.0)
    for nothing in ((), (bare, y)):
        with pytest.raises(fl.InvalidInputError, match="which this table lacks"):
            ledger.remaining(10.0, *nothing)
    assert ledger.add(leak, limit=10.0 * largest) == 2


# A page that may be handed out


def labels(yes: int) -> pandas.DataFrame:
    rng = np.random.default_rng(5)
    frame = pandas.DataFrame({"x": rng.uniform(1, 99, 200).round(1), "z": rng.uniform(1, 99, 200).round(1)})
    return frame.assign(s=np.where(np.isin(np.arange(200), 4 * np.arange(yes)), "yes", "no"))


@pytest.mark.parametrize("yes", [3, 4])
def test_one_label_of_a_rare_class_does_not_show_on_a_page(yes: int, run: Run) -> None:
    """The line of AUC came and went with it."""
    labels(yes).to_csv("t.csv", index=False)
    line = ("audit", "t.csv", "--target", "s", "--model", "logistic", "--noise", 0.5, "--no-attacks", "--quiet")
    status, _, said = run(*line, "--board", "b.html")
    assert status == 2
    assert "a class has fewer than 5 training rows" in said
    assert not Path("b.html").exists()


def test_nor_of_one_that_few_held_out_rows_have(run: Run) -> None:
    labels(12).to_csv("t.csv", index=False)
    line = ("audit", "t.csv", "--target", "s", "--model", "logistic", "--noise", 0.5, "--no-attacks", "--quiet")
    status, _, said = run(*line, "--board", "b.html")
    assert status == 2
    assert "a class has fewer than 5 held-out rows" in said
    assert run(*line, "--board", "b.html", "--held-out", 0.5)[0] == 0  # the remedy
    assert "AUC" in Path("b.html").read_text(encoding="utf-8")


def test_a_page_of_a_fitted_model_is_held_to_the_same(tmp_path: Path) -> None:
    table = labels(40)
    X, y = table[["x", "z"]], table["s"]
    model = LogisticRegression(C=0.01, solver="newton-cholesky", tol=1e-10).fit(X, y)
    few = np.flatnonzero(y == "no")[:30].tolist() + np.flatnonzero(y == "yes")[:4].tolist()
    found = fl.audit(model, X, y, 0.5, X_test=X.iloc[few], y_test=y.iloc[few], attacks=False)
    with pytest.raises(fl.InvalidInputError, match="fewer than 5 held-out rows"):
        found.board(tmp_path / "never.html")
    assert not any(tmp_path.iterdir())


def test_a_scale_of_noise_with_a_covariance_is_not_called_that_of_every_parameter(tmp_path: Path) -> None:
    """R² with noise of that scale on every parameter was -46.7, and the page said 0.26."""
    table = visits()
    X, y = table[["age", "weight"]], table["y"]
    model = Ridge(1.0).fit(X, y)
    shape = np.diag([1e-3, 1e-3, 1.0])
    pages: list[str] = []
    for noise in (fl.Gaussian(3.0, shape), fl.Gaussian(3.0)):
        place = fl.audit(model, X, y, noise, attacks=False).board(tmp_path / f"{len(pages)}.html")
        pages.append(place.read_text(encoding="utf-8"))
    assert "Gaussian noise of scale 3, with its own covariance, is added" in pages[0]
    assert "every parameter" not in pages[0]
    assert "σ = 3 is added to every parameter" in pages[1]


# Files that are read are not written over


def test_no_option_writes_over_what_the_command_reads(run: Run) -> None:
    given = visits()
    given.to_csv("v.csv", index=False)
    Path("out").mkdir()
    given.to_parquet("out/leakage.parquet")
    given[["age", "weight"]].to_parquet("out/answers.parquet")
    Path("p.toml").write_text("[rows]\nmax_eta = 1e9\n", encoding="utf-8")
    Path("names.txt").write_text(",".join(given.columns), encoding="utf-8")
    model = ("--target", "y", "--drop", "person", "--drop", "couple")
    assert run("release", "v.csv", *model, "--noise", 12, "--out", "m.skops", "--quiet")[0] == 0
    audit, again = (*model, "--noise", 12, "--no-attacks"), ("--released", "m.skops", "--no-attacks")
    attempts = [
        ("audit", "v.csv", *audit, "--board", "v.csv"),
        ("audit", "v.csv", *audit, "--policy", "p.toml", "--board", "./p.toml"),
        ("audit", "v.csv", *audit, "--columns", "names.txt", "--header", "--board", "names.txt"),
        ("audit", "v.csv", *again, "--board", "m.skops"),
        ("audit", "v.csv", *again, "--board", "m.skops.json"),
        ("audit", "out/leakage.parquet", *audit, "--out", "out"),
        ("audit", "out", *audit, "--board", "out/answers.parquet"),
        ("audit", "out/leak*.parquet", *audit, "--out", "out"),
        ("answers", "v.csv", "out/answers.parquet", *model, "--noise", 12, "--out", "out"),
        ("release", "v.csv", *model, "--noise", 12, "--out", "v.csv"),
        ("release", "v.csv", *model, "--noise", 12, "--out", "new.skops", "--ledger", "v.csv"),
        (
            "release",
            "v.csv",
            *model,
            "--noise",
            12,
            "--shape-from",
            "out/leakage.parquet",
            "--out",
            "out/leakage.parquet",
        ),
        ("predict", "m.skops", "v.csv", "--out", "v.csv"),
    ]
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    for line in attempts:
        status, _, said = run(*line, "--overwrite")
        assert (status, "is read by this command: choose another file." in said) == (2, True), (line, said)
    status, _, said = run("audit", "v.csv", *audit, "--out", "new", "--board", "new/report.html")
    assert status == 2
    assert "--board and --out would both write 'new/report.html'" in said
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


# Where nothing can be printed


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("full", [pytest.param(True, marks=pytest.mark.long), False])
def test_what_is_said_of_a_full_or_closed_standard_output_is_true(full: bool, tmp_path: Path) -> None:
    visits().to_csv(tmp_path / "v.csv", index=False)
    line = [sys.executable, "-m", "fisherleak", "audit", "v.csv", "--target", "y", "--noise", "12", "--no-attacks"]
    words = " ".join([*line, "--draws", "2", "--out", "report", ">/dev/full" if full else ">&-"])
    done = subprocess.run(
        ["/bin/sh", "-c", words], cwd=tmp_path, env={**os.environ}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    stages = [line for line in done.stderr.splitlines() if line.endswith("...") or " s so far. " in line]
    assert len(done.stderr.splitlines()) == 1 + len(stages), done.stderr
    if full:
        assert "standard output could not be written (No space left on device): not all was printed." in done.stderr
        assert len(list((tmp_path / "report").iterdir())) == 3  # as it says
    else:
        assert "standard output is closed, and nothing was done" in done.stderr
        assert not (tmp_path / "report").exists()


# What is on a card of people and no table decides


def test_rows_per_person_are_named_as_not_confirmed(tmp_path: Path) -> None:
    """Twice as many with twice the limit can be the same noise: no table decides between them."""
    path, raw = tmp_path / "m.skops", from_frame(people_of_any_record.visits())
    people_of_any_record.released(path, shape="isotropic", choose_l2=False)
    found = people_of_any_record.confirmed(load_model(path), raw)
    assert found.failed is None
    assert any(each.startswith("How many rows a person may have, 4:") for each in found.unconfirmed)
    assert any("person" in each for each in found.unconfirmed if each.startswith("The exact values of settings"))
