"""Attackers of objective perturbation of losses other than the squared: their likelihood is that of the density written out.

Attackers of noise that the data shape: their likelihood is that of refits, and no simpler attacker is right more often.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal, norm

import fisherleak as fl
from cases import Case, make, parameters, slanted
from fisherleak.attacks.likelihoods import ShapedLikelihood, TiltedLikelihood, likelihood_of
from fisherleak.attacks.white_box import below_both

Vector = NDArray[np.float64]
WAY: Any = fl.ObjectivePerturbation(0.4)
LOSSES = ("logistic", "poisson", "gamma")
VALUES = [-2.0, 0.0, 2.0]


def cased(loss: str) -> Case:
    return make(loss, n=14, weighted=True, intercept=True, l2=0.05)


def log_density(case: Case, t: Vector, C: Vector | None = None) -> Vector:
    """Of what is released, (T,), from the rows alone: N(gradient; 0, sigma^2 C) |H|."""
    X = np.column_stack([case.X, np.ones(len(case.X))])
    loss, omega = case.fit().loss, np.asarray(case.weights)
    penalty = np.array([*[len(X) * case.l2] * case.X.shape[1], 0.0])
    found = []
    for one in t:
        z = X @ one
        g = X.T @ (omega * loss.r(z, case.y)) + penalty * one
        H = (X * (omega * loss.a(z, case.y))[:, None]).T @ X + np.diag(penalty)
        pulled = g if C is None else np.linalg.solve(C, g)
        found.append(-0.5 * g @ pulled / WAY.scale**2 + np.linalg.slogdet(H)[1])
    return np.array(found)


def with_value(case: Case, row: int, column: int | None, value: float) -> Case:
    X, y = case.X.copy(), case.y.copy()
    if column is None:
        y[row] = value
    else:
        X[row, column] = value
    return replace(case, X=X, y=y)


def without(case: Case, row: int) -> Case:
    weights = np.asarray(case.weights).copy()
    weights[row] = 0.0
    return replace(case, weights=weights)


def drawn(case: Case, count: int, seed: int = 0) -> Vector:
    return np.asarray(WAY.released_draws(case.fit(), count, np.random.default_rng(seed), (case.X, case.y)))


@pytest.mark.parametrize("loss", LOSSES)
def test_the_likelihood_is_that_of_the_density(loss: str) -> None:
    case = cased(loss)
    fit = case.fit()
    t = drawn(case, 20)
    own, b = log_density(case, t), t - parameters(fit)
    likelihood: Any = likelihood_of(WAY, fit, case.X, case.y, np.arange(14))
    assert isinstance(likelihood, TiltedLikelihood)
    other = np.column_stack([case.X, np.ones(14)])
    other[:, 1] = 2.0
    labels = case.y[::-1].copy()
    still = np.zeros((14, 4))
    by_value, by_label = likelihood.ratio(b, still, other), likelihood.ratio(b, still, other, labels)
    absent = likelihood.ratio(b, still, None)
    for row in (0, 2, 9):
        moved = with_value(case, row, 1, 2.0)
        np.testing.assert_allclose(by_value[:, row], log_density(moved, t) - own, rtol=1e-9, atol=1e-9)
        both = with_value(moved, row, None, labels[row])
        np.testing.assert_allclose(by_label[:, row], log_density(both, t) - own, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(absent[:, row], log_density(without(case, row), t) - own, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(likelihood.some([9]).ratio(b, still[:1], None)[:, 0], absent[:, 9])


def test_a_shape_of_the_perturbation_is_in_the_likelihood() -> None:
    case, row = cased("logistic"), 2
    C = np.array([[2.0, 0.3, 0.0, 0.1], [0.3, 1.0, 0.2, 0.0], [0.0, 0.2, 1.5, 0.0], [0.1, 0.0, 0.0, 0.7]])
    t = drawn(case, 20)
    likelihood: Any = likelihood_of(replace(WAY, shape=C), case.fit(), case.X, case.y, np.array([row]))
    found = likelihood.ratio(t - parameters(case.fit()), np.zeros((1, 4)), None)[:, 0]
    expected = log_density(without(case, row), t, C) - log_density(case, t, C)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("loss", "column"), [("logistic", 1), ("logistic", None), ("poisson", 1), ("gamma", 1)])
def test_guesses_are_the_likeliest_values(loss: str, column: int | None) -> None:
    case = cased(loss)
    values = sorted(set(case.y.tolist())) if column is None else VALUES
    prior = [0.7, 0.3] if column is None else [0.2, 0.5, 0.3]
    t = drawn(case, 60, 1)
    for use_prior in (False, True):
        attack = fl.attacks.WhiteBox(
            case.fit(),
            *(case.X, case.y, "label" if column is None else column),
            values=values,
            prior=prior,
            use_prior=use_prior,
            rows=[2, 9],
        )
        guesses = attack.infer(t, WAY)
        bonus = np.log(prior) if use_prior else np.zeros(len(values))
        for place, row in enumerate((2, 9)):
            scores = np.stack([log_density(with_value(case, row, column, v), t) for v in values])
            np.testing.assert_array_equal(
                guesses[:, place], np.array(values)[np.argmax(scores + bonus[:, None], axis=0)]
            )


def test_membership_is_told_as_the_best_test_tells_it() -> None:
    """Draws without the row are those of a fit without it."""
    case, row = cased("logistic"), 2
    attack = fl.attacks.Membership(case.fit(), case.X, case.y, rows=[row])
    found = attack.simulate(WAY, 1000, 0)
    absent, present = drawn(without(case, row), 1000, 5), drawn(case, 1000, 6)
    there, here = (log_density(without(case, row), t) - log_density(case, t) for t in (absent, present))
    assert found.accuracy[0] == pytest.approx(0.5 * (np.mean(there > 0) + np.mean(here < 0)), abs=0.04)
    assert found.accuracy[0] > 0.55
    np.testing.assert_array_equal(attack.infer(present[:50], WAY)[:, 0], here[:50] < 0)
    likelihood = likelihood_of(WAY, case.fit(), case.X, case.y, np.array([row]))
    own = likelihood.without(0, np.zeros(4), 1000, np.random.default_rng(5)) + parameters(case.fit())
    np.testing.assert_allclose(own, absent, rtol=1e-6, atol=1e-8)


def test_the_attacker_who_knows_the_density_is_right_more_often_than_who_takes_the_nearest_model() -> None:
    case, row = cased("logistic"), 4
    other = with_value(case, row, 1, float(case.X[row, 1]) + 4.0)
    right = []
    for truth, beside in ((case, other), (other, case)):
        pair = [float(truth.X[row, 1]), float(beside.X[row, 1])]
        attack = fl.attacks.WhiteBox(truth.fit(), truth.X, truth.y, 1, values=pair, rows=[row])
        t = drawn(truth, 1500, 2)
        right.append([float(np.mean(attack.infer(t, known) == pair[0])) for known in (WAY, None)])
        assert attack.accuracy(WAY, draws=1500)[0] == pytest.approx(right[-1][0], abs=0.04)
    knowing, nearest = np.mean(right, axis=0)
    assert knowing > nearest + 0.01


def test_what_need_not_have_a_minimum_is_refused_by_name() -> None:
    case = cased("logistic")
    attack = fl.attacks.WhiteBox(case.fit(), case.X, case.y, 1, values=VALUES)
    with pytest.raises(fl.InvalidInputError, match="scale is 1000, and must be at most"):
        attack.accuracy(replace(WAY, scale=1000.0))
    bare = make("pseudo_huber", n=14, l2=0.05)
    with pytest.raises(fl.InvalidInputError, match="ObjectivePerturbation is known for the losses"):
        fl.attacks.WhiteBox(bare.fit(), bare.X, bare.y, 1, values=VALUES).accuracy(WAY)


CASE = make("squared", n=14, weighted=True, intercept=True, l2=0.05)
WAYS: list[Any] = [fl.Posterior(0.3), fl.ObjectivePerturbation(1.7), fl.ObjectivePerturbation(1.7, shape=slanted(4))]
every_way = pytest.mark.parametrize("way", WAYS, ids=["Posterior", "ObjectivePerturbation", "shaped"])


def distribution(case: Case, way: Any) -> Any:
    """What is released, from the rows and a refit alone."""
    X = np.column_stack([case.X, np.ones(len(case.X))])
    omega = np.asarray(case.weights)
    H = (X * omega[:, None]).T @ X + np.diag([*[len(X) * case.l2] * 3, 0.0])
    B = np.linalg.inv(H)
    C = B if isinstance(way, fl.Posterior) or way.shape is None else way.shape @ B
    S = way.temperature * B if isinstance(way, fl.Posterior) else way.scale**2 * B @ C
    return multivariate_normal(parameters(case.fit()), 0.5 * (S + S.T))


def with_value_data_dependent_likelihood(row: int, column: int | None, value: float) -> Case:
    X, y = CASE.X.copy(), CASE.y.copy()
    if column is None:
        y[row] = value
    else:
        X[row, column] = value
    return replace(CASE, X=X, y=y)


def without_data_dependent_likelihood(row: int) -> Case:
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
            expected = distribution(with_value_data_dependent_likelihood(row, 1, value), way).logpdf(drawn) - own
            np.testing.assert_allclose(found[:, row], expected, rtol=1e-6, atol=1e-7)
    membership = fl.attacks.Membership(fit, CASE.X, CASE.y)
    found = likelihood.ratio(drawn - parameters(fit), membership.moves, None)
    for row in (0, 2, 9):
        np.testing.assert_allclose(
            found[:, row],
            distribution(without_data_dependent_likelihood(row), way).logpdf(drawn) - own,
            rtol=1e-6,
            atol=1e-7,
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
            scores = np.stack(
                [distribution(with_value_data_dependent_likelihood(row, column, v), way).logpdf(drawn) for v in VALUES]
            )
            best = np.array(VALUES)[np.argmax(scores + bonus[:, None], axis=0)]
            np.testing.assert_array_equal(guesses[:, place], best)


@every_way
def test_the_attacker_who_knows_the_shape_is_right_more_often_than_who_takes_the_nearest_model(way: Any) -> None:
    """Two values at equal odds, each the truth in half of the releases: the best test there is."""
    row, value = 4, float(CASE.X[4, 1]) + 3.0
    right = []
    for truth, other in (
        (CASE, with_value_data_dependent_likelihood(row, 1, value)),
        (with_value_data_dependent_likelihood(row, 1, value), CASE),
    ):
        pair = [float(truth.X[row, 1]), float(other.X[row, 1])]
        attack = fl.attacks.WhiteBox(truth.fit(), truth.X, truth.y, 1, values=pair, rows=[row])
        drawn = way.released_draws(truth.fit(), 4000, np.random.default_rng(2))
        right.append([float(np.mean(attack.infer(drawn, known) == pair[0])) for known in (way, None)])
        assert attack.accuracy(way, draws=4000)[0] == pytest.approx(right[-1][0], abs=0.03)
        assert attack.against(way, draws=400).accuracy == pytest.approx(right[-1][0], abs=0.08)
    knowing, nearest = np.mean(right, axis=0)
    assert knowing > nearest + 0.01


@every_way
def test_membership_is_told_as_the_best_test_of_refits_tells_it(way: Any) -> None:
    fit, rows = CASE.fit(), [2, 9]
    attack = fl.attacks.Membership(fit, CASE.X, CASE.y, rows=rows)
    found = attack.simulate(way, 20_000, 0)
    rng = np.random.default_rng(5)
    for place, row in enumerate(rows):
        here, there = distribution(CASE, way), distribution(without_data_dependent_likelihood(row), way)
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
    expected = distribution(without_data_dependent_likelihood(row), way)
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


MARGINS = (-3.0, -0.7, 0.0, 1e-9, 0.4, 2.5, 50.0, np.inf, -np.inf)


@pytest.mark.parametrize("rho", [-0.999, -0.6, 0.0, 0.3, 0.95, 0.9999])
def test_agrees_with_scipy(rho: float) -> None:
    for h in MARGINS:
        for k in MARGINS:
            if np.isfinite(h) and np.isfinite(k):
                true = float(multivariate_normal.cdf([h, k], cov=[[1.0, rho], [rho, 1.0]], abseps=1e-12, releps=1e-12))
            else:
                true = 0.0 if -np.inf in (h, k) else float(norm.cdf(min(h, k)))
            assert float(below_both(h, k, rho)) == pytest.approx(true, abs=2e-9)


@pytest.mark.parametrize("rho", [1.0, 1.0 - 1e-16, -1.0])
def test_variables_on_one_line(rho: float) -> None:
    for h in MARGINS:
        for k in MARGINS:
            true = norm.cdf(min(h, k)) if rho > 0 else max(norm.cdf(h) + norm.cdf(k) - 1.0, 0.0)
            assert float(below_both(h, k, rho)) == pytest.approx(float(true), abs=1e-12)
