"""Rows at the public edge: training data, chosen rows and groups, checked where they are and in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._array import Array, as_array, device, host, is_lazy, is_lazy_frame, like, namespace
from fisherleak._blocks import aligned, gather, map_rows, positions, sum_rows, with_known_rows
from fisherleak.errors import InvalidInputError
from fisherleak.losses import Loss

__all__ = [
    "check_rows",
    "check_training",
    "check_values",
    "check_weights",
    "distinct",
    "in_order",
    "lazy_labels",
    "missing",
    "rows_by_group",
    "same_rows",
    "some_rows",
    "training_rows",
]


def check_training(
    X: Any, y: Any, weights: Any, loss: Loss, names: Sequence[str] | None = None
) -> tuple[Array, Array, Array | None]:
    """X (n, d), y (n,) and weights (n,) or None, as the loss takes them, checked in one pass over the rows.

    Same library, same length, not empty, all finite; columns are named where they have names. Weights are zero or more and
    labels inside the loss's domain, with both classes present among the rows that count.
    """
    X, y, weights = training_rows(X, y, weights, names)
    check_values(X, y, weights, loss, names)
    return X, y, weights


def check_values(X: Array, y: Array, weights: Array | None, loss: Loss, names: Sequence[str] | None) -> None:
    """The values of rows as ``training_rows`` gives them, in one pass."""
    xp = namespace(X)

    def block(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
        counted = xp.ones_like(y, dtype=xp.bool) if weights is None else weights > 0
        known = xp.ones_like(y, dtype=xp.bool) if weights is None else _finite(weights, xp) & (weights >= 0)
        # y may be NaN here, which no loss accepts: finite labels are looked at first
        by_row = (~_finite(y, xp), ~known, counted, ~loss.labels.accepts(y), (y == 1) & counted, (y == 0) & counted)
        counts = [1 - xp.astype(xp.all(_finite(X, xp)), xp.int64), *(xp.sum(xp.astype(x, xp.int64)) for x in by_row)]
        return (xp.stack(counts),)

    (counts,) = sum_rows(block, X, y, weights)
    bad_x, bad_y, bad_weights, counted, outside, ones, zeros = (int(x) for x in host(counts))
    if bad_x:
        raise InvalidInputError(_where_not_finite(X, names))
    if bad_y:
        row, value = _first(y, lambda y: ~_finite(y, xp))
        raise InvalidInputError(f"y must be finite; row {row} is {value}. Drop or fill such rows first.")
    if bad_weights:
        assert weights is not None
        row, value = _first(weights, lambda weights: ~(_finite(weights, xp) & (weights >= 0)))
        raise InvalidInputError(
            f"sample_weight must be finite and zero or more; row {row} is {value}. A weight of zero leaves a row out."
        )
    if not counted:
        raise InvalidInputError("sample_weight is zero for every row; at least one row must count.")
    if outside:
        row, value = _first(y, lambda y: ~loss.labels.accepts(y))
        raise InvalidInputError(
            f"The {loss.name} loss needs labels that are {loss.labels.rule}; y is {value:g} in row {row}. "
            "Encode y, or choose another loss."
        )
    if loss.labels.binary and not (ones and zeros):
        raise InvalidInputError(
            f"y has one class only ({1 if ones else 0}); the {loss.name} loss needs rows of both, with a weight above zero."
        )


def check_weights(weights: Any, X: Array) -> Array | None:
    """Example weights (n,): finite, none negative, not all zero."""
    if weights is None:
        return None
    checked = as_array(weights, "sample_weight")
    (weights,) = with_known_rows(weights if is_lazy_frame(weights) else checked)
    weights = _vector(weights, "sample_weight", X.shape[0], X)
    xp = namespace(X)

    def block(weights: Array) -> tuple[Any, ...]:
        known = _finite(weights, xp) & (weights >= 0)
        return xp.sum(xp.astype(~known, xp.int64)), xp.sum(xp.astype(weights > 0, xp.int64))

    bad, counted = sum_rows(block, weights)
    if int(bad):
        row, value = _first(weights, lambda weights: ~(_finite(weights, xp) & (weights >= 0)))
        raise InvalidInputError(
            f"sample_weight must be finite and zero or more; row {row} is {value}. A weight of zero leaves a row out."
        )
    if not int(counted):
        raise InvalidInputError("sample_weight is zero for every row; at least one row must count.")
    return weights


def same_rows(first: Array, second: Array) -> bool:
    """Whether two row arrays hold the same values."""
    xp = namespace(first)
    (apart,) = sum_rows(lambda a, b: (1 - xp.astype(xp.all(a == b), xp.int64),), first, second)
    return not int(apart)


def training_rows(X: Any, y: Any, weights: Any, names: Sequence[str] | None) -> tuple[Array, Array, Array | None]:
    """Arrays of one library, (n, d), (n,) and (n,), and in the same blocks."""
    given = {"X": X, "y": y, "sample_weight": weights}
    arrays: dict[str, Any] = {
        name: None if x is None else as_array(x, name, names if name == "X" else None) for name, x in given.items()
    }
    if arrays["X"].ndim != 2:
        raise InvalidInputError(
            f"X must have two dimensions, (rows, columns); got {arrays['X'].ndim}. For one column use X[:, None]."
        )
    X, y, weights = with_known_rows(*(x if is_lazy_frame(x) else arrays[name] for name, x in given.items()))
    n, d = X.shape
    if n == 0 or d == 0:
        raise InvalidInputError(f"X must have at least one row and one column; got {n} rows and {d} columns.")
    y = _vector(y, "y", n, X)
    weights = None if weights is None else _vector(weights, "sample_weight", n, X)
    X, y, weights = aligned((X, y, weights))
    return X, y, weights


def check_rows(rows: Any, n: int, reference: Array) -> Array:
    """A mask, a slice or a list of row numbers as positions from 0 to n - 1, none of them twice, beside ``reference``.

    Arrays of the library of ``reference`` stay where they are; a lazy mask stays as it is.
    """
    if isinstance(rows, str) or (isinstance(rows, (list, tuple)) and any(isinstance(row, str) for row in rows)):
        raise InvalidInputError("rows are positions, from 0, or a mask; not labels of the index.")
    if isinstance(rows, slice):
        rows = np.arange(n)[rows]
    chosen = as_array(sorted(rows) if isinstance(rows, set) else rows, "rows")
    if is_lazy(chosen) or is_lazy(reference):
        return _lazy_rows(chosen, n, reference)
    xp = namespace(reference)
    if namespace(chosen) is not xp:
        if not isinstance(chosen, np.ndarray):
            chosen = host(chosen)
        chosen = xp.asarray(chosen, device=device(reference))
    return _positions(chosen, n, xp)


def _positions(chosen: Array, n: int, xp: Any) -> Array:
    if chosen.ndim == 0:
        chosen = xp.reshape(chosen, (1,))
    if chosen.dtype == xp.bool:
        if chosen.shape != (n,):
            raise InvalidInputError(f"rows as a mask must have {n} values; got shape {tuple(chosen.shape)}.")
        chosen = xp.nonzero(chosen)[0]
    if chosen.ndim != 1 or chosen.shape[0] == 0 or not xp.isdtype(chosen.dtype, "integral"):
        raise InvalidInputError("rows must be a mask or a list of row numbers with at least one row in it.")
    chosen = xp.astype(chosen, xp.int64)
    outside = (chosen < -n) | (chosen >= n)
    if bool(xp.any(outside)):
        raise InvalidInputError(
            f"rows must be from 0 to {n - 1}; got {int(chosen[int(xp.argmax(xp.astype(outside, xp.int64)))])}."
        )
    chosen = xp.where(chosen < 0, chosen + n, chosen)
    ordered = xp.sort(chosen)
    if bool(xp.any(ordered[1:] == ordered[:-1])):
        raise InvalidInputError("rows must not repeat: a row can be counted only once.")
    return chosen


def _lazy_rows(chosen: Array, n: int, reference: Array) -> Array:
    """Positions on the host, or a lazy mask with at least one row in it."""
    if not is_lazy(chosen):
        return _positions(np.asarray(chosen), n, namespace(np.empty(0)))
    if not is_lazy(reference):
        raise InvalidInputError("rows is a Dask array and X is not: pass rows.compute().")
    (chosen,) = with_known_rows(chosen)
    if chosen.dtype != bool or chosen.shape != (n,):
        raise InvalidInputError(
            f"rows as a Dask array must be a mask of {n} values; got {chosen.dtype}, {chosen.shape}."
        )
    xp = namespace(chosen)
    (count,) = sum_rows(lambda mask: (xp.sum(xp.astype(mask, xp.int64)),), chosen)
    if not int(count):
        raise InvalidInputError("rows must be a mask or a list of row numbers with at least one row in it.")
    return chosen


def rows_by_group(labels: Any, n: int) -> dict[Any, Array]:
    """Row numbers of each group, groups in order where they have one; missing labels are the group None.

    Positions are of the library of the labels, and where they are; those of lists and tables are NumPy's.
    """
    if _is_device_array(labels):
        return _rows_by_number(labels, n)
    if not hasattr(labels, "tolist") and not isinstance(labels, Iterable):
        raise InvalidInputError(f"groups must have one label for each of the {n} rows; got {labels!r}.")
    values = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    if not isinstance(values, list) or len(values) != n or isinstance(values[0], list):
        count = len(values) if isinstance(values, list) and not isinstance(values[0], list) else "another shape"
        raise InvalidInputError(f"groups must have one label for each of the {n} rows; got {count}.")
    members: dict[Any, list[int]] = {}
    for row, value in enumerate(values):
        members.setdefault(None if _is_missing(value) else value, []).append(row)
    return {group: np.array(members[group]) for group in in_order(members)}


def some_rows(n: int, most: int, seed: int) -> NDArray[np.int64]:
    """All rows, or ``most`` of them drawn at random, in order."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def lazy_labels(labels: Any, X: Array) -> Array:
    """Groups of lazy rows, numbers or text, in the blocks of X."""
    if not is_lazy_frame(labels) and not is_lazy(labels):
        labels = np.asarray(labels.tolist() if hasattr(labels, "tolist") else list(labels), dtype=object)
    (labels,) = with_known_rows(labels)
    if labels.ndim != 1 or labels.shape[0] != X.shape[0]:
        raise InvalidInputError(
            f"groups must have one label for each of the {X.shape[0]} rows; got shape {tuple(labels.shape)}."
        )
    return aligned((X, labels))[1]


