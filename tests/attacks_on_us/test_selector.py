"""Scores of columns are functions of every label: the one that is not known can be solved for; no selector leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import fisherleak as fl
from attacks_on_us.walker import copied_with_noise, numbers

NOISE = fl.Gaussian(100.0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
Y = X @ [1.0, 0.5, 0.0, 0.0] + RNG.normal(size=120)
VICTIM = 7


def labels_from(scores: Any) -> list[float]:
    """Labels of the victim with which the first column would have this score."""

    def miss(label: float) -> float:
        y = Y.copy()
        y[VICTIM] = label
        return float(f_regression(X, y)[0][0] - scores[0])

    ends = np.linspace(-6.0, 6.0, 241)
    signs = np.sign([miss(end) for end in ends])
    return [float(brentq(miss, ends[k], ends[k + 1], xtol=1e-12)) for k in np.flatnonzero(signs[1:] != signs[:-1])]


def test_scores_are_the_one_unknown_label() -> None:
    model = make_pipeline(SelectKBest(f_regression, k=2), Ridge()).fit(X, Y)
    scores = copied_with_noise(model, NOISE)[0].scores_
    assert min(abs(label - Y[VICTIM]) for label in labels_from(scores)) < 1e-8
    for public in ("nothing", "levels", "preprocessing"):
        with pytest.raises(fl.UnsupportedModelError, match="SelectKBest cannot be released: its scores reveal single"):
            fl.release(model, NOISE, public=public)
        with pytest.raises(fl.UnsupportedModelError, match="SelectKBest cannot be released"):
            fl.PrivateRelease(model, public=public).fit(X, Y)


def test_columns_chosen_by_position_hold_no_scores() -> None:
    """The remedy: the choice is declared."""
    model = make_pipeline(ColumnTransformer([("chosen", "passthrough", [0, 1])]), Ridge()).fit(X, Y)
    found = numbers(fl.release(model, NOISE))
    assert not np.isin(f_regression(X, Y)[0], found).any()
