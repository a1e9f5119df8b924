r"""Norms of parts of the Jacobian: one example, one cell, one attribute, any set, in O(n d^2 + d^3).

With e the unit vector along :math:`E^T w`, the data directions split into those orthogonal to e, along which
an example's Jacobian is the fixed matrix :math:`r_i B E (I - e e^T)`, and two more, e and the label:

.. math::

    J_i J_i^T = r_i^2\, A' A'^T + j_1 j_1^T + j_2 j_2^T, \qquad A' = B E (I - e e^T),

.. math:: j_1 = r_i B E e + a_i |E^T w|\, B x_i, \qquad j_2 = c_i B x_i .

A sum of positive semidefinite terms: a fixed matrix, decomposed once, plus rank two per example. All
functions here are for noise of scale 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, device, host, like, namespace
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.norms import matrix_free
from fisherleak.engine.norms.secular import top_eigenvalues
from fisherleak.engine.perturbation import Attribute
from fisherleak.rows import map_rows, sum_groups, sum_rows

__all__ = ["attribute_norms", "cell_norms", "example_norms", "group_norms", "set_norm"]

CANCELLED = 1e-3
"""A squared cell norm below this part of its terms is computed again without squares."""
GROUP_VALUES = 2**24
"""Values of the matrices of all groups that are summed in one pass over lazy rows."""


def example_norms(parts: Sequence[Jacobian], attributes: Sequence[Attribute], label: bool) -> Array:
    """||J_i|| over the given attributes (and the label), for every example: (n,)."""
    if matrix_free.needed(parts, attributes):
        return matrix_free.example_norms(parts, attributes, label)
    (J,) = parts
    xp = namespace(J.B)
    E = J.map(attributes)
    if E.width == 0:
        return _label_norms(J)
    w = E.pull(J.theta)
    length = xp.linalg.vector_norm(w)
    e = _unit(w, xp)
    A = E.after(J.B)
    v = A @ e
    along, by_label = _turned(J, length, xp) if label and J.fit.loss.quadratic else (None, 0.0)
    s, basis, plain = _eigenbasis(A, A - ((1.0 - by_label) * v)[:, None] * e[None, :], xp)
    v = basis.T @ v
    if plain < v.shape[0]:
        v = xp.concat([v[:plain], xp.zeros(1, dtype=v.dtype, device=device(v))])
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


def _turned(J: Jacobian, length: Array, xp: Any) -> tuple[Array, Array]:
    r"""For a quadratic loss, one rank-one term per example instead of two.

    With a and c constant, turning (j_1, j_2) as in :func:`_set_product` leaves

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


def _unit(w: Array, xp: Any) -> Array:
    """The unit vector along w, or any where w is zero."""
    length = float(xp.linalg.vector_norm(w))
    if length > 0:
        return w / length
    return xp.astype(xp.arange(w.shape[0], device=device(w)) == 0, w.dtype)


def _eigenbasis(A: Array, reduced: Array, xp: Any) -> tuple[Array, Array, int]:
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


def cell_norms(parts: Sequence[Jacobian], attributes: Sequence[Attribute]) -> Array:
    """||J_ij|| of every attribute j of every example i: (n, number of attributes)."""
    xp = namespace(parts[0].B)
    local = {attribute.name for J in parts for attribute in J.named(attributes) if attribute.local}
    plain = [attribute for attribute in attributes if attribute.size == 1 and attribute.name not in local]
    others = [attribute for attribute in attributes if attribute.size > 1 or attribute.name in local]
    squares = [_plain_cells(J, J.named(plain)) for J in parts] if plain else []
    blocks = [example_norms(parts, [attribute], label=False) for attribute in others]
    # the pieces' columns, in the order of the attributes
    place = {attribute.name: k for k, attribute in enumerate([*plain, *others])}
    order = like(np.array([place[attribute.name] for attribute in attributes], dtype=np.int64), parts[0].B, xp)
    count = len(squares)

    def together(*pieces: Array) -> Array:
        cells = [xp.sqrt(sum(pieces[1:count], start=pieces[0]))] if count else []
        if len(pieces) == count:
            return cells[0]
        return xp.take(xp.concat([*cells, *(piece[:, None] for piece in pieces[count:])], axis=1), order, axis=1)

    return map_rows(together, *squares, *blocks, width=len(attributes))


