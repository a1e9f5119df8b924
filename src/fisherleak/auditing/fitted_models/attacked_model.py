"""What attackers get out of a model that was fitted elsewhere, or why none were run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Estimator, Vector
from fisherleak._support.progress import doing
from fisherleak.attacks.candidate_values import classifies
from fisherleak.attacks.candidates import jacobian_at_minimum
from fisherleak.auditing.attackers import ATTACKED_ROWS, ATTACKED_VALUES, attack_all
from fisherleak.auditing.exposure.moves_between_values import MOST_TOLD
from fisherleak.auditing.fitted_models.measured_etas import MeasuredEtas
from fisherleak.auditing.fitted_models.summary_of_leakage import categories_of
from fisherleak.auditing.fitted_models.under_attack import (
    MOST_COLUMNS,
    MOST_LEVELS,
    AttackedColumn,
    UnderAttack,
    columns_to_attack,
)
from fisherleak.auditing.records import Attacked
from fisherleak.auditing.report_summary import Summary
from fisherleak.engine.jacobian.folding import Folding
from fisherleak.engine.noise.noise import covariance_of
from fisherleak.engine.norms import one_release
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.models import Table, checked_model
from fisherleak.models.steps.scalers import Scale, complete, neutral
from fisherleak.tables.design.whose_rows import People
from fisherleak.training.people import of_people, one_row_each
from fisherleak.training.pipelines import Turned
from fisherleak.training.utility import GRID

__all__ = ["AttackRun", "attacked_model"]

COUNTED_WITH_IT = (
    "No attack was run: with public='nothing', attackers learn scales that are standard deviations of single columns, without "
    "weights, and no filled values. Audit with public='preprocessing' to have attacks."
)
LARGE = "The table is large, so no attack was run; name a column with `attributes` to have one."
SEVERAL_LABELS = (
    "The labels are several numbers for each row, and were not attacked: fl.attacks.WhiteBox(…, ('label', 0))."
)


@dataclass(frozen=True)
class AttackRun:
    """What is attacked: a model and its rows, the columns that were asked for and those that rules need."""

    model: Any
    X: Any = field(repr=False)
    y: Any = field(repr=False)
    weights: Any = field(repr=False)
    measured: MeasuredEtas = field(repr=False)
    asked: Sequence[str] | None
    ruled: tuple[str, ...]
    seed: int
    key: int

    def columns(self, under: UnderAttack) -> tuple[str, ...]:
        """Without the label: those asked for, or two with few values, those in which no person's rows differ first."""
        leak, label = self.measured.leak, under.label
        asked = columns_to_attack(leak, self.asked, label) if self.asked is not None else ()
        alike = columns_to_attack(leak, None, label, lambda name: not under.varying([name]))
        usual = (*alike, *columns_to_attack(leak, None, label, lambda name: bool(under.varying([name]))))[:MOST_COLUMNS]
        if self.asked is not None and not self.ruled:
            return asked
        return tuple(dict.fromkeys((*asked, *usual, *(name for name in self.ruled if name != label))))


def attacked_model(run: AttackRun, summary: Summary) -> Attacked:
    """What attackers get, or why they were not run."""
    measured, y = run.measured, run.y
    leak, asked = measured.leak, run.asked is not None or bool(run.ruled)
    scales = (leak.noise.scale * GRID).tolist()
    nothing = Attacked(curves=((),) * len(scales))
    large = measurement(leak).information.rows[0].size > ATTACKED_VALUES or leak.n > ATTACKED_ROWS
    if large and not asked:
        return replace(nothing, notes=(LARGE,))
    several = np.ndim(y) == 2 and np.shape(y)[1] > 1
    label = summary.data.target
    under = model_under_attack(run.model, run.X, y, run.weights, leak, label, measured.people)
    if under is None:
        return replace(nothing, notes=(COUNTED_WITH_IT,))
    columns = run.columns(under)
    aims = columns if several or (large and label not in run.ruled) else (*columns, label)
    with doing("Attacking"):
        told = {} if large else columns_to_tell_apart(summary, under, measured)
        found = attack_all(under, aims, leak.noise, scales, seed=run.seed, told=told, key=run.key)
    return replace(found, notes=(*found.notes, *([SEVERAL_LABELS] if several else ())))


