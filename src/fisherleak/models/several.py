r"""What fitted scikit-learn models of several outputs hold: classes as codes, a row of parameters for each output.

Also here: one binary model for each class, fitted and released together: scikit-learn's ``OneVsRestClassifier``.

Of K classes, model k minimises :math:`\sum_i \omega_i \ell(w_k . x_i + b_k, [y_i = k]) + n\lambda |w_k|^2 / 2`. All of them
together are the minimiser of the sum, with a row of parameters for each class, (K, d), and the label as one-hot vector. Of two
classes there is one model, that of the second.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import linear_model
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import LabelBinarizer

from fisherleak._support.arrays import as_array, host, namespace
from fisherleak._support.namespaces import Estimator, Vector
from fisherleak.engine.fit.training_data import codes_of
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.rows import map_rows

BINARY = (linear_model.LogisticRegression, linear_model.RidgeClassifier)
"""Models that are read inside a ``OneVsRestClassifier``."""
DECISIVE = (
    "C",
    "alpha",
    "penalty",
    "l1_ratio",
    "fit_intercept",
    "intercept_scaling",
    "solver",
    "class_weight",
    "positive",
)
"""Parameters that say what is minimised."""


def is_each_class(estimator: Estimator) -> bool:
    """Whether an estimator is one binary model for each class."""
    return type(estimator) is OneVsRestClassifier


def check_each_class(estimator: Estimator) -> None:
    """Refuse what is inside a ``OneVsRestClassifier`` and not read there, by name and with the remedy."""
    inner = estimator.estimator
    name = type(inner).__name__
    if isinstance(inner, Pipeline):
        last = type(inner.steps[-1][1]).__name__
        raise UnsupportedModelError(
            "A Pipeline inside OneVsRestClassifier is not supported: it learns its steps once for each class. Put the steps "
            f"before, as in make_pipeline(…, OneVsRestClassifier({last}(…)))."
        )
    if type(inner) not in BINARY:
        known = " and ".join(kind.__name__ for kind in BINARY)
        raise UnsupportedModelError(
            f"{name} inside OneVsRestClassifier is not supported: {known} are. A model that tunes itself would choose other "
            "parameters for each class: fit it with the same for all."
        )
    if inner.class_weight is not None:
        raise UnsupportedModelError(
            f"{name}(class_weight={inner.class_weight!r}) inside OneVsRestClassifier is not supported: a row then has another "
            "weight in the model of each class. Use a solver that fits all classes at once, or leave class_weight out."
        )


def as_one(estimator: Estimator) -> Any:
    """A fitted ``OneVsRestClassifier`` with the attributes of one linear model; anything else as it is.

    The copy has ``coef_`` (K, d), ``intercept_`` (K,), the most steps any of its models took, and the parameters that all of
    them were made with.
    """
    if not is_each_class(estimator) or not hasattr(estimator, "estimators_"):
        return estimator
    check_each_class(estimator)
    if estimator.multilabel_:
        raise UnsupportedModelError(
            "OneVsRestClassifier with several labels for each row is not supported: fit one model for each."
        )
    parts = list(estimator.estimators_)
    made = copy.copy(estimator)
    given = estimator.estimator.get_params(deep=False)
    for part, label in zip(parts, _modelled(estimator), strict=True):
        _check_part(part, label, given)
    for name, value in given.items():
        setattr(made, name, value)
    made.coef_ = np.vstack([np.reshape(part.coef_, (1, -1)) for part in parts])
    made.intercept_ = np.concatenate([np.ravel(part.intercept_) for part in parts])
    steps = [np.max(part.n_iter_) for part in parts if getattr(part, "n_iter_", None) is not None]
    if steps:
        made.n_iter_ = np.array([max(steps)])
    return made


def _modelled(estimator: Estimator) -> list[Any]:
    """The class that each of its models tells from the rest."""
    labels: list[Any] = np.asarray(estimator.classes_).tolist()
    return labels if len(labels) > 2 else labels[-1:]


def _check_part(part: Estimator, label: Any, given: dict[str, Any]) -> None:
    if type(part) not in BINARY:
        raise InvalidInputError(
            f"OneVsRestClassifier has no fitted model for class {label!r}: all rows of the fit were of that class, or none "
            "was. Fit it on rows of that class and of others."
        )
    for name in [name for name in DECISIVE if getattr(part, name, None) != given.get(name)]:
        raise UnsupportedModelError(
            f"OneVsRestClassifier has a model with {name}={getattr(part, name, None)!r} for class {label!r}, and was made with "
            f"{given.get(name)!r}: fit all of them with the same."
        )


def parts_of(estimator: Estimator, theta: NDArray[np.float64]) -> list[tuple[Any, NDArray[np.float64]]]:
    """The model of each class with its own of all parameters, which are coefficients, class by class, then intercepts."""
    parts = list(estimator.estimators_)
    K, d = len(parts), int(np.size(parts[0].coef_))
    coef, level = theta[: K * d].reshape(K, d), theta[K * d :]
    return [(part, np.append(coef[k], level[k : k + 1])) for k, part in enumerate(parts)]


def put_parameters(model: Estimator, theta: NDArray[np.float64]) -> None:
    """Write parameters into a fitted model, or into the one at the end of a pipeline: coefficients, then intercepts."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    for part, own in parts_of(last, theta) if is_each_class(last) else [(last, theta)]:
        size = int(np.size(part.coef_))
        part.coef_ = own[:size].reshape(np.shape(part.coef_))
        if part.fit_intercept:
            part.intercept_ = own[size:].reshape(np.shape(part.intercept_))


def binarizer_of(classes: NDArray[Any]) -> LabelBinarizer:
    """What such a classifier needs to know of its classes, from their names alone."""
    return LabelBinarizer(sparse_output=True).fit(classes)


def known_classes(estimator: Estimator) -> NDArray[Any]:
    """The model's classes, on the host; more than one."""
    given = estimator.classes_
    elsewhere = not isinstance(given, (np.ndarray, list, tuple)) and hasattr(given, "shape")
    classes = np.asarray(host(as_array(given, "classes_")) if elsewhere else given)
    if classes.shape == (1,):
        raise InvalidInputError(
            f"y has one class only ({classes[0]}); {type(estimator).__name__} needs rows of both classes."
        )
    return classes


def class_numbers(estimator: Estimator, y: Any) -> Any:
    """Codes 0 to K - 1 of labels, (n,), where they are."""
    if y.ndim == 2 and y.shape[1] > 1:
        raise UnsupportedModelError(
            f"{type(estimator).__name__} with several labels for each row is not supported: fit one model for each."
        )
    return codes_of(y, known_classes(estimator), y)


def label_numbers(y: Any, estimator: Estimator) -> Any:
    """Numbers of shape (n,) or (n, K), in float64, where they are."""
    if isinstance(y, np.ndarray):
        try:
            return y.astype(np.float64)
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"y must hold numbers for {type(estimator).__name__}; got dtype {y.dtype}. Encode it, or fit a classifier."
            ) from None
    return map_rows(
        lambda y: namespace(y).astype(y, namespace(y).float64), y, width=int(y.shape[1]) if y.ndim == 2 else None
    )


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
