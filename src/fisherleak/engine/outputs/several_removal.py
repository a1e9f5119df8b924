r"""Minimisers of several outputs with one example left out, for every example.

Example i is left out and :math:`n \lambda` stays as it is. With r and A its weighted derivatives, :math:`Z = I \otimes x`,
:math:`U = H^{-1} Z` and :math:`N = Z^T U`, a Newton step moves the parameters by

.. math:: D = U (I - A N)^{-1} r, \qquad H_-^{-1} v = H^{-1} v + U (I - A N)^{-1} A\, U^T v ,

which is the move itself for the squared loss. For others chord steps (the same :math:`H_-`, the gradient of all rows) go on
until they are short enough, some examples at a time; those for which they do not settle are fitted again. Where there is no
minimum without an example (the only one of its class beside a free intercept, say), the move is infinite. Scales that are
folded in leave with the example: its penalty changes by :math:`P_i = n\lambda\, \mathrm{diag}(\Delta s^2)` in every output.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host, is_lazy, like, namespace
from fisherleak._support.namespaces import Sums
from fisherleak._support.progress import track
from fisherleak.engine.curvature import factorise
from fisherleak.engine.erm import newton
from fisherleak.engine.left_out import SLOW, MovingScales
from fisherleak.engine.outputs.several_fit import outputs_risk
from fisherleak.engine.outputs.several_jacobian import OutputsJacobian
from fisherleak.engine.outputs.several_risk import OutputsRisk
from fisherleak.engine.removal import AT_MINIMUM, MOST_CHORDS, WORK
from fisherleak.engine.risk import with_constant, within_reach
from fisherleak.errors import FisherleakError, InvalidInputError, NearSingularWarning
from fisherleak.rows import block_elements, gather, map_rows, sum_rows

__all__ = ["is_light_for_several", "several_removal_norms"]

AT_ONCE = 64
"""Examples that are left out in one pass over the rows."""
CAUTION = 0.1
"""Part of the tolerance that the estimate of what is left may take: it is an estimate."""
LIGHT = WORK // 8
"""Products n x n x parameters of a pass that take a few seconds: a pass of several outputs is slower than one of one."""


def is_light_for_several(jacobian: OutputsJacobian) -> bool:
    """Whether the norms of all examples take seconds rather than minutes."""
    n, size = jacobian.fit.n, int(jacobian.fit.theta.shape[0])
    return bool(jacobian.fit.loss.quadratic or (not is_lazy(jacobian.X) and n * n * size <= LIGHT))


def several_removal_norms(jacobian: OutputsJacobian, tolerance: float) -> Array:
    """How far the parameters move when each example is left out, as the noise sees it: (n,); infinite without a minimum."""
    if jacobian.fit.loss.quadratic:
        return _closed_form(jacobian)
    if is_lazy(jacobian.X):
        raise InvalidInputError(
            f"Membership is known for Dask rows with the squared loss only, and the loss is {jacobian.fit.loss.name}: each row "
            "needs a pass over all others. Measure rows in memory, X.compute()."
        )
    task = _task(jacobian, tolerance)
    n = int(jacobian.X.shape[0])
    found = np.empty(n)
    alone = _alone(jacobian)
    for start in track(range(0, n, AT_ONCE), -(-n // AT_ONCE), "Leaving rows out"):
        rows = np.arange(start, min(start + AT_ONCE, n))
        found[rows] = task.lengths(rows)
    found[alone] = np.inf
    return like(found, jacobian.B, namespace(jacobian.B))


def _closed_form(jacobian: OutputsJacobian) -> Array:
    """|B (r (x) x)| / (1 - omega x . G x), with G the inverse Hessian of one output."""
    xp = namespace(jacobian.B)
    make, B, p = jacobian.scores(), jacobian.B, jacobian.width
    G = jacobian.fit.factor.inverse()[:p, :p]

    def block(X: Array, y: Array, weights: Array | None) -> Array:
        part = make(X, y, weights)
        move = xp.reshape(part.r[:, :, None] * part.x[:, None, :], (part.x.shape[0], -1)) @ B.T
        left = 1.0 - part.omega * xp.vecdot(part.x @ G, part.x)
        length = xp.linalg.vector_norm(move, axis=1)
        nothing = left <= np.finfo(float).eps * (64 + jacobian.fit.condition)
        infinite = xp.where(length > 0, xp.full_like(length, np.inf), length)
        return xp.where(nothing, infinite, length / xp.where(nothing, xp.ones_like(left), left))

    return map_rows(block, *jacobian.arrays)


def _alone(jacobian: OutputsJacobian) -> NDArray[np.bool_]:
    """Rows without whose class there is no minimum: the only ones of it, where nothing holds its parameters."""
    fit = jacobian.fit
    y = host(jacobian.y).astype(np.int64)
    counted = np.ones(y.shape[0], dtype=bool) if fit.sample_weight is None else host(fit.sample_weight) > 0
    free = fit.l2 == 0 or (fit.intercept is not None and fit.intercept_l2 == 0)
    of_class = np.bincount(y[counted], minlength=int(fit.coef.shape[0]))
    return np.asarray(counted & free & (of_class[y] == 1))


def _task(jacobian: OutputsJacobian, tolerance: float) -> _Removal:
    """At the minimum itself: a fit that is not quite there is moved."""
    fit = jacobian.fit
    risk = outputs_risk(fit, jacobian.X, jacobian.y)
    theta, factor = fit.reduced, fit.factor
    if (fit.distance if fit.left is None else fit.left) > AT_MINIMUM:
        theta, _, factor, _ = newton(risk, theta, risk.at(theta, curvature=True), factor)
    return _Removal(risk, theta, factor.inverse(), jacobian.metric, tolerance, MovingScales.of(jacobian))


@dataclass(frozen=True)
class _Removal:
    """What leaving examples out has to know."""

    risk: OutputsRisk
    theta: Array
    B: Array
    """H^-1, (L p, L p)."""
    metric: Array
    """How the noise sees a move of theta."""
    tolerance: float
    fold: MovingScales | None = None

    def lengths(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Those of some examples."""
        xp = namespace(self.theta)
        out = _Out.of(self, rows)
        start = self.theta[None, :] + xp.zeros_like(out.weighted)
        moves = out.solve(out.gradient(start) - out.pushed(start))
        left, size = xp.ones_like(out.omega), self._seen(moves)
        lengths, last = np.array(host(size)), np.full(rows.size, np.inf)
        going = np.ones(rows.size, dtype=bool)
        settled = np.zeros(rows.size, dtype=bool)
        for _ in range(MOST_CHORDS):
            points = self.theta[None, :] + moves
            step = out.solve(out.gradient(points) - self._gradients(points) - out.pushed(points))
            moved, now = host(self._seen(step)), host(self._seen(moves + step))
            fits = np.isfinite(moved) & (moved <= SLOW * np.maximum(last, np.finfo(float).tiny))
            # what is left after a step shrinks by the same ratio for ever
            ratio = np.where(np.isfinite(last), moved / np.maximum(last, np.finfo(float).tiny), 0.5)
            rest = moved * np.minimum(ratio, SLOW) / (1.0 - np.minimum(ratio, SLOW))
            done = going & fits & (rest <= CAUTION * self.tolerance * np.maximum(now, np.finfo(float).tiny))
            lengths[done], settled[done] = now[done], True
            going = going & fits & ~done
            if not going.any():
                break
            moves, last = moves + like(going.astype(float), left, xp)[:, None] * step, moved
        for k in np.flatnonzero(~settled):
            lengths[k] = self._refitted(int(rows[k]))
        return lengths

    def _seen(self, moves: Array) -> Array:
        return namespace(moves).linalg.vector_norm(moves @ self.metric.T, axis=1)

    def _gradients(self, points: Array) -> Array:
        """The gradient of the whole risk at several parameters, (c, L p)."""
        risk = self.risk
        xp = namespace(points)
        count, L, p = points.shape[0], risk.size // risk.width, risk.width
        V = xp.reshape(points, (count * L, p))
        loss, Q, intercept, centre, K = risk.loss, risk.frame, risk.intercept, risk.centre, risk.outputs

        def block(X: Array, y: Array, weights: Array | None) -> Sums:
            x = with_constant(X, intercept, centre)
            b = x.shape[0]
            z = within_reach(xp.reshape(x @ V.T, (b * count, L)) @ Q.T)
            labels = xp.reshape(xp.broadcast_to(y[:, None], (b, count)), (-1,))
            r = xp.reshape(loss.gradient(z, labels) @ Q, (b, count * L))
            r = r if weights is None else r * weights[:, None]
            return (r.T @ x,)

        most = max(1, block_elements(risk.X) // (count * K))
        (total,) = sum_rows(block, risk.X, risk.y, risk.weights, most=most)
        return xp.reshape(total, (count, L * p)) + risk.penalty[None, :] * points

    def _refitted(self, row: int) -> float:
        """From a fit without the row."""
        risk = self.risk
        xp = namespace(self.theta)
        weights = np.ones(risk.X.shape[0]) if risk.weights is None else np.array(host(risk.weights))
        weights[row] = 0.0
        other = replace(risk, weights=like(weights, self.theta, xp), known_centre=risk.centre)
        if self.fold is not None:
            X, own = gather((risk.X, risk.weights), like(np.array([row]), self.theta, xp))
            other = replace(other, scales=xp.sqrt(self.fold.squares + self.fold.changes(X, own)[0, :]))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NearSingularWarning)
                at = other.at(self.theta, curvature=True)
                assert at.hessian is not None
                theta, *_ = newton(other, self.theta, at, factorise(at.hessian, other.parameter_names))
        except FisherleakError:
            return float("inf")
        return float(self._seen((theta - self.theta)[None, :])[0])


