r"""What an eta means to an adversary who estimates a value from the release.

Each function takes eta as a number or array, for one scalar value or one unit combination of values, and says
under which assumptions its bound holds. Only ``van_trees``, ``interval_minimax``,
``two_point`` and ``best_test`` bound *every* estimator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, ndtr, ndtri

from fisherleak._support.arrays import Array, as_array, host, like, namespace, normal_cdf
from fisherleak._support.checks import check_positive
from fisherleak.errors import InvalidInputError

__all__ = [
    "best_test",
    "biased_cramer_rao",
    "cramer_rao",
    "delta",
    "epsilon",
    "hammersley_chapman_robbins",
    "interval_minimax",
    "misses",
    "mu_of_epsilon",
    "reconstruction",
    "two_point",
    "van_trees",
]

FAR_APART = 40.0
"""Half a distance past which two releases are told apart for certain in float64: exp(-a^2 / 2) is zero."""
HALVINGS = 200
"""Of an interval that holds an epsilon or a mu: past these, float64 has no number between its ends."""
LARGEST_EXPONENT = 700.0
"""Squared moves past which the chi-square divergence is no number of float64."""


def _information(eta: Any) -> Any:
    """eta^2, for eta zero or more."""
    if isinstance(eta, (int, float)):
        value = check_positive(eta, "eta", zero=True)
        return value * value
    eta = as_array(eta, "eta")
    xp = namespace(eta)
    if not bool(xp.all((eta >= 0) & xp.isfinite(eta))):
        raise InvalidInputError("eta must be finite and zero or more everywhere.")
    return eta * eta


def _inverse(information: Any) -> Any:
    if isinstance(information, float):
        return math.inf if information == 0 else 1.0 / information
    xp = namespace(information)
    zero = information == 0
    return xp.where(zero, math.inf, 1.0 / xp.where(zero, 1.0, information))


def cramer_rao(eta: float | Array) -> Any:
    r"""Least variance of an unbiased estimator: :math:`1 / \eta^2`.

    Assumptions: the estimator is unbiased for every value of the data; the noise density is smooth enough that the
    score has mean zero (true for Gaussian noise). The attacker may know everything else. It does not bound biased
    estimators, which can have a smaller mean squared error at some values, in one dimension too: shrinkage does.

    Parameters
    ----------
    eta : float or array

    Returns
    -------
    float or array
        A variance; infinite where eta is zero.

    Examples
    --------
    >>> import fisherleak as fl
    >>> fl.bounds.cramer_rao(0.5)
    4.0
    """
    return _inverse(_information(eta))


def biased_cramer_rao(eta: float | Array, bias: float, bias_slope: float) -> Any:
    r"""Least mean squared error of an estimator of known bias: :math:`(1 + b')^2 / \eta^2 + b^2`.

    Assumptions: as for :func:`cramer_rao`, with ``bias`` b and its derivative ``bias_slope`` b' by the value, at the
    value in question. An estimator that ignores the release has b' = -1 and no variance to bound.

    Parameters
    ----------
    eta : float or array
    bias, bias_slope : float

    Returns
    -------
    float or array
        A mean squared error.

    Examples
    --------
    >>> round(biased_cramer_rao(0.5, bias=0.1, bias_slope=-0.2), 3)
    2.57
    """
    for name, value in (("bias", bias), ("bias_slope", bias_slope)):
        if not math.isfinite(value):
            raise InvalidInputError(f"{name} must be finite; got {value}.")
    if bias_slope == -1:
        return _information(eta) * 0.0 + bias**2
    return (1.0 + bias_slope) ** 2 * _inverse(_information(eta)) + bias**2


def van_trees(eta: float | Array, prior_sd: float) -> Any:
    r"""Least Bayes risk of any estimator under a Gaussian prior: :math:`1 / (E[\eta^2] + 1 / \tau^2)`.

    Assumptions: the value has a Gaussian prior of standard deviation tau, and ``eta`` is the root mean square of eta
    over that prior (eta at the true value is that only where it hardly changes over the prior). Bounds every
    estimator, biased or not, in squared error averaged over the prior.

    Parameters
    ----------
    eta : float or array
    prior_sd : float
        tau, greater than zero.

    Returns
    -------
    float or array
        A mean squared error; never more than the prior's own variance.

    Examples
    --------
    >>> import fisherleak as fl
    >>> fl.bounds.van_trees(0.0, prior_sd=2.0)
    4.0
    """
    tau = check_positive(prior_sd, "prior_sd")
    return _inverse(_information(eta) + _inverse(tau * tau))


def interval_minimax(eta: float | Array, half_width: float) -> Any:
    r"""Least worst-case squared error of any estimator of a value in an interval.

    .. math:: \mathrm{MSE} \ge 1 / (\sup \eta^2 + \pi^2 / B^2)

    Assumptions: the value is known to lie in an interval of half-width B, and ``eta`` is the largest eta over that
    interval. Bounds every estimator, biased or not, at the worst value of the interval. (Van Trees' inequality with the
    least informative prior on the interval, a squared cosine, whose information is pi^2 / B^2.)

    Parameters
    ----------
    eta : float or array
    half_width : float
        B, greater than zero.

    Returns
    -------
    float or array
        A mean squared error.

    Examples
    --------
    >>> round(interval_minimax(0.5, half_width=10.0), 3)
    2.868
    """
    B = check_positive(half_width, "half_width")
    return _inverse(_information(eta) + _inverse(B * B / math.pi**2))


def two_point(distance: float | Array, width: float | Array) -> Any:
    r"""Least worst-case squared error of any estimator that has to decide between two values.

    .. math:: \mathrm{MSE} \ge \Big(\frac{b}{2}\Big)^2 e^{-a^2 / 2}\, E \frac{1}{\cosh(a Z)}, \qquad
              a = \tfrac12 |w_1 - w_2|_{\Sigma^{-1}}, \quad Z \sim N(0, 1)

    with b the ``width`` between the two values and :math:`w_1, w_2` the models refitted with each. Every pair of values in an
    interval is a valid bound for that interval: take the largest of all pairs and of :func:`interval_minimax`. The best pair
    has a near 1, that is a ``distance`` near 2, and is often several times above :func:`interval_minimax`.

    Assumptions: normal noise of the same covariance for both values. Bounds every estimator, biased or not, at the worse of the
    two values, and is reached there: the best rule has the same error at both.

    Parameters
    ----------
    distance : float or array
        2 a: how far apart the two releases are, in standard deviations of the noise; zero or more.
    width : float or array
        b: how far apart the two values are; zero or more.

    Returns
    -------
    float or array
        A mean squared error; exact to 1e-13 of the squared half width.

    Examples
    --------
    >>> import fisherleak as fl
    >>> round(fl.bounds.two_point(2.0, width=10.0), 3)
    11.24
    """
    single = isinstance(distance, (int, float)) and isinstance(width, (int, float))
    _information(distance)
    half = _information(width) / 4.0
    a = as_array([0.5 * distance] if isinstance(distance, (int, float)) else distance * 0.5, "distance")
    xp = namespace(a)
    # trapezoid rule, its step min(1, 1 / a) / 4 on +-9: cosh(a z) has its poles at +-i pi / (2 a)
    flat = xp.reshape(xp.clip(a, 0.0, FAR_APART), (-1,))
    step = 0.25 / float(max(1.0, xp.max(flat))) if flat.shape[0] else 0.25
    count = math.ceil(9.0 / step)
    total = xp.zeros_like(flat)
    weight = 0.0
    for k in range(-count, count + 1):
        density = math.exp(-0.5 * (k * step) ** 2)
        size = xp.abs(flat * (k * step))
        total = total + density * 2.0 * xp.exp(-size - 0.5 * flat * flat) / (1.0 + xp.exp(-2.0 * size))
        weight += density
    found = half * xp.reshape(total / weight, a.shape)
    return float(found[0]) if single else found


def hammersley_chapman_robbins(move: float | Array, difference: float = 1.0) -> Any:
    r"""Least variance of an unbiased estimator between two values, without a derivative: :math:`\delta^2 / (e^{\mu^2} - 1)`.

    For categories, whose values lie apart: with D the move of what is released when the value changes by ``difference``
    :math:`\delta` (1 between two indicators), and :math:`\mu = |D|_{\Sigma^{-1}} / \sigma` the ``move`` in standard deviations
    of the noise, the chi-square divergence of the two releases is :math:`e^{\mu^2} - 1`. As the values come together it is
    :func:`cramer_rao`.

    Assumptions: normal noise whose scale and covariance are the same under both values; the estimator is unbiased at both. It
    does not bound biased estimators: :func:`best_test` bounds who guesses which of the two it is.

    Parameters
    ----------
    move : float or array
        mu, zero or more.
    difference : float
        delta, greater than zero.

    Returns
    -------
    float or array
        A variance; infinite where nothing moves, and zero where the move is so large that float64 cannot distinguish it from
        that.

    Examples
    --------
    >>> import fisherleak as fl
    >>> round(fl.bounds.hammersley_chapman_robbins(1.0), 3)
    0.582
    """
    apart = check_positive(difference, "difference")
    square = _information(move)
    if isinstance(square, float):
        divergence = math.expm1(square) if square < LARGEST_EXPONENT else math.inf
        return math.inf if divergence == 0 else apart * apart / divergence
    xp = namespace(square)
    divergence = xp.where(square < LARGEST_EXPONENT, xp.expm1(xp.clip(square, 0.0, LARGEST_EXPONENT)), math.inf)
    return apart * apart * _inverse(divergence)


def best_test(move: float | Array, prior: float = 0.5) -> Any:
    r"""How often anyone can be correct about which of two values a record has, from a release with normal noise.

    .. math:: p\, \Phi(\mu / 2 + \ell / \mu) + (1 - p)\, \Phi(\mu / 2 - \ell / \mu), \qquad \ell = \log p - \log(1 - p)

    with the ``move`` mu of :func:`hammersley_chapman_robbins` and the ``prior`` p of one of the values: the test by the ratio
    of likelihoods, which no guess beats. At equal odds it is :math:`\Phi(\mu / 2)`; it is never below the prior's own
    :math:`\max(p, 1 - p)`.

    Parameters
    ----------
    move : float or array
    prior : float
        Between 0 and 1.

    Examples
    --------
    >>> import fisherleak as fl
    >>> round(fl.bounds.best_test(1.0), 3), round(fl.bounds.best_test(1.0, prior=0.95), 3)
    (0.691, 0.95)
    """
    if not 0 < prior < 1:
        raise InvalidInputError(f"prior must be between 0 and 1; got {prior!r}.")
    _information(move)
    log_odds = math.log(prior / (1.0 - prior))
    mu = as_array([move] if isinstance(move, (int, float)) else move, "move")
    xp = namespace(mu)
    safe = xp.where(mu > 0, mu, 1.0)
    lean = log_odds / safe
    right = prior * normal_cdf(0.5 * mu + lean) + (1.0 - prior) * normal_cdf(0.5 * mu - lean)
    found = xp.where(mu > 0, xp.maximum(right, xp.full_like(right, max(prior, 1.0 - prior))), max(prior, 1.0 - prior))
    return float(found[0]) if isinstance(move, (int, float)) else found


def delta(mu: float | Array, epsilon: float) -> Any:
    r"""The delta that goes with an epsilon, for two releases with normal noise that are mu apart.

    .. math:: \delta(\epsilon) = \Phi(-\epsilon / \mu + \mu / 2) - e^{\epsilon}\, \Phi(-\epsilon / \mu - \mu / 2)

    Assumptions: normal noise of the same covariance for both. With mu from :meth:`fisherleak.Leakage.membership` it is about
    one person and this table. It is differential privacy only where mu bounds every table and every person.

    Parameters
    ----------
    mu : float or array
        How far apart the releases are, in standard deviations of the noise; zero or more, and may be infinite.
    epsilon : float
        Zero or more.

    Returns
    -------
    float or array
        Between 0 and 1.

    Examples
    --------
    >>> import fisherleak as fl
    >>> round(fl.bounds.delta(1.0, epsilon=1.0), 4)
    0.1269
    """
    limit = check_positive(epsilon, "epsilon", zero=True)
    return _elementwise(mu, "mu", lambda found: np.exp(_log_delta(found, np.full_like(found, limit))))


def epsilon(mu: float | Array, delta: float) -> Any:
    r"""The epsilon at a delta of two releases with normal noise that are mu apart: the inverse of :func:`delta`.

    Assumptions: those of :func:`delta`. The result is rounded up: at it, delta is at most what was asked, to 1e-8
    of it.

    Parameters
    ----------
    mu : float or array
        As for :func:`delta`; :meth:`fisherleak.Leakage.epsilon` has it for every row or person.
    delta : float
        Above 0 and below 1.

    Returns
    -------
    float or array
        Zero where delta alone covers it, infinite where mu is.

    Examples
    --------
    >>> import fisherleak as fl
    >>> round(fl.bounds.epsilon(1.0, delta=1e-5), 3)
    4.377
    """
    log_delta = math.log(_between(delta, "delta"))

    def found(mu: _Vector) -> _Vector:
        finite = np.where(np.isfinite(mu), mu, 1.0)
        # delta(epsilon) is at most the first of its two terms, which is delta here
        with np.errstate(over="ignore"):  # past the range of floats it is infinite
            most = np.maximum(finite * (0.5 * finite - ndtri(math.exp(log_delta))), 0.0)
        least = _bisected(np.zeros_like(finite), most, lambda middle: _log_delta(finite, middle) > log_delta)[1]
        covered = (finite == 0) | (_log_delta(finite, np.zeros_like(finite)) <= log_delta)
        return np.where(np.isfinite(mu), np.where(covered, 0.0, least), math.inf)

    return _elementwise(mu, "mu", found)


def mu_of_epsilon(epsilon: float | Array, delta: float) -> Any:
    """The largest mu at which :func:`epsilon` is not above a limit: the inverse by mu, rounded down.

    Parameters
    ----------
    epsilon : float or array
        Zero or more.
    delta : float
        Above 0 and below 1.

    Examples
    --------
    >>> import fisherleak as fl
    >>> round(fl.bounds.mu_of_epsilon(4.3772, delta=1e-5), 3)
    1.0
    """
    log_delta = math.log(_between(delta, "delta"))

    def found(epsilon: _Vector) -> _Vector:
        finite = np.where(np.isfinite(epsilon), epsilon, 1.0)
        # at epsilon and this mu, the first term of delta is a half, and the second below it by more than delta may be
        most = math.sqrt(2.0) * np.sqrt(finite) + 2.0 * abs(float(ndtri(math.exp(log_delta)))) + 80.0
        reached = _bisected(np.zeros_like(finite), most, lambda middle: _log_delta(middle, finite) <= log_delta)[0]
        return np.where(np.isfinite(epsilon), reached, math.inf)

    return _elementwise(epsilon, "epsilon", found)


def misses(mu: float | Array, alpha: float) -> Any:
    r"""How often the best test misses who is there, at a rate of false alarms: :math:`\Phi(\Phi^{-1}(1 - \alpha) - \mu)`.

    Assumptions: those of :func:`delta`. No test between the two releases, whatever it computes, misses less often.

    Parameters
    ----------
    mu : float or array
        As for :func:`delta`.
    alpha : float
        The rate of false alarms, above 0 and below 1.

    Examples
    --------
    >>> import fisherleak as fl
    >>> round(fl.bounds.misses(1.0, alpha=0.05), 3)
    0.74
    """
    threshold = -float(ndtri(_between(alpha, "alpha")))
    return _elementwise(mu, "mu", lambda found: ndtr(threshold - found))


def reconstruction(distance: float | Array, chance: float) -> Any:
    r"""How often anyone is correct about an unknown value after the release: at most :math:`\Phi(\Phi^{-1}(\kappa) + \rho)`.

    With kappa the ``chance`` of the best fixed guess before the release (of the value, or within a tolerance of it). rho is the
    ``distance``, over all values v that are possible: the largest :math:`|w(v) - c|_{\Sigma^{-1}}` of the model refitted with v
    from one fixed point c, the model without the row say. The move of leaving the true row out is not that: it does not
    bound what other values would do.

    Assumptions: normal noise of the same covariance for all values. It bounds every attacker, on average over what is believed
    of the value before; nothing is said about one value.

    Parameters
    ----------
    distance : float or array
        rho, zero or more, and may be infinite.
    chance : float
        kappa, above 0 and below 1.

    Examples
    --------
    >>> import fisherleak as fl
    >>> round(fl.bounds.reconstruction(1.0, chance=0.25), 3)
    0.628
    """
    start = float(ndtri(_between(chance, "chance")))
    return _elementwise(distance, "distance", lambda found: ndtr(start + found))


_Vector = NDArray[np.float64]


def _between(value: float, name: str) -> float:
    if not isinstance(value, (int, float)) or not 0 < value < 1:
        raise InvalidInputError(f"{name} must be above 0 and below 1; got {value!r}.")
    return float(value)


def _elementwise(given: Any, name: str, function: Callable[[_Vector], _Vector]) -> Any:
    """A function of numbers that are zero or more, or infinite, for one number or for an array of any library."""
    single = isinstance(given, (int, float))
    values = np.asarray(given if single else host(as_array(given, name)), dtype=np.float64)
    if not bool(np.all(values >= 0)):
        got = f"; got {given!r}" if single else " everywhere"
        raise InvalidInputError(f"{name} must be zero or more{got}.")
    found = np.asarray(function(np.atleast_1d(values)), dtype=np.float64).reshape(values.shape)
    if single:
        return float(found)
    where = as_array(given, name)
    return like(found, where, namespace(where))


def _log_delta(mu: _Vector, epsilon: _Vector) -> _Vector:
    """Log delta, to full relative accuracy where delta is small; minus infinity where mu is zero."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        apart = np.where(mu > 0, mu, 1.0)
        first, second = -epsilon / apart + 0.5 * apart, -epsilon / apart - 0.5 * apart
        # e^epsilon phi(second) = phi(first): a difference of Mills' ratios, where both are moderate
        ratios = erfcx(-first / math.sqrt(2.0)) - erfcx(-second / math.sqrt(2.0))
        far = -0.5 * first**2 + np.log(0.5 * ratios)
        near = np.log(np.clip(ndtr(first) - np.exp(epsilon + log_ndtr(second)), 0.0, 1.0))
        found = np.where(first < 0, far, near)
    return np.where(np.isinf(mu), 0.0, np.where(mu > 0, found, -math.inf))


def _bisected(low: _Vector, high: _Vector, below: Callable[[_Vector], NDArray[np.bool_]]) -> tuple[_Vector, _Vector]:
    """Two neighbours, of which the first is on the side where ``below`` holds and the second is not."""
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        under = below(middle)
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return low, high
