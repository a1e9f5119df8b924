"""Ways to pass a rule by the unit of a label, by rows that no model sees, and by values that are nearly a few."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attacks_on_us.under_policy import judged, write_table_and_policy

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas

from fisherleak.auditing.policy.copied_data import nearly_values
from fisherleak.cli import main
from fisherleak.releasing.any_record_noise import AnyRecordLimit, admitted_noise
from fisherleak.tables import Choices, Feature, design_of, from_frame
from fisherleak.training.trained_model import Settings, Trained, train

Vector = NDArray[np.float64]
Ends = tuple[tuple[str, tuple[float, float]], ...]
Gate = Callable[..., tuple[int, str, dict[str, Any]]]


@pytest.fixture
def gate(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Runs an audit under a policy: the exit status, what was said on standard error, and the rules by name."""
    monkeypatch.chdir(tmp_path)

    def run(table: pandas.DataFrame, policy: str, *options: str) -> tuple[int, str, dict[str, Any]]:
        write_table_and_policy(table, policy)
        return judged(capsys, "--target", "y", "--held-out", "0", "--no-attacks", *options)

    return run


# a row counts its label in a standard unit, whatever the kind of model and the unit that the table has


def labelled(kind: str, times: float = 1.0, rows: int = 120) -> pandas.DataFrame:
    """Incomes, or counts, of people with two numbers, one of them far from all others."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(rows, 2)).round(3)
    X[0] = 5.0, -5.0
    mean = np.exp(0.2 * X[:, 0])
    y = (30_000 * mean * rng.gamma(40.0, 1 / 40.0, rows)).round() if kind == "gamma" else rng.poisson(30.0 * mean)
    return pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": times * y})


def refitted(trained: Trained, X: Vector, y: Vector) -> Vector:
    """The minimum for other rows, penalty and scales end to end as they are, by Newton's method of our own."""
    l2, gamma = trained.l2, trained.kind.name == "gamma"
    A, theta = np.column_stack([X, np.ones(len(X))]), np.array([*np.zeros(X.shape[1]), np.log(y.mean())])
    P = np.diag([*(l2 * X.var(axis=0)), 0.0])
    for _ in range(60):
        mean = np.exp(A @ theta)
        r, a = (1.0 - y / mean, y / mean) if gamma else (mean - y, mean)
        theta = theta - np.linalg.solve((A * a[:, None]).T @ A / len(X) + P, A.T @ r / len(X) + P @ theta)
    return theta


def eta_by_refits(trained: Trained, row: int) -> float:
    """Of a row at noise of scale 1, its columns and its label in standard units, by differences of refits."""
    X, y, unit = np.asarray(trained.design.X), np.asarray(trained.design.y), trained.design.target.unit
    steps, h = [], 1e-4
    for j in range(X.shape[1] + 1):
        ends = []
        for sign in (1.0, -1.0):
            Z, labels = X.copy(), y.copy()
            if j < X.shape[1]:
                Z[row, j] += sign * h
            else:
                labels[row] += sign * h * unit
            ends.append(refitted(trained, Z, labels))
        steps.append((ends[0] - ends[1]) / (2.0 * h))
    return float(np.linalg.norm(np.array(steps), 2))


@pytest.mark.parametrize("kind", ["poisson", "gamma"])
@pytest.mark.parametrize("bounded", [False, True])
def test_a_row_counts_its_label_in_standard_units(kind: str, bounded: bool) -> None:
    table = labelled(kind)
    ends: Ends = (("y", (0.5, float(2 * table.y.max()))),) if bounded else ()
    trained = train(from_frame(table), Settings("y", kind, held_out=0.0, bounds=ends))
    spread, unit = float(table.y.std(ddof=0)), trained.design.target.unit
    expected = (ends[0][1][1] - 0.5) / np.sqrt(12.0) if bounded else spread
    assert unit == pytest.approx(expected, rel=1e-12 if bounded else 0.1)
    etas = np.asarray(trained.each_eta())
    for row in (0, 1, int(etas.argmax())):
        assert etas[row] == pytest.approx(eta_by_refits(trained, row), rel=1e-5)
    # and one label is told of as before, in its own unit
    alone = np.asarray(trained.leak.per_label()) / unit
    assert np.all(etas >= alone * unit * (1.0 - 1e-9))


