r"""Laplace noise: density :math:`e^{-|u| / s} / 2s` on every parameter, of information :math:`I / s^2`."""

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


@dataclass(frozen=True)
class Laplace(OneDraw):
    r"""Laplace noise, independent on every released parameter, of density :math:`e^{-|u| / s} / 2s`.

    Parameters
    ----------
    scale : float
        s, greater than zero. The standard deviation is :math:`\sqrt 2 s`.
    calibrated : Calibration, optional
        As for :class:`Gaussian`.

    Notes
    -----
    Its Fisher information is :math:`I / s^2`, exactly: as much as that of Gaussian noise of half the variance. Closed
    forms that need normal noise (white-box accuracy, for one) are simulated.

    Examples
    --------
    >>> import fisherleak as fl
    >>> fl.Laplace(0.01)
    Laplace(scale=0.01)
    """

    alike: ClassVar[bool] = True
    scale: float
    calibrated: Calibration | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_scale(self.scale)

    @property
    def normal(self) -> bool:
        return False

    def unit_information_root(self, size: int) -> Vector | None:
        return None

    def rescaled(self, scale: float) -> Self:
        return self if scale == self.scale else replace(self, scale=scale, calibrated=None)

    def draws(self, count: int, size: int, rng: np.random.Generator) -> Vector:
        return np.asarray(rng.laplace(scale=self.scale, size=(count, size)))

    def log_density(self, b: Vector) -> Vector:
        return np.asarray(-np.sum(np.abs(b), axis=-1) / self.scale - b.shape[-1] * math.log(2.0 * self.scale))

    def record(self) -> Json:
        return {"kind": "Laplace", "scale": float(self.scale)} | calibration_told(self.calibrated)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(record["scale"], calibration_in(record))
