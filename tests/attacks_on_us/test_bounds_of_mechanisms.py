"""Nobody learns more of a value than eta says, whatever the mechanism: the best attacker there is, by simulation.

He knows all but one value, has a normal prior of it, computes the likelihood of what left on a fine grid from refits, and takes the
posterior mean: no estimator has a smaller mean squared error. Van Trees' inequality says that it is at least
:math:`1 / (E[\\eta^2] + 1 / s^2)`, the mean over the prior; an eta that is too small would be beaten here.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fisherleak as fl
from cases import Case, make, parameters
from often import often

Vector = NDArray[np.float64]
QUERIES = np.random.default_rng(7).normal(size=(40, 2))
ROW, COLUMN, DRAWS = 0, 0, 4000
WAYS: dict[str, tuple[Any, str]] = {
    "Gaussian": (fl.Gaussian(0.05), "squared"),
    "Laplace": (fl.Laplace(0.05), "squared"),
    "Bounded": (fl.Bounded(0.15), "squared"),
    "Posterior": (fl.Posterior(0.05), "squared"),
    "Posterior, hot": (fl.Posterior(1e4), "squared"),
    "ObjectivePerturbation": (fl.ObjectivePerturbation(0.5), "squared"),
    "ObjectivePerturbation, strong": (fl.ObjectivePerturbation(1e3), "squared"),
    "ObjectivePerturbation, averaged": (fl.ObjectivePerturbation(0.03, draws=1000), "logistic"),
    "Answers": (fl.Answers(QUERIES[:4], fl.Laplace(0.015)), "squared"),
    "Answers, probabilities": (fl.Answers(QUERIES[:4], fl.Gaussian(0.02), of="probability"), "logistic"),
    "SampledLabels": (fl.SampledLabels(np.repeat(QUERIES, 10, axis=0)), "logistic"),
}
OWN, SPREAD = 2.0, 0.6


def with_value(loss: str, value: float) -> Case:
    """A row that stands out, among few: what is known of its column is known by it."""
    case = make(loss, seed=4, n=8, d=2, l2=0.02)
    case.X[:, COLUMN] *= 0.3
    case.X[ROW, COLUMN] = value
    return case


@cache
def around(loss: str) -> tuple[Vector, Vector, list[tuple[Case, fl.Fit]]]:
    """Values on a grid about the row's own, their probabilities, and the models that they give."""
    z = np.linspace(-4.0, 4.0, 121)
    weights = np.exp(-0.5 * z**2)
    cases = [with_value(loss, OWN + SPREAD * u) for u in z.tolist()]
    return OWN + SPREAD * z, weights / weights.sum(), [(case, case.fit()) for case in cases]


def released(way: Any, case: Case, fit: fl.Fit, count: int, rng: np.random.Generator) -> Vector:
    """What leaves."""
    if isinstance(way, fl.Posterior | fl.ObjectivePerturbation):
        return np.asarray(way.released_draws(fit, count, rng, (case.X, case.y)))
    theta = parameters(fit)
    if isinstance(way, fl.SampledLabels):
        p = 1.0 / (1.0 + np.exp(-way.X_query @ theta))
        return np.asarray((rng.random((count, len(p))) < p) * 1.0)
    if isinstance(way, fl.Answers):
        return np.asarray(answers(way, theta) + way.noise.draws(count, len(way.X_query), rng))
    return np.asarray(theta + way.draws(count, theta.size, rng))


def answers(way: Any, theta: Vector) -> Vector:
    z = way.X_query @ theta
    return np.asarray(z if way.of == "score" else 1.0 / (1.0 + np.exp(-z)))


