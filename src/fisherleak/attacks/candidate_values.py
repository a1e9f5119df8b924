"""Which values a column or a label may have to an attacker, and which of them each row has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from fisherleak._support.arrays import Array, host, like, namespace
from fisherleak._support.checks import nearest
from fisherleak._support.namespaces import Estimator, VectorLike
from fisherleak.engine.fit.minimise import Fit, is_fit
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.models import Table, checked_model, final_estimator
from fisherleak.rows.selection import rows_by_group

MOST_NUMBERS = 20
"""A numeric column with more different values than this needs a list of candidates."""
BINS = 10
"""A numeric label with more different values has the medians of so many bins of equal counts as candidates."""


def classifies(model: Estimator, fit: Fit) -> bool:
    """Whether labels are classes."""
    if is_fit(model):
        return bool(fit.loss.labels.binary or getattr(fit.loss, "classes", False))
    return bool(is_classifier(final_estimator(checked_model(model))))


def values_of_label(
    model: Estimator, fit: Fit, given: VectorLike, y: Array, output: int, values: Any
) -> tuple[tuple[Any, ...], tuple[float, ...], Array]:
    """Candidates for the label, each as the loss takes it, and the candidate of every row (-1 where there is none).

    Parameters
    ----------
    given : array of shape (n,)
        Labels as the user has them.
    y : array of shape (n,) or (n, K)
        As the loss takes them.
    output : int
        Of several numbers, the one under attack.
    values : sequence, optional
        Candidates; by default all classes, or all numbers where they are few, or else the medians of ten bins.
    """
    if getattr(None if is_fit(model) else final_estimator(model), "class_weight", None) is not None:
        raise UnsupportedModelError(
            "The label of a model with class_weight cannot be attacked: another label has another weight. Fit it with "
            "sample_weight instead."
        )
    numbers = host(y if y.ndim == 1 else y[:, output])
    if not classifies(model, fit):
        return _number_labels(fit, numbers, y, values)
    labels = np.asarray(host(given) if hasattr(given, "detach") else given)
    labels = labels.reshape(-1) if labels.size == numbers.size else labels
    known = rows_by_group(labels, numbers.shape[0])
    chosen = list(known) if values is None else _listed(values, "label")
    _check_candidates(chosen, "label")
    codes = _codes_of(chosen, known, numbers.shape[0], "the label")
    encoded = tuple(float(numbers[int(known[value][0])]) for value in chosen)
    return tuple(chosen), encoded, like(codes, y, namespace(y))


def _number_labels(
    fit: Fit, numbers: NDArray[np.float64], y: Array, values: Any
) -> tuple[tuple[Any, ...], tuple[float, ...], Array]:
    found = np.unique(numbers)
    if values is not None:
        chosen = _listed(host(values) if hasattr(values, "detach") else values, "label")
    elif found.size > MOST_NUMBERS:
        middles = (np.arange(BINS) + 0.5) / BINS
        chosen = np.unique(np.quantile(numbers, middles, method="nearest")).tolist()
    else:
        chosen = found.tolist()
    _check_candidates(chosen, "label")
    codes = _nearest_numbers(numbers, chosen, "label")
    encoded = tuple(float(value) for value in chosen)
    for value in encoded:
        if not bool(fit.loss.labels.accepts(np.asarray([value]))[0]):
            raise InvalidInputError(f"values for the label must be {fit.loss.labels.rule}; got {value:g}.")
    return tuple(chosen), encoded, like(codes, y, namespace(y))


def values_of_column(
    table: Table, position: int, values: Any, in_place: bool
) -> tuple[tuple[Any, ...], tuple[int | None, ...], Array]:
    """Candidate values, a row that shows each, and the candidate of every row (-1 where there is none)."""
    if in_place:
        return _values_in_place(table.values[:, position], table.names[position], values)
    name = table.names[position]
    column = table.column(position)
    numeric = table.is_numeric(position) and column.dtype.kind != "b"
    known = _known(column, table.n, name, numeric)
    if values is None:
        if numeric and len(known) > MOST_NUMBERS:
            _refuse_many(name, len(known), min(known), max(known))
        chosen = list(known)
        if len(chosen) == 1:
            raise InvalidInputError(
                f"Column '{name}' has one value only ({str(chosen[0])[:40]}): there is nothing to infer. Choose another column."
            )
    else:
        chosen = _listed(values, name)
    _check_candidates(chosen, name)
    samples = tuple(int(known[value][0]) if value in known else None for value in chosen)
    if numeric:
        return tuple(chosen), samples, _nearest_numbers(column.astype(np.float64), chosen, name)
    return tuple(chosen), samples, _codes_of(chosen, known, table.n, f"column '{name}'")


def _values_in_place(column: Array, name: str, values: Any) -> tuple[tuple[Any, ...], tuple[int | None, ...], Array]:
    """The same for a column of numbers that is not NumPy's: it stays where it is."""
    xp = namespace(column)
    found = xp.unique_values(column)
    if values is None:
        if found.shape[0] > MOST_NUMBERS:
            _refuse_many(name, found.shape[0], float(xp.min(found)), float(xp.max(found)))
        chosen = np.sort(host(found)).tolist()
    else:
        chosen = _listed(host(values) if hasattr(values, "shape") else values, name)
    _check_candidates(chosen, name)
    matches = [column == value for value in chosen]
    samples = tuple(int(xp.argmax(xp.astype(match, xp.int64))) if bool(xp.any(match)) else None for match in matches)
    return tuple(chosen), samples, _nearest_numbers(xp.astype(column, xp.float64, copy=True), chosen, name)


