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

from fisherleak._array import is_lazy
from fisherleak._blocks import kept, rows_of
from fisherleak._rows import some_rows
from fisherleak.errors import InvalidInputError
from fisherleak.tables.choices import Choices, check_choices
from fisherleak.tables.columns import as_codes, as_numbers, as_text, places
from fisherleak.tables.kinds import Column, decide
from fisherleak.tables.moments import Moments
from fisherleak.tables.parts import Part, RawTable, Room, checksum_of, over_parts, refine, used_up
from fisherleak.tables.profile import FEW_VALUES, Profile, profiles_of
from fisherleak.tables.rows import (
    FEWEST_ROWS,
    Complete,
    Groups,
    Split,
    check_ids,
    check_used,
    count_rows,
    dropped_of,
    groups_of,
    split_rows,
)
from fisherleak.tables.target import MODELS, Target, scaled, target_of

__all__ = ["Design", "Feature", "design_of"]

MOST_FEATURES = 5000
"""A Hessian of more would not fit in ordinary memory."""
MOST_TESTED = 20_000
"""Held-out rows that are kept, drawn at random: utility is measured on them."""
KEPT = 2.5
"""Times the features' size that the memory of a cluster must have for them to stay there."""
STREAMED = (
    "The rows were never in one memory: they were read part by part. Attacks, balancing and refits need them there and were "
    "not run."
)

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
    few: bool = False
    """Whether it has few different values."""


@dataclass(frozen=True)
class Design:
    """The training rows and the held-out rows as features, with what was assumed on the way.

    Attributes
    ----------
    X, y : arrays of shape (n, p) and (n,)
        Features and labels of the training rows; lazy where they are not in memory, and so are rows, ids and groups.
    X_test, y_test : arrays
        The same of at most ``MOST_TESTED`` held-out rows, of which there are ``held_out``; none where the table is small.
    label_mean : float
        Of y.
    rows : integer array of shape (n,)
        The number of each training row in the table; the first is 1.
    groups : integer array of shape (n,), optional
        The place of each row's group in ``group_names``.
    """

    source: str
    sha256: str
    rows_read: int
    X: Any = field(repr=False)
    y: Any = field(repr=False)
    X_test: Vector = field(repr=False)
    y_test: Vector = field(repr=False)
    held_out: int
    label_mean: float
    rows: Any = field(repr=False)
    features: tuple[Feature, ...]
    target: Target
    columns: tuple[Column, ...]
    dropped: tuple[tuple[str, int], ...]
    ids: Any = field(repr=False)
    groups: Any = field(repr=False)
    group_names: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def lazy(self) -> bool:
        """Whether the training rows are not in memory."""
        return is_lazy(self.X)

    def raw(self, feature: Feature, X: Vector | None = None) -> NDArray[Any]:
        """The raw values of a column in all training rows, or those whose features are ``X``."""
        block = (self.X if X is None else X)[:, list(feature.columns)]
        if feature.kind == "number":
            return _tidied(np.asarray(feature.centre + feature.scale * block[:, 0]))
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
        return np.asarray(self.target.centre + self.target.scale * self.y)


