"""Extremes are measured right, by comparing with the same problem in ordinary units, or refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn import linear_model as lm
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl

RNG = np.random.default_rng(0)
N, D = 40, 4
X = RNG.normal(size=(N, D))
Y = X @ RNG.normal(size=D) + 0.5 * RNG.normal(size=N) + 1.0
W = RNG.gamma(3.0, 0.4, N)
GROUPS = np.arange(N) % 3
LABELS = {"squared": Y, "logistic": (Y > 1) * 1.0, "poisson": np.floor(np.exp(0.5 * Y)), "gamma": np.exp(0.5 * Y)}
BIG = 2.0**95  # 4e28: within the limits, with a little room for the largest values
MODELS: dict[str, Any] = {
    "squared": lm.LinearRegression(),
    "ridge": lm.Ridge(alpha=1.0),
    "logistic": lm.LogisticRegression(solver="newton-cholesky", tol=1e-10, max_iter=1000),
    "poisson": lm.PoissonRegressor(alpha=0.1, solver="newton-cholesky", tol=1e-10, max_iter=1000),
    "gamma": lm.GammaRegressor(alpha=0.1, solver="newton-cholesky", tol=1e-10, max_iter=1000),
}


def everything(leak: fl.Leakage) -> dict[str, Any]:
    """Each number that can be asked for, split by its unit: of the features, of the label, of membership."""
    names = leak.attributes
    features = {
        "cells": leak.per_cell(),
        "attributes": leak.per_attribute(),
        "examples": leak.per_example(names),
        "data": leak.of(attributes=names),
        "first": leak.of(GROUPS == 0, names),
        "scale": fl.calibrate(leak, eta=1.0, attributes=names).scale,
    }
    return {"features": features, "labels": leak.per_label(), "membership": leak.membership(1e-8)}


SIDES = (1 / BIG, BIG)
CORNERS = [("squared", unit, label, weight) for unit in SIDES for label in SIDES for weight in SIDES]
CORNERS += [(loss, unit, 1.0, weight) for loss in ("logistic", "poisson") for unit in SIDES for weight in SIDES]


@pytest.mark.parametrize(("loss", "unit", "label", "weight"), CORNERS)
def test_units_at_their_limits_change_etas_by_known_powers(loss: str, unit: float, label: float, weight: float) -> None:
    y, l2 = LABELS[loss], 0.01
    noise = fl.Gaussian(1.0, np.eye(D + 1))
    ordinary = everything(fl.measure(fl.minimise(X, y, loss, l2, W, True), X, y, noise))
    in_units = np.append(np.full(D, label / unit), label)
    other = fl.minimise(X * unit, y * label, loss, l2 * weight * unit**2, W * weight, True)
    found = everything(fl.measure(other, X * unit, y * label, fl.Gaussian(1.0, np.diag(in_units**2))))
    for name, value in found["features"].items():
        np.testing.assert_allclose(value * unit, ordinary["features"][name], rtol=1e-8, err_msg=name)
    np.testing.assert_allclose(found["labels"] * label, ordinary["labels"], rtol=1e-8)
    np.testing.assert_allclose(found["membership"], ordinary["membership"], rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("unit", [1 / BIG, BIG])
def test_units_at_their_limits_without_a_shape(unit: float) -> None:
    ordinary = fl.measure(fl.minimise(X, Y, l2=0.01), X, Y)
    other = fl.measure(fl.minimise(X * unit, Y, l2=0.01 * unit**2), X * unit, Y)
    np.testing.assert_allclose(other.per_cell() * unit**2, ordinary.per_cell(), rtol=1e-10)
    np.testing.assert_allclose(other.per_label() * unit, ordinary.per_label(), rtol=1e-10)
    assert 0 < other.dataset() < np.inf
    assert all(0 < eta < np.inf for eta in other.by_group(GROUPS).values())


@pytest.mark.parametrize("unit", [1e-20, 1e20])
@pytest.mark.parametrize("columns", [4, 60])
def test_units_end_to_end(unit: float, columns: int) -> None:
    """Behind a scaler units do not matter to the model; etas by products (many columns) and written out (few)."""
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(80, columns)) + 0.3
    y = Z @ rng.normal(size=columns) + rng.normal(size=80)
    leaks = [
        fl.measure(make_pipeline(StandardScaler(), lm.Ridge(3.0)).fit(x, y), x, y, public="nothing")
        for x in (Z, Z * unit)
    ]
    names = leaks[0].attributes
    # noise acts in units of the columns' scales on a grid, so a little is left
    np.testing.assert_allclose(leaks[1].per_example(names) * unit, leaks[0].per_example(names), rtol=0.2)
    np.testing.assert_allclose(leaks[1].per_cell() * unit, leaks[0].per_cell(), rtol=0.4)


Change = Callable[[Any, Any, Any], tuple[Any, Any, Any]]
BEYOND: dict[str, tuple[Change, str]] = {
    "small features": (lambda X, y, w: (X * 1e-77, y, w), "e-77.*ordinary units"),
    "large features": (lambda X, y, w: (X * 1e77, y, w), r"e\+77.*ordinary units"),
    "light rows": (lambda X, y, w: (X, y, w * 1e-200), "sample_weight has a value of .*e-200"),
    "one light row": (
        lambda X, y, w: (X, y, np.where(np.arange(N) == 3, 1e-200, w)),
        "sample_weight has a value of 1e-200",
    ),
    "heavy rows": (lambda X, y, w: (X, y, w * 1e200), r"sample_weight has a value of .*e\+200"),
}


@pytest.mark.parametrize("change", BEYOND)
@pytest.mark.parametrize("loss", LABELS)
def test_beyond_them_is_one_sentence(loss: str, change: str) -> None:
    move, message = BEYOND[change]
    x, y, w = move(X, LABELS[loss], W)
    with pytest.raises(fl.InvalidInputError, match=message):
        fl.minimise(x, y, loss, 0.01, w, True)
    fit = fl.minimise(X, LABELS[loss], loss, 0.01, W, True)
    with pytest.raises(fl.InvalidInputError):
        fl.measure(fit, x, y, sample_weight=w)


@pytest.mark.parametrize("size", [1e160, 1e-160, 1e40, -1e300])
def test_so_are_labels_beyond_them(size: float) -> None:
    for intercept in (False, True):
        with pytest.raises(fl.InvalidInputError, match=r"y has a largest value of .*ordinary units"):
            fl.minimise(X, Y * size, "squared", 0.01, None, intercept)


def test_and_penalties() -> None:
    with pytest.raises(fl.InvalidInputError, match=r"l2 is 1e.200, and its largest value"):
        fl.minimise(X, Y, l2=1e200)


@pytest.mark.filterwarnings("ignore::RuntimeWarning:sklearn", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_models_of_scikit_learn_are_refused_in_the_same_words(name: str) -> None:
    y = LABELS.get(name, Y)
    with pytest.raises(fl.InvalidInputError, match=r"Column 'x0' has a largest value of .*e-77"):
        fl.measure(MODELS[name].fit(X * 1e-77, y), X * 1e-77, y)
    weights = np.where(np.arange(N) == 3, 1e-200, 1.0)
    model = MODELS[name].fit(X, y, sample_weight=weights)
    with pytest.raises(fl.InvalidInputError, match="sample_weight has a value of 1e-200"):
        fl.measure(model, X, y, sample_weight=weights)


@pytest.mark.parametrize("loss", LABELS)
def test_a_row_may_be_much_lighter_than_others(loss: str) -> None:
    """Its etas follow its weight, since it has no part in the fit."""
    y, at = LABELS[loss], np.arange(N) == 3
    leaks = []
    for weight in (1e-30, 1e-110):
        w = np.where(at, weight, W)
        leaks.append(fl.measure(fl.minimise(X, y, loss, 0.01, w, True), X, y))
    np.testing.assert_allclose(leaks[1].per_cell()[3] * 1e80, leaks[0].per_cell()[3], rtol=1e-8)
    np.testing.assert_allclose(leaks[1].per_example()[3] * 1e80, leaks[0].per_example()[3], rtol=1e-8)
    assert leaks[1].per_label()[3] > 0


def test_a_raw_column_that_a_scaler_brings_to_ordinary_units() -> None:
    pipe = make_pipeline(StandardScaler(), lm.Ridge()).fit(X * 1e-77, Y)
    for public in ("preprocessing", "nothing"):
        with pytest.raises(fl.InvalidInputError, match=r"Column .*'?x0'? .*e-7[78],.*ordinary units"):
            fl.measure(pipe, X * 1e-77, Y, public=public)


@pytest.mark.parametrize("l2", [0.0, 1e-4, 0.01])
def test_one_label_of_1e15_in_a_gamma_fit(l2: float) -> None:
    """The curvature of all other rows is 1e-15 at the start, and steps from there are far too long."""
    y = np.where(np.arange(N) == 3, 1e15, LABELS["gamma"])
    fit = fl.minimise(X, y, "gamma", l2, None, True)
    z = X @ fit.coef + fit.intercept
    r = 1.0 - y * np.exp(-z)
    gradient = np.append(X.T @ r + N * l2 * fit.coef, r.sum())
    assert np.abs(gradient).max() < 1e-9 * np.abs(r).sum()
    # all labels in another unit: the intercept takes it up
    less = fl.minimise(X, y / 1024.0, "gamma", l2, None, True)
    one, two = (everything(fl.measure(f, X, t)) for f, t in ((fit, y), (less, y / 1024.0)))
    for name, value in one["features"].items():
        np.testing.assert_allclose(value, two["features"][name], rtol=1e-7, err_msg=name)
    np.testing.assert_allclose(one["labels"] * 1024.0, two["labels"], rtol=1e-7)
    np.testing.assert_allclose(one["membership"], two["membership"], rtol=1e-6, atol=1e-10)


def test_labels_far_from_zero_are_right_or_refused() -> None:
    """The reference takes the shift off the rounded labels, which is exact."""
    for shift in (1e3, 1e6):
        y = Y + shift
        near = fl.measure(fl.minimise(X, y - shift, l2=0.01, intercept=True), X, y - shift)
        far = fl.measure(fl.minimise(X, y, l2=0.01, intercept=True), X, y)
        np.testing.assert_allclose(far.per_cell(), near.per_cell(), rtol=1e-7)
        np.testing.assert_allclose(far.per_example(), near.per_example(), rtol=1e-7)
        assert far.dataset() == pytest.approx(near.dataset(), rel=1e-7)
    for loss in ("squared", "poisson", "gamma"):
        with pytest.raises(fl.InvalidInputError, match=r"y lies between .*Subtract a constant from y"):
            fl.minimise(X, np.abs(Y) + 1e12, loss, 0.01, None, True)
    with pytest.raises(fl.InvalidInputError, match="Subtract a constant from y"):
        fl.measure(lm.Ridge().fit(X, Y + 1e12), X, Y + 1e12)
    # without an intercept there is nothing to cancel
    far = fl.measure(fl.minimise(X, Y + 1e12, l2=0.01), X, Y + 1e12)
    less = fl.measure(fl.minimise(X, (Y + 1e12) / 2**40, l2=0.01), X, (Y + 1e12) / 2**40)
    np.testing.assert_allclose(far.per_cell() / 2**40, less.per_cell(), rtol=1e-10)


def test_columns_far_from_zero_are_right() -> None:
    """But for the intercept, at a zero that is far away, a shift changes nothing: noise drowns it here."""
    x = X + 1e12
    noise = fl.Gaussian(1.0, np.diag([*[1.0] * D, 1e45]))
    for loss, y in LABELS.items():
        near = fl.measure(fl.minimise(x - 1e12, y, loss, 0.01, W, True), x - 1e12, y, noise)
        far = fl.measure(fl.minimise(x, y, loss, 0.01, W, True), x, y, noise)
        np.testing.assert_allclose(far.per_cell(), near.per_cell(), rtol=1e-7)
        np.testing.assert_allclose(far.membership(), near.membership(), rtol=1e-6, atol=1e-12)
        assert far.dataset() == pytest.approx(near.dataset(), rel=1e-7)


def test_zeros_are_no_extremes() -> None:
    """Columns and labels of zeros, and weights of zero, are what they were."""
    fl.minimise(np.column_stack([X, np.zeros(N)]), np.zeros(N), l2=0.1, sample_weight=np.where(GROUPS == 0, 0.0, W))
    counted = np.where(GROUPS == 0, 0.0, W)
    y = np.where(GROUPS == 0, 1e200, Y)
    with pytest.raises(fl.FisherleakError):
        fl.minimise(np.where(GROUPS[:, None] == 0, 1e200, X), y, l2=0.1, sample_weight=counted)
