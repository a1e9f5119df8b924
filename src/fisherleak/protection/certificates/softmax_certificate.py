"""A certified bound on eta of any record within the bounds in place of a row, for models of several classes (softmax).

Mathematics: 6.4, ``docs/mathematics/any-record.md``.

Also here: how far an exchanged row moves a model of several classes, followed step by step.

Mathematics: 6.5, ``docs/mathematics/any-record.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, combinations_with_replacement

import numpy as np
from scipy.linalg import solve_triangular

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Vector
from fisherleak.engine.fit.minimise import risk_of_fit
from fisherleak.engine.magnitudes import spectral_norm
from fisherleak.errors import InvalidInputError
from fisherleak.protection.certificates.declared_bounds import check_deviations
from fisherleak.protection.certificates.exchange import Exchange, Points, heaviest
from fisherleak.protection.certificates.softmax_penalty_bound import (
    ColumnRanges,
    ExchangedScales,
    bound_by_the_penalty,
    columns_of,
    exchanged_scales,
)

PARTS = 24
"""Of the way."""
GUESSES = (1.1, 1.3, 1.7, 2.5)
"""Times the last speed, one after the other, for that of the next part."""
FLATTEST = 60.0
"""Ranges from here on are as good as infinite."""
MOST_SIGNS = 10
"""ColumnRanges whose signs are tried one by one."""


@dataclass(frozen=True)
class Followed:
    """Where any exchange ends, at most."""

    root: Vector
    """C^1/2, (L p, L p): the inverse Hessian at the new minimum is at most C = root^T root."""
    move: float
    """|c.(theta' - theta)| <= move |root c|."""
    low: float
    """It is at least this part of C."""


@dataclass(frozen=True)
class _Stretch:
    """What an exchanged row does to folded scales, (d,) each: the least and the largest factors of the penalty."""

    down: Vector
    up: Vector

    @property
    def changes(self) -> Vector:
        return np.maximum(1.0 - self.down, self.up - 1.0)


@dataclass(frozen=True)
class _ExchangePath:
    """All that stays as it is while a row is exchanged for another, little by little."""

    x: Vector
    """(n, p)"""
    r: Vector
    """(n, L), weighted."""
    A: Vector
    """(n, L, L), weighted."""
    penalty: Vector
    """(L p,)"""
    pairs: list[Vector]
    pull: Vector
    """(L p, d): the gradient that the largest change of each scale leaves."""
    stretch: _Stretch
    heavy: float
    points: Points
    count: int
    """Rows that are exchanged at once."""

    def most(self, values: Vector) -> float:
        """The largest sum over so many rows of what one row brings, (n,): section 6.11."""
        return float(np.sum(np.sort(values)[-self.count :]))

    @cached_property
    def least_penalty(self) -> Vector:
        """(L p,): with any row exchanged."""
        return self._times(self.stretch.down)

    @cached_property
    def largest_penalty(self) -> Vector:
        return self._times(self.stretch.up)

    def _times(self, factors: Vector) -> Vector:
        by_output = self.penalty.reshape(self.outputs, -1).copy()
        by_output[:, : factors.size] *= factors
        return by_output.reshape(-1)

    @property
    def outputs(self) -> int:
        return int(self.r.shape[1])

    @cached_property
    def halves(self) -> Vector:
        """A^1/2, (n, L, L)."""
        values, turns = np.linalg.eigh(self.A)
        return np.asarray(turns * np.sqrt(np.clip(values, 0.0, None))[:, None, :])

    def curvature(self, factors: Vector) -> Vector:
        """The sum of factors A (x) x x^T, (L p, L p)."""
        L, p = self.outputs, self.x.shape[1]
        H = np.empty((L, p, L, p))
        for k, other in combinations_with_replacement(range(L), 2):
            H[k, :, other, :] = (self.x * (factors * self.A[:, k, other])[:, None]).T @ self.x
            H[other, :, k, :] = H[k, :, other, :].T
        return H.reshape(L * p, L * p)


@dataclass(frozen=True)
class _PathState:
    """Bounds that hold while no row has moved by more than some ranges."""

    root: Vector
    speeds: Vector
    """(n,): of the ranges, for the whole way."""
    length: float
    """Of the way, in the metric of ``root``."""


def followed(exchange: Exchange, scales: ExchangedScales, columns: ColumnRanges) -> Followed | None:
    """Where any exchange ends; None where that cannot be said."""
    path = _path(exchange, scales, columns)
    moved = np.zeros(len(path.x))
    here = _state(path, moved)
    for _ in range(PARTS):
        if here is None:
            return None
        for guess in GUESSES:
            # section 6.5: ranges t_j at the end of this part, guessed from above; with C at them no range may pass them
            above = moved + guess / PARTS * here.speeds
            there = _state(path, above)
            if there is None or np.all(moved + there.speeds / PARTS <= above):
                break
            here = there
        else:
            return None
        if there is not None:
            moved = moved + there.speeds / PARTS
        here = there
    if here is None:
        return None
    # the Hessian at the new minimum is at most the largest penalty, sum e^(t_j) A_j (x) x_j x_j^T and the new row's
    # own, whose A is at most 1/2: ``most`` + ``gain`` times C^-1. So its inverse is at least k C, k of section 6.4
    grown = np.diag(path.largest_penalty) + path.curvature(np.exp(moved))
    most = float(np.linalg.eigvalsh(here.root @ grown @ here.root.T)[-1]) * (1.0 + 1e-9)
    gain = 0.5 * path.count * path.heavy * _largest_length(here.root, path.outputs, path.points) ** 2
    return Followed(here.root, here.length, 1.0 / (most + gain))


def _state(path: _ExchangePath, moved: Vector) -> _PathState | None:
    """With every row moved by these ranges; None where nothing holds the parameters then."""
    if not float(moved.max(initial=0.0)) < FLATTEST:
        return None
    # C(t)^-1, the first formula of section 6.5, with the row i still in it
    factors = np.exp(-moved)
    H = np.diag(path.least_penalty) + path.curvature(factors)
    try:
        root = solve_triangular(np.linalg.cholesky(H), np.eye(len(H)), lower=True)
    except np.linalg.LinAlgError:
        return None
    N = _lengths(path.x, root, path.outputs)
    # without any row i: C grows by at most 1 / (1 - leverage), leverage the largest eigenvalue of e^-t A^1/2 N A^1/2
    leverage = path.most(factors * np.linalg.eigvalsh(path.halves.transpose(0, 2, 1) @ N @ path.halves)[:, -1])
    if not leverage < 1.0 - 1e-9:
        return None
    left = (1.0 + 1e-9) / math.sqrt(1.0 - leverage)
    root = root * left
    # the largest |C^1/2 r_i (x) x_i|, the middle term of the second formula of section 6.5
    pushed = left * path.most(np.sqrt(np.maximum(np.einsum("nk,nkl,nl->n", path.r, N, path.r, optimize=True), 0.0)))
    # the gradient of the new row is a mean of finitely many, whatever its scores are
    newcomer = path.count * path.heavy * max(_widest(root, pair, path.points) for pair in path.pairs)
    # the bracket of the second formula; its last term is |C^1/2 q|, q the gradient of the changed penalty
    length = pushed + newcomer + largest_sum(root @ path.pull)
    apart = np.stack(path.pairs)
    # its first factor squared, max over k, l of |C^1/2 (e_k - e_l) (x) x_j|^2
    ranges = np.einsum("ck,nkl,cl->nc", apart, N, apart, optimize=True).max(axis=1)
    return _PathState(root, np.sqrt(np.maximum(ranges, 0.0)) * (left * length * (1.0 + 1e-9)), length)


def _lengths(x: Vector, root: Vector, outputs: int) -> Vector:
    """(I (x) x)^T root^T root (I (x) x) of every row, (n, L, L)."""
    p = x.shape[1]
    C = (root.T @ root).reshape(outputs, p, outputs, p)
    N = np.empty((len(x), outputs, outputs))
    for k, other in combinations_with_replacement(range(outputs), 2):
        N[:, k, other] = N[:, other, k] = np.einsum("np,np->n", x @ C[k, :, other, :], x)
    return N


def _path(exchange: Exchange, scales: ExchangedScales, columns: ColumnRanges) -> _ExchangePath:
    jacobian = exchange.jacobian
    fit, (L, p) = jacobian.fit, (jacobian.outputs, jacobian.width)
    X, y = np.asarray(host(jacobian.X), dtype=np.float64), np.asarray(host(jacobian.y))
    weights = None if fit.sample_weight is None else np.asarray(host(fit.sample_weight))
    counted = np.ones(len(y), dtype=bool) if weights is None else weights > 0
    part = jacobian.model.scores(X[counted], y[counted], None if weights is None else weights[counted])
    x, r, A, omega = (np.asarray(host(each)) for each in (part.x, part.r, part.A, part.omega))
    penalty = np.asarray(host(risk_of_fit(fit, jacobian.X, jacobian.y).penalty))
    stretch = _Stretch(scales.kept.min(axis=0, initial=1.0), scales.largest(columns.low, columns.high))
    V, d = np.asarray(host(jacobian.slopes)), stretch.down.size
    pull = np.zeros((L, p, d))
    pull[:, np.arange(d), np.arange(d)] = penalty.reshape(L, p)[:, :d] * stretch.changes * V[:, :d]
    # e_k - e_l for all pairs of classes, by the rows of their frame, (L,) each
    pairs = [one - other for one, other in combinations(np.asarray(host(fit.frame)), 2)]
    pull = pull[:, :, stretch.changes > 0]
    known = (x, r, A, penalty, pairs, pull.reshape(L * p, -1), stretch, float(omega.max()))
    return _ExchangePath(*known, exchange.points, exchange.count)


def largest_sum(columns: Vector) -> float:
    r"""|sum of columns, each times a number from -1 to 1| at most.

    A corner decides where there are few columns. For many, with any u > 0, its square is at most
    :math:`\sum_k u_k \, \|Q \,\mathrm{diag}(u)^{-1/2}\|^2`: the least of three, and of the sum of all lengths.
    """
    d = columns.shape[1]
    if d <= MOST_SIGNS:
        signs = 1.0 - 2.0 * (np.arange(2**d)[:, None] >> np.arange(d) & 1)
        return float(np.linalg.norm(signs @ columns.T, axis=1).max(initial=0.0))
    lengths = np.linalg.norm(columns, axis=0)
    found = [float(lengths.sum())]
    Q = columns.T @ columns
    for power in (0.0, 1.0, 2.0):
        u = np.maximum(lengths, 1e-9 * float(lengths.max()) + 1e-300) ** power
        scaled = Q / np.sqrt(u[:, None] * u[None, :])
        found.append(math.sqrt(float(u.sum()) * max(float(np.linalg.eigvalsh(scaled)[-1]), 0.0)) * (1.0 + 1e-9))
    return min(found)


def _beyond(matrix: Vector, points: Points) -> float:
    """|matrix @ deviation| for what is not enumerated, at most."""
    found = points.reach(matrix)
    if points.radius or not points.rest or any(len(part) != 2 for part in points.rest):
        return found
    return min(found, largest_sum(matrix @ np.stack([part[1] for part in points.rest], axis=1)))


def lengths_at(matrix: Vector, points: Points) -> Vector:
    """|matrix x| at every corner, (V,), what is not enumerated counted."""
    square = np.einsum("vp,vp->v", points.x @ (matrix.T @ matrix), points.x)
    return np.asarray(np.sqrt(np.maximum(square, 0.0)) * (1.0 + 1e-9) + _beyond(matrix, points))


def _widest(root: Vector, direction: Vector, points: Points) -> float:
    """|root (direction (x) x)| at most, over all x within the bounds."""
    one = np.einsum("ilp,l->ip", root.reshape(root.shape[0], direction.size, -1), direction, optimize=True)
    return float(lengths_at(one, points).max())


def _largest_length(root: Vector, outputs: int, points: Points) -> float:
    """||root (I (x) x)|| at most, by the Frobenius norm."""
    return math.sqrt(sum(_widest(root, e, points) ** 2 for e in np.eye(outputs)))


MOST_PARAMETERS = 2000
"""Of which dense matrices are made."""
MOST_FOLLOWED = 300
"""Beyond which the bound by the rows, which takes minutes, is not looked at where that by the penalty holds."""


@dataclass(frozen=True)
class SoftmaxBound:
    """The bound at noise of scale 1, infinite where none holds; and by corner."""

    value: float
    points: Vector
    """(V,) the bound for each corner, over all labels."""


def softmax_bound(exchange: Exchange) -> SoftmaxBound:
    """The largest ||J|| over corners and labels: the less of the bound by the penalty and of that by the rows.

    Of one of the rows that are exchanged at once (section 6.11).
    """
    jacobian = exchange.jacobian
    if int(jacobian.B.shape[1]) > MOST_PARAMETERS:
        raise InvalidInputError(
            f"over='any-record' has a bound for models of up to {MOST_PARAMETERS} parameters of several classes, and this one "
            f"has {int(jacobian.B.shape[1])}: use `over='max'`."
        )
    scales = exchanged_scales(jacobian, exchange.count)
    columns = columns_of(exchange.allowed, scales)
    capped = bound_by_the_penalty(exchange, scales, columns)
    large = math.isfinite(capped) and int(jacobian.B.shape[1]) > MOST_FOLLOWED
    found = None if large else followed(exchange, scales, columns)
    if found is None:
        # how long corners are, for a search to begin with
        return SoftmaxBound(capped, np.asarray(np.linalg.norm(exchange.points.x, axis=1)))
    best = _by_rows(exchange, found)
    return SoftmaxBound(min(float(best.max()), capped), best)


def _by_rows(exchange: Exchange, found: Followed) -> Vector:
    """The bound by what the rows hold, (V,)."""
    jacobian = exchange.jacobian
    M = np.asarray(host(jacobian.metric))
    # the formula of section 6.4: k is ``found.low``, ``middle`` is (1 + k) / 2, ``half`` is (1 - k) / 2 ||M C^1/2||;
    # ``seen`` are the parts of ||M C Z||, ``long`` those of ||C^1/2 Z||
    middle, half = 0.5 * (1.0 + found.low), 0.5 * (1.0 - found.low) * spectral_norm(M @ found.root.T)
    omega = heaviest(jacobian.fit)
    seen = _Sizes.of(exchange, found, M @ found.root.T @ found.root)
    long = _Sizes.of(exchange, found, found.root)
    best = np.zeros(len(exchange.points.x))
    for y in range(len(seen.direct)):
        value = omega * (middle * seen.largest(y) + half * long.largest(y))
        best = np.maximum(best, value + middle * seen.folded + half * long.folded)
    return best


@dataclass(frozen=True)
class _Sizes:
    """||T Z|| at most, for T either M C or C^1/2: its parts at every corner."""

    direct: Vector
    """(K, K): ||T ((e_k - e_l) (x) E)||."""
    bent: Vector
    """(V,) the largest |T ((e_k - e_l) (x) x)| |(e_k - e_l)^T W E|, moves of W counted."""
    label: Vector
    """(V,) ||T (D (x) x)||, zero where the label does not count."""
    folded: Vector
    """(V,) what folded scales add, with weights counted."""

    @classmethod
    def of(cls, exchange: Exchange, at: Followed, T: Vector) -> _Sizes:
        points, E = exchange.points, exchange.directions
        # parameters are vec(V); e_k - e_l is the difference of two rows of the frame
        V, frame = np.asarray(host(exchange.jacobian.slopes)), np.asarray(host(exchange.jacobian.fit.frame))
        K, (L, p) = len(frame), V.shape
        direct, bent = np.zeros((K, K)), np.zeros(len(points.x))
        blocks = T.reshape(T.shape[0], L, p)
        for k, other in combinations(range(K), 2):
            d = frame[k] - frame[other]
            one = np.einsum("ilp,l->ip", blocks, d, optimize=True)
            direct[k, other] = direct[other, k] = spectral_norm(one @ E)
            far = lengths_at(one, points)
            # (e_k - e_l)^T (W + dW) E: the move is at most its length in the metric times that of what reads it
            reads = spectral_norm(at.root.reshape(-1, L, p).transpose(0, 2, 1) @ d @ E) if E.size else 0.0
            slope = float(np.linalg.norm(d @ V @ E)) + at.move * reads if E.size else 0.0
            bent = np.maximum(bent, far * slope)
        if exchange.label:
            by_label = np.asarray(host(exchange.jacobian.by_label))
            each = [lengths_at(np.einsum("ilp,l->ip", blocks, c, optimize=True), points) for c in by_label.T]
            written = np.sqrt(np.sum(np.square(each), axis=0))
        else:
            written = np.zeros(len(points.x))
        return cls(direct, bent, written, _folded(exchange, at, T))

    def largest(self, y: int) -> Vector:
        """Over all scores of a row of class y, (V,)."""
        K = len(self.direct)
        # section 6.4, "The row's own derivatives": s is the share of the own class. The sum of p_k p_l over k < l is
        # (1 - sum p_k^2) / 2, largest for given s where the other classes share evenly
        first, c = float(np.max(self.direct[y])), 0.5 * self.bent
        # f(s) = (1 - s) first + c (1 - s^2 - (1 - s)^2 / (K - 1)) is concave on [0, 1]
        other = 1.0 / (K - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            # where f' = 0
            s = np.where(c > 0, (2.0 * c * other - first) / (2.0 * c * (1.0 + other)), 0.0)
        s = np.clip(s, 0.0, 1.0)
        features = (1.0 - s) * first + c * (1.0 - s**2 - (1.0 - s) ** 2 * other)
        return np.asarray(np.hypot(features, self.label))


def _folded(exchange: Exchange, at: Followed, T: Vector) -> Vector:
    """What a change of a feature does through its folded scale: m_a (W e_a) (x) e_a for every feature a."""
    folding, points, V = exchange.jacobian.folding, exchange.points, np.asarray(host(exchange.jacobian.slopes))
    L, p = V.shape
    if folding is None:
        return np.zeros(len(points.x))
    check_deviations(folding, totals=True)
    fit = exchange.jacobian.fit
    slopes, means = np.asarray(host(folding.slopes)), np.asarray(host(folding.means))
    d = slopes.size
    heavy = heaviest(fit) if folding.weighted else 1.0
    total = float(np.max(np.asarray(host(folding.totals)), initial=1.0))
    centre = 0.0 if fit.centre is None else np.asarray(host(fit.centre))
    spans = np.where(slopes > 0, points.spans, 0.0)
    far = np.abs(points.x[:, :d] - (means - centre)) + spans * (
        exchange.count * heavy / total + 0.5 * bool(points.rest or points.radius)
    )
    m = heavy * slopes * far
    blocks = T.reshape(T.shape[0], L, p)
    # |T ((W e_a) (x) e_a)|, and what a move of W adds to it
    held = np.linalg.norm(np.einsum("ild,ld->id", blocks[:, :, :d], V[:, :d]), axis=0)
    by_move = np.array(
        [spectral_norm(blocks[:, :, a]) * spectral_norm(at.root.reshape(-1, L, p)[:, :, a]) for a in range(d)]
    )
    reads = spectral_norm(exchange.directions[:d][slopes > 0])
    return np.asarray(reads * np.sqrt(np.sum((m * (held + at.move * by_move)) ** 2, axis=1)))
