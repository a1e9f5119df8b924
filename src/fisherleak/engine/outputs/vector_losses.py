r"""Losses of several linear predictors, one record each.

A loss :math:`\ell(z, y)` of K predictors :math:`z = W x` enters the Jacobian through a gradient, a curvature and what the label
does to the gradient, written in the frame Q of ``outputs``:

.. math:: r = Q^T \nabla_z \ell, \qquad A = Q^T \nabla_z^2 \ell\, Q, \qquad C = Q^T \partial \nabla_z \ell / \partial y .

For classes, labels are one-hot vectors that move in the space of changes that keep their sum, so that changing a class is a
move of length :math:`\sqrt 2`. Blocks of rows have shapes (b, K) for scores, (b, L) for r, (b, L, L) for A; C (L, q) is that of
all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, like, namespace
from fisherleak.engine.encodings import tangent_basis
from fisherleak.engine.losses import OF_CLASSES, Labels

__all__ = ["CLASS_TARGETS", "NAMED", "ONE_AGAINST_REST", "SEVERAL_NUMBERS", "SOFTMAX", "VectorLoss", "own_class"]

Matrix = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class VectorLoss:
    """A convex, twice differentiable loss of (several linear predictors, label).

    Parameters
    ----------
    name : str
    value, gradient : callable
        (scores (b, K), labels) -> the loss (b,), and its gradient by the scores (b, K).
    curvature : callable
        (scores (b, K), Q on their device (K, L)) -> A, (b, L, L).
    frame : callable
        K -> Q, (K, L).
    by_label : callable
        K -> -C, (L, q): how a unit of each direction of the label lowers the gradient.
    labels : Labels
        Of one number; never ``binary``.
    classes : bool
        Whether labels are codes of classes, (n,), 0 to K - 1; numbers of shape (n, K) otherwise.
    shares : bool
        Whether the classes' probabilities are proportional to the exponentials of the scores, and add up to one.
    quadratic : bool
        Whether A is the identity, so that one Newton step is exact.
    width : float, optional
        w of ``replacement.reduced_loss``, where it is known.
    """

    name: str
    value: Callable[[Array, Array], Array]
    gradient: Callable[[Array, Array], Array]
    curvature: Callable[[Array, Array], Array]
    frame: Callable[[int], Matrix]
    by_label: Callable[[int], Matrix]
    labels: Labels
    classes: bool = False
    shares: bool = False
    quadratic: bool = False
    width: float | None = None

    @property
    def unit_curvature(self) -> bool:
        """Whether A is the identity everywhere."""
        return self.quadratic

    def __repr__(self) -> str:
        return f"VectorLoss({self.name!r})"


def _finite(y: Array) -> Array:
    return namespace(y).isfinite(y)


def own_class(codes: Array, K: int) -> Array:
    """Which score is that of the row's own class: (b, K), boolean."""
    xp = namespace(codes)
    return xp.astype(codes, xp.int64)[:, None] == like(np.arange(K), codes, xp)[None, :]


# Softmax: l = log sum exp(z_k) - z_y.


def _softmax_value(Z: Array, y: Array) -> Array:
    xp = namespace(Z)
    own = xp.sum(xp.where(own_class(y, Z.shape[1]), Z, xp.zeros_like(Z)), axis=1)
    away = Z - own[:, None]
    top = xp.max(away, axis=1)
    return top + xp.log(xp.sum(xp.exp(away - top[:, None]), axis=1))


def _shares(Z: Array) -> Array:
    xp = namespace(Z)
    e = xp.exp(Z - xp.max(Z, axis=1, keepdims=True))
    return e / xp.sum(e, axis=1, keepdims=True)


def _softmax_gradient(Z: Array, y: Array) -> Array:
    """P - e_y; that of the own class as the sum of the others, which does not cancel."""
    xp = namespace(Z)
    own, p = own_class(y, Z.shape[1]), _shares(Z)
    others = xp.where(own, xp.zeros_like(p), p)
    return xp.where(own, -xp.sum(others, axis=1, keepdims=True), others)


