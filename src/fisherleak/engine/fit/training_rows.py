"""Training data at the public edge: one library, one length, finite, labels that the loss accepts, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, as_array, device, host, is_lazy, is_lazy_frame, like, namespace
from fisherleak._support.namespaces import Namespace, Sums, TableLike, VectorLike
from fisherleak.engine.losses import Loss
from fisherleak.engine.magnitudes import check_extremes, extremes
from fisherleak.errors import InvalidInputError
from fisherleak.rows import aligned, gather, map_rows, positions, sum_rows, with_known_rows

__all__ = ["check_training", "check_values", "check_weights", "training_rows"]


def check_training(
    X: TableLike,
    y: VectorLike,
    weights: VectorLike,
    loss: Loss,
    names: Sequence[str] | None = None,
    intercept: bool = False,
) -> tuple[Array, Array, Array | None]:
    """X (n, d), y (n,) and weights (n,) or None, as the loss takes them, checked in one pass over the rows.

    Same library, same length, not empty, all finite and of magnitudes that can be squared (``magnitudes``); columns are named
    where they have names. Weights are zero or more and labels inside the loss's domain, with both classes present among the
    rows that count.
    """
    if y is None:
        raise InvalidInputError("y must be an array of labels; got None.")
    X, y, weights = training_rows(X, y, weights, names)
    check_values(X, y, weights, loss, names, intercept)
    return X, y, weights


def check_values(
    X: Array, y: Array, weights: Array | None, loss: Loss, names: Sequence[str] | None, intercept: bool = False
) -> None:
    """The values of rows as ``training_rows`` gives them, in one pass."""
    xp = namespace(X)

    def block(X: Array, y: Array, weights: Array | None) -> Sums:
        counted = xp.ones_like(y, dtype=xp.bool) if weights is None else weights > 0
        known = xp.ones_like(y, dtype=xp.bool) if weights is None else _finite(weights, xp) & (weights >= 0)
        # y may be NaN here, which no loss accepts: finite labels are looked at first
        by_row = (~_finite(y, xp), ~known, counted, ~loss.labels.accepts(y), (y == 1) & counted, (y == 0) & counted)
        return xp.stack([xp.sum(xp.astype(x, xp.int64)) for x in by_row]), extremes(X, y, weights)

    def joined(a: Sums, b: Sums) -> Sums:
        return a[0] + b[0], xp.maximum(a[1], b[1])

    counts, largest = sum_rows(block, X, y, weights, join=joined)
    bad_y, bad_weights, counted, outside, ones, zeros = (int(x) for x in host(counts))
    # a value that is not finite makes the largest of its column so: no pass of its own, and no mask
    if not np.isfinite(host(largest)[: X.shape[1]]).all():
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
    check_extremes(largest, loss.labels.binary, intercept, names)


def check_weights(weights: VectorLike, X: Array) -> Array | None:
    """Example weights (n,): finite, none negative, not all zero."""
    if weights is None:
        return None
    checked = as_array(weights, "sample_weight")
    (weights,) = with_known_rows(weights if is_lazy_frame(weights) else checked)
    weights = _vector(weights, "sample_weight", X.shape[0], X)
    xp = namespace(X)

    def block(weights: Array) -> Sums:
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


def training_rows(
    X: TableLike, y: VectorLike, weights: VectorLike, names: Sequence[str] | None
) -> tuple[Array, Array, Array | None]:
    """Arrays of one library, (n, d), (n,) and (n,), and in the same blocks; y may be None where labels are no numbers yet."""
    given = {"X": X, "y": y, "sample_weight": weights}
    arrays: dict[str, Any] = {
        name: None if x is None and name != "X" else as_array(x, name, names if name == "X" else None)
        for name, x in given.items()
    }
    if arrays["X"].ndim != 2:
        raise InvalidInputError(
            f"X must have two dimensions, (rows, columns); got {arrays['X'].ndim}. For one column use X[:, None]."
        )
    X, y, weights = with_known_rows(*(x if is_lazy_frame(x) else arrays[name] for name, x in given.items()))
    n, d = X.shape
    if n == 0 or d == 0:
        raise InvalidInputError(f"X must have at least one row and one column; got {n} rows and {d} columns.")
    y = None if y is None else _vector(y, "y", n, X)
    weights = None if weights is None else _vector(weights, "sample_weight", n, X)
    X, y, weights = aligned((X, y, weights))
    return X, y, weights


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


def _finite(x: Array, xp: Namespace) -> Array:
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
