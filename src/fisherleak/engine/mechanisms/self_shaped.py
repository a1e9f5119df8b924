"""Releases whose noise the data shape too: posterior sampling and objective perturbation.

Mathematics: 3.1, ``docs/mathematics/mechanisms.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

import numpy as np

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Json, Vector
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.losses import Loss
from fisherleak.engine.mechanisms.perturbed_minimisers import check_tilt, minima
from fisherleak.engine.noise.add_noise_and_round import NoisePanel
from fisherleak.engine.noise.calibration_record import Calibration, calibration_in, calibration_told, has_own_shape
from fisherleak.engine.noise.gaussian import EqualByShape, checked_shape
from fisherleak.engine.noise.noise import check_scale
from fisherleak.errors import InvalidInputError

if TYPE_CHECKING:
    from typing_extensions import TypeIs


DRAWS = 2048
"""Draws that information is averaged over where it has no closed form."""
LEAST_DRAWS = 100


@dataclass(frozen=True)
class Spectrum:
    """What a mechanism makes of a Hessian, in its eigenbasis.

    Parameters
    ----------
    basis : array of shape (p, p)
        V, whose columns are eigenvectors of H for rows less ``centre``, or make H and S diagonal together.
    middle : array of shape (p,)
        rho^2: the diagonal of H^-1 S^-1 H^-1, the middle of the first term for moves of the gradient.
    shape : array of shape (p, p)
        kappa^2 of the second term.
    centre : array of shape (d,) or None
    theta : array of shape (p,)
        The parameters for such rows.
    """

    basis: Vector
    middle: Vector
    shape: Vector
    centre: Vector | None
    theta: Vector


def check_squared(fit: Fit, name: str) -> None:
    """Refuse losses for which the information of the mechanism is not known exactly."""
    if not fit.loss.unit_curvature:
        raise InvalidInputError(
            f"{name} is measured exactly for the squared loss only, and this model's is {fit.loss.name}: use noise on its "
            "parameters, fisherleak.Gaussian."
        )


@dataclass(frozen=True)
class Posterior(NoisePanel):
    r"""Posterior (Gibbs) sampling: one draw from :math:`e^{-risk(w) / T}`, passed as ``noise=`` to :func:`fisherleak.measure`.

    Parameters
    ----------
    temperature : float
        T, greater than zero. The draw is :math:`N(w^*, T H^{-1})` for the squared loss.
    calibrated : Calibration, optional
        As for :class:`fisherleak.Gaussian`.

    Notes
    -----
    **What holds, and when.** Exact for the squared loss, the covariance's dependence on the data counted. Over the features
    of row i the information is :math:`J^T H J / T + \omega^2 (u u^T + h H^{-1})`, :math:`u = H^{-1} x`, :math:`h = x \cdot
    u`; the label enters the first term only. Of K numbers, :math:`N(w^*, T I_K \otimes H^{-1})`, the first terms of all
    outputs add up and the second counts K times. Other losses and folded preprocessing are refused by name.

    Examples
    --------
    >>> import fisherleak as fl
    >>> fl.Posterior(0.1)
    Posterior(temperature=0.1)
    """

    temperature: float
    calibrated: Calibration | None = field(default=None, repr=False, compare=False)
    shape: ClassVar[None] = None

    def __post_init__(self) -> None:
        check_scale(self.temperature, "temperature")

    @property
    def scale(self) -> float:
        """The root of the temperature: the draw's distance from the minimum goes with it."""
        return math.sqrt(self.temperature)

    def rescaled(self, scale: float) -> Self:
        return replace(self, temperature=scale**2, calibrated=None)

    def root(self, size: int) -> None:
        """None: the noise on gradients has the Hessian for its covariance, and no public matrix."""

    def by_draws(self, loss: Loss) -> None:
        """None: what has no closed form is refused, and not averaged over draws."""

    def spectrum(self, fit: Fit) -> Spectrum:
        check_squared(fit, "Posterior")
        beta, basis = np.linalg.eigh(np.asarray(host(fit.factor.inverse())))
        centre = None if fit.centre is None else np.asarray(host(fit.centre))
        theta = np.asarray(host(fit.centred_theta))
        # S = T H^-1 (section 3.1): rho^2 = beta / T and kappa^2 = beta_j beta_k
        return Spectrum(basis, beta / self.temperature, np.outer(beta, beta), centre, theta)

    def released_draws(
        self, fit: Fit, count: int, rng: np.random.Generator, rows: tuple[Vector, Vector] | None = None
    ) -> Vector:
        """Draws from the posterior, (count, p): coefficients, then the intercept if there is one."""
        check_squared(fit, "Posterior")
        beta, basis = np.linalg.eigh(np.asarray(host(fit.factor.inverse())))
        normal = rng.standard_normal((count, beta.size))
        moved = self.scale * (normal * np.sqrt(beta)) @ basis.T
        return np.asarray(host(fit.theta) + np.asarray(fit.uncentred(moved.T)).T)

    def least_deviation(self, fit: Fit) -> float:
        """The least standard deviation of a draw along any direction."""
        return self.scale * math.sqrt(float(np.min(np.linalg.eigvalsh(released_inverse(fit)))))

    def record(self) -> Json:
        told = calibration_told(self.calibrated)
        return {"kind": "Posterior", "scale": self.scale, "temperature": float(self.temperature)} | told

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(record["temperature"], calibration_in(record))


