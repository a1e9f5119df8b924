r"""The minimiser of the regularised empirical risk, to rounding (paper, equation 10).

.. math::

    w^* = \arg\min_w \sum_i \omega_i\, \ell(w \cdot x_i + b, y_i) + \frac{n\lambda}{2} |w|^2

A sum, not a mean; the intercept b is not penalised. Newton's method, which is one step (and its
refinement) for the squared loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, like, namespace
from fisherleak._support.checks import check_positive, column_names, default_names
from fisherleak._support.notebook import panel
from fisherleak.engine.fit.curvature import Factor, warn_if_near_singular
from fisherleak.engine.fit.newton import factor_at, newton, started
from fisherleak.engine.fit.risk import Point, Risk
from fisherleak.engine.fit.separation import refuse_separated_rows
from fisherleak.engine.losses import Loss, get_loss
from fisherleak.engine.magnitudes import check_penalty
from fisherleak.engine.training_rows import check_training
from fisherleak.errors import NotAtMinimumError, SingularHessianError
from fisherleak.rows import sum_rows

__all__ = [
    "Fit",
    "check_rank_possible",
    "counted_rows",
    "distance",
    "fit_at",
    "minimise",
    "minimise_scaled",
]

Maker = Callable[[Any, Array, Point, Factor, int], Any]
"""(risk, parameters, the risk there, the factor there, steps) -> fit."""


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
        :math:`(g^T H^{-1} g / (w^T H w + \sum \omega r^2))^{1/2}`. It says little about the error of single etas: those of
        a rare group can be wrong by orders of magnitude at a small distance. Of a fit that was moved to its minimum, the
        distance that it was moved.
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
    scales : array of shape (d,) or None
        What coefficients are multiplied by in the penalty: the scales of columns where scaling is folded in.
    left : float or None
        Distance from the minimum of a fit that was moved there; None where ``distance`` says it.
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
    scales: Array | None = field(default=None, repr=False)
    left: float | None = field(default=None, repr=False)

    def _repr_html_(self) -> str:
        pairs: list[tuple[str, object]] = [
            ("fitted on", f"{self.n:,} rows, {int(self.coef.shape[0]):,} columns"),
            ("intercept", "none" if self.intercept is None else f"{self.intercept:.4g}"),
            ("l2, per row", f"{self.l2:g}"),
            ("distance from the minimum", f"{self.distance:.1e}, after {self.steps} steps"),
            ("condition number", f"{self.condition:.1e}"),
        ]
        return panel(f"Fit, {self.loss.name}", pairs, "Exact parameters, without noise: not for release.")

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
        For "softmax" the class of each row, whole numbers or text. For "squared" also of shape (n, K): K numbers at once.
    loss : str or Loss
        A name in ``fl.LOSSES`` or a record; or "softmax", for any number of classes.
    l2 : float
        lambda, zero or more. The penalty is n l2 / 2 times the squared norm of the coefficients.
    sample_weight : array of shape (n,), optional
        Zero or more; multiplies each example's loss.
    intercept : bool
        Whether to add a constant, which is not penalised.

    Returns
    -------
    Fit
        With a relative gradient of at most 1e-10. For several outputs ``coef`` is (K, d) and ``intercept`` (K,), rows in the
        order of ``fit.classes``; those of classes sum to zero, as adding the same to all of them changes nothing.

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
    found = get_loss(loss, columns=_has_columns(y))
    if found.several:
        # these build on this module
        from fisherleak.engine.outputs.several_fit import minimise_several

        return minimise_several(X, y, found, l2, sample_weight, intercept)
    return minimise_scaled(X, y, found, l2, sample_weight, intercept, None)


def _has_columns(y: Any) -> bool:
    """Whether y has several columns."""
    if isinstance(y, (list, tuple)):
        return len(y) > 0 and isinstance(y[0], (list, tuple, np.ndarray)) and len(y[0]) > 1
    shape: Any = getattr(y, "shape", ())
    return len(shape) == 2 and shape[1] != 1


def minimise_scaled(
    X: Any, y: Any, loss: str | Loss, l2: float, sample_weight: Any, intercept: bool, scales: Any
) -> Fit:
    r"""The same with :math:`n\lambda \sum_k s_k^2 w_k^2 / 2` as its penalty, s the scales (d,): scaling that is folded in."""
    loss = get_loss(loss)
    names = column_names(X)
    X, y, weights = check_training(X, y, sample_weight, loss, names, bool(intercept))
    l2 = check_positive(l2, "l2", zero=True)
    check_penalty(l2)
    names = (names or default_names(X.shape[1])) + ["intercept"]
    own = None if scales is None else like(scales, X, namespace(X))
    risk = Risk(X, y, weights, loss, l2, bool(intercept), names=tuple(names), scales=own)
    check_rank_possible(risk)
    return _fit(risk, *newton(risk, *started(risk)))


def fit_at(risk: Risk, theta: Array, polish: bool, maker: Maker | None = None) -> Fit:
    """A fit with given parameters and its distance from the minimum; moved there if ``polish``.

    A polished fit keeps the distance that was bridged, and has what is left beside it. ``maker`` makes fits of another kind.
    """
    made = _fit if maker is None else maker
    theta = risk.centred(theta)
    at = risk.at(theta, curvature=True)
    refuse_separated_rows(risk, at)
    factor = _factor_or_reason(risk, at)
    given = made(risk, theta, at, factor, 0)
    if not polish:
        return given
    exact = made(risk, *newton(risk, theta, at, factor))
    return replace(exact, distance=given.distance, left=exact.distance)


def _factor_or_reason(risk: Risk, at: Point) -> Factor:
    """The factor at given parameters; where there is none, why not: parameters that ran away make any Hessian singular."""
    try:
        return factor_at(risk, at)
    except SingularHessianError:
        if risk.loss.quadratic:
            raise
    start = risk.start()
    there = risk.at(start, curvature=True)
    newton(risk, start, there, factor_at(risk, there))
    raise NotAtMinimumError(
        "The Hessian is singular at the model's parameters though not at the minimum on this X, y and sample_weight. Pass "
        "the rows, labels and weights it was fitted with."
    )


def distance(fit: Fit, X: Array, y: Array) -> float:
    """Distance of a fit from the minimum on these data: see :class:`Fit`."""
    intercept = fit.intercept is not None
    risk = Risk(
        X,
        y,
        fit.sample_weight,
        fit.loss,
        fit.l2,
        intercept,
        fit.intercept_l2,
        known_centre=fit.centre,
        scales=fit.scales,
    )
    return risk.at(fit.centred_theta, curvature=False).distance(fit.factor)


def _fit(risk: Risk, theta: Array, at: Point, factor: Factor, steps: int) -> Fit:
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
        scales=risk.scales,
    )


def check_rank_possible(risk: Risk) -> None:
    """Refuse more parameters than rows without a penalty."""
    if risk.l2 > 0:
        return
    counted, p = counted_rows(risk), risk.size
    if p > counted:
        raise SingularHessianError(
            f"There are more parameters ({p}) than rows with a weight above zero ({counted}), so the minimiser is not "
            "unique. Add an l2 penalty, or use fewer columns."
        )


def counted_rows(risk: Risk) -> int:
    """Rows with a weight above zero."""
    if risk.weights is None:
        return int(risk.X.shape[0])
    (total,) = sum_rows(_above_zero, risk.weights)
    return int(total)


def _above_zero(weights: Array) -> tuple[Any]:
    xp = namespace(weights)
    return (xp.sum(xp.astype(weights > 0, xp.int64)),)
