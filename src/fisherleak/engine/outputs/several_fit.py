"""Minimisers of several outputs, to rounding: Newton's method of ``erm`` in the frame of ``outputs``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, like, namespace
from fisherleak._support.checks import check_positive, column_names, default_names
from fisherleak.engine.erm import Fit, counted_rows
from fisherleak.engine.fit.curvature import Factor, factorise, gram, warn_if_near_singular
from fisherleak.engine.fit.newton import newton, started
from fisherleak.engine.fit.risk import Point, Risk, with_constant
from fisherleak.engine.losses import LOSSES, Loss
from fisherleak.engine.losses.multi_output import SOFTMAX
from fisherleak.engine.magnitudes import check_penalty
from fisherleak.engine.outputs.class_labels import check_labels, classes_of, codes_of, number_rows
from fisherleak.engine.training_rows import training_rows
from fisherleak.errors import InvalidInputError, SingularHessianError
from fisherleak.rows import sum_rows

__all__ = [
    "OutputsFit",
    "check_rank",
    "labels_as_fitted",
    "minimise_classes",
    "minimise_several",
    "one_by_one",
    "outputs_fit",
    "outputs_risk",
]


@dataclass(frozen=True)
class OutputsFit(Fit):
    """A minimiser with several outputs.

    Attributes
    ----------
    coef : array of shape (K, d)
        A row for each class, in the order of ``classes``, or for each number of y.
    intercept : array of shape (K,) or None
    classes : array of shape (K,) or None
        The classes, sorted; None for several numbers.
    frame : array of shape (K, L)
        Rows of classes sum to zero; what is left has this orthonormal basis. The identity for numbers.
    reduced : array of shape (L p,)
        Parameters in that frame, for rows less ``centre``; ``factor`` is that of the Hessian by them.
    """

    coef: Array
    intercept: Any
    loss: Any
    level: Any = field(default=None, repr=False)
    classes: NDArray[Any] | None = None
    frame: Array = field(default=None, repr=False)
    reduced: Array = field(default=None, repr=False)

    @property
    def theta(self) -> Array:
        """All released parameters: the coefficients, class by class, then the intercepts: (K d + K,)."""
        xp = namespace(self.coef)
        flat = xp.reshape(self.coef, (-1,))
        return flat if self.intercept is None else xp.concat([flat, self.intercept])

    @property
    def centred_theta(self) -> Array:
        return self.reduced

    def uncentred(self, matrix: Array) -> Array:
        """Rows for the reduced parameters (L p, k) turned into rows for the released ones."""
        xp = namespace(matrix)
        L, d, k = int(self.frame.shape[1]), int(self.coef.shape[1]), int(matrix.shape[1])
        whole = self.frame @ xp.reshape(matrix, (L, -1))
        whole = xp.reshape(whole, (int(self.frame.shape[0]), -1, k))
        coef = whole[:, :d, :]
        flat = xp.reshape(coef, (-1, k))
        if self.intercept is None:
            return flat
        last = whole[:, d, :]
        if self.centre is not None:
            last = last - xp.sum(coef * self.centre[None, :, None], axis=1)
        return xp.concat([flat, last], axis=0)


def minimise_several(X: Any, y: Any, kind: Loss, l2: float, sample_weight: Any, intercept: bool) -> OutputsFit:
    """The minimiser of a loss of classes, or of y (n, K)."""
    names = column_names(X)
    classes: NDArray[Any] | None = None
    if kind.classes:
        X, _, weights = training_rows(X, None, sample_weight, names)
        classes = classes_of(y, X)
        y = codes_of(y, classes, X)
    else:
        X, y, weights = number_rows(X, y, sample_weight, names)
    check_labels(X, y, weights, kind, names, bool(intercept), None if classes is None else classes.tolist())
    l2 = check_positive(l2, "l2", zero=True)
    check_penalty(l2)
    outputs = int(y.shape[1]) if classes is None else int(classes.size)
    names = names or default_names(X.shape[1])
    risk = Risk(X, y, weights, kind, l2, bool(intercept), names=(*names, "intercept"), outputs=outputs)
    check_rank(risk)
    return outputs_fit(risk, *newton(risk, *started(risk)), classes=classes)


def minimise_classes(
    X: Any, codes: Any, classes: Sequence[Any], l2: float, sample_weight: Any, scales: Any, intercept_l2: float = 0.0
) -> OutputsFit:
    r"""The minimiser of the softmax loss of codes (n,), 0 to K - 1, with intercepts and scaling that is folded in.

    Its penalty is :math:`n\lambda \sum_k \sum_j s_j^2 w_{kj}^2 / 2`, s the scales (d,). ``classes`` are what codes stand for.
    Intercepts are free unless they have a penalty of their own.
    """
    names = column_names(X)
    X, codes, weights = training_rows(X, codes, sample_weight, names)
    known: NDArray[Any] = np.empty(len(classes), dtype=object)
    known[:] = classes
    check_labels(X, codes, weights, SOFTMAX, names, True, known.tolist())
    check_penalty(l2)
    own = None if scales is None else like(scales, X, namespace(X))
    names = names or default_names(X.shape[1])
    risk = Risk(
        *(X, codes, weights, SOFTMAX, l2, True, intercept_l2, (*names, "intercept")), scales=own, outputs=len(classes)
    )
    check_rank(risk)
    return outputs_fit(risk, *newton(risk, *started(risk)), classes=known)


def outputs_fit(
    risk: Risk, theta: Array, at: Point, factor: Factor, steps: int, classes: NDArray[Any] | None = None
) -> OutputsFit:
    """The fit with these reduced parameters."""
    warn_if_near_singular(factor)
    xp = namespace(theta)
    d = int(risk.X.shape[1])
    whole = risk.frame @ xp.reshape(theta, (-1, risk.width))
    coef, level = whole[:, :d], whole[:, d] if risk.intercept else None
    intercept = level if level is None or risk.centre is None else level - coef @ risk.centre
    return OutputsFit(
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
        classes=classes,
        frame=risk.frame,
        reduced=theta,
    )


def one_by_one(fit: OutputsFit) -> tuple[Fit, ...]:
    """A model of several numbers as one model of each: the squared loss ties nothing between them."""
    assert fit.loss.quadratic
    p = int(fit.reduced.shape[0]) // int(fit.coef.shape[0])
    found = []
    for k in range(int(fit.coef.shape[0])):
        own = slice(k * p, (k + 1) * p)
        factor = Factor(fit.factor.scale[own], fit.factor.core[own, own], fit.factor.condition)
        one = Fit(
            coef=fit.coef[k, :],
            intercept=None if fit.intercept is None else float(fit.intercept[k]),
            loss=LOSSES["squared"],
            l2=fit.l2,
            n=fit.n,
            sample_weight=fit.sample_weight,
            factor=factor,
            gradient=fit.gradient,
            distance=fit.distance,
            steps=fit.steps,
            objective=float("nan"),
            intercept_l2=fit.intercept_l2,
            centre=fit.centre,
            level=None if fit.level is None else float(fit.level[k]),
            scales=fit.scales,
            left=fit.left,
        )
        found.append(one)
    return tuple(found)


def outputs_risk(fit: OutputsFit, X: Array, y: Array) -> Risk:
    """The risk of a fit on these rows; y as the loss takes it."""
    return Risk(
        X,
        y,
        fit.sample_weight,
        fit.loss,
        fit.l2,
        fit.intercept is not None,
        fit.intercept_l2,
        names=(*(f"feature {j}" for j in range(X.shape[1])), "intercept"),
        known_centre=fit.centre,
        scales=fit.scales,
        outputs=int(fit.coef.shape[0]),
    )


def labels_as_fitted(fit: OutputsFit, X: Any, y: Any, names: Sequence[str] | None) -> tuple[Array, Array]:
    """X (n, d) and y as codes (n,) or numbers (n, K), checked as the fit's own were."""
    if fit.classes is None:
        X, Y, _ = number_rows(X, y, None, names)
        if Y.shape[1] != fit.coef.shape[0]:
            raise InvalidInputError(
                f"The model was fitted on {fit.coef.shape[0]} numbers in y; got {Y.shape[1]}. Pass the training data."
            )
    else:
        X, _, _ = training_rows(X, None, None, names)
        Y = codes_of(y, fit.classes, X)
    return X, Y


def check_rank(risk: Risk) -> None:
    """Refuse what no number of steps determines: columns that are collinear, or more of them than rows, without a penalty."""
    if risk.l2 > 0:
        return
    counted = counted_rows(risk)
    if risk.width > counted:
        raise SingularHessianError(
            f"There are more parameters for each output ({risk.width}) than rows with a weight above zero ({counted}), so the "
            "minimiser is not unique. Add an l2 penalty, or use fewer columns."
        )
    intercept, centre = risk.intercept, risk.centre

    def block(X: Array, weights: Array | None) -> tuple[Any]:
        xp = namespace(X)
        x = with_constant(X, intercept, centre)
        return (gram(x, xp.ones_like(x[:, 0]) if weights is None else weights, xp),)

    (G,) = sum_rows(block, risk.X, risk.weights)
    # names the columns once: the whole Hessian has each of them in every output
    factorise(G, risk.names)
