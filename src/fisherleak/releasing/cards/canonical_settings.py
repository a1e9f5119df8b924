"""Settings as a card has them: every list in one order and each name once, spelled as the table spells it.

A card can be written in many ways that mean the same, and which of them was taken can carry other data. So there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from fisherleak._support.level_types import plain_level
from fisherleak._support.namespaces import Json
from fisherleak.tables import Feature
from fisherleak.tables.decide.choices import Choices, spelled
from fisherleak.training.trained_model import Settings, Trained

__all__ = ["SORTED", "canonical_settings", "wrong_setting"]

SORTED = ("numbers", "categories", "drop", "na", "unite", "levels", "bounds")
"""Settings whose order says nothing."""


def canonical_settings(settings: Settings, names: Sequence[str], trained: Trained) -> Settings:
    """The same settings in the one way to write them, for a table with columns of these names."""
    own = spelled(names, settings.choices)
    made: dict[str, Any] = {item.name: getattr(own, item.name) for item in fields(Choices)}
    features = {f.name: f for f in trained.design.features if f.kind == "category" and f.of is None}
    made["levels"] = [(n, _in_order(features[n], texts)) for n, texts in settings.levels if n in features]
    # numbers with a point, and zero without a sign
    held_out, l2, own_l2 = (float(each) + 0.0 for each in (settings.held_out, settings.l2, settings.intercept_l2))
    settings = replace(settings, held_out=held_out, l2=l2, intercept_l2=own_l2)
    made["bounds"] = [(name, (float(low) + 0.0, float(high) + 0.0)) for name, (low, high) in made["bounds"]]
    return replace(settings, **made | {name: tuple(sorted(set(made[name]))) for name in SORTED})


def _in_order(feature: Feature, texts: Sequence[str]) -> tuple[str, ...]:
    """Declared levels as a card has them, in its order: "2", "2.0" and 2 are one where a column's levels are numbers."""
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
    """The first setting that a card has in another way, or of another kind, than its columns say; no table is needed."""
    settings, columns = card["settings"], {column["name"]: column for column in card["columns"]}
    levels: dict[str, Any] = {n: column["levels"] for n, column in columns.items() if column["kind"] == "category"}
    numbers = {name for name in columns if name not in levels}
    lists: dict[str, list[Any]] = {name: settings.get(name, []) for name in SORTED}
    for name, given in lists.items():
        keys = [each[0] for each in given] if name in ("levels", "bounds") else given
        if len({*keys}) < len(keys) or (ordered and keys != sorted(keys)):
            return f"settings.{name}"
    checks = {
        "numbers": levels.keys().isdisjoint(lists["numbers"]),
        "categories": numbers.isdisjoint(lists["categories"]),
        "drop": columns.keys().isdisjoint(lists["drop"]),
        "bounds": {name for name, _ in lists["bounds"]} <= {*numbers, card["target"]["name"]},
        "levels": not ordered
        or all(
            n in levels and "of" not in columns[n] and declared == _those_of(levels[n], {*declared})
            for n, declared in lists["levels"]
        ),
    }
    return next((f"settings.{name}" for name, holds in checks.items() if not holds), None)
