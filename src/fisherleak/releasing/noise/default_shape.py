r"""The shape of a release's noise where none is asked for: by numbers that its card tells anyway."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fisherleak._support.numbers import number
from fisherleak.protection.data_dependent.hessian_shape import HESSIAN
from fisherleak.releasing.noise.penalties import DEVIATIONS
from fisherleak.releasing.noise.shaping import ISOTROPIC, LEAST_LOSS

__all__ = ["NO_SHAPE", "PublicShape"]

NO_SHAPE = "No shape was given."
"""How the sentence on it begins."""
ROWS_PER_PARAMETER = 50
"""From here on the table's own shape may be taken."""
LEAST_SPREAD = 0.1
"""Part of a standardised column's variance that the others are taken not to explain: near what tables had."""
TIMES = 4.0
"""What the shape of least loss tells, at most, in units of what the inverse Hessian does: once to thrice in tables."""


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
    (``least_loss_for_anyone``) is taken in place of the inverse Hessian: it costs about half as much, and tells more.
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
    def name(self) -> str:
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
        if self.name == LEAST_LOSS:
            return (
                "The noise has that of least loss by the rows, for whoever could be there, since the rows' own inverse Hessian "
                f"would tell less than a quarter of the limit: an eta {about}."
            )
        if self.name == HESSIAN:
            return f"The noise has that of the rows' own inverse Hessian, since it tells an eta {about}."
        return f"The noise is the same on all, since the rows' own shape would tell an eta {about}."
