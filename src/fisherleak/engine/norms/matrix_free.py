r"""Norms of Jacobians that share no eigenbasis: several releases, or preprocessing that is not affine.

The releases' Jacobians are stacked, so that their information adds up exactly (paper, section 3.1):
:math:`\sum_k J_k^T J_k = J^T J` with J the stack, of which only products are known (``StackedReleases``).

Also here: columns of one release with preprocessing folded in, all of them in one pass.

Mathematics: 2.4, ``docs/mathematics/norms.md``.

Also here: blocks of rows of several releases: what they must know, and the products that norms are made of.

For one example of a release, with :math:`u = Bx`,

.. math:: J v = a\,(w \cdot v)\, u + r\, B E v + c\, v_{label}\, u, \qquad w = E^T \theta .

Where few values count, :math:`J_i` is written out and the small matrix :math:`J_i^T J_i` decomposed; elsewhere its products
with vectors are all that is needed (``largest_eigenvalues``): with :math:`S = E^T B^T B E` once for all rows, one n x m x m
product a step and release but the first, in whose eigenbasis all are written; with maps that differ from row to row, two n x p
x p products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, device, host, like, namespace, row_dots
from fisherleak._support.namespaces import Sums
from fisherleak.engine.information import Product, StackedRows, TableInformation, written_rows
from fisherleak.engine.jacobian import Derivatives, Jacobian
from fisherleak.engine.jacobian.block_maps import BlockMap, Place, merged, places_of
from fisherleak.engine.jacobian.perturbation import Attribute, map_of
from fisherleak.engine.norms.kernels import is_compiled, pays_for_loading
from fisherleak.engine.norms.largest_eigenvalues import (
    CANCELLED,
    WANTED,
    top_by_products,
    top_of_factors,
    top_of_grams,
    top_of_matrices,
)
from fisherleak.engine.norms.shared_basis import SharedBasis, cell_squares, cells_in_order, replaced
from fisherleak.rows import block_elements, map_rows, sum_rows

COMPILED_FROM = 2**19
"""Values in the features of all rows from which compiled kernels pay: loading them takes 0.7 s of processor time, and what they
save is 0.4 s at 20,000 x 30, 0.9 s at 20,000 x 60, and below 0.3 s at 5,000 x 60 or 20,000 x 9."""


@dataclass(frozen=True)
class StackedReleases:
    """What blocks of rows have to know of several releases: small arrays only, so that they can travel there."""

    written: StackedRows
    kinds: tuple[_ReleaseProducts, ...]
    label: bool
    compiled: bool
    """Whether the rows are enough for compiled kernels."""

    @classmethod
    def of(
        cls, parts: Sequence[Jacobian], attributes: Sequence[Attribute], label: bool
    ) -> tuple[tuple[Array | None, ...], StackedReleases]:
        """The row arrays of all releases, and what their blocks have to know."""
        arrays, written = StackedRows.of(parts, attributes, label)
        kinds = tuple(_ReleaseProducts.of(J, J.named(attributes)) for J in parts)
        return arrays, cls(written, kinds, label, pays_for_loading(parts[0].X, COMPILED_FROM))

    def for_products(self) -> StackedReleases:
        """In a basis in which the first release's S is diagonal, where all have one: a product less."""
        (first, *others) = self.kinds
        if first.S is None or any(kind.S is None for kind in others):
            return self
        values, basis = namespace(first.S).linalg.eigh(first.S)
        return replace(self, kinds=(first.turned(basis, values), *(kind.turned(basis) for kind in others)))

    def small(self, rows: Sequence[Array | None]) -> Array:
        """The largest eigenvalue of J_i^T J_i, written out: (b,)."""
        if self.compiled and rows[0] is not None and is_compiled(rows[0], 1):
            return top_of_matrices(self.grams(rows))
        return top_of_grams(self.written(*rows), self.compiled)

    def grams(self, rows: Sequence[Array | None]) -> Array:
        """J_i^T J_i of the stack by the compiled kernel, (b, m + label, m + label)."""
        from fisherleak.engine.norms.kernels.releases_numba import ReleaseArrays, grams

        parts = []
        for kind, own in zip(self.kinds, self.written.split(rows), strict=True):
            part = kind.block(*own)
            x = part.rows
            derivatives = (x.r, x.a, x.c) if x.direct is None else (np.ones_like(x.r), x.a, x.c)
            E = part.E if x.direct is None else x.moved(part.E)
            parts.append(ReleaseArrays(kind.B, kind.model.theta, x.x, derivatives, E))
        return grams(parts, self.label)

    def large(self, rows: Sequence[Array | None], width: int) -> Array:
        """The same by products; rows that these do not settle, or where squares lose digits, are written out."""
        prepared = [
            kind.prepared(*own, label=self.label)
            for kind, own in zip(self.kinds, self.written.split(rows), strict=True)
        ]
        sizes = np.cumsum([0, *(len(state) for state in prepared)]).tolist()
        spans = list(pairwise(sizes))
        kinds, label = self.kinds, self.label

        def product(state: tuple[Array, ...], V: Array) -> Array:
            terms = [kind.product(state[a:b], V, label) for kind, (a, b) in zip(kinds, spans, strict=True)]
            return sum(terms[1:], start=terms[0])

        if self.compiled and all(kind.S is not None for kind in kinds) and is_compiled(prepared[0][3], 1):
            values, errors = self._compiled(prepared)
        else:
            states = tuple(x for state in prepared for x in state)
            values, errors = top_by_products(product, states, width, compiled=self.compiled)
        terms = sum(kind.largest_term(state) for kind, state in zip(kinds, prepared, strict=True))
        left = np.flatnonzero(host((errors > WANTED) | (values < CANCELLED * terms)))
        return self.written.again(rows, left, values)

    def _compiled(self, prepared: Sequence[tuple[Array, ...]]) -> tuple[Array, Array]:
        """The same by the compiled kernel."""
        from fisherleak.engine.norms.kernels.releases_numba import top_of_releases

        values = np.stack([np.stack([r, a, c, squared], axis=1) for r, a, c, _, squared in prepared])
        g = np.stack([state[3] for state in prepared])
        w = np.stack([np.asarray(kind.w) for kind in self.kinds])
        others = np.concatenate([np.asarray(kind.S) for kind in self.kinds[1:]], axis=1)
        return top_of_releases(values, g, w, np.asarray(self.kinds[0].S), others, self.label, WANTED)

    def pairs(self, *rows: Array | None) -> Sums:
        """sum_i Z_k Z_l^T of a block for releases k <= l, with J_k = B_k Z_k: (p_k, p_l) each."""
        blocks = [kind.block(*own) for kind, own in zip(self.kinds, self.written.split(rows), strict=True)]
        count = len(blocks)
        return tuple(_pair(blocks[k], blocks[m], self.label) for k in range(count) for m in range(k, count))


