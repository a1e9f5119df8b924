"""Training data are checked once, and refused in the same words wherever they come in.

Minimisers of several outputs are minimisers, for every class that there is, or are refused with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from fisherleak._support.arrays import host
from fisherleak.engine.fit import training_data
from fisherleak.engine.magnitudes import extremes
from fisherleak.models import as_table, read

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
NUMBERS, CLASSES, PAIRS = X @ [1.0, -1.0, 0.5] + RNG.normal(size=60), RNG.integers(0, 3, 60), RNG.normal(size=(60, 2))
WEIGHTS = np.where(np.arange(60) == 7, 0.0, 1.0)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many columns each look at the values of rows has seen."""
    found: list[int] = []

    def counted(X: Any, y: Any, weights: Any) -> Any:
        found.append(X.shape[1])
        return extremes(X, y, weights)

    monkeypatch.setattr(training_data, "extremes", counted)
    return found


@pytest.mark.parametrize("last", [Ridge(), LogisticRegression()], ids=["ridge", "logistic"])
def test_a_model_and_its_table_are_looked_at_once(last: Any, looks: list[int]) -> None:
    y = NUMBERS if isinstance(last, Ridge) else (NUMBERS > 0) * 1
    fl.measure(make_pipeline(StandardScaler(), last).fit(X, y), X, y).per_example()
    assert looks == [3]


def test_the_columns_of_a_fit_are_looked_at_where_it_was_fitted(looks: list[int]) -> None:
    fit = fl.minimise(X, NUMBERS)
    assert looks == [3]
    fl.measure(fit, X, NUMBERS).per_example()
    assert looks == [3, 1]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e31, 1e200])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["alike", "without weight"])
@pytest.mark.parametrize(("loss", "y"), [("squared", NUMBERS), ("softmax", CLASSES), ("squared", PAIRS)])
def test_other_values_are_refused_in_the_same_words(loss: str, y: Any, weights: Any, bad: float) -> None:
    fit = fl.minimise(X, y, loss, 0.1, weights, intercept=True)
    other = X.copy()
    other[7, 2] = bad
    with pytest.raises(fl.InvalidInputError) as fitted:
        fl.minimise(other, y, loss, 0.1, weights, intercept=True)
    with pytest.raises(fl.InvalidInputError) as measured:
        fl.measure(fit, other, y, sample_weight=weights)
    assert str(measured.value) == str(fitted.value)


@pytest.mark.parametrize(("loss", "y"), [("squared", NUMBERS), ("softmax", CLASSES), ("squared", PAIRS)])
def test_a_reading_holds_what_the_fit_was_made_of(loss: str, y: Any) -> None:
    fit = fl.minimise(X, y, loss, 0.1, WEIGHTS, intercept=True)
    reading = read(fit, as_table(X), y, None, None)
    assert reading.fit is fit
    assert reading.data.weights is fit.sample_weight
    np.testing.assert_array_equal(reading.data.X, X)
    np.testing.assert_array_equal(reading.data.y, y)
    assert (reading.data.classes is None) == (loss != "softmax")
    np.testing.assert_allclose(
        reading.information(fl.Gaussian(1.0)).example_norms(reading.attributes, True),
        fl.measure(fit, X, y).per_example(),
        rtol=1e-12,
    )


