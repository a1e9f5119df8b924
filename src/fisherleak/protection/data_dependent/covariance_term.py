"""What noise tells by its shape alone where that is the rows' own: the second term of eta, row by row.

Mathematics: 6.10, ``docs/mathematics/any-record.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Vector
from fisherleak.engine.changes.remade_covariance import linear_part, public_curvature
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.noise.calibration_record import FOR_ANYONE, HESSIAN, calibration_of, has_own_shape
from fisherleak.protection.certificates.bound_quantities import value_map


@dataclass(frozen=True)
class ShapeTerm:
    """Small matrices that rows need, so that they can travel to them."""

    K: Vector
    """(p, p)"""
    E: Vector
    """(p, m): what values do to features."""
    spans: tuple[slice, ...]
    """The columns of E that each attribute has."""
    slopes: Vector
    """(d,): c is this times the distance from the mean; zero where no scale moves."""
    means: Vector
    centre: Vector | None
    intercept: bool
    weighted: bool
    """Whether rows' weights count in the scales."""

    def rows(self, X: Any, weights: Any = None) -> Vector:
        """An eta that no row's own is above, (n,), over all its values."""
        x, omega, c = self._of(X, weights)
        u = x @ self.K
        # section 6.10: omega (||K|| h + |u|^2)^1/2 + max |c| (1/2 ||K o K||)^1/2, over the values that E
        # moves; u is K x
        along = _norm(self.E.T @ self.K @ self.E) * np.sum(x * u, axis=1) + np.sum((u @ self.E) ** 2, axis=1)
        return np.asarray(omega * np.sqrt(along) + self._by_penalty(c, np.flatnonzero(self.slopes), self.E))

    def cells(self, X: Any, weights: Any = None) -> Vector:
        """Etas of every attribute of every row, (n, attributes): exact for numbers, not below for others."""
        x, omega, c = self._of(X, weights)
        u = x @ self.K
        h, found = np.sum(x * u, axis=1), np.empty((len(x), len(self.spans)))
        for j, span in enumerate(self.spans):
            E = self.E[:, span]
            inner, seen = E.T @ self.K @ E, u @ E
            # the first part of F of section 6.10: omega^2 (K h + u u^T)
            square = omega**2 * (_norm(inner) * h + np.sum(seen**2, axis=1))
            if E.shape[1] == 1:
                e, d = E[:, 0], c.shape[1]
                # e^T F e: 2 omega sum_a c_a e_a u_a (K e)_a, and 1/2 sum_ab c_a e_a c_b e_b K_ab^2
                moved, along = c * e[:d], u[:, :d] * (self.K @ e)[:d]
                by_scales = 0.5 * np.sum((moved @ self.K[:d, :d] ** 2) * moved, axis=1)
                square = square + 2.0 * omega * np.sum(moved * along, axis=1) + by_scales
                found[:, j] = np.sqrt(np.maximum(square, 0.0))
                continue
            touched = np.flatnonzero((self.slopes != 0) & np.any(E[: len(self.slopes)] != 0, axis=1))
            found[:, j] = np.sqrt(np.maximum(square, 0.0)) + self._by_penalty(c, touched, E)
        return found

    def _by_penalty(self, c: Vector, columns: NDArray[np.int64], E: Vector) -> Vector:
        """What moves along E do at most through the scales of some columns, (n,)."""
        # max |c| (1/2 ||K o K||)^1/2 of section 6.10, times the longest move of these columns
        size = math.sqrt(0.5 * _norm(self.K[np.ix_(columns, columns)] ** 2)) * max(1.0, _norm(E[columns]))
        return np.asarray(size * np.max(np.abs(c[:, columns]), axis=1, initial=0.0))

    def _of(self, X: Any, weights: Any) -> tuple[Vector, Vector, Vector]:
        """Centred rows (n, p), weights (n,) and c (n, d)."""
        plain = np.asarray(host(X), dtype=np.float64)
        x = np.asarray(with_constant(plain, self.intercept, self.centre))
        omega = np.ones(len(x)) if weights is None else np.asarray(host(weights), dtype=np.float64)
        c = self.slopes * (plain - self.means)
        return x, omega, c * omega[:, None] if self.weighted else c


