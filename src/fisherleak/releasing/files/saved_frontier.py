r"""``Frontier.save``: what ``fl.protect`` found, released with the files that ``fisherleak release`` writes.

A card counts in units of the declared bounds, u = (high - low) / sqrt(12), and ``protect`` in the columns' own. A change of
length one in these is at most 1 / min(u) long in units of the bounds, so that a limit of eta min(u) there keeps one of eta.
Gaps are filled as ``tables.design.gaps`` says, with the centre of the bounds: an imputer with a value of its own is refused.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fisherleak._support.grids import units_within
from fisherleak._support.numbers import measured
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.models import Table, as_table
from fisherleak.models.steps.imputers import has_public_centres
from fisherleak.protection.certificates.declared_bounds import LABEL
from fisherleak.protection.frontier.frontier_candidates import Task
from fisherleak.releasing.files.released_files import save_model
from fisherleak.tables import from_frame
from fisherleak.training.model_kinds import KINDS, Kind
from fisherleak.training.trained_model import Settings

WITHOUT = "Use release() for a model without a model card."
"""What remains where a model card cannot say what a pipeline does."""
FORM = (
    "A model card knows StandardScaler(), with a SimpleImputer before it or without, or a ColumnTransformer of these and of "
    f"OneHotEncoder() or OneHotEncoder(drop='first'), before the model. {WITHOUT}"
)
PERSON = "person"
"""The column that says whose row each is, where no column of the table is called so."""


@dataclass(frozen=True)
class CardColumns:
    """Which columns a pipeline standardises, and which it encodes, with the categories that were declared."""

    numbers: tuple[str, ...]
    categories: tuple[str, ...] = ()
    levels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    filled: tuple[tuple[str, float], ...] = ()
    """Columns whose gaps a value fills that the pipeline names."""
    rare: int = 0
    """Categories of fewer rows than this are pooled."""


def save_protected(
    task: Task, eta: float, path: str | Path, sign: Any, ledger: Any, limit: float | None, overwrite: bool
) -> Path:
    """Release on any record within the bounds, and write the model and its card."""
    import pandas

    if not task.by_rule or task.public == "preprocessing":
        raise InvalidInputError(
            "save needs counted preprocessing, and a penalty and covariance that follow from public numbers. Call protect with "
            "over='any-record', without penalties and with public='nothing'. " + WITHOUT
        )
    kind, table = _kind_of(task.given), as_table(task.X)
    columns = _columns_of(task.given, table)
    target = "target" if task.target is None else str(task.target)
    if target in table.names:
        raise InvalidInputError(f"y has the name '{target}', which a column of X has too: rename one of them.")
    bounds = _declared(task, columns, target, kind)
    _check_fills(columns, bounds)
    used = [*columns.numbers, *columns.categories]
    frame = pandas.DataFrame({name: table.column(table.names.index(name)) for name in used} | {target: list(task.y)})
    person = _with_person(frame, task)
    # a unit of a category, and of a class, is one in both
    units = [(high - low) / math.sqrt(12.0) for low, high in bounds.values()]
    units += [1.0] if kind.labels.classes or columns.categories else []
    settings = Settings(
        target,
        kind.name,
        held_out=0.0,
        numbers=columns.numbers,
        categories=columns.categories,
        levels=columns.levels,
        person=person,
        rare=columns.rare,
    )
    place, least = Path(path), min(units)
    if least < 1.0:
        narrowest = min(bounds, key=lambda each: bounds[each][1] - bounds[each][0])
        name = "label" if narrowest == target else narrowest
        warnings.warn(
            f"`eta` is {eta:.3g} in the columns' own units, and {eta * least:.3g} on the model card, in units of the bounds' "
            f"width divided by √12. The narrowest bounds, those of '{name}', decide that: write that column in a smaller unit "
            "for less noise.",
            stacklevel=3,
        )
    _, cost = save_model(
        *(from_frame(frame), settings, place),
        eta=eta * least,
        bounds=bounds,
        shape=task.shapes[0] if len(task.shapes) == 1 else None,
        choose_l2=True,
        rows_per_person=task.rows_per_person,
        overwrite=overwrite,
        sign=None if sign is None else Path(sign),
        ledger=None if ledger is None else Path(ledger),
        limit=limit,
        warn=lambda said: warnings.warn(said, stacklevel=6),
    )
    noisy, metric = cost.points[0].utility, cost.metric.name
    little = cost.how_little(noisy)
    if little:
        warnings.warn(
            f"With such noise the model is on average {little} better than the baseline: {measured(metric, noisy)}, without "
            f"noise {measured(metric, cost.without_noise)}. Use a larger `eta`, narrower `bounds`, or more rows.",
            stacklevel=3,
        )
    return place


def _with_person(frame: Any, task: Task) -> str | None:
    """The column that says whose row each is, by the name that the people were given with; None where each row is a person."""
    if task.groups is None:
        return None
    given = getattr(task.groups, "name", None)
    name = given if isinstance(given, str) and given else PERSON
    while name in frame.columns:
        name += "_"
    frame[name] = [str(each) for each in np.asarray(task.groups).tolist()]
    return name


def _check_fills(columns: CardColumns, bounds: Mapping[str, tuple[float, float]]) -> None:
    """Refuse an imputer with a value that is not the centre of a column's bounds."""
    for name, value in columns.filled:
        centre = units_within(*bounds[name])[0]
        if value != centre:
            raise UnsupportedModelError(
                f"SimpleImputer fills gaps of column '{name}' with {value:g}, and a model with a model card fills "
                f"them with the centre of its bounds, {centre:g}. Use SimpleImputer(): its gaps are then filled with that "
                f"centre, and an extra feature shows where. {WITHOUT}"
            )


