"""Norms of the Jacobian of several outputs: rows share no eigenbasis, but their small matrices come from a few products.

Mathematics: 2.5, ``docs/mathematics/norms.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, host, like, namespace, on_accelerator
from fisherleak._support.namespaces import Sums
from fisherleak.engine.information import Information, Product, StackedRows, TableInformation, written_rows
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute, gaps_of, local_directions
from fisherleak.engine.norms.kernels import pays_for_loading
from fisherleak.engine.norms.largest_eigenvalues import CANCELLED, WANTED, top_of_grams, top_of_matrices
from fisherleak.engine.norms.output_sets import GramParts, by_products_at_once, column_norms, identity, set_product_of
from fisherleak.engine.norms.shared_basis import cells_in_order, replaced
from fisherleak.errors import UnsupportedModelError
from fisherleak.rows import block_elements, map_rows

COMPILED_FROM = 2**20
"""Values in the features of all rows from which compiled kernels pay: 0.5 s of 1.7 s at 20,000 x 30 of three classes."""
BLOCKS, ACCELERATOR_BLOCKS = 2, 8
"""Values of the small matrices and their parts at a time, in blocks of the usual size, here and on a GPU."""
TOGETHER, MOST_BLOCKS = 16, 32
"""Rows with large matrices that are taken together, as long as they fit into so many blocks: what they share, which may be
larger than their own, is read once for all of them."""


@dataclass(frozen=True)
class SeveralOutputs(TableInformation):
    """The information of one release of a model of several outputs, or of several such releases, which adds up.

    The small matrices of an example are added; sets of examples of several releases come from Jacobians that are written out.
    """

    cut = WANTED

    @property
    def jacobians(self) -> tuple[Jacobian, ...]:
        """None of one output: whoever asks for these would take the model for another."""
        refuse_several(self, "this")
        raise AssertionError

    @property
    def _every(self) -> tuple[Jacobian, ...]:
        return tuple(each.jacobian for each in self.releases)

    @property
    def _alone(self) -> Jacobian:
        (release,) = self.releases
        return release.jacobian

    def example_norms(self, attributes: Sequence[Attribute], label: bool) -> Array:
        if self._curved(attributes):
            return self._written_norms(attributes, label)
        return map_rows(lambda norms: norms[:, 0], self._norms_of_each([attributes], label))

    def cell_norms(self, attributes: Sequence[Attribute]) -> Array:
        if len(self.releases) > 1 and all(attribute.size == 1 for attribute in attributes):
            xp = namespace(self._every[0].B)
            cells = [SeveralOutputs((each,)).cell_norms(attributes) for each in self.releases]
            return map_rows(lambda *parts: xp.sqrt(sum(x * x for x in parts)), *cells, width=len(attributes))
        chosen = self._every[0].named(attributes)
        plain = [] if len(self.releases) > 1 else [a for a in chosen if a.size == 1 and not a.curved]
        if self.folded:
            plain = [attribute for attribute in plain if len(attribute.columns) == 1]
        others = [attribute for attribute in chosen if attribute not in plain]
        squares = [self._cell_squares(plain)] if plain else []
        curved = [attribute for attribute in others if self._curved([attribute])]
        alike = [attribute for attribute in others if attribute not in curved]
        blocks = [self._norms_of_each([[attribute] for attribute in alike], False)] if alike else []
        blocks += [self._written_norms([attribute], False) for attribute in curved]
        return cells_in_order(squares, blocks, [*plain, *alike, *curved], chosen, self._every[0].B)

    def attribute_norms(self, attributes: Sequence[Attribute]) -> Array:
        if len(self.releases) > 1:
            return super().attribute_norms(attributes)
        chosen = self._alone.named(attributes)
        wide = by_products_at_once(self._alone)
        plain = [attribute for attribute in chosen if (wide or attribute.size == 1) and not attribute.curved]
        norms = dict(zip((a.name for a in plain), column_norms(self._alone, plain), strict=True)) if plain else {}
        norms |= {a.name: self.set_norm([a], False, None) for a in chosen if a.name not in norms}
        return like([norms[a.name] for a in chosen], self._alone.B, namespace(self._alone.B))

    def set_product(self, attributes: Sequence[Attribute], label: bool) -> Product:
        if len(self.releases) > 1 or self._curved(attributes):
            return _written_product(self._every, attributes, label)
        return set_product_of(self._alone, self._alone.named(attributes), label)

    def written_out(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> Array:
        return written_rows(self._every, attributes, label, rows)

    # single examples

    def grams(self, attributes: Sequence[Attribute], label: bool) -> tuple[Callable[..., tuple[Array, Array]], int]:
        """From a block of rows of one release to their J_i^T J_i and the size of its terms; the values that a row takes."""
        make, values = _grams(self._alone, [attributes], label)
        return lambda *rows: next(make(*rows)), values

    def _curved(self, attributes: Sequence[Attribute]) -> bool:
        """Whether one of them has a derivative of its own for every row."""
        return any(attribute.curved for J in self._every for attribute in J.named(attributes))

    def _written_norms(self, attributes: Sequence[Attribute], label: bool) -> Array:
        """``example_norms`` from Jacobians that are written out."""
        arrays, write = StackedRows.of(self._every, attributes, label)
        B, compiled = self._every[0].B, pays_for_loading(self._every[0].X, COMPILED_FROM)
        xp = namespace(B)

        def block(*rows: Array | None) -> Array:
            return xp.sqrt(xp.clip(top_of_grams(write(*rows), compiled), 0.0, None))

        return map_rows(block, *arrays, most=_most(write.values, B))

    def _norms_of_each(self, sets: Sequence[Sequence[Attribute]], label: bool) -> Array:
        """``example_norms`` of each of some sets of attributes, none of them curved, (n, sets).

        Their squares are the largest eigenvalues of the sum of J_i^T J_i over releases. What sets share is computed once for a
        block of rows.
        """
        B, compiled = self._every[0].B, pays_for_loading(self._every[0].X, COMPILED_FROM)
        xp = namespace(B)
        makers = [_grams(J, sets, label) for J in self._every]
        writers = [StackedRows.of(self._every, attributes, label)[1] for attributes in sets]
        named = [[J.named(attributes) for J in self._every] for attributes in sets]
        arrays = [J.arrays for J in self._every]
        ends = np.cumsum([0, *(len(own) for own in arrays)]).tolist()

        def block(*rows: Array | None) -> Array:
            split = [rows[a:b] for a, b in pairwise(ends)]
            grams = [make(*own) for own, (make, _) in zip(split, makers, strict=True)]
            norms = []
            for write, each, pairs in zip(writers, named, zip(*grams, strict=True), strict=True):
                values = top_of_matrices(sum((G for G, _ in pairs[1:]), start=pairs[0][0]), compiled)
                terms = sum((size for _, size in pairs[1:]), start=pairs[0][1])
                left = np.flatnonzero(host(values < CANCELLED * terms))
                if left.size:
                    every = [(*some, *local_directions(own, some[0], B)) for own, some in zip(each, split, strict=True)]
                    values = write.again([x for some in every for x in some], left, values)
                norms.append(xp.sqrt(xp.clip(values, 0.0, None)))
            return xp.stack(norms, axis=1)

        most = _most(sum(values for _, values in makers), B)
        return map_rows(block, *(x for own in arrays for x in own), most=most, width=len(sets))

    def _cell_squares(self, attributes: Sequence[Attribute]) -> Array:
        """Squares of the norms of attributes of one direction, (n, m)."""
        J = self._alone
        xp = namespace(J.B)
        parts = GramParts.of(J, self._alone.products, attributes, diagonal=True)
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


def _grams(
    J: Jacobian, sets: Sequence[Sequence[Attribute]], label: bool
) -> tuple[Callable[..., Iterator[tuple[Array, Array]]], int]:
    """A function from a block of rows to its J_i^T J_i and the size of their terms, and how many values a row takes.

    For each of some sets of attributes that move all rows alike, but for those that lack a value.
    """
    xp = namespace(J.B)
    every: list[tuple[GramParts, Callable[[Array], Array] | None]] = []
    for own in map(J.named, sets):
        lengths = every[0][0].lengths if every else None
        every.append((GramParts.of(J, J.products, own, lengths=lengths), gaps_of(own, J.B)))
    q = int(label) * J.label_size

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


def _most(values: int, reference: Array) -> int:
    """Rows of a block that hold as many values as usual, with so many for each row."""
    blocks = ACCELERATOR_BLOCKS if on_accelerator(reference) else BLOCKS
    usual, values = block_elements(reference), max(values, 1)
    return max(1, blocks * usual // values, min(TOGETHER, MOST_BLOCKS * usual // values))


def _written_product(jacobians: Sequence[Jacobian], attributes: Sequence[Attribute], label: bool) -> Product:
    """J_S J_S^T of releases one above the other, B (sum Z_i Z_i^T) B^T with Z_i that are written out block by block."""
    arrays, write = StackedRows.of(jacobians, attributes, label, inner=True)
    roots = [J.B for J in jacobians]
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
            f"supported by {what}. With several outputs, use etas, calibrate (over the rows present) or release. Or fit one "
            "output, or one class against the rest."
        )
