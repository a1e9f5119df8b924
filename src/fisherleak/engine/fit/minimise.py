r"""The minimiser of the regularised empirical risk of one output or of several, to rounding (paper, equation 10).

.. math::

    W^* = \arg\min_W \sum_i \omega_i\, \ell(W x_i + b, y_i) + \frac{n\lambda}{2} |W|^2

A sum, not a mean; the intercepts b are not penalised. Newton's method in the loss's frame, which is one step (and its
refinement) for the squared loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, device, host, like, namespace
from fisherleak._support.checks import check_positive, column_names
from fisherleak._support.notebook import panel
from fisherleak._support.pickles import Pickled
from fisherleak.engine.fit.factored_hessian import Factor, factorise, gram, warn_if_near_singular
from fisherleak.engine.fit.newton import newton, refuse_separated_rows, started
from fisherleak.engine.fit.risk import PerRow, Point, Risk, with_constant
from fisherleak.engine.fit.training_data import TrainingData, training_data
from fisherleak.engine.losses import LOSSES, Loss, check_quadratic, get_loss
from fisherleak.engine.losses.loss import ReducedLoss, reduced_loss
from fisherleak.engine.losses.multi_output import is_squared_numbers
from fisherleak.engine.magnitudes import check_penalty
from fisherleak.errors import NotAtMinimumError, SingularHessianError
from fisherleak.rows import sum_rows

if TYPE_CHECKING:
    from typing_extensions import TypeIs


@dataclass(frozen=True)
class Fit(Pickled):
    r"""A minimiser with what the Jacobian needs.

    Attributes
    ----------
    coef : array of shape (d,)
        Coefficients, in the array library of X. (K, d) for several outputs: a row for each class, in the order of
        ``classes``, or for each number of y.
    intercept : float or None
        None where the model has none; an array of shape (K,) for several outputs.
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
        The intercept for such rows; (K,) for several outputs.
    scales : array of shape (d,) or None
        What coefficients are multiplied by in the penalty: the scales of columns where scaling is folded in.
    left : float or None
        Distance from the minimum of a fit that was moved there; None where ``distance`` says it.
    classes : array of shape (K,) or None
        The classes of a model of several, sorted; None for numbers, and for one output.
    per_row : bool or "weight"
        Whether the penalty leaves with rows, (n - k) l2 without k of them, as where a table is trained without them. "weight":
        by their part of all weights, as scikit-learn's PoissonRegressor states it. If not, n l2 stays the same number, as
        Ridge and LogisticRegression state it.
    """

    coef: Array
    intercept: Any
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
    level: Any = field(default=None, repr=False)
    scales: Array | None = field(default=None, repr=False)
    left: float | None = field(default=None, repr=False)
    classes: NDArray[Any] | None = None
    per_row: PerRow = field(default=False, repr=False)

    def _repr_html_(self) -> str:
        levels = [] if self.intercept is None else host(self._each(self.intercept)).tolist()
        pairs: list[tuple[str, object]] = [
            ("fitted on", f"{self.n:,} rows, {int(self.coef.shape[-1]):,} columns"),
            ("intercept", ", ".join(f"{b:.4g}" for b in levels) or "none"),
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
    def outputs(self) -> int:
        """K."""
        return int(self.coef.shape[0]) if self.loss.several else 1

    @cached_property
    def reduced_loss(self) -> ReducedLoss:
        """The loss in its frame."""
        return reduced_loss(self.loss, self.outputs, self.coef)

    @property
    def frame(self) -> Array | None:
        """Q, (K, L): of several outputs, an orthonormal basis of the differences that the loss depends on; None for one."""
        return self.reduced_loss.frame

    @property
    def theta(self) -> Array:
        """All released parameters: the coefficients, output by output, then the intercepts if there are any: (K d + K,)."""
        xp = namespace(self.coef)
        flat = xp.reshape(self.coef, (-1,))
        return flat if self.intercept is None else xp.concat([flat, self._each(self.intercept)])

    @cached_property
    def centred_theta(self) -> Array:
        """The same parameters in the frame and for rows less ``centre``, (L p,): the last of each output is the level there."""
        xp = namespace(self.coef)
        whole = self.coef if self.loss.several else self.coef[None, :]
        if self.level is not None:
            whole = xp.concat([whole, self._each(self.level)[:, None]], axis=1)
        return xp.reshape(whole if self.frame is None else self.frame.T @ whole, (-1,))

    def _each(self, levels: Any) -> Array:
        """A number for each output, (K,)."""
        return levels if self.loss.several else like([levels], self.coef, namespace(self.coef))

    def uncentred(self, matrix: Array) -> Array:
        """Rows for ``centred_theta`` (L p, k) turned into rows for the released ones: b = level - coef . centre."""
        if self.frame is None and self.centre is None:
            return matrix
        xp = namespace(matrix)
        d, k, L = int(self.coef.shape[-1]), int(matrix.shape[1]), self.reduced_loss.outputs
        p = int(matrix.shape[0]) // L
        if self.frame is not None:
            matrix = self.frame @ xp.reshape(matrix, (L, p * k))
        whole = xp.reshape(matrix, (self.outputs, p, k))
        flat = xp.reshape(whole[:, :d, :], (self.outputs * d, k))
        if self.intercept is None:
            return flat
        last = whole[:, d, :]
        if self.centre is not None:
            last = last - (self.centre[None, :] @ whole[:, :d, :])[:, 0, :]
        return xp.concat([flat, last], axis=0)

    @property
    def uncentring(self) -> Array:
        """The matrix that ``uncentred`` multiplies by, (K p, L p)."""
        theta = self.centred_theta
        xp, size = namespace(theta), int(theta.shape[0])
        found = xp.eye(size, dtype=theta.dtype, device=device(theta))
        if self.frame is not None or self.intercept is None or self.centre is None or self.loss.several:
            return self.uncentred(found)
        found[-1, :-1] = -self.centre  # in place: it may be as large as the Hessian of many columns
        return found


def is_fit(model: object) -> TypeIs[Fit]:
    """Whether a model is a fit of this package, and no estimator of scikit-learn."""
    return isinstance(model, Fit)


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
    record = get_loss(loss, columns=_has_columns(y))
    data = training_data(X, y, sample_weight, record, column_names(X), bool(intercept))
    return minimised_on(data, record, check_positive(l2, "l2", zero=True), bool(intercept))


def _has_columns(y: Any) -> bool:
    """Whether y has several columns."""
    if isinstance(y, (list, tuple)):
        return len(y) > 0 and isinstance(y[0], (list, tuple, np.ndarray)) and len(y[0]) > 1
    shape: Any = getattr(y, "shape", ())
    return len(shape) == 2 and shape[1] != 1


def minimised_on(
    data: TrainingData, loss: Loss, l2: float, intercept: bool, scales: Any = None, intercept_l2: float = 0.0
) -> Fit:
    r"""The minimum on training data, where they determine it.

    With scales s (d,) that are folded in, the penalty is :math:`n\lambda \sum_k \sum_j s_j^2 w_{kj}^2 / 2`. Intercepts are free
    unless they have a penalty of their own.
    """
    check_penalty(l2)
    own = None if scales is None else like(scales, data.X, data.xp)
    risk = Risk.on(data, loss, l2, intercept, intercept_l2, scales=own)
    check_quadratic(loss, risk.outputs, data.X)
    check_determined(risk)
    return minimised(risk)


def minimised(risk: Risk) -> Fit:
    """The minimum of a risk."""
    return _fit(risk, *newton(risk, *started(risk)))


def fit_at(risk: Risk, theta: Array, polish: bool) -> Fit:
    """A fit with given parameters as they are released, and its distance from the minimum; moved there if ``polish``."""
    theta = risk.centred(theta)
    at = risk.at(theta, curvature=True)
    refuse_separated_rows(risk, at)
    factor = _factor_or_reason(risk, at)
    given = _fit(risk, theta, at, factor, 0)
    return moved_to_minimum(risk, given, at) if polish else given


def moved_to_minimum(risk: Risk, given: Fit, at: Point | None = None) -> Fit:
    """The minimum that a fit is near: it keeps the distance that was bridged, and has what is left beside it."""
    theta = given.centred_theta
    exact = _fit(risk, *newton(risk, theta, risk.at(theta, curvature=False) if at is None else at, given.factor))
    return replace(exact, distance=given.distance, left=exact.distance)


def _factor_or_reason(risk: Risk, at: Point) -> Factor:
    """The factor at given parameters; where there is none, why not: parameters that ran away make any Hessian singular."""
    try:
        return risk.factor(at)
    except SingularHessianError:
        if risk.loss.quadratic:
            raise
    start = risk.start()
    there = risk.at(start, curvature=True)
    newton(risk, start, there, risk.factor(there))
    raise NotAtMinimumError(
        "The Hessian is singular at the model's parameters though not at the minimum on this X, y and sample_weight. Pass "
        "the rows, labels and weights it was fitted with."
    )


def risk_of_fit(fit: Fit, X: Array, y: Array) -> Risk:
    """The risk that a fit is the minimum of, for rows as they are centred; y as the loss takes it."""
    names = tuple(f"feature {j}" for j in range(X.shape[1]))
    data = TrainingData(X, y, fit.sample_weight, names, fit.classes)
    own = (fit.loss, fit.l2, fit.intercept is not None, fit.intercept_l2)
    return Risk.on(data, *own, fit.centre, fit.scales, fit.per_row)


def distance(fit: Fit, X: Array, y: Array) -> float:
    """Distance of a fit from the minimum on these data: see :class:`Fit`."""
    return risk_of_fit(fit, X, y).at(fit.centred_theta, curvature=False).distance(fit.factor)


def _fit(risk: Risk, theta: Array, at: Point, factor: Factor, steps: int) -> Fit:
    warn_if_near_singular(factor)
    d = int(risk.X.shape[1])
    whole = risk.xp.reshape(theta, (-1, risk.width))
    frame = risk.reduced_loss.frame
    whole = whole if frame is None else frame @ whole
    coef, level = whole[:, :d], whole[:, d] if risk.intercept else None
    intercept = level if level is None or risk.centre is None else level - coef @ risk.centre
    if not risk.loss.several:
        coef, level, intercept = coef[0, :], *(None if b is None else float(b[0]) for b in (level, intercept))
    return Fit(
        coef=coef,
        intercept=intercept,
        loss=risk.loss,
        l2=risk.l2,
        n=int(risk.X.shape[0]),
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
        classes=risk.classes,
        per_row=risk.per_row,
    )


def one_by_one(fit: Fit) -> tuple[Fit, ...]:
    """A model of several numbers as one model of each: the squared loss ties nothing between them."""
    assert is_squared_numbers(fit.loss)
    p = int(fit.centred_theta.shape[0]) // fit.outputs
    found = []
    for k in range(fit.outputs):
        own = slice(k * p, (k + 1) * p)
        one = replace(
            fit,
            coef=fit.coef[k, :],
            intercept=None if fit.intercept is None else float(fit.intercept[k]),
            loss=LOSSES["squared"],
            factor=Factor(fit.factor.scale[own], fit.factor.core[own, own], fit.factor.condition),
            objective=float("nan"),
            level=None if fit.level is None else float(fit.level[k]),
            classes=None,
        )
        found.append(one)
    return tuple(found)


def check_determined(risk: Risk) -> None:
    """Refuse what no number of steps determines without a penalty: more parameters than rows, columns that are collinear."""
    if risk.l2 > 0:
        return
    counted, several, xp = int(risk.X.shape[0]), risk.loss.several, risk.xp
    if risk.weights is not None:
        (total,) = sum_rows(lambda weights: (xp.sum(xp.astype(weights > 0, xp.int64)),), risk.weights)
        counted = int(total)
    if risk.width > counted:
        raise SingularHessianError(
            f"There are more parameters {'for each output ' * several}({risk.width}) than rows with a weight above zero "
            f"({counted}), so the minimiser is not unique. Add an l2 penalty, or use fewer columns."
        )
    if not several:
        return
    intercept, centre = risk.intercept, risk.centre

    def block(X: Array, weights: Array | None) -> tuple[Any]:
        x = with_constant(X, intercept, centre)
        return (gram(x, xp.ones_like(x[:, 0]) if weights is None else weights, xp),)

    (G,) = sum_rows(block, risk.X, risk.weights)
    # names the columns once: the whole Hessian has each of them in every output
    factorise(G, risk.parameter_names[: risk.width])
