"""How far the minimiser moves when rows change: Newton, chord steps with a certified error, refits where these fail.

Mathematics: 4.2, ``docs/mathematics/changes.md``.

Also here: how the minimiser moves when rows are replaced, one at a time or all rows of a set together, without
fitting again.

The squared loss moves by one Newton step with the changed Hessian; for others ``solver`` says how, and how far a move is off.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, device, host, like, namespace
from fisherleak._support.namespaces import Vector
from fisherleak._support.progress import track
from fisherleak.engine.changes.changed_fits import REFITTED, changed_risk, fitted_at_once, followed_to_minimum, refitted
from fisherleak.engine.changes.changed_rows import (
    EPSILON,
    NOBODY,
    UNSURE,
    ChangedHessian,
    ChangedRows,
    Rows,
    filled_up,
    members,
    put_rows,
    times_rows,
)
from fisherleak.engine.changes.gradient_beyond_hessian import Expansion
from fisherleak.engine.changes.starting_fit import AT_ONCE, CLOSE, FAR, StartingFit, gradients_at, holding
from fisherleak.errors import FisherleakError, NearSingularWarning, SeparableClassesError

MOST_CHORDS = 8
"""Moves that need more are fitted again, together (``changed_fits``)."""
MORE_CHORDS = 20
"""The same where such a fit costs far more than some steps: with many rows, or with several outputs."""
PATIENCE = 60
"""Chord steps at most of what is fitted again one by one: a fit costs some hundred times as much as one."""
CAUTION = 0.1
"""Part of an estimate's tolerance that the estimate may take."""
ROUNDS = 3
"""Rounds with N from the third derivative at most."""
SAFETY = 1.1
"""For moves a little longer than those that the bounds are taken at."""
HALF = 0.5
"""A rate above which a step says nothing of those to come."""
SLOW = 0.7
"""A step that is longer than this part of the one before it leads nowhere soon."""
FEW_SCALES = 4
"""Parameters at most whose penalty changes, where a Newton step with it is solved for at once."""
SINGLE = 1e-5
"""Part of N that may be lost to float32."""


def solved(
    shared: StartingFit, changes: ChangedRows, unfitted: Callable[[int, FisherleakError], None]
) -> tuple[Array, Array, int]:
    """Moves for rows as they are centred, how far each may be off as it is measured, and how many were fitted again.

    ``unfitted`` is called with the place of a change and the reason where nothing is minimal with it.
    """
    xp = namespace(shared.inverse)
    hessian = shared.changed_hessian(changes)
    loose = ~(hessian.det > UNSURE)
    scales = np.flatnonzero(host(changes.push).any(axis=0)) if changes.push is not None else np.empty(0, dtype=np.int64)
    if shared.loss.quadratic and scales.size <= FEW_SCALES:
        # one Newton step of H' + P ends at the minimum (section 4.1): what is left is rounding
        values = _with_scales(shared, changes.push, hessian, scales) if scales.size else hessian.newton
        left = xp.where(loose, 1.0, hessian.det)
        error = EPSILON * (shared.fit.condition + 1.0 / left) * shared.length(values)
    else:
        values, error, lost = converged(shared, changes, hessian)
        loose = loose | (like(lost, loose, xp) > 0)
    again = host(xp.nonzero(loose)[0])
    if again.size:
        moves, off = _fitted_again(shared, changes, hessian, again, unfitted)
        values, error = put_rows(values, again, moves), put_rows(error, again, like(off, error, xp))
    return values, error, int(again.size)


def _with_scales(shared: StartingFit, push: Array, hessian: ChangedHessian, scales: NDArray[np.int64]) -> Array:
    """The Newton step of H' + P from that of H', where P is on a few parameters."""
    xp = namespace(shared.inverse)
    at = like(scales, shared.inverse, xp)
    eye = like(np.eye(scales.size), shared.inverse, xp)
    units = xp.take(like(np.eye(int(shared.theta.shape[0])), shared.inverse, xp), at, axis=0)
    # B'E with B' = H'^-1 and E the unit vectors of these parameters; (H' + P)^-1 H' D = D - B'E (I + P S)^-1 P E^T D, with
    # S = E^T B'E
    turned = xp.stack(
        [hessian.solve(xp.broadcast_to(one[None, :], push.shape), shared.inverse) for one in units], axis=1
    )
    P = xp.take(push, at, axis=1)
    system = eye[None, :, :] + P[:, :, None] * xp.take(turned, at, axis=2)
    along = xp.linalg.solve(system, (P * xp.take(hessian.newton, at, axis=1))[:, :, None])
    return hessian.newton - (xp.matrix_transpose(turned) @ along)[:, :, 0]


