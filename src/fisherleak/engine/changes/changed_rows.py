"""Which rows change, into what: the record of every change of the data, and the Hessian with it.

Mathematics: 4.1, ``docs/mathematics/changes.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host, like, namespace, row_dots
from fisherleak.engine.losses.loss import ReducedLoss

NOBODY = -1
"""In place of a row's number where a set is filled up."""
UNSURE = 1e-6
"""det H' / det H below which the update has lost digits: such changes are fitted again."""
EPSILON = float(np.finfo(np.float64).eps)
Rows = NDArray[np.int64]


def filled_up(sets: Sequence[Rows], reference: Array) -> list[tuple[Array, Array]]:
    """Places of sets and their rows, (m,) for sets of one row and (m, k) for others, k a power of two; beside ``reference``.

    Sets of similar size are taken together: each is filled up with rows that count nothing.
    """
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


def members(rows: Array) -> Rows:
    """The rows of one set, without those that fill it up."""
    own = np.atleast_1d(host(rows))
    return np.asarray(own[own >= 0], dtype=np.int64)


def put_rows(whole: Array, places: NDArray[np.int64], rows: Array) -> Array:
    """An array with some of its rows replaced."""
    xp = namespace(whole)
    order = np.arange(whole.shape[0])
    order[places] = whole.shape[0] + np.arange(places.size)
    return xp.take(xp.concat([whole, rows], axis=0), like(order, whole, xp), axis=0)


@dataclass(frozen=True)
class Records:
    """Arrays that have one entry for each change, or are None."""

    def take(self, chosen: Array) -> Self:
        xp = namespace(chosen)
        own = (getattr(self, name) for name in self.__dataclass_fields__)
        return type(self)(*(each if each is None else xp.take(each, chosen, axis=0) for each in own))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The entries of all parts, one after the other."""
        names = cls.__dataclass_fields__
        xp = namespace(getattr(parts[0], next(iter(names))))
        return cls(*(xp.concat([getattr(each, name) for each in parts], axis=0) for name in names))


@dataclass(frozen=True)
class ChangedRows(Records):
    """Sets of rows that change, one set at a time, with their features, labels and weights before and after."""

    rows: Array
    """(b, k); below zero where a set is filled up."""
    x: Array
    """(b, k, p)."""
    e: Array | None
    """(b, k, p): what is added to x; None where no features change."""
    y: Array
    new_y: Array
    omega: Array
    """(b, k); zero where a set is filled up."""
    new_omega: Array
    """Zero for rows that leave."""
    push: Array | None = None
    """(b, L p): the diagonal of P; None where no scale changes with the rows."""

    @property
    def new_x(self) -> Array:
        return self.x if self.e is None else self.x + self.e

    @property
    def real(self) -> Array:
        """Sets in which anything differs in a row with a weight, or in the penalty: (b,)."""
        xp = namespace(self.x)
        other = xp.any(xp.reshape(self.y != self.new_y, (*self.rows.shape, -1)), axis=2) | (
            self.omega != self.new_omega
        )
        other = other if self.e is None else other | xp.any(self.e != 0, axis=2)
        found = xp.any(other & ((self.omega > 0) | (self.new_omega > 0)), axis=1)
        return found if self.push is None else found | xp.any(self.push != 0, axis=1)

    def pushed(self, points: Array) -> Array:
        """P of each set times parameters of its own, (b, L p)."""
        return namespace(points).zeros_like(points) if self.push is None else self.push * points


@dataclass(frozen=True)
class ChangedHessian(Records):
    """H'^-1 of each change, and the derivatives of its rows at the old parameters."""

    BU: Array
    """(H^-1 U)^T, (b, q, L p)."""
    W: Array
    """(I + K M)^-1 K, (b, q, q)."""
    M: Array
    z: Array
    """(b, k, L) scores of the old rows; ``new_z`` those of the new ones."""
    new_z: Array
    r: Array
    new_r: Array
    """(b, k, L) weighted gradients."""
    A: Array
    A_new: Array
    """(b, k, L, L) weighted curvatures."""
    newton: Array
    """(b, L p), the Newton step."""
    det: Array
    """det H' / det H; the least eigenvalue of H^-1 H' where U is a root of H."""
    held: Array
    """(b,) tr (H^-1 times the Hessian of the old rows' losses); ``new_held`` that of the new ones."""
    new_held: Array

    def solve(self, gradient: Array, B: Array) -> Array:
        """H'^-1 gradient."""
        return _solved(self.BU, self.W, gradient, B)

    def beyond(self, moves: Array, changes: ChangedRows, loss: ReducedLoss) -> Array:
        """What the gradients of the old and the new rows, and P, do beyond H', (b, L p)."""
        old = times_rows(moves, changes.x)
        new = old if changes.e is None else old + times_rows(moves, changes.e)
        before = _beyond(loss, self.z, old, changes.y, changes.omega, self.r, self.A)
        after = _beyond(loss, self.new_z, new, changes.new_y, changes.new_omega, self.new_r, self.A_new)
        # O(D) of section 4.2: x + e is the new row, so that x meets the difference and e what is new
        return _spread(changes, after - before, after) + changes.pushed(moves)

    def own_gradient(self, moves: Array, changes: ChangedRows, loss: ReducedLoss, theta: Array) -> Array:
        """The gradient of the new rows less that of the old ones, with P, at parameters that moved, (b, L p)."""
        old = times_rows(moves, changes.x)
        new = old if changes.e is None else old + times_rows(moves, changes.e)
        before = changes.omega[:, :, None] * _by_row(loss.gradient, self.z + old, changes.y)
        after = changes.new_omega[:, :, None] * _by_row(loss.gradient, self.new_z + new, changes.new_y)
        return _spread(changes, after - before, after) + changes.pushed(theta[None, :] + moves)


