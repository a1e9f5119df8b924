"""What is measured of one noisy gradient: against differences of the gradient itself, and what a client may send."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import fisherleak as fl
from cases import Case, flat, make, norms, parameters

Vector = NDArray[np.float64]
STEP = 1e-6


def client(loss: str, n: int = 8, *, intercept: bool = True) -> tuple[Case, fl.Fit]:
    """Rows of a client, and a model that was fitted on others."""
    return make(loss, seed=5, n=n, weighted=True), make(loss, seed=1, intercept=intercept).fit()


def gradient(case: Case, fit: fl.Fit) -> Vector:
    X = case.X if fit.intercept is None else np.column_stack([case.X, np.ones(len(case.X))])
    weights = np.ones(len(X)) if case.weights is None else case.weights
    return np.asarray((weights * fit.loss.r(X @ parameters(fit), case.y)) @ X)


def by_differences(case: Case, fit: fl.Fit) -> Vector:
    """(n, p, d + 1): the gradient's derivative by every value."""
    n, d = case.X.shape
    found = np.zeros((n, parameters(fit).size, d + 1))
    for i in range(n):
        for j in range(d + 1):
            sides = []
            for sign in (1, -1):
                X, y = case.X.copy(), case.y.copy()
                if j < d:
                    X[i, j] += sign * STEP
                else:
                    y[i] += sign * STEP
                sides.append(gradient(Case(X, y, case.loss, case.l2, case.weights, case.intercept), fit))
            found[i, :, j] = (sides[0] - sides[1]) / (2 * STEP)
    return found


@pytest.mark.parametrize("loss", list(fl.LOSSES))
@pytest.mark.parametrize("intercept", [False, True])
def test_every_eta_is_that_of_the_gradient_s_derivative(loss: str, intercept: bool) -> None:
    case, fit = client(loss, intercept=intercept)
    J = by_differences(case, fit) / 0.3
    leak = fl.gradients(fit, case.X, case.y, fl.Gaussian(0.3), sample_weight=case.weights)
    np.testing.assert_allclose(leak.per_example(), norms(J), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(leak.per_cell(), np.linalg.norm(J[:, :, :3], axis=1), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(leak.per_label(), np.linalg.norm(J[:, :, 3], axis=1), rtol=1e-6, atol=1e-6)
    assert leak.dataset() == pytest.approx(np.linalg.norm(flat(J), 2), rel=1e-6)
    assert leak.per_attribute()[1] == pytest.approx(np.linalg.norm(J[:, :, 1], 2), rel=1e-6)


def test_membership_is_the_length_of_the_row_s_own_gradient() -> None:
    case, fit = client("logistic")
    leak = fl.gradients(fit, case.X, case.y, fl.Gaussian(0.3), sample_weight=case.weights)
    whole = gradient(case, fit)
    for i in range(8):
        weights = case.weights.copy()  # type: ignore[union-attr]
        weights[i] = 0.0
        rest = gradient(Case(case.X, case.y, case.loss, case.l2, weights, False), fit)
        assert leak.membership()[i] == pytest.approx(np.linalg.norm(whole - rest) / 0.3, rel=1e-9)
    assert "a gradient with noise" in leak.summary()
    assert "membership" in leak.to_frame()


def test_rounds_add_up_and_a_release_may_be_among_them() -> None:
    case, fit = client("squared")
    other = make("squared", seed=9, intercept=True).fit()
    parts = [fl.gradients(f, case.X, case.y, fl.Gaussian(2.0)) for f in (fit, other)]
    total = fl.compose(*parts)
    F = parts[0].fim(rows=[3]) + parts[1].fim(rows=[3])
    np.testing.assert_allclose(total.fim(rows=[3]), F, rtol=1e-9)
    assert total.membership()[3] == pytest.approx(np.hypot(parts[0].membership()[3], parts[1].membership()[3]))
    own = fl.minimise(case.X, case.y, l2=0.1)
    with_release = fl.compose(parts[0], fl.measure(own, case.X, case.y, fl.Gaussian(1.0)))
    assert with_release.per_example()[3] >= parts[0].per_example()[3]


@pytest.mark.parametrize("noise", [fl.Gaussian(1.0), fl.Laplace(1.0), fl.Bounded(1.0)])
def test_noise_is_calibrated_to_a_limit(noise: Any) -> None:
    case, fit = client("logistic")
    leak = fl.gradients(fit, case.X, case.y, noise)
    found = fl.calibrate(leak, 0.5)
    assert leak.with_noise(found).per_example().max() == pytest.approx(0.5)


def test_one_row_of_one_class_will_do() -> None:
    fit = make("logistic", intercept=True).fit()
    leak = fl.gradients(fit, np.ones((1, 3)), np.ones(1), fl.Gaussian(1.0))
    assert leak.n == 1
    assert leak.per_example()[0] > 0


def test_pipelines_are_measured_about_the_raw_columns() -> None:
    case = make("logistic", n=60)
    model = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8)).fit(case.X, case.y)
    own = make("logistic", seed=4, n=9)
    features = model[0].transform(own.X)
    theta = np.append(model[-1].coef_, model[-1].intercept_)
    leak = fl.gradients(model, own.X, own.y, fl.Gaussian(1.0))
    z = np.column_stack([features, np.ones(9)]) @ theta
    p = 1 / (1 + np.exp(-z))
    x = np.column_stack([features, np.ones(9)])
    J = (p * (1 - p))[:, None, None] * x[:, :, None] * theta[None, None, :3] + (p - own.y)[:, None, None] * np.eye(4)[
        :, :3
    ]
    J = J / model[0].scale_
    np.testing.assert_allclose(leak.per_cell(), np.linalg.norm(J, axis=1), rtol=1e-8)


def test_what_does_not_fit_is_refused_by_name() -> None:
    case, fit = client("squared")
    leak = fl.gradients(fit, case.X, case.y, fl.Gaussian(1.0))
    scaled = make_pipeline(StandardScaler(), Ridge()).fit(case.X, case.y)
    attempts: list[tuple[Any, str]] = [
        (lambda: fl.gradients(fit, case.X[:, :2], case.y, fl.Gaussian(1.0)), "3 columns"),
        (lambda: fl.gradients(fit, case.X, case.y, fl.SampledLabels(case.X)), "SampledLabels"),  # type: ignore[arg-type]
        (lambda: fl.gradients(scaled, case.X, case.y, fl.Gaussian(1.0), attributes=["a", "b", "c"]), "attributes"),
        (lambda: fl.calibrate(leak, 1.0, "any-record"), "gradient"),
        (lambda: fl.calibrate(leak, 1.0, shape="least-loss"), "gradient"),
        (lambda: leak.with_noise(fl.Posterior(1.0)), "gradient"),
        (lambda: leak.with_noise(fl.SampledLabels(case.X)), "needs to know how queries"),
        (lambda: fl.counted(leak, 1.0), "gradient"),
    ]
    for attempt, reason in attempts:
        with pytest.raises(fl.InvalidInputError, match=reason):
            attempt()
    bent = make_pipeline(PolynomialFeatures(2), Ridge()).fit(case.X, case.y)
    assert fl.gradients(bent, case.X, case.y, fl.Gaussian(1.0)).per_example().shape == (8,)
