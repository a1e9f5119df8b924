r"""From a table to the rows and features of a linear model.

Numbers are brought to the units that declared bounds give, or near their standard deviation, centres and scales on a public
grid; categories become an indicator
for each level but the first. Only the features are kept in float64, once, column by column: a raw number is
:math:`\mathrm{centre} + \mathrm{scale} \cdot z`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import is_lazy
from fisherleak._support.checks import nearest
from fisherleak._support.grids import GAP
from fisherleak._support.level_types import in_own_unit
from fisherleak.errors import InvalidInputError
from fisherleak.rows.selection import some_rows
from fisherleak.tables.decide.cell_text import Change, Written, as_written, changed
from fisherleak.tables.decide.choices import Choices, check_choices, spelled
from fisherleak.tables.decide.column_kinds import Column, decide
from fisherleak.tables.decide.fewer_rows import Unsettled, all_unsettled, hardly_varying
from fisherleak.tables.decide.hints import codes_in, hints_of
from fisherleak.tables.decide.numbers_in_text import Unread
from fisherleak.tables.decide.profile import Profile, profiles_of
from fisherleak.tables.decide.repeated_identifiers import RepeatedIdentifier, repeated_identifier
from fisherleak.tables.decide.target import AUTO, RULES, LabelRule, Target, check_model, standardised, target_of
from fisherleak.tables.design.features import CONSTANT, NOTHING, Facts, Feature, facts_of, features_of
from fisherleak.tables.design.gaps import FEWEST, MISSING, Filled, gap_notes
from fisherleak.tables.design.rare_levels import ValueCounter
from fisherleak.tables.design.repeated_rows import copied_target_note, copies_note
from fisherleak.tables.design.rows_of_features import FeatureMaker, lazy_rows, rows_in_memory
from fisherleak.tables.design.split import (
    FEWEST_ROWS,
    Complete,
    Counted,
    Groups,
    Split,
    check_ids,
    check_used,
    count_rows,
    dropped_of,
    groups_of,
    split_rows,
)
from fisherleak.tables.design.whose_rows import People, by_people, people_in, split_people
from fisherleak.tables.read.parts import RawTable, Room, checksum_of, refined

__all__ = ["Design", "design_of"]

MOST_TESTED = 20_000
"""Held-out rows that are kept, drawn at random: utility is measured on them."""
STREAMED = (
    "The rows were never in one memory: they were read part by part. Attacks, balancing and refits need them there and were "
    "not run."
)

Vector = NDArray[np.float64]


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
    filled: tuple[Filled, ...]
    fills: bool
    """Whether gaps are filled, wherever they are."""
    ids: Any = field(repr=False)
    groups: Any = field(repr=False)
    group_names: tuple[str, ...]
    notes: tuple[str, ...]
    unread: tuple[Unread, ...] = field(default=(), repr=False)
    """The first cells of columns of numbers that are none, with their texts: for eyes that may see values."""
    people: People | None = field(default=None, repr=False)
    """Who the training rows belong to, where several may be one person's."""
    thin: tuple[str, ...] = ()
    """Columns that are left out as too few vary in them, or share a level."""
    marks: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The decimal mark of columns that would be other numbers with the other mark."""
    open_marks: frozenset[str] = frozenset()
    """Those of them for which nothing in the table settles it."""
    few_settle_marks: frozenset[str] = frozenset()
    """Those whose mark would be another without five cells, or those of one person; not where it was given."""
    unsettled: Mapping[str, Unsettled] = field(default_factory=dict, repr=False)
    """Columns of which one row, or one person, might decide this; none that were named, but for how levels are written."""
    summed: bool = False
    """Whether one row, or person, decides which of the last rows are left out as totals of the others."""
    hardly: frozenset[str] = frozenset()
    """Categories that some rows lack, and that have one value only without one row, or person."""
    left_out_before: tuple[tuple[str, ...], str] | None = None
    """Columns that were left out after rows that lack them had been, and one whose use, in the rows left then, one row decided;
    of models as a release trains them."""
    header_by_one_row: bool = False
    """Whether one row, or a few, decide which line of the file is the header, or to which fields its names belong."""
    rarely_there: tuple[str, ...] = ()
    """Columns that an option names, and that the file would not have without one row, or one person."""
    repeated: RepeatedIdentifier | None = None
    """An identifier of people that repeats, where nobody said whose rows these are."""
    codes: tuple[str, ...] = ()
    """Numbers that may be codes of kinds, which a note says."""

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def anyone(self) -> str:
        """Whose values they are, in words: of people, or of rows, where an identifier says that several are one's."""
        return "anyone" if self.repeated is None else "any row"

    @property
    def lazy(self) -> bool:
        """Whether the training rows are not in memory."""
        return is_lazy(self.X)

    @property
    def declared(self) -> dict[str, tuple[float, float]]:
        """Declared bounds of the model's numbers and of its target."""
        known = {feature.name: feature.bounds for feature in self.features} | {self.target.name: self.target.bounds}
        return {name: bounds for name, bounds in known.items() if bounds is not None}

    @property
    def unbounded(self) -> tuple[str, ...]:
        """Numbers, and a target of numbers, whose public centre and scale come from the rows: they have no declared bounds."""
        numbers = [f.name for f in self.features if f.kind == "number" and f.bounds is None]
        target = self.target
        return (*numbers, *((target.name,) if not target.classes and target.bounds is None else ()))

    @property
    def decided(self) -> list[str]:
        """What was decided about the table, in sentences, and how to decide otherwise."""
        ignored = [column for column in self.columns if column.kind == "ignored" and column.assumed]
        sentences = [
            *self.notes,
            *(f"Column '{column.name}' is not used: it {column.note}." for column in ignored[:20]),
        ]
        if len(ignored) > 20:
            sentences.append(f"{len(ignored) - 20} more columns are not used: the list of columns says why.")
        whose = "one row" if self.people is None else "the rows of one person"
        kinds = {name: what for name, what in self.unsettled.items() if name != self.target.name}
        others = sorted(name for name, what in kinds.items() if what not in ("levels", "cells"))
        written = sorted(name for name, what in kinds.items() if what in ("levels", "cells"))
        if others:
            named = ", ".join(f"'{name}'" for name in others[:20])
            sentences.append(
                f"Without {whose} these columns might be taken for something else, which a release shows: {named}. "
                "`numbers`, `categories` and `drop` say what they are."
            )
        if written:
            named = ", ".join(f"'{name}'" for name in written[:20])
            sentences.append(
                f"Without {whose} the values of these columns might be read in another way, which a release shows: "
                f"{named}. `drop` leaves them out."
            )
        if self.header_by_one_row:
            sentences.append(
                "One row, or a few, decide how the header is read, which a release shows. A first line with a name for "
                "every column settles it, with `header`."
            )
        if self.few_settle_marks:
            named = ", ".join(f"'{name}'" for name in sorted(self.few_settle_marks)[:20])
            sentences.append(
                f"Only a few cells show whether marks in numbers are decimal marks or thousands separators: {named}. The unit "
                "of all their numbers depends on it, which no figure here counts: `decimal` says which it is."
            )
        return sentences + [f"Rows are dropped where {reason}: {count}." for reason, count in self.dropped[:20]]

    def raw(self, feature: Feature, X: Vector | None = None) -> NDArray[Any]:
        """The raw values of a column in all training rows, or those whose features are ``X``."""
        block = (self.X if X is None else X)[:, list(feature.columns)]
        if feature.kind == "number":
            z = np.where(block[:, 0] == GAP, 0.0, block[:, 0])
            return _tidied(in_own_unit(feature.centre, feature.scale, z))
        levels = np.empty(len(feature.levels), dtype=object)
        levels[:] = feature.told_levels
        return np.asarray(levels[np.where(block.max(axis=1) == 1.0, block.argmax(axis=1) + 1, 0)])

    def lacking(self, feature: Feature, X: Vector | None = None) -> NDArray[np.bool_]:
        """Which training rows, or those whose features are ``X``, lack a column and have it filled."""
        return np.asarray((self.X if X is None else X)[:, feature.columns[0]] == GAP)

    def frame(self) -> Any:
        """The training rows as a pandas frame of raw columns."""
        import pandas

        columns = {feature.name: self.raw(feature) for feature in self.features}
        return pandas.DataFrame({name: pandas.Series(values) for name, values in columns.items()})

    def labels(self) -> NDArray[Any]:
        """The target of the training rows in its own values."""
        if self.target.classes:
            return np.asarray(np.array(self.target.classes)[self.y.astype(np.int64)])
        return in_own_unit(self.target.centre, self.target.scale, np.asarray(self.y))


