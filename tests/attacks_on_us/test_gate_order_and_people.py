"""Ways to pass a policy by the order of rows, by copies, by scales, and by how groups, people and values are written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks_on_us.under_policy import judged, write_table_and_policy

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas

from fisherleak.auditing import attackers
from fisherleak.auditing.fitted_models.under_attack import table_under_attack
from fisherleak.auditing.policy import copied_data
from fisherleak.auditing.run import as_raw
from fisherleak.cli import main
from fisherleak.engine.noise import Gaussian
from fisherleak.tables import Room
from fisherleak.tables.design import repeated_rows
from fisherleak.training.pipelines import own_parameters, standard_noise
from fisherleak.training.trained_model import Settings, train

pytestmark = pytest.mark.usefixtures("quick_audits")
Gate = Callable[..., tuple[int, str, dict[str, Any]]]


@pytest.fixture
def gate(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Runs an audit under a policy: the exit status, what was said on standard error, and the rules by name."""
    monkeypatch.chdir(tmp_path)

    def run(table: Any, policy: str, *options: str, **bounds: str) -> tuple[int, str, dict[str, Any]]:
        write_table_and_policy(table, policy)
        ends = [word for name, both in bounds.items() for word in ("--bounds", f"{name}={both}")]
        return judged(capsys, "--target", "dose", "--draws", "2", *ends, *options)

    return run


def ordered_table() -> Any:
    """1,500 rows of which the 500 that are told least stand where a draw with seed 0 takes them."""
    rng = np.random.default_rng(7)
    n = 1500
    x, ill, quiet = rng.normal(0, 1, n).round(3), rng.random(n) < 0.5, rng.random(n) < 0.4
    dose = 20 + x + 0.3 * ill + np.where(quiet, rng.normal(0, 0.15, n), rng.choice([-1, 1], n) * rng.uniform(4, 9, n))
    table = pandas.DataFrame({"x": x, "illness": np.where(ill, "yes", "no"), "dose": dose.round(3)})
    A = np.column_stack([np.ones(n), x, ill])
    order = np.argsort(np.abs(dose - A @ np.linalg.lstsq(A, dose, rcond=None)[0]))
    taken = np.sort(np.random.default_rng(0).choice(n, 500, replace=False))
    place = np.empty(n, dtype=int)
    place[taken], place[np.setdiff1d(np.arange(n), taken)] = order[:500], order[500:]
    return table.iloc[place]


@pytest.mark.long
def test_the_order_of_the_rows_does_not_decide_which_are_attacked(gate: Gate) -> None:
    policy = "[columns.illness]\nmax_attack = 0.75\n"
    status, _, rules = gate(ordered_table(), policy, "--noise", "0.002", "--held-out", "0", x="-5:5", dose="0:40")
    assert status == 1
    assert rules["columns.illness.max_attack"]["value"] > 0.8


@pytest.mark.parametrize("wide", [0, 45], ids=["narrow", "wide"])
def test_copies_are_looked_for_in_all_rows(gate: Gate, monkeypatch: pytest.MonkeyPatch, wide: int) -> None:
    monkeypatch.setattr(copied_data, "MOST_ROWS", 300)
    monkeypatch.setattr(repeated_rows, "FEWEST_ROWS", 30)
    monkeypatch.setattr(repeated_rows, "MOST_WORK", 30)
    rng = np.random.default_rng(3)
    once = rng.normal(size=(300, 4 + wide)).clip(-4.9, 4.9)
    names = ["age", "bmi", "bp", "dose", *(f"x{j}" for j in range(wide))]
    taken = np.sort(np.random.default_rng(0).choice(1200, 300, replace=False))
    place = np.tile(np.arange(300), 4)
    place[taken], place[np.setdiff1d(np.arange(1200), taken)] = np.arange(300), np.tile(np.arange(300), 3)
    noisy = once[place] + rng.normal(size=(1200, 4 + wide)) * 1e-6
    for table in (once[place], noisy):
        frame = pandas.DataFrame(table, columns=names)
        ends = dict.fromkeys(names, "-5:5")
        status, said, _ = gate(
            frame, "[rows]\nmax_eta = 1e6\n", "--noise", "1", "--held-out", "0", "--no-attacks", **ends
        )
        assert status == 2
        assert "copies of others" in said
    frame = pandas.DataFrame(rng.normal(size=(1200, 4 + wide)).clip(-4.9, 4.9), columns=names)
    assert not gate(frame, "[rows]\nmax_eta = 1e6\n", "--noise", "1", "--held-out", "0", "--no-attacks", **ends)[0]


