"""Noise whose covariance the rows decide, along the path on which one value moves: both terms of eta squared at every place.

Mathematics: 5.3, ``docs/mathematics/shares.md``.

Also here: numbers of a cell while its row moves along one direction: what changes lies in the span of two vectors
(``believed_cells``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Vector
from fisherleak.engine.changes.remade_covariance import SAME, centring_of, linear_part, public_curvature
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.mechanisms.self_shaped import SelfShaped
from fisherleak.engine.noise.calibration_record import FOR_ANYONE, HESSIAN, calibration_of

Number: TypeAlias = "Vector | float"
"""Of each cell, or the same of all."""
KINKS = 1.05
"""For what a rule of finite step loses at the kinks of a bound."""


@dataclass(frozen=True)
class Cells:
    """Numbers of some cells, all of one shape (or that of a broadcast): those of ``believed_cells``, at the fit."""

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

    def part(self, some: slice) -> Cells:
        """A part of cells that were taken."""
        return Cells(*(getattr(self, f.name)[some] for f in fields(self)))

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


Pair = tuple[Vector, Vector]
Symmetric = tuple[Vector, Vector, Vector]
"""Entries 11, 12 and 22."""


@dataclass(frozen=True)
class MovingNoise:
    """What all rows share of such a noise: small matrices, for rows as they are centred, at the noise's own scale."""

    B: Vector
    """G^-1, (p, p)."""
    A: Vector
    """M^-1."""
    S: Vector
    curvature: float
    """By which penalties of the model are divided in G."""
    squares: float
    """Of tr((B L)^2) in the second term."""
    crossed: float
    """Of tr(A L C L) there."""
    power: float
    """By which M follows G: 1 for G, 1/2 for G # N, 0 for what is fixed."""

    @classmethod
    def of_mechanism(cls, jacobian: Jacobian, mechanism: SelfShaped) -> MovingNoise:
        """Posterior sampling or objective perturbation, squared loss."""
        B = np.asarray(host(jacobian.fit.factor.inverse()))
        tilt = mechanism.root(len(B))
        if tilt is None:
            # S = T G^-1, that is M = T G: the first of the three second terms of section 5.3
            T = mechanism.scale**2
            return cls(B, B / T, T * B, 1.0, 0.5, 0.0, 1.0)
        # C is over released gradients: those of centred parameters are centring^-T times these
        half = mechanism.scale * np.linalg.solve(centring_of(jacobian).T, tilt)
        # M = half half^T = sigma^2 C, S = G^-1 M G^-1: the second of the three
        back, through = np.linalg.inv(half), B @ half
        return cls(B, back.T @ back, through @ through.T, 1.0, 1.0, 1.0, 0.0)

    @classmethod
    def of_shape(cls, jacobian: Jacobian) -> MovingNoise | None:
        """Gaussian noise of a named shape; None where it does not follow these rows' G alone, its scale public."""
        noise, loss = jacobian.noise, jacobian.fit.loss
        told = calibration_of(noise)
        if told is None or told.by_present_rows or told.asked is not None or jacobian.gradient or loss.traits is None:
            return None
        B, a = np.asarray(host(linear_part(jacobian).fit.factor.inverse())), public_curvature(loss)
        W = np.asarray(host(jacobian.metric))
        back = np.linalg.inv(W)
        S = back @ back.T
        if told.shape == FOR_ANYONE:
            # M^-1 = G^-1 S^-1 G^-1 with S^-1 = W^T W: the third of the three
            inner = W @ B
            return cls(B, inner.T @ inner, S, a, 0.125, 1.0, 0.5)
        # whether S = scale^2 G^-1
        seen = noise.scale * W @ np.linalg.cholesky(B)
        if told.shape != HESSIAN or not float(np.abs(seen.T @ seen - np.eye(len(B))).max()) <= SAME:
            return None
        return cls(B, B / noise.scale**2, S, a, 0.5, 0.0, 1.0)

    @property
    def kinked(self) -> bool:
        """Whether bounds take the place of what is exact: they have kinks where the value has not moved."""
        return 0.0 < self.power < 1.0

    def cells(self, x: Vector, E: Vector, omega: Vector, folded: Pair) -> Cells:
        """Numbers of the cells of rows x (b, p) along directions E (p, k): M by B, G by A, P by S."""
        nothing = np.zeros((1, 1))
        numbers: list[Any] = [nothing, nothing, omega[:, None], nothing]
        for Q in (self.B, self.A, self.S):
            turned = x @ Q
            numbers += [(turned * x).sum(axis=1)[:, None], turned @ E, ((E.T @ Q) * E.T).sum(axis=1)[None, :]]
        numbers += [nothing, *(each / self.curvature for each in folded)]
        return Cells(*numbers)

    def second(self, cells: Cells, t: Vector) -> Vector:
        """The second term where the value has moved by t: exact, or not below."""
        at = _GramAlongPath.of(cells, t)
        # L of section 5.3; f' = linear + 2 square t
        l12, l22 = cells.omega, 2.0 * cells.omega * t + cells.linear + 2.0 * cells.square * t
        b11, b12, b22 = at.by_b
        # tr((B L)^2) with the 2 x 2 matrix B(t)
        trace = (b12 * l12) ** 2 + 2.0 * (b11 * l12 + b12 * l22) * b22 * l12 + (b12 * l12 + b22 * l22) ** 2
        found = self.squares * trace
        if self.crossed:
            # A(t) <= lambda^-power A(0), and C(t) <= mu^power times C with G(t) and the old M (section 5.3); equal for
            # power 0
            A = tuple(self._less(at) * each for each in (cells.G11, cells.G12, cells.G22))
            C = tuple(_raised(at.most**self.power) * each for each in at.turned((cells.P11, cells.P12, cells.P22)))
            found = found + self.crossed * _between(A, C, l12, l22)
        return np.where(at.known, np.maximum(found, 0.0), np.inf)

    def first(self, cells: Cells, t: Vector, g: Pair) -> Vector:
        """The first term of the squared loss for U g, what the value does to the gradient: exact, or not below."""
        at = _GramAlongPath.of(cells, t)
        if self.power == 1.0:
            # M = G: A(t) is a multiple of B(t)
            a11, a12, a22 = (self._level * each for each in at.by_b)
        else:
            a11, a12, a22 = (self._less(at) * each for each in (cells.G11, cells.G12, cells.G22))
        # g^T A(t) g (section 5.3)
        return np.where(at.known, np.maximum(a11 * g[0] ** 2 + 2.0 * a12 * g[0] * g[1] + a22 * g[1] ** 2, 0.0), np.inf)

    def seen(self, J: Vector, x: Vector, e: Vector, omega: Vector, t: Vector, folded: Vector) -> Vector:
        """The first term for moves J of the parameters, where rows x have moved by t along e: exact, or not below; (b,).

        ``folded`` is what the value adds there to the penalty on e.
        """
        along, across = (x * J).sum(axis=1), (e * J).sum(axis=1)
        K12, K22 = omega * t, omega * t**2 + folded / self.curvature
        if self.power == 1.0:
            # |M(t)^-1/2 G(t) J|^2 = J^T G(t) J for M = G, with G(t) = G + U K U^T
            moved = (J @ self._gram * J).sum(axis=1) + 2.0 * K12 * along * across + K22 * across**2
            return np.asarray(self._level * np.maximum(moved, 0.0))
        # v = G(t) J, and |M(t)^-1/2 v|^2 <= lambda^-power v^T M^-1 v (section 5.3)
        v = J @ self._gram + (K12 * across)[:, None] * x + (K12 * along + K22 * across)[:, None] * e
        M: list[Any] = [((a @ self.B) * b).sum(axis=1) for a, b in ((x, x), (x, e), (e, e))]
        at = _GramAlongPath.along(Cells(t, t, omega, t, *M, *M), K12, K22)
        return np.where(at.known, self._less(at) * ((v @ self.A) * v).sum(axis=1), np.inf)

    @cached_property
    def _gram(self) -> Vector:
        return np.asarray(np.linalg.inv(self.B), dtype=np.float64)

    @property
    def _level(self) -> float:
        """A(t) beside B(t) where M = G."""
        return float(self.A[0, 0] / self.B[0, 0])

    def growth(self, cells: Cells, t: Vector) -> Vector:
        """How much larger the first term can be than by the noise as it was."""
        at = _GramAlongPath.of(cells, t)
        if self.power == 1.0:
            # squares of the factors at the end of section 5.3: mu for M = G
            found = _raised(at.most)
        else:
            K12, K22 = at.K
            metrics = (cells.G11, cells.G12, cells.G22), (cells.P11, cells.P12, cells.P22)
            tau = np.sqrt(np.maximum(_between(*metrics, K12, K22), 0.0))
            # and lambda^(-1/2) (1 + tr(A K C K)^(1/2))^2 for M = G # N
            found = self._less(at) * (1.0 + KINKS * tau) ** 2
        return np.where(at.known, found, np.inf)

    def _less(self, at: _GramAlongPath) -> Vector:
        """How much larger M^-1 can be there."""
        return _raised(at.least**-self.power)