def _kind_of(estimator: Any) -> Kind:
    """The kind of a table's model that an estimator is; refuses options that a model card has no field for."""
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    kind = next((each for each in KINDS if type(last) in each.estimators), None)
    if kind is None:
        raise UnsupportedModelError(
            f"{type(last).__name__} cannot be on a model card yet: Ridge, LogisticRegression, PoissonRegressor and "
            "GammaRegressor "
            f"can. {WITHOUT}"
        )
    own = last.get_params(deep=False)
    other = {"fit_intercept": True, "class_weight": None, "positive": False}
    wrong = [name for name, value in other.items() if own.get(name, value) != value]
    wrong += ["solver"] * (own.get("solver") == "liblinear")
    if wrong:
        raise UnsupportedModelError(
            f"{type(last).__name__} with {wrong[0]}={own[wrong[0]]!r} cannot be on a model card yet: leave {wrong[0]} at its "
            f"default. {WITHOUT}"
        )
    return kind


def _columns_of(estimator: Any, table: Table) -> CardColumns:
    """What a pipeline does with each column."""
    steps = [step for _, step in estimator.steps[:-1]] if isinstance(estimator, Pipeline) else []
    if _standardises(steps):
        return CardColumns(tuple(table.names), filled=_filled(steps, table.names))
    if len(steps) != 1 or not isinstance(steps[0], ColumnTransformer):
        odd = next((step for step in steps if not _is_scaler(step)), None)
        what = "A model without a StandardScaler before it" if odd is None else f"The step {odd!r}"
        raise UnsupportedModelError(f"{what} cannot be on a model card yet. {FORM}")
    found = CardColumns(())
    for _, step, given in steps[0].transformers:
        found = _with_part(found, step, _named(given, table))
    rest = {*table.names} - {*found.numbers, *found.categories}
    if rest and steps[0].remainder != "drop":
        raise UnsupportedModelError(f"remainder={steps[0].remainder!r} cannot be on a model card yet. {FORM}")
    return found


