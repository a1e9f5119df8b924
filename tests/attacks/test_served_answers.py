"""The attacker who saw the answer for the record: never worse than without it, certain where scores are exact."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import fisherleak as fl
from attacks.clinic import DOSE, HIGH, TABLE, pipeline

LINEAR = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
CLASSES = pipeline(LogisticRegression(C=2.0, tol=1e-12, solver="newton-cholesky")).fit(TABLE, HIGH)


@pytest.mark.parametrize("attribute", ["gene", "smoker"])
def test_an_exact_score_tells_the_value_under_any_noise(attribute: str) -> None:
    attack = fl.attacks.Served(LINEAR, TABLE, DOSE, attribute)
    assert attack.answer == "score"
    for noise in (fl.Gaussian(1e-3), fl.Gaussian(100.0), fl.Laplace(5.0)):
        np.testing.assert_array_equal(attack.accuracy(noise, draws=20), 1.0)


def test_scores_of_few_digits_tell_less() -> None:
    noise = fl.Gaussian(0.3)
    right = [
        float(fl.attacks.Served(LINEAR, TABLE, DOSE, "gene", step=step).accuracy(noise).mean())
        for step in (0.0, 0.5, 4.0, 1e6)
    ]
    assert right[0] == 1.0
    assert right[0] > right[1] > right[2] > right[3]
    without = fl.attacks.WhiteBox(LINEAR, TABLE, DOSE, "gene", use_prior=True)
    assert right[3] == pytest.approx(float(np.mean(without._simulated(noise, 200, 0))))


@pytest.mark.parametrize("noise", [fl.Gaussian(0.05), fl.Gaussian(0.5), fl.Laplace(0.3)])
def test_a_class_rules_candidates_out(noise: fl.Noise) -> None:
    """By hand: of the candidates that the release puts into the class that was served, the most probable."""
    attack = fl.attacks.Served(CLASSES, TABLE, HIGH, "gene")
    without = fl.attacks.WhiteBox(CLASSES, TABLE, HIGH, "gene", use_prior=True)
    assert attack.answer == "label"
    theta = attack._drawn(noise, 30, 3)
    order = attack.target.by_prior
    features = [np.column_stack([attack.target.changed(k), np.ones(len(TABLE))]) for k in order]
    b = theta - attack.target.fit.theta
    for t in range(0, 30, 7):
        for i in range(0, len(TABLE), 11):
            said = [float(features[k][i] @ theta[t]) > 0 for k in range(3)]
            served = said[order.tolist().index(int(attack.target.truth[i]))]
            score = [
                float(noise.log_density(b[t] - without.moves[order[k]].values[i])) + np.log(attack.prior[order[k]])
                for k in range(3)
            ]
            can_be = [k for k in range(3) if said[k] == served]
            assert attack.guess(theta[t : t + 1], noise)[0, i] == order[max(can_be, key=lambda k: score[k])]
    assert attack.accuracy(noise).mean() >= np.mean(without._simulated(noise, 200, 0)) - 1e-12


def test_shares_the_moves_and_the_beliefs_of_another() -> None:
    beliefs = np.random.default_rng(0).dirichlet(np.ones(2), size=len(TABLE))
    known = fl.attacks.WhiteBox(CLASSES, TABLE, HIGH, "smoker", prior=beliefs, use_prior=True)
    made = fl.attacks.Served.like(known)
    assert made.moves is known.moves
    assert made.target.beliefs is known.target.beliefs
    outcome = made.against(fl.Gaussian(0.3))
    assert (outcome.attacker, outcome.trials) == ("white-box, served answer", 1000)


@pytest.mark.usefixtures("few_trees")
def test_may_be_informed() -> None:
    beliefs = fl.attacks.Served(CLASSES, TABLE, HIGH, "smoker", informed=True).target.beliefs
    assert beliefs is not None
    assert beliefs.shape == (120, 2)


def test_what_has_no_answer_is_refused() -> None:
    with pytest.raises(fl.InvalidInputError, match="'score', since the model has no classes"):
        fl.attacks.Served(LINEAR, TABLE, DOSE, "gene", answer="label")
    attack = fl.attacks.Served(CLASSES, TABLE, HIGH, "gene")
    with pytest.raises(fl.InvalidInputError, match="would not be certain"):
        fl.calibrate(attack, accuracy=0.6)
    with pytest.raises(fl.InvalidInputError, match="must know the noise"):
        attack.infer(CLASSES)
    with pytest.raises(fl.InvalidInputError, match="over must be 'rows'"):
        attack.accuracy(fl.Gaussian(1.0), over="prior")
    with pytest.raises(fl.InvalidInputError, match="step"):
        fl.attacks.Served(LINEAR, TABLE, DOSE, "gene", step=-1.0)
