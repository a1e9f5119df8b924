"""The attack command and attacks in the summary: what the attackers are given, and how their outcomes are told."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import fisherleak as fl
from fisherleak.report import attack_results
from test_summary import check_summary

Command = Callable[..., Any]


@dataclass(frozen=True)
class Outcome:
    attacker: str
    attribute: str
    accuracy: float
    low: float
    high: float
    baseline: float
    n: int
    trials: int


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Attackers that note what they are given, and guess the better the less noise there is."""
    made: list[Any] = []

    class Attacker:
        def __init__(self, model: Any, X: Any, y: Any, attribute: str, values: Any = None, **options: Any) -> None:
            self.model, self.X, self.y, self.attribute, self.values, self.options = (
                model,
                X,
                y,
                attribute,
                values,
                options,
            )
            if attribute == "age" and values is None:
                raise fl.InvalidInputError("age is numeric with many values.")
            made.append(self)

        def accuracy(self, noise: Any) -> Any:
            return np.full(len(self.options["rows"]), 0.5 + 0.5 / (1 + noise.scale))

        def against(self, released: Any) -> Outcome:
            self.released = released
            right = self.accuracy(released).mean() if isinstance(released, fl.Gaussian) else 0.75
            return Outcome(type(self).__name__, self.attribute, right, right - 0.1, right + 0.1, 0.5, 90, 0)

    module = types.ModuleType("fisherleak.attacks")
    for name in attack_results.ATTACKERS:
        setattr(module, name, type(name, (Attacker,), {}))
    monkeypatch.setitem(sys.modules, "fisherleak.attacks", module)
    monkeypatch.setattr(attack_results, "available", lambda: True)
    return made


def test_the_command_prints_every_attacker(fisherleak: Command, people: Path, calls: list[Any]) -> None:
    options = ("attack", people, "--target", "sick", "--attribute", "city", "--attribute", "vip", "--noise", "0.25")
    done = fisherleak(*options)
    assert (done.status, done.err) == (0, "")
    for name in attack_results.ATTACKERS:
        assert name in done.out
    assert "90.0% (80.0% to 100.0%)" in done.out
    document = json.loads(fisherleak(*options, "--json").out)
    assert document["noise"] == 0.25
    assert [(a["attribute"], a["attacker"]) for a in document["attacks"]] == [
        (column, name) for column in ("city", "vip") for name in attack_results.ATTACKERS
    ]
    leak = fl.measure(calls[0].model, calls[0].X, calls[0].y)
    assert leak.attributes == list(calls[0].X)
    assert leak.n == 90


def test_numbers_with_many_values_are_guessed_among_typical_ones(
    fisherleak: Command, people: Path, calls: list[Any], frame: Any
) -> None:
    done = fisherleak("attack", people, "--target", "sick", "--attribute", "age", "--noise", "0.25")
    assert done.status == 0
    assert len(calls[0].values) == 5
    assert frame.age.min() <= min(calls[0].values) < max(calls[0].values) <= frame.age.max()


def test_a_released_model_is_attacked_itself(
    fisherleak: Command, people: Path, tmp_path: Path, calls: list[Any]
) -> None:
    out = tmp_path / "m.skops"
    assert fisherleak("release", people, "--target", "sick", "--eta", "0.5", "--out", out, "--quiet").status == 0
    done = fisherleak("attack", people, "--released", out, "--attribute", "city", "--json")
    assert done.status == 0
    assert json.loads(done.out)["attacks"][0]["accuracy"] == 0.75
    released = calls[0].released
    assert not np.array_equal(released[-1].coef_, calls[0].model[-1].coef_)


def test_the_summary_has_outcomes_and_a_curve(fisherleak: Command, people: Path, calls: list[Any]) -> None:
    summary = json.loads(fisherleak("audit", people, "--target", "sick", "--json", "--draws", "4").out)
    check_summary(summary)
    assert {a["attribute"] for a in summary["attacks"]} == {"city", "vip"}
    for point in summary["tradeoff"]["points"]:
        assert [a["attribute"] for a in point["attacks"]] == ["city", "vip"]
        assert point["attacks"][0]["accuracy"] == pytest.approx(0.5 + 0.5 / (1 + point["scale"]))
    asked = json.loads(
        fisherleak("audit", people, "--target", "sick", "--attribute", "vip", "--json", "--draws", "4").out
    )
    assert {a["attribute"] for a in asked["attacks"]} == {"vip"}
    none = json.loads(fisherleak("audit", people, "--target", "sick", "--no-attacks", "--json", "--draws", "4").out)
    assert none["attacks"] == []


def test_an_attack_that_is_refused_says_why(
    fisherleak: Command, people: Path, calls: list[Any], monkeypatch: Any
) -> None:
    monkeypatch.setattr(attack_results, "_candidates", lambda *_: (None, ""))
    done = fisherleak("attack", people, "--target", "sick", "--attribute", "age", "--noise", "0.25")
    assert done.status == 0
    assert "not run" in done.out
    assert "age is numeric with many values." in done.out