def design_of(
    raw: RawTable,
    choices: Choices,
    model: str = AUTO,
    held_out: float = 0.25,
    seed: int = 0,
    room: Room | None = None,
    rules: Mapping[str, LabelRule] = RULES,
) -> Design:
    """Choose rows, split them, and make features: three passes over the parts of the table, and one more that keeps them.

    Where ``room`` is given and the features do not fit, or where it is a cluster, they stay lazy. ``rules`` are those of the
    kinds of model that there are, by name.
    """
    check_model(model, rules)
    choices = spelled(raw.names, choices)
    if raw.sheets and choices.target not in raw.names:
        others = ", ".join(f"'{name}'" for name in raw.sheets[1:])
        raise InvalidInputError(
            f"`target` names the column '{choices.target}', which is not in '{raw.sheets[0]}', the first of {raw.source}. "
            f"`sheet` names another: {others}."
        )
    _check_table(raw, held_out, room)
    check_choices(raw.names, choices)
    found = _looked_at(raw, choices, model, held_out, room, rules)
    raw, complete, lazily = found.raw, found.complete, found.lazily
    unsure = "" if choices.id is None else check_ids(raw, choices.id, found.profiles[choices.id], lazily)
    parted = _parted(found, choices, held_out, seed)
    facts, people = parted.facts, parted.people
    target = standardised(complete.target, facts.label, choices.within(choices.target))
    features, refused = features_of(complete.used, facts, found.profiles, choices, parted.counter, raw.names)
    _check_bounded(choices, features, target)
    maker = FeatureMaker(replace(complete, target=target), parted.split, features, choices.id, found.groups)
    sample = some_rows(facts.held_out, MOST_TESTED, seed)
    sha256 = checksum_of(raw, lazily)
    rows = lazy_rows(raw, maker, facts, sample, room) if lazily else rows_in_memory(raw, maker, facts, sample)
    filled = _filled(complete, parted.counted, features)
    new = (
        f"{rows.unseen} held-out rows have categories that no training row has and are left out." if rows.unseen else ""
    )
    alike = "" if lazily or people is not None else copies_note(rows.X, rows.y, [f.columns for f in features])
    own = {feature.name: feature.columns for feature in features if feature.of is None}
    copied = "" if lazily else copied_target_note(rows.X, rows.y, own, target.name, bool(target.classes))
    repeated = "" if found.repeated is None else found.repeated.note
    said = (
        repeated,
        *raw.notes,
        *found.notes,
        target.note,
        parted.note,
        unsure,
        new,
        alike,
        copied,
        STREAMED if lazily else "",
    )
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
        columns=tuple(_with_refusal(column, refused) for column in found.columns),
        dropped=tuple(dropped_of(complete, parted.counted)),
        filled=filled,
        fills=complete.filling,
        ids=rows.ids,
        groups=rows.groups,
        group_names=() if found.groups is None else found.groups.names,
        notes=tuple(note for note in (*said, *_feature_notes(found, features, filled)) if note),
        unread=found.written.unread,
        people=None if people is None else people.among(rows.rows),
        marks=found.written.marks,
        open_marks=found.written.open_marks,
        few_settle_marks=found.written.few_settle,
        unsettled=found.unsettled,
        hardly=found.hardly,
        summed=found.written.summed,
        header_by_one_row=raw.header_by_one_row,
        rarely_there=found.rarely_there,
        thin=tuple(name for name, why in refused.items() if why not in (NOTHING, CONSTANT)),
        repeated=found.repeated,
        codes=codes_in(found.columns, found.profiles),
    )


