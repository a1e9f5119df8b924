"""Scikit-learn's models of several classes and numbers are read as the minimisers that they are.

One binary model for each class, fitted by scikit-learn, held against scikit-learn's own refits of all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn import linear_model as lm
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris, load_wine
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler

import fisherleak as fl
from fisherleak.models.several import all_parameters, as_one
from fisherleak.models.steps.scalers import complete, frame_of, neutral
from often import often
from releasable import NUMBERS, SEVERAL, labels, people

EXACT: Any = {"tol": 1e-12, "max_iter": 100_000, "solver": "newton-cg"}
IRIS = load_iris(return_X_y=True)
WEIGHTS = np.random.default_rng(0).random(150) + 0.2


def etas(leak: fl.Leakage) -> list[Any]:
    return [leak.per_example(), leak.per_cell(), leak.per_label(), leak.per_attribute(), leak.dataset()]


def assert_same(one: fl.Leakage, other: fl.Leakage, rtol: float = 1e-9) -> None:
    for a, b in zip(etas(one), etas(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_logistic_regression_of_three_classes_is_the_softmax_minimiser(intercept: bool, weights: Any) -> None:
    X, y = IRIS
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = lm.LogisticRegression(C=2.0, fit_intercept=intercept, **EXACT).fit(X, names, weights)
    leak = fl.measure(model, X, names, sample_weight=weights)
    fit = fl.minimise(X, names, loss="softmax", l2=0.5 / 150, sample_weight=weights, intercept=intercept)
    assert leak.fits[0].loss.name == "softmax"
    assert_same(leak, fl.measure(fit, X, names))


def test_class_weights_multiply_those_of_rows() -> None:
    X, y = IRIS
    kept = np.arange(150) % 50 < np.array([10, 30, 50])[y]
    X, y, weights = X[kept], y[kept], WEIGHTS[kept]
    given = {0: 2.0, 1: 1.0, 2: 0.5}
    by_hand = np.array([2.0, 1.0, 0.5])[y] * weights
    model = lm.LogisticRegression(class_weight=given, **EXACT).fit(X, y, weights)
    fit = fl.minimise(X, y, loss="softmax", l2=1.0 / len(y), sample_weight=by_hand, intercept=True)
    assert_same(fl.measure(model, X, y, sample_weight=weights), fl.measure(fit, X, y))
    balanced = lm.RidgeClassifier(class_weight="balanced").fit(X, y)
    assert fl.measure(balanced, X, y).fits[0].distance <= 1e-12


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_model_that_tuned_itself_is_measured_at_its_choice() -> None:
    X, y = IRIS
    model = lm.LogisticRegressionCV(Cs=[0.1, 1.0], cv=3, **EXACT).fit(X, y)
    plain = lm.LogisticRegression(C=float(np.ravel(model.C_)[0]), **EXACT).fit(X, y)
    assert_same(fl.measure(model, X, y), fl.measure(plain, X, y), rtol=1e-7)
    with pytest.raises(fl.UnsupportedModelError, match="chose its penalty"):
        fl.release(model, fl.Gaussian(1.0))


def test_several_targets_of_ridge_and_linear_regression() -> None:
    X, y = IRIS
    Y = np.column_stack([y, X[:, 0] + WEIGHTS]).astype(float)
    for model, l2 in ((lm.Ridge(alpha=3.0), 0.02), (lm.LinearRegression(), 0.0), (lm.RidgeCV(alphas=[3.0]), 0.02)):
        model.fit(X, Y, WEIGHTS)
        fit = fl.minimise(X, Y, l2=l2, sample_weight=WEIGHTS, intercept=True)
        assert_same(fl.measure(model, X, Y, sample_weight=WEIGHTS), fl.measure(fit, X, Y))
    with pytest.raises(fl.UnsupportedModelError, match="alpha for each output"):
        fl.measure(lm.Ridge(alpha=np.array([1.0, 2.0])).fit(X, Y), X, Y)
    with pytest.raises(fl.NotAtMinimumError):
        fl.measure(lm.Ridge().fit(X, Y), X, Y[:, ::-1])


def test_a_ridge_classifier_is_ridge_on_signs_whose_sum_stays() -> None:
    X, y = IRIS
    signs = 2.0 * np.eye(3)[y] - 1.0
    classifier = fl.measure(lm.RidgeClassifier(alpha=2.0).fit(X, y), X, y)
    numbers = fl.measure(lm.Ridge(alpha=2.0).fit(X, signs), X, signs)
    np.testing.assert_allclose(classifier.per_cell(), numbers.per_cell(), rtol=1e-10)
    np.testing.assert_allclose(classifier.per_label(), numbers.per_label(), rtol=1e-10)
    assert classifier.fim([0]).shape == (6, 6)
    assert numbers.fim([0]).shape == (7, 7)


def test_scalers_and_encoders_are_public_and_etas_are_in_raw_units() -> None:
    X, y = load_wine(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), lm.LogisticRegression(C=0.5, **EXACT)).fit(X, y)
    leak = fl.measure(pipeline, X, y)
    Z = pipeline[0].transform(X)
    inner = fl.measure(fl.minimise(Z, y, loss="softmax", l2=2.0 / len(y), intercept=True), Z, y)
    np.testing.assert_allclose(leak.per_cell() * pipeline[0].scale_, inner.per_cell(), rtol=1e-7)
    np.testing.assert_allclose(leak.per_label(), inner.per_label(), rtol=1e-7)


def test_one_hot_columns_are_one_attribute() -> None:
    table = people()
    columns = ColumnTransformer([("n", StandardScaler(), NUMBERS), ("c", OneHotEncoder(), ["gene"])])
    y = labels("three", table)
    model = make_pipeline(columns, lm.LogisticRegression(**EXACT)).fit(table, y)
    leak = fl.measure(model, table, y)
    assert leak.sizes[leak.attributes.index("gene")] == 2
    assert leak.per_cell().shape == (90, 5)
    assert np.all(leak.per_example() >= leak.per_cell().max(axis=1))


def test_finite_differences_of_a_pipelines_last_step() -> None:
    X, y = load_wine(return_X_y=True)
    X = X[:, :4]
    scaler = StandardScaler().fit(X)
    model = lm.LogisticRegression(**EXACT)
    pipeline = make_pipeline(scaler, model).fit(X, y)
    leak = fl.measure(pipeline, X, y)
    moved = []
    for step in (1e-3, -1e-3):
        near = X.copy()
        near[5, 2] += step
        model.fit(scaler.transform(near), y)
        moved.append(np.append(model.coef_.reshape(-1), model.intercept_))
    rate = np.linalg.norm(moved[0] - moved[1]) / 2e-3
    assert leak.per_cell()[5, 2] == pytest.approx(rate, rel=1e-5)


FOLDED: dict[str, Any] = {
    "logistic": (lambda: lm.LogisticRegression(C=0.1, **EXACT), "three"),
    "ridge classifier": (lambda: lm.RidgeClassifier(alpha=20.0), "three"),
    "ridge": (lambda: lm.Ridge(alpha=20.0), "numbers"),
}


def in_frame(pipeline: Any, frame: Any) -> Any:
    """Raw parameters of a pipeline of a scaler and a model, where noise acts: (scaled coefficients, level at the centres)."""
    coef, level = pipeline[-1].coef_, pipeline[-1].intercept_
    (_, scales) = neutral(pipeline)
    known = complete(scales or [], coef.shape[1])
    raw = coef / [scale.scale for scale in known]
    level = level - raw @ [scale.centre for scale in known]
    return np.append(raw * np.diag(frame)[:-1], level + raw @ frame[-1, :-1])


@pytest.mark.parametrize("kind", FOLDED)
@pytest.mark.parametrize("scaler", [StandardScaler, MinMaxScaler, RobustScaler])
def test_end_to_end_etas_are_those_of_refits_of_the_whole_pipeline(scaler: type, kind: str) -> None:
    make, labelled = FOLDED[kind]
    table = people()
    X, y = table[NUMBERS].to_numpy(), labels(labelled, table)
    model = make_pipeline(scaler(), make()).fit(X, y)
    leak = fl.measure(model, X, y, public="nothing")
    frame = frame_of(complete(neutral(model)[1] or [], 3), True)
    J = leak._information.written_out(leak._information.attributes, True, None)
    for j in range(3):
        moved, step = [], 1e-4 * X[:, j].std()
        for side in (step, -step):
            near = X.copy()
            near[11, j] += side
            moved.append(in_frame(make_pipeline(scaler(), make()).fit(near, y), frame))
        np.testing.assert_allclose(J[11][:, j], (moved[0] - moved[1]) / (2 * step), atol=1e-5 * np.abs(J[11]).max())
    np.testing.assert_allclose(leak.per_example(), np.linalg.norm(J, 2, axis=(1, 2)), rtol=1e-10)
    np.testing.assert_allclose(leak.per_cell(), np.linalg.norm(J[:, :, :3], axis=1), rtol=1e-10)
    every = np.concatenate(list(J), axis=1)
    assert leak.dataset() == pytest.approx(np.linalg.norm(every, 2), rel=1e-10)
    assert leak.per_attribute()[1] == pytest.approx(np.linalg.norm(J[:, :, 1], 2), rel=1e-10)
    quiet = leak.with_noise(fl.calibrate(leak, eta=0.1))
    assert 0.1 * (1 - 1e-9) <= quiet.per_example().max() <= 0.1


def test_end_to_end_etas_of_ten_classes_are_those_of_refits() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(120, 2)) * [1.0, 20.0] + 3.0
    y = np.argmax(X @ rng.normal(size=(2, 10)) + 3.0 * rng.gumbel(size=(120, 10)), axis=1)
    model = make_pipeline(StandardScaler(), lm.LogisticRegression(C=0.1, **EXACT)).fit(X, y)
    leak = fl.measure(model, X, y, public="nothing")
    frame = frame_of(complete(neutral(model)[1] or [], 2), True)
    J = leak._information.written_out(leak._information.attributes, True, None)
    for j in range(2):
        moved, step = [], 1e-4 * X[:, j].std()
        for side in (step, -step):
            near = X.copy()
            near[11, j] += side
            moved.append(
                in_frame(make_pipeline(StandardScaler(), lm.LogisticRegression(C=0.1, **EXACT)).fit(near, y), frame)
            )
        np.testing.assert_allclose(J[11][:, j], (moved[0] - moved[1]) / (2 * step), atol=1e-5 * np.abs(J[11]).max())
    np.testing.assert_allclose(leak.per_example(), np.linalg.norm(J, 2, axis=(1, 2)), rtol=1e-10)


def test_end_to_end_with_categories_and_weights() -> None:
    table = people()
    columns = ColumnTransformer([("n", StandardScaler(), NUMBERS), ("c", OneHotEncoder(), ["gene"])])
    y, weights = labels("three", table), np.random.default_rng(0).random(90) + 0.2
    model = make_pipeline(columns, lm.LogisticRegression(**EXACT)).fit(
        table, y, logisticregression__sample_weight=weights
    )
    leak = fl.measure(model, table, y, sample_weight=weights, public="nothing")
    J = leak._information.written_out(leak._information.attributes, True, None)
    np.testing.assert_allclose(leak.per_example(), np.linalg.norm(J, 2, axis=(1, 2)), rtol=1e-10)
    gene = leak.attributes.index("gene")
    own = leak._information.written_out([leak._information.attributes[gene]], False, None)
    np.testing.assert_allclose(leak.per_cell()[:, gene], np.linalg.norm(own, 2, axis=(1, 2)), rtol=1e-10)
    assert "end to end" in leak.summary()


def test_end_to_end_etas_of_some_columns_are_those_of_the_jacobian() -> None:
    """Of numbers that share a scaler, alone, in pairs and beside a category."""
    table = people()
    columns = ColumnTransformer([("c", OneHotEncoder(), ["gene"]), ("n", StandardScaler(), NUMBERS)])
    y = labels("three", table)
    model = make_pipeline(columns, lm.LogisticRegression(**EXACT)).fit(table, y)
    leak = fl.measure(model, table, y, public="nothing")
    held = fl.measure(model, table, y)
    own = {attribute.name: attribute for attribute in leak._information.attributes}
    for names in ([NUMBERS[1]], [NUMBERS[2], NUMBERS[0]], [NUMBERS[1], "gene"], NUMBERS):
        J = leak._information.written_out([own[name] for name in names], False, None)
        np.testing.assert_allclose(leak.per_example(names), np.linalg.norm(J, 2, axis=(1, 2)), rtol=1e-10)
        # what the scaler tells is in it
        assert np.abs(leak.per_example(names) / held.per_example(names) - 1.0).max() > 1e-3
    for j, name in enumerate(leak.attributes):
        J = leak._information.written_out([own[name]], False, None)
        np.testing.assert_allclose(leak.per_cell()[:, j], np.linalg.norm(J, 2, axis=(1, 2)), rtol=1e-10)


def test_noise_acts_where_it_is_measured_when_scalers_are_folded_in() -> None:
    table = people()
    X, y = table[NUMBERS].to_numpy(), labels("three", table)
    model = make_pipeline(StandardScaler(), lm.LogisticRegression(**EXACT)).fit(X, y)
    frame = frame_of(complete(neutral(model)[1] or [], 3), True)
    base = in_frame(model, frame)
    away = []
    for seed in range(300):
        last = fl.release(model, fl.Gaussian(0.5), random_state=seed)[-1]
        away.append(np.append(last.coef_ * np.diag(frame)[:3], last.intercept_ + last.coef_ @ frame[3, :3]) - base)
    np.testing.assert_allclose(np.std(away, axis=0), 0.5, rtol=0.25)
    assert np.abs(np.corrcoef(np.array(away).T) - np.eye(12)).max() <= 0.3


@pytest.mark.parametrize("name", SEVERAL)
def test_a_release_keeps_shapes_and_its_noise(name: str) -> None:
    make, kind = SEVERAL[name]
    table = people()[NUMBERS]
    fitted = make().fit(table, labels(kind, table.assign(gene="CC")))
    model = as_one(fitted)
    draws = [as_one(fl.release(fitted, fl.Gaussian(0.5), random_state=seed)) for seed in range(300)]
    assert draws[0].coef_.shape == model.coef_.shape
    assert draws[0].intercept_.shape == model.intercept_.shape
    away = np.array([np.append(each.coef_ - model.coef_, each.intercept_ - model.intercept_) for each in draws])
    np.testing.assert_allclose(away.std(axis=0), 0.5, rtol=0.25)
    assert np.abs(np.corrcoef(away.T) - np.eye(away.shape[1])).max() <= 0.3


def test_trimming_drops_rows_of_any_class() -> None:
    X, y = IRIS
    model = lm.LogisticRegression(**EXACT)
    limit = float(np.quantile(fl.measure(model.fit(X, y), X, y).per_example(), 0.9))
    trimmed = fl.trim(model, X, y, limit)
    assert int((~trimmed.kept).sum()) == 15


@pytest.mark.parametrize("model", [lm.LogisticRegression(**EXACT), lm.RidgeClassifier()], ids=["logistic", "ridge"])
def test_weights_make_etas_of_all_classes_equal(model: Any) -> None:
    X, y = IRIS
    shell = fl.IRFIL(model, n_iter=15).fit(X, y)
    eta = fl.measure(shell.estimator_, X, y, sample_weight=shell.weights_).per_example()
    assert shell.history_["sd"][0] > 0.3 * shell.history_["mean"][0]
    assert eta.std() <= 1e-3 * eta.mean()
    assert shell.predict(X).shape == y.shape


def test_the_shell_that_releases_takes_two_classes() -> None:
    X, y = IRIS
    with pytest.raises(fl.UnsupportedModelError, match="Only binary classification"):
        fl.PrivateRelease(lm.RidgeClassifier(), over="max").fit(X, y)


def one_each(X: Any, y: Any, weights: Any, **given: Any) -> Any:
    """A model of one logistic regression for each class, as older versions of scikit-learn fit with liblinear."""
    parts = [lm.LogisticRegression(**given).fit(X, (y == k) * 1, weights) for k in range(3)]
    model = lm.LogisticRegression(**given)
    model.coef_ = np.vstack([part.coef_ for part in parts])
    model.intercept_ = np.concatenate([part.intercept_ for part in parts])
    model.classes_, model.n_features_in_ = np.arange(3), X.shape[1]
    return model


def test_one_class_against_the_rest_is_as_many_models_released_together() -> None:
    X, y = IRIS
    given: Any = {"solver": "liblinear", "tol": 1e-10, "max_iter": 100_000, "C": 0.5}
    leak = fl.measure(one_each(X, y, WEIGHTS, **given), X, y, sample_weight=WEIGHTS)
    alone = [
        fl.measure(lm.LogisticRegression(**given).fit(X, (y == k) * 1, WEIGHTS), X, (y == k) * 1, sample_weight=WEIGHTS)
        for k in range(3)
    ]
    cells = np.sqrt(sum(each.per_cell() ** 2 for each in alone))
    np.testing.assert_allclose(leak.per_cell(), cells, rtol=1e-9)
    J = [each._information.written_out(each._information.attributes, False, None) for each in alone]
    together = np.linalg.norm(np.concatenate(J, axis=1), 2, axis=(1, 2))
    np.testing.assert_allclose(leak.per_example(label=False), together, rtol=1e-9)
    np.testing.assert_allclose(
        leak.membership(1e-8), np.sqrt(sum(each.membership(1e-8) ** 2 for each in alone)), rtol=1e-6
    )
    # the label moves two of the models at once, by one over the root of two each
    labels = np.array([each.per_label() for each in alone])
    assert np.all(leak.per_label() <= labels.max(axis=0) * (1 + 1e-9))
    released = fl.release(one_each(X, y, None, **given), fl.Gaussian(1e-9), random_state=0)
    assert np.mean(released.predict(X) == y) > 0.8
    weighted = one_each(X, y, None, **given).set_params(class_weight="balanced")
    with pytest.raises(fl.UnsupportedModelError, match="against the rest"):
        fl.measure(weighted, X, y)


def test_what_is_not_there_for_several_outputs_is_refused_by_name() -> None:
    X, y = IRIS
    numbers = make_pipeline(StandardScaler(), lm.Ridge()).fit(X, X[:, :2])
    with pytest.raises(fl.UnsupportedModelError, match="public='preprocessing'"):
        fl.measure(numbers, X, X[:, :2], public="nothing").membership(1e-8)
    gaps = X.copy()
    gaps[3, 1] = np.nan
    filled = make_pipeline(SimpleImputer(), StandardScaler(), lm.LogisticRegression(**EXACT)).fit(gaps, y)
    assert np.isnan(fl.measure(filled, gaps, y).per_cell()[3, 1])
    for door in (lambda: fl.measure(filled, gaps, y, public="nothing"), lambda: fl.release(filled, fl.Gaussian(1.0))):
        with pytest.raises(fl.UnsupportedModelError, match="SimpleImputer of a mean or median"):
            door()
    one = lm.LogisticRegression(**EXACT).fit(X, y > 0)
    with pytest.raises(fl.InvalidInputError):
        fl.attacks.Membership(one, X, y > 0).infer(lm.LogisticRegression(**EXACT).fit(X, y))


def test_what_knows_one_output_refuses_several_by_name(tmp_path: Path) -> None:
    """As many classes as columns: the shapes would fit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    y = np.argmax(X + rng.gumbel(size=(90, 3)), axis=1)
    fit, model = fl.minimise(X, y, loss="softmax", l2=0.1), lm.LogisticRegression().fit(X, y)
    leak, noise = fl.measure(fit, X, y), fl.Gaussian(1.0)
    attempts: list[Callable[[], Any]] = [
        lambda: fl.gradients(fit, X, y, noise),
        lambda: fl.gradients(model, X, y, noise),
        lambda: fl.measure(fit, X, y, noise=fl.Posterior(1.0)),
        lambda: fl.Ledger(tmp_path / "a.json").add(leak),
        lambda: fl.release(fit, fl.Posterior(1.0)),
        lambda: fl.IRFIL(lm.LogisticRegression(), account="end-to-end", n_iter=1).fit(X, y),
    ]
    for attempt in attempts:
        with pytest.raises(fl.FisherleakError, match=r"one output|several|3 classes"):
            attempt()


