"""The likelihood of releases whose noise the data shape: how much likelier one is with another row than with the row itself.

Mathematics: 9.3, ``docs/mathematics/attacks.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak.attacks.likelihoods.tilted_likelihood import TiltedLikelihood
from fisherleak.engine.changes.changed_rows import Rows
from fisherleak.engine.changes.remade_covariance import Reshaped
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.mechanisms.self_shaped import SelfShaped, check_squared, released_inverse
from fisherleak.errors import InvalidInputError

__all__ = ["NormalLikelihood", "ShapedLikelihood", "likelihood_of"]

Vector = NDArray[np.float64]


def likelihood_of(
    mechanism: SelfShaped, fit: Fit, features: Any, labels: Any, rows: Any
) -> ShapedLikelihood | TiltedLikelihood:
    """The likelihood of a mechanism for some rows of a fit; what it is not known for is refused by name."""
    tilted = mechanism.by_draws(fit.loss)
    if tilted is not None:
        return TiltedLikelihood.of(tilted, fit, features, labels, rows)
    return ShapedLikelihood.of(mechanism, fit, features, rows)


@dataclass(frozen=True)
class ShapedLikelihood:
    """Releases of one fit by one mechanism, held against neighbours in which one row differs.

    Parameters
    ----------
    mechanism : Posterior or ObjectivePerturbation
    H : array of shape (p, p)
        The Hessian over the parameters that are released.
    inverse : array of shape (p, p)
    fit : Fit
    rows : array of shape (m, p)
        The rows that may differ, with the intercept's constant.
    omega : array of shape (m,)
        Their weights.
    """

    mechanism: SelfShaped
    H: Vector
    inverse: Vector
    fit: Fit
    rows: Vector
    omega: Vector

    @classmethod
    def of(cls, mechanism: SelfShaped, fit: Fit, features: Any, rows: Any) -> ShapedLikelihood:
        """For some rows of a fit's own features; losses for which the density is not known in closed form are refused."""
        name = type(mechanism).__name__
        if fit.loss.several:
            raise InvalidInputError(
                f"{name} is attacked by its likelihood for models of one output: fit one, or use noise on the parameters, "
                "fisherleak.Gaussian."
            )
        check_squared(fit, name)
        chosen = np.asarray(host(rows))
        x = np.asarray(with_constant(np.asarray(host(features))[chosen], fit.intercept is not None, None))
        weights = fit.sample_weight
        omega = np.ones(len(x)) if weights is None else np.asarray(host(weights), dtype=np.float64)[chosen]
        inverse = released_inverse(fit)
        return cls(mechanism, np.asarray(np.linalg.inv(inverse), dtype=np.float64), inverse, fit, x, omega)

    def some(self, rows: Any) -> ShapedLikelihood:
        """Of some of the rows that may differ."""
        return replace(self, rows=self.rows[rows], omega=self.omega[rows])

    def drawn(self, count: int, rng: np.random.Generator) -> Vector:
        """What the mechanism releases, (count, p)."""
        return self.mechanism.released_draws(self.fit, count, rng)

    def ratio(self, b: Vector, moves: Vector, others: Vector | None, labels: Vector | None = None) -> Vector:
        """Log-likelihoods of releases w + b, (T, p), with each row replaced, less those with all as it is: (T, m).

        ``moves`` are those of the parameters, (m, p), ``others`` the rows instead, (m, p), or None where the rows leave. Their
        ``labels`` are in the moves, and shape nothing.
        """
        omega, old = self.omega, self.rows
        new = np.zeros_like(old) if others is None else others
        pushed = moves @ self.H
        # x.(b - Delta) and x'.(b - Delta), x is ``old`` and x' is ``new``
        left = b @ old.T - np.sum(moves * old, axis=1)
        right = b @ new.T - np.sum(moves * new, axis=1)
        volume = np.log(self._grown(new))
        root = self.mechanism.root(self.H.shape[0])
        if root is None:
            # section 9.3, first density: (b - Delta)^T H_k (b - Delta) less b^T H b, T is the squared scale
            form = np.sum(pushed * moves, axis=1) - 2.0 * b @ pushed.T + omega * (right**2 - left**2)
            return np.asarray(0.5 * volume - 0.5 * form / self.mechanism.scale**2)
        # the noise is on gradients: products of these are in its metric
        white = np.linalg.inv(root).T
        g, pushed, new, old = b @ self.H @ white, pushed @ white, new @ white, old @ white
        # section 9.3, second density: |H_k (b - Delta)|^2 less |H b|^2, term by term, where
        # H_k (b - Delta) = H b - H Delta + omega x' (x'.(b - Delta)) - omega x (x.(b - Delta))
        form = np.sum(pushed * pushed, axis=1) - 2.0 * g @ pushed.T
        form = form + (omega * right) ** 2 * np.sum(new * new, axis=1) + (omega * left) ** 2 * np.sum(old * old, axis=1)
        form = form + 2.0 * omega * right * (g @ new.T - np.sum(pushed * new, axis=1))
        form = form - 2.0 * omega * left * (g @ old.T - np.sum(pushed * old, axis=1))
        form = form - 2.0 * omega**2 * left * right * np.sum(new * old, axis=1)
        return np.asarray(volume - 0.5 * form / self.mechanism.scale**2)

    def _grown(self, new: Vector) -> Vector:
        """The determinant of H with each row replaced, as a part of what it was: (m,)."""
        turned = self.rows @ self.inverse
        own, cross = np.sum(turned * self.rows, axis=1), np.sum(turned * new, axis=1)
        other = np.sum((new @ self.inverse) * new, axis=1)
        # |H_k| / |H|, the formula of section 9.4 with a = a' = 1
        grown = (1.0 + self.omega * other) * (1.0 - self.omega * own) + (self.omega * cross) ** 2
        return np.asarray(np.clip(grown, np.finfo(float).tiny, None))

    def without(self, row: int, move: Vector, count: int, rng: np.random.Generator) -> Vector:
        r"""What mechanisms release of the data without one row, less the model of all of them: (count, p).

        :math:`H_-^{-1} = H^{-1} + \omega u u^T / (1 - \omega h)`, so that a draw of the posterior is one with the row and one
        more number along u.
        """
        omega, u = float(self.omega[row]), self.rows[row] @ self.inverse
        part = omega / (1.0 - omega * float(u @ self.rows[row]))
        z = rng.standard_normal((count, len(u)))
        root = self.mechanism.root(len(u))
        if root is None:
            drawn = z @ np.linalg.cholesky(self.inverse).T + np.sqrt(part) * rng.standard_normal((count, 1)) * u
        else:
            drawn = z @ root.T @ (self.inverse + part * np.outer(u, u))
        return np.asarray(move + self.mechanism.scale * drawn)


