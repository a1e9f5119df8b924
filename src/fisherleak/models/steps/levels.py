"""Levels that encoders learned from a table, how many rows or people have each, and which a release names: rare ones give rows
away.

The name of a rare level tells of its rows, and so does a feature that rare levels are pooled in: without these rows it would
not be there, and the model would have a coefficient less.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import compose, impute, pipeline
from sklearn.base import is_classifier

from fisherleak._support.arrays import host
from fisherleak._support.level_types import plain_level, typed_levels
from fisherleak._support.namespaces import Estimator
from fisherleak.errors import UnsupportedModelError
from fisherleak.models.frames import Table
from fisherleak.models.steps.flow import Flow, kept, plain_levels, start, steps_within
from fisherleak.models.steps.imputers import absent_cells
from fisherleak.models.steps.scalers import LEVELS, pools
from fisherleak.models.steps.transformers import chosen_columns, through
from fisherleak.rows.selection import rows_by_group

_Check = Callable[[Estimator, Flow], None]


@dataclass(frozen=True)
class _Fewest:
    """How many must have what a release names: rows, or people where it is known whose row each is."""

    count: int
    whose: NDArray[np.int64] | None = field(default=None, repr=False)
    otherwise: str = "pass public='levels'"
    """What lets the rare ones pass as they are, for whoever asks."""

    @classmethod
    def of(cls, count: int, person: Any, n: int, otherwise: str | None = None) -> _Fewest:
        otherwise = cls.otherwise if otherwise is None else otherwise
        if person is None:
            return cls(count, None, otherwise)
        whose = np.empty(n, dtype=np.int64)
        for code, rows in enumerate(rows_by_group(person, n).values()):
            whose[host(rows)] = code
        return cls(count, whose, otherwise)

    @property
    def who(self) -> str:
        return "rows" if self.whose is None else "people"

    @property
    def most(self) -> int:
        """The most rows that one of them has."""
        return 1 if self.whose is None else int(np.bincount(self.whose).max())

    def having(self, values: Sequence[Any]) -> Counter[Any]:
        """How many have each value."""
        if self.whose is None:
            return Counter(values)
        return Counter(value for value, _ in set(zip(values, self.whose.tolist(), strict=True)))


def check_common_levels(
    model: Estimator, table: Table, few: int, person: Any = None, otherwise: str | None = None
) -> None:
    """Refuse levels that an encoder learned, keeps by name, and fewer than ``few`` have; and indicators of such gaps.

    Rows are counted, or people where ``person`` says whose row each is. ``otherwise`` is what lets them pass for whoever asks;
    by default public='levels'.
    """
    if isinstance(model, pipeline.Pipeline) and not table.lazy:
        whose = table.labels(person) if isinstance(person, str) else person
        fewest = _Fewest.of(few, whose, table.n, otherwise)
        _walk(model.steps[:-1], start(table), lambda step, flow: _check_common(step, flow, fewest))


def check_common_classes(model: Estimator, y: Any, few: int, person: Any = None) -> None:
    """Refuse classes that fewer than ``few`` rows, or people, have: their names leave with a classifier."""
    if is_classifier(model):
        check_rare_classes(y, few, person)


def check_rare_classes(y: Any, few: int, person: Any = None, otherwise: str | None = None) -> None:
    """The same of labels that are known to be classes."""
    values = (host(y) if hasattr(y, "detach") else np.asarray(y)).tolist()
    fewest = _Fewest.of(few, person, len(values), otherwise)
    least = min(fewest.having(values).values())
    if least < few:
        raise UnsupportedModelError(
            f"y has a class that only {least} of the {fewest.who} have, and a released classifier would name it: leave these "
            f"rows out, or {fewest.otherwise}."
        )


def check_settled_levels(model: Estimator, table: Table, person: Any = None) -> None:
    """Refuse encoders for which one row, or all rows of one person, decide which levels they pool.

    Those with ``min_frequency`` or ``max_categories``, whose levels may be declared: the number of features and the names of
    the pooled levels would tell of a category whose count is that near to where they are pooled. For tables in memory.
    """
    if isinstance(model, pipeline.Pipeline) and not table.lazy:
        whose = table.labels(person) if isinstance(person, str) else person
        most = _Fewest.of(1, whose, table.n).most
        _walk(model.steps[:-1], start(table), lambda step, flow: _check_settled(step, flow, most))


def _check_settled(encoder: Estimator, flow: Flow, most: int) -> None:
    """Refuse levels whose count is within ``most`` rows of being pooled, or named."""
    if not pools(encoder):
        return
    rule, limit = encoder.min_frequency, encoder.max_categories
    for j, levels in enumerate(encoder.categories_):
        found = Counter(plain_levels(flow.table.column(j)))
        counts = sorted(
            (found[level] for level in plain_levels(levels)), reverse=True
        )  # no row may have a declared one
        # a share of the rows moves with their number, by less than a row for each that changes
        edge = rule if rule is None or isinstance(rule, (int, np.integer)) else rule * flow.table.n
        near = edge is not None and any(count - most < edge <= count + most for count in counts)
        # the level that is pooled last and the one that is named last; one name stands for all that are pooled
        named = len(counts) if limit is None else limit - 1
        if near or (named < len(counts) and named > 0 and counts[named - 1] - counts[named] <= 2 * most):
            raise UnsupportedModelError(
                f"In column '{flow.table.names[j]}' one row or person decides whether a category is rare. That reveals them: "
                "declare the categories with categories=… and leave min_frequency and max_categories out, or give "
                f"{type(encoder).__name__} other limits (min_frequency, max_categories)."
            )


def _walk(steps: Any, flow: Flow, check: _Check) -> None:
    """Call a check with each encoder and imputer, and with the table that it was fitted on."""
    for place, (_, step) in enumerate(steps):
        _look_into(step, flow, check)
        if any(_learners(later) for _, later in steps[place + 1 :]):
            flow = through(step, flow)


def learned_levels(step: Estimator) -> bool:
    """Whether an encoder in it learned its levels, or which are pooled, or an imputer which columns have gaps."""
    return any(
        not isinstance(each, LEVELS) or isinstance(each.categories, str) or pools(each) for each in _learners(step)
    )


def _learners(step: Estimator) -> list[Estimator]:
    """Encoders, and imputers with indicators of missing values."""
    return [
        each
        for each in steps_within(step)
        if isinstance(each, LEVELS) or (isinstance(each, impute.SimpleImputer) and each.add_indicator)
    ]


def _look_into(step: Estimator, flow: Flow, check: _Check) -> None:
    if isinstance(step, (*LEVELS, impute.SimpleImputer)):
        check(step, flow)
    elif isinstance(step, pipeline.Pipeline):
        _walk(step.steps, flow, check)
    elif isinstance(step, pipeline.FeatureUnion):
        for _, part in step.transformer_list:
            _look_into(part, flow, check)
    elif isinstance(step, compose.ColumnTransformer):
        for part, positions in chosen_columns(step, flow.table):
            _look_into(part, kept(flow, flow.table.select(positions), positions), check)


def _check_common(step: Estimator, flow: Flow, few: _Fewest) -> None:
    if isinstance(step, impute.SimpleImputer):
        _check_indicator(step, flow, few)
    else:
        _check_encoder(step, flow, few)


def _check_one_type(encoder: Estimator, flow: Flow) -> None:
    """Refuse equal values of several types, True and 1: the first row decides which of them leaves."""
    for j, name in enumerate(flow.table.names):
        column, types = flow.table.column(j), dict[Any, set[type]]()
        for value in plain_levels(column) if column.dtype == object else ():
            plain = plain_level(value)
            types.setdefault(plain, set()).add(type(plain))
        if any(len(each) > 1 for each in types.values()):
            raise UnsupportedModelError(
                f"Column '{name}' has equal values of several types, True and 1 say, and {type(encoder).__name__} would "
                "release the type of one of them. Give all cells of the column one type, and fit the model again."
            )


def _check_encoder(encoder: Estimator, flow: Flow, few: _Fewest) -> None:
    _check_one_type(encoder, flow)
    if not isinstance(encoder.categories, str):
        return  # names that were declared, and a feature for the pooled ones whether rows have them or not
    pooled = getattr(encoder, "infrequent_categories_", [None] * len(encoder.categories_))
    hidden = getattr(encoder, "handle_unknown", "error") == "infrequent_if_exist"
    for j, levels in enumerate(encoder.categories_):
        values = plain_levels(flow.table.column(j))
        counts = few.having(values)
        nameless = plain_levels(pooled[j]) if hidden and pooled[j] is not None else []
        rare = [level for level in plain_levels(levels) if counts[level] < few.count and level not in nameless]
        if rare:
            enough = _enough_pooled(values, rare, few)
            raise UnsupportedModelError(
                f"Column '{flow.table.names[j]}' has a category that only {counts[rare[0]]} of the {few.who} have, and "
                f"{type(encoder).__name__} would release its name: declare the categories with categories=… and leave "
                f"min_frequency and max_categories out, pool rare ones with min_frequency={enough} and "
                f"handle_unknown='infrequent_if_exist', or {few.otherwise}."
            )
        hidden_levels = set(nameless)
        pooling = few.having([value in hidden_levels for value in values])[True]
        if 0 < pooling < few.count:
            raise UnsupportedModelError(
                f"Column '{flow.table.names[j]}' has rare categories that only {pooling} of the {few.who} have, and "
                f"{type(encoder).__name__} has a feature for them. That shows that such rows exist: declare the categories "
                "with categories=… and leave min_frequency and max_categories out, unite them with another category, leave "
                f"these rows out, or {few.otherwise}."
            )


def _enough_pooled(values: Sequence[Any], rare: Sequence[Any], few: _Fewest) -> int:
    """The least ``min_frequency`` that pools the rare levels, and so many others that the pool hides who has one.

    With it no row, and no person, decides what is pooled.
    """
    rows, most = Counter(values), few.most
    least = max([few.count, *(rows[level] + most + 1 for level in rare)])
    for found in sorted({least, *(count + most + 1 for count in rows.values() if count + most >= least)}):
        pooled = {level for level, count in rows.items() if count < found}
        near = any(count - most < found <= count + most for count in rows.values())
        if not near and few.having([value in pooled for value in values])[True] >= few.count:
            return found
    return least


def _check_indicator(step: Estimator, flow: Flow, few: _Fewest) -> None:
    """Refuse indicators of columns that a few rows, or people, lack, or have."""
    told = step.indicator_.features_.tolist() if step.add_indicator else []
    gaps = absent_cells(step, flow.table)
    for j in told:
        absent = gaps[j] if j in gaps else np.zeros(flow.table.n, dtype=bool)
        counts = few.having(np.asarray(absent, dtype=bool).tolist())
        if min(counts[True], counts[False]) < few.count:
            raise UnsupportedModelError(
                f"Column '{flow.table.names[j]}' has an indicator of missing values, which would reveal single people: "
                f"{counts[True]} of the {few.who} have no value, {counts[False]} have one. Use add_indicator=False, or "
                f"{few.otherwise}."
            )


# Levels that a released encoder names: rare ones forgotten, and types that follow from those that stay.


def with_own_types(made: Any) -> Any:
    """An encoder whose levels have the types of those that are named, not of all cells that their columns had."""
    made.categories_ = [typed_levels(levels) for levels in made.categories_]
    return made


def forget_rare(made: Any, step: Estimator) -> None:
    """Leave the names of pooled levels out of an encoder: one that no row has stands for all of them.

    Values that it does not know, the rare ones now among them, go where the rare ones went. It drops the level that it dropped
    without ``drop`` among its parameters: with it scikit-learn warns of each such value.
    """
    made.drop = None
    for j, rare in enumerate(step._infrequent_indices):
        if rare is None:
            continue
        levels = step.categories_[j]
        frequent = np.setdiff1d(np.arange(len(levels)), rare)
        kept, place = _with_stand_in(typed_levels(levels[frequent]))
        made.categories_[j] = kept
        made._infrequent_indices[j] = np.array([place])
        mapping = np.arange(len(kept))
        mapping[place:] -= 1
        mapping[place] = len(frequent)
        made._default_to_infrequent_mappings[j] = mapping
        if made.drop_idx_ is not None and made.drop_idx_[j] is not None:
            made.drop_idx_[j] = int(np.flatnonzero(mapping == made._drop_idx_after_grouping[j])[0])


def _with_stand_in(levels: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """Levels and one more, in the order that their type needs, and its place."""
    count = len(levels)
    if levels.dtype.kind == "f":
        number = count - int(np.isnan(levels).sum())  # what is not a number comes last
        return np.insert(levels, number, math.inf), number
    if levels.dtype.kind in "ib":
        return np.append(levels.astype(np.int64), np.iinfo(np.int64).max), count
    kept = np.empty(count + 1, dtype=object)
    kept[:count], kept[count] = levels, "infrequent_sklearn"
    return kept, count
