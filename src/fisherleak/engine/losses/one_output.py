"""The package's own losses of one output, one record each; their functions take and return arrays of shape (n,)."""

from __future__ import annotations

import math

from fisherleak._support.arrays import Array, namespace
from fisherleak.engine.losses import derivatives as of
from fisherleak.engine.losses.loss import Labels, Loss, Traits, no_slope
from fisherleak.errors import InvalidInputError
from fisherleak.rows import sum_rows


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


SQUARED = Loss(
    "squared",
    *of.SQUARED,
    labels=Labels("a finite number", _real),
    start=_mean,
    quadratic=True,
    traits=Traits(of.SQUARED, log_slope=0.0, peak=0.0, at_zero=1.0, slope=no_slope, largest=1.0),
)
LOGISTIC = Loss(
    "logistic",
    *of.LOGISTIC,
    labels=Labels("0 or 1", _zero_or_one, binary=True),
    start=_log_odds,
    mean=of.sigmoid,
    traits=Traits(
        of.LOGISTIC,
        log_slope=1.0,
        peak=0.0,
        at_zero=0.25,
        slope=of.logistic_slope,
        width=1.0,
        largest=0.25,
        steepest=1.0,
        of_nothing=math.log(2.0),
        drawn=True,
    ),
)
POISSON = Loss(
    "poisson",
    *of.POISSON,
    labels=Labels("a finite number, zero or more", _zero_or_more),
    start=_log_mean,
    mean=of.exp,
    traits=Traits(
        of.POISSON, log_slope=1.0, peak=math.inf, at_zero=1.0, slope=of.poisson_curvature, width=1.0, drawn=True
    ),
)
GAMMA = Loss(
    "gamma",
    *of.GAMMA,
    labels=Labels("a finite number greater than zero", _positive),
    start=_log_mean,
    mean=of.exp,
    traits=Traits(
        of.GAMMA,
        log_slope=1.0,
        peak=-math.inf,
        at_zero=1.0,
        slope=of.gamma_slope,
        slope_by_label=of.gamma_slope_by_label,
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
    functions = of.pseudo_huber_at(delta)
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
            slope=of.AtDelta(of.huber_slope, delta),
            slope_by_label=of.AtDelta(of.huber_slope_by_label, delta),
            largest=1.0,
            steepest=float(delta),
            by_difference=True,
        ),
    )