@dataclass(frozen=True)
class NormalLikelihood:
    """Releases with Gaussian noise whose covariance the rows decide, held against those without a row or a set of rows.

    Parameters
    ----------
    theta : array of shape (p,)
        The model.
    white : array of shape (p, p)
        With which the noise has the covariance I.
    covariances : array of shape (m, p, p)
        Those without each row, by ``white``.
    known : array of shape (m,)
        Whether there is one.
    """

    theta: Vector
    white: Vector
    covariances: Vector
    known: NDArray[np.bool_]

    @classmethod
    def of(cls, reshaped: Reshaped, theta: Any, sets: Sequence[Rows]) -> NormalLikelihood:
        made = reshaped.covariances(sets)
        known = np.asarray(np.isfinite(made).all(axis=(1, 2)))
        made = np.where(known[:, None, None], made, np.eye(len(reshaped.white)))
        return cls(np.asarray(theta), reshaped.white, made, known)

    def some(self, rows: Any) -> NormalLikelihood:
        return replace(self, covariances=self.covariances[rows], known=self.known[rows])

    def drawn(self, count: int, rng: np.random.Generator) -> Vector:
        """What is released, (count, p)."""
        z = rng.standard_normal((count, len(self.theta)))
        return np.asarray(self.theta + np.linalg.solve(self.white, z.T).T)

    def ratio(self, b: Vector, moves: Vector, others: None) -> Vector:
        """Log-likelihoods of releases w + b, (T, p), without each row, less those with all: (T, m)."""
        y, m = b @ self.white.T, moves @ self.white.T
        found = []
        for move, covariance in zip(m, self.covariances, strict=True):
            # section 9.2: N(w + D, Sigma_0) against N(w, I), both by ``white``
            root = np.linalg.cholesky(covariance)
            z = np.linalg.solve(root, (y - move).T)
            found.append(0.5 * np.sum(y * y, axis=1) - 0.5 * np.sum(z * z, axis=0) - np.sum(np.log(np.diag(root))))
        return np.stack(found, axis=1)

    def without(self, row: int, move: Vector, count: int, rng: np.random.Generator) -> Vector:
        """What is released without one row, less the model of all: (count, p)."""
        z = rng.standard_normal((count, len(move))) @ np.linalg.cholesky(self.covariances[row]).T
        return np.asarray(move + np.linalg.solve(self.white, z.T).T)
