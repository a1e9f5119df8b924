r"""What releases of a model answer before any link: :math:`z = W' x + b'` for rows and many releases at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak.engine.fit.minimise import Fit

__all__ = ["classes_said", "linear_scores", "outputs_in", "with_ones"]

Vector = NDArray[np.float64]


def outputs_in(fit: Fit) -> int:
    """K: one, or how many classes or numbers are fitted at once."""
    return fit.outputs


def with_ones(features: Any, fit: Fit) -> Vector:
    """Rows (…, d) with a last column of ones where the model has an intercept, (…, p)."""
    rows = np.asarray(features, dtype=np.float64)
    return rows if fit.intercept is None else np.concatenate([rows, np.ones((*rows.shape[:-1], 1))], axis=-1)


def linear_scores(rows: Vector, theta: Vector, fit: Fit) -> Vector:
    """Linear predictors (…, T, K) of rows with their ones (…, p) at released parameters (T, K p)."""
    K, p = outputs_in(fit), rows.shape[-1]
    if K == 1:
        return np.asarray((rows @ theta.T)[..., None])
    d = p - int(fit.intercept is not None)
    by_output = theta[:, : K * d].reshape(-1, K, d)
    if fit.intercept is not None:
        by_output = np.concatenate([by_output, theta[:, K * d :, None]], axis=2)
    found = rows @ by_output.reshape(-1, p).T
    return np.asarray(found.reshape(*rows.shape[:-1], -1, K))


def classes_said(scores: Vector) -> NDArray[np.int64]:
    """Which class a model takes rows to have, 0 to K - 1: scores (…, K) to (…); with one score, 1 above zero."""
    return (scores[..., 0] > 0).astype(np.int64) if scores.shape[-1] == 1 else np.argmax(scores, axis=-1)
