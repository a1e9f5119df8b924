"""The files of a query log held against a table: ``report.html``, ``answers.parquet``, ``answers.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fisherleak._support.atomic import written_whole
from fisherleak._support.json import versions
from fisherleak._support.namespaces import Json
from fisherleak.auditing.query_log import Answered
from fisherleak.report.render import page_without_scripts
from fisherleak.tables.read.opening import arrow

__all__ = ["FILES", "answers_page", "write_answers"]

FILES = ("report.html", "answers.parquet", "answers.json")
BARS = 24


def write_answers(found: Answered, document: Json, folder: Path) -> None:
    """Write all three, or nothing."""
    with written_whole(folder, FILES) as place:
        text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)
        (place / "answers.json").write_text(text, encoding="utf-8", errors="replace")
        _write_rows(found, place / "answers.parquet")
        (place / "report.html").write_text(answers_page(found, document), encoding="utf-8", errors="replace")


def answers_page(found: Answered, document: Json) -> str:
    """One page that opens offline: who is exposed, by what, and about which columns. Texts reach it escaped."""
    design = found.trained.design
    return page_without_scripts(
        "answers.html.j2",
        document
        | {
            "title": f"What {document['queries']} answers tell of {design.source}",
            "target": design.target.name,
            "bars": _bars(found.eta),
            "version": versions()["fisherleak"],
        },
    )


def _bars(eta: Any) -> list[Json]:
    """How many rows have an eta in each part of the range, as heights of 0 to 100."""
    top = float(np.max(eta)) or 1.0
    counts, edges = np.histogram(eta, bins=BARS, range=(0.0, top))
    high = max(int(counts.max()), 1)
    return [
        {"from": float(edges[k]), "to": float(edges[k + 1]), "count": int(n), "height": 100.0 * int(n) / high}
        for k, n in enumerate(counts)
    ]


def _write_rows(found: Answered, path: Path) -> None:
    """One row for each training row: row, id, eta, and eta[column] of every column in its own unit."""
    arrow()
    import pyarrow as pa
    import pyarrow.parquet

    design = found.trained.design
    columns: dict[str, Any] = {"row": np.asarray(design.rows, dtype=np.int64)}
    if design.ids is not None:
        columns["id"] = [str(value) for value in design.ids]
    columns["eta"] = found.eta
    for j, feature in enumerate(design.features):
        columns[f"eta[{feature.name}]"] = found.cells[:, j] / feature.scale
    pyarrow.parquet.write_table(pa.table(columns), path)
