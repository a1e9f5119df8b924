"""Noisy copies of a fitted model, against models that are released with the same noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import mean_gamma_deviance, mean_poisson_deviance

pytest.importorskip("pandas")

import fisherleak as fl
from auditing.fitted_models.models import MODELS, Case, case
from fisherleak.auditing.fitted_models.scored_model import ScoredRows, scored_model
from fisherleak.models import checked_model
from fisherleak.protection.release.release import FittedModel
from fisherleak.training.model_kinds import Metric
from fisherleak.training.utility import Scored, utility_of

DEVIANCES = {"poisson": mean_poisson_deviance, "gamma": mean_gamma_deviance}


def scored(given: Case, noise: Any, public: str = "preprocessing") -> Scored:
    leak = fl.measure(given.model, given.X, given.y, noise, public=public)
    found = scored_model(given.model, leak, ScoredRows.of(given.X, given.y, given.X_test, given.y_test, 0))
    assert found is not None
    return found


def score(name: str, model: Any, given: Case) -> float:
    if name in DEVIANCES:
        return float(DEVIANCES[name](given.y_test, model.predict(given.X_test)))
    return float(model.score(given.X_test, given.y_test))


def _total(z: Any, y: Any) -> Any:
    flat = z.reshape(-1, z.shape[-1])
    return np.linspace(1.0, 2.0, flat.shape[0]) @ flat


TOTAL = Metric("total", "a weighted sum", True, _total)


def predictors(name: str, model: Any, given: Case) -> Any:
    if hasattr(model, "decision_function"):
        return model.decision_function(given.X_test)
    predicted = model.predict(given.X_test)
    return np.log(predicted) if name in DEVIANCES else predicted


def fitted(given: Case, public: str) -> FittedModel:
    """What a release is built from, its levels counted."""
    return FittedModel(checked_model(given.model), "levels" if public == "nothing" else public)


BOTH = [
    (name, public)
    for name in MODELS
    for public in ("preprocessing", "nothing")
    # what is refused with preprocessing counted has a test of its own where that is measured
    if public == "preprocessing"
    or name in ("ridge", "ridge with an imputer", "logistic", "softmax", "poisson", "search")
]


@pytest.mark.parametrize(("name", "public"), BOTH)
def test_a_copy_scores_as_the_model_that_is_built_with_its_parameters(name: str, public: str) -> None:
    """Without noise it is the model itself; with it, one that a release would build."""
    given, noise = case(name), fl.Gaussian(0.3)
    found = scored(given, noise, public)
    found = replace(found, lead=found.metrics[0])
    cost = utility_of(found, [0.3], 2, 0)
    assert cost.held_out
    assert cost.without_noise == pytest.approx(score(name, given.model, given), rel=1e-9)
    moved = found.theta + 0.3 * np.random.default_rng(7).normal(size=found.theta.size)
    built = fitted(given, public).built(moved, noise)
    copy = utility_of(replace(found, theta=moved, metrics=(*found.metrics[:1], TOTAL)), [0.3], 2, 0)
    assert copy.without_noise == pytest.approx(score(name, built, given), rel=1e-9)
    # accuracies are coarse: the predictors themselves, each row and output with a weight of its own
    (total,) = copy.also
    z = predictors(name, built, given)
    assert total.without_noise == pytest.approx(TOTAL.of(z[..., None], np.empty(0))[0], rel=1e-9)


@pytest.mark.parametrize("public", ["preprocessing", "nothing"])
def test_a_covariance_is_that_of_the_parameters_that_it_is_over(public: str) -> None:
    given = case("ridge")
    leak = fl.measure(given.model, given.X, given.y, public=public)
    size = np.asarray(leak.fits[0].theta).size
    noise = fl.Gaussian(0.1, np.diag(np.linspace(0.5, 2.0, size)))
    found = scored(given, noise, public)
    moved = found.theta + noise.draw(size, 3)
    built = fitted(given, public).built(moved, noise)
    copy = utility_of(replace(found, theta=moved), [0.1], 2, 0)
    assert copy.without_noise == pytest.approx(built.score(given.X_test, given.y_test), rel=1e-9)


@pytest.mark.long
def test_utility_is_that_of_releases() -> None:
    """The mean over 1,800 of them, to three standard errors: noise that is five per cent off would be seen."""
    given, scale, count = case("ridge", m=300), 0.2, 1800
    scores = [
        fl.release(given.model, fl.Gaussian(scale), k, rows=(given.X, given.y)).score(given.X_test, given.y_test)
        for k in range(count)
    ]
    mean, error = np.mean(scores), np.std(scores) / np.sqrt(count)
    cost = utility_of(scored(given, fl.Gaussian(scale), "nothing"), [scale, 0.95 * scale, 1.05 * scale], 20_000, 1)
    right, less, more = (abs(point.utility - mean) / error for point in cost.points)
    assert right < 3 < min(less, more)


def test_rows_that_were_fitted_on_are_not_held_out() -> None:
    given = case("ridge")
    same = ScoredRows.of(given.X, given.y, given.X.copy(), given.y, 0)
    assert not same.held_out
    assert not ScoredRows.of(given.X, given.y, None, None, 0).held_out
    assert ScoredRows.of(given.X, given.y, given.X_test, given.y_test, 0).held_out


def test_a_fit_of_arrays_is_scored_too() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    fit = fl.minimise(X, y, loss="pseudo_huber", l2=0.1, intercept=True)
    leak = fl.measure(fit, X, y)
    found = scored_model(fit, leak, ScoredRows.of(X, y, X[:20], y[:20], 0))
    assert found is not None
    z = X[:20] @ np.asarray(fit.coef) + fit.intercept
    own = 1 - ((y[:20] - z) ** 2).sum() / ((y[:20] - y[:20].mean()) ** 2).sum()
    assert utility_of(found, [1.0], 2, 0).without_noise == pytest.approx(own)


def test_labels_that_the_model_does_not_know_are_refused() -> None:
    given = case("logistic")
    with pytest.raises(fl.InvalidInputError, match="none of the model's classes"):
        scored(replace(given, y_test=np.full(len(given.y_test), "perhaps")), fl.Gaussian(1.0))
    other = case("gamma")
    with pytest.raises(fl.InvalidInputError, match=r"y_test must be .*; row 3 is not"):
        scored(replace(other, y_test=other.y_test.where(np.arange(60) != 3, -1.0)), fl.Gaussian(1.0))
    with pytest.raises(fl.InvalidInputError, match=r"y_test must be .*; row 5 is not"):
        scored(replace(other, y_test=other.y_test.where(np.arange(60) != 5)), fl.Gaussian(1.0))
    number = case("ridge")
    with pytest.raises(fl.InvalidInputError, match="one value in all rows"):
        scored(replace(number, X_test=number.X_test[:1], y_test=number.y_test[:1]), fl.Gaussian(1.0))
    with pytest.raises(fl.InvalidInputError, match="y_test is missing"):
        ScoredRows.of(given.X, given.y, given.X_test, None, 0)
    with pytest.raises(fl.InvalidInputError, match="one value for each row of X_test"):
        ScoredRows.of(given.X, given.y, given.X_test, given.y_test[:3], 0)
