"""An attacker who knows the shape that each candidate would have led to: the limit on both terms holds for him too.

He knows every value but one, that of a record within the bounds, and compares the densities of a release under two values of it, means
and covariances alike. For values a small step apart no attacker is right more often than :math:`\\Phi(\\eta\\,\\delta / 2)`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, norm

import fisherleak as fl
from cases import make
from fisherleak.protection.calibrate.limit_terms import raw_map

BOX = (-2.0, 2.0)
BOUNDS: Any = dict.fromkeys(("x0", "x1", "x2"), BOX) | {"label": (-3.0, 3.0)}
TRIALS, ETA = 20_000, 2.0


def root_of(fit: Any, X: Any, shape: str) -> Any:
    """A root of the covariance at scale 1 that the rows lead to."""
    if shape == "hessian":
        return raw_map(fit)
    values, V = np.linalg.eigh(X.T @ X + len(X) * fit.l2 * np.eye(3))
    # G^-1 (G # N) G^-1 for N of corners at -2 and 2 and labels from -3 to 3, the same in all directions: 4 + 9
    return (V * (13.0**0.25 * values**-0.75)) @ V.T


@pytest.mark.parametrize("shape", ["hessian", "least-loss"])
@pytest.mark.parametrize("column", [0, 2, 3])
def test_the_attacker_who_knows_both_shapes_is_right_no_more_often_than_the_limit_says(column: int, shape: str) -> None:
    case = make("squared", 3, n=60, l2=0.05 if shape == "hessian" else 0.5)
    X, y = np.clip(case.X, *BOX), np.clip(case.y, -3.0, 3.0)
    X[7], y[7] = [2.0, -2.0, 2.0], 2.9
    truth = replace(case, X=X, y=y)
    noise: Any = fl.calibrate(truth.leak(), ETA, "any-record", shape=shape, bounds=BOUNDS, random_state=0)
    U = root_of(truth.fit(), X, shape)
    np.testing.assert_allclose(noise.shape, U @ U.T, rtol=1e-6, atol=1e-12)
    step = 0.1 / ETA
    laws = []
    for side in (-0.5, 0.5):
        moved, labels = X.copy(), y.copy()
        if column < 3:
            moved[7, column] += side * step
        else:
            labels[7] += side * step
        fit = replace(truth, X=moved, y=labels).fit()
        U = noise.scale * root_of(fit, moved, shape)
        laws.append((np.asarray(fit.theta), U))
    rng = np.random.default_rng(column)
    right = 0
    for k, (w, U) in enumerate(laws):
        t = w + rng.normal(size=(TRIALS // 2, 3)) @ U.T
        scores = [-0.5 * np.sum(((t - m) @ np.linalg.inv(S).T) ** 2, axis=1) - np.linalg.slogdet(S)[1] for m, S in laws]
        right += int(np.sum(np.argmax(scores, axis=0) == k))
    assert binomtest(right, TRIALS, float(norm.cdf(ETA * step / 2)), alternative="greater").pvalue > 1e-4
