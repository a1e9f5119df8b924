"""Moves of the minimiser of one output without a row or a set, by ever more costly steps, each with a bound of its error.

Mathematics: 4.8, ``docs/mathematics/changes.md``.

Also here: rows of one output that are left out, one by one or in sets, and what the parameters do then as far as one
Hessian tells.

Mathematics: 4.6, ``docs/mathematics/changes.md``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, device, host, like, namespace, row_dots
from fisherleak.engine.changes.changed_fits import REFITTED, refitted, risk_without
from fisherleak.engine.changes.changed_rows import EPSILON, UNSURE, Records, Rows
from fisherleak.engine.changes.removal_expansion import Remainders, ThirdDerivative, higher_terms, slopes
from fisherleak.engine.changes.starting_fit import ROUNDING, MovingPenalty, StartingFit, gradients_at
from fisherleak.engine.fit.risk import largest_of, with_constant
from fisherleak.engine.jacobian import Jacobian, Model
from fisherleak.errors import FisherleakError, NearSingularWarning
from fisherleak.rows import rows_per_block, sum_rows

MOST_ROUNDS = 24
"""Rounds with P at most before an example's own system is solved."""
SLOW = 0.7
"""A step that is longer than this part of the one before it leads nowhere soon."""


Slope = Callable[[Array, Array], Array]
"""A derivative of the loss by scores and labels."""
Terms = Callable[[Array, Array, Array], Array]
"""A function of scores, their moves and labels."""


@dataclass(frozen=True)
class Removed(Records):
    """Sets of k rows that are left out, one set at a time; k is 1 for rows one by one."""

    rows: Array
    """(b, k); below zero where a set is filled up."""
    x: Array
    """(b, k, p)."""
    y: Array
    omega: Array
    """(b, k); zero where a set is filled up."""
    z: Array
    r: Array
    U: Array
    """C H^-1, (b, q, p); x H^-1 of one row."""
    inner: Array
    """(I - C H^-1 C^T)^-1, (b, q, q); a / (1 - h) of one row."""
    left: Array
    """1 - lambda: H_- - left H is not negative; no less than ``UNSURE``."""
    push: Array
    """Diagonal of P, (b, p); (b, 0) where nothing is folded in."""
    kept: Array
    """The least part of a squared scale that is left without the rows, at most 1: :math:`H_- + P` is no less of H_-."""

    @property
    def folded(self) -> bool:
        return bool(self.push.shape[1] > 0)

    @property
    def weightless(self) -> Array:
        """Sets none of whose rows is in the sum of losses, (b,)."""
        still = self.omega == 0
        return still[:, 0] if still.shape[1] == 1 else namespace(still).all(still, axis=1)

    def pushed(self, vectors: Array) -> Array:
        """P times vectors, one for each set or one for all."""
        return self.push * vectors if self.folded else namespace(vectors).zeros_like(vectors)

    def pull(self, theta: Array) -> Array:
        """The sum of r x over the set, less P w: (b, p)."""
        return _summed(self.r, self.x) - self.pushed(theta[None, :])

    def own_terms(self, moves: Array, terms: Terms) -> Array:
        """The sum of omega t x, (b, p), with t by ``terms(z, x . D, y)``."""
        return _summed(self.omega * terms(self.z, _along(self.x, moves), self.y), self.x)

    def own_gradient(self, theta: Array, r: Slope) -> Array:
        """That of the losses of the set, (b, p), with r by ``r(z, y)``, at parameters of its own."""
        return _summed(self.omega * r(_along(self.x, theta), self.y), self.x)

    def solve(self, B: Array, gradient: Array) -> Array:
        """H_-^-1 gradient."""
        # H_-^-1 v = H^-1 v + U^T (I - C U^T)^-1 U v (section 4.6); of one row U is u and the factor a / (1 - h)
        along = _along(self.U, gradient)
        along = self.inner[:, 0, :] * along if along.shape[1] == 1 else (self.inner @ along[:, :, None])[:, :, 0]
        return gradient @ B + _summed(along, self.U)

    def inverse(self, B: Array, k: int) -> Array:
        """H_-^-1 of one."""
        return B + self.U[k, ...].T @ self.inner[k, ...] @ self.U[k, ...]


