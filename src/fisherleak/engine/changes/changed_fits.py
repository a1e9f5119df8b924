"""True fits of changed data, where steps do not converge: one by one, or many at once.

Mathematics: 4.5, ``docs/mathematics/changes.md``.

Also here: moves that do not converge because curvatures change on the way: followed by the gradient of all rows.

Mathematics: 4.4, ``docs/mathematics/changes.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host, is_numpy, like, namespace, row_dots
from fisherleak._support.namespaces import Vector
from fisherleak.engine.changes.changed_rows import (
    EPSILON,
    UNSURE,
    ChangedHessian,
    ChangedRows,
    Rows,
    members,
    middle,
    put_rows,
    times_rows,
)
from fisherleak.engine.changes.starting_fit import AT_ONCE, FAR, MovingPenalty, StartingFit, gradients_at
from fisherleak.engine.fit.factored_hessian import REFUSE_ABOVE
from fisherleak.engine.fit.minimise import Fit, fit_at
from fisherleak.engine.fit.risk import Risk, largest_of, with_constant
from fisherleak.engine.losses.loss import ReducedLoss
from fisherleak.rows import block_elements, gather, positions, sum_rows

REFITTED = 10.0
"""Error of a fit without rows, in what counts as rounding."""
MOST_STEPS = 40
FURTHEST = 3.0
"""How far a step may move a score: curvatures change by about its exponential."""
NEAR = 1e-9
"""Part of the parameters that the last step is at most, and of its terms that the gradient is there."""
VALUES = 2**21
"""Rows times parameters that are held at a time."""
SMALL = 2**16
"""Rows times parameters of a table up to which it pays."""
WIDE = 2
"""Columns are far more than rows if they are so many times as many."""


def refitted(fit: Fit, other: Risk) -> tuple[Array, float]:
    """The move from a fit to the minimum of another risk, for rows as they are centred, and how far it may be off."""
    xp = namespace(other.X)
    fresh = fit_at(other, fit.theta, polish=True)
    theta = fresh.centred_theta
    left, least = other.at(theta, curvature=False).gradient, min(float(x) for x in host(other.penalty))
    rounding = EPSILON * fresh.condition * float(xp.sqrt(xp.sum(theta * theta)))
    if least > 0:
        # a risk bends by no less than its least penalty: |D_* - D| <= |g| / least
        rounding += float(xp.sqrt(xp.sum(left * left))) / least
    return theta - fit.centred_theta, rounding


def changed_risk(shared: StartingFit, changes: ChangedRows, place: int) -> Risk:
    """The risk with one of the changes."""
    rows = members(changes.rows[place, :])
    own = slice(0, rows.size)
    risk = _with_weights(shared.risk, rows, host(changes.new_omega)[place, own], shared.moving)
    xp = namespace(risk.X)
    if changes.push is not None and shared.moving is None:  # the squared scales change as the penalty does
        penalty = host(risk.penalty)[: risk.X.shape[1]]
        grown = 1.0 + host(changes.push)[place, : penalty.size] / np.where(penalty > 0, penalty, 1.0)
        own_scales = np.ones(penalty.size) if risk.scales is None else host(risk.scales)
        risk = replace(risk, scales=like(own_scales * np.sqrt(np.maximum(grown, 0.0)), risk.X, xp))
    if changes.e is not None:
        X = np.array(host(risk.X), dtype=np.float64)
        X[rows] += host(changes.e)[place, own, : X.shape[1]]
        risk = replace(risk, X=like(X, risk.X, xp))
    y = np.array(host(risk.y), dtype=np.float64)
    y[rows] = host(changes.new_y)[place, own]
    return replace(risk, y=like(y, risk.y, xp))


def risk_without(risk: Risk, rows: Rows, moving: MovingPenalty | None) -> Risk:
    """The risk of all other rows."""
    return _with_weights(risk, rows, np.zeros(rows.size), moving)


def _with_weights(risk: Risk, rows: Rows, weights: Vector, moving: MovingPenalty | None) -> Risk:
    """The risk with other weights of some rows; the penalty is that without them where it moves."""
    xp = namespace(risk.X)
    scales = risk.scales
    if moving is not None:
        gone = rows.size if risk.weights is None or not moving.weighted else host(risk.weights)[rows].sum()
        left = moving.kept_without(float(gone))
        risk = replace(risk, l2=left * risk.l2, intercept_l2=left * risk.intercept_l2)
    if moving is not None and moving.folding is not None:
        X, own = gather((risk.X, risk.weights), like(rows, risk.X, xp))
        assert X is not None
        moved = moving.changes(X[None, ...], None if own is None else own[None, :])[0, :]
        scales = xp.sqrt(moving.squares + moved)
    whole = np.ones(int(risk.X.shape[0])) if risk.weights is None else np.array(host(risk.weights))
    if np.array_equal(whole[rows], weights):
        return replace(risk, scales=scales)
    whole[rows] = weights
    return replace(risk, weights=like(whole, risk.X, xp), known_centre=risk.centre, scales=scales)


@dataclass(frozen=True)
class _Changing:
    """The risk that changes, where it starts, and how its parameters are those of the model."""

    risk: Risk
    loss: ReducedLoss
    theta: Vector
    basis: Vector | None = None
    """D^-1/2 V, (d, n), where coefficients live in the space of the rows."""

    def moved(self, moves: Vector) -> Vector:
        """Moves of the model's parameters, (b, L p)."""
        if self.basis is None:
            return moves
        r = self.basis.shape[1]
        parts = moves.reshape(moves.shape[0], self.loss.outputs, -1)
        return np.concatenate([parts[:, :, :r] @ self.basis.T, parts[:, :, r:]], axis=2).reshape(moves.shape[0], -1)

    @property
    def longest(self) -> float:
        """What a move of length one is at most, for the model."""
        return 1.0 if self.basis is None else max(1.0, float(np.linalg.norm(self.basis, 2)))


