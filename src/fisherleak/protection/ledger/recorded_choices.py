r"""Counted choices in a ledger: what was told by which candidate was released, beside what the release itself tells.

A choice is known by one number, the eta that it has at most about anybody (``counted_choice``), in every direction. So with M
the matrix of the releases about a row, what all of it tells is at most

.. math:: \lambda_{max}\Big(M + \sum_k \eta_{choice, k}^2 I\Big) = \lambda_{max}(M) + \sum_k \eta_{choice, k}^2 ,

over the choices of releases that the row was part of. No matrix over columns holds that, so that a ledger with choices tells
etas of whole rows only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.namespaces import Json
from fisherleak.errors import InvalidInputError
from fisherleak.protection.frontier.counted_choice import CountedChoice
from fisherleak.protection.ledger.known_rows import KnownRows
from fisherleak.protection.ledger.ledger_entries import label_slope

__all__ = ["check_no_choices", "eta_of_choice", "told_by_choices"]


def eta_of_choice(choice: Any) -> float:
    """What a choice tells of anybody, at most; zero where there is none."""
    if choice is None:
        return 0.0
    if not isinstance(choice, CountedChoice):
        raise InvalidInputError(
            f"choice must be a counted one, from Frontier.choose; got {type(choice).__name__}. Leave it out only where the "
            "candidate was named beforehand, on other grounds than these rows."
        )
    return choice.eta_choice


def told_by_choices(
    entries: Sequence[Json],
    known: KnownRows,
    n: int,
    notes: Sequence[str],
    units: Mapping[str, float],
    first: int = 1,
) -> NDArray[np.float64]:
    """(n,) sums of squares of the etas of recorded choices about every row, in the units of the ledger or in given ones.

    ``first`` is the number of the first release on its ledger.
    ``notes`` are those of the composition: a category that releases encode differently is refused, as its unit is another.
    """
    found = np.zeros(n)
    for number, (entry, places) in enumerate(zip(entries, known.places, strict=True), first):
        if not entry.get("choice"):
            continue
        if notes:
            raise InvalidInputError(
                f"Release {number} of the ledger was chosen among candidates, and what that tells is known in its own encoding "
                f"only ({notes[0]}): encode categories alike in all releases."
            )
        unit = max(1.0, abs(label_slope(entry))) * max([1.0, *units.values()])
        found[places >= 0] += (unit * float(entry["choice"])) ** 2
    return found


def check_no_choices(entries: Sequence[Json], first: int = 1) -> None:
    """Refuse to tell a leakage by columns where a choice told more that no column holds."""
    chosen = [number for number, entry in enumerate(entries, first) if entry.get("choice")]
    if chosen:
        raise InvalidInputError(
            f"Release {chosen[0]} of the ledger was chosen among candidates, and what the choice tells is known for whole rows "
            "only: ask for etas of rows, Ledger.etas(X, y), or for what is left, Ledger.remaining(eta, X, y)."
        )