def _softmax_curvature(Z: Array, Q: Array) -> Array:
    r"""Q^T (diag p - p p^T) Q as :math:`\sum_{k<l} p_k p_l\, d d^T, d = Q^T (e_k - e_l)`: nothing cancels, one product."""
    xp = namespace(Z)
    K, L = Q.shape
    first, second = np.triu_indices(K, 1)
    one, two = (like(places, Z, xp) for places in (first, second))
    p = _shares(Z)
    D = xp.take(Q, one, axis=0) - xp.take(Q, two, axis=0)
    outer = xp.reshape(D[:, :, None] * D[:, None, :], (-1, L * L))
    return xp.reshape((xp.take(p, one, axis=1) * xp.take(p, two, axis=1)) @ outer, (-1, L, L))


def _of_sum_zero(K: int) -> Matrix:
    return np.array(tangent_basis(K))


def _one_less(K: int) -> Matrix:
    return np.eye(K - 1)


SOFTMAX = VectorLoss(
    name=OF_CLASSES,
    value=_softmax_value,
    gradient=_softmax_gradient,
    curvature=_softmax_curvature,
    frame=_of_sum_zero,
    by_label=_one_less,
    labels=Labels("a class", _finite),
    classes=True,
    shares=True,
    width=2.0,
)


# Each class against the rest: l = sum_k log(1 + exp(z_k)) - z_y, one logistic model for each class.


def _rest_value(Z: Array, y: Array) -> Array:
    xp = namespace(Z)
    signed = xp.where(own_class(y, Z.shape[1]), -Z, Z)
    ramp = xp.where(signed > 0, signed, xp.zeros_like(signed))
    return xp.sum(ramp + xp.log1p(xp.exp(-xp.abs(signed))), axis=1)


def _rest_gradient(Z: Array, y: Array) -> Array:
    """s(z) - 1 of the own class and s(z) of the others, without cancellation."""
    xp = namespace(Z)
    own = own_class(y, Z.shape[1])
    signed = xp.where(own, -Z, Z)
    e = xp.exp(-xp.abs(signed))
    share = xp.where(signed >= 0, 1.0 / (1.0 + e), e / (1.0 + e))
    return xp.where(own, -share, share)


def _rest_curvature(Z: Array, Q: Array) -> Array:
    xp = namespace(Z)
    e = xp.exp(-xp.abs(Z))
    return (e / (1.0 + e) ** 2)[:, :, None] * like(np.eye(Z.shape[1]), Z, xp)[None, :, :]


def _identity(K: int) -> Matrix:
    return np.eye(K)


ONE_AGAINST_REST = VectorLoss(
    name="logistic, each class against the rest",
    value=_rest_value,
    gradient=_rest_gradient,
    curvature=_rest_curvature,
    frame=_identity,
    by_label=_of_sum_zero,
    labels=Labels("a class", _finite),
    classes=True,
    width=1.0,
)


# Half the squared error of several numbers: l = |z - y|^2 / 2.


def _numbers_value(Z: Array, Y: Array) -> Array:
    return 0.5 * namespace(Z).sum((Z - Y) ** 2, axis=1)


def _numbers_gradient(Z: Array, Y: Array) -> Array:
    return Z - Y


def _numbers_curvature(Z: Array, Q: Array) -> Array:
    xp = namespace(Z)
    K = Q.shape[0]
    return xp.broadcast_to(like(np.eye(K), Z, xp)[None, :, :], (Z.shape[0], K, K))


SEVERAL_NUMBERS = VectorLoss(
    name="squared",
    value=_numbers_value,
    gradient=_numbers_gradient,
    curvature=_numbers_curvature,
    frame=_identity,
    by_label=_identity,
    labels=Labels("a finite number", _finite),
    quadratic=True,
)


# The same for classes that are coded as -1 and 1: labels move where their sum stays.


def _signs(Z: Array, y: Array) -> Any:
    xp = namespace(Z)
    return xp.where(own_class(y, Z.shape[1]), xp.ones_like(Z), -xp.ones_like(Z))


def _signs_value(Z: Array, y: Array) -> Array:
    return _numbers_value(Z, _signs(Z, y))


def _signs_gradient(Z: Array, y: Array) -> Array:
    return Z - _signs(Z, y)


CLASS_TARGETS = VectorLoss(
    name="squared",
    value=_signs_value,
    gradient=_signs_gradient,
    curvature=_numbers_curvature,
    frame=_identity,
    by_label=_of_sum_zero,
    labels=Labels("a class", _finite),
    classes=True,
    quadratic=True,
)
NAMED = {loss.name: loss for loss in (SOFTMAX, SEVERAL_NUMBERS)}
"""Those that are asked for by name."""
