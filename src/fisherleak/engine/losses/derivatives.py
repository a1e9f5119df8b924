"""Derivatives of the package's own losses of one output, and what their second derivative does.

All take arrays of shape (n,) of any array library and return the same. They are named, not lambdas, so that a fit can be
pickled and sent to another process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fisherleak._support.arrays import Array, namespace
from fisherleak.engine.losses.loss import Derivative, no_slope

LARGEST_EXPONENT = 200.0
"""exp() is cut here: past it sums of squares overflow, and no minimum lies there."""


def minus_one(z: Array, y: Array) -> Array:
    return -namespace(z).ones_like(z)


def one(z: Array, y: Array) -> Array:
    return namespace(z).ones_like(z)


# Half the squared error: l = (z - y)^2 / 2.


def squared_value(z: Array, y: Array) -> Array:
    return 0.5 * (z - y) ** 2


def squared_r(z: Array, y: Array) -> Array:
    return z - y


# Logistic: l = log(1 + exp(z)) - y z, s(z) = 1 / (1 + exp(-z)).


def sigmoid(z: Array) -> Array:
    xp = namespace(z)
    e = xp.exp(-xp.abs(z))
    return xp.where(z >= 0, 1.0 / (1.0 + e), e / (1.0 + e))


def logistic_value(z: Array, y: Array) -> Array:
    # log(1 + e^z) - y z written as the loss of a label 1 and of a label 0, so that neither cancels.
    xp = namespace(z)
    tail = xp.log1p(xp.exp(-xp.abs(z)))
    ramp = xp.where(z > 0, z, xp.zeros_like(z))
    return tail + (1.0 - y) * ramp + y * (ramp - z)


def logistic_curvature(z: Array, y: Array) -> Array:
    xp = namespace(z)
    e = xp.exp(-xp.abs(z))
    return e / (1.0 + e) ** 2


def logistic_slope(z: Array, y: Array) -> Array:
    xp = namespace(z)
    return -logistic_curvature(z, y) * xp.tanh(0.5 * z)


def logistic_r(z: Array, y: Array) -> Array:
    """s(z) - y without cancellation at either end."""
    xp = namespace(z)
    e = xp.exp(-xp.abs(z))
    large, small = 1.0 / (1.0 + e), e / (1.0 + e)
    up = z >= 0
    return (1.0 - y) * xp.where(up, large, small) - y * xp.where(up, small, large)


# Poisson with log link: l = exp(z) - y z.


def exp(z: Array) -> Array:
    xp = namespace(z)
    return xp.exp(xp.clip(z, -LARGEST_EXPONENT, LARGEST_EXPONENT))


def poisson_r(z: Array, y: Array) -> Array:
    """exp(z) - y, where the two are close as y (exp(z - log y) - 1)."""
    xp = namespace(z)
    apart = z - xp.log(xp.where(y > 0, y, 1.0))
    near = (y > 0) & (xp.abs(apart) < 1)
    return xp.where(near, y * xp.expm1(xp.where(near, apart, 0.0)), exp(z) - y)


def poisson_value(z: Array, y: Array) -> Array:
    return exp(z) - y * z


def poisson_curvature(z: Array, y: Array) -> Array:
    return exp(z)


# Gamma with log link: l = z + y exp(-z).


def gamma_r(z: Array, y: Array) -> Array:
    """1 - y exp(-z), without cancellation."""
    xp = namespace(z)
    return -xp.expm1(xp.clip(xp.log(y) - z, -LARGEST_EXPONENT, LARGEST_EXPONENT))


def gamma_value(z: Array, y: Array) -> Array:
    return z + y * exp(-z)


def gamma_curvature(z: Array, y: Array) -> Array:
    return y * exp(-z)


def gamma_c(z: Array, y: Array) -> Array:
    return -exp(-z)


def gamma_slope(z: Array, y: Array) -> Array:
    return -gamma_curvature(z, y)


def gamma_slope_by_label(z: Array, y: Array) -> Array:
    return exp(-z) + no_slope(z, y)


# Pseudo-Huber: l = delta^2 (root - 1), root = (1 + ((z - y) / delta)^2)^(1/2).


@dataclass(frozen=True)
class AtDelta:
    """One of the functions below at a given delta; a closure would not pickle, and two partials are never equal."""

    function: Callable[[Array, Array, float], Array]
    delta: float

    def __call__(self, z: Array, y: Array) -> Array:
        return self.function(z, y, self.delta)


def huber_root(z: Array, y: Array, delta: float) -> Array:
    return namespace(z).sqrt(1.0 + ((z - y) / delta) ** 2)


def huber_value(z: Array, y: Array, delta: float) -> Array:
    """delta^2 (root - 1), written so that small residuals keep their digits."""
    return (z - y) ** 2 / (huber_root(z, y, delta) + 1.0)


def huber_r(z: Array, y: Array, delta: float) -> Array:
    return (z - y) / huber_root(z, y, delta)


def huber_curvature(z: Array, y: Array, delta: float) -> Array:
    return huber_root(z, y, delta) ** -3.0


def huber_c(z: Array, y: Array, delta: float) -> Array:
    return -huber_curvature(z, y, delta)


def huber_slope(z: Array, y: Array, delta: float) -> Array:
    return -3.0 * (z - y) / delta**2 * huber_root(z, y, delta) ** -5.0


def huber_slope_by_label(z: Array, y: Array, delta: float) -> Array:
    return -huber_slope(z, y, delta)


Functions = tuple[Derivative, Derivative, Derivative, Derivative]
SQUARED: Functions = (squared_value, squared_r, one, minus_one)
"""value, r, a and c, as of the others."""
LOGISTIC: Functions = (logistic_value, logistic_r, logistic_curvature, minus_one)
POISSON: Functions = (poisson_value, poisson_r, poisson_curvature, minus_one)
GAMMA: Functions = (gamma_value, gamma_r, gamma_curvature, gamma_c)


def pseudo_huber_at(delta: float) -> Functions:
    """value, r, a and c."""
    return (
        AtDelta(huber_value, delta),
        AtDelta(huber_r, delta),
        AtDelta(huber_curvature, delta),
        AtDelta(huber_c, delta),
    )
