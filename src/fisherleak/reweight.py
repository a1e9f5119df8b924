r"""IRFIL: weights that equalise Fisher information loss (paper, algorithm 1).

.. math:: \omega_i \leftarrow n\, \frac{\omega_i / \eta_i}{\sum_j \omega_j / \eta_j}

A fixed point has equal :math:`\eta_i`. The iteration is a map of log weights, x -> x - log eta(x) + constant, which
Anderson mixing can accelerate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Balance", "balance", "example_targets", "group_targets"]

Vector = NDArray[np.float64]
MEMORY = 6
"""Earlier steps that Anderson mixing combines."""
SMALLEST_PART = 1e-6
"""An eta below this part of the mean leaves its weight alone: no weight could raise it to the others."""


@dataclass(frozen=True)
class Balance:
    """One point of the iteration: weights and the etas they lead to, with the state they come from."""

    iteration: int
    weights: Vector
    eta: Vector
    state: Any

    @property
    def spread(self) -> float:
        """Standard deviation of eta relative to its mean, over rows that count."""
        counted = self.eta[self.weights > 0]
        mean = float(counted.mean())
        return float(counted.std(ddof=1)) / mean if counted.size > 1 and mean > 0 else 0.0


def example_targets(eta: Vector, counted: NDArray[np.bool_]) -> Vector:
    """What the weight of each example is divided by: its own eta."""
    mean = float(eta[counted].mean())
    if mean == 0:
        return np.ones_like(eta)
    return np.where(eta > SMALLEST_PART * mean, eta, mean)


def group_targets(eta: Vector, counted: NDArray[np.bool_], members: list[NDArray[np.int64]]) -> Vector:
    """The same with the mean eta of the example's group in place of its own."""
    means = np.ones_like(eta)
    for rows in members:
        inside = rows[counted[rows]]
        if inside.size:
            means[rows] = eta[inside].mean()
    return example_targets(means, counted)


def balance(
    measure: Callable[[Vector, Any], tuple[Vector, Any]],
    weights: Vector,
    n_iter: int,
    targets: Callable[[Vector, NDArray[np.bool_]], Vector] = example_targets,
    limits: tuple[float, float] = (0.0, np.inf),
    accelerate: bool = False,
) -> Iterator[Balance]:
    """Iterate weights -> etas -> weights, yielding every point: ``n_iter`` reweightings give n_iter + 1 points.

    Parameters
    ----------
    measure : callable
        (weights, state of the last call) -> (etas, state).
    weights : array of shape (n,)
        Where it starts; a weight of zero stays zero. The mean of the others is kept.
    n_iter : int
        Reweightings.
    targets : callable
        (etas, rows that count) -> what each weight is divided by.
    limits : pair of float
        Least and largest weight, in units of that mean.
    accelerate : bool
        Anderson mixing of the log weights.
    """
    counted = weights > 0
    mean = float(weights[counted].mean())
    state: Any = None
    mixer = _Mixer() if accelerate else None
    for iteration in range(n_iter + 1):
        eta, state = measure(weights, state)
        yield Balance(iteration, weights, eta, state)
        if iteration == n_iter:
            return
        x = np.log(weights[counted])
        residual = -np.log(targets(eta, counted)[counted])
        residual = residual - residual.mean()
        x = mixer.mix(x, residual) if mixer is not None else x + residual
        weights = _normalised(x, counted, mean, limits)


def _normalised(x: Vector, counted: NDArray[np.bool_], mean: float, limits: tuple[float, float]) -> Vector:
    """exp(x) on the rows that count, within limits, with their mean restored."""
    weights = np.zeros(counted.shape[0])
    raw = np.exp(x - x.max())
    share = mean * x.shape[0]
    raw = raw * (share / raw.sum())
    low, high = limits[0] * mean, limits[1] * mean
    if low > 0 or np.isfinite(high):
        for _ in range(50):  # clipping moves the sum, rescaling moves values past the limits: a few rounds settle it
            clipped = np.clip(raw, low, high)
            free = (clipped > low) & (clipped < high)
            excess = share - clipped.sum()
            if abs(excess) <= 1e-12 * share or not free.any():
                break
            raw = np.where(free, clipped + excess * clipped / clipped[free].sum(), clipped)
        raw = np.clip(raw, low, high)
    weights[counted] = raw
    return weights


class _Mixer:
    """Anderson mixing with a few steps of memory; forgets them when the residual grows."""

    def __init__(self) -> None:
        self.points: list[Vector] = []
        self.residuals: list[Vector] = []

    def mix(self, x: Vector, residual: Vector) -> Vector:
        if self.residuals and np.linalg.norm(residual) > 2.0 * np.linalg.norm(self.residuals[-1]):
            self.points, self.residuals = [], []
        self.points.append(x)
        self.residuals.append(residual)
        del self.points[: -MEMORY - 1], self.residuals[: -MEMORY - 1]
        if len(self.points) == 1:
            return x + residual
        dx = np.diff(np.array(self.points), axis=0)
        df = np.diff(np.array(self.residuals), axis=0)
        gamma, *_ = np.linalg.lstsq(df.T, residual, rcond=1e-10)
        return np.asarray(x + residual - gamma @ (dx + df))
