"""Compiled kernels are loaded where a table pays for it, and nowhere else."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import fisherleak as fl
from cases import dense_jacobian, make, norms
from fisherleak.engine.norms import kernels, matrix_free


def test_small_tables_load_no_compiled_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading takes longer than all of their etas; tables of many values have them."""
    for name in ("releases_numba", "tridiagonal_numba"):
        monkeypatch.setitem(sys.modules, f"fisherleak.engine.norms.kernels.{name}", None)
    case = make("squared", 1, 1500, 8)
    both = fl.compose(case.leak(fl.Gaussian(0.3)), case.leak(fl.Gaussian(2.0)))
    J = dense_jacobian(case, case.fit())[:5]
    squares = norms(J)[:5] ** 2 * (1 / 0.09 + 1 / 4.0)
    for written_out in (0, 10_000):
        monkeypatch.setattr(matrix_free, "WRITTEN_OUT", written_out)
        np.testing.assert_allclose(both.per_example()[:5], np.sqrt(squares), rtol=1e-10)
    if kernels._HAS_NUMBA:
        monkeypatch.setattr(matrix_free, "COMPILED_FROM", 0)
        with pytest.raises(ImportError):
            both.per_example()
