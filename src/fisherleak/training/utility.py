"""What noise costs: the utility of many noisy copies of a model, over a grid of scales.

Predictions of a copy are X w + sigma X b with b the noise at scale 1, so one product X b serves every scale. Models of several
classes have one such product for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from fisherleak._support.progress import track
from fisherleak.rows import gather, sum_rows
from fisherleak.rows.selection import some_rows
from fisherleak.tables import Design
from fisherleak.training.model_kinds import Metric
from fisherleak.training.noise_words import unit_draws
from fisherleak.training.trained_model import Trained

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
    unsure: float = 0.0
    """Half the width of the 95 % interval of the mean, by Student's t."""


@dataclass(frozen=True)
class Tradeoff:
    metric: Metric
    without_noise: float
    constant: float
    held_out: bool
    rows: int
    draws: int
    points: tuple[UtilityPoint, ...]
    also: Tradeoff | None = None
    """The same by a second measure, where the kind of model has one."""


@dataclass(frozen=True)
class _Copies:
    """Linear predictors of rows without noise (m, 1), and their change by each copy's noise of scale 1 (m, copies).

    For several classes (m, K, 1) and (m, K, copies).
    """

    y: Vector
    plain: Vector
    moved: Vector
    held_out: bool

    @property
    def count(self) -> int:
        return int(self.moved.shape[-1])


def tradeoff(trained: Trained, scales: Vector | Sequence[float], draws: int, seed: int) -> Tradeoff:
    """Utility on held-out rows (training rows where there are none) at each scale of noise on the model's coefficients.

    The kind of noise is that of the trained model's leakage.
    """
    copies, kind = _copies(trained, draws, seed), trained.kind
    metrics = [kind.metric, *([] if kind.also is None else [kind.also])]
    every = track(scales, len(scales), "Adding noise")
    points = [_points(trained, copies, float(scale), metrics) for scale in every]
    first, *more = (
        Tradeoff(
            metric=metric,
            without_noise=float(metric.of(copies.plain, copies.y)[0]),
            constant=float(metric.of(_constant(trained, copies), copies.y)[0]),
            held_out=copies.held_out,
            rows=int(copies.y.size),
            draws=copies.count,
            points=tuple(each[k] for each in points),
        )
        for k, metric in enumerate(metrics)
    )
    return replace(first, also=more[0] if more else None)


def _constant(trained: Trained, copies: _Copies) -> Vector:
    """Predictors of the model that ignores the rows, as ``plain`` has them."""
    kind, design = trained.kind, trained.design
    if not kind.several:
        return np.full(copies.plain.shape, kind.constant(design.label_mean))
    K = trained.outputs
    (counts,) = sum_rows(lambda y: (np.bincount(np.asarray(y, dtype=np.int64), minlength=K),), design.y)
    return np.asarray(np.broadcast_to(kind.constant(counts / design.n)[None, :, None], copies.plain.shape))


def utility_at(trained: Trained, scale: float, draws: int, seed: int) -> float:
    """Mean utility of copies at one scale."""
    (point,) = _points(trained, _copies(trained, draws, seed), scale, [trained.kind.metric])
    return point.utility


def _copies(trained: Trained, draws: int, seed: int) -> _Copies:
    X, y, held_out = _rows(trained.design, seed)
    theta, K = np.asarray(trained.fit.theta)[:, None], trained.outputs
    count = max(2, min(draws, MOST_PRODUCTS // max(1, y.size * K)))
    noise = unit_draws(trained.leak.noise, theta.size, count, seed)
    return _Copies(y, _predictors(X, theta, K), _predictors(X, noise, K), held_out)


def _predictors(X: Vector, theta: Vector, outputs: int) -> Vector:
    """Of parameters (size, copies): all coefficients, output by output, then the intercepts."""
    if outputs == 1:
        return np.asarray(X @ theta[:-1] + theta[-1])
    coef = theta[:-outputs].reshape(outputs, X.shape[1], -1)
    return np.asarray(np.einsum("md,kdc->mkc", X, coef, optimize=True) + theta[None, -outputs:, :])


def _rows(design: Design, seed: int) -> tuple[Vector, Vector, bool]:
    if design.y_test.size:
        return design.X_test, design.y_test, True
    X, y = gather([design.X, design.y], some_rows(design.n, MOST_ROWS, seed))
    return np.asarray(X), np.asarray(y), False


def _points(trained: Trained, copies: _Copies, scale: float, metrics: Sequence[Metric]) -> list[UtilityPoint]:
    z = copies.plain + scale / trained.unit * copies.moved
    found = []
    for metric in metrics:
        values = metric.of(z, copies.y)
        low, high = np.quantile(values, [0.05, 0.95])
        unsure = stdtrit(values.size - 1, 0.975) * values.std(ddof=1) / np.sqrt(values.size)
        found.append(UtilityPoint(scale, float(values.mean()), float(low), float(high), float(unsure)))
    return found
