"""Nodes of a model's file as what they say: without numbers and without what differs between versions of scikit-learn.

A node of skops is a record with its class, its loader and its content; an object's attributes are a dictionary of nodes. Two
files of one model that were written with different versions have the same nodes but for the attributes in ``BY_VERSION``, which
have one of a few values there. Everything else counts: an attribute, a key or a class that one of them has is a difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fisherleak._support.namespaces import Json
from fisherleak.audit.card_fields import VERSION
from fisherleak.audit.model_files import ModelFile

__all__ = ["decoded", "differing", "last_step", "steps_of"]

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
NUMBERED = ("__id__", "file", "key_types")
"""What says nothing by itself: where a node is, which member its array is in, that names of attributes are texts."""
PROTOCOLS = range(20)


def last_step(tree: Json) -> Json:
    """The attributes of the last step of a pipeline."""
    return steps_of(tree)[-1]


def steps_of(tree: Json) -> list[Json]:
    """The attributes of each step of a pipeline."""
    steps = tree["content"]["content"]["steps"]["content"]
    return [step["content"][1]["content"]["content"] for step in steps]


def decoded(file: ModelFile) -> Json:
    """What a file says, with arrays as the bytes of their members."""
    tree = dict(file.tree)
    if tree.get("protocol") in PROTOCOLS and type(tree["protocol"]) is int and _is_version(tree.get("_skops_version")):
        del tree["protocol"], tree["_skops_version"]
    found: Json = _node(tree, file.arrays)
    return found


def _node(node: Any, arrays: Mapping[str, bytes]) -> Any:
    if isinstance(node, list):
        return [_node(item, arrays) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: _node(value, arrays) for key, value in node.items() if key not in NUMBERED}
    if "file" in node:
        made["file"] = arrays.get(node["file"], node["file"])
    if "key_types" in node and not _all_texts(node):
        made["key_types"] = _node(node["key_types"], arrays)
    if node.get("__loader__") == "LossNode" and node.get("__module__") in LOSS_MODULES:
        made["__module__"] = LOSS_MODULES[-1]
    if node.get("__loader__") == "ObjectNode":
        return _whatever_version(made)
    return made


def _all_texts(node: Json) -> bool:
    """Whether a dictionary says that each of its keys is a text, as attributes are."""
    types, content = node["key_types"], node.get("content")
    one = {"__class__": "str", "__module__": "builtins", "__loader__": "TypeNode"}
    wanted = {
        "__class__": "list",
        "__module__": "builtins",
        "__loader__": "ListNode",
        "content": [one] * len(content or ()),
    }
    return bool(_node(types, {}) == wanted)


def _whatever_version(made: Json) -> Any:
    """An object without what depends on the version of scikit-learn, where that is what some version has."""
    inner = made.get("content")
    attributes = inner.get("content") if isinstance(inner, dict) else None
    if not isinstance(inner, dict) or not isinstance(attributes, dict):
        return made
    kept = {
        name: value for name, value in attributes.items() if not _by_version(made["__class__"], name, value, attributes)
    }
    if made["__class__"] == "_RemainderColsList" and [*kept] == ["data"]:
        return kept["data"]
    return {**made, "content": {**inner, "content": kept}}


def _by_version(kind: Any, name: str, value: Any, attributes: Json) -> bool:
    if name == "_fill_dtype":
        return bool(value == attributes.get("_fit_dtype"))  # of newer imputers; the same where numbers are filled
    text = value.get("content") if isinstance(value, dict) else None
    written = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": text, "is_json": True}
    if value != written or not isinstance(text, str):
        return False
    if name == "_sklearn_version":
        return _is_version(text[1:-1]) and text == f'"{text[1:-1]}"'
    return text in BY_VERSION.get((kind, name), ())


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
