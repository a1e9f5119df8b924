"""Sets of examples of several outputs, and columns over all examples, where all rows that have a value move alike.

Mathematics: 2.6, ``docs/mathematics/norms.md``.

Also here: the small matrices of examples of several outputs, from a few products for a block of rows: see
``several_outputs``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host, is_lazy, like, namespace
from fisherleak._support.grids import GAP
from fisherleak._support.namespaces import Namespace, Sums
from fisherleak.engine.fit.risk import of_pairs
from fisherleak.engine.information import GROUP_VALUES, Product
from fisherleak.engine.jacobian import Jacobian, Scores
from fisherleak.engine.jacobian.perturbation import Attribute, PerturbationMap, gaps_of, map_of
from fisherleak.engine.norms.largest_eigenvalues import top_by_products, top_of_factors
from fisherleak.engine.norms.sets_at_once import squares_of_sets
from fisherleak.rows import block_elements, sum_rows


def identity(p: int, reference: Array) -> Array:
    """On the device of the reference."""
    return like(np.eye(p), reference, namespace(reference))


@dataclass(frozen=True)
class GramParts:
    """What blocks of rows have to know to make C, T, N and F: small arrays only, so that they can travel there."""

    make: Callable[..., Scores]
    first: Array
    second: Array
    """Places of the pairs k <= l of outputs."""
    direct: Array
    """(pairs, m^2), or (pairs, m) for the diagonals alone: C from products of r."""
    across: Array
    """(L p, L m): T from r (x) x."""
    lengths: Array
    """(p, pairs p): S_kl x of all pairs."""
    VE: Array
    """(L, m)."""
    by_label: Array
    diagonal: bool
    folded: _Folded | None = None

    def moves(self, X: Array, weights: Array | None) -> Array | None:
        """What changes of features do through their scales, (b, p); None where nothing is folded in."""
        return None if self.folded is None else self.folded.moves_of(X, weights)

    @classmethod
    def of(
        cls,
        J: Jacobian,
        S: Array,
        attributes: Sequence[Attribute],
        diagonal: bool = False,
        lengths: Array | None = None,
    ) -> GramParts:
        """``lengths`` of other attributes are those of these."""
        xp = namespace(J.B)
        L, p = J.outputs, J.width
        E = J.map(attributes)
        m = E.width
        after = xp.reshape(E.after(xp.reshape(S, (-1, p))), (L, p, L, m))  # S_kl E
        both = E.after(
            xp.reshape(xp.permute_dims(after, (0, 2, 3, 1)), (L * L * m, p))
        )  # of (k, l, m), its columns by E
        both = xp.reshape(both, (L, L, m, m))
        one, two = np.triu_indices(L)
        first, second = (like(places, J.B, xp) for places in (one, two))
        pairs = like(one * L + two, J.B, xp)
        twice = like(np.where(one == two, 1.0, 2.0), J.B, xp)
        picked = xp.take(xp.reshape(both, (L * L, m, m)), pairs, axis=0)
        picked = 0.5 * twice[:, None, None] * (picked + xp.matrix_transpose(picked))
        if diagonal:
            direct = xp.sum(picked * identity(m, J.B)[None, :, :], axis=2)
        else:
            direct = xp.reshape(picked, (picked.shape[0], m * m))
        if lengths is None:
            blocks = xp.take(xp.reshape(xp.permute_dims(S, (0, 2, 1, 3)), (L * L, p, p)), pairs, axis=0)
            lengths = xp.reshape(xp.permute_dims(blocks, (1, 0, 2)), (p, -1))
        return cls(
            make=J.model.scores,
            first=first,
            second=second,
            direct=direct,
            # S_kl has x on its right side and E on its left: T_l = sum_k r_k E^T S_kl x
            across=xp.reshape(xp.permute_dims(xp.reshape(after, (L, p, L, m)), (2, 1, 0, 3)), (L * p, L * m)),
            lengths=lengths,
            VE=E.after(J.slopes),
            by_label=J.by_label,
            diagonal=diagonal,
            folded=_Folded.of(J, S, attributes, diagonal),
        )

    def values(self, label: bool) -> int:
        """Values of a row, for the size of blocks."""
        L, m = self.VE.shape
        pairs, p = int(self.first.shape[0]), int(self.lengths.shape[0])
        small = m if self.diagonal else 2 * (m + int(label) * L) ** 2
        small += 0 if self.folded is None else self.folded.values
        return int(small + pairs * (p + 1) + L * p + 5 * L * m + 3 * L * L)

    def shared(self, part: Scores, xp: Namespace) -> tuple[Array, Array, Array]:
        """Of rows, whatever the attributes: products of r by pairs of outputs, r (x) x (b, L p) and N (b, L, L)."""
        (b, L), p = part.r.shape, part.x.shape[1]
        pairs = xp.take(part.r, self.first, axis=1) * xp.take(part.r, self.second, axis=1)
        along = xp.reshape(part.x @ self.lengths, (b, -1, p))
        lengths = (along @ part.x[:, :, None])[:, :, 0]
        places = np.zeros((L, L), dtype=np.int64)
        places[np.triu_indices(L)] = np.arange(lengths.shape[1])
        places = np.maximum(places, places.T)
        N = xp.reshape(xp.take(lengths, like(places.reshape(-1), part.x, xp), axis=1), (b, L, L))
        return pairs, xp.reshape(part.r[:, :, None] * part.x[:, None, :], (b, L * p)), N

    def of_rows(
        self, part: Scores, xp: Namespace, moves: Array | None, shared: tuple[Array, Array, Array] | None = None
    ) -> tuple[Array, Array, Array, Array]:
        """C (b, m^2 or m), T (b, L, m), N (b, L, L) and F (b, L, m)."""
        b, L = part.r.shape
        m = self.VE.shape[1]
        # C, T and N of the second formula of section 2.5, by pairs of outputs
        pairs, outer, N = self.shared(part, xp) if shared is None else shared
        direct = pairs @ self.direct
        T = xp.reshape(outer @ self.across, (b, L, m))
        if self.folded is not None and moves is not None and m:
            direct, T = self.folded.added(direct, T, part, moves, xp)
        return direct, T, N, part.A @ self.VE[None, :, :]

    def gram(
        self,
        part: Scores,
        label: bool,
        xp: Namespace,
        moves: Array | None,
        shared: tuple[Array, Array, Array] | None = None,
    ) -> tuple[Array, Array]:
        """J_i^T J_i, (b, m + q, m + q), and the size of the terms that make its first block, (b,)."""
        direct, T, N, F = self.of_rows(part, xp, moves, shared)
        b, m = part.r.shape[0], self.VE.shape[1]
        q = self.by_label.shape[1]
        omega = part.omega[:, None, None]
        if m == 0:
            return omega**2 * (self.by_label.T[None, :, :] @ N @ self.by_label[None, :, :]), xp.zeros_like(part.omega)
        C = xp.reshape(direct, (b, m, m))
        NF = N @ F
        # C + T^T F + F^T T + F^T N F, and below the blocks of the label (section 2.5); D is `by_label`
        half = xp.matrix_transpose(F) @ (T + 0.5 * NF)
        G = C + half + xp.matrix_transpose(half)
        terms = xp.sum(xp.reshape(direct, (b, -1))[:, :: m + 1], axis=1) + xp.sum(NF * F, axis=(1, 2))
        if not label:
            return G, terms
        lowered = -omega * (self.by_label.T[None, :, :] @ (T + NF))
        own = omega**2 * (self.by_label.T[None, :, :] @ N @ self.by_label[None, :, :])
        top = xp.concat([G, xp.matrix_transpose(lowered)], axis=2)
        assert own.shape[1] == q
        return xp.concat([top, xp.concat([lowered, own], axis=2)], axis=1), terms


@dataclass(frozen=True)
class _Folded:
    r"""What scalers that are folded in add to C and T, with g what a change of each feature does through its scale.

    The direct effect of a change is then :math:`(r_l + V_{lk} g_k) e_k` in place of :math:`r_l e_k`, so that before E

    .. math::

        C \leftarrow C + M + M^T + K \circ g g^T, \qquad T_{l'} \leftarrow T_{l'} + g \circ \sum_l V_l \circ S_{ll'} x ,

        M_{kk'} = g_{k'} \sum_{ll'} r_l S_{ll'}^{kk'} V_{l'k'}, \qquad K_{kk'} = \sum_{ll'} V_{lk} S_{ll'}^{kk'} V_{l'k'} .

    E has no other rows than those of the s features that the attributes feed, so that k and k' run over these alone; over
    k = k' where only diagonals are wanted, of attributes that feed one feature each.
    """

    moves_of: Callable[..., Array]
    columns: Array
    """(s,): the features that the attributes feed."""
    E: PerturbationMap
    """(s, m)."""
    pulled: Array
    """(L, s^2), or (L, s) for the diagonals alone: M from r, before g."""
    both: Array
    """(s, s), or (s,): K."""
    across: Array
    """(p, L s): what is added to T, from x."""
    diagonal: bool

    @classmethod
    def of(cls, J: Jacobian, S: Array, attributes: Sequence[Attribute], diagonal: bool) -> _Folded | None:
        moves = J.moves()
        if moves is None or not attributes:
            return None
        assert not diagonal or all(len(attribute.columns) == 1 for attribute in attributes)
        xp = namespace(J.B)
        fed = sorted({j for attribute in attributes for j in attribute.columns})
        places = {j: k for k, j in enumerate(fed)}
        moved = [Attribute(a.name, [places[j] for j in a.columns], a.directions) for a in attributes]
        columns = like(np.array(fed, dtype=np.int64), J.B, xp)
        L, p, s = J.outputs, J.width, len(fed)
        V, rows = xp.take(J.slopes, columns, axis=1), xp.take(S, columns, axis=1)  # (l, s), (l, s, l', p)
        pulled = xp.sum(xp.take(rows, columns, axis=3) * V[None, None, :, :], axis=2)
        both = xp.sum(V[:, :, None] * pulled, axis=0)
        across = xp.sum(rows * V[:, :, None, None], axis=0)  # (s, l', b)
        if diagonal:
            pulled, both = (xp.sum(each * identity(s, J.B), axis=-1) for each in (pulled, both))
        return cls(
            moves_of=moves,
            columns=columns,
            E=map_of(moved, s, J.B),
            pulled=xp.reshape(pulled, (L, -1)),
            both=both,
            across=xp.reshape(xp.permute_dims(across, (2, 1, 0)), (p, L * s)),
            diagonal=diagonal,
        )

    @property
    def values(self) -> int:
        """Values of a row, for the size of blocks."""
        return 4 * int(self.pulled.shape[1]) + int(self.across.shape[1])

    def added(self, direct: Array, T: Array, part: Scores, moves: Array, xp: Namespace) -> tuple[Array, Array]:
        """C and T with what the scales add."""
        (b, L), s, m = part.r.shape, int(self.columns.shape[0]), self.E.width
        g = xp.take(moves, self.columns, axis=1)
        bent = xp.reshape(xp.reshape(part.x @ self.across, (b, L, s)) * g[:, None, :], (b * L, s))
        T = T + xp.reshape(self.E.after(bent), (b, L, m))
        if self.diagonal:
            more = (2.0 * (part.r @ self.pulled) + self.both[None, :] * g) * g
            return direct + more @ self.E.after(identity(s, g)) ** 2, T
        M = xp.reshape(part.r @ self.pulled, (b, s, s)) * g[:, None, :]
        more = M + xp.matrix_transpose(M) + self.both[None, :, :] * g[:, :, None] * g[:, None, :]
        once = xp.reshape(self.E.after(xp.reshape(more, (b * s, s))), (b, s, m))
        twice = self.E.after(xp.reshape(xp.matrix_transpose(once), (b * m, s)))
        return direct + xp.reshape(twice, (b, m * m)), T


MANY_PARAMETERS = 384
"""Parameters from which on columns come by products: half the time of Gram matrices there, a thirteenth at 640."""
SETTLED = 4e-11
"""Relative residual at which the square of a column's norm is taken."""
BLOCKS = 2
"""Values of the moves of a block of rows, in blocks of the usual size."""


def set_product_of(J: Jacobian, attributes: Sequence[Attribute], label: bool) -> Product:
    """J_S J_S^T of attributes that move all rows alike, but for those that lack a value, as a sum over rows."""
    xp = namespace(J.B)
    E = J.map(attributes)
    make, moves, VE, by_label = J.model.scores, J.moves(), E.after(J.slopes), J.by_label
    L, p, m = J.outputs, J.width, E.width
    matrix = E.after(identity(p, J.B))
    there, lacking = gaps_of(attributes, J.B), _Lacking.of(J, attributes)
    CC = by_label @ by_label.T

    def block(X: Array, y: Array, weights: Array | None) -> Sums:
        part = make(X, y, weights)
        b = part.r.shape[0]
        F = part.A @ VE[None, :, :]
        F = F if there is None else F * there(X)[:, None, :]
        # (F F^T + omega^2 C C^T) (x) x x^T, the last term of the formula of section 2.6
        FF = F @ xp.matrix_transpose(F)
        if label:
            FF = FF + (part.omega**2)[:, None, None] * CC[None, :, :]
        squares = []
        for k in range(L):
            row = xp.reshape(FF[:, k, k:, None] * part.x[:, None, :], (b, -1))
            squares.append(part.x.T @ row)
        # sum of F_l (x) r_k x: (L m, L p)
        cross = xp.reshape(F, (b, L * m)).T @ xp.reshape(part.r[:, :, None] * part.x[:, None, :], (b, L * p))
        g = None if moves is None or not m else moves(X, weights)
        sums = (*lacking.sums(X, part.r, g), part.r.T @ part.r, cross, *squares)
        if g is None:
            return sums
        bent = xp.reshape((F @ matrix.T[None, :, :]) * g[:, None, :], (b, L * p))
        return (part.r.T @ g, g.T @ g, bent.T @ part.x, *sums)

    def middle(sums: Sums) -> Array:
        scales, rest = (sums[:3], sums[3:]) if moves is not None and m else ((), sums)
        gone, rest = rest[: lacking.count], rest[lacking.count :]
        R, cross, *squares = rest
        total = of_pairs(squares, L, p, xp)
        if m:
            # sum of d d^T, and below of D_i (F_i (x) x_i)^T (section 2.6): d_lk = r_l + V_lk g_k
            spread = xp.broadcast_to(R[:, None, :, None], (L, p, L, p))
            # block (k, l) of r_k E F_l^T x^T
            split = xp.permute_dims(xp.reshape(cross, (L, m, L, p)), (2, 1, 0, 3))
            moved = xp.reshape(matrix @ xp.reshape(split, (L, m, L * p)), (L, p, L, p))
            if scales:
                V, (rg, gg, bent) = J.slopes, scales
                side = rg[:, None, None, :] * V[None, None, :, :]  # of r_k and V_l g, (k, ., l, p)
                spread = spread + side + xp.permute_dims(side, (2, 3, 0, 1))
                spread = spread + V[:, :, None, None] * gg[None, :, None, :] * V[None, None, :, :]
                moved = moved + V[:, :, None, None] * xp.permute_dims(xp.reshape(bent, (1, L, p, p)), (0, 2, 1, 3))
            direct = xp.reshape(spread * (matrix @ matrix.T)[None, :, None, :], (L * p, L * p))
            moved = xp.reshape(moved, (L * p, L * p))
            total = total + direct + moved + moved.T
        return lacking.taken_from(total, gone)

    def finish(sums: Sums) -> Array:
        return J.B @ middle(sums) @ J.B.T

    of_sets = squares_of_sets(J, attributes, label)
    return Product(J.arrays, block, finish, int(J.B.shape[0]), top_of_factors(J.B, middle), of_sets)


@dataclass(frozen=True)
class _Lacking:
    """What D_i D_i^T of all rows has too much where rows lack a value: d d^T of its features, summed over these rows."""

    J: Jacobian
    columns: tuple[tuple[int, ...], ...]
    squares: tuple[NDArray[np.float64], ...]
    """E E^T of each attribute, over its features."""

    @classmethod
    def of(cls, J: Jacobian, attributes: Sequence[Attribute]) -> _Lacking:
        some = [(a.columns, a.directions) for a in attributes if a.gaps]
        return cls(J, tuple(c for c, _ in some), tuple(np.eye(len(c)) if E is None else E @ E.T for c, E in some))

    @property
    def count(self) -> int:
        return len(self.columns)

    def sums(self, X: Array, r: Array, g: Array | None) -> list[Array]:
        """Of d d^T over the rows that lack each, (L, L), or (L k, L k) where d differs by feature."""
        xp, found = namespace(self.J.B), []
        for columns in self.columns:
            d = r
            if g is not None:
                own = like(np.array(columns, dtype=np.int64), r, xp)
                d = (
                    r[:, :, None]
                    + xp.take(self.J.slopes, own, axis=1)[None, :, :] * xp.take(g, own, axis=1)[:, None, :]
                )
                d = xp.reshape(d, (r.shape[0], -1))
            d = d * xp.astype(X[:, columns[0]] == GAP, xp.float64)[:, None]
            found.append(d.T @ d)
        return found

    def taken_from(self, total: Array, sums: Sequence[Array]) -> Array:
        if not self.columns:
            return total
        L, p = self.J.outputs, self.J.width
        left = np.array(host(total)).reshape(L, p, L, p)
        for columns, square, own in zip(self.columns, self.squares, sums, strict=True):
            k, d = len(columns), np.asarray(host(own))
            d = d[:, None, :, None] if d.shape[0] == L else d.reshape(L, k, L, k)
            every, fed = np.arange(L), np.array(columns, dtype=np.int64)
            left[np.ix_(every, fed, every, fed)] -= d * square[None, :, None, :]
        return like(left.reshape(L * p, L * p), total, namespace(total))


def by_products_at_once(J: Jacobian) -> bool:
    """Whether columns come by products: attributes of several directions do then as well."""
    return not is_lazy(J.X) and int(J.B.shape[0]) >= MANY_PARAMETERS


def column_norms(J: Jacobian, attributes: Sequence[Attribute]) -> list[float]:
    """||J_j|| over all examples of attributes that move all rows alike, but for those that lack a value.

    Of one direction each, but for ``by_products_at_once``.
    """
    columns = _Columns(J, tuple(attributes))
    squares = columns.by_products() if by_products_at_once(J) else columns.by_grams(range(len(attributes)))
    return [max(square, 0.0) ** 0.5 for square in squares]


@dataclass(frozen=True)
class _Columns:
    """The rows r (x) E_j + V g E_j + F_j (x) x of the directions j of some attributes."""

    J: Jacobian
    attributes: tuple[Attribute, ...]

    def _most(self, values: int) -> int:
        return max(1, BLOCKS * block_elements(self.J.B) // max(values, 1))

    def by_products(self) -> list[float]:
        """Squared norms, as many attributes at a time as a block of rows has room for."""
        J = self.J
        room = GROUP_VALUES // (8 * int(J.B.shape[1]) + 8 * int(J.B.shape[0]))
        values: list[float] = []
        residuals: list[float] = []
        ends = np.cumsum([attribute.size for attribute in self.attributes])
        start = 0
        while start < len(self.attributes):
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + room, side="right")))
            places = np.arange(start, stop, dtype=np.float64)[:, None]
            state = (like(places, J.B, namespace(J.B)),)
            found = top_by_products(self._product, state, int(J.B.shape[0]), SETTLED, compiled=False)
            for kept, new in zip((values, residuals), found, strict=True):
                kept += host(new).tolist()
            start = stop
        left = [j for j, residual in enumerate(residuals) if residual > SETTLED]
        single = [j for j in left if self.attributes[j].size == 1]
        for j, square in zip(single, self.by_grams(single), strict=True):
            values[j] = square
        for j in left:
            if self.attributes[j].size > 1:
                product = set_product_of(J, [self.attributes[j]], False)
                values[j] = product.norm(sum_rows(product.block, *product.arrays)) ** 2
        return values

    def _product(self, state: tuple[Array, ...], U: Array) -> Array:
        """B sum_i Z_ia Z_ia^T B^T u_a of a vector for each attribute a, (c, released parameters).

        Z_ia has a column for each direction of the attribute; sums over these are products with ``own``.
        """
        J = self.J
        xp = namespace(J.B)
        some = [self.attributes[int(a)] for a in host(state[0])[:, 0]]
        whose = np.repeat(np.arange(len(some)), [attribute.size for attribute in some])
        whole = whose.size == len(some)  # one direction each
        own = like(np.eye(len(some))[whose], J.B, xp)  # (m, c)
        map_ = J.map(some)
        there = gaps_of(some, J.B)
        VE, E = map_.after(J.slopes), map_.after(identity(J.width, J.B)).T  # (L, m), (m, p)
        make, moves, V = J.model.scores, J.moves(), J.slopes
        (L, m), c, p = VE.shape, len(some), J.width
        inner = xp.reshape(U @ J.B, (c, L, p))
        along = xp.reshape(xp.permute_dims(inner, (2, 1, 0)), (p, L * c))
        each = inner if whole else xp.take(inner, like(whose, J.B, xp), axis=0)  # (m, L, p)
        onto = xp.sum(each * E[:, None, :], axis=2).T  # what r meets, (L, m)
        scaled = (xp.sum(each * V[None, :, :], axis=1) * E).T  # what g meets, (p, m)

        def of_each(values: Array) -> Array:
            """Of attributes, at each of their directions."""
            return values if whole else values @ own.T

        def summed(values: Array) -> Array:
            return values if whole else values @ own

        def block(X: Array, y: Array, weights: Array | None) -> Sums:
            part = make(X, y, weights)
            b = part.r.shape[0]
            F = part.A @ VE[None, :, :]  # (b, L, m)
            # Z_ij . B^T u, with Z_ij = r (x) E_j + V g E_j + F_j (x) x
            met = xp.sum(F * of_each(xp.reshape(part.x @ along, (b, L, c))), axis=1) + part.r @ onto
            g = None if moves is None else moves(X, weights)
            met = met if g is None else met + g @ scaled
            met = met if there is None else met * there(X)
            bent = part.x.T @ xp.reshape(summed(F * met[:, None, :]), (b, L * c))
            return (bent, met.T @ part.r, *(() if g is None else (met.T @ g,)))

        bent, by_r, *by_g = sum_rows(block, *J.arrays, most=self._most(3 * L * m + 2 * L * c + L * L))
        back = by_r[:, :, None] * E[:, None, :]
        if by_g:
            back = back + V[None, :, :] * (by_g[0] * E)[:, None, :]
        back = back if whole else xp.reshape(own.T @ xp.reshape(back, (m, L * p)), (c, L, p))
        back = back + xp.permute_dims(xp.reshape(bent, (p, L, c)), (2, 1, 0))
        return xp.reshape(back, (c, L * p)) @ J.B.T

    def by_grams(self, places: Sequence[int]) -> list[float]:
        """Squared norms of some columns from the Gram matrices of their rows, as many in a pass as there is room for."""
        at_once = max(1, GROUP_VALUES // int(self.J.B.shape[1]) ** 2)
        found: list[float] = []
        for start in range(0, len(places), at_once):
            some = [self.attributes[j] for j in places[start : start + at_once]]
            found += self._gram_squares(some)
        return found

    def _gram_squares(self, attributes: Sequence[Attribute]) -> list[float]:
        J = self.J
        xp = namespace(J.B)
        make, moves, V, E = J.model.scores, J.moves(), J.slopes, J.map(attributes)
        directions, VE, there = E.after(identity(J.width, J.B)), E.after(J.slopes), gaps_of(attributes, J.B)
        L, p, m = J.outputs, J.width, len(attributes)

        def block(X: Array, y: Array, weights: Array | None) -> Sums:
            part = make(X, y, weights)
            F = part.A @ VE[None, :, :]
            direct = part.r[:, :, None]
            direct = direct if moves is None else direct + V[None, :, :] * moves(X, weights)[:, None, :]
            acts = None if there is None else there(X)
            found = []
            for j in range(m):
                # Z_ij (section 2.6)
                rows = F[:, :, j, None] * part.x[:, None, :] + direct * directions[:, j][None, None, :]
                rows = rows if acts is None else rows * acts[:, j][:, None, None]
                flat = xp.reshape(rows, (part.x.shape[0], L * p))
                found.append(flat.T @ flat)
            return tuple(found)

        grams = sum_rows(block, *J.arrays, most=self._most(L * (p + m + L)))
        return [float(xp.linalg.eigvalsh(J.B @ G @ J.B.T)[-1]) for G in grams]