def _along(x: Array, vectors: Array) -> Array:
    """Products x . v of the rows of each set with a vector of its own, (b, k)."""
    if x.shape[1] == 1:
        return row_dots(x[:, 0, :], vectors, namespace(x))[:, None]
    return (x @ vectors[:, :, None])[:, :, 0]


def _summed(factors: Array, x: Array) -> Array:
    """The sum over each set of factors (b, k) times rows, (b, p)."""
    return factors * x[:, 0, :] if x.shape[1] == 1 else (factors[:, None, :] @ x)[:, 0, :]


def removed(
    model: Model, B: Array, X: Array, y: Array, weights: Array | None, rows: Array, moving: MovingPenalty | None
) -> Removed:
    """What leaving sets of rows out takes away: X, y and weights are those of the rows (b, k), one after the other."""
    xp = namespace(B)
    b, k = rows.shape
    there = None if k == 1 else xp.astype(rows >= 0, B.dtype)
    omega = xp.ones_like(y) if weights is None else weights
    omega = omega if there is None else omega * xp.reshape(there, (b * k,))
    part = model.rows(X, y, omega)
    x = xp.reshape(part.x, (b, k, part.x.shape[1]))
    z, r, a, omega, y = (xp.reshape(each, (b, k)) for each in (part.x @ model.theta, part.r, part.a, omega, y))
    if k == 1:
        U = (part.x @ B)[:, None, :]
        # 1 - h (section 4.6)
        left = 1.0 - a[:, 0] * row_dots(part.x, U[:, 0, :], xp)
        left = xp.where(left > UNSURE, left, UNSURE)
        inner = (a[:, 0] / left)[:, None, None]
    else:
        C = _roots_of(a, x)
        U = C @ B
        # C U^T = C H^-1 C^T, whose largest eigenvalue is lambda of section 4.6
        values, vectors = xp.linalg.eigh(C @ xp.matrix_transpose(U))
        bent = xp.clip(1.0 - values, UNSURE, None)
        inner, left = (vectors / bent[:, None, :]) @ xp.matrix_transpose(vectors), bent[:, -1]
    push = xp.zeros((b, 0), dtype=B.dtype, device=device(B))
    if moving is not None:
        push = moving.push(xp.reshape(X, (b, k, X.shape[1])), omega, there)
    kept = xp.ones_like(left) if moving is None else moving.kept(push)
    # without a penalty left, nothing is known of H_- + P: fitted again, as where H_- has lost digits
    left, kept = xp.where(kept > UNSURE, left, UNSURE), xp.where(kept > UNSURE, kept, UNSURE)
    return Removed(rows, x, y, omega, z, r, U, inner, left, push, kept)


def _roots_of(a: Array, x: Array) -> Array:
    """C with C^T C the sum of a x x^T over each set, (b, q, p), q the lesser of k and p."""
    xp = namespace(x)
    rows = xp.sqrt(xp.clip(a, 0.0, None))[:, :, None] * x
    if rows.shape[1] <= rows.shape[2]:
        return rows
    # as many combinations of the rows as there are parameters, with the same C^T C
    values, vectors = xp.linalg.eigh(xp.matrix_transpose(rows) @ rows)
    return xp.sqrt(xp.clip(values, 0.0, None))[:, :, None] * xp.matrix_transpose(vectors)


def moves_of_squared(part: Removed, B: Array, theta: Array, precision: float = ROUNDING) -> Array:
    """Moves for the squared loss: by rounds, and where these are slow by a solution for each example."""
    xp = namespace(B)
    pull = part.pull(theta)
    newton = part.solve(B, pull)
    if not part.folded:
        return newton
    moves, settled = _conjugate(part, B, newton, pull, precision)
    for k in np.flatnonzero(host(~settled)).tolist():
        # (I + H_-^-1 P) D = H_-^-1 (r x - P w), the end of section 4.6
        system = xp.eye(B.shape[0], dtype=B.dtype, device=device(B)) + part.inverse(B, k) * part.push[k, None, :]
        moves[k, :] = xp.linalg.solve(system, newton[k, :, None])[:, 0]
    return moves


