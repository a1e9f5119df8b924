r"""Losses of generalised linear models, one record each.

A loss :math:`\ell(z, y)` of the linear predictor :math:`z = w \cdot x` and the label enters the
Jacobian of the minimiser only through three derivatives (paper, section 4.1):

.. math:: r = \ell'(z, y), \qquad a = \ell''(z, y), \qquad c = \partial \ell'(z, y) / \partial y.

All functions take arrays of shape (n,) of any array library and return the same. Adding a loss is
adding one record to ``LOSSES``; every property test runs on it at once. The functions of the package's own losses are
named, not lambdas, so that a fit can be pickled and sent to another process.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from fisherleak._support.arrays import Array, namespace
from fisherleak.errors import InvalidInputError
from fisherleak.rows import sum_rows

__all__ = ["LOSSES", "Labels", "Loss", "check_name", "get_loss", "pseudo_huber"]

LARGEST_EXPONENT = 200.0
"""exp() is cut here: past it sums of squares overflow, and no minimum lies there."""


def _from_zero(y: Array, weights: Array) -> float:
    return 0.0


def _same(z: Array) -> Array:
    return z


@dataclass(frozen=True)
class Labels:
    """The labels a loss accepts.

    Parameters
    ----------
    rule : str
        In words, for the refusal: "0 or 1".
    accepts : callable
        y -> boolean array, true where a label is allowed.
    binary : bool
        Whether exactly two classes are expected.
    """

    rule: str
    accepts: Callable[[Array], Array]
    binary: bool = False


@dataclass(frozen=True, repr=False)
class Loss:
    """A convex, twice differentiable loss of (linear predictor, label).

    Parameters
    ----------
    name : str
        Its name in the registry.
    value, r, a, c : callable
        (z, y) -> array: the loss and the derivatives dl/dz, d2l/dz2, d2l/dzdy.
    labels : Labels
        The labels it accepts.
    start : callable
        (labels, weights) -> linear predictor of the best constant model, or near it: where the search for an intercept
        starts. A ValueError says that there is none.
    quadratic : bool
        Whether ``a`` and ``c`` are constant, so that one Newton step is exact.
    mean : callable
        Linear predictor -> the label it predicts.
    """

    name: str
    value: Callable[[Array, Array], Array]
    r: Callable[[Array, Array], Array]
    a: Callable[[Array, Array], Array]
    c: Callable[[Array, Array], Array]
    labels: Labels
    start: Callable[[Array, Array], float] = _from_zero
    quadratic: bool = False
    mean: Callable[[Array], Array] = _same

    def __repr__(self) -> str:
        return f"Loss({self.name!r})"


def _minus_one(z: Array, y: Array) -> Array:
    return -namespace(z).ones_like(z)


def _one(z: Array, y: Array) -> Array:
    return namespace(z).ones_like(z)


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


# Half the squared error: l = (z - y)^2 / 2.


def _squared_value(z: Array, y: Array) -> Array:
    return 0.5 * (z - y) ** 2


def _squared_r(z: Array, y: Array) -> Array:
    return z - y


_SQUARED = Loss(
    name="squared",
    value=_squared_value,
    r=_squared_r,
    a=_one,
    c=_minus_one,
    labels=Labels("a finite number", _real),
    start=_mean,
    quadratic=True,
)


# Logistic: l = log(1 + exp(z)) - y z, s(z) = 1 / (1 + exp(-z)).


def _sigmoid(z: Array) -> Array:
    xp = namespace(z)
    e = xp.exp(-xp.abs(z))
    return xp.where(z >= 0, 1.0 / (1.0 + e), e / (1.0 + e))


def _logistic_value(z: Array, y: Array) -> Array:
    # log(1 + e^z) - y z written as the loss of a label 1 and of a label 0, so that neither cancels.
    xp = namespace(z)
    tail = xp.log1p(xp.exp(-xp.abs(z)))
    ramp = xp.where(z > 0, z, xp.zeros_like(z))
    return tail + (1.0 - y) * ramp + y * (ramp - z)


ALONE = 2.0**-52
"""Share of a class that has no row."""


def _logistic_curvature(z: Array, y: Array) -> Array:
    xp = namespace(z)
    e = xp.exp(-xp.abs(z))
    return e / (1.0 + e) ** 2


def _logistic_r(z: Array, y: Array) -> Array:
    """s(z) - y without cancellation at either end."""
    xp = namespace(z)
    e = xp.exp(-xp.abs(z))
    large, small = 1.0 / (1.0 + e), e / (1.0 + e)
    up = z >= 0
    return (1.0 - y) * xp.where(up, large, small) - y * xp.where(up, small, large)


def _log_odds(y: Array, weights: Array) -> float:
    # one class alone, as where the only row of the other is left out, is a start too: the steps from there find no minimum
    mean = min(max(_mean(y, weights), ALONE), 1.0 - ALONE)
    return math.log(mean / (1.0 - mean))


_LOGISTIC = Loss(
    name="logistic",
    value=_logistic_value,
    r=_logistic_r,
    a=_logistic_curvature,
    c=_minus_one,
    labels=Labels("0 or 1", _zero_or_one, binary=True),
    start=_log_odds,
    mean=_sigmoid,
)


# Poisson with log link: l = exp(z) - y z.


def _exp(z: Array) -> Array:
    xp = namespace(z)
    return xp.exp(xp.clip(z, -LARGEST_EXPONENT, LARGEST_EXPONENT))


def _poisson_r(z: Array, y: Array) -> Array:
    """exp(z) - y, where the two are close as y (exp(z - log y) - 1)."""
    xp = namespace(z)
    apart = z - xp.log(xp.where(y > 0, y, 1.0))
    near = (y > 0) & (xp.abs(apart) < 1)
    return xp.where(near, y * xp.expm1(xp.where(near, apart, 0.0)), _exp(z) - y)


def _poisson_value(z: Array, y: Array) -> Array:
    return _exp(z) - y * z


def _poisson_curvature(z: Array, y: Array) -> Array:
    return _exp(z)


_POISSON = Loss(
    name="poisson",
    value=_poisson_value,
    r=_poisson_r,
    a=_poisson_curvature,
    c=_minus_one,
    labels=Labels("a finite number, zero or more", _zero_or_more),
    start=_log_mean,
    mean=_exp,
)


# Gamma with log link: l = z + y exp(-z).


def _gamma_r(z: Array, y: Array) -> Array:
    """1 - y exp(-z), without cancellation."""
    xp = namespace(z)
    return -xp.expm1(xp.clip(xp.log(y) - z, -LARGEST_EXPONENT, LARGEST_EXPONENT))


def _gamma_value(z: Array, y: Array) -> Array:
    return z + y * _exp(-z)


def _gamma_curvature(z: Array, y: Array) -> Array:
    return y * _exp(-z)


def _gamma_c(z: Array, y: Array) -> Array:
    return -_exp(-z)


_GAMMA = Loss(
    name="gamma",
    value=_gamma_value,
    r=_gamma_r,
    a=_gamma_curvature,
    c=_gamma_c,
    labels=Labels("a finite number greater than zero", _positive),
    start=_log_mean,
    mean=_exp,
)


# Pseudo-Huber: l = delta^2 (root - 1), root = (1 + ((z - y) / delta)^2)^(1/2).


@dataclass(frozen=True)
class _AtDelta:
    """One of the functions below at a given delta; a closure would not pickle, and two partials are never equal."""

    function: Callable[[Array, Array, float], Array]
    delta: float

    def __call__(self, z: Array, y: Array) -> Array:
        return self.function(z, y, self.delta)


def _huber_root(z: Array, y: Array, delta: float) -> Array:
    return namespace(z).sqrt(1.0 + ((z - y) / delta) ** 2)


def _huber_value(z: Array, y: Array, delta: float) -> Array:
    """delta^2 (root - 1), written so that small residuals keep their digits."""
    return (z - y) ** 2 / (_huber_root(z, y, delta) + 1.0)


def _huber_r(z: Array, y: Array, delta: float) -> Array:
    return (z - y) / _huber_root(z, y, delta)


def _huber_curvature(z: Array, y: Array, delta: float) -> Array:
    return _huber_root(z, y, delta) ** -3.0


def _huber_c(z: Array, y: Array, delta: float) -> Array:
    return -_huber_curvature(z, y, delta)


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
    return Loss(
        name="pseudo_huber",
        value=_AtDelta(_huber_value, delta),
        r=_AtDelta(_huber_r, delta),
        a=_AtDelta(_huber_curvature, delta),
        c=_AtDelta(_huber_c, delta),
        labels=Labels("a finite number", _real),
        start=_median,
    )


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (_SQUARED, _LOGISTIC, _POISSON, _GAMMA, pseudo_huber())}
"""Every loss by name."""
_OWN = dict(LOSSES)


def get_loss(loss: str | Loss) -> Loss:
    """The record of that name, or the record itself, unless it has the name of another one."""
    if isinstance(loss, Loss):
        check_name(loss)
        return loss
    if loss not in LOSSES:
        raise InvalidInputError(
            f"loss must be one of {', '.join(LOSSES)}, softmax or a fisherleak.Loss record; got {loss!r}."
        )
    return LOSSES[loss]


def check_name(loss: Loss) -> None:
    """Refuse a record that has the name of one of the package's own and other functions.

    What is known of a loss beside its functions (how far its curvature moves, say) is known by name.
    """
    delta = getattr(loss.a, "delta", None)
    known = pseudo_huber(delta) if loss.name == pseudo_huber.__name__ and delta is not None else _OWN.get(loss.name)
    same = known is not None and (loss.value, loss.r, loss.a) == (known.value, known.r, known.a)
    if loss.name in (*_OWN, "softmax") and not same:
        raise InvalidInputError(
            f"The loss has the name {loss.name!r}, which is that of a loss of the package with other derivatives: give it a "
            "name of its own."
        )
