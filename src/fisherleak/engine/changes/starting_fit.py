r"""The fit that changes of its data start from, what all of them share, and the gradient of all rows at many parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, device, host, is_numpy, like, namespace, row_dots, triangles_of
from fisherleak.engine.changes.changed_rows import ChangedHessian, ChangedRows, Rows, changed_hessian
from fisherleak.engine.changes.gradient_beyond_hessian import Expansion, expanded, pays_expansion
from fisherleak.engine.fit.minimise import Fit, risk_of_fit
from fisherleak.engine.fit.risk import Risk, with_constant
from fisherleak.engine.jacobian.folding import Folding
from fisherleak.engine.losses.loss import FARTHEST, ReducedLoss
from fisherleak.engine.norms.largest_eigenvalues import top_of_factors
from fisherleak.rows import block_elements, gather, rows_per_block, sum_rows

TOLERANCE = 1e-4
"""Relative error of a move up to which it is taken as it is."""
CLOSE = 1e-8
"""The same of chord steps where nothing bounds their error."""
ROUNDING = 1e-14
"""A step of at most this part of the parameters themselves is rounding."""
FAR = 50.0
"""Exponents past which a bound is as good as none."""
AT_ONCE = 512
"""Changes whose gradients are summed in one pass over the rows."""
LEAST_HOLD = 1e-12
"""Gradient far out, for each unit of weight, that counts as any."""


@dataclass(frozen=True)
class MovingPenalty:
    """A penalty that changes when rows are left out: by scales that are folded into the model, and by their part of n l2."""

    folding: Folding | None
    squares: Array
    weight: float
    """n l2."""
    level: float | None
    """The same of the intercept; None where there is none."""
    part: float
    """Of the penalty, that leaves with each row: 1 / n where it is stated per row, and zero where the whole of it stays."""
    weighted: bool = False
    """Whether ``part`` leaves with each unit of weight, in place of each row."""

    @classmethod
    def of(cls, jacobian: Any) -> MovingPenalty | None:
        """None where nothing moves it."""
        fit, folding = jacobian.fit, jacobian.folding
        weights = fit.sample_weight if fit.per_row == "weight" else None
        total = fit.n if weights is None else float(host(weights).sum())
        part = 1.0 / total if fit.per_row and (fit.l2 > 0 or fit.intercept_l2 > 0) else 0.0
        if folding is None and not part:
            return None
        xp, d = namespace(jacobian.B), int(fit.coef.shape[-1])
        ones = xp.ones(d, dtype=jacobian.B.dtype, device=device(jacobian.B))
        squares = ones if fit.scales is None else fit.scales**2
        level = None if fit.intercept is None else fit.n * fit.intercept_l2
        return cls(folding, squares, fit.n * fit.l2, level, part, weights is not None)

    @property
    def by_weight(self) -> bool:
        """Whether a row without weight moves nothing when it goes."""
        return (self.weighted or not self.part) and (self.folding is None or self.folding.weighted)

    def changes(self, X: Array, weights: Array | None, there: Array | None = None) -> Array:
        """Of the squared scales, (b, d)."""
        if self.folding is None:
            return namespace(self.squares).zeros_like(self.squares)[None, :]
        return self.folding.left_out(X, weights, self.squares, there)

    def kept_without(self, count: Any) -> Any:
        """The part of n l2 that is left without so many rows, or so much weight."""
        return 1.0 - self.part * count

    def push(self, X: Array, weights: Array | None, there: Array | None = None) -> Array:
        """Diagonal of P, (b, p)."""
        xp = namespace(self.squares)
        alone = xp.ones_like(self.squares[:1])
        counts = alone * (1 if X.ndim == 2 else X.shape[1]) if there is None else xp.sum(there, axis=1)
        if self.weighted and weights is not None:
            counts = xp.sum(xp.reshape(weights, (X.shape[0], -1)), axis=1)
        left = xp.broadcast_to(self.kept_without(counts), (X.shape[0],))[:, None]
        changes = self.changes(X, weights, there)
        # (n - k) l2 s'^2 - n l2 s^2, s' the scale without the k rows
        moves = self.weight * (left * changes - (1.0 - left) * self.squares[None, :])
        return moves if self.level is None else xp.concat([moves, -(1.0 - left) * self.level], axis=1)

    def turn(self, push: Array) -> Array:
        """The largest part by which P changes a penalty: |P v| by H^-1 is no more of |v| by H."""
        xp = namespace(push)
        return xp.max(xp.abs(self._parts(push)), axis=1)

    def kept(self, push: Array) -> Array:
        """The least part of a penalty that P leaves, at most 1: (b,)."""
        xp = namespace(push)
        return xp.clip(1.0 + xp.min(self._parts(push), axis=1), 0.0, 1.0)

    def _parts(self, push: Array) -> Array:
        xp, penalty = namespace(push), self.weight * self.squares
        if self.level is not None:
            penalty = xp.concat([penalty, self.level * xp.ones_like(penalty[:1])])
        # that of several outputs is the same for each
        return push[:, : penalty.shape[0]] / xp.where(penalty > 0, penalty, 1.0)[None, :]


@dataclass(frozen=True)
class StartingFit:
    """A fit at its minimum and what all changes of its data share; any number of changes is solved with one of it.

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
    metric : array of shape (m, L p), optional
        What lengths of moves are measured by; if not given, as the parameters are released.
    moving : MovingPenalty, optional
        What leaves of the penalty with rows.
    strict : bool
        Whether the error of every move, where it is an estimate too, is to be within the tolerance: no step is the last for
        being short alone, and what does not converge is fitted again by itself.
    """

    fit: Fit
    X: Array
    y: Array
    count: int
    tolerance: float = TOLERANCE
    called: Callable[[int], str] = "row {}".format
    metric: Array | None = None
    moving: MovingPenalty | None = None
    strict: bool = False

    @cached_property
    def holding(self) -> NDArray[np.bool_]:
        """``holding`` of all rows."""
        return holding(self.fit, host(self.y))

    @cached_property
    def risk(self) -> Risk:
        return risk_of_fit(self.fit, self.X, self.y)

    @cached_property
    def loss(self) -> ReducedLoss:
        return self.risk.reduced_loss

    @property
    def theta(self) -> Array:
        """For rows as they are centred, (L p,)."""
        return self.fit.centred_theta

    @cached_property
    def inverse(self) -> Array:
        """H^-1."""
        return self.fit.factor.inverse()

    @cached_property
    def roots(self) -> tuple[Array, Array]:
        """R with R R^T = H^-1, and its inverse: triangular, or of eigenvectors where rounding leaves no triangle."""
        xp, scale = namespace(self.theta), self.fit.factor.scale
        triangles = triangles_of(self.fit.factor.core)
        if triangles is not None:
            return scale[:, None] * triangles[0], triangles[1] / scale[None, :]
        values, vectors = xp.linalg.eigh(self.fit.factor.core)
        size = xp.sqrt(xp.clip(values, float(np.finfo(float).tiny), None))
        return scale[:, None] * vectors * size[None, :], (vectors / size[None, :]).T / scale[None, :]

    @cached_property
    def gradient(self) -> Array:
        """What rounding left of the gradient at the fit, (L p,); zero where moves start from wherever the fit is."""
        start = self.theta[None, :]
        return gradients_at(self.risk, start)[0, :] if self.strict else namespace(start).zeros_like(self.theta)

    @property
    def enough(self) -> float:
        """Relative error at which chord steps end: where nothing bounds it, they go on to ``CLOSE``."""
        return self.tolerance if self.strict or self.expansion is not None else CLOSE

    @cached_property
    def seen(self) -> Array:
        """What lengths of moves are measured by, (m, L p)."""
        if self.metric is not None:
            return self.metric
        return self.fit.uncentring

    @cached_property
    def seen_gram(self) -> Array:
        """|D|^2 = D.S D, (L p, L p)."""
        return self.seen.T @ self.seen

    @cached_property
    def spread(self) -> float:
        """What a move of length one by H is as it is measured, at most."""
        by_products = top_of_factors(self.seen, lambda _: self.inverse)
        found = None if by_products is None else by_products(())
        if found is None:
            found = float(np.linalg.eigvalsh(host(self.seen @ self.inverse @ self.seen.T))[-1])
        return float(np.sqrt(found))

    @cached_property
    def stretch(self) -> float:
        """What a move of length one is as it is measured, at most."""
        return float(np.linalg.norm(host(self.seen), ord=2))

    @cached_property
    def expansion(self) -> Expansion | None:
        if self.loss.quadratic or not pays_expansion(self.risk, self.loss, self.count):
            return None
        return expanded(self.risk, self.theta, self.inverse, self.fit.factor.scale, self.seen, self.loss)

    @cached_property
    def rounding(self) -> float:
        """A step of this length is nothing but rounding."""
        return ROUNDING * float(host(self.length(self.theta[None, :]))[0])

    def length(self, moves: Array) -> Array:
        """As it is measured, (b,)."""
        xp = namespace(moves)
        seen = self.fit.uncentred(moves.T).T if self.metric is None else moves @ self.metric.T
        return xp.sqrt(row_dots(seen, seen, xp))

    def across(self, moves: Array) -> Array:
        """|D|_H, (b,)."""
        if self._bent is not None:  # the sum of a (x . D)^2 and the penalty, which takes no root of H
            bent = np.sum((moves @ self._bent.T) ** 2, axis=1)
            return np.sqrt(bent + moves**2 @ self.risk.penalty)
        return namespace(moves).linalg.vector_norm(moves @ self.roots[1].T, axis=1)

    @cached_property
    def _bent(self) -> Any:
        """Roots of the curvatures times the rows, (n, p), of one output whose rows are fewer than parameters."""
        risk = self.risk
        if self.loss.outputs > 1 or not is_numpy(risk.X) or risk.X.shape[0] >= risk.size:
            return None
        x = np.asarray(with_constant(risk.X, risk.intercept, risk.centre))
        a = np.asarray(self.loss.curvature((x @ self.theta)[:, None], risk.y))[:, 0, 0]
        a = a if risk.weights is None else a * np.asarray(risk.weights)
        return np.sqrt(a)[:, None] * x if (a >= 0).all() else None

    def at_once(self, k: int) -> int:
        """Sets of k rows whose changed Hessians are held at a time."""
        size, columns = int(self.theta.shape[0]), k * self.loss.outputs
        return max(64 if k == 1 else 1, block_elements(self.X) // (4 * size * min(size, columns)))

    def turn(self, changes: ChangedRows) -> Array | float:
        """How much P may change a move, relative to H."""
        if changes.push is None:
            return 0.0
        if self.moving is not None:
            return self.moving.turn(changes.push)
        xp, penalty = namespace(changes.push), self.risk.penalty
        return xp.max(xp.abs(changes.push) / xp.where(penalty > 0, penalty, 1.0)[None, :], axis=1)

    def changed_hessian(self, changes: ChangedRows) -> ChangedHessian:
        return changed_hessian(changes, self.theta, self.inverse, lambda: self.roots[0], self.loss)

    def replaced(
        self, rows: Array, changed: Array | None, labels: Array | None, scaled: Sequence[int] = ()
    ) -> ChangedRows:
        """Rows (b,), or sets of them (b, k), that take other features, other labels, or both, one for each row.

        ``scaled`` are features whose scale follows from the rows, in NumPy.
        """
        xp = namespace(self.X)
        changes, old = self._gathered(rows)
        e, flat = None, changes.rows.shape
        if changed is not None:
            e = with_constant(xp.reshape(changed, old.shape), False, None) - with_constant(old, False, None)
            e = xp.concat([e, xp.zeros_like(e[:, :1])], axis=1) if self.risk.intercept else e
            e = xp.where(xp.reshape(changes.rows >= 0, (-1, 1)), e, 0.0)
            e = xp.reshape(e, changes.x.shape)
        new_y = changes.y if labels is None else xp.reshape(labels, (*flat, *labels.shape[rows.ndim :]))
        push = None if e is None or not len(scaled) else self._by_variance(host(changes.rows), host(e), scaled)
        return ChangedRows(changes.rows, changes.x, e, changes.y, new_y, changes.omega, changes.omega, push)

    def _by_variance(self, rows: Rows, e: Any, scaled: Sequence[int]) -> Array:
        """P where columns are divided by their spread: n l2 (v' / v - 1), v' their variance with each set, (b, L p)."""
        n, width = int(self.X.shape[0]), int(e.shape[2])
        found = np.zeros((rows.shape[0], int(self.theta.shape[0])))
        penalty = np.asarray(self.risk.penalty)
        for j in scaled:
            column, added = np.asarray(self.X[:, j], dtype=np.float64), e[:, :, j]
            # n v' = sum (x + e - mean)^2 - (sum e)^2 / n
            more = np.sum(added * (2.0 * (column[rows] - column.mean()) + added), axis=1) / n
            more = more - (np.sum(added, axis=1) / n) ** 2
            places = np.arange(j, found.shape[1], width)
            found[:, places] = penalty[places] * (more / column.var())[:, None]
        return like(found, self.X, namespace(self.X))

    def removed(self, rows: Array) -> ChangedRows:
        """Rows (b,), or sets of them (b, k), that leave, and with them what they are of folded scales."""
        xp = namespace(self.X)
        changes, old = self._gathered(rows)
        push = None
        if self.moving is not None:
            there = xp.astype(changes.rows >= 0, changes.omega.dtype)
            moved = self.moving.push(xp.reshape(old, (*changes.rows.shape, -1)), changes.omega, there)
            push = xp.tile(moved, (1, self.loss.outputs))
        gone = xp.zeros_like(changes.omega)
        return ChangedRows(changes.rows, changes.x, None, changes.y, changes.y, changes.omega, gone, push)

    def _gathered(self, rows: Array) -> tuple[ChangedRows, Array]:
        """Rows as they are, and their features as they were given, (b k, d)."""
        xp = namespace(self.X)
        rows = rows[:, None] if rows.ndim == 1 else rows
        flat, there = xp.reshape(xp.clip(rows, 0, None), (-1,)), xp.reshape(rows >= 0, (-1,))
        old, y, weights = gather((self.X, self.y, self.fit.sample_weight), flat)
        assert old is not None
        assert y is not None
        x = with_constant(old, self.fit.intercept is not None, self.fit.centre)
        omega = xp.ones_like(x[:, 0]) if weights is None else weights
        omega = xp.reshape(xp.where(there, omega, 0.0), rows.shape)
        y = xp.reshape(y, (*rows.shape, *y.shape[1:]))
        return ChangedRows(rows, xp.reshape(x, (*rows.shape, -1)), None, y, y, omega, omega), old


def gradients_at(risk: Risk, theta: Array) -> Array:
    """Gradient of the risk of all rows at each of several parameters (m, L p), for rows as they are centred: (m, L p)."""
    xp = namespace(theta)
    loss, intercept, centre = risk.reduced_loss, risk.intercept, risk.centre
    count, L = theta.shape[0], loss.outputs
    V = xp.reshape(theta, (count * L, risk.width))
    most = max(64, rows_per_block(count, theta))
    if loss.loss.several:
        most = max(1, block_elements(risk.X) // (count * loss.scores))

    def block(X: Array, y: Array, weights: Array | None) -> tuple[Any]:
        x = with_constant(X, intercept, centre)
        b, z = x.shape[0], x @ V.T
        if loss.frame is None:
            r = loss.loss.r(z, xp.broadcast_to(y[:, None], z.shape))
            return ((r if weights is None else weights[:, None] * r).T @ x,)
        labels = xp.reshape(xp.broadcast_to(y[:, None, ...], (b, count, *y.shape[1:])), (b * count, *y.shape[1:]))
        r = xp.reshape(loss.gradient(xp.reshape(z, (b * count, L)), labels), (b, count * L))
        r = r if weights is None else r * weights[:, None]
        return (r.T @ x,)

    (total,) = sum_rows(block, risk.X, risk.y, risk.weights, most=most)
    return xp.reshape(total, theta.shape) + risk.penalty[None, :] * theta


def holding(fit: Fit, labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether the loss of each label rises far out along each output, either way: (t, 2 K)."""
    kinds, which = np.unique(labels, axis=0, return_inverse=True)
    found = []
    for out in range(fit.outputs):
        for far in (-FARTHEST, FARTHEST):
            z = np.zeros((len(kinds), fit.outputs))
            z[:, out] = far
            with np.errstate(all="ignore"):
                r = np.reshape(np.asarray(fit.loss.r(z if fit.loss.several else z[:, 0], kinds)), z.shape)
            # what is no number says nothing: steps are left to find out
            found.append(~(np.sign(far) * r[:, out] <= LEAST_HOLD))
    return np.stack(found, axis=1)[which.reshape(-1)]