@pytest.mark.parametrize("first", ["1234561.0", "(missing)"])
def test_groups_with_names_alike_are_all_in_the_rules(gate: Gate, first: str) -> None:
    rng = np.random.default_rng(5)
    n, exposed = 400, np.arange(400) < 31
    age = rng.normal(50, np.where(exposed, 20, 8), n).clip(1, 99).round(1)
    dose = (20 + rng.normal(0, np.where(exposed, 9, 1), n)).clip(0, 60).round(2)
    other = "1234562.5" if first[0] == "1" else "Bonn"
    region = np.where(exposed, first, other)
    if first == "(missing)":
        region[-9:] = ""
    table = pandas.DataFrame({"age": age, "region": region, "dose": dose})
    policy = '[groups]\nmax_eta_mean = 0.7\nmax_ratio = 1.5\n[require]\ngroup = "region"\n'
    words = ("--noise", "0.05", "--held-out", "0", "--group", "region", "--drop", "region", "--no-attacks")
    status, _, rules = gate(table, policy, *words, age="0:100", dose="0:60")
    assert status == 1
    assert rules["groups.max_ratio"]["value"] > 1.5
    assert first.removesuffix(".0") in rules["groups.max_eta_mean"]["note"]
    assert not rules["groups.max_eta_mean"]["passed"]


@pytest.mark.parametrize("rows", [1, 2], ids=["one row each", "two rows each"])
def test_who_learns_from_other_columns_attacks_people_too(gate: Gate, rows: int) -> None:
    rng = np.random.default_rng(5)
    n = 240
    smoker = rng.random(n) < 0.5
    cotinine = np.where(smoker, rng.normal(300, 60, n), rng.normal(60, 60, n)).round(1).clip(-300, 600)
    table = pandas.DataFrame({"pid": [f"p{k}" for k in range(n)], "age": rng.normal(50, 10, n).round(1).clip(1, 99)})
    table = table.assign(cotinine=cotinine, smoker=np.where(smoker, "yes", "no"))
    table = table.assign(dose=(20 + 2 * smoker + 0.01 * cotinine + rng.normal(0, 2, n)).round(2))
    if rows == 2:  # what tells is in the second row
        later = table.assign(age=table.age + 1, dose=(table.dose + rng.normal(0, 1, n)).round(2))
        table = pandas.concat([table.assign(cotinine=rng.normal(180, 20, n).round(1)), later])
    policy = '[columns.smoker]\nmax_attack = 0.8\n[require]\nperson = "pid"\n'
    ends = {"age": "0:101", "cotinine": "-300:600", "dose": "-10:60"}
    status, _, found = gate(table, policy, "--noise", "0.5", "--held-out", "0", "--person", "pid", **ends)
    assert status == 1
    assert found["columns.smoker.max_attack"]["value"] > 0.9


@pytest.mark.parametrize("model", ["linear", "logistic", "poisson", "softmax"])
@pytest.mark.parametrize("rows", [1, 2], ids=["rows", "people"])
def test_attackers_of_a_number_fit_its_scale_anew(model: str, rows: int) -> None:
    """Moves of the parameters, against the whole procedure with another value in all rows of one person."""
    rng = np.random.default_rng(5)
    n = 60
    table = pandas.DataFrame({"pid": np.arange(n), "ill": (np.arange(n) < 9).astype(float)})
    table = pandas.concat([table.assign(age=rng.normal(50, 10, n).clip(1, 99).round(1)) for _ in range(rows)])
    score = np.asarray(0.05 * (table.age - 50) + table.ill + rng.normal(0, 1, n * rows))
    labels = {"logistic": score > 0.4, "poisson": rng.poisson(np.exp(0.3 * score).clip(0, 9))}
    labels |= {"linear": score.clip(-9, 9), "softmax": np.digitize(score, [-0.3, 0.6])}
    table["dose"] = labels[model].astype(str if model in ("logistic", "softmax") else float)
    ends = [("ill", (0.0, 1.0)), ("age", (0.0, 100.0)), *([("dose", (-10.0, 10.0))] if model == "linear" else [])]
    settings = Settings(target="dose", model=model, l2=2.0, held_out=0.0, person="pid", bounds=tuple(ends))
    trained = train(as_raw(table), settings, Room.here())
    noise: Any = standard_noise(trained, Gaussian(1.0))
    under = table_under_attack(trained)
    attacks = attackers._Attacks(under, noise, (), 0, 0, False, 1, {})
    known = attacks._known(attackers._aim(under, "ill", 500, 0))
    for person in (0, 8, 9, n - 1):
        other = table.assign(ill=np.where(table.pid == person, 1.0 - table.ill, table.ill))
        apart = train(as_raw(other), settings, Room.here())
        away = noise.turn @ (own_parameters(apart) - own_parameters(trained))
        moved = known.moves[int(person >= 9)].values[person]
        assert np.linalg.norm(moved - away) <= 1e-3 * np.linalg.norm(away)


