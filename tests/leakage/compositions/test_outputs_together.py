"""Releases of models of several outputs about the same data: the information adds up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import linear_model as lm
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl

X, Y = load_iris(return_X_y=True)
EXACT: Any = {"tol": 1e-12, "max_iter": 100_000, "solver": "newton-cg"}


def stacked(*leakages: fl.Leakage) -> Any:
    parts = []
    for leak in leakages:
        J = leak._information.written_out(leak._information.attributes, True, None)
        parts.append(J / leak.noise.scale)
    return np.concatenate(parts, axis=1)


def test_information_of_two_releases_adds_up() -> None:
    one = fl.measure(fl.minimise(X, Y, loss="softmax", l2=1e-2, intercept=True), X, Y, fl.Gaussian(0.5))
    two = fl.measure(fl.minimise(X, Y, loss="softmax", l2=1e-1), X, Y, fl.Gaussian(2.0))
    both, J = fl.compose(one, two), stacked(one, two)
    np.testing.assert_allclose(both.per_example(), np.linalg.norm(J, 2, axis=(1, 2)), rtol=1e-10)
    np.testing.assert_allclose(both.per_cell(), np.linalg.norm(J[:, :, :4], axis=1), rtol=1e-10)
    assert both.dataset() == pytest.approx(np.linalg.norm(np.concatenate(list(J), axis=1), 2), rel=1e-10)
    assert both.per_attribute()[2] == pytest.approx(np.linalg.norm(J[:, :, 2], 2), rel=1e-10)
    np.testing.assert_allclose(both.membership(1e-8), np.hypot(one.membership(1e-8), two.membership(1e-8)), rtol=1e-10)
    assert "2 independent releases" in both.summary()
    assert list(both.to_frame().columns)[-1] == "membership"


def test_the_same_release_twice_is_one_with_less_noise() -> None:
    leak = fl.measure(fl.minimise(X, Y, loss="softmax", l2=1e-2), X, Y, fl.Gaussian(2.0))
    twice = fl.compose(leak, leak)
    np.testing.assert_allclose(twice.per_example(), np.sqrt(2.0) * leak.per_example(), rtol=1e-12)
    np.testing.assert_allclose(fl.compose(twice, leak).per_example(), np.sqrt(3.0) * leak.per_example(), rtol=1e-12)


def test_labels_are_in_the_unit_of_the_first_release() -> None:
    softmax = fl.measure(lm.LogisticRegression(**EXACT).fit(X, Y), X, Y)
    signs = fl.measure(lm.RidgeClassifier().fit(X, Y), X, Y)
    label = np.hypot(softmax.per_label(), 2.0 * signs.per_label())
    both = fl.compose(softmax, signs).per_label()
    assert np.all(both <= label * (1 + 1e-12))
    assert np.all(both >= np.maximum(softmax.per_label(), 2.0 * signs.per_label()) * (1 - 1e-12))
    np.testing.assert_allclose(fl.compose(signs, softmax).per_label(), both / 2.0, rtol=1e-10)


def test_releases_behind_different_scalers_share_raw_columns() -> None:
    plain = fl.measure(lm.LogisticRegression(**EXACT).fit(X, Y), X, Y)
    scaled = fl.measure(make_pipeline(StandardScaler(), lm.LogisticRegression(**EXACT)).fit(X, Y), X, Y)
    both = fl.compose(plain, scaled)
    np.testing.assert_allclose(both.per_cell(), np.hypot(plain.per_cell(), scaled.per_cell()), rtol=1e-10)


def test_other_labels_rows_and_kinds_are_refused() -> None:
    leak = fl.measure(fl.minimise(X, Y, loss="softmax", l2=1e-2), X, Y)
    other = (Y + 1) % 3
    with pytest.raises(fl.InvalidInputError, match="labels y differ"):
        fl.compose(leak, fl.measure(fl.minimise(X, other, loss="softmax", l2=1e-2), X, other))
    with pytest.raises(fl.InvalidInputError, match="labels y differ"):
        fl.compose(leak, fl.measure(fl.minimise(X, np.eye(3)[Y], l2=1e-2), X, np.eye(3)[Y]))
    with pytest.raises(fl.InvalidInputError, match="values of their tables differ"):
        fl.compose(leak, fl.measure(fl.minimise(X + 1.0, Y, loss="softmax", l2=1e-2), X + 1.0, Y))
    one = fl.measure(fl.minimise(X, Y > 0, loss="logistic", l2=1e-2), X, Y > 0)
    for pair in ((leak, one), (one, leak)):
        with pytest.raises(fl.UnsupportedModelError, match="models of one output"):
            fl.compose(*pair)
    with pytest.raises(fl.UnsupportedModelError, match="admissible"):
        fl.calibrate(fl.compose(leak, leak), 1.0, over="admissible")
    with pytest.raises(fl.InvalidInputError, match="no single noise"):
        fl.compose(leak, leak).with_noise(fl.Gaussian(1.0))
