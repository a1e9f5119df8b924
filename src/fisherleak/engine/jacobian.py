r"""The Jacobian of the minimiser with respect to the data, kept in factors (paper, equation 14).

.. math::

    J_i = -\omega_i B\,[\,a_i x_i w^T E + r_i E,\; c_i x_i\,], \qquad B = W H^{-1},

with W the square root of the noise's Fisher information at scale 1 (the identity for isotropic
Gaussian noise), E the perturbation map and the last column for the label. The weight multiplies the
example and enters H: for weights, :math:`-\omega_i H_\omega^{-1}(\ldots)`. The constant of an intercept
is appended to x and is not data; with it, x is taken less the column means, which changes nothing but rounding: B turns
the parameters for such rows into those that are released. The sign does not matter to any norm and is kept only in ``dense``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fisherleak._support.arrays import Array, device, like, namespace
from fisherleak._support.sparse import times
from fisherleak.engine.block_maps import BlockMap, places_of
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.folding import Folding
from fisherleak.engine.losses import Loss
from fisherleak.engine.mechanisms.served import Disclosed
from fisherleak.engine.noise import Noise
from fisherleak.engine.perturbation import Attribute, PerturbationMap, local_directions, map_of

__all__ = ["Derivatives", "Jacobian", "Model", "jacobian_of"]


@dataclass(frozen=True)
class Derivatives:
    """What a block of examples brings to the Jacobian."""

    x: Array
    """(b, p) features, with the constant where there is an intercept."""
    r: Array
    """(b,) weighted first derivative, omega r."""
    a: Array
    """(b,) weighted second derivative, omega a."""
    c: Array
    """(b,) weighted derivative by the label, omega c."""
    direct: Array | None = None
    """(b, p) what a change of each feature does to the gradient by itself, where preprocessing is folded in; else it is r."""

    def moved(self, E: BlockMap) -> BlockMap:
        """diag(direct) E: the direct effect of a change on the gradient."""
        xp = namespace(self.r)
        return replace(E, scale=xp.broadcast_to(self.r[:, None], self.x.shape) if self.direct is None else self.direct)


@dataclass(frozen=True)
class Model:
    """What a block of rows has to know of a fit: small arrays only, so that it can travel to where the rows are."""

    theta: Array
    loss: Loss
    intercept: bool
    centre: Array | None
    folding: Folding | None = None

    def rows(self, X: Array, y: Array, weights: Array | None) -> Derivatives:
        """A block's features and weighted derivatives."""
        x = with_constant(X, self.intercept, self.centre)
        filling = None if self.folding is None else self.folding.filling
        if filling is not None:
            xp = namespace(x)
            nothing = xp.zeros((x.shape[0], filling.size), dtype=x.dtype, device=device(x))
            x = xp.concat([x, nothing], axis=1)
        z = x @ self.theta
        r, a, c = self.loss.r(z, y), self.loss.a(z, y), self.loss.c(z, y)
        if weights is not None:
            r, a, c = weights * r, weights * a, weights * c
        if self.folding is None:
            return Derivatives(x, r, a, c)
        direct = [r[:, None] + self.folding.moves(X, weights)]
        direct += [r[:, None]] * self.intercept
        direct += [] if filling is None else [filling.moved(X)]
        return Derivatives(x, r, a, c, namespace(x).concat(direct, axis=1))