def distinct(labels: Array) -> list[Any]:
    """The groups of lazy labels, in order: one pass."""

    def block(labels: Any) -> tuple[set[Any]]:
        return ({None if _is_missing(value) else value for value in np.asarray(labels).tolist()},)

    (found,) = sum_rows(block, labels, join=lambda a, b: (a[0] | b[0],))
    return in_order(found)


def missing(labels: Any) -> NDArray[np.bool_]:
    """Where a label is None, NaN or pandas.NA."""
    return np.array([_is_missing(value) for value in labels.tolist()], dtype=bool)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA
        return True


def in_order(groups: Iterable[Any]) -> list[Any]:
    """Groups in their order, or in that of their names where they have none; None is the last."""
    known = [group for group in groups if group is not None]
    try:
        order = sorted(known)
    except TypeError:
        order = sorted(known, key=str)
    return order + [None] * (None in groups)


def _is_device_array(labels: Any) -> bool:
    """A numeric array that is neither NumPy's nor a table's: it may be long, and elsewhere."""
    if isinstance(labels, (np.ndarray, list, tuple)) or not hasattr(labels, "ndim"):
        return False
    try:
        namespace(labels)
    except TypeError:
        return False
    return True


def _rows_by_number(labels: Array, n: int) -> dict[Any, Array]:
    """The same for numbers on a device: sorted there, and only the groups' values and sizes are read."""
    xp = namespace(labels)
    if labels.ndim != 1 or labels.shape[0] != n:
        raise InvalidInputError(
            f"groups must have one label for each of the {n} rows; got an array of shape {tuple(labels.shape)}."
        )
    labels = xp.astype(labels, xp.int64) if labels.dtype == xp.bool else labels
    gone = xp.isnan(labels) if xp.isdtype(labels.dtype, "real floating") else None
    rows = None
    if gone is not None and bool(xp.any(gone)):
        rows = xp.nonzero(~gone)[0]
        labels = xp.take(labels, rows)
    groups: dict[Any, Array] = {}
    if labels.shape[0]:
        values, counts = xp.unique_counts(labels)
        order = xp.argsort(labels, stable=True)
        order = order if rows is None else xp.take(rows, order)
        ascending = np.argsort(host(values))
        sizes = host(counts)[ascending]
        edges = np.cumsum([0, *sizes.tolist()])
        for k, value in enumerate(host(values)[ascending].tolist()):
            groups[value] = order[int(edges[k]) : int(edges[k + 1])]
    if rows is not None:
        assert gone is not None
        groups[None] = xp.nonzero(gone)[0]
    return groups


