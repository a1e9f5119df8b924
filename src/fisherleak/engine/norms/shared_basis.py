"""Norms of parts of the Jacobian: one example, one cell, one attribute, any set, in O(n d^2 + d^3).

Mathematics: 2.1, ``docs/mathematics/norms.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fisherleak._support.arrays import Array, device, host, like, namespace
from fisherleak._support.namespaces import Namespace, Sums
from fisherleak.engine.information import Product, TableInformation, written_rows
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.norms.secular import top_eigenvalues
from fisherleak.rows import map_rows, sum_rows

CANCELLED = 1e-3
"""A squared cell norm below this part of its terms is computed again without squares."""


@dataclass(frozen=True)
class SharedBasis(TableInformation):
    """The information of one release whose examples share an eigenbasis."""

    def _named(self, attributes: Sequence[Attribute]) -> tuple[Jacobian, tuple[Attribute, ...]]:
        J = self.releases[0].jacobian
        return J, J.named(attributes)

    def example_norms(self, attributes: Sequence[Attribute], label: bool) -> Array:
        J, attributes = self._named(attributes)
        xp = namespace(J.B)
        E = J.map(attributes)
        if E.width == 0:
            return _label_norms(J)
        w = E.pull(J.theta)
        length = xp.linalg.vector_norm(w)
        e = _unit(w, xp)
        A = E.after(J.B)
        # A = B E, and v = B E e; A' = A - v e^T of section 2.1, which with the label of a quadratic loss keeps the part q
        # of v (`_turned`)
        v = A @ e
        along, by_label = _turned(J, length, xp) if label and J.fit.loss.quadratic else (None, 0.0)
        s, basis, plain = _eigenbasis(A, A - ((1.0 - by_label) * v)[:, None] * e[None, :], xp)
        v = basis.T @ v
        if plain < v.shape[0]:
            v = xp.concat([v[:plain], xp.zeros(1, dtype=v.dtype, device=device(v))])
        # B x in the basis in which A' A'^T is diag(s): then section 2.2
        into = J.B.T @ basis
        model = J.model

        def block(X: Array, y: Array, weights: Array | None) -> Array:
            rows = model.rows(X, y, weights)
            U = rows.x @ into
            if plain < U.shape[1]:
                # beyond the range of A the diagonal and v vanish: only the length of u counts there
                rest = xp.linalg.vector_norm(U[:, plain:], axis=1)
                U = xp.concat([U[:, :plain], rest[:, None]], axis=1)
            if along is not None:
                return xp.sqrt(top_eigenvalues(s, length / along * v, U, rows.r, along * rows.a, None))
            return xp.sqrt(top_eigenvalues(s, v, U, rows.r, length * rows.a, rows.c if label else None))

        return map_rows(block, *J.arrays)

    def cell_norms(self, attributes: Sequence[Attribute]) -> Array:
        J, attributes = self._named(attributes)
        plain = [attribute for attribute in attributes if attribute.size == 1]
        others = [attribute for attribute in attributes if attribute.size > 1]
        squares = [cell_squares(J, plain)] if plain else []
        blocks = [self.example_norms([attribute], False) for attribute in others]
        return cells_in_order(squares, blocks, [*plain, *others], attributes, J.B)

    def attribute_norms(self, attributes: Sequence[Attribute]) -> Array:
        r"""||J_j|| of each attribute.

        With :math:`R = \sum r^2`, :math:`\bar x = \sum r a x / R` and
        :math:`G = \sum (a x - r \bar x)(a x - r \bar x)^T`, an attribute with one direction has

        .. math:: J_j J_j^T = w_j^2\, B G B^T + R\, t t^T, \qquad t = B (E_j + w_j \bar x),

        so all of them share one eigenbasis, with rank one each.
        """
        J, attributes = self._named(attributes)
        xp = namespace(J.B)
        R, mean, G = _centred(J)
        base = J.B @ G @ J.B.T
        values: dict[str, float] = {}
        plain = [attribute for attribute in attributes if attribute.size == 1]
        if plain:
            E = J.map(plain)
            w = E.pull(J.theta)
            t = E.after(J.B) + (J.B @ mean)[:, None] * w[None, :]
            s, basis = xp.linalg.eigh(base)
            roots = xp.ones_like(w) * R**0.5
            # w_j^2 diag(s) + R t t^T: section 2.2 with w in place of r, v = 0 and c = 0
            mu = top_eigenvalues(xp.clip(s, 0.0, None), xp.zeros_like(s), t.T @ basis, w, roots, None)
            roots = host(xp.sqrt(mu))
            values = {attribute.name: float(roots[k]) for k, attribute in enumerate(plain)}
        for attribute in attributes:
            if attribute.size > 1:
                E = J.map([attribute])
                w = E.pull(J.theta)
                A = E.after(J.B)
                e = _unit(w, xp)
                length = xp.sum(w * e)
                # the same of several directions: |w|^2 B G B^T + R (B (E + x-bar w^T)) (B (E + x-bar w^T))^T
                shifted = A + (J.B @ mean * length)[:, None] * e[None, :]
                top = xp.linalg.eigvalsh(length**2 * base + R * (shifted @ shifted.T))[-1]
                values[attribute.name] = float(xp.sqrt(xp.clip(top, 0.0, None)))
        return like([values[attribute.name] for attribute in attributes], J.B, xp)

    def set_product(self, attributes: Sequence[Attribute], label: bool) -> Product:
        r"""J_S J_S^T of one release, with one product over the rows.

        Turning (j_1, j_2) of each example by the angle between :math:`a |E^T w|` and c makes one of them parallel to the
        fixed vector :math:`f = B E e`:

        .. math:: j_1 j_1^T + j_2 j_2^T = k k^T + \frac{r^2 c^2}{\kappa} f f^T, \qquad
                  k = \sqrt\kappa\, B x + \frac{a |E^T w| r}{\sqrt\kappa} f, \qquad \kappa = a^2 |E^T w|^2 + c^2 .
        """
        J, attributes = self._named(attributes)
        xp = namespace(J.B)
        E = J.map(attributes)
        w = E.pull(J.theta)
        e = _unit(w, xp)
        pushed = E.push(e)
        length = xp.linalg.vector_norm(w)
        model = J.model

        def block(X: Array, y: Array, weights: Array | None) -> Sums:
            part = model.rows(X, y, weights)
            h = length * part.a
            c = part.c if label else xp.zeros_like(h)
            root = xp.hypot(h, c)
            safe = xp.where(root > 0, root, 1.0)
            # k before B, with f = B E e: sqrt(kappa) is `root` and a |E^T w| is `h`
            moved = root[:, None] * part.x
            moved += (h / safe * part.r)[:, None] * pushed[None, :]
            rest = xp.where(root > 0, c / safe, 1.0) * part.r
            return moved.T @ moved, xp.sum(part.r * part.r), xp.sum(rest * rest)

        def finish(sums: Sums) -> Array:
            G, total, along = sums
            A = E.after(J.B)
            f = A @ e
            reduced = A - f[:, None] * e[None, :]
            # the first formula of section 2.1, summed over the rows
            return J.B @ G @ J.B.T + total * (reduced @ reduced.T) + along * (f[:, None] * f[None, :])

        return Product(J.arrays, block, finish, int(J.B.shape[0]))

    def certain(self, attributes: Sequence[Attribute], label: bool, row: int, norm: float) -> float:
        return norm * (1.0 + self.error)

    def written_out(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> Array:
        return written_rows(self.jacobians, attributes, label, rows)


def _turned(J: Jacobian, length: Array, xp: Namespace) -> tuple[Array, Array]:
    r"""For a quadratic loss, one rank-one term per example instead of two.

    With a and c constant, turning (j_1, j_2) as in :meth:`SharedBasis.set_product` leaves

    .. math:: j_1 j_1^T + j_2 j_2^T = k k^T + r^2 q^2 f f^T, \qquad
              k = t\, B x + \frac{|E^T w|}{t} r f, \quad t = (|E^T w|^2 + c^2)^{1/2}, \quad q = |c| / t

    for a = 1, and the second term joins the fixed matrix. Returns t / a and q.
    """
    one = xp.ones_like(J.theta[:1])
    a, c = J.fit.loss.a(one, one)[0], J.fit.loss.c(one, one)[0]
    slope = xp.abs(c / a)
    along = xp.hypot(length, slope)
    return along, slope / along


def _label_norms(J: Jacobian) -> Array:
    """|c_i B x_i|: the label alone."""
    xp = namespace(J.B)
    model, B = J.model, J.B

    def block(X: Array, y: Array, weights: Array | None) -> Array:
        rows = model.rows(X, y, weights)
        return xp.abs(rows.c) * xp.linalg.vector_norm(rows.x @ B.T, axis=1)

    return map_rows(block, *J.arrays)


def _unit(w: Array, xp: Namespace) -> Array:
    """The unit vector along w, or any where w is zero."""
    length = float(xp.linalg.vector_norm(w))
    if length > 0:
        return w / length
    return xp.astype(xp.arange(w.shape[0], device=device(w)) == 0, w.dtype)


def _eigenbasis(A: Array, reduced: Array, xp: Namespace) -> tuple[Array, Array, int]:
    """Orthonormal basis (p, p) in which ``reduced reduced^T`` is diag(s).

    Where A has few columns, the basis starts with ``plain`` vectors that span its range and s covers these and
    one more pole at zero for all the rest.
    """
    p, m = A.shape
    if 2 * m > p:
        s, basis = xp.linalg.eigh(reduced @ reduced.T)
        return xp.clip(s, 0.0, None), basis, p
    frame, _ = xp.linalg.qr(A, mode="complete")
    inner = frame[:, :m].T @ reduced
    s, turn = xp.linalg.eigh(inner @ inner.T)
    s = xp.concat([xp.clip(s, 0.0, None), xp.zeros(1, dtype=s.dtype, device=device(s))])
    return s, xp.concat([frame[:, :m] @ turn, frame[:, m:]], axis=1), m


def cells_in_order(
    squares: Sequence[Array],
    blocks: Sequence[Array],
    found: Sequence[Attribute],
    wanted: Sequence[Attribute],
    reference: Array,
) -> Array:
    """Cells from the squares of one-dimensional attributes, added up over releases, and the norms of the others.

    A block has the norms of one of these, (n,), or of several, (n, k).
    """
    xp = namespace(reference)
    place = {attribute.name: k for k, attribute in enumerate(found)}
    order = like(np.array([place[attribute.name] for attribute in wanted], dtype=np.int64), reference, xp)
    count = len(squares)

    def together(*pieces: Array) -> Array:
        cells = [xp.sqrt(sum(pieces[1:count], start=pieces[0]))] if count else []
        if len(pieces) == count:
            return cells[0]
        others = [xp.reshape(piece, (piece.shape[0], -1)) for piece in pieces[count:]]
        return xp.take(xp.concat([*cells, *others], axis=1), order, axis=1)

    return map_rows(together, *squares, *blocks, width=len(wanted))


def cell_squares(J: Jacobian, attributes: Sequence[Attribute]) -> Array:
    """Squares of |a w_j B x + (r + m_j) B E_j|, all one-dimensional attributes in one product; m is zero but for folded scales.

    With folded scales each attribute must feed one column.
    """
    xp = namespace(J.B)
    E = J.map(attributes)
    A = E.after(J.B)
    w = E.pull(J.theta)
    lengths = xp.sum(A * A, axis=0)
    model, B = J.model, J.B
    columns = like(np.array([attribute.columns[0] for attribute in attributes], dtype=np.int64), J.B, xp)

    def block(X: Array, y: Array, weights: Array | None) -> Array:
        rows = model.rows(X, y, weights)
        u = rows.x @ B.T
        r = rows.r[:, None] if rows.direct is None else xp.take(rows.direct, columns, axis=1)
        # the three terms of the square of a w_j B x + r B E_j (section 1.2); where they cancel, the vector itself
        along = (rows.a**2 * xp.vecdot(u, u))[:, None] * (w * w)[None, :]
        across = 2.0 * rows.a[:, None] * r * (u @ A) * w[None, :]
        fixed = r**2 * lengths[None, :]
        squares = along + across + fixed
        i, j = xp.nonzero(squares < CANCELLED * (along + fixed))
        if i.shape[0] == 0:
            return squares
        direct = xp.take(rows.r, i) if rows.direct is None else _picked(r, i, j, xp)
        again = (xp.take(rows.a, i) * xp.take(w, j))[:, None] * xp.take(u, i, axis=0)
        again = again + direct[:, None] * xp.take(A, j, axis=1).T
        return replaced(squares, i, j, xp.vecdot(again, again), xp)

    return map_rows(block, *J.arrays, width=len(attributes))


def _picked(matrix: Array, i: Array, j: Array, xp: Namespace) -> Array:
    return xp.take(xp.reshape(matrix, (-1,)), i * matrix.shape[1] + j)


def replaced(matrix: Array, i: Array, j: Array, values: Array, xp: Namespace) -> Array:
    """Matrix with matrix[i, j] = values, where the (i, j) come in the order of ``nonzero``."""
    flat = xp.reshape(matrix, (-1,))
    position = i * matrix.shape[1] + j
    order = xp.searchsorted(position, xp.arange(flat.shape[0], device=device(flat)))
    order = xp.clip(order, 0, position.shape[0] - 1)
    hit = xp.take(position, order) == xp.arange(flat.shape[0], device=device(flat))
    return xp.reshape(xp.where(hit, xp.take(values, order), flat), matrix.shape)


def _centred(J: Jacobian) -> tuple[float, Array, Array]:
    """R, the mean x-bar and the Gram matrix G of the columns' formula."""
    xp = namespace(J.B)
    model = J.model

    def first(X: Array, y: Array, weights: Array | None) -> Sums:
        rows = model.rows(X, y, weights)
        return xp.sum(rows.r**2), rows.x.T @ (rows.r * rows.a)

    R, q = sum_rows(first, *J.arrays)
    mean = q / R if float(R) > 0 else xp.zeros_like(q)

    def second(X: Array, y: Array, weights: Array | None) -> Sums:
        rows = model.rows(X, y, weights)
        centred = rows.a[:, None] * rows.x - rows.r[:, None] * mean[None, :]
        return (centred.T @ centred,)

    (G,) = sum_rows(second, *J.arrays)
    return float(R), mean, G
