"""``fisherleak verify``: whether a released model, its model card and a signature belong together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from fisherleak.cli import _common as common
from fisherleak.cli import _layout as layout
from fisherleak.cli import _options as flags
from fisherleak.cli._print import first_sentence, screen_or_all
from fisherleak.cli._wording import in_options

SCHEMA = "fisherleak.verification/1"


def verify(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model saved by 'fisherleak release'.")],
    key: Annotated[
        Path | None,
        typer.Option(
            "--key", metavar="PUB", help="The publisher's public key (Ed25519, PEM), which must have signed it."
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option("--ledger", metavar="FILE", help="The latest copy of the ledger, which must record this release."),
    ] = None,
    verbose: flags.Verbose = False,
    quiet: flags.Quiet = False,
    json: flags.Json = False,
    debug: flags.Debug = False,
) -> int:
    """Check a released model against its model card, and the model card against its digest and signature.

    The file is built again from its parameters and the model card, and compared: it can contain nothing else. No table is
    needed, and nothing is loaded from the model's file. Whether the claims of the model card are true is not checked:
    'fisherleak audit TABLE --released MODEL' checks that. Exit status 1: it does not verify.

    \b
    Examples:
      fisherleak verify model.skops
      fisherleak verify model.skops --key publisher.pem
      fisherleak verify model.skops --ledger people.ledger.json
    """
    from fisherleak.releasing.files.verification import verify as verified

    found = verified(model, key, ledger)
    unchecked = [in_options(sentence) for sentence in found.unchecked]
    if json:
        document = {"schema": SCHEMA, "verified": found.failed is None, "confirmed": list(found.confirmed)}
        common.emit_json({**document, "failed": found.failed, "unchecked": unchecked})
    status = 0 if found.failed is None else common.say(f"Not verified: {found.failed}", status=1)
    if not (quiet or json):
        show_verification(found.confirmed, found.failed, unchecked, verbose=verbose)
    return status


def show_verification(confirmed: Sequence[str], failed: str | None, unchecked: Sequence[str], *, verbose: bool) -> None:
    """Whether a released model verifies, then what was checked and what was not; the first sentence of each, or all of it."""
    if failed is not None:
        return layout.sentences("Checked before that:", confirmed) if verbose and confirmed else None
    said = [[each if verbose else first_sentence(each) for each in part] for part in (confirmed, unchecked)]
    blocks = [layout.lines("  - ", each) for each in said[0]]
    blocks += [["Not checked:"], *(layout.lines("  - ", each) for each in said[1])]
    return screen_or_all(["Verified."], blocks, verbose, more=["-v says more of each."])
