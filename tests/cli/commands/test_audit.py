"""The audit command: its figures, its files, its gate."""

from __future__ import annotations

import gzip
import io
import json
import re
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
from fisherleak.auditing.run import audit
from fisherleak.report.summarise import summarise
from fisherleak.training.trained_model import Settings
from report.test_schema import PUBLISHED, wrong
from report.test_summarise import check_summary

Command = Callable[..., Any]
FAST = ("--draws", "4", "--no-attacks")


def test_it_runs_on_built_in_data(fisherleak: Command, tmp_path: Path) -> None:
    done = fisherleak("audit", "--out", tmp_path / "demo", *FAST)
    assert (done.status, done.err) == (0, "")
    assert f"open {tmp_path / 'demo' / 'report.html'}" in done.out.rstrip().splitlines()[-1]
    assert sorted(p.name for p in (tmp_path / "demo").iterdir()) == ["leakage.parquet", "report.html", "summary.json"]
    assert "Most exposed rows" in done.out
    assert "\x1b" not in done.out


def test_counts_are_written_as_in_the_report(fisherleak: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pandas.DataFrame({"a": rng.normal(size=2_000), "y": rng.normal(size=2_000)}).to_csv(tmp_path / "t.csv", index=False)
    done = fisherleak("audit", tmp_path / "t.csv", "--target", "y", "--noise", "1", "-v", *FAST)
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


def test_the_gate(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    options = ("audit", people, "--target", "sick", "--id", "person", "--noise", "0.2", *FAST)
    summary = json.loads(fisherleak(*options, "--json").out)
    etas = [row["eta"] for row in summary["rows"]]
    assert summary["gate"] is None
    limit = (etas[6] + etas[7]) / 2
    done = fisherleak(*options, "--max-eta", limit, "-v", "--out", tmp_path / "out")
    assert (done.status, done.err) == (1, "")
    lines = [line for line in done.out.splitlines() if not line.strip().startswith(("membership", "- "))]
    listed = [line.split(" (row")[0].strip() for line in lines if "(row" in line and ": " in line]
    assert listed == [row["id"] for row in summary["rows"][:7]]
    gate = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))["gate"]
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
    assert done.err == "fisherleak: the policy 'house.toml' failed: rows.max_eta.\n"
    assert "1 of 2 rules of house.toml" in done.out
    assert "Failed, rows.max_eta: The eta of a row is at most" in done.out
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
    assert done.out.index("is revealed") < done.out.index("Most exposed rows") < done.out.index(line)
    words = shlex.split(line)
    assert words[words.index("--drop") + 1] == "person"
    released = fisherleak(*words[1:], "--over", "any-record")  # the fixture's default is another
    assert released.status == 0, released.err
    card = json.loads((tmp_path / "model.skops.json").read_text(encoding="utf-8"))
    # by a limit for any record within the bounds, on the rows that were audited, with the penalty of the rule
    assert "--noise" not in words
    assert "--l2" not in words
    assert card["eta"]["limit"] == float(words[words.index("--eta") + 1]) == 1.0
    assert card["noise"]["calibrated"]["over"] == "admissible"
    assert (card["data"]["rows"], card["settings"]["held_out"]) == (90, 0.25)
    assert "for any record within the bounds" in " ".join(released.out.split())
    demo = json.loads(fisherleak("audit", "--json", *FAST).out)["next"]
    own = [
        "income" if word == "COLUMN" else str(people) if word == "TABLE.csv" else word
        for word in demo["command"].split()
    ]
    assert fisherleak(*own[1:], *FAST).status == 0
    assert demo["command_for"] is None


