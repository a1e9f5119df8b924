"""Whether a fitted model is at the minimum of its objective on the data given, or can have stopped on its way there.

Mathematics: 1.6, ``docs/mathematics/fits.md``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import linear_model

from fisherleak._support.arrays import Array, as_real, host, namespace
from fisherleak._support.namespaces import Estimator
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.fit.risk import Risk
from fisherleak.errors import NotAtMinimumError
from fisherleak.models.several import is_each_class
from fisherleak.rows import sum_rows

LOOSE = 1e-3
"""Distance from the minimum past which a solver that did not keep its promise is not excused by rounding."""
REFUSED = 1e-2
"""Distance past which a model that was fitted by an iterative solver has to prove that the data are its own."""
DIRECT = 1e-6
"""Distance past which a model that was fitted by a direct solver in double precision is refused."""
SLACK = 1.05
"""Factor on a promised gradient for the rounding of another sum."""
TELLING = 3.0
"""A promise proves something if the gradient of another sample would be this many times larger."""


def solves_directly(estimator: Estimator) -> bool:
    """Whether the model's solver is exact to rounding, so that any distance from the minimum is a mistake in the data."""
    estimator = estimator.estimator if is_each_class(estimator) else estimator
    if isinstance(estimator, (linear_model.LinearRegression, linear_model.RidgeCV, linear_model.RidgeClassifierCV)):
        return True
    return isinstance(estimator, (linear_model.Ridge, linear_model.RidgeClassifier)) and estimator.solver in (
        "auto",
        "cholesky",
        "svd",
    )


def promised_gradient(estimator: Estimator) -> float | None:
    """Largest component of the mean gradient at which the model's solver stops; None for solvers that stop otherwise."""
    estimator = estimator.estimator if is_each_class(estimator) else estimator
    iterative = (
        linear_model.LogisticRegression,
        linear_model.LogisticRegressionCV,
        linear_model.PoissonRegressor,
        linear_model.GammaRegressor,
        linear_model.TweedieRegressor,
    )
    if isinstance(estimator, iterative) and estimator.solver in ("lbfgs", "newton-cg", "newton-cholesky"):
        return float(estimator.tol)
    return None


def check_at_minimum(estimator: Estimator, risk: Risk, fit: Fit, as_given: bool) -> None:
    """Refuse a model that cannot have been fitted on these data, or that stopped too far from its minimum to tell.

    ``as_given`` says that the parameters are measured as they are: then no promise excuses a distance.
    """
    if solves_directly(estimator):
        limit = DIRECT if host(estimator.coef_).dtype == np.float64 else LOOSE
        if not fit.distance <= limit:
            raise NotAtMinimumError(_away(estimator, fit.distance))
        return
    promise = promised_gradient(estimator)
    if promise is None:
        if not fit.distance <= REFUSED:
            raise NotAtMinimumError(_away(estimator, fit.distance))
        return
    found = _mean_gradient(risk, fit)
    kept = found <= SLACK * promise
    broken = not kept and fit.distance > LOOSE and not _stopped_short(estimator)
    excused = kept and not as_given and _is_telling(risk, fit, promise)
    if broken or not (fit.distance <= REFUSED or excused):
        raise NotAtMinimumError(_away(estimator, fit.distance, None if kept else found))


def _mean_gradient(risk: Risk, fit: Fit) -> float:
    """Largest component of the mean gradient by the parameters that the solver knows: those for rows as they are."""
    xp = namespace(risk.X)
    gradient = risk.as_released(risk.at(fit.centred_theta, curvature=False).gradient)
    return float(xp.max(xp.abs(gradient))) / _total_weight(risk)


def _total_weight(risk: Risk) -> float:
    if risk.weights is None:
        return float(risk.X.shape[0])
    (total,) = sum_rows(lambda weights: (namespace(weights).sum(weights),), risk.weights)
    return float(total)


def _is_telling(risk: Risk, fit: Fit, promise: float) -> bool:
    """Whether other rows of the same kind would break the promise: their gradient is as large as chance makes it."""
    residuals = risk.residuals(fit.centred_theta)

    def block(X: Array, y: Array, weights: Array | None) -> tuple[Any]:
        return ((as_real(X, namespace(X)) ** 2).T @ residuals(X, y, weights) ** 2,)

    (squares,) = sum_rows(block, risk.X, risk.y, risk.weights)
    by_chance = float(namespace(squares).max(squares)) ** 0.5
    return bool(by_chance >= TELLING * promise * _total_weight(risk))


def _stopped_short(estimator: Estimator) -> bool:
    """Whether the solver ran out of iterations, or (after a search of its own) does not say how many the last fit took."""
    steps, most = getattr(estimator, "n_iter_", None), getattr(estimator, "max_iter", None)
    return steps is None or most is None or np.size(steps) != 1 or bool(np.max(steps) >= most)


def _away(estimator: Estimator, distance: float, gradient: float | None = None) -> str:
    name = type(estimator).__name__
    slope = "" if gradient is None else f"; mean gradient {gradient:.1e}, where it stops below tol={estimator.tol:g}"
    text = f"{name} is not at the minimum of its objective on this X, y and sample_weight (distance {distance:.1e}{slope}). "
    steps, most = getattr(estimator, "n_iter_", None), getattr(estimator, "max_iter", None)
    if steps is not None and most is not None and np.max(steps) >= most:
        return text + f"It stopped at max_iter={most}: allow more iterations, or scale the columns."
    if solves_directly(estimator):
        return text + "Pass the rows, labels and weights it was fitted with."
    return text + "Pass the rows, labels and weights it was fitted with; if they are, fit with a smaller tol."
