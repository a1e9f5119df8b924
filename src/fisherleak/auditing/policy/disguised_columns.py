"""Columns that are written so that a policy measures them as something else, or with a spread that is none of theirs: refused.

A yes or no in which a few cells are 0.999999 would be measured as a number, an amount that is written as text as a category,
and a value that most rows share makes the spread of the others small. Each is refused by name, unless the policy states what
the column is. Who writes a table in codes of his own is not noticed: a policy that names its columns and states their kinds is
what holds there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.grids import GAP
from fisherleak.auditing.policy.policy import EVERY, Policy
from fisherleak.auditing.policy.sampled_rows import SampledRows
from fisherleak.errors import InvalidInputError
from fisherleak.releasing.cards.enough_people import FEWEST_ROWS
from fisherleak.tables import Design, Feature
from fisherleak.tables.decide.cell_text import OTHER
from fisherleak.tables.decide.profile import FEW_VALUES
from fisherleak.tables.design.gaps import MISSING

__all__ = ["is_nearly_two", "refuse_disguised", "refuse_narrow"]

CLOSE = 0.01
"""Part of the distance of two values within which another is taken for one of them."""
NARROW = 0.1
"""Standard deviations between which more than half of the values lie where these decide the deviation."""
ALIKE = 0.9
"""Part of the texts of a column that differ in their digits only, where these are amounts."""
DIGITS = re.compile(r"\d+(?:[.,]\d+)*")
Vector = NDArray[np.float64]


def refuse_disguised(design: Design, policy: Policy, rows: SampledRows) -> None:
    """Refuse numbers of nearly two values, and amounts that are text, where a policy has rules on them and no kind for them."""
    for feature in _unstated(design, policy):
        if feature.has_share and is_nearly_two(_there(rows.X[:, feature.columns[0]])):
            raise InvalidInputError(
                f"All but fewer than {FEWEST_ROWS} rows have one of two values of '{feature.name}', or nearly, and it would be "
                "measured as a number: write these two values alone, so that it is measured as a yes or no, or write kind = "
                f'"number" under [columns."{feature.name}"] in the policy \'{policy.source}\'.'
            )
        if feature.kind == "category" and len(feature.levels) > FEW_VALUES and _are_amounts(feature):
            raise InvalidInputError(
                f"The categories of '{feature.name}' differ in their digits only, and an attacker who names the next one is "
                "close and counts as wrong: write the numbers alone, so that it is measured as a number, or write "
                f'kind = "category" under [columns."{feature.name}"] in the policy \'{policy.source}\'.'
            )
    target, columns = design.target, policy.section("columns")
    ruled = policy.section("label") or target.name in columns or EVERY in columns
    if ruled and not target.classes and "model" not in policy.section("require") and is_nearly_two(rows.y):
        raise InvalidInputError(
            f"All but fewer than {FEWEST_ROWS} rows have one of two values of the target '{target.name}', or nearly, and the "
            f'model takes it as a number: write these two values alone, or write model = "{target.kind}" under [require] in '
            f"the policy '{policy.source}'."
        )


def refuse_narrow(design: Design, source: str, names: Collection[str], rows: SampledRows) -> None:
    """Refuse columns, and the target, most of whose values are nearly the same, where nothing but the rows states a spread."""
    columns = {feature.name: rows.X[:, feature.columns[0]] for feature in design.features if feature.name in names}
    columns |= {design.target.name: rows.y} if design.target.name in names else {}
    for name, values in columns.items():
        if _shortest_half(_there(values)) < NARROW:
            where = "[label]" if name == design.target.name else f'[columns."{name}"]'
            raise InvalidInputError(
                f"More than half of the values of '{name}' are the same, or nearly, which makes the spread of the rows small, "
                "and with it the share that is revealed: write what an outsider starts from, in the column's unit, as "
                f"spread under {where} in the policy '{source}'."
            )


def _shortest_half(values: Vector) -> float:
    """The length of the shortest interval that holds more than half of some values, in their standard deviations: 1.35 of a
    normal column.
    """
    ordered, half, spread = np.sort(values), values.size // 2, float(values.std())
    return float((ordered[half:] - ordered[: ordered.size - half]).min()) / spread if spread > 0 else 0.0


def is_nearly_two(values: Vector) -> bool:
    """Whether all but a few values, fewer than are ever named, lie at one of two, to a hundredth of their distance."""
    ordered, most = np.sort(values), FEWEST_ROWS - 1
    for below in range(most + 1):
        for above in range(most + 1 - below):
            kept = ordered[below : ordered.size - above]
            low, high = (kept[0], kept[-1]) if kept.size else (0.0, 0.0)
            near = CLOSE * (high - low)
            if near > 0 and ordered.size - np.sum((kept <= low + near) | (kept >= high - near)) <= most:
                return True
    return False


def _unstated(design: Design, policy: Policy) -> Iterator[Feature]:
    """Columns that rules are about, and whose kind the policy does not state."""
    columns = policy.section("columns")
    every = EVERY in columns or "attacks" in policy.sections
    for feature in design.features:
        own = columns.get(feature.name)
        if feature.of is None and (every or own is not None) and "kind" not in (own or {}):
            yield feature


def _there(values: Vector) -> Vector:
    return np.asarray(values[values != GAP])


def _are_amounts(feature: Feature) -> bool:
    """Whether nearly all levels are the same text but for digits."""
    texts = [str(level) for level in feature.levels if level not in (MISSING, OTHER)]
    (form, count), *_ = Counter(DIGITS.sub("0", text) for text in texts).most_common(1)
    return "0" in form and count >= ALIKE * len(texts)
