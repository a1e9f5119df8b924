"""Products and inverses with mostly empty matrices are those of full ones."""

from __future__ import annotations

import numpy as np
import pytest

from fisherleak._support.sparse import MANY, inverse_of, times


def _arrow(size: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    arrow = np.diag(rng.uniform(0.5, 2.0, size))
    arrow[-1, :-1] = rng.standard_normal(size - 1)
    return arrow


@pytest.mark.parametrize("size", [5, MANY])
def test_products(size: int) -> None:
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((size, 7))
    full = rng.standard_normal((size, size))
    np.testing.assert_allclose(times(_arrow(size), matrix), _arrow(size) @ matrix, atol=1e-13)
    np.testing.assert_array_equal(times(full, matrix), full @ matrix)


@pytest.mark.parametrize("size", [5, MANY])
def test_inverses(size: int) -> None:
    full = np.eye(size) + np.random.default_rng(2).standard_normal((size, size)) / (4 * size**0.5)
    for matrix in (_arrow(size), full):
        np.testing.assert_allclose(inverse_of(matrix) @ matrix, np.eye(size), atol=1e-9)
    hollow = np.tril(full)
    hollow[2, 2] = 0.0
    with pytest.raises(np.linalg.LinAlgError):
        inverse_of(hollow)