def _fitted_again(
    shared: StartingFit,
    changes: ChangedRows,
    hessian: ChangedHessian,
    again: NDArray[np.int64],
    unfitted: Callable[[int, FisherleakError], None],
) -> tuple[Array, Vector]:
    """The same of some changes by fits: all at once, by their own curvature, and one by one where that does not converge."""
    xp = namespace(shared.inverse)
    moves, off = np.zeros((again.size, int(shared.theta.shape[0]))), np.zeros(again.size)
    lost = np.ones(again.size, dtype=bool)
    if not shared.strict and changes.rows.shape[1] == 1 and changes.push is None:
        some = like(again, changes.rows, xp)
        moves, off, lost = fitted_at_once(shared, changes.take(some))
        if lost.all():
            values, error, lost = followed_to_minimum(shared, changes.take(some), hessian.take(some))
            moves, off = np.array(host(values)), np.array(host(error))
    for k in np.flatnonzero(lost).tolist():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NearSingularWarning)  # said once, of the fit itself
                move, off[k] = refitted(shared.fit, changed_risk(shared, changes, int(again[k])))
            moves[k] = host(move)
        except FisherleakError as error:
            unfitted(int(again[k]), error)
    if shared.strict:
        off[lost] = REFITTED * shared.rounding
    return like(moves, shared.inverse, xp), off


