"""``fisherleak answers``: who is exposed by what an interface has answered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fisherleak._support.atomic import check_folder_place
from fisherleak._support.numbers import number, percent_at_most, share
from fisherleak.cli import _common as common
from fisherleak.cli import _layout as layout
from fisherleak.cli import _options as flags
from fisherleak.cli._common import printable
from fisherleak.cli._complete import ANSWERED, offered
from fisherleak.cli._print import (
    CONFIDENTIAL,
    FEW,
    MOST_LISTED,
    MOST_SHOWN,
    eta_words,
    exposed_rows,
    gate_lines,
    how_it_was_read,
    say_reading,
    screen_or_all,
)
from fisherleak.errors import InvalidInputError

COUNTED = {
    "nothing": "end to end: what scaling learned is counted, categories are public",
    "preprocessing": "the model alone: what preprocessing learned is taken as public",
}


@flags.expand_option_groups
def answers(
    table: flags.Table,
    queries: Annotated[
        str,
        typer.Argument(
            metavar="QUERIES", help="CSV or Parquet file: one row for each query, with the model's columns."
        ),
    ],
    *,
    target: flags.Target = None,
    noise: Annotated[
        float | None,
        typer.Option(
            "--noise", metavar="SIGMA", help="Standard deviation of the noise on each answer, in the answer's unit."
        ),
    ] = None,
    of: Annotated[
        str,
        typer.Option(
            "--of",
            metavar="WHAT",
            autocompletion=offered(ANSWERED),
            help="What is answered: score (default), probability, or label (drawn from the model's own probability).",
        ),
    ] = "score",
    released: flags.Released = None,
    max_eta: Annotated[
        float | None,
        typer.Option("--max-eta", metavar="X", help="Exit with status 1 if a row's eta is above X."),
    ] = None,
    model: flags.Model = None,
    l2: flags.L2 = None,
    reading: flags.Reading,
    id_: flags.Id = None,
    public: flags.Public = None,
    held_out: flags.HeldOut = None,
    seed: flags.Seed = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for report.html, answers.parquet and answers.json."),
    ] = None,
    overwrite: flags.Overwrite = False,
    form: flags.Form,
    verbose: flags.Verbose = False,
    quiet: flags.Quiet = False,
    json: flags.Json = False,
    debug: flags.Debug = False,
) -> int:
    """Measure what the answers to a log of queries reveal about the rows behind the model.

    The model is fitted to TABLE as for an audit; with --released it is that release, and its answers get no noise of
    their own. A query that was asked twice, and answered with new noise, stands in QUERIES twice.

    \b
    Examples:
      fisherleak answers people.csv queries.csv --target income --noise 500
      fisherleak answers people.csv queries.csv --target sick --of label --max-eta 0.5 --out report
      fisherleak answers people.csv queries.csv --released model.skops
    """
    from fisherleak._support.checks import check_positive
    from fisherleak.auditing.query_log import answers_document, answers_of_release, answers_with_noise
    from fisherleak.report.outputs import ANSWERS_FILES, write_answers

    if out is not None:
        read = [table, queries, *common.files_of(released), form["columns"]]
        common.check_places({"--out": [out / name for name in ANSWERS_FILES]}, read)
        check_folder_place(out, overwrite)
    limit = None if max_eta is None else check_positive(max_eta, "max_eta")
    held_out = 0.0 if held_out is None and released is None else held_out
    decided: dict[str, Any] = {"target": target, "model": model, "l2": l2, "held_out": held_out, "seed": seed}
    decided |= {"public": public, "id": id_, **reading}
    with common.quietly(quiet, json):
        by = common.what_decides(released, decided, noise)
        _check_noise(noise, of, released)
        trained, settings, saved = common.fitted_or_released(by, table, form)
        log = common.source_table(queries, **form)
        if saved is None:
            found = answers_with_noise(trained, log, noise, of)
        else:
            found = answers_of_release(trained, log, saved.noise_on(trained))
        document = answers_document(found, settings, limit)
        if out is not None:
            write_answers(found, document, out)
    if json:
        common.emit_json(document)
        say_reading(found.trained.design.decided, quiet)
    elif not quiet:
        show_answers(document, found.eta.tolist(), found.trained.design.decided, verbose=verbose, out=out)
    return 1 if document["past_limit"] else 0


def _check_noise(noise: float | None, of: str, released: Path | None) -> None:
    """Refuse answers that nothing hides, or that are hidden twice."""
    if released is not None:
        if of == "label":
            raise InvalidInputError(
                "--of label is for a model without noise, and a released one has noise: leave out --of, or --released."
            )
    elif (noise is None) != (of == "label"):
        raise InvalidInputError(
            "--of score and --of probability need --noise: an answer without noise has no limit on what it reveals. "
            "--of label draws a label instead, without --noise."
        )


def show_answers(
    document: dict[str, Any], etas: Sequence[float], read: Sequence[str], *, verbose: bool, out: Path | None
) -> None:
    """Who is exposed by a log of queries: a sentence first, then whom and what about them."""
    asked = f"{number(document['queries'])} of {number(document['distinct'])}"
    about = [
        ("answers", f"{asked} different queries: {document['how']}"),
        ("rows", number(document["rows"])),
        ("eta of a row", eta_words(document["eta"], "answers")),
        *([("counted", COUNTED[document["public"]])] if verbose else []),
    ]
    first = [
        *gate_lines(document, "rows", verbose),
        *layout.lines("", _revealed(document)),
        "",
        *layout.pair_lines(about),
        "",
    ]
    if document["times"]:
        times = f"Such a log could be answered {number(document['times'])} times before a row passes the limit."
        first[-1:] = [*layout.lines("", times), ""]
    columns = [
        (c["name"], layout.inverse(c["eta"]), "" if c["share"] is None else _at_most(c["share"]), c["id"])
        for c in document["columns"][: MOST_LISTED if verbose else MOST_SHOWN]
    ]
    worst = layout.table_lines(("column", "least error", "revealed", "id"), columns)
    rows = ", ".join(f"{item['id']} (eta {number(item['eta'])})" for item in document["most_exposed"][:FEW])
    blocks = [["Worst value of a column", *worst], ["", *layout.lines("", f"Most exposed rows: {rows}")]]
    if verbose:
        blocks += [["", *layout.histogram(etas)], ["", "Most exposed"], *exposed_rows(document["most_exposed"])]
    blocks += how_it_was_read(read)
    ends = [] if out is None else [f"open {printable(out / 'report.html')}"]
    screen_or_all(first, blocks, verbose, ["", *layout.lines("", CONFIDENTIAL), *ends])


def _at_most(part: float) -> str:
    """A share that is an upper bound, never all of it."""
    return percent_at_most(part) if part < 0.99 else share(part)


def _revealed(document: dict[str, Any]) -> str:
    """What share of a number these answers reveal, in a sentence."""
    half, shares = document["above_half"], [c["share"] for c in document["columns"] if c["share"] is not None]
    if half is None or not shares:
        return "What share of a value these answers reveal is not known; least errors are below."
    if half:
        rows = f"{number(half)} of {number(document['rows'])} rows"
        return f"In {rows}, more than half of a numeric value is revealed to an attacker who knows everything else."
    most = _at_most(max(shares))
    return f"At most {most} of any numeric value is revealed, on average, to an attacker who knows everything else."
