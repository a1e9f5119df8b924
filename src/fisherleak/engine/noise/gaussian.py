r"""Gaussian noise of any covariance: :math:`b \sim N(0, \sigma^2 \Sigma)`, of information :math:`\Sigma^{-1} / \sigma^2`.

Also here: covariances that noises and mechanisms are given: checked, not to be written to, and what makes two of them
the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fisherleak._support.arrays import as_array, host
from fisherleak._support.namespaces import Json, Sums, Vector
from fisherleak.engine.noise.add_noise_and_round import OneDraw
from fisherleak.engine.noise.calibration_record import Calibration, calibration_in, calibration_told
from fisherleak.engine.noise.noise import check_scale
from fisherleak.errors import InvalidInputError

UNSYMMETRIC = 1e-8
"""Difference of two entries of a shape, in standard deviations, that rounding may leave and that is evened out."""
NEARLY_SINGULAR = 1e12
"""Condition of a shape, its variances one, past which its inverse, and so every eta, would be off by more than 1e-3."""


class EqualByShape:
    """Records that are equal where their kind, scale and shape are: arrays have no truth value to compare by."""

    scale: float
    shape: NDArray[np.float64] | None

    def __eq__(self, other: Any) -> bool:
        if type(other) is not type(self) or self.scale != other.scale:
            return False
        if self.shape is None or other.shape is None:
            return self.shape is other.shape
        return np.array_equal(self.shape, other.shape)

    def __hash__(self) -> int:
        return hash((self.scale, None if self.shape is None else self.shape.tobytes()))


def checked_shape(shape: NDArray[np.float64]) -> NDArray[np.float64]:
    """A covariance as an array that nobody can write to; refuses what is none."""
    matrix = np.array(host(as_array(shape, "shape")), dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise InvalidInputError(f"shape must be a finite square matrix; got an array of shape {matrix.shape}.")
    spread = np.sqrt(np.abs(np.diag(matrix)))
    if np.any(np.abs(matrix - matrix.T) > UNSYMMETRIC * np.outer(spread, spread)):
        raise InvalidInputError("shape must be symmetric: it is the covariance of the noise at scale 1.")
    matrix = 0.5 * (matrix + matrix.T) + 0.0  # zeros without a sign
    condition = _condition(matrix)
    if condition is None:
        raise InvalidInputError("shape must be positive definite: a direction without noise would be released exactly.")
    if not condition <= NEARLY_SINGULAR:
        raise InvalidInputError(
            f"shape is nearly singular: with variances of one its condition number is {condition:.0e}. Above "
            f"{NEARLY_SINGULAR:.0e} its inverse is lost in rounding. Give every direction more noise, or leave out "
            "columns that nearly repeat others."
        )
    matrix.flags.writeable = False
    return matrix


def _condition(matrix: NDArray[np.float64]) -> float | None:
    """Of a covariance whose variances are made one, in the 1-norm, as LAPACK estimates it; None where it is none."""
    variances = np.diag(matrix)
    if not np.all(variances > 0):
        return None
    spread = np.sqrt(variances)
    correlation = matrix / spread[:, None] / spread[None, :]
    factor, failed = scipy.linalg.lapack.dpotrf(correlation.T, clean=0) if len(matrix) else (matrix, 0)
    if failed or not len(matrix):
        return None if failed else 1.0
    reciprocal, _ = scipy.linalg.lapack.dpocon(factor, float(np.linalg.norm(correlation, 1)))
    return 1.0 / max(float(reciprocal), 1e-300)


@dataclass(frozen=True, eq=False)
class Gaussian(EqualByShape, OneDraw):
    r"""Gaussian noise :math:`b \sim N(0, \sigma^2 \Sigma)` on every released parameter.

    Parameters
    ----------
    scale : float
        sigma, greater than zero.
    shape : array of shape (p, p), optional
        Sigma, symmetric positive definite, over the released parameters (coefficients, then the
        intercept if there is one). The identity if not given. What rounding left unsymmetric, as in an inverse computed
        by NumPy, is symmetrised: differences of up to 1e-8 of the two standard deviations' product.
    gap : float, optional
        Set by :func:`fisherleak.calibrate` with ``shape="least-loss"``: the loss that this noise costs is at most 1 + gap
        times the least. Says how it was found, and is no part of what it is: noises that differ in it alone are equal.
    calibrated : Calibration, optional
        How the scale was found: set by :func:`fisherleak.calibrate`, not compared. Gone at another scale, but for a
        covariance that is computed from the rows.

    Notes
    -----
    Its Fisher information is :math:`\Sigma^{-1} / \sigma^2`, exactly.

    Examples
    --------
    >>> import fisherleak as fl
    >>> fl.Gaussian(0.01)
    Gaussian(scale=0.01)
    >>> fl.Gaussian(0.01, [[2.0, 0.0], [0.0, 1.0]])
    Gaussian(scale=0.01, shape=<2 x 2>)
    """

    scale: float
    shape: Vector | None = field(default=None, repr=False)
    gap: float | None = field(default=None, repr=False)
    calibrated: Calibration | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_scale(self.scale)
        if self.shape is not None:
            object.__setattr__(self, "shape", checked_shape(self.shape))

    def __reduce__(self) -> Sums:
        # built anew, so that the shape of a copy is checked and cannot be written to either
        return type(self), (self.scale, self.shape, self.gap, self.calibrated)

    def __repr__(self) -> str:
        shaped = "" if self.shape is None else f", shape=<{self.shape.shape[0]} x {self.shape.shape[1]}>"
        return f"{type(self).__name__}(scale={self.scale!r}{shaped})"

    @property
    def normal(self) -> bool:
        return True

    @property
    def alike(self) -> bool:
        return self.shape is None

    def unit_information_root(self, size: int) -> Vector | None:
        if self.shape is None:
            return None
        if self.shape.shape[0] != size:
            raise InvalidInputError(f"shape must cover the {size} released parameters; got {self.shape.shape[0]} rows.")
        return np.linalg.inv(np.linalg.cholesky(self.shape))

    def rescaled(self, scale: float) -> Self:
        if scale == self.scale:
            return self  # which keeps how that scale was found
        kept = None if self.calibrated is None else self.calibrated.at_another_scale()
        return replace(self, scale=scale, calibrated=kept)

    def draws(self, count: int, size: int, rng: np.random.Generator) -> Vector:
        normal = rng.standard_normal((count, size))
        if self.shape is not None:
            normal = normal @ np.linalg.cholesky(self.shape).T
        return np.asarray(self.scale * normal)

    def log_density(self, b: Vector) -> Vector:
        size = b.shape[-1]
        W = self.unit_information_root(size)
        white = (b if W is None else b @ W.T) / self.scale
        volume = size * math.log(self.scale) - (0.0 if W is None else float(np.sum(np.log(np.diag(W)))))
        return np.asarray(-0.5 * np.sum(white**2, axis=-1) - volume - 0.5 * size * math.log(2.0 * math.pi))

    def record(self) -> Json:
        # a shape that was computed from the rows, and counted, is told by its name alone
        named = None if self.calibrated is None else self.calibrated.shape
        shape = {} if self.shape is None else {"shape": self.shape.tolist() if named is None else named}
        return {"kind": "Gaussian", "scale": float(self.scale)} | shape | calibration_told(self.calibrated)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        shape = record.get("shape")
        if isinstance(shape, str):
            raise InvalidInputError(
                f"noise has the covariance '{shape}', which was computed from the rows, and the record does not "
                "contain it: fit the model again from its rows."
            )
        return cls(record["scale"], shape, calibrated=calibration_in(record))
