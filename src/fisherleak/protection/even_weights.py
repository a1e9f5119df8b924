r"""Weights with which a whole procedure reveals as much of everyone: their public form, the fits, and the exact derivative.

**What they solve.** A row pulls at the parameters by :math:`\rho\, x`, with :math:`\rho = \omega r`, and moves them by
:math:`\rho\, M x`, M the noise's root times the inverse of the derivative S of all pulls. With :math:`t = |\rho|\, |M x|`,
n the direction of M x and :math:`P = I - n n^T`, that has a derivative of norm c by features along E and the label if

.. math:: \nabla t^T (c^2 I - \rho^2 E^T M^T P M E)^{-1} \nabla t = 1 ,

an eikonal equation. For small residuals t is c times the distance from r = 0, and :math:`|\rho| = c / \|M E\|` solves it
everywhere. The solution that begins with the first and ends with the second is their minimum, with a kink where they meet:

.. math:: \omega = c \min\Big(\frac{1}{|M x|\, |\nabla r|},\; \frac{1}{\|M E\|\, |r|}\Big)
          \approx c\, (\alpha^k + |r|^k)^{-1/k}, \qquad \alpha = |M x|\, |\nabla r| / \|M E\| .

The rounded form (k = ``SHARP``) is what is run: near the kink it falls short of the equation, and the distance is that of the
first order in r.

**The fits.** From parameters and S of one round come the :math:`\alpha` of the rows; the next round solves
:math:`\sum \rho\, x + \Lambda \theta = 0` with these, whose solution is the weighted fit with the weights
:math:`\omega(\alpha, r)` at it. Its S is :math:`\sum b\, x x^T + \Lambda`, b the derivative of :math:`\rho` by the predictor
with a rounder kink (k = ``ROUND``), so that no single row moves S by much. The first round is the plain fit, S its Hessian.

**The derivative** is carried backwards through all rounds, as that of the last parameters by the theta (p, p) and S (p, p, p)
of a round, for all rows and values together: with how a row moves S, c and the :math:`\alpha` of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fisherleak.engine.erm import Fit, fit_at
from fisherleak.errors import InvalidInputError, NotConvergedError
from fisherleak.protection.limited import raw_map
from fisherleak.protection.reweight import SMALLEST_PART
from fisherleak.protection.whole_procedure import Curve, Procedure, Split, moves, split, top

__all__ = ["EvenRound", "EvenWeights"]

Vector = NDArray[np.float64]
SHARP = 32
"""How sharp the kink of the weights is."""
ROUND = 8
"""And that of S."""
MOST_STEPS = 100
CLOSE = 1e-11
"""Newton step at which a round is done, relative to the parameters."""


@dataclass(frozen=True)
class _Thresholds:
    """Log alpha of each row, and how it depends on the state and on the row's own values."""

    log: Vector
    g: Vector
    h: Vector
    """By S it is -g h^T + common: (n, p) both."""
    common: Vector
    """(p, p)."""
    by_theta: Vector
    by_values: Vector


@dataclass(frozen=True)
class EvenRound:
    """One round: its parameters, the weights at which they are a weighted fit, and S."""

    theta: Vector
    weights: Vector
    eta: Vector
    """With the weights held fixed."""
    curve: Curve
    S: Vector
    A: Vector
    """The derivative of all pulls at given alpha, (p, p)."""
    rho: Vector
    by_r: Vector
    """Of rho, at given alpha."""
    tau: Vector
    """Minus the derivative of log omega by log alpha."""
    b: Vector
    b_z: Vector
    b_y: Vector
    b_log: Vector
    """Of b by the predictor, the label, log alpha."""
    given: _Thresholds | None
    """None for the plain fit."""
    log_c: float


