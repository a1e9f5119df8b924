r"""What noise tells by its shape alone where that is the rows' own: the second term of eta, row by row.

Noise of covariance :math:`\sigma^2 G^{-1}`, with :math:`G = \sum_i \omega_i x_i x_i^T + \mathrm{diag}(penalty)`
(``own_shape``), has beside the information in its mean
:math:`\tfrac12 \mathrm{tr}(G^{-1} \partial_a G\, G^{-1} \partial_b G)`, whatever sigma is.
With :math:`K = G^{-1}`, :math:`u = K x`, :math:`h = x^T u` and c what a value does to the penalty through its column's scale,

.. math:: F_{ab} = \omega^2 (K_{ab} h + u_a u_b) + \omega K_{ab} (c_a u_a + c_b u_b) + \tfrac12 c_a c_b K_{ab}^2 .

A label moves no shape. Of single values it is exact; of a row, its root is at most
:math:`\omega (\|K\| h + |u|^2)^{1/2} + \max |c| (\tfrac12 \|K \circ K\|)^{1/2}`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak.engine.calibrated import has_own_shape
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.risk import with_constant
from fisherleak.protection.own_shape import HESSIAN, linear_part, public_curvature
from fisherleak.protection.quantities import feature_map

__all__ = ["ShapeTerm", "knows_shape", "shape_term"]

Vector = NDArray[np.float64]


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
        along = _norm(self.E.T @ self.K @ self.E) * np.sum(x * u, axis=1) + np.sum((u @ self.E) ** 2, axis=1)
        learned = self.slopes != 0
        size = math.sqrt(0.5 * _norm((self.K**2)[: len(learned), : len(learned)][np.ix_(learned, learned)]))
        return np.asarray(omega * np.sqrt(along) + size * np.max(np.abs(c), axis=1, initial=0.0))

    def cells(self, X: Any, weights: Any = None) -> Vector:
        """Etas of every attribute of every row, (n, attributes): exact for numbers, not below for others."""
        x, omega, c = self._of(X, weights)
        u = x @ self.K
        h, found = np.sum(x * u, axis=1), np.empty((len(x), len(self.spans)))
        for j, span in enumerate(self.spans):
            E = self.E[:, span]
            inner, seen = E.T @ self.K @ E, u @ E
            square = omega**2 * (_norm(inner) * h + np.sum(seen**2, axis=1))
            if E.shape[1] == 1:
                moved = c @ E[: c.shape[1], 0]
                square = square + 2.0 * omega * inner[0, 0] * moved * seen[:, 0] + 0.5 * (moved * inner[0, 0]) ** 2
            found[:, j] = np.sqrt(np.maximum(square, 0.0))
        return found

    def _of(self, X: Any, weights: Any) -> tuple[Vector, Vector, Vector]:
        plain = np.asarray(host(X), dtype=np.float64)
        x = np.asarray(with_constant(plain, self.intercept, self.centre))
        omega = np.ones(len(x)) if weights is None else np.asarray(host(weights), dtype=np.float64)
        c = self.slopes * (plain - self.means)
        return x, omega, c * omega[:, None] if self.weighted else c


def knows_shape(noise: Any, outputs: int = 1) -> bool:
    """Whether noise has a shape of the rows' own of which this is the term: G^-1 of one output.

    What shapes of least loss, and those of several outputs, tell by themselves is not known here, and nothing stands for it.
    """
    return outputs == 1 and has_own_shape(noise) and bool(noise.calibrated.shape == HESSIAN)


def shape_term(jacobian: Jacobian) -> ShapeTerm:
    """Of one release, whose noise has the shape of :func:`fisherleak.protection.own_shape.own_shape`."""
    linear, fit, folding = linear_part(jacobian), jacobian.fit, jacobian.folding
    K = np.asarray(host(linear.fit.factor.inverse()))
    d = int(jacobian.X.shape[1])
    slopes, means, weighted = np.zeros(d), np.zeros(d), False
    if folding is not None and folding.totals is not None and fit.l2 > 0:
        totals = np.asarray(host(folding.totals))
        learned = totals > 0
        slopes[learned] = 2.0 * fit.l2 / public_curvature(fit.loss) * fit.n / totals[learned]
        means, weighted = np.asarray(host(folding.means)), folding.weighted
    edges = np.cumsum([0, *(attribute.size for attribute in jacobian.attributes)]).tolist()
    spans = tuple(slice(a, b) for a, b in pairwise(edges))
    centre = None if fit.centre is None else np.asarray(host(fit.centre))
    E = feature_map(jacobian, jacobian.attributes, len(K))
    return ShapeTerm(K, E, spans, slopes, means, centre, fit.intercept is not None, weighted)


def _norm(matrix: Vector) -> float:
    return float(np.linalg.norm(matrix, 2)) if matrix.size else 0.0
