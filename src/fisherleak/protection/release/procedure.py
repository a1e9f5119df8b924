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
import secrets
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fisherleak._support.namespaces import Estimator, Seed
from fisherleak._support.numbers import two_digits
from fisherleak._support.progress import stage
from fisherleak.engine.mechanisms.self_shaped import is_self_shaped
from fisherleak.engine.noise import Noise, released
from fisherleak.engine.noise.calibration_record import ANY_RECORD, calibration_of, publishable, remembering
from fisherleak.errors import InvalidInputError, SeededReleaseWarning
from fisherleak.models import final_estimator
from fisherleak.models.estimators import has_penalty, set_l2
from fisherleak.protection.release.penalty_and_shape import PublicNumbers, PublicPenalty, PublicShape

Vector = NDArray[np.float64]

USELESS = (
    "This release may be no better than the baseline. Judged by rows, parameters, bounds and limit alone, the noise is as "
    "large as the coefficients of many models: use a larger eta, declare narrower bounds, or get more rows."
)


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
    """A model before it leaves: a fit with its rows, and what is folded in. It is kept internal.

    One that a limit is asked of has ``calibrated(request, shape)`` too, the least noise that keeps it; one that mechanisms draw
    from ``drawn_by(mechanism, random_state)``; one that public numbers may decide of is a :class:`DecidedByPublicNumbers`.
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
    person, rows_per_person
        Whose row each is, and how many rows a person may have: the limit is then on all of them together.
    candidate : FrontierPoint or None
        What was chosen by held-out loss.
    penalty_given, on_ledger : bool
        A rule by public numbers decides neither a penalty that was given nor the covariance of what a ledger records.
    carded : bool
        A model card goes with the release and says what warnings say elsewhere.
    planned : bool
        Nothing is drawn, and its cost is asked for: no worst record is looked for beyond what the noise needs, nor a remedy.
    random_state : int or Generator, optional
        For tests only.
    """

    eta: float | None = None
    noise: Any = None
    over: str = ANY_RECORD
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
    planned: bool = False
    random_state: Seed = None
    person: Any = field(default=None, repr=False)
    rows_per_person: int | None = None

    @property
    def limit_of_one_row(self) -> float | None:
        """The part of the limit that one row has, where a person may have several."""
        return None if self.eta is None else self.eta / (self.rows_per_person or 1)

    @property
    def limits_anyone(self) -> bool:
        """Whether there is a limit, and on any record within the bounds."""
        return self.eta is not None and self.over == ANY_RECORD


class DecidedByPublicNumbers(ABC):
    """A model, of a table or of scikit-learn, whose penalty and covariance its public numbers may decide."""

    @property
    def takes_columns(self) -> bool:
        """Whether the rule for the penalty is for limits on columns too."""
        return False

    @abstractmethod
    def _numbers(self, request: ReleaseRequest) -> PublicNumbers:
        """What the rule knows of the model."""

    @abstractmethod
    def _l2(self, request: ReleaseRequest) -> float:
        """The penalty that the model has, as the rule counts it."""

    def public_penalty(self, request: ReleaseRequest) -> PublicPenalty | None:
        """The penalty that public numbers give; None where the limit is not on every row that could be there."""
        if not request.limits_anyone or not (request.attributes is None or self.takes_columns):
            return None
        found = self._numbers(request).penalty()
        return found if request.shape_from is None else replace(found, alone=True)

    def public_shape(self, request: ReleaseRequest) -> PublicShape | None:
        """The covariance by public numbers; None where one was asked for, or where the rule is not for this limit."""
        asked = request.shape is not None or request.shape_from is not None
        return None if asked or not request.limits_anyone else self._numbers(request).shape(self._l2(request))

    def predicted_cost(self, request: ReleaseRequest, noise: Noise, shape: str | None) -> float:
        """What penalty and noise are predicted to cost together, from the scale and public numbers."""
        return self._numbers(request).cost(noise.scale, shape, self._l2(request))

    def penalty_cost(self, request: ReleaseRequest, penalty: PublicPenalty) -> float:
        """The part of it that another penalty has by itself."""
        return self._numbers(request).penalty_cost(penalty.l2)

    def is_useless(self, request: ReleaseRequest, noise: Noise, shape: str | None) -> bool:
        """Whether public numbers predict that a release with this noise is no better than the baseline."""
        return self._numbers(request).is_useless(noise.scale, shape, self._l2(request))


