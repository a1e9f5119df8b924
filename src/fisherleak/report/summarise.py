"""The summary of an audited table, and the same as JSON of schema "fisherleak.summary/2"."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from fisherleak._support.json import versions
from fisherleak._support.namespaces import Json
from fisherleak.auditing import report_summary as record
from fisherleak.auditing.exposure.columns import ColumnFigures, LabelFigures
from fisherleak.auditing.exposure.exposure import MOST_LISTED, Spread
from fisherleak.auditing.exposure.membership_of_rows import FALSE_POSITIVES, NOTABLE
from fisherleak.auditing.exposure.revealed import HALF, Share, share_of
from fisherleak.auditing.plain_records import as_json
from fisherleak.auditing.policy.advice import advice_on, choices_on
from fisherleak.auditing.policy.disclosed_beside_noise import few_in_class, kind_unsettled
from fisherleak.auditing.policy.stated_rules import stated_rules
from fisherleak.auditing.records import Audit
from fisherleak.auditing.report_summary import Summary
from fisherleak.auditing.summary_parts import (
    checked_policy,
    choices_with_cost,
    outcomes_of,
    prices_with_cost,
    utility_curve,
)
from fisherleak.releasing.cards.enough_people import sharing_classes
from fisherleak.report.assumptions import assumptions_of, policy_scope, unread_cells
from fisherleak.tables import Design, Feature
from fisherleak.tables.design.gaps import MISSING
from fisherleak.training.noise_words import has_shape, name_of


def summarise(audit: Audit, *, show_values: bool = False, command: str | None = None) -> Json:
    """The dictionary that is written as ``summary.json`` and shown in the report.

    Parameters
    ----------
    audit : Audit
    show_values : bool
        Whether the most exposed rows come with their raw values.
    command : str, optional
        The command line, for the record.
    """
    done: Json = as_json(summary_of_audit(audit, show_values=show_values, command=command))
    return done


def summary_of_audit(audit: Audit, *, show_values: bool = False, command: str | None = None) -> Summary:
    """The record behind it."""
    design, scale, advice = audit.design, audit.unit_scale, advice_on(audit)
    tradeoff = utility_curve(audit.tradeoff, audit.attacked)
    return Summary(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        title=f"{design.source}: what a {design.target.kind} model of {design.target.name} reveals",
        command=command,
        seed=audit.settings.seed,
        versions=versions(),
        assumptions=(*assumptions_of(audit), *unread_cells(audit, show_values), *audit.attacked.notes),
        data=_data(audit),
        model=_model(audit),
        noise=record.AddedNoise(
            kind=name_of(audit.noise.noise),
            scale=audit.noise.scale,
            chosen=audit.noise.chosen,
            note=audit.noise.note,
            by_shape=audit.trained.most_by_shape(),
        ),
        eta=_eta(audit),
        rows=tuple(_row(audit, k, show_values) for k in range(audit.worst.rows.size)),
        attributes=tuple(
            _attribute(audit, figures, share) for figures, share in zip(audit.columns, audit.revealed(), strict=False)
        ),
        label=_label(audit),
        people=record.ExposedPeople(audit.people, HALF, measured=any(audit.revealed())),
        groups=tuple(
            record.Group(group.name, group.spread.count, group.joint / scale, *_moments(group.spread, scale))
            for group in audit.groups
        ),
        tradeoff=tradeoff,
        choices=choices_with_cost(choices_on(audit), tradeoff, audit.tradeoff.gain),
        prices=prices_with_cost(audit.prices, tradeoff, audit.tradeoff.gain),
        attacks=outcomes_of(audit.attacked),
        distinguishable=tuple(record.DistinguishableColumn(**vars(apart)) for apart in audit.attacked.distinguishable),
        balance=_balance(audit),
        gate=_gate(audit),
        policy=_policy(audit),
        membership=_membership(audit),
        next=record.Next(advice.noise, advice.note, eta=advice.eta),
        diagnostics=_diagnostics(audit),
        stated=_stated(audit),
    )


def _data(audit: Audit) -> record.Data:
    design, settings = audit.design, audit.settings
    return record.Data(
        source=design.source,
        sha256=design.sha256,
        rows_read=design.rows_read,
        rows_used=design.n + design.held_out,
        dropped=tuple(record.DroppedRows(reason, count) for reason, count in design.dropped),
        missing=tuple(record.MissingCells(f.column, f.count, f.by, f.kind) for f in design.filled),
        target=design.target.name,
        classes=tuple(str(name) for name in design.target.classes) or None,
        id_column=settings.id,
        group_column=settings.group,
        person_column=settings.person,
        people=None if design.people is None else design.people.count,
        repeated=_repeated(audit),
        in_memory=not design.lazy,
        train_rows=design.n,
        test_rows=design.held_out,
        columns=tuple(record.TableColumn(c.name, c.kind, c.assumed, c.note, c.levels) for c in design.columns),
    )


def _stated(audit: Audit) -> record.Stated:
    choice, gate, calibrated = audit.noise, audit.gate, audit.calibrated
    return record.Stated(
        columns=audit.named,
        rules=stated_rules(
            audit.policy,
            audit.rules,
            audit.design.target.name,
            None if gate is None else (gate.max_eta, not gate.count),
        ),
        # of a released file, a scale that a limit decided was computed from the rows
        scale=choice.scale if choice.chosen == "given" and calibrated is None else None,
        eta=choice.eta if calibrated is None else calibrated.eta,
        shaped=has_shape(choice.noise),
        unsettled=("" if audit.released else kind_unsettled(audit.design)) or _few_in_class(audit.design),
    )


def _few_in_class(design: Design) -> str:
    held_out = [int(np.sum(design.y_test == k)) for k in range(len(design.target.classes)) if design.y_test.size]
    return few_in_class(sharing_classes(design), held_out, design.people is not None)


def _repeated(audit: Audit) -> record.RepeatedId | None:
    """An identifier that repeats, with what to do: of a released file, to release again."""
    found = audit.design.repeated
    if found is None:
        return None
    note = f"{found.fact} Release again with `person={found.column!r}`." if audit.released else found.note
    return record.RepeatedId(found.column, found.values, found.rows, note)


def _model(audit: Audit) -> record.DescribedModel:
    trained, target = audit.trained, audit.design.target
    penalty = f"with l2 = {trained.l2:g} per row" if trained.l2 else "without a penalty"
    weights = "" if trained.weights is None else ", rows reweighted by IRFIL"
    return record.DescribedModel(
        kind=target.kind,
        assumed=target.assumed,
        description=f"{trained.kind.words} on standardised numeric columns and indicators of categories, {penalty}{weights}",
        l2=trained.l2,
        parameters=trained.parameters,
        intercept=True,
        public=trained.public,
    )


def _eta(audit: Audit) -> record.Etas:
    rows, scale = audit.rows, audit.unit_scale
    bars = [_bar(group.name, group.spread, scale) for group in audit.groups]
    everyone = "all rows" if audit.design.people is None else "all people"
    bars += [] if audit.spread is None else [_bar(everyone, audit.spread, scale)]
    examples = record.EtaFigures(
        mean=rows.digest.mean / scale,
        sd=(rows.digest.sd or 0.0) / scale,
        median=rows.middle / scale,
        min=rows.digest.low / scale,
        max=rows.digest.high / scale,
        q05=rows.low / scale,
        q95=rows.high / scale,
    )
    return record.Etas(audit.dataset / scale, examples, record.Histogram(tuple(audit.edges / scale), tuple(bars)))


def _bar(name: str, spread: Spread, scale: float) -> record.HistogramGroup:
    return record.HistogramGroup(name, spread.count, spread.mean / scale, tuple(spread.bins))


def _moments(spread: Spread, scale: float) -> tuple[float, float, float]:
    """Mean, standard deviation and the largest."""
    return spread.mean / scale, spread.sd / scale, spread.largest / scale


def _row(audit: Audit, k: int, show_values: bool) -> record.ExposedRow:
    design, worst, scale = audit.design, audit.worst, audit.unit_scale
    number, name = audit.names[int(worst.rows[k])]
    ends = np.cumsum([0, *(rows.size for rows in worst.members)])
    own = worst.X[ends[k] : ends[k + 1]]
    return record.ExposedRow(
        row=number,
        id=name,
        eta=worst.eta[k] / scale,
        eta_label=worst.eta_label[k] / scale / design.target.unit,
        cells=tuple(worst.cells[k] / scale),
        revealed=_shares(audit, k),
        values={f.name: _texts(_shown(design, f, own)) for f in design.features} if show_values else None,
        rows=_many(audit, int(worst.rows[k])),
    )


def _shares(audit: Audit, k: int) -> tuple[float | None, ...] | None:
    """The share revealed of every value of one of the most exposed rows; None where it is not known, and for categories."""
    if audit.worst.rms is None:
        return None
    units = np.array([feature.scale for feature in audit.design.features])
    exposures = audit.worst.rms[k] / audit.unit_scale * audit.yardsticks.spreads[:-1] * units
    return tuple(share_of(float(exposure)) if np.isfinite(exposure) else None for exposure in exposures)


def _many(audit: Audit, place: int) -> int | None:
    """How many rows a person has; none where rows stand for themselves."""
    people = audit.design.people
    return None if people is None else int(people.sizes[place])


def _person(audit: Audit, place: int) -> str | None:
    """What a person is called; none where rows stand for themselves."""
    return None if audit.design.people is None else audit.names[place][1]


def _id(audit: Audit, place: int) -> str | None:
    """What the table's own column calls a row; none where rows are known by their number, or belong to people."""
    return audit.names[place][1] if audit.design.people is None else None