def _is_wide(shared: StartingFit, changes: ChangedRows) -> bool:
    """Whether coefficients may live in the space of the rows: it is far smaller, and the changes keep it."""
    n, d = shared.X.shape
    held = np.all(np.asarray(shared.risk.penalty)[:d] > 0)
    return bool(WIDE * n <= d and held and (changes.e is None or not np.asarray(changes.e).any()))


def _changing(shared: StartingFit, changes: ChangedRows) -> tuple[_Changing, ChangedRows]:
    """The risk and its changes, in the space of the rows where that is smaller and holds them."""
    risk, loss, theta = shared.risk, shared.loss, np.asarray(shared.theta)
    if not _is_wide(shared, changes):
        return _Changing(risk, loss, theta), changes
    n, d = risk.X.shape
    penalty = np.asarray(risk.penalty)[:d]
    x = np.asarray(with_constant(risk.X, False, risk.centre))
    root = np.sqrt(penalty)
    # the last formula of section 4.5: rows U S, coefficients D^(-1/2) V c, and a penalty of one on c
    U, S, Vt = np.linalg.svd(x / root, full_matrices=False)
    rows, parts = U * S, theta.reshape(loss.outputs, -1)
    centre = None if risk.centre is None else np.zeros(n)
    inner = replace(risk, X=rows, names=(), known_centre=centre, scales=np.full(n, (risk.l2 * n) ** -0.5))
    # c = V^T D^(1/2) w: at a minimum w lies in the space of the rows
    start = np.concatenate([(parts[:, :d] * root) @ Vt.T, parts[:, d:]], axis=1).ravel()
    own = with_constant(rows[np.asarray(changes.rows)[:, 0]], risk.intercept, None)
    return _Changing(inner, loss, start, (Vt / root).T), replace(changes, x=own[:, None, :], e=None)


