"""The three files of an audit: ``report.html``, ``leakage.parquet``, ``summary.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fisherleak._files import written_whole
from fisherleak.audit import Audit
from fisherleak.report.render import render
from fisherleak.tables.reading import arrow

__all__ = ["FILES", "write_outputs"]

FILES = ("report.html", "leakage.parquet", "summary.json")


def write_outputs(audit: Audit, summary: dict[str, Any], folder: Path) -> None:
    """Write all three, or nothing."""
    with written_whole(folder, FILES) as place:
        text = json.dumps(summary, indent=1, allow_nan=False, ensure_ascii=False)
        (place / "summary.json").write_text(text, encoding="utf-8", errors="replace")
        _write_leakage(audit, place / "leakage.parquet")
        (place / "report.html").write_text(render(summary), encoding="utf-8", errors="replace")


def _write_leakage(audit: Audit, path: Path) -> None:
    """One row for each training row, block by block: row, id, eta, eta[column] of every column, eta_label."""
    arrow()
    import pyarrow as pa
    import pyarrow.parquet

    design = audit.design
    names = [f"eta[{feature.name}]" for feature in design.features]
    with_id = design.ids is not None
    kinds = [("row", pa.int64()), *[("id", pa.string())] * with_id]
    kinds += [(name, pa.float64()) for name in ("eta", *names, "eta_label")]
    schema = pa.schema(kinds)
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for part, cells in audit.trained.cells("Writing"):
            columns: list[Any] = [design.rows[part]]
            if design.ids is not None:
                columns.append([str(value) for value in design.ids[part]])
            columns += [audit.eta[part], *np.asfortranarray(cells / audit.unit_scale).T, audit.eta_label[part]]
            arrays = [pa.array(values, kind) for values, (_, kind) in zip(columns, kinds, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
