"""What IRFIL's whole procedure reveals, weights included: its exact derivative by every value of every row.

Mathematics: 8.1, ``docs/mathematics/irfil.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.namespaces import Vector
from fisherleak.engine.fit.minimise import Fit, fit_at
from fisherleak.engine.fit.risk import Risk
from fisherleak.engine.jacobian import jacobian_of
from fisherleak.engine.jacobian.perturbation import Attribute, absent_in
from fisherleak.engine.losses import Loss
from fisherleak.engine.noise import Noise
from fisherleak.engine.norms.tied_cells import added_onto, nearness, ties
from fisherleak.errors import InvalidInputError
from fisherleak.protection.calibrate.limit_terms import raw_map, value_moves
from fisherleak.protection.irfil.irfil_iteration import SMALLEST_PART

STEP = 1e-5
"""Of the differences of a loss's second derivatives, in spreads of the predictor and of the label."""
MOST_NUMBERS = 2**27
"""Rows x parameters x values that are held at once: 1 GiB."""


@dataclass(frozen=True)
class _RowNorms:
    """How one norm of each row depends on the state and on the row's own values."""

    log_norm: Vector
    g: Vector
    h: Vector
    """The derivative of the log norm by the Hessian is -g h^T: (n, p) both."""
    by_theta: Vector
    by_values: Vector
    """(n, p), and (n, m) at a fixed state."""
    by_weight: Vector
    by_mean: Vector
    """By the logarithm of the row's weight, (n,), and by the columns' means, (n, p): zero but for scales in the penalty."""


@dataclass(frozen=True)
class Round:
    """One fit on the way."""

    fit: Fit
    weights: Vector
    eta: Vector
    """With the weights held fixed."""
    B: Vector
    r: Vector
    a: Vector
    a_move: Vector
    """The derivative of a by each value, (n, m)."""
    slope: Vector
    """The derivative of a by the predictor."""
    N: Vector
    """(n, p, m)."""
    row_norms: _RowNorms

    @property
    def theta(self) -> Vector:
        return np.asarray(self.fit.theta)


