"""The penalty of a release and the covariance of its noise where none is given: by numbers that its card tells anyway."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

from fisherleak._support.numbers import number
from fisherleak.engine.noise.calibration_record import HESSIAN
from fisherleak.protection.calibrate.shapes import ISOTROPIC, LEAST_LOSS

NOT_GIVEN = "No penalty was given."
"""How the sentence on it begins."""
DEVIATIONS = "A column with declared bounds is taken to vary by a twelfth of their width."
"""What stands for a standard deviation that no number of a card tells."""
DEVIATIONS_IN_A_UNIT = math.sqrt(12.0)
"""The same: the unit of a column with bounds is their width over the root of twelve."""
PENALTIES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""The public grid of penalties that are tried where a release has none that is enough."""
LENGTH = 0.125
"""Of a coefficient of several classes, about: where iris, wine and digits, of 4, 13 and 56 columns, are classified well under
the noise for eta = 0.5 and 1."""
APART = 3.0
"""Penalties that are compared are each this many times the one before."""
NO_SHAPE = "No shape was given."
"""How the sentence on it begins."""
ROWS_PER_PARAMETER = 50
"""Version 0.1.0 took the table's own shape from here on."""
EARLIER_PART = 4.0
"""It took the shape of least loss where this many times what the inverse Hessian tells was within the limit."""
LEAST_SPREAD = 0.1
"""Part of a standardised column's variance that the others are taken not to explain: near what tables had."""


SMALL = 0.2
"""Part of what the columns explain that is taken to lie along directions in which they vary by ``LEAST_SPREAD`` only."""


def shrinkage_cost(penalty: float) -> float:
    r"""About what a penalty costs, as a part of what the target varies by.

    ``penalty`` is l, the penalty over the loss's curvature where all coefficients are zero. A direction in which columns vary
    by v loses :math:`(l / (v + l))^2`: v is one for most, and a tenth for a fifth, since columns of tables tell each other.
    """
    return (1.0 - SMALL) * (penalty / (1.0 + penalty)) ** 2 + SMALL * (penalty / (LEAST_SPREAD + penalty)) ** 2


TARGET_VARIES = {True: 12.0 / 72.0, False: 1.0}
"""The variance of a target in its unit squared: declared bounds are taken to be 8.5 deviations apart, between the six of a
target without outliers and the twelve of a column; else it is the unit."""
PREDICTOR_VARIES = 4.0
"""That of a linear predictor of classes at most: a label's variance, 1/4, over the squared curvature."""


OF_THE_MOST = 0.5
"""Part of it that predictions of classes are taken to vary by, where they are compared with noise: with more, releases whose
AUC was 0.57 on average, of 0.73, passed for better than the baseline; with a quarter, those of 0.69, of 0.76, did not."""


def taken_to_vary(squared: bool, bounded: bool) -> float:
    """The variance of predictions, as far as public numbers tell, in the squared unit of the target."""
    return TARGET_VARIES[bounded] if squared else PREDICTOR_VARIES


