"""Newton's method starts at the minimum over a few of many rows, and ends where it always did."""

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
