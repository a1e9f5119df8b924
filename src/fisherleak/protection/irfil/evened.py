"""What IRFIL's whole procedure reveals with the weights that make that even, beside what it does with the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fisherleak.errors import InvalidInputError, NotConvergedError, SingularHessianError
from fisherleak.protection.irfil.even_weights import EvenRound, EvenWeights
from fisherleak.protection.irfil.whole_procedure import Procedure, Round

__all__ = ["EndToEndEtas", "evened"]

Vector = NDArray[np.float64]


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
    form : {"even", "paper"}
        Of the weights: that of ``protection.even_weights``, or the paper's where these end with the smaller spread.
    spread, before : float
        Standard deviation of ``eta`` relative to its mean, and that of the paper's weights (infinite where these have no fit).
    """

    rows: NDArray[np.int64] = field(repr=False)
    fixed: Vector = field(repr=False)
    eta: Vector = field(repr=False)
    form: str
    spread: float
    before: float


def evened(procedure: Procedure) -> tuple[EndToEndEtas, Sequence[Round | EvenRound]]:
    """The rounds with even weights, and their etas; those with the paper's where these spread less."""
    papers = _papers(procedure)
    before = np.inf if papers is None else _spread(papers[0])
    even = EvenWeights(procedure)
    rounds: Sequence[Round | EvenRound] = (found := even.run())
    rows = np.flatnonzero(procedure.counted)
    eta = even.etas(found)[rows]
    if papers is not None and before < _spread(eta):
        eta, rounds = papers
    fixed, order = rounds[-1].eta[rows], np.argsort(-eta, kind="stable")
    form = "even" if rounds is found else "paper"
    return EndToEndEtas(rows[order], fixed[order], eta[order], form, _spread(eta), float(before)), rounds


def _papers(procedure: Procedure) -> tuple[Vector, list[Round]] | None:
    """Etas of the rows that count with the paper's weights, and the rounds."""
    try:
        rounds = procedure.run()
        return procedure.etas(rounds)[procedure.counted], rounds
    except (InvalidInputError, NotConvergedError, SingularHessianError):
        return None


def _spread(eta: Vector) -> float:
    mean = float(np.mean(eta))
    return float(np.std(eta)) / mean if mean > 0 else 0.0
