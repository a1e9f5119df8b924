"""The files that people get: those of an audit, of a leakage measured from Python, and of a query log; whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fisherleak._support.atomic import check_file_place, written_whole
from fisherleak._support.json import versions
from fisherleak._support.namespaces import Json
from fisherleak.auditing.fitted_models.summary_of_leakage import summary_of_leakage
from fisherleak.auditing.plain_records import as_json
from fisherleak.auditing.query_log import Answered
from fisherleak.auditing.records import Audit
from fisherleak.auditing.report_summary import Summary
from fisherleak.report.board import board_page
from fisherleak.report.render import page_without_scripts, render
from fisherleak.tables.read.opening import arrow

AUDIT_FILES = ("report.html", "leakage.parquet", "summary.json")
ANSWERS_FILES = ("report.html", "answers.parquet", "answers.json")
BARS = 24
"""Parts of the range of eta in the picture of a query log."""


def write_outputs(audit: Audit, summary: Summary | Json, folder: Path) -> None:
    """The three files of an audit, or nothing."""
    with written_whole(folder, AUDIT_FILES) as place:
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
    kinds += [(name, pa.float64()) for name in ("eta", *names, "eta_label", *(present,) * audit.membership.measured)]
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


def write_report(leakage: Any, path: Any, overwrite: bool = False, **options: Any) -> Path:
    """The report of a leakage that was measured from Python, as one HTML file; options are those of ``summary_of_leakage``."""
    check_file_place(Path(path), overwrite)
    return write_page(summary_of_leakage(leakage, **options), path, overwrite)


def write_page(summary: Summary, path: Any, overwrite: bool = False) -> Path:
    """The report of a summary, as one HTML file."""
    return _write_one(render, summary, path, overwrite)


def write_board(summary: Summary, path: Any, overwrite: bool = False) -> Path:
    """The page of a summary that may be handed out, as one HTML file."""
    return _write_one(board_page, summary, path, overwrite)


def _write_one(page: Callable[[Summary], str], summary: Summary, path: Any, overwrite: bool) -> Path:
    place = Path(path)
    check_file_place(place, overwrite)
    text = page(summary)
    with written_whole(place.parent, [place.name]) as folder:
        (folder / place.name).write_text(text, encoding="utf-8", errors="replace")
    return place


def write_answers(found: Answered, document: Json, folder: Path) -> None:
    """The three files of a query log compared with a table, or nothing."""
    with written_whole(folder, ANSWERS_FILES) as place:
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
            "title": f"What {document['queries']} answers reveal about {design.source}",
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
