"""What rules of a policy read: one record, which audits of tables and of fitted models both give.

Figures are at the audit's noise, those of columns in the columns' own units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from fisherleak._support.numbers import number
from fisherleak.auditing.exposure.columns import ColumnFigures, LabelFigures
from fisherleak.auditing.exposure.exposure import gate_of
from fisherleak.auditing.exposure.membership_of_rows import epsilons_of, most_told, told_right
from fisherleak.auditing.exposure.moves_between_values import ValueSteps
from fisherleak.auditing.exposure.revealed import label_spread, shares_unknown
from fisherleak.auditing.records import Attacked, Audit
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.calibration_record import calibration_of
from fisherleak.rows import sum_rows
from fisherleak.tables import Design
from fisherleak.tables.design.split import EXACT
from fisherleak.training.utility import Tradeoff

CLAIMED_CHANCE = (
    "The model card states how likely one row changes the noise's scale. That number follows from all rows, and "
    "nothing counts it: "
    "release the model again."
)


@dataclass(frozen=True)
class JudgedValue:
    """A column, or the target.

    Attributes
    ----------
    eta, rms : float
        The largest eta of a value, and the largest root mean square over what is believed of it; NaN where there is none.
    worst, worst_rms : int
        Where they are, among the training rows or people.
    spread : float
        What an outsider starts from; NaN of categories.
    above : mapping of rule to int
        How many are above the limit of each rule.
    varies : float, optional
        How much its numbers vary.
    steps : ValueSteps, optional
        How far the release moves with another value, where a limit on eta is judged by that.
    """

    name: str
    eta: float
    worst: int
    rms: float
    worst_rms: int
    spread: float
    above: Mapping[str, int]
    varies: float | None = None
    steps: ValueSteps | None = field(default=None, repr=False)


@dataclass(frozen=True)
class JudgedMembership:
    """How often the best test is correct about the one that it knows best, and about how many more often than a limit."""

    right: float = np.nan
    row: int = 0
    mu: float | None = None
    """Where it goes as 1 over the scale of the noise."""
    above: Callable[[float], int] = field(default=lambda limit: 0, repr=False)
    epsilons: Callable[[float, float], tuple[float, int, int]] | None = field(default=None, repr=False)
    """At a delta: the largest epsilon, whose it is, and how many are above a limit; none where there is no mu."""
    note: str = ""
    by_scale: str = ""
    """What the scale on a model card has to do with it, in a sentence."""
    unknown: str = ""
    """Why nothing is known; nothing where it is."""


@dataclass(frozen=True)
class Required:
    """How the audit was made, as [require] asks."""

    public: str
    model: str
    group: str | None
    person: str | None
    held_out: float
    na: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    unbounded: tuple[str, ...] = ()
    """Numbers without declared bounds."""
    released: bool = False
    unconfirmed: str = ""
    covariance: str | None = None


@dataclass(frozen=True)
class Judged:
    """All that rules read of an audit.

    Attributes
    ----------
    scale : float
        Of the noise.
    proportional : bool
        Whether etas go as 1 over it.
    whose : str
        What an eta is of: a "row" or a "person".
    called : tuple of str
        What those above a limit are called, one and many.
    anyone : str
        Whose values are revealed, in a sentence.
    eta, row
        The largest of a row, or person, and which.
    groups : tuples
        Name, mean eta and joint eta of each.
    attackable : callable
        How many have a value of a column: "rows", or "people".
    unattacked : callable
        Why a column cannot be attacked; nothing where it can.
    cost : Tradeoff, optional
        By the measure of the kind of model; None where none is known.
    """

    scale: float
    proportional: bool
    whose: str
    called: tuple[str, str]
    anyone: str
    target: str
    eta: float
    row: int
    rows_above: Callable[[float], int] = field(repr=False)
    values: tuple[JudgedValue, ...]
    shares_unknown: str | None
    groups: tuple[tuple[str, float, float], ...]
    membership: JudgedMembership
    attacked: Attacked
    attackable: Callable[[str, str], int] = field(repr=False)
    unattacked: Callable[[str], str] = field(repr=False)
    cost: Tradeoff | None
    required: Required
    fixed_scale: str = ""
    """What figures of values do not count, where a limit on any record decided the scale on a card."""


def judged_table(audit: Audit) -> Judged:
    """Of the audit of a table."""
    design, scale = audit.design, audit.unit_scale
    row, top = audit.rows.digest.top[0]
    return Judged(
        scale=audit.noise.scale,
        proportional=audit.trained.shaped_at is None,
        whose="row" if design.people is None else "person",
        called=("person", "people") if design.repeated is None else ("row", "rows"),
        anyone=design.anyone,
        target=design.target.name,
        eta=top / scale,
        row=row,
        rows_above=lambda limit: gate_of(audit.rows, scale, limit).count,
        values=_values(audit),
        shares_unknown=shares_unknown(audit.trained),
        groups=tuple((group.name, group.spread.mean / scale, group.joint / scale) for group in audit.groups),
        membership=_membership(audit),
        attacked=audit.attacked,
        attackable=lambda name, who: _attackable(audit, name, who),
        unattacked=lambda name: _unattacked(audit),
        cost=audit.tradeoff.led_by(audit.trained.kind.metric.name),  # whatever leads elsewhere
        required=_required(audit),
        fixed_scale=_fixed_scale(audit),
    )


def _values(audit: Audit) -> tuple[JudgedValue, ...]:
    """Columns in the table's order, and the target."""
    units = [*(figure.feature.scale for figure in audit.columns), audit.design.target.unit]
    spreads = audit.yardsticks.spreads * np.array(units)
    used = {figure.feature.name: (figure, float(spreads[j])) for j, figure in enumerate(audit.columns)}
    order = [column.name for column in audit.design.columns if column.name in used]
    columns = [_value(audit, name, *used[name]) for name in order]
    return (*columns, _value(audit, audit.design.target.name, audit.label, float(spreads[-1])))


