r"""The minimiser of the regularised empirical risk, to rounding (paper, equation 10).

.. math::

    w^* = \arg\min_w \sum_i \omega_i\, \ell(w \cdot x_i + b, y_i) + \frac{n\lambda}{2} |w|^2

A sum, not a mean; the intercept b is not penalised. Newton's method, which is one step (and its
refinement) for the squared loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from fisherleak._array import Array, as_real, device, host, like, namespace
from fisherleak._blocks import map_rows, sum_rows
from fisherleak._check import (
    check_data,
    check_labels,
    check_positive,
    check_weights,
    column_names,
    default_names,
)
from fisherleak.curvature import Factor, factorise, gram, warn_if_near_singular
from fisherleak.errors import NotConvergedError, SeparableClassesError, SingularHessianError
from fisherleak.losses import Loss, get_loss

__all__ = ["Fit", "Risk", "distance", "fit_at", "minimise", "with_constant"]

GOAL = 1e-10
"""Relative gradient that is promised."""
ROUNDING = 1e-5
"""Share of a residual's rounding terms in the size of the gradient, so that a perfect fit can reach the goal too."""
SMALL_STEP = 1e-6
"""A fit is at a minimum only if the Newton step also moves the linear predictors by no more than this part."""
MOST_STEPS = 200
ARMIJO = 1e-4


@dataclass(frozen=True)
class Fit:
    r"""A minimiser with what the Jacobian needs.

    Attributes
    ----------
    coef : array of shape (d,)
        Coefficients, in the array library of X.
    intercept : float or None
        None where the model has none.
    loss : Loss
    l2 : float
        lambda, per example.
    n : int
        Rows it was fitted on.
    sample_weight : array of shape (n,) or None
        The weights it was fitted with.
    factor : Factor
        The factored Hessian at the minimum.
    gradient : float
        Largest component of the gradient, relative to the sum of the sizes of its terms.
    distance : float
        Distance from the minimum: the Newton decrement, relative to the size of the model in the same metric,
        :math:`(g^T H^{-1} g / (w^T H w + \sum \omega r^2))^{1/2}`. About the relative error of eta.
    steps : int
        Newton steps taken.
    objective : float
        The risk at these parameters.
    intercept_l2 : float
        lambda on the intercept; zero but for models that penalise it.
    centre : array of shape (d,) or None
        Weighted column means: with a free intercept, rows are taken less these, so that columns far from zero cost no digits.
        ``factor`` is that of the Hessian for such rows.
    level : float or None
        The intercept for such rows.
    """

    coef: Array
    intercept: float | None
    loss: Loss
    l2: float
    n: int
    sample_weight: Array | None = field(repr=False)
    factor: Factor = field(repr=False)
    gradient: float
    distance: float
    steps: int
    objective: float
    intercept_l2: float = 0.0
    centre: Array | None = field(default=None, repr=False)
    level: float | None = field(default=None, repr=False)

    @property
    def condition(self) -> float:
        """Condition number of the Hessian scaled to unit diagonal."""
        return self.factor.condition

    @property
    def theta(self) -> Array:
        """All released parameters (p,): the coefficients, then the intercept if there is one."""
        return self.coef if self.intercept is None else self._with(self.intercept)

    @property
    def centred_theta(self) -> Array:
        """The same parameters for rows less ``centre``: their last is the level there."""
        return self.coef if self.level is None else self._with(self.level)

    def _with(self, last: float) -> Array:
        xp = namespace(self.coef)
        return xp.concat([self.coef, like([last], self.coef, xp)])

    def uncentred(self, matrix: Array) -> Array:
        """Rows for the centred parameters (p, k) turned into rows for the released ones: b = level - coef . centre."""
        if self.centre is None:
            return matrix
        xp = namespace(matrix)
        last = matrix[-1:, :] - self.centre[None, :] @ matrix[:-1, :]
        return xp.concat([matrix[:-1, :], last], axis=0)


