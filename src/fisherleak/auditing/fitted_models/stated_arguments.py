"""What arguments of ``fl.audit`` state, apart from the data: whose rows these are, names, and what a board page may show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fisherleak._support.arrays import host
from fisherleak._support.level_types import check_ids_apart, check_ids_exact, id_text
from fisherleak.auditing.fitted_models.summary_of_leakage import LABEL
from fisherleak.auditing.policy.disclosed_beside_noise import few_in_class
from fisherleak.auditing.policy.policy import Rule
from fisherleak.auditing.policy.stated_rules import columns_named, stated_rules
from fisherleak.auditing.records import Plan
from fisherleak.auditing.report_summary import Stated, Summary
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.calibration_record import calibration_of
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.models import Table
from fisherleak.tables.design.whose_rows import FEWEST, People
from fisherleak.training.noise_words import has_shape
from fisherleak.training.trained_model import Settings

CLOSE = 1e-9
__all__ = ["confirmed_name", "name_of_column", "stated_of", "whose_rows_are"]


def whose_rows_are(leak: Leakage, person: Any) -> People | None:
    """Whose rows they are."""
    if person is None:
        return None
    given = measurement(leak).labels(person)
    labels = np.asarray(host(given) if hasattr(given, "detach") else given)
    if labels.shape != (leak.n,):
        raise InvalidInputError(f"person must name whose row each of the {leak.n} rows is; got shape {labels.shape}.")
    if any(each is None or each != each for each in labels.tolist()):
        raise InvalidInputError("person is missing in some rows: name everyone, or leave these rows out and fit again.")
    check_ids_exact("person", labels.tolist())
    check_ids_apart("person", dict.fromkeys(map(str, labels.tolist())))
    known = np.array([id_text(each) for each in labels.tolist()], dtype=str)  # 7, 7.0 and "007" are one person
    _, first, places = np.unique(known, return_index=True, return_inverse=True)
    if len(first) < FEWEST:
        raise InvalidInputError(f"person has one value only: at least {FEWEST} people are needed.")
    order = np.argsort(first, kind="stable")  # in the order of their first rows
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return People(place[places.reshape(-1)], labels[first[order]].astype(str).astype(object))


def name_of_column(given: Any, default: str) -> str | None:
    """What a column that was given by its name or its values is called."""
    if given is None or isinstance(given, str):
        return given
    name = getattr(given, "name", None)
    return name if isinstance(name, str) and name else default


def confirmed_name(name: str | None, given: Any, table: Table) -> str | None:
    """What a requirement on that column is checked with: another name where X has a column of this one with other values."""
    if name is None or isinstance(given, str) or name not in table.names:
        return name
    own, other = (
        np.asarray(host(each) if hasattr(each, "detach") else each).reshape(-1).tolist()
        for each in (table.named(name), given)
    )
    same = len(own) == len(other) and all(id_text(a) == id_text(b) for a, b in zip(own, other, strict=True))
    return name if same else f"other values than those of '{name}' in X"


def stated_of(
    summary: Summary,
    settings: Settings,
    plan: Plan,
    given: Noise | None,
    rules: Sequence[Rule],
    y: Any,
    y_test: Any,
    people: People | None,
) -> Stated:
    """What arguments state, apart from the data."""
    told, gate = calibration_of(given), summary.gate
    by_rows = told is not None and told.by_present_rows
    limit = told.eta if told is not None and told.over == "max" and settings.person is None else None
    # noise of another leakage may not keep its limit here
    kept = limit is not None and summary.eta.examples.max <= limit * (1.0 + CLOSE)
    cost = summary.tradeoff
    classes = "accuracy" in {cost.metric, *(each.metric for each in cost.also)}
    return Stated(
        columns=tuple(name for name in columns_named(settings, plan) if name != LABEL),
        rules=stated_rules(
            plan.policy, rules, settings.target, None if gate is None else (gate.max_eta, not gate.exceeded)
        ),
        scale=None if given is None or by_rows else float(given.scale),
        shaped=given is not None and has_shape(given),
        eta=limit if by_rows and kept else None,
        unsettled=_few_in_class(y, y_test, people) if classes else "",
    )


def _few_in_class(y: Any, y_test: Any, people: People | None) -> str:
    """That one row, or person, decides which measures of utility have a value; nothing where none does."""
    classes, codes = np.unique(np.asarray(y).reshape(-1), return_inverse=True)
    whose = np.arange(codes.size) if people is None else people.of_row
    having = np.unique(np.column_stack([codes.reshape(-1), whose]), axis=0)[:, 0]
    other = [] if y_test is None else [int(np.sum(np.asarray(y_test).reshape(-1) == each)) for each in classes]
    return few_in_class(np.bincount(having).tolist(), other, people is not None)
