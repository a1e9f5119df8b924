r"""A prior for each row: what an attacker believes of each candidate before he sees a model, (n, k).

Beliefs of rows stand wherever a prior of all rows can: the most probable candidate of row i maximises
:math:`\log P_{ik} + \log f(w' - w_k)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak.errors import InvalidInputError

__all__ = ["as_beliefs"]


def as_beliefs(prior: Any, n: int, k: int) -> NDArray[np.float64] | None:
    """Probabilities of the candidates of each row, (n, k), that sum to one; None where the prior is one for all rows."""
    if hasattr(prior, "items") or np.ndim(prior) != 2:
        return None
    try:
        given = np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"prior must hold probabilities; got {str(prior)[:60]}.") from None
    if given.shape != (n, k):
        raise InvalidInputError(
            f"prior of each row must have shape ({n}, {k}), a column for each candidate; got {given.shape}."
        )
    total = given.sum(axis=1, keepdims=True)
    if not (np.isfinite(given).all() and (given >= 0).all() and (total > 0).all()):
        raise InvalidInputError("prior must be finite and zero or more everywhere, and not all zero in any row.")
    return np.asarray(given / total)
