"""Columns of one release with preprocessing folded in, all of them in one pass.

Mathematics: 2.4, ``docs/mathematics/norms.md``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fisherleak._support.arrays import Array, device, like, namespace
from fisherleak._support.namespaces import Sums
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute, map_of
from fisherleak.rows import sum_rows

__all__ = ["folded_attribute_norms"]

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
