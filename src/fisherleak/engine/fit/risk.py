r"""The regularised empirical risk as a function of the parameters, one pass over the rows each (paper, equation 10).

.. math:: \sum_i \omega_i\, \ell(W x_i + b, y_i) + \frac{n\lambda}{2} |W|^2 + \frac{n\lambda_0}{2} |b|^2

as a function of :math:`\theta = \mathrm{vec}(V)`, V of shape (L, p) in the loss's frame: :math:`(W, b) = Q V`. One output is
K = L = 1. With free intercepts (:math:`\lambda_0 = 0`) rows are taken less the column means, so that columns far from zero cost
no digits; the last parameter of each output is then the level there. The Hessian
:math:`\sum_i \omega_i A_i \otimes x_i x_i^T` of several outputs is built by pairs of them, one half of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from fisherleak._support.arrays import Array, as_real, device, host, is_lazy, is_numpy, like, namespace
from fisherleak._support.checks import default_names
from fisherleak._support.namespaces import Json, Sums
from fisherleak.engine.fit.factored_hessian import Factor, Triangle, Wide, factorise, gram, triangle_of, with_diagonal
from fisherleak.engine.fit.training_data import TrainingData
from fisherleak.engine.losses import Loss
from fisherleak.engine.losses.loss import ReducedLoss, reduced_loss
from fisherleak.engine.losses.multi_output import own_class
from fisherleak.errors import NotConvergedError
from fisherleak.rows import block_elements, map_rows, sum_rows

PerRow = bool | Literal["weight"]

ROUNDING = 1e-5
"""Share of a residual's rounding terms in the size of the gradient, so that a perfect fit can reach the goal too."""
EVEN = 1e-8
"""Part of a common level below which predictions do not differ: the rounding of one level for all is no distance."""
WIDE, MANY_COLUMNS = 4, 200
"""Columns are far more than rows if they are so many times as many, and no fewer than that."""
MANY_PARAMETERS = 300
"""From which on steps are taken without the inverse of the Hessian."""
SMALLEST_BLOCK = 256
"""Rows below which products with blocks of several outputs are starved."""


def with_constant(block: Array, intercept: bool, centre: Array | None) -> Array:
    """A block of rows in float64, less the centre, with a last column of ones where there is an intercept."""
    xp = namespace(block)
    block = as_real(block, xp)
    if centre is not None:
        block = block - centre[None, :]
    if not intercept:
        return block
    return xp.concat([block, xp.ones((block.shape[0], 1), dtype=block.dtype, device=device(block))], axis=1)


def largest_of(a: Sums, b: Sums) -> Sums:
    """Joins the maxima of two blocks."""
    return (namespace(a[0]).maximum(a[0], b[0]),)


@dataclass(frozen=True)
class Point:
    """The risk at one parameter vector."""

    value: float
    gradient: Array
    relative: float
    size: float
    rounding: float
    misclassified: int
    hessian: Array | None
    wide: Wide | None = None
    """The parts of the Hessian, where rows are far fewer than parameters."""

    def distance(self, factor: Factor | Triangle | Wide) -> float:
        """Newton decrement relative to the size of the model: see :class:`Fit`."""
        decrement = float(namespace(self.gradient).sum(self.gradient * factor.solve(self.gradient)))
        return math.sqrt(max(decrement, 0.0) / self.size) if self.size > 0 else 0.0


def _counted(x: Array, weights: Array | None) -> Array:
    if weights is not None:
        return weights
    xp = namespace(x)
    return xp.ones(x.shape[0], dtype=xp.float64, device=device(x))


