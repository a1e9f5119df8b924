"""What the rules of a policy read of a model that was fitted elsewhere: the rules are those that check the audit of a table.

Etas of rows and groups are in standard units there and here: every number, and the label, counts in standard deviations of
its column, on a public grid, or in widths of its declared bounds over the root of 12.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.grids import rounded_up
from fisherleak._support.numbers import number
from fisherleak.auditing.exposure.membership_of_rows import accuracy_of, epsilons_of
from fisherleak.auditing.exposure.revealed import SEVERAL_ROWS, exposure_at, label_spread
from fisherleak.auditing.fitted_models.measured_etas import MeasuredEtas
from fisherleak.auditing.fitted_models.policy_on_model import AppliedPolicy
from fisherleak.auditing.fitted_models.summary_of_leakage import BY_BOUNDS, Exposures, not_shown
from fisherleak.auditing.policy.judged import Judged, JudgedMembership, JudgedValue, Required, fixed_scale
from fisherleak.auditing.policy.policy import Advice, Policy, Rule
from fisherleak.auditing.policy.rules import judge
from fisherleak.auditing.records import Attacked
from fisherleak.auditing.report_summary import Summary
from fisherleak.engine.changes.removal import EXACT
from fisherleak.engine.information import Information, norms_of_sets
from fisherleak.engine.norms import information_of
from fisherleak.engine.norms.tied_cells import norms_of_people
from fisherleak.errors import FisherleakError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.leakage.membership_distance import recognised_words
from fisherleak.leakage.show import membership_unknown
from fisherleak.releasing.shaping import GIVEN
from fisherleak.tables import Design
from fisherleak.training.noise_words import has_shape
from fisherleak.training.people import rows_by_person
from fisherleak.training.utility import Tradeoff

__all__ = ["SCOPE", "advice_on_rules", "judge_model"]

Vector = NDArray[np.float64]
SCOPE = (
    "Checked for the fitted model and its {:,} training rows, with the noise that was given. Etas of rows and groups are in "
    "standard deviations in rules. Columns that the model does not use are in no rule."
)
"""What rules were checked for."""


def judge_model(
    on: AppliedPolicy,
    measured: MeasuredEtas,
    exposures: Exposures,
    groups: Any,
    attacked: Attacked | None,
    cost: Tradeoff | None,
    seen: int = 0,
) -> tuple[Rule, ...]:
    """Every rule of the policy; ``groups`` are the groups of rows, ``seen`` counts rows of utility that are training rows."""
    leak, design, scale = measured.leak, on.design, float(measured.leak.noise.scale)
    information, unit = _standard(leak, design)
    eta = _row_etas(measured, information) * unit / scale
    return judge(
        on.rules,
        Judged(
            scale=scale,
            proportional=True,
            whose=measured.whose,
            called=("person", "people") if design.repeated is None else ("row", "rows"),
            anyone=design.anyone,
            target=on.settings.target,
            eta=float(eta.max()),
            row=int(eta.argmax()),
            rows_above=lambda limit: int(np.count_nonzero(~(eta <= limit))),
            values=_values(on, measured, exposures),
            shares_unknown=_shares_unknown(measured),
            groups=_groups(measured, information, groups, eta, unit / scale),
            membership=_membership(on.policy, measured),
            attacked=Attacked() if attacked is None else attacked,
            attackable=lambda name, who: _attackable(measured, name, who),
            unattacked=lambda name: "",
            cost=None if cost is None else cost.led_by(on.kind.metric.name),
            required=_required(on, cost, leak, seen),
            fixed_scale=fixed_scale(leak.noise),
        ),
    )


def _shares_unknown(measured: MeasuredEtas) -> str | None:
    """Why no share is known, or None."""
    return SEVERAL_ROWS if measured.several else not_shown(measured.leak)


def _standard(leak: Leakage, design: Design) -> tuple[Information, float]:
    """With attributes in standard units over that of the label, and what etas are multiplied by: the unit of the label."""
    unit = 1.0 if design.target.classes else float(design.target.unit)
    scales = {feature.name: feature.scale for feature in design.features if feature.kind == "number"}
    found = []
    for attribute in measurement(leak).information.attributes:
        own = np.eye(len(attribute.columns)) if attribute.directions is None else attribute.directions
        moved = own * (scales.get(attribute.name, 1.0) / unit)
        found.append(replace(attribute, directions=moved))
    return information_of(replace(measurement(leak).jacobian, attributes=tuple(found))), unit


def _row_etas(measured: MeasuredEtas, information: Information) -> Vector:
    if measured.people is None:
        return np.asarray(host(information.example_norms(information.attributes, True)), dtype=np.float64)
    return np.asarray(norms_of_people(information, rows_by_person(measured.people)))


def _groups(
    measured: MeasuredEtas, information: Information, groups: Any, eta: Vector, factor: float
) -> tuple[tuple[str, float, float], ...]:
    if groups is None or measured.people is not None:
        return ()
    members = measured.groups(groups)
    joint = norms_of_sets(information, information.attributes, True, [*members.values()])
    means = [float(eta[rows].mean()) for rows in members.values()]
    return tuple((name, mean, own * factor) for name, mean, own in zip(members, means, joint, strict=True))


def _values(on: AppliedPolicy, measured: MeasuredEtas, exposures: Exposures) -> tuple[JudgedValue, ...]:
    """Columns in the model's order, and the target."""
    names, target = measured.leak.attributes, on.settings.target
    order = [*((name, j) for j, name in enumerate(names)), (target, len(names))]
    return tuple(_value(on, measured, exposures, name, place) for name, place in order)


