"""Queries that nobody asks: what is computed of them is a number, or they are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from cases import make


@pytest.mark.parametrize("size", [1.01e50, 1e160, 1e300, -1e300])
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_queries_whose_squares_overflow_are_refused_by_name(loss: str, size: float) -> None:
    """No eta is infinite, or no number, without a word."""
    case = make(loss, l2=0.1)
    Q = case.X[:3].copy()
    Q[1, 2] = size
    ways: list[Any] = [fl.Answers(Q, fl.Gaussian(0.1)), fl.Answers(Q, fl.Laplace(5.0))]
    ways += [] if loss == "squared" else [fl.SampledLabels(Q)]
    for way in ways:
        with pytest.raises(fl.InvalidInputError, match=r"Row 1 of X_query has a value beyond 1e\+"):
            case.leak(way)
    with pytest.raises(fl.InvalidInputError, match="Row 1 of X_query has a value beyond"):
        fl.queries_until(case.leak(), Q, fl.Gaussian(0.1))
    with pytest.raises(fl.InvalidInputError, match="times the noise scale"):
        case.leak(fl.Answers(np.where(np.abs(Q) > 9.0, 1.0, Q) * 1e20, fl.Gaussian(1e-40)))
    largest = case.leak(fl.Answers(np.where(np.abs(Q) > 9.0, 0.99e49, Q), fl.Gaussian(0.1)))
    assert np.all(np.isfinite(largest.per_example()))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_queries_that_are_no_numbers_are_refused_by_name(value: float) -> None:
    case = make("squared", l2=0.1)
    Q = case.X[:3].copy()
    Q[1, 2] = value
    for ask in (
        lambda: case.leak(fl.Answers(Q, fl.Gaussian(0.1))),
        lambda: fl.queries_until(case.leak(), Q, fl.Gaussian(0.1)),
    ):
        with pytest.raises(fl.InvalidInputError, match="X_query must be finite behind the preprocessing; row 1"):
            ask()


def test_counts_past_every_count_are_refused() -> None:
    """The curvature of the loss is cut there: a drawn count would tell more than is said."""
    case = make("poisson", l2=0.1)
    w = np.asarray(case.fit().coef)
    with pytest.raises(fl.InvalidInputError, match="scores between -200 and 200"):
        case.leak(fl.SampledLabels(250.0 * (w / (w @ w))[None, :]))
    assert np.all(np.isfinite(case.leak(fl.SampledLabels(150.0 * (w / (w @ w))[None, :])).per_example()))


def test_numbers_of_queries_that_no_integer_holds_are_counted() -> None:
    case = make("squared", l2=0.1)
    few = fl.queries_until(case.leak(), case.X[:3], fl.Gaussian(1e3), eta=1.0)
    many = fl.queries_until(case.leak(), case.X[:3], fl.Gaussian(1e3), eta=1e15)
    assert many == pytest.approx(1e30 * few, rel=1e-3)
    assert fl.queries_until(case.leak(), case.X[:3] * 1e-70, fl.Gaussian(1e3), eta=1e90) == np.inf
