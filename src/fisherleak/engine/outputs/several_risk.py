r"""The regularised empirical risk of several outputs, one pass over the rows each.

.. math:: \sum_i \omega_i\, \ell(W x_i + b, y_i) + \frac{n\lambda}{2} \sum_k |w_k|^2

as a function of :math:`\theta = \mathrm{vec}(V)`, V of shape (L, p) in the frame of ``outputs``: :math:`(W, b) = Q V`. Rows
are taken less the column means where there is a free intercept. The Hessian :math:`\sum_i \omega_i A_i \otimes x_i x_i^T` is
built by pairs of outputs, one half of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, device, host, like, namespace
from fisherleak._support.checks import default_names
from fisherleak._support.namespaces import Sums
from fisherleak.engine.curvature import gram
from fisherleak.engine.losses import Loss
from fisherleak.engine.losses.loss import within_reach
from fisherleak.engine.losses.multi_output import own_class
from fisherleak.engine.risk import EVEN, ROUNDING, Point, Risk, largest_of, with_constant
from fisherleak.rows import block_elements, sum_rows

__all__ = ["OutputsRisk", "Scores", "score_maker"]

SMALLEST_BLOCK = 256
"""Rows below which products with blocks are starved."""


@dataclass(frozen=True)
class Scores:
    """A block of rows with the derivatives of its loss, weights counted."""

    x: Array
    """(b, p) features, with the constant where there is an intercept."""
    z: Array
    """(b, K) scores."""
    r: Array
    """(b, L) weighted gradient."""
    A: Array | None
    """(b, L, L) weighted curvature; None where it was not asked for."""
    omega: Array
    """(b,) weights."""


def score_maker(
    loss: Loss, theta: Array, outputs: int, intercept: bool, centre: Array | None, curvature: bool
) -> Callable[..., Scores]:
    """A function from a block of rows to its ``Scores``: small arrays only, so that it can travel to where the rows are."""
    xp = namespace(theta)
    assert loss.frame is not None
    Q = like(loss.frame(outputs), theta, xp)
    V = xp.reshape(theta, (Q.shape[1], -1))

    def block(X: Array, y: Array, weights: Array | None) -> Scores:
        x = with_constant(X, intercept, centre)
        z = within_reach((x @ V.T) @ Q.T)
        omega = xp.ones(x.shape[0], dtype=x.dtype, device=device(x)) if weights is None else weights
        r = loss.r(z, y) @ Q * omega[:, None]
        A = loss.a(z, y) * omega[:, None, None] if curvature else None
        return Scores(x, z, r, A, omega)

    return block


@dataclass(frozen=True)
class OutputsRisk(Risk):
    """The regularised empirical risk as a function of vec(V)."""

    loss: Any

    @property
    def separable(self) -> bool:
        return bool(self.loss.shares)

    @property
    def width(self) -> int:
        """p, parameters of one output."""
        return int(self.X.shape[1]) + int(self.intercept)

    @cached_property
    def frame(self) -> Array:
        """Q, (K, L)."""
        return like(self.loss.frame(self.outputs), self.X, namespace(self.X))

    @property
    def size(self) -> int:
        return int(self.loss.frame(self.outputs).shape[1]) * self.width

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The column of each parameter: one round of columns, and the intercept, for each direction of the frame."""
        names = self.names or (*default_names(int(self.X.shape[1])), "intercept")
        return names[: self.width] * (self.size // self.width)

    @cached_property
    def penalty(self) -> Array:
        return namespace(self.X).tile(self._on_columns(), (self.size // self.width,))

    def centred(self, theta: Array) -> Array:
        """vec(V), for rows less the centre, of parameters as they are released: all coefficients, then all intercepts."""
        xp = namespace(theta)
        K, d = self.outputs, int(self.X.shape[1])
        parts = [xp.reshape(theta[: K * d], (K, d))]
        if self.intercept:
            level = theta[K * d :]
            level = level if self.centre is None else level + parts[0] @ self.centre
            parts.append(level[:, None])
        return xp.reshape(self.frame.T @ xp.concat(parts, axis=1), (-1,))

    def as_released(self, gradient: Array) -> Array:
        """By the parameters of every output, (K, p)."""
        xp = namespace(gradient)
        whole = self.frame @ xp.reshape(gradient, (-1, self.width))
        if self.centre is None:
            return whole
        return xp.concat([whole[:, :-1] + whole[:, -1:] * self.centre[None, :], whole[:, -1:]], axis=1)

    def residuals(self, theta: Array) -> Callable[..., Array]:
        """Those of every output: (b, K)."""
        make, Q = score_maker(self.loss, theta, self.outputs, self.intercept, self.centre, False), self.frame

        def block(X: Array, y: Array, weights: Array | None) -> Array:
            return make(X, y, weights).r @ Q.T

        return block

    def largest_moves(self, *steps: Array) -> list[float]:
        xp = namespace(self.X)
        intercept, centre, count = self.intercept, self.centre, len(steps)
        V = xp.concat([xp.reshape(step, (-1, self.width)) for step in steps], axis=0)

        def block(X: Array, weights: Array | None) -> Sums:
            moves = xp.abs(with_constant(X, intercept, centre) @ V.T)
            moves = moves if weights is None else xp.where(weights[:, None] > 0, moves, xp.zeros_like(moves))
            return (xp.max(xp.reshape(xp.max(moves, axis=0), (count, -1)), axis=1),)

        (moves,) = sum_rows(block, self.X, self.weights, join=largest_of)
        return [float(x) for x in host(moves)]

    def reach(self, step: Array) -> tuple[float, float]:
        """Over the margins of a row's own class against each other one."""
        make = score_maker(self.loss, step, self.outputs, self.intercept, self.centre, False)
        outputs = self.outputs

        def block(X: Array, y: Array, weights: Array | None) -> Sums:
            part = make(X, y, weights)
            xp = namespace(part.z)
            own = own_class(y, outputs)
            margins = xp.sum(xp.where(own, part.z, xp.zeros_like(part.z)), axis=1)[:, None] - part.z
            counted = part.omega[:, None] > 0
            least = xp.full_like(margins, -np.inf)
            sides = [xp.where(own, least, xp.where(counted, m, xp.zeros_like(m))) for m in (margins, -margins)]
            return (xp.stack([xp.max(side) for side in sides]),)

        (found,) = sum_rows(block, self.X, self.y, self.weights, join=largest_of)
        helped, harmed = (float(x) for x in host(found))
        return helped, harmed

    def start(self) -> Array:
        """Zero, with the intercepts of the best constant model."""
        xp = namespace(self.X)
        V = np.zeros((self.size // self.width, self.width))
        if self.intercept:
            means = host(self._mean_labels())
            means = np.log(np.maximum(means, np.finfo(float).eps)) if self.separable else means
            V[:, -1] = self.loss.frame(self.outputs).T @ means
        return like(V.reshape(-1), self.X, xp)

    def _mean_labels(self) -> Array:
        """Weighted mean of the labels, (K,): the shares of the classes, or -gradient at zero of numbers."""
        loss, outputs = self.loss, self.outputs

        def block(y: Array, weights: Array | None) -> Sums:
            xp = namespace(y)
            zero = xp.zeros((y.shape[0], outputs), dtype=xp.float64, device=device(y))
            Y = xp.astype(own_class(y, outputs), xp.float64) if loss.shares else -loss.r(zero, y)
            omega = xp.ones(y.shape[0], dtype=xp.float64, device=device(y)) if weights is None else weights
            return Y.T @ omega, xp.sum(omega)

        total, count = sum_rows(block, self.y, self.weights)
        return total / count

    def value(self, theta: Array) -> float:
        make = score_maker(self.loss, theta, self.outputs, self.intercept, self.centre, False)
        loss = self.loss

        def block(X: Array, y: Array, weights: Array | None) -> Sums:
            part = make(X, y, weights)
            return (namespace(part.z).sum(part.omega * loss.value(part.z, y)),)

        (total,) = sum_rows(block, self.X, self.y, self.weights)
        return float(total + self._penalty_value(theta))

    def at(self, theta: Array, curvature: bool) -> Point:
        xp = namespace(theta)
        L, p = self.size // self.width, self.width
        gradient, terms, sums, bends, *hessian = sum_rows(
            self._terms(theta, curvature), self.X, self.y, self.weights, most=self._most
        )
        gradient = xp.reshape(gradient, (-1,)) + self.penalty * theta
        terms = xp.reshape(terms, (-1,)) + self.penalty * xp.abs(theta)
        relative = xp.max(xp.where(terms > 0, xp.abs(gradient) / xp.where(terms > 0, terms, 1.0), 0.0))
        known = xp.concat([xp.stack([relative, self._penalty_value(theta)]), sums])
        relative, penalty, value, misclassified, residual, square, rounding = (float(x) for x in host(known))
        if self.centre is not None:
            square = max(square - _explained(host(bends), L), EVEN**2 * square)
        H = None
        if hessian:
            H = _of_pairs(hessian, L, p, self.loss.quadratic, xp)
            H = H + xp.eye(L * p, dtype=theta.dtype, device=device(theta)) * self.penalty[None, :]
        return Point(
            value=value + penalty,
            gradient=gradient,
            relative=relative,
            size=residual + square + 2.0 * penalty,
            rounding=rounding,
            misclassified=int(misclassified),
            hessian=H,
        )

    @property
    def _most(self) -> int:
        """Rows of a block that hold as many values as usual, with the features once for each output."""
        L = self.size // self.width
        return max(SMALLEST_BLOCK, block_elements(self.X) // (L * (L + self.width)))

    def _terms(self, theta: Array, curvature: bool) -> Callable[..., Sums]:
        make = score_maker(self.loss, theta, self.outputs, self.intercept, self.centre, True)
        loss, outputs, Q = self.loss, self.outputs, self.frame

        def block(X: Array, y: Array, weights: Array | None) -> Sums:
            part = make(X, y, weights)
            xp = namespace(part.z)
            assert part.A is not None
            gradient = loss.r(part.z, y)
            labels = part.z - gradient if loss.quadratic else xp.zeros_like(part.z)
            scale = xp.abs(part.z) + xp.abs(labels)
            # what one unit of rounding in scores and labels does to r
            in_r = (part.omega[:, None] * (scale if loss.quadratic else xp.abs(gradient) * scale)) @ xp.abs(Q)
            z = part.z @ Q
            bent = (part.A @ z[:, :, None])[:, :, 0]
            wrong = part.omega > 0
            if loss.shares:
                own = own_class(y, outputs)
                mine = xp.sum(xp.where(own, part.z, xp.zeros_like(part.z)), axis=1)
                others = xp.max(xp.where(own, xp.full_like(part.z, -np.inf), part.z), axis=1)
                wrong = wrong & (mine <= others)
            counts = (part.omega * loss.value(part.z, y), xp.astype(wrong, xp.float64))
            sizes = (part.omega[:, None] * gradient**2, bent * z, part.omega[:, None] * xp.abs(gradient) * scale)
            sums = (
                part.r.T @ part.x,
                (xp.abs(part.r) + ROUNDING * in_r).T @ xp.abs(part.x),
                xp.stack([xp.sum(x) for x in counts + sizes]),
                xp.concat([xp.sum(bent, axis=0), xp.reshape(xp.sum(part.A, axis=0), (-1,))]),
            )
            return (*sums, *_pairs(part, loss.quadratic, xp)) if curvature else sums

        return block


def _explained(bends: Any, L: int) -> float:
    """What constants explain of sum z^T A z: s^T (sum A)^-1 s with s = sum A z."""
    linear, curvature = bends[:L], bends[L:].reshape(L, L)
    return float(linear @ np.linalg.lstsq(curvature, linear, rcond=None)[0])


def _pairs(part: Scores, quadratic: bool, xp: Any) -> Sums:
    """Sum A_kl x x^T for outputs k <= l, (p, (L - k) p) for each k; once, (p, p), where A is the identity."""
    if quadratic:
        return (gram(part.x, part.omega, xp),)
    assert part.A is not None
    b, L = part.r.shape
    found = []
    for k in range(L):
        row = part.A[:, k, k:]
        found.append(part.x.T @ xp.reshape(row[:, :, None] * part.x[:, None, :], (b, -1)))
    return tuple(found)


def _of_pairs(parts: Any, L: int, p: int, quadratic: bool, xp: Any) -> Array:
    """The Hessian (L p, L p) from the sums of ``_pairs``."""
    if quadratic:
        (G,) = parts
        eye = like(np.eye(L), G, xp)
        return xp.reshape(eye[:, None, :, None] * G[None, :, None, :], (L * p, L * p))
    lines = []
    for k in range(L):
        before = [parts[m][:, (k - m) * p : (k - m + 1) * p].T for m in range(k)]
        own = parts[k][:, :p]
        lines.append(xp.concat([*before, 0.5 * (own + own.T), parts[k][:, p:]], axis=1))
    return xp.concat(lines, axis=0)
