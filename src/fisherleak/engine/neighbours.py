r"""Minimisers of neighbouring data sets, without fitting again.

Replace the features x of one example by x + e. The Hessian changes by rank two and, with :math:`U = [x, e]`, primes for
the derivatives at x + e and the old parameters,

.. math::

    H' = H + U K U^T, \quad K = \omega \begin{pmatrix} a' - a & a' \\ a' & a' \end{pmatrix}, \qquad
    g' = U c, \quad c = \omega \begin{pmatrix} r' - r \\ r' \end{pmatrix}

so that one Newton step, :math:`-H'^{-1} g' = -H^{-1} U (I + K M)^{-1} c` with :math:`M = U^T H^{-1} U`, moves to the new
minimum: exactly for the squared loss, to a first approximation for the others, which chord steps (the same H', the
gradient of all rows) then improve. All examples at once in O(n d^2), and O(n^2 d) for each chord step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fisherleak._support.arrays import Array, device, host, namespace
from fisherleak._support.progress import track
from fisherleak.engine.erm import Fit, fit_at
from fisherleak.engine.risk import Risk, with_constant
from fisherleak.errors import FisherleakError
from fisherleak.rows import map_rows, rows_per_block, sum_rows

__all__ = ["Moves", "gradients_at", "moves", "refitted", "risk_of_fit"]

UNSURE = 1e-6
"""det H' / det H below which the update has lost digits: such examples are fitted again, one by one."""
EPSILON = float(np.finfo(np.float64).eps)
CLOSE = 1e-8
"""A chord step of at most this part of the move is the last."""
ROUNDING = 1e-14
"""So is one of at most this part of the parameters themselves."""
MOST_CHORDS = 8
"""Examples that need more are fitted again, one by one."""
AT_ONCE = 512
"""Neighbours whose gradients are summed in one pass over the rows."""


@dataclass(frozen=True)
class Moves:
    """How far the released parameters move when one example changes.

    Parameters
    ----------
    values : array of shape (m, p)
        Exactly zero where nothing changes or the example has no weight.
    error : array of shape (m,)
        How far each move may be off. With a penalty on every parameter and a loss other than the squared, a bound on its
        norm: |gradient| / (n l2). For the squared loss, an estimate of rounding from the condition number; otherwise the
        length of the last step, which is no bound.
    refitted : int
        How many were fitted again, because the steps did not settle or the update lost digits.
    """

    values: Array
    error: Array
    refitted: int


@dataclass(frozen=True)
class _Neighbours:
    """Examples x (m, p) that become x + e, with what a Newton step needs."""

    rows: Array
    x: Array
    e: Array
    y: Array
    omega: Array


@dataclass(frozen=True)
class _Update:
    """H'^-1 for each neighbour: H^-1 less U-shaped rank two, (I + K M)^-1 in ``inverse`` (four arrays)."""

    B: Array
    Bx: Array
    Be: Array
    k: tuple[Array, Array]
    inverse: tuple[Array, Array, Array, Array]
    det: Array

    def along(self, first: Array, second: Array) -> Array:
        """H'^-1 (first x + second e)."""
        a, b, c, d = self.inverse
        return (a * first + b * second)[:, None] * self.Bx + (c * first + d * second)[:, None] * self.Be

    def solve(self, gradient: Array, x: Array, e: Array) -> Array:
        """H'^-1 gradient = B g - B U (I + K M)^-1 K U^T B g."""
        xp = namespace(gradient)
        Bg = gradient @ self.B
        on_x, on_e = xp.sum(x * Bg, axis=1), xp.sum(e * Bg, axis=1)
        change, new = self.k
        return Bg - self.along(change * on_x + new * on_e, new * (on_x + on_e))


def moves(fit: Fit, X: Array, y: Array, rows: Array, changed: Array, what: str = "the change") -> Moves:
    """How the parameters move when each of some rows, alone, takes other features.

    Parameters
    ----------
    fit : Fit
    X : array of shape (n, d)
        The features it was fitted on.
    y : array of shape (n,)
    rows : integer array of shape (m,)
        The rows that change, one at a time.
    changed : array of shape (m, d)
        Their new features.
    what : str
        Names the change in a refusal.
    """
    xp = namespace(X)
    real = _real_changes(fit, X, rows, changed)
    count = int(xp.sum(xp.astype(real, xp.int64)))
    # a first row of zeros stands for every change that is none
    place = xp.where(real, xp.cumulative_sum(xp.astype(real, xp.int64)), 0)
    values = xp.zeros((1, fit.theta.shape[0]), dtype=xp.float64, device=device(X))
    error = xp.zeros((1,), dtype=xp.float64, device=device(X))
    refitted = 0
    if count:
        chosen = xp.nonzero(real)[0]
        found = _moved(fit, X, y, xp.take(rows, chosen, axis=0), xp.take(changed, chosen, axis=0), what)
        values = xp.concat([values, found.values], axis=0)
        error = xp.concat([error, found.error], axis=0)
        refitted = found.refitted
    values = fit.uncentred(values.T).T
    return Moves(xp.take(values, place, axis=0), xp.take(error, place, axis=0), refitted)


