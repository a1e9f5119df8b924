"""Largest singular values of parts of a Jacobian: may import what ``engine`` may, and no other room.

There are two kinds: where rows share an eigenbasis, and where they do not.
"""

from fisherleak.engine.information import Information
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.norms.matrix_free import MatrixFree
from fisherleak.engine.norms.shared_basis import SharedBasis

__all__ = ["information_of"]


def information_of(*jacobians: Jacobian) -> Information:
    """The information of one release, or of several about the same data, as the kind that its structure allows."""
    (first, *others) = jacobians
    if others or first.folding is not None or any(attribute.local for attribute in first.attributes):
        return MatrixFree(jacobians)
    return SharedBasis(first)
