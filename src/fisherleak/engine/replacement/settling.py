r"""Steps that bring moves of a minimiser to where a changed risk is minimal, and how far they may still be off.

With :math:`F(D) = D_1 - H'^{-1}(N(D) + O(D))` of ``replaced_rows``, q the rate at which F contracts by the norm of H, and
:math:`\epsilon` what is left out of N, a round from D to F(D) ends, by the norm of H, no further from the minimum than

.. math:: \frac{q\, |F(D) - D|_H + |H'^{-1} \epsilon|_H}{1 - q} .

q is bounded by the derivatives of the losses (``expansion``) and those of the old and the new row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, device, host, like, namespace, row_dots
from fisherleak.engine.changes.neighbours import AT_ONCE, ROUNDING, UNSURE, gradients_at
from fisherleak.engine.fit.minimise import Fit, risk_of_fit
from fisherleak.engine.fit.risk import Risk, with_constant
from fisherleak.engine.losses.loss import ReducedLoss
from fisherleak.engine.replacement.expansion import Expansion, expanded, pays_expansion
from fisherleak.engine.replacement.row_changes import ChangedHessian, RowChanges, times_rows

__all__ = ["Replacements", "put_rows", "settled"]

TOLERANCE = 1e-4
"""Relative error of a move up to which it is taken as it is."""
CLOSE = 1e-8
"""A chord step of at most this part of the move is the last, where nothing better is known of it."""
MOST_CHORDS = 8
"""Moves that need more are fitted again, one by one."""
MORE_CHORDS = 20
"""The same where a fit costs far more than some steps: with many rows, or with several outputs."""
CAUTION = 0.1
"""Part of an estimate's tolerance that the estimate may take."""
ROUNDS = 3
"""Rounds with N from the third derivative at most."""
SAFETY = 1.1
"""For moves a little longer than those that the bounds are taken at."""
HALF = 0.5
"""A rate above which a step says nothing of those to come."""
SINGLE = 1e-5
"""Part of N that may be lost to float32."""
FAR = 50.0
"""Exponents past which a bound is as good as none."""


@dataclass(frozen=True)
class Replacements:
    """A fit at its minimum and what all replacements share; moves of any number of candidates are found with one of it.

    Parameters
    ----------
    fit : Fit
    X : array of shape (n, d)
        The features it was fitted on.
    y : array of shape (n,) or (n, K)
        Its labels, as the loss takes them.
    count : int
        How many moves will be asked for: a third derivative has to pay.
    tolerance : float
        Relative error up to which a move is not improved further.
    called : function
        What a row is called in a refusal; by its place, from 0, if not given.
    """

    fit: Fit
    X: Array
    y: Array
    count: int
    tolerance: float = TOLERANCE
    called: Callable[[int], str] = "row {}".format

    @cached_property
    def risk(self) -> Risk:
        return risk_of_fit(self.fit, self.X, self.y)

    @cached_property
    def loss(self) -> ReducedLoss:
        return self.risk.reduced_loss

    @cached_property
    def inverse(self) -> Array:
        """H^-1."""
        return self.fit.factor.inverse()

    @cached_property
    def hessian(self) -> Array:
        found = self.risk.at(self.fit.centred_theta, curvature=True).hessian
        assert found is not None
        return found

    @cached_property
    def seen(self) -> Array:
        """What moves of the parameters for rows as they are centred are as they are released, (released, L p)."""
        xp = namespace(self.inverse)
        return self.fit.uncentred(xp.eye(self.inverse.shape[0], dtype=self.inverse.dtype, device=device(self.inverse)))

    @cached_property
    def seen_gram(self) -> Array:
        """|D as released|^2 = D.S D, (L p, L p)."""
        return self.seen.T @ self.seen

    @cached_property
    def spread(self) -> float:
        """What a move of length one by H is as it is released, at most."""
        return float(np.sqrt(np.linalg.eigvalsh(host(self.seen @ self.inverse @ self.seen.T))[-1]))

    @cached_property
    def expansion(self) -> Expansion | None:
        if self.loss.quadratic or not pays_expansion(self.risk, self.loss, self.count):
            return None
        return expanded(self.risk, self.fit.centred_theta, self.inverse, self.fit.factor.scale, self.seen, self.loss)

    @cached_property
    def rounding(self) -> float:
        """A step of this length is nothing but rounding."""
        return ROUNDING * float(np.linalg.norm(host(self.fit.theta)))

    def length(self, moves: Array) -> Array:
        """As released, (b,)."""
        xp = namespace(moves)
        return xp.sqrt(xp.clip(row_dots(moves @ self.seen_gram, moves, xp), 0.0, None))

    def across(self, moves: Array) -> Array:
        """|D|_H, (b,)."""
        xp = namespace(moves)
        return xp.sqrt(xp.clip(row_dots(moves @ self.hessian, moves, xp), 0.0, None))

    @cached_property
    def stretch(self) -> float:
        """What a move of length one is as it is released, at most."""
        return float(np.linalg.norm(host(self.seen), ord=2))

    def changes(self, rows: Array, changed: Array | None, labels: Array | None) -> RowChanges:
        """Rows that take other features (m, d), other labels, or both."""
        xp = namespace(self.X)
        fit = self.fit
        intercept = fit.intercept is not None
        old = xp.take(self.X, rows, axis=0)
        x = with_constant(old, intercept, fit.centre)
        e = xp.zeros_like(x)
        if changed is not None:
            e = with_constant(changed, False, None) - with_constant(old, False, None)
            e = xp.concat([e, xp.zeros_like(e[:, :1])], axis=1) if intercept else e
        y = xp.take(self.y, rows, axis=0)
        omega = xp.ones_like(x[:, 0]) if fit.sample_weight is None else xp.take(fit.sample_weight, rows, axis=0)
        return RowChanges(rows, x, e, y, y if labels is None else labels, omega, omega)