def _value(audit: Audit, name: str, figure: ColumnFigures | LabelFigures, spread: float) -> JudgedValue:
    scale, feature, steps = audit.unit_scale, figure.feature, audit.steps.get(name)
    counted = feature is None or feature.kind == "number"
    varies = None
    if counted and not (feature is None and audit.design.target.classes):
        varies = label_spread(audit.design) if feature is None else feature.prior
    if steps is not None:
        moves = steps.moves / scale
        if audit.trained.shaped_at is not None:  # what the covariance reveals beside, as far as it is known
            moves = np.hypot(moves, steps.apart * figure.largest / scale)
        steps = replace(steps, moves=moves)
    return JudgedValue(
        name=name,
        eta=figure.largest / scale,
        worst=figure.worst,
        rms=figure.rms.largest / scale,
        worst_rms=figure.rms.worst,
        spread=spread,
        above=dict(zip(audit.yardsticks.levels, figure.counts, strict=True)),
        varies=varies,
        steps=steps,
    )


def _membership(audit: Audit) -> JudgedMembership:
    membership, scale, changes = audit.membership, audit.unit_scale, audit.scale_changes
    if not membership.measured:
        return JudgedMembership(unknown=membership.note)
    if audit.released and _claims_chance(audit):
        return JudgedMembership(unknown=CLAIMED_CHANCE)

    def above(limit: float) -> int:
        """Rows about whose membership the best attacker is correct more often than this."""
        if changes is not None:
            return int(np.count_nonzero(~(told_right(np.asarray(membership.mu) / scale, changes) <= limit)))
        (count,) = sum_rows(lambda mu: (np.count_nonzero(~(told_right(mu / scale) <= limit)),), membership.mu)
        return int(count)

    row, right = most_told(membership, changes, scale)
    top = membership.top[0]
    mu = float(top.mu) if np.isfinite(top.mu) and membership.kind == "mu" else None
    by_scale = ""
    if changes is not None:
        by_scale = (
            "This counts the noise scale on the model card: a release without that row changes it with a probability of at "
            f"most {number(100 * float(changes[row]))} % (the number of rows is public). A scale that is given with `noise` "
            "never changes."
        )
    epsilons = None
    if membership.kind == "mu":

        def epsilons(delta: float, limit: float) -> tuple[float, int, int]:
            return epsilons_of(membership.mu, (top.row, top.mu), changes, delta, limit, scale)

    return JudgedMembership(right, row, mu, above, epsilons, membership.recognised_note, by_scale)


def _claims_chance(audit: Audit) -> bool:
    told = calibration_of(audit.noise.noise)
    return told is not None and told.probability is not None and told.probability < 1.0


def _fixed_scale(audit: Audit) -> str:
    return fixed_scale(audit.noise.noise) if audit.released and audit.scale_by_limit else ""


def fixed_scale(noise: Noise) -> str:
    """That a rule holds the noise's scale fixed, where a limit decided that; nothing where it was given."""
    told = calibration_of(noise)
    if told is None or not (told.counted or told.by_present_rows):
        return ""
    return "; the noise scale is held fixed, though another value may change it"


def _attackable(audit: Audit, name: str, who: str) -> int:
    design, people = audit.design, audit.design.people
    feature = next((each for each in design.features if each.name == name and each.filled), None)
    rows = design.n - (0 if feature is None else int(design.lacking(feature).sum()))
    return rows if people is None or who == "rows" else people.count


def _unattacked(audit: Audit) -> str:
    return "attacks need all rows in memory, and these are read part by part" if audit.design.lazy else ""


def _held_out(design: Design, asked: float) -> float:
    """The part of the rows that is held out; what was asked for, where the two differ by rounding or by a draw alone."""
    used = design.n + design.held_out
    # rows are held out class by class, each rounded: of many small classes none may be, which is no rounding
    near = min(1.0 + 0.5 * len(design.target.classes), max(1.0, 0.2 * asked * used))
    if design.lazy or used > EXACT:  # by a hash of each row's number: five standard deviations of the count
        near += 5.0 * math.sqrt(asked * (1.0 - asked) * used)
    fair = design.people is None and abs(design.held_out - asked * used) <= near
    return asked if fair else round(design.held_out / used, 3)


def _required(audit: Audit) -> Required:
    settings, design = audit.settings, audit.design
    return Required(
        public=settings.public,
        model=audit.trained.kind.name,
        group=settings.group,
        person=settings.person,
        held_out=_held_out(design, settings.held_out),
        na=settings.na,
        marks=tuple(sorted({*design.marks.values()})),
        unbounded=tuple(design.unbounded),
        released=audit.released,
        unconfirmed=audit.unconfirmed,
        covariance=audit.covariance,
    )
