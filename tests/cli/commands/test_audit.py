"""The audit command: its figures, its files, its gate."""

from __future__ import annotations

import gzip
import io
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas

import fisherleak as fl
from fisherleak.auditing.run import Settings, audit
from fisherleak.report.summarise import summarise
from report.test_schema import PUBLISHED, wrong
from report.test_summarise import check_summary

Command = Callable[..., Any]
FAST = ("--draws", "4", "--no-attacks")


def test_it_runs_on_built_in_data(fisherleak: Command, tmp_path: Path) -> None:
    done = fisherleak("audit", "--out", tmp_path / "demo", *FAST)
    assert (done.status, done.err) == (0, "")
    assert done.out.rstrip().endswith(f"open {tmp_path / 'demo' / 'report.html'}")
    assert sorted(p.name for p in (tmp_path / "demo").iterdir()) == ["leakage.parquet", "report.html", "summary.json"]
    assert "Most exposed rows" in done.out
    assert "\x1b" not in done.out


def test_counts_are_written_as_in_the_report(fisherleak: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pandas.DataFrame({"a": rng.normal(size=2_000), "y": rng.normal(size=2_000)}).to_csv(tmp_path / "t.csv", index=False)
    done = fisherleak("audit", tmp_path / "t.csv", "--target", "y", "--noise", "1", *FAST)
    assert "1,500 training, 500 held out" in done.out
    assert "Most exposed rows (5 of 1,500)" in done.out


def test_the_files(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = fisherleak(
        "audit", people, "--target", "income", "--id", "person", "--group", "city", "--out", out, "--json", *FAST
    )
    assert done.status == 0
    summary = json.loads(done.out)
    check_summary(summary)
    assert json.loads((out / "summary.json").read_text(encoding="utf-8")) == summary
    table = pandas.read_parquet(out / "leakage.parquet")
    features = [attribute["name"] for attribute in summary["attributes"]]
    assert list(table) == ["row", "id", "eta", *(f"eta[{name}]" for name in features), "eta_label", "membership"]
    assert len(table) == summary["data"]["train_rows"] == 90
    worst = table.sort_values("eta", ascending=False).iloc[0]
    assert worst["row"] == summary["rows"][0]["row"]
    assert worst["id"] == summary["rows"][0]["id"] == f"p{int(worst['row']) - 1:03d}"
    np.testing.assert_allclose([worst[f"eta[{name}]"] for name in features], summary["rows"][0]["cells"])
    for attribute in summary["attributes"]:
        assert table[f"eta[{attribute['name']}]"].max() == pytest.approx(attribute["eta_max"])
    assert {group["name"] for group in summary["groups"]} == {"Bonn", "Genua", "<b>Łódź</b>"}
    assert sum(group["count"] for group in summary["groups"]) == 90


def test_values_are_hidden_unless_asked_for(fisherleak: Command, people: Path, frame: Any) -> None:
    options = ("audit", people, "--target", "income", "--drop", "person", "--json", *FAST)
    hidden = json.loads(fisherleak(*options).out)
    assert all(row["values"] is None for row in hidden["rows"])
    shown = json.loads(fisherleak(*options, "--show-values").out)
    for row in shown["rows"]:
        person = frame.iloc[row["row"] - 1]
        assert float(row["values"]["weight"]) == person.weight
        assert row["values"]["city"] == person.city
        assert row["values"]["vip"] == str(person.vip)


def test_the_gate(fisherleak: Command, people: Path) -> None:
    options = ("audit", people, "--target", "sick", "--id", "person", "--noise", "0.2", *FAST)
    summary = json.loads(fisherleak(*options, "--json").out)
    etas = [row["eta"] for row in summary["rows"]]
    assert summary["gate"] is None
    limit = (etas[6] + etas[7]) / 2
    done = fisherleak(*options, "--max-eta", limit)
    assert (done.status, done.err) == (1, "")
    lines = [line for line in done.out.splitlines() if not line.strip().startswith("presence")]
    listed = [line.split(" (row")[0].strip() for line in lines if "(row" in line and ": " in line]
    assert listed == [row["id"] for row in summary["rows"][:7]]
    machine = fisherleak(*options, "--max-eta", limit, "--json")
    gate = json.loads(machine.out)["gate"]
    assert machine.status == 1
    assert gate["exceeded"]
    assert gate["count"] == 7
    assert [row["row"] for row in gate["rows"]] == [row["row"] for row in summary["rows"][:7]]
    assert fisherleak(*options, "--max-eta", etas[0] * 1.01).status == 0
    silent = fisherleak(*options, "--max-eta", limit, "--quiet")
    assert (silent.status, silent.out, silent.err) == (1, "", "")


def test_a_policy_that_is_not_kept_names_its_rules(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    policy = tmp_path / "house.toml"
    policy.write_text("[rows]\nmax_eta = 1e-6\n[require]\npublic = 'nothing'\n", encoding="utf-8")
    options = ("audit", people, "--target", "income", "--drop", "person", "--policy", policy, *FAST)
    done = fisherleak(*options, "--noise", 1, "--out", tmp_path / "out")
    assert done.status == 1
    assert done.err == "fisherleak: the policy 'house.toml' is not kept: rows.max_eta.\n"
    assert "1 of 2 rules kept" in done.out
    assert "NOT KEPT  rows.max_eta: The eta of a row is at most" in done.out
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    check_summary(summary)
    assert wrong(summary, PUBLISHED) == []
    assert [rule["passed"] for rule in summary["policy"]["rules"]] == [False, True]
    assert "The policy" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    kept = fisherleak(*options, "--noise", summary["policy"]["noise"] * 1.001, "--quiet")
    assert (kept.status, kept.out, kept.err) == (0, "", "")
    untested = fisherleak(*options)
    assert untested.status == 2
    assert "--policy needs a noise to test" in untested.err


def test_the_command_that_is_advised_runs(
    fisherleak: Command, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = fisherleak("audit", people, "--target", "income", "--drop", "person", "--l2", "0.1", *FAST)
    (line,) = [line.strip() for line in done.out.splitlines() if line.strip().startswith("fisherleak release")]
    assert done.out.index("people: ") < done.out.index(line) < done.out.index("Most exposed rows")
    words = shlex.split(line)
    assert words[words.index("--drop") + 1] == "person"
    released = fisherleak(*words[1:])
    assert released.status == 0, released.err
    card = json.loads((tmp_path / "model.skops.json").read_text(encoding="utf-8"))
    assert card["noise"]["scale"] == pytest.approx(float(words[words.index("--noise") + 1]))
    demo = json.loads(fisherleak("audit", "--json", *FAST).out)["next"]
    assert fisherleak(*shlex.split(demo["command"])[1:], *FAST).status == 0
    assert fisherleak(*shlex.split("9".join(demo["command_for"]))[1:], *FAST).status == 0


def test_the_command_of_the_slider_runs(
    fisherleak: Command, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = fisherleak("audit", people, "--target", "income", "--drop", "person", "--l2", "0.1", "--json", *FAST)
    words = shlex.split("12.5".join(json.loads(done.out)["next"]["command_for"]))
    assert words[:2] == ["fisherleak", "release"]
    assert fisherleak(*words[1:]).status == 0
    card = json.loads((tmp_path / "model.skops.json").read_text(encoding="utf-8"))
    assert card["noise"]["scale"] == pytest.approx(12.5)


def test_a_gate_needs_a_noise_to_test(fisherleak: Command, people: Path) -> None:
    options = ("audit", people, "--target", "sick", "--drop", "person", "--max-eta", "0.1", *FAST)
    done = fisherleak(*options)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("fisherleak: --max-eta needs a noise to test: add --noise SIGMA or --released MODEL")
    assert done.err.count("\n") == 1
    assert fisherleak(*options, "--eta", "0.1").status == 0
    assert fisherleak(*options, "--eta", "0.2").status == 1


def test_people_with_several_rows(fisherleak: Command, frame: Any, tmp_path: Path) -> None:
    """The gate, the tables and the sentences are about people, and what is about rows is refused by name."""
    path = tmp_path / "visits.csv"
    frame.assign(person=[f"p{k // 3}" for k in range(len(frame))]).to_csv(path, index=False)
    options = ("audit", path, "--target", "income", "--person", "person", "--noise", "9", "--max-eta", "1e-9", *FAST)
    done = fisherleak(*options)
    assert done.status == 1
    assert "Most exposed people (5 of 30)" in done.out
    assert "30 people above the limit" in done.out
    assert "(3 rows)" in done.out
    summary = json.loads(fisherleak(*options, "--json").out)
    check_summary(summary)
    assert (summary["data"]["people"], summary["data"]["train_rows"]) == (30, 90)
    asked = ("--target", "income", "--person", "person", "--attribute", "city", "--noise", "1")
    refused = fisherleak("attack", path, *asked)
    assert (refused.status, refused.out) == (2, "")
    assert "--attribute names 'city', in which rows of one person differ" in refused.err


@pytest.mark.parametrize(
    "kind", ["csv", "csv.gz", "tsv", "semicolons", "parquet", "parquet.gz", "latin", "bom", "crlf", "stdin"]
)
def test_every_form_gives_the_same_figures(
    fisherleak: Command, frame: Any, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"table.{kind}"
    frame = frame.replace("<b>Łódź</b>", "Köln")
    text = frame.to_csv(index=False)
    extra: tuple[str, ...] = ()
    if kind == "csv.gz":
        path.write_bytes(gzip.compress(text.encode()))
    elif kind == "tsv":
        frame.to_csv(path, index=False, sep="\t")
    elif kind == "semicolons":
        frame.to_csv(path, index=False, sep=";")
    elif kind == "parquet":
        frame.to_parquet(path)
    elif kind == "parquet.gz":
        frame.to_parquet(tmp_path / "plain")
        path.write_bytes(gzip.compress((tmp_path / "plain").read_bytes()))
    elif kind == "latin":
        path.write_bytes(text.encode("latin-1"))
        extra = ("--encoding", "latin-1")
    elif kind == "bom":
        path.write_bytes(text.encode("utf-8-sig"))
    elif kind == "crlf":
        path.write_bytes(text.replace("\n", "\r\n").encode())
    else:
        path.write_bytes(text.encode())
    name: Any = path
    if kind == "stdin":
        name = "-"
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    done = fisherleak("audit", name, "--target", "income", "--drop", "person", "--json", *extra, *FAST)
    assert (done.status, done.err) == (0, "")
    expected = summarise(audit(frame, Settings("income", drop=("person",)), draws=4, attacks=False))
    assert json.loads(done.out)["eta"]["dataset"] == pytest.approx(expected["eta"]["dataset"])


def test_kinds_are_guessed_said_and_overridden(fisherleak: Command, people: Path) -> None:
    summary = json.loads(fisherleak("audit", people, "--target", "income", "--json", *FAST).out)
    columns = {column["name"]: column for column in summary["data"]["columns"]}
    kinds = {name: column["kind"] for name, column in columns.items()}
    assert kinds == {
        "person": "ignored",
        "age": "number",
        "weight": "number",
        "city": "category",
        "vip": "category",
        "income": "target",
        "sick": "category",
        "visits": "number",
    }
    assert "120 different texts in 120 rows" in columns["person"]["note"]
    assert any("'person' is not used" in sentence for sentence in summary["assumptions"])
    said = ("--category", "visits", "--number", "vip", "--drop", "weight", "--group", "city")
    summary = json.loads(fisherleak("audit", people, "--target", "income", "--json", *said, *FAST).out)
    columns = {column["name"]: column for column in summary["data"]["columns"]}
    assert [columns[name]["kind"] for name in ("visits", "vip", "weight", "city")] == [
        "category",
        "number",
        "ignored",
        "category",
    ]
    assert not columns["visits"]["assumed"]


def test_rows_that_lack_a_value_are_dropped_and_counted(fisherleak: Command, frame: Any, tmp_path: Path) -> None:
    table = frame.astype({"vip": object})
    table.loc[[3, 4], "income"] = None
    table.loc[[4, 5, 6], "age"] = None
    table.loc[[7], "city"] = None
    table["constant"] = 7
    table.to_csv(tmp_path / "t.csv", index=False)
    options = ("audit", tmp_path / "t.csv", "--target", "income", "--json", *FAST)
    filled = json.loads(fisherleak(*options).out)
    assert filled["data"]["dropped"] == [{"reason": "the target 'income' is missing", "count": 2}]
    assert [(item["column"], item["count"]) for item in filled["data"]["missing"]] == [("age", 3), ("city", 1)]
    assert any("--missing drop leaves such rows out" in sentence for sentence in filled["assumptions"])
    summary = json.loads(fisherleak(*options, "--missing", "drop").out)
    assert summary["data"]["dropped"] == [
        {"reason": "the target 'income' is missing", "count": 2},
        {"reason": "'age' is missing", "count": 3},
        {"reason": "'city' is missing", "count": 1},
    ]
    assert summary["data"]["rows_used"] == 115
    constant = next(column for column in summary["data"]["columns"] if column["name"] == "constant")
    assert (constant["kind"], constant["note"]) == ("ignored", "has one value only in the training rows")


def test_ten_rows_get_an_honest_answer(fisherleak: Command, frame: Any, tmp_path: Path) -> None:
    frame.head(10).to_csv(tmp_path / "ten.csv", index=False)
    done = fisherleak("audit", tmp_path / "ten.csv", "--target", "income", *FAST)
    assert done.status == 0
    assert "only 10 rows, so none are held out" in done.out
    assert "only 10 training rows" in done.out


def test_overwriting_replaces_our_files_and_no_others(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ("audit", people, "--target", "sick", "--out", out, *FAST)
    out.mkdir()
    assert fisherleak(*options).status == 0
    (out / "mine.txt").write_text("keep")
    assert fisherleak(*options).status == 2
    before = (out / "summary.json").read_text(encoding="utf-8")
    assert fisherleak(*options, "--overwrite", "--seed", "7").status == 0
    assert (out / "mine.txt").read_text() == "keep"
    assert (out / "summary.json").read_text(encoding="utf-8") != before
    assert len(list(out.iterdir())) == 4


def test_text_of_the_table_is_harmless_on_a_terminal(fisherleak: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    name = "\x1b[31m[bold]\x07"
    pandas.DataFrame({name: rng.normal(size=60), "y": rng.normal(size=60)}).to_csv(tmp_path / "t.csv", index=False)
    done = fisherleak("audit", tmp_path / "t.csv", "--target", "y", *FAST)
    assert done.status == 0
    assert "\x1b" not in done.out
    assert "[bold]" in done.out


def test_help_shows_examples_and_version(fisherleak: Command) -> None:
    assert fisherleak("--version").out == f"fisherleak {fl.__version__}\n"
    assert "audit" in fisherleak().out
    for command in ("audit", "release", "attack"):
        done = fisherleak(command, "--help")
        assert done.status == 0
        assert f"  fisherleak {command} " in done.out
    assert "--install-completion" in fisherleak("--help").out
