r"""What one noisy gradient reveals about the rows it was computed from: a client's update in federated learning.

A client with rows of its own and parameters w that came from elsewhere sends :math:`g = \sum_i \omega_i r_i x_i + b`. Row i
moves it by

.. math:: J_i = \omega_i\,[\,a_i x_i w^T E + r_i E,\; c_i x_i\,],

the Jacobian of a release without :math:`H^{-1}` in front, so all else is as for a release. w need not be a minimum of anything.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, device, namespace
from fisherleak._support.namespaces import Estimator, TableLike, VectorLike
from fisherleak.engine.fit.factored_hessian import Factor
from fisherleak.engine.fit.minimise import Fit, is_fit
from fisherleak.engine.fit.risk import Risk
from fisherleak.engine.fit.training_data import training_data
from fisherleak.engine.jacobian import jacobian_of
from fisherleak.engine.jacobian.perturbation import as_attributes
from fisherleak.engine.noise import Noise, check_noise
from fisherleak.engine.norms import information_of
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.leakage.leakage import Leakage
from fisherleak.models import Table, as_table
from fisherleak.models.preprocessed import prepare
from fisherleak.models.read import risk_of

SEVERAL = "Gradients are measured for models of one output, and this one has several: fit one class against the rest."


def gradients(
    model: Estimator,
    X: TableLike,
    y: VectorLike,
    noise: Noise,
    sample_weight: VectorLike = None,
    attributes: Any = None,
) -> Leakage:
    r"""Measure what one noisy gradient of a model's loss reveals about the rows it is computed from.

    Parameters
    ----------
    model : Fit or fitted scikit-learn model
        Its parameters are where the gradient is taken; it may have been fitted on other rows, and need not be at a minimum.
    X : array or table of shape (n, d)
        The client's rows; for a pipeline the raw table.
    y : array of shape (n,)
        Their labels. With a Fit, rows of one class, or a single row, will do.
    noise : Noise
        Added to the *sum* of the rows' gradients by coefficients, then the intercept. Noise of scale s on their mean is noise
        of scale n s here.
    sample_weight : array of shape (n,), optional
        What each row's gradient is multiplied by.
    attributes : optional
        As for :func:`fisherleak.measure`; not for pipelines.

    Returns
    -------
    Leakage
        Of the gradient, with the same methods. ``calibrate`` finds the least noise for it, ``compose`` adds up several.

    Notes
    -----
    **What holds, and when.** Exact. The attacker knows the parameters, the preprocessing, the weights and all other rows. The
    penalty's gradient reveals nothing about rows. Several rounds add up (:func:`fisherleak.compose`), along the path that was
    taken. ``membership`` is that of a row whose gradient is left out of the sum.

    Examples
    --------
    >>> import numpy as np
    >>> import fisherleak as fl
    >>> X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([1.0, 3.0, -1.0])
    >>> fit = fl.minimise(X, y)
    >>> fl.gradients(fit, np.array([[1.5]]), np.array([2.0]), fl.Gaussian(1.0)).per_example().round(3)
    array([2.5])
    """
    check_noise(noise)
    table = as_table(X)
    if is_fit(model):
        if model.loss.several:
            raise UnsupportedModelError(SEVERAL)
        risk, theta = _of_fit(model, X, y, sample_weight, table), model.theta
        records = as_attributes(attributes, risk.X.shape, table.names)
    else:
        prepared = prepare(model, table)
        if prepared.absent or prepared.other_side is not None:
            raise InvalidInputError(
                "Gradients are measured for complete rows and preprocessing without kinks: fill missing values before, or "
                "measure on the features behind the preprocessing."
            )
        risk, theta = risk_of(prepared, y, sample_weight)
        if risk.loss.several:
            raise UnsupportedModelError(SEVERAL)
        records = prepared.attributes
        if attributes is not None:
            raise InvalidInputError("attributes are for a fisherleak.Fit here; a model's are the columns of its table.")
    jacobian = jacobian_of(_at(risk, theta), risk.X, risk.y, noise, records)
    return Leakage(information_of(replace(jacobian, gradient=True)), noise, table)


def _of_fit(fit: Fit, X: TableLike, y: VectorLike, sample_weight: VectorLike, table: Table) -> Risk:
    """The client's rows under the loss of a fit; labels of one class are enough for a gradient."""
    d = fit.coef.shape[0]
    if len(table.names) != d:
        raise InvalidInputError(
            f"X must have the {d} columns that the model has coefficients for; got {len(table.names)}."
        )
    names = table.names if table.is_frame else None
    loss = replace(fit.loss, labels=replace(fit.loss.labels, binary=False))
    data = training_data(X, y, sample_weight, loss, names, fit.intercept is not None)
    return Risk.on(data, fit.loss, fit.l2, fit.intercept is not None, fit.intercept_l2)


def _at(risk: Risk, theta: Array) -> Fit:
    """The parameters as a fit whose Hessian is the identity, so that nothing stands before the gradient."""
    xp = namespace(theta)
    d, p = risk.X.shape[1], theta.shape[0]
    one = xp.ones(p, dtype=xp.float64, device=device(theta))
    last = float(theta[d]) if risk.intercept else None
    return Fit(
        coef=theta[:d],
        intercept=last,
        loss=risk.loss,
        l2=risk.l2,
        n=risk.X.shape[0],
        sample_weight=risk.weights,
        factor=Factor(one, xp.eye(p, dtype=xp.float64, device=device(theta)), 1.0),
        gradient=0.0,
        distance=0.0,
        steps=0,
        objective=float(np.nan),
        intercept_l2=risk.intercept_l2,
        level=last,
    )
