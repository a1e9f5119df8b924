r"""Fitted linear models of scikit-learn, translated into the risk of ``engine.fit``.

Ours is :math:`\sum_i \omega_i \ell_i + n\lambda|w|^2/2`; scikit-learn's differ by a factor and by what alpha and C multiply:

=================================  ============================================  =======================
model                              its objective                                 n lambda
=================================  ============================================  =======================
LinearRegression                   sum s (y - z)^2                               0
Ridge, RidgeCV, RidgeClassifier    sum s (y - z)^2 + alpha |w|^2                 alpha
LogisticRegression(CV)             C sum s l + |w|^2 / 2                         1 / C
Poisson-, Gamma-, Tweedie-         sum s l / sum s + alpha |w|^2 / 2             alpha sum s
=================================  ============================================  =======================

The solver "liblinear" penalises the intercept too, by :math:`1/(2C)\,(b / \mathrm{intercept\_scaling})^2`.
Adding a model is adding one function to ``RECIPES``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import linear_model
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight

from fisherleak._support.arrays import device, like, namespace
from fisherleak._support.namespaces import Estimator, Json, Vector, VectorLike
from fisherleak.engine.fit.risk import PerRow
from fisherleak.engine.losses import LOSSES, Loss
from fisherleak.engine.losses.multi_output import CLASS_TARGETS, ONE_AGAINST_REST, SEVERAL_NUMBERS, SOFTMAX
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.models.several import (
    check_each_class,
    class_numbers,
    is_each_class,
    known_classes,
    label_numbers,
    one_against_rest,
)
from fisherleak.rows import map_rows, sum_rows


@dataclass(frozen=True)
class Recipe:
    """What a model minimises, in the terms of ``engine.fit``."""

    loss: Loss
    l2: float
    y: Vector
    weights: Vector | None
    intercept: bool
    intercept_l2: float = 0.0
    classes: NDArray[Any] | None = None
    """Of a model of three classes or more, whose y are codes."""
    per_row: PerRow = False
    """As a fit has it: False where what alpha or C multiplies stays without a row."""


def recipe_of(estimator: Estimator, y: NDArray[Any], weights: Vector | None) -> Recipe:
    """The recipe of a fitted estimator for these labels and weights, or a refusal by class name."""
    check_supported(estimator)
    return RECIPES[type(estimator)](estimator, y, weights)


def check_supported(estimator: Estimator) -> None:
    """Refuse a model that is in no list, by class name and reason."""
    if type(estimator) not in RECIPES:
        raise UnsupportedModelError(f"{type(estimator).__name__} is not supported: {_reason(estimator)}")
    if is_each_class(estimator):
        check_each_class(estimator)


def set_parameters(estimator: Estimator, theta: Vector, shaped_as: Estimator = None) -> None:
    """Put coefficients (and intercept) into a linear model, in the shapes and the array library of a fitted one.

    ``shaped_as`` is that one; the model itself if not given.
    """
    fitted = estimator if shaped_as is None else shaped_as
    coef = fitted.coef_
    count = math.prod(coef.shape)
    levels = theta[count:] if fitted.fit_intercept else np.zeros(1)
    values = theta[:count].reshape(tuple(coef.shape))
    if not isinstance(coef, np.ndarray):
        # fitted with array_api_dispatch: the parameters stay arrays of the library of its data
        xp = namespace(coef)
        estimator.coef_ = xp.astype(like(values, coef, xp), coef.dtype)
        shape = tuple(getattr(fitted.intercept_, "shape", ()))
        estimator.intercept_ = xp.astype(like(np.broadcast_to(levels, shape or (1,)).copy(), coef, xp), coef.dtype)
        estimator.intercept_ = xp.reshape(estimator.intercept_, shape)
        return
    estimator.coef_ = np.array(values)
    shape = np.shape(fitted.intercept_)
    estimator.intercept_ = np.broadcast_to(levels, shape).copy() if shape else float(levels[0])


def _number(y: NDArray[Any], estimator: Estimator) -> Vector:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise UnsupportedModelError(f"{type(estimator).__name__} with several outputs is not supported: fit one each.")
    numbers: Vector = label_numbers(y, estimator)
    return numbers


def _class_one(y: NDArray[Any], estimator: Estimator) -> Vector:
    """1 for the second of the model's two classes, 0 for the first."""
    classes = known_classes(estimator)
    if y.ndim != 1:
        raise InvalidInputError(f"y must have one dimension; got shape {y.shape}. Use y.ravel().")
    if not isinstance(y, np.ndarray):
        return _class_one_in_place(y, *classes.tolist())
    known = np.isin(y, classes)
    if not known.all():
        row = int(np.argmin(known))
        raise InvalidInputError(
            f"y has a value in row {row} that is none of the model's classes {classes.tolist()}: pass the y it was fitted on."
        )
    return np.asarray(y == classes[1], dtype=np.float64)


