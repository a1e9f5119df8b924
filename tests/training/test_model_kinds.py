"""Kinds of model: every record of the list keeps what it says, and one from outside is enough for an audit."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from scipy.special import softmax
from sklearn import metrics

import fisherleak as fl
from fisherleak.auditing import Settings, audit
from fisherleak.cli import main
from fisherleak.engine.fit.minimise import minimised_on
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.releasing.files.released_files import load_model, retrain, save_model
from fisherleak.report.summarise import summarise
from fisherleak.tables import LabelRule, from_frame
from fisherleak.training import trained_model
from fisherleak.training.model_kinds import KINDS, Kind, Metric, kind_of
from fisherleak.training.pipelines import pipeline_of
from fisherleak.training.trained_model import estimator_for, spreads_in, train
from where import nodes_in

ROOT = Path(inspect.getfile(fl)).parent
NAMES = [kind.name for kind in KINDS]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=NAMES)


@every_kind
@pytest.mark.parametrize("l2", [0.0, 1e-2])
def test_the_estimator_has_the_minimum_of_the_loss(kind: Kind, l2: float, table_for: Any, target_for: Any) -> None:
    trained = train(from_frame(table_for(kind.name)), Settings(target_for(kind.name), kind.name, l2=l2))
    means, spreads = spreads_in(trained.design)
    fitted: Any = estimator_for(trained).fit((trained.design.X - means) / spreads, trained.design.y)
    assert type(fitted) in kind.estimators
    raw = np.atleast_2d(fitted.coef_) / spreads
    levels = np.ravel(fitted.intercept_) - raw @ means
    np.testing.assert_allclose([*raw.ravel(), *levels], trained.fit.theta, rtol=1e-4, atol=1e-6)


@every_kind
def test_figures_are_those_of_the_pipeline(kind: Kind, table_for: Any, target_for: Any) -> None:
    table, settings = table_for(kind.name), Settings(target_for(kind.name), kind.name)
    result = audit(table, settings, noise=0.7, draws=4, attacks=False)
    pipeline, raw, labels = pipeline_of(train(from_frame(table), settings))
    cells = fl.measure(pipeline, raw, labels, noise=fl.Gaussian(0.7), public="nothing").per_cell()
    found = [figures.largest / result.unit_scale for figures in result.columns]
    np.testing.assert_allclose(found, cells.max(axis=0), rtol=1e-8)
    assert result.spot is not None
    assert result.spot.largest_relative_error < 1e-4


SCORES = {
    "r2": metrics.r2_score,
    "accuracy": lambda y, mean: metrics.accuracy_score(y, mean > 0.5 if mean.ndim == 1 else mean.argmax(axis=1)),
    "mean Poisson deviance": metrics.mean_poisson_deviance,
    "mean Gamma deviance": metrics.mean_gamma_deviance,
}


@every_kind
def test_utility_is_that_of_scikit_learn(kind: Kind, table_for: Any, target_for: Any) -> None:
    trained = train(from_frame(table_for(kind.name)), Settings(target_for(kind.name), kind.name))
    design = trained.design
    z = design.X_test @ trained.fit.coef.T + trained.fit.intercept
    score = SCORES.get(kind.metric.label, SCORES.get(kind.metric.name))
    assert score is not None
    mean = softmax(z, axis=1) if kind.several else trained.fit.loss.mean(z)
    assert kind.metric.of(z[..., None], design.y_test)[0] == pytest.approx(score(design.y_test, mean), rel=1e-9)
    for metric in kind.also:
        own = {"log_loss": metrics.log_loss, "auc": partial(metrics.roc_auc_score, multi_class="ovr")}[metric.name]
        assert metric.of(z[..., None], design.y_test)[0] == pytest.approx(own(design.y_test, mean), rel=1e-9)


@every_kind
def test_no_other_constant_does_better_on_the_training_rows(kind: Kind, table_for: Any, target_for: Any) -> None:
    design = train(from_frame(table_for(kind.name)), Settings(target_for(kind.name), kind.name)).design
    ways = np.array([0.0, -0.3, -0.01, 0.01, 0.3])
    shares = np.bincount(design.y.astype(int)) / design.n if kind.several else None
    best = kind.constant(design.label_mean if shares is None else shares)
    others = best + ways if shares is None else best[:, None] + np.outer([1.0, 0.0, -0.5], ways)
    for metric in kind.metrics:
        utility = metric.of(np.broadcast_to(others, (design.n, *others.shape)), design.y)
        assert utility[0] == (utility.max() if metric.higher_is_better else utility.min())


@every_kind
def test_a_kind_is_released_and_read_again(kind: Kind, table_for: Any, target_for: Any, tmp_path: Path) -> None:
    raw, path = from_frame(table_for(kind.name)), tmp_path / "model.skops"
    card, _ = save_model(raw, Settings(target_for(kind.name), kind.name), path, eta=0.5, over="max")
    saved = load_model(path)
    assert saved.settings.model == card["model"]["kind"] == kind.name
    assert retrain(saved, raw).design.target.kind == kind.name


@pytest.mark.long
def test_the_command_line_knows_gamma(
    people: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    people[["age", "weight", "city", "cost"]].to_csv("t.csv", index=False)
    model = ["--target", "cost", "--model", "gamma"]
    assert main(["audit", "t.csv", *model, "--noise", "0.2", "--draws", "4", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["model"]["description"].startswith("Gamma regression on standardised numeric columns")
    assert "mean Gamma deviance" in summary["tradeoff"]["label"]
    assert {attack["attribute"] for attack in summary["attacks"]} == {"city", "cost"}
    assert main(["release", "t.csv", *model, "--eta", "0.5", "--over", "max", "--out", "m.skops"]) == 0
    assert main(["audit", "t.csv", "--released", "m.skops", "--no-attacks", "--quiet"]) == 0
    assert main(["attack", "t.csv", "--released", "m.skops", "--attribute", "city", "--quiet"]) == 0
    assert main(["attack", "t.csv", *model, "--attribute", "city", "--noise", "0.2", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["audit", "t.csv", "--target", "age", "--model", "gamma", "--drop", "cost", "--quiet"]) == 0
    (tmp_path / "zero.csv").write_text("x,y\n" + "".join(f"{k},{k % 7}\n" for k in range(60)))
    assert main(["audit", "zero.csv", "--target", "y", "--model", "gamma"]) == 2
    assert "--model gamma needs numbers above zero" in capsys.readouterr().err


def test_labels_decide_where_no_kind_is_named(people: Any) -> None:
    for target, kind in {"income": "linear", "sick": "logistic", "visits": "linear", "cost": "linear"}.items():
        table = people[["age", "weight", target]]
        design = train(from_frame(table), Settings(target)).design
        assert (design.target.kind, design.target.assumed) == (kind, True)
        assert ("`model='poisson'` is for counts" in design.target.note) == (target == "visits")


@pytest.mark.parametrize(
    ("target", "model", "says"),
    [
        ("sick", "linear", "`model='linear'` needs numbers. Use `model='logistic'`"),
        ("sick", "gamma", "`model='gamma'` needs numbers"),
        ("income", "logistic", "a logistic model needs two. Make it one against the rest, or use `model='linear'`"),
        ("visits", "gamma", "zero or below"),
        ("ward", "linear", "`model='linear'` needs numbers. Use `model='softmax'`"),
        ("ward", "logistic", "a logistic model needs two. Make it one against the rest, or use `model='softmax'`"),
        ("sick", "softmax", "a softmax model needs 3 to 100. Use `model='logistic'`"),
        ("income", "tree", f"model must be one of auto, {', '.join(NAMES)}; got 'tree'"),
    ],
)
def test_labels_that_a_kind_does_not_take(people: Any, target: str, model: str, says: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        train(from_frame(people), Settings(target, model))
    assert says in str(caught.value)


# a kind from outside


@pytest.fixture
def robust() -> Iterator[Kind]:
    kind = Kind(
        name="robust",
        words="pseudo-Huber regression",
        labels=LabelRule(standardised=True),
        loss=fl.pseudo_huber(1.35),
        metric=Metric("mae", "mean absolute error", False, lambda z, y: abs(z - y[:, None]).mean(axis=0)),
        constant=float,
    )
    KINDS.append(kind)
    yield kind
    KINDS.remove(kind)


def test_a_kind_from_outside_is_audited(robust: Kind, people: Any) -> None:
    table = people[["age", "weight", "city", "income"]]
    settings = Settings("income", model="robust", l2=1e-3, public="preprocessing")
    result = audit(table, settings, noise=300.0, draws=4)
    assert result.trained.fit.loss.name == "pseudo_huber"
    assert result.spot is not None
    assert result.spot.largest_relative_error < 1e-4
    summary = summarise(result)
    assert summary["model"]["description"].startswith("pseudo-Huber regression")
    assert any("no model of scikit-learn has the minimum of a pseudo-Huber" in text for text in summary["assumptions"])
    assert summary["attacks"] == []
    # the same figures by hand, at the same noise
    design = result.design
    _, spreads = spreads_in(design)  # the penalty is on the coefficients of exactly standardised numbers
    fit = fl.minimise(design.X / spreads, design.y, fl.pseudo_huber(1.35), 1e-3, intercept=True)
    noise = fl.Gaussian(300.0 / design.target.scale, np.diag([*spreads, 1.0]) ** 2)
    leak = fl.measure(fit, design.X / spreads, design.y, noise)
    np.testing.assert_allclose(
        result.worst.eta_label / result.unit_scale, leak.per_label()[result.worst.rows], rtol=1e-8
    )


@pytest.mark.parametrize("asked", [{"attributes": ["city"]}, {"balance": True}])
def test_what_needs_an_estimator_is_refused_without_one(robust: Kind, people: Any, asked: Any, tmp_path: Path) -> None:
    settings = Settings("income", model="robust")
    with pytest.raises(UnsupportedModelError, match="attacks, balancing and releases need one"):
        audit(people, settings, noise=1.0, **asked)
    with pytest.raises(UnsupportedModelError, match="releases need one"):
        save_model(from_frame(people), settings, tmp_path / "m.skops", eta=1.0, over="max")
    assert not list(tmp_path.iterdir())


def test_a_kind_that_was_removed_is_gone(people: Any) -> None:
    with pytest.raises(InvalidInputError, match="model must be one of"):
        kind_of("robust")
    with pytest.raises(InvalidInputError, match="model must be one of"):
        train(from_frame(people), Settings("income", "robust"))


@pytest.mark.parametrize("folder", ["auditing", "releasing", "report", "tables", "cli"])
def test_no_kind_is_told_by_its_name(folder: str) -> None:
    """What differs between kinds is in their records: no line compares a name."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in nodes_in(path):
            if isinstance(node, ast.Compare):
                names = {item.value for item in ast.walk(node) if isinstance(item, ast.Constant)} & set(NAMES)
                assert not names, f"{path.name}, line {node.lineno}"


