"""Settings without the names that change nothing: which of them a card has could carry other data, one bit for each.

A column that is named as what it is taken for anyway, or left out that is left out anyway, is not named. Of a column's
categories either all are declared that the model names, or those that rows would not give it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fisherleak._support.level_types import plain_level
from fisherleak.errors import FisherleakError
from fisherleak.tables import RawTable
from fisherleak.tables.decide.cell_text import OTHER, as_written
from fisherleak.tables.decide.choices import Choices, check_choices, sort_of, spelled
from fisherleak.tables.decide.column_kinds import decide
from fisherleak.tables.decide.profile import profiles_of
from fisherleak.tables.design.design import Design, design_of
from fisherleak.tables.design.gaps import MISSING
from fisherleak.tables.read.parts import Room
from fisherleak.training.model_kinds import label_rules
from fisherleak.training.trained_model import Settings

__all__ = ["needed_settings"]

LISTS = ("numbers", "categories", "drop", "unite")


def needed_settings(settings: Settings, raw: RawTable, room: Room | None = None) -> Settings:
    """The same settings without names, and without a seed, that change nothing for this table."""
    settings = replace(settings, seed=settings.seed if settings.held_out else 0)
    choices = spelled(raw.names, settings.choices)
    check_choices(raw.names, choices)
    asked = any(getattr(choices, name) for name in LISTS) or choices.decimal is not None or choices.keep_total
    if asked:
        choices = _needed(raw, choices, room)
    if choices.drop:
        used = _design(settings, raw, replace(choices, drop=()), room)
        kept = {name for name in choices.drop if used is None or name in {*used.thin, *(f.name for f in used.features)}}
        choices = replace(choices, drop=tuple(name for name in choices.drop if name in kept))
    if choices.levels:
        bare = _design(settings, raw, replace(choices, levels=()), room)
        choices = choices if bare is None else replace(choices, levels=_needed_levels(choices, bare))
    made: dict[str, Any] = {name: getattr(choices, name) for name in (*LISTS, "decimal", "keep_total", "levels")}
    return replace(settings, **made)


def _needed(raw: RawTable, choices: Choices, room: Room | None) -> Choices:
    """Names that change what a column is taken for; where others then change too, all that were given."""
    given = _seen(raw, choices, room)
    try:
        fewer = replace(choices, decimal=None, keep_total=False)
        found = fewer if _seen(raw, fewer, room) == given else choices
        plain = _seen(raw, replace(found, unite=()), room) if found.unite else given
        found = replace(found, unite=tuple(name for name in found.unite if plain[name] != given[name]))
        own = tuple(name for name in found.categories if name == found.target)
        bare = _seen(raw, replace(found, numbers=(), categories=own, drop=()), room)
        lists: dict[str, Any] = {
            name: tuple(each for each in getattr(found, name) if each in own or bare[each] != given[each])
            for name in ("numbers", "categories")
        }
        lists["drop"] = tuple(name for name in found.drop if bare[name][0] != given[name][0])
        found = replace(found, **lists)
        left = {*choices.drop} - {*found.drop}
        again = _seen(raw, found, room)
    except FisherleakError:
        return choices
    return found if all(again[name] == given[name] for name in given if name not in left) else choices


def _seen(raw: RawTable, choices: Choices, room: Room | None) -> dict[str | None, tuple[Any, ...]]:
    """What every column is taken for, and what the table is read as; of the rows, how many there are."""
    far = room is not None and not room.holds(raw.rows, len(raw.names))
    # lists of parts are changed in place where there is no copy
    read = as_written(replace(raw, parts=tuple(raw.parts)), choices, far).raw
    profiles = profiles_of(read, choices, far)
    found: dict[str | None, tuple[Any, ...]] = {None: (read.rows,)}
    for column in decide(read, profiles, choices):
        profile = profiles.get(column.name)
        numbers = None if profile is None or profile.numbers is None else profile.numbers
        # as text, since what is not a number is not itself
        ends = None if numbers is None else repr((numbers.count, numbers.low, numbers.high))
        levels = None if profile is None or column.kind != "category" else profile.levels
        own = (column.kind, column.yes_no, column.kept, sort_of(read.kind(column.name)), ends, levels)
        found[column.name] = own if column.kind != "ignored" else own[:1]
    return found


def _design(settings: Settings, raw: RawTable, choices: Choices, room: Room | None) -> Design | None:
    """The rows and features that other choices give; None where they give none."""
    copied = replace(raw, parts=tuple(raw.parts))
    try:
        return design_of(copied, choices, settings.model, settings.held_out, settings.seed, room, label_rules())
    except FisherleakError:
        return None


def _needed_levels(choices: Choices, design: Design) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Declared categories of each column: all that the model names, or those that it would not name without."""
    named = {f.name: {_as_one(plain_level(level)) for level in f.levels} - {OTHER, MISSING} for f in design.features}
    found = []
    for name, declared in choices.levels:
        by_rows = named.get(name, set())
        own = {text: next((each for each in (text, _read(text)) if each in by_rows), None) for text in declared}
        needed = declared if by_rows <= {*own.values()} else tuple(text for text in declared if own[text] is None)
        found += [(name, needed)] * bool(needed)
    return tuple(found)


def _as_one(level: Any) -> Any:
    """A category as declared texts are compared with it: "2" and "2.0" are one where it is a number."""
    return float(level) if isinstance(level, (int, float)) and not isinstance(level, bool) else str(level)


def _read(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
