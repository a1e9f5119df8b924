r"""The regularised empirical risk as a function of the parameters, one pass over the rows each (paper, equation 10).

.. math:: \sum_i \omega_i\, \ell(w \cdot x_i + b, y_i) + \frac{n\lambda}{2} |w|^2 + \frac{n\lambda_0}{2} b^2

With a free intercept (:math:`\lambda_0 = 0`) rows are taken less the column means, so that columns far from zero cost no
digits; the last parameter is then the level there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fisherleak._support.arrays import Array, as_real, device, host, is_lazy, like, namespace
from fisherleak._support.namespaces import Sums
from fisherleak.engine.curvature import Factor, Wide, gram
from fisherleak.engine.losses import Loss
from fisherleak.engine.losses.loss import ReducedLoss, reduced_loss, within_reach
from fisherleak.errors import NotConvergedError
from fisherleak.rows import map_rows, sum_rows

__all__ = ["Point", "Risk", "largest_of", "with_constant"]

ROUNDING = 1e-5
"""Share of a residual's rounding terms in the size of the gradient, so that a perfect fit can reach the goal too."""
EVEN = 1e-8
"""Part of a common level below which predictions do not differ: the rounding of one level for all is no distance."""
WIDE, MANY_COLUMNS = 4, 200
"""Columns are far more than rows if they are so many times as many, and no fewer than that."""


def with_constant(block: Array, intercept: bool, centre: Array | None) -> Array:
    """A block of rows in float64, less the centre, with a last column of ones where there is an intercept."""
    xp = namespace(block)
    block = as_real(block, xp)
    if centre is not None:
        block = block - centre[None, :]
    if not intercept:
        return block
    return xp.concat([block, xp.ones((block.shape[0], 1), dtype=block.dtype, device=device(block))], axis=1)


def largest_of(a: Sums, b: Sums) -> Sums:
    """Joins the maxima of two blocks."""
    return (namespace(a[0]).maximum(a[0], b[0]),)


@dataclass(frozen=True)
class Point:
    """The risk at one parameter vector."""

    value: float
    gradient: Array
    relative: float
    size: float
    rounding: float
    misclassified: int
    hessian: Array | None
    wide: Wide | None = None
    """The parts of the Hessian, where rows are far fewer than parameters."""

    def distance(self, factor: Factor) -> float:
        """Newton decrement relative to the size of the model: see :class:`Fit`."""
        decrement = float(namespace(self.gradient).sum(self.gradient * factor.solve(self.gradient)))
        return math.sqrt(max(decrement, 0.0) / self.size) if self.size > 0 else 0.0


