"""Nodes of a model's file as what they say: without numbers and without what differs between versions of scikit-learn.

A node of skops is a record with its class, its loader and its content; an object's attributes are a dictionary of nodes. Two
files of one model that were written with different versions have the same nodes but for the attributes in ``BY_VERSION``, which
have one value in each version. Everything else counts: an attribute, a key or a class that one of them has is a difference, and
so is an attribute that the file's own version has not, or has with another value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fisherleak._support.namespaces import Json
from fisherleak.releasing.cards.card_fields import VERSION
from fisherleak.releasing.files.model_files import ModelFile

BY_VERSION: dict[tuple[str, str], dict[tuple[int, int], str | None]] = {
    ("ColumnTransformer", "force_int_remainder_cols"): {(1, 6): "true", (1, 7): '"deprecated"', (1, 9): None},
    ("HalfGammaLoss", "device"): {(1, 6): None, (1, 9): "null"},
    ("HalfGammaLoss", "xp"): {(1, 6): None, (1, 9): "null"},
    ("HalfPoissonLoss", "device"): {(1, 6): None, (1, 9): "null"},
    ("HalfPoissonLoss", "xp"): {(1, 6): None, (1, 9): "null"},
    ("LinearRegression", "tol"): {(1, 6): None, (1, 7): "1e-06"},
    ("LogisticRegression", "l1_ratio"): {(1, 6): "null", (1, 8): "0.0"},
    ("LogisticRegression", "multi_class"): {(1, 6): '"deprecated"', (1, 8): None},
    ("LogisticRegression", "penalty"): {(1, 6): '"l2"', (1, 8): '"deprecated"'},
}
"""Attributes that scikit-learn 1.6 to 1.9 have in some versions only, or with other defaults: their one value, as JSON, from
each version on; None where objects of a version have no such attribute."""
FILLS_BY_TYPE = (1, 8)
"""The version from which fitted imputers say the type of what they fill with: that of their numbers."""
WRAPS_UNTIL = (1, 6)
"""The last version that wraps the list of columns that are left."""
WRAPPER = {"future_dtype": '"str"', "warning_enabled": "true", "warning_was_emitted": "false"}
"""What that wrapper has beside the list."""
LOSS_MODULES = ("_loss", "sklearn._loss._loss")
"""Where compiled losses say that they are from."""
IDS = range(2**64)
"""Numbers of nodes, as skops writes them: in the one form those of their order, else places in memory."""
PROTOCOLS = range(1, 10)
"""Of skops."""


def last_step(tree: Json) -> Json:
    """The attributes of the last step of a pipeline."""
    return steps_of(tree)[-1]


def steps_of(tree: Json) -> list[Json]:
    """The attributes of each step of a pipeline."""
    steps = tree["content"]["content"]["steps"]["content"]
    return [step["content"][1]["content"]["content"] for step in steps]


def scikit_learn_of(tree: Json) -> str | None:
    """The version of scikit-learn that a file says it was written with."""
    try:
        found = json.loads(tree["content"]["content"]["_sklearn_version"]["content"])
    except (KeyError, TypeError, ValueError):
        return None
    return found if _is_version(found) else None


def decoded(file: ModelFile) -> Json:
    """What a file says, with arrays as the bytes of their members, and without numbers: places of all keys count."""
    tree, version = dict(file.tree), scikit_learn_of(file.tree)
    protocol = tree.get("protocol")
    if type(protocol) is int and protocol in PROTOCOLS and _is_version(tree.get("_skops_version")):
        del tree["protocol"], tree["_skops_version"]
    found: Json = _node(tree, file.arrays, version)
    return found


def _node(node: Any, arrays: Mapping[str, bytes], version: str | None) -> Any:
    if isinstance(node, list):
        return [_node(item, arrays, version) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: _node(value, arrays, version) for key, value in node.items()}
    if type(node.get("__id__")) is int and node["__id__"] in IDS:
        made["__id__"] = ID
    if isinstance(node.get("file"), str):
        made["file"] = arrays.get(node["file"], node["file"])
    if isinstance(node.get("content"), dict) and _alike(made.get("key_types"), _texts(len(node["content"]))):
        made["key_types"] = TEXTS
    if node.get("__loader__") == "LossNode" and node.get("__module__") in LOSS_MODULES:
        made["__module__"] = LOSS_MODULES[-1]
    if node.get("__loader__") == "ObjectNode":
        return _whatever_version(made, version)
    return made


ID, TEXTS, OWN_VERSION = "a number", "texts", "the version of the file"
"""What stands for the number of a node, for the words that each key of a dictionary is a text, and for the version that each
estimator repeats."""


def _texts(count: int) -> Json:
    one = {"__class__": "str", "__module__": "builtins", "__loader__": "TypeNode", "__id__": ID}
    return {
        "__class__": "list",
        "__module__": "builtins",
        "__loader__": "ListNode",
        "content": [one] * count,
        "__id__": ID,
    }


def _alike(one: Any, other: Any) -> bool:
    """Whether two trees are the same, orders of keys too."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return [*one] == [*other] and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return bool(one == other)


