r"""Sets of examples of several outputs that are left out, one set at a time, and what one Hessian tells then.

With r and A the weighted derivatives of the rows that leave, :math:`Z = [I \otimes x_i]`, :math:`U = H^{-1} Z` and
:math:`N = Z^T U`,

.. math:: H_-^{-1} v = H^{-1} v + U (I - A N)^{-1} A\, U^T v ,

A with one block for each row. Where rows are more than features, Z is a root of :math:`\sum_i A_i \otimes x_i x_i^T` and A = I.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fisherleak._support.arrays import Array, like, namespace
from fisherleak.engine.changes.left_out import MovingScales
from fisherleak.engine.changes.sets_left_out import Rows
from fisherleak.engine.fit.risk import Risk, with_constant
from fisherleak.rows import gather

__all__ = ["Around", "OutputsOut"]


@dataclass(frozen=True)
class Around:
    """The minimum that examples are left out of, and what all of them share."""

    risk: Risk
    theta: Array
    B: Array
    """H^-1, (L p, L p)."""
    metric: Array
    """How the noise sees a move of theta."""
    fold: MovingScales | None


@dataclass(frozen=True)
class OutputsOut:
    """Sets of k examples that are left out, one set at a time; k is 1 for examples one by one."""

    around: Around
    x: Array
    """(c, k, p)."""
    y: Array
    """(c k, ...)."""
    omega: Array
    """(c, k); zero for examples that fill a set up."""
    U: Array
    """(c, L p, q), q of k L or L p, whichever is less."""
    inner: Array
    """(I - A N)^-1 A, (c, q, q)."""
    weighted: Array
    """(c, L p): zero, of the shape of moves."""
    push: Array | None
    """(c, L p): the diagonal of P."""
    N: Array
    """(c, q, q)."""

    @classmethod
    def of(cls, around: Around, rows: Rows) -> OutputsOut:
        risk = around.risk
        xp = namespace(around.theta)
        c, k = rows.shape
        there = like((rows >= 0).astype(float), around.theta, xp)
        flat = like(np.maximum(rows, 0).reshape(-1), around.theta, xp)
        X, y, weights = gather((risk.X, risk.y, risk.weights), flat)
        x = xp.reshape(with_constant(X, risk.intercept, risk.centre), (c, k, -1))
        omega = there if weights is None else there * xp.reshape(weights, (c, k))
        U, A, N = _leaving(around, x, y, omega)
        eye = like(np.eye(N.shape[1]), x, xp)[None, :, :]
        inner = xp.linalg.solve(eye * (1.0 + float(np.finfo(float).eps)) - A @ N, A)
        push = None
        if around.fold is not None:
            moved = around.fold.push(xp.reshape(X, (c, k, -1)), omega, there)
            push = xp.tile(moved, (1, risk.size // risk.width))
        return cls(around, x, y, omega, U, inner, xp.zeros_like(U[:, :, 0]), push, N)

    @property
    def weightless(self) -> Array:
        """Sets none of whose rows is in the sum of losses, (c,)."""
        return namespace(self.omega).all(self.omega == 0, axis=1)

    def gradient(self, points: Array) -> Array:
        """That of the sets' own losses at parameters of theirs, (c, L p)."""
        risk = self.around.risk
        xp = namespace(points)
        (c, k, _), L = self.x.shape, risk.size // risk.width
        z = xp.reshape(self.x @ xp.matrix_transpose(xp.reshape(points, (c, L, -1))), (c * k, L))
        r = xp.reshape(risk.reduced_loss.gradient(z, self.y), (c, k, L))
        return xp.reshape(xp.matrix_transpose(r * self.omega[:, :, None]) @ self.x, (c, -1))

    def pushed(self, points: Array) -> Array:
        """P of each example times parameters of its own."""
        return namespace(points).zeros_like(points) if self.push is None else self.push * points

    def solve(self, gradient: Array) -> Array:
        """H_-^-1 gradient."""
        along = namespace(gradient).matrix_transpose(self.U) @ gradient[:, :, None]
        return gradient @ self.around.B + (self.U @ (self.inner @ along))[:, :, 0]

    def reach(self) -> Array:
        r"""How much further H_-^-1 reaches than H^-1, as the noise sees it: (c,).

        The part :math:`U (I - A N)^{-1} A\, U^T v` is no longer than :math:`(\mathrm{tr}\, I^T G I N)^{1/2} |v|_{H^{-1}}`, with
        I the inner matrix and G the Gram matrix of U as it is seen.
        """
        xp = namespace(self.U)
        seen = self.around.metric @ self.U
        G = xp.matrix_transpose(seen) @ seen
        return xp.sqrt(xp.clip(xp.sum((G @ self.inner) * (self.inner @ self.N), axis=(1, 2)), 0.0, None))


def _leaving(around: Around, x: Array, y: Array, omega: Array) -> tuple[Array, Array, Array]:
    """U = H^-1 Z, (c, L p, q), A and N = Z^T U, (c, q, q), with Z A Z^T the curvature of rows (c, k, p) with weights (c, k)."""
    risk = around.risk
    xp = namespace(x)
    (c, k, p), L = x.shape, risk.size // risk.width
    flat = xp.reshape(x, (c * k, p))
    A = risk.reduced_loss.curvature(flat @ xp.reshape(around.theta, (L, p)).T, y)
    A = xp.reshape(A, (c, k, L, L)) * omega[:, :, None, None]
    if k > p:
        whole = _curvature(x, A)
        values, vectors = xp.linalg.eigh(whole)
        Z = vectors * xp.sqrt(xp.clip(values, 0.0, None))[:, None, :]
        U = around.B @ Z
        return U, xp.zeros_like(whole) + like(np.eye(L * p), x, xp)[None, :, :], xp.matrix_transpose(Z) @ U
    blocks = xp.reshape(xp.permute_dims(xp.reshape(around.B, (L * p, L, p)), (2, 0, 1)), (p, -1))
    U = xp.reshape(xp.permute_dims(xp.reshape(flat @ blocks, (c, k, L * p, L)), (0, 2, 1, 3)), (c, L * p, k * L))
    # N of (row, output) by (row, output): x . U of that output's parameters
    N = xp.reshape(x[:, None, :, :] @ xp.reshape(U, (c, L, p, k * L)), (c, L, k, k * L))
    N = xp.reshape(xp.permute_dims(N, (0, 2, 1, 3)), (c, k * L, k * L))
    eye = like(np.eye(k), x, xp)
    spread = A[:, :, :, None, :] * eye[None, :, None, :, None]
    return U, xp.reshape(spread, (c, k * L, k * L)), N


def _curvature(x: Array, A: Array) -> Array:
    """The sum of A (x) x x^T over each set, (c, L p, L p)."""
    xp = namespace(x)
    (c, _, p), L = x.shape, A.shape[2]
    rows = [
        xp.concat([xp.matrix_transpose(x * A[:, :, i, j][:, :, None]) @ x for j in range(L)], axis=2) for i in range(L)
    ]
    return xp.reshape(xp.concat(rows, axis=1), (c, L * p, L * p))
