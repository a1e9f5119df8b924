r"""Norms where the noise's shape depends on the data too: a second term beside the Jacobian's (``mechanisms.self_shaped``).

Mathematics: 3.2, ``docs/mathematics/mechanisms.md``.

Of several independent releases, of some of which the data shape the noise, the information adds up, products and all: exact for
what each of them is exact for, affine preprocessing that is public, and rows in memory. A model of K numbers is K releases of
one, :math:`t \sim N(w, I_K \otimes S)`: their features are the same, and each has a label of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NoReturn, Self

import numpy as np
import scipy.sparse.linalg

from fisherleak._support.arrays import Array, host, is_lazy
from fisherleak._support.namespaces import Vector
from fisherleak.engine.fit.minimise import one_by_one
from fisherleak.engine.information import Information, Product, Release, TableInformation
from fisherleak.engine.jacobian import Jacobian, jacobian_of
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.losses.multi_output import is_squared_numbers
from fisherleak.engine.mechanisms.self_shaped import SelfShaped, Spectrum, check_squared
from fisherleak.engine.noise import Gaussian
from fisherleak.engine.norms.kernels import is_compiled
from fisherleak.engine.norms.largest_eigenvalues import WANTED, top_by_products
from fisherleak.engine.norms.shaped_rows import InItsBasis, ShapedParts, Tops, directly, fixed_spectrum
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.rows import map_rows

State = tuple[Vector, ...]
SETTLED = 1e-9
"""Relative error of the eta of a set."""
SMALL = 256
"""Values of a set up to which its matrix is written out."""
COMPILED_FROM = 2**17
"""Values of the rows from which a compiled kernel pays."""


def largest_eta(together: Callable[[Vector], Vector], size: int) -> float:
    """The root of the largest eigenvalue of a matrix that is known by its products, never below it."""
    if size <= SMALL:
        matrix = np.stack([together(v) for v in np.eye(size)])
        return float(np.sqrt(max(float(np.linalg.eigvalsh(matrix)[-1]), 0.0)))
    operator = scipy.sparse.linalg.LinearOperator((size, size), matvec=together, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(size)
    top, vector = scipy.sparse.linalg.eigsh(operator, k=1, which="LA", v0=start, tol=SETTLED, maxiter=10_000)
    left = np.linalg.norm(together(vector[:, 0]) - top[0] * vector[:, 0])
    return float(np.sqrt(max(top[0] + left, 0.0)))


def check_measurable(jacobian: Jacobian, mechanism: SelfShaped, beside: bool = False) -> None:
    """Refuse, by name, what a mechanism whose noise the data shape is not measured for, or not beside another release."""
    name = type(mechanism).__name__
    if not beside and mechanism.by_draws(jacobian.fit.loss) is None:
        check_squared(jacobian.fit, name)
    if is_lazy(jacobian.X) or not isinstance(jacobian.X, np.ndarray):
        raise InvalidInputError(f"{name} is measured for NumPy rows in memory: compute the rows first.")
    if jacobian.folding is not None:
        raise InvalidInputError(
            f"{name} is measured with public='preprocessing' only: what scalers learn would move its covariance too."
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
class DataShaped(TableInformation):
    """The information of one release or of several, each at its own scale, one or more with noise that the data shape."""

    outputs: tuple[Release, ...] = ()
    """Of a model of several numbers, a release of each."""
    cut = SETTLED

    def __post_init__(self) -> None:
        for each in self.terms:
            check_measurable(each.jacobian, first_mechanism(self), beside=True)

    @classmethod
    def of_outputs(cls, jacobian: Jacobian, mechanism: SelfShaped) -> DataShaped:
        """Of the squared loss of numbers; every other loss of several outputs is refused by name."""
        name, fit = type(mechanism).__name__, jacobian.fit
        if not is_squared_numbers(fit.loss):
            raise UnsupportedModelError(
                f"{name} is known for models of one output, and for several with the package's squared loss; this one "
                f"has {fit.coef.shape[0]} outputs and the loss {fit.loss.name!r}: use noise on its parameters, "
                "fisherleak.Gaussian."
            )
        if jacobian.folding is not None:
            raise InvalidInputError(
                f"{name} is measured with public='preprocessing' only: what scalers learn would move its covariance too."
            )
        Y = np.asarray(host(jacobian.y))
        outputs = []
        for k, one in enumerate(one_by_one(fit)):
            own = jacobian_of(one, jacobian.X, Y[:, k], Gaussian(1.0), jacobian.attributes)
            check_measurable(own, mechanism)
            outputs.append(Release(own, mechanism))
        return cls((Release(jacobian, mechanism),), tuple(outputs))

    @property
    def terms(self) -> tuple[Release, ...]:
        """Releases of one output, whose information adds up."""
        return self.outputs or self.releases

    @property
    def jacobians(self) -> tuple[Jacobian, ...]:
        """Refused: there is more to the information than Jacobians."""
        self._refuse("this computation")

    def _refuse(self, what: str) -> NoReturn:
        remedy = "use noise" if len(self.terms) == 1 else "compose releases with noise"
        raise InvalidInputError(
            f"{type(first_mechanism(self)).__name__} has a covariance that depends on the data, which {what} does not count: "
            f"{remedy} on parameters, fisherleak.Gaussian."
        )

    def scaled(self, factor: float) -> Self:
        if factor != 1.0:
            self._refuse("another scale of a composition")
        return self

    def example_norms(self, attributes: Sequence[Attribute], label: bool) -> Array:
        parts, places = self._parts(attributes), self._places(label)
        m = parts[0].turned.shape[1]
        kernel, lighter = self._alone(parts, attributes, label)

        def by_products(*arrays: Array | None) -> Vector:
            states = self._blocks(parts, arrays)
            edges = np.cumsum([0, *(len(state) for state in states)]).tolist()

            def product(flat: State, V: Vector) -> Vector:
                return places.sum_of(parts, [flat[a:b] for a, b in pairwise(edges)], V, m)

            def in_its_basis(flat: State, V: Vector) -> Vector:
                assert lighter is not None
                return lighter.product(flat, V, label)

            flat = tuple(x for state in states for x in state) if lighter is None else lighter.of_rows(states[0])
            values, errors = top_by_products(product if lighter is None else in_its_basis, flat, m + places.count)
            for row in np.flatnonzero(errors > WANTED).tolist():
                matrix = places.matrix(parts, [tuple(x[row : row + 1] for x in state) for state in states], m)
                values[row] = np.linalg.eigvalsh(matrix)[-1]
            return np.asarray(values)

        def block(*arrays: Array | None) -> Array:
            if kernel is None:
                return np.sqrt(np.clip(by_products(*arrays), 0.0, None))
            values = kernel(*arrays)
            left = np.flatnonzero(np.isnan(values))
            if left.size:
                values[left] = by_products(*(None if x is None else x[left] for x in arrays))
            return np.sqrt(np.clip(values, 0.0, None))

        return map_rows(block, *self._arrays)

    def _alone(
        self, parts: Sequence[ShapedParts], attributes: Sequence[Attribute], label: bool
    ) -> tuple[Tops | None, InItsBasis | None]:
        """Of one release: a compiled kernel for single rows, where there is one and it pays, and products without a matrix."""
        if len(self.terms) > 1 or not attributes:
            return None, None
        J, mechanism = self.terms[0].jacobian, first_mechanism(self)
        # a posterior's matrices are diagonal in one basis, but for two directions
        drawn = mechanism.root(len(self._spectra[0].theta)) is None
        kernel = None
        if is_compiled(J.X, COMPILED_FROM):
            kernel = directly(J.fit, self._spectra[0], J.map(J.named(attributes)), mechanism, label)
        return kernel, InItsBasis.of(parts[0]) if drawn else None

    def cell_norms(self, attributes: Sequence[Attribute]) -> Array:
        found = np.empty((self.rows[0].shape[0], len(attributes)))
        ones = [k for k, attribute in enumerate(attributes) if attribute.size == 1]
        if ones:
            pairs = zip(self.terms, self._parts([attributes[k] for k in ones]), strict=True)
            norms = [map_rows(part.diagonals, *each.jacobian.arrays, width=len(ones)) for each, part in pairs]
            found[:, ones] = norms[0] if len(norms) == 1 else np.sqrt(np.sum(np.square(norms), axis=0))
        for k, attribute in enumerate(attributes):
            if attribute.size > 1:
                found[:, k] = self.example_norms([attribute], False)
        return found

    def set_product(self, attributes: Sequence[Attribute], label: bool) -> Product:
        self._refuse("a sum over blocks of rows")

    def set_norm(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> float:
        """The root of the largest eigenvalue of the information about a set of examples, taken jointly."""
        parts, places = self._parts(attributes), self._places(label)
        states, m = self._states(parts, rows), parts[0].turned.shape[1]
        count = states[0][0].shape[0]
        if count * (m + places.count) == 0:
            return 0.0
        products = [part.together(state, label) for part, state in zip(parts, states, strict=True)]

        def together(v: Vector) -> Vector:
            if len(products) == 1:
                return products[0](v)
            V = v.reshape(count, -1)
            found = np.zeros_like(V)
            for k, product in enumerate(products):
                own = places.of(k, m)
                found[:, own] += product(np.ascontiguousarray(V[:, own]).ravel()).reshape(count, -1)
            return found.ravel()

        return largest_eta(together, count * (m + places.count))

    def certain(self, attributes: Sequence[Attribute], label: bool, row: int, norm: float) -> float:
        parts, places = self._parts(attributes), self._places(label)
        matrix = places.matrix(parts, self._states(parts, np.array([row])), parts[0].turned.shape[1])
        top = float(np.sqrt(max(float(np.linalg.eigvalsh(matrix)[-1]), 0.0)))
        return max(norm, top) * (1.0 + self.error)

    def written_out(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> Array:
        """Roots of single examples' information, those of the releases below each other."""
        parts, places = self._parts(attributes), self._places(label)
        m, found = parts[0].turned.shape[1], []
        for k, (part, state) in enumerate(zip(parts, self._states(parts, rows), strict=True)):
            root = part.root(state, label)
            whole = np.zeros((*root.shape[:2], m + places.count))
            whole[:, :, places.of(k, m)] = root
            found.append(whole)
        return np.concatenate(found, axis=1)

    def _places(self, label: bool) -> _Places:
        """Which label each release is about: they have one in common, and outputs one each."""
        labels = tuple(range(len(self.outputs))) or (0,) * len(self.terms)
        return _Places(labels if label else None)

    @property
    def _arrays(self) -> tuple[Array | None, ...]:
        return tuple(x for each in self.terms for x in each.jacobian.arrays)

    def _blocks(self, parts: Sequence[ShapedParts], arrays: Sequence[Array | None]) -> list[State]:
        """What the parts need of a block of ``_arrays``."""
        return [part.state(*arrays[3 * k : 3 * k + 3]) for k, part in enumerate(parts)]

    def _states(self, parts: Sequence[ShapedParts], rows: Array | None) -> list[State]:
        chosen = slice(None) if rows is None else np.asarray(host(rows))
        return self._blocks(parts, tuple(None if x is None else x[chosen] for x in self._arrays))

    def _parts(self, attributes: Sequence[Attribute]) -> list[ShapedParts]:
        found = []
        for each, spectrum in zip(self.terms, self._spectra, strict=True):
            E = each.jacobian.map(each.jacobian.named(attributes))
            found.append(ShapedParts(each.jacobian.fit, spectrum, E.after(spectrum.basis.T), E.pull(spectrum.theta)))
        return found

    @cached_property
    def _spectra(self) -> list[Spectrum]:
        pairs = [(each.jacobian, each.mechanism) for each in self.terms]
        return [fixed_spectrum(J) if mechanism is None else mechanism.spectrum(J.fit) for J, mechanism in pairs]


