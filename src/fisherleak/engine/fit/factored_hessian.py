r"""The Hessian of the regularised empirical risk: formed from row blocks, factored once, used often.

.. math:: H = \sum_i \omega_i a_i \tilde x_i \tilde x_i^T + n\, \mathrm{diag}(\lambda, \ldots, \lambda, \lambda_0)

with :math:`\tilde x = (x, 1)` and a last entry on the diagonal, mostly zero, where there is an intercept. H is
scaled to unit diagonal before it is factored, so the units of the columns do not matter and
``condition`` speaks of collinearity alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from fisherleak._support.arrays import Array, cholesky_inverse, device, host, is_numpy, namespace
from fisherleak._support.namespaces import Namespace
from fisherleak.errors import NearSingularWarning, SingularHessianError

REFUSE_ABOVE = 1e12
"""Condition number past which fewer than about four digits of the inverse are left."""
WARN_ABOVE = 1e9
"""Condition number past which fewer than about seven digits of the inverse are left."""


@dataclass(frozen=True)
class Factor:
    """A factored Hessian.

    Parameters
    ----------
    scale : array of shape (p,)
        1 / sqrt(diagonal of H).
    core : array of shape (p, p)
        Inverse of the Hessian scaled to unit diagonal.
    condition : float
        One-norm condition number of the scaled Hessian.
    """

    scale: Array
    core: Array
    condition: float

    @property
    def whole_factor(self) -> Factor | None:
        """Itself: all of the Hessian is factored."""
        return self

    def solve(self, vector: Array) -> Array:
        """H^-1 vector."""
        return self.scale * (self.core @ (self.scale * vector))

    def inverse(self) -> Array:
        """H^-1, of shape (p, p)."""
        return self.scale[:, None] * self.core * self.scale[None, :]


@dataclass(frozen=True)
class Triangle:
    """A Hessian that steps are taken with: its Cholesky factor, a third of the work of an inverse.

    Parameters
    ----------
    scale : array of shape (p,)
        1 / sqrt(diagonal of H).
    lower : array of shape (p, p)
        Cholesky factor of the Hessian scaled to unit diagonal, of NumPy.
    """

    scale: NDArray[np.float64]
    lower: NDArray[np.float64]

    def solve(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """H^-1 vector."""
        (potrs,) = get_lapack_funcs(("potrs",), (self.lower,))
        found, _ = potrs(self.lower, self.scale * vector, lower=1)
        return np.asarray(self.scale * found)

    @property
    def whole_factor(self) -> Factor | None:
        """None: the inverse was not made."""
        return None


@dataclass(frozen=True)
class Wide:
    r"""The parts of a Hessian with fewer rows than parameters, whose inverse lives in the space of the rows.

    .. math:: H = R^T R + D, \qquad R_x D_x^{-1/2} = U S V^T, \qquad
              K^{-1} = D_x^{-1/2} \Big( I - V \frac{S^2}{1 + S^2} V^T \Big) D_x^{-1/2}

    with K the part of the columns: orthonormal V keep the digits of rows along which the inverse is small, as leverages
    near one need them. An intercept borders K: with q its column of R, :math:`k = U^T q`,
    :math:`g = K^{-1} R_x^T q = D_x^{-1/2} V S k / (1 + S^2)` and :math:`s = D_0 + \sum k^2 / (1 + S^2)`, the rest
    of the inverse is :math:`1/s`, :math:`-g/s` and :math:`g g^T / s`. It takes O(n p^2), a factorisation O(p^3).

    Parameters
    ----------
    roots : array of shape (n, p)
        :math:`\sqrt{\omega_i a_i}\, \tilde x_i`, with n below p.
    penalty : array of shape (p,)
        The diagonal D, above zero on columns.
    intercept : bool
        Whether the last parameter is one.
    """

    roots: Array
    penalty: Array
    intercept: bool

    @property
    def whole_factor(self) -> Factor | None:
        """None: the Hessian was not made."""
        return None

    def scaled(self, scale: Array) -> Wide:
        """The same with rows and columns of H times a scale, (p,)."""
        return replace(self, roots=self.roots * scale[None, :], penalty=self.penalty * scale**2)

    def whole(self) -> Array:
        """H, (p, p)."""
        return with_diagonal(self.roots.T @ self.roots, self.penalty)

    @property
    def scale(self) -> Array:
        """1 / sqrt(diagonal of H), (p,)."""
        xp = namespace(self.roots)
        return 1.0 / xp.sqrt(xp.sum(self.roots**2, axis=0) + self.penalty)

    @cached_property
    def _parts(self) -> tuple[Array, Array, Array, Array]:
        """D^-1/2 of the columns, and U, S and V^T of their rows."""
        xp = namespace(self.roots)
        d = self.roots.shape[1] - int(self.intercept)
        over = 1.0 / xp.sqrt(self.penalty[:d])
        U, S, Vt = xp.linalg.svd(self.roots[:, :d] * over[None, :], full_matrices=False)
        # to the last bit orthonormal: what is left of a row is the difference of numbers near one
        Vt = Vt + 0.5 * ((xp.eye(S.shape[0], dtype=S.dtype, device=device(S)) - Vt @ Vt.T) @ Vt)
        return over, U, S, Vt

    @property
    def is_regular(self) -> bool:
        """Whether rounding leaves an inverse."""
        return not self.intercept or bool(self._border[1] > 0)

    @cached_property
    def _border(self) -> tuple[Array, Array]:
        """G and s of the intercept."""
        xp = namespace(self.roots)
        over, U, S, Vt = self._parts
        k = U.T @ self.roots[:, -1]
        return over * (Vt.T @ (S * k / (1.0 + S**2))), self.penalty[-1] + xp.sum(k**2 / (1.0 + S**2))

    def solve(self, vector: Array) -> Array:
        """H^-1 vector, in O(n p), where there is an inverse."""
        xp = namespace(self.roots)
        over, _, S, Vt = self._parts
        scaled = over * vector[: over.shape[0]]
        found = over * (scaled - Vt.T @ (S**2 / (1.0 + S**2) * (Vt @ scaled)))
        if not self.intercept:
            return found
        g, s = self._border
        last = (vector[-1] - xp.sum(g * vector[:-1])) / s
        return xp.concat([found - g * last, xp.reshape(last, (1,))])

    def inverse(self) -> Array | None:
        """H^-1, (p, p), or None where rounding leaves none."""
        xp = namespace(self.roots)
        if not self.is_regular:
            return None
        over, _, S, Vt = self._parts
        root, one = (S / xp.sqrt(1.0 + S**2))[:, None] * Vt, xp.ones_like(over)
        if self.intercept:  # a line of zeros, to which the border is added in place
            root = xp.concat([root, xp.zeros_like(root[:, :1])], axis=1)
            over, one = xp.concat([over, one[:1]]), xp.concat([one, 0.0 * one[:1]])
        K = with_diagonal(-root.T @ root, one)
        K *= over[:, None]
        K *= over[None, :]
        if self.intercept:
            g, s = self._border
            border = xp.concat([g, -xp.ones_like(g[:1])])
            K += border[:, None] * (border / s)[None, :]
        return K


def with_diagonal(matrix: Array, diagonal: Array) -> Array:
    """A matrix that nothing else holds, with a diagonal added: in place where that can be."""
    if is_numpy(matrix) and matrix.flags.writeable and matrix.flags.c_contiguous:
        matrix.reshape(-1)[:: matrix.shape[0] + 1] += diagonal
        return matrix
    xp = namespace(matrix)
    return matrix + xp.eye(matrix.shape[0], dtype=matrix.dtype, device=device(matrix)) * diagonal[None, :]


def gram(rows: Array, weights: Array, xp: Namespace) -> Array:
    """sum_i weights_i rows_i rows_i^T, as one symmetric product; weights are zero or more."""
    scaled = rows * xp.sqrt(weights)[:, None]
    return scaled.T @ scaled


def factorise(hessian: Array | None, names: Sequence[str], wide: Wide | None = None) -> Factor:
    """Factor H, or refuse it with its rank and the columns that are collinear; by its parts where it is of few rows.

    H may be None where its parts are given: it is then made, and kept no longer than it is needed.
    """
    scale, scaled = _scaled(hessian if wide is None or hessian is not None else wide.whole(), names)
    xp = namespace(scaled)
    core = cholesky_inverse(scaled, xp) if wide is None else wide.scaled(scale).inverse()
    if core is None:
        raise SingularHessianError(_diagnosis(host(scaled), names))
    condition = _one_norm(scaled, xp) * _one_norm(core, xp)
    if not condition <= REFUSE_ABOVE:
        raise SingularHessianError(_diagnosis(host(scaled), names))
    return Factor(scale, core, condition)


def triangle_of(hessian: NDArray[np.float64], names: Sequence[str]) -> Triangle:
    """The same for steps alone, of NumPy; the condition number it is refused by is LAPACK's estimate."""
    scale, scaled = _scaled(hessian, names)
    potrf, pocon = get_lapack_funcs(("potrf", "pocon"), (scaled,))
    norm = _one_norm(scaled, namespace(scaled))
    lower, failed = potrf(scaled.T, lower=1, clean=0, overwrite_a=1)  # symmetric, and in LAPACK's order: in place
    if not failed:
        reciprocal, failed = pocon(lower, norm, uplo="L")
        failed = failed or not reciprocal * REFUSE_ABOVE >= 1.0
    if failed:
        raise SingularHessianError(_diagnosis(_scaled(hessian, names)[1], names))
    return Triangle(scale, lower)


