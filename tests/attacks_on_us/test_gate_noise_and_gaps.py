"""More ways to pass a policy: odd policies, noise where it hides nothing, weights, copies of one row, spreads, missing cells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attacks_on_us.under_policy import judged, write_table_and_policy

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas

from fisherleak.auditing.policy import rules
from fisherleak.cli import main
from fisherleak.engine.noise.add_noise_and_round import grid_of, on_grid, released
from fisherleak.protection.release import procedure

pytestmark = pytest.mark.usefixtures("quick_audits")
Gate = Callable[..., tuple[int, str, dict[str, Any]]]
AGE = "[columns.age]\nmax_revealed = 0.1\n"


def bounds_to(ages: str = "100") -> list[str]:
    ends = {"age": f"0:{ages}", "bmi": "0:60", "ill": "0:1", "dose": "-300:300"}
    return [word for name, both in ends.items() for word in ("--bounds", f"{name}={both}")]


def table_of(n: int = 150) -> Any:
    rng = np.random.default_rng(3)
    table = pandas.DataFrame({"age": rng.normal(50, 12, n).round(1), "bmi": rng.normal(25, 4, n).round(1)})
    table = table.assign(ill=rng.integers(0, 2, n), city=rng.choice(["Bonn", "Genua"], n))
    return table.assign(dose=(table.age + 9 * table.ill + rng.normal(0, 12, n)).round(2))


@pytest.fixture
def gate(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Runs an audit under a policy: the exit status, what was said on standard error, and the rules by name."""
    monkeypatch.chdir(tmp_path)

    def run(policy: str, *options: str, table: Any = None, ages: str = "100") -> tuple[int, str, dict[str, Any]]:
        write_table_and_policy(table_of() if table is None else table, policy)
        used = () if "--released" in options else ("--target", "dose", "--held-out", "0", *bounds_to(ages))
        used = used if {"--noise", "--released"} & {*options} else (*used, "--noise", "1")
        return judged(capsys, *used, "--draws", "2", "--no-attacks", *options)

    return run


ODD = {
    "a large integer": f"[rows]\nmax_eta = 1{'0' * 400}\n",
    "a large spread": f"{AGE}spread = 1{'0' * 400}\n",
    "a large utility": f"[utility]\nmin = -1{'0' * 400}\n",
    "5,000 digits": f"[rows]\nmax_eta = 1{'0' * 5000}\n",
    "5,000 digits in base 16": f"[rows]\nmax_eta = 0x1{'0' * 5000}\n",
    "large integers in a list": f"[require]\ntarget = [0x1{'0' * 5000}]\n",
    "arrays in arrays": f"[rows]\nmax_eta = {'[' * 5000}{']' * 5000}\n",
    "tables in tables": f"[rows]\nmax_eta{'.a' * 5000} = 1\n",
    "next to nothing": "[columns.age]\nmax_revealed = 1e-300\n",
    "infinite": "[rows]\nmax_eta = inf\n",
}


@pytest.mark.parametrize("case", ODD)
def test_a_policy_of_numbers_that_nobody_means_is_refused_in_a_sentence(gate: Gate, case: str) -> None:
    status, err, _ = gate(ODD[case])
    assert (status, err.count("\n")) == (2, 1), err
    assert "policy.toml" in err
    assert "should not happen" not in err
    assert len(err) < 400


def test_a_limit_that_no_noise_keeps_fails_and_none_is_advised(gate: Gate) -> None:
    status, _, rules = gate("[rows]\nmax_eta = 1e-100\n", "--noise", "1e90")
    assert (status, rules["rows.max_eta"]["passed"]) == (1, False)


UNUSED = ",".join(["Bonn", "Genua", *(f"Z{k}" for k in range(60))])
NOISES = [("--noise", "1"), ("--eta", "3", "--over", "max", "--shape", "hessian")]
RELEASED = "[rows]\nmax_eta = 1e9\n[require]\nreleased = true\n"


def release(*options: str) -> int:
    """Of the table that is there; ``options`` come last."""
    line = ["release", "t.csv", "--target", "dose", *bounds_to(), "--out", "m.skops", "--overwrite", "--quiet"]
    return main([*line, *options])


