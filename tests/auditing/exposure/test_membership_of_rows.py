"""Membership in audits: against fits without a row, in every file, and refused where there is no closed form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pandas
from scipy.linalg import sqrtm
from scipy.stats import multivariate_normal, norm

import fisherleak as fl
from fisherleak.auditing import Settings, audit
from fisherleak.auditing.exposure.membership_of_rows import membership_figures, told_at
from fisherleak.auditing.policy.policy import policy_of
from fisherleak.auditing.records import Plan
from fisherleak.auditing.run import audit_trained
from fisherleak.engine.changes import removal_steps
from fisherleak.engine.changes.removal import CLOSE, EXACT
from fisherleak.releasing.files.released_files import load_model, retrain, save_model
from fisherleak.report.outputs import write_outputs
from fisherleak.report.render import render
from fisherleak.report.summarise import summarise
from fisherleak.tables import Room, from_frame
from fisherleak.training.trained_model import train
from often import often
from refits import moved_without


def bounds_for(kind: str) -> Any:
    """Of all numbers, so that no row moves a scale or a centre."""
    known = {"age": (0.0, 120.0), "weight": (0.0, 150.0), "income": (-5e4, 2e5)}
    return tuple(item for item in known.items() if item[0] != "income" or kind == "linear")


@pytest.mark.parametrize("public", often(["nothing", "preprocessing"]))
@pytest.mark.parametrize("kind", ["linear", "logistic", "softmax"])
def test_figures_are_those_of_fits_without_a_row(
    kind: str, public: str, table_for: Any, target_for: Any, tmp_path: Path
) -> None:
    settings = Settings(target_for(kind), kind, l2=0.1, held_out=0.0, public=public, bounds=bounds_for(kind))
    result = audit(table_for(kind).head(80), settings, noise=0.5, draws=4, attacks=False)
    mu = np.array([moved_without(result.trained, row) for row in range(result.design.n)]) / result.unit_scale
    np.testing.assert_allclose(result.membership.mu / result.unit_scale, mu, rtol=1e-3)
    summary = summarise(result)
    found, worst = summary["membership"], int(mu.argmax())
    assert found["rows"][0]["row"] == result.design.rows[worst]
    assert found["rows"][0]["accuracy"] == found["accuracy_max"] == pytest.approx(norm.cdf(mu.max() / 2), rel=1e-3)
    assert found["rows"][0]["auc"] == pytest.approx(norm.cdf(mu.max() / np.sqrt(2)), rel=1e-3)
    assert found["rows"][0]["found"] == pytest.approx(norm.cdf(norm.ppf(0.01) + mu.max()), rel=5e-3)
    assert found["accuracy_mean"] == pytest.approx(norm.cdf(mu / 2).mean(), rel=1e-3)
    assert found["count"] == np.sum(norm.cdf(mu / 2) >= 0.6)
    write_outputs(result, summary, tmp_path / "out")
    np.testing.assert_allclose(pandas.read_parquet(tmp_path / "out" / "leakage.parquet")["membership"], mu, rtol=1e-3)
    assert "Membership: who is in the data" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("ruled", [False, True])
def test_a_rule_decides_by_the_finest_setting_and_all_else_shows_less(
    ruled: bool, table_for: Any, target_for: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for each audit: what decides is not computed beside what is shown."""
    asked = []

    def counted(leak: fl.Leakage, tolerance: float = 0.0) -> Any:
        asked.append(tolerance)
        return membership(leak, tolerance)

    membership = fl.Leakage.membership
    monkeypatch.setattr(fl.Leakage, "membership", counted)
    settings = Settings(target_for("logistic"), "logistic", l2=0.1, held_out=0.0)
    policy = policy_of({"membership": {"max_right": 0.6}} if ruled else {"rows": {"max_eta": 1.0}})
    audit(table_for("logistic"), settings, noise=0.5, draws=4, attacks=False, policy=policy)
    assert asked == [EXACT if ruled else CLOSE]


def test_tables_with_more_columns_than_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scales of few rows move much without one: still by products alone, and exact."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, size=(30, 90))
    table = pandas.DataFrame(X, columns=[f"g{j}" for j in range(90)]).assign(y=X[:, 0] + rng.normal(size=30))
    bounds = tuple((str(name), (-50.0, 50.0)) for name in table)
    trained = train(from_frame(table), Settings("y", held_out=0.0, l2=0.1, bounds=bounds))
    expected = np.array([moved_without(trained, row) for row in range(30)])
    np.testing.assert_allclose(membership_figures(trained, 1.0).mu, expected, rtol=1e-9)
    by_rounds = removal_steps._conjugate
    counts = []

    def counted(*given: Any) -> Any:
        moves, settled = by_rounds(*given)
        counts.append((int(settled.sum()), settled.size))
        return moves, settled & False

    monkeypatch.setattr(removal_steps, "_conjugate", counted)
    np.testing.assert_allclose(membership_figures(trained, 1.0).mu, expected, rtol=1e-9)
    assert sum(some for some, _ in counts) == sum(every for _, every in counts) == 30


def test_rows_that_are_read_part_by_part(people: Any) -> None:
    pytest.importorskip("dask.array")
    table = people[["age", "weight", "city", "income"]]
    here, away = (
        audit(table, Settings("income"), room, noise=500.0, draws=4, attacks=False) for room in (None, Room(1))
    )
    assert away.design.lazy
    one, two = (summarise(each)["membership"] for each in (here, away))
    assert [row["row"] for row in one["rows"]] == [row["row"] for row in two["rows"]]
    assert one["rows"][0]["mu"] == pytest.approx(two["rows"][0]["mu"], rel=1e-6)
    assert one["accuracy_mean"] == pytest.approx(two["accuracy_mean"], rel=1e-9)
    classes = audit(people[["age", "weight", "sick"]], Settings("sick"), Room(1), draws=4, attacks=False)
    assert summarise(classes)["membership"] is None
    assert "these are read part by part" in classes.membership.note