def _class_one_in_place(y: VectorLike, first: Any, second: Any) -> Any:
    """The same where the labels are: on a device, or lazy."""

    def unknown(y: VectorLike) -> tuple[Any]:
        xp = namespace(y)
        return (xp.sum(xp.astype((y != first) & (y != second), xp.int64)),)

    (count,) = sum_rows(unknown, y)
    if int(count):
        raise InvalidInputError(f"y is none of the model's classes {[first, second]} in {int(count)} rows.")
    return map_rows(lambda y: namespace(y).astype(y == second, namespace(y).float64), y)


def _by_class(estimator: Estimator, y: VectorLike) -> Any:
    """Class weights of rows that are not NumPy's: those of a mapping."""
    if not isinstance(estimator.class_weight, Mapping):
        raise UnsupportedModelError(
            f"{type(estimator).__name__}(class_weight={estimator.class_weight!r}) is not supported on {type(y).__name__} "
            "labels: pass class_weight as a dict."
        )
    given = estimator.class_weight

    def factors(y: VectorLike) -> Any:
        xp = namespace(y)
        weights = xp.ones(y.shape[0], dtype=xp.float64, device=device(y))
        for label, weight in given.items():
            weights = xp.where(y == label, float(weight), weights)
        return weights

    return map_rows(factors, y)


def _l2_of(estimator: Estimator, y: NDArray[Any]) -> float:
    """The penalty of a linear model, for each row; zero where it has none."""
    if getattr(estimator, "positive", False):
        raise UnsupportedModelError(
            f"{type(estimator).__name__}(positive=True) is not supported: at a bound the minimiser has no derivative."
        )
    # a model that tunes itself has the alpha that it chose
    alpha = getattr(estimator, "alpha_", getattr(estimator, "alpha", 0.0))
    if np.size(alpha) != 1:
        raise UnsupportedModelError(
            f"{type(estimator).__name__} with an alpha for each output is not supported: fit one model per output."
        )
    return float(float(np.ravel(alpha)[0]) / y.shape[0])


def _linear(estimator: Estimator, y: NDArray[Any], weights: Vector | None) -> Recipe:
    """The squared loss of one number, or of several at once."""
    l2, intercept = _l2_of(estimator, y), bool(estimator.fit_intercept)
    if y.ndim == 2 and y.shape[1] > 1:
        return Recipe(SEVERAL_NUMBERS, l2, label_numbers(y, estimator), weights, intercept)
    return Recipe(LOSSES["squared"], l2, _number(y, estimator), weights, intercept)


def _linear_classifier(estimator: Estimator, y: NDArray[Any], weights: Vector | None) -> Recipe:
    l2, intercept = _l2_of(estimator, y), bool(estimator.fit_intercept)
    classes = known_classes(estimator)
    labels = class_numbers(estimator, y) if classes.shape[0] > 2 else 2.0 * _class_one(y, estimator) - 1.0
    if estimator.class_weight:
        factor = (
            compute_sample_weight(estimator.class_weight, y) if isinstance(y, np.ndarray) else _by_class(estimator, y)
        )
        weights = factor if weights is None else weights * factor
    if classes.shape[0] > 2:
        return Recipe(CLASS_TARGETS, l2, labels, weights, intercept, classes=classes)
    return Recipe(LOSSES["squared"], l2, labels, weights, intercept)


def _logistic(estimator: Estimator, y: NDArray[Any], weights: Vector | None) -> Recipe:
    ratio = getattr(estimator, "l1_ratio", None)
    return _logistic_like(estimator, y, weights, estimator.C, ratio)


