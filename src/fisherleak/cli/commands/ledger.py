"""``fisherleak ledger``: what all releases on a ledger have told about the rows of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fisherleak._support.numbers import number
from fisherleak.cli import _common as common
from fisherleak.cli import _layout as layout
from fisherleak.cli import _options as flags
from fisherleak.cli._layout import paragraph
from fisherleak.cli._print import CONFIDENTIAL, FEW, eta_words, exposed_rows, gate_lines, screen_or_all
from fisherleak.errors import InvalidInputError

SCHEMA = "fisherleak.spent/1"
CARRIED = "fisherleak.carried/1"
MOST_LISTED = 20


@flags.expand_option_groups
def ledger(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A ledger that 'fisherleak release --ledger' keeps.")],
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="[TABLE]", help="CSV or Parquet file, in gzip or not; - is standard input.", show_default=False
        ),
    ] = None,
    *,
    carry_to: Annotated[
        Path | None,
        typer.Option(
            "--carry-to",
            metavar="NEW",
            help="Start the ledger NEW from this one's totals, without TABLE: for corrected rows, other ids, another target.",
        ),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            "--limit",
            metavar="X",
            help="List who is above this eta, in units as of 'release --eta'; exit status 1 if anyone is.",
        ),
    ] = None,
    form: flags.Form,
    verbose: flags.Verbose = False,
    quiet: flags.Quiet = False,
    json: flags.Json = False,
    debug: flags.Debug = False,
) -> int:
    """Print the eta of every row over all releases that the ledger records.

    The table is read as for the last release. Rows are matched by id (--id of the releases, else row numbers). New rows
    are in no earlier release. The ledger keeps the record of rows that are no longer in the table. A row with the same values
    or cells as a recorded row, but another id, gets the total of that row. The output is as confidential as the data.

    \b
    Examples:
      fisherleak ledger people.ledger.json people.csv
      fisherleak ledger people.ledger.json people.csv --limit 1 --json
      fisherleak ledger people.ledger.json --carry-to corrected.ledger.json
    """
    from fisherleak._support.checks import check_positive
    from fisherleak.releasing.ledgers import id_columns, spent_on

    most = None if limit is None else check_positive(limit, "limit")
    if carry_to is not None:
        return _carried(file, table, carry_to, most, quiet, json)
    if table is None:
        raise InvalidInputError(
            "TABLE is missing: name the table that the ledger is about, or --carry-to a new ledger."
        )
    with common.quietly(quiet, json):
        spent = spent_on(file, common.source_table(table, texts=id_columns(file), **form))
    order = (-spent.eta).argsort(kind="stable")
    above = [] if most is None else [int(row) for row in order if spent.eta[row] > most]
    document = {
        "schema": SCHEMA,
        "releases": [{name: entry[name] for name in ("number", "at", "what", "rows")} for entry in spent.releases],
        "people" if spent.people else "rows": int(spent.eta.size),
        "left": spent.left,
        "renamed": spent.renamed,
        "eta": {"mean": float(spent.eta.mean()), "max": float(spent.eta.max())},
        "most_exposed": [{"id": str(spent.ids[k]), "eta": float(spent.eta[k])} for k in order[:MOST_LISTED]],
        "limit": most,
        "past_limit": [str(spent.ids[row]) for row in above],
    }
    if json:
        common.emit_json(document)
    elif not quiet:
        show_ledger(document, spent.eta.tolist(), verbose=verbose)
    return 1 if above else 0


def _carried(file: Path, table: str | None, new: Path, limit: float | None, quiet: bool, json: bool) -> int:
    """Start a ledger from the totals of another, and say so."""
    from fisherleak.protection.ledger.ledger import Ledger

    if table is not None or limit is not None:
        given = "TABLE" if table is not None else "--limit"
        raise InvalidInputError(f"--carry-to needs no {given}: it starts a new ledger from the totals of '{file}'.")
    ledger = Ledger(file)
    fresh = ledger.carry_to(new)
    count = len(fresh.entries)
    if json:
        common.emit_json({"schema": CARRIED, "from": str(file), "to": str(new), "releases": count})
    elif not quiet:
        paragraph(
            common.printable(
                f"{new} starts from the totals of {count} {'release' if count == 1 else 'releases'}, by id. Record further "
                f"releases there; {file} can still be read, and takes no more. Both are confidential."
            )
        )
    return 0


def show_ledger(document: dict[str, Any], etas: Sequence[float], *, verbose: bool) -> None:
    """What has been spent on each row, with a picture of how it is spread."""
    releases, eta, left, renamed = (document[name] for name in ("releases", "eta", "left", "renamed"))
    one, many = ("person", "people") if "people" in document else ("row", "rows")
    more = f"; {number(left)} more {'rows ' if one == 'person' else ''}left the table, and keep their record"
    other = f"; {number(renamed)} carry the total of another id that had their values"
    about = layout.pair_lines(
        [
            ("releases", f"{number(len(releases))}, the last {releases[-1]['at']}: {_short(releases[-1]['what'])}"),
            (many, number(document[many]) + more * bool(left) + other * bool(renamed)),
            (f"eta of a {one}", eta_words(eta, "releases")),
        ]
    )
    spread = ["", *layout.histogram(etas, bins=12 if verbose else 6), ""]
    shown = MOST_LISTED if verbose else FEW
    blocks = [spread, ["Most exposed"], *exposed_rows(document["most_exposed"][:shown])]
    first = [*gate_lines(document, many, verbose), *about]
    screen_or_all(first, blocks, verbose, ["", *layout.lines("", CONFIDENTIAL)])


def _short(what: str) -> str:
    """What was released, its numbers to three digits."""
    return re.sub(r"\d+\.\d{3,}", lambda found: number(float(found[0])), what)
