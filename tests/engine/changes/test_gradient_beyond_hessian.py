"""What gradients do beyond their Hessian, and the bounds of what is left out, against passes over all rows."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.engine.changes.gradient_beyond_hessian import FOLLOWED, _linear_forms, pays_expansion
from fisherleak.engine.changes.starting_fit import StartingFit, gradients_at


def problem(loss: str, spread: float = 1.0, n: int = 2000) -> StartingFit:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 4)) * np.array([1.0, 1.0, spread, 1.0])
    X[: n // 100] *= 4.0
    y = rng.integers(0, 3 if loss == "softmax" else 2, n) * 1.0
    return StartingFit(fl.minimise(X, y, loss, 1e-3, rng.gamma(2.0, 0.5, size=n), True), X, y, n)


@pytest.mark.parametrize("spread", [1.0, 1e-25, 1e25])
@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_what_is_left_out_is_within_its_bounds_in_any_unit(loss: str, spread: float) -> None:
    shared = problem(loss, spread)
    expansion, theta = shared.expansion, shared.fit.centred_theta
    assert expansion is not None
    assert expansion.followed.x.shape[0] == FOLLOWED
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(np.asarray(shared.fit.factor.core)) * 1.0
    moves = rng.normal(size=(30, theta.shape[0])) @ root.T * np.asarray(shared.fit.factor.scale)
    moves *= np.geomspace(0.02, 0.6, 30)[:, None] / shared.across(moves)[:, None]
    hessian = shared.risk.at(shared.theta, curvature=True).hessian
    exact = gradients_at(shared.risk, theta + moves) - moves @ hessian
    exact = exact - gradients_at(shared.risk, theta[None, :])
    found = expansion.beyond(moves)
    off = exact - found
    in_norm = np.sqrt(np.sum((off @ shared.inverse) * off, axis=1))
    size = np.sqrt(np.sum((exact @ shared.inverse) * exact, axis=1))
    seen = shared.length(off @ shared.inverse)
    slack = 1e-5 * size
    far = shared.across(moves)
    loose, tight = expansion.left_out(moves, far), expansion.left_out_closely(moves, far)
    for by_norm, by_seen in (loose, tight):
        assert (in_norm <= by_norm + slack).all()
        assert (seen <= by_seen + shared.spread * slack).all()
    assert (tight[0] <= loose[0] * 1.001).all()
    assert (tight[1] <= loose[1] * 1.001).all()
    assert (size <= expansion.rate(moves, far) * far).all()


def test_a_third_derivative_has_to_pay() -> None:
    shared = problem("logistic")
    assert pays_expansion(shared.risk, shared.loss, 2000)
    assert not pays_expansion(shared.risk, shared.loss, 0)
    assert problem("logistic", n=500).expansion is None


@pytest.mark.parametrize("classes", [2, 3, 4, 10])
def test_the_third_derivative_is_that_of_gradients_with_columns_that_few_rows_have(classes: int) -> None:
    rng = np.random.default_rng(classes)
    n = 1500
    X = np.concatenate([rng.normal(size=(n, 2)), np.eye(5)[rng.integers(0, 5, n)]], axis=1)
    X[:, 2] = 0.0  # no row has it
    y = rng.choice(classes, n, p=(share := np.geomspace(1.0, 0.1, classes)) / share.sum()) * 1.0
    shared = StartingFit(fl.minimise(X, y, "softmax", 1e-2, rng.gamma(2.0, 0.5, size=n), True), X, y, n)
    expansion, theta = shared.expansion, shared.fit.centred_theta
    assert expansion is not None
    assert expansion.cubes.shape[0] == classes * (classes**2 - 1) // 6
    assert expansion.cubes.dtype == np.float32
    moves = rng.normal(size=(20, theta.shape[0])) * np.asarray(shared.fit.factor.scale)
    moves *= 1e-3 / shared.across(moves)[:, None]
    second = gradients_at(shared.risk, theta + moves) + gradients_at(shared.risk, theta - moves)
    second = second - 2 * gradients_at(shared.risk, theta[None, :])
    found = expansion.beyond(moves) + expansion.beyond(-moves)
    off, size = (np.sqrt(np.sum((each @ shared.inverse) * each, axis=1)) for each in (found - second, second))
    assert (off <= 1e-5 * size).all()


@pytest.mark.parametrize("outputs", [1, 2, 3, 5])
def test_cubes_of_linear_forms_make_every_symmetric_form(outputs: int) -> None:
    forms, triples = _linear_forms(outputs)
    T = np.random.default_rng(0).normal(size=(outputs,) * 3)
    T = np.sum([T.transpose(order) for order in permutations(range(3))], axis=0)
    by = np.linalg.solve(
        np.array([[w[a] * w[b] * w[c] for w in forms] for a, b, c in triples]), [T[t] for t in triples]
    )
    v = np.random.default_rng(1).normal(size=outputs)
    np.testing.assert_allclose(np.einsum("i,ia,ib,ic->abc", by, forms, forms, forms), T, atol=1e-12)
    assert np.einsum("abc,a,b,c->", T, v, v, v) == pytest.approx(by @ (forms @ v) ** 3, rel=1e-9)
