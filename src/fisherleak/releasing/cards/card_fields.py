"""What a model card may say: every field with what stands in it, and nothing else.

A card is a text that travels with a model, and whatever it holds travels too. So there is one table of its fields, ``FIELDS``:
each is there once, in this order, with values of these types and sizes. Names, levels and texts of settings are whoever
releases to choose; the table bounds their length, and an audit holds them against the data.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from fisherleak._support.namespaces import Json
from fisherleak.engine.noise import NOISES
from fisherleak.engine.noise.calibration_record import FOR_ANYONE, IN_FILES
from fisherleak.errors import DataError
from fisherleak.protection.calibrate.shapes import OWN, SHAPES
from fisherleak.protection.certificates.published_scale import STEP
from fisherleak.tables.design.features import MOST_FEATURES
from fisherleak.training.defaults import COUNTED, PUBLIC
from fisherleak.training.model_kinds import KINDS

Check = Callable[[Any, str], str | None]
"""(value, the way to it) -> the way to the first place that is wrong, or None."""
FROM_ROWS = (
    "Bounds were not declared for every numeric column. Without them, scales, centres and ranges come from the rows, on grids. "
    "A row whose removal changes one of them can be recognised with certainty, which eta does not count. Declare `bounds` to "
    "avoid that."
)
FROM_BOUNDS = "Scales and centres of columns follow from declared bounds alone: no row changes them."
"""What is said of the frame: by the bounds that were declared, never by the rows."""
ROWS_TOLD = "The number of rows is taken as public; two digits of it are here."
CARD = "fisherleak.card/3"
EARLIER = ("fisherleak.card/1", "fisherleak.card/2")
"""Cards whose digests and signatures can still be verified; those of the second schema, of version 0.1.0, are loaded too."""
ALGORITHM, HASH = "Ed25519", "SHA-256"
LONGEST = 1000
"""Characters of a name, a level or a sentence of settings, at most."""
LONGEST_SOURCE = 100
"""Characters of the name of a file, at most."""
SOURCE_BYTES = 255
"""The same in bytes of UTF-8: what file systems take."""
MOST_MISSING, LONGEST_MISSING = 8, 24
"""Texts that stand for missing cells, and their characters, at most."""
MOST_PARAMETERS = 10**7
PACKAGES = ("fisherleak", "numpy", "scipy", "scikit-learn", "pandas", "pyarrow", "python")
"""Whose versions every card says, no others: what a released model was made with, and is loaded and asked with."""
EARLIER_PACKAGES = (*PACKAGES[:-1], "dask", "distributed", PACKAGES[-1])
"""Those on cards of version 0.1.0: those after the fourth, but for Python's own, where they were loaded."""
VERSION = r"(0|[1-9][0-9]{0,3})(\.(0|[1-9][0-9]{0,3})){1,2}((a|b|rc|\.dev|\.post)(0|[1-9][0-9]{0,2}))?"
"""Two numbers or three, and what comes before or after a version."""
LEAST_HELD_OUT, MOST_HELD_OUT = 0.05, 0.9
"""Share of rows that a release can hold out."""


def _is(holds: Callable[[Any], bool]) -> Check:
    return lambda value, way: None if holds(value) else way


def one_of(*values: Any) -> Check:
    return _is(lambda value: any(type(value) is type(each) and value == each for each in values))


def text(most: int = LONGEST, least: int = 0) -> Check:
    return _is(lambda value: isinstance(value, str) and least <= len(value) <= most and _encodes(value))


