"""Checks at the public edge: each refusal carries the name, the value, the rule and the remedy."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._array import Array, as_array, device, host, namespace
from fisherleak._blocks import map_rows, sum_rows
from fisherleak.errors import InvalidInputError
from fisherleak.losses import Loss

__all__ = [
    "check_data",
    "check_labels",
    "check_noise",
    "check_positive",
    "check_rows",
    "check_weights",
    "column_names",
    "default_names",
    "nearest",
    "rows_by_group",
]


def column_names(X: Any) -> list[str] | None:
    """The names of a table's columns, or None for a bare array."""
    columns = getattr(X, "columns", None)
    return None if columns is None else [str(name) for name in columns]


def default_names(count: int) -> list[str]:
    return [f"x{j}" for j in range(count)]


def check_noise(noise: Any) -> None:
    """A noise record, not a number or a class."""
    if isinstance(noise, type) or not hasattr(noise, "unit_information_root"):
        shown = noise.__name__ if isinstance(noise, type) else repr(noise)
        raise InvalidInputError(f"noise must be a noise such as fisherleak.Gaussian(0.1); got {shown}.")


def check_positive(value: Any, name: str, *, zero: bool = False) -> float:
    """A finite number greater than zero (or zero), as a float."""
    rule = "zero or more" if zero else "greater than zero"
    if isinstance(value, (bool, str)) or not isinstance(value, (int, float, np.number)):
        raise InvalidInputError(f"{name} must be a number, {rule}; got {value!r}.")
    if not (math.isfinite(value) and (value > 0 or (zero and value == 0))):
        raise InvalidInputError(f"{name} must be a finite number, {rule}; got {value}.")
    return float(value)


def check_data(X: Any, y: Any, names: Sequence[str] | None = None) -> tuple[Array, Array]:
    """X (n, d) and y (n,): same library, same length, not empty, all finite; columns are named where they have names."""
    X, y = as_array(X, "X", names), as_array(y, "y")
    if X.ndim != 2:
        raise InvalidInputError(
            f"X must have two dimensions, (rows, columns); got {X.ndim}. For one column use X[:, None]."
        )
    n, d = X.shape
    if n == 0 or d == 0:
        raise InvalidInputError(f"X must have at least one row and one column; got {n} rows and {d} columns.")
    y = _vector(y, "y", n, X)
    xp = namespace(X)
    (bad_blocks,) = sum_rows(lambda block: (int(not bool(xp.all(_finite(block, xp)))),), X)
    if bad_blocks:
        raise InvalidInputError(_where_not_finite(X, names))
    wrong = ~_finite(y, xp)
    if bool(xp.any(wrong)):
        row = int(xp.argmax(xp.astype(wrong, xp.int64)))
        raise InvalidInputError(f"y must be finite; row {row} is {float(y[row])}. Drop or fill such rows first.")
    return X, y


def check_weights(weights: Any, X: Array) -> Array | None:
    """Example weights (n,): finite, none negative, not all zero."""
    if weights is None:
        return None
    weights = _vector(as_array(weights, "sample_weight"), "sample_weight", X.shape[0], X)
    xp = namespace(X)
    wrong = ~(_finite(weights, xp) & (weights >= 0))
    if bool(xp.any(wrong)):
        row = int(xp.argmax(xp.astype(wrong, xp.int64)))
        raise InvalidInputError(
            f"sample_weight must be finite and zero or more; row {row} is {float(weights[row])}. "
            "A weight of zero leaves a row out."
        )
    if not bool(xp.any(weights > 0)):
        raise InvalidInputError("sample_weight is zero for every row; at least one row must count.")
    return xp.astype(weights, xp.float64)


def check_labels(y: Array, weights: Array | None, loss: Loss) -> None:
    """Labels inside the loss's domain, and both classes present among the rows that count."""
    xp = namespace(y)
    wrong = ~loss.labels.accepts(y)
    if bool(xp.any(wrong)):
        row = int(xp.argmax(xp.astype(wrong, xp.int64)))
        raise InvalidInputError(
            f"The {loss.name} loss needs labels that are {loss.labels.rule}; y is {float(y[row]):g} in row {row}. "
            "Encode y, or choose another loss."
        )
    if loss.labels.binary:
        counts = xp.ones_like(y, dtype=xp.bool) if weights is None else weights > 0
        if not bool(xp.any((y == 1) & counts)) or not bool(xp.any((y == 0) & counts)):
            only = 1 if bool(xp.any((y == 1) & counts)) else 0
            raise InvalidInputError(
                f"y has one class only ({only}); the {loss.name} loss needs rows of both, with a weight above zero."
            )


