"""A value that stands in several rows of a person, rows that are written several times, and steps between values.

All are held against fits of the whole model again, with the value moved in all rows of the person at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas

import fisherleak as fl
from fisherleak._support.grids import GAP
from fisherleak.auditing.exposure.moves_between_values import value_steps
from fisherleak.auditing.run import audit
from fisherleak.cli import main
from fisherleak.leakage.measurement import measurement
from fisherleak.tables import from_frame
from fisherleak.training.people import column_etas, joint_etas, rows_by_person
from fisherleak.training.trained_model import Settings, Trained, spreads_in, train
from often import often
from refits import minimise_scaled

BOUNDS = (("height", (120.0, 220.0)), ("dose", (-20.0, 130.0)), ("lab", (-5.0, 15.0)), ("flag", (0.0, 1.0)))


def panel(kind: str, people: int = 24) -> Any:
    """One to four rows of each: constant and varying columns, copies of rows, missing cells, a category and a yes or no."""
    rng = np.random.default_rng(3)
    who = np.repeat(np.arange(people), rng.integers(1, 5, people))
    n, height = who.size, rng.normal(170, 10, people).round()
    frame = pandas.DataFrame(
        {
            "pid": [f"p{k:02d}" for k in who],
            "height": height[who],
            "dose": rng.normal(50, 15, n).round(-1),
            "lab": rng.normal(5, 2, n).round(1),
            "flag": np.where(rng.random(n) < 0.2, 1 - who % 2, who % 2),
            "city": np.where(rng.random(n) < 0.3, "Chur", np.array(["Bern", "Basel"])[who // 2 % 2]),
        }
    )
    score = (frame.height - 170) / 10 + (frame.dose - 50) / 15 + frame.flag + rng.normal(0, 1, n)
    cut = np.digitize(score, np.quantile(score, [1 / 3, 2 / 3]))
    frame["y"] = {
        "linear": score.round(2),
        "logistic": np.where(score > 0.5, "yes", "no"),
        "softmax": np.array(["low", "middle", "high"])[cut],
        "poisson": np.rint(np.exp(np.clip(score / 2, -2, 2))).astype(int),
    }[kind]
    frame.loc[::9, "lab"] = np.nan
    return pandas.concat([frame, frame[who % 5 == 0]])  # some have every row twice


def trained_with(kind: str, frame: pandas.DataFrame | None = None, **given: Any) -> Trained:
    bounds = (*BOUNDS, ("y", (-9.0, 9.0))) if kind == "linear" else BOUNDS
    own: dict[str, Any] = {"model": kind, "person": "pid", "held_out": 0.0, "bounds": bounds, "l2": 0.05} | given
    return train(from_frame(panel(kind) if frame is None else frame), Settings("y", **own))


def rows_of(trained: Trained) -> Any:
    assert trained.design.people is not None
    return rows_by_person(trained.design.people)


def refitted(trained: Trained, X: Any, y: Any) -> Any:
    """The parameters where the noise acts, with other values: scales in the penalty and the model are fitted again."""
    design, scales = trained.design, spreads_in(trained.design)[1]
    numbers = [k for feature in design.features if feature.kind == "number" for k in feature.columns]
    scales[numbers] = X[:, numbers].std(axis=0)
    classes = design.target.classes if trained.kind.several else None
    return minimise_scaled(X, y, trained.kind.loss, trained.l2, None, True, scales, classes).theta


def slope(trained: Trained, rows: Any, column: int | None, step: float = 1e-4) -> Any:
    """What a move of a column of some rows at once, or of their labels, does to the parameters: central differences."""
    ends = []
    for by in (step, -step):
        X, y = np.array(trained.design.X, dtype=float), np.array(trained.design.y)
        if column is None:
            y[rows] += by
        else:
            X[rows, column] += by
        ends.append(refitted(trained, X, y))
    return (ends[0] - ends[1]) / (2.0 * step)


def jacobians(trained: Trained, rows: Any, columns: tuple[int, ...] | None) -> tuple[Any, Any]:
    """Of one attribute (or the label) of a person: every cell by itself, and the cells of each value at once."""
    X = np.asarray(trained.design.X)
    values = np.asarray(trained.design.y)[:, None] if columns is None else X[:, list(columns)]
    there = [row for row in rows if GAP not in values[row]]
    same = [[row for row in there if (values[row] == value).all()] for value in np.unique(values[there], axis=0)]
    each = [None] if columns is None else list(columns)
    sets = ([[row] for row in there], same)
    alone, tied = (np.stack([slope(trained, own, j) for own in some for j in each], axis=1) for some in sets)
    return alone, tied


@pytest.mark.parametrize("kind", often(["linear", "logistic", "softmax"]))
def test_etas_of_people_are_those_of_fits_with_their_values_moved_in_all_rows(kind: str) -> None:
    trained = trained_with(kind)
    people = trained.design.people
    assert people is not None
    sets, attributes = rows_by_person(people), measurement(trained.leak).information.attributes
    found, whole = column_etas(trained, sets), trained.each_eta()
    chosen = [k for k in (0, 3, 5) if len(sets[k]) > 1][: 2 if kind == "softmax" else 3]
    grown = False
    for k in chosen:
        label = [None] if kind == "linear" else []
        parts = [jacobians(trained, sets[k], each) for each in [*(a.columns for a in attributes), *label]]
        norms = np.array([[np.linalg.norm(side, 2) for side in part] for part in parts])
        np.testing.assert_allclose(found[k, : len(norms)], norms.max(axis=1), rtol=2e-4)
        grown |= bool(np.any(norms[:, 1] > 1.3 * norms[:, 0]))
        if label:
            sides = [np.linalg.norm(np.concatenate(side, axis=1), 2) for side in zip(*parts, strict=True)]
            assert whole[k] == pytest.approx(max(sides), rel=2e-4)
    assert grown  # ties matter here


@pytest.mark.parametrize("times", [2, 5])
def test_rows_written_several_times_are_the_rows_once(times: int) -> None:
    frame = panel("linear").drop_duplicates("pid").dropna()
    once, often = (trained_with("linear", pandas.concat([frame] * k)) for k in (1, times))
    np.testing.assert_allclose(often.each_eta(), once.each_eta(), rtol=1e-7)
    one, other = (column_etas(each, rows_of(each)) for each in (once, often))
    np.testing.assert_allclose(other, one, rtol=1e-7)
    groups = [np.zeros(each.design.n, dtype=np.int64) for each in (once, often)]
    ((one,), columns), ((other,), others) = (joint_etas(*each, 1) for each in zip((once, often), groups, strict=True))
    assert other == pytest.approx(one, rel=1e-7)
    np.testing.assert_allclose(others, columns, rtol=1e-7)


def test_copies_with_other_digits_are_tied_too() -> None:
    frame = panel("linear").drop_duplicates("pid").dropna()
    often = pandas.concat([frame] * 6)
    rng = np.random.default_rng(0)
    for name in ("height", "dose", "lab", "y"):
        often[name] += rng.uniform(-1e-5, 1e-5, len(often))
    assert trained_with("linear", often).each_eta().max() == pytest.approx(
        trained_with("linear", frame).each_eta().max(), rel=1e-3
    )


def test_a_bound_stands_for_what_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = trained_with("linear")
    assert trained.design.people is not None
    groups = np.asarray(trained.design.people.of_row) % 2
    exact = joint_etas(trained, groups, 2)
    monkeypatch.setattr("fisherleak.engine.norms.tied_cells.MOST_WORK", 0)
    for bound, own in zip(joint_etas(trained, groups, 2), exact, strict=True):
        assert np.all(bound >= own * (1 - 1e-12))


def test_people_in_python_are_those_of_the_command_line() -> None:
    trained = trained_with("linear")
    people = trained.design.people
    assert people is not None
    leak = trained.leak
    np.testing.assert_allclose([*leak.by_person(people.of_row).values()], trained.each_eta())
    assert max(leak.by_person(people.of_row).values()) > 1.2 * max(leak.by_group(people.of_row).values())
    for shape in (None, "least-loss"):
        noise = fl.calibrate(leak, 0.2, over="person", groups=people.of_row, shape=shape)
        largest = max(leak.with_noise(noise).by_person(people.of_row).values())
        assert 0.2 * (1 - 1e-6) <= largest <= 0.2


def test_noise_that_the_data_shape_has_a_bound() -> None:
    rng = np.random.default_rng(0)
    X, y = np.repeat(rng.normal(size=(12, 2)), 3, axis=0), np.repeat(rng.normal(size=12), 3)
    leak = fl.measure(fl.minimise(X, y, l2=0.1), X, y, noise=fl.Posterior(1.0))
    who = np.arange(36) // 3
    alone, tied = leak.by_group(who), leak.by_person(who)
    assert all(tied[k] == pytest.approx(3**0.5 * alone[k]) for k in alone)


# on the command line


@pytest.fixture
def gate(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def run(table: pandas.DataFrame, policy: str, *options: str, target: str = "y") -> tuple[int, dict[str, Any]]:
        Path("policy.toml").write_text(policy, encoding="utf-8")
        table.to_csv("t.csv", index=False)
        capsys.readouterr()
        line = [
            "audit",
            "t.csv",
            "--target",
            target,
            "--policy",
            "policy.toml",
            "--held-out",
            "0",
            "--json",
            "--no-attacks",
        ]
        status = main([*line, *options])
        return status, {rule["rule"]: rule for rule in json.loads(capsys.readouterr().out)["policy"]["rules"]}

    return run


LINE = [
    part for name, ends in (*BOUNDS, ("y", (-9.0, 9.0))) for part in ("--bounds", f"{name}={ends[0]:g}:{ends[1]:g}")
]


def test_a_policy_on_people_is_not_passed_by_writing_rows_again(gate: Callable[..., Any]) -> None:
    frame = panel("linear", 40).drop_duplicates("pid").dropna()
    policy = (
        "[rows]\nmax_eta = 1\n[columns.height]\nmin_error = 30\nmax_eta = 0.03\n[label]\nmin_error = 5\n[groups]\nmax_eta_joint = 2\n"
        '[require]\nperson = "pid"\ntarget = "y"\nmodel = "linear"\ngroup = "city"\nbounds = true\n'
    )
    options = ["--model", "linear", "--person", "pid", "--noise", "0.5", "--group", "city", *LINE]
    found = [gate(pandas.concat([frame] * k), policy, *options) for k in (1, 16)]
    assert [status for status, _ in found] == [1, 1]
    (_, once), (_, often) = found
    for name in ("rows.max_eta", "columns.height.min_error", "columns.height.max_eta", "label.min_error"):
        assert not once[name]["passed"]
        assert often[name]["value"] == pytest.approx(once[name]["value"], rel=1e-6)
    assert often["groups.max_eta_joint"]["value"] == pytest.approx(once["groups.max_eta_joint"]["value"], rel=1e-6)


def test_a_limit_on_a_release_of_people_is_not_met_by_writing_rows_again() -> None:
    frame = panel("linear", 40).drop_duplicates("pid").dropna()
    own = Settings("y", person="pid", model="linear", held_out=0.0, bounds=(*BOUNDS, ("y", (-9.0, 9.0))))
    scales = [audit(pandas.concat([frame] * k), own, eta=0.5, attacks=False, draws=2).noise.scale for k in (1, 9)]
    assert scales[1] == pytest.approx(scales[0], rel=1e-6)


# the step from one of two values to the other


def step_of(trained: Trained, rows: Any, column: int) -> float:
    X = np.array(trained.design.X, dtype=float)
    two = np.unique(X[X[:, column] != GAP, column])
    X[rows, column] = two.sum() - X[rows, column]
    return float(np.linalg.norm(refitted(trained, X, trained.design.y) - trained.fit.theta))


@pytest.mark.parametrize("kind", often(["linear", "logistic", "softmax", "poisson"]))
def test_steps_are_those_of_fits_with_the_other_value(kind: str) -> None:
    frame = panel(kind).drop(columns="pid").drop_duplicates()
    frame.loc[frame.city == "Chur", "city"] = "Bern"  # a category of two
    trained = trained_with(kind, frame, person=None)
    found = value_steps(trained, ["flag", "city", "height"])
    assert sorted(found) == ["city", "flag"]
    for name, steps in found.items():
        (column,) = next(f.columns for f in trained.design.features if f.name == name)
        true = np.array([step_of(trained, [row], column) for row in range(trained.design.n)])
        assert steps.worst == (int(true.argmax()),)
        assert steps.moves.max() == pytest.approx(true.max(), rel=1e-5)
        assert np.all(steps.moves >= true * (1 - 1e-6))
        assert np.all(steps.moves <= true * 1.03 + 1e-9)


def test_the_other_value_of_a_person_stands_in_all_rows_that_have_it() -> None:
    trained = trained_with("logistic")
    people = trained.design.people
    assert people is not None
    (column,) = next(f.columns for f in trained.design.features if f.name == "flag")
    moves, values = value_steps(trained, ["flag"])["flag"].moves, np.asarray(trained.design.X)[:, column]
    for k in range(8):
        rows = rows_by_person(people)[k]
        same = [rows[values[rows] == value] for value in np.unique(values[rows])]
        true = max(step_of(trained, own, column) for own in (*same, *rows[:, None]))
        assert true * (1 - 1e-6) <= moves[k] <= true * 1.03


@pytest.mark.long
def test_a_policy_limits_the_step_and_not_its_derivative(gate: Callable[..., Any]) -> None:
    rng = np.random.default_rng(3)
    flag, a = (rng.random(200) < 0.4).astype(int), rng.normal(0, 0.6, 200)
    a = (np.where(flag == 1, -1.5, 1.0) + a).round(3)
    frame = pandas.DataFrame({"flag": flag, "a": a, "y": rng.poisson(np.exp(0.5 + 0.8 * a + 2.2 * flag))})
    policy = '[columns.flag]\nmax_eta = 1\n[require]\ntarget = "y"\nmodel = "poisson"\n'
    bounds = (("flag", (0.0, 1.0)), ("a", (-5.0, 5.0)))
    trained = train(from_frame(frame), Settings("y", model="poisson", held_out=0.0, bounds=bounds))
    (column,) = next(f.columns for f in trained.design.features if f.name == "flag")
    true = max(map(partial(step_of, trained, column=column), np.arange(200)[:, None]))
    status, rules = gate(
        frame, policy, "--model", "poisson", "--noise", f"{0.95 * true}", "--bounds", "flag=0:1", "--bounds", "a=-5:5"
    )
    assert status == 1
    assert rules["columns.flag.max_eta"]["value"] == pytest.approx(1 / 0.95, rel=1e-4)
    assert "per step" in rules["columns.flag.max_eta"]["note"]
    derivative = float(np.asarray(trained.leak.per_cell())[:, column].max()) / trained.design.features[column].scale
    assert derivative / (0.95 * true) < 1  # with it the rule would have passed


def test_a_step_that_is_not_known_fails(gate: Callable[..., Any]) -> None:
    frame = panel("linear").drop(columns="pid").drop_duplicates()
    policy = '[columns.flag]\nmax_eta = 100\n[require]\ntarget = "y"\nmodel = "linear"\n'
    options = ["--model", "linear", "--noise", "0.5", *LINE]
    assert gate(frame, policy, *options)[0] == 0
    status, rules = gate(frame, policy, *options, "--memory", "1KB")
    assert status == 1
    assert "is not known" in rules["columns.flag.max_eta"]["note"]


# the step from one category, or class, to another


def other_fits(trained: Trained, name: str, rows: Any) -> float:
    """How far fits move at most with another category, or class, in some rows at once."""
    X, y = np.asarray(trained.design.X, dtype=float), np.asarray(trained.design.y)
    feature = next((f for f in trained.design.features if f.name == name), None)
    values = np.unique(y) if feature is None else np.eye(len(feature.columns) + 1)[:, 1:]
    found = [0.0]
    for value in values:
        others, labels = X.copy(), y.copy()
        if feature is None:
            labels[rows] = value
        else:
            others[np.ix_(rows, feature.columns)] = value
        if not (np.array_equal(X, others) and np.array_equal(y, labels)):
            found.append(float(np.linalg.norm(refitted(trained, others, labels) - trained.fit.theta)))
    return max(found)


@pytest.mark.parametrize(
    ("kind", "names"), [("logistic", ["city", "y"]), ("softmax", ["city", "y"]), ("linear", ["city"])]
)
def test_steps_of_categories_and_classes_are_those_of_fits_with_another(kind: str, names: list[str]) -> None:
    trained = trained_with(kind, panel(kind).drop(columns="pid").drop_duplicates(), person=None)
    assert len(next(f.columns for f in trained.design.features if f.name == "city")) == 2  # three cities
    found = value_steps(trained, ["city", "y"])
    assert sorted(found) == names  # a number has no such step
    for name, steps in found.items():
        some = [*range(0, trained.design.n, 4), *steps.worst]
        true = np.array([other_fits(trained, name, [row]) for row in some])
        assert steps.moves[steps.worst] == pytest.approx(true.max(), rel=1e-5)
        assert np.all(steps.moves[some] >= true * (1 - 1e-6))
        assert np.all(steps.moves[some] <= true * 1.03 + 1e-9)


@pytest.mark.parametrize(("kind", "name"), [("logistic", "y"), ("softmax", "y"), ("logistic", "city")])
def test_another_class_of_a_person_stands_in_all_rows_that_have_it(kind: str, name: str) -> None:
    trained = trained_with(kind)
    people, X = trained.design.people, np.asarray(trained.design.X)
    assert people is not None
    feature = next((f for f in trained.design.features if f.name == name), None)
    values = np.asarray(trained.design.y)[:, None] if feature is None else X[:, list(feature.columns)]
    moves = value_steps(trained, [name])[name].moves
    assert moves.shape == (people.count,)
    for k in range(6):
        rows = rows_by_person(people)[k]
        same = [rows[(values[rows] == value).all(axis=1)] for value in np.unique(values[rows], axis=0)]
        true = max(other_fits(trained, name, own) for own in (*same, *rows[:, None]))
        assert true * (1 - 1e-6) <= moves[k] <= true * 1.03


def newton_fit(X: Any, y: Any, l2: float, scales: Any) -> Any:
    """A logistic model without any code of the product; the intercept is last and free."""
    rows, theta = np.column_stack([X, np.ones(len(X))]), np.zeros(X.shape[1] + 1)
    penalty = len(X) * l2 * np.append(scales**2, 0.0)

    def risk(theta: Any) -> float:
        z = rows @ theta
        return float(np.sum(np.logaddexp(0, z) - y * z) + 0.5 * np.sum(penalty * theta**2))

    for _ in range(200):
        p = 1 / (1 + np.exp(-rows @ theta))
        step = np.linalg.solve((rows.T * (p * (1 - p))) @ rows + np.diag(penalty), rows.T @ (p - y) + penalty * theta)
        part = 1.0
        while risk(theta - part * step) > risk(theta) + 1e-12 and part > 1e-8:
            part /= 2
        theta = theta - part * step
    return theta


@pytest.mark.long
def test_a_policy_limits_the_move_to_the_other_class_and_not_its_derivative(gate: Callable[..., Any]) -> None:
    """One wrong diagnosis among classes that a marker separates: the derivative is a ninth of the move."""
    rng = np.random.default_rng(7)
    marker = (np.where(rng.random(120) < 0.5, -1, 1) * rng.uniform(0.3, 3, 120)).round(3)
    age, sick = rng.normal(0, 1, 120).round(3), (marker > 0).astype(float)
    marker[0], sick[0] = 6, 0
    frame = pandas.DataFrame({"marker": marker, "age": age, "sick": np.where(sick == 1, "yes", "no")})
    X = np.column_stack([marker / (24 / 12**0.5), age / (12 / 12**0.5)])
    other = np.where(np.arange(120) == 0, 1.0, sick)
    move = np.linalg.norm(np.subtract(*(newton_fit(X, labels, 1e-5, X.std(axis=0)) for labels in (sick, other))))
    assert move / 8 == pytest.approx(7.777, rel=1e-3)
    policy = '[label]\nmax_eta = 1\n[columns.sick]\nmax_eta = 9\n[require]\ntarget = "sick"\nmodel = "logistic"\n'
    line = ["--model", "logistic", "--l2", "1e-5", "--noise", "8", "--bounds", "marker=-12:12", "--bounds", "age=-6:6"]
    status, rules = gate(frame, policy, *line, target="sick")
    assert status == 1
    rule = rules["label.max_eta"]
    assert rule["value"] == pytest.approx(move / 8, rel=1e-4)
    assert rule["note"] == (
        "The eta of anyone's 'sick' is at most 7.78; limit 1, per step from one value to another; the rule fails for 1 person."
    )


@pytest.mark.long
def test_a_step_to_another_class_that_is_not_known_fails(gate: Callable[..., Any]) -> None:
    frame = panel("logistic").drop(columns="pid").drop_duplicates()
    policy = '[label]\nmax_eta = 1000\n[require]\ntarget = "y"\nmodel = "logistic"\n'
    options = ["--model", "logistic", "--noise", "0.5", *LINE[:-2]]
    assert gate(frame, policy, *options)[0] == 0
    status, rules = gate(frame, policy, *options, "--memory", "1KB")
    assert status == 1
    assert rules["label.max_eta"]["note"].startswith(
        "How far the release moves with another value of 'y' is not known: "
    )


def test_a_class_of_one_person_has_no_step() -> None:
    frame = panel("logistic")
    frame["y"] = np.where(frame.pid == "p07", "yes", "no")
    (steps,) = value_steps(trained_with("logistic", frame), ["y"]).values()
    assert steps.worst == ()
    assert "no one else has their label" in steps.unknown


@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_labels_of_people_with_one_row_are_those_of_the_row(kind: str) -> None:
    """Of several classes too, whose labels have several directions."""
    trained = trained_with(kind)
    people = trained.design.people
    assert people is not None
    sets, own = rows_by_person(people), np.asarray(trained.leak.per_label())
    found = column_etas(trained, sets)[:, -1]
    single = [k for k, rows in enumerate(sets) if rows.size == 1]
    np.testing.assert_allclose(found[single], [own[sets[k][0]] for k in single], rtol=1e-9)
    assert all(found[k] >= own[rows].max() * (1 - 1e-9) for k, rows in enumerate(sets))
