r"""From a table to the rows and features of a linear model.

Numbers are standardised with the mean and standard deviation of the training rows, categories become an indicator for each
level but the first. Only the features are kept in float64, once, column by column: a raw number is
:math:`\mathrm{centre} + \mathrm{scale} \cdot z`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fisherleak.errors import InvalidInputError
from fisherleak.tables.columns import Coded, as_codes, as_numbers, as_text, check_finite
from fisherleak.tables.kinds import MOST_GROUPS, Choices, Column, decide, is_plain
from fisherleak.tables.reading import RawTable
from fisherleak.tables.target import MODELS, Target, label_rows, moments, scaled

__all__ = ["Design", "Feature", "design_of"]

FEWEST_ROWS = 5
SMALL = 40
"""Rows below which none are held out."""
MOST_FEATURES = 5000
"""A Hessian of more would not fit in ordinary memory."""

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Feature:
    """A raw column that the model uses, and where it lies among the features."""

    name: str
    kind: Literal["number", "category"]
    columns: tuple[int, ...]
    centre: float = 0.0
    scale: float = 1.0
    levels: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Design:
    """The training rows and the held-out rows as features, with what was assumed on the way.

    Attributes
    ----------
    X, y : arrays of shape (n, p) and (n,)
        Features and labels of the training rows.
    X_test, y_test : arrays
        The same of the held-out rows; none of them where the table is small.
    rows : integer array of shape (n,)
        The number of each training row in the table; the first is 1.
    """

    source: str
    sha256: str
    rows_read: int
    X: Vector = field(repr=False)
    y: Vector = field(repr=False)
    X_test: Vector = field(repr=False)
    y_test: Vector = field(repr=False)
    rows: NDArray[np.int64] = field(repr=False)
    features: tuple[Feature, ...]
    target: Target
    columns: tuple[Column, ...]
    dropped: tuple[tuple[str, int], ...]
    ids: NDArray[Any] | None = field(repr=False)
    groups: NDArray[Any] | None = field(repr=False)
    notes: tuple[str, ...]

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    def raw(self, feature: Feature, rows: Any = slice(None)) -> NDArray[Any]:
        """The raw values of a column in some training rows."""
        block = self.X[rows][:, list(feature.columns)]
        if feature.kind == "number":
            return _tidied(feature.centre + feature.scale * block[:, 0])
        levels = np.empty(len(feature.levels), dtype=object)
        levels[:] = feature.levels
        return np.asarray(levels[np.where(block.any(axis=1), block.argmax(axis=1) + 1, 0)])

    def frame(self) -> Any:
        """The training rows as a pandas frame of raw columns."""
        import pandas

        columns = {feature.name: self.raw(feature) for feature in self.features}
        return pandas.DataFrame({name: pandas.Series(values) for name, values in columns.items()})

    def labels(self) -> NDArray[Any]:
        """The target of the training rows in its own values."""
        if self.target.classes:
            return np.asarray(np.array(self.target.classes)[self.y.astype(np.int64)])
        return self.target.centre + self.target.scale * self.y


def design_of(raw: RawTable, choices: Choices, model: str = "auto", held_out: float = 0.25, seed: int = 0) -> Design:
    """Choose rows, split them, and make features.

    The raw table is used up: its columns are let go one by one, so that memory never holds them twice.
    """
    _check_settings(model, held_out)
    columns = decide(raw, choices)
    if raw.rows < FEWEST_ROWS:
        raise InvalidInputError(
            f"{raw.source} has {raw.rows} row{'s' * (raw.rows > 1)}: at least {FEWEST_ROWS} are needed."
        )
    target, labels, kept, dropped = label_rows(raw, choices.target, model)
    used = [column for column in columns if column.kind in ("number", "category")]
    kept, dropped = _complete_rows(raw, used, kept, dropped)
    _check_enough(kept, dropped, raw)
    groups = None if choices.group is None else _groups(raw, choices.group, kept)
    ids = None if choices.id is None else as_text(raw.columns.get(choices.id))
    train, test, note = _split(labels[kept], target, held_out, seed)
    found = {column.name: _feature(raw, column, kept[train]) for column in used}
    columns = [replace(c, kind="ignored", note=str(found[c.name])) if _refused(found, c) else c for c in columns]
    features = _placed([feature for feature in found.values() if isinstance(feature, Feature)], target.name)
    X, X_test, unseen = _filled(raw, features, kept[train], kept[test])
    y, y_test = labels[kept[train]], labels[kept[test]][~unseen]
    target, y, y_test = scaled(target, y, y_test)
    new = f"{int(unseen.sum())} held-out rows have categories that no training row has and are left out."
    notes = [*raw.notes, target.note, note, new if unseen.any() else ""]
    return Design(
        source=raw.source,
        sha256=raw.sha256,
        rows_read=raw.rows,
        X=X,
        y=y,
        X_test=X_test,
        y_test=y_test,
        rows=kept[train] + 1,
        features=features,
        target=target,
        columns=tuple(columns),
        dropped=tuple(dropped),
        ids=None if ids is None else ids[kept[train]],
        groups=None if groups is None else groups[train],
        notes=tuple(note for note in notes if note),
    )


def _check_settings(model: str, held_out: float) -> None:
    if model not in MODELS:
        raise InvalidInputError(f"model must be one of {', '.join(MODELS)}; got {model!r}.")
    if not 0 <= held_out <= 0.9:
        raise InvalidInputError(f"The share of held-out rows must be between 0 and 0.9; got {held_out}.")


def _tidied(values: Vector) -> Vector:
    """Fifteen digits: what standardising there and back leaves of a value."""
    sizes = np.where(values == 0, 1.0, np.abs(values))
    unit = 10.0 ** (14 - np.floor(np.log10(sizes)))
    return np.round(values * unit) / unit


# rows


def _complete_rows(
    raw: RawTable, used: Sequence[Column], kept: NDArray[np.int64], dropped: list[tuple[str, int]]
) -> tuple[NDArray[np.int64], list[tuple[str, int]]]:
    """Rows with a value in every column that is used; each lost row counts for the first column that lacks it."""
    for column in used:
        values = raw.columns.get(column.name)
        if column.kind == "number":
            numbers = as_numbers(values)
            check_finite(numbers, column.name)
            missing = np.isnan(numbers)
            if missing.all():
                raise InvalidInputError(
                    f"Column '{column.name}' has no numbers: leave it out with --drop '{column.name}', or use --category."
                )
        else:
            missing = as_codes(values).codes < 0
        lost = int(missing[kept].sum())
        if lost:
            kept = kept[~missing[kept]]
            dropped = [*dropped, (f"'{column.name}' is missing", lost)]
    return kept, dropped


def _check_enough(kept: NDArray[np.int64], dropped: list[tuple[str, int]], raw: RawTable) -> None:
    if kept.size >= FEWEST_ROWS:
        return
    worst = max(dropped, key=lambda item: item[1], default=None)
    why = "" if worst is None else f": in {worst[1]} of {raw.rows} {worst[0]}"
    raise InvalidInputError(
        f"{raw.source} has {kept.size} complete row{'s' * (kept.size != 1)}{why}. At least {FEWEST_ROWS} are needed; --drop "
        "leaves a column out."
    )


def _groups(raw: RawTable, name: str, kept: NDArray[np.int64]) -> NDArray[Any]:
    values = raw.columns.get(name)
    if not is_plain(values.type):
        raise InvalidInputError(f"--group names '{name}', which holds {values.type}, not text or numbers.")
    coded = as_codes(values)
    present = np.unique(coded.codes[kept])
    if present.size > MOST_GROUPS:
        raise InvalidInputError(
            f"--group names '{name}', which has {present.size} different values: at most {MOST_GROUPS} groups are "
            "possible. Make ranges of it first."
        )
    names = np.array([*(_shown(level) for level in coded.levels), "(missing)"], dtype=object)
    return np.asarray(names[coded.codes[kept]])


def _shown(level: Any) -> str:
    return f"{level:g}" if isinstance(level, float) else str(level)


def _split(
    labels: Vector, target: Target, held_out: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], str]:
    """Positions of training and held-out rows; classes are split alike."""
    n = labels.size
    everything = np.arange(n)
    if held_out == 0:
        return _checked(labels, everything, target), everything[:0], ""
    if n < SMALL:
        note = f"There are only {n} rows, so none are held out and utility is that on the training rows."
        return _checked(labels, everything, target), everything[:0], note
    rng = np.random.default_rng(seed)
    parts = [np.flatnonzero(labels == k) for k in (0, 1)] if target.kind == "logistic" else [everything]
    test = np.sort(np.concatenate([rng.permutation(part)[: round(held_out * part.size)] for part in parts]))
    train = np.setdiff1d(everything, test, assume_unique=True)
    return _checked(labels, train, target), test, ""


def _checked(labels: Vector, train: NDArray[np.int64], target: Target) -> NDArray[np.int64]:
    if np.all(labels[train] == labels[train[0]]):
        raise InvalidInputError(
            f"The target '{target.name}' has one value only in the {train.size} training rows that are complete: there is "
            "nothing to predict."
        )
    return train


# features


def _feature(raw: RawTable, column: Column, train: NDArray[np.int64]) -> Feature | str:
    """A column's centre and scale or levels over the training rows, or why it cannot be used."""
    values = raw.columns.get(column.name)
    if column.kind == "number":
        centre, scale = moments(as_numbers(values)[train], f"Column '{column.name}'")
        if scale == 0:
            return "has one value only in the training rows"
        return Feature(column.name, "number", (), *_coarse(centre, scale))
    coded = as_codes(values)
    present = np.unique(coded.codes[train])
    if present.size < 2:
        return "has one value only in the training rows"
    return Feature(column.name, "category", (), levels=tuple(coded.levels[k] for k in present))


