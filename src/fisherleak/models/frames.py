"""Tables as users have them: pandas, polars (through narwhals) or bare arrays, with names and an index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import as_array, device, host, is_lazy, is_lazy_frame, namespace
from fisherleak._support.checks import default_names, nearest
from fisherleak._support.namespaces import TableLike
from fisherleak.errors import InvalidInputError
from fisherleak.rows import with_known_rows
from fisherleak.rows.selection import same_rows
from fisherleak.rows.summary import column_spreads, zero_one_columns

Figure = TypeVar("Figure")


@dataclass(frozen=True)
class Table:
    """A two-dimensional table with named columns.

    Parameters
    ----------
    values : frame or array of shape (n, k)
    names : list of str
        The columns' names; x0, x1, … for a bare array.
    is_frame : bool
    index : sequence or None
        Row labels of a pandas frame.
    """

    values: Any
    names: list[str]
    is_frame: bool
    index: Any

    @property
    def n(self) -> int:
        return int(self.values.shape[0])

    def column(self, position: int) -> NDArray[Any]:
        """One column as a NumPy array: float64 where it is numeric, else its own values."""
        if not self.is_frame:
            return host(self.values[:, position])
        series = self._frame.get_column(self._columns[position])
        values = series.to_numpy()
        return values.astype(np.float64) if series.dtype.is_numeric() else np.asarray(values)

    def is_numeric(self, position: int) -> bool:
        if self.lazy:
            dtype = self.values.dtypes.iloc[position] if self.is_frame else self.values.dtype
            return getattr(dtype, "kind", "O") in "fiub"
        if self.is_frame:
            kind = self._kinds[position]
            if kind.is_numeric() or kind in (nw.Boolean, nw.String, nw.Categorical, nw.Enum):
                return bool(kind.is_numeric() or kind == nw.Boolean)
            return self.column(position).dtype.kind in "fiub"
        dtype = getattr(self.values, "dtype", None)
        return not isinstance(dtype, np.dtype) or dtype.kind in "fiub"

    @cached_property
    def _frame(self) -> Any:
        """A frame in memory, wrapped once: its names are checked for each time, which is slow where there are many."""
        return nw.from_native(self.values, eager_only=True)

    @cached_property
    def _columns(self) -> list[Any]:
        """The columns of a frame in memory, by which it gives one far sooner than by its place."""
        return list(self._frame.columns)

    @cached_property
    def _kinds(self) -> tuple[Any, ...]:
        """The dtype of each column of a frame in memory, all at once: one at a time is slow, and they are asked for often."""
        return tuple(self._frame.schema.values())

    def holds_numbers(self, position: int) -> bool:
        """Whether a column can be read as numbers, whatever its dtype: objects, categories and text of numbers can."""
        return self.is_numeric(position) or (not self.lazy and _as_numbers(self.column(position)) is not None)

    def numbers(self, position: int) -> NDArray[np.float64]:
        """One column that holds numbers, as scikit-learn's transformers convert it."""
        values = _as_numbers(self.column(position))
        if values is None:
            raise InvalidInputError(f"Column '{self.names[position]}' cannot be read as numbers. Encode it first.")
        return values

    def named(self, name: str) -> NDArray[Any]:
        """The column of that name."""
        return self.column(self._position(name))

    def labels(self, name: str) -> Any:
        """The column of that name as labels of groups: where it is, and lazy where the table is."""
        position = self._position(name)
        if self.lazy and self.is_frame:
            return self.values[self.values.columns[position]]
        return self.column(position) if self.is_frame else self.values[:, position]

    def spreads(self) -> list[float]:
        """Standard deviation of each column, of the values that are there; 1 where it is not numeric."""
        if isinstance(self.values, np.ndarray) and self.values.dtype.kind == "f" and np.isnan(self.values).any():
            return [_spread(x) for x in self.values.T]
        if not self.is_frame:
            return column_spreads(self.values) if self.is_numeric(0) else [1.0] * len(self.names)
        return self._of_numbers(column_spreads, _spread, 1.0)

    def yes_no(self) -> list[bool]:
        """Whether each column holds 0 and 1 only, of the values that are there: a yes or no, however it is encoded."""
        if not self.is_frame and self.is_numeric(0):
            return zero_one_columns(self.values)
        return self._of_numbers(zero_one_columns, lambda x: zero_one_columns(x[:, None])[0], False)

    def _of_numbers(
        self, of_rows: Callable[[Any], list[Figure]], of_one: Callable[[NDArray[np.float64]], Figure], other: Figure
    ) -> list[Figure]:
        """A figure of each column that holds numbers, of lazy rows at once, and another of the rest."""
        numeric = [j for j in range(len(self.names)) if self.holds_numbers(j)]
        if self.lazy:
            (rows,) = with_known_rows(self.select(numeric).values)
            figures = of_rows(rows)
        else:
            figures = [of_one(self.numbers(j)) for j in numeric]
        found = dict(zip(numeric, figures, strict=True))
        return [found.get(j, other) for j in range(len(self.names))]

    def _position(self, name: str) -> int:
        if name not in self.names:
            raise InvalidInputError(f"There is no column '{name}'. {nearest(name, self.names)}")
        return self.names.index(name)

    @cached_property
    def lazy(self) -> bool:
        """Whether the rows are Dask's."""
        return is_lazy(self.values) or is_lazy_frame(self.values)

    def select(self, positions: Sequence[int]) -> Table:
        """Some columns, as a table of the same kind."""
        names = [self.names[j] for j in positions]
        if self.lazy and self.is_frame:
            return Table(self.values[[self.values.columns[j] for j in positions]], names, True, None)
        if self.is_frame:
            return Table(nw.to_native(self._frame[:, list(positions)]), names, True, self.index)
        return Table(self.values[:, list(positions)], names, False, self.index)

    def rows(self, mask: NDArray[np.bool_]) -> Table:
        """The rows where a mask is true."""
        if self.is_frame:
            frame = self._frame.filter(mask.tolist())
            return Table(nw.to_native(frame), self.names, True, None if self.index is None else self.index[mask])
        return Table(self.values[mask], self.names, False, None)

    def take(self, rows: Any) -> Table:
        """The rows at some positions."""
        index = None if self.index is None else self.index[rows]
        if self.is_frame:
            return Table(nw.to_native(self._frame[rows.tolist(), :]), self.names, True, index)
        if not isinstance(self.values, np.ndarray):
            xp = namespace(self.values)
            chosen = xp.asarray(rows, device=device(self.values))
            return Table(xp.take(self.values, chosen, axis=0), self.names, False, index)
        return Table(self.values[rows], self.names, False, index)

    def with_value(self, position: int, value: Any, sample: int | None) -> Table:
        """A column set to one value in every row: that of the row ``sample`` where it is there, keeping the column's type."""
        if self.is_frame:
            frame = self._frame
            name = frame.columns[position]
            if sample is None:
                new = frame[:, position].cast(nw.Float64()) * 0.0 + float(value)
            else:
                new = frame[:, position][[sample] * self.n]
            return Table(nw.to_native(frame.with_columns(new.alias(name))), self.names, True, self.index)
        if not isinstance(self.values, np.ndarray):
            changed = namespace(self.values).asarray(self.values, copy=True)
            changed[:, position] = value
            return Table(changed, self.names, False, self.index)
        values = self.values
        if sample is None and values.dtype.kind in "iub":
            values = values.astype(np.float64)  # a value that the column never had may not fit its type
        values = values.copy()
        values[:, position] = value
        return Table(values, self.names, False, self.index)


