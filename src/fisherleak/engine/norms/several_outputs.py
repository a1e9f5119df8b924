r"""Norms of the Jacobian of several outputs: rows share no eigenbasis, but their small matrices come from a few products.

With :math:`S = B^T B` in blocks :math:`S_{kl}` (p, p) by pairs of outputs, example i has the (m + q) x (m + q) matrix

.. math::

    J_i^T J_i = \begin{pmatrix} C + T^T F + F^T T + F^T N F & -\omega (T + N F)^T D \\ \cdot & \omega^2 D^T N D \end{pmatrix}

.. math::

    C = \sum_{kl} r_k r_l\, E^T S_{kl} E, \qquad T_l = \sum_k r_k\, E^T S_{kl}\, x, \qquad N_{kl} = x^T S_{kl}\, x,

with F and D = -C of ``outputs.several_jacobian``. C is one product of (n, L (L + 1) / 2) with (L (L + 1) / 2, m^2), T one of
(n, L p) with (L p, L m), N one of (n, p) with (p, L (L + 1) / 2 p): no n x L p x L p array, and no iteration with such
products. The largest eigenvalue of each small matrix is that of ``small``. Sums over sets of rows are a few Gram matrices by
pairs of outputs. Maps that differ from row to row are written out, block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, host, like, namespace
from fisherleak._support.namespaces import Namespace, Sums
from fisherleak.engine.erm import Fit
from fisherleak.engine.information import GROUP_VALUES, Information, Product, certain_norm, rounding_of, set_norm
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.noise import Noise
from fisherleak.engine.norms.lanczos import WANTED
from fisherleak.engine.norms.shared_basis import cells_in_order, replaced
from fisherleak.engine.norms.small import top_of_matrices
from fisherleak.engine.outputs.several_jacobian import OutputsJacobian
from fisherleak.engine.outputs.several_risk import Scores
from fisherleak.engine.perturbation import Attribute, PerturbationMap
from fisherleak.errors import UnsupportedModelError
from fisherleak.rows import block_elements, gather, map_rows, sum_rows

__all__ = ["SeveralOutputs", "refuse_several"]

CANCELLED = 1e-4
"""An eigenvalue, or a squared cell, below this part of its terms is computed again without squares."""
BLOCKS = 2
"""Values of the small matrices and their parts at a time, in blocks of the usual size."""


@dataclass(frozen=True)
class SeveralOutputs:
    """The information of one release of a model of several outputs."""

    jacobian: OutputsJacobian

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        return self.jacobian.attributes

    @property
    def jacobians(self) -> tuple[Jacobian, ...]:
        """None of one output: whoever asks for these would take the model for another."""
        refuse_several(self, "this")
        raise AssertionError

    @property
    def folded(self) -> bool:
        return self.jacobian.folding is not None

    @property
    def fits(self) -> tuple[Fit, ...]:
        return (self.jacobian.fit,)

    @property
    def rows(self) -> tuple[Array, Array]:
        return self.jacobian.X, self.jacobian.y

    @property
    def error(self) -> float:
        return rounding_of(self.jacobian.fit) + WANTED

    def scaled(self, factor: float) -> SeveralOutputs:
        return replace(self, jacobian=self.jacobian.scaled(factor))

    def with_noise(self, noise: Noise) -> SeveralOutputs:
        return replace(self, jacobian=self.jacobian.with_noise(noise))

    def example_norms(self, attributes: Sequence[Attribute], label: bool) -> Array:
        chosen = self.jacobian.named(attributes)
        xp = namespace(self.jacobian.B)
        if any(attribute.local for attribute in chosen):
            squares = self._written_squares(chosen, label)
        else:
            squares = self._squares(chosen, label)
        return map_rows(lambda x: xp.sqrt(xp.clip(x, 0.0, None)), squares)

    def cell_norms(self, attributes: Sequence[Attribute]) -> Array:
        chosen = self.jacobian.named(attributes)
        plain = [attribute for attribute in chosen if attribute.size == 1 and not attribute.local]
        if self.folded:
            plain = [attribute for attribute in plain if len(attribute.columns) == 1]
        others = [attribute for attribute in chosen if attribute not in plain]
        squares = [self._cell_squares(plain)] if plain else []
        blocks = [self.example_norms([attribute], False) for attribute in others]
        return cells_in_order(squares, blocks, [*plain, *others], chosen, self.jacobian.B)

    def attribute_norms(self, attributes: Sequence[Attribute]) -> Array:
        chosen = self.jacobian.named(attributes)
        plain = [] if self.folded else [a for a in chosen if a.size == 1 and not a.local]
        at_once = max(1, GROUP_VALUES // int(self.jacobian.B.shape[1]) ** 2)
        norms: dict[str, float] = {}
        for start in range(0, len(plain), at_once):
            some = plain[start : start + at_once]
            norms |= zip((attribute.name for attribute in some), _column_norms(self.jacobian, some), strict=True)
        norms |= {a.name: set_norm(self, [a], False, None) for a in chosen if a.name not in norms}
        return like([norms[a.name] for a in chosen], self.jacobian.B, namespace(self.jacobian.B))

    def set_product(self, attributes: Sequence[Attribute], label: bool) -> Product:
        J = self.jacobian
        chosen = J.named(attributes)
        if self.folded or any(attribute.local for attribute in chosen):
            return self._written_product(chosen, label)
        return _product(J, chosen, label)

    def certain(self, attributes: Sequence[Attribute], label: bool, row: int, norm: float) -> float:
        """Certified from above by a Cholesky factorisation."""
        B = self.jacobian.B
        J = host(self.written_out(attributes, label, like([row], B, namespace(B))))[0]
        return certain_norm(J, norm, self.error)

    def written_out(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> Array:
        named = self.jacobian.named(attributes)
        return self.jacobian.dense(named, label)(*gather(self.jacobian.arrays_for(named), rows))

    # single examples

    @cached_property
    def _middle(self) -> Array:
        """S = B^T B by outputs, (L, p, L, p)."""
        J = self.jacobian
        return namespace(J.B).reshape(J.B.T @ J.B, (J.outputs, J.width, J.outputs, J.width))

    def _squares(self, attributes: Sequence[Attribute], label: bool) -> Array:
        """The largest eigenvalue of J_i^T J_i, (n,)."""
        J = self.jacobian
        xp = namespace(J.B)
        parts = _Parts.of(J, self._middle, attributes)
        write = J.dense(attributes, label)

        def block(X: Array, y: Array, weights: Array | None) -> Array:
            G, terms = parts.gram(parts.make(X, y, weights), label, xp, parts.moves(X, weights))
            values = top_of_matrices(G)
            left = np.flatnonzero(host(values < CANCELLED * terms))
            if left.size == 0:
                return values
            found = np.array(host(values))
            for start in range(0, left.size, 16):
                some = like(left[start : start + 16], values, xp)
                few = [None if x is None else xp.take(x, some, axis=0) for x in (X, y, weights)]
                found[left[start : start + 16]] = np.linalg.norm(host(write(*few)), 2, axis=(1, 2)) ** 2
            return like(found, values, xp)

        return map_rows(block, *J.arrays, most=self._most(parts.values(label)))

    def _cell_squares(self, attributes: Sequence[Attribute]) -> Array:
        """Squares of the norms of attributes of one direction, (n, m)."""
        J = self.jacobian
        xp = namespace(J.B)
        parts = _Parts.of(J, self._middle, attributes, diagonal=True)
        B, V, directions = J.B, J.slopes, J.map(attributes).after(_identity(J.width, J.B))

        def block(X: Array, y: Array, weights: Array | None) -> Array:
            part = parts.make(X, y, weights)
            moves = parts.moves(X, weights)
            direct, T, N, F = parts.of_rows(part, xp, moves)
            NF = N @ F
            bent = xp.sum(NF * F, axis=1)
            squares = direct + 2.0 * xp.sum(T * F, axis=1) + bent
            i, j = xp.nonzero(squares < CANCELLED * (direct + bent))
            if i.shape[0] == 0:
                return squares
            r, x = xp.take(part.r, i, axis=0), xp.take(part.x, i, axis=0)
            bends = xp.take(xp.reshape(xp.matrix_transpose(F), (-1, F.shape[1])), i * F.shape[2] + j, axis=0)
            own = r[:, :, None]
            own = own if moves is None else own + V[None, :, :] * xp.take(moves, i, axis=0)[:, None, :]
            moved = own * xp.take(directions, j, axis=1).T[:, None, :] + bends[:, :, None] * x[:, None, :]
            again = xp.reshape(moved, (moved.shape[0], -1)) @ B.T
            return replaced(squares, i, j, xp.vecdot(again, again), xp)

        return map_rows(block, *J.arrays, most=self._most(parts.values(False)), width=len(attributes))

    def _written_squares(self, attributes: Sequence[Attribute], label: bool) -> Array:
        J = self.jacobian
        write, xp = J.dense(attributes, label), namespace(self.jacobian.B)

        def block(*rows: Array | None) -> Array:
            written = write(*rows)
            T = xp.matrix_transpose(written)
            return top_of_matrices(T @ written if written.shape[2] <= written.shape[1] else written @ T)

        size = sum(attribute.size for attribute in attributes) + int(label) * J.outputs
        return map_rows(block, *J.arrays_for(attributes), most=self._most(2 * size * int(J.B.shape[0])))

    def _written_product(self, attributes: Sequence[Attribute], label: bool) -> Product:
        J = self.jacobian
        write, xp = J.dense(attributes, label), namespace(self.jacobian.B)
        size = sum(attribute.size for attribute in attributes) + int(label) * J.outputs
        most = self._most(2 * size * int(J.B.shape[0]))

        def block(*rows: Array | None) -> Sums:
            total: Any = 0.0
            lead = rows[0]
            assert lead is not None
            for start in range(0, lead.shape[0], most):
                some = slice(start, start + most)
                written = write(*(None if x is None else x[some, ...] for x in rows))
                flat = xp.reshape(xp.permute_dims(written, (1, 0, 2)), (written.shape[1], -1))
                total = total + flat @ flat.T
            return (total,)

        return Product(J.arrays_for(attributes), block, lambda sums: sums[0], int(J.B.shape[0]))

    def _most(self, values: int) -> int:
        """Rows of a block that hold as many values as usual, with so many for each row."""
        return max(1, BLOCKS * block_elements(self.jacobian.B) // max(values, 1))


def refuse_several(information: Information, what: str) -> None:
    """Refuse a model of several outputs by the name of what reads models of one output only."""
    if isinstance(information, SeveralOutputs):
        fit = information.jacobian.fit
        raise UnsupportedModelError(
            f"A model of {fit.coef.shape[0]} {'classes' if fit.loss.classes else 'outputs'} ({fit.loss.name} loss) is not "
            f"supported by {what}: etas, calibrate over the rows present and release are there for several outputs. Fit one "
            "output, or one class against the rest."
        )


def _identity(p: int, reference: Array) -> Array:
    return like(np.eye(p), reference, namespace(reference))


@dataclass(frozen=True)
class _Parts:
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
        return None if self.folded is None else self.folded.moves(X, weights)

    @classmethod
    def of(cls, J: OutputsJacobian, S: Array, attributes: Sequence[Attribute], diagonal: bool = False) -> _Parts:
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
            direct = xp.sum(picked * _identity(m, J.B)[None, :, :], axis=2)
        else:
            direct = xp.reshape(picked, (picked.shape[0], m * m))
        blocks = xp.take(xp.reshape(xp.permute_dims(S, (0, 2, 1, 3)), (L * L, p, p)), pairs, axis=0)
        return cls(
            make=J.scores(),
            first=first,
            second=second,
            direct=direct,
            # S_kl has x on its right side and E on its left: T_l = sum_k r_k E^T S_kl x
            across=xp.reshape(xp.permute_dims(xp.reshape(after, (L, p, L, m)), (2, 1, 0, 3)), (L * p, L * m)),
            lengths=xp.reshape(xp.permute_dims(blocks, (1, 0, 2)), (p, -1)),
            VE=E.after(J.slopes),
            by_label=J.by_label,
            diagonal=diagonal,
            folded=_Folded.of(J, S, E, diagonal),
        )

    def values(self, label: bool) -> int:
        """Values of a row, for the size of blocks."""
        L, m = self.VE.shape
        pairs, p = int(self.first.shape[0]), int(self.lengths.shape[0])
        small = m if self.diagonal else 2 * (m + int(label) * L) ** 2
        small += 0 if self.folded is None else 4 * p * p
        return int(small + pairs * (p + 1) + L * p + 5 * L * m + 3 * L * L)

    def of_rows(self, part: Scores, xp: Namespace, moves: Array | None) -> tuple[Array, Array, Array, Array]:
        """C (b, m^2 or m), T (b, L, m), N (b, L, L) and F (b, L, m)."""
        b, L = part.r.shape
        p, m = part.x.shape[1], self.VE.shape[1]
        direct = (xp.take(part.r, self.first, axis=1) * xp.take(part.r, self.second, axis=1)) @ self.direct
        T = xp.reshape(part.r[:, :, None] * part.x[:, None, :], (b, L * p)) @ self.across
        along = xp.reshape(part.x @ self.lengths, (b, -1, p))
        lengths = (along @ part.x[:, :, None])[:, :, 0]
        places = np.zeros((L, L), dtype=np.int64)
        places[np.triu_indices(L)] = np.arange(lengths.shape[1])
        places = np.maximum(places, places.T)
        N = xp.reshape(xp.take(lengths, like(places.reshape(-1), part.x, xp), axis=1), (b, L, L))
        T = xp.reshape(T, (b, L, m))
        if self.folded is not None and moves is not None and m:
            direct, T = self.folded.added(direct, T, part, moves, xp)
        assert part.A is not None
        return direct, T, N, part.A @ self.VE[None, :, :]

    def gram(self, part: Scores, label: bool, xp: Namespace, moves: Array | None) -> tuple[Array, Array]:
        """J_i^T J_i, (b, m + q, m + q), and the size of the terms that make its first block, (b,)."""
        direct, T, N, F = self.of_rows(part, xp, moves)
        b, m = part.r.shape[0], self.VE.shape[1]
        q = self.by_label.shape[1]
        omega = part.omega[:, None, None]
        if m == 0:
            return omega**2 * (self.by_label.T[None, :, :] @ N @ self.by_label[None, :, :]), xp.zeros_like(part.omega)
        C = xp.reshape(direct, (b, m, m))
        NF = N @ F
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
    """

    moves_of: Callable[..., Array]
    E: PerturbationMap
    pulled: Array
    """(L, p^2): M from r, before g."""
    both: Array
    """(p, p): K."""
    across: Array
    """(p, L p): what is added to T, from x."""
    diagonal: bool

    @classmethod
    def of(cls, J: OutputsJacobian, S: Array, E: PerturbationMap, diagonal: bool) -> _Folded | None:
        moves = J.moves()
        if moves is None:
            return None
        xp = namespace(J.B)
        L, p, V = J.outputs, J.width, J.slopes
        right = S * V[None, None, :, :]  # (l, k, l', k')
        pulled = xp.sum(right, axis=2)
        across = xp.sum(S * V[:, :, None, None], axis=0)  # (k, l', b)
        return cls(
            moves_of=moves,
            E=E,
            pulled=xp.reshape(pulled, (L, p * p)),
            both=xp.sum(V[:, :, None] * pulled, axis=0),
            across=xp.reshape(xp.permute_dims(across, (2, 1, 0)), (p, L * p)),
            diagonal=diagonal,
        )

    def moves(self, X: Array, weights: Array | None) -> Array:
        return self.moves_of(X, weights)

    def added(self, direct: Array, T: Array, part: Scores, g: Array, xp: Namespace) -> tuple[Array, Array]:
        """C and T with what the scales add."""
        (b, L), p, m = part.r.shape, part.x.shape[1], self.E.width
        bent = xp.reshape(xp.reshape(part.x @ self.across, (b, L, p)) * g[:, None, :], (b * L, p))
        T = T + xp.reshape(self.E.after(bent), (b, L, m))
        M = xp.reshape(part.r @ self.pulled, (b, p, p)) * g[:, None, :]
        more = M + xp.matrix_transpose(M) + self.both[None, :, :] * g[:, :, None] * g[:, None, :]
        once = xp.reshape(self.E.after(xp.reshape(more, (b * p, p))), (b, p, m))
        twice = self.E.after(xp.reshape(xp.matrix_transpose(once), (b * m, p)))
        if self.diagonal:
            return direct + xp.sum(xp.reshape(twice, (b, m, m)) * _identity(m, g)[None, :, :], axis=2), T
        return direct + xp.reshape(twice, (b, m * m)), T