def test_a_number_is_attacked_end_to_end(gate: Gate) -> None:
    rng = np.random.default_rng(5)
    n = 480
    y = rng.normal(0, 0.3, n)
    y[:24], y[72:96] = y[:24] + 6, y[72:96] - 6
    table = pandas.DataFrame(
        {"age": rng.normal(50, 10, n).clip(5, 95).round(1), "ill": (np.arange(n) < 72).astype(int)}
    )
    table = table.assign(dose=(20 + y).round(3))
    policy = "[columns.ill]\nmax_attack = 0.92\n"
    words = ("--l2", "10", "--noise", "0.0004", "--held-out", "0")
    status, _, rules = gate(table, policy, *words, age="0:100", ill="0:1", dose="0:40")
    assert status == 1
    assert rules["columns.ill.max_attack"]["value"] == pytest.approx(0.98, abs=0.01)


def test_one_person_under_several_spellings_of_a_number_is_one(gate: Gate) -> None:
    rng = np.random.default_rng(5)
    n = 60
    table = pandas.DataFrame({"age": rng.normal(50, 10, 4 * n).clip(1, 99).round(1), "bmi": rng.normal(25, 4, 4 * n)})
    table = table.assign(bmi=table.bmi.round(2), dose=(20 + rng.normal(0, 3, 4 * n)).clip(0, 40).round(2))
    people = [str(1000 + k) for k in range(n)]
    spelled = [form.format(person) for form in ("{}", "{}.0", "0{}", " {}.00") for person in people]
    policy = '[rows]\nmax_eta = 1e6\n[require]\nperson = "pid"\n'
    words = ("--noise", "0.2", "--held-out", "0", "--person", "pid", "--no-attacks")
    found = []
    for ids in (people * 4, ["x1000", *spelled[1:]]):
        status, _, rules = gate(table.assign(pid=ids), policy, *words, age="0:100", bmi="0:60", dose="0:40")
        assert status == 0
        found.append(rules["rows.max_eta"]["value"])
    assert found[1] == pytest.approx(found[0], rel=0.05)


def test_rows_that_must_be_held_out_are(gate: Gate) -> None:
    rng = np.random.default_rng(5)
    policy = "[utility]\nmin = -9\n[rows]\nmax_eta = 1e6\n[require]\nheld_out = 0.2\n"
    for n, expected in ((39, 1), (41, 0)):
        table = pandas.DataFrame({"age": rng.normal(size=n).clip(-4, 4), "dose": rng.normal(size=n).clip(-4, 4)})
        status, _, rules = gate(
            table, policy, "--noise", "0.1", "--held-out", "0.25", "--no-attacks", age="-5:5", dose="-5:5"
        )
        assert (status, rules["require.held_out"]["passed"]) == (expected, not expected)