@dataclass(frozen=True)
class ShapeTermForAnyone(ShapeTerm):
    """The same for noise of least loss for anyone: never below."""

    S: Vector = field(kw_only=True)
    """(p, p), for rows as they are centred."""
    M: Vector = field(kw_only=True)
    """M^-1."""

    def rows(self, X: Any, weights: Any = None) -> Vector:
        x, omega, c = self._of(X, weights)
        s, m, b = (_norm(self.E.T @ each @ self.E) for each in (self.S, self.M, self.K))
        by_s, by_m, by_b = (np.sum((x @ each) * x, axis=1) for each in (self.S, self.M, self.K))
        learned = np.flatnonzero(self.slopes)
        scales = self._by_scales(learned) * _norm(self.E[learned])
        # the fourth formula of section 6.9 at its most: 2 (e^T S x)(e^T M^-1 x) is no more than its first two terms
        square = 2.0 * (s * by_m + m * by_s) + 0.5 * b * by_b
        return np.asarray(omega * np.sqrt(square) + scales * np.max(np.abs(c), axis=1, initial=0.0))

    def cells(self, X: Any, weights: Any = None) -> Vector:
        x, omega, c = self._of(X, weights)
        metrics = (self.S, self.M, self.K)
        length = [np.sum((x @ each) * x, axis=1) for each in metrics]
        found = np.empty((len(x), len(self.spans)))
        for j, span in enumerate(self.spans):
            E = self.E[:, span]
            s, m, b = (E.T @ each @ E for each in metrics)
            along = [x @ each @ E for each in metrics]
            # the fourth formula of section 6.9, term by term: exactly for one value, by lengths for several
            square = _norm(s) * length[1] + _norm(m) * length[0] + 0.25 * _norm(b) * length[2]
            if E.shape[1] == 1:
                square = square + 2.0 * along[0][:, 0] * along[1][:, 0]
            else:
                square = square + 2.0 * np.sqrt(np.prod([np.sum(each**2, axis=1) for each in along[:2]], axis=0))
            square = square + 0.25 * np.sum(along[2] ** 2, axis=1)
            touched = np.flatnonzero(np.any(E[: c.shape[1]] != 0, axis=1))
            moved = np.max(np.abs(c[:, touched]), axis=1, initial=0.0) * self._by_scales(touched)
            found[:, j] = omega * np.sqrt(np.maximum(square, 0.0)) + moved * _norm(E)
        return found

    def _by_scales(self, columns: Any) -> float:
        """What a push of one on the penalties of some columns, through their scales, does at most."""
        s, m, b = (_norm(each[np.ix_(columns, columns)]) for each in (self.S, self.M, self.K))
        # (||M^-1|| ||S|| + ||K||^2 / 8)^1/2 over these columns, the end of section 6.10
        return math.sqrt(s * m + b**2 / 8.0)


def knows_shape(noise: Any, outputs: int = 1) -> bool:
    """Whether noise has a data-dependent covariance of which this is the term: G^-1 of one output, or that for anyone.

    What shapes of least loss, and those of several outputs, tell by themselves is not known here, and nothing stands for it.
    """
    return outputs == 1 and has_own_shape(noise) and noise.calibrated.shape in (HESSIAN, FOR_ANYONE)


def shape_term(jacobian: Jacobian, noise: Any = None) -> ShapeTerm:
    """Of one release, whose noise has a shape that :func:`knows_shape` knows; that of G^-1 if none is given."""
    linear, fit, folding = linear_part(jacobian), jacobian.fit, jacobian.folding
    K = np.asarray(host(linear.fit.factor.inverse()))
    d = int(jacobian.X.shape[1])
    slopes, means, weighted = np.zeros(d), np.zeros(d), False
    if folding is not None and folding.totals is not None and fit.l2 > 0:
        totals = np.asarray(host(folding.totals))
        learned = totals > 0
        # G has n l2 / a_0 times a column's variance, which a value moves by 2 omega (x - mean) / total
        slopes[learned] = 2.0 * fit.l2 / public_curvature(fit.loss) * fit.n / totals[learned]
        means, weighted = np.asarray(host(folding.means)), folding.weighted
    edges = np.cumsum([0, *(attribute.size for attribute in jacobian.attributes)]).tolist()
    spans = tuple(slice(a, b) for a, b in pairwise(edges))
    centre = None if fit.centre is None else np.asarray(host(fit.centre))
    E = value_map(jacobian, jacobian.attributes, len(K))
    known = (K, E, spans, slopes, means, centre, fit.intercept is not None, weighted)
    told = calibration_of(noise)
    if told is None or told.shape != FOR_ANYONE:
        return ShapeTerm(*known)
    S = np.asarray(noise.shape, dtype=np.float64)
    if centre is not None:  # from the released parameters to those of centred rows: the level is b + coef . centre
        back = np.eye(len(S))
        back[-1, :-1] = centre
        S = back @ S @ back.T
    # S = K M K, so that M^-1 = K S^-1 K
    root = np.linalg.solve(np.linalg.cholesky(S), K)
    return ShapeTermForAnyone(*known, S=S, M=root.T @ root)


def _norm(matrix: Vector) -> float:
    return float(np.linalg.norm(matrix, 2)) if matrix.size else 0.0
