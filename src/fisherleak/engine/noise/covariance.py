"""Covariances that noises and mechanisms are given: checked, not to be written to, and what makes two of them the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fisherleak._support.arrays import as_array, host
from fisherleak.errors import InvalidInputError

__all__ = ["EqualByShape", "checked_shape"]

UNSYMMETRIC = 1e-8
"""Difference of two entries of a shape, in standard deviations, that rounding may leave and that is evened out."""
NEARLY_SINGULAR = 1e12
"""Condition of a shape, its variances one, past which its inverse, and so every eta, would be off by more than 1e-3."""


class EqualByShape:
    """Records that are equal where their kind, scale and shape are: arrays have no truth value to compare by."""

    scale: float
    shape: NDArray[np.float64] | None

    def __eq__(self, other: Any) -> bool:
        if type(other) is not type(self) or self.scale != other.scale:
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
    condition = _condition(matrix)
    if condition is None:
        raise InvalidInputError("shape must be positive definite: a direction without noise would be released exactly.")
    if not condition <= NEARLY_SINGULAR:
        raise InvalidInputError(
            f"shape is nearly singular: with variances of one its condition is {condition:.0e}, and {NEARLY_SINGULAR:.0e} is "
            "the most whose inverse is not lost in rounding. Give every direction more noise, or leave out columns that nearly "
            "repeat others."
        )
    matrix.flags.writeable = False
    return matrix


def _condition(matrix: NDArray[np.float64]) -> float | None:
    """Of a covariance whose variances are made one, in the 1-norm, as LAPACK estimates it; None where it is none."""
    variances = np.diag(matrix)
    if not np.all(variances > 0):
        return None
    spread = np.sqrt(variances)
    correlation = matrix / spread[:, None] / spread[None, :]
    factor, failed = scipy.linalg.lapack.dpotrf(correlation.T, clean=0) if len(matrix) else (matrix, 0)
    if failed or not len(matrix):
        return None if failed else 1.0
    reciprocal, _ = scipy.linalg.lapack.dpocon(factor, float(np.linalg.norm(correlation, 1)))
    return 1.0 / max(float(reciprocal), 1e-300)
