r"""How the minimiser moves when one row is replaced, for many rows, without fitting again.

A Newton step with the changed Hessian (``row_changes``) is the move for the squared loss. For others, D solves

.. math:: D = D_1 - H'^{-1} \big(N(D) + O(D)\big)

with :math:`D_1` that step, N what the gradient of all rows does beyond H and O what those of the old and the new row do beyond
their curvature. With N from the third derivative of the risk and a few rows that are followed exactly (``expansion``) some
rounds cost no pass over the rows, and the error has a bound: what is left out of N, and what further rounds would move. Moves
whose bound is above the tolerance go on with the gradient of all rows, O(n p) a step, and those that do not settle with the
row's own curvature renewed (``own_curvature``), or are fitted again. Where T does not pay, all moves do, to ``CLOSE``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, device, host, like, namespace
from fisherleak._support.progress import track
from fisherleak.engine.changes.neighbours import EPSILON, UNSURE, refitted
from fisherleak.engine.losses import Loss
from fisherleak.engine.losses.loss import FAR
from fisherleak.engine.replacement.fits_at_once import fitted_at_once
from fisherleak.engine.replacement.own_curvature import followed_to_minimum
from fisherleak.engine.replacement.row_changes import ChangedHessian, RowChanges, changed_hessian
from fisherleak.engine.replacement.settling import Replacements, put_rows, settled
from fisherleak.errors import FisherleakError, SeparableClassesError
from fisherleak.rows import block_elements

__all__ = ["Moves", "replacement_moves"]

Vector = NDArray[np.float64]
LEAST_HOLD = 1e-12
"""Gradient far out, for each unit of weight, that counts as any."""


@dataclass(frozen=True)
class Moves:
    """How far the released parameters move when one row is replaced.

    Parameters
    ----------
    values : array of shape (m, p)
        Exactly zero where nothing changes or the row has no weight.
    error : array of shape (m,)
        How far each move may be off, by its norm. For the squared loss an estimate of rounding from the condition number;
        for the logistic, softmax, Poisson and gamma losses a bound, where the changed Hessian tells enough of the one at the
        new minimum; otherwise an estimate from the last steps, or |gradient| / (n l2) where every parameter has a penalty.
    refitted : int
        How many were fitted again, because the steps did not settle or the update lost digits.
    """

    values: Array
    error: Array
    refitted: int


def replacement_moves(
    shared: Replacements,
    rows: Array,
    changed: Array | None = None,
    labels: Array | None = None,
    what: str = "the change",
) -> Moves:
    """How the parameters move when each of some rows, alone, takes other features, another label, or both.

    Parameters
    ----------
    shared : Replacements
    rows : integer array of shape (m,)
        The rows that change, one at a time.
    changed : array of shape (m, d), optional
        Their new features.
    labels : array of shape (m,) or (m, K), optional
        Their new labels.
    what : str
        Names the change in a refusal, and on a progress bar.
    """
    xp = namespace(shared.X)
    m, size = int(rows.shape[0]), int(shared.inverse.shape[0])
    if labels is not None:
        _refuse_lost_classes(shared, host(rows), host(labels), what)
    found, errors, kept, again = [], [], [], 0
    for chosen in _blocks(shared, m, what):
        some = xp.take(rows, chosen, axis=0)
        parts = (None if each is None else xp.take(each, chosen, axis=0) for each in (changed, labels))
        changes = shared.changes(some, *parts)
        real = _real(changes)
        kept.append(real)
        if not bool(xp.any(real)):
            continue
        values, error, count = _moved(shared, changes.take(xp.nonzero(real)[0]), what)
        found.append(values)
        errors.append(error)
        again += count
    # a first row of zeros stands for every change that is none
    zero = xp.zeros((1, size), dtype=xp.float64, device=device(shared.X))
    real = xp.concat(kept)
    place = xp.where(real, xp.cumulative_sum(xp.astype(real, xp.int64)), 0)
    values = shared.fit.uncentred(xp.concat([zero, *found], axis=0).T).T
    return Moves(xp.take(values, place, axis=0), xp.take(xp.concat([zero[:, 0], *errors]), place), again)


def _refuse_lost_classes(shared: Replacements, rows: NDArray[np.int64], new: NDArray[Any], what: str) -> None:
    """Refuse other labels that leave a free intercept without a minimum: of a class's only row, of the only count above zero.

    Steps would come to rest far out where the gradient is below rounding.
    """
    fit, y = shared.fit, host(shared.y)
    if fit.intercept is None or fit.intercept_l2 > 0:
        return
    omega = np.ones(len(y)) if fit.sample_weight is None else host(fit.sample_weight)
    several = fit.loss.several
    found = _without_class(fit.loss, y, omega, rows, new) if several else _without_hold(fit.loss, y, omega, rows, new)
    lost = np.flatnonzero(found)
    if lost.size:
        last = "its class" if several or fit.loss.labels.binary else "a label on that side"
        raise SeparableClassesError(
            f"With {what} in {shared.called(int(rows[lost[0]]))} there is no model to compare with: no other row has {last}, "
            "and nothing else holds the intercept. Fit without one, or leave the row out with rows=."
        )


def _without_class(loss: Any, y: Vector, omega: Vector, rows: NDArray[np.int64], new: Vector) -> NDArray[np.bool_]:
    """Changes that leave a class without a row, where every class needs one: (m,)."""
    if loss.quadratic:
        return np.zeros(len(rows), dtype=bool)
    counted = omega > 0
    _, kind = np.unique(y, return_inverse=True)
    return np.asarray(counted[rows] & (np.bincount(kind[counted])[kind[rows]] == 1) & (new != y[rows]))


def _without_hold(loss: Loss, y: Vector, omega: Vector, rows: NDArray[np.int64], new: Vector) -> NDArray[np.bool_]:
    """Changes after which the risk falls for ever along the intercept, since all gradients far out have one sign: (m,)."""
    lost = np.zeros(len(rows), dtype=bool)
    for far in (-FAR, FAR):
        at = [
            np.sign(far) * omega_of * loss.r(np.full(len(of), far), of)
            for omega_of, of in ((omega, y), (omega[rows], new))
        ]
        holding = (at[0] > LEAST_HOLD * omega).astype(np.int64)
        mine = (at[1] > LEAST_HOLD * omega[rows]).astype(np.int64)
        lost |= holding.sum() - holding[rows] + mine == 0
    return lost


def _blocks(shared: Replacements, m: int, what: str) -> Iterator[Array]:
    """Places among the changes, some at a time."""
    xp = namespace(shared.X)
    L, size = shared.loss.outputs, int(shared.inverse.shape[0])
    most = max(1024, block_elements(shared.X) // (4 * L * size))
    for start in track(range(0, m, most), -(-m // most), f"Moves for {what}"):
        yield xp.arange(start, min(start + most, m), device=device(shared.X))


def _real(changes: RowChanges) -> Array:
    """Where anything differs and the row has a weight."""
    xp = namespace(changes.x)
    other = changes.y != changes.new_y
    other = other if other.ndim == 1 else xp.any(other, axis=1)
    return (xp.any(changes.e != 0, axis=1) | other) & ((changes.omega > 0) | (changes.new_omega > 0))


def _moved(shared: Replacements, changes: RowChanges, what: str) -> tuple[Array, Array, int]:
    """Moves for rows as they are centred, how far each may be off, and how many were fitted again."""
    xp = namespace(shared.inverse)
    hessian = changed_hessian(changes, shared.fit.centred_theta, shared.inverse, shared.loss)
    loose = ~(hessian.det > UNSURE)
    if shared.loss.quadratic:
        values = hessian.newton
        left = xp.where(loose, 1.0, hessian.det)
        error = EPSILON * (shared.fit.condition + 1.0 / left) * shared.length(values)
    else:
        values, error, lost = settled(shared, changes, hessian)
        loose = loose | (like(lost, loose, xp) > 0)
    again = host(xp.nonzero(loose)[0])
    if again.size:
        moves, off = _fitted_again(shared, changes, hessian, again, what)
        values, error = put_rows(values, again, moves), put_rows(error, again, like(off, error, xp))
    return values, error, int(again.size)


def _fitted_again(
    shared: Replacements, changes: RowChanges, hessian: ChangedHessian, again: NDArray[np.int64], what: str
) -> tuple[Array, NDArray[np.float64]]:
    """The same of some changes by fits: all at once, by their own curvature, and one by one where that does not settle."""
    xp = namespace(shared.inverse)
    some = like(again, changes.rows, xp)
    moves, off, lost = fitted_at_once(shared, changes.take(some))
    if lost.all():
        values, error, lost = followed_to_minimum(shared, changes.take(some), hessian.take(some))
        moves, off = np.array(host(values)), np.array(host(error))
    for k in np.flatnonzero(lost):
        move, off[k] = _refit(shared, changes, int(again[k]), what)
        moves[k] = host(move)
    return like(moves, shared.inverse, xp), off


def _refit(shared: Replacements, changes: RowChanges, place: int, what: str) -> tuple[Array, float]:
    """A true fit with one change: the move, for rows as they are centred, and how far it may be off."""
    xp = namespace(shared.X)
    row, d = int(changes.rows[place]), int(shared.X.shape[1])
    X, y = (xp.astype(each, xp.float64, copy=True) for each in (shared.X, shared.y))
    X[row, :] = X[row, :] + changes.e[place, :d]
    y[row, ...] = changes.new_y[place, ...]
    try:
        return refitted(shared.fit, replace(shared.risk, X=X, y=y))
    except FisherleakError as error:
        raise type(error)(
            f"With {what} in {shared.called(row)} there is no model to compare with: {error} Or leave the row out with rows=."
        ) from None
