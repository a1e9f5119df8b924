"""Changed Hessians against dense ones."""

from __future__ import annotations

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.engine.changes.changed_rows import filled_up, members
from fisherleak.engine.changes.starting_fit import StartingFit


@pytest.mark.parametrize("K", [2, 3, 4])
def test_the_changed_hessian_is_that_of_the_changed_rows(K: int) -> None:
    rng = np.random.default_rng(K)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, K, 40) * 1.0
    fit = fl.minimise(X, y, "softmax", 1e-2, rng.gamma(2.0, 0.5, size=40), True)
    shared = StartingFit(fit, X, y, 5)
    rows = np.arange(5)
    changed, labels = X[rows] + rng.normal(size=(5, 3)), (y[rows] + 1) % K
    changes = shared.replaced(rows, changed, labels)
    found = shared.changed_hessian(changes)
    gradient = rng.normal(size=(5, shared.inverse.shape[0]))
    solved = found.solve(gradient, shared.inverse)
    for k in range(5):
        other, others = X.copy(), y.copy()
        other[k], others[k] = changed[k], labels[k]
        risk = StartingFit(fit, other, others, 1).risk
        at = risk.at(fit.centred_theta, curvature=True)
        H = np.asarray(at.hessian)
        np.testing.assert_allclose(H @ solved[k], gradient[k], rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(H @ found.newton[k], -np.asarray(at.gradient), atol=1e-8)
        ratio = np.linalg.det(H) / np.linalg.det(np.asarray(shared.hessian))
        np.testing.assert_allclose(found.det[k], ratio, rtol=1e-8)
        moved = 0.1 * gradient[[k]]
        one = changes.take(np.array([k]))
        mine = found.take(np.array([k]))
        there = risk.at(fit.centred_theta + moved[0], curvature=False).gradient
        before = shared.risk.at(fit.centred_theta + moved[0], curvature=False).gradient
        np.testing.assert_allclose(
            mine.own_gradient(moved, one, shared.loss, shared.theta)[0], there - before, atol=1e-9
        )


def test_sets_are_filled_up_to_a_power_of_two() -> None:
    sets = [np.array([3]), np.array([1, 4, 5]), np.array([0, 2]), np.array([9, 8, 7, 6])]
    found = {
        int(place): row
        for places, rows in filled_up(sets, np.zeros(1))
        for place, row in zip(places, rows, strict=True)
    }
    assert [np.size(found[k]) for k in range(4)] == [1, 4, 2, 4]
    assert [members(found[k]).tolist() for k in range(4)] == [rows.tolist() for rows in sets]
