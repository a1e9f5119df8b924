"""Moves that do not converge because curvatures change on the way: followed by the gradient of all rows.

Mathematics: 4.4, ``docs/mathematics/changes.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host, like, namespace, row_dots
from fisherleak.engine.changes.changed_rows import UNSURE, ChangedHessian, ChangedRows, middle, put_rows, times_rows
from fisherleak.engine.changes.starting_fit import AT_ONCE, FAR, StartingFit, gradients_at
from fisherleak.engine.fit.risk import largest_of, with_constant
from fisherleak.rows import block_elements, positions, sum_rows

__all__ = ["followed_to_minimum"]

MOST_STEPS = 60
MOST_PAIRS = 30
FURTHEST = 3.0
"""How far a step may move the new row's score: curvatures change by about its exponential."""
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
    for _ in range(MOST_STEPS):
        gradient = gradients_at(shared.risk, shared.theta[None, :] + moves)
        gradient = gradient + hessian.own_gradient(moves, changes, shared.loss, shared.theta)
        if last is not None:
            pairs = pairs.with_pair(last[0], gradient - last[1])
        step, plain = _step(shared, changes, hessian, moves, gradient, pairs)
        moves, length = moves - step, shared.length(step)
        size = shared.length(moves)
        near = host((length <= CLOSEST * size) | (length <= shared.rounding))
        if near.any():
            ended = like(np.flatnonzero(near), changes.rows, xp)
            own = xp.take(moves, ended, axis=0)
            # e^(sqrt(w) |v|) |H'(D)^-1 g'(D)| of section 4.4, here by the length that moves are measured by in place of
            # the norm of H'(D)
            off = _stretch(shared, xp.take(changes.rows[:, 0], ended), own) * xp.take(plain, ended)
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
) -> tuple[Array, Array]:
    """One step, (b, L p), infinite where the update of the Hessian loses digits; and the length of H'(D)^-1 g'(D)."""
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
    plain = shared.length(at.solve(gradient, shared.inverse))
    step = pairs.solve(gradient, lambda g: at.solve(g, shared.inverse))
    furthest = xp.max(xp.abs(times_rows(step, new)), axis=(1, 2))
    step = step * (FURTHEST / xp.where(furthest > FURTHEST, furthest, FURTHEST))[:, None]
    return xp.where(sure[:, None], step, np.inf), plain


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