def minimise(
    X: Any,
    y: Any,
    loss: str | Loss = "squared",
    l2: float = 0.0,
    sample_weight: Any = None,
    intercept: bool = False,
) -> Fit:
    r"""Exact minimiser of the sum of weighted losses plus :math:`n\lambda|w|^2/2`.

    Parameters
    ----------
    X : array of shape (n, d)
    y : array of shape (n,)
    loss : str or Loss
        A name in ``fl.LOSSES`` or a record.
    l2 : float
        lambda, zero or more. The penalty is n l2 / 2 times the squared norm of the coefficients.
    sample_weight : array of shape (n,), optional
        Zero or more; multiplies each example's loss.
    intercept : bool
        Whether to add a constant, which is not penalised.

    Returns
    -------
    Fit
        With a relative gradient of at most 1e-10.

    Raises
    ------
    InvalidInputError
        Where an argument breaks a rule.
    SingularHessianError
        Where the data do not determine the parameters.
    NotConvergedError
        Where there is no finite minimiser; ``SeparableClassesError`` where the classes are separable.

    Examples
    --------
    >>> import numpy as np
    >>> import fisherleak as fl
    >>> fit = fl.minimise(np.array([[1.0], [2.0]]), np.array([2.0, 4.0]))
    >>> float(fit.coef[0])
    2.0
    """
    loss = get_loss(loss)
    names = column_names(X)
    X, y = check_data(X, y)
    weights = check_weights(sample_weight, X)
    check_labels(y, weights, loss)
    l2 = check_positive(l2, "l2", zero=True)
    _check_rank_possible(X, weights, l2, intercept)
    names = (names or default_names(X.shape[1])) + ["intercept"]
    risk = Risk(X, y, weights, loss, l2, bool(intercept), names=tuple(names))
    return _fit(risk, *_newton(risk, risk.start()))


def fit_at(risk: Risk, theta: Array, polish: bool) -> Fit:
    """A fit with given parameters and its distance from the minimum; moved there if ``polish``.

    A polished fit keeps the distance that was bridged.
    """
    theta = risk.centred(theta)
    at = risk.at(theta, curvature=True)
    assert at.hessian is not None
    given = _fit(risk, theta, at, factorise(at.hessian, risk.names), 0)
    return replace(_fit(risk, *_newton(risk, theta)), distance=given.distance) if polish else given


def distance(fit: Fit, X: Array, y: Array) -> float:
    """Distance of a fit from the minimum on these data: see :class:`Fit`."""
    risk = Risk(X, y, fit.sample_weight, fit.loss, fit.l2, fit.intercept is not None, fit.intercept_l2)
    return risk.at(fit.centred_theta, curvature=False).distance(fit.factor)


def _fit(risk: Risk, theta: Array, at: _Point, factor: Factor, steps: int) -> Fit:
    warn_if_near_singular(factor)
    split = risk.X.shape[1]
    coef, level = theta[:split], float(theta[split]) if risk.intercept else None
    intercept = level
    if level is not None and risk.centre is not None:
        intercept = level - float(namespace(coef).sum(risk.centre * coef))
    return Fit(
        coef=coef,
        intercept=intercept,
        loss=risk.loss,
        l2=risk.l2,
        n=risk.X.shape[0],
        sample_weight=risk.weights,
        factor=factor,
        gradient=at.relative,
        distance=at.distance(factor),
        steps=steps,
        objective=at.value,
        intercept_l2=risk.intercept_l2,
        centre=risk.centre,
        level=level,
    )


def with_constant(block: Array, intercept: bool, centre: Array | None) -> Array:
    """A block of rows in float64, less the centre, with a last column of ones where there is an intercept."""
    xp = namespace(block)
    block = as_real(block, xp)
    if centre is not None:
        block = block - centre[None, :]
    if not intercept:
        return block
    return xp.concat([block, xp.ones((block.shape[0], 1), dtype=block.dtype, device=device(block))], axis=1)


@dataclass(frozen=True)
class _Point:
    """The risk at one parameter vector."""

    value: float
    gradient: Array
    relative: float
    size: float
    rounding: float
    misclassified: int
    hessian: Array | None

    def distance(self, factor: Factor) -> float:
        """Newton decrement relative to the size of the model: see :class:`Fit`."""
        decrement = float(namespace(self.gradient).sum(self.gradient * factor.solve(self.gradient)))
        return math.sqrt(max(decrement, 0.0) / self.size) if self.size > 0 else 0.0