def _real_changes(fit: Fit, X: Array, rows: Array, changed: Array) -> Array:
    """Where the features differ and the example has a weight."""
    xp = namespace(X)

    def block(changed: Array, rows: Array) -> Array:
        return xp.any(
            with_constant(xp.take(X, rows, axis=0), False, None) != with_constant(changed, False, None), axis=1
        )

    real = map_rows(block, changed, rows)
    return real if fit.sample_weight is None else real & (xp.take(fit.sample_weight, rows, axis=0) > 0)


def _moved(fit: Fit, X: Array, y: Array, rows: Array, changed: Array, what: str) -> Moves:
    """The same for changes that are real, and for rows as they are centred."""
    xp = namespace(X)

    def block(changed: Array, rows: Array) -> Array:
        update, gradient = _newton(fit, _neighbours(fit, X, y, rows, changed))
        return xp.concat([-update.along(*gradient), update.det[:, None]], axis=1)

    found = map_rows(block, changed, rows)
    values, det = found[:, :-1], found[:, -1]
    risk = risk_of_fit(fit, X, y)
    loose = ~(det > UNSURE)
    if fit.loss.quadratic:
        digits = EPSILON * (fit.condition + 1.0 / xp.where(loose, 1.0, det))
        error = digits * xp.sqrt(xp.sum(values * values, axis=1))
    else:
        values, error, unsettled = _improved(fit, risk, rows, changed, values)
        loose = loose | unsettled
    again = host(xp.nonzero(loose)[0]).tolist()
    for k in again:
        values[k, :], error[k] = _refit(fit, risk, int(rows[k]), changed[k, :], what)
    return Moves(values, error, len(again))


def risk_of_fit(fit: Fit, X: Array, y: Array) -> Risk:
    """The risk that a fit is the minimum of, for rows as they are centred."""
    names = (*(f"feature {j}" for j in range(X.shape[1])), "intercept")
    intercept = fit.intercept is not None
    own = (fit.sample_weight, fit.loss, fit.l2, intercept, fit.intercept_l2, names, fit.centre, fit.scales)
    return Risk(X, y, *own)


def _neighbours(fit: Fit, X: Array, y: Array, rows: Array, changed: Array) -> _Neighbours:
    xp = namespace(X)
    intercept = fit.intercept is not None
    old = xp.take(X, rows, axis=0)
    x = with_constant(old, intercept, fit.centre)
    e = with_constant(changed, False, None) - with_constant(old, False, None)
    if intercept:
        e = xp.concat([e, xp.zeros_like(e[:, :1])], axis=1)
    labels = xp.take(y, rows, axis=0)
    omega = xp.ones_like(labels) if fit.sample_weight is None else xp.take(fit.sample_weight, rows, axis=0)
    return _Neighbours(rows, x, e, labels, omega)


def _newton(fit: Fit, near: _Neighbours) -> tuple[_Update, tuple[Array, Array]]:
    """The changed Hessian, and the changed gradient as its parts along x and e."""
    xp = namespace(near.x)
    theta, loss = fit.centred_theta, fit.loss
    B = fit.factor.inverse()
    Bx, Be = near.x @ B, near.e @ B
    m11, m12, m22 = xp.sum(near.x * Bx, axis=1), xp.sum(near.x * Be, axis=1), xp.sum(near.e * Be, axis=1)
    z = near.x @ theta
    step = near.e @ theta
    r, a = loss.r(z, near.y), loss.a(z, near.y)
    new_r, new_a = loss.r(z + step, near.y), loss.a(z + step, near.y)
    new = near.omega * new_a
    change = near.omega * (new_a - a)
    a11, a12 = 1.0 + change * m11 + new * m12, change * m12 + new * m22
    a21, a22 = new * (m11 + m12), 1.0 + new * (m12 + m22)
    det = a11 * a22 - a12 * a21
    safe = xp.where(det > UNSURE, det, 1.0)
    inverse = (a22 / safe, -a12 / safe, -a21 / safe, a11 / safe)
    difference = step if loss.quadratic else new_r - r
    return _Update(B, Bx, Be, (change, new), inverse, det), (near.omega * difference, near.omega * new_r)