def _plain_cells(J: Jacobian, attributes: Sequence[Attribute]) -> Array:
    """Squares of |a w_j B x + r B E_j|, all one-dimensional attributes in one product."""
    xp = namespace(J.B)
    E = J.map(attributes)
    A = E.after(J.B)
    w = E.pull(J.theta)
    lengths = xp.sum(A * A, axis=0)
    model, B = J.model, J.B

    def block(X: Array, y: Array, weights: Array | None) -> Array:
        rows = model.rows(X, y, weights)
        u = rows.x @ B.T
        along = (rows.a**2 * xp.vecdot(u, u))[:, None] * (w * w)[None, :]
        across = 2.0 * (rows.a * rows.r)[:, None] * (u @ A) * w[None, :]
        fixed = (rows.r**2)[:, None] * lengths[None, :]
        squares = along + across + fixed
        i, j = xp.nonzero(squares < CANCELLED * (along + fixed))
        if i.shape[0] == 0:
            return squares
        again = (xp.take(rows.a, i) * xp.take(w, j))[:, None] * xp.take(u, i, axis=0) + xp.take(rows.r, i)[
            :, None
        ] * xp.take(A, j, axis=1).T
        return _replaced(squares, i, j, xp.vecdot(again, again), xp)

    return map_rows(block, *J.arrays, width=len(attributes))


def _replaced(matrix: Array, i: Array, j: Array, values: Array, xp: Any) -> Array:
    """Matrix with matrix[i, j] = values, where the (i, j) come in the order of ``nonzero``."""
    flat = xp.reshape(matrix, (-1,))
    position = i * matrix.shape[1] + j
    order = xp.searchsorted(position, xp.arange(flat.shape[0], device=device(flat)))
    order = xp.clip(order, 0, position.shape[0] - 1)
    hit = xp.take(position, order) == xp.arange(flat.shape[0], device=device(flat))
    return xp.reshape(xp.where(hit, xp.take(values, order), flat), matrix.shape)


def set_norm(
    parts: Sequence[Jacobian], attributes: Sequence[Attribute], label: bool, rows: Array | None = None
) -> float:
    """||J_S|| of all the given attributes (and labels) of a set of examples, taken jointly.

    For several releases their Jacobians are stacked, so the information adds up exactly.
    """
    if matrix_free.needed(parts, attributes):
        product = matrix_free.set_product(parts, attributes, label)
    else:
        product = _set_product(parts[0], attributes, label)
    return _root(product.finish(sum_rows(product.block, *product.arrays, rows=rows, most=product.most)))


