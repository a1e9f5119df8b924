"""A loss of two classes has no minimiser exactly where some direction helps rows and harms none, and the columns are named."""

from __future__ import annotations

import numpy as np
import pytest

import fisherleak as fl

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