def _texts(values: Any) -> str:
    """The values of a row in a column, or the different ones of a person's rows."""
    return ", ".join(dict.fromkeys(_text(value) for value in values))


def _shown(design: Design, feature: Feature, own: Any) -> Any:
    """Raw values, and a word where there is none."""
    values = design.raw(feature, own).astype(object)
    values[design.lacking(feature, own)] = MISSING
    return values


def _text(value: Any) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _attribute(audit: Audit, figures: ColumnFigures, share: Share | None) -> record.ModelColumn:
    feature, scale = figures.feature, audit.unit_scale
    return record.ModelColumn(
        name=feature.name,
        kind="number" if feature.has_share else "category",
        eta_column=figures.joint / scale,
        error_least=scale / figures.largest if figures.largest > 0 else None,
        error_typical=scale / figures.median if figures.median > 0 else None,
        spread=feature.prior if feature.has_share else None,
        yes_no=feature.yes_no,
        step=feature.step if feature.yes_no else 1.0,
        **_most_exposed(audit, figures, share),
    )


def _most_exposed(audit: Audit, figures: ColumnFigures | LabelFigures, share: Share | None) -> dict[str, Any]:
    """Of a column, or of the target: etas of its values, who is most exposed, and the share that is revealed."""
    return {
        "eta_max": figures.largest / audit.unit_scale,
        "eta_mean": figures.mean / audit.unit_scale,
        "eta_median": figures.median / audit.unit_scale,
        "worst_row": audit.names[figures.worst][0],
        "worst_id": _id(audit, figures.worst),
        "worst_person": _person(audit, figures.worst),
        "revealed": _share(audit, share),
    }


