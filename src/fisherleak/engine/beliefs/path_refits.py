r"""Eta along the path of refits while one value moves, by refits: for the cells of which more than a bound is wanted.

Newton's method for many paths and places in step, with conjugate gradients for its steps and for :math:`H^{-1} u`. They are
preconditioned by the inverse of the fit's own H with the moved row in place (``believed_cells``); of several outputs by
that of H alone, where the moved row adds a few products. Where there are few parameters, H itself is made and solved.
For every loss, and with scales that the value moves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host, times
from fisherleak._support.namespaces import Vector
from fisherleak.engine.beliefs.moving_noise import MovingNoise
from fisherleak.engine.fit.minimise import risk_of_fit
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.losses.loss import ReducedLoss

VALUES = 2**18
"""Scores that are held at a time."""
MOST_SQUARES = 2**21
"""Products of pairs of columns that are held, where the Hessians are made."""
MOST_STEPS = 40
MOST_PRODUCTS = 200
FURTHEST = 3.0
"""How far a step may move a score: curvatures change by about its exponential."""
NEAR = 1e-6
"""Newton decrement, beside that of the first step, at which a path is at its minimum."""
INEXACT = 1e-3
"""Part of a Newton step that may be left to the next."""
CLOSE = 1e-7
"""Part of H^-1 u that may be left."""
ROUNDING = 1e-8
NARROW = 2
"""Features for each row from which paths are followed in the span of the rows."""
AT_ONCE = 512
"""Directions whose parts outside the span are held at a time."""
FEW = (16, 48)
"""Parameters of one and of several outputs up to which the Hessians are made: that takes a quarter as many products."""


@dataclass(frozen=True)
class PathPlaces:
    """Where etas are asked for: rows, in which of the directions each moves and how far, and what a folded scale adds.

    ``linear`` and ``square`` are those of ``believed_cells``; ``labels`` are the rows' labels where some of these move, and
    ``by_label`` says which.
    """

    rows: NDArray[np.int64]
    along: NDArray[np.int64]
    t: Vector
    linear: Vector
    square: Vector
    labels: Vector | None = None
    by_label: NDArray[np.bool_] | None = None

    def take(self, chosen: Any) -> PathPlaces:
        found: list[Any] = [getattr(self, f.name) for f in fields(self)]
        taken: list[Any] = [None if each is None else each[chosen] for each in found]
        return PathPlaces(*taken)


@dataclass(frozen=True)
class RowSpan:
    r"""Coordinates for fewer rows than features: a path stays in the span of the rows and of the direction of its own row.

    :math:`\theta = T s + b D^{-1/2} e_\perp` with D the penalty, :math:`D^{1/2} T` orthonormal, and :math:`e_\perp` what of a
    direction over :math:`D^{1/2}` lies outside the span, of length 1. The intercept is a coordinate of its own, the last of s.
    """

    root: Vector
    """Of the penalty, and one for the intercept, (p,)."""
    basis: Vector
    """D^1/2 T, (p, m)."""

    @classmethod
    def of(cls, x: Vector, penalty: Vector, intercept: bool) -> RowSpan:
        d = len(penalty) - intercept
        root = np.append(np.sqrt(penalty[:d]), np.ones(int(intercept)))
        basis = np.eye(len(penalty), len(x) + int(intercept), len(x) - d)  # a one where the intercept is
        basis[:d, : len(x)] = np.linalg.qr((x[:, :d] / root[:d]).T)[0]
        return cls(root, basis)

    def rows(self, x: Vector) -> Vector:
        """Coordinates of what parameters are multiplied by, (b, m + 1): zero outside the span."""
        return np.pad((x / self.root) @ self.basis, ((0, 0), (0, 1)))

    def parameters(self, theta: Vector) -> Vector:
        return np.append((theta * self.root) @ self.basis, 0.0)

    def outside(self, directions: Vector) -> tuple[Vector, Vector]:
        """Coordinates of directions, as rows are, (k, m), and their lengths outside the span, (k,)."""
        rest = directions / self.root
        within = rest @ self.basis
        rest -= within @ self.basis.T
        return within, np.sqrt((rest**2).sum(axis=1))


@dataclass(frozen=True)
class Paths:
    """A fit, its rows on the host, and how the noise sees a move of its parameters: in the span of the rows where that is."""

    jacobian: Jacobian
    every: Vector
    """Directions in which a row may move, (k, p)."""
    noise: MovingNoise | None = None
    """Where its covariance moves with the value."""

    @cached_property
    def risk(self) -> Any:
        jacobian: Any = self.jacobian
        return risk_of_fit(jacobian.fit, jacobian.X, jacobian.y)

    @cached_property
    def loss(self) -> ReducedLoss:
        found: ReducedLoss = self.risk.reduced_loss
        return found if found.frame is None else replace(found, frame=np.asarray(host(found.frame)))

    @cached_property
    def _x(self) -> Vector:
        return np.asarray(host(with_constant(self.risk.X, self.risk.intercept, self.risk.centre)), dtype=np.float64)

    @cached_property
    def _penalty(self) -> Vector:
        return np.asarray(host(self.risk.penalty))

    @cached_property
    def span(self) -> RowSpan | None:
        """Where features are many, rows few, and a metric of one output does not move."""
        intercept = bool(self.risk.intercept)
        n, d = self._x.shape[0], self._x.shape[1] - intercept
        if self.loss.outputs > 1 or self.noise is not None or n * NARROW > d or not (self._penalty[:d] > 0).all():
            return None
        return RowSpan.of(self._x, self._penalty, intercept)

    @cached_property
    def x(self) -> Vector:
        return self._x if self.span is None else self.span.rows(self._x)

    @cached_property
    def _outside(self) -> tuple[Vector, Vector]:
        """Some directions at a time: all of them are a matrix as large as the Hessian."""
        assert self.span is not None
        parts = [self.span.outside(some) for some in self._some()]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def _some(self) -> Iterator[Vector]:
        for start in range(0, max(len(self.every), 1), AT_ONCE):
            yield self.every[start : start + AT_ONCE]

    @cached_property
    def directions(self) -> Vector:
        """In the coordinates of the rows, (k, p)."""
        if self.span is None:
            return self.every
        return np.column_stack(self._outside)

    @cached_property
    def y(self) -> Any:
        return np.asarray(host(self.risk.y))

    @cached_property
    def omega(self) -> Vector:
        return np.ones(len(self.y)) if self.risk.weights is None else np.asarray(host(self.risk.weights))

    @cached_property
    def theta(self) -> Vector:
        fit: Any = self.jacobian.fit
        theta = np.asarray(host(fit.centred_theta))
        return theta if self.span is None else self.span.parameters(theta)

    @cached_property
    def penalty(self) -> Vector:
        if self.span is None:
            return self._penalty
        found = np.ones(self.theta.size)
        if self.risk.intercept:
            found[-2] = self._penalty[-1]
        return found

    @cached_property
    def inverse(self) -> Vector:
        if self.span is None:
            return np.asarray(host(self.jacobian.fit.factor.inverse()))
        return np.asarray(np.linalg.inv(self.x.T @ (self.curvature[:, None] * self.x) + np.diag(self.penalty)))

    @cached_property
    def _metric(self) -> Vector:
        return np.asarray(host(self.jacobian.metric))

    @cached_property
    def _seen(self) -> tuple[Vector, Vector, Vector]:
        r"""R, U^T m and \|m\|^2 - \|U^T m\|^2 of each direction: U R is the metric in the span, m that of e_perp."""
        assert self.span is not None
        metric = np.asarray(host(self.jacobian.metric))  # as large as the Hessian, and not kept
        U, R = np.linalg.qr(metric @ (self.span.basis / self.span.root[:, None]))
        # in its own order once, which products by entries ask for
        metric, parts, start = np.ascontiguousarray(metric.T), [], 0
        for some in self._some():
            within, length = (each[start : start + len(some)] for each in self._outside)
            start, far = start + len(some), np.where(length > 0, length, 1.0)[:, None]
            # M e_perp from M e, which has few entries, and from the span
            whole = times(some / self.span.root**2, metric) / far
            m = np.where(length[:, None] > 0, whole - (within / far) @ (U @ R).T, 0.0)
            along = m @ U
            parts.append((along, np.maximum((m**2).sum(axis=1) - (along**2).sum(axis=1), 0.0)))
        return R, np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def squares_of(self, moves: Vector, along: NDArray[np.int64]) -> Vector:
        """How large the noise sees moves of the parameters, on paths along some of the directions."""
        if self.span is None:
            return np.asarray(((moves @ self._metric.T) ** 2).sum(axis=1))
        R, within, rest = self._seen
        b = moves[:, -1]
        return np.asarray(((moves[:, :-1] @ R.T + b[:, None] * within[along]) ** 2).sum(axis=1) + b**2 * rest[along])

    @property
    def makes_hessians(self) -> bool:
        """Whether there are few parameters, and few products of columns."""
        return self.theta.size <= FEW[self.loss.outputs > 1] and self.x.size * self.x.shape[1] <= MOST_SQUARES

    @cached_property
    def squares(self) -> Vector:
        """Products of all pairs of columns, (n, p p)."""
        return np.asarray((self.x[:, :, None] * self.x[:, None, :]).reshape(len(self.x), -1))

    @cached_property
    def curvature(self) -> Vector:
        """Weighted, of each row at the fit, for one output."""
        return np.asarray(self.omega * np.asarray(self.loss.curvature((self.x @ self.theta)[:, None], self.y))[:, 0, 0])


def refitted_squares(paths: Paths, places: PathPlaces) -> Vector:
    """Eta squared at each place, at noise of scale 1; NaN where no minimum was found.

    Of noise whose covariance moves with the value, the first term alone.
    """
    most = max(1, VALUES // (len(paths.y) * paths.loss.outputs))
    parts = [_squares(_Moved(paths, places.take(slice(k, k + most)))) for k in range(0, len(places.rows), most)]
    return np.concatenate(parts)


@dataclass(frozen=True)
class _Moved:
    """Risks of which each has one row moved, with derivatives at parameters of their own, (b, L p)."""

    paths: Paths
    places: PathPlaces

    @cached_property
    def direction(self) -> Vector:
        """In which each row moves, (b, p)."""
        return np.asarray(self.paths.directions[self.places.along])

    @cached_property
    def row(self) -> Vector:
        """The rows as moved, (b, p)."""
        at = self.places
        return np.asarray(self.paths.x[at.rows] + at.t[:, None] * self.direction)

    @cached_property
    def folded(self) -> Vector:
        at = self.places
        return np.asarray(at.linear * at.t + at.square * at.t**2)

    @cached_property
    def labels(self) -> Any:
        return self.paths.y[self.places.rows] if self.places.labels is None else self.places.labels

    def of_others(self, values: Any, shape: tuple[int, ...]) -> Vector:
        """Values of all rows, weighted, and zero of the moved one, (b, n, ...)."""
        found = np.require(np.asarray(values, dtype=np.float64).reshape(shape), requirements="W")
        if self.paths.risk.weights is not None:
            found = found * self.paths.omega.reshape(-1, *(1,) * (len(shape) - 2))
        found[np.arange(shape[0]), self.places.rows] = 0.0
        return found

    def take(self, chosen: Any) -> _Moved:
        return _Moved(self.paths, self.places.take(chosen))

    def at(self, theta: Vector) -> _Curved:
        """Gradients and curvatures of all rows and of the moved one at parameters of their own."""
        paths, (b, L), n = self.paths, (theta.shape[0], self.paths.loss.outputs), len(self.paths.y)
        V = theta.reshape(b, L, -1)
        z = np.moveaxis((V.reshape(b * L, -1) @ paths.x.T).reshape(b, L, n), 1, 2).reshape(b * n, L)
        own = (V @ self.row[:, :, None])[:, :, 0]
        y = np.broadcast_to(paths.y[None], (b, *paths.y.shape)).reshape(b * n, *paths.y.shape[1:])
        r = self.of_others(paths.loss.gradient(z, y), (b, n, L))
        A = self.of_others(paths.loss.curvature(z, y), (b, n, L, L))
        omega = paths.omega[self.places.rows][:, None]
        r_own = np.asarray(paths.loss.gradient(own, self.labels)) * omega
        A_own = np.asarray(paths.loss.curvature(own, self.labels)) * omega[:, :, None]
        whole: Any = (np.moveaxis(r, 1, 2).reshape(b * L, n) @ paths.x).reshape(b, L, -1)
        whole = (whole + r_own[:, :, None] * self.row[:, None, :]).reshape(b, -1)
        return _Curved(
            self, whole + paths.penalty * theta + self.scaled(theta), np.ascontiguousarray(np.moveaxis(A, 1, 3)), A_own
        )

    def at_fit(self) -> _Curved:
        """Gradients at the parameters of the fit, where that of the rows as they were is zero: without a pass over them."""
        paths, at, (b, L) = self.paths, self.places, (len(self.places.rows), self.paths.loss.outputs)
        V, x, omega = paths.theta.reshape(L, -1), paths.x[at.rows], paths.omega[at.rows][:, None]
        own = self.row @ V.T
        r_own = np.asarray(paths.loss.gradient(own, self.labels)) * omega
        r_before = np.asarray(paths.loss.gradient(x @ V.T, paths.y[at.rows])) * omega
        whole = r_own[:, :, None] * self.row[:, None, :] - r_before[:, :, None] * x[:, None, :]
        A_own = np.asarray(paths.loss.curvature(own, self.labels)) * omega[:, :, None]
        gradient = whole.reshape(b, -1) + self.scaled(np.tile(paths.theta, (b, 1)))
        return _Curved(self, gradient, np.empty((b, L, L, 0)), A_own)

    def scaled(self, vectors: Vector) -> Vector:
        """What the folded scale adds to the penalty, times vectors."""
        e, V = self.direction[:, None, :], vectors.reshape(len(vectors), self.paths.loss.outputs, -1)
        return np.asarray((self.folded[:, None, None] * (V * e).sum(axis=2, keepdims=True) * e).reshape(vectors.shape))

    def furthest(self, step: Vector) -> Vector:
        """The largest move of a score, (b,)."""
        L, x = self.paths.loss.outputs, self.paths.x
        V = step.reshape(len(step) * L, -1)
        own = np.abs(step.reshape(len(step), L, -1) @ self.row[:, :, None]).max(axis=(1, 2))
        return np.asarray(np.maximum(np.abs(V @ x.T).reshape(len(step), -1).max(axis=1), own))

    def pushed(self, theta: Vector) -> Vector:
        """What the value does to the gradient: (r + f' w) e + A w x, or c x of a label; (b, L p)."""
        loss, at, L = self.paths.loss, self.places, self.paths.loss.outputs
        V, omega = theta.reshape(len(theta), L, -1), self.paths.omega[at.rows][:, None]
        z = (V @ self.row[:, :, None])[:, :, 0]
        w = (V * self.direction[:, None, :]).sum(axis=2)
        along = omega * (np.asarray(loss.curvature(z, self.labels)) @ w[:, :, None])[:, :, 0]
        direct = omega * np.asarray(loss.gradient(z, self.labels)) + (at.linear + 2.0 * at.square * at.t)[:, None] * w
        if at.by_label is not None:
            c = omega * np.asarray(loss.loss.c(z[:, 0], self.labels))[:, None]
            along = np.where(at.by_label[:, None], c, along)
        whole = along[:, :, None] * self.row[:, None, :] + direct[:, :, None] * self.direction[:, None, :]
        return np.asarray(whole.reshape(theta.shape))


@dataclass(frozen=True)
class _Curved:
    """Risks with one row moved, at parameters of their own: gradients (b, L p), curvatures (b, L, L, n) and (b, L, L)."""

    moved: _Moved
    gradient: Vector
    A: Vector
    own: Vector

    def take(self, chosen: Any) -> _Curved:
        taken = _Curved(self.moved.take(chosen), self.gradient[chosen], self.A[chosen], self.own[chosen])
        known = vars(self).get("_update")
        if known is not None:
            vars(taken)["_update"] = tuple(each[chosen] for each in known)
        return taken

    def times(self, vectors: Vector) -> Vector:
        """The Hessians times vectors."""
        moved, x, (b, L) = self.moved, self.moved.paths.x, self.own.shape[:2]
        V = vectors.reshape(b, L, -1)
        v = (V.reshape(b * L, -1) @ x.T).reshape(b, L, -1)
        v = self.A[:, 0] * v if L == 1 else np.einsum("bkln,bln->bkn", self.A, v)
        at_row = (self.own @ (V @ moved.row[:, :, None]))[:, :, 0]
        whole = (v.reshape(b * L, -1) @ x).reshape(b, L, -1) + at_row[:, :, None] * moved.row[:, None, :]
        return np.asarray(whole.reshape(b, -1) + moved.paths.penalty * vectors + moved.scaled(vectors))

    @cached_property
    def hessians(self) -> Vector:
        """sum_i A_i (x) x_i x_i^T, with what the moved row, the penalty and the folded scale add, (b, L p, L p)."""
        moved, paths, (b, L) = self.moved, self.moved.paths, self.own.shape[:2]
        p, e = paths.x.shape[1], moved.direction
        of_others = (self.A.reshape(b * L * L, -1) @ paths.squares).reshape(b, L, L, p, p)
        of_row = self.own[..., None, None] * (moved.row[:, :, None] * moved.row[:, None, :])[:, None, None]
        of_scale = moved.folded[:, None, None] * e[:, :, None] * e[:, None, :]
        whole = of_others + of_row + np.eye(L)[None, :, :, None, None] * of_scale[:, None, None]
        return np.asarray(np.moveaxis(whole, 2, 3).reshape(b, L * p, L * p) + np.diag(paths.penalty * np.ones(L * p)))

    @cached_property
    def _update(self) -> tuple[Vector, Vector] | None:
        """U^T H^-1 and (I + K M)^-1 K of one output, (b, 2, p) and (b, 2, 2)."""
        moved, paths = self.moved, self.moved.paths
        if paths.loss.outputs > 1:
            return None
        t, e = moved.places.t, moved.direction
        x, a = moved.row - t[:, None] * e, self.own[:, 0, 0]
        turned = np.stack([x @ paths.inverse, e @ paths.inverse], axis=1)
        M = np.stack([(turned * x[:, None, :]).sum(axis=2), (turned * e[:, None, :]).sum(axis=2)], axis=2)
        K = np.stack([[a - paths.curvature[moved.places.rows], a * t], [a * t, a * t**2 + moved.folded]])
        K = np.moveaxis(K, 2, 0)
        return turned, np.linalg.solve(np.eye(2) + K @ M, K)

    def nearly_solved(self, vectors: Vector) -> Vector:
        """The inverse with the other rows as they curve at the fit, times vectors."""
        found = vectors @ self.moved.paths.inverse
        if self._update is None:
            return np.asarray(found)
        turned, W = self._update
        # by sums, not by products of matrices, which are slow where they are many and small
        along = np.einsum("bkl,bl->bk", W, np.einsum("bkp,bp->bk", turned, vectors))
        return np.asarray(found - np.einsum("bk,bkp->bp", along, turned))

    def solved(self, right: Vector, close: float) -> tuple[Vector, NDArray[np.bool_]]:
        """The inverses of the Hessians times vectors, directly or by conjugate gradients, and which settled."""
        if self.moved.paths.makes_hessians:
            with contextlib.suppress(np.linalg.LinAlgError):  # one that is singular stops all of them
                direct: Vector = np.asarray(
                    np.linalg.solve(self.hessians, right[:, :, None])[:, :, 0], dtype=np.float64
                )
                return direct, np.asarray(np.isfinite(direct).all(axis=1))
        solution, rest = np.zeros_like(right), right.copy()
        along = self.nearly_solved(rest)
        size = (rest * along).sum(axis=1)
        goal, going, done = close**2 * size, np.flatnonzero(size > 0), size <= 0
        some = self if going.size == len(right) else self.take(going)
        for _ in range(MOST_PRODUCTS):
            if not going.size:
                break
            here = along[going]
            curved = some.times(here)
            rate = size[going] / (here * curved).sum(axis=1)
            solution[going] += rate[:, None] * here
            rest[going] -= rate[:, None] * curved
            turned = some.nearly_solved(rest[going])
            later = (rest[going] * turned).sum(axis=1)
            along[going] = turned + (later / size[going])[:, None] * here
            size[going] = later
            near = later <= goal[going]
            done[going[near]] = True
            stay = ~near & np.isfinite(later)
            going, some = going[stay], some if stay.all() else some.take(stay)
        return solution, done


def _squares(moved: _Moved) -> Vector:
    theta, found = _minima(moved)
    solved, done = moved.at(theta).solved(moved.pushed(theta), CLOSE)
    noise, at = moved.paths.noise, moved.places
    if noise is None:
        squares = moved.paths.squares_of(solved, at.along)
    else:
        x = moved.paths.x[at.rows]
        squares = noise.seen(solved, x, moved.direction, moved.paths.omega[at.rows], at.t, moved.folded)
    return np.where(found & done, squares, np.nan)


def _minima(moved: _Moved) -> tuple[Vector, NDArray[np.bool_]]:
    """Parameters at the minima, and which were found."""
    paths, count = moved.paths, len(moved.places.rows)
    theta, found, first = np.tile(paths.theta, (count, 1)), np.zeros(count, dtype=bool), np.zeros(count)
    size = float(np.sqrt(np.maximum(paths.theta @ np.linalg.solve(paths.inverse, paths.theta), 0.0)))
    going, some = np.arange(count), moved
    for number in range(MOST_STEPS):
        here = theta[going]
        curved = some.at_fit() if number == 0 else some.at(here)
        near_step = curved.nearly_solved(curved.gradient)
        step = near_step if number == 0 else curved.solved(curved.gradient, INEXACT)[0]
        decrement = np.sqrt(np.maximum((step * curved.gradient).sum(axis=1), 0.0))
        first[going] = np.maximum(first[going], decrement)
        near = decrement <= np.maximum(NEAR * first[going], ROUNDING * (1.0 + size))
        furthest = np.zeros(going.size) if paths.loss.quadratic else some.furthest(step)
        theta[going] = here - (FURTHEST / np.maximum(furthest, FURTHEST))[:, None] * step
        found[going[near]] = True
        stay = ~near & np.isfinite(decrement)
        going, some = going[stay], some if stay.all() else some.take(stay)
        if not going.size:
            break
    return theta, found
