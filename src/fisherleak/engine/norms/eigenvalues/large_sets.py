r"""The largest eigenvalue of a large :math:`B T B^T`, the matrix of a set of rows, by products with its factors.

To form the matrix and to decompose it takes O(p^3), which is most of an audit where columns are thousands. Lanczos' method
takes a product with each factor a step, O(p^2), and says how far its value may be off; where that does not settle, as in a
set without any large value, the matrix is formed after all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fisherleak._support.arrays import Array, host, is_numpy, namespace
from fisherleak._support.namespaces import Sums
from fisherleak.engine.norms.eigenvalues.lanczos import WANTED, top_by_products

__all__ = ["LARGE", "top_of_factors"]

LARGE = 500
"""Rows of the matrix from which on products are cheaper than decomposing it."""


def top_of_factors(root: Array, middle: Callable[[Sums], Array]) -> Callable[[tuple[Any, ...]], float | None] | None:
    """The largest eigenvalue of B T B^T from the sums that T is made of; None where the matrix is small, or not here.

    The function gives None where the value did not settle to the relative error of the norms of rows.
    """
    if not is_numpy(root) or min(root.shape) < LARGE:
        return None

    def top(sums: tuple[Any, ...]) -> float | None:
        xp, T = namespace(root), middle(sums)

        def product(_: tuple[Array, ...], V: Array) -> Array:
            return ((V @ root) @ T) @ root.T

        values, errors = top_by_products(product, (xp.zeros((1, 1)),), int(root.shape[0]), compiled=False)
        return float(host(values)[0]) if float(host(errors)[0]) <= WANTED else None

    return top