def _share(audit: Audit, share: Share | None) -> record.RevealedShare | None:
    """Of a number; none for categories."""
    if share is None:
        return None
    whose = audit.names[share.row][0], _id(audit, share.row), _person(audit, share.row)
    return record.RevealedShare(share.spread, share.worst, share.high, share.median, share.count, *whose)


def _label(audit: Audit) -> record.Label:
    """What is revealed about the target, in its own unit."""
    target = audit.design.target
    return record.Label(
        name=target.name,
        kind="category" if target.classes else "number",
        **_most_exposed(audit, audit.label, audit.revealed()[-1]),
    )


def _balance(audit: Audit) -> record.Equalised | None:
    even, scale = audit.balance, audit.unit_scale
    if even is None:
        return None
    who = "Rows" if audit.design.people is None else "People"
    edges, bins = even.edges / scale, (even.before.bins, even.after.bins)
    return record.Equalised(
        iterations=even.iterations,
        before=record.EtaMoments(*_moments(even.before, scale)),
        after=record.EtaMoments(*_moments(even.after, scale)),
        histogram=record.BeforeAndAfter(*(tuple(each) for each in (edges, *bins))),
        utility_before=even.utility_before,
        utility_after=even.utility_after,
        note=f"{who} are reweighted so that all are equally exposed. Both sides have the same noise; utility "
        "is the mean over noisy copies. The weights depend on the data, which these etas do not count.",
    )


def _gate(audit: Audit) -> record.CheckedGate | None:
    if audit.gate is None:
        return None
    count, scale = audit.gate.count, audit.unit_scale
    above = audit.rows.digest.top[: min(count, MOST_LISTED)]
    rows = tuple(record.GateRow(*audit.names[i], eta / scale, _many(audit, i)) for i, eta in above)
    return record.CheckedGate(audit.gate.max_eta, count > 0, count, rows)


def _policy(audit: Audit) -> record.CheckedPolicy | None:
    """Every rule with its limit and what was found."""
    if audit.policy is None:
        return None
    noise = None if audit.passing is None else audit.passing.noise
    return checked_policy(audit.policy, audit.rules, noise, policy_scope(audit), lambda place: audit.names[place][0])


def _membership(audit: Audit) -> record.MembershipFound | None:
    """How well membership can be seen, the most exposed rows first."""
    membership = audit.membership
    if not membership.measured:
        return None
    return record.MembershipFound(
        kind=membership.kind,
        accuracy_mean=membership.mean,
        accuracy_max=membership.top[0].right,
        accuracy_q95=membership.high,
        accuracy_median=membership.median,
        notable=NOTABLE,
        count=membership.notable,
        false_positives=FALSE_POSITIVES,
        recognised=membership.recognised,
        recognised_at_most=membership.recognised_at_most,
        note=membership.recognised_note,
        rows=tuple(
            record.MemberRow(
                *audit.names[item.row],
                rows=_many(audit, item.row),
                mu=item.mu,
                accuracy=item.right,
                auc=item.auc,
                found=item.found,
            )
            for item in membership.top
        ),
    )


def _diagnostics(audit: Audit) -> record.Diagnostics:
    fit, spot = audit.trained.fit, audit.spot
    return record.Diagnostics(
        gradient=fit.gradient,
        distance=fit.distance,
        condition=fit.condition,
        steps=fit.steps,
        warnings=audit.warnings,
        finite_difference=None if spot is None else record.RefitCheck(**vars(spot)),
        seconds=audit.seconds,
    )
