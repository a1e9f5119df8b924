"""The three files of an audit: ``report.html``, ``leakage.parquet``, ``summary.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fisherleak._support.atomic import written_whole
from fisherleak._support.namespaces import Json
from fisherleak.auditing.plain_records import as_json
from fisherleak.auditing.records import Audit
from fisherleak.auditing.report_summary import Summary
from fisherleak.report.render import render
from fisherleak.tables.read.opening import arrow

__all__ = ["FILES", "write_outputs"]

FILES = ("report.html", "leakage.parquet", "summary.json")


def write_outputs(audit: Audit, summary: Summary | Json, folder: Path) -> None:
    """Write all three, or nothing."""
    with written_whole(folder, FILES) as place:
        text = json.dumps(as_json(summary), indent=1, allow_nan=False, ensure_ascii=False)
        (place / "summary.json").write_text(text, encoding="utf-8", errors="replace")
        _write_leakage(audit, place / "leakage.parquet")
        (place / "report.html").write_text(render(summary), encoding="utf-8", errors="replace")


def _write_leakage(audit: Audit, path: Path) -> None:
    """One row for each training row, block by block: row, id, eta, eta[column] of every column, eta_label, membership.

    Where rows belong to people, also person and eta_person, which is that of all rows of the person, and membership_person in
    place of membership.
    Rows that are not in memory come without their columns' etas: these are as large as the table.
    """
    arrow()
    import pyarrow as pa
    import pyarrow.parquet

    design = audit.design
    names = [] if design.lazy else [f"eta[{feature.name}]" for feature in design.features]
    kinds = [("row", pa.int64()), *[("id", pa.string())] * (design.ids is not None)]
    kinds += [] if design.people is None else [("person", pa.string()), ("eta_person", pa.float64())]
    present = "membership" if design.people is None else "membership_person"
    kinds += [(name, pa.float64()) for name in ("eta", *names, "eta_label", *(present,) * audit.presence.measured)]
    schema = pa.schema(kinds)
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for block in audit.leakage_rows():
            ids = [] if block.ids is None else [[str(value) for value in block.ids]]
            cells = [] if block.cells is None else [*np.asfortranarray(block.cells).T]
            told = [] if block.membership is None else [block.membership]
            people = [] if block.persons is None else [[str(name) for name in block.persons], block.eta_person]
            columns: list[Any] = [block.numbers, *ids, *people, block.eta, *cells, block.eta_label, *told]
            values = [pa.array(column, kind) for column, (_, kind) in zip(columns, kinds, strict=True)]
            writer.write_table(pa.Table.from_arrays(values, schema=schema))
