r"""The Jacobian of a minimiser of several outputs with respect to the data, kept in factors.

For example i, with E the perturbation map and :math:`F_i = A_i V E`, (L, m),

.. math:: J_i = -B\,[\,r_i \otimes E + F_i \otimes x_i,\; -\omega_i C \otimes x_i\,], \qquad B = W_b (Q \otimes I) H^{-1},

with :math:`W_b` the square root of the noise's Fisher information at scale 1. B has a row for each released parameter
(all coefficients, then all intercepts) and L p columns; what is between the brackets is :math:`Z_i`, (L p, m + q).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fisherleak._support.arrays import Array, device, like, namespace
from fisherleak.engine.block_maps import BlockMap, places_of
from fisherleak.engine.fit.minimise import Fit, minimised, risk_of_fit
from fisherleak.engine.fit.risk import Scores, score_maker
from fisherleak.engine.folding import Folding
from fisherleak.engine.mechanisms.served import Disclosed
from fisherleak.engine.noise import Noise
from fisherleak.engine.perturbation import Attribute, PerturbationMap, local_directions, map_of

__all__ = ["OutputsJacobian", "held_levels", "outputs_jacobian"]


@dataclass(frozen=True)
class OutputsJacobian:
    """d theta / d data for one release of several outputs, never materialised."""

    fit: Fit
    X: Array
    y: Array
    """Codes of classes (n,), or numbers (n, K)."""
    B: Array
    attributes: tuple[Attribute, ...]
    noise: Noise | Disclosed
    """What B is whitened by."""
    folding: Folding | None = None
    """Of scalers: m without the coefficient, which each output has its own of."""
    label_unit: float = 1.0
    """By how much the label moves where that of a composition moves by one."""

    @property
    def arrays(self) -> tuple[Array | None, ...]:
        """The row arrays that the passes walk over."""
        return self.X, self.y, self.fit.sample_weight

    @property
    def outputs(self) -> int:
        """L."""
        return self.fit.reduced_loss.outputs

    @property
    def width(self) -> int:
        """P."""
        return int(self.fit.centred_theta.shape[0]) // self.outputs

    @property
    def slopes(self) -> Array:
        """Parameters in the frame, for rows less the centre: (L, p)."""
        return namespace(self.B).reshape(self.fit.centred_theta, (self.outputs, self.width))

    @property
    def by_label(self) -> Array:
        """-C, (L, q)."""
        xp = namespace(self.B)
        z = xp.zeros((1, int(self.fit.coef.shape[0])), dtype=self.B.dtype, device=device(self.B))
        return -self.label_unit * self.fit.loss.c(z, z)[0, ...]

    def scores(self) -> Callable[..., Scores]:
        """A function from a block of ``arrays`` to its derivatives."""
        fit = self.fit
        return score_maker(fit.reduced_loss, fit.centred_theta, fit.intercept is not None, fit.centre)

    def map(self, attributes: Sequence[Attribute]) -> PerturbationMap:
        """E of attributes that move all rows alike."""
        return map_of(attributes, self.width, self.B)

    def named(self, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
        """Its own records of attributes of these names."""
        own = {attribute.name: attribute for attribute in self.attributes}
        return tuple(own[attribute.name] for attribute in attributes)

    def arrays_for(self, attributes: Sequence[Attribute]) -> tuple[Array | None, ...]:
        """The row arrays, and the directions of the attributes whose map differs from row to row."""
        return (*self.arrays, *local_directions(attributes, self.X, self.B))

    def with_noise(self, noise: Noise | Disclosed) -> OutputsJacobian:
        """The same fit released with other noise, or told of by an interface."""
        other = outputs_jacobian(self.fit, self.X, self.y, noise, self.attributes, self.folding)
        return replace(other, label_unit=self.label_unit)

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

    def scaled(self, factor: float) -> OutputsJacobian:
        return replace(self, B=self.B * factor, noise=self.noise.rescaled(self.noise.scale / factor))

    @property
    def metric(self) -> Array:
        """How the noise sees a move of the reduced parameters: B H, (released parameters, L p)."""
        xp = namespace(self.B)
        if isinstance(self.noise, Disclosed):
            return like(self.noise.root, self.B, xp) / self.noise.scale
        moved = self.fit.uncentred(xp.eye(int(self.B.shape[1]), dtype=self.B.dtype, device=device(self.B)))
        if self.folding is not None and getattr(self.noise, "shape", None) is None:
            moved = _framed(moved, self.folding.frame, self.fit)
        W = self.noise.unit_information_root(moved.shape[0])
        return (moved if W is None else like(W, self.B, xp) @ moved) / self.noise.scale

    def inner(self, attributes: Sequence[Attribute], label: bool) -> Callable[..., Array]:
        """A function from a block of ``arrays_for(attributes)`` to its Z_i, (b, L p, m + q): J_i = -B Z_i."""
        xp = namespace(self.B)
        make, V, p, places = self.scores(), self.slopes, self.width, places_of(attributes)
        by_label, reference = self.by_label, self.B
        identity = xp.eye(p, dtype=self.B.dtype, device=device(self.B))
        moves = self.moves()

        def block(X: Array, y: Array, weights: Array | None, *local: Array) -> Array:
            part = make(X, y, weights)
            b, L = part.r.shape
            parts = []
            if places:
                E = BlockMap(places, p, local, reference)
                moved = xp.matrix_transpose(E.after(identity))  # (b or 1, p, m)
                F = part.A @ (V[None, :, :] @ moved)
                direct = part.r[:, :, None]
                direct = direct if moves is None else direct + V[None, :, :] * moves(X, weights)[:, None, :]
                Z = direct[:, :, :, None] * moved[:, None, :, :] + F[:, :, None, :] * part.x[:, None, :, None]
                parts.append(xp.reshape(Z, (b, L * p, -1)))
            if label:
                lowered = -part.omega[:, None, None, None] * by_label[None, :, None, :] * part.x[:, None, :, None]
                parts.append(xp.reshape(lowered, (b, L * p, -1)))
            return parts[0] if len(parts) == 1 else xp.concat(parts, axis=2)

        return block

    def dense(self, attributes: Sequence[Attribute], label: bool) -> Callable[..., Array]:
        """A function from a block of ``arrays_for(attributes)`` to its J_i, (b, released parameters, m + q)."""
        inner, B = self.inner(attributes, label), self.B

        def block(*rows: Array | None) -> Array:
            return -B @ inner(*rows)

        return block


def outputs_jacobian(
    fit: Fit,
    X: Array,
    y: Array,
    noise: Noise | Disclosed,
    attributes: tuple[Attribute, ...],
    folding: Folding | None = None,
) -> OutputsJacobian:
    """The Jacobian of a fit, whitened by the noise at scale 1; y as the loss takes it.

    With scalers folded in, noise without a shape acts in the frame of the columns' public scales and centres, the same for
    every output. Answers depend on the reduced parameters, and know no frame.
    """
    if isinstance(noise, Disclosed):
        inverse = fit.factor.inverse()
        told = like(noise.root, inverse, namespace(inverse)) @ inverse
        return OutputsJacobian(fit, X, y, told, attributes, noise.rescaled(1.0), folding)
    B = fit.uncentred(fit.factor.inverse())
    if folding is not None and getattr(noise, "shape", None) is None:
        B = _framed(B, folding.frame, fit)
    W = noise.unit_information_root(B.shape[0])
    if W is not None:
        B = like(W, B, namespace(B)) @ B
    return OutputsJacobian(fit, X, y, B, attributes, noise.rescaled(1.0), folding)


def held_levels(jacobian: OutputsJacobian, intercept_l2: float) -> OutputsJacobian:
    """The same rows and loss at the minimum with a penalty on the intercepts, where they were free; of public scales."""
    fit = jacobian.fit
    risk = replace(risk_of_fit(fit, jacobian.X, jacobian.y), intercept_l2=intercept_l2, known_centre=None)
    found = minimised(risk, fit.classes)
    return outputs_jacobian(found, jacobian.X, jacobian.y, jacobian.noise, jacobian.attributes, jacobian.folding)


def _framed(B: Array, frame: Array, fit: Fit) -> Array:
    """Rows of released parameters, all coefficients and then all intercepts, turned by the frame of one output (p, p)."""
    xp = namespace(B)
    K, d = fit.coef.shape
    coef = xp.reshape(B[: K * d, :], (K, d, -1))
    moved = xp.reshape(xp.matmul(frame[:d, :d], coef), (K * d, -1))
    if fit.intercept is None:
        return moved
    levels = B[K * d :, :] + xp.matmul(frame[d:, :d], coef)[:, 0, :]
    return xp.concat([moved, levels], axis=0)
