"""Protected: the best candidate in one ``fit``, and nothing of the model without noise."""

from __future__ import annotations

import pickle
from typing import Any, cast

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import fisherleak as fl
from cases import make

pytestmark = pytest.mark.usefixtures("quick_audits")
CASE = make("squared", 1, n=400)
X, Y = np.clip(CASE.X, -3, 3), np.clip(CASE.y, -4, 4)
BOUNDS: Any = {f"x{j}": (-3.0, 3.0) for j in range(3)} | {"label": (-4.0, 4.0)}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::fisherleak.UncountedChoiceWarning")
@pytest.mark.filterwarnings("ignore::fisherleak.UncountedScaleWarning")
def test_it_is_as_good_as_its_best_candidate() -> None:
    options: Any = {"penalties": [1.0, 100.0], "weightings": ["none"]}
    model = fl.Protected(Ridge(1.0), eta=2.0, over="max", random_state=0, **options).fit(X, Y)
    frontier = fl.protect(Ridge(1.0), X, Y, 2.0, over="max", random_state=0, **options)
    assert model.choice_ in frontier.points
    best = fl.Protected(Ridge(1.0), eta=2.0, over="max", counted=False, random_state=0, **options).fit(X, Y)
    assert best.choice_ == frontier.best()
    assert model.score(X, Y) > 0.5 * Ridge(1.0).fit(X, Y).score(X, Y)
    np.testing.assert_array_equal(model.estimator_.coef_, frontier.release(random_state=0).coef_)
    assert np.all(cross_val_score(clone(model), X, Y, cv=3) > 0.0)
    assert fl.Protected(LogisticRegression(), eta=5.0, over="max", **options).fit(X, Y > 0).predict_proba(X).shape == (
        400,
        2,
    )


def test_nothing_of_the_model_without_noise_is_kept() -> None:
    plain = Ridge(40.0).fit(X, Y)
    model = fl.Protected(
        plain, 4.0, penalties=[1.0], weightings=["none"], shapes=["hessian"], bounds=BOUNDS, random_state=0
    ).fit(X, Y)
    held = pickle.dumps(model)
    for value in [*plain.coef_, *X[:5].ravel(), *Y[:5], model.choice_.loss]:
        assert np.float64(value).tobytes() not in held


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"counted": "x"}, "counted must be True or False; got 'x'"),
        ({"counted": None}, "counted must be True or False; got None"),
        ({"share": "x"}, "share must be between 0 and 1, a part of the limit; got 'x'"),
        ({"share": 1}, "share must be between 0 and 1, a part of the limit; got 1"),
        ({"weightings": "none"}, r"weightings must be a list .* Write weightings=\['none'\]"),
        ({"estimator": None}, "estimator must be a scikit-learn model.*; got None"),
        ({"bounds": "x"}, "bounds must be a mapping .*; got str"),
    ],
)
def test_arguments_are_refused_in_words_of_its_own(options: dict[str, Any], says: str) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    asked: Any = {"estimator": Ridge(30.0), "eta": 5.0, "penalties": [1.0], "shapes": ["isotropic"]} | options
    with pytest.raises(fl.InvalidInputError, match=says):
        fl.Protected(**asked).fit(X, X[:, 0])


def test_bounds_without_names_are_refused_before_an_imputer_reads_them() -> None:
    X = np.random.default_rng(0).normal(size=(60, 1))
    model, bounds = make_pipeline(SimpleImputer(), Ridge()), cast(Any, [(18, 100)])
    with pytest.raises(fl.InvalidInputError, match=r"bounds must be a mapping from names of columns to \(low, high\)"):
        fl.protect(model, X, X[:, 0], bounds=bounds)
