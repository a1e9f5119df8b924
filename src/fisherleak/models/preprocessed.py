"""Rows, and queries, behind a fitted model's preprocessing: the features of its last step, and which raw columns feed them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fisherleak._support.arrays import Array, host
from fisherleak._support.namespaces import Estimator, TableLike
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.models.frames import Table, as_table
from fisherleak.models.several import as_one
from fisherleak.models.steps.flow import Flow, attributes_of, start, unfed
from fisherleak.models.steps.imputers import Mask
from fisherleak.models.steps.scalers import neutral
from fisherleak.models.steps.transformers import through
from fisherleak.rows import first_rows, map_partitions


@dataclass(frozen=True)
class Prepared:
    """The features of a model's last step, and which raw columns feed them.

    ``other_side`` are the same attributes with the derivatives of the other side, where some value lies on a kink.
    """

    features: Array
    attributes: tuple[Attribute, ...]
    estimator: Any
    other_side: tuple[Attribute, ...] | None = None
    absent: dict[str, Mask] = field(default_factory=dict)
    """Raw columns with missing values that an imputer filled, and in which rows, (n,)."""


def final_estimator(model: Estimator) -> Any:
    """The linear model inside a search or at the end of a pipeline; one for each class as one of all of them."""
    if hasattr(model, "best_estimator_"):
        return final_estimator(model.best_estimator_)
    return final_estimator(model.steps[-1][1]) if isinstance(model, Pipeline) else as_one(model)


def checked_model(model: Estimator) -> Any:
    """A fitted model or pipeline; of a search, its best one."""
    if not isinstance(model, BaseEstimator):
        raise UnsupportedModelError(
            f"model must be a fisherleak.Fit or a fitted scikit-learn model; got {type(model).__name__}."
        )
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise InvalidInputError(f"{type(model).__name__} is not fitted yet: call fit first.") from None
    if hasattr(model, "best_estimator_"):
        return checked_model(model.best_estimator_)
    if hasattr(model, "cv_results_") and hasattr(model, "estimator"):
        raise InvalidInputError(f"{type(model).__name__} has no best_estimator_: fit it with refit=True.")
    return model


def prepare(model: Estimator, table: Table) -> Prepared:
    """Walk the raw table through a fitted model's preprocessing."""
    model = checked_model(model)
    _check_columns(model, table)
    if table.lazy:
        return _prepare_lazily(model, table)
    flow = _walked(model, start(table))
    estimator = as_one(model.steps[-1][1] if isinstance(model, Pipeline) else model)
    if isinstance(estimator, Pipeline) or hasattr(estimator, "best_estimator_"):
        inner = type(final_estimator(estimator)).__name__
        one = (
            "put its steps in the outer Pipeline"
            if isinstance(estimator, Pipeline)
            else "search over the whole Pipeline"
        )
        raise UnsupportedModelError(
            f"A {type(estimator).__name__} as the last step of a Pipeline is not supported: {one}, with {inner} as the last "
            "step."
        )
    text = unfed(flow)
    if text:
        raise InvalidInputError(f"Column '{text[0]}' is not numeric and reaches the model as it is. Encode it first.")
    values = flow.table.values
    if flow.table.is_frame or not flow.table.is_numeric(0):
        values = np.column_stack([flow.table.numbers(j) for j in range(len(flow.table.names))])
    elif not _in_place(values, estimator):
        values = host(values)
    other = attributes_of(_walked(model, start(table, side=-1)), table.names) if flow.bent else None
    return Prepared(values, attributes_of(flow, table.names), estimator, other, flow.absent)


def _walked(model: Estimator, flow: Flow) -> Flow:
    """A table behind all but the last step of a pipeline."""
    for _, step in model.steps[:-1] if isinstance(model, Pipeline) else ():
        flow = through(step, flow)
    return flow


def _in_place(values: Any, estimator: Estimator) -> bool:
    """Whether the model was fitted on arrays of this library (``array_api_dispatch``), so that they stay where they are."""
    coef = getattr(estimator, "coef_", None)
    return not isinstance(values, np.ndarray) and type(coef) is type(values)


