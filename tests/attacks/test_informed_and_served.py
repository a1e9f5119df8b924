"""The attacker with what the other columns suggest: better than his parts, exact where there is a closed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier

import fisherleak as fl
from attacks.clinic import DOSE, HIGH, TABLE, pipeline
from fisherleak._support.arrays import host
from fisherleak.models import final_estimator
from fisherleak.models.rebuilt import rebuilt
from fisherleak.models.several import all_parameters

pytestmark = pytest.mark.usefixtures("quick_audits")


@pytest.fixture(scope="module")
def linked() -> tuple[object, pd.DataFrame, np.ndarray]:
    """A habit that age tells most of."""
    rng = np.random.default_rng(5)
    table = TABLE.copy()
    table["smoker"] = np.where(rng.random(len(table)) < 1 / (1 + np.exp((table["age"] - 50) / 3)), "yes", "no")
    return pipeline(Ridge(alpha=0.5)).fit(table, DOSE), table, DOSE


def test_knows_more_than_his_parts(linked: tuple[object, pd.DataFrame, np.ndarray]) -> None:
    model, table, y = linked
    informed = fl.attacks.Informed(model, table, y, "smoker")
    common = fl.attacks.WhiteBox(model, table, y, "smoker", use_prior=True)
    for scale in (0.1, 0.5):
        noise = fl.Gaussian(scale)
        outcome = informed.against(noise)
        assert outcome.accuracy > common.against(noise).accuracy + 0.02
        assert outcome.accuracy > outcome.baseline > 0.7
    assert informed.against(fl.Gaussian(1e6)).accuracy == pytest.approx(informed.against(fl.Gaussian(1e6)).baseline)
    assert informed.against(fl.Gaussian(1e-6)).accuracy == 1.0


def test_the_closed_form_is_the_simulation_s_mean(linked: tuple[object, pd.DataFrame, np.ndarray]) -> None:
    attack = fl.attacks.Informed(*linked, "smoker")
    draws = 4000
    exact, simulated = (
        attack.accuracy(fl.Gaussian(0.2)),
        np.mean(attack._simulated(fl.Gaussian(0.2), draws, 0), axis=0),
    )
    assert np.abs(exact - simulated).max() < 5 * np.sqrt(0.25 / draws)


def test_shares_the_moves_of_another(linked: tuple[object, pd.DataFrame, np.ndarray]) -> None:
    known = fl.attacks.WhiteBox(*linked, "smoker", use_prior=True)
    made = fl.attacks.Informed.like(known)
    assert made.moves is known.moves
    noise = fl.Gaussian(0.2)
    np.testing.assert_allclose(made.accuracy(noise), fl.attacks.Informed(*linked, "smoker").accuracy(noise))
    assert known.target.beliefs is None


def test_a_prior_of_one_s_own_is_refused(linked: tuple[object, pd.DataFrame, np.ndarray]) -> None:
    with pytest.raises(fl.InvalidInputError, match="learns one for each row"):
        fl.attacks.Informed(*linked, "smoker", prior=[0.5, 0.5])
    with pytest.raises(fl.InvalidInputError, match="no option 'use_prior'"):
        fl.attacks.Informed(*linked, "smoker", use_prior=True)


LINEAR = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
CLASSES = pipeline(LogisticRegression(C=2.0, tol=1e-12, solver="newton-cholesky")).fit(TABLE, HIGH)
THIRDS = np.array(["low", "mid", "top"])[np.digitize(DOSE, np.quantile(DOSE, [0.33, 0.67]))]
EXACT: Any = {"tol": 1e-12, "max_iter": 10_000}
SEVERAL = {
    "softmax": pipeline(LogisticRegression(C=2.0, solver="newton-cg", **EXACT)),
    "each class": pipeline(OneVsRestClassifier(LogisticRegression(C=2.0, solver="newton-cholesky", **EXACT))),
    "ridge": pipeline(RidgeClassifier(alpha=2.0)),
}


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


def served(released: Any, answer: str, step: float, features: Any) -> Any:
    """What scikit-learn's own model serves, (m, numbers)."""
    if answer == "label":
        return released.predict(features)[:, None] == np.array(["low", "mid", "top"])
    scores = released.predict_proba(features) if answer == "probability" else released.decision_function(features)
    return np.round(scores / step)


