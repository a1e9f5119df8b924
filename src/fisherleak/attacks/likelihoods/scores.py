r"""Which candidate explains released parameters best, and what releases answer, for many releases and rows at once.

With :math:`\Delta_k` the move of the parameters when the value becomes candidate k and b what was released less the model
itself, the most probable candidate maximises :math:`\log f(b - \Delta_k) + \log p_k` for noise of density f. For standard
normal noise that is :math:`2 \Delta_k \cdot b - |\Delta_k|^2 + 2 \log p_k`: one matrix product.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host, like, namespace
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.noise import Noise
from fisherleak.errors import InvalidInputError

__all__ = ["ANSWERS_AT_ONCE", "by_density", "by_distance", "classes_said", "linear_scores", "log_density", "with_ones"]

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]

SCORES = 2**23
"""Scores held at a time."""
ANSWERS_AT_ONCE = 2**22
"""Linear predictors of rows under candidates, for all releases, that are held at a time: 32 MB."""
COORDINATES = 2**21
"""Coordinates of noise vectors held at a time: a density keeps a few arrays of that size, so they should be small."""


def by_distance(delta: Array, b: Array, bonus: Vector, allowed: Mask | None = None) -> Array:
    """Argmax over candidates of 2 Delta . b - |Delta|^2 + bonus.

    Parameters
    ----------
    delta : array of shape (k, m, p)
        Moves; of equal scores the first wins.
    b : array of shape (T, p)
    bonus : array of shape (k, 1) or (k, m)
    allowed : boolean array of shape (k, T, m), optional
        Candidates that can be.

    Returns
    -------
    integer array of shape (T, m)
    """
    xp = namespace(delta)
    offset = like(bonus, delta, xp) - xp.vecdot(delta, delta)
    most = max(1, SCORES // (delta.shape[0] * delta.shape[1]))
    across = xp.matrix_transpose(delta)
    parts = []
    for start in range(0, b.shape[0], most):
        some = slice(start, min(start + most, b.shape[0]))
        score = 2.0 * (b[None, some, :] @ across) + offset[:, None, :]
        if allowed is not None:
            score = xp.where(like(allowed[:, some, :], delta, xp) > 0, score, -np.inf)
        parts.append(xp.argmax(score, axis=0))
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)


def by_density(delta: Array, b: Vector, noise: Noise, log_prior: Vector, allowed: Mask | None = None) -> Array:
    """Argmax over candidates of the noise's own log-density at b - Delta, plus the log prior; as ``by_distance``.

    Computed with NumPy, as densities are, and given back where ``delta`` is.
    """
    moves = host(delta)
    _, m, p = moves.shape
    width = max(1, COORDINATES // p)
    best = np.empty((b.shape[0], m), dtype=np.int64)
    for left in range(0, m, width):
        rows = slice(left, min(left + width, m))
        most = max(1, COORDINATES // (p * (rows.stop - rows.start)))
        for start in range(0, b.shape[0], most):
            some = slice(start, start + most)
            own = log_prior if log_prior.shape[1] == 1 else log_prior[:, rows]
            can_be = None if allowed is None else allowed[:, some, rows]
            best[some, rows] = _likeliest(moves[:, rows, :], b[some], noise, own, can_be)
    return like(best, delta, namespace(delta))


def _likeliest(moves: Vector, b: Vector, noise: Noise, log_prior: Vector, allowed: Mask | None) -> NDArray[np.int64]:
    """The same for a few releases and rows, one candidate after the other."""
    best = np.zeros((b.shape[0], moves.shape[1]), dtype=np.int64)
    highest = np.full(best.shape, -np.inf)
    for k in range(moves.shape[0]):
        score = log_density(noise, b[:, None, :] - moves[k]) + log_prior[k]
        better = score > highest if allowed is None else allowed[k] & ~(score <= highest)
        if allowed is not None:
            # of what can be, one that the noise rules out is still better than none
            better |= allowed[k] & ~np.take_along_axis(allowed, best[None], axis=0)[0]
        best[better] = k
        highest = np.where(better, score, highest)
    return best


def log_density(noise: Noise, b: Vector) -> Vector:
    """The noise's own, refused by name where it cannot rank candidates; minus infinity is a density of zero."""
    found = np.asarray(noise.log_density(b))
    if found.shape != b.shape[:-1] or not np.all(found < np.inf):
        raise InvalidInputError(
            f"{type(noise).__name__}.log_density must give a number below infinity for each noise vector, shape "
            f"{b.shape[:-1]} for {b.shape}; got shape {found.shape}."
        )
    return found


# What releases of a model answer before any link: :math:`z = W' x + b'` for rows and many releases at once.


def with_ones(features: Any, fit: Fit) -> Vector:
    """Rows (…, d) with a last column of ones where the model has an intercept, (…, p)."""
    rows = np.asarray(features, dtype=np.float64)
    return rows if fit.intercept is None else np.concatenate([rows, np.ones((*rows.shape[:-1], 1))], axis=-1)


def linear_scores(rows: Vector, theta: Vector, fit: Fit) -> Vector:
    """Linear predictors (…, T, K) of rows with their ones (…, p) at released parameters (T, K p)."""
    K, p = fit.outputs, rows.shape[-1]
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