def model_under_attack(
    model: Estimator, X: Any, y: Any, weights: Any, leak: Leakage, label: str, people: People | None = None
) -> UnderAttack | None:
    """A fitted model and its rows; None where it counts preprocessing whose scales attackers do not learn here."""
    table, fit, counted = measurement(leak).table, leak.fits[0], one_release(measurement(leak).information).folding
    categories, scaled, turn = categories_of(leak), frozenset[str](), None
    if counted is not None:
        scales = complete(neutral(checked_model(model))[1] or (), int(fit.coef.shape[-1]))
        learned = None if weights is not None else _scaled_columns(leak, counted, scales)
        if learned is None:
            return None
        scaled, turn = learned, _from_frame(leak, counted, scales)

    def column(name: str) -> AttackedColumn:
        position = table.names.index(name)
        values = table.column(position)
        if name in categories or not table.is_numeric(position):
            return AttackedColumn(None, len(set(values.tolist())))
        numbers = values.astype(np.float64)
        missing = np.isnan(numbers)
        return AttackedColumn(numbers, missing=missing if missing.any() else None)

    return UnderAttack(
        model=model,
        frame=X,
        labels=y,
        weights=weights,
        n=leak.n,
        outputs=fit.outputs,
        parameters=int(np.size(host(fit.theta))),
        label=label,
        label_numbers=lambda: (
            None if classifies(model, fit) else np.asarray(host(measurement(leak).information.rows[1]))
        ),
        column=column,
        read=lambda: jacobian_at_minimum(model, X, y, weights),
        noise_on=lambda noise: noise if turn is None else Turned(noise, turn),
        called=lambda row: f"row {row}" if people is None else f"the rows of '{people.names[people.of_row[row]]}'",
        scaled_by_rows=scaled,
        people=people,
        differing=lambda name: _differing(table, y, label, people, name),
    )


def _differing(table: Table, y: Any, label: str, people: People | None, name: str) -> NDArray[np.bool_]:
    """People whose rows differ in a column, or the label, or have a value and lack it: (people,)."""
    if people is None:
        return np.zeros(0, dtype=bool)
    values = host(y) if hasattr(y, "detach") else np.asarray(y)
    own = values.reshape(-1) if name == label else table.column(table.names.index(name))
    pairs = zip(own, own[one_row_each(people)[people.of_row]], strict=True)
    return of_people(people, np.array([a != b and not (a != a and b != b) for a, b in pairs], dtype=bool))


def _scaled_columns(leak: Leakage, folding: Folding, scales: Sequence[Scale]) -> frozenset[str] | None:
    """Columns whose features are all scaled by their own standard deviation; None where others move a scale or a fill."""
    attributes, found = measurement(leak).information.attributes, set()
    fed = [k for attribute in attributes for k in attribute.columns]
    if (
        folding.filling is not None
        or folding.weighted
        or any(scale.points for scale in scales)
        or len(set(fed)) < len(fed)
    ):
        return None
    for attribute in attributes:
        learned = {scales[k].spread for k in attribute.columns}
        if len(learned) > 1:
            return None
        found |= {attribute.name} if True in learned else set()
    return frozenset(found)


def _from_frame(leak: Leakage, folding: Folding, scales: Sequence[Scale]) -> Vector:
    """From parameters where the noise acts to those behind the scalers as they were fitted, all outputs together."""
    fit, F = leak.fits[0], np.asarray(host(folding.frame), dtype=np.float64)
    d, K, intercept = len(scales), fit.outputs, fit.intercept is not None
    # theta' = S (w, b) with S the way to scaled features, and (w, b) = F^-1 f where noise acts in the frame
    raw = np.eye(d + int(intercept)) if covariance_of(leak.noise) is not None else np.linalg.inv(F)
    own = raw * np.array([*(scale.scale for scale in scales), *(1.0,) * intercept])[:, None]
    if intercept:
        own[d] = raw[d] + np.array([scale.centre for scale in scales]) @ raw[:d]
    turn = np.zeros((K * own.shape[0], K * own.shape[0]))
    for k in range(K):
        places = [*range(k * d, (k + 1) * d), *([K * d + k] if intercept else [])]
        turn[np.ix_(places, places)] = own
    return turn


def columns_to_tell_apart(summary: Summary, under: UnderAttack, measured: MeasuredEtas) -> dict[str, int]:
    """The columns of yes and no, and categories, that are most exposed, each with the row that is; a class with its own.

    A row is a person, by place, where rows belong to people.
    """
    worst = np.nan_to_num(measured.cells).argmax(axis=0)
    place = {name: int(worst[j]) for j, name in enumerate(measured.leak.attributes)}
    several = [each for each in summary.attributes if each.kind == "category"]
    several = [each for each in several if under.column(each.name).levels <= MOST_LEVELS]
    several.sort(key=lambda each: -each.eta_max)
    told = {each.name: place[each.name] for each in several[:MOST_TOLD]}
    label = summary.label
    return told | (
        {label.name: int(measured.label.argmax())} if label is not None and under.label_numbers() is None else {}
    )
