"""The black box: prior times what the answers say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from attacks.clinic import DOSE, MODELS, TABLE, pipeline


def test_black_box_regression_is_prior_times_density() -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    attack = fl.attacks.BlackBox(model, TABLE, DOSE, "gene")
    residual = DOSE - model.predict(TABLE)
    variance = (residual**2).sum() / (120 - 5)
    scores = []
    for value, prior in zip(attack.values, attack.prior, strict=True):
        miss = model.predict(TABLE.assign(gene=value)) - DOSE
        scores.append(np.log(prior) - miss**2 / (2 * variance))
    assert (attack.infer() == np.array(attack.values)[np.argmax(scores, axis=0)]).all()


@pytest.mark.parametrize("name", ["logistic", "ridge classifier"])
def test_black_box_classification_is_prior_times_confusion(name: str) -> None:
    model, y = MODELS[name]
    model = clone(model).fit(TABLE, y)
    attack = fl.attacks.BlackBox(model, TABLE, y, "smoker")
    said = model.predict(TABLE)
    scores = []
    for value, prior in zip(attack.values, attack.prior, strict=True):
        answer = model.predict(TABLE.assign(smoker=value))
        scores.append([prior * np.mean(said[y == truth] == a) for truth, a in zip(y, answer, strict=True)])
    table = np.array(scores)
    clear = np.abs(table[0] - table[1]) > 1e-12
    assert (attack.infer()[clear] == np.array(attack.values)[np.argmax(table, axis=0)][clear]).all()


CLASSES = np.digitize(DOSE, np.quantile(DOSE, [0.33, 0.7]))


@pytest.mark.parametrize("attribute", ["gene", "label"])
@pytest.mark.parametrize("last", [LogisticRegression(tol=1e-10, max_iter=2000), RidgeClassifier()])
def test_several_classes_have_a_confusion_matrix_of_their_own(last: Any, attribute: str) -> None:
    model = pipeline(last).fit(TABLE, CLASSES)
    attack = fl.attacks.BlackBox(model, TABLE, CLASSES, attribute)
    said = model.predict(TABLE)
    confusion = np.array([[np.mean(said[k == CLASSES] == c) for c in range(3)] for k in range(3)])
    scores = []
    for value, prior in zip(attack.values, attack.prior, strict=True):
        answer = said if attribute == "label" else model.predict(TABLE.assign(gene=value))
        known = np.full(120, value) if attribute == "label" else CLASSES
        scores.append(prior * confusion[known, answer])
    table = np.array(scores)
    top = np.sort(table, axis=0)
    clear = top[-1] - top[-2] > 1e-12
    assert clear.mean() > 0.5
    assert (attack.infer()[clear] == np.array(attack.values)[np.argmax(table, axis=0)][clear]).all()


@pytest.mark.parametrize("attribute", ["gene", ("label", 1)])
def test_several_numbers_have_a_density_each(attribute: Any) -> None:
    Y = np.column_stack([DOSE, np.round(DOSE / 2 + TABLE.age / 20)])
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, Y)
    attack = fl.attacks.BlackBox(model, TABLE, Y, attribute)
    variance = ((Y - model.predict(TABLE)) ** 2).sum(axis=0) / (120 - 5)
    scores = []
    for value, prior in zip(attack.values, attack.prior, strict=True):
        if attribute == "gene":
            miss = model.predict(TABLE.assign(gene=value)) - Y
        else:
            miss = model.predict(TABLE) - np.column_stack([Y[:, 0], np.full(120, value)])
        scores.append(np.log(prior) - (miss**2 / (2 * variance)).sum(axis=1))
    assert (attack.infer() == np.array(attack.values)[np.argmax(scores, axis=0)]).all()


def test_a_release_with_folded_scalers_answers_as_it_does_for_several_classes() -> None:
    numbers = TABLE.assign(gene=(TABLE.gene == "TT") * 1.0, smoker=(TABLE.smoker == "yes") * 1.0)
    model = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-10, max_iter=2000)).fit(numbers, CLASSES)
    attack = fl.attacks.BlackBox(model, numbers, CLASSES, "smoker")
    released = fl.release(model, fl.Gaussian(1e-9), 0)
    assert (attack.infer(released) == attack.infer()).all()
