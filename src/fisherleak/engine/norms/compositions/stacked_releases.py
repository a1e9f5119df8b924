r"""Blocks of rows of several releases: what they must know, and the products that norms are made of.

For one example of a release, with :math:`u = Bx`,

.. math:: J v = a\,(w \cdot v)\, u + r\, B E v + c\, v_{label}\, u, \qquad w = E^T \theta .

Where few values count, :math:`J_i` is written out and the small matrix :math:`J_i^T J_i` decomposed; elsewhere its products
with vectors are all that is needed (``eigenvalues.largest``): with :math:`S = E^T B^T B E` once for all rows, one n x m x m
product a step and release but the first, in whose eigenbasis all are written; with maps that differ from row to row, two n x p
x p products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, host, like, namespace, row_dots
from fisherleak._support.namespaces import Sums
from fisherleak.engine.jacobian import Derivatives, Jacobian
from fisherleak.engine.jacobian.block_maps import BlockMap, Place, merged, places_of
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.norms.eigenvalues.largest import CANCELLED, WANTED, top_by_products, top_of_matrices
from fisherleak.engine.norms.kernels import is_compiled, pays_for_loading

__all__ = ["CANCELLED", "StackedReleases"]

COMPILED_FROM = 2**19
"""Values in the features of all rows from which compiled kernels pay: loading them takes 0.7 s of processor time, and what they
save is 0.4 s at 20,000 x 30, 0.9 s at 20,000 x 60, and below 0.3 s at 5,000 x 60 or 20,000 x 9."""


@dataclass(frozen=True)
class StackedReleases:
    """What blocks of rows have to know of several releases: small arrays only, so that they can travel there."""

    counts: tuple[int, ...]
    writers: tuple[Callable[..., Array], ...]
    kinds: tuple[_ReleaseProducts, ...]
    label: bool
    compiled: bool
    """Whether the rows are enough for compiled kernels."""

    @classmethod
    def of(
        cls, parts: Sequence[Jacobian], attributes: Sequence[Attribute], label: bool
    ) -> tuple[tuple[Array | None, ...], StackedReleases]:
        """The row arrays of all releases, and what their blocks have to know."""
        chosen = [J.named(attributes) for J in parts]
        groups = [J.arrays_for(named) for J, named in zip(parts, chosen, strict=True)]
        writers = tuple(J.dense(named, label) for J, named in zip(parts, chosen, strict=True))
        kinds = tuple(_ReleaseProducts.of(J, named) for J, named in zip(parts, chosen, strict=True))
        arrays = tuple(x for group in groups for x in group)
        compiled = pays_for_loading(parts[0].X, COMPILED_FROM)
        return arrays, cls(tuple(len(group) for group in groups), writers, kinds, label, compiled)

    def for_products(self) -> StackedReleases:
        """In a basis in which the first release's S is diagonal, where all have one: a product less."""
        (first, *others) = self.kinds
        if first.S is None or any(kind.S is None for kind in others):
            return self
        values, basis = namespace(first.S).linalg.eigh(first.S)
        return replace(self, kinds=(first.turned(basis, values), *(kind.turned(basis) for kind in others)))

    def split(self, rows: Sequence[Array | None]) -> list[Sequence[Any]]:
        """The arrays of each release."""
        edges = np.cumsum([0, *self.counts]).tolist()
        return [rows[a:b] for a, b in pairwise(edges)]

    def stacked(self, rows: Sequence[Array | None]) -> Array:
        """J_i of the stack, (b, sum of p, m + label)."""
        blocks = [write(*own) for write, own in zip(self.writers, self.split(rows), strict=True)]
        return blocks[0] if len(blocks) == 1 else namespace(blocks[0]).concat(blocks, axis=1)

    def small(self, rows: Sequence[Array | None]) -> Array:
        """The largest eigenvalue of J_i^T J_i, written out: (b,)."""
        if self.compiled and rows[0] is not None and is_compiled(rows[0], 1):
            return top_of_matrices(self.grams(rows))
        J = self.stacked(rows)
        T = namespace(J).matrix_transpose(J)
        return top_of_matrices(T @ J if J.shape[2] <= J.shape[1] else J @ T, self.compiled)

    def grams(self, rows: Sequence[Array | None]) -> Array:
        """J_i^T J_i of the stack by the compiled kernel, (b, m + label, m + label)."""
        from fisherleak.engine.norms.kernels.grams_numba import ReleaseArrays, grams

        parts = []
        for kind, own in zip(self.kinds, self.split(rows), strict=True):
            part = kind.block(*own)
            x = part.rows
            derivatives = (x.r, x.a, x.c) if x.direct is None else (np.ones_like(x.r), x.a, x.c)
            E = part.E if x.direct is None else x.moved(part.E)
            parts.append(ReleaseArrays(kind.B, kind.model.theta, x.x, derivatives, E))
        return grams(parts, self.label)

    def large(self, rows: Sequence[Array | None], width: int) -> Array:
        """The same by products; rows that these do not settle, or where squares lose digits, are written out."""
        prepared = [
            kind.prepared(*own, label=self.label) for kind, own in zip(self.kinds, self.split(rows), strict=True)
        ]
        xp = namespace(prepared[0][0])
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
        if left.size == 0:
            return values
        again = self._again(rows, left, values)
        return xp.where(like(np.isin(np.arange(values.shape[0]), left), values, xp) > 0, again, values)

    def _compiled(self, prepared: Sequence[tuple[Array, ...]]) -> tuple[Array, Array]:
        """The same by the compiled kernel."""
        from fisherleak.engine.norms.kernels.lanczos_numba import top_of_releases

        values = np.stack([np.stack([r, a, c, squared], axis=1) for r, a, c, _, squared in prepared])
        g = np.stack([state[3] for state in prepared])
        w = np.stack([np.asarray(kind.w) for kind in self.kinds])
        others = np.concatenate([np.asarray(kind.S) for kind in self.kinds[1:]], axis=1)
        return top_of_releases(values, g, w, np.asarray(self.kinds[0].S), others, self.label, WANTED)

    def _again(self, rows: Sequence[Array | None], left: Any, values: Array) -> Array:
        """Those of some rows from their Jacobians, a few at a time, spread out to all rows."""
        xp = namespace(values)
        found = np.zeros(values.shape[0])
        for start in range(0, left.size, 16):
            some = like(left[start : start + 16], values, xp)
            few = self.small([None if x is None else xp.take(x, some, axis=0) for x in rows])
            found[left[start : start + 16]] = host(few)
        return like(found, values, xp)

    def pairs(self, *rows: Array | None) -> Sums:
        """sum_i Z_k Z_l^T of a block for releases k <= l, with J_k = B_k Z_k: (p_k, p_l) each."""
        blocks = [kind.block(*own) for kind, own in zip(self.kinds, self.split(rows), strict=True)]
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
