"""Sets of rows of large models: the largest eigenvalue by products is that of the matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.engine.norms.eigenvalues import lanczos, large_sets
from fisherleak.engine.norms.eigenvalues.large_sets import LARGE, top_of_factors


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
    by_products = lanczos.top_by_products

    def counted(*args: Any, **options: Any) -> Any:
        asked.append(1)
        return by_products(*args, **options)

    monkeypatch.setattr(large_sets, "LARGE", 5)
    monkeypatch.setattr(large_sets, "top_by_products", counted)
    np.testing.assert_allclose(norms(), dense, rtol=1e-9)
    assert len(asked) == 6