def test_the_eta_of_two_values_is_per_step_between_them(gate: Gate) -> None:
    rng = np.random.default_rng(5)
    n, found = 200, []
    smoker = rng.integers(0, 2, n)
    table = pandas.DataFrame({"age": rng.normal(50, 10, n).clip(1, 99).round(1), "smoker": smoker})
    table = table.assign(dose=(20 + smoker + rng.normal(0, 3, n)).clip(0, 60).round(2))
    for code in (1, 100000):
        ends = {"age": "0:100", "smoker": f"0:{code}", "dose": "0:60"}
        words = ("--noise", "0.0001", "--held-out", "0", "--no-attacks")
        coded = table.assign(smoker=code * smoker)
        status, _, rules = gate(coded, "[columns.smoker]\nmax_eta = 1\n[columns.age]\nmax_eta = 1e6\n", *words, **ends)
        assert status == 1
        assert "the standard deviation of the values is" in rules["columns.age.max_eta"]["note"]
        assert rules["columns.smoker.max_eta"]["count"] > 0
        found.append(rules["columns.smoker.max_eta"]["value"])
    assert found[0] == pytest.approx(found[1], rel=1e-6)


@pytest.mark.long
def test_classes_that_are_numbers_and_not_whole_are_attacked_and_released(gate: Gate) -> None:
    rng = np.random.default_rng(5)
    age = rng.normal(50, 10, 100).clip(1, 99).round(1)
    table = pandas.DataFrame({"age": age, "dose": np.where(age + rng.normal(0, 9, 100) > 50, 2.5, 1.0)})
    status, _, rules = gate(table, "[label]\nmax_attack = 0.99\n", "--noise", "0.1", "--held-out", "0", age="0:100")
    assert status == 0
    assert rules["label.max_attack"]["value"] > 0.5
    release = ["release", "t.csv", "--target", "dose", "--noise", "0.1", "--held-out", "0", "--bounds", "age=0:100"]
    assert main([*release, "--out", "m.skops"]) == 0
    assert main(["verify", "m.skops"]) == 0
    assert main(["audit", "t.csv", "--released", "m.skops", "--no-attacks"]) == 0
    skops = pytest.importorskip("skops.io")
    model = skops.load("m.skops", trusted=skops.get_untrusted_types(file="m.skops"))
    assert set(model.predict(table[["age"]])) == {1.0, 2.5}


@pytest.mark.parametrize("folder", [False, True])
def test_numbers_of_16_bits_are_read(tmp_path: Path, folder: bool) -> None:
    rng = np.random.default_rng(5)
    age, dose = (rng.normal(50, 10, 120).astype(np.float16) for _ in range(2))
    for k in range(1 + folder):
        pandas.DataFrame({"age": age, "bmi": rng.normal(size=120), "dose": dose}).to_parquet(tmp_path / f"{k}.parquet")
    path = str(tmp_path if folder else tmp_path / "0.parquet")
    assert main(["audit", path, "--target", "dose", "--noise", "0.1", "--no-attacks", "--json"]) == 0


@pytest.mark.parametrize("form", ["{}=1", "[{}]"])
def test_a_policy_with_keys_of_very_many_parts_is_refused(gate: Gate, form: str) -> None:
    table = pandas.DataFrame({"age": np.arange(50.0), "dose": np.arange(50.0) ** 2})
    status, said, _ = gate(table, form.format(".".join("b" * 200_000)), "--noise", "1")
    assert status == 2
    assert "dots in line 1" in said


def test_the_command_line_is_run_as_a_module() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "fisherleak", "--version"], capture_output=True, text=True, check=True
    )
    assert found.stdout.startswith("fisherleak ")


def test_a_number_beside_functions_of_itself_is_refused(gate: Gate) -> None:
    rng = np.random.default_rng(4)
    age = rng.uniform(20, 80, 300).round(2)
    table = pandas.DataFrame({"age": age, "inverse": 1000 / age, "bmi": rng.normal(25, 4, 300).clip(10, 45).round(2)})
    table["dose"] = (20 + 0.1 * age + rng.normal(0, 3, 300)).clip(0, 60).round(2)
    assert abs(np.corrcoef(table.age, table.inverse)[0, 1]) < 0.98
    policy = "[columns.age]\nmax_revealed = 0.5\nspread = 18\n"
    words = ("--noise", "1", "--held-out", "0", "--no-attacks")
    status, said, _ = gate(table, policy, *words, age="20:80", inverse="12:51", bmi="10:45", dose="0:60")
    assert status == 2
    assert "'inverse' is a copy of 'age', or nearly" in said
    assert gate(table.drop(columns="inverse"), policy, *words, age="20:80", bmi="10:45", dose="0:60")[0] == 0