def _scaled(hessian: Array, names: Sequence[str]) -> tuple[Array, Array]:
    """1 / sqrt(diagonal of H), and H scaled to unit diagonal; refuses one whose diagonal is not above zero."""
    xp = namespace(hessian)
    diagonal = xp.linalg.diagonal(hessian)
    if not bool(xp.all(diagonal > 0)):
        zero = [names[j] for j, value in enumerate(host(diagonal).tolist()) if not value > 0]
        raise SingularHessianError(
            f"The Hessian is singular: {_listed(zero)} {'has' if len(zero) == 1 else 'have'} no influence on the loss "
            "(all zero, constant beside an intercept, or without weight). Drop it, or add an l2 penalty."
        )
    scale = 1.0 / xp.sqrt(diagonal)
    scaled = scale[:, None] * hessian
    scaled *= scale[None, :]
    return scale, scaled


def warn_if_near_singular(factor: Factor) -> None:
    if factor.condition > WARN_ABOVE:
        digits = int(-np.log10(factor.condition * np.finfo(float).eps))
        warnings.warn(
            f"The Hessian is near-singular (condition number {factor.condition:.1e} after scaling its columns): "
            f"trust about {digits} digits of eta. Drop collinear columns or use a larger l2 penalty.",
            NearSingularWarning,
            stacklevel=3,
        )


