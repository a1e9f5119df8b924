"""Gradients of the risk at many parameters, and roots of the inverse Hessian."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cases
import fisherleak as fl
from fisherleak.engine.changes.starting_fit import StartingFit, gradients_at
from fisherleak.engine.fit.minimise import risk_of_fit


@pytest.mark.parametrize("loss", ["logistic", "softmax", "several numbers"])
def test_gradients_at_many_parameters_are_those_of_the_risk_at_each(loss: str) -> None:
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(60, 3)), rng.gamma(2.0, 0.5, size=60)
    y = rng.normal(size=(60, 2)) if loss == "several numbers" else rng.integers(0, 2 + (loss == "softmax"), 60) * 1.0
    fit = fl.minimise(X, y, "squared" if y.ndim == 2 else loss, 1e-2, weights, True)
    risk = risk_of_fit(fit, X, y)
    points = fit.centred_theta + rng.normal(size=(5, risk.size))
    found = gradients_at(risk, points)
    for point, gradient in zip(points, found, strict=True):
        np.testing.assert_allclose(gradient, risk.at(point, curvature=False).gradient, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("columns", [3, 70])
@pytest.mark.parametrize("triangular", [True, False])
def test_roots_of_the_inverse_are_roots_whether_triangular_or_of_eigenvectors(columns: int, triangular: bool) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, columns)), rng.integers(0, 2, 40) * 1.0
    fit = fl.minimise(X, y, "logistic", 1e-2)
    if not triangular:  # an eigenvalue that rounding took below zero
        values, vectors = np.linalg.eigh(fit.factor.core)
        values[0] = -1e-12
        fit = replace(fit, factor=replace(fit.factor, core=(vectors * values) @ vectors.T))
        root, inverse = StartingFit(fit, X, y, 1).roots
        assert not np.allclose(root, np.tril(root))
        assert np.linalg.norm(inverse, 2) > 1e6  # moves along it are as long as can be
        np.testing.assert_allclose(root @ root.T, fit.factor.inverse(), atol=1e-9)
        return
    root, inverse = StartingFit(fit, X, y, 1).roots
    np.testing.assert_allclose(root @ root.T, fit.factor.inverse(), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(root @ inverse, np.eye(len(root)), atol=1e-10)
    move = rng.normal(size=len(root))
    assert np.sum((inverse @ move) ** 2) == pytest.approx(move @ np.linalg.solve(fit.factor.inverse(), move), rel=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_lengths_by_few_rows_are_those_by_the_hessian(loss: str, weighted: bool) -> None:
    case = cases.make(loss, seed=4, n=20, d=40, weighted=weighted, intercept=True, l2=0.05)
    fit = case.fit()
    shared = StartingFit(fit, case.X, case.y, 5)
    assert shared._bent is not None
    moves = np.random.default_rng(0).normal(size=(7, 41))
    H = np.linalg.inv(fit.factor.inverse())
    np.testing.assert_allclose(shared.across(moves), np.sqrt(np.sum((moves @ H) * moves, axis=1)), rtol=1e-9)
