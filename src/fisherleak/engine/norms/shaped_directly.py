"""Largest eigenvalues of single rows' information under noise that the data shape, by compiled kernels: what these take.

Loaded only where numba is installed and the work is large; the tests hold both against products and dense matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.jacobian.perturbation import PerturbationMap
from fisherleak.engine.mechanisms.self_shaped import SelfShaped, Spectrum

__all__ = ["Directly", "directly"]

Vector = NDArray[np.float64]


class Directly(Protocol):
    """Rows to their largest eigenvalues."""

    def tops(self, X: Any, y: Any, weights: Any) -> Vector:
        """The largest eigenvalue of each row, (b,); NaN where the kernel leaves it to others."""


def directly(
    fit: Fit, spectrum: Spectrum, changes: PerturbationMap, mechanism: SelfShaped, label: bool
) -> Directly | None:
    """The kernel for changes of these values, or None where there is none: a shaped objective, or some of its features."""
    if mechanism.root(len(spectrum.theta)) is None:
        return _Drawn.of(fit, spectrum, changes, mechanism.scale**2, label)
    d = int(np.asarray(fit.coef).shape[0])
    if (
        mechanism.shape is not None
        or changes.columns is None
        or sorted(np.asarray(changes.columns).tolist()) != list(range(d))
    ):
        return None
    return _Tilted.of(fit, spectrum, mechanism.scale, label)


def _weighted(fit: Fit, spectrum: Spectrum, X: Any, y: Any, weights: Any) -> tuple[Vector, Vector, Vector]:
    """Rows with their constant, (b, p), weighted residuals and weights, (b,) each."""
    x = with_constant(np.asarray(X), fit.intercept is not None, spectrum.centre)
    omega = np.ones(x.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
    return x, omega * fit.loss.r(x @ spectrum.theta, np.asarray(y, dtype=np.float64)), omega


@dataclass(frozen=True)
class _Drawn:
    """Posterior sampling: see ``posterior_numba``."""

    fit: Fit
    spectrum: Spectrum
    into: Vector
    sigma: Vector
    w: Vector
    beside: float
    temperature: float

    @classmethod
    def of(cls, fit: Fit, spectrum: Spectrum, changes: PerturbationMap, temperature: float, label: bool) -> _Drawn:
        # R E = P diag(sigma) V^T of section 3.3, R the root of H^-1 in its eigenbasis; y = P^T R x is x @ into
        root = np.diag(spectrum.shape) ** 0.25  # of the eigenvalues of H^-1
        left, sigma, right = np.linalg.svd(root[:, None] * changes.after(spectrum.basis.T), full_matrices=True)
        pulled = changes.pull(spectrum.theta)
        w = right[: sigma.size] @ pulled
        # a label lowers the gradient as a unit of w does, for the squared loss
        beside = float(np.hypot(np.linalg.norm(right[sigma.size :] @ pulled), float(label)))
        return cls(fit, spectrum, (spectrum.basis * root) @ left, sigma, w, beside, temperature)

    def tops(self, X: Any, y: Any, weights: Any) -> Vector:
        from fisherleak.engine.norms.kernels.posterior_numba import top_of_draws

        x, r, omega = _weighted(self.fit, self.spectrum, X, y, weights)
        return top_of_draws(self.sigma, self.w, self.beside, x @ self.into, r, omega, self.temperature)


@dataclass(frozen=True)
class _Tilted:
    """Objective perturbation, all features: see ``perturbed_numba``."""

    fit: Fit
    spectrum: Spectrum
    into: Vector
    values: Vector
    """Eigenvalues of the part of H^-1 over the features."""
    beside: Vector
    """Its column of the intercept, in that basis."""
    corner: float
    w: Vector
    scale: float

    @classmethod
    def of(cls, fit: Fit, spectrum: Spectrum, scale: float, label: bool) -> _Tilted:
        d = int(np.asarray(fit.coef).shape[0])
        # kappa^2 = (beta_j + beta_k)^2 (section 3.1): its diagonal is 4 beta^2; then S and b of section 3.4
        beta = 0.5 * np.sqrt(np.diag(spectrum.shape))
        inverse = (spectrum.basis * beta) @ spectrum.basis.T
        values, into = np.linalg.eigh(inverse[:d, :d])
        free = inverse.shape[0] > d
        beside = into.T @ inverse[:d, d] if free else np.zeros(d)
        w = np.append(into.T @ spectrum.theta[:d], -float(label))
        corner = float(inverse[d, d]) if free else -1.0
        return cls(fit, spectrum, into, np.clip(values, 0.0, None), beside, corner, w, float(scale))

    def tops(self, X: Any, y: Any, weights: Any) -> Vector:
        from fisherleak.engine.norms.kernels.perturbed_numba import top_of_perturbed

        x, r, omega = _weighted(self.fit, self.spectrum, X, y, weights)
        rows = x[:, : self.values.size] @ self.into
        return top_of_perturbed(self.values, self.beside, self.corner, self.w, rows, r, omega, self.scale)
