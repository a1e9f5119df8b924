"""``fisherleak predict``: what a released model says of the rows of a table."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fisherleak._support.atomic import check_file_place, written_whole
from fisherleak.cli import _common as common
from fisherleak.cli import _options as flags
from fisherleak.cli._print import say_reading

if TYPE_CHECKING:
    from fisherleak.releasing.predictions import Predictions


@flags.expand_option_groups
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model saved by 'fisherleak release'.")],
    table: flags.Table,
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="CSV file for the predictions (default: standard output)."),
    ] = None,
    id_: Annotated[
        str | None,
        flags.column(
            "--id", help="Write this column beside each prediction (default: the model card's, if TABLE has it)."
        ),
    ] = None,
    decimal: flags.Decimal = None,
    key: Annotated[
        Path | None,
        typer.Option(
            "--key", metavar="PUB", help="The publisher's public key (Ed25519, PEM), which must have signed the model."
        ),
    ] = None,
    overwrite: flags.Overwrite = False,
    form: flags.Form,
    quiet: flags.Quiet = False,
    debug: flags.Debug = False,
) -> int:
    """Predict the rows of a table with a released model, and say what was done.

    The model is checked against its model card as 'fisherleak verify' does it; nothing is loaded from its file but numbers.
    TABLE is read as the model card says: which columns are numbers, which are categories, what is missing. The output is CSV
    with one line for each row: the id, the prediction and, for classes, the probability of each. Sentences on standard error
    say what was missing, unknown, outside the declared bounds or ignored. Exit status 1: the model does not verify.

    \b
    Examples:
      fisherleak predict model.skops new.csv --out predictions.csv
      fisherleak predict model.skops new.csv --id patient_id > predictions.csv
      fisherleak predict model.skops new.csv --key publisher.pem --decimal ,
    """
    from fisherleak.releasing.files.earlier_files import free_digits
    from fisherleak.releasing.files.released_files import load_model
    from fisherleak.releasing.files.verification import verify
    from fisherleak.releasing.predictions import predict_rows, text_columns

    if out is not None:
        common.check_places({"--out": [out]}, [*common.files_of(model), table, key, form["columns"]])
        check_file_place(out, overwrite)
    with common.quietly(quiet, False):
        verified = verify(model, key)
        if verified.failed is not None:
            return common.say(verified.failed, status=1)
        saved = load_model(model)
        texts = {*text_columns(saved), *([] if (named := id_ or saved.settings.id) is None else [named.strip()])}
        found = predict_rows(saved, common.source_table(table, **form, texts=texts), id_, decimal)
        _write(found, out)
    signed = "no signature was checked (--key PUB checks one)" if key is None else "the key has signed the model card"
    checked = f"The model's file and its model card belong together, as 'fisherleak verify' checks it; {signed}."
    said = [
        *found.notes,
        checked,
        *(f"Not checked: {each}" for each in free_digits(saved.card)),
        f"Columns written: {', '.join(found.header[:12])}{', …' * (len(found.header) > 12)}.",
    ]
    say_reading([*said, *([] if out is None else [f"The predictions are in {out}."])], quiet)
    return 0


def _write(found: Predictions, out: Path | None) -> None:
    from fisherleak.releasing.predictions import write_predictions

    if out is not None:
        with written_whole(out.parent, [out.name]) as folder, (folder / out.name).open("w", encoding="utf-8") as file:
            write_predictions(found, file)
        return
    text = io.StringIO()
    write_predictions(found, text)
    lines = text.getvalue().splitlines()
    # a terminal would obey control characters; what is read by others is UTF-8, whatever the terminal's language is
    if not sys.stdout.isatty():
        getattr(sys.stdout, "reconfigure", lambda **_: None)(encoding="utf-8", errors="replace")
    common.emit("\n".join(map(common.printable, lines)) if sys.stdout.isatty() else text.getvalue().rstrip("\n"))