# sets of examples


def _product(J: OutputsJacobian, attributes: Sequence[Attribute], label: bool) -> Product:
    r"""J_S J_S^T from Gram matrices by pairs of outputs.

    .. math:: \sum_i Z_i Z_i^T = \sum_i r r^T \otimes E E^T + (r \otimes E F^T_l\, x^T) + \cdot^T
              + (F F^T + \omega^2 C C^T) \otimes x x^T .
    """
    xp = namespace(J.B)
    E = J.map(attributes)
    make, VE, by_label = J.scores(), E.after(J.slopes), J.by_label
    L, p, m = J.outputs, J.width, E.width
    CC = by_label @ by_label.T

    def block(X: Array, y: Array, weights: Array | None) -> Sums:
        part = make(X, y, weights)
        b = part.r.shape[0]
        assert part.A is not None
        F = part.A @ VE[None, :, :]
        FF = F @ xp.matrix_transpose(F)
        if label:
            FF = FF + (part.omega**2)[:, None, None] * CC[None, :, :]
        squares = []
        for k in range(L):
            row = xp.reshape(FF[:, k, k:, None] * part.x[:, None, :], (b, -1))
            squares.append(part.x.T @ row)
        # sum of F_l (x) r_k x: (L m, L p)
        cross = xp.reshape(F, (b, L * m)).T @ xp.reshape(part.r[:, :, None] * part.x[:, None, :], (b, L * p))
        return (part.r.T @ part.r, cross, *squares)

    def finish(sums: Sums) -> Array:
        R, cross, *squares = sums
        total = _of_squares(squares, L, p, xp)
        if m:
            matrix = E.after(_identity(p, J.B))
            total = total + xp.reshape(R[:, None, :, None] * (matrix @ matrix.T)[None, :, None, :], (L * p, L * p))
            # block (k, l) of r_k E F_l^T x^T
            split = xp.permute_dims(xp.reshape(cross, (L, m, L, p)), (2, 1, 0, 3))
            moved = xp.reshape(matrix @ xp.reshape(split, (L, m, L * p)), (L * p, L * p))
            total = total + moved + moved.T
        return J.B @ total @ J.B.T

    return Product(J.arrays, block, finish, int(J.B.shape[0]))