def fitted_at_once(shared: StartingFit, changes: ChangedRows) -> tuple[Vector, Vector, NDArray[np.bool_]]:
    """Moves for rows as they are centred, (b, L p), how far each may be off, and which did not converge.

    Of changes of one row each, whose weight stays.
    """
    size = int(shared.theta.shape[0]) if is_numpy(shared.X) else 0
    count, rows = int(changes.rows.shape[0]), int(shared.X.shape[0])
    moves, error, lost = np.zeros((count, size)), np.full(count, np.inf), np.ones(count, dtype=bool)
    if not is_numpy(shared.X) or rows * (size if not _is_wide(shared, changes) else rows * shared.loss.outputs) > SMALL:
        return moves, error, lost
    problem, changes = _changing(shared, changes)
    theta = problem.theta
    most = max(1, VALUES // (rows * theta.size * shared.loss.outputs))
    for start in range(0, count, most):
        some = np.arange(start, min(start + most, count))
        with np.errstate(all="ignore"):  # of steps that lead nowhere, which are told by their length
            found, error[some], lost[some] = _newton(problem, changes.take(some))
        moves[some] = problem.moved(found - theta[None, :])
    return moves, error * problem.longest, lost


def _newton(problem: _Changing, changes: ChangedRows) -> tuple[Vector, Vector, NDArray[np.bool_]]:
    """The minimisers, how far each may be off, and which were not reached."""
    b = int(changes.rows.shape[0])
    theta = np.tile(problem.theta, (b, 1))
    error, lost, last = np.full(b, np.inf), np.ones(b, dtype=bool), np.full(b, np.inf)
    on, place = changes, np.arange(b)
    for _ in range(MOST_STEPS):
        gradient, terms, hessian = _at(problem, on, theta[place])
        try:
            step = np.asarray(np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0], dtype=np.float64)
        except np.linalg.LinAlgError:
            break
        length, size = np.linalg.norm(step, axis=1), np.linalg.norm(theta[place], axis=1)
        theta[place] -= step * _part(problem, step)[:, None]
        # far out steps are short beside the parameters too: there the gradient is none of the terms it is made of
        done = (length <= NEAR * size) & np.all(np.abs(gradient) <= NEAR * terms, axis=1)
        if done.any():
            condition = _condition(hessian[done])
            # the next step, as if it were shorter than this one by as much as this one is than the last
            to_come = length[done] * np.minimum(length[done] / last[place[done]], 1.0)
            error[place[done]] = EPSILON * condition * size[done] + to_come
            lost[place[done]] = ~(condition <= REFUSE_ABOVE)
        last[place] = length
        going = np.flatnonzero(~done & np.isfinite(length))
        if not going.size:
            break
        on, place = on.take(going), place[going]
    return theta, error, lost


def _part(problem: _Changing, step: Vector) -> Vector:
    """How much of each step is taken: as much as moves no row's score by more than curvatures hold for, (b,)."""
    risk, (b, _) = problem.risk, step.shape
    x = np.asarray(with_constant(risk.X, risk.intercept, risk.centre))
    furthest = np.abs(step.reshape(b, -1, x.shape[1]) @ x.T).max(axis=(1, 2))
    return np.ones(b) if problem.loss.quadratic else np.asarray(FURTHEST / np.maximum(furthest, FURTHEST))


def _at(problem: _Changing, changes: ChangedRows, theta: Vector) -> tuple[Vector, Vector, Vector]:
    """Gradients and the sizes of their terms, (b, L p), and Hessians (b, L p, L p) of the changed risks, each at its own."""
    risk, L = problem.risk, problem.loss.outputs
    x = np.asarray(with_constant(risk.X, risk.intercept, risk.centre))
    (n, p), b = x.shape, theta.shape[0]
    V, new = theta.reshape(b, L, p), np.asarray(changes.new_x)[:, 0, :]
    weights = np.tile(np.ones(n) if risk.weights is None else np.asarray(risk.weights), (b, 1))
    # the sum over j other than i of section 4.5
    weights[np.arange(b), np.asarray(changes.rows)[:, 0]] = 0.0
    r, A = _derivatives(problem, V @ x.T, np.broadcast_to(risk.y[None, ...], (b, *risk.y.shape)), weights)
    own = (V @ new[:, :, None], np.asarray(changes.new_y), np.asarray(changes.new_omega))
    r_new, A_new = _derivatives(problem, *own)
    penalty = np.asarray(risk.penalty)
    gradient = (r @ x + r_new @ new[:, None, :]).reshape(b, -1) + penalty * theta
    terms = np.abs(r) @ np.abs(x) + np.abs(r_new @ new[:, None, :])
    terms = terms.reshape(b, -1) + penalty * np.abs(theta)
    H = np.empty((b, L, p, L, p))
    for k in range(L):
        for m in range(k, L):
            # H_i of section 4.5 by pairs of outputs, the changed row added
            block = (A[:, k, m, None, :] * x.T[None, :, :]) @ x
            block += A_new[:, k, m, :, None] * new[:, :, None] * new[:, None, :]
            H[:, k, :, m, :] = H[:, m, :, k, :] = block
    return gradient, terms, H.reshape(b, L * p, L * p) + np.diag(penalty)


