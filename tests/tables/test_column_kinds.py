"""Kinds of columns: guessed, and said."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pyarrow as pa

from tables.small import kinds, many


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.arange(60.0), "number"),
        (np.arange(60), "number"),
        (pa.array([Decimal(i) for i in range(60)], pa.decimal128(5, 2)), "number"),
        (pa.array([True, False] * 30), "category"),
        (["a", "b"] * 30, "category"),
        (pa.array(["a", "b"] * 30).dictionary_encode(), "category"),
        (pa.array(["a", "b"] * 30, pa.large_string()), "category"),
        ([f"name {i}" for i in range(60)], "ignored"),
        (["a"] * 60, "ignored"),
        (pa.array(range(60), pa.date32()), "ignored"),
        (pa.array(range(60), pa.timestamp("s")), "ignored"),
        ([[1]] * 60, "ignored"),
        ([b"x"] * 60, "ignored"),
    ],
)
def test_kinds(values: Any, kind: str) -> None:
    assert kinds(many(x=values))["x"] == kind


def test_numbers_called_id_are_identifiers_only_if_they_differ() -> None:
    assert kinds(many(id=np.arange(60)))["id"] == "ignored"
    assert kinds(many(patient_id=np.arange(1, 61)))["patient_id"] == "ignored"
    assert kinds(many(id=np.arange(60) % 7))["id"] == "number"
    assert kinds(many(id=np.arange(60)), numbers=("id",))["id"] == "number"
    assert kinds(many(year=np.arange(60)))["year"] == "number"