@pytest.mark.parametrize(
    ("options", "advised", "not_advised"),
    [
        (("--max-eta", "1e-6", "--noise", "1"), ("--eta", "1e-06"), "--noise"),
        (("--max-eta", "1e6", "--noise", "100"), ("--noise", "100"), "--eta"),
        (("--over", "max"), ("--over", "max"), "--noise"),
        (("--over", "max", "--shape", "hessian"), None, "--shape"),
        (("--shape", "isotropic", "--eta", "50"), ("--shape", "isotropic"), "--noise"),
        (("--eta", "2", "--bounds", "age=0:120", "--bounds", "income=0:200000"), ("--eta", "2"), "--noise"),
    ],
    ids=["failed gate", "passed gate", "rows present", "data-dependent covariance", "shape", "limit"],
)
def test_what_is_advised_follows_the_options(
    fisherleak: Command,
    people: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    advised: tuple[str, str] | None,
    not_advised: str,
) -> None:
    """A limit in place of a noise, unless a noise that somebody chose passes; no covariance that the rows decide."""
    monkeypatch.chdir(tmp_path)
    done = fisherleak("audit", people, "--target", "income", "--drop", "person", "--json", *options, *FAST)
    command = json.loads(done.out)["next"]["command"]
    words = shlex.split(command)
    if advised is None:
        assert not_advised not in words
    elif "--eta" in words or "--eta" not in advised:  # a limit so strict that the model is of no use is not advised
        assert advised[1] == words[words.index(advised[0]) + 1]
        assert not_advised not in words
    assert words[words.index("--held-out") + 1] == "0.25"
    assert (
        fisherleak(*words[1:], *(() if "--over" in words or "--noise" in words else ("--over", "any-record"))).status
        == 0
    )