def _derivatives(problem: _Changing, z: Vector, y: Any, weights: Vector) -> tuple[Vector, Vector]:
    """Weighted gradients (b, L, n) and curvatures (b, L, L, n) by scores (b, L, n) of n rows for each change."""
    b, L, n = z.shape
    scores, labels = z.transpose(0, 2, 1).reshape(b * n, L), np.reshape(y, (b * n, *y.shape[2:]))
    r = np.asarray(problem.loss.gradient(scores, labels)).reshape(b, n, L) * weights[:, :, None]
    A = np.asarray(problem.loss.curvature(scores, labels)).reshape(b, n, L, L) * weights[:, :, None, None]
    return r.transpose(0, 2, 1), A.transpose(0, 2, 3, 1)


def _condition(hessian: Vector) -> Vector:
    """One-norm condition numbers of Hessians scaled to unit diagonal, (b,)."""
    scale = 1.0 / np.sqrt(np.diagonal(hessian, axis1=1, axis2=2))
    scaled = hessian * scale[:, :, None] * scale[:, None, :]
    norms = (np.abs(each).sum(axis=1).max(axis=1) for each in (scaled, np.linalg.inv(scaled)))
    return np.asarray(next(norms) * next(norms))


SHARED_STEPS = 60
MOST_PAIRS = 30
CLOSEST = 1e-12
"""A step of at most this part of the move is the last."""
SURE = 1e-8
"""Part of a move that it may be off where curvatures changed as much as they can."""


