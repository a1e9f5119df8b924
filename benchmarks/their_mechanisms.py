"""How diffprivlib's releases are attacked: the densities of its two mechanisms, for ``other_tools.py``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def objective_noise(epsilon: float, size: float, p: int, rng: np.random.Generator) -> tuple[float, float]:
    """Scale of diffprivlib's noise on the objective, and the success of the best test on a row of a given size.

    The release and the noise b determine each other, b has the density exp(-|b| / scale), and the other label moves it by the
    row, whatever the release: total variation between two shifts, over exact draws.
    """
    left = epsilon - 2.0 * np.log1p(0.25 * size)
    scale = 2.0 * size / (left if left > 0 else epsilon / 2.0)
    draws = 1_000_000
    length, along = rng.gamma(p, scale, draws), rng.standard_normal(draws)
    cosine = along / np.sqrt(along**2 + rng.chisquare(p - 1, draws))
    longer = np.sqrt(length**2 + size**2 - 2.0 * length * size * cosine)
    return scale, float(0.5 + 0.5 * np.mean(np.maximum(1.0 - np.exp((length - longer) / scale), 0.0)))


def check_draws(parameters: Vector, X: Vector, y: Vector, scale: float) -> None:
    """That the mechanism is the one attacked: the noise in its releases is as long as it should be."""
    X1 = np.column_stack([X, np.ones(len(X))])
    residuals = 1.0 / (1.0 + np.exp(-X1 @ parameters.T)) - y[:, None]
    b = X1.T @ residuals + np.concatenate([parameters[:, :-1], np.zeros((len(parameters), 1))], axis=1).T
    ratio = float(np.mean(np.linalg.norm(b, axis=0)) / (X1.shape[1] * scale))
    print(
        f"Mean length of the noise in diffprivlib's releases, relative to that of the attacked mechanism: {ratio:.3f}"
    )


def _spreads(box: Vector, labels: Vector) -> tuple[Vector, Vector]:
    """Of diffprivlib's noise on m and M, but for a factor that falls with epsilon."""
    ends = np.array([[low, high] for low, high in box.T])
    by_label = np.array([np.ptp(np.outer(pair, labels)) for pair in ends])
    by_pair = np.array([[np.ptp(np.outer(one, other)) for other in ends] for one in ends])
    np.fill_diagonal(by_pair, box[0] ** 2)
    return by_label, by_pair


def _covariance(t: Vector, box: Vector, labels: Vector) -> Vector:
    """Of k - N t with N symmetric, up to the same factor squared: (p, p)."""
    by_label, by_pair = _spreads(box, labels)
    squares = by_pair**2
    found = np.outer(t, t) * squares  # N_ij enters row i by t_j and row j by t_i
    np.fill_diagonal(found, by_label**2 + squares @ t**2)
    return np.asarray(found)


def most_exposed(
    X: Vector, y: Vector, t: Vector, swapped: Callable[[int], list[tuple[Vector, Vector]]], box: Vector, labels: Vector
) -> tuple[int, Vector]:
    """The row, and its other table, that the functional mechanism tells apart best at given parameters."""
    inverse, found = np.linalg.inv(_covariance(t, box, labels)), []
    for row in range(len(y)):
        for k, (other, _) in enumerate(swapped(row)):
            move = _shift(X, other, y, row, t[None])[0]
            found.append((float(move @ inverse @ move), row, k))
    _, row, k = max(found)
    return row, swapped(row)[k][0]


def _shift(X: Vector, other: Vector, y: Vector, row: int, t: Vector) -> Vector:
    """Of m - M t between the tables, for each release: (draws, p)."""
    x, z = X[row], other[row]
    return np.outer(y[row] - t @ z, z) - np.outer(y[row] - t @ x, x)


def log_odds(t: Vector, X: Vector, other: Vector, y: Vector, row: int, box: Vector, labels: Vector) -> Vector:
    """Of the other table against this one, up to a positive factor, from releases t of the functional mechanism: (draws,).

    It publishes t with (M + N) t = m + k, Laplace noise N, k on the sums of products. The density of t has no closed form; this
    takes k - N t as normal with its own covariance, so that the best attacker is no worse.
    """
    residual = (X.T @ y)[None] - t @ (X.T @ X)
    moved = residual + _shift(X, other, y, row, t)
    found = []
    for one, two, at in zip(residual, moved, t, strict=True):
        solved = np.linalg.solve(_covariance(at, box, labels), np.stack([one, two], axis=1))
        found.append(float(one @ solved[:, 0] - two @ solved[:, 1]))
    return np.array(found)