@pytest.mark.long
def test_no_rule_on_rows_passes_for_the_sake_of_cents(gate: Gate) -> None:
    policy = "[rows]\nmax_eta = 100\n"
    found = []
    for times in (1.0, 100.0):
        table = labelled("gamma", times)
        ends = ["--bounds", "a=-6:6", "--bounds", "b=-6:6", "--bounds", f"y={times}:{times * 200_000}"]
        status, _, rules = gate(table, policy, "--model", "gamma", "--noise", "0.01", *ends)
        assert status == 0
        found.append(rules["rows.max_eta"]["value"])
    assert found[1] == pytest.approx(found[0], rel=1e-8)
    # the label is what is told of best: its columns alone have less than that
    trained = train(
        from_frame(labelled("gamma")),
        Settings("y", "gamma", held_out=0.0, bounds=(("a", (-6.0, 6.0)), ("b", (-6.0, 6.0)), ("y", (1.0, 200_000.0)))),
    )
    alone = np.asarray(trained.leak.per_example(["a", "b"])).max() / 0.01
    assert found[0] > 1.5 * alone


@pytest.mark.long
def test_noise_for_any_record_does_not_depend_on_the_unit_of_a_label() -> None:
    scales = []
    for times in (1.0, 100.0):
        ends = (("a", (-6.0, 6.0)), ("b", (-6.0, 6.0)), ("y", (times * 10_000, times * 200_000)))
        settings = Settings("y", "gamma", held_out=0.0, l2=3.0, bounds=ends)
        trained = train(from_frame(labelled("gamma", times, 600)), settings)
        noise = admitted_noise(trained, settings, AnyRecordLimit(1.0, bounds=dict(ends)), 0)
        assert np.max(np.asarray(trained.each_eta())) <= noise.scale
        scales.append(noise.scale)
    assert scales[1] == pytest.approx(scales[0], rel=1e-9)


@pytest.mark.long
def test_a_ledger_counts_a_label_in_the_unit_of_audits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = labelled("gamma").assign(who=[f"p{k}" for k in range(120)])
    source, ledger = tmp_path / "t.csv", tmp_path / "l.ledger"
    table.to_csv(source, index=False)
    options = ["--target", "y", "--model", "gamma", "--id", "who", "--noise", "0.02"]
    assert not main(["release", str(source), *options, "--out", str(tmp_path / "m.skops"), "--ledger", str(ledger)])
    capsys.readouterr()
    assert not main(["ledger", str(ledger), str(source), "--json"])
    spent = json.loads(capsys.readouterr().out)
    trained = train(from_frame(table), Settings("y", "gamma", id="who", held_out=0.0))
    assert spent["eta"]["max"] == pytest.approx(np.max(np.asarray(trained.each_eta())) / 0.02, rel=1e-6)


# rows that no model is trained on, or that are held out, decide nothing about a column


def varying_elsewhere(others: str) -> tuple[pandas.DataFrame, float]:
    """A titre that four training rows have, and many values of it in rows without a target, or in those held out."""
    rng = np.random.default_rng(3)
    n = 200
    table = pandas.DataFrame({"age": rng.normal(50, 12, n).round(), "titre": 0.0, "y": rng.normal(30, 5, n).round(1)})
    if others == "without a target":
        table.loc[:3, "titre"] = 1.0
        more = pandas.DataFrame({"age": 40.0, "titre": np.arange(2.0, 22.0), "y": np.nan})
        return pandas.concat([table, more], ignore_index=True), 0.0
    design = design_of(from_frame(table), Choices("y"), held_out=0.25)
    trained = np.asarray(design.rows) - 1
    table.loc[trained[:4], "titre"] = 1.0
    held = np.setdiff1d(np.arange(n), trained)
    table.loc[held, "titre"] = np.arange(held.size, dtype=np.float64)
    return table, 0.25