@dataclass(frozen=True)
class _Looked:
    """What the first pass tells: the table in parts that suit its features, what its columns are, which rows are complete."""

    raw: RawTable
    profiles: Mapping[str, Profile]
    columns: list[Column]
    complete: Complete
    groups: Groups | None
    lazily: bool
    notes: tuple[str, ...]
    written: Written
    repeated: RepeatedIdentifier | None
    unsettled: Mapping[str, Unsettled]
    hardly: frozenset[str]
    rarely_there: tuple[str, ...]


def _looked_at(
    raw: RawTable, choices: Choices, model: str, held_out: float, room: Room | None, rules: Mapping[str, LabelRule]
) -> _Looked:
    far = room is not None and not room.holds(raw.rows, len(raw.names))
    people = None if choices.person is None or far else people_in(raw, choices.person, far)
    one = 1 if people is None else int(people.sizes.max())
    written = as_written(raw, choices, far, one, None if people is None else people.of_row)
    raw = written.raw
    profiles = profiles_of(raw, choices, far, one)
    columns = decide(raw, profiles, choices)
    unsettled = all_unsettled(raw, columns, profiles, choices, written.unsettled, one)
    target = target_of(choices.target, raw.kind(choices.target), profiles[choices.target], model, rules)
    used = tuple(column for column in columns if column.kind in ("number", "category"))
    raw = changed(raw, {column.name: Change(kept=column.kept) for column in used if column.kept is not None})
    check_used(used, profiles)
    width = max(1, sum(1 if column.kind == "number" else (column.levels or 2) - 1 for column in used))
    lazily = room is not None and not room.holds(int((1 - held_out) * raw.rows), width)
    groups = None if choices.group is None else groups_of(raw, choices.group, profiles[choices.group])
    others = tuple(name for name in (choices.id, choices.group) if name is not None)
    complete = Complete(target, used, others, filling=choices.missing == "impute")
    raw = refined(raw, width) if lazily else raw
    pooled = [f"'{c.name}' {c.note}. Which categories are kept is taken as public." for c in used if c.kept is not None]
    notes = (*written.notes, *pooled, *hints_of(columns, profiles, target))
    repeated = repeated_identifier(raw, profiles, choices, far)
    hardly = hardly_varying(columns, profiles, one)
    rarely = tuple(sorted(name for name, count in raw.rarely_there.items() if count <= one and name in choices.named))
    return _Looked(
        raw, profiles, columns, complete, groups, lazily, notes, written, repeated, unsettled, hardly, rarely
    )


