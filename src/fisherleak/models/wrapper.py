"""What the scikit-learn meta-estimators share."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d, has_fit_parameter

from fisherleak._support.namespaces import Estimator, TableLike, VectorLike
from fisherleak._support.pickles import Pickled
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.models import final_estimator
from fisherleak.models.estimators import frozen
from fisherleak.models.several import is_each_class


def fit_weighted(model: Estimator, X: TableLike, y: VectorLike, weights: VectorLike) -> Any:
    """Fit a model, a pipeline or a search with example weights for its last step."""
    if weights is None:
        return model.fit(X, y)
    inner, path, one_each = model, "", False
    while hasattr(inner, "estimator") or isinstance(inner, Pipeline):
        one_each = one_each or is_each_class(inner)
        if isinstance(inner, Pipeline):
            name, inner = inner.steps[-1]
            path += f"{name}__"
        else:
            inner = inner.estimator
    routed = get_config()["enable_metadata_routing"]
    if one_each and not routed:
        raise UnsupportedModelError(
            "OneVsRestClassifier takes no sample_weight, which is needed here, unless scikit-learn's metadata routing is "
            "enabled: enable it, or use LogisticRegression, which fits all classes at once."
        )
    if not has_fit_parameter(inner, "sample_weight"):
        raise UnsupportedModelError(f"{type(inner).__name__} takes no sample_weight, which is needed here.")
    key = "sample_weight" if routed else f"{path}sample_weight"
    return model.fit(X, y, **{key: weights})


def one_target(estimator: Estimator, y: VectorLike, several: bool = False) -> Any:
    """One label for each row; of two classes for a classifier, unless ``several`` are welcome."""
    if y is None:
        raise InvalidInputError("y is None: this estimator requires y to be passed, but the target y is None.")
    if hasattr(y, "shape") and hasattr(y, "device") and not isinstance(y, np.ndarray):
        return y  # beside rows on a device: the estimator checks it there
    if len(shape := np.asarray(y).shape) == 2 and shape[1] > 1:
        raise UnsupportedModelError(
            f"y should be a 1d array, got an array of shape {shape} instead: fit one target at a time, or measure a model of "
            "several with fisherleak.measure."
        )
    y = column_or_1d(y, warn=True)
    if y.dtype.kind in "USO" and len(y) and isinstance(y[0], str) and is_regressor(estimator):
        raise InvalidInputError(
            f"y holds text, and {type(estimator).__name__} predicts numbers: encode it as numbers, or use a classifier."
        )
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        return y  # the estimator says it best
    if not several and is_classifier(estimator) and type_of_target(y, input_name="y") == "multiclass":
        raise UnsupportedModelError(
            "Only binary classification is supported. The type of the target is multiclass. Fit one class against the rest."
        )
    return y


def repeatable(model: Estimator) -> Any:
    """An unfitted copy of a fitted model with the choices it made: a search's best one, a tuned model's alpha or C."""
    if hasattr(model, "best_estimator_"):
        return repeatable(model.best_estimator_)
    copied = clone(model)
    final_estimator(copied).set_params(**frozen(final_estimator(model)))
    return copied


def _has(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A method that is there where the estimator has it."""

    def check(self: Any) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)
        return True

    decorate: Callable[[Callable[..., Any]], Callable[..., Any]] = available_if(check)
    return decorate


class Wrapper(Pickled, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """What both meta-estimators share: they predict as ``estimator_`` does."""

    estimator: Any
    estimator_: Any
    _several_classes = False
    """Whether it takes three classes or more where its estimator does."""

    def predict(self, X: TableLike) -> Any:
        """Predictions of ``estimator_``."""
        check_is_fitted(self)
        return self.estimator_.predict(X)

    @_has("predict_proba")
    def predict_proba(self, X: TableLike) -> Any:
        """Class probabilities of ``estimator_``."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @_has("decision_function")
    def decision_function(self, X: TableLike) -> Any:
        """Linear predictor of ``estimator_``."""
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    def score(self, X: TableLike, y: VectorLike, sample_weight: VectorLike = None) -> float:
        """Score of ``estimator_``."""
        check_is_fitted(self)
        options = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(self.estimator_.score(X, y, **options))

    @property
    def classes_(self) -> Any:
        """Classes of ``estimator_``."""
        return self.estimator_.classes_

    @property
    def n_features_in_(self) -> int:
        """Columns seen in fit."""
        return int(self.estimator_.n_features_in_)

    @property
    def feature_names_in_(self) -> Any:
        """Names of the columns seen in fit."""
        return self.estimator_.feature_names_in_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = copy.deepcopy(inner.classifier_tags)
        tags.regressor_tags = copy.deepcopy(inner.regressor_tags)
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_class &= self._several_classes
        tags.target_tags = replace(inner.target_tags, multi_output=False)
        tags.input_tags = replace(inner.input_tags, sparse=False)
        return tags
