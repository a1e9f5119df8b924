"""Training data, checked once at the public edge: one library, one length, finite, labels that the loss takes.

What takes a :class:`TrainingData` asks nothing of its arrays again.

Also here: classes as codes 0 to K - 1, where the rows are: numbers, truth values or text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, as_array, device, host, is_lazy, is_lazy_frame, like, namespace
from fisherleak._support.namespaces import Namespace, Sums, TableLike, VectorLike
from fisherleak.engine.losses.multi_output import own_class
from fisherleak.engine.magnitudes import check_extremes, extremes
from fisherleak.errors import InvalidInputError
from fisherleak.rows import aligned, gather, map_rows, positions, sum_rows, with_known_rows
from fisherleak.rows.selection import distinct, lazy_labels, missing

if TYPE_CHECKING:
    from fisherleak.engine.losses import Loss

MOST_CLASSES = 1000
"""More different labels than this are no classes."""


def classes_of(y: VectorLike, X: Array) -> NDArray[Any]:
    """The classes among labels that are whole numbers, truth values or text, in order: (K,), NumPy's."""
    y = _beside(y, X)
    if is_lazy(y):
        found = distinct(y)
        if None in found:
            raise InvalidInputError("y must be a class in every row; some labels are missing. Drop such rows first.")
        return _checked(np.array(found))
    if not isinstance(y, np.ndarray):
        return _checked(host(namespace(y).unique_values(y)))
    gone = missing(y)
    if gone.any():
        raise InvalidInputError(
            f"y must be a class in every row; row {int(np.argmax(gone))} is missing. Drop such rows first."
        )
    try:
        return _checked(np.unique(y))
    except TypeError:
        raise InvalidInputError(
            "y mixes text and numbers; write all of its classes as text, or all as numbers."
        ) from None


def _checked(classes: NDArray[Any]) -> NDArray[Any]:
    if classes.dtype.kind == "f":
        broken = classes[~(np.isfinite(classes) & (classes == np.round(classes)))]
        if broken.size:
            raise InvalidInputError(
                f"The softmax loss needs classes, whole numbers or text; y has {broken[0]:g}. Encode y, or use another loss."
            )
    if classes.size > MOST_CLASSES:
        raise InvalidInputError(
            f"y has {classes.size} different values, more than the {MOST_CLASSES} classes that are measured. Choose another "
            "loss, or merge classes."
        )
    return classes


def codes_of(y: VectorLike, classes: NDArray[Any], X: Array) -> Array:
    """Codes 0 to K - 1 of labels, (n,) in float64 and beside X; a label that is no class is refused."""
    y = _beside(y, X)
    xp = namespace(X)
    reference = np.asarray(classes)

    def block(y: Any) -> Array:
        labels = y if isinstance(y, np.ndarray) else host(y)
        try:
            places = np.clip(np.searchsorted(reference, labels), 0, reference.size - 1)
            known = reference[places] == labels
        except TypeError:
            known = np.zeros(labels.shape[0], dtype=bool)
        codes = np.where(known, places, -1.0) if np.any(known) else np.full(labels.shape[0], -1.0)
        return codes if isinstance(y, np.ndarray) else like(codes, y, namespace(y))

    codes = map_rows(block, y)
    (unknown,) = sum_rows(lambda codes: (namespace(codes).sum(namespace(codes).astype(codes < 0, xp.int64)),), codes)
    if int(unknown):
        shown = ", ".join(repr(label) for label in reference[:6].tolist())
        raise InvalidInputError(
            f"y is none of the model's classes ({shown}{'…' * (reference.size > 6)}) in {int(unknown)} rows."
        )
    return codes


