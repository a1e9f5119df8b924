"""Several independent releases, of some of which the data shape the noise: their information adds up, products and all.

Exact for what each of them is exact for: affine preprocessing that is public, and rows in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host
from fisherleak.engine.erm import Fit
from fisherleak.engine.information import Product, rounding_of
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.norms.data_shaped import DataShaped, check_measurable
from fisherleak.engine.norms.lanczos import WANTED, top_by_products
from fisherleak.engine.norms.shaped_parts import SETTLED, ShapedParts, fixed_spectrum, largest_eta
from fisherleak.engine.perturbation import Attribute
from fisherleak.errors import InvalidInputError
from fisherleak.rows import map_rows

__all__ = ["ShapedReleases", "refuse_membership"]

Vector = NDArray[np.float64]
Release = Jacobian | DataShaped
State = tuple[Vector, ...]


@dataclass(frozen=True)
class ShapedReleases:
    """The information of several releases, each at its own scale, one or more with noise that the data shape."""

    releases: tuple[Release, ...]

    def __post_init__(self) -> None:
        shaped = next(each for each in self.releases if isinstance(each, DataShaped))
        for jacobian in map(_jacobian, self.releases):
            check_measurable(jacobian, shaped.mechanism, beside=True)

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        return _jacobian(self.releases[0]).attributes

    @property
    def jacobians(self) -> tuple[Jacobian, ...]:
        """Refused: there is more to the information than Jacobians."""
        self._refuse("this")

    def _refuse(self, what: str) -> NoReturn:
        names = [type(each.mechanism).__name__ for each in self.releases if isinstance(each, DataShaped)]
        raise InvalidInputError(
            f"{names[0]} has a shape that depends on the data, which {what} does not count: compose releases with noise on "
            "parameters, fisherleak.Gaussian."
        )

    @property
    def folded(self) -> bool:
        return False

    @property
    def fits(self) -> tuple[Fit, ...]:
        return tuple(_jacobian(each).fit for each in self.releases)

    @property
    def rows(self) -> tuple[Array, Array]:
        first = _jacobian(self.releases[0])
        return first.X, first.y

    @property
    def error(self) -> float:
        return max(rounding_of(fit) for fit in self.fits) + SETTLED

    def scaled(self, factor: float) -> ShapedReleases:
        if factor != 1.0:
            self._refuse("another scale of a composition")
        return self

    def example_norms(self, attributes: Sequence[Attribute], label: bool) -> Array:
        parts = self._parts(attributes)
        width = parts[0].turned.shape[1] + int(label)

        def block(*arrays: Array | None) -> Array:
            states = _states(parts, arrays)
            edges = np.cumsum([0, *(len(state) for state in states)]).tolist()

            def product(flat: State, V: Vector) -> Vector:
                pieces = [flat[a:b] for a, b in pairwise(edges)]
                terms = [part.product(own, V, label) for part, own in zip(parts, pieces, strict=True)]
                return np.asarray(sum(terms[1:], start=terms[0]))

            values, errors = top_by_products(product, tuple(x for state in states for x in state), width)
            for row in np.flatnonzero(errors > WANTED).tolist():
                matrix = _matrix(parts, [tuple(x[row : row + 1] for x in state) for state in states], label)
                values[row] = np.linalg.eigvalsh(matrix)[-1]
            return np.sqrt(np.clip(values, 0.0, None))

        return map_rows(block, *self._arrays)

    def cell_norms(self, attributes: Sequence[Attribute]) -> Array:
        named = list(attributes)
        found = np.empty((self.rows[0].shape[0], len(named)))
        single = [k for k, attribute in enumerate(named) if attribute.size == 1]
        if single:
            squares: list[Vector] = []
            for each, part in zip(self.releases, self._parts([named[k] for k in single]), strict=True):
                arrays = _jacobian(each).arrays
                squares.append(np.asarray(map_rows(part.diagonals, *arrays, width=len(single))) ** 2)
            found[:, single] = np.sqrt(np.sum(squares, axis=0))
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
        states = self._states(parts, rows)
        size = states[0][0].shape[0] * (parts[0].turned.shape[1] + int(label))
        if size == 0:
            return 0.0
        products = [part.together(state, label) for part, state in zip(parts, states, strict=True)]
        return largest_eta(_sum_of(products), size)

    def certain(self, attributes: Sequence[Attribute], label: bool, row: int, norm: float) -> float:
        parts = self._parts(attributes)
        matrix = _matrix(parts, self._states(parts, np.array([row])), label)
        top = float(np.sqrt(max(float(np.linalg.eigvalsh(matrix)[-1]), 0.0)))
        return max(norm, top) * (1.0 + self.error)

    def written_out(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> Array:
        """Roots of single examples' information, those of the releases below each other."""
        parts = self._parts(attributes)
        states = self._states(parts, rows)
        return np.concatenate([part.root(state, label) for part, state in zip(parts, states, strict=True)], axis=1)

    @property
    def _arrays(self) -> tuple[Array | None, ...]:
        return tuple(x for each in self.releases for x in _jacobian(each).arrays)

    def _states(self, parts: Sequence[ShapedParts], rows: Array | None) -> list[State]:
        chosen = slice(None) if rows is None else np.asarray(host(rows))
        return _states(parts, tuple(None if x is None else x[chosen] for x in self._arrays))

    def _parts(self, attributes: Sequence[Attribute]) -> list[ShapedParts]:
        return [_part(each, attributes) for each in self.releases]


def refuse_membership(information: DataShaped | ShapedReleases) -> NoReturn:
    """Say by name that no one number tells how far apart releases with and without a row are."""
    releases = (information,) if isinstance(information, DataShaped) else information.releases
    shaped = next(each for each in releases if isinstance(each, DataShaped))
    raise InvalidInputError(
        "membership has a closed form for noise whose shape does not depend on the data, and that of "
        f"{type(shaped.mechanism).__name__} does: simulate it, fisherleak.attacks.Membership(…).simulate(noise)."
    )


def _jacobian(release: Release) -> Jacobian:
    return release.jacobian if isinstance(release, DataShaped) else release


def _part(release: Release, attributes: Sequence[Attribute]) -> ShapedParts:
    jacobian = _jacobian(release)
    spectrum = release.spectrum if isinstance(release, DataShaped) else fixed_spectrum(release)
    E = jacobian.map(jacobian.named(attributes))
    return ShapedParts(jacobian.fit, spectrum, E.after(spectrum.basis.T), E.pull(spectrum.theta))


def _states(parts: Sequence[ShapedParts], arrays: Sequence[Array | None]) -> list[State]:
    return [part.state(*arrays[3 * k : 3 * k + 3]) for k, part in enumerate(parts)]


def _matrix(parts: Sequence[ShapedParts], states: Sequence[State], label: bool) -> Vector:
    """F_i of one row."""
    return np.asarray(sum(part.matrix(state, label) for part, state in zip(parts, states, strict=True)))


def _sum_of(products: Sequence[Callable[[Vector], Vector]]) -> Callable[[Vector], Vector]:
    return lambda v: np.asarray(sum(product(v) for product in products))
