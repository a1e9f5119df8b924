"""What an audit is to do, and all that it found: records that nothing changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fisherleak._support.namespaces import Vector
from fisherleak._support.pickles import Pickled
from fisherleak.attacks.base import Outcome
from fisherleak.auditing.exposure.columns import ColumnFigures, LabelFigures
from fisherleak.auditing.exposure.exposure import (
    Gate,
    GroupFigures,
    LeakageRows,
    RowFigures,
    Spread,
    Worst,
    leakage_rows,
)
from fisherleak.auditing.exposure.membership_of_rows import MembershipFigures
from fisherleak.auditing.exposure.moves_between_values import Apart, ValueSteps
from fisherleak.auditing.exposure.revealed import Share, Yardsticks, largest_exposure, shares_unknown
from fisherleak.auditing.policy.policy import Advice, Policy, Rule
from fisherleak.auditing.spotcheck import SpotCheck
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.calibration_record import ANY_RECORD, Calibration, calibration_of
from fisherleak.protection.calibrate.shapes import ISOTROPIC
from fisherleak.tables import Design
from fisherleak.training.defaults import DRAWS
from fisherleak.training.trained_model import Settings, Trained
from fisherleak.training.utility import Tradeoff, UtilityPoint

if TYPE_CHECKING:
    from fisherleak.releasing.scale_rule import ScaleRule


WITH_PRIOR, WITHOUT_PRIOR = "white-box with prior", "white-box"
INFORMED, SERVED = "white-box, other columns", "white-box, served answer"
"""Names of attackers."""


@dataclass(frozen=True)
class Plan:
    """What an audit is to do with a model.

    Parameters
    ----------
    noise : float or Noise, optional
        On every coefficient and the intercept; a number is the scale of Gaussian noise.
    eta : float, optional
        Choose the least Gaussian noise with which no row's eta is above this.
    max_eta : float, optional
        The gate: rows above it are listed. Without ``noise`` and ``eta`` it chooses the noise too.
    attributes : names, optional
        Columns to attack; at most two with few values by default.
    attacks : bool
        Whether to run the attackers.
    balance : bool
        Also reweight with IRFIL and compare.
    draws : int
        Noisy copies behind each point of utility.
    noise_note : str
        Where a given noise comes from, in a sentence.
    quick : bool
        Fewer rows and simulated releases in attacks, no attacker who learns, and a refit around one row only.
    spread : mapping of column to number
        What an outsider starts from about a number, in its unit; the column's own standard deviation by default. With a
        policy, what that states.
    policy : Policy, optional
        Rules that the audit is compared with, from :func:`fisherleak.auditing.policy.policy.read_policy`.
    metric : str, optional
        The measure of utility that leads: "auc", "log-loss", "accuracy", "r2" or "deviance", where the kind of model has it. By
        default the kind's own; of uneven classes the AUC. Rules of a policy keep the kind's own.
    over, shape, rows_per_person : optional
        Of the release that is priced and advised, as in ``fisherleak release``.
    released : bool
        Whether the noise is that of a released file, which was checked against the model.
    unconfirmed : str
        What that check does not confirm, and what to do, in sentences; nothing where it confirms all that a policy asks for.
    covariance : str, optional
        Where a covariance comes from that stands on the file's card as numbers.
    scale_rule : ScaleRule, optional
        What the noise's scale on the file's card follows from, where a limit on any record within the bounds decided it.
    """

    noise: float | Noise | None = None
    eta: float | None = None
    max_eta: float | None = None
    attributes: Sequence[str] | None = None
    attacks: bool = True
    balance: bool = False
    draws: int = DRAWS
    noise_note: str = "The scale was given."
    quick: bool = False
    spread: Mapping[str, float] = field(default_factory=dict)
    policy: Policy | None = None
    metric: str | None = None
    over: str = ANY_RECORD
    shape: str | None = None
    rows_per_person: int | None = None
    released: bool = False
    unconfirmed: str = ""
    covariance: str | None = None
    scale_rule: ScaleRule | None = None


@dataclass(frozen=True)
class NoiseChoice:
    """The noise on the model's own coefficients, and how it came about."""

    noise: Noise
    chosen: Literal["given", "calibrated", "default"]
    note: str
    eta: float | None = None
    """The limit that it was computed from."""

    @property
    def scale(self) -> float:
        return float(self.noise.scale)


