"""An audit as a plain dictionary of JSON types: schema "fisherleak.summary/1". NaN never appears in it."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import numpy as np

from fisherleak._support.json import plain, versions
from fisherleak._support.namespaces import Json
from fisherleak.attacks import Outcome
from fisherleak.audit.advice import advice_on, choices_on
from fisherleak.audit.attackers import Attacked
from fisherleak.audit.columns import ColumnFigures
from fisherleak.audit.exposure import MOST_LISTED, Spread
from fisherleak.audit.noises import name_of
from fisherleak.audit.presence import FALSE_POSITIVES, NOTABLE, Told
from fisherleak.audit.records import Audit
from fisherleak.audit.revealed import HALF, Share, share_of
from fisherleak.audit.utility import Tradeoff
from fisherleak.report.assumptions import assumptions_of, policy_scope, unread_cells
from fisherleak.report.verdict import utility_between
from fisherleak.tables import Design, Feature
from fisherleak.tables.gaps import MISSING

__all__ = ["SCHEMA", "outcomes_of", "summarise"]

SCHEMA = "fisherleak.summary/1"


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
    design = audit.design
    kind, scale, advice = design.target.kind, audit.unit_scale, advice_on(audit)
    summary = {
        "schema": SCHEMA,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "title": f"{design.source}: what a {kind} model of {design.target.name} reveals",
        "command": command,
        "seed": audit.settings.seed,
        "versions": versions(),
        "assumptions": [*assumptions_of(audit), *unread_cells(audit, show_values), *audit.attacked.notes],
        "data": _data(audit),
        "model": _model(audit),
        "noise": {
            "kind": name_of(audit.noise.noise),
            "scale": audit.noise.scale,
            "chosen": audit.noise.chosen,
            "note": audit.noise.note,
            "by_shape": audit.trained.most_by_shape(),
        },
        "eta": _eta(audit),
        "rows": [_row(audit, k, show_values) for k in range(audit.worst.rows.size)],
        "attributes": [
            _attribute(audit, figures) | {"revealed": _share(audit, share)}
            for figures, share in zip(audit.columns, audit.revealed(), strict=False)
        ],
        "label": _label(audit),
        "people": {"count": audit.people, "share": HALF, "measured": any(audit.revealed())},
        "groups": [
            {"name": group.name, "count": group.spread.count, "eta_joint": group.joint / scale}
            | _moments(group.spread, scale)
            for group in audit.groups
        ],
        "tradeoff": _tradeoff(audit),
        "choices": [],
        "attacks": outcomes_of(audit.attacked),
        "told_apart": [vars(apart) for apart in audit.attacked.told_apart],
        "balance": _balance(audit),
        "gate": _gate(audit),
        "policy": _policy(audit),
        "membership": _membership(audit),
        "next": {"noise": advice.noise, "note": advice.note, "command": None, "command_for": None},
        "diagnostics": _diagnostics(audit),
    }
    done: dict[str, Any] = plain(summary)
    done["choices"] = _choices(audit, done)
    return done


def _choices(audit: Audit, summary: Json) -> list[Json]:
    """What noise may be chosen, with what it leaves of utility; ``kept`` is the part of what a constant does not do."""
    cost, found = summary["tradeoff"], []
    gain = None if cost["without_noise"] is None else cost["without_noise"] - cost["constant"]
    for choice in choices_on(audit):
        at = utility_between(summary, choice.noise)
        kept = None if at is None or not gain else max(0.0, min(1.0, (at - cost["constant"]) / gain))
        found.append({"share": choice.share, "noise": choice.noise, "utility": at, "kept": kept})
    return found


def outcomes_of(attacked: Attacked) -> list[Json]:
    """Each outcome as the summary and the command ``attack`` have it."""
    return [_outcome(outcome, note, attacked.of) for outcome, note in attacked.outcomes]


def _outcome(outcome: Outcome, note: str, of: str) -> Json:
    how = "expected over the noise"
    if outcome.trials is not None:
        how = f"{outcome.trials} release{'s' * (outcome.trials > 1)}"
    return {
        "attacker": outcome.attacker,
        "attribute": outcome.attribute,
        **{name: float(getattr(outcome, name)) for name in ("accuracy", "low", "high", "baseline")},
        **{name: getattr(outcome, name) for name in ("worst", "q95", "median", "found")},
        "method": f"{outcome.n} {of}, {how}",
        "note": f"{note[0].upper()}{note[1:]}.",
    }


def _data(audit: Audit) -> Json:
    design, settings = audit.design, audit.settings
    return {
        "source": design.source,
        "sha256": design.sha256,
        "rows_read": design.rows_read,
        "rows_used": design.n + design.held_out,
        "dropped": [{"reason": reason, "count": count} for reason, count in design.dropped],
        "missing": [{"column": f.column, "count": f.count, "filled": f.by, "as": f.kind} for f in design.filled],
        "target": design.target.name,
        "classes": [str(name) for name in design.target.classes] or None,
        "id_column": settings.id,
        "group_column": settings.group,
        "person_column": settings.person,
        "people": None if design.people is None else design.people.count,
        "in_memory": not design.lazy,
        "train_rows": design.n,
        "test_rows": design.held_out,
        "columns": [
            {"name": c.name, "kind": c.kind, "assumed": c.assumed, "note": c.note, "levels": c.levels}
            for c in design.columns
        ],
    }


def _model(audit: Audit) -> Json:
    trained, target = audit.trained, audit.design.target
    penalty = f"with l2 = {trained.l2:g} per row" if trained.l2 else "without a penalty"
    weights = "" if trained.weights is None else ", rows reweighted by IRFIL"
    return {
        "kind": target.kind,
        "assumed": target.assumed,
        "description": f"{trained.kind.words} on standardised numbers and indicators of categories, {penalty}{weights}",
        "l2": trained.l2,
        "parameters": trained.parameters,
        "intercept": True,
        "public": trained.public,
    }


def _eta(audit: Audit) -> Json:
    rows, scale = audit.rows, audit.unit_scale
    bars = [_bar(group.name, group.spread, scale) for group in audit.groups]
    everyone = "all rows" if audit.design.people is None else "all people"
    bars += [] if audit.spread is None else [_bar(everyone, audit.spread, scale)]
    examples = {
        "mean": rows.digest.mean / scale,
        "sd": (rows.digest.sd or 0.0) / scale,
        "median": rows.middle / scale,
        "min": rows.digest.low / scale,
        "max": rows.digest.high / scale,
        "q05": rows.low / scale,
        "q95": rows.high / scale,
    }
    histogram = {"edges": audit.edges / scale, "groups": bars}
    return {"dataset": audit.dataset / scale, "examples": examples, "histogram": histogram}


def _bar(name: str, spread: Spread, scale: float) -> Json:
    return {"name": name, "count": spread.count, "mean": spread.mean / scale, "counts": spread.bins}


def _moments(spread: Spread, scale: float) -> dict[str, float]:
    return {"eta_mean": spread.mean / scale, "eta_sd": spread.sd / scale, "eta_max": spread.largest / scale}


def _row(audit: Audit, k: int, show_values: bool) -> Json:
    design, worst, scale = audit.design, audit.worst, audit.unit_scale
    number, name = audit.names[int(worst.rows[k])]
    ends = np.cumsum([0, *(rows.size for rows in worst.members)])
    own = worst.X[ends[k] : ends[k + 1]]
    return {
        "row": number,
        "id": name,
        "eta": worst.eta[k] / scale,
        "eta_label": worst.eta_label[k] / scale / audit.trained.unit,
        "cells": worst.cells[k] / scale,
        "revealed": _shares(audit, k),
        "values": {f.name: _texts(_shown(design, f, own)) for f in design.features} if show_values else None,
    } | _many(audit, int(worst.rows[k]))


def _shares(audit: Audit, k: int) -> list[float | None] | None:
    """The share revealed of every value of one of the most exposed rows; None where it is not known, and for categories."""
    if audit.worst.rms is None:
        return None
    units = np.array([feature.scale for feature in audit.design.features])
    exposures = audit.worst.rms[k] / audit.unit_scale * audit.yardsticks.spreads[:-1] * units
    return [share_of(float(exposure)) if np.isfinite(exposure) else None for exposure in exposures]


def _many(audit: Audit, place: int) -> dict[str, int]:
    """How many rows a person has; nothing where rows stand for themselves."""
    people = audit.design.people
    return {} if people is None else {"rows": int(people.sizes[place])}


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


def _attribute(audit: Audit, figures: ColumnFigures) -> Json:
    feature, scale = figures.feature, audit.unit_scale
    return {
        "name": feature.name,
        "kind": "number" if feature.has_share else "category",
        "eta_column": figures.joint / scale,
        "eta_max": figures.largest / scale,
        "eta_mean": figures.mean / scale,
        "eta_median": figures.median / scale,
        "error_least": scale / figures.largest if figures.largest > 0 else None,
        "error_typical": scale / figures.median if figures.median > 0 else None,
        "spread": feature.prior if feature.has_share else None,
        "worst_row": audit.names[figures.worst][0],
        **({"yes_no": True} if feature.yes_no else {}),
        **({"step": feature.step} if feature.yes_no and feature.step != 1.0 else {}),
        **({} if audit.design.people is None else {"worst_person": audit.names[figures.worst][1]}),
    }


def _share(audit: Audit, share: Share | None) -> Json | None:
    """Of a number; none for categories."""
    if share is None:
        return None
    row, person = audit.names[share.row]
    found = {
        "spread": share.spread,
        "max": share.worst,
        "q95": share.high,
        "median": share.median,
        "count": share.count,
    }
    return found | {"row": row} | ({} if audit.design.people is None else {"person": person})


def _label(audit: Audit) -> Json:
    """What is revealed about the target, in its own unit."""
    figures, scale = audit.label, audit.unit_scale
    return {
        "name": audit.design.target.name,
        "kind": "category" if audit.design.target.classes else "number",
        "eta_max": figures.largest / scale,
        "eta_mean": figures.mean / scale,
        "eta_median": figures.median / scale,
        "worst_row": audit.names[figures.worst][0],
        **({} if audit.design.people is None else {"worst_person": audit.names[figures.worst][1]}),
        "revealed": _share(audit, audit.revealed()[-1]),
    }


def _tradeoff(audit: Audit) -> Json:
    cost, curves = audit.tradeoff, audit.attacked.curves
    where = "held-out rows" if cost.held_out else "the training rows"
    return {
        "metric": cost.metric.name,
        "label": f"{cost.metric.label}, on {cost.rows:,} {where}"
        if cost.held_out
        else f"{cost.metric.label}, on {where}",
        "higher_is_better": cost.metric.higher_is_better,
        "without_noise": cost.without_noise,
        "constant": cost.constant,
        "held_out": cost.held_out,
        "draws": cost.draws,
        "interval": "low and high hold 90 % of the noisy copies",
        "points": [
            {"scale": p.scale, "utility": p.utility, "low": p.low, "high": p.high, "attacks": curve}
            for p, curve in zip(cost.points, curves, strict=True)
        ],
    } | _also(cost.also)


def _also(cost: Tradeoff | None) -> Json:
    """The same by a second measure; nothing where there is none."""
    if cost is None:
        return {}
    points = [{"scale": p.scale, "utility": p.utility, "low": p.low, "high": p.high} for p in cost.points]
    known = {"metric": cost.metric.name, "label": cost.metric.label, "higher_is_better": cost.metric.higher_is_better}
    return {"also": known | {"without_noise": cost.without_noise, "constant": cost.constant, "points": points}}


def _balance(audit: Audit) -> Json | None:
    even = audit.balance
    if even is None:
        return None
    scale = audit.unit_scale
    sides = {"before": even.before, "after": even.after}
    who = "Rows" if audit.design.people is None else "People"
    return {
        "iterations": even.iterations,
        **{k: {"mean": s.mean / scale, "sd": s.sd / scale, "max": s.largest / scale} for k, s in sides.items()},
        "histogram": {"edges": even.edges / scale, **{k: s.bins for k, s in sides.items()}},
        "utility_before": even.utility_before,
        "utility_after": even.utility_after,
        "note": f"{who} are reweighted until the model leans equally on all of them. Both sides have the same noise; utility "
        "is the mean over noisy copies. The weights depend on the data, which these etas do not count.",
    }


def _gate(audit: Audit) -> Json | None:
    if audit.gate is None:
        return None
    scale, count = audit.unit_scale, audit.gate.count
    above = audit.rows.digest.top[: min(count, MOST_LISTED)]
    return {
        "max_eta": audit.gate.max_eta,
        "exceeded": count > 0,
        "count": count,
        "rows": [
            {"row": audit.names[i][0], "id": audit.names[i][1], "eta": eta / scale} | _many(audit, i)
            for i, eta in above
        ],
    }


def _policy(audit: Audit) -> Json | None:
    """Every rule with its limit and what was found."""
    if audit.policy is None:
        return None
    return {
        "source": audit.policy.source,
        "sha256": audit.policy.sha256,
        "passed": all(rule.passed for rule in audit.rules),
        "count": len(audit.rules),
        "kept": sum(rule.passed for rule in audit.rules),
        "noise": None if audit.passing is None else audit.passing.noise,
        "note": policy_scope(audit),
        "rules": [
            {
                "rule": rule.name,
                "passed": rule.passed,
                "limit": rule.limit,
                "value": rule.value,
                "count": rule.count,
                "row": None if rule.row is None else audit.names[rule.row][0],
                "noise": rule.noise,
                "note": rule.words,
            }
            for rule in sorted(audit.rules, key=lambda rule: rule.passed)
        ],
    }


def _membership(audit: Audit) -> Json | None:
    """How well presence can be told, the rows about which it can be told best first."""
    presence = audit.presence
    if not presence.measured:
        return None
    return {
        "kind": presence.kind,
        "right_mean": presence.mean,
        "right_max": presence.top[0].right,
        "right_q95": presence.high,
        "right_median": presence.median,
        "notable": NOTABLE,
        "count": presence.notable,
        "false_positives": FALSE_POSITIVES,
        "recognised": presence.recognised,
        "note": presence.recognised_note,
        "rows": [_told(audit, item) for item in presence.top],
    }


def _told(audit: Audit, item: Told) -> Json:
    number, name = audit.names[item.row]
    mu = item.mu if math.isfinite(item.mu) else None
    told = {"mu": mu, "right": item.right, "auc": item.auc, "found": item.found}
    return {"row": number, "id": name, **_many(audit, item.row), **told}


def _diagnostics(audit: Audit) -> Json:
    fit, spot = audit.trained.fit, audit.spot
    return {
        "gradient": fit.gradient,
        "distance": fit.distance,
        "condition": fit.condition,
        "steps": fit.steps,
        "warnings": list(audit.warnings),
        "finite_difference": None
        if spot is None
        else {"rows": spot.rows, "largest_relative_error": spot.largest_relative_error, "note": spot.note},
        "seconds": audit.seconds,
    }