def _improved(fit: Fit, risk: Risk, rows: Array, changed: Array, values: Array) -> tuple[Array, Array, Array]:
    """Chord steps for a few hundred neighbours at a time: moves, how far they may be off, and which did not settle."""
    xp = namespace(values)
    count = values.shape[0]
    parts = []
    for start in track(range(0, count, AT_ONCE), -(-count // AT_ONCE), "Refitting"):
        part = slice(start, min(start + AT_ONCE, count))
        near = _neighbours(fit, risk.X, risk.y, rows[part], changed[part, ...])
        parts.append(_chords(fit, risk, near, _newton(fit, near)[0], values[part, ...]))
    moved, error, loose = (xp.concat(list(each), axis=0) for each in zip(*parts, strict=True))
    return moved, error, loose


def _chords(fit: Fit, risk: Risk, near: _Neighbours, update: _Update, values: Array) -> tuple[Array, Array, Array]:
    """Moves, the bound on their errors, and which did not settle."""
    xp = namespace(values)
    least = _least_penalty(risk)
    rounding = ROUNDING * float(xp.sqrt(xp.sum(fit.centred_theta**2)))
    for _ in range(MOST_CHORDS):
        gradient = _gradients(fit, risk, near, values)
        step = update.solve(gradient, near.x, near.e)
        values = values - step
        length = xp.sqrt(xp.sum(step * step, axis=1))
        size = xp.sqrt(xp.sum(values * values, axis=1))
        loose = ~((length <= CLOSE * size) | (length <= rounding))
        if not bool(xp.any(loose)):
            break
    error = length
    if least > 0:
        # the bound holds before the last step: after it, it may grow by the step's length at most
        error = xp.sqrt(xp.sum(gradient * gradient, axis=1)) / least + length
    return values, error, loose


def _gradients(fit: Fit, risk: Risk, near: _Neighbours, values: Array) -> Array:
    """Gradient of each neighbour's risk at its own parameters, (m, p): all rows, less the old example, plus the new."""
    xp = namespace(values)
    loss = fit.loss
    theta = fit.centred_theta[None, :] + values
    z = xp.sum(near.x * theta, axis=1)
    step = xp.sum(near.e * theta, axis=1)
    old, new = near.omega * loss.r(z, near.y), near.omega * loss.r(z + step, near.y)
    return gradients_at(risk, theta) + (new - old)[:, None] * near.x + new[:, None] * near.e


def gradients_at(risk: Risk, theta: Array) -> Array:
    """Gradient of the risk of all rows at each of several parameters (m, p), for rows as they are centred: (m, p)."""
    xp = namespace(theta)
    loss, intercept, centre = risk.loss, risk.intercept, risk.centre
    most = max(64, rows_per_block(theta.shape[0], theta))

    def block(X: Array, y: Array, weights: Array | None) -> tuple[Array]:
        x = with_constant(X, intercept, centre)
        z = x @ theta.T
        r = loss.r(z, xp.broadcast_to(y[:, None], z.shape))
        r = r if weights is None else weights[:, None] * r
        return (r.T @ x,)

    (total,) = sum_rows(block, risk.X, risk.y, risk.weights, most=most)
    return total + risk.penalty[None, :] * theta


def _least_penalty(risk: Risk) -> float:
    """N l2, or zero where a parameter is not penalised: the least curvature of any neighbour's risk."""
    return min(float(x) for x in host(risk.penalty))


def _refit(fit: Fit, risk: Risk, row: int, features: Array, what: str) -> tuple[Array, float]:
    """A true fit of one neighbour: its move, for rows as they are centred, and how far it may be off."""
    xp = namespace(risk.X)
    X = xp.astype(risk.X, xp.float64, copy=True)
    X[row, :] = xp.astype(features, xp.float64)
    try:
        return refitted(fit, replace(risk, X=X))
    except FisherleakError as error:
        raise type(error)(
            f"With {what} in row {row} there is no model to compare with: {error} Or leave the row out with rows=."
        ) from None


def refitted(fit: Fit, other: Risk) -> tuple[Array, float]:
    """The move from a fit to the minimum of another risk, for rows as they are centred, and how far it may be off."""
    xp = namespace(other.X)
    fresh = fit_at(other, fit.theta, polish=True)
    theta = fresh.centred_theta
    left, least = other.at(theta, curvature=False).gradient, _least_penalty(other)
    rounding = EPSILON * fresh.condition * float(xp.sqrt(xp.sum(theta * theta)))
    if least > 0:
        rounding += float(xp.sqrt(xp.sum(left * left))) / least
    return theta - fit.centred_theta, rounding
