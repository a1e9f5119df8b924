"""What gradients do beyond their Hessian, and the bounds of what is left out, against passes over all rows."""

from __future__ import annotations

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.engine.neighbours import gradients_at
from fisherleak.engine.replacement.expansion import FOLLOWED, pays_expansion
from fisherleak.engine.replacement.settling import Replacements


def problem(loss: str, spread: float = 1.0, n: int = 2000) -> Replacements:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 4)) * np.array([1.0, 1.0, spread, 1.0])
    X[: n // 100] *= 4.0
    y = rng.integers(0, 3 if loss == "softmax" else 2, n) * 1.0
    return Replacements(fl.minimise(X, y, loss, 1e-3, rng.gamma(2.0, 0.5, size=n), True), X, y, n)


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
    exact = gradients_at(shared.risk, theta + moves) - moves @ shared.hessian
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