@dataclass(frozen=True)
class _Parted:
    """Rows for training and rows held out, and what the training rows tell."""

    counted: Counted
    people: People | None
    split: Split
    note: str
    facts: Facts
    counter: ValueCounter


def _parted(found: _Looked, choices: Choices, held_out: float, seed: int) -> _Parted:
    raw, complete, lazily = found.raw, found.complete, found.lazily
    counted = count_rows(raw, complete, found.groups, lazily)
    people = None if choices.person is None else people_in(raw, choices.person, lazily)
    if people is None:
        split, note = split_rows(counted, complete.target, held_out, seed, raw.rows)
    else:
        split, note = split_people(people, counted.complete, held_out, seed)
    counter = ValueCounter(choices.rare, None if people is None else people.of_row)
    facts = _with_rows(facts_of(raw, complete, split, counter, lazily), counted.complete, raw.source)
    if people is not None:
        facts = by_people(facts, raw, complete, split, people, max(choices.rare, FEWEST))
    return _Parted(counted, people, split, note, facts, counter)


def _feature_notes(found: _Looked, features: tuple[Feature, ...], filled: tuple[Filled, ...]) -> list[str]:
    """What was done to columns that has not been said of them yet."""
    said = {column.name for column in found.columns if column.kept is not None}
    pooled = [feature for feature in features if feature.pooled + feature.strays and feature.name not in said]
    gaps = gap_notes(filled, [feature.name for feature in features if feature.of is not None])
    return [*gaps, *(_pooled_note(feature) for feature in pooled)]


