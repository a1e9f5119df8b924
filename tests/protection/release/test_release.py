"""Releases: this noise and nothing of the model before it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from sklearn import linear_model as lm
from sklearn.datasets import load_diabetes
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import fisherleak as fl
from fisherleak.engine.noise import grid_of
from fisherleak.models.several import all_parameters as parameters
from protection.kept import numbers_in

X, Y = load_diabetes(return_X_y=True)
EXACT = {"solver": "newton-cholesky", "tol": 1e-10, "max_iter": 1000}


@pytest.mark.parametrize(
    "model",
    [
        lm.Ridge().fit(X, Y),
        lm.LinearRegression(fit_intercept=False).fit(X, Y),
        lm.RidgeClassifier().fit(X, Y > 150),
        lm.LogisticRegression().fit(X, Y > 150),
        lm.PoissonRegressor().fit(X, Y),
        make_pipeline(PolynomialFeatures(1), lm.LogisticRegression()).fit(X, Y > 150),
    ],
)
def test_release_adds_this_noise_and_touches_nothing(model: Any) -> None:
    before = copy.deepcopy(model)
    noise = fl.Gaussian(0.3)
    released = fl.release(model, noise, random_state=5)
    inner = [m[-1] if hasattr(m, "steps") else m for m in (model, released, before)]
    theta, noisy, untouched = (parameters(m) for m in inner)
    grid = grid_of(noise, theta.size).max()
    np.testing.assert_allclose(noisy - theta, noise.draw(theta.size, 5), rtol=0, atol=0.51 * grid)
    np.testing.assert_array_equal(np.fmod(noisy, grid), 0.0)
    np.testing.assert_array_equal(theta, untouched)
    assert inner[1].coef_.shape == inner[0].coef_.shape
    assert np.shape(inner[1].intercept_) == np.shape(inner[0].intercept_)
    assert released.predict(X).shape == model.predict(X).shape
    assert vars(inner[0]).keys() == vars(inner[2]).keys()


def test_seeds_repeat_and_the_operating_system_does_not() -> None:
    model = lm.Ridge().fit(X, Y)
    one, two = (fl.release(model, fl.Gaussian(1.0)).coef_ for _ in range(2))
    assert (one != two).all()
    one, two = (fl.release(model, fl.Gaussian(1.0), random_state=1).coef_ for _ in range(2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_released_model_keeps_nothing_of_the_original() -> None:
    for model in (lm.LinearRegression().fit(X, Y), lm.LogisticRegression().fit(X, Y > 150), lm.Ridge().fit(X, Y)):
        released = fl.release(model, fl.Gaussian(0.1))
        fitted = {name for name in vars(released) if name.endswith("_")}
        assert fitted <= {"coef_", "intercept_", "classes_", "n_features_in_", "feature_names_in_"}
        pieces = {float(value) for value in np.ravel(model.coef_)}
        assert not pieces & numbers_in(vars(released))


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    ("search", "remedy"),
    [
        (GridSearchCV(lm.Ridge(), {"alpha": [1.0, 2.0]}), "pass its best_estimator_"),
        (make_pipeline(StandardScaler(), lm.RidgeCV(alphas=[2.0])), r"fit Ridge\(alpha=2\)"),
        (lm.LogisticRegressionCV(Cs=[0.5], cv=3), r"fit LogisticRegression\(C=0.5\)"),
        (lm.RidgeClassifierCV(alphas=[0.1]), r"fit RidgeClassifier\(alpha=0.1\)"),
    ],
)
def test_what_a_search_chose_is_declared_or_refused(search: Any, remedy: str) -> None:
    y = Y > 150
    for release in (
        lambda: fl.release(search.fit(X, y), fl.Gaussian(0.1)),
        lambda: fl.release(search.fit(X, y), fl.Gaussian(0.1), public="preprocessing"),
        lambda: fl.PrivateRelease(search).fit(X, y),
    ):
        with pytest.raises(fl.UnsupportedModelError, match=f"chose its .* on the data.*{remedy}.* public"):
            release()
    if hasattr(search, "best_estimator_"):
        assert isinstance(fl.release(search.best_estimator_, fl.Gaussian(0.1)), lm.Ridge)


def test_a_fit_is_released_as_its_parameters_alone() -> None:
    fit = fl.minimise(X, Y, l2=1e-3, intercept=True)
    released = fl.release(fit, fl.Gaussian(2.0), random_state=3)
    assert isinstance(released, fl.Released)
    np.testing.assert_allclose(released.coef - fit.coef, fl.Gaussian(2.0).draw(11, 3)[:10], rtol=0, atol=2.0**-10)
    np.testing.assert_array_equal(np.fmod(released.coef, 2.0**-9), 0.0)
    assert released.intercept != fit.intercept
    assert fl.release(fl.minimise(X, Y), fl.Gaussian(2.0)).intercept is None


def test_what_cannot_be_released() -> None:
    with pytest.raises(fl.InvalidInputError, match="Ridge is not fitted yet: call fit first"):
        fl.release(lm.Ridge(), fl.Gaussian(1.0))
    with pytest.raises(fl.InvalidInputError, match="noise must be a noise"):
        fl.release(lm.Ridge().fit(X, Y), 0.1)  # type: ignore[arg-type]
    with pytest.raises(fl.UnsupportedModelError, match="got dict"):
        fl.release({}, fl.Gaussian(1.0))


def test_steps_that_may_hold_another_model_are_not_released() -> None:
    model = make_pipeline(SelectFromModel(lm.LogisticRegression(), threshold=-1), lm.LogisticRegression()).fit(
        X, Y > 150
    )
    with pytest.raises(fl.UnsupportedModelError, match="SelectFromModel is not supported"):
        fl.release(model, fl.Gaussian(1.0))
    search = GridSearchCV(lm.LogisticRegression(), {"C": [1.0]})
    with pytest.raises(fl.UnsupportedModelError, match="GridSearchCV is not supported"):
        fl.release(make_pipeline(StandardScaler(), search).fit(X, Y > 150), fl.Gaussian(1.0))


def wide_pipeline(columns: int = 21) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    table = rng.normal(np.linspace(-50.0, 2000.0, columns), np.geomspace(0.01, 30.0, columns), size=(200, columns))
    y = rng.normal(size=200)
    return make_pipeline(StandardScaler(), lm.Ridge()).fit(table, y), table, y


@pytest.mark.long
def test_raw_parameters_vary_as_was_measured() -> None:
    """Their covariance is that of the noise through the inverse of the frame in which it was measured, to 2.5 %."""
    model, table, y = wide_pipeline()
    noise = fl.Gaussian(0.3)
    jacobian = fl.measure(model, table, y, noise, public="nothing")._information.jacobians[0]
    assert jacobian.folding is not None
    frame, raw = np.asarray(jacobian.folding.frame), np.asarray(jacobian.fit.theta)
    found = np.array([parameters(fl.release(model, noise, seed)[-1]) for seed in range(1000)])
    z = (found - raw) @ frame.T / noise.scale
    assert abs(np.mean(z**2) - 1.0) < 0.025 < 0.05  # 22,000 squares: a standard deviation of 1 %
    assert np.abs(z.T @ z / len(z) - np.eye(22)).max() < 5.5 * np.sqrt(2.0 / 1000)
    assert np.abs(z.mean(axis=0)).max() < 4.0 / np.sqrt(1000)


@pytest.mark.long
def test_a_shape_is_over_raw_parameters() -> None:
    model, table, y = wide_pipeline(3)
    shape = np.diag([1.0, 4.0, 9.0, 16.0])
    noise = fl.Gaussian(1e-3, shape)
    raw = np.asarray(fl.measure(model, table, y, noise, public="nothing").fits[0].theta)
    found = np.array([parameters(fl.release(model, noise, seed)[-1]) for seed in range(400)]) - raw
    np.testing.assert_allclose(found.std(axis=0) / 1e-3, [1.0, 2.0, 3.0, 4.0], rtol=0.15)
    assert np.abs(np.corrcoef(found.T) - np.eye(4)).max() < 0.25


def test_laplace_noise_acts_in_the_frame_too() -> None:
    model, table, y = wide_pipeline(3)
    noise = fl.Laplace(0.3)
    jacobian = fl.measure(model, table, y, noise, public="nothing")._information.jacobians[0]
    assert jacobian.folding is not None
    drawn = noise.draw(4, 5)
    found = parameters(fl.release(model, noise, 5)[-1]) - np.asarray(jacobian.fit.theta)
    np.testing.assert_allclose(np.asarray(jacobian.folding.frame) @ found, drawn, atol=0.51 * grid_of(noise, 4).max())


def test_noise_calibrated_for_another_release_is_refused() -> None:
    """The same scale acts on other parameters there, so that its limit says nothing."""
    rng = np.random.default_rng(0)
    data = rng.normal(3.0, 7.0, size=(60, 2))
    target = data @ [1.0, -1.0] + rng.normal(size=60)
    model = make_pipeline(StandardScaler(), lm.Ridge()).fit(data, target)
    public = fl.calibrate(fl.measure(model, data, target), 1.0)
    counted = fl.calibrate(fl.measure(model, data, target, public="nothing"), 1.0)
    with pytest.raises(
        fl.InvalidInputError, match="measured with public='preprocessing' but release with public='nothing'"
    ):
        fl.release(model, public)
    with pytest.raises(fl.InvalidInputError, match="measured with public='nothing' but release with public='prep"):
        fl.release(model, counted, public="preprocessing")
    for noise, declared in ((public, "preprocessing"), (counted, "nothing")):
        assert np.isfinite(fl.release(model, copy.deepcopy(noise), public=declared).predict(data)).all()
    plain = lm.Ridge().fit(data, target)
    fl.release(plain, fl.calibrate(fl.measure(plain, data, target), 1.0))  # without scalers the two are one