@dataclass(frozen=True)
class _ReleaseBlock:
    """A block of one release: its derivatives, its map and E^T theta."""

    rows: Derivatives
    E: BlockMap
    theta: Array

    @cached_property
    def w(self) -> Array:
        return self.E.pull(self.theta[None, :])

    def push(self, change: Array) -> Array:
        """The direct effect of changes on the gradient, (b, p)."""
        if self.rows.direct is None:
            return self.rows.r[:, None] * self.E.push(change)
        return self.rows.moved(self.E).push(change)


def _pair(one: _ReleaseBlock, two: _ReleaseBlock, label: bool) -> Array:
    r"""sum_i Z_i Y_i^T with :math:`Z = a\, x w^T + r E` (and :math:`c\, x` for the label) of two releases."""
    xp = namespace(one.w)
    x, y = one.rows, two.rows
    along = x.a * y.a * xp.sum(one.w * two.w, axis=1)
    if label:
        along = along + x.c * y.c
    total = (x.x * along[:, None]).T @ y.x
    total = total + (x.x * x.a[:, None]).T @ two.push(one.w)
    total = total + (one.push(two.w) * y.a[:, None]).T @ y.x
    if x.direct is None and y.direct is None:
        return total + one.E.outer(two.E, x.r * y.r)
    return total + x.moved(one.E).outer(y.moved(two.E), xp.ones_like(x.r))


