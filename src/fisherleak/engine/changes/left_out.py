r"""Examples that are left out, one at a time, and what the parameters do then as far as one Hessian tells.

With :math:`u = H^{-1} x` and :math:`h = a\, x \cdot u` the Hessian of the others is that of all less rank one,

.. math:: H_-^{-1} v = H^{-1} v + \frac{a\, u \cdot v}{1 - h}\, u .

Where scaling is folded into the model, the scales are those of the other rows too: the penalty's Hessian changes by a diagonal
P, :math:`P_{kk} = n \lambda (s^2_{k(-i)} - s_k^2)`, so that the gradient there is :math:`P w - r x` and the Hessian
:math:`H_- + P`. P is of the size of one row in n, so that conjugate gradients for :math:`(H_- + P) D = r x - P w`, with
:math:`H_-` as what they are measured in, settle in a few rounds: they need products with :math:`H_-^{-1}` and P alone. Where
they do not, :math:`(I + H_-^{-1} P) D = H_-^{-1} (r x - P w)` is solved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from fisherleak._support.arrays import Array, device, host, namespace, row_dots
from fisherleak.engine.changes.neighbours import EPSILON, ROUNDING, UNSURE
from fisherleak.engine.jacobian import Jacobian, Model
from fisherleak.engine.jacobian.folding import Folding

__all__ = [
    "Leaving",
    "LeftOut",
    "MovingScales",
    "Slope",
    "Terms",
    "closed_form",
    "leave_out",
    "moves_of_squared",
    "ratio",
]

MOST_ROUNDS = 24
"""Rounds with P at most before an example's own system is solved."""
SLOW = 0.7
"""A step that is longer than this part of the one before it leads nowhere soon."""


Slope = Callable[[Array, Array], Array]
"""A derivative of the loss by scores and labels."""
Terms = Callable[[Array, Array, Array], Array]
"""A function of scores, their moves and labels."""


class Leaving(Protocol):
    """Examples, or sets of them, that are left out one at a time: what moves of the parameters have to know of each."""

    @property
    def rows(self) -> Array: ...
    @property
    def left(self) -> Array:
        """(b,) l such that H_- - l H is not negative; no less than ``UNSURE``."""
        ...

    @property
    def push(self) -> Array: ...
    @property
    def kept(self) -> Array: ...
    @property
    def folded(self) -> bool: ...
    @property
    def weightless(self) -> Array: ...
    def pushed(self, vectors: Array) -> Array: ...
    def pull(self, theta: Array) -> Array: ...
    def own_terms(self, moves: Array, terms: Terms) -> Array: ...
    def own_gradient(self, theta: Array, r: Slope) -> Array: ...
    def solve(self, B: Array, gradient: Array) -> Array: ...
    def inverse(self, B: Array, k: int) -> Array: ...
    def take(self, chosen: Array) -> Self: ...


