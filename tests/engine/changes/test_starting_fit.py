"""Gradients of the risk at many parameters."""

from __future__ import annotations

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.engine.changes.starting_fit import gradients_at
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
