r"""Which candidate explains released parameters best, and what releases answer, for many releases and rows at once.

With :math:`\Delta_k` the move of the parameters when the value becomes candidate k and b what was released less the model
itself, the most probable candidate maximises :math:`\log f(b - \Delta_k) + \log p_k` for noise of density f. For standard
normal noise that is :math:`2 \Delta_k \cdot b - |\Delta_k|^2 + 2 \log p_k`: one matrix product.

Also here: the likelihood of objective perturbation for losses other than the squared: with another row, against the
row itself.

Mathematics: 9.4, ``docs/mathematics/attacks.md``.

Also here: the likelihood of releases whose noise the data shape: how much likelier one is with another row than with
the row itself.

Mathematics: 9.3, ``docs/mathematics/attacks.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host, like, namespace
from fisherleak._support.namespaces import Vector
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.losses import Loss
from fisherleak.engine.mechanisms.perturbed_minimisers import check_tilt
from fisherleak.engine.mechanisms.self_shaped import ObjectivePerturbation, SelfShaped, check_squared, released_inverse
from fisherleak.engine.noise import Noise
from fisherleak.errors import InvalidInputError

Mask = NDArray[np.bool_]

SCORES = 2**23
"""Scores held at a time."""
ANSWERS_AT_ONCE = 2**22
"""Linear predictors of rows under candidates, for all releases, that are held at a time: 32 MB."""
COORDINATES = 2**21
"""Coordinates of noise vectors held at a time: a density keeps a few arrays of that size, so they should be small."""


def by_distance(delta: Array, b: Array, bonus: Vector, allowed: Mask | None = None) -> Array:
    """Argmax over candidates of 2 Delta . b - |Delta|^2 + bonus.

    Parameters
    ----------
    delta : array of shape (k, m, p)
        Moves; of equal scores the first wins.
    b : array of shape (T, p)
    bonus : array of shape (k, 1) or (k, m)
    allowed : boolean array of shape (k, T, m), optional
        Candidates that can be.

    Returns
    -------
    integer array of shape (T, m)
    """
    xp = namespace(delta)
    offset = like(bonus, delta, xp) - xp.vecdot(delta, delta)
    most = max(1, SCORES // (delta.shape[0] * delta.shape[1]))
    across = xp.matrix_transpose(delta)
    parts = []
    for start in range(0, b.shape[0], most):
        some = slice(start, min(start + most, b.shape[0]))
        score = 2.0 * (b[None, some, :] @ across) + offset[:, None, :]
        if allowed is not None:
            score = xp.where(like(allowed[:, some, :], delta, xp) > 0, score, -np.inf)
        parts.append(xp.argmax(score, axis=0))
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)


def by_density(delta: Array, b: Vector, noise: Noise, log_prior: Vector, allowed: Mask | None = None) -> Array:
    """Argmax over candidates of the noise's own log-density at b - Delta, plus the log prior; as ``by_distance``.

    Computed with NumPy, as densities are, and given back where ``delta`` is.
    """
    moves = host(delta)
    _, m, p = moves.shape
    width = max(1, COORDINATES // p)
    best = np.empty((b.shape[0], m), dtype=np.int64)
    for left in range(0, m, width):
        rows = slice(left, min(left + width, m))
        most = max(1, COORDINATES // (p * (rows.stop - rows.start)))
        for start in range(0, b.shape[0], most):
            some = slice(start, start + most)
            own = log_prior if log_prior.shape[1] == 1 else log_prior[:, rows]
            can_be = None if allowed is None else allowed[:, some, rows]
            best[some, rows] = _likeliest(moves[:, rows, :], b[some], noise, own, can_be)
    return like(best, delta, namespace(delta))


def _likeliest(moves: Vector, b: Vector, noise: Noise, log_prior: Vector, allowed: Mask | None) -> NDArray[np.int64]:
    """The same for a few releases and rows, one candidate after the other."""
    best = np.zeros((b.shape[0], moves.shape[1]), dtype=np.int64)
    highest = np.full(best.shape, -np.inf)
    for k in range(moves.shape[0]):
        score = log_density(noise, b[:, None, :] - moves[k]) + log_prior[k]
        better = score > highest if allowed is None else allowed[k] & ~(score <= highest)
        if allowed is not None:
            # of what can be, one that the noise rules out is still better than none
            better |= allowed[k] & ~np.take_along_axis(allowed, best[None], axis=0)[0]
        best[better] = k
        highest = np.where(better, score, highest)
    return best


def log_density(noise: Noise, b: Vector) -> Vector:
    """The noise's own, refused by name where it cannot rank candidates; minus infinity is a density of zero."""
    found = np.asarray(noise.log_density(b))
    if found.shape != b.shape[:-1] or not np.all(found < np.inf):
        raise InvalidInputError(
            f"{type(noise).__name__}.log_density must give one number below infinity for each noise vector. For vectors of "
            f"shape {b.shape} that is shape {b.shape[:-1]}; got {found.shape}."
        )
    return found


# What releases of a model answer before any link: :math:`z = W' x + b'` for rows and many releases at once.


def with_ones(features: Any, fit: Fit) -> Vector:
    """Rows (…, d) with a last column of ones where the model has an intercept, (…, p)."""
    rows = np.asarray(features, dtype=np.float64)
    return rows if fit.intercept is None else np.concatenate([rows, np.ones((*rows.shape[:-1], 1))], axis=-1)


def linear_scores(rows: Vector, theta: Vector, fit: Fit) -> Vector:
    """Linear predictors (…, T, K) of rows with their ones (…, p) at released parameters (T, K p)."""
    K, p = fit.outputs, rows.shape[-1]
    if K == 1:
        return np.asarray((rows @ theta.T)[..., None])
    d = p - int(fit.intercept is not None)
    by_output = theta[:, : K * d].reshape(-1, K, d)
    if fit.intercept is not None:
        by_output = np.concatenate([by_output, theta[:, K * d :, None]], axis=2)
    found = rows @ by_output.reshape(-1, p).T
    return np.asarray(found.reshape(*rows.shape[:-1], -1, K))


def classes_said(scores: Vector) -> NDArray[np.int64]:
    """Which class a model takes rows to have, 0 to K - 1: scores (…, K) to (…); with one score, 1 above zero."""
    return (scores[..., 0] > 0).astype(np.int64) if scores.shape[-1] == 1 else np.argmax(scores, axis=-1)


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
    """Releases of one fit by objective perturbation, compared with neighbours in which one row differs.

    Parameters
    ----------
    mechanism : ObjectivePerturbation
    fit : Fit
    X, y : arrays of shape (n, d) and (n,)
        The fit's own rows and labels.
    chosen : array of shape (m,)
        The rows that may differ.
    """

    known: ClassVar[bool] = True
    """Whether there is noise without each row."""

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
    """Releases of one fit by one mechanism, compared with neighbours in which one row differs.

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

    known: ClassVar[bool] = True
    """Whether there is noise without each row."""

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
                f"The likelihood under {name} is known for models of one output only: fit one output, or use noise on the "
                "parameters, fisherleak.Gaussian."
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


# Probability that one or two correlated standard normal variables stay below their margins, wherever the margins are.
