"""Rows of one output that are left out, one by one or in sets, and what the parameters do then as far as one Hessian tells.

Mathematics: 4.6, ``docs/mathematics/changes.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fisherleak._support.arrays import Array, device, host, namespace, row_dots
from fisherleak.engine.changes.changed_rows import EPSILON, UNSURE
from fisherleak.engine.changes.starting_fit import ROUNDING, MovingScales
from fisherleak.engine.jacobian import Jacobian, Model

__all__ = [
    "Removed",
    "Slope",
    "Terms",
    "closed_form",
    "moves_of_squared",
    "ratio",
    "removed",
]

MOST_ROUNDS = 24
"""Rounds with P at most before an example's own system is solved."""
SLOW = 0.7
"""A step that is longer than this part of the one before it leads nowhere soon."""


Slope = Callable[[Array, Array], Array]
"""A derivative of the loss by scores and labels."""
Terms = Callable[[Array, Array, Array], Array]
"""A function of scores, their moves and labels."""


@dataclass(frozen=True)
class Removed:
    """Sets of k rows that are left out, one set at a time; k is 1 for rows one by one."""

    rows: Array
    """(b, k); below zero where a set is filled up."""
    x: Array
    """(b, k, p)."""
    y: Array
    omega: Array
    """(b, k); zero where a set is filled up."""
    z: Array
    r: Array
    U: Array
    """C H^-1, (b, q, p); x H^-1 of one row."""
    inner: Array
    """(I - C H^-1 C^T)^-1, (b, q, q); a / (1 - h) of one row."""
    left: Array
    """1 - lambda: H_- - left H is not negative; no less than ``UNSURE``."""
    push: Array
    """Diagonal of P, (b, p); (b, 0) where nothing is folded in."""
    kept: Array
    """The least part of a squared scale that is left without the rows, at most 1: :math:`H_- + P` is no less of H_-."""

    @property
    def folded(self) -> bool:
        return bool(self.push.shape[1] > 0)

    @property
    def weightless(self) -> Array:
        """Sets none of whose rows is in the sum of losses, (b,)."""
        still = self.omega == 0
        return still[:, 0] if still.shape[1] == 1 else namespace(still).all(still, axis=1)

    def pushed(self, vectors: Array) -> Array:
        """P times vectors, one for each set or one for all."""
        return self.push * vectors if self.folded else namespace(vectors).zeros_like(vectors)

    def pull(self, theta: Array) -> Array:
        """The sum of r x over the set, less P w: (b, p)."""
        return _summed(self.r, self.x) - self.pushed(theta[None, :])

    def own_terms(self, moves: Array, terms: Terms) -> Array:
        """The sum of omega t x, (b, p), with t by ``terms(z, x . D, y)``."""
        return _summed(self.omega * terms(self.z, _along(self.x, moves), self.y), self.x)

    def own_gradient(self, theta: Array, r: Slope) -> Array:
        """That of the losses of the set, (b, p), with r by ``r(z, y)``, at parameters of its own."""
        return _summed(self.omega * r(_along(self.x, theta), self.y), self.x)

    def solve(self, B: Array, gradient: Array) -> Array:
        """H_-^-1 gradient."""
        # H_-^-1 v = H^-1 v + U^T (I - C U^T)^-1 U v (section 4.6); of one row U is u and the factor a / (1 - h)
        along = _along(self.U, gradient)
        along = self.inner[:, 0, :] * along if along.shape[1] == 1 else (self.inner @ along[:, :, None])[:, :, 0]
        return gradient @ B + _summed(along, self.U)

    def inverse(self, B: Array, k: int) -> Array:
        """H_-^-1 of one."""
        return B + self.U[k, ...].T @ self.inner[k, ...] @ self.U[k, ...]

    def take(self, chosen: Array) -> Removed:
        xp = namespace(self.x)
        return Removed(*(xp.take(getattr(self, name), chosen, axis=0) for name in self.__dataclass_fields__))


def _along(x: Array, vectors: Array) -> Array:
    """Products x . v of the rows of each set with a vector of its own, (b, k)."""
    if x.shape[1] == 1:
        return row_dots(x[:, 0, :], vectors, namespace(x))[:, None]
    return (x @ vectors[:, :, None])[:, :, 0]


def _summed(factors: Array, x: Array) -> Array:
    """The sum over each set of factors (b, k) times rows, (b, p)."""
    return factors * x[:, 0, :] if x.shape[1] == 1 else (factors[:, None, :] @ x)[:, 0, :]