def _vector(x: Array, name: str, n: int, X: Array) -> Array:
    if x.ndim == 2 and x.shape[1] == 1 and is_lazy(x):
        x = x[:, 0]  # a table of one column
    if x.ndim != 1:
        raise InvalidInputError(f"{name} must have one dimension; got shape {tuple(x.shape)}. Use {name}.ravel().")
    if x.shape[0] != n:
        raise InvalidInputError(f"{name} must have one value for each of the {n} rows of X; got {x.shape[0]}.")
    xp = namespace(X)
    try:
        namespace(X, x)
        same = is_lazy(X) or not is_lazy(x)
    except TypeError:
        same = isinstance(x, np.ndarray)
    if not same:
        raise InvalidInputError(
            f"X and {name} must be arrays of the same library; got {type(X).__name__} and {type(x).__name__}."
        ) from None
    if is_lazy(X):
        beside = aligned((X, x))[1]
        return beside if x.dtype == np.float64 else map_rows(lambda x: xp.astype(x, xp.float64), beside)
    return xp.astype(xp.asarray(x, device=device(X)), xp.float64)


def _finite(x: Array, xp: Any) -> Array:
    if xp.isdtype(x.dtype, "real floating"):
        return xp.isfinite(x)
    return xp.ones_like(x, dtype=xp.bool)


