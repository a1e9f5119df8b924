"""Numbers of a cell while its row moves along one direction: what changes lies in the span of two vectors (``cell_paths``)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["KINKS", "Cells", "Solved", "poles"]

Vector = NDArray[np.float64]
Number = Vector | float
"""Of each cell, or the same of all."""
KINKS = 1.05
"""For what a rule of finite step loses at the kinks of a bound."""


@dataclass(frozen=True)
class Cells:
    """Numbers of some cells, all of one shape (or that of a broadcast): those of ``cell_paths``, at the fit."""

    z: Vector
    y: Vector
    omega: Vector
    w: Vector
    M11: Vector
    M12: Vector
    M22: Vector
    G11: Vector
    G12: Vector
    G22: Vector
    P11: Vector = field(default_factory=lambda: np.zeros(1))
    P12: Vector = field(default_factory=lambda: np.zeros(1))
    P22: Vector = field(default_factory=lambda: np.zeros(1))
    furthest: Vector = field(default_factory=lambda: np.full(1, np.inf))
    """The largest move of a row's score when the parameters move by H^-1 e."""
    linear: Vector = field(default_factory=lambda: np.zeros(1))
    """f(t) = linear t + square t^2."""
    square: Vector = field(default_factory=lambda: np.zeros(1))

    def take(self, chosen: Any, shape: tuple[int, ...]) -> Cells:
        """Some of them, with an axis for nodes behind."""
        return Cells(*(np.broadcast_to(getattr(self, f.name), shape)[chosen][:, None] for f in fields(self)))

    @property
    def of_rows(self) -> Cells:
        """Of the rows alone, for moves that have no direction: (b, 1)."""
        nothing, no = np.zeros((1, 1)), (np.zeros((1, 1)), np.zeros((1, 1)))
        return Cells(self.z, self.y, self.omega, nothing, self.M11, *no, self.G11, *no, self.P11, *no)


@dataclass(frozen=True)
class Solved:
    """S^-1 for a curvature of the moved row, and the norms that follow from it."""

    cells: Cells
    S11: Vector
    S12: Vector
    S21: Vector
    S22: Vector
    det: Vector

    @classmethod
    def of(cls, cells: Cells, K11: Number, K12: Number, K22: Number) -> Solved:
        # S = I + K M (section 5.2), 2 x 2 for each cell
        M11, M12, M22 = cells.M11, cells.M12, cells.M22
        S11, S12 = 1.0 + K11 * M11 + K12 * M12, K11 * M12 + K12 * M22
        S21, S22 = K12 * M11 + K22 * M12, 1.0 + K12 * M12 + K22 * M22
        return cls(cells, S11, S12, S21, S22, S11 * S22 - S12 * S21)

    def solve(self, first: Number, second: Number) -> tuple[Vector, Vector]:
        return (self.S22 * first - self.S12 * second) / self.det, (self.S11 * second - self.S21 * first) / self.det

    @property
    def least(self) -> Vector:
        """The least eigenvalue of S, not above 1; not positive where the Hessian is lost to rounding."""
        trace = self.S11 + self.S22
        top = 0.5 * (trace + np.sqrt(np.maximum(trace**2 - 4.0 * self.det, 0.0)))
        return np.asarray(np.where(self.det > 0, np.minimum(self.det / top, 1.0), -1.0))

    def through(self, p: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
        """M p."""
        some = self.cells
        return some.M11 * p[0] + some.M12 * p[1], some.M12 * p[0] + some.M22 * p[1]

    def released(self, p: tuple[Vector, Vector]) -> Vector:
        """p^T G p."""
        some = self.cells
        return np.maximum(some.G11 * p[0] ** 2 + 2.0 * some.G12 * p[0] * p[1] + some.G22 * p[1] ** 2, 0.0)

    def norm(self, first: Number, second: Number) -> Vector:
        """|U (first, second)| by the norm of the inverse of the changed Hessian."""
        # H'^-1 U = H^-1 U S^-1, so that U^T H'^-1 U = M S^-1
        a, b = self.through(self.solve(first, second))
        return np.asarray(np.sqrt(np.maximum(first * a + second * b, 0.0)))


def poles(cells: Cells, a: Vector) -> tuple[Vector, Vector]:
    """For a loss of curvature a (weights counted): where S is singular, t* ± i delta. Infinite delta where it never is."""
    # K11 = 0 and det K = -(a t)^2, so that det S = 1 + first t + second t^2
    inner = cells.M11 * cells.M22 - cells.M12**2
    first = 2.0 * a * cells.M12 + cells.linear * cells.M22
    second = (a + cells.square) * cells.M22 - a**2 * inner
    flat = ~(second > 0)
    safe = np.where(flat, 1.0, second)
    peak = np.where(flat, 0.0, -0.5 * first / safe)
    squared = np.where(flat, np.inf, 1.0 / safe - peak**2)
    return peak, np.sqrt(np.maximum(squared, np.finfo(float).tiny))
