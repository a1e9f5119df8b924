"""The Jacobian of the minimiser with respect to the data, kept in factors (paper, equation 14).

Beside it, which changes of the data count. May import fits, losses, noise and answers.

Mathematics: 1.2, ``docs/mathematics/fits.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from fisherleak._support.arrays import Array, device, like, namespace, times
from fisherleak.engine.fit.minimise import Fit, minimised, risk_of_fit
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.jacobian.block_maps import BlockMap, places_of
from fisherleak.engine.jacobian.folding import Folding
from fisherleak.engine.jacobian.perturbation import Attribute, PerturbationMap, local_directions, map_of
from fisherleak.engine.losses import check_quadratic
from fisherleak.engine.losses.loss import Loss, ReducedLoss
from fisherleak.engine.losses.multi_output import check_by_label
from fisherleak.engine.mechanisms.interface_answers import Disclosed, is_disclosed
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.noise import covariance_of


@dataclass(frozen=True)
class Derivatives:
    """What a block of examples brings to the Jacobian of one output."""

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
class Scores:
    """What a block of examples brings to the Jacobian of any number of outputs, in the frame, weights counted."""

    x: Array
    """(b, p) features, with the constant where there is an intercept."""
    r: Array
    """(b, L) weighted gradient."""
    A: Array
    """(b, L, L) weighted curvature."""
    omega: Array
    """(b,) weights."""


@dataclass(frozen=True)
class Model:
    """What a block of rows has to know of a fit: small arrays only, so that it can travel to where the rows are."""

    theta: Array
    loss: Loss
    intercept: bool
    centre: Array | None
    folding: Folding | None = None
    frame: Array | None = None

    def scores(self, X: Array, y: Array, weights: Array | None) -> Scores:
        """A block's features and weighted derivatives in the frame."""
        xp, loss = namespace(self.theta), ReducedLoss(self.loss, self.frame)
        x = with_constant(X, self.intercept, self.centre)
        z = x @ xp.reshape(self.theta, (loss.outputs, -1)).T
        omega = xp.ones(x.shape[0], dtype=x.dtype, device=device(x)) if weights is None else weights
        return Scores(x, loss.gradient(z, y) * omega[:, None], loss.curvature(z, y) * omega[:, None, None], omega)

    def rows(self, X: Array, y: Array, weights: Array | None) -> Derivatives:
        """A block's features and weighted derivatives, of one output."""
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
        # r + m_ik of section 1.3, then r of the constant, then gamma of the features that are always zero
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
    """(n,): numbers, or codes of classes; (n, K) of several numbers."""
    B: Array
    theta: Array
    attributes: tuple[Attribute, ...]
    noise: Noise | Disclosed
    """What B is whitened by."""
    folding: Folding | None = None
    """Of several outputs: scalers alone, and m without the coefficient, which each output has its own of."""
    gradient: bool = False
    """Whether what is released is a gradient, with the identity in place of H^-1, and no minimiser."""
    label_unit: float = 1.0
    """By how much the label of several outputs moves where that of a composition moves by one."""

    @property
    def several(self) -> bool:
        """Whether it is of several outputs."""
        return self.fit.loss.several

    @property
    def arrays(self) -> tuple[Array | None, ...]:
        """The row arrays that the passes walk over."""
        return self.X, self.y, self.fit.sample_weight

    @property
    def model(self) -> Model:
        fit = self.fit
        return Model(self.theta, fit.loss, fit.intercept is not None, fit.centre, self.folding, fit.frame)

    @property
    def outputs(self) -> int:
        """L."""
        return self.fit.reduced_loss.outputs

    @property
    def width(self) -> int:
        """Parameters of one output."""
        return int(self.theta.shape[0]) // self.outputs

    @property
    def slopes(self) -> Array:
        """Parameters in the frame, for rows less the centre: (L, p)."""
        return namespace(self.B).reshape(self.theta, (self.outputs, self.width))

    @property
    def by_label(self) -> Array:
        """-C of several outputs, (L, q)."""
        xp = namespace(self.B)
        z = xp.zeros((1, self.fit.outputs), dtype=self.B.dtype, device=device(self.B))
        return -self.label_unit * self.fit.loss.c(z, z)[0, ...]

    @property
    def label_size(self) -> int:
        """q, how many directions a label has."""
        return int(self.by_label.shape[1]) if self.several else 1

    def map(self, attributes: Sequence[Attribute] | None = None) -> PerturbationMap:
        """E for some attributes that move all rows alike, or for all."""
        return map_of(self.attributes if attributes is None else attributes, self.width, self.B)

    def with_noise(self, noise: Noise | Disclosed) -> Jacobian:
        """The same fit released with other noise, or told of by an interface."""
        found = jacobian_of(self.fit, self.X, self.y, noise, self.attributes, self.folding)
        return replace(found, gradient=self.gradient, label_unit=self.label_unit)

    def scaled(self, factor: float) -> Jacobian:
        return replace(self, B=self.B * factor, noise=self.noise.rescaled(self.noise.scale / factor))

    @property
    def answered(self) -> bool:
        """Whether an interface has told of the parameters, in place of a release with noise."""
        return is_disclosed(self.noise)

    @cached_property
    def products(self) -> Array:
        """S = B^T B by outputs, (L, p, L, p): what norms of several outputs need."""
        sizes = (self.outputs, self.width)
        return namespace(self.B).reshape(self.B.T @ self.B, (*sizes, *sizes))

    def of_rows(self, fit: Fit, X: Array, y: Array) -> Jacobian:
        """The same release with other rows; what does not depend on them is not made again."""
        found = replace(self, fit=fit, X=X, y=y)
        if self.several:
            vars(found)["products"] = self.products
        return found

    @property
    def metric(self) -> Array:
        """How the noise sees a move of the parameters for rows as they are centred: B H, (released parameters, L p)."""
        xp = namespace(self.B)
        if is_disclosed(self.noise):
            return like(self.noise.root, self.B, xp) / self.noise.scale
        moved: Any = self.fit.uncentring
        if self.folding is not None and covariance_of(self.noise) is None:
            moved = _framed(moved, self.folding.frame, self.fit)
        # W of section 1.2, over the noise's own scale
        W = self.noise.unit_information_root(moved.shape[0])
        moved = moved if W is None else like(W, self.B, xp) @ moved
        return moved if self.noise.scale == 1 else moved / self.noise.scale

    def named(self, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
        """The release's own records of attributes of these names: releases may encode them differently."""
        own = {attribute.name: attribute for attribute in self.attributes}
        return tuple(own[attribute.name] for attribute in attributes)

    def arrays_for(self, attributes: Sequence[Attribute]) -> tuple[Array | None, ...]:
        """The row arrays, and the directions of the attributes whose map differs from row to row."""
        return (*self.arrays, *local_directions(attributes, self.X, self.B))

    def moves(self) -> Callable[..., Array] | None:
        """A function from a block of ``arrays`` to what a change of each feature does through its scale, (b, p)."""
        if self.folding is None:
            return None
        folding, intercept = self.folding, self.fit.intercept is not None

        def block(X: Array, weights: Array | None) -> Array:
            xp = namespace(X)
            moved = folding.moves(X, weights)
            return xp.concat([moved, xp.zeros_like(moved[:, :1])], axis=1) if intercept else moved

        return block

    def inner(self, attributes: Sequence[Attribute], label: bool) -> Callable[..., Array]:
        """A function from a block of ``arrays_for(attributes)`` to its Z_i of several outputs, (b, L p, m + q): J = -B Z."""
        xp = namespace(self.B)
        model, V, p, places = self.model, self.slopes, self.width, places_of(attributes)
        by_label, reference = self.by_label, self.B
        moves = self.moves()

        def block(X: Array, y: Array, weights: Array | None, *local: Array) -> Array:
            part = model.scores(X, y, weights)
            b, L = part.r.shape
            parts = []
            if places:
                E = BlockMap(places, p, local, reference)
                identity = xp.eye(p, dtype=reference.dtype, device=device(reference))
                moved = xp.matrix_transpose(E.after(identity))  # (b or 1, p, m)
                # Z_i of the second formula of section 1.2, r (x) E + F (x) x with F = A V E; folded scales add V_lk g_k
                # to r_l (section 2.6)
                F = part.A @ (V[None, :, :] @ moved)
                direct = part.r[:, :, None]
                direct = direct if moves is None else direct + V[None, :, :] * moves(X, weights)[:, None, :]
                Z = direct[:, :, :, None] * moved[:, None, :, :] + F[:, :, None, :] * part.x[:, None, :, None]
                parts.append(xp.reshape(Z, (b, L * p, -1)))
            if label:
                # omega C (x) x; C is -by_label
                lowered = -part.omega[:, None, None, None] * by_label[None, :, None, :] * part.x[:, None, :, None]
                parts.append(xp.reshape(lowered, (b, L * p, -1)))
            return parts[0] if len(parts) == 1 else xp.concat(parts, axis=2)

        return block

    def dense(self, attributes: Sequence[Attribute], label: bool) -> Callable[..., Array]:
        """A function from a block of ``arrays_for(attributes)`` to its J_i, (b, released parameters, m + q)."""
        xp = namespace(self.B)
        model, B, places = self.model, self.B, places_of(attributes)
        inner = self.inner(attributes, label) if self.several else None

        def block(X: Array, y: Array, weights: Array | None, *local: Array) -> Array:
            if inner is not None:
                return -B @ inner(X, y, weights, *local)
            # of one output as a product of vectors, which takes b p m steps in place of b p^2 m
            part = model.rows(X, y, weights)
            u = part.x @ B.T
            parts = []
            if places:
                E = BlockMap(places, B.shape[1], local, B)
                # a x w^T E + (r + m) E, and c x of the label, each times B (sections 1.2 and 1.3)
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
    """The Jacobian of a fit, whitened by the noise at scale 1; y as the loss takes it.

    With preprocessing folded in, noise without a shape acts in the frame of the columns' public scales and centres, the same
    for every output; a shape is over raw coefficients, then the raw intercepts, then what imputers add. Answers depend on the
    parameters for centred rows, and neither on that frame nor on what imputers fill in.
    """
    # B = W H^-1 of section 1.2: H^-1 of centred rows, turned to the parameters that are released, then W
    check_quadratic(fit.loss, fit.outputs, fit.theta)
    if fit.loss.several:
        check_by_label(fit.loss, fit.outputs)
    B: Any = fit.factor.inverse()
    theta = fit.centred_theta
    xp, size = namespace(theta), B.shape[0]
    told = is_disclosed(noise)
    B = B if told else fit.uncentred(B)
    if folding is not None and folding.filling is not None:
        B = folding.filling.extended(B)
        B = B[:size, :] if told else B
        theta = xp.concat([theta, xp.zeros_like(folding.filling.slopes)])
    if is_disclosed(noise):
        return Jacobian(fit, X, y, like(noise.root, B, xp) @ B, theta, attributes, noise.rescaled(1.0), folding)
    if folding is not None and covariance_of(noise) is None:
        B = _framed(B, folding.frame, fit)
    W = noise.unit_information_root(B.shape[0])
    if W is not None:
        B = like(W, B, xp) @ B
    return Jacobian(fit, X, y, B, theta, attributes, noise.rescaled(1.0), folding)


def held_levels(jacobian: Jacobian, intercept_l2: float) -> Jacobian:
    """The same rows and loss at the minimum with a penalty on the intercepts, where they were free; of public scales."""
    fit = jacobian.fit
    risk = replace(risk_of_fit(fit, jacobian.X, jacobian.y), intercept_l2=intercept_l2, known_centre=None)
    found = minimised(risk)
    return jacobian_of(found, jacobian.X, jacobian.y, jacobian.noise, jacobian.attributes, jacobian.folding)


def _framed(B: Array, frame: Array, fit: Fit) -> Array:
    """Rows of released parameters, all coefficients and then all intercepts, turned by the frame of one output (p, p)."""
    if not fit.loss.several:
        return times(frame, B)
    xp = namespace(B)
    K, d = fit.coef.shape
    coef = xp.reshape(B[: K * d, :], (K, d, -1))
    moved = xp.reshape(xp.matmul(frame[:d, :d], coef), (K * d, -1))
    if fit.intercept is None:
        return moved
    levels = B[K * d :, :] + xp.matmul(frame[d:, :d], coef)[:, 0, :]
    return xp.concat([moved, levels], axis=0)