def _encodes(value: str) -> bool:
    """Halves of a pair of code units do not."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def file_name() -> Check:
    """The last part of a path, or words: printable, and short."""
    return _is(
        lambda value: (
            isinstance(value, str)
            and len(value) <= LONGEST_SOURCE
            and value.isprintable()
            and len(value.encode()) <= SOURCE_BYTES
        )
    )


def is_share(value: Any) -> bool:
    """Whether a release may hold out this share of rows: none, or whole hundredths, so that no share picks out one row."""
    if type(value) is not float or math.copysign(1.0, value) < 0:
        return False
    return value == 0 or (LEAST_HELD_OUT <= value <= MOST_HELD_OUT and value == round(value, 2))


def end(least: float = -1e308, most: float = 1e308) -> Check:
    """A number that is written in one way: with a point, and zero without a sign."""
    own = finite(least, most)
    return lambda value, way: own(value, way) if type(value) is float and str(value) != "-0.0" else way


def whole(least: int, most: int) -> Check:
    return _is(lambda value: type(value) is int and least <= value <= most)


def finite(least: float = -1e308, most: float = 1e308) -> Check:
    """As version 0.1.0 wrote it: one without a fraction may be written as a whole number of at most 64 bits."""
    return _is(
        lambda value: (type(value) is float or (type(value) is int and abs(value) < 2**64)) and least <= value <= most
    )


def matching(pattern: str) -> Check:
    known = re.compile(pattern)
    return _is(lambda value: isinstance(value, str) and known.fullmatch(value) is not None)


def either(*checks: Check) -> Check:
    def check(value: Any, way: str) -> str | None:
        found = [each(value, way) for each in checks]
        # the way that leads deepest says most
        return None if None in found else max((each for each in found if each is not None), key=len)

    return check


nothing, truth = one_of(None), one_of(True, False)
LEAST = 5e-324
"""The least number above zero."""
name = text(least=1)


def list_of(item: Check, most: int = MOST_PARAMETERS) -> Check:
    def check(value: Any, way: str) -> str | None:
        if not isinstance(value, list) or len(value) > most:
            return way
        return next((wrong for k, each in enumerate(value) if (wrong := item(each, f"{way}[{k}]"))), None)

    return check


def pair(*items: Check) -> Check:
    def check(value: Any, way: str) -> str | None:
        if not isinstance(value, list) or len(value) != len(items):
            return way
        return next((wrong for k, each in enumerate(items) if (wrong := each(value[k], f"{way}[{k}]"))), None)

    return check


def record(known: Mapping[str, Check], optional: tuple[str, ...] = ()) -> Check:
    """Exactly these keys, in this order; those that are optional may be left out."""

    def check(value: Any, way: str) -> str | None:
        if not isinstance(value, dict):
            return way
        for key in value:
            if key not in known:
                return f"{way}.{key[:80]}"
        for key in known:
            if key not in value and key not in optional:
                return f"{way}.{key}"
        if [*value] != [key for key in known if key in value]:
            return f"{way} (in another order)"
        return next((wrong for key in value if (wrong := known[key](value[key], f"{way}.{key}"))), None)

    return check


def by_name(item: Check) -> Check:
    """A record with names of columns for keys."""

    def check(value: Any, way: str) -> str | None:
        if not isinstance(value, dict) or len(value) > MOST_FEATURES + 1:
            return way
        for key, each in value.items():
            if wrong := name(key, way) or item(each, f"{way}.{key[:80]}"):
                return wrong
        return None

    return check


names = list_of(name, 100_000)
level = either(truth, text(), _is(lambda value: _whole_level(value) or _part_level(value)))


def _whole_level(value: Any) -> bool:
    return type(value) is int and abs(value) < 2**64


def _part_level(value: Any) -> bool:
    """A number with a fraction: one without is written as a whole one."""
    return type(value) is float and math.isfinite(value) and not value.is_integer()


SETTINGS: dict[str, Check] = {
    "target": name,
    "model": one_of(*(kind.name for kind in KINDS)),
    "l2": end(0.0),
    "held_out": _is(is_share),
    "seed": whole(0, 2**64 - 1),
    "numbers": names,
    "categories": names,
    "drop": names,
    "id": either(nothing, name),
    "group": either(nothing, name),
    "person": either(nothing, name),
    "public": one_of(*PUBLIC),
    "levels": list_of(pair(name, list_of(text(), 100_000)), MOST_FEATURES),
    "rare": whole(0, 10**6),
    "decimal": one_of(None, ".", ","),
    "na": list_of(text(LONGEST_MISSING), MOST_MISSING),
    "unite": names,
    "keep_total": truth,
    "intercept_l2": end(0.0),
    "missing": one_of("impute", "drop"),
    "bounds": list_of(pair(name, pair(end(), end())), MOST_FEATURES + 1),
}
"""All settings of a model card, in the order of ``Settings``."""
FROM = {"from": one_of("declared", "rows")}
OWN_SHAPE: dict[str, Check] = {"shape": one_of(*OWN, FOR_ANYONE)}
PEOPLE: dict[str, Check] = {"rows_per_person": whole(2, 10**6)}
Number = Callable[..., Check]
"""(least, most) -> how a number is written."""


def _columns(number: Number, level: Check) -> Check:
    own = {"name": name, "kind": one_of("number"), "scale": number(LEAST), "centre": number()}
    levels = list_of(level, MOST_FEATURES + 1)
    category = {"name": name, "kind": one_of("category"), "levels": levels, "pooled": truth, "of": name}
    return list_of(either(record(own), record(category, ("of",))), MOST_FEATURES)


def _calibrated(number: Number) -> Check:
    """How the scale of a noise was found: each way with its own fields."""
    bounds = either(
        record({"low": number(), "high": number(), **FROM}),
        record({"levels": list_of(text(), MOST_FEATURES + 1), **FROM}),
        record({"classes": whole(2, MOST_FEATURES), **FROM}),
    )
    for_the_rows: dict[str, Check] = {"over": one_of("max"), "eta": number(LEAST)}
    for_anybody: dict[str, Check] = {
        "over": one_of(IN_FILES),
        "eta": number(LEAST),
        "bounds": by_name(bounds),
        "step": one_of(STEP),
        "offset": number(0.0, 1.0),
        "probability": number(0.0, 1.0),
    }
    least: dict[str, Check] = {"least": number(LEAST)}
    ways = {
        (False, False): record(for_the_rows),
        (False, True): record(for_the_rows | OWN_SHAPE | least, ("least",)),
        (True, False): record(for_anybody | PEOPLE, (*PEOPLE,)),
        (True, True): record(for_anybody | OWN_SHAPE | least | PEOPLE, (*PEOPLE,)),
    }

    def check(value: Any, way: str) -> str | None:
        if not isinstance(value, dict):
            return way
        return ways[value.get("over") == IN_FILES, "shape" in value](value, way)

    return check


def _noise(number: Number) -> Check:
    own = {
        "kind": one_of(*NOISES),
        "scale": number(LEAST),
        "shape": either(one_of(*OWN, FOR_ANYONE), list_of(list_of(number()))),
        "calibrated": _calibrated(number),
    }
    return record(own, ("shape", "calibrated"))


def _described(number: Number, level: Check) -> dict[str, Check]:
    """The fields that have numbers in them, as these are written."""
    classes = either(nothing, list_of(level, MOST_FEATURES))
    return {
        "columns": _columns(number, level),
        "target": record({"name": name, "unit": number(LEAST), "classes": classes}),
        "noise": _noise(number),
        "grid": either(number(LEAST), list_of(number(LEAST))),
        "eta": record(
            {"limit": either(nothing, number(LEAST)), "limit_on": text(10**6), "limit_columns": either(nothing, names)}
        ),
    }


DIGEST = record({"algorithm": one_of(HASH), "value": matching("[0-9a-f]{64}")})
SIGNATURE = record(
    {"algorithm": one_of(ALGORITHM), "public_key": matching("[0-9a-f]{64}"), "value": matching("[0-9a-f]{128}")}
)
OPTIONAL = ("ledger", "signature")
WRITTEN = _described(end, level)
FIELDS: dict[str, Check] = {
    "schema": one_of(CARD),
    "model": record(
        {
            "file_sha256": matching("[0-9a-f]{64}"),
            "kind": one_of(*(kind.name for kind in KINDS)),
            "parameters": whole(1, MOST_PARAMETERS),
            "trusted_types": list_of(text(100), 20),
        }
    ),
    "settings": record(SETTINGS),
    "balanced": truth,
    "counted": one_of(*COUNTED.values()),
    "columns": WRITTEN["columns"],
    "target": WRITTEN["target"],
    "data": record({"source": file_name(), "rows": whole(1, 10**15)}),
    "noise": WRITTEN["noise"],
    "grid": WRITTEN["grid"],
    "eta": WRITTEN["eta"],
    "shape": record({"name": one_of(*SHAPES), "from": either(nothing, file_name())}),
    "assumptions": list_of(text(10**6), 40),
    "versions": record({package: matching(VERSION) for package in PACKAGES}),
    "ledger": record({"release": whole(1, 10**9), "mark": matching("[0-9a-f]{64}")}),
    "digest": DIGEST,
    "signature": SIGNATURE,
}
"""Every field of a model card, in its order; a new one is one entry here, and a line in docs/promises.md."""
EARLIER_FIELDS: dict[str, Check] = {name: check for name, check in FIELDS.items() if name != "ledger"} | {
    "schema": one_of(EARLIER[-1]),
    **_described(finite, either(truth, text(), finite())),
    "settings": record(
        {name: check for name, check in SETTINGS.items() if name != "bounds"}
        | {"l2": finite(0.0), "intercept_l2": finite(0.0)}
    ),
    "versions": record(
        {package: matching(VERSION) for package in EARLIER_PACKAGES} | {"fisherleak": one_of("0.1.0")},
        EARLIER_PACKAGES[4:-1],
    ),
}
"""The same of version 0.1.0, whose settings had no bounds, and whose model cards named no ledger."""


def wrong_place(card: Json) -> str | None:
    """The first field of a model card that is not known, is missing, or holds what it must not."""
    wrong = record(EARLIER_FIELDS if card.get("schema") == EARLIER[-1] else FIELDS, OPTIONAL)(card, "")
    return None if wrong is None else wrong.removeprefix(".") or "the model card itself"


def check_fields(card: Json, where: str) -> None:
    """Refuse a model card with anything else than its fields."""
    wrong = wrong_place(card)
    if wrong is not None:
        raise DataError(
            f"The model card {where} says under '{wrong}' what no model card says there, or lacks it: it may carry "
            "other data. Do not pass "
            "it on; release the model again."
        )
