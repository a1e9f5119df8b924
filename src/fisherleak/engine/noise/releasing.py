r"""How noise is drawn and what leaves: parameters with noise on them, on a grid.

Floats are a comb: which of them ``w + b`` can reach depends on the last bits of w, and tells candidates apart that b
should hide. What is released is therefore rounded to a *grid*, the largest power of two at or below 1/1024 of the least
standard deviation of b. Rounding never adds information, and it takes those bits away.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak.engine.noise.contract import Noise, check_noise
from fisherleak.engine.randomness import SystemGenerator
from fisherleak.errors import InvalidInputError

__all__ = ["OneDraw", "drawn", "generator", "grid_below", "grid_of", "on_grid", "released", "rounded"]

Vector = NDArray[np.float64]
STEPS = 1024
"""Steps of the grid in the least standard deviation of the noise, at least."""
SMALLEST = 5e-324
"""Above zero: the grid of noise that no other float divides."""
THINNEST = 2.0**-20
"""Directions with less noise than this part of a coordinate's make the grid no finer: it would show the last bits again."""


class OneDraw:
    """One draw from many, with the seed checked."""

    def draw(self: Any, size: int, random_state: int | np.random.Generator | None = None) -> Vector:
        """One draw of shape (size,).

        With ``random_state=None`` it is made of the operating system's randomness. A fixed seed makes
        the noise predictable, so it protects nothing: use one for tests only.
        """
        return np.asarray(drawn(self, 1, size, random_state)[0])


def generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    """The operating system's randomness, or that of a seed."""
    try:
        return SystemGenerator() if random_state is None else np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"random_state must be None, a whole number, zero or more, or a numpy Generator; got {random_state!r}."
        ) from None


def drawn(noise: Noise, count: int, size: int, random_state: int | np.random.Generator | None = None) -> Vector:
    """Independent draws of any noise, (count, size), with the noise and the seed checked: what every release adds.

    Without a seed they come from the operating system, anew with each call.
    """
    check_noise(noise)
    rng = generator(random_state)
    noise.unit_information_root(size)  # refuses a shape of another size
    found = np.asarray(noise.draws(count, size, rng))
    if found.shape != (count, size) or not np.isfinite(found).all():
        raise InvalidInputError(
            f"{type(noise).__name__}.draws({count}, {size}, rng) must give {count} x {size} finite numbers; "
            f"got an array of shape {found.shape}."
        )
    return found


def released(theta: Vector, noise: Noise, random_state: int | np.random.Generator | None = None) -> Vector:
    """Parameters with noise, on the noise's grid: what may be passed on, and all of it that may."""
    theta = np.asarray(theta, dtype=np.float64)
    noisy = theta + drawn(noise, 1, theta.shape[0], random_state)[0]
    return rounded(noisy, grid_of(noise, theta.shape[0]), noise.scale)


def rounded(noisy: Vector, grid: float, scale: float) -> Vector:
    """Noisy parameters on a grid; refuses those in which their noise is lost."""
    largest = float(np.max(np.abs(noisy), initial=0.0))
    if np.spacing(largest) > STEPS * grid:
        raise InvalidInputError(
            f"noise of scale {scale:g} is lost in a parameter of {largest:.3g}, which has 53 bits: it would be "
            "released as it is. Use more noise, or other units."
        )
    return on_grid(noisy, grid)


def on_grid(values: Vector, grid: float) -> Vector:
    """The nearest multiples of a power of two; floats so large that all of them are multiples stay."""
    fine = np.abs(values) < 2.0**52 * grid
    return np.where(fine, np.rint(np.where(fine, values, 0.0) / grid) * grid, values) + 0.0  # no negative zero


def grid_of(noise: Noise, size: int) -> float:
    r"""The step of the grid for ``size`` parameters: a power of two, at most 1/1024 of the noise's least standard deviation.

    With W^T W the information of b at scale 1, no direction has a standard deviation below :math:`s / \|W\|`, whatever the
    density; a Gaussian has this one. Where the shape is the rows' own, a public bound on it stands for it.
    """
    root = noise.unit_information_root(size)
    least = 1.0
    told = getattr(getattr(noise, "calibrated", None), "least", None)
    if told is not None:
        least = told  # of the shape itself the grid would tell
    elif root is not None and size:
        coordinate = float(np.min(np.linalg.norm(np.linalg.pinv(root), axis=1)))
        least = max(1.0 / float(np.linalg.norm(root, 2)), THINNEST * coordinate)
    return grid_below(noise.scale * least)


def grid_below(deviation: float) -> float:
    """The largest power of two that is at most 1/1024 of a standard deviation."""
    _, power = math.frexp(deviation)
    return max(math.ldexp(1.0, power - 1) / STEPS, SMALLEST)
