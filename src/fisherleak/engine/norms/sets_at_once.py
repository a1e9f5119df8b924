"""Norms of several sets of rows of several outputs by Lanczos' method, all sets together, where parameters are many.

To form the matrix of a set takes as much memory as the Hessian. A step takes a product with B for all sets at once, and one
with the rows of each: see :math:`Z_i` in section 2.6, ``docs/mathematics/norms.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fisherleak._support.arrays import Array, host, is_numpy
from fisherleak._support.namespaces import Vector
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute, gaps_of
from fisherleak.engine.norms.largest_eigenvalues import LARGE, WANTED, top_by_products
from fisherleak.rows import gather

MOST_VALUES = 2**24
"""Numbers of all rows in all sets that are held at once."""


def squares_of_sets(
    J: Jacobian, attributes: Sequence[Attribute], label: bool
) -> Callable[[Sequence[Array]], list[float | None]] | None:
    """A function from sets of rows to their squared norms, None where one did not settle; None where there is none to gain.

    Of attributes that move all rows alike, but for those that lack a value.
    """
    B = J.B
    if not (is_numpy(B) and is_numpy(J.X)) or min(B.shape) < LARGE:
        return None
    E = J.map(attributes)
    held = 2 * J.outputs**2 + 4 * J.width + 2 * E.width

    def squares(sets: Sequence[Array]) -> list[float | None]:
        if sum(int(rows.shape[0]) for rows in sets) * held > MOST_VALUES:
            return [None] * len(sets)
        every = [_Set.of(J, attributes, label, rows) for rows in sets]

        def product(state: tuple[Array, ...], U: Array) -> Array:
            inner = np.reshape(U @ B, (-1, J.outputs, J.width))
            chosen = state[0][:, 0].astype(np.int64).tolist()
            back = [every[k].product(V) for k, V in zip(chosen, inner, strict=True)]
            return np.asarray(np.reshape(np.stack(back), (len(back), -1)) @ B.T)

        places = np.arange(len(sets), dtype=np.float64)[:, None]
        found, errors = top_by_products(product, (places,), int(B.shape[0]), compiled=False)
        return [float(x) if off <= WANTED else None for x, off in zip(host(found), host(errors), strict=True)]

    return squares


@dataclass(frozen=True)
class _Set:
    """The rows of one set: products with the sum of Z_i Z_i^T, Z_i = (r + V g) (x) E + F (x) x and omega C (x) x."""

    x: Vector
    r: Vector
    A: Vector
    omega: Vector
    g: Vector | None
    """What a change of each feature does through its scale, (b, p)."""
    there: Vector | None
    """Where each change acts, (b, m)."""
    E: Vector
    """(p, m)"""
    V: Vector
    """(L, p): how scores move with the features."""
    by_label: Vector | None

    @classmethod
    def of(cls, J: Jacobian, attributes: Sequence[Attribute], label: bool, rows: Array) -> _Set:
        X, y, weights = gather(J.arrays, rows)
        assert X is not None
        assert y is not None
        part, moves, there = J.model.scores(X, y, weights), J.moves(), gaps_of(attributes, J.B)
        E = np.asarray(J.map(attributes).after(np.eye(J.width)))
        return cls(
            x=np.asarray(part.x),
            r=np.asarray(part.r),
            A=np.asarray(part.A),
            omega=np.asarray(part.omega),
            g=None if moves is None or not E.shape[1] else np.asarray(moves(X, weights)),
            there=None if there is None else np.asarray(there(X)),
            E=E,
            V=np.asarray(J.slopes),
            by_label=np.asarray(J.by_label) if label else None,
        )

    @cached_property
    def bends(self) -> Vector:
        """V E, (L, m)."""
        return np.asarray(self.V @ self.E)

    def product(self, U: Vector) -> Vector:
        """Of parameters (L, p)."""
        z = self.x @ U.T
        bent = np.zeros_like(z)
        back = np.zeros_like(U)
        if self.E.shape[1]:
            Az = (self.A @ z[:, :, None])[:, :, 0]
            # Z_i^T u: by F, by r and by what scales do
            met = Az @ self.bends + self.r @ (U @ self.E)
            if self.g is not None:
                met = met + (self.g * (self.V * U).sum(axis=0)) @ self.E
            if self.there is not None:
                met = met * self.there
            bent = (self.A @ (met @ self.bends.T)[:, :, None])[:, :, 0]
            along = met @ self.E.T
            back = self.r.T @ along
            if self.g is not None:
                back = back + self.V * (self.g * along).sum(axis=0)
        if self.by_label is not None:
            bent = bent + self.omega[:, None] ** 2 * ((z @ self.by_label) @ self.by_label.T)
        return np.asarray(back + bent.T @ self.x)
