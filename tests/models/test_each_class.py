"""One binary model for each class, fitted by scikit-learn, held against scikit-learn's own refits of all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn import linear_model as lm
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from fisherleak.models.each_class import as_one
from fisherleak.models.several import all_parameters
from often import often

X, Y = load_iris(return_X_y=True)
X = X + np.random.default_rng(1).normal(size=X.shape)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
WEIGHTS = np.random.default_rng(0).random(150) + 0.2
EXACT: Any = {"tol": 1e-12, "max_iter": 100_000, "solver": "newton-cholesky"}
ROUGH: Any = {"tol": 1e-10, "max_iter": 100_000, "solver": "liblinear"}
MODELS: dict[str, tuple[Any, float]] = {
    "logistic": (lm.LogisticRegression(C=0.5, **EXACT), 1e-5),
    "logistic no penalty": (lm.LogisticRegression(C=np.inf, **EXACT), 1e-5),
    "logistic liblinear": (lm.LogisticRegression(C=0.5, intercept_scaling=2.0, **ROUGH), 1e-4),
    "ridge classifier": (lm.RidgeClassifier(alpha=3.0), 1e-5),
}
pytestmark = pytest.mark.filterwarnings("ignore:.*penalty.*:FutureWarning")


def fitted(inner: Any, rows: Any, y: Any, weights: Any = None) -> Any:
    """Weights go through scikit-learn's routing, the only way it has for them."""
    if weights is None:
        return OneVsRestClassifier(clone(inner)).fit(rows, y)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = clone(inner).set_fit_request(sample_weight=True)
        return OneVsRestClassifier(asked).fit(rows, y, sample_weight=weights)


def parameters(model: Any) -> Any:
    return all_parameters(as_one(model))


def dense(leak: fl.Leakage) -> Any:
    return leak._information.written_out(leak._information.attributes, True, None)


@pytest.mark.parametrize("weights", often([WEIGHTS, None]), ids=["weighted", "plain"])
@pytest.mark.parametrize("intercept", [False, True], ids=["through zero", "intercept"])
@pytest.mark.parametrize(("inner", "within"), MODELS.values(), ids=MODELS)
def test_the_jacobian_is_that_of_refits(inner: Any, within: float, intercept: bool, weights: Any) -> None:
    inner = clone(inner).set_params(fit_intercept=intercept)
    leak = fl.measure(fitted(inner, X, NAMES, weights), X, NAMES, sample_weight=weights)
    J, row = dense(leak), 60
    # liblinear itself stops at about 1e-7: long steps and a formula of fourth order then
    steps, step = ((-2, -1, 1, 2), 0.05) if within > 1e-5 else ((-1, 1), 2e-4)
    for column in range(4):
        at = {}
        for k in steps:
            moved = X.copy()
            moved[row, column] += k * step
            at[k] = parameters(fitted(inner, moved, NAMES, weights))
        rate = (at[1] - at[-1]) / (2 * step)
        if len(at) == 4:
            rate = (4 * rate - (at[2] - at[-2]) / (4 * step)) / 3
        assert np.linalg.norm(rate - J[row][:, column]) <= within * np.linalg.norm(J[row])
    np.testing.assert_allclose(leak.per_example(), np.linalg.norm(J, 2, axis=(1, 2)), rtol=1e-10)
    np.testing.assert_allclose(leak.per_cell(), np.linalg.norm(J[:, :, :4], axis=1), rtol=1e-10)
    np.testing.assert_allclose(leak.per_label(), np.linalg.norm(J[:, :, 4:], 2, axis=(1, 2)), rtol=1e-10)
    assert leak.dataset() == pytest.approx(np.linalg.norm(np.concatenate(list(J), axis=1), 2), rel=1e-10)
    wide = np.concatenate(list(J[Y == 1]), axis=1)
    assert leak.by_group(NAMES)["versicolor"] == pytest.approx(np.linalg.norm(wide, 2), rel=1e-10)
    np.testing.assert_allclose(leak.per_attribute(), np.linalg.norm(J[:, :, :4].transpose(2, 1, 0), 2, axis=(1, 2)))