def _spread(x: NDArray[np.float64]) -> float:
    there = x[~np.isnan(x)]
    return float(np.std(there)) if there.size else 1.0


def _as_numbers(values: NDArray[Any]) -> NDArray[np.float64] | None:
    """Values as float64; None where one of them is no number. Times convert too, to a unit that is nobody's: they are none."""
    if values.dtype.kind not in "fiubOUST":
        return None
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        return None


def same_values(first: Table, second: Table) -> bool:
    """Whether two tables of the same columns hold the same values."""
    if not first.is_frame and not isinstance(first.values, np.ndarray):
        return same_rows(first.values, second.values)
    if first.lazy or second.lazy:
        return same_rows(as_array(first.values, "X"), as_array(second.values, "X"))
    for j in range(len(first.names)):
        a, b = first.column(j), second.column(j)
        if a.dtype.kind == b.dtype.kind == "f":
            if not np.array_equal(a, b, equal_nan=True):
                return False
        elif a.tolist() != b.tolist():
            return False
    return True


def as_table(X: TableLike) -> Table:
    """A frame or an array of shape (n, k) as a table; refuses what has other shapes or repeated names."""
    lazy = is_lazy_frame(X) and hasattr(X, "columns")
    if lazy or nw.dependencies.is_into_dataframe(X):
        # the frame's own: some versions of narwhals refuse repeated names before we can
        own: Any = getattr(X, "columns", ())
        listed = not callable(own) and len(own) > 0 and (lazy or all(isinstance(name, str) for name in own))
        names = [str(name) for name in (own if listed else nw.from_native(X, eager_only=True).columns)]
        repeated = sorted(name for name, count in Counter(names).items() if count > 1)
        if repeated:
            raise InvalidInputError(f"X has the column '{repeated[0]}' more than once. Rename or drop one.")
        index = None if lazy else getattr(X, "index", None)
        return Table(X, names, True, None if callable(index) else index)
    if hasattr(X, "collect") and hasattr(X, "collect_schema"):
        raise InvalidInputError(f"X is a lazy {type(X).__name__}; pass X.collect().")
    if isinstance(X, np.ndarray) and X.dtype == object:
        X = _numbers_if_all_are(X)
    array = X if hasattr(X, "dtype") and getattr(X, "ndim", 0) == 2 and not hasattr(X, "toarray") else as_array(X, "X")
    if array.ndim != 2:
        raise InvalidInputError(f"X must have two dimensions, (rows, columns); got {array.ndim}.")
    return Table(array, default_names(array.shape[1]), False, None)


def _numbers_if_all_are(X: NDArray[Any]) -> NDArray[Any]:
    """Objects that are all numbers, as numbers; text that looks like numbers stays text."""
    if not all(isinstance(value, (int, float, np.number, np.bool_)) for value in X.ravel()):
        return X
    return X.astype(np.float64)
