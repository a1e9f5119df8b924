"""What one noisy sum of gradients tells about the gradient of an example that may or may not be in it.

Mathematics: 3.7, ``docs/mathematics/mechanisms.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr

from fisherleak.errors import InvalidInputError

__all__ = ["CLIPS", "LONGEST", "Subsampling", "subsampled_information", "subsampling_table"]

Vector = NDArray[np.float64]
REACH = 12.0
"""Standard deviations that the integrals cover."""
STEP = 0.02
"""Of the integrals, where the sigmoid is no steeper than the density."""
NODES = 1025
"""Of a table, at least, over the lengths that clipping leaves."""
WIDEST = 0.004
"""Space between nodes, at most: information is then at most 2e-4 above the truth, eta 1e-4."""
TOLD = 40.0
"""Past so many standard deviations of the noise it shows who is in, and the bound q is reached to rounding."""
INTEGRAND_VALUES = 2**21
"""Values of the integrands at a time."""


def subsampled_information(sample_rate: float, rho: Vector) -> tuple[Vector, Vector]:
    """A (across) and L (along) of a gradient of rho standard deviations of the noise, exact to rounding."""
    rho = np.atleast_1d(np.asarray(rho, dtype=np.float64))
    if sample_rate == 1.0:
        return np.ones_like(rho), np.ones_like(rho)
    # the poles of the sigmoid are pi / rho away from the real line: the error is exp(-2 pi^2 / (rho step))
    step = min(STEP, 0.5 / max(float(rho.max(initial=0.0)), 1e-300))
    t = np.arange(-REACH, REACH + step, step)
    density = step * np.exp(-0.5 * t * t) / np.sqrt(2.0 * np.pi)
    # section 3.7: E[omega(t)] and E[omega(t) t^2] by the trapezoidal rule
    weights = np.stack([density, density * t * t], axis=1)
    found = []
    for part in np.array_split(rho, max(1, rho.size * t.size // INTEGRAND_VALUES)):
        # omega(t), the probability that the example was in
        omega = expit(logit(sample_rate) + part[:, None] * t[None, :] + 0.5 * part[:, None] ** 2)
        found.append(sample_rate * (omega @ weights))
    both = np.concatenate(found)
    return both[:, 0], both[:, 1]


@dataclass(frozen=True)
class Subsampling:
    """A and L at equally spaced rho, raised so that what lies between them is not below the truth."""

    sample_rate: float
    largest: float
    """The largest rho."""
    across: Vector
    along: Vector

    def at(self, rho: Vector) -> tuple[Vector, Vector]:
        """Both, interpolated on the safe side and never above q."""
        if float(np.max(rho, initial=0.0)) > self.largest * (1.0 + 1e-9):
            raise InvalidInputError(f"rho is at most {self.largest:g} in this table; got {float(np.max(rho)):g}.")
        nodes, top = np.linspace(0.0, min(self.largest, TOLD), self.across.size), self.sample_rate
        across, along = (np.interp(rho, nodes, values) for values in (self.across, self.along))
        return np.where(rho > TOLD, top, across), np.where(rho > TOLD, top, along)

    @property
    def worst(self) -> float:
        """The larger of both over all rho of the table."""
        if self.largest > TOLD:
            return self.sample_rate
        return float(max(self.across.max(), self.along.max()))


def subsampling_table(sample_rate: float, largest: float, sampling: str = "poisson") -> Subsampling:
    r"""For gradients of up to ``largest`` standard deviations of the noise.

    A straight line misses a curve by at most :math:`h^2 \max |f''| / 8`; twice that, from second differences of the
    neighbours, is added to every node.
    """
    if sampling == "fixed":
        return Subsampling(sample_rate, largest, np.full(2, sample_rate), np.full(2, sample_rate))
    reach = min(largest, TOLD)
    both = subsampled_information(sample_rate, np.linspace(0.0, reach, max(NODES, math.ceil(reach / WIDEST) + 1)))
    return Subsampling(sample_rate, largest, *(_raised(values, sample_rate) for values in both))


def _raised(values: Vector, top: float) -> Vector:
    second = np.abs(np.diff(values, 2))
    wide = np.concatenate([second[:1], second[:1], second, second[-1:], second[-1:]])
    # second differences are h^2 f'': a quarter is twice h^2 f'' / 8
    margin: Vector = 0.25 * np.max(np.stack([wide[k : k + values.size] for k in range(3)]), axis=0)
    return np.asarray(np.minimum(values + margin + 1e-14 * values, top))


# clipping multiplies g by a function of its length: its derivative by g is alpha across g and beta along it


def _hard(length: Vector, most: float) -> tuple[Vector, Vector, Vector]:
    """By min(1, C / |g|): 1 and 1 up to C, C / |g| and 0 beyond; at the kink the unclipped side, the larger one, counts."""
    inside = length <= most
    shrunk = np.where(inside, 1.0, most / np.where(inside, most, length))
    return shrunk, np.where(inside, 1.0, 0.0), np.minimum(length, most)


def _smooth(length: Vector, most: float) -> tuple[Vector, Vector, Vector]:
    """By 1 / (1 + gelu(|g| / C - 1)), Guo et al. 2022: never longer than 1.1153 C."""
    u = length / most - 1.0
    below = ndtr(u)
    shrunk = 1.0 / (1.0 + u * below)
    slope = below + u * np.exp(-0.5 * u * u) / np.sqrt(2.0 * np.pi)
    # the derivative of |g| s(|g|) is s + |g| s', with s' = -s^2 d(u Phi(u)) / du / C
    return shrunk, shrunk - shrunk**2 * slope * length / most, length * shrunk


CLIPS: dict[str, Callable[[Vector, float], tuple[Vector, Vector, Vector]]] = {"hard": _hard, "smooth": _smooth}
"""(lengths, C) -> alpha, beta and lengths after clipping."""
LONGEST = {"hard": 1.0, "smooth": 1.1154}
"""Largest length after clipping, in C, rounded up."""
