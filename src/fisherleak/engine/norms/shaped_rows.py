"""What blocks of rows bring to the information of a release with noise that the data shape, or without: products and roots.

Mathematics: 3.2, ``docs/mathematics/mechanisms.md``.

Also here: largest eigenvalues of single rows' information under noise that the data shape, by compiled kernels: what
these take.

The kernels are loaded only where numba is installed and the work is large; the tests hold both against products and dense
matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Vector
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import PerturbationMap
from fisherleak.engine.mechanisms.self_shaped import SelfShaped, Spectrum
from fisherleak.errors import InvalidInputError

LARGEST = 2**27
"""Values that are written out at most."""


def fixed_spectrum(jacobian: Jacobian) -> Spectrum:
    """A release with noise that the data do not shape: the middle is that of its whitened inverse Hessian."""
    # kappa = 0, and rho^2 are the squared singular values of B in the basis of its right singular vectors (section 3.2)
    _, values, basis = np.linalg.svd(np.asarray(host(jacobian.B)), full_matrices=True)
    p = basis.shape[0]
    middle = np.append(values**2, np.zeros(p - values.size))
    centre = None if jacobian.fit.centre is None else np.asarray(host(jacobian.fit.centre))
    return Spectrum(basis.T, middle, np.zeros((p, p)), centre, np.asarray(host(jacobian.theta)))


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


Tops = Callable[[Any, Any, Any], Vector]
"""From rows, labels and weights to the largest eigenvalue of each row, (b,); NaN where the kernel leaves it to others."""


def directly(fit: Fit, spectrum: Spectrum, changes: PerturbationMap, mechanism: SelfShaped, label: bool) -> Tops | None:
    """The kernel for changes of these values, or None where there is none: a shaped objective, or some of its features."""
    if mechanism.root(len(spectrum.theta)) is None:
        return _of_draws(fit, spectrum, changes, mechanism.scale**2, label)
    d = int(fit.coef.shape[0])
    every = changes.columns is not None and sorted(np.asarray(changes.columns).tolist()) == list(range(d))
    return _of_perturbed(fit, spectrum, mechanism.scale, label) if every and mechanism.shape is None else None


def _weighted(fit: Fit, spectrum: Spectrum, X: Any, y: Any, weights: Any) -> tuple[Vector, Vector, Vector]:
    """Rows with their constant, (b, p), weighted residuals and weights, (b,) each."""
    x = with_constant(np.asarray(X), fit.intercept is not None, spectrum.centre)
    omega = np.ones(x.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
    return x, omega * fit.loss.r(x @ spectrum.theta, np.asarray(y, dtype=np.float64)), omega


def _of_draws(fit: Fit, spectrum: Spectrum, changes: PerturbationMap, temperature: float, label: bool) -> Tops:
    """Posterior sampling: see ``secular_numba``."""
    from fisherleak.engine.norms.kernels.secular_numba import top_of_draws

    # R E = P diag(sigma) V^T of section 3.3, R the root of H^-1 in its eigenbasis; y = P^T R x is x @ into
    root = np.diag(spectrum.shape) ** 0.25  # of the eigenvalues of H^-1
    left, sigma, right = np.linalg.svd(root[:, None] * changes.after(spectrum.basis.T), full_matrices=True)
    pulled, into = changes.pull(spectrum.theta), (spectrum.basis * root) @ left
    w = right[: sigma.size] @ pulled
    # a label lowers the gradient as a unit of w does, for the squared loss
    beside = float(np.hypot(np.linalg.norm(right[sigma.size :] @ pulled), float(label)))

    def tops(X: Any, y: Any, weights: Any) -> Vector:
        x, r, omega = _weighted(fit, spectrum, X, y, weights)
        return top_of_draws(sigma, w, beside, x @ into, r, omega, temperature)

    return tops


def _of_perturbed(fit: Fit, spectrum: Spectrum, scale: float, label: bool) -> Tops:
    """Objective perturbation, all features: see ``perturbed_numba``."""
    from fisherleak.engine.norms.kernels.perturbed_numba import top_of_perturbed

    d = int(fit.coef.shape[0])
    # kappa^2 = (beta_j + beta_k)^2 (section 3.1): its diagonal is 4 beta^2; then S and b of section 3.4: the part of H^-1
    # over the features in its eigenbasis, and its column of the intercept there
    beta = 0.5 * np.sqrt(np.diag(spectrum.shape))
    inverse = (spectrum.basis * beta) @ spectrum.basis.T
    values, into = np.linalg.eigh(inverse[:d, :d])
    values, free = np.clip(values, 0.0, None), inverse.shape[0] > d
    beside = into.T @ inverse[:d, d] if free else np.zeros(d)
    w = np.append(into.T @ spectrum.theta[:d], -float(label))
    corner = float(inverse[d, d]) if free else -1.0

    def tops(X: Any, y: Any, weights: Any) -> Vector:
        x, r, omega = _weighted(fit, spectrum, X, y, weights)
        return top_of_perturbed(values, beside, corner, w, x[:, :d] @ into, r, omega, float(scale))

    return tops


@dataclass(frozen=True)
class InItsBasis:
    r"""Products for posterior sampling in the eigenbasis of :math:`S = E^T H^{-1} E`, elementwise.

    With :math:`g = E^T u` there, an example's matrix is

    .. math:: F_i = (r^2 / T + \omega^2 h)\, S + \omega^2 g g^T + \frac{r a}{T} (g w^T + w g^T) + \frac{a^2 h}{T} w w^T,

    with a border of :math:`\frac{c}{T} (r g + a h w)` and :math:`c^2 h / T` for the label.
    """

    diagonal: Vector
    into: Vector
    w: Vector
    middle: Vector
    root: Vector
    """Of the diagonal of the shape: the eigenvalues of H^-1."""

    @classmethod
    def of(cls, parts: ShapedParts) -> InItsBasis:
        # kappa^2 = beta_j beta_k for a posterior (section 3.1): its diagonal is beta^2
        beta = np.sqrt(np.diag(parts.spectrum.shape))
        scaled = np.sqrt(beta)[:, None] * parts.turned
        values, basis = np.linalg.eigh(scaled.T @ scaled)
        # g = E^T H^-1 x in the eigenbasis of S, from xi
        into = beta[:, None] * (parts.turned @ basis)
        return cls(np.clip(values, 0.0, None), into, basis.T @ parts.w, parts.spectrum.middle, beta)

    def of_rows(self, state: tuple[Vector, ...]) -> tuple[Vector, ...]:
        """The coefficients of each row's matrix, and g."""
        r, a, c, omega, xi, _ = state
        h, cold = xi**2 @ self.root, xi**2 @ self.middle  # h and h / T
        per_t = float(self.middle[-1] / self.root[-1])
        return (
            *(r**2 * per_t + omega**2 * h, omega**2, r * a * per_t, a**2 * cold),
            *(c * r * per_t, c * a * cold, c**2 * cold, xi @ self.into),
        )

    def product(self, state: tuple[Vector, ...], V: Vector, label: bool) -> Vector:
        """F_i v_i of every row, (b, m + label)."""
        alpha, gg, gw, ww, by_g, by_w, end, g = state
        v = V[:, :-1] if label else V
        along, over = np.einsum("ij,ij->i", g, v), v @ self.w
        to_g, to_w = gg * along + gw * over, gw * along + ww * over
        if label:
            to_g, to_w = to_g + by_g * V[:, -1], to_w + by_w * V[:, -1]
        top = (alpha[:, None] * self.diagonal) * v
        top += to_g[:, None] * g
        top += to_w[:, None] * self.w
        if not label:
            return top
        return np.concatenate([top, (by_g * along + by_w * over + end * V[:, -1])[:, None]], axis=1)
