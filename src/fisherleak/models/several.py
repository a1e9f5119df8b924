"""What fitted scikit-learn models of several outputs hold: classes as codes, a row of parameters for each output."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import as_array, host, namespace
from fisherleak._support.namespaces import Estimator
from fisherleak.engine.fit.class_labels import codes_of
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.models.each_class import is_each_class
from fisherleak.rows import map_rows

__all__ = [
    "all_parameters",
    "class_numbers",
    "known_classes",
    "one_against_rest",
    "outputs_of",
    "several_numbers",
]

Vector = NDArray[np.float64]


def known_classes(estimator: Estimator) -> NDArray[Any]:
    """The model's classes, on the host; more than one."""
    given = estimator.classes_
    elsewhere = not isinstance(given, (np.ndarray, list, tuple)) and hasattr(given, "shape")
    classes = np.asarray(host(as_array(given, "classes_")) if elsewhere else given)
    if classes.shape == (1,):
        raise InvalidInputError(
            f"y has one class only ({classes[0]}); {type(estimator).__name__} needs rows of both classes."
        )
    if classes.ndim != 1:
        raise UnsupportedModelError(
            f"{type(estimator).__name__} with several labels for each row is not supported: fit one model for each."
        )
    return classes


def class_numbers(estimator: Estimator, y: Any) -> Any:
    """Codes 0 to K - 1 of labels, (n,), where they are."""
    if y.ndim != 1:
        raise InvalidInputError(f"y must have one dimension; got shape {tuple(y.shape)}. Use y.ravel().")
    return codes_of(y, known_classes(estimator), y)


def several_numbers(y: Any, estimator: Estimator) -> Any:
    """Numbers of shape (n, K), in float64."""
    if isinstance(y, np.ndarray):
        try:
            return y.astype(np.float64)
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"y must hold numbers for {type(estimator).__name__}; got dtype {y.dtype}. Encode it, or fit a classifier."
            ) from None
    return map_rows(lambda y: namespace(y).astype(y, namespace(y).float64), y, width=int(y.shape[1]))


def one_against_rest(estimator: Estimator) -> bool:
    """Whether a model of three classes or more is one model for each class; with class weights, a refusal."""
    if is_each_class(estimator):
        return True
    if estimator.solver != "liblinear" and getattr(estimator, "multi_class", None) != "ovr":
        return False
    if estimator.class_weight is not None:
        raise UnsupportedModelError(
            f"{type(estimator).__name__}(class_weight={estimator.class_weight!r}) with each class fitted against the rest is "
            "not supported: use a solver that fits all classes at once, or pass sample_weight."
        )
    return True


def outputs_of(estimator: Estimator) -> int:
    """How many rows of parameters a fitted model has."""
    shape = tuple(estimator.coef_.shape)
    return int(shape[0]) if len(shape) == 2 else 1


def all_parameters(estimator: Estimator) -> Vector:
    """Coefficients, output by output, then the intercepts if the model has them: (K d + K,)."""
    coef = host(as_array(estimator.coef_, "coef_")).astype(np.float64).reshape(-1)
    if not estimator.fit_intercept:
        return coef
    return np.append(coef, host(as_array(estimator.intercept_, "intercept_")).astype(np.float64).reshape(-1))
