"""From rows to the numbers of their cells that paths of one value need: for beliefs about values, block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host, like, namespace
from fisherleak._support.namespaces import Sums
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.folding import Folding
from fisherleak.engine.jacobian.perturbation import Attribute, map_of
from fisherleak.engine.prior.cell_paths import Moving, Shared
from fisherleak.engine.prior.moved_rows import Cells
from fisherleak.engine.prior.moving_noise import MovingNoise
from fisherleak.rows import sum_rows

__all__ = [
    "FAR",
    "WIDE",
    "Beliefs",
    "cell_maker",
    "directions",
    "even_nodes",
    "folded",
    "gauss_nodes",
    "moving_maker",
    "peaked_nodes",
    "shared_of",
]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Beliefs:
    """What is believed of each attribute beforehand, a normal law each, and of the label; small arrays only.

    ``spreads`` are in the attributes' units, ``centres`` in those of the first feature that each feeds; NaN where not asked.
    """

    attributes: tuple[Attribute, ...]
    spreads: Vector
    centres: Vector
    label_spread: float = np.nan
    label_centre: float = np.nan


def directions(jacobian: Jacobian, attributes: Sequence[Attribute]) -> Vector:
    """E of attributes of one direction, (p, k)."""
    p = jacobian.width
    E = map_of(attributes, p, np.zeros(1))
    return np.asarray(E.after(np.eye(p)))


def folded(
    folding: Folding | None, fit: Any, X: Vector, weights: Vector | None, columns: Any, along: Vector
) -> tuple[Vector, Vector]:
    r"""What moving a value adds to the penalty on its direction: linear and square coefficients of t, (b, k).

    :math:`n \lambda (s^2(t) - s^2)` with :math:`W (s^2(t) - s^2) = \omega (2 t (x - \bar x) + t^2 (1 - \omega / W))`.
    """
    shape = (X.shape[0], len(columns))
    if folding is None:
        return np.zeros(shape), np.zeros(shape)
    assert folding.totals is not None
    totals, means = (np.asarray(host(each))[columns] for each in (folding.totals, folding.means))
    moved = totals > 0
    totals = np.where(moved, totals, 1.0)
    omega = np.ones((X.shape[0], 1)) if weights is None or not folding.weighted else weights[:, None]
    rate = np.where(moved, float(fit.n) * float(fit.l2) / totals, 0.0) * omega
    return rate * 2.0 * (X[:, columns] - means) / along, rate * (1.0 - omega / totals)


@dataclass(frozen=True)
class _Directed:
    """The directions of the attributes that are asked for, (p, k), their first columns, and how fast these move."""

    E: Vector
    columns: NDArray[np.int64]
    along: Vector

    @classmethod
    def of(cls, jacobian: Jacobian, beliefs: Beliefs, asked: NDArray[np.int64]) -> _Directed:
        some = [beliefs.attributes[j] for j in asked]
        E = directions(jacobian, some) if some else np.zeros((int(jacobian.theta.shape[0]), 0))
        columns = np.array([attribute.columns[0] for attribute in some], dtype=np.int64)
        return cls(E, columns, E[columns, np.arange(len(some))])


def cell_maker(
    jacobian: Jacobian, beliefs: Beliefs, asked: NDArray[np.int64]
) -> Callable[..., tuple[Cells, Vector, Cells]]:
    """A function from a block to the numbers of its cells (b, k), the offset of each centre, and the numbers of its labels."""
    fit, folding = jacobian.fit, jacobian.folding
    directed, centres = _Directed.of(jacobian, beliefs, asked), beliefs.centres[asked]
    E, columns, along = directed.E, directed.columns, directed.along
    theta, B = (np.asarray(host(each)) for each in (jacobian.theta, jacobian.B))
    inverse = np.zeros_like(B) if jacobian.gradient else np.asarray(host(fit.factor.inverse()))
    P, _, furthest = _steepness(jacobian, E)
    turned, BE, w = inverse @ E, B @ E, E.T @ theta
    M22, G22, P22 = (E * turned).sum(axis=0), (BE**2).sum(axis=0), ((turned.T @ P) * turned.T).sum(axis=1)
    intercept, centre = fit.intercept is not None, None if fit.centre is None else np.asarray(host(fit.centre))

    def block(X: Array, y: Array, weights: Array | None) -> tuple[Cells, Vector, Cells]:
        X, y = np.asarray(host(X), dtype=np.float64), np.asarray(host(y), dtype=np.float64)
        omega = None if weights is None else np.asarray(host(weights))
        x = np.asarray(with_constant(X, intercept, centre))
        u, seen = x @ inverse, x @ B.T
        bent = u @ P
        one = np.ones(len(y)) if omega is None else omega
        row: list[Any] = [each[:, None] for each in (x @ theta, y, one)]
        pairs: list[Any] = [((u * x).sum(axis=1), u @ E, M22), ((seen**2).sum(axis=1), seen @ BE, G22)]
        pairs.append(((bent * u).sum(axis=1), bent @ turned, P22))
        numbers = [part for a, b, c in pairs for part in (a[:, None], b, c[None, :])]
        moved = folded(folding, fit, X, omega, columns, along)
        every: list[Any] = [*row, w[None, :], *numbers, furthest[None, :], *moved]
        alone = [part for a, _, _ in pairs for part in (a[:, None], np.zeros((1, 1)), np.zeros((1, 1)))]
        labels: list[Any] = [*row, np.zeros((1, 1)), *alone]
        return Cells(*every), (centres - X[:, columns]) / along, Cells(*labels)

    return block


def moving_maker(
    jacobian: Jacobian, beliefs: Beliefs, asked: NDArray[np.int64], noise: MovingNoise | None
) -> Callable[..., Moving | None]:
    """A function from a block to what noise whose covariance moves needs of its cells; to None for other noise."""
    if noise is None:
        return lambda X, weights: None
    fit, folding, directed = jacobian.fit, jacobian.folding, _Directed.of(jacobian, beliefs, asked)
    intercept, centre = fit.intercept is not None, None if fit.centre is None else np.asarray(host(fit.centre))

    def block(X: Array, weights: Array | None) -> Moving:
        X = np.asarray(host(X), dtype=np.float64)
        omega = None if weights is None else np.asarray(host(weights))
        x = np.asarray(with_constant(X, intercept, centre))
        moved = folded(folding, fit, X, omega, directed.columns, directed.along)
        return noise, noise.cells(x, directed.E, np.ones(len(x)) if omega is None else omega, moved)

    return block


def _steepness(jacobian: Jacobian, E: Vector) -> tuple[Vector, float, Vector]:
    """P, the largest leverage, and the largest move of a score along each H^-1 e.

    Zeros where nothing but the gradient is released, or where the Hessian does not change.
    """
    fit, model = jacobian.fit, jacobian.model
    p = int(jacobian.theta.shape[0])
    if fit.loss.quadratic or jacobian.gradient:
        return np.zeros((p, p)), 0.0, np.zeros(E.shape[1])
    inverse = fit.factor.inverse()
    xp = namespace(inverse)
    turned = inverse @ like(E, inverse, xp)

    def block(X: Array, y: Array, weights: Array | None) -> Sums:
        rows = model.rows(X, y, weights)
        moved = xp.max(xp.abs(rows.x @ turned), axis=0) if E.shape[1] else turned[0, :]
        tall = xp.sum((rows.x @ inverse) * rows.x, axis=1)
        counted = xp.where(rows.a > 0, tall, 0.0)
        return rows.x.T @ ((rows.a * tall)[:, None] * rows.x), xp.max(counted), moved

    def join(a: Sums, b: Sums) -> Sums:
        return a[0] + b[0], xp.maximum(a[1], b[1]), xp.maximum(a[2], b[2])

    P, tallest, moved = sum_rows(block, *jacobian.arrays, join=join)
    return np.asarray(host(P)), float(tallest), np.asarray(host(moved))


def shared_of(jacobian: Jacobian) -> Shared:
    """What the bounds of all cells share."""
    loss = jacobian.fit.loss
    if loss.quadratic or jacobian.gradient:
        return Shared(loss, slope=1.0)
    P, tallest, _ = _steepness(jacobian, np.zeros((int(jacobian.theta.shape[0]), 0)))
    root = np.linalg.cholesky(np.asarray(host(jacobian.fit.factor.inverse())))
    steepness = float(np.sqrt(max(np.linalg.eigvalsh(root.T @ P @ root)[-1], 0.0)))
    seen = float(np.linalg.norm(np.asarray(host(jacobian.metric)) @ root, ord=2))
    slope = np.inf if loss.traits is None else loss.traits.log_slope
    return Shared(loss, slope, steepness, tallest, seen)


# Rules for means over a normal belief about a value: nodes and weights, for every cell its own.
#
# The mean of eta squared over :math:`v \sim N(m, s^2)` is a mean over a path of refits, which may have a narrow peak: for the
# squared loss it has poles at :math:`v^* \pm i \delta`. From :math:`\delta \ge 4 s` nine Gauss-Hermite nodes are enough. Below,
# with :math:`v = v^* + \delta \sinh u`, the trapezoid rule in u has its nodes where the peak is, however narrow.

FAR = 8.5
"""Spreads from the centre past which a normal belief is below rounding."""
WIDE = 4.0
"""Distance of the poles, in spreads, from which nine nodes err by less than 1e-4 in the share."""
FEWEST = 128
"""Nodes over the whole range, so that a spread has four or more where there is no peak."""
STEP = 0.12
"""Of u: the next singularity is at pi / 4 from the real line, and the rule errs by exp(-2 pi (pi / 4) / step)."""


def gauss_nodes(count: int = 9) -> tuple[Vector, Vector]:
    """Places in spreads from the centre, and weights that sum to one."""
    places, weights = np.polynomial.hermite_e.hermegauss(count)
    return np.asarray(places), np.asarray(weights / weights.sum())


def even_nodes(step: float, far: float = FAR) -> tuple[Vector, Vector]:
    """The trapezoid rule with a step in spreads: places, and weights that sum to one."""
    places = step * np.arange(-np.floor(far / step), np.floor(far / step) + 1.0)
    weights = np.exp(-0.5 * places**2)
    return places, np.asarray(weights / weights.sum())


def peaked_nodes(peak: Vector, width: Vector) -> tuple[Vector, Vector]:
    """For each of some cells with poles at peak ± i width, in spreads from the centre: places and weights, (cells, nodes)."""
    low, high = np.arcsinh((-FAR - peak) / width), np.arcsinh((FAR - peak) / width)
    count = max(FEWEST, int(np.ceil(np.max((high - low) / STEP, initial=0.0))))
    u = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, count)
    places = peak[:, None] + width[:, None] * np.sinh(u)
    weights = np.exp(-0.5 * places**2) * np.cosh(u)
    return places, np.asarray(weights / weights.sum(axis=1, keepdims=True))
