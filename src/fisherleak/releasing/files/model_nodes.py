"""Nodes of a model's file as what they say: without numbers and without what differs between versions of scikit-learn.

A node of skops is a record with its class, its loader and its content; an object's attributes are a dictionary of nodes. Two
files of one model that were written with different versions have the same nodes but for the attributes in ``BY_VERSION``, which
have one of a few values there. Everything else counts: an attribute, a key or a class that one of them has is a difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fisherleak._support.namespaces import Json
from fisherleak.releasing.cards.card_fields import VERSION
from fisherleak.releasing.files.model_files import ModelFile

__all__ = ["decoded", "differing", "last_step", "scikit_learn_of", "steps_of"]

BY_VERSION: dict[tuple[str, str], tuple[str, ...]] = {
    ("ColumnTransformer", "force_int_remainder_cols"): ("true", '"deprecated"'),
    ("HalfGammaLoss", "device"): ("null",),
    ("HalfGammaLoss", "xp"): ("null",),
    ("HalfPoissonLoss", "device"): ("null",),
    ("HalfPoissonLoss", "xp"): ("null",),
    ("LinearRegression", "tol"): ("1e-06",),
    ("LogisticRegression", "l1_ratio"): ("null", "0.0"),
    ("LogisticRegression", "multi_class"): ('"deprecated"', '"auto"'),
    ("LogisticRegression", "penalty"): ('"l2"', '"deprecated"'),
    ("_RemainderColsList", "future_dtype"): ("null", '"str"'),
    ("_RemainderColsList", "warning_was_emitted"): ("false",),
    ("_RemainderColsList", "warning_enabled"): ("true", "false"),
}
"""Attributes that scikit-learn 1.6 to 1.9 have in some versions only, or with other defaults: all their values, as JSON."""
LOSS_MODULES = ("_loss", "sklearn._loss._loss")
"""Where compiled losses say that they are from."""
IDS = range(2**64)
"""Numbers of nodes, as skops writes them: in the one form those of their order, else places in memory."""
PROTOCOLS = range(20)


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
    if tree.get("protocol") in PROTOCOLS and type(tree["protocol"]) is int and _is_version(tree.get("_skops_version")):
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


ID, TEXTS = "a number", "texts"
"""What stands for the number of a node, and for the words that each key of a dictionary is a text."""


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
    return next(differing(one, other), None) is None


def _whatever_version(made: Json, version: str | None) -> Any:
    """An object without what depends on the version of scikit-learn, where that is what some version has."""
    inner, kind = made.get("content"), made.get("__class__")
    attributes = inner.get("content") if isinstance(inner, dict) else None
    if not isinstance(inner, dict) or not isinstance(attributes, dict):
        return made
    kept = {n: value for n, value in attributes.items() if not _by_version((kind, n), value, attributes, version)}
    if kind == "ColumnTransformer" and "_remainder" in kept:
        kept["_remainder"] = _unwrapped(kept["_remainder"])
    return {**made, "content": {**inner, "content": kept}}


def _unwrapped(remainder: Any) -> Any:
    """The columns that are left, (name, what becomes of them, list), without what some versions wrap the list in."""
    try:
        *others, columns = remainder["content"]
        data = columns["content"]["content"]["data"]
    except (KeyError, TypeError, ValueError):
        return remainder
    return {**remainder, "content": [*others, data]} if _alike(columns, _wrapped(data)) else remainder


def _wrapped(data: Any) -> Json:
    own = {"__class__": "dict", "__module__": "builtins", "__loader__": "DictNode", "content": {"data": data}}
    return {
        "__class__": "_RemainderColsList",
        "__module__": "sklearn.compose._column_transformer",
        "__loader__": "ObjectNode",
        "content": {**own, "key_types": TEXTS, "__id__": ID},
        "__id__": ID,
    }


def _by_version(place: tuple[Any, str], value: Any, attributes: Json, version: str | None) -> bool:
    if place[1] == "_fill_dtype":
        return _alike(value, attributes.get("_fit_dtype"))  # of newer imputers; the same where numbers are filled
    text = value.get("content") if isinstance(value, dict) else None
    own = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": text, "is_json": True}
    if not isinstance(text, str) or not isinstance(place[0], str) or not _alike(value, {**own, "__id__": ID}):
        return False
    return text == f'"{version}"' if place[1] == "_sklearn_version" else text in BY_VERSION.get(place, ())


def _is_version(text: Any) -> bool:
    return isinstance(text, str) and re.fullmatch(VERSION, text) is not None


def differing(found: Any, own: Any, way: str = "") -> Iterator[str]:
    """What one tree has and the other has not, by its name."""
    place = re.sub(r"\.content", "", way).lstrip(".") or "the model"
    if isinstance(found, dict) and isinstance(own, dict):
        for key in own:
            if key in found:
                yield from differing(found[key], own[key], f"{way}.{key}")
        yield from (f"'{key[:80]}' in {place}" for key in found if key not in own)
        yield from (f"no '{key[:80]}' in {place}" for key in own if key not in found)
        if [*found] != [*own]:
            yield f"another order in {place}"
    elif isinstance(found, list) and isinstance(own, list):
        if len(found) != len(own):
            yield f"{len(found)} in place of {len(own)} parts of {place}"
        for k, (one, other) in enumerate(zip(found, own, strict=False)):
            yield from differing(one, other, f"{way}[{k}]")
    elif type(found) is not type(own) or found != own:
        yield f"another value of {place}"
