"""How noise that was calibrated on the data moves with them: the derivative of its covariance.

Mathematics: 7.3, ``docs/mathematics/noise.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fisherleak.errors import InvalidInputError

__all__ = ["FixedShape", "HessianShape", "LeastLossShape", "Moving", "least_loss_shape"]

Matrix = NDArray[np.float64]

RANK = 1e-7
"""Part of the largest multiplier below which a direction of a row does not decide."""
UNBALANCED = 1e-2
"""Part of the Hessian that the rows that decide may leave unexplained."""
UNEXPLAINED = 0.5
"""Part of it in any one direction: one that no row decides about, however little noise it has, is unexplained as a whole."""
MOST_UNKNOWNS = 6000


class Moving(Protocol):
    """A rule for noise, in coordinates in which its covariance is the identity."""

    @property
    def rows(self) -> tuple[int, ...]:
        """Those that decide."""

    def moved(self, dH: Matrix, dK: Matrix) -> Matrix:
        """DS for each of several changes of the data: (c, p, p) from dH (c, p, p) and dK (c, rows, p, m)."""


@dataclass(frozen=True)
class FixedShape:
    """Noise of a shape that no data move, scaled to the most exposed row: its k = K v."""

    rows: tuple[int, ...]
    k: Matrix
    v: Matrix

    def moved(self, dH: Matrix, dK: Matrix) -> Matrix:
        # section 7.3: dS = 2 dlog s I with k^T dS k = 2 k^T dK v
        return self._scaled(2.0 * np.einsum("p,cpm,m->c", self.k, dK[:, 0], self.v))

    def _scaled(self, factors: Matrix) -> Matrix:
        return np.asarray(factors[:, None, None] * np.eye(self.k.shape[0]) / float(self.k @ self.k))


@dataclass(frozen=True)
class HessianShape(FixedShape):
    """Noise shaped like the inverse Hessian, which is ``level`` times the identity in these coordinates."""

    level: float = 1.0

    def moved(self, dH: Matrix, dK: Matrix) -> Matrix:
        # the same with dS = 2 dlog s I - dH / h, h is ``level``
        turned = dH / self.level
        own = np.einsum("p,cpq,q->c", self.k, turned, self.k)
        return self._scaled(2.0 * np.einsum("p,cpm,m->c", self.k, dK[:, 0], self.v) + own) - turned


@dataclass(frozen=True)
class _Row:
    """A row at the limit: K (p, m), V (m, r), Pi (r, r), and R K^T of section 7.3."""

    K: Matrix
    V: Matrix
    Pi: Matrix
    beyond: Matrix

    @property
    def k(self) -> Matrix:
        return np.asarray(self.K @ self.V)

    def right(self, dK: Matrix) -> tuple[Matrix, Matrix]:
        """What changes of K (c, p, m) bring to both equations: (c, p, p) and (c, r, r)."""
        turned = np.swapaxes(dK @ self.V, 1, 2) @ self.K + self.k.T @ dK  # V^T dG
        # dK P K^T + k Pi V^T dG R K^T, as P = V Pi V^T; then with its transpose, [.]_sym, and V^T dG V
        pull = (dK @ self.V) @ self.Pi @ self.k.T + self.k @ self.Pi @ (turned @ self.beyond)
        return pull + np.swapaxes(pull, 1, 2), turned @ self.V


@dataclass(frozen=True)
class LeastLossShape:
    """Noise of least loss: the rows at the limit and the factored linear system."""

    rows: tuple[int, ...]
    at_limit: tuple[_Row, ...]
    factor: tuple[Matrix, Matrix]
    residual: float

    def moved(self, dH: Matrix, dK: Matrix) -> Matrix:
        top = -dH
        rest: list[Matrix] = []
        for place, row in enumerate(self.at_limit):
            pull, level = row.right(dK[:, place])
            top = top + pull
            rest.append(_packed(level))
        right = np.concatenate([_packed(top), *rest], axis=1)
        p = dH.shape[1]
        solved = scipy.linalg.lu_solve(self.factor, right.T).T
        return _unpacked(solved[:, : p * (p + 1) // 2], p)


def least_loss_shape(rows: Sequence[int], K: Matrix, P: Matrix, H: Matrix) -> LeastLossShape:
    """The linear system of rows with Jacobians K (k, p, m) and multipliers P (k, m, m)."""
    p = H.shape[0]
    at_limit = [_row(each, weight, P) for each, weight in zip(K, P, strict=True)]
    unknowns = p * (p + 1) // 2 + sum(row.V.shape[1] * (row.V.shape[1] + 1) // 2 for row in at_limit)
    if unknowns > MOST_UNKNOWNS:
        raise InvalidInputError(
            f"The second term of least-loss noise with {p} parameters takes a system of {unknowns} unknowns, and "
            f"{MOST_UNKNOWNS} are the most. Take the shape from public rows, or shape='hessian'."
        )
    # at S = I the condition S H S = sum K P K^T is H = sum k Pi k^T
    explained = sum((row.k @ row.Pi @ row.k.T for row in at_limit), start=np.zeros_like(H))
    residual = float(np.linalg.norm(H - explained) / np.linalg.norm(H))
    if residual > UNBALANCED or float(scipy.linalg.eigvalsh(H - explained, H)[-1]) > UNEXPLAINED:
        raise InvalidInputError(
            "The second term of least-loss noise needs rows that decide about every parameter, and here some parameters have "
            "noise for safety alone. Limit more attributes, or use shape='hessian'."
        )
    curved = _curvature(at_limit, H)
    across = [
        _packed(row.k @ _unpacked(basis[None, :], r)[0] @ row.k.T)
        for row in at_limit
        for r in [row.V.shape[1]]
        for basis in np.eye(r * (r + 1) // 2)
    ]
    A = np.stack(across, axis=1)
    # both equations of the last formula of section 7.3, unknowns dS and the X of the rows, packed
    system = np.block([[curved, -A], [A.T, np.zeros((A.shape[1], A.shape[1]))]])
    return LeastLossShape(tuple(rows), tuple(at_limit), scipy.linalg.lu_factor(system), residual)


def _row(K: Matrix, P: Matrix, every: Matrix) -> _Row:
    weights = np.linalg.eigvalsh(P)
    largest = float(np.max(np.trace(every, axis1=1, axis2=2)))
    rank = max(1, int(np.sum(weights > RANK * largest)))
    s, turn = np.linalg.eigh(K.T @ K)
    V, others = turn[:, -rank:], turn[:, :-rank]
    # R = (I - K^T K)^-1 on the directions that are not at the limit, times K^T
    beyond = (others / (1.0 - s[:-rank])) @ others.T @ K.T
    return _Row(K, V, V.T @ P @ V, beyond)


def _curvature(rows: Sequence[_Row], H: Matrix) -> Matrix:
    """The operator on dS, over packed symmetric matrices."""
    p = H.shape[0]
    # dS -> dS H + H dS + sum (N dS T + T dS N), N = k Pi k^T and T = K R K^T
    N = np.stack([row.k @ row.Pi @ row.k.T for row in rows])
    T = np.stack([row.K @ row.beyond for row in rows]).reshape(len(rows), p * p)
    places = np.zeros((p, p), dtype=np.int64)
    i, j = np.triu_indices(p)
    places[i, j] = places[j, i] = np.arange(i.size)
    out = np.zeros((i.size, i.size))
    for a in range(p):
        # the images of e_a e_b^T and its transpose for every b, each of which is half of one basis matrix
        images = np.swapaxes((N[:, :, a].T @ T).reshape(p, p, p), 0, 1).copy()
        images[:, a, :] += H
        images = images + np.swapaxes(images, 1, 2)
        share = np.where(np.arange(p) == a, 1.0, np.sqrt(0.5))
        out[:, places[a]] += (share[:, None] * _packed(images)).T
    return out


def _packed(matrices: Matrix) -> Matrix:
    """Symmetric matrices (..., p, p) as vectors with the same inner product."""
    i, j = np.triu_indices(matrices.shape[-1])
    return np.asarray(matrices[..., i, j] * np.where(i == j, 1.0, np.sqrt(2.0)))


def _unpacked(vectors: Matrix, p: int) -> Matrix:
    i, j = np.triu_indices(p)
    out = np.zeros((*vectors.shape[:-1], p, p))
    out[..., i, j] = out[..., j, i] = vectors * np.where(i == j, 1.0, np.sqrt(0.5))
    return out
