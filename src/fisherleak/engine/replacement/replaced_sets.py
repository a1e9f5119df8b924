r"""How the minimiser moves when all rows of a set, of a person say, take other values together, without fitting again.

With x', y' in place of x, y in the rows S, the Hessian and the gradient at the old parameters become

.. math::

    H' = H + \sum_{i \in S} (A'_i \otimes x'_i x_i'^T - A_i \otimes x_i x_i^T), \qquad
    g' = \sum_{i \in S} (r'_i \otimes x'_i - r_i \otimes x_i) ,

so that :math:`D = -H'^{-1} g'` is the move for the squared loss. For others chord steps go on with that H' and the gradient of
all rows, O(n p) each, begun where the third derivative of the risk leads to if it pays (``expansion``), until what is left is a
small part of the tolerance; sets for which they do not settle are fitted again.

Where the scale of a column follows from the rows, l2 is on its coefficient times that scale, and other values change both: with
the variance :math:`v'` in place of v, :math:`n \lambda (v'/v - 1)` is added to the coefficient's penalty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.progress import track
from fisherleak.engine.changes.neighbours import AT_ONCE, EPSILON, gradients_at, refitted
from fisherleak.engine.losses.loss import FAR
from fisherleak.engine.replacement.replaced_rows import LEAST_HOLD, Moves
from fisherleak.engine.replacement.row_changes import RowChanges, gradient_difference
from fisherleak.engine.replacement.settling import CAUTION, CLOSE, HALF, MORE_CHORDS, ROUNDS, Replacements
from fisherleak.errors import FisherleakError, SeparableClassesError

__all__ = ["set_replacement_moves"]

Vector = NDArray[np.float64]
Rows = NDArray[np.int64]
VALUES = 2**22
"""Values of Hessians that are held at a time."""


@dataclass(frozen=True)
class _SetChanges:
    """Sets of rows that change together: the rows of all sets, one after the other, and where each set begins."""

    sets: tuple[Rows, ...]
    rows: RowChanges
    starts: Rows
    penalty: Vector
    """What is added to the penalty of each parameter with each set, (b, L p)."""

    def summed(self, terms: Vector) -> Vector:
        """Sums over each set of something for each row."""
        return np.asarray(np.add.reduceat(terms, self.starts, axis=0))

    @property
    def real(self) -> NDArray[np.bool_]:
        """Sets in which anything differs in a row with a weight."""
        other = np.asarray(self.rows.y != self.rows.new_y).reshape(len(self.rows.rows), -1).any(axis=1)
        changed = (np.any(np.asarray(self.rows.e) != 0, axis=1) | other) & (np.asarray(self.rows.omega) > 0)
        return np.asarray(np.logical_or.reduceat(changed, self.starts))

    @property
    def of(self) -> Rows:
        """The set of each row."""
        return np.repeat(np.arange(len(self.sets)), [rows.size for rows in self.sets])


def set_replacement_moves(
    shared: Replacements,
    sets: Sequence[Rows],
    changed: Vector | None = None,
    labels: Vector | None = None,
    what: str = "the change",
    scaled: Sequence[int] = (),
) -> Moves:
    """How the parameters move when all rows of each set take other features, other labels, or both.

    Parameters
    ----------
    shared : Replacements
        Of rows that NumPy holds.
    sets : sequence of integer arrays
        The rows that change together; one set at a time.
    changed : array of shape (t, d), optional
        New features of the rows of all sets, one after the other.
    labels : array of shape (t,) or (t, K), optional
        Their new labels.
    what : str
        Names the change in a refusal, and on a progress bar.
    scaled : sequence of int
        Features whose scale follows from the rows, all alike.

    Notes
    -----
    Exact for the squared loss but for rounding. For others ``error`` is an estimate from the last steps, and a move that is
    taken has one of at most ``shared.tolerance`` of its length.
    """
    size = int(shared.inverse.shape[0])
    values, error, again = np.zeros((len(sets), size)), np.zeros(len(sets)), 0
    most = max(1, min(AT_ONCE, VALUES // size**2))
    ends = np.cumsum([0, *(rows.size for rows in sets)])
    for start in track(range(0, len(sets), most), -(-len(sets) // most), f"Moves for {what}"):
        stop = min(start + most, len(sets))
        part = slice(ends[start], ends[stop])
        own = [each if each is None else each[part] for each in (changed, labels)]
        some = _changes(shared, sets[start:stop], own[0], own[1], scaled)
        (real,) = np.nonzero(some.real)
        if not real.size:
            continue
        if labels is not None:
            _refuse_lost_classes(shared, some, real, what)
        found, off, count = _moved(shared, _taken(some, real), what)
        values[start + real], error[start + real], again = found, off, again + count
    return Moves(np.asarray(shared.fit.uncentred(values.T)).T, error, again)


def _changes(
    shared: Replacements, sets: Sequence[Rows], changed: Any, labels: Any, scaled: Sequence[int]
) -> _SetChanges:
    rows = np.concatenate(list(sets))
    starts = np.cumsum([0, *(each.size for each in sets[:-1])])
    nothing = np.zeros((len(sets), int(shared.inverse.shape[0])))
    found = _SetChanges(tuple(sets), shared.changes(rows, changed, labels), starts, nothing)
    return replace(found, penalty=_more_penalty(shared, found, scaled)) if len(scaled) else found


def _more_penalty(shared: Replacements, changes: _SetChanges, scaled: Sequence[int]) -> Vector:
    """What is added, n l2 (v' / v - 1) at the coefficients of columns whose variance is v' with each set, (b, L p)."""
    found, n, width = changes.penalty.copy(), shared.X.shape[0], changes.rows.x.shape[1]
    for j in scaled:
        column = np.asarray(shared.X[:, j], dtype=np.float64)
        variance, e = float(column.var()), np.asarray(changes.rows.e)[:, j]
        centred = column[np.asarray(changes.rows.rows)] - column.mean()
        more = changes.summed(2.0 * centred * e + e**2) / n - (changes.summed(e) / n) ** 2
        places = np.arange(j, found.shape[1], width)
        found[:, places] = np.asarray(shared.risk.penalty)[places] * (more / variance)[:, None]
    return found


def _taken(changes: _SetChanges, chosen: Rows) -> _SetChanges:
    """Some of the sets."""
    kept = np.flatnonzero(np.isin(changes.of, chosen))
    sets = tuple(changes.sets[k] for k in chosen.tolist())
    starts = np.cumsum([0, *(each.size for each in sets[:-1])])
    return _SetChanges(sets, changes.rows.take(kept), starts, changes.penalty[chosen])


def _moved(shared: Replacements, changes: _SetChanges, what: str) -> tuple[Vector, Vector, int]:
    """Moves for rows as they are centred, how far each may be off as released, and how many were fitted again."""
    hessian = _hessians(shared, changes)
    inverse, lost = _inverses(hessian)
    gradient = _own_gradient(shared, changes, np.zeros((len(changes.sets), hessian.shape[1])), exactly=True)
    moves = -_times(inverse, gradient)
    if shared.loss.quadratic:
        moves -= _times(inverse, gradient + _times(hessian, moves))
        error = EPSILON * shared.fit.condition * np.asarray(shared.length(moves))
    else:
        moves = _begun(shared, changes, inverse, moves)
        moves, error, loose = _chords(shared, changes, inverse, moves)
        lost = lost | loose
    for k in np.flatnonzero(lost).tolist():
        moves[k], error[k] = _refit(shared, changes, k, what)
    return moves, error, int(lost.sum())


def _times(matrices: Vector, vectors: Vector) -> Vector:
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])


def _hessians(shared: Replacements, changes: _SetChanges) -> Vector:
    """H' of each set, (b, L p, L p)."""
    own, L = changes.rows, shared.loss.outputs
    x, new, p = np.asarray(own.x), np.asarray(own.x + own.e), own.x.shape[1]
    V = np.asarray(shared.fit.centred_theta).reshape(L, p)
    A = np.asarray(shared.loss.curvature(x @ V.T, own.y)) * np.asarray(own.omega)[:, None, None]
    A_new = np.asarray(shared.loss.curvature(new @ V.T, own.new_y)) * np.asarray(own.new_omega)[:, None, None]
    found = np.tile(np.asarray(shared.hessian), (len(changes.sets), 1, 1))
    found += changes.penalty[:, :, None] * np.eye(found.shape[1])
    for k, start in enumerate(changes.starts.tolist()):
        rows = slice(start, start + changes.sets[k].size)
        for i in range(L):
            for j in range(L):
                more = new[rows].T @ (A_new[rows, i, j, None] * new[rows]) - x[rows].T @ (A[rows, i, j, None] * x[rows])
                found[k, i * p : (i + 1) * p, j * p : (j + 1) * p] += more
    return found


def _inverses(hessian: Vector) -> tuple[Vector, NDArray[np.bool_]]:
    """H'^-1, and where rounding leaves none."""
    scale = 1.0 / np.sqrt(np.maximum(np.diagonal(hessian, axis1=1, axis2=2), np.finfo(float).tiny))
    scaled = hessian * scale[:, :, None] * scale[:, None, :]
    values, vectors = np.linalg.eigh(scaled)
    lost = ~(values[:, 0] > EPSILON**0.5 * values[:, -1])
    inner = vectors / np.where(lost[:, None], 1.0, values)[:, None, :]
    return (inner @ vectors.transpose(0, 2, 1)) * scale[:, :, None] * scale[:, None, :], lost


def _own_gradient(shared: Replacements, changes: _SetChanges, moves: Vector, exactly: bool = False) -> Vector:
    """The gradient of the new rows and penalty less that of the old ones, at parameters that moved, (b, L p)."""
    own, loss = changes.rows, shared.loss
    x, e, p = np.asarray(own.x), np.asarray(own.e), own.x.shape[1]
    theta = np.asarray(shared.fit.centred_theta)[None, :] + moves
    V = theta.reshape(len(moves), loss.outputs, p)[changes.of]
    z, step = _times(V, x), _times(V, e)
    r = np.asarray(loss.gradient(z, own.y)) * np.asarray(own.omega)[:, None]
    new_r = np.asarray(loss.gradient(z + step, own.new_y)) * np.asarray(own.new_omega)[:, None]
    apart = np.asarray(gradient_difference(own, loss, r, new_r, step)) if exactly else new_r - r
    whole = apart[:, :, None] * x[:, None, :] + new_r[:, :, None] * e[:, None, :]
    return changes.summed(whole.reshape(len(x), -1)) + changes.penalty * theta


def _begun(shared: Replacements, changes: _SetChanges, inverse: Vector, moves: Vector) -> Vector:
    """Moves by the third derivative of the risk, where it pays."""
    expansion = shared.expansion
    if expansion is None:
        return moves
    for _ in range(ROUNDS):
        beyond = moves @ np.asarray(shared.hessian) + np.asarray(expansion.beyond(moves))
        later = moves - _times(inverse, beyond + _own_gradient(shared, changes, moves))
        moves = np.where(np.isfinite(later).all(axis=1, keepdims=True), later, moves)
    return moves


def _chords(
    shared: Replacements, changes: _SetChanges, inverse: Vector, moves: Vector
) -> tuple[Vector, Vector, NDArray[np.bool_]]:
    """Moves improved by the gradient of all rows, how far they may be off, and which did not settle."""
    count = len(moves)
    error, lost, last = np.full(count, np.inf), np.ones(count, dtype=bool), np.full(count, np.inf)
    going, some = np.arange(count), changes
    theta = np.asarray(shared.fit.centred_theta)[None, :]
    for _ in range(MORE_CHORDS):
        here = moves[going]
        gradient = np.asarray(gradients_at(shared.risk, theta + here)) + _own_gradient(shared, some, here)
        step = _times(inverse[going], gradient)
        moves[going] -= step
        length, size = (np.asarray(shared.length(each)) for each in (step, moves[going]))
        known = np.isfinite(last[going]) & (last[going] > 0)
        rate = np.where(known, length / np.where(known, last[going], 1.0), HALF)
        to_come = np.where(rate < HALF, length * rate / (1.0 - np.minimum(rate, HALF)) / CAUTION, np.inf)
        done = (length <= CLOSE * size) | (length <= shared.rounding) | (to_come <= shared.tolerance * size)
        error[going] = np.where(np.isfinite(to_come), to_come, length)
        lost[going[np.flatnonzero(done)]] = False
        on = np.flatnonzero(~done & np.isfinite(length) & ~(length > last[going]))
        last[going] = length
        if not on.size:
            break
        some, going = _taken(some, on), going[on]
    return moves, error, lost


def _refit(shared: Replacements, changes: _SetChanges, place: int, what: str) -> tuple[Vector, float]:
    """A true fit with one set changed: the move, for rows as they are centred, and how far it may be off."""
    rows = changes.sets[place]
    part = slice(changes.starts[place], changes.starts[place] + rows.size)
    X, y = np.array(shared.X, dtype=np.float64), np.array(shared.y, dtype=np.float64)
    X[rows] += np.asarray(changes.rows.e)[part, : X.shape[1]]
    y[rows] = np.asarray(changes.rows.new_y)[part]
    risk, d = shared.risk, X.shape[1]
    if changes.penalty[place].any():
        own = np.ones(d) if risk.scales is None else np.asarray(risk.scales)
        grown = 1.0 + changes.penalty[place, :d] / np.asarray(risk.penalty)[:d]
        risk = replace(risk, scales=own * np.sqrt(np.maximum(grown, 0.0)))
    try:
        move, off = refitted(shared.fit, replace(risk, X=X, y=y))
    except FisherleakError as error:
        raise type(error)(
            f"With {what} in {shared.called(int(rows[0]))} there is no model to compare with: {error}"
        ) from None
    return np.asarray(host(move)), off


def _refuse_lost_classes(shared: Replacements, changes: _SetChanges, real: Rows, what: str) -> None:
    """Refuse other labels that leave a free intercept without a minimum."""
    fit = shared.fit
    if fit.intercept is None or fit.intercept_l2 > 0 or fit.loss.quadratic:
        return
    omega = np.ones(fit.n) if fit.sample_weight is None else np.asarray(host(fit.sample_weight))
    for k in real.tolist():
        y, rows = np.array(host(shared.y), dtype=np.float64), changes.sets[k]
        y[rows] = np.asarray(changes.rows.new_y)[changes.starts[k] : changes.starts[k] + rows.size]
        if fit.loss.several:
            lost = np.unique(y[omega > 0]).size < np.unique(host(shared.y)[omega > 0]).size
        else:
            lost = any(
                not np.any(np.sign(far) * omega * fit.loss.r(np.full(y.shape, far), y) > LEAST_HOLD * omega)
                for far in (-FAR, FAR)
            )
        if lost:
            raise SeparableClassesError(
                f"With {what} in {shared.called(int(rows[0]))} there is no model to compare with: no one else has "
                "their label, and nothing else holds the intercept."
            )