def converged(
    shared: StartingFit, changes: ChangedRows, hessian: ChangedHessian
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Moves for rows as they are centred, how far each may be off as it is measured, and which did not converge."""
    xp = namespace(shared.inverse)
    sure = host(hessian.det > UNSURE)
    if shared.expansion is None:
        values, error = hessian.newton, xp.full_like(hessian.det, np.inf)
    else:
        values, error = _rounds(shared, shared.expansion, changes, hessian)
    lost = np.zeros(values.shape[0], dtype=bool)
    far = np.flatnonzero(host(~(error <= shared.tolerance * shared.length(values))) & sure)
    for start in range(0, far.size, AT_ONCE):
        index = like(far[start : start + AT_ONCE], changes.rows, xp)
        begun = xp.take(values, index, axis=0)
        moves, off, loose = _chords(shared, changes.take(index), hessian.take(index), begun)
        at = far[start : start + AT_ONCE]
        values, error, lost[at] = put_rows(values, at, moves), put_rows(error, at, off), loose
    return values, error, lost


def _rounds(
    shared: StartingFit, expansion: Expansion, changes: ChangedRows, hessian: ChangedHessian
) -> tuple[Array, Array]:
    """Moves by the third derivative, and bounds of their errors as measured; infinite where there is none."""
    xp = namespace(shared.inverse)
    values, error = hessian.newton, xp.full_like(hessian.det, np.inf)
    going = np.flatnonzero(host(hessian.det > UNSURE))
    for _ in range(ROUNDS):
        if not going.size:
            break
        index = like(going, changes.rows, xp)
        some, near, moves = changes.take(index), hessian.take(index), xp.take(values, index, axis=0)
        # F(D) = D_1 - H'^-1 (N(D) + O(D)) (section 4.2)
        more = expansion.beyond(moves) + near.beyond(moves, some, shared.loss)
        later = near.newton - near.solve(more, shared.inverse)
        off = _bound(shared, expansion, some, near, later, later - moves, expansion.left_out)
        values, error = put_rows(values, going, later), put_rows(error, going, off)
        unsure = np.flatnonzero(np.isfinite(host(off)) & host(off > shared.tolerance * shared.length(later)))
        going, steps = going[unsure], xp.take(later - moves, like(unsure, changes.rows, xp), axis=0)
    if going.size:
        index = like(going, changes.rows, xp)
        some, near, moves = changes.take(index), hessian.take(index), xp.take(values, index, axis=0)
        off = _bound(shared, expansion, some, near, moves, steps, expansion.left_out_closely)
        error = put_rows(error, going, off)
    return values, error


def _bound(
    shared: StartingFit,
    expansion: Expansion,
    changes: ChangedRows,
    hessian: ChangedHessian,
    moves: Array,
    step: Array,
    left_out: Callable[[Array, Array], tuple[Array, Array]] | None,
) -> Array:
    """How far moves may be off as they are measured, the last step to them known: infinite where that tells nothing."""
    xp = namespace(moves)
    across, last = SAFETY * shared.across(moves), shared.across(step)
    further, seen = _further(hessian, shared)
    # q of section 4.2: the rates of N, of the changed rows and of the penalty, by the norms of H and H^-1, times the
    # norm of H'^-1 beside that of H^-1, which is at most 1 + `further`
    rate = expansion.rate(SAFETY * moves, across) + _own_rate(hessian, SAFETY * moves, changes, shared)
    rate = (rate + shared.turn(changes)) * (1.0 + further)
    safe = xp.where(rate < HALF, rate, HALF)
    by_norm = by_seen = xp.zeros_like(last)
    if left_out is not None:
        by_norm, by_seen = left_out(moves, across)
        by_norm = by_norm + SINGLE * rate * across
    # the bound of section 4.2, with |H'^-1 eps| taken once as it is measured and what follows from it by the norm of H:
    # (q s + E) / (1 - q) = E + q (s + E) / (1 - q), s the last step and E = |H'^-1 eps|_H
    to_come = safe * (last + (1.0 + further) * by_norm) / (1.0 - safe)
    return xp.where(rate < HALF, by_seen + seen * by_norm + shared.spread * to_come, np.inf)


def _further(hessian: ChangedHessian, shared: StartingFit) -> tuple[Array, Array]:
    r"""How much further H'^-1 goes than H^-1, by the norm of H and as measured.

    :math:`H'^{-1} R = B R - B U W U^T B R`, whose second part is no longer than :math:`(\mathrm{tr}\, W^T G W M)^{1/2}` times
    :math:`|R|_{H^{-1}}`, G the Gram matrix of B U in the norm that is asked for.
    """
    xp = namespace(hessian.M)
    WM = hessian.W @ hessian.M
    flat = xp.reshape(hessian.BU, (-1, hessian.BU.shape[2]))
    seen = xp.reshape(flat @ shared.seen_gram, hessian.BU.shape) @ xp.matrix_transpose(hessian.BU)
    found = []
    for gram in (hessian.M, seen):
        found.append(xp.sqrt(xp.clip(xp.sum((gram @ hessian.W) * WM, axis=(1, 2)), 0.0, None)))
    return found[0], found[1]


def _own_rate(hessian: ChangedHessian, moves: Array, changes: ChangedRows, shared: StartingFit) -> Array:
    """The part of the rate that the old and the new rows have, (b,): the largest move of a score counts for all of a set."""
    xp = namespace(moves)
    width = float(shared.loss.width or 1.0) ** 0.5
    rate = xp.zeros_like(hessian.det)
    for x, held in ((changes.x, hessian.held), (changes.new_x, hessian.new_held)):
        v = times_rows(moves, x)
        largest = xp.max(xp.sum(v * v, axis=2), axis=1)
        # A(z + v) - A is at most (e^(sqrt(w) |v|) - 1) A, and `held` is tr(H^-1 Z A Z^T) over the set
        rate = rate + xp.expm1(xp.clip(width * xp.sqrt(largest), 0.0, FAR)) * xp.clip(held, 0.0, None)
    return rate


def _patience(shared: StartingFit, changes: ChangedRows) -> tuple[int, float]:
    """How many chord steps are taken, and how long one may be beside the one before it."""
    if shared.strict or changes.rows.shape[1] > 1:
        return PATIENCE, SLOW
    return (MOST_CHORDS if shared.expansion is None and shared.loss.outputs == 1 else MORE_CHORDS), HALF


def _chords(
    shared: StartingFit, changes: ChangedRows, hessian: ChangedHessian, values: Array
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Moves improved by the gradient of all rows, how far they may be off, and which did not converge."""
    xp = namespace(values)
    most, slow = _patience(shared, changes)
    error = xp.full_like(hessian.det, np.inf)
    lost = np.ones(values.shape[0], dtype=bool)
    places, moves, last = np.arange(values.shape[0]), values, error
    for _ in range(most):
        moves, off, length, close = _chord(shared, changes, hessian, moves, last)
        values, error = put_rows(values, places, moves), put_rows(error, places, off)
        near = host(close)
        going = np.flatnonzero(~near & ~(host(length) > slow * host(last)))
        lost[places[near]] = False
        if not going.size:
            break
        rest = like(going, changes.rows, xp)
        places, changes, hessian = places[going], changes.take(rest), hessian.take(rest)
        moves, last = xp.take(moves, rest, axis=0), xp.take(length, rest)
    return values, error, lost


def _chord(
    shared: StartingFit, changes: ChangedRows, hessian: ChangedHessian, moves: Array, last: Array
) -> tuple[Array, Array, Array, Array]:
    """One step by the gradient of all rows: moves, how far they may be off, the step's length, and which are near enough."""
    xp = namespace(moves)
    gradient = gradients_at(shared.risk, shared.theta[None, :] + moves) - shared.gradient[None, :]
    gradient = gradient + hessian.own_gradient(moves, changes, shared.loss, shared.theta)
    step = hessian.solve(gradient, shared.inverse)
    moves = moves - step
    length, size = shared.length(step), shared.length(moves)
    # what all further steps are together if each is shorter than the one before by as much
    known = xp.isfinite(last) & (last > 0)
    rate = xp.where(known, length / xp.where(known, last, 1.0), HALF)
    guessed = length * rate / (1.0 - xp.where(rate < SLOW, rate, SLOW)) / CAUTION
    guessed = xp.where(rate < SLOW, guessed, np.inf)
    if shared.expansion is None:
        bound = _by_penalty(shared, changes, gradient, length)
    else:
        bound = _bound(shared, shared.expansion, changes, hessian, moves, step, None)
    off = xp.where(xp.isfinite(bound), bound, guessed)
    near = off <= shared.enough * size
    off = xp.where(xp.isfinite(off), off, length)
    return moves, off, length, near | (not shared.strict) & ((length <= CLOSE * size) | (length <= shared.rounding))


def _by_penalty(shared: StartingFit, changes: ChangedRows, gradient: Array, length: Array) -> Array:
    """How far moves may be off after a chord step, by the penalty: a risk bends by no less than the least of it."""
    penalty = host(shared.risk.penalty)
    least = float(np.min(penalty if changes.push is None else penalty + np.minimum(host(changes.push), 0.0)))
    if least <= 0:
        return namespace(length).full_like(length, np.inf)
    # |D_* - D| <= |g(D)| / least holds before the last step: after it, it may grow by the step's length at most
    return shared.stretch * namespace(gradient).linalg.vector_norm(gradient, axis=1) / least + length


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
    lost = np.flatnonzero(without_hold(shared, rows, starts, new))
    if not lost.size:
        return
    last = "its class" if shared.fit.loss.of_classes else "a label on that side"
    why = f"no other row has {last}, and nothing else fixes the intercept. Fit without one, or leave the row out with rows=."
    if sets:
        why = "no one else has their label, and nothing else fixes the intercept."
    raise SeparableClassesError(
        f"With {what} in {shared.called(int(rows[starts[lost[0]]]))} there is no model to compare with: {why}"
    )


def without_hold(shared: StartingFit, rows: Rows, starts: Rows, new: NDArray[Any] | None = None) -> NDArray[np.bool_]:
    """Sets of rows after whose change, or without which, the risk falls for ever along a free intercept: (m,).

    All gradients far out along one output then have one sign: a class has no row, or all labels of an output are on one side.

    Parameters
    ----------
    shared : StartingFit
    rows : integer array of shape (t,)
        The rows of the sets, one set after the other; below zero where a set is filled up.
    starts : integer array of shape (m,)
        Where each set begins among them.
    new : array of shape (t,) or (t, K), optional
        Their other labels; if not given, the rows are left out.
    """
    fit = shared.fit
    if fit.intercept is None or fit.intercept_l2 > 0 or fit.loss.quadratic:
        return np.zeros(len(starts), dtype=bool)
    counted = np.ones(fit.n, dtype=bool) if fit.sample_weight is None else host(fit.sample_weight) > 0
    own = ((rows >= 0) & counted[rows])[:, None]
    before = shared.holding & counted[:, None]
    after = False if new is None else own & holding(fit, new)
    gained = np.add.reduceat(np.asarray(after - (own & before[rows]).astype(np.int64)), starts, axis=0)
    return np.asarray(np.any((gained < 0) & (before.sum(axis=0) + gained == 0), axis=1))