def _refuse_many(name: str, count: int, low: float, high: float) -> NoReturn:
    raise InvalidInputError(
        f"Column '{name}' is numeric with {count} different values: pass the candidates that the attacker considers, such as "
        f"values=[{low:g}, {high:g}]."
    )


def _codes_of(chosen: list[Any], known: dict[Any, Any], n: int, whose: str) -> NDArray[np.int64]:
    """The candidate of every row, -1 where there is none, from the rows of each value; one that no row has is refused."""
    codes = np.full(n, -1)
    for code, value in enumerate(chosen):
        if value not in known:
            raise InvalidInputError(
                f"values has {value!r}, which {whose} never has. {nearest(str(value), [str(v) for v in known])}"
            )
        codes[host(known[value])] = code
    return codes


def _check_candidates(chosen: list[Any], name: str) -> None:
    if len(chosen) < 2 or len(set(chosen)) != len(chosen):
        raise InvalidInputError(
            f"values must be at least two different candidates for column '{name}'; got {str(chosen[:5])[:80]}."
        )


def _known(column: NDArray[Any], n: int, name: str, numeric: bool) -> dict[Any, NDArray[np.int64]]:
    """Rows of each value; a number that is missing is no value."""
    try:
        known = rows_by_group(column, n)
    except (InvalidInputError, TypeError):
        raise InvalidInputError(
            f"Column '{name}' holds neither numbers nor text: its values cannot be listed."
        ) from None
    return {value: rows for value, rows in known.items() if value is not None or not numeric}


def _listed(values: Any, name: str) -> list[Any]:
    found = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(found, (str, bytes)) or not isinstance(found, Iterable):
        raise InvalidInputError(f"values must be a list of candidates for column '{name}'; got {found!r}.")
    chosen = list(found)
    for value in chosen:
        if isinstance(value, (list, dict, set, np.ndarray)):
            raise InvalidInputError(f"values must be single candidates for column '{name}'; got {str(value)[:40]}.")
    # missing values are known as None, however they are written
    return [None if value is None or value != value else value for value in chosen]


def _nearest_numbers(column: Array, chosen: list[Any], name: str) -> Array:
    numbers = []
    for value in chosen:
        try:
            number = float(value) if not isinstance(value, (bool, str)) else float("nan")
        except (TypeError, ValueError, OverflowError):
            number = float("nan")
        if not np.isfinite(number):
            raise InvalidInputError(
                f"values for the numeric column '{name}' must be finite numbers; got {str(value)[:40]}."
            )
        numbers.append(number)
    xp = namespace(column)
    order = np.argsort(numbers)
    ordered = np.asarray(numbers)[order]
    middles = ordered[:-1] + np.diff(ordered) / 2
    missing = xp.isnan(column)
    places = xp.searchsorted(like(middles, column, xp), xp.where(missing, 0.0, column))
    return xp.where(missing, -1, xp.take(like(order, column, xp), places))


# A prior for each row: what an attacker believes of each candidate before he sees a model, (n, k).
#
# Beliefs of rows stand wherever a prior of all rows can: the most probable candidate of row i maximises
# :math:`\log P_{ik} + \log f(w' - w_k)`.


def as_beliefs(prior: Any, n: int, k: int) -> NDArray[np.float64] | None:
    """Probabilities of the candidates of each row, (n, k), that sum to one; None where the prior is one for all rows."""
    if hasattr(prior, "items") or np.ndim(prior) != 2:
        return None
    try:
        given = np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"prior must hold probabilities; got {str(prior)[:60]}.") from None
    if given.shape != (n, k):
        raise InvalidInputError(
            f"prior of each row must have shape ({n}, {k}), a column for each candidate; got {given.shape}."
        )
    total = given.sum(axis=1, keepdims=True)
    if not (np.isfinite(given).all() and (given >= 0).all() and (total > 0).all()):
        raise InvalidInputError("prior must be finite and zero or more everywhere, and not all zero in any row.")
    return np.asarray(given / total)
