r"""Rows that are replaced, one at a time, and the Hessian with each of them.

Row x with label y and weight omega becomes x + e, y', omega'. With L outputs, :math:`U = [I \otimes x, I \otimes e]` and A and
A' the weighted curvatures of the old and the new row at the old parameters, the Hessian changes by rank 2 L,

.. math::

    H' = H + U K U^T, \quad K = \begin{pmatrix} A' - A & A' \\ A' & A' \end{pmatrix}, \qquad
    g' = U \begin{pmatrix} r' - r \\ r' \end{pmatrix}

so that one Newton step moves the parameters by :math:`-H^{-1} U (I + K M)^{-1} c` with :math:`M = U^T H^{-1} U`: to the new
minimum for the squared loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fisherleak._support.arrays import Array, like, namespace, row_dots
from fisherleak.engine.losses.loss import ReducedLoss

__all__ = ["ChangedHessian", "RowChanges", "after_rows", "changed_hessian", "gradient_difference", "times_rows"]


@dataclass(frozen=True)
class RowChanges:
    """Rows x (b, p) that become x + e, with their labels and weights before and after."""

    rows: Array
    x: Array
    e: Array
    y: Array
    new_y: Array
    omega: Array
    new_omega: Array

    def take(self, chosen: Array) -> RowChanges:
        return RowChanges(*_taken(self, chosen))


@dataclass(frozen=True)
class ChangedHessian:
    """H'^-1 of each change, and the derivatives of its rows."""

    BU: Array
    """H^-1 U, (b, 2 L, L p)."""
    W: Array
    """(I + K M)^-1 K, (b, 2 L, 2 L)."""
    M: Array
    z: Array
    """(b, L) scores of the old row; ``new_z`` those of the new one."""
    new_z: Array
    r: Array
    new_r: Array
    """(b, L) weighted gradients."""
    A: Array
    A_new: Array
    newton: Array
    """(b, L p), the Newton step."""
    det: Array
    """det H' / det H."""

    def take(self, chosen: Array) -> ChangedHessian:
        return ChangedHessian(*_taken(self, chosen))

    def solve(self, gradient: Array, changes: RowChanges, B: Array) -> Array:
        """H'^-1 gradient = B g - B U W U^T B g."""
        xp = namespace(gradient)
        Bg = gradient @ B
        on = xp.concat([times_rows(Bg, changes.x), times_rows(Bg, changes.e)], axis=1)
        along = (self.W @ on[:, :, None])[:, :, 0]
        return Bg - xp.sum(along[:, :, None] * self.BU, axis=1)

    def own(self, moves: Array, changes: RowChanges, loss: ReducedLoss) -> Array:
        """What the gradients of the old and the new row do beyond their curvature, (b, L p)."""
        xp = namespace(moves)
        old, more = times_rows(moves, changes.x), times_rows(moves, changes.e)
        before = _beyond(loss, self.z, old, changes.y, changes.omega, self.r, self.A)
        after = _beyond(loss, self.new_z, old + more, changes.new_y, changes.new_omega, self.new_r, self.A_new)
        whole = (after - before)[:, :, None] * changes.x[:, None, :] + after[:, :, None] * changes.e[:, None, :]
        return xp.reshape(whole, moves.shape)

    def own_gradient(self, moves: Array, changes: RowChanges, loss: ReducedLoss) -> Array:
        """The gradient of the new row less that of the old one, at parameters that moved, (b, L p)."""
        xp = namespace(moves)
        old, more = times_rows(moves, changes.x), times_rows(moves, changes.e)
        before = changes.omega[:, None] * loss.gradient(self.z + old, changes.y)
        after = changes.new_omega[:, None] * loss.gradient(self.new_z + old + more, changes.new_y)
        whole = (after - before)[:, :, None] * changes.x[:, None, :] + after[:, :, None] * changes.e[:, None, :]
        return xp.reshape(whole, moves.shape)


def _taken(record: RowChanges | ChangedHessian, chosen: Array) -> list[Array]:
    xp = namespace(chosen)
    return [xp.take(getattr(record, name), chosen, axis=0) for name in record.__dataclass_fields__]


