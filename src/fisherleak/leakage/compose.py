"""Leakage of several independent releases: Fisher information adds up (paper, section 3.1)."""

from __future__ import annotations

from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.models.frames import same_values
from fisherleak.rows.selection import same_rows

__all__ = ["compose"]


def compose(*leakages: Leakage) -> Leakage:
    """Leakage of several independent releases about the same data.

    Fisher information adds up (paper, section 3.1), so the matrices are added before the norm is taken: never more,
    and usually less, than the root of the sum of squares of the etas.

    Parameters
    ----------
    *leakages : Leakage
        Of the same rows, labels and attributes in the same order; models, losses, features and noise may differ.

    Returns
    -------
    Leakage
        With the same methods. Per-example etas of a composition cost O(n d^3): releases share no eigenbasis.

    Notes
    -----
    Holds where the noise of the releases is independent, and each release's own assumptions hold.
    """
    if not leakages:
        raise InvalidInputError("compose needs at least one leakage.")
    for leakage in leakages:
        if not isinstance(leakage, Leakage):
            raise InvalidInputError(
                f"compose takes leakages, one by one: compose(leak_a, leak_b); got {type(leakage).__name__}."
            )
    first = leakages[0]
    sizes = [(attribute.name, attribute.size) for attribute in first._parts[0].attributes]
    for other in leakages[1:]:
        if other.n != first.n or [(a.name, a.size) for a in other._parts[0].attributes] != sizes:
            raise InvalidInputError(
                f"compose needs releases about the same data: {first.n} rows with attributes {first.attributes} are "
                f"not {other.n} rows with attributes {other.attributes}."
            )
        if other._table.names == first._table.names and not same_values(first._table, other._table):
            raise InvalidInputError("compose needs releases about the same data: the values of their tables differ.")
        if not same_rows(first._parts[0].y, other._parts[0].y):
            raise InvalidInputError("compose needs releases about the same data: their labels y differ.")
    if len(leakages) == 1:
        return first
    parts = tuple(part.scaled(1.0 / leakage._scale) for leakage in leakages for part in leakage._parts)
    return Leakage(parts, None, first._table)
