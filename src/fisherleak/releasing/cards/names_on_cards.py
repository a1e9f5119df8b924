"""Which declarations stand on a model card, by names alone, and how a table is read that only a model card is known of.

Whether a declaration was needed is for the rows to say, and one of them, or a cell of a column that is left out, can decide it.
So no row is asked: a card has no list of columns that are left out, or declared as numbers or categories, since its columns say
all of that; other declarations stand there as they were given, where they name what the model uses. A release is trained just
as whoever has its model card and the table trains it again.

Also here: settings as a card has them: every list in one order and each name once, spelled as the table spells it.

A model card can be written in many ways that mean the same, and which of them was taken can carry other data. So there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from fisherleak._support.level_types import plain_level
from fisherleak._support.namespaces import Json
from fisherleak.errors import FisherleakError, InvalidInputError
from fisherleak.releasing.cards.enough_people import FEWEST_ROWS, sharing_classes
from fisherleak.tables import Feature, RawTable
from fisherleak.tables.decide.cell_text import OTHER, as_written
from fisherleak.tables.decide.choices import Choices, check_choices, spelled
from fisherleak.tables.decide.column_kinds import Column, decide
from fisherleak.tables.decide.profile import profiles_of
from fisherleak.tables.design.design import Design
from fisherleak.tables.design.features import CONSTANT, NOTHING
from fisherleak.tables.design.gaps import MISSING
from fisherleak.tables.read.parts import Room
from fisherleak.training.trained_model import Settings, Trained, train

SORTED = ("numbers", "categories", "drop", "na", "unite", "levels", "bounds")
"""Settings whose order says nothing."""


def canonical_settings(settings: Settings, names: Sequence[str], trained: Trained) -> Settings:
    """The same settings in the one way to write them, for a table with columns of these names."""
    own = spelled(names, settings.choices)
    made: dict[str, Any] = {item.name: getattr(own, item.name) for item in fields(Choices)}
    features = {f.name: f for f in trained.design.features if f.kind == "category" and f.of is None}
    named = [(n, _in_order(features[n], texts)) for n, texts in settings.levels if n in features]
    made["levels"] = [(n, texts) for n, texts in named if texts]  # none where those for missing cells are pooled
    # numbers with a point, and zero without a sign
    held_out, l2, own_l2 = (float(each) + 0.0 for each in (settings.held_out, settings.l2, settings.intercept_l2))
    settings = replace(settings, held_out=held_out, l2=l2, intercept_l2=own_l2)
    made["bounds"] = [(name, (float(low) + 0.0, float(high) + 0.0)) for name, (low, high) in made["bounds"]]
    return replace(settings, **made | {name: tuple(sorted(set(made[name]))) for name in SORTED})


def _in_order(feature: Feature, texts: Sequence[str]) -> tuple[str, ...]:
    """Declared levels as a model card has them, in its order: "2", "2.0" and 2 are one where a column's levels are numbers."""
    numbers = {number for number in map(_read, texts) if number is not None}

    def declared(level: Any) -> bool:
        return str(level) in texts or (isinstance(level, (int, float)) and float(level) in numbers)

    own = [level for level in map(plain_level, feature.levels) if declared(level)]
    return tuple(str(level) for level in own)


