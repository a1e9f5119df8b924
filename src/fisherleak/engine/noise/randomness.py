r"""Randomness of the operating system, as the generator that a noise is drawn with.

Noise hides something only as long as nobody can draw it again. A number here is made of two words of 64 bits that the system
gives for it alone: u, uniform in (0, 1) with 53 significant bits down to :math:`2^{-128}`, and a sign. Then

.. math:: z = \pm\,\Phi^{-1}(u / 2), \qquad z = \mp \log u

are a standard normal and a Laplace number, out to 13 standard deviations and to 89 scales. Nothing is kept from one number to
the next, so that copies of an object, threads and forked processes have no state to share.
"""

from __future__ import annotations

import math
import os
import secrets
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

__all__ = ["SystemGenerator", "signs_and_uniforms"]

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
