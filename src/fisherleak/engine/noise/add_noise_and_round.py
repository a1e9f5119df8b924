r"""How noise is drawn and what leaves: parameters with noise on them, on a grid.

Floats are a comb: which of them ``w + b`` can reach depends on the last bits of w, and tells candidates apart that b
should hide. What is released is therefore rounded to a *grid*: for each parameter the largest power of two at or below 1/1024
of the standard deviation of its own noise. Rounding never adds information, and it takes those bits away.
"""

from __future__ import annotations

import math
import os
import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fisherleak._support.arrays import Array
from fisherleak._support.namespaces import Vector
from fisherleak._support.notebook import panel
from fisherleak.engine.noise.calibration_record import calibration_of
from fisherleak.engine.noise.noise import Noise, check_noise, covariance_of, is_alike
from fisherleak.errors import InvalidInputError

STEPS = 1024
"""Steps of the grid in the standard deviation of a parameter's noise, at least."""
SMALLEST = 5e-324
"""Above zero: the grid of noise that no other float divides."""
THINNEST = 2.0**-20
"""What is left of a parameter's noise where all others are known makes its grid no finer than this part of it would: that would
show the last bits again."""
SIGNIFICANT = 30
"""Bits of a released number whose noise the rows shape."""


# Randomness of the operating system, as the generator that a noise is drawn with.
#
# Noise hides something only as long as nobody can draw it again. A number here is made of two words of 64 bits that the system
# gives for it alone: u, uniform in (0, 1) with 53 significant bits down to :math:`2^{-128}`, and a sign. Then
#
# .. math:: z = \pm\,\Phi^{-1}(u / 2), \qquad z = \mp \log u
#
# are a standard normal and a Laplace number, out to 13 standard deviations and to 89 scales. Nothing is kept from one number to
# the next, so that copies of an object, threads and forked processes have no state to share.

SEED_BITS, POOL = 512, 16
"""Bits behind what a noise from outside draws, and the 32-bit words in which NumPy gathers them."""


