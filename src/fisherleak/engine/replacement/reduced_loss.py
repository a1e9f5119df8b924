r"""Losses of one output and of several as functions of the same shapes: scores (b, L), gradients (b, L), curvatures (b, L, L).

How fast a curvature changes is known for losses whose third and fourth derivatives are no more than their second,

.. math:: |\ell'''(v, v, u)| \le \sqrt{w} |v|\, |v|_A |u|_A, \qquad |\ell''''(v, v, v, u)| \le w |v|^2 |v|_A |u|_A ,

with :math:`|v|_A^2 = v^T A v`: w = 1 for the logistic, Poisson and gamma losses and for one model for each class. For softmax
:math:`v^T A v` is the variance of v over the classes, and the other two are cumulants, which the range of v bounds: w = 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fisherleak._support.arrays import Array
from fisherleak.engine.outputs.several_risk import OutputsRisk
from fisherleak.engine.risk import Risk, within_reach

__all__ = ["ReducedLoss", "reduced_loss"]


@dataclass(frozen=True)
class ReducedLoss:
    """Derivatives of a loss by the reduced scores of rows."""

    loss: Any
    frame: Array | None
    """Q, (K, L); None for one output."""
    outputs: int
    """L."""
    scores: int
    """K."""

    @property
    def quadratic(self) -> bool:
        return bool(self.loss.quadratic)

    def gradient(self, z: Array, y: Array) -> Array:
        if self.frame is None:
            return self.loss.r(within_reach(z[:, 0]), y)[:, None]
        return self.loss.gradient(within_reach(z @ self.frame.T), y) @ self.frame

    def curvature(self, z: Array, y: Array) -> Array:
        if self.frame is None:
            return self.loss.a(within_reach(z[:, 0]), y)[:, None, None]
        return self.loss.curvature(within_reach(z @ self.frame.T), self.frame)

    @property
    def width(self) -> float | None:
        """w; None where nothing is known of the third derivative."""
        known = self.loss.traits if self.frame is None else self.loss
        found: float | None = None if known is None else known.width
        return found


def reduced_loss(risk: Risk) -> ReducedLoss:
    """That of a risk of one output or of several."""
    if isinstance(risk, OutputsRisk):
        return ReducedLoss(risk.loss, risk.frame, risk.size // risk.width, risk.outputs)
    return ReducedLoss(risk.loss, None, 1, 1)