def people(n: int, d: int, K: int, seed: int = 0) -> tuple[Any, Any]:
    """Rows of K classes that overlap, all of them present."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + rng.normal(size=d)
    y = np.argmax(X @ rng.normal(size=(d, K)) + 2.0 * rng.gumbel(size=(n, K)), axis=1)
    y[:K] = np.arange(K)
    return X, y


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("K", [3, 10])
def test_the_softmax_minimiser_is_scikit_learns_in_no_null_direction(K: int, intercept: bool) -> None:
    X, y = people(300, 4, K)
    weights = np.random.default_rng(1).random(300) + 0.1
    fit: Any = fl.minimise(X, y, loss="softmax", l2=1e-2, sample_weight=weights, intercept=intercept)
    theirs = LogisticRegression(C=1 / 3.0, fit_intercept=intercept, tol=1e-12, max_iter=10_000).fit(X, y, weights)
    assert fit.gradient <= 1e-10
    assert np.abs(fit.coef - theirs.coef_).max() <= 1e-5
    assert np.abs(fit.coef.sum(axis=0)).max() <= 1e-13
    if intercept:
        assert np.abs(fit.intercept - theirs.intercept_).max() <= 1e-5
        assert abs(fit.intercept.sum()) <= 1e-13
    else:
        assert fit.intercept is None


def test_without_a_penalty_rows_of_classes_sum_to_zero_too() -> None:
    X, y = people(400, 3, 3)
    fit = fl.minimise(X, y, loss="softmax", intercept=True)
    theirs = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000).fit(X, y)
    assert np.abs(fit.coef - theirs.coef_).max() <= 1e-5
    assert np.abs(fit.coef.sum(axis=0)).max() <= 1e-13


def test_several_numbers_are_as_many_fits_at_once() -> None:
    X, _ = people(80, 4, 2)
    Y = np.random.default_rng(2).normal(size=(80, 3)) + X @ np.ones((4, 3))
    weights = np.random.default_rng(1).random(80) + 0.1
    fit = fl.minimise(X, Y, l2=1e-2, sample_weight=weights, intercept=True)
    theirs = Ridge(alpha=0.8).fit(X, Y, weights)
    assert fit.coef.shape == (3, 4)
    assert np.abs(fit.coef - theirs.coef_).max() <= 1e-12
    assert np.abs(fit.intercept - theirs.intercept_).max() <= 1e-12
    alone = fl.minimise(X, Y[:, 1], l2=1e-2, sample_weight=weights, intercept=True)
    assert np.abs(fit.coef[1] - alone.coef).max() <= 1e-13
    assert isinstance(fit, fl.Fit)


@pytest.mark.parametrize("names", [["b", "a", "c"], [7, -1, 100], [True, False, True]])
def test_classes_are_in_order_whatever_they_are_called(names: list[Any]) -> None:
    X, y = people(90, 3, 3)
    labels = np.array(names)[y]
    fit: Any = fl.minimise(X, labels, loss="softmax", l2=1e-2)
    assert fit.classes.tolist() == sorted(set(names))
    assert np.argmax(X @ fit.coef.T, axis=1).shape == (90,)
    place = fit.classes.tolist().index(names[0])
    own = fl.minimise(X, np.searchsorted(fit.classes, labels), loss="softmax", l2=1e-2)
    assert np.array_equal(fit.coef[place], own.coef[place])


def test_the_same_on_every_backend(to_rows: Callable[[Any], Any]) -> None:
    X, y = people(60, 3, 3)
    weights = np.random.default_rng(1).random(60) + 0.1
    for labels, loss in ((y, "softmax"), (np.column_stack([y, -y]).astype(float), "squared")):
        here = fl.minimise(X, labels, loss=loss, l2=1e-2, sample_weight=weights, intercept=True)
        there = fl.minimise(
            to_rows(X), to_rows(labels), loss=loss, l2=1e-2, sample_weight=to_rows(weights), intercept=True
        )
        assert np.abs(host(there.coef) - here.coef).max() <= 1e-12
        assert np.abs(host(there.intercept) - here.intercept).max() <= 1e-12


def test_a_class_of_one_row_is_a_class() -> None:
    X, y = people(100, 2, 2)
    y[3] = 2
    fit = fl.minimise(X, y, loss="softmax", l2=1e-3, intercept=True)
    assert fit.coef.shape == (3, 2)
    assert fit.gradient <= 1e-10


def test_nearly_separated_classes_have_a_minimum_where_one_row_is_between() -> None:
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]], 30, axis=0) + rng.normal(size=(90, 2))
    y = np.repeat([0, 1, 2], 30)
    y[[0, 30, 60]] = [1, 2, 0]
    fit = fl.minimise(X, y, loss="softmax", intercept=True)
    assert fit.gradient <= 1e-10
    assert fit.distance <= 1e-8


def test_separable_classes_are_refused_and_fitted_with_a_penalty() -> None:
    X = np.repeat([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]], 20, axis=0) + np.random.default_rng(0).normal(size=(60, 2))
    y = np.repeat(["a", "b", "c"], 20)
    with pytest.raises(fl.SeparableClassesError, match="Add an l2 penalty"):
        fl.minimise(X, y, loss="softmax", intercept=True)
    assert fl.minimise(X, y, loss="softmax", l2=1e-6, intercept=True).gradient <= 1e-10


def test_one_class_that_is_separable_from_the_others_is_refused() -> None:
    X, y = people(200, 2, 2)
    X, y = np.vstack([X, [[50.0, 50.0], [51.0, 50.0]]]), np.append(y, [2, 2])
    with pytest.raises(fl.SeparableClassesError):
        fl.minimise(X, y, loss="softmax", intercept=True)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.zeros(60), "one class only"),
        (np.linspace(0, 1, 60), "whole numbers or text"),
        (np.zeros((60, 2)), "one dimension"),
        (np.zeros(59), "one value for each"),
        ([None, *("ab" * 30)][:60], "missing"),
        (np.arange(60) + np.nan, "missing"),
    ],
)
def test_what_are_no_classes_is_refused(labels: Any, said: str) -> None:
    with pytest.raises(fl.InvalidInputError, match=said):
        fl.minimise(people(60, 2, 2)[0], labels, loss="softmax", l2=1e-2)


def test_more_values_than_classes_can_have_are_refused() -> None:
    X = np.random.default_rng(0).normal(size=(1100, 1))
    with pytest.raises(fl.InvalidInputError, match="1100 different values"):
        fl.minimise(X, np.arange(1100), loss="softmax", l2=1e-2)


def test_a_class_without_weight_is_refused_by_name() -> None:
    X, y = people(60, 2, 3)
    with pytest.raises(fl.InvalidInputError, match="Class 'c' has no row"):
        fl.minimise(X, np.array(list("abc"))[y], loss="softmax", l2=1e-2, sample_weight=(y != 2).astype(float))


def test_collinear_columns_are_named_once() -> None:
    X, y = people(100, 2, 3)
    with pytest.raises(fl.SingularHessianError, match=r"columns 'x.' and 'x.'"):
        fl.minimise(np.column_stack([X, X[:, 0]]), y, loss="softmax")
    with pytest.raises(fl.SingularHessianError, match="more parameters"):
        fl.minimise(X[:1].repeat(3, axis=0).reshape(1, 6), np.zeros((1, 2)))


def test_numbers_that_are_not_finite_are_refused() -> None:
    X, y = people(60, 2, 3)
    Y = np.column_stack([y, y]).astype(float)
    Y[3, 1] = np.nan
    with pytest.raises(fl.InvalidInputError, match="row 3"):
        fl.minimise(X, Y)
    X[5, 1] = np.inf
    with pytest.raises(fl.InvalidInputError, match="row 5"):
        fl.minimise(X, y, loss="softmax", l2=1.0)


def test_other_losses_take_one_label() -> None:
    X, y = people(60, 2, 3)
    with pytest.raises(fl.InvalidInputError, match="one dimension"):
        fl.minimise(X, np.column_stack([y, y]), loss="poisson")