def signs_and_uniforms(shape: tuple[int, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Signs, and uniform numbers in (0, 1) that are as fine near zero as floats are."""
    count = math.prod(shape)
    high, low = np.frombuffer(os.urandom(16 * count), dtype=np.uint64).reshape(2, *shape)
    sign = np.where(low & np.uint64(1), 1.0, -1.0)
    rest = (low >> np.uint64(1)).astype(np.float64) + 0.5
    # the upper word may round up to one: that is the largest u, and its quantile is finite
    return sign, np.ldexp(high.astype(np.float64), -64) + np.ldexp(rest, -127)


class SystemGenerator(np.random.Generator):
    """A numpy Generator that the operating system feeds.

    What the noises of this package ask (``standard_normal``, ``laplace`` and ``random``) is made of the system's words. A noise
    from outside may ask anything else of a Generator: that comes from a stream with a new seed of 512 bits.
    """

    def __init__(self) -> None:
        seed = np.random.SeedSequence(secrets.randbits(SEED_BITS), pool_size=POOL)
        super().__init__(np.random.PCG64DXSM(seed))

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        if out is not None or np.dtype(dtype) != np.float64:
            return super().standard_normal(size, dtype, out)
        sign, u = signs_and_uniforms(_shape(size))
        return (sign * ndtri(0.5 * u))[()]

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        if size is None:
            size = np.broadcast_shapes(np.shape(loc), np.shape(scale))
        sign, u = signs_and_uniforms(_shape(size))
        return (loc + scale * (sign * np.log(u)))[()]

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        if out is not None or np.dtype(dtype) != np.float64:
            return super().random(size, dtype, out)
        _, u = signs_and_uniforms(_shape(size))
        return np.minimum(u, np.nextafter(1.0, 0.0))[()]


def _shape(size: Any) -> tuple[int, ...]:
    return () if size is None else (int(size),) if np.ndim(size) == 0 else tuple(int(k) for k in size)


class NoisePanel:
    """How a notebook shows a noise, or a mechanism that draws it."""

    def _repr_html_(self: Any) -> str:
        shape = covariance_of(self)
        pairs: list[tuple[str, object]] = [("scale", f"{float(self.scale):.6g}")]
        pairs += [] if shape is None else [("shape", f"its own, for {len(shape)} parameters")]
        return panel(f"{type(self).__name__} noise", pairs, "On every released parameter.")


class OneDraw(NoisePanel):
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


def released(
    theta: Vector,
    noise: Noise,
    random_state: int | np.random.Generator | None = None,
    through: Vector | None = None,
) -> Vector:
    """Parameters with noise, each on its grid: what may be passed on, and all of it that may.

    ``through`` (p,) are the largest numbers that parameters were computed from, where these are larger than they are.
    """
    theta = np.asarray(theta, dtype=np.float64)
    noisy = theta + drawn(noise, 1, theta.shape[0], random_state)[0]
    return rounded(noisy, theta if through is None else through, grid_of(noise, theta.shape[0]), noise.scale)


def rounded(noisy: Vector, theta: Vector, grid: Vector, scale: float) -> Vector:
    """Noisy parameters, each on a grid of its own (p,); refuses those whose last bit is above their grid."""
    check_fine(noisy, theta, grid, scale)
    return on_grid(noisy, grid)


def check_fine(noisy: Vector, theta: Vector, grid: Vector, scale: float) -> None:
    """Refuse parameters so large beside their noise that floats are coarser than the grid.

    The parameter before the noise is then a multiple of that last bit itself: a change of the data far below the noise moves
    it by nothing or by all of a bit, which is more than the noise hides.
    """
    largest = np.maximum(np.abs(noisy), np.abs(theta))
    coarse = np.flatnonzero(np.spacing(largest) > grid)
    if coarse.size:
        raise InvalidInputError(
            f"noise of scale {scale:g} is too small beside a parameter of {noisy[coarse[0]]:.3g}: rounding to 53 bits would "
            "reveal more than the noise hides. Use more noise, other units or centred columns."
        )


def on_grid(values: Vector, grid: Vector) -> Vector:
    """The nearest multiples of powers of two, one for each value; floats that are all multiples stay."""
    fine = np.abs(values) < 2.0**52 * grid
    return np.where(fine, np.rint(np.where(fine, values, 0.0) / grid) * grid, values) + 0.0  # no negative zero


def to_significant_bits(values: Vector) -> Vector:
    r"""The nearest numbers of ``SIGNIFICANT`` bits: a grid that follows from the released number alone.

    For draws whose deviation the rows decide, so that a grid made of it would tell about them. A sum of float64 is a multiple
    of the last bit of its larger term, M; a number t of B bits hides that comb but for a part :math:`2^{B-52} M / |t|`.
    """
    part, power = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(np.ldexp(part, SIGNIFICANT)), power - SIGNIFICANT) + 0.0)


def grid_of(noise: Noise, size: int) -> Vector:
    r"""The steps of the grids of ``size`` parameters, (size,): powers of two, each at most 1/1024 of its own noise.

    With W^T W the information of b at scale 1, parameter j has a standard deviation of at least
    :math:`s / \|W e_j\|`, all others known, whatever the density; a Gaussian has this one. Where the shape is the rows' own, a
    public bound on it stands for all of them.
    """
    told = calibration_of(noise)
    if told is not None and told.least is not None:
        return np.full(size, grid_below(noise.scale * told.least))  # of the shape itself the grid would tell
    root = noise.unit_information_root(min(size, 1) if is_alike(noise) else size)
    least = np.ones(size) if root is None or not size else np.resize(_least_deviations(np.asarray(root)), size)
    return np.array([grid_below(noise.scale * deviation) for deviation in least.tolist()])


def _least_deviations(root: Vector) -> Vector:
    """Standard deviations at scale 1, all other parameters known, (p,); not much below those with nothing known."""
    information = np.linalg.norm(root, axis=0)
    alone = 1.0 / np.where(information > 0, information, 1.0)
    # in units in which columns are alike, so that parameters far apart do not drown each other
    own = alone * np.linalg.norm(np.linalg.pinv(root * alone), axis=1)
    return np.asarray(np.maximum(alone, THINNEST * own))


def grid_below(deviation: float) -> float:
    """The largest power of two that is at most 1/1024 of a standard deviation."""
    _, power = math.frexp(deviation)
    return max(math.ldexp(1.0, power - 1) / STEPS, SMALLEST)


@dataclass(frozen=True)
class Released:
    """Noisy parameters of a :class:`fisherleak.Fit`, and nothing else of it.

    Attributes
    ----------
    coef : array of shape (d,)
        (K, d) for a model of K classes or numbers.
    intercept : float or None
        (K,) likewise.
    noise : Noise
    """

    coef: Array
    intercept: Any
    noise: Noise