def followed_to_minimum(
    shared: StartingFit, changes: ChangedRows, hessian: ChangedHessian
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Moves for rows as they are centred, (b, L p), how far each may be off as it is released, and which did not converge."""
    xp = namespace(hessian.newton)
    values, error = xp.zeros_like(hessian.newton), xp.full_like(hessian.det, np.inf)
    lost = np.ones(values.shape[0], dtype=bool)
    if shared.loss.quadratic or shared.loss.width is None:
        return values, error, lost
    for start in range(0, lost.size, AT_ONCE):
        places = np.arange(start, min(start + AT_ONCE, lost.size))
        values, error, done = _followed(shared, changes, hessian, (values, error), places)
        lost[done] = False
    return values, error, lost


@dataclass(frozen=True)
class _Pairs:
    """Steps and what they changed in the gradient, of the same changes, the latest last; arrays (b, L p)."""

    steps: tuple[Array, ...] = ()
    turns: tuple[Array, ...] = ()

    def take(self, chosen: Array) -> _Pairs:
        xp = namespace(chosen)
        own = ([xp.take(each, chosen, axis=0) for each in arrays] for arrays in (self.steps, self.turns))
        return _Pairs(*(tuple(each) for each in own))

    def with_pair(self, step: Array, turn: Array) -> _Pairs:
        return _Pairs((*self.steps, step)[-MOST_PAIRS:], (*self.turns, turn)[-MOST_PAIRS:])

    def solve(self, gradient: Array, first: Callable[[Array], Array]) -> Array:
        """The inverse that ``first`` is, corrected so that it takes each turn to its step, times the gradient."""
        xp = namespace(gradient)
        # the two-loop recursion of limited-memory BFGS, around H'(D)^-1 (section 4.4)
        parts, rates = [], []
        for step, turn in zip(self.steps[::-1], self.turns[::-1], strict=True):
            along = row_dots(step, turn, xp)
            rates.append(xp.where(along > 0, 1.0 / xp.where(along > 0, along, 1.0), 0.0))
            parts.append(rates[-1] * row_dots(step, gradient, xp))
            gradient = gradient - parts[-1][:, None] * turn
        found = first(gradient)
        for step, turn, part, rate in zip(self.steps, self.turns, parts[::-1], rates[::-1], strict=True):
            found = found + (part - rate * row_dots(turn, found, xp))[:, None] * step
        return found


def _followed(
    shared: StartingFit,
    changes: ChangedRows,
    hessian: ChangedHessian,
    found: tuple[Array, Array],
    places: NDArray[np.int64],
) -> tuple[Array, Array, NDArray[np.int64]]:
    """What was found with some moves in place, and which of these converged."""
    xp = namespace(hessian.newton)
    values, error = found
    index = like(places, changes.rows, xp)
    changes, hessian, moves = changes.take(index), hessian.take(index), xp.take(values, index, axis=0)
    pairs, last, done = _Pairs(), None, [places[:0]]
    for _ in range(SHARED_STEPS):
        gradient = gradients_at(shared.risk, shared.theta[None, :] + moves)
        gradient = gradient + hessian.own_gradient(moves, changes, shared.loss, shared.theta)
        if last is not None:
            pairs = pairs.with_pair(last[0], gradient - last[1])
        step, here = _step(shared, changes, hessian, moves, gradient, pairs)
        moves, length = moves - step, shared.length(step)
        size = shared.length(moves)
        near = host((length <= CLOSEST * size) | (length <= shared.rounding))
        if near.any():
            ended = like(np.flatnonzero(near), changes.rows, xp)
            own, left = xp.take(moves, ended, axis=0), xp.take(gradient, ended, axis=0)
            plain = shared.length(here.take(ended).solve(left, shared.inverse))
            # e^(sqrt(w) |v|) |H'(D)^-1 g'(D)| of section 4.4, here by the length that moves are measured by in place of
            # the norm of H'(D)
            off = _stretch(shared, xp.take(changes.rows[:, 0], ended), own) * plain
            sure = host(off <= SURE * xp.take(size, ended))
            values, error = put_rows(values, places[near], own), put_rows(error, places[near], off)
            done.append(places[near][sure])
        going = np.flatnonzero(~near & host(xp.isfinite(length)))
        if not going.size:
            break
        rest = like(going, changes.rows, xp)
        places, changes, hessian, pairs = places[going], changes.take(rest), hessian.take(rest), pairs.take(rest)
        moves, last = xp.take(moves, rest, axis=0), (xp.take(-step, rest, axis=0), xp.take(gradient, rest, axis=0))
    return values, error, np.concatenate(done)


def _step(
    shared: StartingFit, changes: ChangedRows, hessian: ChangedHessian, moves: Array, gradient: Array, pairs: _Pairs
) -> tuple[Array, ChangedHessian]:
    """One step, (b, L p), infinite where the update of the Hessian loses digits; and H'(D)."""
    xp = namespace(moves)
    new = changes.new_x
    z = hessian.new_z + times_rows(moves, new)
    curvature = shared.loss.curvature(z[:, 0, :], changes.new_y[:, 0, ...])[:, None, :, :]
    # H'(D) of section 4.4: A' at the parameters that are reached, A as it was
    K = middle(hessian.A, changes.new_omega[:, :, None, None] * curvature, changes.e is not None)
    unit = like(np.eye(int(K.shape[1])), moves, xp)[None, :, :]
    system = unit + K @ hessian.M
    sure = xp.linalg.det(system) > UNSURE
    at = replace(hessian, W=xp.linalg.solve(xp.where(sure[:, None, None], system, unit), K))
    step = pairs.solve(gradient, lambda g: at.solve(g, shared.inverse))
    furthest = xp.max(xp.abs(times_rows(step, new)), axis=(1, 2))
    step = step * (FURTHEST / xp.where(furthest > FURTHEST, furthest, FURTHEST))[:, None]
    return xp.where(sure[:, None], step, np.inf), at


def _stretch(shared: StartingFit, rows: Array, moves: Array) -> Array:
    """How much flatter than it was the risk of all other rows may be after each move, (b,): e^(sqrt(w) |v|)."""
    xp = namespace(moves)
    (b, size), risk, L = moves.shape, shared.risk, shared.loss.outputs
    V, width = xp.reshape(moves, (b * L, size // L)), shared.loss.width
    assert width is not None

    def block(X: Array, position: Array) -> tuple[Array]:
        v = xp.reshape(with_constant(X, risk.intercept, risk.centre) @ V.T, (-1, b, L))
        own = position[:, None] == rows[None, :]  # a row's own curvature is the true one
        return (xp.max(xp.where(own, 0.0, xp.sum(v * v, axis=2)), axis=0),)

    most = max(1, block_elements(risk.X) // (b * L))
    (furthest,) = sum_rows(block, risk.X, positions(risk.X), most=most, join=largest_of)
    return xp.exp(xp.clip(xp.sqrt(width * furthest), 0.0, FAR))