@dataclass(frozen=True)
class PublicPenalty:
    r"""The penalty of a release that is given none: numbers that its card tells anyway decide it, and no value of a row does.

    With p parameters, n rows and R the longest record within the bounds, in standard deviations, noise that keeps a limit eta
    costs about :math:`p R^2 / (2 n^2 \lambda \eta^2)` of loss per row, and the penalty itself about :math:`\lambda / 2`
    where coefficients have a length of one. Their sum is least at :math:`\lambda = \sqrt{p}\, R / (n \eta)`, which is taken
    first, with two digits, between the ends of ``PENALTIES``.

    Where columns vary less than their bounds let expect, noise costs more. So three times this penalty, nine times and so on
    are compared with it, by the scales that their noise has on one public grid (``predicted_cost``), and the first of which the
    next is not better is taken.

    Of K classes the label decides the noise, whose scale is about :math:`R / (n \lambda \eta)` as the penalty holds the
    parameters (``softmax_penalty_bound``), at :math:`p R^2 / (2 K n^2 \lambda^2 \eta^2)` of loss, and the penalty costs
    :math:`\lambda w^2 / 2` where coefficients have a length of w = 1/8: the least is at
    :math:`\lambda^3 = 2 p R^2 / (K w^2 n^2 \eta^2)`, and nothing is compared.
    """

    parameters: int
    rows: int
    """As the card has it, with two digits."""
    limit: float
    longest: float
    """R"""
    classes: int | None = None
    """K; None for one output."""
    raised: int = 0
    """How many times it was taken three times as large."""
    alone: bool = False
    """Whether nothing is compared with it, since the cost of the noise does not follow from its scale."""
    earlier: bool = False
    """Whether it is by the rule of version 0.1.0, compared with none."""

    @property
    def first(self) -> float:
        """The one that others are compared with."""
        least = math.sqrt(self.parameters) * self.longest / (self.rows * self.limit)
        if self.classes is not None:
            least = (2.0 * least**2 / (self.classes * LENGTH**2)) ** (1.0 / 3.0)
        return float(f"{min(max(least, PENALTIES[0]), PENALTIES[-1]):.1e}")

    @property
    def l2(self) -> float:
        return float(f"{min(self.first * APART**self.raised, PENALTIES[-1]):.1e}")

    @property
    def _compared_with_none(self) -> bool:
        return self.classes is not None or self.alone or self.earlier

    def compared(self) -> tuple[Self, ...]:
        """The penalty itself, and those that it is compared with: each three times the one before."""
        found = [self]
        while not self._compared_with_none and found[-1].l2 < PENALTIES[-1]:
            found.append(replace(self, raised=found[-1].raised + 1))
        return tuple(found)

    def reaching(self, l2: float) -> Self | None:
        """The one among those that are compared that has this value; None where none has."""
        return next((each for each in self.compared() if each.l2 == l2), None)

    def words(self) -> str:
        """What a card says of it."""
        rule = f"4 cbrt(2 p R^2 / ({self.classes} n^2 eta^2))" if self.classes else "sqrt(p) R / (n eta)"
        taken = f"{self.l2 / self.first:.3g} times {self.first:g}, " if self.raised else ""
        where = ", about where it and the noise cost least together" if self._compared_with_none else ""
        by = (
            "Nothing but numbers of this card decides it"
            if self._compared_with_none
            else f"Beside {APART:g} times as much, {APART**2:g} times and so on, it is where penalty and noise are "
            "predicted to cost least, by the scales of noise on one grid with the offset of this card"
        )
        return (
            f"{NOT_GIVEN} It is l2 = {self.l2:g}, {taken}which is {rule} to two digits, at least {PENALTIES[0]:g} and at most "
            f"{PENALTIES[-1]:g}{where}: p = {self.parameters} parameters, "
            f"n = {self.rows} rows, eta = {self.limit:g}, and R = {self.longest:.3g}, the longest row within the bounds in "
            f"standard deviations. {DEVIATIONS} {by}; `l2` chooses another."
        )


@dataclass(frozen=True)
class PublicShape:
    r"""A data-dependent covariance or the same noise on all, decided by no value of a row.

    The inverse Hessian costs less where parameters are known with different precision, but one row moves it, which is counted
    whatever the noise's scale. With R the longest record within the bounds and s the widest column, in standard deviations,
    and l the penalty over the loss's curvature where all coefficients are zero, that is about

    .. math:: \frac{\sqrt 2}{n} \left( s + \frac{R}{0.1 + l} \right)

    as an eta: a row moves the scale of a column by its distance, and the Hessian by its length, in a direction in which rows
    spread little. Where this is above the limit, noise is the same on all.
    Where the loss is squared, the shape of least loss for anyone (``least_loss_for_any_record``) is taken in place of the
    inverse Hessian if it keeps the limit too and its scale is at most three times as large: it costs about half as much then,
    and tells up to three times as much.
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
    refused: bool = False
    """Whether no bound was found that keeps the limit with it."""
    earlier: bool = False
    """Whether it is by the rule of version 0.1.0, which asked for 50 rows for each parameter."""

    @property
    def tells(self) -> float:
        """About what the rows' own shape tells of a record within the bounds, as an eta."""
        return math.sqrt(2.0) / self.rows * (self.widest + self.longest / (LEAST_SPREAD + self.penalty))

    def by_the_hessian(self) -> Self:
        """The same without the shape of least loss, as penalties are compared."""
        return replace(self, squared=False)

    def possible_ones(self) -> tuple[Self, ...]:
        """What a release may have taken: by public numbers, as penalties are compared, or noise alike on all."""
        refused = (replace(self, refused=True),) if self.possible and self.by_the_hessian().shape != ISOTROPIC else ()
        return (self, *((self.by_the_hessian(), *refused) if not self.earlier else ()))

    @property
    def _too_few(self) -> bool:
        return self.earlier and self.rows < ROWS_PER_PARAMETER * self.parameters

    @property
    def shape(self) -> str:
        """Its name."""
        if not (self.possible and self.tells <= self.limit) or self._too_few or self.refused:
            return ISOTROPIC
        least_loss = self.squared and (not self.earlier or EARLIER_PART * self.tells <= self.limit)
        return LEAST_LOSS if least_loss else HESSIAN

    def words(self) -> str:
        """What a card says of it."""
        deviations = f" {DEVIATIONS}" if self.possible and not (self._too_few or self.refused) else ""
        by = "" if self.refused else " Nothing but numbers of this card decides it;"
        return f"{NO_SHAPE} {self._reason()}{deviations}{by} `shape` chooses another."

    def _reason(self) -> str:
        if not self.possible:
            return "The noise is the same on all, since for this kind of model no other is counted."
        if self._too_few:
            return f"The noise is the same on all, since there are fewer than {ROWS_PER_PARAMETER} rows for each parameter."
        if self.refused:
            return "The noise is the same on all, since with a data-dependent covariance no bound keeps the limit."
        about = (
            f"of about sqrt(2) (s + R / ({LEAST_SPREAD:g} + l)) / n = {number(self.tells)} beside a limit of "
            f"{number(self.limit)}, with n = {self.rows} rows, R = {number(self.longest)} the longest row and "
            f"s = {number(self.widest)} the widest column within the bounds, all in standard deviations, and "
            f"l = {number(self.penalty)} the penalty over the curvature at no coefficients"
        )
        if self.shape == LEAST_LOSS:
            beside = (
                "since their inverse Hessian would reveal less than a quarter of the limit: an eta"
                if self.earlier
                else "which keeps the limit and costs less than their inverse Hessian: that would reveal an eta"
            )
            return f"The noise has that of least loss by the rows, for any record within the bounds, {beside} {about}."
        if self.shape == HESSIAN:
            return f"The noise has that of the inverse Hessian, since it reveals an eta {about}."
        return f"The noise is the same on all, since a data-dependent covariance would reveal an eta {about}."


