"""Visits of patients in many files, and figures that must not depend on where they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("dask.dataframe")

import pandas
import pyarrow as pa
import pyarrow.parquet as pq

from fisherleak.tables import Room

LITTLE = Room(1)
"""No table fits."""


def people(n: int = 4_000) -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(
        {
            "person": [f"p{i:06d}" for i in range(n)],
            "age": rng.normal(50, 12, n).round(1),
            "dose": rng.lognormal(0, 1, n),
            "city": rng.choice(["Bern", "Basel", "Chur"], n),
            "code": rng.integers(0, 4, n),
            "vip": rng.choice([True, False], n),
        }
    )
    table.loc[rng.choice(n, n // 50, replace=False), "dose"] = np.nan
    table.loc[rng.choice(n, n // 60, replace=False), "city"] = None
    table["cost"] = 10 * table.age + 50 * table.vip + rng.normal(0, 90, n)
    table["ill"] = np.where(table.age + rng.normal(0, 12, n) > 55, "yes", "no")
    return table


def write(table: pandas.DataFrame, folder: Path, files: int = 11) -> Path:
    folder.mkdir()
    for k, rows in enumerate(np.array_split(np.arange(len(table)), files)):
        part = pa.Table.from_pandas(table.iloc[rows], preserve_index=False)
        pq.write_table(part, folder / f"part-{k}.parquet", row_group_size=100)
    return folder


def without_times(summary: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(json.dumps(summary))
    # releases by a limit are priced, and advised, of rows in memory only
    for key in ("created", "assumptions", "command", "attacks", "versions", "membership", "prices", "next"):
        kept.pop(key)
    kept["data"].pop("in_memory")
    kept["stated"].pop("unsettled", None)  # known of rows in memory only
    kept["diagnostics"].pop("seconds")
    kept["diagnostics"].pop("finite_difference")
    for point in kept["tradeoff"]["points"]:
        point.pop("attacks")
    return kept


def assert_same(one: Any, other: Any, where: str = "") -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            assert_same(one[key], other[key], f"{where}/{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for k, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same(a, b, f"{where}/{k}")
    elif "/revealed" in where or where.startswith(("/choices", "/people", "/next")):
        # shares of tables in parts are upper bounds, at most twice as large, and what follows from shares follows these
        assert not isinstance(one, float) or other <= 2.0 * one + 1e-12, where
        assert not isinstance(one, float) or "/revealed" not in where or other >= one * (1 - 1e-9), where
    elif isinstance(one, float) and not where.startswith("/diagnostics"):
        assert other == pytest.approx(one, rel=1e-9, abs=1e-12), where
    elif not where.startswith("/diagnostics"):
        assert one == other, where