@pytest.mark.parametrize("noise", NOISES)
def test_noise_of_categories_that_no_row_has_is_none(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, noise: tuple[str, ...]
) -> None:
    def forged(theta: Any, noise: Any, rng: Any = None, through: Any = None) -> Any:
        """Noise where the fit is zero, whatever the data are, and none in the other parameters."""
        decided = np.abs(theta) > 1e-12
        assert 0 < np.count_nonzero(decided) < 8
        return np.where(decided, on_grid(theta, grid_of(noise, theta.size)), released(theta, noise, rng, through))

    table_of().to_csv("t.csv", index=False)
    monkeypatch.setattr(procedure, "released", forged)
    assert release("--levels", f"city={UNUSED}", *noise) == 0
    status, err, _ = gate(RELEASED, "--released", "m.skops")
    assert (status, "holds no noise of the scale that its model card claims" in err) == (2, True)


@pytest.mark.parametrize("noise", NOISES)
def test_parameters_of_categories_that_no_row_has_do_not_count(gate: Gate, noise: tuple[str, ...]) -> None:
    """Below 18 parameters nothing tells that the noise is there."""
    table_of().to_csv("t.csv", index=False)
    assert release("--levels", f"city={UNUSED}", *noise) == 0
    status, _, rules = gate(RELEASED, "--released", "m.skops")
    assert (status, rules["require.released"]["passed"]) == (1, False)
    assert "With 5 parameters that rows decide" in rules["require.released"]["note"]


