"""Rules of a policy for a fitted model, and people: the same as for the model of a table, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

import pandas

import fisherleak as fl
from auditing.fitted_models.models import case, columns, visits
from fisherleak.auditing import Settings
from fisherleak.auditing import audit as audit_table
from fisherleak.auditing.plain_records import as_json
from fisherleak.auditing.policy.policy import policy_of
from fisherleak.auditing.report_summary import Summary
from fisherleak.report.summarise import summary_of_audit
from fisherleak.training.pipelines import pipeline_of
from report.test_summarise import check_summary

KINDS = {"dose": "linear", "ill": "logistic"}
USED = ["age", "weight", "smokes", "city"]
ALIKE = {
    "rows": {"max_eta": 3.0},
    "groups": {"max_eta_joint": 200.0, "max_eta_mean": 0.4, "max_ratio": 1.5},
    "membership": {"max_right": 0.6, "max_epsilon": 2.0},
    "attacks": {"max_accuracy": 0.9},
}


@pytest.fixture(scope="module", autouse=True)
def _quick(quick_audits: None) -> None:
    """Attacks in passing take little time."""


def both(target: str, given: dict[str, Any], n: int = 150, **options: Any) -> tuple[Summary, fl.ModelAudit]:
    """The model of a table, audited with its table and as a fitted model."""
    table = visits(n)[[*USED, target]]
    if "person" in options:
        table["person"] = np.arange(n) // 3
    stated = {"require": {"target": target, **{name: name for name in options if name in ("person",)}}}
    settings = Settings(target, KINDS[target], held_out=0.0, **options)
    settings = settings if "groups" not in given else Settings(target, KINDS[target], held_out=0.0, group="city")
    stated["require"] |= {"group": "city"} if "groups" in given else {}
    policy = given | stated
    result = audit_table(table, settings, noise=0.2, policy=policy_of(policy))
    model, frame, labels = pipeline_of(result.trained)
    y = pandas.Series(labels, name=target)
    own: dict[str, Any] = {"person": pandas.Series(table["person"].to_numpy(), name="person")} if options else {}
    own |= {"group": "city"} if "groups" in given else {}
    return summary_of_audit(result), fl.audit(model, frame, y, 0.2, public="nothing", policy=policy, **own)


def rules(summary: Summary) -> dict[str, Any]:
    assert summary.policy is not None
    return {rule.rule: rule for rule in summary.policy.rules}


def said(rule: Any) -> str:
    """Its sentence, without the remedy: an option there, a call here."""
    return str(rule.note).partition(" Declare bounds")[0].partition(" Noise of fl.calibrate")[0]


@pytest.mark.long
@pytest.mark.parametrize("target", KINDS)
def test_rules_are_judged_as_those_of_the_table(target: str) -> None:
    """Etas of rows and groups in standard units, membership and attacks: the same values, outcomes and sentences."""
    table, model = both(target, ALIKE)
    one, two = rules(table), rules(model.summary)
    assert one.keys() == two.keys()
    for name, rule in one.items():
        if name.startswith("membership.") and target == "dose":
            continue  # a number that is predicted has a scale that rows move there
        assert two[name].passed == rule.passed, name
        assert two[name].value == (pytest.approx(rule.value, rel=1e-7) if isinstance(rule.value, float) else rule.value)
        assert two[name].count == rule.count
        assert two[name].limit == rule.limit
        assert said(two[name]) == said(rule)
    assert model.passed == all(rule.passed for rule in two.values())
    check_summary(as_json(model.summary))


@pytest.mark.long
def test_rules_on_columns_are_judged_as_those_of_the_table() -> None:
    """Of enough rows that no other value of one changes a public scale."""
    given = {
        "columns": {"age": {"max_eta": 0.01, "min_error": 1e4, "max_revealed": 0.9}},
        "label": {"max_revealed": 0.2},
    }
    table, model = both("dose", given, n=1500)
    one, two = rules(table), rules(model.summary)
    assert one.keys() == two.keys()
    for name, rule in one.items():
        assert two[name].passed == rule.passed, name
        assert two[name].value == (pytest.approx(rule.value, rel=1e-6) if isinstance(rule.value, float) else rule.value)
        assert (two[name].count, two[name].note) == (rule.count, rule.note)
    assert {rule.passed for rule in two.values()} == {True, False}


def test_what_became_of_each_rule(tmp_path: Path) -> None:
    """From a file or from its sections; with the noise that the advice names, the rules that failed pass."""
    given = case("ridge")
    limits = '[rows]\nmax_eta = 0.5\n[require]\npublic = "preprocessing"\n'
    (tmp_path / "house.toml").write_text(limits)
    failed = fl.audit(given.model, given.X, given.y, 0.05, policy=tmp_path / "house.toml", attacks=False)
    assert failed.passed is False
    assert failed.summary.policy is not None
    assert failed.summary.policy.source == "house.toml"
    assert failed.rules["passed"].to_dict() == {"rows.max_eta": False, "require.public": True}
    assert str(failed.rules["note"]["rows.max_eta"]).startswith("The eta of a row is at most")
    assert "rows.max_eta" in failed.verdict
    noise = failed.summary.next.noise
    sections = {"rows": {"max_eta": 0.5}, "require": {"public": "preprocessing"}}
    assert noise is not None
    kept = fl.audit(given.model, given.X, given.y, noise, policy=sections, attacks=False)
    assert kept.passed is True
    again = fl.audit(given.model, given.X, given.y, noise, policy=policy_of(sections), attacks=False)
    assert again.rules.equals(kept.rules)
    assert rules(kept.summary)["rows.max_eta"].value <= 0.5


PUBLIC = {"require": {"public": "preprocessing"}}
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no noise": ({"noise": None}, {"rows": {"max_eta": 1.0}}, "policy needs a noise"),
    "public that is not stated": ({}, {"rows": {"max_eta": 1.0}}, "does not state"),
    "a category's eta": ({}, {"columns": {"city": {"max_eta": 1.0}}, **PUBLIC}, "limit max_attack"),
    "a yes or no's eta": ({}, {"columns": {"smokes": {"max_eta": 1.0}}, **PUBLIC}, "limit max_attack"),
    "no such column": ({}, {"columns": {"agee": {"max_eta": 1.0}}, **PUBLIC}, "'agee', which the table does not have"),
    "a spread beside it": ({"spread": {"age": 99.0}}, {"columns": {"age": {"max_revealed": 0.5}}, **PUBLIC}, "spread"),
    "weights": ({"sample_weight": np.ones(120)}, {"rows": {"max_eta": 1.0}, **PUBLIC}, "sample_weight"),
    "groups of people": (
        {"person": np.arange(120) // 2, "group": "city"},
        {"groups": {"max_ratio": 2.0}, "require": {"public": "preprocessing", "person": "person", "group": "city"}},
        "with `person`",
    ),
    "no policy": ({}, {}, "is empty"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_judged_is_refused_by_name(name: str) -> None:
    options, policy, said = REFUSED[name]
    given = case("ridge")
    with pytest.raises(fl.InvalidInputError, match=said):
        fl.audit(given.model, given.X, given.y, **{"noise": 0.5, "attacks": False, **options}, policy=policy)


def test_a_category_that_one_row_has_and_noise_of_the_rows_own_are_refused() -> None:
    table = visits(120)
    table.loc[5, "city"] = "Zagreb"
    model = make_pipeline(columns(), Ridge()).fit(table[USED], table["dose"])
    rule = {"columns": {"city": {"max_attack": 0.9}}, **PUBLIC}
    with pytest.raises(fl.UnsupportedModelError, match="'city' has a category that only 1 of the rows"):
        fl.audit(model, table[USED], table["dose"], 0.5, policy=rule)
    given = case("ridge")
    noise = fl.calibrate(fl.measure(given.model, given.X, given.y), eta=0.5, shape="hessian")
    with pytest.raises(fl.InvalidInputError, match="data-dependent"):
        fl.audit(given.model, given.X, given.y, noise, policy={"rows": {"max_eta": 1.0}, **PUBLIC}, attacks=False)
    classifier = case("ridge classifier")
    with pytest.raises(fl.InvalidInputError, match="cannot be checked for this model"):
        fl.audit(classifier.model, classifier.X, classifier.y, 0.5, policy={"rows": {"max_eta": 1.0}, **PUBLIC})
    with pytest.raises(fl.InvalidInputError, match="must be a TOML file"):
        fl.audit(given.model, given.X, given.y, 0.5, policy=3)


def test_a_rule_that_was_not_measured_fails() -> None:
    given = case("ridge")
    rule = {"attacks": {"max_accuracy": 0.99}, "require": {"public": "preprocessing", "released": True, "bounds": True}}
    made = fl.audit(given.model, given.X, given.y, 5.0, policy=rule, attacks=False)
    assert not made.rules["passed"].drop("require.public").any()
    assert made.passed is False


# People


def test_all_rows_of_a_person_are_one() -> None:
    given, person = case("ridge"), np.array([f"p{k // 3}" for k in range(120)])
    made = fl.audit(given.model, given.X, given.y, 0.05, person=person, max_eta=50.0, attacks=False)
    leak = fl.measure(given.model, given.X, given.y, fl.Gaussian(0.05))
    own = leak.by_person(person)
    summary = made.summary
    assert summary.data.people == summary.number_measured == 40
    assert summary.eta.examples.max == pytest.approx(max(own.values()))
    assert summary.rows[0].id == max(own, key=lambda name: own[name])
    assert summary.rows[0].rows == 3
    assert summary.membership is not None
    mu = leak.membership_by_group(person)
    assert summary.membership.rows[0].mu == pytest.approx(max(mu.values()))
    assert summary.gate is not None
    assert summary.gate.count == sum(eta > 50.0 for eta in own.values())
    frame = made.frame()
    assert frame["eta_person"].to_numpy() == pytest.approx([own[name] for name in frame["person"]])
    assert (np.diff(frame["eta_person"]) <= 0).all()
    assert not any(value.revealed for value in summary.values)
    check_summary(as_json(summary))
    assert "person" in made._repr_html_()


@pytest.mark.long
def test_people_of_a_fitted_model_are_those_of_its_table() -> None:
    table, model = both("ill", {"rows": {"max_eta": 3.0}, "membership": {"max_right": 0.6}}, person="person")
    one, two = rules(table), rules(model.summary)
    assert one.keys() == two.keys()
    for name, rule in one.items():
        assert (two[name].passed, two[name].count, said(two[name])) == (rule.passed, rule.count, said(rule))
    for mine, yours in zip(table.attributes, model.summary.attributes, strict=True):
        assert yours.eta_max == pytest.approx(mine.eta_max, rel=1e-7)
        assert yours.eta_column == pytest.approx(mine.eta_column, rel=1e-7)
        assert yours.worst_person == mine.worst_person
    assert {each.attribute for each in table.attacks} == {each.attribute for each in model.summary.attacks}


def test_people_are_named_and_attacked_where_they_can_be() -> None:
    table = visits(120)
    person = pandas.Series(np.arange(120) // 2, name="patient")
    table["city"] = table["city"].to_numpy()[2 * person]  # one of each person
    model = make_pipeline(columns(), Ridge()).fit(table[USED], table["dose"])
    made = fl.audit(model, table[USED], table["dose"], 0.5, person=person)
    assert made.summary.data.person_column == "patient"
    assert {each.attribute for each in made.summary.attacks} >= {"city", "dose"}
    by_row = fl.audit(model, table[USED], table["dose"], 0.5, person=person, attributes="smokes").summary
    assert "smokes" in {each.attribute for each in by_row.attacks}  # a person's rows differ in it
    assert any("attackers guess these values row by row" in note for note in by_row.assumptions)
    with pytest.raises(fl.InvalidInputError, match="one value only"):
        fl.audit(model, table[USED], table["dose"], 0.5, person=np.zeros(120))
    with pytest.raises(fl.InvalidInputError, match="missing in some rows"):
        fl.audit(model, table[USED], table["dose"], 0.5, person=np.where(np.arange(120) < 5, np.nan, 1.0))
    alone = fl.audit(model, table[USED], table["dose"], 0.5, person=np.arange(120), attacks=False).summary
    rows = fl.audit(model, table[USED], table["dose"], 0.5, attacks=False).summary
    assert as_json(alone.eta.examples) == pytest.approx(as_json(rows.eta.examples))
    assert [a.revealed.max for a in alone.attributes if a.revealed] == pytest.approx(
        [a.revealed.max for a in rows.attributes if a.revealed]
    )


# The board


def test_limits_on_rows_say_their_units(tmp_path: Path) -> None:
    """Beside a policy they are in the units of the columns, and in its rules in standard ones."""
    given, standard = case("ridge"), "A row counts each number in standard deviations"
    alone = fl.audit(given.model, given.X, given.y, 0.5, max_eta=1e3, attacks=False)
    assert alone.verdict.splitlines()[0].endswith("the limit of η = 1,000 in the units of the columns.")
    raw = "η of any row in the units of the columns"
    text = alone.board(tmp_path / "alone.html").read_text()
    assert raw in text
    assert standard not in text
    assert "so these units decide which rows are most exposed" in alone.report(tmp_path / "report.html").read_text()
    rule = {"rows": {"max_eta": 40.0}, **PUBLIC}
    text = (
        fl.audit(given.model, given.X, given.y, 0.5, policy=rule, attacks=False).board(tmp_path / "b.html").read_text()
    )
    assert raw not in text
    assert standard in text


def test_the_board_of_a_fitted_model(tmp_path: Path) -> None:
    given = case("ridge")
    policy = {"rows": {"max_eta": 40.0}, "columns": {"*": {"max_attack": 0.99, "max_revealed": 0.999}}, **PUBLIC}
    made = fl.audit(given.model, given.X, given.y, 0.5, policy=policy, spread=None)
    text = made.board(tmp_path / "board.html").read_text()
    assert made.summary.stated is not None
    assert made.summary.stated.columns == ("dose",)
    assert "about 120 rows" in text
    assert "Passed" in text
    assert not {"weight", "city", "Genua"} & set(text.partition("<body>")[2].split())
    with pytest.raises(fl.InvalidInputError, match="Add `noise`"):
        fl.audit(given.model, given.X, given.y, attacks=False).board(tmp_path / "other.html")
    leak = fl.measure(given.model, given.X, given.y)
    found = fl.audit(given.model, given.X, given.y, fl.calibrate(leak, eta=2.0), attacks=False)
    shown = found.board(tmp_path / "third.html").read_text()
    assert "every row in the units of the columns at 2 or below is added" in shown
    assert f"{found.summary.noise.scale:.3g}" not in shown