def _coarse(centre: float, scale: float) -> tuple[float, float]:
    """Centre and scale, rounded: exact ones, published with a model, would give the last unknown value of a column away."""
    rounded = float(f"{scale:.1e}")
    step = 10.0 ** math.floor(math.log10(rounded))
    return float(f"{round(centre / step) * step:.12g}"), rounded


def _refused(found: dict[str, Feature | str], column: Column) -> bool:
    return isinstance(found.get(column.name), str)


def _placed(features: list[Feature], target: str) -> tuple[Feature, ...]:
    """Numbers first, then categories, each with its place among the features."""
    features = [f for f in features if f.kind == "number"] + [f for f in features if f.kind == "category"]
    if not features:
        raise InvalidInputError(f"No column is left to predict '{target}' from: --number and --category keep columns.")
    placed, at = [], 0
    for feature in features:
        width = 1 if feature.kind == "number" else len(feature.levels) - 1
        placed.append(replace(feature, columns=tuple(range(at, at + width))))
        at += width
    if at > MOST_FEATURES:
        raise InvalidInputError(f"The table has {at} features: at most {MOST_FEATURES} are possible. Use --drop.")
    return tuple(placed)


def _filled(
    raw: RawTable, features: Sequence[Feature], train: NDArray[np.int64], test: NDArray[np.int64]
) -> tuple[Vector, Vector, NDArray[np.bool_]]:
    """Features of both parts, filled column by column, and which held-out rows have a category that is new."""
    width = features[-1].columns[-1] + 1
    X = np.zeros((train.size, width))
    X_test = np.zeros((test.size, width))
    unseen = np.zeros(test.size, dtype=bool)
    for name in set(raw.names) - {feature.name for feature in features}:
        raw.columns.forget(name)
    for feature in features:
        values = raw.columns.get(feature.name)
        if feature.kind == "number":
            z = (as_numbers(values) - feature.centre) / feature.scale
            X[:, feature.columns[0]], X_test[:, feature.columns[0]] = z[train], z[test]
        else:
            places = _places(as_codes(values), feature)
            unseen |= places[test] < 0
            for k, j in enumerate(feature.columns, start=1):
                X[:, j], X_test[:, j] = places[train] == k, places[test] == k
        raw.columns.forget(feature.name)
    return X, X_test[~unseen] if unseen.any() else X_test, unseen


def _places(coded: Coded, feature: Feature) -> NDArray[np.int32]:
    """The place of every row's value among the levels of the training rows, -1 for others."""
    known = {level: k for k, level in enumerate(feature.levels)}
    places = np.array([known.get(level, -1) for level in coded.levels] + [-1], dtype=np.int32)
    return places[coded.codes]
