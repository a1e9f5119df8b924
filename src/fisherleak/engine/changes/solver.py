"""How far the minimiser moves when rows change: Newton, chord steps with a certified error, refits where these fail.

Mathematics: 4.2, ``docs/mathematics/changes.md``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host, like, namespace
from fisherleak.engine.changes.changed_fits import REFITTED, changed_risk, fitted_at_once, refitted
from fisherleak.engine.changes.changed_rows import EPSILON, UNSURE, ChangedHessian, ChangedRows, put_rows, times_rows
from fisherleak.engine.changes.expansion import Expansion
from fisherleak.engine.changes.quasi_newton import followed_to_minimum
from fisherleak.engine.changes.starting_fit import AT_ONCE, CLOSE, FAR, StartingFit, gradients_at
from fisherleak.errors import FisherleakError, NearSingularWarning

__all__ = ["converged", "solved"]

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
SINGLE = 1e-5
"""Part of N that may be lost to float32."""
Vector = NDArray[np.float64]


def solved(
    shared: StartingFit, changes: ChangedRows, unfitted: Callable[[int, FisherleakError], None]
) -> tuple[Array, Array, int]:
    """Moves for rows as they are centred, how far each may be off as it is measured, and how many were fitted again.

    ``unfitted`` is called with the place of a change and the reason where nothing is minimal with it.
    """
    xp = namespace(shared.inverse)
    hessian = shared.changed_hessian(changes)
    loose = ~(hessian.det > UNSURE)
    if shared.loss.quadratic and changes.push is None:
        # one Newton step of H' ends at the minimum (section 4.1): what is left is rounding
        values = hessian.newton
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