def log_likelihood(way: Any, t: Vector, case: Case, fit: fl.Fit) -> Vector:
    theta = parameters(fit)
    if isinstance(way, fl.SampledLabels):
        z = way.X_query @ theta
        return np.asarray(t @ z - np.sum(np.logaddexp(0.0, z)))
    if isinstance(way, fl.Answers):
        return np.asarray(way.noise.log_density(t - answers(way, theta)))
    if not isinstance(way, fl.Posterior | fl.ObjectivePerturbation):
        return np.asarray(way.log_density(t - theta))
    scores = t @ case.X.T
    a = fit.loss.a(scores, case.y[None, :])
    H = np.einsum("ci,ij,ik->cjk", a, case.X, case.X) + len(case.y) * case.l2 * np.eye(2)
    volume = np.linalg.slogdet(H)[1]
    if isinstance(way, fl.Posterior):
        e = t - theta
        return np.asarray(0.5 * volume - 0.5 * np.einsum("cj,cjk,ck->c", e, H, e) / way.temperature)
    g = fit.loss.r(scores, case.y[None, :]) @ case.X + len(case.y) * case.l2 * t
    return np.asarray(volume - 0.5 * np.sum(g * g, axis=1) / way.scale**2)


def error_of_the_best(way: Any, loss: str) -> float:
    """Mean squared error of the posterior mean, over the prior and what is released."""
    values, weights, models = around(loss)
    rng = np.random.default_rng(3)
    truths = rng.choice(len(values), size=DRAWS, p=weights)
    parts = [
        (k, released(way, models[k][0], models[k][1], int(np.sum(truths == k)), rng))
        for k in np.unique(truths).tolist()
    ]
    t = np.concatenate([drawn for _, drawn in parts])
    truth = np.concatenate([np.full(len(drawn), values[k]) for k, drawn in parts])
    with np.errstate(divide="ignore"):
        log = np.stack([log_likelihood(way, t, *model) for model in models], axis=1) + np.log(weights)
    posterior = np.exp(log - log.max(axis=1, keepdims=True))
    guess = posterior @ values / posterior.sum(axis=1)
    return float(np.mean((guess - truth) ** 2))


def bound(way: Any, loss: str) -> float:
    """By van Trees, with eta as it is measured at values of the prior."""
    z, weights = np.polynomial.hermite_e.hermegauss(7)
    etas = [float(with_value(loss, OWN + SPREAD * u).leak(way).per_cell()[ROW, COLUMN]) for u in z.tolist()]
    mean = float(np.sum(weights * np.square(etas)) / np.sum(weights))
    return 1.0 / (mean + 1.0 / SPREAD**2)


@pytest.mark.parametrize("name", often(WAYS, 2))
def test_the_best_attacker_learns_no_more_than_eta_says(name: str) -> None:
    way, loss = WAYS[name]
    error, least = error_of_the_best(way, loss), bound(way, loss)
    assert error > 0.93 * least
    assert error < 0.9 * SPREAD**2  # and he does learn something


@pytest.mark.parametrize("name", ["Posterior, hot", "ObjectivePerturbation, strong"])
def test_an_eta_that_forgets_the_shape_is_beaten(name: str) -> None:
    """Of noise of the same covariance, taken as fixed, hardly any eta is left there, and the attacker learns all the same."""
    way, loss = WAYS[name]
    _, _, models = around(loss)
    case, fit = models[60]
    B = np.linalg.inv(case.X.T @ case.X + len(case.y) * case.l2 * np.eye(2))
    S = way.scale**2 * (B if isinstance(way, fl.Posterior) else B @ B)
    eta = float(fl.measure(fit, case.X, case.y, fl.Gaussian(1.0, S)).per_cell()[ROW, COLUMN])
    assert error_of_the_best(way, loss) < 0.95 / (eta**2 + 1.0 / SPREAD**2)


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_how_wide_the_limits_of_averages_are_is_said(loss: str) -> None:
    """With few draws an upper limit is far above the truth: the leakage and its summary say by how much."""
    case = make(loss, n=60, l2=0.05)
    few, many = (case.leak(fl.ObjectivePerturbation(1.0, draws=count)) for count in (200, 8000))
    row = int(np.argmax(few.per_example()))
    truth = float(np.sqrt(np.linalg.eigvalsh(many.fim(rows=[row]))[-1]))
    assert 1.0 + few.above_average == pytest.approx(float(few.per_example()[row]) / truth, rel=0.25)
    assert few.above_average > 0.5
    assert "take more draws" in few.summary()
    assert 0.0 < many.above_average < 0.2
    assert "take more draws" not in many.summary()
    assert case.leak(fl.Gaussian(1.0)).above_average == 0.0