@dataclass(frozen=True, kw_only=True)
class Risk(TrainingData):
    """The regularised empirical risk of training data as a function of theta, one pass over the rows each."""

    loss: Loss
    l2: float
    intercept: bool
    intercept_l2: float = 0.0
    known_centre: Array | None = None
    scales: Array | None = None
    """(d,): l2 is on each coefficient times its scale, for preprocessing that is folded in."""
    per_row: PerRow = False
    """As :class:`Fit` has it."""

    @classmethod
    def on(
        cls,
        data: TrainingData,
        loss: Loss,
        l2: float,
        intercept: bool,
        intercept_l2: float = 0.0,
        known_centre: Array | None = None,
        scales: Array | None = None,
        per_row: PerRow = False,
    ) -> Self:
        """The risk of a loss and a penalty on training data."""
        own = (data.X, data.y, data.weights, data.names, data.classes)
        rest: Json = {"intercept_l2": intercept_l2, "known_centre": known_centre, "scales": scales}
        return cls(*own, loss=loss, l2=l2, intercept=intercept, per_row=per_row, **rest)

    @property
    def outputs(self) -> int:
        """K."""
        if not self.loss.several:
            return 1
        return int(self.y.shape[1]) if self.classes is None else len(self.classes)

    @cached_property
    def centre(self) -> Array | None:
        """Weighted column means (or the centre of a known fit), where there is a free intercept to take them up."""
        if not self.intercept or self.intercept_l2 > 0:
            return None
        if self.known_centre is not None:
            return self.known_centre

        def block(X: Array, weights: Array | None) -> tuple[Any, ...]:
            xp, omega = namespace(X), _counted(X, weights)
            return as_real(X, xp).T @ omega, xp.sum(omega)

        total, count = sum_rows(block, self.X, self.weights)
        return total / count

    @cached_property
    def reduced_loss(self) -> ReducedLoss:
        """The loss in its frame."""
        return reduced_loss(self.loss, self.outputs, self.X)

    @property
    def separable(self) -> bool:
        """Whether labels are classes, which may be separable."""
        return self.loss.labels.binary or self.loss.shares

    @property
    def width(self) -> int:
        """p, parameters of one output."""
        return int(self.X.shape[1]) + int(self.intercept)

    @property
    def size(self) -> int:
        """L p."""
        return self.reduced_loss.outputs * self.width

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The column of each parameter: one round of columns, and the intercept, for each direction of the frame."""
        names = (*(self.names or default_names(int(self.X.shape[1]))), "intercept")
        return names[: self.width] * self.reduced_loss.outputs

    @cached_property
    def penalty(self) -> Array:
        """Diagonal of the penalty's Hessian, (L p,)."""
        n, d = self.X.shape
        squares = [1.0] * d if self.scales is None else host(self.scales**2).tolist()
        values = [n * self.l2 * square for square in squares] + [n * self.intercept_l2] * int(self.intercept)
        return like(values * self.reduced_loss.outputs, self.X, self.xp)

    def centred(self, theta: Array) -> Array:
        """vec(V), for rows less the centre, of parameters as they are released: all coefficients, then all intercepts."""
        xp = self.xp
        K, d = self.outputs, int(self.X.shape[1])
        whole = xp.reshape(theta[: K * d], (K, d))
        if self.intercept:
            level = theta[K * d :] if self.centre is None else theta[K * d :] + whole @ self.centre
            whole = xp.concat([whole, level[:, None]], axis=1)
        frame = self.reduced_loss.frame
        return xp.reshape(whole if frame is None else frame.T @ whole, (-1,))

    def as_released(self, gradient: Array) -> Array:
        """The gradient by every output's parameters for rows as they are, (K, p), from that for rows less the centre."""
        xp = namespace(gradient)
        whole = xp.reshape(gradient, (-1, self.width))
        frame = self.reduced_loss.frame
        whole = whole if frame is None else frame @ whole
        if self.centre is None:
            return whole
        return xp.concat([whole[:, :-1] + whole[:, -1:] * self.centre[None, :], whole[:, -1:]], axis=1)

    def _predictors(self, theta: Array) -> Callable[[Array], tuple[Array, Array]]:
        """A function from a block of rows to its features (b, p) and its linear predictors, (b,) or (b, K)."""
        loss, intercept, centre = self.reduced_loss, self.intercept, self.centre
        V = self.xp.reshape(theta, (loss.outputs, -1))

        def block(X: Array) -> tuple[Array, Array]:
            x = with_constant(X, intercept, centre)
            return x, loss.predictors(x @ V.T)

        return block

    def residuals(self, theta: Array) -> Callable[..., Array]:
        """A function from a block of rows to its weighted first derivatives at centred parameters, (b, K)."""
        predict, loss = self._predictors(theta), self.loss

        def block(X: Array, y: Array, weights: Array | None) -> Array:
            r = loss.r(predict(X)[1], y)
            r = r if loss.several else r[:, None]
            return r if weights is None else weights[:, None] * r

        return block

    def largest_moves(self, *steps: Array) -> list[float]:
        """Largest change of a linear predictor in the frame by each of some steps, over the rows that count."""
        xp = self.xp
        intercept, centre, count = self.intercept, self.centre, len(steps)
        V = xp.concat([xp.reshape(step, (-1, self.width)) for step in steps], axis=0)

        def block(X: Array, weights: Array | None) -> Sums:
            moves = xp.abs(with_constant(X, intercept, centre) @ V.T)
            moves = moves if weights is None else xp.where(weights[:, None] > 0, moves, xp.zeros_like(moves))
            return (xp.max(xp.reshape(xp.max(moves, axis=0), (count, -1)), axis=1),)

        (moves,) = sum_rows(block, self.X, self.weights, join=largest_of)
        return [float(x) for x in host(moves)]

    def reach(self, step: Array) -> tuple[float, float]:
        """The most that a step adds to the margin of a row's own class against another one, and the most that it takes away."""
        predict, loss, outputs = self._predictors(step), self.loss, self.outputs

        def block(X: Array, y: Array, weights: Array | None) -> Sums:
            xp, (_, z) = namespace(X), predict(X)
            own = own_class(y, outputs) if loss.several else None
            margins = ((2.0 * y - 1.0) * z)[:, None] if own is None else _own_score(z, own)[:, None] - z
            if weights is not None:
                margins = xp.where(weights[:, None] > 0, margins, xp.zeros_like(margins))
            least = xp.full_like(margins, -np.inf)
            sides = [side if own is None else xp.where(own, least, side) for side in (margins, -margins)]
            return (xp.stack([xp.max(side) for side in sides]),)

        (found,) = sum_rows(block, self.X, self.y, self.weights, join=largest_of)
        helped, harmed = (float(x) for x in host(found))
        return helped, harmed

    def start(self) -> Array:
        """Zero, with the intercepts of the best constant model where the loss knows them."""
        V = np.zeros((self.reduced_loss.outputs, self.width))
        if self.intercept and self.loss.several:
            means = host(self._mean_labels())
            means = np.log(np.maximum(means, np.finfo(float).eps)) if self.loss.shares else means
            V[:, -1] = host(self.reduced_loss.frame).T @ means
        elif self.intercept:
            try:
                weights = map_rows(self.xp.ones_like, self.y) if self.weights is None else self.weights
                V[:, -1] = self.loss.start(self.y, weights)
            except ValueError:
                raise NotConvergedError(
                    f"The {self.loss.name} loss has no finite minimiser: no intercept reaches the mean label. Leave out the "
                    "intercept and add an l2 penalty, or choose another loss."
                ) from None
        return like(V.reshape(-1), self.X, self.xp)

    def _mean_labels(self) -> Array:
        """Weighted mean of the labels, (K,): the shares of the classes, or -gradient at zero of numbers."""
        loss, outputs = self.loss, self.outputs

        def block(y: Array, weights: Array | None) -> Sums:
            xp = namespace(y)
            zero = xp.zeros((y.shape[0], outputs), dtype=xp.float64, device=device(y))
            Y = xp.astype(own_class(y, outputs), xp.float64) if loss.shares else -loss.r(zero, y)
            omega = _counted(zero, weights)
            return Y.T @ omega, xp.sum(omega)

        total, count = sum_rows(block, self.y, self.weights)
        return total / count

    def value(self, theta: Array) -> float:
        predict, loss = self._predictors(theta), self.loss

        def block(X: Array, y: Array, weights: Array | None) -> Sums:
            losses = loss.value(predict(X)[1], y)
            return (namespace(X).sum(losses if weights is None else weights * losses),)

        (total,) = sum_rows(block, self.X, self.y, self.weights)
        return float(total + self._penalty_value(theta))

    def at(self, theta: Array, curvature: bool, whole: bool = True) -> Point:
        """The risk at a point; without ``whole`` only the parts of the Hessian are made, where it has parts."""
        xp = self.xp
        wide = self._wide(theta) if curvature else None
        made = curvature and (whole or wide is None)
        gradient, terms, sums, *hessian = sum_rows(
            self._terms(theta, made), self.X, self.y, self.weights, most=self._most
        )
        gradient = xp.reshape(gradient, (-1,)) + self.penalty * theta
        terms = xp.reshape(terms, (-1,)) + self.penalty * xp.abs(theta)
        relative = xp.max(xp.where(terms > 0, xp.abs(gradient) / xp.where(terms > 0, terms, 1.0), 0.0))
        # one small copy per pass tells the host all that it has to know
        known = host(xp.concat([xp.stack([relative, self._penalty_value(theta)]), sums]))
        relative, penalty, value, misclassified, residual, square, rounding = (float(x) for x in known[:7])
        if self.centre is not None:
            square = max(square - _explained(known[7:], self.reduced_loss.outputs), EVEN**2 * square)
        H = None
        if hessian:
            H = of_pairs(hessian, self.reduced_loss.outputs, self.width, xp)
            H = with_diagonal(H, self.penalty)
        return Point(
            value=value + penalty,
            gradient=gradient,
            relative=relative,
            size=residual + square + 2.0 * penalty,
            rounding=rounding,
            misclassified=int(misclassified),
            hessian=H,
            wide=wide,
        )

    def factor(self, at: Point) -> Factor:
        """The factored Hessian at a point that has one, or its parts."""
        return factorise(at.hessian, self.parameter_names, at.wide)

    def stepping(self, at: Point) -> Factor | Triangle | Wide:
        """What steps are taken with: the parts of the Hessian where it was not made, or a triangle of a large one."""
        if at.hessian is None:
            return at.wide if at.wide is not None and at.wide.is_regular else self.factor(at)
        if self.loss.quadratic or at.hessian.shape[0] < MANY_PARAMETERS or not is_numpy(at.hessian):
            return self.factor(at)
        return triangle_of(at.hessian, self.parameter_names)

    @property
    def _most(self) -> int | None:
        """Rows of a block that hold as many values as usual, with the features once for each output; as usual for one."""
        L = self.reduced_loss.outputs
        return max(SMALLEST_BLOCK, block_elements(self.X) // (L * (L + self.width))) if self.loss.several else None

    def _wide(self, theta: Array) -> Wide | None:
        """The parts of the Hessian of one output, where rows in memory are far fewer than columns that all have a penalty."""
        n, d = self.X.shape
        if self.loss.several or is_lazy(self.X) or d < MANY_COLUMNS or WIDE * n > d:
            return None
        xp = self.xp
        if not bool(xp.all(self.penalty[:d] > 0)):
            return None
        rows, z = self._predictors(theta)(self.X[:])
        a = self.loss.a(z, self.y)
        a = a if self.weights is None else self.weights * a
        return Wide(rows * xp.sqrt(a)[:, None], self.penalty, self.intercept)

    def _penalty_value(self, theta: Array) -> Array:
        return 0.5 * self.xp.sum(self.penalty * theta * theta)

    def _terms(self, theta: Array, curvature: bool) -> Callable[..., Sums]:
        """A function from a block of rows to the sums that ``at`` needs.

        They are the gradient and the sizes of its terms, (L, p); the value, rows on the wrong side, sum r^2, sum z^T A z,
        rounding, sum A z (L) and sum A (L^2); and the Hessian's parts if ``curvature``.
        """
        xp, loss, predict = self.xp, self.reduced_loss, self._predictors(theta)
        record, Q, separable = loss.loss, loss.frame, self.separable

        def block(X: Array, y: Array, weights: Array | None) -> Sums:
            x, s = predict(X)
            omega, plain, a = _counted(x, weights), record.r(s, y), record.a(s, y)
            if Q is None:
                in_r, scale = _rounding(record, s, y, a, xp)
                s, plain, in_r, a = s[:, None], plain[:, None], in_r[:, None], a[:, None, None]
                z, r, scale = s, plain, scale[:, None]
            else:
                scale = xp.abs(s) + (xp.abs(s - plain) if record.quadratic else 0.0)
                in_r = (scale if record.quadratic else xp.abs(plain) * scale) @ xp.abs(Q)
                z, r = s @ Q, plain @ Q
            column = omega[:, None]
            r, A = column * r, column[:, :, None] * a
            one = z.shape[1] == 1
            bent = A[:, :, 0] * z if one else (A @ z[:, :, None])[:, :, 0]
            wrong = omega > 0
            if separable:
                wrong = wrong & _misclassified(s, y, record.several)
            counts = (omega * record.value(s[:, 0] if Q is None else s, y), xp.astype(wrong, xp.float64))
            sizes = (column * plain**2, bent * z, column * xp.abs(plain) * scale)
            totals = xp.stack([xp.sum(each) for each in (*counts, *sizes, *((bent, A) if one else ()))])
            if not one:
                totals = xp.concat([totals, xp.sum(bent, axis=0), xp.reshape(xp.sum(A, axis=0), (-1,))])
            sums = (r.T @ x, (xp.abs(r) + ROUNDING * column * in_r).T @ xp.abs(x), totals)
            return (*sums, *_pairs(x, A, omega, record.unit_curvature, xp)) if curvature else sums

        return block


def _rounding(loss: Loss, z: Array, y: Array, a: Array, xp: Any) -> tuple[Array, Array]:
    """What one unit of rounding in z and y of one output does to r, and to the loss for each unit of r: (b,) both."""
    by_label = xp.abs(loss.c(z, y) * y) / loss.label_unit
    return a * xp.abs(z) + by_label, xp.abs(z) + xp.minimum(xp.abs(y), by_label / xp.where(a > 0, a, 1.0))


def _own_score(s: Array, own: Array) -> Array:
    xp = namespace(s)
    return xp.sum(xp.where(own, s, xp.zeros_like(s)), axis=1)


def _misclassified(s: Array, y: Array, several: bool) -> Array:
    """Rows whose own class has not the largest score, (b,)."""
    if not several:
        return (2.0 * y - 1.0) * s[:, 0] <= 0
    xp, own = namespace(s), own_class(y, s.shape[1])
    return _own_score(s, own) <= xp.max(xp.where(own, xp.full_like(s, -np.inf), s), axis=1)


def _explained(bends: Any, L: int) -> float:
    """What constants explain of sum z^T A z: s^T (sum A)^-1 s with s = sum A z."""
    linear, curvature = bends[:L], bends[L:].reshape(L, L)
    if L == 1:
        return float(linear[0] * (linear[0] / curvature[0, 0])) if curvature[0, 0] > 0 else 0.0
    return float(linear @ np.linalg.lstsq(curvature, linear, rcond=None)[0])


def _pairs(x: Array, A: Array, omega: Array, unit: bool, xp: Any) -> Sums:
    """Sum A_kl x x^T for outputs k <= l, (p, (L - k) p) for each k; once, (p, p), of one output or where A is the identity."""
    b, L = A.shape[:2]
    if L == 1 or unit:
        return (gram(x, A[:, 0, 0] if L == 1 else omega, xp),)
    return tuple(x.T @ xp.reshape(A[:, k, k:][:, :, None] * x[:, None, :], (b, -1)) for k in range(L))


def of_pairs(parts: Any, L: int, p: int, xp: Any) -> Array:
    """A symmetric matrix (L p, L p) from the upper blocks of each of its L lines, or from the one block of all outputs."""
    if L == 1:
        return parts[0]
    if len(parts) == 1:
        eye = like(np.eye(L), parts[0], xp)
        return xp.reshape(eye[:, None, :, None] * parts[0][None, :, None, :], (L * p, L * p))
    found = xp.empty((L * p, L * p), dtype=parts[0].dtype, device=device(parts[0]))
    for k, part in enumerate(parts):
        here, after, own = slice(k * p, (k + 1) * p), slice((k + 1) * p, L * p), part[:, :p]
        found[here, here] = 0.5 * (own + own.T)
        found[here, after] = part[:, p:]
        found[after, here] = part[:, p:].T
    return found
