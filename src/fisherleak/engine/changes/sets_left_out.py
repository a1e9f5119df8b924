r"""Sets of examples that are left out together, all rows of a person say, and what one Hessian tells of the parameters then.

Without the rows S the Hessian is that of the others,

.. math:: H_- = H - \sum_{i \in S} a_i x_i x_i^T = H - C^T C, \qquad
          H_-^{-1} v = H^{-1} v + U^T (I - C U^T)^{-1} U v, \quad U = C H^{-1} ,

with C the rows :math:`\sqrt{a_i}\, x_i`, or as many combinations of them as there are parameters where the set has more rows.
:math:`H_- \ge (1 - \lambda) H` with :math:`\lambda` the largest eigenvalue of :math:`C H^{-1} C^T`, so that bounds that divide
by :math:`1 - h` for one row divide by :math:`1 - \lambda` here. A set of one row is ``left_out``'s.

Sets of similar size are taken together: each is filled up to a power of two with rows that count nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, device, host, like, namespace
from fisherleak.engine.changes.left_out import MovingScales, Slope, Terms
from fisherleak.engine.changes.neighbours import UNSURE
from fisherleak.engine.jacobian import Model

__all__ = ["NOBODY", "Rows", "SetsOut", "filled_up", "leave_sets_out", "members", "roots_of"]

NOBODY = -1
"""In place of a row's number where a set is filled up."""
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class SetsOut:
    """Sets of k rows that are left out, one set at a time; rows that fill a set up have no weight."""

    rows: Array
    """(b, k)."""
    x: Array
    """(b, k, p)."""
    y: Array
    omega: Array
    z: Array
    r: Array
    a: Array
    U: Array
    """C H^-1, (b, q, p)."""
    inner: Array
    """(I - C H^-1 C^T)^-1, (b, q, q)."""
    left: Array
    """1 - lambda; no less than ``UNSURE``."""
    push: Array
    """Diagonal of P, (b, p); (b, 0) where nothing is folded in."""
    kept: Array

    @property
    def folded(self) -> bool:
        return bool(self.push.shape[1] > 0)

    @property
    def weightless(self) -> Array:
        """Sets none of whose rows is in the sum of losses, (b,)."""
        return namespace(self.omega).all(self.omega == 0, axis=1)

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
        along = self.inner @ (self.U @ gradient[:, :, None])
        return gradient @ B + (namespace(gradient).matrix_transpose(self.U) @ along)[:, :, 0]

    def inverse(self, B: Array, k: int) -> Array:
        """H_-^-1 of one."""
        return B + self.U[k, ...].T @ self.inner[k, ...] @ self.U[k, ...]

    def take(self, chosen: Array) -> SetsOut:
        xp = namespace(self.x)
        return SetsOut(*(xp.take(getattr(self, name), chosen, axis=0) for name in self.__dataclass_fields__))


def _along(x: Array, vectors: Array) -> Array:
    """Products x . v of the rows of each set with a vector of its own, (b, k)."""
    return (x @ vectors[:, :, None])[:, :, 0]


def _summed(factors: Array, x: Array) -> Array:
    """The sum over each set of factors (b, k) times rows, (b, p)."""
    return (factors[:, None, :] @ x)[:, 0, :]


def filled_up(sets: Sequence[Rows], reference: Array) -> list[tuple[Array, Array]]:
    """Places of sets and their rows, (m,) for sets of one row and (m, k) for others, k a power of two; beside ``reference``."""
    sizes = np.array([rows.size for rows in sets])
    widths = np.where(sizes > 1, 2 ** np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64), sizes)
    found, xp = [], namespace(reference)
    for width in np.unique(widths).tolist():
        (places,) = np.nonzero(widths == width)
        rows = np.full((places.size, width), NOBODY)
        for k, place in enumerate(places.tolist()):
            rows[k, : sizes[place]] = sets[place]
        found.append((like(places, reference, xp), like(rows[:, 0] if width == 1 else rows, reference, xp)))
    return found


def leave_sets_out(
    model: Model, B: Array, X: Array, y: Array, weights: Array | None, rows: Array, fold: MovingScales | None
) -> SetsOut:
    """Sets of rows, given by their numbers (b, k), and what leaving each out takes away."""
    xp = namespace(B)
    b, k = rows.shape
    flat = xp.reshape(xp.clip(rows, 0, None), (b * k,))
    there = xp.astype(rows >= 0, B.dtype)
    X, y = xp.take(X, flat, axis=0), xp.take(y, flat, axis=0)
    omega = xp.reshape(there, (b * k,)) if weights is None else xp.take(weights, flat) * xp.reshape(there, (b * k,))
    part = model.rows(X, y, omega)
    x = xp.reshape(part.x, (b, k, part.x.shape[1]))
    r, a, omega, y = (xp.reshape(each, (b, k)) for each in (part.r, part.a, omega, y))
    C = roots_of(a, x)
    U = C @ B
    values, vectors = xp.linalg.eigh(C @ xp.matrix_transpose(U))
    kept_curvature = xp.clip(1.0 - values, UNSURE, None)
    inner = (vectors / kept_curvature[:, None, :]) @ xp.matrix_transpose(vectors)
    left = kept_curvature[:, -1]
    push = xp.zeros((b, 0), dtype=B.dtype, device=device(B))
    if fold is not None:
        push = fold.push(xp.reshape(X, (b, k, X.shape[1])), omega, there)
    kept = xp.ones_like(left) if fold is None else fold.kept(push)
    z = xp.reshape(part.x @ model.theta, (b, k))
    return SetsOut(rows, x, y, omega, z, r, a, U, inner, left, push, kept)


def roots_of(a: Array, x: Array) -> Array:
    """C with C^T C the sum of a x x^T over each set, (b, q, p), q the lesser of k and p."""
    xp = namespace(x)
    rows = xp.sqrt(xp.clip(a, 0.0, None))[:, :, None] * x
    if rows.shape[1] <= rows.shape[2]:
        return rows
    values, vectors = xp.linalg.eigh(xp.matrix_transpose(rows) @ rows)
    return xp.sqrt(xp.clip(values, 0.0, None))[:, :, None] * xp.matrix_transpose(vectors)


def members(rows: Array) -> Rows:
    """The rows of one set, without those that fill it up."""
    own = np.atleast_1d(host(rows))
    return np.asarray(own[own >= 0], dtype=np.int64)