def _conjugate(part: Removed, B: Array, newton: Array, pull: Array, precision: float) -> tuple[Array, Array]:
    r"""Moves by conjugate gradients from H_-^-1 pull, and which are near enough.

    Every direction d comes with :math:`H_- d`, for what is left over, g, and :math:`z = H_-^{-1} g` are both known. The error
    is :math:`(H_- + P)^{-1} g`, which in the norm of H_- is no longer than z over the part of the scales that is kept.
    """
    xp = namespace(newton)
    moves, image = newton, pull
    # D starts at H_-^-1 (r x - P w): what is left of (H_- + P) D = r x - P w is -P D; `image` is H_- D
    left_over = -part.pushed(moves)
    z = part.solve(B, left_over)
    d, image_d, rho = z, left_over, row_dots(z, left_over, xp)
    settled = _near(part, z, rho, moves, image, precision)
    for _ in range(MOST_ROUNDS):
        if bool(xp.all(settled)):
            break
        pulled = image_d + part.pushed(d)
        # d . (H_- + P) d, and the step z . g over it
        bend = row_dots(d, pulled, xp)
        step = xp.where(~settled & (bend > 0), rho / xp.where(bend > 0, bend, 1.0), 0.0)[:, None]
        moves, image, left_over = moves + step * d, image + step * image_d, left_over - step * pulled
        z = part.solve(B, left_over)
        before, rho = rho, row_dots(z, left_over, xp)
        settled = settled | _near(part, z, rho, moves, image, precision)
        on = ratio(rho, before)[:, None]
        d, image_d = z + on * d, left_over + on * image_d
    return moves, settled


def _near(part: Removed, z: Array, rho: Array, moves: Array, image: Array, precision: float) -> Array:
    """Whether what is left over is short beside the moves, as H_- measures and as they are."""
    xp = namespace(moves)
    most = (precision * part.kept) ** 2
    return (rho <= most * row_dots(moves, image, xp)) & (row_dots(z, z, xp) <= most * row_dots(moves, moves, xp))


def ratio(length: Array, previous: Array) -> Array:
    return length / namespace(length).where(previous > 0, previous, 1.0)


def closed_form(jacobian: Jacobian) -> Callable[..., Array]:
    """A function of blocks, for the squared loss: |B (r (x) x)| / (1 - h), h = a x . G x with G that of one output."""
    if not jacobian.several and (moving := MovingPenalty.of(jacobian)) is not None:
        return _moving_form(jacobian, moving)
    xp = namespace(jacobian.B)
    make, B, p = jacobian.model.scores, jacobian.B, jacobian.width
    G, nothing = jacobian.fit.factor.inverse()[:p, :p], EPSILON * (64 + jacobian.fit.condition)

    def block(X: Array, y: Array, weights: Array | None) -> Array:
        part = make(X, y, weights)
        moved = xp.reshape(part.r[:, :, None] * part.x[:, None, :], (part.x.shape[0], -1)) @ B.T
        # 1 - h of section 4.6: the Hessian of each output is that of one, and outputs share x
        left = 1.0 - part.A[:, 0, 0] * row_dots(part.x, part.x @ G, xp)
        length = xp.sqrt(row_dots(moved, moved, xp))
        lost = xp.where(length > 0, xp.full_like(length, xp.inf), length)
        return xp.where(left > nothing, length / xp.where(left > nothing, left, 1.0), lost)

    return block


def _moving_form(jacobian: Jacobian, moving: MovingPenalty) -> Callable[..., Array]:
    """The same with a penalty that moves: what all blocks share is small and travels."""
    xp = namespace(jacobian.B)
    model, B, metric, fit = jacobian.model, jacobian.fit.factor.inverse(), jacobian.metric, jacobian.fit
    nothing = EPSILON * (64 + fit.condition)

    def block(X: Array, y: Array, weights: Array | None) -> Array:
        omega = xp.ones_like(y) if weights is None else weights
        part = removed(model, B, X, y, omega, xp.zeros_like(y)[:, None], moving)
        moved = moves_of_squared(part, B, model.theta) @ metric.T
        length = xp.sqrt(row_dots(moved, moved, xp))
        return xp.where((part.left > nothing) & (part.left > UNSURE), length, xp.inf)

    return block