def test_options_of_a_release_are_refused_under_a_policy(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    policy = tmp_path / "house.toml"
    policy.write_text("[rows]\nmax_eta = 1e-6\n", encoding="utf-8")
    own = ("audit", people, "--target", "income", "--noise", "1", "--policy", policy, *FAST)
    done = fisherleak(*own, "--shape", "hessian")
    assert (done.status, done.out) == (2, "")
    assert "--shape" in done.err
    under = json.loads(fisherleak(*own, "--json").out)
    assert "prices" not in under
    assert "eta" not in under["next"]


def test_the_command_for_a_limit_takes_codes_as_categories(
    fisherleak: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit holds for either; a noise is that of the model as it was audited."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    dose, race = rng.normal(size=400), rng.integers(1, 5, 400)
    frame = pandas.DataFrame({"dose": dose, "race": race, "effect": 3 * dose + rng.normal(size=400)})
    frame.to_csv("t.csv", index=False)
    found = json.loads(fisherleak("audit", "t.csv", "--target", "effect", "--json", *FAST).out)["next"]
    words = shlex.split(found["command"])
    assert "--eta" in words
    assert words[words.index("--category") + 1] == "race"
    assert "takes 'race' as a category" in found["note"]
    assert "--category" not in shlex.split("".join(found["command_for"]))
    assert fisherleak(*words[1:]).status == 0
    said = json.loads(fisherleak("audit", "t.csv", "--target", "effect", "--number", "race", "--json", *FAST).out)
    assert "--category" not in said["next"]["command"]


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


@pytest.mark.long
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
    assert "Failed: 30 of 30 people are above the limit" in fisherleak(*options).out
    done = fisherleak(*options, "-v")
    assert done.status == 1
    assert "Most exposed people (5 of 30)" in done.out
    assert "30 people above the limit" in done.out
    assert "(3 rows)" in done.out
    summary = json.loads(fisherleak(*options, "--json").out)
    check_summary(summary)
    assert (summary["data"]["people"], summary["data"]["train_rows"]) == (30, 90)
    asked = ("--target", "income", "--person", "person", "--attribute", "city", "--noise", "1")
    by_row = fisherleak("attack", path, *asked)
    assert by_row.status == 0
    assert "A person's rows differ in 'city': attackers guess these values row by row" in " ".join(by_row.out.split())


@pytest.fixture(scope="module")
def eta_of_income(frame: Any) -> float:
    """That of all rows, by the table in memory."""
    table = frame.replace("<b>Łódź</b>", "Köln")
    found: float = summarise(audit(table, Settings("income", drop=("person",)), draws=4, attacks=False))["eta"][
        "dataset"
    ]
    return found


@pytest.mark.parametrize(
    "kind", ["csv", "csv.gz", "tsv", "semicolons", "parquet", "parquet.gz", "latin", "bom", "crlf", "stdin"]
)
def test_every_form_gives_the_same_figures(
    fisherleak: Command, frame: Any, eta_of_income: float, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
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
    assert json.loads(done.out)["eta"]["dataset"] == pytest.approx(eta_of_income)


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
    done = fisherleak("audit", tmp_path / "ten.csv", "--target", "income", "-v", *FAST)
    assert done.status == 0
    assert "only 10 rows, so none are held out" in done.out
    assert "only 10 training rows" in done.out


@pytest.mark.long
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
        assert fisherleak(command, "--help").status == 0
        done = fisherleak(command, "--help-all")
        assert done.status == 0
        assert f"  fisherleak {command} " in done.out
    assert "--install-completion" in fisherleak("--help").out


# an identifier that repeats, and measures of utility


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """Three visits of each of a hundred patients, one in six of them sick."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {"patient_id": rng.permutation(np.arange(300) // 3), "age": rng.normal(50, 9, 300).round()}
    )
    frame["dose"] = rng.normal(0, 1, 300).round(2)
    frame["sick"] = np.where(frame.age + rng.normal(0, 6, 300) > 60, "yes", "no")
    frame.to_csv(tmp_path / "visits.csv", index=False)
    return tmp_path / "visits.csv"


@pytest.mark.long
def test_an_identifier_that_repeats_is_the_first_sentence(fisherleak: Command, visits: Path, tmp_path: Path) -> None:
    """Until rows are said to be someone's they are called rows; the option that is named works."""
    line = ("audit", visits, "--target", "sick", "--noise", "0.05", "--max-eta", "1e3", *FAST)
    done = fisherleak(*line, "--out", tmp_path / "rows")
    first = "patient_id repeats (100 values in 300 rows): rows are visits. Add --person patient_id. "
    assert done.out.splitlines()[2] == f"{first}Passed: no row is above the limit of η = 1,000."
    assert re.search(r"(?m)^  - For \d+ of \d+ rows, ", done.out)
    assert "people" not in done.out.partition("Under these assumptions")[0]
    page = (tmp_path / "rows" / "report.html").read_text(encoding="utf-8")
    assert page.index(first) < page.index("<main")
    summary = json.loads((tmp_path / "rows" / "summary.json").read_text(encoding="utf-8"))
    assert wrong(summary, PUBLISHED) == []
    assert summary["data"]["repeated"]["values"] == 100
    done = fisherleak(*line, "--person", "patient_id")
    assert (done.status, done.err) == (0, "")
    assert "repeats" not in done.out.partition("Under these assumptions")[0]
    assert re.search(
        r"(?m)^  people +75 in the training rows, by patient_id$", fisherleak(*line, "--person", "patient_id", "-v").out
    )
    policy = tmp_path / "policy.toml"
    policy.write_text("[rows]\nmax_eta = 1e-3\n[columns.age]\nmax_revealed = 1e-6\n", encoding="utf-8")
    failed = fisherleak(*line, "--policy", policy).out
    assert "of any row's 'age' is revealed" in failed
    assert "people are above" not in failed
    left = fisherleak(*line, "--drop", "patient_id").out.splitlines()[2]
    assert "Add --person patient_id in place of --drop patient_id." in left


@pytest.mark.long
def test_a_released_model_of_visits_is_to_be_released_again(fisherleak: Command, visits: Path, tmp_path: Path) -> None:
    release = ("release", visits, "--target", "sick", "--noise", "0.05", "--over", "max")
    done = fisherleak(*release, "--out", tmp_path / "m.skops")
    assert "  - patient_id repeats (100 values in 300 rows): rows are visits. Add --person patient_id." in done.out
    done = fisherleak("audit", visits, "--released", tmp_path / "m.skops", *FAST)
    assert "rows are visits. Release again with --person patient_id." in done.out.splitlines()[2]
    assert fisherleak(*release, "--person", "patient_id", "--out", tmp_path / "n.skops").status == 0
    assert "repeats" not in fisherleak("audit", visits, "--released", tmp_path / "n.skops", *FAST).out.splitlines()[2]


def test_groups_of_a_released_model(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    """Groups are measured of a file as of a plan with its noise; a group that changes the model is refused."""
    model, policy = tmp_path / "m.skops", tmp_path / "policy.toml"
    line = ("--target", "income", "--drop", "person")
    assert fisherleak("release", people, *line, "--noise", "5", "--out", model).status == 0
    policy.write_text('[groups]\nmax_ratio = 100\n[require]\ngroup = "city"\n', encoding="utf-8")
    own = ("--policy", policy, "--group", "city", "--json", *FAST)
    released = fisherleak("audit", people, "--released", model, *own)
    planned = fisherleak("audit", people, *line, "--noise", "5", *own)
    assert (released.status, planned.status) == (0, 0)
    there, here = (json.loads(done.out)["groups"] for done in (released, planned))
    assert there == here
    assert len(here) > 1
    policy.write_text('[groups]\nmax_ratio = 1.0001\n[require]\ngroup = "city"\n', encoding="utf-8")
    assert fisherleak("audit", people, "--released", model, *own).status == 1
    numbers = np.random.default_rng(7).normal(size=(600, 2)).round(3)
    names = [f"z{k}" if k >= 550 else f"w{k % 4}" for k in range(600)]  # whose fifty small groups lack a value
    table = pandas.DataFrame({"a": numbers[:, 0], "b": numbers[:, 1], "city": names, "income": numbers.sum(axis=1)})
    table.assign(b=table.b.where(table.index < 550)).to_csv(people, index=False)
    kept = ("--target", "income", "--noise", "5", "--missing", "drop", "--out", model, "--overwrite")
    assert fisherleak("release", people, *kept).status == 0
    refused = fisherleak("audit", people, "--released", model, *own)
    assert refused.status == 2
    assert "would use that column differently" in refused.err


@pytest.mark.long
def test_the_measure_of_utility_that_leads(fisherleak: Command, visits: Path, tmp_path: Path) -> None:
    line = ("audit", visits, "--target", "sick", "--noise", "0.05", *FAST)
    plain = fisherleak(*line, "--out", tmp_path / "r").out
    assert "What it costs: AUC 0." in plain  # one in six is sick
    longer = fisherleak(*line, "-v").out
    assert " accuracy " in longer
    assert " log loss " in longer
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert "AUC against σ" in page
    asked = fisherleak(*line, "--metric", "log-loss")
    assert "What it costs: log loss 0." in asked.out
    assert json.loads(fisherleak(*line, "--metric", "accuracy", "--json").out)["tradeoff"]["metric"] == "accuracy"
    refused = fisherleak(*line, "--metric", "r2")
    assert (refused.status, refused.err.count("\n")) == (2, 1)
    assert "--metric is 'r2', and logistic regression has none: use 'accuracy' or 'auc' or 'log-loss'" in refused.err
    assert "--metric must be one of" in fisherleak(*line, "--metric", "roc").err


def test_a_page_that_may_be_handed_out(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    """Beside the other files; with a noise that somebody chose, and without what the terminal prints."""
    board = tmp_path / "board.html"
    target = ("--target", "income", "--model", "linear")
    refused = fisherleak("audit", people, *target, "--board", board)
    assert refused.status == 2
    assert "Add --noise" in refused.err
    done = fisherleak("audit", people, *target, "--noise", 500, "--max-eta", 0.001, "--board", board, *FAST)
    assert done.status == 1
    assert f"to hand out: {board}" in done.out
    page = board.read_text(encoding="utf-8")
    assert "Failed: 1 of 1 rule." in page
    assert "σ = 500" in page
    assert "city" not in page.partition("<body>")[2]
    again = fisherleak("audit", people, *target, "--noise", 500, "--board", board, *FAST)
    assert again.status == 2
    assert "--overwrite" in again.err
    unsettled = fisherleak("audit", people, "--target", "sick", "--eta", 5, "--board", board, "--overwrite", *FAST)
    assert unsettled.status == 0, unsettled.err
    assert "is not shown" in board.read_text(encoding="utf-8")
