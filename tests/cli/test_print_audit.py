"""What an audit prints by default: one screen, the worst first, in short sentences."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas
import pytest

from fisherleak.cli import _layout
from report import sample
from report.records import verdict_of

Command = Callable[..., Any]
POLICY = """[columns.age]
max_revealed = 0.0001

[columns.income]
max_revealed = 0.0001

[rows]
max_eta = 1e-6

[membership]
max_right = 0.5001

[require]
public = "nothing"
"""


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(_layout, "sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("options", "first", "status"),
    [
        ((), r"(Up to|Membership|An attacker)", 0),
        (("--noise", "1000", "--attribute", "city"), r"(Up to|Membership|An attacker)", 0),
        (("--noise", "1000", "--max-eta", "0.001"), r"(Passed|Failed): .* above the limit", 1),
        (
            ("--noise", "1", "--policy", "house.toml", "--bounds", "age=0:120", "--bounds", "income=0:9e5"),
            r"Failed: \d of 5 rules of house.toml\.",
            1,
        ),
        (("--person", "person", "--noise", "1000", "--out", "out"), r"(Up to|Membership|An attacker)", 0),
    ],
    ids=["nothing given", "noise", "limit", "policy", "people"],
)
def test_an_audit_prints_one_screen(
    fisherleak: Command, people: Path, options: tuple[str, ...], first: str, status: int
) -> None:
    Path("house.toml").write_text(POLICY, encoding="utf-8")
    done = fisherleak("audit", people, "--target", "income", "--draws", "4", *options)
    assert done.status == status, done.err
    lines = done.out.rstrip("\n").split("\n")
    assert len(lines) <= 24
    assert [line for line in lines if len(line) > 80 and not line.startswith(("    fisherleak ", "open "))] == []
    assert re.match(first, lines[2]), lines[2]
    assert "--policy" in options or any(line.startswith("    fisherleak release ") for line in lines)
    assert lines[-1].endswith("-v prints every table")
    assert any(
        line.startswith(("Most exposed rows, by their values: ", "Most exposed people, by their values: "))
        for line in lines
    )
    longer = fisherleak("audit", people, "--target", "income", "--draws", "4", "-v", *options, "--overwrite")
    assert longer.out.count("\n") > 60
    assert "Under these assumptions:" in longer.out


@pytest.mark.usefixtures("terminal")
def test_rows_are_called_by_their_own_names(fisherleak: Command, people: Path) -> None:
    named = pandas.read_csv(people)
    named.insert(0, "file_no", [f"F{k:04d}" for k in range(len(named))])
    named.to_csv("named.csv", index=False)
    done = fisherleak(
        "audit", "named.csv", "--target", "income", "--draws", "4", "--noise", "0.1", "--id", "file_no", "--out", "out"
    )
    assert done.status == 0, done.err
    called = re.findall(r"F(\d{4}) \(row (\d+)\)", done.out)
    assert len(called) >= 2
    assert all(int(row) == int(own) + 1 for own, row in called)
    page = Path("out", "report.html").read_text(encoding="utf-8")
    assert re.search(r'<td class="name">F\d{4} \(row \d+\)</td>', page)


def test_in_a_pipe_nothing_is_cut_off(fisherleak: Command, people: Path) -> None:
    done = fisherleak("audit", people, "--target", "income", "--draws", "4")
    assert " more\n" not in done.out
    assert "\nRead: 90 training rows, 30 held out, " in done.out


@pytest.mark.parametrize(
    ("kind", "headline"),
    [
        ("number", "Up to 98 % of a numeric value is revealed: age of row "),
        (
            "category",
            "An attacker guesses sex correctly at most 99 % of the time (chance 50 %).",
        ),
        ("membership", "Membership: an attacker is correct at most 99 % of the time (chance 50 %)."),
        (
            "target",
            "An attacker guesses the target, sick, correctly at most 99 % of the time (chance 50 %).",
        ),
    ],
)
def test_the_worst_is_the_headline_whatever_kind_it_is(kind: str, headline: str) -> None:
    made = sample.summary() | {"policy": None, "gate": None}
    made["membership"]["accuracy_max"] = 0.99 if kind == "membership" else 0.6
    worst = 0.99 if kind == "category" else 0.6
    made["distinguishable"] = [
        {"attribute": "sex", "rows": 9, "worst": worst, "q95": 0.6, "median": 0.55, "error_least": 0.1}
    ]
    for each in made["attributes"]:
        each["kind"] = "category" if each["name"] == "sex" else "number"
        if each.get("revealed"):
            each["revealed"]["max"] = 0.98 if (kind, each["name"]) == ("number", "age") else 0.3
    made["label"]["name"] = "sick"
    made["distinguishable"].append(
        made["distinguishable"][0] | {"attribute": "sick", "worst": 0.99 if kind == "target" else 0.6}
    )
    found = verdict_of(made)
    assert found is not None
    assert found.headline.startswith(headline)
    made["policy"] = sample.summary()["policy"]
    beside = verdict_of(made)
    assert beside is not None
    assert beside.headline.startswith("Failed: ")


def test_sentences_of_a_verdict_are_short() -> None:
    for made in (sample.summary(), sample.choices(), sample.bare()):
        found = verdict_of(made)
        assert found is not None
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z])", " ".join([found.headline, *found.sentences])):
            assert len(sentence.split()) <= 25, sentence
