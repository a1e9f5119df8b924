"""Arrays in, arrays of the same library out, with the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from cases import make
from fisherleak._array import host

ATTRIBUTES = [
    fl.Attribute("block", [0, 1]),
    fl.Attribute.one_hot("levels", [1, 2, 3]),
    fl.Attribute("unit", [3], [[0.1]]),
]


def close(actual: Any, desired: Any) -> None:
    np.testing.assert_allclose(host(actual), desired, rtol=1e-11)


@pytest.mark.parametrize("loss", sorted(fl.LOSSES))
@pytest.mark.parametrize("intercept", [False, True])
def test_every_method(to_backend: Callable[[Any], Any], loss: str, intercept: bool) -> None:
    case = make(loss, 3, 60, 4, weighted=True, intercept=intercept)
    X, y, weights = to_backend(case.X), to_backend(case.y), to_backend(case.weights)
    fit = fl.minimise(X, y, case.loss, case.l2, weights, intercept)
    assert type(fit.coef) is type(X)
    close(fit.coef, case.fit().coef)
    for attributes in (None, ATTRIBUTES):
        ours = fl.measure(fit, X, y, fl.Gaussian(0.3), weights, attributes)
        reference = case.leak(fl.Gaussian(0.3), attributes)
        for method in ("per_example", "per_cell", "per_attribute", "per_label"):
            result = getattr(ours, method)()
            assert type(result) is type(X)
            close(result, getattr(reference, method)())
        close(ours.per_example([0]), reference.per_example([0]))
        close(ours.per_example([0], label=True), reference.per_example([0], label=True))
        assert ours.dataset() == pytest.approx(reference.dataset(), rel=1e-11)
        assert ours.of([1, 5], [1]) == pytest.approx(reference.of([1, 5], [1]), rel=1e-11)
        groups = np.arange(60) % 2
        assert ours.by_group(groups) == pytest.approx(reference.by_group(groups), rel=1e-11)
        close(ours.fim([0, 3], [0, 1]), reference.fim([0, 3], [0, 1]))
        assert ours.summary()[:40] == reference.summary()[:40]
        assert fl.calibrate(ours, 0.1).scale == pytest.approx(fl.calibrate(reference, 0.1).scale, rel=1e-10)


def test_composition(to_backend: Callable[[Any], Any]) -> None:
    case, other = make("logistic", 3, 40, 3), make("logistic", 3, 40, 3, l2=1.0, intercept=True)
    reference = fl.compose(case.leak(), other.leak(fl.Gaussian(2.0)))
    X, y = to_backend(case.X), to_backend(case.y)
    parts = [
        fl.measure(fl.minimise(X, y, "logistic", c.l2, None, c.intercept), X, y, fl.Gaussian(s))
        for c, s in ((case, 1.0), (other, 2.0))
    ]
    ours = fl.compose(*parts)
    for method in ("per_example", "per_cell", "per_attribute"):
        close(getattr(ours, method)(), getattr(reference, method)())
    assert ours.dataset() == pytest.approx(reference.dataset(), rel=1e-11)


def test_refusals_are_the_same(to_backend: Callable[[Any], Any]) -> None:
    case = make("squared", 3, 20, 3)
    broken = case.X.copy()
    broken[4, 2] = np.nan
    with pytest.raises(fl.InvalidInputError, match="row 4, column 2 is nan"):
        fl.minimise(to_backend(broken), to_backend(case.y))
    with pytest.raises(fl.SingularHessianError, match="rank is 3 of 4"):
        fl.minimise(to_backend(np.column_stack([case.X, case.X[:, 0]])), to_backend(case.y))


def test_labels_may_be_a_list_or_numpy(to_backend: Callable[[Any], Any]) -> None:
    case = make("squared", 3, 20, 3)
    fit = fl.minimise(to_backend(case.X), case.y.tolist())
    close(fit.coef, fl.minimise(case.X, case.y).coef)
