"""The published JSON Schema of summary.json: every audit conforms, and what does not is noticed."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest

from fisherleak.auditing.report_summary import SCHEMA
from report import sample
from report.test_summarise import SCHEMA as EXPECTED

TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
}
PUBLISHED = json.loads(files("fisherleak.report").joinpath("summary.schema.json").read_text(encoding="utf-8"))
KNOWN = {"type", "required", "properties", "items", "additionalProperties", "oneOf", "const", "enum", "$ref"}
TOLD = {"$schema", "$id", "title", "description", "$defs"}


def wrong(value: Any, schema: dict[str, Any], path: str = "summary") -> list[str]:
    """Where a value breaks a schema of the keywords that this one uses."""
    assert set(schema) <= KNOWN | TOLD
    if "$ref" in schema:
        return wrong(value, PUBLISHED["$defs"][schema["$ref"].rpartition("/")[2]], path)
    if "oneOf" in schema:
        fitting = [choice for choice in schema["oneOf"] if not wrong(value, choice, path)]
        return [] if len(fitting) == 1 else [path]
    if "const" in schema and value != schema["const"]:
        return [path]
    if "enum" in schema and value not in schema["enum"]:
        return [path]
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(value, kind) for kind in kinds):
        return [path]
    found = [f"{path}.{key}" for key in schema.get("required", []) if key not in value]
    if isinstance(value, dict):
        inner = schema.get("properties", {})
        for key, item in value.items():
            found += wrong(item, inner.get(key, schema.get("additionalProperties", {})), f"{path}.{key}")
    for k, item in enumerate(value if isinstance(value, list) else []):
        found += wrong(item, schema.get("items", {}), f"{path}[{k}]")
    return found


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def test_it_is_of_the_version_that_is_written_and_lists_what_the_report_relies_on() -> None:
    assert PUBLISHED["properties"]["schema"]["const"] == SCHEMA == PUBLISHED["$id"]
    assert set(EXPECTED) <= set(PUBLISHED["required"])


@pytest.mark.parametrize(
    ("place", "value"),
    [("seed", "0"), ("rows", [{"row": 1}]), ("people", {"count": 1.5, "share": 0.5, "measured": True}), ("eta", None)],
)
def test_what_does_not_conform_is_noticed(place: str, value: Any) -> None:
    made = sample.summary()
    made["noise"]["kind"] = "Gaussian"
    assert wrong(made, PUBLISHED) == []
    assert wrong(made | {place: value}, PUBLISHED)
    assert wrong({key: item for key, item in made.items() if key != place}, PUBLISHED) == [f"summary.{place}"]
