"""``fisherleak ledger``: what all releases on a ledger have told about the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fisherleak.cli import _common as common
from fisherleak.cli import _flags as flags
from fisherleak.cli._print import show_ledger

__all__ = ["ledger"]

SCHEMA = "fisherleak.spent/1"
MOST_LISTED = 20


def ledger(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A ledger that 'fisherleak release --ledger' keeps.")],
    table: flags.Table,
    limit: Annotated[
        float | None,
        typer.Option(
            "--limit", metavar="X", help="Say who is past this eta, in standard units; exit status 1 if anyone is."
        ),
    ] = None,
    delimiter: flags.Delimiter = None,
    encoding: flags.Encoding = None,
    header: flags.Header = None,
    columns: flags.Columns = None,
    quiet: flags.Quiet = False,
    json: flags.Json = False,
    debug: flags.Debug = False,
) -> int:
    """Print what has been spent on whom: the eta of every row over all releases that the ledger records.

    The table is read as for the last release. Rows are matched by id (--id of the releases, else row numbers); rows that came
    since are in no earlier release, and of those that left the ledger keeps the record. What is printed is derived from the
    data, and as confidential.

    \b
    Examples:
      fisherleak ledger people.ledger.json people.csv
      fisherleak ledger people.ledger.json people.csv --limit 1 --json
    """
    from fisherleak._support.checks import check_positive
    from fisherleak.audit.spending import spent_on

    form: dict[str, Any] = {"delimiter": delimiter, "encoding": encoding, "header": header, "columns": columns}
    most = None if limit is None else check_positive(limit, "limit")
    with common.quietly(quiet, json):
        spent = spent_on(file, common.source_table(table, **form))
    order = (-spent.eta).argsort(kind="stable")
    above = [] if most is None else [int(row) for row in order if spent.eta[row] > most]
    document = {
        "schema": SCHEMA,
        "releases": [{name: entry[name] for name in ("number", "at", "what", "rows")} for entry in spent.releases],
        "rows": int(spent.eta.size),
        "left": spent.left,
        "eta": {"mean": float(spent.eta.mean()), "max": float(spent.eta.max())},
        "most_exposed": [{"id": str(spent.ids[k]), "eta": float(spent.eta[k])} for k in order[:MOST_LISTED]],
        "limit": most,
        "past_limit": [str(spent.ids[row]) for row in above],
    }
    if json:
        common.emit_json(document)
    elif not quiet:
        show_ledger(document, spent.eta.tolist())
    return 1 if above else 0
