r"""IRFIL: weights that equalise Fisher information loss (paper, algorithm 1).

.. math:: \omega_i \leftarrow n\, \frac{\omega_i / \eta_i}{\sum_j \omega_j / \eta_j}

A fixed point has equal :math:`\eta_i`. The iteration is a map of log weights, x -> x - log eta(x) + constant, which
Anderson mixing can accelerate; the plain iteration runs beside it and takes over where mixing leads away.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from fisherleak._support.arrays import Array, host, namespace
from fisherleak._support.namespaces import Namespace
from fisherleak.errors import NotConvergedError, SingularHessianError

MEMORY = 6
"""Earlier steps that Anderson mixing combines."""
ASTRAY = 10.0
"""A mixed point this much more uneven than the plain one is given up: mixing starts again from there."""
LEAST_LOG = -230.0
"""No weight is below 1e-100 of the largest: a row that counts goes on counting."""
SMALLEST_PART = 1e-6
"""An eta below this part of the mean leaves its weight alone: no weight could raise it to the others."""


@dataclass(frozen=True)
class Balance:
    """One point of the iteration: weights and the etas they lead to, with the state they come from."""

    weights: Array
    eta: Array
    state: Any

    @cached_property
    def stats(self) -> tuple[float, float, float, float]:
        """Mean, standard deviation (n - 1), largest and least eta, over rows that count."""
        xp = namespace(self.eta)
        counted = self.weights > 0
        number = xp.sum(xp.astype(counted, xp.float64))
        mean = xp.sum(xp.where(counted, self.eta, 0.0)) / number
        squares = xp.sum(xp.where(counted, (self.eta - mean) ** 2, 0.0))
        high = xp.max(xp.where(counted, self.eta, -math.inf))
        low = xp.min(xp.where(counted, self.eta, math.inf))
        count, centre, total, largest, least = (float(x) for x in host(xp.stack([number, mean, squares, high, low])))
        return centre, math.sqrt(total / (count - 1)) if count > 1 else 0.0, largest, least

    @property
    def spread(self) -> float:
        """Standard deviation of eta relative to its mean, over rows that count."""
        mean, sd, _, _ = self.stats
        return sd / mean if mean > 0 else 0.0


def example_targets(eta: Array, counted: Array) -> Array:
    """What the weight of each example is divided by: its own eta."""
    xp = namespace(eta)
    mean = xp.sum(xp.where(counted, eta, 0.0)) / xp.sum(xp.astype(counted, xp.float64))
    return xp.where(mean > 0, xp.where(eta > SMALLEST_PART * mean, eta, mean), 1.0)


def group_targets(eta: Array, counted: Array, members: Sequence[Array]) -> Array:
    """The same with the mean eta of the example's group in place of its own; ``members`` are row numbers, each row once."""
    xp = namespace(eta)
    means = []
    for rows in members:
        inside = xp.astype(xp.take(counted, rows), xp.float64)
        number = xp.sum(inside)
        mean = xp.sum(xp.take(eta, rows) * inside) / xp.where(number > 0, number, 1.0)
        means.append(xp.where(number > 0, mean, 1.0) * xp.ones_like(inside))
    place = xp.argsort(xp.concat(list(members)))
    return example_targets(xp.take(xp.concat(means), place), counted)


def balance(
    measure: Callable[[Array, Any], tuple[Array, Any]],
    weights: Array,
    n_iter: int,
    targets: Callable[[Array, Array], Array] = example_targets,
    limits: tuple[float, float] = (0.0, math.inf),
    accelerate: bool = False,
) -> Iterator[Balance]:
    """Iterate weights -> etas -> weights, yielding every point: ``n_iter`` reweightings give n_iter + 1 points.

    Parameters
    ----------
    measure : callable
        (weights, state of the last call) -> (etas, state).
    weights : array of shape (n,)
        Where it starts, of any array library; a weight of zero stays zero. The mean of the others is kept.
    n_iter : int
        Reweightings.
    targets : callable
        (etas, rows that count) -> what each weight is divided by.
    limits : pair of float
        Least and largest weight, in units of that mean.
    accelerate : bool
        Anderson mixing of the log weights, safeguarded: a point is never more uneven than that of the plain iteration after as
        many reweightings. Most take two measurements instead of one.
    """
    steps = _Steps(measure, targets, limits, weights)
    plain = mixed = steps.point(weights, None)
    yield plain
    mixer = _Mixer()
    for _ in range(n_iter):
        step = steps.weights(mixer.mix(*steps.residual(mixed))) if accelerate else None
        together = step is None or (mixed is plain and mixer.is_fresh)
        plain = steps.point(steps.weights(operator.add(*steps.residual(plain))), plain.state)
        # the plain iteration runs beside the mixed one: what is given is the better of the two
        trial = plain if together else steps.tried(step, mixed.state)
        if trial is None or not steps.unevenness(trial) <= ASTRAY * steps.unevenness(plain):
            trial = plain
            mixer.forget()
        mixed = trial
        yield min(plain, mixed, key=steps.unevenness)


