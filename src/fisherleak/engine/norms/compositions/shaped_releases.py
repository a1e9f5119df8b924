r"""Several independent releases, of some of which the data shape the noise: their information adds up, products and all.

Exact for what each of them is exact for: affine preprocessing that is public, and rows in memory. A model of K numbers is K
releases of one, :math:`t \sim N(w, I_K \otimes S)`: their features are the same, and each has a label of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NoReturn, Self

import numpy as np

from fisherleak._support.arrays import Array, host
from fisherleak._support.namespaces import Vector
from fisherleak.engine.fit.minimise import one_by_one
from fisherleak.engine.information import Information, Product, Release, Releases, rounding_of
from fisherleak.engine.jacobian import Jacobian, jacobian_of
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.mechanisms.self_shaped import SelfShaped, Spectrum
from fisherleak.engine.noise import Gaussian
from fisherleak.engine.norms.data_shaped import (
    SETTLED,
    ShapedParts,
    cells_by_size,
    check_measurable,
    fixed_spectrum,
    largest_eta,
)
from fisherleak.engine.norms.eigenvalues.largest import WANTED, top_by_products
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.rows import map_rows

State = tuple[Vector, ...]


@dataclass(frozen=True)
class ShapedReleases(Releases):
    """The information of several releases, each at its own scale, one or more with noise that the data shape."""

    def __post_init__(self) -> None:
        for each in self.terms:
            check_measurable(each.jacobian, first_mechanism(self), beside=True)

    @property
    def terms(self) -> tuple[Release, ...]:
        """Releases of one output, whose information adds up."""
        return self.releases

    @property
    def jacobians(self) -> tuple[Jacobian, ...]:
        """Refused: there is more to the information than Jacobians."""
        self._refuse("this")

    def _refuse(self, what: str) -> NoReturn:
        name = type(first_mechanism(self)).__name__
        raise InvalidInputError(
            f"{name} has a covariance that depends on the data, which {what} does not count: compose releases with noise on "
            "parameters, fisherleak.Gaussian."
        )

    @property
    def error(self) -> float:
        return max(rounding_of(fit) for fit in self.fits) + SETTLED

    def scaled(self, factor: float) -> Self:
        if factor != 1.0:
            self._refuse("another scale of a composition")
        return self

    @property
    def _labels(self) -> tuple[int, ...]:
        """Which label each release is about: they have one in common."""
        return (0,) * len(self.terms)

    def example_norms(self, attributes: Sequence[Attribute], label: bool) -> Array:
        parts, places = self._parts(attributes), _Places(self._labels if label else None)
        m = parts[0].turned.shape[1]

        def block(*arrays: Array | None) -> Array:
            states = self._blocks(parts, arrays)
            edges = np.cumsum([0, *(len(state) for state in states)]).tolist()

            def product(flat: State, V: Vector) -> Vector:
                return places.sum_of(parts, [flat[a:b] for a, b in pairwise(edges)], V, m)

            width = m + places.count
            values, errors = top_by_products(product, tuple(x for state in states for x in state), width)
            for row in np.flatnonzero(errors > WANTED).tolist():
                matrix = places.matrix(parts, [tuple(x[row : row + 1] for x in state) for state in states], m)
                values[row] = np.linalg.eigvalsh(matrix)[-1]
            return np.sqrt(np.clip(values, 0.0, None))

        return map_rows(block, *self._arrays)

    def cell_norms(self, attributes: Sequence[Attribute]) -> Array:
        def single(some: list[Attribute]) -> Vector:
            pairs = zip(self.terms, self._parts(some), strict=True)
            norms = [map_rows(part.diagonals, *each.jacobian.arrays, width=len(some)) for each, part in pairs]
            return np.asarray(np.sqrt(np.sum(np.square(norms), axis=0)))

        count = self.rows[0].shape[0]
        return cells_by_size(attributes, count, single, lambda one: self.example_norms([one], False))

    def attribute_norms(self, attributes: Sequence[Attribute]) -> Array:
        return np.array([self.set_norm([attribute], False, None) for attribute in attributes])

    def set_product(self, attributes: Sequence[Attribute], label: bool) -> Product:
        self._refuse("a sum over blocks of rows")

    def set_norm(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> float:
        """The root of the largest eigenvalue of the information about a set of examples, taken jointly."""
        parts, places = self._parts(attributes), _Places(self._labels if label else None)
        states, m = self._states(parts, rows), parts[0].turned.shape[1]
        count = states[0][0].shape[0]
        if count * (m + places.count) == 0:
            return 0.0
        products = [part.together(state, label) for part, state in zip(parts, states, strict=True)]

        def together(v: Vector) -> Vector:
            V = v.reshape(count, -1)
            found = np.zeros_like(V)
            for k, product in enumerate(products):
                own = places.of(k, m)
                found[:, own] += product(np.ascontiguousarray(V[:, own]).ravel()).reshape(count, -1)
            return found.ravel()

        return largest_eta(together, count * (m + places.count))

    def certain(self, attributes: Sequence[Attribute], label: bool, row: int, norm: float) -> float:
        parts, places = self._parts(attributes), _Places(self._labels if label else None)
        matrix = places.matrix(parts, self._states(parts, np.array([row])), parts[0].turned.shape[1])
        top = float(np.sqrt(max(float(np.linalg.eigvalsh(matrix)[-1]), 0.0)))
        return max(norm, top) * (1.0 + self.error)

    def written_out(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> Array:
        """Roots of single examples' information, those of the releases below each other."""
        parts, places = self._parts(attributes), _Places(self._labels if label else None)
        m, found = parts[0].turned.shape[1], []
        for k, (part, state) in enumerate(zip(parts, self._states(parts, rows), strict=True)):
            root = part.root(state, label)
            whole = np.zeros((*root.shape[:2], m + places.count))
            whole[:, :, places.of(k, m)] = root
            found.append(whole)
        return np.concatenate(found, axis=1)

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
class ShapedOutputs(ShapedReleases):
    """The information of one release of a model of several numbers, with noise that the data shape."""

    outputs: tuple[Release, ...]

    @classmethod
    def of(cls, jacobian: Jacobian, mechanism: SelfShaped) -> ShapedOutputs:
        """Of the squared loss; softmax is refused by name."""
        name, fit = type(mechanism).__name__, jacobian.fit
        if not fit.loss.quadratic:
            raise UnsupportedModelError(
                f"{name} is known for models of one output, and of several numbers (squared loss); this one has "
                f"{fit.coef.shape[0]} classes, whose perturbed minima have no density in closed form here: use noise on its "
                "parameters, fisherleak.Gaussian."
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
        return self.outputs

    @property
    def _labels(self) -> tuple[int, ...]:
        return tuple(range(len(self.terms)))


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