@dataclass(frozen=True)
class Procedure:
    """IRFIL on given features and labels: reweightings by single rows, without limits.

    Parameters
    ----------
    risk : Risk
        With the weights of the first fit: those of zero stay, and their sum does.
    theta : array
        Where the first fit starts.
    noise : Noise
        What etas are measured with.
    every, attributes : sequences of Attribute
        All that the rows have, and those whose etas are made equal and reported.
    label : bool
    count : int
        Reweightings.
    moved : array of bool, shape (d,), optional
        Columns whose squared scale in the penalty is the variance of all rows, and moves with them.
    owners : array of int, shape (n,), optional
        Whose rows they are, from 0 on: all rows of a person have one weight.
    """

    risk: Risk
    theta: Vector
    noise: Noise
    every: tuple[Attribute, ...]
    attributes: tuple[Attribute, ...]
    label: bool
    count: int
    moved: NDArray[np.bool_] | None = None
    owners: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        numbers = self.rows.size * self.directions.shape[1]
        if numbers > MOST_NUMBERS:
            raise InvalidInputError(
                f"End-to-end etas of IRFIL take rows x parameters x values at once, {numbers:,} numbers here and at most "
                f"{MOST_NUMBERS:,}: use fewer rows or columns, or leave them out (`account='weights-fixed'`, no `balance`)."
            )

    @cached_property
    def rows(self) -> Vector:
        """With the constant, (n, p)."""
        X = np.asarray(self.risk.X, dtype=np.float64)
        return np.column_stack([X, np.ones(len(X))]) if self.risk.intercept else X

    @cached_property
    def counted(self) -> NDArray[np.bool_]:
        weights = self.risk.weights
        return np.ones(len(self.rows), dtype=bool) if weights is None else np.asarray(weights) > 0

    @cached_property
    def there(self) -> Vector:
        """One where a value is there and zero where it is missing, for each of the values looked at: (n, m) or (1, m)."""
        sizes = [attribute.size for attribute in self.attributes] + [1] * self.label
        absent = absent_in(self.attributes, np.asarray(self.risk.X))
        if absent is None:
            return np.ones((1, sum(sizes)))
        label = np.zeros((len(absent), int(self.label)), dtype=bool)
        return np.repeat(~np.column_stack([absent, label]), sizes, axis=1).astype(np.float64)

    @cached_property
    def slopes(self) -> Vector:
        """How far each value lies from its column's mean, times 2 l2, where that moves the penalty: (n, p)."""
        found = np.zeros(self.rows.shape)
        if self.moved is not None:
            X = self.rows[:, : self.moved.size]
            found[:, : self.moved.size] = 2.0 * self.risk.l2 * self.moved * (X - X.mean(axis=0))
        return found

    @cached_property
    def directions(self) -> Vector:
        """Moves of (features, label) by unit moves of the values looked at, (d + 1, m)."""
        fit = fit_at(self.risk, self.theta, False)
        every, attributes = (tuple(replace(a, gaps=False) for a in some) for some in (self.every, self.attributes))
        jacobian = jacobian_of(fit, self.risk.X, self.risk.y, self.noise, every)
        return np.asarray(value_moves(jacobian, attributes, self.label)[1].T)

    @cached_property
    def owner(self) -> NDArray[np.int64]:
        """Whose each row is: its own where rows are no people's."""
        return np.arange(len(self.rows)) if self.owners is None else self.owners

    def summed(self, values: Vector) -> Vector:
        """Sums over the rows of each owner, (owners, ...)."""
        if self.owners is None:
            return values
        found = np.zeros((int(self.owner.max()) + 1, *values.shape[1:]))
        np.add.at(found, self.owner, values)
        return found

    def run(self) -> list[Round]:
        """All fits: the plain one and as many as there are reweightings."""
        risk, theta, found = self.risk, self.theta, []
        given = self.counted if risk.weights is None else risk.weights
        weights: Vector = np.asarray(given, dtype=np.float64)
        # an owner's weight is that of each of the rows
        rows = self.summed(np.ones(len(weights)))[self.owner]
        total = np.sum(weights / rows)
        for _ in range(self.count + 1):
            fit = fit_at(replace(risk, weights=weights), theta, True)
            theta = np.asarray(fit.theta)
            found.append(self._round(fit, weights))
            # section 8.1: the next weights are 1 / f, normalised; ``log_norm`` is log f
            u = -found[-1].row_norms.log_norm
            raised = np.where(self.counted, np.exp(u - np.max(u[self.counted])), 0.0)
            weights = np.asarray(raised * (total / np.sum(raised / rows)))
        return found

    def etas(self, rounds: Sequence[Round]) -> Vector:
        """Of the whole procedure, (n,); of its owner for each row, where rows belong to people."""
        return self.norms(self.derivative(rounds), self.noise)[0]

    def norms(self, J: Vector, noise: Noise, attribute: int | None = None) -> tuple[Vector, Vector, Vector]:
        """Etas of Jacobians (n, p, m) with a noise, of each row's owner, and singular vectors: left (n, p), right (n, m).

        J of everything, or of one attribute alone.
        """
        root = noise.unit_information_root(J.shape[1])
        norms, left, right = self._top(J if root is None else root @ J, attribute)
        return norms / float(noise.scale), left, right

    @cached_property
    def tied(self) -> list[list[NDArray[np.int64]]]:
        """For each attribute, and last the label, the rows that each is added to, with values that are the same, and near."""
        X, y = np.asarray(self.risk.X, dtype=np.float64), np.asarray(self.risk.y, dtype=np.float64)
        every = [X[:, list(a.columns)] for a in self.attributes] + [y.reshape(len(y), -1)] * self.label
        own = np.arange(len(X))
        pairs = (ties(values, nearness(values), self.owner) for values in every)
        return [[own if onto is None else onto for onto in pair] for pair in pairs]

    def _top(self, M: Vector, attribute: int | None = None) -> tuple[Vector, Vector, Vector]:
        """The larger of the norms with every cell by itself, and with those of one value tied (section 2.7)."""
        if self.owners is None:
            return top(M)
        alone = [np.arange(len(M))] * len(self.tied)
        ways = [alone, *([pair[k] for pair in self.tied] for k in (0, 1))]
        found = [self._top_tied(M, way if attribute is None else way[attribute : attribute + 1]) for way in ways]
        best = np.argmax([norms for norms, _, _ in found], axis=0)
        return tuple(np.stack(each)[best, np.arange(len(M))] for each in zip(*found, strict=True))

    def _top_tied(self, M: Vector, way: Sequence[NDArray[np.int64]]) -> tuple[Vector, Vector, Vector]:
        sizes = [attribute.size for attribute in self.attributes] + [1] * self.label
        sizes = sizes if len(way) == len(sizes) else [M.shape[2]]
        edges = np.cumsum([0, *sizes])
        parts = [(M[:, :, a:b], onto) for a, b, onto in zip(edges[:-1], edges[1:], way, strict=True)]
        T = np.concatenate([added_onto(m.reshape(len(M), -1), onto).reshape(m.shape) for m, onto in parts], axis=2)
        squares = self.summed(T @ T.transpose(0, 2, 1))
        left = np.linalg.eigh(squares)[1][:, :, -1]
        norms = np.sqrt(np.clip(np.einsum("qa,qab,qb->q", left, squares, left), 0.0, None))
        norms, left = norms[self.owner], left[self.owner]
        right = np.einsum("npm,np->nm", T, left) / np.where(norms > 0, norms, 1.0)[:, None]
        # T v: every cell moves as the one that it is tied to
        spread = [right[onto, a:b] for a, b, (_, onto) in zip(edges[:-1], edges[1:], parts, strict=True)]
        return norms, left, np.concatenate(spread, axis=1)

    def _round(self, fit: Fit, weights: Vector) -> Round:
        X, y, theta = self.rows, np.asarray(self.risk.y, dtype=np.float64), np.asarray(fit.theta)
        z, U = X @ theta, raw_map(fit)
        curve, p = Curve.of(fit.loss, z, y), X.shape[1]
        V = split(self.directions, p)
        row_norms = self._row_norms(V, curve, (theta, weights, U @ U.T))
        eta = weights * np.exp(row_norms.log_norm) / float(self.noise.scale)
        a_move = np.outer(curve.a_z, theta @ V[0]) + np.outer(curve.a_y, V[1])
        N = moves(X, V, curve, theta)
        return Round(fit, weights, eta, U @ U.T, curve.r, curve.a, a_move, curve.a_z, N, row_norms)

    def _row_norms(self, V: Split, at: Curve, state: tuple[Vector, Vector, Vector]) -> _RowNorms:
        X, (theta, weights, B) = self.rows, state
        root = self.noise.unit_information_root(B.shape[0])
        WB = B if root is None else root @ B
        # what scales in the penalty add to each row's own share, over its weight
        slopes = self.slopes / np.where(weights > 0, weights, 1.0)[:, None]
        # (N_i + diag(mu_i) / omega_i) V, the second formula of section 8.1; mu_ik is ``slopes`` times w_k
        N = (moves(X, V, at, theta) + (slopes * theta)[:, :, None] * V[0]) * self.there[:, None, :]
        norms, left, v = self._top(WB @ N)
        counted = norms[self.counted]
        if not np.all(counted > SMALLEST_PART * counted.mean()):
            raise InvalidInputError(
                "End-to-end etas of IRFIL need an eta above zero for every row, and some row has none: leave such rows out."
            )
        norms = np.where(self.counted, norms, 1.0)
        # f = l^T W B N v with l, v the singular vectors, and dB = -B dH B: d log f = -g^T dH h with
        # g = B W^T l / f and h = B N v
        g = left @ WB / norms[:, None]
        h = np.einsum("npm,nm->np", N, v, optimize=True) @ B
        e, e_y = v @ V[0].T, v @ V[1]
        along, gx, ge = e @ theta, np.sum(g * X, axis=1), np.sum(g * e, axis=1)
        # N v = x (a w.e + c e_y) + r e with e, e_y the features' and the label's part of V v; ``bend`` is the
        # derivative of g.(N v) by the predictor, for fixed x, e and w
        bend = gx * (at.a_z * along + at.a_y * e_y) + at.a * ge
        by_mean = -self._by_value(weights) * theta * g * e
        by_theta = bend[:, None] * X + (gx * at.a)[:, None] * e + g * e * slopes
        dz, dy = theta @ V[0], V[1]
        by_values = (
            (g @ V[0]) * (at.a * along + at.c * e_y)[:, None]
            + np.outer(bend, dz)
            + np.outer(gx * (at.a_y * along + at.c_y * e_y) + ge * at.c, dy)
            - by_mean @ V[0]
        )
        by_weight = -np.sum(g * e * slopes * theta, axis=1)
        return _RowNorms(np.log(norms), g, h, by_theta, by_values, by_weight, by_mean)

    def _by_value(self, weights: Vector) -> Vector:
        """How far ``slopes``, over the weight, move by a value, (n, p)."""
        found = np.zeros(self.rows.shape)
        if self.moved is not None:
            each = self.moved / np.where(weights > 0, weights, 1.0)[:, None]
            found[:, : self.moved.size] = 2.0 * self.risk.l2 * each
        return found

    def derivative(self, rounds: Sequence[Round]) -> Vector:
        """Of the last parameters by each row's values, (n, p, m): backwards through all fits."""
        X, (n, p) = self.rows, self.rows.shape
        Vx = split(self.directions, p)[0]
        by_theta, by_H = np.eye(p), np.zeros((p, p, p))
        by_squares, by_means = np.zeros((p, p)), np.zeros((p, p))
        by_log: Vector = np.zeros((1, p))
        J = np.zeros(rounds[-1].N.shape)
        for k in range(len(rounds) - 1, -1, -1):
            at, w = rounds[k], rounds[k].weights
            # backwards through one fit: H moves by omega a_z x x^T dz with theta, theta by -B times the gradient's move
            bent = np.einsum("jab,na,nb->nj", by_H, X, X, optimize=True)
            A = -(by_theta + ((w * at.slope)[:, None] * bent).T @ X) @ at.B
            turned = np.einsum("na,jab,bm->njm", X, by_H, Vx, optimize=True)
            # by a value of the row, over omega: theta through N V, H through the move of a and of x x^T
            own = A @ at.N + bent[:, :, None] * at.a_move[:, None, :] + 2.0 * at.a[:, None, None] * turned
            J += w[:, None, None] * own
            # by the penalty of a column: theta through its gradient, penalty times w, and H through its diagonal
            by_squares += A * at.theta + np.einsum("jaa->ja", by_H)
            if k == 0:
                break
            # by log omega: the gradient moves by omega r x and H by omega a x x^T; weights are normalised, so that only
            # their shares move
            M = self.summed(w[:, None] * (at.r[:, None] * (X @ A.T) + at.a[:, None] * bent)) + by_log
            M -= np.outer(self._shares(w), M.sum(axis=0))
            part, each = rounds[k - 1].row_norms, M[self.owner]
            # log omega is -log f and a constant: on to the state and the rows' own values of the fit before
            J -= each[:, :, None] * part.by_values[:, None, :]
            by_theta = -each.T @ part.by_theta
            by_means -= each.T @ part.by_mean
            by_log = -M * self.summed(part.by_weight)[:, None]
            one = np.einsum("nj,na,nb->jab", each, part.g, part.h, optimize=True)
            by_H = 0.5 * (one + one.transpose(0, 2, 1))
        if self.moved is not None:
            # a value moves n l2 times its column's variance by its slope, and the mean by 1 / n
            J += np.einsum("jk,nk,km->njm", by_squares, self.slopes, Vx, optimize=True) + by_means @ Vx / n
        return J * self.there[:, None, :]

    def _shares(self, weights: Vector) -> Vector:
        """Part of each owner in the sum of the owners' weights."""
        own = self.summed(weights / self.summed(np.ones(len(weights)))[self.owner])
        return np.asarray(own / own.sum())