def _by_row(derivative: Any, z: Array, y: Array) -> Array:
    """A derivative of the loss for scores (b, k, L) and labels (b, k, ...), of those first axes."""
    xp = namespace(z)
    b, k, L = z.shape
    found = derivative(xp.reshape(z, (b * k, L)), xp.reshape(y, (b * k, *y.shape[2:])))
    return xp.reshape(found, (b, k, *found.shape[1:]))


def _spread(changes: ChangedRows, by_x: Array, by_e: Array) -> Array:
    """The sum over each set of factors (b, k, L) times x, and others times e: (b, L p)."""
    xp = namespace(by_x)
    if by_x.shape[1] == 1:
        whole = by_x[:, 0, :, None] * changes.x
        whole = whole if changes.e is None else whole + by_e[:, 0, :, None] * changes.e
    else:
        whole = xp.matrix_transpose(by_x) @ changes.x
        whole = whole if changes.e is None else whole + xp.matrix_transpose(by_e) @ changes.e
    return xp.reshape(whole, (whole.shape[0], -1))


def _beyond(loss: ReducedLoss, z: Array, v: Array, y: Array, omega: Array, r: Array, A: Array) -> Array:
    """Weighted r(z + v) - r - A v, (b, k, L)."""
    return omega[:, :, None] * _by_row(loss.gradient, z + v, y) - r - (A @ v[..., None])[..., 0]


def times_rows(vectors: Array, x: Array) -> Array:
    """Scores V x of parameters vec V (b, L p) at rows (b, k, p) of their own, (b, k, L)."""
    xp = namespace(vectors)
    count, k, p = x.shape
    if k == 1 and vectors.shape[1] == p:
        return row_dots(vectors, x[:, 0, :], xp)[:, None, None]
    return x @ xp.matrix_transpose(xp.reshape(vectors, (count, -1, p)))


def after_rows(B: Array, x: Array, outputs: int) -> Array:
    """(I (x) x)^T B of rows x (b, p) and B (L p, q): (b, L, q)."""
    if outputs == 1:
        return (x @ B)[:, None, :]
    xp = namespace(B)
    # by outputs, so that B, which is far larger than what comes of it, is not copied
    found = x[None, :, :] @ xp.reshape(B, (outputs, int(x.shape[1]), int(B.shape[1])))
    return xp.permute_dims(found, (1, 0, 2))


def middle(A: Array, A_new: Array, features: bool) -> Array:
    """K from curvatures (b, k, L, L): one block for each row, (b, k L, k L), and twice as wide where features change."""
    xp = namespace(A)
    b, k, L, _ = A.shape

    def blocks(each: Array) -> Array:
        if k == 1:
            return each[:, 0, :, :]
        eye = like(np.eye(k), each, xp)
        return xp.reshape(each[:, :, :, None, :] * eye[None, :, None, :, None], (b, k * L, k * L))

    # K of the first formula of section 4.1, ((A' - A, A'), (A', A')); A' - A alone where no features change
    apart = blocks(A_new - A)
    if not features:
        return apart
    new = blocks(A_new)
    return xp.concat([xp.concat([apart, new], axis=2), xp.concat([new, new], axis=2)], axis=1)


