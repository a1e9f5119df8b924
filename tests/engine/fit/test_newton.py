"""Newton's method starts at the minimum over a few of many rows, and ends where it always did.

A loss of two classes has no minimiser exactly where some direction helps rows and harms none, and the columns are named.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import fisherleak as fl
from fisherleak.engine.fit import newton

Floats = NDArray[np.float64]
ROWS = 20_000


@pytest.fixture
def rows() -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 4)) + 3.0
    z = X @ np.array([1.0, -1.0, 0.5, 0.0]) + rng.logistic(size=ROWS)
    return X, (z > np.median(z)).astype(float)


def fits(X: Floats, y: object, monkeypatch: pytest.MonkeyPatch, **options: object) -> tuple[fl.Fit, fl.Fit]:
    """From a few rows, and from zero."""
    monkeypatch.setattr(newton, "MANY_ROWS", 10**9)
    plain = fl.minimise(X, y, **options)  # type: ignore[arg-type]
    monkeypatch.setattr(newton, "MANY_ROWS", 1_000)
    return fl.minimise(X, y, **options), plain  # type: ignore[arg-type]


@pytest.mark.parametrize("loss", ["logistic", "poisson", "softmax"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_same_minimum_in_fewer_steps(
    rows: tuple[Floats, Floats], monkeypatch: pytest.MonkeyPatch, loss: str, weighted: bool
) -> None:
    X, y = rows
    weights = np.random.default_rng(1).uniform(0.0, 2.0, ROWS) if weighted else None
    few, plain = fits(X, y, monkeypatch, loss=loss, l2=1e-3, intercept=True, sample_weight=weights)
    assert few.steps < plain.steps
    assert np.allclose(few.theta, plain.theta, rtol=1e-11, atol=1e-12)
    assert few.gradient <= 1e-10
    eta, expected = (fl.measure(fit, X, y).per_example() for fit in (few, plain))
    assert np.allclose(eta, expected, rtol=1e-10)


def test_few_rows_that_have_no_minimum_tell_nothing(
    rows: tuple[Floats, Floats], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = rows
    y = y.copy()
    y[:: newton.EVERY] = 1.0
    few, plain = fits(X, y, monkeypatch, loss="logistic", intercept=True)
    assert few.steps == plain.steps
    assert np.array_equal(few.theta, plain.theta)


def test_separable_rows_are_refused_as_ever(rows: tuple[Floats, Floats], monkeypatch: pytest.MonkeyPatch) -> None:
    X, _ = rows
    monkeypatch.setattr(newton, "MANY_ROWS", 1_000)
    with pytest.raises(fl.SeparableClassesError):
        fl.minimise(X, (X[:, 0] > 3.0).astype(float), loss="logistic", intercept=True)


def test_more_parameters_than_the_few_can_tell_start_at_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(4_000, 30)), rng.integers(0, 2, 4_000).astype(float)
    few, plain = fits(X, y, monkeypatch, loss="logistic", l2=1e-3)
    assert np.array_equal(few.theta, plain.theta)


RNG = np.random.default_rng(0)
N = 400
X = np.column_stack([RNG.normal(size=(N, 3)), np.arange(N) < 30])
Y = (RNG.random(N) < 1 / (1 + np.exp(-X[:, 0]))).astype(float)
GROUP = np.arange(N) < 30


@pytest.mark.parametrize("label", [0.0, 1.0])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_group_with_one_label_is_refused_with_its_column(label: float, unit: float, intercept: bool) -> None:
    y = np.where(GROUP, label, Y)
    with pytest.raises(fl.SeparableClassesError, match=r"along column 'x3'.* minimiser may lie at infinity"):
        fl.minimise(X * [1.0, 1.0, 1.0, unit], y, "logistic", intercept=intercept)


def test_one_row_that_disagrees_is_enough_for_a_minimiser() -> None:
    for disagreeing in range(3):
        y = np.where(GROUP, 1.0, Y)
        y[disagreeing] = 0.0
        assert fl.minimise(X, y, "logistic", intercept=True).gradient <= 1e-10


def test_a_row_without_weight_does_not_disagree() -> None:
    y = np.where(GROUP, 1.0, Y)
    y[0] = 0.0
    weights = np.where(np.arange(N) == 0, 0.0, 1.0)
    with pytest.raises(fl.SeparableClassesError, match="'x3'"):
        fl.minimise(X, y, "logistic", sample_weight=weights, intercept=True)


def test_groups_that_are_told_apart_by_several_columns_are_found() -> None:
    """Rows beyond a slanted line in two columns all have one label; no single column tells them apart."""
    slanted = X[:, 1] + X[:, 2] > 2.0
    marked = np.column_stack([X[:, :3], np.where(slanted, X[:, 1] + X[:, 2] - 2.0, 0.0)])
    with pytest.raises(fl.SeparableClassesError, match="'x3'"):
        fl.minimise(marked, np.where(slanted, 0.0, Y), "logistic", intercept=True)


def test_any_penalty_gives_a_minimiser() -> None:
    y = np.where(GROUP, 1.0, Y)
    assert fl.minimise(X, y, "logistic", l2=1e-9, intercept=True).gradient <= 1e-10


def test_counts_of_a_group_that_are_all_zero_name_its_column() -> None:
    y = np.where(GROUP, 0.0, RNG.poisson(np.exp(X[:, 0])))
    with pytest.raises(fl.NotConvergedError, match="parameters of column 'x3' keep growing"):
        fl.minimise(X, y, "poisson", intercept=True)