@dataclass(frozen=True)
class _Places:
    """Where the changes of each release lie among those of all: the features, and its own label behind them."""

    labels: tuple[int, ...] | None

    @property
    def count(self) -> int:
        """Labels in all."""
        return 0 if self.labels is None else max(self.labels) + 1

    def of(self, k: int, m: int) -> list[int]:
        return list(range(m)) if self.labels is None else [*range(m), m + self.labels[k]]

    def sum_of(self, parts: Sequence[ShapedParts], states: Sequence[State], V: Vector, m: int) -> Vector:
        """F_i v_i of every row, (b, m + labels)."""
        if len(parts) == 1:
            return parts[0].product(states[0], V, self.labels is not None)
        found = np.zeros_like(V)
        for k, (part, state) in enumerate(zip(parts, states, strict=True)):
            own = self.of(k, m)
            found[:, own] += part.product(state, V[:, own], self.labels is not None)
        return found

    def matrix(self, parts: Sequence[ShapedParts], states: Sequence[State], m: int) -> Vector:
        """F_i of one row."""
        width = m + self.count
        repeated = [tuple(np.repeat(x, width, axis=0) for x in state) for state in states]
        found = self.sum_of(parts, repeated, np.eye(width), m)
        return np.asarray(0.5 * (found + found.T))


def refuse_membership(information: Information) -> NoReturn:
    """Say by name that no one number tells how far apart releases with and without a row are."""
    simulated = information.closed_mechanism is not None
    remedy = "simulate it, fisherleak.attacks.Membership(…).simulate(noise)"
    raise InvalidInputError(
        "membership has a closed form for noise whose covariance does not depend on the data, and that of "
        f"{type(first_mechanism(information)).__name__} does: {remedy if simulated else 'use fisherleak.Gaussian'}."
    )


def first_mechanism(information: Information) -> SelfShaped:
    """That of the first release whose noise the data shape."""
    return next(each.mechanism for each in information.releases if each.mechanism is not None)