@dataclass(frozen=True)
class _Out:
    """Examples that are left out, one at a time."""

    task: _Removal
    x: Array
    y: Array
    omega: Array
    U: Array
    """(c, L p, L)."""
    inner: Array
    """(I - A N)^-1 A, (c, L, L)."""
    weighted: Array
    """(c, L p): zero, of the shape of moves."""
    push: Array | None
    """(c, L p): the diagonal of P."""

    @classmethod
    def of(cls, task: _Removal, rows: NDArray[np.int64]) -> _Out:
        risk = task.risk
        xp = namespace(task.theta)
        X, y, weights = gather((risk.X, risk.y, risk.weights), like(rows, task.theta, xp))
        x = with_constant(X, risk.intercept, risk.centre)
        c, L, p = x.shape[0], risk.size // risk.width, risk.width
        omega = xp.ones_like(x[:, 0]) if weights is None else weights
        z = within_reach((x @ xp.reshape(task.theta, (L, p)).T) @ risk.frame.T)
        A = risk.loss.curvature(z, risk.frame) * omega[:, None, None]
        blocks = xp.reshape(xp.permute_dims(xp.reshape(task.B, (L * p, L, p)), (2, 0, 1)), (p, -1))
        U = xp.reshape(x @ blocks, (c, L * p, L))
        N = xp.sum(xp.reshape(U, (c, L, p, L)) * x[:, None, :, None], axis=2)
        eye = like(np.eye(L), x, xp)[None, :, :]
        inner = xp.linalg.solve(eye * (1.0 + np.finfo(float).eps) - A @ N, A)
        push = None if task.fold is None else xp.tile(task.fold.push(X, weights), (1, L))
        return cls(task, x, y, omega, U, inner, xp.zeros_like(U[:, :, 0]), push)

    def gradient(self, points: Array) -> Array:
        """That of the examples' own losses at parameters of theirs, (c, L p)."""
        risk = self.task.risk
        xp = namespace(points)
        c, L = self.x.shape[0], risk.size // risk.width
        z = (xp.reshape(points, (c, L, -1)) @ self.x[:, :, None])[:, :, 0]
        r = risk.loss.gradient(within_reach(z @ risk.frame.T), self.y) @ risk.frame * self.omega[:, None]
        return xp.reshape(r[:, :, None] * self.x[:, None, :], (c, -1))

    def pushed(self, points: Array) -> Array:
        """P of each example times parameters of its own."""
        return namespace(points).zeros_like(points) if self.push is None else self.push * points

    def solve(self, gradient: Array) -> Array:
        """H_-^-1 gradient."""
        along = namespace(gradient).matrix_transpose(self.U) @ gradient[:, :, None]
        return gradient @ self.task.B + (self.U @ (self.inner @ along))[:, :, 0]