def _whatever_version(made: Json, version: str | None) -> Any:
    """An object without what depends on the version of scikit-learn, where that is what the file's version writes."""
    inner, kind = made.get("content"), made.get("__class__")
    attributes = inner.get("content") if isinstance(inner, dict) else None
    if not isinstance(inner, dict) or not isinstance(attributes, dict):
        return made
    kept = dict(attributes)
    for name, node in _written_by(kind, attributes, _numbers(version)).items():
        if node is not None and name not in kept:
            kept[f"no {name}"] = None  # one that it lacks is a difference too
        elif node is not None and _alike(kept[name], node):
            del kept[name]
    own = kept.get("_sklearn_version")
    if isinstance(own, dict) and own.get("content") == f'"{version}"':
        kept["_sklearn_version"] = {**own, "content": OWN_VERSION}
    if kind == "ColumnTransformer" and "_remainder" in kept and _numbers(version) <= WRAPS_UNTIL:
        kept["_remainder"] = _unwrapped(kept["_remainder"])
    return {**made, "content": {**inner, "content": kept}}


def _written_by(kind: Any, attributes: Json, version: tuple[int, int]) -> Json:
    """Nodes of the attributes that depend on the version, as this one writes them; None for those that it has not."""
    found: Json = {}
    for (owner, name), values in BY_VERSION.items():
        if owner == kind:
            text = next(value for since, value in reversed(values.items()) if version >= since)
            found[name] = None if text is None else _said(text)
    if kind == "SimpleImputer" and "_fit_dtype" in attributes:
        found["_fill_dtype"] = attributes["_fit_dtype"] if version >= FILLS_BY_TYPE else None
    return found


def _said(text: str) -> Json:
    """A value as skops says it."""
    own = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": text, "is_json": True}
    return {**own, "__id__": ID}


def _unwrapped(remainder: Any) -> Any:
    """The columns that are left, (name, what becomes of them, list), without the wrapper of the list."""
    try:
        *others, columns = remainder["content"]
        data = columns["content"]["content"]["data"]
    except (KeyError, TypeError, ValueError):
        return remainder
    if not _alike(columns, _wrapped(data)):
        return remainder
    return {**remainder, "content": [*others, data]}


def _wrapped(data: Any) -> Json:
    held = {"data": data, **{name: _said(text) for name, text in WRAPPER.items()}}
    own = {"__class__": "dict", "__module__": "builtins", "__loader__": "DictNode", "content": held}
    return {
        "__class__": "_RemainderColsList",
        "__module__": "sklearn.compose._column_transformer",
        "__loader__": "ObjectNode",
        "content": {**own, "key_types": TEXTS, "__id__": ID},
        "__id__": ID,
    }


def _numbers(version: str | None) -> tuple[int, int]:
    """The first two numbers of a version; one before the first that is known, or none, counts as that."""
    found = [] if version is None else re.findall("[0-9]+", version)[:2]
    return max((1, 6), (int(found[0]), int(found[1]))) if len(found) == 2 else (1, 6)


def _is_version(text: Any) -> bool:
    return isinstance(text, str) and re.fullmatch(VERSION, text) is not None


def differing(found: Any, own: Any, way: str = "") -> Iterator[str]:
    """What one tree has and the other has not, by its name: no deeper than both go."""
    if isinstance(found, dict) and isinstance(own, dict):
        for key in own:
            if key in found:
                yield from differing(found[key], own[key], f"{way}.{key}")
        yield from (f"'{key[:80]}' in {_place(way)}" for key in found if key not in own)
        yield from (f"no '{key[:80]}' in {_place(way)}" for key in own if key not in found)
        if [*found] != [*own]:
            yield f"another order in {_place(way)}"
    elif isinstance(found, list) and isinstance(own, list):
        if len(found) != len(own):
            yield f"{len(found)} in place of {len(own)} parts of {_place(way)}"
        for k, (one, other) in enumerate(zip(found, own, strict=False)):
            yield from differing(one, other, f"{way}[{k}]")
    elif type(found) is not type(own) or found != own:
        yield f"another value of {_place(way)}"


def _place(way: str) -> str:
    return way.replace(".content", "").lstrip(".") or "the model"
