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
from typing import Any

from fisherleak._array import Array, as_real, device, like, namespace
from fisherleak._blocks import sum_rows
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
FINEST = 1e-14
"""Relative gradient past which another step is pointless."""
SMALL_STEP = 1e-6
"""A fit is at a minimum only if the Newton step is also this small beside the parameters."""
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

    @property
    def condition(self) -> float:
        """Condition number of the Hessian scaled to unit diagonal."""
        return self.factor.condition

    @property
    def theta(self) -> Array:
        """All released parameters (p,): the coefficients, then the intercept if there is one."""
        if self.intercept is None:
            return self.coef
        xp = namespace(self.coef)
        return xp.concat([self.coef, like([self.intercept], self.coef, xp)])


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
    at = risk.at(theta, curvature=True)
    assert at.hessian is not None
    given = _fit(risk, theta, at, factorise(at.hessian, risk.names), 0)
    return replace(_fit(risk, *_newton(risk, theta)), distance=given.distance) if polish else given


def distance(fit: Fit, X: Array, y: Array) -> float:
    """Distance of a fit from the minimum on these data: see :class:`Fit`."""
    risk = Risk(X, y, fit.sample_weight, fit.loss, fit.l2, fit.intercept is not None, fit.intercept_l2)
    return risk.at(fit.theta, curvature=False).distance(fit.factor)


def _fit(risk: Risk, theta: Array, at: _Point, factor: Factor, steps: int) -> Fit:
    warn_if_near_singular(factor)
    split = risk.X.shape[1]
    return Fit(
        coef=theta[:split],
        intercept=float(theta[split]) if risk.intercept else None,
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
    )


def with_constant(block: Array, intercept: bool, xp: Any) -> Array:
    """A block of rows in float64, with a last column of ones where there is an intercept."""
    block = as_real(block, xp)
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

    @property
    def size(self) -> int:
        return int(self.X.shape[1]) + int(self.intercept)

    @property
    def penalty(self) -> Array:
        """Diagonal of the penalty's Hessian, (p,)."""
        n, d = self.X.shape
        values = [n * self.l2] * d + [n * self.intercept_l2] * int(self.intercept)
        return like(values, self.X, namespace(self.X))

    def start(self) -> Array:
        """Zero, with the intercept that has the mean label where the loss knows one."""
        xp = namespace(self.X)
        theta = xp.zeros(self.size, dtype=xp.float64, device=device(self.X))
        if not self.intercept:
            return theta
        weights = xp.ones_like(self.y) if self.weights is None else self.weights
        mean = float(xp.sum(weights * self.y) / xp.sum(weights))
        try:
            level = self.loss.start(mean)
        except ValueError:
            raise NotConvergedError(
                f"The {self.loss.name} loss has no finite minimiser: the mean label is {mean:g}, which no intercept "
                "reaches. Leave out the intercept and pass l2 > 0, or choose another loss."
            ) from None
        return xp.concat([theta[:-1], like([level], self.X, xp)])

    def value(self, theta: Array) -> float:
        def block(X: Array, y: Array, weights: Array | None) -> tuple[Any]:
            xp = namespace(X)
            losses = self.loss.value(with_constant(X, self.intercept, xp) @ theta, y)
            return (xp.sum(losses if weights is None else weights * losses),)

        (total,) = sum_rows(block, self.X, self.y, self.weights)
        return float(total) + self._penalty_value(theta)

    def at(self, theta: Array, curvature: bool) -> _Point:
        xp = namespace(theta)
        value, gradient, terms, size, misclassified, *hessian = sum_rows(
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
            size=float(size) + 2.0 * self._penalty_value(theta),
            misclassified=int(misclassified),
            hessian=H,
        )

    def _penalty_value(self, theta: Array) -> float:
        return 0.5 * float(namespace(theta).sum(self.penalty * theta * theta))

    def _terms(self, theta: Array, curvature: bool) -> Callable[..., tuple[Any, ...]]:
        loss, binary = self.loss, self.loss.labels.binary

        def block(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
            xp = namespace(X)
            rows = with_constant(X, self.intercept, xp)
            z = rows @ theta
            omega = xp.ones_like(z) if weights is None else weights
            plain = loss.r(z, y)
            r = omega * plain
            a = omega * loss.a(z, y)
            at_zero = omega * loss.r(xp.zeros_like(z), y)
            wrong = (omega > 0) & ((2.0 * y - 1.0) * z <= 0) if binary else omega > 0
            terms = (
                xp.sum(omega * loss.value(z, y)),
                rows.T @ r,
                xp.abs(rows).T @ (xp.abs(r) + xp.abs(at_zero)),
                xp.sum(r * plain + a * z * z),
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
    quadratic = risk.loss.quadratic
    at = risk.at(theta, curvature=True)
    assert at.hessian is not None
    factor = factorise(at.hessian, risk.names)
    step = -factor.solve(at.gradient)
    for count in range(MOST_STEPS):
        if at.relative <= FINEST and _is_small(step, theta, factor):
            return theta, at, factor, count
        moved, there = _descend(risk, theta, at, step)
        _refuse_separable(risk, there)
        if at.relative <= GOAL and not there.relative < 0.25 * at.relative and _is_small(step, theta, factor):
            return theta, at, factor, count
        theta, at = moved, there
        if not quadratic:
            assert at.hessian is not None
            factor = _refactorise(at.hessian, risk, at)
        step = -factor.solve(at.gradient)
    raise _not_converged(risk, at)


def _is_small(step: Array, theta: Array, factor: Factor) -> bool:
    """Newton step beside the parameters, both in units of the curvature."""
    xp = namespace(step)
    size = xp.max(xp.abs(theta / factor.scale))
    return bool(xp.max(xp.abs(step / factor.scale)) <= SMALL_STEP * size + 1e-300) or float(size) == 0.0


def _descend(risk: Risk, theta: Array, at: _Point, step: Array) -> tuple[Array, _Point]:
    """The full Newton step, shortened until the risk falls; rounding in the risk is forgiven."""
    xp = namespace(theta)
    curvature = not risk.loss.quadratic
    slope = float(xp.sum(at.gradient * step))
    slack = 1e-13 * abs(at.value)
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
    raise _not_converged(risk, at)


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
    causes = "the minimiser may lie at infinity (classes separable but for ties, or a group whose labels are all zero)"
    remedy = "Pass l2 > 0." if risk.l2 == 0 else "Pass a larger l2, or rescale the columns."
    return NotConvergedError(
        f"The {risk.loss.name} fit did not converge (relative gradient {at.relative:.1e}, wanted {GOAL:.0e}): "
        f"{causes}. {remedy}"
    )
