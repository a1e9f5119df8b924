"""``fl.audit``: what an audit of a table says, for a model that was fitted elsewhere."""

from __future__ import annotations

import dataclasses
import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

import pandas

import fisherleak as fl
from auditing.fitted_models.models import MODELS, Case, case, visits
from fisherleak.auditing import Settings
from fisherleak.auditing.plain_records import as_json
from fisherleak.auditing.run import as_raw
from fisherleak.cli import _print_audit, main
from fisherleak.training.pipelines import pipeline_of
from fisherleak.training.trained_model import train
from often import often
from report.test_summarise import check_summary


@pytest.fixture(scope="module", autouse=True)
def _quick(quick_audits: None) -> None:
    """Attacks in passing take little time."""


def audited(given: Case, **options: Any) -> fl.ModelAudit:
    return fl.audit(given.model, given.X, given.y, X_test=given.X_test, y_test=given.y_test, **options)


@pytest.fixture(scope="module")
def ridge() -> Case:
    return case("ridge")


@pytest.fixture(scope="module")
def found(ridge: Case) -> fl.ModelAudit:
    return audited(ridge, noise=0.05, group="city", max_eta=100.0)


def rounded(value: Any) -> Any:
    """JSON with numbers to nine digits, so that two ways to them can be compared."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    return [rounded(entry) for entry in value] if isinstance(value, list) else value


DIFFERENT = {
    r"^created$": "when each was made",
    r"^command$": "the command as it was typed; Python has none",
    r"^title$": "the name of the file; Python has none",
    r"^assumptions$": "sentences: units of rows, where rows are counted from, and what each takes as public",
    r"^data\.(source|sha256|columns|classes|repeated)": "what a file is read as; Python gets a table that is read",
    r"^model\.(kind|assumed|description|l2|public)$": "the kind and penalty per row that the command trains with; a loss and its l2",
    r"^eta\.": "standard units there, those of the columns here",
    r"^rows": "the order is that of eta; figures of the same row are compared below",
    r"^groups": "eta, as above; without --group the classes are groups there",
    r"(^|\.)worst_row$": "rows are counted from 1 there, from 0 here",
    r"^(attributes\.\d+|label)\.revealed\.row$": "as above",
    r"^membership\.(rows|note)": "numbers of rows, and the remedy in the sentence",
    r"^membership": "with a predicted number, or several classes, the command's release has a scale of the label that rows move",
    r"^next\.(command|command_for|note|noise|eta)": "a command there, a call here",
    r"^prices": "what a release by a limit keeps: the command trains it again; fl.protect does so in Python",
    r"^diagnostics\.": "two solvers: times, steps and errors of the fit; no refits here",
}
"""Fields that differ by nature, and why."""


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Every field of JSON, by its place."""
    if isinstance(value, dict):
        return {k: v for key, own in value.items() for k, v in leaves(own, f"{path}.{key}".lstrip(".")).items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return {k: v for n, own in enumerate(value) for k, v in leaves(own, f"{path}.{n}").items()}
    return {path: value}


@pytest.mark.long
def test_every_field_is_that_of_the_command_line(tmp_path: Path, capfd: Any) -> None:
    """The model of a table, audited by the command and as a fitted model, drawn by the same seed: fields that differ are listed."""
    seen = set[str]()
    for target, person in (("dose", None), ("ill", None), ("ward", None), ("ill", "worker"), ("dose", "worker")):
        differing = different_fields(target, person, tmp_path, capfd)
        unlisted = {path for path in differing if not any(re.search(each, path) for each in DIFFERENT)}
        assert unlisted == set(), (target, person)
        seen |= {each for each in DIFFERENT if any(re.search(each, path) for path in differing)}
    # nothing is listed that is always the same; both may be made in one second
    assert seen | {r"^created$"} == {*DIFFERENT}


def different_fields(target: str, person: str | None, tmp_path: Path, capfd: Any) -> set[str]:
    """Places in which the two summaries differ; figures of rows are held against each other by the number of the row."""
    table, noise = visits(150)[["age", "weight", "smokes", "city", target]], "0.2"
    if person is not None:
        table[person] = [f"w{k // 2}" for k in range(len(table))]
    table.to_csv(tmp_path / "table.csv", index=False)
    options = ["--target", target, "--held-out", "0", "--noise", noise, "--attribute", "age", "--attribute", "city"]
    options += [] if person is None else ["--person", person]
    capfd.readouterr()
    assert main(["audit", str(tmp_path / "table.csv"), *options, "--json"]) == 0
    one = json.loads(capfd.readouterr().out)
    trained = train(as_raw(table), Settings(target, held_out=0.0, person=person))
    model, frame, labels = pipeline_of(trained)
    y = pandas.Series(labels, name=target)
    whose = None if person is None else table[person]
    made = fl.audit(model, frame, y, float(noise), public="nothing", attributes=["age", "city"], person=whose)
    one, two = rounded(one), rounded(as_json(made.summary))
    mine, yours = leaves(one), leaves(two)
    differing = {path for path in {*mine, *yours} if mine.get(path, "-") != yours.get(path, "-")}
    unlisted = {path for path in differing if not any(re.search(each, path) for each in DIFFERENT)}
    assert unlisted == set()
    if (
        target == "ill"
    ):  # a number that is predicted has a scale that rows move; several classes are not measured end to end
        assert one["membership"]["accuracy_max"] == two["membership"]["accuracy_max"]
    rows = {row["row"]: row for row in two["rows"]}
    both = [(row, rows[row["row"] - 1]) for row in one["rows"] if row["row"] - 1 in rows]
    assert len(both) >= 10
    yes_no = [k for k, each in enumerate(one["attributes"]) if each.get("yes_no")]
    for there, here in both:
        assert there["cells"] == here["cells"]
        assert there["eta_label"] == here["eta_label"]
        if there["revealed"] is None:
            assert here["revealed"] is None
            continue
        kept = [k for k in range(len(there["cells"])) if k not in yes_no]
        assert [there["revealed"][k] for k in kept] == [here["revealed"][k] for k in kept]
    return differing


@pytest.mark.parametrize("name", often(MODELS, 3))
def test_every_kind_of_model_is_audited(name: str, tmp_path: Path) -> None:
    given = case(name, n=80, m=40)
    made = audited(given, noise=0.5)
    summary = made.summary
    check_summary(as_json(summary))
    assert summary.tradeoff.held_out
    assert summary.tradeoff.label.endswith("on 40 held-out rows")
    assert summary.data.test_rows == 40
    assert {each.attribute for each in summary.attacks} >= {"smokes"}
    assert [each.name for each in summary.attributes] == list(given.X.columns)
    assert made.passed is None
    assert "with this noise" in made.verdict
    assert "<script" not in made._repr_html_()
    assert "How much worse was not measured" not in made.report(tmp_path / "report.html").read_text()
    _print_audit.show_audit(summary, verbose=True)


@pytest.mark.parametrize(("name", "public"), [(n, p) for n in MODELS for p in ("preprocessing", "nothing")])
def test_the_call_that_is_offered_works(name: str, public: str) -> None:
    """Applied to the model, it releases one with the noise that the advice names."""
    given = case(name)
    made = audited(given, noise=0.5, public=public, attacks=False)
    assert made.summary.next.command is not None
    names = {"fl": fl, "model": given.model, "X": given.X, "y": given.y}
    released = eval(made.summary.next.command, names)  # noqa: S307 - our own sentence
    assert released.predict(given.X_test).shape == given.model.predict(given.X_test).shape
    useless = "no better than the baseline" in made.verdict.partition("With that noise:")[2]
    assert made.verdict.endswith(made.summary.next.command) != useless


def test_no_call_is_offered_for_what_may_not_leave(ridge: Case) -> None:
    from sklearn.feature_selection import SelectKBest, f_regression

    X, y = ridge.X[["age", "weight", "smokes"]], ridge.y
    model = make_pipeline(SelectKBest(f_regression, k=2), Ridge()).fit(X, y)
    made = fl.audit(model, X, y, 0.5, attacks=False)
    assert made.summary.next.command is None
    assert made.summary.next.noise is not None
    left_out = next(each for each in made.summary.attributes if each.eta_max == 0)
    assert left_out.name == "weight"
    assert left_out.revealed is not None
    assert left_out.revealed.max == 0


def test_numbers_are_those_of_the_leakage(ridge: Case, found: fl.ModelAudit) -> None:
    leak = fl.measure(ridge.model, ridge.X, ridge.y, fl.Gaussian(0.05))
    frame = found.frame()
    pandas.testing.assert_frame_equal(frame, leak.to_frame().loc[frame.index])
    assert (np.diff(frame["eta"]) <= 0).all()
    assert found.summary.rows[0].row == frame.index[0]
    assert found.summary.eta.examples.max == pytest.approx(leak.per_example().max())
    assert {group.name for group in found.summary.groups} == {"Bonn", "Genua", "Rom"}
    assert found.passed is True
    assert found.summary.label is not None
    assert found.summary.label.name == "dose"


def test_a_limit_that_is_exceeded_fails_and_the_noise_that_is_advised_keeps_it(ridge: Case) -> None:
    failed = audited(ridge, noise=fl.Gaussian(0.05), max_eta=0.5, attacks=False)
    assert failed.passed is False
    assert failed.verdict.startswith("Failed")
    assert "failed" in repr(failed)
    kept = audited(ridge, noise=failed.summary.next.noise, max_eta=0.5, attacks=False)
    assert kept.passed is True
    assert "passed" in repr(kept)


def test_without_a_noise_at_most_a_tenth_of_any_number_is_revealed(ridge: Case) -> None:
    made = audited(ridge, attacks=False)
    summary = made.summary
    assert summary.noise.chosen == "default"
    largest = max(value.revealed.max for value in summary.values if value.revealed)
    yes_no = [0.25 * each.eta_max**2 for each in summary.attributes if each.yes_no]
    largest = max(largest, *(square / (1 + square) for square in yes_no))
    assert 0.098 < largest <= 0.1
    assert [choice.share for choice in summary.choices] == [0.9, 0.5, 0.25, 0.1, 0.05, 0.01]
    assert summary.choices[3].noise == summary.noise.scale
    assert "No noise or limit was given" in made.verdict
    # the etas are those of that noise, and not of the one that they were first measured with
    assert made.leakage.noise.scale == summary.noise.scale
    again = audited(ridge, noise=summary.noise.scale, attacks=False).summary
    assert rounded(as_json(again.attributes)) == rounded(as_json(summary.attributes))


def test_without_test_rows_the_page_says_that_training_rows_flatter(ridge: Case, tmp_path: Path) -> None:
    made = fl.audit(ridge.model, ridge.X, ridge.y, 0.1, attacks=False)
    assert made.summary.tradeoff.label.endswith("on the training rows")
    assert made.summary.tradeoff.without_noise == pytest.approx(ridge.model.score(ridge.X, ridge.y))
    assert "so these figures are too good" in made.report(tmp_path / "page.html").read_text()
    with pytest.raises(fl.InvalidInputError, match="overwrite"):
        made.report(tmp_path / "page.html")


def test_columns_to_attack_are_named(ridge: Case) -> None:
    made = audited(ridge, noise=0.1, attributes=["age", "dose"])
    assert {each.attribute for each in made.summary.attacks} == {"age", "dose"}
    # the most exposed category is told apart whatever is attacked
    assert {each.attribute for each in made.summary.distinguishable} == {"smokes", "city"}


@pytest.mark.parametrize("attacks", [True, False])
def test_a_column_to_attack_that_is_none_is_refused_whether_or_not_attacks_run(ridge: Case, attacks: bool) -> None:
    with pytest.raises(fl.InvalidInputError, match=r"'aeg', which is no column of X\. Did you mean 'age'"):
        audited(ridge, noise=0.1, attributes=["aeg"], attacks=attacks)


@pytest.mark.parametrize("held_out", [True, False])
def test_labels_of_fewer_rows_are_refused(ridge: Case, held_out: bool) -> None:
    n = len(ridge.y)
    given = {"X_test": ridge.X_test, "y_test": ridge.y_test} if held_out else {}
    with pytest.raises(fl.InvalidInputError, match=f"y must have one value for each of the {n} rows of X; got {n - 9}"):
        fl.audit(ridge.model, ridge.X, ridge.y[:-9], 0.1, **given)


def test_texts_reach_a_notebook_escaped() -> None:
    table = visits(60)[["age", "weight"]].rename(columns={"age": "<b>age</b>"})
    y = pandas.Series(visits(60)["dose"], name="<i>dose</i>")
    made = fl.audit(Ridge().fit(table, y), table.set_index(np.array([f"<u>{k}" for k in range(60)])), y, 0.1)
    html = made._repr_html_()
    assert "&lt;" in html
    assert not {"<b>", "<i>", "<u>"} & {html[k : k + 3] for k in range(len(html))}


def test_what_has_no_noise_on_parameters_is_refused_by_name(ridge: Case) -> None:
    with pytest.raises(fl.InvalidInputError, match="Posterior does not"):
        audited(ridge, noise=fl.Posterior(1.0))
    with pytest.raises(fl.InvalidInputError, match="Answers does not"):
        audited(ridge, noise=fl.Answers(ridge.X_test, fl.Gaussian(1.0)))
    with pytest.raises(fl.InvalidInputError, match="max_eta needs a noise"):
        audited(ridge, max_eta=1.0)
    dask = pytest.importorskip("dask.array")
    X = np.asarray(ridge.X[["age", "weight"]], dtype=float)
    lazy = dask.from_array(X, chunks=(40, 2))
    with pytest.raises(fl.InvalidInputError, match="rows in memory"):
        fl.audit(Ridge().fit(X, ridge.y), lazy, ridge.y, 1.0)


def test_a_covariance_that_rows_decided_has_no_advice(ridge: Case) -> None:
    leak = fl.measure(ridge.model, ridge.X, ridge.y)
    noise = fl.calibrate(leak, eta=0.5, shape="hessian")
    made = audited(ridge, noise=noise, attacks=False)
    assert made.summary.next.noise is None
    assert made.summary.choices == ()
    with pytest.raises(fl.InvalidInputError, match="max_eta cannot be tested"):
        audited(ridge, noise=noise, max_eta=0.6)
    assert audited(ridge, noise=fl.Gaussian(noise.scale), max_eta=0.6, attacks=False).passed is not None
    assert made.summary.tradeoff.without_noise == pytest.approx(ridge.model.score(ridge.X_test, ridge.y_test))


def test_a_covariance_that_is_given_is_kept_by_the_call(ridge: Case) -> None:
    size = len(ridge.model[-1].coef_) + 1
    noise = fl.Gaussian(0.3, np.diag(np.linspace(0.5, 2.0, size)))
    made = audited(ridge, noise=noise, attacks=False)
    assert made.summary.next.command is not None
    assert made.summary.next.command.startswith("fl.release(model, noise.rescaled(")
    names = {"fl": fl, "model": ridge.model, "noise": noise}
    assert eval(made.summary.next.command, names).predict(ridge.X_test).shape == (60,)  # noqa: S307 - our own sentence


def test_a_fit_of_a_loss_without_a_measure_says_so() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    own = dataclasses.replace(fl.LOSSES["squared"], name="mine")
    fit = fl.minimise(X, y, loss=own, l2=0.1, intercept=True)
    made = fl.audit(fit, X, y, 0.1, attacks=False)
    assert made.summary.tradeoff.without_noise is None
    assert any("no measure of utility is known for the loss 'mine'" in each for each in made.summary.assumptions)
    assert made.verdict


def test_it_is_one_frozen_record(found: fl.ModelAudit) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.__setattr__("summary", None)
    again = pickle.loads(pickle.dumps(found))  # noqa: S301 - our own
    assert again.verdict == found.verdict


def test_arrays_without_names_and_weights() -> None:
    rng = np.random.default_rng(2)
    X, w = rng.normal(size=(80, 3)), rng.uniform(0.5, 2.0, 80)
    X[:, 2] = rng.integers(0, 2, 80)
    y = (X[:, 0] + rng.logistic(size=80) > 0).astype(int)
    model = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-9, solver="newton-cholesky"))
    model.fit(X, y, logisticregression__sample_weight=w)
    made = fl.audit(model, X, y, 0.5, sample_weight=w)
    assert {each.attribute for each in made.summary.attacks} == {"x2", "the label"}
    assert made.summary.tradeoff.without_noise == pytest.approx(model.score(X, y))
    counted = fl.audit(model, X, y, 0.5, sample_weight=w, public="nothing").summary
    assert counted.attacks == ()
    assert any("No attack was run" in each for each in counted.assumptions)
