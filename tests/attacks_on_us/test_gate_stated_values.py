"""Ways to meet a requirement by a name alone, and honest policies, options and tables that were refused or ignored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

pytest.importorskip("pyarrow")

from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import fisherleak as fl
from fisherleak.cli import main

pytestmark = pytest.mark.usefixtures("quick_audits")
RNG = np.random.default_rng(3)
X = pandas.DataFrame(RNG.normal(size=(80, 2)).round(3).clip(-3, 3), columns=["a", "b"]).assign(who=np.arange(80) // 4)
Y = pandas.Series((X.a - X.b + RNG.normal(size=80)).round(3).clip(-7, 7), name="cost")
MODEL = make_pipeline(make_column_transformer(("passthrough", ["a", "b"])), Ridge(alpha=5.0)).fit(X, Y)
SAME = X["who"].map("{:03d}".format)  # 7 and "007" are one person


def checked(found: fl.ModelAudit) -> dict[str, Any]:
    assert found.summary.policy is not None
    return {rule.rule: rule for rule in found.summary.policy.rules}


# What a Series is called is not what it holds


@pytest.mark.parametrize("role", ["person", "group"])
def test_a_requirement_is_about_values_and_not_about_a_name(role: str) -> None:
    policy = {"rows": {"max_eta": 1e3}, "require": {role: "who", "public": "preprocessing"}}

    def met(given: object) -> bool:
        person, group = (given, None) if role == "person" else (None, given)
        found = fl.audit(MODEL, X, Y, 0.5, policy=policy, attacks=False, person=person, group=group)
        return bool(checked(found)[f"require.{role}"].passed)

    other = X["who"].copy()
    other.iloc[-1] = 1  # one row alone
    assert met("who")
    assert met(SAME)
    assert met(X["who"].astype(float))
    assert not met(other)
    assert not met(pandas.Series(np.arange(80) % 40, name="who"))


def test_values_without_a_name_do_not_meet_a_requirement_on_a_column_of_the_default_name() -> None:
    named = X.rename(columns={"who": "person"})
    model = clone(MODEL).fit(named, Y)
    policy = {"rows": {"max_eta": 1e3}, "require": {"person": "person", "public": "preprocessing"}}
    for given, met in ((np.arange(80), False), (named["person"].to_numpy(), True)):
        found = fl.audit(model, named, Y, 0.5, person=given, policy=policy, attacks=False)
        assert checked(found)["require.person"].passed == met


# A spread of the target


@pytest.mark.parametrize("section", ["label", "columns"])
def test_a_policy_may_state_the_spread_of_the_target(section: str) -> None:
    """It was refused as no attribute. The share is that of a belief of this spread: eta² s² / (1 + eta² s²)."""
    limits = {"max_revealed": 0.999, "spread": 4.0}
    policy = {section: limits if section == "label" else {"cost": limits}, "require": {"public": "preprocessing"}}
    found = fl.audit(MODEL, X, Y, 0.5, policy=policy, attacks=False)
    [rule] = [rule for name, rule in checked(found).items() if "max_revealed" in name]
    most = float(np.max(np.asarray(found.leakage.per_label()))) * 4.0
    assert rule.value == pytest.approx(most**2 / (1.0 + most**2))
    assert rule.passed
    assert found.summary.label is not None
    assert found.summary.label.revealed is not None
    assert found.summary.label.revealed.spread == 4.0


def test_a_rule_says_that_it_holds_a_computed_scale_fixed() -> None:
    leak = fl.measure(MODEL, X, Y, fl.Gaussian(1.0))
    ends: Any = {"a": (-9, 9), "b": (-9, 9), "label": (-30, 30)}
    noise = fl.calibrate(leak, eta=2.0, over="any-record", bounds=ends)
    policy = {
        "columns": {"a": {"max_revealed": 0.999}},
        "label": {"max_revealed": 0.999},
        "require": {"public": "preprocessing"},
    }
    for given, said in ((noise, True), (fl.Gaussian(noise.scale), False)):
        rules = checked(fl.audit(MODEL, X, Y, given, policy=policy, attacks=False))
        notes = {name: rule.note for name, rule in rules.items() if not name.startswith("require")}
        assert len(notes) == 2
        assert all(("the noise scale is held fixed" in note) == said for note in notes.values()), notes


# Tables and options


def test_a_column_that_is_left_out_and_called_as_a_feature_would_be(tmp_path: Path) -> None:
    table = X.assign(cost=Y)
    table["a (missing)"] = 1.5
    table.loc[RNG.choice(80, 20, replace=False), "a"] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "p.toml").write_text("[rows]\nmax_eta = 1e3\n", encoding="utf-8")
    line = ["audit", str(tmp_path / "t.csv"), "--target", "cost", "--noise", "1", "--policy", str(tmp_path / "p.toml")]
    assert main([*line, "--drop", "a (missing)", "--no-attacks", "--quiet"]) == 0


@pytest.mark.parametrize("large", [1e20, 1e300, -1e20])
def test_large_whole_numbers_of_a_workbook(large: float, tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    table = X.assign(cost=Y, count=RNG.integers(0, 1000, 80).astype(float))
    table.loc[3, "count"] = large
    table.to_excel(tmp_path / "t.xlsx", index=False)
    line = ["audit", str(tmp_path / "t.xlsx"), "--target", "cost", "--noise", "1", "--drop", "count"]
    assert main([*line, "--no-attacks", "--quiet"]) == 0


@pytest.mark.parametrize("option", ["--l2", "--held-out", "--seed"])
def test_zero_is_a_value_that_a_card_decides(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "m.skops").touch()
    table = str(tmp_path / "t.csv")
    for command in (["audit", table], ["answers", table, table]):
        assert main([*command, "--released", str(tmp_path / "m.skops"), option, "0"]) == 2
        assert f"{option} cannot be given with --released" in " ".join(capsys.readouterr().err.split())
