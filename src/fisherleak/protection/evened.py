r"""The weights with which IRFIL's whole procedure reveals about as much of everyone.

**Equal etas of the whole procedure.** Weights that followed each row's own end-to-end eta would add their own derivative, and
make matters worse. Here the exponents are public numbers, multiples of 1/8: what is chosen from the data is which of them, by
all rows together, and a small change of one row leaves it. So the derivative is that of the procedure as it runs, and the
exponents are those with which its etas spread least.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.progress import track
from fisherleak.errors import NotConvergedError, SingularHessianError
from fisherleak.protection.whole_procedure import Procedure, Round

__all__ = ["EndToEndEtas", "evenest"]

Vector = NDArray[np.float64]
STEPS = (0.5, 0.25, 0.125)
"""Of the search for exponents."""


@dataclass(frozen=True)
class EndToEndEtas:
    """Etas of all rows with the weights' own dependence on the data.

    Attributes
    ----------
    rows : array of shape (n,)
        Positions of the rows that count, the largest end-to-end eta first.
    fixed : array of shape (n,)
        Eta with the weights held fixed.
    eta : array of shape (n,)
        Eta of the whole procedure.
    exponents : dict
        What the weights were made with: minus the powers of the norms of ``chosen`` (the attributes asked for, everything with
        the label by default), ``features`` and ``label``.
    spread, before : float
        Standard deviation of ``eta`` relative to its mean, and that of the paper's weights (1 for ``chosen``).
    """

    rows: NDArray[np.int64] = field(repr=False)
    fixed: Vector = field(repr=False)
    eta: Vector = field(repr=False)
    exponents: dict[str, float]
    spread: float
    before: float


def evenest(procedure: Procedure) -> tuple[EndToEndEtas, list[Round]]:
    """The exponents, multiples of 1/8, at which the procedure's own etas spread least, found step by step from the paper's."""
    names = tuple(procedure.directions)
    best = tuple(1.0 if name == "chosen" else 0.0 for name in names)
    seen: dict[tuple[float, ...], float] = {}

    def spread(powers: tuple[float, ...]) -> float:
        if powers not in seen:
            seen[powers] = _spread_or_far(procedure, dict(zip(names, powers, strict=True)))
        return seen[powers]

    before = spread(best)
    for step in STEPS if procedure.count else ():
        while True:
            around = list(_neighbours(best, step))
            for powers in track(around, len(around), "Equalising"):
                spread(powers)
            near = min(around, key=spread)
            if not spread(near) < spread(best):
                break
            best = near
    exponents = dict(zip(names, best, strict=True))
    rounds = procedure.run(exponents)
    rows = np.flatnonzero(procedure.counted)
    eta, fixed = procedure.etas(rounds, exponents)[rows], rounds[-1].eta[rows]
    order = np.argsort(-eta, kind="stable")
    return EndToEndEtas(rows[order], fixed[order], eta[order], exponents, spread(best), before), rounds


def _neighbours(powers: tuple[float, ...], step: float) -> Iterator[tuple[float, ...]]:
    """One exponent moved, or two of them against each other."""
    units = np.eye(len(powers)) * step
    for unit in units:
        yield from (tuple((np.array(powers) + side * unit).tolist()) for side in (1.0, -1.0))
    for one, other in permutations(units, 2):
        yield tuple((np.array(powers) + one - other).tolist())


def _spread_or_far(procedure: Procedure, exponents: Mapping[str, float]) -> float:
    """Of the end-to-end etas, relative to their mean; infinite where such weights have no fit."""
    try:
        eta = procedure.etas(procedure.run(exponents), exponents)[procedure.counted]
    except (NotConvergedError, SingularHessianError):
        return float("inf")
    return float(np.std(eta) / np.mean(eta)) if np.all(np.isfinite(eta)) else float("inf")