@dataclass(frozen=True)
class _ReleaseProducts:
    """Products of one release with vectors: through S where all rows share the map, through B where they do not."""

    model: Any
    B: Array
    places: tuple[Place, ...]
    runs: tuple[Place, ...]
    S: Array | None
    A: Array | None
    w: Array | None

    @classmethod
    def of(cls, J: Jacobian, attributes: Sequence[Attribute]) -> _ReleaseProducts:
        places = places_of(attributes)
        if J.folding is not None or any(place.local for place in places) or not places:
            return cls(J.model, J.B, places, merged(places), None, None, None)
        E = J.map(attributes)
        A = E.after(J.B)
        return cls(J.model, J.B, places, merged(places), A.T @ A, A, E.pull(J.theta))

    def turned(self, basis: Array, diagonal: Array | None = None) -> _ReleaseProducts:
        """The same for vectors in another orthonormal basis, in which S is the given diagonal where it is known."""
        assert self.S is not None
        assert self.A is not None
        assert self.w is not None
        S = basis.T @ self.S @ basis if diagonal is None else diagonal
        return replace(self, S=S, A=self.A @ basis, w=basis.T @ self.w)

    def block(self, X: Array, y: Array, weights: Array | None, *local: Array) -> _ReleaseBlock:
        E = BlockMap(self.places, self.B.shape[1], local, self.B, known_runs=self.runs)
        return _ReleaseBlock(self.model.rows(X, y, weights), E, self.model.theta)

    def prepared(self, X: Array, y: Array, weights: Array | None, *local: Array, label: bool) -> tuple[Array, ...]:
        """What the products need of the rows: r, a, c first."""
        part = self.block(X, y, weights, *local)
        rows = part.rows
        if self.A is None:
            xp = namespace(rows.x)
            w = xp.broadcast_to(part.w, (rows.x.shape[0], part.w.shape[1]))
            direct = rows.r[:, None] if rows.direct is None else rows.direct
            return rows.r, rows.a, rows.c, rows.x, w, direct, *local
        u = rows.x @ self.B.T
        return rows.r, rows.a, rows.c, u @ self.A, row_dots(u, u, namespace(u))

    def largest_term(self, state: tuple[Array, ...]) -> Array:
        """The size of r^2 S, whose cancelling against the other terms would cost digits; none without squares."""
        if self.S is None:
            return 0.0 * state[0]
        xp = namespace(self.S)
        return state[0] ** 2 * xp.max(self.S if self.S.ndim == 1 else xp.linalg.diagonal(self.S))

    def product(self, state: tuple[Array, ...], V: Array, label: bool) -> Array:
        """J_i^T J_i v_i of every row, (b, m + label)."""
        r, a, c = state[:3]
        xp = namespace(r)
        v, last = (V[:, :-1], c * V[:, -1]) if label else (V, None)
        if self.S is None:
            return self._local_product(a, c, state[3], state[4], state[5], state[6:], v, last)
        g, squared, w = state[3], state[4], self.w
        assert w is not None
        along = a * (v @ w)
        both = along if last is None else along + last
        t = squared * both + r * row_dots(g, v, xp)
        direct = v * self.S if self.S.ndim == 1 else v @ self.S
        top = (a * t)[:, None] * w[None, :] + (r * both)[:, None] * g + (r * r)[:, None] * direct
        return top if last is None else xp.concat([top, (c * t)[:, None]], axis=1)

    def _local_product(
        self,
        a: Array,
        c: Array,
        x: Array,
        w: Array,
        direct: Array,
        local: Sequence[Array],
        v: Array,
        last: Array | None,
    ) -> Array:
        xp = namespace(a)
        E = BlockMap(self.places, self.B.shape[1], local, self.B, known_runs=self.runs)
        along = a * row_dots(w, v, xp)
        both = along if last is None else along + last
        z = both[:, None] * x + direct * E.push(v)
        back = (z @ self.B.T) @ self.B
        t = row_dots(x, back, xp)
        top = (a * t)[:, None] * w + E.pull(direct * back)
        return top if last is None else xp.concat([top, (c * t)[:, None]], axis=1)


ROWS_VALUES = 2**21
"""Values of the matrices over rows that are held at a time."""