@dataclass(frozen=True)
class EvenWeights:
    """Rounds of weights of that form on what a procedure has: its rows, directions, noise and number of rounds."""

    procedure: Procedure

    @property
    def _directions(self) -> Split:
        return split(self.procedure.directions, self.procedure.rows.shape[1])

    @property
    def _penalty(self) -> Vector:
        return np.asarray(self.procedure.risk.penalty, dtype=np.float64)

    @property
    def _y(self) -> Vector:
        return np.asarray(self.procedure.risk.y, dtype=np.float64)

    def run(self) -> list[EvenRound]:
        """The plain fit and as many rounds as there are reweightings."""
        of = self.procedure
        found = [self._plain()]
        for _ in range(of.count):
            found.append(self._next(found[-1]))
        return found

    def etas(self, rounds: Sequence[EvenRound]) -> Vector:
        """Of the whole procedure, (n,)."""
        return self.procedure.norms(self.derivative(rounds), self.procedure.noise)[0]

    def _plain(self) -> EvenRound:
        of = self.procedure
        given = of.counted if of.risk.weights is None else of.risk.weights
        w: Vector = np.asarray(given, dtype=np.float64)
        fit = fit_at(replace(of.risk, weights=w), of.theta, True)
        at = self._curve(np.asarray(fit.theta))
        S = self._summed(w * at.a)
        return EvenRound(
            *(np.asarray(fit.theta), w, self._fixed(fit, w, at), at, S, S, w * at.r, w, np.ones(len(w))),
            *(w * at.a, w * at.a_z, w * at.a_y, np.zeros(len(w)), None, 0.0),
        )

    def _next(self, last: EvenRound) -> EvenRound:
        of = self.procedure
        known, counted = self.thresholds(last), of.counted
        total = float(np.sum(counted if of.risk.weights is None else np.asarray(of.risk.weights)))
        log_c = float(np.log(total / np.sum(np.exp(_rounded(known.log, last.curve.r, SHARP)[0][counted]))))
        theta = self._solved(last.theta, known.log, log_c)
        at = self._curve(theta)
        weights, tau = self._weights(known.log, at.r, log_c, SHARP)
        fit = fit_at(replace(of.risk, weights=weights), theta, True)
        wide, share = self._weights(known.log, at.r, log_c, ROUND)
        slope = wide * share
        falls = (1.0 + ROUND) * _over(1.0 - share, at.r) * at.a * slope
        b = at.a * slope
        return EvenRound(
            *(theta, weights, self._fixed(fit, weights, at), at, self._summed(b), self._summed(weights * tau * at.a)),
            *(weights * at.r, weights * tau, tau, b, slope * at.a_z - falls * at.a, slope * at.a_y - falls * at.c),
            *(b * (ROUND * (1.0 - share) - share), known, log_c),
        )

    def _solved(self, theta: Vector, log_alpha: Vector, log_c: float) -> Vector:
        """Parameters at which the pulls and the penalty cancel: Newton, halved where that brings them no nearer."""
        X = self.procedure.rows

        def pulls(at: Vector) -> tuple[Vector, Vector]:
            curve = self._curve(at)
            weights, tau = self._weights(log_alpha, curve.r, log_c, SHARP)
            return X.T @ (weights * curve.r) + self._penalty * at, weights * tau * curve.a

        f, slopes = pulls(theta)
        for _ in range(MOST_STEPS):
            A = self._summed(slopes)
            step = np.linalg.solve(A, f)
            size = float(step @ A @ step)
            part = 1.0
            while True:
                trial = theta - part * step
                f_trial, slopes = pulls(trial)
                if float(f_trial @ np.linalg.solve(A, f_trial)) <= (1.0 - 0.1 * part) * size or part < 1e-4:
                    break
                part *= 0.5
            done = size <= CLOSE**2 * float(theta @ A @ theta)
            theta, f = trial, f_trial
            if done:
                return theta
        raise NotConvergedError(
            "IRFIL(account='end-to-end') found no parameters for its weights: use a larger penalty, or "
            "account='weights-fixed'."
        )

    def _curve(self, theta: Vector) -> Curve:
        return Curve.of(self.procedure.risk.loss, self.procedure.rows @ theta, self._y)

    def _weights(self, log_alpha: Vector, r: Vector, log_c: float, k: int) -> tuple[Vector, Vector]:
        """Omega, zero for rows that do not count, and tau."""
        log_omega, tau = _rounded(log_alpha, r, k)
        return np.where(self.procedure.counted, np.exp(log_omega + log_c), 0.0), tau

    def _summed(self, b: Vector) -> Vector:
        X = self.procedure.rows
        S = (X.T * b) @ X
        return np.asarray(S + np.diag(self._penalty))

    def _root(self, S: Vector) -> Vector:
        """M."""
        root, B = self.procedure.noise.unit_information_root(len(S)), np.linalg.inv(S)
        return np.asarray(B if root is None else root @ B)

    def _fixed(self, fit: Fit, weights: Vector, at: Curve) -> Vector:
        """Etas with the weights held fixed."""
        of, U = self.procedure, raw_map(fit)
        root, B = of.noise.unit_information_root(len(U)), U @ U.T
        N = moves(of.rows, self._directions, at, np.asarray(fit.theta)) * of.there[:, None, :]
        return np.asarray(weights * top((B if root is None else root @ B) @ N)[0] / float(of.noise.scale))

    def thresholds(self, state: EvenRound) -> _Thresholds:
        """Log alpha at a state."""
        X, (Vx, vy), at = self.procedure.rows, self._directions, state.curve
        M, B = self._root(state.S), np.linalg.inv(state.S)
        moved, along = X @ M.T, Vx.T @ state.theta
        lengths = np.sum(moved**2, axis=1)
        U, sizes, T = np.linalg.svd(M @ Vx, full_matrices=False)
        # classes are never quite fitted: without their label no surface r = 0 is near, and it stands in
        spread, label = float(along @ along), float(self.procedure.risk.separable or vy @ vy)
        slope = at.a**2 * spread + at.c**2 * label
        product = np.sqrt(lengths * slope)
        if not np.all(product[self.procedure.counted] > SMALLEST_PART * product[self.procedure.counted].mean()):
            raise InvalidInputError(
                "account='end-to-end' needs an eta above zero for every row whose residual is zero, and some row has none: "
                "leave such rows out, or use account='weights-fixed'."
            )
        lengths, slope, product = (np.where(self.procedure.counted, x, 1.0) for x in (lengths, slope, product))
        g = moved @ M / lengths[:, None]
        by_z = (at.a * at.a_z * spread + at.c * at.a_y * label) / slope
        by_y = (at.a * at.a_y * spread + at.c * at.c_y * label) / slope
        by_theta = by_z[:, None] * X + np.outer(at.a**2 / slope, Vx @ along)
        by_values = g @ Vx + np.outer(by_z, along) + np.outer(by_y, vy)
        common = np.outer(M.T @ U[:, 0] / sizes[0], B @ (Vx @ T[0]))
        return _Thresholds(np.log(product / sizes[0]), g, X @ B, common, by_theta, by_values)

    def derivative(self, rounds: Sequence[EvenRound]) -> Vector:
        """Of the last parameters by each row's values, (n, p, m): backwards through all rounds."""
        X, (Vx, vy) = self.procedure.rows, self._directions
        n, p = X.shape
        by_theta, by_S = np.eye(p), np.zeros((p, p, p))
        J = np.zeros((n, p, len(vy)))
        for k in range(len(rounds) - 1, -1, -1):
            at, curve = rounds[k], rounds[k].curve
            bent = np.einsum("jab,na,nb->nj", by_S, X, X, optimize=True)
            Q = -np.linalg.solve(at.A, (by_theta + (at.b_z[:, None] * bent).T @ X).T).T
            pulled = X @ Q.T
            along = Vx.T @ at.theta
            J += at.rho[:, None, None] * (Q @ Vx)
            J += (at.by_r[:, None] * pulled)[:, :, None] * curve.moved(along, vy)[:, None, :]
            J += bent[:, :, None] * (np.outer(at.b_z, along) + np.outer(at.b_y, vy))[:, None, :]
            J += 2.0 * at.b[:, None, None] * np.einsum("na,jab,bm->njm", X, by_S, Vx, optimize=True)
            if at.given is None:
                break
            by_log = (at.b_log[:, None] * bent) - (at.rho * at.tau)[:, None] * pulled
            by_c = at.rho @ pulled + at.b @ bent
            J, by_theta, by_S = self._before(rounds[k - 1], at.given, J, (by_log, by_c))
        return J * self.procedure.there[:, None, :]

    def _before(
        self, last: EvenRound, known: _Thresholds, J: Vector, adjoint: tuple[Vector, Vector]
    ) -> tuple[Vector, Vector, Vector]:
        """From log alpha and log c to the state they came from: J with the rows' own part, and the derivatives by it."""
        X, (Vx, vy), curve = self.procedure.rows, self._directions, last.curve
        by_log, by_c = adjoint
        weights, tau = self._weights(known.log, curve.r, 0.0, SHARP)
        by_omega = -np.outer(weights / weights.sum(), by_c)
        by_r = -_over(1.0 - tau, curve.r)[:, None] * by_omega
        by_log = by_log - tau[:, None] * by_omega
        J = J + by_log[:, :, None] * known.by_values[:, None, :]
        J = J + by_r[:, :, None] * curve.moved(Vx.T @ last.theta, vy)[:, None, :]
        by_theta = by_log.T @ known.by_theta + (curve.a[:, None] * by_r).T @ X
        by_S = np.einsum("j,ab->jab", by_log.sum(axis=0), known.common)
        by_S = by_S - np.einsum("nj,na,nb->jab", by_log, known.g, known.h, optimize=True)
        return J, by_theta, 0.5 * (by_S + by_S.transpose(0, 2, 1))


def _rounded(log_alpha: Vector, r: Vector, k: int) -> tuple[Vector, Vector]:
    """Log of (alpha^k + |r|^k)^(-1/k), and tau, the part of alpha in the sum."""
    log_r = np.log(np.maximum(np.abs(r), np.finfo(np.float64).tiny))
    high = np.logaddexp(k * log_alpha, k * log_r)
    return -high / k, np.exp(k * log_alpha - high)


def _over(small: Vector, r: Vector) -> Vector:
    """``small`` / r, which goes to zero with r."""
    return np.asarray(np.where(r == 0.0, 0.0, small / np.where(r == 0.0, 1.0, r)))
