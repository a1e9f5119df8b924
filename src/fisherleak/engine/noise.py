r"""Noise added to the released parameters: a record that says its Fisher information, its density and how it is drawn.

For location noise, :math:`w' = w^* + b`, the information of the release about the data is
:math:`J^T I_b J` with :math:`I_b` the Fisher information of b about its own location (paper,
equation 12, for :math:`I_b = I / \sigma^2`). A noise of ``scale`` s has :math:`I_b(s) = I_b(1) / s^2`.

Floats are a comb: which of them ``w + b`` can reach depends on the last bits of w, and tells candidates apart that b
should hide. What is released is therefore rounded to a *grid*, the largest power of two at or below 1/1024 of the least
standard deviation of b. Rounding never adds information, and it takes those bits away.

Adding a noise is adding one record to ``NOISES``; every property test runs on it at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import as_array, host
from fisherleak._support.checks import nearest
from fisherleak._support.namespaces import Json, Sums
from fisherleak.engine.calibrated import Calibration
from fisherleak.engine.randomness import SystemGenerator
from fisherleak.errors import InvalidInputError

__all__ = [
    "NOISES",
    "Bounded",
    "Gaussian",
    "Laplace",
    "Noise",
    "check_noise",
    "drawn",
    "grid_of",
    "noise_from_record",
    "released",
]

Vector = NDArray[np.float64]
STEPS = 1024
"""Steps of the grid in the least standard deviation of the noise, at least."""
UNSYMMETRIC = 1e-8
"""Difference of two entries of a shape, in standard deviations, that rounding may leave and that is evened out."""
SMALLEST = 5e-324
"""Above zero: the grid of noise that no other float divides."""
STEPS_TO_QUANTILE = 12
"""Newton's steps, or halvings of an interval, to a quantile of bounded noise."""
BY_CUBE = 1e-9
"""Probability of a tail below which the difference of sines is all rounding, and a cube tells it to six digits."""
THINNEST = 2.0**-20
"""Directions with less noise than this part of a coordinate's make the grid no finer: it would show the last bits again."""


@runtime_checkable
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
        """JSON types that tell it apart from every other: at least ``kind``, a name in ``NOISES``, and ``scale``."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The noise that such a record tells of."""


class _Drawn:
    """One draw from many, with the seed checked."""

    def draw(self: Any, size: int, random_state: int | np.random.Generator | None = None) -> Vector:
        """One draw of shape (size,).

        With ``random_state=None`` it is made of the operating system's randomness. A fixed seed makes
        the noise predictable, so it protects nothing: use one for tests only.
        """
        return np.asarray(drawn(self, 1, size, random_state)[0])


@dataclass(frozen=True, eq=False)
class Gaussian(_Drawn):
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
        How the scale was found: set by :func:`fisherleak.calibrate`, not compared, gone at another scale.

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
    shape: Vector | None = field(default=None, repr=False)
    gap: float | None = field(default=None, repr=False)
    calibrated: Calibration | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check_scale(self.scale)
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

    def __reduce__(self) -> Sums:
        # built anew, so that the shape of a copy is checked and cannot be written to either
        return type(self), (self.scale, self.shape, self.gap, self.calibrated)

    @property
    def normal(self) -> bool:
        return True

    def unit_information_root(self, size: int) -> Vector | None:
        if self.shape is None:
            return None
        if self.shape.shape[0] != size:
            raise InvalidInputError(f"shape must cover the {size} released parameters; got {self.shape.shape[0]} rows.")
        return np.linalg.inv(np.linalg.cholesky(self.shape))

    def rescaled(self, scale: float) -> Self:
        return replace(self, scale=scale, calibrated=None)

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
        return {"kind": "Gaussian", "scale": float(self.scale)} | shape | _told(self.calibrated)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        shape = record.get("shape")
        if isinstance(shape, str):
            raise InvalidInputError(
                f"noise has the shape '{shape}', which was computed from the rows and which no record holds: fit the model "
                "again from its rows."
            )
        return cls(record["scale"], shape, calibrated=_calibration(record))


@dataclass(frozen=True)
class Laplace(_Drawn):
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

    scale: float
    calibrated: Calibration | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_scale(self.scale)

    @property
    def normal(self) -> bool:
        return False

    def unit_information_root(self, size: int) -> Vector | None:
        return None

    def rescaled(self, scale: float) -> Self:
        return replace(self, scale=scale, calibrated=None)

    def draws(self, count: int, size: int, rng: np.random.Generator) -> Vector:
        return np.asarray(rng.laplace(scale=self.scale, size=(count, size)))

    def log_density(self, b: Vector) -> Vector:
        return np.asarray(-np.sum(np.abs(b), axis=-1) / self.scale - b.shape[-1] * math.log(2.0 * self.scale))

    def record(self) -> Json:
        return {"kind": "Laplace", "scale": float(self.scale)} | _told(self.calibrated)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(record["scale"], _calibration(record))


def _told(calibrated: Calibration | None) -> Json:
    return {} if calibrated is None else {"calibrated": calibrated.record()}


