r"""Categories and the numbers that encode them, as values: what a change of one encoding is in another.

The one-hot vector h of a category with K levels moves in the tangent space of the vectors that sum to one:
:math:`\delta h = T t` with an orthonormal basis T, (K, K - 1). A linear encoding follows it, :math:`\delta v = M\,\delta h`:
M picks the kept indicators where a level was dropped, adds up levels that share an indicator, and is a row of codes for an
ordinal encoding. Two encodings have the same unit where :math:`T^T M^T M T` is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
SAME = 1e-12
"""Difference of matrices of ones and zeros (and codes), relative to their size, that is rounding."""


def tangent_basis(k: int) -> Matrix:
    """Helmert's orthonormal basis of the vectors in R^k that sum to zero: (k, k - 1)."""
    basis = np.zeros((k, k - 1))
    for j in range(1, k):
        basis[:j, j - 1] = 1.0
        basis[j, j - 1] = -j
        basis[:, j - 1] /= np.sqrt(j * (j + 1.0))
    return basis


@dataclass(frozen=True)
class Encoding:
    """How the coordinates of a category follow the one-hot vector of its categories.

    Parameters
    ----------
    levels : tuple
        Values of the raw column, each once.
    matrix : array of shape (m, len(levels))
        The m coordinates move by ``matrix @ change`` of the one-hot vector.
    """

    levels: tuple[Any, ...]
    matrix: Matrix = field(compare=False, repr=False)

    def over(self, levels: Sequence[Any]) -> Matrix:
        """The matrix with its columns in another order of the levels."""
        place = {level: k for k, level in enumerate(self.levels)}
        return self.matrix[:, [place[level] for level in levels]]

    def beside(self, other: Encoding) -> Encoding | None:
        """Two encodings of one column side by side, where they know the same levels."""
        if set(self.levels) != set(other.levels):
            return None
        return Encoding(self.levels, np.concatenate([self.matrix, other.over(self.levels)]))


def common_coordinates(encodings: Sequence[Encoding]) -> tuple[list[Matrix | None], Encoding]:
    """Coordinates that encodings of the same levels share, and how each one's own follow them.

    The first one's own where all have its unit, else those of the tangent space of the one-hot vector. A matrix (own,
    common) for each encoding, None for the identity.
    """
    first = encodings[0]
    matrices = [encoding.over(first.levels) for encoding in encodings]
    if all(_equal(matrix, matrices[0]) for matrix in matrices):
        return [None] * len(matrices), first
    T = tangent_basis(len(first.levels))
    tangents = [matrix @ T for matrix in matrices]
    lead = tangents[0]
    independent = np.linalg.matrix_rank(lead) == lead.shape[0]
    if independent and all(_equal(tangent.T @ tangent, lead.T @ lead) for tangent in tangents):
        back = np.linalg.pinv(lead)
        return [None, *(tangent @ back for tangent in tangents[1:])], first
    return list(tangents), Encoding(first.levels, T.T)


def _equal(one: Matrix, two: Matrix) -> bool:
    return one.shape == two.shape and bool(np.abs(one - two).max(initial=0.0) <= SAME * np.abs(two).max(initial=1.0))