def _value(on: AppliedPolicy, measured: MeasuredEtas, exposures: Exposures, name: str, place: int) -> JudgedValue:
    target = name == on.settings.target
    cells = np.nan_to_num(measured.label if target else measured.cells[:, place])
    spread = float(exposures.spreads[place])
    shares = np.nan_to_num(measured.by_place(exposures.values[:, place])) if np.isfinite(spread) else np.full(1, np.nan)
    limits = {each.key: each.limit for each in (on.rules.label if target else on.rules.columns[name])}
    above = {}
    for key, limit in limits.items():
        if key == "max_revealed":
            above[key] = int(np.count_nonzero(shares > exposure_at(limit)))
        elif key in ("max_eta", "min_error"):
            above[key] = int(np.count_nonzero(~(cells <= (limit if key == "max_eta" else 1.0 / limit))))
    feature = next((each for each in on.design.features if each.name == name), None)
    varies = None
    if feature is not None and feature.kind == "number":
        varies = feature.prior
    elif target and not on.design.target.classes:
        varies = label_spread(on.design)
    return JudgedValue(
        name=name,
        eta=float(cells.max()),
        worst=int(cells.argmax()),
        rms=float(shares.max()) / spread,
        worst_rms=int(shares.argmax()),
        spread=spread,
        above=above,
        varies=varies,
    )


def _membership(policy: Policy, measured: MeasuredEtas) -> JudgedMembership:
    if not policy.section("membership"):
        return JudgedMembership(unknown="No rule is on it.")
    leak = measured.leak
    why = membership_unknown(leak)
    if why:
        return JudgedMembership(unknown=f"Whether someone is in the data: {why}.")
    try:
        mu, known = measured.membership(EXACT)
    except FisherleakError as error:
        return JudgedMembership(unknown=str(error))
    right = accuracy_of(mu)
    worst = int(np.argmax(right))
    note = recognised_words(known, mu.size, measured.people is not None, BY_BOUNDS)
    goes_as_scale = np.isfinite(mu[worst]) and leak.membership_kind == "mu"
    return JudgedMembership(
        right=float(right[worst]),
        row=worst,
        mu=float(mu[worst]) if goes_as_scale else None,
        above=lambda limit: int(np.count_nonzero(~(right <= limit))),
        epsilons=(
            (lambda delta, limit: epsilons_of(mu, (worst, float(mu[worst])), None, delta, limit))
            if leak.membership_kind == "mu"
            else None
        ),
        note=note,
    )


def _attackable(measured: MeasuredEtas, name: str, who: str) -> int:
    """Rows, or people, that have a value to guess; rows where those of one person differ."""
    if measured.people is not None and who == "people":
        return measured.people.count
    if name not in measured.leak.attributes:
        return measured.leak.n
    return int(np.count_nonzero(~np.isnan(measured.cells[:, measured.leak.attributes.index(name)])))


def _required(on: AppliedPolicy, cost: Tradeoff | None, leak: Leakage, seen: int) -> Required:
    settings, n, held = on.settings, leak.n, cost.rows - seen if cost is not None and cost.held_out else 0
    return Required(
        public=settings.public,
        model=on.kind.name,
        group=settings.group,
        person=settings.person,
        held_out=round(held / (n + held), 3),
        unbounded=tuple(on.design.unbounded),
        covariance=GIVEN if has_shape(leak.noise) else None,
    )


def advice_on_rules(summary: Summary) -> Advice | None:
    """What to do where a rule failed: the noise that limits on etas need, where all that failed are such."""
    policy, gate = summary.policy, summary.gate
    if policy is None or policy.passed:
        return None
    failed = [rule for rule in policy.rules if not rule.passed]
    needed = [rule.noise for rule in failed if rule.noise is not None]
    if len(needed) < len(failed):
        names = ", ".join(rule.rule for rule in failed if rule.noise is None)
        return Advice(None, f"More noise is not known to help with {names}: change the model, or those rules.")
    most = summary.noise.scale * summary.eta.examples.max
    enough = rounded_up(max(*needed, most / gate.max_eta if gate is not None else 0.0))
    return Advice(enough, f"The rules that failed pass with noise of scale {number(enough)}: audit again with it.")
