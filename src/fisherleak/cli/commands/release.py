"""``fisherleak release``: train, calibrate, perturb, save."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fisherleak.cli import _common as common
from fisherleak.cli import _options as flags
from fisherleak.cli._print import say_reading, show_release
from fisherleak.cli._wording import told
from fisherleak.training.defaults import DEFAULT_L2


@flags.expand_option_groups
def release(
    table: flags.Table,
    out: Annotated[
        Path, typer.Option("--out", metavar="MODEL", help="File for the model; its model card is MODEL.json.")
    ],
    *,
    eta: Annotated[
        float | None, typer.Option("--eta", metavar="X", help="Limit on every row's eta. It is in standard deviations.")
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option("--noise", metavar="SIGMA", help="The noise scale, in place of a limit."),
    ] = None,
    target: flags.Target = None,
    attribute: Annotated[
        list[str] | None,
        flags.column(
            "--attribute", help="Limit the eta of this column alone. The limit is then in its unit. Repeatable."
        ),
    ] = None,
    over: flags.Over = "any-record",
    bounds: flags.Bounds = None,
    shape: flags.Shape = None,
    shape_from: Annotated[
        str | None,
        typer.Option(
            "--shape-from",
            metavar="TABLE",
            help="Public rows with the same columns, from which the covariance of the noise is computed.",
        ),
    ] = None,
    balance: Annotated[
        bool, typer.Option("--balance", help="Reweight rows with IRFIL before, weights counted; with --over max.")
    ] = False,
    model: flags.Model = None,
    l2: Annotated[
        float | None,
        typer.Option(
            "--l2",
            metavar="X",
            help="Penalty per row on standardised coefficients (default: with --eta for any record within the bounds, what "
            f"numbers of the model card give, {DEFAULT_L2:g} or more; else {DEFAULT_L2:g}).",
        ),
    ] = None,
    reading: flags.Reading,
    missing: flags.Missing = None,
    id_: flags.Id = None,
    person: flags.Person = None,
    rows_per_person: flags.RowsPerPerson = None,
    levels: flags.Levels = None,
    public: flags.Public = None,
    held_out: flags.HeldOut = None,
    seed: flags.Seed = None,
    sign: Annotated[
        Path | None,
        typer.Option(
            "--sign", metavar="KEY", help="Sign the model card with this private key (Ed25519, PEM, not encrypted)."
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            "--ledger",
            metavar="FILE",
            help="Record the release in this file. It is made if it is not there; keep it internal.",
        ),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            "--limit",
            metavar="X",
            help="Refuse more than this eta over the ledger's releases. Needs --ledger.",
        ),
    ] = None,
    overwrite: flags.Overwrite = False,
    form: flags.Form,
    verbose: flags.Verbose = False,
    quiet: flags.Quiet = False,
    json: flags.Json = False,
    debug: flags.Debug = False,
) -> int:
    """Train a model, add noise that keeps a limit, save it with its model card.

    It is trained on all rows that have the target unless --held-out says otherwise. The model without noise is never written.
    Without --l2, a rule decides the penalty by numbers of the model card and scales on its grid, and the model card says how.

    \b
    Examples:
      fisherleak release wages.csv --target wage --eta 0.5 --out wage.skops
      fisherleak release people.csv --target sick --eta 0.5 --bounds age=0:120 --out model.skops
      fisherleak release people.csv --target income --eta 0.5 --shape hessian --bounds income=0:9000 --out model.skops
      fisherleak release wages.csv --target wage --person worker --rows-per-person 12 --eta 0.5 --out model.skops
      fisherleak release people.csv --target income --attribute age --eta 0.1 --out model.skops
      fisherleak release people.csv --target sick --id name --eta 0.3 --out m2.skops --ledger people.ledger.json --limit 1
      fisherleak release people.csv --target sick --levels city=Bonn,Genua --eta 0.5 --out model.skops --sign key.pem
    """
    from fisherleak.protection.ledger.ledger import OverspentError
    from fisherleak.releasing.cards.signatures import card_path
    from fisherleak.releasing.files.released_files import save_model

    over = common.over_from(over)
    settings = common.settings_from(
        target=target,
        model=model,
        l2=l2,
        held_out=0.0 if held_out is None else held_out,
        seed=seed,
        public=public,
        levels=common.levels_from(levels),
        id=id_,
        person=person,
        missing=missing,
        **reading,
    )
    with common.quietly(quiet, json):
        written = {"--out": [out, card_path(out)], "--ledger": [] if ledger is None else [ledger]}
        common.check_places(written, [table, sign, shape_from, form["columns"]])
        raw = common.source_table(table, **form)
        public_rows = None if shape_from is None else common.source_table(shape_from, **form)
        limited = attribute or None
        read: list[str] = []
        try:
            card, cost = save_model(
                *(raw, settings, out),
                eta=eta,
                noise=noise,
                attribute=limited,
                over=over,
                bounds=common.bounds_from(bounds),
                balance=balance,
                shape=shape,
                shape_from=public_rows,
                rows_per_person=rows_per_person,
                overwrite=overwrite,
                sign=sign,
                ledger=ledger,
                limit=limit,
                choose_l2=l2 is None,
                tell=read.extend,
            )
        except OverspentError as error:
            return common.say(str(error), status=1)
    if json:
        common.emit_json(card)
        say_reading(read, quiet)
    elif not quiet:
        show_release(told(card), cost, str(out), read, verbose=verbose)
    return 0