def settled(
    shared: Replacements, changes: RowChanges, hessian: ChangedHessian
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Moves for rows as they are centred, how far each may be off as it is released, and which did not settle."""
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


def put_rows(whole: Array, places: NDArray[np.int64], rows: Array) -> Array:
    """An array with some of its rows replaced."""
    xp = namespace(whole)
    order = np.arange(whole.shape[0])
    order[places] = whole.shape[0] + np.arange(places.size)
    return xp.take(xp.concat([whole, rows], axis=0), like(order, whole, xp), axis=0)


def _rounds(
    shared: Replacements, expansion: Expansion, changes: RowChanges, hessian: ChangedHessian
) -> tuple[Array, Array]:
    """Moves by the third derivative, and bounds of their errors as released; infinite where there is none."""
    xp = namespace(shared.inverse)
    values, error = hessian.newton, xp.full_like(hessian.det, np.inf)
    going = np.flatnonzero(host(hessian.det > UNSURE))
    for _ in range(ROUNDS):
        if not going.size:
            break
        index = like(going, changes.rows, xp)
        some, near, moves = changes.take(index), hessian.take(index), xp.take(values, index, axis=0)
        more = expansion.beyond(moves) + near.own(moves, some, shared.loss)
        later = near.newton - near.solve(more, some, shared.inverse)
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
    shared: Replacements,
    expansion: Expansion,
    changes: RowChanges,
    hessian: ChangedHessian,
    moves: Array,
    step: Array,
    left_out: Callable[[Array, Array], tuple[Array, Array]] | None,
) -> Array:
    """How far moves may be off as they are released, the last step to them known: infinite where that tells nothing."""
    xp = namespace(moves)
    across, last = SAFETY * shared.across(moves), shared.across(step)
    further, seen = _reach(hessian, shared)
    rate = (expansion.rate(SAFETY * moves, across) + _own_rate(hessian, SAFETY * moves, changes, shared)) * (
        1.0 + further
    )
    safe = xp.where(rate < HALF, rate, HALF)
    by_norm = by_seen = xp.zeros_like(last)
    if left_out is not None:
        by_norm, by_seen = left_out(moves, across)
        by_norm = by_norm + SINGLE * rate * across
    to_come = safe * (last + (1.0 + further) * by_norm) / (1.0 - safe)
    return xp.where(rate < HALF, by_seen + seen * by_norm + shared.spread * to_come, np.inf)


def _reach(hessian: ChangedHessian, shared: Replacements) -> tuple[Array, Array]:
    r"""How much further H'^-1 reaches than H^-1, by the norm of H and as released.

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


def _own_rate(hessian: ChangedHessian, moves: Array, changes: RowChanges, shared: Replacements) -> Array:
    """The part of the rate that the old and the new row have, (b,)."""
    xp = namespace(moves)
    L, M = shared.loss.outputs, hessian.M
    width = float(shared.loss.width or 1.0) ** 0.5
    old = M[:, :L, :L]
    new = old + M[:, :L, L:] + M[:, L:, :L] + M[:, L:, L:]
    rate = xp.zeros_like(hessian.det)
    for x, A, N in ((changes.x, hessian.A, old), (changes.x + changes.e, hessian.A_new, new)):
        v = times_rows(moves, x)
        reach = xp.clip(width * xp.sqrt(row_dots(v, v, xp)), 0.0, FAR)
        rate = rate + xp.expm1(reach) * xp.clip(xp.sum(A * N, axis=(1, 2)), 0.0, None)
    return rate


def _chords(
    shared: Replacements, changes: RowChanges, hessian: ChangedHessian, values: Array
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Moves improved by the gradient of all rows, how far they may be off, and which did not settle."""
    xp = namespace(values)
    error = xp.full_like(hessian.det, np.inf)
    lost = np.ones(values.shape[0], dtype=bool)
    places, moves, last = np.arange(values.shape[0]), values, error
    for _ in range(MOST_CHORDS if shared.expansion is None and shared.loss.outputs == 1 else MORE_CHORDS):
        moves, off, length, close = _chord(shared, changes, hessian, moves, last)
        values, error = put_rows(values, places, moves), put_rows(error, places, off)
        near = host(close)
        going = np.flatnonzero(~near & ~(host(length) > HALF * host(last)))
        lost[places[near]] = False
        if not going.size:
            break
        rest = like(going, changes.rows, xp)
        places, changes, hessian = places[going], changes.take(rest), hessian.take(rest)
        moves, last = xp.take(moves, rest, axis=0), xp.take(length, rest)
    return values, error, lost


def _chord(
    shared: Replacements, changes: RowChanges, hessian: ChangedHessian, moves: Array, last: Array
) -> tuple[Array, Array, Array, Array]:
    """One step by the gradient of all rows: moves, how far they may be off, the step's length, and which are near enough."""
    xp = namespace(moves)
    theta = shared.fit.centred_theta[None, :]
    gradient = gradients_at(shared.risk, theta + moves) + hessian.own_gradient(moves, changes, shared.loss)
    step = hessian.solve(gradient, changes, shared.inverse)
    moves = moves - step
    length, size = shared.length(step), shared.length(moves)
    close = (length <= CLOSE * size) | (length <= shared.rounding)
    if shared.expansion is None:
        least = min(float(x) for x in host(shared.risk.penalty))
        # the bound holds before the last step: after it, it may grow by the step's length at most
        by_penalty = 0.0 * length if least == 0 else shared.stretch * xp.linalg.vector_norm(gradient, axis=1) / least
        return moves, by_penalty + length, length, close
    bound = _bound(shared, shared.expansion, changes, hessian, moves, step, None)
    # where there is no bound: what all further steps are together if each is shorter than the one before by as much
    known = xp.isfinite(last) & (last > 0)
    rate = xp.where(known, length / xp.where(known, last, 1.0), 1.0)
    guessed = xp.where(rate < HALF, length * rate / (1.0 - xp.where(rate < HALF, rate, HALF)) / CAUTION, np.inf)
    off = xp.where(xp.isfinite(bound), bound, guessed)
    off = xp.where(xp.isfinite(off), off, length)
    return moves, off, length, close | (off <= shared.tolerance * size) & (xp.isfinite(bound) | (rate < HALF))