def test_that_noise_may_be_left_out_of_a_few_parameters_is_said(gate: Gate, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    table_of().assign(**{f"x{k}": rng.normal(size=150) for k in range(20)}).to_csv("t.csv", index=False)
    assert release("--noise", "1") == 0
    capsys.readouterr()
    assert main(["audit", "t.csv", "--released", "m.skops", "--draws", "2", "--no-attacks", "-v"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Noise left out of some parameters can pass" in said


@pytest.mark.parametrize("section", ["[columns.age]\nmin_error = 1e-9", "[membership]\nmax_right = 0.99"])
def test_rules_that_hold_the_weights_of_a_balanced_model_fixed_are_refused(gate: Gate, section: str) -> None:
    table_of().to_csv("t.csv", index=False)
    assert release("--balance", "--noise", "50") == 0
    status, err, _ = gate(f"[rows]\nmax_eta = 1e9\n{section}\n", "--released", "m.skops")
    assert (status, "the model is balanced" in err, "without --balance" in err) == (2, True, True), err
    assert gate("[rows]\nmax_eta = 1e9\n", "--released", "m.skops")[:2] == (0, "")


@pytest.mark.parametrize("how", ["exactly", "nearly"])
def test_a_few_copies_of_one_row_are_refused_in_any_table(gate: Gate, how: str) -> None:
    table, rng = table_of(600), np.random.default_rng(1)
    for count in (4, 5):
        copied = pandas.concat([table, *[table.iloc[:1]] * (count - 1)])
        if how == "nearly":
            copied["bmi"] += np.where(copied.index == 0, 1e-9, 0.0) * rng.normal(size=len(copied))
            copied["city"] = np.where(copied.index == 0, rng.choice(["Bonn", "Genua"], len(copied)), copied.city)
        status, err, _ = gate("[label]\nmax_revealed = 0.1\n", table=copied)
        assert (status, f"One row stands {count} times in the" in err) == ((2, True) if count == 5 else (1, False)), err


def test_copies_of_one_row_that_differ_a_little_in_one_number_are_refused(gate: Gate) -> None:
    """Below 5 % of the rows; some of them fall to the other side of a rounding."""
    table, rng = table_of(600), np.random.default_rng(1)
    copied = pandas.concat([table, *[table.iloc[:1]] * 24])
    copied["bmi"] += np.where(copied.index == 0, 0.01, 0.0) * rng.normal(size=len(copied))
    status, err, _ = gate("[label]\nmax_revealed = 0.1\n", table=copied)
    assert (status, "One row stands" in err, "1/100 of their" in err) == (2, True, True), err


def test_rows_that_lack_the_same_numbers_are_no_copies(gate: Gate) -> None:
    table = table_of(600)
    table["dose"] = table.dose.round(-1)
    for name in ("age", "bmi"):
        table.loc[:23, name] = np.nan
    status, err, _ = gate("[rows]\nmax_eta = 1e-9\n", table=table)
    assert status == 1, err


def test_a_share_is_measured_with_the_larger_of_two_spreads(gate: Gate) -> None:
    """Ages in another unit than that of the policy reveal no less."""
    table, shares = table_of(), []
    for times in (1.0, 2.9):
        own = table.assign(age=table.age * times)
        ages, spread = f"{100 * times:g}", table.age.std(ddof=0) + 0.01
        _, _, rules = gate(f"{AGE}spread = {spread}\n", "--noise", "20", table=own, ages=ages)
        shares.append(rules["columns.age.max_revealed"])
    assert shares[1]["value"] == pytest.approx(shares[0]["value"], rel=0.01)
    assert "stated in the policy" in shares[0]["note"]
    assert "that of the rows, which is above the" in shares[1]["note"]


@pytest.fixture
def lacking() -> Any:
    """A number that 4 % of the rows lack: too few for a feature that tells so."""
    rng = np.random.default_rng(1)
    table = table_of(300).assign(crp=rng.normal(5, 2, 300).clip(0.1, 15))
    return table.assign(crp=table.crp.where(table.index > 11))


@pytest.mark.parametrize(
    "policy", ["[attacks]\nmax_gain = 0.1\n", '[columns."*"]\nmax_attack = 0.9\nmax_revealed = 0.9\n']
)
def test_limits_on_every_attack_need_cells_that_are_there(gate: Gate, lacking: Any, policy: str) -> None:
    bounds = ("--bounds", "crp=0:15")
    status, err, _ = gate(policy, *bounds, table=lacking)
    assert (status, "whether a value of 'crp' is missing" in err, "--missing drop" in err) == (2, True, True), err
    assert gate(policy, *bounds, "--missing", "drop", table=lacking)[0] == 1


@pytest.mark.parametrize("rule", ["max_revealed = 0.9", "min_error = 1e-9", "max_eta = 1e9"])
def test_no_rule_on_a_number_passes_where_the_model_uses_who_lacks_it(gate: Gate, rule: str) -> None:
    """Refits told whether one value was missing 99 % of the time where 9.6 % of it was revealed."""
    rng = np.random.default_rng(1)
    table = table_of(300).assign(crp=rng.normal(5, 2, 300).clip(0.1, 15))
    table = table.assign(crp=table.crp.where(table.index > 30))
    options = ("--noise", "1e4", "--bounds", "crp=0:15")
    status, err, _ = gate(f"[columns.crp]\n{rule}\n", *options, table=table)
    assert (status, "whether such a value is missing" in err) == (2, True), err
    assert gate(f"[columns.crp]\n{rule}\n", *options, "--missing", "drop", table=table)[0] == 0


@pytest.mark.parametrize("high", [15, 40, 1000])
def test_what_stands_for_missing_cells_lies_among_the_others(gate: Gate, lacking: Any, high: int) -> None:
    policy = "[columns.crp]\nmax_revealed = 0.9\n"
    status, err, _ = gate(policy, "--noise", "1e4", "--bounds", f"crp=0:{high}", table=lacking)
    assert (status, "That shows who lacks a value" in err) == ((0, False) if high == 15 else (2, True)), err


def test_a_gain_that_cannot_be_above_its_limit_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a yes or no that 7 % of the rows have."""
    guessed = {"hiv": 0.93, "city": 0.6}
    monkeypatch.setattr(rules, "without_release", lambda attacked, column: guessed[column])
    audit: Any = SimpleNamespace(attacked=None)
    assert "No gain on 'hiv' can be above the limit" in rules._cannot_fail(audit, [*guessed], 0.1)
    assert rules._cannot_fail(audit, [*guessed], 0.05) == ""
