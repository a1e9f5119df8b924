r"""Minimisers of several outputs with one example left out, for every example, or with all rows of a set, for every set.

Example i is left out and :math:`n \lambda` stays as it is. With r and A its weighted derivatives, :math:`Z = I \otimes x`,
:math:`U = H^{-1} Z` and :math:`N = Z^T U`, a Newton step moves the parameters by

.. math:: D = U (I - A N)^{-1} r, \qquad H_-^{-1} v = H^{-1} v + U (I - A N)^{-1} A\, U^T v ,

which is the move itself for the squared loss. For others rounds follow in which the gradient of all rows comes from their
second and third derivatives (``replacement.expansion``), without a pass over them. What that leaves out is bounded; where it is
above the tolerance, chord steps (the same :math:`H_-`, the gradient of all rows) go on until they are short enough, some
examples at a time, and those for which they do not settle are fitted again. The bound, or ten times what chord steps would
still move if they went on as they do, is added to a length, so that none is below the truth. Where there is no
minimum without an example (the only one of its class beside a free intercept, say), the move is infinite. Scales that are
folded in leave with the example: its penalty changes by :math:`P_i = n\lambda\, \mathrm{diag}(\Delta s^2)` in every output.

Several examples that leave together are the same with all of their columns in Z (``several_left_out``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host, is_lazy, like, namespace, row_dots
from fisherleak._support.progress import track
from fisherleak.engine.changes.left_out import SLOW, MovingScales
from fisherleak.engine.changes.neighbours import ROUNDING, gradients_at
from fisherleak.engine.changes.removal_steps import AT_MINIMUM, MOST_CHORDS, REFITTED, WORK, Bucket
from fisherleak.engine.changes.sets_left_out import Rows, filled_up, members, roots_of
from fisherleak.engine.changes.several_left_out import Around, OutputsOut
from fisherleak.engine.fit.curvature import factorise
from fisherleak.engine.fit.minimise import risk_of_fit
from fisherleak.engine.fit.newton import newton
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.replacement.expansion import Expansion, expanded, pays_expansion
from fisherleak.engine.replacement.settling import put_rows
from fisherleak.errors import FisherleakError, InvalidInputError, NearSingularWarning
from fisherleak.rows import gather, map_rows

__all__ = ["is_light_for_several", "several_removal_moves", "several_removal_norms"]

AT_ONCE = 64
"""Examples that are left out in one pass over the rows."""
SAFETY = 1.1
"""For the terms after those that a bound is made of."""
CAUTION = 10.0
"""Times the estimate of what is left after chord steps: it is an estimate."""
LOST = 1e-9
"""What is left of the curvature along a row without which the squared loss has no minimum."""
LIGHT = WORK // 8
"""Products n x n x parameters of a pass that take a few seconds: a pass of several outputs is slower than one of one."""


ROUNDS = 3
"""With the third derivative."""


def is_light_for_several(jacobian: Jacobian, sets: int | None = None) -> bool:
    """Whether the norms of all examples, or of so many sets, take seconds rather than minutes, as a report needs them."""
    fit, n = jacobian.fit, jacobian.fit.n
    count = n if sets is None else sets
    if fit.loss.quadratic or is_lazy(jacobian.X):
        return bool(fit.loss.quadratic)
    if n * count * int(fit.theta.shape[0]) <= LIGHT:
        return True
    risk = risk_of_fit(fit, jacobian.X, jacobian.y)
    return pays_expansion(risk, risk.reduced_loss, count) and n * risk.size**3 <= 32 * WORK


def several_removal_norms(jacobian: Jacobian, tolerance: float, sets: Sequence[Rows] | None = None) -> Array:
    """How far the parameters move when each example, or each of ``sets``, is left out, as the noise sees it: (n,).

    Infinite without a minimum. No value is below the truth, nor above it by more than the part ``tolerance`` of it.
    """
    if jacobian.fit.loss.quadratic and sets is None:
        return _closed_form(jacobian)
    if is_lazy(jacobian.X):
        raise InvalidInputError(
            f"Membership is known for Dask rows with the squared loss only, and the loss is {jacobian.fit.loss.name}: each row "
            "needs a pass over all others. Measure rows in memory, X.compute()."
        )
    buckets = _one_by_one(np.arange(int(jacobian.X.shape[0]))) if sets is None else filled_up(sets, jacobian.X)
    task = _task(jacobian, tolerance, sum(int(places.shape[0]) for places, _ in buckets))
    lengths = _in_place(_walked(jacobian, task, buckets), lambda moves, error: task.seen(moves) + error)
    return namespace(lengths).where(namespace(lengths).isnan(lengths), np.inf, lengths)


def several_removal_moves(jacobian: Jacobian, rows: Rows | Sequence[Rows], tolerance: float) -> Array:
    """How the released parameters move when each of some examples, or of some sets of them, is left out: (m, p).

    Infinite where there is no minimum.
    """
    buckets = filled_up(rows, jacobian.X) if isinstance(rows, Sequence) else _one_by_one(rows)
    task = _task(jacobian, tolerance, len(rows))
    xp = namespace(jacobian.B)
    moves = jacobian.fit.uncentred(_in_place(_walked(jacobian, task, buckets), lambda moves, _: moves).T).T
    lost = xp.any(xp.isnan(moves), axis=1)
    return xp.where(lost[:, None], np.inf, moves)


def _one_by_one(rows: Rows) -> list[Bucket]:
    return [(np.arange(rows.size), rows)]


def _in_place(found: Iterator[tuple[Rows, Array, Array]], finish: Callable[[Array, Array], Array]) -> Array:
    """What is made of moves and their errors, in the order of their places."""
    places, parts = zip(*((where, finish(moves, error)) for where, moves, error in found), strict=True)
    together = namespace(parts[0]).concat(list(parts), axis=0)
    return namespace(together).take(
        together, like(np.argsort(np.concatenate(places)), together, namespace(together)), axis=0
    )


def _walked(jacobian: Jacobian, task: _Removal, buckets: Sequence[Bucket]) -> Iterator[tuple[Rows, Array, Array]]:
    """Places, their moves of the reduced parameters and errors; a move is not a number where there is no minimum."""
    quadratic = jacobian.fit.loss.quadratic
    for where, every in buckets:
        places, rows = np.asarray(host(where)), host(every)
        rows = rows[:, None] if rows.ndim == 1 else rows
        most = max(1, AT_ONCE // min(rows.shape[1], task.risk.width))
        for start in track(range(0, places.size, most), -(-places.size // most), "Leaving rows out"):
            some = rows[start : start + most]
            moves, error = task.exact_moves(some) if quadratic else task.moves(some)
            alone = np.zeros(some.shape[0], dtype=bool) if quadratic else _alone(jacobian, some)
            lost = like(alone, moves, namespace(moves)) > 0
            yield places[start : start + most], namespace(moves).where(lost[:, None], np.nan, moves), error


def _closed_form(jacobian: Jacobian) -> Array:
    """|B (r (x) x)| / (1 - omega x . G x), with G the inverse Hessian of one output."""
    xp = namespace(jacobian.B)
    make, B, p = jacobian.model.scores, jacobian.B, jacobian.width
    G = jacobian.fit.factor.inverse()[:p, :p]

    def block(X: Array, y: Array, weights: Array | None) -> Array:
        part = make(X, y, weights)
        move = xp.reshape(part.r[:, :, None] * part.x[:, None, :], (part.x.shape[0], -1)) @ B.T
        left = 1.0 - part.omega * xp.vecdot(part.x @ G, part.x)
        length = xp.linalg.vector_norm(move, axis=1)
        nothing = left <= float(np.finfo(float).eps) * (64 + jacobian.fit.condition)
        infinite = xp.where(length > 0, xp.full_like(length, np.inf), length)
        return xp.where(nothing, infinite, length / xp.where(nothing, xp.ones_like(left), left))

    return map_rows(block, *jacobian.arrays)


def _alone(jacobian: Jacobian, rows: Rows) -> NDArray[np.bool_]:
    """Sets of rows (c, k) without which a class has no row and there is no minimum, as nothing holds its parameters."""
    fit = jacobian.fit
    y = host(jacobian.y).astype(np.int64)
    counted = np.ones(y.shape[0], dtype=bool) if fit.sample_weight is None else host(fit.sample_weight) > 0
    free = fit.l2 == 0 or (fit.intercept is not None and fit.intercept_l2 == 0)
    of_class = np.bincount(y[counted], minlength=int(fit.coef.shape[0]))
    own = (rows >= 0) & counted[rows]
    here = np.sum((y[rows][:, :, None] == np.arange(of_class.size)) & own[:, :, None], axis=1)
    return np.asarray(free & np.any((here == of_class[None, :]) & (here > 0), axis=1))


def _task(jacobian: Jacobian, tolerance: float, count: int) -> _Removal:
    """At the minimum itself: a fit that is not quite there is moved."""
    fit = jacobian.fit
    risk = risk_of_fit(fit, jacobian.X, jacobian.y)
    theta, factor = fit.centred_theta, fit.factor
    if (fit.distance if fit.left is None else fit.left) > AT_MINIMUM:
        theta, _, factor, _ = newton(risk, theta, risk.at(theta, curvature=True), factor)
    B, metric, loss = factor.inverse(), jacobian.metric, risk.reduced_loss
    known = None
    if not loss.quadratic and pays_expansion(risk, loss, count):
        known = expanded(risk, theta, B, factor.scale, metric, loss)
    return _Removal(risk, theta, B, metric, MovingScales.of(jacobian), tolerance, known)


@dataclass(frozen=True)
class _Removal(Around):
    """What leaving examples out has to know."""

    tolerance: float
    expansion: Expansion | None

    @cached_property
    def hessian(self) -> Array:
        found = self.risk.at(self.theta, curvature=True).hessian
        assert found is not None
        return found

    @cached_property
    def gradient(self) -> Array:
        """What rounding left of the gradient at the fit, (L p,)."""
        return gradients_at(self.risk, self.theta[None, :])[0, :]

    def exact_moves(self, rows: Rows) -> tuple[Array, Array]:
        """Those of some sets, (c, L p), for the squared loss, without error; not a number where nothing determines them."""
        xp = namespace(self.theta)
        out = OutputsOut.of(self, rows)
        moves = out.solve(out.gradient(self.theta[None, :] + xp.zeros_like(out.weighted)))
        p = self.risk.width
        x = roots_of(out.omega, out.x)  # of one output: all have the same curvature
        left = 1.0 - xp.linalg.eigvalsh((x @ self.B[:p, :p]) @ xp.matrix_transpose(x))[:, -1]
        return xp.where((left <= LOST)[:, None], np.nan, moves), xp.zeros_like(left)

    @property
    def allowed(self) -> float:
        """Error of a length, relative to it, that leaves it within the tolerance of the truth when it is added."""
        return self.tolerance / (2.0 + self.tolerance)

    def moves(self, rows: Rows) -> tuple[Array, Array]:
        """Those of some examples, (c, L p), and their errors; not a number where there is no minimum."""
        xp = namespace(self.theta)
        out = OutputsOut.of(self, rows)
        start = self.theta[None, :] + xp.zeros_like(out.weighted)
        moves = out.solve(out.gradient(start) - out.pushed(start))
        if self.expansion is None:
            return self._by_chords(rows, out, moves)
        moves, error, settled = self._without_passes(out, self.expansion, moves)
        far = np.flatnonzero(~settled)
        if not far.size:
            return moves, error
        begun = xp.take(moves, like(far, self.theta, xp), axis=0)
        later, left = self._by_chords(rows[far], OutputsOut.of(self, rows[far]), begun)
        return put_rows(moves, far, later), put_rows(error[:, None], far, left[:, None])[:, 0]

    def _without_passes(
        self, out: OutputsOut, expansion: Expansion, moves: Array
    ) -> tuple[Array, Array, NDArray[np.bool_]]:
        r"""Moves by the third derivative, what they are off at most, and which of them are within the tolerance.

        The gradient of all rows is H D + N(D); with epsilon what is left out of N, and q the ratio of two steps, a move is off
        by no more than what steps to come add up to and :math:`|H_-^{-1} \epsilon| / (1 - q)`.
        """
        xp = namespace(moves)
        lengths = [self.seen(moves)]
        for _ in range(ROUNDS):
            points = self.theta[None, :] + moves
            step = out.solve(
                out.gradient(points) - (moves @ self.hessian + expansion.beyond(moves)) - out.pushed(points)
            )
            lengths.append(self.seen(step))
            moves = moves + step
        tiny = float(np.finfo(float).tiny)
        ratio = lengths[-1] / xp.clip(lengths[-2], tiny, None)
        safe = xp.where(ratio < SLOW, ratio, SLOW)
        across = SAFETY * xp.sqrt(xp.clip(row_dots(moves @ self.hessian, moves, xp), 0.0, None))
        by_norm, by_seen = expansion.left_out(SAFETY * moves, across)
        off = (lengths[-1] * safe + by_seen + out.reach() * by_norm) / (1.0 - safe)
        size = self.seen(moves)
        still = out.weightless & (size == 0)
        good = still | xp.isfinite(off) & (ratio < SLOW) & (off <= self.allowed * size)
        return moves, xp.where(still, 0.0, off), np.array(host(good), dtype=bool)

    def _by_chords(self, rows: Rows, out: OutputsOut, moves: Array) -> tuple[Array, Array]:
        """Moves improved by the gradient of all rows, and their errors; fitted again where that does not settle."""
        xp = namespace(moves)
        count = rows.shape[0]
        last = np.full(count, np.inf)
        settled, error = np.zeros(count, dtype=bool), np.zeros(count)
        going = np.ones(count, dtype=bool)
        for _ in range(MOST_CHORDS):
            points = self.theta[None, :] + moves
            gradient = gradients_at(self.risk, points) - self.gradient[None, :]
            step = out.solve(out.gradient(points) - gradient - out.pushed(points))
            moved, now = host(self.seen(step)), host(self.seen(moves + step))
            fits = np.isfinite(moved) & (moved <= SLOW * np.maximum(last, np.finfo(float).tiny))
            # what is left after a step shrinks by the same ratio for ever
            ratio = np.where(np.isfinite(last), moved / np.maximum(last, np.finfo(float).tiny), 0.5)
            rest = CAUTION * moved * np.minimum(ratio, SLOW) / (1.0 - np.minimum(ratio, SLOW))
            done = going & fits & (rest <= self.allowed * np.maximum(now, np.finfo(float).tiny))
            taken = like(going & fits, moves, xp)[:, None] > 0
            moves, last = xp.where(taken, moves + step, moves), moved
            settled[done], error[done] = True, rest[done]
            going = going & fits & ~done
            if not going.any():
                break
        for k in np.flatnonzero(~settled):
            moves[int(k), :] = self._refitted(members(rows[k]))
            error[k] = REFITTED * ROUNDING * float(self.seen(self.theta[None, :])[0])
        return moves, like(error, moves, xp)

    def seen(self, moves: Array) -> Array:
        """Lengths of moves as the noise sees them."""
        return namespace(moves).linalg.vector_norm(moves @ self.metric.T, axis=1)

    def _refitted(self, rows: Rows) -> Any:
        """From a fit without some rows; not a number where there is none."""
        risk = self.risk
        xp = namespace(self.theta)
        weights = np.ones(risk.X.shape[0]) if risk.weights is None else np.array(host(risk.weights))
        weights[rows] = 0.0
        other = replace(risk, weights=like(weights, self.theta, xp), known_centre=risk.centre)
        if self.fold is not None:
            X, own = gather((risk.X, risk.weights), like(rows, self.theta, xp))
            assert X is not None
            changes = self.fold.changes(X[None, ...], None if own is None else own[None, :])[0, :]
            other = replace(other, scales=xp.sqrt(self.fold.squares + changes))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NearSingularWarning)
                at = other.at(self.theta, curvature=True)
                assert at.hessian is not None
                theta, *_ = newton(other, self.theta, at, factorise(at.hessian, other.parameter_names))
        except FisherleakError:
            return np.nan
        return theta - self.theta