@dataclass(frozen=True)
class Curve:
    """Derivatives of the loss at each row: r, a, c, and of a and c by the predictor and the label (c_z is a_y)."""

    r: Vector
    a: Vector
    c: Vector
    a_z: Vector
    a_y: Vector
    c_y: Vector

    @classmethod
    def of(cls, loss: Loss, z: Vector, y: Vector) -> Curve:
        r, a, c = (np.asarray(function(z, y)) for function in (loss.r, loss.a, loss.c))
        if loss.quadratic:
            return cls(r, a, c, np.zeros_like(z), np.zeros_like(z), np.zeros_like(z))
        s, t = (STEP * (float(np.std(x)) or 1.0) for x in (z, y))
        a_z, a_y = ((np.asarray(f(z + s, y)) - np.asarray(f(z - s, y))) / (2.0 * s) for f in (loss.a, loss.c))
        c_y = (np.asarray(loss.c(z, y + t)) - np.asarray(loss.c(z, y - t))) / (2.0 * t)
        return cls(r, a, c, a_z, a_y, c_y)

    def moved(self, dz: Vector, dy: Vector) -> Vector:
        """The derivative of r by values that move the predictor by dz and the label by dy, (n, m) from (m,)."""
        return np.outer(self.a, dz) + np.outer(self.c, dy)