@dataclass(frozen=True)
class LeftOut:
    """Examples that are left out, one at a time."""

    rows: Array
    x: Array
    y: Array
    omega: Array
    z: Array
    u: Array
    r: Array
    a: Array
    left: Array
    """1 - h, what is left of the curvature along u; no less than ``UNSURE``."""
    push: Array
    """Diagonal of P, (b, p); (b, 0) where nothing is folded in."""
    kept: Array
    """The least part of a squared scale that is left without the example, at most 1: :math:`H_- + P` is no less of H_-."""

    @property
    def folded(self) -> bool:
        return bool(self.push.shape[1] > 0)

    def pushed(self, vectors: Array) -> Array:
        """P times vectors, one for each example or one for all."""
        return self.push * vectors if self.folded else namespace(vectors).zeros_like(vectors)

    def solve(self, B: Array, gradient: Array) -> Array:
        """H_-^-1 gradient."""
        along = self.a / self.left * row_dots(self.u, gradient, namespace(gradient))
        return gradient @ B + along[:, None] * self.u

    @property
    def weightless(self) -> Array:
        """Examples that are not in the sum of losses, (b,)."""
        return self.omega == 0

    def pull(self, theta: Array) -> Array:
        """The vector r x - P w, (b, p)."""
        return self.r[:, None] * self.x - self.pushed(theta[None, :])

    def own_terms(self, moves: Array, terms: Terms) -> Array:
        """The vector omega t x, (b, p), with t by ``terms(z, x . D, y)``."""
        along = row_dots(self.x, moves, namespace(moves))
        return (self.omega * terms(self.z, along, self.y))[:, None] * self.x

    def own_gradient(self, theta: Array, r: Slope) -> Array:
        """That of the examples' own losses, (b, p), with r by ``r(z, y)``, at parameters of their own."""
        z = row_dots(self.x, theta, namespace(theta))
        return (self.omega * r(z, self.y))[:, None] * self.x

    def inverse(self, B: Array, k: int) -> Array:
        """H_-^-1 of one."""
        return B + (self.a[k] / self.left[k]) * self.u[k, :, None] * self.u[k, None, :]

    def take(self, chosen: Array) -> LeftOut:
        xp = namespace(self.x)
        return LeftOut(*(xp.take(getattr(self, name), chosen, axis=0) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class MovingScales:
    """What a block has to know of scales that move when a row is left out."""

    folding: Folding
    squares: Array
    weight: float
    """n l2."""
    intercept: bool

    @classmethod
    def of(cls, jacobian: Any) -> MovingScales | None:
        fit, folding = jacobian.fit, jacobian.folding
        if folding is None:
            return None
        xp = namespace(jacobian.B)
        squares = xp.ones_like(folding.slopes) if fit.scales is None else fit.scales**2
        return cls(folding, squares, fit.n * fit.l2, fit.intercept is not None)

    def changes(self, X: Array, weights: Array | None, there: Array | None = None) -> Array:
        """Of the squared scales, (b, d)."""
        return self.folding.left_out(X, weights, self.squares, there)

    def push(self, X: Array, weights: Array | None, there: Array | None = None) -> Array:
        """Diagonal of P, (b, p)."""
        moves = self.weight * self.changes(X, weights, there)
        xp = namespace(moves)
        return xp.concat([moves, xp.zeros_like(moves[:, :1])], axis=1) if self.intercept else moves

    def turn(self, push: Array) -> Array:
        """The largest part by which P changes a squared scale: |P v| by H^-1 is no more of |v| by H."""
        xp = namespace(push)
        return xp.max(xp.abs(self._parts(push)), axis=1)

    def kept(self, push: Array) -> Array:
        """The least part of a squared scale that P leaves, at most 1: (b,)."""
        xp = namespace(push)
        return xp.clip(1.0 + xp.min(self._parts(push), axis=1), 0.0, 1.0)

    def _parts(self, push: Array) -> Array:
        penalty = self.weight * self.squares
        return push[:, : self.squares.shape[0]] / namespace(push).where(penalty > 0, penalty, 1.0)[None, :]


def leave_out(
    model: Model, B: Array, X: Array, y: Array, omega: Array, rows: Array, fold: MovingScales | None
) -> LeftOut:
    """A block of examples and what leaving each out takes away."""
    xp = namespace(B)
    part = model.rows(X, y, omega)
    u = part.x @ B
    left = 1.0 - part.a * row_dots(part.x, u, xp)
    push = xp.zeros((left.shape[0], 0), dtype=B.dtype, device=device(B)) if fold is None else fold.push(X, omega)
    kept = xp.ones_like(left) if fold is None else fold.kept(push)
    sure = xp.where(left > UNSURE, left, UNSURE)
    return LeftOut(rows, part.x, y, omega, part.x @ model.theta, u, part.r, part.a, sure, push, kept)


def moves_of_squared(part: Leaving, B: Array, theta: Array, precision: float = ROUNDING) -> Array:
    """Moves for the squared loss: by rounds, and where these are slow by a solution for each example."""
    xp = namespace(B)
    pull = part.pull(theta)
    newton = part.solve(B, pull)
    if not part.folded:
        return newton
    moves, settled = _conjugate(part, B, newton, pull, precision)
    for k in np.flatnonzero(host(~settled)).tolist():
        system = xp.eye(B.shape[0], dtype=B.dtype, device=device(B)) + part.inverse(B, k) * part.push[k, None, :]
        moves[k, :] = xp.linalg.solve(system, newton[k, :, None])[:, 0]
    return moves


def _conjugate(part: Leaving, B: Array, newton: Array, pull: Array, precision: float) -> tuple[Array, Array]:
    r"""Moves by conjugate gradients from H_-^-1 pull, and which are near enough.

    Every direction d comes with :math:`H_- d`, for what is left over, g, and :math:`z = H_-^{-1} g` are both known. The error
    is :math:`(H_- + P)^{-1} g`, which in the norm of H_- is no longer than z over the part of the scales that is kept.
    """
    xp = namespace(newton)
    moves, image = newton, pull
    left_over = -part.pushed(moves)
    z = part.solve(B, left_over)
    d, image_d, rho = z, left_over, row_dots(z, left_over, xp)
    settled = _near(part, z, rho, moves, image, precision)
    for _ in range(MOST_ROUNDS):
        if bool(xp.all(settled)):
            break
        pulled = image_d + part.pushed(d)
        bend = row_dots(d, pulled, xp)
        step = xp.where(~settled & (bend > 0), rho / xp.where(bend > 0, bend, 1.0), 0.0)[:, None]
        moves, image, left_over = moves + step * d, image + step * image_d, left_over - step * pulled
        z = part.solve(B, left_over)
        before, rho = rho, row_dots(z, left_over, xp)
        settled = settled | _near(part, z, rho, moves, image, precision)
        on = ratio(rho, before)[:, None]
        d, image_d = z + on * d, left_over + on * image_d
    return moves, settled


def _near(part: Leaving, z: Array, rho: Array, moves: Array, image: Array, precision: float) -> Array:
    """Whether what is left over is short beside the moves, as H_- measures and as they are."""
    xp = namespace(moves)
    most = (precision * part.kept) ** 2
    return (rho <= most * row_dots(moves, image, xp)) & (row_dots(z, z, xp) <= most * row_dots(moves, moves, xp))


def ratio(length: Array, previous: Array) -> Array:
    return length / namespace(length).where(previous > 0, previous, 1.0)


def closed_form(jacobian: Jacobian) -> Callable[..., Array]:
    """A function of blocks, for the squared loss: |B x r| / (1 - h)."""
    if jacobian.folding is not None:
        return _folded_form(jacobian)
    xp = namespace(jacobian.B)
    model, B, inverse = jacobian.model, jacobian.B, jacobian.fit.factor.inverse()
    nothing = EPSILON * (64 + jacobian.fit.condition)

    def block(X: Array, y: Array, weights: Array | None) -> Array:
        part = model.rows(X, y, weights)
        moved = part.r[:, None] * (part.x @ B.T)
        left = 1.0 - part.a * row_dots(part.x, part.x @ inverse, xp)
        length = xp.sqrt(row_dots(moved, moved, xp))
        found = xp.where(left > nothing, length / xp.where(left > nothing, left, 1.0), xp.inf)
        return found if weights is None else xp.where(weights > 0, found, 0.0)

    return block


def _folded_form(jacobian: Jacobian) -> Callable[..., Array]:
    """The same with scales that move: what all blocks share is small and travels."""
    xp = namespace(jacobian.B)
    model, B, metric, fit = jacobian.model, jacobian.fit.factor.inverse(), jacobian.metric, jacobian.fit
    fold, nothing = MovingScales.of(jacobian), EPSILON * (64 + fit.condition)

    def block(X: Array, y: Array, weights: Array | None) -> Array:
        omega = xp.ones_like(y) if weights is None else weights
        part = leave_out(model, B, X, y, omega, y, fold)
        moved = moves_of_squared(part, B, model.theta) @ metric.T
        length = xp.sqrt(row_dots(moved, moved, xp))
        return xp.where((part.left > nothing) & (part.left > UNSURE), length, xp.inf)

    return block
