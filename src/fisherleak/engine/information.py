r"""What a release tells about the data, as a value: the Fisher information :math:`J^T J`, never formed.

J is the Jacobian of what is released with respect to the data, whitened by the noise at scale 1, so that
:math:`\eta(S) = \|J_S\|_2 / \sigma` (paper, definition 1). There are three kinds: where the examples of one release share an
eigenbasis (``norms.shared_basis``), where they do not, known by products alone (``norms.matrix_free``: several releases,
preprocessing that is not affine), and models of several outputs (``norms.several_outputs``).
``Leakage`` holds one value with this protocol, and asks nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host, like, namespace
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.rows import gather, sum_groups, sum_rows

if TYPE_CHECKING:
    from fisherleak.engine.mechanisms.self_shaped import SelfShaped
    from fisherleak.engine.norms.averaged_over_draws import Averaged


GROUP_VALUES = 2**24
"""Values of the matrices of all groups that are summed in one pass over lazy rows."""

MANY = 16
"""Sets of one size from which on they are written out together, where they are small."""
WRITTEN_OUT = 2**20
"""Values of the Jacobian of one such set at most."""
SETS_VALUES = 2**21
"""Values of the Jacobians of all that are written out at a time."""


@dataclass(frozen=True)
class Product:
    """J_S J_S^T of a set of examples as a sum over rows: a function of blocks, and one that makes the matrix of the sums."""

    arrays: tuple[Array | None, ...]
    block: Callable[..., tuple[Any, ...]]
    finish: Callable[[tuple[Any, ...]], Array]
    size: int
    """Rows of the matrix."""
    top: Callable[[tuple[Any, ...]], float | None] | None = None
    """The largest eigenvalue from the sums without the matrix, where that is large; it may find none."""
    of_sets: Callable[[Sequence[Array]], list[float | None]] | None = None
    """The same of several sets of rows at once, from the rows."""

    def norm(self, sums: tuple[Any, ...]) -> float:
        """||J_S|| of the set whose sums these are."""
        square = None if self.top is None else self.top(sums)
        return _roots(self.finish(sums)[None, ...])[0] if square is None else max(square, 0.0) ** 0.5


class Information(Protocol):
    """The Fisher information of a release about its data, at noise of scale 1."""

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """What the data consist of, beside the label."""

    @property
    def jacobians(self) -> tuple[Jacobian, ...]:
        """The releases' Jacobians, in factors."""

    @property
    def releases(self) -> tuple[Release, ...]:
        """What left, whatever its noise and outputs; ``jacobians`` refuses where there is more to it."""

    @property
    def several(self) -> bool:
        """Whether models of several outputs are released."""

    @property
    def data_dependent(self) -> bool:
        """Whether the rows decide the covariance of the noise, and that is counted: norms are at its own scale."""

    @property
    def closed_mechanism(self) -> SelfShaped | None:
        """The mechanism of one release of one output whose data-dependent covariance has a closed form; None for all else."""

    @property
    def averaged(self) -> Averaged | None:
        """The same where norms are averages over draws, so that they are upper limits and do not add up; else None."""

    @property
    def shares_known(self) -> bool:
        """Whether the mean of eta over beliefs about a value is known, by refits."""

    @property
    def folded(self) -> bool | None:
        """Whether preprocessing is counted with the model in any of the releases; None where that is not known."""

    @property
    def fits(self) -> tuple[Fit, ...]:
        """The fits that are released."""

    @property
    def rows(self) -> tuple[Array, Array]:
        """The features (n, d) and labels (n,) of the first release: where the rows are, and how many."""

    @property
    def error(self) -> float:
        """Relative error of every norm below: rounding, the model's distance from its minimum, and iterations cut short."""

    def scaled(self, factor: float) -> Self:
        """J times a factor."""

    def two_sided(self, attributes: Sequence[Attribute]) -> bool:
        """Whether values of some attributes tie at what preprocessing learned: norms of sets are bounds then."""

    def example_norms(self, attributes: Sequence[Attribute], label: bool) -> Array:
        """||J_i|| over the given attributes (and the label), for every example: (n,)."""

    def cell_norms(self, attributes: Sequence[Attribute]) -> Array:
        """||J_ij|| of every attribute j of every example i: (n, number of attributes)."""

    def attribute_norms(self, attributes: Sequence[Attribute]) -> Array:
        """||J_j|| of each attribute over all examples at once: (number of attributes,)."""

    def set_norm(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> float:
        """||J_S|| of the given attributes (and labels) of a set of examples, taken jointly."""

    def set_product(self, attributes: Sequence[Attribute], label: bool) -> Product:
        """J_S J_S^T over a set of examples, as a sum over rows; refused where the covariance is data-dependent."""

    def certain(self, attributes: Sequence[Attribute], label: bool, row: int, norm: float) -> float:
        """A norm that ||J_i|| of this example is certainly not above, a little more than the one that was found."""

    def written_out(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> Array:
        """J_i of a few examples, (b, p, m + label): their Grams are the information about single examples."""


@dataclass(frozen=True)
class Release:
    """What left: a fit and its rows with the noise, in a Jacobian; and the mechanism where the rows decide the noise."""

    jacobian: Jacobian
    mechanism: SelfShaped | None = None


@dataclass(frozen=True)
class TableInformation:
    """What the information of one release about a table, or of several independent ones, has in common, whatever its kind."""

    releases: tuple[Release, ...]
    cut: ClassVar[float] = 0.0
    """Relative error that iterations leave in a norm."""

    @classmethod
    def of(cls, *jacobians: Jacobian) -> Self:
        return cls(tuple(map(Release, jacobians)))

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        return self.releases[0].jacobian.attributes

    @property
    def jacobians(self) -> tuple[Jacobian, ...]:
        return tuple(each.jacobian for each in self.releases)

    @property
    def several(self) -> bool:
        return self.releases[0].jacobian.several

    @property
    def data_dependent(self) -> bool:
        return any(each.mechanism is not None for each in self.releases)

    @property
    def closed_mechanism(self) -> SelfShaped | None:
        return None if self.several or len(self.releases) > 1 else self.releases[0].mechanism

    @property
    def averaged(self) -> Averaged | None:
        return None

    @property
    def shares_known(self) -> bool:
        return not self.data_dependent or self.closed_mechanism is not None

    @property
    def folded(self) -> bool:
        return any(each.jacobian.folding is not None for each in self.releases)

    @property
    def fits(self) -> tuple[Fit, ...]:
        return tuple(each.jacobian.fit for each in self.releases)

    @property
    def rows(self) -> tuple[Array, Array]:
        return self.releases[0].jacobian.X, self.releases[0].jacobian.y

    @property
    def error(self) -> float:
        return max(rounding_of(fit) for fit in self.fits) + self.cut

    def scaled(self, factor: float) -> Self:
        return replace(self, releases=tuple(replace(r, jacobian=r.jacobian.scaled(factor)) for r in self.releases))

    def two_sided(self, attributes: Sequence[Attribute]) -> bool:
        return False

    def set_norm(self: Information, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> float:
        return norm_by_product(self, attributes, label, rows)

    def attribute_norms(self: Information, attributes: Sequence[Attribute]) -> Array:
        reference = self.rows[0]
        norms = [self.set_norm([attribute], False, None) for attribute in attributes]
        return like(norms, reference, namespace(reference))

    def certain(self: Information, attributes: Sequence[Attribute], label: bool, row: int, norm: float) -> float:
        """Certified from above: a Ritz value may err on the wrong side, a Cholesky factorisation can not."""
        reference = self.rows[0]
        J = host(self.written_out(attributes, label, like([row], reference, namespace(reference))))[0]
        return certain_norm(J, norm, self.error)


@dataclass(frozen=True)
class StackedRows:
    """J_i of several releases one above the other (Z_i where ``inner``), from blocks of the rows of all of them."""

    counts: tuple[int, ...]
    writers: tuple[Callable[..., Array], ...]
    values: int
    """Of a row, and its products."""

    @classmethod
    def of(
        cls, jacobians: Sequence[Jacobian], attributes: Sequence[Attribute], label: bool, inner: bool = False
    ) -> tuple[tuple[Array | None, ...], StackedRows]:
        """The row arrays of all releases, and what their blocks have to know."""
        named = [(J, J.named(attributes)) for J in jacobians]
        groups = [J.arrays_for(own) for J, own in named]
        writers = tuple((J.inner if inner else J.dense)(own, label) for J, own in named)
        width = sum(attribute.size for attribute in attributes) + int(label) * jacobians[0].label_size
        values = 2 * width * sum(int(J.B.shape[0]) for J in jacobians)
        return tuple(x for group in groups for x in group), cls(tuple(len(group) for group in groups), writers, values)

    def split(self, rows: Sequence[Array | None]) -> list[Sequence[Any]]:
        """The arrays of each release."""
        return [rows[a:b] for a, b in pairwise(np.cumsum([0, *self.counts]).tolist())]

    def __call__(self, *rows: Array | None) -> Array:
        parts = [write(*own) for write, own in zip(self.writers, self.split(rows), strict=True)]
        return parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts, axis=1)

    def again(self, rows: Sequence[Array | None], left: NDArray[np.int64], squares: Array) -> Array:
        """Squares of norms (b,) with those of some rows from their Jacobians, a few at a time."""
        if left.size == 0:
            return squares
        xp, found = namespace(squares), np.array(host(squares))
        for start in range(0, left.size, 16):
            some = like(left[start : start + 16], squares, xp)
            few = [None if x is None else xp.take(x, some, axis=0) for x in rows]
            found[left[start : start + 16]] = np.linalg.norm(host(self(*few)), 2, axis=(1, 2)) ** 2
        return like(found, squares, xp)


def written_rows(
    jacobians: Sequence[Jacobian], attributes: Sequence[Attribute], label: bool, rows: Array | None
) -> Array:
    """J_i of some rows, of all releases one above the other."""
    arrays, write = StackedRows.of(jacobians, attributes, label)
    return write(*gather(arrays, rows))


def norm_by_product(
    information: Information, attributes: Sequence[Attribute], label: bool, rows: Array | None
) -> float:
    """||J_S|| of a set of examples whose matrix is a sum over rows."""
    product = information.set_product(attributes, label)
    return product.norm(sum_rows(product.block, *product.arrays, rows=rows))


def norms_of_sets(
    information: Information, attributes: Sequence[Attribute], label: bool, sets: Sequence[Array]
) -> list[float]:
    """``set_norm`` of each of many sets of examples in memory: every row is read once for each set that it is in.

    Many small sets of one size are written out together, for what a product costs to begin would be paid for each of them.
    """
    if information.data_dependent:
        return [information.set_norm(attributes, label, rows) for rows in sets]
    product = information.set_product(attributes, label)
    width = product.size * (sum(attribute.size for attribute in attributes) + int(label))
    norms = [0.0] * len(sets)
    if product.of_sets is not None:
        squares = product.of_sets(sets)
        return [
            product.norm(sum_rows(product.block, *product.arrays, rows=rows))
            if square is None
            else max(square, 0.0) ** 0.5
            for rows, square in zip(sets, squares, strict=True)
        ]
    for size, places in _by_size(sets).items():
        some = [sets[k] for k in places]
        if product.top is not None:
            for k, rows in zip(places, some, strict=True):
                norms[k] = product.norm(sum_rows(product.block, *product.arrays, rows=rows))
            continue
        if len(places) >= MANY and size * width <= WRITTEN_OUT:
            step = max(1, SETS_VALUES // (size * width))
            batches = [some[k : k + step] for k in range(0, len(some), step)]
            found = [_written_squares(information, attributes, label, batch) for batch in batches]
        else:
            step = max(1, GROUP_VALUES // product.size**2)
            found = [_summed_squares(product, some[k : k + step]) for k in range(0, len(some), step)]
        for k, norm in zip(places, (norm for squares in found for norm in _roots(squares)), strict=True):
            norms[k] = norm
    return norms


def _by_size(sets: Sequence[Array]) -> dict[int, list[int]]:
    """The places of the sets of each size."""
    places: dict[int, list[int]] = {}
    for k, rows in enumerate(sets):
        places.setdefault(int(rows.shape[0]), []).append(k)
    return places


def _summed_squares(product: Product, sets: Sequence[Array]) -> Array:
    """J_S J_S^T of each set by the product over its rows, (sets, p, p)."""
    squares = [product.finish(sum_rows(product.block, *product.arrays, rows=rows)) for rows in sets]
    return namespace(squares[0]).stack(squares)


def _written_squares(
    information: Information, attributes: Sequence[Attribute], label: bool, sets: Sequence[Array]
) -> Array:
    """J_S J_S^T of sets of one size from their Jacobians, (sets, p, p)."""
    xp = namespace(sets[0])
    J = information.written_out(attributes, label, xp.concat(list(sets)))
    J = xp.reshape(J, (len(sets), -1, *J.shape[1:]))
    J = xp.reshape(xp.permute_dims(J, (0, 2, 1, 3)), (len(sets), J.shape[2], -1))
    return J @ xp.permute_dims(J, (0, 2, 1))


def _roots(squares: Array) -> list[float]:
    """The largest singular values of J_S from J_S J_S^T, (sets, p, p)."""
    xp = namespace(squares)
    found: list[float] = host(xp.sqrt(xp.clip(xp.linalg.eigvalsh(squares)[:, -1], 0.0, None))).tolist()
    return found


def group_norms(
    information: Information, labels: Array, groups: Sequence[Any], missing: Callable[[Any], Any]
) -> list[float]:
    """The same for all values of each of several groups of lazy rows, in one pass for as many as fit."""
    product = information.set_product(information.attributes, True)
    at_once = max(1, GROUP_VALUES // product.size**2)
    norms: list[float] = []
    for start in range(0, len(groups), at_once):
        some = groups[start : start + at_once]
        sums = sum_groups(product.block, *product.arrays, labels=labels, groups=some, missing=missing)
        norms += [product.norm(total) for total in sums]
    return norms


def certain_norm(J: NDArray[np.float64], norm: float, error: float) -> float:
    """A norm that ||J|| is certainly not above: a Ritz value may err on the wrong side, a Cholesky factorisation can not."""
    G = J.T @ J if J.shape[1] <= J.shape[0] else J @ J.T
    margin: float = max(error, G.shape[0] ** 2 * float(np.finfo(float).eps))
    try:
        G *= -1.0
        G[np.diag_indices_from(G)] += (norm * (1.0 + margin)) ** 2
        np.linalg.cholesky(G)
    except np.linalg.LinAlgError:
        return float(np.linalg.norm(J, 2)) * (1.0 + error)
    return norm * (1.0 + margin)


def rounding_of(fit: Fit) -> float:
    """Relative error that rounding and the distance from the minimum leave in the norms of a fit."""
    return float(np.finfo(float).eps) * (64 + fit.condition) + (fit.distance if fit.left is None else fit.left)