def _with_part(found: CardColumns, step: Any, names: list[str]) -> CardColumns:
    """The same with one part of a ColumnTransformer."""
    parts = [each for _, each in step.steps] if isinstance(step, Pipeline) else [step]
    if _standardises(parts):
        filled = (*found.filled, *_filled(parts, names))
        return replace(found, numbers=(*found.numbers, *names), filled=filled)
    if isinstance(step, OneHotEncoder) and (step.drop is None or (isinstance(step.drop, str) and step.drop == "first")):
        rare = _rows_of_pools(step)
        found = replace(found, categories=(*found.categories, *names), rare=max(rare, found.rare))
        if isinstance(step.categories, str):
            return found
        if rare:
            raise UnsupportedModelError(
                f"OneHotEncoder with min_frequency={step.min_frequency!r} and categories that are declared cannot be on a "
                f"model card yet: leave min_frequency out. {WITHOUT}"
            )
        own = zip(names, step.categories, strict=True)
        levels = tuple((name, tuple(str(level) for level in known)) for name, known in own)
        return replace(found, levels=(*found.levels, *levels))
    if isinstance(step, str) and step == "drop":
        return found
    raise UnsupportedModelError(f"The step {step!r} cannot be on a model card yet. {FORM}")


def _rows_of_pools(encoder: OneHotEncoder) -> int:
    """Rows below which it pools categories; refuses rules that a model card has no field for."""
    count = encoder.min_frequency is None or isinstance(encoder.min_frequency, Integral)
    if count and encoder.max_categories is None:
        return int(encoder.min_frequency or 0)
    name = "max_categories" if count else "min_frequency"
    raise UnsupportedModelError(
        f"OneHotEncoder with {name}={getattr(encoder, name)!r} cannot be on a model card yet: pool with a number of rows, such "
        f"as min_frequency=5. {WITHOUT}"
    )


def _standardises(steps: Sequence[Any]) -> bool:
    """Whether steps are a StandardScaler, alone or behind an imputer."""
    *before, last = steps or [None]
    return _is_scaler(last) and (not before or (len(before) == 1 and _is_imputer(before[0])))


def _is_imputer(step: Any) -> bool:
    return has_public_centres(step) or (isinstance(step, SimpleImputer) and step.strategy == "constant")


def _is_scaler(step: Any) -> bool:
    return isinstance(step, StandardScaler) and step.with_mean and step.with_std


def _filled(steps: Sequence[Any], names: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """The value that a constant imputer before a scaler fills each column with."""
    first = steps[0]
    if not isinstance(first, SimpleImputer) or has_public_centres(first):
        return ()
    value = 0.0 if first.fill_value is None else float(first.fill_value)
    return tuple((name, value) for name in names)


def _named(given: Any, table: Table) -> list[str]:
    """Names of columns that a transformer lists by name or by place."""
    listed: Sequence[Any] = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(each, str | int) and not isinstance(each, bool) for each in listed):
        raise UnsupportedModelError(
            "Columns of a ColumnTransformer that a function, a slice or a mask selects cannot be on a model card yet: "
            "list their "
            f"names. {WITHOUT}"
        )
    return [each if isinstance(each, str) else table.names[each] for each in listed]


def _declared(task: Task, columns: CardColumns, target: str, kind: Kind) -> dict[str, tuple[float, float]]:
    """Bounds of every number, and of a label that is one; all must be declared."""
    given = dict(task.bounds or {})
    wanted = {name: name for name in columns.numbers} | ({} if kind.labels.classes else {LABEL: target})
    missing = next((name for name in wanted if name not in given), None)
    if missing is not None:
        raise InvalidInputError(
            f"bounds of '{missing}' are not declared, and the units of a model card follow from them: call protect with "
            f"bounds={{'{missing}': (low, high), …}} for every numeric column, and 'label' where y is a number."
        )
    return {name: (float(given[key][0]), float(given[key][1])) for key, name in wanted.items()}