def _read(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _those_of(levels: Sequence[Any], declared: set[str]) -> list[str]:
    return [text for text in map(str, levels) if text in declared]


def wrong_setting(card: Json, ordered: bool) -> str | None:
    """The first setting that a model card has in another way, or of another kind, than its columns say; no table is needed."""
    settings, columns = card["settings"], {column["name"]: column for column in card["columns"]}
    levels: dict[str, Any] = {n: column["levels"] for n, column in columns.items() if column["kind"] == "category"}
    numbers = {name for name in columns if name not in levels}
    lists: dict[str, list[Any]] = {name: settings.get(name, []) for name in SORTED}
    for name, given in lists.items():
        keys = [each[0] for each in given] if name in ("levels", "bounds") else given
        if len({*keys}) < len(keys) or (ordered and keys != sorted(keys)):
            return f"settings.{name}"
    target, roles = card["target"]["name"], {settings[name] for name in ("id", "person", "group")}
    checks = {
        "numbers": not lists["numbers"] if ordered else levels.keys().isdisjoint(lists["numbers"]),
        "categories": lists["categories"] in ([], [target]) if ordered else numbers.isdisjoint(lists["categories"]),
        "drop": not lists["drop"] if ordered else columns.keys().isdisjoint(lists["drop"]),
        "unite": not ordered or {*lists["unite"]} <= {*columns, target, *roles},
        "bounds": {name for name, _ in lists["bounds"]} <= {*numbers, target},
        "levels": not ordered
        or all(
            n in levels and "of" not in columns[n] and declared == _those_of(levels[n], {*declared})
            for n, declared in lists["levels"]
        ),
    }
    return next((f"settings.{name}" for name, holds in checks.items() if not holds), None)


DECLARATIONS = ("categories", "levels", "decimal", "unite", "keep_total")
"""Settings that stand on a model card as they were given: whether the table needs them is not looked at."""
Used = Mapping[str, frozenset[str] | None]
"""The columns of a model: the names of a category's levels, or nothing where it is a number."""
USED = ("number", "category")


def used_on(card: Json) -> Used:
    """The columns of a model card, without those that tell who lacks another."""
    return {
        column["name"]: None if column["kind"] == "number" else frozenset(map(str, column["levels"]))
        for column in card["columns"]
        if "of" not in column
    }


def _used_by(design: Design) -> Used:
    return {
        f.name: None if f.kind == "number" else frozenset(str(plain_level(level)) for level in f.levels)
        for f in design.features
        if f.of is None
    }


def as_on_card(settings: Settings, used: Iterable[str]) -> Settings:
    """Settings, in their one way to be written, as the card of a model with these columns has them: names alone decide it."""
    known = {*used, settings.target, settings.id, settings.person, settings.group}
    return replace(
        settings,
        seed=settings.seed if settings.held_out else 0,
        numbers=(),
        categories=tuple(name for name in settings.categories if name == settings.target),
        drop=(),
        unite=tuple(name for name in settings.unite if name in known),
    )


def as_read(settings: Settings, raw: RawTable, used: Used, room: Room | None = None) -> Settings:
    """Settings of a model card with the names that its columns ask for: what else would be used is left out, what else would be
    taken for something else is declared. Nothing of this is published.
    """
    roles = {settings.target, settings.id, settings.person}
    others = [name for name in raw.names if name not in used and name not in roles]
    try:
        by_rows: Mapping[str, Column] = {column.name: column for column in _decided(settings, raw, room)}
    except FisherleakError:
        by_rows = {}
    told = [name for name in used if name not in by_rows or _is_another(by_rows[name], used[name], settings)]
    categories = [*settings.categories, *(name for name in told if used[name] is not None)]
    return replace(
        settings,
        numbers=tuple(sorted(name for name in told if used[name] is None)),
        categories=tuple(sorted(categories)),
        drop=tuple(sorted(name for name in others if name not in by_rows or by_rows[name].kind in USED)),
    )


def _decided(settings: Settings, raw: RawTable, room: Room | None) -> Sequence[Column]:
    """What every column is taken for where nothing is said of it."""
    choices = settings.choices
    check_choices(raw.names, choices)
    far = room is not None and not room.holds(raw.rows, len(raw.names))
    read = as_written(_copied(raw), choices, far).raw
    return decide(read, profiles_of(read, choices, far), choices)


def _is_another(by_rows: Column, levels: frozenset[str] | None, settings: Settings) -> bool:
    """Whether a column of the model is taken for something else, or with fewer levels, where nothing is said of it."""
    if by_rows.kind != ("number" if levels is None else "category"):
        return True
    if levels is None or by_rows.kept is None:
        return False
    declared = dict(settings.levels).get(by_rows.name, ())
    return not levels <= {*map(str, by_rows.kept), *declared, OTHER, MISSING}


def _copied(raw: RawTable) -> RawTable:
    """The same table: lists of parts are changed in place where there is no copy."""
    return replace(raw, parts=tuple(raw.parts))


def trained_as_read(
    raw: RawTable,
    settings: Settings,
    room: Room | None = None,
    *,
    stated: bool = False,
    known: Trained | None = None,
) -> tuple[Trained, Settings]:
    """A model trained with settings that its model card gives again, and these settings.

    Columns that cannot be used are left out, as if that had been asked for: then rows that lack one are not left out. What the
    settings say of columns without need is forgotten, since a model card does not hold it; with ``stated`` it is kept: the
    model is the same, and who made the settings knows that no row decides these columns. ``known`` is a model of the table.
    """
    trained = train(_copied(raw), settings, room, known)
    passes = [trained.design]
    for _ in raw.names:
        own = canonical_settings(settings, raw.names, trained)
        used = _used_by(trained.design)
        again = as_read(as_on_card(own, used), raw, used, room)
        again = _with_stated(again, own, used) if stated else again
        if _ReadAlike.of(again) == _ReadAlike.of(settings):
            break
        settings, trained = again, train(_copied(raw), again, room, trained)
        passes.append(trained.design)
    first, last = passes[0], passes[-1]
    _check_marks(first, last)
    why = {column.name: column for column in first.columns if column.kind == "ignored"}
    design = replace(
        last,
        columns=tuple(why.get(column.name, column) for column in last.columns),
        thin=first.thin,
        unsettled={name: what for own in passes for name, what in own.unsettled.items()},  # unused ones might be used
        summed=any(own.summed for own in passes),
        left_out_before=next(filter(None, (_decided_before(own, last) for own in passes)), None),
    )
    return replace(trained, design=design), canonical_settings(settings, raw.names, trained)


def _decided_before(early: Design, last: Design) -> tuple[tuple[str, ...], str] | None:
    """Columns that were left out after rows that lack them had been, and one whose use one row decided then; None without one.

    Rows left out for columns that the model does not use come back in the end: all that the others decided is which columns
    it uses. One row less never brings a column back in the same rows.
    """
    used, reasons = {feature.name for feature in last.features}, {reason for reason, _ in early.dropped}
    lacked = [column.name for column in early.columns if f"'{column.name}' is missing" in reasons]
    gone = tuple(name for name in lacked if name not in used)
    if early.fills or not gone or (early.n, early.held_out) == (last.n, last.held_out):
        return None
    refused = [
        column.name for column in early.columns if column.name in early.thin or column.note in (NOTHING, CONSTANT)
    ]
    edge = [feature.name for feature in early.features if _by_one_row(feature, early)]
    edge += [early.target.name] if min(sharing_classes(early), default=FEWEST_ROWS) <= 1 else []
    for name in gone:
        edge += [other for other in refused if name in early.hardly and other != name]
    return (gone, edge[0]) if edge else None


def _by_one_row(feature: Feature, design: Design) -> bool:
    """Whether a column might not be used without one row, or person."""
    lost = min(len(feature.leaving), 1) if design.people is None else len(feature.leaving)
    return bool(feature.nearly_all) or (lost > 0 and len(feature.levels) - lost < 2)


def _with_stated(settings: Settings, own: Settings, used: Used) -> Settings:
    """Settings with what others say of columns too: what they name and the model does not use is left out.

    Where nothing is said of it, rows would decide whether it is used. A category that is taken for one, and has no level that
    can be named, would leave out rows that lack it.
    """
    named = {*own.numbers, *own.categories} - {own.target, own.id, own.person, own.group}
    drop = {*settings.drop, *own.drop, *(named - used.keys())}
    return replace(
        settings,
        numbers=tuple(sorted({*settings.numbers, *own.numbers} - drop)),
        categories=tuple(sorted({*settings.categories, *own.categories} - drop)),
        drop=tuple(sorted(drop)),
    )


@dataclass(frozen=True)
class _ReadAlike:
    """What decides how a table is read, whatever the order."""

    lists: tuple[frozenset[Any], ...]
    levels: frozenset[tuple[str, frozenset[str]]]
    others: tuple[Any, ...]

    @classmethod
    def of(cls, own: Settings) -> _ReadAlike:
        lists = tuple(frozenset(each) for each in (own.numbers, own.categories, own.drop, own.unite))
        levels = frozenset((name, frozenset(texts)) for name, texts in own.levels)
        return cls(lists, levels, (own.target, own.id, own.group, own.person))


def _check_marks(first: Design, last: Design) -> None:
    """Refuse numbers that are read by marks in columns which are left out, or not: a model card does not tell which."""
    for name in (*(feature.name for feature in last.features), last.target.name):
        if first.marks.get(name) != last.marks.get(name):
            raise InvalidInputError(
                f"The marks in the numbers of '{name}' are decimal marks or thousands separators. Only columns that "
                "the model does not use show which of the two, and the model card does not name such columns: give `decimal`."
            )