@pytest.mark.parametrize("kind", ["linear", "logistic", "softmax"])
def test_a_fit_is_taken_from_a_model_of_the_same_table_and_from_no_other(
    kind: str, table_for: Any, target_for: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, table = Settings(target=target_for(kind), model=kind, held_out=0.0), table_for(kind)
    known = train(from_frame(table), settings)
    fitted: list[Any] = []

    def counted(*given: Any) -> Any:
        fitted.append(given)
        return minimised_on(*given)

    monkeypatch.setattr(trained_model, "minimised_on", counted)
    again = train(from_frame(table), settings, known=known)
    assert not fitted
    assert again.fit is known.fit
    np.testing.assert_array_equal(again.each_eta(), known.each_eta())
    others = (table.assign(age=table.age + (table.index == 3)), table.iloc[1:])
    for other, asked in [*((each, settings) for each in others), (table, replace(settings, l2=0.3))]:
        found, alone = (train(from_frame(other), asked, known=each) for each in (known, None))
        np.testing.assert_array_equal(found.fit.theta, alone.fit.theta)
    assert len(fitted) == 6


@pytest.mark.parametrize("kind", ["linear", "logistic", "softmax", "poisson"])
def test_attackers_know_the_model_with_the_estimator_s_own_arguments(
    kind: str, table_for: Any, target_for: Any
) -> None:
    trained = train(from_frame(table_for(kind)), Settings(target=target_for(kind), model=kind, held_out=0.0))
    assert pipeline_of(trained)[0][-1].get_params() == estimator_for(trained).get_params()
