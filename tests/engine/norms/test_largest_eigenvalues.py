"""Largest eigenvalues of small matrices, compiled, portable and by Lanczos' steps, against LAPACK; of large sets by products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fisherleak as fl
from fisherleak.engine.norms import largest_eigenvalues as largest
from fisherleak.engine.norms.largest_eigenvalues import (
    LARGE,
    WANTED,
    _by_steps,
    top_by_products,
    top_of_factors,
    top_of_matrices,
)

HOSTILE = [
    np.eye(6),
    np.zeros((6, 6)),
    np.ones((6, 6)),
    np.diag([1.0, 2.0, 2.0, 2.0, 1.0, 0.0]),
    np.diag([3.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
    np.diag([1.0, 1 - 1e-9, 1 - 1e-12, 1e-8, 0.0, 0.0]),
    1e290 * np.ones((6, 6)),
    1e-290 * np.ones((6, 6)),
    np.diag(np.geomspace(1.0, 1e-300, 6)),
]


def semidefinite(seed: int, size: int, count: int = 40) -> Any:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(count, size, size + 2)) * np.geomspace(1.0, 10.0 ** -rng.integers(0, 9), size)[None, :, None]
    Q, _ = np.linalg.qr(rng.normal(size=(size, size)))
    A = Q @ A
    return A @ A.transpose(0, 2, 1)


@given(seed=st.integers(0, 10**6), size=st.integers(1, 40))
def test_it_is_lapacks(seed: int, size: int) -> None:
    G = semidefinite(seed, size)
    np.testing.assert_allclose(top_of_matrices(G), np.linalg.eigvalsh(G)[:, -1], rtol=1e-13)


@given(seed=st.integers(0, 10**6), size=st.integers(3, 30))
def test_compiled_is_lapacks(seed: int, size: int) -> None:
    compiled = pytest.importorskip("fisherleak.engine.norms.kernels.tridiagonal_numba")
    G = semidefinite(seed, size)
    np.testing.assert_allclose(compiled.top_of_matrices_compiled(G), np.linalg.eigvalsh(G)[:, -1], rtol=1e-13)


def test_compiled_where_it_is_hostile() -> None:
    compiled = pytest.importorskip("fisherleak.engine.norms.kernels.tridiagonal_numba")
    G = np.stack(HOSTILE)
    np.testing.assert_allclose(compiled.top_of_matrices_compiled(G), np.linalg.eigvalsh(G)[:, -1], rtol=1e-13)


@given(seed=st.integers(0, 10**6), size=st.integers(3, 40))
def test_steps_find_it_and_their_error_is_true(seed: int, size: int) -> None:
    G = semidefinite(seed, size)
    values, errors = top_by_products(lambda state, V: (state[0] @ V[:, :, None])[:, :, 0], (G,), size)
    exact = np.linalg.eigvalsh(G)[:, -1]
    assert np.all(values <= exact * (1 + 1e-13))
    assert np.all(exact - values <= (errors + 1e-13) * exact)
    np.testing.assert_allclose(_by_steps(G), exact, rtol=2 * WANTED)


def test_steps_where_it_is_hostile(to_backend: Callable[[Any], Any]) -> None:
    usual = [G for G in HOSTILE if G.max() < 1e100 and not 0 < G.max() < 1e-100]
    found = _by_steps(to_backend(np.stack(usual)))
    exact = np.linalg.eigvalsh(np.stack(usual))[:, -1]
    np.testing.assert_allclose([float(x) for x in found], exact, rtol=2 * WANTED)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_on_every_library(to_backend: Callable[[Any], Any], size: int) -> None:
    G = semidefinite(1, size)
    found = top_of_matrices(to_backend(G))
    np.testing.assert_allclose([float(x) for x in found], np.linalg.eigvalsh(G)[:, -1], rtol=1e-10)


def test_by_products_it_is_the_largest_eigenvalue() -> None:
    rng = np.random.default_rng(0)
    root = np.eye(LARGE) + 0.1 * rng.standard_normal((LARGE, LARGE)) / LARGE**0.5
    few = rng.standard_normal((LARGE, 20))
    T = few @ few.T + np.diag(rng.uniform(0.5, 1.5, LARGE))
    top = top_of_factors(root, lambda sums: sums[0])
    assert top is not None
    found = top((T,))
    assert found == pytest.approx(np.linalg.eigvalsh(root @ T @ root.T)[-1], rel=1e-9)


def test_a_spectrum_without_gaps_is_left_to_the_matrix() -> None:
    top = top_of_factors(np.eye(3 * LARGE), lambda sums: sums[0])
    assert top is not None
    assert top((np.diag(np.linspace(1.0, 1.0 + 1e-4, 3 * LARGE)),)) is None
    assert top_of_factors(np.eye(LARGE - 1), lambda sums: sums[0]) is None


@pytest.mark.parametrize("classes", [2, 3])
def test_sets_of_a_measured_model(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 25))
    y = rng.integers(0, classes, 60)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, tol=1e-10, max_iter=1000)).fit(X, y)
    groups = np.arange(60) % 4

    def norms() -> list[float]:
        leak = fl.measure(model, X, y, noise=fl.Gaussian(1.0), public="nothing")
        return [leak.dataset(), leak.of(rows=[3, 5]), *leak.by_group(groups).values()]

    dense = norms()
    asked: list[int] = []
    by_products = largest.top_by_products

    def counted(*args: Any, **options: Any) -> Any:
        asked.append(1)
        return by_products(*args, **options)

    monkeypatch.setattr(largest, "LARGE", 5)
    monkeypatch.setattr(largest, "top_by_products", counted)
    np.testing.assert_allclose(norms(), dense, rtol=1e-9)
    assert len(asked) == 6


def test_large_matrices_are_not_decomposed(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    J = rng.standard_normal((6, 30, largest.STEPS_FROM)) * np.exp(-np.arange(30) / 5.0)[None, :, None]
    G = J.transpose(0, 2, 1) @ J
    G[3] = 0.0
    G[4] = np.eye(len(G[4]))
    exact = np.linalg.eigvalsh(G)[:, -1]
    monkeypatch.setattr(np.linalg, "eigvalsh", lambda G: pytest.fail("a matrix was decomposed"))
    np.testing.assert_allclose(top_of_matrices(G), exact, rtol=2 * WANTED)