@dataclass(frozen=True)
class MadeRelease:
    """A release: what leaves, and what its model card is made of.

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
"""By numbers that the model card tells anyway (``penalty_and_shape``)."""
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
    tried = planned_release(fit, request, read)
    fitted = tried.fitted
    noise = tried.noise if request.carded else publishable(tried.noise, stacklevel)
    recorded = None if before_draw is None else before_draw(fitted, noise)
    noisy = draw_parameters(fitted, noise, request.random_state)
    decided = tuple(each for each in (tried.penalty, tried.chosen) if each is not None)
    return MadeRelease(fitted, noise, tried.shape, noisy, fitted.built(noisy, noise), decided, recorded)


def released_by_rule(
    estimator: Estimator, fit: Callable[[Any], Any], request: ReleaseRequest, stacklevel: int = 4
) -> MadeRelease:
    """A model of scikit-learn whose penalty and covariance public numbers decide, as for a table (``penalty_and_shape``).

    ``fit`` fits and measures an unfitted copy of the estimator. One without a penalty that can be set keeps what it has.
    """
    settable = has_penalty(final_estimator(estimator))
    request = replace(request, strategy=PUBLIC_NUMBERS.name, penalty_given=not settable)
    read = fit(clone(estimator))
    rows, unit = two_digits(read.measured.n), read.unit_of_penalty(request)

    def fitted(penalty: PublicPenalty | None) -> Any:
        return read if penalty is None else fit(with_l2(estimator, penalty.l2 * unit, rows))

    made = make_release(fitted, request, read=read, stacklevel=stacklevel)
    if made.fitted.is_useless(request, made.noise, made.shape):
        warnings.warn(USELESS, stacklevel=stacklevel)
    return made


def with_l2(estimator: Estimator, l2: float, rows: int) -> Any:
    """An unfitted copy with a penalty of l2 for each of so many rows."""
    model = clone(estimator)
    set_l2(final_estimator(model), l2, rows)
    return model


@dataclass(frozen=True)
class PlannedRelease:
    """A model with a penalty, the covariance that was decided for it, and the least noise that keeps the limit."""

    penalty: Any
    fitted: Any
    chosen: Any
    noise: Any
    shape: Any

    def cost(self, request: ReleaseRequest) -> float:
        """What penalty and noise are predicted to cost together."""
        return float(self.fitted.predicted_cost(request, self.noise, self.shape))


def planned_release(fit: FitWith, request: ReleaseRequest, read: Any = None) -> PlannedRelease:
    """All that is decided of a release before its noise is drawn; arguments as in :func:`make_release`."""
    strategy = STRATEGIES[request.strategy]
    with stage("Finding the noise"):
        return _cheapest(fit, request, strategy, strategy.penalty(read, request))


def _cheapest(fit: FitWith, request: ReleaseRequest, strategy: Strategy, penalty: Any) -> PlannedRelease:
    """The first penalty of those that are compared whose next is predicted to cost no less; the only one, where it is.

    They are compared with noise in the shape of the inverse Hessian, whose cost follows from its scale; the one that is found
    then takes the shape of least loss, where that keeps the limit and is predicted to cost no more. All scales are on one grid,
    whose offset the release tells: what is taken is as constant under small changes of a row as they are, and a replaced row
    changes it with a probability of at most the sum of theirs.
    """
    if strategy is not PUBLIC_NUMBERS:
        fitted = fit(penalty)
        return _limited(penalty, fitted, request, strategy.shape(fitted, request))
    if request.random_state is None:  # the offset of all grids; noise is drawn without it
        request = replace(request, random_state=secrets.randbits(64))
    found: PlannedRelease | None = None
    refused, chance = None, 0.0
    for each in getattr(penalty, "compared", lambda: (penalty,))():
        if found is not None and found.fitted.penalty_cost(request, each) >= found.cost(request):
            break  # whatever its noise is
        try:
            tried = _tried(fit, request, strategy, each)
        except InvalidInputError as error:
            refused, chance = error, 1.0
            continue
        chance += _chance(tried.noise)
        if found is not None and tried.cost(request) >= found.cost(request):
            break
        found = tried
    if found is None:
        assert refused is not None
        raise refused
    chosen = strategy.shape(found.fitted, request)
    if chosen is not None and not found.chosen.refused and chosen.shape != found.shape:
        try:
            last = _limited(found.penalty, found.fitted, request, chosen)
            chance += _chance(last.noise)
            found = last if last.cost(request) <= found.cost(request) else found
        except InvalidInputError:  # the inverse Hessian stays, which was seen to keep the limit
            chance = 1.0
    return found if chance == _chance(found.noise) else replace(found, noise=_changed_with(found.noise, chance))


def _tried(fit: FitWith, request: ReleaseRequest, strategy: Strategy, penalty: Any) -> PlannedRelease:
    """With noise in the shape of the inverse Hessian, or alike on all where no bound holds with that."""
    fitted = fit(penalty)
    chosen = strategy.shape(fitted, request)
    if chosen is None:
        return _limited(penalty, fitted, request, None)
    chosen = chosen.by_the_hessian()
    try:
        return _limited(penalty, fitted, request, chosen)
    except InvalidInputError:
        # nobody asked for that shape: noise alike on all may keep the limit
        found = _limited(penalty, fitted, request, replace(chosen, refused=True))
    return replace(found, noise=_changed_with(found.noise, 1.0))


def _limited(penalty: Any, fitted: Any, request: ReleaseRequest, chosen: Any) -> PlannedRelease:
    shape = request.shape if chosen is None else chosen.shape
    noise = fitted.calibrated(request, shape) if request.noise is None else request.noise
    return PlannedRelease(penalty, fitted, chosen, noise, shape)


def _chance(noise: Any) -> float:
    """That replacing a row changes the scale, at most."""
    told = calibration_of(noise)
    return 1.0 if told is None or told.probability is None else told.probability


def _changed_with(noise: Any, chance: float) -> Any:
    """The noise, saying with what probability replacing a row changes its scale, or the penalty, at most."""
    told = calibration_of(noise)
    return noise if told is None else remembering(noise, replace(told, probability=round(min(1.0, chance), 2)))


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
