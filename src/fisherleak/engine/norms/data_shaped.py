r"""Norms where the noise's shape depends on the data too: a second term beside the Jacobian's (``mechanisms.self_shaped``).

In the eigenbasis V of the Hessian, with :math:`\xi = V^T x`, :math:`\epsilon = V^T E v` for a change v and
:math:`\alpha = a (w \cdot v) + c\, v_{label}`, an example has

.. math:: v^T F_i v = \sum_j \rho_j^2 (\alpha \xi_j + r \epsilon_j)^2
          + \tfrac12 \omega^2 \sum_{jk} \kappa_{jk}^2 (\xi_j \epsilon_k + \epsilon_j \xi_k)^2 ,

so that products with :math:`F_i` cost two of p x m for each row, and the second part is
:math:`\omega^2 (\mathrm{diag}(\kappa^2 \xi^2) + \mathrm{diag}(\xi) \kappa^2 \mathrm{diag}(\xi))`. Changes of several rows
meet in :math:`D = \sum_i \omega_i (\xi_i \epsilon_i^T + \epsilon_i \xi_i^T)`: eta of a set is found by products too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import scipy.sparse.linalg
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host, is_lazy
from fisherleak.engine.erm import Fit
from fisherleak.engine.information import Product, rounding_of
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.mechanisms.self_shaped import Posterior, SelfShaped, Spectrum, check_squared
from fisherleak.engine.norms.kernels import is_compiled
from fisherleak.engine.norms.lanczos import WANTED, top_by_products
from fisherleak.engine.norms.shaped_directly import Directly, directly
from fisherleak.engine.perturbation import Attribute
from fisherleak.engine.risk import with_constant
from fisherleak.errors import InvalidInputError
from fisherleak.rows import map_rows

__all__ = ["DataShaped", "check_measurable"]

Vector = NDArray[np.float64]
SETTLED = 1e-9
"""Relative error of the eta of a set."""
LARGEST = 2**27
"""Values that are written out at most."""
COMPILED_FROM = 2**17
"""Values of the rows from which a compiled kernel pays."""
SMALL = 256
"""Values of a set up to which its matrix is written out."""


def check_measurable(jacobian: Jacobian, mechanism: SelfShaped) -> None:
    """Refuse, by name, what a mechanism whose noise the data shape is not measured for."""
    name = type(mechanism).__name__
    if isinstance(mechanism, Posterior):
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
class DataShaped:
    """The information of one release whose noise the data shape, at its own scale."""

    jacobian: Jacobian
    mechanism: SelfShaped = field(repr=False)

    @cached_property
    def spectrum(self) -> Spectrum:
        return self.mechanism.spectrum(self.jacobian.fit)

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        return self.jacobian.attributes

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
    def folded(self) -> bool:
        return False

    @property
    def fits(self) -> tuple[Fit, ...]:
        return (self.jacobian.fit,)

    @property
    def rows(self) -> tuple[Array, Array]:
        return self.jacobian.X, self.jacobian.y

    @property
    def error(self) -> float:
        return rounding_of(self.jacobian.fit) + SETTLED

    def scaled(self, factor: float) -> DataShaped:
        self._refuse("a composition")

    def example_norms(self, attributes: Sequence[Attribute], label: bool) -> Array:
        parts = self._parts(attributes)
        width = parts.turned.shape[1] + int(label)
        drawn = isinstance(self.mechanism, Posterior) and bool(attributes)
        # a posterior's matrices are diagonal in one basis, but for two directions: products need no matrix there
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
        named = self.jacobian.named(attributes)
        found = np.empty((self.jacobian.X.shape[0], len(named)))
        single = [k for k, attribute in enumerate(named) if attribute.size == 1]
        if single:
            parts = self._parts([named[k] for k in single])
            found[:, single] = map_rows(parts.diagonals, *self.jacobian.arrays, width=len(single))
        for k, attribute in enumerate(named):
            if attribute.size > 1:
                found[:, k] = self.example_norms([attribute], False)
        return found

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
        together = parts.together(state, label)
        if size <= SMALL:
            return _root(np.stack([together(v) for v in np.eye(size)]))
        operator = scipy.sparse.linalg.LinearOperator((size, size), matvec=together, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(size)
        top, vector = scipy.sparse.linalg.eigsh(operator, k=1, which="LA", v0=start, tol=SETTLED, maxiter=10_000)
        left = np.linalg.norm(together(vector[:, 0]) - top[0] * vector[:, 0])
        return float(np.sqrt(max(top[0] + left, 0.0)))

    def certain(self, attributes: Sequence[Attribute], label: bool, row: int, norm: float) -> float:
        parts = self._parts(attributes)
        matrix = parts.matrix(self._state(parts, np.array([row])), label)
        return max(norm, _root(matrix)) * (1.0 + self.error)

    def written_out(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> Array:
        """Roots of single examples' information, (b, p + p^2, m + label): the Jacobian, and the shape's moves below it."""
        parts = self._parts(attributes)
        return parts.root(self._state(parts, rows), label)

    def _state(self, parts: _Parts, rows: Array | None) -> tuple[Vector, ...]:
        chosen = slice(None) if rows is None else np.asarray(host(rows))
        return parts.state(*(None if x is None else x[chosen] for x in self.jacobian.arrays))

    def _parts(self, attributes: Sequence[Attribute]) -> _Parts:
        E = self.jacobian.map(self.jacobian.named(attributes))
        return _Parts(self.jacobian.fit, self.spectrum, E.after(self.spectrum.basis.T), E.pull(self.spectrum.theta))


def _root(matrix: Vector) -> float:
    return float(np.sqrt(max(float(np.linalg.eigvalsh(matrix)[-1]), 0.0)))


@dataclass(frozen=True)
class _Parts:
    """What blocks of rows need: E in the eigenbasis, (p, m), and E^T w, (m,)."""

    fit: Fit
    spectrum: Spectrum
    turned: Vector
    w: Vector

    def state(self, X: Any, y: Any, weights: Any) -> tuple[Vector, ...]:
        """r, a, c, omega, xi and kappa^2 xi^2 of rows."""
        x = with_constant(np.asarray(X), self.fit.intercept is not None, self.spectrum.centre)
        z, loss = x @ self.spectrum.theta, self.fit.loss
        omega = np.ones(x.shape[0]) if weights is None else np.asarray(weights)
        xi = x @ self.spectrum.basis
        return omega * loss.r(z, y), omega * loss.a(z, y), omega * loss.c(z, y), omega, xi, xi**2 @ self.spectrum.shape

    def product(self, state: tuple[Vector, ...], V: Vector, label: bool) -> Vector:
        """F_i v_i of every row, (b, m + label)."""
        r, a, c, omega, xi, q = state
        v = V[:, :-1] if label else V
        e = v @ self.turned.T
        along = a * (v @ self.w) + (c * V[:, -1] if label else 0.0)
        moved = self.spectrum.middle * (along[:, None] * xi + r[:, None] * e)
        t = np.einsum("ij,ij->i", xi, moved)
        shape = (omega**2)[:, None] * (q * e + xi * ((xi * e) @ self.spectrum.shape))
        top = (r[:, None] * moved + shape) @ self.turned + (a * t)[:, None] * self.w[None, :]
        return np.concatenate([top, (c * t)[:, None]], axis=1) if label else top

    def of_rows(self, state: tuple[Vector, ...]) -> tuple[Vector, ...]:
        return state

    def matrix(self, state: tuple[Vector, ...], label: bool) -> Vector:
        """F_i of one row."""
        width = self.turned.shape[1] + int(label)
        repeated = tuple(np.repeat(x, width, axis=0) for x in state)
        found = self.product(repeated, np.eye(width), label)
        return 0.5 * (found + found.T)

    def diagonals(self, X: Any, y: Any, weights: Any) -> Vector:
        """Roots of the diagonal of F_i over attributes of one direction, (b, m)."""
        r, a, _, omega, xi, q = self.state(X, y, weights)
        E, middle, shape = self.turned, self.spectrum.middle, self.spectrum.shape
        first = (a**2 * (xi**2 @ middle))[:, None] * self.w**2 + r[:, None] ** 2 * (middle @ E**2)
        first = first + 2.0 * (a * r)[:, None] * self.w * ((xi * middle) @ E)
        values, vectors = np.linalg.eigh(shape)
        second = q @ E**2
        for k in np.flatnonzero(np.abs(values) > np.finfo(float).eps * np.abs(values).max()).tolist():
            second = second + values[k] * ((xi * vectors[:, k]) @ E) ** 2
        return np.asarray(np.sqrt(np.clip(first + (omega**2)[:, None] * second, 0.0, None)))

    def together(self, state: tuple[Vector, ...], label: bool) -> Callable[[Vector], Vector]:
        """V -> F v for changes of all rows at once, (n (m + label),)."""
        r, a, c, omega, xi, _ = state

        def product(v: Vector) -> Vector:
            V = v.reshape(r.size, -1)
            changes = V[:, :-1] if label else V
            e = changes @ self.turned.T
            along = a * (changes @ self.w) + (c * V[:, -1] if label else 0.0)
            z = self.spectrum.middle * (along @ xi + r @ e)
            N = (omega[:, None] * xi).T @ e
            G = self.spectrum.shape * (N + N.T)
            t = xi @ z
            top = (r[:, None] * z[None, :] + omega[:, None] * (xi @ G)) @ self.turned + (a * t)[:, None] * self.w[
                None, :
            ]
            return np.asarray(np.concatenate([top, (c * t)[:, None]], axis=1) if label else top).ravel()

        return product

    def root(self, state: tuple[Vector, ...], label: bool) -> Vector:
        r, a, c, omega, xi, _ = state
        E, p = self.turned, xi.shape[1]
        if r.size * p * p * E.shape[1] > LARGEST:
            raise InvalidInputError(
                f"The information of {r.size} rows about {E.shape[1]} values each, with a shape of {p} x {p}, is too large to "
                "be written out: ask for fewer rows (eta of any set is cheap: use of())."
            )
        first = (a[:, None] * xi)[:, :, None] * self.w + r[:, None, None] * E
        cross = xi[:, :, None, None] * E[None, None, :, :] + E[None, :, None, :] * xi[:, None, :, None]
        second = omega[:, None, None, None] * np.sqrt(0.5 * self.spectrum.shape)[:, :, None] * cross
        second = second.reshape(r.size, p * p, -1)
        if label:
            first = np.concatenate([first, (c[:, None] * xi)[:, :, None]], axis=2)
            second = np.concatenate([second, np.zeros((r.size, p * p, 1))], axis=2)
        return np.concatenate([-np.sqrt(self.spectrum.middle)[:, None] * first, second], axis=1)


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
    def of(cls, parts: _Parts) -> _InItsBasis:
        beta = np.sqrt(np.diag(parts.spectrum.shape))
        scaled = np.sqrt(beta)[:, None] * parts.turned
        values, basis = np.linalg.eigh(scaled.T @ scaled)
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
