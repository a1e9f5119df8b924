"""Candidates for labels: classes, few numbers, bins of many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier

import fisherleak as fl
from attacks.clinic import DOSE, HIGH, TABLE, pipeline
from fisherleak.attacks.candidate_values import BINS, classifies

WORDS = np.where(HIGH == 1, "high", "low")


def test_classes_are_candidates_by_their_own_names() -> None:
    for last in (LogisticRegression(tol=1e-12, solver="newton-cholesky"), RidgeClassifier()):
        model = pipeline(last).fit(TABLE, WORDS)
        attack = fl.attacks.WhiteBox(model, TABLE, WORDS, "label")
        assert attack.values == ("high", "low")
        assert attack.target.name == "label"
        assert (attack.infer() == WORDS).all()
        assert attack.prior.tolist() == [np.mean(WORDS == "high"), np.mean(WORDS == "low")]
        assert classifies(model, attack.target.fit)


def test_many_numbers_are_binned_and_few_are_not() -> None:
    model = pipeline(Ridge()).fit(TABLE, DOSE)
    attack = fl.attacks.WhiteBox(model, TABLE, DOSE, "label")
    assert len(attack.values) == BINS
    assert np.isin(attack.values, DOSE).all()
    counts = np.bincount(np.asarray(attack.target.codes), minlength=BINS)
    assert counts.min() >= 3
    # the nearest bin is found where there is no noise
    assert attack.against().accuracy == 1.0
    few = np.round(DOSE)
    attack = fl.attacks.WhiteBox(pipeline(Ridge()).fit(TABLE, few), TABLE, few, "label")
    assert attack.values == tuple(np.unique(few).tolist())
    assert (attack.infer() == few).all()
    named = fl.attacks.WhiteBox(model, TABLE, DOSE, "label", values=[2.0, 4.0])
    assert named.values == (2.0, 4.0)


def test_a_column_of_that_name_is_the_column() -> None:
    table = TABLE.assign(label=np.arange(120) % 2)
    model = Ridge().fit(table[["age", "label"]], DOSE)
    assert fl.attacks.WhiteBox(model, table[["age", "label"]], DOSE, "label").target.encoded is None
    other = fl.attacks.WhiteBox(model, table[["age", "label"]], DOSE, ("label", 0), values=[2.0, 4.0])
    assert other.target.encoded == (2.0, 4.0)


def test_what_is_no_label_is_refused_by_name() -> None:
    X, counts = TABLE[["age"]].to_numpy() / 50, np.round(np.exp(DOSE / 4))
    model = pipeline(LogisticRegression(class_weight="balanced", tol=1e-12, solver="newton-cholesky")).fit(TABLE, WORDS)
    with pytest.raises(fl.UnsupportedModelError, match="class_weight cannot be attacked"):
        fl.attacks.WhiteBox(model, TABLE, WORDS, "label")
    poisson = fl.minimise(X, counts, "poisson", 1e-2)
    with pytest.raises(fl.InvalidInputError, match="zero or more; got -1"):
        fl.attacks.WhiteBox(poisson, X, counts, "label", values=[-1.0, 2.0])
    plain = pipeline(LogisticRegression()).fit(TABLE, WORDS)
    with pytest.raises(fl.InvalidInputError, match="'medium', which the label never has"):
        fl.attacks.WhiteBox(plain, TABLE, WORDS, "label", values=["high", "medium"])
    three = np.where(np.arange(120) % 3 == 0, "other", WORDS)
    model = pipeline(LogisticRegression()).fit(TABLE, three)
    with pytest.raises(fl.InvalidInputError, match="values must cover every attacked row"):
        fl.attacks.Prior(model, TABLE, three, "label", values=["high", "low"])
    several = fl.minimise(X, np.column_stack([DOSE, counts]))
    with pytest.raises(fl.InvalidInputError, match="y has 2 outputs: name the one under attack"):
        fl.attacks.Prior(several, X, np.column_stack([DOSE, counts]), "label")
    bad: Any
    for bad in (("label", 2), ("dose", 0), ("label",)):
        with pytest.raises(fl.InvalidInputError, match="attribute must be a column, 'label', or"):
            fl.attacks.Prior(several, X, np.column_stack([DOSE, counts]), bad)
