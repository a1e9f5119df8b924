r"""Bounded noise: density :math:`\cos^2(\pi u / 2L) / L` on every parameter, of information :math:`(\pi / L)^2 I`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from fisherleak._support.namespaces import Json, Vector
from fisherleak.engine.noise.add_noise_and_round import OneDraw
from fisherleak.engine.noise.calibration_record import Calibration, calibration_in, calibration_told
from fisherleak.engine.noise.noise import check_scale

STEPS_TO_QUANTILE = 12
"""Newton's steps, or halvings of an interval, to a quantile of bounded noise."""
BY_CUBE = 1e-9
"""Probability of a tail below which the difference of sines is all rounding, and a cube tells it to six digits."""


@dataclass(frozen=True)
class Bounded(OneDraw):
    r"""Bounded noise, independent on every released parameter, of density :math:`\cos^2(\pi u / 2L) / L` on [-L, L].

    Parameters
    ----------
    limit : float
        L, greater than zero: no released parameter is farther from the model's own than this. The standard deviation is
        :math:`L \sqrt{1/3 - 2/\pi^2}`, about 0.3615 L.

    Notes
    -----
    Its Fisher information is :math:`(\pi / L)^2 I`, exactly, the least of all noise within the same limits: 29 % more than
    that of Gaussian noise of the same variance. A change of the data that moves a parameter by more than 2 L is
    always seen. A smaller move is seen for certain with some probability. Eta is about small changes only. Closed forms
    that need normal noise (membership, for one) are refused or simulated.

    Examples
    --------
    >>> import fisherleak as fl
    >>> fl.Bounded(0.01)
    Bounded(limit=0.01)
    """

    alike: ClassVar[bool] = True
    limit: float
    calibrated: Calibration | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_scale(self.limit, "limit")

    @property
    def scale(self) -> float:
        return self.limit

    @property
    def normal(self) -> bool:
        return False

    def unit_information_root(self, size: int) -> Vector | None:
        return math.pi * np.eye(size)

    def rescaled(self, scale: float) -> Self:
        return self if scale == self.limit else replace(self, limit=scale, calibrated=None)

    def draws(self, count: int, size: int, rng: np.random.Generator) -> Vector:
        u = rng.random((count, size))
        return np.asarray(self.limit * np.where(u < 0.5, -1.0, 1.0) * _beyond(2.0 * np.minimum(u, 1.0 - u)))

    def log_density(self, b: Vector) -> Vector:
        unit = np.abs(b) / self.limit
        inside = unit < 1.0
        height = np.where(inside, np.cos(0.5 * math.pi * np.where(inside, unit, 0.0)) ** 2, 0.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.sum(np.log(height), axis=-1) - b.shape[-1] * math.log(self.limit))

    def record(self) -> Json:
        return {"kind": "Bounded", "scale": float(self.limit)} | calibration_told(self.calibrated)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(record["scale"], calibration_in(record))


def _beyond(u: Vector) -> Vector:
    r"""What bounded noise of limit 1 exceeds in size with probability u: :math:`1 - v - \sin(\pi v) / \pi = u`."""
    low, high = np.zeros_like(u), np.ones_like(u)
    # where the tail is flat, at v = 1, it is a cube
    edge = 1.0 - np.cbrt(6.0 * u / math.pi**2)
    v = np.where(u < 0.2, edge, 0.5 * (1.0 - u))
    for _ in range(STEPS_TO_QUANTILE):
        over = 1.0 - v - np.sin(math.pi * v) / math.pi - u
        low, high = np.where(over > 0, v, low), np.where(over > 0, high, v)
        slope = 1.0 + np.cos(math.pi * v)
        newton = v + over / np.where(slope > 0, slope, 1.0)
        v = np.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
    return np.where(u < BY_CUBE, edge, v)