def design_of(
    raw: RawTable,
    choices: Choices,
    model: str = "auto",
    held_out: float = 0.25,
    seed: int = 0,
    room: Room | None = None,
) -> Design:
    """Choose rows, split them, and make features: three passes over the parts of the table, and one more that keeps them.

    The raw table is used up: its parts are let go one by one, so that memory never holds them twice. Where ``room`` is given
    and the features do not fit, or where it is a cluster, they stay lazy.
    """
    _check_settings(model, held_out)
    check_choices(raw.names, choices)
    if raw.rows < FEWEST_ROWS:
        raise InvalidInputError(
            f"{raw.source} has {raw.rows} row{'s' * (raw.rows > 1)}: at least {FEWEST_ROWS} are needed."
        )
    lazily = room is not None and not room.holds(raw.rows, len(raw.names))
    profiles = profiles_of(raw, choices, lazily)
    columns = decide(raw, profiles, choices)
    target = target_of(choices.target, raw.kind(choices.target), profiles[choices.target], model)
    used = tuple(column for column in columns if column.kind in ("number", "category"))
    check_used(used, profiles)
    width = sum(1 if column.kind == "number" else (column.levels or 2) - 1 for column in used)
    lazily = room is not None and not room.holds(int((1 - held_out) * raw.rows), max(1, width))
    if lazily:
        refine(raw, max(1, width))
    unsure = "" if choices.id is None else check_ids(raw, choices.id, profiles[choices.id], lazily)
    groups = None if choices.group is None else groups_of(raw, choices.group, profiles[choices.group])
    complete = Complete(target, used, tuple(name for name in (choices.id, choices.group) if name is not None))
    counted = count_rows(raw, complete, groups, lazily)
    split, note = split_rows(counted, target, held_out, seed, raw.rows)
    facts = _facts(raw, complete, split, lazily)
    if not facts.label.count:
        raise InvalidInputError(
            f"None of the {counted.kept} complete rows of {raw.source} is left for training: use a smaller --held-out."
        )
    target = scaled(target, facts.label)
    found = {c.name: _feature(c, facts.columns[k], profiles[c.name]) for k, c in enumerate(used)}
    columns = [replace(c, kind="ignored", note=str(found[c.name])) if _refused(found, c) else c for c in columns]
    features = _placed([feature for feature in found.values() if isinstance(feature, Feature)], target.name)
    recipe = Recipe(replace(complete, target=target), split, features, choices.id, groups)
    sample = some_rows(facts.held_out, MOST_TESTED, seed)
    sha256 = checksum_of(raw, lazily)
    rows = _lazy(raw, recipe, facts, sample, room) if lazily else _filled(raw, recipe, facts, sample)
    new = f"{rows.unseen} held-out rows have categories that no training row has and are left out."
    notes = [*raw.notes, target.note, note, unsure, new if rows.unseen else "", STREAMED if lazily else ""]
    return Design(
        source=raw.source,
        sha256=sha256,
        rows_read=raw.rows,
        X=rows.X,
        y=rows.y,
        X_test=rows.X_test,
        y_test=rows.y_test,
        held_out=facts.held_out - rows.unseen,
        label_mean=(facts.label.mean - target.centre) / target.scale,
        rows=rows.rows,
        features=features,
        target=target,
        columns=tuple(columns),
        dropped=tuple(dropped_of(complete, counted)),
        ids=rows.ids,
        groups=rows.groups,
        group_names=() if groups is None else groups.names,
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


# features


@dataclass(frozen=True)
class Facts:
    """What features are made of: moments of numbers and levels of categories over the training rows."""

    label: Moments
    columns: tuple[Moments | frozenset[Any], ...]
    held_out: int
    sizes: tuple[int, ...]
    """Training rows of each part."""
    tested: tuple[int, ...]
    """Held-out rows of each part."""


def _facts(raw: RawTable, complete: Complete, split: Split, lazily: bool) -> Facts:
    """One pass over the training rows."""

    def of_part(part: Part) -> Facts:
        table = complete.read(part)
        labels, kept, _ = complete.kept(table)
        held = split.held(part.start + kept)
        train = kept[~held]
        columns = tuple(_fact(column, table.column(column.name), train) for column in complete.used)
        return Facts(Moments.of(labels[train]), columns, int(held.sum()), (train.size,), (int(held.sum()),))

    def merge(a: Facts, b: Facts) -> Facts:
        columns = tuple(_both(x, y) for x, y in zip(a.columns, b.columns, strict=True))
        return Facts(a.label + b.label, columns, a.held_out + b.held_out, a.sizes + b.sizes, a.tested + b.tested)

    return over_parts(of_part, raw.parts, merge, lazily)


def _both(a: Any, b: Any) -> Any:
    return a | b if isinstance(a, frozenset) else a + b


def _fact(column: Column, values: Any, train: NDArray[np.int64]) -> Moments | frozenset[Any]:
    if column.kind == "number":
        return Moments.of(as_numbers(values)[train])
    coded = as_codes(values)
    return frozenset(coded.levels[k] for k in np.unique(coded.codes[train]))


def _feature(column: Column, fact: Moments | frozenset[Any], profile: Profile) -> Feature | str:
    """A column's centre and scale or levels over the training rows, or why it cannot be used."""
    if isinstance(fact, Moments):
        centre, scale = fact.checked(f"Column '{column.name}'")
        if scale == 0:
            return "has one value only in the training rows"
        few = profile.numbers is not None and profile.numbers.few is not None
        return Feature(column.name, "number", (), *_coarse(centre, scale), few=few)
    if len(fact) < 2:
        return "has one value only in the training rows"
    return Feature(column.name, "category", (), levels=tuple(sorted(fact)), few=len(fact) <= FEW_VALUES)


def _coarse(centre: float, scale: float) -> tuple[float, float]:
    """Centre and scale, rounded: exact ones, published with a model, would give the last unknown value of a column away."""
    # twelve digits first: the last ones depend on the order of sums, and must not decide a tie
    rounded = float(f"{float(f'{scale:.11e}'):.1e}")
    step = 10.0 ** math.floor(math.log10(rounded))
    return float(f"{round(float(f'{centre / step:.12g}')) * step:.12g}"), rounded


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


# rows


@dataclass(frozen=True)
class Recipe:
    """From a part of the table to its rows of features. Small, so that it can travel to where the parts are."""

    complete: Complete
    split: Split
    features: tuple[Feature, ...]
    id: str | None
    groups: Groups | None

    @property
    def width(self) -> int:
        return self.features[-1].columns[-1] + 1

    def training(self, part: Part, table: Any, X: Vector) -> tuple[Any, ...]:
        """y, row numbers from 1, identifiers and groups of a part's training rows; their features go into X."""
        labels, kept, held = self._rows(part, table)
        train = kept[~held]
        ids = None if self.id is None else as_text(table.column(self.id).take(train))
        groups = None if self.groups is None else self.groups.of(table.column(self.groups.name))[train]
        self._fill(table, train, X)
        return self._standard(labels[train]), part.start + train + 1, ids, groups

    def tested(self, part: Part, table: Any, chosen: NDArray[np.int64]) -> tuple[Vector, Vector, int]:
        """Features and labels of some of a part's held-out rows, and how many of all have a category that is new."""
        labels, kept, held = self._rows(part, table)
        test = kept[held]
        unseen = np.zeros(test.size, dtype=bool)
        for feature in self.features:
            if feature.kind == "category":
                unseen |= places(table.column(feature.name), feature.levels)[test] < 0
        test = test[chosen[~unseen[chosen]]]
        X = np.empty((test.size, self.width))
        self._fill(table, test, X)
        return X, self._standard(labels[test]), int(unseen.sum())

    def _rows(self, part: Part, table: Any) -> tuple[Vector, NDArray[np.int64], NDArray[np.bool_]]:
        labels, kept, _ = self.complete.kept(table)
        return labels, kept, self.split.held(part.start + kept)

    def _standard(self, labels: Vector) -> Vector:
        target = self.complete.target
        return (labels - target.centre) / target.scale

    def _fill(self, table: Any, rows: NDArray[np.int64], X: Vector) -> None:
        for feature in self.features:
            values = table.column(feature.name)
            if feature.kind == "number":
                X[:, feature.columns[0]] = (as_numbers(values)[rows] - feature.centre) / feature.scale
                continue
            place = places(values, feature.levels)[rows]
            for k, j in enumerate(feature.columns, start=1):
                X[:, j] = place == k


@dataclass(frozen=True)
class _Rows:
    """Training rows, here or lazy, and held-out rows."""

    X: Any
    y: Any
    rows: Any
    ids: Any
    groups: Any
    X_test: Vector
    y_test: Vector
    unseen: int


def _chosen(facts: Facts, sample: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The places of the sampled held-out rows among those of each part."""
    edges = np.cumsum([0, *facts.tested])
    cuts = np.searchsorted(sample, edges)
    return [sample[cuts[k] : cuts[k + 1]] - edges[k] for k in range(len(facts.tested))]


def _filled(raw: RawTable, recipe: Recipe, facts: Facts, sample: NDArray[np.int64]) -> _Rows:
    """All rows in memory, part by part."""
    n = facts.label.count
    X, y, rows = np.empty((n, recipe.width)), np.empty(n), np.empty(n, dtype=np.int64)
    ids = None if recipe.id is None else np.empty(n, dtype=object)
    groups = None if recipe.groups is None else np.empty(n, dtype=np.int32)
    test: list[tuple[Vector, Vector, int]] = []
    at = 0
    plan = list(zip(facts.sizes, _chosen(facts, sample), strict=True))
    for part, (size, chosen) in zip(used_up(raw, "Making features"), plan, strict=True):
        table = recipe.complete.read(part)
        here = slice(at, at + size)
        blocks = recipe.training(part, table, X[here])
        for whole, block in zip((y, rows, ids, groups), blocks, strict=True):
            if whole is not None:
                whole[here] = block
        test.append(recipe.tested(part, table, chosen))
        at = here.stop
    return _Rows(X, y, rows, ids, groups, *_joined(test))


def _joined(test: Sequence[tuple[Vector, Vector, int]]) -> tuple[Vector, Vector, int]:
    return (
        np.concatenate([X for X, _, _ in test]),
        np.concatenate([y for _, y, _ in test]),
        sum(unseen for _, _, unseen in test),
    )


def _lazy(raw: RawTable, recipe: Recipe, facts: Facts, sample: NDArray[np.int64], room: Room | None) -> _Rows:
    """Training rows as lazy arrays with a block for each part; the sample of held-out rows in memory."""
    pairs = list(zip(raw.parts, _chosen(facts, sample), strict=True))
    read = recipe.complete.read
    test = over_parts(lambda pair: [recipe.tested(pair[0], read(pair[0]), pair[1])], pairs, lambda a, b: a + b, True)
    some = [(part, size) for part, size in zip(raw.parts, facts.sizes, strict=True) if size]
    kinds = [np.empty((0, recipe.width)), np.empty(0), np.empty(0, dtype=np.int64)]
    with_id, with_groups = recipe.id is not None, recipe.groups is not None
    kinds += [np.empty(0, dtype=object)] * with_id + [np.empty(0, dtype=np.int32)] * with_groups

    def make(pair: tuple[Part, int]) -> tuple[Any, ...]:
        part, size = pair
        X = np.empty((size, recipe.width))
        return tuple(block for block in (X, *recipe.training(part, read(part), X)) if block is not None)

    arrays = rows_of(make, some, [size for _, size in some], kinds)
    if room is not None and room.cluster and KEPT * 8 * facts.label.count * recipe.width < room.there:
        arrays = kept(*arrays)
    X, y, rows, *others = arrays
    ids = others[0] if with_id else None
    groups = others[-1] if with_groups else None
    return _Rows(X, y, rows, ids, groups, *_joined(test))
