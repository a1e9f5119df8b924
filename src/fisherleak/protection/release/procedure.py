r"""The one way in which a model leaves: penalty, noise, draw, and a model built anew.

``fl.release``, ``PrivateRelease``, ``Frontier.release`` (with it ``Protected``) and the command line all call
:func:`make_release`; they differ in what is fitted (:class:`Fitted`), in what is asked (:class:`ReleaseRequest`) and in who
decides the penalty and the covariance of the noise (``STRATEGIES``).

Where columns have public scales s and centres m, noise b without a covariance of its own acts in their frame: with raw
parameters w and :math:`F w = (s_k w_k,\ w_0 + m \cdot w)`, what leaves is :math:`F^{-1}\, \mathrm{grid}(F w + b)`, whose
covariance is :math:`F^{-1} \Sigma F^{-T}`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.namespaces import Seed
from fisherleak.engine.mechanisms.self_shaped import is_self_shaped
from fisherleak.engine.noise import released
from fisherleak.engine.noise.calibrated import ADMISSIBLE
from fisherleak.errors import SeededReleaseWarning
from fisherleak.protection.calibrate.calibration import publishable

__all__ = [
    "AS_GIVEN",
    "HELD_OUT_LOSS",
    "PUBLIC_NUMBERS",
    "STRATEGIES",
    "Fitted",
    "MadeRelease",
    "NoiseFrame",
    "ReleaseRequest",
    "Strategy",
    "draw_parameters",
    "make_release",
    "warn_of_seed",
]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class NoiseFrame:
    """Public scales and centres of the columns, (d,) each: the units in which noise acts on every output."""

    scales: Vector
    centres: Vector
    intercept: bool = True

    def by_output(self, theta: Vector) -> tuple[Vector, Vector]:
        """Coefficients (K, d) and intercepts of parameters: (K,), or none."""
        d = self.scales.size
        K = theta.size // (d + int(self.intercept))
        return theta[: K * d].reshape(K, d), theta[K * d :]

    def framed(self, raw: Vector) -> Vector:
        """Parameters in raw units as those that noise acts on: coefficients times scales, and levels at the centres."""
        coef, levels = self.by_output(raw)
        return np.append(coef * self.scales, levels + coef @ self.centres if self.intercept else levels)

    def raw(self, framed: Vector) -> Vector:
        """The way back; sums are exact before they are rounded, so that every machine has the same."""
        coef, levels = self.by_output(framed)
        coef = coef / self.scales
        # b = f_0 - sum_k m_k w_k
        below = [math.fsum([level, *(-row * self.centres).tolist()]) for level, row in zip(levels, coef, strict=False)]
        return np.append(coef, below)

    def largest_terms(self, raw: Vector) -> Vector:
        """The largest numbers that ``framed`` computes parameters from."""
        return NoiseFrame(np.abs(self.scales), np.abs(self.centres), self.intercept).framed(np.abs(raw))


class Fitted(Protocol):
    """A model before it leaves: a fit with its rows, and what is folded in. It stays in the house.

    One that a limit is asked of has ``calibrated(request, shape)`` too, the least noise that keeps it; one that mechanisms draw
    from ``drawn_by(mechanism, random_state)``; a table ``public_penalty(request)`` and ``public_shape(request)``.
    """

    def acted_on(self, noise: Any) -> tuple[Vector, Vector | None]:
        """Parameters where this noise acts, and the largest numbers they were computed from where these are larger."""

    def built(self, noisy: Vector, noise: Any) -> Any:
        """What leaves, made anew with parameters that have the noise on them."""


FitWith = Callable[[Any], Any]
"""Gives a :class:`Fitted` with the penalty that a strategy decided; with None, the model's own."""


@dataclass(frozen=True)
class ReleaseRequest:
    """What is asked of a release: a limit, on whom and on what, or the noise itself.

    Attributes
    ----------
    eta : float or None
        The limit; None where the noise is given.
    noise : Noise, mechanism or None
    over, attributes, bounds, groups, gap
        Of the limit, as in :func:`fisherleak.calibrate`.
    shape : str or None
        The covariance of the noise that was asked for by name.
    shape_from : table or None
        Public rows that this covariance comes from.
    strategy : str
        Who decides the penalty and the covariance: a name of ``STRATEGIES``.
    candidate : FrontierPoint or None
        What was chosen by held-out loss.
    penalty_given, on_ledger : bool
        A rule by public numbers decides neither a penalty that was given nor the covariance of what a ledger records.
    carded : bool
        A card goes with the release and says what warnings say elsewhere.
    random_state : int or Generator, optional
        For tests only.
    """

    eta: float | None = None
    noise: Any = None
    over: str = ADMISSIBLE
    attributes: Any = None
    bounds: Mapping[str, Any] | None = None
    groups: Any = field(default=None, repr=False)
    gap: float | None = None
    shape: str | None = None
    shape_from: Any = field(default=None, repr=False)
    strategy: str = "as given"
    candidate: Any = None
    penalty_given: bool = True
    on_ledger: bool = False
    carded: bool = False
    random_state: Seed = None


