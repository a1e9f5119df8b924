"""Gradients of neighbouring risks at many parameters, and fits that start from known ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.engine.changes.neighbours import gradients_at, refitted
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


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_a_refit_starts_from_a_fit_and_ends_at_the_minimum(loss: str) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2 + (loss == "softmax"), 60) * 1.0
    fit = fl.minimise(X, y, loss, 1e-2)
    other = X.copy()
    other[3] += 1.0
    move, error = refitted(fit, replace(risk_of_fit(fit, X, y), X=other))
    true = fl.minimise(other, y, loss, 1e-2).centred_theta - fit.centred_theta
    assert np.linalg.norm(move - true) <= error + 1e-12