def _filled(complete: Complete, counted: Counted, features: tuple[Feature, ...]) -> tuple[Filled, ...]:
    """The columns of the model that some of the table's rows lack, and what stands for them."""
    if not complete.filling:
        return ()
    lost = {column.name: int(count) for column, count in zip(complete.used, counted.lost[1:], strict=True)}
    found = []
    for feature in features:
        if feature.of is not None or not lost[feature.name]:
            continue
        if feature.kind == "number":
            by, kind = f"{feature.centre:.6g}", "number"
        else:
            by = str(feature.levels[0])
            kind = "pooled" if feature.pooled else "level" if by == MISSING else "few"
        found.append(Filled(feature.name, lost[feature.name], by, kind))
    return tuple(found)


def _pooled_note(feature: Feature) -> str:
    count = feature.pooled + feature.strays
    what = f"{count} of its categories" if count > 1 else "one of its categories"
    stands = "stands for them and for new ones" if feature.pooled else "is what they and new ones count as"
    return f"In '{feature.name}' {what} had too few rows to be named: '{feature.levels[0]}' {stands}."


def _with_refusal(column: Column, refused: Mapping[str, str]) -> Column:
    return replace(column, kind="ignored", note=refused[column.name]) if column.name in refused else column


def _with_rows(facts: Facts, complete: int, source: str) -> Facts:
    if not facts.label.count:
        raise InvalidInputError(
            f"None of the {complete} complete rows of {source} is left for training: use a smaller `held_out`."
        )
    return facts


def _check_table(raw: RawTable, held_out: float, room: Room | None) -> None:
    if not 0 <= held_out <= 0.9:
        raise InvalidInputError(f"The share of held-out rows must be between 0 and 0.9; got {held_out}.")
    if not raw.parts:
        raise InvalidInputError(f"{raw.source} can be read once only, and was read before: open it again.")
    if raw.rows < FEWEST_ROWS:
        raise InvalidInputError(
            f"{raw.source} has {raw.rows} row{'s' * (raw.rows > 1)}: at least {FEWEST_ROWS} are needed."
        )
    if room is not None and room.cluster and raw.here:
        raise InvalidInputError(
            f"A cluster reads Parquet files where its workers are, and {raw.source} is read here: save it as Parquet."
        )


def _check_bounded(choices: Choices, features: tuple[Feature, ...], target: Target) -> None:
    """Refuse bounds of what is no number of the model."""
    numbers = [feature.name for feature in features if feature.kind == "number"]
    numbers += [] if target.classes else [target.name]
    for name, _ in choices.bounds:
        if any(feature.name == name and feature.kind == "category" for feature in features):
            raise InvalidInputError(f"`bounds` are for numbers, and '{name}' is a category: use `levels`.")
        if name not in numbers:
            raise InvalidInputError(
                f"`bounds` name '{name}', which is no numeric column that the model uses. {nearest(name, numbers)}"
            )


def _tidied(values: Vector) -> Vector:
    """Fifteen digits: what standardising there and back leaves of a value."""
    sizes = np.where(values == 0, 1.0, np.abs(values))
    digits = 14 - np.floor(np.log10(sizes))
    unit = 10.0 ** np.minimum(digits, 300.0)
    return np.where(digits > 300.0, values, np.round(values * unit) / unit)  # hardly any number is so small
