"""Folded scales with a row exchanged: variances of the table itself, and the largest lengths over a fine grid of values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fisherleak.protection.certificates.declared_bounds import Admissible
from fisherleak.protection.certificates.exchanged_scales import ExchangedScales, columns_of, exchanged_scales

LOW, HIGH = np.array([-3.0, -0.5, -1.0]), np.array([5.0, 8.0, 1.0])


def folded(weights: Any = None) -> tuple[Any, ExchangedScales]:
    """Two columns of learned scales, one of them with values in few rows, and one of a fixed scale."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(0.3, 1.2, 40), (rng.random(40) < 0.1) * 6.0, rng.uniform(-1, 1, 40)])
    folding = SimpleNamespace(
        totals=np.array([40.0, 40.0, 0.0]), shares=np.zeros((0, 3)), slopes=np.array([1.0, 1.0, 0.0]), weighted=True
    )
    fit = SimpleNamespace(l2=0.1, sample_weight=weights)
    jacobian: Any = SimpleNamespace(X=X, fit=fit, folding=folding)
    return X, exchanged_scales(jacobian)


@pytest.mark.parametrize("weighted", [False, True])
def test_factors_are_those_of_the_exchanged_table(weighted: bool) -> None:
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 40) if weighted else None
    X, scales = folded(weights)

    def variance(Z: Any) -> Any:
        mean = np.average(Z, axis=0, weights=weights)
        return np.average((Z - mean) ** 2, axis=0, weights=weights)

    for row in (0, 7, int(np.argmax(X[:, 1]))):
        for x in (LOW, HIGH, 0.5 * (LOW + HIGH)):
            other = X.copy()
            other[row] = x
            expected = np.where([True, True, False], variance(other) / variance(X), 1.0)
            assert scales.rows(slice(row, row + 1)).factor(x)[0] == pytest.approx(expected, rel=1e-9)


def test_the_largest_lengths_are_those_of_a_fine_grid() -> None:
    _, scales = folded()
    tried = [LOW + share * (HIGH - LOW) for share in np.linspace(0.0, 1.0, 4001)]
    once, twice = scales.longest(LOW, HIGH)
    root, whole = scales.pushes(LOW, HIGH)
    changes = scales.changes(LOW, HIGH)
    factors = [scales.factor(x) for x in tried]
    slopes = [2.0 * scales.bend * np.abs(x - scales.mean) for x in tried]
    found = {
        "once": (once, [x**2 / f for x, f in zip(tried, factors, strict=True)]),
        "twice": (twice, [(x / f) ** 2 for x, f in zip(tried, factors, strict=True)]),
        "root": (root, [s / np.sqrt(f) for s, f in zip(slopes, factors, strict=True)]),
        "whole": (whole, [s / f for s, f in zip(slopes, factors, strict=True)]),
    }
    for name, (bound, grid) in found.items():
        best = np.max(grid, axis=0)
        assert np.all(best <= bound * (1 + 1e-12)), name
        assert np.all(bound <= best * (1 + 1e-4)), name
    assert np.all(np.max([(f - 1.0) ** 2 / f for f in factors], axis=0) <= changes * (1 + 1e-12))
    assert np.all(np.max(factors, axis=(0, 1)) <= scales.largest(LOW, HIGH) * (1 + 1e-12))


def test_levels_of_a_category_are_taken_together() -> None:
    scales = ExchangedScales(np.ones((1, 4)), np.array([[0.1, 0.0, 0.0, 0.0]]), np.zeros((1, 4)))
    number, category = (
        np.array([[-2.0, 0, 0, 0], [3.0, 0, 0, 0]]),
        np.array([[0.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]),
    )
    found = columns_of(Admissible(np.zeros(4), (number, category), np.arange(3.0), None, {}, True), scales)
    assert found.low.tolist() == [-2.0, 0.0, 0.0, 0.0]
    assert found.high.tolist() == [3.0, 1.0, 1.0, 0.0]
    squares = np.maximum(found.low**2, found.high**2)[None, :]
    assert found.total(squares, np.array([1.0, 4.0, 5.0, 7.0])).tolist() == [9.0 + 5.0]
