"""What noise costs: the utility of many noisy copies of a model, over a grid of scales.

Predictions of a copy are X w + sigma X b with b standard normal, so one product X b serves every scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.progress import track
from fisherleak.audit.model import Trained
from fisherleak.rows import gather
from fisherleak.rows.selection import some_rows
from fisherleak.tables import Design

__all__ = ["METRICS", "Metric", "Point", "Tradeoff", "tradeoff", "utility_at"]

Vector = NDArray[np.float64]
MOST_ROWS = 20_000
"""Training rows on which utility is measured at most, where none are held out."""
MOST_PRODUCTS = 4_000_000
"""Predictions of all copies held at a time."""
LARGEST_EXPONENT = 50.0
"""A Poisson mean is kept below exp(50), so that hopeless copies have a large deviance and not an infinite one."""


@dataclass(frozen=True)
class Metric:
    name: str
    label: str
    higher_is_better: bool


METRICS = {
    "linear": Metric("r2", "R² (part of the variance explained)", True),
    "logistic": Metric("accuracy", "accuracy (part of the rows classified right)", True),
    "poisson": Metric("deviance", "mean Poisson deviance", False),
}


@dataclass(frozen=True)
class Point:
    """Utility at one scale: the mean over copies, and the range that holds 90 % of them."""

    scale: float
    utility: float
    low: float
    high: float


@dataclass(frozen=True)
class Tradeoff:
    metric: Metric
    without_noise: float
    constant: float
    held_out: bool
    rows: int
    draws: int
    points: tuple[Point, ...]


def tradeoff(trained: Trained, scales: Vector, draws: int, seed: int) -> Tradeoff:
    """Utility on held-out rows (training rows where there are none) at each scale of noise on the model's coefficients."""
    X, y, held_out = _rows(trained.design, seed)
    copies = max(2, min(draws, MOST_PRODUCTS // max(1, y.size)))
    kind = trained.design.target.kind
    plain, moved = _predictions(trained, X, copies, seed)
    points = []
    for scale in track(scales, len(scales), "Adding noise"):
        points.append(_point(kind, y, plain, moved, float(scale), trained.unit))
    return Tradeoff(
        metric=METRICS[kind],
        without_noise=float(_utility(kind, plain[:, None], y)[0]),
        constant=float(_utility(kind, np.full((y.size, 1), _constant(kind, trained.design.label_mean)), y)[0]),
        held_out=held_out,
        rows=int(y.size),
        draws=copies,
        points=tuple(points),
    )


def utility_at(trained: Trained, scale: float, draws: int, seed: int) -> float:
    """Mean utility of copies at one scale."""
    X, y, _ = _rows(trained.design, seed)
    plain, moved = _predictions(trained, X, max(2, min(draws, MOST_PRODUCTS // max(1, y.size))), seed)
    return _point(trained.design.target.kind, y, plain, moved, scale, trained.unit).utility


def _rows(design: Design, seed: int) -> tuple[Vector, Vector, bool]:
    if design.y_test.size:
        return design.X_test, design.y_test, True
    X, y = gather([design.X, design.y], some_rows(design.n, MOST_ROWS, seed))
    return np.asarray(X), np.asarray(y), False


def _predictions(trained: Trained, X: Vector, copies: int, seed: int) -> tuple[Vector, Vector]:
    """Linear predictors without noise (m,), and their change by each copy's noise of scale 1 (m, copies)."""
    theta = np.asarray(trained.fit.theta)
    noise = np.random.default_rng(seed).standard_normal((theta.size, copies))
    return X @ theta[:-1] + theta[-1], X @ noise[:-1] + noise[-1]


def _point(kind: str, y: Vector, plain: Vector, moved: Vector, scale: float, unit: float) -> Point:
    values = _utility(kind, plain[:, None] + scale / unit * moved, y)
    low, high = np.quantile(values, [0.05, 0.95])
    return Point(scale, float(values.mean()), float(low), float(high))


def _constant(kind: str, mean: float) -> float:
    """The linear predictor of the model that ignores the rows and knows the mean of their labels."""
    if kind == "logistic":
        return 1.0 if mean > 0.5 else -1.0
    return float(np.log(mean)) if kind == "poisson" else mean


def _utility(kind: str, z: Vector, y: Vector) -> Vector:
    """One number for each column of linear predictors (m, copies)."""
    if kind == "logistic":
        return np.asarray(np.mean((z > 0) == (y[:, None] > 0.5), axis=0))
    if kind == "linear":
        total = float(np.sum((y - y.mean()) ** 2))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(1.0 - np.sum((z - y[:, None]) ** 2, axis=0) / total)
    z = np.clip(z, -LARGEST_EXPONENT, LARGEST_EXPONENT)
    logs = np.log(np.where(y > 0, y, 1.0))
    return np.asarray(2.0 * np.mean(y[:, None] * (logs[:, None] - z) - y[:, None] + np.exp(z), axis=0))