def feature_of(table: pandas.DataFrame, name: str, held_out: float = 0.0, **choices: Any) -> Feature | None:
    design = design_of(from_frame(table), Choices("y", **choices), "linear", held_out)
    return next((feature for feature in design.features if feature.name == name), None)


@pytest.mark.parametrize("others", ["without a target", "held out"])
def test_a_number_that_few_training_rows_vary_in_leaves_though_other_rows_have_values(others: str) -> None:
    table, held_out = varying_elsewhere(others)
    assert feature_of(table, "titre", held_out, rare=5) is None
    # one row more has it, and it stays; without a release in sight it does anyway, as a number of few values
    assert feature_of(table, "titre", held_out, rare=4) is not None
    kept = feature_of(table, "titre", held_out)
    assert kept is not None
    assert kept.few


def test_a_number_that_few_people_vary_in_leaves_however_many_values_their_rows_have() -> None:
    rng = np.random.default_rng(3)
    people, visits = 40, 6
    who = np.repeat(np.arange(people), visits)
    titre = np.where(who < 4, np.arange(who.size) + 1.0, 0.0)
    table = pandas.DataFrame(
        {"age": rng.normal(50, 9, who.size), "titre": titre, "who": who, "y": rng.normal(size=who.size)}
    )
    assert feature_of(table, "titre", rare=5, person="who") is None
    assert feature_of(table, "titre", rare=4, person="who") is not None
    assert feature_of(table.assign(titre=np.where(who < 5, titre, 0.0) + (who == 4)), "titre", rare=5, person="who")


# a number of nearly three to ten values is no number of many


def coded(count: int, rows: int = 300) -> Vector:
    return np.random.default_rng(5).integers(0, count, rows).astype(np.float64)


@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_values_that_are_nearly_a_few_are_counted(count: int) -> None:
    rng = np.random.default_rng(6)
    plain = coded(count)
    shaken = plain + rng.uniform(-0.004, 0.004, plain.size)
    with_others = np.concatenate([plain, [0.4, 1.7, 40.0, -9.0]])
    for values in (plain, 7.0 + 250.0 * shaken, with_others):
        assert nearly_values(values) == count
    assert nearly_values(np.concatenate([plain, np.arange(20.0, 40.0)])) == 0


def test_ordinary_numbers_are_not_nearly_a_few() -> None:
    rng = np.random.default_rng(7)
    for values in (
        rng.normal(size=300),
        np.exp(3.0 * rng.normal(size=300)),
        rng.integers(18, 90, 300).astype(np.float64),
        coded(11),
        plain_and_shaken(0.2),
        rng.normal(size=12),
        np.full(50, 3.0),
        np.empty(0),
    ):
        assert nearly_values(values) == 0


def plain_and_shaken(by: float) -> Vector:
    return coded(3) + np.random.default_rng(8).uniform(-by, by, 300)


@pytest.mark.parametrize("column", ["copies", "y"])
def test_a_number_of_nearly_three_values_is_refused_under_a_policy(gate: Gate, column: str) -> None:
    rng = np.random.default_rng(9)
    table = pandas.DataFrame({"age": rng.normal(50, 12, 300).round(1), "copies": rng.normal(size=300).round(3)})
    table["y"] = (20.0 + 0.3 * table["age"] + rng.normal(0, 4, 300)).round(2)
    table[column] = plain_and_shaken(0.004).round(4)
    policy = f'[columns."{column}"]\nmax_revealed = 0.75\n'
    status, said, _ = gate(table, policy, "--noise", "1")
    assert status == 2
    assert "rows have one of 3 values" in said