def _logistic_cv(estimator: Estimator, y: NDArray[Any], weights: Vector | None) -> Recipe:
    if not estimator.refit:
        raise UnsupportedModelError(
            "LogisticRegressionCV(refit=False) is not supported: an average over folds is no minimiser. Use refit=True."
        )
    if np.unique(np.ravel(estimator.C_)).size > 1:
        raise UnsupportedModelError(
            "LogisticRegressionCV with a C for each class is not supported: fit LogisticRegression with one C for all of them."
        )
    ratio = getattr(estimator, "l1_ratio_", None)
    ratio = None if ratio is None or np.ravel(ratio)[0] is None else float(np.ravel(ratio)[0])
    return _logistic_like(estimator, y, weights, float(np.ravel(estimator.C_)[0]), ratio)


def _logistic_like(estimator: Estimator, y: NDArray[Any], weights: Vector | None, C: float, ratio: Any) -> Recipe:
    name = type(estimator).__name__
    penalty = estimator.penalty
    if penalty == "l1" or (penalty in ("elasticnet", "deprecated") and ratio not in (None, 0, 0.0)):
        raise UnsupportedModelError(
            f"{name} with an l1 penalty is not supported: its minimiser has no derivative where a coefficient is zero. "
            "Use an l2 penalty."
        )
    classes = known_classes(estimator)
    if classes.shape[0] > 2:
        together = not one_against_rest(estimator)
        labels = class_numbers(estimator, y)
    else:
        if getattr(estimator, "multi_class", None) == "multinomial":
            raise UnsupportedModelError(
                f"{name}(multi_class='multinomial') with two classes is not supported: leave multi_class out."
            )
        labels = _class_one(y, estimator)
    if estimator.class_weight is not None:
        factor = _class_factor(estimator, y, weights, labels)
        weights = factor if weights is None else weights * factor
    strength = 0.0 if penalty is None or math.isinf(C) else 1.0 / C
    l2 = strength / y.shape[0]
    intercept = bool(estimator.fit_intercept)
    on_intercept = l2 / estimator.intercept_scaling**2 if intercept and estimator.solver == "liblinear" else 0.0
    if classes.shape[0] > 2:
        loss = SOFTMAX if together else ONE_AGAINST_REST
        return Recipe(loss, l2, labels, weights, intercept, on_intercept, classes)
    return Recipe(LOSSES["logistic"], l2, labels, weights, intercept, on_intercept)


def _class_factor(estimator: Estimator, y: NDArray[Any], weights: Vector | None, codes: Vector) -> Vector:
    """The class weight of each row; scikit-learn 1.7 began to count sample weights in "balanced"."""
    if not isinstance(y, np.ndarray):
        return _by_class(estimator, y)
    options: dict[str, Any] = {}
    if "sample_weight" in inspect.signature(compute_class_weight).parameters:
        options["sample_weight"] = weights
    classes = np.asarray(estimator.classes_)
    by_class = compute_class_weight(estimator.class_weight, classes=classes, y=y, **options)
    return np.asarray(by_class, dtype=np.float64)[codes.astype(np.int64)]


def _each_class(estimator: Estimator, y: NDArray[Any], weights: Vector | None) -> Recipe:
    """That of the model inside, for the parameters of all classes at once."""
    return RECIPES[type(estimator.estimator)](estimator, y, weights)


def _deviance(loss: str) -> Callable[[Any, NDArray[Any], Vector | None], Recipe]:
    def recipe(estimator: Estimator, y: NDArray[Any], weights: Vector | None) -> Recipe:
        labels = _number(y, estimator)
        mean_weight = 1.0
        if weights is not None:
            (total,) = sum_rows(lambda weights: (namespace(weights).sum(weights),), weights)
            mean_weight = float(total) / weights.shape[0]
        l2, intercept = float(estimator.alpha) * mean_weight, bool(estimator.fit_intercept)
        return Recipe(LOSSES[loss], l2, labels, weights, intercept, per_row="weight")

    return recipe


