"""Penalties of releases that are given none: by numbers that their cards tell anyway."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["DEVIATIONS", "NOT_GIVEN", "PENALTIES", "PublicPenalty"]

NOT_GIVEN = "No penalty was given."
"""How the sentence on it begins."""
DEVIATIONS = "A column with declared bounds is taken to vary by a twelfth of their width."
"""What stands for a standard deviation that no number of a card tells."""
PENALTIES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""The public grid of penalties that are tried where a release has none that is enough."""
LENGTH = 0.125
"""Of a coefficient of several classes, about: where iris, wine and digits, of 4, 13 and 56 columns, are classified well under
the noise for eta = 0.5 and 1."""


@dataclass(frozen=True)
class PublicPenalty:
    r"""The penalty of a release that is given none: numbers that its card tells anyway decide it, and no value of a row does.

    With p parameters, n rows and R the longest admissible row, in standard deviations, noise that keeps a limit eta
    costs about :math:`p R^2 / (2 n^2 \lambda \eta^2)` of loss per row, and the penalty itself about :math:`\lambda / 2`
    where coefficients have a length of one. Their sum is least at :math:`\lambda = \sqrt{p}\, R / (n \eta)`, which is taken,
    with two digits, between the ends of ``PENALTIES``.

    Of K classes the label decides the noise, whose scale is about :math:`R / (n \lambda \eta)` as the penalty holds the
    parameters (``several_penalty``), at :math:`p R^2 / (2 K n^2 \lambda^2 \eta^2)` of loss, and the penalty costs
    :math:`\lambda w^2 / 2` where coefficients have a length of w = 1/8: the least is at
    :math:`\lambda^3 = 2 p R^2 / (K w^2 n^2 \eta^2)`.
    """

    parameters: int
    rows: int
    """As the card has it, with two digits."""
    limit: float
    longest: float
    """R"""
    classes: int | None = None
    """K; None for one output."""

    @property
    def l2(self) -> float:
        least = math.sqrt(self.parameters) * self.longest / (self.rows * self.limit)
        if self.classes is not None:
            least = (2.0 * least**2 / (self.classes * LENGTH**2)) ** (1.0 / 3.0)
        return float(f"{min(max(least, PENALTIES[0]), PENALTIES[-1]):.1e}")

    def words(self) -> str:
        """What a card says of it."""
        rule = "sqrt(p) R / (n eta)" if self.classes is None else f"4 cbrt(2 p R^2 / ({self.classes} n^2 eta^2))"
        return (
            f"{NOT_GIVEN} It is l2 = {self.l2:g}, which is {rule} to two digits, at least {PENALTIES[0]:g} and at most "
            f"{PENALTIES[-1]:g}, about where it and the noise cost least together: p = {self.parameters} parameters, "
            f"n = {self.rows} rows, eta = {self.limit:g}, and R = {self.longest:.3g}, the longest row within the bounds in "
            f"standard deviations. {DEVIATIONS} Nothing but numbers of this card decides it; `l2` chooses another."
        )
