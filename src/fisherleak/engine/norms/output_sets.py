"""Sets of examples of several outputs, and columns over all examples, where all rows move alike.

Mathematics: 2.6, ``docs/mathematics/norms.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fisherleak._support.arrays import Array, host, is_lazy, namespace
from fisherleak._support.namespaces import Sums
from fisherleak.engine.information import GROUP_VALUES, Product
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.norms.eigenvalues.largest import top_by_products, top_of_factors
from fisherleak.engine.norms.output_grams import identity
from fisherleak.rows import block_elements, sum_rows

__all__ = ["column_norms", "set_product_of"]

MANY_PARAMETERS = 384
"""Parameters from which on columns come by products: half the time of Gram matrices there, a thirteenth at 640."""
SETTLED = 4e-11
"""Relative residual at which the square of a column's norm is taken."""
BLOCKS = 2
"""Values of the moves of a block of rows, in blocks of the usual size."""


def set_product_of(J: Jacobian, attributes: Sequence[Attribute], label: bool) -> Product:
    """J_S J_S^T of attributes that move all rows alike, as a sum over rows."""
    xp = namespace(J.B)
    E = J.map(attributes)
    make, moves, VE, by_label = J.model.scores, J.moves(), E.after(J.slopes), J.by_label
    L, p, m = J.outputs, J.width, E.width
    matrix = E.after(identity(p, J.B))
    CC = by_label @ by_label.T

    def block(X: Array, y: Array, weights: Array | None) -> Sums:
        part = make(X, y, weights)
        b = part.r.shape[0]
        assert part.A is not None
        F = part.A @ VE[None, :, :]
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
        sums = (part.r.T @ part.r, cross, *squares)
        if moves is None or not m:
            return sums
        g = moves(X, weights)
        bent = xp.reshape((F @ matrix.T[None, :, :]) * g[:, None, :], (b, L * p))
        return (part.r.T @ g, g.T @ g, bent.T @ part.x, *sums)

    def middle(sums: Sums) -> Array:
        scales, rest = (sums[:3], sums[3:]) if moves is not None and m else ((), sums)
        R, cross, *squares = rest
        total = _of_squares(squares, L, p)
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
        return total

    def finish(sums: Sums) -> Array:
        return J.B @ middle(sums) @ J.B.T

    return Product(J.arrays, block, finish, int(J.B.shape[0]), top_of_factors(J.B, middle))


def _of_squares(parts: Sequence[Array], L: int, p: int) -> Array:
    """The symmetric (L p, L p) matrix of the upper blocks of each of its L lines."""
    xp = namespace(parts[0])
    lines = []
    for k in range(L):
        before = [parts[m][:, (k - m) * p : (k - m + 1) * p].T for m in range(k)]
        lines.append(xp.concat([*before, parts[k]], axis=1))
    return xp.concat(lines, axis=0)


def column_norms(J: Jacobian, attributes: Sequence[Attribute]) -> list[float]:
    """||J_j|| over all examples of attributes of one direction that all rows share."""
    columns = _Columns(J, tuple(attributes))
    if is_lazy(J.X) or J.B.shape[0] < MANY_PARAMETERS:
        squares = columns.by_grams(range(len(attributes)))
    else:
        squares = columns.by_products()
    return [max(square, 0.0) ** 0.5 for square in squares]


@dataclass(frozen=True)
class _Columns:
    """The rows r (x) E_j + V g E_j + F_j (x) x of some columns j."""

    J: Jacobian
    attributes: tuple[Attribute, ...]

    def _most(self, values: int) -> int:
        return max(1, BLOCKS * block_elements(self.J.B) // max(values, 1))

    def by_products(self) -> list[float]:
        """Squared norms, as many columns at a time as a block of rows has room for."""
        J = self.J
        E = J.map(self.attributes)
        state = (E.after(J.slopes).T, E.after(identity(J.width, J.B)).T)
        at_once = max(1, GROUP_VALUES // (8 * int(J.B.shape[1]) + 8 * int(J.B.shape[0])))
        values: list[float] = []
        residuals: list[float] = []
        for start in range(0, len(self.attributes), at_once):
            some = tuple(part[start : min(start + at_once, part.shape[0]), :] for part in state)
            found = top_by_products(self._product, some, int(J.B.shape[0]), SETTLED, compiled=False)
            for kept, new in zip((values, residuals), found, strict=True):
                kept += host(new).tolist()
        left = [j for j, residual in enumerate(residuals) if residual > SETTLED]
        for j, square in zip(left, self.by_grams(left), strict=True):
            values[j] = square
        return values

    def _product(self, state: tuple[Array, ...], U: Array) -> Array:
        """B sum_i Z_ij (Z_ij . B^T u_j) of a vector for each column, (c, released parameters)."""
        J = self.J
        xp = namespace(J.B)
        VE, E = state
        make, moves, V = J.model.scores, J.moves(), J.slopes
        (c, L), p = VE.shape, J.width
        inner = xp.reshape(U @ J.B, (c, L, p))
        along = xp.reshape(xp.permute_dims(inner, (2, 0, 1)), (p, c * L))
        onto = xp.sum(inner * E[:, None, :], axis=2).T  # what r meets, (L, c)
        scaled = (xp.sum(inner * V[None, :, :], axis=1) * E).T  # what g meets, (p, c)

        def block(X: Array, y: Array, weights: Array | None) -> Sums:
            part = make(X, y, weights)
            b = part.r.shape[0]
            assert part.A is not None
            F = xp.permute_dims(part.A @ VE.T[None, :, :], (0, 2, 1))  # (b, c, L)
            # Z_ij . B^T u, with Z_ij = r (x) E_j + V g E_j + F_j (x) x
            met = xp.sum(F * xp.reshape(part.x @ along, (b, c, L)), axis=2) + part.r @ onto
            g = None if moves is None else moves(X, weights)
            met = met if g is None else met + g @ scaled
            bent = part.x.T @ xp.reshape(F * met[:, :, None], (b, c * L))
            return (bent, met.T @ part.r, *(() if g is None else (met.T @ g,)))

        bent, by_r, *by_g = sum_rows(block, *J.arrays, most=self._most(3 * c * L + L * L))
        back = xp.permute_dims(xp.reshape(bent, (p, c, L)), (1, 2, 0)) + by_r[:, :, None] * E[:, None, :]
        if by_g:
            back = back + V[None, :, :] * (by_g[0] * E)[:, None, :]
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
        directions, VE = E.after(identity(J.width, J.B)), E.after(J.slopes)
        L, p, m = J.outputs, J.width, len(attributes)

        def block(X: Array, y: Array, weights: Array | None) -> Sums:
            part = make(X, y, weights)
            assert part.A is not None
            F = part.A @ VE[None, :, :]
            direct = part.r[:, :, None]
            direct = direct if moves is None else direct + V[None, :, :] * moves(X, weights)[:, None, :]
            found = []
            for j in range(m):
                # Z_ij (section 2.6)
                rows = F[:, :, j, None] * part.x[:, None, :] + direct * directions[:, j][None, None, :]
                flat = xp.reshape(rows, (part.x.shape[0], L * p))
                found.append(flat.T @ flat)
            return tuple(found)

        grams = sum_rows(block, *J.arrays, most=self._most(L * (p + m + L)))
        return [float(xp.linalg.eigvalsh(J.B @ G @ J.B.T)[-1]) for G in grams]