def _prepare_lazily(model: Estimator, table: Table) -> Prepared:
    """The same block by block; a few rows show the width and the raw columns that feed each feature."""
    sample = prepare(model, as_table(first_rows(table.values)))
    _refuse_absent(sample)
    uneven = [attribute.name for attribute in sample.attributes if attribute.local]
    if uneven:
        raise UnsupportedModelError(
            f"Preprocessing of column '{uneven[0]}' that is not affine is not supported on Dask rows: apply it before, and "
            "measure the model behind it on its features."
        )
    width = sample.features.shape[1]

    def features(block: Any) -> Array:
        prepared = prepare(model, as_table(block))
        _refuse_absent(prepared)
        return np.asarray(prepared.features, dtype=np.float64)

    return Prepared(map_partitions(features, table.values, width), sample.attributes, sample.estimator)


def _refuse_absent(prepared: Prepared) -> None:
    for name, rows in prepared.absent.items():
        raise UnsupportedModelError(
            f"Column '{name}' has {int(rows.sum())} missing values in a block of Dask rows, which an imputer filled: this is "
            "supported for rows in memory only. Compute them first, or drop these rows."
        )


def _check_columns(model: Estimator, table: Table) -> None:
    """The columns the model was fitted on, by name where it knows them."""
    known = getattr(model, "feature_names_in_", None)
    if known is not None and table.is_frame:
        expected = [str(name) for name in known]
        missing = [name for name in expected if name not in table.names]
        extra = [name for name in table.names if name not in expected]
        if missing or extra:
            what = (
                f"lacks column '{missing[0]}'" if missing else f"has column '{extra[0]}', which the model has not seen"
            )
            raise InvalidInputError(f"X {what}. Pass the table that {type(model).__name__} was fitted on.")
        if expected != table.names:
            raise InvalidInputError(f"X has the columns of the model in another order. Use X[{expected[:3]}…].")
    count = getattr(model, "n_features_in_", len(table.names))
    if count != len(table.names):
        raise InvalidInputError(
            f"{type(model).__name__} was fitted on {count} columns; X has {len(table.names)}. Pass the table it was fitted on."
        )


@dataclass(frozen=True)
class Queried:
    """How queries become features of a model.

    Parameters
    ----------
    model : Estimator or None
        Fitted; None where rows are features as they are.
    names : sequence of str or None
        The columns' names, where rows are features of a frame.
    width : int
        The number of columns.
    folded : bool
        Whether scalers and imputers are folded into the model, so that features are in raw units.
    """

    model: Estimator | None
    names: Sequence[str] | None
    width: int
    folded: bool = False

    def features(self, X_query: TableLike, name: str = "X_query") -> NDArray[np.float64]:
        """(m, d), finite; ``name`` is what the caller calls these rows."""
        table = as_table(X_query)
        if table.lazy:
            raise InvalidInputError(f"{name} must be in memory; it is a Dask array. Pass {name}.compute().")
        values = self._as_they_are(table, name) if self.model is None else self._prepared(table)
        found = np.asarray(host(values), dtype=np.float64)
        if not np.isfinite(found).all():
            row = int(np.flatnonzero(~np.isfinite(found).all(axis=1))[0])
            raise InvalidInputError(
                f"{name} must be finite behind the preprocessing; row {row} is not. Drop or fill it."
            )
        return found

    def _as_they_are(self, table: Table, name: str) -> Any:
        if len(table.names) != self.width:
            raise InvalidInputError(f"{name} must have the {self.width} columns of X; got {len(table.names)}.")
        if not table.is_frame:
            return table.values
        if self.names is not None and list(self.names) != table.names:
            raise InvalidInputError(f"{name} must have the columns of X, in their order. Use {name}[X.columns].")
        text = [column for j, column in enumerate(table.names) if not table.is_numeric(j)]
        if text:
            raise InvalidInputError(f"Column '{text[0]}' of {name} is not numeric. Encode it as it was in X.")
        return np.column_stack([table.numbers(j) for j in range(self.width)])

    def _prepared(self, table: Table) -> Any:
        model = checked_model(self.model)
        prepared = prepare(neutral(model)[0] if self.folded else model, table)
        filled = next((name for name, rows in prepared.absent.items() if rows.any()), None)
        if self.folded and filled is not None:
            raise InvalidInputError(
                f"Column '{filled}' of X_query has missing values, and an imputer counted with public='nothing' would fill "
                "them. Pass queries without missing values, or measure with public='preprocessing'."
            )
        return prepared.features
