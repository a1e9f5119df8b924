"""What noise costs: the utility of many noisy copies of a model, over a grid of scales.

Predictions of a copy are X w + sigma X b with b the noise at scale 1, so one product X b serves every scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.progress import track
from fisherleak.audit.kinds import Metric
from fisherleak.audit.model import Trained
from fisherleak.audit.noises import unit_draws
from fisherleak.rows import gather
from fisherleak.rows.selection import some_rows
from fisherleak.tables import Design

__all__ = ["Tradeoff", "UtilityPoint", "tradeoff", "utility_at"]

Vector = NDArray[np.float64]
MOST_ROWS = 20_000
"""Training rows on which utility is measured at most, where none are held out."""
MOST_PRODUCTS = 4_000_000
"""Predictions of all copies held at a time."""


@dataclass(frozen=True)
class UtilityPoint:
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
    points: tuple[UtilityPoint, ...]


@dataclass(frozen=True)
class _Copies:
    """Linear predictors of rows without noise (m,), and their change by each copy's noise of scale 1 (m, copies)."""

    y: Vector
    plain: Vector
    moved: Vector
    held_out: bool

    @property
    def count(self) -> int:
        return int(self.moved.shape[1])


def tradeoff(trained: Trained, scales: Vector | Sequence[float], draws: int, seed: int) -> Tradeoff:
    """Utility on held-out rows (training rows where there are none) at each scale of noise on the model's coefficients.

    The kind of noise is that of the trained model's leakage.
    """
    copies = _copies(trained, draws, seed)
    kind, y = trained.kind, copies.y
    constant = np.full((y.size, 1), kind.constant(trained.design.label_mean))
    return Tradeoff(
        metric=kind.metric,
        without_noise=float(kind.metric.of(copies.plain[:, None], y)[0]),
        constant=float(kind.metric.of(constant, y)[0]),
        held_out=copies.held_out,
        rows=int(y.size),
        draws=copies.count,
        points=tuple(_point(trained, copies, float(scale)) for scale in track(scales, len(scales), "Adding noise")),
    )


def utility_at(trained: Trained, scale: float, draws: int, seed: int) -> float:
    """Mean utility of copies at one scale."""
    return _point(trained, _copies(trained, draws, seed), scale).utility


def _copies(trained: Trained, draws: int, seed: int) -> _Copies:
    X, y, held_out = _rows(trained.design, seed)
    theta = np.asarray(trained.fit.theta)
    count = max(2, min(draws, MOST_PRODUCTS // max(1, y.size)))
    noise = unit_draws(trained.leak.noise, theta.size, count, seed)
    return _Copies(y, X @ theta[:-1] + theta[-1], X @ noise[:-1] + noise[-1], held_out)


def _rows(design: Design, seed: int) -> tuple[Vector, Vector, bool]:
    if design.y_test.size:
        return design.X_test, design.y_test, True
    X, y = gather([design.X, design.y], some_rows(design.n, MOST_ROWS, seed))
    return np.asarray(X), np.asarray(y), False


def _point(trained: Trained, copies: _Copies, scale: float) -> UtilityPoint:
    values = trained.kind.metric.of(copies.plain[:, None] + scale / trained.unit * copies.moved, copies.y)
    low, high = np.quantile(values, [0.05, 0.95])
    return UtilityPoint(scale, float(values.mean()), float(low), float(high))
