"""Perturbed objectives are minimised to full accuracy, in any units of the columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fisherleak as fl
from cases import Case, make
from fisherleak.engine.mechanisms.perturbed_minimisers import TILTED_LOSSES, minima

Vector = NDArray[np.float64]
UNITS = np.array([1e-6, 1.0, 1e6])


def gradient(case: Case, fit: fl.Fit, t: Vector) -> Vector:
    """Of the risk at released parameters, written out."""
    X = np.column_stack([case.X, np.ones(len(case.X))]) if case.intercept else case.X
    omega = np.ones(len(X)) if case.weights is None else case.weights
    penalty = np.full(X.shape[1], len(X) * case.l2)
    penalty[3:] = 0.0
    return np.asarray(X.T @ (omega * fit.loss.r(X @ t, case.y)) + penalty * t)


@pytest.mark.parametrize("loss", TILTED_LOSSES)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("scale", [1e-6, 0.1, 2.0])
def test_the_gradient_is_minus_the_perturbation(loss: str, intercept: bool, scale: float) -> None:
    case = make(loss, weighted=True, intercept=intercept, l2=0.05)
    fit = case.fit()
    b = scale * np.random.default_rng(1).standard_normal((20, 3 + intercept))
    found = minima(fit, case.X, case.y, b)
    for theta, tilt in zip(np.asarray(fit.uncentred(found.theta.T)).T, b, strict=True):
        np.testing.assert_allclose(
            gradient(case, fit, theta), -tilt, rtol=0, atol=float(1e-8 * np.linalg.norm(tilt) + 1e-13)
        )


@pytest.mark.parametrize("intercept", [False, True])
def test_units_of_columns_change_nothing_but_units(intercept: bool) -> None:
    """Columns in units of a millionth and of a million, with the penalty and the perturbation in theirs."""
    case = make("logistic", intercept=intercept, l2=0.0)
    rows = np.concatenate([case.X, 3.0 * np.eye(3)])  # a ridge as rows would be: here a hold on every column
    y = np.append(case.y, [0.0, 1.0, 0.0])
    plain = fl.minimise(rows, y, "logistic", 1e-16, None, intercept)
    scaled = fl.minimise(rows * UNITS, y, "logistic", 1e-30, None, intercept)
    b = np.random.default_rng(2).standard_normal((30, 3 + intercept)) * 0.5
    units = np.append(UNITS, [1.0] * intercept)
    one, two = minima(plain, rows, y, b), minima(scaled, rows * UNITS, y, b * units)
    np.testing.assert_allclose(two.theta * units, one.theta, rtol=1e-6, atol=1e-8)
    assert np.all(np.abs(one.theta - np.asarray(plain.centred_theta)).max(axis=1) > 1e-3)  # it moved


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_what_is_released_moved_as_far_as_its_hessian_says(unit: float) -> None:
    case = make("logistic", n=300, l2=0.05)
    fit = fl.minimise(case.X * unit, case.y, "logistic", 0.05 * unit**2)
    mechanism = fl.ObjectivePerturbation(0.2 * unit)
    t = mechanism.released_draws(fit, 400, np.random.default_rng(0), (case.X * unit, case.y))
    S = mechanism.scale**2 * fit.factor.inverse() @ fit.factor.inverse()
    share = np.cov(t.T) / S
    np.testing.assert_allclose(np.diag(share), 1.0, atol=0.25)


@pytest.mark.parametrize(
    ("make_it", "match"),
    [
        (lambda: make("logistic", l2=0.0).leak(fl.ObjectivePerturbation(1.0)), "l2 > 0"),
        (
            lambda: make("logistic", intercept=True).leak(fl.ObjectivePerturbation(100.0)),
            "the intercept has no penalty",
        ),
        (lambda: make("poisson", intercept=True).leak(fl.ObjectivePerturbation(1e4)), "the intercept has no penalty"),
        (lambda: make("pseudo_huber").leak(fl.ObjectivePerturbation(1.0)), "pseudo_huber"),
        (lambda: fl.ObjectivePerturbation(1.0, draws=3), "draws must be"),
        (lambda: fl.release(make("logistic").fit(), fl.ObjectivePerturbation(1.0)), r"rows=\(X, y\)"),
        (lambda: fl.release(make("logistic").fit(), fl.Gaussian(1.0), rows=(1, 2)), "This release needs no rows"),
    ],
)
def test_what_need_not_have_a_minimum_is_refused_by_name(make_it: Any, match: str) -> None:
    with pytest.raises(fl.InvalidInputError, match=match):
        make_it()


def test_a_release_is_the_minimiser_of_the_perturbed_objective_on_a_grid() -> None:
    case = make("logistic", intercept=True, l2=0.05)
    fit, mechanism = case.fit(), fl.ObjectivePerturbation(0.3)
    noisy = fl.release(fit, mechanism, random_state=3, rows=(case.X, case.y))
    b = 0.3 * np.random.default_rng(3).standard_normal(4)
    left = gradient(case, fit, np.append(noisy.coef, noisy.intercept)) + b
    assert np.abs(left).max() < 0.01 * np.abs(b).max()
    assert not np.array_equal(noisy.coef, np.asarray(fit.coef))
    with pytest.raises(fl.FisherleakError, match="minimum"):
        fl.release(fit, mechanism, rows=(case.X[::-1], case.y))
