"""A fitted model built anew: an object of the same classes that holds what prediction needs, and nothing else.

Nothing is copied whole. Every step comes from its constructor's parameters, to which the few numbers are added that it needs
to transform a row; what those may be depends on what is *public*:

- "nothing": scalers are folded into the model and left out, and imputers fill in noisy values that are counted; steps that were
  told everything when they were made stay; categories are those that were declared.
- "levels": the same, and the levels that encoders learned are public, or were counted by ``models.steps.levels``: at least
  ``FEW`` rows share each. Names of pooled ones are left out.
- "preprocessing": what the steps before the model learned is public.

A step that holds rows or statistics of labels is refused whatever is public. Adding a step is adding one function to
``REBUILDERS``, and one that learns from the data to ``models.steps.scalers``, which counts what it learned.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import compose, decomposition, feature_selection, impute, pipeline, preprocessing
from sklearn.base import clone

from fisherleak._support.namespaces import Estimator
from fisherleak.errors import UnsupportedModelError
from fisherleak.models.estimators import RECIPES, set_parameters
from fisherleak.models.several import binarizer_of, is_each_class, parts_of
from fisherleak.models.steps.flow import steps_within
from fisherleak.models.steps.imputers import CentreImputer, indicator_of
from fisherleak.models.steps.levels import forget_rare, with_own_types
from fisherleak.models.steps.scalers import pools

PUBLIC = ("nothing", "levels", "preprocessing")
FEW = 5
"""Rows that must share a level before its name may leave undeclared."""
NAMES = ("n_features_in_", "feature_names_in_")
CHOSEN = ("alpha_", "C_")
"""What models that tune themselves call the penalty that they chose."""

_LABELS = "its scores reveal single labels. Choose the columns before, with a ColumnTransformer."
REFUSED = {
    impute.KNNImputer: "it holds the rows it was fitted on. Fill missing values before the fit, or with "
    "SimpleImputer(strategy='constant', fill_value=…).",
    feature_selection.SelectKBest: _LABELS,
    feature_selection.SelectPercentile: _LABELS,
}
"""Steps that can be measured and never leave, with the reason."""


def refuse_search(model: Estimator) -> None:
    """Refuse a model that chose its penalty on the data."""
    name = type(model).__name__
    if hasattr(model, "best_estimator_"):
        raise UnsupportedModelError(
            f"{name} chose its parameters on the data, and that choice is not counted: pass its best_estimator_, which "
            "declares the choice public."
        )
    last = model.steps[-1][1] if isinstance(model, pipeline.Pipeline) else model
    for chosen in [name for name in CHOSEN if type(last) in RECIPES and hasattr(last, name)]:
        value = float(np.ravel(getattr(last, chosen))[0])
        plain = f"{type(last).__name__.removesuffix('CV')}({chosen[:-1]}={value:g})"
        raise UnsupportedModelError(
            f"{type(last).__name__} chose its penalty on the data, and that choice is not counted: fit {plain}, which declares "
            "it public."
        )


def check_rebuildable(step: Estimator) -> None:
    """Refuse steps that never leave, however deep, by name and reason."""
    for each in steps_within(step):
        if type(each) in REFUSED:
            raise UnsupportedModelError(f"{type(each).__name__} cannot be released: {REFUSED[type(each)]}")


def rebuilt(
    model: Estimator, theta: NDArray[np.float64], public: str, filled: NDArray[np.float64] | None = None
) -> Any:
    """A new model with these parameters that predicts as the given one would with them.

    With public "nothing" or "levels", ``theta`` is for features that no scaler has touched, and ``filled`` (d,) is what
    imputers put in the place of missing ones; NaN where none of them learned anything.
    """
    if not isinstance(model, pipeline.Pipeline):
        return _estimator(model, theta, getattr(model, "feature_names_in_", None))
    *before, (name, last) = model.steps
    steps, folded = _steps(before, public)
    arriving = last if folded is None else folded
    estimator = _estimator(last, theta, getattr(arriving, "feature_names_in_", None))
    if filled is not None:
        _fill(steps, filled)
    return _pipeline_of(model, [*steps, (name, estimator)])


def _fill(steps: Sequence[tuple[str, Any]], filled: NDArray[np.float64]) -> None:
    """Tell imputers, which only folded scalers may follow, what to fill in."""
    for _, step in steps:
        if isinstance(step, impute.SimpleImputer) and not _told(step) and np.isnan(step.statistics_).all():
            step.statistics_ = np.array(filled[: step.n_features_in_])
        elif isinstance(step, pipeline.Pipeline):
            _fill(step.steps, filled)
        elif isinstance(step, compose.ColumnTransformer):
            for name, part, _ in step.transformers_:
                _fill([(name, part)], filled[step.output_indices_[name]])


def _told(step: Estimator) -> bool:
    """Whether an imputer fills in what its maker said."""
    return bool(step.strategy == "constant")


def _estimator(fitted: Estimator, theta: NDArray[np.float64], names: Any) -> Any:
    if is_each_class(fitted):
        return _each_class(fitted, theta, names)
    made = clone(fitted)
    set_parameters(made, theta, shaped_as=fitted)
    made.n_features_in_ = int(fitted.n_features_in_)
    if names is not None:
        made.feature_names_in_ = np.array(names)
    if hasattr(fitted, "_label_binarizer"):  # a ridge classifier finds its classes there
        classes = _own(fitted.classes_)
        made._label_binarizer = preprocessing.LabelBinarizer(pos_label=1, neg_label=-1).fit(classes)
    if "classes_" in vars(fitted):
        made.classes_ = _own(fitted.classes_)
    if hasattr(fitted, "_base_loss"):  # the link of a Poisson model
        made._base_loss = made._get_loss() if isinstance(fitted.coef_, np.ndarray) else fitted._base_loss
    return made


def _each_class(fitted: Estimator, theta: NDArray[np.float64], names: Any) -> Any:
    made = clone(fitted)
    made.classes_ = _own(fitted.classes_)
    made.label_binarizer_ = binarizer_of(made.classes_)
    made.estimators_ = [_estimator(part, own, names) for part, own in parts_of(fitted, theta)]
    made.n_features_in_ = int(fitted.n_features_in_)
    if names is not None:
        made.feature_names_in_ = np.array(names)
    return made


def _own(values: Any) -> Any:
    """An array of its own memory, with nothing behind it; texts in no more room than they need."""
    if not isinstance(values, np.ndarray):
        return values
    return np.array(values.tolist()) if values.dtype.kind == "U" and values.size else np.array(values)


def _steps(steps: Sequence[tuple[str, Any]], public: str) -> tuple[list[tuple[str, Any]], Any]:
    """Steps built anew without those that are folded in, and the first of these."""
    made, folded = [], None
    for name, step in steps:
        new = _step(step, public)
        if new is None:
            folded = step if folded is None else folded
        else:
            made.append((name, new))
    return made, folded


def _step(step: Estimator, public: str) -> Any:
    """A step built anew; None for one that is folded into the model."""
    if step is None or isinstance(step, str):
        return "passthrough" if step is None else step
    return REBUILDERS[type(step)](step, public)


def _pipeline_of(model: Estimator, steps: list[tuple[str, Any]]) -> Any:
    made = clone(model)
    made.steps, made.memory = steps, None
    return made


def _with(step: Estimator, *attributes: str) -> Any:
    """A step of the same class and parameters that learned these attributes, where the given one has them."""
    return _told_as(clone(step), step, *attributes)


def _told_as(made: Any, step: Estimator, *attributes: str) -> Any:
    """A new step with the number and names of columns, and these attributes, of the given one, where it has them."""
    for name in (*NAMES, *attributes):
        if name in vars(step):
            setattr(made, name, _copied(vars(step)[name]))
    return made


def _copied(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(each) for each in value)
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return _own(value)


# One function for each step: the step built anew for what is public, or None where it is folded into the model


def _scaler(*attributes: str) -> Callable[[Any, str], Any]:
    def rebuild(step: Estimator, public: str) -> Any:
        return _with(step, *attributes) if public == "preprocessing" else None

    return rebuild


def _learns_nothing(step: Estimator, public: str) -> Any:
    """Fitted on zeros, so that nothing but the number of columns and their names can be in it."""
    return _told_as(clone(step).fit(np.zeros((1, step.n_features_in_))), step)


def _function(step: Estimator, public: str) -> Any:
    functions = [function for function in (step.func, step.inverse_func) if function is not None]
    if step.kw_args or step.inv_kw_args or not all(isinstance(function, np.ufunc) for function in functions):
        raise UnsupportedModelError(
            "FunctionTransformer with a function of its own cannot be released: what the function holds is not known. Apply it "
            "to the table before, or use one of NumPy's."
        )
    return _with(step)


def _splines(step: Estimator, public: str) -> Any:
    made = _with(step, "n_features_out_")
    made.bsplines_ = [
        type(spline)(np.array(spline.t), np.array(spline.c), spline.k, spline.extrapolate) for spline in step.bsplines_
    ]
    return made


def _variance_threshold(step: Estimator, public: str) -> Any:
    """Which columns stay, in place of their variances."""
    made = _with(step)
    made.variances_ = np.where(step.get_support(), step.threshold + 1.0, step.threshold)
    return made


def _components(step: Estimator, public: str) -> Any:
    made = _with(step, "components_", "mean_", "n_components_")
    if hasattr(step, "whiten"):  # read by some versions of scikit-learn, and used where components are whitened only
        count = len(step.components_)
        made.explained_variance_ = _own(step.explained_variance_) if step.whiten else np.ones(count)
    return made


def _simple_imputer(step: Estimator, public: str) -> Any:
    if step.add_indicator and public == "nothing":
        raise UnsupportedModelError(
            "SimpleImputer(add_indicator=True) shows which columns had missing values, which reveals the rows if they are few: "
            "pass the rows in memory that the model was fitted on, fl.release(…, rows=(X, y)), to have them "
            "counted, use add_indicator=False, or release with public='levels'."
        )
    made = _with(step, "_fit_dtype", "_fill_dtype", "statistics_")
    if step._fit_dtype.kind in "biuf":
        # one gap makes whole numbers floats: the type of the table is not that of what is filled in
        whole = _told(step) and all(float(value).is_integer() for value in made.statistics_)
        made._fit_dtype, made._fill_dtype = np.dtype(np.float64), np.dtype(np.int64 if whole else np.float64)
        made.statistics_ = made.statistics_.astype(made._fill_dtype)
    made.indicator_ = indicator_of(step, step.indicator_.features_) if step.add_indicator else None
    if public != "preprocessing" and not _told(step):
        # what it learned is folded in: noisy values come in this place
        made.statistics_ = np.full(step.n_features_in_, np.nan)
    return made


def _centre_imputer(step: Estimator, public: str) -> Any:
    """A SimpleImputer, whose means are the public centres."""
    columns = step.indicator_.features_
    made = _told_as(impute.SimpleImputer(missing_values=step.missing_values, add_indicator=bool(columns.size)), step)
    # scikit-learn 1.6 knows the first of the two only
    made._fit_dtype = made._fill_dtype = np.dtype(np.float64)
    made.statistics_ = np.array(step.statistics_)
    made.indicator_ = indicator_of(step, columns) if columns.size else None
    return made


def _one_hot(step: Estimator, public: str) -> Any:
    _check_declared(step, public)
    made = with_own_types(
        _with(step, "categories_", "drop_idx_", "_drop_idx_after_grouping", "_n_features_outs", *POOLS)
    )
    if public != "preprocessing" and step.handle_unknown == "infrequent_if_exist" and made._infrequent_enabled:
        forget_rare(made, step)
    return made


def _ordinal(step: Estimator, public: str) -> Any:
    _check_declared(step, public)
    return with_own_types(_with(step, "categories_", "_missing_indices", *POOLS))


POOLS = ("_infrequent_enabled", "_infrequent_indices", "_default_to_infrequent_mappings")
"""Where encoders keep which levels are pooled."""


def _check_declared(step: Estimator, public: str) -> None:
    """Refuse levels, and pools of levels, that an encoder learned from rows that nobody counted here."""
    if public == "nothing" and isinstance(step.categories, str):
        raise UnsupportedModelError(
            f"{type(step).__name__} learned its categories from the data, and a rare category, named or pooled, "
            "reveals the rows that have it. Declare the categories with categories=… and leave min_frequency and "
            "max_categories out, or release with public='levels'. Or pass the rows that the model was fitted on, "
            "fl.release(…, rows=(X, y)), to have them counted."
        )
    if public == "nothing" and pools(step):
        raise UnsupportedModelError(
            f"{type(step).__name__} pools categories by how many rows have them (min_frequency={step.min_frequency}, "
            f"max_categories={step.max_categories}), which single rows can decide. Leave min_frequency and max_categories out, "
            "or release with public='levels'. Or pass the rows that the model was fitted on, fl.release(…, rows=(X, y)), to "
            "have them counted."
        )


def _inner_pipeline(step: Estimator, public: str) -> Any:
    steps, _ = _steps(step.steps, public)
    return _pipeline_of(step, steps) if steps else None


def _union(step: Estimator, public: str) -> Any:
    made = clone(step)
    made.transformer_list = [(name, _step(part, public)) for name, part in step.transformer_list]
    return made


def _columns(step: Estimator, public: str) -> Any:
    """A ColumnTransformer with its routing: which columns go where, before and behind it."""
    made = _with(step, "output_indices_", "_transformer_to_input_indices", "_n_features")
    with warnings.catch_warnings():
        # scikit-learn 1.6 announces another form of the remainder's columns
        warnings.simplefilter("ignore", FutureWarning)
        parts = [(name, _part(part, public), _listed_columns(columns)) for name, part, columns in step.transformers_]
    made.transformers_ = parts
    # scikit-learn decides by how many of the rows' features are zero
    made.sparse_output_ = step.sparse_threshold > 0 and all(_gives_sparse(part) for _, part, _ in parts)
    given = {name for name, _, _ in step.transformers}
    made.transformers = [(name, _unfitted(part), columns) for name, part, columns in parts if name in given]
    made._columns = [columns for name, _, columns in parts if name in given]
    if not isinstance(made.remainder, str):
        made.remainder = next((_unfitted(part) for name, part, _ in parts if name not in given), "drop")
    made._remainder = next((part for part in parts if part[0] not in given), ("remainder", made.remainder, []))
    return made


def _gives_sparse(part: Any) -> bool:
    """Whether a part of a ColumnTransformer gives a sparse matrix whatever the rows, or nothing at all."""
    if isinstance(part, pipeline.Pipeline):
        return _gives_sparse(part.steps[-1][1])
    told = getattr(part, "sparse_output_", getattr(part, "sparse_output", False))
    return part == "drop" if isinstance(part, str) else bool(told)


def _part(part: Estimator, public: str) -> Any:
    """A part of a ColumnTransformer; for one that is folded in, what scikit-learn itself puts in the place of "passthrough"."""
    new = _step(part, public)
    if new is not None:
        return new
    same = preprocessing.FunctionTransformer(accept_sparse=True, check_inverse=False, feature_names_out="one-to-one")
    for name in (*NAMES, "_sklearn_output_config"):
        if hasattr(part, name):
            setattr(same, name, _copied(getattr(part, name)))
    return same


def _unfitted(part: Any) -> Any:
    return part if isinstance(part, str) else clone(part)


def _listed_columns(columns: Any) -> Any:
    if isinstance(columns, (str, int, np.integer, slice)):
        return columns
    return columns.tolist() if isinstance(columns, np.ndarray) else list(columns)


REBUILDERS: dict[type, Callable[[Any, str], Any]] = {
    preprocessing.StandardScaler: _scaler("mean_", "scale_"),
    preprocessing.RobustScaler: _scaler("center_", "scale_"),
    preprocessing.MinMaxScaler: _scaler("scale_", "min_"),
    preprocessing.MaxAbsScaler: _scaler("scale_"),
    preprocessing.OneHotEncoder: _one_hot,
    preprocessing.OrdinalEncoder: _ordinal,
    preprocessing.PolynomialFeatures: _learns_nothing,
    preprocessing.FunctionTransformer: _function,
    preprocessing.SplineTransformer: _splines,
    decomposition.PCA: _components,
    decomposition.IncrementalPCA: _components,
    decomposition.TruncatedSVD: _components,
    feature_selection.VarianceThreshold: _variance_threshold,
    impute.SimpleImputer: _simple_imputer,
    CentreImputer: _centre_imputer,
    compose.ColumnTransformer: _columns,
    pipeline.Pipeline: _inner_pipeline,
    pipeline.FeatureUnion: _union,
}
"""Every step that can leave, by its class."""
