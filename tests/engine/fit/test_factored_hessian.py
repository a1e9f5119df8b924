"""Hessians of few rows and many columns: the inverse from the space of the rows is the inverse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from fisherleak._support.arrays import cholesky_inverse, namespace
from fisherleak.engine.fit import risk as risk_module
from fisherleak.engine.fit.factored_hessian import Wide, factorise, triangle_of


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
    made = factorise(None, names, Wide(roots, penalty, intercept))  # without H, which it makes
    np.testing.assert_allclose(made.core, wide.core, atol=1e-12 * np.abs(wide.core).max())
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


def test_the_hessian_of_many_columns_is_factored_at_the_end_alone(
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
    assert len(made) == 1


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_steps_without_the_inverse_end_where_those_with_it_do(
    loss: str, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((120, 12))
    y = np.digitize(X[:, 0] + rng.standard_normal(120), [-0.5, 0.5]) if loss == "softmax" else 1.0 * (X[:, 0] > 0.1)
    weights = rng.uniform(0.5, 2.0, 120) if weighted else None
    plain = fl.minimise(X, y, loss, l2=0.01, sample_weight=weights, intercept=True)
    asked: list[int] = []

    def counted(*given: Any) -> Any:
        asked.append(len(given))
        return triangle_of(*given)

    monkeypatch.setattr(risk_module, "MANY_PARAMETERS", 2)
    monkeypatch.setattr(risk_module, "triangle_of", counted)
    quick = fl.minimise(X, y, loss, l2=0.01, sample_weight=weights, intercept=True)
    assert len(asked) == quick.steps + 1
    np.testing.assert_allclose(quick.theta, plain.theta, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(quick.factor.inverse(), plain.factor.inverse(), rtol=1e-9, atol=1e-13)


def test_a_triangle_of_a_singular_hessian_is_refused_as_its_inverse_is() -> None:
    X = np.random.default_rng(4).standard_normal((50, 3))
    X = np.column_stack([X, X[:, 0] - X[:, 1]])
    H, names = X.T @ X, ["a", "b", "c", "d"]
    refused = []
    for factored in (factorise, triangle_of):
        with pytest.raises(fl.SingularHessianError) as error:
            factored(H, names)
        refused.append(str(error.value))
    assert refused[0] == refused[1]


def test_the_inverse_of_a_matrix_larger_than_a_block_of_its_mirror_is_symmetric() -> None:
    X = np.random.default_rng(5).standard_normal((400, 150))
    found = cholesky_inverse(X.T @ X, namespace(X))
    assert found is not None
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(found, np.linalg.inv(X.T @ X), rtol=1e-9, atol=1e-14)


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