X, Y = load_iris(return_X_y=True)
X = X + np.random.default_rng(1).normal(size=X.shape)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
EXACT_EACH_CLASS: Any = {"tol": 1e-12, "max_iter": 100_000, "solver": "newton-cholesky"}
ROUGH: Any = {"tol": 1e-10, "max_iter": 100_000, "solver": "liblinear"}
MODELS: dict[str, tuple[Any, float]] = {
    "logistic": (lm.LogisticRegression(C=0.5, **EXACT_EACH_CLASS), 1e-5),
    "logistic no penalty": (lm.LogisticRegression(C=np.inf, **EXACT_EACH_CLASS), 1e-5),
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
    inner, row, step = lm.LogisticRegression(C=0.5, **EXACT_EACH_CLASS), 60, 1e-3
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
    model = fitted(lm.LogisticRegression(C=0.5, **EXACT_EACH_CLASS), X, NAMES)
    leak = fl.measure(model, X, NAMES)
    alone = [
        fl.measure(lm.LogisticRegression(C=0.5, **EXACT_EACH_CLASS).fit(X, k == Y), X, (k == Y).astype(float))
        for k in range(3)
    ]
    np.testing.assert_allclose(leak.per_cell() ** 2, sum(each.per_cell() ** 2 for each in alone), rtol=1e-10)
    np.testing.assert_allclose(leak.membership(1e-8) ** 2, sum(each.membership(1e-8) ** 2 for each in alone), rtol=1e-6)
    left_out = parameters(fitted(lm.LogisticRegression(C=0.5, **EXACT_EACH_CLASS), X[1:], NAMES[1:]))
    assert leak.membership(1e-8)[0] == pytest.approx(np.linalg.norm(left_out - parameters(model)), rel=1e-5)
    assert fl.attacks.WhiteBox(model, X, NAMES, "label").against(fl.Gaussian(10.0)).accuracy < 0.5
    assert fl.attacks.WhiteBox(model, X, NAMES, "label").against(fl.Gaussian(0.01)).accuracy > 0.9


def test_scalers_before_it_are_public_or_folded_in() -> None:
    inner = lm.LogisticRegression(C=0.1, **EXACT_EACH_CLASS)

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
    for inner in (lm.LogisticRegression(C=0.5, **EXACT_EACH_CLASS), lm.RidgeClassifier()):
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
    model, plain = (
        fitted(lm.LogisticRegression(**EXACT_EACH_CLASS), X, y),
        lm.LogisticRegression(**EXACT_EACH_CLASS).fit(X, y),
    )
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
