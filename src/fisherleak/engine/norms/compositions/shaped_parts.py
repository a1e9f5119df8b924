"""One release about blocks of rows, with noise that the data shape or without: products, matrices and roots.

Mathematics: 3.2, ``docs/mathematics/mechanisms.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse.linalg
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.mechanisms.self_shaped import Spectrum
from fisherleak.errors import InvalidInputError

__all__ = ["SETTLED", "ShapedParts", "cells_by_size", "fixed_spectrum", "largest_eta"]

Vector = NDArray[np.float64]
SETTLED = 1e-9
"""Relative error of the eta of a set."""
LARGEST = 2**27
"""Values that are written out at most."""
SMALL = 256
"""Values of a set up to which its matrix is written out."""


def fixed_spectrum(jacobian: Jacobian) -> Spectrum:
    """A release with noise that the data do not shape: the middle is that of its whitened inverse Hessian."""
    # kappa = 0, and rho^2 are the squared singular values of B in the basis of its right singular vectors (section 3.2)
    _, values, basis = np.linalg.svd(np.asarray(host(jacobian.B)), full_matrices=True)
    p = basis.shape[0]
    middle = np.append(values**2, np.zeros(p - values.size))
    centre = None if jacobian.fit.centre is None else np.asarray(host(jacobian.fit.centre))
    return Spectrum(basis.T, middle, np.zeros((p, p)), centre, np.asarray(host(jacobian.theta)))


def cells_by_size(
    attributes: Sequence[Attribute],
    rows: int,
    single: Callable[[list[Attribute]], Vector],
    several: Callable[[Attribute], Vector],
) -> Vector:
    """Norms of every attribute of every row, (rows, attributes): those of one dimension together, others one by one."""
    found = np.empty((rows, len(attributes)))
    ones = [k for k, attribute in enumerate(attributes) if attribute.size == 1]
    if ones:
        found[:, ones] = single([attributes[k] for k in ones])
    for k, attribute in enumerate(attributes):
        if attribute.size > 1:
            found[:, k] = several(attribute)
    return found


def largest_eta(together: Callable[[Vector], Vector], size: int) -> float:
    """The root of the largest eigenvalue of a matrix that is known by its products, never below it."""
    if size <= SMALL:
        matrix = np.stack([together(v) for v in np.eye(size)])
        return float(np.sqrt(max(float(np.linalg.eigvalsh(matrix)[-1]), 0.0)))
    operator = scipy.sparse.linalg.LinearOperator((size, size), matvec=together, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(size)
    top, vector = scipy.sparse.linalg.eigsh(operator, k=1, which="LA", v0=start, tol=SETTLED, maxiter=10_000)
    left = np.linalg.norm(together(vector[:, 0]) - top[0] * vector[:, 0])
    return float(np.sqrt(max(top[0] + left, 0.0)))


@dataclass(frozen=True)
class ShapedParts:
    """What blocks of rows need: E in the eigenbasis, (p, m), and E^T w, (m,)."""

    fit: Fit
    spectrum: Spectrum
    turned: Vector
    w: Vector

    def state(self, X: Any, y: Any, weights: Any) -> tuple[Vector, ...]:
        """r, a, c, omega, xi and kappa^2 xi^2 of rows."""
        x = with_constant(np.asarray(X), self.fit.intercept is not None, self.spectrum.centre)
        z, loss = x @ self.spectrum.theta, self.fit.loss
        omega = np.ones(x.shape[0]) if weights is None else np.asarray(weights)
        xi = x @ self.spectrum.basis
        return omega * loss.r(z, y), omega * loss.a(z, y), omega * loss.c(z, y), omega, xi, xi**2 @ self.spectrum.shape

    def product(self, state: tuple[Vector, ...], V: Vector, label: bool) -> Vector:
        """F_i v_i of every row, (b, m + label)."""
        r, a, c, omega, xi, q = state
        v = V[:, :-1] if label else V
        e = v @ self.turned.T
        along = a * (v @ self.w) + (c * V[:, -1] if label else 0.0)
        # the first term of section 3.2: rho^2 (alpha xi + r epsilon); alpha is `along`, epsilon is `e`
        moved = self.spectrum.middle * (along[:, None] * xi + r[:, None] * e)
        t = np.einsum("ij,ij->i", xi, moved)
        # omega^2 (diag(kappa^2 xi^2) + diag(xi) kappa^2 diag(xi)) epsilon (section 3.2)
        shape = (omega**2)[:, None] * (q * e + xi * ((xi * e) @ self.spectrum.shape))
        top = (r[:, None] * moved + shape) @ self.turned + (a * t)[:, None] * self.w[None, :]
        return np.concatenate([top, (c * t)[:, None]], axis=1) if label else top

    def of_rows(self, state: tuple[Vector, ...]) -> tuple[Vector, ...]:
        return state

    def matrix(self, state: tuple[Vector, ...], label: bool) -> Vector:
        """F_i of one row."""
        width = self.turned.shape[1] + int(label)
        repeated = tuple(np.repeat(x, width, axis=0) for x in state)
        found = self.product(repeated, np.eye(width), label)
        return 0.5 * (found + found.T)

    def diagonals(self, X: Any, y: Any, weights: Any) -> Vector:
        """Roots of the diagonal of F_i over attributes of one direction, (b, m)."""
        r, a, _, omega, xi, q = self.state(X, y, weights)
        E, middle, shape = self.turned, self.spectrum.middle, self.spectrum.shape
        # the same two terms for v a unit vector, epsilon a column of E
        first = (a**2 * (xi**2 @ middle))[:, None] * self.w**2 + r[:, None] ** 2 * (middle @ E**2)
        first = first + 2.0 * (a * r)[:, None] * self.w * ((xi * middle) @ E)
        # kappa^2 has a rank of three at most: diag(xi) kappa^2 diag(xi) by its eigenvectors
        values, vectors = np.linalg.eigh(shape)
        second = q @ E**2
        for k in np.flatnonzero(np.abs(values) > np.finfo(float).eps * np.abs(values).max()).tolist():
            second = second + values[k] * ((xi * vectors[:, k]) @ E) ** 2
        return np.asarray(np.sqrt(np.clip(first + (omega**2)[:, None] * second, 0.0, None)))

    def together(self, state: tuple[Vector, ...], label: bool) -> Callable[[Vector], Vector]:
        """V -> F v for changes of all rows at once, (n (m + label),)."""
        r, a, c, omega, xi, _ = state

        def product(v: Vector) -> Vector:
            V = v.reshape(r.size, -1)
            changes = V[:, :-1] if label else V
            e = changes @ self.turned.T
            along = a * (changes @ self.w) + (c * V[:, -1] if label else 0.0)
            z = self.spectrum.middle * (along @ xi + r @ e)
            # D = N + N^T of section 3.2, the changes of all rows together, and kappa^2 D by entries
            N = (omega[:, None] * xi).T @ e
            G = self.spectrum.shape * (N + N.T)
            t = xi @ z
            top = (r[:, None] * z[None, :] + omega[:, None] * (xi @ G)) @ self.turned + (a * t)[:, None] * self.w[
                None, :
            ]
            return np.asarray(np.concatenate([top, (c * t)[:, None]], axis=1) if label else top).ravel()

        return product

    def root(self, state: tuple[Vector, ...], label: bool) -> Vector:
        r, a, c, omega, xi, _ = state
        E, p = self.turned, xi.shape[1]
        if r.size * p * p * E.shape[1] > LARGEST:
            raise InvalidInputError(
                f"The information of {r.size} rows about {E.shape[1]} values each, with a shape of {p} x {p}, is too large to "
                "be written out: ask for fewer rows (eta of any set is cheap: use of())."
            )
        first = (a[:, None] * xi)[:, :, None] * self.w + r[:, None, None] * E
        cross = xi[:, :, None, None] * E[None, None, :, :] + E[None, :, None, :] * xi[:, None, :, None]
        # omega (kappa_jk / sqrt(2)) (xi_j epsilon_k + epsilon_j xi_k), whose squares add up to the second term
        second = omega[:, None, None, None] * np.sqrt(0.5 * self.spectrum.shape)[:, :, None] * cross
        second = second.reshape(r.size, p * p, -1)
        if label:
            first = np.concatenate([first, (c[:, None] * xi)[:, :, None]], axis=2)
            second = np.concatenate([second, np.zeros((r.size, p * p, 1))], axis=2)
        return np.concatenate([-np.sqrt(self.spectrum.middle)[:, None] * first, second], axis=1)
