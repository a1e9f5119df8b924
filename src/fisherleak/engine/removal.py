r"""Minimisers with one example left out, for every example, without fitting again.

Example i is left out and :math:`n \lambda` stays as it is. With r and a its weighted derivatives, T the third derivative of the
risk and :math:`H_-` the Hessian of the others (``left_out``), the parameters move by D,

.. math:: D = H_-^{-1} \Big( r x - \tfrac12 \big(T[D, D] - \omega a' (x \cdot D)^2 x\big) + O(D^3) \Big) ,

so that :math:`D = r u / (1 - h)` exactly for the squared loss. For the others that is a Newton step, with a bound of what it
leaves out. Where that is above the tolerance, T improves it in O(n p^3) for all examples, and where its bound is above the
tolerance too, chord steps (the same H_-, the gradient of all rows: O(n p) each for each example) go on. Examples for which
they do not settle are fitted again. Where nothing is minimal without an example (the only one of its class, or of its level
without a penalty), the move is infinite.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, device, host, is_lazy, like, namespace, row_dots
from fisherleak._support.progress import track
from fisherleak.engine.erm import Fit, fit_at
from fisherleak.engine.jacobian import Jacobian, Model
from fisherleak.engine.left_out import (
    SLOW,
    Leaving,
    MovingScales,
    closed_form,
    leave_out,
    moves_of_squared,
    ratio,
    to_come,
)
from fisherleak.engine.mechanisms.served import Disclosed
from fisherleak.engine.neighbours import AT_ONCE, EPSILON, ROUNDING, UNSURE, gradients_at, refitted, risk_of_fit
from fisherleak.engine.noise import Noise
from fisherleak.engine.norms.large_sets import top_of_factors
from fisherleak.engine.risk import Risk
from fisherleak.engine.sets_left_out import Rows, filled_up, leave_sets_out, members
from fisherleak.engine.third_derivative import (
    Remainders,
    ThirdDerivative,
    pays,
    remainders,
    slopes,
    third_derivative,
)
from fisherleak.errors import FisherleakError, InvalidInputError, NearSingularWarning
from fisherleak.rows import map_rows, rows_per_block, sum_rows

__all__ = ["EXACT", "check_fixed", "check_normal", "is_known", "is_light", "removal_moves", "removal_norms"]

EXACT = 1e-8
"""Relative error of a move at which it counts as exact."""
MUCH = 0.05
"""Part of a move by which T may change it where rounds with P go on."""
MOST_CHORDS = 60
"""Chord steps at most: a fit costs some hundred times as much as one."""
PASSES = 12
"""Products n x p that a row takes by chords, about: T pays from p^2 of them."""
SAFETY = 1.1
"""For the terms after those that a bound is made of."""
AT_MINIMUM = 1e-12
"""Distance from the minimum up to which a fit counts as there."""
SET_COPIES = 3
"""What is held of a set, in copies of its rows."""
WORK = 2**32
"""Products n x n x p of a pass over all rows for each row that take a few seconds."""


@dataclass(frozen=True)
class _RemovalTask:
    """A fit at its minimum, how moves are measured, and what all examples share."""

    fit: Fit
    risk: Risk
    B: Array
    """H^-1."""
    metric: Array
    tolerance: float
    fold: MovingScales | None = None
    rest: Remainders | None = None
    """None for the squared loss, which leaves nothing out."""
    third: ThirdDerivative | None = None
    spread: float = 0.0
    """What a move of length one by H is as the noise sees it, at most."""

    @property
    def model(self) -> Model:
        return Model(self.fit.centred_theta, self.fit.loss, self.fit.intercept is not None, self.fit.centre)

    @property
    def rounding(self) -> float:
        """A step of this length is nothing but rounding."""
        return ROUNDING * float(np.linalg.norm(host(self.metric @ self.fit.centred_theta)))

    def length(self, moves: Array) -> Array:
        xp = namespace(moves)
        moved = moves @ self.metric.T
        return xp.sqrt(row_dots(moved, moved, xp))

    def released(self, moves: Array) -> Array:
        """Moves of the parameters as they are released, for rows that are not centred."""
        return self.fit.uncentred(moves.T).T


Bucket = tuple[Array, Array]
"""Places among what is asked for, and rows there, (m,), or sets of k rows, (m, k)."""
Finish = Callable[[_RemovalTask, Array], Array]
"""From moves (m, p) for rows as they are centred to what is wanted of them."""


def removal_norms(
    jacobian: Jacobian, tolerance: float = EXACT, rows: Array | None = None, sets: Sequence[Rows] | None = None
) -> Array:
    """How far the parameters move when each example (or each of ``rows``, or of ``sets``) is left out, as noise sees it: (n,).

    Infinite where there is no minimum without it. The relative error is at most about ``tolerance``; for the squared loss,
    rounding. Lazy rows are lazy here too, for the squared loss alone.
    """
    X, loss = jacobian.X, jacobian.fit.loss
    if sets is not None:
        return _without_sets(jacobian, tolerance, sets)
    if jacobian.gradient:
        return map_rows(_left_out_of_the_sum(jacobian), *jacobian.arrays)
    if is_lazy(X):
        if not loss.quadratic:
            raise InvalidInputError(
                f"Membership is known for Dask rows with the squared loss only, and the loss is {loss.name}: each row needs "
                "a pass over all others. Measure rows in memory, X.compute()."
            )
        return map_rows(closed_form(jacobian), *jacobian.arrays)
    chosen = namespace(X).arange(X.shape[0], device=device(X)) if rows is None else rows
    return _walked(_task(jacobian, tolerance), _one_by_one(chosen), _RemovalTask.length)


def removal_moves(jacobian: Jacobian, rows: Array | Sequence[Rows], tolerance: float = EXACT) -> Array:
    """How the released parameters move when each of some examples, or of some sets of them, is left out: (m, p).

    Infinite where there is no minimum.
    """
    buckets = filled_up(rows, jacobian.X) if isinstance(rows, Sequence) else _one_by_one(rows)
    return _walked(_task(jacobian, tolerance), buckets, _RemovalTask.released)


def _without_sets(jacobian: Jacobian, tolerance: float, sets: Sequence[Rows]) -> Array:
    xp = namespace(jacobian.X)
    if not jacobian.gradient:
        return _walked(_task(jacobian, tolerance), filled_up(sets, jacobian.X), _RemovalTask.length)
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
        by = noise.by if isinstance(noise, Disclosed) else noise
        kind = f"a record of {by}" if isinstance(by, str) else type(by).__name__
        raise InvalidInputError(
            f"noise must be normal for membership: the best test has a closed form for such noise only; got "
            f"{kind}. Use fisherleak.Gaussian."
        )


def check_fixed(jacobian: Jacobian) -> None:
    """Refuse folded scales that do not tell what they are without a row."""
    if not _without_known(jacobian):
        raise InvalidInputError(
            "Membership is measured with the scales that columns have without a row, which are known for standard deviations "
            "only: use StandardScaler, or measure with public='preprocessing'."
        )


def _without_known(jacobian: Jacobian) -> bool:
    return jacobian.folding is None or jacobian.folding.totals is not None


def is_known(jacobian: Jacobian) -> bool:
    """Whether ``removal_norms`` says how well presence can be told."""
    in_reach = jacobian.fit.loss.quadratic or not is_lazy(jacobian.X)
    return jacobian.noise.normal and _without_known(jacobian) and in_reach


def is_light(fit: Fit, count: int | None = None) -> bool:
    """Whether the norms of all examples, or of ``count`` sets of them, take seconds rather than minutes."""
    n, p = fit.n, int(fit.theta.shape[0])
    return fit.loss.quadratic or pays(n, p) or n * (n if count is None else count) * p <= WORK


def _task(jacobian: Jacobian, tolerance: float) -> _RemovalTask:
    """What all examples share; a fit that stopped short of its minimum is moved there, as moves start from it."""
    risk, metric = risk_of_fit(jacobian.fit, jacobian.X, jacobian.y), jacobian.metric
    task = _RemovalTask(jacobian.fit, risk, jacobian.fit.factor.inverse(), metric, tolerance, MovingScales.of(jacobian))
    if jacobian.fit.loss.quadratic:
        return task
    if jacobian.fit.distance > AT_MINIMUM:
        fit = fit_at(risk, jacobian.fit.theta, polish=True)
        task = replace(task, fit=fit, B=fit.factor.inverse())
    rest = remainders(risk, task.model, task.B, _usual_move(task))
    return replace(task, rest=rest, spread=_largest_spread(metric, task.B) ** 0.5)


def _largest_spread(metric: Array, B: Array) -> float:
    """The largest eigenvalue of metric H^-1 metric^T."""
    by_products = top_of_factors(metric, lambda _: B)
    found = None if by_products is None else by_products(())
    return float(namespace(B).linalg.eigvalsh(metric @ B @ metric.T)[-1]) if found is None else found


def _usual_move(task: _RemovalTask) -> float:
    """The mean move of an example's own predictor when it is left out, or a number that rounding still tells from zero."""
    xp = namespace(task.B)
    model, B = task.model, task.B

    def block(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
        part = model.rows(X, y, weights)
        moved = xp.abs(part.r) * row_dots(part.x, part.x @ B, xp)
        return xp.sum(moved), xp.sum(xp.abs(part.x @ model.theta))

    moved, predicted = sum_rows(block, task.risk.X, task.risk.y, task.risk.weights)
    return max(float(moved), EPSILON**0.5 * float(predicted)) / task.fit.n or 1.0


def _walked(task: _RemovalTask, buckets: Sequence[Bucket], finish: Finish) -> Array:
    """``finish(task, moves)`` of every row or set that is left out, block by block; infinite where there is no minimum."""
    xp = namespace(task.B)
    places, found, later = [], [], []
    for where, rows in buckets:
        left = []
        for start, some in _blocks(task, rows, "Leaving rows out"):
            part = _removed(task, some)
            moves, settled = _newton_moves(task, part)
            near, far = (xp.nonzero(chosen)[0] for chosen in (settled, ~settled))
            places.append(xp.take(where, start + near))
            found.append(finish(task, xp.take(moves, near, axis=0)))
            left.append(start + far)
        far = xp.concat(left)
        later.append((xp.take(where, far), xp.take(rows, far, axis=0)))
    count = sum(int(where.shape[0]) for where, _ in later)
    task = _with_third(task, count)
    for where, rows in later:
        if where.shape[0]:
            places.append(where)
            found.append(_improved(task, rows, finish))
    return xp.take(xp.concat(found, axis=0), xp.argsort(xp.concat(places)), axis=0)


def _blocks(task: _RemovalTask, rows: Array, doing: str) -> Iterator[tuple[int, Array]]:
    width = 1 if rows.ndim == 1 else SET_COPIES * rows.shape[1]
    most, count = max(1, rows_per_block(task.risk.size, task.risk.X) // width), rows.shape[0]
    for start in track(range(0, count, most), -(-count // most), doing):
        yield start, rows[start : min(start + most, count), ...]


def _with_third(task: _RemovalTask, count: int) -> _RemovalTask:
    """T where so many rows would cost more passes over all others."""
    if not count or task.rest is None or not pays(task.fit.n, task.risk.size) or PASSES * count < task.risk.size**2:
        return task
    return replace(task, third=third_derivative(task.risk, task.model, task.rest.step))


def _improved(task: _RemovalTask, rows: Array, finish: Finish) -> Array:
    """The same for rows for which one Newton step is not near enough."""
    xp = namespace(rows)
    parts = []
    for _, block in _blocks(task, rows, "Leaving rows out, exactly"):
        part = _removed(task, block)
        moves, settled, rate = _third_moves(task, part)
        places, later = [xp.nonzero(settled)[0]], xp.nonzero(~settled)[0]
        found = [finish(task, xp.take(moves, places[0], axis=0))]
        for begin in range(0, later.shape[0], AT_ONCE):
            some = later[begin : min(begin + AT_ONCE, later.shape[0])]
            places.append(some)
            known = (xp.take(each, some, axis=0) for each in (moves, rate))
            found.append(_by_chords(task, part.take(some), finish, *known))
        parts.append(xp.take(xp.concat(found, axis=0), xp.argsort(xp.concat(places)), axis=0))
    return xp.concat(parts, axis=0)


def _by_chords(task: _RemovalTask, part: Leaving, finish: Finish, moves: Array, rate: Array) -> Array:
    """The same for a few rows whose moves are not near enough yet."""
    moves, lost = _chords(task, part, moves, rate)
    found = finish(task, moves)
    for k in np.flatnonzero(lost).tolist():
        move = _refit(task, members(part.rows[k, ...]))
        found[k, ...] = namespace(found).inf if move is None else finish(task, move[None, :])[0, ...]
    return found


def _newton_moves(task: _RemovalTask, part: Leaving) -> tuple[Array, Array]:
    """A block's moves by H alone, and which of these are near enough."""
    still = _still(task, part)
    precision = ROUNDING if task.rest is None else 0.01 * task.tolerance
    moves = moves_of_squared(part, task.B, task.fit.centred_theta, precision)
    if task.rest is None:
        return moves, still | (part.left > UNSURE)
    across = _across(task, part, moves)
    error = task.rest.without_third(moves, across) + task.rest.beyond_third(moves, across)
    near = SAFETY * task.spread * error / part.left <= task.tolerance * task.length(moves)
    return moves, still | (near & (part.left > UNSURE))


def _still(task: _RemovalTask, part: Leaving) -> Array:
    """Rows that move nothing when they go."""
    return part.weightless & (not part.folded or (task.fold is not None and task.fold.folding.weighted))


def _across(task: _RemovalTask, part: Leaving, moves: Array) -> Array:
    """D^T H D of moves by H, from (H - a x x^T) D = r x - P w, (b,)."""
    xp = namespace(moves)
    return xp.clip(row_dots(moves, part.pull(task.fit.centred_theta), xp) + part.curved(moves), 0.0, None)


def _third_moves(task: _RemovalTask, part: Leaving) -> tuple[Array, Array, Array]:
    """A block's moves by H and T, which of these are near enough, and by how much a step improves them."""
    moves = part.solve(task.B, part.pull(task.fit.centred_theta))
    xp = namespace(moves)
    if task.third is None or task.rest is None:
        return moves, _still(task, part), xp.ones_like(part.left)
    newton, lengths = moves, []
    for _ in range(2):
        later = _round(task, part, newton, moves)
        lengths.append(task.length(later - moves))
        moves = later
    size = task.length(moves)
    rate = xp.where(size > 0, lengths[0] / xp.where(size > 0, size, 1.0), 0.0)
    if part.folded:
        moves, rate, lengths = _rounds(task, part, newton, moves, rate, lengths)
    # |D|_H of the first step: later ones may be short for the wrong reason
    across = _across(task, part, newton)
    error = to_come(lengths[-1], rate) + task.spread * task.rest.beyond_third(moves, across) / part.left
    return moves, _still(task, part) | ((error <= task.tolerance * size) & (part.left > UNSURE)), rate


def _round(task: _RemovalTask, part: Leaving, newton: Array, moves: Array) -> Array:
    """Moves with T, and P where there is one, taken at earlier moves."""
    assert task.third is not None
    assert task.rest is not None
    model, step = task.model, task.rest.step
    own = part.bent(moves, lambda z, y: slopes(model, z, y, step))
    beyond = 0.5 * (task.third.twice(moves) - own)
    return newton - part.solve(task.B, beyond + part.pushed(moves))


def _rounds(
    task: _RemovalTask, part: Leaving, newton: Array, moves: Array, rate: Array, lengths: list[Array]
) -> tuple[Array, Array, list[Array]]:
    """Two rounds more, for P may shorten steps less than T does; not where T moves much, for they would lead astray."""
    xp = namespace(moves)
    near, later, further = rate <= MUCH, moves, []
    for _ in range(2):
        then = _round(task, part, newton, later)
        further.append(task.length(then - later))
        later = then
    found = xp.where(near[:, None], later, moves)
    length = xp.where(near, further[1], lengths[1])
    return found, xp.where(near, xp.maximum(rate, ratio(further[1], further[0])), rate), [lengths[0], length]


def _removed(task: _RemovalTask, rows: Array) -> Leaving:
    xp = namespace(task.risk.X)
    risk, weights = task.risk, task.risk.weights
    if rows.ndim == 2:
        return leave_sets_out(task.model, task.B, risk.X, risk.y, weights, rows, task.fold)
    X, y = (xp.take(each, rows, axis=0) for each in (risk.X, risk.y))
    omega = xp.ones_like(y) if weights is None else xp.take(weights, rows, axis=0)
    return leave_out(task.model, task.B, X, y, omega, rows, task.fold)


def _chords(task: _RemovalTask, part: Leaving, moves: Array, rate: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Moves improved until they settle, and which did not."""
    xp = namespace(moves)
    places = np.arange(moves.shape[0])
    lost = host(part.left) <= UNSURE
    done: list[tuple[NDArray[np.int64], Array]] = []
    previous = None
    for count in range(MOST_CHORDS):
        step = part.solve(task.B, _gradients(task, part, moves))
        moves = moves - step
        length, size = task.length(step), task.length(moves)
        rate = rate if previous is None else length / xp.where(previous > 0, previous, 1.0)
        close = (to_come(length, rate) <= 0.5 * task.tolerance * size) | (length <= task.rounding)
        stop = host(close) | lost[places] | (count > 2) & ~(host(rate) <= SLOW)
        lost[places[stop & ~host(close)]] = True
        done.append((places[stop], xp.take(moves, like(np.flatnonzero(stop), moves, xp), axis=0)))
        if stop.all():
            break
        going = like(np.flatnonzero(~stop), moves, xp)
        places = places[~stop]
        part, moves, previous = part.take(going), xp.take(moves, going, axis=0), xp.take(length, going)
    else:
        lost[places] = True
        done.append((places, moves))
    order = np.argsort(np.concatenate([index for index, _ in done]))
    together = xp.concat([each for _, each in done], axis=0)
    return xp.take(together, like(order, moves, xp), axis=0), lost


def _gradients(task: _RemovalTask, part: Leaving, moves: Array) -> Array:
    """Gradient of each risk with an example left out, at its own parameters."""
    theta = task.fit.centred_theta[None, :] + moves
    own = part.own_gradient(theta, task.fit.loss.r)
    return gradients_at(task.risk, theta) - own + part.pushed(theta)


def _refit(task: _RemovalTask, rows: Rows) -> Array | None:
    """The move by a true fit without some rows; None where there is no minimum."""
    risk = task.risk
    xp = namespace(risk.X)
    own, gone = like(rows, risk.X, xp), np.zeros(task.fit.n, dtype=bool)
    gone[rows] = True
    if task.fold is not None:
        X, omega = (each if each is None else xp.take(each, own, axis=0)[None, ...] for each in (risk.X, risk.weights))
        risk = replace(risk, scales=xp.sqrt(task.fold.squares + task.fold.changes(X, omega)[0, :]))
    weights = xp.ones_like(risk.y) if risk.weights is None else risk.weights
    weights = xp.where(like(gone, risk.X, xp) > 0, xp.zeros_like(weights), weights)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NearSingularWarning)  # said once, of the fit itself
            return refitted(task.fit, replace(risk, weights=weights))[0]
    except FisherleakError:
        return None
