r"""Norms of Jacobians that share no eigenbasis: several releases, or preprocessing that is not affine.

The releases' Jacobians are stacked, so that their information adds up exactly (paper, section 3.1):
:math:`\sum_k J_k^T J_k = J^T J` with J the stack, of which only products are known (``stacked_releases``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fisherleak._support.arrays import Array, host, like, namespace, row_dots
from fisherleak._support.namespaces import Sums
from fisherleak.engine.information import Product, Releases, certain_norm, rounding_of, set_norm
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.block_maps import BlockMap, places_of
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.norms.compositions.stacked_releases import CANCELLED, StackedReleases
from fisherleak.engine.norms.eigenvalues.largest import WANTED, top_of_factors
from fisherleak.engine.norms.folded import folded_attribute_norms
from fisherleak.engine.norms.shared_basis import SharedBasis, cell_squares, cells_in_order, replaced
from fisherleak.rows import block_elements, gather, map_rows

__all__ = ["MatrixFree"]

WRITTEN_OUT = 48
"""Values of an example up to which its matrix is written out."""
BLOCKS = 2
"""Values of the written-out Jacobians at a time, in blocks of the usual size."""
FEW = 4
"""Features of an attribute up to which its cells come from products with these alone."""


@dataclass(frozen=True)
class MatrixFree(Releases):
    """The information of several releases, or of one whose attributes move the features in a way that differs by row."""

    @property
    def error(self) -> float:
        return max(rounding_of(fit) for fit in self.fits) + WANTED

    def example_norms(self, attributes: Sequence[Attribute], label: bool) -> Array:
        simple = self._simple(attributes)
        if simple is not None:
            return simple.example_norms(attributes, label)
        xp = namespace(self.jacobians[0].B)
        width = sum(attribute.size for attribute in attributes) + int(label)
        small = width <= WRITTEN_OUT or not attributes
        arrays, releases = StackedReleases.of(self.jacobians, attributes, label)
        releases = releases if small else releases.for_products()

        def block(*rows: Array | None) -> Array:
            squares = releases.small(rows) if small else releases.large(rows, width)
            return xp.sqrt(xp.clip(squares, 0.0, None))

        at_once = width if small else 2 if releases.kinds[0].S is not None else 4
        return map_rows(block, *arrays, most=self._most(at_once))

    def cell_norms(self, attributes: Sequence[Attribute]) -> Array:
        # folded scales move single columns only
        local: set[str] = set()
        few: set[str] = set()
        for J in self.jacobians:
            for attribute in J.named(attributes):
                if attribute.local or (J.folding is not None and len(attribute.columns) > 1):
                    (few if attribute.size == 1 and len(attribute.columns) <= FEW else local).add(attribute.name)
        single = [a for a in attributes if a.size == 1 and a.name not in local]
        plain = [attribute for attribute in single if attribute.name not in few]
        uneven = [attribute for attribute in single if attribute.name in few]
        alone = {attribute.name for attribute in single}
        others = [attribute for attribute in attributes if attribute.name not in alone]
        squares = [cell_squares(J, J.named(plain)) for J in self.jacobians] if plain else []
        blocks = []
        if uneven:
            parts = [_uneven_squares(J, J.named(uneven)) for J in self.jacobians]
            norms = namespace(parts[0]).sqrt(sum(parts[1:], start=parts[0]))
            blocks += [norms[:, k] for k in range(len(uneven))]
        blocks += [self.example_norms([attribute], label=False) for attribute in others]
        return cells_in_order(squares, blocks, [*plain, *uneven, *others], attributes, self.jacobians[0].B)

    def attribute_norms(self, attributes: Sequence[Attribute]) -> Array:
        simple = self._simple(attributes)
        if simple is not None:
            return simple.attribute_norms(attributes)
        J, several = self.jacobians[0], len(self.jacobians) > 1
        even = [] if several else [attribute for attribute in J.named(attributes) if not attribute.local]
        norms = dict(zip((attribute.name for attribute in even), folded_attribute_norms(J, even), strict=True))
        for attribute in attributes:
            if attribute.name not in norms:
                norms[attribute.name] = set_norm(self, [attribute], False, None)
        return like([norms[attribute.name] for attribute in attributes], J.B, namespace(J.B))

    def set_product(self, attributes: Sequence[Attribute], label: bool) -> Product:
        simple = self._simple(attributes)
        if simple is not None:
            return simple.set_product(attributes, label)
        arrays, releases = StackedReleases.of(self.jacobians, attributes, label)
        xp = namespace(self.jacobians[0].B)
        roots = [part.B for part in self.jacobians]

        def finish(sums: Sums) -> Array:
            pairs = iter(sums)
            count = len(roots)
            blocks = {(k, m): roots[k] @ next(pairs) @ roots[m].T for k in range(count) for m in range(k, count)}
            lines = [[blocks[k, m] if k <= m else blocks[m, k].T for m in range(count)] for k in range(count)]
            return xp.concat([xp.concat(line, axis=1) for line in lines], axis=0)

        size = sum(int(B.shape[0]) for B in roots)
        top = top_of_factors(roots[0], lambda sums: sums[0]) if len(roots) == 1 else None
        return Product(arrays, releases.pairs, finish, size, top)

    def certain(self, attributes: Sequence[Attribute], label: bool, row: int, norm: float) -> float:
        """Certified from above: a Ritz value may err on the wrong side, a Cholesky factorisation can not."""
        B = self.jacobians[0].B
        J = host(self.written_out(attributes, label, like([row], B, namespace(B))))[0]
        return certain_norm(J, norm, self.error)

    def written_out(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> Array:
        arrays, releases = StackedReleases.of(self.jacobians, attributes, label)
        return releases.stacked(tuple(gather(arrays, rows)))

    def _simple(self, attributes: Sequence[Attribute]) -> SharedBasis | None:
        """The kind with a shared basis, where these attributes of one release have one."""
        (first, *others) = self.jacobians
        if others or any(attribute.local for attribute in first.named(attributes)):
            return None
        if first.folding is None:
            return SharedBasis(first)
        columns = [column for attribute in first.named(attributes) for column in attribute.columns]
        return None if first.folding.moved_by(columns) else SharedBasis(replace(first, folding=None))

    def _most(self, width: int) -> int:
        """Rows of a block that hold as many values as usual, with ``width`` vectors of parameters each."""
        values = width * sum(int(J.B.shape[0]) for J in self.jacobians)
        return max(1, BLOCKS * block_elements(self.jacobians[0].B) // max(values, 1))


def _uneven_squares(J: Jacobian, attributes: Sequence[Attribute]) -> Array:
    r"""Squares of :math:`|a w_{ij} B x + \sum_c D_{ijc} B_c|` for attributes of one direction, which may differ by row: (n, m).

    D is the direction times its direct effect; with :math:`S = B^T B` and u B once for all attributes, each costs products with
    its few columns alone.
    """
    xp = namespace(J.B)
    model, B, places = J.model, J.B, places_of(attributes)
    S = B.T @ B

    def block(X: Array, y: Array, weights: Array | None, *local: Array) -> Array:
        rows = model.rows(X, y, weights)
        u = rows.x @ B.T
        onto, length = u @ B, row_dots(u, u, xp)
        direct = xp.broadcast_to(rows.r[:, None], rows.x.shape) if rows.direct is None else rows.direct
        found = []
        for columns, directions in BlockMap(places, B.shape[1], local, B).singles():
            D = xp.take(direct, columns, axis=1) * directions
            along = rows.a * xp.sum(directions * xp.take(model.theta, columns)[None, :], axis=1)
            own = xp.take(xp.take(S, columns, axis=0), columns, axis=1)
            fixed = along**2 * length + row_dots(D @ own, D, xp)
            squares = fixed + 2.0 * along * row_dots(D, xp.take(onto, columns, axis=1), xp)
            terms = along**2 * length + row_dots(xp.abs(D) @ xp.abs(own), xp.abs(D), xp)
            (bad,) = xp.nonzero(squares < CANCELLED * terms)
            if bad.shape[0]:
                again = xp.take(along, bad)[:, None] * xp.take(u, bad, axis=0)
                again = again + xp.take(D, bad, axis=0) @ xp.take(B, columns, axis=1).T
                first = xp.zeros_like(bad)
                squares = replaced(squares[:, None], bad, first, row_dots(again, again, xp), xp)[:, 0]
            found.append(squares)
        return xp.stack(found, axis=1)

    return map_rows(block, *J.arrays_for(attributes), width=len(attributes))
