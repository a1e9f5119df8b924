"""How well the best test tells one normal distribution from another: total variation, and the mu that is worth the same.

Mathematics: 4.11, ``docs/mathematics/changes.md``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

__all__ = ["bounded_mu", "equivalent_mu", "mu_along_a_row"]

Vector = NDArray[np.float64]
STEP = 0.5
"""In u, to begin with."""
MOST_HALVINGS = 9
SETTLED = 1e-5
"""Change, as a part of TV and 0.01, or of 1 - TV where that is less, at which no step is halved any more."""
SAFETY = 3.0
"""Times the last change that is added."""
FARTHEST = 32.0
"""Largest u: the weight there is 3e-14."""
AT_ONCE = 2**18
"""Values that are held at a time."""


def equivalent_mu(variances: Vector, moves: Vector) -> Vector:
    """The mu with the accuracy of the best test between N(0, I) and N(m, diag(v)) at even odds, (b,), from (b, k) each.

    Infinite where a move is, or where a variance is not a finite number above zero.
    """
    known = np.isfinite(moves).all(axis=1) & (np.isfinite(variances) & (variances > 0)).all(axis=1)
    found = np.full(len(moves), np.inf)
    found[known] = _mu(*_apart(variances[known], moves[known]))
    return found


def mu_along_a_row(left: Vector, residual: Vector, variance: Vector) -> Vector:
    r"""The same in closed form for the squared loss and noise of covariance T H^-1, (b,).

    ``left`` is 1 - h, with h the leverage of the row, ``residual`` r = x.w - y and ``variance`` T / omega. The likelihood ratio
    depends on the draw t through z = x.t alone: z - y is N(r, T h / omega) with the row and
    N(r / (1 - h), T h / (omega (1 - h))) without it, and the best test says "present" where |z - y| < c,
    :math:`c^2 = r^2 / (1 - h) - (T / \omega) \log(1 - h)`.
    """
    h = 1.0 - left
    still, lost = h <= 0, left <= 0
    h, left = np.where(still | lost, 0.5, h), np.where(still | lost, 0.5, left)
    r, c = np.abs(residual), np.sqrt(residual**2 / left - variance * np.log1p(-h))
    near, far = np.sqrt(variance * h), np.sqrt(variance * h / left)
    # by tails alone, so that neither a small nor a nearly certain total variation is lost in rounding
    missed = ndtr((r - c) / near) + ndtr(-(r + c) / near)
    taken = ndtr((c - r / left) / far) - ndtr(-(c + r / left) / far)
    told = ndtr((c - r) / near) - ndtr((c - r / left) / far) + ndtr(-(c + r / left) / far) - ndtr(-(c + r) / near)
    return np.where(lost, np.inf, np.where(still, 0.0, _mu(np.maximum(told, 0.0), missed + taken)))


def bounded_mu(divergence: Vector) -> Vector:
    r"""A mu that the equivalent one is not above, from a Kullback-Leibler divergence in either direction, (b,).

    Pinsker, :math:`\mathrm{TV} \le \sqrt{\mathrm{KL}/2}`, or Bretagnolle and Huber,
    :math:`\mathrm{TV} \le \sqrt{1 - e^{-\mathrm{KL}}}`: the least.
    """
    gone = np.exp(-divergence)
    # 1 - sqrt(1 - g) = g / (1 + sqrt(1 - g))
    told, kept = np.sqrt(-np.expm1(-divergence)), gone / (1.0 + np.sqrt(-np.expm1(-divergence)))
    pinsker = np.sqrt(0.5 * divergence)
    first = pinsker < told
    return _mu(np.where(first, pinsker, told), np.where(first, 1.0 - np.minimum(pinsker, 1.0), kept))


def _mu(told: Vector, kept: Vector) -> Vector:
    r"""2 Phi^-1((1 + TV) / 2) from TV and 1 - TV, by whichever is known better."""
    with np.errstate(divide="ignore"):
        small = 2.0 * ndtri(0.5 * (1.0 + np.minimum(told, 0.5)))
        return np.asarray(np.where(told < 0.5, small, -2.0 * ndtri(0.5 * np.clip(kept, 0.0, 1.0))))


def _apart(variances: Vector, moves: Vector) -> tuple[Vector, Vector]:
    """TV and 1 - TV, (b,): the first not below the truth and the second not above it, but for rounding."""
    step, nodes = STEP, np.asarray(STEP * np.arange(int(FARTHEST / STEP) + 1), dtype=np.float64)
    pair: Vector = np.asarray(STEP * _sums(variances, moves, nodes, first=0.5), dtype=np.float64)
    error, unsettled = np.full_like(pair, np.inf), np.arange(len(moves))
    for _ in range(MOST_HALVINGS):
        between = np.asarray(step * (np.arange(int(FARTHEST / step)) + 0.5), dtype=np.float64)
        before: Vector = pair[:, unsettled]
        more = _sums(variances[unsettled], moves[unsettled], between)
        finer: Vector = np.asarray(0.5 * before + 0.5 * step * more, dtype=np.float64)
        error[:, unsettled], pair[:, unsettled] = np.abs(finer - before), finer
        step *= 0.5
        # whichever of the two is the smaller is what counts
        change, least = np.abs(finer - before), np.where(finer[0] < finer[1], finer[0] + 0.01, np.abs(finer[1]))
        unsettled = unsettled[np.where(finer[0] < finer[1], *change) > SETTLED * least]
        if not unsettled.size:
            break
    # TV and 1 - TV are 2 / pi times the integrals over u of (1 - Re M) / cosh u and of Re M / cosh u (section 4.11)
    told, kept = 2.0 / np.pi * (pair + SAFETY * np.array([[1.0], [-1.0]]) * error)
    return np.clip(told, 0.0, 1.0), np.clip(kept, 0.0, 1.0)


def _sums(variances: Vector, moves: Vector, nodes: Vector, first: float = 1.0) -> Vector:
    """Sums of (1 - Re M) / cosh u and of Re M / cosh u over nodes u, (2, b); the first node counts ``first`` times."""
    weight, found = 1.0 / np.cosh(nodes), np.zeros((2, len(moves)))
    weight[0] *= first
    most = max(1, AT_ONCE // max(1, len(moves)))
    for start in range(0, len(nodes), most):
        some = slice(start, start + most)
        size, phase = _log_ratio(variances, moves, 0.5 * np.sinh(nodes[some]))
        # 1 - e^R cos I = (1 - e^R) + 2 e^R sin^2(I / 2)
        found[0] += (2.0 * np.exp(size) * np.sin(0.5 * phase) ** 2 - np.expm1(size)) @ weight[some]
        found[1] += (np.exp(size) * np.cos(phase)) @ weight[some]
    return found


def _log_ratio(variances: Vector, moves: Vector, tau: Vector) -> tuple[Vector, Vector]:
    """The real and the imaginary part of log M at every tau, (b, t) each."""
    size, phase = np.zeros((2, len(moves), len(tau)))
    square = 0.25 + tau**2
    for j in range(variances.shape[1]):
        wider, log = variances[:, j, None] - 1.0, np.log(variances[:, j, None])
        # 1 + alpha (v - 1) = real + i tau (v - 1), of squared size 1 + (v - 1) + (v - 1)^2 (1/4 + tau^2)
        real, above = 1.0 + 0.5 * wider, wider + wider**2 * square
        pull = 0.5 * square * moves[:, j, None] ** 2 / (1.0 + above)
        # with s = 1 + alpha (v - 1), log M is the sum over j of
        # alpha log(v) / 2 - log(s) / 2 - (1/4 + tau^2) m^2 / (2 s) (section 4.11)
        size += 0.25 * (log - np.log1p(above)) - pull * real
        phase += 0.5 * (tau * log - np.arctan(tau * wider / real)) + pull * tau * wider
    return size, phase
