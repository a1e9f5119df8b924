"""Ways to pass a rule on membership: by the penalty that leaves with a row, and by what one row settles about a column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks_on_us.under_policy import judged, write_table_and_policy

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas
from scipy.stats import norm

import fisherleak as fl
from fisherleak.auditing.exposure.membership_of_rows import membership_figures, told_by_names
from fisherleak.engine.changes.remade_covariance import FromGram
from fisherleak.engine.changes.removal import removal_norms
from fisherleak.leakage.measurement import measurement
from fisherleak.tables import Choices, design_of, from_frame
from fisherleak.training.trained_model import Settings, train
from refits import moved_without

Gate = Callable[..., tuple[int, str, dict[str, Any]]]
MEMBERS = "[membership]\nmax_right = 0.6\n"


@pytest.fixture
def gate(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Runs an audit under a policy: the exit status, what was said on standard error, and the rules by name."""
    monkeypatch.chdir(tmp_path)

    def run(table: pandas.DataFrame, policy: str, *options: str) -> tuple[int, str, dict[str, Any]]:
        write_table_and_policy(table, policy, sep=";")
        return judged(capsys, "--target", "y", "--held-out", "0", "--no-attacks", *options)

    return run


# the penalty is per row: without a row it is that of the others


def alike(rows: int = 200, columns: int = 8) -> pandas.DataFrame:
    """Columns that mostly agree with the target, and one person who is unlike all others."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, 2, rows)
    X = np.column_stack([np.where(rng.random(rows) < 0.04, 1 - y, y) for _ in range(columns)])
    X[0] = 1 - y[0]
    return pandas.DataFrame(X, columns=[f"s{j}" for j in range(columns)]).assign(y=y)


def own_logistic(table: pandas.DataFrame, l2: float, low: float, high: float) -> Any:
    """A release's parameters per width of the bounds over the root of 12, by Newton's method on standardised columns."""
    X, y = table.drop(columns="y").to_numpy(float), table["y"].to_numpy(float)
    mean, spread = X.mean(axis=0), X.std(axis=0)
    Z = np.column_stack([(X - mean) / spread, np.ones(len(y))])
    D, theta = np.diag([l2] * X.shape[1] + [0.0]), np.zeros(Z.shape[1])
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-Z @ theta))
        H = (Z * (p * (1 - p))[:, None]).T @ Z / len(y) + D
        theta = theta - np.linalg.solve(H, Z.T @ (p - y) / len(y) + D @ theta)
    raw = theta[:-1] / spread
    return np.append(raw * (high - low) / 12**0.5, theta[-1] + raw @ (0.5 * (low + high) - mean))


def test_a_rule_on_membership_compares_with_a_release_without_the_row(gate: Gate) -> None:
    table, noise = alike(), 0.095
    bounds = [part for j in range(8) for part in ("--bounds", f"s{j}=-50:51")]
    status, _, rules = gate(table, MEMBERS, "--model", "logistic", "--l2", "10", "--noise", str(noise), *bounds)
    whole, without = (own_logistic(each, 10.0, -50.0, 51.0) for each in (table, table.drop(0)))
    kept = own_logistic(table.drop(0), 10.0 * len(table) / (len(table) - 1), -50.0, 51.0)
    right = norm.cdf(0.5 * np.linalg.norm(without - whole) / noise)
    assert norm.cdf(0.5 * np.linalg.norm(kept - whole) / noise) < 0.6 < right  # what n l2 as it is would let pass
    assert status == 1
    assert rules["membership.max_right"]["value"] == pytest.approx(right, abs=1e-4)


def measured(kind: str, rows: int = 60) -> pandas.DataFrame:
    rng = np.random.default_rng(1)
    a, b = np.clip(rng.normal(size=(2, rows)), -3, 3).round(3)
    z = 0.5 * a - 0.4 * b
    y = {
        "linear": z + rng.normal(size=rows),
        "logistic": np.where(z + rng.logistic(size=rows) > 0, "yes", "no"),
        "softmax": np.array(["one", "two", "three"])[
            np.argmax(rng.normal(size=(rows, 3)) + z[:, None] * [1, 0, -1], 1)
        ],
        "poisson": rng.poisson(np.exp(z)),
        "gamma": rng.gamma(2.0, np.exp(z)) + 0.01,
    }[kind]
    who = np.concatenate([np.repeat(np.arange(10), 3), 10 + np.arange(rows - 30) // 2])
    return pandas.DataFrame({"a": a, "b": b, "city": rng.choice(["Bonn", "Kiel"], rows), "who": who, "y": y})


@pytest.mark.parametrize("public", ["nothing", "preprocessing"])
@pytest.mark.parametrize("kind", ["linear", "logistic", "poisson", "gamma", "softmax"])
def test_rows_and_people_leave_with_their_part_of_the_penalty(kind: str, public: str) -> None:
    ranges = {"linear": (-9.0, 9.0), "poisson": (0.0, 200.0), "gamma": (0.0, 200.0)}
    bounds = (("a", (-4.0, 4.0)), ("b", (-4.0, 4.0)), *([("y", ranges[kind])] if kind in ranges else []))
    own = Settings("y", kind, l2=0.3, held_out=0.0, public=public, bounds=bounds, drop=("who",))
    trained = train(from_frame(measured(kind)), own)
    mu = np.asarray(trained.leak.membership(1e-8))
    some = [0, 7, 31, 59]
    np.testing.assert_allclose(mu[some], [moved_without(trained, row) for row in some], rtol=1e-5)
    by_people = train(from_frame(measured(kind)), replace(own, drop=(), person="who"))
    assert by_people.design.people is not None
    sets = by_people.design.people.sets
    found = membership_figures(by_people, 1.0, 1e-8).mu
    np.testing.assert_allclose(
        found[[0, 3, 12, 24]], [moved_without(by_people, sets[k]) for k in (0, 3, 12, 24)], rtol=1e-5
    )


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_row_without_weight_takes_its_part_along_and_nobody_is_all(loss: str) -> None:
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(40, 3)), rng.uniform(0.5, 2.0, 40)
    y = X @ [1.0, -1.0, 0.5] + rng.normal(size=40)
    y, weights[3] = (y if loss == "squared" else (y > 0).astype(float)), 0.0
    fit = fl.minimise(X, y, loss, l2=0.2, sample_weight=weights, intercept=True)
    leak = fl.measure(replace(fit, per_row=True), X, y, noise=fl.Gaussian(1.0))
    rest = [np.delete(np.arange(40), row) for row in (3, 8)]
    fits = [fl.minimise(X[own], y[own], loss, l2=0.2, sample_weight=weights[own], intercept=True) for own in rest]
    expected = [np.linalg.norm(other.theta - fit.theta) for other in fits]
    assert expected[0] > 0
    np.testing.assert_allclose(np.asarray(leak.membership(1e-8))[[3, 8]], expected, rtol=1e-6)
    everyone = removal_norms(measurement(leak).jacobian, sets=[np.arange(40), np.array([8])])
    assert np.isinf(everyone[0])
    assert everyone[1] == pytest.approx(expected[1], rel=1e-6)


def test_noise_that_the_rows_shape_is_made_anew_with_the_penalty_of_the_others() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = X @ [1.0, -1.0, 0.5] + rng.normal(size=30)
    fit = replace(fl.minimise(X, y, l2=0.4), per_row=True)
    jacobian = measurement(fl.measure(fit, X, y)).jacobian
    shaped = FromGram.of_mechanism(jacobian, fl.Posterior(2.0))
    rows = np.array([4, 9])
    own = np.delete(X, rows, axis=0)
    direct = np.linalg.inv(own.T @ own + 28 * 0.4 * np.eye(3)) * shaped.scale**2
    np.testing.assert_allclose(shaped.covariances([rows])[0], shaped.white @ direct @ shaped.white.T, rtol=1e-9)
    assert not shaped.direct


# columns of text: how many texts make them names


def at_boundary(levels: int) -> pandas.DataFrame:
    """Twice as many rows as texts: ``levels - 2`` of one row, and two of as many as all others need."""
    rng, often = np.random.default_rng(1), (levels + 2) // 2
    c = ["a"] * often + ["b"] * (levels + 2 - often) + [f"z{k:03d}" for k in range(levels - 2)]
    x = np.clip(rng.normal(size=2 * levels), -4, 4).round(3)
    return pandas.DataFrame({"x": x, "c": c, "y": np.where(x + rng.normal(size=2 * levels) > 0, "yes", "no")})


@pytest.mark.parametrize("levels", [40, 60])
def test_twice_as_many_rows_as_texts(gate: Gate, levels: int) -> None:
    table = at_boundary(levels)
    assert len(table) == 2 * levels
    given = ("--model", "logistic", "--noise", "3", "--l2", "1", "--bounds", "x=-5:5")
    rules = gate(table, MEMBERS, *given)[2]
    assert rules["membership.max_right"]["value"] == 1.0
    assert "a release would leave 'c' out" in rules["membership.max_right"]["note"]
    design = design_of(from_frame(table), Choices("y", rare=5), "logistic", 0.0)
    told = np.isinf(told_by_names(design)[0])
    for row, single in ((0, False), (len(table) - 1, True)):
        rest = design_of(from_frame(table.drop(row)), Choices("y", rare=5), "logistic", 0.0)
        assert any(feature.name == "c" for feature in rest.features) == single
    assert told[: levels + 2].all()
    for remedy in ("--category", "--drop"):
        assert gate(table, MEMBERS, *given, remedy, "c")[0] == 0


@pytest.mark.parametrize("levels", [40, 60])
def test_a_column_that_would_be_used_without_one_row_is_refused_by_name(gate: Gate, levels: int) -> None:
    table = at_boundary(levels).drop(0)
    assert 2 * levels == len(table) + 1
    design = design_of(from_frame(table.iloc[:-1]), Choices("y", rare=5), "logistic", 0.0)
    assert any(feature.name == "c" for feature in design.features)
    given = ("--model", "logistic", "--noise", "3", "--l2", "1", "--bounds", "x=-5:5")
    status, said, _ = gate(table, MEMBERS, *given)
    assert status == 2
    assert "Without one row the column 'c' might be taken for something else" in said
    assert gate(table, MEMBERS, *given, "--drop", "c")[0] == 0
    assert "might be taken for something else" in gate(table, "[rows]\nmax_eta = 1000\n", *given)[1]


# decimal marks that a few cells settle


def amounts(odd: int = 1, rows: int = 80) -> pandas.DataFrame:
    """Amounts that are thousands but for a few cells that have a decimal comma."""
    rng = np.random.default_rng(2)
    values = rng.integers(10_000, 99_999, rows)
    cells = [f"{v // 1000},{v % 1000:03d}" for v in values]
    cells[:odd] = ["45,5"] * odd
    a = np.clip(rng.normal(size=rows), -4, 4).round(1)
    return pandas.DataFrame({"inc": cells, "a": a, "y": np.where(a + rng.normal(size=rows) > 0, "yes", "no")})


GIVEN = ("--model", "logistic", "--noise", "3", "--l2", "1", "--bounds", "inc=0:100", "--bounds", "a=-6:6")


@pytest.mark.parametrize("policy", [MEMBERS, "[columns.inc]\nmax_revealed = 0.5\n"])
def test_a_mark_that_one_cell_settles_is_refused_by_name(gate: Gate, policy: str) -> None:
    status, said, _ = gate(amounts(), policy, *GIVEN)
    assert status == 2
    assert (
        "A few cells (at most 5, or one row) decide whether the marks in the numbers of 'inc' are decimal marks" in said
    )
    stated = f'{policy}[require]\ndecimal = ","\n'
    assert gate(amounts(), stated, *GIVEN, "--decimal", ",")[0] == 0


def test_five_cells_are_a_few_and_six_are_not_but_for_one_person(gate: Gate) -> None:
    assert "A few cells (at most 5," in gate(amounts(5), MEMBERS, *GIVEN)[1]
    assert gate(amounts(6), MEMBERS, *GIVEN)[0] == 0
    owned = amounts(6).assign(who=[0] * 8 + [*range(1, 73)])
    required = f'{MEMBERS}[require]\nperson = "who"\n'
    assert "or the rows of one person) decide whether" in gate(owned, required, *GIVEN, "--person", "who")[1]


def test_a_mark_that_another_column_settles_is_refused_too(gate: Gate) -> None:
    """One table has one notation: columns that say nothing follow those that do."""
    table = amounts().assign(other=amounts(0)["inc"])
    status, said, _ = gate(table[["other", "inc", "a", "y"]], MEMBERS, *GIVEN, "--bounds", "other=0:100")
    assert status == 2
    assert "decide whether the marks in the numbers of 'other'" in said


def test_a_mark_that_one_cell_settles_is_said_without_a_policy_too() -> None:
    rng = np.random.default_rng(0)
    amounts = [f"{k},{rng.integers(100, 999)}" for k in range(1, 61)]
    for cell, said in (("5,5", True), ("5,555", False)):
        table = pandas.DataFrame({"a": [cell, *amounts], "y": np.arange(61) % 7 + 0.5})
        decided = " ".join(design_of(from_frame(table), Choices("y"), "linear", 0.0).decided)
        assert ("Only a few cells show whether marks in numbers are decimal marks" in decided) == said


def test_marks_that_no_cell_settles_and_rules_on_others_pass(gate: Gate) -> None:
    thousands = ("--model", "logistic", "--noise", "3", "--l2", "1", "--bounds", "inc=0:100000", "--bounds", "a=-6:6")
    assert gate(amounts(0), MEMBERS, *thousands)[0] == 0
    assert gate(amounts(), "[columns.a]\nmax_revealed = 0.5\n", *GIVEN)[0] == 0


# a last row that is the total of the others, or would be without one


@pytest.mark.parametrize("but", [None, 3])
def test_a_last_row_that_one_row_makes_a_total_is_refused(gate: Gate, but: int | None) -> None:
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(rng.uniform(1, 9, (30, 3)).round(2), columns=["a", "b", "y"])
    sums = (table if but is None else table.drop(but)).sum().round(2)
    table = pandas.concat([table, sums.to_frame().T], ignore_index=True)
    given = ("--model", "linear", "--noise", "900", "--l2", "1", *(f"--bounds={name}=0:400" for name in table))
    status, said, _ = gate(table, MEMBERS, *given)
    assert status == 2
    assert "Without one row other last rows might be taken for totals" in said
    assert gate(table.iloc[:-1], MEMBERS, *given)[0] == 0
    assert gate(table, MEMBERS, *given, "--keep-total")[0] in (0, 1)


def schools(values: int, rows: int = 126) -> pandas.DataFrame:
    """A number under a name of identifiers, of some values; the last row alone has the last of them."""
    rng = np.random.default_rng(2)
    own = np.append(np.arange(rows - 1) % (values - 1), values - 1)
    return pandas.DataFrame(
        {"school_id": own, "age": rng.integers(18, 90, rows), "y": rng.uniform(0, 80, rows).round(2)}
    )


@pytest.mark.parametrize("values", [20, 21])
def test_an_identifier_of_numbers_that_one_row_makes_a_feature_is_refused_by_name(gate: Gate, values: int) -> None:
    table, own = schools(values), ("--bounds", "age=0:100", "--bounds", "y=0:80", "--noise", "9")
    status, said, _ = gate(table, MEMBERS, *own)
    assert status == 2
    assert "the column 'school_id' might" in said
    assert gate(table, MEMBERS, *own, "--drop", "school_id")[0] == 0
    assert gate(table, MEMBERS, *own, "--number", "school_id", "--bounds", "school_id=0:40")[0] == 0
    numbered = table.assign(school_id=np.arange(len(table)))  # every row has its own: one less changes nothing
    assert gate(numbered, MEMBERS, *own)[0] == 0


def test_a_level_that_no_row_has_hides_no_copy(gate: Gate) -> None:
    rng = np.random.default_rng(3)
    sick = np.where(rng.random(120) < 0.4, "yes", "no")
    table = pandas.DataFrame({"smoker": sick, "age": rng.integers(18, 90, 120), "y": sick})
    own = ("--bounds", "age=0:100", "--noise", "2")
    policy = "[columns.smoker]\nmax_eta = 100\n"
    for options in ((), ("--levels", "smoker=no,unknown,yes")):
        status, said, _ = gate(table, policy, *own, *options)
        assert status == 2
        assert "'smoker' is a copy of 'y'" in said


def test_levels_that_no_row_has_hide_no_amounts(gate: Gate) -> None:
    rng = np.random.default_rng(4)
    wages = [f"{2000 + 50 * k} a month" for k in range(12)]
    table = pandas.DataFrame({"wage": rng.permutation(np.repeat(wages, 12)), "y": rng.normal(size=144).clip(-4, 4)})
    own, policy = ("--bounds", "y=-5:5", "--noise", "9"), "[columns.wage]\nmax_eta = 100\n"
    for made_up in ([], [f"made up {letter}" for letter in "abcdef"]):
        status, said, _ = gate(table, policy, *own, "--levels", f"wage={','.join([*wages, *made_up])}")
        assert status == 2
        assert "The categories of 'wage' differ in their digits only" in said


def test_rows_without_a_target_make_no_number_of_few_values_one_of_many(gate: Gate) -> None:
    rng = np.random.default_rng(5)
    table = pandas.DataFrame({"copies": rng.integers(0, 3, 120), "y": rng.normal(size=120).clip(-4, 4)})
    more = pandas.DataFrame({"copies": np.arange(3, 13), "y": np.nan})
    own, policy = (
        ("--bounds", "y=-5:5", "--bounds", "copies=0:12", "--noise", "9"),
        '[columns."*"]\nmax_attack = 0.9\nmax_revealed = 0.9\n',
    )
    for each in (table, pandas.concat([table, more], ignore_index=True)):
        _, _, rules = gate(each, policy, *own)
        assert "columns.copies.max_attack" in rules