WORK = 2**32
"""Products n x n x p of a pass over all rows for each row that take a few seconds."""
Bucket = tuple[Array, Array]
"""Places among what is asked for, and rows there, (m,), or sets of k rows, (m, k)."""
MOST_CHORDS = 60
"""Chord steps at most: a fit costs some hundred times as much as one."""
FARTHEST = 30.0
"""Change of log a past which nothing is said of a Hessian."""


@dataclass(frozen=True)
class RemovalTask(StartingFit):
    """A fit of one output at its minimum, how moves are measured, and what all examples share."""

    rest: Remainders | None = None
    """None for the squared loss, which leaves nothing out."""
    third: ThirdDerivative | None = None
    step: float = 1.0
    """Of differences of a, where nothing is known of the loss."""

    @property
    def model(self) -> Model:
        return Model(self.theta, self.fit.loss, self.fit.intercept is not None, self.fit.centre)

    def turned(self, part: Removed) -> Array | float:
        """How much P may change a move, relative to H."""
        return self.moving.turn(part.push) if part.folded and self.moving is not None else 0.0

    def near(self, moves: Array, error: Array) -> Array:
        """Whether a length with the error added is within the tolerance of the truth, which may be shorter by the error."""
        return (2.0 + self.tolerance) * error <= self.tolerance * self.length(moves)


@dataclass(frozen=True)
class BoundedMoves(Records):
    """Moves (m, p), what each is off at most as the noise sees it, (m,), and which are near enough."""

    moves: Array
    error: Array
    converged: Array


def _still(task: RemovalTask, part: Removed) -> Array:
    """Rows that move nothing when they go."""
    return part.weightless & (task.moving is None or task.moving.by_weight)


def _found(task: RemovalTask, part: Removed, moves: Array, error: Array) -> BoundedMoves:
    xp = namespace(moves)
    still = _still(task, part)
    error = xp.where(still, 0.0, error)
    return BoundedMoves(moves, error, still | (task.near(moves, error) & (part.left > UNSURE)))


def _off(
    task: RemovalTask, moves: Array, length: Array, residual: Array, kept: Array, turn: Array | float = 0.0
) -> Array:
    """|W (D_* - D)| at most, from a bound of A (Phi(D) - D) by the norm of H^-1; A is no less than the part ``kept`` of H."""
    assert task.rest is not None
    xp = namespace(moves)
    # A >= kept H: |Phi(D) - D|_H <= |A (Phi(D) - D)| / kept by the norm of H^-1, and rho is that of section 4.9 over
    # kept
    far = residual / kept
    rate = (task.rest.rate(moves, length, far / (1.0 - SLOW)) + turn) / kept
    # the first bound of section 4.8, by the norm of H, and as the noise sees it
    return task.spread * xp.where(rate <= SLOW, far, xp.inf) / (1.0 - xp.clip(rate, 0.0, SLOW))


def by_newton(task: RemovalTask, part: Removed) -> BoundedMoves:
    """A block's moves by H alone."""
    precision = ROUNDING if task.rest is None else 0.01 * task.tolerance
    moves = moves_of_squared(part, task.inverse, task.theta, precision)
    xp = namespace(moves)
    if task.rest is None:
        return BoundedMoves(moves, xp.zeros_like(part.left), _still(task, part) | (part.left > UNSURE))
    length = task.across(moves)
    # A (Phi(D) - D) = -N(D) at the Newton step: the first bound of section 4.9
    residual = task.rest.without_third(moves, length) + (precision * length if part.folded else 0.0)
    return _found(task, part, moves, _off(task, moves, length, residual, part.left * part.kept))


def by_third(task: RemovalTask, part: Removed) -> BoundedMoves:
    """A block's moves by H and T."""
    newton = part.solve(task.inverse, part.pull(task.theta))
    xp = namespace(newton)
    if task.third is None or task.rest is None:
        return _found(task, part, newton, xp.full_like(part.left, xp.inf))
    moves, residual, length = _rounds(task, part, newton, newton, None, 3 if part.folded else 1)
    residual = residual + task.rest.beyond_third(moves, length)
    return _found(task, part, moves, _off(task, moves, length, residual, part.left, task.turned(part)))