def removed(
    model: Model, B: Array, X: Array, y: Array, weights: Array | None, rows: Array, fold: MovingScales | None
) -> Removed:
    """What leaving sets of rows out takes away: X, y and weights are those of the rows (b, k), one after the other."""
    xp = namespace(B)
    b, k = rows.shape
    there = None if k == 1 else xp.astype(rows >= 0, B.dtype)
    omega = xp.ones_like(y) if weights is None else weights
    omega = omega if there is None else omega * xp.reshape(there, (b * k,))
    part = model.rows(X, y, omega)
    x = xp.reshape(part.x, (b, k, part.x.shape[1]))
    z, r, a, omega, y = (xp.reshape(each, (b, k)) for each in (part.x @ model.theta, part.r, part.a, omega, y))
    if k == 1:
        U = (part.x @ B)[:, None, :]
        # 1 - h (section 4.6)
        left = 1.0 - a[:, 0] * row_dots(part.x, U[:, 0, :], xp)
        left = xp.where(left > UNSURE, left, UNSURE)
        inner = (a[:, 0] / left)[:, None, None]
    else:
        C = _roots_of(a, x)
        U = C @ B
        # C U^T = C H^-1 C^T, whose largest eigenvalue is lambda of section 4.6
        values, vectors = xp.linalg.eigh(C @ xp.matrix_transpose(U))
        bent = xp.clip(1.0 - values, UNSURE, None)
        inner, left = (vectors / bent[:, None, :]) @ xp.matrix_transpose(vectors), bent[:, -1]
    push = xp.zeros((b, 0), dtype=B.dtype, device=device(B))
    if fold is not None:
        push = fold.push(xp.reshape(X, (b, k, X.shape[1])), omega, there)
    kept = xp.ones_like(left) if fold is None else fold.kept(push)
    return Removed(rows, x, y, omega, z, r, U, inner, left, push, kept)


def _roots_of(a: Array, x: Array) -> Array:
    """C with C^T C the sum of a x x^T over each set, (b, q, p), q the lesser of k and p."""
    xp = namespace(x)
    rows = xp.sqrt(xp.clip(a, 0.0, None))[:, :, None] * x
    if rows.shape[1] <= rows.shape[2]:
        return rows
    # as many combinations of the rows as there are parameters, with the same C^T C
    values, vectors = xp.linalg.eigh(xp.matrix_transpose(rows) @ rows)
    return xp.sqrt(xp.clip(values, 0.0, None))[:, :, None] * xp.matrix_transpose(vectors)


def moves_of_squared(part: Removed, B: Array, theta: Array, precision: float = ROUNDING) -> Array:
    """Moves for the squared loss: by rounds, and where these are slow by a solution for each example."""
    xp = namespace(B)
    pull = part.pull(theta)
    newton = part.solve(B, pull)
    if not part.folded:
        return newton
    moves, settled = _conjugate(part, B, newton, pull, precision)
    for k in np.flatnonzero(host(~settled)).tolist():
        # (I + H_-^-1 P) D = H_-^-1 (r x - P w), the end of section 4.6
        system = xp.eye(B.shape[0], dtype=B.dtype, device=device(B)) + part.inverse(B, k) * part.push[k, None, :]
        moves[k, :] = xp.linalg.solve(system, newton[k, :, None])[:, 0]
    return moves


def _conjugate(part: Removed, B: Array, newton: Array, pull: Array, precision: float) -> tuple[Array, Array]:
    r"""Moves by conjugate gradients from H_-^-1 pull, and which are near enough.

    Every direction d comes with :math:`H_- d`, for what is left over, g, and :math:`z = H_-^{-1} g` are both known. The error
    is :math:`(H_- + P)^{-1} g`, which in the norm of H_- is no longer than z over the part of the scales that is kept.
    """
    xp = namespace(newton)
    moves, image = newton, pull
    # D starts at H_-^-1 (r x - P w): what is left of (H_- + P) D = r x - P w is -P D; `image` is H_- D
    left_over = -part.pushed(moves)
    z = part.solve(B, left_over)
    d, image_d, rho = z, left_over, row_dots(z, left_over, xp)
    settled = _near(part, z, rho, moves, image, precision)
    for _ in range(MOST_ROUNDS):
        if bool(xp.all(settled)):
            break
        pulled = image_d + part.pushed(d)
        # d . (H_- + P) d, and the step z . g over it
        bend = row_dots(d, pulled, xp)
        step = xp.where(~settled & (bend > 0), rho / xp.where(bend > 0, bend, 1.0), 0.0)[:, None]
        moves, image, left_over = moves + step * d, image + step * image_d, left_over - step * pulled
        z = part.solve(B, left_over)
        before, rho = rho, row_dots(z, left_over, xp)
        settled = settled | _near(part, z, rho, moves, image, precision)
        on = ratio(rho, before)[:, None]
        d, image_d = z + on * d, left_over + on * image_d
    return moves, settled


def _near(part: Removed, z: Array, rho: Array, moves: Array, image: Array, precision: float) -> Array:
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
        part = removed(model, B, X, y, omega, xp.zeros_like(y)[:, None], fold)
        moved = moves_of_squared(part, B, model.theta) @ metric.T
        length = xp.sqrt(row_dots(moved, moved, xp))
        return xp.where((part.left > nothing) & (part.left > UNSURE), length, xp.inf)

    return block
