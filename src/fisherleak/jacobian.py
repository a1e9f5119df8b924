r"""The Jacobian of the minimiser with respect to the data, kept in factors (paper, equation 14).

.. math::

    J_i = -\omega_i B\,[\,a_i x_i w^T E + r_i E,\; c_i x_i\,], \qquad B = W H^{-1},

with W the square root of the noise's Fisher information at scale 1 (the identity for isotropic
Gaussian noise), E the perturbation map and the last column for the label. The weight multiplies the
example and enters H: for weights, :math:`-\omega_i H_\omega^{-1}(\ldots)`. The constant of an intercept
is appended to x and is not data. The sign does not matter to any norm and is kept only in ``dense``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fisherleak._array import Array, like, namespace
from fisherleak.erm import Fit, with_constant
from fisherleak.noise import Noise
from fisherleak.perturbation import Attribute, PerturbationMap, map_of

__all__ = ["Jacobian", "Rows", "jacobian_of"]


@dataclass(frozen=True)
class Rows:
    """What a block of examples brings to the Jacobian."""

    x: Array
    """(b, p) features, with the constant where there is an intercept."""
    r: Array
    """(b,) weighted first derivative, omega r."""
    a: Array
    """(b,) weighted second derivative, omega a."""
    c: Array
    """(b,) weighted derivative by the label, omega c."""


@dataclass(frozen=True)
class Jacobian:
    """d theta / d data for one release, never materialised."""

    fit: Fit
    X: Array
    y: Array
    B: Array
    theta: Array
    attributes: tuple[Attribute, ...]

    @property
    def arrays(self) -> tuple[Array | None, ...]:
        """The row arrays that the passes walk over."""
        return self.X, self.y, self.fit.sample_weight

    def rows(self, X: Array, y: Array, weights: Array | None) -> Rows:
        """A block's features and weighted derivatives."""
        xp = namespace(X)
        x = with_constant(X, self.fit.intercept is not None, xp)
        z = x @ self.theta
        loss = self.fit.loss
        r, a, c = loss.r(z, y), loss.a(z, y), loss.c(z, y)
        return Rows(x, r, a, c) if weights is None else Rows(x, weights * r, weights * a, weights * c)

    def map(self, attributes: Sequence[Attribute] | None = None) -> PerturbationMap:
        """E for some attributes, or for all."""
        return map_of(self.attributes if attributes is None else attributes, self.theta.shape[0], self.B)

    def scaled(self, factor: float) -> Jacobian:
        return replace(self, B=self.B * factor)

    def dense(self, block: Sequence[Array | None], E: PerturbationMap, label: bool) -> Array:
        """J_i of a few examples, (b, p, m + label): for ``fim`` and for compositions only."""
        xp = namespace(self.B)
        part = self.rows(*block)
        u = part.x @ self.B.T
        A = E.after(self.B)
        w = E.pull(self.theta)
        J = (part.a[:, None] * u)[:, :, None] * w[None, None, :] + part.r[:, None, None] * A[None, :, :]
        if label:
            J = xp.concat([J, (part.c[:, None] * u)[:, :, None]], axis=2)
        return -J


def jacobian_of(fit: Fit, X: Array, y: Array, noise: Noise, attributes: tuple[Attribute, ...]) -> Jacobian:
    """The Jacobian of a fit, whitened by the noise at scale 1."""
    B: Any = fit.factor.inverse()
    W = noise.unit_information_root(B.shape[0])
    if W is not None:
        B = like(W, B, namespace(B)) @ B
    return Jacobian(fit, X, y, B, fit.theta, attributes)