def by_higher_terms(task: RemovalTask, part: Removed, begun: BoundedMoves) -> BoundedMoves:
    """The same with the terms after T at earlier moves: one round, and one more where that is not near enough."""
    if task.third is None or task.rest is None:
        return begun
    xp = namespace(begun.moves)
    newton = part.solve(task.inverse, part.pull(task.theta))
    terms = _higher(task, begun.moves) - part.own_terms(begun.moves, _after_third(task))
    found = _with_terms(task, part, newton, begun.moves, begun.moves, terms)
    near, far = (xp.nonzero(chosen)[0] for chosen in (found.converged, ~found.converged))
    if not far.shape[0]:
        return found
    known = [xp.take(each, far, axis=0) for each in (newton, found.moves, begun.moves, terms)]
    return _in_order([(host(near), found.take(near)), (host(far), _with_terms(task, part.take(far), *known))])


def _with_terms(
    task: RemovalTask, part: Removed, newton: Array, moves: Array, begun: Array, terms: Array
) -> BoundedMoves:
    """A round from moves, with the terms after T as they are at those that were begun with."""
    assert task.rest is not None
    xp = namespace(moves)
    moves, residual, length = _rounds(task, part, newton, moves, terms, 2 if part.folded else 1)
    length = xp.maximum(length, task.across(begun))
    # the terms after T were taken at `begun`: how much they change from there, and what they leave out there (section
    # 4.9)
    residual = residual + task.rest.change_beyond_third(moves - begun, length) + task.rest.beyond_fifth(begun, length)
    return _found(task, part, moves, _off(task, moves, length, residual, part.left, task.turned(part)))


def _rounds(
    task: RemovalTask, part: Removed, newton: Array, moves: Array, terms: Array | None, count: int
) -> tuple[Array, Array, Array]:
    """Moves with T (and P, and terms that are known) at earlier moves; what a further round may move, and lengths by H."""
    assert task.third is not None
    assert task.rest is not None
    change = moves
    for _ in range(count):
        own = part.own_terms(moves, lambda z, v, y: slopes(task.fit.loss, z, y, task.step) * v**2)
        # the formula of section 4.7: T of the rows that stay, and P D where scales are folded in
        beyond = 0.5 * (task.third.twice(moves) - own) + part.pushed(moves)
        later = newton - part.solve(task.inverse, beyond if terms is None else beyond + terms)
        change, moves = later - moves, later
    length, last = task.across(moves), task.across(change)
    # T and P at the move before this: they change by no more than the rate times the last step
    return moves, (task.rest.rate(moves, length, last) + task.turned(part)) * last, length


def _after_third(task: RemovalTask) -> Any:
    """What a row's gradient does beyond T, as a function of its score, the score's move and its label."""
    loss, step = task.fit.loss, task.step

    def terms(z: Array, v: Array, y: Array) -> Array:
        # r(z + v) - r - a v - a' v^2 / 2
        return loss.r(z + v, y) - loss.r(z, y) - (loss.a(z, y) + 0.5 * slopes(loss, z, y, step) * v) * v

    return terms


def _higher(task: RemovalTask, moves: Array) -> Array:
    """The terms after T of all rows, (m, p)."""
    assert task.rest is not None
    root, inverse = task.roots
    # R^-1 D goes in, and R^T times the terms comes back (section 4.9)
    seen = higher_terms(task.risk, task.model, root, moves @ inverse.T, task.rest.log_slope, task.step)
    return seen @ inverse