Split = tuple[Vector, Vector]


def split(V: Vector, p: int) -> Split:
    """Directions of features, (p, m) with nothing for the constant, and of the label, (m,)."""
    features = np.zeros((p, V.shape[1]))
    features[: len(V) - 1] = V[:-1]
    return features, V[-1]


def moves(X: Vector, V: Split, at: Curve, theta: Vector) -> Vector:
    """N V of each row, (n, p, m)."""
    # N = [a x w^T + r I, c x], the first formula of section 8.1
    scale = np.outer(at.a, theta @ V[0]) + np.outer(at.c, V[1])
    return X[:, :, None] * scale[:, None, :] + at.r[:, None, None] * V[0]


def top(M: Vector) -> tuple[Vector, Vector, Vector]:
    """Largest singular values of (n, p, m) with their left, (n, p), and right vectors, (n, m)."""
    tall = M.shape[2] <= M.shape[1]
    flat = M.transpose(0, 2, 1)
    vectors = np.linalg.eigh(flat @ M if tall else M @ flat)[1][:, :, -1]
    other = np.einsum("npm,nm->np" if tall else "npm,np->nm", M, vectors)
    norms = np.linalg.norm(other, axis=1)
    other = other / np.where(norms > 0, norms, 1.0)[:, None]
    return (norms, other, vectors) if tall else (norms, vectors, other)
