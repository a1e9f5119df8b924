"""The black box: prior times what the answers say."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

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
