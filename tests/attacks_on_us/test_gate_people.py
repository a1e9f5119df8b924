"""People with several rows: one of them whose rows differ in a category does not change how all others are attacked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.linear_model import Ridge

import fisherleak as fl
from fisherleak.cli import main

PEOPLE, VISITS, SIGMA = 40, 8, 0.02


def table() -> tuple[Any, Any, Any]:
    """One cell of one person says another sex than their other rows do."""
    rng = np.random.default_rng(1)
    who = pandas.Series(np.repeat(np.arange(PEOPLE), VISITS), name="person")
    sex = rng.integers(0, 2, PEOPLE)[who].astype(float)
    X = pandas.DataFrame({"sex": sex, "x1": rng.normal(size=who.size), "x2": rng.normal(size=who.size)}).round(3)
    y = pandas.Series((X.x1 + 0.5 * X.x2 + rng.normal(size=who.size)).round(3), name="y")
    X.loc[3, "sex"] = 1 - sex[3]
    return X, y, who


def parameters(X: Any, y: Any) -> Any:
    model = Ridge(alpha=1.0).fit(X, y)
    return np.append(model.coef_, model.intercept_)


def truth(X: Any, y: Any, who: Any) -> float:
    """How often an attacker is right who knows all else, of people whose rows agree: by refits with all their rows changed."""
    rng, base, right = np.random.default_rng(0), parameters(X, y), []
    first = X.sex[~who.duplicated()]
    prior = np.array([(first == 0).mean(), (first == 1).mean()])
    for person in range(1, PEOPLE):
        other = X.copy()
        own = int(X.sex[who == person].iloc[0])
        other.loc[who == person, "sex"] = 1.0 - own
        both = np.empty((2, 4))
        both[own], both[1 - own] = base, parameters(other, y)
        seen = base + SIGMA * rng.normal(size=(2000, 4))
        score = np.log(prior) - ((seen[:, None] - both[None]) ** 2).sum(axis=2) / 2 / SIGMA**2
        right.append(np.mean(score.argmax(axis=1) == own))
    return float(np.mean(right))


@pytest.mark.parametrize("section", ["columns", "attacks"])
def test_people_whose_rows_agree_are_attacked_as_people(section: str) -> None:
    X, y, who = table()
    known = truth(X, y, who)
    limit = known - 0.03
    rules: Any = {
        "columns": {"columns": {"sex": {"max_attack": limit}}},
        "attacks": {"attacks": {"max_accuracy": limit, "max_gain": 0.99}},
    }[section]
    policy = {**rules, "require": {"person": "person"}}
    model = Ridge(alpha=1.0).fit(X, y)
    found = fl.audit(model, X, y, noise=fl.Gaussian(SIGMA), person=who, public="nothing", policy=policy)
    assert not found.passed
    if section == "columns":
        best = next(
            each
            for each in found.summary.attacks
            if each.attacker == "white-box with prior" and "40 people" in each.method
        )
        assert best.accuracy == pytest.approx(known, abs=0.02)


def test_so_they_are_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, y, who = table()
    rows = X.assign(sex=np.where(X.sex == 1, "f", "m"), y=y, person=[f"p{k:03d}" for k in who])
    rows.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "p.toml").write_text(
        '[columns.sex]\nmax_attack = 0.70\n[require]\nperson = "person"\n', encoding="utf-8"
    )
    line = ["audit", str(tmp_path / "t.csv"), "--target", "y", "--person", "person", "--noise", "0.02", "-v"]
    assert main([*line, "--held-out", "0", "--policy", str(tmp_path / "p.toml")]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "The value that most rows of a person have in 'sex', 'y' is also guessed, in all of these rows together."
        in said
    )
    agree = rows.assign(sex=rows.groupby("person").sex.transform("first"))
    agree.to_csv(tmp_path / "t.csv", index=False)
    assert main([*line, "--held-out", "0", "--policy", str(tmp_path / "p.toml")]) == 1


def test_gains_are_those_of_one_kind_of_attack() -> None:
    """What rows and people are guessed without the release is not mixed."""
    X, y, who = table()
    model = Ridge(alpha=1.0).fit(X, y)
    policy = {"columns": {"sex": {"max_attack": 0.99}}, "require": {"person": "person"}}
    found = fl.audit(model, X, y, noise=fl.Gaussian(SIGMA), person=who, public="nothing", policy=policy)
    methods = {each.method.split(",")[0] for each in found.summary.attacks if each.attribute == "sex"}
    assert methods == {f"{PEOPLE} people", f"{PEOPLE * VISITS} rows"}