@dataclass(frozen=True)
class PublicNumbers:
    """All that the rule for penalty and covariance knows of a model, a table's or one of scikit-learn: no value of a row."""

    parameters: int
    rows: int
    """With two digits."""
    limit: float
    """On a change of one unit: the width of declared bounds over the root of twelve."""
    in_deviations: float
    """The same on a change of one standard deviation, as far as public numbers tell."""
    longest: float
    """R, the longest row within the bounds with its constant, in standard deviations."""
    widest: float
    """Of the columns whose scale a row moves, in standard deviations."""
    typical: float
    """The squared length of a typical row with its constant, where noise that is the same on all acts."""
    varies: float
    """What predictions vary by: a variance, in the unit of the noise."""
    curvature: float
    """Of the loss where all coefficients are zero."""
    squared: bool
    classes: int | None = None
    shaped: bool = True
    """Whether the kind of model has a shape that is counted."""

    def penalty(self) -> PublicPenalty:
        """The first penalty, which knows those that it is compared with."""
        return PublicPenalty(self.parameters, self.rows, self.limit, self.longest, self.classes)

    def shape(self, l2: float) -> PublicShape:
        """The covariance of the noise of a model with this penalty."""
        known = (self.parameters, self.rows, self.in_deviations)
        if not self.shaped:
            return PublicShape(*known, 0.0, 0.0, l2, possible=False)
        return PublicShape(*known, self.longest, self.widest, l2 / self.curvature, squared=self.squared)

    def penalty_cost(self, l2: float) -> float:
        """What a penalty is predicted to cost, as a part of what the target varies by."""
        return shrinkage_cost(l2 / self.curvature)

    def is_useless(self, scale: float, shape: str | None, l2: float) -> bool:
        """Whether a model with this penalty and noise is predicted to be no better than the baseline.

        Where it is fitted to a number, the two cost all that it could explain. Classes are ranked by predictions of any size:
        there noise must be half as large as what the penalty leaves of them at most, since few models have that much.
        """
        if self.squared:
            return self.cost(scale, shape, l2) >= 1.0
        return self._noise_cost(scale, shape, l2) >= OF_THE_MOST * (1.0 + l2 / self.curvature) ** -2

    def cost(self, scale: float, shape: str | None, l2: float) -> float:
        r"""What penalty and noise of this scale are predicted to cost together.

        With noise of covariance :math:`s^2 G^{-1}` predictions of the rows vary by :math:`s^2\, \mathrm{tr}(G^{-1} C)`, about
        :math:`s^2 p / (n (1 + l))`; with noise alike on all, by its variance times the squared length of a typical row. For
        that of least loss it is a ninth of the former, as at the same scale it was in tables.
        """
        return self._noise_cost(scale, shape, l2) + self.penalty_cost(l2)

    def _noise_cost(self, scale: float, shape: str | None, l2: float) -> float:
        by_rows = self.parameters / (self.rows * (1.0 + l2 / self.curvature))
        times = {ISOTROPIC: self.typical, HESSIAN: by_rows, LEAST_LOSS: by_rows / 9.0}
        return scale**2 * times[shape or ISOTROPIC] / self.varies