def _tweedie(estimator: Estimator, y: NDArray[Any], weights: Vector | None) -> Recipe:
    link = estimator.link
    if link == "auto":
        link = "identity" if estimator.power <= 0 else "log"
    covered = {(0, "identity"): "squared", (1, "log"): "poisson", (2, "log"): "gamma"}
    if (estimator.power, link) not in covered:
        raise UnsupportedModelError(
            f"TweedieRegressor(power={estimator.power:g}, link={link!r}) is not supported: powers 0 with the identity link, "
            "and 1 and 2 with the log link, are."
        )
    return _deviance(covered[estimator.power, link])(estimator, y, weights)


def frozen(estimator: Estimator) -> Json:
    """The parameters that make a model that tuned itself repeat its choice."""
    if isinstance(estimator, (linear_model.RidgeCV, linear_model.RidgeClassifierCV)):
        return {"alphas": [float(np.ravel(estimator.alpha_)[0])]}
    if isinstance(estimator, linear_model.LogisticRegressionCV):
        return {"Cs": [float(np.ravel(estimator.C_)[0])]}
    return {}


RECIPES: dict[type, Callable[[Any, NDArray[Any], Vector | None], Recipe]] = {
    linear_model.LinearRegression: _linear,
    linear_model.Ridge: _linear,
    linear_model.RidgeCV: _linear,
    linear_model.RidgeClassifier: _linear_classifier,
    linear_model.RidgeClassifierCV: _linear_classifier,
    linear_model.LogisticRegression: _logistic,
    linear_model.LogisticRegressionCV: _logistic_cv,
    linear_model.PoissonRegressor: _deviance("poisson"),
    linear_model.GammaRegressor: _deviance("gamma"),
    linear_model.TweedieRegressor: _tweedie,
    OneVsRestClassifier: _each_class,
}
"""Every model that can be measured, by its class."""

_L1 = "an l1 penalty has no second derivative; use Ridge or an l2 penalty."
_HINGE = "its loss has no second derivative; use LogisticRegression or Ridge."
_STOCHASTIC = "it stops away from the minimum; use the exact model (Ridge, LogisticRegression) instead."
_REASONS = {
    **dict.fromkeys(("Lasso", "LassoCV", "LassoLars", "ElasticNet", "ElasticNetCV", "MultiTaskLasso"), _L1),
    **dict.fromkeys(("LinearSVC", "LinearSVR", "SVC", "SVR", "QuantileRegressor"), _HINGE),
    **dict.fromkeys(("Perceptron", "PassiveAggressiveClassifier", "PassiveAggressiveRegressor"), _STOCHASTIC),
    **dict.fromkeys(("SGDClassifier", "SGDRegressor"), _STOCHASTIC),
    "HuberRegressor": "its loss has no second derivative; use fisherleak.minimise with loss='pseudo_huber'.",
    "TransformedTargetRegressor": "transform y first and fit the regressor inside on it.",
    "IRFIL": "pass its estimator_, with sample_weight=weights_.",
    "PrivateRelease": "it is released already; pass the model without noise.",
    "CalibratedClassifierCV": "it averages several models; measure the classifier inside, fitted on its own.",
}


def _reason(estimator: Estimator) -> str:
    for kind in type(estimator).__mro__:
        if kind.__name__ in _REASONS:
            return _REASONS[kind.__name__]
        if kind in RECIPES:
            return f"it is a subclass of {kind.__name__} that may fit differently; use {kind.__name__} itself."
    names = ", ".join(kind.__name__ for kind in RECIPES)
    return f"the models that are: {names}, alone or at the end of a Pipeline or in a search."


PER_MEAN = (linear_model.PoissonRegressor, linear_model.GammaRegressor, linear_model.TweedieRegressor)
"""Their alpha is for the mean of the rows' losses, that of others for the sum."""


def has_penalty(estimator: Estimator) -> bool:
    """Whether an estimator has a penalty that can be set."""
    own = estimator.get_params(deep=False)
    return "alpha" in own or ("C" in own and own.get("penalty", "l2") is not None)


def set_l2(estimator: Estimator, l2: float, rows: int) -> None:
    """Give an unfitted estimator a penalty of l2 for each of so many rows: a rounded number, as options leave with a model."""
    if "alpha" not in estimator.get_params(deep=False):
        estimator.set_params(C=float(f"{1.0 / (l2 * rows):.6g}"))
    else:
        estimator.set_params(alpha=l2 if isinstance(estimator, PER_MEAN) else float(f"{l2 * rows:.6g}"))
