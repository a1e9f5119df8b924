"""What an audit is to do, and all that it found: records that nothing changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.pickles import Pickled
from fisherleak.auditing.attackers import Attacked
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
from fisherleak.auditing.exposure.membership_of_rows import PresenceFigures
from fisherleak.auditing.exposure.revealed import Share, Yardsticks, largest_exposure, shares_unknown
from fisherleak.auditing.policy.policy import Policy
from fisherleak.auditing.policy.rule import Advice, Rule
from fisherleak.auditing.spotcheck import SpotCheck
from fisherleak.engine.noise import Noise
from fisherleak.tables import Design
from fisherleak.training.defaults import DRAWS
from fisherleak.training.trained_model import Settings, Trained
from fisherleak.training.utility import Tradeoff

__all__ = ["Audit", "Balanced", "NoiseChoice", "Plan"]

Vector = NDArray[np.float64]


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
        Rules that the audit is held against, from :func:`fisherleak.auditing.policy.policy.read_policy`.
    released : bool
        Whether the noise is that of a released file, which was checked against the model.
    unconfirmed : str
        Why that check does not confirm the noise, in sentences; nothing where it does.
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
    released: bool = False
    unconfirmed: str = ""


@dataclass(frozen=True)
class NoiseChoice:
    """The noise on the model's own coefficients, and how it came about."""

    noise: Noise
    chosen: Literal["given", "calibrated", "default"]
    note: str

    @property
    def scale(self) -> float:
        return float(self.noise.scale)


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
    attributes_asked: bool
    attacked: Attacked = field(repr=False)
    spot: SpotCheck | None
    balance: Balanced | None
    gate: Gate | None
    presence: PresenceFigures = field(repr=False)
    draws: int
    warnings: tuple[str, ...]
    seconds: dict[str, float]
    released: bool = False
    """Whether a released file was checked, and not a plan."""
    unconfirmed: str = ""
    """Why the noise of that file is not confirmed; nothing where it is."""
    policy: Policy | None = None
    rules: tuple[Rule, ...] = ()
    """What became of every rule of the policy."""
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
    def eta(self) -> Any:
        """Eta of every training row at the audit's noise, (n,); lazy where the rows are."""
        return self.rows.eta / self.unit_scale

    def revealed(self) -> tuple[Share | None, ...]:
        """The share revealed of every column, and of the label behind them; None for categories and classes."""
        figures: list[ColumnFigures | LabelFigures] = [*self.columns, self.label]
        units = [*(figure.feature.scale for figure in self.columns), self.design.target.scale]
        return tuple(
            self._share(figure, float(spread) * unit)
            if np.isfinite(spread) and np.isfinite(figure.rms.largest)
            else None
            for figure, spread, unit in zip(figures, self.yardsticks.spreads, units, strict=True)
        )

    def _share(self, figure: ColumnFigures | LabelFigures, spread: float) -> Share:
        etas = [eta / self.unit_scale for eta in (figure.rms.largest, figure.rms.high, figure.rms.median)]
        return Share.of(spread, (etas[0], etas[1], etas[2]), figure.counts[0], figure.rms.worst)

    def exposure(self) -> float | None:
        """The largest exposure of a number of anyone at the audit's noise, a yes or no as one of spread 1/2; None without.

        It goes as 1 over the scale of the noise: ``revealed.share_of`` it is the largest share. None where the rows decide the
        covariance of the noise, since it does not go so then.
        """
        if self.trained.shaped_at is not None or shares_unknown(self.trained) is not None:
            return None
        figures: list[ColumnFigures | LabelFigures] = [*self.columns, self.label]
        units = np.array([*(figure.feature.scale for figure in self.columns), self.design.target.scale])
        rms, etas = (
            np.array(each) * units for each in ([f.rms.largest for f in figures], [f.largest for f in figures])
        )
        worst = largest_exposure(self.design.features, self.yardsticks.spreads, rms, etas)
        return None if worst is None else worst / self.unit_scale

    def leakage_rows(self) -> Iterator[LeakageRows]:
        """Every training row with its etas at the audit's noise, some rows at a time."""
        return leakage_rows(self.trained, self.rows.eta, self.unit_scale, self.presence.mu)
