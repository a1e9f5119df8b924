"""Covariances that noises and mechanisms are given: checked, not to be written to, and what makes two of them the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import as_array, host
from fisherleak.errors import InvalidInputError

__all__ = ["EqualByShape", "checked_shape"]

UNSYMMETRIC = 1e-8
"""Difference of two entries of a shape, in standard deviations, that rounding may leave and that is evened out."""


class EqualByShape:
    """Records that are equal where their kind, scale and shape are: arrays have no truth value to compare by."""

    scale: float
    shape: NDArray[np.float64] | None

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) or not isinstance(other, EqualByShape) or self.scale != other.scale:
            return False
        if self.shape is None or other.shape is None:
            return self.shape is other.shape
        return np.array_equal(self.shape, other.shape)

    def __hash__(self) -> int:
        return hash((self.scale, None if self.shape is None else self.shape.tobytes()))


def checked_shape(shape: NDArray[np.float64]) -> NDArray[np.float64]:
    """A covariance as an array that nobody can write to; refuses what is none."""
    matrix = np.array(host(as_array(shape, "shape")), dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise InvalidInputError(f"shape must be a finite square matrix; got an array of shape {matrix.shape}.")
    spread = np.sqrt(np.abs(np.diag(matrix)))
    if np.any(np.abs(matrix - matrix.T) > UNSYMMETRIC * np.outer(spread, spread)):
        raise InvalidInputError("shape must be symmetric: it is the covariance of the noise at scale 1.")
    matrix = 0.5 * (matrix + matrix.T)
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise InvalidInputError(
            "shape must be positive definite: a direction without noise would be released exactly."
        ) from None
    matrix.flags.writeable = False
    return matrix
