"""Changed Hessians against dense ones."""

from __future__ import annotations

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.engine.changes.changed_fits import changed_risk
from fisherleak.engine.changes.changed_rows import filled_up, members
from fisherleak.engine.changes.starting_fit import StartingFit


@pytest.mark.parametrize("kind", ["features", "labels", "both", "removed"])
@pytest.mark.parametrize("size", [1, 2, 8])
@pytest.mark.parametrize("K", [2, 3, 4])
def test_the_changed_hessian_is_that_of_the_changed_rows(K: int, size: int, kind: str) -> None:
    """By few columns where a set has fewer than there are parameters, by a root of H where it has more."""
    rng = np.random.default_rng(K)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, K, 40) * 1.0
    fit = fl.minimise(X, y, "softmax", 1e-2, rng.gamma(2.0, 0.5, size=40), True)
    shared = StartingFit(fit, X, y, 5)
    rows = np.arange(5 * size).reshape(5, size)
    rows[0, 1:] = -1  # the first set is filled up
    changed = X[rows] + rng.normal(size=(5, size, 3)) if kind in ("features", "both") else None
    labels = (y[rows] + 1) % K if kind in ("labels", "both") else None
    changes = shared.removed(rows) if kind == "removed" else shared.replaced(rows, changed, labels)
    assert np.all(changes.real)
    found = shared.changed_hessian(changes)
    assert found.M.shape[1] <= max(shared.theta.size, size * (K - 1) * 2 if size == 1 else 0)
    gradient = rng.normal(size=(5, shared.theta.size))
    solved = found.solve(gradient, shared.inverse)
    moved = 0.1 * gradient
    own = found.own_gradient(moved, changes, shared.loss, shared.theta)
    for k in range(5):
        risk = changed_risk(shared, changes, k)
        at = risk.at(shared.theta, curvature=True)
        H = np.asarray(at.hessian)
        np.testing.assert_allclose(H @ solved[k], gradient[k], rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(H @ found.newton[k], -np.asarray(at.gradient), atol=1e-8)
        if found.M.shape[1] < shared.theta.size:
            ratio = np.linalg.det(H) / np.linalg.det(np.asarray(shared.risk.at(shared.theta, curvature=True).hessian))
            np.testing.assert_allclose(found.det[k], ratio, rtol=1e-8)
        there, before = (each.at(shared.theta + moved[k], curvature=False).gradient for each in (risk, shared.risk))
        np.testing.assert_allclose(own[k], there - before, atol=1e-9)


def test_sets_are_filled_up_to_a_power_of_two() -> None:
    sets = [np.array([3]), np.array([1, 4, 5]), np.array([0, 2]), np.array([9, 8, 7, 6])]
    found = {
        int(place): row
        for places, rows in filled_up(sets, np.zeros(1))
        for place, row in zip(places, rows, strict=True)
    }
    assert [np.size(found[k]) for k in range(4)] == [1, 4, 2, 4]
    assert [members(found[k]).tolist() for k in range(4)] == [rows.tolist() for rows in sets]
