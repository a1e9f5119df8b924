"""Attackers of noise that the data shape: their likelihood is that of refits, and no simpler attacker is right more often."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

import fisherleak as fl
from cases import Case, make, parameters, slanted
from fisherleak.attacks.likelihoods.data_dependent_likelihood import ShapedLikelihood

Vector = NDArray[np.float64]
CASE = make("squared", n=14, weighted=True, intercept=True, l2=0.05)
WAYS: list[Any] = [fl.Posterior(0.3), fl.ObjectivePerturbation(1.7), fl.ObjectivePerturbation(1.7, shape=slanted(4))]
every_way = pytest.mark.parametrize("way", WAYS, ids=["Posterior", "ObjectivePerturbation", "shaped"])
VALUES = [-2.0, 0.0, 2.0]


def distribution(case: Case, way: Any) -> Any:
    """What is released, from the rows and a refit alone."""
    X = np.column_stack([case.X, np.ones(len(case.X))])
    omega = np.asarray(case.weights)
    H = (X * omega[:, None]).T @ X + np.diag([*[len(X) * case.l2] * 3, 0.0])
    B = np.linalg.inv(H)
    C = B if isinstance(way, fl.Posterior) or way.shape is None else way.shape @ B
    S = way.temperature * B if isinstance(way, fl.Posterior) else way.scale**2 * B @ C
    return multivariate_normal(parameters(case.fit()), 0.5 * (S + S.T))


def with_value(row: int, column: int | None, value: float) -> Case:
    X, y = CASE.X.copy(), CASE.y.copy()
    if column is None:
        y[row] = value
    else:
        X[row, column] = value
    return replace(CASE, X=X, y=y)


def without(row: int) -> Case:
    weights = np.asarray(CASE.weights).copy()
    weights[row] = 0.0
    return replace(CASE, weights=weights)


@every_way
def test_the_likelihood_is_that_of_refits(way: Any) -> None:
    fit = CASE.fit()
    attack = fl.attacks.WhiteBox(fit, CASE.X, CASE.y, 1, values=VALUES)
    drawn = way.released_draws(fit, 20, np.random.default_rng(0))
    own = distribution(CASE, way).logpdf(drawn)
    likelihood = ShapedLikelihood.of(way, fit, CASE.X, np.arange(14))
    for k, value in enumerate(VALUES):
        rows = np.column_stack([attack.target.changed(k), np.ones(14)])
        found = likelihood.ratio(drawn - parameters(fit), attack.moves[k].values, rows)
        for row in (0, 2, 9):
            expected = distribution(with_value(row, 1, value), way).logpdf(drawn) - own
            np.testing.assert_allclose(found[:, row], expected, rtol=1e-6, atol=1e-7)
    membership = fl.attacks.Membership(fit, CASE.X, CASE.y)
    found = likelihood.ratio(drawn - parameters(fit), membership.moves, None)
    for row in (0, 2, 9):
        np.testing.assert_allclose(
            found[:, row], distribution(without(row), way).logpdf(drawn) - own, rtol=1e-6, atol=1e-7
        )


@every_way
@pytest.mark.parametrize("column", [1, None])
def test_guesses_are_the_likeliest_values_of_refits(way: Any, column: int | None) -> None:
    fit = CASE.fit()
    for use_prior in (False, True):
        attack = fl.attacks.WhiteBox(
            fit,
            *(CASE.X, CASE.y, "label" if column is None else column),
            values=VALUES,
            prior=[0.2, 0.5, 0.3],
            use_prior=use_prior,
            rows=[2, 9],
        )
        drawn = way.released_draws(fit, 300, np.random.default_rng(1))
        guesses = attack.infer(drawn, way)
        bonus = np.log([0.2, 0.5, 0.3]) if use_prior else np.zeros(3)
        for place, row in enumerate((2, 9)):
            scores = np.stack([distribution(with_value(row, column, v), way).logpdf(drawn) for v in VALUES])
            best = np.array(VALUES)[np.argmax(scores + bonus[:, None], axis=0)]
            np.testing.assert_array_equal(guesses[:, place], best)


@every_way
def test_the_attacker_who_knows_the_shape_is_right_more_often_than_who_takes_the_nearest_model(way: Any) -> None:
    """Two values at equal odds, each the truth in half of the releases: the best test there is."""
    row, value = 4, float(CASE.X[4, 1]) + 3.0
    right = []
    for truth, other in ((CASE, with_value(row, 1, value)), (with_value(row, 1, value), CASE)):
        pair = [float(truth.X[row, 1]), float(other.X[row, 1])]
        attack = fl.attacks.WhiteBox(truth.fit(), truth.X, truth.y, 1, values=pair, rows=[row])
        drawn = way.released_draws(truth.fit(), 4000, np.random.default_rng(2))
        right.append([float(np.mean(attack.infer(drawn, known) == pair[0])) for known in (way, None)])
        assert attack.accuracy(way, draws=4000)[0] == pytest.approx(right[-1][0], abs=0.03)
        assert attack.against(way, draws=400).accuracy == pytest.approx(right[-1][0], abs=0.08)
    knowing, nearest = np.mean(right, axis=0)
    assert knowing > nearest + 0.01


@every_way
def test_presence_is_told_as_the_best_test_of_refits_tells_it(way: Any) -> None:
    fit, rows = CASE.fit(), [2, 9]
    attack = fl.attacks.Membership(fit, CASE.X, CASE.y, rows=rows)
    found = attack.simulate(way, 20_000, 0)
    rng = np.random.default_rng(5)
    for place, row in enumerate(rows):
        here, there = distribution(CASE, way), distribution(without(row), way)
        absent = there.rvs(20_000, random_state=rng)
        right = np.mean(there.logpdf(absent) > here.logpdf(absent))
        present = here.rvs(20_000, random_state=rng)
        right = 0.5 * (right + np.mean(here.logpdf(present) > there.logpdf(present)))
        assert found.accuracy[place] == pytest.approx(float(right), abs=0.015)
        inferred = attack.infer(present[:50], way)[:, place]
        np.testing.assert_array_equal(inferred, here.logpdf(present[:50]) > there.logpdf(present[:50]))


@every_way
def test_draws_without_a_row_are_those_of_a_refit(way: Any) -> None:
    fit, row = CASE.fit(), 4
    likelihood = ShapedLikelihood.of(way, fit, CASE.X, np.arange(14))
    move = fl.attacks.Membership(fit, CASE.X, CASE.y).moves[row]
    drawn = parameters(fit) + likelihood.without(row, move, 200_000, np.random.default_rng(3))
    expected = distribution(without(row), way)
    root = np.linalg.inv(np.linalg.cholesky(expected.cov))
    white = (drawn - expected.mean) @ root.T
    np.testing.assert_allclose(white.mean(axis=0), 0.0, atol=0.015)
    np.testing.assert_allclose(np.cov(white.T), np.eye(4), atol=0.02)


@every_way
def test_what_has_no_closed_form_is_refused_by_name(way: Any) -> None:
    name = type(way).__name__
    other = make("pseudo_huber", n=30, intercept=True)
    attack = fl.attacks.WhiteBox(CASE.fit(), CASE.X, CASE.y, 1, values=VALUES)
    attempts: list[Any] = [
        lambda: attack.certain_accuracy(way),
        lambda: attack.accuracy(way, over="prior"),
        lambda: fl.attacks.WhiteBox(other.fit(), other.X, other.y, 0, values=[-1.0, 1.0]).accuracy(way),
        lambda: fl.attacks.Membership(other.fit(), other.X, other.y).simulate(way, 10),
        lambda: fl.attacks.Membership(CASE.fit(), CASE.X, CASE.y).auc(way),
        lambda: fl.attacks.BlackBox(other.fit(), other.X, other.y, 0, values=[-1.0, 1.0]).accuracy(way),
    ]
    for attempt in attempts:
        with pytest.raises(fl.InvalidInputError, match=name):
            attempt()
    assert 0.0 <= fl.attacks.BlackBox(CASE.fit(), CASE.X, CASE.y, 1, values=VALUES).against(way).accuracy <= 1.0