def _first(x: Array, wrong: Callable[[Array], Array]) -> tuple[int, float]:
    """The first row where ``wrong(block)`` is true, and its value."""
    row = _first_row(x, wrong)
    (value,) = gather([x], like([row], np.empty(0) if is_lazy(x) else x, namespace(x)))
    return row, float(value[0])  # type: ignore[index]


def _first_row(x: Array, wrong: Callable[[Array], Array]) -> int:
    xp = namespace(x)
    n = x.shape[0]

    def block(x: Array, rows: Array) -> tuple[Any]:
        return (xp.min(xp.where(wrong(x), rows, n)),)

    (row,) = sum_rows(block, x, positions(x), join=lambda a, b: (xp.minimum(a[0], b[0]),))
    return int(row)


def _where_not_finite(X: Array, names: Sequence[str] | None) -> str:
    xp = namespace(X)
    (count,) = sum_rows(lambda block: (xp.sum(xp.astype(~_finite(block, xp), xp.int64)),), X)
    row = _first_row(X, lambda block: xp.any(~_finite(block, xp), axis=1))
    (found,) = gather([X], like([row], np.empty(0) if is_lazy(X) else X, xp))
    values = host(xp.astype(found, xp.float64))[0]
    column = int(np.argmax(~np.isfinite(values)))
    shown = column if names is None else f"'{names[column]}'"
    return (
        f"X must be finite; row {row}, column {shown} is {values[column]} ({int(count)} such value"
        f"{'s' if int(count) > 1 else ''} in all). Drop or fill them first."
    )