@pytest.mark.parametrize(
    ("kind", "answer", "step"),
    [
        ("softmax", "label", 0.0),
        ("softmax", "probability", 0.1),
        ("softmax", "score", 0.5),
        ("each class", "label", 0.0),
        ("each class", "score", 0.5),
        ("ridge", "label", 0.0),
    ],
)
def test_of_several_classes_it_is_the_best_guess_by_scikit_learns_own_refits_and_answers(
    kind: str, answer: str, step: float
) -> None:
    """Refitted with every candidate, released by hand, asked for its answers; then how often it is right, by Monte Carlo."""
    model, noise, rows = clone(SEVERAL[kind]).fit(TABLE, THIRDS), fl.Gaussian(0.3), [3, 20, 41, 77, 90]
    attack = fl.attacks.Served(model, TABLE, THIRDS, "gene", rows=rows, answer=answer, step=step)
    features, own = model[0].transform(TABLE), model[0].transform(TABLE.iloc[rows])
    with_gene = [model[0].transform(TABLE.iloc[rows].assign(gene=gene)) for gene in attack.values]
    refits = np.empty((3, 5, all_parameters(final_estimator(model)).size))
    for k in range(3):
        for place, i in enumerate(rows):
            changed = features.copy()
            changed[i] = with_gene[k][place]
            refits[k, place] = all_parameters(final_estimator(clone(model[-1]).fit(changed, THIRDS)))
    draws = 60
    given, right = all_parameters(final_estimator(model)), np.zeros(5)
    for seen in given + noise.draw(draws * given.size, 7).reshape(draws, -1):
        released = rebuilt(model[-1], seen, "nothing")
        told = served(released, answer, step, own)
        same = [np.all(served(released, answer, step, each) == told, axis=1) for each in with_gene]
        score = -((seen - refits) ** 2).sum(axis=2) / (2 * 0.3**2) + np.log(attack.prior)[:, None]
        best = np.array(attack.values)[np.argmax(np.where(same, score, -np.inf), axis=0)]
        np.testing.assert_array_equal(attack.infer(seen, noise), best)
        right += (best == TABLE["gene"].to_numpy()[rows]) / draws
    stated = np.asarray(attack.accuracy(noise, draws=600))
    deviation = np.sqrt(np.maximum(stated * (1 - stated), 0.01) * (1 / draws + 1 / 600))
    assert np.all(np.abs(right - stated) <= 4 * deviation)
    without = fl.attacks.WhiteBox(model, TABLE, THIRDS, "gene", use_prior=True, rows=rows)
    assert stated.mean() >= np.mean(without._simulated(noise, 600, 0)) - 0.02


@pytest.mark.parametrize("kind", SEVERAL)
def test_exact_scores_of_several_classes_tell_the_value_under_any_noise(kind: str) -> None:
    model = clone(SEVERAL[kind]).fit(TABLE, THIRDS)
    attack = fl.attacks.Served(model, TABLE, THIRDS, "gene", answer="score")
    assert fl.attacks.Served.like(fl.attacks.WhiteBox(model, TABLE, THIRDS, "gene")).answer == "label"
    np.testing.assert_array_equal(attack.accuracy(fl.Laplace(5.0), draws=20), 1.0)


def test_several_numbers_are_all_served() -> None:
    Y = np.column_stack([DOSE, -(DOSE**2)])
    attack = fl.attacks.Served(pipeline(Ridge()).fit(TABLE, Y), TABLE, Y, "gene", step=2.0)
    one = fl.attacks.Served(pipeline(Ridge()).fit(TABLE, DOSE), TABLE, DOSE, "gene", step=2.0)
    assert attack.answer == "score"
    assert attack.accuracy(fl.Gaussian(1.0)).mean() > one.accuracy(fl.Gaussian(1.0)).mean()


def test_two_classes_through_softmax_are_served_alike() -> None:
    """What is served of two classes tells the same by either loss, with what the noise hides made the same."""
    X = np.column_stack([TABLE["age"] / 50, TABLE["smoker"] == "yes"]).astype(float)
    one, two = fl.minimise(X, HIGH, loss="logistic", l2=0.1), fl.minimise(X, HIGH, loss="softmax", l2=0.2)
    for answer in ("label", "probability"):
        options: Any = {"values": [0.0, 1.0], "answer": answer, **({"step": 0.05} if answer == "probability" else {})}
        attacks = [fl.attacks.Served(fit, X, HIGH, 1, **options) for fit in (one, two)]
        # half the logistic coefficients, with opposite signs; noise of each is that of their difference over root 2
        found = [float(np.mean(attacks[k].accuracy(fl.Gaussian(scale), 2000))) for k, scale in enumerate((1, 0.5**0.5))]
        assert found[0] == pytest.approx(found[1], abs=0.02)
    model = pipeline(RidgeClassifier()).fit(TABLE, HIGH)
    with pytest.raises(fl.InvalidInputError, match="'score' or 'label'; got 'probability'"):
        fl.attacks.Served(model, TABLE, HIGH, "gene", answer="probability")


@pytest.mark.parametrize(("loss", "K"), [("logistic", 2), ("softmax", 3)])
def test_the_same_in_every_library(to_backend: Callable[[Any], Any], loss: str, K: int) -> None:
    X = np.column_stack([TABLE["age"] / 50, TABLE["smoker"] == "yes"]).astype(float)
    y = np.digitize(DOSE, np.quantile(DOSE, np.arange(1, K) / K)).astype(float)
    found = []
    for to in (np.asarray, to_backend):
        fit = fl.minimise(to(X), to(y), loss=loss, l2=0.1, intercept=True)
        attack = fl.attacks.Served(fit, to(X), to(y), 1, values=[0.0, 1.0])
        found.append(attack.accuracy(fl.Gaussian(0.3), draws=50))
    np.testing.assert_allclose(np.asarray(host(found[1])), found[0], rtol=1e-12)


def test_shares_the_moves_and_the_beliefs_of_another() -> None:
    beliefs = np.random.default_rng(0).dirichlet(np.ones(2), size=len(TABLE))
    known = fl.attacks.WhiteBox(CLASSES, TABLE, HIGH, "smoker", prior=beliefs, use_prior=True)
    made = fl.attacks.Served.like(known)
    assert made.moves is known.moves
    assert made.target.beliefs is known.target.beliefs
    outcome = made.against(fl.Gaussian(0.3))
    assert (outcome.attacker, outcome.trials) == ("white-box, served answer", 1000)


@pytest.mark.usefixtures("quick_audits")
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
    with pytest.raises(fl.InvalidInputError, match="here labels are served"):
        fl.attacks.Served(CLASSES, TABLE, HIGH, "gene", step=0.1)