@dataclass(frozen=True, eq=False)
class ObjectivePerturbation(EqualByShape, NoisePanel):
    r"""Objective perturbation: the minimiser of :math:`risk(w) + b \cdot w` with b from :math:`N(0, \sigma^2 C)`.

    Parameters
    ----------
    scale : float
        sigma, greater than zero, of each component of b: coefficients, then the intercept. The release is
        :math:`N(w^*, \sigma^2 H^{-1} C H^{-1})` for the squared loss.
    calibrated : Calibration, optional
        As for :class:`fisherleak.Gaussian`.
    draws : int
        How many draws the information is averaged over for losses other than the squared; 100 or more.
    shape : array of shape (p, p), optional
        C, symmetric positive definite, over coefficients, then the intercept; a public matrix, the identity if not given. One
        that was made of the rows reveals something about them, which is not counted.

    Notes
    -----
    **What holds, and when.** Exact for the squared loss, the covariance's dependence on the data counted: beside
    :math:`J^T H C^{-1} H J / \sigma^2` it is, for C = I, over the features
    :math:`\omega^2 [2 (u u^T + h B) + |x|^2 B^2 + |u|^2 I + x k^T + k x^T]`, :math:`B = H^{-1}`, :math:`u = B x`,
    :math:`h = x \cdot u`, :math:`k = B u`; with :math:`C = L L^T` the same of parameters :math:`L^T w` and rows
    :math:`L^{-1} x`. K numbers, each perturbed so, add up as for :class:`Posterior`. For the logistic, Poisson and gamma
    losses with l2 > 0 it is averaged over draws: ``fim`` is the average, and every eta an upper limit that is too low in one of
    200 cases, further above the average the fewer draws there are: twice to seven times with 200, 5 to 60 % with 8,000, which
    ``leak.above_average`` and the summary say. Other losses, folded preprocessing, and
    compositions and ledgers of averages are refused by name.

    Examples
    --------
    >>> import fisherleak as fl
    >>> fl.ObjectivePerturbation(2.0)
    ObjectivePerturbation(scale=2.0)
    """

    scale: float
    calibrated: Calibration | None = field(default=None, repr=False, compare=False)
    draws: int = field(default=DRAWS, repr=False, compare=False)
    shape: Vector | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_scale(self.scale)
        if self.shape is not None:
            object.__setattr__(self, "shape", checked_shape(self.shape))
        if not isinstance(self.draws, int | np.integer) or isinstance(self.draws, bool) or self.draws < LEAST_DRAWS:
            raise InvalidInputError(f"draws must be a whole number, {LEAST_DRAWS} or more; got {self.draws!r}.")

    def __reduce__(self) -> tuple[Any, ...]:
        # built anew, so that the shape of a copy is checked and cannot be written to either
        return type(self), (self.scale, self.calibrated, self.draws, self.shape)

    def rescaled(self, scale: float) -> Self:
        return replace(self, scale=scale, calibrated=None)

    def root(self, size: int) -> Vector:
        """L with L L^T = C, the covariance of the noise on gradients, for so many released parameters."""
        if self.shape is None:
            return np.eye(size)
        if len(self.shape) != size:
            raise InvalidInputError(f"shape must cover the {size} released parameters; got {len(self.shape)} rows.")
        return np.asarray(np.linalg.cholesky(self.shape))

    def by_draws(self, loss: Loss) -> Self | None:
        """Itself where its information about models of this loss is averaged over draws; None where there is a closed form."""
        return None if loss.several or loss.unit_curvature else self

    def spectrum(self, fit: Fit) -> Spectrum:
        # b is isotropic for the parameters L^T w, whose rows are L^-1 x: these, in the eigenbasis of their Hessian
        check_squared(fit, "ObjectivePerturbation")
        inverse = released_inverse(fit)
        root = self.root(len(inverse))
        beta, basis = np.linalg.eigh(root.T @ inverse @ root)
        basis = np.linalg.solve(root.T, basis)
        # S = sigma^2 H^-2 (section 3.1): rho^2 = 1 / sigma^2 and kappa^2 = (beta_j + beta_k)^2
        middle = np.full(beta.size, 1.0 / self.scale**2)
        return Spectrum(basis, middle, (beta[:, None] + beta[None, :]) ** 2, None, np.asarray(host(fit.theta)))

    def released_draws(
        self, fit: Fit, count: int, rng: np.random.Generator, rows: tuple[Vector, Vector] | None = None
    ) -> Vector:
        """Minimisers of perturbed objectives, (count, p), each solved for: a linear system for the squared loss.

        For other losses the perturbed problems are solved on the fit's own ``rows``, X and y.
        """
        size = np.asarray(host(fit.theta)).size
        root = self.root(size)
        b = self.scale * rng.standard_normal((count, size)) @ root.T
        if fit.loss.unit_curvature:
            return np.asarray(host(fit.theta) - b @ released_inverse(fit))
        if rows is None:
            raise InvalidInputError(
                f"ObjectivePerturbation of the {fit.loss.name} loss solves a perturbed problem on the rows: pass rows=(X, y), "
                "those that the model was fitted on."
            )
        check_tilt(fit, *rows, self.scale * float(np.linalg.norm(root[-1])))
        return np.asarray(fit.uncentred(minima(fit, *rows, b).theta.T)).T

    def least_deviation(self, fit: Fit) -> float:
        """The least standard deviation of a draw along any direction."""
        inverse = released_inverse(fit)
        return self.scale * float(np.linalg.svd(inverse @ self.root(len(inverse)), compute_uv=False)[-1])

    def record(self) -> Json:
        shape = {} if self.shape is None else {"shape": self.shape.tolist()}
        return {"kind": "ObjectivePerturbation", "scale": float(self.scale)} | shape | calibration_told(self.calibrated)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(record["scale"], calibration_in(record), shape=record.get("shape"))


SelfShaped = Posterior | ObjectivePerturbation
MECHANISMS: dict[str, type[Posterior] | type[ObjectivePerturbation]] = {
    kind.__name__: kind for kind in get_args(SelfShaped)
}
"""Every mechanism whose noise the data shape, by name."""


def is_self_shaped(noise: object) -> TypeIs[SelfShaped]:
    """Whether it is a mechanism whose noise the data shape."""
    return isinstance(noise, SelfShaped)


def rows_decide(noise: object) -> bool:
    """Whether the rows decide the covariance of the noise: of a mechanism, or of Gaussian noise with a shape of their own."""
    return is_self_shaped(noise) or has_own_shape(noise)


def released_inverse(fit: Fit) -> Vector:
    """H^-1 for the parameters that are released, (p, p)."""
    half = np.asarray(fit.uncentred(np.asarray(host(fit.factor.inverse()))))
    return np.asarray(fit.uncentred(half.T))