def by_chords(task: RemovalTask, part: Removed, begun: BoundedMoves) -> BoundedMoves:
    """Moves improved by the gradients of all rows until they converge."""
    if task.rest is None:
        return begun
    xp = namespace(begun.moves)
    moves, places = begun.moves, np.arange(begun.moves.shape[0])
    done: list[tuple[NDArray[np.int64], BoundedMoves]] = []
    previous = None
    for count in range(MOST_CHORDS):
        gradient = _gradients(task, part, moves)
        step = part.solve(task.inverse, gradient)
        moves = moves - step
        # |step| by H_-, as its gradient is known
        energy = xp.sqrt(xp.clip(row_dots(step, gradient, xp), 0.0, None))
        length = task.length(step)
        error = _after_a_chord(task, part, moves, length, energy)
        rate = xp.zeros_like(length) if previous is None else ratio(length, previous)
        converged = task.near(moves, error) & (part.left > UNSURE)
        hopeless = (part.left <= UNSURE) | (length <= task.rounding) | ((rate > SLOW) | xp.isnan(rate)) & (count > 2)
        stop = host(converged | hopeless)
        some = like(np.flatnonzero(stop), moves, xp)
        done.append((places[stop], BoundedMoves(moves, error, converged).take(some)))
        places = places[~stop]
        if not places.size:
            break
        going = like(np.flatnonzero(~stop), moves, xp)
        part, moves, previous = part.take(going), xp.take(moves, going, axis=0), xp.take(length, going)
    else:
        done.append((places, BoundedMoves(moves, xp.full_like(previous, xp.inf), xp.zeros_like(previous) > 0)))
    return _in_order(done)


def _in_order(parts: list[tuple[NDArray[np.int64], BoundedMoves]]) -> BoundedMoves:
    first = parts[0][1].moves
    order = like(np.argsort(np.concatenate([places for places, _ in parts])), first, namespace(first))
    return BoundedMoves.joined([each for _, each in parts]).take(order)


def _after_a_chord(task: RemovalTask, part: Removed, moves: Array, seen: Array, energy: Array) -> Array:
    """|W (D_* - D)| at most after a chord step to D of such lengths, as the noise and as H_- see it."""
    assert task.rest is not None
    xp = namespace(moves)
    # H_- >= left H: |step|_H; after Phi the first bound of section 4.8 has another factor of rho
    step = energy / xp.sqrt(part.left)
    length = task.across(moves)
    rate = (task.rest.rate(moves, length, step / (1.0 - SLOW)) + task.turned(part)) / part.left
    near = xp.clip(rate, 0.0, SLOW)
    error = xp.where(rate <= SLOW, task.spread * step * near / (1.0 - near), xp.inf)
    if bool(xp.all(rate <= SLOW)):
        return error
    log_slope, tallest = task.rest.log_slope, task.rest.tallest
    # the second bound of section 4.8, of the move before this step: s is `change`, e^s is in `grown`, t is `own`, |g|
    # by the norm of H_-^-1 is `energy`, and `kept` is for P beside H_-; the step itself is added
    change = log_slope * (_largest_scores(task, moves) + tallest * step)
    grown = xp.exp(xp.clip(change, 0.0, FARTHEST)) / part.kept
    own = log_slope * tallest * grown * step
    found = seen + task.spread * grown * step / (1.0 - xp.clip(own, 0.0, 0.5))
    found = xp.where((change < FARTHEST) & (own <= 0.5), found, xp.inf)
    return xp.where(rate <= SLOW, error, found)


def _largest_scores(task: RemovalTask, moves: Array) -> Array:
    """The largest move of a score of any row that counts, (m,)."""
    xp = namespace(moves)
    intercept, centre = task.risk.intercept, task.risk.centre

    def block(X: Array, weights: Array | None) -> tuple[Any, ...]:
        v = xp.abs(with_constant(X, intercept, centre) @ moves.T)
        return (xp.max(v if weights is None else xp.where(weights[:, None] > 0, v, 0.0), axis=0),)

    most = max(64, rows_per_block(moves.shape[0], moves))
    (found,) = sum_rows(block, task.risk.X, task.risk.weights, most=most, join=largest_of)
    return found


def _gradients(task: RemovalTask, part: Removed, moves: Array) -> Array:
    """Gradient of each risk with an example left out, at its own parameters."""
    theta = task.theta[None, :] + moves
    own = part.own_gradient(theta, task.fit.loss.r)
    return gradients_at(task.risk, theta) - task.gradient[None, :] - own + part.pushed(theta)


def refit(task: RemovalTask, rows: Rows) -> tuple[Array, float] | None:
    """The move by a true fit without some rows, and its error; None where there is no minimum."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NearSingularWarning)  # said once, of the fit itself
            return refitted(task.fit, risk_without(task.risk, rows, task.moving))[0], REFITTED * task.rounding
    except FisherleakError:
        return None
