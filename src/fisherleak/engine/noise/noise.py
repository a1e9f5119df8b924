"""What is asked of a noise, and the checks that every noise and every user of one shares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np

from fisherleak._support.namespaces import Json, Vector
from fisherleak.errors import InvalidInputError


class Noise(Protocol):
    """What is asked of a noise; any frozen record with these will do."""

    @property
    def scale(self) -> float:
        """A positive number that multiplies the noise."""

    @property
    def normal(self) -> bool:
        """Whether b, whitened by the root of its information, is standard normal: closed forms rest on it."""

    def unit_information_root(self, size: int) -> Vector | None:
        """W of shape (size, size) with W^T W = I_b at scale 1, or None for the identity."""

    def rescaled(self, scale: float) -> Self:
        """The same noise at another scale."""

    def draw(self, size: int, random_state: int | np.random.Generator | None = None) -> Vector:
        """One draw for ``size`` parameters."""

    def draws(self, count: int, size: int, rng: np.random.Generator) -> Vector:
        """Independent draws, (count, size)."""

    def log_density(self, b: Vector) -> Vector:
        """Of noise vectors along the last axis: (..., size) -> (...)."""

    def record(self) -> Json:
        """JSON types that distinguish it from every other: at least ``kind``, a name in ``NOISES``, and ``scale``."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The noise that such a record tells of."""


CONTRACT = sorted(name for name in vars(Noise) if not name.startswith("_"))
"""What a noise must have."""


def check_noise(noise: Any) -> None:
    """A noise record, not a number or a class; what almost is one is told what it lacks."""
    if hasattr(noise, "X_query") and not isinstance(noise, type):
        raise InvalidInputError(
            "noise must be noise on released parameters here, such as fisherleak.Gaussian(0.1); "
            f"{type(noise).__name__} describes answers to queries: pass it to fisherleak.measure."
        )
    if hasattr(noise, "released_draws") and not isinstance(noise, type):
        raise InvalidInputError(
            "noise must not depend on the data here, such as fisherleak.Gaussian(0.1); the covariance of "
            f"{type(noise).__name__} does."
        )
    if isinstance(noise, type) or not hasattr(noise, "unit_information_root"):
        shown = noise.__name__ if isinstance(noise, type) else repr(noise)
        raise InvalidInputError(f"noise must be a noise such as fisherleak.Gaussian(0.1); got {shown}.")
    lacking = [name for name in CONTRACT if not hasattr(noise, name)]
    if lacking:
        raise InvalidInputError(
            f"noise must be a noise such as fisherleak.Gaussian(0.1); {type(noise).__name__} lacks {', '.join(lacking)}."
        )


def check_scale(scale: Any, name: str = "scale") -> None:
    """A finite number greater than zero."""
    if not isinstance(scale, (int, float, np.floating, np.integer)) or isinstance(scale, bool):
        raise InvalidInputError(f"{name} must be a number; got {type(scale).__name__}.")
    if not (scale > 0 and math.isfinite(scale)):
        raise InvalidInputError(
            f"{name} must be a finite number greater than zero; got {scale}. "
            "A model released without noise has unbounded Fisher information."
        )


def is_alike(noise: Any) -> bool:
    """Whether a noise says ``alike``: each number has the same noise, whatever the others have. Of one that does not say it
    nobody knows.
    """
    return bool(getattr(noise, "alike", False))


def covariance_of(noise: Any) -> Vector | None:
    """The covariance over the released parameters that a noise was given; None for the identity, or where it has none."""
    found: Vector | None = getattr(noise, "shape", None)
    return found
