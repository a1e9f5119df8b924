"""Queries to a model, walked through its preprocessing as the rows were: what its answers depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Estimator, TableLike
from fisherleak.errors import InvalidInputError
from fisherleak.models.frames import Table, as_table
from fisherleak.models.read import checked_model, prepare
from fisherleak.models.steps.scalers import neutral

__all__ = ["Queried"]


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

    def features(self, X_query: TableLike) -> NDArray[np.float64]:
        """(m, d), finite."""
        table = as_table(X_query)
        if table.lazy:
            raise InvalidInputError("X_query must be in memory; it is a Dask array. Pass X_query.compute().")
        values = self._as_they_are(table) if self.model is None else self._prepared(table)
        found = np.asarray(host(values), dtype=np.float64)
        if not np.isfinite(found).all():
            row = int(np.flatnonzero(~np.isfinite(found).all(axis=1))[0])
            raise InvalidInputError(
                f"X_query must be finite behind the preprocessing; row {row} is not. Drop or fill it."
            )
        return found

    def _as_they_are(self, table: Table) -> Any:
        if len(table.names) != self.width:
            raise InvalidInputError(f"X_query must have the {self.width} columns of X; got {len(table.names)}.")
        if not table.is_frame:
            return table.values
        if self.names is not None and list(self.names) != table.names:
            raise InvalidInputError("X_query must have the columns of X, in their order. Use X_query[X.columns].")
        text = [name for j, name in enumerate(table.names) if not table.is_numeric(j)]
        if text:
            raise InvalidInputError(f"Column '{text[0]}' of X_query is not numeric. Encode it as it was in X.")
        return np.column_stack([table.numbers(j) for j in range(self.width)])

    def _prepared(self, table: Table) -> Any:
        model = checked_model(self.model)
        prepared = prepare(neutral(model)[0] if self.folded else model, table)
        filled = next((name for name, rows in prepared.absent.items() if rows.any()), None)
        if self.folded and filled is not None:
            raise InvalidInputError(
                f"Column '{filled}' of X_query has missing values, and what they are filled with is counted with the model: "
                "such answers are measured with public='preprocessing' only. Pass complete queries."
            )
        return prepared.features