@dataclass(frozen=True)
class Risk:
    """The regularised empirical risk as a function of theta, one pass over the rows each."""

    X: Array
    y: Array
    weights: Array | None
    loss: Loss
    l2: float
    intercept: bool
    intercept_l2: float = 0.0
    names: tuple[str, ...] = ()
    known_centre: Array | None = None
    scales: Array | None = None
    """(d,): l2 is on each coefficient times its scale, for preprocessing that is folded in."""
    outputs: int = 1
    """K."""

    @cached_property
    def centre(self) -> Array | None:
        """Weighted column means (or the centre of a known fit), where there is a free intercept to take them up."""
        if not self.intercept or self.intercept_l2 > 0:
            return None
        if self.known_centre is not None:
            return self.known_centre
        xp = namespace(self.X)

        def block(X: Array, weights: Array | None) -> tuple[Any, ...]:
            omega = xp.ones(X.shape[0], dtype=xp.float64, device=device(X)) if weights is None else weights
            return as_real(X, xp).T @ omega, xp.sum(omega)

        total, count = sum_rows(block, self.X, self.weights)
        return total / count

    @cached_property
    def reduced_loss(self) -> ReducedLoss:
        """The loss in its frame."""
        return reduced_loss(self.loss, self.outputs, self.X)

    @property
    def separable(self) -> bool:
        """Whether labels are classes, which may be separable."""
        return self.loss.labels.binary

    @property
    def size(self) -> int:
        return int(self.X.shape[1]) + int(self.intercept)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return self.names

    @cached_property
    def penalty(self) -> Array:
        """Diagonal of the penalty's Hessian, (p,)."""
        return self._on_columns()

    def _on_columns(self) -> Array:
        n, d = self.X.shape
        squares = [1.0] * d if self.scales is None else host(self.scales**2).tolist()
        values = [n * self.l2 * square for square in squares] + [n * self.intercept_l2] * int(self.intercept)
        return like(values, self.X, namespace(self.X))

    def centred(self, theta: Array) -> Array:
        """Parameters of the model as they are for rows less the centre."""
        if self.centre is None:
            return theta
        xp = namespace(theta)
        level = theta[-1:] + xp.sum(self.centre * theta[:-1])
        return xp.concat([theta[:-1], level])

    def as_released(self, gradient: Array) -> Array:
        """The gradient by the parameters for rows as they are, from that for rows less the centre."""
        if self.centre is None:
            return gradient
        return namespace(gradient).concat([gradient[:-1] + self.centre * gradient[-1], gradient[-1:]])

    def residuals(self, theta: Array) -> Callable[..., Array]:
        """A function from a block of rows to its weighted first derivatives at centred parameters."""
        loss, intercept, centre = self.loss, self.intercept, self.centre

        def block(X: Array, y: Array, weights: Array | None) -> Array:
            r = loss.r(with_constant(X, intercept, centre) @ theta, y)
            return r if weights is None else weights * r

        return block

    def largest_moves(self, *steps: Array) -> list[float]:
        """Largest change of a linear predictor by each of some steps, over the rows that count."""
        xp = namespace(self.X)
        intercept, centre = self.intercept, self.centre
        together = xp.stack(steps, axis=1)

        def block(X: Array, weights: Array | None) -> tuple[Any, ...]:
            moves = xp.abs(with_constant(X, intercept, centre) @ together)
            return (xp.max(moves if weights is None else xp.where(weights[:, None] > 0, moves, 0.0), axis=0),)

        (moves,) = sum_rows(block, self.X, self.weights, join=largest_of)
        return [float(x) for x in host(moves)]

    def reach(self, step: Array) -> tuple[float, float]:
        """The most that a step adds to the margin of a row of two classes, and the most that it takes from one."""
        intercept, centre = self.intercept, self.centre

        def block(X: Array, y: Array, weights: Array | None) -> tuple[Any]:
            xp = namespace(X)
            margins = (2.0 * y - 1.0) * (with_constant(X, intercept, centre) @ step)
            margins = margins if weights is None else xp.where(weights > 0, margins, 0.0)
            return (xp.stack([xp.max(margins), xp.max(-margins)]),)

        (found,) = sum_rows(block, self.X, self.y, self.weights, join=largest_of)
        helped, harmed = (float(x) for x in host(found))
        return helped, harmed

    def start(self) -> Array:
        """Zero, with the intercept that has the mean label where the loss knows one."""
        xp = namespace(self.X)
        theta = xp.zeros(self.size, dtype=xp.float64, device=device(self.X))
        if not self.intercept:
            return theta
        try:
            weights = map_rows(xp.ones_like, self.y) if self.weights is None else self.weights
            level = self.loss.start(self.y, weights)
        except ValueError:
            raise NotConvergedError(
                f"The {self.loss.name} loss has no finite minimiser: no intercept reaches the mean label. Leave out the "
                "intercept and add an l2 penalty, or choose another loss."
            ) from None
        return xp.concat([theta[:-1], like([level], self.X, xp)])

    def value(self, theta: Array) -> float:
        loss, intercept, centre = self.loss, self.intercept, self.centre

        def block(X: Array, y: Array, weights: Array | None) -> tuple[Any]:
            xp = namespace(X)
            losses = loss.value(within_reach(with_constant(X, intercept, centre) @ theta), y)
            return (xp.sum(losses if weights is None else weights * losses),)

        (total,) = sum_rows(block, self.X, self.y, self.weights)
        return float(total + self._penalty_value(theta))

    def at(self, theta: Array, curvature: bool) -> Point:
        xp = namespace(theta)
        gradient, terms, sums, *hessian = sum_rows(self._terms(theta, curvature), self.X, self.y, self.weights)
        diagonal = self.penalty
        gradient = gradient + diagonal * theta
        terms = terms + diagonal * xp.abs(theta)
        relative = xp.max(xp.where(terms > 0, xp.abs(gradient) / xp.where(terms > 0, terms, 1.0), 0.0))
        # one small copy per pass tells the host all that it has to know
        known = xp.concat([xp.stack([relative, self._penalty_value(theta)]), sums])
        relative, penalty, value, misclassified, *sizes = (float(x) for x in host(known))
        H = None
        if hessian:
            H = hessian[0] + xp.eye(theta.shape[0], dtype=theta.dtype, device=device(theta)) * diagonal[None, :]
        return Point(
            value=value + penalty,
            gradient=gradient,
            relative=relative,
            size=self._size(sizes, penalty),
            rounding=sizes[4],
            misclassified=int(misclassified),
            hessian=H,
            wide=self._wide(theta) if hessian else None,
        )

    def _wide(self, theta: Array) -> Wide | None:
        """The parts of the Hessian, where rows in memory are far fewer than columns that all have a penalty."""
        n, d = self.X.shape
        if is_lazy(self.X) or d < MANY_COLUMNS or WIDE * n > d or not bool(namespace(theta).all(self.penalty[:d] > 0)):
            return None
        xp = namespace(theta)
        rows = with_constant(self.X[:], self.intercept, self.centre)
        a = self.loss.a(within_reach(rows @ theta), self.y)
        a = a if self.weights is None else self.weights * a
        return Wide(rows * xp.sqrt(a)[:, None], self.penalty, self.intercept)

    def _size(self, sums: list[float], penalty: float) -> float:
        """theta^T H theta + sum omega r^2; with a free intercept, less what a constant explains."""
        residual, square, linear, curvature, _ = sums
        if self.centre is not None and curvature > 0:
            square = max(square - linear * (linear / curvature), EVEN**2 * square)
        return residual + square + 2.0 * penalty

    def _penalty_value(self, theta: Array) -> Array:
        return 0.5 * namespace(theta).sum(self.penalty * theta * theta)

    def _terms(self, theta: Array, curvature: bool) -> Callable[..., tuple[Any, ...]]:
        loss, binary = self.loss, self.loss.labels.binary
        intercept, centre = self.intercept, self.centre

        def block(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
            xp = namespace(X)
            rows = with_constant(X, intercept, centre)
            z = within_reach(rows @ theta)
            omega = xp.ones_like(z) if weights is None else weights
            plain = loss.r(z, y)
            r = omega * plain
            a = omega * loss.a(z, y)
            by_label = omega * xp.abs(loss.c(z, y) * y)
            # what one unit of rounding in z and y does to r, and to the loss
            in_r = a * xp.abs(z) + by_label
            in_loss = xp.abs(z) + xp.minimum(xp.abs(y), by_label / xp.where(a > 0, a, 1.0))
            wrong = (omega > 0) & ((2.0 * y - 1.0) * z <= 0) if binary else omega > 0
            counts = (omega * loss.value(z, y), xp.astype(wrong, xp.float64))
            sizes = (r * plain, a * z * z, a * z, a, xp.abs(r) * in_loss)
            terms = (
                rows.T @ r,
                xp.abs(rows).T @ (xp.abs(r) + ROUNDING * in_r),
                xp.stack([xp.sum(x) for x in counts + sizes]),
            )
            return (*terms, gram(rows, a, xp)) if curvature else terms

        return block
