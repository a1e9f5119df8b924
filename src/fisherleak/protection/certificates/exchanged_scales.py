"""Scales that are folded into the penalty, with one row exchanged for an admissible one: exactly, column by column.

Mathematics: 6.3, ``docs/mathematics/any-record.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak.engine.jacobian import Jacobian
from fisherleak.errors import InvalidInputError
from fisherleak.protection.certificates.declared_bounds import Admissible

__all__ = ["ColumnRanges", "ExchangedScales", "columns_of", "exchanged_scales"]

Vector = NDArray[np.float64]
ROUNDING = 1e-12
"""Of a variance."""


@dataclass(frozen=True)
class ExchangedScales:
    """Factors of the penalty, (n, d) each: kept + bend (x - mean)^2, for a value x in place of that of row i."""

    kept: Vector
    bend: Vector
    mean: Vector

    def rows(self, some: slice) -> ExchangedScales:
        return ExchangedScales(self.kept[some], self.bend[some], self.mean[some])

    def factor(self, x: Vector) -> Vector:
        return self.kept + self.bend * (x - self.mean) ** 2

    def largest(self, low: Vector, high: Vector) -> Vector:
        """The largest factor of each column for any row, (d,)."""
        return np.asarray(np.maximum(self.factor(low), self.factor(high)).max(axis=0, initial=1.0))

    def longest(self, low: Vector, high: Vector) -> tuple[Vector, Vector]:
        """The largest x^2 over the factor, and over its square, for x from low to high; (n, d) each."""
        with np.errstate(divide="ignore", invalid="ignore"):
            steep = self.kept / self.bend
            turned = np.sqrt(self.mean**2 + steep)
            # x - m_i where the derivative of x^2 / f is zero, and of (x / f)^2: q = c m_i (x - m_i), and the quadratic
            # equation of section 6.3, c (x - m_i)^2 + 2 c m_i (x - m_i) = q
            once, twice = [steep / self.mean], [-self.mean - turned, turned - self.mean]
        first = [x**2 / self.factor(x) for x in self._tried(low, high, once)]
        second = [(x / self.factor(x)) ** 2 for x in self._tried(low, high, twice)]
        return np.max(first, axis=0), np.max(second, axis=0)

    def changes(self, low: Vector, high: Vector) -> Vector:
        """The largest (f - 1)^2 / f of a factor f, (n, d): convex in f, so that its least and its largest decide."""
        factors = [self.kept, self.factor(low), self.factor(high)]
        return np.asarray(np.max([(f - 1.0) ** 2 / f for f in factors], axis=0))

    def pushes(self, low: Vector, high: Vector) -> tuple[Vector, Vector]:
        """The factor's largest slope, over its root and over the factor itself, (n, d) each."""
        with np.errstate(divide="ignore", invalid="ignore"):
            steep = np.sqrt(self.kept / self.bend)
        # f' = 2 c (x - m_i): over the root of f it grows with |x - m_i|, over f it is largest where
        # |x - m_i| = sqrt(q / c)
        first = [np.abs(x - self.mean) / np.sqrt(self.factor(x)) for x in self._tried(low, high, [])]
        second = [np.abs(x - self.mean) / self.factor(x) for x in self._tried(low, high, [-steep, steep])]
        return 2.0 * self.bend * np.max(first, axis=0), 2.0 * self.bend * np.max(second, axis=0)

    def _tried(self, low: Vector, high: Vector, turns: list[Vector]) -> list[Vector]:
        """Both ends, and where a derivative is zero, less the mean, brought between them."""
        inside = [np.where(np.isfinite(turn), np.clip(self.mean + turn, low, high), low) for turn in turns]
        return [np.broadcast_to(low, self.mean.shape), np.broadcast_to(high, self.mean.shape), *inside]


def exchanged_scales(jacobian: Jacobian) -> ExchangedScales:
    """For every row of the table as the one that leaves."""
    folding, fit = jacobian.folding, jacobian.fit
    X = np.asarray(host(jacobian.X), dtype=np.float64)
    n, d = X.shape
    weights = None if fit.sample_weight is None else np.asarray(host(fit.sample_weight), dtype=np.float64)
    if folding is None or fit.l2 == 0:
        return ExchangedScales(np.ones((n, d)), np.zeros((n, d)), np.zeros((n, d)))
    if folding.totals is None or np.any(np.asarray(host(folding.shares))):
        raise InvalidInputError(
            "over='admissible' knows standard deviations as folded scales only: order statistics jump when a row is replaced. "
            "Use StandardScaler, or over='max'."
        )
    omega = weights if folding.weighted and weights is not None else np.ones(n)
    part = (omega / omega.sum())[:, None]
    learned = np.asarray(host(folding.slopes)) != 0
    # section 6.3: rho is ``part``, delta is ``away``, m is ``mean`` and v is ``variance``
    mean = part.T @ X
    away = X - mean
    variance = np.where(learned, part.T @ away**2, 1.0)
    # q, then c and m_i, of v' / v = q + c (x - m_i)^2
    kept = 1.0 - part * away**2 / ((1.0 - part) * variance) - ROUNDING
    return ExchangedScales(
        np.where(learned, np.maximum(kept, 0.0), 1.0),
        np.where(learned, part * (1.0 - part) / variance, 0.0),
        mean - part * away / (1.0 - part),
    )


@dataclass(frozen=True)
class ColumnRanges:
    """The admissible rows by columns, in the features' own units."""

    low: Vector
    high: Vector
    """(d,) each: ends of every feature."""
    joint: tuple[tuple[NDArray[np.int64], Vector], ...]
    """Features of fixed scales that take one of some choices together, and these, (k, features)."""
    alone: NDArray[np.bool_]
    """(d,) whether a feature is in none of these."""
    radius: float | None

    def total(self, values: Vector, weight: Vector) -> Vector:
        """The largest sum over features of weights (d,) times ``values`` (n, d), which are largest squares; (n,)."""
        found = values[:, self.alone] @ weight[self.alone]
        for places, choices in self.joint:
            found = found + float(np.max(choices**2 @ weight[places]))
        return np.asarray(found)


def columns_of(admissible: Admissible, scales: ExchangedScales) -> ColumnRanges:
    """Every column's range; levels of a category, whose features no other column has, stay together."""
    d = admissible.base.shape[0]
    radius = admissible.radius
    if radius is not None:
        return ColumnRanges(np.full(d, -radius), np.full(d, radius), (), np.ones(d, dtype=bool), radius)
    fixed = ~(scales.bend > 0).any(axis=0)
    parts = admissible.parts
    touched = np.array([(part != 0).any(axis=0) for part in parts]).reshape(len(parts), d)
    own, alone, joint = touched.sum(axis=0) <= 1, np.ones(d, dtype=bool), []
    for part, places in zip(parts, touched, strict=True):
        if np.all((own & fixed)[places]) and places.any():
            where = np.flatnonzero(places)
            joint.append((where, (admissible.base + part)[:, where]))
            alone[where] = False
    low = admissible.base + sum((part.min(axis=0) for part in parts), np.zeros(d))
    high = admissible.base + sum((part.max(axis=0) for part in parts), np.zeros(d))
    return ColumnRanges(low, high, tuple(joint), alone, None)
