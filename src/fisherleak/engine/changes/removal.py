"""Minimisers with one row left out, for every row, or with a set of rows, without fitting again.

Mathematics: 4.7, ``docs/mathematics/changes.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, device, host, is_lazy, like, namespace, row_dots
from fisherleak._support.progress import track
from fisherleak.engine.changes.changed_rows import EPSILON, Rows, filled_up, members, put_rows
from fisherleak.engine.changes.gradient_beyond_hessian import pays_expansion
from fisherleak.engine.changes.moves_of_changed_rows import solved, without_hold
from fisherleak.engine.changes.removal_expansion import pays, remainders, steepness, third_derivative
from fisherleak.engine.changes.removal_steps import (
    WORK,
    BoundedMoves,
    Bucket,
    RemovalTask,
    Removed,
    by_chords,
    by_higher_terms,
    by_newton,
    by_third,
    closed_form,
    refit,
    removed,
)
from fisherleak.engine.changes.starting_fit import AT_ONCE, MovingPenalty, StartingFit
from fisherleak.engine.fit.minimise import Fit, fit_at, risk_of_fit
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.mechanisms.interface_answers import Disclosed, is_disclosed
from fisherleak.engine.noise import Noise
from fisherleak.errors import FisherleakError, InvalidInputError, UnsupportedModelError
from fisherleak.rows import gather, map_rows, rows_per_block, sum_rows

EXACT = 1e-8
"""Relative error of a move at which it counts as exact: of what decides something."""
CLOSE = 1e-3
"""Relative error of a move of which no digit shown speaks: of what is only shown."""
COARSE = 1e-6
"""Errors of differences are far below such a tolerance."""
PASSES = 12
"""Products n x p that a row takes by chords, about: T pays from p^2 of them."""
SET_COPIES = 3
"""What is held of a set, in copies of its rows."""
AT_MINIMUM = 1e-12
"""Distance from the minimum up to which a fit counts as there."""
LIGHT = WORK // 8
"""Products n x n x parameters of a pass that take a few seconds: a pass of several outputs is slower than one of one."""
Finish = Callable[[RemovalTask, BoundedMoves], Array]
"""From moves for rows as they are centred to what is wanted of them."""


def removal_norms(
    jacobian: Jacobian, tolerance: float = EXACT, rows: Array | None = None, sets: Sequence[Rows] | None = None
) -> Array:
    """How far the parameters move when each example (or each of ``rows``, or of ``sets``) is left out, as noise sees it: (n,).

    Infinite where there is no minimum without it. No value is below the truth, nor above it by more than the part
    ``tolerance`` of it; for the squared loss, by rounding. Lazy rows are lazy here too, for the squared loss alone.
    """
    X, loss = jacobian.X, jacobian.fit.loss
    if jacobian.gradient and not jacobian.several:
        return map_rows(_left_out_of_the_sum(jacobian), *jacobian.arrays) if sets is None else _sums_of(jacobian, sets)
    closed = loss.unit_curvature if jacobian.several else loss.quadratic
    tied = jacobian.several and MovingPenalty.of(jacobian) is not None
    if closed and not tied and sets is None and (is_lazy(X) or (jacobian.several and rows is None)):
        return map_rows(closed_form(jacobian), *jacobian.arrays)
    if is_lazy(X):
        raise InvalidInputError(
            f"Membership is known for Dask rows with the squared loss only, and the loss is {loss.name}: each row needs "
            "a pass over all others. Measure rows in memory, X.compute()."
        )
    chosen = namespace(X).arange(X.shape[0], device=device(X)) if rows is None else rows
    buckets = _one_by_one(chosen) if sets is None else filled_up(sets, X)
    if jacobian.several:
        return _by_solver(jacobian, tolerance, buckets, lambda shared, moves, error: shared.length(moves) + error)
    return _walked(_task(jacobian, tolerance), buckets, _length)


def removal_moves(jacobian: Jacobian, rows: Array | Sequence[Rows], tolerance: float = EXACT) -> Array:
    """How the released parameters move when each of some examples, or of some sets of them, is left out: (m, p).

    Infinite where there is no minimum.
    """
    buckets = filled_up(rows, jacobian.X) if isinstance(rows, Sequence) else _one_by_one(rows)
    if jacobian.several:
        return _by_solver(jacobian, tolerance, buckets, lambda shared, moves, _: shared.fit.uncentred(moves.T).T)
    return _walked(_task(jacobian, tolerance), buckets, _released)


def _length(task: RemovalTask, found: BoundedMoves) -> Array:
    """Lengths with the errors added."""
    return task.length(found.moves) + found.error


def _released(task: RemovalTask, found: BoundedMoves) -> Array:
    """Moves of the parameters as they are released, for rows that are not centred."""
    return task.fit.uncentred(found.moves.T).T


def _sums_of(jacobian: Jacobian, sets: Sequence[Rows]) -> Array:
    """What a sum of gradients moves by without each of some sets."""
    xp = namespace(jacobian.X)
    whole = jacobian.model.rows(*jacobian.arrays)
    terms = whole.r[:, None] * whole.x
    sums = xp.stack([xp.sum(xp.take(terms, like(rows, terms, xp), axis=0), axis=0) for rows in sets])
    return xp.linalg.vector_norm(sums @ jacobian.B.T, axis=1)


def _one_by_one(rows: Array) -> list[Bucket]:
    return [(namespace(rows).arange(rows.shape[0], device=device(rows)), rows)]


def _left_out_of_the_sum(jacobian: Jacobian) -> Callable[..., Array]:
    """A function of blocks: |B x r|, what a sum of gradients moves by without a row."""
    model, B = jacobian.model, jacobian.B

    def block(X: Array, y: Array, weights: Array | None) -> Array:
        rows = model.rows(X, y, weights)
        xp = namespace(rows.x)
        return xp.abs(rows.r) * xp.linalg.vector_norm(rows.x @ B.T, axis=1)

    return block


def check_normal(noise: Noise | Disclosed) -> None:
    """Refuse noise under which the best test between two releases has no closed form."""
    if not noise.normal:
        by = noise.by if is_disclosed(noise) else noise
        kind = f"a record of {by}" if isinstance(by, str) else type(by).__name__
        raise InvalidInputError(
            f"noise must be normal for membership: the best test has a closed form for such noise only; got "
            f"{kind}. Use fisherleak.Gaussian."
        )


def check_fixed(jacobian: Jacobian) -> None:
    """Refuse folded scales that do not tell what they are without a row."""
    if (
        jacobian.several
        and jacobian.folding is not None
        and (jacobian.fit.loss.quadratic or not _without_known(jacobian))
    ):
        raise UnsupportedModelError(
            "For models of several outputs, the only preprocessing that membership() counts is standard deviations of scalers "
            "before a softmax model: measure with public='preprocessing'."
        )
    if not _without_known(jacobian):
        raise InvalidInputError(
            "Membership needs the scale of each column after a row is removed, which is known for standard deviations "
            "only: use StandardScaler, or measure with public='preprocessing'."
        )


def _without_known(jacobian: Jacobian) -> bool:
    return jacobian.folding is None or jacobian.folding.totals is not None


def is_known(jacobian: Jacobian) -> bool:
    """Whether ``removal_norms`` says how well membership can be seen."""
    in_reach = jacobian.fit.loss.quadratic or not is_lazy(jacobian.X)
    return jacobian.noise.normal and _without_known(jacobian) and in_reach


def is_light(jacobian: Jacobian, count: int | None = None) -> bool:
    """Whether the norms of all examples, or of ``count`` sets of them, take seconds rather than minutes, as a report needs."""
    fit = jacobian.fit
    n, p = fit.n, int(fit.theta.shape[0])
    work = n * (n if count is None else count) * p
    if fit.loss.quadratic or not jacobian.several:
        return fit.loss.quadratic or pays(n, p) or work <= WORK
    if is_lazy(jacobian.X) or work <= LIGHT:
        return not is_lazy(jacobian.X)
    risk = risk_of_fit(fit, jacobian.X, jacobian.y)
    return pays_expansion(risk, risk.reduced_loss, n if count is None else count) and n * risk.size**3 <= 32 * WORK


def _at_minimum(jacobian: Jacobian) -> Fit:
    """A fit that stopped short of its minimum is moved there, as moves start from it."""
    fit = jacobian.fit
    if fit.loss.quadratic or (fit.distance if fit.left is None else fit.left) <= AT_MINIMUM:
        return fit
    return fit_at(risk_of_fit(fit, jacobian.X, jacobian.y), fit.theta, polish=True)


def _by_solver(
    jacobian: Jacobian,
    tolerance: float,
    buckets: Sequence[Bucket],
    finish: Callable[[StartingFit, Array, Array], Array],
) -> Array:
    """What ``finish`` makes of moves of several outputs and their errors; infinite where there is no minimum."""
    X, y, count = jacobian.X, jacobian.y, sum(int(places.shape[0]) for places, _ in buckets)
    # with the error added a length is within the tolerance of the truth, which may be shorter by the error
    allowed, moving = tolerance / (2.0 + tolerance), MovingPenalty.of(jacobian)
    shared = StartingFit(
        _at_minimum(jacobian), X, y, count, allowed, metric=jacobian.metric, moving=moving, strict=True
    )
    xp = namespace(shared.inverse)
    places, parts = [], []
    for where, rows in buckets:
        most, m = shared.at_once(1 if rows.ndim == 1 else int(rows.shape[1])), int(rows.shape[0])
        for start in track(range(0, m, most), -(-m // most), "Leaving rows out"):
            some = rows[start : min(start + most, m), ...]
            moves, error, lost = _solved_without(shared, some)
            found = finish(shared, moves, error)
            parts.append(xp.where(lost if found.ndim == 1 else lost[:, None], xp.inf, found))
            places.append(where[start : min(start + most, m)])
    return xp.take(xp.concat(parts, axis=0), xp.argsort(xp.concat(places)), axis=0)


def _solved_without(shared: StartingFit, rows: Array) -> tuple[Array, Array, Array]:
    """Moves (b, L p) without rows, their errors, and where there is no minimum."""
    xp = namespace(shared.inverse)
    changes = shared.removed(rows)
    sets = host(changes.rows)
    lost = without_hold(shared, sets.reshape(-1), np.arange(len(sets)) * sets.shape[1])
    chosen = np.flatnonzero(host(changes.real) & ~lost)
    values = xp.zeros((rows.shape[0], shared.theta.shape[0]), dtype=shared.inverse.dtype, device=device(shared.inverse))
    error = values[:, 0]
    if chosen.size:
        some = changes if chosen.size == lost.size else changes.take(like(chosen, changes.rows, xp))

        def unfitted(place: int, _: FisherleakError) -> None:
            lost[chosen[place]] = True

        moves, off, _ = solved(shared, some, unfitted)
        values = put_rows(values, chosen, moves)
        error = error if shared.loss.quadratic else put_rows(error, chosen, off)
    return values, error, like(lost, values, xp) > 0


def _task(jacobian: Jacobian, tolerance: float) -> RemovalTask:
    """What all examples share."""
    count, moving = int(jacobian.X.shape[0]), MovingPenalty.of(jacobian)
    own = (_at_minimum(jacobian), jacobian.X, jacobian.y, count, tolerance)
    task = RemovalTask(*own, metric=jacobian.metric, moving=moving, strict=True)
    if task.fit.loss.quadratic:
        return task
    usual, step = _usual(task)
    log_slope = steepness(task.risk, task.model, step)
    rest = remainders(task.risk, task.model, task.inverse, usual, log_slope, step)
    return replace(task, rest=rest, step=step)


def _usual(task: RemovalTask) -> tuple[float, float]:
    """The mean move when an example is left out, by H and of its own score, or numbers that rounding still tells from zero."""
    xp = namespace(task.inverse)
    model, B = task.model, task.inverse

    def block(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
        part = model.rows(X, y, weights)
        # D is about r u (section 4.7): |r u|_H = |r| l^(1/2), and its own score moves by |r| l, l = x . H^-1 x
        tall, size = xp.clip(row_dots(part.x, part.x @ B, xp), 0.0, None), xp.abs(part.r)
        return xp.sum(size * xp.sqrt(tall)), xp.sum(size * tall), xp.sum(xp.abs(part.x @ model.theta))

    by_hessian, own, predicted = (float(each) for each in sum_rows(block, task.risk.X, task.risk.y, task.risk.weights))
    n, least = task.fit.n, EPSILON**0.5
    return max(by_hessian, least) / n, max(own, least * predicted) / n or 1.0


def _walked(task: RemovalTask, buckets: Sequence[Bucket], finish: Finish) -> Array:
    """``finish(task, moves)`` of every row or set that is left out, block by block; infinite where there is no minimum."""
    xp = namespace(task.inverse)
    places, found, later = [], [], []
    for where, rows in buckets:
        left = []
        for start, some in _blocks(task, rows, "Leaving rows out"):
            moves = by_newton(task, _removed(task, some))
            if bool(xp.all(moves.converged)):
                places.append(where[start : start + some.shape[0]])
                found.append(finish(task, moves))
                continue
            near, far = (xp.nonzero(chosen)[0] for chosen in (moves.converged, ~moves.converged))
            places.append(xp.take(where, start + near))
            found.append(finish(task, moves.take(near)))
            left.append(start + far)
        if left:
            far = xp.concat(left)
            later.append((xp.take(where, far), xp.take(rows, far, axis=0)))
    count = sum(int(where.shape[0]) for where, _ in later)
    task = _with_third(task, count)
    for where, rows in later:
        places.append(where)
        found.append(_improved(task, rows, finish))
    return xp.take(xp.concat(found, axis=0), xp.argsort(xp.concat(places)), axis=0)


def _blocks(task: RemovalTask, rows: Array, doing: str) -> Iterator[tuple[int, Array]]:
    width = 1 if rows.ndim == 1 else SET_COPIES * rows.shape[1]
    most, count = max(1, rows_per_block(task.risk.size, task.risk.X) // width), rows.shape[0]
    for start in track(range(0, count, most), -(-count // most), doing):
        yield start, rows[start : min(start + most, count), ...]


def _with_third(task: RemovalTask, count: int) -> RemovalTask:
    """T where so many rows would cost more passes over all others, and it is near enough: of a loss that does not state its
    slopes T comes from differences, whose error no bound counts.
    """
    by_differences = task.model.loss.traits is None and task.tolerance < COARSE
    if not count or task.rest is None or by_differences:
        return task
    if not pays(task.fit.n, task.risk.size) or PASSES * count < task.risk.size**2:
        return task
    return replace(task, third=third_derivative(task.risk, task.model, task.step))


def _improved(task: RemovalTask, rows: Array, finish: Finish) -> Array:
    """The same for rows for which one Newton step is not near enough."""
    xp = namespace(rows)
    parts = []
    for _, block in _blocks(task, rows, "Leaving rows out, exactly"):
        part = _removed(task, block)
        moves, places = by_third(task, part), xp.arange(block.shape[0], device=device(block))
        order, found = [], []
        for improve in (by_higher_terms, _few_by_chords, _fitted):
            near, far = (xp.nonzero(chosen)[0] for chosen in (moves.converged, ~moves.converged))
            order.append(xp.take(places, near))
            found.append(finish(task, moves.take(near)))
            part, places, moves = part.take(far), xp.take(places, far), moves.take(far)
            if not far.shape[0]:
                break
            moves = improve(task, part, moves)
        order.append(places)
        last = finish(task, moves)
        found.append(xp.where(moves.converged if last.ndim == 1 else moves.converged[:, None], last, xp.inf))
        parts.append(xp.take(xp.concat(found, axis=0), xp.argsort(xp.concat(order)), axis=0))
    return xp.concat(parts, axis=0)


def _few_by_chords(task: RemovalTask, part: Removed, moves: BoundedMoves) -> BoundedMoves:
    """By chords, some rows at a time."""
    xp = namespace(moves.moves)
    count, found = moves.moves.shape[0], []
    for start in range(0, count, AT_ONCE):
        some = xp.arange(start, min(start + AT_ONCE, count), device=device(moves.moves))
        found.append(by_chords(task, part.take(some), moves.take(some)))
    return BoundedMoves.joined(found)


def _fitted(task: RemovalTask, part: Removed, moves: BoundedMoves) -> BoundedMoves:
    """By fits; not converged where there is no minimum."""
    xp = namespace(moves.moves)
    fits = [refit(task, members(part.rows[k, ...])) for k in range(moves.moves.shape[0])]
    moved = xp.stack([moves.moves[k, :] if fit is None else fit[0] for k, fit in enumerate(fits)])
    error = like([0.0 if fit is None else fit[1] for fit in fits], moved, xp)
    return BoundedMoves(moved, error, like([0.0 if fit is None else 1.0 for fit in fits], moved, xp) > 0)


def _removed(task: RemovalTask, rows: Array) -> Removed:
    xp = namespace(task.risk.X)
    flat = rows if rows.ndim == 1 else xp.reshape(xp.clip(rows, 0, None), (-1,))
    X, y, weights = gather((task.risk.X, task.risk.y, task.risk.weights), flat)
    assert X is not None
    assert y is not None
    return removed(task.model, task.inverse, X, y, weights, rows[:, None] if rows.ndim == 1 else rows, task.moving)