@dataclass(frozen=True)
class Attacked:
    """Outcomes at one noise, accuracies of the strongest attacker over a grid, and what was not run and why."""

    outcomes: tuple[tuple[Outcome, str], ...] = ()
    curves: tuple[tuple[dict[str, Any], ...], ...] = ()
    notes: tuple[str, ...] = ()
    distinguishable: tuple[Apart, ...] = ()
    """Of every column whose values were attacked exactly, under normal noise."""
    of: Literal["rows", "people"] = "rows"
    """Whose values were guessed."""
    by_row: tuple[str, ...] = ()
    """Columns in which rows of one person differ, whose values were guessed row by row."""
    together: tuple[Outcome, ...] = ()
    """What of ``outcomes`` these are on people, in all rows that have the value which most rows of a person have."""

    def whose(self, column: str) -> str:
        """Whose values of a column were guessed."""
        return "rows" if column in self.by_row else self.of

    def who(self, outcome: Outcome) -> str:
        """Whose values an attacker guessed."""
        return "people" if any(outcome is other for other in self.together) else self.whose(outcome.attribute)

    def parts(self, column: str) -> list[list[Outcome]]:
        """What attackers of a column got: of rows, or people; where both were attacked, of each."""
        own = [outcome for outcome, _ in self.outcomes if outcome.attribute == column]
        people = [outcome for outcome in own if self.who(outcome) == "people"]
        if column not in self.by_row:
            return [own]
        return [[outcome for outcome in own if self.who(outcome) == "rows"], people]


@dataclass(frozen=True)
class Price:
    """A release at a limit: its penalty, its noise, and what that keeps and reveals."""

    eta: float
    covariance: str
    by_rule: bool
    l2: float
    scale: float
    utility: UtilityPoint
    largest: float | None = None
    """The largest eta of a row that is present; None where what the covariance reveals by itself is not counted."""
    membership: float | None = None
    """How often the best attacker is correct about a row that is present, at most: by the parameters and the covariance."""
    median: float | None = None
    """The same about half of the rows."""


@dataclass(frozen=True)
class Prices:
    """Prices of limits, isotropic noise behind the rule's own; and of noises for the rows present, at the audited eta."""

    over: str
    asked: float
    shape: str | None = None
    """That somebody asked for."""
    limits: tuple[Price, ...] = ()
    present: tuple[Price, ...] = ()
    note: str = ""

    def best(self, eta: float, higher_is_better: bool) -> Price | None:
        """The most useful release at a limit whose covariance is counted, or isotropic."""
        counted = [
            each
            for each in self.limits
            if each.eta == eta
            and (each.by_rule or self.shape is None)
            and (self.over == ANY_RECORD or each.covariance == ISOTROPIC)
        ]
        sign = 1.0 if higher_is_better else -1.0
        return max(counted, key=lambda each: sign * each.utility.utility, default=None)


@dataclass(frozen=True)
class Balanced:
    """The same model reweighted by IRFIL: etas before and after at noise of scale 1, their bins, and utility."""

    iterations: int
    before: Spread
    after: Spread
    edges: Vector = field(repr=False)
    utility_before: float
    utility_after: float