def changed_hessian(
    changes: ChangedRows, theta: Array, B: Array, roots: Callable[[], Array], loss: ReducedLoss
) -> ChangedHessian:
    """The Hessians with each change at parameters vec V (L p,), with B = H^-1 = R R^T and ``roots`` making R."""
    xp = namespace(theta)
    L, (_, k, p), features = loss.outputs, changes.x.shape, changes.e is not None
    z = _scores(theta, changes.x, L)
    step = xp.zeros_like(z) if changes.e is None else _scores(theta, changes.e, L)
    y, new_y, omega, new_omega = changes.y, changes.new_y, changes.omega, changes.new_omega
    r, new_r = (
        omega[..., None] * _by_row(loss.gradient, z, y),
        new_omega[..., None] * _by_row(loss.gradient, z + step, new_y),
    )
    A = omega[..., None, None] * _by_row(loss.curvature, z, y)
    A_new = new_omega[..., None, None] * _by_row(loss.curvature, z + step, new_y)
    if k > 1 and k * L * (1 + features) > L * p:
        # more columns than parameters: U = R^-T is a root of H, so that (H^-1 U)^T = R^T, M = I and K = R^T (H' - H) R
        # (section 4.1)
        old, new = _curvature(changes.x, A), _curvature(changes.new_x, A_new)
        held, new_held = (xp.sum(each * B[None, :, :], axis=(1, 2)) for each in (old, new))
        R = roots()
        K = R.T @ (new - old) @ R
        K = 0.5 * (K + xp.matrix_transpose(K))
        eye = like(np.eye(L * p), theta, xp)[None, :, :]
        BU, M = xp.broadcast_to(R.T[None, ...], K.shape), xp.broadcast_to(eye, K.shape)
        system, det = eye + K, 1.0 + xp.linalg.eigvalsh(K)[:, 0]
    else:
        BU, M = _low_rank(changes, B, L)
        held, new_held = _held(A, A_new, M, features)
        K, eye = middle(A, A_new, features), like(np.eye(int(M.shape[1])), theta, xp)[None, :, :]
        # W = (I + K M)^-1 K, and det (I + K M) = det H' / det H
        system = eye + K @ M
        det = xp.linalg.det(system)
    W = xp.linalg.solve(xp.where((det != 0)[:, None, None], system, eye), K)
    # g' of section 4.1, at the old parameters, and the Newton step -H'^-1 g'
    pull = _spread(changes, _difference(changes, loss, r, new_r, step), new_r)
    pull = pull + changes.pushed(xp.broadcast_to(theta[None, :], pull.shape))
    newton = -_solved(BU, W, pull, B)
    return ChangedHessian(BU, W, M, z, z + step, r, new_r, A, A_new, newton, det, held, new_held)


def _scores(theta: Array, x: Array, L: int) -> Array:
    """Scores (b, k, L) of rows at one vec V."""
    xp = namespace(x)
    b, k, p = x.shape
    return xp.reshape(xp.reshape(x, (b * k, p)) @ xp.reshape(theta, (L, p)).T, (b, k, L))


def _solved(BU: Array, W: Array, gradient: Array, B: Array) -> Array:
    """H'^-1 gradient = B g - B U W U^T B g."""
    along = W @ (BU @ gradient[:, :, None])
    return gradient @ B - (namespace(gradient).matrix_transpose(BU) @ along)[:, :, 0]


def _low_rank(changes: ChangedRows, B: Array, L: int) -> tuple[Array, Array]:
    """(H^-1 U)^T, (b, q, L p), and M = U^T H^-1 U."""
    xp = namespace(B)
    u = changes.x if changes.e is None else xp.concat([changes.x, changes.e], axis=1)
    b, width, p = u.shape
    BU = xp.reshape(after_rows(B, xp.reshape(u, (b * width, p)), L), (b, width * L, -1))
    # row (i, l), column (j, m) of M: the m-th part of H^-1 (e_l (x) u_i) times u_j
    M = xp.reshape(xp.reshape(BU, (b, width * L * L, p)) @ xp.matrix_transpose(u), (b, width * L, L, width))
    return BU, xp.reshape(xp.permute_dims(M, (0, 1, 3, 2)), (b, width * L, width * L))


def _held(A: Array, A_new: Array, M: Array, features: bool) -> tuple[Array, Array]:
    """The sums of tr A N over the old and over the new rows, with N the blocks of x^T H^-1 x: (b,) each."""
    xp = namespace(M)
    size, none = A.shape[1] * A.shape[2], xp.zeros_like(A)
    old = M[:, :size, :size]
    new = old + M[:, :size, size:] + M[:, size:, :size] + M[:, size:, size:] if features else old
    by_old, by_new = middle(none, A, False) * old, middle(none, A_new, False) * new
    return xp.sum(by_old, axis=(1, 2)), xp.sum(by_new, axis=(1, 2))


def _curvature(x: Array, A: Array) -> Array:
    """The sum of A (x) x x^T over each set, (b, L p, L p)."""
    xp = namespace(x)
    L = A.shape[2]
    rows = [
        xp.concat([xp.matrix_transpose(x * A[:, :, i, j][:, :, None]) @ x for j in range(L)], axis=2) for i in range(L)
    ]
    return xp.concat(rows, axis=1)


def _difference(changes: ChangedRows, loss: ReducedLoss, r: Array, new_r: Array, step: Array) -> Array:
    """R' - r; for the squared loss, and weights that stay, without the digits that cancel."""
    if not loss.unit_curvature:
        return new_r - r
    xp = namespace(r)
    zero = xp.zeros_like(step)
    # with a = 1: r' - r is e . theta and what the labels differ by in r
    by_label = _by_row(loss.gradient, zero, changes.new_y) - _by_row(loss.gradient, zero, changes.y)
    exact = changes.omega[:, :, None] * (step + by_label)
    return xp.where((changes.omega == changes.new_omega)[:, :, None], exact, new_r - r)
