"""What attackers get out of a model that was fitted elsewhere, or why none were run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fisherleak._support.progress import doing
from fisherleak.auditing.attackers import ATTACKED_ROWS, ATTACKED_VALUES, attack_all
from fisherleak.auditing.fitted_models.measured_etas import MeasuredEtas
from fisherleak.auditing.fitted_models.under_attack import (
    MOST_COLUMNS,
    UnderAttack,
    columns_to_attack,
    columns_to_tell_apart,
    model_under_attack,
)
from fisherleak.auditing.records import Attacked
from fisherleak.auditing.report_summary import Summary
from fisherleak.leakage.measurement import measurement
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