def folded_attribute_norms(J: Jacobian, attributes: Sequence[Attribute]) -> list[float]:
    """||J_j|| over all examples at once of attributes whose directions all rows share."""
    if not attributes:
        return []
    xp = namespace(J.B)
    model = J.model
    plain = [a for a in attributes if len(a.columns) == 1 and a.directions is None]
    if plain and isinstance(J.X, np.ndarray) and J.X.shape[0] < J.B.shape[0]:
        norms = dict(zip((a.name for a in plain), _by_rows(J, [a.columns[0] for a in plain]), strict=True))
        rest = [attribute for attribute in attributes if attribute.name not in norms]
        norms |= dict(zip((a.name for a in rest), folded_attribute_norms(J, rest), strict=True))
        return [norms[attribute.name] for attribute in attributes]

    def block(X: Array, y: Array, weights: Array | None) -> Sums:
        rows = model.rows(X, y, weights)
        along = rows.a[:, None] * rows.x
        direct = xp.broadcast_to(rows.r[:, None], rows.x.shape) if rows.direct is None else rows.direct
        return along.T @ along, along.T @ direct, direct.T @ direct

    # G, M and D of the first formula of section 2.4: all attributes share them
    G, M, D = sum_rows(block, *J.arrays)
    base, sides = J.B @ G @ J.B.T, J.B @ M
    found = []
    for attribute in attributes:
        columns = like(np.array(attribute.columns, dtype=np.int64), J.B, xp)
        B, side, direct = (xp.take(matrix, columns, axis=1) for matrix in (J.B, sides, D))
        count = len(attribute.columns)
        E = map_of([Attribute(attribute.name, range(count), attribute.directions)], count, J.B)
        w = E.pull(xp.take(J.theta, columns))
        square = E.after(xp.eye(count, dtype=B.dtype, device=device(B)))
        # B M diag(E w) B^T, and B (D o E E^T) B^T, by the attribute's own columns alone
        cross = (side * E.push(w)[None, :]) @ B.T
        fixed = B @ (xp.take(direct, columns, axis=0) * (square @ square.T)) @ B.T
        top = xp.linalg.eigvalsh(xp.sum(w * w) * base + cross + cross.T + fixed)[-1]
        found.append(float(xp.sqrt(xp.clip(top, 0.0, None))))
    return found


def _by_rows(J: Jacobian, columns: Sequence[int]) -> list[float]:
    """The same for single features, by matrices over the rows: (n, n) each, some at a time."""
    rows = J.model.rows(J.X, J.y, J.fit.sample_weight)
    a, x = np.asarray(rows.a), np.asarray(rows.x)
    direct = np.broadcast_to(rows.r[:, None], x.shape) if rows.direct is None else np.asarray(rows.direct)
    u, B, theta = x @ np.asarray(J.B).T, np.asarray(J.B), np.asarray(J.theta)
    # diag(a) K diag(a) of the second formula of section 2.4, and c_k and |B_k|^2 of every column
    base = (a[:, None] * u) @ (a[:, None] * u).T
    along, lengths = a[:, None] * (u @ B), np.einsum("ij,ij->j", B, B)
    step = max(1, ROWS_VALUES // base.size)
    found: list[float] = []
    for start in range(0, len(columns), step):
        k = np.array(columns[start : start + step])
        w, c, d = theta[k], along[:, k].T, direct[:, k].T
        cross = w[:, None, None] * (c[:, :, None] * d[:, None, :])
        fixed = lengths[k][:, None, None] * (d[:, :, None] * d[:, None, :])
        squares = np.linalg.eigvalsh((w**2)[:, None, None] * base + cross + np.swapaxes(cross, 1, 2) + fixed)[:, -1]
        found += np.sqrt(np.clip(squares, 0.0, None)).tolist()
    return found


WRITTEN_OUT = 48
"""Values of an example up to which its matrix is written out."""
BLOCKS = 2
"""Values of the written-out Jacobians at a time, in blocks of the usual size."""
FEW = 4
"""Features of an attribute up to which its cells come from products with these alone."""


@dataclass(frozen=True)
class MatrixFree(TableInformation):
    """The information of several releases, or of one whose attributes move the features in a way that differs by row."""

    cut = WANTED

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
                norms[attribute.name] = self.set_norm([attribute], False, None)
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

    def written_out(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> Array:
        return written_rows(self.jacobians, attributes, label, rows)

    def _simple(self, attributes: Sequence[Attribute]) -> SharedBasis | None:
        """The kind with a shared basis, where these attributes of one release have one."""
        (first, *others) = self.jacobians
        if others or any(attribute.local for attribute in first.named(attributes)):
            return None
        if first.folding is None:
            return SharedBasis.of(first)
        columns = [column for attribute in first.named(attributes) for column in attribute.columns]
        return None if first.folding.moved_by(columns) else SharedBasis.of(replace(first, folding=None))

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
