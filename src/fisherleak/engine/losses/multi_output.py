r"""The package's own losses of several outputs, one record each.

For classes, labels are one-hot vectors that move in the space of changes that keep their sum. Blocks of rows have shapes
(b, K) for predictors z and their gradient r, (b, L, L) for the curvature :math:`Q^T \nabla_z^2 \ell\, Q`; what the label does
to the gradient, :math:`Q^T \partial r / \partial y`, is (1, L, q), that of all rows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, reduce

import numpy as np

from fisherleak._support.arrays import Array, like, namespace
from fisherleak.engine.losses.loss import Labels, Loss, Matrix, identity_curvature
from fisherleak.errors import UnsupportedModelError


def tangent_basis(k: int) -> Matrix:
    """Helmert's orthonormal basis of the vectors in R^k that sum to zero: (k, k - 1)."""
    basis = np.zeros((k, k - 1))
    for j in range(1, k):
        basis[:j, j - 1] = 1.0
        basis[j, j - 1] = -j
        basis[:, j - 1] /= np.sqrt(j * (j + 1.0))
    return basis


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


FEW_CLASSES = 8
"""Up to which columns are compared one after another: reductions over short axes are slow."""


def _highest(Z: Array) -> Array:
    xp, K = namespace(Z), Z.shape[1]
    return (
        reduce(xp.maximum, [Z[:, k : k + 1] for k in range(K)])
        if K <= FEW_CLASSES
        else xp.max(Z, axis=1, keepdims=True)
    )


def _shares(Z: Array) -> Array:
    xp = namespace(Z)
    e = xp.exp(Z - _highest(Z))
    return e / (e @ xp.ones_like(e[:1, :])[0, :, None])


def _softmax_gradient(Z: Array, y: Array) -> Array:
    """P - e_y; that of the own class as the sum of the others, which does not cancel."""
    xp = namespace(Z)
    own, p = own_class(y, Z.shape[1]), _shares(Z)
    others = xp.where(own, xp.zeros_like(p), p)
    return xp.where(own, -(others @ xp.ones_like(p[:1, :])[0, :, None]), others)


def _softmax_curvature(Z: Array, y: Array) -> Array:
    r"""Q^T (diag p - p p^T) Q as :math:`\sum_{k<l} p_k p_l\, d d^T, d = Q^T (e_k - e_l)`: nothing cancels, one product."""
    xp = namespace(Z)
    Q = like(_of_sum_zero(Z.shape[1]), Z, xp)
    K, L = Q.shape
    first, second = np.triu_indices(K, 1)
    one, two = (like(places, Z, xp) for places in (first, second))
    p = _shares(Z)
    D = xp.take(Q, one, axis=0) - xp.take(Q, two, axis=0)
    outer = xp.astype(xp.reshape(D[:, :, None] * D[:, None, :], (-1, L * L)), Z.dtype)
    return xp.reshape((xp.take(p, one, axis=1) * xp.take(p, two, axis=1)) @ outer, (-1, L, L))


_known_basis = lru_cache(maxsize=16)(tangent_basis)


def _of_sum_zero(K: int) -> Matrix:
    return _known_basis(K).copy()


def _identity(K: int) -> Matrix:
    return np.eye(K)


def _lowered(by_label: Matrix, Z: Array) -> Array:
    """How the gradient moves with the label, the same for all rows: down by what the label moves, (1, K, L)."""
    return -like(by_label, Z, namespace(Z))[None, :, :]


def _one_hot_in_frame(Z: Array, y: Array) -> Array:
    """-Q^T T with T the frame of one-hot vectors, which is Q."""
    return _lowered(np.eye(Z.shape[1] - 1), Z)


def _one_hot(Z: Array, y: Array) -> Array:
    return _lowered(_of_sum_zero(Z.shape[1]), Z)


def _numbers(Z: Array, y: Array) -> Array:
    return _lowered(np.eye(Z.shape[1]), Z)


