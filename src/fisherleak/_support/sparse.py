"""Products and inverses with matrices that are mostly zeros: maps between frames are a diagonal and a line or two.

A dense product takes O(p^3), which is most of the time where columns are thousands; with the few entries that there are it
takes O(p^2). The numbers are the same to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, is_numpy

MANY, FEW = 300, 0.02
"""Lines from which on it pays to look for zeros, and the part of entries that may be others."""


def times(few: Array, matrix: Array) -> Array:
    """The product of two matrices; by the entries of the first where these are few."""
    if not (is_numpy(few) and is_numpy(matrix)) or few.shape[0] < MANY or matrix.ndim != 2:
        return few @ matrix
    if np.count_nonzero(few) > FEW * few.size:
        return few @ matrix
    from scipy.sparse import csr_array

    return np.asarray(csr_array(few) @ matrix)


def inverse_of(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of a matrix of full rank; by substitution where it is lower triangular."""
    if matrix.shape[0] < MANY or np.triu(matrix, 1).any():
        return np.asarray(np.linalg.inv(matrix))
    from scipy.linalg.lapack import dtrtri

    found: tuple[Any, int] = dtrtri(matrix, lower=1)
    if found[1]:
        raise np.linalg.LinAlgError("Singular matrix")
    return np.asarray(np.tril(found[0]))
