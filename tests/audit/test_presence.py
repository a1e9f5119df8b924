"""Presence in audits: against fits without a row, in every file, and refused where there is no closed form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pandas
from scipy.stats import norm

import fisherleak as fl
from fisherleak.audit import Settings, audit
from fisherleak.audit.model import train
from fisherleak.audit.policy import policy_of
from fisherleak.audit.presence import presence_of, told_at
from fisherleak.engine import left_out
from fisherleak.engine.removal import CLOSE, EXACT
from fisherleak.report.outputs import write_outputs
from fisherleak.report.render import render
from fisherleak.report.summarise import summarise
from fisherleak.tables import Room, from_frame
from refits import moved_without


@pytest.mark.parametrize("public", ["nothing", "preprocessing"])
@pytest.mark.parametrize("kind", ["linear", "logistic", "softmax"])
def test_figures_are_those_of_fits_without_a_row(
    kind: str, public: str, table_for: Any, target_for: Any, tmp_path: Path
) -> None:
    settings = Settings(target_for(kind), kind, l2=0.1, public=public)
    result = audit(table_for(kind), settings, noise=0.5, draws=4, attacks=False)
    mu = np.array([moved_without(result.trained, row) for row in range(result.design.n)]) / result.unit_scale
    np.testing.assert_allclose(result.presence.mu / result.unit_scale, mu, rtol=1e-3)
    summary = summarise(result)
    found, worst = summary["membership"], int(mu.argmax())
    assert found["rows"][0]["row"] == result.design.rows[worst]
    assert found["rows"][0]["right"] == found["right_max"] == pytest.approx(norm.cdf(mu.max() / 2), rel=1e-3)
    assert found["rows"][0]["auc"] == pytest.approx(norm.cdf(mu.max() / np.sqrt(2)), rel=1e-3)
    assert found["rows"][0]["found"] == pytest.approx(norm.cdf(norm.ppf(0.01) + mu.max()), rel=5e-3)
    assert found["right_mean"] == pytest.approx(norm.cdf(mu / 2).mean(), rel=1e-3)
    assert found["count"] == np.sum(norm.cdf(mu / 2) >= 0.6)
    write_outputs(result, summary, tmp_path / "out")
    np.testing.assert_allclose(pandas.read_parquet(tmp_path / "out" / "leakage.parquet")["membership"], mu, rtol=1e-3)
    assert "Who is in the table" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


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
    settings = Settings(target_for("logistic"), "logistic", l2=0.1)
    policy = policy_of({"membership": {"max_right": 0.6}} if ruled else {"rows": {"max_eta": 1.0}})
    audit(table_for("logistic"), settings, noise=0.5, draws=4, attacks=False, policy=policy)
    assert asked == [EXACT if ruled else CLOSE]


def test_tables_with_more_columns_than_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scales of few rows move much without one: still by products alone, and exact."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, size=(30, 90))
    table = pandas.DataFrame(X, columns=[f"g{j}" for j in range(90)]).assign(y=X[:, 0] + rng.normal(size=30))
    trained = train(from_frame(table), Settings("y", held_out=0.0, l2=0.1))
    expected = np.array([moved_without(trained, row) for row in range(30)])
    np.testing.assert_allclose(presence_of(trained, 1.0).mu, expected, rtol=1e-9)
    by_rounds = left_out._conjugate
    counts = []

    def counted(*given: Any) -> Any:
        moves, settled = by_rounds(*given)
        counts.append((int(settled.sum()), settled.size))
        return moves, settled & False

    monkeypatch.setattr(left_out, "_conjugate", counted)
    np.testing.assert_allclose(presence_of(trained, 1.0).mu, expected, rtol=1e-9)
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
    assert one["right_mean"] == pytest.approx(two["right_mean"], rel=1e-9)
    classes = audit(people[["age", "weight", "sick"]], Settings("sick"), Room(1), draws=4, attacks=False)
    assert summarise(classes)["membership"] is None
    assert "these are read part by part" in classes.presence.note


def test_where_it_is_not_known_that_is_said(people: Any) -> None:
    table = people[["age", "weight", "sick"]]
    result = audit(table, Settings("sick"), noise=fl.Laplace(0.5), draws=4, attacks=False)
    summary = summarise(result)
    assert summary["membership"] is None
    assert any("closed form for normal noise only" in sentence for sentence in summary["assumptions"])
    assert "Who is in the table" not in render(summary)
    assert not presence_of(result.trained, 1.0).measured


def test_a_row_that_is_told_for_certain_breaks_nothing() -> None:
    item = told_at(3, 1e100, 5.0)
    assert (item.right, item.auc, item.found) == (1.0, 1.0, 1.0)
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"x": rng.normal(size=80), "y": ["b"] * 79 + ["a"]})
    result = audit(table, Settings("y", held_out=0.0), draws=4, attacks=False)
    found = summarise(result)["membership"]
    assert found["rows"][0]["mu"] is None
    assert found["rows"][0]["right"] == 1.0
    assert "more than 99 of 100" in render(summarise(result))
