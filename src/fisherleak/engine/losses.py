r"""Losses of generalised linear models, one record each.

A loss :math:`\ell(z, y)` of the linear predictor :math:`z = w \cdot x` and the label enters the
Jacobian of the minimiser only through three derivatives (paper, section 4.1):

.. math:: r = \ell'(z, y), \qquad a = \ell''(z, y), \qquad c = \partial \ell'(z, y) / \partial y.

All functions take arrays of shape (n,) of any array library and return the same. Adding a loss is
adding one record to ``LOSSES``; every property test runs on it at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from fisherleak._support.arrays import Array, namespace
from fisherleak.engine import loss_derivatives as of
from fisherleak.engine.loss_traits import Derivative, Traits, no_slope
from fisherleak.errors import InvalidInputError
from fisherleak.rows import sum_rows

__all__ = ["LOSSES", "OF_CLASSES", "Labels", "Loss", "check_name", "get_loss", "pseudo_huber"]

OF_CLASSES = "softmax"
"""The name of the loss of several scores, one for each class: a record of ``engine.outputs``."""


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
    traits : Traits, optional
        What is proved of these functions, for the package's own losses; that of other functions is not kept.
    """

    name: str
    value: Derivative
    r: Derivative
    a: Derivative
    c: Derivative
    labels: Labels
    start: Callable[[Array, Array], float] = _from_zero
    quadratic: bool = False
    mean: Callable[[Array], Array] = _same
    traits: Traits | None = None

    def __post_init__(self) -> None:
        # a copy with other functions keeps nothing that was proved of the first
        if self.traits is not None and self.traits.of != (self.value, self.r, self.a, self.c):
            object.__setattr__(self, "traits", None)

    @property
    def unit_curvature(self) -> bool:
        """Whether a is known to be one everywhere."""
        return self.traits is not None and self.traits.unit

    def __repr__(self) -> str:
        return f"Loss({self.name!r})"


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


_SQUARED = Loss(
    "squared",
    *of.SQUARED,
    labels=Labels("a finite number", _real),
    start=_mean,
    quadratic=True,
    traits=Traits(of.SQUARED, log_slope=0.0, peak=0.0, at_zero=1.0, slope=no_slope, largest=1.0),
)
_LOGISTIC = Loss(
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
_POISSON = Loss(
    "poisson",
    *of.POISSON,
    labels=Labels("a finite number, zero or more", _zero_or_more),
    start=_log_mean,
    mean=of.exp,
    traits=Traits(
        of.POISSON, log_slope=1.0, peak=math.inf, at_zero=1.0, slope=of.poisson_curvature, width=1.0, drawn=True
    ),
)
_GAMMA = Loss(
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


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (_SQUARED, _LOGISTIC, _POISSON, _GAMMA, pseudo_huber())}
"""Every loss by name."""
_OWN = dict(LOSSES)


def get_loss(loss: str | Loss) -> Loss:
    """The record of that name, or the record itself, unless it has the name of another one."""
    if isinstance(loss, Loss):
        check_name(loss)
        return loss
    if not isinstance(loss, str) or loss not in LOSSES:
        raise InvalidInputError(
            f"loss must be one of {', '.join(LOSSES)}, {OF_CLASSES} or a fisherleak.Loss record; got {loss!r}."
        )
    return LOSSES[loss]


def check_name(loss: Loss) -> None:
    """Refuse a record that has the name of one of the package's own and other functions: cards and ledgers know it by name."""
    delta = getattr(loss.a, "delta", None)
    known = pseudo_huber(delta) if loss.name == pseudo_huber.__name__ and delta is not None else _OWN.get(loss.name)
    same = known is not None and (loss.value, loss.r, loss.a) == (known.value, known.r, known.a)
    if loss.name in (*_OWN, OF_CLASSES) and not same:
        raise InvalidInputError(
            f"The loss has the name {loss.name!r}, which is that of a loss of the package with other derivatives: give it a "
            "name of its own."
        )
