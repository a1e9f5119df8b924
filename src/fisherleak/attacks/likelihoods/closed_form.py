r"""How often the right one of two or three candidates is the most probable, under normal noise, without simulation.

With :math:`\Delta_k` the move of the parameters when the value becomes candidate k and b the noise, k scores
:math:`2 \Delta_k \cdot b - |\Delta_k|^2`. Candidate t beats j where b is on its side of a hyperplane, so that the expected
accuracy is the probability of an orthant: :math:`\Phi(|\Delta| / 2\sigma)` for two values, a bivariate normal for three.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, like, namespace, normal_cdf
from fisherleak.attacks.likelihoods.orthants import below_both

__all__ = ["MOST", "NEVER", "probability_ahead"]

Vector = NDArray[np.float64]

NEVER = -1e100
"""Log-probability of a candidate that cannot be."""
MOST = 3
"""Candidates for which there is a closed form."""


def probability_ahead(
    delta: Array, spread: Array, true: Array, log_prior: Vector, scale: float, short: Array | float = 0.0
) -> Array:
    """Probability that the true candidate beats the one or two others, (m,).

    Parameters
    ----------
    delta : array of shape (k, m, p)
        Moves of the parameters with each candidate, in the units in which they are compared.
    spread : array of shape (k, m, p)
        The same as the noise sees them: how far their difference is in units of ``scale``.
    true : integer array of shape (m,)
    log_prior : array of shape (k, 1) or (k, m)
        Zeros for an attacker who ignores it.
    scale : float
        Of the noise.
    short : array of shape (p,), optional
        What is in every release beside the noise.
    """
    xp = namespace(delta)
    k = delta.shape[0]
    found = [_margin(delta, spread, true, (true + shift) % k, log_prior, scale, short) for shift in range(1, k)]
    if k == 2:
        return normal_cdf(found[0][0])
    (first, along), (second, across) = found
    return below_both(first, second, xp.clip(xp.sum(along * across, axis=1), -1.0, 1.0))


def _margin(
    delta: Array, spread: Array, true: Array, other: Array, log_prior: Vector, scale: float, short: Array | float
) -> tuple[Array, Array]:
    """How many standard deviations the truth is ahead of another candidate, (m,), and the direction that decides, (m, p)."""
    xp = namespace(delta)
    mine, theirs = _picked(delta, true), _picked(delta, other)
    apart = _picked(spread, true) - _picked(spread, other)
    length = xp.sqrt(xp.sum(apart * apart, axis=1))
    ahead = xp.sum((theirs - mine) * (0.5 * (theirs + mine) - short), axis=1)
    # finite in place of minus infinity: two candidates that cannot be are alike, and no finite score makes up for it
    log_prior = np.broadcast_to(np.maximum(log_prior, NEVER), (log_prior.shape[0], delta.shape[1]))
    stack = like(log_prior[:, :, None], delta, xp)
    by_prior = (_picked(stack, true) - _picked(stack, other))[:, 0]
    ahead = ahead + scale**2 * by_prior
    # nothing to tell them apart but the prior, and then the order in which ties are broken
    decided = xp.where(ahead != 0, xp.sign(ahead), xp.where(true < other, xp.ones_like(ahead), -1.0))
    safe = xp.where(length > 0, length, 1.0)
    margin = xp.where(length > 0, ahead / (scale * safe), math.inf * decided)
    return margin, apart / safe[:, None]


def _picked(stack: Array, codes: Array) -> Array:
    """Row i of candidate codes[i] in a stack (k, m, p): (m, p)."""
    xp = namespace(stack)
    chosen = stack[0, ...]
    for k in range(1, stack.shape[0]):
        chosen = xp.where((codes == k)[:, None], stack[k, ...], chosen)
    return chosen