def test_where_it_is_not_known_that_is_said(people: Any) -> None:
    table = people[["age", "weight", "sick"]]
    result = audit(table, Settings("sick"), noise=fl.Laplace(0.5), draws=4, attacks=False)
    summary = summarise(result)
    assert summary["membership"] is None
    assert any("closed form for normal noise only" in sentence for sentence in summary["assumptions"])
    assert "Membership: who is in the data" not in render(summary)
    assert not membership_figures(result.trained, 1.0).measured


def test_a_row_that_is_told_for_certain_breaks_nothing() -> None:
    item = told_at(3, 1e100, 5.0)
    assert (item.right, item.auc, item.found) == (1.0, 1.0, 1.0)
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"x": rng.normal(size=80), "y": ["b"] * 79 + ["a"]})
    result = audit(table, Settings("y", held_out=0.0), draws=4, attacks=False)
    found = summarise(result)["membership"]
    assert found["rows"][0]["mu"] is None
    assert found["rows"][0]["accuracy"] == 1.0
    assert "is correct at most 100 % of the time" in render(summarise(result))


SHAPED = Settings("income", l2=0.1, held_out=0.0, rare=5)


def shaped_audit(folder: Path, table: pandas.DataFrame, **options: Any) -> Any:
    """The audit of a release whose noise has a shape of the table's own rows, held against a rule on membership."""
    pytest.importorskip("skops")
    bounds = {"age": (0.0, 100.0), "height": (145.0, 195.0), "income": (0.0, 90.0)} if "over" not in options else None
    given = {"eta": 0.5, "random_state": 0, "bounds": bounds, **options}
    save_model(from_frame(table), SHAPED, folder / "m.skops", **given)
    saved = load_model(folder / "m.skops")
    trained = retrain(saved, from_frame(table))
    rule = policy_of({"membership": {"max_right": 0.9999}})
    plan = Plan(noise=saved.noise_on(trained), attacks=False, draws=4, policy=rule)
    return audit_trained(trained, saved.settings, plan)


def incomes(n: int = 1500) -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, n).astype(float)
    height = 170.0 + rng.normal(0.0, 4.0, n) + 0.2 * (age - 54.0)
    income = 20.0 + 0.3 * age + rng.normal(0.0, 4.0, n)
    income[7] = 80.0
    return pandas.DataFrame({"age": age, "height": height, "income": income})


@pytest.mark.parametrize("shape", ["hessian", "least-loss"])
def test_shapes_of_the_rows_own_are_counted_in_figures_rules_and_files(shape: str, tmp_path: Path) -> None:
    table = incomes()
    result = shaped_audit(tmp_path, table, shape=shape)
    membership, trained, scale = result.membership, result.trained, result.unit_scale
    assert membership.kind == "equivalent"
    assert membership.top[0].auc is membership.top[0].found is None
    summary = summarise(result)
    assert summary["membership"]["kind"] == "equivalent"
    (rule,) = summary["policy"]["rules"]
    assert rule["value"] == summary["membership"]["accuracy_max"] == membership.top[0].right
    assert rule["noise"] is None
    assert "the best test knows the covariance with and without the row" in " ".join(summary["assumptions"])
    assert "–" in render(summary)
    # least squares without the row, whose penalty follows the columns' standard deviations, in the same public frame
    X, y, row, n = trained.design.X, trained.design.y, membership.top[0].row, trained.design.n

    def known(rows: Any) -> tuple[Any, Any]:
        A = np.column_stack([X[rows], np.ones(len(rows))])
        G = A.T @ A + 0.1 * len(rows) * np.diag([*X[rows].var(axis=0), 0.0])
        return np.linalg.solve(G, A.T @ y[rows]), G

    (own, G), (other, G0) = known(np.arange(n)), known(np.delete(np.arange(n), row))
    S, S0 = trained.leak.noise.shape, np.linalg.inv(G0)
    if shape == "least-loss":
        N = G @ S @ G @ S @ G
        root = np.real(sqrtm(G0))
        back = np.linalg.inv(root)
        S0 = S0 @ root @ np.real(sqrtm(back @ N @ back)) @ root @ S0
    laws = multivariate_normal(own, scale**2 * S), multivariate_normal(other, scale**2 * S0)
    rng, right = np.random.default_rng(0), 0.0
    for k in (0, 1):
        drawn = laws[k].rvs(200_000, random_state=rng)
        right += 0.5 * float(np.mean(laws[k].logpdf(drawn) > laws[1 - k].logpdf(drawn)))
    assert right == pytest.approx(membership.top[0].right, abs=0.005)


def test_where_the_shape_cannot_be_made_anew_a_rule_fails_and_everything_says_why(tmp_path: Path) -> None:
    result = shaped_audit(tmp_path, incomes(300), over="max", shape="least-loss")
    why = "Whether someone is in the table is not known: its covariance, shape='least-loss', was computed from the rows"
    assert not result.membership.measured
    assert result.membership.note.startswith(why)
    summary = summarise(result)
    (rule,) = summary["policy"]["rules"]
    assert not rule["passed"]
    assert rule["value"] is None
    assert rule["note"].startswith(why)
    assert summary["membership"] is None
    assert any(sentence.startswith(why) for sentence in summary["assumptions"])
    assert any(sentence.startswith(why) for sentence in result.warnings)
    assert "is not known: its covariance" in render(summary)
