"""Norms where the noise's shape depends on the data too: a second term beside the Jacobian's (``mechanisms.self_shaped``).

Mathematics: 3.2, ``docs/mathematics/mechanisms.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host, is_lazy
from fisherleak.engine.information import Product, Release, rounding_of
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.mechanisms.self_shaped import SelfShaped, Spectrum, check_squared
from fisherleak.engine.norms.compositions.shaped_parts import SETTLED, ShapedParts, cells_by_size, largest_eta
from fisherleak.engine.norms.eigenvalues.largest import WANTED, top_by_products
from fisherleak.engine.norms.kernels import is_compiled
from fisherleak.engine.norms.shaped_directly import Directly, directly
from fisherleak.errors import InvalidInputError
from fisherleak.rows import map_rows

__all__ = ["DataShaped", "check_measurable"]

Vector = NDArray[np.float64]
COMPILED_FROM = 2**17
"""Values of the rows from which a compiled kernel pays."""


def check_measurable(jacobian: Jacobian, mechanism: SelfShaped, beside: bool = False) -> None:
    """Refuse, by name, what a mechanism whose noise the data shape is not measured for, or not beside another release."""
    name = type(mechanism).__name__
    if not beside and mechanism.by_draws(jacobian.fit.loss) is None:
        check_squared(jacobian.fit, name)
    if is_lazy(jacobian.X) or not isinstance(jacobian.X, np.ndarray):
        raise InvalidInputError(f"{name} is measured for NumPy rows in memory: compute the rows first.")
    if jacobian.folding is not None:
        raise InvalidInputError(
            f"{name} is measured with public='preprocessing' only: what scalers learn would move its shape too."
        )
    if jacobian.gradient:
        raise InvalidInputError(
            f"{name} releases parameters, and this leakage is of a gradient: use fisherleak.Gaussian."
        )
    curved = [attribute.name for attribute in jacobian.attributes if attribute.local]
    if curved:
        raise InvalidInputError(
            f"{name} is measured for affine preprocessing only, and that of column '{curved[0]}' is not."
        )


@dataclass(frozen=True)
class DataShaped(Release):
    """The information of one release whose noise the data shape, at its own scale."""

    mechanism: SelfShaped = field(repr=False)

    @cached_property
    def spectrum(self) -> Spectrum:
        return self.mechanism.spectrum(self.jacobian.fit)

    @property
    def jacobians(self) -> tuple[Jacobian, ...]:
        """Refused: there is more to the information than a Jacobian."""
        self._refuse("this")

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidInputError(
            f"{type(self.mechanism).__name__} has a shape that depends on the data, which {what} does not count: use noise on "
            "parameters, fisherleak.Gaussian."
        )

    @property
    def error(self) -> float:
        return rounding_of(self.jacobian.fit) + SETTLED

    def scaled(self, factor: float) -> Self:
        if factor != 1.0:
            self._refuse("another scale of a composition")
        return self

    def example_norms(self, attributes: Sequence[Attribute], label: bool) -> Array:
        parts = self._parts(attributes)
        width = parts.turned.shape[1] + int(label)
        # a posterior's matrices are diagonal in one basis, but for two directions: products need no matrix there
        drawn = self.mechanism.root(len(self.spectrum.theta)) is None and bool(attributes)
        lighter = _InItsBasis.of(parts) if drawn else parts
        fast = self._directly(attributes, label)

        def by_products(X: Array, y: Array, weights: Array | None) -> Array:
            state = parts.state(X, y, weights)
            own = lighter.of_rows(state)
            values, errors = top_by_products(lambda s, V: lighter.product(s, V, label), own, width)
            left = np.flatnonzero(errors > WANTED)
            for row in left.tolist():
                one = tuple(x[row : row + 1] for x in state)
                values[row] = np.linalg.eigvalsh(parts.matrix(one, label))[-1]
            return np.asarray(values)

        def block(X: Array, y: Array, weights: Array | None) -> Array:
            if fast is None:
                return np.sqrt(np.clip(by_products(X, y, weights), 0.0, None))
            values = fast.tops(X, y, weights)
            left = np.flatnonzero(np.isnan(values))
            if left.size:
                values[left] = by_products(X[left], y[left], None if weights is None else weights[left])
            return np.sqrt(np.clip(values, 0.0, None))

        return map_rows(block, *self.jacobian.arrays)

    def _directly(self, attributes: Sequence[Attribute], label: bool) -> Directly | None:
        """A compiled kernel for single rows, where there is one and it pays."""
        if not attributes or not is_compiled(self.jacobian.X, COMPILED_FROM):
            return None
        changes = self.jacobian.map(self.jacobian.named(attributes))
        return directly(self.jacobian.fit, self.spectrum, changes, self.mechanism, label)

    def cell_norms(self, attributes: Sequence[Attribute]) -> Array:
        named, rows = self.jacobian.named(attributes), self.jacobian.X.shape[0]

        def single(some: list[Attribute]) -> Vector:
            return np.asarray(map_rows(self._parts(some).diagonals, *self.jacobian.arrays, width=len(some)))

        return cells_by_size(named, rows, single, lambda one: self.example_norms([one], False))

    def attribute_norms(self, attributes: Sequence[Attribute]) -> Array:
        return np.array([self.set_norm([attribute], False, None) for attribute in attributes])

    def set_product(self, attributes: Sequence[Attribute], label: bool) -> Product:
        self._refuse("a sum over blocks of rows")

    def set_norm(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> float:
        """The root of the largest eigenvalue of the information about a set of examples, taken jointly."""
        parts = self._parts(attributes)
        state = self._state(parts, rows)
        width = parts.turned.shape[1] + int(label)
        size = state[0].shape[0] * width
        if size == 0:
            return 0.0
        return largest_eta(parts.together(state, label), size)

    def certain(self, attributes: Sequence[Attribute], label: bool, row: int, norm: float) -> float:
        parts = self._parts(attributes)
        matrix = parts.matrix(self._state(parts, np.array([row])), label)
        return max(norm, _root(matrix)) * (1.0 + self.error)

    def written_out(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> Array:
        """Roots of single examples' information, (b, p + p^2, m + label): the Jacobian, and the shape's moves below it."""
        parts = self._parts(attributes)
        return parts.root(self._state(parts, rows), label)

    def _state(self, parts: ShapedParts, rows: Array | None) -> tuple[Vector, ...]:
        chosen = slice(None) if rows is None else np.asarray(host(rows))
        return parts.state(*(None if x is None else x[chosen] for x in self.jacobian.arrays))

    def _parts(self, attributes: Sequence[Attribute]) -> ShapedParts:
        E = self.jacobian.map(self.jacobian.named(attributes))
        return ShapedParts(
            self.jacobian.fit, self.spectrum, E.after(self.spectrum.basis.T), E.pull(self.spectrum.theta)
        )


def _root(matrix: Vector) -> float:
    return float(np.sqrt(max(float(np.linalg.eigvalsh(matrix)[-1]), 0.0)))


@dataclass(frozen=True)
class _InItsBasis:
    r"""Products for posterior sampling in the eigenbasis of :math:`S = E^T H^{-1} E`, elementwise.

    With :math:`g = E^T u` there, an example's matrix is

    .. math:: F_i = (r^2 / T + \omega^2 h)\, S + \omega^2 g g^T + \frac{r a}{T} (g w^T + w g^T) + \frac{a^2 h}{T} w w^T,

    with a border of :math:`\frac{c}{T} (r g + a h w)` and :math:`c^2 h / T` for the label.
    """

    diagonal: Vector
    into: Vector
    w: Vector
    middle: Vector
    root: Vector
    """Of the diagonal of the shape: the eigenvalues of H^-1."""

    @classmethod
    def of(cls, parts: ShapedParts) -> _InItsBasis:
        # kappa^2 = beta_j beta_k for a posterior (section 3.1): its diagonal is beta^2
        beta = np.sqrt(np.diag(parts.spectrum.shape))
        scaled = np.sqrt(beta)[:, None] * parts.turned
        values, basis = np.linalg.eigh(scaled.T @ scaled)
        # g = E^T H^-1 x in the eigenbasis of S, from xi
        into = beta[:, None] * (parts.turned @ basis)
        return cls(np.clip(values, 0.0, None), into, basis.T @ parts.w, parts.spectrum.middle, beta)

    def of_rows(self, state: tuple[Vector, ...]) -> tuple[Vector, ...]:
        """The coefficients of each row's matrix, and g."""
        r, a, c, omega, xi, _ = state
        h, cold = xi**2 @ self.root, xi**2 @ self.middle  # h and h / T
        per_t = float(self.middle[-1] / self.root[-1])
        return (
            *(r**2 * per_t + omega**2 * h, omega**2, r * a * per_t, a**2 * cold),
            *(c * r * per_t, c * a * cold, c**2 * cold, xi @ self.into),
        )

    def product(self, state: tuple[Vector, ...], V: Vector, label: bool) -> Vector:
        """F_i v_i of every row, (b, m + label)."""
        alpha, gg, gw, ww, by_g, by_w, end, g = state
        v = V[:, :-1] if label else V
        along, over = np.einsum("ij,ij->i", g, v), v @ self.w
        to_g, to_w = gg * along + gw * over, gw * along + ww * over
        if label:
            to_g, to_w = to_g + by_g * V[:, -1], to_w + by_w * V[:, -1]
        top = (alpha[:, None] * self.diagonal) * v
        top += to_g[:, None] * g
        top += to_w[:, None] * self.w
        if not label:
            return top
        return np.concatenate([top, (by_g * along + by_w * over + end * V[:, -1])[:, None]], axis=1)
