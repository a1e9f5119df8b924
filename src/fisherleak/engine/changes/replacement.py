r"""How the minimiser moves when rows are replaced, one at a time or all rows of a set together, without fitting again.

The squared loss moves by one Newton step with the changed Hessian; for others ``solver`` says how, and how far a move is off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, device, host, like, namespace
from fisherleak._support.progress import track
from fisherleak.engine.changes.changed_rows import NOBODY, Rows, filled_up, members
from fisherleak.engine.changes.solver import solved
from fisherleak.engine.changes.starting_fit import StartingFit
from fisherleak.engine.losses import Loss
from fisherleak.engine.losses.loss import FAR
from fisherleak.errors import FisherleakError, SeparableClassesError

__all__ = ["Moves", "replacement_moves"]

Vector = NDArray[np.float64]
LEAST_HOLD = 1e-12
"""Gradient far out, for each unit of weight, that counts as any."""


@dataclass(frozen=True)
class Moves:
    """How far the released parameters move when one row, or one set of rows, is replaced.

    Parameters
    ----------
    values : array of shape (m, p)
        Exactly zero where nothing changes or the rows have no weight.
    error : array of shape (m,)
        How far each move may be off, by its norm. For the squared loss an estimate of rounding from the condition number;
        for the logistic, softmax, Poisson and gamma losses a bound, where the changed Hessian tells enough of the one at the
        new minimum; of other losses |gradient| / (n l2) where every parameter has a penalty; otherwise an estimate from the
        last steps.
    refitted : int
        How many were fitted again, because the steps did not converge or the update lost digits.
    """

    values: Array
    error: Array
    refitted: int


def replacement_moves(
    shared: StartingFit,
    rows: Array | Sequence[Rows],
    changed: Array | None = None,
    labels: Array | None = None,
    what: str = "the change",
    scaled: Sequence[int] = (),
) -> Moves:
    """How the parameters move when each of some rows, or of some sets of them, takes other features, labels, or both.

    Parameters
    ----------
    shared : StartingFit
    rows : integer array of shape (m,), or a sequence of m integer arrays
        The rows that change, one at a time, or the sets of rows that change together, one set at a time.
    changed : array of shape (t, d), optional
        New features of the rows; of sets, those of all rows, one set after the other.
    labels : array of shape (t,) or (t, K), optional
        Their new labels.
    what : str
        Names the change in a refusal, and on a progress bar.
    scaled : sequence of int
        Features whose scale follows from the rows, all alike, in NumPy: with other values l2 is on other coefficients.
    """
    xp = namespace(shared.X)
    sets = isinstance(rows, Sequence)
    if isinstance(rows, Sequence):
        everyone = like(np.concatenate(list(rows)), shared.X, xp)
        starts = np.cumsum([0, *(each.size for each in rows[:-1])])
    else:
        everyone, starts = rows, np.arange(int(rows.shape[0]))
    if labels is not None:
        _refuse_lost_labels(shared, host(everyone), host(labels), starts, what, sets)
    places, found, errors, again = [], [], [], 0
    for where, order in _buckets(starts, everyone, sets):
        for chosen in _blocks(shared, order, what):
            own = xp.take(order, chosen, axis=0)
            flat = xp.reshape(xp.clip(own, 0, None), (-1,))
            features, other = (each if each is None else _taken(each, flat, own.shape) for each in (changed, labels))
            some = xp.where(own >= 0, _taken(everyone, flat, own.shape), NOBODY)
            values, error, count = _moved(shared, some, features, other, what, sets, scaled)
            places.append(xp.take(where, chosen))
            found.append(values)
            errors.append(error)
            again += count
    at = xp.argsort(xp.concat(places))
    values, error = xp.concat(found, axis=0), xp.concat(errors)
    return Moves(shared.fit.uncentred(xp.take(values, at, axis=0).T).T, xp.take(error, at), again)


def _taken(each: Array, flat: Array, shape: tuple[int, ...]) -> Array:
    xp = namespace(each)
    return xp.reshape(xp.take(each, flat, axis=0), (*shape, *each.shape[1:]))


def _buckets(starts: Rows, everyone: Array, sets: bool) -> list[tuple[Array, Array]]:
    """Places of changes, and where their rows are among all, (m, k): below zero where a set is filled up."""
    xp = namespace(everyone)
    order = np.arange(int(everyone.shape[0]))
    if not sets:
        every = xp.arange(order.size, device=device(everyone))
        return [(every, every[:, None])]
    found = filled_up(np.split(order, starts[1:]), everyone)
    return [(where, own[:, None] if own.ndim == 1 else own) for where, own in found]


def _blocks(shared: StartingFit, order: Array, what: str) -> Iterator[Array]:
    """Places among the changes (m, k), some at a time."""
    xp = namespace(shared.X)
    m, k = order.shape
    most = shared.at_once(k)
    for start in track(range(0, m, most), -(-m // most), f"Moves for {what}"):
        yield xp.arange(start, min(start + most, m), device=device(shared.X))


def _moved(
    shared: StartingFit,
    rows: Array,
    changed: Array | None,
    labels: Array | None,
    what: str,
    sets: bool,
    scaled: Sequence[int],
) -> tuple[Array, Array, int]:
    """Moves of rows (b, k) as they are centred, how far each may be off, and how many were fitted again."""
    xp = namespace(shared.inverse)
    changes = shared.replaced(rows, changed, labels, scaled)
    real = changes.real  # stays where the rows are, however many they are
    count = int(xp.sum(xp.astype(real, xp.int64)))
    if not count:
        values = xp.zeros((rows.shape[0], shared.theta.shape[0]), dtype=xp.float64, device=device(shared.X))
        return values, values[:, 0], 0
    places = xp.nonzero(real)[0]

    def refused(place: int, error: FisherleakError) -> None:
        row = int(members(rows[int(places[place]), :])[0])
        remedy = "" if sets else " Or leave the row out with rows=."
        raise type(error)(
            f"With {what} in {shared.called(row)} there is no model to compare with: {error}{remedy}"
        ) from None

    if count == rows.shape[0]:
        return solved(shared, changes, refused)
    moves, off, again = solved(shared, changes.take(places), refused)
    source = xp.clip(xp.cumulative_sum(xp.astype(real, xp.int64)) - 1, 0, None)
    values = xp.where(real[:, None], xp.take(moves, source, axis=0), 0.0)
    return values, xp.where(real, xp.take(off, source), 0.0), again


def _refuse_lost_labels(
    shared: StartingFit, rows: Rows, new: NDArray[Any], starts: Rows, what: str, sets: bool
) -> None:
    """Refuse other labels that leave a free intercept without a minimum: of a class's only row, of the only count above zero.

    Steps would come to rest far out where the gradient is below rounding.
    """
    fit, y = shared.fit, host(shared.y)
    if fit.intercept is None or fit.intercept_l2 > 0 or fit.loss.quadratic:
        return
    omega = np.ones(len(y)) if fit.sample_weight is None else host(fit.sample_weight)
    several = fit.loss.several
    found = (_without_class if several else _without_hold)(fit.loss, y, omega, rows, new, starts)
    lost = np.flatnonzero(found)
    if not lost.size:
        return
    last = "its class" if several or fit.loss.labels.binary else "a label on that side"
    why = f"no other row has {last}, and nothing else holds the intercept. Fit without one, or leave the row out with rows=."
    if sets:
        why = "no one else has their label, and nothing else holds the intercept."
    raise SeparableClassesError(
        f"With {what} in {shared.called(int(rows[starts[lost[0]]]))} there is no model to compare with: {why}"
    )


def _without_class(loss: Loss, y: Vector, omega: Vector, rows: Rows, new: Vector, starts: Rows) -> NDArray[np.bool_]:
    """Changes that leave a class without a row, where every class needs one: (m,)."""
    classes = np.unique(y[omega > 0])
    counted = (omega[rows] > 0)[:, None]
    gained = counted * ((new[:, None] == classes).astype(np.int64) - (y[rows][:, None] == classes))
    before = np.sum((y[:, None] == classes) & (omega > 0)[:, None], axis=0)
    return np.asarray(np.any(before + np.add.reduceat(gained, starts, axis=0) == 0, axis=1))


def _without_hold(loss: Loss, y: Vector, omega: Vector, rows: Rows, new: Vector, starts: Rows) -> NDArray[np.bool_]:
    """Changes after which the risk falls for ever along the intercept, since all gradients far out have one sign: (m,)."""
    lost = np.zeros(len(starts), dtype=bool)
    for far in (-FAR, FAR):
        holding, mine = (
            (np.sign(far) * own * loss.r(np.full(len(of), far), of) > LEAST_HOLD * own).astype(np.int64)
            for own, of in ((omega, y), (omega[rows], new))
        )
        lost |= holding.sum() + np.add.reduceat(mine - holding[rows], starts) == 0
    return lost
