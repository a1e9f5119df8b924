"""The likelihood of objective perturbation for losses other than the squared: with another row, against the row itself.

Mathematics: 9.4, ``docs/mathematics/attacks.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.losses import Loss
from fisherleak.engine.mechanisms.perturbed import check_tilt
from fisherleak.engine.mechanisms.self_shaped import ObjectivePerturbation

__all__ = ["TiltedLikelihood", "ratio_of_one_row"]

Vector = NDArray[np.float64]


def ratio_of_one_row(
    loss: Loss,
    mechanism: ObjectivePerturbation,
    released: tuple[Vector, Vector, Vector],
    old: tuple[Any, ...],
    new: tuple[Any, ...],
) -> Vector:
    """Log-likelihoods of releases with one row replaced, less those with it, (T,).

    Parameters
    ----------
    released : (array of shape (T, p), array of shape (T, p), array of shape (T, p, p))
        What is released, and there the gradient of the risk and the inverse of its Hessian.
    old, new : (row of shape (p,), label, weight)
        A weight of zero for a row that leaves.
    """
    theta, g, inverses = released
    moved, parts = np.zeros_like(theta), []
    for (x, y, omega), sign in ((old, -1.0), (new, 1.0)):
        z = theta @ x
        # Delta g = omega (r' x' - r x) of section 9.4
        moved += (sign * omega * loss.r(z, np.asarray(y)))[:, None] * x
        parts.append((omega * loss.a(z, np.asarray(y)), inverses @ x))
    (a, u), (b, v) = parts
    # |H'| / |H| of section 9.4: ``a`` is omega a, ``b`` is omega a', u is H^-1 x, v is H^-1 x'
    grown = (1.0 + b * (v @ new[0])) * (1.0 - a * (u @ old[0])) + a * b * (u @ new[0]) ** 2
    white = np.linalg.inv(mechanism.root(theta.shape[1])).T
    g, moved = g @ white, moved @ white
    # -(2 g . Delta g + |Delta g|^2) / 2 sigma^2 + log(|H'| / |H|), products by C^-1
    form = 2.0 * np.sum(g * moved, axis=1) + np.sum(moved * moved, axis=1)
    return np.asarray(np.log(np.clip(grown, np.finfo(float).tiny, None)) - 0.5 * form / mechanism.scale**2)


@dataclass(frozen=True)
class TiltedLikelihood:
    """Releases of one fit by objective perturbation, held against neighbours in which one row differs.

    Parameters
    ----------
    mechanism : ObjectivePerturbation
    fit : Fit
    X, y : arrays of shape (n, d) and (n,)
        The fit's own rows and labels.
    chosen : array of shape (m,)
        The rows that may differ.
    """

    mechanism: ObjectivePerturbation
    fit: Fit
    X: Vector
    y: Vector
    chosen: NDArray[np.int64]

    @classmethod
    def of(cls, mechanism: ObjectivePerturbation, fit: Fit, X: Any, y: Any, rows: Any) -> TiltedLikelihood:
        """For some rows of a fit; what need not have a minimum when it is tilted is refused by name."""
        X, y = np.asarray(host(X), dtype=np.float64), np.asarray(host(y), dtype=np.float64)
        root = mechanism.root(np.asarray(host(fit.theta)).size)
        check_tilt(fit, X, y, mechanism.scale * float(np.linalg.norm(root[-1])))
        return cls(mechanism, fit, X, y, np.asarray(host(rows)))

    @property
    def omega(self) -> Vector:
        """Weights of all rows, (n,)."""
        weights = self.fit.sample_weight
        return np.ones(len(self.y)) if weights is None else np.asarray(host(weights), dtype=np.float64)

    def some(self, rows: Any) -> TiltedLikelihood:
        """Of some of the rows that may differ."""
        return replace(self, chosen=self.chosen[rows])

    def drawn(self, count: int, rng: np.random.Generator) -> Vector:
        """What the mechanism releases, (count, p)."""
        return self.mechanism.released_draws(self.fit, count, rng, (self.X, self.y))

    def without(self, row: int, move: Vector, count: int, rng: np.random.Generator) -> Vector:
        """What it releases of the data without one row, less the model of all of them: (count, p)."""
        weights = self.omega.copy()
        weights[self.chosen[row]] = 0.0
        left = replace(self.fit, sample_weight=weights)
        found = self.mechanism.released_draws(left, count, rng, (self.X, self.y))
        return np.asarray(found - np.asarray(host(self.fit.theta)))

    def ratio(self, b: Vector, moves: Vector, others: Vector | None, labels: Vector | None = None) -> Vector:
        """Log-likelihoods of releases w + b, (T, p), with each row replaced, less those with all as it is: (T, m).

        ``others`` are the rows instead, (m, p), or None where the rows leave; ``labels`` theirs, where they are others.
        """
        theta = b + np.asarray(host(self.fit.theta))
        g, inverses = self._derivatives(theta)
        x = self._rows()[self.chosen]
        own = self.y[self.chosen] if labels is None else labels
        found = np.empty((len(theta), len(x)))
        for k, row in enumerate(self.chosen.tolist()):
            weight = float(self.omega[row])
            old = (x[k], self.y[row], weight)
            new = (x[k], own[k], 0.0) if others is None else (others[k], own[k], weight)
            found[:, k] = ratio_of_one_row(self.fit.loss, self.mechanism, (theta, g, inverses), old, new)
        return found

    def _rows(self) -> Vector:
        """With the intercept's constant, (n, p)."""
        return np.asarray(with_constant(self.X, self.fit.intercept is not None, None))

    def _derivatives(self, theta: Vector) -> tuple[Vector, Vector]:
        """Gradients (T, p) and inverse Hessians (T, p, p) of the risk at releases."""
        X, y, omega, loss = self._rows(), self.y, self.omega, self.fit.loss
        penalty = np.full(X.shape[1], len(y) * self.fit.l2)
        if self.fit.scales is not None:
            penalty[: self.X.shape[1]] *= np.asarray(host(self.fit.scales)) ** 2
        if self.fit.intercept is not None:
            penalty[-1] = len(y) * self.fit.intercept_l2
        g, inverses = np.empty_like(theta), np.empty((*theta.shape, theta.shape[1]))
        for k, t in enumerate(theta):
            z = X @ t
            g[k] = X.T @ (omega * loss.r(z, y)) + penalty * t
            inverses[k] = np.linalg.inv((X * (omega * loss.a(z, y))[:, None]).T @ X + np.diag(penalty))
        return g, inverses