@dataclass(frozen=True)
class _GramAlongPath:
    """G along the path: I + K U^T B U solved, and its eigenvalues."""

    solved: Solved
    K: Pair
    """K12 and K22."""
    known: NDArray[np.bool_]
    least: Vector
    most: Vector

    @classmethod
    def of(cls, cells: Cells, t: Vector) -> _GramAlongPath:
        K12 = cells.omega * t
        return cls.along(cells, K12, K12 * t + cells.linear * t + cells.square * t**2)

    @classmethod
    def along(cls, cells: Cells, K12: Vector, K22: Vector) -> _GramAlongPath:
        solved = Solved.of(cells, 0.0 * K12, K12, K22)
        known = solved.least > 0
        least = np.where(known, solved.least, 1.0)
        # lambda and mu are the two eigenvalues of I + K U^T G^-1 U: their product is its determinant
        return cls(solved, (K12, K22), known, least, np.maximum(solved.det / least, 1.0))

    @property
    def _columns(self) -> tuple[Pair, Pair]:
        one = np.ones_like(self.solved.det)
        return self.solved.solve(one, 0.0 * one), self.solved.solve(0.0 * one, one)

    @property
    def by_b(self) -> Symmetric:
        """B(t)."""
        first, second = (self.solved.through(each) for each in self._columns)
        return first[0], first[1], second[1]

    def turned(self, C: Symmetric) -> Symmetric:
        """U^T G(t)^-1 M G(t)^-1 U from that at t = 0."""
        (a, b), (c, d) = self._columns
        return (
            C[0] * a * a + 2.0 * C[1] * a * b + C[2] * b * b,
            C[0] * a * c + C[1] * (a * d + b * c) + C[2] * b * d,
            C[0] * c * c + 2.0 * C[1] * c * d + C[2] * d * d,
        )


def _between(A: Any, C: Any, l12: Vector, l22: Vector) -> Vector:
    """tr(A L C L) for L with zero in its first place."""
    a11, a12, a22 = A
    c11, c12, c22 = C
    second = l12**2 * c11 + 2.0 * l12 * l22 * c12 + l22**2 * c22
    return np.asarray(a11 * l12**2 * c22 + 2.0 * a12 * l12 * (l12 * c12 + l22 * c22) + a22 * second)


def _raised(factor: Vector) -> Vector:
    """A factor from 1 on, for what a rule of finite step loses where the eigenvalues meet, at t = 0."""
    return np.asarray(1.0 + KINKS * (factor - 1.0))
