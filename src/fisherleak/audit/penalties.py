"""Penalties of releases that are given none: by numbers that their cards tell anyway."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["NOT_GIVEN", "PENALTIES", "PublicPenalty"]

NOT_GIVEN = "No penalty was given."
"""How the sentence on it begins."""
PENALTIES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""The public grid of penalties that are tried where a release has none that is enough."""
PER_PARAMETER = 8.0
"""Times the parameters for each row: the penalty of a release of several classes where none is given. About where iris and
wine, of 4 and 13 columns, are classified best under the noise for eta = 1."""


@dataclass(frozen=True)
class PublicPenalty:
    r"""The penalty of a release that is given none: numbers that its card tells anyway decide it, and no value of a row does.

    With p parameters, n rows and R the longest admissible row, in standard units, noise that keeps a limit eta costs about
    :math:`p R^2 / (2 n^2 \lambda \eta^2)` of loss per row, and the penalty itself about :math:`\lambda / 2` where coefficients
    have a length of one. Their sum is least at :math:`\lambda = \sqrt{p}\, R / (n \eta)`, which is taken, with two digits,
    between the ends of ``PENALTIES``.

    Bounds for whoever could be in a small table of several classes want more of it: there it is the least of ``PENALTIES`` that
    is at least 8 p / n.
    """

    parameters: int
    rows: int
    """As the card has it, with two digits."""
    limit: float
    longest: float | None = None
    """R; None for several classes."""

    @property
    def l2(self) -> float:
        if self.longest is None:
            least = PER_PARAMETER * self.parameters * (1.0 - 1e-12)
            return next((l2 for l2 in PENALTIES if l2 * self.rows >= least), PENALTIES[-1])
        least = math.sqrt(self.parameters) * self.longest / (self.rows * self.limit)
        return float(f"{min(max(least, PENALTIES[0]), PENALTIES[-1]):.1e}")

    def words(self) -> str:
        """What a card says of it."""
        return f"{NOT_GIVEN} {self._rule()} Nothing but numbers of this card decides it; `l2` chooses another."

    def _rule(self) -> str:
        if self.longest is None:
            grid = ", ".join(f"{l2:g}" for l2 in PENALTIES[:3])
            return (
                f"It is l2 = {self.l2:g}, for several classes the least of {grid}, … {PENALTIES[-1]:g} that is at least "
                f"{PER_PARAMETER:g} x {self.parameters} parameters / {self.rows} rows."
            )
        return (
            f"It is l2 = {self.l2:g}, which is sqrt(p) R / (n eta) to two digits, at least {PENALTIES[0]:g} and at most "
            f"{PENALTIES[-1]:g}, about where it and the noise cost least together: p = {self.parameters} parameters, "
            f"n = {self.rows} rows, eta = {self.limit:g}, and R = {self.longest:.3g}, the longest row within the bounds in "
            "standard units."
        )
