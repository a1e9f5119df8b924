"""Classes as codes 0 to K - 1, where the rows are: numbers, truth values or text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, device, host, is_lazy, like, namespace
from fisherleak._support.namespaces import Sums, VectorLike
from fisherleak.engine.losses.multi_output import own_class
from fisherleak.errors import InvalidInputError
from fisherleak.rows import map_rows, sum_rows
from fisherleak.rows.selection import distinct, lazy_labels, missing

__all__ = ["MOST_CLASSES", "check_classes", "classes_of", "codes_of"]

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
