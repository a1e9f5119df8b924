"""Utility under noise, and after balancing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")


import pandas

import fisherleak as fl
from fisherleak._support.numbers import measured
from fisherleak.auditing.policy.policy import read_policy
from fisherleak.auditing.run import audit
from fisherleak.errors import InvalidInputError
from fisherleak.report.summarise import summarise
from fisherleak.tables import from_frame
from fisherleak.training.model_kinds import KINDS
from fisherleak.training.pipelines import pipeline_of
from fisherleak.training.trained_model import Settings, train
from fisherleak.training.utility import Tradeoff, UtilityPoint, gain_in_words, rise_in_words, tradeoff
from report.test_summarise import check_summary


@pytest.mark.long
def test_utility_falls_with_noise_to_that_of_copies(frame: Any) -> None:
    settings = Settings("income")
    result = audit(frame, settings, noise=500.0, draws=400, attacks=False)
    trained = result.trained
    pipeline, _, _ = pipeline_of(trained)
    test = trained.design
    held_out = frame.drop(index=test.rows - 1)
    scores = [
        fl.release(pipeline, fl.Gaussian(500.0), k, public="preprocessing").score(
            held_out[list(pipeline.feature_names_in_)], held_out.income
        )
        for k in range(400)
    ]
    middle = result.tradeoff.points[len(result.tradeoff.points) // 2]
    assert middle.scale == pytest.approx(500.0)
    assert middle.utility == pytest.approx(np.mean(scores), abs=4 * np.std(scores) / 20)
    assert result.tradeoff.without_noise == pytest.approx(
        pipeline.score(held_out[list(pipeline.feature_names_in_)], held_out.income)
    )
    assert result.tradeoff.points[-1].utility < middle.utility < result.tradeoff.without_noise


def test_balancing_makes_rows_equal(frame: Any) -> None:
    result = audit(frame, Settings("sick"), balance=True, draws=4, attacks=False)
    assert result.balance is not None
    assert result.balance.after.sd < 0.1 * result.balance.before.sd
    assert result.balance.before.bins.sum() == result.balance.after.bins.sum() == result.design.n
    check_summary(summarise(result))


def uneven(positive: float, rows: int = 400, classes: int = 2) -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"age": rng.normal(50, 10, rows).round(1), "dose": rng.normal(0, 1, rows).round(2)})
    score = frame.age / 10 + rng.normal(0, 1.5, rows)
    frame["sick"] = np.where(score >= np.quantile(score, 1 - positive), "yes", "no")
    if classes == 3:
        frame.loc[score <= np.quantile(score, 0.4), "sick"] = "maybe"
    return frame


@pytest.mark.parametrize(
    ("positive", "classes", "leads"),
    [
        (0.17, 2, "auc"),
        (0.29, 2, "auc"),
        (0.35, 2, "accuracy"),
        (0.83, 2, "auc"),
        (0.3, 3, "accuracy"),
        (0.1, 3, "auc"),
    ],
)
def test_where_a_class_is_rare_the_auc_leads(positive: float, classes: int, leads: str) -> None:
    trained = train(from_frame(uneven(positive, classes=classes)), Settings("sick"))
    found = tradeoff(trained, [0.1], 4, 0)
    assert found.metric.name == leads
    assert {found.metric.name, *(each.metric.name for each in found.also)} == {"accuracy", "auc", "log_loss"}
    asked = tradeoff(trained, [0.1], 4, 0, "log-loss")
    assert asked.metric.name == "log_loss"
    assert replace(asked.led_by(leads), also=()) == replace(found, also=())


def test_baselines_of_every_measure() -> None:
    """Always answering the share of the training rows: the larger class is right, no pair is ordered, and log loss is entropy."""
    trained = train(from_frame(uneven(0.17)), Settings("sick"))
    found, y = tradeoff(trained, [0.1], 4, 0), trained.design.y_test
    share = trained.design.label_mean
    assert found.led_by("accuracy").constant == pytest.approx(1 - y.mean())
    assert found.led_by("auc").constant == 0.5
    expected = -np.mean(y * np.log(share) + (1 - y) * np.log(1 - share))
    assert found.led_by("log_loss").constant == pytest.approx(expected)


@pytest.mark.long
def test_a_metric_that_the_kind_lacks_is_refused_and_the_remedy_works() -> None:
    frame = uneven(0.4)
    with pytest.raises(InvalidInputError, match="use 'accuracy' or 'auc' or 'log-loss', or leave it out"):
        audit(frame, Settings("sick"), draws=4, attacks=False, metric="r2")
    with pytest.raises(InvalidInputError, match="must be one of r2, accuracy, auc, log-loss, deviance; got 'roc'"):
        audit(frame, Settings("sick"), draws=4, attacks=False, metric="roc")
    for metric in ("accuracy", "auc", "log-loss"):
        result = audit(frame, Settings("sick"), draws=4, attacks=False, balance=True, metric=metric)
        assert result.tradeoff.metric.name == metric.replace("-", "_")
        assert result.balance is not None
        middle = result.tradeoff.points[len(result.tradeoff.points) // 2]
        assert result.balance.utility_before == pytest.approx(middle.utility, rel=1e-9)
        check_summary(summarise(result))


def test_the_error_of_a_gain_is_that_of_the_rows() -> None:
    """Against the exact variance of a mean, and against tables that are drawn again."""
    trained = train(from_frame(uneven(0.45, 2000)), Settings("sick"))
    found = tradeoff(trained, [0.1], 4, 0).led_by("accuracy")
    z = trained.design.X_test @ trained.fit.coef + trained.fit.intercept
    right, guess = (z > 0) == (trained.design.y_test > 0.5), trained.design.y_test <= 0.5
    error = np.std(right.astype(float) - guess, ddof=1) / np.sqrt(right.size)
    assert found.unsure_gain == pytest.approx(2.09 * error, rel=0.4)
    for metric in ("auc", "log_loss"):
        assert (
            0
            < found.led_by(metric).unsure_gain
            < abs(found.led_by(metric).without_noise - found.led_by(metric).constant)
        )


def test_rules_on_utility_keep_the_measure_of_the_kind(tmp_path: Path) -> None:
    policy = tmp_path / "p.toml"
    policy.write_text("[utility]\nmin = 0.82\n", encoding="utf-8")
    results = [
        audit(uneven(0.17), Settings("sick"), noise=0.01, attacks=False, policy=read_policy(policy), metric=metric)
        for metric in (None, "log-loss")
    ]
    for result in results:
        (rule,) = (rule for rule in result.rules if rule.name == "utility.min")
        assert rule.words.startswith("accuracy (part of the rows classified correctly) with the noise is 0.8")
        assert rule.passed
    assert [result.tradeoff.metric.name for result in results] == ["auc", "log_loss"]


def test_shares_of_a_gain_are_shown_where_it_is_above_its_error() -> None:
    """At 17 % positives accuracy gains nothing that could be told from nothing, and the AUC does."""
    by = {
        metric: summarise(audit(uneven(0.17), Settings("sick"), draws=20, attacks=False, metric=metric))
        for metric in ("accuracy", "auc")
    }
    assert all(choice["kept"] is None for choice in by["accuracy"]["choices"])
    assert "no share of" in by["accuracy"]["tradeoff"]["note"]
    assert all(choice["kept"] > 0 for choice in by["auc"]["choices"])


# in words

METRICS = {metric.name: metric for kind in KINDS for metric in kind.metrics}


def curve(name: str, utilities: Sequence[float], unsure: float = 0.01, unsure_gain: float = 0.1) -> Tradeoff:
    """Without noise, with more and more of it, and of the baseline."""
    without, *noisy, constant = utilities
    points = [UtilityPoint(2.0**k, each, each, each, unsure) for k, each in enumerate(noisy)]
    return Tradeoff(METRICS[name], without, constant, True, 750, 100, tuple(points), unsure_gain)


@pytest.mark.parametrize(
    ("name", "utilities"),
    [("auc", (0.8, 0.79, 0.7, 0.5)), ("log_loss", (0.3, 0.31, 0.4, 0.6)), ("accuracy", (0.8, 0.8, 0.65, 0.6))],
)
def test_a_curve_that_falls_needs_no_words(name: str, utilities: Sequence[float]) -> None:
    cost = curve(name, utilities)
    assert rise_in_words(cost) == gain_in_words(cost) == []


def test_what_is_not_written_does_not_rise() -> None:
    assert rise_in_words(curve("accuracy", (0.8, 0.80004, 0.7, 0.6))) == []
    assert rise_in_words(curve("auc", (0.8, 0.80004, 0.7, 0.6))) == []


def test_a_rise_within_the_error_of_the_draws_is_no_gain() -> None:
    cost = curve("accuracy", (0.8, 0.78, 0.782, 0.7, 0.6))
    assert rise_in_words(cost) == [
        "At some noise scales utility rises with more noise: accuracy by 0.2 points (± 1.4 points). That is within the error of "
        "the 100 draws of noise: it is no gain."
    ]


@pytest.mark.parametrize(("name", "utilities"), [("auc", (0.8, 0.79, 0.84, 0.5)), ("log_loss", (0.34, 0.35, 0.3, 0.6))])
def test_a_rise_beyond_it_is_said_to_be_one(name: str, utilities: Sequence[float]) -> None:
    (said,) = rise_in_words(curve(name, utilities))
    assert f"{'AUC' if name == 'auc' else 'log loss'} by 0.05 (± 0.0141)." in said
    assert "more than the error of the 100 draws" in said
    assert "on these 750 rows that happens to help" in said


def test_other_measures_are_told_too() -> None:
    cost = replace(curve("auc", (0.8, 0.7, 0.5)), also=(curve("accuracy", (0.8, 0.805, 0.79)),))
    (said,) = rise_in_words(cost)
    assert "accuracy by 0.5 points" in said
    assert "AUC" not in said


def test_a_gain_within_its_own_error_has_no_shares() -> None:
    cost = curve("accuracy", (0.835, 0.831, 0.83), unsure_gain=0.02)
    assert cost.gain is None
    assert gain_in_words(cost) == [
        "The gain over the baseline in accuracy, 0.5 points, is within its own error (± 2.0 points, from 750 rows): no share "
        "of it is shown."
    ]
    assert curve("accuracy", (0.835, 0.831, 0.83), unsure_gain=0.004).gain == pytest.approx(0.005)
    assert curve("log_loss", (0.3, 0.31, 0.6), unsure_gain=0.1).gain == pytest.approx(-0.3)
    assert "unknown, of so few rows" in gain_in_words(curve("auc", (0.8, 0.7, 0.5), unsure_gain=float("nan")))[0]
    assert "no better than the baseline" in gain_in_words(curve("r2", (-0.1, -0.2, 0.0)))[0]


@pytest.mark.parametrize(
    ("metric", "noisy", "said"),
    [
        ("auc", 0.66, ""),
        ("auc", 0.509, "hardly"),
        ("auc", 0.499, "no"),
        ("log_loss", 0.41, ""),
        ("log_loss", 0.499, "hardly"),
    ],
)
def test_how_little_a_release_is_better_than_the_baseline(metric: str, noisy: float, said: str) -> None:
    without = {"auc": 0.6, "log_loss": 0.4}[metric]
    assert curve(metric, (without, noisy, 0.5)).how_little(noisy) == said


def test_every_measure_has_words() -> None:
    assert {name: measured(name, 0.5) for name in METRICS} == {
        "r2": "R² 0.5",
        "accuracy": "50 %",
        "auc": "AUC 0.5",
        "log_loss": "log loss 0.5",
        "deviance": "deviance 0.5",
    }
