"""Records of plain values that are JSON: written by the names and in the order of their fields, and read back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform, get_args, get_type_hints

from fisherleak.errors import InvalidInputError

LEFT_OUT = {"left out": True}
"""Metadata of a field that JSON has only where it is not the default."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record:
    """A frozen dataclass of plain values: NumPy's become Python's, arrays and lists tuples, and what is not finite None."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    renamed: ClassVar[Mapping[str, str]] = {}
    """Names that fields had before, which files of earlier versions have and Python takes with a warning, and those of now."""

    def __init_subclass__(cls, kw_only: bool = False) -> None:
        dataclass(frozen=True, kw_only=kw_only)(cls)

    def __post_init__(self) -> None:
        for each in fields(self):
            object.__setattr__(self, each.name, _plain(getattr(self, each.name)))

    if not TYPE_CHECKING:  # with it every name would be one

        def __getattr__(self, name: str) -> Any:
            now = type(self).renamed.get(name)
            if now is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            # NumPy is behind it: a report without old names needs none
            from fisherleak._support.checks import warn_renamed

            warn_renamed(f"`{name}` of {type(self).__name__}", f"`{now}`")
            return getattr(self, now)


Kind = TypeVar("Kind", bound=Record)


def as_json(value: Any) -> Any:
    """Records, also inside lists and dictionaries, as dictionaries; tuples as lists."""
    if is_dataclass(value):
        return {
            each.name.rstrip("_"): as_json(own)
            for each in fields(value)
            if (own := getattr(value, each.name)) != each.default or each.metadata != LEFT_OUT
        }
    if isinstance(value, Mapping):
        return {key: as_json(own) for key, own in value.items()}
    return [as_json(own) for own in value] if isinstance(value, (list, tuple)) else value


def read_record(kind: type[Kind], found: Any, name: str) -> Kind:
    """From JSON types: what is missing, or null, is the field's default, and unknown keys are left out."""
    if not isinstance(found, Mapping):
        raise InvalidInputError(f"{name!r} of a summary is an object; got {type(found).__name__}. Run the audit again.")
    found = {kind.renamed.get(key, key): value for key, value in found.items()}
    given: dict[str, Any] = {}
    own: Any = kind
    held = _held(own)
    for each in fields(kind):
        key = each.name.rstrip("_")
        if found.get(key) is None and each.default is not MISSING:
            continue
        if key not in found:
            raise InvalidInputError(f"The summary has no {key!r}; every summary has it. Run the audit again.")
        given[each.name] = _read(held[each.name], found[key], key)
    return kind(**given)


def _read(kind: type[Record] | None, found: Any, name: str) -> Any:
    if kind is not None and found is not None:
        return (
            tuple(read_record(kind, own, name) for own in found)
            if isinstance(found, (list, tuple))
            else read_record(kind, found, name)
        )
    if not _finite(found):
        raise InvalidInputError("A summary holds NaN or an infinite number; write null in its place.")
    return found


@cache
def _held(kind: type[Record]) -> dict[str, type[Record] | None]:
    """What each field holds one of, or a tuple of; None where it holds plain values."""
    found = {}
    for name, hint in get_type_hints(kind).items():
        inner = [own for own in (hint, *get_args(hint)) if isinstance(own, type) and issubclass(own, Record)]
        found[name] = inner[0] if inner else None
    return found


def _plain(value: Any) -> Any:
    value = value.tolist() if hasattr(value, "tolist") else value  # NumPy's, which need not be loaded
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(own) for key, own in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_plain(own) for own in value)
    return value if value is None or is_dataclass(value) or isinstance(value, (bool, int, str)) else str(value)


def _finite(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_finite, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_finite, value))
    return not isinstance(value, float) or math.isfinite(value)
