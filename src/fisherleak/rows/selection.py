"""Which rows: masks, positions, groups and missing labels, checked where the rows are and in one pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, Namespace, as_array, device, host, is_lazy, is_lazy_frame, namespace
from fisherleak._support.namespaces import VectorLike
from fisherleak.errors import InvalidInputError
from fisherleak.rows import aligned, sum_rows, with_known_rows


def same_rows(first: Array, second: Array) -> bool:
    """Whether two row arrays hold the same values."""
    xp = namespace(first)
    (apart,) = sum_rows(lambda a, b: (1 - xp.astype(xp.all(a == b), xp.int64),), first, second)
    return not int(apart)


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


def _positions(chosen: Array, n: int, xp: Namespace) -> Array:
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


def rows_by_group(labels: VectorLike, n: int) -> dict[Any, Array]:
    """Row numbers of each group, groups in order where they have one; missing labels are the group None.

    Positions are of the library of the labels, and where they are; those of lists and tables are NumPy's.
    """
    if _is_device_array(labels) or (isinstance(labels, np.ndarray) and labels.dtype.kind in "iu" and labels.ndim == 1):
        return _rows_by_number(labels, n)
    if not hasattr(labels, "tolist") and not isinstance(labels, Iterable):
        raise InvalidInputError(f"groups or person must have one label for each of the {n} rows; got {labels!r}.")
    values = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    if not isinstance(values, list) or len(values) != n or isinstance(values[0], list):
        count = len(values) if isinstance(values, list) and not isinstance(values[0], list) else "another shape"
        raise InvalidInputError(f"groups or person must have one label for each of the {n} rows; got {count}.")
    members: dict[Any, list[int]] = {}
    for row, value in enumerate(values):
        members.setdefault(None if _is_missing(value) else value, []).append(row)
    return {group: np.array(members[group]) for group in in_order(members)}


def some_rows(n: int, most: int, seed: int | None) -> NDArray[np.int64]:
    """All rows, or ``most`` of them drawn at random, in order; without a seed, by the operating system's randomness."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def mixed_bits(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers that look random, one for each key: the last steps of splitmix64."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(keys ^ (keys >> np.uint64(31)))


def lazy_labels(labels: VectorLike, X: Array) -> Array:
    """Groups of lazy rows, numbers or text, in the blocks of X."""
    if not is_lazy_frame(labels) and not is_lazy(labels):
        labels = np.asarray(labels.tolist() if hasattr(labels, "tolist") else list(labels), dtype=object)
    (labels,) = with_known_rows(labels)
    if labels.ndim != 1 or labels.shape[0] != X.shape[0]:
        raise InvalidInputError(
            f"groups or person must have one label for each of the {X.shape[0]} rows; got shape {tuple(labels.shape)}."
        )
    return aligned((X, labels))[1]


def distinct(labels: Array) -> list[Any]:
    """The groups of lazy labels, in order: one pass."""

    def block(labels: VectorLike) -> tuple[set[Any]]:
        return ({None if _is_missing(value) else value for value in np.asarray(labels).tolist()},)

    (found,) = sum_rows(block, labels, join=lambda a, b: (a[0] | b[0],))
    return in_order(found)


def missing(labels: VectorLike) -> NDArray[np.bool_]:
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


def _is_device_array(labels: VectorLike) -> bool:
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
            f"groups or person must have one label for each of the {n} rows; got an array of shape {tuple(labels.shape)}."
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