def check_rows(rows: Any, n: int) -> NDArray[np.int64]:
    """A mask, a slice or a list of row numbers as positions from 0 to n - 1, none of them twice."""
    if isinstance(rows, str) or (isinstance(rows, (list, tuple)) and any(isinstance(row, str) for row in rows)):
        raise InvalidInputError("rows are positions, from 0, or a mask; not labels of the index.")
    if isinstance(rows, slice):
        rows = np.arange(n)[rows]
    positions = host(as_array(sorted(rows) if isinstance(rows, set) else rows, "rows"))
    if positions.ndim == 0:
        positions = positions[None]
    if positions.dtype == bool:
        if positions.shape != (n,):
            raise InvalidInputError(f"rows as a mask must have {n} values; got shape {positions.shape}.")
        positions = np.nonzero(positions)[0]
    if positions.ndim != 1 or positions.size == 0 or positions.dtype.kind not in "iu":
        raise InvalidInputError("rows must be a mask or a list of row numbers with at least one row in it.")
    outside = (positions < -n) | (positions >= n)
    if outside.any():
        raise InvalidInputError(f"rows must be from 0 to {n - 1}; got {positions[outside][0]}.")
    positions = positions.astype(np.int64) % n
    if np.unique(positions).size != positions.size:
        raise InvalidInputError("rows must not repeat: a row can be counted only once.")
    return positions


def nearest(name: str, names: Sequence[str]) -> str:
    """' Did you mean ...?' where a name is close, else the names there are."""
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"Did you mean '{close[0]}'?"
    shown = ", ".join(f"'{other}'" for other in names[:8])
    return f"There are: {shown}{', …' if len(names) > 8 else ''}."


def rows_by_group(labels: Any, n: int) -> dict[Any, NDArray[np.int64]]:
    """Row numbers of each group, groups in order where they have one; missing labels are the group None."""
    if not hasattr(labels, "tolist") and not isinstance(labels, Iterable):
        raise InvalidInputError(f"groups must have one label for each of the {n} rows; got {labels!r}.")
    values = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    if not isinstance(values, list) or len(values) != n or isinstance(values[0], list):
        count = len(values) if isinstance(values, list) and not isinstance(values[0], list) else "another shape"
        raise InvalidInputError(f"groups must have one label for each of the {n} rows; got {count}.")
    members: dict[Any, list[int]] = {}
    for row, value in enumerate(values):
        try:
            missing = value is None or bool(value != value)
        except TypeError:  # pandas.NA
            missing = True
        members.setdefault(None if missing else value, []).append(row)
    known = [group for group in members if group is not None]
    try:
        order = sorted(known)
    except TypeError:
        order = sorted(known, key=str)
    return {group: np.array(members[group]) for group in order + [None] * (None in members)}


def _vector(x: Array, name: str, n: int, X: Array) -> Array:
    if x.ndim != 1:
        raise InvalidInputError(f"{name} must have one dimension; got shape {tuple(x.shape)}. Use {name}.ravel().")
    if x.shape[0] != n:
        raise InvalidInputError(f"{name} must have one value for each of the {n} rows of X; got {x.shape[0]}.")
    xp = namespace(X)
    try:
        namespace(X, x)
    except TypeError:
        if not isinstance(x, np.ndarray):
            raise InvalidInputError(
                f"X and {name} must be arrays of the same library; got {type(X).__name__} and {type(x).__name__}."
            ) from None
    return xp.astype(xp.asarray(x, device=device(X)), xp.float64)


def _finite(x: Array, xp: Any) -> Array:
    if xp.isdtype(x.dtype, "real floating"):
        return xp.isfinite(x)
    return xp.ones_like(x, dtype=xp.bool)


def _where_not_finite(X: Array, names: Sequence[str] | None) -> str:
    xp = namespace(X)
    (count,) = sum_rows(lambda block: (xp.sum(xp.astype(~_finite(block, xp), xp.int64)),), X)
    by_row = map_rows(lambda block: xp.any(~_finite(block, xp), axis=1), X)
    row = int(xp.argmax(xp.astype(by_row, xp.int64)))
    values = host(xp.astype(X[row, :], xp.float64))
    column = int(np.argmax(~np.isfinite(values)))
    shown = column if names is None else f"'{names[column]}'"
    return (
        f"X must be finite; row {row}, column {shown} is {values[column]} ({int(count)} such value"
        f"{'s' if int(count) > 1 else ''} in all). Drop or fill them first."
    )