def _calibration(record: Mapping[str, Any]) -> Calibration | None:
    return Calibration.from_record(record["calibrated"]) if "calibrated" in record else None


@dataclass(frozen=True)
class Bounded(_Drawn):
    r"""Bounded noise, independent on every released parameter, of density :math:`\cos^2(\pi u / 2L) / L` on [-L, L].

    Parameters
    ----------
    limit : float
        L, greater than zero: no released parameter is farther from the model's own than this. The standard deviation is
        :math:`L \sqrt{1/3 - 2/\pi^2}`, about 0.3615 L.

    Notes
    -----
    Its Fisher information is :math:`(\pi / L)^2 I`, exactly, the least of all noise within the same limits: 29 % more than
    that of Gaussian noise of the same variance. A change of the data that moves a parameter by more than 2 L cannot be
    hidden at all, and by less it can be seen for certain with some probability: eta speaks of small changes. Closed forms
    that need normal noise (membership, for one) are refused or simulated.

    Examples
    --------
    >>> import fisherleak as fl
    >>> fl.Bounded(0.01)
    Bounded(limit=0.01)
    """

    limit: float
    calibrated: Calibration | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_scale(self.limit, "limit")

    @property
    def scale(self) -> float:
        return self.limit

    @property
    def normal(self) -> bool:
        return False

    def unit_information_root(self, size: int) -> Vector | None:
        return math.pi * np.eye(size)

    def rescaled(self, scale: float) -> Self:
        return replace(self, limit=scale, calibrated=None)

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
        return {"kind": "Bounded", "scale": float(self.limit)} | _told(self.calibrated)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(record["scale"], _calibration(record))


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


NOISES: dict[str, type[Noise]] = {"Gaussian": Gaussian, "Laplace": Laplace, "Bounded": Bounded}
"""Every noise by name."""


def noise_from_record(record: Mapping[str, Any]) -> Noise:
    """The noise that a card tells of."""
    kind = record.get("kind")
    if kind not in NOISES:
        raise InvalidInputError(f"noise is of kind {kind!r}, which is not known. {nearest(str(kind), list(NOISES))}")
    try:
        return NOISES[str(kind)].from_record(record)
    except KeyError as error:
        raise InvalidInputError(f"noise of kind {kind!r} must have {error}, which its record lacks.") from None


def drawn(noise: Noise, count: int, size: int, random_state: int | np.random.Generator | None = None) -> Vector:
    """Independent draws of any noise, (count, size), with the noise and the seed checked: what every release adds.

    Without a seed they come from the operating system, anew with each call.
    """
    check_noise(noise)
    try:
        rng = SystemGenerator() if random_state is None else np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"random_state must be None, a whole number, zero or more, or a numpy Generator; got {random_state!r}."
        ) from None
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
    grid = grid_of(noise, theta.shape[0])
    largest = float(np.max(np.abs(noisy), initial=0.0))
    if np.spacing(largest) > STEPS * grid:
        raise InvalidInputError(
            f"noise of scale {noise.scale:g} is lost in a parameter of {largest:.3g}, which has 53 bits: it would be "
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
    _, power = math.frexp(noise.scale * least)
    return max(math.ldexp(1.0, power - 1) / STEPS, SMALLEST)


CONTRACT = sorted(name for name in vars(Noise) if not name.startswith("_"))
"""What a noise must have."""


def check_noise(noise: Any) -> None:
    """A noise record, not a number or a class; what almost is one is told what it lacks."""
    if isinstance(noise, type) or not hasattr(noise, "unit_information_root"):
        shown = noise.__name__ if isinstance(noise, type) else repr(noise)
        raise InvalidInputError(f"noise must be a noise such as fisherleak.Gaussian(0.1); got {shown}.")
    lacking = [name for name in CONTRACT if not hasattr(noise, name)]
    if lacking:
        raise InvalidInputError(
            f"noise must be a noise such as fisherleak.Gaussian(0.1); {type(noise).__name__} lacks {', '.join(lacking)}."
        )


def _check_scale(scale: Any, name: str = "scale") -> None:
    if not isinstance(scale, (int, float, np.floating, np.integer)) or isinstance(scale, bool):
        raise InvalidInputError(f"{name} must be a number; got {type(scale).__name__}.")
    if not (scale > 0 and math.isfinite(scale)):
        raise InvalidInputError(
            f"{name} must be a finite number greater than zero; got {scale}. "
            "A model released without noise has unbounded Fisher information."
        )


def _checked_shape(shape: NDArray[np.float64]) -> NDArray[np.float64]:
    matrix = np.array(host(as_array(shape, "shape")), dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise InvalidInputError(f"shape must be a finite square matrix; got an array of shape {matrix.shape}.")
    spread = np.sqrt(np.abs(np.diag(matrix)))
    if np.any(np.abs(matrix - matrix.T) > UNSYMMETRIC * np.outer(spread, spread)):
        raise InvalidInputError("shape must be symmetric: it is the covariance of the noise at scale 1.")
    matrix = 0.5 * (matrix + matrix.T)
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise InvalidInputError(
            "shape must be positive definite: a direction without noise would be released exactly."
        ) from None
    matrix.flags.writeable = False
    return matrix