@dataclass(frozen=True)
class Jacobian:
    """d theta / d data for one release, never materialised."""

    fit: Fit
    X: Array
    y: Array
    B: Array
    theta: Array
    attributes: tuple[Attribute, ...]
    noise: Noise | Disclosed
    """What B is whitened by."""
    folding: Folding | None = None
    gradient: bool = False
    """Whether what is released is a gradient, with the identity in place of H^-1, and no minimiser."""

    @property
    def arrays(self) -> tuple[Array | None, ...]:
        """The row arrays that the passes walk over."""
        return self.X, self.y, self.fit.sample_weight

    @property
    def model(self) -> Model:
        return Model(self.theta, self.fit.loss, self.fit.intercept is not None, self.fit.centre, self.folding)

    def map(self, attributes: Sequence[Attribute] | None = None) -> PerturbationMap:
        """E for some attributes, or for all."""
        return map_of(self.attributes if attributes is None else attributes, self.theta.shape[0], self.B)

    def with_noise(self, noise: Noise | Disclosed) -> Jacobian:
        """The same fit released with other noise, or told of by an interface."""
        found = jacobian_of(self.fit, self.X, self.y, noise, self.attributes, self.folding)
        return replace(found, gradient=self.gradient)

    def scaled(self, factor: float) -> Jacobian:
        return replace(self, B=self.B * factor, noise=self.noise.rescaled(self.noise.scale / factor))

    @property
    def metric(self) -> Array:
        """How the noise sees a move of the parameters for rows as they are centred: B H, (p, p)."""
        xp = namespace(self.B)
        if isinstance(self.noise, Disclosed):
            return like(self.noise.root, self.B, xp) / self.noise.scale
        p = self.B.shape[1]
        moved: Any = self.fit.uncentred(xp.eye(p, dtype=self.B.dtype, device=device(self.B)))
        if self.folding is not None and getattr(self.noise, "shape", None) is None:
            moved = times(self.folding.frame, moved)
        W = self.noise.unit_information_root(p)
        return (moved if W is None else like(W, self.B, xp) @ moved) / self.noise.scale

    def named(self, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
        """The release's own records of attributes of these names: releases may encode them differently."""
        own = {attribute.name: attribute for attribute in self.attributes}
        return tuple(own[attribute.name] for attribute in attributes)

    def arrays_for(self, attributes: Sequence[Attribute]) -> tuple[Array | None, ...]:
        """The row arrays, and the directions of the attributes whose map differs from row to row."""
        return (*self.arrays, *local_directions(attributes, self.X, self.B))

    def dense(self, attributes: Sequence[Attribute], label: bool) -> Callable[..., Array]:
        """A function from a block of ``arrays_for(attributes)`` to its J_i, (b, p, m + label)."""
        xp = namespace(self.B)
        model, B, places = self.model, self.B, places_of(attributes)

        def block(X: Array, y: Array, weights: Array | None, *local: Array) -> Array:
            part = model.rows(X, y, weights)
            u = part.x @ B.T
            parts = []
            if places:
                E = BlockMap(places, B.shape[1], local, B)
                along = part.a[:, None] * E.pull(model.theta[None, :])
                direct = part.r[:, None, None] * E.after(B) if part.direct is None else part.moved(E).after(B)
                parts.append(along[:, :, None] * u[:, None, :] + direct)
            if label:
                parts.append((part.c[:, None] * u)[:, None, :])
            return -xp.matrix_transpose(parts[0] if len(parts) == 1 else xp.concat(parts, axis=1))

        return block


def jacobian_of(
    fit: Fit,
    X: Array,
    y: Array,
    noise: Noise | Disclosed,
    attributes: tuple[Attribute, ...],
    folding: Folding | None = None,
) -> Jacobian:
    """The Jacobian of a fit, whitened by the noise at scale 1.

    With preprocessing folded in, noise without a shape acts in the frame of the columns' public scales and centres; a shape is
    over raw coefficients, then the raw intercept, then what imputers add.
    """
    if isinstance(noise, Disclosed):
        return _told_of(fit, X, y, noise, attributes, folding)
    B: Any = fit.uncentred(fit.factor.inverse())
    theta = fit.centred_theta
    if folding is not None:
        if folding.filling is not None:
            B = folding.filling.extended(B)
            theta = namespace(theta).concat([theta, namespace(theta).zeros_like(folding.filling.slopes)])
        if getattr(noise, "shape", None) is None:
            B = times(folding.frame, B)
    W = noise.unit_information_root(B.shape[0])
    if W is not None:
        B = like(W, B, namespace(B)) @ B
    return Jacobian(fit, X, y, B, theta, attributes, noise.rescaled(1.0), folding)


def _told_of(
    fit: Fit, X: Array, y: Array, noise: Disclosed, attributes: tuple[Attribute, ...], folding: Folding | None
) -> Jacobian:
    """The same for answers, which depend on the parameters for centred rows and not on what imputers fill in."""
    B: Any = fit.factor.inverse()
    theta = fit.centred_theta
    xp = namespace(theta)
    if folding is not None and folding.filling is not None:
        B = folding.filling.extended(B)[: B.shape[0], :]
        theta = xp.concat([theta, xp.zeros_like(folding.filling.slopes)])
    return Jacobian(fit, X, y, like(noise.root, B, xp) @ B, theta, attributes, noise.rescaled(1.0), folding)