@dataclass(frozen=True)
class MadeRelease:
    """A release: what leaves, and what its card is made of.

    Attributes
    ----------
    fitted : Fitted
        The fit with its rows, without noise: it stays.
    noise : Noise or mechanism
        As it may be told.
    shape : str or None
        The name of the noise's covariance.
    noisy : array of shape (p,)
        Parameters with noise, where it acts.
    model : scikit-learn model or Released
        What leaves.
    decided : tuple
        What the strategy decided, of penalty and covariance; by public numbers each has its ``words()``.
    recorded
        What was recorded before the draw: the number on a ledger.
    """

    fitted: Any = field(repr=False)
    noise: Any
    shape: Any
    noisy: Vector = field(repr=False)
    model: Any
    decided: tuple[Any, ...] = ()
    recorded: Any = None


@dataclass(frozen=True)
class Strategy:
    """Who decides the penalty of a release and the covariance of its noise; None where a function decides nothing."""

    name: str
    penalty: Callable[[Any, ReleaseRequest], Any]
    shape: Callable[[Any, ReleaseRequest], Any]


AS_GIVEN = Strategy("as given", lambda read, request: None, lambda fitted, request: None)
"""The model's own penalty, and noise alike on all parameters unless a covariance is asked for."""
HELD_OUT_LOSS = Strategy(
    "held-out loss", lambda read, request: request.candidate, lambda fitted, request: request.candidate
)
"""Those of a candidate of a public grid, by the loss of noisy copies on held-out rows."""
PUBLIC_NUMBERS = Strategy(
    "public numbers",
    lambda read, request: None if request.penalty_given else read.public_penalty(request),
    lambda fitted, request: None if request.on_ledger else fitted.public_shape(request),
)
"""By numbers that the card tells anyway (``penalty_and_shape``)."""
STRATEGIES = {each.name: each for each in (AS_GIVEN, HELD_OUT_LOSS, PUBLIC_NUMBERS)}


def make_release(
    fit: FitWith,
    request: ReleaseRequest,
    *,
    read: Any = None,
    before_draw: Callable[[Any, Any], Any] | None = None,
    stacklevel: int = 4,
) -> MadeRelease:
    """Fit with the penalty that is decided, find the noise, draw it, and build what leaves anew.

    ``read`` is the model of a table before anything is decided: public numbers are of that one. ``before_draw`` is given the
    fit and its noise: what records a release does so before there is one.
    """
    strategy = STRATEGIES[request.strategy]
    penalty = strategy.penalty(read, request)
    fitted = fit(penalty)
    chosen = strategy.shape(fitted, request)
    shape = request.shape if chosen is None else chosen.shape
    noise = fitted.calibrated(request, shape) if request.noise is None else request.noise
    noise = noise if request.carded else publishable(noise, stacklevel)
    recorded = None if before_draw is None else before_draw(fitted, noise)
    noisy = draw_parameters(fitted, noise, request.random_state)
    decided = tuple(each for each in (penalty, chosen) if each is not None)
    return MadeRelease(fitted, noise, shape, noisy, fitted.built(noisy, noise), decided, recorded)


def draw_parameters(fitted: Any, noise: Any, random_state: Seed) -> Vector:
    """Parameters with noise, each on its grid, in the space where it acts; a mechanism draws them itself."""
    if is_self_shaped(noise):
        own: Vector = fitted.drawn_by(noise, random_state)
        return own
    theta, through = fitted.acted_on(noise)
    # rounded there: what is computed from these and from the public frame alone has no bit of the model before
    return released(theta, noise, random_state, through)


def warn_of_seed(random_state: Seed) -> None:
    """Say of a release that is drawn with a seed that it is for tests."""
    if random_state is not None:
        warnings.warn(
            "This release is drawn with random_state: noise that can be drawn again protects nothing. Use it for tests only, "
            "and leave random_state out of a release that is passed on.",
            SeededReleaseWarning,
            stacklevel=3,
        )
