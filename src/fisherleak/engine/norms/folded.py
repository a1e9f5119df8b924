r"""Columns of one release with preprocessing folded in, all of them in one pass.

A change of an attribute moves the features of every row by the same E, with a direct effect d on the gradient that differs from
feature to feature (r, and what the change does to the scale of its column). Over all rows

.. math::

    J_j J_j^T = B \big( |w|^2 G + M \mathrm{diag}(E w) + \mathrm{diag}(E w) M^T + D \circ (E E^T) \big) B^T,
    \qquad w = E^T \theta,

with :math:`G = \sum a^2 x x^T`, :math:`M = \sum a\, x d^T` and :math:`D = \sum d d^T`, which all attributes share.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fisherleak._support.arrays import Array, device, like, namespace
from fisherleak._support.namespaces import Sums
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.perturbation import Attribute, map_of
from fisherleak.rows import sum_rows

__all__ = ["folded_attribute_norms"]


def folded_attribute_norms(J: Jacobian, attributes: Sequence[Attribute]) -> list[float]:
    """||J_j|| over all examples at once of attributes whose directions all rows share."""
    if not attributes:
        return []
    xp = namespace(J.B)
    model = J.model

    def block(X: Array, y: Array, weights: Array | None) -> Sums:
        rows = model.rows(X, y, weights)
        along = rows.a[:, None] * rows.x
        direct = xp.broadcast_to(rows.r[:, None], rows.x.shape) if rows.direct is None else rows.direct
        return along.T @ along, along.T @ direct, direct.T @ direct

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
        cross = (side * E.push(w)[None, :]) @ B.T
        fixed = B @ (xp.take(direct, columns, axis=0) * (square @ square.T)) @ B.T
        top = xp.linalg.eigvalsh(xp.sum(w * w) * base + cross + cross.T + fixed)[-1]
        found.append(float(xp.sqrt(xp.clip(top, 0.0, None))))
    return found
