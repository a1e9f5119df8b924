"""The penalty of a release and the covariance of its noise where none is given: by numbers that its card tells anyway."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fisherleak._support.numbers import number
from fisherleak.protection.calibrate.shapes import ISOTROPIC, LEAST_LOSS
from fisherleak.protection.data_dependent.hessian_shape import HESSIAN

__all__ = ["DEVIATIONS", "NOT_GIVEN", "NO_SHAPE", "PENALTIES", "PublicPenalty", "PublicShape"]

NOT_GIVEN = "No penalty was given."
"""How the sentence on it begins."""
DEVIATIONS = "A column with declared bounds is taken to vary by a twelfth of their width."
"""What stands for a standard deviation that no number of a card tells."""
PENALTIES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""The public grid of penalties that are tried where a release has none that is enough."""
LENGTH = 0.125
"""Of a coefficient of several classes, about: where iris, wine and digits, of 4, 13 and 56 columns, are classified well under
the noise for eta = 0.5 and 1."""
NO_SHAPE = "No shape was given."
"""How the sentence on it begins."""
ROWS_PER_PARAMETER = 50
"""From here on the table's own shape may be taken."""
LEAST_SPREAD = 0.1
"""Part of a standardised column's variance that the others are taken not to explain: near what tables had."""
TIMES = 4.0
"""What the shape of least loss tells, at most, in units of what the inverse Hessian does: once to thrice in tables."""


@dataclass(frozen=True)
class PublicPenalty:
    r"""The penalty of a release that is given none: numbers that its card tells anyway decide it, and no value of a row does.

    With p parameters, n rows and R the longest admissible row, in standard deviations, noise that keeps a limit eta
    costs about :math:`p R^2 / (2 n^2 \lambda \eta^2)` of loss per row, and the penalty itself about :math:`\lambda / 2`
    where coefficients have a length of one. Their sum is least at :math:`\lambda = \sqrt{p}\, R / (n \eta)`, which is taken,
    with two digits, between the ends of ``PENALTIES``.

    Of K classes the label decides the noise, whose scale is about :math:`R / (n \lambda \eta)` as the penalty holds the
    parameters (``softmax_penalty_bound``), at :math:`p R^2 / (2 K n^2 \lambda^2 \eta^2)` of loss, and the penalty costs
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


@dataclass(frozen=True)
class PublicShape:
    r"""A shape of the rows' own or the same noise on all, decided by no value of a row.

    The inverse Hessian costs less where parameters are known with different precision, but one row moves it, which is counted
    whatever the noise's scale. With R the longest admissible row and s the widest column, in standard deviations, and l the
    penalty over the loss's curvature where all coefficients are zero, that is about

    .. math:: \frac{\sqrt 2}{n} \left( s + \frac{R}{0.1 + l} \right)

    as an eta: a row moves the scale of a column by its distance, and the Hessian by its length, in a direction in which rows
    spread little. Where this is above the limit, or there are fewer than 50 rows for each parameter, noise is the same on all.
    Where four times this is within the limit and the loss is squared, the shape of least loss for anyone
    (``least_loss_for_any_record``) is taken in place of the inverse Hessian: it costs about half as much, and tells more.
    """

    parameters: int
    rows: int
    """As the card has it, with two digits."""
    limit: float
    """In standard deviations."""
    longest: float
    widest: float
    penalty: float
    possible: bool = True
    """Whether the kind of model has a shape that is counted."""
    squared: bool = False
    """Whether its loss is."""

    @property
    def tells(self) -> float:
        """About what the rows' own shape tells of an admissible row, as an eta."""
        return math.sqrt(2.0) / self.rows * (self.widest + self.longest / (LEAST_SPREAD + self.penalty))

    @property
    def shape(self) -> str:
        """Its name."""
        enough = self.rows >= ROWS_PER_PARAMETER * self.parameters
        if not (self.possible and enough and self.tells <= self.limit):
            return ISOTROPIC
        return LEAST_LOSS if self.squared and TIMES * self.tells <= self.limit else HESSIAN

    def words(self) -> str:
        """What a card says of it."""
        deviations = f" {DEVIATIONS}" if self.possible and self.rows >= ROWS_PER_PARAMETER * self.parameters else ""
        return f"{NO_SHAPE} {self._reason()}{deviations} Nothing but numbers of this card decides it; `shape` chooses another."

    def _reason(self) -> str:
        if not self.possible:
            return "The noise is the same on all, since for this kind of model no other is counted."
        if self.rows < ROWS_PER_PARAMETER * self.parameters:
            return f"The noise is the same on all, since there are fewer than {ROWS_PER_PARAMETER} rows for each parameter."
        about = (
            f"of about sqrt(2) (s + R / ({LEAST_SPREAD:g} + l)) / n = {number(self.tells)} beside a limit of "
            f"{number(self.limit)}, with n = {self.rows} rows, R = {number(self.longest)} the longest row and "
            f"s = {number(self.widest)} the widest column within the bounds, all in standard deviations, and "
            f"l = {number(self.penalty)} the penalty over the curvature at no coefficients"
        )
        if self.shape == LEAST_LOSS:
            return (
                "The noise has that of least loss by the rows, for whoever could be there, since the rows' own inverse Hessian "
                f"would tell less than a quarter of the limit: an eta {about}."
            )
        if self.shape == HESSIAN:
            return f"The noise has that of the rows' own inverse Hessian, since it tells an eta {about}."
        return f"The noise is the same on all, since the rows' own shape would tell an eta {about}."
