r"""The small matrices of examples of several outputs, from a few products for a block of rows: see ``several_outputs``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fisherleak._support.arrays import Array, like, namespace
from fisherleak._support.namespaces import Namespace
from fisherleak.engine.jacobian import Jacobian, Scores
from fisherleak.engine.jacobian.perturbation import Attribute, PerturbationMap, map_of

__all__ = ["GramParts", "identity"]


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
        return None if self.folded is None else self.folded.moves(X, weights)

    @classmethod
    def of(cls, J: Jacobian, S: Array, attributes: Sequence[Attribute], diagonal: bool = False) -> GramParts:
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
        blocks = xp.take(xp.reshape(xp.permute_dims(S, (0, 2, 1, 3)), (L * L, p, p)), pairs, axis=0)
        return cls(
            make=J.model.scores,
            first=first,
            second=second,
            direct=direct,
            # S_kl has x on its right side and E on its left: T_l = sum_k r_k E^T S_kl x
            across=xp.reshape(xp.permute_dims(xp.reshape(after, (L, p, L, m)), (2, 1, 0, 3)), (L * p, L * m)),
            lengths=xp.reshape(xp.permute_dims(blocks, (1, 0, 2)), (p, -1)),
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

    def of_rows(self, part: Scores, xp: Namespace, moves: Array | None) -> tuple[Array, Array, Array, Array]:
        """C (b, m^2 or m), T (b, L, m), N (b, L, L) and F (b, L, m)."""
        b, L = part.r.shape
        p, m = part.x.shape[1], self.VE.shape[1]
        # C, T and N of the second formula of section 2.5, by pairs of outputs
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

    def moves(self, X: Array, weights: Array | None) -> Array:
        return self.moves_of(X, weights)

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