@dataclass(frozen=True)
class Audit(Pickled):
    """All figures of an audit, at noise of scale 1 in standard units; ``report.summarise`` brings them to its noise."""

    settings: Settings
    trained: Trained
    noise: NoiseChoice
    rows: RowFigures = field(repr=False)
    spread: Spread | None = field(repr=False)
    """Of all rows, where there are no groups."""
    edges: Vector = field(repr=False)
    dataset: float
    columns: tuple[ColumnFigures, ...] = field(repr=False)
    label: LabelFigures = field(repr=False)
    people: int
    """Rows with a number, or a label that is one, of which more than half is revealed at the audit's noise."""
    yardsticks: Yardsticks = field(repr=False)
    groups: tuple[GroupFigures, ...] = field(repr=False)
    worst: Worst = field(repr=False)
    names: dict[int, tuple[int, str | None]] = field(repr=False)
    """Number in the table, and identifier, of every training row that is named."""
    tradeoff: Tradeoff = field(repr=False)
    attributes: tuple[str, ...]
    attacked: Attacked = field(repr=False)
    spot: SpotCheck | None
    balance: Balanced | None
    gate: Gate | None
    membership: MembershipFigures = field(repr=False)
    draws: int
    warnings: tuple[str, ...]
    seconds: dict[str, float]
    released: bool = False
    """Whether a released file was checked, and not a plan."""
    unconfirmed: str = ""
    """What of that file is not confirmed, and what to do; nothing where all is that a policy asks for."""
    covariance: str | None = None
    """Where a covariance comes from that stands on that file's card as numbers: a table's name, or "given"."""
    scale_changes: Vector | None = field(default=None, repr=False)
    """(n,), for a rule on membership: how likely a release without the row has another scale than that file's card."""
    steps: Mapping[str, ValueSteps] = field(default_factory=dict, repr=False)
    """Of columns of two values that a rule limits the eta of, how far the release moves with the other value."""
    named: tuple[str, ...] = ()
    """Columns that options or the policy name."""
    policy: Policy | None = None
    rules: tuple[Rule, ...] = ()
    """What became of every rule of the policy."""
    prices: Prices | None = None
    """What releases by a limit keep of the model; None under a policy, whose rules are checked at the audited noise."""
    passing: Advice | None = None
    """Where a rule failed: a noise at which all of them were run and passed, or why there is none."""

    @property
    def design(self) -> Design:
        return self.trained.design

    @property
    def unit_scale(self) -> float:
        """The noise in standard units."""
        return self.noise.scale / self.trained.unit

    @property
    def scale_by_limit(self) -> bool:
        """Whether a limit on any record within the bounds decided the noise's scale."""
        return self.calibrated is not None and self.calibrated.counted

    @property
    def calibrated(self) -> Calibration | None:
        """How a released file's noise was found for a limit; None where it was given."""
        return calibration_of(self.noise.noise)

    @property
    def eta(self) -> Any:
        """Eta of every training row at the audit's noise, (n,); lazy where the rows are."""
        return self.rows.eta / self.unit_scale

    def revealed(self) -> tuple[Share | None, ...]:
        """The share revealed of every column, and of the label behind them; None for categories and classes."""
        figures: list[ColumnFigures | LabelFigures] = [*self.columns, self.label]
        units = [*(figure.feature.scale for figure in self.columns), self.design.target.unit]
        return tuple(
            self._share(figure, float(spread) * unit)
            if np.isfinite(spread) and np.isfinite(figure.rms.largest)
            else None
            for figure, spread, unit in zip(figures, self.yardsticks.spreads, units, strict=True)
        )

    def _share(self, figure: ColumnFigures | LabelFigures, spread: float) -> Share:
        etas = [eta / self.unit_scale for eta in (figure.rms.largest, figure.rms.high, figure.rms.median)]
        return Share.of(spread, (etas[0], etas[1], etas[2]), figure.counts[0], figure.rms.worst)

    @property
    def without_share(self) -> tuple[str, ...]:
        """Numbers, the target too, of which no share is known while that of others is."""
        target, found = self.design.target, self.revealed()
        if all(each is None for each in found):
            return ()
        numbers = [*(f.has_share for f in self.design.features), not target.classes]
        names = [*(f.name for f in self.design.features), target.name]
        return tuple(name for name, number, own in zip(names, numbers, found, strict=True) if number and own is None)

    def exposure(self) -> float | None:
        """The largest exposure of a number of anyone at the audit's noise, a yes or no as one of spread 1/2; None without.

        It goes as 1 over the scale of the noise: ``revealed.share_of`` it is the largest share. None where the rows decide the
        covariance of the noise, since it does not go so then.
        """
        if self.trained.shaped_at is not None or shares_unknown(self.trained) is not None:
            return None
        figures: list[ColumnFigures | LabelFigures] = [*self.columns, self.label]
        units = np.array([*(figure.feature.scale for figure in self.columns), self.design.target.unit])
        rms, etas = (
            np.array(each) * units for each in ([f.rms.largest for f in figures], [f.largest for f in figures])
        )
        worst = largest_exposure(self.design.features, self.yardsticks.spreads, rms, etas)
        return None if worst is None else worst / self.unit_scale

    def leakage_rows(self) -> Iterator[LeakageRows]:
        """Every training row with its etas at the audit's noise, some rows at a time."""
        return leakage_rows(self.trained, self.rows, self.unit_scale, self.membership.mu)