def _one_norm(matrix: Array, xp: Namespace) -> float:
    if is_numpy(matrix):  # without another matrix of that size; of a symmetric one the order does not matter
        (lange,) = get_lapack_funcs(("lange",), (matrix,))
        return float(lange("1", matrix.T))
    return float(xp.max(xp.sum(xp.abs(matrix), axis=0)))


def _listed(names: list[str], most: int = 6) -> str:
    quoted = [f"'{name}'" for name in names[:most]]
    if len(names) > most:
        return f"columns {', '.join(quoted)} and {len(names) - most} more"
    if len(quoted) == 1:
        return f"column {quoted[0]}"
    return f"columns {', '.join(quoted[:-1])} and {quoted[-1]}"


def _diagnosis(scaled: NDArray[np.float64], names: Sequence[str]) -> str:
    """Rank by pivoted QR of the scaled Hessian, and the first dependent column as a sum of others."""
    _, R, pivots = scipy.linalg.qr(scaled, pivoting=True)
    sizes = np.abs(np.diag(R))
    rank = int(np.sum(sizes > sizes[0] * 1e-11))
    p = scaled.shape[0]
    message = f"The Hessian is singular or near-singular: its rank is {min(rank, p - 1)} of {p}."
    if rank < p:
        independent = pivots[:rank]
        recipe = np.linalg.lstsq(R[:rank, :rank], R[:rank, rank], rcond=None)[0]
        # a recipe is worth showing only if it is short: otherwise no one column is to blame
        used = np.abs(recipe) > 1e-6 * max(1.0, np.abs(recipe).max(initial=0.0))
        culprits = [names[pivots[rank]]] + [names[j] for j in independent[used]]
        if 1 < len(culprits) <= 12:
            message += f" Collinear: {_listed(culprits, most=12)}."
    return message + " Drop a column or add an l2 penalty."