def _beyond(loss: ReducedLoss, z: Array, v: Array, y: Array, omega: Array, r: Array, A: Array) -> Array:
    """Weighted r(z + v) - r - A v, (b, L)."""
    return omega[:, None] * loss.gradient(z + v, y) - r - (A @ v[:, :, None])[:, :, 0]


def times_rows(vectors: Array, x: Array) -> Array:
    """Scores V x of parameters vec V (b, L p) at rows of their own, (b, L)."""
    xp = namespace(vectors)
    count, p = x.shape
    if vectors.shape[1] == p:
        return row_dots(vectors, x, xp)[:, None]
    return (xp.reshape(vectors, (count, -1, p)) @ x[:, :, None])[:, :, 0]


def after_rows(B: Array, x: Array, outputs: int) -> Array:
    """(I (x) x)^T B of rows x (b, p) and B (L p, q): (b, L, q)."""
    if outputs == 1:
        return (x @ B)[:, None, :]
    xp = namespace(B)
    p, q = int(x.shape[1]), int(B.shape[1])
    blocks = xp.permute_dims(xp.reshape(B, (outputs, p, q)), (1, 0, 2))
    return xp.reshape(x @ xp.reshape(blocks, (p, outputs * q)), (x.shape[0], outputs, q))


def changed_hessian(changes: RowChanges, theta: Array, B: Array, loss: ReducedLoss) -> ChangedHessian:
    """The Hessians with each change, at parameters vec V (L p,)."""
    xp = namespace(theta)
    L = loss.outputs
    V = xp.reshape(theta, (L, -1))
    BU = xp.concat([after_rows(B, changes.x, L), after_rows(B, changes.e, L)], axis=1)
    U = xp.stack([changes.x, changes.e], axis=1)  # (b, 2, p)
    split = xp.reshape(BU, (BU.shape[0], 2 * L * L, -1))
    # row (i, k), column (j, l) of M: the l-th part of H^-1 (e_k (x) u_i) times u_j
    M = xp.reshape(split @ xp.matrix_transpose(U), (BU.shape[0], 2 * L, L, 2))
    M = xp.reshape(xp.permute_dims(M, (0, 1, 3, 2)), (BU.shape[0], 2 * L, 2 * L))
    z, step = changes.x @ V.T, changes.e @ V.T
    omega, new_omega = changes.omega[:, None], changes.new_omega[:, None]
    r, new_r = omega * loss.gradient(z, changes.y), new_omega * loss.gradient(z + step, changes.new_y)
    A = omega[:, :, None] * loss.curvature(z, changes.y)
    A_new = new_omega[:, :, None] * loss.curvature(z + step, changes.new_y)
    K = xp.concat([xp.concat([A_new - A, A_new], axis=2), xp.concat([A_new, A_new], axis=2)], axis=1)
    system = like(np.eye(2 * L), theta, xp)[None, :, :] + K @ M
    det = xp.linalg.det(system)
    sure = xp.where((det != 0)[:, None, None], system, like(np.eye(2 * L), theta, xp)[None, :, :])
    c = xp.concat([gradient_difference(changes, loss, r, new_r, step), new_r], axis=1)
    found = xp.linalg.solve(sure, xp.concat([K, c[:, :, None]], axis=2))
    W, along = found[:, :, :-1], found[:, :, -1]
    newton = -xp.sum(along[:, :, None] * BU, axis=1)
    return ChangedHessian(BU, W, M, z, z + step, r, new_r, A, A_new, newton, det)


def gradient_difference(changes: RowChanges, loss: ReducedLoss, r: Array, new_r: Array, step: Array) -> Array:
    """R' - r; for the squared loss, and weights that stay, without the digits that cancel."""
    if not loss.quadratic:
        return new_r - r
    xp = namespace(r)
    zero = xp.zeros_like(step)
    by_label = loss.gradient(zero, changes.new_y) - loss.gradient(zero, changes.y)
    exact = changes.omega[:, None] * (step + by_label)
    return xp.where((changes.omega == changes.new_omega)[:, None], exact, new_r - r)
