"""How far an exchanged row moves the parameters and the curvature, by all rows instead of by the farthest one.

Mathematics: 6.2, ``docs/mathematics/any-record.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fisherleak.engine.jacobian import Jacobian
from fisherleak.protection.certificates.bound_quantities import Quantities, rows_in_metric
from fisherleak.protection.certificates.known_losses import known_traits

__all__ = ["Drift", "drift_of"]

Vector = NDArray[np.float64]
LENGTHS = 2.0 ** np.concatenate(
    [np.arange(-9, -2), np.arange(-2, -1, 0.5), np.arange(-1, 1, 0.125), np.arange(1, 5.01, 0.25)]
)
"""Moves that are tabulated: most of them where those of tables lie that can be released."""
FLATTEST = 60.0
"""Exponents from here on are as good as infinite."""


@dataclass(frozen=True)
class Drift:
    """Tables of both changes of the curvature over moves."""

    falls: Vector
    """lambda_-, at each of ``LENGTHS``."""
    grows: Vector
    """lambda_+."""

    def moved(self, gradient: float) -> float:
        """The largest move under a gradient of this length; infinite where none is certain."""
        before, reached = 0.0, 0.0
        for length, fall in zip(LENGTHS.tolist(), self.falls.tolist(), strict=True):
            # section 6.2: the integral of 1 - lambda_- reaches N; lambda_- grows with d, so that its value at the end
            # of each part is taken for all of it
            slope = 1.0 - fall
            if slope <= 0:
                return math.inf
            there = reached + slope * (length - before)
            if there >= gradient:
                return float(before + (gradient - reached) / slope)
            before, reached = length, there
        return math.inf

    def log_factor(self, move: float) -> float:
        """The logarithm of the factors by which A changes under such a move, at most."""
        place = int(np.searchsorted(LENGTHS, move))
        if place == len(LENGTHS) or not self.falls[place] < 1:
            return math.inf
        # the larger of log(1 + lambda_+) and -log(1 - lambda_-), at the next point of the grid
        return max(math.log1p(float(self.grows[place])), -math.log1p(-float(self.falls[place])))


def drift_of(jacobian: Jacobian, q: Quantities) -> Drift:
    """The tables of a fit, for any one row leaving: two products of all rows for each length."""
    x, omega, a = rows_in_metric(jacobian)
    traits = known_traits(jacobian.fit.loss)
    # without the row that leaves, and with folded scales stretched, A is at least this part of H
    left = math.exp(q.stretch) / (1.0 - q.leverage) if q.leverage < 1 else math.inf
    s = omega * a
    # l q_j of section 6.2; x is B^1/2 x_j here, and A^-1 <= ``left`` B
    lengths = traits.log_slope * np.sqrt(left * np.sum(x * x, axis=1))
    most = omega * traits.largest
    falls, grows = [], []
    for length in LENGTHS.tolist() if math.isfinite(left) else ():
        exponent = np.minimum(lengths * length, FLATTEST)
        # s_j (e^(l q_j d) - 1), at most what is left up to omega_j times the largest curvature
        grown = np.where(exponent < FLATTEST, np.minimum(s * np.expm1(exponent), most - s), most - s)
        if not np.isfinite(grown).all():
            break
        # lambda_-(d) and lambda_+(d), the formula of section 6.2, in the metric of B and so times ``left`` in that of A
        falls.append(left * _largest(x, -s * np.expm1(-exponent)))
        grows.append(left * _largest(x, grown))
        if not falls[-1] < 1:
            break
    rest = [math.inf] * (len(LENGTHS) - len(falls))
    return Drift(np.array([*falls, *rest]), np.array([*grows, *rest]))


def _largest(x: Vector, weights: Vector) -> float:
    """The largest eigenvalue of sum weights x x^T, rounded up."""
    product = (x * np.maximum(weights, 0.0)[:, None]).T @ x
    return float(np.linalg.eigvalsh(product)[-1]) * (1.0 + 1e-9) + 1e-12
