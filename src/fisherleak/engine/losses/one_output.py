"""The package's own losses of one output, one record each, and their derivatives.

All functions take arrays of shape (n,) of any array library and return the same. They are named, not lambdas, so that a fit can
be pickled and sent to another process.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from fisherleak._support.arrays import Array, namespace
from fisherleak.engine.losses.loss import Labels, Loss, Traits, no_slope
from fisherleak.errors import InvalidInputError
from fisherleak.rows import sum_rows

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


def _real(y: Array) -> Array:
    return namespace(y).isfinite(y)


def _zero_or_more(y: Array) -> Array:
    return _real(y) & (y >= 0)


def _positive(y: Array) -> Array:
    return _real(y) & (y > 0)


def _zero_or_one(y: Array) -> Array:
    return (y == 0) | (y == 1)


def _mean(y: Array, weights: Array) -> float:
    def block(y: Array, weights: Array) -> tuple[Array, Array]:
        xp = namespace(y)
        return xp.sum(weights * y), xp.sum(weights)

    total, count = sum_rows(block, y, weights)
    return float(total / count)


def _log_mean(y: Array, weights: Array) -> float:
    return math.log(_mean(y, weights))


def _side_by_side(a: tuple[Array, ...], b: tuple[Array, ...]) -> tuple[Array, ...]:
    return (namespace(a[0]).concat([a[0], b[0]]),)


def _median(y: Array, weights: Array) -> float:
    """The median of the blocks' medians: near enough to start from."""

    def block(y: Array, weights: Array) -> tuple[Array]:
        xp = namespace(y)
        counted = xp.sort(y[weights > 0])
        return (counted[counted.shape[0] // 2 :][:1],)

    (medians,) = sum_rows(block, y, weights, join=_side_by_side)
    ordered = namespace(medians).sort(medians)
    return float(ordered[ordered.shape[0] // 2])


ALONE = 2.0**-52
"""Share of a class that has no row."""


def _log_odds(y: Array, weights: Array) -> float:
    # one class alone, as where the only row of the other is left out, is a start too: the steps from there find no minimum
    mean = min(max(_mean(y, weights), ALONE), 1.0 - ALONE)
    return math.log(mean / (1.0 - mean))


# value, r, a and c of each loss
_SQUARED = (squared_value, squared_r, one, minus_one)
_LOGISTIC = (logistic_value, logistic_r, logistic_curvature, minus_one)
_POISSON = (poisson_value, poisson_r, poisson_curvature, minus_one)
_GAMMA = (gamma_value, gamma_r, gamma_curvature, gamma_c)
SQUARED = Loss(
    "squared",
    *_SQUARED,
    labels=Labels("a finite number", _real),
    start=_mean,
    quadratic=True,
    traits=Traits(_SQUARED, log_slope=0.0, peak=0.0, at_zero=1.0, slope=no_slope, largest=1.0),
)
LOGISTIC = Loss(
    "logistic",
    *_LOGISTIC,
    labels=Labels("0 or 1", _zero_or_one, binary=True),
    start=_log_odds,
    mean=sigmoid,
    traits=Traits(
        _LOGISTIC,
        log_slope=1.0,
        peak=0.0,
        at_zero=0.25,
        slope=logistic_slope,
        width=1.0,
        largest=0.25,
        steepest=1.0,
        of_nothing=math.log(2.0),
        drawn=True,
    ),
)
POISSON = Loss(
    "poisson",
    *_POISSON,
    labels=Labels("a finite number, zero or more", _zero_or_more),
    start=_log_mean,
    mean=exp,
    traits=Traits(_POISSON, log_slope=1.0, peak=math.inf, at_zero=1.0, slope=poisson_curvature, width=1.0, drawn=True),
)
GAMMA = Loss(
    "gamma",
    *_GAMMA,
    labels=Labels("a finite number greater than zero", _positive),
    start=_log_mean,
    mean=exp,
    traits=Traits(
        _GAMMA,
        log_slope=1.0,
        peak=-math.inf,
        at_zero=1.0,
        slope=gamma_slope,
        slope_by_label=gamma_slope_by_label,
        width=1.0,
        by_label=True,
    ),
)


def pseudo_huber(delta: float = 1.0) -> Loss:
    r"""Smooth robust loss, squared near zero and linear in the tails.

    .. math:: \ell = \delta^2 \left(\sqrt{1 + ((z - y) / \delta)^2} - 1\right)

    Parameters
    ----------
    delta : float
        The residual at which it turns from squared to linear, in the units of y; greater than zero.

    Returns
    -------
    Loss
        To be passed as ``loss=`` to :func:`fisherleak.minimise`.

    Examples
    --------
    >>> import fisherleak as fl
    >>> fl.pseudo_huber(1.35).name
    'pseudo_huber'
    """
    if not (delta > 0 and math.isfinite(delta)):
        raise InvalidInputError(f"delta must be a finite number greater than zero; got {delta}.")
    value, r, a, c = (AtDelta(each, delta) for each in (huber_value, huber_r, huber_curvature, huber_c))
    functions = (value, r, a, c)
    return Loss(
        "pseudo_huber",
        *functions,
        labels=Labels("a finite number", _real),
        start=_median,
        traits=Traits(
            functions,
            log_slope=1.5 / delta,  # 3 t / (1 + t^2) / delta is at most this
            peak=0.0,
            at_zero=1.0,
            slope=AtDelta(huber_slope, delta),
            slope_by_label=AtDelta(huber_slope_by_label, delta),
            largest=1.0,
            steepest=float(delta),
            by_difference=True,
        ),
    )