@dataclass(frozen=True)
class Risk:
    """The regularised empirical risk as a function of theta, one pass over the rows each."""

    X: Array
    y: Array
    weights: Array | None
    loss: Loss
    l2: float
    intercept: bool
    intercept_l2: float = 0.0
    names: tuple[str, ...] = ()

    @cached_property
    def centre(self) -> Array | None:
        """Weighted column means, where there is a free intercept to take them up: see :class:`Fit`."""
        if not self.intercept or self.intercept_l2 > 0:
            return None
        xp = namespace(self.X)

        def block(X: Array, weights: Array | None) -> tuple[Any, ...]:
            omega = xp.ones(X.shape[0], dtype=xp.float64, device=device(X)) if weights is None else weights
            return as_real(X, xp).T @ omega, xp.sum(omega)

        total, count = sum_rows(block, self.X, self.weights)
        return total / count

    @property
    def size(self) -> int:
        return int(self.X.shape[1]) + int(self.intercept)

    @property
    def penalty(self) -> Array:
        """Diagonal of the penalty's Hessian, (p,)."""
        n, d = self.X.shape
        values = [n * self.l2] * d + [n * self.intercept_l2] * int(self.intercept)
        return like(values, self.X, namespace(self.X))

    def centred(self, theta: Array) -> Array:
        """Parameters of the model as they are for rows less the centre."""
        if self.centre is None:
            return theta
        xp = namespace(theta)
        level = theta[-1:] + xp.sum(self.centre * theta[:-1])
        return xp.concat([theta[:-1], level])

    def largest_move(self, step: Array) -> float:
        """Largest change of a linear predictor by a step, over the rows that count."""
        xp = namespace(self.X)

        def block(X: Array, weights: Array | None) -> Array:
            moves = xp.abs(with_constant(X, self.intercept, self.centre) @ step)
            return moves if weights is None else xp.where(weights > 0, moves, 0.0)

        return float(xp.max(map_rows(block, self.X, self.weights)))

    def start(self) -> Array:
        """Zero, with the intercept that has the mean label where the loss knows one."""
        xp = namespace(self.X)
        theta = xp.zeros(self.size, dtype=xp.float64, device=device(self.X))
        if not self.intercept:
            return theta
        try:
            level = self.loss.start(self.y, xp.ones_like(self.y) if self.weights is None else self.weights)
        except ValueError:
            raise NotConvergedError(
                f"The {self.loss.name} loss has no finite minimiser: no intercept reaches the mean label. Leave out the "
                "intercept and pass l2 > 0, or choose another loss."
            ) from None
        return xp.concat([theta[:-1], like([level], self.X, xp)])

    def value(self, theta: Array) -> float:
        def block(X: Array, y: Array, weights: Array | None) -> tuple[Any]:
            xp = namespace(X)
            losses = self.loss.value(with_constant(X, self.intercept, self.centre) @ theta, y)
            return (xp.sum(losses if weights is None else weights * losses),)

        (total,) = sum_rows(block, self.X, self.y, self.weights)
        return float(total) + self._penalty_value(theta)

    def at(self, theta: Array, curvature: bool) -> _Point:
        xp = namespace(theta)
        value, gradient, terms, sums, misclassified, *hessian = sum_rows(
            self._terms(theta, curvature), self.X, self.y, self.weights
        )
        diagonal = self.penalty
        gradient = gradient + diagonal * theta
        terms = terms + diagonal * xp.abs(theta)
        relative = xp.max(xp.where(terms > 0, xp.abs(gradient) / xp.where(terms > 0, terms, 1.0), 0.0))
        H = None
        if hessian:
            H = hessian[0] + xp.eye(theta.shape[0], dtype=theta.dtype, device=device(theta)) * diagonal[None, :]
        return _Point(
            value=float(value) + self._penalty_value(theta),
            gradient=gradient,
            relative=float(relative),
            size=self._size(sums, theta),
            rounding=float(sums[4]),
            misclassified=int(misclassified),
            hessian=H,
        )

    def _size(self, sums: Array, theta: Array) -> float:
        """theta^T H theta + sum omega r^2; with a free intercept, less what a constant explains."""
        residual, square, linear, curvature, _ = (float(x) for x in host(sums))
        if self.centre is not None and curvature > 0:
            square = max(square - linear**2 / curvature, 0.0)
        return residual + square + 2.0 * self._penalty_value(theta)

    def _penalty_value(self, theta: Array) -> float:
        return 0.5 * float(namespace(theta).sum(self.penalty * theta * theta))

    def _terms(self, theta: Array, curvature: bool) -> Callable[..., tuple[Any, ...]]:
        loss, binary = self.loss, self.loss.labels.binary

        def block(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
            xp = namespace(X)
            rows = with_constant(X, self.intercept, self.centre)
            z = rows @ theta
            omega = xp.ones_like(z) if weights is None else weights
            plain = loss.r(z, y)
            r = omega * plain
            a = omega * loss.a(z, y)
            by_label = omega * xp.abs(loss.c(z, y) * y)
            # what one unit of rounding in z and y does to r, and to the loss
            in_r = a * xp.abs(z) + by_label
            in_loss = xp.abs(z) + xp.minimum(xp.abs(y), by_label / xp.where(a > 0, a, 1.0))
            wrong = (omega > 0) & ((2.0 * y - 1.0) * z <= 0) if binary else omega > 0
            terms = (
                xp.sum(omega * loss.value(z, y)),
                rows.T @ r,
                xp.abs(rows).T @ (xp.abs(r) + ROUNDING * in_r),
                xp.stack([xp.sum(x) for x in (r * plain, a * z * z, a * z, a, xp.abs(r) * in_loss)]),
                xp.sum(xp.astype(wrong, xp.int64)),
            )
            return (*terms, gram(rows, a, xp)) if curvature else terms

        return block


def _check_rank_possible(X: Array, weights: Array | None, l2: float, intercept: bool) -> None:
    xp = namespace(X)
    counted = X.shape[0] if weights is None else int(xp.sum(xp.astype(weights > 0, xp.int64)))
    p = X.shape[1] + int(intercept)
    if l2 == 0 and p > counted:
        raise SingularHessianError(
            f"There are more parameters ({p}) than rows with a weight above zero ({counted}), so the minimiser is not "
            "unique. Pass l2 > 0, or fewer columns."
        )


def _newton(risk: Risk, theta: Array) -> tuple[Array, _Point, Factor, int]:
    """Newton's method until rounding stops it; then the point must be a minimum."""
    at = risk.at(theta, curvature=True)
    assert at.hessian is not None
    factor = factorise(at.hessian, risk.names)
    for count in range(MOST_STEPS):
        step = -factor.solve(at.gradient)
        moved, there = _descend(risk, theta, at, step)
        if there is None:
            break
        _refuse_separable(risk, there)
        then = factor if there.hessian is None else _refactorise(there.hessian, risk, there)
        still = not there.distance(then) < 0.25 * at.distance(factor)
        if still and _is_minimum(risk, theta, at, step):
            return theta, at, factor, count
        theta, at, factor = moved, there, then
    else:
        raise _not_converged(risk, at)
    if not _is_minimum(risk, theta, at, step):
        raise _not_converged(risk, at)
    return theta, at, factor, count


def _is_minimum(risk: Risk, theta: Array, at: _Point, step: Array) -> bool:
    """A small gradient, and a Newton step that moves no prediction: at infinity gradients vanish, steps do not."""
    if not at.relative <= GOAL:
        return False
    return risk.largest_move(step) <= SMALL_STEP * max(risk.largest_move(theta), 1.0)


def _descend(risk: Risk, theta: Array, at: _Point, step: Array) -> tuple[Array, _Point | None]:
    """The full Newton step, shortened until the risk falls (rounding is forgiven); None where it never does."""
    xp = namespace(theta)
    curvature = not risk.loss.quadratic
    slope = float(xp.sum(at.gradient * step))
    slack = 1e-13 * abs(at.value) + 1e-15 * at.rounding
    length = 1.0
    moved = theta + step
    there = risk.at(moved, curvature)
    if there.value <= at.value + ARMIJO * slope + slack:
        return moved, there
    while length > 1e-12:
        length *= 0.5
        if risk.value(theta + length * step) <= at.value + ARMIJO * length * slope + slack:
            moved = theta + length * step
            return moved, risk.at(moved, curvature)
    return theta, None


def _refactorise(hessian: Array, risk: Risk, at: _Point) -> Factor:
    """The Hessian was regular at the start: if it is not here, the parameters run away."""
    try:
        return factorise(hessian, risk.names)
    except SingularHessianError:
        raise _not_converged(risk, at) from None


def _refuse_separable(risk: Risk, at: _Point) -> None:
    if risk.loss.labels.binary and risk.l2 == 0 and at.misclassified == 0:
        raise SeparableClassesError(
            f"The {risk.loss.name} loss has no finite minimiser: the classes are linearly separable. Pass l2 > 0."
        )


def _not_converged(risk: Risk, at: _Point) -> NotConvergedError:
    if at.relative <= GOAL:
        what = "the gradient vanishes but the parameters keep growing"
    else:
        what = f"relative gradient {at.relative:.1e}, wanted {GOAL:.0e}"
    causes = "the minimiser may lie at infinity (a group whose labels are all equal or all zero), or labels are extreme"
    remedy = "Pass l2 > 0" if risk.l2 == 0 else "Pass a larger l2"
    return NotConvergedError(f"The {risk.loss.name} fit did not converge ({what}): {causes}. {remedy}, or rescale.")
