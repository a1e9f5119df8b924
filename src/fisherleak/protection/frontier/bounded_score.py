r"""The score by which a protected model is chosen: a held-out loss whose derivatives have a public bound.

A loss that grows without end gives one row as much say as it likes. So the slope of the squared loss is cut at
:math:`\rho`, an eighth of the label's range,

.. math:: \psi(z, y) = \tfrac12 e^2 \text{ for } |e| \le \rho, \quad \rho |e| - \tfrac12 \rho^2 \text{ beyond},
          \qquad e = z - y ,

and of other losses the linear predictor is, at :math:`\pm Z`: :math:`\psi(z, y) = \ell(\min(\max(z, -Z), Z), y)`. Both change
nothing for most rows, and rank models as the loss does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fisherleak.engine.losses import Loss
from fisherleak.engine.noise.calibrated import ADMISSIBLE
from fisherleak.errors import InvalidInputError

__all__ = ["BoundedScore", "score_for"]

Vector = NDArray[np.float64]
PART = 8.0
"""Of the label's range: where the slope of the squared loss is cut."""
FARTHEST = 3.0
"""Linear predictors beyond are as good: log-odds of 3 are 95 %."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


@dataclass(frozen=True)
class BoundedScore:
    """Psi and its derivatives, all (z, y) -> array."""

    loss: Loss
    steepest: float
    """Where the slope of a quadratic loss is cut; that of others ends where it ends."""
    farthest: float
    """Where the linear predictor of other losses is cut."""

    def value(self, z: Vector, y: Vector) -> Vector:
        if not self.loss.quadratic:
            return np.asarray(self.loss.value(self._cut(z), y))
        e = np.abs(z - y)
        if math.isinf(self.steepest):
            return np.asarray(0.5 * e**2)
        return np.where(e <= self.steepest, 0.5 * e**2, self.steepest * (e - 0.5 * self.steepest))

    def slope(self, z: Vector, y: Vector) -> Vector:
        """Its derivative by z."""
        if self.loss.quadratic:
            return np.clip(z - y, -self.steepest, self.steepest)
        return np.where(np.abs(z) < self.farthest, np.asarray(self.loss.r(self._cut(z), y)), 0.0)

    def by_label(self, z: Vector, y: Vector) -> Vector:
        """Its derivative by the label, but for a term that is the same for all models: the integral of c from 0 to z."""
        if self.loss.quadratic:
            return -self.slope(z, y)
        half = 0.5 * self._cut(z)
        parts = [
            weight * np.asarray(self.loss.c(half * (1.0 + node), y))
            for node, weight in zip(NODES, WEIGHTS, strict=True)
        ]
        return np.asarray(half * sum(parts))

    def _cut(self, z: Vector) -> Vector:
        return np.clip(z, -self.farthest, self.farthest)


def score_for(over: str, loss: Loss, labels: Vector | None) -> BoundedScore:
    """The score of a loss. ``labels`` are the ends of the label's range where it is public: for admissible rows."""
    if loss.quadratic:
        cut = math.inf if labels is None else float(np.ptp(labels)) / PART
        return BoundedScore(loss, cut, math.inf)
    if loss.labels.binary:
        return BoundedScore(loss, math.inf, FARTHEST)
    if over == ADMISSIBLE:
        raise InvalidInputError(
            f"A choice is counted for whoever could be in the table with the squared and the logistic loss, and the loss is "
            f"{loss.name}: name a candidate beforehand, release(choice=…), or use counted=False, which warns."
        )
    return BoundedScore(loss, math.inf, math.inf)
