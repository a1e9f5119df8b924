"""Norms of the Jacobian of several outputs: rows share no eigenbasis, but their small matrices come from a few products.

Mathematics: 2.5, ``docs/mathematics/norms.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, host, like, namespace, on_accelerator
from fisherleak._support.namespaces import Sums
from fisherleak.engine.information import Information, Product, Release, Releases, certain_norm, rounding_of, set_norm
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute, gaps_of, local_directions
from fisherleak.engine.norms.eigenvalues.largest import CANCELLED, WANTED, top_of_matrices
from fisherleak.engine.norms.kernels import pays_for_loading
from fisherleak.engine.norms.output_sets import GramParts, by_products_at_once, column_norms, identity, set_product_of
from fisherleak.engine.norms.shared_basis import cells_in_order, replaced
from fisherleak.errors import UnsupportedModelError
from fisherleak.rows import block_elements, gather, map_rows

COMPILED_FROM = 2**20
"""Values in the features of all rows from which compiled kernels pay: 0.5 s of 1.7 s at 20,000 x 30 of three classes."""
BLOCKS, ACCELERATOR_BLOCKS = 2, 8
"""Values of the small matrices and their parts at a time, in blocks of the usual size, here and on a GPU."""


@dataclass(frozen=True)
class SeveralOutputs(Release):
    """The information of one release of a model of several outputs."""

    @property
    def jacobians(self) -> tuple[Jacobian, ...]:
        """None of one output: whoever asks for these would take the model for another."""
        refuse_several(self, "this")
        raise AssertionError

    @property
    def error(self) -> float:
        return rounding_of(self.jacobian.fit) + WANTED

    def example_norms(self, attributes: Sequence[Attribute], label: bool) -> Array:
        chosen = self.jacobian.named(attributes)
        xp = namespace(self.jacobian.B)
        squares = _example_squares((self,), [chosen], label)
        return map_rows(lambda x: xp.sqrt(xp.clip(x[:, 0], 0.0, None)), squares)

    def cell_norms(self, attributes: Sequence[Attribute]) -> Array:
        chosen = self.jacobian.named(attributes)
        plain = [attribute for attribute in chosen if attribute.size == 1 and not attribute.curved]
        if self.folded:
            plain = [attribute for attribute in plain if len(attribute.columns) == 1]
        others = [attribute for attribute in chosen if attribute not in plain]
        squares = [self._cell_squares(plain)] if plain else []
        return cells_in_order(squares, self._norms_of_each(others), [*plain, *others], chosen, self.jacobian.B)

    def _norms_of_each(self, attributes: Sequence[Attribute]) -> list[Array]:
        """``example_norms`` of each attribute by itself: what they share is computed once for a block of rows."""
        if any(attribute.curved for attribute in attributes):
            return [self.example_norms([attribute], False) for attribute in attributes]
        if not attributes:
            return []
        xp = namespace(self.jacobian.B)
        squares = _example_squares((self,), [[attribute] for attribute in attributes], False)

        def of(place: int) -> Array:
            return map_rows(lambda x: xp.sqrt(xp.clip(x[:, place], 0.0, None)), squares)

        return [of(place) for place in range(len(attributes))]

    def attribute_norms(self, attributes: Sequence[Attribute]) -> Array:
        chosen = self.jacobian.named(attributes)
        wide = by_products_at_once(self.jacobian)
        plain = [attribute for attribute in chosen if (wide or attribute.size == 1) and not attribute.curved]
        norms = dict(zip((a.name for a in plain), column_norms(self.jacobian, plain), strict=True)) if plain else {}
        norms |= {a.name: set_norm(self, [a], False, None) for a in chosen if a.name not in norms}
        return like([norms[a.name] for a in chosen], self.jacobian.B, namespace(self.jacobian.B))

    def set_product(self, attributes: Sequence[Attribute], label: bool) -> Product:
        J = self.jacobian
        chosen = J.named(attributes)
        if any(attribute.curved for attribute in chosen):
            return _written_product((self,), chosen, label)
        return set_product_of(J, chosen, label)

    def certain(self, attributes: Sequence[Attribute], label: bool, row: int, norm: float) -> float:
        """Certified from above by a Cholesky factorisation."""
        B = self.jacobian.B
        J = host(self.written_out(attributes, label, like([row], B, namespace(B))))[0]
        return certain_norm(J, norm, self.error)

    def written_out(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> Array:
        return _written_rows((self,), attributes, label, rows)

    # single examples

    @cached_property
    def _middle(self) -> Array:
        """S = B^T B by outputs, (L, p, L, p)."""
        J = self.jacobian
        return namespace(J.B).reshape(J.B.T @ J.B, (J.outputs, J.width, J.outputs, J.width))

    def grams(
        self, sets: Sequence[Sequence[Attribute]], label: bool
    ) -> tuple[Callable[..., Iterator[tuple[Array, Array]]], int]:
        """A function from a block of rows to its J_i^T J_i and the size of their terms, and how many values a row takes.

        For each of several sets of attributes that move all rows alike, but for those that lack a value.
        """
        J, xp = self.jacobian, namespace(self.jacobian.B)
        named = [J.named(attributes) for attributes in sets]
        every: list[tuple[GramParts, Callable[[Array], Array] | None]] = []
        for own in named:
            lengths = every[0][0].lengths if every else None
            every.append((GramParts.of(J, self._middle, own, lengths=lengths), gaps_of(own, J.B)))
        q = int(label) * int(J.by_label.shape[1])

        def block(X: Array, y: Array, weights: Array | None) -> Iterator[tuple[Array, Array]]:
            first, _ = every[0]
            part = first.make(X, y, weights)
            shared = first.shared(part, xp)
            for parts, there in every:
                G, terms = parts.gram(part, label, xp, parts.moves(X, weights), shared)
                if there is not None:
                    acts = xp.concat([there(X), xp.ones_like(G[:, 0, :q])], axis=1)
                    G = G * acts[:, :, None] * acts[:, None, :]
                    terms = terms * xp.max(acts, axis=1)  # of a row that lacks them all nothing is left to cancel
                yield G, terms

        return block, max(parts.values(label) for parts, _ in every)

    def _cell_squares(self, attributes: Sequence[Attribute]) -> Array:
        """Squares of the norms of attributes of one direction, (n, m)."""
        J = self.jacobian
        xp = namespace(J.B)
        parts = GramParts.of(J, self._middle, attributes, diagonal=True)
        B, V, directions = J.B, J.slopes, J.map(attributes).after(identity(J.width, J.B))
        there = gaps_of(attributes, B)

        def block(X: Array, y: Array, weights: Array | None) -> Array:
            squares = anywhere(X, y, weights)
            return squares if there is None else squares * there(X)

        def anywhere(X: Array, y: Array, weights: Array | None) -> Array:
            part = parts.make(X, y, weights)
            moves = parts.moves(X, weights)
            direct, T, N, F = parts.of_rows(part, xp, moves)
            NF = N @ F
            bent = xp.sum(NF * F, axis=1)
            # the diagonal of C + T^T F + F^T T + F^T N F (section 2.5)
            squares = direct + 2.0 * xp.sum(T * F, axis=1) + bent
            i, j = xp.nonzero(squares < CANCELLED * (direct + bent))
            if i.shape[0] == 0:
                return squares
            r, x = xp.take(part.r, i, axis=0), xp.take(part.x, i, axis=0)
            bends = xp.take(xp.reshape(xp.matrix_transpose(F), (-1, F.shape[1])), i * F.shape[2] + j, axis=0)
            own = r[:, :, None]
            own = own if moves is None else own + V[None, :, :] * xp.take(moves, i, axis=0)[:, None, :]
            # where these cancel, Z_ij itself: D_i + F_i (x) x_i of section 2.6
            moved = own * xp.take(directions, j, axis=1).T[:, None, :] + bends[:, :, None] * x[:, None, :]
            again = xp.reshape(moved, (moved.shape[0], -1)) @ B.T
            return replaced(squares, i, j, xp.vecdot(again, again), xp)

        return map_rows(block, *J.arrays, most=_most(parts.values(False), J.B), width=len(attributes))


@dataclass(frozen=True)
class StackedOutputs(Releases):
    """The information of several independent releases of such models about the same data, which adds up.

    The small matrices of an example are added; sets of examples are summed from Jacobians that are written out.
    """

    releases: tuple[SeveralOutputs, ...]

    @property
    def jacobians(self) -> tuple[Jacobian, ...]:
        """None of one output."""
        refuse_several(self.releases[0], "this")
        raise AssertionError

    @property
    def error(self) -> float:
        return max(each.error for each in self.releases)

    def example_norms(self, attributes: Sequence[Attribute], label: bool) -> Array:
        xp = namespace(self.releases[0].jacobian.B)
        squares = _example_squares(self.releases, [attributes], label)
        return map_rows(lambda x: xp.sqrt(xp.clip(x[:, 0], 0.0, None)), squares)

    def cell_norms(self, attributes: Sequence[Attribute]) -> Array:
        xp = namespace(self.releases[0].jacobian.B)
        single = all(a.size == 1 for a in attributes)
        if single:
            cells = [each.cell_norms(attributes) for each in self.releases]
            return map_rows(lambda *parts: xp.sqrt(sum(x * x for x in parts)), *cells, width=len(attributes))
        norms = [self.example_norms([attribute], False) for attribute in attributes]
        return map_rows(lambda *parts: xp.stack(parts, axis=1), *norms, width=len(attributes))

    def attribute_norms(self, attributes: Sequence[Attribute]) -> Array:
        B = self.releases[0].jacobian.B
        return like([set_norm(self, [attribute], False, None) for attribute in attributes], B, namespace(B))

    def set_product(self, attributes: Sequence[Attribute], label: bool) -> Product:
        return _written_product(self.releases, attributes, label)

    def certain(self, attributes: Sequence[Attribute], label: bool, row: int, norm: float) -> float:
        B = self.releases[0].jacobian.B
        J = host(self.written_out(attributes, label, like([row], B, namespace(B))))[0]
        return certain_norm(J, norm, self.error)

    def written_out(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> Array:
        return _written_rows(self.releases, attributes, label, rows)


def _most(values: int, reference: Array) -> int:
    """Rows of a block that hold as many values as usual, with so many for each row."""
    blocks = ACCELERATOR_BLOCKS if on_accelerator(reference) else BLOCKS
    return max(1, blocks * block_elements(reference) // max(values, 1))


@dataclass(frozen=True)
class _WrittenOut:
    """J_i of one release, or of several one above the other, from the rows of all of them; Z_i where ``inner``."""

    counts: tuple[int, ...]
    writers: tuple[Callable[..., Array], ...]
    values: int

    @classmethod
    def of(
        cls, releases: Sequence[SeveralOutputs], attributes: Sequence[Attribute], label: bool, inner: bool = False
    ) -> tuple[tuple[Array | None, ...], _WrittenOut]:
        named = [(each.jacobian, each.jacobian.named(attributes)) for each in releases]
        groups = [J.arrays_for(own) for J, own in named]
        writers = tuple((J.inner if inner else J.dense)(own, label) for J, own in named)
        width = sum(attribute.size for attribute in attributes) + int(label) * int(named[0][0].by_label.shape[1])
        values = 2 * width * sum(int(J.B.shape[0]) for J, _ in named)
        return tuple(x for group in groups for x in group), cls(tuple(len(group) for group in groups), writers, values)

    def __call__(self, *rows: Array | None) -> Array:
        edges = np.cumsum([0, *self.counts]).tolist()
        parts = [write(*rows[a:b]) for write, (a, b) in zip(self.writers, pairwise(edges), strict=True)]
        return parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts, axis=1)


def _written_rows(
    releases: Sequence[SeveralOutputs], attributes: Sequence[Attribute], label: bool, rows: Array | None
) -> Array:
    """J_i of some rows, of all releases one above the other."""
    arrays, write = _WrittenOut.of(releases, attributes, label)
    return write(*gather(arrays, rows))


def _example_squares(releases: Sequence[SeveralOutputs], sets: Sequence[Sequence[Attribute]], label: bool) -> Array:
    """The largest eigenvalue of the sum of J_i^T J_i over releases, of each set of attributes: (n, sets).

    Several sets have no attribute with a derivative of its own for every row.
    """
    xp = namespace(releases[0].jacobian.B)
    B = releases[0].jacobian.B
    compiled = pays_for_loading(releases[0].jacobian.X, COMPILED_FROM)
    if any(a.curved for each in releases for attributes in sets for a in each.jacobian.named(attributes)):
        arrays, write = _WrittenOut.of(releases, sets[0], label)

        def by_writing(*rows: Array | None) -> Array:
            J = write(*rows)
            T = xp.matrix_transpose(J)
            return top_of_matrices(T @ J if J.shape[2] <= J.shape[1] else J @ T, compiled)[:, None]

        return map_rows(by_writing, *arrays, most=_most(write.values, B), width=1)
    makers = [each.grams(sets, label) for each in releases]
    every = [x for each in releases for x in each.jacobian.arrays]
    count = len(every) // len(releases)

    def block(*rows: Array | None) -> Array:
        own = [rows[k : k + count] for k in range(0, len(rows), count)]
        streams = [make(*some) for some, (make, _) in zip(own, makers, strict=True)]
        return xp.stack(
            [top(attributes, own, pairs) for attributes, *pairs in zip(sets, *streams, strict=True)], axis=1
        )

    def top(
        attributes: Sequence[Attribute], rows: Sequence[Sequence[Array | None]], pairs: Sequence[tuple[Array, Array]]
    ) -> Array:
        values = top_of_matrices(sum((G for G, _ in pairs[1:]), start=pairs[0][0]), compiled)
        terms = sum((size for _, size in pairs[1:]), start=pairs[0][1])
        left = np.flatnonzero(host(values < CANCELLED * terms))
        if left.size == 0:
            return values
        found = np.array(host(values))
        for start in range(0, left.size, 16):
            some = like(left[start : start + 16], values, xp)
            few: list[Array | None] = []
            for each, own in zip(releases, rows, strict=True):
                X, *others = (None if x is None else xp.take(x, some, axis=0) for x in own)
                assert X is not None
                few += [X, *others, *local_directions(each.jacobian.named(attributes), X, B)]
            written = host(_WrittenOut.of(releases, attributes, label)[1](*few))
            found[left[start : start + 16]] = np.linalg.norm(written, 2, axis=(1, 2)) ** 2
        return like(found, values, xp)

    return map_rows(block, *every, most=_most(sum(values for _, values in makers), B), width=len(sets))


def _written_product(releases: Sequence[SeveralOutputs], attributes: Sequence[Attribute], label: bool) -> Product:
    """J_S J_S^T of releases one above the other, B (sum Z_i Z_i^T) B^T with Z_i that are written out block by block."""
    arrays, write = _WrittenOut.of(releases, attributes, label, inner=True)
    roots = [each.jacobian.B for each in releases]
    most, xp = _most(write.values, roots[0]), namespace(roots[0])

    def block(*rows: Array | None) -> Sums:
        total: Any = 0.0
        lead = rows[0]
        assert lead is not None
        for start in range(0, lead.shape[0], most):
            some = slice(start, min(start + most, lead.shape[0]))
            written = write(*(None if x is None else x[some, ...] for x in rows))
            flat = xp.reshape(xp.permute_dims(written, (1, 0, 2)), (written.shape[1], -1))
            total = total + flat @ flat.T
        return (total,)

    def finish(sums: Sums) -> Array:
        """Each release's part of the rows by its own B, then the same of the columns."""
        (half,) = sums
        for _ in range(2):
            edges = pairwise(np.cumsum([0, *(int(B.shape[1]) for B in roots)]).tolist())
            parts = [B @ half[a:b, :] for B, (a, b) in zip(roots, edges, strict=True)]
            half = (parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)).T
        return half

    return Product(arrays, block, finish, sum(int(B.shape[0]) for B in roots))


def refuse_several(information: Information, what: str) -> None:
    """Refuse a model of several outputs by the name of what reads models of one output only."""
    fit = information.fits[0] if information.fits else None
    if fit is not None and fit.loss.several:
        raise UnsupportedModelError(
            f"A model of {fit.coef.shape[0]} {'classes' if fit.loss.classes else 'outputs'} ({fit.loss.name} loss) is not "
            f"supported by {what}: etas, calibrate over the rows present and release are there for several outputs. Fit one "
            "output, or one class against the rest."
        )
