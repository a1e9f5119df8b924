"""``fisherleak release``: train, calibrate, perturb, save."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fisherleak.cli import _common as common
from fisherleak.cli import _options as flags
from fisherleak.cli._complete import shapes, whose_etas
from fisherleak.cli._print import say_reading, show_reading, show_release
from fisherleak.cli._wording import told
from fisherleak.errors import InvalidInputError
from fisherleak.training.defaults import DEFAULT_L2

__all__ = ["release"]


@flags.grouped
def release(
    table: flags.Table,
    out: Annotated[Path, typer.Option("--out", metavar="MODEL", help="File for the model; its card is MODEL.json.")],
    *,
    eta: Annotated[
        float | None, typer.Option("--eta", metavar="X", help="The limit on every row's eta, in standard units.")
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option("--noise", metavar="SIGMA", help="The noise's standard deviation, in place of a limit."),
    ] = None,
    target: flags.Target = None,
    attribute: Annotated[
        list[str] | None,
        flags.column("--attribute", help="Limit what is revealed about this column alone, in its unit. Repeatable."),
    ] = None,
    over: Annotated[
        str,
        typer.Option(
            "--over",
            metavar="WHOSE",
            autocompletion=whose_etas,
            help="Whose etas are limited: admissible (whoever could be in the table), or max (the rows that are there; the "
            "noise's scale then tells about the row that decides it).",
        ),
    ] = "admissible",
    bounds: flags.Bounds = None,
    shape: Annotated[
        str | None,
        typer.Option(
            "--shape",
            metavar="SHAPE",
            autocompletion=shapes,
            help="Of the noise: isotropic (the same on all), hessian (costs less), or least-loss (costs least, tells more by "
            "itself). Without it the limit, the bounds and the number of rows decide.",
        ),
    ] = None,
    shape_from: Annotated[
        str | None,
        typer.Option(
            "--shape-from", metavar="TABLE", help="Public rows with the same columns that the noise's shape comes from."
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
            help="Penalty per row on standardised coefficients (default: with --eta for whoever could be in the table, what "
            f"numbers of the card give, {DEFAULT_L2:g} or more; else {DEFAULT_L2:g}).",
        ),
    ] = None,
    reading: flags.Reading,
    missing: flags.Missing = None,
    id_: flags.Id = None,
    person: flags.Person = None,
    levels: flags.Levels = None,
    public: flags.Public = None,
    held_out: flags.HeldOut = None,
    seed: flags.Seed = None,
    sign: Annotated[
        Path | None,
        typer.Option(
            "--sign", metavar="KEY", help="Sign the card with this private key (Ed25519, PEM, not encrypted)."
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            "--ledger",
            metavar="FILE",
            help="Record the release on this confidential file, made if it is not there.",
        ),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            "--limit",
            metavar="X",
            help="With --ledger: refuse a release that takes any row past this eta, all recorded ones counted.",
        ),
    ] = None,
    overwrite: flags.Overwrite = False,
    form: flags.Form,
    quiet: flags.Quiet = False,
    json: flags.Json = False,
    debug: flags.Debug = False,
) -> int:
    """Train a model, add the noise that keeps the limit, and save it with skops beside a JSON card.

    It is trained on all rows that have the target unless --held-out says otherwise. The model without noise is never written.
    Without --l2, numbers that its card tells anyway decide the penalty, and the card says how.

    \b
    Examples:
      fisherleak release people.csv --target sick --eta 0.5 --bounds age=0:120 --out model.skops
      fisherleak release people.csv --target income --eta 0.5 --shape hessian --bounds income=0:9000 --out model.skops
      fisherleak release wages.csv --target wage --person worker --over max --eta 0.5 --out model.skops
      fisherleak release people.csv --target income --attribute age --eta 0.1 --out model.skops
      fisherleak release people.csv --target sick --id name --eta 0.3 --out m2.skops --ledger people.ledger.json --limit 1
      fisherleak release people.csv --target sick --levels city=Bonn,Genua --eta 0.5 --out model.skops --sign key.pem
    """
    from fisherleak.protection.ledger.ledger import OverspentError
    from fisherleak.releasing.files.released_files import card_path, save_model

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
        _check_places(table, (out, card_path(out)), ledger, sign)
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
        show_release(told(card), cost, str(out))
        show_reading(read)
    return 0


def _check_places(table: str, written: tuple[Path, Path], ledger: Path | None, sign: Path | None) -> None:
    """Refuse to write over what is read."""
    out, places = written[0], [path.resolve() for path in written]
    if table != "-" and Path(table).resolve() in places:
        raise InvalidInputError(f"--out {out} is the table itself, or its card would be: choose another file.")
    if ledger is not None and (ledger.resolve() in places or str(ledger) == table):
        raise InvalidInputError(f"--ledger {ledger} is another file of this command: choose one of its own.")
    if sign is not None and sign.resolve() in places:
        raise InvalidInputError(f"--out {out} is the key itself, or its card would be: choose another file.")
