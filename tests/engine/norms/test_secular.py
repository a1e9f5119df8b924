from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak.engine.norms import secular

Vector = NDArray[np.float64]
Problem = tuple[Vector, Vector, Vector, Vector, Vector, Vector | None]


def hostile(seed: int, k: int, spread: float, second: bool) -> Problem:
    """Rows of every awkward kind at once; ``spread`` in decades."""
    rng = np.random.default_rng(seed)
    n = 40

    def scattered(*shape: int) -> Vector:
        return np.asarray(rng.normal(size=shape) * 10.0 ** rng.uniform(-spread, 1, shape))

    s = np.sort(10.0 ** rng.uniform(-spread, 1, k))
    if seed % 3 == 0:
        s[rng.integers(k)] = s[-1]  # repeated poles
    if seed % 5 == 0:
        s[: k // 2] = 0.0
    if seed % 11 == 0:
        s[:] = 0.0
    v, U = scattered(k), scattered(n, k)
    r, h, c = scattered(n), scattered(n), scattered(n)
    r[:3] = 0.0
    h[2:5] = 0.0
    c[4:7] = 0.0
    U[5:10] = 0.0
    U[20:25] = -(r[20:25] / h[20:25])[:, None] * v * (1 + 1e-7 * rng.normal(size=(5, k)))  # j1 nearly cancels
    U[30:35, -1] = 0.0  # nothing at the top pole
    if seed % 2:
        v[-1] = 0.0
    return s, v, U, r, h, c if second else None


def dense(problem: Problem) -> Vector:
    s, v, U, r, h, c = problem
    values = []
    for i in range(U.shape[0]):
        columns = [r[i] * np.diag(np.sqrt(s)), (r[i] * v + h[i] * U[i])[:, None]]
        if c is not None:
            columns.append((c[i] * U[i])[:, None])
        values.append(np.linalg.svd(np.hstack(columns), compute_uv=False)[0])
    return np.array(values)


def assert_exact(mu: Vector, problem: Problem) -> None:
    """To rounding of the terms of j1 = r v + h u, which no solver sees past."""
    _, v, U, r, h, _ = problem
    terms = np.abs(r) * np.linalg.norm(v) + np.abs(h) * np.linalg.norm(U, axis=1)
    excess = np.abs(np.sqrt(mu) - dense(problem)) - 1e-13 * dense(problem) - 4e-16 * terms
    assert (excess <= 0).all(), excess.max()


@settings(max_examples=150)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 9), spread=st.sampled_from([0.0, 2.0, 9.0]), second=st.booleans())
def test_portable_solver_matches_the_dense_decomposition(seed: int, k: int, spread: float, second: bool) -> None:
    problem = hostile(seed, k, spread, second)
    assert_exact(secular.top_eigenvalues_portable(*problem), problem)


@pytest.mark.long
@settings(max_examples=150)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 9), spread=st.sampled_from([0.0, 2.0, 9.0]), second=st.booleans())
def test_compiled_solver_matches_the_dense_decomposition(seed: int, k: int, spread: float, second: bool) -> None:
    compiled = pytest.importorskip("fisherleak.engine.norms.kernels.secular_numba")
    problem = hostile(seed, k, spread, second)
    assert_exact(compiled.top_eigenvalues_compiled(*problem, secular.LIMITS), problem)


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[int]:
    """A list that grows by one with every call of a function."""
    calls: list[int] = []
    real = getattr(module, name)

    def watched(*arguments: Any) -> Any:
        calls.append(1)
        return real(*arguments)

    monkeypatch.setattr(module, name, watched)
    return calls


def test_large_work_takes_the_compiled_solver_and_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = pytest.importorskip("fisherleak.engine.norms.kernels.secular_numba")
    calls = counted(monkeypatch, compiled, "top_eigenvalues_compiled")
    rng = np.random.default_rng(3)
    n, k = secular.COMPILED_FROM // 8, 8
    problem = (np.sort(rng.random(k)), rng.normal(size=k), rng.normal(size=(n, k)), *rng.normal(size=(3, n)))
    mu = secular.top_eigenvalues(*problem)
    assert calls == [1]
    np.testing.assert_allclose(mu, secular.top_eigenvalues_portable(*problem), rtol=1e-13)


@pytest.mark.parametrize("second", [True, False])
def test_every_backend(to_backend: Callable[[Any], Any], second: bool) -> None:
    problem = hostile(7, 5, 2.0, second)
    given_arrays = [None if x is None else to_backend(x) for x in problem]
    mu = secular.top_eigenvalues(*given_arrays)
    assert type(mu) is type(given_arrays[0])
    assert_exact(host(mu), problem)


def test_a_kink_next_to_the_top_pole_is_climbed_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny component at the top pole with the root far above it, and the other way round."""
    passes = counted(monkeypatch, secular, "_secular")
    s = np.array([0.0, 0.2, 0.9, 1.0])
    U = np.array([[0.3, 0.5, 0.33, size] for size in 10.0 ** np.arange(-12.0, 0.0)])
    ones = np.ones(U.shape[0])
    problem = (s, np.zeros(4), U, ones, ones, None)
    np.testing.assert_allclose(np.sqrt(secular.top_eigenvalues_portable(*problem)), dense(problem), rtol=1e-14)
    assert len(passes) <= 25


def test_two_branches_that_cross_just_before_the_root() -> None:
    """The top two eigenvalues nearly coincide and hardly couple: the branch in front is not the one with the root."""
    s = np.array([0.7294965609839984, 1.0, 0.5436249914654229, 0.9350724237877682])
    v = np.array([0.834268198709379, 0.01271111516844661, 0.0, 0.0])
    U = np.array([[0.0, 0.0, 0.8716638489288124, 0.13022701777491794]])
    problem = (s, v, U, np.ones(1), np.zeros(1), np.array([1.0565168519434625]))
    np.testing.assert_allclose(np.sqrt(secular.top_eigenvalues_portable(*problem)), dense(problem), rtol=1e-14)
    compiled = pytest.importorskip("fisherleak.engine.norms.kernels.secular_numba")
    mu = compiled.top_eigenvalues_compiled(*problem, secular.LIMITS)
    np.testing.assert_allclose(np.sqrt(mu), dense(problem), rtol=1e-14)
