r"""Noise added to the released parameters: a record that says its Fisher information.

For location noise, :math:`w' = w^* + b`, the information of the release about the data is
:math:`J^T I_b J` with :math:`I_b` the Fisher information of b about its own location (paper,
equation 12, for :math:`I_b = I / \sigma^2`). A noise of ``scale`` s has :math:`I_b(s) = I_b(1) / s^2`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import as_array, host
from fisherleak.errors import InvalidInputError

__all__ = ["Gaussian", "Noise"]


class Noise(Protocol):
    """What the engine asks of a noise; any frozen record with these will do."""

    @property
    def scale(self) -> float:
        """A positive number that multiplies the noise."""

    def unit_information_root(self, size: int) -> NDArray[np.float64] | None:
        """W of shape (size, size) with W^T W = I_b at scale 1, or None for the identity."""

    def rescaled(self, scale: float) -> Self:
        """The same noise at another scale."""

    def draw(self, size: int, random_state: int | np.random.Generator | None = None) -> NDArray[np.float64]:
        """One draw for ``size`` parameters."""


@dataclass(frozen=True, eq=False)
class Gaussian:
    r"""Gaussian noise :math:`b \sim N(0, \sigma^2 \Sigma)` on every released parameter.

    Parameters
    ----------
    scale : float
        sigma, greater than zero.
    shape : array of shape (p, p), optional
        Sigma, symmetric positive definite, over the released parameters (coefficients, then the
        intercept if there is one). The identity if not given.

    Notes
    -----
    Its Fisher information is :math:`\Sigma^{-1} / \sigma^2`, exactly.

    Examples
    --------
    >>> import fisherleak as fl
    >>> fl.Gaussian(0.01)
    Gaussian(scale=0.01)
    """

    scale: float
    shape: NDArray[np.float64] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.scale, (int, float, np.floating, np.integer)) or isinstance(self.scale, bool):
            raise InvalidInputError(f"scale must be a number; got {type(self.scale).__name__}.")
        if not (self.scale > 0 and math.isfinite(self.scale)):
            raise InvalidInputError(
                f"scale must be a finite number greater than zero; got {self.scale}. "
                "A model released without noise has unbounded Fisher information."
            )
        if self.shape is not None:
            object.__setattr__(self, "shape", _checked_shape(self.shape))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Gaussian) or self.scale != other.scale:
            return False
        if self.shape is None or other.shape is None:
            return self.shape is other.shape
        return np.array_equal(self.shape, other.shape)

    def __hash__(self) -> int:
        return hash((self.scale, None if self.shape is None else self.shape.tobytes()))

    def unit_information_root(self, size: int) -> NDArray[np.float64] | None:
        if self.shape is None:
            return None
        if self.shape.shape[0] != size:
            raise InvalidInputError(f"shape must cover the {size} released parameters; got {self.shape.shape[0]} rows.")
        return np.linalg.inv(np.linalg.cholesky(self.shape))

    def rescaled(self, scale: float) -> Self:
        return replace(self, scale=scale)

    def draw(self, size: int, random_state: int | np.random.Generator | None = None) -> NDArray[np.float64]:
        """One draw of shape (size,).

        With ``random_state=None`` the generator is seeded by the operating system. A fixed seed makes
        the noise predictable, so it protects nothing: use one for tests only.
        """
        try:
            rng = np.random.default_rng(random_state)
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"random_state must be None, a whole number, zero or more, or a numpy Generator; got {random_state!r}."
            ) from None
        normal = rng.standard_normal(size)
        if self.shape is not None:
            normal = np.linalg.cholesky(self.shape) @ normal
        return np.asarray(self.scale * normal)


def _checked_shape(shape: NDArray[np.float64]) -> NDArray[np.float64]:
    matrix = np.array(host(as_array(shape, "shape")), dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise InvalidInputError(f"shape must be a finite square matrix; got an array of shape {matrix.shape}.")
    if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=0.0):
        raise InvalidInputError("shape must be symmetric: it is the covariance of the noise at scale 1.")
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise InvalidInputError(
            "shape must be positive definite: a direction without noise would be released exactly."
        ) from None
    matrix.flags.writeable = False
    return matrix
