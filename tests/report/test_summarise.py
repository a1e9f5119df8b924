"""The plain dictionary: the schema that the report relies on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fisherleak.report.assumptions import _shown
from report.records import columns_used

NUMBER = (int, float)
MAYBE = (int, float, type(None))
TEXT = (str, type(None))
MOMENTS = {"mean": NUMBER, "sd": NUMBER, "max": NUMBER}
SCHEMA: dict[str, Any] = {
    "schema": str,
    "created": str,
    "title": str,
    "command": TEXT,
    "seed": int,
    "versions": {"fisherleak": str, "numpy": str, "scikit-learn": str, "python": str},
    "assumptions": [str],
    "data": {
        "source": str,
        "sha256": str,
        "rows_read": int,
        "rows_used": int,
        "dropped": [{"reason": str, "count": int}],
        "target": str,
        "classes": (list, type(None)),
        "id_column": TEXT,
        "group_column": TEXT,
        "in_memory": bool,
        "train_rows": int,
        "test_rows": int,
        "columns": [{"name": str, "kind": str, "assumed": bool, "note": str, "categories": (int, type(None))}],
    },
    "model": {
        "kind": str,
        "assumed": bool,
        "description": str,
        "l2": NUMBER,
        "parameters": int,
        "intercept": bool,
        "public": str,
    },
    "noise": {"scale": NUMBER, "chosen": str, "note": str},
    "eta": {
        "dataset": NUMBER,
        "examples": {**MOMENTS, "median": NUMBER, "min": NUMBER, "q05": NUMBER, "q95": NUMBER},
        "histogram": {"edges": [NUMBER], "groups": [{"name": str, "count": int, "mean": NUMBER, "counts": [int]}]},
    },
    "rows": [
        {
            "row": int,
            "id": TEXT,
            "eta": NUMBER,
            "eta_label": NUMBER,
            "cells": [(*NUMBER, type(None))],
            "values": (dict, type(None)),
        }
    ],
    "attributes": [
        {
            "name": str,
            "kind": str,
            "eta_column": NUMBER,
            "eta_max": NUMBER,
            "eta_mean": NUMBER,
            "eta_median": NUMBER,
            "error_least": MAYBE,
            "error_typical": MAYBE,
            "spread": MAYBE,
            "worst_row": int,
            "revealed": (dict, type(None)),
        }
    ],
    "label": {
        "name": str,
        "kind": str,
        "eta_max": NUMBER,
        "eta_mean": NUMBER,
        "eta_median": NUMBER,
        "worst_row": int,
        "revealed": (dict, type(None)),
    },
    "people": {"count": int, "share": NUMBER, "measured": bool},
    "groups": [
        {"name": str, "count": int, "eta_joint": NUMBER, "eta_mean": NUMBER, "eta_sd": NUMBER, "eta_max": NUMBER}
    ],
    "tradeoff": {
        "metric": str,
        "label": str,
        "higher_is_better": bool,
        "without_noise": MAYBE,
        "baseline": MAYBE,
        "held_out": bool,
        "draws": int,
        "points": [{"scale": NUMBER, "utility": MAYBE, "low": MAYBE, "high": MAYBE, "attacks": list}],
    },
    "attacks": list,
    "balance": (dict, type(None)),
    "gate": (dict, type(None)),
    "diagnostics": {
        "gradient": NUMBER,
        "distance": NUMBER,
        "condition": NUMBER,
        "steps": int,
        "warnings": [str],
        "finite_difference": (dict, type(None)),
        "seconds": dict,
    },
}
BALANCE = {
    "iterations": int,
    "before": MOMENTS,
    "after": MOMENTS,
    "histogram": {"edges": [NUMBER], "before": [int], "after": [int]},
    "utility_before": MAYBE,
    "utility_after": MAYBE,
    "note": str,
}
MEMBERSHIP = {
    "accuracy_mean": NUMBER,
    "accuracy_max": NUMBER,
    "notable": NUMBER,
    "count": int,
    "false_positives": NUMBER,
    "rows": [{"row": int, "id": TEXT, "mu": MAYBE, "accuracy": NUMBER, "auc": NUMBER, "found": NUMBER}],
}
GATE = {"max_eta": NUMBER, "exceeded": bool, "count": int, "rows": [{"row": int, "id": TEXT, "eta": NUMBER}]}
REVEALED = {"spread": NUMBER, "max": NUMBER, "q95": NUMBER, "median": NUMBER, "count": int}
FINITE_DIFFERENCE = {"rows": int, "largest_relative_error": NUMBER, "note": str}
ATTACK = {
    "attacker": str,
    "attribute": str,
    "accuracy": MAYBE,
    "low": MAYBE,
    "high": MAYBE,
    "baseline": MAYBE,
    "method": str,
    "note": str,
}


def conforms(value: Any, schema: Any, path: str = "summary") -> None:
    """Every key is there with the right type; more keys are allowed."""
    if isinstance(schema, dict):
        assert isinstance(value, dict), path
        for key, inner in schema.items():
            assert key in value, f"{path}.{key} is missing"
            conforms(value[key], inner, f"{path}.{key}")
    elif isinstance(schema, list):
        assert isinstance(value, list), path
        for k, item in enumerate(value):
            conforms(item, schema[0], f"{path}[{k}]")
    else:
        assert isinstance(value, schema), f"{path} is {value!r}"
        if isinstance(value, bool):
            assert schema is bool, path


def check_summary(summary: dict[str, Any]) -> None:
    """Types, and what must agree with what."""
    json.dumps(summary, allow_nan=False)
    conforms(summary, SCHEMA)
    assert summary["schema"] == "fisherleak.summary/2"
    for key, schema in (("balance", BALANCE), ("gate", GATE), ("membership", MEMBERSHIP)):
        if summary[key] is not None:
            conforms(summary[key], schema, key)
    if summary["diagnostics"]["finite_difference"] is not None:
        conforms(summary["diagnostics"]["finite_difference"], FINITE_DIFFERENCE, "finite_difference")
    conforms(summary["attacks"], [ATTACK], "attacks")
    shares = [
        found["revealed"] for found in (*summary["attributes"], summary["label"]) if found["revealed"] is not None
    ]
    conforms(shares, [REVEALED], "revealed")
    assert all(0 <= share["median"] <= share["q95"] <= share["max"] <= 1 for share in shares)
    assert (
        max((share["count"] for share in shares), default=0)
        <= summary["people"]["count"]
        <= summary["data"]["train_rows"]
    )
    data, eta, points = summary["data"], summary["eta"], summary["tradeoff"]["points"]
    assert data["rows_used"] == data["train_rows"] + data["test_rows"] <= data["rows_read"]
    people = data.get("people")  # earlier summaries know no people
    counted = data["train_rows"] if people is None else people
    assert sum(group["count"] for group in eta["histogram"]["groups"]) == counted
    for group in eta["histogram"]["groups"]:
        assert sum(group["counts"]) == group["count"]
        assert len(group["counts"]) == len(eta["histogram"]["edges"]) - 1
    assert eta["histogram"]["edges"] == sorted(eta["histogram"]["edges"])
    assert 1 <= len(summary["rows"]) == min(50, counted)
    ordered = [row["eta"] for row in summary["rows"]]
    assert ordered == sorted(ordered, reverse=True)
    assert ordered[0] == eta["examples"]["max"]
    assert all(len(row["cells"]) == len(summary["attributes"]) for row in summary["rows"])
    assert [p["scale"] for p in points] == sorted(p["scale"] for p in points)
    assert eta["dataset"] >= eta["examples"]["max"] * (1 - 1e-9)
    assert {column["kind"] for column in data["columns"]} <= {
        "number",
        "category",
        "target",
        "id",
        "person",
        "group",
        "ignored",
    }


def test_a_wrong_summary_is_noticed() -> None:
    with pytest.raises(AssertionError):
        conforms({"rows": [{"row": "1"}]}, {"rows": SCHEMA["rows"]})
    with pytest.raises(AssertionError):
        conforms({"seed": True}, {"seed": int})


def test_features_that_tell_of_gaps_are_no_columns() -> None:
    summary = {
        "data": {"columns": [{"name": "age"}, {"name": "town"}, {"name": "ill"}]},
        "attributes": [{"name": "age"}, {"name": "age (missing)"}, {"name": "town"}],
    }
    assert columns_used(summary) == 2
    assert columns_used({"data": {"columns": []}, "attributes": [{"name": "x0"}]}) == 1


def test_options_in_the_scope_of_a_policy_are_written_as_on_the_command_line() -> None:
    assert _shown((("age", (0.0, 120.0)), ("city", ("Bonn", "Genua")))) == "age 0:120, city Bonn,Genua"
    assert _shown(("a", "b")) == "a b"
    assert _shown(0.5) == "0.5"
