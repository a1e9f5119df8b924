"""The attack command and attacks in the summary: what the attackers get, and how their outcomes are told."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from fisherleak.auditing import attackers
from fisherleak.auditing.records import INFORMED, WITH_PRIOR
from report.test_summarise import check_summary

Command = Callable[..., Any]
STRONGEST = WITH_PRIOR


@pytest.mark.long
def test_the_command_prints_every_attacker(fisherleak: Command, people: Path) -> None:
    options = ("attack", people, "--target", "sick", "--attribute", "city", "--attribute", "vip", "--noise", "0.25")
    done = fisherleak(*options)
    assert (done.status, done.err) == (0, "")
    for name in attackers.ATTACKERS:
        assert name in done.out
    document = json.loads(fisherleak(*options, "--json").out)
    assert document["noise"] == 0.25
    assert [(a["attribute"], a["attacker"]) for a in document["attacks"]] == [
        (column, name) for column in ("city", "vip") for name in attackers.ATTACKERS
    ]
    for attack in document["attacks"]:
        assert attack["low"] <= attack["accuracy"] <= attack["high"]
        assert 0 < attack["baseline"] < 1
    prior = [a for a in document["attacks"] if a["attacker"] == "prior"]
    assert all(a["accuracy"] == a["baseline"] for a in prior)


def test_less_noise_gives_more_away(fisherleak: Command, people: Path) -> None:
    found = []
    for noise in ("1e-6", "0.05", "1000"):
        options = ("attack", people, "--target", "sick", "--attribute", "city", "--noise", noise, "--json")
        attacks = json.loads(fisherleak(*options).out)["attacks"]
        found.append({a["attacker"]: a["accuracy"] for a in attacks})
    assert found[0]["white-box"] > 0.99
    assert found[0][STRONGEST] > found[1][STRONGEST] > found[2][STRONGEST]
    assert found[2][STRONGEST] == pytest.approx(found[2]["prior"], abs=0.02)


def test_numbers_with_many_values_are_guessed_among_typical_ones(fisherleak: Command, people: Path) -> None:
    done = fisherleak("attack", people, "--target", "sick", "--attribute", "age", "--noise", "0.25", "--json")
    assert done.status == 0
    document = json.loads(done.out)
    attack = document["attacks"][0]
    assert document["notes"] == ["A guess of 'age' is correct if it names the nearest of 5 typical values."]
    assert 0 < attack["accuracy"] < 1


def test_a_released_model_is_attacked_itself(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.skops"
    assert fisherleak("release", people, "--target", "sick", "--eta", "1e6", "--out", out, "--quiet").status == 0
    done = fisherleak("attack", people, "--released", out, "--attribute", "city", "--json")
    assert done.status == 0
    attacks = {a["attacker"]: a for a in json.loads(done.out)["attacks"]}
    assert attacks["white-box"]["method"] == "120 rows, 1 release"
    # hardly any noise: everyone is found
    assert attacks["white-box"]["accuracy"] > 0.99
    assert attacks[STRONGEST]["accuracy"] > 0.99


@pytest.mark.long
def test_the_summary_has_outcomes_and_a_curve(fisherleak: Command, people: Path) -> None:
    summary = json.loads(fisherleak("audit", people, "--target", "sick", "--json", "--draws", "4").out)
    check_summary(summary)
    assert {a["attribute"] for a in summary["attacks"]} == {"city", "vip", "sick"}
    for point in summary["tradeoff"]["points"]:
        assert [a["attribute"] for a in point["attacks"]] == ["city", "vip", "sick"]
    curve = [point["attacks"][0]["accuracy"] for point in summary["tradeoff"]["points"]]
    assert curve[0] > curve[-1]
    at_chosen = next(a for a in summary["attacks"] if (a["attacker"], a["attribute"]) == (INFORMED, "city"))
    assert min(curve) <= at_chosen["accuracy"] <= max(curve)
    asked = json.loads(
        fisherleak("audit", people, "--target", "sick", "--attribute", "vip", "--json", "--draws", "4").out
    )
    assert {a["attribute"] for a in asked["attacks"]} == {"vip", "sick"}
    none = json.loads(fisherleak("audit", people, "--target", "sick", "--no-attacks", "--json", "--draws", "4").out)
    assert none["attacks"] == []


def test_an_attack_that_is_refused_says_why(fisherleak: Command, people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attackers, "_typical", lambda *_: None)
    done = fisherleak("attack", people, "--target", "sick", "--attribute", "age", "--noise", "0.25")
    assert done.status == 0
    assert "was not run: Column 'age' is numeric with" in " ".join(done.out.split())


@pytest.mark.long
def test_people_are_attacked_with_all_their_rows(
    fisherleak: Command, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the table twice, as if everyone there had come two times; also through a release, and the command advised."""
    import pandas

    monkeypatch.chdir(tmp_path)
    table = pandas.read_csv(people)
    twice = pandas.concat([table, table.head(60)])
    twice.loc[:, "age"] += np.arange(len(twice)) % 7
    twice.to_csv("visits.csv", index=False)
    own = ("--target", "sick", "--person", "person")
    done = fisherleak("attack", "visits.csv", *own, "--attribute", "city", "--noise", "0.25", "--json")
    attacks = json.loads(done.out)["attacks"]
    assert [a["attacker"] for a in attacks] == list(attackers.OF_SEVERAL_ROWS)
    inside = twice.person.nunique() * 3 // 4
    assert {a["method"] for a in attacks} == {
        f"{inside} people, expected over the noise",
        f"{inside} people, 100 releases",
    }
    by_row = json.loads(fisherleak("attack", "visits.csv", *own, "--attribute", "age", "--noise", "0.25", "--json").out)
    assert {a["method"].split(",")[0].split()[1] for a in by_row["attacks"]} == {"rows", "people"}
    audited = json.loads(fisherleak("audit", "visits.csv", *own, "--json", "--draws", "4", "--quick").out)
    check_summary(audited)
    assert audited["next"]["command"].startswith(
        "fisherleak release visits.csv --target sick --person person --held-out 0.25 --noise "
    )
    assert "needs --rows-per-person too" in audited["prices"]["note"]
    assert fisherleak(*shlex.split(audited["next"]["command"])[1:]).status == 0
    done = fisherleak("attack", "visits.csv", "--released", "model.skops", "--attribute", "city")
    assert (done.status, "worst person" in done.out) == (0, True)


def test_a_refusal_names_the_row_as_the_table_counts_it(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    """The only row of a class is not the same among the training rows as in the table."""
    import pandas

    table = pandas.read_csv(people)
    table["retired"] = "no"
    table.loc[77, "retired"] = "yes"
    table.to_csv(tmp_path / "one.csv", index=False)
    own = ("--target", "retired", "--drop", "person", "--attribute", "retired", "--noise", "1", "--held-out", "0.3")
    done = fisherleak("attack", tmp_path / "one.csv", *own, "--seed", "1", "--quick")
    assert done.status == 0, done.err
    assert "With label = no in row 78 there is no model to compare with" in " ".join(done.out.split())