SOFTMAX = Loss(
    name="softmax",
    value=_softmax_value,
    r=_softmax_gradient,
    a=_softmax_curvature,
    frame=_of_sum_zero,
    c=_one_hot_in_frame,
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


def _rest_curvature(Z: Array, y: Array) -> Array:
    xp = namespace(Z)
    e = xp.exp(-xp.abs(Z))
    return (e / (1.0 + e) ** 2)[:, :, None] * like(np.eye(Z.shape[1]), Z, xp)[None, :, :]


ONE_AGAINST_REST = Loss(
    name="logistic, each class against the rest",
    value=_rest_value,
    r=_rest_gradient,
    a=_rest_curvature,
    frame=_identity,
    c=_one_hot,
    labels=Labels("a class", _finite),
    classes=True,
    width=1.0,
)


# Half the squared error of several numbers: l = |z - y|^2 / 2.


def _numbers_value(Z: Array, Y: Array) -> Array:
    return 0.5 * namespace(Z).sum((Z - Y) ** 2, axis=1)


def _numbers_gradient(Z: Array, Y: Array) -> Array:
    return Z - Y


SEVERAL_NUMBERS = Loss(
    name="squared",
    value=_numbers_value,
    r=_numbers_gradient,
    a=identity_curvature,
    frame=_identity,
    c=_numbers,
    labels=Labels("a finite number", _finite),
    quadratic=True,
)


# The same for classes that are coded as -1 and 1: labels move where their sum stays.


def _signs(Z: Array, y: Array) -> Array:
    xp = namespace(Z)
    return xp.where(own_class(y, Z.shape[1]), xp.ones_like(Z), -xp.ones_like(Z))


def _signs_value(Z: Array, y: Array) -> Array:
    return _numbers_value(Z, _signs(Z, y))


def _signs_gradient(Z: Array, y: Array) -> Array:
    return Z - _signs(Z, y)


CLASS_TARGETS = replace(
    SEVERAL_NUMBERS, value=_signs_value, r=_signs_gradient, c=_one_hot, labels=SOFTMAX.labels, classes=True
)


def is_squared_numbers(loss: Loss) -> bool:
    """Whether it is half the squared error of several numbers, which ties nothing between them."""
    own = SEVERAL_NUMBERS
    return not loss.classes and (loss.value, loss.r, loss.a, loss.c) == (own.value, own.r, own.a, own.c)


OF_OWN = (SOFTMAX, ONE_AGAINST_REST, SEVERAL_NUMBERS, CLASS_TARGETS)
TRIED = np.array([s * v for v in (0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0) for s in (1.0, -1.0)])
"""Labels that ``c`` of a loss from outside is tried on, where it accepts them."""
SAME = 1e-6
"""Relative difference of gradients that rounding explains."""


@lru_cache(maxsize=64)
def check_by_label(loss: Loss, K: int) -> None:
    """Refuse a loss of K outputs from outside whose ``c`` is not how its gradient moves with the label of every row.

    Between two labels at the same predictors, :math:`Q^T (r(z, y') - r(z, y)) = c (y' - y)`, classes as one-hot vectors in
    their frame (section 1.1): c is one matrix for all rows, so that this holds for any two labels, near or far.
    """
    if loss in OF_OWN or loss.frame is None:
        return
    rng, known = np.random.default_rng(0), TRIED[np.asarray(loss.labels.accepts(TRIED), dtype=bool)]
    Z = np.concatenate([size * rng.standard_normal((16, K)) for size in (0.1, 1.0, 10.0)])
    known = np.arange(K, dtype=np.float64) if loss.classes else known
    if known.size > 1:
        one, other = (rng.choice(known, size=(len(Z),) if loss.classes else Z.shape) for _ in range(2))
        turned = np.eye(K)[other.astype(int)] - np.eye(K)[one.astype(int)] if loss.classes else other - one
        moved = turned @ (tangent_basis(K) if loss.classes else np.eye(K))
        gradients = (np.asarray(loss.r(Z, other)) - np.asarray(loss.r(Z, one))) @ loss.frame(K)
        c = np.asarray(loss.c(Z, one))
        if c.shape == (1, gradients.shape[1], moved.shape[1]):
            told = moved @ c[0].T
            if np.all(np.abs(gradients - told) <= SAME * (np.abs(gradients).max() + np.abs(told).max())):
                return
    raise UnsupportedModelError(
        f"The loss {loss.name!r} has several outputs, and the derivative of its gradient by the label is not its c in every "
        "row. c is one matrix for all rows, of shape (1, L, q): correct c, or fit each output by itself."
    )