def test_the_label_is_the_one_hot_vector_moved_where_its_sum_stays() -> None:
    """A row that is of one class by a part and of another by the rest, as two rows with weights, by refits."""
    inner, row, step = lm.LogisticRegression(C=0.5, **EXACT), 60, 1e-3
    at = [parameters(fitted(inner, X, Y))]
    for part in (step, 2 * step):
        weights = np.append(np.ones(150), part)
        weights[row] -= part
        at.append(parameters(fitted(inner, np.vstack([X, X[row]]), np.append(Y, 2), weights)))
    rate = (4 * at[1] - at[2] - 3 * at[0]) / (2 * step * np.sqrt(2))
    leak = fl.measure(fitted(inner, X, Y), X, Y)
    J = dense(leak)[row][:, 4:]
    # the way from class 1 to class 2 lies in the space of the label's two directions
    along = np.linalg.lstsq(J, rate, rcond=None)[0]
    np.testing.assert_allclose(J @ along, rate, atol=1e-5 * float(np.linalg.norm(rate)))
    assert np.linalg.norm(along) == pytest.approx(1.0, rel=1e-5)


def test_all_of_them_together_are_one_each() -> None:
    model = fitted(lm.LogisticRegression(C=0.5, **EXACT), X, NAMES)
    leak = fl.measure(model, X, NAMES)
    alone = [
        fl.measure(lm.LogisticRegression(C=0.5, **EXACT).fit(X, k == Y), X, (k == Y).astype(float)) for k in range(3)
    ]
    np.testing.assert_allclose(leak.per_cell() ** 2, sum(each.per_cell() ** 2 for each in alone), rtol=1e-10)
    np.testing.assert_allclose(leak.membership(1e-8) ** 2, sum(each.membership(1e-8) ** 2 for each in alone), rtol=1e-6)
    left_out = parameters(fitted(lm.LogisticRegression(C=0.5, **EXACT), X[1:], NAMES[1:]))
    assert leak.membership(1e-8)[0] == pytest.approx(np.linalg.norm(left_out - parameters(model)), rel=1e-5)
    assert fl.attacks.WhiteBox(model, X, NAMES, "label").against(fl.Gaussian(10.0)).accuracy < 0.5
    assert fl.attacks.WhiteBox(model, X, NAMES, "label").against(fl.Gaussian(0.01)).accuracy > 0.9


def test_scalers_before_it_are_public_or_folded_in() -> None:
    inner = lm.LogisticRegression(C=0.1, **EXACT)

    def whole(rows: Any) -> Any:
        return make_pipeline(StandardScaler(), OneVsRestClassifier(inner)).fit(rows, Y)

    def raw(model: Any) -> Any:
        last = as_one(model[-1])
        coef = last.coef_ / model[0].scale_
        return np.append(coef, last.intercept_ - coef @ model[0].mean_)

    model = whole(X)
    Z = model[0].transform(X)
    inside = fl.measure(fitted(inner, Z, Y), Z, Y).per_cell()
    np.testing.assert_allclose(fl.measure(model, X, Y).per_cell() * model[0].scale_, inside, rtol=1e-9)
    # in raw units, by a noise with a shape: it acts on the raw parameters themselves
    leak = fl.measure(model, X, Y, fl.Gaussian(1.0, shape=np.eye(15)), public="nothing")
    rates = []
    for column in range(4):
        moved = [X.copy(), X.copy()]
        for sign, rows in zip((1, -1), moved, strict=True):
            rows[60, column] += sign * 1e-4
        rates.append(np.linalg.norm(raw(whole(moved[0])) - raw(whole(moved[1]))) / 2e-4)
    np.testing.assert_allclose(leak.per_cell()[60], rates, rtol=1e-5)