def _beside(y: VectorLike, X: Array) -> Any:
    """Labels of any kind, (n,), where the rows are."""
    if is_lazy(X):
        return lazy_labels(y, X)
    if not isinstance(X, np.ndarray) and not isinstance(y, (list, tuple, np.ndarray)) and hasattr(y, "shape"):
        labels: Any = y
    else:
        labels = host(y) if hasattr(y, "detach") else np.asarray(y)
        if labels.dtype == object:
            labels = _plain(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise InvalidInputError(f"y must have one dimension; got shape {tuple(labels.shape)}. Use y.ravel().")
    if labels.shape[0] != X.shape[0]:
        raise InvalidInputError(f"y must have one value for each of the {X.shape[0]} rows of X; got {labels.shape[0]}.")
    if isinstance(labels, np.ndarray) and not isinstance(X, np.ndarray):
        if labels.dtype.kind not in "biuf":
            raise InvalidInputError(
                f"y holds text, which arrays of {type(X).__name__} do not: pass the codes of the classes, whole numbers."
            )
        return namespace(X).asarray(labels, device=device(X))
    return labels


def _plain(labels: NDArray[Any]) -> NDArray[Any]:
    """Objects as text or numbers, where all of them are one or the other."""
    if all(isinstance(label, str) for label in labels.ravel().tolist()):
        return labels.astype(str)
    return labels


def check_classes(codes: Array, weights: Array | None, classes: Sequence[Any]) -> None:
    """Refuse fewer than two classes, and one without a row that counts."""
    K = len(classes)
    if K < 2:
        raise InvalidInputError(f"y has one class only ({classes[0]}); a model of classes needs rows of two or more.")

    def block(codes: Array, weights: Array | None) -> Sums:
        xp = namespace(codes)
        own = own_class(codes, K)
        counted = own if weights is None else own & (weights[:, None] > 0)
        return (xp.sum(xp.astype(counted, xp.int64), axis=0),)

    (counts,) = sum_rows(block, codes, weights)
    empty = np.flatnonzero(host(counts) == 0)
    if empty.size:
        raise InvalidInputError(
            f"Class {classes[int(empty[0])]!r} has no row with a weight above zero: leave its rows out."
        )


@dataclass(frozen=True)
class TrainingData:
    """Rows of one array library, on one device, with their labels as a loss takes them and their weights."""

    X: Array
    """(n, d): the features."""
    y: Array
    """(n,): numbers, or codes of classes; (n, K) of several numbers."""
    weights: Array | None = None
    """(n,); None where all rows count alike."""
    names: Sequence[str] | None = None
    """The columns' names; None of a bare array."""
    classes: NDArray[Any] | None = None
    """(K,): what the codes of a loss of several classes stand for."""

    @property
    def xp(self) -> Namespace:
        """The array library."""
        return namespace(self.X)


def training_data(
    X: TableLike,
    y: Any,
    weights: VectorLike,
    loss: Loss,
    names: Sequence[str] | None = None,
    intercept: bool = False,
    classes: Any = None,
) -> TrainingData:
    """X (n, d), y and weights (n,) or None as the loss takes them, checked in one pass over the rows.

    With ``classes``, y holds codes of them; without, it holds the classes of a loss of several.
    """
    data = shaped_data(X, y, weights, loss, names, classes, coded=classes is not None)
    check_training_data(data, loss, intercept)
    return data


def shaped_data(
    X: TableLike, y: Any, weights: VectorLike, loss: Loss, names: Sequence[str] | None, classes: Any, coded: bool
) -> TrainingData:
    """Arrays of one library, in the same blocks, and of the right shapes; their values are not looked at."""
    if loss.classes and not coded:
        X, _, weights = _arrays(X, None, weights, names)
        known = classes_of(y, X) if classes is None else classes
        return TrainingData(X, codes_of(y, known, X), weights, names, known)
    if not loss.several and y is None:
        raise InvalidInputError("y must be an array of labels; got None.")
    if not loss.several or loss.classes:
        if classes is not None and not isinstance(classes, np.ndarray):
            given, classes = classes, np.empty(len(classes), dtype=object)
            classes[:] = given
        return TrainingData(*_arrays(X, y, weights, names), names, classes)
    Y = as_array(y, "y")
    if Y.ndim != 2 or Y.shape[1] == 0:
        raise InvalidInputError(f"y of several outputs must have shape (rows, outputs); got {tuple(Y.shape)}.")
    (Y,) = with_known_rows(y if is_lazy_frame(y) else Y)
    X, _, weights = _arrays(X, Y[:, 0], weights, names)
    xp = namespace(X)
    if not is_lazy(X):
        return TrainingData(X, xp.astype(xp.asarray(Y, device=device(X)), xp.float64), weights, names)
    count = int(Y.shape[1])
    X, Y, weights = aligned((X, Y, weights))
    return TrainingData(X, map_rows(lambda Y: xp.astype(Y, xp.float64), Y, width=count), weights, names)


def check_training_data(data: TrainingData, loss: Loss, intercept: bool) -> None:
    """Refuse values that no fit takes, in one pass (for several numbers, one for each).

    All are finite and of magnitudes that can be squared (``magnitudes``); columns are named where they have names. Weights are
    zero or more and labels inside the loss's domain, with every class present among the rows that count.
    """
    if loss.several and not loss.classes:
        for k in range(int(data.y.shape[1])):
            _check_values(data, data.X if k == 0 else data.X[:, :1], data.y[:, k], loss, intercept)
        return
    _check_values(data, data.X, data.y, loss, intercept and not loss.several)
    if loss.several:
        assert data.classes is not None
        check_classes(data.y, data.weights, data.classes.tolist())


def _check_values(data: TrainingData, X: Array, y: Array, loss: Loss, intercept: bool) -> None:
    xp, weights, names = data.xp, data.weights, data.names

    def block(X: Array, y: Array, weights: Array | None) -> Sums:
        every = xp.ones_like(y, dtype=xp.bool)
        counted = every if weights is None else weights > 0
        unknown = ~every if weights is None else _not_a_weight(weights)
        # y may be NaN here, which no loss accepts: finite labels are looked at first
        by_row = (~xp.isfinite(y), unknown, counted, ~loss.labels.accepts(y), (y == 1) & counted, (y == 0) & counted)
        return xp.stack([xp.sum(xp.astype(x, xp.int64)) for x in by_row]), extremes(X, y, weights)

    def joined(a: Sums, b: Sums) -> Sums:
        return a[0] + b[0], xp.maximum(a[1], b[1])

    counts, largest = sum_rows(block, X, y, weights, join=joined)
    bad_y, bad_weights, counted, outside, ones, zeros = (int(x) for x in host(counts))
    # a value that is not finite makes the largest of its column so: no pass of its own, and no mask
    if not np.isfinite(host(largest)[: X.shape[1]]).all():
        raise InvalidInputError(_where_not_finite(X, names))
    if bad_y:
        row, value = _first(y, lambda y: ~xp.isfinite(y))
        raise InvalidInputError(f"y must be finite; row {row} is {value}. Drop or fill such rows first.")
    _refuse_weights(weights, bad_weights, counted)
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


def _not_a_weight(weights: Array) -> Array:
    return ~(namespace(weights).isfinite(weights) & (weights >= 0))


def _refuse_weights(weights: Array | None, bad: int, counted: int) -> None:
    if bad:
        row, value = _first(weights, _not_a_weight)
        raise InvalidInputError(
            f"sample_weight must be finite and zero or more; row {row} is {value}. A weight of zero leaves a row out."
        )
    if not counted:
        raise InvalidInputError("sample_weight is zero for every row; at least one row must count.")


def check_weights(weights: VectorLike, X: Array) -> Array | None:
    """Example weights (n,): finite, none negative, not all zero."""
    if weights is None:
        return None
    checked = as_array(weights, "sample_weight")
    (weights,) = with_known_rows(weights if is_lazy_frame(weights) else checked)
    weights = _vector(weights, "sample_weight", X.shape[0], X)

    def block(weights: Array) -> Sums:
        xp = namespace(weights)
        return tuple(xp.sum(xp.astype(x, xp.int64)) for x in (_not_a_weight(weights), weights > 0))

    _refuse_weights(weights, *(int(count) for count in sum_rows(block, weights)))
    return weights


def _arrays(
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
    X, y, weights = arrays.values()
    if any(is_lazy(x) for x in arrays.values()):
        X, y, weights = with_known_rows(*(x if is_lazy_frame(x) else arrays[name] for name, x in given.items()))
    n, d = X.shape
    if n == 0 or d == 0:
        raise InvalidInputError(f"X must have at least one row and one column; got {n} rows and {d} columns.")
    y = None if y is None else _vector(y, "y", n, X)
    weights = None if weights is None else _vector(weights, "sample_weight", n, X)
    if is_lazy(X):
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
    (count,) = sum_rows(lambda block: (xp.sum(xp.astype(~xp.isfinite(block), xp.int64)),), X)
    row = _first_row(X, lambda block: xp.any(~xp.isfinite(block), axis=1))
    (found,) = gather([X], like([row], np.empty(0) if is_lazy(X) else X, xp))
    values = host(xp.astype(found, xp.float64))[0]
    column = int(np.argmax(~np.isfinite(values)))
    shown = column if names is None else f"'{names[column]}'"
    return (
        f"X must be finite; row {row}, column {shown} is {values[column]} ({int(count)} such value"
        f"{'s' if int(count) > 1 else ''} in all). Drop or fill them first."
    )