def _column_norms(J: OutputsJacobian, attributes: Sequence[Attribute]) -> list[float]:
    """||J_j|| of attributes of one direction over all examples: a Gram matrix of the rows r (x) E_j + F_j (x) x for each."""
    xp = namespace(J.B)
    make, directions = J.scores(), J.map(attributes).after(_identity(J.width, J.B))
    VE = J.map(attributes).after(J.slopes)
    L, p, m = J.outputs, J.width, len(attributes)

    def block(X: Array, y: Array, weights: Array | None) -> Sums:
        part = make(X, y, weights)
        assert part.A is not None
        F = part.A @ VE[None, :, :]
        found = []
        for j in range(m):
            rows = F[:, :, j, None] * part.x[:, None, :] + part.r[:, :, None] * directions[:, j][None, None, :]
            flat = xp.reshape(rows, (part.x.shape[0], L * p))
            found.append(flat.T @ flat)
        return tuple(found)

    most = max(1, BLOCKS * block_elements(J.B) // (L * (p + m + L)))
    grams = sum_rows(block, *J.arrays, most=most)
    return [float(xp.linalg.eigvalsh(J.B @ G @ J.B.T)[-1]) ** 0.5 for G in grams]


def _of_squares(parts: Sequence[Array], L: int, p: int, xp: Namespace) -> Array:
    lines = []
    for k in range(L):
        before = [parts[m][:, (k - m) * p : (k - m + 1) * p].T for m in range(k)]
        lines.append(xp.concat([*before, parts[k]], axis=1))
    return xp.concat(lines, axis=0)