@dataclass(frozen=True)
class _Steps:
    """The map from weights to weights, in their logarithms."""

    measure: Callable[[Array, Any], tuple[Array, Any]]
    targets: Callable[[Array, Array], Array]
    limits: tuple[float, float]
    start: Array

    @cached_property
    def counted(self) -> Array:
        return self.start > 0

    @cached_property
    def number(self) -> Array:
        xp = namespace(self.start)
        return xp.sum(xp.astype(self.counted, xp.float64))

    def point(self, weights: Array, state: Any) -> Balance:
        return Balance(weights, *self.measure(weights, state))

    def tried(self, weights: Array, state: Any) -> Balance | None:
        """The same, or None where the step leads to weights that have no fit, or where rows no longer count."""
        xp = namespace(weights)
        if not bool(xp.all(xp.isfinite(weights)) & xp.all((weights > 0) == self.counted)):
            return None
        try:
            return self.point(weights, state)
        except (NotConvergedError, SingularHessianError):
            return None

    def residual(self, point: Balance) -> tuple[Array, Array]:
        """Log weights, and by how much a plain step moves them; rows that do not count are zero in both."""
        xp = namespace(point.weights)
        x = xp.log(xp.where(self.counted, point.weights, 1.0))
        residual = -xp.log(xp.where(self.counted, self.targets(point.eta, self.counted), 1.0))
        return x, xp.where(self.counted, residual - xp.sum(residual) / self.number, 0.0)

    def weights(self, x: Array) -> Array:
        mean = namespace(x).sum(self.start) / self.number
        return _normalised(x, self.counted, mean, self.limits)

    def unevenness(self, point: Balance) -> float:
        """Spread of the etas, or of what else the weights are divided by."""
        if self.targets is example_targets:
            return point.spread
        return replace(point, eta=self.targets(point.eta, self.counted)).spread


def _normalised(x: Array, counted: Array, mean: Array, limits: tuple[float, float]) -> Array:
    """exp(x) on the rows that count, within limits, with their mean restored."""
    xp = namespace(x)
    below = xp.clip(x - xp.max(xp.where(counted, x, -math.inf)), LEAST_LOG, None)
    raw = xp.where(counted, xp.exp(below), 0.0)
    share = mean * xp.sum(xp.astype(counted, xp.float64))
    raw = raw * (share / xp.sum(raw))
    if limits[0] <= 0 and math.isinf(limits[1]):
        return raw
    low, high = limits[0] * mean, limits[1] * mean
    for _ in range(50):  # clipping moves the sum, rescaling moves values past the limits: a few rounds settle it
        clipped = xp.where(counted, xp.minimum(xp.maximum(raw, low), high), 0.0)
        free = counted & (clipped > low) & (clipped < high)
        excess = share - xp.sum(clipped)
        if bool((xp.abs(excess) <= 1e-12 * share) | ~xp.any(free)):
            break
        raw = xp.where(free, clipped + excess * clipped / xp.sum(xp.where(free, clipped, 0.0)), clipped)
    return xp.where(counted, xp.minimum(xp.maximum(raw, low), high), 0.0)


class _Mixer:
    """Anderson mixing with a few steps of memory; forgets them when the residual grows."""

    def __init__(self) -> None:
        self.points: list[Array] = []
        self.residuals: list[Array] = []

    @property
    def is_fresh(self) -> bool:
        """Whether the last step was a plain one."""
        return len(self.points) == 1

    def forget(self) -> None:
        self.points, self.residuals = [], []

    def mix(self, x: Array, residual: Array) -> Array:
        xp = namespace(x)
        size = xp.linalg.vector_norm
        if self.residuals and bool(size(residual) > 2.0 * size(self.residuals[-1])):
            self.forget()
        self.points.append(x)
        self.residuals.append(residual)
        del self.points[: -MEMORY - 1], self.residuals[: -MEMORY - 1]
        if len(self.points) == 1:
            return x + residual
        dx, df = _steps(self.points, xp), _steps(self.residuals, xp)
        Q, R = xp.linalg.qr(df)
        gamma = xp.linalg.pinv(R, rtol=1e-10) @ (Q.T @ residual)
        return x + residual - (dx + df) @ gamma


def _steps(points: list[Array], xp: Namespace) -> Array:
    """Differences of successive points, as columns."""
    return xp.stack([b - a for a, b in pairwise(points)], axis=1)