def group_norms(
    parts: Sequence[Jacobian],
    attributes: Sequence[Attribute],
    label: bool,
    labels: Array,
    groups: Sequence[Any],
    missing: Callable[[Any], Any],
) -> list[float]:
    """The same for each of several groups of lazy rows, in one pass for as many as fit (see ``sum_groups``)."""
    product = matrix_free.set_product if matrix_free.needed(parts, attributes) else _of_one
    work = product(parts, attributes, label)
    at_once = max(1, GROUP_VALUES // parts[0].B.shape[0] ** 2)
    norms: list[float] = []
    for start in range(0, len(groups), at_once):
        some = groups[start : start + at_once]
        sums = sum_groups(work.block, *work.arrays, labels=labels, groups=some, missing=missing)
        norms += [_root(work.finish(total)) for total in sums]
    return norms


def _root(M: Array) -> float:
    xp = namespace(M)
    return float(xp.sqrt(xp.clip(xp.linalg.eigvalsh(M)[-1], 0.0, None)))


def _of_one(parts: Sequence[Jacobian], attributes: Sequence[Attribute], label: bool) -> matrix_free.Product:
    return _set_product(parts[0], attributes, label)


def _set_product(J: Jacobian, attributes: Sequence[Attribute], label: bool) -> matrix_free.Product:
    r"""J_S J_S^T of one release, with one product over the rows.

    Turning (j_1, j_2) of each example by the angle between :math:`a |E^T w|` and c makes one of them parallel to the
    fixed vector :math:`f = B E e`:

    .. math:: j_1 j_1^T + j_2 j_2^T = k k^T + \frac{r^2 c^2}{\kappa} f f^T, \qquad
              k = \sqrt\kappa\, B x + \frac{a |E^T w| r}{\sqrt\kappa} f, \qquad \kappa = a^2 |E^T w|^2 + c^2 .
    """
    xp = namespace(J.B)
    E = J.map(attributes)
    w = E.pull(J.theta)
    e = _unit(w, xp)
    pushed = E.push(e)
    length = xp.linalg.vector_norm(w)
    model = J.model

    def block(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
        part = model.rows(X, y, weights)
        h = length * part.a
        c = part.c if label else xp.zeros_like(h)
        root = xp.hypot(h, c)
        safe = xp.where(root > 0, root, 1.0)
        moved = root[:, None] * part.x
        moved += (h / safe * part.r)[:, None] * pushed[None, :]
        rest = xp.where(root > 0, c / safe, 1.0) * part.r
        return moved.T @ moved, xp.sum(part.r * part.r), xp.sum(rest * rest)

    def finish(sums: tuple[Any, ...]) -> Array:
        G, total, along = sums
        A = E.after(J.B)
        f = A @ e
        reduced = A - f[:, None] * e[None, :]
        return J.B @ G @ J.B.T + total * (reduced @ reduced.T) + along * (f[:, None] * f[None, :])

    return matrix_free.Product(J.arrays, block, finish, None)


def attribute_norms(parts: Sequence[Jacobian], attributes: Sequence[Attribute]) -> Array:
    r"""||J_j|| of each attribute over all examples at once: (number of attributes,).

    With :math:`R = \sum r^2`, :math:`\bar x = \sum r a x / R` and
    :math:`G = \sum (a x - r \bar x)(a x - r \bar x)^T`, an attribute with one direction has

    .. math:: J_j J_j^T = w_j^2\, B G B^T + R\, t t^T, \qquad t = B (E_j + w_j \bar x),

    so all of them share one eigenbasis, with rank one each.
    """
    xp = namespace(parts[0].B)
    if matrix_free.needed(parts, attributes):
        return like([set_norm(parts, [attribute], False) for attribute in attributes], parts[0].B, xp)
    (J,) = parts
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
            shifted = A + (J.B @ mean * length)[:, None] * e[None, :]
            top = xp.linalg.eigvalsh(length**2 * base + R * (shifted @ shifted.T))[-1]
            values[attribute.name] = float(xp.sqrt(xp.clip(top, 0.0, None)))
    return like([values[attribute.name] for attribute in attributes], J.B, xp)


def _centred(J: Jacobian) -> tuple[float, Array, Array]:
    """R, the mean x-bar and the Gram matrix G of the docstring above."""
    xp = namespace(J.B)
    model = J.model

    def first(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
        rows = model.rows(X, y, weights)
        return xp.sum(rows.r**2), rows.x.T @ (rows.r * rows.a)

    R, q = sum_rows(first, *J.arrays)
    mean = q / R if float(R) > 0 else xp.zeros_like(q)

    def second(X: Array, y: Array, weights: Array | None) -> tuple[Any, ...]:
        rows = model.rows(X, y, weights)
        centred = rows.a[:, None] * rows.x - rows.r[:, None] * mean[None, :]
        return (centred.T @ centred,)

    (G,) = sum_rows(second, *J.arrays)
    return float(R), mean, G