def test_a_release_is_a_classifier_of_its_kind() -> None:
    for inner in (lm.LogisticRegression(C=0.5, **EXACT), lm.RidgeClassifier()):
        model = fitted(inner, X, NAMES)
        released = fl.release(model, fl.Gaussian(1e-9))
        assert type(released) is OneVsRestClassifier
        np.testing.assert_array_equal(released.predict(X), model.predict(X))
        np.testing.assert_allclose(released.decision_function(X), model.decision_function(X), atol=1e-6)
    draws = [parameters(fl.release(model, fl.Gaussian(0.5), random_state=seed)) for seed in range(300)]
    away = np.array(draws) - parameters(model)
    np.testing.assert_allclose(away.std(axis=0), 0.5, rtol=0.25)
    assert np.abs(np.corrcoef(away.T) - np.eye(15)).max() <= 0.3


def test_of_two_classes_there_is_one_model() -> None:
    y = np.where(Y > 0, "other", "setosa")
    model, plain = (fitted(lm.LogisticRegression(**EXACT), X, y), lm.LogisticRegression(**EXACT).fit(X, y))
    one, other = fl.measure(model, X, y), fl.measure(plain, X, y)
    np.testing.assert_allclose(one.per_example(), other.per_example(), rtol=1e-9)
    np.testing.assert_allclose(one.per_label(), other.per_label(), rtol=1e-9)
    released = fl.release(model, fl.Gaussian(1e-9))
    np.testing.assert_array_equal(released.predict(X), plain.predict(X))
    np.testing.assert_allclose(released.predict_proba(X), plain.predict_proba(X), atol=1e-6)


def test_a_search_over_it_is_read_as_its_best() -> None:
    search = GridSearchCV(OneVsRestClassifier(lm.RidgeClassifier()), {"estimator__alpha": [1.0, 100.0]}, cv=3)
    best = lm.RidgeClassifier(**search.fit(X, Y).best_estimator_.estimator.get_params())
    np.testing.assert_allclose(
        fl.measure(search, X, Y).per_example(), fl.measure(best.fit(X, Y), X, Y).per_example(), rtol=1e-10
    )


REFUSED: dict[str, tuple[Any, str]] = {
    "class weights": (lm.LogisticRegression(class_weight="balanced"), "another weight in the model of each class"),
    "tuned": (lm.RidgeClassifierCV(), "RidgeClassifierCV inside OneVsRestClassifier is not supported"),
    "numbers": (lm.Ridge(), "LogisticRegression and RidgeClassifier are"),
    "pipeline": (make_pipeline(StandardScaler(), lm.RidgeClassifier()), r"make_pipeline\(…, OneVsRestClassifier"),
}


@pytest.mark.parametrize(("inner", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_read_inside_is_refused_by_name(inner: Any, said: str) -> None:
    model = OneVsRestClassifier(inner).fit(X, Y)
    doors: list[Callable[[], Any]] = [lambda: fl.measure(model, X, Y), lambda: fl.release(model, fl.Gaussian(1.0))]
    for door in doors:
        with pytest.raises(fl.UnsupportedModelError, match=said):
            door()


def test_other_refusals() -> None:
    with pytest.warns(UserWarning, match="present in all"):
        constant = OneVsRestClassifier(lm.RidgeClassifier()).fit(X, np.zeros(150, dtype=int))
    with pytest.raises(fl.InvalidInputError, match="no fitted model for class 0"):
        fl.measure(constant, X, np.zeros(150, dtype=int))
    several = np.eye(3, dtype=int)[Y]
    with pytest.raises(fl.UnsupportedModelError, match="several labels for each row"):
        fl.measure(OneVsRestClassifier(lm.RidgeClassifier()).fit(X, several), X, several)
    changed = fitted(lm.RidgeClassifier(), X, Y)
    changed.estimators_[1].alpha = 2.0
    with pytest.raises(fl.UnsupportedModelError, match=r"alpha=2\.0 for class 1"):
        fl.measure(changed, X, Y)
    with pytest.raises(fl.NotAtMinimumError, match="OneVsRestClassifier"):
        fl.measure(fitted(lm.LogisticRegression(), X, Y), X, Y[::-1])
    with pytest.raises(fl.UnsupportedModelError, match="metadata routing"):
        fl.IRFIL(OneVsRestClassifier(lm.LogisticRegression())).fit(X, Y)
