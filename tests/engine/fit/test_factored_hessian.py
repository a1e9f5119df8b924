"""Hessians of few rows and many columns: the inverse from the space of the rows is the inverse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.engine.fit import risk as risk_module
from fisherleak.engine.fit.factored_hessian import Wide, factorise


@pytest.mark.parametrize("intercept", [False, True])
def test_the_inverse_from_the_rows_is_the_inverse(intercept: bool) -> None:
    rng = np.random.default_rng(3)
    roots = rng.standard_normal((20, 260)) * rng.uniform(0.1, 30.0, 260)
    penalty = rng.uniform(0.5, 2.0, 260)
    if intercept:
        roots[:, -1], penalty[-1] = rng.uniform(0.1, 1.0, 20), 0.0
    H = roots.T @ roots + np.diag(penalty)
    names = [f"x{j}" for j in range(260)]
    dense, wide = factorise(H, names), factorise(H, names, Wide(roots, penalty, intercept))
    np.testing.assert_allclose(wide.core, dense.core, atol=1e-10 * np.abs(dense.core).max())
    assert wide.condition == pytest.approx(dense.condition, rel=1e-8)
    np.testing.assert_allclose(wide.inverse() @ H, np.eye(260), atol=1e-6)
    parts = Wide(roots, penalty, intercept)
    np.testing.assert_allclose(parts.whole(), H, rtol=1e-12, atol=1e-12 * np.abs(H).max())
    vector = rng.standard_normal(260)
    expected = dense.solve(vector)
    np.testing.assert_allclose(parts.solve(vector), expected, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_allclose(parts.scale, dense.scale, rtol=1e-12)


def test_leverages_near_one_keep_their_digits() -> None:
    """1 - h of every row from the dual, where nothing cancels: the inverse is no worse there than a factorisation's."""
    rng = np.random.default_rng(0)
    X, weight = rng.standard_normal((30, 900)), 0.3
    left = np.diag(np.linalg.inv(np.eye(30) + X @ X.T / weight))
    H, names = X.T @ X + weight * np.eye(900), [""] * 900
    penalty = np.full(900, weight)
    found = [factorise(H, names, wide).inverse() for wide in (None, Wide(X, penalty, False))]
    dense, wide = (np.max(np.abs((1 - np.sum((X @ B) * X, axis=1)) / left - 1)) for B in found)
    assert left.max() < 1e-3
    assert wide < max(10 * dense, 1e-8)


def test_the_hessian_of_many_columns_is_factored_at_the_start_and_at_the_end_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []

    def counted(*given: Any) -> Any:
        made.append(len(given))
        return factorise(*given)

    monkeypatch.setattr(risk_module, "factorise", counted)
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, 300))
    fit = fl.minimise(X, (X[:, 0] > 0).astype(float), "logistic", l2=0.01, intercept=True)
    assert fit.steps > 3
    assert len(made) == 2


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_wide_fits_are_those_of_a_dense_factorisation(
    loss: str, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 300)) + 3.0
    y = (X[:, 0] > 3).astype(float) if loss == "logistic" else rng.integers(0, 5, 40).astype(float)
    weights = rng.uniform(0.5, 2.0, 40) if weighted else None

    def etas() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        fit = fl.minimise(X, y, loss=loss, l2=1e-2, intercept=True, sample_weight=weights)
        leak = fl.measure(fit, X, y, noise=fl.Gaussian(1.0))
        return fit.theta, leak.per_example(), leak.membership()

    found = etas()
    assert (
        risk_module.Risk(X, y, weights, loss=fl.engine.losses.LOSSES[loss], l2=1e-2, intercept=True)._wide(found[0])
        is not None
    )
    monkeypatch.setattr(risk_module, "MANY_COLUMNS", 10**9)
    for mine, dense in zip(found, etas(), strict=True):
        np.testing.assert_allclose(mine, dense, rtol=1e-7, atol=1e-9 * np.abs(dense).max())
